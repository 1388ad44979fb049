//! What the store's threads and its callers share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use super::batch_queues::BatchQueues;
use super::build::Build;
use super::commit_log::CommitLog;
use super::deleted::DeletedTopics;
use super::flush::{CheckpointFile, Flush};
use super::health::Health;
use super::index::{Index, IndexFile};
use super::lock::StoreLock;
use super::queues::ConsumeQueues;
use super::segments::LogBytes;
use super::wake::{Stop, Waker};
use super::{FlushDiskType, StoreConfig, disk};

/// The parts of an open store.
#[derive(Debug)]
pub struct Shared {
    pub(super) config: ArcSwap<StoreConfig>,
    /// [`FlushDiskType::SyncFlush`], where every append looks.
    sync: AtomicBool,
    pub(super) health: Health,
    pub(super) stop: Stop,
    pub(super) log: CommitLog,
    pub(super) queues: ConsumeQueues,
    pub(super) batches: BatchQueues,
    pub(super) index: Index,
    pub(super) deleted: DeletedTopics,
    pub(super) checkpoint: CheckpointFile,
    pub(super) flush: Flush,
    pub(super) build: Build,
    pub(super) queue_flush: Waker,
    /// Rounds of cleaning that an operator has asked for and that are still to come.
    pub(super) manual_rounds: AtomicU32,
    /// Index files that became full and wait to be flushed.
    full_index: Mutex<Vec<Arc<IndexFile>>>,
    pub(super) ram_bytes: u64,
    /// What lies behind was written in this run.
    pub(super) opened_at: u64,
    /// Given back by a clean stop before the last reader is gone.
    pub(super) lock: Mutex<Option<StoreLock>>,
}

/// What recovery hands over.
#[derive(Debug)]
pub struct Parts {
    pub config: StoreConfig,
    pub log: CommitLog,
    pub queues: ConsumeQueues,
    pub batches: BatchQueues,
    pub index: Index,
    pub deleted: DeletedTopics,
    pub checkpoint: CheckpointFile,
    pub lock: StoreLock,
    pub full_index: Vec<Arc<IndexFile>>,
}

impl Shared {
    /// A store at rest: everything in the log is flushed and built.
    pub fn new(parts: Parts) -> Self {
        let (end, timestamp) = parts.log.tail();
        Self {
            sync: AtomicBool::new(parts.config.flush_disk_type == FlushDiskType::SyncFlush),
            config: ArcSwap::from_pointee(parts.config),
            health: Health::default(),
            stop: Stop::default(),
            log: parts.log,
            queues: parts.queues,
            batches: parts.batches,
            index: parts.index,
            deleted: parts.deleted,
            checkpoint: parts.checkpoint,
            flush: Flush::new(end),
            build: Build::new(end, timestamp),
            queue_flush: Waker::default(),
            manual_rounds: AtomicU32::new(0),
            full_index: Mutex::new(parts.full_index),
            ram_bytes: disk::ram_bytes(),
            opened_at: end,
            lock: Mutex::new(Some(parts.lock)),
        }
    }

    /// True under SYNC_FLUSH.
    pub fn is_sync(&self) -> bool {
        self.sync.load(Ordering::Relaxed)
    }

    /// Takes over another configuration.
    pub fn reconfigure(&self, config: StoreConfig) {
        let sync = config.flush_disk_type == FlushDiskType::SyncFlush;
        self.config.store(Arc::new(config));
        self.sync.store(sync, Ordering::SeqCst);
        self.flush.waker.wake();
        self.build.waker.wake();
    }

    /// Up to where consumers may see the log: under SYNC_FLUSH only what is on the disk, so that no consumer commits
    /// an offset that a crash gives to another message.
    pub fn visible_end(&self) -> u64 {
        if self.is_sync() {
            self.flush.flushed().to
        } else {
            self.log.segments().end()
        }
    }

    /// Wakes who waits for new records.
    pub fn appended(&self) {
        if self.is_sync() {
            self.flush.waker.wake();
        } else {
            self.build.waker.wake();
        }
    }

    /// Notes index files that became full, for the thread that flushes them.
    pub fn full_index_files(&self, files: impl IntoIterator<Item = Arc<IndexFile>>) {
        let mut files = files.into_iter().peekable();
        if files.peek().is_some() {
            self.full_index
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .extend(files);
        }
    }

    /// The index files that became full since the last call.
    pub fn take_full_index_files(&self) -> Vec<Arc<IndexFile>> {
        std::mem::take(&mut *self.full_index.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Ends all threads, soon.
    pub fn stop_threads(&self) {
        self.stop.stop();
        self.log.ahead().stop();
        self.build.waker.wake();
        self.flush.waker.wake();
        self.queue_flush.wake();
    }
}
