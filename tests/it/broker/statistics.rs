//! Figures that operators read: the names and keys of Java's statistics (315), and what does not move them (K51).

use bytes::Bytes;
use rmq::protocol::body::{BrokerStatsData, RuntimeInfo};
use rmq::protocol::codes;
use rmq::protocol::requests::*;

use super::support::*;

async fn exists(client: &Client, name: &str, key: &str) -> bool {
    let header = ViewBrokerStatsData {
        stats_name: name.into(),
        stats_key: key.into(),
    };
    let answer = client.ask(header, ()).await;
    if answer.code == 0 {
        answer.json::<BrokerStatsData>();
        return true;
    }
    assert_eq!(
        (answer.code, answer.remark),
        (1, format!("The stats <{name}> <{key}> not exist"))
    );
    false
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_have_javas_names_and_keys() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    client.send("t", 1, "", "x").await;
    client.await_max("t", 1, 1).await;
    client.heartbeat("c", "cg", "t", "*").await;
    assert_eq!(client.pull(pull("t", 1, 0, "*")).await.code, 0);
    for (name, key) in [
        ("TOPIC_PUT_NUMS", "t"),
        ("TOPIC_PUT_SIZE", "t"),
        ("TOPIC_PUT_LATENCY", "1@t"),
        ("GROUP_GET_NUMS", "t@cg"),
        ("GROUP_GET_SIZE", "t@cg"),
        ("GROUP_GET_LATENCY", "1@t@cg"),
        ("BROKER_PUT_NUMS", "DefaultCluster"),
        ("BROKER_GET_NUMS", "DefaultCluster"),
        ("BROKER_PUT_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster"),
        ("BROKER_GET_NUMS_WITHOUT_SYSTEM_TOPIC", "DefaultCluster"),
        ("CONSUMER_REGISTER_TIME", "DefaultCluster"),
        ("CHANNEL_ACTIVITY", "CONNECT"),
    ] {
        assert!(exists(&client, name, key).await, "{name} {key}");
    }
    for (name, key) in [
        ("TOPIC_PUT_NUMS", "other"),
        ("TOPIC_PUT_LATENCY", "0@t"),
        ("GROUP_GET_LATENCY", "t@cg"),
        ("BROKER_PUT_NUMS", "OtherCluster"),
        ("NONSENSE", "t"),
    ] {
        assert!(!exists(&client, name, key).await, "{name} {key}");
    }
    client.ok(DeleteTopicInBroker { topic: "t".into() }, ()).await;
    assert!(!exists(&client, "TOPIC_PUT_LATENCY", "1@t").await);
    assert!(!exists(&client, "GROUP_GET_LATENCY", "1@t@cg").await);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn looking_at_messages_moves_no_figure() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.send("t", 0, "", "x").await;
    client.await_max("t", 0, 1).await;
    for _ in 0..100 {
        let header = PullMessage {
            consumer_group: "TOOLS_CONSUMER".into(),
            ..pull("t", 0, 0, "*")
        };
        assert_eq!(bodies(&client.pull(header).await), ["x"]);
    }
    assert!(!exists(&client, "GROUP_GET_NUMS", "t@TOOLS_CONSUMER").await);
    let info: RuntimeInfo = client.ok(GetBrokerRuntimeInfo, ()).await.1.value;
    assert_eq!(info.table["msgGetTotalTodayNow"], "0");
    assert_eq!(client.pull(pull("t", 0, 0, "*")).await.code, 0);
    let info: RuntimeInfo = client.ok(GetBrokerRuntimeInfo, ()).await.1.value;
    assert_eq!(info.table["msgGetTotalTodayNow"], "1");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_send_tells_region_and_tracing_too() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let refused = SendMessageV2 {
        default_topic: "none".into(),
        ..message("absent", 0)
    };
    let answer = client.ask(refused, Bytes::from_static(b"x")).await;
    assert_eq!(answer.code, codes::TOPIC_NOT_EXIST);
    assert_eq!(answer.fields.get("MSG_REGION"), Some("DefaultRegion"));
    assert_eq!(answer.fields.get("TRACE_ON"), Some("true"));
    broker.stop().await;
}
