//! The message store: commit log, consume queues, index, checkpoint and small tables in Java's own formats.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use crate::protocol::message::NewMessage;

pub mod config;
pub mod cursor;
mod disk;
pub mod error;
pub mod format;
mod lock;
pub mod reader;
pub mod segments;
pub mod tables;

pub use config::{FlushDiskType, StoreConfig};
pub use error::Error;

/// Where an append ended up. Acknowledge it only after [`MessageStore::durable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Physical offset of the (first) record.
    pub offset: i64,
    /// Physical offset behind the (last) record.
    pub end: i64,
    /// Queue offset of the (first) record.
    pub queue_offset: i64,
    /// Store time, ms.
    pub store_timestamp: i64,
}

/// Whether what was appended holds as the flush mode asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It holds.
    Done,
    /// Stored, but the flush did not finish within `syncFlushTimeout`.
    FlushTimeout,
    /// The flush failed; the message must be taken for lost.
    FlushFailed,
}

/// Why an append was refused. Nothing was stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// Body, topic or properties are too long.
    #[error("{0}")]
    Illegal(String),
    /// Disk full, failed flush, shut down: the text names the one real reason.
    #[error("{0}")]
    NotWritable(String),
    /// A put has held the append lock for longer than `osPageCacheBusyTimeOutMills`.
    #[error("page cache busy")]
    Busy,
    /// The next segment could not be made.
    #[error("{0}")]
    CreateFailed(String),
}

/// Result of a read, with Java's names for the cases (`GetMessageStatus`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum GetStatus {
    Found,
    NoMatchedMessage,
    MessageWasRemoving,
    NoMessageInQueue,
    NoMatchedLogicQueue,
    OffsetFoundNull,
    OffsetOverflowOne,
    OffsetOverflowBadly,
    OffsetTooSmall,
}

impl GetStatus {
    /// Java's constant, the remark of a pull answer.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Found => "FOUND",
            Self::NoMatchedMessage => "NO_MATCHED_MESSAGE",
            Self::MessageWasRemoving => "MESSAGE_WAS_REMOVING",
            Self::NoMessageInQueue => "NO_MESSAGE_IN_QUEUE",
            Self::NoMatchedLogicQueue => "NO_MATCHED_LOGIC_QUEUE",
            Self::OffsetFoundNull => "OFFSET_FOUND_NULL",
            Self::OffsetOverflowOne => "OFFSET_OVERFLOW_ONE",
            Self::OffsetOverflowBadly => "OFFSET_OVERFLOW_BADLY",
            Self::OffsetTooSmall => "OFFSET_TOO_SMALL",
        }
    }
}

/// What a read found.
#[derive(Debug, Clone)]
pub struct Got {
    /// The case.
    pub status: GetStatus,
    /// Where to go on.
    pub next_offset: i64,
    /// Smallest queue offset.
    pub min_offset: i64,
    /// Queue offset behind the last entry.
    pub max_offset: i64,
    /// Whole records, slices of the mapped log where they can be.
    pub records: Vec<Bytes>,
}

/// Which neighbour a search by time takes (Java's `BoundaryType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Boundary {
    /// First entry with time >= t.
    #[default]
    Lower,
    /// Last entry with time <= t.
    Upper,
}

/// What a query by key found.
#[derive(Debug, Clone, Default)]
pub struct Queried {
    /// Store time of the newest indexed record, ms.
    pub index_last_update_timestamp: i64,
    /// Its physical offset.
    pub index_last_update_offset: i64,
    /// Whole records, oldest first; hash collisions included as Java does.
    pub records: Vec<Bytes>,
}

/// Figures for the runtime info.
#[derive(Debug, Clone, Default)]
pub struct StoreFigures {
    /// First byte of the commit log.
    pub min_offset: i64,
    /// Behind the last byte.
    pub max_offset: i64,
    /// Bytes written and not flushed.
    pub unflushed_bytes: i64,
    /// Bytes written and not dispatched.
    pub dispatch_behind_bytes: i64,
    /// Store time of the first message, or -1.
    pub earliest_message_timestamp: i64,
    /// Used share of the commit log partition, 0..1.
    pub commit_log_disk_ratio: f64,
    /// Used share of the consume queue partition, 0..1.
    pub consume_queue_disk_ratio: f64,
    /// Total and free bytes of the commit log partition.
    pub capacity: (u64, u64),
    /// How long the append lock has been held now, ms; 0 when free.
    pub append_lock_held_ms: i64,
    /// Why the store refuses writes, if it does.
    pub not_writable: Option<String>,
}

/// An open store directory. Owned by one process at a time.
#[derive(Debug)]
pub struct MessageStore {}

impl MessageStore {
    /// Locks the directory, loads and recovers it, starts the background threads.
    pub fn open(_config: StoreConfig) -> Result<Arc<Self>, Error> {
        unimplemented!()
    }

    /// The configuration it runs with.
    pub fn config(&self) -> &StoreConfig {
        unimplemented!()
    }

    /// Changes the keys that may change at run time (`flushDiskType`, `fileReservedTime`, ratios, transfer limits…).
    /// The broker hands over the whole new struct.
    pub fn reconfigure(&self, _config: StoreConfig) {
        unimplemented!()
    }

    /// Appends one record. Does not block on the disk.
    pub fn append(&self, _message: &NewMessage) -> Result<Appended, AppendError> {
        unimplemented!()
    }

    /// Appends several records of one topic and queue as one piece: all or none, consecutive offsets. The second
    /// value is the physical offset of each record.
    pub fn append_batch(&self, _messages: &[NewMessage]) -> Result<(Appended, Vec<i64>), AppendError> {
        unimplemented!()
    }

    /// Waits until what was appended holds: at once under ASYNC_FLUSH or when `wait` is false.
    pub fn durable(
        &self,
        _appended: &Appended,
        _wait: bool,
    ) -> impl Future<Output = Durability> + Send + 'static {
        async { unimplemented!() }
    }

    /// Reads up to `max_count` records whose tag code passes `filter`, within the byte limits of the configuration
    /// (and `max_bytes`). Never creates a queue.
    pub fn get(
        &self,
        _topic: &str,
        _queue_id: i32,
        _offset: i64,
        _max_count: usize,
        _max_bytes: usize,
        _filter: &dyn Fn(i64) -> bool,
    ) -> Got {
        unimplemented!()
    }

    /// Smallest queue offset, 0 for an unknown queue.
    pub fn min_offset(&self, _topic: &str, _queue_id: i32) -> i64 {
        unimplemented!()
    }

    /// Offset behind the last entry that consumers may see, 0 for an unknown queue.
    pub fn max_offset(&self, _topic: &str, _queue_id: i32) -> i64 {
        unimplemented!()
    }

    /// The queue offset the next append will get.
    pub fn next_offset(&self, _topic: &str, _queue_id: i32) -> i64 {
        unimplemented!()
    }

    /// Follows the queue's max offset: how a held pull is woken. The channel belongs to the queue and is made for
    /// any legal (topic, queue) without creating files.
    pub fn bell(&self, _topic: &str, _queue_id: i32) -> tokio::sync::watch::Receiver<i64> {
        unimplemented!()
    }

    /// Queue offset by store time (ms), clamped to [min, max].
    pub fn offset_by_time(&self, _topic: &str, _queue_id: i32, _time_ms: i64, _boundary: Boundary) -> i64 {
        unimplemented!()
    }

    /// Store time (ms) of an entry, -1 when there is none.
    pub fn store_time(&self, _topic: &str, _queue_id: i32, _offset: i64) -> i64 {
        unimplemented!()
    }

    /// True when the entry's record lies in the newest `accessMessageInMemoryMaxRatio` % of RAM of the log.
    pub fn in_memory(&self, _topic: &str, _queue_id: i32, _offset: i64) -> bool {
        unimplemented!()
    }

    /// The whole record at a physical offset.
    pub fn record_at(&self, _offset: i64) -> Option<Bytes> {
        unimplemented!()
    }

    /// Records whose keys hash like `key`, within store times `begin..=end` (ms).
    pub fn query(&self, _topic: &str, _key: &str, _max: usize, _begin: i64, _end: i64) -> Queried {
        unimplemented!()
    }

    /// Removes the queues of a topic, files and all.
    pub fn delete_topic(&self, _topic: &str) -> Result<(), Error> {
        unimplemented!()
    }

    /// Figures for the runtime info.
    pub fn figures(&self) -> StoreFigures {
        unimplemented!()
    }

    /// Where a small table of the broker lives: `<root>/config/<name>`.
    pub fn table_path(&self, _name: &str) -> PathBuf {
        unimplemented!()
    }

    /// Flushes everything, stops the threads, removes `abort`, releases the lock. Idempotent.
    pub fn close(&self) -> Result<(), Error> {
        unimplemented!()
    }
}
