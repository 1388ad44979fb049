//! Stores written by the Java broker 5.3.3, opened by ours: what it reads and recovers is what Java's own code does.
//! Where we do better than Java on purpose, the test says so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rmq::protocol::message::MessageView;
use rmq::store::cursor::{Found, MessageCursor, QueueCursor};
use rmq::store::reader::{QueueName, StoreReader};
use rmq::store::{Boundary, MessageStore, StoreConfig};
use serde_json::Value;

use crate::store_life::{message, settled};

pub struct Golden {
    _dir: tempfile::TempDir,
    root: PathBuf,
    expect: Value,
}

impl Golden {
    pub fn unpack(name: &str) -> Self {
        Self::unpack_expecting(name, name)
    }

    /// A store of which another one's values are expected: the one that the same log makes with whole queues.
    fn unpack_expecting(name: &str, expect: &str) -> Self {
        let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stores");
        let read = |name: &str, suffix: &str| {
            let path = stores.join(format!("{name}.{suffix}"));
            zstd::stream::decode_all(std::fs::File::open(path).unwrap()).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let tarball = read(name, "tar.zst");
        let mut archive = tar::Archive::new(&tarball[..]);
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            // 38 MB of a file that has nothing to do with this.
            if !entry.path().unwrap().ends_with("timerwheel") {
                entry.unpack_in(dir.path()).unwrap();
            }
        }
        Self {
            root: dir.path().join(name),
            _dir: dir,
            expect: serde_json::from_slice(&read(expect, "expect.json.zst")).unwrap(),
        }
    }

    pub fn config(&self) -> StoreConfig {
        let number = |key: &str| {
            self.expect["config"][key]
                .as_str()
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        StoreConfig {
            store_path_root_dir: self.root.clone(),
            mapped_file_size_commit_log: number("mappedFileSizeCommitLog"),
            mapped_file_size_consume_queue: number("mappedFileSizeConsumeQueue"),
            max_hash_slot_num: number("maxHashSlotNum") as u32,
            max_index_num: number("maxIndexNum") as u32,
            file_reserved_time: 876_000,
            disk_max_used_space_ratio: 95,
            clean_file_forcibly_enable: false,
            ..StoreConfig::default()
        }
    }

    fn open(&self) -> Arc<MessageStore> {
        MessageStore::open(self.config()).unwrap()
    }

    fn reader(&self) -> StoreReader {
        StoreReader::with_config(self.config()).unwrap()
    }

    /// Queues as Java has them after it has started, by `topic@number`.
    fn queues(&self) -> impl Iterator<Item = (QueueName, &Value)> {
        self.expect["afterStart"]["queues"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, queue)| {
                let (topic, queue_id) = name.rsplit_once('@').unwrap();
                let name = QueueName {
                    topic: topic.into(),
                    queue_id: queue_id.parse().unwrap(),
                };
                (name, queue)
            })
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

/// Compares log end, queues, reads and index with what Java has after its own start.
fn check(golden: &Golden, store: &MessageStore) {
    let after = &golden.expect["afterStart"];
    settled(store);
    assert_eq!(store.figures().max_offset, int(&after["maxPhyOffset"]));
    assert_eq!(store.figures().min_offset, int(&after["minPhyOffset"]));
    for (name, queue) in golden.queues() {
        let (topic, id) = (name.topic.as_str(), name.queue_id);
        assert_eq!(store.min_offset(topic, id), int(&queue["minOffset"]), "{name:?}");
        assert_eq!(store.max_offset(topic, id), int(&queue["maxOffset"]), "{name:?}");
        assert_eq!(
            store.next_offset(topic, id),
            int(&queue["nextQueueOffsetToAssign"]),
            "{name:?}"
        );
    }
    check_units(golden);
    for got in golden.expect["getMessage"].as_array().unwrap() {
        let (topic, id) = (got["topic"].as_str().unwrap(), int(&got["queueId"]) as i32);
        let count = int(&got["maxMsgNums"]) as usize;
        let ours = store.get(topic, id, int(&got["offset"]), count, 128 << 20, &|_| true);
        assert_eq!(ours.status.name(), got["status"].as_str().unwrap(), "{got}");
        assert_eq!(ours.next_offset, int(&got["nextBeginOffset"]), "{got}");
        assert_eq!(
            (ours.min_offset, ours.max_offset),
            (int(&got["minOffset"]), int(&got["maxOffset"]))
        );
        assert_eq!(ours.records.len() as i64, int(&got["messageCount"]), "{got}");
        let bytes: usize = ours.records.iter().map(bytes::Bytes::len).sum();
        assert_eq!(bytes as i64, int(&got["bufferTotalSize"]), "{got}");
    }
    let end = int(&after["maxPhyOffset"]);
    for query in golden.expect["indexQueries"].as_array().unwrap() {
        // Java indexes one record twice after a crash, and keeps items of records that it cut off.
        let expected: BTreeSet<_> = query["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(int)
            .filter(|at| *at < end)
            .collect();
        let (topic, key) = (query["topic"].as_str().unwrap(), query["key"].as_str().unwrap());
        let most = int(&query["maxNum"]) as usize;
        let found = store.query(topic, key, most, int(&query["begin"]), int(&query["end"]));
        let found: Vec<_> = found
            .records
            .iter()
            .map(|bytes| MessageView::parse_checked(bytes).unwrap().physical_offset())
            .collect();
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{query}");
    }
}

fn check_units(golden: &Golden) {
    let reader = golden.reader();
    for (name, queue) in golden.queues() {
        let segments = reader.consume_queue(&name).unwrap();
        let min = int(&queue["minOffset"]) as u64;
        let ours: Vec<_> = QueueCursor::new(&segments, min)
            .map_while(Result::ok)
            .map(|(n, entry)| [n as i64, entry.offset, i64::from(entry.size), entry.tags_code])
            .collect();
        let theirs: Vec<_> = queue["units_q_phy_size_tags"]
            .as_array()
            .unwrap()
            .iter()
            .map(|unit| [0, 1, 2, 3].map(|n| int(&unit[n])))
            .collect();
        assert_eq!(ours, theirs, "{name:?}");
    }
}

/// Compares every record with Java's reading of it, field by field.
fn check_records(golden: &Golden) {
    let log = golden.reader().commit_log().unwrap();
    let mut cursor = MessageCursor::new(&log, 0);
    for record in golden.expect["records"].as_array().unwrap() {
        let found = cursor.next().unwrap().unwrap();
        if record["blank"] == Value::Bool(true) {
            assert!(matches!(found, Found::Filler { at, .. } if at as i64 == int(&record["offset"])));
            continue;
        }
        let Found::Message(found) = found else {
            panic!("a filler instead of {record}");
        };
        let view = found.view().unwrap();
        assert_eq!(
            (found.at as i64, view.size() as i64),
            (int(&record["offset"]), int(&record["size"]))
        );
        assert_eq!(view.topic(), record["topic"].as_str().unwrap());
        assert_eq!(i64::from(view.queue_id()), int(&record["queueId"]));
        assert_eq!(view.queue_offset(), int(&record["queueOffset"]));
        if record.get("magic").is_none() {
            continue;
        }
        assert_eq!(format!("{:08x}", view.magic()), record["magic"].as_str().unwrap());
        for (ours, field) in [
            (i64::from(view.body_crc()), "bodyCRC"),
            (i64::from(view.flag()), "flag"),
            (i64::from(view.sys_flag().0), "sysFlag"),
            (view.born_timestamp(), "bornTimestamp"),
            (view.store_timestamp(), "storeTimestamp"),
            (i64::from(view.reconsume_times()), "reconsumeTimes"),
            (view.prepared_transaction_offset(), "preparedTransactionOffset"),
            (view.body().len() as i64, "storedBodyLen"),
        ] {
            assert_eq!(ours, int(&record[field]), "{field} of {record}");
        }
        assert_eq!(view.offset_id(), record["offsetMsgId"].as_str().unwrap());
        let ours: BTreeMap<_, _> = view.properties().iter().collect();
        let theirs: BTreeMap<_, _> = record["properties"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str().unwrap()))
            .collect();
        assert_eq!(ours, theirs, "{record}");
        if let Some(len) = record.get("bodyLen") {
            assert_eq!(view.decoded_body(1 << 22).unwrap().len() as i64, int(len));
        }
    }
}

/// Opens a store, compares, appends to it, stops, and opens it once more.
fn check_and_go_on(name: &str) {
    go_on(&Golden::unpack(name));
}

fn go_on(golden: &Golden) {
    let store = golden.open();
    check(golden, &store);
    check_records(golden);
    let next = golden
        .queues()
        .map(|(name, queue)| (name, int(&queue["nextQueueOffsetToAssign"])))
        .collect::<Vec<_>>();
    for (queue, next) in &next {
        let new = message(&queue.topic, queue.queue_id, "new", "KEYS\u{1}brand-new\u{2}");
        assert_eq!(store.append(&new).unwrap().queue_offset, *next, "{queue:?}");
    }
    store.close().unwrap();
    let store = golden.open();
    settled(&store);
    for (queue, next) in &next {
        assert_eq!(
            store.max_offset(&queue.topic, queue.queue_id),
            next + 1,
            "{queue:?}"
        );
        let found = store.query(&queue.topic, "brand-new", 64, 0, i64::MAX);
        assert!(!found.records.is_empty(), "{queue:?}");
    }
}

#[test]
fn basic() {
    check_and_go_on("basic");
}

#[test]
fn ipv6() {
    check_and_go_on("ipv6");
}

#[test]
fn delay_and_transactions() {
    check_and_go_on("delay-tx");
}

#[test]
fn property_checksums() {
    check_and_go_on("crcprop");
}

#[test]
fn crashed() {
    check_and_go_on("crashed");
}

#[test]
fn torn_tail() {
    check_and_go_on("torn-tail");
}

#[test]
fn torn_head() {
    check_and_go_on("torn-head");
}

#[test]
fn a_flipped_bit_ends_the_log_and_the_records_behind_it_are_kept_aside() {
    check_and_go_on("torn-flip");
    let golden = Golden::unpack("torn-flip");
    golden.open();
    let lost: Vec<_> = std::fs::read_dir(golden.root.join("lost")).unwrap().collect();
    let lost = std::fs::read(lost[0].as_ref().unwrap().path()).unwrap();
    // Java cuts off 92 records, of which one is the damaged one; its bytes are kept, too.
    let damaged = u32::from_be_bytes(*lost.first_chunk().unwrap()) as usize;
    assert_eq!(
        rmq::protocol::message::records(&lost[damaged..])
            .filter(Result::is_ok)
            .count(),
        91
    );
}

#[test]
fn a_flipped_bit_before_the_checkpoint_is_not_noticed() {
    let golden = Golden::unpack("torn-flip-early");
    let store = golden.open();
    settled(&store);
    assert_eq!(store.figures().max_offset, 2_474_904);
}

#[test]
fn missing_queues_are_rebuilt() {
    check_and_go_on("dirty-cq-all");
    check_and_go_on("dirty-cq-one-abort");
}

/// Java lets such a queue stay empty or short, and gives its next message a number that is in use.
#[test]
fn one_missing_or_short_queue_is_rebuilt_after_a_clean_stop_too() {
    go_on(&Golden::unpack_expecting("dirty-cq-one", "dirty-cq-one-abort"));
    go_on(&Golden::unpack_expecting("dirty-cq-tail", "dirty-cq-one-abort"));
}

#[test]
fn a_slave_of_a_java_master() {
    check_and_go_on("ha-slave");
    check_and_go_on("ha-master");
}

#[test]
fn queues_that_reach_beyond_the_log_are_cut() {
    check_and_go_on("dirty-cq-beyond");
}

/// Batch queues, light queues and the queue extension, as Java reads them.
fn check_features(golden: &Golden, store: &MessageStore) {
    settled(store);
    for (name, queue) in golden.queues() {
        let (topic, id) = (name.topic.as_str(), name.queue_id);
        assert_eq!(store.min_offset(topic, id), int(&queue["minOffset"]), "{name:?}");
        assert_eq!(store.max_offset(topic, id), int(&queue["maxOffset"]), "{name:?}");
    }
    for got in golden.expect["getMessage"].as_array().unwrap() {
        let (topic, id) = (got["topic"].as_str().unwrap(), int(&got["queueId"]) as i32);
        let count = int(&got["maxMsgNums"]) as usize;
        let ours = store.get(topic, id, int(&got["offset"]), count, 128 << 20, &|_| true);
        assert_eq!(ours.status.name(), got["status"].as_str().unwrap(), "{got}");
        assert_eq!(ours.next_offset, int(&got["nextBeginOffset"]), "{got}");
        let messages = |record: &bytes::Bytes| {
            let view = MessageView::parse(record).unwrap();
            view.properties()
                .get("INNER_NUM")
                .map_or(1, |n| n.parse::<i64>().unwrap())
        };
        let count: i64 = ours.records.iter().map(messages).sum();
        assert_eq!(count, int(&got["messageCount"]), "{got}");
        let bytes: usize = ours.records.iter().map(bytes::Bytes::len).sum();
        assert_eq!(bytes as i64, int(&got["bufferTotalSize"]), "{got}");
    }
}

#[test]
fn features_of_java_stores_are_served() {
    let golden = Golden::unpack("features");
    let store = golden.open();
    check_features(&golden, &store);
    let first = store.store_time("g_bcq", 0, 0);
    assert!(first > 0);
    assert_eq!(store.offset_by_time("g_bcq", 0, first, Boundary::Lower), 0);
    assert_eq!(store.offset_by_time("g_bcq", 0, i64::MAX, Boundary::Lower), 61);
    store.close().unwrap();
    let store = golden.open();
    check_features(&golden, &store);
    store.close().unwrap();
}

#[test]
fn lost_batch_and_light_queues_are_made_again_from_the_log() {
    let golden = Golden::unpack("features");
    std::fs::remove_dir_all(golden.root.join("batchconsumequeue")).unwrap();
    std::fs::remove_dir_all(golden.root.join("consumequeue")).unwrap();
    std::fs::write(golden.root.join("abort"), "1").unwrap();
    let config = StoreConfig {
        enable_multi_dispatch: true,
        ..golden.config()
    };
    let store = MessageStore::open(config.clone()).unwrap();
    settled(&store);
    for (name, queue) in golden.queues() {
        let (topic, id) = (name.topic.as_str(), name.queue_id);
        assert_eq!(store.max_offset(topic, id), int(&queue["maxOffset"]), "{name:?}");
        let all = store.get(topic, id, 0, 100, 128 << 20, &|_| true);
        assert_eq!((all.status.name(), all.min_offset), ("FOUND", 0), "{name:?}");
    }
    store.close().unwrap();
    let store = MessageStore::open(config).unwrap();
    settled(&store);
    assert_eq!(store.max_offset("g_bcq", 0), 61, "after a clean stop");
    store.close().unwrap();
    assert!(!golden.root.join("consumequeue/g_bcq").exists());
}
