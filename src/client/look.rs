//! Looks at single servers, in the values of a [`Snapshot`](super::Snapshot). Each is one read request; a dashboard
//! calls them one by one, [`Client::snapshot`] all at once.

use std::time::Duration;

use tokio::time::Instant;

use super::admin::broker::config_view;
use super::admin::cluster::registered;
use super::error::{Error, Server};
use super::snapshot::{
    BrokerConfigView, BrokerId, ClusterTable, GroupLag, Listed, LiveBroker, NameServerConfig, TopicOnBroker,
    told_sum,
};
use super::{Client, Deadline, RuntimeInfo};
use crate::protocol::body::ClusterInfo;
use crate::protocol::codes;
use crate::protocol::model::DataVersion;
use crate::protocol::requests::{
    GetAllTopicListFromNameserver, GetBrokerClusterInfo, GetNamesrvConfig, ViewBrokerStatsData,
};

/// Where half messages wait.
pub const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// The group whose position says which of them are decided.
pub const HALF_GROUP: &str = "CID_RMQ_SYS_TRANS";

impl Client {
    /// The broker table of one name server, and the time of the call.
    pub async fn look_cluster(
        &self,
        addr: &str,
        deadline: Deadline,
    ) -> Result<(ClusterTable, Duration), Error> {
        let header = GetBrokerClusterInfo {
            rmq_live: Some("1".into()),
        };
        let start = Instant::now();
        let answer = self.call(&Server::at(addr), &header, (), deadline).await;
        if let Err(Error::Call { source, .. }) = &answer {
            self.mark_dead(addr, source);
        }
        let (_, info) = answer?;
        Ok((cluster_table(&info.value), start.elapsed()))
    }

    /// The limits of one name server.
    pub async fn look_limits(&self, addr: &str, deadline: Deadline) -> Result<NameServerConfig, Error> {
        let (_, text) = self
            .call(&Server::at(addr), &GetNamesrvConfig, (), deadline)
            .await?;
        let entries = super::admin::parse_config(&text.0);
        Ok(NameServerConfig {
            scan_interval: entries
                .get("scanNotActiveBrokerInterval")
                .and_then(|v| v.parse().ok())
                .map(Duration::from_millis),
            entries,
        })
    }

    /// The topic names of one name server, sorted.
    pub async fn look_topic_names(&self, addr: &str, deadline: Deadline) -> Result<Vec<String>, Error> {
        let (_, list) = self
            .call(&Server::at(addr), &GetAllTopicListFromNameserver, (), deadline)
            .await?;
        Ok(list.value.topic_list.into_iter().collect())
    }

    /// The runtime numbers of one broker, and the time of the call.
    pub async fn look_runtime(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<(RuntimeInfo, Duration), Error> {
        let start = Instant::now();
        let info = self.broker_runtime(broker, deadline).await?;
        Ok((info, start.elapsed()))
    }

    /// The configuration of one broker.
    pub async fn look_config(&self, broker: &Server, deadline: Deadline) -> Result<BrokerConfigView, Error> {
        self.broker_config(broker, deadline).await.map(config_view)
    }

    /// The topics of one broker and the version of its table.
    pub async fn look_topics(
        &self,
        id: &BrokerId,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<(Vec<(String, TopicOnBroker)>, DataVersion), Error> {
        let table = self.broker_topics(broker, deadline).await?;
        let topics = table
            .topic_config_table
            .into_iter()
            .map(|(name, config)| {
                let topic = TopicOnBroker {
                    broker: id.clone(),
                    read_queues: config.read_queue_nums,
                    write_queues: config.write_queue_nums,
                    perm: config.perm,
                    order: config.order,
                    sys_flag: config.topic_sys_flag,
                    attributes: config.attributes,
                    ..TopicOnBroker::default()
                };
                (name, topic)
            })
            .collect();
        Ok((topics, table.data_version))
    }

    /// Messages a second stored in one topic of one broker, over the last minute. A broker that has counted nothing
    /// yet says "not exist": that is 0.
    pub async fn look_topic_rate(
        &self,
        broker: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<f64, Error> {
        let header = ViewBrokerStatsData {
            stats_name: "TOPIC_PUT_NUMS".into(),
            stats_key: topic.to_owned(),
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, stats)) => Ok(stats.value.stats_minute.tps),
            Err(e) if e.remote_code() == Some(codes::SYSTEM_ERROR) && e.to_string().contains("not exist") => {
                Ok(0.0)
            }
            Err(e) => Err(e),
        }
    }

    /// Half messages of a broker that are not decided: what its half topic has beyond the position of those that check.
    pub async fn look_half(&self, broker: &Server, deadline: Deadline) -> Result<i64, Error> {
        let stats = match self.topic_stats(broker, HALF_TOPIC, deadline).await {
            Ok(stats) => stats,
            // Nobody ever sent one.
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => return Ok(0),
            Err(e) => return Err(e),
        };
        let mut waiting: i64 = 0;
        // Where nothing is stored, nothing waits.
        let stored = stats
            .offset_table
            .iter()
            .filter(|(_, range)| range.max_offset > range.min_offset);
        for (queue, range) in stored {
            let at = self
                .committed(broker, HALF_GROUP, HALF_TOPIC, queue.queue_id, deadline)
                .await?;
            let decided = at.unwrap_or(0).max(range.min_offset);
            waiting = waiting.saturating_add(range.max_offset.saturating_sub(decided).max(0));
        }
        Ok(waiting)
    }

    /// Messages that were ever stored in a topic of a broker.
    pub async fn look_stored(&self, broker: &Server, topic: &str, deadline: Deadline) -> Result<i64, Error> {
        match self.topic_stats(broker, topic, deadline).await {
            Ok(stats) => Ok(told_sum(
                stats.offset_table.values().map(|range| range.max_offset),
            )),
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Ok(0),
            Err(e) => Err(e),
        }
    }

    /// Positions of all groups on one broker.
    pub async fn look_lag(&self, broker: &Server, deadline: Deadline) -> Result<Vec<GroupLag>, Error> {
        let groups = self.broker_lag(broker, deadline).await?;
        Ok(groups.into_values().flat_map(|lag| lag.queues).collect())
    }
}

/// The broker table of a cluster-info answer.
pub fn cluster_table(info: &ClusterInfo) -> ClusterTable {
    let age = |at: i64| {
        let now = info.rmq_now.unwrap_or(at);
        Duration::from_millis(u64::try_from(now.saturating_sub(at)).unwrap_or(0))
    };
    ClusterTable {
        listed: registered(info)
            .into_iter()
            .map(|b| Listed {
                broker: b.id,
                addr: b.addr,
            })
            .collect(),
        live: info.rmq_live_table.as_ref().map(|table| {
            table
                .iter()
                .map(|(addr, live)| LiveBroker {
                    cluster: live.cluster_name.clone(),
                    addr: addr.clone(),
                    age: age(live.last_update_timestamp),
                    limit: u64::try_from(live.heartbeat_timeout_millis)
                        .ok()
                        .filter(|ms| *ms > 0)
                        .map(Duration::from_millis),
                    data_version: Some(live.data_version),
                })
                .collect()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body;

    #[test]
    fn exact_ages_come_from_the_name_servers_own_clock() {
        let live = body::LiveBroker {
            last_update_timestamp: 1_000,
            heartbeat_timeout_millis: 120_000,
            ..body::LiveBroker::default()
        };
        let info = ClusterInfo {
            rmq_live_table: Some([("a:1".to_owned(), live)].into()),
            rmq_now: Some(13_000),
            ..ClusterInfo::default()
        };
        let table = cluster_table(&info);
        let live = &table.live.unwrap()[0];
        assert_eq!(live.age, Duration::from_secs(12));
        assert_eq!(live.limit, Some(Duration::from_secs(120)));
        assert_eq!(cluster_table(&ClusterInfo::default()).live, None);
    }
}
