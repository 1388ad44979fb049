//! Checkpoints and acknowledgements as Java stores them: JSON bodies in `rmq_sys_REVIVE_LOG_<cluster>`, told apart by
//! their tags. A checkpoint is delivered a second before its messages come back, its acknowledgements at that time.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::broker::put::PutError;
use crate::broker::waiting::NoWait;
use crate::broker::{Broker, now_ms};
use crate::protocol::json;
use crate::protocol::message::{MessageView, NewMessage};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{self, names};
use crate::store::Appended;

/// Tag of a checkpoint.
pub const CHECKPOINT_TAG: &str = "ck";
/// Tag of one acknowledgement.
pub const ACK_TAG: &str = "ack";
/// Tag of several.
pub const BATCH_ACK_TAG: &str = "bAck";
/// How long before its messages come back a checkpoint is delivered, ms.
const AHEAD_MS: i64 = 1000;
/// Most messages of a checkpoint: its bit map has so many bits.
pub const MOST: usize = 32;
/// Property of a checkpoint made by a pop: where the group's next pop begins. Java ignores it; after a crash it
/// tells what consumerOffset.json does not know yet.
pub const NEXT_OFFSET: &str = "RMQ_POP_NEXT";

/// Messages handed out together (Java's `PopCheckPoint`). Fields in the order of their names on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Checkpoint {
    /// Bit of each message that is done.
    #[serde(rename = "bm")]
    pub done: i32,
    /// The broker that handed them out.
    #[serde(rename = "bn", skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
    /// Group name.
    #[serde(rename = "c")]
    pub group: String,
    /// Distance of each message from the start; without it they follow one another.
    #[serde(rename = "d")]
    pub diffs: Vec<i32>,
    /// Invisible time, ms.
    #[serde(rename = "it")]
    pub invisible_time: i64,
    /// How many messages.
    #[serde(rename = "n")]
    pub count: i32,
    /// Pop time, ms.
    #[serde(rename = "pt")]
    pub pop_time: i64,
    /// Queue number.
    #[serde(rename = "q")]
    pub queue_id: i32,
    /// When the messages come back, ms. Java writes it and does not read it.
    #[serde(rename = "reviveTime")]
    pub revive_time: i64,
    /// Unused on disk.
    #[serde(rename = "ro")]
    pub revive_offset: i64,
    /// How often it was put again since a message could not be read.
    #[serde(rename = "rp", skip_serializing_if = "Option::is_none")]
    pub put_again: Option<String>,
    /// Offset that the distances count from.
    #[serde(rename = "so")]
    pub start_offset: i64,
    /// Topic, which may be a retry topic.
    #[serde(rename = "t")]
    pub topic: String,
}

/// What ties acknowledgements to their checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Key {
    topic: String,
    group: String,
    queue_id: i32,
    start_offset: i64,
    pop_time: i64,
    broker_name: String,
}

impl Checkpoint {
    /// When its messages come back, ms.
    pub fn due_ms(&self) -> i64 {
        self.pop_time.saturating_add(self.invisible_time)
    }

    /// The offset of a message by its place.
    pub fn offset_at(&self, n: usize) -> i64 {
        let distance = match self.diffs.get(n) {
            Some(&diff) => i64::from(diff),
            None => n as i64,
        };
        self.start_offset.saturating_add(distance)
    }

    /// The place of a message by its offset.
    pub fn place_of(&self, offset: i64) -> Option<usize> {
        (0..self.len()).find(|&n| self.offset_at(n) == offset)
    }

    /// How many messages.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0).min(MOST)
    }

    /// True when a message is done.
    pub fn is_done(&self, n: usize) -> bool {
        self.done & (1 << (n & 31)) != 0
    }

    /// Notes that a message is done.
    pub fn set_done(&mut self, n: usize) {
        self.done |= 1 << (n & 31);
    }

    /// What its acknowledgements name.
    pub fn key(&self, own_name: &str) -> Key {
        Key {
            topic: self.topic.clone(),
            group: self.group.clone(),
            queue_id: self.queue_id,
            start_offset: self.start_offset,
            pop_time: self.pop_time,
            broker_name: named(self.broker_name.as_deref(), own_name),
        }
    }
}

/// One or several acknowledged messages of a checkpoint (Java's `AckMsg`, `BatchAckMsg`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ack {
    /// Offset of the one message, -1 when there are several.
    #[serde(rename = "ao", alias = "ackOffset")]
    pub offset: i64,
    /// Offsets of several.
    #[serde(
        rename = "aol",
        alias = "ackOffsetList",
        skip_serializing_if = "Option::is_none"
    )]
    pub offsets: Option<Vec<i64>>,
    /// Broker that handed them out.
    #[serde(rename = "bn", alias = "brokerName", skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
    /// Group name.
    #[serde(rename = "c", alias = "consumerGroup")]
    pub group: String,
    /// Pop time, ms.
    #[serde(rename = "pt", alias = "popTime")]
    pub pop_time: i64,
    /// Queue number.
    #[serde(rename = "q", alias = "queueId")]
    pub queue_id: i32,
    /// Start offset of the checkpoint.
    #[serde(rename = "so", alias = "startOffset")]
    pub start_offset: i64,
    /// Topic, which may be a retry topic.
    #[serde(rename = "t", alias = "topic")]
    pub topic: String,
}

impl Ack {
    /// Which checkpoint it belongs to.
    pub fn key(&self, own_name: &str) -> Key {
        Key {
            topic: self.topic.clone(),
            group: self.group.clone(),
            queue_id: self.queue_id,
            start_offset: self.start_offset,
            pop_time: self.pop_time,
            broker_name: named(self.broker_name.as_deref(), own_name),
        }
    }

    /// Java's `genAckUniqueId`, which it uses for batches too.
    fn unique_key(&self) -> String {
        let Self {
            topic,
            queue_id,
            offset,
            group,
            pop_time,
            ..
        } = self;
        let broker = self.broker_name.as_deref().unwrap_or("null");
        format!("{topic}@{queue_id}@{offset}@{group}@{pop_time}@{broker}@{ACK_TAG}")
    }
}

fn named(name: Option<&str>, own_name: &str) -> String {
    match name.map(str::trim) {
        None | Some("") => own_name.to_owned(),
        Some(name) => name.to_owned(),
    }
}

/// What a record of a revive queue holds.
#[derive(Debug)]
pub enum Found {
    /// Messages handed out.
    Checkpoint(Checkpoint),
    /// Messages done.
    Ack(Ack),
    /// Nothing that can be read.
    Garbage,
}

impl Found {
    /// Reads a record of a revive queue, or of the timer's topic on its way there.
    pub fn of(record: &MessageView<'_>) -> Self {
        let read = match record.properties().get(names::TAGS) {
            Some(CHECKPOINT_TAG) => json::from_slice::<Checkpoint>(record.body())
                .ok()
                .filter(|ck| !ck.topic.is_empty() && !ck.group.is_empty())
                .map(|mut ck| {
                    ck.revive_time = ck.due_ms();
                    Self::Checkpoint(ck)
                }),
            Some(ACK_TAG | BATCH_ACK_TAG) => json::from_slice::<Ack>(record.body()).ok().map(Self::Ack),
            _ => None,
        };
        read.unwrap_or(Self::Garbage)
    }
}

impl Broker {
    /// A checkpoint as the message that keeps it, with where the group's next pop begins if this is one.
    pub(super) fn checkpoint_message(
        &self,
        checkpoint: &Checkpoint,
        revive_queue: i32,
        next: Option<i64>,
    ) -> NewMessage {
        let ck = checkpoint;
        let broker = ck.broker_name.as_deref().unwrap_or("null");
        let key = format!(
            "{}@{}@{}@{}@{}@{broker}@{CHECKPOINT_TAG}",
            ck.topic, ck.queue_id, ck.start_offset, ck.group, ck.pop_time
        );
        let at = ck.due_ms().saturating_sub(AHEAD_MS);
        let mut message = self.revive_message(CHECKPOINT_TAG, revive_queue, at, &key, json::to_vec(ck));
        if let Some(next) = next {
            properties::append(&mut message.properties, NEXT_OFFSET, &next.to_string());
        }
        message
    }

    /// Acknowledgements as the message that keeps them; their messages would come back at `due_ms`.
    pub(super) fn ack_message(&self, ack: &Ack, revive_queue: i32, due_ms: i64) -> NewMessage {
        let tag = if ack.offsets.is_some() {
            BATCH_ACK_TAG
        } else {
            ACK_TAG
        };
        self.revive_message(tag, revive_queue, due_ms, &ack.unique_key(), json::to_vec(ack))
    }

    /// Appends a checkpoint or an acknowledgement. Where there is no timer it goes to its revive queue at once, and
    /// waits there.
    pub(super) fn put_for_revive(&self, message: &NewMessage) -> Result<Appended, PutError> {
        match self.put(message) {
            Err(PutError::Wait(NoWait::Off)) => Ok(self.store.append(message)?),
            put => put,
        }
    }

    fn revive_message(&self, tag: &str, queue_id: i32, at_ms: i64, key: &str, body: Vec<u8>) -> NewMessage {
        let mut text = String::with_capacity(128 + key.len());
        properties::append(&mut text, names::TIMER_DELIVER_MS, &at_ms.max(0).to_string());
        properties::append(&mut text, names::TAGS, tag);
        properties::append(&mut text, names::UNIQ_KEY, key);
        NewMessage {
            topic: self.revive_topic(),
            queue_id,
            flag: 0,
            sys_flag: SysFlag::default(),
            born_timestamp: now_ms(),
            born_host: self.store_host,
            store_host: self.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: Bytes::from(body),
            properties: text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written by fastjson from Java's own classes.
    const CHECKPOINT: &str = r#"{"bm":0,"bn":"broker-a","c":"cg","d":[0,1],"it":60000,"n":2,"pt":1795973716309,"q":3,"reviveTime":1795973776309,"ro":0,"rp":"1","so":10,"t":"topic"}"#;
    const ACK: &str = r#"{"ao":11,"bn":"broker-a","c":"cg","pt":5,"q":3,"so":10,"t":"topic"}"#;
    const BATCH: &str = r#"{"ao":-1,"aol":[11],"bn":"broker-a","c":"cg","pt":5,"q":3,"so":10,"t":"topic"}"#;

    #[test]
    fn bodies_are_javas() {
        let ck: Checkpoint = json::from_slice(CHECKPOINT.as_bytes()).unwrap();
        assert_eq!(String::from_utf8(json::to_vec(&ck)).unwrap(), CHECKPOINT);
        assert_eq!(ck.due_ms(), ck.revive_time);
        for text in [ACK, BATCH] {
            let ack: Ack = json::from_slice(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(json::to_vec(&ack)).unwrap(), text);
        }
        let old = r#"{"ackOffset":11,"consumerGroup":"cg","popTime":5,"queueId":3,"startOffset":10,"topic":"topic","brokerName":"broker-a"}"#;
        let old: Ack = json::from_slice(old.as_bytes()).unwrap();
        assert_eq!(old, json::from_slice(ACK.as_bytes()).unwrap());
    }

    #[test]
    fn places_follow_the_distances_or_the_start() {
        let mut ck = Checkpoint {
            start_offset: 10,
            count: 3,
            diffs: vec![0, 4, 9],
            ..Checkpoint::default()
        };
        assert_eq!(
            (ck.offset_at(2), ck.place_of(14), ck.place_of(11)),
            (19, Some(1), None)
        );
        ck.set_done(1);
        assert!(ck.is_done(1) && !ck.is_done(0));
        ck.diffs.clear();
        assert_eq!(
            (ck.place_of(12), ck.place_of(13), ck.place_of(9)),
            (Some(2), None, None)
        );
        ck.count = 100;
        assert_eq!(ck.len(), MOST);
        ck.count = -1;
        assert_eq!(ck.len(), 0);
    }

    #[test]
    fn acknowledgements_without_a_broker_are_ours() {
        let ck = Checkpoint {
            broker_name: Some("b".into()),
            ..Checkpoint::default()
        };
        assert_eq!(ck.key("b"), Ack::default().key("b"));
        assert_ne!(ck.key("c"), Ack::default().key("c"));
    }
}
