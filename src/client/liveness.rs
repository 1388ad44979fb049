//! How long a broker has been silent towards each name server, and what that means. Pure functions.
//!
//! An `rmq` name server tells the age of a registration; a Java one does not. For the latter the age is inferred:
//! while the broker answers us and is listed it is below the registration period, and no more is known. When it
//! stopped answering at T, its last registration lies between T − period and T.

use std::time::Duration;

use super::snapshot::{BrokerState, NameServerState, Registration, RegistrationAge};

/// Registration period of a broker that did not tell its own.
pub const DEFAULT_PERIOD: Duration = Duration::from_secs(30);
/// Silence after which a name server drops a broker, when it does not tell.
pub const DEFAULT_LIMIT: Duration = Duration::from_secs(120);
/// Pause between two scans of a name server that did not tell its own.
pub const DEFAULT_SCAN: Duration = Duration::from_secs(5);
/// A beat may be this much over its period before it counts as missed: round trips and a busy broker.
pub const GRACE: Duration = Duration::from_secs(2);
/// Silence towards us below which a missing answer is no more than a slow one.
const DOUBT: Duration = Duration::from_secs(10);

/// What the age of a registration means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// Within its period, as far as anyone can know.
    Ok,
    /// Beats were missed, the broker still answers.
    Late {
        /// How many.
        missed: u64,
    },
    /// Silent and still listed; the name server drops it in this time.
    Silent {
        /// At the earliest.
        out_from: Duration,
        /// At the latest.
        out_to: Duration,
    },
    /// Not listed.
    Gone,
    /// The name server did not answer, or nothing was ever heard of the broker.
    Unknown,
}

/// Registration period of a broker.
pub fn period(broker: &BrokerState) -> Duration {
    broker
        .config
        .get()
        .and_then(|c| c.register_period)
        .unwrap_or(DEFAULT_PERIOD)
}

/// Silence after which the name server drops the broker.
pub fn limit(registration: &Registration) -> Duration {
    registration.limit.unwrap_or(DEFAULT_LIMIT)
}

/// Pause between two scans of the name server.
pub fn scan(name_server: &NameServerState) -> Duration {
    name_server
        .config
        .get()
        .and_then(|c| c.scan_interval)
        .unwrap_or(DEFAULT_SCAN)
}

/// Since when the broker does not answer us; `None` while it does or when it never did.
pub fn silence(broker: &BrokerState, now_ms: i64) -> Option<Duration> {
    if broker.is_alive() {
        return None;
    }
    broker.last_answer_ms.map(|at| since(at, now_ms))
}

/// The broker as each name server sees it at `now_ms`, in their order.
pub fn registrations(
    name_servers: &[NameServerState],
    broker: &BrokerState,
    now_ms: i64,
) -> Vec<Registration> {
    name_servers
        .iter()
        .map(|server| registration(server, broker, now_ms))
        .collect()
}

fn registration(server: &NameServerState, broker: &BrokerState, now_ms: i64) -> Registration {
    let mut out = Registration {
        name_server: server.addr.clone(),
        listed: None,
        age: RegistrationAge::Unknown,
        limit: None,
        data_version: None,
    };
    let Some(table) = server.cluster.fresh() else {
        return out;
    };
    let listed = table.listed.iter().any(|l| l.broker == broker.broker);
    out.listed = Some(listed);
    if !listed {
        return out;
    }
    let live = table
        .live
        .iter()
        .flatten()
        .find(|l| l.addr == broker.addr && l.cluster == broker.broker.cluster);
    if let Some(live) = live {
        out.age = RegistrationAge::Exact(live.age.saturating_add(since(server.cluster.as_of_ms, now_ms)));
        out.limit = live.limit;
        out.data_version = live.data_version;
    } else if broker.is_alive() {
        out.age = RegistrationAge::Answering;
    } else if let Some(at) = broker.last_answer_ms {
        let low = since(at, now_ms);
        out.age = RegistrationAge::Between(low, low.saturating_add(period(broker)));
    }
    out
}

/// What a registration means at `now_ms`.
pub fn beat(
    server: &NameServerState,
    broker: &BrokerState,
    registration: &Registration,
    now_ms: i64,
) -> Beat {
    let (period, scan) = (period(broker), scan(server));
    match registration.listed {
        None => return Beat::Unknown,
        Some(false) => return Beat::Gone,
        Some(true) => {}
    }
    let limit = limit(registration);
    let silent = |low: Duration, high: Duration| Beat::Silent {
        out_from: limit.saturating_sub(high),
        out_to: limit.saturating_sub(low).saturating_add(scan),
    };
    match registration.age {
        RegistrationAge::Unknown => Beat::Unknown,
        RegistrationAge::Answering => Beat::Ok,
        RegistrationAge::Exact(age) => {
            // Since the name server told the age, a beat may have come that we have not heard of.
            let told = age.saturating_sub(since(server.cluster.as_of_ms, now_ms));
            if told <= period.saturating_add(GRACE) {
                Beat::Ok
            } else if broker.is_alive() && told < period.saturating_mul(2).min(limit) {
                let missed = age.as_millis() / period.as_millis().max(1);
                Beat::Late {
                    missed: u64::try_from(missed).unwrap_or(u64::MAX),
                }
            } else {
                silent(age, age)
            }
        }
        RegistrationAge::Between(low, _) if low < DOUBT => Beat::Ok,
        RegistrationAge::Between(low, high) => silent(low, high),
    }
}

/// Name server whose registration of the broker is newer than the one at `index`, by the version's counter.
pub fn behind(registrations: &[Registration], index: usize) -> Option<&str> {
    let own = registrations.get(index)?.data_version?;
    registrations
        .iter()
        .filter(|r| r.data_version.is_some_and(|v| v.counter > own.counter))
        .max_by_key(|r| r.data_version.map(|v| v.counter))
        .map(|r| r.name_server.as_str())
}

fn since(at_ms: i64, now_ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::RuntimeInfo;
    use crate::client::snapshot::{BrokerId, ClusterTable, Listed, LiveBroker, Seen};

    const S: Duration = Duration::from_secs(1);

    fn broker(last_answer_ms: Option<i64>, answers: bool) -> BrokerState {
        BrokerState {
            broker: BrokerId {
                cluster: "c".into(),
                name: "broker-a".into(),
                id: 0,
            },
            addr: "10.0.0.1:10911".into(),
            runtime: if answers {
                Seen::answered(RuntimeInfo::default(), last_answer_ms.unwrap())
            } else {
                Seen::failed("timed out")
            },
            last_answer_ms,
            ..BrokerState::default()
        }
    }

    fn server(live_age: Option<u64>, at_ms: i64) -> NameServerState {
        let b = broker(None, false);
        NameServerState {
            addr: "ns:9876".into(),
            cluster: Seen::answered(
                ClusterTable {
                    listed: vec![Listed {
                        broker: b.broker.clone(),
                        addr: b.addr.clone(),
                    }],
                    live: live_age.map(|age| {
                        vec![LiveBroker {
                            cluster: "c".into(),
                            addr: b.addr,
                            age: S * u32::try_from(age).unwrap(),
                            limit: Some(S * 120),
                            data_version: None,
                        }]
                    }),
                },
                at_ms,
            ),
            ..NameServerState::default()
        }
    }

    fn one(server: &NameServerState, broker: &BrokerState, now_ms: i64) -> (RegistrationAge, Beat) {
        let r = registrations(std::slice::from_ref(server), broker, now_ms).remove(0);
        (r.age, beat(server, broker, &r, now_ms))
    }

    #[test]
    fn the_example_of_the_specification_holds() {
        // 41 s of silence with 30/120/5: evicted in 49..84 s.
        let (age, b) = one(&server(None, 100_000), &broker(Some(59_000), false), 100_000);
        assert_eq!(age, RegistrationAge::Between(S * 41, S * 71));
        assert_eq!(
            b,
            Beat::Silent {
                out_from: S * 49,
                out_to: S * 84
            }
        );
    }

    #[test]
    fn an_exact_age_goes_on_between_two_answers() {
        let up = broker(Some(100_000), true);
        assert_eq!(
            one(&server(Some(12), 100_000), &up, 101_000).0,
            RegistrationAge::Exact(S * 13)
        );
        assert_eq!(one(&server(Some(31), 100_000), &up, 100_000).1, Beat::Ok);
        assert_eq!(
            one(&server(Some(34), 100_000), &up, 100_000).1,
            Beat::Late { missed: 1 }
        );
        let silent = |age: u64, up: &BrokerState| one(&server(Some(age), 100_000), up, 100_000).1;
        assert!(matches!(silent(61, &up), Beat::Silent { .. }));
        assert!(matches!(
            silent(34, &broker(Some(60_000), false)),
            Beat::Silent { .. }
        ));
        assert_eq!(
            silent(500, &up),
            Beat::Silent {
                out_from: Duration::ZERO,
                out_to: S * 5
            }
        );
    }

    #[test]
    fn a_beat_that_may_have_come_since_the_last_answer_is_not_missed() {
        let up = broker(Some(100_000), true);
        let (age, beat) = one(&server(Some(29), 100_000), &up, 105_000);
        assert_eq!((age, beat), (RegistrationAge::Exact(S * 34), Beat::Ok));
    }

    #[test]
    fn what_nobody_said_is_unknown() {
        let mut ns = server(None, 100_000);
        assert_eq!(one(&ns, &broker(Some(99_000), true), 100_000).1, Beat::Ok);
        assert_eq!(
            one(&ns, &broker(None, false), 100_000),
            (RegistrationAge::Unknown, Beat::Unknown)
        );
        ns.cluster.error = Some("refused".into());
        assert_eq!(one(&ns, &broker(Some(99_000), true), 100_000).1, Beat::Unknown);
        ns.cluster = Seen::answered(ClusterTable::default(), 100_000);
        assert_eq!(one(&ns, &broker(Some(99_000), true), 100_000).1, Beat::Gone);
    }
}
