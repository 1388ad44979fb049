//! Offset resets and consumer positions.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::model::MessageQueue;
use crate::protocol::{Body, Chunks, Error, Json};

/// New offset by queue; answer of INVOKE_BROKER_TO_RESET_OFFSET and body of the push to clients.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffset {
    /// The offsets.
    pub offset_table: BTreeMap<MessageQueue, i64>,
}

/// The same as a list, for C++ clients, which cannot read object keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetOffsetForC {
    /// The offsets.
    pub offset_table: Vec<MessageQueueForC>,
}

/// One queue and its new offset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageQueueForC {
    /// Broker name.
    pub broker_name: String,
    /// New offset.
    pub offset: i64,
    /// Queue number.
    pub queue_id: i32,
    /// Topic name.
    pub topic: String,
}

/// Body of RESET_CONSUMER_CLIENT_OFFSET in the shape the client understands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResetOffsetPush {
    /// For every client but C++.
    Table(ResetOffset),
    /// For C++ clients.
    List(ResetOffsetForC),
}

impl Body for ResetOffsetPush {
    fn decode(bytes: Bytes) -> Result<Self, Error> {
        match Json::decode(bytes.clone()) {
            Ok(table) => Ok(Self::Table(table.value)),
            Err(_) => Json::decode(bytes).map(|list| Self::List(list.value)),
        }
    }

    fn encode(self) -> Chunks {
        match self {
            Self::Table(table) => Json::new(table).encode(),
            Self::List(list) => Json::new(list).encode(),
        }
    }
}

/// Answer of GET_CONSUMER_STATUS_FROM_CLIENT and INVOKE_BROKER_TO_GET_CONSUMER_STATUS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerStatus {
    /// Offset by client id and queue; the broker's answer.
    pub consumer_table: BTreeMap<String, BTreeMap<MessageQueue, i64>>,
    /// Offset by queue; the client's answer.
    pub message_queue_table: BTreeMap<MessageQueue, i64>,
}
