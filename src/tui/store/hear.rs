//! What answers do to the state. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::{Answer, Page};
use super::question::{At, Question, What};
use super::{
    Heard, Lookup, entry_id, entry_position, hold_entries, hold_log, is_at_end, log_id, log_position, wire,
};
use crate::client::admin::topic::kind;
use crate::client::snapshot::TopicKind;
use crate::tui::app::App;
use crate::tui::place::{Pane, Part};

/// Rows shown above the one that was gone to.
const LEAD: usize = 4;
/// Surveys and checks of queues that are remembered.
const KEPT: usize = 64;

fn put<T>(heard: &mut Heard<T>, value: T) {
    *heard = Heard {
        value: Some(value),
        error: None,
    };
}

/// Takes an answer in.
pub fn hear(app: &mut App, question: &Question, answer: Result<Answer, String>) {
    let state = &app.store;
    let is_shown = state
        .about
        .as_ref()
        .is_some_and(|(root, commit_log)| (root, commit_log) == (&question.root, &question.commit_log));
    let is_running = state.running.contains(question);
    // What a pass that was stopped still tells is no news; run 0 is a survey that was not asked for.
    let is_wanted = match question.what {
        What::Survey { run: 0, .. } => is_shown,
        ref what if what.is_pass() => is_running,
        // What a broker is asked now comes from nowhere else.
        ref what => is_shown && !(what.is_shared() && state.is_wire()),
    };
    if !is_wanted {
        return;
    }
    app.store.version += 1;
    match answer {
        Err(why) => {
            failed(app, &question.what, why);
            finish(app, question, true);
        }
        Ok(answer) => {
            let over = told(app, &question.what, answer);
            finish(app, question, over);
        }
    }
}

/// Takes in what a broker answered in place of its files.
pub fn hear_wire(app: &mut App, question: &wire::Question, answer: Result<Answer, String>) {
    let of = question.broker();
    // None is chosen at first.
    let is_wanted = app
        .store
        .wire
        .as_ref()
        .is_some_and(|broker| of.is_empty() || of == broker);
    if !is_wanted {
        return;
    }
    app.store.version += 1;
    match (question.what(), answer) {
        (None, answer) => hear_positions(app, question, answer),
        (Some(what), Err(why)) => failed(app, &what, why),
        // None of these is a pass.
        (Some(what), Ok(answer)) => {
            told(app, &what, answer);
        }
    }
}

fn hear_positions(app: &mut App, question: &wire::Question, answer: Result<Answer, String>) {
    let state = &mut app.store;
    let wire::Question::Positions { topic, .. } = question else {
        return;
    };
    let is_shown = state.queue.as_ref().is_some_and(|(shown, _)| shown == topic);
    let Some(queues) = state.queues.value.as_mut().filter(|_| is_shown) else {
        return;
    };
    match answer {
        Ok(Answer::Positions(positions)) => queues.positions = Some(positions),
        Ok(_) => {}
        // What was known stays.
        Err(why) => queues.positions.get_or_insert_default().problem = Some(why),
    }
}

fn failed(app: &mut App, what: &What, why: String) {
    let state = &mut app.store;
    let why = Some(why);
    match what {
        What::Glance => state.glance.error = why,
        What::Log { at, .. } => {
            if state.log.goal == Some(*at) {
                state.log.goal = None;
                state.log.at = *at;
            }
            state.log.error = why;
        }
        What::Record(_) => {
            state.record = Heard {
                value: None,
                error: why,
            };
        }
        What::Topics => state.topics.error = why,
        What::Topic(_) => state.queues.error = why,
        What::Queue { at, .. } => {
            if state.entries.goal == Some(*at) {
                state.entries.goal = None;
                state.entries.at = *at;
            }
            state.entries.error = why;
        }
        What::Index => state.index.error = why,
        What::Slot { .. } => {
            state.chain = Heard {
                value: None,
                error: why,
            };
        }
        What::Key { .. } => {
            state.key = Heard {
                value: None,
                error: why,
            };
        }
        What::Checks => state.checks.error = why,
        What::Kept { .. } => state.kept = None,
        What::Verify { .. } => state.verify.error = why,
        What::CheckQueue { .. } | What::Survey { .. } => {
            if let Some(why) = why {
                app.say(why);
            }
        }
    }
}

/// Remembers something by a name; the first by name goes when there are too many.
fn remember<K: Ord, T>(map: &mut BTreeMap<K, T>, name: K, value: T) {
    if map.len() >= KEPT && !map.contains_key(&name) {
        map.pop_first();
    }
    map.insert(name, value);
}

/// True when a pass is over.
fn told(app: &mut App, what: &What, answer: Answer) -> bool {
    let state = &mut app.store;
    match (what, answer) {
        (What::Glance, Answer::Glance(glance)) => put(&mut state.glance, glance),
        (What::Log { at, topic }, Answer::Log(page)) if *topic == state.topic => {
            let is_goal = state.log.goal == Some(*at);
            let ids: Vec<String> = page.rows.iter().map(log_id).collect();
            let focus = page.rows.iter().position(|row| Some(row.at) == page.focus);
            let follows = *at == At::Newest && !is_goal && is_at_end(&app.store.log.page, log_position(app));
            if follows && let Some(last) = ids.last() {
                select(app, Pane::Store(Part::Log), last.clone());
            }
            let must = is_goal || follows || *at == app.store.log.at;
            if settle(app, Pane::Store(Part::Log), &ids, focus.filter(|_| is_goal), must) {
                let log = &mut app.store.log;
                if is_goal {
                    log.goal = None;
                }
                // The page that is shown, read again, refutes nothing.
                if log.at != *at {
                    log.refused = None;
                }
                (log.at, log.page, log.error, log.is_known) = (*at, page, None, true);
                hold_log(app);
            } else {
                app.store.log.refused = Some(*at);
            }
        }
        (What::Record(at), Answer::Record(record)) => {
            let is_other = state.record.value.as_ref().is_none_or(|old| old.at != *at);
            let field = state.spot.field;
            put(&mut state.record, *record);
            if is_other {
                // The same field of the next record, so that a column of values can be read.
                state.spot = state.spot_on(field);
            }
        }
        (What::Topics, Answer::Topics(topics)) => {
            if state.queue.is_none() {
                let own = topics
                    .iter()
                    .find(|topic| kind(topic, &BTreeSet::new()) == TopicKind::User);
                state.queue = own.or(topics.first()).map(|topic| (topic.clone(), 0));
            }
            put(&mut state.topics, topics);
        }
        (What::Topic(topic), Answer::Topic(mut queues)) => {
            if let Some((of, queue)) = &mut state.queue
                && *of == *topic
            {
                // A topic may have queues without the one that was guessed, and on other brokers.
                let broker = state.wire.clone().unwrap_or_default();
                let lines = &queues.queues;
                let has = lines.iter().any(|l| l.queue == *queue && l.broker == broker);
                let other = lines.iter().find(|l| l.queue == *queue).or(lines.first());
                // A broker that does not answer is not left for another one.
                let is_silent = queues.problem.is_some() && !broker.is_empty();
                let is_left = !has && !is_silent;
                if state.wire.is_some() && !is_left {
                    let known = state.queues.value.take();
                    queues.positions = known.and_then(|known| known.positions);
                }
                if is_left && let Some(other) = other {
                    let goal = state.entries.goal.filter(|_| *queue == other.queue);
                    *queue = other.queue;
                    if let Some(broker) = &mut state.wire {
                        broker.clone_from(&other.broker);
                    }
                    state.entries.anew(goal.unwrap_or(At::Newest));
                }
                put(&mut state.queues, queues);
            }
        }
        (What::Queue { topic, queue, at }, Answer::Queue(mut page)) => {
            if state.queue.as_ref() != Some(&(topic.clone(), *queue)) {
                return false;
            }
            let is_goal = state.entries.goal == Some(*at);
            let ids: Vec<String> = page.page.rows.iter().map(entry_id).collect();
            let wanted = page.page.focus.map(|index| index.to_string());
            let focus = wanted.and_then(|id| ids.iter().position(|other| *other == id));
            let follows =
                *at == At::Newest && !is_goal && is_at_end(&app.store.entries.page.page, entry_position(app));
            if follows && let Some(last) = ids.last() {
                select(app, Pane::Store(Part::Entries), last.clone());
            }
            let must = is_goal || follows || *at == app.store.entries.at;
            let records = std::mem::take(&mut page.records);
            if settle(
                app,
                Pane::Store(Part::Entries),
                &ids,
                focus.filter(|_| is_goal),
                must,
            ) {
                let entries = &mut app.store.entries;
                if is_goal {
                    entries.goal = None;
                }
                if entries.at != *at {
                    entries.refused = None;
                }
                (entries.at, entries.page, entries.error, entries.is_known) = (*at, page, None, true);
                if app.store.is_wire() {
                    let log = &mut app.store.log;
                    (log.goal, log.is_known, log.error) = (None, true, None);
                    log.page = Page {
                        rows: records,
                        ..Page::default()
                    };
                }
                hold_entries(app);
            } else {
                app.store.entries.refused = Some(*at);
            }
        }
        (What::CheckQueue { topic, queue, .. }, Answer::CheckQueue(sums)) => {
            let over = sums.over;
            remember(&mut state.sums, (topic.clone(), *queue), sums);
            return over;
        }
        (What::Index, Answer::Index(files)) => put(&mut state.index, files),
        (What::Survey { file, .. }, Answer::Survey(seen)) => {
            let over = seen.survey.is_some();
            remember(&mut state.surveys, file.clone(), *seen);
            return over;
        }
        (What::Slot { file, slot }, Answer::Slot(chain)) => {
            let wanted = Lookup::Slot {
                file: file.clone(),
                slot: *slot,
            };
            if state.lookup == wanted {
                put(&mut state.chain, chain);
            }
        }
        (What::Key { topic, key }, Answer::Key(found)) => {
            let wanted = Lookup::Key {
                topic: topic.clone(),
                key: key.clone(),
            };
            if state.lookup != wanted {
                return false;
            }
            // The file that has it comes to the front.
            let file = found.chains.iter().find(|chain| chain.walk.sums.1 > 0);
            let file = file.map(|chain| chain.file.clone());
            put(&mut state.key, found);
            if let Some(file) = file {
                select(app, Pane::Store(Part::Files), file);
            }
        }
        (What::Checks, Answer::Checks(checks)) => put(&mut state.checks, *checks),
        (What::Kept { .. }, Answer::Kept(at)) => state.kept = at,
        (What::Verify { .. }, Answer::Verify(seen)) => {
            let over = seen.ended.is_some();
            put(&mut state.verify, *seen);
            return over;
        }
        _ => {}
    }
    false
}

fn finish(app: &mut App, question: &Question, over: bool) {
    if over {
        app.store.running.retain(|other| other != question);
    }
}

/// Selects a row of a pane by its identity.
pub(super) fn select(app: &mut App, pane: Pane, id: String) {
    app.panes.entry(pane).or_default().selected = Some(id);
}

/// Brings the selection over to a new page: to `focus`, or to where it was, which stays in the same line. A page that
/// has nothing to do with what is selected is refused, unless it `must` be shown.
fn settle(app: &mut App, pane: Pane, ids: &[String], focus: Option<usize>, must: bool) -> bool {
    let state = app.panes.entry(pane).or_default();
    let here = state
        .selected
        .as_ref()
        .and_then(|id| ids.iter().position(|other| other == id));
    let Some(index) = focus.or(here) else {
        if !must && state.selected.is_some() {
            return false;
        }
        // What was selected is gone: its neighbour.
        let index = state.index.min(ids.len().saturating_sub(1));
        state.selected = ids.get(index).cloned();
        state.index = index;
        return true;
    };
    // A row that was shown stays in its line.
    state.offset = match here {
        Some(now) if now == index => (state.offset + index).saturating_sub(state.index),
        _ => index.saturating_sub(LEAD),
    };
    state.index = index;
    state.selected = ids.get(index).cloned();
    true
}
