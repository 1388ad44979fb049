//! The decision table of sends (protocol.md §10.2), batches, and what is stored with a message.

use std::time::Duration;

use bytes::Bytes;
use rmq::broker::BrokerConfig;
use rmq::protocol::message::{BatchItem, MessageView, encode_batch};
use rmq::protocol::message_id::parse_offset_id;
use rmq::protocol::model::Perm;
use rmq::protocol::requests::*;
use rmq::protocol::{Request, codes};

use super::support::*;

fn body() -> Bytes {
    Bytes::from_static(b"hello")
}

fn with(topic: &str, change: impl FnOnce(&mut SendMessageV2)) -> SendMessageV2 {
    let mut header = message(topic, 0);
    change(&mut header);
    header
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_the_table_answers_as_java() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    let long = "x".repeat(128);
    for (topic, code, remark) in [
        ("", INVALID, "The specified topic is blank."),
        (
            "a/b",
            INVALID,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        ),
        ("..", INVALID, "The specified topic contains illegal characters"),
        (
            &long,
            INVALID,
            "The specified topic is longer than topic max length.",
        ),
        (
            "SCHEDULE_TOPIC_XXXX",
            codes::NO_PERMISSION,
            "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden.",
        ),
    ] {
        let refused = client.refused(message(topic, 0), body()).await;
        assert_eq!(refused.0, code, "{topic}");
        assert!(refused.1.starts_with(remark), "{topic}: {}", refused.1);
    }
    let missing = with("absent", |h| h.default_topic = "t".into());
    let refused = client.refused(missing, body()).await;
    assert_eq!(refused.0, codes::TOPIC_NOT_EXIST);
    assert!(
        refused
            .1
            .starts_with("topic[absent] not exist, apply first please!\nSee https://")
    );
    let refused = client.refused(message("t", 77), body()).await;
    assert_eq!(refused.0, INVALID);
    assert!(
        refused
            .1
            .starts_with("request queueId[77] is illegal, TopicConfig [topicName=t, ")
    );
    assert_eq!(
        client.refused(message("t", 0), Bytes::new()).await.0,
        codes::MESSAGE_ILLEGAL
    );
    let batch = SendBatchMessage(with("%RETRY%g", |h| h.batch = true));
    assert_eq!(
        client.refused(batch, body()).await,
        (
            codes::MESSAGE_ILLEGAL,
            "batch request does not support retry group %RETRY%g".into()
        )
    );
    let timer = with("t", |h| h.properties = "TIMER_DELAY_SEC\u{1}999999\u{2}".into());
    let (code, remark) = client.refused(timer, body()).await;
    assert!(code != 0 && !remark.is_empty(), "too far ahead");
    let large = with("t", |h| {
        h.properties = format!("big\u{1}{}\u{2}", "v".repeat(33_000))
    });
    let expected = "the message is illegal, maybe msg body or properties length not matched. \
                    msg body length limit 4194304B, msg properties length limit 32KB.";
    assert_eq!(
        client.refused(large, body()).await,
        (codes::MESSAGE_ILLEGAL, expected.into())
    );
    let huge = Bytes::from(vec![0; 4 * 1024 * 1024 + 1]);
    assert_eq!(
        client.refused(message("t", 0), huge).await,
        (codes::MESSAGE_ILLEGAL, expected.into())
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn write_permission_is_checked_unless_java_way_is_asked_for() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic_with("closed", 2, 2, Perm::READ).await;
    assert_eq!(
        client.refused(message("closed", 0), body()).await,
        (
            codes::NO_PERMISSION,
            "the topic[closed] sending message is forbidden".into()
        )
    );
    client.create_topic_with("closed", 4, 2, Perm::READ_WRITE).await;
    let reply = client.ok(message("closed", 3), body()).await.0;
    assert_eq!(
        reply.queue_id, 3,
        "a queue between write and read count stays open"
    );
    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("brokerPermission=4".into()),
        )
        .await;
    assert_eq!(
        client.refused(message("closed", 0), body()).await,
        (
            codes::NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden".into()
        )
    );
    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("rmqCheckWritePerm=false".into()),
        )
        .await;
    client.ok(message("closed", 0), body()).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_topics_are_made_by_template() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client
        .ok(with("auto", |h| h.default_topic_queue_nums = 16), body())
        .await;
    let made = client.topic("auto").await;
    assert_eq!(
        (made.read_queue_nums, made.write_queue_nums, made.perm.0),
        (8, 8, 6)
    );
    client.ok(message("%RETRY%g2", 0), body()).await;
    let made = client.topic("%RETRY%g2").await;
    assert_eq!(made.read_queue_nums, 4, "TBW102 is the template here too");
    broker.stop().await;

    let closed = BrokerConfig {
        auto_create_topic_enable: false,
        auto_create_subscription_group: false,
        ..loopback()
    };
    let broker = TestBroker::with(closed, |_| {}).await;
    let client = broker.client().await;
    assert_eq!(
        client.refused(message("auto", 0), body()).await.0,
        codes::TOPIC_NOT_EXIST
    );
    let refused = client.refused(message("%RETRY%g", 0), body()).await;
    assert_eq!(refused.0, codes::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert!(refused.1.starts_with("subscription group not exist, g "));
    assert_eq!(
        client.topic("%RETRY%g").await.write_queue_nums,
        1,
        "made without a template"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn optional_fields_may_be_absent_one_at_a_time() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let v1 = rmq::fields::Fields::from_value(&SendMessage {
        max_reconsume_times: Some(3),
        ..SendMessage::from(message("t", 0))
    })
    .unwrap();
    let v2 = rmq::fields::Fields::from_value(&SendMessageV2 {
        max_reconsume_times: Some(3),
        ..message("t", 0)
    })
    .unwrap();
    let optional = [
        "properties",
        "reconsumeTimes",
        "unitMode",
        "batch",
        "maxReconsumeTimes",
        "bname",
    ];
    for (code, all, leave_out) in [
        (SendMessage::CODE, &v1, optional),
        (SendMessageV2::CODE, &v2, ["i", "j", "k", "m", "l", "n"]),
    ] {
        for absent in leave_out {
            let fields = all
                .iter()
                .filter(|(name, _)| *name != absent)
                .map(|(name, value)| (name.to_owned(), value))
                .collect();
            let mut frame = rmq::protocol::frame::Frame::request(code, fields);
            frame.body = body();
            assert_eq!(client.ask_frame(frame).await.code, 0, "{code} without {absent}");
        }
        let none = rmq::protocol::frame::Frame::request(code, rmq::fields::Fields::new());
        assert_eq!(
            client.ask_frame(none).await.code,
            codes::SYSTEM_ERROR,
            "no field at all"
        );
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_names_what_was_stored() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    let header = with("t", |h| {
        h.queue_id = 1;
        h.flag = 7;
        h.properties = "KEYS\u{1}k\u{2}POP_CK\u{1}0 1 2\u{2}UNIQ_KEY\u{1}ABC\u{2}WAIT\u{1}true\u{2}".into();
    });
    let reply = client.ok(header, body()).await.0;
    assert_eq!((reply.queue_id, reply.queue_offset), (1, 0));
    assert_eq!(reply.transaction_id.as_deref(), Some("ABC"));
    assert_eq!(
        (reply.msg_region.as_deref(), reply.trace_on),
        (Some("DefaultRegion"), Some(true))
    );
    let (host, offset) = parse_offset_id(&reply.msg_id).unwrap();
    assert_eq!(host, broker.broker.addr());
    let by_id = ViewMessageById { topic: None, offset };
    let record = client.ok(by_id, ()).await.1;
    let view = MessageView::parse_checked(&record).unwrap();
    assert_eq!(
        (view.topic(), view.queue_id(), view.flag(), view.body()),
        ("t", 1, 7, &b"hello"[..])
    );
    assert_eq!(view.store_host(), broker.broker.addr());
    assert_eq!(view.born_timestamp(), 1_795_973_553_406);
    let properties = view.properties();
    for (name, value) in [
        ("KEYS", Some("k")),
        ("UNIQ_KEY", Some("ABC")),
        ("POP_CK", None),
        ("MSG_REGION", Some("DefaultRegion")),
        ("TRACE_ON", Some("true")),
        ("CLUSTER", Some("DefaultCluster")),
    ] {
        assert_eq!(properties.get(name), value, "{name}");
    }
    let plain = client.ok(message("t", -1), body()).await.0;
    let key = plain.transaction_id.unwrap();
    assert_eq!(
        key.len(),
        32,
        "the broker makes a unique key when the client sent none"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_stored_item_by_item() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let items: Vec<BatchItem> = (0..5)
        .map(|i| BatchItem {
            flag: i,
            body: Bytes::from(format!("m{i}")),
            properties: format!("UNIQ_KEY\u{1}item{i}\u{2}TAGS\u{1}T{i}\u{2}"),
        })
        .collect();
    client.send("t", 0, "", "first").await;
    let header = SendBatchMessage(with("t", |h| {
        h.batch = true;
        h.properties = "UNIQ_KEY\u{1}batch\u{2}WAIT\u{1}true\u{2}".into();
    }));
    let reply = client.ok(header.clone(), encode_batch(&items).unwrap()).await.0;
    assert_eq!(reply.queue_offset, 1, "of the first item");
    assert_eq!(reply.msg_id.split(',').count(), 5);
    assert_eq!(reply.transaction_id.as_deref(), Some("batch"));
    client.await_max("t", 0, 6).await;
    let got = client.pull(pull("t", 0, 1, "*")).await;
    assert_eq!(bodies(&got), ["m0", "m1", "m2", "m3", "m4"]);
    let first = MessageView::parse_checked(&got.body).unwrap();
    assert_eq!(
        first.properties().get("UNIQ_KEY"),
        Some("batch"),
        "the batch's key wins, as in Java"
    );
    assert_eq!(first.properties().get("TAGS"), Some("T0"));
    for bad in [&b"\0\0\0"[..], &[0, 0, 0, 200, 0, 0, 0, 0]] {
        let (code, _) = client.refused(header.clone(), Bytes::copy_from_slice(bad)).await;
        assert_eq!(code, codes::SYSTEM_ERROR);
    }
    assert_eq!(
        client.send("t", 0, "", "last").await.queue_offset,
        6,
        "nothing of the bad ones stayed"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_of_one_connection_keep_their_order() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let calls = (0..500).map(|i| {
        let peer = client.peer.clone();
        async move {
            let body = Bytes::from(i.to_string());
            let reply = peer.call(&message("t", 0), body, TIMEOUT).await.unwrap().0;
            assert_eq!(reply.queue_offset, i);
        }
    });
    futures_util::future::join_all(calls).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_given_back_too_often_become_dead_letters() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.heartbeat("c", "g", "t", "*").await;
    let again = with("%RETRY%g", |h| {
        h.reconsume_times = 3;
        h.max_reconsume_times = Some(2);
        h.properties = "DELAY\u{1}6\u{2}".into();
    });
    client.ok(again, body()).await;
    client.await_max("%DLQ%g", 0, 1).await;
    assert_eq!(client.topic("%DLQ%g").await.perm.0, 6);
    let within = with("%RETRY%g", |h| h.reconsume_times = 2);
    client.ok(within, body()).await;
    client.await_max("%RETRY%g", 0, 1).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fast_port_takes_sends_and_no_pulls() {
    let broker = TestBroker::start().await;
    let mut addr = broker.broker.addr();
    addr.set_port(addr.port() - 2);
    let client = Client::new(&addr.to_string()).await;
    client.create_topic("t", 1).await;
    client.send("t", 0, "", "x").await;
    let answer = client.pull(pull("t", 0, 0, "*")).await;
    assert_eq!(answer.code, codes::REQUEST_CODE_NOT_SUPPORTED);
    assert_eq!(answer.remark, " request type 11 not supported");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sync_flush_is_awaited() {
    let broker = TestBroker::with(loopback(), |store| {
        store.flush_disk_type = rmq::store::FlushDiskType::SyncFlush;
    })
    .await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for i in 0..20 {
        assert_eq!(client.send("t", 0, "", "x").await.queue_offset, i);
    }
    let quick = with("t", |h| h.properties = "WAIT\u{1}false\u{2}".into());
    let answer = tokio::time::timeout(Duration::from_secs(5), client.ok(quick, body())).await;
    assert_eq!(answer.unwrap().0.queue_offset, 20);
    broker.stop().await;
}
