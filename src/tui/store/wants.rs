//! Which questions the store screens have now. Pure.

use std::time::Duration;

use super::answer::{IndexRow, Page};
use super::question::{At, Question, What};
use super::{Lookup, at_entry, entry_position, index_file, is_at_end, log_position, log_row, wire};
use crate::tui::app::App;
use crate::tui::place::Screen;

/// Pause between two looks at the end of a log that a broker writes to.
const TAIL: Duration = Duration::from_secs(1);
/// Pause between two looks at what moves slower.
const SLOW: Duration = Duration::from_secs(5);
/// Pause between two looks at positions over the wire: a question for each group.
const POSITIONS: Duration = Duration::from_secs(15);
/// Rows before the end of a page at which the next one is asked for; fewer in a page of few, large records.
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
    let state = &app.store;
    // Passes go on while other screens are shown.
    let mut out: Vec<(Question, Option<Duration>)> = state
        .running
        .iter()
        .map(|question| (question.clone(), None))
        .collect();
    if !super::is_here(app) {
        return out;
    }
    let Some((root, commit_log)) = state.about.clone() else {
        return out;
    };
    if state.is_wire() && matches!(app.place.screen, Screen::Store | Screen::StoreQueues) {
        return out;
    }
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
    want(What::Glance, live(TAIL));
    match app.place.screen {
        Screen::Store => {
            let log = &state.log;
            let (at, grows) = match log.goal {
                Some(goal) => (goal, false),
                None => next(&log.page, log.at, log.refused, log_position(app), |row| {
                    At::Offset(row.at)
                }),
            };
            let topic = state.topic.clone();
            want(What::Log { at, topic }, live(TAIL).filter(|_| grows));
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
                let (at, grows) = entries(app);
                let what = What::Queue {
                    topic: topic.clone(),
                    queue: *queue,
                    at,
                };
                want(what, live(TAIL).filter(|_| grows));
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
        Screen::StoreChecks => {
            want(What::Checks, None);
            // Asked anew after each run.
            if !state.runs(|what| matches!(what, What::Verify { .. })) {
                want(What::Kept { run: state.next_run }, None);
            }
        }
        _ => {}
    }
    out
}

/// Where the page of the queue lies that is wanted now, and whether more may come behind it.
fn entries(app: &App) -> (At, bool) {
    let entries = &app.store.entries;
    match entries.goal {
        Some(goal) => (goal, false),
        None => next(
            &entries.page.page,
            entries.at,
            entries.refused,
            entry_position(app),
            at_entry,
        ),
    }
}

/// Questions to the broker that stands in for its files, and how often each is asked.
pub fn wire_wants(app: &App) -> Vec<(wire::Question, Option<Duration>)> {
    let state = &app.store;
    let (Some(broker), true) = (&state.wire, super::is_here(app)) else {
        return Vec::new();
    };
    let mut out = Vec::new();
    let queue = state.queue.as_ref();
    match app.place.screen {
        Screen::Store => {
            if let (Some(row), Some((topic, _))) = (log_row(app), queue) {
                let question = wire::Question::Record {
                    broker: broker.clone(),
                    topic: topic.clone(),
                    at: row.at,
                };
                out.push((question, None));
            }
        }
        Screen::StoreQueues => {
            out.push((wire::Question::Topics, None));
            if let Some((topic, queue)) = queue {
                let question = wire::Question::Topic {
                    topic: topic.clone(),
                    broker: broker.clone(),
                };
                out.push((question, Some(POSITIONS)));
                // The queues come first: who has read them is told in their list.
                if !broker.is_empty() && state.queues.value.is_some() {
                    let question = wire::Question::Positions {
                        topic: topic.clone(),
                        broker: broker.clone(),
                    };
                    out.push((question, Some(POSITIONS)));
                }
                if !broker.is_empty() {
                    let (at, grows) = entries(app);
                    let question = wire::Question::Queue {
                        broker: broker.clone(),
                        topic: topic.clone(),
                        queue: *queue,
                        at,
                    };
                    out.push((question, Some(SLOW).filter(|_| grows)));
                }
            }
        }
        _ => {}
    }
    out
}

/// Where the page lies that is wanted now, and whether more may come behind it. `at` is where it was asked for, and
/// `place` that of a row.
fn next<T>(
    page: &Page<T>,
    at: At,
    refused: Option<At>,
    position: Option<usize>,
    place: impl Fn(&T) -> At,
) -> (At, bool) {
    let Some(n) = position else {
        return (at, page.is_last);
    };
    let edge = EDGE.min(page.rows.len() / 4).max(1);
    // A page that was refused is asked for again from the very edge, where it must fit.
    let turn = |row: Option<&T>, is_edge: bool| {
        let there = place(row?);
        (is_edge || refused != Some(there)).then_some(there)
    };
    if n < edge
        && !page.is_first
        && let Some(there) = turn(page.rows.first(), n == 0)
    {
        return (there, false);
    }
    if n + edge >= page.rows.len()
        && !page.is_last
        && let Some(there) = turn(page.rows.last(), n + 1 == page.rows.len())
    {
        return (there, false);
    }
    if is_at_end(page, position) {
        return (At::Newest, true);
    }
    (at, page.is_last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(rows: u64) -> Page<u64> {
        Page {
            rows: (0..rows).map(|n| 1000 + n).collect(),
            focus: None,
            is_first: false,
            is_last: false,
        }
    }

    fn at(page: &Page<u64>, refused: Option<At>, n: usize) -> (At, bool) {
        next(page, At::Offset(7), refused, Some(n), |row| At::Offset(*row))
    }

    #[test]
    fn a_short_page_is_turned_at_its_own_edge() {
        let long = page(250);
        assert_eq!(at(&long, None, 39), (At::Offset(1000), false));
        assert_eq!(at(&long, None, 40), (At::Offset(7), false));
        assert_eq!(at(&long, None, 210), (At::Offset(1249), false));
        // Of 60 large records those in the middle stay where they are.
        let short = page(60);
        assert_eq!(at(&short, None, 39), (At::Offset(7), false));
        assert_eq!(at(&short, None, 14), (At::Offset(1000), false));
        let refused = Some(At::Offset(1000));
        assert_eq!(at(&short, refused, 14), (At::Offset(7), false));
        assert_eq!(at(&short, refused, 0), (At::Offset(1000), false));
    }

    #[test]
    fn only_the_last_row_follows_the_end() {
        let mut last = page(250);
        last.is_last = true;
        assert_eq!(at(&last, None, 249), (At::Newest, true));
        assert_eq!(at(&last, None, 248), (At::Offset(7), true));
    }
}
