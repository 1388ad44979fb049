//! Recall (370): takes back a message that waits for its time, by the handle that its send was answered with.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;

use super::timer::recall_key;
use super::{Broker, now_ms};
use crate::protocol::base64::URL_SAFE;
use crate::protocol::codes;
use crate::protocol::message::NewMessage;
use crate::protocol::model::{Perm, SysFlag};
use crate::protocol::properties::{self, names};
use crate::protocol::requests::{RecallMessage, RecallMessageReply};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// Version and first word of a handle.
const VERSION: &str = "v1";
/// Tag of the message that takes another back.
const TAG: &str = "_RECALL_TAG_";
/// Longest handle that is looked at.
const LONGEST: usize = 8 * 1024;

/// What a handle says.
#[derive(Debug, PartialEq, Eq)]
struct Handle {
    topic: String,
    broker: String,
    time: String,
    key: String,
}

/// The handle of a message that waits in the slot of `out_ms` (`RecallMessageHandle.HandleV1`).
pub(super) fn handle(topic: &str, broker: &str, out_ms: i64, unique_key: &str) -> String {
    // Behind the slot's time, so that rounding down leads to the slot again.
    let time = out_ms.saturating_add(1);
    URL_SAFE.encode(format!("{VERSION} {topic} {broker} {time} {unique_key}").as_bytes())
}

impl Handle {
    fn parse(text: &str) -> Option<Self> {
        if text.len() > LONGEST {
            return None;
        }
        let raw = String::from_utf8(URL_SAFE.decode(text)?).ok()?;
        let mut words = raw.split(' ');
        let mut word = || words.next().map(str::to_owned);
        if word()? != VERSION {
            return None;
        }
        Some(Self {
            topic: word()?,
            broker: word()?,
            time: word()?,
            key: word()?,
        })
    }
}

/// 370
pub async fn recall_message(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: RecallMessage,
    (): (),
) -> Handled<RecallMessage> {
    let config = broker.config().clone();
    let illegal = |remark: &str| Refusal::new(codes::ILLEGAL_OPERATION, remark);
    if !config.recall_message_enable {
        let remark = "recall failed, operation is forbidden";
        return Err(Refusal::new(codes::NO_PERMISSION, remark));
    }
    let unwritable =
        !Perm(config.broker_permission).writable() && !config.allow_recall_when_broker_not_writeable;
    if now_ms() < config.start_accept_send_request_time_stamp || unwritable {
        let remark = "recall failed, broker service not available";
        return Err(Refusal::new(codes::SERVICE_NOT_AVAILABLE, remark));
    }
    if !broker.topics.contains(&header.topic) {
        let remark = format!("recall failed, the topic[{}] not exist", header.topic);
        return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
    }
    let handle = Handle::parse(&header.recall_handle).ok_or_else(|| illegal("recall handle is invalid"))?;
    if handle.topic != header.topic {
        return Err(illegal("recall failed, topic not match"));
    }
    if handle.broker != config.broker_name {
        return Err(illegal("recall failed, broker service not available"));
    }
    let now = now_ms();
    let left = handle
        .time
        .parse::<i64>()
        .ok()
        .and_then(|time| time.checked_sub(now));
    if !left.is_some_and(|left| left > 0 && left < broker.max_delay_ms()) {
        return Err(illegal("recall failed, timestamp invalid"));
    }
    let message = recall(&header, &handle, peer.remote(), broker.store_host, now);
    // As in Java: whatever kept it from being stored is one error.
    broker
        .put_durably(&message)
        .await
        .map_err(|_| Refusal::new(codes::SYSTEM_ERROR, "recall failed, execute error"))?;
    let reply = RecallMessageReply {
        msg_id: handle.key,
        msg_region: Some(config.region_id.clone()),
    };
    Ok(Answer::ok(reply, ()))
}

/// The message that takes another back: it waits in the same slot.
fn recall(
    header: &RecallMessage,
    handle: &Handle,
    from: SocketAddr,
    store_host: SocketAddr,
    now: i64,
) -> NewMessage {
    let mut text = String::new();
    for (name, value) in [
        (names::TAGS, TAG),
        (names::TIMER_DEL_UNIQKEY, &recall_key(&handle.topic, &handle.key)),
        (names::UNIQ_KEY, &handle.key),
        (names::TIMER_DELIVER_MS, &handle.time),
        (names::BORN_TIMESTAMP, &now.to_string()),
        (
            names::PGROUP,
            header.producer_group.as_deref().unwrap_or_default(),
        ),
    ] {
        if !value.is_empty() {
            properties::append(&mut text, name, value);
        }
    }
    NewMessage {
        topic: handle.topic.clone(),
        queue_id: 0,
        flag: 0,
        sys_flag: SysFlag(0),
        born_timestamp: now,
        born_host: from,
        store_host,
        reconsume_times: 0,
        prepared_transaction_offset: 0,
        body: Bytes::from_static(b"0"),
        properties: text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_reads_as_it_was_written() {
        // By `base64 | tr +/ -_` of the text.
        let text = handle("t", "broker-a", 1_795_974_510_000, "7F00");
        assert_eq!(text, "djEgdCBicm9rZXItYSAxNzk1OTc0NTEwMDAxIDdGMDA=");
        let wanted = Handle {
            topic: "t".into(),
            broker: "broker-a".into(),
            time: "1795974510001".into(),
            key: "7F00".into(),
        };
        assert_eq!(Handle::parse(&text), Some(wanted));
        assert!(Handle::parse(text.trim_end_matches('=')).is_some());
        for bad in [
            "",
            "=",
            "djEgdA==",
            "djIgdCBiIDEgaw==",
            "d*==",
            "djEgdCBicm9rZXItYSAx",
            "a",
            &"A".repeat(9000),
        ] {
            assert_eq!(Handle::parse(bad), None, "{bad:?}");
        }
    }
}
