//! `rmq cluster describe|stats`.

use std::collections::BTreeSet;

use super::cluster::{failure, look};
use super::exit::{self, Failure};
use super::output::{Cell, Detail, Listing, col, less, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use super::watch::{self, Rows, WatchArgs};
use crate::client::findings::{Finding, Severity, Subject, Trends, findings};
use crate::client::snapshot::{Snapshot, TopicKind};
use crate::client::{Parts, RuntimeInfo};

fn scope(cluster: Option<&str>) -> ScopeArgs {
    ScopeArgs {
        cluster: cluster.map(str::to_owned),
        broker: Vec::new(),
    }
}

/// `rmq cluster stats`
pub async fn stats(session: &Session, cluster: Option<&str>) -> Result<Rows, Failure> {
    let snapshot = look(session, Parts::default(), &scope(cluster)).await?;
    let mut listing = Listing::new(
        "ClusterStats",
        &[
            col("cluster"),
            col("broker"),
            col("id"),
            col("in_tps_10s"),
            col("out_tps_10s"),
            less("in_yesterday"),
            less("out_yesterday"),
            col("in_today"),
            col("out_today"),
            less("retained_ms"),
            col("disk"),
            less("active"),
            wide("in_tps_1m"),
            wide("in_tps_10m"),
            wide("out_tps_1m"),
            wide("out_tps_10m"),
            wide("send_queue"),
            wide("pull_queue"),
            wide("page_cache_lock_ms"),
            wide("timer_behind_s"),
            wide("version"),
            wide("addr"),
        ],
    );
    let now = time::now_ms();
    let mut answered = 0;
    for broker in &snapshot.brokers {
        let unknown = RuntimeInfo::default();
        let info = broker.runtime.fresh().unwrap_or(&unknown);
        answered += usize::from(broker.answers());
        // A store without a message keeps nothing; Java's answer then is a time of 0 or -1.
        let retained = info.earliest_message_ms.map(|at| now.saturating_sub(at).max(0));
        listing.push(vec![
            broker.broker.cluster.as_str().into(),
            broker.broker.name.as_str().into(),
            broker.broker.id.into(),
            info.put_tps.s10.into(),
            info.transferred_tps.s10.into(),
            info.put_yesterday.into(),
            info.get_yesterday.into(),
            info.put_today.into(),
            info.get_today.into(),
            retained.map_or(Cell::Unknown, Cell::Span),
            info.commit_log_disk_ratio.map_or(Cell::Unknown, Cell::Ratio),
            info.active.into(),
            info.put_tps.m1.into(),
            info.put_tps.m10.into(),
            info.transferred_tps.m1.into(),
            info.transferred_tps.m10.into(),
            info.send_pool.size.into(),
            info.pull_pool.size.into(),
            info.page_cache_lock_ms.map_or(Cell::Unknown, Cell::Span),
            info.timer_behind_s.into(),
            info.version.clone().into(),
            broker.addr.as_str().into(),
        ]);
        listing.errors.extend(failure(broker));
    }
    Ok(Rows {
        listing,
        some_answered: answered > 0,
    })
}

/// The snapshot of the one cluster that is meant, and its name.
async fn one(session: &Session, cluster: Option<&str>) -> Result<(String, Snapshot), Failure> {
    let parts = Parts {
        configs: true,
        ha: true,
        topics: true,
        groups: true,
    };
    let snapshot = look(session, parts, &scope(cluster)).await?;
    let names: BTreeSet<String> = snapshot
        .brokers
        .iter()
        .map(|b| b.broker.cluster.clone())
        .collect();
    let mut names = names.into_iter();
    match (names.next(), names.next()) {
        (Some(only), None) => Ok((only, snapshot)),
        (None, _) => Err(Failure::new(exit::NOT_FOUND, "no broker is registered").hint("rmq namesrv list")),
        (Some(first), Some(second)) => {
            let rest: Vec<String> = names.collect();
            let all = [vec![first, second], rest].concat().join(", ");
            Err(Failure::usage(format!("there are several clusters: {all}"))
                .hint("rmq cluster describe NAME"))
        }
    }
}

/// `rmq cluster describe`
pub async fn describe(session: &Session, cluster: Option<&str>, watch: &WatchArgs) -> Result<(), Failure> {
    if watch.interval().is_some() {
        return watch::print(session, watch, || async {
            let (_, snapshot) = one(session, cluster).await?;
            let some_answered = snapshot.brokers.iter().any(|b| b.answers());
            let mut listing = brokers(&snapshot);
            listing.errors = snapshot.brokers.iter().filter_map(failure).collect();
            Ok(Rows {
                listing,
                some_answered,
            })
        })
        .await;
    }
    let (name, snapshot) = one(session, cluster).await?;
    session.warn_of_dead_name_servers();
    let failures: Vec<Failure> = snapshot.brokers.iter().filter_map(failure).collect();
    let some_answered = snapshot.brokers.iter().any(|b| b.answers());
    let mut detail = detail(&name, &snapshot);
    detail.errors.clone_from(&failures);
    session.printer.print_detail(detail)?;
    Failure::over(&failures, some_answered)
}

fn brokers(snapshot: &Snapshot) -> Listing {
    let mut listing = Listing::new(
        "BrokerList",
        &[
            col("broker"),
            col("id"),
            col("addr"),
            less("version"),
            col("in_tps_10s"),
            col("out_tps_10s"),
            col("disk"),
            less("perm"),
            less("flush"),
            col("state"),
        ],
    );
    for broker in &snapshot.brokers {
        let unknown = RuntimeInfo::default();
        let info = broker.runtime.fresh().unwrap_or(&unknown);
        let config = broker.config.fresh();
        listing.push(vec![
            broker.broker.name.as_str().into(),
            broker.broker.id.into(),
            broker.addr.as_str().into(),
            info.version.clone().into(),
            info.put_tps.s10.into(),
            info.transferred_tps.s10.into(),
            info.commit_log_disk_ratio.map_or(Cell::Unknown, Cell::Ratio),
            config.and_then(|c| c.perm).map(|p| p.to_string()).into(),
            config.and_then(|c| c.flush.clone()).into(),
            broker.runtime.error.as_deref().unwrap_or("ok").into(),
        ]);
    }
    listing
}

/// Findings as rows, in their order.
pub fn finding_rows<'a>(found: impl IntoIterator<Item = &'a Finding>) -> Listing {
    let mut listing = Listing::new(
        "FindingList",
        &[col("severity"), col("subject"), col("finding"), col("detail")],
    );
    listing.ordered = true;
    for finding in found {
        listing.push(vec![
            match finding.severity {
                Severity::Critical => "critical",
                Severity::Warning => "warning",
                Severity::Info => "info",
            }
            .into(),
            match &finding.subject {
                Subject::Cluster => "cluster".to_owned(),
                Subject::NameServer(addr) => format!("name server {addr}"),
                Subject::Broker(id) => format!("broker {id}"),
                Subject::Topic(topic) => format!("topic {topic}"),
                Subject::Group(group) => format!("group {group}"),
            }
            .into(),
            finding.text.as_str().into(),
            finding.detail.clone().into(),
        ]);
    }
    listing
}

fn detail(name: &str, snapshot: &Snapshot) -> Detail {
    let masters: Vec<_> = snapshot.brokers.iter().filter(|b| b.broker.is_master()).collect();
    let names: BTreeSet<&str> = snapshot.brokers.iter().map(|b| b.broker.name.as_str()).collect();
    let versions: BTreeSet<String> = snapshot
        .brokers
        .iter()
        .filter_map(|b| b.runtime.fresh()?.version.clone())
        .collect();
    let sum = |number: &dyn Fn(&RuntimeInfo) -> Option<f64>| -> Option<f64> {
        let known: Vec<f64> = masters
            .iter()
            .filter_map(|b| number(b.runtime.fresh()?))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    let count = |number: &dyn Fn(&RuntimeInfo) -> Option<i64>| -> Option<i64> {
        let known: Vec<i64> = masters
            .iter()
            .filter_map(|b| number(b.runtime.fresh()?))
            .collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    let here = |broker: &crate::client::snapshot::BrokerId| broker.cluster == name;
    let topics = snapshot
        .topics
        .iter()
        .filter(|t| t.brokers.iter().any(|b| here(&b.broker)));
    let user = topics.clone().filter(|t| t.kind == TopicKind::User).count();
    let disk = snapshot
        .brokers
        .iter()
        .filter_map(|b| b.runtime.fresh()?.commit_log_disk_ratio)
        .max_by(f64::total_cmp);
    let lag: i64 = snapshot.groups.iter().filter_map(|g| g.total_lag()).sum();
    let found = findings(snapshot, &Trends::default());
    Detail {
        kind: "Cluster",
        fields: vec![
            ("name", name.into()),
            (
                "name_servers",
                snapshot
                    .name_servers
                    .iter()
                    .filter(|ns| ns.is_up())
                    .map(|ns| ns.addr.clone())
                    .collect::<Vec<_>>()
                    .into(),
            ),
            ("brokers", names.len().into()),
            ("masters", masters.len().into()),
            ("slaves", (snapshot.brokers.len() - masters.len()).into()),
            ("versions", versions.into_iter().collect::<Vec<_>>().into()),
            ("in_tps_10s", sum(&|i| i.put_tps.s10).into()),
            ("out_tps_10s", sum(&|i| i.transferred_tps.s10).into()),
            ("put_today", count(&|i| i.put_today).into()),
            ("get_today", count(&|i| i.get_today).into()),
            ("put_yesterday", count(&|i| i.put_yesterday).into()),
            ("get_yesterday", count(&|i| i.get_yesterday).into()),
            ("max_disk", disk.map_or(Cell::Unknown, Cell::Ratio)),
            ("topics", user.into()),
            ("groups", snapshot.groups.len().into()),
            ("total_lag", lag.into()),
        ],
        tables: vec![
            ("broker_list", brokers(snapshot)),
            ("findings", finding_rows(&found)),
        ],
        errors: Vec::new(),
    }
}
