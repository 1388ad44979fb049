//! Pulls: statuses (§9.4), checks (§10.4), long polling, tag filters, the commit that rides along.

use std::pin::Pin;
use std::time::{Duration, Instant};

use rmq::broker::BrokerConfig;
use rmq::protocol::body::{MessageModel, SubscriptionGroupConfig};
use rmq::protocol::model::Perm;
use rmq::protocol::requests::*;
use rmq::protocol::{Json, codes};

use super::support::*;

fn next(answer: &Answered) -> i64 {
    answer.header::<PullMessageReply>().next_begin_offset.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_and_next_offsets_are_javas() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    for i in 0..6 {
        client.send("t", 0, "TagA", &format!("m{i}")).await;
    }
    client.await_max("t", 0, 6).await;
    for (queue, offset, tags, code, remark, goes_on) in [
        (0, 0, "*", 0, "FOUND", 6),
        (0, 4, "TagA", 0, "FOUND", 6),
        (0, 0, "TagB", 20, "NO_MATCHED_MESSAGE", 6),
        (0, 6, "*", 19, "OFFSET_OVERFLOW_ONE", 6),
        (0, 7, "*", 21, "OFFSET_OVERFLOW_BADLY", 6),
        (0, -1, "*", 21, "OFFSET_TOO_SMALL", 0),
        (1, 0, "*", 19, "NO_MESSAGE_IN_QUEUE", 0),
        (1, 5, "*", 21, "NO_MESSAGE_IN_QUEUE", 0),
    ] {
        let answer = client.pull(pull("t", queue, offset, tags)).await;
        assert_eq!(
            (answer.code, answer.remark.as_str()),
            (code, remark),
            "queue {queue} at {offset}"
        );
        assert_eq!(next(&answer), goes_on, "queue {queue} at {offset}");
        assert_eq!(answer.body.is_empty(), code != 0);
    }
    let few = PullMessage {
        max_msg_nums: 2,
        ..pull("t", 0, 1, "*")
    };
    let answer = client.pull(few).await;
    assert_eq!(bodies(&answer), ["m1", "m2"]);
    let header: PullMessageReply = answer.header();
    assert_eq!((header.min_offset, header.max_offset), (Some(0), Some(6)));
    assert_eq!(header.suggest_which_broker_id, Some(0));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_check_answers_as_java() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    client.create_topic_with("closed", 1, 1, Perm::WRITE).await;
    let disabled = SubscriptionGroupConfig {
        group_name: "off".into(),
        consume_enable: false,
        ..SubscriptionGroupConfig::default()
    };
    client
        .ok(UpdateAndCreateSubscriptiongroup, Some(Json::new(disabled)))
        .await;
    let plain = |group: &str, topic: &str| PullMessage {
        consumer_group: group.into(),
        sys_flag: 0,
        subscription: None,
        ..pull(topic, 0, 0, "")
    };
    let forbidden = |answer: &Answered| answer.header::<PullMessageReply>().forbidden_type;

    let answer = client.pull(plain("off", "t")).await;
    assert_eq!(
        (answer.code, answer.remark.as_str(), forbidden(&answer)),
        (16, "subscription group no permission, off", Some(2))
    );
    let answer = client.pull(plain("g", "absent")).await;
    assert_eq!(answer.code, codes::TOPIC_NOT_EXIST);
    assert!(
        answer
            .remark
            .starts_with("topic[absent] not exist, apply first please! ")
    );
    let answer = client.pull(plain("g", "closed")).await;
    assert_eq!(
        (answer.code, answer.remark.as_str(), forbidden(&answer)),
        (16, "the topic[closed] pulling message is forbidden", Some(3))
    );
    let answer = client.pull(pull("t", 99, 0, "*")).await;
    assert_eq!(answer.code, INVALID);
    assert!(answer.remark.starts_with(
        "queueId[99] is illegal, topic:[t] topicConfig.readQueueNums:[2] consumer:[/127.0.0.1:"
    ));
    let answer = client.pull(pull("t", 0, 0, "||")).await;
    assert_eq!(answer.code, codes::SUBSCRIPTION_PARSE_FAILED);
    let answer = client.pull(plain("g", "t")).await;
    assert_eq!(answer.code, codes::SUBSCRIPTION_NOT_EXIST);
    assert!(
        answer
            .remark
            .starts_with("the consumer's group info not exist\nSee ")
    );
    client.heartbeat("c", "g", "other", "*").await;
    let answer = client.pull(plain("g", "t")).await;
    assert!(
        answer
            .remark
            .starts_with("the consumer's subscription not exist\nSee ")
    );
    client.heartbeat("c", "g", "t", "*").await;
    let newer = PullMessage {
        sub_version: 2,
        ..plain("g", "t")
    };
    assert_eq!(client.pull(newer).await.code, codes::SUBSCRIPTION_NOT_LATEST);
    assert_eq!(client.pull(plain("g", "t")).await.code, codes::PULL_NOT_FOUND);
    let sql = PullMessage {
        expression_type: Some("SQL92".into()),
        ..pull("t", 0, 0, "a > 5")
    };
    let answer = client.pull(sql).await;
    assert_eq!(
        (answer.code, answer.remark.as_str()),
        (
            1,
            "The broker does not support consumer to filter message by SQL92"
        )
    );
    let bad_group = PullMessage {
        consumer_group: "a/b".into(),
        ..pull("t", 0, 0, "*")
    };
    assert_eq!(
        client.pull(bad_group).await.code,
        codes::SUBSCRIPTION_GROUP_NOT_EXIST
    );

    let forbid = UpdateAndGetGroupForbidden {
        group: "g".into(),
        topic: "t".into(),
        readable: Some(false),
    };
    client.ok(forbid, ()).await;
    let answer = client.pull(plain("g", "t")).await;
    assert_eq!((answer.code, forbidden(&answer)), (16, Some(5)));

    let no_broadcast = SubscriptionGroupConfig {
        group_name: "b".into(),
        consume_broadcast_enable: false,
        ..SubscriptionGroupConfig::default()
    };
    client
        .ok(UpdateAndCreateSubscriptiongroup, Some(Json::new(no_broadcast)))
        .await;
    let mut data = beat("c", "b", "t", "*");
    data.consumer_data_set[0].message_model = MessageModel::Broadcasting;
    client.ok(HeartBeat, Json::new(data)).await;
    let answer = client.pull(plain("b", "t")).await;
    assert_eq!((answer.code, forbidden(&answer)), (16, Some(4)));

    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("brokerPermission=2".into()),
        )
        .await;
    let answer = client.pull(plain("g", "t")).await;
    assert_eq!(
        (answer.code, answer.remark.as_str(), forbidden(&answer)),
        (16, "the broker[127.0.0.1] pulling message is forbidden", Some(1))
    );
    broker.stop().await;
}

fn held(topic: &str, offset: i64, tags: &str, millis: i64) -> PullMessage {
    PullMessage {
        sys_flag: PullMessage::SUBSCRIPTION | PullMessage::SUSPEND,
        suspend_timeout_millis: millis,
        ..pull(topic, 0, offset, tags)
    }
}

/// Sends a pull and returns when the broker holds it: requests of a connection are begun in order.
async fn hold(client: &Client, header: PullMessage) -> Pin<Box<dyn Future<Output = Answered> + '_>> {
    let mut waiting = Box::pin(client.pull(header));
    assert!(futures_util::poll!(&mut waiting).is_pending());
    client.topic("TBW102").await;
    waiting
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_wakes_for_a_matching_message_alone() {
    let broker = TestBroker::start().await;
    let (consumer, producer) = (broker.client().await, broker.client().await);
    consumer.create_topic("t", 1).await;
    let mut waiting = hold(&consumer, held("t", 0, "TagB", 30_000)).await;
    producer.send("t", 0, "TagA", "not for it").await;
    producer.await_max("t", 0, 1).await;
    let early = tokio::time::timeout(Duration::from_millis(100), &mut waiting).await;
    assert!(early.is_err(), "a mismatch does not end the wait");
    let sent = Instant::now();
    producer.send("t", 0, "TagB", "for it").await;
    let answer = waiting.await;
    assert_eq!(answer.code, 0);
    assert_eq!(bodies(&answer), ["for it"]);
    assert!(
        sent.elapsed() < Duration::from_secs(2),
        "woken by the message: {:?}",
        sent.elapsed()
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_never_answers_early() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let start = Instant::now();
    let answer = client.pull(held("t", 0, "*", 300)).await;
    assert_eq!((answer.code, answer.remark.as_str()), (19, "NO_MESSAGE_IN_QUEUE"));
    assert!(start.elapsed() >= Duration::from_millis(300));

    // Only messages that its filter drops came by: the client moves past them at the deadline.
    let producer = broker.client().await;
    let start = Instant::now();
    let waiting = hold(&client, held("t", 0, "TagB", 400)).await;
    for _ in 0..3 {
        producer.send("t", 0, "TagA", "x").await;
    }
    producer.await_max("t", 0, 3).await;
    let answer = waiting.await;
    assert!(start.elapsed() >= Duration::from_millis(400));
    assert_eq!((answer.code, next(&answer)), (20, 3));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn short_polling_and_stopping_end_a_wait() {
    let config = BrokerConfig {
        long_polling_enable: false,
        short_polling_time_mills: 200,
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let start = Instant::now();
    assert_eq!(client.pull(held("t", 0, "*", 30_000)).await.code, 19);
    let took = start.elapsed();
    assert!(
        (Duration::from_millis(200)..Duration::from_secs(5)).contains(&took),
        "{took:?}"
    );

    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("longPollingEnable=true".into()),
        )
        .await;
    let waiting = hold(&client, held("t", 0, "*", 30_000)).await;
    let start = Instant::now();
    let (_, answer) = tokio::join!(broker.stop(), waiting);
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "stopped in {:?}",
        start.elapsed()
    );
    assert_eq!(answer.code, codes::SERVICE_NOT_AVAILABLE);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_of_a_heartbeat_is_used() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for (tag, text) in [("A", "1"), ("B", "2"), ("C", "3"), ("", "4"), ("A", "5")] {
        client.send("t", 0, tag, text).await;
    }
    client.await_max("t", 0, 5).await;
    client.heartbeat("c", "g", "t", "A || C").await;
    let header = PullMessage {
        consumer_group: "g".into(),
        sys_flag: 0,
        subscription: None,
        ..pull("t", 0, 0, "")
    };
    let answer = client.pull(header).await;
    assert_eq!(bodies(&answer), ["1", "3", "5"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_commits_what_it_carries() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for i in 0..4 {
        client.send("t", 0, "", &i.to_string()).await;
    }
    client.await_max("t", 0, 4).await;
    let header = PullMessage {
        sys_flag: PullMessage::SUBSCRIPTION | PullMessage::COMMIT_OFFSET,
        commit_offset: 2,
        ..pull("t", 0, 2, "*")
    };
    assert_eq!(client.pull(header).await.code, 0);
    let query = QueryConsumerOffset {
        consumer_group: "cg".into(),
        topic: "t".into(),
        queue_id: 0,
        ..QueryConsumerOffset::default()
    };
    assert_eq!(client.ok(query, ()).await.0.offset, 2);
    let stats = GetConsumeStats {
        consumer_group: "cg".into(),
        ..GetConsumeStats::default()
    };
    let table = client.ok(stats, ()).await.1.value.offset_table;
    let offsets = table.values().next().unwrap();
    assert_eq!(
        (
            offsets.broker_offset,
            offsets.consumer_offset,
            offsets.pull_offset
        ),
        (4, 2, 4)
    );
    assert!(offsets.last_timestamp > 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lite_pulls_can_be_switched_off() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let header = LitePullMessage(pull("t", 0, 0, "*"));
    assert_eq!(client.ask(header.clone(), ()).await.code, 19);
    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("litePullMessageEnable=false".into()),
        )
        .await;
    assert_eq!(client.ask(header, ()).await.code, codes::NO_PERMISSION);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_held_pull_outlives_its_topics_death_and_return() {
    let broker = TestBroker::start().await;
    let (consumer, admin) = (broker.client().await, broker.client().await);
    admin.create_topic("t", 1).await;
    let gone = hold(&consumer, held("t", 0, "*", 300)).await;
    admin.ok(DeleteTopicInBroker { topic: "t".into() }, ()).await;
    assert_eq!(gone.await.code, codes::TOPIC_NOT_EXIST);

    admin.create_topic("t", 1).await;
    let waiting = hold(&consumer, held("t", 0, "*", 30_000)).await;
    admin.create_topic_with("t", 1, 1, Perm::WRITE).await;
    admin.send("t", 0, "", "not to be read").await;
    let answer = waiting.await;
    assert_eq!(
        (answer.code, answer.remark.as_str()),
        (16, "the topic[t] pulling message is forbidden")
    );
    broker.stop().await;
}
