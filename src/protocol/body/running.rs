//! The inside of a running consumer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{SubscriptionData, lenient_enum};
use crate::protocol::model::MessageQueue;

/// What a consumer tells about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerRunningInfo {
    /// Thread dump, when it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jstack: Option<String>,
    /// State of popped queues.
    pub mq_pop_table: BTreeMap<MessageQueue, PopProcessQueueInfo>,
    /// State of pulled queues.
    pub mq_table: BTreeMap<MessageQueue, ProcessQueueInfo>,
    /// `PROP_…` entries.
    pub properties: BTreeMap<String, String>,
    /// Rates by topic.
    pub status_table: BTreeMap<String, ConsumeStatus>,
    /// Subscriptions.
    pub subscription_set: Vec<SubscriptionData>,
    /// What the application added.
    pub user_consumer_info: BTreeMap<String, String>,
}

/// State of a pulled queue in a consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProcessQueueInfo {
    /// Messages held.
    pub cached_msg_count: i32,
    /// Highest offset held.
    pub cached_msg_max_offset: i64,
    /// Lowest offset held.
    pub cached_msg_min_offset: i64,
    /// Size held.
    #[serde(rename = "cachedMsgSizeInMiB")]
    pub cached_msg_size_in_mib: i32,
    /// Committed offset.
    pub commit_offset: i64,
    /// The queue was taken away; spelt as Java spells it.
    pub droped: bool,
    /// Last consumed, ms.
    pub last_consume_timestamp: i64,
    /// Last locked, ms.
    pub last_lock_timestamp: i64,
    /// Last pulled, ms.
    pub last_pull_timestamp: i64,
    /// Locked by this client.
    pub locked: bool,
    /// Messages being consumed in order.
    pub transaction_msg_count: i32,
    /// Highest offset being consumed in order.
    pub transaction_msg_max_offset: i64,
    /// Lowest offset being consumed in order.
    pub transaction_msg_min_offset: i64,
    /// Failed unlocks.
    pub try_unlock_times: i64,
}

/// State of a popped queue in a consumer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PopProcessQueueInfo {
    /// The queue was taken away; spelt as Java spells it.
    pub droped: bool,
    /// Last popped, ms.
    pub last_pop_timestamp: i64,
    /// Messages not acknowledged.
    pub wait_ack_count: i32,
}

/// Rates of a consumer for one topic.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatus {
    /// Failures in the last hour.
    pub consume_failed_msgs: i64,
    /// Failures per second.
    #[serde(rename = "consumeFailedTPS")]
    pub consume_failed_tps: f64,
    /// Messages per second.
    #[serde(rename = "consumeOKTPS")]
    pub consume_ok_tps: f64,
    /// Time per message, ms.
    #[serde(rename = "consumeRT")]
    pub consume_rt: f64,
    /// Time per pull, ms.
    #[serde(rename = "pullRT")]
    pub pull_rt: f64,
    /// Messages pulled per second.
    #[serde(rename = "pullTPS")]
    pub pull_tps: f64,
}

/// What came of CONSUME_MESSAGE_DIRECTLY.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeMessageDirectlyResult {
    /// Offsets are committed by themselves.
    pub auto_commit: bool,
    /// The listener's verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_result: Option<ConsumeResult>,
    /// An orderly listener.
    pub order: bool,
    /// Exception text, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// How long it took, ms; spelt as Java spells it.
    pub spent_time_mills: i64,
}

impl Default for ConsumeMessageDirectlyResult {
    fn default() -> Self {
        Self {
            auto_commit: true,
            consume_result: None,
            order: false,
            remark: None,
            spent_time_mills: 0,
        }
    }
}

lenient_enum! {
    /// Verdict of a listener.
    pub enum ConsumeResult {
        /// Consumed.
        #[default]
        Success = "CR_SUCCESS",
        /// Try again.
        Later = "CR_LATER",
        /// Rolled back.
        Rollback = "CR_ROLLBACK",
        /// Committed.
        Commit = "CR_COMMIT",
        /// The listener failed.
        ThrowException = "CR_THROW_EXCEPTION",
        /// The listener returned nothing.
        ReturnNull = "CR_RETURN_NULL",
    }
}
