//! Who uses a topic and how much; its order entry on the name servers.

use std::collections::BTreeMap;

use super::cluster::BrokerAt;
use super::group_check::count;
use crate::client::error::{Error, Server};
use crate::client::{Client, Deadline};
use crate::protocol::body::{BrokerStatsData, QueryConsumeQueueAnswer, TopicOffset};
use crate::protocol::codes;
use crate::protocol::model::MessageQueue;
use crate::protocol::requests::{GetKvConfig, QueryConsumeQueue, ViewBrokerStatsData};

/// Namespace of order entries on a name server.
const ORDER_NAMESPACE: &str = "ORDER_TOPIC_CONFIG";
/// Counter of messages put into a topic.
const TOPIC_PUT: &str = "TOPIC_PUT_NUMS";
/// Counter of messages a group got from a topic.
const GROUP_GET: &str = "GROUP_GET_NUMS";

/// Messages a second over the last minute, and messages of the last day.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Traffic {
    /// Messages a second.
    pub tps: f64,
    /// Messages of the last 24 hours, at least.
    pub day: i64,
}

impl Traffic {
    fn add(&mut self, other: Self) {
        self.tps += other.tps;
        self.day = self.day.saturating_add(other.day);
    }
}

impl From<BrokerStatsData> for Traffic {
    /// The largest of the three sums. A Java broker's day begins an hour late and ends with its newest hourly sample;
    /// what a shorter span has counted is part of the last 24 hours, too. `compute24HourSum` of mqadmin takes the
    /// longest span that has counted anything.
    fn from(data: BrokerStatsData) -> Self {
        let day = data
            .stats_day
            .sum
            .max(data.stats_hour.sum)
            .max(data.stats_minute.sum);
        Self {
            tps: data.stats_minute.tps,
            day,
        }
    }
}

/// One consumer group of a topic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupUse {
    /// Backlog in this topic; `None` when unknown.
    pub lag: Option<i64>,
    /// What it gets.
    pub out: Traffic,
    /// Its clients.
    pub clients: std::collections::BTreeSet<String>,
    /// Subscription expressions of its online clients, as the brokers keep them.
    pub expressions: std::collections::BTreeSet<String>,
}

/// A topic's use over all asked brokers.
#[derive(Debug, Default)]
pub struct TopicUse {
    /// What comes in.
    pub incoming: Traffic,
    /// Messages that are there.
    pub messages: i64,
    /// Store time of the newest one, epoch ms; 0 without any.
    pub last_stored_ms: i64,
    /// Its queues and what is in them, by broker and number.
    pub queues: BTreeMap<MessageQueue, TopicOffset>,
    /// Its groups.
    pub groups: BTreeMap<String, GroupUse>,
    /// Brokers that failed.
    pub errors: Vec<Error>,
    /// Brokers that answered.
    pub answered: usize,
}

impl Client {
    /// A counter of a broker; nothing where it counts no such thing.
    async fn counter(
        &self,
        broker: &Server,
        name: &str,
        key: String,
        deadline: Deadline,
    ) -> Result<Traffic, Error> {
        let header = ViewBrokerStatsData {
            stats_name: name.to_owned(),
            stats_key: key,
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, data)) => Ok(data.value.into()),
            Err(e) if e.remote_code() == Some(codes::SYSTEM_ERROR) && e.to_string().contains("not exist") => {
                Ok(Traffic::default())
            }
            Err(e) => Err(e),
        }
    }

    /// What was put into a topic of one broker.
    pub async fn topic_put(
        &self,
        broker: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<Traffic, Error> {
        self.counter(broker, TOPIC_PUT, topic.to_owned(), deadline).await
    }

    /// A topic's traffic, size and groups on `brokers`.
    pub async fn topic_use(&self, brokers: &[BrokerAt], topic: &str) -> TopicUse {
        let deadline = self.deadline();
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                self.topic_use_on(&broker.server(), topic, deadline).await
            })
            .await;
        let mut all = TopicUse::default();
        for answer in answers {
            match answer {
                Ok(one) => {
                    all.answered += 1;
                    all.incoming.add(one.incoming);
                    all.messages = all.messages.saturating_add(one.messages);
                    all.last_stored_ms = all.last_stored_ms.max(one.last_stored_ms);
                    all.queues.extend(one.queues);
                    for (name, group) in one.groups {
                        let sum = all.groups.entry(name).or_default();
                        sum.lag = match (sum.lag, group.lag) {
                            (Some(a), Some(b)) => Some(a.saturating_add(b)),
                            (a, b) => a.or(b),
                        };
                        sum.out.add(group.out);
                        sum.clients.extend(group.clients);
                        sum.expressions.extend(group.expressions);
                    }
                }
                Err(e) => all.errors.push(e),
            }
        }
        all
    }

    async fn topic_use_on(
        &self,
        server: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<TopicUse, Error> {
        let (incoming, stats, groups) = tokio::try_join!(
            self.counter(server, TOPIC_PUT, topic.to_owned(), deadline),
            self.topic_stats(server, topic, deadline),
            self.topic_groups(server, topic, deadline)
        )?;
        let mut one = TopicUse {
            incoming,
            messages: count(&stats),
            last_stored_ms: stats
                .offset_table
                .values()
                .map(|range| range.last_update_timestamp)
                .max()
                .unwrap_or(0),
            queues: stats.offset_table.into_iter().collect(),
            ..TopicUse::default()
        };
        for group in groups {
            let (out, lag, clients) = tokio::try_join!(
                self.counter(server, GROUP_GET, format!("{topic}@{group}"), deadline),
                self.group_lag(server, &group, Some(topic), deadline),
                self.group_clients(server, &group, deadline)
            )?;
            let mut sum = GroupUse {
                out,
                lag: lag
                    .queues
                    .iter()
                    .filter_map(|q| q.lag())
                    .reduce(i64::saturating_add),
                ..GroupUse::default()
            };
            if let Some(connection) = clients {
                sum.clients
                    .extend(connection.connection_set.into_iter().map(|c| c.client_id));
                sum.expressions.extend(
                    connection
                        .subscription_table
                        .get(topic)
                        .map(|s| s.sub_string.clone()),
                );
            }
            one.groups.insert(group, sum);
        }
        Ok(one)
    }

    /// Entries of a consume queue: `place` is queue number, first entry, number of entries.
    pub async fn queue_entries(
        &self,
        broker: &Server,
        topic: &str,
        place: (i32, i64, i32),
        group: Option<&str>,
        deadline: Deadline,
    ) -> Result<QueryConsumeQueueAnswer, Error> {
        let header = QueryConsumeQueue {
            topic: topic.to_owned(),
            queue_id: place.0,
            index: place.1,
            count: place.2,
            consumer_group: group.map(str::to_owned),
        };
        let (_, answer) = self.call(broker, &header, (), deadline).await?;
        Ok(answer.value)
    }

    /// The order entry of a topic at every name server, `broker-a:4;broker-b:4`; `None` where there is none.
    pub async fn order_conf_each(&self, topic: &str) -> Vec<(String, Result<Option<String>, Error>)> {
        let header = GetKvConfig {
            namespace: Some(ORDER_NAMESPACE.into()),
            key: Some(topic.to_owned()),
        };
        self.ask_each(&header, self.deadline())
            .await
            .into_iter()
            .map(|(addr, answer)| {
                let value = match answer {
                    Ok((reply, ())) => Ok(reply.value),
                    Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(None),
                    Err(e) => Err(e),
                };
                (addr, value)
            })
            .collect()
    }

    /// The order entry of a topic at one name server.
    pub async fn order_conf_at(
        &self,
        addr: &str,
        topic: &str,
        deadline: Deadline,
    ) -> Result<Option<String>, Error> {
        self.kv_get(addr, ORDER_NAMESPACE, topic, deadline).await
    }

    /// Sets or, without a value, removes the order entry of a topic at one name server.
    pub async fn write_order_conf(
        &self,
        addr: &str,
        topic: &str,
        value: Option<&str>,
        deadline: Deadline,
    ) -> Result<(), Error> {
        self.kv_set(addr, (ORDER_NAMESPACE, topic), value, deadline).await
    }
}
