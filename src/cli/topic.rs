//! `rmq topic`: lists, configuration, route, status. Who uses a topic is in `topic_read`, changes are in `topic_change`.

use std::collections::{BTreeMap, BTreeSet};

use std::time::Duration;

use clap::{Args, Subcommand};

use super::exit::{self, Failure};
use super::output::{Cell, Format, Listing, col, wide};
use super::scale::{self, ScaleArgs};
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use super::topic_change::{self, CreateArgs, DeleteArgs, UpdateArgs};
use super::watch::{self, Rows, WatchArgs};
use super::{topic_order, topic_read};
use crate::client::admin::group_check::count;
use crate::client::admin::topic::{ConfigSource, MAX_QUEUES, PermChange, kind, masters};
use crate::client::snapshot::TopicKind;
use crate::client::static_topic::is_static;
use crate::client::words::counted;
use crate::client::{BrokerAt, Error, Which, similar};
use crate::protocol::body::{TopicConfig, TopicRouteData};
use crate::protocol::model::Perm;

/// Commands on topics.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the topics with their queues and permission
    List {
        #[command(flatten)]
        list: ListArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// List the topics that nobody writes and no group reads
    FindUnused {
        /// No message came for this long
        #[arg(long, default_value = "7d", value_name = "DURATION", value_parser = time::parse_duration)]
        idle: Duration,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Show a topic's configuration on each broker
    Get {
        /// Topic name
        name: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Create a topic; fails when it exists
    Create(CreateArgs),
    /// Change the named fields of a topic and no others
    Update(UpdateArgs),
    /// Delete a topic on its brokers and name servers
    Delete(DeleteArgs),
    /// Change the number of queues without losing or stranding a message, up or down
    Scale(ScaleArgs),
    /// Take the write permission from a topic; queue numbers stay
    StopWrites(WritesArgs),
    /// Give a topic the write permission back
    AllowWrites(WritesArgs),
    /// The order entry of an ordered topic at the name servers
    #[command(subcommand)]
    Order(topic_order::Command),
    #[command(flatten)]
    Read(topic_read::Command),
    /// Show where a topic's queues are
    Route {
        /// Topic name
        name: String,
        /// One row for each name server
        #[arg(long)]
        each_namesrv: bool,
    },
    /// Show the offset range of each queue
    Status {
        /// Topic name
        name: String,
        /// Only this queue
        #[arg(long, value_name = "N")]
        queue: Option<i32>,
        /// One row a broker
        #[arg(long)]
        sum: bool,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
}

/// `rmq topic list`
#[derive(Debug, Clone, Default, Args)]
pub struct ListArgs {
    /// Retry, dead-letter and system topics as well
    #[arg(short, long)]
    all: bool,
    /// Only topics of this message type; unset ones are of type unspecified
    #[arg(long = "type", value_name = "TYPE", value_parser = topic_change::message_type)]
    message_type: Option<String>,
    /// With the groups that consume each topic
    #[arg(long)]
    with_groups: bool,
    /// Only topics without a group
    #[arg(long)]
    no_consumers: bool,
    /// Only topics without a message for this long
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    idle: Option<Duration>,
    /// With the number of messages and the time of the newest
    #[arg(long)]
    stats: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq topic stop-writes` and `rmq topic allow-writes`
#[derive(Debug, Clone, Args)]
pub struct WritesArgs {
    /// Topic name
    name: String,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Runs a topic command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { list: args, watch } => {
            watch::print(session, &watch, || list(session, &args, "TopicList")).await
        }
        Command::FindUnused { idle, scope } => {
            let args = ListArgs {
                no_consumers: true,
                idle: Some(idle),
                stats: true,
                scope,
                ..ListArgs::default()
            };
            watch::print(session, &WatchArgs::default(), || {
                list(session, &args, "UnusedTopics")
            })
            .await
        }
        Command::Get { name, scope, watch } => {
            watch::print(session, &watch, || get(session, &name, &scope)).await
        }
        Command::Create(args) => topic_change::create(session, args).await,
        Command::Update(args) => topic_change::update(session, args).await,
        Command::Delete(args) => topic_change::delete(session, args).await,
        Command::Scale(args) => scale::run(session, args).await,
        Command::StopWrites(args) => {
            let change = PermChange::Remove(Perm::WRITE);
            topic_change::update(session, UpdateArgs::perm(args.name, change, args.scope)).await
        }
        Command::AllowWrites(args) => {
            let change = PermChange::Add(Perm::WRITE);
            topic_change::update(session, UpdateArgs::perm(args.name, change, args.scope)).await
        }
        Command::Order(command) => topic_order::run(session, command).await,
        Command::Read(command) => topic_read::run(session, command).await,
        Command::Route { name, each_namesrv } => route(session, &name, each_namesrv).await,
        Command::Status {
            name,
            queue,
            sum,
            scope,
            watch,
        } => {
            let watched = watch.interval().is_some();
            let look = || status(session, &name, (queue, sum), &scope, watched);
            watch::print(session, &watch, look).await
        }
    }
}

/// The failure for a topic that nobody has, with names that are close.
pub async fn not_found(session: &Session, name: &str, searched: String) -> Failure {
    let names = session.client.topic_names(None).await.unwrap_or_default();
    Failure::from(Error::NotFound {
        noun: "topic",
        name: name.to_owned(),
        searched,
        similar: similar(name, names.iter().map(String::as_str)),
    })
}

/// What a listing adds to a topic on demand.
#[derive(Default)]
struct Extra {
    groups: BTreeSet<String>,
    messages: i64,
    last_stored: i64,
}

/// Size and groups of topics, from every broker that has them; what failed.
async fn extras(
    session: &Session,
    targets: Vec<(String, BrokerAt)>,
    groups: bool,
    sizes: bool,
) -> (BTreeMap<String, Extra>, Vec<Failure>) {
    let client = &session.client;
    let answers = client
        .each(targets, |(topic, broker)| async move {
            let (server, deadline) = (broker.server(), client.deadline());
            let names = async {
                match groups {
                    true => client.topic_groups(&server, &topic, deadline).await,
                    false => Ok(BTreeSet::new()),
                }
            };
            let stats = async {
                match sizes {
                    true => client.topic_stats(&server, &topic, deadline).await,
                    false => Ok(Default::default()),
                }
            };
            let found = tokio::try_join!(names, stats);
            (topic, found)
        })
        .await;
    let (mut extras, mut failures) = (BTreeMap::<String, Extra>::new(), Vec::new());
    for (topic, found) in answers {
        match found {
            Ok((groups, stats)) => {
                let one = extras.entry(topic).or_default();
                one.groups.extend(groups);
                one.messages = one.messages.saturating_add(count(&stats));
                let newest = stats.offset_table.values().map(|r| r.last_update_timestamp).max();
                one.last_stored = one.last_stored.max(newest.unwrap_or(0));
            }
            Err(e) => failures.push(Failure::from(&e)),
        }
    }
    (extras, failures)
}

async fn list(session: &Session, args: &ListArgs, kind_of: &'static str) -> Result<Rows, Failure> {
    let client = &session.client;
    let scope = args.scope.scope(session)?;
    let with_groups = args.with_groups || args.no_consumers;
    let with_sizes = args.stats || args.idle.is_some();
    let ask_brokers = session.printer.format != Format::Name
        || !scope.brokers.is_empty()
        || with_groups
        || with_sizes
        || args.message_type.is_some();
    let names_of = scope.cluster.as_deref().filter(|_| scope.brokers.is_empty());
    let (info, names) = tokio::join!(client.cluster_info(), client.topic_names(names_of));
    let info = info?;
    let brokers = crate::client::admin::cluster::select(&info, &scope, Which::Masters)?;
    let mut servers: BTreeSet<String> = info.broker_addr_table.keys().cloned().collect();
    servers.extend(info.cluster_addr_table.keys().cloned());
    let mut topics: BTreeMap<String, Vec<(String, TopicConfig)>> = BTreeMap::new();
    let mut static_queues: BTreeMap<String, i32> = BTreeMap::new();
    match names {
        Ok(names) if scope.brokers.is_empty() => {
            topics.extend(names.into_iter().map(|name| (name, Vec::new())));
        }
        // A name server may refuse its lists; what the brokers have is shown all the same.
        Err(e) if session.printer.format != Format::Name && !e.is_unreachable() => {
            session.warn(&format!("the list of the name server is missing: {}", e.reason()));
        }
        Err(e) => return Err(Failure::from(e)),
        Ok(_) => {}
    }
    let mut columns = vec![
        col("name"),
        col("kind"),
        col("perm"),
        col("read_queues"),
        col("write_queues"),
        col("brokers"),
        wide("order"),
        wide("type"),
        wide("broker_names"),
        wide("static_queues"),
    ];
    if with_sizes {
        columns.extend([col("messages").sums(), col("last_stored")]);
    }
    if with_groups {
        columns.push(col("groups"));
    }
    let mut listing = Listing::new(kind_of, &columns);
    let mut answered = false;
    // Bare names need nothing from the brokers.
    let mut by_name: BTreeMap<String, BrokerAt> = BTreeMap::new();
    if ask_brokers {
        let deadline = client.deadline();
        let answers = client
            .each(brokers, |broker| async move {
                let table = client.broker_topics(&broker.server(), deadline).await;
                (broker, table)
            })
            .await;
        for (broker, table) in answers {
            match table {
                Ok(table) => {
                    answered = true;
                    by_name.insert(broker.id.name.clone(), broker.clone());
                    for (name, mapping) in table.topic_queue_mapping_detail_map.into_iter().flatten() {
                        static_queues.insert(name, mapping.total_queues);
                    }
                    for (name, config) in table.topic_config_table {
                        topics
                            .entry(name)
                            .or_default()
                            .push((broker.id.name.clone(), config));
                    }
                }
                Err(e) => listing.errors.push(Failure::from(&e)),
            }
        }
    }
    topics.retain(|name, configs| {
        let message_type = |c: &TopicConfig| c.attributes.get("message.type").cloned();
        let wanted = args.message_type.as_ref().is_none_or(|wanted| {
            configs
                .iter()
                .any(|(_, c)| message_type(c).as_deref().unwrap_or("UNSPECIFIED") == wanted)
        });
        wanted && (args.all || kind(name, &servers) == TopicKind::User)
    });
    let mut extra = BTreeMap::new();
    if with_groups || with_sizes {
        let targets = topics
            .iter()
            .flat_map(|(name, configs)| {
                let brokers = configs.iter().filter_map(|(broker, _)| by_name.get(broker));
                brokers.map(move |broker| (name.clone(), broker.clone()))
            })
            .collect();
        let (found, failures) = extras(session, targets, with_groups, with_sizes).await;
        extra = found;
        listing.errors.extend(failures);
        listing.errors.dedup_by(|a, b| a.what == b.what);
        let now = time::now_ms();
        topics.retain(|name, _| {
            let Some(extra) = extra.get(name) else {
                return args.idle.is_none() && !args.no_consumers;
            };
            let idle = args.idle.is_none_or(|idle| {
                let age = u64::try_from(now.saturating_sub(extra.last_stored)).unwrap_or(0);
                extra.last_stored == 0 || Duration::from_millis(age) >= idle
            });
            idle && (!args.no_consumers || extra.groups.is_empty())
        });
    }
    for (name, configs) in topics {
        let kind = kind(&name, &servers);
        let per_broker = |number: &dyn Fn(&TopicConfig) -> i32| -> Cell {
            let numbers: BTreeSet<i32> = configs.iter().map(|(_, c)| number(c)).collect();
            match (numbers.first(), numbers.last()) {
                (Some(a), Some(b)) if a == b => (*a).into(),
                (Some(a), Some(b)) => Cell::Differs(format!("{a}..{b}")),
                _ => Cell::Unknown,
            }
        };
        let words = |word: &dyn Fn(&TopicConfig) -> Option<String>| -> Cell {
            let words: BTreeSet<String> = configs.iter().filter_map(|(_, c)| word(c)).collect();
            if words.is_empty() {
                Cell::Unknown
            } else {
                Cell::Text(words.into_iter().collect::<Vec<_>>().join("|"))
            }
        };
        let mut row: Vec<Cell> = vec![
            name.as_str().into(),
            kind_name(kind).into(),
            words(&|c| Some(c.perm.to_string())),
            per_broker(&|c| c.read_queue_nums),
            per_broker(&|c| c.write_queue_nums),
            if configs.is_empty() {
                Cell::Unknown
            } else {
                configs.len().into()
            },
            match configs.iter().map(|(_, c)| c.order).collect::<BTreeSet<_>>() {
                orders if orders.len() > 1 => Cell::Differs("no|yes".to_owned()),
                orders => orders.first().copied().into(),
            },
            words(&|c| c.attributes.get("message.type").map(|t| t.to_lowercase())),
            configs
                .iter()
                .map(|(broker, _)| broker.clone())
                .collect::<Vec<_>>()
                .into(),
            static_queues.get(&name).copied().into(),
        ];
        let extra = extra.get(&name);
        if with_sizes {
            row.push(extra.map(|e| e.messages).into());
            row.push(Cell::time(extra.map(|e| e.last_stored)));
        }
        if with_groups {
            row.push(extra.map(|e| e.groups.iter().cloned().collect::<Vec<_>>()).into());
        }
        listing.push(row);
    }
    Ok(Rows {
        some_answered: answered || !listing.rows.is_empty(),
        listing,
    })
}

fn kind_name(kind: TopicKind) -> &'static str {
    match kind {
        TopicKind::User => "user",
        TopicKind::Retry => "retry",
        TopicKind::DeadLetter => "dlq",
        TopicKind::System => "system",
    }
}

/// A topic's configuration on each of `brokers`.
pub async fn configs(
    session: &Session,
    brokers: &[BrokerAt],
    name: &str,
) -> Vec<(BrokerAt, Result<Option<(TopicConfig, ConfigSource)>, Error>)> {
    let client = &session.client;
    let deadline = client.deadline();
    client
        .each(brokers.to_vec(), |broker| async move {
            let config = client.topic_config(&broker, name, deadline).await;
            (broker, config)
        })
        .await
}

async fn get(session: &Session, name: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let mut listing = Listing::new(
        "TopicConfig",
        &[
            col("broker"),
            col("perm"),
            col("perm_bits"),
            col("read_queues"),
            col("write_queues"),
            col("order"),
            col("type"),
            wide("filter"),
            wide("sys_flag"),
            wide("attributes"),
            wide("addr"),
            wide("cluster"),
            wide("source"),
        ],
    );
    for (broker, answer) in configs(session, &brokers, name).await {
        match answer {
            Ok(None) => {}
            Ok(Some((config, source))) => {
                let told = source == ConfigSource::Broker;
                listing.push(vec![
                    broker.id.name.as_str().into(),
                    config.perm.to_string().into(),
                    config.perm.0.into(),
                    config.read_queue_nums.into(),
                    config.write_queue_nums.into(),
                    told.then_some(config.order).into(),
                    config
                        .attributes
                        .get("message.type")
                        .map(|t| t.to_lowercase())
                        .into(),
                    told.then(|| format!("{:?}", config.topic_filter_type)).into(),
                    config.topic_sys_flag.into(),
                    Cell::Pairs(config.attributes.clone().into_iter().collect()),
                    broker.addr.as_str().into(),
                    broker.id.cluster.as_str().into(),
                    if told { "broker" } else { "route" }.into(),
                ]);
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        let searched = counted(brokers.len(), "broker");
        return Err(not_found(session, name, searched).await);
    }
    Ok(Rows {
        some_answered: !listing.rows.is_empty(),
        listing,
    })
}

async fn route(session: &Session, name: &str, each: bool) -> Result<(), Failure> {
    let answers = session.client.route_each(name).await;
    let mut listing = Listing::new(
        "TopicRoute",
        &[
            if each { col("namesrv") } else { wide("namesrv") },
            col("broker"),
            col("read_queues"),
            col("write_queues"),
            col("perm"),
            col("addrs"),
            wide("perm_bits"),
            wide("cluster"),
        ],
    );
    listing.ordered = each;
    let mut known: Vec<(&str, Option<&TopicRouteData>)> = Vec::new();
    for (addr, answer) in &answers {
        match answer {
            Ok(route) => known.push((addr, route.as_ref())),
            Err(e) if each => listing.errors.push(Failure::from(e)),
            Err(e) if e.is_unreachable() => {
                session.warn(&format!("name server {addr} was skipped: {}", e.reason()));
            }
            Err(e) => listing.errors.push(Failure::from(e)),
        }
    }
    if known.is_empty() {
        let tried = answers
            .iter()
            .filter_map(|(addr, a)| Some(format!("{addr}: {}", a.as_ref().err()?.reason())));
        return Err(Failure::new(exit::CONNECTION, "no name server could be reached")
            .because(tried.collect::<Vec<_>>().join("\n       ")));
    }
    let agree = known
        .windows(2)
        .all(|pair| pair[0].1.map(comparable) == pair[1].1.map(comparable));
    if !agree && !each {
        session.warn("the name servers disagree on this route; see --each-namesrv");
    }
    if known.iter().all(|(_, route)| route.is_none()) {
        let searched = known.iter().map(|(addr, _)| *addr).collect::<Vec<_>>().join(", ");
        return Err(not_found(session, name, searched).await);
    }
    for (addr, route) in known.iter().filter(|(_, r)| r.is_some()) {
        let Some(route) = route else { continue };
        for queues in &route.queue_datas {
            let set = route
                .broker_datas
                .iter()
                .find(|set| set.broker_name == queues.broker_name);
            listing.push(vec![
                (*addr).into(),
                queues.broker_name.as_str().into(),
                queues.read_queue_nums.into(),
                queues.write_queue_nums.into(),
                queues.perm.to_string().into(),
                set.map(|set| {
                    set.broker_addrs
                        .iter()
                        .map(|(id, addr)| {
                            if *id == 0 {
                                addr.clone()
                            } else {
                                format!("{id}:{addr}")
                            }
                        })
                        .collect::<Vec<_>>()
                })
                .into(),
                queues.perm.0.into(),
                set.map(|set| set.cluster.clone()).into(),
            ]);
        }
        if !each {
            break;
        }
    }
    let verdict = Failure::over(&listing.errors, true);
    session.printer.print(listing)?;
    verdict
}

/// Broker name, read queues, write queues, permission.
type Queues = (String, i32, i32, i32);

/// What of a route two name servers must agree on, in one order.
fn comparable(route: &TopicRouteData) -> (Vec<Queues>, Vec<BrokerAt>) {
    let mut queues: Vec<_> = route
        .queue_datas
        .iter()
        .map(|q| {
            (
                q.broker_name.clone(),
                q.read_queue_nums,
                q.write_queue_nums,
                q.perm.0,
            )
        })
        .collect();
    queues.sort();
    (queues, masters(route))
}

/// The queues of a static topic as its clients see them, under the broker name that stands for all brokers. Its physical
/// queues are those of --broker, --sum and `rmq static-topic get`. `None` when no broker has a mapping: the route's is left over.
async fn static_status(
    session: &Session,
    name: &str,
    route: &TopicRouteData,
    queue: Option<i32>,
) -> Option<Rows> {
    let client = &session.client;
    let hosts = masters(route);
    let ((logical, untold), told) =
        tokio::join!(client.logical(name, route), client.physical_ranges(name, &hosts));
    if logical.is_none() && untold.is_empty() {
        return None;
    }
    let mut listing = status_listing();
    for (broker, e) in untold.into_iter().chain(told.failed) {
        let known = |f: &Failure| f.target == Some(broker.server().to_string());
        if !listing.errors.iter().any(known) {
            listing.errors.push(Failure::from(&e));
        }
    }
    let logical = logical.unwrap_or_default();
    let absent = logical
        .brokers()
        .into_iter()
        .filter(|broker| !hosts.iter().any(|b| b.id.name == **broker));
    for broker in absent {
        let what = format!("{broker}, which has messages of the topic, is not registered");
        listing.errors.push(Failure::new(exit::CONNECTION, what));
    }
    // What nobody tells is missing, not empty. A name server may hold the mapping of an earlier topic of this name as well.
    let mapped = route.topic_queue_mapping_by_broker.iter().flatten();
    let newest = mapped.max_by_key(|(_, info)| info.epoch);
    let queues = newest.map_or(0, |(_, info)| info.total_queues);
    let missing = (0..queues.min(MAX_QUEUES))
        .filter(|at| queue.is_none_or(|wanted| wanted == *at) && !logical.queues.contains_key(at));
    for at in missing {
        let what = format!("no broker tells who leads queue {at}");
        listing.errors.push(Failure::new(exit::CONNECTION, what));
    }
    let mut total = 0_i64;
    for (at, range) in logical.ranges(&told.ranges) {
        if queue.is_some_and(|wanted| wanted != at) {
            continue;
        }
        total = total.saturating_add(range.count.unwrap_or(0));
        listing.push(vec![
            logical.broker.as_str().into(),
            at.into(),
            range.min.into(),
            range.max.into(),
            range.count.into(),
            Cell::time(Some(range.last_stored)),
            Cell::Unknown,
        ]);
    }
    listing.summary.insert("messages".into(), total.into());
    listing.summary.insert("put_tps".into(), told.put_tps.into());
    listing.summary.insert("static".into(), true.into());
    Some(Rows {
        some_answered: !listing.rows.is_empty(),
        listing,
    })
}

fn status_listing() -> Listing {
    Listing::new(
        "TopicStatus",
        &[
            col("broker"),
            col("queue"),
            col("min"),
            col("max"),
            col("count").sums(),
            col("last_stored"),
            wide("broker_put_tps"),
        ],
    )
}

async fn status(
    session: &Session,
    name: &str,
    (queue, sum): (Option<i32>, bool),
    scope: &ScopeArgs,
    watched: bool,
) -> Result<Rows, Failure> {
    let client = &session.client;
    let scope = scope.scope(session)?;
    let Some(route) = client.route(name).await? else {
        return Err(not_found(session, name, String::new()).await);
    };
    let mut brokers = masters(&route);
    // A queue of a static topic is on no broker and in no cluster alone: a part of them has its physical queues.
    let in_part = |cluster: &String| brokers.iter().any(|b| b.id.cluster != *cluster);
    let in_part = !scope.brokers.is_empty() || scope.cluster.as_ref().is_some_and(in_part);
    if is_static(&route)
        && !sum
        && !in_part
        && let Some(rows) = static_status(session, name, &route, queue).await
    {
        return Ok(rows);
    }
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
    let deadline = client.deadline();
    let answers = client
        .each(brokers.clone(), |broker| async move {
            let stats = client.topic_stats(&broker.server(), name, deadline).await;
            (broker, stats)
        })
        .await;
    let mut listing = status_listing();
    let (mut answered, mut tps, mut total) = (false, 0.0, 0_i64);
    for (broker, stats) in answers {
        let stats = match stats {
            Ok(stats) => stats,
            Err(e) => {
                listing.errors.push(Failure::from(&e));
                continue;
            }
        };
        answered = true;
        tps += stats.topic_put_tps;
        let rows: Vec<_> = stats
            .offset_table
            .iter()
            .filter(|(at, _)| queue.is_none_or(|wanted| wanted == at.queue_id))
            .collect();
        let count = |min: i64, max: i64| max.saturating_sub(min).max(0);
        total += rows
            .iter()
            .map(|(_, o)| count(o.min_offset, o.max_offset))
            .sum::<i64>();
        if sum {
            listing.push(vec![
                broker.id.name.as_str().into(),
                Cell::Text(counted(rows.len(), "queue")),
                Cell::Unknown,
                Cell::Unknown,
                rows.iter()
                    .map(|(_, o)| count(o.min_offset, o.max_offset))
                    .sum::<i64>()
                    .into(),
                Cell::time(rows.iter().map(|(_, o)| o.last_update_timestamp).max()),
                stats.topic_put_tps.into(),
            ]);
            continue;
        }
        for (at, offsets) in rows {
            listing.push(vec![
                at.broker_name.as_str().into(),
                at.queue_id.into(),
                offsets.min_offset.into(),
                offsets.max_offset.into(),
                count(offsets.min_offset, offsets.max_offset).into(),
                Cell::time(Some(offsets.last_update_timestamp)),
                stats.topic_put_tps.into(),
            ]);
        }
    }
    listing.summary.insert("messages".into(), total.into());
    listing.summary.insert("put_tps".into(), tps.into());
    if !watched {
        super::stranded::tell(session, &brokers, &[], Some(name), Some(&mut listing)).await;
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}
