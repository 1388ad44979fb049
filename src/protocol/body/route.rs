//! Topic routes, as the name server answers them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::TopicQueueMappingInfo;
use crate::protocol::model::{MASTER_ID, Perm};

/// Where a topic's queues are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRouteData {
    /// Brokers that hold queues of the topic.
    pub broker_datas: Vec<BrokerData>,
    /// Filter servers by broker address; empty since 4.x.
    pub filter_server_table: BTreeMap<String, Vec<String>>,
    /// Order configuration `broker-a:4;broker-b:4`, when the name server has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_topic_conf: Option<String>,
    /// Queue counts and permission by broker name.
    pub queue_datas: Vec<QueueData>,
    /// Static topic mappings by broker name; absent for ordinary topics.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_queue_mapping_by_broker: Option<BTreeMap<String, TopicQueueMappingInfo>>,
}

/// One broker set: a master and its slaves.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerData {
    /// Address by broker id; 0 is the master.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Name shared by master and slaves.
    pub broker_name: String,
    /// Cluster name.
    pub cluster: String,
    /// A slave may act as master.
    pub enable_acting_master: bool,
    /// Zone, when the broker registered with one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_name: Option<String>,
}

impl BrokerData {
    /// Address of the master, if it is registered.
    pub fn master(&self) -> Option<&str> {
        self.broker_addrs.get(&MASTER_ID).map(String::as_str)
    }
}

/// Queues of a topic on one broker set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueData {
    /// Broker set.
    pub broker_name: String,
    /// Permission bits.
    pub perm: Perm,
    /// Queues consumers see.
    pub read_queue_nums: i32,
    /// Topic system flag; brokers before 4.9 spell it `topicSynFlag`.
    #[serde(alias = "topicSynFlag")]
    pub topic_sys_flag: i32,
    /// Queues producers see.
    pub write_queue_nums: i32,
}
