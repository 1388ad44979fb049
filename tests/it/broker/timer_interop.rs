//! A store with pending messages goes from our broker to the Java broker and back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::support::*;
use super::timer::{all, body, with};
use crate::support::ports::Block;
use crate::support::{java, local, rmq as program, scratch};

/// Waits for every message to be there once, and none before its time.
async fn delivered(client: &Client, due: &BTreeMap<String, i64>) {
    let end = std::time::Instant::now() + Duration::from_secs(40);
    loop {
        let got = all(client, "t").await;
        let distinct: BTreeSet<&String> = got.iter().map(|m| &m.body).collect();
        if distinct.len() == due.len() {
            for stored in &got {
                let early = due[&stored.body] - stored.at;
                assert!(early <= 0, "{} came {early} ms early", stored.body);
            }
            assert_eq!(got.len(), due.len(), "some came twice");
            return;
        }
        assert!(
            std::time::Instant::now() < end,
            "{} of {}",
            distinct.len(),
            due.len()
        );
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn send(client: &Client, due: &mut BTreeMap<String, i64>, name: &str, value: String, at: i64) {
    let text = format!("m{}", due.len());
    client.ok(with("t", &[(name, &value)]), body(text.as_str())).await;
    due.insert(text, at);
}

#[tokio::test(flavor = "multi_thread")]
async fn pending_messages_move_between_ours_and_java() {
    let Some(peers) = java::peers("pending_messages_move_between_ours_and_java") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let _server = program::namesrv(dir.path(), ports.namesrv());
    let settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    let address = local(ports.broker());
    let mut due = BTreeMap::new();

    // Ours stops in the middle of a step, with delayed messages and ones that go round the wheel pending too.
    let mut ours = program::broker(dir.path(), &namesrv, &settings);
    let client = Client::new(&address).await;
    client.create_topic("t", 1).await;
    let begin = now_ms() / 1000 * 1000 + 1000;
    for n in 0..40 {
        let at = begin + 50 * n;
        send(&client, &mut due, "TIMER_DELIVER_MS", at.to_string(), at).await;
    }
    for n in 0..6 {
        let at = now_ms() + 12_000 + 300 * n;
        send(&client, &mut due, "TIMER_DELIVER_MS", at.to_string(), at).await;
        let now = now_ms();
        send(&client, &mut due, "DELAY", "3".into(), now + 10_000).await;
    }
    client
        .ok(with("t", &[("TIMER_DELAY_SEC", "259000")]), body("far"))
        .await;
    client.await_max("t", 0, 10).await;
    client.disconnect();
    let (status, _) = ours.process.terminate(Duration::from_secs(10));
    assert!(status.success());

    // Java delivers the rest of the step, and what is due later.
    let mut theirs = peers.broker_starting(dir.path(), &settings);
    java::in_route(&mut theirs, &namesrv, "t");
    let client = Client::new(&address).await;
    delivered(&client, &due).await;
    // It stops before these are due. On a slow machine some of the first were due when they were sent, and never waited.
    let waited = client.max("rmq_sys_wheel_timer", 0).await;
    let at = now_ms() + 20_000;
    for n in 0..6 {
        let at = at + 400 * n;
        send(&client, &mut due, "TIMER_DELIVER_MS", at.to_string(), at).await;
        let now = now_ms();
        send(&client, &mut due, "DELAY", "4".into(), now + 30_000).await;
    }
    client.await_max("rmq_sys_wheel_timer", 0, waited + 6).await;
    client.disconnect();
    let (_, _) = theirs.terminate(Duration::from_secs(40));

    let _ours = program::broker(dir.path(), &namesrv, &settings);
    let client = Client::new(&address).await;
    delivered(&client, &due).await;
    client.disconnect();
}
