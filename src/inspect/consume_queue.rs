//! Consume queues, entry by entry, each compared with the record it points to.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::commit_log::{Log, usual_size};
use super::{Error, io_error};
use crate::protocol::message::{EntryClaim, MessageView, difference};
use crate::protocol::model::{SCHEDULE_TOPIC, tags_code};
use crate::protocol::properties::names;
use crate::store::cursor::{DamageKind, Record};
use crate::store::format::{batch_queue, consume_queue, consume_queue_ext};
use crate::store::reader::QueueName;
use crate::store::segments::{self, LogBytes, SegmentFile, Segments};

mod around;

pub use around::QueueSums;

/// Where batch queues are.
pub(super) const BATCH_DIR: &str = "batchconsumequeue";
/// Bytes read at once to look at one entry.
const READ_AHEAD: usize = 4096;
/// Entries read at once.
const ENTRIES_AHEAD: usize = 1024;

/// The layout of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum QueueKind {
    /// One entry a message.
    Simple,
    /// One entry a record of several messages.
    Batch,
}

impl QueueKind {
    pub(super) const fn entry_len(self) -> usize {
        match self {
            Self::Simple => consume_queue::LEN,
            Self::Batch => batch_queue::LEN,
        }
    }
}

/// What an entry says, of either layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Physical offset of the record.
    pub offset: i64,
    /// Its size.
    pub size: i32,
    /// Hash of its tag, an address, or a time.
    pub tags_code: i64,
    /// Queue offset of its first message, in batch queues.
    pub base_offset: Option<i64>,
    /// How many messages it stands for.
    pub messages: i16,
}

impl Entry {
    /// Physical offset behind the record.
    pub fn end(&self) -> i64 {
        self.offset.saturating_add(i64::from(self.size))
    }

    /// True for an entry that only takes up the place of one that never came.
    pub fn is_blank(&self) -> bool {
        self.base_offset.is_none() && self.size == i32::MAX
    }
}

/// The meaning of an entry's tags code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagsCode {
    /// No tag.
    None,
    /// The hash of the tag.
    Hash(i64),
    /// The address of a unit in `consumequeue_ext`, and the hash in that unit.
    Address {
        /// Offset of the unit.
        at: u64,
        /// The hash, if the unit can be read.
        hash: Option<i64>,
    },
    /// The time of delivery, ms.
    DeliverAt(i64),
}

/// An entry compared with the commit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    /// The record is there and is the one meant.
    Agrees,
    /// The entry only takes up a place.
    Blank,
    /// The record lies before the first file of the log: it has expired.
    Expired,
    /// The record would lie behind the end of the log.
    BeyondLog,
    /// There is no valid record.
    NoRecord(DamageKind),
    /// There is another record; what differs.
    Differs(Vec<String>),
}

impl Check {
    /// True when consumers get what was stored.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Agrees | Self::Blank | Self::Expired)
    }
}

/// One entry of a queue.
#[derive(Debug, Clone)]
pub struct EntryRow {
    /// Its number in the queue's files.
    pub index: u64,
    /// Queue offset of its (first) message.
    pub queue_offset: i64,
    /// What it says.
    pub entry: Entry,
    /// The meaning of its tags code.
    pub tags: TagsCode,
    /// How it compares with the log.
    pub check: Check,
    /// The record, when there is one.
    pub record: Option<Record>,
}

/// What a walk over a queue meets.
#[derive(Debug, Clone)]
pub enum QueueStep {
    /// An entry.
    Entry(EntryRow),
    /// Places without an entry, followed by one with.
    Gap {
        /// Number of the first.
        index: u64,
        /// How many.
        count: u64,
        /// The file and the position of the first.
        file: Option<(PathBuf, u64)>,
    },
    /// Entries begin again at a lower physical offset than the one before.
    Disorder {
        /// Number of the entry.
        index: u64,
        /// Physical offset behind the entry before.
        before: i64,
        /// Its own physical offset.
        offset: i64,
    },
}

/// One queue.
#[derive(Debug)]
pub struct Queue {
    /// Whose it is.
    pub name: QueueName,
    /// Its layout.
    pub kind: QueueKind,
    segments: Segments,
    extension: Option<(Vec<SegmentFile>, u64)>,
    window: bytes::Bytes,
    window_at: u64,
}

/// Smallest and greatest offsets of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Number of the first entry whose record has not expired.
    pub first_index: u64,
    /// Number behind the last entry.
    pub end_index: u64,
    /// Queue offset of the first message that has not expired.
    pub min_offset: i64,
    /// Queue offset behind the last message.
    pub max_offset: i64,
    /// Physical offset of the last record; `None` for none.
    pub last_record: Option<i64>,
    /// Physical offset behind the last record; 0 for none.
    pub physical_end: i64,
}

impl Queue {
    pub(super) fn open(root: &Path, name: QueueName, kind: QueueKind, live: bool) -> Result<Self, Error> {
        let dir = |parent: &str| {
            root.join(parent)
                .join(&name.topic)
                .join(name.queue_id.to_string())
        };
        let files = match kind {
            QueueKind::Simple => segments::list(&dir("consumequeue"))?.files,
            QueueKind::Batch => segments::list(&dir(BATCH_DIR))?.files,
        };
        let extension = segments::list(&dir("consumequeue_ext"))?.files;
        let size = usual_size(&files);
        let extension_size = usual_size(&extension);
        Ok(Self {
            name,
            kind,
            segments: Segments::reading(files, size, live, READ_AHEAD),
            extension: (!extension.is_empty()).then_some((extension, extension_size)),
            window: bytes::Bytes::new(),
            window_at: 0,
        })
    }

    /// The files.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &SegmentFile> {
        self.segments.files()
    }

    /// The file and the position in it of an entry.
    pub fn place(&self, index: u64) -> Option<(PathBuf, u64)> {
        let at = index.checked_mul(self.kind.entry_len() as u64)?;
        let file = self.files().rfind(|file| file.base <= at)?;
        Some((file.path.clone(), at - file.base))
    }

    fn parse(&self, bytes: &[u8]) -> Option<Entry> {
        match self.kind {
            QueueKind::Simple => {
                let entry = consume_queue::EntryView::new(bytes.first_chunk()?).to_entry();
                entry.is_written().then_some(Entry {
                    offset: entry.offset,
                    size: entry.size,
                    tags_code: entry.tags_code,
                    base_offset: None,
                    messages: 1,
                })
            }
            QueueKind::Batch => {
                let entry = batch_queue::Entry::parse(bytes.first_chunk()?);
                entry.is_written().then_some(Entry {
                    offset: entry.offset,
                    size: entry.size,
                    tags_code: entry.tags_code,
                    base_offset: Some(entry.base_offset),
                    messages: entry.batch_size,
                })
            }
        }
    }

    /// The entry of a number; `None` where none was written.
    pub fn entry(&self, index: u64) -> Option<Entry> {
        let len = self.kind.entry_len();
        let bytes = self.segments.slice(index.checked_mul(len as u64)?, len)?;
        self.parse(&bytes)
    }

    /// The same, keeping what was read around it for the next call.
    pub(super) fn entry_cached(&mut self, index: u64) -> Option<Entry> {
        let len = self.kind.entry_len();
        let at = index.checked_mul(len as u64)?;
        let in_window = |queue: &Self| {
            let from = usize::try_from(at.checked_sub(queue.window_at)?).ok()?;
            let bytes = queue.window.get(from..from.checked_add(len)?)?;
            Some(queue.parse(bytes))
        };
        if let Some(Some(entry)) = in_window(self) {
            return Some(entry);
        }
        self.window = self.segments.window(at, ENTRIES_AHEAD * len).unwrap_or_default();
        self.window_at = at;
        in_window(self).flatten()
    }

    /// The first entry from a number on that leads to a record, and its number.
    fn next_real(&self, from: u64, end: u64) -> Option<(u64, Entry)> {
        // Most do, so that one entry is all that is read.
        if let Some(entry) = self.entry(from).filter(|entry| from < end && !entry.is_blank()) {
            return Some((from, entry));
        }
        let len = self.kind.entry_len();
        let mut index = from;
        while index < end {
            let window = self
                .segments
                .window(index.checked_mul(len as u64)?, ENTRIES_AHEAD * len);
            let window = window.filter(|window| window.len() >= len);
            let Some(window) = window else {
                // A file is missing: the next one that is there.
                let starts = self.files().map(|file| self.indices(file).start);
                index = starts.filter(|start| *start > index).min()?;
                continue;
            };
            for bytes in window.chunks_exact(len) {
                if let Some(entry) = self.parse(bytes).filter(|entry| index < end && !entry.is_blank()) {
                    return Some((index, entry));
                }
                index += 1;
            }
        }
        None
    }

    fn indices(&self, file: &SegmentFile) -> std::ops::Range<u64> {
        let len = self.kind.entry_len() as u64;
        file.base.div_ceil(len)..file.base.saturating_add(file.len) / len
    }

    /// Number behind the last entry: found by halving the last file that has any, since entries are written in order.
    fn end_index(&self) -> u64 {
        let files: Vec<&SegmentFile> = self.files().collect();
        for file in files.iter().rev() {
            let range = self.indices(file);
            if self.entry(range.start).is_some() {
                return partition(range, |index| self.entry(index).is_some());
            }
        }
        files.first().map_or(0, |file| self.indices(file).start)
    }

    /// Smallest and greatest offsets, for a log that begins at `log_start`.
    pub fn bounds(&self, log_start: u64) -> Bounds {
        let end = self.end_index();
        let start = self.files().next().map_or(0, |file| self.indices(file).start);
        let log_start = i64::try_from(log_start).unwrap_or(i64::MAX);
        // A blank is gone with the entry behind it, so that blanks in the middle do not mislead the search.
        let first = partition(start..end, |index| {
            self.next_real(index, end)
                .is_none_or(|(_, entry)| entry.offset < log_start)
        });
        let first = self.next_real(first, end).map_or(end, |(index, _)| index);
        let last = end.checked_sub(1).and_then(|index| self.entry(index));
        let as_offset = |index: u64| i64::try_from(index).unwrap_or(i64::MAX);
        let max_offset = match last {
            Some(Entry {
                base_offset: Some(base),
                messages,
                ..
            }) => base.saturating_add(i64::from(messages)),
            _ => as_offset(end),
        };
        let min_offset = match self.kind {
            QueueKind::Simple => as_offset(first),
            QueueKind::Batch => self
                .entry(first)
                .and_then(|entry| entry.base_offset)
                .unwrap_or(max_offset),
        };
        Bounds {
            first_index: first,
            end_index: end,
            min_offset,
            max_offset,
            last_record: last.filter(|entry| !entry.is_blank()).map(|entry| entry.offset),
            physical_end: last
                .filter(|entry| !entry.is_blank())
                .map_or(0, |entry| entry.end()),
        }
    }

    /// A walk over the entries from a number on. Each is compared with `log`, unless there is none.
    pub fn walk<'a>(&'a self, from: u64, log: Option<&'a Log>, log_end: u64) -> QueueWalk<'a> {
        let start = self.files().next().map_or(0, |file| self.indices(file).start);
        let end = self.files().next_back().map_or(0, |file| self.indices(file).end);
        QueueWalk {
            queue: self,
            log,
            log_end,
            next: from.max(start),
            end,
            window: bytes::Bytes::new(),
            window_index: 0,
            before: None,
            pending: VecDeque::new(),
        }
    }

    /// Number of the entry of a queue offset.
    pub fn index_of(&self, queue_offset: u64) -> u64 {
        match self.kind {
            QueueKind::Simple => queue_offset,
            QueueKind::Batch => {
                let wanted = i64::try_from(queue_offset).unwrap_or(i64::MAX);
                let start = self.files().next().map_or(0, |file| self.indices(file).start);
                partition(start..self.end_index(), |index| {
                    self.entry(index).is_some_and(|entry| {
                        let base = entry.base_offset.unwrap_or(0);
                        base.saturating_add(i64::from(entry.messages)) <= wanted
                    })
                })
            }
        }
    }

    /// Number of the first entry whose record was stored at or behind a time, ms. One that leads to no record counts
    /// as the one behind it.
    pub fn index_at(&self, ms: i64, log: &Log) -> u64 {
        let bounds = self.bounds(log.start());
        let stored = |index: u64| {
            (index..bounds.end_index).find_map(|index| {
                let entry = self.entry(index).filter(|entry| !entry.is_blank())?;
                let record = log.record_at(u64::try_from(entry.offset).ok()?).ok()?;
                record.view().ok().map(|view| view.store_timestamp())
            })
        };
        partition(bounds.first_index..bounds.end_index, |index| {
            stored(index).is_some_and(|time| time < ms)
        })
    }

    /// The meaning of an entry's tags code.
    pub fn tags(&self, entry: &Entry) -> TagsCode {
        let code = entry.tags_code;
        if self.name.topic == SCHEDULE_TOPIC {
            return TagsCode::DeliverAt(code);
        }
        match consume_queue_ext::address(code) {
            Some(at) => TagsCode::Address {
                at,
                hash: self.extension_unit(at).map(|unit| unit.tags_code),
            },
            None if code == 0 => TagsCode::None,
            None => TagsCode::Hash(code),
        }
    }

    fn extension_unit(&self, at: u64) -> Option<consume_queue_ext::Unit> {
        let (files, size) = self.extension.as_ref()?;
        let file = files
            .iter()
            .find(|file| at >= file.base && at - file.base < *size)?;
        let mut bytes = [0; consume_queue_ext::MIN_LEN];
        File::open(&file.path)
            .and_then(|handle| handle.read_exact_at(&mut bytes, at - file.base))
            .ok()?;
        consume_queue_ext::Unit::parse(&bytes)
    }

    /// Compares an entry with the record it points to.
    pub fn check(&self, index: u64, entry: &Entry, log: &Log, log_end: u64) -> (Check, Option<Record>) {
        if entry.is_blank() {
            return (Check::Blank, None);
        }
        let Ok(at) = u64::try_from(entry.offset) else {
            return (Check::NoRecord(DamageKind::Missing), None);
        };
        if at < log.start() {
            return (Check::Expired, None);
        }
        if at >= log_end {
            return (Check::BeyondLog, None);
        }
        match log.record_at(at) {
            Err(kind) => (Check::NoRecord(kind), None),
            Ok(record) => {
                let differences = match record.view() {
                    Ok(view) => self.differences(index, entry, &view),
                    Err(fault) => vec![fault.to_string()],
                };
                let check = if differences.is_empty() {
                    Check::Agrees
                } else {
                    Check::Differs(differences)
                };
                (check, Some(record))
            }
        }
    }

    /// What an entry says otherwise than the record does.
    pub fn differences(&self, index: u64, entry: &Entry, view: &MessageView<'_>) -> Vec<String> {
        let claim = EntryClaim {
            topic: &self.name.topic,
            queue: self.name.queue_id,
            offset: entry
                .base_offset
                .unwrap_or_else(|| i64::try_from(index).unwrap_or(i64::MAX)),
            size: entry.size,
        };
        let mut out = claim.differences(view);
        let mut differs = |what: &str, here: &dyn std::fmt::Display, there: &dyn std::fmt::Display| {
            out.push(difference(what, here, there));
        };
        let expected = view.properties().get(names::TAGS).map_or(0, tags_code);
        match self.tags(entry) {
            TagsCode::None if expected != 0 => differs("tag hash", &0, &expected),
            TagsCode::Hash(code) if code != expected => differs("tag hash", &code, &expected),
            TagsCode::Address { at, hash: None } => {
                differs("tag", &format!("unit {at} is missing"), &expected)
            }
            TagsCode::Address { hash: Some(code), .. } if code != expected => {
                differs("tag hash", &code, &expected);
            }
            TagsCode::DeliverAt(at) if at < view.store_timestamp() => {
                differs("delivery time", &at, &view.store_timestamp());
            }
            _ => {}
        }
        out
    }
}

/// The first number of a range that the test fails for, if it holds for all before and none behind.
fn partition(range: std::ops::Range<u64>, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (range.start, range.end.max(range.start));
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// A walk over the entries of a queue. It ends where nothing more was written.
pub struct QueueWalk<'a> {
    queue: &'a Queue,
    log: Option<&'a Log>,
    log_end: u64,
    next: u64,
    end: u64,
    window: bytes::Bytes,
    window_index: u64,
    before: Option<i64>,
    pending: VecDeque<QueueStep>,
}

impl QueueWalk<'_> {
    /// Number of the next entry.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// The next entry that was written, with its number.
    fn next_written(&mut self) -> Option<(u64, Entry)> {
        let len = self.queue.kind.entry_len();
        while self.next < self.end {
            let index = self.next;
            let at = index.checked_mul(len as u64)?;
            let from = index
                .checked_sub(self.window_index)
                .and_then(|n| usize::try_from(n).ok()?.checked_mul(len));
            let bytes = from.and_then(|from| self.window.get(from..from.checked_add(len)?));
            if let Some(bytes) = bytes {
                let entry = self.queue.parse(bytes);
                self.next += 1;
                match entry {
                    Some(entry) => return Some((index, entry)),
                    None => continue,
                }
            }
            self.window = self
                .queue
                .segments
                .window(at, ENTRIES_AHEAD * len)
                .unwrap_or_default();
            self.window_index = index;
            if self.window.len() < len {
                // No file, or a piece of an entry at its end: on to the next file.
                let file = self.queue.files().find(|file| file.base > at)?;
                self.next = self.queue.indices(file).start.max(index + 1);
            }
        }
        None
    }
}

impl Iterator for QueueWalk<'_> {
    type Item = QueueStep;

    fn next(&mut self) -> Option<QueueStep> {
        if let Some(step) = self.pending.pop_front() {
            return Some(step);
        }
        let first = self.next;
        let (index, entry) = self.next_written()?;
        if index > first {
            self.pending.push_back(QueueStep::Gap {
                index: first,
                count: index - first,
                file: self.queue.place(first),
            });
        }
        if !entry.is_blank() {
            let offset = entry.offset;
            match self.before.replace(entry.end()) {
                Some(before) if offset < before => {
                    self.pending.push_back(QueueStep::Disorder {
                        index,
                        before,
                        offset,
                    });
                }
                _ => {}
            }
        }
        let (check, record) = match self.log {
            Some(log) => self.queue.check(index, &entry, log, self.log_end),
            None => (Check::Agrees, None),
        };
        self.pending.push_back(QueueStep::Entry(EntryRow {
            index,
            queue_offset: entry
                .base_offset
                .unwrap_or_else(|| i64::try_from(index).unwrap_or(i64::MAX)),
            tags: self.queue.tags(&entry),
            check,
            record,
            entry,
        }));
        self.pending.pop_front()
    }
}

/// Queues under a directory, without the strays.
pub(super) fn list(dir: &Path) -> Result<Vec<QueueName>, Error> {
    let mut queues = Vec::new();
    for (topic, path) in directories(dir)? {
        for (number, _) in directories(&path)? {
            if let Ok(queue_id) = number.parse() {
                queues.push(QueueName {
                    topic: topic.clone(),
                    queue_id,
                });
            }
        }
    }
    Ok(queues)
}

fn directories(dir: &Path) -> Result<Vec<(String, PathBuf)>, Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error("list", dir))?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let entry = entry.map_err(io_error("list", dir))?;
        if entry.path().is_dir() {
            out.push((entry.file_name().to_string_lossy().into_owned(), entry.path()));
        }
    }
    Ok(out)
}
