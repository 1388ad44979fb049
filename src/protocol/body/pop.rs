//! Pop consumers: batch acknowledgements, assignments, request modes.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{MessageModel, lenient_enum};
use crate::protocol::model::MessageQueue;

lenient_enum! {
    /// How a group's clients get messages of a topic.
    pub enum MessageRequestMode {
        /// Each queue is pulled by one client; the default.
        #[default]
        Pull = "PULL",
        /// Every client pops from every queue.
        Pop = "POP",
    }
}

/// Body of BATCH_ACK_MESSAGE.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BatchAckRequest {
    /// One entry a checkpoint.
    pub acks: Vec<BatchAck>,
    /// Broker name of the handles.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
}

/// Acknowledged messages of one checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BatchAck {
    /// Which of the offsets from [`Self::start_offset`] on: Base64 of Java's `BitSet.toByteArray`.
    #[serde(rename = "b", alias = "bitSet")]
    pub bit_set: String,
    /// Group name.
    #[serde(rename = "c", alias = "consumerGroup")]
    pub consumer_group: String,
    /// Invisible time, ms.
    #[serde(rename = "it", alias = "invisibleTime")]
    pub invisible_time: i64,
    /// Pop time, ms.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_time: i64,
    /// Queue number.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// `0` the topic itself, `1` or `2` its retry topic of version 1 or 2.
    #[serde(rename = "r", alias = "retry")]
    pub retry: String,
    /// Revive queue.
    #[serde(rename = "rq", alias = "reviveQueueId")]
    pub revive_queue_id: i32,
    /// First offset of the checkpoint.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// Topic, without the retry.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

/// Body of QUERY_ASSIGNMENT.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryAssignmentRequest {
    /// Who asks.
    pub client_id: String,
    /// Group name.
    pub consumer_group: String,
    /// Clustering or broadcasting.
    pub message_model: MessageModel,
    /// `AVG` or `AVG_BY_CIRCLE`.
    pub strategy_name: String,
    /// Topic name.
    pub topic: String,
}

/// Answer of QUERY_ASSIGNMENT; without a list the client keeps what it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryAssignmentAnswer {
    /// The client's queues.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_queue_assignments: Option<BTreeSet<MessageQueueAssignment>>,
}

/// One queue of a client.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MessageQueueAssignment {
    /// The queue; number -1 is every queue of the broker.
    pub message_queue: MessageQueue,
    /// How to consume it.
    #[serde(default)]
    pub mode: MessageRequestMode,
}

/// Body of SET_MESSAGE_REQUEST_MODE, and a row of `config/messageRequestMode.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SetMessageRequestModeRequest {
    /// Group name.
    pub consumer_group: String,
    /// How the group consumes the topic.
    pub mode: MessageRequestMode,
    /// How many neighbours share a client's queues; all of them when it is 0 or less.
    pub pop_share_queue_num: i32,
    /// Topic name.
    pub topic: String,
}

/// Modes by topic and group; also the shape of `config/messageRequestMode.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MessageRequestModes {
    /// Topic -> group -> mode.
    pub message_request_mode_map: BTreeMap<String, BTreeMap<String, SetMessageRequestModeRequest>>,
}
