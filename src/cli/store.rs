//! `rmq store`: a store directory read offline, or beside the broker that runs on it.
//!
//! Nothing here creates, locks or changes a file of the store, except `repair --apply`. Damage is a row like the
//! others; a command that met any ends with exit code 11.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};

use super::exit::{self, Failure};
use super::output::Cell;
use super::session::Session;
use crate::client::words::counted as count;
use crate::inspect::{self, Gap, Store, is_inside};

mod chart;
mod commit_log;
mod compaction;
mod export;
mod find;
mod hex;
mod index;
mod info;
mod interrupt;
mod queue;
mod repair;
mod rows;
mod small;
mod stats;
mod timer;
mod verify;

/// Commands on a store directory.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show a store at a glance, and what the next start would do with it
    Info(Place),
    /// List the records of the commit log, past any damage
    #[command(visible_alias = "log")]
    Commitlog(Box<commit_log::LogArgs>),
    /// List the entries of a topic's consume queues and compare each with its record
    #[command(visible_alias = "cq")]
    Consumequeue(queue::QueueArgs),
    /// List the messages in the log of a compacted topic, past any damage
    #[command(visible_alias = "compaction")]
    DumpCompaction(compaction::CompactionArgs),
    /// Show the index files, the chains of one, or the walk for a key
    Index(index::IndexArgs),
    /// Show the checkpoint
    Checkpoint(Place),
    /// Show which tables under config/ can be loaded, or the content of one
    Config(small::ConfigArgs),
    /// Show the timer: wheel, timer log, checkpoint and metrics
    Timer(timer::TimerArgs),
    /// Find records by key, id or body
    Find(find::FindArgs),
    /// Compare log, queues, index and tables with each other
    Verify(verify::VerifyArgs),
    /// Count messages, bytes, rate and sizes by topic and time
    Stats(stats::StatsArgs),
    /// Take records out of a store: as JSON lines, or as a new store that a broker opens
    Export(Box<export::ExportArgs>),
    /// Mend a store that no broker runs on: plan, apply, undo
    Repair(repair::RepairArgs),
}

/// Where the store is.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Store directory (storePathRootDir)
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Directories of a commit log that lies elsewhere (storePathCommitLog), separated by commas
    #[arg(long, value_name = "DIR[,DIR]")]
    commitlog_dir: Option<String>,
}

impl Place {
    fn open(&self) -> Result<Store, Failure> {
        Ok(Store::open(&self.dir, self.commitlog_dir.as_deref())?)
    }
}

/// Runs a store command.
pub fn run(session: &Session, command: Command) -> Result<(), Failure> {
    interrupt::watch();
    match command {
        Command::Info(place) => info::run(session, &place.open()?),
        Command::Commitlog(args) => commit_log::run(session, &args),
        Command::Consumequeue(args) => queue::run(session, &args),
        Command::DumpCompaction(args) => compaction::run(session, &args),
        Command::Index(args) => index::run(session, &args),
        Command::Checkpoint(place) => small::checkpoint(session, &place.open()?),
        Command::Config(args) => small::config(session, &args),
        Command::Timer(args) => timer::run(session, &args),
        Command::Find(args) => find::run(session, &args),
        Command::Verify(args) => verify::run(session, &args),
        Command::Stats(args) => stats::run(session, &args),
        Command::Export(args) => export::run(session, &args),
        Command::Repair(args) => repair::run(session, &args),
    }
}

impl From<inspect::Error> for Failure {
    fn from(e: inspect::Error) -> Self {
        use inspect::Error;
        let what = e.to_string();
        match &e {
            Error::Changed { .. } => Self::new(exit::PRECONDITION, what),
            Error::Store(_) if e.is_locked() => Self::new(exit::PRECONDITION, what)
                .because("Nothing was changed. A store is mended only while no broker runs on it."),
            Error::Store(_) => match e.io_kind() {
                Some(ErrorKind::NotFound | ErrorKind::NotADirectory) => Self::new(exit::NOT_FOUND, what),
                Some(ErrorKind::PermissionDenied) => Self::new(exit::REFUSED, what)
                    .because("The files belong to the user that runs the broker."),
                _ => Self::new(exit::INTERNAL, what),
            },
            Error::NoStore { nearby, .. } => {
                let failure = Self::new(exit::NOT_FOUND, what);
                match nearby {
                    Some(dir) => failure.hint(format!("rmq store info {}", super::quoted(&dir.to_string_lossy()))),
                    None => failure.because(
                        "A store is the directory that storePathRootDir names; $HOME/store when nothing does.",
                    ),
                }
            }
            Error::RocksDb { path } => Self::new(exit::UNSUPPORTED, what)
                .because("The commit log of such a store is the same as of others.")
                .hint(format!(
                    "rmq store commitlog {}",
                    super::quoted(&path.to_string_lossy())
                )),
            Error::NoQueue { known, .. } => {
                let failure = Self::new(exit::NOT_FOUND, what);
                if known.is_empty() {
                    failure.because("It has no queues at all.")
                } else {
                    let shown: Vec<&str> = known.iter().take(20).map(String::as_str).collect();
                    let more = if known.len() > shown.len() { ", …" } else { "" };
                    failure.because(format!("There are: {}{more}.", shown.join(", ")))
                }
            }
            Error::Index { .. } => Self::new(exit::UNSUPPORTED, what),
            Error::Outside { .. } => Self::new(exit::NOT_FOUND, what),
            Error::InUse { .. } => Self::new(exit::PRECONDITION, what)
                .because("A new store is made in a directory that does not exist yet or is empty."),
            Error::Segment { .. } | Error::Copy { .. } => Self::new(exit::INTERNAL, what),
        }
    }
}

/// Refuses a file that would lie in a store, in which no command but a repair changes anything. `what` names it.
fn not_inside(root: &Path, file: &Path, what: &str) -> Result<(), Failure> {
    if is_inside(root, file) {
        let text = format!(
            "{what} lies in the store itself, in which nothing is changed: {}",
            file.display()
        );
        return Err(Failure::usage(text));
    }
    Ok(())
}

/// A count as a cell.
fn int(value: u64) -> Cell {
    Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))
}

/// A path as a cell.
fn path(path: &Path) -> Cell {
    path.to_string_lossy().into_owned().into()
}

/// The process that runs a broker on the store, in words.
fn holder(pid: u32) -> String {
    if pid == 0 {
        "a process that cannot be seen from here".into()
    } else {
        format!("process {pid}")
    }
}

/// What was damaged in a pass over the log.
#[derive(Debug, Default)]
struct Damaged {
    places: u64,
    bytes: u64,
    first: Option<(u64, String)>,
}

impl Damaged {
    fn add(&mut self, gap: &Gap) {
        self.places += 1;
        self.bytes += gap.len;
        if self.first.is_none() {
            self.first = Some((gap.at, gap.kind.to_string()));
        }
    }

    /// A failure with exit code 11 when there was any.
    fn verdict(&self, place: &Place) -> Result<(), Failure> {
        let Some((at, why)) = &self.first else {
            return Ok(());
        };
        let text = format!(
            "the commit log is damaged in {}, {} in all; first at {at}: {why}",
            count(self.places, "place"),
            count(self.bytes, "byte")
        );
        let dir = super::quoted(&place.dir.to_string_lossy());
        Err(Failure::new(exit::ERRORS, text).hint(format!("rmq store verify {dir}")))
    }
}
