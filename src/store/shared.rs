//! What the store's threads and its callers share.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arc_swap::ArcSwap;

use super::batch_queues::BatchQueues;
use super::build::Build;
use super::clean::Lost;
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

/// Called with records that were deleted before their time.
pub type Told = Box<dyn Fn(&[Lost]) + Send + Sync>;

/// Who wants to know of them.
struct OnLoss(Told);

impl std::fmt::Debug for OnLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnLoss")
    }
}

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
    /// See [`super::MessageStore::was_recovered`].
    pub(super) recovered: bool,
    on_loss: OnceLock<OnLoss>,
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
    /// Records from here on are not in queues and index yet, because the disk is full.
    pub built_to: Option<u64>,
    /// See [`super::MessageStore::was_recovered`].
    pub recovered: bool,
}

impl Shared {
    /// A store at rest: everything in the log is flushed, and built unless the disk was full.
    pub fn new(parts: Parts) -> Self {
        let (end, timestamp) = parts.log.tail();
        if !parts.config.data_read_ahead_enable {
            parts.log.segments().set_read_ahead(false);
        }
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
            build: match parts.built_to {
                Some(at) => Build::new(at, 0),
                None => Build::new(end, timestamp),
            },
            queue_flush: Waker::default(),
            manual_rounds: AtomicU32::new(0),
            full_index: Mutex::new(parts.full_index),
            ram_bytes: disk::ram_bytes(),
            opened_at: end,
            recovered: parts.recovered,
            on_loss: OnceLock::new(),
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
        let read_ahead = config.data_read_ahead_enable;
        if self.config.swap(Arc::new(config)).data_read_ahead_enable != read_ahead {
            self.log.segments().set_read_ahead(read_ahead);
        }
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

    /// Sets who is told; the first one stays.
    pub fn on_loss(&self, told: Told) {
        let _ = self.on_loss.set(OnLoss(told));
    }

    /// Tells of records that were deleted before their time.
    pub fn tell_of_loss(&self, lost: &[Lost]) {
        if let Some(told) = self.on_loss.get().filter(|_| !lost.is_empty()) {
            (told.0)(lost);
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
