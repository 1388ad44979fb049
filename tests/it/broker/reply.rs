//! Request-reply: the reply finds the client that asked (protocol.md §9.18).

use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use rmq::broker::BrokerConfig;
use rmq::protocol::codes;
use rmq::protocol::model::SysFlag;
use rmq::protocol::properties::Properties;
use rmq::protocol::requests::*;

use super::support::*;

const REPLIES: &str = "DefaultCluster_REPLY_TOPIC";

fn reply_to(client: &str) -> SendReplyMessageV2 {
    let mut header = message(REPLIES, 0);
    header.properties =
        format!("MSG_TYPE\u{1}reply\u{2}CORRELATION_ID\u{1}c-1\u{2}REPLY_TO_CLIENT\u{1}{client}\u{2}");
    SendReplyMessageV2(header)
}

fn body() -> Bytes {
    Bytes::from_static(b"answer")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_is_pushed_to_the_client_that_asked_and_stored() {
    let broker = TestBroker::start().await;
    let (asker, replier) = (broker.client().await, broker.client().await);
    asker.produce("asker@1", "pg").await;
    replier.produce("replier@1", "pg").await;
    let answer = replier.ok(reply_to("asker@1"), body()).await.0;
    let replies = asker.replies();
    assert_eq!(replies.len(), 1);
    let (push, pushed) = &replies[0];
    assert_eq!((pushed, push.topic.as_str()), (&body(), REPLIES));
    let properties = Properties::from(push.properties.as_str());
    assert_eq!(properties.get("CORRELATION_ID"), Some("c-1"));
    assert!(properties.get("PUSH_REPLY_TIME").is_some());
    assert!(push.born_host.starts_with("127.0.0.1:") && push.store_host.starts_with("127.0.0.1:"));
    replier.await_max(REPLIES, 0, 1).await;
    assert_eq!((answer.queue_id, answer.queue_offset), (0, 0));
    // The old form, and a second group of the same client.
    asker.produce("asker@1", "other").await;
    let mut old: SendMessage = reply_to("asker@1").into();
    old.producer_group = "pg".into();
    replier.ok(SendReplyMessage(old), body()).await;
    assert_eq!(asker.replies().len(), 2);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_that_cannot_be_pushed_says_why_and_is_stored() {
    let broker = TestBroker::start().await;
    let (asker, replier) = (broker.client().await, broker.client().await);
    let answer = replier.ask(reply_to("nobody@1"), body()).await;
    assert_eq!(answer.code, codes::SYSTEM_ERROR);
    assert_eq!(
        answer.remark,
        "push reply message fail, channel of <nobody@1> not found."
    );
    let placed: SendMessageReply = answer.header();
    assert_eq!((placed.queue_id, placed.msg_id.len()), (0, 32));
    let answer = replier.ask(SendReplyMessageV2(message(REPLIES, 0)), body()).await;
    assert_eq!(answer.remark, "reply message properties[REPLY_TO_CLIENT] is null");
    asker.produce("asker@1", "pg").await;
    asker.pushes().reply_code.store(1, Relaxed);
    let answer = replier.ask(reply_to("asker@1"), body()).await;
    assert_eq!(
        (answer.code, answer.remark.as_str()),
        (1, "push reply message to asker@1fail.")
    );
    replier.await_max(REPLIES, 0, 3).await;
    // Once it has left, it is not found any more.
    let leave = UnregisterClient {
        client_id: "asker@1".into(),
        producer_group: Some("pg".into()),
        ..UnregisterClient::default()
    };
    asker.ok(leave, ()).await;
    let answer = replier.ask(reply_to("asker@1"), body()).await;
    assert!(answer.remark.ends_with("not found."), "{}", answer.remark);
    asker.produce("asker@1", "pg").await;
    asker.disconnect();
    eventually(async || {
        let answer = replier.ask(reply_to("asker@1"), body()).await;
        answer.remark.ends_with("not found.")
    })
    .await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_need_not_be_stored() {
    let config = BrokerConfig {
        store_reply_message_enable: false,
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let (asker, replier) = (broker.client().await, broker.client().await);
    asker.produce("asker@1", "pg").await;
    let answer = replier.ok(reply_to("asker@1"), body()).await.0;
    assert_eq!((answer.msg_id.as_str(), answer.queue_offset), ("0", 0));
    let max = GetMaxOffset {
        topic: REPLIES.into(),
        ..GetMaxOffset::default()
    };
    assert_eq!(replier.ok(max, ()).await.0.offset, 0);
    assert_eq!(asker.replies().len(), 1);
    broker.stop().await;
}

/// Flags that belong to records of the store's own making do not hide a client's message from its queue.
#[tokio::test(flavor = "multi_thread")]
async fn flags_of_other_records_are_not_stored() {
    let broker = TestBroker::start().await;
    let (asker, replier) = (broker.client().await, broker.client().await);
    asker.produce("asker@1", "pg").await;
    // Half, rolled back, an inner batch.
    for (n, flag) in [0x4, 0xC, 0x80, 0x8C].into_iter().enumerate() {
        let mut header = reply_to("asker@1");
        header.0.sys_flag = SysFlag(flag);
        replier.ok(header, body()).await;
        replier.await_max(REPLIES, 0, n as i64 + 1).await;
    }
    replier.create_topic("t", 1).await;
    let batch = SendMessageV2 {
        sys_flag: SysFlag(0x80),
        ..message("t", 0)
    };
    replier.ok(batch, body()).await;
    replier.await_max("t", 0, 1).await;
    broker.stop().await;
}
