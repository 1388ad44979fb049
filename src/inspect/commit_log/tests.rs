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
fn records_that_a_broker_writes_during_a_walk_are_met() {
    let len = record(0, 0).len() as u64;
    let mut bytes = record(0, 1);
    bytes.resize(SIZE, 0);
    let (dir, log) = log(&[Some(bytes.clone())], true);
    let mut walk = log.walk(0, true);
    assert_eq!(walk.next().map(|step| step.end()), Some(len));
    // The walk has read the zeros behind the first record already.
    bytes.truncate(len as usize);
    bytes.extend(record(len, 2));
    bytes.extend(record(2 * len, 3));
    bytes.resize(SIZE, 0);
    std::fs::write(dir.path().join(file_name::segment(0)), bytes).unwrap();
    let met: Vec<_> = walk
        .map(|step| (step.at(), matches!(step, Step::Message { .. })))
        .collect();
    assert_eq!(met, [(len, true), (2 * len, true), (3 * len, false)]);
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

/// Three files of random records, a filler at each end but the last.
fn long(records: usize) -> (tempfile::TempDir, Log, Vec<u64>) {
    const FILE: usize = 256 * 1024;
    let dir = tempfile::tempdir().unwrap();
    let (mut file, mut base, mut begins) = (Vec::new(), 0, Vec::new());
    let len = record(0, 0).len();
    for n in 0..records {
        if file.len() + len + BLANK_LEN > FILE {
            let used = file.len();
            file.resize(FILE, 0);
            encode_blank(&mut file[used..]);
            std::fs::write(dir.path().join(file_name::segment(base)), &file).unwrap();
            begins.push(base + used as u64);
            base += FILE as u64;
            file.clear();
        }
        let at = base + file.len() as u64;
        begins.push(at);
        file.extend(record(at, n.cast_signed() as i64 * 10));
    }
    file.resize(FILE, 0);
    std::fs::write(dir.path().join(file_name::segment(base)), &file).unwrap();
    let files = segments::list(dir.path()).unwrap().files;
    let log = Log::reading(files, false, 4096);
    (dir, log, begins)
}

#[test]
fn looking_back_finds_the_steps_that_a_walk_from_the_begin_meets() {
    let (_dir, log, begins) = long(6000);
    let end = begins.last().unwrap() + record(0, 0).len() as u64;
    for (at, most) in [
        (end, 3),
        (end, 1),
        (end - 1, 2),
        (begins[1], 5),
        (begins[0], 5),
        (256 * 1024, 4),
        (256 * 1024 + 1, 4),
        (300_000, 2000),
        (end, 5000),
        (u64::MAX, 2),
    ] {
        let before: Vec<u64> = begins.iter().copied().filter(|&begin| begin < at).collect();
        let mut expected = before[before.len().saturating_sub(most)..].to_vec();
        if at > end {
            // The space behind the last record is a step as well.
            expected.remove(0);
            expected.push(end);
        }
        assert_eq!(
            log.before(at, most, true, |step| step.at()),
            expected,
            "{at} {most}"
        );
    }
}

#[test]
fn looking_back_stops_at_damage_and_names_it() {
    let (dir, log, begins) = long(3000);
    let file = dir.path().join(file_name::segment(0));
    let mut bytes = std::fs::read(&file).unwrap();
    let (from, to) = (begins[900], begins[950]);
    bytes[from as usize..to as usize].fill(0x55);
    std::fs::write(&file, bytes).unwrap();
    let steps = log.before(begins[951], 3, true, |step| {
        (step.at(), matches!(step, Step::Gap(_)))
    });
    assert_eq!(steps, [(begins[899], false), (from, true), (to, false)]);
    // Asked for in the middle of the damage, its begin is told.
    assert_eq!(log.align(from + 700).unwrap(), from);
    assert_eq!(log.align(begins[960] + 1).unwrap(), begins[960]);
}

#[test]
fn the_end_and_a_time_are_found_by_halving() {
    let (dir, log, begins) = long(6000);
    let end = begins.last().unwrap() + record(0, 0).len() as u64;
    let found = log.records_end();
    assert_eq!((found.at, found.last), (end, begins.last().copied()));
    assert_eq!(log.end_since(found), Some(found));
    let earlier = LogEnd {
        at: begins[18],
        last: Some(begins[17]),
    };
    assert_eq!(log.end_since(earlier), Some(found));
    // Where no record begins, or one ends elsewhere, the log was cut meanwhile.
    for (at, last) in [(end, end), (begins[18], begins[17] + 1)] {
        let gone = LogEnd { at, last: Some(last) };
        assert_eq!(log.end_since(gone), None, "{gone:?}");
    }
    let records: Vec<u64> = log
        .walk(0, false)
        .filter_map(|step| match step {
            Step::Message { record, .. } => Some(record.at),
            _ => None,
        })
        .collect();
    for n in [0, 1, 700, 2457, 2500, 5999] {
        assert_eq!(log.first_at(n as i64 * 10, end), records[n], "{n}");
        assert_eq!(log.first_at(n as i64 * 10 - 5, end), records[n], "{n}");
    }
    assert_eq!(log.first_at(1_000_000, end), end);
    let steps = log.ahead(*records.last().unwrap(), 9, end, |step| step.at());
    assert_eq!(steps, [*records.last().unwrap(), end]);
    // An empty log ends where it begins.
    std::fs::write(dir.path().join("0"), "").unwrap();
    let empty = Log::reading(Vec::new(), false, 4096);
    assert_eq!((empty.records_end().at, empty.first_at(5, 0)), (0, 0));
    assert!(empty.before(9, 3, true, |step| step.at()).is_empty());
}
