//! Consumer groups: configuration, backlog, clients.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::error::{Error, Server};
use crate::client::snapshot::GroupLag;
use crate::client::{Client, Deadline};
use crate::protocol::body::{
    ConsumeStats, ConsumerConnection, SubscriptionGroupConfig, SubscriptionGroupTable,
};
use crate::protocol::codes;
use crate::protocol::requests::{
    GetAllConsumerOffset, GetAllSubscriptiongroupConfig, GetBrokerConsumeStats, GetConsumeStats,
    GetConsumerConnectionList,
};

/// Groups that every broker makes itself.
const BUILT_IN: &[&str] = &[
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "SELF_TEST_P_GROUP",
    "CLIENT_INNER_PRODUCER",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
];

/// True for a group of the broker's own.
pub fn is_system(group: &str) -> bool {
    BUILT_IN.contains(&group) || group.starts_with("CID_RMQ_SYS_") || group.starts_with("rmq_sys_")
}

/// Backlog of one group on one broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokerLag {
    /// One entry a queue.
    pub queues: Vec<GroupLag>,
    /// Messages a second consumed.
    pub consume_tps: f64,
}

/// The entries of a statistics answer. A pull position is only known where the broker says one.
fn rows(group: &str, stats: ConsumeStats, with_inflight: bool) -> Vec<GroupLag> {
    stats
        .offset_table
        .into_iter()
        .map(|(queue, at)| GroupLag {
            group: group.to_owned(),
            topic: queue.topic,
            broker: queue.broker_name,
            queue: queue.queue_id,
            max: at.broker_offset,
            committed: (at.consumer_offset >= 0).then_some(at.consumer_offset),
            inflight: (with_inflight && at.pull_offset >= at.consumer_offset).then(|| at.in_flight()),
            last_consumed_ms: (at.last_timestamp > 0).then_some(at.last_timestamp),
            hole: 0,
        })
        .collect()
}

/// Topic and group of a key of the offset table. `None` for `topic@group@broadcast`, in which a Java broker keeps how far
/// the slowest client of a broadcasting group is (`BroadcastOffsetManager`): that is no group's position. Names of topics
/// and groups have no `@`.
pub fn position_key(key: &str) -> Option<(&str, &str)> {
    key.split_once('@').filter(|(_, group)| !group.contains('@'))
}

impl Client {
    /// Every group configuration of a broker. (The request for a single one would create it.)
    pub async fn broker_groups(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<SubscriptionGroupTable, Error> {
        let (_, table) = self
            .call(broker, &GetAllSubscriptiongroupConfig, (), deadline)
            .await?;
        Ok(table.value)
    }

    /// Topics by group that have committed offsets on a broker.
    pub async fn broker_offset_groups(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<BTreeMap<String, BTreeSet<String>>, Error> {
        let (_, offsets) = self.call(broker, &GetAllConsumerOffset, (), deadline).await?;
        let mut groups: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for key in offsets.value.offset_table.keys() {
            if let Some((topic, group)) = position_key(key) {
                groups
                    .entry(group.to_owned())
                    .or_default()
                    .insert(topic.to_owned());
            }
        }
        Ok(groups)
    }

    /// Backlog of a group on one broker, in one topic or in all. A group that the broker does not know has none.
    pub async fn group_lag(
        &self,
        broker: &Server,
        group: &str,
        topic: Option<&str>,
        deadline: Deadline,
    ) -> Result<BrokerLag, Error> {
        let header = GetConsumeStats {
            consumer_group: group.to_owned(),
            topic: topic.map(str::to_owned),
            topic_list: None,
        };
        let (_, stats) = self.call(broker, &header, (), deadline).await?;
        let consume_tps = stats.value.consume_tps;
        let mut queues = rows(group, stats.value, true);
        if let Some(topic) = topic {
            queues.retain(|q| q.topic == topic);
        }
        Ok(BrokerLag { queues, consume_tps })
    }

    /// Backlog of every group on one broker, in one request. Such an answer has no pull positions.
    pub async fn broker_lag(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<BTreeMap<String, BrokerLag>, Error> {
        let (_, list) = self
            .call(broker, &GetBrokerConsumeStats::default(), (), deadline)
            .await?;
        let mut groups: BTreeMap<String, BrokerLag> = BTreeMap::new();
        for (group, topics) in list.value.consume_stats_list.into_iter().flatten() {
            let lag = groups.entry(group.clone()).or_default();
            for stats in topics {
                lag.consume_tps += stats.consume_tps;
                lag.queues.extend(rows(&group, stats, false));
            }
        }
        Ok(groups)
    }

    /// Clients of a group that are connected to one broker; `None` when none is.
    pub async fn group_clients(
        &self,
        broker: &Server,
        group: &str,
        deadline: Deadline,
    ) -> Result<Option<ConsumerConnection>, Error> {
        let header = GetConsumerConnectionList {
            consumer_group: group.to_owned(),
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, connection)) => Ok(Some(connection.value)),
            Err(e) if e.remote_code() == Some(codes::CONSUMER_NOT_ONLINE) => Ok(None),
            // Java answers 1 with this remark for a group without a client.
            Err(e)
                if e.remote_code() == Some(codes::SYSTEM_ERROR) && e.to_string().contains("not online") =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

/// A group as several brokers know it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KnownGroup {
    /// Configuration by broker name.
    pub configs: BTreeMap<String, SubscriptionGroupConfig>,
    /// Topics with committed offsets by broker name.
    pub offsets: BTreeMap<String, BTreeSet<String>>,
}

/// All groups by name, from configurations and from committed offsets.
#[derive(Debug, Default)]
pub struct KnownGroups {
    /// The groups.
    pub groups: BTreeMap<String, KnownGroup>,
    /// Brokers that failed.
    pub failed: Vec<(Server, Error)>,
}

impl Client {
    /// Groups of all `brokers`: those with a configuration and those that only have offsets left.
    pub async fn known_groups(&self, brokers: &[super::cluster::BrokerAt]) -> KnownGroups {
        let deadline = self.deadline();
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let server = broker.server();
                let (configs, offsets) = tokio::join!(
                    self.broker_groups(&server, deadline),
                    self.broker_offset_groups(&server, deadline)
                );
                (broker, server, configs, offsets)
            })
            .await;
        let mut known = KnownGroups::default();
        for (broker, server, configs, offsets) in answers {
            match configs {
                Ok(table) => {
                    for (group, config) in table.subscription_group_table {
                        known
                            .groups
                            .entry(group)
                            .or_default()
                            .configs
                            .insert(broker.id.name.clone(), config);
                    }
                }
                Err(e) => known.failed.push((server.clone(), e)),
            }
            match offsets {
                Ok(groups) => {
                    for (group, topics) in groups {
                        known
                            .groups
                            .entry(group)
                            .or_default()
                            .offsets
                            .insert(broker.id.name.clone(), topics);
                    }
                }
                // One failure a broker is told once.
                Err(e) if known.failed.last().is_none_or(|(s, _)| *s != server) => {
                    known.failed.push((server, e));
                }
                Err(_) => {}
            }
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::OffsetWrapper;
    use crate::protocol::model::MessageQueue;

    #[test]
    fn what_java_notes_of_broadcasting_is_no_position() {
        assert_eq!(position_key("D@CGD"), Some(("D", "CGD")));
        assert_eq!(position_key("%RETRY%CGD@CGD"), Some(("%RETRY%CGD", "CGD")));
        assert_eq!(position_key("D@CGD@broadcast"), None);
    }

    fn stats(broker_offset: i64, consumer_offset: i64, pull_offset: i64) -> ConsumeStats {
        let queue = MessageQueue {
            topic: "T".into(),
            broker_name: "b".into(),
            queue_id: 0,
        };
        let at = OffsetWrapper {
            broker_offset,
            consumer_offset,
            pull_offset,
            last_timestamp: 0,
        };
        ConsumeStats {
            consume_tps: 0.0,
            offset_table: [(queue, at)].into(),
        }
    }

    #[test]
    fn a_missing_position_is_unknown_and_not_zero() {
        let row = &rows("g", stats(10, -1, 0), true)[0];
        assert_eq!(
            (row.committed, row.lag(), row.last_consumed_ms),
            (None, None, None)
        );
        let row = &rows("g", stats(10, 4, 6), true)[0];
        assert_eq!((row.lag(), row.inflight), (Some(6), Some(2)));
        // The list of all groups leaves the pull offset at 0, which says nothing.
        assert_eq!(rows("g", stats(10, 4, 0), false)[0].inflight, None);
        assert_eq!(rows("g", stats(10, 4, 0), true)[0].inflight, None);
    }
}
