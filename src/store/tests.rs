use std::path::Path;
use std::time::SystemTime;

use proptest::prelude::*;

use super::*;

/// A small store that flushes nothing by itself for a while.
fn config(root: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: root.to_owned(),
        mapped_file_size_commit_log: 16_384,
        mapped_file_size_consume_queue: 100,
        max_hash_slot_num: 10,
        max_index_num: 10,
        disk_max_used_space_ratio: 95,
        clean_file_forcibly_enable: false,
        flush_interval_commit_log: 3_600_000,
        ..StoreConfig::default()
    }
}

fn message(topic: &str, n: usize) -> NewMessage {
    NewMessage {
        topic: topic.into(),
        queue_id: 0,
        flag: 0,
        sys_flag: SysFlag(0),
        born_timestamp: 1,
        born_host: ([127, 0, 0, 1], 1).into(),
        store_host: ([127, 0, 0, 1], 2).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: vec![b'x'; 1000].into(),
        properties: format!("KEYS\u{1}k{n}\u{2}"),
    }
}

fn settle(store: &MessageStore) {
    let until = Instant::now() + Duration::from_secs(10);
    while store.shared.build.at() < store.shared.visible_end() {
        assert!(Instant::now() < until);
        thread::yield_now();
    }
}

fn broken(_: u64, _: u64) -> Result<(), Error> {
    Err(Error::Io {
        what: "flush",
        path: "log".into(),
        source: std::io::Error::from_raw_os_error(5),
    })
}

/// K12, K13
#[tokio::test]
async fn k13_a_failed_flush_fails_those_who_wait_and_hides_what_is_not_on_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    store.append(&message("t", 0)).unwrap();
    settle(&store);
    // The disk fails before anybody is asked to wait for it.
    let end = store.shared.log.segments().end();
    store.shared.flush.flush_to(end, broken).unwrap_err();
    store.reconfigure(StoreConfig {
        flush_disk_type: FlushDiskType::SyncFlush,
        ..config(dir.path())
    });
    let appended = store.append(&message("t", 1)).unwrap();
    assert_eq!(store.durable(&appended, true).await, Durability::FlushFailed);
    settle(&store);
    assert_eq!((store.next_offset("t", 0), store.max_offset("t", 0)), (2, 1));
    assert!(store.close().is_err());
    assert!(dir.path().join("abort").exists());
}

/// K12
#[test]
fn k12_a_failed_flush_stops_writing_and_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    store
        .shared
        .health
        .block(Block::FlushFailed, "flush failed: cannot flush log".into());
    let refused = store.append(&message("t", 0)).unwrap_err();
    assert_eq!(
        refused,
        AppendError::NotWritable("flush failed: cannot flush log".into())
    );
    assert_eq!(
        store.figures().not_writable.unwrap(),
        "flush failed: cannot flush log"
    );
}

/// K12
#[test]
fn k12_a_failed_flush_of_a_queue_is_as_final_as_one_of_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    store.append(&message("t", 0)).unwrap();
    settle(&store);
    let too_many_files = Error::Io {
        what: "flush",
        path: "consumequeue".into(),
        source: std::io::Error::from_raw_os_error(24),
    };
    flush::queue_flush_failed(&store.shared, &too_many_files);
    store.append(&message("t", 1)).unwrap();
    settle(&store);
    flush::queue_flush_failed(&store.shared, &broken(0, 0).unwrap_err());
    let refused = store.append(&message("t", 2)).unwrap_err();
    assert!(matches!(refused, AppendError::NotWritable(_)), "{refused:?}");
    flush::flush_queues(&store.shared, 1, true).unwrap();
    assert_eq!(store.shared.checkpoint.get().logics_msg_timestamp, 0);
    assert!(store.close().is_err());
    assert!(dir.path().join("abort").exists());
}

#[test]
fn what_no_reader_takes_for_a_record_is_not_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    let odd = NewMessage {
        properties: "k\u{1}v\u{2}\0".into(),
        ..message("t", 0)
    };
    assert!(matches!(store.append(&odd), Err(AppendError::Illegal(_))));
    assert_eq!(store.append(&message("t", 0)).unwrap().offset, 0);
    settle(&store);
    assert_eq!(store.max_offset("t", 0), 1);
}

#[test]
fn a_lost_entry_takes_no_other_message_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    let mut offsets = Vec::new();
    for n in 0..5 {
        offsets.push(store.append(&message("t", n)).unwrap().offset);
    }
    settle(&store);
    store.close().unwrap();
    let queue = dir
        .path()
        .join("consumequeue/t/0")
        .join(format::file_name::segment(0));
    let mut entries = std::fs::read(&queue).unwrap();
    entries[20..40].copy_from_slice(&format::consume_queue::Entry::BLANK.to_bytes());
    std::fs::write(&queue, entries).unwrap();
    let log = dir.path().join("commitlog").join(format::file_name::segment(0));
    let mut records = std::fs::read(&log).unwrap();
    records[offsets[3] as usize + 4] ^= 1;
    std::fs::write(&log, records).unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    let got = store.get("t", 0, 0, 32, 1 << 20, &|_| true);
    assert_eq!((got.status, got.next_offset), (GetStatus::Found, 5));
    let numbers: Vec<_> = got
        .records
        .iter()
        .map(|bytes| {
            crate::protocol::message::MessageView::parse(bytes)
                .unwrap()
                .queue_offset()
        })
        .collect();
    assert_eq!(numbers, [0, 2, 4]);
    let got = store.get("t", 0, 1, 1, 100, &|_| true);
    assert_eq!((got.status, got.next_offset), (GetStatus::Found, 3));
}

#[test]
fn a_queue_file_that_cannot_be_read_now_does_not_send_its_readers_on() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    for n in 0..7 {
        store.append(&message("t", n)).unwrap();
    }
    settle(&store);
    store.shared.queues.find("t", 0).unwrap().let_go(true);
    // Stands for a process that has no descriptor left.
    let (here, away) = (dir.path().join("consumequeue/t/0"), dir.path().join("away"));
    std::fs::rename(&here, &away).unwrap();
    let got = store.get("t", 0, 1, 32, 1 << 20, &|_| true);
    assert_eq!((got.status, got.next_offset), (GetStatus::OffsetFoundNull, 1));
    std::fs::rename(&away, &here).unwrap();
    assert_eq!(store.get("t", 0, 1, 32, 1 << 20, &|_| true).records.len(), 4);
}

/// K23
#[test]
fn k23_expired_segments_go_and_queues_and_index_follow() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    for n in 0..40 {
        store.append(&message("t", n)).unwrap();
    }
    settle(&store);
    let now = SystemTime::now();
    assert!(!clean::delete_one(&store.shared, now, true).unwrap());
    let later = now + Duration::from_secs(73 * 3600);
    assert!(!clean::delete_one(&store.shared, later, false).unwrap());
    assert!(clean::delete_one(&store.shared, later, true).unwrap());
    // 14 records of 1,102 bytes (one less of those with two digits) fit a segment.
    assert_eq!((store.min_offset("t", 0), store.max_offset("t", 0)), (14, 40));
    assert_eq!(store.figures().min_offset, 16_384);
    let got = store.get("t", 0, 3, 32, 1 << 20, &|_| true);
    assert_eq!((got.status, got.next_offset), (GetStatus::OffsetTooSmall, 14));
    assert!(store.query("t", "k3", 64, 0, i64::MAX).records.is_empty());
    assert_eq!(store.query("t", "k20", 64, 0, i64::MAX).records.len(), 1);
    while clean::delete_one(&store.shared, later, true).unwrap() {}
    assert_eq!(store.min_offset("t", 0), 28);
    assert!(store.shared.log.segments().all().len() == 1);
    store.close().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    assert_eq!((store.min_offset("t", 0), store.max_offset("t", 0)), (28, 40));
    assert_eq!(store.get("t", 0, 28, 1, 100, &|_| true).status, GetStatus::Found);
}

/// K23
#[test]
fn k23_a_queue_whose_records_are_all_gone_keeps_its_number() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    for n in 0..7 {
        store.append(&message("old", n)).unwrap();
    }
    for n in 0..20 {
        store.append(&message("t", n)).unwrap();
    }
    settle(&store);
    let later = SystemTime::now() + Duration::from_secs(73 * 3600);
    assert!(clean::delete_one(&store.shared, later, true).unwrap());
    assert_eq!((store.min_offset("old", 0), store.max_offset("old", 0)), (7, 7));
    for clean in [true, false] {
        if clean {
            store.close().unwrap();
        }
        let copy = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), copy.path());
        let again = MessageStore::open(config(copy.path())).unwrap();
        assert_eq!((again.min_offset("old", 0), again.max_offset("old", 0)), (7, 7));
        let got = again.get("old", 0, 7, 1, 100, &|_| true);
        assert_eq!((got.status, got.next_offset), (GetStatus::OffsetOverflowOne, 7));
        assert_eq!(again.append(&message("old", 7)).unwrap().queue_offset, 7);
        settle(&again);
        assert_eq!(again.get("old", 0, 7, 1, 100, &|_| true).status, GetStatus::Found);
    }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        // Opening the lock here would let it go.
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// K19
#[test]
fn k19_queues_that_lost_their_ends_are_complete_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    for n in 0..40 {
        store.append(&message("t", n)).unwrap();
    }
    settle(&store);
    drop(store);
    for lost in 0..40usize {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(dir.path(), copy.path());
        // Five entries a segment; zero the last ones.
        for n in 40 - lost..40 {
            let name = format::file_name::segment(n as u64 / 5 * 100);
            let path = copy.path().join("consumequeue/t/0").join(name);
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[n % 5 * 20..][..20].fill(0);
            std::fs::write(&path, bytes).unwrap();
        }
        let again = MessageStore::open(config(copy.path())).unwrap();
        assert_eq!(again.max_offset("t", 0), 40, "{lost} lost");
        for n in 0..40 {
            let got = again.get("t", 0, n, 1, 100, &|_| true);
            let view = crate::protocol::message::MessageView::parse_checked(&got.records[0]).unwrap();
            assert_eq!(view.queue_offset(), n, "{lost} lost");
            let found = again.query("t", &format!("k{n}"), 64, 0, i64::MAX);
            assert_eq!(found.records.len(), 1, "{lost} lost");
        }
    }
}

/// K43, the store's part.
#[test]
fn k43_store_times_do_not_go_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    let last = store.append(&message("t", 0)).unwrap();
    settle(&store);
    store.close().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    assert_eq!(store.shared.log.tail(), (last.end as u64, last.store_timestamp));
    assert_eq!(store.shared.checkpoint.get().confirm_phy_offset, last.offset);
}

/// What a store is put through.
#[derive(Debug, Clone)]
enum Step {
    Append { queue_id: i32, len: usize },
    Batch { queue_id: i32, lens: Vec<usize> },
    Stop,
    Die,
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..3i32, 0usize..6000).prop_map(|(queue_id, len)| Step::Append { queue_id, len }),
        5 => (0..3i32, proptest::collection::vec(0usize..1500, 1..6))
            .prop_map(|(queue_id, lens)| Step::Batch { queue_id, lens }),
        1 => Just(Step::Stop),
        2 => Just(Step::Die),
    ]
}

fn filled(queue_id: i32, n: usize, len: usize) -> NewMessage {
    NewMessage {
        queue_id,
        body: vec![n as u8; len].into(),
        properties: format!("KEYS\u{1}{queue_id}-{n}\u{2}"),
        ..message("t", 0)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_store_holds_what_was_appended_whatever_happens_between(
        steps in proptest::collection::vec(any_step(), 1..60),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = MessageStore::open(config(dir.path())).unwrap();
        let mut model = [vec![], vec![], vec![]];
        for step in steps.into_iter().chain([Step::Die]) {
            match step {
                Step::Append { queue_id, len } => {
                    let queue = &mut model[queue_id as usize];
                    let appended = store.append(&filled(queue_id, queue.len(), len)).unwrap();
                    prop_assert_eq!(appended.queue_offset, queue.len() as i64);
                    queue.push(len);
                }
                Step::Batch { queue_id, lens } => {
                    let queue = &mut model[queue_id as usize];
                    let batch: Vec<_> =
                        (queue.len()..).zip(&lens).map(|(n, len)| filled(queue_id, n, *len)).collect();
                    store.append_batch(&batch).unwrap();
                    queue.extend(lens);
                }
                Step::Stop => {
                    store.close().unwrap();
                    drop(store);
                    store = MessageStore::open(config(dir.path())).unwrap();
                }
                Step::Die => {
                    drop(store);
                    store = MessageStore::open(config(dir.path())).unwrap();
                }
            }
        }
        settle(&store);
        for (queue_id, queue) in model.iter().enumerate() {
            let queue_id = queue_id as i32;
            prop_assert_eq!(store.max_offset("t", queue_id), queue.len() as i64);
            for (n, len) in queue.iter().enumerate() {
                let got = store.get("t", queue_id, n as i64, 1, 1 << 20, &|_| true);
                let view = crate::protocol::message::MessageView::parse_checked(&got.records[0]).unwrap();
                prop_assert_eq!(view.body(), vec![n as u8; *len]);
                let found = store.query("t", &format!("{queue_id}-{n}"), 64, 0, i64::MAX);
                prop_assert_eq!(found.records.len(), 1);
            }
        }
    }
}
