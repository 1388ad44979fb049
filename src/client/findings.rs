//! What in a cluster needs a look, and what needs hands: findings, as the dashboard and `rmq cluster doctor` show
//! them. The rules stand in [`doctor`](super::doctor), one list for both.

use std::collections::BTreeMap;
use std::time::Duration;

use super::doctor::{self, Evidence};
use super::snapshot::{BrokerId, Snapshot};
use super::words::quoted;

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

/// `broker-a:0`, `topic orders`.
impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Cluster => f.write_str("cluster"),
            Self::NameServer(addr) => write!(f, "name server {addr}"),
            Self::Broker(id) => write!(f, "{id}"),
            Self::Topic(name) => write!(f, "topic {name}"),
            Self::Group(name) => write!(f, "group {name}"),
        }
    }
}

/// One thing that a rule found.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Id of the check it belongs to, such as `BR1`: an entry of [`doctor::CHECKS`](super::doctor::CHECKS).
    pub check: &'static str,
    /// How bad.
    pub severity: Severity,
    /// Name of the rule, stable across versions.
    pub rule: &'static str,
    /// About what.
    pub subject: Subject,
    /// One sentence.
    pub text: String,
    /// A second one with details.
    pub detail: Option<String>,
    /// The next command, where it is another than the check's own.
    pub next: Option<String>,
}

impl Finding {
    /// A finding of one sentence.
    pub fn new(
        check: &'static str,
        rule: &'static str,
        severity: Severity,
        subject: Subject,
        text: impl Into<String>,
    ) -> Self {
        Self {
            check,
            severity,
            rule,
            subject,
            text: text.into(),
            detail: None,
            next: None,
        }
    }

    /// The command that looks further or mends: its own, else the check's with the subject's name in it. Of the whole cluster
    /// that is the list of what the check is about.
    pub fn command(&self) -> Option<String> {
        if self.next.is_some() {
            return self.next.clone();
        }
        let next = doctor::check(self.check)?.next;
        if !next.split(' ').any(|word| word == "NAME") {
            return Some(next.to_owned());
        }
        let noun = next.split(' ').nth(1).unwrap_or_default();
        let name = match (&self.subject, noun) {
            (Subject::Broker(id), "broker") if id.is_master() => id.name.clone(),
            (Subject::Broker(id), "broker") => id.to_string(),
            (Subject::Topic(name), "topic") | (Subject::Group(name), "group") => name.clone(),
            _ => return Some(format!("rmq {noun} list")),
        };
        let words: Vec<String> = next
            .split(' ')
            .map(|word| match word {
                "NAME" => quoted(&name),
                word => word.to_owned(),
            })
            .collect();
        Some(words.join(" "))
    }

    /// Adds the second sentence.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Adds the next command.
    #[must_use]
    pub fn next(mut self, next: impl Into<String>) -> Self {
        self.next = Some(next.into());
        self
    }
}

/// What only a watcher of several snapshots can know. Empty for a single look; the rules that need it then rest.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trends {
    /// How long a broker's dispatch has been behind without a break.
    pub dispatch_behind: BTreeMap<BrokerId, Duration>,
    /// Groups whose lag has been rising: for how long, and messages a second.
    pub lag_rising: BTreeMap<String, (Duration, f64)>,
    /// Messages a second that come back to be tried again, and those consumed, by group.
    pub retries: BTreeMap<String, (f64, f64)>,
    /// How long the oldest unread message of a group has been waiting at least, ms, and the broker that has it.
    pub waits: BTreeMap<String, (i64, String)>,
}

/// Every finding that a snapshot and its history allow, worst first, then by subject. Rules that need more than that
/// rest; the doctor gathers the rest.
pub fn findings(snapshot: &Snapshot, trends: &Trends) -> Vec<Finding> {
    doctor::judge(&Evidence {
        snapshot,
        trends,
        details: None,
    })
}

/// Every finding of a doctor that asked for the rest as well.
pub fn findings_of(snapshot: &Snapshot, details: &doctor::Details) -> Vec<Finding> {
    doctor::judge(&Evidence {
        snapshot,
        trends: &Trends::default(),
        details: Some(details),
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::snapshot::{
        BrokerState, ClusterTable, GroupLag, GroupState, HaState, Listed, NameServerState, Seen,
        TopicOnBroker, TopicState,
    };
    use crate::client::{RuntimeInfo, liveness};

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
    fn a_next_command_has_no_placeholder() {
        let subjects = [
            Subject::Cluster,
            Subject::NameServer("ns1".into()),
            Subject::Broker(id("broker-a", 0)),
            Subject::Topic("Solo".into()),
            Subject::Group("g".into()),
        ];
        for check in doctor::CHECKS {
            for subject in &subjects {
                let finding = Finding::new(check.id, "r", Severity::Warning, subject.clone(), "t");
                let command = finding.command().unwrap();
                assert!(!command.contains("NAME"), "{subject}: {command}");
            }
        }
        let of = |check, subject| Finding::new(check, "r", Severity::Warning, subject, "t").command();
        assert_eq!(
            of("TP1", Subject::Topic("Solo".into())).as_deref(),
            Some("rmq topic get Solo")
        );
        assert_eq!(
            of("BR8", Subject::Broker(id("broker-b", 1))).as_deref(),
            Some("rmq broker describe broker-b:1")
        );
        assert_eq!(of("TP1", Subject::Cluster).as_deref(), Some("rmq topic list"));
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
    fn a_name_server_down_is_critical() {
        let mut s = cluster(vec![broker("broker-a", 0, up(RuntimeInfo::default()))]);
        s.name_servers.push(NameServerState {
            addr: "ns2".into(),
            cluster: Seen::failed("connection refused"),
            ..NameServerState::default()
        });
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
            ..Trends::default()
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
