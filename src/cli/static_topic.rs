//! `rmq static-topic`: topics whose number of queues stays while their queues move between brokers. Changes are in
//! `static_topic_change`.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Args, Subcommand};
use serde_json::json;

use super::exit::{self, Failure};
use super::output::{Listing, col, wide};
use super::session::Session;
use super::static_topic_change::{self, CreateArgs, RemapArgs, UpdateArgs};
use super::topic::not_found;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::cluster::{registered, select};
use crate::client::static_topic::mapping::{self, ByBroker, believed, details};
use crate::client::static_topic::offsets::{Logical, count};
use crate::client::words::counted;
use crate::client::{BrokerAt, BrokerSelector, Scope, Which};
use crate::protocol::body::ClusterInfo;

/// Commands on static topics.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show which broker leads each queue, with epoch and offsets
    Get {
        /// Topic name
        name: String,
        /// Every generation of each queue, not only the one that is written
        #[arg(long)]
        history: bool,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Create a static topic; fails when it exists
    Create(CreateArgs),
    /// Give a static topic more queues
    Update(UpdateArgs),
    /// Move the queues of a static topic to other brokers
    Remap(RemapArgs),
}

/// Which brokers get queues.
#[derive(Debug, Clone, Default, Args)]
pub struct TargetArgs {
    /// The masters of these clusters [default: the context's, else the only one]
    #[arg(short, long, value_name = "NAME", value_delimiter = ',')]
    pub cluster: Vec<String>,
    /// These brokers: NAME or HOST:PORT
    #[arg(
        short,
        long,
        value_name = "BROKER",
        value_delimiter = ',',
        conflicts_with = "cluster"
    )]
    pub broker: Vec<BrokerSelector>,
}

impl TargetArgs {
    /// True when nothing is named.
    pub fn is_empty(&self) -> bool {
        self.cluster.is_empty() && self.broker.is_empty()
    }

    /// The masters that are meant.
    pub fn masters(&self, session: &Session, info: &ClusterInfo) -> Result<Vec<BrokerAt>, Failure> {
        let mut clusters: Vec<Option<String>> = self.cluster.iter().cloned().map(Some).collect();
        if clusters.is_empty() {
            clusters.push(session.cluster.clone().filter(|_| self.broker.is_empty()));
        }
        let mut found: Vec<BrokerAt> = Vec::new();
        for cluster in clusters {
            let scope = Scope {
                cluster,
                brokers: self.broker.clone(),
            };
            found.extend(select(info, &scope, Which::MastersToWrite)?);
        }
        found.sort();
        found.dedup();
        if let Some(other) = found.iter().find(|b| !b.id.is_master() || b.id.name.is_empty()) {
            return Err(Failure::usage(format!(
                "{} is no registered master",
                other.server()
            )));
        }
        if found.is_empty() {
            return Err(Failure::new(
                exit::NOT_FOUND,
                "no master is registered in this scope",
            ));
        }
        Ok(found)
    }
}

/// A static topic and where it is.
pub struct Found {
    /// Masters of the clusters that it has to do with.
    pub masters: Vec<BrokerAt>,
    /// The topic by broker name.
    pub present: ByBroker,
    /// Brokers that did not tell.
    pub failed: Vec<Failure>,
}

/// Reads a topic from the masters of every cluster that it is in, and of those of `targets`.
pub async fn find(
    session: &Session,
    name: &str,
    info: &ClusterInfo,
    targets: &[BrokerAt],
) -> Result<Found, Failure> {
    let client = &session.client;
    let route = client.route(name).await?;
    let all: Vec<BrokerAt> = registered(info)
        .into_iter()
        .filter(|b| b.id.is_master())
        .collect();
    let routed: BTreeSet<&str> = route
        .iter()
        .flat_map(|route| {
            let mapped = route.topic_queue_mapping_by_broker.iter().flatten();
            let queues = route.queue_datas.iter().map(|q| q.broker_name.as_str());
            queues.chain(mapped.map(|(broker, _)| broker.as_str()))
        })
        .collect();
    let clusters: BTreeSet<String> = all
        .iter()
        .filter(|b| routed.contains(b.id.name.as_str()))
        .chain(targets)
        .map(|b| b.id.cluster.clone())
        .collect();
    let masters: Vec<BrokerAt> = all
        .into_iter()
        .filter(|b| clusters.contains(&b.id.cluster))
        .collect();
    let (present, failed) = client.static_topic(name, &masters).await;
    Ok(Found {
        masters,
        present,
        failed: failed.iter().map(|(_, e)| Failure::from(e)).collect(),
    })
}

/// Runs a command on static topics.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Get { name, history, watch } => {
            watch::print(session, &watch, || get(session, &name, history)).await
        }
        Command::Create(args) => static_topic_change::create(session, args).await,
        Command::Update(args) => static_topic_change::update(session, args).await,
        Command::Remap(args) => static_topic_change::remap(session, args).await,
    }
}

/// The failure for a topic that is not static.
pub fn not_static(name: &str) -> Failure {
    Failure::new(exit::NOT_FOUND, format!("topic \"{name}\" is not static"))
        .because("It is an ordinary topic: its brokers have no mapping of it.")
        .hint(format!("rmq topic get {name}"))
}

async fn get(session: &Session, name: &str, history: bool) -> Result<Rows, Failure> {
    let client = &session.client;
    let info = client.cluster_info().await?;
    let Found {
        masters,
        present,
        failed,
    } = find(session, name, &info, &[]).await?;
    if present.is_empty() && failed.is_empty() {
        return Err(not_found(session, name, String::new()).await);
    }
    let Some(logical) = Logical::of(details(&present)) else {
        return match failed.into_iter().next() {
            Some(failure) => Err(failure),
            None => Err(not_static(name)),
        };
    };
    let holders: Vec<BrokerAt> = masters
        .into_iter()
        .filter(|b| logical.brokers().contains(b.id.name.as_str()))
        .collect();
    let told = client.physical_ranges(name, &holders).await;
    let (physical, untold) = (told.ranges, told.failed);
    let mut listing = Listing::new(
        "StaticTopic",
        &[
            col("queue"),
            col("broker"),
            col("physical_queue"),
            col("generation"),
            col("leader"),
            col("epoch"),
            col("logic_offset"),
            col("min"),
            col("max"),
            col("count"),
            wide("start_offset"),
            wide("end_offset"),
            wide("physical_min"),
            wide("physical_max"),
        ],
    );
    listing.ordered = true;
    let ranges = logical.ranges(&physical);
    let mut total = 0_i64;
    for (queue, items) in &logical.queues {
        let whole = ranges.get(queue).copied().unwrap_or_default();
        total = total.saturating_add(whole.count.unwrap_or(0));
        for (at, item) in items.iter().enumerate() {
            let leads = at + 1 == items.len();
            if !leads && !history {
                continue;
            }
            let told = physical.get(&(item.bname.clone(), item.queue_id));
            let epoch = present
                .get(&item.bname)
                .and_then(|at| Some(at.mapping_detail.as_ref()?.epoch));
            // One generation has its own range; where only the leaders are shown, theirs is the queue's.
            let known = told.filter(|_| mapping::is_decided(item));
            let (min, max, messages) = if history {
                (
                    known.map(|o| mapping::to_logical(item, o.min_offset)),
                    known.map(|o| mapping::to_logical(item, o.max_offset)),
                    told.map(count),
                )
            } else {
                (whole.min, whole.max, whole.count)
            };
            listing.push(vec![
                (*queue).into(),
                item.bname.as_str().into(),
                item.queue_id.into(),
                item.r#gen.into(),
                leads.into(),
                epoch.into(),
                mapping::is_decided(item).then_some(item.logic_offset).into(),
                min.into(),
                max.into(),
                messages.into(),
                item.start_offset.into(),
                (item.end_offset >= 0).then_some(item.end_offset).into(),
                told.map(|o| o.min_offset).into(),
                told.map(|o| o.max_offset).into(),
            ]);
        }
    }
    let problem = mapping::check(name, &present).err();
    let partial = !failed.is_empty();
    listing
        .summary
        .insert("queues".into(), logical.queues.len().into());
    listing.summary.insert("messages".into(), total.into());
    listing
        .summary
        .insert("logical_broker".into(), logical.broker.as_str().into());
    listing.summary.insert("brokers".into(), on_brokers(&present));
    listing
        .summary
        .insert("problem".into(), problem.as_ref().map(ToString::to_string).into());
    if let Some(problem) = &problem
        && !partial
    {
        session.warn(&format!("the mapping of {name} is not in order: {problem}"));
    }
    listing.errors.extend(failed);
    for (broker, e) in untold {
        let known = |f: &Failure| f.target == Some(broker.server().to_string());
        if !listing.errors.iter().any(known) {
            listing.errors.push(Failure::from(&e));
        }
    }
    Ok(Rows {
        some_answered: !listing.rows.is_empty(),
        listing,
    })
}

/// Epoch, physical queues and led queues by broker.
fn on_brokers(present: &ByBroker) -> serde_json::Value {
    let led = believed(details(present));
    let by_broker: BTreeMap<&String, serde_json::Value> = present
        .iter()
        .map(|(broker, at)| {
            let leads = led
                .values()
                .filter(|items| items.last().is_some_and(|l| l.bname == *broker))
                .count();
            let detail = at.mapping_detail.as_ref();
            let value = json!({
                "epoch": detail.map(|d| d.epoch),
                "total_queues": detail.map(|d| d.total_queues),
                "physical_queues": at.config.write_queue_nums,
                "leads": leads,
            });
            (broker, value)
        })
        .collect();
    json!(by_broker)
}

/// A broker's part of a topic in words.
pub fn described(present: &ByBroker, broker: &str) -> String {
    let Some(at) = present.get(broker) else {
        return "absent".into();
    };
    let Some(detail) = &at.mapping_detail else {
        return "an ordinary topic".into();
    };
    let leads = detail
        .hosted_queues
        .values()
        .filter(|items| items.last().is_some_and(|l| l.bname == broker))
        .count();
    format!(
        "leads {}, {} physical, epoch {}",
        counted(leads, "queue"),
        at.config.write_queue_nums,
        detail.epoch
    )
}

/// A leader in words.
pub fn leader_text(leader: Option<&crate::protocol::body::LogicQueueMappingItem>) -> String {
    leader.map_or_else(
        || "none".into(),
        |item| format!("{}/{} generation {}", item.bname, item.queue_id, item.r#gen),
    )
}
