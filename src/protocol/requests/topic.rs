//! Topics of a broker.

use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{
    CreateTopicList, GroupList, TopicConfigAndQueueMapping, TopicConfigTable, TopicList,
    TopicQueueMappingDetail, TopicStatsTable,
};
use crate::protocol::model::{Perm, TBW102, TopicFilterType};
use crate::request;

/// Create a topic on one broker, or change it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAndCreateTopic {
    /// Topic name.
    pub topic: String,
    /// Template topic, unused by the broker.
    #[serde(default)]
    pub default_topic: String,
    /// Queues consumers see.
    pub read_queue_nums: i32,
    /// Queues producers see.
    pub write_queue_nums: i32,
    /// Permission bits.
    pub perm: Perm,
    /// One tag a message, or several.
    pub topic_filter_type: TopicFilterType,
    /// Unit bits; absent is 0.
    #[serde(default)]
    pub topic_sys_flag: i32,
    /// Producers keep an order across broker failures; absent is false.
    #[serde(default)]
    pub order: bool,
    /// `+key=value` to set, `-key` to remove, joined by commas.
    #[serde(default)]
    pub attributes: Option<String>,
    /// Skip the checks of a retry topic; absent is false.
    #[serde(default)]
    pub force: bool,
}
request!(UpdateAndCreateTopic = 17 "UPDATE_AND_CREATE_TOPIC" (()) -> (), ());

impl Default for UpdateAndCreateTopic {
    fn default() -> Self {
        Self {
            topic: String::new(),
            default_topic: TBW102.to_owned(),
            read_queue_nums: 8,
            write_queue_nums: 8,
            perm: Perm::READ_WRITE,
            topic_filter_type: TopicFilterType::SingleTag,
            topic_sys_flag: 0,
            order: false,
            attributes: None,
            force: false,
        }
    }
}

/// Create or change several topics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateAndCreateTopicList;
request!(UpdateAndCreateTopicList = 18 "UPDATE_AND_CREATE_TOPIC_LIST" (Json<CreateTopicList>) -> (), ());

/// Create or change a static topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UpdateAndCreateStaticTopic(pub UpdateAndCreateTopic);
request!(UpdateAndCreateStaticTopic = 513 "UPDATE_AND_CREATE_STATIC_TOPIC" (Json<TopicQueueMappingDetail>) -> (), ());

/// Delete a topic from one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteTopicInBroker {
    /// Topic name; a blank one has an answer of its own.
    pub topic: String,
}
request!(DeleteTopicInBroker = 215 "DELETE_TOPIC_IN_BROKER" (()) -> (), ());

/// All topics of a broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllTopicConfig;
request!(GetAllTopicConfig = 21 "GET_ALL_TOPIC_CONFIG" (()) -> (), Json<TopicConfigTable>);

/// One topic of a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTopicConfig {
    /// Topic name.
    pub topic: String,
    /// With the static mapping.
    #[serde(default)]
    pub lo: Option<bool>,
}
request!(GetTopicConfig = 351 "GET_TOPIC_CONFIG" (()) -> (), Json<TopicConfigAndQueueMapping>);

/// Offset ranges of a topic's queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetTopicStatsInfo {
    /// Topic name.
    pub topic: String,
}
request!(GetTopicStatsInfo = 202 "GET_TOPIC_STATS_INFO" (()) -> (), Json<TopicStatsTable>);

/// Groups that consume a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryTopicConsumeByWho {
    /// Topic name.
    pub topic: String,
}
request!(QueryTopicConsumeByWho = 300 "QUERY_TOPIC_CONSUME_BY_WHO" (()) -> (), Json<GroupList>);

/// System topics of a broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSystemTopicListFromBroker;
request!(GetSystemTopicListFromBroker = 305 "GET_SYSTEM_TOPIC_LIST_FROM_BROKER" (()) -> (), Json<TopicList>);
