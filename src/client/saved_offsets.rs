//! Committed offsets of groups as a file: backup before each change, export, import to this or another cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::admin::cluster::BrokerAt;
use super::error::{Error, Server};
use super::{Client, Deadline};
use crate::protocol::requests::GetAllConsumerOffset;

/// The file's `kind`.
pub const KIND: &str = "Offsets";
/// The file's `api`.
pub const API: &str = "rmq/v1";

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedOffsets {
    /// Version of the form.
    pub api: String,
    /// What it is.
    pub kind: String,
    /// When the offsets were read, epoch ms.
    pub taken_at_ms: i64,
    /// Cluster they were read in.
    pub cluster: String,
    /// One entry a queue.
    pub offsets: Vec<SavedOffset>,
}

/// A group's place in one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SavedOffset {
    /// Group name.
    pub group: String,
    /// Topic name.
    pub topic: String,
    /// Broker name.
    pub broker: String,
    /// Queue number.
    pub queue: i32,
    /// Next message the group reads.
    pub offset: i64,
    /// Store time of that message, epoch ms; absent at the end of the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_ms: Option<i64>,
}

impl SavedOffsets {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: Self = serde_json::from_str(text).map_err(|e| e.to_string())?;
        if file.api != API || file.kind != KIND {
            return Err(format!(
                "it is \"{}\" \"{}\", not \"{API}\" \"{KIND}\"",
                file.api, file.kind
            ));
        }
        if let Some(bad) = file.offsets.iter().find(|o| o.offset < 0 || o.queue < 0) {
            return Err(format!(
                "offset {} in queue {}/{} of {} is no offset",
                bad.offset, bad.broker, bad.queue, bad.topic
            ));
        }
        Ok(file)
    }

    /// The file's text.
    pub fn text(&self) -> String {
        // Strings and numbers only: there is nothing that could fail.
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Offsets by broker and queue for each group and topic.
    pub fn by_topic(&self) -> BTreeMap<(String, String), BTreeMap<(String, i32), i64>> {
        let mut topics: BTreeMap<(String, String), BTreeMap<(String, i32), i64>> = BTreeMap::new();
        for one in &self.offsets {
            topics
                .entry((one.group.clone(), one.topic.clone()))
                .or_default()
                .insert((one.broker.clone(), one.queue), one.offset);
        }
        topics
    }

    /// The time at which a group goes on in a topic's queue: that queue's where the file has it, else the earliest
    /// of the topic. A group that stood at the end goes on where the file was taken.
    pub fn time_of(&self, group: &str, topic: &str, broker: &str, queue: i32) -> Option<i64> {
        let of_topic = || {
            self.offsets
                .iter()
                .filter(|o| o.group == group && o.topic == topic)
        };
        let time = |o: &SavedOffset| o.stored_ms.unwrap_or(self.taken_at_ms);
        of_topic()
            .find(|o| o.broker == broker && o.queue == queue)
            .map(time)
            .or_else(|| of_topic().map(time).min())
    }
}

/// Which offsets are meant.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Only these groups; empty for all.
    pub groups: BTreeSet<String>,
    /// Only this topic.
    pub topic: Option<String>,
}

impl Chosen {
    /// True when a group and topic are meant.
    pub fn has(&self, group: &str, topic: &str) -> bool {
        (self.groups.is_empty() || self.groups.contains(group))
            && self.topic.as_deref().is_none_or(|t| t == topic)
    }
}

impl Client {
    /// Committed offsets of one broker: `(group, topic, queue, offset)`.
    async fn broker_offsets(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<Vec<(String, String, i32, i64)>, Error> {
        let (_, table) = self.call(broker, &GetAllConsumerOffset, (), deadline).await?;
        let mut found = Vec::new();
        for (key, queues) in table.value.offset_table {
            // A retry topic has no `@`, a group name neither.
            let Some((topic, group)) = key.rsplit_once('@') else {
                continue;
            };
            for (queue, offset) in queues {
                found.push((group.to_owned(), topic.to_owned(), queue, offset));
            }
        }
        Ok(found)
    }

    /// Committed offsets on `brokers`; with the store time of each next message where `times` is set (one read a
    /// queue). One failing broker fails all: half a backup is none.
    pub async fn saved_offsets(
        &self,
        brokers: &[BrokerAt],
        chosen: &Chosen,
        times: bool,
    ) -> Result<SavedOffsets, Error> {
        let taken_at_ms = super::produce::now_ms();
        let deadline = self.deadline();
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let offsets = self.broker_offsets(&broker.server(), deadline).await?;
                Ok::<_, Error>((broker, offsets))
            })
            .await;
        let mut entries = Vec::new();
        for answer in answers {
            let (broker, offsets) = answer?;
            for (group, topic, queue, offset) in offsets {
                if chosen.has(&group, &topic) {
                    let entry = SavedOffset {
                        group,
                        topic,
                        broker: broker.id.name.clone(),
                        queue,
                        offset,
                        stored_ms: None,
                    };
                    entries.push((broker.server(), entry));
                }
            }
        }
        let mut offsets: Vec<SavedOffset> = self
            .each(entries, |(server, entry)| async move {
                if !times {
                    return entry;
                }
                // A request's own limit: there may be many thousand of them.
                let (topic, limit) = (entry.topic.clone(), self.deadline());
                let stored_ms = self
                    .first_stored(&server, &topic, entry.queue, entry.offset, limit)
                    .await;
                SavedOffset { stored_ms, ..entry }
            })
            .await;
        offsets.sort();
        let mut clusters: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
        clusters.dedup();
        Ok(SavedOffsets {
            api: API.into(),
            kind: KIND.into(),
            taken_at_ms,
            cluster: clusters.join(","),
            offsets,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SavedOffsets {
        let one = |queue, offset, stored_ms| SavedOffset {
            group: "G".into(),
            topic: "T".into(),
            broker: "b".into(),
            queue,
            offset,
            stored_ms,
        };
        SavedOffsets {
            api: API.into(),
            kind: KIND.into(),
            taken_at_ms: 900,
            cluster: "c".into(),
            offsets: vec![one(0, 5, Some(100)), one(1, 0, None)],
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        assert_eq!(SavedOffsets::parse(&file().text()), Ok(file()));
        assert!(SavedOffsets::parse("{}").is_err());
        let other = file().text().replace("Offsets", "Topics");
        assert!(SavedOffsets::parse(&other).unwrap_err().contains("Topics"));
        let negative = file().text().replace("\"offset\": 5", "\"offset\": -5");
        assert!(SavedOffsets::parse(&negative).is_err());
    }

    #[test]
    fn a_queue_that_the_file_lacks_goes_on_at_the_earliest_time_of_its_topic() {
        assert_eq!(file().time_of("G", "T", "b", 0), Some(100));
        assert_eq!(file().time_of("G", "T", "b", 1), Some(900));
        assert_eq!(file().time_of("G", "T", "other", 7), Some(100));
        assert_eq!(file().time_of("G", "U", "b", 0), None);
    }
}
