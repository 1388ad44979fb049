//! Bits and lengths that are wrong at a start, in files that can be made again: no message is lost, and no queue offset
//! is given twice.

use std::path::Path;

use rmq::protocol::message::MessageView;
use rmq::store::{GetStatus, MessageStore, StoreConfig};

use crate::store_faults::SmallDisk;
use crate::store_golden::Golden;
use crate::store_life::{SEGMENT, bodies, check, fill, message, open, settled};
use crate::store_recovery::{copy_dir, cut, edit, files, log, queue, stopped};
use crate::support::{quick_scratch, wait};

/// How a store was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Stopped by us, with the list of its queues.
    Clean,
    /// Stopped by a Java broker, which leaves no such list.
    WithoutList,
    Killed,
}

/// One bit of the last entry of a queue, after each kind of stop: every message is served, the next one gets the next
/// offset, and is served, too.
#[test]
fn a_flipped_bit_in_the_last_entry_of_a_queue_costs_no_message() {
    for (count, step) in [(20, 1), (252, 9), (300, 9)] {
        for left in [Left::Clean, Left::WithoutList, Left::Killed] {
            let dir = stopped(count, left != Left::Killed);
            if left == Left::WithoutList {
                std::fs::remove_file(dir.path().join("config/rmqStopped")).unwrap();
            }
            let last = count / 2 - 1;
            // Of the tag code, too, though only filters look at it.
            for bit in (0..160).step_by(step) {
                let copy = quick_scratch();
                copy_dir(dir.path(), copy.path());
                let path = files(&queue(copy.path(), 0)).pop().unwrap();
                edit(&path, |bytes| {
                    bytes[last % 50 * 20 + bit / 8] ^= 0x80 >> (bit % 8);
                });
                let what = format!("{count} messages, {left:?}, bit {bit}");
                served(copy.path(), count, &what);
            }
        }
    }
}

fn served(root: &Path, count: usize, what: &str) {
    let store = open(root);
    settled(&store);
    for queue_id in 0..2usize {
        let found = bodies(&store, "t", queue_id as i32);
        let wanted: Vec<_> = (queue_id..count).step_by(2).collect();
        assert_eq!(found.len(), wanted.len(), "{what}");
        for (found, n) in found.iter().zip(wanted) {
            assert_eq!(*found, format!("{n:04}").repeat(100), "{what}");
        }
    }
    let next = (count / 2) as i64;
    let new = store.append(&message("t", 0, "new", "")).unwrap();
    assert_eq!(new.queue_offset, next, "{what}");
    settled(&store);
    let got = store.get("t", 0, next, 1, 1 << 20, &|_| true);
    assert_eq!(got.status, GetStatus::Found, "{what}");
    assert_eq!(
        MessageView::parse(&got.records[0]).unwrap().body(),
        b"new",
        "{what}"
    );
}

/// Files of a queue or of the index that are longer or shorter than the others: all of it is made again, and what was
/// there is kept aside.
#[test]
fn k20_queue_and_index_files_of_a_wrong_length_are_made_again() {
    for clean in [false, true] {
        let dir = stopped(300, clean);
        let full = files(&dir.path().join("index"))[0].metadata().unwrap().len();
        let cases = [
            ("consumequeue/t/0", 0, 0),
            ("consumequeue/t/0", 1, 500),
            ("consumequeue/t/0", 1, 1001),
            ("consumequeue/t/0", 2, 1500),
            ("index", 0, full / 2),
            ("index", 1, 0),
            ("index", 1, full + 20),
            ("index", 5, full + 4096),
        ];
        for (sub, n, len) in cases {
            let copy = quick_scratch();
            copy_dir(dir.path(), copy.path());
            let path = files(&copy.path().join(sub))[n].clone();
            cut(&path, len);
            let store = open(copy.path());
            check(&store, 300);
            let kept = copy.path().join("lost").join(sub).join(path.file_name().unwrap());
            assert_eq!(kept.metadata().unwrap().len(), len, "{sub} {n} {len}");
            store.close().unwrap();
            drop(store);
            // And again, with nothing to be done.
            let store = open(copy.path());
            check(&store, 300);
            fill(&store, 300, 20);
            check(&store, 320);
        }
    }
}

/// Where no file has the configured length, it is the setting that is wrong.
#[test]
fn files_that_are_all_of_another_length_stop_the_start() {
    let dir = stopped(300, true);
    let config = |size| StoreConfig {
        mapped_file_size_consume_queue: size,
        ..crate::store_life::config(dir.path())
    };
    let error = MessageStore::open(config(2000)).unwrap_err().to_string();
    assert!(error.contains("mappedFileSizeConsumeQueue"), "{error}");
    assert!(!dir.path().join("lost").exists());
    check(&MessageStore::open(config(1000)).unwrap(), 300);
}

/// A queue whose records are all gone has nothing but its number, and keeps that.
#[test]
fn k23_a_queue_file_of_a_wrong_length_does_not_cost_the_queue_its_number() {
    let dir = quick_scratch();
    let store = open(dir.path());
    for n in 0..20 {
        store.append(&message("old", 0, format!("{n}"), "")).unwrap();
    }
    fill(&store, 0, 300);
    settled(&store);
    assert!(store.figures().max_offset as u64 > 2 * SEGMENT);
    drop(store);
    std::fs::remove_file(&log(dir.path())[0]).unwrap();
    cut(&files(&dir.path().join("consumequeue/old/0"))[0], 1500);
    let store = open(dir.path());
    settled(&store);
    assert_eq!((store.max_offset("old", 0), store.next_offset("old", 0)), (0, 20));
    // And once more, with nothing sent in between.
    store.close().unwrap();
    drop(store);
    let store = open(dir.path());
    settled(&store);
    assert_eq!((store.max_offset("old", 0), store.next_offset("old", 0)), (0, 20));
    let new = store.append(&message("old", 0, "new", "")).unwrap();
    assert_eq!(new.queue_offset, 20);
    settled(&store);
    assert_eq!((store.min_offset("old", 0), store.max_offset("old", 0)), (20, 21));
}

/// A queue that is missing after a clean stop is made again by the first start. When that one is cut short, the next start
/// has no list of queues any more, and the queue has no record in the part of the log that it would walk over.
#[test]
fn k23_a_start_that_is_cut_short_leaves_no_queue_short() {
    let dir = quick_scratch();
    let store = open(dir.path());
    for n in 0..20 {
        store.append(&message("old", 0, format!("{n}"), "")).unwrap();
    }
    // Times decide where a start after a crash begins: it goes back three seconds.
    std::thread::sleep(std::time::Duration::from_millis(3500));
    fill(&store, 0, 300);
    settled(&store);
    store.close().unwrap();
    drop(store);
    std::fs::remove_dir_all(dir.path().join("consumequeue/old")).unwrap();
    let logics = |root: &Path| {
        let bytes = std::fs::read(root.join("checkpoint")).unwrap();
        i64::from_be_bytes(bytes[8..16].try_into().unwrap())
    };
    assert!(logics(dir.path()) > 0);

    // The first start, as it is while it works: it vouches for no queue, and is marked.
    let first = quick_scratch();
    copy_dir(dir.path(), first.path());
    drop(open(first.path()));
    assert_eq!(logics(first.path()), 0);
    std::fs::copy(first.path().join("checkpoint"), dir.path().join("checkpoint")).unwrap();
    std::fs::write(dir.path().join("abort"), "1").unwrap();

    let store = open(dir.path());
    settled(&store);
    assert_eq!((store.min_offset("old", 0), store.max_offset("old", 0)), (0, 20));
    assert_eq!(bodies(&store, "old", 0).len(), 20);
    check(&store, 300);
}

/// Batch and light queues that a start on a full disk cannot write are complete when there is room.
#[test]
#[allow(clippy::print_stdout)]
fn batch_and_light_queues_follow_a_start_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(16) else {
        println!("SKIPPED: no right to mount a small file system");
        return;
    };
    let golden = Golden::unpack("features");
    let config = |root: &Path| StoreConfig {
        store_path_root_dir: root.to_owned(),
        enable_multi_dispatch: true,
        clean_resource_interval: 20,
        ..golden.config()
    };
    let whole = tempfile::tempdir().unwrap();
    copy_dir(&golden.config().store_path_root_dir, whole.path());
    let root = disk.0.path().join("store");
    // No holes: to look at one through a map takes room on a tmpfs.
    copy_dir(whole.path(), &root);
    let queues = [
        ("g_bcq", 0),
        ("%LMQ%one", 0),
        ("%LMQ%two", 0),
        ("g_lmq", 0),
        ("g_ext", 0),
    ];
    let ends = |store: &MessageStore| queues.map(|(topic, id)| store.max_offset(topic, id));
    let store = MessageStore::open(config(whole.path())).unwrap();
    let wanted = ends(&store);
    // As Java reads them.
    assert_eq!(wanted, [61, 8, 4, 8, 60]);
    drop(store);

    // Killed, so that lock and crash marker have their room.
    drop(MessageStore::open(config(&root)).unwrap());
    for dir in ["consumequeue", "batchconsumequeue"] {
        std::fs::remove_dir_all(root.join(dir)).unwrap();
    }
    let filler = disk.0.path().join("filler");
    {
        use std::io::Write;
        let mut file = std::fs::File::create(&filler).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }
    let store = MessageStore::open(config(&root)).unwrap();
    assert_ne!(ends(&store), wanted, "there is no room");
    std::fs::remove_file(&filler).unwrap();
    wait::until_true(
        "queues that are complete",
        std::time::Duration::from_secs(20),
        || store.figures().not_writable.is_none() && store.figures().dispatch_behind_bytes == 0,
    );
    assert_eq!(ends(&store), wanted);
    assert_eq!(bodies(&store, "g_lmq", 0).len() as i64, wanted[3]);
    let light = store.get("%LMQ%one", 0, 0, 32, 1 << 20, &|_| true);
    assert_eq!(light.records.len() as i64, wanted[1]);
    store.close().unwrap();
}
