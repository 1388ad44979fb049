//! The inspector on stores that a Java broker wrote, against the values that its own code read from them.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use rmq::inspect::{
    self, Body, Depth, Find, FindStep, Finding, How, Point, QueueKind, QueueStep, Severity, Step, Store,
    TagsCode, Verdict,
};
use rmq::store::reader::QueueName;
use serde_json::Value;

/// A fresh copy of a golden store and what is expected of it.
struct Golden {
    dir: tempfile::TempDir,
    name: String,
    expect: Value,
    before: BTreeMap<PathBuf, (u64, u32)>,
}

impl Golden {
    fn unpack(name: &str) -> Self {
        let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/stores");
        let read = |suffix: &str| {
            let path = stores.join(format!("{name}.{suffix}"));
            zstd::stream::decode_all(std::fs::File::open(path).unwrap()).unwrap()
        };
        let dir = tempfile::tempdir().unwrap();
        let tarball = read("tar.zst");
        let mut archive = tar::Archive::new(&tarball[..]);
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            // 38 MB that nothing here looks at.
            if !entry.path().unwrap().ends_with("timerwheel") {
                entry.unpack_in(dir.path()).unwrap();
            }
        }
        let mut golden = Self {
            dir,
            name: name.to_owned(),
            expect: serde_json::from_slice(&read("expect.json.zst")).unwrap(),
            before: BTreeMap::new(),
        };
        golden.before = hashes(&golden.root());
        golden
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join(&self.name)
    }

    fn store(&self) -> Store {
        Store::open(&self.root(), None).unwrap()
    }

    fn records(&self) -> &[Value] {
        self.expect["records"].as_array().unwrap()
    }

    fn findings(&self, depth: Depth) -> Vec<Finding> {
        let mut found = Vec::new();
        let report = inspect::verify(
            &self.store(),
            depth,
            &mut |finding| {
                found.push(finding);
                ControlFlow::Continue(())
            },
            &mut |_| true,
        )
        .unwrap();
        assert_eq!(
            report.errors as usize,
            found.iter().filter(|f| f.severity == Severity::Error).count()
        );
        found
    }
}

impl Drop for Golden {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(hashes(&self.root()), self.before, "{} was changed", self.name);
        }
    }
}

/// Length and checksum of every file.
pub fn hashes(dir: &Path) -> BTreeMap<PathBuf, (u64, u32)> {
    let mut out = BTreeMap::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                out.insert(path, (bytes.len() as u64, crc32fast::hash(&bytes)));
            }
        }
    }
    out
}

const ALL: [&str; 16] = [
    "basic",
    "ipv6",
    "delay-tx",
    "crashed",
    "torn-tail",
    "torn-head",
    "torn-flip",
    "torn-flip-early",
    "dirty-cq-all",
    "dirty-cq-one",
    "dirty-cq-one-abort",
    "dirty-cq-beyond",
    "dirty-cq-tail",
    "ha-slave",
    "features",
    "crcprop",
];

#[test]
fn every_record_is_listed_as_java_reads_it() {
    for name in ALL {
        let golden = Golden::unpack(name);
        let log = golden.store().log().unwrap();
        let mut steps: HashMap<u64, Step> = log
            .walk(log.start(), true)
            .map(|step| (step.at(), step))
            .collect();
        for expected in golden.records() {
            let at = expected["offset"].as_u64().unwrap();
            let size = expected["size"].as_u64().unwrap();
            let step = steps
                .remove(&at)
                .unwrap_or_else(|| panic!("{name}: nothing at {at}"));
            if expected["blank"] == true {
                assert!(matches!(step, Step::Filler { .. }), "{name} {at}: {step:?}");
                continue;
            }
            let record = match step {
                Step::Message { record, stale: false } => record,
                // Java's recovery begins behind this one, so it did not look at its checksum.
                Step::Gap(gap) if golden.expect["damagedRecordOffset"] == at => gap.record.unwrap(),
                other => panic!("{name} {at}: {other:?}"),
            };
            let view = record.view().unwrap();
            assert_eq!(view.size() as u64, size, "{name} {at}");
            assert_eq!(view.topic(), expected["topic"], "{name} {at}");
            assert_eq!(view.queue_id(), expected["queueId"], "{name} {at}");
            assert_eq!(view.queue_offset(), expected["queueOffset"], "{name} {at}");
            if let Some(id) = expected["offsetMsgId"].as_str() {
                assert_eq!(view.offset_id(), id);
                assert_eq!(view.sys_flag().0, expected["sysFlag"]);
                assert_eq!(view.born_timestamp(), expected["bornTimestamp"]);
                assert_eq!(view.store_timestamp(), expected["storeTimestamp"]);
                assert_eq!(view.reconsume_times(), expected["reconsumeTimes"]);
                assert_eq!(
                    view.prepared_transaction_offset(),
                    expected["preparedTransactionOffset"]
                );
                assert_eq!(view.body_crc(), expected["bodyCRC"]);
                assert_eq!(view.body().len(), expected["storedBodyLen"]);
                let map = view.properties().to_map();
                let properties = expected["properties"].as_object().unwrap();
                assert_eq!(map.len(), properties.len(), "{name} {at}");
                for (key, value) in properties {
                    assert_eq!(map.get(key), value.as_str(), "{name} {at} {key}");
                }
                assert!(!matches!(
                    inspect::body(&view, inspect::BODY_LIMIT),
                    Body::Broken(_)
                ));
                let fields = inspect::layout(&view);
                let end = fields.last().map_or(0, |field| field.at + field.len);
                assert_eq!(end, view.size(), "the fields cover the record");
            }
        }
        // What Java did not list is behind the point where it stopped.
        let end = golden.expect["afterLoad"]["maxPhyOffset"].as_u64().unwrap();
        for (at, step) in steps {
            assert!(
                at >= end || matches!(step, Step::Gap(_)),
                "{name}: {step:?} is too much"
            );
        }
    }
}

#[test]
fn damage_is_named_and_the_records_behind_it_are_listed() {
    for name in ["torn-tail", "torn-head", "torn-flip", "torn-flip-early"] {
        let golden = Golden::unpack(name);
        let at = golden.expect["damagedRecordOffset"].as_u64().unwrap();
        let size = golden.expect["damagedRecordSize"].as_u64().unwrap();
        let log = golden.store().log().unwrap();
        let gaps: Vec<_> = log
            .walk(log.start(), true)
            .filter_map(|step| match step {
                Step::Gap(gap) => Some(gap),
                _ => None,
            })
            .collect();
        assert_eq!(gaps.len(), 1, "{name}: {gaps:?}");
        assert_eq!(gaps[0].at, at, "{name}");
        let is_flip = name.starts_with("torn-flip");
        assert_eq!(gaps[0].is_last, !is_flip, "{name}");
        assert_eq!(gaps[0].record.is_some(), is_flip, "{name}");
        if is_flip {
            assert_eq!(gaps[0].len, size, "{name}");
        } else {
            assert!(gaps[0].len > 0 && gaps[0].len < size, "{name}: {}", gaps[0].len);
        }
        // The crashed store without the damage has 1221 messages and 2 fillers.
        let good = log
            .walk(0, true)
            .filter(|step| matches!(step, Step::Message { .. }))
            .count();
        assert_eq!(good, 1220, "{name}");
    }
}

#[test]
fn one_flipped_bit_in_each_field_hides_one_record_at_most() {
    let golden = Golden::unpack("ipv6");
    let path = golden.root().join("commitlog/00000000000000000000");
    let original = std::fs::read(&path).unwrap();
    // The records end before; a small file is looked through in no time.
    let whole = original[..4096].to_vec();
    let records = golden.records();
    let (at, size) = (
        records[5]["offset"].as_u64().unwrap(),
        records[5]["size"].as_u64().unwrap(),
    );
    for byte in at..at + size {
        for bit in [0, 6] {
            let mut damaged = whole.clone();
            damaged[usize::try_from(byte).unwrap()] ^= 1 << bit;
            std::fs::write(&path, damaged).unwrap();
            let log = golden.store().log().unwrap();
            let offsets: Vec<u64> = log
                .walk(0, true)
                .filter_map(|step| match step {
                    Step::Message { record, .. } => Some(record.at),
                    _ => None,
                })
                .collect();
            for (n, record) in records.iter().enumerate() {
                let listed = offsets.contains(&record["offset"].as_u64().unwrap());
                assert!(listed || n == 5, "byte {byte}, bit {bit}: record {n} is missing");
            }
            assert!(offsets.len() >= records.len() - 1);
        }
    }
    std::fs::write(&path, original).unwrap();
}

#[test]
fn every_queue_entry_is_listed_as_java_reads_it() {
    for name in [
        "basic",
        "ipv6",
        "delay-tx",
        "ha-slave",
        "features",
        "crcprop",
        "dirty-cq-beyond",
    ] {
        let golden = Golden::unpack(name);
        let store = golden.store();
        let log = store.log().unwrap();
        let info = inspect::info(&store).unwrap();
        let queues = golden.expect["afterStart"]["queues"].as_object().unwrap();
        for (key, expected) in queues {
            let (topic, id) = key.rsplit_once('@').unwrap();
            let queue_id: i32 = id.parse().unwrap();
            let units = expected
                .as_object()
                .unwrap()
                .iter()
                .find(|(k, _)| k.starts_with("units"));
            let units = units.unwrap().1.as_array().unwrap();
            if units.is_empty() {
                continue;
            }
            let (found, kind) = store.queues_of(topic, Some(queue_id)).unwrap().remove(0);
            assert_eq!(kind == QueueKind::Batch, expected["type"] == "BatchCQ", "{key}");
            let queue = store.queue(found, kind).unwrap();
            let listed: Vec<_> = queue
                .walk(0, Some(&log), info.log_end)
                .map(|step| match step {
                    QueueStep::Entry(row) => row,
                    other => panic!("{name} {key}: {other:?}"),
                })
                .collect();
            let good = listed.iter().filter(|row| row.check.is_good()).count();
            assert_eq!(
                good,
                units.len(),
                "{name} {key}: {:?}",
                listed.iter().find(|r| !r.check.is_good())
            );
            for (row, unit) in listed.iter().zip(units) {
                assert_eq!(row.queue_offset, unit[0], "{name} {key}");
                assert_eq!(row.entry.offset, unit[1], "{name} {key}");
                assert_eq!(row.entry.size, unit[2], "{name} {key}");
                if let TagsCode::Address { hash, .. } = row.tags {
                    assert!(hash.is_some(), "{name} {key}");
                }
                let java = unit[3].as_i64().unwrap();
                let ours = match row.tags {
                    TagsCode::Address { hash: Some(hash), .. } if java != row.entry.tags_code => hash,
                    _ => row.entry.tags_code,
                };
                assert_eq!(ours, java, "{name} {key}");
            }
            let bounds = info
                .queues
                .iter()
                .find(|q| q.name.topic == topic && q.name.queue_id == queue_id)
                .unwrap()
                .bounds;
            assert_eq!(bounds.min_offset, expected["minOffset"], "{name} {key}");
            if name != "dirty-cq-beyond" {
                assert_eq!(bounds.max_offset, expected["maxOffset"], "{name} {key}");
            }
        }
    }
}

#[test]
fn queries_by_key_walk_to_what_java_finds() {
    for name in ["basic", "delay-tx", "ipv6", "features", "crcprop"] {
        let golden = Golden::unpack(name);
        let store = golden.store();
        let log = store.log().unwrap();
        let index = store.index().unwrap();
        for file in index.files() {
            let shape = file
                .shape()
                .unwrap_or_else(|| panic!("{name}: {}", file.path().display()));
            assert_eq!((shape.slots, shape.items), (200, 600), "{name}");
            assert_eq!(file.survey(1, &mut |_, _| true).unwrap().broken, 0, "{name}");
        }
        for query in golden.expect["indexQueries"].as_array().unwrap() {
            let (topic, key) = (query["topic"].as_str().unwrap(), query["key"].as_str().unwrap());
            let limit = query["maxNum"].as_u64().unwrap();
            let full_range = query["begin"] == 0 && query["end"] == i64::MAX;
            let hits: Vec<i64> = query["hits"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(Value::as_i64)
                .collect();
            if !full_range || hits.len() as u64 >= limit {
                continue;
            }
            let mut found = Vec::new();
            for file in index.files() {
                let walk = index.walk_key(file, topic, key, &log, false).unwrap();
                assert_eq!(walk.hash, query["keyHash"], "{name} {topic}#{key}");
                assert_eq!(walk.broken, None);
                found.extend(walk.items.iter().map(|item| item.item.offset));
                for item in &walk.items {
                    let own = item.real_keys().contains(&format!("{topic}#{key}"));
                    assert_eq!(
                        own,
                        item.verdict == Verdict::Hit,
                        "{name} {topic}#{key}: {item:?}"
                    );
                }
            }
            found.sort_unstable();
            assert_eq!(found, hits, "{name} {topic}#{key}");
        }
    }
}

#[test]
fn a_collision_is_told_from_a_hit() {
    let golden = Golden::unpack("basic");
    let store = golden.store();
    let log = store.log().unwrap();
    let index = store.index().unwrap();
    let mut verdicts: Vec<(bool, Vec<String>)> = Vec::new();
    for file in index.files() {
        let walk = index.walk_key(file, "g_basic_b", "kAaAa", &log, false).unwrap();
        verdicts.extend(
            walk.items
                .iter()
                .map(|item| (item.verdict == Verdict::Hit, item.real_keys())),
        );
    }
    assert!(
        verdicts
            .iter()
            .any(|(hit, keys)| *hit && keys.iter().any(|k| k.ends_with("#kAaAa")))
    );
    assert!(
        verdicts
            .iter()
            .any(|(hit, keys)| !*hit && keys.iter().any(|k| k.contains("BB")))
    );
}

#[test]
fn info_tells_what_recovery_does() {
    for (name, clean, from) in [
        ("basic", true, 3_145_728),
        ("crashed", false, 1_048_576),
        ("torn-tail", false, 1_048_576),
        ("torn-head", false, 1_048_576),
        ("torn-flip", false, 1_048_576),
        ("torn-flip-early", false, 1_048_576),
        ("dirty-cq-beyond", true, 1_048_576),
        ("dirty-cq-all", true, 0),
        ("dirty-cq-tail", true, 2_097_152),
        ("delay-tx", true, 0),
        ("ha-slave", true, 1_048_576),
    ] {
        let golden = Golden::unpack(name);
        let info = inspect::info(&golden.store()).unwrap();
        let end = golden.expect["afterLoad"]["maxPhyOffset"].as_u64();
        let recovery = info.recovery.as_ref().expect("queues are files");
        assert_eq!(recovery.clean, clean, "{name}");
        assert_eq!(recovery.from, from, "{name}");
        assert_eq!(recovery.end, end, "{name}");
        assert_eq!(
            recovery.stops_at.is_some(),
            name.starts_with("torn") && name != "torn-flip-early",
            "{name}"
        );
        assert_eq!(info.segment_size, 1_048_576);
        assert_eq!(info.holder, None);
        assert!(info.strays.is_empty(), "{name}: {:?}", info.strays);
        assert!(info.tables.iter().all(|table| table.state.is_good()), "{name}");
        let checkpoint = info.checkpoint.unwrap();
        assert_eq!(
            checkpoint.physic_msg_timestamp, golden.expect["checkpointBeforeLoad"]["physicMsgTimestamp"],
            "{name}"
        );
        let headers = golden.expect["indexFilesBeforeLoad"].as_array().unwrap();
        assert_eq!(info.index.len(), headers.len());
        for (file, expected) in info.index.iter().zip(headers) {
            assert_eq!(file.header.count, expected["indexCount"], "{name}");
            assert_eq!(file.header.used_slots, expected["hashSlotCount"], "{name}");
            assert_eq!(file.header.end_offset, expected["endPhyOffset"], "{name}");
        }
    }
}

#[test]
fn verify_finds_nothing_in_clean_stores() {
    for name in ["basic", "ipv6", "delay-tx", "ha-slave", "features", "crcprop"] {
        let golden = Golden::unpack(name);
        for depth in [Depth::Quick, Depth::Full] {
            let found = golden.findings(depth);
            assert!(found.is_empty(), "{name}: {found:#?}");
        }
    }
}

#[test]
fn verify_names_the_damaged_offset() {
    for name in ["torn-tail", "torn-head", "torn-flip", "torn-flip-early"] {
        let golden = Golden::unpack(name);
        let at = golden.expect["damagedRecordOffset"].as_u64();
        let found = golden.findings(Depth::Full);
        let damaged: Vec<_> = found.iter().filter(|f| f.code == "damaged-record").collect();
        assert_eq!(damaged.len(), 1, "{name}: {found:#?}");
        assert_eq!(damaged[0].offset, at, "{name}");
        assert_eq!(damaged[0].severity, Severity::Error);
        assert!(found.iter().any(|f| f.code == "abort"));
    }
}

#[test]
fn verify_says_what_is_wrong_with_the_queues() {
    let check = |name: &str, code: &str, subject: &str, offset: u64, len: u64| {
        let golden = Golden::unpack(name);
        let found = golden.findings(Depth::Full);
        assert!(
            found.iter().any(|f| f.code == code
                && f.subject == subject
                && f.offset == Some(offset)
                && f.len == Some(len)),
            "{name}: {found:#?}"
        );
    };
    check("dirty-cq-tail", "missing-entry", "g_d2@0", 20, 10);
    check("dirty-cq-one", "missing-queue", "g_d2@0", 0, 30);
    check("dirty-cq-one-abort", "missing-queue", "g_d2@0", 0, 30);
    check("dirty-cq-all", "missing-queue", "g_d2@0", 0, 30);
    check("dirty-cq-all", "missing-queue", "g_d1@0", 0, 245);
    // 245 entries, of which Java keeps 199.
    check("dirty-cq-beyond", "beyond-log", "g_d1@0", 199, 46);
}

#[test]
fn records_are_found_by_key_by_id_and_by_body() {
    let golden = Golden::unpack("basic");
    let store = golden.store();
    let log = store.log().unwrap();
    let offsets = |find: Find, scan: bool| -> (How, Vec<u64>) {
        let search = find.start(&store, &log, scan).unwrap();
        let how = search.how().clone();
        let mut hits = Vec::new();
        search.run(|step| {
            if let FindStep::Hit(record) = step {
                hits.push(record.at);
            }
            ControlFlow::Continue(())
        });
        (how, hits)
    };
    let key = Find::Key {
        topic: None,
        key: "shared0".into(),
    };
    let (how, by_index) = offsets(key.clone(), false);
    assert!(matches!(how, How::Index { files: 5, .. }), "{how:?}");
    assert_eq!(by_index.len(), 30);
    let (how, by_scan) = offsets(key, true);
    assert!(matches!(how, How::Scan { from: 0, .. }));
    assert_eq!(by_index, by_scan);
    let first = &golden.records()[0];
    let (how, hits) = offsets(Find::Id(first["offsetMsgId"].as_str().unwrap().into()), false);
    assert_eq!((how, hits), (How::Offset, vec![0]));
    let unique = first["properties"]["UNIQ_KEY"].as_str().unwrap();
    assert_eq!(offsets(Find::Id(unique.into()), false).1, [0]);
    let Ok(Step::Message { record, .. }) = log.walk(0, true).next().ok_or(()) else {
        panic!("the first record is there")
    };
    let text = String::from_utf8_lossy(record.view().unwrap().body()).into_owned();
    let pattern = regex::bytes::Regex::new(&regex::escape(&text)).unwrap();
    assert!(offsets(Find::Body(pattern), false).1.contains(&0));
}

#[test]
fn a_walk_begins_at_any_offset_or_time() {
    let golden = Golden::unpack("basic");
    let log = golden.store().log().unwrap();
    let records = golden.records();
    let third = records[3]["offset"].as_u64().unwrap();
    assert_eq!(log.begin_of(Point::Offset(third)).unwrap(), third);
    assert_eq!(log.begin_of(Point::Offset(third + 7)).unwrap(), third);
    assert!(log.begin_of(Point::Offset(1 << 40)).is_err());
    for record in records.iter().filter(|r| r["blank"] != true) {
        let time = record["storeTimestamp"].as_i64().unwrap();
        let begin = log.begin_of(Point::Time(time)).unwrap();
        assert!(begin <= record["offset"].as_u64().unwrap());
        assert!(record["offset"].as_u64().unwrap() - begin <= 2 * 1_048_576);
    }
}

#[test]
fn what_is_no_store_or_no_queue_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let error = Store::open(dir.path(), None).unwrap_err();
    assert!(matches!(error, inspect::Error::NoStore { .. }), "{error}");
    assert!(matches!(
        Store::open(&dir.path().join("nothing"), None),
        Err(inspect::Error::Store(_))
    ));
    std::fs::create_dir_all(dir.path().join("consumequeue")).unwrap();
    std::fs::write(dir.path().join("consumequeue/CURRENT"), b"MANIFEST-1").unwrap();
    let store = Store::open(dir.path(), None).unwrap();
    assert!(matches!(store.queues(), Err(inspect::Error::RocksDb { .. })));
    assert!(inspect::info(&store).unwrap().rocks_db);
    let golden = Golden::unpack("features");
    let Err(inspect::Error::NoQueue { known, .. }) = golden.store().queues_of("g_lm", None) else {
        panic!("there is no such topic")
    };
    assert!(known.contains(&"g_lmq".to_owned()));
    let name = QueueName {
        topic: "%LMQ%one".into(),
        queue_id: 0,
    };
    assert!(
        golden
            .store()
            .queues()
            .unwrap()
            .contains(&(name, QueueKind::Simple))
    );
}
