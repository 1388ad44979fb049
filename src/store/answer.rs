//! What the store answers.

use bytes::Bytes;

/// Where an append ended up. Acknowledge it only after [`super::MessageStore::durable`].
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

/// An entry of a queue, and its place there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueEntry {
    /// Its place in the queue.
    pub queue_offset: i64,
    /// Physical offset of the record.
    pub offset: i64,
    /// Size of the record.
    pub size: i32,
    /// Hash of the tags; in the delay topic the time of delivery, ms.
    pub tags_code: i64,
}

/// A run of entries of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entries {
    /// The entries, in order.
    pub entries: Vec<QueueEntry>,
    /// Where to go on.
    pub next_offset: i64,
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
    /// The index was given up until the next start: messages are not found by key.
    pub index_off: bool,
}
