//! One group with everything around it, as its brokers and clients tell it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::client::Client;
use crate::client::admin::clients::GroupClients;
use crate::client::admin::cluster::BrokerAt;
use crate::client::admin::group::BrokerLag;
use crate::client::error::Error;
use crate::client::snapshot::GroupLag;
use crate::client::stranded::Left;
use crate::protocol::body::{ConsumerRunningInfo, MessageModel, SubscriptionGroupConfig, TopicStatsTable};
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};

/// A group as its brokers and clients tell it.
#[derive(Debug, Default)]
pub struct GroupView {
    /// Group name.
    pub name: String,
    /// Configuration by broker name; `None` where the broker has none.
    pub configs: BTreeMap<String, Option<SubscriptionGroupConfig>>,
    /// Its clients.
    pub clients: GroupClients,
    /// Backlog by queue.
    pub queues: Vec<GroupLag>,
    /// Messages a second consumed.
    pub consume_tps: f64,
    /// Offset ranges by topic and broker, of every topic it has a position in, its retry and dead-letter topics too.
    /// `None` where the broker does not have the topic.
    pub topics: BTreeMap<(String, String), Option<TopicStatsTable>>,
    /// What each client tells about itself, when that was asked for.
    pub running: Vec<(String, Result<ConsumerRunningInfo, Error>)>,
    /// Age of the first unread message by topic, broker and queue, where there is a backlog.
    pub oldest: BTreeMap<(String, String, i32), Duration>,
    /// What it has not read in queues behind the read queues of their topics.
    pub stranded: Vec<Left>,
    /// Brokers that failed.
    pub errors: Vec<Error>,
}

impl GroupView {
    /// True when nobody knows the group.
    pub fn is_unknown(&self) -> bool {
        self.configs.values().all(Option::is_none)
            && self.queues.is_empty()
            && self.clients.connections().next().is_none()
    }

    /// Positions of a broadcasting group are on its clients: the brokers' numbers mean nothing.
    pub fn is_broadcast(&self) -> bool {
        self.clients
            .connections()
            .any(|(_, c)| c.message_model == MessageModel::Broadcasting)
    }

    /// Messages of one topic over all brokers.
    pub fn messages_in(&self, topic: &str) -> Option<i64> {
        let mut known = self
            .topics
            .iter()
            .filter(|((name, _), _)| name == topic)
            .filter_map(|(_, stats)| stats.as_ref())
            .peekable();
        known.peek()?;
        Some(known.map(count).sum())
    }

    /// The clients that hold each queue, as they tell themselves.
    pub fn owners(&self) -> BTreeMap<(String, String, i32), Vec<String>> {
        let mut owners: BTreeMap<(String, String, i32), Vec<String>> = BTreeMap::new();
        for (client, info) in &self.running {
            let Ok(info) = info else { continue };
            let held = (info.mq_table.iter())
                .filter(|(_, state)| !state.droped)
                .map(|(queue, _)| queue);
            for queue in held {
                owners
                    .entry((queue.topic.clone(), queue.broker_name.clone(), queue.queue_id))
                    .or_default()
                    .push(client.clone());
            }
        }
        owners
    }

    /// Brokers on which the group is paused: its consumeEnable is false there.
    pub fn paused_on(&self) -> Vec<&str> {
        self.configs
            .iter()
            .filter(|(_, config)| config.as_ref().is_some_and(|c| !c.consume_enable))
            .map(|(broker, _)| broker.as_str())
            .collect()
    }
}

/// Messages in a topic on one broker.
pub fn count(stats: &TopicStatsTable) -> i64 {
    stats
        .offset_table
        .values()
        .map(|range| range.max_offset.saturating_sub(range.min_offset).max(0))
        .fold(0, i64::saturating_add)
}

impl Client {
    /// A group as `brokers` and, with `deep`, its clients and its oldest unread messages tell it.
    pub async fn group_view(&self, brokers: &[BrokerAt], group: &str, deep: bool) -> GroupView {
        let deadline = self.deadline();
        let (configs, clients, lags) = tokio::join!(
            self.group_configs(brokers, group),
            self.clients_of_group(brokers, group),
            self.each(brokers.to_vec(), |broker| async move {
                let lag = self.group_lag(&broker.server(), group, None, deadline).await;
                (broker, lag)
            })
        );
        let mut view = GroupView {
            name: group.to_owned(),
            ..GroupView::default()
        };
        for (broker, config) in configs {
            match config {
                Ok(config) => {
                    view.configs.insert(broker.id.name, config);
                }
                Err(e) => view.errors.push(e),
            }
        }
        let mut wanted: BTreeSet<(String, BrokerAt)> = BTreeSet::new();
        for (broker, lag) in lags {
            match lag {
                Ok(BrokerLag { queues, consume_tps }) => {
                    view.consume_tps += consume_tps;
                    wanted.extend(queues.iter().map(|q| (q.topic.clone(), broker.clone())));
                    view.queues.extend(queues);
                }
                // A broker that failed is told once.
                Err(e) if view.errors.is_empty() => view.errors.push(e),
                Err(_) => {}
            }
            for prefix in [RETRY_PREFIX, DLQ_PREFIX] {
                wanted.insert((format!("{prefix}{group}"), broker.clone()));
            }
        }
        for (broker, connection) in clients.connections() {
            wanted.extend(
                connection
                    .subscription_table
                    .keys()
                    .map(|t| (t.clone(), broker.clone())),
            );
        }
        let stats = self
            .each(wanted.into_iter().collect(), |(topic, broker)| async move {
                let stats = self.topic_stats(&broker.server(), &topic, self.deadline()).await;
                (topic, broker, stats)
            })
            .await;
        for (topic, broker, stats) in stats {
            match stats {
                Ok(stats) => {
                    view.topics.insert((topic, broker.id.name), Some(stats));
                }
                Err(e) if e.remote_code() == Some(crate::protocol::codes::TOPIC_NOT_EXIST) => {
                    view.topics.insert((topic, broker.id.name), None);
                }
                Err(e) if view.errors.is_empty() => view.errors.push(e),
                Err(_) => {}
            }
        }
        if deep {
            let limit = self.deadline().at_most(Duration::from_secs(2));
            view.running = self.running_infos(&clients, group, false, limit).await;
            let own = BTreeSet::from([group.to_owned()]);
            // Who did not tell has failed above already.
            (view.stranded, _) = self.left_stranded(brokers, &own, None).await;
            let oldest = self.oldest_unread(brokers, &view.queues).await;
            view.oldest = oldest
                .into_iter()
                .filter_map(|((topic, broker, queue, _), age)| Some(((topic, broker, queue), age.ok()?)))
                .collect();
        }
        view.clients = clients;
        view
    }
}
