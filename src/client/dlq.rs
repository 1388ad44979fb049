//! Dead letters: where they came from, and the copies that are sent of them. Nothing here sends.

use super::Message;
use super::produce::Outgoing;
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};
use crate::protocol::properties::names;

/// Property of a copy: the dead letter it was made of.
pub const RESENT_FROM: &str = "RMQ_RESENT_FROM";
/// Property of a copy: when it was made, epoch ms.
pub const RESENT_AT: &str = "RMQ_RESENT_AT";

/// Properties that brokers and clients set for themselves: a copy must not carry those of its original. The sharding
/// key stays: it is what keeps an order.
const SYSTEM: &[&str] = &[
    names::KEYS,
    names::TAGS,
    names::UNIQ_KEY,
    names::WAIT,
    names::DELAY,
    names::REAL_TOPIC,
    names::REAL_QID,
    names::RETRY_TOPIC,
    names::ORIGIN_MESSAGE_ID,
    names::RECONSUME_TIME,
    names::MAX_RECONSUME_TIMES,
    names::CONSUME_START_TIME,
    names::MIN_OFFSET,
    names::MAX_OFFSET,
    names::TRAN_MSG,
    names::PGROUP,
    names::TRANSACTION_ID,
    names::TRANSACTION_CHECK_TIMES,
    names::TRAN_PREPARED_QUEUE_OFFSET,
    names::CHECK_IMMUNITY_TIME_IN_SECONDS,
    names::MSG_REGION,
    names::TRACE_ON,
    names::CLUSTER,
    names::INSTANCE_ID,
    names::CORRELATION_ID,
    names::REPLY_TO_CLIENT,
    names::TTL,
    names::MSG_TYPE,
    names::PUSH_REPLY_TIME,
    names::ARRIVE_TIME,
    names::POP_CK,
    names::POP_CK_OFFSET,
    names::FIRST_POP_TIME,
    names::INNER_NUM,
    names::INNER_BASE,
    names::INNER_MULTI_DISPATCH,
    names::INNER_MULTI_QUEUE_OFFSET,
    names::TIMER_DELIVER_MS,
    names::TIMER_DELAY_SEC,
    names::TIMER_DELAY_MS,
    names::TIMER_OUT_MS,
    names::TIMER_ENQUEUE_MS,
    names::TIMER_DEQUEUE_MS,
    names::TIMER_ROLL_TIMES,
    names::TIMER_DEL_UNIQKEY,
    names::DUP_INFO,
    names::CRC32,
    names::BORN_HOST,
    names::BORN_TIMESTAMP,
    names::DLQ_ORIGIN_TOPIC,
    names::DLQ_ORIGIN_MESSAGE_ID,
    RESENT_FROM,
    RESENT_AT,
];

/// True for a property that a copy must not carry.
pub fn is_system_property(name: &str) -> bool {
    SYSTEM.contains(&name)
}

/// The dead-letter topic of a group.
pub fn topic_of(group: &str) -> String {
    format!("{DLQ_PREFIX}{group}")
}

/// The topic that a dead letter was first sent to, as far as it says.
pub fn origin_topic(message: &Message) -> Option<&str> {
    let said = [names::DLQ_ORIGIN_TOPIC, names::RETRY_TOPIC];
    said.iter()
        .find_map(|name| message.property(name))
        .filter(|topic| !topic.is_empty())
}

/// The id of the message that a dead letter is a copy of, as far as it says.
pub fn origin_id(message: &Message) -> Option<&str> {
    let said = [names::DLQ_ORIGIN_MESSAGE_ID, names::ORIGIN_MESSAGE_ID];
    said.iter().find_map(|name| message.property(name))
}

/// Where copies of dead letters go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Each to the topic it was first sent to.
    Origin,
    /// All to one topic.
    Topic(String),
    /// To the group's retry topic, so that no other group gets them.
    Retry,
}

impl Target {
    /// The topic of a dead letter's copy; `None` when the letter does not say where it came from.
    pub fn topic(&self, group: &str, message: &Message) -> Option<String> {
        match self {
            Self::Origin => origin_topic(message).map(str::to_owned),
            Self::Topic(topic) => Some(topic.clone()),
            Self::Retry => Some(format!("{RETRY_PREFIX}{group}")),
        }
    }
}

/// A message again: body, keys, tag and the application's own properties, nothing of its former lives.
pub fn again(message: &Message, topic: &str) -> Outgoing {
    Outgoing {
        topic: topic.to_owned(),
        body: message.body.clone(),
        keys: message.keys(),
        tag: message.tag().map(str::to_owned),
        properties: message
            .properties
            .iter()
            .filter(|(name, _)| !is_system_property(name))
            .cloned()
            .collect(),
        ..Outgoing::default()
    }
}

/// The copy of a dead letter to send; `None` when the letter does not say where it came from.
pub fn copy(message: &Message, group: &str, target: &Target, now_ms: i64) -> Option<Outgoing> {
    let topic = target.topic(group, message)?;
    let mut copy = again(message, &topic);
    if *target == Target::Retry {
        // A consumer gives its application the topic that this names, not the retry topic.
        if let Some(origin) = origin_topic(message) {
            copy.properties
                .push((names::RETRY_TOPIC.to_owned(), origin.to_owned()));
        }
        if let Some(origin) = origin_id(message) {
            copy.properties
                .push((names::ORIGIN_MESSAGE_ID.to_owned(), origin.to_owned()));
        }
    }
    copy.properties
        .push((RESENT_FROM.to_owned(), message.offset_id.clone()));
    copy.properties.push((RESENT_AT.to_owned(), now_ms.to_string()));
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::model::SysFlag;

    fn letter() -> Message {
        let properties = [
            ("KEYS", "k1 k2"),
            ("TAGS", "TagA"),
            ("UNIQ_KEY", "U"),
            ("RETRY_TOPIC", "Orders"),
            ("ORIGIN_MESSAGE_ID", "7F00"),
            ("DELAY", "3"),
            ("CLUSTER", "C"),
            ("seq", "7"),
            ("__SHARDINGKEY", "s"),
        ];
        Message {
            broker: "broker-a".into(),
            topic: "%DLQ%g".into(),
            queue: 0,
            offset: 3,
            physical_offset: 99,
            offset_id: "7F00000100002A9F0000000000000063".into(),
            stored_ms: 1,
            store_host: String::new(),
            born_ms: 1,
            born_host: String::new(),
            reconsume_times: 17,
            sys_flag: SysFlag(0),
            flag: 0,
            size: 1,
            properties: properties.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
            body: bytes::Bytes::from_static(b"x"),
            stored_size: 1,
            intact: true,
            body_error: None,
        }
    }

    #[test]
    fn a_copy_keeps_what_the_application_said_and_nothing_else() {
        let copy = copy(&letter(), "g", &Target::Origin, 5).unwrap();
        assert_eq!(
            (copy.topic.as_str(), copy.tag.as_deref()),
            ("Orders", Some("TagA"))
        );
        assert_eq!(copy.keys, ["k1", "k2"]);
        let names: Vec<&str> = copy.properties.iter().map(|p| p.0.as_str()).collect();
        assert_eq!(names, ["seq", "__SHARDINGKEY", RESENT_FROM, RESENT_AT]);
        assert_eq!(copy.properties[2].1, letter().offset_id);
    }

    #[test]
    fn a_copy_for_the_group_alone_names_the_first_topic() {
        let copy = copy(&letter(), "g", &Target::Retry, 5).unwrap();
        assert_eq!(copy.topic, "%RETRY%g");
        for pair in [("RETRY_TOPIC", "Orders"), ("ORIGIN_MESSAGE_ID", "7F00")] {
            let pair = (pair.0.to_owned(), pair.1.to_owned());
            assert!(copy.properties.contains(&pair), "{copy:?}");
        }
    }

    #[test]
    fn a_letter_that_does_not_say_where_it_came_from_needs_a_topic() {
        let mut letter = letter();
        letter.properties.retain(|(name, _)| name != "RETRY_TOPIC");
        assert_eq!(copy(&letter, "g", &Target::Origin, 5), None);
        assert!(copy(&letter, "g", &Target::Topic("T".into()), 5).is_some());
        letter
            .properties
            .push(("DLQ_ORIGIN_TOPIC".into(), "First".into()));
        assert_eq!(origin_topic(&letter), Some("First"));
    }
}
