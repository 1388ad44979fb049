//! The event log of the session: what changed from one state to the next.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::client::findings::Severity;
use crate::client::liveness::{self, Beat};
use crate::client::snapshot::{BrokerId, BrokerState, RegistrationAge, Snapshot};

/// Lines the log keeps.
const LINES: usize = 500;
/// Topic names a line spells out.
const NAMES: usize = 3;

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// When, epoch ms.
    pub at_ms: i64,
    /// How bad.
    pub severity: Severity,
    /// What.
    pub text: String,
}

/// The newest [`LINES`] lines, newest first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EventLog {
    lines: VecDeque<Line>,
}

impl EventLog {
    /// Adds a line.
    pub fn push(&mut self, at_ms: i64, severity: Severity, text: String) {
        self.lines.truncate(LINES - 1);
        self.lines.push_front(Line {
            at_ms,
            severity,
            text,
        });
    }

    /// Lines, newest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Line> {
        self.lines.iter()
    }
}

/// The state that the next one is compared with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Watch {
    beats: BTreeMap<(String, BrokerId), State>,
    servers: BTreeMap<String, bool>,
    answers: BTreeMap<BrokerId, bool>,
    topics: BTreeMap<String, BTreeSet<String>>,
    in_sync: BTreeMap<BrokerId, i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Ok,
    Late,
    Silent,
    Gone,
}

impl Watch {
    /// Writes down what is different in `snapshot`.
    pub fn compare(&mut self, snapshot: &Snapshot, retry_at_ms: &BTreeMap<String, i64>, log: &mut EventLog) {
        self.servers(snapshot, retry_at_ms, log);
        self.probes(snapshot, retry_at_ms, log);
        self.beats(snapshot, log);
        self.topics(snapshot, log);
        self.replication(snapshot, log);
    }

    fn servers(&mut self, snapshot: &Snapshot, retry_at_ms: &BTreeMap<String, i64>, log: &mut EventLog) {
        let now = snapshot.taken_at_ms;
        for server in &snapshot.name_servers {
            if server.cluster.is_unasked() {
                continue;
            }
            let up = server.is_alive();
            let before = self.servers.insert(server.addr.clone(), up);
            let addr = &server.addr;
            match (before, up) {
                (None | Some(true), false) => {
                    let why = server.cluster.error.as_deref().unwrap_or("no answer");
                    let text = format!(
                        "name server {addr} does not answer: {why}{}",
                        retry(retry_at_ms, addr, now)
                    );
                    log.push(now, Severity::Critical, text);
                }
                (Some(false), true) => {
                    log.push(now, Severity::Info, format!("name server {addr} answers again"))
                }
                (None, true) => log.push(now, Severity::Info, format!("name server {addr} answers")),
                (Some(_), _) => {}
            }
        }
    }

    fn probes(&mut self, snapshot: &Snapshot, retry_at_ms: &BTreeMap<String, i64>, log: &mut EventLog) {
        let now = snapshot.taken_at_ms;
        for broker in &snapshot.brokers {
            if broker.runtime.is_unasked() {
                continue;
            }
            let id = &broker.broker;
            let answers = broker.is_alive();
            let before = self.answers.insert(id.clone(), answers);
            match (before, answers) {
                (None | Some(true), false) => {
                    let why = broker.runtime.error.as_deref().unwrap_or("no answer");
                    let who = format!("{}/{id}", id.cluster);
                    let text = format!(
                        "direct probe of {id} failed: {why}{}",
                        retry(retry_at_ms, &who, now)
                    );
                    log.push(now, Severity::Critical, text);
                }
                (Some(false), true) => log.push(now, Severity::Info, format!("{id} answers again")),
                (None | Some(true), true) | (Some(false), false) => {}
            }
        }
        let present: BTreeSet<&BrokerId> = snapshot.brokers.iter().map(|b| &b.broker).collect();
        self.answers.retain(|id, _| present.contains(id));
        self.beats.retain(|(_, id), _| present.contains(id));
        self.in_sync.retain(|id, _| present.contains(id));
    }

    fn beats(&mut self, snapshot: &Snapshot, log: &mut EventLog) {
        let now = snapshot.taken_at_ms;
        for broker in &snapshot.brokers {
            for (index, server) in snapshot.name_servers.iter().enumerate() {
                let Some(registration) = broker.registrations.get(index) else {
                    continue;
                };
                let beat = liveness::beat(server, broker, registration, now);
                let state = match beat {
                    Beat::Ok => State::Ok,
                    Beat::Late { .. } => State::Late,
                    Beat::Silent { .. } => State::Silent,
                    Beat::Gone => State::Gone,
                    // Nothing can be said, so nothing has happened.
                    Beat::Unknown => continue,
                };
                let key = (server.addr.clone(), broker.broker.clone());
                let before = self.beats.insert(key, state);
                if before == Some(state) {
                    continue;
                }
                if let Some((severity, text)) = self::change(before, state, broker, index) {
                    log.push(now, severity, format!("ns{} {text}", index + 1));
                }
            }
        }
    }

    fn topics(&mut self, snapshot: &Snapshot, log: &mut EventLog) {
        for (index, server) in snapshot.name_servers.iter().enumerate() {
            let Some(topics) = server.topics.fresh() else {
                continue;
            };
            let now: BTreeSet<String> = topics.iter().cloned().collect();
            let before = self.topics.get(&server.addr);
            if before == Some(&now) {
                continue;
            }
            if let Some(before) = before {
                let signs = now.difference(before).map(|t| format!("+{t}"));
                let signs: Vec<_> = signs
                    .chain(before.difference(&now).map(|t| format!("-{t}")))
                    .collect();
                let rest = signs.len().saturating_sub(NAMES);
                let more = if rest > 0 {
                    format!(" and {rest} more")
                } else {
                    String::new()
                };
                let shown = signs[..signs.len().min(NAMES)].join(" ");
                let text = format!("ns{} topics changed: {shown}{more}", index + 1);
                log.push(snapshot.taken_at_ms, Severity::Info, text);
            }
            self.topics.insert(server.addr.clone(), now);
        }
    }

    fn replication(&mut self, snapshot: &Snapshot, log: &mut EventLog) {
        for broker in &snapshot.brokers {
            let Some(ha) = broker.ha.fresh() else { continue };
            let before = self.in_sync.insert(broker.broker.clone(), ha.in_sync);
            if let Some(before) = before.filter(|b| *b != ha.in_sync) {
                let severity = if ha.in_sync < before {
                    Severity::Warning
                } else {
                    Severity::Info
                };
                let text = format!("{} slaves in sync {before} → {}", broker.broker, ha.in_sync);
                log.push(snapshot.taken_at_ms, severity, text);
            }
        }
    }
}

fn change(
    before: Option<State>,
    state: State,
    broker: &BrokerState,
    index: usize,
) -> Option<(Severity, String)> {
    let id = &broker.broker;
    let registration = broker.registrations.get(index)?;
    let limit = liveness::limit(registration).as_secs();
    let age = match registration.age {
        RegistrationAge::Exact(age) => format!("{}s", age.as_secs()),
        RegistrationAge::Between(low, high) => format!("{}..{}s", low.as_secs(), high.as_secs()),
        RegistrationAge::Answering | RegistrationAge::Unknown => String::new(),
    };
    Some(match (before, state) {
        (None, State::Ok) => (Severity::Info, format!("lists {id} {}", broker.addr)),
        (Some(State::Gone), State::Ok) => (Severity::Info, format!("{id} is back at {}", broker.addr)),
        (_, State::Ok) => (Severity::Info, format!("{id} registers again")),
        (_, State::Late) => {
            let period = liveness::period(broker).as_secs();
            (
                Severity::Warning,
                format!("{id} missed a period ({age} > {period}s)"),
            )
        }
        (_, State::Silent) => (
            Severity::Critical,
            format!("{id} is silent for {age}, limit {limit}s"),
        ),
        (None, State::Gone) => return None,
        (Some(State::Silent), State::Gone) => (
            Severity::Critical,
            format!("dropped {id} after {limit}s of silence"),
        ),
        (Some(_), State::Gone) => (
            Severity::Critical,
            format!("dropped {id}: channel closed or unregistered"),
        ),
    })
}

fn retry(retry_at_ms: &BTreeMap<String, i64>, who: &str, now_ms: i64) -> String {
    retry_at_ms.get(who).map_or_else(String::new, |at| {
        let ms = at.saturating_sub(now_ms).max(0);
        format!("; retry in {}s", (ms + 999) / 1000)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::client::RuntimeInfo;
    use crate::client::snapshot::{ClusterTable, Listed, LiveBroker, NameServerState, Seen};

    fn at(age_s: Option<u64>, answers: bool, now_s: i64) -> Snapshot {
        let id = BrokerId {
            cluster: "c".into(),
            name: "broker-b".into(),
            id: 0,
        };
        let mut broker = BrokerState {
            broker: id.clone(),
            addr: "b:1".into(),
            runtime: if answers {
                Seen::answered(RuntimeInfo::default(), now_s * 1000)
            } else {
                Seen::failed("timed out")
            },
            last_answer_ms: Some(now_s * 1000),
            ..BrokerState::default()
        };
        let listed = age_s.map(|_| Listed {
            broker: id,
            addr: "b:1".into(),
        });
        let live = age_s.map(|age| LiveBroker {
            cluster: "c".into(),
            addr: "b:1".into(),
            age: Duration::from_secs(age),
            limit: None,
            data_version: None,
        });
        let table = ClusterTable {
            listed: listed.into_iter().collect(),
            live: Some(live.into_iter().collect()),
        };
        let servers = vec![NameServerState {
            addr: "ns".into(),
            cluster: Seen::answered(table, now_s * 1000),
            ..NameServerState::default()
        }];
        broker.registrations = liveness::registrations(&servers, &broker, now_s * 1000);
        Snapshot {
            taken_at_ms: now_s * 1000,
            name_servers: servers,
            brokers: vec![broker],
            ..Snapshot::default()
        }
    }

    #[test]
    fn a_stopped_broker_passes_through_every_state_once() {
        let (mut watch, mut log) = (Watch::default(), EventLog::default());
        let retry = BTreeMap::from([("c/broker-b:0".to_owned(), 39_500)]);
        for snapshot in [
            at(Some(5), true, 5),
            at(Some(6), true, 6),
            at(Some(34), true, 34),
            at(Some(38), false, 38),
            at(Some(100), false, 100),
            at(None, false, 130),
            at(Some(1), true, 200),
        ] {
            watch.compare(&snapshot, &retry, &mut log);
        }
        let lines: Vec<_> = log.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(
            lines,
            [
                "ns1 broker-b:0 is back at b:1",
                "broker-b:0 answers again",
                "ns1 dropped broker-b:0 after 120s of silence",
                "ns1 broker-b:0 is silent for 38s, limit 120s",
                "direct probe of broker-b:0 failed: timed out; retry in 2s",
                "ns1 broker-b:0 missed a period (34s > 30s)",
                "ns1 lists broker-b:0 b:1",
                "name server ns answers",
            ]
        );
    }

    #[test]
    fn a_closed_channel_is_not_silence() {
        let (mut watch, mut log) = (Watch::default(), EventLog::default());
        watch.compare(&at(Some(5), true, 5), &BTreeMap::new(), &mut log);
        watch.compare(&at(None, true, 6), &BTreeMap::new(), &mut log);
        let newest = log.iter().next().unwrap();
        assert_eq!(
            newest.text,
            "ns1 dropped broker-b:0: channel closed or unregistered"
        );
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = EventLog::default();
        for i in 0..2000 {
            log.push(i, Severity::Info, String::new());
        }
        assert_eq!(log.iter().len(), LINES);
        assert_eq!(log.iter().next().unwrap().at_ms, 1999);
    }
}
