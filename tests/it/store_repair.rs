//! `rmq store repair`: what a plan mends, that it can be taken back, and what it refuses.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmq::store::MessageStore;
use serde_json::Value;

use crate::inspect::hashes;
use crate::inspect_cli::{Golden, Ran, golden_config};
use crate::support::{golden_expectation, scratch};

/// A golden store that is to be repaired.
struct Patient(Golden);

impl Deref for Patient {
    type Target = Golden;

    fn deref(&self) -> &Golden {
        &self.0
    }
}

impl Patient {
    fn new(name: &str) -> Self {
        Self(Golden::without_wheel(name))
    }

    fn plan_file(&self) -> String {
        self.dir.path().join("plan.json").to_string_lossy().into_owned()
    }

    /// Names of the steps of a fresh plan.
    fn plan(&self, more: &[&str]) -> Vec<String> {
        let file = self.plan_file();
        let _ = std::fs::remove_file(&file);
        let before = hashes(&self.root);
        let ran = self.run(
            "repair",
            &[&["--plan", file.as_str(), "-o", "json"][..], more].concat(),
        );
        assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
        assert_eq!(hashes(&self.root), before, "a plan changes nothing");
        let plan: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        plan["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step["step"].as_str().unwrap().to_owned())
            .collect()
    }

    fn apply(&self) -> Ran {
        self.run("repair", &["--apply", &self.plan_file(), "--yes"])
    }

    /// The directory that the repair left.
    fn kept(&self) -> PathBuf {
        std::fs::read_dir(&self.root)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("repair-"))
            .expect("something was kept")
    }

    /// All files but those that a repair keeps.
    fn files(&self) -> BTreeMap<PathBuf, (u64, u32)> {
        let mut files = hashes(&self.root);
        files.retain(|path, _| {
            let path = path.strip_prefix(&self.root).unwrap();
            !path.starts_with("lock") && !path.to_string_lossy().starts_with("repair-")
        });
        files
    }
}

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

/// Waits until queues and index have caught up with the log.
fn settled(store: &Arc<MessageStore>) {
    let until = Instant::now() + Duration::from_secs(10);
    while store.figures().dispatch_behind_bytes > 0 {
        assert!(Instant::now() < until, "dispatch does not catch up");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Every message of a queue that a broker serves.
fn served(store: &MessageStore, topic: &str, queue_id: i32) -> usize {
    let (mut offset, mut messages) = (store.min_offset(topic, queue_id), 0);
    while offset < store.max_offset(topic, queue_id) {
        let got = store.get(topic, queue_id, offset, 32, 64 << 20, &|_| true);
        assert!(
            got.next_offset > offset,
            "{topic}@{queue_id} at {offset}: {:?}",
            got.status
        );
        messages += got.records.len();
        offset = got.next_offset;
    }
    messages
}

/// Plans, applies, verifies, lets a broker run on a copy, takes it back, and compares.
fn mend(name: &str, steps: &[&str], more: &[&str]) -> (Patient, i64) {
    let patient = Patient::new(name);
    let before = patient.files();
    let plan = patient.plan(more);
    // Queues and index are made again only where something points beyond the new end.
    let rebuilds = |step: &&String| step.starts_with("rebuild-");
    let others: Vec<&String> = plan.iter().filter(|step| !rebuilds(step)).collect();
    assert_eq!(others, steps, "{name}: {plan:?}");
    let ran = patient.apply();
    assert_eq!(ran.code, 0, "{name}: {}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("undo: rmq store repair"), "{}", ran.stdout);
    let verified = patient.run("verify", &[]);
    assert_eq!(verified.code, 0, "{name}: {}{}", verified.stdout, verified.stderr);
    assert_eq!(
        patient.plan(&[]),
        Vec::<String>::new(),
        "{name}: nothing is left to mend"
    );

    let copy = scratch();
    copy_dir(&patient.root, copy.path());
    let store = MessageStore::open(golden_config(copy.path())).unwrap();
    settled(&store);
    let end = store.figures().max_offset;
    drop(store);

    let kept = patient.kept();
    let undone = patient.run("repair", &["--undo", kept.to_str().unwrap(), "--yes"]);
    assert_eq!(undone.code, 0, "{name}: {}", undone.stderr);
    assert_eq!(patient.files(), before, "{name}: as it was");
    let again = patient.run("repair", &["--undo", kept.to_str().unwrap(), "--yes"]);
    assert_eq!(again.code, 4, "{}", again.stderr);
    (patient, end)
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            std::fs::create_dir_all(&to).unwrap();
            copy_dir(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn a_torn_tail_is_cut_behind_the_last_good_record() {
    for name in ["torn-tail", "torn-head"] {
        let steps = ["cut-log", "write-checkpoint", "remove-abort"];
        let (patient, end) = mend(name, &steps, &[]);
        // Where Java's recovery ends the log.
        assert_eq!(end, int(&patient.expect["afterStart"]["maxPhyOffset"]), "{name}");
    }
}

#[test]
fn damage_in_the_middle_costs_no_good_record_unless_asked() {
    let flipped = Patient::new("torn-flip");
    // The same store before one bit was flipped.
    let whole = golden_expectation("crashed");
    let records = whole["records"].as_array().unwrap();
    let all = records
        .iter()
        .filter(|record| record["topic"] == "g_crash")
        .count();
    let steps = flipped.plan(&[]);
    assert!(!steps.iter().any(|step| step == "cut-log"), "{steps:?}");
    assert!(steps.iter().any(|step| step == "rebuild-queues"), "{steps:?}");
    let ran = flipped.apply();
    // The damaged record itself stays, and is told.
    assert_eq!(ran.code, 11, "{}", ran.stderr);
    // Nothing else is wrong: its place in the queue is blank, and the queue does not begin behind it.
    let told = flipped.run("verify", &["-o", "json"]);
    let told: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    let errors: Vec<_> = told["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|i| i["severity"] == "error")
        .collect();
    assert_eq!(errors.len(), 1, "{told:#}");
    assert_eq!(errors[0]["code"], "damaged-record");
    let meaning = errors[0]["meaning"].as_str().unwrap();
    assert!(meaning.starts_with("rmq begins behind it"), "{meaning}");
    let store = MessageStore::open(flipped.config()).unwrap();
    settled(&store);
    // Java's own recovery keeps 1109 of them.
    let messages: usize = (0..3).map(|queue_id| served(&store, "g_crash", queue_id)).sum();
    assert_eq!(messages, all - 1);
    drop(store);
    // A broker has run on it since.
    let undone = flipped.run("repair", &["--undo", flipped.kept().to_str().unwrap(), "--yes"]);
    assert_eq!(undone.code, 9, "{}", undone.stderr);

    let cut = ["cut-log", "write-checkpoint", "remove-abort"];
    let (patient, end) = mend("torn-flip", &cut, &["--cut-at-first-damage"]);
    assert_eq!(end, int(&patient.expect["afterStart"]["maxPhyOffset"]));
}

#[test]
fn missing_and_short_queues_are_made_from_the_log() {
    // Not dirty-cq-all: with every queue file gone nothing tells their size, and the default one is taken.
    for name in ["dirty-cq-one", "dirty-cq-tail"] {
        let patient = Patient::new(name);
        let steps = patient.plan(&[]);
        assert_eq!(steps[0], "rebuild-queues", "{name}");
        assert_eq!(patient.apply().code, 0, "{name}");
        let store = MessageStore::open(patient.config()).unwrap();
        settled(&store);
        // After an unclean stop Java rebuilds them, too.
        let expect = golden_expectation("dirty-cq-one-abort");
        for (queue, numbers) in expect["afterStart"]["queues"].as_object().unwrap() {
            let (topic, id) = queue.rsplit_once('@').unwrap();
            let id = id.parse().unwrap();
            assert_eq!(
                store.max_offset(topic, id),
                int(&numbers["maxOffset"]),
                "{name} {queue}"
            );
            assert_eq!(
                served(&store, topic, id) as i64,
                int(&numbers["maxOffset"]),
                "{name} {queue}"
            );
        }
    }
    let (patient, _) = mend("dirty-cq-one", &["write-checkpoint"], &[]);
    drop(patient);
}

#[test]
fn a_table_comes_from_its_backup_and_a_short_segment_gets_its_length() {
    let patient = Patient::new("basic");
    let topics = patient.root.join("config/topics.json");
    let good = std::fs::read(&topics).unwrap();
    std::fs::write(patient.root.join("config/topics.json.bak"), &good).unwrap();
    std::fs::write(&topics, b"{\"topicConfigTable\":").unwrap();
    let last = patient.root.join("commitlog/00000000000003145728");
    let len = std::fs::metadata(&last).unwrap().len();
    let handle = std::fs::File::options().write(true).open(&last).unwrap();
    handle.set_len(len - 4096).unwrap();
    let before = patient.files();
    let steps = patient.plan(&[]);
    assert!(steps.contains(&"extend-segment".to_owned()), "{steps:?}");
    assert!(steps.contains(&"restore-table".to_owned()), "{steps:?}");
    let ran = patient.apply();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(std::fs::read(&topics).unwrap(), good);
    assert_eq!(std::fs::metadata(&last).unwrap().len(), len);
    let kept = patient.kept();
    let name = kept.file_name().unwrap().to_str().unwrap();
    let undone = patient.run("repair", &["--undo", name, "--yes"]);
    assert_eq!(undone.code, 0, "{}", undone.stderr);
    assert_eq!(patient.files(), before);
}

#[test]
fn a_repair_refuses_a_live_store_an_old_plan_and_nobody_to_ask() {
    let patient = Patient::new("dirty-cq-one");
    patient.plan(&[]);
    let before = patient.files();
    let unasked = patient.run("repair", &["--apply", &patient.plan_file()]);
    assert_eq!(unasked.code, 13, "{}", unasked.stderr);
    assert!(unasked.stderr.contains("rebuild-queues"), "{}", unasked.stderr);
    let dry = patient.run("repair", &["--apply", &patient.plan_file(), "--dry-run"]);
    assert_eq!(dry.code, 0, "{}", dry.stderr);
    assert_eq!(patient.files(), before);
    let again = patient.run("repair", &["--plan", &patient.plan_file()]);
    assert_eq!(again.code, 9, "a plan is not written over: {}", again.stderr);
    for inside in [
        patient.root.join("plan.json"),
        patient.root.join("config/../config/plan.json"),
    ] {
        let ran = patient.run("repair", &["--plan", inside.to_str().unwrap()]);
        assert_eq!(ran.code, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("lies in the store"), "{}", ran.stderr);
        assert!(!inside.exists());
    }

    let store = MessageStore::open(patient.config()).unwrap();
    for how in ["--apply", "--plan", "--undo"] {
        let ran = patient.run("repair", &[how, &patient.plan_file(), "--yes"]);
        assert_eq!(ran.code, 9, "{how}: {}", ran.stderr);
        assert!(ran.stderr.contains("runs a broker"), "{how}: {}", ran.stderr);
    }
    store.close().unwrap();
    drop(store);
    // The broker's start changed it.
    let old = patient.apply();
    assert_eq!(old.code, 9, "{}", old.stderr);
    let bad = patient.dir.path().join("bad.json");
    std::fs::write(&bad, b"{}").unwrap();
    let ran = patient.run("repair", &["--apply", bad.to_str().unwrap(), "--yes"]);
    assert_eq!(ran.code, 2, "{}", ran.stderr);
}

#[test]
fn a_clean_store_needs_nothing() {
    for name in ["basic", "delay-tx", "features", "ipv6", "crcprop"] {
        let patient = Patient::new(name);
        assert_eq!(patient.plan(&[]), Vec::<String>::new(), "{name}");
    }
}

/// Java's recovery forgets such a queue, and gives its offsets a second time.
#[test]
fn a_queue_of_which_the_log_has_nothing_keeps_its_number_and_is_mended_once() {
    let patient = Patient::new("dirty-cq-beyond");
    let steps = patient.plan(&[]);
    assert!(steps.contains(&"rebuild-queues".to_owned()), "{steps:?}");
    let ran = patient.apply();
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    // Two queues of 199 records each are left, as in Java; the third had 30.
    assert!(
        ran.stdout
            .contains("2 queues with 398 entries, 1 without any that keep their numbers"),
        "{}",
        ran.stdout
    );
    assert_eq!(patient.plan(&[]), Vec::<String>::new(), "nothing is left to mend");
    let store = MessageStore::open(patient.config()).unwrap();
    settled(&store);
    let ends = |topic, id| {
        (
            store.min_offset(topic, id),
            store.max_offset(topic, id),
            store.next_offset(topic, id),
        )
    };
    assert_eq!(ends("g_d2", 0), (30, 30, 30));
    assert_eq!(ends("g_d1", 0), (0, 199, 199));
    assert_eq!(ends("g_d1", 1), (0, 199, 199));
}
