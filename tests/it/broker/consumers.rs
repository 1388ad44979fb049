//! Calls into consumers through the broker, correction and cloning of offsets, cleaning on demand, and the faults of
//! consumers that are known (K36, K37).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use rmq::broker::BrokerConfig;
use rmq::protocol::body::*;
use rmq::protocol::frame::Frame;
use rmq::protocol::message::MessageView;
use rmq::protocol::model::MessageQueue;
use rmq::protocol::requests::*;
use rmq::protocol::{Body, Json, Request, Text, codes};
use rmq::remoting::pool::Pool;
use rmq::remoting::{Peer, Reply, Service};

use super::support::*;

/// Code, remark and body of an answer.
type Told = (i32, Option<String>, Bytes);

/// A consumer that answers what it was told to and remembers what it was asked.
#[derive(Default)]
struct Consumer {
    answers: Mutex<HashMap<i32, Told>>,
    asked: Mutex<Vec<Frame>>,
}

impl Service for Consumer {
    async fn handle(self: Arc<Self>, peer: Peer, request: Frame) -> Reply {
        let answer = self.answers.lock().unwrap().get(&request.code).cloned();
        if request.code != NotifyConsumerIdsChanged::CODE {
            self.asked.lock().unwrap().push(request);
        }
        let Some((code, remark, body)) = answer else {
            peer.close();
            return std::future::pending().await;
        };
        Reply {
            code,
            remark,
            body: body.encode(),
            ..Reply::default()
        }
    }
}

struct Online {
    consumer: Arc<Consumer>,
    peer: Peer,
    _pool: Pool<Consumer>,
}

impl Online {
    /// Connects and says that it consumes.
    async fn new(broker: &TestBroker, client_id: &str, group: &str, topic: &str) -> Self {
        let consumer = Arc::new(Consumer::default());
        // A oneway needs no answer but must not end the connection.
        let notified = NotifyConsumerIdsChanged::CODE;
        consumer
            .answers
            .lock()
            .unwrap()
            .insert(notified, (0, None, Bytes::new()));
        let pool = Pool::new(consumer.clone(), TIMEOUT);
        let peer = pool.peer(&broker.addr()).await.unwrap();
        let data = Json::new(beat(client_id, group, topic, "*"));
        peer.call(&HeartBeat, data, TIMEOUT).await.unwrap();
        Self {
            consumer,
            peer,
            _pool: pool,
        }
    }

    fn answers(&self, code: i32, answer: i32, remark: Option<&str>, body: &'static str) {
        let answer = (
            answer,
            remark.map(str::to_owned),
            Bytes::from_static(body.as_bytes()),
        );
        self.consumer.answers.lock().unwrap().insert(code, answer);
    }

    fn asked(&self) -> Vec<Frame> {
        self.consumer.asked.lock().unwrap().clone()
    }
}

fn running(group: &str, client_id: &str) -> GetConsumerRunningInfo {
    GetConsumerRunningInfo {
        consumer_group: group.into(),
        client_id: client_id.into(),
        jstack_enable: true,
    }
}

fn queue(topic: &str, queue_id: i32) -> MessageQueue {
    MessageQueue {
        broker_name: "broker-t".into(),
        queue_id,
        topic: topic.into(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_reach_the_client_and_its_answer_comes_back_as_it_is() {
    let broker = TestBroker::start().await;
    let admin = broker.client().await;
    admin.create_topic("t", 1).await;
    let sent = admin.send("t", 0, "", "hello").await;
    let online = Online::new(&broker, "c1", "g", "t").await;

    // Not what we would write: an unknown field, and another order.
    let odd = r#"{"properties":{"a":"1"},"new":{"x":[1]},"jstack":"main"}"#;
    online.answers(GetConsumerRunningInfo::CODE, 0, None, odd);
    let answer = admin.ask(running("g", "c1"), ()).await;
    assert_eq!((answer.code, answer.body.as_ref()), (0, odd.as_bytes()));
    let asked = online.asked();
    let header: GetConsumerRunningInfo = asked[0].fields.to_value().unwrap();
    assert_eq!(header, running("g", "c1"));

    online.answers(
        GetConsumerRunningInfo::CODE,
        1,
        Some("The Consumer Group <g> not exist"),
        "",
    );
    let answer = admin.ask(running("g", "c1"), ()).await;
    assert_eq!(
        (answer.code, answer.remark.as_str()),
        (1, "The Consumer Group <g> not exist")
    );

    let result = r#"{"autoCommit":true,"consumeResult":"CR_SUCCESS","order":false,"spentTimeMills":3}"#;
    online.answers(ConsumeMessageDirectly::CODE, 0, None, result);
    let directly = ConsumeMessageDirectly {
        consumer_group: "g".into(),
        client_id: Some("c1".into()),
        msg_id: Some(sent.msg_id.clone()),
        topic: Some("t".into()),
        ..ConsumeMessageDirectly::default()
    };
    let answer = admin.ask(directly.clone(), Bytes::new()).await;
    assert_eq!((answer.code, answer.body.as_ref()), (0, result.as_bytes()));
    let asked = online.asked();
    let request = asked.last().unwrap();
    let header: ConsumeMessageDirectly = request.fields.to_value().unwrap();
    assert_eq!(header.broker_name.as_deref(), Some("broker-t"));
    assert_eq!((header.topic_sys_flag, header.group_sys_flag), (Some(0), Some(0)));
    assert_eq!(MessageView::parse(&request.body).unwrap().body(), b"hello");

    for (header, remark) in [
        (running("g", "c2"), "The Consumer <g> <c2> not online"),
        (running("h", "c1"), "The Consumer <h> <c1> not online"),
    ] {
        assert_eq!(admin.refused(header, ()).await, (1, remark.into()));
    }
    for id in [
        "",
        "x",
        "7F00000100002A9F00000000FFFFFFFF",
        "7F00000100002A9FFFFFFFFFFFFFFFFF",
    ] {
        let header = ConsumeMessageDirectly {
            msg_id: Some(id.into()),
            ..directly.clone()
        };
        assert_eq!(admin.refused(header, Bytes::new()).await.0, 1, "{id:?}");
    }
    // A client that closes instead of answering.
    online
        .consumer
        .answers
        .lock()
        .unwrap()
        .remove(&GetConsumerRunningInfo::CODE);
    let (code, remark) = admin.refused(running("g", "c1"), ()).await;
    assert_eq!(code, 1);
    assert!(
        remark.starts_with("invoke consumer <g> <c1> Exception: "),
        "{remark}"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_tell_where_they_stand() {
    let broker = TestBroker::start().await;
    let admin = broker.client().await;
    admin.create_topic("t", 1).await;
    let ask = |client: Option<&str>| InvokeBrokerToGetConsumerStatus {
        topic: "t".into(),
        group: "g".into(),
        client_addr: client.map(str::to_owned),
    };
    assert_eq!(
        admin.refused(ask(None), ()).await,
        (1, "No Any Consumer online in the consumer group: [g]".into())
    );
    let (one, two) = (
        Online::new(&broker, "c1", "g", "t").await,
        Online::new(&broker, "c2", "g", "t").await,
    );
    let code = GetConsumerStatusFromClient::CODE;
    one.answers(
        code,
        0,
        None,
        r#"{"messageQueueTable":{{"brokerName":"broker-t","queueId":0,"topic":"t"}:7},"consumerTable":{}}"#,
    );
    two.answers(code, 1, Some("no"), "");
    let table = admin.ok(ask(None), ()).await.1.value.consumer_table;
    assert_eq!(
        table,
        BTreeMap::from([("c1".into(), BTreeMap::from([(queue("t", 0), 7)]))])
    );
    let table = admin.ok(ask(Some("c1")), ()).await.1.value.consumer_table;
    assert_eq!(table.len(), 1);
    assert_eq!((one.asked().len(), two.asked().len()), (2, 1));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn online_clients_are_pushed_to_their_new_offsets_where_java_does_it() {
    let broker = TestBroker::start().await;
    let admin = broker.client().await;
    admin
        .ok(UpdateBrokerConfig, Text("useServerSideResetOffset=false".into()))
        .await;
    admin.create_topic("t", 1).await;
    for i in 0..4 {
        admin.send("t", 0, "", &i.to_string()).await;
    }
    admin.await_max("t", 0, 4).await;
    let reset = |topic: &str, timestamp, is_force| InvokeBrokerToResetOffset {
        topic: topic.into(),
        group: "g".into(),
        timestamp,
        is_force,
        ..InvokeBrokerToResetOffset::default()
    };
    assert_eq!(
        admin.refused(reset("no", 0, true), ()).await.0,
        codes::TOPIC_NOT_EXIST
    );
    assert_eq!(
        admin.refused(reset("t", 0, true), ()).await,
        (1, "THe consumer group <g> not exist".into())
    );
    admin.heartbeat("c0", "g", "t", "*").await;
    let delays = admin.ok(GetAllDelayOffset, ()).await.1.value;
    assert!(delays.offset_table.is_empty() && delays.data_version.timestamp > 0);
    let commit = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: Some(0),
        commit_offset: Some(2),
        bname: None,
    };
    admin.ok(commit, ()).await;
    let leave = UnregisterClient {
        client_id: "c0".into(),
        consumer_group: Some("g".into()),
        ..UnregisterClient::default()
    };
    admin.ok(leave, ()).await;
    assert_eq!(
        admin.refused(reset("t", 0, true), ()).await,
        (
            codes::CONSUMER_NOT_ONLINE,
            "Consumer not online, so can not reset offset, Group: g Topic: t Timestamp: 0".into()
        )
    );
    let online = Online::new(&broker, "c1", "g", "t").await;
    online.answers(ResetConsumerClientOffset::CODE, 0, None, "");
    for (timestamp, force, goes) in [(0, true, 0), (-1, true, 4), (-1, false, 2), (0, false, 0)] {
        let before = online.asked().len();
        let table = admin
            .ok(reset("t", timestamp, force), ())
            .await
            .1
            .value
            .offset_table;
        assert_eq!(table, BTreeMap::from([(queue("t", 0), goes)]));
        eventually(async || online.asked().len() > before).await;
        let push = online.asked().pop().unwrap();
        assert!(push.is_oneway() && push.code == ResetConsumerClientOffset::CODE);
        let ResetOffsetPush::Table(pushed) = ResetOffsetPush::decode(push.body).unwrap() else {
            panic!("not the table form");
        };
        assert_eq!(pushed.offset_table, table);
    }
    assert!(!online.peer.is_closed());
    let query = QueryConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: 0,
        ..QueryConsumerOffset::default()
    };
    assert_eq!(admin.ok(query, ()).await.0.offset, 2, "the broker keeps no reset");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_compared_and_cloned() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 2).await;
    client.create_topic("u", 1).await;
    for (group, topic, queue_id, offset) in [
        ("a", "t", 0, 5),
        ("a", "t", 1, 9),
        ("b", "t", 0, 3),
        ("c", "t", 0, 1),
        ("a", "u", 0, 7),
    ] {
        client.heartbeat("x", group, topic, "*").await;
        let header = UpdateConsumerOffset {
            consumer_group: group.into(),
            topic: topic.into(),
            queue_id: Some(queue_id),
            commit_offset: Some(offset),
            bname: None,
        };
        client.ok(header, ()).await;
    }
    let correct = async |filter: &str, compare: &str| {
        let header = QueryCorrectionOffset {
            filter_groups: Some(filter.into()),
            compare_group: compare.into(),
            topic: "t".into(),
        };
        client.ok(header, ()).await.1.value.correction_offsets
    };
    assert_eq!(correct("", "none").await, BTreeMap::from([(0, 1), (1, 9)]));
    assert_eq!(correct("c", "none").await, BTreeMap::from([(0, 3), (1, 9)]));
    assert_eq!(
        correct("c", "c").await,
        BTreeMap::from([(0, i64::MAX), (1, 9)]),
        "the group to compare with is behind"
    );
    let clone = async |from: &str, to: &str, topic: Option<&str>| {
        let header = CloneGroupOffset {
            src_group: from.into(),
            dest_group: to.into(),
            topic: topic.map(str::to_owned),
            offline: true,
        };
        client.ask(header, ()).await.code
    };
    assert_eq!(clone("a", "d", Some("t")).await, 0);
    assert_eq!(clone("a", "e", None).await, 0);
    assert_eq!(clone("nobody", "f", None).await, 0);
    assert_eq!(clone("a", "../x", None).await, INVALID);
    let all = client.ok(GetAllConsumerOffset, ()).await.1.value.offset_table;
    assert_eq!(all["t@d"], BTreeMap::from([(0, 5), (1, 9)]));
    assert_eq!(all["u@e"], BTreeMap::from([(0, 7)]));
    assert_eq!(all["t@e"], all["t@d"]);
    assert!(!all.contains_key("u@d") && !all.contains_key("t@f") && !all.contains_key("t@../x"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_takes_only_what_nobody_knows() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    for topic in ["kept", "gone"] {
        client.create_topic(topic, 1).await;
        client.send(topic, 0, "", "x").await;
        client.await_max(topic, 0, 1).await;
    }
    client.ok(CleanExpiredConsumequeue, ()).await;
    client.ok(CleanUnusedTopic, ()).await;
    client.ok(DeleteExpiredCommitlog, ()).await;
    let at_0 = client.pull(pull("gone", 0, 0, "*")).await;
    assert_eq!(bodies(&at_0), ["x"], "nothing has expired, everything is known");
    let dir = broker.stop().await;

    // A table without the topic, as after a restore of an older one.
    for name in ["topics.json", "topics.json.bak"] {
        let path = dir.path().join("config").join(name);
        if let Ok(text) = std::fs::read_to_string(&path) {
            std::fs::write(&path, text.replace("\"gone\"", "\"renamed\"")).unwrap();
        }
    }
    let broker = TestBroker::on(dir, loopback(), |_| {}).await;
    let client = broker.client().await;
    let queues = broker.dir.path().join("consumequeue");
    assert!(queues.join("gone").exists());
    client.ok(CleanUnusedTopic, ()).await;
    assert!(!queues.join("gone").exists());
    assert!(queues.join("kept").exists());
    assert_eq!(bodies(&client.pull(pull("kept", 0, 0, "*")).await), ["x"]);
    broker.stop().await;
}

/// K36: whatever a consumer asks for, code and next offset take it into the range of the queue.
#[tokio::test(flavor = "multi_thread")]
async fn k36_every_offset_around_the_minimum_leads_into_the_queue() {
    let small = |store: &mut rmq::store::StoreConfig| {
        store.mapped_file_size_commit_log = 64 * 1024;
        store.mapped_file_size_consume_queue = 20 * 10;
    };
    let broker = TestBroker::with(loopback(), small).await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let body = "x".repeat(2000);
    for _ in 0..60 {
        client.send("t", 0, "", &body).await;
    }
    client.await_max("t", 0, 60).await;
    let dir = broker.stop().await;
    std::fs::remove_file(dir.path().join("commitlog/00000000000000000000")).unwrap();
    let broker = TestBroker::on(dir, loopback(), small).await;
    let client = broker.client().await;
    let min = client
        .ok(
            GetMinOffset {
                topic: "t".into(),
                ..GetMinOffset::default()
            },
            (),
        )
        .await
        .0
        .offset;
    assert!((1..60).contains(&min), "{min}");
    for commits in [false, true] {
        for asked in [-5, -1, 0, 1, min - 1, min, min + 1, 59, 60, 61, 1000] {
            let mut header = pull("t", 0, asked, "*");
            if commits {
                header.sys_flag |= PullMessage::COMMIT_OFFSET;
                header.commit_offset = 0;
            }
            let answer = client.pull(header).await;
            let next = answer.header::<PullMessageReply>().next_begin_offset.unwrap();
            let expected = match asked {
                n if n < min => (codes::PULL_OFFSET_MOVED, min),
                n if n < 60 => (0, next.max(n + 1)),
                60 => (codes::PULL_NOT_FOUND, 60),
                _ => (codes::PULL_OFFSET_MOVED, 60),
            };
            assert_eq!(
                (answer.code, next),
                expected,
                "asked for {asked}, commits {commits}"
            );
            assert!((min..=60).contains(&next));
        }
    }
    broker.stop().await;
}

/// K37: a closed connection does not give its locks away; the lease does (its end is tested without waiting for it).
#[tokio::test(flavor = "multi_thread")]
async fn k37_a_killed_client_keeps_its_locks_for_the_lease() {
    let config = BrokerConfig {
        channel_expired_timeout: 1000,
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let (killed, other) = (broker.client().await, broker.client().await);
    killed.create_topic("t", 1).await;
    killed.heartbeat("a", "g", "t", "*").await;
    other.heartbeat("b", "g", "t", "*").await;
    let request = |id: &str| {
        Json::new(LockBatchRequest {
            client_id: id.into(),
            consumer_group: "g".into(),
            mq_set: [queue("t", 0)].into(),
            only_this_broker: false,
        })
    };
    let locked = async |client: &Client, id: &str| {
        let answer = client.ok(LockBatchMq, request(id)).await.1.value;
        answer.lock_ok_mq_set.len()
    };
    assert_eq!(locked(&killed, "a").await, 1);
    killed.disconnect();
    let ids = GetConsumerListByGroup {
        consumer_group: "g".into(),
        bname: None,
    };
    eventually(async || {
        let found = other.ask(ids.clone(), ()).await;
        found.code == 0 && found.json::<ConsumerList>().consumer_id_list == ["b"]
    })
    .await;
    assert_eq!(locked(&other, "b").await, 0);
    let again = broker.client().await;
    assert_eq!(locked(&again, "a").await, 1, "back on another connection");
    broker.stop().await;
}

/// A Java store with batch queues, light queues and a queue extension serves its messages over the wire.
#[tokio::test(flavor = "multi_thread")]
async fn a_java_store_with_unusual_queues_is_served() {
    let golden = crate::store_golden::Golden::unpack("features");
    let store = rmq::store::StoreConfig {
        enable_lmq: true,
        ..golden.config()
    };
    let broker = rmq::broker::Broker::start(loopback(), store).await.unwrap();
    let client = Client::new(&broker.addr().to_string()).await;
    let batches = client.pull(pull("g_bcq", 0, 0, "*")).await;
    let header: PullMessageReply = batches.header();
    assert_eq!((batches.code, header.next_begin_offset), (0, Some(23)));
    assert_eq!(batches.body.len(), 6197);
    let light = client.pull(pull("%LMQ%one", 0, 4, "*")).await;
    assert_eq!((light.code, bodies(&light).len()), (0, 4));
    assert_eq!(
        client.pull(pull("%LMQ%none", 0, 0, "*")).await.code,
        codes::TOPIC_NOT_EXIST
    );
    let all = client.pull(pull("g_ext", 0, 0, "*")).await;
    let tags: Vec<String> = rmq::protocol::message::records(&all.body)
        .map(|record| {
            record
                .unwrap()
                .properties()
                .get("TAGS")
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    let tag = tags.iter().find(|tag| !tag.is_empty()).unwrap();
    let some = client.pull(pull("g_ext", 0, 0, tag)).await;
    let wanted = tags.iter().filter(|t| *t == tag).count();
    assert!(wanted < tags.len());
    let got: Vec<String> = rmq::protocol::message::records(&some.body)
        .map(|record| {
            record
                .unwrap()
                .properties()
                .get("TAGS")
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    assert!(got.len() >= wanted && got.iter().all(|t| t == tag), "{got:?}");
    broker.stop().await.unwrap();
}
