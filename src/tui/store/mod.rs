//! Screen 9: a store from the inside. Questions and answers are plain data; [`ask`] reads the files, everything else
//! here is pure. Nothing is written, no lock is taken.

pub mod answer;
pub mod ask;
mod hear;
mod orders;
mod prompt;
pub mod question;
pub mod rows;
pub mod view;
mod wants;
pub mod wire;

use std::collections::BTreeMap;
use std::path::PathBuf;

pub use hear::{hear, hear_wire};
pub use orders::{Order, run, show_bytes};
pub use prompt::{Prompt, key as prompt_key};
pub use wants::{wants, wire_wants};

use crate::client::snapshot::BrokerState;
use crate::tui::app::App;
use crate::tui::place::{Pane, Part, Place, Screen};
use answer::{
    Chain, Checks, Glance, IndexRow, KeyFound, LogRow, Page, QueuePage, QueueRow, RecordView, Surveyed,
    TopicQueues, Verifying,
};
use question::{At, Question, What};

use crate::inspect::{QueueSums, Resumable};

/// Screens of the store.
pub const SCREENS: &[Screen] = &[
    Screen::Store,
    Screen::StoreQueues,
    Screen::StoreIndex,
    Screen::StoreChecks,
];

/// Jumps that `esc` goes back along.
const MOST_LEAPS: usize = 3;

/// What was heard of a question: the value, and why the last try failed.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard<T> {
    /// The newest value.
    pub value: Option<T>,
    /// Why it could not be had.
    pub error: Option<String>,
}

impl<T> Default for Heard<T> {
    fn default() -> Self {
        Self {
            value: None,
            error: None,
        }
    }
}

/// A list of which a page is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed<T> {
    /// Where to go; `None` when there.
    pub goal: Option<At>,
    /// What the page was asked with.
    pub at: At,
    /// The page.
    pub page: T,
    /// Why the last page could not be had.
    pub error: Option<String>,
    /// A place whose page had nothing to do with what is selected.
    pub refused: Option<At>,
    /// A page has come.
    pub is_known: bool,
}

impl<T: Default> Default for Listed<T> {
    fn default() -> Self {
        Self {
            goal: Some(At::Newest),
            at: At::Newest,
            page: T::default(),
            error: None,
            refused: None,
            is_known: false,
        }
    }
}

impl<T: Default> Listed<T> {
    /// Forgets the page and goes elsewhere.
    fn anew(&mut self, goal: At) {
        *self = Self {
            goal: Some(goal),
            ..Self::default()
        };
    }
}

/// The field and byte under the cursor of a record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spot {
    /// Number of the field.
    pub field: usize,
    /// Position of the byte.
    pub byte: usize,
}

/// What the lookup pane is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lookup {
    /// Nothing yet.
    Nothing,
    /// A key.
    Key {
        /// The topic; without one all topics are tried.
        topic: Option<String>,
        /// The key.
        key: String,
    },
    /// A slot of a file.
    Slot {
        /// Name of the file.
        file: String,
        /// The slot.
        slot: u32,
    },
    /// The longest chains of the file.
    Hottest,
}

/// A place that was left for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Leap {
    Log(u64),
    Queue(String, i32, i64),
    Index,
    Checks,
    /// A screen that is none of the store's.
    Elsewhere(Place),
}

/// State of the store screens.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// The directory that was named at the start.
    pub root: Option<PathBuf>,
    /// Directories of a commit log elsewhere, separated by commas.
    pub commit_log: Option<String>,
    /// Nothing but the store is looked at.
    pub offline: bool,
    /// The store that everything here is about, and the directories of its log.
    pub about: Option<(PathBuf, Option<String>)>,
    /// The broker that is asked in place of the files, by its name: empty until that is known.
    pub wire: Option<String>,
    /// The store at first sight.
    pub glance: Heard<Glance>,
    /// Its topics.
    pub topics: Heard<Vec<String>>,
    /// Records of the log.
    pub log: Listed<Page<LogRow>>,
    /// The topic whose records are listed.
    pub topic: Option<String>,
    /// The selected record.
    pub record: Heard<RecordView>,
    /// The cursor in it.
    pub spot: Spot,
    /// The queue that is shown.
    pub queue: Option<(String, i32)>,
    /// Its entries.
    pub entries: Listed<QueuePage>,
    /// The queues of its topic.
    pub queues: Heard<TopicQueues>,
    /// Checks of queues.
    pub sums: BTreeMap<(String, i32), QueueSums>,
    /// Files of the index.
    pub index: Heard<Vec<IndexRow>>,
    /// Surveys by file.
    pub surveys: BTreeMap<String, Surveyed>,
    /// The cell of the heat map under the cursor, in thousandths of the slots.
    pub cell: usize,
    /// What the lookup pane is about.
    pub lookup: Lookup,
    /// What was found of a key.
    pub key: Heard<KeyFound>,
    /// The chain of a slot.
    pub chain: Heard<Chain>,
    /// Checkpoint and tables.
    pub checks: Heard<Checks>,
    /// The newest verification.
    pub verify: Heard<Verifying>,
    /// Where a full verification would go on.
    pub kept: Option<Resumable>,
    /// Findings below this severity are left out: 0 for none.
    pub least_severity: u8,
    /// Most megabytes that a verification reads in a second.
    pub limit: Option<u64>,
    /// Passes that run.
    pub running: Vec<Question>,
    next_run: u32,
    leaps: Vec<Leap>,
    version: u64,
}

impl Default for State {
    fn default() -> Self {
        Self::new(None, None)
    }
}

impl State {
    /// A state about a directory, or about none yet.
    pub fn new(root: Option<PathBuf>, commit_log: Option<String>) -> Self {
        Self {
            about: root.clone().map(|root| (root, commit_log.clone())),
            root,
            commit_log,
            offline: false,
            wire: None,
            glance: Heard::default(),
            topics: Heard::default(),
            log: Listed::default(),
            topic: None,
            record: Heard::default(),
            spot: Spot::default(),
            queue: None,
            entries: Listed::default(),
            queues: Heard::default(),
            sums: BTreeMap::new(),
            index: Heard::default(),
            surveys: BTreeMap::new(),
            cell: 0,
            lookup: Lookup::Nothing,
            key: Heard::default(),
            chain: Heard::default(),
            checks: Heard::default(),
            verify: Heard::default(),
            kept: None,
            least_severity: 0,
            limit: Some(DEFAULT_LIMIT),
            running: Vec::new(),
            next_run: 1,
            leaps: Vec::new(),
            version: 0,
        }
    }

    /// Another number whenever something that rows are made of may have changed.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// True while a broker runs on the store.
    pub fn is_live(&self) -> bool {
        self.glance
            .value
            .as_ref()
            .is_some_and(|glance| glance.holder.is_some())
    }

    /// True while a broker is asked, in place of its files.
    pub const fn is_wire(&self) -> bool {
        self.wire.is_some()
    }

    /// True while a pass of this kind runs.
    pub fn runs(&self, is_it: impl Fn(&What) -> bool) -> bool {
        self.running.iter().any(|question| is_it(&question.what))
    }

    /// Starts a pass over the store that is shown, instead of one of the same kind.
    fn start(&mut self, make: impl Fn(u32) -> What) {
        let Some((root, commit_log)) = self.about.clone() else {
            return;
        };
        let what = make(self.next_run);
        self.next_run += 1;
        let kind = std::mem::discriminant(&what);
        self.running
            .retain(|other| std::mem::discriminant(&other.what) != kind);
        self.running.push(Question {
            root,
            commit_log,
            what,
        });
    }

    /// Another store: nothing that is known holds for it. A verification goes on.
    fn turn_to(&mut self, about: (PathBuf, Option<String>)) {
        let old = std::mem::take(self);
        *self = Self {
            root: old.root,
            commit_log: old.commit_log,
            offline: old.offline,
            wire: old.wire,
            about: Some(about),
            verify: old.verify,
            least_severity: old.least_severity,
            limit: old.limit,
            running: old.running,
            next_run: old.next_run,
            version: old.version + 1,
            ..Self::new(None, None)
        };
        self.running
            .retain(|question| matches!(question.what, What::Verify { .. }));
    }

    /// Turns to a broker, or to the files; what the other said of records and queues is forgotten.
    fn read_from(&mut self, broker: Option<String>, at: At) {
        self.wire = broker;
        self.topic = None;
        self.leaps.clear();
        self.spot = Spot::default();
        self.topics = Heard::default();
        self.queues = Heard::default();
        self.record = Heard::default();
        self.log = Listed::default();
        self.entries.anew(at);
        self.version += 1;
    }

    /// Remembers a place that is left.
    fn leap(&mut self, from: Leap) {
        if self.leaps.last() != Some(&from) {
            self.leaps.push(from);
        }
        if self.leaps.len() > MOST_LEAPS {
            self.leaps.remove(0);
        }
    }

    /// The field and byte that a position of the record stands for.
    fn spot_at(&self, byte: usize) -> Spot {
        let Some(record) = &self.record.value else {
            return Spot::default();
        };
        let byte = byte.min(record.bytes.len().saturating_sub(1));
        let field = record
            .fields
            .iter()
            .position(|field| (field.at..field.at + field.len).contains(&byte));
        Spot {
            field: field.unwrap_or(0),
            byte,
        }
    }

    fn spot_on(&self, field: usize) -> Spot {
        let fields = self
            .record
            .value
            .as_ref()
            .map_or(&[][..], |record| record.fields.as_slice());
        let field = field.min(fields.len().saturating_sub(1));
        Spot {
            field,
            byte: fields.get(field).map_or(0, |field| field.at),
        }
    }
}

/// Megabytes a second that a verification reads at most, unless that is changed.
const DEFAULT_LIMIT: u64 = 600;
/// The limits that can be chosen.
const LIMITS: [Option<u64>; 4] = [Some(100), Some(300), Some(600), None];

/// True on the screens of the store.
pub fn is_here(app: &App) -> bool {
    SCREENS.contains(&app.place.screen)
}

/// Turns to another store when another one is to be shown.
pub fn follow(app: &mut App) {
    if !is_here(app) {
        return;
    }
    let Some(now) = root(app) else { return };
    if app.store.about.as_ref() != Some(&now) {
        app.store.turn_to(now);
        app.panes
            .retain(|pane, _| !matches!(pane, Pane::Store(part) if *part != Part::Findings));
    }
}

/// The directory of the newest verification.
pub fn verified(app: &App) -> Option<PathBuf> {
    app.store.verify.value.as_ref().map(|seen| seen.root.clone())
}

/// The last row is selected, and nothing lies behind it: what comes next is followed.
fn is_at_end<T>(page: &Page<T>, position: Option<usize>) -> bool {
    page.is_last && position.is_some_and(|n| n + 1 == page.rows.len())
}

/// Holds the page of the log where it is once the cursor has left its end: the selected record must not run away.
fn hold_log(app: &mut App) {
    let position = log_position(app);
    let log = &mut app.store.log;
    if log.at == At::Newest
        && !is_at_end(&log.page, position)
        && let Some(row) = position.and_then(|n| log.page.rows.get(n))
    {
        log.at = At::Offset(row.at);
    }
}

/// Holds the page of the queue where it is once the cursor has left its end.
fn hold_entries(app: &mut App) {
    let position = entry_position(app);
    let entries = &mut app.store.entries;
    if entries.at == At::Newest
        && !is_at_end(&entries.page.page, position)
        && let Some(row) = position.and_then(|n| entries.page.page.rows.get(n))
    {
        entries.at = at_entry(row);
    }
}

/// Goes to a record: over the wire to one that an entry of the page leads to.
fn seek(app: &mut App, at: u64) {
    if app.store.is_wire() {
        app.store.log.goal = None;
        hear::select(app, Pane::Store(Part::Log), at.to_string());
    } else {
        app.store.log.goal = Some(At::Offset(at));
    }
}

/// The place of an entry.
fn at_entry(row: &QueueRow) -> At {
    At::Offset(u64::try_from(row.offset).unwrap_or(0))
}

/// The directory that is looked at: the one that was named, or that of a broker.
pub fn root(app: &App) -> Option<(PathBuf, Option<String>)> {
    if let Some(root) = &app.store.root {
        return Some((root.clone(), app.store.commit_log.clone()));
    }
    let brokers = &app.shown().snapshot.brokers;
    let chosen = brokers
        .iter()
        .find(|broker| app.place.broker() == Some(&broker.broker));
    chosen
        .and_then(root_of)
        .or_else(|| app.store.about.clone())
        .or_else(|| brokers.iter().find_map(root_of))
}

/// The directories of a broker's store, as its configuration says; `None` while that is not known.
pub fn root_of(broker: &BrokerState) -> Option<(PathBuf, Option<String>)> {
    let entries = &broker.config.get()?.entries;
    let root = entries.get("storePathRootDir").filter(|root| !root.is_empty())?;
    let commit_log = entries.get("storePathCommitLog").filter(|dir| !dir.is_empty());
    Some((PathBuf::from(root), commit_log.cloned()))
}

/// Identity of a row of the log.
pub fn log_id(row: &LogRow) -> String {
    match row.kind {
        answer::Kind::Tail => "tail".to_owned(),
        _ => row.at.to_string(),
    }
}

/// Identity of a row of a queue.
pub fn entry_id(row: &QueueRow) -> String {
    match row.record {
        None if !row.note.is_empty() => format!("{}!", row.index),
        _ => row.index.to_string(),
    }
}

/// Position of the selected row among ids; the neighbour when it is gone.
fn position(app: &App, pane: Pane, mut ids: impl ExactSizeIterator<Item = String>) -> Option<usize> {
    let last = ids.len().checked_sub(1)?;
    let state = app.pane(pane);
    let found = state
        .selected
        .as_ref()
        .and_then(|id| ids.position(|other| other == *id));
    Some(found.unwrap_or(state.index.min(last)))
}

/// Position of the selected row of the log in its page.
pub fn log_position(app: &App) -> Option<usize> {
    position(
        app,
        Pane::Store(Part::Log),
        app.store.log.page.rows.iter().map(log_id),
    )
}

/// The selected row of the log.
pub fn log_row(app: &App) -> Option<&LogRow> {
    app.store.log.page.rows.get(log_position(app)?)
}

/// Position of the selected entry in its page.
pub fn entry_position(app: &App) -> Option<usize> {
    position(
        app,
        Pane::Store(Part::Entries),
        app.store.entries.page.page.rows.iter().map(entry_id),
    )
}

/// The selected entry.
pub fn entry_row(app: &App) -> Option<&QueueRow> {
    app.store.entries.page.page.rows.get(entry_position(app)?)
}

/// The selected index file: the newest at first.
pub fn index_file(app: &App) -> Option<&IndexRow> {
    let files = app.store.index.value.as_deref()?;
    let state = app.pane(Pane::Store(Part::Files));
    let found = state
        .selected
        .as_ref()
        .and_then(|id| files.iter().find(|file| file.name == *id));
    found.or(files.last())
}
