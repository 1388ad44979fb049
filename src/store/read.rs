//! Reading: messages of a queue, queue offsets by time, records by key.

use bytes::Bytes;

use super::batch_queues::BatchQueue;
use super::build::LIGHT_QUEUE_PREFIX;
use super::consume_queue::{ConsumeQueue, partition_point};
use super::format::consume_queue::{Entry, LEN, entries};
use super::format::consume_queue_ext;
use super::segments::LogBytes;
use super::shared::Shared;
use super::{Boundary, Entries, GetStatus, Got, MessageFilter, Queried, QueueEntry, StoreFigures, disk};
use crate::protocol::message::{MessageView, Peek, peek};
use crate::protocol::model::tags_code;
use crate::protocol::properties::names;

/// Most bytes of one answer, whatever is asked for.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// Least bytes of one answer that a caller may ask for, as in Java.
const LEAST_BYTES: usize = 100;

/// Cuts records out of one window of the log after the other.
struct Cutter<'a, L> {
    log: &'a L,
    window: Bytes,
    window_at: u64,
}

impl<L: LogBytes> Cutter<'_, L> {
    /// The record of an entry, if it is there.
    fn record(&mut self, entry: Entry) -> Option<Bytes> {
        let at = u64::try_from(entry.offset).ok()?;
        let len = usize::try_from(entry.size).ok()?;
        let in_window = at
            .checked_sub(self.window_at)
            .and_then(|from| usize::try_from(from).ok())
            .filter(|from| from.checked_add(len).is_some_and(|end| end <= self.window.len()));
        let from = match in_window {
            Some(from) => from,
            None => {
                self.window = self.log.window(at, len)?;
                self.window_at = at;
                0
            }
        };
        let bytes = self.window.get(from..from.checked_add(len)?)?;
        // An entry that does not fit the log is as good as one whose record is gone.
        (peek(bytes) == Ok(Peek::Message(len))).then(|| self.window.slice(from..from + len))
    }
}

/// Whether a record that an earlier process wrote is still what its queue entry says: its checksum holds, and it is of
/// this queue. Java hands out whatever lies there.
fn is_sound(queue: &ConsumeQueue, offset: i64, record: &[u8]) -> bool {
    let name = queue.name();
    let fault = match MessageView::parse_checked(record) {
        Ok(view) => {
            // Queues of many light topics point to the record of the one topic it was sent to.
            let is_here = view.topic() == name.topic && view.queue_id() == name.queue_id;
            if is_here || name.topic.starts_with(LIGHT_QUEUE_PREFIX) {
                return true;
            }
            format!("it is of {}@{}", view.topic(), view.queue_id())
        }
        Err(fault) => fault.to_string(),
    };
    tracing::error!(
        "the record of {}@{} {offset} is damaged: {fault}; it is not handed out",
        name.topic,
        name.queue_id
    );
    false
}

/// The tag code of a record by its own properties.
fn own_code(record: &[u8]) -> i64 {
    MessageView::parse(record)
        .ok()
        .and_then(|view| view.properties().get(names::TAGS).map(tags_code))
        .unwrap_or(0)
}

impl Shared {
    /// See [`super::MessageStore::get`].
    pub fn get(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Got {
        if let Some(batches) = self.batches.find(topic, queue_id) {
            return self.get_batches(&batches, offset, max_count, max_bytes, filter);
        }
        let queue = self.queues.find(topic, queue_id);
        let (min, max) = queue.as_ref().map_or((0, 0), |queue| {
            let max = queue.max();
            (queue.min().min(max), max)
        });
        let got = |status, next_offset| Got {
            status,
            next_offset,
            min_offset: min,
            max_offset: max,
            records: Vec::new(),
        };
        match queue {
            None => got(GetStatus::NoMessageInQueue, 0),
            Some(_) if max == 0 => got(GetStatus::NoMessageInQueue, 0),
            Some(_) if offset < min => got(GetStatus::OffsetTooSmall, min),
            Some(_) if offset == max => got(GetStatus::OffsetOverflowOne, offset),
            Some(_) if offset > max => got(GetStatus::OffsetOverflowBadly, max),
            Some(queue) => self.collect(
                &queue,
                got(GetStatus::NoMatchedMessage, offset),
                max_count,
                max_bytes,
                filter,
            ),
        }
    }

    /// As [`Self::get`], of a batch queue: whole records of several messages, from the one that holds the offset on.
    fn get_batches(
        &self,
        queue: &BatchQueue,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Got {
        let (min, max) = (queue.min(), queue.max());
        let mut got = Got {
            status: GetStatus::NoMatchedMessage,
            next_offset: offset,
            min_offset: min,
            max_offset: max,
            records: Vec::new(),
        };
        (got.status, got.next_offset) = match offset {
            _ if max == 0 => (GetStatus::NoMessageInQueue, 0),
            offset if offset < min => (GetStatus::OffsetTooSmall, min),
            offset if offset == max => (GetStatus::OffsetOverflowOne, offset),
            offset if offset > max => (GetStatus::OffsetOverflowBadly, max),
            offset => (GetStatus::NoMatchedMessage, offset),
        };
        if got.status != GetStatus::NoMatchedMessage {
            return got;
        }
        let config = self.config.load();
        let log_end = self.log.segments().end() as i64;
        let hot = self.hot_bytes();
        let (mut bytes, mut messages) = (0usize, 0usize);
        for entry in queue.run(offset) {
            let size = usize::try_from(entry.size).unwrap_or(0);
            let holds = usize::try_from(entry.batch_size).unwrap_or(0);
            let in_memory = log_end.saturating_sub(entry.offset) <= hot;
            let (most_bytes, most_count) = if in_memory {
                (
                    config.max_transfer_bytes_on_message_in_memory,
                    config.max_transfer_count_on_message_in_memory,
                )
            } else {
                (
                    config.max_transfer_bytes_on_message_in_disk,
                    config.max_transfer_count_on_message_in_disk,
                )
            };
            let full = messages + holds > max_count || messages >= most_count;
            if bytes > 0 && (full || bytes + size > max_bytes.clamp(LEAST_BYTES, MOST_BYTES).min(most_bytes))
            {
                break;
            }
            got.next_offset = entry.end_offset();
            if !filter.passes_code(entry.tags_code) {
                continue;
            }
            match self.log.record(entry.offset, Some(entry.size)) {
                Some(record)
                    if !self.log.is_own(entry.offset) && MessageView::parse_checked(&record).is_err() =>
                {
                    tracing::error!(
                        "the record at {} of a batch queue is damaged; it is not handed out",
                        entry.offset
                    );
                }
                Some(record) if filter.passes_record(&record) => {
                    bytes += record.len();
                    messages += holds;
                    got.records.push(record);
                    got.status = GetStatus::Found;
                }
                Some(_) => {}
                None if bytes == 0 => got.status = GetStatus::MessageWasRemoving,
                None => {}
            }
        }
        got
    }

    /// Takes records from `got.next_offset` on, from one segment of the queue, until a limit is reached.
    fn collect(
        &self,
        queue: &ConsumeQueue,
        mut got: Got,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Got {
        let config = self.config.load();
        let offset = got.next_offset;
        let run = match queue.look(offset) {
            Ok(Some(run)) => run,
            found => {
                got.status = GetStatus::OffsetFoundNull;
                // What cannot be read now is not passed over.
                match found {
                    Err(e) => tracing::error!("{e}"),
                    Ok(_) => got.next_offset = queue.next_segment(offset),
                }
                return got;
            }
        };
        let max_bytes = max_bytes.clamp(LEAST_BYTES, MOST_BYTES);
        let scan = config.max_filter_message_size.max(max_count.saturating_mul(LEN)) / LEN;
        let log = self.log.segments();
        let (log_end, hot) = (log.end() as i64, self.hot_bytes());
        let mut cutter = Cutter {
            log,
            window: Bytes::new(),
            window_at: 0,
        };
        let mut bytes = 0usize;
        // Records below are gone.
        let mut gone_below = i64::MIN;
        for entry in entries(run.bytes()).take(scan) {
            let is_blank = entry.to_entry().is_blank();
            let size = match usize::try_from(entry.size()) {
                Ok(size) if !is_blank => size,
                _ => 0,
            };
            if bytes > 0 {
                let count = got.records.len();
                let in_memory = log_end.saturating_sub(entry.offset()) <= hot;
                let (most_bytes, most_count) = if in_memory {
                    (
                        config.max_transfer_bytes_on_message_in_memory,
                        config.max_transfer_count_on_message_in_memory,
                    )
                } else {
                    (
                        config.max_transfer_bytes_on_message_in_disk,
                        config.max_transfer_count_on_message_in_disk,
                    )
                };
                if count >= max_count.min(most_count) || bytes + size > max_bytes.min(most_bytes) {
                    break;
                }
            }
            got.next_offset += 1;
            // With Java's queue extension the code stands elsewhere; the record's own tag tells as well.
            let elsewhere = consume_queue_ext::address(entry.tags_code()).is_some();
            if is_blank
                || entry.offset() < gone_below
                || !(elsewhere || filter.passes_code(entry.tags_code()))
            {
                continue;
            }
            let at = got.next_offset - 1;
            let record = cutter.record(entry.to_entry());
            match record.filter(|record| self.log.is_own(entry.offset()) || is_sound(queue, at, record)) {
                Some(record) if elsewhere && !filter.passes_code(own_code(&record)) => {
                    if bytes == 0 {
                        got.status = GetStatus::NoMatchedMessage;
                    }
                }
                Some(record) if !filter.passes_record(&record) => {
                    if bytes == 0 {
                        got.status = GetStatus::NoMatchedMessage;
                    }
                }
                Some(record) => {
                    bytes += record.len();
                    got.records.push(record);
                    got.status = GetStatus::Found;
                }
                None => {
                    if bytes == 0 {
                        got.status = GetStatus::MessageWasRemoving;
                    }
                    // One that is damaged takes no others with it.
                    gone_below = i64::try_from(log.start()).unwrap_or(i64::MAX);
                }
            }
        }
        got
    }

    /// See [`super::MessageStore::entries`].
    pub fn entries(&self, topic: &str, queue_id: i32, from: i64, most: usize) -> Entries {
        let Some(queue) = self.queues.find(topic, queue_id) else {
            return Entries {
                next_offset: from,
                ..Entries::default()
            };
        };
        let (min, max) = (queue.min(), queue.max());
        let mut found = Entries {
            entries: Vec::new(),
            next_offset: from.clamp(min, max),
        };
        while found.next_offset < max && found.entries.len() < most {
            let run = match queue.look(found.next_offset) {
                Ok(Some(run)) => run,
                Ok(None) => {
                    found.next_offset = queue.next_segment(found.next_offset).min(max);
                    continue;
                }
                Err(e) => {
                    tracing::error!("{e}");
                    break;
                }
            };
            for entry in entries(run.bytes()).map(|entry| entry.to_entry()) {
                if found.entries.len() >= most {
                    break;
                }
                if !entry.is_blank() {
                    found.entries.push(QueueEntry {
                        queue_offset: found.next_offset,
                        offset: entry.offset,
                        size: entry.size,
                        tags_code: entry.tags_code,
                    });
                }
                found.next_offset += 1;
            }
        }
        found
    }

    /// How far behind the end of the log records are taken to be in memory.
    fn hot_bytes(&self) -> i64 {
        let percent = self.config.load().access_message_in_memory_max_ratio.min(100);
        i64::try_from(self.ram_bytes / 100 * percent).unwrap_or(i64::MAX)
    }

    /// See [`super::MessageStore::in_memory`].
    pub fn in_memory(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        let at = match self.batches.find(topic, queue_id) {
            Some(batches) => batches.holding(offset).map(|entry| entry.offset),
            None => self
                .queues
                .find(topic, queue_id)
                .and_then(|queue| queue.entry(offset))
                .map(|entry| entry.offset),
        };
        at.is_some_and(|at| (self.log.segments().end() as i64).saturating_sub(at) <= self.hot_bytes())
    }

    fn entry_time(&self, entry: Entry) -> Option<i64> {
        if entry.is_blank() {
            return None;
        }
        let bytes = self.log.record(entry.offset, Some(entry.size))?;
        MessageView::parse(&bytes).ok().map(|view| view.store_timestamp())
    }

    /// See [`super::MessageStore::store_time`].
    pub fn store_time(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        if let Some(batches) = self.batches.find(topic, queue_id) {
            return batches.holding(offset).map_or(-1, |entry| entry.store_time);
        }
        self.queues
            .find(topic, queue_id)
            .and_then(|queue| queue.entry(offset))
            .and_then(|entry| self.entry_time(entry))
            .unwrap_or(-1)
    }

    /// See [`super::MessageStore::offset_by_time`].
    pub fn offset_by_time(&self, topic: &str, queue_id: i32, time_ms: i64, boundary: Boundary) -> i64 {
        if let Some(batches) = self.batches.find(topic, queue_id) {
            return match boundary {
                Boundary::Lower => batches.offset_by_time(|time| time < time_ms),
                Boundary::Upper => {
                    (batches.offset_by_time(|time| time <= time_ms) - 1).clamp(batches.min(), batches.max())
                }
            };
        }
        let Some(queue) = self.queues.find(topic, queue_id) else {
            return 0;
        };
        let (min, max) = (queue.min(), queue.max());
        let time = |offset| queue.entry(offset).and_then(|entry| self.entry_time(entry));
        // Store times do not decrease along a queue; a record that is gone is older than any.
        match boundary {
            Boundary::Lower => partition_point(min, max, |n| time(n).is_none_or(|t| t < time_ms)),
            Boundary::Upper => {
                (partition_point(min, max, |n| time(n).is_none_or(|t| t <= time_ms)) - 1).clamp(min, max)
            }
        }
    }

    /// See [`super::MessageStore::query`].
    pub fn query(&self, topic: &str, key: &str, max: usize, begin: i64, end: i64) -> Queried {
        let most = max.min(self.config.load().max_msgs_num_batch);
        // Index times are whole seconds from the begin of their file, and the asker counts by its own clock.
        let begin = begin.saturating_sub(1000);
        let mut until = end.saturating_add(1000);
        let mut queried = Queried::default();
        // As in Java: when every hit is gone already, look twice more among older ones.
        for _ in 0..3 {
            let hits = self.index.search(topic, key, most, begin, until);
            queried.index_last_update_timestamp = hits.last_timestamp;
            queried.index_last_update_offset = hits.last_offset;
            let mut offsets = hits.offsets;
            offsets.sort_unstable();
            let Some(oldest) = offsets.first().copied() else {
                break;
            };
            queried.records = offsets
                .into_iter()
                .filter_map(|offset| self.log.sound_record(offset))
                .collect();
            let oldest_time = self
                .log
                .record(oldest, None)
                .and_then(|bytes| MessageView::parse(&bytes).ok().map(|view| view.store_timestamp()));
            match oldest_time {
                Some(time) if queried.records.is_empty() && time >= begin => until = time,
                _ => break,
            }
        }
        queried
    }

    /// See [`super::MessageStore::figures`].
    pub fn figures(&self) -> StoreFigures {
        let config = self.config.load();
        let log = self.log.segments();
        let (start, end) = (log.start(), log.end());
        let log_usage = disk::usage(&config.commit_log_dir()).unwrap_or_default();
        let queue_usage = disk::usage(&config.consume_queue_dir()).unwrap_or_default();
        StoreFigures {
            min_offset: start as i64,
            max_offset: end as i64,
            unflushed_bytes: end.saturating_sub(self.flush.flushed().to) as i64,
            dispatch_behind_bytes: end.saturating_sub(self.build.at()) as i64,
            earliest_message_timestamp: self
                .log
                .record(start as i64, None)
                .and_then(|bytes| MessageView::parse(&bytes).ok().map(|view| view.store_timestamp()))
                .unwrap_or(-1),
            commit_log_disk_ratio: log_usage.ratio,
            consume_queue_disk_ratio: queue_usage.ratio,
            capacity: (log_usage.total, log_usage.available),
            append_lock_held_ms: self.log.held_ms(),
            not_writable: self.health.reason(),
        }
    }

    /// True when an append has held the lock for too long.
    pub fn is_busy(&self) -> bool {
        let limit = self.config.load().os_page_cache_busy_time_out_mills;
        let held = self.log.held_ms();
        // Java's upper bound: beyond it the clock has jumped.
        held > i64::try_from(limit).unwrap_or(i64::MAX) && held < 10_000_000
    }
}
