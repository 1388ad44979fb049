//! Exports of messages and offsets with a broker that does not answer, or somebody who interrupts.

use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

use rmq::protocol::Request as _;
use rmq::protocol::requests::{GetAllConsumerOffset, PullMessage};
use serde_json::Value;

use super::unanswered::tapped;
use super::{Cluster, Rmq};

const MESSAGES: usize = 12;

async fn ok(rmq: &Rmq, line: &str) {
    let ran = rmq.line(line).await;
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
}

/// A topic of two queues a broker with messages in each.
async fn filled(cluster: &Cluster) {
    let rmq = cluster.rmq();
    ok(&rmq, "topic create T --queues 2 --yes").await;
    ok(
        &rmq,
        &format!("message send --topic T --body x --count {MESSAGES}"),
    )
    .await;
}

/// Places of the messages in a file; none comes twice.
fn places(file: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut found = BTreeSet::new();
    for line in text.lines() {
        let place = match file.ends_with(".csv") {
            false => {
                let record: Value = serde_json::from_str(line).unwrap();
                format!("{}/{}/{}", record["broker"], record["queue"], record["offset"])
            }
            true if line.starts_with("stored,") => continue,
            true => line.split(',').skip(3).take(3).collect::<Vec<_>>().join("/"),
        };
        assert!(found.insert(place), "{line} twice in {file}");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_answer_is_missing_and_gone_on_with() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    filled(&cluster).await;
    ok(&cluster.rmq(), "topic create Other --queues 1 --yes").await;
    let through = through.replace("--yes ", "");
    let mute = |n: usize, code: Option<i32>| {
        wire.lies[n].lock().unwrap().mute_to = code.into_iter().collect();
    };
    for form in ["jsonl", "csv"] {
        let file = cluster.path(&format!("messages.{form}")).display().to_string();
        let line = format!("message export --topic T --out {file} --format {form} {through}");
        // Nobody answers: nothing is left that would be in the way.
        mute(0, Some(PullMessage::CODE));
        mute(1, Some(PullMessage::CODE));
        let none = rmq.line(&line).await;
        assert_eq!(none.code, 8, "{none:?}");
        assert!(!std::path::Path::new(&file).exists());

        mute(1, None);
        let part = rmq.line(&line).await;
        assert_eq!(part.code, 7, "{part:?}");
        let found = places(&file);
        assert!(
            !found.is_empty() && found.iter().all(|at| at.contains("broker-b")),
            "{found:?}"
        );
        for queue in 0..2 {
            let told = format!("queue {queue}: offsets 0 to");
            assert!(part.stderr.contains(&told), "{part:?}");
        }
        assert!(part.stderr.contains("--resume"), "{part:?}");
        mute(0, None);
        let again = rmq.line(&line).await;
        assert_eq!(again.code, 2, "a file is not overwritten: {again:?}");
        assert!(again.stderr.contains("--resume"), "{again:?}");
        // What a kill left of the last one is cut off.
        let torn = "{\"topic\":\"T\",\"broker\":\"bro";
        let mut text = std::fs::read_to_string(&file).unwrap();
        text.push_str(torn);
        std::fs::write(&file, &text).unwrap();
        ok(&rmq, &format!("{line} --resume")).await;
        assert_eq!(places(&file).len(), MESSAGES, "{form}");
        ok(&rmq, &format!("{line} --resume")).await;
        assert_eq!(places(&file).len(), MESSAGES, "nothing twice");
        let other = line.replace("--topic T", "--topic Other") + " --resume";
        let other = rmq.line(&other).await;
        assert_eq!(other.code, 9, "{other:?}");
        assert_eq!(places(&file).len(), MESSAGES, "{other:?}");
    }
    wire.stop().await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_of_the_brokers_that_answer_are_exported() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    filled(&cluster).await;
    ok(&cluster.rmq(), "group create CG --yes").await;
    ok(
        &cluster.rmq(),
        "offset set CG --topic T broker-a/0=0 broker-b/0=0 --yes",
    )
    .await;
    let file = cluster.path("offsets.json").display().to_string();
    let line = format!("offset export CG --out {file} {}", through.replace("--yes ", ""));
    wire.lies[0].lock().unwrap().mute_to = vec![GetAllConsumerOffset::CODE];
    let part = rmq.line(&line).await;
    assert_eq!(part.code, 7, "{part:?}");
    assert!(part.stderr.contains("the offsets of broker-a"), "{part:?}");
    let brokers = || -> Vec<Value> {
        let saved: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let offsets = saved["offsets"].as_array().unwrap().iter();
        offsets.map(|one| one["broker"].clone()).collect()
    };
    assert_eq!(brokers(), ["broker-b"]);
    wire.lies[0].lock().unwrap().mute_to = Vec::new();
    ok(&rmq, &line).await;
    assert_eq!(brokers(), ["broker-a", "broker-b"]);
    wire.stop().await;
    cluster.stop().await;
}

/// Ctrl-C stops at a whole message and says how to go on.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_export_is_gone_on_with() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    filled(&cluster).await;
    let file = cluster.path("messages.jsonl").display().to_string();
    let line = format!(
        "message export --topic T --out {file} {}",
        through.replace("--yes --timeout 1s", "--timeout 60s")
    );
    // It waits for the second broker when it is interrupted.
    wire.lies[1].lock().unwrap().mute_to = vec![PullMessage::CODE];
    wire.take();
    let words: Vec<&str> = line.split(' ').collect();
    let child = rmq
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pulled = 0;
    crate::flows::until("it waits", Duration::from_secs(20), async || {
        pulled += wire
            .take()
            .iter()
            .filter(|code| **code == PullMessage::CODE)
            .count();
        pulled >= 3
    })
    .await;
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = tokio::task::spawn_blocking(move || child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert!(told.contains("--resume"), "{told}");
    assert_eq!(places(&file).len(), MESSAGES / 2, "{told}");
    wire.lies[1].lock().unwrap().mute_to = Vec::new();
    ok(&rmq, &format!("{line} --resume")).await;
    assert_eq!(places(&file).len(), MESSAGES);
    wire.stop().await;
    cluster.stop().await;
}
