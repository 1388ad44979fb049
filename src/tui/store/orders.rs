//! What the keys of the store screens do. Pure.

use super::answer::Kind;
use super::prompt::{Prompt, look_up, show_queue, show_queue_of};
use super::question::{At, What};
use super::{
    LIMITS, Leap, Lookup, entry_id, entry_position, entry_row, hear, index_file, log_id, log_position,
    log_row,
};
use crate::client::findings::Subject;
use crate::client::snapshot::BrokerId;
use crate::tui::app::{Action, App, Overlay};
use crate::tui::input::Input;
use crate::tui::keys::Command;
use crate::tui::place::{Pane, Part, Place, Screen};
use crate::tui::view::layout;

/// A command of the store screens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Show the commit log.
    Log,
    /// Show the queue of the record, or the last one.
    Queues,
    /// Show the index, and what it has for the record.
    Index,
    /// Show checkpoint and findings.
    Checks,
    /// A quick verification; on the queue and index screens of what is shown.
    Verify,
    /// A full verification, from where one was stopped.
    VerifyFull,
    /// A full verification from the begin of the log.
    VerifyAnew,
    /// Type an offset or slot.
    Goto,
    /// Type a time.
    Time,
    /// Type a topic or key.
    Name,
    /// Previous segment or file.
    Earlier,
    /// Next segment or file.
    Later,
    /// Bytes, or the list again.
    Hex,
    /// The queue that a delayed or half message is meant for.
    Real,
    /// The longest chains.
    Hottest,
    /// End the pass that runs.
    Stop,
    /// Next queue of the topic.
    NextQueue,
    /// Previous queue of the topic.
    PreviousQueue,
    /// Another limit for verifications.
    Limit,
    /// Findings of another severity.
    Severity,
    /// Write the report of the verification.
    Report,
    /// Ask a broker in place of its files, or the files again.
    Source,
}

/// Does what a command means on a store screen; false when it means what it means everywhere.
pub fn run(app: &mut App, command: Command, actions: &mut Vec<Action>) -> bool {
    if !super::is_here(app) {
        return false;
    }
    let page = layout::page(app, app.focus()).max(1);
    app.store.version += 1;
    match command {
        Command::Store(order) => obey(app, order, actions),
        Command::Down => return step(app, 1),
        Command::Up => return step(app, -1),
        Command::HalfPageDown => return step(app, half(page)),
        Command::HalfPageUp => return step(app, -half(page)),
        Command::PageDown => return step(app, whole(page)),
        Command::PageUp => return step(app, -whole(page)),
        Command::First => return end(app, true),
        Command::Last => return end(app, false),
        Command::Left => return sideways(app, -1),
        Command::Right => return sideways(app, 1),
        Command::Open => open(app),
        Command::Back => return back(app),
        _ => return false,
    }
    true
}

fn whole(page: usize) -> isize {
    isize::try_from(page).unwrap_or(isize::MAX)
}

fn half(page: usize) -> isize {
    whole(page.div_ceil(2))
}

/// Moves the cursor of the focused pane.
fn step(app: &mut App, by: isize) -> bool {
    let moved = |at: usize, len: usize| at.saturating_add_signed(by).min(len.saturating_sub(1));
    match app.focus() {
        Pane::Store(Part::Log) => {
            let rows = &app.store.log.page.rows;
            if let Some(row) = log_position(app).and_then(|at| rows.get(moved(at, rows.len()))) {
                let id = log_id(row);
                app.store.log.goal = None;
                hear::select(app, Pane::Store(Part::Log), id);
                super::hold_log(app);
            }
        }
        Pane::Store(Part::Entries) => {
            let rows = &app.store.entries.page.page.rows;
            if let Some(row) = entry_position(app).and_then(|at| rows.get(moved(at, rows.len()))) {
                let id = entry_id(row);
                app.store.entries.goal = None;
                hear::select(app, Pane::Store(Part::Entries), id);
                super::hold_entries(app);
            }
        }
        Pane::Store(Part::Files) => {
            let files = app.store.index.value.as_deref().unwrap_or_default();
            let here =
                index_file(app).and_then(|file| files.iter().position(|other| other.name == file.name));
            if let Some(file) = here.and_then(|at| files.get(moved(at, files.len()))) {
                let id = file.name.clone();
                hear::select(app, Pane::Store(Part::Files), id);
            }
        }
        Pane::Store(Part::Tree) => {
            app.store.spot = app.store.spot_on(app.store.spot.field.saturating_add_signed(by))
        }
        Pane::Store(Part::Hex) => {
            let width = isize::try_from(super::view::hex_width(app)).unwrap_or(16);
            sideways(app, by.saturating_mul(width));
        }
        Pane::Store(Part::Heat) => {
            let columns = isize::try_from(super::view::heat_shape(app).0).unwrap_or(1);
            sideways(app, by.saturating_mul(columns));
        }
        _ => return false,
    }
    true
}

fn sideways(app: &mut App, by: isize) -> bool {
    match app.focus() {
        Pane::Store(Part::Hex) => {
            let byte = app.store.spot.byte.saturating_add_signed(by);
            app.store.spot = app.store.spot_at(byte);
        }
        Pane::Store(Part::Heat) => {
            let cells = super::view::heat_count(app);
            let here = super::view::heat_cell(app, cells);
            let there = here.saturating_add_signed(by).min(cells - 1);
            // The middle of the cell, so that it stays the same one when the terminal is resized.
            app.store.cell = (there * 2 + 1) * super::view::FINE / (cells * 2);
        }
        _ => return false,
    }
    true
}

/// To the first or last record, entry, field or byte.
fn end(app: &mut App, first: bool) -> bool {
    let at = if first { At::Oldest } else { At::Newest };
    match app.focus() {
        Pane::Store(Part::Log) if app.store.is_wire() => {
            let rows = &app.store.log.page.rows;
            let row = if first { rows.first() } else { rows.last() };
            if let Some(id) = row.map(log_id) {
                hear::select(app, Pane::Store(Part::Log), id);
            }
        }
        Pane::Store(Part::Log) => app.store.log.goal = Some(at),
        Pane::Store(Part::Entries) => app.store.entries.goal = Some(at),
        Pane::Store(Part::Tree) => app.store.spot = app.store.spot_on(if first { 0 } else { usize::MAX }),
        Pane::Store(Part::Hex) => app.store.spot = app.store.spot_at(if first { 0 } else { usize::MAX }),
        Pane::Store(Part::Heat) => app.store.cell = if first { 0 } else { super::view::FINE - 1 },
        Pane::Store(Part::Files) => {
            let files = app.store.index.value.as_deref().unwrap_or_default();
            let file = if first { files.first() } else { files.last() };
            if let Some(id) = file.map(|file| file.name.clone()) {
                hear::select(app, Pane::Store(Part::Files), id);
            }
        }
        _ => return false,
    }
    true
}

/// Where we are, to come back to.
fn here(app: &App) -> Option<Leap> {
    match app.place.screen {
        Screen::Store => log_row(app).map(|row| Leap::Log(row.at)),
        Screen::StoreQueues => {
            let (topic, queue) = app.store.queue.clone()?;
            let offset = entry_row(app).map_or(0, |row| row.offset);
            Some(Leap::Queue(topic, queue, offset))
        }
        Screen::StoreIndex => Some(Leap::Index),
        Screen::StoreChecks => Some(Leap::Checks),
        _ => None,
    }
}

fn go(app: &mut App, screen: Screen) {
    let about = app.place.about.clone();
    app.visit(Place { screen, about });
}

fn leap_to(app: &mut App, screen: Screen) {
    if let Some(from) = here(app) {
        app.store.leap(from);
    }
    go(app, screen);
}

fn show_record(app: &mut App, at: u64) {
    leap_to(app, Screen::Store);
    app.store.topic = None;
    super::seek(app, at);
    app.focus.insert(Screen::Store, Pane::Store(Part::Log));
}

/// Shows the bytes of a record; `esc` leads back to where we are. `broker` says whose store it is where none was named.
pub fn show_bytes(app: &mut App, broker: Option<BrokerId>, at: u64) {
    app.store.version += 1;
    let from = app.place.clone();
    app.visit(Place {
        screen: Screen::Store,
        about: broker.map(Subject::Broker),
    });
    super::follow(app);
    app.store.leaps = vec![Leap::Elsewhere(from)];
    app.store.topic = None;
    app.store.log.anew(At::Offset(at));
    app.store.record = super::Heard::default();
    app.focus.insert(Screen::Store, Pane::Store(Part::Hex));
}

fn show_entry(app: &mut App, topic: String, queue: i32, at: At) {
    leap_to(app, Screen::StoreQueues);
    show_queue(app, topic, queue, at);
    app.focus.insert(Screen::StoreQueues, Pane::Store(Part::Entries));
}

/// `enter`: from a record to its entry and back, from a key or finding to its record.
fn open(app: &mut App) {
    match app.focus() {
        Pane::Store(Part::Log) | Pane::Store(Part::Hex) | Pane::Store(Part::Tree) => match log_row(app) {
            Some(row) => match (row.kind, row.queue) {
                (Kind::Record(_) | Kind::Stale, Some((queue, offset))) if offset >= 0 => {
                    let (topic, offset) = (row.topic.clone(), offset.unsigned_abs());
                    show_entry(app, topic, queue, At::Offset(offset));
                }
                _ => app.say("no queue entry leads here"),
            },
            None => app.say("no record is selected"),
        },
        Pane::Store(Part::Entries) => match entry_row(app).and_then(|row| row.record) {
            Some((at, _)) if at >= 0 => show_record(app, at.unsigned_abs()),
            _ => app.say("this entry leads to no record"),
        },
        Pane::Store(Part::QueueList) => {
            let table = app.table(Pane::Store(Part::QueueList));
            let chosen = app
                .selected(Pane::Store(Part::QueueList), &table)
                .map(|n| table.rows[n].id.clone());
            let queues = app.store.queues.value.as_ref();
            let line = queues.and_then(|queues| queues.queues.iter().find(|line| Some(line.id()) == chosen));
            if let (Some(line), Some((topic, _))) = (line.cloned(), app.store.queue.clone()) {
                show_queue_of(app, line.broker, topic, line.queue, At::Newest);
                app.focus.insert(Screen::StoreQueues, Pane::Store(Part::Entries));
            }
        }
        Pane::Store(Part::Positions) => {
            let table = app.table(Pane::Store(Part::Positions));
            let group = app
                .selected(Pane::Store(Part::Positions), &table)
                .map(|n| table.rows[n].id.clone());
            let queue = app.store.queue.as_ref().map(|(_, queue)| *queue);
            let queues = app.store.queues.value.as_ref();
            let positions = queues.and_then(|queues| queues.positions.as_ref());
            let offset = group.and_then(|group| positions?.groups.get(&group)?.get(&queue?).copied());
            match offset.and_then(|offset| u64::try_from(offset).ok()) {
                Some(offset) => {
                    app.store.entries.goal = Some(At::Offset(offset));
                    app.focus.insert(Screen::StoreQueues, Pane::Store(Part::Entries));
                }
                None => app.say("no position in this queue"),
            }
        }
        Pane::Store(Part::Heat) => {
            let count = super::view::heat_count(app);
            let cells = super::view::heat_cells(app, count);
            let cell = cells.get(super::view::heat_cell(app, count));
            let file = index_file(app).map(|file| file.name.clone());
            match (cell.filter(|cell| cell.items > 0), file) {
                (Some(cell), Some(file)) => look_up(
                    app,
                    Lookup::Slot {
                        file,
                        slot: cell.longest_slot,
                    },
                ),
                _ => app.say("no slot of this cell leads to an item"),
            }
        }
        Pane::Store(Part::Lookup) => {
            let table = app.table(Pane::Store(Part::Lookup));
            let row = app
                .selected(Pane::Store(Part::Lookup), &table)
                .map(|n| table.rows[n].clone());
            let Some(row) = row else {
                let name = app.key(Command::Store(Order::Name));
                let slot = app.key(Command::Store(Order::Goto));
                return app.say(format!("nothing is looked up: {name} takes a key, {slot} a slot"));
            };
            match (&app.store.lookup, row.name.parse::<u64>(), index_file(app)) {
                (Lookup::Hottest, Ok(slot), Some(file)) => {
                    let (file, slot) = (file.name.clone(), u32::try_from(slot).unwrap_or(0));
                    look_up(app, Lookup::Slot { file, slot });
                }
                (Lookup::Hottest, ..) => {}
                (_, Ok(at), _) => show_record(app, at),
                (_, Err(_), _) => app.say("this item leads to no record"),
            }
        }
        Pane::Store(Part::Files) | Pane::Store(Part::Lengths) => {
            app.focus.insert(Screen::StoreIndex, Pane::Store(Part::Heat));
        }
        Pane::Store(Part::Findings) => open_finding(app),
        _ => app.say("nothing to open here"),
    }
}

fn open_finding(app: &mut App) {
    let table = app.table(Pane::Store(Part::Findings));
    let chosen = app
        .selected(Pane::Store(Part::Findings), &table)
        .and_then(|n| table.rows[n].id.parse::<usize>().ok());
    if super::verified(app) != app.store.about.clone().map(|(root, _)| root) {
        return app.say("this was found in another store");
    }
    let findings = app.store.verify.value.as_ref().map(|seen| &seen.findings);
    let Some(finding) = chosen.and_then(|n| findings?.get(n)).cloned() else {
        return app.say("nothing was found");
    };
    let file = finding.file.as_deref();
    let dir = file.and_then(|file| file.parent()?.file_name()?.to_str());
    match (finding.offset, dir, finding.subject.rsplit_once('@')) {
        (Some(at), Some("commitlog"), _) => show_record(app, at),
        (Some(at), _, None) if finding.subject == "commit log" => show_record(app, at),
        (at, _, Some((topic, queue))) if queue.parse::<i32>().is_ok() => {
            let place = at.map_or(At::Newest, At::Offset);
            show_entry(app, topic.to_owned(), queue.parse().unwrap_or(0), place);
        }
        (_, Some("index"), _) => {
            let name = file
                .and_then(|file| file.file_name()?.to_str())
                .map(str::to_owned);
            leap_to(app, Screen::StoreIndex);
            if let Some(name) = name {
                hear::select(app, Pane::Store(Part::Files), name);
            }
        }
        _ => app.say("this is about no record"),
    }
}

/// Back along the jumps; then as everywhere.
fn back(app: &mut App) -> bool {
    if app.zoom {
        return false;
    }
    if app.place.screen == Screen::Store && app.store.topic.is_some() {
        let at = log_row(app).map_or(At::Newest, |row| At::Offset(row.at));
        app.store.topic = None;
        app.store.log.goal = Some(at);
        return true;
    }
    match app.store.leaps.pop() {
        None => return false,
        Some(Leap::Log(at)) => {
            go(app, Screen::Store);
            super::seek(app, at);
        }
        Some(Leap::Queue(topic, queue, offset)) => {
            go(app, Screen::StoreQueues);
            show_queue(app, topic, queue, At::Offset(u64::try_from(offset).unwrap_or(0)));
        }
        Some(Leap::Index) => go(app, Screen::StoreIndex),
        Some(Leap::Checks) => go(app, Screen::StoreChecks),
        Some(Leap::Elsewhere(place)) => {
            // It is found as it was left.
            let (panes, filters, marks) = (app.panes.clone(), app.filters.clone(), app.marks.clone());
            app.visit(place);
            (app.panes, app.filters, app.marks) = (panes, filters, marks);
        }
    }
    true
}

fn obey(app: &mut App, order: Order, actions: &mut Vec<Action>) {
    match order {
        Order::Log => {
            app.store.leaps.clear();
            go(app, Screen::Store);
        }
        Order::Queues => {
            let record = log_row(app).filter(|_| app.place.screen == Screen::Store);
            let entry = record.and_then(|row| Some((row.topic.clone(), row.queue?)));
            match entry.filter(|(topic, _)| !topic.is_empty()) {
                Some((topic, (queue, offset))) => match u64::try_from(offset) {
                    Ok(offset) => show_entry(app, topic, queue, At::Offset(offset)),
                    Err(_) => app.say("no queue entry leads here"),
                },
                None => go(app, Screen::StoreQueues),
            }
        }
        Order::Index => {
            let record = log_row(app).filter(|_| app.place.screen == Screen::Store);
            let key = record.and_then(|row| {
                let key = row.keys.split(' ').find(|key| !key.is_empty())?;
                Some((row.topic.clone(), key.to_owned()))
            });
            leap_to(app, Screen::StoreIndex);
            if let Some((topic, key)) = key {
                let topic = Some(topic);
                look_up(app, Lookup::Key { topic, key });
            }
        }
        Order::Checks => go(app, Screen::StoreChecks),
        Order::Verify => match app.place.screen {
            Screen::StoreQueues => check_queue(app),
            Screen::StoreIndex => survey(app),
            _ => verify(app, false, false),
        },
        Order::VerifyFull => verify(app, true, false),
        Order::VerifyAnew => verify(app, true, true),
        Order::Goto => app.overlay = Some(Overlay::Store(Prompt::Goto, Input::default())),
        Order::Time => app.overlay = Some(Overlay::Store(Prompt::Time, Input::default())),
        Order::Name => {
            let text = match app.place.screen {
                Screen::Store => app.store.topic.clone().unwrap_or_default(),
                _ => String::new(),
            };
            app.overlay = Some(Overlay::Store(Prompt::Name, Input::new(text)));
        }
        Order::Earlier | Order::Later => turn(app, order == Order::Later),
        Order::Hex => {
            let to = match app.focus() {
                Pane::Store(Part::Hex) => Pane::Store(Part::Log),
                _ => Pane::Store(Part::Hex),
            };
            app.focus.insert(Screen::Store, to);
        }
        Order::Real => match log_row(app).map(|row| (row.real.clone(), row.stored_ms)) {
            Some((Some((topic, queue)), Some(at))) => show_entry(app, topic, queue, At::Time(at)),
            Some(_) => app.say("this record is where it wants to be"),
            None => app.say("no record is selected"),
        },
        Order::Hottest => look_up(app, Lookup::Hottest),
        Order::Stop => stop(app),
        Order::NextQueue | Order::PreviousQueue => next_queue(app, order == Order::NextQueue),
        Order::Limit => {
            let now = LIMITS
                .iter()
                .position(|limit| *limit == app.store.limit)
                .unwrap_or(0);
            app.store.limit = LIMITS[(now + 1) % LIMITS.len()];
            if app.store.runs(|what| matches!(what, What::Verify { .. })) {
                app.say("the limit holds from the next run on");
            }
        }
        Order::Severity => app.store.least_severity = (app.store.least_severity + 1) % 3,
        Order::Source => turn_source(app),
        Order::Report => match super::rows::report(app) {
            Some((name, text)) => actions.push(Action::Save(name, text)),
            None => app.say(format!(
                "nothing was verified yet: {} or {}",
                app.key(Command::Store(Order::Verify)),
                app.key(Command::Store(Order::VerifyFull))
            )),
        },
    }
}

fn verify(app: &mut App, full: bool, anew: bool) {
    if app.store.about.is_none() {
        return app.say("no store is shown");
    }
    if full {
        app.store.kept = None;
    }
    let limit = app.store.limit;
    app.store.start(|run| What::Verify {
        full,
        anew,
        limit,
        run,
    });
    app.store.verify = super::Heard::default();
    app.panes.remove(&Pane::Store(Part::Findings));
    go(app, Screen::StoreChecks);
}

/// To a broker in place of its files, or back to the files, at the same entry.
fn turn_source(app: &mut App) {
    if app.store.offline {
        return app.say("no broker can be asked: start with rmq tui -n HOST:PORT");
    }
    let at = entry_row(app)
        .and_then(|row| u64::try_from(row.offset).ok())
        .map_or(At::Newest, At::Offset);
    let broker = match app.store.wire {
        Some(_) => None,
        None => Some(app.place.broker().map_or_else(String::new, |id| id.name.clone())),
    };
    app.store.read_from(broker, at);
    for part in [Part::Log, Part::Entries, Part::QueueList, Part::Positions] {
        app.panes.remove(&Pane::Store(part));
    }
    go(app, Screen::StoreQueues);
    app.focus.insert(Screen::StoreQueues, Pane::Store(Part::Entries));
}

fn check_queue(app: &mut App) {
    if app.store.is_wire() {
        return app.say(format!(
            "over the wire entries are compared as they are shown; {}, then {} checks all of the files",
            app.key(Command::Store(Order::Source)),
            app.key(Command::Store(Order::Verify))
        ));
    }
    let Some((topic, queue)) = app.store.queue.clone() else {
        return app.say("no queue is shown");
    };
    app.store.sums.remove(&(topic.clone(), queue));
    app.store.start(|run| What::CheckQueue {
        topic: topic.clone(),
        queue,
        run,
    });
}

fn survey(app: &mut App) {
    let Some(file) = index_file(app).map(|file| file.name.clone()) else {
        return app.say("there is no index file");
    };
    app.store.surveys.remove(&file);
    app.store.start(|run| What::Survey {
        file: file.clone(),
        run,
    });
}

fn stop(app: &mut App) {
    let screen = app.place.screen;
    let before = app.store.running.len();
    app.store.running.retain(|question| {
        !matches!(
            (screen, &question.what),
            (Screen::StoreQueues, What::CheckQueue { .. })
                | (Screen::StoreIndex, What::Survey { .. })
                | (Screen::StoreChecks, What::Verify { .. })
        )
    });
    if app.store.running.len() == before {
        return app.say("nothing runs here");
    }
    if screen == Screen::StoreChecks
        && let Some(seen) = &mut app.store.verify.value
    {
        seen.ended = Some(super::answer::Ended::Stopped);
    }
    app.say("stopped; what was found stays");
}

/// To the segment or index file before or behind.
fn turn(app: &mut App, later: bool) {
    if app.place.screen == Screen::StoreIndex {
        let focus = app.focus();
        app.focus.insert(Screen::StoreIndex, Pane::Store(Part::Files));
        step(app, if later { 1 } else { -1 });
        app.focus.insert(Screen::StoreIndex, focus);
        return;
    }
    if app.store.is_wire() {
        let source = app.key(Command::Store(Order::Source));
        return app.say(format!("segments are seen in files only: {source}"));
    }
    let (Some(row), Some(glance)) = (log_row(app), &app.store.glance.value) else {
        return;
    };
    let at = row.at;
    let base = if later {
        glance
            .bases
            .iter()
            .copied()
            .find(|&base| base > at && base < glance.end)
    } else {
        glance.bases.iter().copied().rfind(|&base| base < at)
    };
    match base {
        Some(base) => app.store.log.goal = Some(At::Offset(base)),
        None => app.say(if later {
            "this is the last segment"
        } else {
            "this is the first segment"
        }),
    }
}

fn next_queue(app: &mut App, next: bool) {
    let (Some((topic, queue)), Some(queues)) = (app.store.queue.clone(), &app.store.queues.value) else {
        return;
    };
    let lines = &queues.queues;
    let broker = app.store.wire.as_deref().unwrap_or_default();
    let here = lines.iter().position(|l| l.queue == queue && l.broker == broker);
    let Some(here) = here else {
        return;
    };
    let n = lines.len();
    let there = lines[if next { here + 1 } else { here + n - 1 } % n].clone();
    show_queue_of(app, there.broker, topic, there.queue, At::Newest);
}
