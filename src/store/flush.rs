//! Flushing: the commit log by interval or, under SYNC_FLUSH, at once for all who wait; queues, index and checkpoint
//! behind it.
//!
//! A flush that fails is final. What the failed write-back took with it is unknown, so the position stays, everyone
//! who waits is told, and the store takes no more writes, even if a later flush would succeed.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::Error;
use super::disk::io_error;
use super::format::checkpoint::{self, Checkpoint};
use super::health::Block;
use super::segments::{self, LogBytes};
use super::shared::Shared;
use super::wake::Waker;

const PAGE: u64 = 4096;
/// No more dirty queues than these are flushed each time, however few bytes they have: it keeps the checkpoint young
/// and the start after a crash short.
const FEW_QUEUES: usize = 32;
/// How often maps are looked at while there is nothing to flush.
const IDLE: Duration = Duration::from_secs(30);
/// Errors of a write-back that mean lost pages: EIO, ENOSPC, EROFS, EDQUOT.
const LOST: [i32; 4] = [5, 28, 30, 122];

/// How far the log is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flushed {
    /// Everything below is flushed.
    pub to: u64,
    /// Nothing above ever will be.
    pub failed: bool,
}

/// The flushed position, for those who wait on it.
#[derive(Debug)]
pub struct Flush {
    state: watch::Sender<Flushed>,
    pub(super) waker: Waker,
}

impl Flush {
    /// Everything that recovery found counts as flushed.
    pub fn new(to: u64) -> Self {
        Self {
            state: watch::Sender::new(Flushed { to, failed: false }),
            waker: Waker::default(),
        }
    }

    /// The position now.
    pub fn flushed(&self) -> Flushed {
        *self.state.borrow()
    }

    /// Follows the position.
    pub fn follow(&self) -> watch::Receiver<Flushed> {
        self.state.subscribe()
    }

    /// Flushes up to `to` by `sync(from, to)`, unless an earlier flush failed.
    pub fn flush_to(&self, to: u64, sync: impl FnOnce(u64, u64) -> Result<(), Error>) -> Result<(), Error> {
        let now = self.flushed();
        if now.failed || to <= now.to {
            return Ok(());
        }
        let synced = sync(now.to, to);
        self.state.send_modify(|state| match synced {
            Ok(()) => state.to = to,
            Err(_) => state.failed = true,
        });
        synced
    }
}

/// Flushes the whole log; true when it is on the disk.
pub fn flush_log(shared: &Shared) -> bool {
    let (end, timestamp) = shared.log.tail();
    match shared.flush.flush_to(end, |from, to| shared.log.flush(from, to)) {
        Ok(()) if !shared.flush.flushed().failed => {
            shared
                .checkpoint
                .update(|c| c.physic_msg_timestamp = c.physic_msg_timestamp.max(timestamp));
            true
        }
        Ok(()) => false,
        Err(e) => {
            tracing::error!("{e}; the store takes no more writes: stop the broker and check the disk");
            shared
                .health
                .block(Block::FlushFailed, format!("flush failed: {e}"));
            false
        }
    }
}

/// Body of the thread that flushes the commit log.
pub fn run(shared: &Shared) {
    let mut thorough = Instant::now();
    while !shared.stop.is_stopped() {
        let config = shared.config.load();
        let (end, flushed) = (shared.log.segments().end(), shared.flush.flushed());
        if end <= flushed.to || flushed.failed {
            let idle =
                || shared.stop.is_stopped() || (!flushed.failed && shared.log.segments().end() > flushed.to);
            shared.flush.waker.park(None, idle);
            continue;
        }
        if shared.is_sync() {
            if flush_log(shared) {
                shared.build.waker.wake();
            }
            continue;
        }
        // Interval from the first dirty byte: an idle store has none and sleeps above.
        if shared
            .stop
            .sleep(Duration::from_millis(config.flush_interval_commit_log))
        {
            break;
        }
        let end = shared.log.segments().end();
        let pages = end / PAGE - flushed.to / PAGE;
        let segment = shared.log.segment_size();
        let is_late = thorough.elapsed() >= Duration::from_millis(config.flush_commit_log_thorough_interval);
        if is_late || pages >= config.flush_commit_log_least_pages || end / segment > flushed.to / segment {
            flush_log(shared);
            thorough = Instant::now();
        }
    }
}

/// Body of the thread that flushes queues, full index files and the checkpoint.
pub fn run_queues(shared: &Shared) {
    let mut thorough = Instant::now();
    while !shared.stop.is_stopped() {
        let config = shared.config.load_full();
        let nothing_to_do = || {
            shared.build.timestamp() <= shared.checkpoint.get().logics_msg_timestamp
                && !shared.checkpoint.is_dirty()
        };
        if nothing_to_do() {
            // Readers make maps as well, so a round of letting go comes now and then without new records.
            shared
                .queue_flush
                .park(Some(IDLE), || shared.stop.is_stopped() || !nothing_to_do());
            if shared.stop.is_stopped() {
                break;
            }
        }
        if shared
            .stop
            .sleep(Duration::from_millis(config.flush_interval_consume_queue))
        {
            break;
        }
        let is_late =
            thorough.elapsed() >= Duration::from_millis(config.flush_consume_queue_thorough_interval);
        let least = if is_late {
            1
        } else {
            config.flush_consume_queue_least_pages * PAGE
        };
        match flush_queues(shared, least, is_late) {
            Ok(()) if is_late => thorough = Instant::now(),
            Ok(()) => {}
            Err(e) => queue_flush_failed(shared, &e),
        }
        shared.queues.let_go();
    }
}

/// What a failed write-back of queues or index took with it is unknown, and a second try would find nothing to do and
/// succeed. So it is as final as that of the log; a failure to begin with it is not.
pub fn queue_flush_failed(shared: &Shared, e: &Error) {
    let is_lost = matches!(e, Error::Io { what: "flush", source, .. }
        if source.raw_os_error().is_some_and(|code| LOST.contains(&code)));
    if is_lost
        && shared
            .health
            .block(Block::FlushFailed, format!("flush failed: {e}"))
    {
        tracing::error!("{e}; the store takes no more writes: stop the broker and check the disk");
    } else {
        tracing::error!("{e}");
    }
}

/// Flushes queues with at least `least` dirty bytes, or all when asked for or when they are few; then full index files
/// and the checkpoint. When all queues are flushed the checkpoint says so.
pub fn flush_queues(shared: &Shared, least: u64, all: bool) -> Result<(), Error> {
    // Java moves this time with each entry in memory. Here it moves when the entries are on the disk, so that a power
    // failure cannot leave a queue short of entries that recovery does not replay.
    let timestamp = shared.build.timestamp();
    if shared.health.has(Block::FlushFailed) {
        // The checkpoint must not vouch for anything any more.
        return Ok(());
    }
    let mut dirty = shared.queues.all();
    dirty.retain(|queue| queue.dirty_bytes() > 0);
    let all = all || dirty.len() <= FEW_QUEUES;
    if !all {
        dirty.retain(|queue| queue.dirty_bytes() >= least);
    }
    shared.queues.flush(&dirty)?;
    if all {
        shared
            .checkpoint
            .update(|c| c.logics_msg_timestamp = c.logics_msg_timestamp.max(timestamp));
    }
    let mut full = shared.take_full_index_files().into_iter();
    while let Some(file) = full.next() {
        let timestamp = file.flush().inspect_err(|_| {
            // The next round begins with the same one, or its time would be vouched for unflushed.
            shared.full_index_files(std::iter::once(Arc::clone(&file)).chain(full.by_ref()));
        })?;
        shared
            .checkpoint
            .update(|c| c.index_msg_timestamp = c.index_msg_timestamp.max(timestamp));
    }
    shared.checkpoint.write()
}

/// The checkpoint file.
#[derive(Debug)]
pub struct CheckpointFile {
    path: PathBuf,
    file: File,
    /// What is, and what is in the file.
    values: Mutex<(Checkpoint, Checkpoint)>,
}

impl CheckpointFile {
    /// Opens or creates the file.
    pub fn open(root: &Path) -> Result<Self, Error> {
        let path = root.join("checkpoint");
        let file = if path.exists() {
            segments::open_rw(&path)?
        } else {
            segments::create_rw(&path, checkpoint::LEN as u64, checkpoint::LEN as u64)?
        };
        let mut bytes = [0; checkpoint::USED];
        super::disk::read_at_most(&file, &mut bytes, 0).map_err(io_error("read", &path))?;
        let values = Checkpoint::parse(&bytes);
        let len = file.metadata().map_err(io_error("inspect", &path))?.len();
        if len < checkpoint::LEN as u64 {
            file.set_len(checkpoint::LEN as u64)
                .map_err(io_error("extend", &path))?;
        }
        Ok(Self {
            path,
            file,
            values: Mutex::new((values, values)),
        })
    }

    /// The values.
    pub fn get(&self) -> Checkpoint {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Changes the values; [`Self::write`] stores them.
    pub fn update(&self, change: impl FnOnce(&mut Checkpoint)) {
        change(&mut self.values.lock().unwrap_or_else(PoisonError::into_inner).0);
    }

    /// Makes the next start after a crash look at the whole log: queues are about to be changed that this time vouches
    /// for. It comes back when all of them are flushed.
    pub fn distrust_queues(&self) -> Result<(), Error> {
        self.update(|c| c.logics_msg_timestamp = 0);
        self.write()
    }

    /// True when the file has other values.
    pub fn is_dirty(&self) -> bool {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.0 != values.1
    }

    /// Writes and flushes the file if anything changed.
    pub fn write(&self) -> Result<(), Error> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if values.0 == values.1 {
            return Ok(());
        }
        self.file
            .write_all_at(&values.0.to_bytes(), 0)
            .and_then(|()| self.file.sync_data())
            .map_err(io_error("write", &self.path))?;
        values.1 = values.0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken() -> Result<(), Error> {
        Err(Error::Io {
            what: "flush",
            path: "log".into(),
            source: std::io::Error::from_raw_os_error(5),
        })
    }

    #[test]
    fn a_failed_flush_never_moves_the_position_not_even_later() {
        let flush = Flush::new(10);
        let mut seen = flush.follow();
        flush
            .flush_to(20, |from, to| {
                assert_eq!((from, to), (10, 20));
                Ok(())
            })
            .unwrap();
        assert_eq!(seen.borrow_and_update().to, 20);
        assert!(flush.flush_to(30, |_, _| broken()).is_err());
        assert_eq!(*seen.borrow_and_update(), Flushed { to: 20, failed: true });
        flush
            .flush_to(30, |_, _| panic!("no second try after a failure"))
            .unwrap();
        assert_eq!(flush.flushed().to, 20);
    }

    #[test]
    fn the_checkpoint_file_has_a_page_and_keeps_its_values() {
        let dir = tempfile::tempdir().unwrap();
        let file = CheckpointFile::open(dir.path()).unwrap();
        assert_eq!(file.get(), Checkpoint::default());
        file.update(|c| c.physic_msg_timestamp = 7);
        assert!(file.is_dirty());
        file.write().unwrap();
        assert!(!file.is_dirty());
        let again = CheckpointFile::open(dir.path()).unwrap();
        assert_eq!(again.get().physic_msg_timestamp, 7);
        assert_eq!(
            std::fs::metadata(dir.path().join("checkpoint")).unwrap().len(),
            4096
        );
    }
}
