//! Sending messages, giving them back, recalling delayed ones.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::protocol::model::{SysFlag, TBW102};
use crate::request;

/// Send one message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    /// Producer group.
    #[serde(default)]
    pub producer_group: String,
    /// Topic name.
    pub topic: String,
    /// Template topic for auto-create.
    #[serde(default = "default_topic")]
    pub default_topic: String,
    /// Queues the client wants on auto-create.
    #[serde(default = "default_topic_queue_nums")]
    pub default_topic_queue_nums: i32,
    /// Target queue; negative lets the broker pick.
    pub queue_id: i32,
    /// System flag.
    pub sys_flag: SysFlag,
    /// Client clock, ms.
    pub born_timestamp: i64,
    /// User flag, opaque.
    pub flag: i32,
    /// Properties in their text form.
    #[serde(default)]
    pub properties: String,
    /// How often it was given back; absent is 0.
    #[serde(default)]
    pub reconsume_times: i32,
    /// Unit bit; absent is false.
    #[serde(default)]
    pub unit_mode: bool,
    /// The body is a batch; absent is false.
    #[serde(default)]
    pub batch: bool,
    /// Retry limit of the group; sent to retry topics only.
    #[serde(default)]
    pub max_reconsume_times: Option<i32>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(SendMessage = 10 "SEND_MESSAGE" (Bytes) -> SendMessageReply, ());

fn default_topic() -> String {
    TBW102.to_owned()
}

fn default_topic_queue_nums() -> i32 {
    4
}

/// Where a message was stored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SendMessageReply {
    /// Offset message id; comma list for a batch.
    pub msg_id: String,
    /// Queue it is in.
    pub queue_id: i32,
    /// Offset in that queue; of the first message of a batch.
    pub queue_offset: i64,
    /// Unique key of a half message.
    pub transaction_id: Option<String>,
    /// Unique key of an inner batch.
    pub batch_uniq_id: Option<String>,
    /// Handle to recall a delayed message with.
    pub recall_handle: Option<String>,
    /// Region of the broker.
    #[serde(rename = "MSG_REGION")]
    pub msg_region: Option<String>,
    /// Tracing is on at the broker.
    #[serde(rename = "TRACE_ON")]
    pub trace_on: Option<bool>,
}

/// [`SendMessage`] with one-letter names; what clients send by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendMessageV2 {
    /// Producer group.
    #[serde(rename = "a", default)]
    pub producer_group: String,
    /// Topic name.
    #[serde(rename = "b")]
    pub topic: String,
    /// Template topic for auto-create.
    #[serde(rename = "c", default = "default_topic")]
    pub default_topic: String,
    /// Queues the client wants on auto-create.
    #[serde(rename = "d", default = "default_topic_queue_nums")]
    pub default_topic_queue_nums: i32,
    /// Target queue; negative lets the broker pick.
    #[serde(rename = "e")]
    pub queue_id: i32,
    /// System flag.
    #[serde(rename = "f")]
    pub sys_flag: SysFlag,
    /// Client clock, ms.
    #[serde(rename = "g")]
    pub born_timestamp: i64,
    /// User flag, opaque.
    #[serde(rename = "h")]
    pub flag: i32,
    /// Properties in their text form.
    #[serde(rename = "i", default)]
    pub properties: String,
    /// How often it was given back; absent is 0.
    #[serde(rename = "j", default)]
    pub reconsume_times: i32,
    /// Unit bit; absent is false.
    #[serde(rename = "k", default)]
    pub unit_mode: bool,
    /// Retry limit of the group; sent to retry topics only.
    #[serde(rename = "l", default)]
    pub max_reconsume_times: Option<i32>,
    /// The body is a batch; absent is false.
    #[serde(rename = "m", default)]
    pub batch: bool,
    /// Broker name the client believes it talks to.
    #[serde(rename = "n", default)]
    pub bname: Option<String>,
}
request!(SendMessageV2 = 310 "SEND_MESSAGE_V2" (Bytes) -> SendMessageReply, ());

macro_rules! same_fields {
    ($from:ident -> $to:ident) => {
        impl From<$from> for $to {
            fn from(header: $from) -> Self {
                Self {
                    producer_group: header.producer_group,
                    topic: header.topic,
                    default_topic: header.default_topic,
                    default_topic_queue_nums: header.default_topic_queue_nums,
                    queue_id: header.queue_id,
                    sys_flag: header.sys_flag,
                    born_timestamp: header.born_timestamp,
                    flag: header.flag,
                    properties: header.properties,
                    reconsume_times: header.reconsume_times,
                    unit_mode: header.unit_mode,
                    batch: header.batch,
                    max_reconsume_times: header.max_reconsume_times,
                    bname: header.bname,
                }
            }
        }
    };
}
same_fields!(SendMessageV2 -> SendMessage);
same_fields!(SendMessage -> SendMessageV2);

macro_rules! letters_too {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub SendMessageV2);

        impl From<$name> for SendMessage {
            fn from(header: $name) -> Self {
                header.0.into()
            }
        }

        impl From<SendMessage> for $name {
            fn from(header: SendMessage) -> Self {
                Self(header.into())
            }
        }
    };
}

letters_too! {
    /// Send several messages of one topic in one body.
    SendBatchMessage
}
request!(SendBatchMessage = 320 "SEND_BATCH_MESSAGE" (Bytes) -> SendMessageReply, ());

/// Answer a message of the request-reply style.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SendReplyMessage(pub SendMessage);
request!(SendReplyMessage = 324 "SEND_REPLY_MESSAGE" (Bytes) -> SendMessageReply, ());

impl From<SendReplyMessage> for SendMessage {
    fn from(header: SendReplyMessage) -> Self {
        header.0
    }
}

letters_too! {
    /// [`SendReplyMessage`] with one-letter names.
    SendReplyMessageV2
}
request!(SendReplyMessageV2 = 325 "SEND_REPLY_MESSAGE_V2" (Bytes) -> SendMessageReply, ());

/// Broker to client: the reply to its request message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushReplyMessageToClient {
    /// Producer group that asked.
    pub producer_group: String,
    /// Topic of the reply.
    pub topic: String,
    /// Template topic, unused.
    #[serde(default = "default_topic")]
    pub default_topic: String,
    /// Unused.
    #[serde(default = "default_topic_queue_nums")]
    pub default_topic_queue_nums: i32,
    /// Queue of the reply.
    pub queue_id: i32,
    /// System flag.
    pub sys_flag: SysFlag,
    /// Client clock, ms.
    pub born_timestamp: i64,
    /// User flag, opaque.
    pub flag: i32,
    /// Properties in their text form.
    #[serde(default)]
    pub properties: String,
    /// Absent is 0.
    #[serde(default)]
    pub reconsume_times: i32,
    /// Absent is false.
    #[serde(default)]
    pub unit_mode: bool,
    /// `ip:port` of the replier.
    pub born_host: String,
    /// `ip:port` of the broker.
    pub store_host: String,
    /// Broker clock, ms.
    pub store_timestamp: i64,
}
request!(PushReplyMessageToClient = 326 "PUSH_REPLY_MESSAGE_TO_CLIENT" (Bytes) -> (), ());

/// Give a message back for a later retry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerSendMsgBack {
    /// Commit log offset of the message.
    pub offset: i64,
    /// Group that gives it back.
    pub group: String,
    /// Delay level of the retry; 0 lets the broker choose, negative goes to the dead-letter topic.
    pub delay_level: i32,
    /// Offset message id.
    #[serde(default)]
    pub origin_msg_id: Option<String>,
    /// Topic it was consumed from.
    #[serde(default)]
    pub origin_topic: Option<String>,
    /// Unit bit; absent is false.
    #[serde(default)]
    pub unit_mode: bool,
    /// Retry limit; absent takes the group's.
    #[serde(default)]
    pub max_reconsume_times: Option<i32>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(ConsumerSendMsgBack = 36 "CONSUMER_SEND_MSG_BACK" (()) -> (), ());

/// Take back a delayed message before it is delivered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecallMessage {
    /// Producer group.
    #[serde(default)]
    pub producer_group: Option<String>,
    /// Topic it was sent to.
    pub topic: String,
    /// Handle from the send answer.
    pub recall_handle: String,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(RecallMessage = 370 "RECALL_MESSAGE" (()) -> RecallMessageReply, ());

/// Id of the recalled message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecallMessageReply {
    /// Unique key.
    pub msg_id: String,
    /// Region of the broker.
    #[serde(rename = "MSG_REGION")]
    pub msg_region: Option<String>,
}
