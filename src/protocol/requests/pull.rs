//! Pulling messages.

use serde::{Deserialize, Serialize};

use crate::protocol::Records;
use crate::request;

/// Read messages of one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PullMessage {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// First offset wanted.
    pub queue_offset: i64,
    /// Most messages wanted.
    pub max_msg_nums: i32,
    /// Bit 0 commit the offset, 1 hold, 2 the subscription is in this header, 3 class filter, 4 lite pull.
    pub sys_flag: i32,
    /// Offset to commit, when the flag says so.
    #[serde(default)]
    pub commit_offset: i64,
    /// How long to hold, ms, when the flag says so.
    #[serde(default)]
    pub suspend_timeout_millis: i64,
    /// Tags or SQL, when the flag says so.
    #[serde(default)]
    pub subscription: Option<String>,
    /// Version of the client's subscription.
    #[serde(default)]
    pub sub_version: i64,
    /// `TAG` or `SQL92`; absent is `TAG`.
    #[serde(default)]
    pub expression_type: Option<String>,
    /// Most bytes wanted.
    #[serde(default)]
    pub max_msg_bytes: Option<i32>,
    /// Who asks, for forwarded pulls.
    #[serde(default)]
    pub request_source: Option<i32>,
    /// Client behind a proxy; spelt as Java spells it.
    #[serde(default)]
    pub proxy_froward_client_id: Option<String>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(PullMessage = 11 "PULL_MESSAGE" (()) -> PullMessageReply, Records);

impl PullMessage {
    /// [`Self::sys_flag`] bit: commit [`Self::commit_offset`].
    pub const COMMIT_OFFSET: i32 = 0x1;
    /// [`Self::sys_flag`] bit: hold the request when there is nothing.
    pub const SUSPEND: i32 = 0x2;
    /// [`Self::sys_flag`] bit: the subscription is in the header.
    pub const SUBSCRIPTION: i32 = 0x4;
    /// [`Self::sys_flag`] bit: filter by class.
    pub const CLASS_FILTER: i32 = 0x8;
    /// [`Self::sys_flag`] bit: a lite pull.
    pub const LITE_PULL: i32 = 0x10;
}

/// Read messages of one queue for a lite pull consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LitePullMessage(pub PullMessage);
request!(LitePullMessage = 361 "LITE_PULL_MESSAGE" (()) -> PullMessageReply, Records);

impl From<LitePullMessage> for PullMessage {
    fn from(header: LitePullMessage) -> Self {
        header.0
    }
}

/// Where to go on. Numbers are absent on errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PullMessageReply {
    /// Broker id to pull from next.
    pub suggest_which_broker_id: Option<i64>,
    /// Offset to go on at.
    pub next_begin_offset: Option<i64>,
    /// First offset of the queue.
    pub min_offset: Option<i64>,
    /// Exclusive end of the queue.
    pub max_offset: Option<i64>,
    /// Added to offsets in the records (static topics).
    pub offset_delta: Option<i64>,
    /// Topic system flag.
    pub topic_sys_flag: Option<i32>,
    /// Group system flag.
    pub group_sys_flag: Option<i32>,
    /// Why the pull is forbidden.
    pub forbidden_type: Option<i32>,
}
