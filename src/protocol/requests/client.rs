//! Heartbeats, client lists, queue locks and calls into clients.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{
    CheckClientRequest, ConsumeMessageDirectlyResult, ConsumerConnection, ConsumerList, ConsumerRunningInfo,
    HeartbeatData, LockBatchAnswer, LockBatchRequest, ProducerConnection, ProducerTableInfo,
};
use crate::request;

/// Client to broker: these are my groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeartBeat;
request!(HeartBeat = 34 "HEART_BEAT" (Json<HeartbeatData>) -> HeartBeatReply, ());

/// What the broker makes of a heartbeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeartBeatReply {
    /// Heartbeats of version 2 are understood.
    #[serde(rename = "IS_SUPPORT_HEART_BEAT_V2")]
    pub is_support_heart_beat_v2: Option<bool>,
    /// Send the subscriptions in full.
    #[serde(rename = "IS_SUB_CHANGE")]
    pub is_sub_change: Option<bool>,
}

/// Client to broker: I am leaving.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnregisterClient {
    /// Client id.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Producer group to leave.
    #[serde(default)]
    pub producer_group: Option<String>,
    /// Consumer group to leave.
    #[serde(default)]
    pub consumer_group: Option<String>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(UnregisterClient = 35 "UNREGISTER_CLIENT" (()) -> (), ());

/// Check a subscription before it is used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckClientConfig;
request!(CheckClientConfig = 46 "CHECK_CLIENT_CONFIG" (Json<CheckClientRequest>) -> (), ());

/// Client ids of a consumer group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetConsumerListByGroup {
    /// Group name.
    pub consumer_group: String,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(GetConsumerListByGroup = 38 "GET_CONSUMER_LIST_BY_GROUP" (()) -> (), Json<ConsumerList>);

/// Broker to client, oneway: the group's clients changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NotifyConsumerIdsChanged {
    /// Group name.
    pub consumer_group: String,
}
request!(NotifyConsumerIdsChanged = 40 "NOTIFY_CONSUMER_IDS_CHANGED" (()) -> (), ());

/// Lock queues for an orderly consumer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockBatchMq;
request!(LockBatchMq = 41 "LOCK_BATCH_MQ" (Json<LockBatchRequest>) -> (), Json<LockBatchAnswer>);

/// Give queue locks back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnlockBatchMq;
request!(UnlockBatchMq = 42 "UNLOCK_BATCH_MQ" (Json<LockBatchRequest>) -> (), ());

/// Connections of a consumer group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetConsumerConnectionList {
    /// Group name.
    pub consumer_group: String,
}
request!(GetConsumerConnectionList = 203 "GET_CONSUMER_CONNECTION_LIST" (()) -> (), Json<ConsumerConnection>);

/// Connections of a producer group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetProducerConnectionList {
    /// Group name.
    pub producer_group: String,
}
request!(GetProducerConnectionList = 204 "GET_PRODUCER_CONNECTION_LIST" (()) -> (), Json<ProducerConnection>);

/// All producers of a broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllProducerInfo;
request!(GetAllProducerInfo = 328 "GET_ALL_PRODUCER_INFO" (()) -> (), Json<ProducerTableInfo>);

/// Look into a running consumer; the broker passes it on to the client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetConsumerRunningInfo {
    /// Group name.
    pub consumer_group: String,
    /// Client id.
    pub client_id: String,
    /// With a thread dump; absent is false.
    #[serde(default)]
    pub jstack_enable: bool,
}
request!(GetConsumerRunningInfo = 307 "GET_CONSUMER_RUNNING_INFO" (()) -> (), Json<ConsumerRunningInfo>);

/// Have a client consume one message now; the broker passes it on with the record as body.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumeMessageDirectly {
    /// Group name.
    pub consumer_group: String,
    /// Client id.
    #[serde(default)]
    pub client_id: Option<String>,
    /// Offset message id.
    #[serde(default)]
    pub msg_id: Option<String>,
    /// Broker name.
    #[serde(default)]
    pub broker_name: Option<String>,
    /// Topic name.
    #[serde(default)]
    pub topic: Option<String>,
    /// Topic system flag.
    #[serde(default)]
    pub topic_sys_flag: Option<i32>,
    /// Group system flag.
    #[serde(default)]
    pub group_sys_flag: Option<i32>,
}
request!(ConsumeMessageDirectly = 309 "CONSUME_MESSAGE_DIRECTLY" (Bytes) -> (), Json<ConsumeMessageDirectlyResult>);
