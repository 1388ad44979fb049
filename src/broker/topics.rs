//! The topic table (config/topics.json): lookup on the hot path, creation by template, edits, system topics.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;

use super::config::{BrokerConfig, MAX_QUEUES};
use super::tables::{self, TableFile};
use super::{attributes, now_ms};
use crate::protocol::body::{TopicConfig, TopicConfigTable};
use crate::protocol::codes;
use crate::protocol::model::{DataVersion, Perm, RETRY_PREFIX, TBW102, check_topic};
use crate::remoting::Refusal;

pub use crate::protocol::model::SCHEDULE_TOPIC;

const SELF_TEST: &str = "SELF_TEST_TOPIC";
const BENCHMARK: &str = "BenchmarkTest";
const OFFSET_MOVED: &str = "OFFSET_MOVED_EVENT";
/// Half messages of open transactions.
pub const TRANS_HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Marks of ended ones.
pub const TRANS_OP_HALF: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// Half messages that nobody answered for.
pub const TRANS_CHECK_MAX: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
const TRACE: &str = "RMQ_SYS_TRACE_TOPIC";
const ROCKSDB_OFFSET: &str = "CHECKPOINT_TOPIC";
/// Messages with a time of delivery wait here.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// Every topic whose name begins so belongs to the system.
const SYSTEM_PREFIX: &str = "rmq_sys_";

/// Topics that no client may send to.
const NO_SENDS: [&str; 7] = [
    SCHEDULE_TOPIC,
    TRANS_HALF,
    TRANS_OP_HALF,
    TRANS_CHECK_MAX,
    SELF_TEST,
    OFFSET_MOVED,
    // Java takes them, and its timer then stands still.
    TIMER_TOPIC,
];

/// All topics of a broker.
#[derive(Debug)]
pub struct Topics {
    table: DashMap<String, Arc<TopicConfig>>,
    /// Held while the table changes; lookups do not take it. Nothing else is locked inside.
    version: Mutex<DataVersion>,
    system: HashSet<String>,
    file: TableFile,
    /// Topics whose newest change the file may lack, with its number. Emptied by each save.
    unsaved: Mutex<HashMap<String, u64>>,
}

impl Topics {
    /// Loads the table at `path` over the topics that every broker has.
    pub fn load(path: PathBuf, config: &BrokerConfig) -> Result<Self, tables::Error> {
        let file = TableFile::new(path);
        let table = DashMap::new();
        let mut system: HashSet<String> = [
            TBW102,
            SCHEDULE_TOPIC,
            BENCHMARK,
            TRANS_HALF,
            TRACE,
            TRANS_OP_HALF,
            TRANS_CHECK_MAX,
            SELF_TEST,
            OFFSET_MOVED,
            ROCKSDB_OFFSET,
        ]
        .map(str::to_owned)
        .into();
        for (name, queues, perm) in boot_topics(config) {
            system.insert(name.clone());
            let topic = new_topic(&name, queues, Perm(perm));
            table.insert(name, Arc::new(topic));
        }
        let mut version = DataVersion {
            timestamp: now_ms(),
            ..DataVersion::default()
        };
        if let Some(saved) = file.load::<TopicConfigTable>()? {
            version = saved.data_version;
            for (name, topic) in saved.topic_config_table {
                table.insert(name, Arc::new(topic));
            }
        }
        Ok(Self {
            table,
            version: Mutex::new(version),
            system,
            file,
            unsaved: Mutex::default(),
        })
    }

    /// The topic's configuration.
    pub fn get(&self, topic: &str) -> Option<Arc<TopicConfig>> {
        self.table.get(topic).map(|found| found.clone())
    }

    /// True when there is such a topic.
    pub fn contains(&self, topic: &str) -> bool {
        self.table.contains_key(topic)
    }

    /// True for the broker's own topics.
    pub fn is_system(&self, topic: &str) -> bool {
        topic.starts_with(SYSTEM_PREFIX) || self.system.contains(topic)
    }

    /// True for topics that clients may not send to.
    ///
    /// Java refuses the first six alone, and takes what a client puts into its revive topics for its own books.
    pub fn forbids_sends(topic: &str) -> bool {
        Self::is_internal(topic)
    }

    /// True for topics whose messages wait in the broker or keep its books: no client may take one out by its offset.
    pub fn is_internal(topic: &str) -> bool {
        NO_SENDS.contains(&topic) || topic.starts_with(SYSTEM_PREFIX)
    }

    /// Names of the broker's own topics.
    pub fn system_names(&self) -> BTreeSet<String> {
        self.system.iter().cloned().collect()
    }

    /// True when the topic keeps order (Java's `isOrderTopic`).
    pub fn is_order(&self, topic: &str) -> bool {
        self.table.get(topic).is_some_and(|found| found.order)
    }

    /// Makes a topic like the template that a producer named, with at most `queues` queues. The flag tells whether
    /// it is new; `None` when the template is missing or not to be inherited.
    pub fn create_like(
        &self,
        topic: &str,
        template: &str,
        queues: i32,
        sys_flag: i32,
        config: &BrokerConfig,
    ) -> Option<(Arc<TopicConfig>, bool)> {
        let mut version = self.edit();
        if let Some(found) = self.get(topic) {
            return Some((found, false));
        }
        let template = self.get(template)?;
        let closed = template.topic_name == TBW102 && !config.auto_create_topic_enable;
        if closed || !template.perm.inherited() {
            return None;
        }
        let queues = queues.min(template.write_queue_nums).max(1);
        let made = TopicConfig {
            topic_filter_type: template.topic_filter_type,
            topic_sys_flag: sys_flag,
            ..new_topic(topic, queues, template.perm.without(Perm::INHERIT))
        };
        tracing::info!(topic, queues, template = %template.topic_name, "topic made by template");
        Some((self.insert(&mut version, made), true))
    }

    /// Makes one of a group's topics (retry, dead letter) if it is missing, and sets its order mark. The flag tells
    /// whether something changed that routes show.
    pub fn create_for_group(
        &self,
        topic: &str,
        queues: i32,
        order: bool,
        sys_flag: i32,
    ) -> (Arc<TopicConfig>, bool) {
        if let Some(found) = self.get(topic).filter(|found| found.order == order) {
            return (found, false);
        }
        let mut version = self.edit();
        let made = match self.get(topic) {
            Some(found) if found.order == order => return (found, false),
            Some(found) => TopicConfig {
                order,
                ..TopicConfig::clone(&found)
            },
            None => TopicConfig {
                order,
                topic_sys_flag: sys_flag,
                // A group of a Java broker's table may ask for any number.
                ..new_topic(topic, queues.min(MAX_QUEUES), Perm::READ_WRITE)
            },
        };
        tracing::info!(topic, queues, "topic of a consumer group made");
        (self.insert(&mut version, made), true)
    }

    /// Checks an admin's wish for a topic; its attributes are edits.
    pub fn check(&self, wish: &TopicConfig, config: &BrokerConfig) -> Result<(), Refusal> {
        let illegal = |remark: String| Refusal::new(codes::INVALID_PARAMETER, remark);
        let topic = wish.topic_name.as_str();
        check_topic(topic).map_err(|e| illegal(e.to_string()))?;
        if config.validate_system_topic_when_update_topic && self.is_system(topic) {
            return Err(illegal(format!(
                "The topic[{topic}] is conflict with system topic."
            )));
        }
        for (what, queues) in [
            ("readQueueNums", wish.read_queue_nums),
            ("writeQueueNums", wish.write_queue_nums),
        ] {
            if !(1..=MAX_QUEUES).contains(&queues) {
                return Err(illegal(format!(
                    "{what}={queues} of topic[{topic}]: allowed is 1 to {MAX_QUEUES}"
                )));
            }
        }
        if !(0..=7).contains(&wish.perm.0) {
            return Err(illegal(format!(
                "perm={} of topic[{topic}]: allowed is 0 to 7",
                wish.perm.0
            )));
        }
        let message_type = format!("+{}", attributes::MESSAGE_TYPE);
        if !config.enable_mixed_message_type
            && wish.attributes.get(&message_type).is_some_and(|v| v == "MIXED")
        {
            return Err(illegal("MIXED message type is not supported.".into()));
        }
        let present = self.get(topic);
        attributes::alter(present.as_ref().map(|p| &p.attributes), &wish.attributes)
            .map(drop)
            .map_err(|remark| Refusal::new(codes::SYSTEM_ERROR, remark))
    }

    /// Makes or changes topics after all of them passed [`Self::check`]; returns those that are different now.
    pub fn update(
        &self,
        wishes: Vec<TopicConfig>,
        config: &BrokerConfig,
    ) -> Result<Vec<Arc<TopicConfig>>, Refusal> {
        let mut version = self.edit();
        for wish in &wishes {
            self.check(wish, config)?;
        }
        let mut changed = Vec::new();
        for mut wish in wishes {
            let present = self.get(&wish.topic_name);
            wish.attributes = attributes::alter(present.as_ref().map(|p| &p.attributes), &wish.attributes)
                .map_err(|remark| Refusal::new(codes::SYSTEM_ERROR, remark))?;
            if present.is_some_and(|p| *p == wish) {
                continue;
            }
            tracing::info!(topic = %wish.topic_name, read = wish.read_queue_nums, write = wish.write_queue_nums,
                perm = %wish.perm, "topic changed by an admin");
            changed.push(self.insert(&mut version, wish));
        }
        Ok(changed)
    }

    /// Marks the listed topics as ordered; true when one was not.
    pub fn mark_ordered<'a>(&self, topics: impl Iterator<Item = &'a String>) -> bool {
        let mut version = self.edit();
        let mut any = false;
        for topic in topics {
            if let Some(found) = self.get(topic).filter(|found| !found.order) {
                let ordered = TopicConfig {
                    order: true,
                    ..TopicConfig::clone(&found)
                };
                self.insert(&mut version, ordered);
                any = true;
            }
        }
        any
    }

    /// Takes a topic out of the table; true when it was there.
    pub fn remove(&self, topic: &str) -> bool {
        let mut version = self.edit();
        let was_there = self.table.remove(topic).is_some();
        if was_there {
            *version = version.next(now_ms());
            self.file.mark();
            tracing::info!(topic, "topic deleted");
        }
        was_there
    }

    /// Moves the version on, as after a change of the broker's permission.
    pub fn touch(&self) -> DataVersion {
        let mut version = self.edit();
        *version = version.next(now_ms());
        self.file.mark();
        *version
    }

    /// Version of the table.
    pub fn version(&self) -> DataVersion {
        *self.edit()
    }

    /// The table with its version.
    pub fn table(&self) -> TopicConfigTable {
        TopicConfigTable {
            data_version: self.version(),
            topic_config_table: self.map(),
            ..TopicConfigTable::default()
        }
    }

    /// Every topic by name.
    pub fn map(&self) -> BTreeMap<String, TopicConfig> {
        self.table
            .iter()
            .map(|entry| (entry.key().clone(), TopicConfig::clone(entry.value())))
            .collect()
    }

    /// Brings copies of topics up to date, and drops those that are gone.
    pub fn refresh(&self, topics: &mut BTreeMap<String, TopicConfig>) {
        topics.retain(|name, copy| match self.get(name) {
            Some(present) => {
                copy.clone_from(&present);
                true
            }
            None => false,
        });
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True when topics.json is behind.
    pub fn is_behind(&self) -> bool {
        self.file.is_marked()
    }

    /// Writes topics.json if it is behind. Blocks on the disk.
    pub fn save(&self) -> Result<(), tables::Error> {
        self.file.save_if_marked(|| self.table())?;
        let saved = self.file.saved();
        self.unsaved().retain(|_, change| *change > saved);
        Ok(())
    }

    /// True when topics.json lacks the topic as it is. Costs next to nothing while the file has everything.
    pub fn is_behind_with(&self, topic: &str) -> bool {
        self.file.is_marked() && (self.unsaved().get(topic)).is_some_and(|change| *change > self.file.saved())
    }

    fn unsaved(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.unsaved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes topics.json in any case, as a clean stop does.
    pub fn save_always(&self) -> Result<(), tables::Error> {
        self.file.mark();
        self.save()
    }

    fn edit(&self) -> std::sync::MutexGuard<'_, DataVersion> {
        self.version.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn insert(&self, version: &mut DataVersion, topic: TopicConfig) -> Arc<TopicConfig> {
        let topic = Arc::new(topic);
        *version = version.next(now_ms());
        {
            let mut unsaved = self.unsaved();
            unsaved.insert(topic.topic_name.clone(), self.file.mark());
        }
        // Last, so that whoever finds the topic also finds that it is not saved.
        self.table.insert(topic.topic_name.clone(), topic.clone());
        topic
    }
}

fn new_topic(name: &str, queues: i32, perm: Perm) -> TopicConfig {
    TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: queues,
        write_queue_nums: queues,
        perm,
        ..TopicConfig::default()
    }
}

/// Name, queues and permission of the topics made at boot.
fn boot_topics(config: &BrokerConfig) -> Vec<(String, i32, i32)> {
    let (cluster, broker) = (&config.broker_cluster_name, &config.broker_name);
    let named = |on: bool| if on { 7 } else { 1 };
    let mut topics = vec![
        (SELF_TEST.to_owned(), 1, 6),
        (BENCHMARK.to_owned(), 1024, 6),
        (cluster.clone(), 16, named(config.cluster_topic_enable)),
        (broker.clone(), 1, named(config.broker_topic_enable)),
        (OFFSET_MOVED.to_owned(), 1, 6),
        (SCHEDULE_TOPIC.to_owned(), 18, 6),
        (format!("{cluster}_REPLY_TOPIC"), 1, 6),
        (
            format!("{SYSTEM_PREFIX}REVIVE_LOG_{cluster}"),
            config.revive_queue_num,
            6,
        ),
        (format!("{SYSTEM_PREFIX}SYNC_BROKER_MEMBER_{broker}"), 1, 1),
        (TRANS_HALF.to_owned(), 1, 6),
        (TRANS_OP_HALF.to_owned(), 1, 6),
        (TIMER_TOPIC.to_owned(), 1, 6),
    ];
    if config.auto_create_topic_enable {
        topics.push((TBW102.to_owned(), config.default_topic_queue_nums, 7));
    }
    if config.trace_topic_enable {
        topics.push((config.msg_trace_topic_name.clone(), 1, 6));
    }
    topics
}

/// The consumer group a retry topic belongs to.
pub fn group_of_retry(topic: &str) -> Option<&str> {
    topic.strip_prefix(RETRY_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> BrokerConfig {
        BrokerConfig {
            broker_cluster_name: "GoldenCluster".into(),
            broker_name: "golden-a".into(),
            ..BrokerConfig::default()
        }
    }

    fn topics() -> (tempfile::TempDir, Topics) {
        let dir = tempfile::tempdir().unwrap();
        let topics = Topics::load(dir.path().join("topics.json"), &config()).unwrap();
        (dir, topics)
    }

    fn wish(name: &str, queues: i32) -> TopicConfig {
        new_topic(name, queues, Perm::READ_WRITE)
    }

    #[test]
    fn a_fresh_broker_has_the_topics_of_the_golden_one() {
        let (_dir, topics) = topics();
        // store.md §9.1: what a Java broker of these names held without any client action.
        for (name, queues, perm) in [
            ("SELF_TEST_TOPIC", 1, 6),
            ("BenchmarkTest", 1024, 6),
            ("GoldenCluster", 16, 7),
            ("golden-a", 1, 7),
            ("OFFSET_MOVED_EVENT", 1, 6),
            ("SCHEDULE_TOPIC_XXXX", 18, 6),
            ("RMQ_SYS_TRANS_HALF_TOPIC", 1, 6),
            ("RMQ_SYS_TRANS_OP_HALF_TOPIC", 1, 6),
            ("rmq_sys_wheel_timer", 1, 6),
            ("rmq_sys_REVIVE_LOG_GoldenCluster", 8, 6),
            ("rmq_sys_SYNC_BROKER_MEMBER_golden-a", 1, 1),
            ("GoldenCluster_REPLY_TOPIC", 1, 6),
            ("TBW102", 8, 7),
        ] {
            let found = topics.get(name).unwrap();
            assert_eq!(
                (found.write_queue_nums, found.read_queue_nums, found.perm.0),
                (queues, queues, perm),
                "{name}"
            );
            assert!(topics.is_system(name), "{name}");
        }
        assert_eq!(topics.len(), 13);
    }

    #[test]
    fn templates_give_queues_and_perm() {
        let (_dir, topics) = topics();
        let config = config();
        let before = topics.version();
        let (made, new) = topics.create_like("t", TBW102, 16, 0, &config).unwrap();
        assert!(new);
        assert_eq!(
            (made.write_queue_nums, made.perm.0),
            (8, 6),
            "clamped to the template"
        );
        assert_eq!(topics.version().counter, before.counter + 1);
        let (again, new) = topics.create_like("t", TBW102, 2, 0, &config).unwrap();
        assert!(!new && again.write_queue_nums == 8);
        let (by_cluster, _) = topics.create_like("u", "GoldenCluster", 12, 0, &config).unwrap();
        assert_eq!(by_cluster.write_queue_nums, 12);
        assert!(
            topics.create_like("v", "t", 4, 0, &config).is_none(),
            "not to be inherited"
        );
        assert!(topics.create_like("v", "absent", 4, 0, &config).is_none());
        let closed = BrokerConfig {
            auto_create_topic_enable: false,
            ..config
        };
        assert!(topics.create_like("v", TBW102, 4, 0, &closed).is_none());
    }

    #[test]
    fn admins_cannot_ask_for_the_impossible() {
        let (_dir, topics) = topics();
        let config = config();
        let code = |wish: TopicConfig| topics.update(vec![wish], &config).map_err(|r| r.code);
        for name in [
            "has space",
            "sla/sh",
            "..",
            "",
            "SCHEDULE_TOPIC_XXXX",
            "rmq_sys_x",
        ] {
            assert_eq!(code(wish(name, 1)), Err(codes::INVALID_PARAMETER), "{name:?}");
        }
        for queues in [-1, 0, MAX_QUEUES + 1, i32::MAX] {
            assert_eq!(code(wish("t", queues)), Err(codes::INVALID_PARAMETER), "{queues}");
        }
        let mut bad = wish("t", 1);
        bad.perm = Perm(9);
        assert_eq!(code(bad), Err(codes::INVALID_PARAMETER));
        let mut mixed = wish("t", 1);
        mixed.attributes.insert("+message.type".into(), "MIXED".into());
        assert_eq!(code(mixed), Err(codes::INVALID_PARAMETER));
        assert!(!topics.contains("t"));
        let both = topics.update(vec![wish("a", 1), wish("b", 0)], &config);
        assert!(both.is_err() && !topics.contains("a"), "all or none");
    }

    #[test]
    fn an_identical_topic_moves_no_version() {
        let (_dir, topics) = topics();
        let config = config();
        assert_eq!(topics.update(vec![wish("t", 4)], &config).unwrap().len(), 1);
        let version = topics.version();
        assert!(topics.update(vec![wish("t", 4)], &config).unwrap().is_empty());
        assert_eq!(topics.version(), version);
        assert!(topics.remove("t") && !topics.remove("t"));
    }

    #[test]
    fn the_table_survives_a_restart() {
        let (dir, topics) = topics();
        let config = config();
        let path = dir.path().join("topics.json");
        topics.save().unwrap();
        assert!(!path.exists(), "absent until the first change");
        let mut fifo = wish("g_fifo", 2);
        fifo.attributes.insert("+message.type".into(), "FIFO".into());
        topics.update(vec![fifo], &config).unwrap();
        topics.create_for_group("%RETRY%g", 1, true, 0);
        topics.mark_ordered(["g_fifo".to_owned()].iter());
        topics.save().unwrap();
        let again = Topics::load(path, &config).unwrap();
        assert_eq!(again.map(), topics.map());
        assert_eq!(again.version(), topics.version());
        let found = again.get("g_fifo").unwrap();
        assert_eq!(found.attributes["message.type"], "FIFO");
        assert!(found.order);
    }
}
