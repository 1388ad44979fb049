//! Walks over a log or a queue, record by record. The walk that recovers a store after a crash is the walk that the
//! inspector prints from.

use bytes::Bytes;

use super::format::consume_queue::{self, Entry, EntryView};
use super::segments::LogBytes;
use crate::protocol::message::{BLANK_LEN, Fault, MessageView, Peek, peek};

/// Why a walk cannot go on, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {at}: {kind}")]
pub struct Damage {
    /// Offset of the first byte that does not make sense.
    pub at: u64,
    /// What is wrong.
    pub kind: DamageKind,
}

/// What can be wrong at a position of a log or queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DamageKind {
    /// Zeros: nothing was written here.
    #[error("nothing written")]
    Zeros,
    /// Not a whole record.
    #[error("{0}")]
    Record(Fault),
    /// A whole record that belongs elsewhere.
    #[error("the record was stored at {stored}")]
    Offset {
        /// Where it says it is.
        stored: i64,
    },
    /// The file is missing or cannot be read.
    #[error("no file")]
    Missing,
    /// A queue entry that was never written.
    #[error("no entry: record at {offset} of {size} bytes")]
    Entry {
        /// Its physical offset.
        offset: i64,
        /// Its size.
        size: i32,
    },
}

/// One whole record of a log.
#[derive(Debug, Clone)]
pub struct Record {
    /// Its offset.
    pub at: u64,
    /// Its bytes.
    pub bytes: Bytes,
}

impl Record {
    /// The record's fields.
    pub fn view(&self) -> Result<MessageView<'_>, Fault> {
        MessageView::parse(&self.bytes)
    }

    /// Offset behind it.
    pub fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// What a walk over a log meets.
#[derive(Debug, Clone)]
pub enum Found {
    /// A record.
    Message(Record),
    /// The filler at the end of a file.
    Filler {
        /// Its offset.
        at: u64,
        /// Bytes up to the next file.
        len: u64,
    },
}

/// A window on a log, fetched anew when the walk leaves it.
struct Windowed<L> {
    log: L,
    window: Bytes,
    window_at: u64,
}

impl<L: LogBytes> Windowed<L> {
    fn new(log: L) -> Self {
        Self {
            log,
            window: Bytes::new(),
            window_at: 0,
        }
    }

    /// Up to `len` bytes from `at` on; fewer only if the file has no more.
    fn bytes(&mut self, at: u64, len: usize) -> Option<Bytes> {
        let in_window = at
            .checked_sub(self.window_at)
            .and_then(|n| usize::try_from(n).ok())
            .filter(|n| n.checked_add(len).is_some_and(|end| end <= self.window.len()));
        let from = match in_window {
            Some(from) => from,
            None => {
                self.window = self.log.window(at, len)?;
                self.window_at = at;
                0
            }
        };
        Some(self.window.slice(from..self.window.len().min(from + len)))
    }
}

/// Walks the records of a log. After [`Damage`] it stays where it is, and ends until [`Self::seek`].
pub struct MessageCursor<L> {
    bytes: Windowed<L>,
    at: u64,
    check_body: bool,
    stopped: bool,
}

impl<L: LogBytes> MessageCursor<L> {
    /// A walk from `at` on, comparing checksums of bodies.
    pub fn new(log: L, at: u64) -> Self {
        Self {
            bytes: Windowed::new(log),
            at,
            check_body: true,
            stopped: false,
        }
    }

    /// The same, with or without comparing the checksums of bodies.
    #[must_use]
    pub fn check_body(mut self, check: bool) -> Self {
        self.check_body = check;
        self
    }

    /// Where the next record is expected.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// Goes on from another place.
    pub fn seek(&mut self, at: u64) {
        self.at = at;
        self.stopped = false;
    }

    fn read(&mut self) -> Result<Found, Damage> {
        let at = self.at;
        let damage = |kind| Damage { at, kind };
        let head = self
            .bytes
            .bytes(at, BLANK_LEN)
            .ok_or_else(|| damage(DamageKind::Missing))?;
        let len = match peek(&head) {
            Ok(Peek::Message(len)) => len,
            Ok(Peek::Blank) => {
                let len = self.bytes.log.file_end(at) - at;
                self.at += len;
                return Ok(Found::Filler { at, len });
            }
            Err(_) if head.iter().all(|&b| b == 0) => return Err(damage(DamageKind::Zeros)),
            Err(fault) => return Err(damage(DamageKind::Record(fault))),
        };
        let left = self.bytes.log.file_end(at).min(self.bytes.log.end()) - at;
        if len as u64 > left {
            let available = left as usize;
            let fault = Fault::Short {
                needed: len,
                available,
            };
            return Err(damage(DamageKind::Record(fault)));
        }
        let bytes = self
            .bytes
            .bytes(at, len)
            .ok_or_else(|| damage(DamageKind::Missing))?;
        let view = if self.check_body {
            MessageView::parse_checked(&bytes)
        } else {
            MessageView::parse(&bytes)
        };
        let stored = view
            .map_err(|fault| damage(DamageKind::Record(fault)))?
            .physical_offset();
        if u64::try_from(stored) != Ok(at) {
            return Err(damage(DamageKind::Offset { stored }));
        }
        self.at += len as u64;
        Ok(Found::Message(Record { at, bytes }))
    }
}

impl<L: LogBytes> Iterator for MessageCursor<L> {
    type Item = Result<Found, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.stopped || self.at >= self.bytes.log.end() {
            return None;
        }
        let found = self.read();
        self.stopped = found.is_err();
        Some(found)
    }
}

/// Walks the entries of a queue, with their queue offsets. Ends like [`MessageCursor`].
pub struct QueueCursor<L> {
    bytes: Windowed<L>,
    next: u64,
    stopped: bool,
}

impl<L: LogBytes> QueueCursor<L> {
    /// Goes on to the first entry that was not written, calling `each` for those before it. Stops there without
    /// having said why.
    pub fn skip_written(&mut self, mut each: impl FnMut(&Entry)) {
        while let Some(at) = self.next.checked_mul(consume_queue::LEN as u64)
            && at < self.bytes.log.end()
        {
            let Some(window) = self.bytes.log.window(at, ENTRIES_AHEAD) else {
                return;
            };
            let before = self.next;
            for view in consume_queue::entries(&window) {
                let entry = view.to_entry();
                if !entry.is_written() {
                    return;
                }
                each(&entry);
                self.next += 1;
            }
            if self.next == before {
                return;
            }
        }
    }
}

/// Entries fetched at once.
const ENTRIES_AHEAD: usize = 1024 * consume_queue::LEN;

impl<L: LogBytes> QueueCursor<L> {
    /// A walk from a queue offset on.
    pub fn new(queue: L, offset: u64) -> Self {
        Self {
            bytes: Windowed::new(queue),
            next: offset,
            stopped: false,
        }
    }

    /// The next queue offset.
    pub fn position(&self) -> u64 {
        self.next
    }

    /// Goes on from another queue offset.
    pub fn seek(&mut self, offset: u64) {
        self.next = offset;
        self.stopped = false;
    }

    fn read(&mut self, at: u64) -> Result<(u64, Entry), Damage> {
        let damage = |kind| Damage { at, kind };
        let in_window = at.wrapping_sub(self.bytes.window_at) < self.bytes.window.len() as u64;
        let want = if in_window {
            consume_queue::LEN
        } else {
            ENTRIES_AHEAD
        };
        let bytes = self
            .bytes
            .bytes(at, want)
            .ok_or_else(|| damage(DamageKind::Missing))?;
        let Some(bytes) = bytes.first_chunk() else {
            return Err(damage(DamageKind::Missing));
        };
        let entry = EntryView::new(bytes).to_entry();
        if entry.is_written() {
            let offset = self.next;
            self.next += 1;
            return Ok((offset, entry));
        }
        let (offset, size) = (entry.offset, entry.size);
        Err(damage(if offset == 0 && size == 0 {
            DamageKind::Zeros
        } else {
            DamageKind::Entry { offset, size }
        }))
    }
}

impl<L: LogBytes> Iterator for QueueCursor<L> {
    type Item = Result<(u64, Entry), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.next.checked_mul(consume_queue::LEN as u64)?;
        if self.stopped || at >= self.bytes.log.end() {
            return None;
        }
        let found = self.read(at);
        self.stopped = found.is_err();
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::{NewMessage, Stamp, encode_blank};
    use crate::protocol::model::SysFlag;
    use crate::store::format::file_name;
    use crate::store::segments::{self, Segments};

    fn record(at: u64, body: &[u8]) -> Vec<u8> {
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
            body: Bytes::copy_from_slice(body),
            properties: String::new(),
        };
        let stamp = Stamp {
            queue_offset: 0,
            physical_offset: at as i64,
            store_timestamp: 5,
        };
        message.to_vec(stamp).unwrap()
    }

    /// Two files of 256 bytes: two records of 102 bytes and a filler in the first, `tail` in the second.
    fn log(tail: &[u8]) -> (tempfile::TempDir, Segments) {
        let dir = tempfile::tempdir().unwrap();
        let mut first = record(0, b"0123456789");
        first.extend(record(102, b"0123456789"));
        first.resize(256, 0);
        encode_blank(&mut first[204..]);
        let mut second = tail.to_vec();
        second.resize(256, 0);
        std::fs::write(dir.path().join(file_name::segment(0)), first).unwrap();
        std::fs::write(dir.path().join(file_name::segment(256)), second).unwrap();
        let segments = Segments::new(segments::list(dir.path()).unwrap().files, 256, false);
        (dir, segments)
    }

    fn end_of(tail: &[u8]) -> (usize, Damage) {
        let (_dir, segments) = log(tail);
        let mut found = 0;
        for step in MessageCursor::new(&segments, 0) {
            match step {
                Ok(_) => found += 1,
                Err(damage) => return (found, damage),
            }
        }
        panic!("the zeros at the end are damage");
    }

    #[test]
    fn a_walk_steps_over_the_filler_and_ends_at_zeros() {
        let (found, damage) = end_of(&record(256, b"x"));
        assert_eq!((found, damage.at, damage.kind), (4, 256 + 93, DamageKind::Zeros));
    }

    #[test]
    fn a_record_of_another_place_ends_the_walk() {
        let (found, damage) = end_of(&record(0, b"x"));
        assert_eq!((found, damage.kind), (3, DamageKind::Offset { stored: 0 }));
    }

    #[test]
    fn damage_is_named_and_the_walk_can_go_on_behind_it() {
        let mut tail = record(256, b"x");
        tail[88] ^= 1;
        let len = tail.len() as u64;
        tail.extend(record(256 + len, b"good"));
        let (_dir, segments) = log(&tail);
        let mut cursor = MessageCursor::new(&segments, 256);
        let damage = cursor.next().unwrap().unwrap_err();
        assert!(matches!(damage.kind, DamageKind::Record(Fault::BodyCrc { .. })));
        assert!(cursor.next().is_none());
        cursor.seek(256 + len);
        assert!(matches!(cursor.next(), Some(Ok(Found::Message(_)))));
        let mut unchecked = MessageCursor::new(&segments, 256).check_body(false);
        assert!(unchecked.next().unwrap().is_ok());
    }

    #[test]
    fn a_record_longer_than_its_file_is_short() {
        let mut tail = record(256, b"x");
        tail[2] = 1;
        let (_, damage) = end_of(&tail);
        assert!(matches!(damage.kind, DamageKind::Record(Fault::Short { .. })));
        let (_dir, segments) = log(&[]);
        let past = MessageCursor::new(&segments, 512).next();
        assert!(past.is_none());
    }

    #[test]
    fn a_queue_is_walked_to_its_first_unwritten_entry() {
        let dir = tempfile::tempdir().unwrap();
        let entry = |n: i64| Entry {
            offset: n * 10,
            size: 10,
            tags_code: n,
        };
        for file in 0..2u64 {
            let bytes: Vec<u8> = (0..3)
                .flat_map(|n| entry(file as i64 * 3 + n).to_bytes())
                .collect();
            std::fs::write(dir.path().join(file_name::segment(60 + file * 60)), bytes).unwrap();
        }
        std::fs::write(dir.path().join(file_name::segment(180)), [0; 60]).unwrap();
        let queue = Segments::new(segments::list(dir.path()).unwrap().files, 60, false);
        let mut cursor = QueueCursor::new(&queue, 4);
        assert_eq!(cursor.next(), Some(Ok((4, entry(1)))));
        assert_eq!(cursor.by_ref().filter(Result::is_ok).count(), 4);
        assert_eq!(cursor.position(), 9);
        let mut skipping = QueueCursor::new(&queue, 4);
        let mut last = None;
        skipping.skip_written(|entry| last = Some(*entry));
        assert_eq!((skipping.position(), last), (9, Some(entry(5))));
        cursor.seek(9);
        assert_eq!(
            cursor.next().unwrap().unwrap_err(),
            Damage {
                at: 180,
                kind: DamageKind::Zeros
            }
        );
        let kind = QueueCursor::new(&queue, 0).next().unwrap().unwrap_err().kind;
        assert_eq!(kind, DamageKind::Missing);
    }
}
