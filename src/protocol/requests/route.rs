//! What clients and operators ask a name server.

use serde::{Deserialize, Serialize};

use crate::protocol::body::{BrokerMemberGroupAnswer, ClusterInfo, TopicList, TopicRouteData};
use crate::protocol::{Json, Text};
use crate::request;

/// Where a topic's queues are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetRouteinfoByTopic {
    /// Topic name; an absent one has no route.
    pub topic: String,
    /// Quote map keys whatever the version.
    pub accept_standard_json_only: Option<bool>,
    /// Zone mode of the client.
    #[serde(rename = "__ZONE_MODE")]
    pub zone_mode: Option<String>,
    /// Zone of the client.
    #[serde(rename = "__ZONE_NAME")]
    pub zone_name: Option<String>,
}
request!(GetRouteinfoByTopic = 105 "GET_ROUTEINFO_BY_TOPIC" (()) -> (), Json<TopicRouteData>);

/// All clusters and brokers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetBrokerClusterInfo {
    /// `1` asks an rmq name server for its exact liveness table; Java ignores it.
    pub rmq_live: Option<String>,
}
request!(GetBrokerClusterInfo = 106 "GET_BROKER_CLUSTER_INFO" (()) -> (), Json<ClusterInfo>);

/// Addresses of one broker set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetBrokerMemberGroup {
    /// Cluster name.
    pub cluster_name: String,
    /// Broker set.
    pub broker_name: String,
}
request!(GetBrokerMemberGroup = 901 "GET_BROKER_MEMBER_GROUP" (()) -> (), Json<BrokerMemberGroupAnswer>);

/// All topics a name server knows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllTopicListFromNameserver;
request!(GetAllTopicListFromNameserver = 206 "GET_ALL_TOPIC_LIST_FROM_NAMESERVER" (()) -> (), Json<TopicList>);

/// Topics of one cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetTopicsByCluster {
    /// Cluster name.
    pub cluster: String,
}
request!(GetTopicsByCluster = 224 "GET_TOPICS_BY_CLUSTER" (()) -> (), Json<TopicList>);

/// Cluster and broker names, which are system topics, and some broker's address.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSystemTopicListFromNs;
request!(GetSystemTopicListFromNs = 304 "GET_SYSTEM_TOPIC_LIST_FROM_NS" (()) -> (), Json<TopicList>);

/// Topics with the unit bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetUnitTopicList;
request!(GetUnitTopicList = 311 "GET_UNIT_TOPIC_LIST" (()) -> (), Json<TopicList>);

/// Topics with the unit subscription bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHasUnitSubTopicList;
request!(GetHasUnitSubTopicList = 312 "GET_HAS_UNIT_SUB_TOPIC_LIST" (()) -> (), Json<TopicList>);

/// Topics with the unit subscription bit and without the unit bit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetHasUnitSubUnunitTopicList;
request!(GetHasUnitSubUnunitTopicList = 313 "GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST" (()) -> (), Json<TopicList>);

/// Take a topic off the name server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteTopicInNamesrv {
    /// Topic name.
    pub topic: String,
    /// Only for the brokers of this cluster.
    #[serde(default)]
    pub cluster_name: Option<String>,
}
request!(DeleteTopicInNamesrv = 216 "DELETE_TOPIC_IN_NAMESRV" (()) -> (), ());

/// Keep producers off a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WipeWritePermOfBroker {
    /// Broker set.
    pub broker_name: String,
}
request!(WipeWritePermOfBroker = 205 "WIPE_WRITE_PERM_OF_BROKER" (()) -> WipeWritePermOfBrokerReply, ());

/// How many topics changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WipeWritePermOfBrokerReply {
    /// The count.
    pub wipe_topic_count: i32,
}

/// Let producers onto a broker again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddWritePermOfBroker {
    /// Broker set.
    pub broker_name: String,
}
request!(AddWritePermOfBroker = 327 "ADD_WRITE_PERM_OF_BROKER" (()) -> AddWritePermOfBrokerReply, ());

/// How many topics changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddWritePermOfBrokerReply {
    /// The count.
    pub add_topic_count: i32,
}

/// Change a name server's configuration; the body is properties text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateNamesrvConfig;
request!(UpdateNamesrvConfig = 318 "UPDATE_NAMESRV_CONFIG" (Text) -> (), ());

/// A name server's configuration as properties text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetNamesrvConfig;
request!(GetNamesrvConfig = 319 "GET_NAMESRV_CONFIG" (()) -> GetNamesrvConfigReply, Text);

/// What an `rmq` name server tells of its keys; a Java one tells nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetNamesrvConfigReply {
    /// Keys, separated by `;`, whose change waits for the next start.
    #[serde(rename = "rmqReadAtStart")]
    pub rmq_read_at_start: Option<String>,
    /// Keys, separated by `;`, whose value as told waits for the next start: another one is in force.
    #[serde(rename = "rmqWaiting")]
    pub rmq_waiting: Option<String>,
    /// What keys may be set to, `key=FROM..TO` or `key=WORD|WORD`, separated by `;`.
    #[serde(rename = "rmqLimits")]
    pub rmq_limits: Option<String>,
}
