//! What the store screens ask a broker in place of its files, as plain data. Every request is a read: ends (30, 31),
//! entries (321), records (33), queues (202) and positions (300, 208) of a topic, topic names (206).
//! Positions are a question of their own, so that the list of queues never waits for a group.

use super::question::{At, What};

/// A question about one topic of a broker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Question {
    /// The topics of the cluster.
    Topics,
    /// The queues of a topic on every master.
    Topic {
        /// The topic.
        topic: String,
        /// Name of the broker; empty when that is not known yet.
        broker: String,
    },
    /// Who has read how far in a topic on one broker.
    Positions {
        /// The topic.
        topic: String,
        /// Name of the broker.
        broker: String,
    },
    /// Entries of a queue around a place, with their records.
    Queue {
        /// Name of the broker.
        broker: String,
        /// The topic.
        topic: String,
        /// The number.
        queue: i32,
        /// The place.
        at: At,
    },
    /// The bytes of a record and what they mean.
    Record {
        /// Name of the broker.
        broker: String,
        /// The topic, by which the broker is found.
        topic: String,
        /// Physical offset.
        at: u64,
    },
}

impl Question {
    /// The broker that is asked; empty when there is none, or it is not known yet.
    pub fn broker(&self) -> &str {
        match self {
            Self::Topics => "",
            Self::Topic { broker, .. }
            | Self::Positions { broker, .. }
            | Self::Queue { broker, .. }
            | Self::Record { broker, .. } => broker,
        }
    }

    /// The question that is put to files instead; there positions come with the queues.
    pub fn what(&self) -> Option<What> {
        Some(match self {
            Self::Positions { .. } => return None,
            Self::Topics => What::Topics,
            Self::Topic { topic, .. } => What::Topic(topic.clone()),
            Self::Queue { topic, queue, at, .. } => What::Queue {
                topic: topic.clone(),
                queue: *queue,
                at: *at,
            },
            Self::Record { at, .. } => What::Record(*at),
        })
    }
}
