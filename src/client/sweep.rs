//! One concurrent look at a whole cluster: every server is asked at once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::admin::cluster::BrokerAt;
use super::admin::topic::kind;
use super::snapshot::{
    BrokerId, BrokerState, ClusterTable, GroupLag, GroupState, NameServerState, Registration,
    RegistrationAge, Seen, Snapshot, TopicOnBroker, TopicState,
};
use super::{Client, Deadline, Server};

/// Which parts of a snapshot are asked for. Name servers and broker runtime always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    /// Configurations of name servers and brokers.
    pub configs: bool,
    /// Replication of masters.
    pub ha: bool,
    /// Topics of masters.
    pub topics: bool,
    /// Groups and their backlog on masters.
    pub groups: bool,
}

/// Longest wait for a name server.
const NAME_SERVER_LIMIT: Duration = Duration::from_secs(2);

enum Look {
    NameServer(Box<NameServerState>),
    Broker(Box<BrokerLook>),
}

struct BrokerLook {
    state: BrokerState,
    topics: Option<Vec<(String, TopicOnBroker)>>,
    lag: Option<Result<Vec<GroupLag>, String>>,
}

impl Client {
    /// Looks at everything once. Never fails: what did not answer by `deadline` is a value that says so.
    pub async fn snapshot(&self, parts: Parts, deadline: Deadline) -> Snapshot {
        let start = Instant::now();
        let limit = Semaphore::new(self.options.parallel.max(1));
        let mut waiting: FuturesUnordered<BoxFuture<'_, Look>> = FuturesUnordered::new();
        for addr in self.name_servers() {
            // A hanging name server must not use up the time of the brokers that another one lists.
            let deadline = deadline.at_most(NAME_SERVER_LIMIT);
            let look = self.look_name_server(addr.clone(), parts, deadline);
            waiting.push(Box::pin(async move { Look::NameServer(Box::new(look.await)) }));
        }
        let (mut name_servers, mut looks) = (Vec::new(), Vec::new());
        let mut seen: BTreeSet<BrokerAt> = BTreeSet::new();
        while let Some(look) = waiting.next().await {
            match look {
                Look::NameServer(state) => {
                    for listed in state
                        .cluster
                        .get()
                        .map(|t| t.listed.as_slice())
                        .unwrap_or_default()
                    {
                        let broker = BrokerAt {
                            id: listed.broker.clone(),
                            addr: listed.addr.clone(),
                        };
                        if seen.insert(broker.clone()) {
                            let limit = &limit;
                            waiting.push(Box::pin(async move {
                                // Never closed: without a permit there is nothing to wait for.
                                let _permit = limit.acquire().await;
                                Look::Broker(Box::new(self.look_broker(broker, parts, deadline).await))
                            }));
                        }
                    }
                    name_servers.push(*state);
                }
                Look::Broker(look) => looks.push(*look),
            }
        }
        let place = |addr: &str| self.name_servers().iter().position(|a| a == addr);
        name_servers.sort_by_key(|ns: &NameServerState| place(&ns.addr));
        looks.sort_by(|a: &BrokerLook, b: &BrokerLook| {
            (&a.state.broker, &a.state.addr).cmp(&(&b.state.broker, &b.state.addr))
        });
        let servers = looks
            .iter()
            .flat_map(|look| [look.state.broker.name.clone(), look.state.broker.cluster.clone()])
            .collect();
        let mut topics: BTreeMap<String, TopicState> = BTreeMap::new();
        let mut lag: Vec<Result<Vec<GroupLag>, String>> = Vec::new();
        let mut states = Vec::with_capacity(looks.len());
        for look in looks {
            for (name, on_broker) in look.topics.into_iter().flatten() {
                topics
                    .entry(name.clone())
                    .or_insert_with(|| TopicState {
                        kind: kind(&name, &servers),
                        name,
                        brokers: Vec::new(),
                    })
                    .brokers
                    .push(on_broker);
            }
            lag.extend(look.lag);
            states.push(look.state);
        }
        let now = now_ms();
        for state in &mut states {
            state.registrations = name_servers
                .iter()
                .map(|ns| registration(ns, &state.broker, &state.addr, state.is_alive()))
                .collect();
        }
        Snapshot {
            taken_at_ms: now,
            took: start.elapsed(),
            name_servers,
            brokers: states,
            topics: topics.into_values().collect(),
            groups: groups(lag, now),
        }
    }

    async fn look_name_server(&self, addr: String, parts: Parts, deadline: Deadline) -> NameServerState {
        let (cluster, config, topics) = tokio::join!(
            self.look_cluster(&addr, deadline),
            async {
                match parts.configs {
                    true => Some(self.look_limits(&addr, deadline).await),
                    false => None,
                }
            },
            async {
                match parts.topics {
                    true => Some(self.look_topic_names(&addr, deadline).await),
                    false => None,
                }
            },
        );
        let now = now_ms();
        let (cluster, rtt) = match cluster {
            Ok((table, rtt)) => (Seen::answered(table, now), Seen::answered(rtt, now)),
            Err(e) => (Seen::failed(&e), Seen::failed(&e)),
        };
        NameServerState {
            addr,
            rtt,
            cluster,
            config: config.map_or_else(Seen::unasked, |c| Seen::from_result(c, now)),
            topics: topics.map_or_else(Seen::unasked, |t| Seen::from_result(t, now)),
        }
    }

    async fn look_broker(&self, broker: BrokerAt, parts: Parts, deadline: Deadline) -> BrokerLook {
        let server: Server = broker.server();
        let master = broker.id.is_master();
        let (runtime, config, ha, topics, lag) = tokio::join!(
            self.look_runtime(&server, deadline),
            async {
                match parts.configs {
                    true => Some(self.look_config(&server, deadline).await),
                    false => None,
                }
            },
            async {
                match parts.ha && master {
                    true => Some(self.broker_ha(&server, deadline).await),
                    false => None,
                }
            },
            async {
                match parts.topics && master {
                    true => Some(self.look_topics(&broker.id, &server, deadline).await),
                    false => None,
                }
            },
            async {
                match parts.groups && master {
                    true => Some(self.look_lag(&server, deadline).await),
                    false => None,
                }
            },
        );
        let now = now_ms();
        let (runtime, rtt) = match runtime {
            Ok((info, rtt)) => (Seen::answered(info, now), Seen::answered(rtt, now)),
            Err(e) => (Seen::failed(&e), Seen::failed(&e)),
        };
        let refused = runtime.error.as_ref().is_some_and(|e| e.refusal.is_some());
        let last_answer_ms = (runtime.error.is_none() || refused).then_some(now);
        let (topics, topics_version) = match topics {
            Some(Ok((topics, version))) => (Some(topics), Seen::answered(version, now)),
            Some(Err(e)) => (None, Seen::failed(&e)),
            None => (None, Seen::unasked()),
        };
        BrokerLook {
            state: BrokerState {
                dialled: self.mapped(&broker.addr),
                broker: broker.id,
                addr: broker.addr,
                registrations: Vec::new(),
                rtt,
                runtime,
                config: config.map_or_else(Seen::unasked, |c| Seen::from_result(c, now)),
                ha: ha.map_or_else(Seen::unasked, |h| Seen::from_result(h, now)),
                topics_version,
                last_answer_ms,
            },
            topics,
            lag: lag.map(|l| l.map_err(|e| e.reason())),
        }
    }
}

/// A broker as one name server sees it, from a single look.
fn registration(ns: &NameServerState, broker: &BrokerId, addr: &str, answers: bool) -> Registration {
    let table: Option<&ClusterTable> = ns.cluster.fresh();
    let listed = table.map(|t| t.listed.iter().any(|l| l.broker == *broker && l.addr == addr));
    let live = table.and_then(|t| t.live.as_ref()).and_then(|live| {
        live.iter()
            .find(|l| l.addr == addr && l.cluster == broker.cluster)
    });
    Registration {
        name_server: ns.addr.clone(),
        listed,
        age: match live {
            Some(live) => RegistrationAge::Exact(live.age),
            None if listed == Some(true) && answers => RegistrationAge::Answering,
            None => RegistrationAge::Unknown,
        },
        limit: live.and_then(|l| l.limit),
        data_version: live.and_then(|l| l.data_version),
    }
}

/// Backlog by group over all asked brokers.
pub(super) fn groups(answers: Vec<Result<Vec<GroupLag>, String>>, now: i64) -> Vec<GroupState> {
    let failed = answers.iter().find_map(|a| a.as_ref().err().cloned());
    let mut by_group: BTreeMap<String, Vec<GroupLag>> = BTreeMap::new();
    for row in answers.into_iter().flatten().flatten() {
        by_group.entry(row.group.clone()).or_default().push(row);
    }
    by_group
        .into_iter()
        .map(|(name, rows)| GroupState {
            name,
            lag: Seen {
                value: Some(rows),
                as_of_ms: now,
                error: None,
            },
            consume_tps: Seen::unasked(),
            clients: Seen::unasked(),
            partial: failed.is_some(),
        })
        .collect()
}

fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_millis() as i64
}
