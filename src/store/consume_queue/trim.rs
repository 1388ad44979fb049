//! What takes entries off a queue: expiry, the cut at the log's end, deletion.

use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::super::Error;
use super::super::disk::{self, io_error};
use super::super::format::consume_queue::LEN;
use super::super::format::file_name;
use super::super::segments;
use super::ConsumeQueue;

impl ConsumeQueue {
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

    /// Forgets all entries and deletes their files: recovery makes them again.
    pub fn reset(&self) -> Result<(), Error> {
        self.let_go(true);
        let list = std::mem::take(&mut self.files().list);
        for (base, _) in list {
            disk::remove_file(&self.dir.join(file_name::segment(base)))?;
        }
        for position in [&self.min, &self.max, &self.next, &self.max_physic, &self.flushed] {
            position.store(0, Ordering::Release);
        }
        Ok(())
    }

    /// Nothing is written any more, and no queue offset given. Called under the append lock.
    pub fn retire(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// True from [`Self::retire`] on.
    pub fn is_retired(&self) -> bool {
        self.gone.load(Ordering::Acquire)
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

/// Zeroes what a segment holds behind its last entry: old entries must not come back when the queue has grown again.
pub fn clear_tail(path: &Path, from: u64) -> Result<(), Error> {
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
pub fn partition_point(from: i64, to: i64, is_before: impl Fn(i64) -> bool) -> i64 {
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
