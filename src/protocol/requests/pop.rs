//! Pop consumers: messages handed out for a while, acknowledged one by one. The codes do not fit the binary header.

use serde::{Deserialize, Serialize};

use crate::protocol::body::{
    BatchAckRequest, MessageRequestModes, QueryAssignmentAnswer, QueryAssignmentRequest,
    SetMessageRequestModeRequest,
};
use crate::protocol::{Json, Records};
use crate::request;

/// Hand out messages of a topic, and hide them from the group's other clients for a while.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PopMessage {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number; any queue when negative.
    pub queue_id: i32,
    /// Most messages wanted.
    pub max_msg_nums: i32,
    /// How long they are hidden, ms.
    pub invisible_time: i64,
    /// How long to hold the request, ms.
    #[serde(default)]
    pub poll_time: i64,
    /// Client clock, ms.
    #[serde(default)]
    pub born_time: i64,
    /// Where a group without offsets begins; see [`Self::FROM_MIN`].
    #[serde(default)]
    pub init_mode: i32,
    /// `TAG` or `SQL92`; absent is `TAG`.
    #[serde(default)]
    pub exp_type: Option<String>,
    /// Tags or SQL; absent is all.
    #[serde(default)]
    pub exp: Option<String>,
    /// In order: a queue gives nothing more until its last messages are acknowledged.
    #[serde(default)]
    pub order: bool,
    /// Names one attempt of an ordered client, which may ask again for the same messages.
    #[serde(default)]
    pub attempt_id: Option<String>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(PopMessage = 200050 "POP_MESSAGE" (()) -> PopMessageReply, Records);

impl PopMessage {
    /// [`Self::init_mode`]: begin at the first message.
    pub const FROM_MIN: i32 = 0;
    /// [`Self::init_mode`]: begin at the last message.
    pub const FROM_MAX: i32 = 1;
}

/// What came with the messages. Clients read the numbers of every answer, refusals included.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PopMessageReply {
    /// How long the messages are hidden, ms.
    pub invisible_time: i64,
    /// `kind queue offset,offset…` joined by `;`.
    pub msg_offset_info: Option<String>,
    /// `kind queue count` or `kind qo<queue>%<offset> count` joined by `;`, of ordered pops.
    pub order_count_info: Option<String>,
    /// When they were handed out, ms.
    pub pop_time: i64,
    /// About how many messages are left.
    pub rest_num: i64,
    /// Revive queue of the checkpoint.
    pub revive_qid: i32,
    /// `kind queue start` joined by `;`.
    pub start_offset_info: Option<String>,
}

/// Acknowledge one message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AckMessage {
    /// Group name.
    pub consumer_group: String,
    /// Topic the message is stored in, which may be a retry topic.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// The message's handle (property `POP_CK`).
    pub extra_info: String,
    /// Queue offset.
    pub offset: i64,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(AckMessage = 200051 "ACK_MESSAGE" (()) -> (), ());

/// Acknowledge messages of several pops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchAckMessage;
request!(BatchAckMessage = 200151 "BATCH_ACK_MESSAGE" (Option<Json<BatchAckRequest>>) -> (), ());

/// Read messages without taking them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PeekMessage {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number; any queue when negative.
    pub queue_id: i32,
    /// Most messages wanted.
    pub max_msg_nums: i32,
}
request!(PeekMessage = 200052 "PEEK_MESSAGE" (()) -> PopMessageReply, Records);

/// Hide one message for another while, counted from now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeMessageInvisibletime {
    /// Group name.
    pub consumer_group: String,
    /// Topic the message is stored in, which may be a retry topic.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// The message's handle (property `POP_CK`).
    pub extra_info: String,
    /// Queue offset.
    pub offset: i64,
    /// How long from now, ms.
    pub invisible_time: i64,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(ChangeMessageInvisibletime = 200053 "CHANGE_MESSAGE_INVISIBLETIME" (()) -> ChangeMessageInvisibletimeReply, ());

/// Parts of the new handle. Clients read the numbers of every answer, refusals included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChangeMessageInvisibletimeReply {
    /// How long the message is hidden from `pop_time` on, ms.
    pub invisible_time: i64,
    /// From when on, ms.
    pub pop_time: i64,
    /// Revive queue of the checkpoint.
    pub revive_qid: i32,
}

/// Ask whether a pop would find something, and wait for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notification {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number; any queue when negative.
    pub queue_id: i32,
    /// How long to hold the request, ms.
    #[serde(default)]
    pub poll_time: i64,
    /// Client clock, ms.
    #[serde(default)]
    pub born_time: i64,
    /// An ordered pop is meant.
    #[serde(default)]
    pub order: bool,
    /// The attempt of the ordered pop.
    #[serde(default)]
    pub attempt_id: Option<String>,
}
request!(Notification = 200054 "NOTIFICATION" (()) -> NotificationReply, ());

/// Whether there is something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NotificationReply {
    /// A pop would find messages.
    pub has_msg: bool,
    /// Too many wait already, so this one did not.
    pub polling_full: bool,
}

/// How many pops of a queue wait.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PollingInfo {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number; -1 for pops of any queue.
    pub queue_id: i32,
}
request!(PollingInfo = 200055 "POLLING_INFO" (()) -> PollingInfoReply, ());

/// The number of waiting pops.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PollingInfoReply {
    /// How many.
    pub polling_num: i32,
}

/// Which queues a client shall consume, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryAssignment;
request!(QueryAssignment = 400 "QUERY_ASSIGNMENT" (Json<QueryAssignmentRequest>) -> (), Json<QueryAssignmentAnswer>);

/// Let a group consume a topic by pull or by pop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetMessageRequestMode;
request!(SetMessageRequestMode = 401 "SET_MESSAGE_REQUEST_MODE" (Json<SetMessageRequestModeRequest>) -> (), ());

/// How every group consumes every topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllMessageRequestMode;
request!(GetAllMessageRequestMode = 402 "GET_ALL_MESSAGE_REQUEST_MODE" (()) -> (), Json<MessageRequestModes>);
