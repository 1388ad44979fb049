//! `rmq store` as an operator uses it on a damaged, a busy or a special store.
#![allow(clippy::unwrap_used)]

use std::io::Read as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rmq::store::MessageStore;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::inspect::hashes;
use crate::inspect_cli::{Golden, command};

fn int(value: &Value) -> i64 {
    value.as_i64().unwrap()
}

/// Overwrites bytes of a file.
fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

#[test]
fn k17_a_record_with_its_end_zeroed_is_damage_and_says_which_check_failed() {
    let shelf = Golden::new("crcprop");
    let last = shelf.records().next_back().unwrap().clone();
    let (offset, size) = (int(&last["offset"]) as u64, int(&last["size"]) as u64);
    let file = shelf.root.join("commitlog/00000000000000000000");
    let good = std::fs::read(&file).unwrap();
    let basic = Golden::new("basic");
    let plain = basic.records().next_back().unwrap().clone();
    let (plain_offset, plain_size) = (int(&plain["offset"]) as u64, int(&plain["size"]) as u64);
    let plain_base = plain_offset - plain_offset % (1024 * 1024);
    let plain_file = basic.root.join(format!("commitlog/{plain_base:020}"));
    for zeroed in [1u64, 2, 19, 20, 21, 40, 77, 120, 200] {
        for (shelf, file, at, size) in [
            (&shelf, &file, offset, size),
            (&basic, &plain_file, plain_offset, plain_size),
        ] {
            let zeroed = zeroed.min(size);
            let base = at - at % (1024 * 1024);
            let before = std::fs::read(file).unwrap();
            write_at(file, at - base + size - zeroed, &vec![0; zeroed as usize]);
            let verified = shelf.run("verify", &["-o", "json"]);
            assert_eq!(verified.code, 11, "{zeroed}: {}", verified.stderr);
            let findings = verified.json();
            let found = findings["items"]
                .as_array()
                .unwrap()
                .iter()
                .find(|item| item["subject"] == "commit log" && item["severity"] == "error")
                .unwrap_or_else(|| panic!("{zeroed}: {findings}"));
            assert_eq!(found["offset"], at, "{zeroed}");
            assert!(!found["what"].as_str().unwrap().is_empty());
            write_at(file, 0, &before);
        }
    }
    assert_eq!(std::fs::read(&file).unwrap(), good);
}

#[test]
fn k30_every_look_beside_a_running_broker_leaves_its_lock_alone() {
    let shelf = Golden::new("basic");
    let config = shelf.config();
    let store = MessageStore::open(config.clone()).unwrap();
    let names = |root: &Path| hashes(root).into_keys().collect::<Vec<_>>();
    let before = names(&shelf.root);
    let out = shelf.dir.path().join("out.jsonl");
    let looks: [(&str, Vec<&str>); 11] = [
        ("info", vec![]),
        ("commitlog", vec!["--limit", "5"]),
        ("consumequeue", vec!["g_basic_a", "0"]),
        ("index", vec!["--key", "g_basic_a", "k0"]),
        ("checkpoint", vec![]),
        ("config", vec![]),
        ("timer", vec![]),
        ("find", vec!["--body-contains", "a0-3"]),
        ("verify", vec!["--quick"]),
        ("stats", vec![]),
        ("export", vec!["--out", out.to_str().unwrap()]),
    ];
    for (verb, args) in looks {
        let ran = shelf.run(verb, &args);
        // The mark of a broker that has not stopped yet is something to know.
        let code = if verb == "verify" { 10 } else { 0 };
        assert_eq!(ran.code, code, "{verb}: {}{}", ran.stdout, ran.stderr);
        assert!(
            MessageStore::open(config.clone()).is_err(),
            "{verb} gave up the lock"
        );
    }
    assert_eq!(names(&shelf.root), before);
    drop(store);
}

#[test]
fn ctrl_c_ends_with_130() {
    let shelf = Golden::new("crashed");
    let mut child = command()
        .args(["store", "commitlog"])
        .arg(&shelf.root)
        .args(["-o", "jsonl", "--body", "--hex"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The pipe is full long before the end, so it waits in the middle of the log.
    let mut stdout = child.stdout.take().unwrap();
    let mut some = [0; 1000];
    stdout.read_exact(&mut some).unwrap();
    let pid = Pid::from_raw(child.id() as i32).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "it does not end");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(130));
}

/// What was found until then is printed, as a whole document.
#[test]
fn ctrl_c_ends_a_verification_with_what_it_has() {
    let shelf = Golden::new("crashed");
    let mut child = command()
        .args(["store", "verify", "--throttle", "1", "-o", "json", "--state"])
        .arg(shelf.dir.path().join("state"))
        .arg(&shelf.root)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The crash marker is told first; the log takes two seconds and a half.
    let mut stdout = child.stdout.take().unwrap();
    let mut text = vec![0; 10];
    stdout.read_exact(&mut text).unwrap();
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    stdout.read_to_end(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let document: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(document["summary"]["complete"], false);
    assert!(!document["items"].as_array().unwrap().is_empty());
}

#[test]
fn a_scan_finds_in_the_order_of_the_log_and_says_how() {
    let shelf = Golden::new("crashed");
    let found = shelf.run("find", &["--body-regex", "^", "-o", "jsonl"]).lines();
    let offsets: Vec<i64> = found.iter().map(|record| int(&record["offset"])).collect();
    let wanted: Vec<i64> = shelf.expect["records"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|record| record["blank"] != true)
        .map(|record| int(&record["offset"]))
        .collect();
    assert_eq!(offsets, wanted);
    let one = shelf.run("find", &["--body-regex", "^", "--limit", "1"]);
    assert_eq!(one.code, 0);
    assert!(one.stderr.contains("at a time"), "{}", one.stderr);
    let none = shelf.run("find", &["--body-contains", "no body has this"]);
    assert_eq!(none.code, 4, "{}", none.stderr);
}

#[test]
fn bodies_are_saved_as_the_producer_sent_them() {
    let shelf = Golden::new("basic");
    let before = hashes(&shelf.root);
    for record in shelf.expect["records"].as_array().unwrap() {
        if record["topic"] != "g_comp" || record["sysFlag"].as_i64().unwrap() & 1 == 0 {
            continue;
        }
        let at = record["offset"].to_string();
        let file = shelf.dir.path().join(&at);
        let args = ["--at", &at, "--save-body", file.to_str().unwrap(), "-o", "json"];
        let ran = shelf.run("commitlog", &args);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let item = &ran.json()["items"][0];
        let saved = std::fs::read(&file).unwrap();
        assert_eq!(saved.len() as i64, int(&item["body_size"]));
        assert!(
            saved.len() as i64 > int(&record["storedBodyLen"]),
            "it was compressed"
        );
        // The client sent text of its own making: it is readable again.
        assert!(std::str::from_utf8(&saved).is_ok());
        assert_eq!(shelf.run("commitlog", &args).code, 9, "not written over");
    }
    let all = shelf.dir.path().join("bodies");
    let ran = shelf.run(
        "commitlog",
        &["--topic", "g_uni", "--save-body", all.to_str().unwrap()],
    );
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let count = std::fs::read_dir(&all).unwrap().count();
    let wanted = shelf.expect["records"].as_array().unwrap();
    assert_eq!(
        count,
        wanted.iter().filter(|record| record["topic"] == "g_uni").count()
    );
    let inside = shelf.root.join("body");
    let ran = shelf.run(
        "commitlog",
        &["--at", "0", "--save-body", inside.to_str().unwrap()],
    );
    assert_eq!(ran.code, 2, "{}", ran.stderr);
    assert_eq!(hashes(&shelf.root), before);
}

#[test]
fn messages_of_a_batch_and_the_whole_checksum_are_spelled_out() {
    let shelf = Golden::new("features");
    let batch = shelf
        .records()
        .rfind(|record| record["properties"]["INNER_NUM"] == "3")
        .unwrap()
        .clone();
    let at = batch["offset"].to_string();
    let shown = shelf.run("commitlog", &["--at", &at, "-o", "json"]).json();
    let messages = shown["items"][0]["messages"].as_array().unwrap();
    let base: i64 = batch["properties"]["INNER_BASE"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let offsets: Vec<i64> = messages.iter().map(|item| int(&item["queue_offset"])).collect();
    assert_eq!(offsets, [base, base + 1, base + 2]);
    assert!(messages.iter().all(|item| int(&item["body_size"]) > 0));

    let crc = Golden::new("crcprop");
    let first = crc.expect["records"][0].clone();
    let at = first["offset"].to_string();
    let good = crc.run("commitlog", &["--at", &at, "--hex"]);
    assert!(good.stdout.contains("as the whole record"), "{}", good.stdout);
    // One letter of the topic, which the checksum of the body does not cover.
    let topic = first["topic"].as_str().unwrap();
    let stored = int(&first["storedBodyLen"]) as u64;
    write_at(
        &crc.root.join("commitlog/00000000000000000000"),
        int(&first["offset"]) as u64 + 88 + stored + topic.len() as u64,
        b"~",
    );
    let bad = crc.run("commitlog", &["--at", &at, "--hex"]);
    assert!(bad.stdout.contains("checksum of the record is"), "{}", bad.stdout);
}
