//! What brokers tell name servers, and the other way.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{KvTable, TopicRouteData};
use crate::protocol::model::DataVersion;
use crate::request;

/// Broker to name server: here I am, with these topics. The body is read by
/// [`crate::protocol::body::RegisterBrokerBody::decode`], which needs the header's flag and the broker's version.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisterBroker {
    /// Broker set.
    pub broker_name: String,
    /// Address clients reach it at.
    pub broker_addr: String,
    /// Cluster name.
    pub cluster_name: String,
    /// Address slaves reach it at; Java accepts its absence.
    #[serde(default)]
    pub ha_server_addr: Option<String>,
    /// 0 is the master.
    pub broker_id: i64,
    /// Silence after which it is dropped, ms; absent takes the name server's.
    #[serde(default)]
    pub heartbeat_timeout_millis: Option<i64>,
    /// A slave may act as master; absent from brokers before 5.0.
    #[serde(default)]
    pub enable_acting_master: Option<bool>,
    /// The body is deflated; absent is false.
    #[serde(default)]
    pub compressed: bool,
    /// CRC32 of the body, 31 bits; 0 is not checked.
    #[serde(default)]
    pub body_crc32: i32,
    /// Zone of the broker.
    #[serde(rename = "__ZONE_NAME", default)]
    pub zone_name: Option<String>,
}
request!(RegisterBroker = 103 "REGISTER_BROKER" (Bytes) -> RegisterBrokerReply, Option<Json<KvTable>>);

/// Where the master is, for slaves; the body is the order configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegisterBrokerReply {
    /// The master's replication address.
    pub ha_server_addr: Option<String>,
    /// The master's address.
    pub master_addr: Option<String>,
}

/// Broker to name server: I am leaving.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnregisterBroker {
    /// Broker set.
    pub broker_name: String,
    /// Its address.
    pub broker_addr: String,
    /// Cluster name.
    pub cluster_name: String,
    /// 0 is the master.
    pub broker_id: i64,
}
request!(UnregisterBroker = 104 "UNREGISTER_BROKER" (()) -> (), ());

/// Broker to name server: is this version of my topics new to you?
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryDataVersion {
    /// Broker set.
    pub broker_name: String,
    /// Its address.
    pub broker_addr: String,
    /// Cluster name.
    pub cluster_name: String,
    /// 0 is the master.
    #[serde(default)]
    pub broker_id: i64,
}
request!(QueryDataVersion = 322 "QUERY_DATA_VERSION" (Option<Json<DataVersion>>) -> QueryDataVersionReply, Option<Json<DataVersion>>);

/// Whether it is; the body is the name server's version, if it has one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueryDataVersionReply {
    /// The broker should register in full.
    pub changed: bool,
}

/// Broker to name server: still alive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BrokerHeartbeat {
    /// Cluster name.
    pub cluster_name: String,
    /// Its address.
    pub broker_addr: String,
    /// Broker set.
    pub broker_name: String,
    /// 0 is the master.
    #[serde(default)]
    pub broker_id: Option<i64>,
    /// Master epoch, for the controller.
    #[serde(default)]
    pub epoch: Option<i32>,
    /// End of the commit log, for the controller.
    #[serde(default)]
    pub max_offset: Option<i64>,
    /// Confirmed offset, for the controller.
    #[serde(default)]
    pub confirm_offset: Option<i64>,
    /// Silence after which it is dropped, ms; spelt as Java spells it.
    #[serde(default)]
    pub heartbeat_timeout_mills: Option<i64>,
    /// For the controller.
    #[serde(default)]
    pub election_priority: Option<i32>,
}
request!(BrokerHeartbeat = 904 "BROKER_HEARTBEAT" (()) -> (), ());

/// Name server to broker, oneway: the smallest live id of your set changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NotifyMinBrokerIdChange {
    /// The smallest live id.
    pub min_broker_id: Option<i64>,
    /// Broker set.
    pub broker_name: Option<String>,
    /// Address of that broker.
    pub min_broker_addr: Option<String>,
    /// Address of the broker that went away.
    pub offline_broker_addr: Option<String>,
    /// Replication address of that broker.
    pub ha_broker_addr: Option<String>,
}
request!(NotifyMinBrokerIdChange = 905 "NOTIFY_MIN_BROKER_ID_CHANGE" (()) -> (), ());

/// Broker to name server: one topic's queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RegisterTopicInNamesrv {
    /// Topic name.
    pub topic: String,
}
request!(RegisterTopicInNamesrv = 217 "REGISTER_TOPIC_IN_NAMESRV" (Option<Json<TopicRouteData>>) -> (), ());
