//! `rmq group lag`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::exit::{self, Failure};
use super::output::{Cell, Column, Listing, col, less, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::group::{KnownGroups, is_system};
use crate::client::lag::{Backlog, Backlogs, GroupKind, Place, place};
use crate::client::snapshot::GroupLag;
use crate::client::words::counted;
use crate::client::{BrokerAt, Which, similar};

/// `rmq group lag`
#[derive(Debug, Clone, Args)]
pub struct LagArgs {
    /// Group names; without one, every group
    groups: Vec<String>,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// What a row is [default: queue for one group, group for several]
    #[arg(long, value_name = "UNIT")]
    by: Option<By>,
    /// Every group, the brokers' own as well
    #[arg(short, long, conflicts_with = "groups")]
    all: bool,
    /// Ask each client which queues it reads, and show it (--by client does so by itself)
    #[arg(long)]
    owners: bool,
    /// End with exit code 11 when a group's backlog is above N messages
    #[arg(long, value_name = "N")]
    fail_over: Option<i64>,
    /// End with exit code 11 when the oldest unread message is older
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    fail_over_time: Option<Duration>,
    #[command(flatten)]
    scope: ScopeArgs,
    #[command(flatten)]
    watch: WatchArgs,
}

/// What a row of `group lag` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// One queue
    Queue,
    /// One topic
    Topic,
    /// One broker
    Broker,
    /// One client, with the queues that it reads
    Client,
    /// One group
    Group,
}

/// Age of the first unread message by place.
type Oldest = BTreeMap<Place, Duration>;

/// Runs the command.
pub async fn run(session: &Session, args: &LagArgs) -> Result<(), Failure> {
    watch::print(session, &args.watch, || look(session, args)).await
}

async fn look(session: &Session, args: &LagArgs) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = args.scope.brokers(session, Which::Masters).await?;
    let topic = args.topic.as_deref();
    let mut found = if args.groups.is_empty() {
        client.all_backlogs(topic, &brokers).await
    } else {
        client.named_backlogs(&args.groups, topic, &brokers).await
    };
    if let Some(topic) = topic.filter(|_| !args.groups.is_empty()) {
        client.unposition(&mut found, topic, &brokers).await;
    }
    let Backlogs { mut groups, failed } = found;
    if args.groups.is_empty() {
        groups.retain(|name, backlog| {
            (args.all || !is_system(name)) && (topic.is_none() || !backlog.queues.is_empty())
        });
    }
    let mut errors: Vec<Failure> = failed.iter().map(|(_, e)| Failure::from(e)).collect();
    if errors.is_empty() {
        let known = Known::new();
        for name in &args.groups {
            let nothing = groups
                .get(name)
                .is_none_or(|g| g.queues.is_empty() && g.clients.is_empty());
            if nothing && let Some(failure) = not_found_in(&known, session, &brokers, name).await {
                return Err(failure);
            }
        }
        if let Some(topic) = topic.filter(|_| groups.values().all(|g| g.queues.is_empty())) {
            let answers = super::topic::configs(session, &brokers, topic).await;
            if answers.iter().all(|(_, answer)| matches!(answer, Ok(None))) {
                let searched = counted(brokers.len(), "broker");
                return Err(super::topic::not_found(session, topic, searched).await);
            }
        }
    }
    let by = args.by.unwrap_or(if args.groups.len() == 1 {
        By::Queue
    } else {
        By::Group
    });
    if args.owners || by == By::Client {
        let online: Vec<_> = groups.iter_mut().filter(|(_, g)| !g.clients.is_empty()).collect();
        client
            .each(online, |(name, backlog)| async move {
                backlog.owners = Some(client.queue_owners(name, &backlog.clients).await);
            })
            .await;
    }
    for backlog in groups.values_mut() {
        backlog.queues.sort_by(|a, b| {
            b.lag()
                .cmp(&a.lag())
                .then_with(|| (&a.topic, &a.broker, a.queue).cmp(&(&b.topic, &b.broker, b.queue)))
        });
    }
    // A read for each lagging queue: only where somebody looks at single groups, or asks.
    let aged = !args.groups.is_empty() || by == By::Queue || args.fail_over_time.is_some();
    let ages = if aged {
        let rows = groups
            .values()
            .filter(|backlog| !backlog.is_broadcast())
            .flat_map(|backlog| &backlog.queues);
        client.oldest_unread(&brokers, rows).await
    } else {
        BTreeMap::new()
    };
    let answered = errors.len() < brokers.len();
    let mut oldest = Oldest::new();
    for (place, age) in ages {
        match age {
            Ok(age) => {
                oldest.insert(place, age);
            }
            // A check that cannot see is no check that passed.
            Err(why) if args.fail_over_time.is_some() => errors.push(unknown_age(&place, &why)),
            Err(_) => {}
        }
    }
    let mut listing = match by {
        By::Queue => by_queue(&groups, &oldest, args),
        By::Topic => summed(&groups, &oldest, "topic", &|_, row| Some(row.topic.clone())),
        By::Broker => summed(&groups, &oldest, "broker", &|_, row| Some(row.broker.clone())),
        By::Client => summed(&groups, &oldest, "client", &owner),
        By::Group => by_group(&groups, &oldest),
    };
    summarize(session, args, &groups, &oldest, &errors, &mut listing);
    tell_unasked(session, args, &groups, aged, &mut listing);
    // The positions of a broadcasting group are on its clients.
    let is_broadcast = |name: &String| {
        groups
            .get(name)
            .is_some_and(|b| b.kind() == GroupKind::Broadcasting)
    };
    let named: Vec<String> = (args.groups.iter())
        .filter(|name| !is_broadcast(name))
        .cloned()
        .collect();
    if args.watch.interval().is_none() && (args.groups.is_empty() || !named.is_empty()) {
        super::stranded::tell(session, &brokers, &named, topic, Some(&mut listing)).await;
    }
    listing.errors = errors;
    if answered && let Some(failure) = over(args, &groups, &oldest) {
        // The rows are the evidence: they go out before the verdict.
        session.printer.print(listing)?;
        return Err(failure);
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}

/// The row for an age that a limit was set for, and that nobody could tell.
fn unknown_age((topic, broker, queue, offset): &Place, why: &str) -> Failure {
    Failure::new(
        exit::PARTIAL,
        format!("{topic} {broker}/{queue}: the age of the unread message at {offset} is unknown: {why}"),
    )
}

/// Who reads a queue: nobody is unknown, a client that did not answer may be the one.
fn owner(backlog: &Backlog, row: &GroupLag) -> Option<String> {
    let owners = backlog.owners.as_ref()?;
    owners
        .of(&row.topic, &row.broker, row.queue)
        .or_else(|| (!owners.silent.is_empty()).then(|| "?".to_owned()))
}

/// Age of the oldest unread message of some queues.
fn age<'a>(oldest: &Oldest, rows: impl IntoIterator<Item = &'a GroupLag>) -> Option<Duration> {
    rows.into_iter()
        .filter_map(|row| oldest.get(&place(row)?))
        .max()
        .copied()
}

fn by_queue(groups: &BTreeMap<String, Backlog>, oldest: &Oldest, args: &LagArgs) -> Listing {
    let when = |shown: bool, key: &'static str| -> Column { if shown { col(key) } else { wide(key) } };
    let mut listing = Listing::new(
        "GroupLag",
        &[
            when(args.groups.len() != 1, "group"),
            col("topic"),
            col("broker"),
            col("queue"),
            less("max"),
            less("committed"),
            col("lag").sums(),
            less("inflight"),
            col("lag_time_ms"),
            when(args.owners, "client"),
            col("note"),
            wide("state"),
            wide("last_consumed"),
        ],
    );
    listing.ordered = true;
    for (name, backlog) in groups {
        let broadcast = backlog.is_broadcast();
        for row in &backlog.queues {
            listing.push(vec![
                name.as_str().into(),
                row.topic.as_str().into(),
                row.broker.as_str().into(),
                row.queue.into(),
                row.max.into(),
                row.committed.into(),
                row.lag().filter(|_| !broadcast).into(),
                row.inflight.into(),
                Cell::span(age(oldest, [row])),
                owner(backlog, row).into(),
                match (broadcast, row.is_beyond_end(), row.committed) {
                    (true, _, _) => "broadcast".into(),
                    (_, true, _) => "beyond end".into(),
                    (_, _, None) => "no position".into(),
                    _ => Cell::Unknown,
                },
                backlog.kind().name().into(),
                Cell::time(row.last_consumed_ms),
            ]);
        }
    }
    listing
}

fn summed(
    groups: &BTreeMap<String, Backlog>,
    oldest: &Oldest,
    unit: &'static str,
    key: &dyn Fn(&Backlog, &GroupLag) -> Option<String>,
) -> Listing {
    let mut listing = Listing::new(
        "GroupLag",
        &[
            col("group"),
            col(unit),
            col("queues"),
            col("lag").sums(),
            col("max_queue_lag"),
            col("lag_time_ms"),
            wide("state"),
        ],
    );
    for (name, backlog) in groups {
        let mut parts: BTreeMap<Option<String>, Vec<&GroupLag>> = BTreeMap::new();
        if unit == "client" {
            // A client without a queue is idle, and shows.
            for id in backlog.clients.keys() {
                parts.entry(Some(id.clone())).or_default();
            }
        }
        for row in &backlog.queues {
            parts.entry(key(backlog, row)).or_default().push(row);
        }
        for (part, rows) in parts {
            let most = rows.iter().filter_map(|r| r.lag()).max();
            listing.push(vec![
                name.as_str().into(),
                part.into(),
                rows.len().into(),
                backlog.lag_of(rows.iter().copied()).into(),
                most.filter(|_| !backlog.is_broadcast()).into(),
                Cell::span(age(oldest, rows.iter().copied())),
                backlog.kind().name().into(),
            ]);
        }
    }
    listing
}

fn by_group(groups: &BTreeMap<String, Backlog>, oldest: &Oldest) -> Listing {
    let mut listing = Listing::new(
        "GroupLag",
        &[
            col("group"),
            col("state"),
            col("clients"),
            col("queues"),
            col("lag").sums(),
            col("max_queue_lag"),
            col("lag_time_ms"),
            col("consume_tps"),
            wide("unowned"),
            wide("topics"),
            wide("not_counted"),
        ],
    );
    for (name, backlog) in groups {
        let left_out: BTreeSet<&String> = backlog.left_out.iter().map(|(topic, _)| topic).collect();
        let topics: BTreeSet<&String> = backlog.queues.iter().map(|q| &q.topic).collect();
        let most = backlog.queues.iter().filter_map(GroupLag::lag).max();
        listing.push(vec![
            name.as_str().into(),
            backlog.kind().name().into(),
            backlog.clients.len().into(),
            backlog.queues.len().into(),
            backlog.lag().into(),
            most.filter(|_| !backlog.is_broadcast()).into(),
            Cell::span(age(oldest, &backlog.queues)),
            backlog.tps.into(),
            backlog.unowned().into(),
            topics.into_iter().cloned().collect::<Vec<_>>().into(),
            left_out.into_iter().cloned().collect::<Vec<_>>().into(),
        ]);
    }
    listing
}

fn summarize(
    session: &Session,
    args: &LagArgs,
    groups: &BTreeMap<String, Backlog>,
    oldest: &Oldest,
    errors: &[Failure],
    listing: &mut Listing,
) {
    let total: Option<i64> = groups
        .values()
        .filter_map(Backlog::lag)
        .reduce(i64::saturating_add);
    let partial = !errors.is_empty();
    let summary = &mut listing.summary;
    summary.insert("total_lag".into(), total.into());
    summary.insert("partial".into(), partial.into());
    if let [name] = args.groups.as_slice()
        && let Some(backlog) = groups.get(name)
    {
        let oldest = age(oldest, &backlog.queues);
        summary.insert("state".into(), backlog.kind().name().into());
        summary.insert("clients".into(), backlog.clients.len().into());
        summary.insert("consume_tps".into(), backlog.tps.into());
        let oldest_ms = oldest.map(|age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX));
        summary.insert("max_lag_time_ms".into(), oldest_ms.into());
        summary.insert("unowned_queues".into(), backlog.unowned().into());
        if args.watch.interval().is_none() {
            session.note(&sentence(name, backlog, oldest, partial));
        }
    }
}

/// What the listing does not tell, so that nobody takes it for nothing.
fn tell_unasked(
    session: &Session,
    args: &LagArgs,
    groups: &BTreeMap<String, Backlog>,
    aged: bool,
    listing: &mut Listing,
) {
    listing.summary.insert("lag_time_asked".into(), aged.into());
    if args.watch.interval().is_some() {
        return;
    }
    if !aged
        && groups
            .values()
            .any(|group| group.lag().is_some_and(|lag| lag > 0))
    {
        session.note(
            "lag times were not asked for (a read for each lagging queue): name groups, or use --by queue or --fail-over-time",
        );
    }
    for (name, backlog) in groups {
        let topics: BTreeSet<&str> = backlog.left_out.iter().map(|(topic, _)| topic.as_str()).collect();
        if !topics.is_empty() {
            session.note(&format!(
                "{name} has positions in topics that its clients do not subscribe to; they do not count: {}",
                topics.into_iter().collect::<Vec<_>>().join(", ")
            ));
        }
    }
}

fn sentence(name: &str, backlog: &Backlog, oldest: Option<Duration>, partial: bool) -> String {
    let lag = match backlog.lag() {
        Some(lag) => format!(
            "{}{} behind",
            if partial { "at least " } else { "" },
            counted(lag, "message")
        ),
        None if !backlog.queues.is_empty() && backlog.queues.iter().all(|q| q.committed.is_none()) => {
            let topics: BTreeSet<&str> = backlog.queues.iter().map(|q| q.topic.as_str()).collect();
            format!(
                "no position in {}, what it has not read is unknown",
                topics.into_iter().collect::<Vec<_>>().join(", ")
            )
        }
        None => "backlog unknown".into(),
    };
    let age = oldest.map_or_else(String::new, |age| {
        format!(", the oldest unread message is {} old", time::duration(age))
    });
    let unowned = match backlog.unowned() {
        Some(n) if n > 0 => format!(", {} that no client reads", counted(n, "queue")),
        _ => String::new(),
    };
    match backlog.kind() {
        GroupKind::Broadcasting => format!(
            "{name}: broadcasting, its positions are on its clients; the server's numbers mean nothing"
        ),
        GroupKind::Offline => format!("{name}: {lag}{age}, OFFLINE (no client)"),
        GroupKind::Clustering => {
            format!(
                "{name}: {lag}{age}, {} online{unowned}",
                counted(backlog.clients.len(), "client")
            )
        }
    }
}

/// The verdict of `--fail-over` and `--fail-over-time`.
fn over(args: &LagArgs, groups: &BTreeMap<String, Backlog>, oldest: &Oldest) -> Option<Failure> {
    let mut late = Vec::new();
    for (name, backlog) in groups {
        if let (Some(most), Some(lag)) = (args.fail_over, backlog.lag())
            && lag > most
        {
            late.push(format!(
                "{name} is {} behind (limit {most})",
                counted(lag, "message")
            ));
        }
        if let Some(most) = args.fail_over_time
            && let Some(age) = age(oldest, &backlog.queues).filter(|age| *age > most)
        {
            late.push(format!(
                "{name}: the oldest unread message is {} old (limit {})",
                time::duration(age),
                time::duration(most)
            ));
        }
    }
    (!late.is_empty()).then(|| Failure::new(exit::ERRORS, late.join("; ")))
}

/// The brokers' groups, asked for once where many groups are looked up.
pub type Known = tokio::sync::OnceCell<KnownGroups>;

/// The failure for a group that no broker knows; `None` when one does.
pub async fn not_found(session: &Session, brokers: &[BrokerAt], group: &str) -> Option<Failure> {
    not_found_in(&Known::new(), session, brokers, group).await
}

/// The same for one of many groups.
pub async fn not_found_in(
    known: &Known,
    session: &Session,
    brokers: &[BrokerAt],
    group: &str,
) -> Option<Failure> {
    let known = known.get_or_init(|| session.client.known_groups(brokers)).await;
    if known.groups.contains_key(group) || !known.failed.is_empty() {
        return None;
    }
    let servers: Vec<String> = brokers.iter().map(|b| b.server().to_string()).collect();
    let near = similar(group, known.groups.keys().map(String::as_str));
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!(
            "consumer group \"{group}\" has no subscription config and no committed offsets on any of {} ({})",
            counted(servers.len(), "broker"),
            servers.join(", ")
        ),
    );
    let failure = if near.is_empty() {
        failure
    } else {
        failure.because(format!("Similar: {}.", near.join(", ")))
    };
    Some(failure.hint("rmq group list"))
}
