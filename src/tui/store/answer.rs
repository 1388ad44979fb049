//! What the store answers, as plain data: small, without files, and never more than a page or a bounded list.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::inspect::{
    Checkpoint, Field, Finding, HotSlot, Progress, QueueSums, Report, Restart, Resumable, Severity, SlotWalk,
    Survey,
};

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To [`What::Glance`](super::question::What::Glance), and so on.
    Glance(Glance),
    /// Records.
    Log(Page<LogRow>),
    /// One record.
    Record(Box<RecordView>),
    /// Names.
    Topics(Vec<String>),
    /// Queues of a topic.
    Topic(TopicQueues),
    /// Who has read how far, when a broker was asked.
    Positions(GroupPositions),
    /// Entries.
    Queue(QueuePage),
    /// How far a check of a queue is.
    CheckQueue(QueueSums),
    /// Files of the index.
    Index(Vec<IndexRow>),
    /// How far a survey is.
    Survey(Box<Surveyed>),
    /// One chain.
    Slot(Chain),
    /// The chains of a key.
    Key(KeyFound),
    /// Small files.
    Checks(Box<Checks>),
    /// Where a verification would go on.
    Kept(Option<Resumable>),
    /// How far a verification is.
    Verify(Box<Verifying>),
}

/// A store at first sight.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Glance {
    /// The process that runs a broker on it; 0 when its id cannot be seen.
    pub holder: Option<u32>,
    /// Files of the log.
    pub segments: usize,
    /// Bytes of each.
    pub segment_size: u64,
    /// First offset of the log.
    pub start: u64,
    /// Behind its last record.
    pub end: u64,
    /// Begins of the files.
    pub bases: Vec<u64>,
    /// The queues lie in RocksDB, which is not read.
    pub rocks_db: bool,
}

/// Rows around a place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The rows.
    pub rows: Vec<T>,
    /// The row that was asked for.
    pub focus: Option<u64>,
    /// Nothing lies before the first row.
    pub is_first: bool,
    /// Nothing lies behind the last row.
    pub is_last: bool,
}

impl<T> Default for Page<T> {
    fn default() -> Self {
        Self {
            rows: Vec::new(),
            focus: None,
            is_first: true,
            is_last: true,
        }
    }
}

/// What a row of the log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A valid record, and the version of its layout.
    Record(u8),
    /// A valid record behind damage that is older than what came before: left over from before a truncation.
    Stale,
    /// The filler at the end of a file.
    Filler,
    /// The space for what comes next.
    Tail,
    /// Damage, in a word or two.
    Damage(&'static str),
}

/// A row of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// Physical offset.
    pub at: u64,
    /// Bytes.
    pub size: u64,
    /// What it is.
    pub kind: Kind,
    /// Topic; empty without a record.
    pub topic: String,
    /// Queue number and queue offset.
    pub queue: Option<(i32, i64)>,
    /// Store time, epoch ms.
    pub stored_ms: Option<i64>,
    /// Keys, blanks between them.
    pub keys: String,
    /// Tag.
    pub tag: String,
    /// Bytes of the stored body.
    pub body: usize,
    /// Where a delayed or half message wants to go.
    pub real: Option<(String, i32)>,
    /// What is to be said about it.
    pub note: String,
}

/// The bytes at an offset and what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordView {
    /// Physical offset.
    pub at: u64,
    /// What it is.
    pub kind: Kind,
    /// Bytes in all.
    pub len: u64,
    /// The first of them.
    pub bytes: Vec<u8>,
    /// Its fields; none when the bytes are no record.
    pub fields: Vec<Field>,
    /// The begin of the body as text, decompressed; hexadecimal when it is none.
    pub body: String,
    /// What is wrong.
    pub note: String,
}

/// A row of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRow {
    /// Number of the entry.
    pub index: u64,
    /// Queue offset of its (first) message.
    pub offset: i64,
    /// Physical offset and size; `None` for a gap.
    pub record: Option<(i64, i32)>,
    /// The tags code as it is, a delivery time or an address in words.
    pub code: String,
    /// The tag of the record.
    pub tag: Option<String>,
    /// Store time of the record, epoch ms.
    pub stored_ms: Option<i64>,
    /// How it compares.
    pub check: Compared,
    /// What is to be said about it.
    pub note: String,
}

/// How an entry compares with the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
    /// It agrees.
    Good,
    /// It is nothing to worry about: expired, or it only takes up a place.
    Past,
    /// Something is wrong.
    Wrong,
}

/// Entries of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueuePage {
    /// The entries, by number.
    pub page: Page<QueueRow>,
    /// Files.
    pub files: usize,
    /// Entries of a file.
    pub per_file: u64,
    /// Bytes of an entry.
    pub entry_len: u64,
    /// First queue offset that has not expired, and the one behind the last.
    pub offsets: (i64, i64),
    /// The records that the entries lead to, when a broker was asked: its log cannot be walked.
    pub records: Vec<LogRow>,
}

/// One queue of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLine {
    /// The broker that was asked; empty for files.
    pub broker: String,
    /// Its number.
    pub queue: i32,
    /// First queue offset that has not expired.
    pub min: i64,
    /// The one behind the last.
    pub max: i64,
    /// Files.
    pub files: usize,
    /// First and last byte of the log that its entries lead to.
    pub span: Option<(i64, i64)>,
}

impl QueueLine {
    /// Identity of its row: `3`, or `broker-a/3`.
    pub fn id(&self) -> String {
        line_id(&self.broker, self.queue)
    }
}

/// Identity of the row of a queue.
pub fn line_id(broker: &str, queue: i32) -> String {
    if broker.is_empty() {
        queue.to_string()
    } else {
        format!("{broker}/{queue}")
    }
}

/// The queues of a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicQueues {
    /// How many queues consumers read, as `config/topics.json` has it.
    pub read_queues: Option<i64>,
    /// The queues there are.
    pub queues: Vec<QueueLine>,
    /// Who has read how far; `None` while a broker has not told of it.
    pub positions: Option<GroupPositions>,
    /// Why something is not known.
    pub problem: Option<String>,
}

/// Who has read how far in a topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPositions {
    /// Positions of groups: group, queue, offset.
    pub groups: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Groups whose positions are left out.
    pub more: usize,
    /// Groups of which nothing was told, and why.
    pub problem: Option<String>,
}

/// One file of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexRow {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub len: u64,
    /// Items, and how many there is room for.
    pub items: (i64, Option<u64>),
    /// Slots in use, and how many there are.
    pub slots: (i64, Option<u64>),
    /// Store times of its first and last record, epoch ms.
    pub times: (i64, i64),
    /// Their physical offsets.
    pub offsets: (i64, i64),
}

/// How far a survey is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surveyed {
    /// Bytes that were read, and in all.
    pub done: (u64, u64),
    /// What was found, at the end.
    pub survey: Option<Survey>,
    /// The longest chains, explained.
    pub hot: Vec<HotSlot>,
}

/// One item of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainRow {
    /// Number of the item.
    pub number: i32,
    /// Its hash.
    pub hash: i32,
    /// Physical offset that it leads to.
    pub at: i64,
    /// Store time, rounded down to a second, epoch ms.
    pub stored_ms: i64,
    /// What it means.
    pub verdict: Found,
    /// `topic#key` of what the record is indexed under.
    pub keys: Vec<String>,
}

/// What an item of a chain means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// The record has the key, or there was no key to ask for.
    Hit,
    /// The record has another key with the same hash.
    OtherKey,
    /// Another hash in the same slot.
    OtherHash,
    /// The record has expired.
    Expired,
    /// There is no valid record.
    NoRecord(String),
}

/// The chain of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Name of the file.
    pub file: String,
    /// The chain.
    pub walk: SlotWalk<ChainRow>,
}

/// The chains of a key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyFound {
    /// `topic#key` that was found, or that was looked for.
    pub text: String,
    /// Its hash; `None` when several topics were tried and none has it.
    pub hash: Option<i32>,
    /// By file, newest first; files whose chain has no such hash may be left out.
    pub chains: Vec<Chain>,
    /// Files and topics that were tried.
    pub tried: (usize, usize),
    /// Files that were not walked, since nothing tells how many slots they have.
    pub skipped: Vec<String>,
    /// Chains that were left before their end.
    pub cut: u64,
    /// Records that have the key.
    pub hits: u64,
    /// Other topics that have a record with the key, when no topic was given.
    pub also: Vec<String>,
}

/// The small files, and what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checks {
    /// When they were read, epoch ms.
    pub read_ms: i64,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// Text of the crash marker.
    pub abort: Option<String>,
    /// The process that runs a broker on it.
    pub holder: Option<u32>,
    /// Store time of the newest record, epoch ms.
    pub newest_ms: Option<i64>,
    /// Where the next start would begin and end; `None` when that takes a look into too many queues.
    pub recovery: Option<Restart>,
    /// Tables under `config/`: name, state, state of the backup, entries, version.
    pub tables: Vec<TableRow>,
}

/// A table under `config/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableRow {
    /// Name of the file.
    pub name: String,
    /// One word for it.
    pub state: &'static str,
    /// One word for its backup.
    pub backup: &'static str,
    /// Entries of its main map.
    pub entries: Option<usize>,
    /// Counter of its version.
    pub version: Option<i64>,
}

/// How a verification ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All was read.
    Complete,
    /// The operator ended it.
    Stopped,
}

/// How far a verification is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verifying {
    /// The store.
    pub root: PathBuf,
    /// Every byte, not only headers and ends.
    pub full: bool,
    /// Where it went on, when an earlier one was stopped there.
    pub resumed: Option<Resumable>,
    /// When it began, epoch ms.
    pub begun_ms: i64,
    /// How long it has run, ms.
    pub elapsed_ms: u64,
    /// By pass, in the order they began; with the time a pass has taken, ms.
    pub passes: Vec<(Progress, u64)>,
    /// What was found: a thousand, errors before others.
    pub findings: Vec<Finding>,
    /// How much was found in all, by pass, code and severity.
    pub counts: BTreeMap<(&'static str, &'static str, Severity), u64>,
    /// Findings that are not listed.
    pub more: u64,
    /// Totals, at the end.
    pub report: Option<Report>,
    /// How it ended.
    pub ended: Option<Ended>,
}
