//! One consume queue: entries that say where its records are. Written by the build thread alone, read by everyone.
//!
//! Segments are mapped when they are needed and let go when they are not (see [`super::queues`]): a store may have
//! more queues than a process may have maps. Files stay sparse; space is reserved in small steps ahead of the writer.

use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::watch;

use super::Error;
use super::disk::{self, io_error};
use super::format::consume_queue::{self, Entry, EntryView, LEN};
use super::format::file_name;
use super::queues::Maps;
use super::reader::QueueName;
use super::segments::{self, Segment, SegmentWriter};

/// Space is reserved in steps of this many bytes; a queue's first step is a page.
const RESERVE: usize = 64 * 1024;
/// Most entries that are filled with blanks to keep later ones at their place.
const MOST_BLANKS: i64 = 1 << 20;

/// What became of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Written.
    New,
    /// There already.
    Repeated,
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

    /// Writes the entry of a record with this queue offset. Called by the build thread and by recovery only.
    pub fn push(&self, queue_offset: i64, entry: Entry) -> Result<Pushed, Error> {
        let max = self.max.load(Ordering::Relaxed);
        if self.gone.load(Ordering::Relaxed) || entry.end() <= self.max_physic() || queue_offset < max {
            return Ok(Pushed::Repeated);
        }
        let mut files = self.files();
        // Deleted meanwhile: its directory must not come back.
        if self.gone.load(Ordering::Relaxed) {
            return Ok(Pushed::Repeated);
        }
        let mut at = max;
        if queue_offset > max {
            at = self.skip_to(&mut files, max, queue_offset)?;
        }
        self.write(&mut files, at, entry)?;
        drop(files);
        self.max_physic.store(entry.end(), Ordering::Relaxed);
        self.max.store(at + 1, Ordering::Release);
        // Recovery may find more than the queue had; an append knows better already.
        self.next.fetch_max(at + 1, Ordering::Relaxed);
        Ok(Pushed::New)
    }

    /// Fills the places up to `queue_offset` with blanks, so that the entry keeps its number. Returns where it goes.
    fn skip_to(&self, files: &mut Files, max: i64, queue_offset: i64) -> Result<i64, Error> {
        let per_file = (self.segment_size / LEN as u64) as i64;
        // As in Java: the queue begins with the file that the entry belongs to.
        let first = queue_offset - queue_offset % per_file;
        // The file may be there from an attempt that met a full disk.
        let begins = match files.list.as_slice() {
            [] => true,
            [(base, _)] => max == 0 && *base == first as u64 * LEN as u64,
            _ => false,
        };
        if begins {
            for n in first..queue_offset {
                self.write(files, n, Entry::BLANK)?;
            }
            self.min.store(queue_offset, Ordering::Release);
            self.flushed.store(first, Ordering::Relaxed);
            return Ok(queue_offset);
        }
        let name = &self.name;
        if queue_offset - max > MOST_BLANKS {
            // Java shifts such an entry to the end as well.
            tracing::error!(
                "queue {}@{}: entry {queue_offset} comes after {max}; it is put there",
                name.topic,
                name.queue_id
            );
            return Ok(max);
        }
        tracing::error!(
            "queue {}@{}: entries {max} to {queue_offset} are lost; their places stay blank",
            name.topic,
            name.queue_id
        );
        for n in max..queue_offset {
            self.write(files, n, Entry::BLANK)?;
        }
        Ok(queue_offset)
    }

    fn write(&self, files: &mut Files, n: i64, entry: Entry) -> Result<(), Error> {
        let at = n as u64 * LEN as u64;
        let base = at - at % self.segment_size;
        // A reader may have mapped the segment while this entry was not yet counted: then its mark is too low.
        let is_open = files
            .writer
            .as_ref()
            .is_some_and(|w| w.segment().base() == base && w.at() as u64 == at - base);
        if !is_open {
            self.open_writer(files, base, (at - base) as usize)?;
        }
        let reserved = files.reserved;
        let Some(writer) = files.writer.as_mut() else {
            return Ok(());
        };
        if writer.at() + LEN > reserved {
            let file = segments::open_rw(writer.segment().path())?;
            let step = if writer.at() == 0 { 4096 } else { RESERVE };
            let to = (writer.at() + step).min(writer.segment().len());
            disk::reserve(&file, writer.at() as u64, (to - writer.at()) as u64)
                .map_err(io_error("reserve space for", writer.segment().path()))?;
            files.reserved = to;
        }
        if let Some(slot) = writer.slot(LEN) {
            slot.copy_from_slice(&entry.to_bytes());
            writer.advance(LEN);
        }
        Ok(())
    }

    fn open_writer(&self, files: &mut Files, base: u64, at: usize) -> Result<(), Error> {
        let path = self.dir.join(file_name::segment(base));
        let known = files.list.iter_mut().find(|(b, _)| *b == base);
        let file = if known.is_some() {
            segments::open_rw(&path)?
        } else {
            disk::create_dir(&self.dir)?;
            files.named = true;
            segments::create_rw(&path, self.segment_size, 0)?
        };
        self.maps.make_room();
        let (segment, writer) = Segment::open_write(&path, base, &file, at)?;
        // Else the first entry of each of thousands of queues costs milliseconds, and megabytes of page cache.
        segment.read_singly();
        files.writer = Some(writer);
        files.reserved = 0;
        match files.list.iter_mut().find(|(b, _)| *b == base) {
            Some((_, map)) => {
                if map.replace(segment).is_none() {
                    self.maps.add(1);
                }
            }
            None => {
                files.list.push((base, Some(segment)));
                self.maps.add(1);
            }
        }
        Ok(())
    }

    /// Whose it is.
    pub fn name(&self) -> &QueueName {
        &self.name
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
    fn next_real(&self, mut offset: i64) -> Result<Option<(i64, Entry)>, Error> {
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

    /// Bytes that were written and not flushed.
    pub fn dirty_bytes(&self) -> u64 {
        (self.max() - self.flushed.load(Ordering::Relaxed)).max(0) as u64 * LEN as u64
    }

    /// Flushes what was written so far.
    pub fn flush(&self) -> Result<(), Error> {
        let (max, flushed) = (self.max(), self.flushed.load(Ordering::Relaxed));
        let (from, to) = (flushed as u64 * LEN as u64, max as u64 * LEN as u64);
        let mut files = self.files();
        let named = std::mem::take(&mut files.named);
        // A name stays unflushed until all of this worked.
        let unnamed = || self.files().named |= named;
        let dirty: Vec<_> = files
            .list
            .iter()
            .filter(|(base, _)| base + self.segment_size > from && *base < to)
            .cloned()
            .collect();
        drop(files);
        self.flush_files(dirty, (from, to), named)
            .inspect_err(|_| unnamed())?;
        self.flushed.store(max, Ordering::Relaxed);
        Ok(())
    }

    fn flush_files(
        &self,
        dirty: Vec<(u64, Option<Arc<Segment>>)>,
        (from, to): (u64, u64),
        named: bool,
    ) -> Result<(), Error> {
        for (base, map) in dirty {
            let start = (from.max(base) - base) as usize;
            let end = (to - base).min(self.segment_size) as usize;
            match map {
                Some(segment) => segment.flush(start, end)?,
                None => {
                    // Let go while dirty: its pages are in the cache all the same.
                    let path = self.dir.join(file_name::segment(base));
                    let file = segments::open_rw(&path)?;
                    file.sync_data().map_err(io_error("flush", &path))?;
                }
            }
        }
        if named {
            disk::sync_dir(&self.dir)?;
            // The topic, `consumequeue`, and the root that has its name.
            for parent in self.dir.ancestors().skip(1).take(3) {
                disk::sync_dir(parent)?;
            }
        }
        Ok(())
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

    /// Moves the minimum to the first entry whose record is at or behind `log_start`, and deletes segments that hold
    /// none but the last. Returns how many were deleted.
    pub fn expire(&self, log_start: i64) -> Result<usize, Error> {
        let mut deleted = 0;
        loop {
            let files = self.files();
            let Some((base, _)) = files.list.first().filter(|_| files.list.len() > 1).cloned() else {
                break;
            };
            drop(files);
            // What cannot be read now is no reason to delete it.
            let Some(run) = self.look((base / LEN as u64) as i64)? else {
                break;
            };
            if run.last_real().is_some_and(|entry| entry.offset >= log_start) {
                break;
            }
            let mut files = self.files();
            // The queue may have been deleted meanwhile.
            if files.list.len() < 2 || files.list[0].0 != base {
                break;
            }
            let (base, map) = files.list.remove(0);
            self.maps.remove(usize::from(map.is_some()));
            drop(files);
            disk::remove_file(&self.dir.join(file_name::segment(base)))?;
            deleted += 1;
        }
        self.correct_min(log_start)?;
        Ok(deleted)
    }

    /// Moves the minimum to the first entry whose record is at or behind `log_start`; to the maximum when there is
    /// none, so an emptied queue keeps its number.
    pub fn correct_min(&self, log_start: i64) -> Result<(), Error> {
        let max = self.max();
        let first = self
            .files()
            .list
            .first()
            .map(|(base, _)| (base / LEN as u64) as i64);
        let Some(first) = first else {
            self.min.store(max, Ordering::Release);
            return Ok(());
        };
        let from = self.min.load(Ordering::Relaxed).max(first);
        // A blank is gone with the entry behind it, so that blanks in the middle do not mislead the search.
        let min = try_partition_point(from, max, |offset| {
            let real = self.next_real(offset)?;
            Ok::<_, Error>(real.is_none_or(|(_, entry)| entry.offset < log_start))
        })?;
        let min = self.next_real(min)?.map_or(max, |(n, _)| n);
        self.min.store(min, Ordering::Release);
        Ok(())
    }

    /// Cuts the entries of records at or behind `log_end`. Called by recovery only, before anybody reads.
    pub fn truncate(&self, log_end: i64) -> Result<(), Error> {
        let max = self.max();
        let first = self
            .files()
            .list
            .first()
            .map(|(base, _)| (base / LEN as u64) as i64);
        let Some(first) = first else {
            return Ok(());
        };
        let entry = |offset| Ok::<_, Error>(self.look(offset)?.and_then(|run| run.first()));
        let cut = try_partition_point(first, max, |offset| {
            let kept = entry(offset)?.is_some_and(|entry| entry.is_blank() || entry.offset < log_end);
            Ok::<_, Error>(kept)
        })?;
        if cut == max {
            return Ok(());
        }
        let max_physic = match entry(cut - 1)? {
            Some(last) if cut > first && !last.is_blank() => last.end(),
            _ => log_end,
        };
        self.let_go(true);
        let mut files = self.files();
        let at = cut as u64 * LEN as u64;
        // A queue that had begun later keeps its number in the name of an empty file.
        let keep = |base: u64| base < at || (base == at && base > 0);
        for (base, _) in files.list.iter().filter(|(base, _)| !keep(*base)) {
            disk::remove_file(&self.dir.join(file_name::segment(*base)))?;
        }
        files.list.retain(|(base, _)| keep(*base));
        if let Some((base, _)) = files.list.last() {
            clear_tail(
                &self.dir.join(file_name::segment(*base)),
                at.saturating_sub(*base),
            )?;
        }
        drop(files);
        for (position, value) in [
            (&self.max, cut),
            (&self.next, cut),
            (&self.max_physic, max_physic),
        ] {
            position.store(value, Ordering::Release);
        }
        self.flushed.fetch_min(cut, Ordering::Relaxed);
        Ok(())
    }

    /// Deletes the queue's files; nothing is written any more.
    pub fn delete(&self) -> Result<(), Error> {
        self.gone.store(true, Ordering::Relaxed);
        let mut files = self.files();
        let list = std::mem::take(&mut files.list);
        files.writer = None;
        self.maps
            .remove(list.iter().filter(|(_, map)| map.is_some()).count());
        drop(files);
        for (base, _) in list {
            disk::remove_file(&self.dir.join(file_name::segment(base)))?;
        }
        self.min.store(self.max(), Ordering::Release);
        remove_empty_dir(&self.dir);
        if let Some(topic) = self.dir.parent() {
            remove_empty_dir(topic);
        }
        Ok(())
    }
}

impl Drop for ConsumeQueue {
    fn drop(&mut self) {
        self.let_go(true);
    }
}

/// Zeroes what a segment holds behind its last entry: old entries must not come back when the queue has grown again.
pub(super) fn clear_tail(path: &Path, from: u64) -> Result<(), Error> {
    let file = segments::open_rw(path)?;
    let len = file.metadata().map_err(io_error("inspect", path))?.len();
    let reached = disk::zero_tail(&file, from, len).map_err(io_error("clear", path))?;
    if reached > from {
        // Else a power failure could bring them back behind what is written next.
        file.sync_data().map_err(io_error("flush", path))?;
    }
    Ok(())
}

/// Best effort: what still holds something stays.
fn remove_empty_dir(dir: &Path) {
    let _ = std::fs::remove_dir(dir);
}

/// The first number in `from..to` for which `is_before` does not hold; those for which it holds come first.
pub(super) fn partition_point(from: i64, to: i64, is_before: impl Fn(i64) -> bool) -> i64 {
    match try_partition_point(from, to, |n| Ok::<_, Infallible>(is_before(n))) {
        Ok(found) => found,
        Err(never) => match never {},
    }
}

/// [`partition_point`] with a test that may fail.
fn try_partition_point<E>(from: i64, to: i64, is_before: impl Fn(i64) -> Result<bool, E>) -> Result<i64, E> {
    let (mut low, mut high) = (from, to.max(from));
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(dir: &Path, state: Recovered) -> ConsumeQueue {
        let name = QueueName {
            topic: "t".into(),
            queue_id: 0,
        };
        // Five entries a segment.
        ConsumeQueue::new(name, dir.join("t/0"), 100, Arc::new(Maps::default()), state)
    }

    fn entry(n: i64) -> Entry {
        Entry {
            offset: 1000 + n * 10,
            size: 10,
            tags_code: n,
        }
    }

    #[test]
    fn entries_are_read_back_across_segments_and_after_letting_go() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        for n in 0..12 {
            assert_eq!(queue.push(n, entry(n)).unwrap(), Pushed::New);
        }
        assert_eq!(queue.push(3, entry(3)).unwrap(), Pushed::Repeated);
        assert_eq!((queue.min(), queue.max(), queue.max_physic()), (0, 12, 1120));
        for hard in [false, true] {
            let found: Vec<_> = (0..12).map(|n| queue.entry(n).unwrap().tags_code).collect();
            assert_eq!(found, (0..12).collect::<Vec<_>>());
            assert_eq!(queue.run(3).unwrap().bytes().len(), 2 * LEN);
            assert_eq!(queue.run(10).unwrap().bytes().len(), 2 * LEN);
            assert!(queue.entry(12).is_none() && queue.entry(-1).is_none());
            queue.let_go(hard);
        }
        assert_eq!(queue.maps.count(), 0);
        queue.push(12, entry(12)).unwrap();
        assert_eq!(queue.entry(12).unwrap(), entry(12));
        queue.flush().unwrap();
        assert_eq!(queue.dirty_bytes(), 0);
        assert_eq!(queue.next_segment(7), 10);
    }

    #[test]
    fn a_queue_that_begins_late_is_filled_with_blanks() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        queue.push(7, entry(7)).unwrap();
        assert_eq!((queue.min(), queue.max()), (7, 8));
        assert_eq!(queue.entry(5).unwrap(), Entry::BLANK);
        assert!(queue.entry(4).is_none());
        queue.correct_min(0).unwrap();
        assert_eq!(queue.min(), 7);
        queue.push(9, entry(9)).unwrap();
        assert_eq!(queue.entry(8).unwrap(), Entry::BLANK);
        assert_eq!(queue.entry(9).unwrap(), entry(9));
    }

    #[test]
    fn blanks_in_the_middle_mislead_neither_minimum_nor_expiry() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        queue.push(0, entry(0)).unwrap();
        queue.push(1, entry(1)).unwrap();
        // Entries 2 to 6 are lost, the last three places of the first segment among them.
        queue.push(7, entry(7)).unwrap();
        assert_eq!(queue.expire(1010).unwrap(), 0);
        assert_eq!((queue.min(), queue.max()), (1, 8));
        assert_eq!(queue.expire(1020).unwrap(), 1);
        assert_eq!((queue.min(), queue.max()), (7, 8));
    }

    #[test]
    fn entries_that_cannot_be_read_now_are_neither_deleted_nor_passed_over() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        for n in 0..12 {
            queue.push(n, entry(n)).unwrap();
        }
        queue.let_go(true);
        // Stands for a process that has no descriptor left.
        let (all, away) = (dir.path().join("t/0"), dir.path().join("t/away"));
        std::fs::rename(&all, &away).unwrap();
        assert!(queue.expire(1030).is_err());
        assert!(queue.correct_min(1030).is_err());
        assert!(queue.truncate(1030).is_err());
        std::fs::rename(&away, &all).unwrap();
        assert_eq!((queue.min(), queue.max()), (0, 12));
        assert_eq!(queue.expire(1030).unwrap(), 0);
        assert_eq!((queue.min(), queue.max()), (3, 12));
        assert_eq!(queue.entry(11).unwrap(), entry(11));
    }

    #[test]
    fn a_queue_that_begins_late_begins_again_after_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        // What a disk that filled up at the second blank leaves.
        queue.write(&mut queue.files(), 5, Entry::BLANK).unwrap();
        queue.push(7, entry(7)).unwrap();
        assert_eq!((queue.min(), queue.max()), (7, 8));
        assert_eq!(queue.entry(7).unwrap(), entry(7));
        assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 1);
    }

    #[test]
    fn expiry_keeps_the_last_segment_and_the_number() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        for n in 0..12 {
            queue.push(n, entry(n)).unwrap();
        }
        assert_eq!(queue.expire(1070).unwrap(), 1);
        assert_eq!((queue.min(), queue.max()), (7, 12));
        assert_eq!(queue.expire(5000).unwrap(), 1);
        assert_eq!((queue.min(), queue.max()), (12, 12));
        assert!(queue.entry(11).is_some());
        queue.push(12, entry(500)).unwrap();
        queue.correct_min(5000).unwrap();
        assert_eq!((queue.min(), queue.max()), (12, 13));
    }

    #[test]
    fn a_cut_queue_does_not_see_its_old_entries_again() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        for n in 0..12 {
            queue.push(n, entry(n)).unwrap();
        }
        queue.truncate(1030).unwrap();
        assert_eq!((queue.max(), queue.max_physic()), (3, 1030));
        assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 1);
        queue.push(3, entry(3)).unwrap();
        let bytes = std::fs::read(dir.path().join("t/0").join(file_name::segment(0))).unwrap();
        assert_eq!(bytes[80..], [0; 20]);
        queue.truncate(0).unwrap();
        assert_eq!((queue.min(), queue.max()), (0, 0));
        assert_eq!(std::fs::read_dir(dir.path().join("t/0")).unwrap().count(), 0);
    }

    #[test]
    fn the_bell_tells_of_entries_before_and_after_it_was_hung() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        queue.push(0, entry(0)).unwrap();
        let mut bell = queue.bell();
        assert_eq!(*bell.borrow_and_update(), 1);
        queue.push(1, entry(1)).unwrap();
        queue.ring();
        assert!(bell.has_changed().unwrap());
        assert_eq!(*bell.borrow_and_update(), 2);
    }

    #[test]
    fn a_deleted_queue_leaves_nothing_and_takes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let queue = queue(dir.path(), Recovered::default());
        queue.push(0, entry(0)).unwrap();
        queue.delete().unwrap();
        assert_eq!(queue.push(1, entry(1)).unwrap(), Pushed::Repeated);
        assert!(queue.entry(0).is_none());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
