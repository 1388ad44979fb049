//! Queue offsets and committed offsets.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::protocol::Json;
use crate::protocol::body::{
    ConsumerOffsets, ConsumerStatus, DelayOffsets, QueryCorrectionOffsetAnswer, ResetOffset, ResetOffsetPush,
};
use crate::request;

/// A queue offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OffsetReply {
    /// The offset.
    pub offset: i64,
}

/// Committed offset of a group in one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryConsumerOffset {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// Answer 0 instead of "not found" where that is safe; absent is true.
    #[serde(default)]
    pub set_zero_if_not_found: Option<bool>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(QueryConsumerOffset = 14 "QUERY_CONSUMER_OFFSET" (()) -> OffsetReply, ());

/// Commit an offset of a group in one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateConsumerOffset {
    /// Group name.
    pub consumer_group: String,
    /// Topic name.
    pub topic: String,
    /// Queue number; its absence has an answer of its own.
    #[serde(default)]
    pub queue_id: Option<i32>,
    /// Offset; its absence has an answer of its own.
    #[serde(default)]
    pub commit_offset: Option<i64>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(UpdateConsumerOffset = 15 "UPDATE_CONSUMER_OFFSET" (()) -> (), ());

/// Which end of a run of equal times is meant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Boundary {
    /// The first message at or after the time.
    #[default]
    Lower,
    /// The last message at or before the time.
    Upper,
}

impl Serialize for Boundary {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(match self {
            Self::Lower => "LOWER",
            Self::Upper => "UPPER",
        })
    }
}

impl<'de> Deserialize<'de> for Boundary {
    /// Any case; anything else is `LOWER`, as in Java's `BoundaryType.getType`.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let upper = String::deserialize(deserializer)?.eq_ignore_ascii_case("upper");
        Ok(if upper { Self::Upper } else { Self::Lower })
    }
}

/// Offset of a time in one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SearchOffsetByTimestamp {
    /// Topic name.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// Time, ms.
    pub timestamp: i64,
    /// Which end; absent is `LOWER`.
    #[serde(default)]
    pub boundary_type: Boundary,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(SearchOffsetByTimestamp = 29 "SEARCH_OFFSET_BY_TIMESTAMP" (()) -> OffsetReply, ());

/// End of one queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetMaxOffset {
    /// Topic name.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// Count committed messages only; absent is true.
    #[serde(default = "yes")]
    pub committed: bool,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(GetMaxOffset = 30 "GET_MAX_OFFSET" (()) -> OffsetReply, ());

fn yes() -> bool {
    true
}

impl Default for GetMaxOffset {
    fn default() -> Self {
        Self {
            topic: String::new(),
            queue_id: 0,
            committed: true,
            bname: None,
        }
    }
}

/// Begin of one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetMinOffset {
    /// Topic name.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(GetMinOffset = 31 "GET_MIN_OFFSET" (()) -> OffsetReply, ());

/// Store time of the oldest message of one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetEarliestMsgStoretime {
    /// Topic name.
    pub topic: String,
    /// Queue number.
    pub queue_id: i32,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(GetEarliestMsgStoretime = 32 "GET_EARLIEST_MSG_STORETIME" (()) -> TimestampReply, ());

/// A time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimestampReply {
    /// The time, ms; -1 if there is none.
    pub timestamp: i64,
}

/// Committed offsets of all groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllConsumerOffset;
request!(GetAllConsumerOffset = 43 "GET_ALL_CONSUMER_OFFSET" (()) -> (), Json<ConsumerOffsets>);

/// Delivered offsets of the delay levels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllDelayOffset;
request!(GetAllDelayOffset = 45 "GET_ALL_DELAY_OFFSET" (()) -> (), Json<DelayOffsets>);

/// Set a group back or forward in a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokeBrokerToResetOffset {
    /// Topic name.
    pub topic: String,
    /// Group name.
    pub group: String,
    /// Queue number; -1 for all.
    #[serde(default = "minus_one")]
    pub queue_id: i32,
    /// New offset, when one queue is named.
    #[serde(default)]
    pub offset: Option<i64>,
    /// Time to go to, ms; -1 for the end.
    #[serde(default = "minus_one_long")]
    pub timestamp: i64,
    /// Also go forward.
    #[serde(default)]
    pub is_force: bool,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(InvokeBrokerToResetOffset = 222 "INVOKE_BROKER_TO_RESET_OFFSET" (()) -> (), Json<ResetOffset>);

fn minus_one() -> i32 {
    -1
}

fn minus_one_long() -> i64 {
    -1
}

impl Default for InvokeBrokerToResetOffset {
    fn default() -> Self {
        Self {
            topic: String::new(),
            group: String::new(),
            queue_id: -1,
            offset: None,
            timestamp: -1,
            is_force: false,
            bname: None,
        }
    }
}

/// Broker to client: go on at these offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ResetConsumerClientOffset(pub InvokeBrokerToResetOffset);
request!(ResetConsumerClientOffset = 220 "RESET_CONSUMER_CLIENT_OFFSET" (ResetOffsetPush) -> (), ());

/// Ask a group's clients for their offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InvokeBrokerToGetConsumerStatus {
    /// Topic name.
    pub topic: String,
    /// Group name.
    pub group: String,
    /// Client id to ask; absent asks all.
    #[serde(default)]
    pub client_addr: Option<String>,
}
request!(InvokeBrokerToGetConsumerStatus = 223 "INVOKE_BROKER_TO_GET_CONSUMER_STATUS" (()) -> (), Json<ConsumerStatus>);

/// Broker to client: tell your offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GetConsumerStatusFromClient(pub InvokeBrokerToGetConsumerStatus);
request!(GetConsumerStatusFromClient = 221 "GET_CONSUMER_STATUS_FROM_CLIENT" (()) -> (), Json<ConsumerStatus>);

/// Smallest offset of other groups.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryCorrectionOffset {
    /// Groups to leave out, joined by commas.
    #[serde(default)]
    pub filter_groups: Option<String>,
    /// Group to compare with.
    pub compare_group: String,
    /// Topic name.
    pub topic: String,
}
request!(QueryCorrectionOffset = 308 "QUERY_CORRECTION_OFFSET" (()) -> (), Json<QueryCorrectionOffsetAnswer>);

/// Give one group the offsets of another.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CloneGroupOffset {
    /// Group to read.
    pub src_group: String,
    /// Group to write.
    pub dest_group: String,
    /// Topic; absent for all.
    #[serde(default)]
    pub topic: Option<String>,
    /// Unused by the broker.
    #[serde(default)]
    pub offline: bool,
}
request!(CloneGroupOffset = 314 "CLONE_GROUP_OFFSET" (()) -> (), ());
