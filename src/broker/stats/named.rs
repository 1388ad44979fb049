//! Figures under the names and keys of Java's `BrokerStatsManager` that need no field of their own on the hot path.

use std::sync::Arc;

use dashmap::DashMap;

use super::{Counted, Window, entry};

/// What is counted, by the parts of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// Messages put, by `topic@queue`; Java counts them for the topic of delayed messages alone.
    QueuePutNums,
    /// Bytes put, by `topic@queue`.
    QueuePutSize,
    /// Messages got, by `topic@queue@group`; Java counts them for the topic of delayed messages alone.
    QueueGetNums,
    /// Bytes got, by `topic@queue@group`.
    QueueGetSize,
    /// Milliseconds of puts, by `queue@topic`.
    TopicPutLatency,
    /// Milliseconds of gets, by `queue@topic@group`.
    GroupGetLatency,
    /// Acknowledged messages, by `topic@group`.
    GroupAckNums,
    /// Checkpoints of popped messages, by `topic@group`.
    GroupCkNums,
    /// Acknowledged messages, by cluster.
    BrokerAckNums,
    /// Checkpoints of popped messages, by cluster.
    BrokerCkNums,
    /// Milliseconds of taking consumers of heartbeats, by cluster.
    ConsumerRegisterTime,
    /// Milliseconds of taking producers of heartbeats, by cluster.
    ProducerRegisterTime,
    /// Connections that came and went, by `CONNECT` and `CLOSE`.
    ChannelActivity,
}

/// Each with its name and the places of topic and group in its key.
const ALL: [(Named, &str, Option<usize>, Option<usize>); 13] = [
    (Named::QueuePutNums, "QUEUE_PUT_NUMS", Some(0), None),
    (Named::QueuePutSize, "QUEUE_PUT_SIZE", Some(0), None),
    (Named::QueueGetNums, "QUEUE_GET_NUMS", Some(0), Some(2)),
    (Named::QueueGetSize, "QUEUE_GET_SIZE", Some(0), Some(2)),
    (Named::TopicPutLatency, "TOPIC_PUT_LATENCY", Some(1), None),
    (Named::GroupGetLatency, "GROUP_GET_LATENCY", Some(1), Some(2)),
    (Named::GroupAckNums, "GROUP_ACK_NUMS", Some(0), Some(1)),
    (Named::GroupCkNums, "GROUP_CK_NUMS", Some(0), Some(1)),
    (Named::BrokerAckNums, "BROKER_ACK_NUMS", None, None),
    (Named::BrokerCkNums, "BROKER_CK_NUMS", None, None),
    (Named::ConsumerRegisterTime, "CONSUMER_REGISTER_TIME", None, None),
    (Named::ProducerRegisterTime, "PRODUCER_REGISTER_TIME", None, None),
    (Named::ChannelActivity, "CHANNEL_ACTIVITY", None, None),
];

/// Java's name -> key -> what was counted.
#[derive(Debug, Default)]
pub struct NamedCounts {
    tables: [DashMap<String, Arc<Counted>>; ALL.len()],
}

impl NamedCounts {
    /// Counts one call with a value.
    pub fn add(&self, named: Named, key: &str, value: i64) {
        entry(&self.tables[named as usize], key).add(value);
    }

    /// Minute, hour and day under a name and key of Java's.
    pub fn windows(&self, name: &str, key: &str) -> Option<[Window; 3]> {
        let at = ALL.iter().position(|(_, java, ..)| *java == name)?;
        self.tables[at].get(key).map(|counted| counted.windows())
    }

    /// Takes a sample of everything.
    pub fn sample(&self, window: usize, now_ms: i64) {
        for counted in self.tables.iter().flatten() {
            counted.sample(window, now_ms);
        }
    }

    /// Forgets a topic.
    pub fn drop_topic(&self, topic: &str) {
        self.drop_where(topic, |(_, _, place, _)| *place);
    }

    /// Forgets a group.
    pub fn drop_group(&self, group: &str) {
        self.drop_where(group, |(_, _, _, place)| *place);
    }

    fn drop_where(
        &self,
        name: &str,
        place: impl Fn(&(Named, &str, Option<usize>, Option<usize>)) -> Option<usize>,
    ) {
        for (row, table) in ALL.iter().zip(&self.tables) {
            if let Some(place) = place(row) {
                table.retain(|key, _| key.split('@').nth(place) != Some(name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_javas_names_and_dropped_with_their_owners() {
        for (n, (named, ..)) in ALL.iter().enumerate() {
            assert_eq!(*named as usize, n, "{named:?}");
        }
        let counts = NamedCounts::default();
        counts.add(Named::TopicPutLatency, "0@t", 4);
        counts.add(Named::TopicPutLatency, "0@t", 2);
        counts.add(Named::GroupGetLatency, "1@t@g", 7);
        counts.add(Named::GroupAckNums, "u@g", 1);
        counts.add(Named::QueueGetNums, "t@1@h", 1);
        counts.add(Named::BrokerAckNums, "c", 1);
        for second in 0..2 {
            counts.sample(0, second * 10_000);
        }
        let [minute, ..] = counts.windows("TOPIC_PUT_LATENCY", "0@t").unwrap();
        assert_eq!((minute.sum, minute.avgpt), (6, 3.0));
        assert!(counts.windows("TOPIC_PUT_LATENCY", "1@t").is_none());
        assert!(counts.windows("NONSENSE", "0@t").is_none());
        counts.drop_group("g");
        for (name, key) in [("GROUP_GET_LATENCY", "1@t@g"), ("GROUP_ACK_NUMS", "u@g")] {
            assert!(counts.windows(name, key).is_none(), "{name}");
        }
        counts.drop_topic("t");
        for (name, key) in [("TOPIC_PUT_LATENCY", "0@t"), ("QUEUE_GET_NUMS", "t@1@h")] {
            assert!(counts.windows(name, key).is_none(), "{name}");
        }
        assert!(counts.windows("BROKER_ACK_NUMS", "c").is_some());
    }
}
