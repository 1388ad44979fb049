//! Records taken out of a store: as lines for other programs, or as a store of their own.

use std::collections::BTreeSet;

use super::commit_log::{Gap, Step, Walk};
use super::record::{BODY_LIMIT, Wanted};
use crate::protocol::base64::STANDARD;
use crate::protocol::message::MessageView;
use crate::protocol::model::SCHEDULE_TOPIC;
use crate::protocol::properties::names;
use crate::store::cursor::Record;
use serde_json::{Map, Value, json};

mod copy;
mod tables;

pub use copy::{Copied, StoreCopy, Target};

/// Which records are taken.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Topics; empty for all.
    pub topics: BTreeSet<String>,
    /// Queue, tag and key.
    pub wanted: Wanted,
    /// Store times from here on, ms.
    pub from_ms: Option<i64>,
    /// Store times up to here, ms.
    pub to_ms: Option<i64>,
    /// Also what brokers keep for themselves: delayed, timed and half messages.
    pub system: bool,
}

impl Selection {
    /// True when a record of this topic may be taken.
    pub fn has_topic(&self, topic: &str) -> bool {
        if self.topics.is_empty() {
            self.system || !is_internal(topic)
        } else {
            self.topics.contains(topic)
        }
    }

    fn has(&self, view: &MessageView<'_>) -> bool {
        let stored = view.store_timestamp();
        self.from_ms.is_none_or(|from| stored >= from)
            && self.to_ms.is_none_or(|to| stored <= to)
            && self.wanted.matches(view)
    }
}

/// True for topics whose records a broker acts on by itself: to have them in another store would make it act again.
pub fn is_internal(topic: &str) -> bool {
    topic == SCHEDULE_TOPIC || topic.starts_with("RMQ_SYS_") || topic.starts_with("rmq_sys_")
}

/// What was met on the way.
#[derive(Debug, Clone, Default)]
pub struct Passed {
    /// Records taken.
    pub taken: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records of internal topics that were left out.
    pub internal: u64,
    /// Records left over from before the log was cut, left out.
    pub stale: u64,
    /// Offset up to which the log was looked at.
    pub reached: u64,
    /// The walk was ended before the end of the log.
    pub is_cut: bool,
}

/// What a selection meets.
#[derive(Debug)]
pub enum Taken<'a> {
    /// A record that is wanted.
    Record(&'a Record, &'a MessageView<'a>),
    /// Damage that may hide some.
    Gap(&'a Gap),
    /// How far it is; only for showing.
    At(u64),
}

/// Hands what a walk meets and the selection wants to `each`, until that is false.
pub fn select<E>(
    walk: Walk<'_>,
    selection: &Selection,
    mut each: impl FnMut(Taken<'_>) -> Result<bool, E>,
) -> Result<Passed, E> {
    let mut passed = Passed::default();
    for step in walk {
        let end = step.end();
        match &step {
            Step::Message { stale: true, .. } => passed.stale += 1,
            Step::Message { record, .. } => {
                let Ok(view) = record.view() else { continue };
                if selection.to_ms.is_some_and(|to| view.store_timestamp() > to) {
                    return Ok(passed);
                }
                if selection.has(&view) {
                    if !selection.has_topic(view.topic()) {
                        passed.internal += u64::from(selection.topics.is_empty());
                    } else if each(Taken::Record(record, &view))? {
                        passed.taken += 1;
                        passed.bytes += view.size() as u64;
                    } else {
                        passed.is_cut = true;
                        return Ok(passed);
                    }
                }
            }
            Step::Gap(gap) => {
                each(Taken::Gap(gap))?;
            }
            Step::Filler { .. } | Step::Tail { .. } => {}
        }
        passed.reached = end;
        if !each(Taken::At(end))? {
            passed.is_cut = true;
            return Ok(passed);
        }
    }
    Ok(passed)
}

/// A record as one JSON object. The body is decompressed, unless `raw`; one that does not decompress stays as it is.
pub fn line(record: &Record, view: &MessageView<'_>, raw: bool) -> Map<String, Value> {
    let properties = view.properties();
    let flag = view.sys_flag();
    let decoded = if raw {
        None
    } else {
        view.decoded_body(BODY_LIMIT).ok()
    };
    let is_stored = decoded.is_none();
    let compression = flag.compression().map(|kind| format!("{kind:?}").to_lowercase());
    let map: Map<String, Value> = properties
        .iter()
        .map(|(name, value)| (name.to_owned(), json!(value)))
        .collect();
    let keys = properties.get(names::KEYS).unwrap_or_default();
    let keys: Vec<&str> = keys.split(' ').filter(|key| !key.is_empty()).collect();
    let value = json!({
        "topic": view.topic(),
        "queue_id": view.queue_id(),
        "queue_offset": view.queue_offset(),
        "offset": record.at,
        "offset_id": view.offset_id(),
        "unique_key": properties.get(names::UNIQ_KEY),
        "tags": properties.get(names::TAGS),
        "keys": keys,
        "stored_at_ms": view.store_timestamp(),
        "born_at_ms": view.born_timestamp(),
        "born_host": view.born_host().to_string(),
        "store_host": view.store_host().to_string(),
        "flag": view.flag(),
        "sys_flag": flag.0,
        "reconsume_times": view.reconsume_times(),
        "prepared_offset": view.prepared_transaction_offset(),
        "properties": map,
        "body_compression": compression.filter(|_| is_stored),
        "body_base64": STANDARD.encode(decoded.as_deref().unwrap_or(view.body())),
    });
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_broker_acts_on_is_taken_only_by_name() {
        let mut selection = Selection::default();
        assert!(selection.has_topic("Orders") && selection.has_topic("%RETRY%g"));
        assert!(!selection.has_topic("SCHEDULE_TOPIC_XXXX"));
        assert!(!selection.has_topic("rmq_sys_wheel_timer"));
        selection.topics.insert("SCHEDULE_TOPIC_XXXX".into());
        assert!(selection.has_topic("SCHEDULE_TOPIC_XXXX") && !selection.has_topic("Orders"));
    }
}
