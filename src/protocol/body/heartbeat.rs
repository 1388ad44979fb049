//! Client heartbeats and what clients subscribe to.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::lenient_enum;

/// What a client tells every broker it knows, each 30 s.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HeartbeatData {
    /// Client id.
    #[serde(rename = "clientID")]
    pub client_id: String,
    /// Its consumer groups.
    pub consumer_data_set: Vec<ConsumerData>,
    /// Not 0 in a heartbeat of version 2.
    pub heartbeat_fingerprint: i32,
    /// Its producer groups.
    pub producer_data_set: Vec<ProducerData>,
    /// Version 2: subscriptions are as before and left out.
    pub without_sub: bool,
}

/// One consumer group of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerData {
    /// Where a group without offsets begins.
    pub consume_from_where: ConsumeFromWhere,
    /// Pull, push or pop.
    pub consume_type: ConsumeType,
    /// Group name.
    pub group_name: String,
    /// Clustering or broadcasting.
    pub message_model: MessageModel,
    /// What it subscribes to.
    pub subscription_data_set: Vec<SubscriptionData>,
    /// Unit bit.
    pub unit_mode: bool,
}

/// One producer group of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProducerData {
    /// Group name.
    pub group_name: String,
}

/// A group's subscription to one topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionData {
    /// Filter class mode, gone since 4.x.
    pub class_filter_mode: bool,
    /// Hash codes of [`Self::tags_set`].
    pub code_set: BTreeSet<i32>,
    /// `TAG` or `SQL92`.
    pub expression_type: String,
    /// Tags joined by `||`, `*`, or SQL.
    pub sub_string: String,
    /// Client clock of the last change, ms.
    pub sub_version: i64,
    /// Tags; empty for all.
    pub tags_set: BTreeSet<String>,
    /// Topic name.
    pub topic: String,
}

impl SubscriptionData {
    /// The expression type of tag subscriptions.
    pub const TAG: &'static str = "TAG";
    /// The expression type of SQL subscriptions.
    pub const SQL92: &'static str = "SQL92";
    /// The expression for all messages.
    pub const ALL: &'static str = "*";

    /// True when messages are selected by tags.
    pub fn is_tag(&self) -> bool {
        self.expression_type.is_empty() || self.expression_type == Self::TAG
    }
}

impl Default for SubscriptionData {
    fn default() -> Self {
        Self {
            class_filter_mode: false,
            code_set: BTreeSet::new(),
            expression_type: Self::TAG.to_owned(),
            sub_string: String::new(),
            sub_version: 0,
            tags_set: BTreeSet::new(),
            topic: String::new(),
        }
    }
}

lenient_enum! {
    /// How a group consumes.
    pub enum ConsumeType {
        /// Pull consumer.
        Actively = "CONSUME_ACTIVELY",
        /// Push consumer; the default.
        #[default]
        Passively = "CONSUME_PASSIVELY",
        /// Pop consumer.
        Pop = "CONSUME_POP",
    }
}

lenient_enum! {
    /// Whether clients of a group share its messages.
    pub enum MessageModel {
        /// Every client gets every message.
        Broadcasting = "BROADCASTING",
        /// Clients share; the default.
        #[default]
        Clustering = "CLUSTERING",
    }
}

lenient_enum! {
    /// Where a group without committed offsets begins.
    pub enum ConsumeFromWhere {
        /// At the end; the default.
        #[default]
        LastOffset = "CONSUME_FROM_LAST_OFFSET",
        /// Deprecated in Java.
        LastOffsetAndFromMinWhenBootFirst = "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        /// Deprecated in Java.
        MinOffset = "CONSUME_FROM_MIN_OFFSET",
        /// Deprecated in Java.
        MaxOffset = "CONSUME_FROM_MAX_OFFSET",
        /// At the beginning.
        FirstOffset = "CONSUME_FROM_FIRST_OFFSET",
        /// At a time.
        Timestamp = "CONSUME_FROM_TIMESTAMP",
    }
}

/// Body of CHECK_CLIENT_CONFIG.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckClientRequest {
    /// Client id.
    pub client_id: String,
    /// Group name.
    pub group: String,
    /// Namespace, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The subscription to check.
    pub subscription_data: SubscriptionData,
}
