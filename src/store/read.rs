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

/// The tag code of a record by its own properties.
fn own_code(record: &[u8]) -> i64 {
    MessageView::parse(record)
        .ok()
        .and_then(|view| view.properties().get(names::TAGS).map(tags_code))
        .unwrap_or(0)
}

/// What the newest bytes of the log, written in this run, are taken for: in memory, without asking.
const TAIL: u64 = 8 * 1024 * 1024;
/// Bytes of the log that are ordered ahead of a reader whose records lie close together.
const READ_AHEAD: u64 = 1024 * 1024;
/// Bytes of a queue that are ordered ahead of its reader.
const QUEUE_AHEAD: usize = 64 * 1024;
/// Records lie close together when their span is at most this many times their size.
const CLOSE: u64 = 8;

/// How far a read may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// It may wait for the disk.
    Disk,
    /// It ends where it would have to.
    Memory,
}

/// Tells which records are in memory, asking the system as seldom as can be.
struct Residency<'a> {
    shared: &'a Shared,
    /// From here on nothing is asked.
    tail: u64,
    /// Known to be there.
    known: std::ops::Range<u64>,
}

impl<'a> Residency<'a> {
    fn new(shared: &'a Shared) -> Self {
        let end = shared.log.segments().end();
        Self {
            shared,
            tail: end.saturating_sub(TAIL).max(shared.opened_at),
            known: 0..0,
        }
    }

    fn has(&mut self, entry: Entry) -> bool {
        let (Ok(at), Ok(len)) = (u64::try_from(entry.offset), u64::try_from(entry.size)) else {
            return true;
        };
        let end = at.saturating_add(len);
        if at >= self.tail || (at >= self.known.start && end <= self.known.end) {
            return true;
        }
        let is_there = self.shared.log.segments().is_resident(at, len);
        if is_there {
            // Pages that records share are asked about once.
            let end = end.next_multiple_of(4096);
            self.known = if at <= self.known.end && at >= self.known.start {
                self.known.start..end
            } else {
                at..end
            };
        }
        is_there
    }
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
        let got = self.read(Reach::Disk, topic, queue_id, offset, max_count, max_bytes, filter);
        match got {
            Ok(got) | Err(got) => got,
        }
    }

    /// See [`super::MessageStore::get_in_memory`].
    pub fn get_in_memory(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Option<Got> {
        if self.batches.find(topic, queue_id).is_some() {
            // Batch queues are few; they are always read aside.
            return None;
        }
        self.read(
            Reach::Memory,
            topic,
            queue_id,
            offset,
            max_count,
            max_bytes,
            filter,
        )
        .ok()
    }

    /// An error, with what there was so far, when the reach was too short.
    #[allow(clippy::too_many_arguments)]
    fn read(
        &self,
        reach: Reach,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Result<Got, Got> {
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
            None => Ok(got(GetStatus::NoMessageInQueue, 0)),
            Some(_) if max == 0 => Ok(got(GetStatus::NoMessageInQueue, 0)),
            Some(_) if offset < min => Ok(got(GetStatus::OffsetTooSmall, min)),
            Some(_) if offset == max => Ok(got(GetStatus::OffsetOverflowOne, offset)),
            Some(_) if offset > max => Ok(got(GetStatus::OffsetOverflowBadly, max)),
            Some(queue) => self.collect(
                reach,
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
        // As many as a read of an ordinary queue looks at.
        let scan = config.max_filter_message_size.max(max_count.saturating_mul(LEN)) / LEN;
        for entry in queue.run(offset).take(scan) {
            let size = usize::try_from(entry.size).unwrap_or(0);
            let holds = usize::try_from(entry.batch_size).unwrap_or(0);
            let in_memory = log_end.saturating_sub(entry.offset) <= hot;
            let (most_bytes, most_count) = config.transfer_limits(in_memory);
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

    /// Whether a record that an earlier process wrote is still what its queue entry says: its checksum holds, and it is
    /// of this queue and place. Java hands out whatever lies there.
    fn is_sound(&self, queue: &ConsumeQueue, offset: i64, physical: i64, record: &[u8]) -> bool {
        let name = queue.name();
        let fault = match MessageView::parse_checked(record) {
            Ok(view) => {
                let is_here = view.topic() == name.topic
                    && view.queue_id() == name.queue_id
                    && view.physical_offset() == physical
                    && self.is_in_place(queue, offset, view.queue_offset());
                // Queues of many light topics point to the record of the one topic it was sent to.
                if is_here || name.topic.starts_with(LIGHT_QUEUE_PREFIX) {
                    return true;
                }
                format!(
                    "its header says {}@{} {} at {}",
                    view.topic(),
                    view.queue_id(),
                    view.queue_offset(),
                    view.physical_offset()
                )
            }
            Err(fault) => fault.to_string(),
        };
        tracing::error!(
            "the record of {}@{} {offset}, at {physical} in the commit log, is damaged: {fault}; it is not handed out",
            name.topic,
            name.queue_id
        );
        false
    }

    /// Whether the record at `offset` of a queue may call itself `own`. In a queue that lost many entries all that
    /// follow are shifted by as much, so what a neighbour does as well is no damage.
    fn is_in_place(&self, queue: &ConsumeQueue, offset: i64, own: i64) -> bool {
        let shift = |n: i64| {
            let entry = queue.entry(n).filter(|entry| !entry.is_blank())?;
            let record = self.log.record(entry.offset, Some(entry.size))?;
            let view = MessageView::parse(&record).ok()?;
            view.queue_offset().checked_sub(n)
        };
        own == offset || {
            let (before, after) = (shift(offset - 1), shift(offset + 1));
            let mine = own.checked_sub(offset);
            before.is_none() && after.is_none() || before == mine || after == mine
        }
    }

    /// Takes records from `got.next_offset` on, from one segment of the queue, until a limit is reached.
    fn collect(
        &self,
        reach: Reach,
        queue: &ConsumeQueue,
        mut got: Got,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Result<Got, Got> {
        let config = self.config.load();
        let offset = got.next_offset;
        let scan = config.max_filter_message_size.max(max_count.saturating_mul(LEN)) / LEN;
        let looked = match reach {
            Reach::Disk => queue.look(offset),
            Reach::Memory => match queue.run_if_mapped(offset) {
                Some(run) if run.is_resident(scan.saturating_mul(LEN)) => Ok(Some(run)),
                _ => return Err(got),
            },
        };
        let run = match looked {
            Ok(Some(run)) => run,
            found => {
                got.status = GetStatus::OffsetFoundNull;
                // What cannot be read now is not passed over.
                match found {
                    Err(e) => tracing::error!("{e}"),
                    Ok(_) => got.next_offset = queue.next_segment(offset),
                }
                return Ok(got);
            }
        };
        let max_bytes = max_bytes.clamp(LEAST_BYTES, MOST_BYTES);
        let mut residency = Residency::new(self);
        if reach == Reach::Disk {
            run.will_need(QUEUE_AHEAD);
            self.order_ahead(run.bytes(), max_count, residency.tail);
        }
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
                let (most_bytes, most_count) = config.transfer_limits(in_memory);
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
            if reach == Reach::Memory && !residency.has(entry.to_entry()) {
                return Err(got);
            }
            let at = got.next_offset - 1;
            let record = cutter.record(entry.to_entry());
            match record.filter(|record| {
                self.log.is_own(entry.offset()) || self.is_sound(queue, at, entry.offset(), record)
            }) {
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
        Ok(got)
    }

    /// Orders the records of a read from the disk at once, instead of page by page; when they lie close together,
    /// what comes behind them as well.
    fn order_ahead(&self, run: &[u8], count: usize, tail: u64) {
        let log = self.log.segments();
        let mut wanted = entries(run)
            .take(count)
            .map(|entry| entry.to_entry())
            .filter(|entry| !entry.is_blank())
            .filter_map(|entry| Some((u64::try_from(entry.offset).ok()?, u64::try_from(entry.size).ok()?)));
        let Some((first, len)) = wanted.next().filter(|(at, _)| *at < tail) else {
            return;
        };
        let (mut end, mut bytes) = (first.saturating_add(len), len);
        let rest: Vec<(u64, u64)> = wanted.collect();
        for (at, len) in &rest {
            end = end.max(at.saturating_add(*len));
            bytes = bytes.saturating_add(*len);
        }
        if end - first <= bytes.saturating_mul(CLOSE) {
            log.will_need(first, (end - first).saturating_add(READ_AHEAD));
        } else {
            log.will_need(first, len);
            for (at, len) in rest {
                log.will_need(at, len);
            }
        }
    }

    /// See [`super::MessageStore::record_in_memory`].
    pub fn is_in_memory(&self, offset: i64) -> bool {
        let Ok(at) = u64::try_from(offset) else {
            return true;
        };
        let log = self.log.segments();
        // First the length, then all of it.
        if !log.is_resident(at, 8) {
            return false;
        }
        match log.window(at, 8).map(|window| peek(&window)) {
            Some(Ok(Peek::Message(len))) => log.is_resident(at, len as u64),
            _ => true,
        }
    }

    /// See [`super::MessageStore::entries`].
    pub fn entries(&self, topic: &str, queue_id: i32, from: i64, most: usize) -> Entries {
        let Some(queue) = self.queues.find(topic, queue_id) else {
            return Entries {
                next_offset: from,
                ..Entries::default()
            };
        };
        let max = queue.max();
        let min = queue.min().min(max);
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

    /// Where in the log an entry of a queue points to.
    fn place(&self, topic: &str, queue_id: i32, offset: i64) -> Option<i64> {
        match self.batches.find(topic, queue_id) {
            Some(batches) => batches.holding(offset).map(|entry| entry.offset),
            None => self
                .queues
                .find(topic, queue_id)
                .and_then(|queue| queue.entry(offset))
                .map(|entry| entry.offset),
        }
    }

    /// See [`super::MessageStore::in_memory`].
    pub fn in_memory(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        let at = self.place(topic, queue_id, offset);
        at.is_some_and(|at| (self.log.segments().end() as i64).saturating_sub(at) <= self.hot_bytes())
    }

    /// See [`super::MessageStore::is_cold`].
    pub fn is_cold(&self, at: i64) -> bool {
        let percent = self.config.load().access_message_in_memory_hot_ratio.min(100);
        let hot = i64::try_from(self.ram_bytes / 100 * percent).unwrap_or(i64::MAX);
        (self.log.segments().end() as i64).saturating_sub(at) > hot
    }

    /// See [`super::MessageStore::is_cold_entry`].
    pub fn is_cold_entry(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        self.place(topic, queue_id, offset)
            .is_some_and(|at| self.is_cold(at))
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
                    let last = batches.offset_by_time(|time| time <= time_ms) - 1;
                    last.min(batches.max()).max(batches.min())
                }
            };
        }
        let Some(queue) = self.queues.find(topic, queue_id) else {
            return 0;
        };
        let (min, max) = (queue.min(), queue.max());
        let time = |offset| self.time_from(&queue, offset);
        // Store times do not decrease along a queue; a record that is gone is older than any.
        match boundary {
            Boundary::Lower => partition_point(min, max, |n| time(n).is_none_or(|t| t < time_ms)),
            Boundary::Upper => {
                (partition_point(min, max, |n| time(n).is_none_or(|t| t <= time_ms)) - 1).clamp(min, max)
            }
        }
    }

    /// Store time of the first entry from an offset on that leads to a record; a blank or a damaged record in between
    /// does not mislead a search. `None` when the record is gone, or nothing follows.
    fn time_from(&self, queue: &ConsumeQueue, mut offset: i64) -> Option<i64> {
        let log_start = self.log.segments().start() as i64;
        loop {
            let (at, entry) = queue.next_real(offset).ok()??;
            match self.entry_time(entry) {
                Some(time) => return Some(time),
                None if entry.offset < log_start => return None,
                None => offset = at + 1,
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
            index_off: self.build.is_index_off(),
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

#[cfg(test)]
mod tests {
    use super::super::{MessageStore, StoreConfig};
    use super::*;
    use crate::protocol::message::NewMessage;
    use crate::protocol::model::SysFlag;

    struct All;

    impl MessageFilter for All {
        fn passes_code(&self, _: i64) -> bool {
            true
        }
    }

    /// Takes the pages of all files below out of the page cache, as far as the file system lets one.
    fn forget(dir: &std::path::Path) {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                forget(&path);
                continue;
            }
            let file = std::fs::File::open(&path).unwrap();
            file.sync_all().unwrap();
            rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        }
    }

    #[test]
    fn what_is_not_in_memory_is_told_before_it_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let config = || StoreConfig {
            store_path_root_dir: dir.path().to_owned(),
            mapped_file_size_commit_log: 1 << 20,
            ..StoreConfig::default()
        };
        let message = NewMessage {
            topic: "t".into(),
            queue_id: 0,
            flag: 0,
            sys_flag: SysFlag(0),
            born_timestamp: 1,
            born_host: ([127, 0, 0, 1], 1).into(),
            store_host: ([127, 0, 0, 1], 2).into(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: vec![7; 4000].into(),
            properties: String::new(),
        };
        let store = MessageStore::open(config()).unwrap();
        let offsets: Vec<i64> = (0..1000)
            .map(|_| store.append(&message).unwrap().offset)
            .collect();
        while store.max_offset("t", 0) < 1000 {
            std::thread::yield_now();
        }
        // What was written in this run is taken for hot without a look.
        let got = store.get_in_memory("t", 0, 990, 32, usize::MAX, &All).unwrap();
        assert_eq!(got.records.len(), 10);
        store.close().unwrap();
        drop((got, store));
        forget(dir.path());
        let store = MessageStore::open(config()).unwrap();
        if store.record_in_memory(offsets[500]) {
            println!("skipped: the file system keeps its pages");
            return;
        }
        assert!(store.get_in_memory("t", 0, 500, 32, usize::MAX, &All).is_none());
        let got = store.get_filtered("t", 0, 500, 32, usize::MAX, &All);
        assert_eq!(got.records.len(), 32);
        got.records.iter().for_each(|record| crate::store::touch(record));
        let again = store.get_in_memory("t", 0, 500, 32, usize::MAX, &All).unwrap();
        assert_eq!(again.records, got.records);
        assert!(store.record_in_memory(offsets[500]));
        store.close().unwrap();
    }
}
