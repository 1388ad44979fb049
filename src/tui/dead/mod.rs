//! Screen 7: dead letters, group by group, and sending them again.
//!
//! What is sent is a command line, `rmq dlq resend`: it asks, remembers each letter before and after it is sent, and
//! never sends one twice. The screen shows what that memory says of each letter.

pub mod ask;
pub mod rows;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use super::app::{Action, App};
use super::deed::Deed;
use super::keys::Command;
use super::messages;
use super::messages::search::{Mark, Mode, Search};
use super::place::{Pane, Place, Screen};
use super::want::{Found as Answered, Want, Wanted};
use crate::client::Message;
use crate::client::dlq::topic_of;
use crate::client::findings::Subject;
use ask::{Answer, Found, Groups, Question};

/// Pause between two looks at all groups.
const EVERY: Duration = Duration::from_secs(60);
/// Most letters that a command line names one by one.
const NAMED: usize = 500;

/// Where the letters would go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Target {
    /// Each to the topic it was first sent to.
    #[default]
    Origin,
    /// To the group's retry topic.
    Retry,
}

/// What the screen remembers beside its selection.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State {
    /// Where the letters would go.
    pub target: Target,
    /// The group whose letters may be marked.
    pub of: Option<String>,
}

/// Marks are of one group's letters: those of another begin without.
pub(super) fn settle(app: &mut App) {
    if app.place.screen != Screen::Dead {
        return;
    }
    let now = group(app);
    if now.is_some() && now != app.dead.of {
        app.marks.remove(&Pane::Letters);
        app.dead.of = now;
    }
}

/// What the screen wants to know.
pub fn wants(app: &App) -> Vec<Wanted> {
    let mut wanted = vec![Wanted {
        want: Want::Dead(Question::Groups),
        every: Some(EVERY.max(app.settings.interval)),
    }];
    if let Some(group) = group(app) {
        wanted.push(Wanted {
            want: Want::Dead(Question::Letters(group)),
            every: None,
        });
    }
    wanted
}

/// All groups, or why they are not known.
pub fn groups(app: &App) -> Result<Option<&Groups>, &str> {
    let seen = app.found(&Want::Dead(Question::Groups));
    match (seen.get(), &seen.error) {
        (Some(Answered::Dead(Answer::Groups(groups))), _) => Ok(Some(groups)),
        (_, Some(why)) => Err(why),
        _ => Ok(None),
    }
}

/// The selected group.
pub fn group(app: &App) -> Option<String> {
    let table = app.table(Pane::DeadGroups);
    let at = app.selected(Pane::DeadGroups, &table)?;
    Some(table.rows[at].name.clone())
}

/// Letters of the selected group, or why there are none.
pub fn letters(app: &App) -> Result<Option<&Found>, &str> {
    let Some(group) = group(app) else {
        return Ok(None);
    };
    let seen = app.found(&Want::Dead(Question::Letters(group)));
    match (seen.get(), &seen.error) {
        (_, Some(why)) => Err(why),
        (Some(Answered::Dead(Answer::Letters(found))), None) => Ok(Some(found)),
        _ => Ok(None),
    }
}

/// Letters that a key is about: the marked ones, else the selected one.
pub fn chosen(app: &App) -> Vec<Arc<Message>> {
    let Ok(Some(found)) = letters(app) else {
        return Vec::new();
    };
    let table = app.table(Pane::Letters);
    let find = |id: &str| found.rows.iter().find(|m| Mark::is(id, m)).cloned();
    match app.marked(Pane::Letters) {
        Some(marks) => {
            let rows = table.rows.iter().filter(|row| marks.contains(&row.id));
            rows.filter_map(|row| find(&row.id)).collect()
        }
        None => {
            let at = app.selected(Pane::Letters, &table);
            at.and_then(|at| find(&table.rows[at].id)).into_iter().collect()
        }
    }
}

/// The command that sends the chosen letters again.
pub fn deed(app: &App) -> Option<Deed> {
    let group = group(app)?;
    let letters = chosen(app);
    if letters.is_empty() {
        return None;
    }
    let mut words = vec!["dlq".to_owned(), "resend".to_owned(), group.clone()];
    let all = self::letters(app).ok().flatten().is_some_and(|found| {
        found.failed.is_empty()
            && letters.len() == found.rows.len()
            && i64::try_from(found.rows.len()).is_ok_and(|n| n == found.of)
    });
    if all && letters.len() > 1 {
        words.push("--all".into());
    } else {
        words.extend(letters.iter().map(|m| format!("--id={}", m.offset_id)));
    }
    if app.dead.target == Target::Retry {
        words.push("--to-retry".into());
    }
    Some(Deed {
        words,
        about: Some(Subject::Group(group)),
    })
}

/// Runs a command of the screen. False when it is none.
pub(super) fn run(app: &mut App, command: Command, actions: &mut Vec<Action>) -> bool {
    match command {
        Command::ResendTarget => {
            app.dead.target = match app.dead.target {
                Target::Origin => Target::Retry,
                Target::Retry => Target::Origin,
            };
        }
        Command::Resend => match deed(app) {
            Some(deed) if deed.words.len() > NAMED => {
                let all = app.key(Command::MarkAll);
                app.say(format!(
                    "at most {NAMED} letters can be named; mark fewer, or all with {all}"
                ));
            }
            Some(deed) => app.begin(deed, actions),
            None => app.say("no letter is selected"),
        },
        Command::MakeReadable => match group(app) {
            Some(group) => {
                let topic = topic_of(&group);
                let deed = Deed::new(["topic", "update", topic.as_str(), "--perm", "6"]);
                app.begin(deed.about(Subject::Topic(topic)), actions);
            }
            None => app.say("no group is selected"),
        },
        _ => return false,
    }
    true
}

/// `enter`: from a group to its letters, from a letter to all of it.
pub(super) fn open(app: &mut App) {
    if app.focus() == Pane::DeadGroups {
        app.focus.insert(Screen::Dead, Pane::Letters);
        return;
    }
    let table = app.table(Pane::Letters);
    let letter = app.selected(Pane::Letters, &table).and_then(|at| {
        letters(app)
            .ok()??
            .rows
            .iter()
            .find(|m| Mark::is(&table.rows[at].id, m))
    });
    let Some(letter) = letter else {
        return app.say("no letter is selected");
    };
    let search = Search {
        mode: Mode::Id,
        words: vec![format!("--id={}", letter.offset_id)],
        ..Search::live(&letter.topic)
    };
    let place = Place::about(Screen::Messages, Subject::Topic(search.topic.clone()));
    app.messages.search = Some(search);
    app.visit(place);
}

/// Marked letters, or all that are shown, as JSON lines.
pub fn export(app: &App) -> Option<String> {
    Some(messages::written(app, Pane::Letters, &letters(app).ok()??.rows))
}
