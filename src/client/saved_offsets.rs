//! Committed offsets of groups as a file: backup before each change, export, import to this or another cluster.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::admin::cluster::BrokerAt;
use super::admin::group::{is_system, position_key};
use super::admin::message::QueueAt;
use super::error::{Error, Server};
use super::{Client, Deadline};
use crate::protocol::codes;
use crate::protocol::requests::GetAllConsumerOffset;

/// The file's `kind`.
pub const KIND: &str = "Offsets";
/// The file's `api`.
pub const API: &str = "rmq/v1";

/// The file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedOffsets {
    /// Version of the form, under the name that every JSON answer has it; `api` in files of older versions.
    #[serde(rename = "apiVersion", alias = "api")]
    pub api: String,
    /// What it is.
    pub kind: String,
    /// When the offsets were read, epoch ms.
    pub taken_at_ms: i64,
    /// Cluster they were read in.
    pub cluster: String,
    /// Name servers of that cluster, in order; only in what is kept for an undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub name_servers: Vec<String>,
    /// Groups and topics that were about to be moved, also those without a position; only in what is kept for an undo.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<(String, String)>,
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
    /// Store time of that message, epoch ms; at the end of the queue that of the message before it. Absent where it
    /// was not asked for, where the topic is gone, where its queue is behind the read queues and where no such message is stored.
    #[serde(
        default,
        alias = "stored_ms",
        rename = "stored_at_ms",
        skip_serializing_if = "Option::is_none"
    )]
    pub stored_ms: Option<i64>,
    /// The group had read everything.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_end: bool,
}

impl SavedOffset {
    /// The time from which on the group has messages to read.
    fn goes_on_at(&self) -> Option<i64> {
        self.stored_ms
            .map(|ms| if self.at_end { ms.saturating_add(1) } else { ms })
    }

    /// True when the file does not say at what time the group goes on.
    pub fn is_untimed(&self) -> bool {
        self.stored_ms.is_none() && !self.at_end
    }
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
    /// of the topic. A group that had read everything of queues that were empty goes on at their begin.
    pub fn time_of(&self, group: &str, topic: &str, broker: &str, queue: i32) -> Option<i64> {
        let of_topic = || {
            self.offsets
                .iter()
                .filter(|o| o.group == group && o.topic == topic)
        };
        of_topic()
            .find(|o| o.broker == broker && o.queue == queue)
            .and_then(SavedOffset::goes_on_at)
            .or_else(|| of_topic().filter_map(SavedOffset::goes_on_at).min())
            .or_else(|| of_topic().any(|o| o.at_end).then_some(0))
    }
}

/// Which offsets are meant.
#[derive(Debug, Clone, Default)]
pub struct Chosen {
    /// Only these groups; empty for all but the brokers' own.
    pub groups: BTreeSet<String>,
    /// Only this topic.
    pub topic: Option<String>,
}

impl Chosen {
    /// True when a group and topic are meant.
    pub fn has(&self, group: &str, topic: &str) -> bool {
        let named = match self.groups.is_empty() {
            true => !is_system(group),
            false => self.groups.contains(group),
        };
        named && self.topic.as_deref().is_none_or(|t| t == topic)
    }
}

impl Client {
    /// Committed offsets of one broker: `(group, topic, queue, offset)`.
    pub(crate) async fn broker_offsets(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<Vec<(String, String, i32, i64)>, Error> {
        let (_, table) = self.call(broker, &GetAllConsumerOffset, (), deadline).await?;
        let mut found = Vec::new();
        for (key, queues) in table.value.offset_table {
            let Some((topic, group)) = position_key(&key) else {
                continue;
            };
            for (queue, offset) in queues {
                found.push((group.to_owned(), topic.to_owned(), queue, offset));
            }
        }
        Ok(found)
    }

    /// Committed offsets on `brokers`; with the store time of each next message where `times` is set (one read a
    /// queue). One failing broker or read fails all: half a backup is none, and a missing time would skip a backlog.
    pub async fn saved_offsets(
        &self,
        brokers: &[BrokerAt],
        chosen: &Chosen,
        times: bool,
    ) -> Result<SavedOffsets, Error> {
        let (saved, mut failed) = self.saved_offsets_of_some(brokers, chosen, times).await;
        match failed.pop() {
            Some((_, e)) => Err(e),
            None => Ok(saved),
        }
    }

    /// [`Self::saved_offsets`] of the brokers that can be read whole, and the others with a reason each.
    pub async fn saved_offsets_of_some(
        &self,
        brokers: &[BrokerAt],
        chosen: &Chosen,
        times: bool,
    ) -> (SavedOffsets, Vec<(BrokerAt, Error)>) {
        let taken_at_ms = super::produce::now_ms();
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let offsets = self.broker_offsets(&broker.server(), self.deadline()).await;
                (broker, offsets)
            })
            .await;
        let (mut entries, mut failed) = (Vec::new(), Vec::new());
        for (broker, offsets) in answers {
            let offsets = match offsets {
                Ok(offsets) => offsets,
                Err(e) => {
                    failed.push((broker, e));
                    continue;
                }
            };
            for (group, topic, queue, offset) in offsets {
                if chosen.has(&group, &topic) {
                    let entry = SavedOffset {
                        group,
                        topic,
                        broker: broker.id.name.clone(),
                        queue,
                        offset,
                        ..SavedOffset::default()
                    };
                    entries.push((broker.clone(), entry));
                }
            }
        }
        let timed = self
            .each(entries, |(broker, entry)| async move {
                let entry = if times {
                    self.timed(&broker.server(), entry).await
                } else {
                    Ok(entry)
                };
                (broker, entry)
            })
            .await;
        let mut offsets: Vec<(BrokerAt, SavedOffset)> = Vec::new();
        for (broker, entry) in timed {
            match entry {
                Ok(entry) => offsets.push((broker, entry)),
                Err(e) if failed.iter().all(|(known, _)| *known != broker) => failed.push((broker, e)),
                Err(_) => {}
            }
        }
        // Half a broker is none.
        offsets.retain(|(broker, _)| failed.iter().all(|(known, _)| known != broker));
        let mut offsets: Vec<SavedOffset> = offsets.into_iter().map(|(_, entry)| entry).collect();
        offsets.sort();
        let mut clusters: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
        clusters.dedup();
        let saved = SavedOffsets {
            api: API.into(),
            kind: KIND.into(),
            taken_at_ms,
            cluster: clusters.join(","),
            name_servers: Vec::new(),
            moved: Vec::new(),
            offsets,
        };
        (saved, failed)
    }

    /// An entry with its time, as the broker has it. Offsets outlive their topics and queues: one of a topic that is gone
    /// has no time, nor has one in a queue behind the read queues, where a broker refuses to read.
    async fn timed(&self, server: &Server, mut entry: SavedOffset) -> Result<SavedOffset, Error> {
        let at = QueueAt {
            broker: server.clone(),
            queue: entry.queue,
        };
        // A request's own limit: there may be many thousand of them.
        let max = match self.max_offset(&at, &entry.topic, self.deadline()).await {
            Ok(max) => max,
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => return Ok(entry),
            Err(e) => return Err(e),
        };
        let next = if entry.offset < max {
            entry.offset
        } else {
            max.saturating_sub(1)
        };
        if next >= 0 {
            let stored = self
                .first_stored(server, &entry.topic, entry.queue, next, self.deadline())
                .await;
            entry.stored_ms = match stored {
                Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => return Ok(entry),
                Err(e) if e.is_illegal_queue() => None,
                stored => stored?,
            };
        }
        entry.at_end = entry.offset >= max;
        Ok(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> SavedOffsets {
        let one = |queue, offset, stored_ms, at_end| SavedOffset {
            group: "G".into(),
            topic: "T".into(),
            broker: "b".into(),
            queue,
            offset,
            stored_ms,
            at_end,
        };
        SavedOffsets {
            api: API.into(),
            kind: KIND.into(),
            taken_at_ms: 900,
            cluster: "c".into(),
            name_servers: Vec::new(),
            moved: Vec::new(),
            offsets: vec![
                one(0, 5, Some(100), false),
                one(1, 8, Some(700), true),
                one(2, 0, None, true),
                one(3, 4, None, false),
            ],
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
        // Behind the last message that it had read, by the broker's clock and not by the time of the file.
        assert_eq!(file().time_of("G", "T", "b", 1), Some(701));
        assert_eq!(file().time_of("G", "T", "b", 2), Some(100));
        assert_eq!(file().time_of("G", "T", "other", 7), Some(100));
        assert_eq!(file().time_of("G", "U", "b", 0), None);
        let mut empty = file();
        empty.offsets.retain(|o| o.queue == 2);
        assert_eq!(empty.time_of("G", "T", "b", 2), Some(0));
    }

    /// An entry without a time was not read, and is not at the end for that.
    #[test]
    fn an_entry_without_a_time_is_not_at_the_end() {
        let untimed: Vec<i32> = file()
            .offsets
            .iter()
            .filter(|o| o.is_untimed())
            .map(|o| o.queue)
            .collect();
        assert_eq!(untimed, [3]);
        let old = r#"{"api":"rmq/v1","kind":"Offsets","taken_at_ms":900,"cluster":"c","offsets":
            [{"group":"G","topic":"T","broker":"b","queue":0,"offset":5}]}"#;
        let old = SavedOffsets::parse(old).unwrap();
        assert!(old.offsets[0].is_untimed());
        assert_eq!(old.time_of("G", "T", "b", 0), None);
    }

    #[test]
    fn the_brokers_own_groups_are_meant_only_by_name() {
        let all = Chosen::default();
        assert!(all.has("CG", "T") && !all.has("CID_RMQ_SYS_TRANS", "T"));
        let named = Chosen {
            groups: ["CID_RMQ_SYS_TRANS".to_owned()].into(),
            topic: None,
        };
        assert!(named.has("CID_RMQ_SYS_TRANS", "T") && !named.has("CG", "T"));
    }
}
