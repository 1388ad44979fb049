//! A record compared with the queue entry that must lead to it.

use std::collections::{HashMap, HashSet};

use crate::inspect::Error;
use crate::inspect::consume_queue::{Queue, QueueKind};
use crate::inspect::info::Info;
use crate::protocol::message::MessageView;
use crate::protocol::model::{SCHEDULE_TOPIC, tags_code};
use crate::protocol::properties::names;
use crate::store::format::consume_queue_ext;
use crate::store::reader::QueueName;

use super::piece::Context;
use super::sides::Windows;

/// Queues held open at once for those that need a closer look.
const OPEN_QUEUES: usize = 64;

/// What is wrong with the entry for a record.
pub(super) type Amiss = (&'static str, String);

/// The properties that matter here, found in one go.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Picked<'a> {
    pub(super) tags: Option<&'a str>,
    pub(super) keys: Option<&'a str>,
    pub(super) unique_key: Option<&'a str>,
    pub(super) queues: Option<&'a str>,
    pub(super) offsets: Option<&'a str>,
}

impl<'a> Picked<'a> {
    pub(super) fn of(view: &MessageView<'a>) -> Self {
        const WANTED: [&str; 5] = [
            names::TAGS,
            names::KEYS,
            names::UNIQ_KEY,
            names::INNER_MULTI_DISPATCH,
            names::INNER_MULTI_QUEUE_OFFSET,
        ];
        let mut found = [None; 5];
        for (name, value) in view.properties().iter_bytes() {
            // The last one of a name wins.
            if let Some(n) = WANTED.iter().position(|wanted| wanted.as_bytes() == name)
                && let Ok(value) = std::str::from_utf8(value)
            {
                found[n] = Some(value);
            }
        }
        let [tags, keys, unique_key, queues, offsets] = found;
        Self {
            tags,
            keys,
            unique_key,
            queues,
            offsets,
        }
    }
}

/// Which topics there are, and which there were.
#[derive(Debug)]
pub(super) struct Topics {
    /// Names in `topics.json`, if that can be read.
    named: Option<HashSet<String>>,
    /// End of the log when a topic was deleted.
    deleted: HashMap<String, u64>,
}

impl Topics {
    pub(super) fn new(info: &Info) -> Self {
        let table = |name: &str| info.tables.iter().find(|table| table.name == name)?.content();
        let named = table("topics.json")
            .and_then(|content| content.get("topicConfigTable")?.as_object())
            .map(|topics| topics.keys().cloned().collect());
        let text = table("rmqDeletedTopics").and_then(|content| content.get("text")?.as_str());
        let deleted = text
            .unwrap_or_default()
            .lines()
            .filter_map(|line| {
                let (end, topic) = line.split_once(' ')?;
                Some((topic.to_owned(), end.parse().ok()?))
            })
            .collect();
        Self { named, deleted }
    }

    /// True when a record's topic was deleted after the record was stored, as far as the tables tell.
    fn is_gone(&self, topic: &str, at: u64) -> bool {
        self.deleted.get(topic).is_some_and(|&end| at < end)
            || self.named.as_ref().is_some_and(|named| !named.contains(topic))
    }
}

/// Looks up entries for one thread.
pub(super) struct Lookup<'a> {
    context: &'a Context<'a>,
    windows: Windows<'a>,
    open: HashMap<QueueName, Queue>,
}

impl<'a> Lookup<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            windows: Windows::new(&context.sides, context.threads),
            open: HashMap::new(),
        }
    }

    /// What is wrong with the entry at a queue offset for the record at `at`; `None` for nothing.
    pub(super) fn look(
        &mut self,
        side: Option<usize>,
        topic: &str,
        queue_offset: i64,
        view: &MessageView<'_>,
        picked: &Picked<'_>,
        at: u64,
    ) -> Result<Option<Amiss>, Error> {
        let Some(side) = side else {
            return Ok(Some(if self.context.topics.is_gone(topic, at) {
                ("deleted-topic", "the topic was deleted".into())
            } else {
                ("missing-queue", "there is no such queue".into())
            }));
        };
        let Ok(offset) = u64::try_from(queue_offset) else {
            return Ok(Some((
                "missing-entry",
                format!("the record has queue offset {queue_offset}"),
            )));
        };
        let min = self.context.sides.get(side).min;
        if self.context.sides.get(side).kind == QueueKind::Batch {
            return self.look_closer(side, offset, view, at);
        }
        let Some(entry) = self.windows.entry(side, offset) else {
            return Ok(Some((
                "missing-entry",
                "no queue entry leads to the record".into(),
            )));
        };
        if entry.is_blank() || queue_offset < min {
            return Ok(Some((
                "missing-entry",
                "the queue begins behind the record".into(),
            )));
        }
        if u64::try_from(entry.offset) != Ok(at) {
            return Ok(Some((
                "other-record",
                format!("the queue entry leads to {} instead", entry.offset),
            )));
        }
        let code = entry.tags_code;
        let code_fits = if topic == SCHEDULE_TOPIC {
            code >= view.store_timestamp()
        } else {
            consume_queue_ext::address(code).is_none() && code == picked.tags.map_or(0, tags_code)
        };
        let fits = code_fits && usize::try_from(entry.size) == Ok(view.size());
        if fits {
            Ok(None)
        } else {
            self.look_closer(side, offset, view, at)
        }
    }

    /// The same without short cuts, to find the words for it.
    fn look_closer(
        &mut self,
        side: usize,
        offset: u64,
        view: &MessageView<'_>,
        at: u64,
    ) -> Result<Option<Amiss>, Error> {
        let side = self.context.sides.get(side);
        if !self.open.contains_key(&side.name) {
            if self.open.len() >= OPEN_QUEUES {
                self.open.clear();
            }
            let queue = self.context.store.queue(side.name.clone(), side.kind)?;
            self.open.insert(side.name.clone(), queue);
        }
        let Some(queue) = self.open.get_mut(&side.name) else {
            return Ok(None);
        };
        let index = queue.index_of(offset);
        let Some(entry) = queue.entry_cached(index) else {
            return Ok(Some((
                "missing-entry",
                "no queue entry leads to the record".into(),
            )));
        };
        if entry.is_blank() || i64::try_from(offset).is_ok_and(|offset| offset < side.min) {
            return Ok(Some((
                "missing-entry",
                "the queue begins behind the record".into(),
            )));
        }
        if u64::try_from(entry.offset) != Ok(at) {
            return Ok(Some((
                "other-record",
                format!("the queue entry leads to {} instead", entry.offset),
            )));
        }
        let differences = queue.differences(index, &entry, view);
        Ok((!differences.is_empty()).then(|| ("entry-differs", differences.join("; "))))
    }
}
