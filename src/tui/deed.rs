//! Changes as command lines: a screen composes one, the CLI's own code rehearses it and carries it out.
//!
//! The dashboard has no admin logic: what a change means, how it is proved, how it is undone and how it gets into the
//! journal stands once, behind the command. [`Operator`] is how the dashboard reaches it; without one (a read-only
//! console) there are no changes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value};
use tokio::sync::{Notify, mpsc};

use crate::client::findings::Subject;
use crate::client::scale::Progress;
use crate::client::words::quoted;

/// A command line of `rmq`, without the program's name and without global options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    /// The words.
    pub words: Vec<String>,
    /// What it changes: its screen shows the progress.
    pub about: Option<Subject>,
}

impl Deed {
    /// A command line.
    pub fn new<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> Self {
        Self {
            words: words.into_iter().map(|w| w.as_ref().to_owned()).collect(),
            about: None,
        }
    }

    /// The same, about something.
    #[must_use]
    pub fn about(mut self, subject: Subject) -> Self {
        self.about = Some(subject);
        self
    }

    /// True for commands whose numbers move by themselves while a group consumes: what is agreed to is where to.
    pub fn moves_offsets(&self) -> bool {
        let verb: Vec<&str> = self.words.iter().take(2).map(String::as_str).collect();
        matches!(
            verb.as_slice(),
            ["group", "reset" | "skip"] | ["offset", "import" | "set" | "undo"]
        )
    }

    /// True where `--cluster` may be added. Messages go by their topic's route: such commands have no scope.
    pub fn may_name_cluster(&self) -> bool {
        let named = self
            .words
            .iter()
            .any(|w| w == "--cluster" || w.starts_with("--cluster="));
        !named && !matches!(self.words.first().map(String::as_str), Some("message" | "dlq"))
    }

    /// As a person would type it.
    pub fn line(&self) -> String {
        let words = self.words.iter().map(|w| quoted(w));
        std::iter::once("rmq".to_owned())
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ")
    }
}

/// What the operator has to do before a change is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// See it, and press enter on *Apply*.
    Apply,
    /// Type the object's name.
    Name,
    /// Type the object's name and the context's.
    NameAndContext,
}

/// One field of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepLine {
    /// Broker or name server.
    pub target: String,
    /// Field, as the command line names it.
    pub field: String,
    /// Value now.
    pub before: String,
    /// Value afterwards.
    pub after: String,
    /// What became of it; `planned` in a rehearsal.
    pub result: String,
    /// It was done, or can be.
    pub good: bool,
}

/// What a step says that is not done, since its target could not be read.
pub const UNCHANGED: &str = "unchanged";

/// What a change would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rehearsal {
    /// Verb and object, such as `update topic orders`.
    pub action: String,
    /// The name to type.
    pub object: String,
    /// The cluster it happens in.
    pub cluster: String,
    /// What it takes.
    pub level: Level,
    /// What changes.
    pub steps: Vec<StepLine>,
    /// What else it means, one sentence each.
    pub impact: Vec<String>,
    /// What was said on the way.
    pub lines: Vec<String>,
}

impl Rehearsal {
    /// True when another rehearsal is about the same change and wants the same confirmation: with `values` the same steps
    /// with the same values, otherwise the same targets that cannot be reached.
    pub fn is_same(&self, other: &Self, values: bool) -> bool {
        let same = (&self.action, &self.object, &self.cluster, self.level)
            == (&other.action, &other.object, &other.cluster, other.level);
        if !values {
            // Queues without a backlog come into the plan and leave it while the group consumes.
            let bad = |r: &Self| -> BTreeSet<String> {
                let bad = r.steps.iter().filter(|s| s.after == UNCHANGED);
                bad.map(|s| s.target.clone()).collect()
            };
            return same && bad(self) == bad(other);
        }
        same && self.steps.len() == other.steps.len()
            && self.steps.iter().zip(&other.steps).all(|(a, b)| {
                (&a.target, &a.field, &a.before, &a.after) == (&b.target, &b.field, &b.before, &b.after)
            })
    }
}

/// How a change ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// One line a step.
    pub steps: Vec<StepLine>,
    /// The command that takes it back.
    pub undo: Option<String>,
    /// Why it failed, wholly or in part.
    pub failure: Option<String>,
}

/// News of a deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeedTold {
    /// The rehearsal is over: what it would do, `None` when there is nothing to change, or why it cannot be done.
    Planned(Result<Option<Box<Rehearsal>>, String>),
    /// A line of progress.
    Line(String),
    /// Where a scaling is.
    Way(Box<Progress>),
    /// It is over.
    Done(Box<Report>),
}

/// One cell of a [`Sheet`].
#[derive(Debug, Clone, PartialEq)]
pub struct SheetCell {
    /// For a person; `-` is nobody said.
    pub text: String,
    /// The number behind it, for sorting.
    pub number: Option<f64>,
}

/// What a command shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sheet {
    /// Keys of the columns.
    pub columns: Vec<String>,
    /// Rows in their order.
    pub rows: Vec<Vec<SheetCell>>,
    /// Totals by key.
    pub summary: Map<String, Value>,
    /// What was said beside it.
    pub lines: Vec<String>,
    /// Targets that failed.
    pub failed: Vec<String>,
}

impl Sheet {
    /// Position of a column.
    pub fn column(&self, key: &str) -> Option<usize> {
        self.columns.iter().position(|c| c == key)
    }

    /// A cell of a row by its column.
    pub fn cell<'a>(&self, row: &'a [SheetCell], key: &str) -> Option<&'a SheetCell> {
        row.get(self.column(key)?)
    }

    /// A total that was told.
    pub fn total(&self, key: &str) -> Option<&Value> {
        self.summary.get(key).filter(|value| !value.is_null())
    }
}

/// Asks a running deed to stop at its next safe place.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<StopState>);

#[derive(Debug, Default)]
struct StopState {
    wanted: AtomicBool,
    told: Notify,
}

impl Stop {
    /// Asks for it.
    pub fn ask(&self) {
        self.0.wanted.store(true, Ordering::SeqCst);
        self.0.told.notify_waiters();
    }

    /// Resolves when it was asked for.
    pub async fn asked(&self) {
        loop {
            let told = self.0.told.notified();
            if self.0.wanted.load(Ordering::SeqCst) {
                return;
            }
            told.await;
        }
    }
}

/// Who can carry out command lines.
pub trait Operator: Send + Sync {
    /// Says what a command would change. The answer comes as [`DeedTold::Planned`].
    fn rehearse(&self, id: u64, deed: &Deed, told: mpsc::Sender<(u64, DeedTold)>);
    /// Carries a command out, unless it would do something else than `shown` by now. Ends with [`DeedTold::Done`].
    fn carry_out(&self, id: u64, deed: &Deed, shown: Rehearsal, told: mpsc::Sender<(u64, DeedTold)>) -> Stop;
    /// What a command shows; it changes nothing. Blocks: call it on a thread that may.
    fn look(&self, words: &[String]) -> Result<Sheet, String>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deed_reads_as_its_command_line() {
        let deed = Deed::new(["topic", "update", "it's", "--perm", "4"]);
        assert_eq!(deed.line(), "rmq topic update 'it'\\''s' --perm 4");
    }

    #[test]
    fn what_was_agreed_to_is_the_values_or_where_to() {
        let step = |target: &str, after: &str| StepLine {
            target: target.into(),
            field: "CG T/0".into(),
            before: "7".into(),
            after: after.into(),
            result: "planned".into(),
            good: true,
        };
        let plan = |level, steps: Vec<StepLine>| Rehearsal {
            action: "reset offsets of CG in T".into(),
            object: "CG".into(),
            cluster: "c".into(),
            level,
            steps,
            impact: Vec::new(),
            lines: Vec::new(),
        };
        let agreed = plan(Level::Name, vec![step("a", "9")]);
        let moved = plan(Level::Name, vec![step("a", "11"), step("b", "3")]);
        assert!(!agreed.is_same(&moved, true));
        assert!(agreed.is_same(&moved, false), "the group went on consuming");
        let unread = plan(Level::Name, vec![step("a", "9"), step("b", UNCHANGED)]);
        assert!(
            !agreed.is_same(&unread, false),
            "a broker is not reached any more"
        );
        let protected = plan(Level::NameAndContext, vec![step("a", "9")]);
        assert!(
            !agreed.is_same(&protected, true),
            "another confirmation is wanted by now"
        );
        assert!(agreed.is_same(&agreed.clone(), true));
    }

    #[tokio::test]
    async fn a_stop_is_heard_before_and_after_it_is_asked_for() {
        let stop = Stop::default();
        let heard = tokio::spawn({
            let stop = stop.clone();
            async move { stop.asked().await }
        });
        tokio::task::yield_now().await;
        stop.ask();
        heard.await.unwrap();
        stop.asked().await;
    }
}
