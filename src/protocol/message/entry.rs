//! What a queue entry says of its record, and whether the record says the same.

use std::fmt::Display;

use super::MessageView;
use crate::protocol::model::SysFlag;
use crate::protocol::properties::names;

/// What a queue entry says, its tags code left out: what that means depends on the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryClaim<'a> {
    /// Topic of the queue.
    pub topic: &'a str,
    /// Its number.
    pub queue: i32,
    /// Queue offset of the entry's (first) message.
    pub offset: i64,
    /// Bytes of the record.
    pub size: i32,
}

/// `size: entry 20, record 21`
pub fn difference(what: &str, here: &dyn Display, there: &dyn Display) -> String {
    format!("{what}: entry {here}, record {there}")
}

impl EntryClaim<'_> {
    /// What the entry says otherwise than the record does.
    pub fn differences(&self, view: &MessageView<'_>) -> Vec<String> {
        let mut out = Vec::new();
        if usize::try_from(self.size).ok() != Some(view.size()) {
            out.push(difference("size", &self.size, &view.size()));
        }
        if view.topic() == self.topic && view.queue_id() == self.queue {
            if view.queue_offset() != self.offset {
                out.push(difference("queue offset", &self.offset, &view.queue_offset()));
            }
        } else if let Some(dispatched) = self.dispatched_offset(view) {
            if dispatched != Some(self.offset) {
                let there = dispatched.map_or_else(|| "none".to_owned(), |offset| offset.to_string());
                out.push(difference("queue offset", &self.offset, &there));
            }
        } else {
            let here = format!("{}@{}", self.topic, self.queue);
            let there = format!("{}@{}", view.topic(), view.queue_id());
            out.push(difference("queue", &here, &there));
        }
        if matches!(
            view.sys_flag().transaction(),
            SysFlag::TRANSACTION_PREPARED | SysFlag::TRANSACTION_ROLLBACK
        ) {
            out.push(difference("transaction", &"visible", &"prepared or rolled back"));
        }
        out
    }

    /// The offset that a record of another topic was given here; `None` when it was not sent here.
    fn dispatched_offset(&self, view: &MessageView<'_>) -> Option<Option<i64>> {
        let properties = view.properties();
        let place = properties
            .get(names::INNER_MULTI_DISPATCH)?
            .split(',')
            .position(|name| name == self.topic)?;
        Some(
            properties
                .get(names::INNER_MULTI_QUEUE_OFFSET)
                .and_then(|offsets| offsets.split(',').nth(place)?.parse().ok()),
        )
    }
}
