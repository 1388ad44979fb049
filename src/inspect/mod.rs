//! The offline inspector: a store directory in, values out.
//!
//! It prints nothing and changes nothing: every file is opened for reading only, no lock is taken, and a broker may
//! run on the directory meanwhile. Damage is a value among the others; a walk names it and goes on behind it.
//!
//! Sizes of segments and index files are read off the files, never off a configuration.

use std::path::{Path, PathBuf};

use crate::store;
use crate::store::reader::StoreReader;
use crate::store::segments::{self, SegmentFile};

mod commit_log;
mod compaction;
mod consume_queue;
pub mod export;
mod find;
mod index;
mod info;
mod layout;
mod record;
pub mod repair;
mod stats;
mod tables;
mod timer;
mod verify;

pub use crate::store::cursor::{DamageKind, Record};
pub use crate::store::format::checkpoint::Checkpoint;
pub use crate::store::format::index::{Header, Shape, key_hash};
pub use crate::store::format::timer_log::Unit as TimerUnit;
pub use crate::store::reader::QueueName;
pub use commit_log::{Gap, Log, LogEnd, Point, Step, Walk};
pub use compaction::compaction_log;
pub use consume_queue::{Bounds, Check, Entry, EntryRow, Queue, QueueKind, QueueStep, QueueSums, TagsCode};
pub use find::{Find, FindStep, How, Search};
pub use index::{
    ChainItem, FileWalk, HeatCell, HotSlot, Index, Keep, KeyWalk, Others, SlotWalk, Survey, Verdict,
};
pub use info::{IndexFile, Info, QueueInfo, Recovery, Restart, SegmentInfo, info, restart};
pub use layout::{Field, Value, layout};
pub use record::{BODY_LIMIT, Body, Wanted, body, sys_flag_names};
pub use stats::{Cell as StatsCell, Query as StatsQuery, Sizes, Stats, Sums, size_limit};
pub use tables::{TableFile, TableState, table, tables};
pub use timer::{
    Chain, LogStats as TimerLogStats, SlotRow, TIMER_TOPIC, Timer, UnitCheck, UnitStep, WheelStats,
};
pub use verify::{
    Depth, Finding, Options, Progress, Report, Resumable, Severity, resumable, state_file, verify,
};

/// Bytes that are read at once to look at one record.
const GLANCE: usize = 32 * 1024;
/// Bytes that a pass over a log reads at once.
const READ_AHEAD: usize = 1024 * 1024;

/// Why a store cannot be inspected at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A directory or file cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// Not a store directory.
    #[error("{} is no store: it has neither commitlog nor consumequeue nor checkpoint", path.display())]
    NoStore {
        /// The directory.
        path: PathBuf,
        /// A directory nearby that is one.
        nearby: Option<PathBuf>,
    },
    /// The queues lie in RocksDB.
    #[error("the queues of {} lie in RocksDB (storeType=defaultRocksDB), which is not read here", path.display())]
    RocksDb {
        /// The store.
        path: PathBuf,
    },
    /// There is no such queue.
    #[error("there is no queue {name} in {}", path.display())]
    NoQueue {
        /// Topic, or topic and number.
        name: String,
        /// The store.
        path: PathBuf,
        /// The topics or numbers that there are.
        known: Vec<String>,
    },
    /// There is no such index file, or its shape cannot be told.
    #[error("index file {}: {reason}", path.display())]
    Index {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The commit log has no such place.
    #[error("offset {at} is outside the commit log, which spans {start} to {end}")]
    Outside {
        /// The offset asked for.
        at: u64,
        /// First byte.
        start: u64,
        /// Behind the last byte.
        end: u64,
    },
    /// The store or the plan is not what it should be.
    #[error("{what}")]
    Changed {
        /// What is otherwise.
        what: String,
    },
    /// A directory that a new store was to be made in has something in it.
    #[error("{} is not empty", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A record fits into no segment of a new store.
    #[error("a record of {len} bytes does not fit into segments of {size} bytes")]
    Segment {
        /// Bytes of the record.
        len: u64,
        /// Bytes of a segment.
        size: u64,
    },
    /// A record could not be copied.
    #[error("the record at {at} cannot be copied: {reason}")]
    Copy {
        /// Its offset.
        at: u64,
        /// Why.
        reason: String,
    },
}

impl Error {
    /// True when a broker holds the store.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Store(store::Error::Locked { .. }))
    }

    /// The system's reason, if it is one.
    pub fn io_kind(&self) -> Option<std::io::ErrorKind> {
        match self {
            Self::Store(store::Error::Io { source, .. }) => Some(source.kind()),
            _ => None,
        }
    }
}

/// A system error with what was done to which path.
fn io_error(what: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Store(store::Error::Io { what, path, source })
}

/// Where records of a topic lie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicPage {
    /// Their physical offsets.
    pub offsets: Vec<u64>,
    /// There are none before.
    pub is_first: bool,
    /// There are none behind.
    pub is_last: bool,
}

impl Default for TopicPage {
    fn default() -> Self {
        Self {
            offsets: Vec::new(),
            is_first: true,
            is_last: true,
        }
    }
}

/// A store directory.
#[derive(Debug)]
pub struct Store {
    reader: StoreReader,
    commit_log_dirs: Vec<PathBuf>,
}

impl Store {
    /// The store in `root`. `commit_log` names the directories of a commit log that lies elsewhere
    /// (`storePathCommitLog`), separated by commas.
    pub fn open(root: &Path, commit_log: Option<&str>) -> Result<Self, Error> {
        let reader = StoreReader::open(root)?;
        let is_store = |dir: &Path| {
            ["commitlog", "consumequeue", "checkpoint"]
                .iter()
                .any(|name| dir.join(name).exists())
        };
        if !is_store(root) && commit_log.is_none() {
            let absolute = std::path::absolute(root).map_err(io_error("resolve", root))?;
            let nearby = absolute
                .parent()
                .filter(|parent| is_store(parent))
                .map(Path::to_owned)
                .or_else(|| Some(root.join("store")).filter(|dir| is_store(dir)));
            return Err(Error::NoStore {
                path: root.to_owned(),
                nearby,
            });
        }
        let commit_log_dirs = match commit_log {
            Some(dirs) => dirs.split(',').map(|dir| PathBuf::from(dir.trim())).collect(),
            None => vec![root.join("commitlog")],
        };
        Ok(Self {
            reader,
            commit_log_dirs,
        })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        self.reader.root()
    }

    /// The process that runs a broker on the store now; 0 when its id cannot be seen.
    pub fn holder(&self) -> Option<u32> {
        self.reader.holder()
    }

    /// True while a broker runs on the store.
    pub fn is_live(&self) -> bool {
        self.holder().is_some()
    }

    /// True when the queues lie in RocksDB instead of files.
    pub fn is_rocks_db(&self) -> bool {
        self.root().join("consumequeue").join("CURRENT").exists()
    }

    /// The commit log, to look here and there. Nothing of it is mapped: what was read does not count as memory of
    /// this process, and a file that a broker cuts short does no harm.
    pub fn log(&self) -> Result<Log, Error> {
        self.log_reading(GLANCE)
    }

    /// The commit log for one pass over all of it.
    pub fn log_streaming(&self) -> Result<Log, Error> {
        self.log_reading(READ_AHEAD)
    }

    /// The commit log, read in pieces of so many bytes.
    fn log_reading(&self, read_ahead: usize) -> Result<Log, Error> {
        Ok(Log::reading(self.log_files()?, self.is_live(), read_ahead))
    }

    fn log_files(&self) -> Result<Vec<SegmentFile>, Error> {
        let mut files: Vec<SegmentFile> = Vec::new();
        for dir in &self.commit_log_dirs {
            files.extend(segments::list(dir)?.files);
        }
        files.sort_by_key(|file| file.base);
        Ok(files)
    }

    /// All queues that consumers read, by topic and number; those of batch topics included.
    pub fn queues(&self) -> Result<Vec<(QueueName, QueueKind)>, Error> {
        if self.is_rocks_db() {
            return Err(Error::RocksDb {
                path: self.root().to_owned(),
            });
        }
        let simple = self.reader.queues()?;
        let batch = consume_queue::list(&self.root().join(consume_queue::BATCH_DIR))?;
        let mut queues: Vec<_> = simple
            .into_iter()
            .map(|name| (name, QueueKind::Simple))
            .chain(batch.into_iter().map(|name| (name, QueueKind::Batch)))
            .collect();
        queues.sort();
        Ok(queues)
    }

    /// The entries of a queue.
    pub fn queue(&self, name: QueueName, kind: QueueKind) -> Result<Queue, Error> {
        Queue::open(self.root(), name, kind, self.is_live())
    }

    /// The queues of a topic, or the one of that number.
    pub fn queues_of(
        &self,
        topic: &str,
        queue_id: Option<i32>,
    ) -> Result<Vec<(QueueName, QueueKind)>, Error> {
        let all = self.queues()?;
        let of_topic: Vec<_> = all
            .iter()
            .filter(|(name, _)| name.topic == topic)
            .cloned()
            .collect();
        let found: Vec<_> = of_topic
            .iter()
            .filter(|(name, _)| queue_id.is_none_or(|id| name.queue_id == id))
            .cloned()
            .collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let (name, mut known): (String, Vec<String>) = match queue_id {
            Some(id) if !of_topic.is_empty() => (
                format!("{id} of topic \"{topic}\""),
                of_topic
                    .iter()
                    .map(|(name, _)| name.queue_id.to_string())
                    .collect(),
            ),
            _ => (
                format!("of topic \"{topic}\""),
                all.into_iter().map(|(name, _)| name.topic).collect(),
            ),
        };
        known.dedup();
        Err(Error::NoQueue {
            name,
            path: self.root().to_owned(),
            known,
        })
    }

    /// Index files, oldest first.
    pub fn index_files(&self) -> Result<Vec<PathBuf>, Error> {
        Ok(self.reader.index_files()?)
    }

    /// The index.
    pub fn index(&self) -> Result<Index, Error> {
        Index::open(self.index_files()?)
    }

    /// All topics that the queues or `config/topics.json` name.
    pub fn topics(&self) -> Result<std::collections::BTreeSet<String>, Error> {
        find::topics(self)
    }

    /// Physical offsets of the records of a topic around one: the last `before` ahead of `at`, and the first `after`
    /// from it on, as the topic's queues have them.
    pub fn records_of(&self, topic: &str, at: u64, before: usize, after: usize) -> Result<TopicPage, Error> {
        let mut page = TopicPage::default();
        let log_start = self.log()?.start();
        for (name, kind) in self.queues_of(topic, None)? {
            let queue = self.queue(name, kind)?;
            let bounds = queue.bounds(log_start);
            let here = queue.index_of_record(at, &bounds);
            let from = here.saturating_sub(before as u64).max(bounds.first_index);
            let to = here.saturating_add(after as u64).min(bounds.end_index);
            page.is_first &= from == bounds.first_index;
            page.is_last &= to == bounds.end_index;
            for index in from..to {
                let entry = queue.entry(index).filter(|entry| !entry.is_blank());
                page.offsets
                    .extend(entry.and_then(|entry| u64::try_from(entry.offset).ok()));
            }
        }
        page.offsets.sort_unstable();
        page.offsets.dedup();
        let here = page.offsets.partition_point(|&offset| offset < at);
        let to = page.offsets.len().min(here.saturating_add(after));
        page.is_last &= to == page.offsets.len();
        page.offsets.truncate(to);
        let from = here.saturating_sub(before);
        page.is_first &= from == 0;
        page.offsets.drain(..from);
        Ok(page)
    }

    /// The checkpoint; `None` when there is none.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, Error> {
        Ok(self.reader.checkpoint()?)
    }

    /// The timer; `None` when it never ran.
    pub fn timer(&self) -> Result<Option<Timer>, Error> {
        Timer::open(self)
    }

    /// Text of the crash marker (a process id); `None` after a clean stop.
    pub fn abort(&self) -> Result<Option<String>, Error> {
        Ok(self.reader.abort()?)
    }

    /// Names in the log, queue and index directories that mean nothing there.
    pub fn strays(&self) -> Result<Vec<PathBuf>, Error> {
        if self.is_rocks_db() {
            return Ok(Vec::new());
        }
        Ok(self.reader.strays()?)
    }
}

/// True for a path under a directory, whatever links lead there.
pub fn is_inside(root: &Path, file: &Path) -> bool {
    real(file).starts_with(real(root))
}

/// Where a path leads that may not exist yet: its nearest parent that does, without links, and the rest.
fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for parent in path.ancestors() {
        if let Ok(found) = std::fs::canonicalize(parent) {
            return path
                .strip_prefix(parent)
                .map_or(path.clone(), |rest| found.join(rest));
        }
    }
    path
}
