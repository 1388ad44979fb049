//! The life of a store: append, read, stop, die, open again.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::protocol::message::{MessageView, NewMessage};
use rmq::protocol::model::{SysFlag, tags_code};
use rmq::store::{
    AppendError, Boundary, Durability, Error, FlushDiskType, GetStatus, MessageStore, StoreConfig,
};

pub const SEGMENT: u64 = 64 * 1024;

/// A small store: segments of 64 KiB, queue segments of 50 entries, index files of 99 items.
pub fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: root.to_owned(),
        mapped_file_size_commit_log: SEGMENT,
        mapped_file_size_consume_queue: 1000,
        max_hash_slot_num: 20,
        max_index_num: 100,
        // The disk of the machine that tests is none of their business.
        disk_max_used_space_ratio: 95,
        disk_space_warning_level_ratio: 90,
        clean_file_forcibly_enable: false,
        ..StoreConfig::default()
    }
}

pub fn message(topic: &str, queue_id: i32, body: impl Into<Bytes>, properties: &str) -> NewMessage {
    NewMessage {
        topic: topic.into(),
        queue_id,
        flag: 0,
        sys_flag: SysFlag(0),
        born_timestamp: 1,
        born_host: ([127, 0, 0, 1], 4000).into(),
        store_host: ([127, 0, 0, 1], 10911).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: body.into(),
        properties: properties.into(),
    }
}

/// Waits until everything appended can be consumed.
pub fn settled(store: &MessageStore) {
    let until = Instant::now() + Duration::from_secs(10);
    while store.figures().dispatch_behind_bytes > 0 {
        assert!(Instant::now() < until, "queues do not catch up");
        std::thread::yield_now();
    }
}

/// Bodies of all messages of a queue.
pub fn bodies(store: &MessageStore, topic: &str, queue_id: i32) -> Vec<Bytes> {
    let mut bodies = Vec::new();
    let mut offset = store.min_offset(topic, queue_id);
    while offset < store.max_offset(topic, queue_id) {
        let got = store.get(topic, queue_id, offset, 32, 1 << 20, &|_| true);
        assert_eq!(got.status, GetStatus::Found);
        for record in got.records {
            let view = MessageView::parse_checked(&record).unwrap();
            assert_eq!(view.queue_offset(), offset);
            offset += 1;
            bodies.push(Bytes::copy_from_slice(view.body()));
        }
        assert_eq!(offset, got.next_offset);
    }
    bodies
}

pub fn open(root: &Path) -> Arc<MessageStore> {
    MessageStore::open(config(root)).unwrap()
}

pub fn fill(store: &MessageStore, from: usize, count: usize) {
    for n in from..from + count {
        let properties = format!(
            "KEYS\u{1}k{n} shared\u{2}TAGS\u{1}tag{}\u{2}UNIQ_KEY\u{1}u{n}\u{2}",
            n % 3
        );
        let body = format!("{n:04}").repeat(100);
        store
            .append(&message("t", (n % 2) as i32, body, &properties))
            .unwrap();
    }
}

/// Everything that `fill(0, count)` wrote is there, once.
pub fn check(store: &MessageStore, count: usize) {
    settled(store);
    for queue_id in 0..2 {
        let expected: Vec<_> = (queue_id..count)
            .step_by(2)
            .map(|n| Bytes::from(format!("{n:04}").repeat(100)))
            .collect();
        assert_eq!(bodies(store, "t", queue_id as i32), expected, "queue {queue_id}");
        assert_eq!(store.next_offset("t", queue_id as i32), expected.len() as i64);
    }
    for n in 0..count {
        for key in [format!("k{n}"), format!("u{n}")] {
            let found = store.query("t", &key, 64, 0, i64::MAX);
            assert_eq!(found.records.len(), 1, "key {key}");
        }
    }
    assert_eq!(
        store.query("t", "shared", 64, 0, i64::MAX).records.len(),
        count.min(64)
    );
}

#[test]
fn messages_survive_a_clean_stop() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert!(dir.path().join("abort").exists());
    fill(&store, 0, 300);
    check(&store, 300);
    store.close().unwrap();
    store.close().unwrap();
    assert!(matches!(
        store.append(&message("t", 0, "x", "")),
        Err(AppendError::NotWritable(_))
    ));
    assert!(!dir.path().join("abort").exists());
    let store = open(dir.path());
    check(&store, 300);
    fill(&store, 300, 100);
    check(&store, 400);
}

#[test]
fn messages_survive_death() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4 {
        let store = open(dir.path());
        check(&store, round * 130);
        fill(&store, round * 130, 130);
        // Dropped without a stop, at any point of the building.
    }
    let store = open(dir.path());
    check(&store, 520);
}

/// K30
#[test]
fn k30_a_store_is_open_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for _ in 0..2 {
        let error = MessageStore::open(config(dir.path())).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
    }
    store.close().unwrap();
    open(dir.path()).close().unwrap();
}

#[test]
fn another_segment_size_is_refused_with_file_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, 0, 1);
    store.close().unwrap();
    for (change, key) in [
        (
            (|c| c.mapped_file_size_commit_log *= 2) as fn(&mut StoreConfig),
            "mappedFileSizeCommitLog",
        ),
        (
            |c| c.mapped_file_size_consume_queue = 2000,
            "mappedFileSizeConsumeQueue",
        ),
        (|c| c.max_index_num = 50, "maxIndexNum"),
    ] {
        let mut other = config(dir.path());
        change(&mut other);
        let error = MessageStore::open(other).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    check(&open(dir.path()), 1);
}

#[test]
fn a_batch_is_one_piece() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, 0, 110);
    let batch: Vec<_> = (0..20).map(|n| message("b", 0, vec![n; 1000], "")).collect();
    let (appended, offsets) = store.append_batch(&batch).unwrap();
    assert_eq!(
        appended.offset as u64 % SEGMENT,
        0,
        "the batch moved to the next segment"
    );
    assert_eq!(offsets.len(), 20);
    assert_eq!(
        (offsets[0], offsets[1] - offsets[0]),
        (appended.offset, 1000 + 91 + 1)
    );
    assert_eq!(appended.queue_offset, 0);
    settled(&store);
    assert_eq!(bodies(&store, "b", 0).len(), 20);
    let mut mixed = batch.clone();
    mixed[7].queue_id = 1;
    assert!(matches!(store.append_batch(&mixed), Err(AppendError::Illegal(_))));
    assert!(matches!(store.append_batch(&[]), Err(AppendError::Illegal(_))));
    let too_big: Vec<_> = (0..100).map(|_| message("b", 0, vec![0; 1000], "")).collect();
    assert!(matches!(
        store.append_batch(&too_big),
        Err(AppendError::Illegal(_))
    ));
    assert_eq!(store.next_offset("b", 0), 20);
}

#[test]
fn what_cannot_be_stored_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    for bad in [
        message("../t", 0, "x", ""),
        message("a/b", 0, "x", ""),
        message("", 0, "x", ""),
        message("t", -1, "x", ""),
        message("t", 0, "x", &"p".repeat(32_768)),
        message("t", 0, vec![0; SEGMENT as usize], ""),
        message("t", 0, vec![0; 5 * 1024 * 1024], ""),
    ] {
        assert!(matches!(store.append(&bad), Err(AppendError::Illegal(_))));
    }
    assert_eq!(store.figures().max_offset, 0);
}

/// K29: reads create nothing.
#[test]
fn k29_reads_follow_javas_table() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let get = |topic, offset| {
        let got = store.get(topic, 0, offset, 32, 1 << 20, &|_| true);
        (got.status, got.next_offset)
    };
    assert_eq!(get("nothing", 5), (GetStatus::NoMessageInQueue, 0));
    fill(&store, 0, 300);
    settled(&store);
    assert_eq!(get("t", -1), (GetStatus::OffsetTooSmall, 0));
    assert_eq!(get("t", 150), (GetStatus::OffsetOverflowOne, 150));
    assert_eq!(get("t", 151), (GetStatus::OffsetOverflowBadly, 150));
    assert_eq!(get("t", 0), (GetStatus::Found, 32));
    // One segment of the queue has 50 entries.
    assert_eq!(get("t", 40), (GetStatus::Found, 50));
    assert!(!dir.path().join("consumequeue/nothing").exists());

    let tagged = tags_code("tag1");
    let got = store.get("t", 0, 0, 32, 1 << 20, &|code| code == tagged);
    assert_eq!(
        (got.status, got.records.len(), got.next_offset),
        (GetStatus::Found, 16, 50)
    );
    let got = store.get("t", 0, 0, 32, 1 << 20, &|_| false);
    assert_eq!((got.status, got.next_offset), (GetStatus::NoMatchedMessage, 50));
    // The first message always comes, however little is asked for.
    let got = store.get("t", 0, 0, 32, 1, &|_| true);
    assert_eq!(got.records.len(), 1);
    let got = store.get("t", 0, 0, 0, 1 << 20, &|_| true);
    assert_eq!(got.records.len(), 1);
}

#[test]
fn offsets_by_time_have_both_boundaries() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut times = Vec::new();
    for _ in 0..5 {
        times.push(store.append(&message("t", 0, "x", "")).unwrap().store_timestamp);
        std::thread::sleep(Duration::from_millis(2));
    }
    settled(&store);
    for (n, time) in times.iter().enumerate() {
        let n = n as i64;
        assert_eq!(store.store_time("t", 0, n), *time);
        assert_eq!(store.offset_by_time("t", 0, *time, Boundary::Lower), n);
        assert_eq!(store.offset_by_time("t", 0, *time, Boundary::Upper), n);
        assert_eq!(store.offset_by_time("t", 0, *time + 1, Boundary::Lower), n + 1);
    }
    assert_eq!(store.offset_by_time("t", 0, 0, Boundary::Lower), 0);
    assert_eq!(store.offset_by_time("t", 0, 0, Boundary::Upper), 0);
    assert_eq!(store.offset_by_time("t", 0, i64::MAX, Boundary::Lower), 5);
    assert_eq!(store.offset_by_time("t", 0, i64::MAX, Boundary::Upper), 4);
    assert_eq!(store.store_time("t", 0, 5), -1);
    assert!(store.in_memory("t", 0, 4) && !store.in_memory("t", 0, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bell_rings_for_each_message_without_delay() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut bell = store.bell("t", 0);
    assert!(!dir.path().join("consumequeue").join("t").exists());
    for n in 0..50 {
        store.append(&message("t", 0, "x", "")).unwrap();
        tokio::time::timeout(Duration::from_secs(5), bell.wait_for(|max| *max > n))
            .await
            .expect("the bell rings")
            .unwrap();
        assert_eq!(store.get("t", 0, n, 1, 100, &|_| true).status, GetStatus::Found);
    }
}

/// K13
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k13_sync_flush_holds_back_until_the_disk_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(StoreConfig {
        flush_disk_type: FlushDiskType::SyncFlush,
        ..config(dir.path())
    })
    .unwrap();
    let mut waits = Vec::new();
    for n in 0..200u8 {
        let appended = store.append(&message("t", 0, vec![n; 500], "")).unwrap();
        waits.push(store.durable(&appended, true));
        assert_eq!(store.durable(&appended, false).await, Durability::Done);
    }
    for wait in waits {
        assert_eq!(wait.await, Durability::Done);
    }
    assert_eq!(store.figures().unflushed_bytes, 0);
    settled(&store);
    assert_eq!(bodies(&store, "t", 0).len(), 200);
    // And back to ASYNC_FLUSH while it runs.
    store.reconfigure(config(dir.path()));
    let appended = store.append(&message("t", 0, "x", "")).unwrap();
    assert_eq!(store.durable(&appended, true).await, Durability::Done);
    settled(&store);
    store.close().unwrap();
}

#[test]
fn half_messages_have_no_queue_entry() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let mut half = message("t", 0, "x", "");
    half.sys_flag = SysFlag(SysFlag::TRANSACTION_PREPARED);
    let appended = store.append(&half).unwrap();
    settled(&store);
    assert_eq!((appended.queue_offset, store.max_offset("t", 0)), (0, 0));
    assert!(store.record_at(appended.offset).is_some());
    assert!(store.record_at(appended.offset + 1).is_none());
}

/// K29
#[test]
fn k29_a_deleted_topic_does_not_come_back_with_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, 0, 20);
    settled(&store);
    store.delete_topic("t").unwrap();
    store.append(&message("other", 0, "x", "")).unwrap();
    drop(store);
    let store = open(dir.path());
    settled(&store);
    assert_eq!((store.max_offset("t", 0), store.max_offset("other", 0)), (0, 1));
    assert!(!dir.path().join("consumequeue/t").exists());
    // A topic of that name may come again and begins anew.
    fill(&store, 0, 4);
    drop(store);
    let store = open(dir.path());
    settled(&store);
    assert_eq!(
        (bodies(&store, "t", 0).len(), bodies(&store, "t", 1).len()),
        (2, 2)
    );
}

/// K20, K21
#[test]
fn k21_stray_names_are_ignored_and_cut_files_mended() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    fill(&store, 0, 300);
    settled(&store);
    drop(store);
    let root = dir.path();
    for sub in [
        "commitlog",
        "consumequeue/t/0",
        "consumequeue/t",
        "consumequeue",
        "index",
    ] {
        for stray in ["lost+found", "core", ".nfs0001"] {
            std::fs::write(root.join(sub).join(stray), b"").unwrap();
        }
        std::fs::create_dir(root.join(sub).join("00000000000000000000x")).unwrap();
    }
    let last = root.join("commitlog/00000000000000196608");
    assert!(!last.exists());
    std::fs::write(&last, b"").unwrap();
    let tail = root.join("consumequeue/t/0/00000000000000002000");
    let cut = std::fs::OpenOptions::new().write(true).open(&tail).unwrap();
    for len in [500, 0] {
        cut.set_len(len).unwrap();
        let store = open(root);
        check(&store, 300);
        drop(store);
    }
    for (len, clean) in [(0, false), (10, true), (1000, false)] {
        let index = std::fs::read_dir(root.join("index"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.is_file() && path.to_string_lossy().ends_with(char::is_numeric))
            .max()
            .unwrap();
        std::fs::OpenOptions::new()
            .write(true)
            .open(index)
            .unwrap()
            .set_len(len)
            .unwrap();
        let store = open(root);
        check(&store, 300);
        if clean {
            store.close().unwrap();
        }
    }
}

/// K30
#[test]
fn k30_a_store_of_another_kind_or_without_rights_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("consumequeue")).unwrap();
    std::fs::write(dir.path().join("consumequeue/CURRENT"), b"MANIFEST-000001\n").unwrap();
    let error = MessageStore::open(config(dir.path())).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    let error = MessageStore::open(config(Path::new("/proc/no/store"))).unwrap_err();
    assert!(error.to_string().contains("/proc/no/store"), "{error}");
}
