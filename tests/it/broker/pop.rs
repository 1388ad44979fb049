//! Pop consumers over sockets: what is handed out, acknowledged, hidden for longer, and comes back.

use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::broker::BrokerConfig;
use rmq::protocol::body::{
    BatchAck, BatchAckRequest, MessageModel, MessageRequestMode, MessageRequestModes, QueryAssignmentAnswer,
    QueryAssignmentRequest, SetMessageRequestModeRequest,
};
use rmq::protocol::message::{MessageView, records};
use rmq::protocol::properties::names;
use rmq::protocol::requests::*;
use rmq::protocol::{Json, codes};

use super::support::*;

pub fn pop(topic: &str, queue_id: i32, most: i32, invisible_ms: i64) -> PopMessage {
    PopMessage {
        consumer_group: "cg".into(),
        topic: topic.into(),
        queue_id,
        max_msg_nums: most,
        invisible_time: invisible_ms,
        ..PopMessage::default()
    }
}

/// A pop that may be held.
pub fn held(mut header: PopMessage, poll_ms: i64) -> PopMessage {
    header.poll_time = poll_ms;
    header.born_time = now_ms();
    header
}

/// One message of a pop, with what its client keeps of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub body: String,
    pub topic: String,
    pub queue_id: i32,
    pub offset: i64,
    pub handle: String,
    pub times: i32,
    pub first_pop: Option<i64>,
}

/// Messages of an answer with their handles, made as Java's client makes them.
pub fn got(answer: &Answered, asked: &str) -> Vec<Got> {
    let reply: PopMessageReply = answer.header();
    let start = |mark: &str, queue_id: i32| {
        let all = reply.start_offset_info.clone().unwrap_or_default();
        let of = format!("{mark} {queue_id} ");
        let found = all
            .split(';')
            .find_map(|one| one.strip_prefix(&of).map(str::to_owned));
        found.unwrap_or_else(|| panic!("{of:?} in {all:?}"))
    };
    let one = |view: MessageView<'_>| {
        let properties = view.properties();
        let handle = properties.get(names::POP_CK).map_or_else(
            || {
                let mark = if view.topic() == asked { "0" } else { "1" };
                format!(
                    "{} {} {} {} {mark} broker-t {} {}",
                    start(mark, view.queue_id()),
                    reply.pop_time,
                    reply.invisible_time,
                    reply.revive_qid,
                    view.queue_id(),
                    view.queue_offset()
                )
            },
            str::to_owned,
        );
        Got {
            body: String::from_utf8(view.body().to_vec()).unwrap(),
            topic: view.topic().to_owned(),
            queue_id: view.queue_id(),
            offset: view.queue_offset(),
            handle,
            times: view.reconsume_times(),
            first_pop: properties
                .get(names::FIRST_POP_TIME)
                .map(|ms| ms.parse().unwrap()),
        }
    };
    records(&answer.body).map(|record| one(record.unwrap())).collect()
}

/// The topic that an acknowledgement names.
pub fn real_topic(got: &Got, topic: &str) -> String {
    match got.handle.split(' ').nth(4) {
        Some("1") => format!("%RETRY%cg_{topic}"),
        Some("2") => format!("%RETRY%cg+{topic}"),
        _ => topic.to_owned(),
    }
}

pub fn ack_of(got: &Got, topic: &str) -> AckMessage {
    AckMessage {
        consumer_group: "cg".into(),
        topic: real_topic(got, topic),
        queue_id: got.queue_id,
        extra_info: got.handle.clone(),
        offset: got.offset,
        bname: None,
    }
}

pub fn change_of(got: &Got, topic: &str, invisible_ms: i64) -> ChangeMessageInvisibletime {
    let ack = ack_of(got, topic);
    ChangeMessageInvisibletime {
        consumer_group: ack.consumer_group,
        topic: ack.topic,
        queue_id: ack.queue_id,
        extra_info: ack.extra_info,
        offset: ack.offset,
        invisible_time: invisible_ms,
        bname: None,
    }
}

/// A topic with messages m0, m1…, all in queue 0.
pub async fn filled(client: &Client, topic: &str, count: usize) {
    client.create_topic(topic, 1).await;
    for n in 0..count {
        client.send(topic, 0, "", &format!("m{n}")).await;
    }
    client.await_max(topic, 0, count as i64).await;
}

/// Pops until so many messages came.
pub async fn pop_until(
    client: &Client,
    topic: &str,
    count: usize,
    invisible_ms: i64,
    limit: Duration,
) -> Vec<Got> {
    let begin = Instant::now();
    let mut all = Vec::new();
    while all.len() < count {
        assert!(begin.elapsed() < limit, "only {all:?} within {limit:?}");
        let answer = client.ask(held(pop(topic, -1, 32, invisible_ms), 1000), ()).await;
        all.extend(got(&answer, topic));
    }
    all
}

fn names_of(all: &[Got]) -> Vec<&str> {
    all.iter().map(|one| one.body.as_str()).collect()
}

async fn stats(client: &Client, topic: &str) -> (i64, i64) {
    let header = GetConsumeStats {
        consumer_group: "cg".into(),
        topic: Some(topic.into()),
        ..GetConsumeStats::default()
    };
    let table = client.ok(header, ()).await.1.value.offset_table;
    let lag = table.values().map(|one| one.lag()).sum();
    (lag, table.values().map(|one| one.in_flight()).sum())
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_handed_out_once_and_counted() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 10).await;
    let answer = client.ask(pop("t", 0, 4, 60_000), ()).await;
    assert_eq!((answer.code, answer.remark.as_str()), (0, "FOUND"));
    let reply: PopMessageReply = answer.header();
    // Shapes of protocol.md 9.14.
    assert_eq!(reply.start_offset_info.as_deref(), Some("0 0 0"));
    assert_eq!(reply.msg_offset_info.as_deref(), Some("0 0 0,1,2,3"));
    assert_eq!((reply.rest_num, reply.invisible_time), (6, 60_000));
    assert_eq!(reply.order_count_info, None);
    assert!((0..8).contains(&reply.revive_qid) && (now_ms() - reply.pop_time).abs() < 5000);
    let first = got(&answer, "t");
    assert_eq!(names_of(&first), ["m0", "m1", "m2", "m3"]);
    assert_eq!(
        stats(&client, "t").await,
        (10, 4),
        "what is handed out is not consumed"
    );

    let other = server.client().await;
    let answer = other.ask(pop("t", -1, 32, 60_000), ()).await;
    let reply: PopMessageReply = answer.header();
    assert_eq!(reply.start_offset_info.as_deref(), Some("0 0 4"));
    let second = got(&answer, "t");
    assert_eq!(second.len(), 6);
    for one in first.iter().chain(&second) {
        client.ok(ack_of(one, "t"), ()).await;
    }
    assert_eq!(stats(&client, "t").await, (0, 0));
    let answer = client.ask(pop("t", -1, 32, 60_000), ()).await;
    assert_eq!(answer.code, codes::POLLING_TIMEOUT);
    let reply: PopMessageReply = answer.header();
    assert_eq!(
        reply.invisible_time, 60_000,
        "clients read the numbers of this answer too"
    );
    for (name, key, sum) in [
        ("GROUP_ACK_NUMS", "t@cg", 10),
        ("GROUP_CK_NUMS", "t@cg", 2),
        ("BROKER_ACK_NUMS", "DefaultCluster", 10),
        ("GROUP_GET_NUMS", "t@cg", 10),
    ] {
        let header = ViewBrokerStatsData {
            stats_name: name.into(),
            stats_key: key.into(),
        };
        eventually(async || client.ok(header.clone(), ()).await.1.value.stats_minute.sum == sum).await;
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_acknowledged_comes_back_through_the_retry_topic() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 4).await;
    let begin = now_ms();
    let first = got(&client.ask(pop("t", 0, 32, 1500), ()).await, "t");
    assert_eq!(first.len(), 4);
    for one in &first {
        if one.body != "m2" {
            client.ok(ack_of(one, "t"), ()).await;
        }
    }
    let again = pop_until(&client, "t", 1, 60_000, Duration::from_secs(20)).await;
    assert!(now_ms() - begin >= 1500, "too early");
    assert_eq!(names_of(&again), ["m2"]);
    let one = &again[0];
    assert_eq!(
        (one.topic.as_str(), one.times, one.queue_id, one.offset),
        ("t", 1, 0, 0)
    );
    let parts: Vec<&str> = one.handle.split(' ').collect();
    assert_eq!(parts[4..], ["1", "broker-t", "0", "0"]);
    assert!(one.first_pop.is_some_and(|ms| ms >= begin && ms < begin + 1500));
    // The message is in the retry topic first, and off the other one then.
    eventually(async || stats(&client, "t").await == (0, 0)).await;
    assert_eq!(stats(&client, "%RETRY%cg_t").await, (1, 1));
    client.ok(ack_of(one, "t"), ()).await;
    assert_eq!(stats(&client, "%RETRY%cg_t").await, (0, 0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_can_be_hidden_for_longer_or_shorter() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 2).await;
    let first = got(&client.ask(pop("t", 0, 32, 60_000), ()).await, "t");
    let asked = now_ms();
    let (reply, ()) = client.ok(change_of(&first[0], "t", 1000), ()).await;
    assert_eq!(reply.invisible_time, 1000);
    assert!(reply.pop_time >= asked);
    let again = pop_until(&client, "t", 1, 60_000, Duration::from_secs(20)).await;
    assert_eq!(names_of(&again), ["m0"]);
    assert!(now_ms() - asked >= 1000);
    // The other one is still the first handle's, and can be hidden twice.
    let (reply, ()) = client.ok(change_of(&first[1], "t", 30_000), ()).await;
    let handle = format!(
        "{} {} {} {} 0 broker-t 0 1",
        first[1].offset, reply.pop_time, reply.invisible_time, reply.revive_qid
    );
    let renewed = Got {
        handle,
        ..first[1].clone()
    };
    client.ok(change_of(&renewed, "t", 800), ()).await;
    let again = pop_until(&client, "t", 1, 60_000, Duration::from_secs(20)).await;
    assert_eq!(names_of(&again), ["m1"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_acknowledges_several_pops() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 12).await;
    let answer = client.ask(pop("t", 0, 10, 1500), ()).await;
    let reply: PopMessageReply = answer.header();
    let batch = |bits: &str, rq: i32| BatchAck {
        bit_set: bits.into(),
        consumer_group: "cg".into(),
        invisible_time: reply.invisible_time,
        pop_time: reply.pop_time,
        queue_id: 0,
        retry: "0".into(),
        revive_queue_id: rq,
        start_offset: 0,
        topic: "t".into(),
    };
    // Bits 0, 3 and 9 (protocol.md 8.14), then 1, 2 and 4 to 7, and 200 which is not in the queue.
    let many = "9gAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE=";
    let body = BatchAckRequest {
        acks: vec![batch("CQI=", reply.revive_qid), batch(many, reply.revive_qid)],
        broker_name: Some("broker-t".into()),
    };
    client.ok(BatchAckMessage, Some(Json::new(body))).await;
    assert_eq!(stats(&client, "t").await, (3, 1), "m8 of the ten, m10 and m11");
    let again = pop_until(&client, "t", 3, 60_000, Duration::from_secs(20)).await;
    let mut names = names_of(&again);
    names.sort_unstable();
    assert_eq!(names, ["m10", "m11", "m8"]);
    for body in [None, Some(Json::new(BatchAckRequest::default()))] {
        assert_eq!(client.refused(BatchAckMessage, body).await.0, codes::NO_MESSAGE);
    }
    let long = BatchAckRequest {
        acks: vec![batch(&"A".repeat(64 * 1024 + 4), 0)],
        broker_name: None,
    };
    let (code, remark) = client.refused(BatchAckMessage, Some(Json::new(long))).await;
    assert!(code == INVALID && remark.contains("too long"), "{code} {remark}");
    // A long batch takes turns with the others; what is acknowledged twice is no fault.
    let thousand = BatchAckRequest {
        acks: vec![batch("CQI=", reply.revive_qid); 1000],
        broker_name: None,
    };
    client.ok(BatchAckMessage, Some(Json::new(thousand))).await;
    let bad = BatchAckRequest {
        acks: vec![batch("CQI=", 4711), batch("?", 0)],
        broker_name: None,
    };
    assert_eq!(
        client.refused(BatchAckMessage, Some(Json::new(bad))).await.0,
        INVALID
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pops_wait_in_line_for_messages() {
    let config = BrokerConfig {
        max_pop_polling_size: 2,
        ..loopback()
    };
    let server = TestBroker::with(config, |_| {}).await;
    let client = server.client().await;
    client.create_topic("t", 4).await;
    let polling = async |queue_id: i32| {
        let header = PollingInfo {
            consumer_group: "cg".into(),
            topic: "t".into(),
            queue_id,
        };
        client.ok(header, ()).await.0.polling_num
    };
    let (first, second) = (server.client().await, server.client().await);
    let one = first.ask(held(pop("t", -1, 1, 60_000), 20_000), ());
    let two = second.ask(held(pop("t", 2, 1, 60_000), 20_000), ());
    let rest = async {
        eventually(async || polling(-1).await == 1 && polling(2).await == 1).await;
        let full = client.ask(held(pop("t", -1, 1, 60_000), 5000), ()).await;
        assert_eq!(full.code, codes::POLLING_FULL);
        let full = Notification {
            consumer_group: "cg".into(),
            topic: "t".into(),
            queue_id: -1,
            ..Notification::default()
        };
        assert!(!client.ok(full, ()).await.0.has_msg);
        client.send("t", 2, "", "a").await;
        client.send("t", 2, "", "b").await;
    };
    let begin = Instant::now();
    let (one, two, ()) = tokio::join!(one, two, rest);
    assert!(begin.elapsed() < Duration::from_secs(10));
    let mut names = [got(&one, "t"), got(&two, "t")].concat();
    names.sort_by(|a, b| a.body.cmp(&b.body));
    assert_eq!(names_of(&names), ["a", "b"]);
    assert_eq!((polling(-1).await, polling(2).await), (0, 0));

    let begin = Instant::now();
    let nothing = client.ask(held(pop("t", -1, 1, 60_000), 700), ()).await;
    assert_eq!(nothing.code, codes::POLLING_TIMEOUT);
    assert!(begin.elapsed() >= Duration::from_millis(600) && begin.elapsed() < Duration::from_secs(5));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_leaves_the_line_passes_its_wake_on() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    client.create_topic("t", 1).await;
    let polling = async || {
        let header = PollingInfo {
            consumer_group: "cg".into(),
            topic: "t".into(),
            queue_id: -1,
        };
        client.ok(header, ()).await.0.polling_num
    };
    let (gone, stays) = (server.client().await, server.client().await);
    let gone_peer = gone.peer.clone();
    let lost = tokio::spawn(async move { gone.ask(held(pop("t", -1, 1, 60_000), 20_000), ()).await.code });
    eventually(async || polling().await == 1).await;
    let waiting = stays.ask(held(pop("t", -1, 1, 60_000), 20_000), ());
    let rest = async {
        eventually(async || polling().await == 2).await;
        gone_peer.close();
        client.send("t", 0, "", "m").await;
    };
    let begin = Instant::now();
    let (answer, ()) = tokio::join!(waiting, rest);
    // Either the one that left had it, or the other; nobody waits beside a message.
    assert!(answer.code == 0 || stats(&client, "t").await.1 == 1);
    assert!(begin.elapsed() < Duration::from_secs(20));
    lost.abort();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_notification_tells_of_messages_without_taking_them() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    client.create_topic("t", 2).await;
    let ask = |poll_time: i64| Notification {
        consumer_group: "cg".into(),
        topic: "t".into(),
        queue_id: -1,
        poll_time,
        born_time: now_ms(),
        ..Notification::default()
    };
    assert!(!client.ok(ask(300), ()).await.0.has_msg);
    let other = server.client().await;
    let waiting = other.ok(ask(9000), ());
    let sending = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.send("t", 1, "", "m").await;
    };
    let (answer, _) = tokio::join!(waiting, sending);
    assert!(answer.0.has_msg && !answer.0.polling_full);
    let peek = PeekMessage {
        consumer_group: "cg".into(),
        topic: "t".into(),
        queue_id: -1,
        max_msg_nums: 9,
    };
    for _ in 0..2 {
        let answer = client.ask(peek.clone(), ()).await;
        assert_eq!((answer.code, bodies(&answer)), (0, vec!["m".to_owned()]));
        assert_eq!(answer.header::<PopMessageReply>().rest_num, 1);
    }
    assert_eq!(got(&client.ask(pop("t", 1, 9, 60_000), ()).await, "t").len(), 1);
    let answer = client.ask(peek, ()).await;
    assert_eq!(answer.code, codes::PULL_NOT_FOUND);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordered_pop_blocks_its_queue() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 6).await;
    let ordered = |attempt: &str, invisible_ms: i64| PopMessage {
        order: true,
        attempt_id: Some(attempt.into()),
        ..pop("t", -1, 3, invisible_ms)
    };
    let answer = client.ask(ordered("a", 60_000), ()).await;
    let reply: PopMessageReply = answer.header();
    assert_eq!(reply.revive_qid, 999);
    assert_eq!(reply.order_count_info.as_deref(), Some("0 0 0"));
    let first = got(&answer, "t");
    assert_eq!(names_of(&first), ["m0", "m1", "m2"]);
    assert_eq!(stats(&client, "t").await, (6, 3));
    assert_eq!(
        client.ask(ordered("b", 60_000), ()).await.code,
        codes::POLLING_TIMEOUT
    );
    let same = got(&client.ask(ordered("a", 60_000), ()).await, "t");
    assert_eq!(
        names_of(&same),
        ["m0", "m1", "m2"],
        "the same attempt may ask again"
    );
    // A handle of the pop before is stale, one of a message that was not handed out is refused.
    client.ok(ack_of(&first[0], "t"), ()).await;
    assert_eq!(
        client.ask(ordered("b", 60_000), ()).await.code,
        codes::POLLING_TIMEOUT
    );
    let stranger = AckMessage {
        offset: 5,
        ..ack_of(&same[0], "t")
    };
    assert_eq!(client.refused(stranger, ()).await.0, codes::MESSAGE_ILLEGAL);
    client.ok(ack_of(&same[0], "t"), ()).await;
    client.ok(ack_of(&same[2], "t"), ()).await;
    // A held pop gets the queue when the last message is acknowledged.
    let other = server.client().await;
    let waiting = other.ask(held(ordered("b", 800), 9000), ());
    let acking = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.ok(ack_of(&same[1], "t"), ()).await;
    };
    let (answer, ()) = tokio::join!(waiting, acking);
    assert_eq!(names_of(&got(&answer, "t")), ["m3", "m4", "m5"]);
    // Not acknowledged, they come again from the same queue, counted, when their time is over.
    let begin = Instant::now();
    let answer = other.ask(held(ordered("c", 60_000), 9000), ()).await;
    assert!(begin.elapsed() > Duration::from_millis(300) && begin.elapsed() < Duration::from_secs(5));
    let again = got(&answer, "t");
    assert_eq!(names_of(&again), ["m3", "m4", "m5"]);
    let counts: PopMessageReply = answer.header();
    assert_eq!(
        counts.order_count_info.as_deref(),
        Some("0 qo0%3 1;0 qo0%4 1;0 qo0%5 1;0 0 1")
    );
    // Shown again at once when their client says so.
    for one in &again {
        client.ok(change_of(one, "t", 0), ()).await;
    }
    let answer = client.ask(held(ordered("d", 60_000), 5000), ()).await;
    assert_eq!(got(&answer, "t").len(), 3);
    // And after a restart the queue is still blocked.
    let dir = server.stop().await;
    let server = TestBroker::on(dir, loopback(), |_| {}).await;
    let client = server.client().await;
    assert_eq!(
        client.ask(ordered("e", 60_000), ()).await.code,
        codes::POLLING_TIMEOUT
    );
    assert_eq!(got(&client.ask(ordered("d", 60_000), ()).await, "t").len(), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_moves_a_pop_group() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 5).await;
    let first = got(&client.ask(pop("t", 0, 32, 60_000), ()).await, "t");
    assert_eq!(first.len(), 5);
    let reset = InvokeBrokerToResetOffset {
        topic: "t".into(),
        group: "cg".into(),
        queue_id: 0,
        offset: Some(3),
        ..InvokeBrokerToResetOffset::default()
    };
    client.ok(reset, ()).await;
    let again = got(&client.ask(pop("t", 0, 32, 60_000), ()).await, "t");
    assert_eq!(names_of(&again), ["m3", "m4"]);
    // A group that begins at the end gets the last message, unless the queue is young and hot.
    let mut late = pop("t", 0, 32, 60_000);
    late.consumer_group = "late".into();
    late.init_mode = PopMessage::FROM_MAX;
    assert_eq!(
        client
            .ask(late.clone(), ())
            .await
            .header::<PopMessageReply>()
            .msg_offset_info
            .as_deref(),
        Some("0 0 0,1,2,3,4")
    );
    server.stop().await;
    let config = BrokerConfig {
        init_pop_offset_by_check_msg_in_mem: false,
        ..loopback()
    };
    let server = TestBroker::with(config, |_| {}).await;
    let client = server.client().await;
    filled(&client, "t", 5).await;
    let answer = client.ask(late, ()).await;
    assert_eq!(
        answer.header::<PopMessageReply>().msg_offset_info.as_deref(),
        Some("0 0 4")
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_drop_what_is_not_asked_for() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    client.create_topic("t", 1).await;
    for n in 0..20 {
        let tag = if n % 10 == 7 { "yes" } else { "no" };
        client.send("t", 0, tag, &format!("m{n}")).await;
    }
    client.await_max("t", 0, 20).await;
    let mut header = pop("t", 0, 32, 1500);
    header.exp = Some("yes".into());
    let answer = client.ask(header.clone(), ()).await;
    assert_eq!(
        answer.header::<PopMessageReply>().msg_offset_info.as_deref(),
        Some("0 0 7,17")
    );
    let first = got(&answer, "t");
    client.ok(ack_of(&first[0], "t"), ()).await;
    assert_eq!(stats(&client, "t").await, (1, 1));
    let begin = Instant::now();
    let again = loop {
        let answer = client.ask(held(header.clone(), 1000), ()).await;
        if !answer.body.is_empty() {
            break got(&answer, "t");
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
    };
    assert_eq!(names_of(&again), ["m17"], "a retried message has its tag");
    header.exp_type = Some("SQL92".into());
    header.exp = Some("a >".into());
    assert_eq!(
        client.ask(header, ()).await.code,
        codes::SUBSCRIPTION_PARSE_FAILED
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_never_acknowledged_dies() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 1).await;
    let group = rmq::protocol::body::SubscriptionGroupConfig {
        group_name: "cg".into(),
        retry_max_times: 1,
        ..rmq::protocol::body::SubscriptionGroupConfig::default()
    };
    client
        .ok(UpdateAndCreateSubscriptiongroup, Some(Json::new(group)))
        .await;
    let times: Vec<i32> = pop_until(&client, "t", 2, 500, Duration::from_secs(30))
        .await
        .iter()
        .map(|one| one.times)
        .collect();
    assert_eq!(times, [0, 1]);
    client.await_max("%DLQ%cg", 0, 1).await;
    let dead = client.pull(pull("%DLQ%cg", 0, 0, "*")).await;
    assert_eq!(bodies(&dead), ["m0"]);
    let nothing = client.ask(held(pop("t", -1, 32, 500), 500), ()).await;
    assert_eq!(nothing.code, codes::POLLING_TIMEOUT);
    server.stop().await;
}

/// K40 (#8479, #9956, #10985, #7412).
#[tokio::test(flavor = "multi_thread")]
async fn k40_a_deleted_topic_does_not_keep_others_from_coming_back() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "gone", 3).await;
    filled(&client, "again", 3).await;
    filled(&client, "t", 3).await;
    let mut popped = 0;
    // More pops than revive queues, so that each queue has checkpoints of the deleted topics before others.
    for _ in 0..3 {
        for topic in ["gone", "again", "t"] {
            popped += got(&client.ask(pop(topic, 0, 1, 2000), ()).await, topic).len();
        }
    }
    assert_eq!(popped, 9);
    for topic in ["gone", "again"] {
        client.ok(DeleteTopicInBroker { topic: topic.into() }, ()).await;
    }
    filled(&client, "again", 1).await;
    let begin = Instant::now();
    let back = pop_until(&client, "t", 3, 60_000, Duration::from_secs(10)).await;
    assert!(begin.elapsed() < Duration::from_secs(10));
    let mut names = names_of(&back);
    names.sort_unstable();
    assert_eq!(names, ["m0", "m1", "m2"]);
    // What was popped of the old one may come for the new one's message: once too often, never too seldom.
    let new = got(&client.ask(pop("again", -1, 9, 60_000), ()).await, "again");
    assert!(new.iter().all(|one| one.body == "m0") && !new.is_empty());
    assert!(client.ask(pop("gone", 0, 9, 60_000), ()).await.code == codes::TOPIC_NOT_EXIST);
    server.stop().await;
}

/// K40, the message itself: one that cannot be read is tried again ten seconds later, and comes back when it can be.
#[tokio::test(flavor = "multi_thread")]
async fn k40_a_message_that_cannot_be_read_comes_back_when_it_can() {
    use std::os::unix::fs::FileExt;
    let server = TestBroker::start().await;
    let client = server.client().await;
    client.create_topic("t", 1).await;
    let sent = client.send("t", 0, "", "m0").await;
    let at = u64::from_str_radix(&sent.msg_id[16..32], 16).unwrap();
    client.await_max("t", 0, 1).await;
    let begin = Instant::now();
    assert_eq!(got(&client.ask(pop("t", 0, 1, 1000), ()).await, "t").len(), 1);
    let log = server.dir.path().join("commitlog/00000000000000000000");
    let log = std::fs::File::options().read(true).write(true).open(log).unwrap();
    // The magic number of a record.
    let mut magic = [0; 4];
    log.read_exact_at(&mut magic, at + 4).unwrap();
    log.write_all_at(&[0; 4], at + 4).unwrap();
    while begin.elapsed() < Duration::from_secs(5) {
        let answer = client.ask(held(pop("t", -1, 1, 60_000), 1000), ()).await;
        assert_eq!(answer.code, codes::POLLING_TIMEOUT);
    }
    log.write_all_at(&magic, at + 4).unwrap();
    let back = pop_until(&client, "t", 1, 60_000, Duration::from_secs(20)).await;
    assert_eq!((names_of(&back), back[0].times), (vec!["m0"], 1));
    assert!(begin.elapsed() > Duration::from_secs(11), "{:?}", begin.elapsed());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retry_topics_have_new_names_where_that_is_set() {
    let config = BrokerConfig {
        enable_retry_topic_v2: true,
        pop_response_return_actual_retry_topic: true,
        ..loopback()
    };
    let server = TestBroker::with(config, |_| {}).await;
    let client = server.client().await;
    filled(&client, "t", 1).await;
    assert_eq!(got(&client.ask(pop("t", 0, 1, 300), ()).await, "t").len(), 1);
    let begin = Instant::now();
    let answer = loop {
        let answer = client.ask(held(pop("t", -1, 32, 60_000), 1000), ()).await;
        if answer.code == 0 {
            break answer;
        }
        assert!(begin.elapsed() < Duration::from_secs(20));
    };
    let reply: PopMessageReply = answer.header();
    assert_eq!(reply.start_offset_info.as_deref(), Some("2 0 0"));
    let record = records(&answer.body).next().unwrap().unwrap();
    assert_eq!(record.topic(), "%RETRY%cg+t");
    client.ok(DeleteTopicInBroker { topic: "t".into() }, ()).await;
    let header = GetTopicConfig {
        topic: "%RETRY%cg+t".into(),
        lo: None,
    };
    assert_eq!(
        client.refused(header, ()).await.0,
        codes::TOPIC_NOT_EXIST,
        "it went with its topic"
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_pops_are_refused() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 2).await;
    client
        .create_topic_with("closed", 1, 1, rmq::protocol::model::Perm::WRITE)
        .await;
    let base = pop("t", 0, 1, 60_000);
    let with = |change: fn(&mut PopMessage)| {
        let mut header = base.clone();
        change(&mut header);
        header
    };
    // Codes of protocol.md 10.5.
    for (header, code) in [
        (with(|h| h.born_time = 1000), codes::POLLING_TIMEOUT),
        (with(|h| h.max_msg_nums = 33), INVALID),
        (with(|h| h.max_msg_nums = 0), INVALID),
        (with(|h| h.max_msg_nums = i32::MIN), INVALID),
        (with(|h| h.topic = "missing".into()), codes::TOPIC_NOT_EXIST),
        (with(|h| h.topic = "../t".into()), codes::TOPIC_NOT_EXIST),
        (with(|h| h.topic = "closed".into()), codes::NO_PERMISSION),
        (with(|h| h.queue_id = 1), INVALID),
        (with(|h| h.queue_id = i32::MAX), INVALID),
        (
            with(|h| h.consumer_group = "a/b".into()),
            codes::SUBSCRIPTION_GROUP_NOT_EXIST,
        ),
        (
            with(|h| h.consumer_group = String::new()),
            codes::SUBSCRIPTION_GROUP_NOT_EXIST,
        ),
        (with(|h| h.consumer_group = "g".repeat(250)), INVALID),
        (with(|h| h.invisible_time = -1), INVALID),
        (with(|h| h.invisible_time = i64::MAX), INVALID),
        (
            with(|h| h.exp = Some("||".into())),
            codes::SUBSCRIPTION_PARSE_FAILED,
        ),
    ] {
        let answer = client.ask(header.clone(), ()).await;
        assert_eq!(answer.code, code, "{header:?}: {}", answer.remark);
        assert_eq!(
            answer.header::<PopMessageReply>().pop_time,
            0,
            "with numbers to read"
        );
    }
    let popped = got(&client.ask(base, ()).await, "t");
    let good = ack_of(&popped[0], "t");
    let ack = |change: &dyn Fn(&mut AckMessage)| {
        let mut header = good.clone();
        change(&mut header);
        header
    };
    let handle = |n: usize, part: &str| {
        let mut parts: Vec<&str> = good.extra_info.split(' ').collect();
        parts[n] = part;
        parts.join(" ")
    };
    let future = (now_ms() + 3_600_000).to_string();
    for (header, code) in [
        (ack(&|h| h.topic = "missing".into()), codes::TOPIC_NOT_EXIST),
        (ack(&|h| h.queue_id = 1), codes::MESSAGE_ILLEGAL),
        (ack(&|h| h.queue_id = -1), codes::MESSAGE_ILLEGAL),
        (ack(&|h| h.offset = 99), codes::NO_MESSAGE),
        (ack(&|h| h.offset = -1), codes::NO_MESSAGE),
        (
            ack(&|h| h.consumer_group = "unknown".into()),
            codes::SUBSCRIPTION_GROUP_NOT_EXIST,
        ),
        (ack(&|h| h.extra_info = String::new()), INVALID),
        (ack(&|h| h.extra_info = "x".repeat(5000)), INVALID),
        (ack(&|h| h.extra_info = handle(3, "8")), INVALID),
        (ack(&|h| h.extra_info = handle(3, "2147483647")), INVALID),
        (ack(&|h| h.extra_info = handle(1, &future)), INVALID),
        (ack(&|h| h.extra_info = handle(2, "9223372036854775807")), INVALID),
    ] {
        let (refused, remark) = client.refused(header.clone(), ()).await;
        assert_eq!(refused, code, "{header:?}: {remark}");
        if code == codes::NO_MESSAGE || code == codes::TOPIC_NOT_EXIST {
            continue;
        }
        let change = ChangeMessageInvisibletime {
            consumer_group: header.consumer_group,
            topic: header.topic,
            queue_id: header.queue_id,
            extra_info: header.extra_info,
            offset: header.offset,
            invisible_time: 1000,
            bname: None,
        };
        let answer = client.ask(change, ()).await;
        assert_eq!(answer.code, code, "{}", answer.remark);
        answer.header::<ChangeMessageInvisibletimeReply>();
    }
    let mut change = change_of(&popped[0], "t", -5);
    assert_eq!(client.ask(change.clone(), ()).await.code, INVALID);
    (change.offset, change.invisible_time) = (2, 5);
    assert_eq!(
        client.ask(change, ()).await.code,
        codes::NO_MESSAGE,
        "the end is no message"
    );
    client.ok(good, ()).await;
    // The fast port has neither pops nor what waits like them.
    let fast = format!("127.0.0.1:{}", server.broker.addr().port() - 2);
    let fast = Client::new(&fast).await;
    let answer = fast.ask(pop("t", 0, 1, 1000), ()).await;
    assert_eq!(answer.code, codes::REQUEST_CODE_NOT_SUPPORTED);
    server.stop().await;
}

/// Garbage in the revive topic, which no client may make but an old tool might, stops nothing.
#[tokio::test(flavor = "multi_thread")]
async fn garbage_among_checkpoints_is_passed_over() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    filled(&client, "t", 8).await;
    let revive = "rmq_sys_REVIVE_LOG_DefaultCluster";
    for queue_id in 0..8 {
        for (tag, body) in [
            ("ck", "{"),
            ("ck", "{}"),
            (
                "ck",
                r#"{"t":"t","c":"cg","n":127,"so":-5,"pt":1,"it":1,"d":[-7,99999]}"#,
            ),
            ("ack", "[]"),
            ("bAck", r#"{"aol":"x"}"#),
            ("", "nothing"),
        ] {
            let header = SendMessageV2 {
                properties: if tag.is_empty() {
                    String::new()
                } else {
                    format!("TAGS\u{1}{tag}\u{2}")
                },
                ..message(revive, queue_id)
            };
            let answer = client.ask(header, Bytes::copy_from_slice(body.as_bytes())).await;
            assert!(
                answer.code == 0 || answer.code == codes::NO_PERMISSION,
                "{}",
                answer.remark
            );
        }
    }
    for _ in 0..8 {
        assert_eq!(got(&client.ask(pop("t", 0, 1, 300), ()).await, "t").len(), 1);
    }
    let back = pop_until(&client, "t", 8, 60_000, Duration::from_secs(20)).await;
    assert!(back.iter().all(|one| one.times == 1 || one.times == 0));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_broker_shares_queues_among_clients() {
    let server = TestBroker::start().await;
    let client = server.client().await;
    let other = server.client().await;
    client.create_topic("t", 4).await;
    client.heartbeat("c1", "cg", "t", "*").await;
    other.heartbeat("c2", "cg", "t", "*").await;
    let ask = |topic: &str, client_id: &str, strategy: &str| {
        Json::new(QueryAssignmentRequest {
            client_id: client_id.into(),
            consumer_group: "cg".into(),
            message_model: MessageModel::Clustering,
            strategy_name: strategy.into(),
            topic: topic.into(),
        })
    };
    let assigned = async |topic: &str, client_id: &str, strategy: &str| {
        let answer = client
            .ok(QueryAssignment, ask(topic, client_id, strategy))
            .await
            .1
            .value;
        let QueryAssignmentAnswer {
            message_queue_assignments: list,
        } = answer;
        list.map(|list| {
            let one = |a: rmq::protocol::body::MessageQueueAssignment| (a.message_queue.queue_id, a.mode);
            list.into_iter().map(one).collect::<Vec<_>>()
        })
    };
    use MessageRequestMode::{Pop, Pull};
    assert_eq!(assigned("t", "c1", "AVG").await, Some(vec![(0, Pull), (1, Pull)]));
    assert_eq!(
        assigned("t", "c2", "AVG_BY_CIRCLE").await,
        Some(vec![(1, Pull), (3, Pull)])
    );
    assert_eq!(assigned("t", "c1", "NONSENSE").await, None);
    assert_eq!(assigned("missing", "c1", "AVG").await, None);
    assert_eq!(assigned("t", "stranger", "AVG").await, Some(vec![]));
    let set = |topic: &str, group: &str| {
        Json::new(SetMessageRequestModeRequest {
            consumer_group: group.into(),
            mode: Pop,
            pop_share_queue_num: 8,
            topic: topic.into(),
        })
    };
    client.ok(SetMessageRequestMode, set("t", "cg")).await;
    assert_eq!(assigned("t", "c1", "AVG").await, Some(vec![(-1, Pop)]));
    for (topic, group, code) in [
        ("%RETRY%cg", "cg", codes::NO_PERMISSION),
        ("missing", "cg", codes::TOPIC_NOT_EXIST),
        ("t", "a/b", codes::SUBSCRIPTION_GROUP_NOT_EXIST),
    ] {
        assert_eq!(
            client.refused(SetMessageRequestMode, set(topic, group)).await.0,
            code
        );
    }
    let dir = server.stop().await;
    let text = std::fs::read_to_string(dir.path().join("config/messageRequestMode.json")).unwrap();
    // As Java writes it.
    let java = "{\n\t\"messageRequestModeMap\":{\n\t\t\"t\":{\n\t\t\t\"cg\":{\n\t\t\t\t\"consumerGroup\":\"cg\",\n\t\t\t\t\"mode\":\"POP\",\n\t\t\t\t\"popShareQueueNum\":8,\n\t\t\t\t\"topic\":\"t\"\n\t\t\t}\n\t\t}\n\t}\n}";
    assert_eq!(text.trim_end(), java);
    let server = TestBroker::on(dir, loopback(), |_| {}).await;
    let table: MessageRequestModes = server
        .client()
        .await
        .ok(GetAllMessageRequestMode, ())
        .await
        .1
        .value;
    assert_eq!(table.message_request_mode_map["t"]["cg"].mode, Pop);
    server.stop().await;
}
