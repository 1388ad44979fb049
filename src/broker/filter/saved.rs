//! The SQL subscriptions of consumers as Java keeps them (`config/consumerFilter.json`, `ConsumerFilterManager`): who
//! asked for what, since when, and when they went. Filtering itself uses what is in the heartbeat; the file serves a
//! broker that opens the directory afterwards.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::tables::{self, TableFile};
use super::{Expr, bloom};
use crate::protocol::body::SubscriptionData;

/// How much earlier than now the consumers of a loaded file are taken to have gone, ms.
const GONE_BEFORE_LOAD_MS: i64 = 30_000;

/// Java's `BloomFilterData`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct BloomData {
    bit_num: i32,
    bit_pos: Vec<i32>,
}

/// One group's expression for a topic (Java's `ConsumerFilterData`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Entry {
    bloom_filter_data: Option<BloomData>,
    born_time: i64,
    client_version: i64,
    consumer_group: String,
    /// What Java's `isDead` says; not read.
    dead: bool,
    /// 0 while the group is there.
    dead_time: i64,
    expression: String,
    expression_type: String,
    topic: String,
}

impl Entry {
    fn is_dead(&self) -> bool {
        self.dead_time >= self.born_time
    }

    fn die(&mut self, now_ms: i64) {
        self.dead_time = now_ms.max(self.born_time);
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OfTopic {
    group_filter_data: BTreeMap<String, Entry>,
    topic: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Table {
    filter_data_by_topic: BTreeMap<String, OfTopic>,
}

/// The SQL subscriptions of all groups.
#[derive(Debug)]
pub struct SavedFilters {
    /// Held for map operations alone.
    table: Mutex<Table>,
    file: TableFile,
}

impl SavedFilters {
    /// Loads the table at `path`. Nobody of it is there yet.
    pub fn load(path: PathBuf, now_ms: i64) -> Result<Self, tables::Error> {
        let file = TableFile::new(path);
        let mut table = file.load::<Table>()?.unwrap_or_default();
        for entry in table
            .filter_data_by_topic
            .values_mut()
            .flat_map(|of| of.group_filter_data.values_mut())
        {
            if entry.dead_time == 0 {
                entry.die(now_ms - GONE_BEFORE_LOAD_MS);
            }
        }
        Ok(Self {
            table: Mutex::new(table),
            file,
        })
    }

    fn table(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a group's subscriptions; expressions for topics that are not among them any more are dead.
    pub fn told(&self, group: &str, subscriptions: &[SubscriptionData], now_ms: i64) {
        let mut table = self.table();
        if table.filter_data_by_topic.is_empty() && subscriptions.iter().all(SubscriptionData::is_tag) {
            return;
        }
        let mut changed = false;
        for subscription in subscriptions {
            if !subscription.is_tag() && !subscription.sub_string.is_empty() {
                changed |= table.register(group, subscription, now_ms);
            }
        }
        for (topic, of) in &mut table.filter_data_by_topic {
            if let Some(entry) = of.group_filter_data.get_mut(group)
                && !entry.is_dead()
                && !subscriptions.iter().any(|s| s.topic == *topic)
            {
                entry.die(now_ms);
                changed = true;
            }
        }
        if changed {
            self.file.mark();
        }
    }

    /// The last client of a group went.
    pub fn left(&self, group: &str, now_ms: i64) {
        let mut table = self.table();
        for of in table.filter_data_by_topic.values_mut() {
            if let Some(entry) = of.group_filter_data.get_mut(group)
                && !entry.is_dead()
            {
                entry.die(now_ms);
                self.file.mark();
            }
        }
    }

    /// True when consumerFilter.json is behind.
    pub fn is_behind(&self) -> bool {
        self.file.is_marked()
    }

    /// Writes consumerFilter.json if it is behind, without those that went longer ago than `keep_ms`. Blocks on the
    /// disk.
    pub fn save(&self, now_ms: i64, keep_ms: u64) -> Result<(), tables::Error> {
        self.file.save_if_marked(|| {
            let mut table = self.table();
            table.clean(now_ms, keep_ms);
            table.clone()
        })
    }
}

impl Table {
    /// Takes an expression as newer clients win over older ones; true when something changed.
    fn register(&mut self, group: &str, subscription: &SubscriptionData, now_ms: i64) -> bool {
        let topic = &subscription.topic;
        let of = self.filter_data_by_topic.entry(topic.clone()).or_default();
        of.topic.clone_from(topic);
        if let Some(old) = of.group_filter_data.get_mut(group) {
            let newer = subscription.sub_version > old.client_version;
            let same = old.expression == subscription.sub_string
                && old.expression_type == subscription.expression_type;
            if !newer {
                let revived = subscription.sub_version == old.client_version && old.is_dead();
                if revived {
                    old.dead_time = 0;
                    old.dead = false;
                }
                return revived;
            }
            if same {
                old.client_version = subscription.sub_version;
                old.dead_time = 0;
                return true;
            }
        }
        if subscription.expression_type != SubscriptionData::SQL92
            || Expr::parse(&subscription.sub_string).is_err()
        {
            // One that cannot be read takes the old one's place, and is not kept.
            let was_there = of.group_filter_data.remove(group).is_some();
            if of.group_filter_data.is_empty() {
                self.filter_data_by_topic.remove(topic);
            }
            return was_there;
        }
        let entry = Entry {
            bloom_filter_data: Some(BloomData {
                bit_num: bloom::BITS,
                bit_pos: bloom::positions(group, topic),
            }),
            born_time: now_ms,
            client_version: subscription.sub_version,
            consumer_group: group.to_owned(),
            dead: false,
            dead_time: 0,
            expression: subscription.sub_string.clone(),
            expression_type: subscription.expression_type.clone(),
            topic: topic.clone(),
        };
        tracing::info!(group, topic, expression = %entry.expression, "SQL subscription registered");
        of.group_filter_data.insert(group.to_owned(), entry);
        true
    }

    fn clean(&mut self, now_ms: i64, keep_ms: u64) {
        let keep_ms = i64::try_from(keep_ms).unwrap_or(i64::MAX);
        self.filter_data_by_topic.retain(|_, of| {
            of.group_filter_data.retain(|_, entry| {
                entry.dead = entry.is_dead();
                !(entry.dead && now_ms.saturating_sub(entry.dead_time) >= keep_ms)
            });
            !of.group_filter_data.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn sql(topic: &str, text: &str, version: i64) -> SubscriptionData {
        SubscriptionData {
            topic: topic.into(),
            sub_string: text.into(),
            expression_type: SubscriptionData::SQL92.into(),
            sub_version: version,
            ..SubscriptionData::default()
        }
    }

    fn saved() -> (tempfile::TempDir, SavedFilters) {
        let dir = tempfile::tempdir().unwrap();
        let saved = SavedFilters::load(dir.path().join("consumerFilter.json"), 0).unwrap();
        (dir, saved)
    }

    /// Fields and order of Java's `ConsumerFilterManager.encode`.
    #[test]
    fn the_file_has_javas_fields() {
        let (dir, saved) = saved();
        saved.told("g", &[sql("t", "a > 5", 7)], 1000);
        saved.save(1000, DAY).unwrap();
        let text = std::fs::read_to_string(dir.path().join("consumerFilter.json")).unwrap();
        let squeezed: String = text.split_whitespace().collect();
        let positions = bloom::positions("g", "t");
        let expected = format!(
            "{{\"filterDataByTopic\":{{\"t\":{{\"groupFilterData\":{{\"g\":{{\"bloomFilterData\":{{\"bitNum\":112,\
             \"bitPos\":[{},{},{}]}},\"bornTime\":1000,\"clientVersion\":7,\"consumerGroup\":\"g\",\"dead\":false,\
             \"deadTime\":0,\"expression\":\"a>5\",\"expressionType\":\"SQL92\",\"topic\":\"t\"}}}},\"topic\":\"t\"}}}}}}",
            positions[0], positions[1], positions[2]
        );
        assert_eq!(squeezed, expected);
        let again = SavedFilters::load(dir.path().join("consumerFilter.json"), 50_000).unwrap();
        let entry = again.table().filter_data_by_topic["t"].group_filter_data["g"].clone();
        assert_eq!(entry.dead_time, 20_000, "gone 30 s before the load");
    }

    #[test]
    fn newer_clients_win_and_the_gone_are_kept_for_a_day() {
        let (_dir, saved) = saved();
        let entry = || {
            saved
                .table()
                .filter_data_by_topic
                .get("t")?
                .group_filter_data
                .get("g")
                .cloned()
        };
        saved.told("g", &[sql("t", "a > 5", 7)], 1000);
        saved.told("g", &[sql("t", "a > 6", 6)], 1001);
        assert_eq!(
            entry().unwrap().expression,
            "a > 5",
            "an older version changes nothing"
        );
        saved.told("g", &[sql("t", "a > 6", 8)], 1002);
        assert_eq!(entry().unwrap().expression, "a > 6");
        saved.told("g", &[sql("other", "b = 1", 8)], 2000);
        assert_eq!(entry().unwrap().dead_time, 2000, "not subscribed any more");
        saved.told("g", &[sql("t", "a > 6", 8)], 3000);
        assert_eq!(entry().unwrap().dead_time, 0, "back");
        saved.left("g", 4000);
        assert_eq!(entry().unwrap().dead_time, 4000);
        saved.save(4000 + DAY as i64 - 1, DAY).unwrap();
        assert!(entry().is_some());
        saved.left("g", 5000);
        saved.told("h", &[sql("t", "a", 1)], 5000);
        saved.save(4000 + DAY as i64, DAY).unwrap();
        assert!(entry().is_none());
        saved.told("h", &[sql("t", "a >", 2)], 6000);
        assert!(saved.table().filter_data_by_topic.is_empty());
    }

    #[test]
    fn tags_alone_leave_no_trace() {
        let (dir, saved) = saved();
        saved.told("g", &[SubscriptionData::default()], 1);
        assert!(!saved.is_behind());
        saved.save(1, DAY).unwrap();
        assert!(!dir.path().join("consumerFilter.json").exists());
    }
}
