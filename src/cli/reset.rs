//! `rmq group reset|skip|clone-offsets`, and the way in which every change of offsets goes.
//!
//! Plan, preview, question, backup, one request a queue (or one a broker), read back, undo line.

mod carry_out;
mod kept;
mod preview;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use super::exit::{self, Failure};
use super::lag::Known;
use super::quoted;
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use crate::client::lag::GroupKind;
use crate::client::positions::{Audience, Goal, GoalError, Move, MoveError, Position};
use crate::client::saved_offsets::{Chosen, SavedOffsets};
use crate::client::words::counted;
use crate::client::{BrokerAt, Error, Which};
use crate::protocol::model::{RETRY_PREFIX, check_group, check_topic};

pub use carry_out::carry_out;
pub use kept::{dir as kept_dir, newest};

/// Digits below this are an offset, from it on an epoch time: 2001 in seconds.
const FIRST_EPOCH: i64 = 1_000_000_000;
/// A time may be so far ahead of this host's clock: those of other hosts differ, ms.
const AHEAD_MS: i64 = 60_000;

/// How positions are moved.
#[derive(Debug, Clone, Args)]
pub struct MovingArgs {
    /// How long the committed offsets of a group with clients are watched afterwards
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = time::parse_duration)]
    verify_wait: Duration,
    /// Move groups of the brokers' own as well: they keep the books of timers, transactions and the like
    #[arg(long)]
    force_system: bool,
}

/// `rmq group reset`
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("goal").required(true).multiple(true).args(["to", "to_offset", "queue", "shift", "from_file", "from_group"])))]
pub struct ResetArgs {
    /// Group name
    group: String,
    /// Topic whose queues are meant
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// A time that is not in the future, earliest, latest, or an offset (a number below 1000000000)
    #[arg(long, value_name = "WHERE", value_parser = goal, allow_hyphen_values = true,
        conflicts_with_all = ["to_offset", "shift", "from_file"])]
    to: Option<To>,
    /// This offset in every queue
    #[arg(long, value_name = "N", conflicts_with_all = ["shift", "from_file"])]
    to_offset: Option<i64>,
    /// Only this queue: to this offset, or without one to where --to, --to-offset or --shift say; BROKER is a name or
    /// an address; repeatable
    #[arg(long, value_name = "BROKER/Q[=OFFSET]", value_parser = queue, conflicts_with = "from_file")]
    queue: Vec<(Queue, Option<i64>)>,
    /// That many messages forward in every queue, or back when negative; stops at the ends
    #[arg(
        long,
        value_name = "N",
        allow_hyphen_values = true,
        conflicts_with = "from_file"
    )]
    shift: Option<i64>,
    /// The offsets of a file as `rmq offset export` writes it
    #[arg(long, value_name = "FILE")]
    from_file: Option<PathBuf>,
    /// Where this group is; only the queues it has a position in
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["to", "to_offset", "shift", "queue", "from_file"])]
    from_group: Option<String>,
    /// Do it; without this flag the result is only shown
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    moving: MovingArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq group skip`
#[derive(Debug, Clone, Args)]
pub struct SkipArgs {
    /// Group name
    group: String,
    /// Topic whose queues are meant
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// Do it; without this flag the result is only shown
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    moving: MovingArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq group clone-offsets`
#[derive(Debug, Clone, Args)]
pub struct CloneArgs {
    /// Group to read
    source: String,
    /// Group that gets the same offsets; it must exist
    target: String,
    /// Only this topic [default: every topic of the source but its retry topic]
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    #[command(flatten)]
    moving: MovingArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// What `--to` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
enum To {
    Offset(i64),
    When(time::When),
}

fn goal(text: &str) -> Result<To, String> {
    match text.trim().parse::<i64>() {
        Ok(number) if (0..FIRST_EPOCH).contains(&number) => Ok(To::Offset(number)),
        _ => text.parse().map(To::When),
    }
}

/// A broker, by name or address, and a queue of it.
pub type Queue = (String, i32);

fn place(text: &str) -> Option<Queue> {
    let (broker, queue) = text.rsplit_once('/')?;
    let (broker, queue) = (broker.trim(), queue.trim().parse().ok()?);
    (!broker.is_empty() && queue >= 0).then(|| (broker.to_owned(), queue))
}

/// `BROKER/Q=OFFSET`
pub fn queue_offset(text: &str) -> Result<(Queue, i64), String> {
    let parse = || {
        let (at, offset) = text.rsplit_once('=')?;
        let offset = offset.trim().parse().ok().filter(|offset| *offset >= 0)?;
        Some((place(at)?, offset))
    };
    parse().ok_or_else(|| format!("\"{text}\" is not BROKER/QUEUE=OFFSET, such as broker-a/3=1500"))
}

/// `BROKER/Q` or `BROKER/Q=OFFSET`
fn queue(text: &str) -> Result<(Queue, Option<i64>), String> {
    if text.contains('=') {
        return queue_offset(text).map(|(at, offset)| (at, Some(offset)));
    }
    let at = place(text).ok_or_else(|| {
        format!("\"{text}\" is not BROKER/QUEUE, such as broker-a/3, or BROKER/QUEUE=OFFSET")
    })?;
    Ok((at, None))
}

/// Queues by the names of their brokers, which may be given as addresses. One that comes twice is refused: it cannot go
/// to two places.
pub fn by_name<T>(
    brokers: &[BrokerAt],
    queues: impl IntoIterator<Item = (Queue, T)>,
) -> Result<BTreeMap<Queue, T>, Failure> {
    let mut out = BTreeMap::new();
    for ((broker, queue), value) in queues {
        let known = brokers
            .iter()
            .find(|at| at.addr == broker || at.id.to_string() == broker);
        let name = known.map_or_else(|| broker.clone(), |at| at.id.name.clone());
        if out.insert((name, queue), value).is_some() {
            return Err(Failure::usage(format!("queue {broker}/{queue} is named twice")));
        }
    }
    Ok(out)
}

impl From<MoveError> for Failure {
    fn from(e: MoveError) -> Self {
        match e {
            MoveError::Call(e) => Self::from(e),
            MoveError::Goal(e @ GoalError::Range { .. }) => {
                Self::new(exit::PRECONDITION, format!("{e}; nothing was changed"))
                    .because("An offset outside of a queue is never sent.")
            }
            MoveError::Goal(e @ GoalError::NoQueue(_)) => Self::new(exit::NOT_FOUND, e.to_string()),
        }
    }
}

fn names(group: &str, topic: &str) -> Result<(), Failure> {
    check_group(group).map_err(|e| Failure::usage(format!("group \"{group}\": {e}")))?;
    check_topic(topic).map_err(|e| Failure::usage(format!("topic \"{topic}\": {e}")))
}

/// Reads a file of offsets; `-` is stdin.
pub fn read_file(path: &std::path::Path) -> Result<SavedOffsets, Failure> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?;
    SavedOffsets::parse(&text)
        .map_err(|e| Failure::usage(format!("{} is no file of offsets: {e}", path.display())))
}

/// `rmq group reset`
pub async fn reset(session: &Session, args: ResetArgs) -> Result<(), Failure> {
    names(&args.group, &args.topic)?;
    let goal = if let Some(to) = &args.to {
        match to {
            To::Offset(offset) => Goal::Offset(*offset),
            To::When(time::When::Earliest) => Goal::Earliest,
            To::When(time::When::Latest) => Goal::Latest,
            To::When(when) => {
                let now = time::now_ms();
                let at = when
                    .at_ms(now, &session.printer.zone)
                    .map_err(|e| Failure::usage(format!("--to: {e}")))?
                    .unwrap_or(0);
                if at > now.saturating_add(AHEAD_MS) {
                    return Err(in_future(session, &args, at));
                }
                Goal::Time(at)
            }
        }
    } else if let Some(offset) = args.to_offset {
        Goal::Offset(offset)
    } else if let Some(by) = args.shift {
        Goal::Shift(by)
    } else if let Some(path) = &args.from_file {
        let saved = read_file(path)?.by_topic();
        let key = (args.group.clone(), args.topic.clone());
        let offsets = saved.get(&key).cloned().ok_or_else(|| {
            Failure::new(
                exit::NOT_FOUND,
                format!(
                    "{} has no offsets of {} in {}",
                    path.display(),
                    args.group,
                    args.topic
                ),
            )
        })?;
        Goal::Exact(offsets)
    } else if let Some(source) = &args.from_group {
        let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
        goal_of_group(session, &brokers, source, (&args.group, &args.topic)).await?
    } else {
        Goal::Exact(BTreeMap::new())
    };
    // What is wrong by itself needs no server.
    in_queues(goal.clone(), by_name(&[], args.queue.clone())?)?;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    let wish = Wish {
        action: format!("reset offsets of {} in {}", args.group, args.topic),
        group: &args.group,
        topic: &args.topic,
        goal: in_queues(goal, by_name(&brokers, args.queue)?)?,
        execute: args.execute,
        moving: args.moving,
    };
    wish.grant(session, &brokers).await
}

/// A goal that `--queue` limits to some queues, or that it is itself.
fn in_queues(goal: Goal, queues: BTreeMap<Queue, Option<i64>>) -> Result<Goal, Failure> {
    if queues.is_empty() {
        return Ok(goal);
    }
    let alone = matches!(goal, Goal::Exact(_));
    let offsets: BTreeMap<Queue, i64> = queues
        .iter()
        .filter_map(|(at, offset)| Some((at.clone(), (*offset)?)))
        .collect();
    match (alone, offsets.len()) {
        (true, n) if n == queues.len() => Ok(Goal::Exact(offsets)),
        (false, 0) => Ok(Goal::Queues(queues.into_keys().collect(), Box::new(goal))),
        (true, _) => Err(Failure::usage(
            "--queue BROKER/Q without an offset needs --to, --to-offset or --shift",
        )),
        (false, _) => Err(Failure::usage(
            "--queue BROKER/Q=OFFSET says where the queue goes already: leave the offset or --to, --to-offset, --shift away",
        )),
    }
}

/// A broker gives the end for a time that no message has reached: all that is unread would be skipped for a slip in a year.
fn in_future(session: &Session, args: &ResetArgs, at: i64) -> Failure {
    let at = session.printer.zone.text(at).unwrap_or_else(|| at.to_string());
    Failure::usage(format!("--to: {at} is in the future; nothing was changed"))
        .because("No message is stored after it, and a broker would take the end of each queue.")
        .hint(format!(
            "rmq group reset {} --topic {} --to latest, if the end is meant",
            quoted(&args.group),
            quoted(&args.topic)
        ))
}

/// `rmq group skip`
pub async fn skip(session: &Session, args: SkipArgs) -> Result<(), Failure> {
    names(&args.group, &args.topic)?;
    let wish = Wish {
        action: format!("skip the backlog of {} in {}", args.group, args.topic),
        group: &args.group,
        topic: &args.topic,
        goal: Goal::Latest,
        execute: args.execute,
        moving: args.moving,
    };
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    wish.grant(session, &brokers).await
}

/// Where another group is in the topic.
async fn goal_of_group(
    session: &Session,
    brokers: &[BrokerAt],
    source: &str,
    (group, topic): (&str, &str),
) -> Result<Goal, Failure> {
    check_group(source).map_err(|e| Failure::usage(format!("group \"{source}\": {e}")))?;
    if source == group {
        return Err(Failure::usage("source and target are the same group"));
    }
    let chosen = Chosen {
        groups: BTreeSet::from([source.to_owned()]),
        topic: Some(topic.to_owned()),
    };
    let saved = session.client.saved_offsets(brokers, &chosen, false).await?;
    let positions = (session.client.positions(brokers, group, topic).await).map_err(refused)?;
    match saved.by_topic().into_values().next() {
        Some(offsets) => Ok(fitting(&positions, &offsets)),
        None => Err(Failure::new(
            exit::NOT_FOUND,
            format!("group {source} has no committed offsets in {topic}"),
        )
        .hint(format!("rmq offset get {source}"))),
    }
}

/// Offsets of another group as a goal. That group may have committed beyond a queue that was cut: what is sent fits the
/// queue.
fn fitting(positions: &[Position], offsets: &BTreeMap<(String, i32), i64>) -> Goal {
    let fitting = positions.iter().filter_map(|at| {
        let key = (at.broker.id.name.clone(), at.queue);
        let offset = offsets.get(&key)?.clamp(&at.min, &at.max);
        Some((key, *offset))
    });
    Goal::Exact(fitting.collect())
}

/// A move of one group in one topic, previewed unless it is to be executed.
struct Wish<'a> {
    action: String,
    group: &'a str,
    topic: &'a str,
    goal: Goal,
    execute: bool,
    moving: MovingArgs,
}

impl Wish<'_> {
    async fn grant(self, session: &Session, brokers: &[BrokerAt]) -> Result<(), Failure> {
        session.warn_of_dead_name_servers();
        let known = Known::new();
        let batch = batch(session, &known, brokers, self.group, self.topic, self.goal).await?;
        if !self.execute {
            return preview::show(session, &batch).await;
        }
        carry_out(session, self.action, brokers, vec![batch], &self.moving).await
    }
}

/// Moves of one group in one topic.
pub struct Batch {
    group: String,
    topic: String,
    goal: Goal,
    audience: Audience,
    moves: Vec<Move>,
}

/// Plans the moves of one group and topic.
pub async fn batch(
    session: &Session,
    known: &Known,
    brokers: &[BrokerAt],
    group: &str,
    topic: &str,
    goal: Goal,
) -> Result<Batch, Failure> {
    let client = &session.client;
    let audience = client.audience(brokers, group).await?;
    if audience.kind() == GroupKind::Broadcasting {
        return Err(Failure::new(
            exit::UNSUPPORTED,
            format!("{group} is broadcasting: its positions are on its clients, no server can move them"),
        ));
    }
    let positions = client.positions(brokers, group, topic).await.map_err(refused)?;
    if positions.is_empty() {
        let searched = counted(brokers.len(), "broker");
        return Err(super::topic::not_found(session, topic, searched).await);
    }
    if positions.iter().all(|at| at.current.is_none())
        && let Some(failure) = super::lag::not_found_in(known, session, brokers, group).await
    {
        return Err(failure);
    }
    let moves = client.moves(&positions, &goal).await?;
    Ok(Batch {
        group: group.to_owned(),
        topic: topic.to_owned(),
        goal,
        audience,
        moves,
    })
}

/// Why positions that are to be moved are not.
fn refused(e: Error) -> Failure {
    let failure = Failure::from(&e);
    match e {
        Error::Static(_) => failure.unchanged(),
        _ => failure,
    }
}

/// Positions of a group in a topic; `None` for a static topic, which is left out of a change of several with a word.
pub async fn movable(
    session: &Session,
    brokers: &[BrokerAt],
    group: &str,
    topic: &str,
) -> Result<Option<Vec<Position>>, Failure> {
    match session.client.positions(brokers, group, topic).await {
        Ok(positions) => Ok(Some(positions)),
        Err(e @ Error::Static(_)) => {
            session.warn(&format!("{e}; {group} is left out in it"));
            Ok(None)
        }
        Err(e) => Err(Failure::from(e)),
    }
}

/// The failure of a change of several topics of which nothing is left.
pub fn all_static(what: &str) -> Failure {
    Failure::new(
        exit::PRECONDITION,
        format!(
            "{what}: static topics are left out, and nothing else of it can be moved here; nothing was changed"
        ),
    )
}

/// `rmq group clone-offsets`
pub async fn clone_offsets(session: &Session, args: CloneArgs) -> Result<(), Failure> {
    for group in [&args.source, &args.target] {
        check_group(group).map_err(|e| Failure::usage(format!("group \"{group}\": {e}")))?;
    }
    if args.source == args.target {
        return Err(Failure::usage("source and target are the same group"));
    }
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let client = &session.client;
    if let Some(failure) = super::lag::not_found(session, &brokers, &args.target).await {
        return Err(failure.hint(format!("rmq group create {}", args.target)));
    }
    let chosen = Chosen {
        groups: BTreeSet::from([args.source.clone()]),
        topic: args.topic.clone(),
    };
    let saved = client.saved_offsets(&brokers, &chosen, false).await?;
    let known = Known::new();
    let (mut batches, mut left_out) = (Vec::new(), false);
    for ((_, topic), offsets) in saved.by_topic() {
        if args.topic.is_none() && topic.starts_with(RETRY_PREFIX) {
            continue;
        }
        let Some(positions) = movable(session, &brokers, &args.target, &topic).await? else {
            left_out = true;
            continue;
        };
        let goal = fitting(&positions, &offsets);
        if !positions.is_empty() {
            batches.push(batch(session, &known, &brokers, &args.target, &topic, goal).await?);
        }
    }
    if batches.is_empty() && left_out {
        return Err(all_static(&args.source));
    }
    if batches.is_empty() {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("group {} has no committed offsets to clone", args.source),
        )
        .hint(format!("rmq offset get {}", args.source)));
    }
    let action = format!("clone offsets of {} to {}", args.source, args.target);
    carry_out(session, action, &brokers, batches, &args.moving).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_an_offset_or_a_time() {
        assert_eq!(goal("0"), Ok(To::Offset(0)));
        assert_eq!(goal("1500"), Ok(To::Offset(1500)));
        assert_eq!(
            goal("1795973628"),
            Ok(To::When(time::When::At(1_795_973_628_000)))
        );
        assert_eq!(goal("latest"), Ok(To::When(time::When::Latest)));
        assert!(matches!(goal("-2h"), Ok(To::When(time::When::Before(_)))));
        assert!(goal("yesterday-ish").is_err());
    }

    #[test]
    fn a_queue_with_its_offset_is_read() {
        assert_eq!(queue_offset("broker-a/3=0"), Ok((("broker-a".into(), 3), 0)));
        for bad in ["broker-a=3", "/3=0", "b/x=1", "b/1=-1", "b/-1=1", ""] {
            assert!(queue_offset(bad).is_err(), "{bad}");
        }
        assert_eq!(
            queue("10.0.0.1:10911/3"),
            Ok((("10.0.0.1:10911".into(), 3), None))
        );
        assert_eq!(queue("b/1=7"), Ok((("b".into(), 1), Some(7))));
        for bad in ["b", "b/", "b/-1", "b/1=", "/1"] {
            assert!(queue(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_queue_is_limited_or_goes_to_its_own_offset_and_comes_once() {
        use crate::client::snapshot::BrokerId;
        let id = BrokerId {
            cluster: "C".into(),
            name: "broker-a".into(),
            id: 0,
        };
        let brokers = [BrokerAt {
            id,
            addr: "10.0.0.1:10911".into(),
        }];
        let named = |words: &[&str]| by_name(&brokers, words.iter().map(|w| queue(w).unwrap()));
        let at = |q: i32| ("broker-a".to_owned(), q);
        let goal = |goal: Goal, words: &[&str]| named(words).and_then(|queues| in_queues(goal, queues));
        let none = || Goal::Exact(BTreeMap::new());
        assert_eq!(
            goal(none(), &["10.0.0.1:10911/3=7"]).ok(),
            Some(Goal::Exact([(at(3), 7)].into()))
        );
        assert_eq!(
            goal(Goal::Earliest, &["10.0.0.1:10911/3", "broker-a/1"]).ok(),
            Some(Goal::Queues([at(1), at(3)].into(), Box::new(Goal::Earliest)))
        );
        for (wrong, words) in [
            (none(), vec!["broker-a/3=7", "10.0.0.1:10911/3=8"]),
            (none(), vec!["broker-a/3"]),
            (none(), vec!["broker-a/3=7", "broker-a/4"]),
            (Goal::Latest, vec!["broker-a/3=7"]),
        ] {
            assert_eq!(
                goal(wrong, &words).err().map(|f| f.exit),
                Some(exit::USAGE),
                "{words:?}"
            );
        }
    }
}
