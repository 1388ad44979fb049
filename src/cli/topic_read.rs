//! `rmq topic describe|clusters|consumers|producers|stats|allocate`: who has a topic and who uses it.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Subcommand, ValueEnum};

use super::exit::Failure;
use super::output::{Cell, Detail, Listing, col, wide};
use super::producer;
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use super::topic::{configs, not_found};
use super::watch::{self, Objects, Rows, WatchArgs};
use crate::client::admin::allocate::{Strategy, allocate};
use crate::client::admin::topic::{kind, masters};
use crate::client::admin::topic_use::TopicUse;
use crate::client::snapshot::TopicKind;
use crate::client::words::counted;
use crate::client::{BrokerAt, Scope};
use crate::protocol::body::TopicRouteData;
use crate::protocol::model::MessageQueue;

/// Commands on one topic and its users.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show one topic: configuration, size, groups, what stands out
    Describe {
        /// Topic name
        name: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the clusters that have a topic
    Clusters {
        /// Topic name
        name: String,
    },
    /// Show the groups that consume a topic
    Consumers {
        /// Topic name
        name: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the producers connected to a topic's brokers
    Producers {
        /// Topic name
        name: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show what goes in and out of topics, one row a topic and group
    Stats {
        /// Topic names; without one, every topic
        names: Vec<String>,
        /// Only what moved in the last 24 hours
        #[arg(long)]
        active: bool,
        /// Retry, dead-letter and system topics as well
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show consume queue entries of a topic on its brokers
    Cq {
        /// Topic name
        name: String,
        /// Queue number
        #[arg(long, value_name = "N")]
        queue: i32,
        /// First entry
        #[arg(long, value_name = "OFFSET", default_value_t = 0, hide_default_value = true)]
        from: i64,
        /// Entries from each broker
        #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(i32).range(1..=4096))]
        limit: i32,
        /// Say which entries pass this group's filter
        #[arg(short, long, value_name = "NAME")]
        group: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Show which client would get which queue; asks no client
    Allocate {
        /// Topic name
        name: String,
        /// Client ids
        #[arg(long, required = true, value_delimiter = ',', value_name = "A,B")]
        clients: Vec<String>,
        /// How queues are shared
        #[arg(long, value_enum, default_value_t = StrategyArg::Avg, value_name = "STRATEGY")]
        strategy: StrategyArg,
    },
}

/// `--strategy`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StrategyArg {
    /// A run of queues each, what clients use unless told otherwise
    Avg,
    /// Queues in turn
    Circle,
    /// Consistent hashing
    Hash,
}

/// Runs a command on one topic and its users.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Describe { name, scope, watch } => {
            watch::print(session, &watch, || describe(session, &name, &scope)).await
        }
        Command::Clusters { name } => clusters(session, &name).await,
        Command::Consumers { name, scope, watch } => {
            watch::print(session, &watch, || consumers(session, &name, &scope)).await
        }
        Command::Producers { name, scope, watch } => {
            watch::print(session, &watch, || producers(session, &name, &scope)).await
        }
        Command::Stats {
            names,
            active,
            all,
            scope,
            watch,
        } => watch::print(session, &watch, || stats(session, &names, active, all, &scope)).await,
        Command::Cq {
            name,
            queue,
            from,
            limit,
            group,
            scope,
        } => {
            let wanted = Entries {
                queue,
                from,
                limit,
                group: group.as_deref(),
            };
            entries(session, &name, &wanted, &scope).await
        }
        Command::Allocate {
            name,
            clients,
            strategy,
        } => shares(session, &name, &clients, strategy).await,
    }
}

/// The route of a topic; none is a failure with names that are close.
async fn routed(session: &Session, name: &str) -> Result<TopicRouteData, Failure> {
    let route = session.client.route(name).await;
    session.warn_of_dead_name_servers();
    match route? {
        Some(route) => Ok(route),
        None => Err(not_found(session, name, String::new()).await),
    }
}

/// The topic's masters that the scope means.
pub fn hosts(route: &TopicRouteData, scope: &Scope) -> Vec<BrokerAt> {
    let mut brokers = masters(route);
    if let Some(cluster) = &scope.cluster {
        brokers.retain(|b| b.id.cluster == *cluster);
    }
    if !scope.brokers.is_empty() {
        brokers.retain(|b| {
            scope
                .brokers
                .iter()
                .any(|s| s.0 == b.id.name || s.0 == b.addr || s.0 == b.id.to_string())
        });
    }
    brokers
}

async fn clusters(session: &Session, name: &str) -> Result<(), Failure> {
    let route = routed(session, name).await?;
    let mut by_cluster: BTreeMap<&str, (Vec<String>, i32)> = BTreeMap::new();
    for set in &route.broker_datas {
        let one = by_cluster.entry(&set.cluster).or_default();
        one.0.push(set.broker_name.clone());
        one.1 += route
            .queue_datas
            .iter()
            .filter(|q| q.broker_name == set.broker_name)
            .map(|q| q.write_queue_nums)
            .sum::<i32>();
    }
    let mut listing = Listing::new(
        "TopicClusters",
        &[col("cluster"), col("broker_names"), col("write_queues")],
    );
    for (cluster, (mut brokers, queues)) in by_cluster {
        brokers.sort();
        listing.push(vec![cluster.into(), brokers.into(), queues.into()]);
    }
    session.printer.print(listing)
}

async fn consumers(session: &Session, name: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let route = routed(session, name).await?;
    let found = session
        .client
        .topic_use(&hosts(&route, &scope.scope(session)?), name)
        .await;
    let mut listing = group_columns("TopicConsumers");
    for (group, one) in &found.groups {
        listing.push(group_row(group, one));
    }
    if found.groups.is_empty() && found.errors.is_empty() {
        session.note(&format!("{name}: no group consumes it"));
    }
    listing.errors = found.errors.iter().map(Failure::from).collect();
    Ok(Rows {
        listing,
        some_answered: found.answered > 0,
    })
}

fn group_columns(kind: &'static str) -> Listing {
    Listing::new(
        kind,
        &[
            col("group"),
            col("state"),
            col("clients"),
            col("expression"),
            col("lag").sums(),
            col("out_tps_1m").sums(),
            wide("out_24h"),
            wide("client_ids"),
        ],
    )
}

fn group_row(group: &str, one: &crate::client::admin::topic_use::GroupUse) -> Vec<Cell> {
    vec![
        group.into(),
        match (one.clients.is_empty(), one.expressions.is_empty()) {
            (true, _) => "offline",
            // Its clients are there, but read other topics now.
            (false, true) => "not subscribed",
            (false, false) => "online",
        }
        .into(),
        one.clients.len().into(),
        if one.expressions.is_empty() {
            Cell::Unknown
        } else {
            Cell::Text(one.expressions.iter().cloned().collect::<Vec<_>>().join(" | "))
        },
        one.lag.into(),
        one.out.tps.into(),
        one.out.day.into(),
        one.clients.iter().cloned().collect::<Vec<_>>().into(),
    ]
}

async fn producers(session: &Session, name: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let route = routed(session, name).await?;
    let brokers = hosts(&route, &scope.scope(session)?);
    session.note(&format!(
        "brokers do not record what a producer sends to: these are connected to the {} of {name}",
        counted(brokers.len(), "broker")
    ));
    Ok(producer::list(session, brokers, "TopicProducers").await)
}

async fn stats(
    session: &Session,
    names: &[String],
    active: bool,
    all: bool,
    scope: &ScopeArgs,
) -> Result<Rows, Failure> {
    let client = &session.client;
    let scope = scope.scope(session)?;
    let topics: Vec<String> = if names.is_empty() {
        let (names, info) = tokio::join!(
            client.topic_names(scope.cluster.as_deref()),
            client.cluster_info()
        );
        let info = info?;
        let mut servers: BTreeSet<String> = info.broker_addr_table.keys().cloned().collect();
        servers.extend(info.cluster_addr_table.keys().cloned());
        names?
            .into_iter()
            .filter(|name| all || kind(name, &servers) == TopicKind::User)
            .collect()
    } else {
        names.to_vec()
    };
    let asked = names;
    let answers = client
        .each(topics, |topic| {
            let scope = &scope;
            async move {
                let route = client.route(&topic).await?;
                let found = match route {
                    Some(route) => Some(client.topic_use(&hosts(&route, scope), &topic).await),
                    None => None,
                };
                Ok::<_, crate::client::Error>((topic, found))
            }
        })
        .await;
    let mut listing = Listing::new(
        "TopicStats",
        &[
            col("topic"),
            col("group"),
            col("lag").sums(),
            col("in_tps_1m"),
            col("out_tps_1m").sums(),
            col("in_24h"),
            col("out_24h"),
            wide("messages"),
            wide("last_stored"),
        ],
    );
    let mut answered = false;
    for answer in answers {
        let (topic, found) = answer?;
        let Some(found) = found else {
            if asked.contains(&topic) {
                return Err(not_found(session, &topic, String::new()).await);
            }
            continue;
        };
        answered |= found.answered > 0;
        stats_rows(&topic, &found, active, &mut listing);
        listing.errors.extend(found.errors.iter().map(Failure::from));
    }
    // A broker that fails is told once, not once a topic.
    listing.errors.sort_by(|a, b| a.what.cmp(&b.what));
    listing.errors.dedup_by(|a, b| a.what == b.what);
    Ok(Rows {
        some_answered: answered || listing.errors.is_empty(),
        listing,
    })
}

/// A day, ms.
const DAY_MS: i64 = 86_400_000;

fn stats_rows(topic: &str, found: &TopicUse, active: bool, listing: &mut Listing) {
    let mut push = |group: Cell, lag: Cell, tps: Cell, day: Cell| {
        listing.push(vec![
            topic.into(),
            group,
            lag,
            found.incoming.tps.into(),
            tps,
            found.incoming.day.into(),
            day,
            found.messages.into(),
            Cell::time(Some(found.last_stored_ms)),
        ]);
    };
    // A broker's counters begin anew with it and skip from one span to the next: the time of the newest message does not.
    let moved = found.incoming.day > 0 || time::now_ms().saturating_sub(found.last_stored_ms) < DAY_MS;
    if found.groups.is_empty() {
        if found.answered > 0 && (!active || moved) {
            push(Cell::Unknown, Cell::Unknown, Cell::Unknown, Cell::Unknown);
        }
        return;
    }
    for (group, one) in &found.groups {
        if !active || moved || one.out.day > 0 {
            push(
                group.as_str().into(),
                one.lag.into(),
                one.out.tps.into(),
                one.out.day.into(),
            );
        }
    }
}

/// Which entries of a queue.
struct Entries<'a> {
    queue: i32,
    from: i64,
    limit: i32,
    group: Option<&'a str>,
}

async fn entries(
    session: &Session,
    name: &str,
    wanted: &Entries<'_>,
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    let route = routed(session, name).await?;
    let brokers = hosts(&route, &scope.scope(session)?);
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers, |broker| async move {
            let found = client
                .queue_entries(
                    &broker.server(),
                    name,
                    (wanted.queue, wanted.from, wanted.limit),
                    wanted.group,
                    deadline,
                )
                .await;
            (broker, found)
        })
        .await;
    let mut listing = Listing::new(
        "QueueEntries",
        &[
            col("broker"),
            col("queue"),
            col("offset"),
            col("commit_log_offset"),
            col("size"),
            col("tags_code"),
            wide("passes"),
            wide("note"),
        ],
    );
    let mut answered = false;
    for (broker, found) in answers {
        match found {
            Ok(found) => {
                answered = true;
                let ends = format!("{} {}", found.min_queue_index, found.max_queue_index);
                listing.summary.insert(broker.id.name.clone(), ends.into());
                let first = wanted.from.max(found.min_queue_index);
                for (entry, offset) in found.queue_data.iter().zip(first..) {
                    listing.push(vec![
                        broker.id.name.as_str().into(),
                        wanted.queue.into(),
                        offset.into(),
                        entry.physic_offset.into(),
                        entry.physic_size.into(),
                        entry.tags_code.into(),
                        wanted.group.map(|_| entry.eval).into(),
                        entry.msg.clone().into(),
                    ]);
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    let verdict = Failure::over(&listing.errors, answered);
    session.printer.print(listing)?;
    verdict
}

async fn shares(
    session: &Session,
    name: &str,
    clients: &[String],
    strategy: StrategyArg,
) -> Result<(), Failure> {
    let route = routed(session, name).await?;
    let clients: Vec<String> = clients
        .iter()
        .map(|c| c.trim().to_owned())
        .filter(|c| !c.is_empty())
        .collect();
    if clients.is_empty() {
        return Err(Failure::usage("--clients names no client"));
    }
    // What consumers see: the read queues of readable brokers.
    let queues: Vec<MessageQueue> = route
        .queue_datas
        .iter()
        .filter(|q| q.perm.readable())
        .flat_map(|q| {
            let count = q
                .read_queue_nums
                .clamp(0, crate::client::admin::topic::MAX_QUEUES);
            (0..count).map(|queue_id| MessageQueue {
                topic: name.to_owned(),
                broker_name: q.broker_name.clone(),
                queue_id,
            })
        })
        .collect();
    let strategy = match strategy {
        StrategyArg::Avg => Strategy::Average,
        StrategyArg::Circle => Strategy::Circle,
        StrategyArg::Hash => Strategy::Hash,
    };
    let mut listing = Listing::new("TopicAllocation", &[col("client"), col("queues"), col("share")]);
    for (client, share) in allocate(&queues, &clients, strategy) {
        listing.push(vec![
            client.into(),
            share.len().into(),
            share
                .iter()
                .map(|q| format!("{}/{}", q.broker_name, q.queue_id))
                .collect::<Vec<_>>()
                .into(),
        ]);
    }
    listing.summary.insert("queues".into(), queues.len().into());
    session.printer.print(listing)
}

async fn describe(session: &Session, name: &str, scope: &ScopeArgs) -> Result<Objects, Failure> {
    let route = routed(session, name).await?;
    let brokers = hosts(&route, &scope.scope(session)?);
    let client = &session.client;
    let (found, configs, order) = tokio::join!(
        client.topic_use(&brokers, name),
        configs(session, &brokers, name),
        client.order_conf_each(name)
    );
    let mut errors: Vec<Failure> = found.errors.iter().map(Failure::from).collect();
    let mut table = Listing::new(
        "TopicConfig",
        &[
            col("broker"),
            col("perm"),
            col("read_queues"),
            col("write_queues"),
            col("order"),
            col("routed_perm"),
            col("attributes"),
        ],
    );
    let mut hints: Vec<String> = Vec::new();
    let (mut read, mut write, mut types) = (0, 0, BTreeSet::new());
    let mut counts = BTreeSet::new();
    for (broker, config) in configs {
        let routed = route.queue_datas.iter().find(|q| q.broker_name == broker.id.name);
        match config {
            Ok(Some((config, _))) => {
                read += config.read_queue_nums;
                write += config.write_queue_nums;
                counts.insert((config.read_queue_nums, config.write_queue_nums));
                types.extend(config.attributes.get("message.type").map(|t| t.to_lowercase()));
                if config.read_queue_nums < config.write_queue_nums {
                    hints.push(format!(
                        "{}: {} write queues, of which consumers read {}",
                        broker.id.name, config.write_queue_nums, config.read_queue_nums
                    ));
                }
                if let Some(routed) = routed.filter(|q| q.perm != config.perm) {
                    hints.push(format!(
                        "{}: the name server shows perm {}, the broker has {}",
                        broker.id.name, routed.perm, config.perm
                    ));
                }
                table.push(vec![
                    broker.id.name.as_str().into(),
                    config.perm.to_string().into(),
                    config.read_queue_nums.into(),
                    config.write_queue_nums.into(),
                    config.order.into(),
                    routed.map(|q| q.perm.to_string()).into(),
                    Cell::Pairs(config.attributes.clone().into_iter().collect()),
                ]);
            }
            Ok(None) => hints.push(format!(
                "{} is routed but does not have the topic",
                broker.id.name
            )),
            Err(e) => errors.push(Failure::from(&e)),
        }
    }
    if counts.len() > 1 {
        hints.push("the numbers of queues differ between brokers".into());
    }
    if found.groups.is_empty() && found.messages > 0 && found.errors.is_empty() {
        hints.push("no group consumes it".into());
    }
    let mut groups = group_columns("TopicConsumers");
    for (group, one) in &found.groups {
        groups.push(group_row(group, one));
    }
    let order = order.into_iter().find_map(|(_, value)| value.ok().flatten());
    // A failed broker is told once.
    errors.sort_by(|a, b| a.what.cmp(&b.what));
    errors.dedup_by(|a, b| a.what == b.what);
    let detail = Detail {
        kind: "Topic",
        fields: vec![
            ("name", name.into()),
            ("brokers", brokers.len().into()),
            ("read_queues", read.into()),
            ("write_queues", write.into()),
            (
                "type",
                if types.is_empty() {
                    Cell::Unknown
                } else {
                    Cell::Text(types.into_iter().collect::<Vec<_>>().join("|"))
                },
            ),
            ("messages", found.messages.into()),
            ("last_stored", Cell::time(Some(found.last_stored_ms))),
            ("in_tps_1m", found.incoming.tps.into()),
            ("in_24h", found.incoming.day.into()),
            ("order_conf", order.into()),
            ("hints", hints.into()),
        ],
        tables: vec![("configuration", table), ("groups", groups)],
        errors: errors.clone(),
    };
    Ok(Objects {
        details: vec![detail],
        failures: errors,
        some_answered: found.answered > 0,
    })
}
