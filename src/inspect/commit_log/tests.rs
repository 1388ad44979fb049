use bytes::Bytes;

use super::*;
use crate::protocol::message::{NewMessage, Stamp, encode_blank};
use crate::protocol::model::SysFlag;
use crate::store::format::file_name;
use crate::store::segments;

const SIZE: usize = 512;

fn record(at: u64, time: i64) -> Vec<u8> {
    let message = NewMessage {
        topic: "topic".into(),
        queue_id: 0,
        flag: 0,
        sys_flag: SysFlag(0),
        born_timestamp: 1,
        born_host: ([127, 0, 0, 1], 1).into(),
        store_host: ([127, 0, 0, 1], 2).into(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: Bytes::from_static(b"0123456789"),
        properties: String::new(),
    };
    let stamp = Stamp {
        queue_offset: 0,
        physical_offset: at.cast_signed(),
        store_timestamp: time,
    };
    message.to_vec(stamp).unwrap()
}

/// A file of three records and a filler, by the number of the file.
fn full(n: u64) -> Vec<u8> {
    let base = n * SIZE as u64;
    let mut bytes = Vec::new();
    while bytes.len() + 106 + BLANK_LEN < SIZE {
        let at = base + bytes.len() as u64;
        bytes.extend(record(at, at.cast_signed()));
    }
    let used = bytes.len();
    bytes.resize(SIZE, 0);
    encode_blank(&mut bytes[used..]);
    bytes
}

fn log(files: &[Option<Vec<u8>>], live: bool) -> (tempfile::TempDir, Log) {
    let dir = tempfile::tempdir().unwrap();
    for (n, bytes) in files.iter().enumerate() {
        if let Some(bytes) = bytes {
            std::fs::write(dir.path().join(file_name::segment((n * SIZE) as u64)), bytes).unwrap();
        }
    }
    let files = segments::list(dir.path()).unwrap().files;
    (dir, Log::reading(files, live, 4096))
}

/// Each step in one word, with its place.
fn walk(log: &Log) -> Vec<(&'static str, u64, u64)> {
    log.walk(log.start(), true)
        .map(|step| {
            let name = match &step {
                Step::Message { stale: false, .. } => "record",
                Step::Message { stale: true, .. } => "stale",
                Step::Filler { .. } => "filler",
                Step::Gap(gap) if gap.is_last => "last gap",
                Step::Gap(_) => "gap",
                Step::Tail { .. } => "tail",
            };
            (name, step.at(), step.end())
        })
        .collect()
}

#[test]
fn a_whole_log_ends_in_its_tail() {
    let mut tail = record(512, 512);
    tail.resize(SIZE, 0);
    let (_dir, log) = log(&[Some(full(0)), Some(tail), Some(vec![0; SIZE])], false);
    let len = record(0, 0).len() as u64;
    let steps = walk(&log);
    assert_eq!(steps[..2], [("record", 0, len), ("record", len, 2 * len)]);
    let filler = steps.iter().find(|step| step.0 == "filler").unwrap();
    assert_eq!(filler.2, 512);
    assert_eq!(steps.last(), Some(&("tail", 512 + len, 1536)));
    assert_eq!(log.written_end(0), 512 + len);
    assert_eq!(log.align(len + 3).unwrap(), len);
    assert_eq!(log.first_time(log.files().nth(1).unwrap()), Some(512));
    assert_eq!(log.begin_of(Point::Time(600)).unwrap(), 512);
    assert_eq!(log.begin_of(Point::Time(512)).unwrap(), 0);
}

#[test]
fn a_hole_and_a_missing_file_are_gaps() {
    let len = record(0, 0).len() as u64;
    let mut holed = full(0);
    holed[usize::try_from(len).unwrap()..].fill(0);
    let (_dir, log) = log(&[Some(holed), None, Some(full(2))], false);
    let steps = walk(&log);
    assert_eq!(steps[1], ("gap", len, 1024));
    assert_eq!(steps[2].0, "record");
    assert!(!steps.iter().any(|step| step.0 == "tail"));
}

#[test]
fn garbage_at_the_end_is_a_gap_unless_a_broker_is_writing() {
    let len = record(0, 0).len();
    let mut torn = record(0, 1);
    torn.extend(&record(len as u64, 2)[..60]);
    torn.resize(SIZE, 0);
    let (_dir, stopped) = log(&[Some(torn.clone())], false);
    let steps = walk(&stopped);
    let (len, end) = (len as u64, stopped.end());
    assert_eq!(steps[1].0, "last gap");
    assert_eq!(steps[1].1, len);
    assert_eq!((steps[2].0, steps[2].2), ("tail", end));
    let (_dir, live) = log(&[Some(torn)], true);
    assert_eq!(walk(&live)[1], ("tail", len, end));
}

#[test]
fn what_a_truncation_left_behind_is_stale() {
    let len = record(0, 0).len();
    let mut bytes = record(0, 900);
    bytes.extend(record(len as u64, 5));
    bytes[len + 90] ^= 1;
    bytes.extend(record(2 * len as u64, 6));
    bytes.resize(SIZE, 0);
    let (_dir, log) = log(&[Some(bytes)], false);
    let names: Vec<_> = walk(&log).iter().map(|step| step.0).collect();
    assert_eq!(names, ["record", "gap", "stale", "tail"]);
}

#[test]
fn the_usual_size_is_that_of_most_files() {
    let file = |base, len| SegmentFile {
        base,
        path: "x".into(),
        len,
    };
    assert_eq!(
        usual_size(&[file(0, 7), file(10, 10), file(20, 10), file(30, 0)]),
        10
    );
    assert_eq!(usual_size(&[]), 1);
}

proptest::proptest! {
    #[test]
    fn random_files_never_panic_and_every_byte_is_covered(bytes in proptest::collection::vec(0u8..4, 1..900)) {
        let (_dir, log) = log(&[Some(bytes)], false);
        let mut at = 0;
        for step in log.walk(0, true) {
            proptest::prop_assert_eq!(step.at(), at);
            at = step.end();
        }
        proptest::prop_assert_eq!(at, log.end());
    }
}
