//! What the world does to a store: a killed process, a full disk, an inspector looking on.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rmq::store::cursor::MessageCursor;
use rmq::store::reader::{QueueName, StoreReader};
use rmq::store::{AppendError, Durability, Error, FlushDiskType, MessageStore, StoreConfig};

use crate::store_life::{SEGMENT, bodies, check, config, fill, message, settled};

/// Names the store that the child of [`k26_nothing_acknowledged_is_lost_by_a_killed_process`] fills.
const CHILD: &str = "RMQ_TEST_CHILD_STORE";

fn body(n: usize) -> String {
    format!("{n:06}").repeat(30)
}

/// Not a test of its own: appends for ever when the environment names a store, and prints what it may acknowledge.
#[test]
fn child_that_appends_until_it_is_killed() {
    let Some(root) = std::env::var_os(CHILD) else {
        return;
    };
    let flush_disk_type = match root.to_string_lossy().ends_with("sync") {
        true => FlushDiskType::SyncFlush,
        false => FlushDiskType::AsyncFlush,
    };
    let store = MessageStore::open(StoreConfig {
        flush_disk_type,
        ..config(Path::new(&root))
    })
    .unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    for n in 0.. {
        let appended = store
            .append(&message("t", 0, body(n), &format!("KEYS\u{1}k{n}\u{2}")))
            .unwrap();
        assert_eq!(runtime.block_on(store.durable(&appended, true)), Durability::Done);
        #[allow(clippy::print_stdout)]
        {
            println!("acknowledged {n}");
        }
    }
}

/// K12, K26: with 30 index files, every key of the acknowledged list is found afterwards.
#[test]
fn k26_nothing_acknowledged_is_lost_by_a_killed_process() {
    for (mode, count) in [("async", 3000), ("sync", 100)] {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join(mode);
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store_faults::child_that_appends_until_it_is_killed",
                "--nocapture",
            ])
            .env(CHILD, &root)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = None;
        let mut take = |line: std::io::Result<String>| {
            let line = line.unwrap();
            if let Some(n) = line.split("acknowledged ").nth(1) {
                last = n.trim().parse::<usize>().ok().or(last);
            }
        };
        for line in lines.by_ref().take(count) {
            take(line);
        }
        // A running store is locked, and can be looked at all the same.
        let error = MessageStore::open(config(&root)).unwrap_err();
        assert!(matches!(error, Error::Locked { .. }), "{error}");
        let reader = StoreReader::with_config(config(&root)).unwrap();
        assert_eq!(
            reader.holder().is_some(),
            std::fs::read("/proc/locks").is_ok_and(|l| !l.is_empty())
        );
        assert!(
            MessageCursor::new(reader.commit_log().unwrap(), 0)
                .take(50)
                .all(|step| step.is_ok())
        );
        child.kill().unwrap();
        child.wait().unwrap();
        // Lines already in the pipe were acknowledged too; the last one may be cut.
        for line in lines {
            take(line);
        }
        let last = last.expect("something was acknowledged");
        let store = MessageStore::open(config(&root)).unwrap();
        settled(&store);
        let found = bodies(&store, "t", 0);
        assert!(found.len() > last, "{} found, {last} acknowledged", found.len());
        for (n, found) in found.iter().enumerate() {
            assert_eq!(found, body(n).as_bytes());
            let by_key = store.query("t", &format!("k{n}"), 64, 0, i64::MAX);
            assert_eq!(by_key.records.len(), 1, "key k{n}");
        }
    }
}

#[test]
fn a_record_that_rotted_in_an_old_segment_is_not_handed_out_and_takes_no_others_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let count = 400;
    let store = MessageStore::open(config(dir.path())).unwrap();
    let mut at = Vec::new();
    for n in 0..count {
        let sent = message("t", 0, body(n), &format!("KEYS\u{1}k{n}\u{2}"));
        at.push(store.append(&sent).unwrap().offset);
    }
    settled(&store);
    store.close().unwrap();
    // A clean stop, so nothing is read again at the start: the last byte of a body, the queue id of another record.
    let log = dir.path().join("commitlog").join(format!("{:020}", 0));
    let mut bytes = std::fs::read(&log).unwrap();
    let rotten = body(3);
    let start = at[3] as usize;
    let in_record = bytes[start..]
        .windows(rotten.len())
        .position(|w| w == rotten.as_bytes())
        .unwrap();
    bytes[start + in_record + rotten.len() - 1] ^= 1;
    bytes[at[5] as usize + 15] ^= 4;
    // And the queue offset of one more.
    bytes[at[7] as usize + 27] ^= 1;
    std::fs::write(&log, bytes).unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    let (mut found, mut offset) = (Vec::new(), 0);
    while offset < count as i64 {
        let got = store.get("t", 0, offset, 32, 1 << 20, &|_| true);
        for record in &got.records {
            let view = rmq::protocol::message::MessageView::parse(record).unwrap();
            found.push((view.queue_offset(), view.body().to_vec()));
        }
        assert!(got.next_offset > offset, "reading goes on");
        offset = got.next_offset;
    }
    let sound = (0..count).filter(|n| ![3, 5, 7].contains(n));
    let expected: Vec<_> = sound.map(|n| (n as i64, body(n).into_bytes())).collect();
    assert_eq!(found, expected);
    assert!(store.record_at(at[3]).is_none() && store.record_at(at[4]).is_some());
    assert_eq!(store.query("t", "k3", 64, 0, i64::MAX).records.len(), 0);
    assert_eq!(store.query("t", "k4", 64, 0, i64::MAX).records.len(), 1);
}

#[test]
fn a_live_store_can_be_read_beside_its_broker() {
    let dir = tempfile::tempdir().unwrap();
    let store = MessageStore::open(config(dir.path())).unwrap();
    for n in 0..500 {
        store
            .append(&message("t", 0, body(n), "KEYS\u{1}k\u{2}"))
            .unwrap();
    }
    settled(&store);
    let reader = StoreReader::with_config(config(dir.path())).unwrap();
    assert_eq!(reader.holder(), Some(std::process::id()));
    let log = reader.commit_log().unwrap();
    let whole = MessageCursor::new(&log, 0).take_while(Result::is_ok).count();
    let fillers = (store.figures().max_offset as u64 / SEGMENT) as usize;
    assert_eq!(whole, 500 + fillers);
    let name = QueueName {
        topic: "t".into(),
        queue_id: 0,
    };
    assert_eq!(reader.queues().unwrap(), std::slice::from_ref(&name));
    let queue = reader.consume_queue(&name).unwrap();
    let entries = rmq::store::cursor::QueueCursor::new(&queue, 0)
        .take_while(Result::is_ok)
        .count();
    assert_eq!(entries, 500);
    let files = reader.index_files().unwrap();
    assert_eq!(files.len(), 6);
    let first = reader.index(&files[0]).unwrap();
    assert_eq!(first.view().unwrap().header().count, 100);
    assert!(reader.abort().unwrap().is_some() && reader.checkpoint().unwrap().is_some());
    assert!(reader.strays().unwrap().is_empty());
    // The look took no lock and gave none away.
    assert!(matches!(
        MessageStore::open(config(dir.path())),
        Err(Error::Locked { .. })
    ));
    store.close().unwrap();
    assert_eq!(
        StoreReader::with_config(config(dir.path())).unwrap().holder(),
        None
    );
}

/// A small file system of its own, or `None` where this test may not mount one.
pub struct SmallDisk(pub tempfile::TempDir);

impl SmallDisk {
    pub fn mount(mib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={mib}m"), "tmpfs"])
            .arg(dir.path())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        mounted.then_some(Self(dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn append_until_refused(store: &MessageStore, count: &mut usize) -> AppendError {
    let until = Instant::now() + Duration::from_secs(30);
    while Instant::now() < until {
        match store.append(&message("t", 0, body(*count), "")) {
            Ok(_) => *count += 1,
            Err(e) => return e,
        }
    }
    panic!("the disk is not full after {count} messages");
}

#[test]
#[allow(clippy::print_stdout)]
fn an_index_that_finds_no_room_leaves_no_files_and_keeps_no_one_waiting() {
    let Some(disk) = SmallDisk::mount(3) else {
        println!("SKIPPED: no right to mount a small file system");
        return;
    };
    let root = disk.0.path().join("store");
    // Room for the slots of a file, and not for its first items.
    let config = StoreConfig {
        max_index_num: 1_000_000,
        ..config(&root)
    };
    let store = MessageStore::open(config).unwrap();
    store
        .append(&message("t", 0, body(0), "KEYS\u{1}k\u{2}"))
        .unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while store.figures().not_writable.is_none() {
        assert!(Instant::now() < until, "the index is in need of room");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Two more attempts.
    std::thread::sleep(Duration::from_millis(2500));
    let left = std::fs::read_dir(root.join("index")).map_or(0, Iterator::count);
    assert_eq!(left, 0);
    let asked = Instant::now();
    assert!(store.close().is_err());
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    assert!(root.join("abort").exists());
}

/// K15
#[test]
#[allow(clippy::print_stdout)]
fn k15_a_full_disk_refuses_writes_with_the_reason_and_takes_them_again() {
    let Some(disk) = SmallDisk::mount(4) else {
        println!("SKIPPED: no right to mount a small file system");
        return;
    };
    let root = disk.0.path().join("store");
    let filler = disk.0.path().join("filler");
    let mut count = 0;

    // The levels are looked at rarely: the file that cannot be reserved is what stops the writer.
    let store = MessageStore::open(config(&root)).unwrap();
    std::fs::write(&filler, vec![1; 3 << 20]).unwrap();
    let refused = append_until_refused(&store, &mut count);
    // Whichever needs room first: the next segment of the log, or the queue.
    let named = match &refused {
        AppendError::CreateFailed(reason) => reason.contains("commitlog"),
        AppendError::NotWritable(reason) => reason.contains("consumequeue"),
        AppendError::Illegal(_) | AppendError::Busy => false,
    };
    assert!(named, "{refused:?}");
    drop(store);
    // Recovery needs a little room for queue entries.
    std::fs::write(&filler, vec![1; (3 << 20) - (512 << 10)]).unwrap();

    // And with the levels: 90 % used refuses writes before that. Somebody else fills the disk.
    let watchful = StoreConfig {
        clean_resource_interval: 20,
        ..config(&root)
    };
    let store = MessageStore::open(watchful.clone()).unwrap();
    let _ = std::fs::write(&filler, vec![1; 4 << 20]);
    let until = Instant::now() + Duration::from_secs(10);
    while store.figures().not_writable.is_none() {
        assert!(Instant::now() < until, "the level is noticed");
        std::thread::sleep(Duration::from_millis(5));
    }
    let refused = store.append(&message("t", 0, body(count), "")).unwrap_err();
    assert!(
        matches!(&refused, AppendError::NotWritable(reason) if reason.contains("% full")),
        "{refused:?}"
    );
    std::fs::remove_file(&filler).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    while store.append(&message("t", 0, body(count), "")).is_err() {
        assert!(Instant::now() < until, "writes resume");
        std::thread::sleep(Duration::from_millis(5));
    }
    count += 1;
    settled(&store);
    store.close().unwrap();
    let store = MessageStore::open(watchful).unwrap();
    let found = bodies(&store, "t", 0);
    assert_eq!(found.len(), count);
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(n, found)| found == body(n).as_bytes())
    );
}

/// A start that needs room which is not there serves what there is, and completes it when there is room.
#[test]
#[allow(clippy::print_stdout)]
fn a_start_on_a_full_disk_serves_and_catches_up() {
    let Some(disk) = SmallDisk::mount(8) else {
        println!("SKIPPED: no right to mount a small file system");
        return;
    };
    let root = disk.0.path().join("store");
    let watchful = StoreConfig {
        clean_resource_interval: 20,
        ..config(&root)
    };
    let store = MessageStore::open(watchful.clone()).unwrap();
    fill(&store, 0, 300);
    settled(&store);
    drop(store);
    std::fs::remove_dir_all(root.join("consumequeue")).unwrap();
    // To the brim, byte by byte at the end.
    let filler = disk.0.path().join("filler");
    {
        use std::io::Write;
        let mut file = std::fs::File::create(&filler).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
    }
    let started = Instant::now();
    let store = MessageStore::open(watchful).unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "{:?}",
        started.elapsed()
    );
    assert!(store.record_at(0).is_some(), "reads go on");
    let refused = store.append(&message("t", 0, "x", "")).unwrap_err();
    assert!(matches!(refused, AppendError::NotWritable(_)), "{refused:?}");
    assert_eq!((store.next_offset("t", 0), store.next_offset("t", 1)), (150, 150));
    std::fs::remove_file(&filler).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    while store.figures().not_writable.is_some() || store.figures().dispatch_behind_bytes > 0 {
        assert!(Instant::now() < until, "writes resume: {:?}", store.figures());
        std::thread::sleep(Duration::from_millis(5));
    }
    check(&store, 300);
    fill(&store, 300, 50);
    check(&store, 350);
    store.close().unwrap();
    drop(store);
    check(&MessageStore::open(config(&root)).unwrap(), 350);
}

/// K15: what is deleted before its time is told, by queue.
#[test]
#[allow(clippy::print_stdout)]
fn k15_forced_clean_up_tells_what_it_takes() {
    let Some(disk) = SmallDisk::mount(8) else {
        println!("SKIPPED: no right to mount a small file system");
        return;
    };
    let root = disk.0.path().join("store");
    let forced = StoreConfig {
        clean_file_forcibly_enable: true,
        disk_space_clean_forcibly_ratio: 30,
        clean_resource_interval: 20,
        delete_commit_log_files_interval: 1,
        ..config(&root)
    };
    let store = MessageStore::open(forced).unwrap();
    let told: std::sync::Arc<std::sync::Mutex<Vec<rmq::store::Lost>>> = std::sync::Arc::default();
    let sink = std::sync::Arc::clone(&told);
    store.on_loss(move |lost| sink.lock().unwrap().extend_from_slice(lost));
    // Half of the disk.
    for n in 0..3000 {
        while store
            .append(&message("t", n % 2, body(n as usize).repeat(7), ""))
            .is_err()
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    settled(&store);
    assert!(
        store.figures().commit_log_disk_ratio > 0.4,
        "{:?}",
        store.figures()
    );
    let until = Instant::now() + Duration::from_secs(20);
    while store.figures().commit_log_disk_ratio > 0.3 {
        store.delete_expired_soon();
        assert!(Instant::now() < until, "{:?}", store.figures());
        std::thread::sleep(Duration::from_millis(10));
    }
    store.close().unwrap();
    for queue_id in 0..2 {
        let mut next = 0;
        for lost in told
            .lock()
            .unwrap()
            .iter()
            .filter(|lost| lost.queue_id == queue_id)
        {
            assert_eq!((lost.topic.as_str(), lost.from), ("t", next));
            next = lost.to;
        }
        assert_eq!(next, store.min_offset("t", queue_id));
        assert!(next > 0 && next < 1500, "{next}");
    }
}
