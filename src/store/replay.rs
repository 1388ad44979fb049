//! Recovery's look at the records of the log: completes queues and index from them, and finds where the log ends.
//!
//! A walk that meets a record whose predecessors in its queue are missing does not write its entry, but notes the
//! queue; when the walk is through, what such queues lack is made in a second one that begins early enough for all of
//! them. So a queue is never left with a hole for records that the log has.

use std::collections::HashSet;
use std::sync::Arc;

use super::Error;
use super::build::{Dispatch, Wanted};
use super::consume_queue::{ConsumeQueue, Replayed};
use super::cursor::{DamageKind, Found, MessageCursor};
use super::index::IndexFile;
use super::salvage::{next_record, record_of, resume};
use super::segments::{LogBytes, Segments};
use super::warm::{self, Walking};
use crate::protocol::message::MessageView;
use crate::protocol::model::SysFlag;

/// Where a walk over the log ended.
#[derive(Debug, Clone, Copy, Default)]
pub struct Walked {
    /// Behind the last whole record.
    pub end: u64,
    /// Offset and store time of the last whole record.
    pub last: Option<(u64, i64)>,
    /// The walk ended at something else than zeros.
    pub damaged: bool,
}

/// What becomes of a record's queue entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// It is written; queues that lack earlier ones are noted.
    Walk,
    /// The same, but no queue comes into being for a topic that nobody knows any more.
    Check,
    /// Only noted queues get it.
    Complete,
    /// Only the index gets its keys.
    Index,
}

/// The work of recovery on records.
#[derive(Debug)]
pub struct Replay<'a> {
    /// Makes what is derived from a record.
    pub dispatch: Dispatch<'a>,
    /// The log.
    pub log: &'a Segments,
    /// Topics that the broker knows; `None` when there is no such list.
    pub topics: Option<HashSet<String>>,
    /// Where the walk must begin that completes the noted queues.
    pub missing_from: Option<u64>,
    /// From here on nothing more could be written, the disk being full.
    pub stuck_at: Option<u64>,
    /// Index files that became full.
    pub full_index: Vec<Arc<IndexFile>>,
    /// Entries that were wrong.
    pub mended: u64,
}

impl<'a> Replay<'a> {
    /// Nothing done yet.
    pub fn new(dispatch: Dispatch<'a>, log: &'a Segments, topics: Option<HashSet<String>>) -> Self {
        Self {
            dispatch,
            log,
            topics,
            missing_from: None,
            stuck_at: None,
            full_index: Vec::new(),
            mended: 0,
        }
    }

    /// Notes that a queue lacks entries, from its end on or from the very first.
    pub fn note(&mut self, queue: &ConsumeQueue, from_start: bool) -> Result<(), Error> {
        if from_start {
            queue.reset()?;
        }
        let from = self.note_quietly(queue);
        let name = queue.name();
        tracing::warn!(
            "consume queue {}@{}: entries from {} on are missing; made again from the log at {from}",
            name.topic,
            name.queue_id,
            queue.max()
        );
        Ok(())
    }

    /// The same for a queue of which it was said already; from its end on. Returns where in the log that begins.
    pub fn note_quietly(&mut self, queue: &ConsumeQueue) -> u64 {
        let from = u64::try_from(queue.max_physic())
            .unwrap_or(0)
            .max(self.log.start());
        queue.behind.store(true, std::sync::atomic::Ordering::Relaxed);
        self.missing_from = Some(self.missing_from.map_or(from, |noted| noted.min(from)));
        from
    }

    /// Does what the pass asks for with a record. On a full disk the rest is left for later.
    pub fn record(&mut self, view: &MessageView<'_>, pass: Pass) -> Result<(), Error> {
        let wanted = Wanted::of(view);
        if pass != Pass::Index {
            let done = self.queue(view, &wanted, pass);
            self.or_stuck(view, done)?;
        }
        if matches!(pass, Pass::Walk | Pass::Index) && self.stuck_at.is_none() {
            let done = self.index(view, &wanted);
            self.or_stuck(view, done)?;
        }
        Ok(())
    }

    fn or_stuck(&mut self, view: &MessageView<'_>, done: Result<(), Error>) -> Result<(), Error> {
        match done {
            Err(Error::Io { what, path, source }) if source.kind() == std::io::ErrorKind::StorageFull => {
                let at = view.physical_offset();
                tracing::error!(
                    "cannot {what} {}: {source}; the store opens, and queues and index follow from {at} on when there \
                     is room",
                    path.display()
                );
                // The first place counts: from there on all is made later.
                self.stuck_at = self.stuck_at.or(u64::try_from(at).ok());
                Ok(())
            }
            done => done,
        }
    }

    fn queue(&mut self, view: &MessageView<'_>, wanted: &Wanted<'_>, pass: Pass) -> Result<(), Error> {
        if pass == Pass::Check && self.is_forgotten(view.topic(), view.queue_id()) {
            return Ok(());
        }
        if view.sys_flag().has(SysFlag::INNER_BATCH) {
            return if pass == Pass::Complete || self.stuck_at.is_some() {
                Ok(())
            } else {
                self.dispatch.batch_entry(view, wanted)
            };
        }
        let Some((queue, entry)) = self.dispatch.entry(view, wanted) else {
            return Ok(());
        };
        let offset = view.queue_offset();
        if self.stuck_at.is_some() {
            // What cannot be written now must not be given away again.
            queue.note(offset);
            return Ok(());
        }
        if self.dispatch.light_queues {
            self.dispatch.light_entries(view, entry)?;
        }
        let behind = queue.behind.load(std::sync::atomic::Ordering::Relaxed);
        if behind != (pass == Pass::Complete) {
            return Ok(());
        }
        let log = self.log;
        let is_right = |found| is_right(log, &queue, offset, found);
        let replayed = queue.replay(offset, entry, pass == Pass::Complete, is_right);
        match replayed.inspect_err(|_| queue.note(offset))? {
            Replayed::Written | Replayed::Known => {}
            Replayed::Mended => {
                let name = queue.name();
                tracing::warn!(
                    "consume queue {}@{}: entry {offset} was wrong; made again",
                    name.topic,
                    name.queue_id
                );
                self.mended += 1;
            }
            Replayed::Missing { from_start } => self.note(&queue, from_start)?,
        }
        Ok(())
    }

    fn index(&mut self, view: &MessageView<'_>, wanted: &Wanted<'_>) -> Result<(), Error> {
        let full = &mut self.full_index;
        self.dispatch.index_keys(view, wanted, |index, key| {
            let put = index.put(view.topic(), key, view.physical_offset(), view.store_timestamp());
            full.extend(put?);
            Ok(())
        })
    }

    /// True for an ordinary topic without queue and configuration: it was deleted, and its old records are no reason to
    /// bring it back.
    pub fn is_forgotten(&self, topic: &str, queue_id: i32) -> bool {
        let Some(topics) = &self.topics else {
            return false;
        };
        !topics.contains(topic)
            && !topic.starts_with('%')
            && !topic.to_ascii_lowercase().starts_with("rmq_sys")
            && topic != crate::protocol::model::SCHEDULE_TOPIC
            && self.dispatch.queues.find(topic, queue_id).is_none()
    }

    /// True when the queue of a record has its entry, or need not have it.
    pub fn has(&self, view: &MessageView<'_>) -> bool {
        if self.is_forgotten(view.topic(), view.queue_id()) {
            return true;
        }
        self.dispatch
            .entry(view, &Wanted::of(view))
            .is_none_or(|(queue, entry)| {
                queue.max_physic() >= entry.end()
                    && queue.first().is_some_and(|first| first <= view.queue_offset())
            })
    }

    /// Walks the log from `start` on and replays every whole record. Ends at the first damage of the last segment;
    /// damage in an earlier one is passed over.
    pub fn walk(&mut self, start: u64, check_body: bool) -> Result<Walked, Error> {
        warm::ahead_of(self.log, start, |walking| {
            self.walk_on(start, check_body, walking)
        })
    }

    fn walk_on(&mut self, start: u64, check_body: bool, walking: &Walking) -> Result<Walked, Error> {
        let mut walked = Walked {
            end: start,
            ..Walked::default()
        };
        let segments = self.log;
        let mut cursor = MessageCursor::new(segments, start).check_body(check_body);
        while let Some(step) = cursor.next() {
            match step {
                Ok(Found::Message(record)) => {
                    let Ok(view) = record.view() else { break };
                    self.record(&view, Pass::Walk)?;
                    walked.end = record.end();
                    walking.reached(walked.end);
                    walked.last = Some((record.at, view.store_timestamp()));
                }
                Ok(Found::Filler { at, len }) => {
                    // With no file behind it, the filler is where the next record goes.
                    let has_next = segments.files().any(|file| file.base == at + len);
                    walked.end = if has_next { at + len } else { at };
                }
                Err(damage) => {
                    // A file that is there and cannot be opened does not end the log.
                    segments.check(damage.at)?;
                    let after = walked.last.map_or(0, |(_, time)| time);
                    let next = resume(segments, damage.at, after).or_else(|| {
                        let next = segments.files().find(|file| file.base > damage.at)?;
                        (damage.kind == DamageKind::Missing).then_some(next.base)
                    });
                    if let Some(next) = next {
                        tracing::error!(
                            "commit log {damage}; messages between {} and {next} are lost, the log goes on there",
                            damage.at
                        );
                        cursor.seek(next);
                        walked.end = next;
                        continue;
                    }
                    walked.damaged = damage.kind != DamageKind::Zeros;
                    if walked.damaged {
                        tracing::warn!("commit log {damage}; it ends there");
                    }
                    walked.end = damage.at;
                    break;
                }
            }
        }
        Ok(walked)
    }

    /// Replays the records of `from..to`, stepping over damage.
    pub fn sweep(&mut self, from: u64, to: u64, pass: Pass) -> Result<(), Error> {
        warm::ahead_of(self.log, from, |walking| self.sweep_on(from, to, pass, walking))
    }

    fn sweep_on(&mut self, from: u64, to: u64, pass: Pass, walking: &Walking) -> Result<(), Error> {
        let segments = self.log;
        let mut cursor = MessageCursor::new(segments, from.max(segments.start())).check_body(false);
        while cursor.position() < to && self.stuck_at.is_none() {
            walking.reached(cursor.position());
            match cursor.next() {
                Some(Ok(Found::Message(record))) => {
                    if let Ok(view) = record.view() {
                        self.record(&view, pass)?;
                    }
                }
                Some(Ok(Found::Filler { .. })) => {}
                Some(Err(damage)) => {
                    segments.check(damage.at)?;
                    let file_end = segments.file_end(damage.at);
                    cursor.seek(next_record(segments, damage.at + 1, file_end).unwrap_or(file_end));
                }
                None => break,
            }
        }
        Ok(())
    }

    /// Makes the entries that noted queues lack, of records up to `to`.
    pub fn complete(&mut self, to: u64) -> Result<(), Error> {
        match (self.missing_from.take(), self.stuck_at) {
            (None, _) => Ok(()),
            (Some(from), None) => self.sweep(from, to, Pass::Complete),
            (Some(from), Some(at)) => {
                self.stuck_at = Some(from.min(at));
                Ok(())
            }
        }
    }
}

/// True when an entry that is not the one expected is in order all the same: it leads to a record of this queue, and no
/// other entry does.
fn is_right(
    log: &Segments,
    queue: &ConsumeQueue,
    offset: i64,
    found: super::format::consume_queue::Entry,
) -> bool {
    if found.offset < log.start() as i64 {
        return true;
    }
    let name = queue.name();
    record_of(log, (found.offset, found.size), &name.topic, name.queue_id).is_some_and(|own| {
        own == offset
            || queue
                .entry(own)
                .is_none_or(|other| (other.offset, other.size) != (found.offset, found.size))
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::batch_queues::BatchQueues;
    use super::super::deleted::DeletedTopics;
    use super::super::queues::ConsumeQueues;
    use super::super::segments::SegmentFile;
    use super::*;

    #[test]
    fn a_segment_that_cannot_be_opened_is_an_error_and_not_the_end_of_the_log() {
        let file = |base| SegmentFile {
            base,
            path: "/no/such/segment".into(),
            len: 4096,
        };
        let (queues, deleted) = (
            ConsumeQueues::new("q".into(), 100),
            DeletedTopics::load(Path::new("/no"), 0).unwrap(),
        );
        let batches = BatchQueues::load(Path::new("/no")).unwrap();
        let walk = |files| {
            let log = Segments::new(files, 4096, false);
            let dispatch = Dispatch {
                queues: &queues,
                batches: &batches,
                light_queues: false,
                index: None,
                delays: &[],
                deleted: &deleted,
                indexed_to: -1,
            };
            Replay::new(dispatch, &log, None).walk(0, true)
        };
        let error = walk(vec![file(0), file(4096)]).unwrap_err().to_string();
        assert!(error.contains("/no/such/segment"), "{error}");
        // A hole between files is stepped over.
        assert!(walk(vec![file(4096)]).is_err());
    }
}
