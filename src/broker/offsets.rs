//! Where each group stands in each queue (config/consumerOffset.json): committed, pulled, and resets not yet taken.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use dashmap::DashMap;
use serde::{Deserialize, Serialize};

use super::now_ms;
use super::tables::{self, TableFile};
use crate::protocol::body::ConsumerOffsets;
use crate::protocol::model::DataVersion;
use crate::store::Lost;

/// A group's places in one queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Place {
    committed: Option<i64>,
    pulled: Option<i64>,
    /// Set by a reset; the next pull takes it, until then commits are ignored.
    reset: Option<i64>,
}

/// Topic -> queue -> place of one group.
type Places = HashMap<String, BTreeMap<i32, Place>>;

/// Java's table with `enableLmq`, which replaces consumerOffset.json there.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LightOffsets {
    data_version: DataVersion,
    /// `topic@group` -> offset in queue 0, of groups that are light queues themselves.
    lmq_offset_table: BTreeMap<String, i64>,
    offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

/// The offsets that a Java broker with light queues left beside the place of consumerOffset.json.
fn of_light_queues(path: &Path) -> Result<Option<ConsumerOffsets>, tables::Error> {
    let file = TableFile::new(path.with_file_name("lmqConsumerOffset.json"));
    let Some(saved) = file.load::<LightOffsets>()? else {
        return Ok(None);
    };
    let mut offsets = ConsumerOffsets {
        data_version: saved.data_version,
        ..ConsumerOffsets::default()
    };
    offsets.offset_table.extend(saved.offset_table);
    for (key, offset) in saved.lmq_offset_table {
        offsets.offset_table.entry(key).or_default().insert(0, offset);
    }
    Ok(Some(offsets))
}

/// The places of all groups.
#[derive(Debug)]
pub struct Offsets {
    groups: DashMap<String, Places>,
    commits: AtomicI64,
    version: Mutex<DataVersion>,
    file: TableFile,
}

impl Offsets {
    /// Loads the table at `path`.
    pub fn load(path: PathBuf) -> Result<Self, tables::Error> {
        let file = TableFile::new(path.clone());
        let groups: DashMap<String, Places> = DashMap::new();
        let mut version = DataVersion {
            timestamp: now_ms(),
            ..DataVersion::default()
        };
        let saved = match file.load::<ConsumerOffsets>()? {
            Some(saved) => Some(saved),
            None => of_light_queues(&path)?,
        };
        if let Some(saved) = saved {
            version = saved.data_version;
            for (key, queues) in saved.offset_table {
                let Some((topic, group)) = key.split_once('@') else {
                    tracing::warn!(key, "an entry of the offset table is not topic@group");
                    continue;
                };
                let place = |offset| Place {
                    committed: Some(offset),
                    ..Place::default()
                };
                let queues = queues
                    .into_iter()
                    .map(|(queue, offset)| (queue, place(offset)))
                    .collect();
                groups
                    .entry(group.to_owned())
                    .or_default()
                    .insert(topic.to_owned(), queues);
            }
        }
        Ok(Self {
            groups,
            commits: AtomicI64::new(0),
            version: Mutex::new(version),
            file,
        })
    }

    fn place(&self, group: &str, topic: &str, queue_id: i32) -> Option<Place> {
        self.groups.get(group)?.get(topic)?.get(&queue_id).copied()
    }

    fn change(&self, group: &str, topic: &str, queue_id: i32, change: impl FnOnce(&mut Place)) {
        // The names are only copied the first time.
        if let Some(mut places) = self.groups.get_mut(group) {
            if let Some(queues) = places.get_mut(topic) {
                change(queues.entry(queue_id).or_default());
            } else {
                let queues = places.entry(topic.to_owned()).or_default();
                change(queues.entry(queue_id).or_default());
            }
            return;
        }
        let mut places = self.groups.entry(group.to_owned()).or_default();
        let queues = places.entry(topic.to_owned()).or_default();
        change(queues.entry(queue_id).or_default());
    }

    /// Stores a group's offset as it is told, forward or back. The version moves once in `step` commits.
    pub fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64, step: i64) {
        self.change(group, topic, queue_id, |place| place.committed = Some(offset));
        self.file.mark();
        if (self.commits.fetch_add(1, Relaxed) + 1) % step.max(1) == 0 {
            let mut version = self.version.lock().unwrap_or_else(PoisonError::into_inner);
            *version = version.next(now_ms());
        }
    }

    /// Notes how far a group has pulled.
    pub fn pulled(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.change(group, topic, queue_id, |place| place.pulled = Some(offset));
    }

    /// Moves a group's offset; commits are ignored until a pull took the new place.
    pub fn reset(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        self.change(group, topic, queue_id, |place| {
            place.committed = Some(offset);
            place.reset = Some(offset);
        });
        self.file.mark();
    }

    /// True while a reset waits to be taken.
    pub fn has_reset(&self, group: &str, topic: &str, queue_id: i32) -> bool {
        self.place(group, topic, queue_id)
            .is_some_and(|place| place.reset.is_some())
    }

    /// Takes a waiting reset.
    pub fn take_reset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        self.place(group, topic, queue_id)?.reset?;
        let mut taken = None;
        self.change(group, topic, queue_id, |place| taken = place.reset.take());
        taken
    }

    /// The committed (or reset) offset.
    pub fn committed(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let place = self.place(group, topic, queue_id)?;
        place.reset.or(place.committed)
    }

    /// How far the group has pulled, at least as far as it has committed.
    pub fn pull_offset(&self, group: &str, topic: &str, queue_id: i32) -> Option<i64> {
        let place = self.place(group, topic, queue_id)?;
        place.pulled.or(place.reset).or(place.committed)
    }

    /// Topics the group has committed offsets of.
    pub fn topics_of(&self, group: &str) -> BTreeSet<String> {
        let has_commit = |queues: &BTreeMap<i32, Place>| queues.values().any(|p| p.committed.is_some());
        self.groups.get(group).map_or_else(BTreeSet::new, |places| {
            places
                .iter()
                .filter(|(_, queues)| has_commit(queues))
                .map(|(topic, _)| topic.clone())
                .collect()
        })
    }

    /// Groups that have committed offsets of the topic.
    pub fn groups_of(&self, topic: &str) -> BTreeSet<String> {
        self.groups
            .iter()
            .filter(|entry| {
                entry
                    .value()
                    .get(topic)
                    .is_some_and(|queues| queues.values().any(|p| p.committed.is_some()))
            })
            .map(|entry| entry.key().clone())
            .collect()
    }

    /// The committed (or reset) offsets of a group in a topic, by queue.
    pub fn all_committed(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let places = self.groups.get(group);
        let queues = places.as_ref().and_then(|places| places.get(topic));
        queues.map_or_else(BTreeMap::new, |queues| {
            let stands = |(&queue, place): (&i32, &Place)| Some((queue, place.reset.or(place.committed)?));
            queues.iter().filter_map(stands).collect()
        })
    }

    /// Gives a group the offsets of another in a topic; a reset that waits for it falls away.
    pub fn clone_group(&self, from: &str, to: &str, topic: &str) {
        for (queue_id, offset) in self.all_committed(from, topic) {
            self.change(to, topic, queue_id, |place| {
                *place = Place {
                    committed: Some(offset),
                    ..Place::default()
                };
            });
            self.file.mark();
        }
    }

    /// Takes back offsets beyond the end of their queue: the log was cut, and new messages get the numbers again.
    pub fn cut(&self, end: impl Fn(&str, i32) -> i64) {
        for mut entry in self.groups.iter_mut() {
            let group = entry.key().clone();
            for (topic, queues) in entry.value_mut() {
                for (&queue_id, place) in queues {
                    let Some(offset) = place.committed else { continue };
                    let end = end(topic, queue_id);
                    if offset > end {
                        tracing::warn!(
                            group,
                            topic,
                            queue_id,
                            offset,
                            end,
                            "an offset beyond the end of its queue is moved back to it"
                        );
                        place.committed = Some(end);
                        self.file.mark();
                    }
                }
            }
        }
    }

    /// Messages that groups had not committed when their records were deleted, by topic and group. Groups that never
    /// committed anything of a topic are not known here.
    pub fn unread_of(&self, lost: &[Lost]) -> BTreeMap<(String, String), i64> {
        let mut unread = BTreeMap::new();
        for lost in lost {
            for group in self.groups_of(&lost.topic) {
                let from = self.committed(&group, &lost.topic, lost.queue_id).unwrap_or(0);
                let count = lost.to - lost.from.max(from).min(lost.to);
                if count > 0 {
                    *unread.entry((lost.topic.clone(), group)).or_insert(0) += count;
                }
            }
        }
        unread
    }

    /// Forgets a group.
    pub fn remove_group(&self, group: &str) {
        if self.groups.remove(group).is_some() {
            self.file.mark();
        }
    }

    /// Forgets a topic in all groups.
    pub fn remove_topic(&self, topic: &str) {
        self.groups.retain(|_, places| {
            places.remove(topic);
            !places.is_empty()
        });
        self.file.mark();
    }

    /// The table with its version.
    pub fn table(&self) -> ConsumerOffsets {
        let mut table = ConsumerOffsets {
            data_version: *self.version.lock().unwrap_or_else(PoisonError::into_inner),
            ..ConsumerOffsets::default()
        };
        for entry in &self.groups {
            for (topic, queues) in entry.value() {
                let committed: BTreeMap<i32, i64> = queues
                    .iter()
                    .filter_map(|(&queue, place)| Some((queue, place.committed?)))
                    .collect();
                if !committed.is_empty() {
                    let key = format!("{topic}@{}", entry.key());
                    table.offset_table.insert(key, committed);
                }
            }
        }
        table
    }

    /// True when consumerOffset.json is behind.
    pub fn is_behind(&self) -> bool {
        self.file.is_marked()
    }

    /// Writes consumerOffset.json if it is behind. Blocks on the disk.
    pub fn save(&self) -> Result<(), tables::Error> {
        self.file.save_if_marked(|| self.table())
    }

    /// Writes consumerOffset.json in any case, as a clean stop does.
    pub fn save_always(&self) -> Result<(), tables::Error> {
        self.file.mark();
        self.save()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets() -> (tempfile::TempDir, Offsets) {
        let dir = tempfile::tempdir().unwrap();
        let offsets = Offsets::load(dir.path().join("consumerOffset.json")).unwrap();
        (dir, offsets)
    }

    #[test]
    fn commits_are_blind_and_resets_wait_for_a_pull() {
        let (_dir, offsets) = offsets();
        assert_eq!(offsets.committed("g", "t", 0), None);
        offsets.commit("g", "t", 0, 10, 500);
        offsets.commit("g", "t", 0, 4, 500);
        assert_eq!(offsets.committed("g", "t", 0), Some(4), "no monotonic check");
        offsets.pulled("g", "t", 0, 9);
        assert_eq!(offsets.pull_offset("g", "t", 0), Some(9));
        offsets.reset("g", "t", 0, 2);
        assert!(offsets.has_reset("g", "t", 0) && !offsets.has_reset("g", "t", 1));
        assert_eq!(offsets.committed("g", "t", 0), Some(2));
        assert_eq!(offsets.take_reset("g", "t", 0), Some(2));
        assert_eq!(offsets.take_reset("g", "t", 0), None, "taken once");
        assert_eq!(offsets.committed("g", "t", 0), Some(2));
    }

    #[test]
    fn the_version_moves_once_in_so_many_commits() {
        let (_dir, offsets) = offsets();
        let counter = || offsets.table().data_version.counter;
        let start = counter();
        for offset in 0..499 {
            offsets.commit("g", "t", 0, offset, 500);
        }
        assert_eq!(counter(), start);
        offsets.commit("g", "t", 0, 499, 500);
        assert_eq!(counter(), start + 1);
    }

    #[test]
    fn pulling_alone_makes_no_entry() {
        let (_dir, offsets) = offsets();
        offsets.pulled("g", "t", 0, 5);
        assert!(offsets.topics_of("g").is_empty());
        assert!(offsets.groups_of("t").is_empty());
        assert!(offsets.table().offset_table.is_empty());
        offsets.commit("g", "t", 3, 1, 500);
        offsets.commit("h", "t", 0, 1, 500);
        offsets.commit("g", "u", 0, 1, 500);
        assert_eq!(offsets.topics_of("g").len(), 2);
        assert_eq!(offsets.groups_of("t").len(), 2);
        offsets.remove_topic("t");
        assert!(offsets.groups_of("t").is_empty());
        offsets.remove_group("g");
        assert!(offsets.topics_of("g").is_empty());
    }

    #[test]
    fn offsets_of_a_java_broker_with_light_queues_are_taken_over() {
        let dir = tempfile::tempdir().unwrap();
        let text = r#"{"dataVersion":{"counter":3,"stateVersion":0,"timestamp":1},"groupTopicMap":{},
            "lmqOffsetTable":{"%LMQ%a@%LMQ%g":7},"offsetTable":{"t@g":{0:60,1:2}}}"#;
        std::fs::write(dir.path().join("lmqConsumerOffset.json"), text).unwrap();
        let path = dir.path().join("consumerOffset.json");
        let offsets = Offsets::load(path.clone()).unwrap();
        assert_eq!(offsets.committed("g", "t", 0), Some(60));
        assert_eq!(offsets.committed("%LMQ%g", "%LMQ%a", 0), Some(7));
        offsets.commit("g", "t", 0, 61, 500);
        offsets.save().unwrap();
        let again = Offsets::load(path).unwrap();
        assert_eq!(
            again.committed("g", "t", 0),
            Some(61),
            "our own table wins from then on"
        );
        assert_eq!(again.committed("%LMQ%g", "%LMQ%a", 0), Some(7));
    }

    #[test]
    fn committed_offsets_survive_a_restart() {
        let (dir, offsets) = offsets();
        offsets.commit("%RETRY%g", "t", 0, 10, 500);
        offsets.commit("g", "%RETRY%g", 1, 20, 500);
        offsets.save().unwrap();
        let again = Offsets::load(dir.path().join("consumerOffset.json")).unwrap();
        assert_eq!(again.committed("%RETRY%g", "t", 0), Some(10));
        assert_eq!(again.committed("g", "%RETRY%g", 1), Some(20));
        assert_eq!(again.table(), offsets.table());
    }

    /// K15, K25
    #[test]
    fn k25_offsets_are_cut_to_their_queue_and_losses_counted_by_group() {
        let dir = tempfile::tempdir().unwrap();
        let offsets = Offsets::load(dir.path().join("consumerOffset.json")).unwrap();
        for (group, queue_id, offset) in [("g", 0, 30), ("g", 1, 5), ("h", 0, 12)] {
            offsets.commit(group, "t", queue_id, offset, 1);
        }
        let lost = |queue_id, from, to| Lost {
            topic: "t".into(),
            queue_id,
            from,
            to,
        };
        let unread = offsets.unread_of(&[lost(0, 10, 20), lost(1, 0, 8), lost(1, 8, 9)]);
        let of = |group: &str| unread.get(&("t".to_owned(), group.to_owned())).copied();
        // The second group has not begun with queue 1: all of it is unread.
        assert_eq!((of("g"), of("h"), unread.len()), (Some(4), Some(17), 2));
        offsets.cut(|topic, queue_id| if (topic, queue_id) == ("t", 0) { 20 } else { 100 });
        assert_eq!(offsets.committed("g", "t", 0), Some(20));
        assert_eq!(offsets.committed("g", "t", 1), Some(5));
        assert_eq!(offsets.committed("h", "t", 0), Some(12));
        assert!(offsets.is_behind());
    }
}
