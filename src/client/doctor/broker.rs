//! BR1 to BR8: brokers answer, register, agree and keep up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Evidence, by_limit};
use crate::client::findings::{Finding, Severity, Subject, Trends};
use crate::client::liveness::{self, Beat};
use crate::client::snapshot::{BrokerId, BrokerState, RegistrationAge, Snapshot};
use crate::client::words::counted;
use crate::protocol::model::version_name;

/// Dispatch may be behind this long.
const DISPATCH_BEHIND: Duration = Duration::from_secs(30);
/// Dispatch may be behind this far, bytes.
const DISPATCH_BEHIND_BYTES: i64 = 64 * 1024 * 1024;
/// The first request of a pool may wait this long, ms.
const HEAD_WAIT_MS: i64 = 200;
/// The append lock may be held this long, ms.
const LOCK_MS: i64 = 1_000;
/// Clients before `V3_4_9` cannot say how often their messages are retried; older ones still cannot be reset.
const OLDEST_CLIENT: i32 = 121;

/// Settings on which the brokers of a cluster agree: they decide what happens to a message wherever it lands.
pub const AGREED_SETTINGS: &[&str] = &[
    "autoCreateSubscriptionGroup",
    "autoCreateTopicEnable",
    "authenticationEnabled",
    "authorizationEnabled",
    "brokerRole",
    "defaultTopicQueueNums",
    "deleteWhen",
    "diskMaxUsedSpaceRatio",
    "enableControllerMode",
    "enablePropertyFilter",
    "fileReservedTime",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "slaveReadEnable",
    "timerWheelEnable",
    "traceTopicEnable",
    "transactionCheckMax",
    "transactionTimeOut",
];

/// BR1 to BR8.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    for broker in &e.snapshot.brokers {
        liveness_of(e.snapshot, broker, found);
        name_servers_of(e, broker, found);
        permission(broker, found);
        pressure(broker, e.trends, found);
    }
    masters(e.snapshot, found);
    versions(e, found);
    wiped_topics(e, found);
    settings(e.snapshot, found);
}

fn liveness_of(snapshot: &Snapshot, broker: &BrokerState, found: &mut Vec<Finding>) {
    let subject = || Subject::Broker(broker.broker.clone());
    let mut routed_on = Vec::new();
    let mut out: Option<(Duration, Duration)> = None;
    let mut late = Vec::new();
    for (server, registration) in snapshot.name_servers.iter().zip(&broker.registrations) {
        if registration.listed == Some(true) {
            routed_on.push(registration.name_server.as_str());
        }
        match liveness::beat(server, broker, registration, snapshot.taken_at_ms) {
            Beat::Silent { out_from, out_to } => {
                out = Some(out.map_or((out_from, out_to), |(a, b)| (a.min(out_from), b.max(out_to))));
            }
            Beat::Late { missed } => late.push((registration, missed)),
            Beat::Ok | Beat::Gone | Beat::Unknown => {}
        }
    }
    if let Some(error) = broker.runtime.error.as_ref().filter(|e| e.refusal.is_some()) {
        // It is alive, and may well serve its clients; what is known of it ends here.
        let text = format!("{} answers and refuses to tell its state", broker.broker);
        found.push(
            Finding::new("BR1", "broker-refuses", Severity::Warning, subject(), text)
                .detail(error.why.as_str()),
        );
    } else if broker.runtime.is_failed() {
        silent_broker(snapshot, broker, &routed_on, out, found);
        return;
    }
    if let Some((from, to)) = out {
        let text = format!("{} answers but does not register", broker.broker);
        let detail = format!(
            "{} drop it in {}..{}s",
            routed_on.join(" "),
            from.as_secs(),
            to.as_secs()
        );
        found.push(Finding::new("BR2", "broker-silent", Severity::Critical, subject(), text).detail(detail));
    }
    for (registration, missed) in late {
        if let RegistrationAge::Exact(age) = registration.age {
            let text = format!("{} late on {}", broker.broker, registration.name_server);
            let detail = format!("{}s since its last beat, {missed} missed", age.as_secs());
            found.push(Finding::new("BR2", "broker-late", Severity::Warning, subject(), text).detail(detail));
        }
    }
}

fn silent_broker(
    snapshot: &Snapshot,
    broker: &BrokerState,
    routed_on: &[&str],
    out: Option<(Duration, Duration)>,
    found: &mut Vec<Finding>,
) {
    let nobody_told = broker.registrations.iter().all(|r| r.listed.is_none());
    let routed = match (routed_on.is_empty(), out) {
        (true, _) if nobody_told => "whether it is routed is not known".to_owned(),
        (true, _) => "no name server routes to it".to_owned(),
        (false, None) => format!("still routed on {}", routed_on.join(" ")),
        (false, Some((from, to))) => format!(
            "still routed on {}; eviction in {}..{}s",
            routed_on.join(" "),
            from.as_secs(),
            to.as_secs()
        ),
    };
    let who = format!("{} {}", broker.broker, broker.addr);
    let (text, detail) = match liveness::silence(broker, snapshot.taken_at_ms) {
        Some(silent) => (format!("{who} silent {}s", silent.as_secs()), routed),
        None if is_private(&broker.addr) => (
            format!("{who} never answered"),
            format!(
                "{routed}; {} is a private address, an address map may be needed",
                host(&broker.addr)
            ),
        ),
        None => (
            format!("{who} never answered"),
            format!(
                "{routed}; {}",
                broker.runtime.error.as_deref().unwrap_or("no reason known")
            ),
        ),
    };
    let subject = Subject::Broker(broker.broker.clone());
    // A broker that every name server has dropped serves nobody any more.
    let severity = if routed_on.is_empty() && !nobody_told {
        Severity::Warning
    } else {
        Severity::Critical
    };
    found.push(Finding::new("BR1", "broker-silent", severity, subject, text).detail(detail));
}

fn host(addr: &str) -> &str {
    addr.rsplit_once(':').map_or(addr, |(host, _)| host)
}

fn is_private(addr: &str) -> bool {
    host(addr)
        .parse::<std::net::Ipv4Addr>()
        .is_ok_and(|ip| ip.is_private())
}

/// BR3. Those of its name servers that are ours are told by NS2 as well, from their side.
fn name_servers_of(e: &Evidence<'_>, broker: &BrokerState, found: &mut Vec<Finding>) {
    let Some(config) = broker.config.fresh() else {
        return;
    };
    for addr in &config.name_servers {
        let listed = match broker.registrations.iter().find(|r| r.name_server == *addr) {
            Some(registration) => registration.listed,
            None => match e.details.and_then(|d| d.other_name_servers.get(addr)) {
                Some(Ok(table)) => Some(table.listed.iter().any(|l| l.broker == broker.broker)),
                Some(Err(why)) => {
                    let text = format!("{} names {addr}, which does not answer here", broker.broker);
                    let subject = Subject::Broker(broker.broker.clone());
                    let finding =
                        Finding::new("BR3", "own-name-server-silent", Severity::Warning, subject, text);
                    found.push(finding.detail(why.as_str()));
                    None
                }
                None => None,
            },
        };
        if listed == Some(false) {
            let text = format!("{} is not registered at {addr} of its namesrvAddr", broker.broker);
            let subject = Subject::Broker(broker.broker.clone());
            found.push(Finding::new(
                "BR3",
                "not-registered",
                Severity::Warning,
                subject,
                text,
            ));
        }
    }
}

/// BR4.
fn masters(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    let mut names: BTreeMap<(&str, &str), Vec<&BrokerState>> = BTreeMap::new();
    for broker in &snapshot.brokers {
        // One that nobody lists any more is no member of its name.
        if broker.registrations.iter().any(|r| r.listed != Some(false)) {
            let name = (broker.broker.cluster.as_str(), broker.broker.name.as_str());
            names.entry(name).or_default().push(broker);
        }
    }
    for ((_, name), members) in names {
        if members.iter().any(|b| b.broker.is_master()) {
            continue;
        }
        let Some(first) = members.first() else { continue };
        let ids: Vec<String> = members.iter().map(|b| b.broker.id.to_string()).collect();
        let text = format!("{name} has no master; ids {} are registered", ids.join(" "));
        let subject = Subject::Broker(first.broker.clone());
        found.push(Finding::new(
            "BR4",
            "no-master",
            Severity::Critical,
            subject,
            text,
        ));
    }
}

/// True for the version of a client that is too old for any broker of today.
pub fn is_old_client(version: i32) -> bool {
    version > 0 && version < OLDEST_CLIENT
}

/// BR5.
fn versions(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let mut clusters: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for broker in &e.snapshot.brokers {
        if let Some(version) = broker.runtime.fresh().and_then(|r| r.version.as_deref()) {
            let versions = clusters.entry(&broker.broker.cluster).or_default();
            versions
                .entry(version)
                .or_default()
                .push(broker.broker.to_string());
        }
    }
    for (cluster, versions) in clusters {
        if versions.len() > 1 {
            let sides: Vec<String> = versions
                .iter()
                .map(|(version, brokers)| format!("{version} on {}", brokers.join(" ")))
                .collect();
            let text = format!(
                "brokers of {cluster} run different versions: {}",
                sides.join(", ")
            );
            let subject = Subject::Cluster;
            found.push(Finding::new(
                "BR5",
                "versions-differ",
                Severity::Warning,
                subject,
                text,
            ));
        }
    }
    let mut more = Vec::new();
    for (group, by_broker) in e.details.into_iter().flat_map(|d| &d.connections) {
        let old: BTreeSet<String> = by_broker
            .values()
            .flat_map(|c| &c.connection_set)
            .filter(|c| is_old_client(c.version))
            .map(|c| format!("{} {}", c.client_id, version_name(c.version)))
            .collect();
        if !old.is_empty() {
            let text = format!(
                "group {group} has clients too old for this broker: {}",
                old.into_iter().collect::<Vec<_>>().join(", ")
            );
            let subject = Subject::Group(group.clone());
            more.push(
                Finding::new("BR5", "old-client", Severity::Warning, subject, text)
                    .next(format!("rmq group clients {group}")),
            );
        }
    }
    found.extend(more);
}

/// BR6, the broker's side.
fn permission(broker: &BrokerState, found: &mut Vec<Finding>) {
    if let Some(perm) = broker.config.get().and_then(|c| c.perm)
        && !(perm.readable() && perm.writable())
    {
        let text = format!("{} has permission {perm}", broker.broker);
        let subject = Subject::Broker(broker.broker.clone());
        found.push(
            Finding::new("BR6", "broker-permission", Severity::Warning, subject, text).next(format!(
                "rmq broker set-config {} brokerPermission=6",
                broker.broker.name
            )),
        );
    }
}

/// BR6, the name servers' side: a permission there that the broker does not have.
fn wiped_topics(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let Some(details) = e.details else { return };
    let mut wrong: BTreeMap<(&BrokerId, &str), Vec<String>> = BTreeMap::new();
    for topic in &e.snapshot.topics {
        let Some(routes) = details.routes.get(&topic.name) else {
            continue;
        };
        for (addr, route) in routes {
            for queues in route.iter().flat_map(|r| &r.queue_datas) {
                let Some(own) = topic
                    .brokers
                    .iter()
                    .find(|b| b.broker.name == queues.broker_name && b.broker.is_master())
                else {
                    continue;
                };
                let broker = e.snapshot.brokers.iter().find(|b| b.broker == own.broker);
                let whole = broker.and_then(|b| b.config.fresh()).and_then(|c| c.perm);
                // A broker that is cut down itself registers its topics cut down.
                let expected = match whole {
                    Some(whole) if !(whole.readable() && whole.writable()) => own.perm.and(whole),
                    _ => own.perm,
                };
                if queues.perm != expected {
                    wrong.entry((&own.broker, addr)).or_default().push(format!(
                        "{} {} instead of {}",
                        topic.name, queues.perm.0, expected.0
                    ));
                }
            }
        }
    }
    for ((broker, addr), topics) in wrong {
        let wiped = topics.iter().all(|t| t.contains(" 4 instead of "));
        let text = format!(
            "{addr} has other permissions of {} of {broker} than the broker: {}{}",
            counted(topics.len(), "topic"),
            topics[..topics.len().min(3)].join(", "),
            if topics.len() > 3 { ", …" } else { "" }
        );
        let finding = Finding::new(
            "BR6",
            "wiped-topics",
            Severity::Warning,
            Subject::Broker(broker.clone()),
            text,
        );
        found.push(if wiped {
            finding
                .detail("its write permission was wiped there and not given back")
                .next(format!("rmq broker restore-write {}", broker.name))
        } else {
            finding
        });
    }
}

/// BR7.
fn settings(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    let mut clusters: BTreeMap<&str, Vec<&BrokerState>> = BTreeMap::new();
    for broker in snapshot.brokers.iter().filter(|b| b.broker.is_master()) {
        clusters.entry(&broker.broker.cluster).or_default().push(broker);
    }
    for (cluster, masters) in clusters {
        for key in AGREED_SETTINGS {
            let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for broker in &masters {
                let value = broker.config.fresh().and_then(|c| c.entries.get(*key));
                if let Some(value) = value {
                    values.entry(value).or_default().push(&broker.broker.name);
                }
            }
            if values.len() > 1 {
                let sides: Vec<String> = values
                    .iter()
                    .map(|(value, names)| format!("{value} on {}", names.join(" ")))
                    .collect();
                let text = format!("masters of {cluster} have different {key}: {}", sides.join(", "));
                found.push(
                    Finding::new(
                        "BR7",
                        "settings-differ",
                        Severity::Warning,
                        Subject::Cluster,
                        text,
                    )
                    .next(format!("rmq broker get-config {} {key}", masters[0].broker.name)),
                );
            }
        }
    }
}

/// BR8.
fn pressure(broker: &BrokerState, trends: &Trends, found: &mut Vec<Finding>) {
    let Some(info) = broker.runtime.fresh() else {
        return;
    };
    let name = &broker.broker;
    let subject = || Subject::Broker(name.clone());
    let behind = info.dispatch_behind_bytes.unwrap_or(0);
    let long = trends
        .dispatch_behind
        .get(name)
        .filter(|span| **span >= DISPATCH_BEHIND);
    match (by_limit(behind, DISPATCH_BEHIND_BYTES), long) {
        (severity, Some(long)) => {
            let severity = severity.unwrap_or(Severity::Warning);
            let text = format!("{name} dispatch behind {behind} B for {}s", long.as_secs());
            found.push(Finding::new("BR8", "dispatch-behind", severity, subject(), text));
        }
        (Some(severity), None) => {
            let text = format!("{name} dispatch behind {behind} B");
            found.push(Finding::new("BR8", "dispatch-behind", severity, subject(), text));
        }
        (None, None) => {}
    }
    for (pool, rule, what) in [
        (&info.send_pool, "send-wait", "sends"),
        (&info.pull_pool, "pull-wait", "pulls"),
    ] {
        let wait = pool.head_wait_ms.unwrap_or(0);
        if let Some(severity) = by_limit(wait, HEAD_WAIT_MS) {
            let text = format!("{name} {what} wait {wait} ms for a thread");
            found.push(Finding::new("BR8", rule, severity, subject(), text));
        }
    }
    let held = info.page_cache_lock_ms.unwrap_or(0);
    if let Some(severity) = by_limit(held, LOCK_MS) {
        let text = format!("{name} append lock held for {held} ms");
        found.push(Finding::new("BR8", "append-lock", severity, subject(), text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::client::snapshot::{ClusterTable, Fault, Refused, Seen};
    use crate::protocol::body::{Connection, ConsumerConnection};
    use crate::protocol::model::Perm;

    #[test]
    fn a_broker_that_does_not_answer_is_stale() {
        let mut c = Cluster::healthy();
        c.snapshot.brokers[1].runtime = Seen::failed("connection refused");
        c.settle();
        let found = c.finds(&["BR1"]);
        assert_eq!(found[0].severity, Severity::Critical);
        assert_eq!(found[0].text, "broker-b:0 127.0.0.1:10921 never answered");
        assert_eq!(
            found[0].detail.as_deref(),
            Some("still routed on ns1:9876; connection refused")
        );
    }

    /// One that wants credentials serves its clients all the same.
    #[test]
    fn a_broker_that_refuses_is_not_a_dead_one() {
        let mut c = Cluster::healthy();
        c.snapshot.brokers[1].runtime = Seen::failed(Fault {
            why: "16 NO_PERMISSION: no".into(),
            refusal: Some(Refused {
                code: 16,
                remark: "no".into(),
            }),
        });
        c.settle();
        let found = c.finds(&["BR1"]);
        let told: Vec<_> = found
            .iter()
            .map(|f| (f.severity, f.text.as_str(), f.detail.as_deref()))
            .collect();
        assert_eq!(
            told,
            [(
                Severity::Warning,
                "broker-b:0 answers and refuses to tell its state",
                Some("16 NO_PERMISSION: no")
            )]
        );
    }

    #[test]
    fn beats_are_late_and_then_missing() {
        for (age, severity) in [(35, Severity::Warning), (70, Severity::Critical)] {
            let mut c = Cluster::healthy();
            c.set_age("broker-b", Duration::from_secs(age));
            let found = c.finds(&["BR2"]);
            assert_eq!(found[0].severity, severity, "{age}");
        }
    }

    #[test]
    fn a_broker_is_registered_at_all_of_its_own_name_servers() {
        let mut c = Cluster::healthy();
        let config = c.snapshot.brokers[1].config.value.as_mut().unwrap();
        config.name_servers.push("ns9:9876".into());
        c.finds(&[]);
        let table = |listed| Ok(ClusterTable { listed, live: None });
        let all = c.snapshot.name_servers[0].cluster.get().unwrap().listed.clone();
        c.details
            .other_name_servers
            .insert("ns9:9876".into(), table(all.clone()));
        c.finds(&[]);
        c.details
            .other_name_servers
            .insert("ns9:9876".into(), table(vec![all[0].clone()]));
        assert!(c.finds(&["BR3"])[0].text.contains("not registered at ns9:9876"));
        c.details
            .other_name_servers
            .insert("ns9:9876".into(), Err("refused".into()));
        assert!(c.finds(&["BR3"])[0].text.contains("does not answer here"));
    }

    #[test]
    fn a_name_without_a_master_is_found() {
        let mut c = Cluster::healthy();
        c.add_slave("broker-c", 1);
        let found = c.finds(&["BR4"]);
        assert_eq!(found[0].text, "broker-c has no master; ids 1 are registered");
    }

    #[test]
    fn versions_of_brokers_and_clients_are_compared() {
        let mut c = Cluster::healthy();
        c.snapshot.brokers[1].runtime.value.as_mut().unwrap().version = Some("V5_1_0".into());
        let found = c.finds(&["BR5"]);
        assert_eq!(
            found[0].text,
            "brokers of c run different versions: V5_1_0 on broker-b:0, V5_3_3 on broker-a:0"
        );
        let mut c = Cluster::healthy();
        let old = ConsumerConnection {
            connection_set: vec![Connection {
                client_id: "old".into(),
                client_addr: "127.0.0.1:1".into(),
                version: 100,
                ..Connection::default()
            }],
            ..c.details.connections["g"][&id("broker-a", 0)].clone()
        };
        c.details
            .connections
            .get_mut("g")
            .unwrap()
            .insert(id("broker-a", 0), old.clone());
        c.details
            .connections
            .get_mut("g")
            .unwrap()
            .insert(id("broker-b", 0), old);
        c.details.running.clear();
        c.finds(&["BR5"]);
    }

    #[test]
    fn a_left_over_wipe_is_found_and_a_drain_is_told_once() {
        let mut c = Cluster::healthy();
        for route in c.details.routes.get_mut("orders").unwrap().values_mut() {
            let queues = &mut route.as_mut().unwrap().queue_datas;
            queues
                .iter_mut()
                .find(|q| q.broker_name == "broker-b")
                .unwrap()
                .perm = Perm(4);
        }
        let found = c.finds(&["BR6"]);
        assert_eq!(found.len(), 1);
        assert!(found[0].text.contains("orders 4 instead of 6"), "{found:?}");
        assert_eq!(
            found[0].next.as_deref(),
            Some("rmq broker restore-write broker-b")
        );
        // The same with the broker's own permission: the name server is right, the broker is the finding.
        c.snapshot.brokers[1].config.value.as_mut().unwrap().perm = Some(Perm(4));
        let found = c.finds(&["BR6"]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].rule, "broker-permission");
    }

    #[test]
    fn settings_are_compared_between_masters_only() {
        let mut c = Cluster::healthy();
        c.set_config("broker-a", "fileReservedTime", "72");
        c.set_config("broker-b", "fileReservedTime", "48");
        c.set_config("broker-b", "listenPort", "10921");
        let found = c.finds(&["BR7"]);
        assert_eq!(
            found[0].text,
            "masters of c have different fileReservedTime: 48 on broker-b, 72 on broker-a"
        );
    }

    #[test]
    fn pressure_is_a_warning_and_five_times_as_much_an_error() {
        for (wait, severity) in [(201, Severity::Warning), (1001, Severity::Critical)] {
            let mut c = Cluster::healthy();
            c.runtime("broker-a").send_pool.head_wait_ms = Some(wait);
            assert_eq!(c.finds(&["BR8"])[0].severity, severity);
        }
        let mut c = Cluster::healthy();
        c.runtime("broker-a").send_pool.head_wait_ms = Some(200);
        c.finds(&[]);
        c.runtime("broker-a").page_cache_lock_ms = Some(1001);
        assert_eq!(c.finds(&["BR8"])[0].rule, "append-lock");
        let mut c = Cluster::healthy();
        c.runtime("broker-b").dispatch_behind_bytes = Some(65 << 20);
        assert_eq!(c.finds(&["BR8"])[0].severity, Severity::Warning);
    }
}
