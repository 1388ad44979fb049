//! The timer log: segments of units, appended to and read backwards along the chains of the slots.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::disk::{self, io_error};
use super::super::format::file_name;
use super::super::format::timer_log::{self, Found, LEN, Unit};
use super::super::{Error, segments};

/// Bytes read at once along a chain.
const WINDOW: u64 = 8 * 1024;
/// Bytes read at once by a scan.
const PIECE: usize = 1024 * 1024;
/// Units at the end of a segment that decide whether its messages are gone.
const LAST_UNITS: u64 = 1000;

/// The timer log.
#[derive(Debug)]
pub struct TimerLog {
    dir: PathBuf,
    segment_size: u64,
    files: VecDeque<(u64, Arc<File>)>,
    /// Position of the next unit.
    end: u64,
    /// Everything below is in the files.
    written: u64,
    /// Units and fillers that are not, with their positions.
    pending: Vec<(u64, Vec<u8>)>,
    /// Files written since they were last flushed.
    dirty: Vec<Arc<File>>,
    window_at: u64,
    window: Vec<u8>,
}

impl TimerLog {
    /// Opens the segments in `dir`. A last one of another size is made whole; any other is an error.
    pub fn open(dir: &Path, segment_size: u64) -> Result<Self, Error> {
        disk::create_dir(dir)?;
        let listing = segments::list(dir)?;
        for stray in &listing.strays {
            tracing::warn!(file = %stray.display(), "not a segment of the timer log; left alone");
        }
        let mut files = VecDeque::new();
        let last = listing.files.last().map(|file| file.base);
        for found in listing.files {
            if found.len != segment_size {
                if Some(found.base) != last || found.len > segment_size {
                    return Err(Error::Size {
                        path: found.path,
                        found: found.len,
                        expected: segment_size,
                        key: "mappedFileSizeTimerLog",
                    });
                }
                tracing::warn!(file = %found.path.display(), bytes = found.len, "the last segment of the timer log is short; it is filled up");
            }
            let file = segments::open_rw(&found.path)?;
            file.set_len(segment_size)
                .map_err(io_error("resize", &found.path))?;
            files.push_back((found.base, Arc::new(file)));
        }
        Ok(Self {
            dir: dir.to_owned(),
            segment_size,
            files,
            end: 0,
            written: 0,
            pending: Vec::new(),
            dirty: Vec::new(),
            window_at: 0,
            window: Vec::new(),
        })
    }

    /// Position of the next unit.
    pub fn end(&self) -> i64 {
        self.end as i64
    }

    /// Bytes of a segment.
    pub fn segment_size(&self) -> u64 {
        self.segment_size
    }

    /// True when everything is in the files.
    pub fn is_written(&self) -> bool {
        self.pending.is_empty()
    }

    /// Adds a unit and returns its position. Nothing is written before [`Self::write_out`].
    pub fn push(&mut self, unit: Unit) -> i64 {
        let in_segment = self.end % self.segment_size;
        if !timer_log::fits(in_segment, self.segment_size) {
            let left = self.segment_size - in_segment;
            self.buffer(&timer_log::blank(i32::try_from(left).unwrap_or(i32::MAX)));
            self.end += left;
        }
        let at = self.end;
        self.buffer(&unit.to_bytes());
        self.end += LEN as u64;
        at as i64
    }

    fn buffer(&mut self, bytes: &[u8]) {
        match self.pending.last_mut() {
            Some((at, run))
                if *at + run.len() as u64 == self.end && !self.end.is_multiple_of(self.segment_size) =>
            {
                run.extend_from_slice(bytes);
            }
            _ => self.pending.push((self.end, bytes.to_vec())),
        }
    }

    /// Writes what was pushed. On failure it stays pushed, to be tried again.
    pub fn write_out(&mut self) -> Result<(), Error> {
        while let Some((at, run)) = self.pending.first() {
            let (at, len) = (*at, run.len() as u64);
            let base = at - at % self.segment_size;
            let file = self.file(base)?;
            let run = &self.pending[0].1;
            file.write_all_at(run, at - base)
                .map_err(io_error("write", &self.dir.join(file_name::segment(base))))?;
            if !self.dirty.iter().any(|known| Arc::ptr_eq(known, &file)) {
                self.dirty.push(file);
            }
            self.written = at + len;
            self.pending.remove(0);
        }
        self.written = self.end;
        Ok(())
    }

    fn file(&mut self, base: u64) -> Result<Arc<File>, Error> {
        if let Some((_, file)) = self.files.iter().rev().find(|(b, _)| *b == base) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(segments::create_rw(
            &self.dir.join(file_name::segment(base)),
            self.segment_size,
            0,
        )?);
        self.files.push_back((base, Arc::clone(&file)));
        disk::sync_dir(&self.dir)?;
        Ok(file)
    }

    /// Files written since the last call; they are to be flushed by the caller, outside any lock.
    pub fn take_dirty(&mut self) -> Vec<Arc<File>> {
        std::mem::take(&mut self.dirty)
    }

    /// Gives files back whose flush failed.
    pub fn give_back(&mut self, files: Vec<Arc<File>>) {
        self.dirty.extend(files);
    }

    /// The unit at a position, if one is there.
    pub fn read(&mut self, at: i64) -> Option<Unit> {
        let at = u64::try_from(at)
            .ok()
            .filter(|at| at + LEN as u64 <= self.written)?;
        let end = at + LEN as u64;
        if at < self.window_at || end > self.window_at + self.window.len() as u64 {
            let base = at - at % self.segment_size;
            let (_, file) = self.files.iter().find(|(b, _)| *b == base)?;
            // A chain runs backwards.
            let from = end.saturating_sub(WINDOW).max(base);
            self.window.resize((end - from) as usize, 0);
            self.window_at = from;
            if let Err(e) = file.read_exact_at(&mut self.window, from - base) {
                tracing::error!(position = at, error = %e, "the timer log cannot be read");
                self.window.clear();
                return None;
            }
        }
        match timer_log::read(&self.window[(at - self.window_at) as usize..]) {
            Found::Unit(unit) => Some(unit),
            _ => None,
        }
    }

    /// Walks all units from the begin of the segment that `from` lies in, and returns where they end.
    pub fn scan(&self, from: i64, mut each: impl FnMut(i64, &Unit)) -> Result<i64, Error> {
        let from = u64::try_from(from).unwrap_or(0);
        let Some(&(first, _)) = self.files.front() else {
            return Ok(0);
        };
        let begin = self
            .files
            .iter()
            .map(|(base, _)| *base)
            .filter(|base| *base <= from)
            .max()
            .unwrap_or(first);
        let mut next = begin;
        let mut piece = vec![0; PIECE.min(self.segment_size as usize)];
        for (base, file) in self.files.iter().filter(|(base, _)| *base >= begin) {
            if *base != next {
                tracing::error!(position = next, "a segment of the timer log is missing");
                return Ok(next as i64);
            }
            let mut at = 0;
            'segment: while at < self.segment_size {
                let len = piece.len().min((self.segment_size - at) as usize);
                let read = disk::read_at_most(file, &mut piece[..len], at)
                    .map_err(io_error("read", &self.dir.join(file_name::segment(*base))))?;
                let bytes = &piece[..read];
                let mut in_piece = 0;
                while in_piece < bytes.len() {
                    // A unit that the piece cuts is read with the next one.
                    if bytes.len() - in_piece < LEN && at + (bytes.len() as u64) < self.segment_size {
                        break;
                    }
                    let position = base + at + in_piece as u64;
                    if bytes.len() - in_piece < timer_log::BLANK_LEN {
                        return Ok(position as i64);
                    }
                    match timer_log::read(&bytes[in_piece..]) {
                        Found::Unit(unit) => each(position as i64, &unit),
                        Found::Blank => break 'segment,
                        Found::Other { .. } => return Ok(position as i64),
                    }
                    in_piece += LEN;
                }
                if in_piece == 0 {
                    return Ok((base + at) as i64);
                }
                at += in_piece as u64;
            }
            next = base + self.segment_size;
        }
        Ok(next as i64)
    }

    /// Ends the log at a position: what lies behind is deleted, so that nobody takes it for units.
    pub fn cut(&mut self, end: i64) -> Result<(), Error> {
        let end = u64::try_from(end).unwrap_or(0);
        while let Some((base, _)) = self.files.back().filter(|(base, _)| *base > end) {
            let path = self.dir.join(file_name::segment(*base));
            disk::remove_file(&path)?;
            self.files.pop_back();
        }
        if let Some((base, file)) = self.files.back()
            && end < base + self.segment_size
        {
            let path = self.dir.join(file_name::segment(*base));
            disk::zero_tail(file, end - base, self.segment_size).map_err(io_error("clear", &path))?;
        }
        // A segment that begins where the log ends is empty.
        self.end = end;
        self.written = end;
        self.pending.clear();
        self.window.clear();
        Ok(())
    }

    /// Goes on in a new segment and returns its begin. The old ones stay until [`Self::drop_before`].
    pub fn begin_segment(&mut self) -> i64 {
        if !self.end.is_multiple_of(self.segment_size) {
            let left = self.segment_size - self.end % self.segment_size;
            if left >= timer_log::BLANK_LEN as u64 {
                self.buffer(&timer_log::blank(i32::try_from(left).unwrap_or(i32::MAX)));
            }
            self.end += left;
        }
        self.end as i64
    }

    /// Deletes the segments that end at or before a position.
    pub fn drop_before(&mut self, position: i64) -> Result<(), Error> {
        let position = u64::try_from(position).unwrap_or(0);
        while let Some((base, _)) = self
            .files
            .front()
            .filter(|(base, _)| base + self.segment_size <= position)
        {
            disk::remove_file(&self.dir.join(file_name::segment(*base)))?;
            self.files.pop_front();
        }
        Ok(())
    }

    /// Deletes segments whose messages are gone: the commit log begins at `log_start`.
    pub fn expire(&mut self, log_start: i64) -> Result<(), Error> {
        while self.files.len() > 1 {
            let Some((base, file)) = self.files.front() else {
                break;
            };
            let units = (self.segment_size.saturating_sub(timer_log::BLANK_LEN as u64)) / LEN as u64;
            let from = units.saturating_sub(LAST_UNITS);
            let mut bytes = vec![0; ((units - from) * LEN as u64) as usize];
            let path = self.dir.join(file_name::segment(*base));
            disk::read_at_most(file, &mut bytes, from * LEN as u64).map_err(io_error("read", &path))?;
            let is_gone = |unit: &[u8]| match timer_log::read(unit) {
                Found::Unit(unit) => unit.offset < log_start,
                _ => true,
            };
            if !bytes.chunks(LEN).all(is_gone) {
                break;
            }
            disk::remove_file(&path)?;
            self.files.pop_front();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::format::timer_log::DEFAULT;

    fn unit(n: i64, previous: i64) -> Unit {
        Unit {
            previous,
            magic: DEFAULT,
            write_time: 1000,
            delay_ms: 5000,
            offset: n,
            record_size: 100,
            topic_hash: 7,
            reserved: 0,
        }
    }

    #[test]
    fn units_span_segments_and_read_back_along_their_chain() {
        let dir = tempfile::tempdir().unwrap();
        // 20 units and a filler, as in the golden store.
        let mut log = TimerLog::open(dir.path(), 1072).unwrap();
        let mut previous = -1;
        for n in 0..50 {
            previous = log.push(unit(n, previous));
        }
        assert!(log.read(previous).is_none(), "not before it is written");
        log.write_out().unwrap();
        // The 21st begins the second segment.
        assert_eq!(previous, 2 * 1072 + 9 * 52);
        let mut at = previous;
        for n in (0..50).rev() {
            let found = log.read(at).unwrap();
            assert_eq!(found.offset, n);
            at = found.previous;
        }
        assert_eq!(at, -1);
        drop(log);

        let mut log = TimerLog::open(dir.path(), 1072).unwrap();
        let mut seen = Vec::new();
        let end = log.scan(1100, |_, unit| seen.push(unit.offset)).unwrap();
        assert_eq!(end, 2 * 1072 + 10 * 52);
        assert_eq!(
            seen,
            (20..50).collect::<Vec<_>>(),
            "from the begin of its segment on"
        );
        log.cut(1072 + 52).unwrap();
        assert_eq!(log.push(unit(99, -1)), 1072 + 52);
        log.write_out().unwrap();
        let mut seen = Vec::new();
        log.scan(0, |_, unit| seen.push(unit.offset)).unwrap();
        assert_eq!(
            seen.split_off(20),
            [20, 99],
            "what was cut off does not come back"
        );
        log.expire(20).unwrap();
        assert_eq!(log.files.len(), 1, "all of the first segment is below 20");
    }

    #[test]
    fn only_a_last_segment_may_be_short() {
        let dir = tempfile::tempdir().unwrap();
        let cut = |base: u64, len| {
            let path = dir.path().join(file_name::segment(base));
            std::fs::OpenOptions::new()
                .write(true)
                .open(path)
                .unwrap()
                .set_len(len)
                .unwrap();
        };
        for len in [1071, 100, 1, 0] {
            let mut log = TimerLog::open(dir.path(), 1072).unwrap();
            log.cut(0).unwrap();
            (0..25).for_each(|n| {
                log.push(unit(n, -1));
            });
            log.write_out().unwrap();
            drop(log);
            cut(1072, len);
            let log = TimerLog::open(dir.path(), 1072).unwrap();
            let mut count = 0;
            let end = log.scan(0, |_, _| count += 1).unwrap();
            // The last 8 of a unit's 52 bytes are reserved zeros, which a cut does not harm.
            let whole = ((len + 8) / 52).min(5) as i64;
            assert_eq!((count, end), (20 + whole, 1072 + 52 * whole), "{len}");
        }
        cut(0, 100);
        let refused = TimerLog::open(dir.path(), 1072).unwrap_err();
        assert!(
            refused.to_string().contains("mappedFileSizeTimerLog says 1072"),
            "{refused}"
        );
    }
}
