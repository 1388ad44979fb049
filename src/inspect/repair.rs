//! Mends a store that no broker runs on: a plan first, then its steps, each of which can be undone.
//!
//! The plan is what `verify` finds, turned into steps: the log ends behind its last good record, queues and index are
//! made anew out of the log, tables come from their backups, and checkpoint and crash marker say so. Whatever a step
//! takes away is moved or copied to a directory beside it first, with a journal of how to put it back.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Error;

mod apply;
mod journal;
mod plan;

pub use apply::{Done, apply};
pub use journal::undo;
pub use plan::{Choice, Remedy, plan, remedy};

/// Version of the plan's form.
const VERSION: u32 = 1;

/// What is to be done to a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Form of the plan.
    pub version: u32,
    /// The store, as an absolute path.
    pub store: PathBuf,
    /// When it was made, epoch ms.
    pub made_at_ms: i64,
    /// How the store was then; a store that is otherwise by now needs a new plan.
    pub state: State,
    /// What was found wrong, the first of it.
    pub findings: Vec<PlanFinding>,
    /// How much was found wrong in all.
    pub problems: u64,
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What the steps do not mend, and what else to know.
    pub remarks: Vec<String>,
}

/// What tells whether a store changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// First offset of the log.
    pub log_start: u64,
    /// Behind the last record.
    pub log_end: u64,
    /// Begin and length of each segment.
    pub segments: Vec<(u64, u64)>,
    /// Queues and the sum of their ends.
    pub queues: (u64, u64),
    /// The crash marker is there.
    pub abort: bool,
}

/// One thing that was found wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanFinding {
    /// `warning` or `error`.
    pub severity: String,
    /// Kind of finding.
    pub code: String,
    /// Whose it is.
    pub subject: String,
    /// What was found.
    pub what: String,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "kebab-case")]
pub enum Step {
    /// A segment that was cut short gets its length back.
    ExtendSegment {
        /// The file.
        file: PathBuf,
        /// Its length now.
        from: u64,
        /// The length of the others.
        to: u64,
    },
    /// The log ends here.
    CutLog {
        /// The new end.
        at: u64,
        /// The end now.
        end: u64,
        /// Whole records that are cut off.
        records: u64,
        /// Whole segments that are taken away.
        files: Vec<PathBuf>,
    },
    /// Queues are made anew.
    RebuildQueues {
        /// Which.
        queues: Vec<QueueStep>,
    },
    /// The index is made anew.
    RebuildIndex {
        /// Why.
        why: String,
        /// Files that it has now.
        files: u64,
        /// Hash slots of a file.
        slots: u32,
        /// Items of a file.
        items: u32,
    },
    /// A table is replaced by its backup.
    RestoreTable {
        /// Its name.
        name: String,
        /// What is wrong with it.
        why: String,
    },
    /// The checkpoint says that all of this is flushed.
    WriteCheckpoint {
        /// Store time of the last record, ms.
        newest_ms: i64,
    },
    /// The crash marker goes: the next start finds a store that was stopped cleanly.
    RemoveAbort,
}

/// One queue that is made anew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStep {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub queue_id: i32,
    /// What is wrong with it.
    pub why: String,
    /// Queue offset behind its last entry now.
    pub max_offset: i64,
}

impl Step {
    /// What it is done to, in words.
    pub fn target(&self) -> String {
        match self {
            Self::ExtendSegment { file, .. } => file
                .file_name()
                .map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
            Self::CutLog { .. } => "commit log".into(),
            Self::RebuildQueues { queues } => format!("{} queues", queues.len()),
            Self::RebuildIndex { .. } => "index".into(),
            Self::RestoreTable { name, .. } => format!("config/{name}"),
            Self::WriteCheckpoint { .. } => "checkpoint".into(),
            Self::RemoveAbort => "abort".into(),
        }
    }

    /// One word for it.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::ExtendSegment { .. } => "extend-segment",
            Self::CutLog { .. } => "cut-log",
            Self::RebuildQueues { .. } => "rebuild-queues",
            Self::RebuildIndex { .. } => "rebuild-index",
            Self::RestoreTable { .. } => "restore-table",
            Self::WriteCheckpoint { .. } => "write-checkpoint",
            Self::RemoveAbort => "remove-abort",
        }
    }
}

impl Plan {
    /// Reads a plan.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        let plan: Self = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if plan.version == VERSION {
            Ok(plan)
        } else {
            Err(format!("a plan of version {}, not {VERSION}", plan.version))
        }
    }
}

/// The store is not as it was.
fn changed(what: &str) -> Error {
    Error::Changed {
        what: what.to_owned(),
    }
}
