//! Backlog of groups over brokers: positions, clients, owners of queues, age of the oldest unread message.
//!
//! Ends and positions of a queue come from one answer of its master. A broker that fails is told and does not hide
//! what the others said.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::admin::cluster::BrokerAt;
use super::admin::group::{BrokerLag, KnownGroups};
use super::admin::message::Pull;
use super::error::{Error, Server};
use super::produce::now_ms;
use super::snapshot::GroupLag;
use super::static_topic::mapping::LOGICAL_PREFIX;
use super::static_topic::offsets::Logical;
use super::{Client, Deadline};
use crate::protocol::body::{
    ConsumerConnection, ConsumerRunningInfo, MessageModel, TopicConfig, TopicConfigTable,
    TopicQueueMappingDetail,
};
use crate::protocol::model::{DLQ_PREFIX, MessageQueue, RETRY_PREFIX};
use crate::protocol::requests::GetConsumerRunningInfo;

/// Longest wait for what one client says about itself.
const CLIENT_LIMIT: Duration = Duration::from_secs(2);

/// Whether and how a group consumes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// Clients share the queues.
    Clustering,
    /// Every client reads everything; positions are on the clients.
    Broadcasting,
    /// No client is connected.
    Offline,
}

impl GroupKind {
    /// The word for listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Clustering => "online",
            Self::Broadcasting => "broadcast",
            Self::Offline => "offline",
        }
    }
}

/// Who reads which queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Owners {
    /// Client ids by queue.
    pub by_queue: BTreeMap<MessageQueue, BTreeSet<String>>,
    /// Clients that did not say.
    pub silent: BTreeSet<String>,
}

impl Owners {
    /// The client that reads a queue; `None` when none says so.
    pub fn of(&self, topic: &str, broker: &str, queue: i32) -> Option<String> {
        let key = MessageQueue {
            topic: topic.to_owned(),
            broker_name: broker.to_owned(),
            queue_id: queue,
        };
        let clients = self.by_queue.get(&key)?;
        Some(clients.iter().cloned().collect::<Vec<_>>().join(","))
    }
}

/// One group over all asked brokers.
#[derive(Debug, Clone, Default)]
pub struct Backlog {
    /// Its positions.
    pub queues: Vec<GroupLag>,
    /// Messages a second consumed, as the brokers count them.
    pub tps: f64,
    /// Its clients as the last broker with any listed them.
    pub connection: Option<ConsumerConnection>,
    /// Client id to a broker that it is connected to.
    pub clients: BTreeMap<String, Server>,
    /// Who reads which queue, where asked.
    pub owners: Option<Owners>,
    /// Topics and brokers where it has positions that count nowhere: its clients do not subscribe to the topic, and
    /// brokers leave such topics out.
    pub left_out: BTreeSet<(String, String)>,
}

impl Backlog {
    /// Whether and how it consumes.
    pub fn kind(&self) -> GroupKind {
        if self.clients.is_empty() {
            GroupKind::Offline
        } else if self
            .connection
            .as_ref()
            .is_some_and(|c| c.message_model == MessageModel::Broadcasting)
        {
            GroupKind::Broadcasting
        } else {
            GroupKind::Clustering
        }
    }

    /// True when the server's positions mean nothing.
    pub fn is_broadcast(&self) -> bool {
        self.kind() == GroupKind::Broadcasting
    }

    /// Sum over `queues` of what is known; `None` when nothing is, or the numbers mean nothing. Never negative.
    pub fn lag_of<'a>(&self, queues: impl IntoIterator<Item = &'a GroupLag>) -> Option<i64> {
        if self.is_broadcast() {
            return None;
        }
        queues
            .into_iter()
            .filter_map(GroupLag::lag)
            .reduce(i64::saturating_add)
    }

    /// Backlog in all its queues.
    pub fn lag(&self) -> Option<i64> {
        self.lag_of(&self.queues)
    }

    /// Queues that nobody reads; `None` when that was not asked, or a client did not say.
    pub fn unowned(&self) -> Option<usize> {
        let owners = self.owners.as_ref().filter(|o| o.silent.is_empty())?;
        let subscribed = |topic: &str| {
            self.connection
                .as_ref()
                .is_none_or(|c| c.subscription_table.contains_key(topic))
        };
        Some(
            self.queues
                .iter()
                .filter(|q| subscribed(&q.topic))
                .filter(|q| owners.of(&q.topic, &q.broker, q.queue).is_none())
                .count(),
        )
    }

    fn add_clients(&mut self, broker: &Server, connection: ConsumerConnection) {
        for one in &connection.connection_set {
            self.clients
                .entry(one.client_id.clone())
                .or_insert_with(|| broker.clone());
        }
        self.connection = Some(connection);
    }
}

/// Groups by name, and what failed.
#[derive(Debug, Default)]
pub struct Backlogs {
    /// The groups.
    pub groups: BTreeMap<String, Backlog>,
    /// Brokers that failed, once each.
    pub failed: Vec<(Server, Error)>,
}

impl Backlogs {
    fn fail(&mut self, server: &Server, error: Error) {
        if self.failed.iter().all(|(known, _)| known != server) {
            self.failed.push((server.clone(), error));
        }
    }
}

/// A group's topic that a broker's list of all groups (317) does not tell in full.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Gap {
    group: String,
    topic: String,
    broker: String,
    server: Server,
}

/// What a list of all groups leaves out: groups without a configuration, queues that are read and not written, topics
/// that an online group does not subscribe to; and where nothing is left out, but wrong: positions in static topics (`fixed`).
/// A topic that is gone leaves no gap.
fn gaps(
    broker: &str,
    server: &Server,
    list: &BTreeMap<String, BrokerLag>,
    topics: &BTreeMap<String, TopicConfig>,
    fixed: &BTreeMap<String, Logical>,
    known: &KnownGroups,
) -> Vec<Gap> {
    let mut told: BTreeMap<(&str, &str), BTreeSet<i32>> = BTreeMap::new();
    for (group, lag) in list {
        for row in &lag.queues {
            told.entry((group, &row.topic)).or_default().insert(row.queue);
        }
    }
    let mut gaps = Vec::new();
    for (group, at) in &known.groups {
        for topic in at.offsets.get(broker).into_iter().flatten() {
            let Some(config) = topics.get(topic) else { continue };
            let queues = told.get(&(group.as_str(), topic.as_str()));
            let complete = |queues: &BTreeSet<i32>| (0..config.read_queue_nums).all(|q| queues.contains(&q));
            // Such a list has 0 for a position that is not there, which in a static topic hides the one that counts.
            if fixed.contains_key(topic) || !queues.is_some_and(complete) {
                gaps.push(Gap {
                    group: group.clone(),
                    topic: topic.clone(),
                    broker: broker.to_owned(),
                    server: server.clone(),
                });
            }
        }
    }
    gaps
}

/// The static topics of some brokers' tables.
fn mapped<'a>(tables: impl Iterator<Item = &'a TopicConfigTable>) -> BTreeMap<String, Logical> {
    let mut details: BTreeMap<&str, Vec<&TopicQueueMappingDetail>> = BTreeMap::new();
    for (topic, detail) in tables
        .filter_map(|t| t.topic_queue_mapping_detail_map.as_ref())
        .flatten()
    {
        details.entry(topic).or_default().push(detail);
    }
    details
        .into_iter()
        .filter_map(|(topic, details)| Some((topic.to_owned(), Logical::of(details.into_iter())?)))
        .collect()
}

/// Rows of static topics as clients see them. Where not every broker of such a topic was asked its rows stay physical: a
/// part of a queue has no backlog of its own.
fn make_logical(found: &mut Backlogs, fixed: &BTreeMap<String, Logical>, brokers: &[BrokerAt]) {
    let asked: BTreeSet<&str> = brokers.iter().map(|b| b.id.name.as_str()).collect();
    for (topic, logical) in fixed.iter().filter(|(_, l)| l.brokers().is_subset(&asked)) {
        for backlog in found.groups.values_mut() {
            let all = std::mem::take(&mut backlog.queues);
            let (rows, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|row| row.topic == *topic);
            backlog.queues = others;
            if !rows.is_empty() {
                backlog.queues.extend(logical.lag(rows));
            }
        }
    }
}

/// The message of a group that has been waiting longest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Broker name.
    pub broker: String,
    /// When it was stored, by the broker's clock, epoch ms.
    pub stored_ms: i64,
    /// False when another one may have been waiting longer.
    pub sure: bool,
}

/// The message that has been waiting longest, found by at most `most` reads of a queue's first unread one.
async fn longest<'a>(
    rows: &'a [GroupLag],
    most: usize,
    read: impl Fn(&'a GroupLag) -> BoxFuture<'a, Option<i64>>,
) -> Option<Waiting> {
    let mut lagging: Vec<&GroupLag> = rows
        .iter()
        .filter(|row| row.lag().is_some_and(|lag| lag > 0))
        .collect();
    lagging.sort_by_key(|row| row.last_consumed_ms.unwrap_or(0));
    let mut found: Option<Waiting> = None;
    let mut sure = true;
    for (i, row) in lagging.into_iter().enumerate() {
        let oldest = found.as_ref().map_or(i64::MAX, |f| f.stored_ms);
        if row.last_consumed_ms.is_some_and(|at| at >= oldest) {
            break;
        }
        if i == most {
            sure = false;
            break;
        }
        match read(row).await {
            Some(stored_ms) if stored_ms < oldest => {
                let broker = row.broker.clone();
                found = Some(Waiting {
                    broker,
                    stored_ms,
                    sure: true,
                });
            }
            Some(_) => {}
            None => sure = false,
        }
    }
    found.map(|found| Waiting { sure, ..found })
}

/// A position in a queue.
pub type Place = (String, String, i32, i64);

/// The place of a group's next message; `None` when it has none stored.
pub fn place(row: &GroupLag) -> Option<Place> {
    Some((row.topic.clone(), row.broker.clone(), row.queue, row.committed?))
}

impl Client {
    /// Backlog of the named groups: one question for positions and one for clients to each broker.
    pub async fn named_backlogs(
        &self,
        groups: &[String],
        topic: Option<&str>,
        brokers: &[BrokerAt],
    ) -> Backlogs {
        let targets: Vec<(String, BrokerAt)> = groups
            .iter()
            .flat_map(|group| brokers.iter().map(move |b| (group.clone(), b.clone())))
            .collect();
        let answers = self
            .each(targets, |(group, broker)| async move {
                let (server, deadline) = (broker.server(), self.deadline());
                let (lag, clients) = tokio::join!(
                    self.group_lag(&server, &group, topic, deadline),
                    self.group_clients(&server, &group, deadline)
                );
                (group, server, lag, clients)
            })
            .await;
        let mut found = Backlogs::default();
        let mut unasked = Vec::new();
        for (group, server, lag, clients) in answers {
            let backlog = found.groups.entry(group).or_default();
            match clients {
                Ok(Some(connection)) => backlog.add_clients(&server, connection),
                Ok(None) => {}
                // Without that answer an online group looks offline.
                Err(e) => unasked.push((server.clone(), e)),
            }
            match lag {
                Ok(lag) => {
                    backlog.queues.extend(lag.queues);
                    backlog.tps += lag.consume_tps;
                }
                Err(e) => found.fail(&server, e),
            }
        }
        for (server, e) in unasked {
            found.fail(&server, e);
        }
        let fixed = self.static_topics_of(&mut found).await;
        make_logical(&mut found, &fixed, brokers);
        found
    }

    /// Takes away the positions that brokers make up: asked for one topic they tell 0 for each queue in which a group has none.
    /// Those queues are asked for one by one. A broker that does not answer keeps its rows, and is among the failed.
    pub async fn unposition(&self, found: &mut Backlogs, topic: &str, brokers: &[BrokerAt]) {
        let servers: BTreeMap<&str, Server> =
            brokers.iter().map(|b| (b.id.name.as_str(), b.server())).collect();
        let mut asked = Vec::new();
        for (group, backlog) in &found.groups {
            for (at, row) in backlog.queues.iter().enumerate() {
                if let Some(server) = servers.get(row.broker.as_str())
                    && row.topic == topic
                    && row.committed == Some(0)
                {
                    asked.push((group.clone(), at, server.clone(), row.queue));
                }
            }
        }
        let answers = self
            .each(asked, |(group, at, server, queue)| async move {
                let deadline = self.deadline();
                let committed = self.committed(&server, &group, topic, queue, deadline).await;
                (group, at, server, committed)
            })
            .await;
        for (group, at, server, committed) in answers {
            match committed {
                Ok(committed) => {
                    let backlog = found.groups.get_mut(&group);
                    if let Some(row) = backlog.and_then(|backlog| backlog.queues.get_mut(at)) {
                        row.committed = committed;
                    }
                }
                Err(e) => found.fail(&server, e),
            }
        }
    }

    /// The static topics among those that groups have positions in: one question a topic for its route.
    async fn static_topics_of(&self, found: &mut Backlogs) -> BTreeMap<String, Logical> {
        let own = |topic: &str| topic.starts_with(RETRY_PREFIX) || topic.starts_with(DLQ_PREFIX);
        let topics: BTreeSet<String> = found
            .groups
            .values()
            .flat_map(|backlog| &backlog.queues)
            .map(|row| row.topic.clone())
            .filter(|topic| !own(topic))
            .collect();
        let answers = self
            .each(topics.into_iter().collect(), |topic| async move {
                let (logical, failed) = match self.kept_route(&topic).await {
                    Ok(Some(route)) => self.logical(&topic, &route).await,
                    // Nobody routes to it: its queues are what its brokers say. A name server that fails is told elsewhere.
                    Ok(None) | Err(_) => (None, Vec::new()),
                };
                (topic, logical, failed)
            })
            .await;
        let mut fixed = BTreeMap::new();
        for (topic, logical, failed) in answers {
            for (broker, e) in failed {
                found.fail(&broker.server(), e);
            }
            fixed.extend(logical.map(|logical| (topic, logical)));
        }
        fixed
    }

    /// Backlog of every group: four requests a broker, and one a group for its clients (more only where the first
    /// broker knows of none). Where a broker's list of all groups has gaps, one a group and topic closes them.
    pub async fn all_backlogs(&self, topic: Option<&str>, brokers: &[BrokerAt]) -> Backlogs {
        let deadline = self.deadline();
        let (answers, known) = tokio::join!(
            self.each(brokers.to_vec(), |broker| async move {
                let server = broker.server();
                let (lag, topics) = tokio::join!(
                    self.broker_lag(&server, deadline),
                    self.broker_topics(&server, deadline)
                );
                Ok::<_, Error>((lag?, topics?))
            }),
            self.known_groups(brokers)
        );
        let fixed = mapped(answers.iter().flatten().map(|(_, topics)| topics));
        let gaps: Vec<Gap> = answers
            .iter()
            .zip(brokers)
            .filter_map(|(answer, broker)| Some((answer.as_ref().ok()?, broker)))
            .flat_map(|((lag, topics), broker)| {
                let topics = &topics.topic_config_table;
                gaps(&broker.id.name, &broker.server(), lag, topics, &fixed, &known)
            })
            .filter(|gap| topic.is_none_or(|t| t == gap.topic))
            .collect();
        let mut found = Backlogs::default();
        // A broker that does not tell its groups hides gaps.
        for (server, e) in known.failed {
            found.fail(&server, e);
        }
        let mut homes: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (name, group) in known.groups {
            found.groups.entry(name.clone()).or_default();
            let home = homes.entry(name).or_default();
            for (at, broker) in brokers.iter().enumerate() {
                let name = &broker.id.name;
                if group.configs.contains_key(name) || group.offsets.contains_key(name) {
                    home.insert(at);
                }
            }
        }
        let mut alive = BTreeSet::new();
        for (at, (answer, broker)) in answers.into_iter().zip(brokers).enumerate() {
            match answer {
                Ok((by_group, _)) => {
                    alive.insert(at);
                    for (group, lag) in by_group {
                        homes.entry(group.clone()).or_default().insert(at);
                        let backlog = found.groups.entry(group).or_default();
                        backlog.tps += lag.consume_tps;
                        let wanted = |q: &GroupLag| topic.is_none_or(|t| t == q.topic);
                        backlog.queues.extend(lag.queues.into_iter().filter(wanted));
                    }
                }
                Err(e) => found.fail(&broker.server(), e),
            }
        }
        self.close_gaps(gaps, &mut found).await;
        make_logical(&mut found, &fixed, brokers);
        let targets: Vec<(String, Vec<Server>)> = homes
            .into_iter()
            .map(|(group, home)| {
                let home = home.intersection(&alive).map(|&at| brokers[at].server());
                (group, home.collect())
            })
            .collect();
        let connections = self
            .each(targets, |(group, home)| async move {
                let mut failed = Vec::new();
                for broker in home {
                    match self.group_clients(&broker, &group, self.deadline()).await {
                        Ok(Some(connection)) => return (Some((group, broker, connection)), failed),
                        Ok(None) => {}
                        Err(e) => failed.push((broker, e)),
                    }
                }
                (None, failed)
            })
            .await;
        for (connection, failed) in connections {
            if let Some((group, broker, connection)) = connection {
                found
                    .groups
                    .entry(group)
                    .or_default()
                    .add_clients(&broker, connection);
            }
            for (broker, e) in failed {
                found.fail(&broker, e);
            }
        }
        found
    }

    /// Asks for what the lists of all groups left out.
    async fn close_gaps(&self, gaps: Vec<Gap>, found: &mut Backlogs) {
        let answers = self
            .each(gaps, |gap| async move {
                let lag = self
                    .group_lag(&gap.server, &gap.group, Some(&gap.topic), self.deadline())
                    .await;
                (gap, lag)
            })
            .await;
        for (gap, lag) in answers {
            let lag = match lag {
                Ok(lag) => lag,
                Err(e) => {
                    found.fail(&gap.server, e);
                    continue;
                }
            };
            let backlog = found.groups.entry(gap.group).or_default();
            if lag.queues.is_empty() {
                backlog.left_out.insert((gap.topic, gap.broker));
                continue;
            }
            // One answer's numbers belong together: they replace those of the list.
            backlog
                .queues
                .retain(|row| row.topic != gap.topic || row.broker != gap.broker);
            backlog.queues.extend(lag.queues);
        }
    }

    /// Who reads which queue of a group: one question a client, through the broker that it is connected to.
    pub async fn queue_owners(&self, group: &str, clients: &BTreeMap<String, Server>) -> Owners {
        let targets: Vec<(&String, &Server)> = clients.iter().collect();
        let answers = self
            .each(targets, |(client, broker)| async move {
                let limit = Deadline::after(self.timeout().min(CLIENT_LIMIT));
                (client, self.running_info(broker, group, client, limit).await)
            })
            .await;
        let mut owners = Owners::default();
        for (client, answer) in answers {
            match answer {
                Ok(info) => {
                    let pulled = info.mq_table.iter().filter(|(_, at)| !at.droped).map(|(q, _)| q);
                    let popped = info
                        .mq_pop_table
                        .iter()
                        .filter(|(_, at)| !at.droped)
                        .map(|(q, _)| q);
                    for queue in pulled.chain(popped) {
                        owners
                            .by_queue
                            .entry(queue.clone())
                            .or_default()
                            .insert(client.clone());
                    }
                }
                Err(_) => {
                    owners.silent.insert(client.clone());
                }
            }
        }
        owners
    }

    /// What one client of a group says about itself, asked through a broker that it is connected to.
    pub async fn running_info(
        &self,
        broker: &Server,
        group: &str,
        client: &str,
        deadline: Deadline,
    ) -> Result<ConsumerRunningInfo, Error> {
        let header = GetConsumerRunningInfo {
            consumer_group: group.to_owned(),
            client_id: client.to_owned(),
            jstack_enable: false,
        };
        let (_, info) = self.call(broker, &header, (), deadline).await?;
        Ok(info.value)
    }

    /// Age of the first unread message of each lagging queue in `rows`. Where it stays unknown, why.
    pub async fn oldest_unread<'a>(
        &self,
        brokers: &[BrokerAt],
        rows: impl IntoIterator<Item = &'a GroupLag>,
    ) -> BTreeMap<Place, Result<Duration, String>> {
        let stored = self.first_unread(brokers, rows).await;
        let now = now_ms();
        let age = |stored: i64| u64::try_from(now.saturating_sub(stored)).unwrap_or(0);
        stored
            .into_iter()
            .map(|(place, stored)| (place, stored.map(|at| Duration::from_millis(age(at)))))
            .collect()
    }

    /// The message of a group that has been waiting longest, for at most `most` reads of one message each. A queue's
    /// first unread message is no older than the one that was consumed before it, so queues that are further on than
    /// the oldest found so far need not be asked.
    pub async fn longest_waiting(
        &self,
        brokers: &[BrokerAt],
        rows: &[GroupLag],
        most: usize,
    ) -> Option<Waiting> {
        let read = |row| -> BoxFuture<'_, Option<i64>> {
            Box::pin(async move {
                let stored = self.first_unread(brokers, [row]).await.into_values().next();
                stored?.ok()
            })
        };
        longest(rows, most, read).await
    }

    /// Store time of the first unread message of each lagging queue in `rows`, epoch ms: reads of one message that leave
    /// no trace. Where it stays unknown, why.
    pub async fn first_unread<'a>(
        &self,
        brokers: &[BrokerAt],
        rows: impl IntoIterator<Item = &'a GroupLag>,
    ) -> BTreeMap<Place, Result<i64, String>> {
        let places: BTreeSet<Place> = rows
            .into_iter()
            .filter(|row| row.lag().is_some_and(|lag| lag > 0))
            .filter_map(place)
            .collect();
        let stored = self
            .each(places.into_iter().collect(), |place| async move {
                let stored = self.stored_at(brokers, &place).await;
                (place, stored)
            })
            .await;
        stored.into_iter().collect()
    }

    async fn stored_at(&self, brokers: &[BrokerAt], place: &Place) -> Result<i64, String> {
        let (topic, name, queue, offset) = place;
        let broker = if name.starts_with(LOGICAL_PREFIX) {
            let leader = self.leader_of(topic, *queue).await.map_err(|e| e.reason())?;
            leader.ok_or("its queue has no leader")?
        } else {
            let broker = brokers.iter().find(|b| b.id.name == *name);
            broker.ok_or("its broker was not asked")?.server()
        };
        // A request's own limit: there may be thousands of queues.
        let first = self
            .first_stored(&broker, topic, *queue, *offset, self.deadline())
            .await
            .map_err(|e| e.reason())?;
        Ok(first.ok_or("there is no message at its position")?)
    }

    /// Store time (epoch ms) of the first message of a queue at or behind `offset` that is still there; `None` when
    /// none is.
    pub async fn first_stored(
        &self,
        broker: &Server,
        topic: &str,
        queue: i32,
        offset: i64,
        deadline: Deadline,
    ) -> Result<Option<i64>, Error> {
        let mut offset = offset;
        // The second look begins where the first one was sent on to.
        for _ in 0..2 {
            let pull = Pull {
                topic,
                queue,
                offset,
                most: 1,
                tags: "*",
                hold: None,
            };
            let pulled = self.pull(broker, &pull, deadline).await?;
            if let Some(message) = pulled.messages.first() {
                return Ok(Some(message.stored_ms));
            }
            if pulled.next <= offset {
                return Ok(None);
            }
            offset = pulled.next;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::admin::group::KnownGroup;
    use crate::protocol::body::Connection;

    fn row(max: i64, committed: Option<i64>) -> GroupLag {
        GroupLag {
            topic: "T".into(),
            broker: "b".into(),
            max,
            committed,
            ..GroupLag::default()
        }
    }

    /// By Java 5.3.3: the list goes by configured groups and written queues.
    #[test]
    fn what_a_list_of_all_groups_leaves_out_is_known() {
        let offsets = |topics: &[&str]| KnownGroup {
            offsets: [("b".to_owned(), topics.iter().map(|t| (*t).to_owned()).collect())].into(),
            ..KnownGroup::default()
        };
        let mut known = KnownGroups::default();
        known.groups.insert("G".into(), offsets(&["T", "WIDE", "GONE"]));
        known.groups.insert("BARE".into(), offsets(&["T"]));
        let config = |read: i32| TopicConfig {
            read_queue_nums: read,
            write_queue_nums: 1,
            ..TopicConfig::default()
        };
        let topics = [("T".to_owned(), config(1)), ("WIDE".to_owned(), config(2))].into();
        let of = |topic: &str| GroupLag {
            topic: topic.into(),
            ..row(10, Some(4))
        };
        let lag = BrokerLag {
            queues: vec![of("T"), of("WIDE")],
            ..BrokerLag::default()
        };
        let list = [("G".to_owned(), lag)].into();
        let found = |fixed: &[&str]| -> Vec<(String, String)> {
            let fixed = fixed
                .iter()
                .map(|t| ((*t).to_owned(), Logical::default()))
                .collect();
            gaps("b", &Server::at("127.0.0.1:1"), &list, &topics, &fixed, &known)
                .into_iter()
                .map(|gap| (gap.group, gap.topic))
                .collect()
        };
        let pair = |group: &str, topic: &str| (group.to_owned(), topic.to_owned());
        assert_eq!(found(&[]), [pair("BARE", "T"), pair("G", "WIDE")]);
        // Java's list has 0 for no position, which in a static topic is wrong.
        assert_eq!(
            found(&["T"]),
            [pair("BARE", "T"), pair("G", "T"), pair("G", "WIDE")]
        );
    }

    #[test]
    fn sums_are_of_what_is_known_and_never_negative() {
        let mut group = Backlog {
            queues: vec![row(10, Some(4)), row(10, Some(12)), row(10, None)],
            ..Backlog::default()
        };
        assert_eq!(group.lag(), Some(6));
        assert_eq!(group.kind(), GroupKind::Offline);
        group.queues.truncate(0);
        assert_eq!(group.lag(), None);
    }

    /// One message a second ago, after four quiet hours.
    #[tokio::test]
    async fn the_longest_waiting_message_is_not_the_last_consumed_one() {
        let now = 100_000_000;
        let at = |queue: i32, consumed_ago: i64, lag: i64| GroupLag {
            queue,
            last_consumed_ms: Some(now - consumed_ago),
            ..row(lag, Some(0))
        };
        let asked = std::sync::Mutex::new(Vec::new());
        let find = async |rows: &[GroupLag], most: usize, stored: &[Option<i64>]| {
            asked.lock().unwrap().clear();
            let found = longest(rows, most, |row| {
                asked.lock().unwrap().push(row.queue);
                let answer = stored[usize::try_from(row.queue).unwrap()].map(|ago| now - ago);
                Box::pin(std::future::ready(answer))
            })
            .await;
            (
                found.map(|w| (now - w.stored_ms, w.sure)),
                asked.lock().unwrap().clone(),
            )
        };
        let quiet = [at(0, 14_400_000, 1), at(1, 20_000, 5)];
        assert_eq!(
            find(&quiet, 6, &[Some(1_000), Some(15_000)]).await,
            (Some((15_000, true)), vec![0, 1])
        );
        // What was consumed after the oldest one was stored need not be asked.
        let rows = [
            at(0, 900_000, 1),
            at(1, 800_000, 1),
            at(2, 700_000, 0),
            at(3, 600_000, 9),
        ];
        let stored = [Some(650_000), Some(640_000), None, Some(1)];
        assert_eq!(find(&rows, 6, &stored).await, (Some((650_000, true)), vec![0, 1]));
        // Too many, or one that could not be read: another may be older.
        assert_eq!(find(&rows, 1, &stored).await, (Some((650_000, false)), vec![0]));
        assert_eq!(
            find(&rows, 6, &[None, Some(640_000), None, Some(1)]).await,
            (Some((640_000, false)), vec![0, 1])
        );
        assert_eq!(find(&[at(0, 9, 0)], 6, &[None]).await, (None, vec![]));
    }

    #[test]
    fn a_broadcasting_group_has_no_backlog_to_tell() {
        let mut group = Backlog {
            queues: vec![row(10, Some(4))],
            ..Backlog::default()
        };
        let connection = ConsumerConnection {
            connection_set: vec![Connection {
                client_id: "c".into(),
                ..Connection::default()
            }],
            message_model: MessageModel::Broadcasting,
            ..ConsumerConnection::default()
        };
        group.add_clients(&Server::at("b:1"), connection);
        assert_eq!((group.kind(), group.lag()), (GroupKind::Broadcasting, None));
    }
}
