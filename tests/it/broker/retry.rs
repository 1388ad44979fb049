//! Giving messages back (36): the decision table (protocol.md §10.3), the copy, and the way to the dead letters.

use std::collections::BTreeSet;

use bytes::Bytes;
use rmq::broker::BrokerConfig;
use rmq::protocol::body::{CustomizedRetryPolicy, LockBatchRequest, SubscriptionGroupConfig};
use rmq::protocol::message::MessageView;
use rmq::protocol::message_id::parse_offset_id;
use rmq::protocol::model::{MessageQueue, Perm, SysFlag};
use rmq::protocol::requests::*;
use rmq::protocol::{Json, codes};

use super::support::*;

/// What a message that was given back looks like.
#[derive(Debug)]
struct Copy {
    topic: String,
    body: Bytes,
    times: i32,
    sys_flag: SysFlag,
    level: Option<String>,
    origin_topic: Option<String>,
    origin_id: Option<String>,
    properties: String,
}

fn copy(record: &[u8]) -> Copy {
    let view = MessageView::parse(record).unwrap();
    let properties = view.properties();
    let get = |name| properties.get(name).map(str::to_owned);
    Copy {
        topic: get("REAL_TOPIC").unwrap_or_else(|| view.topic().to_owned()),
        body: Bytes::copy_from_slice(view.body()),
        times: view.reconsume_times(),
        sys_flag: view.sys_flag(),
        level: get("DELAY"),
        origin_topic: get("RETRY_TOPIC"),
        origin_id: get("ORIGIN_MESSAGE_ID"),
        properties: String::from_utf8(properties.as_bytes().to_vec()).unwrap(),
    }
}

/// The newest record of a queue, once it holds so many.
async fn newest(client: &Client, topic: &str, queue_id: i32, count: i64) -> Bytes {
    client.await_max(topic, queue_id, count).await;
    let answer = client.pull(pull(topic, queue_id, count - 1, "*")).await;
    assert_eq!(answer.code, codes::SUCCESS, "{}", answer.remark);
    answer.body
}

fn offset_of(reply: &SendMessageReply) -> i64 {
    parse_offset_id(&reply.msg_id).unwrap().1
}

fn back(group: &str, offset: i64, level: i32) -> ConsumerSendMsgBack {
    ConsumerSendMsgBack {
        offset,
        group: group.into(),
        delay_level: level,
        origin_topic: Some("t".into()),
        ..ConsumerSendMsgBack::default()
    }
}

async fn group(client: &Client, name: &str, change: impl FnOnce(&mut SubscriptionGroupConfig)) {
    let mut config = SubscriptionGroupConfig {
        group_name: name.into(),
        ..SubscriptionGroupConfig::default()
    };
    change(&mut config);
    client
        .ok(UpdateAndCreateSubscriptiongroup, Some(Json::new(config)))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_try_waits_a_level_longer_unless_one_was_chosen() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let mut sent = offset_of(&client.send("t", 0, "A", "one").await);
    for (times, level) in [(1, 3), (2, 4), (3, 5)] {
        client.ok(back("g", sent, 0), ()).await;
        let record = newest(&client, "SCHEDULE_TOPIC_XXXX", level - 1, 1).await;
        let waits = copy(&record);
        assert_eq!((waits.topic.as_str(), waits.times), ("%RETRY%g", times));
        assert_eq!(waits.level, Some(level.to_string()));
        assert_eq!(waits.origin_topic.as_deref(), Some("t"));
        assert_eq!(waits.properties.matches("REAL_TOPIC\u{1}").count(), 1);
        // As if it had been delivered: what is given back is a message of the retry topic, with all that it carries.
        let retried = SendMessageV2 {
            properties: waits.properties,
            reconsume_times: times,
            ..message("t", 0)
        };
        let undelayed = retried.properties.replace(&format!("DELAY\u{1}{level}\u{2}"), "");
        let retried = SendMessageV2 {
            properties: undelayed,
            ..retried
        };
        sent = offset_of(&client.ok(retried, Bytes::from_static(b"one")).await.0);
    }
    for (asked, level) in [(1, 1), (9, 9), (18, 18), (i32::MAX, 18)] {
        client.ok(back("g", sent, asked), ()).await;
        client.await_max("SCHEDULE_TOPIC_XXXX", level - 1, 1).await;
    }
    client.await_max("SCHEDULE_TOPIC_XXXX", 17, 2).await;
    // Level 1 comes back after a second.
    let record = newest(&client, "%RETRY%g", 0, 1).await;
    assert_eq!(copy(&record).times, 4);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_may_have_delays_of_its_own() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    group(&client, "g", |g| {
        // Only the third entry counts for the first retry, as in Java.
        let next = vec![0, 0, 300_000];
        g.group_retry_policy.customized_retry_policy = Some(CustomizedRetryPolicy { next });
    })
    .await;
    let sent = offset_of(&client.send("t", 0, "A", "one").await);
    client.ok(back("g", sent, 0), ()).await;
    // 5 minutes are level 9.
    client.await_max("SCHEDULE_TOPIC_XXXX", 8, 1).await;
    client.ok(back("g", sent, 2), ()).await;
    client.await_max("SCHEDULE_TOPIC_XXXX", 1, 1).await;
    broker.stop().await;
}

/// K46: a group that never gave anything back has no retry topic, and its figures are asked for all the same.
#[tokio::test(flavor = "multi_thread")]
async fn k46_a_group_without_a_retry_topic_has_figures() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.send("t", 0, "", "one").await;
    group(&client, "new", |_| {}).await;
    let ask = |name: &str| GetConsumeStats {
        consumer_group: name.into(),
        ..GetConsumeStats::default()
    };
    assert!(client.ok(ask("new"), ()).await.1.value.offset_table.is_empty());
    let commit = UpdateConsumerOffset {
        consumer_group: "new".into(),
        topic: "t".into(),
        queue_id: Some(0),
        commit_offset: Some(0),
        ..UpdateConsumerOffset::default()
    };
    client.ok(commit, ()).await;
    client.await_max("t", 0, 1).await;
    assert_eq!(client.ok(ask("new"), ()).await.1.value.offset_table.len(), 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_in_the_broker_cannot_be_given_back() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let delayed = SendMessageV2 {
        properties: "DELAY\u{1}18\u{2}".into(),
        ..message("t", 0)
    };
    let half = SendMessageV2 {
        properties: "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}pg\u{2}".into(),
        ..message("t", 0)
    };
    for (header, topic) in [
        (delayed, "SCHEDULE_TOPIC_XXXX"),
        (half, "RMQ_SYS_TRANS_HALF_TOPIC"),
    ] {
        let sent = offset_of(&client.ok(header, Bytes::from_static(b"x")).await.0);
        let (code, remark) = client.refused(back("g", sent, -1), ()).await;
        assert_eq!(code, codes::NO_PERMISSION);
        assert!(remark.contains(&format!("the system topic[{topic}]")), "{remark}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_try_and_a_negative_level_end_in_the_dead_letters() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let sent = client.send("t", 0, "A", "one").await;
    client.ok(back("g", offset_of(&sent), -1), ()).await;
    let dead = copy(&newest(&client, "%DLQ%g", 0, 1).await);
    assert_eq!((dead.times, dead.level.as_deref()), (1, Some("0")));
    assert_eq!(dead.body, "one");
    assert_eq!(dead.origin_topic.as_deref(), Some("t"));
    assert_eq!(dead.origin_id.as_deref(), Some(sent.msg_id.as_str()));
    assert!(dead.properties.contains("TAGS\u{1}A\u{2}") && dead.properties.contains("WAIT\u{1}false\u{2}"));
    let topic = client.topic("%DLQ%g").await;
    assert_eq!((topic.write_queue_nums, topic.perm), (1, Perm::READ_WRITE));
    assert_eq!(client.topic("%RETRY%g").await.write_queue_nums, 1);

    // The client's own maximum goes before the group's.
    let mut at_once = back("g", offset_of(&sent), 0);
    at_once.max_reconsume_times = Some(0);
    client.ok(at_once, ()).await;
    client.await_max("%DLQ%g", 0, 2).await;
    group(&client, "never", |g| g.retry_max_times = 0).await;
    client.ok(back("never", offset_of(&sent), 0), ()).await;
    client.await_max("%DLQ%never", 0, 1).await;
    // A dead letter that is given back by another group keeps where it came from.
    let id = copy(&newest(&client, "%DLQ%never", 0, 1).await);
    let view = newest(&client, "%DLQ%never", 0, 1).await;
    let at = MessageView::parse(&view).unwrap().physical_offset();
    client.ok(back("other", at, -1), ()).await;
    let second = copy(&newest(&client, "%DLQ%other", 0, 1).await);
    assert_eq!((second.times, second.origin_id), (2, id.origin_id));
    assert_eq!(second.origin_topic.as_deref(), Some("t"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_given_back_is_refused_and_nothing_is_stored() {
    let broker = TestBroker::with(
        BrokerConfig {
            auto_create_subscription_group: false,
            ..loopback()
        },
        |_| {},
    )
    .await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let sent = offset_of(&client.send("t", 0, "", "one").await);
    let (code, remark) = client.refused(back("g", sent, -1), ()).await;
    assert_eq!(code, codes::SUBSCRIPTION_GROUP_NOT_EXIST);
    assert!(remark.starts_with("subscription group not exist, g "), "{remark}");
    group(&client, "g", |_| {}).await;
    for offset in [-1, 1, sent + 1, 1 << 40, i64::MAX, i64::MIN] {
        let remark = format!("look message by offset failed, {offset}");
        assert_eq!(
            client.refused(back("g", offset, -1), ()).await,
            (codes::SYSTEM_ERROR, remark)
        );
    }
    client.create_topic_with("%RETRY%g", 1, 1, Perm::READ).await;
    assert_eq!(
        client.refused(back("g", sent, 0), ()).await,
        (
            codes::NO_PERMISSION,
            "the topic[%RETRY%g] sending message is forbidden".into()
        )
    );
    client.create_topic_with("%RETRY%g", 1, 1, Perm::READ_WRITE).await;
    group(&client, "drops", |g| g.retry_queue_nums = 0).await;
    client.ok(back("drops", sent, 0), ()).await;
    let answer = client
        .ask(
            GetTopicConfig {
                topic: "%RETRY%drops".into(),
                lo: None,
            },
            (),
        )
        .await;
    assert_ne!(answer.code, 0, "a group without retry queues gets no topic");
    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("brokerPermission=4".into()),
        )
        .await;
    assert_eq!(
        client.refused(back("g", sent, -1), ()).await,
        (
            codes::NO_PERMISSION,
            "the broker[127.0.0.1] sending message is forbidden".into()
        )
    );
    let max = client
        .ok(
            GetMaxOffset {
                topic: "%DLQ%g".into(),
                ..GetMaxOffset::default()
            },
            (),
        )
        .await;
    assert_eq!(max.0.offset, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_body_goes_on_as_it_is() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let flag = SysFlag(SysFlag::COMPRESSED | 0x300);
    let header = SendMessageV2 {
        sys_flag: flag,
        ..message("t", 0)
    };
    let packed = Bytes::from_static(&[0x78, 0x9c, 1, 2, 3]);
    let sent = client.ok(header, packed.clone()).await.0;
    client.ok(back("g", offset_of(&sent), -1), ()).await;
    let dead = copy(&newest(&client, "%DLQ%g", 0, 1).await);
    assert_eq!((dead.body, dead.sys_flag), (packed, flag));
    broker.stop().await;
}

/// K38: an ordered consumer gives a message back by an ordinary send, after its last try.
#[tokio::test(flavor = "multi_thread")]
async fn k38_a_group_with_queue_locks_sends_to_the_dead_letters() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.heartbeat("c", "g", "t", "*").await;
    let lock = LockBatchRequest {
        client_id: "c".into(),
        consumer_group: "g".into(),
        mq_set: BTreeSet::from([MessageQueue {
            broker_name: "broker-t".into(),
            queue_id: 0,
            topic: "t".into(),
        }]),
        ..LockBatchRequest::default()
    };
    client.ok(LockBatchMq, Json::new(lock)).await;
    let retry = SendMessageV2 {
        reconsume_times: 1,
        max_reconsume_times: Some(1),
        properties: "DELAY\u{1}4\u{2}RETRY_TOPIC\u{1}t\u{2}".into(),
        ..message("%RETRY%g", 0)
    };
    client.ok(retry, Bytes::from_static(b"ordered")).await;
    let dead = copy(&newest(&client, "%DLQ%g", 0, 1).await);
    assert_eq!(
        (dead.topic.as_str(), dead.level.as_deref()),
        ("%DLQ%g", Some("-1"))
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_back_is_counted() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let sent = offset_of(&client.send("t", 0, "", "one").await);
    let mut forged = back("g", sent, -1);
    forged.origin_topic = Some("no-such-topic".into());
    client.ok(forged, ()).await;
    for (name, key, there) in [
        ("SNDBCK_PUT_NUMS", "t@g", true),
        ("SNDBCK2DLQ_TIMES", "null@t@g@SEND_BACK_TO_DLQ", true),
        ("SNDBCK2DLQ_TIMES", "null@no-such-topic@g@SEND_BACK_TO_DLQ", false),
    ] {
        let header = ViewBrokerStatsData {
            stats_name: name.into(),
            stats_key: key.into(),
        };
        assert_eq!(client.ask(header, ()).await.code == 0, there, "{name} {key}");
    }
    broker.stop().await;
}
