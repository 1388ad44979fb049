//! `rmq topic scale`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::json;

use super::change::{self, Class, Outcome, Step as PlanStep};
use super::exit::{self, Failure};
use super::scope::ScopeArgs;
use super::session::Session;
use super::{quoted, time};
use crate::client::Which;
use crate::client::scale::begins::Begin;
use crate::client::scale::kept::{Kept, KeptError, PlanFile, SIGN_EVERY};
use crate::client::scale::observe::Observer;
use crate::client::scale::run::{Event, Ran, run as go};
use crate::client::scale::{
    Drained, End, Found, Machine, Overrides, Phase, Plan, Progress, Queues, Refused, Settings, Step, Wish,
    marker, unwaitable,
};
use crate::protocol::model::check_topic;

/// Pause between two lines of progress where nobody looks at a terminal.
const TELL: Duration = Duration::from_secs(5);

/// `rmq topic scale`
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct ScaleArgs {
    /// Topic name
    name: String,
    /// Read and write queues on each broker
    #[arg(long, value_name = "N", required_unless_present_any = ["read_to", "write_to", "resume", "undo"])]
    to: Option<i32>,
    /// Queues that consumers read, where it is not the number of --to
    #[arg(long, value_name = "N")]
    read_to: Option<i32>,
    /// Queues that producers write, where it is not the number of --to
    #[arg(long, value_name = "N")]
    write_to: Option<i32>,
    /// Do only one half of the way
    #[arg(long, value_name = "PHASE", default_value = "all")]
    phase: Half,
    /// Time for producers to see a smaller number [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    producer_wait: Option<Duration>,
    /// How long the queues to drain must stand still [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    still: Option<Duration>,
    /// How long the backlog must be gone where pop clients may hold messages [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    pop_wait: Option<Duration>,
    /// Longest wait for clients to own new queues [default: 60s]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    rebalance_wait: Option<Duration>,
    /// Longest wait for messages in new queues [default: 30s]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    verify_wait: Option<Duration>,
    /// End of all waiting; exit code 8 [default: 1h]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    deadline: Option<Duration>,
    /// End when a group has a backlog and does not move for so long; exit code 9 [default: 5m]
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    stall: Option<Duration>,
    /// Do not wait for this group, which is offline or broadcasting; repeatable
    #[arg(long, value_name = "GROUP")]
    ignore_group: Vec<String>,
    /// Scale an ordered topic: its keys go to other queues
    #[arg(long)]
    allow_reorder: bool,
    /// Go on with an interrupted way, with its waits where none are named
    #[arg(long, conflicts_with_all = ["to", "read_to", "write_to", "undo", "phase"])]
    resume: bool,
    /// Go back to the numbers before an interrupted way
    #[arg(long, conflicts_with_all = ["to", "read_to", "write_to", "phase"])]
    undo: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `--phase`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Half {
    /// Both
    All,
    /// Only the number of write queues
    Write,
    /// Only the number of read queues
    Read,
}

impl ScaleArgs {
    fn overrides(&self) -> Overrides {
        Overrides {
            rebalance_wait: self.rebalance_wait,
            producer_wait: self.producer_wait,
            still: self.still,
            pop_wait: self.pop_wait,
            verify_wait: self.verify_wait,
            deadline: self.deadline,
            stall: self.stall,
            ignored: self.ignore_group.iter().cloned().collect(),
        }
    }

    fn wish(&self) -> Wish {
        Wish {
            read: self.read_to.or(self.to),
            write: self.write_to.or(self.to),
            phase: match self.phase {
                Half::All => Phase::All,
                Half::Write => Phase::Write,
                Half::Read => Phase::Read,
            },
        }
    }
}

fn refused(refused: Refused) -> Failure {
    let no = |code: u8| Failure::new(code, format!("{refused}; nothing was changed"));
    match refused {
        Refused::Call(e) => Failure::from(e),
        Refused::Range { .. } | Refused::Uncovered(_) => Failure::usage(refused.to_string()),
        Refused::TooOld(_) => no(exit::UNSUPPORTED),
        Refused::NotFound { .. } => no(exit::NOT_FOUND),
        Refused::Ordered(_) => no(exit::PRECONDITION)
            .because("With another number of queues its keys go to other queues: their order is lost once.")
            .hint("--allow-reorder"),
        Refused::Half { first, .. } => no(exit::PRECONDITION).because(match first {
            Phase::Read => "raise the read queues first: --phase read",
            Phase::Write | Phase::All => "lower the write queues first: --phase write",
        }),
        Refused::NotOfUsers { .. } | Refused::Static(_) => no(exit::PRECONDITION),
    }
}

fn kept_failure(error: KeptError) -> Failure {
    let failure = Failure::new(exit::PRECONDITION, format!("{error}; nothing was changed"));
    match error {
        KeptError::Locked(_) => failure.hint("wait for it, or interrupt it"),
        _ => failure,
    }
}

/// A way that is about to be gone.
struct Way {
    found: Found,
    /// Absent in a dry run.
    file: Option<PlanFile>,
    token: String,
    begun: String,
    undoing: bool,
}

impl Way {
    /// What is kept of it.
    fn kept(&self, session: &Session, machine: &Machine) -> Kept {
        Kept::new(
            self.found.cluster.clone(),
            &session.name_servers,
            self.token.clone(),
            self.begun.clone(),
            machine.clone(),
        )
        .undoing(self.undoing)
    }
}

/// Runs the command.
pub async fn run(session: &Session, args: ScaleArgs) -> Result<(), Failure> {
    check_topic(&args.name).map_err(|e| Failure::usage(format!("topic \"{}\": {e}", args.name)))?;
    let found = find(session, &args).await?;
    let path = kept_path(session, &found.cluster, &args.name)?;
    let (file, kept) = if session.dry_run {
        (None, PlanFile::peek(&path).map_err(kept_failure)?)
    } else {
        let (file, kept) = PlanFile::open(path.clone()).map_err(kept_failure)?;
        (Some(file), kept)
    };
    let now = time::now_ms();
    let mut way = Way {
        found,
        file,
        token: format!("{}-{now}", std::process::id()),
        begun: time::rfc3339(now).unwrap_or_default(),
        undoing: args.undo,
    };
    let goes_on = args.resume || args.undo;
    let mut machine = match kept {
        Some(kept) if goes_on => {
            is_of_here(session, &way.found, &path, &kept).await?;
            gone_on_with(session, &args, &mut way, kept, now)
        }
        Some(kept) => return Err(in_progress(session, &args, &path, &kept)),
        None if goes_on => return Err(unknown_here(&args, &path)),
        None => {
            let wish = args.wish();
            let plan = wish.plan(&way.found).map_err(refused)?;
            let settings = Settings {
                phase: wish.phase,
                ..Settings::default()
            };
            Machine::new(plan, settings.with(&args.overrides()), now)
        }
    };
    let numbers = way.found.numbers();
    if let Some(missing) = machine.plan().brokers.keys().find(|b| !numbers.contains_key(*b)) {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{missing} belongs to the plan and has no such topic now; nothing was changed"),
        ));
    }
    let mut observer = Observer::new(machine.plan(), way.found.masters());
    let mut change = describe(session, &args, &way.found, &machine, &mut observer).await?;
    if goes_on {
        let goes = format!("goes on at {}", whereabouts(&machine.progress()));
        let left = machine.progress().left.join("; ");
        change.impact.insert(
            0,
            if left.is_empty() {
                goes
            } else {
                format!("{goes}; then {left}")
            },
        );
    }
    check_marks(session, &args.name, &way.token).await?;
    if change.steps.is_empty() && !goes_on {
        return change::nothing(session);
    }
    let Some(file) = way.file.take() else {
        let planned = vec![Outcome::Planned; change.steps.len()];
        return change::report(session, &change, planned, None);
    };
    change::confirm(session, &change)?;
    session
        .under_way
        .undone_by(Some(way_on(session, &args, "--undo")));
    // Somebody may have thought about it for long.
    unchanged(session, &observer, &machine, &numbers).await?;
    check_marks(session, &args.name, &way.token).await?;
    let mut keep = |machine: &Machine| -> Result<(), Failure> {
        file.write(&way.kept(session, machine))
            .map_err(|e| Failure::new(exit::PRECONDITION, e.to_string()))
    };
    let begun = async {
        mark(session, &args.name, &way.token, &machine).await?;
        // Two that begin at the same moment both see no mark; the last one's stays, and the other finds it here.
        check_marks(session, &args.name, &way.token).await?;
        keep(&machine)
    };
    if let Err(failure) = begun.await {
        // Nothing was written; the mark of an interrupted way stays with its plan file.
        if !goes_on {
            unmark(session, &args.name, &way.token).await;
        }
        return Err(failure);
    }
    let ran = travel(session, &mut machine, &mut observer, &way.token, &mut keep).await;
    finish(session, &args, &way, &file, change, &machine, ran).await
}

/// The kept way is one of this topic, and somebody here knows of it: a cluster of the same name elsewhere, or a topic
/// that was made anew, has other numbers.
async fn is_of_here(
    session: &Session,
    found: &Found,
    path: &std::path::Path,
    kept: &Kept,
) -> Result<(), Failure> {
    let no = |what: String| {
        Failure::new(exit::PRECONDITION, format!("{what}; nothing was changed"))
            .because(format!("The file is {}.", path.display()))
    };
    if !kept.is_of(&found.cluster, &found.topic, &session.name_servers) {
        return Err(no(format!(
            "the kept plan is one of topic \"{}\" of cluster {} at {}",
            kept.machine.plan().topic,
            kept.cluster,
            kept.name_servers.join(";")
        )));
    }
    if session.client.has_scale_mark(&found.topic, &kept.token).await {
        return Ok(());
    }
    let key = marker::key(&found.topic);
    let mark = json!({ "token": kept.token }).to_string();
    Err(no(format!(
        "no name server has the mark of the scaling of topic \"{}\" that was kept here",
        found.topic
    ))
    .hint(format!(
        "if it is this cluster and its name servers have lost it: {}",
        session.for_same_servers(&format!(
            "rmq kv set {} {} {}",
            marker::NAMESPACE,
            quoted(&key),
            quoted(&mark)
        ))
    )))
}

fn unknown_here(args: &ScaleArgs, path: &std::path::Path) -> Failure {
    let mut why = vec![format!("There is no file {}.", path.display())];
    for kept in PlanFile::elsewhere(path, &args.name) {
        why.push(format!(
            "One of cluster {} was begun at name servers {}.",
            kept.cluster,
            kept.name_servers.join(";")
        ));
    }
    Failure::new(
        exit::PRECONDITION,
        format!("no interrupted scaling of topic \"{}\" is known here", args.name),
    )
    .because(why.join("\n       "))
}

/// Takes this way's marks away.
async fn unmark(session: &Session, topic: &str, token: &str) {
    for (addr, done) in session.client.clear_scale_mark(topic, token).await {
        if let Err(e) = done {
            session.warn(&format!("the mark at name server {addr} stays: {}", e.reason()));
        }
    }
}

/// The machine of an interrupted way, forth or back. Who calls --undo while the way back is interrupted goes on with it.
fn gone_on_with(session: &Session, args: &ScaleArgs, way: &mut Way, kept: Kept, now: i64) -> Machine {
    way.token = kept.token;
    way.begun = kept.begun;
    way.undoing = args.undo || kept.undoing;
    let mut machine = if args.undo && !kept.undoing {
        for broker in kept.machine.plan().uncovered_before() {
            session.note(&format!(
                "{broker} had fewer read than write queues before: the read queues stay raised there"
            ));
        }
        let settings = Settings {
            phase: Phase::All,
            ..kept.machine.settings().clone()
        };
        Machine::new(kept.machine.plan().reversed(&way.found.numbers()), settings, now)
    } else {
        kept.machine.resumed(now)
    };
    machine.set(&args.overrides());
    machine
}

fn in_progress(session: &Session, args: &ScaleArgs, path: &std::path::Path, kept: &Kept) -> Failure {
    Failure::new(
        exit::PRECONDITION,
        format!(
            "topic \"{}\" is being scaled since {} ({}); nothing was changed",
            args.name,
            kept.begun,
            whereabouts(&kept.machine.progress())
        ),
    )
    .because(format!("Its state is in {}.", path.display()))
    .hint(both_ways(session, args, kept.undoing))
}

/// `step 3 of 5: drain queues 8-15, since 12m`.
fn whereabouts(progress: &Progress) -> String {
    let spent = time::now_ms().saturating_sub(progress.since_ms);
    let spent = Duration::from_secs(u64::try_from(spent / 1000).unwrap_or(0));
    format!(
        "{}: {}, since {}",
        progress.place(),
        progress.step,
        time::duration(spent)
    )
}

/// A command that goes on with an interrupted way, for the same servers.
fn way_on(session: &Session, args: &ScaleArgs, flag: &str) -> String {
    let mut line = format!("rmq topic scale {} {flag}", quoted(&args.name));
    if let Some(cluster) = &args.scope.cluster {
        line.push_str(&format!(" --cluster {}", quoted(cluster)));
    }
    for broker in &args.scope.broker {
        line.push_str(&format!(" --broker {}", quoted(&broker.0)));
    }
    session.for_same_servers(&line)
}

/// The commands that go on with an interrupted way.
fn both_ways(session: &Session, args: &ScaleArgs, undoing: bool) -> String {
    let undo = way_on(session, args, "--undo");
    if undoing {
        format!("{undo} goes on with the way back")
    } else {
        format!("{}, or {undo}", way_on(session, args, "--resume"))
    }
}

/// The numbers are still those that the plan was shown for.
async fn unchanged(
    session: &Session,
    observer: &Observer,
    machine: &Machine,
    shown: &BTreeMap<String, Queues>,
) -> Result<(), Failure> {
    let numbers = observer.numbers(&session.client, session.client.deadline()).await;
    let mut changed = Vec::new();
    for name in machine.plan().brokers.keys() {
        match (numbers.get(name), shown.get(name)) {
            (Some(Ok(now)), Some(then)) if now == then => {}
            (Some(Ok(now)), _) => changed.push(format!("{name} has {now} now")),
            (Some(Err(why)), _) => changed.push(format!("{name}: {why}")),
            (None, _) => changed.push(format!("{name} was not seen")),
        }
    }
    if changed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(
        exit::PRECONDITION,
        format!(
            "topic \"{}\" is not as the plan says any more; nothing was changed",
            machine.plan().topic
        ),
    )
    .because(changed.join("\n       ")))
}

/// The topic on the brokers that are meant.
async fn find(session: &Session, args: &ScaleArgs) -> Result<Found, Failure> {
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let found = match session.client.scale_find(&args.name, &brokers).await {
        Err(Refused::NotFound { brokers, cluster, .. }) => {
            let searched = format!("{brokers} brokers of cluster {cluster}");
            return Err(super::topic::not_found(session, &args.name, searched).await);
        }
        found => found.map_err(refused)?,
    };
    if found.ordered && !args.allow_reorder && !args.resume && !args.undo {
        return Err(refused(Refused::Ordered(args.name.clone())));
    }
    Ok(found)
}

/// The plan for the operator, with what a shrink has to wait for; refuses groups that cannot be waited for.
async fn describe(
    session: &Session,
    args: &ScaleArgs,
    found: &Found,
    machine: &Machine,
    observer: &mut Observer,
) -> Result<change::Plan, Failure> {
    let plan = machine.plan().clone();
    let mut change = change::Plan {
        action: format!("scale topic {}", args.name),
        object: args.name.clone(),
        cluster: found.cluster.clone(),
        class: Class::B,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let mut numbers = BTreeMap::new();
    for (broker, config) in &found.brokers {
        let Some(on) = plan.brokers.get(&broker.id.name) else {
            continue;
        };
        let now = Queues::of(config);
        numbers.insert(broker.id.name.clone(), Ok(now));
        let fields = [
            ("read_queues", now.read, on.target.read),
            ("write_queues", now.write, on.target.write),
        ];
        for (field, before, after) in fields {
            if before != after {
                change.steps.push(PlanStep {
                    target: broker.server().to_string(),
                    field: field.into(),
                    before: before.to_string(),
                    after: after.to_string(),
                });
            }
        }
    }
    if !change.steps.is_empty() {
        let servers = found.brokers.iter().map(|(broker, _)| broker.server());
        change
            .impact
            .push(session.client.use_of_topic(servers, &args.name).await);
    }
    if plan.shrinks() && machine.settings().phase != Phase::Write {
        let drained = observer.drained(&session.client, &numbers).await;
        if let Some(why) = drained.unknown.first() {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("what waits in the queues to drain cannot be seen: {why}; nothing was changed"),
            ));
        }
        let refused = unwaitable(&drained.groups, &machine.settings().ignored);
        change
            .impact
            .extend(backlog_lines(&plan, &drained, &machine.settings().ignored));
        if !refused.is_empty() {
            let flags = refused
                .iter()
                .map(|(name, _)| format!("--ignore-group {}", quoted(name)));
            let names = refused.iter().map(|(name, kind)| format!("{name} ({kind})"));
            return Err(Failure::new(
                exit::PRECONDITION,
                format!(
                    "these groups cannot be waited for: {}; nothing was changed",
                    names.collect::<Vec<_>>().join(", ")
                ),
            )
            .because("Nobody moves the positions of an offline group; those of a broadcasting one are on its clients.")
            .hint(flags.collect::<Vec<_>>().join(" ")));
        }
    }
    if plan.grows() && machine.settings().phase != Phase::Read {
        change
            .impact
            .push("consumers get the new queues first, then groups a place in them, then producers".into());
        let begins = observer.begins(&session.client, &numbers).await;
        if let Some(why) = begins.unknown.first() {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!(
                    "which groups need a place in the new queues cannot be seen: {why}; nothing was changed"
                ),
            ));
        }
        change.impact.extend(begin_lines(&begins.missing));
        change.impact.extend(begins.left_alone);
    }
    Ok(change)
}

fn backlog_lines(plan: &Plan, drained: &Drained, ignored: &BTreeSet<String>) -> Vec<String> {
    let queues: BTreeSet<String> = plan
        .brokers
        .values()
        .filter(|on| !on.drained().is_empty())
        .map(|on| format!("{} to {}", on.drained().start, on.drained().end - 1))
        .collect();
    let mut lines = vec![format!(
        "queues {} are drained before they lose their readers: {} stored ever, {} will still land in them",
        queues.into_iter().collect::<Vec<_>>().join(" and "),
        drained.ends.values().sum::<i64>(),
        drained.pending
    )];
    for (name, group) in &drained.groups {
        lines.push(format!(
            "{name} ({}): {} unread there, {} in flight{}",
            group.kind.name(),
            group.lag,
            group.inflight,
            if ignored.contains(name) { ", ignored" } else { "" }
        ));
    }
    lines
}

/// A line for each group and broker.
fn begin_lines(begins: &[Begin]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), (usize, i64)> = BTreeMap::new();
    for begin in begins {
        let place = places.entry((&begin.group, &begin.broker)).or_default();
        place.0 += 1;
        place.1 = place.1.saturating_add(begin.passed_over);
    }
    let line = |((group, broker), (queues, passed_over)): ((&str, &str), (usize, i64))| {
        let older = if passed_over > 0 {
            format!("; {passed_over} older messages there are not read by it")
        } else {
            String::new()
        };
        format!("{group} gets a position in {queues} queues of {broker}{older}")
    };
    places.into_iter().map(line).collect()
}

/// Somebody else's mark stops; a dead name server does not.
async fn check_marks(session: &Session, topic: &str, token: &str) -> Result<(), Failure> {
    let Some((addr, text)) = session
        .client
        .foreign_scale_marks(topic, token)
        .await
        .into_iter()
        .next()
    else {
        return Ok(());
    };
    Err(Failure::new(
        exit::PRECONDITION,
        format!("name server {addr} says that topic \"{topic}\" is being scaled; nothing was changed"),
    )
    .because(format!("The mark is: {text}"))
    .hint(format!(
        "if nobody does: {}",
        session.for_same_servers(&format!(
            "rmq kv delete {} {}",
            marker::NAMESPACE,
            quoted(&marker::key(topic))
        ))
    )))
}

async fn mark(session: &Session, topic: &str, token: &str, machine: &Machine) -> Result<(), Failure> {
    let targets: BTreeMap<&String, String> = machine
        .plan()
        .brokers
        .iter()
        .map(|(name, on)| (name, on.target.to_string()))
        .collect();
    let text = json!({
        "token": token,
        "user": std::env::var("USER").ok(),
        "begun": time::rfc3339(time::now_ms()),
        "targets": targets,
    });
    let marks = session.client.set_scale_mark(topic, &text.to_string()).await;
    if marks.iter().all(|(_, done)| done.is_err())
        && let Some((_, Err(e))) = marks.first()
    {
        return Err(Failure::from(e));
    }
    for (addr, done) in &marks {
        if let Err(e) = done {
            session.warn(&format!("no mark at name server {addr}: {}", e.reason()));
        }
    }
    Ok(())
}

/// Goes the way, with progress on stderr; Ctrl-C stops between two requests.
async fn travel(
    session: &Session,
    machine: &mut Machine,
    observer: &mut Observer,
    token: &str,
    keep: &mut dyn FnMut(&Machine) -> Result<(), Failure>,
) -> Result<Ran, Failure> {
    let mut told: Option<(Step, tokio::time::Instant)> = None;
    let mut kept: Option<(Step, tokio::time::Instant)> = None;
    go(
        &session.client,
        machine,
        observer,
        token,
        session.stopped(),
        |machine, event| -> Result<(), Failure> {
            let step = machine.step();
            let progress = machine.progress();
            let at = format!("{}, {}", progress.place(), step.name());
            match event {
                Event::Moved => {
                    session.way(progress);
                    if kept.is_none_or(|(of, at)| of != step || at.elapsed() >= SIGN_EVERY) {
                        keep(machine)?;
                        kept = Some((step, tokio::time::Instant::now()));
                    }
                }
                Event::Writing(writes) => {
                    keep(machine)?;
                    for (name, queues) in writes {
                        session.progress(&format!("{at}: {name} gets {queues}"));
                    }
                }
                Event::Beginning(begins) => {
                    for line in begin_lines(begins) {
                        session.progress(&format!("{at}: {line}"));
                    }
                }
                Event::Failed(broker, e) => session.warn(&format!("{broker}: {}", e.reason())),
                Event::Waiting(what) => {
                    let due = told.is_none_or(|(of, at)| of != step || at.elapsed() >= TELL);
                    if due {
                        told = Some((step, tokio::time::Instant::now()));
                        session.progress(&format!("{at}: {}", what.join("; ")));
                    }
                }
            }
            Ok(())
        },
    )
    .await
}

async fn finish(
    session: &Session,
    args: &ScaleArgs,
    way: &Way,
    file: &PlanFile,
    change: change::Plan,
    machine: &Machine,
    ran: Result<Ran, Failure>,
) -> Result<(), Failure> {
    let state = machine.state();
    let name = &machine.plan().topic;
    let both = both_ways(session, args, way.undoing);
    let progress = machine.progress();
    let stopped = |code: u8, what: String, why: Vec<String>| {
        let what = format!("{what} at {}", whereabouts(&progress));
        let kept = way.kept(session, machine).stopped(time::now_ms(), what.clone());
        if let Err(e) = file.write(&kept) {
            session.warn(&format!("the plan file does not say so: {e}"));
        }
        let outcomes = vec![Outcome::Unproven(format!("{what}; {state}")); change.steps.len()];
        change::cut_short(session, &change, &outcomes, way_on(session, args, "--undo"));
        let failure = Failure::new(code, format!("{what}; state: {state}"));
        let failure = if why.is_empty() {
            failure
        } else {
            failure.because(why.join("\n       "))
        };
        Err(failure.hint(both.clone()))
    };
    let ran = match ran {
        Ok(ran) => ran,
        // The plan file cannot be written: the topic is where it is all the same.
        Err(failure) => {
            return stopped(
                failure.exit,
                format!("scaling topic {name} was interrupted: {}", failure.what),
                failure.why.into_iter().collect(),
            );
        }
    };
    match ran {
        Ran::End(End::Done) => {
            unmark(session, name, &way.token).await;
            if let Err(e) = file.remove() {
                session.warn(&format!("the plan file stays: {e}"));
            }
            for note in machine.notes() {
                session.note(note);
            }
            session.note(&format!("topic {name}: {state}"));
            if !machine.settings().ignored.is_empty() {
                let brokers: Vec<_> = way
                    .found
                    .brokers
                    .iter()
                    .map(|(broker, _)| broker.clone())
                    .collect();
                super::stranded::tell(session, &brokers, &[], Some(name), None).await;
            }
            let outcomes = vec![Outcome::Done; change.steps.len()];
            change::report(session, &change, outcomes, undo_line(&way.found, machine))
        }
        Ran::End(End::Deadline(why)) => stopped(
            exit::TIMEOUT,
            format!(
                "scaling topic {name} was not done within {}",
                time::duration(machine.settings().deadline)
            ),
            why,
        ),
        Ran::End(End::Stalled(why)) => stopped(
            exit::PRECONDITION,
            format!("scaling topic {name} waits for groups that do not move"),
            why,
        ),
        Ran::End(End::Unreachable(why)) => stopped(
            exit::PRECONDITION,
            format!("scaling topic {name} was interrupted: brokers cannot be seen or written"),
            why,
        ),
        Ran::End(End::Changed(why)) => stopped(
            exit::PRECONDITION,
            format!("scaling topic {name} was interrupted: the numbers are not what it made them"),
            why,
        ),
        Ran::Stopped => stopped(
            exit::INTERRUPTED,
            format!("scaling topic {name} was interrupted"),
            (progress.waits.iter())
                .map(|what| format!("It waited for: {what}."))
                .collect(),
        ),
    }
}

/// The command that brings back the numbers before, one for each different pair; none where some written queues had
/// no reader. What had to be allowed for the way has to be for the way back.
fn undo_line(found: &Found, machine: &Machine) -> Option<String> {
    let plan = machine.plan();
    let mut allowed = String::new();
    if found.ordered {
        allowed.push_str(" --allow-reorder");
    }
    for group in &machine.settings().ignored {
        allowed.push_str(&format!(" --ignore-group {}", quoted(group)));
    }
    let mut by_numbers: BTreeMap<(i32, i32), Vec<&str>> = BTreeMap::new();
    for (broker, _) in &found.brokers {
        if let Some(on) = plan.brokers.get(&broker.id.name)
            && on.before.read >= on.before.write
            && !on.is_still()
        {
            let before = (on.before.read, on.before.write);
            by_numbers.entry(before).or_default().push(&broker.addr);
        }
    }
    let lines = by_numbers.into_iter().map(|((read, write), brokers)| {
        let numbers = if read == write {
            format!("--to {read}")
        } else {
            format!("--read-to {read} --write-to {write}")
        };
        let brokers: String = brokers.iter().map(|b| format!(" --broker {b}")).collect();
        format!(
            "rmq topic scale {} {numbers}{brokers}{allowed}",
            quoted(&plan.topic)
        )
    });
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join(" && "))
}

fn kept_path(session: &Session, cluster: &str, topic: &str) -> Result<PathBuf, Failure> {
    let dir = super::context::state_dir().ok_or_else(|| {
        Failure::new(
            exit::PRECONDITION,
            "there is no state directory for the resume file; nothing was changed",
        )
    })?;
    Ok(PlanFile::path_in(&dir, cluster, topic, &session.name_servers))
}
