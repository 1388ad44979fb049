//! Consumer groups of a broker.

use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{
    GroupForbidden, QuerySubscriptionAnswer, SubscriptionGroupConfig, SubscriptionGroupList,
    SubscriptionGroupTable, TopicList,
};
use crate::request;

/// Create or change a group; no body changes nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateAndCreateSubscriptiongroup;
request!(UpdateAndCreateSubscriptiongroup = 200 "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP"
    (Option<Json<SubscriptionGroupConfig>>) -> (), ());

/// Create or change several groups.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateAndCreateSubscriptiongroupList;
request!(UpdateAndCreateSubscriptiongroupList = 225 "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST"
    (Json<SubscriptionGroupList>) -> (), ());

/// All groups of a broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetAllSubscriptiongroupConfig;
request!(GetAllSubscriptiongroupConfig = 201 "GET_ALL_SUBSCRIPTIONGROUP_CONFIG" (()) -> (), Json<SubscriptionGroupTable>);

/// One group of a broker; Java creates it where auto-create is on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetSubscriptiongroupConfig {
    /// Group name.
    pub group: String,
}
request!(GetSubscriptiongroupConfig = 352 "GET_SUBSCRIPTIONGROUP_CONFIG" (()) -> (), Json<SubscriptionGroupConfig>);

/// Delete a group from one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteSubscriptiongroup {
    /// Group name.
    pub group_name: String,
    /// With its offsets; absent is false.
    #[serde(default)]
    pub clean_offset: bool,
}
request!(DeleteSubscriptiongroup = 207 "DELETE_SUBSCRIPTIONGROUP" (()) -> (), ());

/// Forbid or allow a group to read a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateAndGetGroupForbidden {
    /// Group name.
    pub group: String,
    /// Topic name.
    pub topic: String,
    /// New state; absent only asks.
    #[serde(default)]
    pub readable: Option<bool>,
}
request!(UpdateAndGetGroupForbidden = 353 "UPDATE_AND_GET_GROUP_FORBIDDEN" (()) -> (), Json<GroupForbidden>);

/// Topics a group consumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryTopicsByConsumer {
    /// Group name.
    pub group: String,
}
request!(QueryTopicsByConsumer = 343 "QUERY_TOPICS_BY_CONSUMER" (()) -> (), Json<TopicList>);

/// A group's subscription to a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuerySubscriptionByConsumer {
    /// Group name.
    pub group: String,
    /// Topic name.
    #[serde(default)]
    pub topic: Option<String>,
}
request!(QuerySubscriptionByConsumer = 345 "QUERY_SUBSCRIPTION_BY_CONSUMER" (()) -> (), Json<QuerySubscriptionAnswer>);
