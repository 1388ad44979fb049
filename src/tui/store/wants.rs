//! Which questions the store screens have now. Pure.

use std::time::Duration;

use super::answer::IndexRow;
use super::question::{At, Question, What};
use super::{Lookup, entry_position, index_file, log_position, log_row, root};
use crate::tui::app::App;
use crate::tui::place::Screen;

/// Pause between two looks at the end of a log that a broker writes to.
const TAIL: Duration = Duration::from_secs(1);
/// Pause between two looks at what moves slower.
const SLOW: Duration = Duration::from_secs(5);
/// Rows before the end of a page at which the next one is asked for.
const EDGE: usize = 40;
/// Bytes up to which the chains of an index file are counted without being asked.
pub const SMALL: u64 = 64 * 1024 * 1024;

/// Bytes that are read to count the chains of an index file.
pub fn to_read(file: &IndexRow) -> u64 {
    let items = u64::try_from(file.items.0).unwrap_or(0);
    file.slots
        .1
        .unwrap_or(0)
        .saturating_mul(4)
        .saturating_add(items.saturating_mul(20))
}

/// Questions, and how often each is asked.
pub fn wants(app: &App) -> Vec<(Question, Option<Duration>)> {
    let mut out = Vec::new();
    let Some((root, commit_log)) = root(app) else {
        return out;
    };
    let state = &app.store;
    let live = |pause| state.is_live().then_some(pause);
    let mut want = |what: What, every: Option<Duration>| {
        let question = Question {
            root: root.clone(),
            commit_log: commit_log.clone(),
            what,
        };
        if !out.iter().any(|(other, _)| *other == question) {
            out.push((question, every));
        }
    };
    // Passes go on while other screens are shown.
    for what in &state.running {
        want(what.clone(), None);
    }
    if !super::is_here(app) {
        return out;
    }
    want(What::Glance, live(TAIL));
    match app.place.screen {
        Screen::Store => {
            let page = &state.log.page;
            let at = |at| What::Log {
                at,
                topic: state.topic.clone(),
            };
            match (state.log.goal, log_position(app)) {
                (Some(goal), _) => want(at(goal), None),
                (None, Some(n)) if n < EDGE && !page.is_first => {
                    want(at(At::Offset(page.rows[0].at)), None);
                }
                (None, Some(n)) if n + EDGE >= page.rows.len() && !page.is_last => {
                    want(at(At::Offset(page.rows[page.rows.len() - 1].at)), None);
                }
                _ => want(at(state.log.at), live(TAIL).filter(|_| page.is_last)),
            }
            if state.topic.is_some() || app.overlay.is_some() {
                want(What::Topics, None);
            }
            if let Some(row) = log_row(app) {
                want(What::Record(row.at), None);
            }
        }
        Screen::StoreQueues => {
            want(What::Topics, None);
            if let Some((topic, queue)) = &state.queue {
                let page = &state.entries.page.page;
                let at = |at| What::Queue {
                    topic: topic.clone(),
                    queue: *queue,
                    at,
                };
                let edge = |row: &super::QueueRow| At::Offset(u64::try_from(row.offset).unwrap_or(0));
                match (state.entries.goal, entry_position(app)) {
                    (Some(goal), _) => want(at(goal), None),
                    (None, Some(n)) if n < EDGE && !page.is_first => want(at(edge(&page.rows[0])), None),
                    (None, Some(n)) if n + EDGE >= page.rows.len() && !page.is_last => {
                        want(at(edge(&page.rows[page.rows.len() - 1])), None);
                    }
                    _ => want(at(state.entries.at), live(TAIL).filter(|_| page.is_last)),
                }
                want(What::Topic(topic.clone()), live(SLOW));
            }
        }
        Screen::StoreIndex => {
            want(What::Index, live(SLOW));
            if let Some(file) = index_file(app)
                && to_read(file) <= SMALL
                && file.items.0 > 0
                && file.slots.1.is_some()
                && !state.runs(|what| matches!(what, What::Survey { file: of, .. } if *of == file.name))
            {
                want(
                    What::Survey {
                        file: file.name.clone(),
                        run: 0,
                    },
                    None,
                );
            }
            match &state.lookup {
                Lookup::Nothing | Lookup::Hottest => {}
                Lookup::Key { topic, key } => want(
                    What::Key {
                        topic: topic.clone(),
                        key: key.clone(),
                    },
                    None,
                ),
                Lookup::Slot { file, slot } => want(
                    What::Slot {
                        file: file.clone(),
                        slot: *slot,
                    },
                    None,
                ),
            }
        }
        Screen::StoreChecks => want(What::Checks, None),
        _ => {}
    }
    out
}
