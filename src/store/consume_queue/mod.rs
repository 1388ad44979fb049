//! One consume queue: entries that say where its records are. Written by the build thread alone, read by everyone.
//!
//! Segments are mapped when they are needed and let go when they are not (see [`super::queues`]): a store may have
//! more queues than a process may have maps. Files stay sparse; space is reserved in small steps ahead of the writer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use super::Error;
use super::commit_log::Place;
use super::format::consume_queue::{self, Entry, EntryView, LEN};
use super::format::file_name;
use super::queues::Maps;
use super::reader::QueueName;
use super::segments::{Segment, SegmentWriter};

mod trim;
mod write;

pub use trim::{clear_tail, partition_point};

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Written.
    New,
    /// There already.
    Repeated,
}

/// What recovery found when it compared a record with its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// The entry was not there and is now.
    Written,
    /// It was there.
    Known,
    /// Another one was in its place.
    Mended,
    /// Entries before it are missing.
    Missing {
        /// The queue's first files, not only its last entries.
        from_start: bool,
    },
}

/// One queue.
#[derive(Debug)]
pub struct ConsumeQueue {
    name: QueueName,
    dir: PathBuf,
    segment_size: u64,
    maps: Arc<Maps>,
    /// Queue offset of the next append; changes under the append lock only.
    pub(super) next: AtomicI64,
    /// Queue offset behind the last entry that readers may see.
    max: AtomicI64,
    /// Queue offset of the first entry whose record is still there.
    min: AtomicI64,
    /// Physical offset behind the last entry's record.
    max_physic: AtomicI64,
    /// Entries below are flushed.
    flushed: AtomicI64,
    files: Mutex<Files>,
    bell: OnceLock<watch::Sender<i64>>,
    /// Set by the build thread until it has rung the bell.
    pub(super) touched: AtomicBool,
    /// Recovery found entries missing, and makes them after its walk.
    pub(super) behind: AtomicBool,
    /// Looked at since the last round of letting go.
    used: AtomicBool,
    /// Its topic was deleted: nothing is written any more.
    gone: AtomicBool,
}

#[derive(Debug, Default)]
struct Files {
    /// Segments by offset; the map is there while it is in use.
    list: Vec<(u64, Option<Arc<Segment>>)>,
    writer: Option<SegmentWriter>,
    /// Space of the writer's segment is reserved up to here.
    reserved: usize,
    /// A file was created whose name is not flushed yet.
    named: bool,
}

/// The state of a queue as recovery found it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Offsets of its segments.
    pub bases: Vec<u64>,
    /// Queue offset of the first entry whose record may be there.
    pub min: i64,
    /// Queue offset behind the last entry.
    pub max: i64,
    /// Physical offset behind the last entry's record.
    pub max_physic: i64,
    /// Entries below are on the disk.
    pub flushed: i64,
}

/// A run of entries in one segment, as far as readers may see.
#[derive(Debug)]
pub struct Run {
    segment: Arc<Segment>,
    from: usize,
    to: usize,
}

impl Run {
    /// The bytes of the entries.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.segment.bytes(self.from);
        &bytes[..(self.to - self.from).min(bytes.len())]
    }

    /// True when reading the first `len` bytes waits for no disk.
    pub fn is_resident(&self, len: usize) -> bool {
        let to = self.from.saturating_add(len).min(self.to);
        self.segment.is_resident(self.from, to)
    }

    /// Orders the first `len` bytes to be read from the disk.
    pub fn will_need(&self, len: usize) {
        let to = self.from.saturating_add(len).min(self.to);
        self.segment.will_need(self.from, to);
    }

    fn first(&self) -> Option<Entry> {
        Some(EntryView::new(self.bytes().first_chunk()?).to_entry())
    }

    /// The last entry that points to a record.
    fn last_real(&self) -> Option<Entry> {
        let (entries, _) = self.bytes().as_chunks::<LEN>();
        let mut entries = entries.iter().rev().map(|bytes| EntryView::new(bytes).to_entry());
        entries.find(|entry| !entry.is_blank())
    }
}

impl ConsumeQueue {
    pub(super) fn new(
        name: QueueName,
        dir: PathBuf,
        segment_size: u64,
        maps: Arc<Maps>,
        state: Recovered,
    ) -> Self {
        Self {
            name,
            dir,
            segment_size,
            maps,
            next: AtomicI64::new(state.max),
            max: AtomicI64::new(state.max),
            min: AtomicI64::new(state.min),
            max_physic: AtomicI64::new(state.max_physic),
            flushed: AtomicI64::new(state.flushed),
            files: Mutex::new(Files {
                // Whoever left entries unflushed may have left the names so, too.
                named: state.flushed < state.max,
                list: state.bases.into_iter().map(|base| (base, None)).collect(),
                ..Files::default()
            }),
            bell: OnceLock::new(),
            touched: AtomicBool::new(false),
            behind: AtomicBool::new(false),
            used: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// Queue offset behind the last visible entry.
    pub fn max(&self) -> i64 {
        self.max.load(Ordering::Acquire)
    }

    /// Queue offset of the first entry whose record is there; never above [`Self::max`].
    pub fn min(&self) -> i64 {
        self.min.load(Ordering::Acquire).min(self.max())
    }

    /// Physical offset behind the last entry's record.
    pub fn max_physic(&self) -> i64 {
        self.max_physic.load(Ordering::Relaxed)
    }

    /// Queue offset of the next append: behind the last entry, or further when records were lost.
    pub fn next(&self) -> i64 {
        self.next.load(Ordering::Relaxed)
    }

    /// Where the log takes queue offsets from.
    pub fn place(&self) -> Place<'_> {
        Place {
            next: &self.next,
            gone: &self.gone,
        }
    }

    /// Topic and number.
    pub fn name(&self) -> &QueueName {
        &self.name
    }

    /// Queue offset that the first file begins with; `None` without files.
    pub fn first(&self) -> Option<i64> {
        let files = self.files();
        files.list.first().map(|(base, _)| (base / LEN as u64) as i64)
    }

    fn files(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Follows [`Self::max`].
    pub fn bell(&self) -> watch::Receiver<i64> {
        let bell = self.bell.get_or_init(|| watch::Sender::new(self.max()));
        let receiver = bell.subscribe();
        // Pairs with the fence in ring(): an entry written meanwhile is seen here, or its writer sees the bell.
        fence(Ordering::SeqCst);
        self.strike(bell);
        receiver
    }

    /// Tells those who wait that there are new entries.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if let Some(bell) = self.bell.get() {
            self.strike(bell);
        }
    }

    fn strike(&self, bell: &watch::Sender<i64>) {
        let max = self.max();
        bell.send_if_modified(|known| {
            let news = *known < max;
            *known = max.max(*known);
            news
        });
    }

    /// The entries from a queue offset to the end of its segment or of the queue; `None` where there are none.
    pub fn run(&self, offset: i64) -> Option<Run> {
        self.look(offset).unwrap_or_else(|e| {
            tracing::error!("{e}");
            None
        })
    }

    /// The same, if the segment is mapped already.
    pub fn run_if_mapped(&self, offset: i64) -> Option<Run> {
        let (at, base, to) = self.span(offset)?;
        self.used.store(true, Ordering::Relaxed);
        let files = self.files();
        let n = files.list.binary_search_by_key(&base, |(b, _)| *b).ok()?;
        let segment = files.list[n].1.clone()?;
        Some(Run {
            segment,
            from: (at - base) as usize,
            to: to as usize,
        })
    }

    /// Where an entry is, where its segment begins, and how far that is filled.
    fn span(&self, offset: i64) -> Option<(u64, u64, u64)> {
        let max = self.max();
        if offset < 0 || offset >= max {
            return None;
        }
        let at = offset as u64 * LEN as u64;
        let base = at - at % self.segment_size;
        Some((at, base, (max as u64 * LEN as u64 - base).min(self.segment_size)))
    }

    /// [`Self::run`], telling entries that cannot be read now from those that are not there.
    pub fn look(&self, offset: i64) -> Result<Option<Run>, Error> {
        let Some((at, base, to)) = self.span(offset) else {
            return Ok(None);
        };
        self.used.store(true, Ordering::Relaxed);
        let mut files = self.files();
        let Ok(n) = files.list.binary_search_by_key(&base, |(b, _)| *b) else {
            return Ok(None);
        };
        if files.list[n].1.is_none() {
            self.map(&mut files, n, to as usize)?;
        }
        let segment = files.list[n].1.clone();
        drop(files);
        Ok(segment.map(|segment| Run {
            segment,
            from: (at - base) as usize,
            to: to as usize,
        }))
    }

    /// Maps a segment of the list: the last one for writing, since it goes on.
    fn map(&self, files: &mut Files, n: usize, readable: usize) -> Result<(), Error> {
        let base = files.list[n].0;
        if n + 1 == files.list.len() {
            return self.open_writer(files, base, readable);
        }
        self.maps.make_room();
        let path = self.dir.join(file_name::segment(base));
        files.list[n].1 = Some(Segment::open_read(&path, base)?);
        self.maps.add(1);
        Ok(())
    }

    /// One entry.
    pub fn entry(&self, offset: i64) -> Option<Entry> {
        self.run(offset)?.first()
    }

    /// The first entry at or behind `offset` that points to a record, and its offset.
    pub fn next_real(&self, mut offset: i64) -> Result<Option<(i64, Entry)>, Error> {
        while offset < self.max() {
            if let Some(run) = self.look(offset)? {
                let mut found = (offset..).zip(consume_queue::entries(run.bytes()));
                if let Some((n, entry)) = found.find(|(_, entry)| !entry.to_entry().is_blank()) {
                    return Ok(Some((n, entry.to_entry())));
                }
            }
            offset = self.next_segment(offset);
        }
        Ok(None)
    }

    /// The first queue offset of the segment behind the one that `offset` lies in.
    pub fn next_segment(&self, offset: i64) -> i64 {
        let per_file = (self.segment_size / LEN as u64) as i64;
        offset - offset.rem_euclid(per_file) + per_file
    }

    /// Lets go of maps that nobody looked at since the last call; of all of them when `hard`.
    pub fn let_go(&self, hard: bool) {
        if self.used.swap(false, Ordering::Relaxed) && !hard {
            return;
        }
        let mut files = self.files();
        files.writer = None;
        files.reserved = 0;
        let freed = files.list.iter_mut().filter_map(|(_, map)| map.take()).count();
        self.maps.remove(freed);
    }
}

impl Drop for ConsumeQueue {
    fn drop(&mut self) {
        self.let_go(true);
    }
}

#[cfg(test)]
mod tests;
