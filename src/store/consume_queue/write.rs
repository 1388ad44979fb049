//! Writing a queue: entries of new records, entries that recovery finds missing or wrong, and their way to the disk.

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::Error;
use super::super::disk::{self, io_error};
use super::super::format::consume_queue::{Entry, LEN};
use super::super::format::file_name;
use super::super::segments::{self, Segment};
use super::{ConsumeQueue, Files, Pushed, Replayed};

/// Space is reserved in steps of this many bytes; a queue's first step is a page.
const RESERVE: usize = 64 * 1024;
/// Most entries that are filled with blanks to keep later ones at their place.
const MOST_BLANKS: i64 = 1 << 20;

impl ConsumeQueue {
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

    /// Compares a record with its queue and writes what is not there. Called by recovery only. Entries that would
    /// leave places empty are not written but told, unless `fill` says that the records of those places are gone;
    /// one in its place that is not `is_right` is written again.
    pub fn replay(
        &self,
        queue_offset: i64,
        entry: Entry,
        fill: bool,
        is_right: impl FnOnce(Entry) -> bool,
    ) -> Result<Replayed, Error> {
        let max = self.max.load(Ordering::Relaxed);
        if queue_offset >= max {
            if queue_offset > max && entry.end() > self.max_physic() && !fill {
                return Ok(Replayed::Missing { from_start: false });
            }
            return Ok(match self.push(queue_offset, entry)? {
                Pushed::New => Replayed::Written,
                Pushed::Repeated => Replayed::Known,
            });
        }
        match self.look(queue_offset)?.and_then(|run| run.first()) {
            Some(found) if found == entry => Ok(Replayed::Known),
            Some(found) if !found.is_blank() && found.is_written() && is_right(found) => Ok(Replayed::Known),
            Some(_) => {
                self.mend(queue_offset, entry)?;
                Ok(Replayed::Mended)
            }
            // Its file is gone.
            None if fill => Ok(Replayed::Known),
            None => Ok(Replayed::Missing { from_start: true }),
        }
    }

    /// Writes an entry in the place of one that is there.
    fn mend(&self, queue_offset: i64, entry: Entry) -> Result<(), Error> {
        let at = queue_offset as u64 * LEN as u64;
        let base = at - at % self.segment_size;
        let path = self.dir.join(file_name::segment(base));
        segments::open_rw(&path)?
            .write_all_at(&entry.to_bytes(), at - base)
            .map_err(io_error("write", &path))?;
        self.flushed.fetch_min(queue_offset, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the next append get a queue offset behind this one, though its entry could not be written yet.
    pub fn note(&self, queue_offset: i64) {
        // A number that is far from all others is damaged, and no reason to lose the queue's range to it.
        if queue_offset - self.next.load(Ordering::Relaxed) <= MOST_BLANKS || self.max() == 0 {
            self.next.fetch_max(queue_offset + 1, Ordering::Relaxed);
        }
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

    pub(super) fn write(&self, files: &mut Files, n: i64, entry: Entry) -> Result<(), Error> {
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

    pub(super) fn open_writer(&self, files: &mut Files, base: u64, at: usize) -> Result<(), Error> {
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
}
