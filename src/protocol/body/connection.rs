//! Connected clients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ConsumeFromWhere, ConsumeType, MessageModel, SubscriptionData};
use crate::protocol::model::Language;

/// One connection of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Connection {
    /// Remote address.
    pub client_addr: String,
    /// Client id.
    pub client_id: String,
    /// The client's language.
    pub language: Language,
    /// The client's protocol version.
    pub version: i32,
}

/// Connections of a consumer group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerConnection {
    /// The connections.
    pub connection_set: Vec<Connection>,
    /// Where the group began.
    pub consume_from_where: ConsumeFromWhere,
    /// Pull, push or pop.
    pub consume_type: ConsumeType,
    /// Clustering or broadcasting.
    pub message_model: MessageModel,
    /// Subscription by topic.
    pub subscription_table: BTreeMap<String, SubscriptionData>,
}

/// Connections of a producer group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerConnection {
    /// The connections.
    pub connection_set: Vec<Connection>,
}

/// All producers of a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerTableInfo {
    /// Producers by group.
    pub data: BTreeMap<String, Vec<ProducerInfo>>,
}

/// One producer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerInfo {
    /// Client id.
    pub client_id: String,
    /// The client's language.
    pub language: Language,
    /// Last heartbeat, ms.
    pub last_update_timestamp: i64,
    /// Remote address with Java's leading slash.
    #[serde(rename = "remoteIP")]
    pub remote_ip: String,
    /// The client's protocol version.
    pub version: i32,
}

/// Client ids of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerList {
    /// The ids.
    pub consumer_id_list: Vec<String>,
}
