//! The commit log, walked past its damage.

use std::fs::File;
use std::path::PathBuf;
use std::sync::LazyLock;

use regex::bytes::Regex;

use super::Error;
use crate::protocol::message::{BLANK_LEN, Fault, MAGIC_BLANK, MessageView, Peek, peek};
use crate::store::cursor::{DamageKind, Found, MessageCursor, Record};
use crate::store::segments::{self, LogBytes, Pieces, SegmentFile, Segments};

/// Bytes behind the last whole record that a running broker may be writing.
const MOST_IN_WRITING: u64 = 8 * 1024 * 1024;

/// The magics of records and fillers, as bytes.
static MAGIC: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?-u:\xDA\xA3\x20[\xA7\xAB]|\xCB\xD4\x31\x94)").expect("the pattern is constant and valid")
});

/// A place in the log, by offset or by store time in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// A physical offset.
    Offset(u64),
    /// A store time.
    Time(i64),
}

/// Bytes that are no records.
#[derive(Debug, Clone)]
pub struct Gap {
    /// Where it begins.
    pub at: u64,
    /// How far it is to the next valid record, or to the end of what was written.
    pub len: u64,
    /// What is wrong at its begin.
    pub kind: DamageKind,
    /// The file that it begins in.
    pub file: Option<PathBuf>,
    /// The record at its begin, when its parts can be told although it is not valid.
    pub record: Option<Record>,
    /// No valid record follows.
    pub is_last: bool,
}

/// What a walk over the log meets.
#[derive(Debug, Clone)]
pub enum Step {
    /// A valid record.
    Message {
        /// The record.
        record: Record,
        /// Older than what was met before the last gap: left over from before a truncation, most likely.
        stale: bool,
    },
    /// The filler at the end of a file.
    Filler {
        /// Its offset.
        at: u64,
        /// Bytes up to the next file.
        len: u64,
    },
    /// Damage.
    Gap(Gap),
    /// Zeros up to the end of the last file: the space for what comes next. Ends the walk.
    Tail {
        /// The end of the log.
        at: u64,
        /// Bytes without content.
        len: u64,
    },
}

impl Step {
    /// Where it begins.
    pub fn at(&self) -> u64 {
        match self {
            Self::Message { record, .. } => record.at,
            Self::Filler { at, .. } | Self::Tail { at, .. } => *at,
            Self::Gap(gap) => gap.at,
        }
    }

    /// Where the next step begins.
    pub fn end(&self) -> u64 {
        match self {
            Self::Message { record, .. } => record.end(),
            Self::Filler { at, len } | Self::Tail { at, len } => at.saturating_add(*len),
            Self::Gap(gap) => gap.at.saturating_add(gap.len),
        }
    }
}

/// The commit log of a store.
#[derive(Debug)]
pub struct Log {
    segments: Segments,
    segment_size: u64,
    live: bool,
}

impl Log {
    /// Over the files of a log, read in pieces of so many bytes. The size of a segment is the one that most of them
    /// have.
    pub(super) fn reading(files: Vec<SegmentFile>, live: bool, read_ahead: usize) -> Self {
        let segment_size = usual_size(&files);
        Self {
            segments: Segments::reading(files, segment_size, live, read_ahead),
            segment_size,
            live,
        }
    }

    /// Offset of the first byte.
    pub fn start(&self) -> u64 {
        self.segments.start()
    }

    /// Offset behind the last byte of the last file.
    pub fn end(&self) -> u64 {
        self.segments.end()
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        self.segment_size
    }

    /// True when a broker ran on the store as this was opened.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// The files.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &SegmentFile> {
        self.segments.files()
    }

    /// The file that an offset lies in.
    pub fn file_of(&self, at: u64) -> Option<&SegmentFile> {
        self.files()
            .rfind(|file| file.base <= at)
            .filter(|file| at - file.base < file.len)
    }

    /// Bytes of the log; fewer where the file ends.
    pub fn bytes(&self, at: u64, len: usize) -> bytes::Bytes {
        let mut bytes = self.segments.window(at, len).unwrap_or_default();
        bytes.truncate(len);
        bytes
    }

    /// A walk from a boundary of records on. Without `check_body` the checksums of bodies are not compared.
    pub fn walk(&self, from: u64, check_body: bool) -> Walk<'_> {
        Walk {
            log: self,
            cursor: MessageCursor::new(&self.segments, from).check_body(check_body),
            check_body,
            newest: i64::MIN,
            last: None,
            after_gap: false,
            tail: None,
            ended: false,
        }
    }

    /// The steps from a boundary of records on that begin before `end`; what begins there is not looked at.
    pub(super) fn walk_until(&self, from: u64, end: u64, check_body: bool) -> impl Iterator<Item = Step> {
        let mut walk = self.walk(from, check_body);
        std::iter::from_fn(move || {
            // Behind the last record that step may read to the end of the file.
            if walk.position() >= end {
                return None;
            }
            walk.next().filter(|step| step.at() < end)
        })
    }

    /// The valid record at exactly this offset, or what is wrong there.
    pub fn record_at(&self, at: u64) -> Result<Record, DamageKind> {
        self.record(at, true)
    }

    /// The same, with or without comparing the checksum of its body.
    pub(super) fn record(&self, at: u64, check_body: bool) -> Result<Record, DamageKind> {
        if at < self.start() || at >= self.end() {
            return Err(DamageKind::Missing);
        }
        match MessageCursor::new(&self.segments, at)
            .check_body(check_body)
            .next()
        {
            Some(Ok(Found::Message(record))) => Ok(record),
            Some(Ok(Found::Filler { .. })) => Err(DamageKind::Record(Fault::Magic(MAGIC_BLANK))),
            Some(Err(damage)) => Err(damage.kind),
            None => Err(DamageKind::Missing),
        }
    }

    /// True when a valid record or filler begins here. Cheap tests come first.
    fn is_boundary(&self, at: u64) -> bool {
        match MessageCursor::new(&self.segments, at).check_body(false).next() {
            Some(Ok(Found::Message(record))) => record.view().is_ok_and(|view| view.check_body().is_ok()),
            Some(Ok(Found::Filler { len, .. })) => {
                // Java's readers ignore the length of a filler; between damaged bytes it is what tells one.
                let head = self.bytes(at, 4);
                head.first_chunk()
                    .map(|word| u64::from(u32::from_be_bytes(*word)))
                    == Some(len)
            }
            _ => false,
        }
    }

    /// The begin of the record, filler or gap that an offset lies in.
    pub fn align(&self, at: u64) -> Result<u64, Error> {
        let outside = Error::Outside {
            at,
            start: self.start(),
            end: self.end(),
        };
        if at < self.start() || at >= self.end() {
            return Err(outside);
        }
        if self.is_boundary(at) {
            return Ok(at);
        }
        let near = self
            .before(at + 1, 1, false, |step| (step.at(), step.end()))
            .pop();
        if let Some((begin, _)) = near.filter(|&(_, end)| end > at) {
            return Ok(begin);
        }
        let from = self.file_of(at).map_or(self.start(), |file| file.base);
        self.walk(from, false)
            .find(|step| step.end() > at)
            .map(|step| step.at())
            .ok_or(outside)
    }

    /// Store time of the first valid record of a file.
    pub fn first_time(&self, file: &SegmentFile) -> Option<i64> {
        let end = file.base.saturating_add(file.len);
        let zeros = self.bytes(file.base, BLANK_LEN).iter().all(|&b| b == 0);
        if zeros {
            return None;
        }
        self.walk_until(file.base, end, false)
            .find_map(|step| match step {
                Step::Message { record, .. } => record.view().ok().map(|view| view.store_timestamp()),
                _ => None,
            })
    }

    /// Where a walk has to begin to meet everything from a point on.
    pub fn begin_of(&self, point: Point) -> Result<u64, Error> {
        match point {
            Point::Offset(at) => self.align(at.max(self.start())),
            // Store times do not decrease along a log, so the file before the first one that is late enough has it.
            Point::Time(ms) => {
                let files: Vec<&SegmentFile> = self.files().collect();
                let late =
                    files.partition_point(|file| self.first_time(file).is_some_and(|first| first < ms));
                Ok(files.get(late.saturating_sub(1)).map_or(0, |file| file.base))
            }
        }
    }

    /// Offset of the newest file that something was written to.
    pub(super) fn newest_base(&self) -> u64 {
        self.files()
            .rfind(|file| !self.bytes(file.base, BLANK_LEN).iter().all(|&b| b == 0))
            .map_or(self.start(), |file| file.base)
    }

    /// The end of what was written, looked for from a boundary of records on.
    pub fn written_end(&self, from: u64) -> u64 {
        let mut end = from.max(self.newest_base());
        for step in self.walk(end, false) {
            if let Some(at) = self.tail_of(&step) {
                return at;
            }
            end = step.end();
        }
        end
    }

    /// The end of what was written, when this step begins there: at the tail, or at the filler of the last file, which
    /// the next append writes over.
    fn tail_of(&self, step: &Step) -> Option<u64> {
        match step {
            Step::Tail { at, .. } => Some(*at),
            Step::Filler { at, len } if at.saturating_add(*len) >= self.end() => Some(*at),
            _ => None,
        }
    }

    /// Looks for the next valid record or filler behind damage, and for the last byte that is not zero before it.
    fn look_ahead(&self, at: u64, kind: &DamageKind) -> Ahead {
        // When only the body is wrong, the parts add up, so the record's end can be relied on.
        if let DamageKind::Record(Fault::BodyCrc { .. }) = kind
            && let Ok(Peek::Message(len)) = peek(&self.bytes(at, BLANK_LEN))
        {
            let end = at.saturating_add(len as u64);
            if self.is_boundary(end) {
                return Ahead {
                    next: Some(end),
                    data_end: end,
                };
            }
        }
        let mut data_end = at;
        let from = at.saturating_add(1);
        for file in self
            .files()
            .filter(|file| file.base.saturating_add(file.len) > from)
        {
            if let Some(next) = self.look_in(file, from, &mut data_end) {
                return Ahead {
                    next: Some(next),
                    data_end,
                };
            }
        }
        Ahead { next: None, data_end }
    }

    fn look_in(&self, file: &SegmentFile, from: u64, data_end: &mut u64) -> Option<u64> {
        let handle = File::open(&file.path).ok()?;
        // A length word may begin in a hole, with zeros.
        let mut pieces =
            Pieces::of_tail(&handle, from.saturating_sub(file.base), file.len).overlapping(BLANK_LEN - 1);
        while let Ok(Some((at, bytes))) = pieces.read() {
            if let Some(last) = segments::last_nonzero(bytes) {
                *data_end = (*data_end).max(file.base + at + last as u64 + 1);
            }
            let found = MAGIC.find_iter(bytes).find_map(|hit| {
                let begin = (file.base + at + hit.start() as u64).checked_sub(4)?;
                (begin >= from.max(file.base) && self.is_boundary(begin)).then_some(begin)
            });
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// What lies behind damage.
struct Ahead {
    next: Option<u64>,
    data_end: u64,
}

/// The length that most files have; of several, the greatest.
pub(super) fn usual_size(files: &[SegmentFile]) -> u64 {
    let mut counts = std::collections::BTreeMap::<u64, usize>::new();
    for file in files.iter().filter(|file| file.len > 0) {
        *counts.entry(file.len).or_default() += 1;
    }
    counts
        .into_iter()
        .max_by_key(|&(len, count)| (count, len))
        .map_or(1, |(len, _)| len)
}

/// A walk over the log that names damage and goes on behind it.
pub struct Walk<'a> {
    log: &'a Log,
    cursor: MessageCursor<&'a Segments>,
    check_body: bool,
    /// Store time of the newest record before the last gap.
    newest: i64,
    /// The last record, as long as its time is not looked at.
    last: Option<u64>,
    after_gap: bool,
    tail: Option<Step>,
    ended: bool,
}

impl Walk<'_> {
    /// Where the next step begins.
    pub fn position(&self) -> u64 {
        self.cursor.position()
    }

    fn gap(&mut self, at: u64, kind: DamageKind) -> Step {
        let ahead = self.log.look_ahead(at, &kind);
        let is_zeros = kind == DamageKind::Zeros;
        self.after_gap = true;
        if let Some(last) = self.last.take()
            && let Ok(record) = self.log.record(last, false)
        {
            self.newest = record.view().map_or(i64::MIN, |view| view.store_timestamp());
        }
        let is_last = ahead.next.is_none();
        let end = ahead.next.unwrap_or(ahead.data_end.max(at));
        let gap = Gap {
            at,
            len: end - at,
            record: self.partial(at, &kind),
            kind,
            file: self.log.file_of(at).map(|file| file.path.clone()),
            is_last,
        };
        if let Some(next) = ahead.next {
            self.cursor.seek(next);
            return Step::Gap(gap);
        }
        // What a live broker is writing just now looks torn.
        let in_writing = self.log.live && end - at <= MOST_IN_WRITING;
        let tail_at = if in_writing { at } else { end };
        let tail = Step::Tail {
            at: tail_at,
            len: self.log.end().saturating_sub(tail_at),
        };
        self.ended = true;
        if tail_at == at && (is_zeros || in_writing) {
            return tail;
        }
        self.tail = Some(tail);
        Step::Gap(gap)
    }

    /// The record at a gap's begin, when only its checksum or its place is wrong.
    fn partial(&self, at: u64, kind: &DamageKind) -> Option<Record> {
        if !matches!(
            kind,
            DamageKind::Record(Fault::BodyCrc { .. }) | DamageKind::Offset { .. }
        ) {
            return None;
        }
        let Ok(Peek::Message(len)) = peek(&self.log.bytes(at, BLANK_LEN)) else {
            return None;
        };
        let bytes = self.log.segments.slice(at, len)?;
        MessageView::parse(&bytes).ok()?;
        Some(Record { at, bytes })
    }

    /// True when the walk compares checksums.
    pub fn checks_bodies(&self) -> bool {
        self.check_body
    }
}

impl Iterator for Walk<'_> {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.ended {
            return self.tail.take();
        }
        match self.cursor.next()? {
            Ok(Found::Filler { at, len }) => Some(Step::Filler { at, len }),
            Ok(Found::Message(record)) => {
                let mut stale = false;
                if self.after_gap {
                    let time = record.view().map_or(i64::MIN, |view| view.store_timestamp());
                    stale = time < self.newest;
                    self.after_gap = stale;
                }
                if !stale {
                    // Times do not decrease along a log; that of the last record is looked at when a gap follows.
                    self.last = Some(record.at);
                }
                Some(Step::Message { record, stale })
            }
            Err(damage) => {
                let gap = self.gap(damage.at, damage.kind);
                if self.log.live
                    && matches!(&gap, Step::Gap(gap) if !gap.is_last)
                    && self.log.is_boundary(damage.at)
                {
                    // A running broker wrote the record after this walk had read its place. What was read before is
                    // forgotten with the cursor: it would say the same again, for ever.
                    self.cursor =
                        MessageCursor::new(&self.log.segments, damage.at).check_body(self.check_body);
                    self.after_gap = false;
                    return self.next();
                }
                Some(gap)
            }
        }
    }
}

mod around;
pub use around::LogEnd;
#[cfg(test)]
mod tests;
