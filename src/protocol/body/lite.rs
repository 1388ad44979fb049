//! Lite topics: many small topics under one parent, of brokers newer than 5.4.0.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::TopicOffset;

/// What a broker has of lite topics (Java's `GetBrokerLiteInfoResponseBody`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerLiteInfo {
    /// Light queues now.
    pub current_lmq_num: i32,
    /// Groups by the parent topic that they are bound to.
    #[serde(deserialize_with = "super::or_default")]
    pub group_meta: BTreeMap<String, BTreeSet<String>>,
    /// Subscriptions to lite topics now.
    pub lite_subscription_count: i32,
    /// Most light queues.
    pub max_lmq_num: i32,
    /// How consume queues are kept: `default`, `defaultRocksDB`, `Combine`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_type: Option<String>,
    /// Life of a lite topic without messages, minutes, by parent topic; -1 is forever.
    #[serde(deserialize_with = "super::or_default")]
    pub topic_meta: BTreeMap<String, i32>,
}

/// A parent topic on a broker (Java's `GetParentTopicInfoResponseBody`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentTopicInfo {
    /// Groups bound to it.
    #[serde(deserialize_with = "super::or_default")]
    pub groups: BTreeSet<String>,
    /// Its lite topics on the broker.
    pub lite_topic_count: i32,
    /// Light queues of the broker, of all parents.
    pub lmq_num: i32,
    /// Topic name.
    pub topic: String,
    /// Life of a lite topic without messages, minutes; -1 is forever.
    pub ttl: i32,
}

/// A lite topic on a broker (Java's `GetLiteTopicInfoResponseBody`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LiteTopicInfo {
    /// Name under its parent.
    pub lite_topic: String,
    /// The parent topic.
    pub parent_topic: String,
    /// The broker is the one that the name belongs to.
    pub sharding_to_broker: bool,
    /// Who subscribes to it at this broker.
    #[serde(deserialize_with = "super::or_default")]
    pub subscriber: BTreeSet<ClientGroup>,
    /// Its offsets.
    #[serde(deserialize_with = "super::or_default")]
    pub topic_offset: TopicOffset,
}

/// A client of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientGroup {
    /// Client id.
    pub client_id: String,
    /// Group name.
    pub group: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json::from_slice;

    /// Answers of a Java broker 5.5.0, with two messages in lite topic `one` and one in `two`.
    #[test]
    fn answers_of_java_are_read() {
        let broker: BrokerLiteInfo = from_slice(
            br#"{"cqTableSize":7,"currentLmqNum":2,"eventMapSize":0,"groupMeta":{},"liteSubscriptionCount":0,"maxLmqNum":20000,"offsetTableSize":0,"orderInfoCount":0,"storeType":"default","topicMeta":{"Sessions":60}}"#,
        )
        .unwrap();
        assert_eq!(broker.topic_meta["Sessions"], 60);
        assert_eq!((broker.current_lmq_num, broker.max_lmq_num), (2, 20_000));
        let parent: ParentTopicInfo =
            from_slice(br#"{"liteTopicCount":2,"lmqNum":2,"topic":"Sessions","ttl":60}"#).unwrap();
        assert_eq!((parent.lite_topic_count, parent.ttl), (2, 60));
        assert!(parent.groups.is_empty());
        let lite: LiteTopicInfo = from_slice(
            br#"{"liteTopic":"one","parentTopic":"Sessions","shardingToBroker":true,"subscriber":[],"topicOffset":{"lastUpdateTimestamp":1796041954203,"maxOffset":2,"minOffset":0}}"#,
        )
        .unwrap();
        assert!(lite.sharding_to_broker && lite.subscriber.is_empty());
        assert_eq!(
            (lite.topic_offset.min_offset, lite.topic_offset.max_offset),
            (0, 2)
        );
    }
}
