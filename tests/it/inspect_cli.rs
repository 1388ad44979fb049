//! `rmq store` as a program: rows, forms, exit codes, and a directory that is the same afterwards.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rmq::store::{MessageStore, StoreConfig};
use serde_json::Value;

use crate::inspect::hashes;
use crate::support::{golden_expectation, scratch, unpack_golden_store};

struct Fixture {
    _dir: tempfile::TempDir,
    root: PathBuf,
    expect: Value,
    before: BTreeMap<PathBuf, (u64, u32)>,
}

impl Fixture {
    fn new(name: &str) -> Self {
        let dir = scratch();
        let root = unpack_golden_store(name, dir.path());
        // 38 MB that nothing here looks at.
        std::fs::remove_file(root.join("timerwheel")).unwrap();
        Self {
            before: hashes(&root),
            expect: golden_expectation(name),
            root,
            _dir: dir,
        }
    }

    fn run(&self, verb: &str, args: &[&str]) -> Ran {
        let ran = run_store(verb, &self.root, args);
        assert_eq!(
            hashes(&self.root),
            self.before,
            "{verb} {args:?} changed the store"
        );
        ran
    }
}

/// A golden store unpacked into a directory of its own, and what Java says about it.
pub struct Golden {
    pub dir: tempfile::TempDir,
    pub root: PathBuf,
    pub expect: Value,
}

impl Golden {
    pub fn new(name: &str) -> Self {
        let dir = scratch();
        Self {
            root: unpack_golden_store(name, dir.path()),
            expect: golden_expectation(name),
            dir,
        }
    }

    /// Without the timing wheel: 38 MB that a test does not look at.
    pub fn without_wheel(name: &str) -> Self {
        let golden = Self::new(name);
        let _ = std::fs::remove_file(golden.root.join("timerwheel"));
        golden
    }

    /// `rmq store VERB` on it.
    pub fn run(&self, verb: &str, args: &[&str]) -> Ran {
        run_store(verb, &self.root, args)
    }

    /// Records as Java read them; without the fillers.
    pub fn records(&self) -> impl DoubleEndedIterator<Item = &Value> {
        let records = self.expect["records"].as_array().unwrap();
        records.iter().filter(|record| record["blank"] != true)
    }

    /// What a broker needs to open it.
    pub fn config(&self) -> StoreConfig {
        golden_config(&self.root)
    }
}

/// The file sizes of the golden stores; nothing is deleted for its age.
pub fn golden_config(root: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: root.to_owned(),
        mapped_file_size_commit_log: 1024 * 1024,
        mapped_file_size_consume_queue: 4000,
        max_hash_slot_num: 200,
        max_index_num: 600,
        file_reserved_time: 876_000,
        disk_max_used_space_ratio: 95,
        clean_file_forcibly_enable: false,
        ..StoreConfig::default()
    }
}

/// `rmq store VERB ROOT ARGS`.
pub fn run_store(verb: &str, root: &Path, args: &[&str]) -> Ran {
    let mut command = command();
    command.args(["store", verb]).arg(root).args(args);
    Ran::of(command.output().unwrap())
}

pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let ran = Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        crate::support::schema::collect(&ran.stdout);
        ran
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|e| panic!("{e}: {}", self.stdout))
    }

    pub fn lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rmq"));
    for name in [
        "RMQ_NAMESRV",
        "NAMESRV_ADDR",
        "RMQ_CONTEXT",
        "RMQ_CONFIG",
        "RMQ_OUTPUT",
        "RMQ_TIMEOUT",
    ] {
        command.env_remove(name);
    }
    command
        .env("HOME", "/nonexistent")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .env("TZ", "UTC");
    command
}

#[test]
fn records_come_in_every_form() {
    let basic = Fixture::new("basic");
    let records = basic.expect["records"].as_array().unwrap();
    let json = basic.run("commitlog", &["-o", "json", "--body", "--hex"]);
    assert_eq!(json.code, 0, "{}", json.stderr);
    let document = json.json();
    assert_eq!(document["kind"], "CommitLogRecordList");
    assert_eq!(document["apiVersion"], "rmq/v1");
    let items = document["items"].as_array().unwrap();
    assert_eq!(items.len(), records.len());
    for (item, expected) in items.iter().zip(records) {
        assert_eq!(item["offset"], expected["offset"]);
        if expected["blank"] == true {
            assert_eq!(item["kind"], "filler");
            continue;
        }
        assert_eq!(item["size"], expected["size"]);
        assert_eq!(item["offset_id"], expected["offsetMsgId"]);
        assert_eq!(item["properties"], expected["properties"]);
        assert_eq!(item["stored_at_ms"], expected["storeTimestamp"]);
        assert_eq!(
            item["hex"].as_str().unwrap().len() as i64,
            2 * expected["size"].as_i64().unwrap()
        );
        assert!(item["body"].is_string());
    }
    let summary = &document["summary"];
    assert_eq!(summary["records"], 1213);
    assert_eq!(summary["damaged_places"], 0);
    assert_eq!(summary["end_of_log"], basic.expect["afterLoad"]["maxPhyOffset"]);

    let jsonl = basic.run("commitlog", &["-o", "jsonl"]);
    assert_eq!(jsonl.lines().len(), records.len());
    let csv = basic.run(
        "commitlog",
        &["-o", "csv", "--columns", "offset,topic", "--limit", "2"],
    );
    assert_eq!(csv.stdout, "offset,topic\n0,g_basic_a\n329,g_basic_a\n");
    let names = basic.run("commitlog", &["-o", "name", "--limit", "2", "--from", "329"]);
    assert_eq!(names.stdout, "329\n651\n");
    let table = basic.run("commitlog", &["--limit", "1000"]);
    assert_eq!(table.stdout.lines().count(), 1001, "one heading for all batches");
    assert!(table.stderr.contains("more with --from"), "{}", table.stderr);
    let hex = basic.run("commitlog", &["--limit", "1", "--hex"]).stdout;
    for part in [
        "record at 0, 329 bytes",
        "da a3 20 a7",
        "magicCode",
        "queueOffset 0",
        "property TAGS=TagA",
    ] {
        assert!(hex.contains(part), "{part} is missing in\n{hex}");
    }
}

#[test]
fn records_are_chosen_by_place_time_topic_queue_tag_and_key() {
    let basic = Fixture::new("basic");
    let records = basic.expect["records"].as_array().unwrap();
    let count =
        |holds: &dyn Fn(&Value) -> bool| records.iter().filter(|r| r["blank"] != true && holds(r)).count();
    let rows = |args: &[&str]| {
        let args = [&["-o", "jsonl"], args].concat();
        let ran = basic.run("commitlog", &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        ran.lines()
            .into_iter()
            .filter(|row| row["kind"] == "record")
            .count()
    };
    assert_eq!(rows(&["--topic", "g_basic_a", "--queue", "2"]), 225);
    assert_eq!(
        rows(&["--tag", "BB"]),
        count(&|r| r["properties"]["TAGS"] == "BB"),
        "a tag with the same hash is another tag"
    );
    assert_eq!(rows(&["--key", "shared0"]), 30);
    let middle = records[600]["storeTimestamp"].as_i64().unwrap();
    let at = format!("@{middle}");
    assert_eq!(
        rows(&["--from", &at]),
        count(&|r| r["storeTimestamp"].as_i64().unwrap() >= middle)
    );
    assert_eq!(
        rows(&["--to", &at]),
        count(&|r| r["storeTimestamp"].as_i64().unwrap() <= middle)
    );
    let (from, to) = (&records[10]["offset"], &records[20]["offset"]);
    assert_eq!(rows(&["--from", &from.to_string(), "--to", &to.to_string()]), 10);

    let one = basic.run("commitlog", &["--at", "400", "-o", "json"]);
    assert_eq!(one.json()["items"][0]["offset"], 329);
    let beyond = basic.run("commitlog", &["--at", "4000000"]);
    assert_eq!(beyond.code, 4);
    assert!(beyond.stderr.contains("3572527"), "{}", beyond.stderr);
    assert_eq!(basic.run("commitlog", &["--at", "99999999"]).code, 4);
    assert_eq!(basic.run("commitlog", &["--from", "yesterday"]).code, 2);
}

/// mxsm/rocketmq-rust#6626: a dump stopped silently at the first bad record.
#[test]
fn k52_damage_is_a_row_and_the_records_behind_it_follow() {
    for name in ["torn-flip", "torn-flip-early", "torn-tail", "torn-head"] {
        let store = Fixture::new(name);
        let ran = store.run("commitlog", &["-o", "json"]);
        assert_eq!(ran.code, 11, "{name}: {}", ran.stderr);
        let document = ran.json();
        let items = document["items"].as_array().unwrap();
        let damage: Vec<_> = items.iter().filter(|item| item["kind"] == "damage").collect();
        assert_eq!(damage.len(), 1, "{name}");
        assert_eq!(damage[0]["offset"], store.expect["damagedRecordOffset"], "{name}");
        assert!(damage[0]["size"].as_u64().unwrap() > 0);
        assert!(damage[0]["note"].as_str().unwrap().starts_with("damaged: "));
        assert_eq!(
            items.iter().filter(|item| item["kind"] == "record").count(),
            1220,
            "{name}"
        );
        assert_eq!(document["summary"]["damaged_places"], 1);
        assert!(
            ran.stderr
                .contains(&store.expect["damagedRecordOffset"].to_string())
        );
        let at = store.expect["damagedRecordOffset"].to_string();
        assert_eq!(store.run("commitlog", &["--at", &at]).code, 11);
        assert_eq!(store.run("commitlog", &["--at", "0"]).code, 0);
    }
}

#[test]
fn queues_are_compared_with_the_log() {
    let basic = Fixture::new("basic");
    let ran = basic.run("consumequeue", &["g_basic_a", "-o", "json"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let document = ran.json();
    assert_eq!(document["summary"]["agree"], 900);
    let units = basic.expect["afterStart"]["queues"]["g_basic_a@1"]["units_q_phy_size_tags"]
        .as_array()
        .unwrap();
    let items: Vec<_> = document["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|i| i["queue_id"] == 1)
        .collect();
    assert_eq!(items.len(), units.len());
    for (item, unit) in items.iter().zip(units) {
        assert_eq!(
            [
                &item["queue_offset"],
                &item["offset"],
                &item["size"],
                &item["tags_code"]
            ],
            [&unit[0], &unit[1], &unit[2], &unit[3]]
        );
        assert_eq!(item["check"], "ok");
    }
    let part = basic.run(
        "cq",
        &[
            "g_basic_a",
            "3",
            "--from",
            "220",
            "--limit",
            "2",
            "-o",
            "name",
            "--columns",
            "queue_offset",
        ],
    );
    assert_eq!(part.stdout, "220\n221\n");
    // The store times of queue 0, as Java read them; between two, at one, before all, behind all.
    let records = basic.expect["records"].as_array().unwrap().iter();
    let times: Vec<i64> = records
        .filter(|r| r["topic"] == "g_basic_a" && r["queueId"] == 0)
        .map(|r| r["storeTimestamp"].as_i64().unwrap())
        .collect();
    for from in [times[0] - 5, times[7], times[7] + 1, times[224], times[224] + 1] {
        let args = ["g_basic_a", "0", "--from", &format!("@{from}"), "-o", "json"];
        let items = basic.run("cq", &args).json()["items"].as_array().unwrap().len();
        assert_eq!(
            items,
            times.iter().filter(|time| **time >= from).count(),
            "{from}"
        );
    }
    let unknown = basic.run("consumequeue", &["g_basic"]);
    assert_eq!(unknown.code, 4);
    assert!(unknown.stderr.contains("g_basic_a"), "{}", unknown.stderr);

    let beyond = Fixture::new("dirty-cq-beyond");
    let ran = beyond.run("consumequeue", &["g_d2", "--bad", "-o", "json"]);
    assert_eq!(ran.code, 11);
    assert_eq!(ran.json()["summary"]["disagree"], 30);
}

#[test]
fn the_index_is_shown_as_files_as_chains_and_as_a_walk() {
    let basic = Fixture::new("basic");
    let files = basic.run("index", &["-o", "json"]).json();
    let expected = basic.expect["indexFilesBeforeLoad"].as_array().unwrap();
    for (item, file) in files["items"].as_array().unwrap().iter().zip(expected) {
        assert_eq!(item["file"], file["name"]);
        assert_eq!(
            item["items"].as_i64().unwrap() + 1,
            file["indexCount"].as_i64().unwrap()
        );
        assert_eq!(item["used_slots"], file["hashSlotCount"]);
        assert_eq!((&item["slots"], &item["room"]), (&200.into(), &599.into()));
    }
    let name = expected[0]["name"].as_str().unwrap();
    let chains = basic.run("index", &[name, "-o", "json"]).json();
    let chains = &chains["items"][0];
    assert_eq!(chains["broken_links"], Value::Array(Vec::new()));
    let items: i64 = chains["chain_lengths"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| l["chains"].as_i64().unwrap())
        .sum();
    assert_eq!(Value::from(items), expected[0]["hashSlotCount"]);

    let walk = basic
        .run("index", &["--key", "g_basic_b", "kAaAa", "-o", "json"])
        .json();
    let query = basic.expect["indexQueries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|q| q["key"] == "kAaAa")
        .unwrap();
    assert_eq!(walk["summary"]["hash"], query["keyHash"]);
    let verdicts = |kind: &str| {
        walk["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|i| i["verdict"] == kind)
            .count()
    };
    assert_eq!(walk["summary"]["hits"], verdicts("hit"));
    assert!(verdicts("hit") > 0 && verdicts("collision") > 0);
    let none = basic.run("index", &["--key", "g_basic_b", "nothing"]);
    assert_eq!(none.code, 4);
    assert_eq!(basic.run("index", &["20000101000000000"]).code, 4);
}

#[test]
fn records_are_found_and_the_way_is_told() {
    let basic = Fixture::new("basic");
    let found = basic.run("find", &["--key", "shared0", "-o", "json"]).json();
    assert_eq!(found["summary"]["records"], 30);
    assert!(
        found["summary"]["searched"]
            .as_str()
            .unwrap()
            .contains("of the index")
    );
    let scanned = basic
        .run("find", &["--key", "shared0", "--scan", "-o", "json"])
        .json();
    assert_eq!(scanned["items"], found["items"]);
    let first = &basic.expect["records"][0];
    let by_id = basic.run(
        "find",
        &[
            "--id",
            first["offsetMsgId"].as_str().unwrap(),
            "-o",
            "jsonl",
            "--body",
        ],
    );
    let body = by_id.lines()[0]["body"].as_str().unwrap().to_owned();
    let by_body = basic.run("find", &["--body-contains", &body, "-o", "name"]);
    assert!(
        by_body.stdout.lines().any(|line| line == "0"),
        "{}",
        by_body.stdout
    );
    // Compressed bodies are searched as they were sent.
    let compressed = basic
        .run("commitlog", &["--topic", "g_comp", "-o", "jsonl", "--body"])
        .lines();
    assert_eq!(compressed.len(), 9);
    for row in &compressed {
        let sent = row["body_size"].as_u64().unwrap();
        assert!(sent > row["stored_body_size"].as_u64().unwrap(), "{row}");
        assert_eq!(row["body"].as_str().unwrap().len() as u64, sent);
    }
    let start: String = compressed[0]["body"].as_str().unwrap().chars().take(40).collect();
    let hits = basic.run(
        "find",
        &["--topic", "g_comp", "--body-contains", &start, "-o", "name"],
    );
    assert!(hits.stdout.contains(&compressed[0]["offset"].to_string()));
    let none = basic.run("find", &["--body-regex", "no{3}such[0-9]"]);
    assert_eq!((none.code, basic.run("find", &[]).code), (4, 2));
    assert_eq!(basic.run("find", &["--body-regex", "("]).code, 2);
}

#[test]
fn verify_ends_with_the_code_of_its_worst_finding() {
    for (name, code) in [
        ("basic", 0),
        ("crashed", 10),
        ("torn-flip", 11),
        ("dirty-cq-tail", 11),
    ] {
        let store = Fixture::new(name);
        let ran = store.run("verify", &["-o", "json"]);
        assert_eq!(ran.code, code, "{name}: {}", ran.stderr);
        let document = ran.json();
        let severities: Vec<_> = document["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|i| &i["severity"])
            .collect();
        assert_eq!(severities.is_empty(), code == 0, "{name}");
        assert_eq!(severities.iter().any(|s| **s == "error"), code == 11, "{name}");
    }
    assert_eq!(Fixture::new("torn-tail").run("verify", &["--quick"]).code, 11);
}

#[test]
fn info_and_the_small_files_are_shown() {
    let crashed = Fixture::new("crashed");
    let info = crashed.run("info", &["-o", "json"]).json();
    let info = &info["items"][0];
    assert_eq!(info["log_end"], 2_474_904);
    assert_eq!(info["broker"], "not running");
    assert!(info["last_stop"].as_str().unwrap().starts_with("not clean"));
    assert_eq!(info["recovery_from"], 1_048_576);
    assert_eq!(info["segments"].as_array().unwrap().len(), 4);
    assert_eq!(info["queues"].as_array().unwrap().len(), 4);
    let checkpoint = crashed.run("checkpoint", &["-o", "json"]).json();
    assert_eq!(
        checkpoint["items"][0]["log_flushed_to_ms"],
        crashed.expect["checkpointBeforeLoad"]["physicMsgTimestamp"]
    );
    let tables = crashed.run("config", &["-o", "json"]);
    assert_eq!(tables.code, 0);
    assert!(
        tables.json()["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|t| t["state"] == "good")
    );
    let topics: Value = serde_json::from_str(&crashed.run("config", &["topics"]).stdout).unwrap();
    assert!(topics["topicConfigTable"]["g_crash"].is_object());
}

#[test]
fn a_broken_table_is_a_warning_while_its_backup_is_good() {
    let mut crashed = Fixture::new("crashed");
    let topics = crashed.root.join("config/topics.json");
    std::fs::write(&topics, b"{\"topicConfigTable\":{").unwrap();
    crashed.before = hashes(&crashed.root);
    assert_eq!(crashed.run("config", &[]).code, 10);
    std::fs::write(crashed.root.join("config/topics.json.bak"), b"").unwrap();
    crashed.before = hashes(&crashed.root);
    let ran = crashed.run("config", &[]);
    assert_eq!(ran.code, 11);
    assert!(ran.stderr.contains("topics.json"), "{}", ran.stderr);
}

#[test]
fn a_closed_pipe_is_a_normal_end() {
    let basic = Fixture::new("basic");
    let mut child = command()
        .args(["store", "commitlog"])
        .arg(&basic.root)
        .args(["-o", "jsonl", "--body", "--hex"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    assert!(line.starts_with('{'));
}

#[test]
fn what_is_no_store_is_said_with_the_next_step() {
    let basic = Fixture::new("basic");
    let run = |dir: &Path| Ran::of(command().args(["store", "info"]).arg(dir).output().unwrap());
    let ran = run(&basic.root.join("commitlog"));
    assert_eq!(ran.code, 4);
    assert!(
        ran.stderr
            .contains(&format!("rmq store info {}", basic.root.display())),
        "{}",
        ran.stderr
    );
    assert_eq!(run(Path::new("/nonexistent")).code, 4);
    // A commit log that lies elsewhere.
    let elsewhere = scratch();
    let moved = elsewhere.path().join("log");
    std::fs::rename(basic.root.join("commitlog"), &moved).unwrap();
    let missing = Ran::of(
        command()
            .args(["store", "commitlog"])
            .arg(&basic.root)
            .output()
            .unwrap(),
    );
    assert_eq!(missing.code, 4);
    assert!(missing.stderr.contains("--commitlog-dir"), "{}", missing.stderr);
    let found = command()
        .args(["store", "commitlog", "-o", "name"])
        .arg(&basic.root)
        .arg("--commitlog-dir")
        .arg(&moved)
        .output()
        .unwrap();
    assert_eq!(Ran::of(found).stdout.lines().count(), 1216);
}

#[test]
fn a_running_broker_is_named_and_not_disturbed() {
    let dir = scratch();
    let store = MessageStore::open(StoreConfig {
        store_path_root_dir: dir.path().to_owned(),
        mapped_file_size_commit_log: 1 << 20,
        mapped_file_size_consume_queue: 4000,
        max_hash_slot_num: 200,
        max_index_num: 600,
        ..StoreConfig::default()
    })
    .unwrap();
    for n in 0..50 {
        store
            .append(&crate::store_life::message("live", n % 2, "body", ""))
            .unwrap();
    }
    crate::store_life::settled(&store);
    let run = |args: &[&str]| {
        Ran::of(
            command()
                .arg("store")
                .args(args)
                .arg(dir.path())
                .output()
                .unwrap(),
        )
    };
    let info = run(&["info", "-o", "json"]);
    assert_eq!(info.code, 0, "{}", info.stderr);
    let broker = info.json()["items"][0]["broker"].as_str().unwrap().to_owned();
    assert!(
        broker.contains(&format!("process {}", std::process::id())),
        "{broker}"
    );
    let log = run(&["commitlog", "-o", "json"]);
    assert_eq!(log.code, 0, "{}", log.stderr);
    assert_eq!(log.json()["summary"]["records"], 50);
    let verify = run(&["verify", "-o", "json"]);
    assert_eq!(verify.code, 0, "{} {}", verify.stdout, verify.stderr);
    assert!(
        verify.stderr.contains("runs a broker on this store"),
        "{}",
        verify.stderr
    );
    // The lock is still held.
    assert!(MessageStore::open(store.config().as_ref().clone()).is_err());
    store.close().unwrap();
    drop(store);
    let info = run(&["info", "-o", "json"]).json();
    assert_eq!(info["items"][0]["broker"], "not running");
    assert_eq!(run(&["verify"]).code, 0);
}
