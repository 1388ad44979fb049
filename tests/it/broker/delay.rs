//! Delay levels: never early, never lost, and not twice after a clean stop.

use std::sync::Arc;

use bytes::Bytes;
use rmq::protocol::Text;
use rmq::protocol::body::DelayOffsets;
use rmq::protocol::message::{MessageView, records};
use rmq::protocol::requests::*;

use super::support::*;

fn with_level(topic: &str, queue_id: i32, level: &str) -> SendMessageV2 {
    SendMessageV2 {
        properties: format!("DELAY\u{1}{level}\u{2}k\u{1}v\u{2}"),
        ..message(topic, queue_id)
    }
}

/// Body and store time of the first messages of a queue.
async fn stored(client: &Client, topic: &str, queue_id: i32) -> Vec<(String, i64)> {
    let answer = client.pull(pull(topic, queue_id, 0, "*")).await;
    let of = |view: MessageView<'_>| {
        (
            String::from_utf8(view.body().to_vec()).unwrap(),
            view.store_timestamp(),
        )
    };
    records(&answer.body).map(|r| of(r.unwrap())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_message_arrives_on_time_with_what_it_was_sent_with() {
    let broker = TestBroker::with(loopback(), |s| s.message_delay_level = "1s 2s".into()).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    let before = now_ms();
    let reply = client
        .ok(with_level("t", 2, "1"), Bytes::from_static(b"one"))
        .await
        .0;
    assert_eq!(
        (reply.queue_id, reply.queue_offset),
        (2, 0),
        "the asked queue, the waiting place"
    );
    // A level that there is not is the last one.
    client
        .ok(with_level("t", 2, "99"), Bytes::from_static(b"two"))
        .await;
    client
        .ok(with_level("t", 2, "-1"), Bytes::from_static(b"none"))
        .await;
    let refused = client
        .refused(with_level("t", 2, "soon"), Bytes::from_static(b"x"))
        .await;
    assert_eq!(refused, (13, "the delay level is not a number".into()));
    client.await_max("t", 2, 3).await;
    let got = stored(&client, "t", 2).await;
    let order: Vec<&str> = got.iter().map(|(body, _)| body.as_str()).collect();
    assert_eq!(order, ["none", "one", "two"]);
    assert!(
        got[1].1 >= before + 1000 && got[2].1 >= before + 2000,
        "{got:?} {before}"
    );
    assert!(got[1].1 < before + 1900, "late: {got:?} {before}");
    let answer = client.pull(pull("t", 2, 1, "*")).await;
    let record = records(&answer.body).next().unwrap().unwrap();
    let map = record.properties().to_map();
    // As on a Java broker, the copy keeps them.
    for (name, value) in [("DELAY", "1"), ("REAL_TOPIC", "t"), ("REAL_QID", "2"), ("k", "v")] {
        assert_eq!(map.get(name), Some(value), "{name}");
    }
    let dir = broker.stop().await;
    let text = std::fs::read(dir.path().join("config/delayOffset.json")).unwrap();
    let saved: DelayOffsets = rmq::protocol::json::from_slice(&text).unwrap();
    assert_eq!(saved.offset_table, [(1, 1), (2, 1)].into());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delayed_when_the_broker_stopped_is_delivered_once() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let levels = |s: &mut rmq::store::StoreConfig| s.message_delay_level = "1s 4s".into();
    let broker = TestBroker::on(dir.clone(), loopback(), levels).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for n in 0..20 {
        client
            .ok(with_level("t", 0, "1"), Bytes::from(format!("a{n}")))
            .await;
        client
            .ok(with_level("t", 0, "2"), Bytes::from(format!("b{n}")))
            .await;
    }
    client.await_max("t", 0, 20).await;
    client.disconnect();
    broker.stop().await;

    let broker = TestBroker::on(dir.clone(), loopback(), levels).await;
    let client = broker.client().await;
    client.await_max("t", 0, 40).await;
    let got = stored(&client, "t", 0).await;
    let mut bodies: Vec<&str> = got.iter().map(|(body, _)| body.as_str()).collect();
    bodies.sort_unstable();
    bodies.dedup();
    assert_eq!((got.len(), bodies.len()), (32, 32), "a pull takes 32");
    client.disconnect();
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_change_while_the_broker_runs() {
    let broker = TestBroker::with(loopback(), |s| s.message_delay_level = "1h 1s".into()).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client
        .ok(with_level("t", 0, "1"), Bytes::from_static(b"long"))
        .await;
    client.await_max("SCHEDULE_TOPIC_XXXX", 0, 1).await;
    let change = |levels: &str| Text(format!("messageDelayLevel={levels}\n"));
    for bad in ["1", "x 1s", "-1s", "9999d", ""] {
        let refused = client.refused(UpdateBrokerConfig, change(bad)).await;
        assert!(refused.1.contains("1 to 1024 times"), "{bad:?}: {refused:?}");
    }
    client.ok(UpdateBrokerConfig, change("1s")).await;
    client.await_max("t", 0, 1).await;
    // Level 2 is not there any more: the last one is 1.
    client
        .ok(with_level("t", 0, "2"), Bytes::from_static(b"short"))
        .await;
    client.await_max("t", 0, 2).await;
    broker.stop().await;
}
