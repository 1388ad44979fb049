//! Statistics of topics, groups, queues and the broker.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SubscriptionData;
use crate::protocol::model::MessageQueue;

/// Offset ranges of a topic's queues.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatsTable {
    /// Range by queue.
    pub offset_table: BTreeMap<MessageQueue, TopicOffset>,
    /// Messages per second.
    pub topic_put_tps: f64,
}

/// Offset range of one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicOffset {
    /// Store time of the last message, ms.
    pub last_update_timestamp: i64,
    /// Exclusive end.
    pub max_offset: i64,
    /// First offset still there.
    pub min_offset: i64,
}

/// Progress of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStats {
    /// Messages per second.
    pub consume_tps: f64,
    /// Progress by queue.
    pub offset_table: BTreeMap<MessageQueue, OffsetWrapper>,
}

/// Progress of a group in one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OffsetWrapper {
    /// End of the queue.
    pub broker_offset: i64,
    /// Committed offset.
    pub consumer_offset: i64,
    /// Store time of the last consumed message, ms.
    pub last_timestamp: i64,
    /// Pulled offset.
    pub pull_offset: i64,
}

impl OffsetWrapper {
    /// Messages not yet committed.
    pub const fn lag(&self) -> i64 {
        self.broker_offset.saturating_sub(self.consumer_offset)
    }

    /// Messages pulled and not yet committed.
    pub const fn in_flight(&self) -> i64 {
        self.pull_offset.saturating_sub(self.consumer_offset)
    }
}

/// Progress of all groups of a broker.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeStatsList {
    /// Broker address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    /// One map per group: its name and its topics' progress.
    pub consume_stats_list: Vec<BTreeMap<String, Vec<ConsumeStats>>>,
    /// Lag over all.
    pub total_diff: i64,
    /// Pulled and not committed over all.
    pub total_inflight_diff: i64,
}

/// Answer of QUERY_CONSUME_TIME_SPAN.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryConsumeTimeSpanAnswer {
    /// One entry a queue.
    pub consume_time_span_set: Vec<QueueTimeSpan>,
}

/// Times of one queue's messages. The `_str` fields are texts of the same times, which Java adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueueTimeSpan {
    /// Store time of the group's next message, ms.
    pub consume_time_stamp: i64,
    /// As text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consume_time_stamp_str: Option<String>,
    /// Age of the group's next message, ms.
    pub delay_time: i64,
    /// Store time of the last message, ms.
    pub max_time_stamp: i64,
    /// As text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_time_stamp_str: Option<String>,
    /// Which queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_queue: Option<MessageQueue>,
    /// Store time of the first message, ms.
    pub min_time_stamp: i64,
    /// As text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_time_stamp_str: Option<String>,
}

/// One statistic over three spans.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsData {
    /// Last day.
    pub stats_day: BrokerStatsItem,
    /// Last hour.
    pub stats_hour: BrokerStatsItem,
    /// Last minute.
    pub stats_minute: BrokerStatsItem,
}

/// A sum and its rates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatsItem {
    /// Average per event.
    pub avgpt: f64,
    /// Total.
    pub sum: i64,
    /// Per second.
    pub tps: f64,
}

/// Answer of QUERY_CONSUME_QUEUE.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryConsumeQueueAnswer {
    /// Filter data as JSON text, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_data: Option<String>,
    /// Exclusive end of the queue.
    pub max_queue_index: i64,
    /// First entry of the queue.
    pub min_queue_index: i64,
    /// The entries asked for.
    pub queue_data: Vec<ConsumeQueueData>,
    /// The group's subscription, if it is online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<SubscriptionData>,
}

/// One consume queue entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumeQueueData {
    /// Filter bit map, if stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bit_map: Option<String>,
    /// The subscription matches.
    pub eval: bool,
    /// Extension unit as JSON text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_data_json: Option<String>,
    /// Why the entry could not be evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msg: Option<String>,
    /// Commit log offset.
    pub physic_offset: i64,
    /// Record size.
    pub physic_size: i32,
    /// Hash of the tag.
    pub tags_code: i64,
}

/// Answer of GET_COLD_DATA_FLOW_CTR_INFO.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ColdDataFlowInfo {
    /// Default bytes a group may read cold per interval.
    pub cg_cold_read_threshold: i64,
    /// Threshold by group.
    pub config_table: BTreeMap<String, i64>,
    /// Bytes read cold in this interval.
    pub global_acc: i64,
    /// Bytes all groups may read cold per interval.
    pub global_cold_read_threshold: i64,
    /// Groups that read cold data.
    pub runtime_table: BTreeMap<String, ColdDataAccount>,
}

/// Cold reads of one group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ColdDataAccount {
    /// Bytes in this interval.
    pub cold_acc: i64,
    /// Begin of the account, ms.
    pub create_time_mills: i64,
    /// Last cold read, ms.
    pub last_cold_read_time_mills: i64,
}
