//! Topic configuration tables.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::or_default;
use crate::protocol::model::{DataVersion, Perm, TopicFilterType};

/// Configuration of one topic on one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfig {
    /// `queue.type`, `cleanup.policy`, `message.type`, `reserve.time`.
    pub attributes: BTreeMap<String, String>,
    /// Producers keep an order across broker failures.
    pub order: bool,
    /// Permission bits.
    pub perm: Perm,
    /// Queues consumers see.
    pub read_queue_nums: i32,
    /// One tag a message, or several.
    #[serde(deserialize_with = "or_default")]
    pub topic_filter_type: TopicFilterType,
    /// Topic name.
    pub topic_name: String,
    /// Unit bits.
    pub topic_sys_flag: i32,
    /// Queues producers see.
    pub write_queue_nums: i32,
}

impl Default for TopicConfig {
    fn default() -> Self {
        Self {
            attributes: BTreeMap::new(),
            order: false,
            perm: Perm::READ_WRITE,
            read_queue_nums: 16,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_name: String::new(),
            topic_sys_flag: 0,
            write_queue_nums: 16,
        }
    }
}

/// Configuration of one topic on one broker with its static mapping, if it has one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TopicConfigAndQueueMapping {
    /// The configuration.
    #[serde(flatten)]
    pub config: TopicConfig,
    /// Told when the static mapping is asked for, of a static topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping_detail: Option<TopicQueueMappingDetail>,
}

impl From<TopicConfig> for TopicConfigAndQueueMapping {
    fn from(config: TopicConfig) -> Self {
        Self {
            config,
            mapping_detail: None,
        }
    }
}

/// A change of a static topic: what mqadmin's mapping files hold (Java's `TopicRemappingDetailWrapper`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicRemappingDetail {
    /// The topic by broker name.
    pub broker_config_map: BTreeMap<String, TopicConfigAndQueueMapping>,
    /// Brokers that get queues.
    pub broker_to_map_in: BTreeSet<String>,
    /// Brokers that give queues away.
    pub broker_to_map_out: BTreeSet<String>,
    /// Version of the mapping.
    pub epoch: i64,
    /// Topic name.
    pub topic: String,
    /// `CREATE_OR_UPDATE` or `REMAPPING`.
    pub r#type: String,
}

/// All topics of a broker (Java's `TopicConfigSerializeWrapper` and, with the mapping fields,
/// `TopicConfigAndMappingSerializeWrapper`); also the shape of `config/topics.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicConfigTable {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Version of the static topic mappings; absent from 4.x brokers and from the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping_data_version: Option<DataVersion>,
    /// Configuration by topic name.
    pub topic_config_table: BTreeMap<String, TopicConfig>,
    /// Static topics this broker hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_queue_mapping_detail_map: Option<BTreeMap<String, TopicQueueMappingDetail>>,
    /// Static topics this broker hosts, short form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic_queue_mapping_info_map: Option<BTreeMap<String, TopicQueueMappingInfo>>,
}

/// Body of UPDATE_AND_CREATE_TOPIC_LIST.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreateTopicList {
    /// Topics to create or change.
    pub topic_config_list: Vec<TopicConfig>,
}

/// Topic names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicList {
    /// Some broker of the answer, where Java gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_addr: Option<String>,
    /// The names.
    pub topic_list: BTreeSet<String>,
}

/// Static topic mapping of one broker, short form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicQueueMappingInfo {
    /// Broker name.
    pub bname: String,
    /// Physical queue by logical queue.
    pub curr_id_map: BTreeMap<i32, i32>,
    /// Changed since it was stored.
    pub dirty: bool,
    /// Version of the mapping.
    pub epoch: i64,
    /// `__global__` unless scoped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Topic name.
    pub topic: String,
    /// Logical queues over all brokers.
    pub total_queues: i32,
}

/// Static topic mapping of one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicQueueMappingDetail {
    /// Broker name.
    pub bname: String,
    /// Physical queue by logical queue.
    pub curr_id_map: BTreeMap<i32, i32>,
    /// Changed since it was stored.
    pub dirty: bool,
    /// Version of the mapping.
    pub epoch: i64,
    /// Generations by logical queue.
    pub hosted_queues: BTreeMap<i32, Vec<LogicQueueMappingItem>>,
    /// `__global__` unless scoped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Topic name.
    pub topic: String,
    /// Logical queues over all brokers.
    pub total_queues: i32,
}

/// One generation of a logical queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LogicQueueMappingItem {
    /// Broker name.
    pub bname: String,
    /// Exclusive end of the physical offsets; -1 while open.
    pub end_offset: i64,
    /// Generation.
    pub r#gen: i32,
    /// Logical offset of the first message.
    pub logic_offset: i64,
    /// Physical queue.
    pub queue_id: i32,
    /// Physical offset of the first message.
    pub start_offset: i64,
    /// Reserved.
    pub time_of_end: i64,
    /// Reserved.
    pub time_of_start: i64,
}

impl Default for LogicQueueMappingItem {
    fn default() -> Self {
        Self {
            bname: String::new(),
            end_offset: -1,
            r#gen: 0,
            logic_offset: 0,
            queue_id: 0,
            start_offset: 0,
            time_of_end: -1,
            time_of_start: -1,
        }
    }
}
