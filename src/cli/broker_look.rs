//! `rmq broker stats|consume-stats|ha|epoch|check-cq`: what brokers tell about themselves.

use clap::Args;
use serde_json::json;

use super::broker::cluster_of;
use super::broker_clean::{Need, able};
use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::output::{Cell, Listing, col, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::time::{self, When};
use super::watch::{Rows, WatchArgs};
use crate::client::{BrokerAt, BrokerSelector, Error, Which};
use crate::protocol::body::HaRuntimeInfo;

/// A runtime value: a number where it is a whole one, so that it can be compared and scraped; else as the broker writes it.
fn number(text: &str) -> Cell {
    text.parse::<i64>().map_or_else(|_| text.into(), Cell::from)
}

/// `rmq broker consume-stats`
#[derive(Debug, Clone, Args)]
pub struct LagArgs {
    /// NAME, NAME:ID or HOST:PORT; every master when none is named
    broker: Vec<BrokerSelector>,
    /// Only this cluster
    #[arg(short, long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only queues with so many messages not consumed
    #[arg(long, value_name = "N")]
    min_diff: Option<i64>,
    #[command(flatten)]
    pub watch: WatchArgs,
}

/// `rmq broker check-cq`
#[derive(Debug, Clone, Args)]
pub struct CheckCqArgs {
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Only messages stored since then [default: all]
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq broker stats`
pub async fn stats(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::All).await?;
    let client = &session.client;
    let several = brokers.len() > 1;
    let mut listing = Listing::new(
        "BrokerStats",
        &[
            col("key"),
            col("value"),
            if several { col("broker") } else { wide("broker") },
            wide("addr"),
        ],
    );
    let answers = client
        .each(brokers, |broker| async move {
            let info = client.broker_runtime(&broker.server(), client.deadline()).await;
            (broker, info)
        })
        .await;
    let mut some_answered = false;
    for (broker, info) in answers {
        match info {
            Ok(info) => {
                some_answered = true;
                for (key, value) in info.entries {
                    listing.push(vec![
                        key.into(),
                        number(value.trim()),
                        broker.id.to_string().into(),
                        broker.addr.as_str().into(),
                    ]);
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

/// `rmq broker consume-stats`
pub async fn consume_stats(session: &Session, args: &LagArgs) -> Result<Rows, Failure> {
    let scope = super::broker::named(args.broker.clone(), args.cluster.clone());
    let brokers = scope.brokers(session, Which::Masters).await?;
    let client = &session.client;
    let mut listing = Listing::new(
        "BrokerConsumeStats",
        &[
            col("group"),
            col("topic"),
            col("broker"),
            col("queue"),
            col("broker_offset"),
            col("consumer_offset"),
            col("diff"),
            col("last_consumed"),
        ],
    );
    let answers = client
        .each(brokers, |broker| async move {
            client.broker_lag(&broker.server(), client.deadline()).await
        })
        .await;
    let (mut some_answered, mut total) = (false, 0_i64);
    for answer in answers {
        let groups = match answer {
            Ok(groups) => groups,
            Err(e) => {
                listing.errors.push(Failure::from(&e));
                continue;
            }
        };
        some_answered = true;
        for row in groups.into_values().flat_map(|lag| lag.queues) {
            let diff = row.lag();
            if args.min_diff.is_some_and(|least| diff.unwrap_or(0) < least) {
                continue;
            }
            total = total.saturating_add(diff.unwrap_or(0));
            listing.push(vec![
                row.group.into(),
                row.topic.into(),
                row.broker.into(),
                row.queue.into(),
                row.max.into(),
                row.committed.into(),
                diff.into(),
                Cell::time(row.last_consumed_ms),
            ]);
        }
    }
    listing.summary.insert("total_diff".into(), json!(total));
    Ok(Rows {
        listing,
        some_answered,
    })
}

/// The host of `host:port`.
fn host(addr: &str) -> &str {
    addr.rsplit_once(':').map_or(addr, |(host, _)| host)
}

/// Which registered slave a connection comes from: the only slave of the name, or the only one on that host. Masters know
/// a slave by its connection alone.
fn slave_name(master: &BrokerAt, peer: &str, all: &[BrokerAt]) -> Option<String> {
    let slaves: Vec<&BrokerAt> = all
        .iter()
        .filter(|b| b.id.name == master.id.name && b.id.cluster == master.id.cluster && !b.id.is_master())
        .collect();
    if let [only] = slaves.as_slice() {
        return Some(only.id.to_string());
    }
    let mut there = slaves.iter().filter(|b| host(&b.addr) == host(peer));
    match (there.next(), there.next()) {
        (Some(one), None) => Some(one.id.to_string()),
        _ => None,
    }
}

/// `rmq broker ha`
pub async fn ha(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::Masters).await?;
    let all = ScopeArgs::default().brokers(session, Which::All).await?;
    let mut listing = Listing::new(
        "HaStatus",
        &[
            col("broker"),
            col("id"),
            col("role"),
            col("max_offset"),
            col("slaves"),
            col("in_sync_slaves"),
            col("peer"),
            col("peer_broker"),
            col("acked_offset"),
            col("behind_bytes"),
            col("in_sync"),
            col("bytes_per_s"),
            wide("transfer_from"),
            wide("master_flush_offset"),
            wide("addr"),
        ],
    );
    let answers = client
        .each(brokers, |broker| async move {
            let info = client.ha_status(&broker.server(), client.deadline()).await;
            (broker, info)
        })
        .await;
    let mut some_answered = false;
    for (broker, info) in answers {
        match info {
            Ok(info) => {
                some_answered = true;
                ha_rows(&mut listing, &broker, &info, &all);
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

fn ha_rows(listing: &mut Listing, broker: &BrokerAt, info: &HaRuntimeInfo, all: &[BrokerAt]) {
    let head = |role: &str, max: i64| -> Vec<Cell> {
        vec![
            broker.id.name.as_str().into(),
            broker.id.id.into(),
            role.into(),
            max.into(),
        ]
    };
    if !info.master {
        let own = &info.ha_client_runtime_info;
        let mut row = head("slave", own.max_offset);
        row.extend([
            Cell::Unknown,
            Cell::Unknown,
            own.master_addr.clone().into(),
            format!("{}:0", broker.id.name).into(),
            Cell::Unknown,
            Cell::Unknown,
            Cell::Unknown,
            own.transferred_byte_in_second.into(),
            Cell::Unknown,
            own.master_flush_offset.into(),
            broker.addr.as_str().into(),
        ]);
        listing.push(row);
        return;
    }
    let counts = [
        Cell::from(info.ha_connection_info.len()),
        Cell::from(info.in_sync_slave_nums),
    ];
    if info.ha_connection_info.is_empty() {
        let mut row = head("master", info.master_commit_log_max_offset);
        row.extend(counts.clone());
        row.extend(std::iter::repeat_n(Cell::Unknown, 8));
        row.push(broker.addr.as_str().into());
        listing.push(row);
    }
    for slave in &info.ha_connection_info {
        let peer = slave.addr.trim_start_matches('/');
        let mut row = head("master", info.master_commit_log_max_offset);
        row.extend(counts.clone());
        row.extend([
            peer.into(),
            slave_name(broker, peer, all).into(),
            slave.slave_ack_offset.into(),
            slave.diff.into(),
            slave.in_sync.into(),
            slave.transferred_byte_in_second.into(),
            slave.transfer_from_where.into(),
            Cell::Unknown,
            broker.addr.as_str().into(),
        ]);
        listing.push(row);
    }
}

/// `rmq broker epoch`
pub async fn epochs(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::All).await?;
    let mut listing = Listing::new(
        "EpochList",
        &[
            col("broker"),
            col("id"),
            col("epoch"),
            col("start_offset"),
            col("end_offset"),
            col("max_offset"),
            wide("addr"),
            wide("cluster"),
        ],
    );
    let answers = client
        .each(brokers, |broker| async move {
            let epochs = client.broker_epochs(&broker.server(), client.deadline()).await;
            (broker, epochs)
        })
        .await;
    let mut some_answered = false;
    for (broker, epochs) in answers {
        match epochs {
            Ok(epochs) => {
                some_answered = true;
                for entry in &epochs.epoch_list {
                    listing.push(vec![
                        broker.id.name.as_str().into(),
                        broker.id.id.into(),
                        entry.epoch.into(),
                        entry.start_offset.into(),
                        // The last one goes on.
                        Some(entry.end_offset).filter(|end| *end != i64::MAX).into(),
                        epochs.max_offset.into(),
                        broker.addr.as_str().into(),
                        broker.id.cluster.as_str().into(),
                    ]);
                }
            }
            Err(e) => listing.errors.push(without_controller(&e)),
        }
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

fn without_controller(e: &Error) -> Failure {
    let mut failure = Failure::from(e);
    if failure.exit == exit::UNSUPPORTED || e.to_string().contains("only for controllerMode") {
        failure.exit = exit::UNSUPPORTED;
        failure = failure.because(
            "Only a broker in controller mode has epochs: enableControllerMode=true and controllerAddr.",
        );
    }
    failure
}

/// `rmq broker check-cq`
pub async fn check_queues(session: &Session, args: CheckCqArgs) -> Result<(), Failure> {
    let client = &session.client;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let from_ms = match &args.since {
        None => 0,
        Some(since) => since
            .at_ms(time::now_ms(), &session.printer.zone)
            .map_err(|e| Failure::usage(format!("--since: {e}")))?
            .unwrap_or(0),
    };
    let cluster = cluster_of(&brokers);
    let (brokers, not) = able(session, brokers, Need::BothQueues).await;
    let field = format!("queues of {}", args.topic.as_deref().unwrap_or("every topic"));
    let plan = Plan {
        action: "compare RocksDB queues with file queues".into(),
        object: cluster.clone(),
        cluster,
        class: Class::A,
        steps: brokers
            .iter()
            .map(|broker| Step {
                target: broker.server().to_string(),
                field: field.clone(),
                before: "-".into(),
                after: "started; the result stands in the broker's own log".into(),
            })
            .collect(),
        impact: vec!["brokers read all of the queues".into()],
    };
    let topic = args.topic.as_deref();
    change::each(session, plan, (&field, not), brokers, None, |broker| async move {
        let (server, deadline) = (broker.server(), client.deadline());
        let asked = client.check_rocksdb_queues(&server, topic, from_ms, deadline);
        vec![match asked.await {
            Ok(_) => Outcome::Done,
            Err(e) => Outcome::Failed(without_rocksdb(&e)),
        }]
    })
    .await
}

/// Why a broker has nothing in RocksDB.
pub const JAVA_ONLY: &str =
    "Only a Java broker has RocksDB tables and queues, and only when it is configured so.";

/// A failure on a broker that keeps nothing in RocksDB.
pub fn without_rocksdb(e: &Error) -> Failure {
    let failure = Failure::from(e);
    if failure.exit == exit::UNSUPPORTED {
        failure.because(JAVA_ONLY)
    } else {
        failure
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::snapshot::BrokerId;

    fn at(name: &str, id: i64, addr: &str) -> BrokerAt {
        BrokerAt {
            id: BrokerId {
                cluster: "c".into(),
                name: name.into(),
                id,
            },
            addr: addr.into(),
        }
    }

    #[test]
    fn a_slave_is_named_where_only_one_can_be_meant() {
        let master = at("a", 0, "10.0.0.1:10911");
        let one = [
            master.clone(),
            at("a", 1, "10.0.0.2:10911"),
            at("b", 1, "10.0.0.2:10921"),
        ];
        // The only slave, whatever address it comes from.
        assert_eq!(
            slave_name(&master, "192.168.0.9:4711", &one).as_deref(),
            Some("a:1")
        );
        let two = [
            master.clone(),
            at("a", 1, "10.0.0.2:10911"),
            at("a", 2, "10.0.0.3:10911"),
        ];
        assert_eq!(slave_name(&master, "10.0.0.3:4711", &two).as_deref(), Some("a:2"));
        assert_eq!(slave_name(&master, "10.0.0.9:4711", &two), None);
        let same_host = [
            master.clone(),
            at("a", 1, "10.0.0.2:10911"),
            at("a", 2, "10.0.0.2:10921"),
        ];
        assert_eq!(slave_name(&master, "10.0.0.2:4711", &same_host), None);
    }
}
