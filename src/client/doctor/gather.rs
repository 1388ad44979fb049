//! Gathers what the checks look at. Reads only; each server is asked for itself, and one that hangs or is gone costs
//! its own limit and nobody else's.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::details::{ControllerView, Details, Half, Later, Missed, Offsets};
use super::name_servers::difference;
use crate::client::admin::cluster::BrokerAt;
use crate::client::admin::group::is_system;
use crate::client::admin::message::Pull;
use crate::client::admin::namesrv::ORDER_NAMESPACE;
use crate::client::admin::topic::kind;
use crate::client::error::{Error, Server};
use crate::client::findings::Finding;
use crate::client::look::{HALF_GROUP, HALF_TOPIC, cluster_table};
use crate::client::produce::now_ms;
use crate::client::snapshot::{BrokerId, ClusterTable, GroupLag, Snapshot, TopicKind, TopicState};
use crate::client::stranded::{Ends, offsets_of};
use crate::client::{Client, Deadline, Parts, findings, liveness, sweep};
use crate::protocol::body::{
    ConsumerConnection, ConsumerRunningInfo, SubscriptionGroupConfig, TopicRouteData, TopicStatsTable,
};
use crate::protocol::codes;
use crate::protocol::model::DLQ_PREFIX;
use crate::protocol::properties::names;
use crate::protocol::requests::{GetAllConsumerOffset, GetBrokerClusterInfo, GetRouteinfoByTopic};

/// A broker answers in this time, or it is stale.
const ALIVE: Duration = Duration::from_secs(3);
/// Limit of one further question.
const QUESTION: Duration = Duration::from_secs(5);
/// Limit of a question that a broker passes on to a client.
const CLIENT: Duration = Duration::from_secs(2);
/// Pause before a second look: a registration under way is done by then, and a stuck queue has not moved.
const SECOND_LOOK: Duration = Duration::from_secs(5);
/// Most queues whose oldest unread message is looked up.
const OLDEST: usize = 256;
/// Most queues of one broker behind the read queues of their topic that are asked for.
const STRANDED: usize = 256;
/// A position that was reached by a message younger than this cannot hide one that has waited for long, ms: the time
/// after which a client counts as stuck.
const YOUNG_MS: i64 = 300_000;

/// What an examination brought.
#[derive(Debug, Clone, Default)]
pub struct Examined {
    /// The first look.
    pub snapshot: Snapshot,
    /// What was asked beyond it.
    pub details: Details,
    /// What the checks found, worst first; of all checks, also those not asked for.
    pub findings: Vec<Finding>,
}

/// Which questions the wanted checks need.
struct Wants<'a>(&'a BTreeSet<&'static str>);

impl Wants<'_> {
    fn any(&self, checks: &[&str]) -> bool {
        checks.iter().any(|c| self.0.contains(c))
    }
}

impl Client {
    /// Examines everything that the checks with these ids need. Never fails: what does not answer by `deadline` is a
    /// finding, or is listed as missed.
    pub async fn examine(&self, checks: &BTreeSet<&'static str>, deadline: Deadline) -> Examined {
        let wants = Wants(checks);
        let parts = Parts {
            configs: true,
            ha: true,
            topics: true,
            groups: false,
        };
        // A broker that hangs leaves the others half of the time.
        let alive = ALIVE.min(deadline.left() / 2);
        let mut snapshot = self.snapshot(parts, deadline.at_most(alive)).await;
        let mut details = Details::default();
        let silent: Vec<Missed> = snapshot
            .brokers
            .iter()
            .filter(|b| b.broker.is_master() && !b.answers())
            .map(|b| Missed {
                server: format!("{} {}", b.broker, b.addr),
                what: "what it has",
                why: match &b.runtime.error {
                    Some(error) if error.refusal.is_some() => format!("it refuses: {error}"),
                    _ => "it does not answer".into(),
                },
            })
            .collect();
        let masters: Vec<BrokerAt> = snapshot
            .brokers
            .iter()
            .filter(|b| b.broker.is_master() && b.answers())
            .map(|b| BrokerAt {
                id: b.broker.clone(),
                addr: b.addr.clone(),
            })
            .collect();
        let (orders, others, routes, stats, groups) = tokio::join!(
            self.orders(&snapshot, wants.any(&["NS3", "TP4"]), deadline),
            self.other_name_servers(&snapshot, wants.any(&["BR3", "BR9"]), deadline),
            async {
                match wants.any(&["NS3", "BR6"]) {
                    true => self.routes(&snapshot, None, deadline).await,
                    false => BTreeMap::new(),
                }
            },
            async {
                match wants.any(&["TP1", "TP3", "GR5", "GR6", "CL1"]) {
                    true => self.stats(&snapshot, &masters, deadline).await,
                    false => (BTreeMap::new(), Vec::new()),
                }
            },
            async {
                let needed = [
                    "BR5", "TP3", "GR1", "GR2", "GR3", "GR4", "GR5", "GR7", "TP1", "TR1",
                ];
                match wants.any(&needed) {
                    true => self.groups(&masters, with_clients(&wants), deadline).await,
                    false => Groups::default(),
                }
            },
        );
        details.orders = orders;
        details.other_name_servers = others;
        details.routes = routes;
        (details.stats, details.missed) = stats;
        details.group_configs = groups.configs;
        details.offsets = groups.offsets;
        details.connections = groups.connections;
        details.missed.extend(groups.missed);
        // What these hold is in no sum.
        let unseen = silent.iter().map(|m| Err(format!("{} {}", m.server, m.why)));
        let lag = groups.lag.into_iter().chain(unseen).collect();
        snapshot.groups = sweep::groups(lag, snapshot.taken_at_ms);
        if wants.any(&["HA2"]) {
            details.controllers = self.controllers(&snapshot, deadline).await;
        }
        if wants.any(&["TP1"]) {
            self.strand(&mut snapshot, &details.offsets, &masters, deadline)
                .await;
        }
        details.missed.extend(silent);
        let (running, oldest, halves) = tokio::join!(
            async {
                match wants.any(&["GR1", "GR3", "GR5", "GR7"]) {
                    true => self.running(&details.connections, &masters, deadline).await,
                    false => BTreeMap::new(),
                }
            },
            async {
                match wants.any(&["GR5"]) {
                    true => self.unread_since(&snapshot, &masters, deadline).await,
                    false => BTreeMap::new(),
                }
            },
            async {
                match wants.any(&["TR1"]) {
                    true => self.halves(&details.offsets, &masters, deadline).await,
                    false => BTreeMap::new(),
                }
            },
        );
        details.running = running;
        details.oldest_unread = oldest;
        details.halves = halves;
        self.look_again(&mut snapshot, &mut details, &wants, deadline)
            .await;
        let findings = findings::findings_of(&snapshot, &details);
        Examined {
            snapshot,
            details,
            findings,
        }
    }

    /// What the controllers of broker sets say, where the brokers have some.
    async fn controllers(
        &self,
        snapshot: &Snapshot,
        deadline: Deadline,
    ) -> BTreeMap<String, Result<ControllerView, String>> {
        let mut sets: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for broker in &snapshot.brokers {
            let Some(config) = broker.config.fresh() else {
                continue;
            };
            let text = |key: &str| config.entries.get(key).map_or("", String::as_str);
            if text("enableControllerMode") == "true" {
                let addrs = text("controllerAddr").split(';').map(str::trim);
                let addrs = addrs.filter(|a| !a.is_empty()).map(str::to_owned);
                sets.insert(broker.broker.name.clone(), addrs.collect());
            }
        }
        self.each(sets.into_iter().collect(), |(name, addrs)| async move {
            let mut view = Err("controllerAddr names none".to_owned());
            for addr in &addrs {
                view = self
                    .controller_view(addr, &name, deadline.at_most(QUESTION))
                    .await
                    .map_err(|e| e.reason());
                if view.is_ok() {
                    break;
                }
            }
            (name, view)
        })
        .await
        .into_iter()
        .collect()
    }

    async fn controller_view(
        &self,
        addr: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<ControllerView, Error> {
        let told = self.controller_metadata(addr, deadline).await?;
        let Some(leader) = told.controller_leader_address.filter(|a| !a.is_empty()) else {
            return Ok(ControllerView::default());
        };
        let sets = self
            .sync_states(&Server::at(&leader), vec![name.to_owned()], deadline)
            .await?;
        let set = sets.replicas_info_table.get(name).cloned().unwrap_or_default();
        Ok(ControllerView {
            leader: Some(leader),
            master: set.master_broker_id,
            epoch: set.master_epoch.unwrap_or(0).into(),
            in_sync: set.in_sync_replicas.len(),
            out_of_sync: set
                .not_in_sync_replicas
                .iter()
                .map(|r| r.broker_address.clone().unwrap_or_default())
                .collect(),
        })
    }

    async fn orders(
        &self,
        snapshot: &Snapshot,
        wanted: bool,
        deadline: Deadline,
    ) -> BTreeMap<String, BTreeMap<String, String>> {
        let answers = self
            .each(answering(snapshot, wanted), |addr| async move {
                let deadline = deadline.at_most(QUESTION);
                let answer = self.kv_list(&addr, ORDER_NAMESPACE, deadline).await;
                (addr, answer)
            })
            .await;
        answers
            .into_iter()
            .filter_map(|(addr, answer)| Some((addr, answer.ok()?.unwrap_or_default())))
            .collect()
    }

    /// Broker tables of name servers that brokers name and we do not.
    async fn other_name_servers(
        &self,
        snapshot: &Snapshot,
        wanted: bool,
        deadline: Deadline,
    ) -> BTreeMap<String, Result<ClusterTable, String>> {
        let named: BTreeSet<String> = snapshot
            .brokers
            .iter()
            .filter(|_| wanted)
            .filter_map(|b| b.config.fresh())
            .flat_map(|c| c.name_servers.iter().cloned())
            .filter(|addr| !snapshot.name_servers.iter().any(|s| s.addr == *addr))
            .collect();
        self.each(named.into_iter().collect(), |addr| async move {
            let header = GetBrokerClusterInfo::default();
            let deadline = deadline.at_most(ALIVE);
            let answer = self.call(&Server::at(&addr), &header, (), deadline).await;
            let table = answer
                .map(|(_, info)| cluster_table(&info.value))
                .map_err(|e| e.reason());
            (addr, table)
        })
        .await
        .into_iter()
        .collect()
    }

    /// Routes of all topics, or of some, at every answering name server.
    async fn routes(
        &self,
        snapshot: &Snapshot,
        only: Option<&BTreeSet<String>>,
        deadline: Deadline,
    ) -> BTreeMap<String, BTreeMap<String, Option<TopicRouteData>>> {
        let mut topics: BTreeSet<String> = snapshot
            .topics
            .iter()
            .filter(|t| t.kind == TopicKind::User)
            .map(|t| t.name.clone())
            .collect();
        // What only a name server knows is a difference, too; built-in topics are not routed by all.
        let servers: BTreeSet<String> = snapshot
            .brokers
            .iter()
            .flat_map(|b| [b.broker.name.clone(), b.broker.cluster.clone()])
            .collect();
        let listed = snapshot
            .name_servers
            .iter()
            .filter_map(|s| s.topics.fresh())
            .flatten();
        topics.extend(listed.filter(|t| kind(t, &servers) == TopicKind::User).cloned());
        let addrs = answering(snapshot, true);
        let questions: Vec<(String, String)> = topics
            .into_iter()
            .filter(|t| only.is_none_or(|only| only.contains(t)))
            .flat_map(|topic| addrs.iter().map(move |addr| (topic.clone(), addr.clone())))
            .collect();
        let answers = self
            .each(questions, |(topic, addr)| async move {
                let header = GetRouteinfoByTopic {
                    topic: topic.clone(),
                    ..GetRouteinfoByTopic::default()
                };
                let deadline = deadline.at_most(QUESTION);
                let route = match self.call(&Server::at(&addr), &header, (), deadline).await {
                    Ok((_, route)) => Some(Some(route.value)),
                    Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Some(None),
                    Err(_) => None,
                };
                (topic, addr, route)
            })
            .await;
        let mut out: BTreeMap<String, BTreeMap<String, Option<TopicRouteData>>> = BTreeMap::new();
        for (topic, addr, route) in answers {
            if let Some(route) = route {
                out.entry(topic).or_default().insert(addr, route);
            }
        }
        out
    }

    async fn stats(
        &self,
        snapshot: &Snapshot,
        masters: &[BrokerAt],
        deadline: Deadline,
    ) -> (BTreeMap<String, BTreeMap<BrokerId, TopicStatsTable>>, Vec<Missed>) {
        let questions: Vec<(String, BrokerAt)> = snapshot
            .topics
            .iter()
            .filter(|t| t.kind == TopicKind::User || t.name.starts_with(DLQ_PREFIX))
            .flat_map(|t| {
                masters
                    .iter()
                    .filter(|m| t.brokers.iter().any(|b| b.broker == m.id))
                    .map(|m| (t.name.clone(), m.clone()))
            })
            .collect();
        let answers = self
            .each(questions, |(topic, broker)| async move {
                let server = broker.server();
                let answer = self
                    .topic_stats(&server, &topic, deadline.at_most(QUESTION))
                    .await;
                (topic, broker.id, server, answer)
            })
            .await;
        let (mut out, mut missed) = (BTreeMap::<String, BTreeMap<_, _>>::new(), Vec::new());
        for (topic, id, server, answer) in answers {
            match answer {
                Ok(stats) => {
                    out.entry(topic).or_default().insert(id, stats);
                }
                // Deleted meanwhile.
                Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => {}
                Err(e) => miss(&mut missed, &server, "GET_TOPIC_STATS_INFO", &e),
            }
        }
        (out, missed)
    }

    async fn groups(&self, masters: &[BrokerAt], with_clients: bool, deadline: Deadline) -> Groups {
        let answers = self
            .each(masters.to_vec(), |broker| async move {
                let server = broker.server();
                let limit = || deadline.at_most(QUESTION);
                let (configs, offsets, lag) = tokio::join!(
                    self.broker_groups(&server, limit()),
                    self.call(&server, &GetAllConsumerOffset, (), limit()),
                    self.look_lag(&server, limit()),
                );
                (broker.id, server, configs, offsets, lag)
            })
            .await;
        let mut out = Groups::default();
        let mut names = BTreeSet::new();
        for (id, server, configs, offsets, lag) in answers {
            match configs {
                Ok(table) => {
                    names.extend(table.subscription_group_table.keys().cloned());
                    out.configs.insert(id.clone(), table.subscription_group_table);
                }
                Err(e) => miss(&mut out.missed, &server, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", &e),
            }
            match offsets {
                Ok((_, body)) => {
                    let offsets = offsets_of(body.value.offset_table);
                    names.extend(offsets.keys().map(|(group, _)| group.clone()));
                    out.offsets.insert(id, offsets);
                }
                Err(e) => miss(&mut out.missed, &server, "GET_ALL_CONSUMER_OFFSET", &e),
            }
            if let Err(e) = &lag {
                miss(&mut out.missed, &server, "GET_BROKER_CONSUME_STATS", e);
            }
            out.lag.push(lag.map_err(|e| e.reason()));
        }
        if !with_clients {
            return out;
        }
        let questions: Vec<(String, BrokerAt)> = names
            .into_iter()
            .filter(|name| !is_system(name))
            .flat_map(|name| masters.iter().map(move |m| (name.clone(), m.clone())))
            .collect();
        let answers = self
            .each(questions, |(group, broker)| async move {
                let server = broker.server();
                let answer = self
                    .group_clients(&server, &group, deadline.at_most(QUESTION))
                    .await;
                (group, broker.id, server, answer)
            })
            .await;
        for (group, id, server, answer) in answers {
            match answer {
                Ok(Some(connection)) if !connection.connection_set.is_empty() => {
                    out.connections.entry(group).or_default().insert(id, connection);
                }
                Ok(_) => {}
                Err(e) => miss(&mut out.missed, &server, "GET_CONSUMER_CONNECTION_LIST", &e),
            }
        }
        out
    }

    /// The inside of each client, through a broker that it is connected to.
    async fn running(
        &self,
        connections: &BTreeMap<String, BTreeMap<BrokerId, ConsumerConnection>>,
        masters: &[BrokerAt],
        deadline: Deadline,
    ) -> BTreeMap<String, BTreeMap<String, Result<ConsumerRunningInfo, String>>> {
        let mut questions: BTreeMap<(&String, &String), Vec<Server>> = BTreeMap::new();
        for (group, by_broker) in connections {
            for (id, connection) in by_broker {
                let Some(broker) = masters.iter().find(|m| m.id == *id) else {
                    continue;
                };
                for client in &connection.connection_set {
                    questions
                        .entry((group, &client.client_id))
                        .or_default()
                        .push(broker.server());
                }
            }
        }
        let answers = self
            .each(
                questions.into_iter().collect(),
                |((group, client), brokers)| async move {
                    let mut last = Err("no broker to ask".to_owned());
                    for broker in &brokers {
                        let deadline = deadline.at_most(CLIENT);
                        last = self
                            .running_info(broker, group, client, deadline)
                            .await
                            .map_err(|e| e.reason());
                        if last.is_ok() {
                            break;
                        }
                    }
                    (group, client, last)
                },
            )
            .await;
        let mut out: BTreeMap<String, BTreeMap<String, Result<_, String>>> = BTreeMap::new();
        for (group, client, info) in answers {
            out.entry(group.clone()).or_default().insert(client.clone(), info);
        }
        out
    }

    /// Store times of first unread messages, where they may be old.
    async fn unread_since(
        &self,
        snapshot: &Snapshot,
        masters: &[BrokerAt],
        deadline: Deadline,
    ) -> BTreeMap<(String, String, String, i32), i64> {
        let mut rows: Vec<_> = snapshot
            .groups
            .iter()
            .filter(|g| !is_system(&g.name))
            .flat_map(|g| g.lag.get().into_iter().flatten())
            .filter(|row| row.lag().unwrap_or(0) > 0)
            .filter(|row| {
                row.last_consumed_ms
                    .is_none_or(|at| snapshot.taken_at_ms.saturating_sub(at) > YOUNG_MS)
            })
            .collect();
        // The longest untouched ones first, when there are too many.
        rows.sort_by_key(|row| row.last_consumed_ms.unwrap_or(0));
        rows.truncate(OLDEST);
        let questions: Vec<_> = rows
            .into_iter()
            .filter_map(|row| Some((row, masters.iter().find(|m| m.id.name == row.broker)?.server())))
            .collect();
        let answers = self
            .each(questions, |(row, server)| async move {
                let offset = row.committed.unwrap_or(0);
                let deadline = deadline.at_most(QUESTION);
                let stored = self
                    .first_stored(&server, &row.topic, row.queue, offset, deadline)
                    .await
                    .ok()
                    .flatten()?;
                let key = (
                    row.group.clone(),
                    row.topic.clone(),
                    row.broker.clone(),
                    row.queue,
                );
                Some((key, stored))
            })
            .await;
        answers.into_iter().flatten().collect()
    }

    /// Puts the stranded queues to their topics.
    async fn strand(
        &self,
        snapshot: &mut Snapshot,
        offsets: &BTreeMap<BrokerId, Offsets>,
        masters: &[BrokerAt],
        deadline: Deadline,
    ) {
        let questions: Vec<_> = masters
            .iter()
            .filter_map(|m| {
                let on = |t: &TopicState| t.brokers.iter().find(|b| b.broker == m.id).map(|b| b.read_queues);
                let read = snapshot.topics.iter();
                let read: BTreeMap<String, i32> =
                    read.filter_map(|t| Some((t.name.clone(), on(t)?))).collect();
                Some((m.clone(), offsets.get(&m.id)?, read))
            })
            .collect();
        let answers = self
            .each(questions, |(broker, offsets, read)| async move {
                let deadline = deadline.at_most(QUESTION);
                let ends = (&Ends::default(), STRANDED);
                let found = self
                    .stranded(&broker.server(), offsets, &read, ends, deadline)
                    .await;
                (broker.id, found)
            })
            .await;
        for (id, mut found) in answers {
            for topic in &mut snapshot.topics {
                let on = topic.brokers.iter_mut().find(|b| b.broker == id);
                if let (Some(on), Some(queues)) = (on, found.remove(&topic.name)) {
                    on.stranded = queues;
                }
            }
        }
    }

    /// The first half messages that are not decided, on each broker that has some.
    async fn halves(
        &self,
        offsets: &BTreeMap<BrokerId, Offsets>,
        masters: &[BrokerAt],
        deadline: Deadline,
    ) -> BTreeMap<BrokerId, Vec<Half>> {
        let key = (HALF_GROUP.to_owned(), HALF_TOPIC.to_owned());
        let questions: Vec<(BrokerAt, i64)> = masters
            .iter()
            .filter_map(|m| {
                // A broker that has looked at none yet has no position there.
                let at = offsets.get(&m.id)?.get(&key).and_then(|queues| queues.get(&0));
                Some((m.clone(), at.copied().unwrap_or(0)))
            })
            .collect();
        let answers = self
            .each(questions, |(broker, offset)| async move {
                let pull = Pull {
                    topic: HALF_TOPIC,
                    queue: 0,
                    offset,
                    most: 32,
                    tags: "*",
                    hold: None,
                };
                let deadline = deadline.at_most(QUESTION);
                let pulled = self.pull(&broker.server(), &pull, deadline).await;
                let messages = pulled.map(|p| p.messages).unwrap_or_default();
                let halves = messages
                    .iter()
                    .map(|m| Half {
                        group: m.property(names::PGROUP).unwrap_or_default().to_owned(),
                        topic: m.property(names::REAL_TOPIC).unwrap_or_default().to_owned(),
                        born_ms: m.born_ms,
                        checks: m
                            .property(names::TRANSACTION_CHECK_TIMES)
                            .and_then(|v| v.parse().ok())
                            .unwrap_or(0),
                    })
                    .collect();
                (broker.id, halves)
            })
            .await;
        answers.into_iter().collect()
    }

    /// Looks a second time where the first look may have met a change under way, or where only a movement tells.
    async fn look_again(
        &self,
        snapshot: &mut Snapshot,
        details: &mut Details,
        wants: &Wants<'_>,
        deadline: Deadline,
    ) {
        let tables_differ = wants.any(&["NS2"])
            && snapshot.brokers.iter().any(|b| {
                let told = || b.registrations.iter().filter_map(|r| r.listed);
                told().any(|listed| listed) && told().any(|listed| !listed)
            });
        let differing: BTreeSet<String> = details
            .routes
            .iter()
            .filter(|(_, by_server)| wants.any(&["NS3"]) && difference(by_server).is_some())
            .map(|(topic, _)| topic.clone())
            .collect();
        let moving: Vec<BrokerAt> = snapshot
            .brokers
            .iter()
            .filter(|b| {
                let slaves =
                    b.ha.fresh()
                        .is_some_and(|ha| ha.slaves.iter().any(|s| s.behind_bytes > 0));
                let congested = b.runtime.fresh().is_some_and(|info| {
                    let number = info
                        .entries
                        .get("timerCongestNum")
                        .and_then(|v| v.parse::<i64>().ok());
                    number.unwrap_or(0) > 0
                });
                (wants.any(&["HA1"]) && slaves) || (wants.any(&["TM1"]) && congested)
            })
            .map(|b| BrokerAt {
                id: b.broker.clone(),
                addr: b.addr.clone(),
            })
            .collect();
        if !tables_differ && differing.is_empty() && moving.is_empty() {
            return;
        }
        tokio::time::sleep(SECOND_LOOK.min(deadline.left())).await;
        let (tables, routes, later) = tokio::join!(
            async {
                let addrs = if tables_differ {
                    answering(snapshot, true)
                } else {
                    Vec::new()
                };
                self.each(addrs, |addr| async move {
                    let table = self.look_cluster(&addr, deadline.at_most(ALIVE)).await;
                    (addr, table)
                })
                .await
            },
            async {
                match differing.is_empty() {
                    true => BTreeMap::new(),
                    false => self.routes(snapshot, Some(&differing), deadline).await,
                }
            },
            self.each(moving, |broker| async move {
                let server = broker.server();
                let deadline = deadline.at_most(QUESTION);
                let (runtime, ha) = tokio::join!(self.broker_runtime(&server, deadline), async {
                    match broker.id.is_master() {
                        true => self.broker_ha(&server, deadline).await.ok(),
                        false => None,
                    }
                });
                let later = Later {
                    runtime: runtime.ok(),
                    ha,
                };
                (broker.id, later)
            }),
        );
        for (addr, table) in tables {
            if let Ok((table, _)) = table
                && let Some(server) = snapshot.name_servers.iter_mut().find(|s| s.addr == addr)
            {
                server.cluster.value = Some(table);
                server.cluster.as_of_ms = now_ms();
            }
        }
        if tables_differ {
            let now = now_ms();
            let servers = &snapshot.name_servers;
            for broker in &mut snapshot.brokers {
                broker.registrations = liveness::registrations(servers, broker, now);
            }
        }
        details.routes.extend(routes);
        details.later.extend(later);
    }
}

/// Everything of groups.
#[derive(Default)]
struct Groups {
    configs: BTreeMap<BrokerId, BTreeMap<String, SubscriptionGroupConfig>>,
    offsets: BTreeMap<BrokerId, Offsets>,
    lag: Vec<Result<Vec<GroupLag>, String>>,
    connections: BTreeMap<String, BTreeMap<BrokerId, ConsumerConnection>>,
    missed: Vec<Missed>,
}

/// Whether the clients of groups are asked for.
fn with_clients(wants: &Wants<'_>) -> bool {
    wants.any(&["BR5", "TP3", "GR1", "GR2", "GR3", "GR4", "GR5", "GR7"])
}

fn answering(snapshot: &Snapshot, wanted: bool) -> Vec<String> {
    snapshot
        .name_servers
        .iter()
        .filter(|s| wanted && s.is_up())
        .map(|s| s.addr.clone())
        .collect()
}

/// One entry a server and question, however often it was asked.
fn miss(missed: &mut Vec<Missed>, server: &Server, what: &'static str, error: &Error) {
    let server = server.to_string();
    if !missed.iter().any(|m| m.server == server && m.what == what) {
        missed.push(Missed {
            server,
            what,
            why: error.reason(),
        });
    }
}
