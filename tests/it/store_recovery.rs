//! What recovery makes of a store that was damaged while it was down. The numbers K.. are those of the list of known
//! faults of such systems that the tests are written against.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::protocol::message::MessageView;
use rmq::store::{GetStatus, MessageStore};

use crate::store_life::{SEGMENT, bodies, check, config, fill, message, open, settled};
use crate::support::quick_scratch;

/// Files of a directory that are named by an offset, in order.
pub fn files(dir: &Path) -> Vec<PathBuf> {
    let is_number = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().chars().all(|c| c.is_ascii_digit()))
    };
    let mut found: Vec<_> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file() && is_number(path))
        .collect();
    found.sort();
    found
}

pub fn log(root: &Path) -> Vec<PathBuf> {
    files(&root.join("commitlog"))
}

pub fn queue(root: &Path, queue_id: i32) -> PathBuf {
    root.join(format!("consumequeue/t/{queue_id}"))
}

pub fn edit(path: &Path, change: impl FnOnce(&mut [u8])) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

pub fn cut(path: &Path, len: u64) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len).unwrap();
}

pub fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, target) = (
            entry.as_ref().unwrap(),
            to.join(entry.as_ref().unwrap().file_name()),
        );
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// A store with `fill(0, count)`, stopped or died.
pub fn stopped(count: usize, clean: bool) -> tempfile::TempDir {
    let dir = quick_scratch();
    let store = open(dir.path());
    fill(&store, 0, count);
    settled(&store);
    if clean {
        store.close().unwrap();
    }
    drop(store);
    dir
}

/// The store as it opens now, and a stop that is no clean one.
fn reopened(root: &Path, count: usize) {
    let store = open(root);
    check(&store, count);
}

/// Zeroes the last entries of a queue, 50 a file, and takes files away that are empty then.
fn cut_entries(root: &Path, queue_id: i32, len: usize, lost: usize) {
    for n in len - lost..len {
        let path = queue(root, queue_id).join(format!("{:020}", n / 50 * 1000));
        if n % 50 == 0 {
            std::fs::remove_file(&path).unwrap();
        } else if path.exists() {
            edit(&path, |bytes| bytes[n % 50 * 20..].fill(0));
        }
    }
}

fn set_checkpoint(root: &Path, times: [i64; 3]) {
    edit(&root.join("checkpoint"), |bytes| {
        for (slot, time) in bytes.chunks_exact_mut(8).zip(times) {
            slot.copy_from_slice(&time.to_be_bytes());
        }
    });
}

/// K19: every consume queue cut at each of its last 100 entries, with the three times of the checkpoint at 0, at a
/// record in the middle, and beyond the last one, in every combination. Lists are complete and without repeats
/// afterwards. All 2700 cases run with `RMQ_TEST_LONG=1`.
#[test]
fn k19_queues_cut_anywhere_are_complete_whatever_the_checkpoint_says() {
    let all = std::env::var_os("RMQ_TEST_LONG").is_some();
    let dir = stopped(300, false);
    let root = dir.path();
    let (middle, last) = {
        let store = open(root);
        settled(&store);
        (store.store_time("t", 0, 75), store.store_time("t", 0, 149))
    };
    let times = [0, middle + 3000, last + 3_600_000];
    let combinations: Vec<_> = (0..27)
        .map(|n| [times[n / 9], times[n / 3 % 3], times[n % 3]])
        .collect();
    let mut cases = 0;
    for lost in 1..=100 {
        for (n, times) in combinations.iter().enumerate() {
            if all || n == lost % combinations.len() || (lost == 60 && n % 3 == 0) {
                for queue_id in 0..2 {
                    cut_entries(root, queue_id, 150, lost);
                }
                set_checkpoint(root, *times);
                reopened(root, 300);
                cases += 1;
            }
        }
    }
    println!("K19: {cases} cases");
}

/// K17: the body's checksum does not cover what follows it.
#[test]
fn k17_a_message_that_lost_its_last_bytes_is_none() {
    let dir = stopped(20, false);
    let root = dir.path();
    let (end, path) = (open(root).figures().max_offset as usize, log(root)[0].clone());
    let whole = std::fs::read(&path).unwrap();
    for zeroed in 1..=200 {
        let mut bytes = whole.clone();
        bytes[end - zeroed..end].fill(0);
        std::fs::write(&path, bytes).unwrap();
        let store = open(root);
        settled(&store);
        assert_eq!(
            (store.max_offset("t", 0), store.max_offset("t", 1)),
            (10, 9),
            "{zeroed}"
        );
        assert!(store.figures().max_offset < end as i64, "{zeroed}");
        assert!(
            store.query("t", "k19", 64, 0, i64::MAX).records.is_empty(),
            "{zeroed}"
        );
    }
    std::fs::write(&path, whole).unwrap();
    reopened(root, 20);
}

/// K20: the last file of log, queue and index shorter than it should be, after a crash and after a clean stop.
#[test]
fn k20_last_files_cut_to_any_length_are_mended() {
    for clean in [false, true] {
        let dir = stopped(300, clean);
        for len in [0, 1, 500, 999] {
            cut(files(&queue(dir.path(), 0)).last().unwrap(), len);
            reopened_as(dir.path(), 300, clean);
        }
        let index = dir.path().join("index");
        let full = std::fs::metadata(&files(&index)[0]).unwrap().len();
        for len in [0, 1, full / 2, full - 1] {
            cut(files(&index).last().unwrap(), len);
            reopened_as(dir.path(), 300, clean);
        }
        // Of the log, what was cut off is lost, and all that comes before it is not.
        for len in [SEGMENT - 1, SEGMENT / 2, 1, 0] {
            let copy = quick_scratch();
            copy_dir(dir.path(), copy.path());
            let path = log(copy.path()).pop().unwrap();
            let base: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            cut(&path, len);
            let store = open(copy.path());
            settled(&store);
            let count = (store.max_offset("t", 0) + store.max_offset("t", 1)) as usize;
            assert!(store.figures().max_offset as u64 <= base + len.max(1), "{len}");
            assert!(
                count > 220 && (len < SEGMENT - 1 || count == 300),
                "{count} of {len}"
            );
            check(&store, count);
            fill(&store, count, 30);
            check(&store, count + 30);
        }
    }
}

fn reopened_as(root: &Path, count: usize, clean: bool) {
    let store = open(root);
    check(&store, count);
    if clean {
        store.close().unwrap();
    }
}

/// K20: in the middle of the log it is an error that names the file and how to look at it.
#[test]
fn k20_a_short_file_in_the_middle_is_an_error() {
    let dir = stopped(300, false);
    let path = log(dir.path())[1].clone();
    let whole = std::fs::read(&path).unwrap();
    for len in [0, 1, whole.len() as u64 / 2] {
        cut(&path, len);
        let error = MessageStore::open(config(dir.path())).unwrap_err().to_string();
        assert!(
            error.contains(path.to_str().unwrap()) && error.contains("rmq store info"),
            "{error}"
        );
    }
    std::fs::write(&path, whole).unwrap();
    reopened(dir.path(), 300);
}

/// K21: names that are not the store's own.
#[test]
fn k21_stray_names_are_ignored() {
    for clean in [false, true] {
        let dir = stopped(200, clean);
        for sub in [
            "",
            "commitlog",
            "consumequeue",
            "consumequeue/t",
            "consumequeue/t/0",
            "index",
            "config",
        ] {
            std::fs::create_dir_all(dir.path().join(sub).join("a directory")).unwrap();
            for stray in ["lost+found", ".nfs0001", "core", "00000000000000000x"] {
                std::fs::write(dir.path().join(sub).join(stray), b"").unwrap();
            }
        }
        reopened(dir.path(), 200);
    }
}

/// K22: a queue of full files and an empty one, of an empty one alone, and without any.
#[test]
fn k22_empty_last_queue_files_are_legal() {
    for clean in [false, true] {
        for zeros in [0usize, 1000] {
            let dir = stopped(200, clean);
            std::fs::write(queue(dir.path(), 0).join(format!("{:020}", 2000)), vec![0; zeros]).unwrap();
            reopened_as(dir.path(), 200, clean);
            for path in files(&queue(dir.path(), 0)) {
                std::fs::remove_file(path).unwrap();
            }
            reopened_as(dir.path(), 200, clean);
            for path in files(&queue(dir.path(), 0)) {
                std::fs::remove_file(path).unwrap();
            }
            std::fs::write(queue(dir.path(), 0).join(format!("{:020}", 0)), vec![0; zeros]).unwrap();
            reopened_as(dir.path(), 200, clean);
            // Only the last file is left.
            std::fs::remove_file(&files(&queue(dir.path(), 1))[0]).unwrap();
            reopened_as(dir.path(), 200, clean);
        }
    }
}

/// K23: log files that queues point to are gone; 0 <= min <= max, and the number of an emptied queue stays.
#[test]
fn k23_queues_without_their_log_files_keep_their_range() {
    for clean in [false, true] {
        let dir = quick_scratch();
        let store = open(dir.path());
        for n in 0..20 {
            store.append(&message("old", 0, format!("{n}"), "")).unwrap();
        }
        fill(&store, 0, 300);
        settled(&store);
        if clean {
            store.close().unwrap();
        }
        drop(store);
        std::fs::remove_file(&log(dir.path())[0]).unwrap();
        for _ in 0..2 {
            let store = open(dir.path());
            settled(&store);
            assert_eq!(
                (store.min_offset("old", 0), store.max_offset("old", 0)),
                (20, 20),
                "{clean}"
            );
            let got = store.get("old", 0, 3, 32, 1 << 20, &|_: i64| true);
            assert_eq!((got.status, got.next_offset), (GetStatus::OffsetTooSmall, 20));
            for queue_id in 0..2 {
                let (min, max) = (store.min_offset("t", queue_id), store.max_offset("t", queue_id));
                assert!(0 < min && min < max && max == 150, "{min} {max}");
                assert_eq!(bodies(&store, "t", queue_id).len() as i64, max - min);
            }
            assert_eq!(store.next_offset("old", 0), 20);
            if clean {
                store.close().unwrap();
            }
        }
        // And all of them: queues without a log are no queues.
        for path in log(dir.path()) {
            std::fs::remove_file(path).unwrap();
        }
        let store = open(dir.path());
        assert_eq!((store.min_offset("t", 0), store.max_offset("t", 0)), (0, 0));
        fill(&store, 0, 30);
        check(&store, 30);
    }
}

/// K24: bytes of another store behind the end are no records of this one.
#[test]
fn k24_records_of_another_place_end_the_log() {
    let (dir, other) = (stopped(20, false), stopped(60, false));
    let end = open(dir.path()).figures().max_offset as usize;
    let foreign = std::fs::read(&log(other.path())[0]).unwrap();
    edit(&log(dir.path())[0], |bytes| {
        bytes[end..end + 20_000].copy_from_slice(&foreign[600..20_600])
    });
    let store = open(dir.path());
    assert_eq!(store.figures().max_offset as usize, end);
    check(&store, 20);
}

/// K25: the log cut at random places: queues and index end with it, and what is left is all there.
#[test]
fn k25_all_that_is_derived_is_cut_with_the_log() {
    let dir = stopped(300, false);
    let mut at = 0x9E37_79B9_u64;
    for n in 0..50 {
        let copy = quick_scratch();
        copy_dir(dir.path(), copy.path());
        at = at
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let end = (at >> 20) % (2 * SEGMENT) + 100;
        for path in log(copy.path()) {
            let base: u64 = path.file_name().unwrap().to_str().unwrap().parse().unwrap();
            edit(&path, |bytes| {
                bytes[end.saturating_sub(base).min(SEGMENT) as usize..].fill(0)
            });
        }
        let store = open(copy.path());
        settled(&store);
        let left = store.figures().max_offset;
        assert!(
            left as u64 <= end && end < left as u64 + 1200,
            "{n}: {left} of {end}"
        );
        let count = (store.max_offset("t", 0) + store.max_offset("t", 1)) as usize;
        check(&store, count);
        for lost in count..300 {
            assert!(
                store
                    .query("t", &format!("k{lost}"), 64, 0, i64::MAX)
                    .records
                    .is_empty()
            );
        }
        assert_eq!(store.next_offset("t", 0), store.max_offset("t", 0));
        fill(&store, count, 10);
        check(&store, count + 10);
    }
}

/// K26: a chain that leads back to itself, or forward, ends a query.
#[test]
fn k26_a_damaged_index_chain_ends_the_walk() {
    for link in [1i32, 60, i32::MAX, -5] {
        let dir = stopped(20, true);
        let index = files(&dir.path().join("index"));
        // 20 slots of 4 bytes behind a header of 40; the previous item is at byte 16 of 20.
        edit(&index[0], |bytes| {
            for n in 1..60 {
                bytes[40 + 80 + n * 20 + 16..][..4].copy_from_slice(&link.to_be_bytes());
            }
        });
        let store = open(dir.path());
        settled(&store);
        let asked = Instant::now();
        for n in 0..20 {
            store.query("t", &format!("k{n}"), 64, 0, i64::MAX);
            store.query("t", "shared", 64, 0, i64::MAX);
        }
        assert!(
            asked.elapsed() < Duration::from_millis(40 * 100),
            "{:?}",
            asked.elapsed()
        );
    }
}

/// K42: index times are whole seconds from the begin of their file; the window is a second wider at both ends.
#[test]
fn k42_a_query_finds_its_message_by_the_exact_time() {
    let dir = quick_scratch();
    let store = open(dir.path());
    let mut times = Vec::new();
    for n in 0..40 {
        let properties = format!("UNIQ_KEY\u{1}id{n}\u{2}");
        times.push(
            store
                .append(&message("t", 0, "x", &properties))
                .unwrap()
                .store_timestamp,
        );
        std::thread::sleep(Duration::from_millis(26));
    }
    settled(&store);
    for (n, &time) in times.iter().enumerate() {
        let found = |begin, end| store.query("t", &format!("id{n}"), 64, begin, end).records.len();
        for ahead in [0, 500, 1000, 3000, 5000] {
            assert_eq!(found(time - ahead, time), 1, "{n}");
            assert_eq!(found(time, time + ahead), 1, "{n}");
        }
        assert_eq!(found(time + 2000, i64::MAX), 0);
        assert_eq!(found(0, time - 2001), 0);
    }
}

/// Everything that can be wrong with queues after a clean stop; with the list that our stop leaves, and without one,
/// as after a stop of the Java broker, which lets such queues stay empty.
#[test]
fn queues_that_went_missing_after_a_clean_stop_are_made_again() {
    type Damage = fn(&Path);
    let damages: [(&str, Damage); 9] = [
        ("nothing", |_| ()),
        ("a queue", |root| std::fs::remove_dir_all(queue(root, 1)).unwrap()),
        ("a topic", |root| {
            std::fs::remove_dir_all(root.join("consumequeue/t")).unwrap()
        }),
        ("all", |root| {
            std::fs::remove_dir_all(root.join("consumequeue")).unwrap()
        }),
        ("the first file", |root| {
            std::fs::remove_file(&files(&queue(root, 0))[0]).unwrap()
        }),
        ("a file between", |root| {
            std::fs::remove_file(&files(&queue(root, 0))[1]).unwrap()
        }),
        ("the last file", |root| {
            std::fs::remove_file(&files(&queue(root, 0))[2]).unwrap()
        }),
        ("entries between", |root| {
            edit(&files(&queue(root, 0))[1], |b| b[300..340].fill(0))
        }),
        ("the last entries", |root| {
            edit(&files(&queue(root, 0))[2], |b| b[340..].fill(0))
        }),
    ];
    for (what, damage) in damages {
        for list in [true, false] {
            let dir = stopped(300, true);
            damage(dir.path());
            if !list {
                std::fs::remove_file(dir.path().join("config/rmqStopped")).unwrap();
            }
            let store = open(dir.path());
            settled(&store);
            // Entries in the middle of a queue whose ends are right are not looked at, if the list vouches for it.
            if list && what == "entries between" {
                assert_eq!(store.max_offset("t", 0), 150);
                continue;
            }
            check(&store, 300);
            fill(&store, 300, 20);
            check(&store, 320);
        }
    }
}

#[test]
fn wrong_entries_at_the_end_of_a_queue_are_made_again() {
    for clean in [false, true] {
        let dir = stopped(300, clean);
        for tail in [[0xFFu8; 60], [1; 60]] {
            edit(&files(&queue(dir.path(), 0))[2], |bytes| {
                bytes[940..].copy_from_slice(&tail)
            });
            reopened_as(dir.path(), 300, clean);
        }
    }
}

#[test]
fn index_files_that_went_missing_or_were_changed_are_made_again() {
    for which in [0, 3, 8] {
        for gone in [true, false] {
            let dir = stopped(300, true);
            let path = files(&dir.path().join("index")).swap_remove(which);
            if gone {
                std::fs::remove_file(path).unwrap();
            } else {
                edit(&path, |bytes| bytes[..40].fill(0));
            }
            reopened(dir.path(), 300);
        }
    }
}

/// A power failure keeps some pages of the index, and the others as they were at the last flush. All records are found by
/// their keys afterwards, those too that the replay of the log does not reach.
#[test]
fn an_index_of_an_earlier_time_is_completed() {
    type Change = fn(&mut [u8]);
    let changes: [Option<Change>; 4] = [
        None,
        Some(|bytes| bytes[..40].fill(0)),
        Some(|bytes| bytes[40..56].fill(0)),
        Some(|bytes| bytes.fill(0)),
    ];
    for change in changes {
        for vouched in [true, false] {
            let dir = stopped(100, true);
            let (root, index) = (dir.path(), dir.path().join("index"));
            let earlier = quick_scratch();
            copy_dir(&index, &earlier.path().join("index"));
            let store = open(root);
            fill(&store, 100, 200);
            settled(&store);
            let last = store.store_time("t", 0, 149);
            let flushed = if vouched { store.store_time("t", 0, 49) } else { 0 };
            drop(store);
            match change {
                None => {
                    std::fs::remove_dir_all(&index).unwrap();
                    copy_dir(&earlier.path().join("index"), &index);
                }
                Some(change) => edit(files(&index).last().unwrap(), change),
            }
            set_checkpoint(root, [last + 3_600_000, last + 3_600_000, flushed]);
            reopened(root, 300);
        }
    }
}

/// A Java broker lets everything behind the damage go, whole segments with it.
#[test]
fn damage_in_an_earlier_segment_costs_no_message_but_its_own() {
    let dir = stopped(300, false);
    set_checkpoint(dir.path(), [0; 3]);
    let store = open(dir.path());
    let at = store.get("t", 0, 20, 1, 1 << 20, &|_: i64| true);
    let at = MessageView::parse(&at.records[0]).unwrap().physical_offset() as usize;
    let end = store.figures().max_offset;
    drop(store);
    edit(&log(dir.path())[0], |bytes| bytes[at + 100] ^= 4);
    for _ in 0..2 {
        set_checkpoint(dir.path(), [0; 3]);
        let store = open(dir.path());
        settled(&store);
        assert_eq!(store.figures().max_offset, end);
        assert_eq!((store.max_offset("t", 0), store.max_offset("t", 1)), (150, 150));
        // The damaged one is not served, by no way, and all others are.
        let got = store.get("t", 0, 19, 3, 1 << 20, &|_: i64| true);
        let numbers: Vec<_> = got
            .records
            .iter()
            .map(|bytes| MessageView::parse_checked(bytes).unwrap().queue_offset())
            .collect();
        assert_eq!(numbers, [19, 21, 22]);
        assert!(store.record_at(at as i64).is_none());
        assert!(store.query("t", "k40", 64, 0, i64::MAX).records.is_empty());
        assert_eq!(bodies(&store, "t", 1).len(), 150);
    }
    assert!(!dir.path().join("lost").exists());
}

/// A power failure may take the first pages of a segment: what stands behind them is served, and found by key (F2).
#[test]
fn a_segment_without_its_beginning_keeps_the_rest() {
    let dir = stopped(300, false);
    let store = open(dir.path());
    settled(&store);
    let places: Vec<std::ops::Range<usize>> = (0..300)
        .map(|n| {
            let found = store.query("t", &format!("k{n}"), 64, 0, i64::MAX).records;
            let at = MessageView::parse(&found[0]).unwrap().physical_offset() as usize;
            at..at + found[0].len()
        })
        .collect();
    drop(store);
    let segment = SEGMENT as usize;
    let gone = [segment - 3000..segment, segment..segment + 64];
    for one in &gone {
        let at = one.start % segment;
        edit(&log(dir.path())[one.start / segment], |bytes| {
            bytes[at..at + one.len()].fill(0)
        });
    }
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    set_checkpoint(dir.path(), [0; 3]);
    let store = open(dir.path());
    settled(&store);
    let mut lost = 0;
    for (n, place) in places.iter().enumerate() {
        let hit = gone
            .iter()
            .any(|one| one.start < place.end && place.start < one.end);
        let found = store.query("t", &format!("k{n}"), 64, 0, i64::MAX).records.len();
        assert_eq!(found, usize::from(!hit), "message {n} at {place:?}");
        lost += usize::from(hit);
    }
    assert!((3..20).contains(&lost), "{lost}");
}

/// In the last segment the log ends at the damage, as in Java, and what is cut off is kept byte by byte.
#[test]
fn what_is_cut_off_is_kept_aside() {
    let dir = stopped(60, false);
    set_checkpoint(dir.path(), [0; 3]);
    let store = open(dir.path());
    let got = store.get("t", 0, 10, 1, 1 << 20, &|_: i64| true);
    let at = MessageView::parse(&got.records[0]).unwrap().physical_offset() as usize;
    let end = store.figures().max_offset as usize;
    drop(store);
    set_checkpoint(dir.path(), [0; 3]);
    edit(&log(dir.path())[0], |bytes| bytes[at + 100] ^= 4);
    let before = std::fs::read(&log(dir.path())[0]).unwrap();
    let store = open(dir.path());
    assert_eq!(store.figures().max_offset as usize, at);
    check(&store, 20);
    let kept = files(&dir.path().join("lost"));
    assert_eq!(
        kept[0].file_name().unwrap().to_str().unwrap(),
        format!("{at:020}")
    );
    assert_eq!(std::fs::read(&kept[0]).unwrap(), before[at..end]);
    fill(&store, 20, 40);
    check(&store, 60);
}

/// An entry that leads to another message of its queue does not repeat that one.
#[test]
fn a_wrong_entry_serves_no_wrong_message() {
    for clean in [true, false] {
        let dir = stopped(300, clean);
        edit(&files(&queue(dir.path(), 0))[0], |bytes| {
            let other: [u8; 20] = *bytes[100..].first_chunk().unwrap();
            bytes[200..220].copy_from_slice(&other);
        });
        let store = open(dir.path());
        settled(&store);
        let got = store.get("t", 0, 5, 32, 1 << 20, &|_: i64| true);
        let numbers: Vec<_> = got
            .records
            .iter()
            .map(|bytes| MessageView::parse_checked(bytes).unwrap().queue_offset())
            .collect();
        // After a crash the walk mends it; after a clean stop it is passed over.
        assert_eq!(numbers.contains(&10), !clean);
        let numbers: Vec<_> = numbers.into_iter().filter(|n| *n != 10).collect();
        assert_eq!(numbers[..6], [5, 6, 7, 8, 9, 11]);
    }
}

/// With the list of a clean stop, the log is not walked: a store whose queues are all gone on purpose opens at once.
#[test]
fn a_store_without_queues_is_not_walked() {
    let dir = quick_scratch();
    let store = open(dir.path());
    fill(&store, 0, 50);
    settled(&store);
    store.delete_topic("t").unwrap();
    let end = store.figures().max_offset;
    store.close().unwrap();
    drop(store);
    edit(&log(dir.path())[0], |bytes| bytes[100] ^= 1);
    let store = open(dir.path());
    assert_eq!(store.figures().max_offset, end);
    assert_eq!(store.append(&message("t", 0, "x", "")).unwrap().queue_offset, 0);
    settled(&store);
    assert_eq!(bodies(&store, "t", 0), [Bytes::from_static(b"x")]);
}

/// K29: a topic deleted while messages of it come in leaves no queue behind that begins in the middle.
#[test]
fn k29_a_deletion_that_races_with_appends_leaves_nothing_half() {
    let dir = quick_scratch();
    let store = open(dir.path());
    for round in 0..20 {
        let writers: Vec<_> = (0..2)
            .map(|queue_id| {
                let store = Arc::clone(&store);
                std::thread::spawn(move || {
                    (0..200)
                        .filter_map(|_| store.append(&message("t", queue_id, "x", "")).ok())
                        .map(|appended| appended.queue_offset)
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        std::thread::sleep(Duration::from_micros(300 * round));
        store.delete_topic("t").unwrap();
        for (queue_id, writer) in writers.into_iter().enumerate() {
            let offsets = writer.join().unwrap();
            settled(&store);
            // After the deletion the numbers begin again, and the queue is whole from there.
            let restart = offsets.iter().rposition(|n| *n == 0);
            let since = restart.map_or(0, |at| offsets.len() - at) as i64;
            let queue_id = queue_id as i32;
            let (min, max) = (store.min_offset("t", queue_id), store.max_offset("t", queue_id));
            assert!(
                (min, max) == (0, 0) || (min, max) == (0, since),
                "{min} {max} {since}"
            );
            assert_eq!(bodies(&store, "t", queue_id).len() as i64, max);
        }
        store.delete_topic("t").unwrap();
    }
    assert!(!dir.path().join("consumequeue/t").exists());
    drop(store);
    let store = open(dir.path());
    settled(&store);
    assert_eq!(store.max_offset("t", 0), 0);
    assert!(!dir.path().join("consumequeue/t").exists());
}

/// K16: an index that cannot be made is given up after a few attempts, without leftovers; messages go on.
#[test]
fn k16_an_index_that_cannot_be_made_stops_no_sends() {
    let dir = quick_scratch();
    let store = open(dir.path());
    // For root, too, nothing can be made in a file.
    std::fs::write(dir.path().join("index"), b"in the way").unwrap();
    for n in 0..10_000 {
        let sent = store.append(&message("t", 0, format!("{n:08}"), "KEYS\u{1}k\u{2}"));
        sent.unwrap_or_else(|e| panic!("{n}: {e}"));
    }
    settled(&store);
    assert_eq!(store.max_offset("t", 0), 10_000);
    assert!(store.figures().index_off && store.figures().not_writable.is_none());
    assert_eq!(std::fs::read(dir.path().join("index")).unwrap(), b"in the way");
}
