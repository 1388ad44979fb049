//! Progress of groups and statistics of a broker.

use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::{BrokerStatsData, ConsumeStats, ConsumeStatsList, QueryConsumeTimeSpanAnswer};
use crate::request;

/// Progress of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GetConsumeStats {
    /// Group name.
    pub consumer_group: String,
    /// One topic; absent or empty for all.
    #[serde(default)]
    pub topic: Option<String>,
    /// Topics joined by `;`.
    #[serde(default)]
    pub topic_list: Option<String>,
}
request!(GetConsumeStats = 208 "GET_CONSUME_STATS" (()) -> (), Json<ConsumeStats>);

/// Progress of all groups of a broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetBrokerConsumeStats {
    /// Only topics with the order flag; absent is false.
    pub is_order: bool,
}
request!(GetBrokerConsumeStats = 317 "GET_BROKER_CONSUME_STATS" (()) -> (), Json<ConsumeStatsList>);

/// Times of a group's next messages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryConsumeTimeSpan {
    /// Topic name.
    pub topic: String,
    /// Group name.
    pub group: String,
}
request!(QueryConsumeTimeSpan = 303 "QUERY_CONSUME_TIME_SPAN" (()) -> (), Json<QueryConsumeTimeSpanAnswer>);

/// One statistic of a broker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ViewBrokerStatsData {
    /// Statistic, such as `TOPIC_PUT_NUMS`.
    pub stats_name: String,
    /// Topic, `topic@group` and so on.
    pub stats_key: String,
}
request!(ViewBrokerStatsData = 315 "VIEW_BROKER_STATS_DATA" (()) -> (), Json<BrokerStatsData>);
