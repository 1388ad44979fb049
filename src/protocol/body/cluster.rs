//! Clusters, broker sets and replication state.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::BrokerData;
use crate::protocol::model::DataVersion;

/// Clusters and brokers a name server knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterInfo {
    /// Broker sets by broker name.
    pub broker_addr_table: BTreeMap<String, BrokerData>,
    /// Broker names by cluster name.
    pub cluster_addr_table: BTreeMap<String, BTreeSet<String>>,
    /// Exact liveness by broker address; only an rmq name server that was asked with `rmqLive` adds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmq_live_table: Option<BTreeMap<String, LiveBroker>>,
    /// The name server's clock, ms; with [`Self::rmq_live_table`] only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmq_now: Option<i64>,
    /// Version of the rmq name server; with [`Self::rmq_live_table`] only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rmq_version: Option<String>,
}

/// Last registration of one broker, as the name server holds it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LiveBroker {
    /// 0 is the master.
    pub broker_id: i64,
    /// Broker set.
    pub broker_name: String,
    /// Cluster name.
    pub cluster_name: String,
    /// Version of the topic table it registered.
    pub data_version: DataVersion,
    /// Silence after which the name server drops it, ms.
    pub heartbeat_timeout_millis: i64,
    /// Name server's clock at the last registration or heartbeat, ms.
    pub last_update_timestamp: i64,
}

/// Answer of GET_BROKER_MEMBER_GROUP.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroupAnswer {
    /// Absent when the broker is unknown to an old name server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_member_group: Option<BrokerMemberGroup>,
}

/// Addresses of one broker set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerMemberGroup {
    /// Address by broker id.
    pub broker_addrs: BTreeMap<i64, String>,
    /// Broker set.
    pub broker_name: String,
    /// Cluster name.
    pub cluster: String,
}

/// Replication state of one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaRuntimeInfo {
    /// What it does as a slave.
    pub ha_client_runtime_info: HaClientRuntimeInfo,
    /// Its connected slaves.
    pub ha_connection_info: Vec<HaConnectionRuntimeInfo>,
    /// Slaves close enough to count as in sync.
    pub in_sync_slave_nums: i32,
    /// True on a master.
    pub master: bool,
    /// End of the commit log.
    pub master_commit_log_max_offset: i64,
}

/// Replication as a slave sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaClientRuntimeInfo {
    /// Last byte read from the master, ms.
    pub last_read_timestamp: i64,
    /// Last report to the master, ms.
    pub last_write_timestamp: i64,
    /// The master's replication address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_addr: Option<String>,
    /// The master's flushed offset.
    pub master_flush_offset: i64,
    /// The slave's own end of the commit log.
    pub max_offset: i64,
    /// Bytes per second.
    pub transferred_byte_in_second: i64,
}

/// Replication to one slave as the master sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HaConnectionRuntimeInfo {
    /// The slave's address, with Java's leading slash.
    pub addr: String,
    /// Bytes the slave is behind.
    pub diff: i64,
    /// Close enough to count as in sync.
    pub in_sync: bool,
    /// Offset the slave confirmed.
    pub slave_ack_offset: i64,
    /// Offset the next transfer starts at.
    pub transfer_from_where: i64,
    /// Bytes per second.
    pub transferred_byte_in_second: i64,
}
