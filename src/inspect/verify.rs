//! Compares the parts of a store with each other: log, queues, index, checkpoint and tables.

use std::ops::ControlFlow;
use std::path::PathBuf;

use super::info::{Info, info};
use super::{Error, Store};

mod files;
mod index;
mod log;
mod queues;
mod tables;

/// How deep the look is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// Files, the begin of each segment, the newest segment, the ends of each queue, headers and tables.
    Quick,
    /// Every record with its checksum, every queue entry and every index item.
    Full,
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
}

/// What the passes share.
struct Pass<'a> {
    store: &'a Store,
    info: &'a Info,
    depth: Depth,
    report: Report,
    found: &'a mut dyn FnMut(Finding) -> ControlFlow<()>,
    progress: &'a mut dyn FnMut(Progress),
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

    /// True when a crash or a running broker explains what was not written back.
    fn is_unfinished(&self) -> bool {
        self.info.abort.is_some() || self.info.holder.is_some()
    }
}

/// Verifies a store. Each finding is handed to `found`, which may end the search.
pub fn verify(
    store: &Store,
    depth: Depth,
    found: &mut dyn FnMut(Finding) -> ControlFlow<()>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let info = info(store)?;
    let mut pass = Pass {
        store,
        info: &info,
        depth,
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
    let log = pass.store.log()?;
    let queues = log::check(pass, &log)?;
    queues::check(pass, &log, &queues)?;
    index::check(pass, &log)?;
    tables::check(pass)
}
