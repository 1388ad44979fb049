//! The commit log: records of all queues, one behind the other. Appending happens under one lock, which gives the
//! queue offset and the store time and encodes straight into the mapped segment.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use bytes::Bytes;

use super::ahead::{self, Ahead, Taken};
use super::disk::{self, io_error};
use super::segments::{self, LogBytes, Segment, SegmentFile, SegmentWriter};
use super::{AppendError, Appended, Error};
use crate::protocol::message::{BLANK_LEN, Measured, MessageView, NewMessage, Stamp, encode_blank};

/// Unix time in ms.
pub fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as i64)
}

/// The segments of a live log, as readers see them.
#[derive(Debug)]
pub struct SegmentsMut {
    size: u64,
    /// Oldest first. Replaced as a whole, so that a reader never waits.
    list: ArcSwap<Vec<Arc<Segment>>>,
    end: AtomicU64,
    /// Pages are read one by one, not ahead; new segments follow it.
    singly: AtomicBool,
}

impl SegmentsMut {
    fn find(&self, at: u64) -> Option<Arc<Segment>> {
        let list = self.list.load();
        let n = list.partition_point(|segment| segment.base() <= at);
        let segment = list.get(n.checked_sub(1)?)?;
        (at - segment.base() < self.size).then(|| Arc::clone(segment))
    }

    /// True when reading a range of one segment waits for no disk.
    pub fn is_resident(&self, at: u64, len: u64) -> bool {
        self.find(at).is_none_or(|segment| {
            let from = (at - segment.base()) as usize;
            segment.is_resident(from, from.saturating_add(len as usize))
        })
    }

    /// Orders a range of one segment to be read, as far as it was written.
    pub fn will_need(&self, at: u64, len: u64) {
        if let Some(segment) = self.find(at) {
            let from = (at - segment.base()) as usize;
            segment.will_need(from, from.saturating_add(len as usize).min(segment.readable()));
        }
    }

    /// Lets the system read the log ahead, or page by page: for consumers that jump about in old messages.
    pub fn set_read_ahead(&self, on: bool) {
        self.singly.store(!on, Ordering::Relaxed);
        for segment in self.all().iter() {
            if on {
                segment.read_ahead();
            } else {
                segment.read_singly();
            }
        }
    }

    /// All segments, oldest first.
    pub fn all(&self) -> Arc<Vec<Arc<Segment>>> {
        self.list.load_full()
    }
}

impl LogBytes for SegmentsMut {
    fn start(&self) -> u64 {
        self.list.load().first().map_or(0, |segment| segment.base())
    }

    fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    fn file_end(&self, at: u64) -> u64 {
        (at - at % self.size).saturating_add(self.size)
    }

    fn window(&self, at: u64, _: usize) -> Option<Bytes> {
        let segment = self.find(at)?;
        segment.window((at - segment.base()) as usize)
    }
}

/// What the append lock protects. It is taken before any lock of a queue.
#[derive(Debug)]
struct Tail {
    writer: SegmentWriter,
    /// Store time of the newest record; the next one is not older.
    timestamp: i64,
    /// Offset of the newest record, if there ever was one.
    last: Option<u64>,
    /// Pages below this position of the segment were touched ahead, or are about to be.
    touched: usize,
    /// Whether the next segment was asked for.
    wanted: bool,
}

/// The commit log of an open store.
#[derive(Debug)]
pub struct CommitLog {
    segments: SegmentsMut,
    tail: Mutex<Tail>,
    ahead: Arc<Ahead>,
    /// Records below were written by an earlier process.
    own_from: u64,
    /// When the append lock was taken, ms; 0 while it is free.
    held_since: AtomicI64,
    /// Since when appends have been waiting for the next segment, ms; 0 while none does.
    waiting_since: AtomicI64,
    /// Position in the last file from which on its space could not be reserved, the disk being full.
    unreserved: Mutex<Option<u64>>,
}

/// Where an append takes its queue offset from.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// Queue offset of the next record; changes under the append lock only.
    pub next: &'a AtomicI64,
    /// Set under the append lock when the queue's topic is deleted.
    pub gone: &'a AtomicBool,
}

impl CommitLog {
    /// Opens the files of the log, which ends at `end`; newest record at this offset and of this store time. Files
    /// behind the end must be gone and the bytes behind it must be zeros.
    pub fn open(
        dir: &Path,
        files: &[SegmentFile],
        size: u64,
        end: u64,
        last: Option<(u64, i64)>,
    ) -> Result<Self, Error> {
        disk::create_dir_durably(dir)?;
        let mut unreserved = None;
        let mut list = Vec::with_capacity(files.len() + 1);
        let writer = match files.split_last() {
            None => {
                let fresh = ahead::create(dir, 0, size)?;
                list.push(fresh.segment);
                fresh.writer
            }
            Some((last, full)) => {
                for file in full {
                    list.push(Segment::open_read(&file.path, file.base)?);
                }
                let file = segments::open_rw(&last.path)?;
                let used = end.saturating_sub(last.base).min(size);
                // A segment of the Java broker has holes that a full disk could not fill.
                match disk::reserve(&file, used, size - used) {
                    Err(e) if e.kind() == std::io::ErrorKind::StorageFull => unreserved = Some(used),
                    reserved => reserved.map_err(io_error("reserve space for", &last.path))?,
                }
                let (segment, writer) = Segment::open_write(&last.path, last.base, &file, used as usize)?;
                list.push(segment);
                writer
            }
        };
        let end = writer.segment().base() + writer.at() as u64;
        let ahead = Arc::new(Ahead::new(dir.to_owned(), size));
        let touched = (writer.at() + ahead::STEP).min(writer.segment().len());
        if unreserved.is_none() {
            ahead.touch(writer.segment(), writer.at(), touched);
        }
        Ok(Self {
            segments: SegmentsMut {
                size,
                list: ArcSwap::from_pointee(list),
                end: AtomicU64::new(end),
                singly: AtomicBool::new(false),
            },
            tail: Mutex::new(Tail {
                writer,
                timestamp: last.map_or(0, |(_, timestamp)| timestamp),
                last: last.map(|(at, _)| at),
                touched,
                wanted: false,
            }),
            ahead,
            own_from: end,
            held_since: AtomicI64::new(0),
            waiting_since: AtomicI64::new(0),
            unreserved: Mutex::new(unreserved),
        })
    }

    /// The segments, for readers.
    pub fn segments(&self) -> &SegmentsMut {
        &self.segments
    }

    /// What runs ahead of the writer.
    pub fn ahead(&self) -> &Arc<Ahead> {
        &self.ahead
    }

    /// Size of a segment.
    pub fn segment_size(&self) -> u64 {
        self.segments.size
    }

    fn lock(&self) -> MutexGuard<'_, Tail> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// End of the log and store time of its newest record, which belong together.
    pub fn tail(&self) -> (u64, i64) {
        let tail = self.lock();
        (self.segments.end(), tail.timestamp)
    }

    /// End of the log, and offset and store time of its newest record.
    pub fn last(&self) -> (u64, Option<(u64, i64)>) {
        let tail = self.lock();
        (self.segments.end(), tail.last.map(|at| (at, tail.timestamp)))
    }

    /// Calls `work` with the end of the log while no append can move it.
    pub fn at_rest<T>(&self, work: impl FnOnce(u64) -> T) -> T {
        let _tail = self.lock();
        work(self.segments.end())
    }

    /// Tries again to reserve space that was not there at the start. False while it is not there.
    pub fn reserve_rest(&self) -> Result<bool, Error> {
        let mut unreserved = self.unreserved.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = *unreserved else {
            return Ok(true);
        };
        let list = self.segments.all();
        if let Some(last) = list.last() {
            let file = segments::open_rw(last.path())?;
            match disk::reserve(&file, from, self.segments.size - from) {
                Err(e) if e.kind() == std::io::ErrorKind::StorageFull => return Ok(false),
                reserved => reserved.map_err(io_error("reserve space for", last.path()))?,
            }
        }
        *unreserved = None;
        Ok(true)
    }

    /// How long the append lock has been held, or appends have waited for the next segment, ms; 0 when neither is so.
    pub fn held_ms(&self) -> i64 {
        let held = self.held_since.load(Ordering::Relaxed);
        let mut waiting = self.waiting_since.load(Ordering::Relaxed);
        if waiting != 0 && !self.ahead.is_busy() {
            // Whoever waited gave up before the segment was there.
            self.waiting_since.store(0, Ordering::Relaxed);
            waiting = 0;
        }
        match (held, waiting) {
            (0, 0) => 0,
            (0, since) | (since, 0) => (now_ms() - since).max(0),
            (held, waiting) => (now_ms() - held.min(waiting)).max(0),
        }
    }

    /// Appends records of one queue as one run in one segment. Their queue offsets are taken from `place`, unless
    /// there is none (half messages and roll-backs, which have queue offset 0). `at` is told the offset of each.
    pub fn append(
        &self,
        place: Option<Place<'_>>,
        messages: &[NewMessage],
        measured: &[Measured],
        mut at: impl FnMut(i64),
    ) -> Result<Appended, AppendError> {
        let total: usize = measured.iter().map(|m| m.len).sum();
        let mut tail = self.lock();
        while total + BLANK_LEN > tail.writer.remaining() {
            let base = tail.writer.segment().base() + self.segments.size;
            match self.ahead.take(base) {
                Taken::Ready(fresh) => {
                    self.roll(&mut tail, fresh);
                    self.waiting_since.store(0, Ordering::Relaxed);
                }
                Taken::Failed(reason) => {
                    self.waiting_since.store(0, Ordering::Relaxed);
                    return Err(AppendError::CreateFailed(reason));
                }
                Taken::Pending => {
                    // Waits without the lock: flushes and readers of the tail go on meanwhile.
                    drop(tail);
                    self.wait_for_segment(base)?;
                    tail = self.lock();
                }
            }
        }
        if place.is_some_and(|place| place.gone.load(Ordering::Acquire)) {
            return Err(AppendError::NotWritable("the topic is being deleted".into()));
        }
        let next = place.map(|place| place.next);
        let now = now_ms();
        self.held_since.store(now, Ordering::Relaxed);
        let appended = {
            let tail = &mut *tail;
            let timestamp = now.max(tail.timestamp);
            let base = tail.writer.segment().base() + tail.writer.at() as u64;
            // All changes of a queue's next offset happen under this lock.
            let queue_offset = next.map_or(0, |next| next.load(Ordering::Relaxed));
            let mut rest = tail
                .writer
                .slot(total)
                .expect("the loop above left room for the run");
            let (mut physical_offset, mut offset) = (base as i64, queue_offset);
            let mut last = base;
            for (message, measured) in messages.iter().zip(measured) {
                let (slot, behind) = std::mem::take(&mut rest).split_at_mut(measured.len);
                let stamp = Stamp {
                    queue_offset: offset,
                    physical_offset,
                    store_timestamp: timestamp,
                };
                message.encode(measured, stamp, slot);
                at(physical_offset);
                last = physical_offset as u64;
                rest = behind;
                physical_offset += measured.len as i64;
                offset += i64::from(next.is_some());
            }
            if let Some(next) = next {
                next.store(offset, Ordering::Relaxed);
            }
            tail.writer.advance(total);
            tail.timestamp = timestamp;
            tail.last = Some(last);
            self.segments.end.store(base + total as u64, Ordering::Release);
            self.look_ahead(tail);
            Appended {
                offset: base as i64,
                end: physical_offset,
                queue_offset,
                store_timestamp: timestamp,
            }
        };
        self.held_since.store(0, Ordering::Relaxed);
        Ok(appended)
    }

    /// Waits until the segment at `base` may be there. Behind those who wait already nobody waits long: the callers
    /// are few threads that have other work.
    fn wait_for_segment(&self, base: u64) -> Result<(), AppendError> {
        let now = now_ms();
        let first = self
            .waiting_since
            .compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed)
            .unwrap_or_else(|since| since);
        let first = if first == 0 { now } else { first };
        let left = ahead::PATIENCE.saturating_sub(Duration::from_millis((now - first).max(0) as u64));
        if left.is_zero() || !self.ahead.wait(base, left) {
            return Err(AppendError::Busy);
        }
        Ok(())
    }

    /// Ends the tail's segment with a filler and goes on in a fresh one.
    fn roll(&self, tail: &mut Tail, fresh: ahead::Fresh) {
        let base = fresh.segment.base();
        let remaining = tail.writer.remaining();
        if let Some(rest) = tail.writer.slot(remaining).filter(|rest| rest.len() >= BLANK_LEN) {
            encode_blank(rest);
        }
        tail.writer.advance(remaining);
        if self.segments.singly.load(Ordering::Relaxed) {
            fresh.segment.read_singly();
        }
        let mut list = Vec::clone(&self.segments.list.load());
        list.push(fresh.segment);
        self.segments.list.store(Arc::new(list));
        self.segments.end.store(base, Ordering::Release);
        tail.writer = fresh.writer;
        tail.touched = 0;
        tail.wanted = false;
    }

    /// Orders the next pages and the next segment in time.
    fn look_ahead(&self, tail: &mut Tail) {
        let (at, len) = (tail.writer.at(), tail.writer.segment().len());
        if tail.touched < len && at + ahead::STEP > tail.touched {
            let from = tail.touched.max(at);
            tail.touched = (from + ahead::STEP).min(len);
            self.ahead.touch(tail.writer.segment(), from, tail.touched);
        }
        if !tail.wanted && at > len / 2 {
            tail.wanted = true;
            self.ahead.want(tail.writer.segment().base() + len as u64);
        }
    }

    /// Flushes the bytes `from..to`.
    pub fn flush(&self, from: u64, to: u64) -> Result<(), Error> {
        for segment in self.segments.list.load().iter() {
            let end = segment.base() + segment.len() as u64;
            if from < end && to > segment.base() {
                let start = from.max(segment.base()) - segment.base();
                segment.flush(start as usize, (to.min(end) - segment.base()) as usize)?;
            }
        }
        Ok(())
    }

    /// The record at an offset, if there is one.
    pub fn record(&self, offset: i64, size: Option<i32>) -> Option<Bytes> {
        let at = u64::try_from(offset).ok()?;
        let mut window = self.segments.window(at, 0)?;
        let view = MessageView::parse(&window).ok()?;
        let len = view.size();
        if view.physical_offset() != offset || size.is_some_and(|size| size as usize != len) {
            return None;
        }
        window.truncate(len);
        Some(window)
    }

    /// True for a record that this process appended: nothing but a broken memory has changed it since.
    pub fn is_own(&self, offset: i64) -> bool {
        u64::try_from(offset).is_ok_and(|at| at >= self.own_from)
    }

    /// [`Self::record`] for those who hand it out: `None` as well when the checksum of an older one does not hold.
    pub fn sound_record(&self, offset: i64) -> Option<Bytes> {
        let record = self.record(offset, None)?;
        if !self.is_own(offset)
            && let Err(fault) = MessageView::parse_checked(&record)
        {
            tracing::error!(
                "the record at {offset} of the commit log is damaged: {fault}; it is not handed out"
            );
            return None;
        }
        Some(record)
    }

    /// Deletes the oldest segment, unless it is the last one; returns the new start of the log.
    pub fn delete_oldest(&self) -> Result<Option<u64>, Error> {
        // Under the append lock, since a new segment replaces the list as well.
        let tail = self.lock();
        let mut list = Vec::clone(&self.segments.list.load());
        if list.len() < 2 {
            return Ok(None);
        }
        let oldest = list.remove(0);
        let start = list.first().map_or(0, |segment| segment.base());
        self.segments.list.store(Arc::new(list));
        drop(tail);
        disk::remove_file(oldest.path())?;
        Ok(Some(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::model::SysFlag;
    use crate::store::cursor::{Found, MessageCursor};

    fn message(body: usize) -> NewMessage {
        NewMessage {
            topic: "t".into(),
            queue_id: 0,
            flag: 0,
            sys_flag: SysFlag(0),
            born_timestamp: 1,
            born_host: ([127, 0, 0, 1], 1).into(),
            store_host: ([127, 0, 0, 1], 2).into(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: vec![b'x'; body].into(),
            properties: String::new(),
        }
    }

    struct Running(CommitLog, Option<std::thread::JoinHandle<()>>);

    impl Running {
        fn open(dir: &Path) -> Self {
            let files = segments::list(dir).unwrap().files;
            let log = CommitLog::open(dir, &files, 4096, 0, None).unwrap();
            let ahead = Arc::clone(log.ahead());
            Self(log, Some(std::thread::spawn(move || ahead.run())))
        }

        fn append(&self, next: &AtomicI64, bodies: &[usize]) -> Result<Appended, AppendError> {
            let messages: Vec<_> = bodies.iter().map(|&body| message(body)).collect();
            let measured: Vec<_> = messages.iter().map(|m| m.measure().unwrap()).collect();
            let gone = AtomicBool::new(false);
            self.0
                .append(Some(Place { next, gone: &gone }), &messages, &measured, |_| ())
        }
    }

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.ahead().stop();
            if let Some(thread) = self.1.take() {
                thread.join().unwrap();
            }
        }
    }

    #[test]
    fn a_record_that_leaves_a_filler_fits_and_one_byte_more_rolls() {
        let dir = tempfile::tempdir().unwrap();
        let log = Running::open(dir.path());
        let next = AtomicI64::new(0);
        // 91 bytes and a topic of one around the body.
        let first = log.append(&next, &[4096 - 8 - 92]).unwrap();
        assert_eq!((first.offset, first.end), (0, 4088));
        let second = log.append(&next, &[1]).unwrap();
        assert_eq!((second.offset, second.queue_offset), (4096, 1));
        let third = log.append(&next, &[4096 - 93 - 8 - 92 + 1]).unwrap();
        assert_eq!(third.offset, 8192);
        assert!(third.store_timestamp >= first.store_timestamp);
        let found: Vec<_> = MessageCursor::new(log.0.segments(), 0)
            .map(|step| match step.unwrap() {
                Found::Message(record) => (record.at, record.bytes.len() as u64),
                Found::Filler { at, len } => (at, len),
            })
            .collect();
        assert_eq!(
            found,
            [(0, 4088), (4088, 8), (4096, 93), (4189, 4003), (8192, 3996)]
        );
        assert!(log.0.record(4096, Some(93)).is_some());
        assert!(log.0.record(4096, Some(94)).is_none());
        assert!(log.0.record(4097, None).is_none());
        assert!(log.0.record(4088, None).is_none());
    }

    #[test]
    fn a_run_stays_together() {
        let dir = tempfile::tempdir().unwrap();
        let log = Running::open(dir.path());
        let next = AtomicI64::new(7);
        log.append(&next, &[3000]).unwrap();
        let run = log.append(&next, &[400, 400, 400]).unwrap();
        assert_eq!((run.offset, run.end), (4096, 4096 + 3 * 492));
        assert_eq!((run.queue_offset, next.load(Ordering::Relaxed)), (8, 11));
    }

    #[test]
    fn the_oldest_segment_goes_but_never_the_last_one() {
        let dir = tempfile::tempdir().unwrap();
        let log = Running::open(dir.path());
        let next = AtomicI64::new(0);
        log.append(&next, &[3900]).unwrap();
        log.append(&next, &[300]).unwrap();
        assert_eq!(log.0.delete_oldest().unwrap(), Some(4096));
        assert_eq!(log.0.delete_oldest().unwrap(), None);
        assert_eq!(log.0.segments().start(), 4096);
        assert!(log.0.record(0, None).is_none());
        assert!(log.0.record(4096, None).is_some());
    }
}
