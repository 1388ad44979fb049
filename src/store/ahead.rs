//! Prepares the commit log ahead of its writer: makes the next segment, with its space really reserved, and touches
//! the pages behind the write position, so that an append meets neither a full disk nor a page fault.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Error;
use super::disk;
use super::format::file_name;
use super::segments::{self, Segment, SegmentWriter};

/// Pages are made present in steps of this many bytes, one or two steps ahead of the writer.
pub const STEP: usize = 4 * 1024 * 1024;
/// How long appends wait for a segment before they are refused as busy, all of them together. Java waits five seconds
/// for each, under its lock.
pub const PATIENCE: Duration = Duration::from_secs(1);
/// One call to the kernel touches at most this much, so that a stop is not kept waiting.
const CALL: usize = 1024 * 1024;

/// A segment that nothing was written to yet.
#[derive(Debug)]
pub struct Fresh {
    /// The mapped file.
    pub segment: Arc<Segment>,
    /// Its writer.
    pub writer: SegmentWriter,
}

/// What became of the wish for a segment.
#[derive(Debug)]
pub enum Taken {
    /// Here it is.
    Ready(Fresh),
    /// It could not be made; the next wish tries again.
    Failed(String),
    /// It is in the making.
    Pending,
}

#[derive(Debug, Default)]
enum Next {
    #[default]
    Nothing,
    Wanted(u64),
    Making,
    Ready(Fresh),
    Failed(String),
}

#[derive(Debug, Default)]
struct State {
    next: Next,
    /// Pages to touch: a segment and a range of it.
    touch: Option<(Arc<Segment>, usize, usize)>,
    stopped: bool,
}

/// Work for the thread that runs ahead, and what it has ready.
#[derive(Debug)]
pub struct Ahead {
    dir: PathBuf,
    size: u64,
    state: Mutex<State>,
    changed: Condvar,
}

impl Ahead {
    /// For segments of `size` bytes in `dir`.
    pub fn new(dir: PathBuf, size: u64) -> Self {
        Self {
            dir,
            size,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the segment at `base`, unless one is there or in the making.
    pub fn want(&self, base: u64) {
        let mut state = self.state();
        if matches!(state.next, Next::Nothing | Next::Failed(_)) {
            state.next = Next::Wanted(base);
            self.changed.notify_all();
        }
    }

    /// Asks for the pages of a range to be touched.
    pub fn touch(&self, segment: &Arc<Segment>, from: usize, to: usize) {
        self.state().touch = Some((Arc::clone(segment), from, to));
        self.changed.notify_all();
    }

    /// Takes the segment at `base` if it is ready; else asks for it.
    pub fn take(&self, base: u64) -> Taken {
        let mut state = self.state();
        match std::mem::take(&mut state.next) {
            Next::Ready(fresh) if fresh.segment.base() == base => Taken::Ready(fresh),
            Next::Failed(reason) => Taken::Failed(reason),
            Next::Ready(other) => Taken::Failed(format!(
                "{} was prepared instead of the segment at {base}",
                other.segment.path().display()
            )),
            Next::Nothing => {
                state.next = Next::Wanted(base);
                self.changed.notify_all();
                Taken::Pending
            }
            unfinished => {
                state.next = unfinished;
                Taken::Pending
            }
        }
    }

    /// True while a segment is in the making.
    pub fn is_busy(&self) -> bool {
        matches!(self.state().next, Next::Wanted(_) | Next::Making)
    }

    /// Waits until a segment that was asked for is made or cannot be; false when it takes longer than `patience`.
    pub fn wait(&self, base: u64, patience: Duration) -> bool {
        let waiting = |state: &mut State| {
            let unfinished = match state.next {
                Next::Wanted(wanted) => wanted == base,
                Next::Making => true,
                _ => false,
            };
            !state.stopped && unfinished
        };
        let (state, waited) = self
            .changed
            .wait_timeout_while(self.state(), patience, waiting)
            .unwrap_or_else(PoisonError::into_inner);
        !state.stopped && !waited.timed_out()
    }

    /// Body of the thread.
    pub fn run(&self) {
        let mut state = self.state();
        while !state.stopped {
            if let Next::Wanted(base) = state.next {
                state.next = Next::Making;
                drop(state);
                let made = create(&self.dir, base, self.size).inspect_err(|e| {
                    tracing::warn!("a commit log segment cannot be made: {e}; tried again when it is needed")
                });
                state = self.state();
                state.next = match made {
                    Ok(fresh) => Next::Ready(fresh),
                    Err(e) => Next::Failed(e.to_string()),
                };
                self.changed.notify_all();
            } else if let Some((segment, from, to)) = state.touch.take() {
                let until = to.min(from + CALL);
                if until < to {
                    state.touch = Some((Arc::clone(&segment), until, to));
                }
                drop(state);
                segment.populate(from, until);
                state = self.state();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Ends the thread.
    pub fn stop(&self) {
        self.state().stopped = true;
        self.changed.notify_all();
    }

    /// Deletes the segment that was made for nothing, when the store closes.
    pub fn discard(&self) -> Result<(), Error> {
        match std::mem::take(&mut self.state().next) {
            Next::Ready(fresh) => disk::remove_file(fresh.segment.path()),
            _ => Ok(()),
        }
    }
}

/// Makes a segment, its space reserved and its name durable.
pub fn create(dir: &Path, base: u64, size: u64) -> Result<Fresh, Error> {
    let path = dir.join(file_name::segment(base));
    let file: File = segments::create_rw(&path, size, size)?;
    file.sync_all().map_err(disk::io_error("flush", &path))?;
    disk::sync_dir(dir)?;
    let (segment, writer) = Segment::open_write(&path, base, &file, 0)?;
    segment.populate(0, CALL);
    Ok(Fresh { segment, writer })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_is_ready_when_it_is_taken_and_discarded_when_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let ahead = Arc::new(Ahead::new(dir.path().to_owned(), 65_536));
        let thread = {
            let ahead = Arc::clone(&ahead);
            std::thread::spawn(move || ahead.run())
        };
        let take = |base| loop {
            match ahead.take(base) {
                Taken::Ready(fresh) => break fresh,
                Taken::Failed(reason) => panic!("{reason}"),
                Taken::Pending => assert!(ahead.wait(base, Duration::from_secs(10))),
            }
        };
        ahead.want(65_536);
        let fresh = take(65_536);
        assert_eq!((fresh.segment.base(), fresh.segment.len()), (65_536, 65_536));
        ahead.touch(&fresh.segment, 0, 65_536);
        let next = take(131_072);
        ahead.want(196_608);
        drop(next);
        // Whether or not the last one is made by now, nothing but what was taken remains after the discard.
        ahead.stop();
        thread.join().unwrap();
        ahead.discard().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_segment_that_cannot_be_made_is_an_error_each_time() {
        let ahead = Arc::new(Ahead::new("/no/such/dir".into(), 4096));
        let thread = {
            let ahead = Arc::clone(&ahead);
            std::thread::spawn(move || ahead.run())
        };
        for _ in 0..2 {
            assert!(matches!(ahead.take(0), Taken::Pending));
            assert!(ahead.wait(0, Duration::from_secs(10)));
            assert!(matches!(ahead.take(0), Taken::Failed(reason) if reason.contains("/no/such/dir")));
        }
        ahead.stop();
        thread.join().unwrap();
    }
}
