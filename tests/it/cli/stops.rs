//! Ctrl-C and `--deadline` in the middle of a change: what may be written is told and kept, with its undo line.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStderr, Stdio};

use rmq::protocol::Request as _;
use rmq::protocol::requests::UpdateBrokerConfig;
use rustix::process::{Pid, Signal, kill_process};

use super::unanswered::{journal, ok, tapped};
use super::{Cluster, Rmq};

const CHANGE: &str = "broker set-config broker-a fileReservedTime=47";

/// A change that a broker has taken and does not answer.
struct Hanging {
    child: Child,
    stderr: BufReader<ChildStderr>,
}

impl Hanging {
    async fn start(cluster: &Cluster, rmq: &Rmq, line: &str) -> Self {
        let hanging = Self::spawn(rmq, line);
        loop {
            let line = ["broker", "get-config", "broker-a", "fileReservedTime"];
            let rows = cluster.rmq().rows(&line).await;
            if rows[0]["value"] == "47" {
                return hanging;
            }
        }
    }

    fn spawn(rmq: &Rmq, line: &str) -> Self {
        let mut command = rmq.command(&line.split(' ').collect::<Vec<_>>());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        Self { child, stderr }
    }

    fn ctrl_c(&self) {
        kill_process(Pid::from_raw(self.child.id() as i32).unwrap(), Signal::INT).unwrap();
    }

    /// Waits for a line on stderr that has this text.
    async fn says(mut self, text: &'static str) -> Self {
        tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            while !line.contains(text) {
                line.clear();
                assert_ne!(
                    self.stderr.read_line(&mut line).unwrap(),
                    0,
                    "it did not say: {text}"
                );
            }
            self
        })
        .await
        .unwrap()
    }

    /// Exit code and stdout.
    async fn ends(mut self) -> (Option<i32>, String) {
        tokio::task::spawn_blocking(move || {
            let mut out = String::new();
            self.child
                .stdout
                .take()
                .unwrap()
                .read_to_string(&mut out)
                .unwrap();
            (self.child.wait().unwrap().code(), out)
        })
        .await
        .unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_left_keeps_its_way_back() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a"]).await;
    let slow = through.replace("--timeout 1s", "--timeout 60s");
    let undo = format!(
        "rmq broker set-config {} fileReservedTime=72",
        cluster.brokers[0].addr()
    );
    wire.lies[0].lock().unwrap().mute_to = vec![UpdateBrokerConfig::CODE];

    // Twice: it leaves at once.
    let change = Hanging::start(&cluster, &rmq, &format!("{CHANGE} {slow}")).await;
    change.ctrl_c();
    let change = change.says("Ctrl-C again leaves now").await;
    change.ctrl_c();
    let (code, out) = change.ends().await;
    assert_eq!(code, Some(130), "{out}");
    assert!(out.contains("whether it was done is not known"), "{out}");
    assert!(out.contains(&format!("undo: {undo}")), "{out}");
    let kept = journal(&rmq);
    assert_eq!(kept.len(), 1);
    assert!(kept[0]["undo"].as_str().unwrap().starts_with(&undo), "{kept:?}");
    let back = kept[0]["undo"].as_str().unwrap().to_owned();
    wire.lies[0].lock().unwrap().mute_to.clear();
    ok(&rmq, &format!("{} {through}", back.strip_prefix("rmq ").unwrap())).await;

    // Once: what was sent gets its time, and what became of it is told.
    wire.lies[0].lock().unwrap().mute_to = vec![UpdateBrokerConfig::CODE];
    let short = through.replace("--timeout 1s", "--timeout 3s");
    let change = Hanging::start(&cluster, &rmq, &format!("{CHANGE} {short}")).await;
    change.ctrl_c();
    let (code, out) = change.says("Ctrl-C again leaves now").await.ends().await;
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains(&format!("undo: {undo}")), "{out}");

    // A deadline is the same as leaving.
    wire.lies[0].lock().unwrap().mute_to.clear();
    ok(&rmq, &format!("{} {through}", back.strip_prefix("rmq ").unwrap())).await;
    wire.lies[0].lock().unwrap().mute_to = vec![UpdateBrokerConfig::CODE];
    let ran = rmq.line(&format!("{CHANGE} {slow} --deadline 1s")).await;
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.stdout.contains(&format!("undo: {undo}")), "{ran:?}");
    assert!(
        journal(&rmq).last().unwrap()["undo"]
            .as_str()
            .unwrap()
            .starts_with(&undo)
    );
    wire.stop().await;
    cluster.stop().await;
}

/// Ctrl-C that comes before a workflow listens for it is not lost: it stops at its first good place.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_hears_what_came_while_it_wrote() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    ok(&rmq, "topic create T --queues 1 --yes").await;
    wire.lies[1].lock().unwrap().mute_to = vec![UpdateBrokerConfig::CODE];
    let short = through.replace("--timeout 1s", "--timeout 3s");
    let drain = format!("broker drain broker-b --quiet-time 10m --deadline 10m {short}");
    let hanging = Hanging::spawn(&rmq, &drain);
    let permission = ["broker", "get-config", "broker-b", "brokerPermission"];
    while cluster.rmq().rows(&permission).await[0]["value"] != "4" {}
    hanging.ctrl_c();
    let (code, out) = hanging.says("Ctrl-C again leaves now").await.ends().await;
    assert_eq!(code, Some(130), "{out}");
    let last = journal(&rmq).pop().unwrap();
    assert!(
        last["undo"]
            .as_str()
            .unwrap()
            .starts_with("rmq broker undrain broker-b"),
        "{last}"
    );

    // Twice while it writes: left, and the way back is kept all the same.
    wire.lies[1].lock().unwrap().mute_to.clear();
    ok(&rmq, &format!("broker undrain broker-b {through}")).await;
    wire.lies[1].lock().unwrap().mute_to = vec![UpdateBrokerConfig::CODE];
    let hanging = Hanging::spawn(&rmq, &drain.replace("--timeout 3s", "--timeout 60s"));
    while cluster.rmq().rows(&permission).await[0]["value"] != "4" {}
    hanging.ctrl_c();
    let hanging = hanging.says("Ctrl-C again leaves now").await;
    hanging.ctrl_c();
    assert_eq!(hanging.ends().await.0, Some(130));
    let last = journal(&rmq).pop().unwrap();
    assert!(
        last["undo"]
            .as_str()
            .unwrap()
            .starts_with("rmq broker undrain broker-b"),
        "{last}"
    );
    wire.stop().await;
    cluster.stop().await;
}

/// A send is a change: a protected context wants its cluster named, and the journal has it. Ctrl-C stops between two.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_is_kept_and_guarded() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq, "topic create T --queues 1 --yes").await;
    let addr = cluster.addr.to_string();
    let before = journal(&rmq).len();
    ok(&rmq, "message send --topic T --body x --count 3").await;
    let kept = journal(&rmq);
    assert_eq!(kept.len(), before + 1);
    assert_eq!(kept[before]["action"], "send to topic T");
    assert_eq!(kept[before]["steps"][0]["after"], "3 more");
    assert_eq!(kept[before]["steps"][0]["result"], "ok");

    // What a deadline ends is told as far as it came.
    let slow = "message send --topic T --body x --rate 4 --count 100000 --deadline 1500ms";
    let ran = rmq.line(slow).await;
    assert_eq!(ran.code, 8, "{ran:?}");
    let sent = cluster.rmq().rows(&["topic", "status", "T"]).await[0]["max"]
        .as_i64()
        .unwrap()
        - 3;
    let kept = journal(&rmq);
    assert_eq!(kept.len(), before + 2);
    let result = kept[before + 1]["steps"][0]["result"].as_str().unwrap();
    assert!(
        sent > 1 && result.contains(&format!("{sent} of them were done before")),
        "{sent}: {result}"
    );
    let before = before + 1;

    for (key, value) in [("namesrv", addr.as_str()), ("protected", "true")] {
        ok(&rmq, &format!("config set prod {key} {value}")).await;
    }
    for send in [
        "message send --topic T --body x",
        "bench latency --topic T --count 1",
    ] {
        for answer in ["", " --yes", " --yes=Other"] {
            let ran = rmq.line(&format!("{send} --context prod{answer}")).await;
            assert_eq!(ran.code, 13, "{send}{answer}: {ran:?}");
        }
        ok(&rmq, &format!("{send} --context prod --yes=DefaultCluster")).await;
    }
    assert_eq!(journal(&rmq).len(), before + 3);

    let words = "message send --topic T --body x --rate 50 --count 100000 -o jsonl";
    let mut command = rmq.command(&words.split(' ').collect::<Vec<_>>());
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().unwrap();
    let status = ["topic", "status", "T"];
    while cluster.rmq().rows(&status).await[0]["max"].as_i64().unwrap() < 8 + sent {}
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let done = tokio::task::spawn_blocking(|| child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(done.status.code(), Some(130));
    let told = String::from_utf8(done.stdout).unwrap().lines().count() as i64;
    let there = cluster.rmq().rows(&status).await[0]["max"].as_i64().unwrap();
    assert_eq!(told, there - 5 - sent, "every message that was sent is told");
    assert!(
        journal(&rmq).last().unwrap()["steps"][0]["result"]
            .as_str()
            .unwrap()
            .starts_with("interrupted")
    );
    cluster.stop().await;
}
