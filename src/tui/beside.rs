//! The row of a list whose details lie beside it, on a terminal wide enough. They are drawn at once from what is known, and
//! asked for when the cursor rests: a run through ten thousand rows asks nothing on its way.

use super::app::App;
use super::place::Screen;
use super::view::layout;
use crate::client::findings::Subject;

/// How long the cursor stays on a row before its details are asked for: longer than the pause between two repeats of a
/// held key, shorter than anybody waits.
pub const REST_MS: i64 = 300;

/// The row under the cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Beside {
    /// What it is about.
    subject: Subject,
    /// Since when, epoch ms.
    since_ms: i64,
}

impl App {
    /// What the panes of details are about: the subject of the place, or the row under the cursor of the list beside them.
    pub fn about(&self) -> Option<&Subject> {
        let beside = || self.beside.as_ref().map(|beside| &beside.subject);
        self.place.about.as_ref().or_else(beside)
    }

    /// The topic that the panes of details are about.
    pub fn topic(&self) -> Option<&str> {
        match self.about() {
            Some(Subject::Topic(name)) => Some(name),
            _ => None,
        }
    }

    /// The group that the panes of details are about.
    pub fn group(&self) -> Option<&str> {
        match self.about() {
            Some(Subject::Group(name)) => Some(name),
            _ => None,
        }
    }

    /// The row that the cursor rests on: its details are asked for.
    pub(super) fn rested_on(&self) -> Option<&Subject> {
        let beside = self.beside.as_ref()?;
        (self.now_ms >= beside.since_ms + REST_MS).then_some(&beside.subject)
    }

    /// When the cursor will have rested on its row, epoch ms; `None` when it has.
    pub fn rests_at_ms(&self) -> Option<i64> {
        let beside = self.beside.as_ref()?;
        let at = beside.since_ms + REST_MS;
        (self.now_ms < at).then_some(at)
    }

    /// Looks which row is under the cursor.
    pub(super) fn look_beside(&mut self) {
        let list = match self.place.screen {
            Screen::Topics | Screen::Groups if layout::has_details(self) => self.place.screen.first_focus(),
            _ => {
                self.beside = None;
                return;
            }
        };
        let table = self.table(list);
        let row = self.selected(list, &table).map(|at| &table.rows[at]);
        let subject = row.and_then(|row| row.subject.clone());
        // The row that a list opens with was not run through.
        let since_ms = match &self.beside {
            Some(_) => self.now_ms,
            None => self.now_ms - REST_MS,
        };
        match (subject, &self.beside) {
            (Some(subject), Some(known)) if known.subject == subject => {}
            (subject, _) => self.beside = subject.map(|subject| Beside { subject, since_ms }),
        }
    }
}
