//! `rmq store timer`, `stats` and `export` on stores that a Java broker wrote.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};

use rmq::inspect::{Store, UnitCheck, UnitStep};
use rmq::store::MessageStore;
use rmq::store::reader::{QueueName, StoreReader};
use serde_json::Value;

use crate::inspect::hashes;
use crate::inspect_cli::{Golden, golden_config, run_store};

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

#[test]
fn the_wheel_and_the_timer_log_read_as_java_reads_them() {
    let golden = Golden::new("delay-tx");
    let before = hashes(&golden.root);
    let store = Store::open(&golden.root, None).unwrap();
    let timer = store.timer().unwrap().unwrap();
    let expected = &golden.expect["timer"];
    assert_eq!(
        timer.check().unwrap().words().map(Value::from).to_vec(),
        *expected["timercheck_7_longs"].as_array().unwrap()
    );
    let mut slots = BTreeMap::new();
    timer
        .slots(|row| {
            let chain = timer.chain(&row, |_, _| true);
            assert_eq!(chain.problem, None, "{row:?}");
            slots.insert(row.number, row.slot);
            true
        })
        .unwrap();
    let wanted = expected["slots"].as_array().unwrap();
    assert_eq!(slots.len(), wanted.len());
    for slot in wanted {
        let found = slots[&(int(&slot["slot"]) as u64)];
        assert_eq!(found.time, int(&slot["time_div_precision"]));
        assert_eq!(
            (found.first, found.last),
            (int(&slot["firstPos"]), int(&slot["lastPos"]))
        );
        assert_eq!(i64::from(found.count), int(&slot["num"]));
    }
    let log = store.log().unwrap();
    let mut units = Vec::new();
    timer.walk(0, |step| {
        match step {
            UnitStep::Unit { at, unit } => {
                assert!(matches!(timer.compare(&unit, &log), UnitCheck::Agrees(_)), "{at}");
                units.push(vec![
                    at as i64,
                    52,
                    unit.previous,
                    unit.magic.into(),
                    unit.write_time,
                    unit.delay_ms.into(),
                    unit.offset,
                    unit.record_size.into(),
                    unit.topic_hash.into(),
                    unit.reserved,
                ]);
            }
            UnitStep::Blank { at } => units.push(vec![at as i64, 32, 0, -875_286_124]),
            UnitStep::End { damage, .. } => assert_eq!(damage, None),
        }
        true
    });
    let wanted: Vec<Vec<i64>> =
        expected["log_pos_size_prev_magic_writeMs_delayMs_phy_msgSize_topicHash_reserved"]
            .as_array()
            .unwrap()
            .iter()
            .map(|unit| unit.as_array().unwrap().iter().map(int).collect())
            .collect();
    assert_eq!(units, wanted);

    let shown = golden.run("timer", &["-o", "json"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let item = &shown.json()["items"][0];
    // What Java's timermetrics say of the one topic.
    assert_eq!(item["messages_to_come"], 32);
    assert_eq!(item["topics"][0]["in_wheel"], 32);
    assert_eq!(item["topics"][0]["in_metrics"], 32);
    assert_eq!(item["not_in_wheel_yet"], 0);
    let pending = golden.run("timer", &["--slots", "--pending", "-o", "csv", "--limit", "2"]);
    assert_eq!(pending.stdout.lines().count(), 3, "{}", pending.stdout);
    assert_eq!(hashes(&golden.root), before);
}

#[test]
fn damage_in_the_timer_files_is_named() {
    let golden = Golden::new("delay-tx");
    let log = golden.root.join("timerlog/00000000000000001072");
    let mut bytes = std::fs::read(&log).unwrap();
    // The size of the unit at 1280, which slot 932343 begins with.
    bytes[208 + 3] = 0x33;
    std::fs::write(&log, &bytes).unwrap();
    let shown = golden.run("timer", &[]);
    assert_eq!(shown.code, 11);
    assert!(
        shown.stdout.contains("there is no unit at 1280"),
        "{}",
        shown.stdout
    );
    let units = golden.run("timer", &["--log", "-o", "jsonl"]);
    assert_eq!(units.code, 11);
    assert!(
        units.stderr.contains("at 1280 stands what is no unit"),
        "{}",
        units.stderr
    );
    std::fs::write(golden.root.join("timerwheel"), vec![0; 100]).unwrap();
    let short = golden.run("timer", &[]);
    assert_eq!(short.code, 11);
    assert!(short.stderr.contains("a wheel has 38707200"), "{}", short.stderr);
}

#[test]
fn the_sums_are_those_of_the_records() {
    let golden = Golden::new("crashed");
    let mut wanted: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for record in golden.records() {
        let sums = wanted.entry(record["topic"].as_str().unwrap()).or_default();
        sums.0 += 1;
        sums.1 += int(&record["size"]);
    }
    let shown = golden.run("stats", &["-o", "json", "--every", "10s"]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    let item = &shown.json()["items"][0];
    let topics = item["topics"].as_array().unwrap();
    assert_eq!(topics.len(), wanted.len());
    for topic in topics {
        let (messages, bytes) = wanted[topic["topic"].as_str().unwrap()];
        assert_eq!((int(&topic["messages"]), int(&topic["bytes"])), (messages, bytes));
    }
    let sizes: i64 = item["sizes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|size| int(&size["records"]))
        .sum();
    assert_eq!(sizes, wanted.values().map(|sums| sums.0).sum::<i64>());
    let lines = golden.run("stats", &["-o", "jsonl", "--every", "10s"]).lines();
    let sum: i64 = lines.iter().map(|line| int(&line["messages"])).sum();
    assert_eq!(sum, sizes);
    let text = golden.run("stats", &[]).stdout;
    assert!(text.contains("messages every 1h") && text.contains('█'), "{text}");
    // A record of a batch queue stands for several messages.
    let features = Golden::new("features");
    let shown = features.run("stats", &["--topic", "g_bcq", "-o", "json"]).json();
    let batched: i64 = features
        .records()
        .filter(|record| record["topic"] == "g_bcq")
        .map(|record| {
            record["properties"]["INNER_NUM"]
                .as_str()
                .unwrap()
                .parse::<i64>()
                .unwrap()
        })
        .sum();
    assert_eq!(int(&shown["items"][0]["messages"]), batched);
}

#[test]
fn lines_have_every_field_and_the_body() {
    let golden = Golden::new("basic");
    let out = golden.dir.path().join("all.jsonl");
    let args = ["--system", "--raw", "--out", out.to_str().unwrap()];
    let ran = golden.run("export", &args);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let text = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let records: Vec<&Value> = golden.records().collect();
    assert_eq!(lines.len(), records.len());
    for (line, record) in lines.iter().zip(records) {
        assert_eq!(line["offset"], record["offset"]);
        assert_eq!(line["offset_id"], record["offsetMsgId"]);
        assert_eq!(line["properties"], record["properties"]);
        assert_eq!(line["queue_offset"], record["queueOffset"]);
        let digits = line["body_base64"].as_str().unwrap();
        let padding = digits.bytes().rev().take_while(|&b| b == b'=').count() as i64;
        assert_eq!(
            digits.len() as i64 / 4 * 3 - padding,
            int(&record["storedBodyLen"])
        );
    }
    // Nothing is written over, and nothing into the store.
    assert_eq!(golden.run("export", &args).code, 9);
    let inside = golden.root.join("x.jsonl");
    assert_eq!(golden.run("export", &["--out", inside.to_str().unwrap()]).code, 2);
    let some = golden.run("export", &["--out", "-", "--topic", "g_uni", "--limit", "2"]);
    assert_eq!((some.code, some.stdout.lines().count()), (0, 2));
    assert_eq!(golden.run("export", &["--out", "-", "--topic", "nobody"]).code, 4);
}

/// Queue offset and properties of each message of a queue, as a broker serves them.
fn served(store: &MessageStore, name: &QueueName) -> Vec<(i64, BTreeMap<String, String>)> {
    let (topic, id) = (name.topic.as_str(), name.queue_id);
    let mut out = Vec::new();
    let mut offset = store.min_offset(topic, id);
    while offset < store.max_offset(topic, id) {
        let got = store.get(topic, id, offset, 32, 64 << 20, &|_| true);
        assert!(got.next_offset > offset, "{name:?} at {offset}: {:?}", got.status);
        for bytes in &got.records {
            let view = rmq::protocol::message::MessageView::parse_checked(bytes).unwrap();
            let properties = view.properties().iter();
            out.push((
                view.queue_offset(),
                properties.map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            ));
        }
        offset = got.next_offset;
    }
    out
}

#[test]
fn a_copied_store_serves_the_chosen_messages_at_their_offsets() {
    let golden = Golden::new("basic");
    let copy = golden.dir.path().join("copy");
    let ran = golden.run(
        "export",
        &[
            "--as",
            "store",
            "--topic",
            "g_basic_a,g_big,g_comp",
            "--out",
            copy.to_str().unwrap(),
            "-o",
            "json",
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let verified = run_store("verify", &copy, &["-o", "json"]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    let names = StoreReader::with_config(golden_config(&copy))
        .unwrap()
        .queues()
        .unwrap();
    let topics: BTreeSet<&str> = names.iter().map(|name| name.topic.as_str()).collect();
    assert_eq!(topics, BTreeSet::from(["g_basic_a", "g_big", "g_comp"]));
    let store = MessageStore::open(golden_config(&copy)).unwrap();
    for name in &names {
        let wanted: Vec<(i64, BTreeMap<String, String>)> = golden
            .records()
            .filter(|r| r["topic"] == name.topic.as_str() && r["queueId"] == name.queue_id)
            .map(|r| {
                let properties = serde_json::from_value(r["properties"].clone()).unwrap();
                (int(&r["queueOffset"]), properties)
            })
            .collect();
        assert_eq!(served(&store, name), wanted, "{name:?}");
    }
    assert!(!store.query("g_basic_a", "k0", 8, 0, i64::MAX).records.is_empty());
    drop(store);
    let again = golden.run("export", &["--as", "store", "--out", copy.to_str().unwrap()]);
    assert_eq!(again.code, 9, "{}", again.stderr);
}

#[test]
fn a_copied_part_keeps_queue_offsets_and_mends_the_property_checksum() {
    let golden = Golden::new("basic");
    let records: Vec<&Value> = golden.records().filter(|r| r["topic"] == "g_basic_a").collect();
    let middle = int(&records[records.len() / 2]["storeTimestamp"]);
    let copy = golden.dir.path().join("part/");
    let from = middle.to_string();
    let ran = golden.run(
        "export",
        &[
            "--topic",
            "g_basic_a",
            "--from",
            &from,
            "--out",
            copy.to_str().unwrap(),
        ],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let verified = run_store("verify", &copy, &[]);
    assert_eq!(verified.code, 0, "{}{}", verified.stdout, verified.stderr);
    let store = MessageStore::open(golden_config(&copy)).unwrap();
    for queue_id in 0..4 {
        let wanted: Vec<i64> = records
            .iter()
            .filter(|r| r["queueId"] == queue_id && int(&r["storeTimestamp"]) >= middle)
            .map(|r| int(&r["queueOffset"]))
            .collect();
        let name = QueueName {
            topic: "g_basic_a".into(),
            queue_id,
        };
        let found: Vec<i64> = served(&store, &name)
            .into_iter()
            .map(|(offset, _)| offset)
            .collect();
        assert_eq!(found, wanted);
        assert_eq!(store.min_offset("g_basic_a", queue_id), wanted[0]);
    }
    drop(store);
    // Only some records are copied, so each has another physical offset, which its checksum covers.
    let crc = Golden::new("crcprop");
    let lines = crc.run("export", &["--out", "-"]).lines();
    let second = lines[1]["stored_at_ms"].as_i64().unwrap().to_string();
    let copy = crc.dir.path().join("crc/");
    crc.run("export", &["--from", &second, "--out", copy.to_str().unwrap()]);
    let mut checked = 0;
    let store = Store::open(&copy, None).unwrap();
    let log = store.log().unwrap();
    for step in log.walk(log.start(), true) {
        let rmq::inspect::Step::Message { record, .. } = step else {
            continue;
        };
        let bytes = &record.bytes;
        let (head, tail) = bytes.split_at(bytes.len() - 20);
        let digits: String = std::str::from_utf8(&tail[9..19]).unwrap().chars().rev().collect();
        assert_eq!(
            digits.parse::<u32>().unwrap(),
            crc32fast::hash(head) & 0x7FFF_FFFF
        );
        checked += 1;
    }
    assert_eq!(checked, lines.len() - 1);
}

#[test]
fn batch_and_light_queues_are_made_as_java_makes_them() {
    let golden = Golden::new("features");
    let copy = golden.dir.path().join("copy/");
    let ran = golden.run("export", &["--out", copy.to_str().unwrap()]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(run_store("verify", &copy, &[]).code, 0);
    for (queue, unit) in [
        ("batchconsumequeue/g_bcq/0", 46),
        ("consumequeue/%LMQ%one/0", 20),
        ("consumequeue/%LMQ%two/0", 20),
    ] {
        for entry in std::fs::read_dir(golden.root.join(queue)).unwrap() {
            let name = entry.unwrap().file_name();
            let theirs = std::fs::read(golden.root.join(queue).join(&name)).unwrap();
            let mut ours = std::fs::read(copy.join(queue).join(&name)).unwrap();
            // The log of a copy begins at its second segment.
            for entry in ours.chunks_exact_mut(unit) {
                let offset = i64::from_be_bytes(*entry.first_chunk().unwrap());
                if offset > 0 {
                    entry[..8].copy_from_slice(&(offset - 1024 * 1024).to_be_bytes());
                }
            }
            assert!(ours == theirs, "{queue}/{name:?}");
        }
    }
}
