//! `rmq cluster list`, `rmq namesrv list`, and the look that they share. The other clusters' commands are in
//! `cluster_look`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;

use super::cluster_look;
use super::dashboard::TuiArgs;
use super::exit::Failure;
use super::output::{Cell, Listing, col, less, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::snapshot::{BrokerState, NameServerState, Snapshot};
use crate::client::{Error, Parts, similar};
use crate::protocol::Request as _;
use crate::protocol::requests::{GetBrokerClusterInfo, GetBrokerRuntimeInfo};

/// Commands on clusters.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the clusters with their brokers and rates
    List {
        /// Only this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show one cluster: brokers, rates, and what needs a look
    Describe {
        /// Cluster name [default: the context's, or the only one]
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show messages in and out, today and yesterday, by broker
    Stats {
        /// Only this cluster
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show clusters, heartbeats and brokers live
    Top(TuiArgs),
}

/// Runs a cluster command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { cluster, watch } => {
            let cluster = cluster.as_deref();
            watch::print(session, &watch, || list(session, cluster)).await
        }
        Command::Describe { cluster, watch } => {
            cluster_look::describe(session, cluster.as_deref(), &watch).await
        }
        Command::Stats { cluster, watch } => {
            let cluster = cluster.as_deref();
            watch::print(session, &watch, || cluster_look::stats(session, cluster)).await
        }
        // It brings its own session: see `dispatch`.
        Command::Top(_) => Ok(()),
    }
}

/// A snapshot of everything in scope. No name server at all is an error, anything less is a value.
pub async fn look(session: &Session, parts: Parts, scope: &ScopeArgs) -> Result<Snapshot, Failure> {
    let client = &session.client;
    let mut snapshot = client.snapshot(parts, client.deadline()).await;
    if snapshot.name_servers.iter().all(|ns| !ns.is_up()) {
        let reasons: Vec<String> = snapshot
            .name_servers
            .iter()
            .map(|ns| {
                format!(
                    "{}: {}",
                    ns.addr,
                    ns.cluster.error.as_deref().unwrap_or("not asked")
                )
            })
            .collect();
        // They are told here; no warning as well.
        client.take_dead_name_servers();
        return Err(
            Failure::new(super::exit::CONNECTION, "no name server could be reached")
                .because(reasons.join("\n       "))
                .hint("rmq config test, or name one with --namesrv HOST:PORT"),
        );
    }
    let scope = scope.scope(session)?;
    if let Some(cluster) = &scope.cluster {
        let known: BTreeSet<String> = clusters(&snapshot);
        if !known.contains(cluster) {
            return Err(Failure::from(Error::NotFound {
                noun: "cluster",
                name: cluster.clone(),
                searched: String::new(),
                similar: similar(cluster, known.iter().map(String::as_str)),
            }));
        }
        snapshot.brokers.retain(|b| b.broker.cluster == *cluster);
    }
    if !scope.brokers.is_empty() {
        let matches = |b: &BrokerState, text: &str| {
            b.broker.name == text || b.broker.to_string() == text || b.addr == text
        };
        for selector in &scope.brokers {
            if !snapshot.brokers.iter().any(|b| matches(b, &selector.0)) {
                return Err(Failure::from(Error::NotFound {
                    noun: "broker",
                    name: selector.0.clone(),
                    searched: String::new(),
                    similar: similar(
                        &selector.0,
                        snapshot.brokers.iter().map(|b| b.broker.name.as_str()),
                    ),
                }));
            }
        }
        snapshot
            .brokers
            .retain(|b| scope.brokers.iter().any(|s| matches(b, &s.0)));
    }
    Ok(snapshot)
}

fn clusters(snapshot: &Snapshot) -> BTreeSet<String> {
    snapshot
        .brokers
        .iter()
        .map(|b| b.broker.cluster.clone())
        .collect()
}

async fn list(session: &Session, cluster: Option<&str>) -> Result<Rows, Failure> {
    let scope = ScopeArgs {
        cluster: cluster.map(str::to_owned),
        broker: Vec::new(),
    };
    let snapshot = look(session, Parts::default(), &scope).await?;
    let mut listing = Listing::new(
        "ClusterList",
        &[
            col("name"),
            col("brokers"),
            col("masters"),
            col("slaves"),
            col("in_tps_10s").sums(),
            col("out_tps_10s").sums(),
            col("put_today").sums(),
            col("max_disk"),
            col("state"),
            wide("versions"),
            wide("broker_names"),
        ],
    );
    let mut by_cluster: BTreeMap<&str, Vec<&BrokerState>> = BTreeMap::new();
    for broker in &snapshot.brokers {
        by_cluster
            .entry(broker.broker.cluster.as_str())
            .or_default()
            .push(broker);
    }
    let (mut answered, mut errors) = (0, Vec::new());
    for (name, brokers) in by_cluster {
        let masters: Vec<&&BrokerState> = brokers.iter().filter(|b| b.broker.is_master()).collect();
        let silent = brokers.iter().filter(|b| !b.is_alive()).count();
        let told = brokers.iter().filter(|b| b.answers()).count();
        answered += told;
        errors.extend(brokers.iter().filter_map(|b| failure(b)));
        let sum = |number: &dyn Fn(&BrokerState) -> Option<f64>| -> Option<f64> {
            let known: Vec<f64> = masters.iter().filter_map(|b| number(b)).collect();
            (!known.is_empty()).then(|| known.iter().sum())
        };
        let runtime = |b: &BrokerState| b.runtime.fresh().cloned();
        let versions: BTreeSet<String> = brokers
            .iter()
            .filter_map(|b| b.runtime.fresh()?.version.clone())
            .collect();
        let disk = brokers
            .iter()
            .filter_map(|b| b.runtime.fresh()?.commit_log_disk_ratio)
            .max_by(f64::total_cmp);
        let names: BTreeSet<String> = brokers.iter().map(|b| b.broker.name.clone()).collect();
        listing.push(vec![
            name.into(),
            names.len().into(),
            masters.len().into(),
            (brokers.len() - masters.len()).into(),
            sum(&|b| runtime(b)?.put_tps.s10).into(),
            sum(&|b| runtime(b)?.transferred_tps.s10).into(),
            sum(&|b| runtime(b)?.put_today.map(|n| n as f64))
                .map(|n| n as i64)
                .into(),
            disk.map_or(Cell::Unknown, Cell::Ratio),
            match (silent, brokers.len() - silent - told) {
                (0, 0) => "ok".into(),
                (0, n) => format!("{n} of {} refuse", brokers.len()).into(),
                (n, _) if n == brokers.len() => "down".into(),
                // The sums are lower bounds then.
                (n, _) => format!("{n} of {} silent", brokers.len()).into(),
            },
            versions.into_iter().collect::<Vec<_>>().into(),
            names.into_iter().collect::<Vec<_>>().into(),
        ]);
    }
    listing.errors = errors;
    Ok(Rows {
        listing,
        some_answered: answered > 0,
    })
}

/// Why a broker did not tell its state, if it did not.
pub fn failure(broker: &BrokerState) -> Option<Failure> {
    let why = broker.runtime.error.as_ref()?;
    let addr = broker.dialled.as_ref().unwrap_or(&broker.addr);
    if let Some(refused) = &why.refusal {
        let server = format!("{} {addr}", broker.broker);
        return Some(Failure::refused(GetBrokerRuntimeInfo::NAME, &server, refused));
    }
    let mut failure = Failure::new(
        super::exit::CONNECTION,
        format!(
            "{} is registered at {} but gives no answer: {why}",
            broker.broker, broker.addr
        ),
    )
    .hint(format!(
        "rmq broker describe {}; a container's address is mapped with --broker-map FROM=TO",
        broker.broker.name
    ));
    failure.target = Some(format!("{} {addr}", broker.broker));
    failure.request = Some(GetBrokerRuntimeInfo::NAME.into());
    Some(failure)
}

/// `rmq namesrv list`
pub async fn name_servers(session: &Session, args: &WatchArgs) -> Result<(), Failure> {
    watch::print(session, args, || async {
        let parts = Parts {
            configs: true,
            topics: true,
            ..Parts::default()
        };
        let client = &session.client;
        let snapshot = client.snapshot(parts, client.deadline()).await;
        let mut listing = Listing::new(
            "NameServerList",
            &[
                col("addr"),
                col("state"),
                col("kind"),
                less("rtt_us"),
                col("brokers"),
                col("topics"),
                less("scan_ms"),
                col("disagrees"),
            ],
        );
        listing.ordered = true;
        let up: Vec<&NameServerState> = snapshot.name_servers.iter().filter(|ns| ns.is_up()).collect();
        for ns in &snapshot.name_servers {
            let table = ns.cluster.fresh();
            listing.push(vec![
                ns.addr.as_str().into(),
                match &ns.cluster.error {
                    None => "up".into(),
                    Some(fault) => fault.why.as_str().into(),
                },
                table
                    .map(|t| if t.live.is_some() { "rmq" } else { "java" })
                    .into(),
                ns.rtt
                    .fresh()
                    .map(|rtt| i64::try_from(rtt.as_micros()).unwrap_or(i64::MAX))
                    .into(),
                table.map(|t| t.listed.len()).into(),
                ns.topics.fresh().map(Vec::len).into(),
                Cell::span(ns.config.fresh().and_then(|c| c.scan_interval)),
                disagreement(ns, &up).into(),
            ]);
            if let Some(why) = &ns.cluster.error {
                listing.errors.push(match &why.refusal {
                    Some(refused) => Failure::refused(
                        GetBrokerClusterInfo::NAME,
                        &format!("name server {}", ns.addr),
                        refused,
                    ),
                    None => Failure::new(
                        super::exit::CONNECTION,
                        format!("name server {} gives no answer: {why}", ns.addr),
                    ),
                });
            }
        }
        // The rows tell it already.
        client.take_dead_name_servers();
        Ok(Rows {
            some_answered: !up.is_empty(),
            listing,
        })
    })
    .await
}

/// What this name server lists and another does not, or the other way round.
fn disagreement(ns: &NameServerState, up: &[&NameServerState]) -> Option<String> {
    let own = ns.cluster.fresh()?;
    let mut differences: BTreeSet<String> = BTreeSet::new();
    for other in up.iter().filter_map(|other| other.cluster.fresh()) {
        for listed in &own.listed {
            if !other.listed.contains(listed) {
                differences.insert(format!("+{}", listed.broker));
            }
        }
        for listed in &other.listed {
            if !own.listed.contains(listed) {
                differences.insert(format!("-{}", listed.broker));
            }
        }
    }
    if let Some(own) = ns.topics.fresh() {
        let more = up
            .iter()
            .filter_map(|other| other.topics.fresh())
            .any(|other| other != own);
        if more {
            differences.insert("topics".into());
        }
    }
    let list: Vec<String> = differences.into_iter().collect();
    (!list.is_empty()).then(|| list.join(" "))
}
