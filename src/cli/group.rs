//! `rmq group`: list, lag, clients.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::exit::{self, Failure};
use super::output::{Cell, Listing, col, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::group::{KnownGroups, is_system};
use crate::client::admin::message::Pull;
use crate::client::snapshot::GroupLag;
use crate::client::{BrokerAt, Error, Which, similar};
use crate::protocol::body::{ConsumerConnection, MessageModel};
use crate::protocol::model::version_name;

/// Commands on consumer groups.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the groups, those that only have offsets left as well
    List {
        /// The brokers' own groups as well
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the backlog of groups, the most lagging queue first
    Lag(LagArgs),
    /// Show the online clients of a group
    Clients {
        /// Group name
        group: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
}

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
    /// The brokers' own groups as well
    #[arg(short, long, conflicts_with = "groups")]
    all: bool,
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
    /// One group
    Group,
}

/// Runs a group command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { all, scope, watch } => {
            watch::print(session, &watch, || list(session, all, &scope)).await
        }
        Command::Lag(args) => {
            let watch = args.watch.clone();
            watch::print(session, &watch, || lag(session, &args)).await
        }
        Command::Clients { group, scope, watch } => {
            watch::print(session, &watch, || clients(session, &group, &scope)).await
        }
    }
}

fn failures(known: &KnownGroups) -> Vec<Failure> {
    known.failed.iter().map(|(_, e)| Failure::from(e)).collect()
}

async fn list(session: &Session, all: bool, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let known = session.client.known_groups(&brokers).await;
    let mut listing = Listing::new(
        "GroupList",
        &[
            col("name"),
            col("state"),
            col("brokers"),
            col("consume"),
            col("broadcast"),
            col("orderly"),
            col("retry_max"),
            wide("retry_queues"),
            wide("topics"),
        ],
    );
    for (name, group) in &known.groups {
        if !all && is_system(name) {
            continue;
        }
        let flag = |flag: &dyn Fn(&crate::protocol::body::SubscriptionGroupConfig) -> bool| -> Cell {
            let values: BTreeSet<bool> = group.configs.values().map(flag).collect();
            match (values.contains(&true), values.contains(&false)) {
                (true, true) => "mixed".into(),
                (false, false) => Cell::Unknown,
                (yes, _) => yes.into(),
            }
        };
        let first = group.configs.values().next();
        let topics: BTreeSet<&String> = group.offsets.values().flatten().collect();
        listing.push(vec![
            name.as_str().into(),
            if first.is_some() {
                "configured"
            } else {
                // Left behind by a deleted group.
                "offsets only"
            }
            .into(),
            group.configs.len().max(group.offsets.len()).into(),
            flag(&|c| c.consume_enable),
            flag(&|c| c.consume_broadcast_enable),
            flag(&|c| c.consume_message_orderly),
            first.map(|c| c.retry_max_times).into(),
            first.map(|c| c.retry_queue_nums).into(),
            topics.into_iter().cloned().collect::<Vec<_>>().into(),
        ]);
    }
    listing.errors = failures(&known);
    Ok(Rows {
        some_answered: listing.errors.len() < brokers.len(),
        listing,
    })
}

/// The failure for a group that no broker knows; `None` when one does.
async fn not_found(session: &Session, brokers: &[BrokerAt], group: &str) -> Option<Failure> {
    let known = session.client.known_groups(brokers).await;
    if known.groups.contains_key(group) || !known.failed.is_empty() {
        return None;
    }
    let servers: Vec<String> = brokers.iter().map(|b| b.server().to_string()).collect();
    let near = similar(group, known.groups.keys().map(String::as_str));
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!(
            "consumer group \"{group}\" has no subscription config and no committed offsets on any of {} brokers ({})",
            servers.len(),
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

/// One group over all asked brokers.
#[derive(Default)]
struct Backlog {
    queues: Vec<GroupLag>,
    tps: f64,
    connection: Option<ConsumerConnection>,
    clients: BTreeSet<String>,
}

impl Backlog {
    fn state(&self) -> &'static str {
        if self.clients.is_empty() {
            "offline"
        } else if self.is_broadcast() {
            "broadcast"
        } else {
            "online"
        }
    }

    /// Positions of a broadcasting group are on its clients: the server's numbers mean nothing.
    fn is_broadcast(&self) -> bool {
        self.connection
            .as_ref()
            .is_some_and(|c| c.message_model == MessageModel::Broadcasting)
    }

    fn lag_of<'a>(&self, queues: impl IntoIterator<Item = &'a GroupLag>) -> Option<i64> {
        if self.is_broadcast() {
            return None;
        }
        let known: Vec<i64> = queues.into_iter().filter_map(GroupLag::lag).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    }
}

async fn lag(session: &Session, args: &LagArgs) -> Result<Rows, Failure> {
    let brokers = args.scope.brokers(session, Which::Masters).await?;
    let (mut groups, mut errors) = if args.groups.is_empty() {
        every_group(session, args, &brokers).await
    } else {
        named_groups(session, args, &brokers).await
    };
    // A failed broker is told once, not once a group.
    errors.dedup_by(|a, b| a.what == b.what);
    if errors.is_empty() {
        for name in &args.groups {
            let nothing = groups
                .get(name)
                .is_none_or(|g| g.queues.is_empty() && g.clients.is_empty());
            if nothing && let Some(failure) = not_found(session, &brokers, name).await {
                return Err(failure);
            }
        }
    }
    let by = args.by.unwrap_or(if args.groups.len() == 1 {
        By::Queue
    } else {
        By::Group
    });
    if by == By::Queue || args.fail_over_time.is_some() {
        for backlog in groups.values_mut() {
            backlog.queues.sort_by(|a, b| {
                b.lag()
                    .cmp(&a.lag())
                    .then_with(|| (&a.topic, &a.broker, a.queue).cmp(&(&b.topic, &b.broker, b.queue)))
            });
        }
    }
    let oldest = if by == By::Queue || args.fail_over_time.is_some() {
        oldest_unread(session, &brokers, &groups).await
    } else {
        BTreeMap::new()
    };
    let answered = errors.len() < brokers.len();
    let mut listing = match by {
        By::Queue => by_queue(&groups, &oldest, args.groups.len() == 1),
        By::Topic => summed(&groups, "topic", &|row| row.topic.clone()),
        By::Broker => summed(&groups, "broker", &|row| row.broker.clone()),
        By::Group => by_group(&groups),
    };
    let total: Option<i64> = groups
        .values()
        .filter_map(|g| g.lag_of(&g.queues))
        .reduce(|a, b| a.saturating_add(b));
    listing.summary.insert("total_lag".into(), total.into());
    listing
        .summary
        .insert("partial".into(), (!errors.is_empty()).into());
    if let [name] = args.groups.as_slice()
        && let Some(backlog) = groups.get(name)
    {
        listing.summary.insert("state".into(), backlog.state().into());
        listing
            .summary
            .insert("clients".into(), backlog.clients.len().into());
        if args.watch.watch.is_none() {
            session.note(&sentence(name, backlog, !errors.is_empty()));
        }
    }
    listing.errors = errors;
    if answered && let Some(failure) = over(args, &groups, &oldest) {
        let mut failure = failure;
        // The rows are the evidence: they go out before the verdict.
        session.printer.print(listing.clone())?;
        failure.exit = exit::ERRORS;
        return Err(failure);
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}

fn sentence(name: &str, backlog: &Backlog, partial: bool) -> String {
    let lag = match backlog.lag_of(&backlog.queues) {
        Some(lag) => format!("{}{lag} messages behind", if partial { "at least " } else { "" }),
        None => "backlog unknown".into(),
    };
    match backlog.state() {
        "broadcast" => format!(
            "{name}: broadcasting, its positions are on its clients; the server's numbers mean nothing"
        ),
        "offline" => format!("{name}: {lag}, OFFLINE (no client)"),
        _ => format!("{name}: {lag}, {} clients online", backlog.clients.len()),
    }
}

/// The verdict of `--fail-over` and `--fail-over-time`.
fn over(args: &LagArgs, groups: &BTreeMap<String, Backlog>, oldest: &Oldest) -> Option<Failure> {
    let mut late = Vec::new();
    for (name, backlog) in groups {
        if let (Some(most), Some(lag)) = (args.fail_over, backlog.lag_of(&backlog.queues))
            && lag > most
        {
            late.push(format!("{name} is {lag} messages behind (limit {most})"));
        }
        if let Some(most) = args.fail_over_time {
            let age = backlog
                .queues
                .iter()
                .filter_map(|row| oldest.get(&place(row)))
                .max();
            if let Some(age) = age.filter(|age| **age > most) {
                late.push(format!(
                    "{name}: the oldest unread message is {} old (limit {})",
                    time::duration(*age),
                    time::duration(most)
                ));
            }
        }
    }
    (!late.is_empty()).then(|| Failure::new(exit::ERRORS, late.join("; ")))
}

async fn named_groups(
    session: &Session,
    args: &LagArgs,
    brokers: &[BrokerAt],
) -> (BTreeMap<String, Backlog>, Vec<Failure>) {
    let client = &session.client;
    let deadline = client.deadline();
    let targets: Vec<(String, BrokerAt)> = args
        .groups
        .iter()
        .flat_map(|group| brokers.iter().map(move |b| (group.clone(), b.clone())))
        .collect();
    let answers = client
        .each(targets, |(group, broker)| async move {
            let server = broker.server();
            let (lag, clients) = tokio::join!(
                client.group_lag(&server, &group, args.topic.as_deref(), deadline),
                client.group_clients(&server, &group, deadline)
            );
            (group, lag, clients)
        })
        .await;
    let (mut groups, mut errors) = (BTreeMap::<String, Backlog>::new(), Vec::new());
    for (group, lag, clients) in answers {
        let backlog = groups.entry(group).or_default();
        match lag {
            Ok(lag) => {
                backlog.queues.extend(lag.queues);
                backlog.tps += lag.consume_tps;
            }
            Err(e) => errors.push(Failure::from(&e)),
        }
        add_clients(backlog, clients);
    }
    (groups, errors)
}

fn add_clients(backlog: &mut Backlog, answer: Result<Option<ConsumerConnection>, Error>) {
    // A broker that does not answer is told by its backlog already.
    if let Ok(Some(connection)) = answer {
        backlog
            .clients
            .extend(connection.connection_set.iter().map(|c| c.client_id.clone()));
        backlog.connection = Some(connection);
    }
}

async fn every_group(
    session: &Session,
    args: &LagArgs,
    brokers: &[BrokerAt],
) -> (BTreeMap<String, Backlog>, Vec<Failure>) {
    let client = &session.client;
    let deadline = client.deadline();
    let (answers, known) = tokio::join!(
        client.each(brokers.to_vec(), |broker| async move {
            client.broker_lag(&broker.server(), deadline).await
        }),
        client.known_groups(brokers)
    );
    let (mut groups, mut errors) = (BTreeMap::<String, Backlog>::new(), Vec::new());
    for name in known.groups.into_keys() {
        groups.entry(name).or_default();
    }
    let mut alive = Vec::new();
    for (answer, broker) in answers.into_iter().zip(brokers) {
        match answer {
            Ok(by_group) => {
                alive.push(broker.clone());
                for (group, lag) in by_group {
                    let backlog = groups.entry(group).or_default();
                    backlog.tps += lag.consume_tps;
                    backlog.queues.extend(
                        lag.queues
                            .into_iter()
                            .filter(|q| args.topic.as_ref().is_none_or(|t| *t == q.topic)),
                    );
                }
            }
            Err(e) => errors.push(Failure::from(&e)),
        }
    }
    groups.retain(|name, _| args.all || !is_system(name));
    let targets: Vec<(String, BrokerAt)> = groups
        .keys()
        .flat_map(|group| alive.iter().map(move |b| (group.clone(), b.clone())))
        .collect();
    let connections = client
        .each(targets, |(group, broker)| async move {
            let answer = client
                .group_clients(&broker.server(), &group, client.deadline())
                .await;
            (group, answer)
        })
        .await;
    for (group, answer) in connections {
        add_clients(groups.entry(group).or_default(), answer);
    }
    (groups, errors)
}

type Place = (String, String, i32, i64);
/// Age of the first unread message by queue and position.
type Oldest = BTreeMap<Place, Duration>;

fn place(row: &GroupLag) -> Place {
    (
        row.topic.clone(),
        row.broker.clone(),
        row.queue,
        row.committed.unwrap_or(-1),
    )
}

/// Age of the first unread message of each lagging queue: a read of one message that leaves no trace.
async fn oldest_unread(
    session: &Session,
    brokers: &[BrokerAt],
    groups: &BTreeMap<String, Backlog>,
) -> Oldest {
    let client = &session.client;
    let deadline = client.deadline();
    let rows: Vec<&GroupLag> = groups
        .values()
        .filter(|backlog| !backlog.is_broadcast())
        .flat_map(|backlog| &backlog.queues)
        .filter(|row| row.lag().is_some_and(|lag| lag > 0))
        .collect();
    let ages = client
        .each(rows, |row| async move {
            let broker = brokers.iter().find(|b| b.id.name == row.broker)?.server();
            let pull = Pull {
                topic: &row.topic,
                queue: row.queue,
                offset: row.committed?,
                most: 1,
                tags: "*",
                hold: None,
            };
            let pulled = client.pull(&broker, &pull, deadline).await.ok()?;
            let message = pulled.messages.first()?;
            let age = u64::try_from(time::now_ms().saturating_sub(message.stored_ms)).unwrap_or(0);
            Some((place(row), Duration::from_millis(age)))
        })
        .await;
    ages.into_iter().flatten().collect()
}

fn by_queue(groups: &BTreeMap<String, Backlog>, oldest: &Oldest, one_group: bool) -> Listing {
    let mut listing = Listing::new(
        "GroupLag",
        &[
            if one_group { wide("group") } else { col("group") },
            col("topic"),
            col("broker"),
            col("queue"),
            col("max"),
            col("committed"),
            col("lag"),
            col("inflight"),
            col("lag_time_ms"),
            col("note"),
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
                Cell::span(oldest.get(&place(row)).copied()),
                match (broadcast, row.is_beyond_end()) {
                    (true, _) => "broadcast".into(),
                    (_, true) => "beyond end".into(),
                    _ => Cell::Unknown,
                },
                Cell::time(row.last_consumed_ms),
            ]);
        }
    }
    listing
}

fn summed(
    groups: &BTreeMap<String, Backlog>,
    unit: &'static str,
    key: &dyn Fn(&GroupLag) -> String,
) -> Listing {
    let mut listing = Listing::new(
        "GroupLag",
        &[
            col("group"),
            col(unit),
            col("queues"),
            col("lag"),
            col("max_queue_lag"),
        ],
    );
    for (name, backlog) in groups {
        let mut parts: BTreeMap<String, Vec<&GroupLag>> = BTreeMap::new();
        for row in &backlog.queues {
            parts.entry(key(row)).or_default().push(row);
        }
        for (part, rows) in parts {
            listing.push(vec![
                name.as_str().into(),
                part.into(),
                rows.len().into(),
                backlog.lag_of(rows.iter().copied()).into(),
                rows.iter()
                    .filter_map(|r| r.lag())
                    .max()
                    .filter(|_| !backlog.is_broadcast())
                    .into(),
            ]);
        }
    }
    listing
}

fn by_group(groups: &BTreeMap<String, Backlog>) -> Listing {
    let mut listing = Listing::new(
        "GroupLag",
        &[
            col("group"),
            col("state"),
            col("clients"),
            col("queues"),
            col("lag"),
            col("max_queue_lag"),
            col("consume_tps"),
            wide("topics"),
        ],
    );
    for (name, backlog) in groups {
        let topics: BTreeSet<&String> = backlog.queues.iter().map(|q| &q.topic).collect();
        listing.push(vec![
            name.as_str().into(),
            backlog.state().into(),
            backlog.clients.len().into(),
            backlog.queues.len().into(),
            backlog.lag_of(&backlog.queues).into(),
            backlog
                .queues
                .iter()
                .filter_map(GroupLag::lag)
                .max()
                .filter(|_| !backlog.is_broadcast())
                .into(),
            backlog.tps.into(),
            topics.into_iter().cloned().collect::<Vec<_>>().into(),
        ]);
    }
    listing
}

async fn clients(session: &Session, group: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::All).await?;
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers.clone(), |broker| async move {
            let answer = client.group_clients(&broker.server(), group, deadline).await;
            (broker, answer)
        })
        .await;
    let mut listing = Listing::new(
        "GroupClients",
        &[
            col("client"),
            col("addr"),
            col("language"),
            col("version"),
            col("brokers"),
        ],
    );
    let mut by_client: BTreeMap<String, (String, String, String, Vec<String>)> = BTreeMap::new();
    let (mut answered, mut shape) = (false, None);
    for (broker, answer) in answers {
        match answer {
            Ok(connection) => {
                answered = true;
                let Some(connection) = connection else { continue };
                for c in &connection.connection_set {
                    by_client
                        .entry(c.client_id.clone())
                        .or_insert_with(|| {
                            (
                                c.client_addr.clone(),
                                c.language.name().to_owned(),
                                version_name(c.version),
                                Vec::new(),
                            )
                        })
                        .3
                        .push(broker.id.to_string());
                }
                shape = Some(connection);
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    for (client, (addr, language, version, brokers)) in by_client {
        listing.push(vec![
            client.into(),
            addr.into(),
            language.into(),
            version.into(),
            brokers.into(),
        ]);
    }
    match shape {
        Some(c) => {
            let subscriptions: Vec<String> = c
                .subscription_table
                .values()
                .map(|s| format!("{} {}", s.topic, s.sub_string))
                .collect();
            listing
                .summary
                .insert("type".into(), c.consume_type.name().into());
            listing
                .summary
                .insert("model".into(), c.message_model.name().into());
            listing
                .summary
                .insert("from".into(), c.consume_from_where.name().into());
            session.note(&format!(
                "{group}: {}, {}, {}; subscribes to {}",
                c.consume_type,
                c.message_model,
                c.consume_from_where,
                subscriptions.join(", ")
            ));
            listing
                .summary
                .insert("subscriptions".into(), subscriptions.into());
        }
        None if listing.errors.is_empty() => {
            if let Some(failure) = not_found(session, &brokers, group).await {
                return Err(failure);
            }
            session.note(&format!("{group}: no client is online"));
        }
        None => {}
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}
