//! Consumer group configuration.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{SubscriptionData, lenient_enum};
use crate::protocol::model::DataVersion;

/// Configuration of one consumer group on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupConfig {
    /// Free attributes.
    pub attributes: BTreeMap<String, String>,
    /// Broker id that consumers are sent to.
    pub broker_id: i64,
    /// Broadcasting is allowed.
    pub consume_broadcast_enable: bool,
    /// Consuming is allowed.
    pub consume_enable: bool,
    /// Consuming from the minimum offset is allowed.
    pub consume_from_min_enable: bool,
    /// Retries keep the order.
    pub consume_message_orderly: bool,
    /// Minutes a message may be held before it is given back.
    pub consume_timeout_minute: i32,
    /// Group name.
    pub group_name: String,
    /// Delays between retries.
    pub group_retry_policy: GroupRetryPolicy,
    /// Unit bits.
    pub group_sys_flag: i32,
    /// Push code 40 when the group's clients change.
    pub notify_consumer_ids_changed_enable: bool,
    /// Retries before a message goes to the dead-letter topic.
    pub retry_max_times: i32,
    /// Queues of the retry topic; 0 gives nothing back.
    pub retry_queue_nums: i32,
    /// Fixed subscriptions, if configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data_set: Option<Vec<SimpleSubscriptionData>>,
    /// Broker id suggested to consumers that lag behind memory.
    pub which_broker_when_consume_slowly: i64,
}

impl Default for SubscriptionGroupConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            broker_id: 0,
            consume_broadcast_enable: true,
            consume_enable: true,
            consume_from_min_enable: true,
            consume_message_orderly: false,
            consume_timeout_minute: 15,
            group_name: String::new(),
            group_retry_policy: GroupRetryPolicy::default(),
            group_sys_flag: 0,
            notify_consumer_ids_changed_enable: true,
            retry_max_times: 16,
            retry_queue_nums: 1,
            subscription_data_set: None,
            which_broker_when_consume_slowly: 1,
        }
    }
}

/// A subscription fixed by configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SimpleSubscriptionData {
    /// Tags or SQL.
    pub expression: String,
    /// `TAG` or `SQL92`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression_type: Option<String>,
    /// Topic name.
    pub topic: String,
    /// Version of the subscription.
    pub version: i64,
}

/// Delays between retries of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupRetryPolicy {
    /// Delays listed one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub customized_retry_policy: Option<CustomizedRetryPolicy>,
    /// Delays that grow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exponential_retry_policy: Option<ExponentialRetryPolicy>,
    /// Which of the two counts.
    #[serde(rename = "type")]
    pub kind: GroupRetryPolicyType,
}

impl GroupRetryPolicy {
    /// Delay before the next retry of a message that was given back so often, ms; `None` when the group has no policy
    /// of its own and its retries go by the delay levels.
    pub fn delay_ms(&self, times: i32) -> Option<i64> {
        match self.kind {
            GroupRetryPolicyType::Exponential => {
                Some(self.exponential_retry_policy.as_ref()?.delay_ms(times))
            }
            GroupRetryPolicyType::Customized => self.customized_retry_policy.as_ref()?.delay_ms(times),
        }
    }
}

lenient_enum! {
    /// Kind of a retry policy.
    pub enum GroupRetryPolicyType {
        /// Doubling delays.
        Exponential = "EXPONENTIAL",
        /// Listed delays; the default.
        #[default]
        Customized = "CUSTOMIZED",
    }
}

/// Listed retry delays.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomizedRetryPolicy {
    /// Delay before each retry, ms; the last one repeats.
    pub next: Vec<i64>,
}

impl CustomizedRetryPolicy {
    /// As Java's `nextDelayDuration`: the first retry takes the third entry, those past the end take the last one.
    pub fn delay_ms(&self, times: i32) -> Option<i64> {
        let index = usize::try_from(times.max(0))
            .unwrap_or(usize::MAX)
            .saturating_add(2);
        self.next.get(index).or(self.next.last()).copied()
    }
}

/// Growing retry delays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExponentialRetryPolicy {
    /// First delay, ms.
    pub initial: i64,
    /// Longest delay, ms.
    pub max: i64,
    /// Growth per retry.
    pub multiplier: i64,
}

impl Default for ExponentialRetryPolicy {
    fn default() -> Self {
        Self {
            initial: 5_000,
            max: 7_200_000,
            multiplier: 2,
        }
    }
}

impl ExponentialRetryPolicy {
    /// As Java's `nextDelayDuration`, without its overflow.
    pub fn delay_ms(&self, times: i32) -> i64 {
        let power = self.multiplier.saturating_pow(times.clamp(0, 32).unsigned_abs());
        self.initial.saturating_mul(power).min(self.max)
    }
}

/// Bit of the forbidden table that takes reading away (Java's `PermName.INDEX_PERM_READ`).
pub const FORBID_READ: i32 = 1 << 2;

/// All groups of a broker; also the shape of `config/subscriptionGroup.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupTable {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Forbidden bits by group and topic.
    pub forbidden_table: BTreeMap<String, BTreeMap<String, i32>>,
    /// Configuration by group name.
    pub subscription_group_table: BTreeMap<String, SubscriptionGroupConfig>,
}

impl SubscriptionGroupTable {
    /// True when the group must not read the topic.
    pub fn forbids(&self, group: &str, topic: &str) -> bool {
        let bits = self
            .forbidden_table
            .get(group)
            .and_then(|topics| topics.get(topic));
        bits.is_some_and(|bits| bits & FORBID_READ != 0)
    }
}

/// Body of UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionGroupList {
    /// Groups to create or change.
    pub group_config_list: Vec<SubscriptionGroupConfig>,
}

/// Answer of UPDATE_AND_GET_GROUP_FORBIDDEN.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupForbidden {
    /// Group name.
    pub group: String,
    /// The group may read the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readable: Option<bool>,
    /// Topic name.
    pub topic: String,
}

/// Group names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupList {
    /// The names.
    pub group_list: BTreeSet<String>,
}

/// Answer of QUERY_SUBSCRIPTION_BY_CONSUMER.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuerySubscriptionAnswer {
    /// Group name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The subscription, if the group has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subscription_data: Option<SubscriptionData>,
    /// Topic name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
}
