//! `rmq store dump-compaction`: the log of a compacted topic as Java writes it (`CompactionLog`): records of the commit log,
//! each with its offset in this log, and a filler behind the last one of a file.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::inspect_cli::{Golden, Ran, command, run_store};

/// Messages of each of two files.
const EACH: usize = 5;
/// Bytes of a file.
const FILE: usize = 8192;

/// Two files of a compaction log in a store: every second record of the golden log, as if the others had been compacted away.
fn compacted(golden: &Golden) -> (PathBuf, Vec<Value>) {
    let log = std::fs::read(golden.root.join("commitlog/00000000000000000000")).unwrap();
    let dir = golden.root.join("compaction/compactionLog/Prices/0");
    std::fs::create_dir_all(&dir).unwrap();
    let kept: Vec<Value> = golden.records().step_by(2).take(2 * EACH).cloned().collect();
    for (n, records) in kept.chunks(EACH).enumerate() {
        let mut file = Vec::new();
        for record in records {
            let word = |name: &str| usize::try_from(record[name].as_i64().unwrap()).unwrap();
            let at = file.len();
            file.extend_from_slice(&log[word("offset")..word("offset") + word("size")]);
            // TOTALSIZE MAGICCODE BODYCRC QUEUEID FLAG QUEUEOFFSET PHYSICALOFFSET
            let offset = u64::try_from(n * FILE + at).unwrap();
            file[at + 28..at + 36].copy_from_slice(&offset.to_be_bytes());
        }
        let rest = u32::try_from(FILE - file.len()).unwrap();
        file.extend_from_slice(&rest.to_be_bytes());
        file.extend_from_slice(&0xCBD4_3194_u32.to_be_bytes());
        file.resize(FILE, 0);
        std::fs::write(dir.join(format!("{:020}", n * FILE)), file).unwrap();
    }
    (dir, kept)
}

fn dump(path: &Path, args: &[&str]) -> Ran {
    run_store("dump-compaction", path, args)
}

#[test]
fn the_messages_of_a_compacted_topic_are_listed_in_every_form() {
    let golden = Golden::without_wheel("basic");
    let (dir, kept) = compacted(&golden);
    let all = dump(&dir, &["-o", "json", "--body"]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    let document = all.json();
    assert_eq!(document["kind"], "CompactionLogRecordList");
    assert_eq!(document["summary"]["records"], 2 * EACH);
    let items = document["items"].as_array().unwrap();
    assert_eq!(items.len(), kept.len());
    let mut offset = 0;
    for (n, (item, record)) in items.iter().zip(&kept).enumerate() {
        if n == EACH {
            offset = i64::try_from(FILE).unwrap();
        }
        assert_eq!(item["offset"], offset);
        offset += record["size"].as_i64().unwrap();
        assert_eq!(item["size"], record["size"]);
        assert_eq!(item["topic"], record["topic"]);
        assert_eq!(item["queue_offset"], record["queueOffset"]);
        assert_eq!(item["properties"], record["properties"]);
        assert_eq!(item["stored_at_ms"], record["storeTimestamp"]);
        assert!(item["body"].is_string(), "{item}");
    }
    // One file, under its own name or as a copy.
    let second = dir.join(format!("{FILE:020}"));
    let copy = golden.dir.path().join("copy.bin");
    std::fs::copy(&second, &copy).unwrap();
    for file in [&second, &copy] {
        let one = dump(file, &["-o", "jsonl"]);
        assert_eq!((one.code, one.lines().len()), (0, EACH), "{}", one.stderr);
        assert_eq!(one.lines()[0]["offset"], FILE);
    }
    let csv = dump(&dir, &["-o", "csv", "--columns", "offset,topic", "--limit", "1"]);
    assert_eq!(csv.stdout.lines().next(), Some("offset,topic"));
    assert_eq!(csv.stdout.lines().count(), 2);
    let table = dump(&dir, &[]);
    assert_eq!(table.stdout.lines().count(), 1 + 2 * EACH);
    assert_eq!(dump(&dir, &["-o", "name"]).stdout.lines().next(), Some("0"));
    // The old name is the same thing.
    let old = command()
        .args(["mqadmin", "--no-hint", "dumpCompactionLog", "-f"])
        .arg(&second)
        .output()
        .unwrap();
    let old = Ran::of(old);
    assert_eq!(
        (old.code, old.stdout),
        (0, dump(&second, &[]).stdout),
        "{}",
        old.stderr
    );
}

#[test]
fn a_torn_file_is_told_with_its_byte_and_the_rest_is_read() {
    let golden = Golden::without_wheel("basic");
    let (dir, kept) = compacted(&golden);
    let first = dir.join("00000000000000000000");
    let whole = std::fs::read(&first).unwrap();
    let size = |n: usize| usize::try_from(kept[n]["size"].as_i64().unwrap()).unwrap();
    // A body that changed: the one record is damage, the others are read.
    let mut torn = whole.clone();
    torn[size(0) + 4] ^= 1;
    std::fs::write(&first, &torn).unwrap();
    let ran = dump(&dir, &["-o", "json"]);
    assert_eq!(ran.code, 11, "{}", ran.stderr);
    for part in [first.display().to_string(), format!("at byte {}", size(0))] {
        assert!(ran.stderr.contains(&part), "{part} is missing: {}", ran.stderr);
    }
    let document = ran.json();
    assert_eq!(document["summary"]["records"], 2 * EACH - 1);
    assert_eq!(document["summary"]["damaged_places"], 1);
    // Cut in every place: never a panic, and never told to be whole.
    let end: usize = (0..EACH).map(size).sum();
    for len in (1..end).step_by(61) {
        std::fs::write(&first, &whole[..len]).unwrap();
        let ran = dump(&first, &["-o", "json"]);
        let records = ran.json()["summary"]["records"].as_u64().unwrap();
        let mut fits = 0;
        let mut begin = 0;
        while fits < EACH && begin + size(fits) <= len {
            begin += size(fits);
            fits += 1;
        }
        // The first bytes of a size are zeros, and so is what nothing was written to.
        let is_whole = whole[begin..len].iter().all(|byte| *byte == 0);
        assert_eq!(records, fits as u64, "cut at {len}: {}", ran.stderr);
        assert_eq!(
            ran.code,
            if is_whole { 0 } else { 11 },
            "cut at {len}: {}",
            ran.stderr
        );
    }
    std::fs::write(&first, b"").unwrap();
    assert_eq!(dump(&first, &[]).code, 0, "an empty file has nothing in it");
    assert_eq!(dump(&golden.root.join("nowhere"), &[]).code, 4);
    let none = dump(&golden.root, &[]);
    assert_eq!(none.code, 4, "{}", none.stderr);
    assert!(
        none.stderr.contains("compactionLog/TOPIC/QUEUE"),
        "{}",
        none.stderr
    );
}
