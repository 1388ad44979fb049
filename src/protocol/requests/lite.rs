//! Lite topics, of brokers newer than 5.4.0. Older ones answer that they do not know the code.

use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{BrokerLiteInfo, LiteTopicInfo, ParentTopicInfo};
use crate::request;

/// What a broker has of lite topics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBrokerLiteInfo;
request!(GetBrokerLiteInfo = 200_074 "GET_BROKER_LITE_INFO" (()) -> (), Json<BrokerLiteInfo>);

/// A parent topic on a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetParentTopicInfo {
    /// Topic name.
    pub topic: String,
}
request!(GetParentTopicInfo = 200_075 "GET_PARENT_TOPIC_INFO" (()) -> (), Json<ParentTopicInfo>);

/// A lite topic on a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetLiteTopicInfo {
    /// The parent topic.
    pub parent_topic: String,
    /// Name under it.
    pub lite_topic: String,
}
request!(GetLiteTopicInfo = 200_076 "GET_LITE_TOPIC_INFO" (()) -> (), Json<LiteTopicInfo>);
