//! What a peer may get wrong: it is answered, and everyone else goes on.

use rmq::fields::Fields;
use rmq::protocol::frame::Frame;
use rmq::protocol::requests::*;
use rmq::protocol::{Request, codes};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn every_code_survives_an_empty_request_and_garbage() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    for route in rmq::broker::dispatch::ROUTES {
        for body in [&b""[..], b"{", b"\0\xff\xfe", b"[]", b"null", b"{\"a\":1}"] {
            let mut frame = Frame::request(route.code, Fields::new());
            frame.body = bytes::Bytes::copy_from_slice(body);
            client.ask_frame(frame).await;
        }
        let wild: Fields = [
            "topic",
            "queueId",
            "offset",
            "group",
            "consumerGroup",
            "maxMsgNums",
            "perm",
            "a",
            "b",
            "key",
            "timestamp",
        ]
        .into_iter()
        .map(|name| (name, "-9999999999999999999"))
        .collect();
        client.ask_frame(Frame::request(route.code, wild)).await;
    }
    client.create_topic("t", 1).await;
    assert_eq!(client.send("t", 0, "", "x").await.queue_offset, 0);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_at_their_ends_are_answered() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.send("t", 0, "", "x").await;
    client.await_max("t", 0, 1).await;
    for number in [i64::MIN, -1, 0, 1, i64::MAX] {
        let small = number.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
        let header = PullMessage {
            queue_offset: number,
            max_msg_nums: small,
            commit_offset: number,
            suspend_timeout_millis: number.min(10),
            sys_flag: 0x7,
            ..pull("t", 0, number, "*")
        };
        let answer = client.pull(header).await;
        let next = answer.header::<PullMessageReply>().next_begin_offset.unwrap();
        assert!((0..=1).contains(&next), "{number} goes on at {next}");
        let entries = QueryConsumeQueue {
            topic: "t".into(),
            queue_id: small,
            index: number,
            count: small,
            consumer_group: None,
        };
        client.ok(entries, ()).await;
        let by_time = SearchOffsetByTimestamp {
            topic: "t".into(),
            queue_id: small,
            timestamp: number,
            ..SearchOffsetByTimestamp::default()
        };
        client.ok(by_time, ()).await;
        let by_key = QueryMessage {
            topic: "t".into(),
            key: "k".into(),
            max_num: small,
            begin_timestamp: number,
            end_timestamp: number,
            ..QueryMessage::default()
        };
        assert_eq!(client.ask(by_key, ()).await.code, codes::QUERY_NOT_FOUND);
        for queues in [small, i32::MAX] {
            let header = UpdateAndCreateTopic {
                topic: "q".into(),
                read_queue_nums: queues,
                write_queue_nums: 1,
                ..UpdateAndCreateTopic::default()
            };
            let answer = client.ask(header, ()).await;
            assert_eq!(
                answer.code,
                if queues == 1 { 0 } else { INVALID },
                "{queues} queues"
            );
        }
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_codes_and_names_with_paths_are_refused() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    for code in [0, 13, 39, 200_999, -7] {
        let answer = client.ask_frame(Frame::request(code, Fields::new())).await;
        assert_eq!(answer.code, codes::REQUEST_CODE_NOT_SUPPORTED);
        assert_eq!(answer.remark, format!(" request type {code} not supported"));
    }
    for topic in ["../../etc", "a/../b", "."] {
        client
            .ok(
                GetMaxOffset {
                    topic: topic.into(),
                    ..GetMaxOffset::default()
                },
                (),
            )
            .await;
        client.ok(DeleteTopicInBroker { topic: topic.into() }, ()).await;
        assert_eq!(client.refused(message(topic, 0), "x".into()).await.0, INVALID);
        assert_ne!(client.pull(pull(topic, 0, 0, "*")).await.code, 0);
        client.heartbeat("c", topic, topic, "*").await;
        let mut held = pull("TBW102", 0, 0, "*");
        held.consumer_group = topic.into();
        assert_eq!(client.pull(held).await.code, codes::SUBSCRIPTION_GROUP_NOT_EXIST);
    }
    let mut names: Vec<String> = std::fs::read_dir(broker.dir.path().join("consumequeue"))
        .map(|entries| {
            entries
                .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    assert!(names.is_empty(), "{names:?}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn oneway_requests_are_never_answered() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.peer.oneway(&message("t", 0), "x".into()).unwrap();
    client.peer.oneway(&message("t", 99), "refused".into()).unwrap();
    client.await_max("t", 0, 1).await;
    assert_eq!(SendMessageV2::CODE, 310);
    broker.stop().await;
}

/// Whatever request a bad name or number comes with: nothing is made under it, and nothing else changes.
#[tokio::test(flavor = "multi_thread")]
async fn no_request_makes_anything_of_bad_names_and_numbers() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    client.send("t", 0, "", "x").await;
    client.await_max("t", 0, 1).await;
    client.heartbeat("c", "g", "t", "*").await;
    let tables = async || {
        let topics = client.ok(GetAllTopicConfig, ()).await.1.value;
        let groups = client.ok(GetAllSubscriptiongroupConfig, ()).await.1.value;
        let offsets = client.ok(GetAllConsumerOffset, ()).await.1.value;
        (
            topics.topic_config_table.into_keys().collect::<Vec<_>>(),
            groups.subscription_group_table.into_keys().collect::<Vec<_>>(),
            offsets.offset_table,
        )
    };
    let before = tables().await;
    const NAMES: [&str; 16] = [
        "topic",
        "group",
        "consumerGroup",
        "groupName",
        "producerGroup",
        "srcGroup",
        "destGroup",
        "compareGroup",
        "a",
        "b",
        "c",
        "clientId",
        "clientID",
        "key",
        "statsKey",
        "originTopic",
    ];
    const NUMBERS: [&str; 14] = [
        "queueId",
        "e",
        "offset",
        "queueOffset",
        "commitOffset",
        "maxMsgNums",
        "maxNum",
        "count",
        "index",
        "timestamp",
        "delayLevel",
        "readQueueNums",
        "writeQueueNums",
        "perm",
    ];
    for route in rmq::broker::dispatch::ROUTES {
        if route.code == UpdateBrokerConfig::CODE {
            continue;
        }
        for (name, number) in [
            ("../../evil", "-1"),
            ("a/b", "-2147483648"),
            ("..", "2147483647"),
            ("%RETRY%../x", "-9223372036854775808"),
            ("", "9223372036854775807"),
        ] {
            let fields = NAMES.map(|field| (field, name));
            let fields: Fields = fields
                .into_iter()
                .chain(NUMBERS.map(|field| (field, number)))
                .collect();
            for body in [
                String::new(),
                format!(
                    "{{\"groupName\":\"{name}\",\"topicName\":\"{name}\",\"consumerGroup\":\"{name}\",\"clientID\":\"c\",\
                     \"topicConfigList\":[{{\"topicName\":\"{name}\",\"readQueueNums\":{number}}}],\
                     \"groupConfigList\":[{{\"groupName\":\"{name}\"}}],\
                     \"consumerDataSet\":[{{\"groupName\":\"{name}\",\"subscriptionDataSet\":[{{\"topic\":\"{name}\"}}]}}],\
                     \"mqSet\":[{{\"topic\":\"{name}\",\"brokerName\":\"b\",\"queueId\":{number}}}]}}"
                ),
            ] {
                let mut frame = Frame::request(route.code, fields.clone());
                frame.body = body.into();
                client.ask_frame(frame).await;
            }
        }
    }
    let after = tables().await;
    assert_eq!(after, before);
    client.send("t", 0, "", "y").await;
    client.await_max("t", 0, 2).await;
    assert_eq!(bodies(&client.pull(pull("t", 0, 0, "*")).await), ["x", "y"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_put_nothing_into_the_brokers_books() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    for topic in [
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "rmq_sys_wheel_timer",
        "rmq_sys_REVIVE_LOG_DefaultCluster",
    ] {
        assert_eq!(
            client.refused(message(topic, 0), "x".into()).await,
            (
                codes::NO_PERMISSION,
                format!("Sending message to topic[{topic}] is forbidden.")
            )
        );
    }
    broker.stop().await;
}
