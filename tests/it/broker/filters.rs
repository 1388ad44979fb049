//! SQL92 selectors on the wire: switch, refusals, pulls with and without a heartbeat, waits, and the saved table.

use std::time::Duration;

use bytes::Bytes;
use rmq::broker::BrokerConfig;
use rmq::protocol::body::{CheckClientRequest, SubscriptionData};
use rmq::protocol::requests::*;
use rmq::protocol::{Json, Text, codes};

use super::support::*;

fn open() -> BrokerConfig {
    BrokerConfig {
        enable_property_filter: true,
        ..loopback()
    }
}

fn sql(topic: &str, offset: i64, selector: &str) -> PullMessage {
    PullMessage {
        expression_type: Some(SubscriptionData::SQL92.into()),
        ..pull(topic, 0, offset, selector)
    }
}

async fn put(client: &Client, topic: &str, properties: &str, body: &str) {
    let header = SendMessageV2 {
        properties: properties.replace('=', "\u{1}").replace(';', "\u{2}"),
        ..message(topic, 0)
    };
    client.ok(header, Bytes::copy_from_slice(body.as_bytes())).await;
}

fn check(kind: &str, text: &str) -> Json<CheckClientRequest> {
    Json::new(CheckClientRequest {
        client_id: "c".into(),
        group: "g".into(),
        subscription_data: SubscriptionData {
            topic: "t".into(),
            expression_type: kind.into(),
            sub_string: text.into(),
            ..SubscriptionData::default()
        },
        ..CheckClientRequest::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn selectors_are_checked_before_a_client_subscribes() {
    let broker = TestBroker::with(loopback(), |_| {}).await;
    let client = broker.client().await;
    client.ok(CheckClientConfig, check("TAG", "A || B")).await;
    assert_eq!(
        client.refused(CheckClientConfig, check("SQL92", "a > 5")).await,
        (
            codes::SYSTEM_ERROR,
            "The broker does not support consumer to filter message by SQL92".into()
        )
    );
    client
        .ok(UpdateBrokerConfig, Text("enablePropertyFilter=true".into()))
        .await;
    client.ok(CheckClientConfig, check("SQL92", "a > 5")).await;
    let (code, remark) = client
        .refused(CheckClientConfig, check("SQL92", "a > 5 AND\n b ="))
        .await;
    assert_eq!(code, codes::SUBSCRIPTION_PARSE_FAILED);
    assert!(
        remark.starts_with("Invalid MessageSelector. ") && remark.ends_with("at line 2, column 5"),
        "{remark}"
    );
    let (code, _) = client.refused(CheckClientConfig, check("XPATH", "a")).await;
    assert_eq!(code, codes::SUBSCRIPTION_PARSE_FAILED);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_gets_what_its_selector_wants() {
    let broker = TestBroker::with(open(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for (properties, body) in [
        ("a=1;region=eu;TAGS=x", "one"),
        ("a=10;region=us", "ten"),
        ("region=eu", "none"),
        ("a=ten", "word"),
        ("a=7;region=eu-west", "seven"),
    ] {
        put(&client, "t", properties, body).await;
    }
    client.await_max("t", 0, 5).await;
    for (selector, wanted) in [
        ("a > 5", &["ten", "seven"][..]),
        ("a BETWEEN 1 AND 7", &["one", "seven"]),
        ("a IS NULL", &["none"]),
        ("NOT (a > 5)", &["one"]),
        ("region STARTSWITH 'eu'", &["one", "none", "seven"]),
        ("region IN ('us', 'eu') AND a IS NOT NULL", &["one", "ten"]),
        ("TAGS = 'x'", &["one"]),
        ("TRUE", &["one", "ten", "none", "word", "seven"]),
    ] {
        let answer = client.pull(sql("t", 0, selector)).await;
        assert_eq!(bodies(&answer), wanted, "{selector}");
        assert_eq!(answer.header::<PullMessageReply>().next_begin_offset, Some(5));
    }
    let answer = client.pull(sql("t", 0, "a = 99")).await;
    assert_eq!((answer.code, answer.remark.as_str()), (20, "NO_MATCHED_MESSAGE"));
    assert_eq!(answer.header::<PullMessageReply>().next_begin_offset, Some(5));
    for (pull, code) in [
        (sql("t", 0, "a >"), codes::SUBSCRIPTION_PARSE_FAILED),
        (sql("t", 0, ""), codes::SUBSCRIPTION_PARSE_FAILED),
        (
            PullMessage {
                expression_type: Some("XPATH".into()),
                ..sql("t", 0, "a")
            },
            codes::SUBSCRIPTION_PARSE_FAILED,
        ),
    ] {
        let answer = client.pull(pull).await;
        assert_eq!(answer.code, code);
        assert!(
            answer
                .remark
                .starts_with("parse the consumer's subscription failed"),
            "{}",
            answer.remark
        );
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_passes_over_what_its_selector_drops() {
    let broker = TestBroker::with(open(), |_| {}).await;
    let (consumer, producer) = (broker.client().await, broker.client().await);
    consumer.create_topic("t", 1).await;
    let header = PullMessage {
        sys_flag: PullMessage::SUBSCRIPTION | PullMessage::SUSPEND,
        suspend_timeout_millis: 30_000,
        ..sql("t", 0, "a > 5")
    };
    let mut waiting = Box::pin(consumer.pull(header));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    // Requests of a connection are begun in order: behind this answer the pull is held.
    consumer.topic("TBW102").await;
    put(&producer, "t", "a=1", "no").await;
    producer.await_max("t", 0, 1).await;
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "a mismatch does not end the wait");
    put(&producer, "t", "a=6", "yes").await;
    assert_eq!(bodies(&waiting.await), ["yes"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_selector_of_a_heartbeat_is_used_and_saved() {
    let broker = TestBroker::with(open(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    put(&client, "t", "a=1", "one").await;
    put(&client, "t", "a=9", "nine").await;
    client.await_max("t", 0, 2).await;
    let told = async |selector: &str, version: i64| {
        let mut data = beat("c", "g", "t", "*");
        let subscription = &mut data.consumer_data_set[0].subscription_data_set[0];
        subscription.expression_type = SubscriptionData::SQL92.into();
        subscription.sub_string = selector.into();
        subscription.sub_version = version;
        client.ok(HeartBeat, Json::new(data)).await;
        let header = PullMessage {
            consumer_group: "g".into(),
            sys_flag: 0,
            subscription: None,
            ..pull("t", 0, 0, "")
        };
        client.pull(header).await
    };
    assert_eq!(bodies(&told("a > 5", 1).await), ["nine"]);
    assert_eq!(bodies(&told("a < 5", 2).await), ["one"]);
    let broken = told("a <", 3).await;
    assert_eq!(broken.code, codes::FILTER_DATA_NOT_EXIST);
    assert!(
        broken
            .remark
            .starts_with("The broker's consumer filter data is not exist!Your expression may be wrong!"),
        "{}",
        broken.remark
    );
    assert_eq!(bodies(&told("a = '9'", 4).await), ["nine"]);
    let dir = broker.stop().await;
    let saved = std::fs::read_to_string(dir.path().join("config/consumerFilter.json")).unwrap();
    for part in [
        "\"filterDataByTopic\"",
        "\"a = '9'\"",
        "\"clientVersion\":4",
        "\"bitNum\":112",
    ] {
        assert!(saved.contains(part), "{part} in {saved}");
    }
}

/// Selectors of thousands of conditions choose as short ones do; they are evaluated aside.
#[tokio::test(flavor = "multi_thread")]
async fn long_selectors_choose_as_short_ones_do() {
    let broker = TestBroker::with(open(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for n in 0..30 {
        put(&client, "t", &format!("a={n};b=x{n};"), &format!("m{n}")).await;
    }
    client.await_max("t", 0, 30).await;
    let short = client
        .pull(sql("t", 0, "a BETWEEN 7 AND 9 OR b IN ('x21')"))
        .await;
    assert_eq!(bodies(&short), ["m7", "m8", "m9", "m21"]);
    let mut long = String::from("a BETWEEN 7 AND 9 OR b IN ('x21')");
    while long.len() < 60_000 {
        long += " OR (b = 'none' AND a > 1000) OR c CONTAINS 'nothing'";
    }
    let answer = client.pull(sql("t", 0, &long)).await;
    assert_eq!(bodies(&answer), bodies(&short));
    let header: PullMessageReply = answer.header();
    assert_eq!(
        header.next_begin_offset,
        short.header::<PullMessageReply>().next_begin_offset
    );
    let popped = PopMessage {
        exp: Some(long),
        exp_type: Some(SubscriptionData::SQL92.into()),
        ..super::pop::pop("t", 0, 32, 60_000)
    };
    assert_eq!(bodies(&client.ask(popped, ()).await), bodies(&short));
    broker.stop().await;
}
