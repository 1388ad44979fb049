//! Health rules: what in a snapshot needs a look, and what needs hands. Pure functions, shared by every surface that
//! judges a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::liveness::{self, Beat};
use super::snapshot::{BrokerId, BrokerState, RegistrationAge, Snapshot, TopicKind};

/// How bad a finding is. Orders by urgency, worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Messages or service are at risk now.
    Critical,
    /// Will become a problem.
    Warning,
    /// Worth knowing.
    Info,
}

/// What a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The cluster as a whole.
    Cluster,
    /// A name server, by address.
    NameServer(String),
    /// A broker.
    Broker(BrokerId),
    /// A topic.
    Topic(String),
    /// A consumer group.
    Group(String),
}

/// One thing that a rule found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// How bad.
    pub severity: Severity,
    /// Name of the rule, stable across versions.
    pub rule: &'static str,
    /// About what.
    pub subject: Subject,
    /// One sentence.
    pub text: String,
    /// A second one with details or the next step.
    pub detail: Option<String>,
}

/// What only a watcher of several snapshots can know. Empty for a single look; the rules that need it then rest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trends {
    /// How long a broker's dispatch has been behind without a break.
    pub dispatch_behind: BTreeMap<BrokerId, Duration>,
    /// Groups whose lag has been rising: for how long, and messages a second.
    pub lag_rising: BTreeMap<String, (Duration, f64)>,
}

/// Used part of a disk from which a warning is given.
const DISK_WARN: f64 = 0.70;
/// Used part of a disk at which segments are deleted regardless of age.
const DISK_CRITICAL: f64 = 0.85;
/// Used part of a disk at which a broker refuses writes.
const DISK_FULL: f64 = 0.90;
/// Dispatch may be behind this long.
const DISPATCH_BEHIND: Duration = Duration::from_secs(30);
/// The first request of the send pool may wait this long, ms.
const SEND_HEAD_WAIT_MS: i64 = 200;
/// Lag may rise this long.
const LAG_RISING: Duration = Duration::from_secs(180);

/// Every finding, worst first, then by subject.
pub fn findings(snapshot: &Snapshot, trends: &Trends) -> Vec<Finding> {
    let mut found = Vec::new();
    name_servers(snapshot, &mut found);
    for broker in &snapshot.brokers {
        liveness_of(snapshot, broker, &mut found);
        runtime(broker, trends, &mut found);
        replication(snapshot, broker, &mut found);
    }
    topics(snapshot, &mut found);
    groups(snapshot, trends, &mut found);
    found.sort_by(|a, b| (a.severity, &a.subject, a.rule).cmp(&(b.severity, &b.subject, b.rule)));
    found
}

/// Name servers and brokers about which nothing worse than an information was found.
pub fn healthy(snapshot: &Snapshot, found: &[Finding]) -> usize {
    let bad = |subject: &Subject| {
        found
            .iter()
            .any(|f| f.subject == *subject && f.severity < Severity::Info)
    };
    let servers = snapshot.name_servers.iter();
    let servers = servers.filter(|s| s.is_up() && !bad(&Subject::NameServer(s.addr.clone())));
    let brokers = snapshot.brokers.iter();
    let brokers = brokers.filter(|b| b.answers() && !bad(&Subject::Broker(b.broker.clone())));
    servers.count() + brokers.count()
}

fn add(found: &mut Vec<Finding>, severity: Severity, rule: &'static str, subject: Subject, text: String) {
    found.push(Finding {
        severity,
        rule,
        subject,
        text,
        detail: None,
    });
}

fn add_with(
    found: &mut Vec<Finding>,
    severity: Severity,
    rule: &'static str,
    subject: Subject,
    (text, detail): (String, String),
) {
    found.push(Finding {
        severity,
        rule,
        subject,
        text,
        detail: Some(detail),
    });
}

fn name_servers(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    let servers = &snapshot.name_servers;
    let failed = servers.iter().filter(|s| s.cluster.is_failed()).count();
    let all_down = failed == servers.len() && !servers.is_empty();
    for server in servers {
        if let Some(why) = &server.cluster.error {
            let severity = if all_down {
                Severity::Critical
            } else {
                Severity::Warning
            };
            let text = match server.cluster.age(snapshot.taken_at_ms) {
                Some(age) => format!("name server {} silent {}s", server.addr, age.as_secs()),
                None => format!("name server {} does not answer", server.addr),
            };
            let subject = Subject::NameServer(server.addr.clone());
            add_with(found, severity, "name-server-down", subject, (text, why.clone()));
        }
    }
    if servers.iter().any(|s| s.is_up()) && snapshot.brokers.is_empty() {
        let text = "no broker is registered".to_owned();
        add(found, Severity::Warning, "no-broker", Subject::Cluster, text);
    }
    disagreements(snapshot, found);
}

/// Topics or brokers that one answering name server lists and another does not.
fn disagreements(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    for broker in &snapshot.brokers {
        let asked: Vec<_> = broker
            .registrations
            .iter()
            .filter(|r| r.listed.is_some())
            .collect();
        let missing: Vec<_> = asked
            .iter()
            .filter(|r| r.listed == Some(false))
            .map(|r| r.name_server.as_str())
            .collect();
        // Missing everywhere is a broker that left, not a disagreement.
        if !missing.is_empty() && missing.len() < asked.len() {
            let text = format!(
                "name servers disagree: {} not on {}",
                broker.broker,
                missing.join(" ")
            );
            let subject = Subject::Broker(broker.broker.clone());
            let names = broker.config.get().map_or(&[][..], |c| &c.name_servers);
            if names.is_empty() {
                add(found, Severity::Warning, "name-servers-disagree", subject, text);
            } else {
                let detail = format!("its namesrvAddr is {}", names.join(";"));
                add_with(
                    found,
                    Severity::Warning,
                    "name-servers-disagree",
                    subject,
                    (text, detail),
                );
            }
        }
        for (i, registration) in broker.registrations.iter().enumerate() {
            if let Some(newer) = liveness::behind(&broker.registrations, i) {
                let text = format!(
                    "{} has an older topic table of {} than {newer}",
                    registration.name_server, broker.broker
                );
                let subject = Subject::Broker(broker.broker.clone());
                add(found, Severity::Warning, "route-behind", subject, text);
            }
        }
    }
    let lists: Vec<_> = snapshot
        .name_servers
        .iter()
        .filter_map(|s| s.topics.fresh().map(|t| (s.addr.as_str(), t)))
        .collect();
    if let Some((first, rest)) = lists.split_first() {
        for (addr, topics) in rest {
            let differ = difference(first.1, topics);
            if let Some(example) = differ.first() {
                let more = match differ.len() {
                    1 => String::new(),
                    n => format!(" and {} more", n - 1),
                };
                let text = format!("name servers disagree on topic {example}{more}");
                let detail = format!("one of {} and {addr} does not list it", first.0);
                let severity = Severity::Warning;
                add_with(
                    found,
                    severity,
                    "name-servers-disagree",
                    Subject::Cluster,
                    (text, detail),
                );
            }
        }
    }
}

/// Names that are in one list only.
fn difference<'a>(a: &'a [String], b: &'a [String]) -> Vec<&'a String> {
    let left: BTreeSet<_> = a.iter().collect();
    let right: BTreeSet<_> = b.iter().collect();
    left.symmetric_difference(&right).copied().collect()
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
    if broker.runtime.is_failed() {
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
        add_with(
            found,
            Severity::Critical,
            "broker-silent",
            subject(),
            (text, detail),
        );
    }
    for (registration, missed) in late {
        if let RegistrationAge::Exact(age) = registration.age {
            let text = format!("{} late on {}", broker.broker, registration.name_server);
            let detail = format!("{}s since its last beat, {missed} missed", age.as_secs());
            let severity = Severity::Warning;
            add_with(found, severity, "broker-late", subject(), (text, detail));
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
    add_with(found, severity, "broker-silent", subject, (text, detail));
}

/// `1,110,180`
fn grouped(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if n < 0 { format!("-{out}") } else { out }
}

fn host(addr: &str) -> &str {
    addr.rsplit_once(':').map_or(addr, |(host, _)| host)
}

fn is_private(addr: &str) -> bool {
    host(addr)
        .parse::<std::net::Ipv4Addr>()
        .is_ok_and(|ip| ip.is_private())
}

fn runtime(broker: &BrokerState, trends: &Trends, found: &mut Vec<Finding>) {
    let Some(info) = broker.runtime.fresh() else {
        return;
    };
    let subject = || Subject::Broker(broker.broker.clone());
    let name = &broker.broker;
    let used = [info.commit_log_disk_ratio, info.consume_queue_disk_ratio];
    if let Some(used) = used.into_iter().flatten().reduce(f64::max) {
        let configured = broker
            .config
            .get()
            .and_then(|c| c.entries.get("diskMaxUsedSpaceRatio"))
            .and_then(|v| v.parse::<f64>().ok());
        // The broker starts to delete at its own ratio; warn before that.
        let warn = configured.map_or(DISK_WARN, |percent| (percent / 100.0 - 0.05).min(DISK_WARN));
        let text = format!("{name} disk {:.0}%", used * 100.0);
        if used >= DISK_CRITICAL {
            let detail = if used >= DISK_FULL {
                "writes are refused from 90%, segments are deleted regardless of age"
            } else {
                "segments are deleted regardless of age, writes stop at 90%"
            };
            let detail = detail.to_owned();
            add_with(found, Severity::Critical, "disk", subject(), (text, detail));
        } else if used >= warn {
            let detail = format!(
                "expired segments are deleted from {:.0}%",
                configured.unwrap_or(75.0)
            );
            add_with(found, Severity::Warning, "disk", subject(), (text, detail));
        }
    }
    if let Some(behind) = trends
        .dispatch_behind
        .get(&broker.broker)
        .filter(|d| **d >= DISPATCH_BEHIND)
    {
        let text = format!(
            "{name} dispatch behind {} B for {}s",
            info.dispatch_behind_bytes.unwrap_or(0),
            behind.as_secs()
        );
        add(found, Severity::Warning, "dispatch-behind", subject(), text);
    }
    if let Some(wait) = info.send_pool.head_wait_ms.filter(|w| *w > SEND_HEAD_WAIT_MS) {
        let text = format!("{name} sends wait {wait} ms for a thread");
        add(found, Severity::Warning, "send-wait", subject(), text);
    }
    if let Some(perm) = broker.config.get().and_then(|c| c.perm)
        && !(perm.readable() && perm.writable())
    {
        let text = format!("{name} has permission {perm}");
        add(found, Severity::Info, "broker-permission", subject(), text);
    }
}

fn replication(snapshot: &Snapshot, broker: &BrokerState, found: &mut Vec<Finding>) {
    let Some(ha) = broker.ha.fresh().filter(|_| broker.broker.is_master()) else {
        return;
    };
    let same_name = |other: &BrokerState| {
        other.broker.cluster == broker.broker.cluster && other.broker.name == broker.broker.name
    };
    let slaves = snapshot
        .brokers
        .iter()
        .filter(|b| same_name(b) && !b.broker.is_master())
        .count();
    let expected = slaves.max(ha.slaves.len());
    if expected > 0 && ha.in_sync < 1 {
        let text = format!("{} has no slave in sync ({expected} known)", broker.broker);
        let subject = Subject::Broker(broker.broker.clone());
        add(found, Severity::Critical, "no-slave-in-sync", subject, text);
    }
}

fn topics(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    for topic in snapshot.topics.iter().filter(|t| t.kind == TopicKind::User) {
        let subject = || Subject::Topic(topic.name.clone());
        if let Some(on) = topic.brokers.iter().find(|b| b.read_queues < b.write_queues) {
            let text = format!(
                "topic {} w{}/r{} on {}: messages in the last queues are not read",
                topic.name, on.write_queues, on.read_queues, on.broker.name
            );
            add(found, Severity::Warning, "read-below-write", subject(), text);
        } else if let Some(on) = topic.brokers.iter().find(|b| b.read_queues > b.write_queues) {
            let text = format!(
                "topic {} w{}/r{} shrink half done",
                topic.name, on.write_queues, on.read_queues
            );
            add(found, Severity::Info, "shrink-half-done", subject(), text);
        }
    }
}

fn groups(snapshot: &Snapshot, trends: &Trends, found: &mut Vec<Finding>) {
    for group in &snapshot.groups {
        let subject = || Subject::Group(group.name.clone());
        let Some(lag) = group.total_lag() else { continue };
        let lag_text = format!("{}{}", if group.partial { "at least " } else { "" }, grouped(lag));
        if let Some((time, slope)) = trends
            .lag_rising
            .get(&group.name)
            .filter(|(t, _)| *t >= LAG_RISING)
        {
            let text = format!("group {} lag {lag_text} growing +{slope:.0}/s", group.name);
            let detail = format!("rising for {} min", time.as_secs() / 60);
            add_with(found, Severity::Warning, "lag-rising", subject(), (text, detail));
        }
        if lag > 0 && group.clients.fresh() == Some(&0) {
            let text = format!("group {} is offline with lag {lag_text}", group.name);
            add(found, Severity::Warning, "offline-with-lag", subject(), text);
        }
        let beyond = group
            .lag
            .get()
            .into_iter()
            .flatten()
            .filter(|r| r.is_beyond_end())
            .count();
        if beyond > 0 {
            let text = format!("group {} is beyond the end of {beyond} queues", group.name);
            add(found, Severity::Warning, "beyond-end", subject(), text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::RuntimeInfo;
    use crate::client::snapshot::{
        ClusterTable, GroupLag, GroupState, HaState, Listed, NameServerState, Seen, TopicOnBroker, TopicState,
    };

    const NOW: i64 = 1_000_000;

    fn id(name: &str, id: i64) -> BrokerId {
        BrokerId {
            cluster: "c".into(),
            name: name.into(),
            id,
        }
    }

    fn broker(name: &str, number: i64, runtime: Seen<RuntimeInfo>) -> BrokerState {
        BrokerState {
            broker: id(name, number),
            addr: "10.0.0.13:10911".into(),
            last_answer_ms: Some(NOW - 41_000),
            runtime,
            ..BrokerState::default()
        }
    }

    fn cluster(brokers: Vec<BrokerState>) -> Snapshot {
        let listed = brokers
            .iter()
            .map(|b| Listed {
                broker: b.broker.clone(),
                addr: b.addr.clone(),
            })
            .collect();
        let name_servers = vec![NameServerState {
            addr: "ns1".into(),
            cluster: Seen::answered(ClusterTable { listed, live: None }, NOW),
            ..NameServerState::default()
        }];
        let mut snapshot = Snapshot {
            taken_at_ms: NOW,
            brokers,
            name_servers,
            ..Snapshot::default()
        };
        for b in &mut snapshot.brokers {
            b.registrations = liveness::registrations(&snapshot.name_servers, b, NOW);
        }
        snapshot
    }

    fn rules(snapshot: &Snapshot) -> Vec<(&'static str, Severity)> {
        findings(snapshot, &Trends::default())
            .iter()
            .map(|f| (f.rule, f.severity))
            .collect()
    }

    fn up(info: RuntimeInfo) -> Seen<RuntimeInfo> {
        Seen::answered(info, NOW)
    }

    #[test]
    fn a_healthy_cluster_has_no_finding() {
        let s = cluster(vec![broker("broker-a", 0, up(RuntimeInfo::default()))]);
        let found = findings(&s, &Trends::default());
        assert_eq!(found, []);
        assert_eq!(healthy(&s, &found), 2);
    }

    #[test]
    fn a_silent_broker_names_its_routes_and_its_end() {
        let s = cluster(vec![broker("broker-c", 0, Seen::failed("connect timed out"))]);
        let found = findings(&s, &Trends::default());
        assert_eq!(found[0].severity, Severity::Critical);
        assert_eq!(found[0].text, "broker-c:0 10.0.0.13:10911 silent 41s");
        assert_eq!(
            found[0].detail.as_deref(),
            Some("still routed on ns1; eviction in 49..84s")
        );
        assert_eq!(healthy(&s, &found), 1);
    }

    #[test]
    fn a_private_address_that_never_answered_hints_at_the_address_map() {
        let mut b = broker("broker-c", 0, Seen::failed("connect timed out"));
        b.last_answer_ms = None;
        let found = findings(&cluster(vec![b]), &Trends::default());
        assert!(
            found[0].detail.as_deref().unwrap().contains("address map"),
            "{found:?}"
        );
    }

    #[test]
    fn a_name_server_down_is_critical_only_when_it_was_the_last() {
        let mut s = cluster(vec![broker("broker-a", 0, up(RuntimeInfo::default()))]);
        s.name_servers.push(NameServerState {
            addr: "ns2".into(),
            cluster: Seen::failed("connection refused"),
            ..NameServerState::default()
        });
        assert_eq!(rules(&s), [("name-server-down", Severity::Warning)]);
        s.name_servers.remove(0);
        assert_eq!(rules(&s), [("name-server-down", Severity::Critical)]);
    }

    #[test]
    fn disks_warn_before_the_broker_deletes() {
        let used = |ratio| {
            let info = RuntimeInfo {
                commit_log_disk_ratio: Some(ratio),
                ..RuntimeInfo::default()
            };
            rules(&cluster(vec![broker("broker-a", 0, up(info))]))
        };
        assert_eq!(used(0.69), []);
        assert_eq!(used(0.71), [("disk", Severity::Warning)]);
        assert_eq!(used(0.86), [("disk", Severity::Critical)]);
    }

    #[test]
    fn a_master_without_its_slaves_is_critical() {
        let mut master = broker("broker-a", 0, up(RuntimeInfo::default()));
        master.ha = Seen::answered(HaState::default(), NOW);
        assert_eq!(rules(&cluster(vec![master.clone()])), []);
        let slave = broker("broker-a", 1, up(RuntimeInfo::default()));
        assert_eq!(
            rules(&cluster(vec![master, slave])),
            [("no-slave-in-sync", Severity::Critical)]
        );
    }

    #[test]
    fn time_rules_rest_without_a_history() {
        let info = RuntimeInfo {
            dispatch_behind_bytes: Some(4096),
            ..RuntimeInfo::default()
        };
        let mut s = cluster(vec![broker("broker-a", 0, up(info))]);
        s.groups.push(GroupState {
            name: "CID_pay".into(),
            lag: Seen::answered(
                vec![GroupLag {
                    max: 100,
                    committed: Some(40),
                    ..GroupLag::default()
                }],
                NOW,
            ),
            ..GroupState::default()
        });
        assert_eq!(rules(&s), []);
        let trends = Trends {
            dispatch_behind: [(id("broker-a", 0), Duration::from_secs(31))].into(),
            lag_rising: [("CID_pay".to_owned(), (Duration::from_secs(181), 310.0))].into(),
        };
        let texts: Vec<_> = findings(&s, &trends).into_iter().map(|f| f.text).collect();
        assert_eq!(
            texts,
            [
                "broker-a:0 dispatch behind 4096 B for 31s",
                "group CID_pay lag 60 growing +310/s"
            ]
        );
    }

    #[test]
    fn large_numbers_are_grouped() {
        let texts = [0, 999, 1_000, 1_110_180, -12_345].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "1,110,180", "-12,345"]);
    }

    #[test]
    fn queues_that_nobody_reads_are_found() {
        let mut s = cluster(vec![broker("broker-a", 0, up(RuntimeInfo::default()))]);
        s.topics.push(TopicState {
            name: "orders".into(),
            brokers: vec![TopicOnBroker {
                broker: id("broker-a", 0),
                read_queues: 8,
                write_queues: 16,
                ..TopicOnBroker::default()
            }],
            ..TopicState::default()
        });
        assert_eq!(rules(&s), [("read-below-write", Severity::Warning)]);
    }
}
