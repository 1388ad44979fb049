//! Looking for single messages and queue entries.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::body::QueryConsumeQueueAnswer;
use crate::protocol::{Json, Records};
use crate::request;

/// Messages with a key.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryMessage {
    /// Topic name.
    pub topic: String,
    /// The key.
    pub key: String,
    /// Most messages wanted.
    pub max_num: i32,
    /// Not stored before, ms.
    pub begin_timestamp: i64,
    /// Not stored after, ms.
    pub end_timestamp: i64,
    /// The key is a unique key; absent is false.
    #[serde(rename = "_UNIQUE_KEY_QUERY", default)]
    pub unique_key_query: Option<bool>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(QueryMessage = 12 "QUERY_MESSAGE" (()) -> QueryMessageReply, Records);

/// How far the index has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryMessageReply {
    /// Store time of the last indexed message, ms.
    pub index_last_update_timestamp: i64,
    /// Commit log offset of the last indexed message.
    pub index_last_update_phyoffset: i64,
}

/// One message by its commit log offset.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewMessageById {
    /// Topic name, unused by the broker.
    #[serde(default)]
    pub topic: Option<String>,
    /// Commit log offset.
    pub offset: i64,
}
request!(ViewMessageById = 33 "VIEW_MESSAGE_BY_ID" (()) -> (), Bytes);

/// Entries of a consume queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryConsumeQueue {
    /// Topic name.
    pub topic: String,
    /// Queue number.
    #[serde(default)]
    pub queue_id: i32,
    /// First entry wanted.
    #[serde(default)]
    pub index: i64,
    /// Most entries wanted.
    #[serde(default)]
    pub count: i32,
    /// Evaluate this group's filter.
    #[serde(default)]
    pub consumer_group: Option<String>,
}
request!(QueryConsumeQueue = 321 "QUERY_CONSUME_QUEUE" (()) -> (), Json<QueryConsumeQueueAnswer>);
