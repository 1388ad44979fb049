//! Compares the parts of a store with each other: log, queues, index, checkpoint and tables.
//!
//! A full pass reads the index once for its links, then each segment of the log once, several at a time. Beside the
//! log run the queue entries and the index items of its records: all three are in the same order, so the comparison
//! goes both ways without a search. Files are read in pieces, never mapped; what a pass holds in memory depends on
//! the number of queues and index files alone.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use super::info::{Info, info};
use super::{Error, Store, is_inside};
use throttle::Throttle;

mod compare;
mod files;
mod index;
mod items;
mod log;
mod piece;
mod queues;
mod sides;
mod state;
mod tables;
mod throttle;

/// How deep the look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Files, the begin of each segment, the newest segment, the ends of each queue, headers and tables.
    Quick,
    /// Every record with its checksum, every queue entry and every index item.
    Full,
}

impl Depth {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// How a pass runs.
#[derive(Debug, Clone, Copy)]
pub struct Options<'a> {
    /// How deep the look is.
    pub depth: Depth,
    /// Most bytes to read in a second; `None` for no limit.
    pub bytes_per_second: Option<u64>,
    /// Segments read at a time; `None` for one a processor, four at most.
    pub threads: Option<usize>,
    /// Where a full pass notes how far it is, outside the store; the file is gone when the pass is through.
    pub state: Option<&'a Path>,
    /// Goes on where an earlier pass with the same state file ended.
    pub resume: bool,
}

impl From<Depth> for Options<'_> {
    fn from(depth: Depth) -> Self {
        Self {
            depth,
            bytes_per_second: None,
            threads: None,
            state: None,
            resume: false,
        }
    }
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// The next start or a query will be affected; no message is lost.
    Warning,
    /// Messages cannot be read, or not be found where they belong.
    Error,
}

impl Severity {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Short name of the kind of finding.
    pub code: &'static str,
    /// Whose it is: the log, a queue, a file.
    pub subject: String,
    /// Where it is.
    pub file: Option<PathBuf>,
    /// Where in its own address space: a physical offset for the log, a queue offset for a queue, an item for an
    /// index file.
    pub offset: Option<u64>,
    /// How much: bytes, entries or items.
    pub len: Option<u64>,
    /// What was found.
    pub what: String,
    /// What that means.
    pub meaning: String,
}

/// How far a pass is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The pass.
    pub pass: &'static str,
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// What was looked at, and how much was found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Records of the log.
    pub records: u64,
    /// Bytes of the log.
    pub bytes: u64,
    /// Queues.
    pub queues: u64,
    /// Queue entries.
    pub entries: u64,
    /// Index items.
    pub items: u64,
    /// Findings of severity info.
    pub infos: u64,
    /// Warnings.
    pub warnings: u64,
    /// Errors.
    pub errors: u64,
    /// The caller ended it before it was through.
    pub stopped: bool,
    /// Offset of the log that it went on from, when it took over from an earlier pass.
    pub resumed_at: Option<u64>,
    /// When that one looked at what is before, epoch ms: what it found there is told as of then.
    pub resumed_of_ms: Option<i64>,
    /// An earlier pass ended before it was through and could have been resumed; this one began anew.
    pub could_resume: bool,
}

impl Report {
    /// What a report says at its end, by the names that scripts read.
    pub fn summary(&self, depth: Depth) -> serde_json::Map<String, serde_json::Value> {
        [
            ("depth", depth.name().into()),
            ("complete", (!self.stopped).into()),
            ("resumed_at", self.resumed_at.into()),
            ("resumed_of_ms", self.resumed_of_ms.into()),
            ("records", self.records.into()),
            ("log_bytes", self.bytes.into()),
            ("queues", self.queues.into()),
            ("entries", self.entries.into()),
            ("index_items", self.items.into()),
            ("infos", self.infos.into()),
            ("warnings", self.warnings.into()),
            ("errors", self.errors.into()),
        ]
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}

/// Where a full pass over a store notes how far it is: a file of its own in a directory, by the path of the store.
/// `None` when it would lie in the store, in which nothing is changed.
pub fn state_file(dir: &Path, root: &Path) -> Option<PathBuf> {
    let root = std::fs::canonicalize(root).unwrap_or_else(|_| root.to_owned());
    let hash = crc32fast::hash(root.as_os_str().as_encoded_bytes());
    let path = dir.join(format!("verify-{hash:08x}.jsonl"));
    (!is_inside(&root, &path)).then_some(path)
}

/// Where a full pass would go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resumable {
    /// Offset of the log.
    pub at: u64,
    /// When what is before it was looked at first, epoch ms: queues may have changed since.
    pub of_ms: Option<i64>,
}

/// Where a full pass would go on with this state file; `None` when there is nothing to go on with.
pub fn resumable(store: &Store, path: &Path) -> Result<Option<Resumable>, Error> {
    state::reached(store, &store.log()?, path)
}

/// What the passes share.
struct Pass<'a> {
    store: &'a Store,
    info: &'a Info,
    depth: Depth,
    options: Options<'a>,
    throttle: Throttle,
    cancelled: AtomicBool,
    report: Report,
    found: &'a mut dyn FnMut(Finding) -> ControlFlow<()>,
    progress: &'a mut dyn FnMut(Progress) -> bool,
}

/// The caller wants no more, or the store cannot be read.
enum Stop {
    Asked,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// True when a crash or a running broker explains what was not written back.
fn is_unfinished(info: &Info) -> bool {
    info.abort.is_some() || info.holder.is_some()
}

impl Pass<'_> {
    fn find(&mut self, finding: Finding) -> Result<(), Stop> {
        match finding.severity {
            Severity::Info => self.report.infos += 1,
            Severity::Warning => self.report.warnings += 1,
            Severity::Error => self.report.errors += 1,
        }
        match (self.found)(finding) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Stop::Asked),
        }
    }

    fn at(&mut self, pass: &'static str, done: u64, total: u64) -> Result<(), Stop> {
        if (self.progress)(Progress { pass, done, total }) {
            Ok(())
        } else {
            Err(Stop::Asked)
        }
    }

    /// How many threads a pass over `parts` parts gets.
    fn threads(&self, parts: usize) -> usize {
        const MOST: usize = 4;
        let wanted = self.options.threads.unwrap_or_else(|| {
            std::thread::available_parallelism()
                .map_or(1, std::num::NonZero::get)
                .min(MOST)
        });
        wanted.clamp(1, parts.max(1))
    }
}

/// Verifies a store. Each finding is handed to `found`, which may end the search; `progress` is told how far
/// it is and ends it with false.
pub fn verify<'a>(
    store: &'a Store,
    options: impl Into<Options<'a>>,
    found: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    progress: &mut dyn FnMut(Progress) -> bool,
) -> Result<Report, Error> {
    let options = options.into();
    let info = info(store)?;
    let mut pass = Pass {
        store,
        info: &info,
        depth: options.depth,
        throttle: Throttle::new(options.bytes_per_second),
        options,
        cancelled: AtomicBool::new(false),
        report: Report::default(),
        found,
        progress,
    };
    match run(&mut pass) {
        Ok(()) => {}
        Err(Stop::Asked) => pass.report.stopped = true,
        Err(Stop::Failed(e)) => return Err(e),
    }
    Ok(pass.report)
}

fn run(pass: &mut Pass<'_>) -> Result<(), Stop> {
    files::check(pass)?;
    let index = pass.store.index()?;
    let runs = index::check(pass, &index)?;
    let log = pass.store.log_reading(log::READ_AHEAD)?;
    let matched = log::check(pass, &log, &index, &runs)?;
    queues::check(pass, &matched)?;
    tables::check(pass)?;
    state::remove(pass.options.state)?;
    Ok(())
}
