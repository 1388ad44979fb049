//! Transactions (protocol.md §9.10, §10.7): ends, marks, checks, and what a start finds.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::broker::{Broker, BrokerConfig};
use rmq::protocol::codes;
use rmq::protocol::message::{MessageView, NewMessage};
use rmq::protocol::message_id::parse_offset_id;
use rmq::protocol::model::SysFlag;
use rmq::protocol::requests::*;
use rmq::store::MessageStore;

use super::support::*;
use crate::support::unpack_golden_store;

const HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
const OP: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
const GIVEN_UP: &str = "TRANS_CHECK_MAX_TIME_TOPIC";
const COMMIT: i32 = 8;
const ROLLBACK: i32 = 12;

/// Checks come fast, marks at once.
fn quick() -> BrokerConfig {
    BrokerConfig {
        transaction_time_out: 50,
        transaction_check_interval: 100,
        transaction_op_batch_interval: 0,
        ..loopback()
    }
}

/// No check ever, marks at once.
fn calm() -> BrokerConfig {
    BrokerConfig {
        transaction_time_out: 3_600_000,
        ..quick()
    }
}

fn half(more: &str) -> SendMessageV2 {
    SendMessageV2 {
        sys_flag: SysFlag(SysFlag::TRANSACTION_PREPARED),
        properties: format!("TRAN_MSG\u{1}true\u{2}PGROUP\u{1}pg\u{2}UNIQ_KEY\u{1}K1\u{2}{more}"),
        ..message("t", 1)
    }
}

async fn send_half(client: &Client, more: &str, body: &str) -> SendMessageReply {
    client
        .ok(half(more), Bytes::copy_from_slice(body.as_bytes()))
        .await
        .0
}

fn end_of(sent: &SendMessageReply, how: i32) -> EndTransaction {
    EndTransaction {
        producer_group: "pg".into(),
        tran_state_table_offset: sent.queue_offset,
        commit_log_offset: parse_offset_id(&sent.msg_id).unwrap().1,
        commit_or_rollback: how,
        ..EndTransaction::default()
    }
}

/// The answer of a producer that was asked.
fn end_of_check(check: &CheckTransactionState, how: i32) -> EndTransaction {
    EndTransaction {
        producer_group: "pg".into(),
        tran_state_table_offset: check.tran_state_table_offset,
        commit_log_offset: check.commit_log_offset,
        commit_or_rollback: how,
        from_transaction_check: true,
        ..EndTransaction::default()
    }
}

async fn max(client: &Client, topic: &str, queue_id: i32) -> i64 {
    let header = GetMaxOffset {
        topic: topic.into(),
        queue_id,
        ..GetMaxOffset::default()
    };
    client.ok(header, ()).await.0.offset
}

async fn read(client: &Client, topic: &str, queue_id: i32, offset: i64) -> Bytes {
    client.await_max(topic, queue_id, offset + 1).await;
    let header = PullMessage {
        max_msg_nums: 1,
        ..pull(topic, queue_id, offset, "*")
    };
    let answer = client.pull(header).await;
    assert_eq!(answer.code, 0, "{}", answer.remark);
    answer.body
}

/// Bodies of what was delivered, once there are so many.
async fn delivered(client: &Client, count: i64) -> Vec<String> {
    let ends = async || {
        let mut ends = Vec::new();
        for queue in 0..4 {
            ends.push(max(client, "t", queue).await);
        }
        ends
    };
    eventually(async || ends().await.iter().sum::<i64>() >= count).await;
    let mut all = Vec::new();
    for (queue, end) in (0..).zip(ends().await) {
        let mut at = 0;
        while at < end {
            let answer = client.pull(pull("t", queue, at, "*")).await;
            assert_eq!(answer.code, 0, "{}", answer.remark);
            all.extend(bodies(&answer));
            at = answer.header::<PullMessageReply>().next_begin_offset.unwrap();
        }
    }
    all.sort();
    all
}

/// A broker on what a kill of this one would leave behind.
async fn killed(broker: &TestBroker, config: BrokerConfig) -> TestBroker {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    copy_tree(broker.dir.path(), dir.path());
    assert!(dir.path().join("abort").exists());
    TestBroker::on(dir, config, |_| {}).await
}

fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else if entry.file_name() != "lock" {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_delivers_once_and_a_rollback_nothing() {
    let broker = TestBroker::with(calm(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    let sent = send_half(&client, "TAGS\u{1}A\u{2}", "one").await;
    assert_eq!(
        (sent.queue_id, sent.queue_offset),
        (1, 0),
        "its own queue, the half queue's offset"
    );
    assert_eq!(sent.transaction_id.as_deref(), Some("K1"));
    let stored = read(&client, HALF, 0, 0).await;
    let view = MessageView::parse(&stored).unwrap();
    assert_eq!(view.sys_flag().transaction(), 0);
    for (name, value) in [
        ("REAL_TOPIC", "t"),
        ("REAL_QID", "1"),
        ("__transactionId__", "K1"),
        ("TRAN_MSG", "true"),
        ("PGROUP", "pg"),
        ("TAGS", "A"),
    ] {
        assert_eq!(view.properties().get(name), Some(value), "{name}");
    }
    assert!(delivered(&client, 0).await.is_empty());

    client.ok(end_of(&sent, COMMIT), ()).await;
    let stored = read(&client, "t", 1, 0).await;
    let view = MessageView::parse(&stored).unwrap();
    assert_eq!(view.sys_flag().transaction(), SysFlag::TRANSACTION_COMMIT);
    assert_eq!(
        view.prepared_transaction_offset(),
        end_of(&sent, 0).commit_log_offset
    );
    assert_eq!(
        view.properties().get("REAL_TOPIC"),
        Some("t"),
        "as Java leaves it"
    );

    let rolled = send_half(&client, "", "two").await;
    client.ok(end_of(&rolled, ROLLBACK), ()).await;
    for again in [
        end_of(&sent, COMMIT),
        end_of(&sent, ROLLBACK),
        end_of(&rolled, COMMIT),
    ] {
        let (code, remark) = client.refused(again, ()).await;
        assert_eq!(code, codes::SYSTEM_ERROR);
        assert_eq!(
            remark,
            "the transaction is not open: it was ended before, or given up"
        );
    }
    assert_eq!(delivered(&client, 1).await, ["one"]);
    // The marks, as Java writes them.
    let mut named = String::new();
    let mut at = 0;
    while named.len() < 4 {
        let stored = read(&client, OP, 0, at).await;
        let op = MessageView::parse(&stored).unwrap();
        assert_eq!(op.properties().as_bytes(), b"WAIT\x01true\x02TAGS\x01d\x02");
        named += std::str::from_utf8(op.body()).unwrap();
        at += 1;
    }
    assert_eq!(named, "0,1,");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_ends_deliver_nothing() {
    let broker = TestBroker::with(calm(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    // An ordinary message that claims to be half of a transaction.
    let bait = SendMessageV2 {
        properties: "PGROUP\u{1}pg\u{2}REAL_TOPIC\u{1}t\u{2}REAL_QID\u{1}2\u{2}".into(),
        ..message("t", 0)
    };
    let bait = client.ok(bait, Bytes::from_static(b"bait")).await.0;
    let sent = send_half(&client, "", "half").await;
    let good = end_of(&sent, COMMIT);
    let forged = |change: &dyn Fn(&mut EndTransaction)| {
        let mut header = good.clone();
        change(&mut header);
        header
    };
    let missing = "Find prepared transaction message failed";
    for (header, remark) in [
        (
            forged(&|h| h.producer_group = "other".into()),
            "The producer group wrong",
        ),
        (
            forged(&|h| h.tran_state_table_offset = 1),
            "The transaction state table offset wrong",
        ),
        (forged(&|h| h.commit_log_offset += 1), missing),
        (forged(&|h| h.commit_log_offset = -1), missing),
        (forged(&|h| h.commit_log_offset = i64::MAX), missing),
        (end_of(&bait, COMMIT), missing),
        (
            forged(&|h| h.commit_or_rollback = 5),
            "commitOrRollback field wrong",
        ),
        (
            forged(&|h| h.commit_or_rollback = -1),
            "commitOrRollback field wrong",
        ),
    ] {
        assert_eq!(
            client.refused(header, ()).await,
            (codes::SYSTEM_ERROR, remark.into())
        );
    }
    client.ok(end_of(&sent, 0), ()).await;
    assert_eq!(delivered(&client, 1).await, ["bait"]);
    client.ok(good, ()).await;
    assert_eq!(delivered(&client, 2).await, ["bait", "half"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_half_of_a_transaction_is_refused() {
    let broker = TestBroker::with(calm(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    let body = || Bytes::from_static(b"x");
    let mut only_flag = half("");
    only_flag.properties = String::new();
    let mut rolled = half("");
    rolled.sys_flag = SysFlag(SysFlag::TRANSACTION_ROLLBACK);
    for header in [only_flag, rolled] {
        assert_eq!(client.refused(header, body()).await.0, codes::MESSAGE_ILLEGAL);
    }
    let mut no_group = half("");
    no_group.properties = "TRAN_MSG\u{1}true\u{2}PGROUP\u{1}../x\u{2}".into();
    assert_eq!(client.refused(no_group, body()).await.0, codes::MESSAGE_ILLEGAL);
    let mut batch = half("");
    batch.batch = true;
    assert_eq!(
        client.refused(SendBatchMessage(batch), body()).await.0,
        codes::MESSAGE_ILLEGAL
    );
    // Books that the client wrote itself count for nothing.
    let forged =
        "TRANSACTION_CHECK_TIMES\u{1}99\u{2}TRAN_PREPARED_QUEUE_OFFSET\u{1}0\u{2}REAL_TOPIC\u{1}other\u{2}";
    send_half(&client, forged, "one").await;
    let stored = read(&client, HALF, 0, 0).await;
    let view = MessageView::parse(&stored).unwrap();
    assert_eq!(view.properties().get("TRANSACTION_CHECK_TIMES"), None);
    assert_eq!(view.properties().get("TRAN_PREPARED_QUEUE_OFFSET"), None);
    assert_eq!(view.properties().get("REAL_TOPIC"), Some("t"));
    client
        .ok(
            UpdateBrokerConfig,
            rmq::protocol::Text("rejectTransactionMessage=true".into()),
        )
        .await;
    assert_eq!(
        client.refused(half(""), body()).await,
        (
            codes::NO_PERMISSION,
            "the broker[127.0.0.1] sending transaction message is forbidden".into()
        )
    );
    assert_eq!(max(&client, HALF, 0).await, 1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_producer_is_asked_until_the_limit_and_once_more_when_an_operator_says_so() {
    let config = BrokerConfig {
        transaction_check_max: 3,
        ..quick()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    client.produce("p@1", "pg").await;
    send_half(&client, "", "one").await;
    let given_up = read(&client, GIVEN_UP, 0, 0).await;
    let checks = client.checks();
    assert_eq!(checks.len(), 3, "only real checks count");
    let (first, body) = &checks[0];
    assert_eq!(first.topic.as_deref(), Some(HALF));
    assert_eq!(first.msg_id.as_deref(), Some("K1"));
    assert_eq!(first.bname.as_deref(), Some("broker-t"));
    let asked = MessageView::parse_checked(body).unwrap();
    assert_eq!(
        (asked.topic(), asked.queue_id(), asked.body()),
        ("t", 1, &b"one"[..])
    );
    assert_eq!(asked.physical_offset(), first.commit_log_offset);
    assert_eq!(client.topic(GIVEN_UP).await.write_queue_nums, 1);
    let late = end_of_check(first, COMMIT);
    assert_eq!(client.refused(late, ()).await.0, codes::SYSTEM_ERROR, "given up");

    let view = MessageView::parse(&given_up).unwrap();
    let resume = ResumeCheckHalfMessage {
        topic: Some("t".into()),
        msg_id: Some(view.offset_id()),
    };
    client.ok(resume, ()).await;
    eventually(async || client.checks().len() > 3).await;
    let (check, _) = client.checks().pop().unwrap();
    client.ok(end_of_check(&check, COMMIT), ()).await;
    assert_eq!(delivered(&client, 1).await, ["one"]);
    for bad in ["", "zz", "7F000001000093B30000000000000001"] {
        let resume = ResumeCheckHalfMessage {
            topic: Some("t".into()),
            msg_id: Some(bad.into()),
        };
        assert_eq!(client.refused(resume, ()).await.0, codes::SYSTEM_ERROR, "{bad:?}");
    }
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_to_any_check_and_a_late_end_both_count_once() {
    let broker = TestBroker::with(quick(), |_| {}).await;
    let (sender, asked) = (broker.client().await, broker.client().await);
    sender.create_topic("t", 4).await;
    asked.produce("p@2", "pg").await;
    let one = send_half(&sender, "", "one").await;
    let two = send_half(&sender, "", "two").await;
    eventually(async || asked.checks().len() >= 6).await;
    // The end that its sender sends late, and the answer to the very first check.
    sender.ok(end_of(&one, COMMIT), ()).await;
    let checks = asked.checks();
    let first = checks
        .iter()
        .find(|(_, body)| MessageView::parse(body).unwrap().body() == b"two")
        .unwrap();
    asked.ok(end_of_check(&first.0, COMMIT), ()).await;
    for again in [
        end_of(&one, COMMIT),
        end_of(&two, COMMIT),
        end_of_check(&first.0, COMMIT),
    ] {
        sender.refused(again, ()).await;
    }
    assert_eq!(delivered(&sender, 2).await, ["one", "two"]);
    // Nobody is asked any more, also after a start.
    let count = asked.checks().len();
    sender.await_max(OP, 0, 2).await;
    let dir = broker.stop().await;
    let broker = TestBroker::on(dir, quick(), |_| {}).await;
    let asked_again = broker.client().await;
    asked_again.produce("p@2", "pg").await;
    let third = send_half(&asked_again, "", "three").await;
    eventually(async || !asked_again.checks().is_empty()).await;
    for (check, _) in asked_again.checks() {
        assert!(check.tran_state_table_offset >= third.queue_offset, "{check:?}");
    }
    assert!(count >= 6);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_producer_nothing_is_counted() {
    let config = BrokerConfig {
        transaction_check_max: 1,
        ..quick()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    send_half(&client, "", "one").await;
    let until = Instant::now() + Duration::from_millis(500);
    eventually(async || Instant::now() > until).await;
    assert_eq!(
        max(&client, HALF, 0).await,
        1,
        "nothing is written while nobody can be asked"
    );
    client.produce("p@1", "pg").await;
    eventually(async || !client.checks().is_empty()).await;
    broker.stop().await;
}

/// K39, second half: the own time of a half message counts as no check.
#[tokio::test(flavor = "multi_thread")]
async fn k39_the_own_time_of_a_half_message_is_kept() {
    let broker = TestBroker::with(quick(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    client.produce("p@1", "pg").await;
    let sent = send_half(&client, "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}1\u{2}", "one").await;
    let far = send_half(&client, "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}600\u{2}", "far").await;
    let bad = send_half(&client, "CHECK_IMMUNITY_TIME_IN_SECONDS\u{1}x\u{2}", "bad").await;
    let begun = Instant::now();
    let is_about = |body: &[u8], what: &[u8]| MessageView::parse(body).unwrap().body() == what;
    eventually(async || client.checks().iter().any(|(_, body)| is_about(body, b"one"))).await;
    assert!(begun.elapsed() > Duration::from_millis(800));
    let checks = client.checks();
    assert!(
        checks.iter().any(|(_, body)| is_about(body, b"bad")),
        "no number: the common time"
    );
    assert!(!checks.iter().any(|(_, body)| is_about(body, b"far")));
    // Late ends are refused, except of the checked.
    eventually(async || begun.elapsed() > Duration::from_millis(1100)).await;
    let (code, _) = client.refused(end_of(&sent, COMMIT), ()).await;
    assert_eq!(code, codes::ILLEGAL_OPERATION);
    client.ok(end_of(&far, COMMIT), ()).await;
    let mut of_check = end_of(&sent, ROLLBACK);
    of_check.from_transaction_check = true;
    client.ok(of_check, ()).await;
    let mut of_check = end_of(&bad, ROLLBACK);
    of_check.from_transaction_check = true;
    client.ok(of_check, ()).await;
    assert_eq!(delivered(&client, 1).await, ["far"]);
    broker.stop().await;
}

/// K39, first half: one half message whose producer never decides keeps back no other.
#[tokio::test(flavor = "multi_thread")]
async fn k39_a_thousand_are_decided_although_one_never_is() {
    let config = BrokerConfig {
        // Twice as long as a busy machine needs to answer a thousand questions.
        transaction_check_max: 2,
        transaction_check_interval: 3000,
        ..quick()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    for i in 0..1000 {
        send_half(&client, "", &format!("m{i:04}")).await;
    }
    client.produce("p@1", "pg").await;
    let mut seen = 0;
    within(Duration::from_secs(60), async || {
        let checks = client.checks();
        for (check, body) in &checks[seen..] {
            if MessageView::parse(body).unwrap().body() != b"m0500" {
                client.ask(end_of_check(check, COMMIT), ()).await;
            }
        }
        seen = checks.len();
        max(&client, "t", 1).await >= 999 && max(&client, GIVEN_UP, 0).await == 1
    })
    .await;
    let expected: Vec<String> = (0..1000)
        .filter(|i| *i != 500)
        .map(|i| format!("m{i:04}"))
        .collect();
    assert_eq!(delivered(&client, 999).await, expected);
    let about_500 = client
        .checks()
        .iter()
        .filter(|(_, body)| MessageView::parse(body).unwrap().body() == b"m0500")
        .count();
    assert_eq!(about_500, 2);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_any_phase_forgets_nothing() {
    let slow_marks = BrokerConfig {
        transaction_op_batch_interval: 3_600_000,
        ..calm()
    };
    let broker = TestBroker::with(slow_marks, |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    let open = send_half(&client, "", "open").await;
    let committed = send_half(&client, "", "committed").await;
    let rolled = send_half(&client, "", "rolled").await;
    // Phase 1: halves alone.
    let first = killed(&broker, quick()).await;
    // Phase 2: ended, and no mark of it.
    client.ok(end_of(&committed, COMMIT), ()).await;
    client.ok(end_of(&rolled, ROLLBACK), ()).await;
    client.await_max("t", 1, 1).await;
    let second = killed(&broker, quick()).await;
    // Phase 3: a clean stop writes the marks.
    let third = TestBroker::on(broker.stop().await, quick(), |_| {}).await;
    for (broker, asked) in [(first, 3), (second, 3), (third, 1)] {
        let client = broker.client().await;
        // The table of topics is written within a second; the kill came before.
        client.create_topic("t", 4).await;
        client.produce("p@1", "pg").await;
        let mut about = std::collections::BTreeSet::new();
        eventually(async || {
            for (_, body) in client.checks() {
                about.insert(MessageView::parse(&body).unwrap().body().to_vec());
            }
            about.len() == asked
        })
        .await;
        client.ok(end_of(&open, COMMIT), ()).await;
        if asked == 1 {
            assert_eq!(about.first().unwrap(), b"open");
            client.refused(end_of(&committed, COMMIT), ()).await;
            client.refused(end_of(&rolled, COMMIT), ()).await;
        } else {
            client.ok(end_of(&committed, COMMIT), ()).await;
            client.ok(end_of(&rolled, ROLLBACK), ()).await;
        }
        let mut bodies = delivered(&client, 2).await;
        bodies.dedup();
        assert_eq!(bodies, ["committed", "open"]);
        broker.stop().await;
    }
}

/// A half message may ask for a delay: it begins with the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_delayed_one_waits_from_its_commit_on() {
    let broker = TestBroker::with(calm(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    let sent = send_half(&client, "DELAY\u{1}1\u{2}", "late").await;
    let begun = Instant::now();
    client.ok(end_of(&sent, COMMIT), ()).await;
    let stored = read(&client, "SCHEDULE_TOPIC_XXXX", 0, 0).await;
    assert_eq!(MessageView::parse(&stored).unwrap().body(), b"late");
    assert_eq!(delivered(&client, 1).await, ["late"]);
    assert!(begun.elapsed() >= Duration::from_millis(950));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_count_of_checks_survives_a_kill() {
    let config = |most| BrokerConfig {
        transaction_check_max: most,
        ..quick()
    };
    let broker = TestBroker::with(config(1000), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    client.produce("p@1", "pg").await;
    let sent = send_half(&client, "", "one").await;
    eventually(async || max(&client, HALF, 0).await >= 4).await;
    let dead = killed(&broker, config(3)).await;
    let after = dead.client().await;
    after.produce("p@1", "pg").await;
    after.await_max(GIVEN_UP, 0, 1).await;
    assert_eq!(after.checks().len(), 0, "it had its three");
    after.refused(end_of(&sent, COMMIT), ()).await;
    dead.stop().await;
    client.ok(end_of(&sent, COMMIT), ()).await;
    assert_eq!(delivered(&client, 1).await, ["one"]);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_in_the_systems_queues_stops_nothing() {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let store = MessageStore::open(small_store(dir.path())).unwrap();
    let record = |topic: &str, body: &'static [u8], properties: &str| NewMessage {
        topic: topic.into(),
        queue_id: 0,
        flag: 0,
        sys_flag: SysFlag::default(),
        born_timestamp: 0,
        born_host: "127.0.0.1:1".parse().unwrap(),
        store_host: "127.0.0.1:2".parse().unwrap(),
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: Bytes::from_static(body),
        properties: properties.into(),
    };
    let whole = "PGROUP\u{1}pg\u{2}TRAN_MSG\u{1}true\u{2}REAL_TOPIC\u{1}t\u{2}REAL_QID\u{1}1\u{2}";
    let ops: [(&[u8], &str); 5] = [
        (b"", "TAGS\u{1}d\u{2}"),
        (
            b"x,,-1,99999999999999999999,9223372036854775807,\xFF,",
            "TAGS\u{1}d\u{2}",
        ),
        (b"4", "TAGS\u{1}e\u{2}"),
        (b"4", ""),
        (b"5", "TAGS\u{1}d\u{2}"),
    ];
    for (body, properties) in ops {
        store.append(&record(OP, body, properties)).unwrap();
    }
    for properties in [
        "",
        "PGROUP\u{1}pg\u{2}",
        "PGROUP\u{1}pg\u{2}REAL_TOPIC\u{1}t\u{2}REAL_QID\u{1}-4\u{2}",
        "PGROUP\u{1}pg\u{2}REAL_TOPIC\u{1}t\u{2}REAL_QID\u{1}many\u{2}",
        whole,
        whole,
        &format!("{whole}TRAN_PREPARED_QUEUE_OFFSET\u{1}99\u{2}TRANSACTION_CHECK_TIMES\u{1}-7\u{2}"),
    ] {
        store.append(&record(HALF, b"x", properties)).unwrap();
    }
    store.close().unwrap();
    drop(store);
    let broker = TestBroker::on(dir, quick(), |_| {}).await;
    let client = broker.client().await;
    client.create_topic("t", 4).await;
    client.produce("p@1", "pg").await;
    eventually(async || client.checks().len() >= 2).await;
    for (check, _) in client.checks().iter().take(2) {
        client.ok(end_of_check(check, COMMIT), ()).await;
    }
    assert_eq!(
        delivered(&client, 2).await.len(),
        2,
        "the fifth was marked by an old broker's op message"
    );
    broker.stop().await;
}

/// What a Java broker left open is asked about.
#[tokio::test(flavor = "multi_thread")]
async fn half_messages_of_a_java_store_are_checked_back() {
    let into = Arc::new(tempfile::tempdir().unwrap());
    let root = unpack_golden_store("delay-tx", into.path());
    let mut store = small_store(&root);
    store.mapped_file_size_commit_log = 1024 * 1024;
    store.mapped_file_size_consume_queue = 4000;
    store.max_hash_slot_num = 200;
    store.max_index_num = 600;
    store.mapped_file_size_timer_log = 1072;
    store.file_reserved_time = 876_000;
    let broker = Broker::start(
        BrokerConfig {
            broker_cluster_name: "GoldenCluster".into(),
            ..quick()
        },
        store,
    )
    .await
    .unwrap();
    let client = Client::new(&broker.addr().to_string()).await;
    let stored = read(&client, HALF, 0, 0).await;
    let view = MessageView::parse(&stored).unwrap();
    let group = view.properties().get("PGROUP").unwrap().to_owned();
    client.produce("p@1", &group).await;
    let mut open = std::collections::BTreeMap::new();
    eventually(async || {
        for (check, body) in client.checks() {
            let view = MessageView::parse(&body).unwrap();
            assert_eq!(view.topic(), "g_tx");
            open.entry(view.body().to_vec()).or_insert(check);
        }
        open.len() == 3
    })
    .await;
    let before = max(&client, "g_tx", 0).await;
    let all = |queue| max(&client, "g_tx", queue);
    let mut sum = 0;
    for queue in 0..4 {
        sum += all(queue).await;
    }
    assert!(sum >= before);
    for check in open.values() {
        let mut end = end_of_check(check, COMMIT);
        end.producer_group.clone_from(&group);
        client.ok(end, ()).await;
    }
    eventually(async || {
        let mut now = 0;
        for queue in 0..4 {
            now += all(queue).await;
        }
        now == sum + 3
    })
    .await;
    broker.stop().await.unwrap();
}
