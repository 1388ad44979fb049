//! The only transition of the console: an event changes the state and asks for actions. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::acts;
use super::app::{Action, App, Event, Frozen, Left, Overlay};
use super::form;
use super::input::Input;
use super::keys::Command;
use super::model::{Told, Update};
use super::palette::{Choice, palette};
use super::place::{Pane, Place, Screen};
use super::store;
use super::table::Filter;
use super::view::theme::Palette;
use super::view::{dialog, layout, overlay, rows};
use super::want::{Found, Want};
use super::work::{self, Stage};
use super::{dead, messages};
use crate::client::BrokerAt;
use crate::client::words::counted;

/// Topics whose rates are asked for first.
const INTEREST: usize = 8;
/// How long a notice stays.
const NOTICE_MS: i64 = 5_000;

/// The only transition of the console.
pub fn update(app: &mut App, now_ms: i64, event: Event) -> Vec<Action> {
    app.now_ms = now_ms.max(app.now_ms);
    let mut actions = Vec::new();
    match event {
        Event::Key(key) => {
            key_pressed(app, key, &mut actions);
            app.dirty = true;
        }
        Event::Paste(text) => {
            paste(app, &text);
            app.dirty = true;
        }
        Event::Mouse(mouse) => {
            super::mouse::update(app, mouse, &mut actions);
            app.dirty = true;
        }
        Event::Resize(columns, rows) => {
            app.size = (columns, rows);
            app.dirty = true;
        }
        Event::Updates(updates) => {
            let moves = updates.iter().any(|update| shows(app, &update.told));
            for update in updates {
                match update.told {
                    Told::Found(Want::Store(question), answer) => {
                        let answer = answer.map(|found| match found {
                            Found::Store(answer) => Some(*answer),
                            _ => None,
                        });
                        if let Some(answer) = answer.transpose() {
                            super::messages::bytes::hear(app, &question, &answer);
                            store::hear(app, &question, answer);
                        }
                    }
                    Told::Found(Want::Wire(question), answer) => {
                        let answer = answer.map(|found| match found {
                            Found::Store(answer) => Some(*answer),
                            _ => None,
                        });
                        if let Some(answer) = answer.transpose() {
                            store::hear_wire(app, &question, answer);
                        }
                    }
                    told => app.model.fold(Update { told, ..update }),
                }
            }
            settle(app, &mut actions);
            app.dirty |= moves || app.frozen.is_none();
            acts::go_on(app, &mut actions);
        }
        Event::Tick => {
            settle(app, &mut actions);
            // Nothing of a held display moves but the age of a change.
            app.dirty |= app.frozen.is_none() || app.works.iter().any(work::Work::is_running);
        }
        // What is wanted now is seen below.
        Event::Rested => {}
        Event::Notice(text) => {
            app.say(text);
            app.dirty = true;
        }
        Event::Deed(id, told) => {
            if let Some(work) = app.works.iter_mut().find(|w| w.id == id) {
                work.told(told);
                let over = matches!(work.stage, Stage::Done(_));
                if let Stage::Done(report) = &work.stage
                    && app.overlay != Some(Overlay::Work(id))
                {
                    let end = if report.failure.is_none() {
                        "done"
                    } else {
                        "failed"
                    };
                    let text = format!("{end}: {}", work.deed.line());
                    app.say(text);
                }
                if over {
                    // What was changed is asked for anew.
                    actions.push(Action::Refresh);
                }
            }
            app.dirty = true;
        }
    }
    store::follow(app);
    super::messages::settle(app);
    super::dead::settle(app);
    // What is asked for is what is in view now.
    app.follow();
    app.look_beside();
    ask(app, &mut actions);
    if app
        .notice
        .as_ref()
        .is_some_and(|(at, _)| app.now_ms - at > NOTICE_MS)
    {
        app.notice = None;
        app.dirty = true;
    }
    app.follow();
    actions
}

/// True for news that are on the screen also while it is held: what was asked for since, and files.
fn shows(app: &App, told: &Told) -> bool {
    match told {
        Told::Found(Want::Store(_) | Want::Wire(_), _) => true,
        Told::Found(want, _) => app.shown().found(want).is_unasked(),
        _ => false,
    }
}

/// Topics whose rates are on the screen, by name.
fn interest(app: &App) -> Vec<String> {
    let mut names = match (app.place.screen, app.place.topic()) {
        (Screen::Topics, _) => app.visible(Pane::Topics),
        (Screen::Topic, Some(name)) => vec![name.to_owned()],
        _ => {
            let top = rows::top_topics(&app.model).into_iter().take(INTEREST);
            top.map(|(topic, _)| topic.name.clone()).collect()
        }
    };
    // Another order is no other wish.
    names.sort_unstable();
    names
}

/// Wishes follow what is on the screen.
fn ask(app: &mut App, actions: &mut Vec<Action>) {
    let interest = interest(app);
    if interest != app.interest {
        app.interest.clone_from(&interest);
        actions.push(Action::Interest(interest));
    }
    let wanted = app.wants();
    // What is asked once is asked anew each time, and shown when it is there.
    for fresh in wanted
        .iter()
        .filter(|w| w.every.is_none() && !app.wanted.contains(w))
    {
        app.model.forget(&fresh.want);
    }
    let masters: Vec<BrokerAt> = (app.model.snapshot.brokers.iter())
        // One that hangs would hold up every answer; the screens know that its part is missing.
        .filter(|b| b.broker.is_master() && !b.is_silent())
        .map(|b| BrokerAt {
            id: b.broker.clone(),
            addr: b.addr.clone(),
        })
        .collect();
    if wanted != app.wanted || (masters != app.masters && !wanted.is_empty()) {
        app.wanted.clone_from(&wanted);
        app.masters.clone_from(&masters);
        actions.push(Action::Wants(wanted, masters));
    }
}

fn settle(app: &mut App, actions: &mut Vec<Action>) {
    let roster = app.model.settle(app.now_ms, app.settings.interval);
    actions.extend(roster.into_iter().map(Action::Roster));
    let versions = app.model.registered_versions();
    if versions != app.versions {
        app.versions.clone_from(&versions);
        actions.push(Action::Versions(versions));
    }
    if *app.model.revived() != app.revived {
        app.revived.clone_from(app.model.revived());
        actions.push(Action::Revived(app.revived.clone()));
    }
}

fn paste(app: &mut App, text: &str) {
    match &mut app.overlay {
        Some(Overlay::Form(form)) => form.paste(text),
        Some(Overlay::Work(id)) => {
            let id = *id;
            let planned = |w: &&mut work::Work| w.id == id && matches!(w.stage, Stage::Planned(_));
            if let Some(work) = app.works.iter_mut().find(planned) {
                work.typed.insert(text);
            }
        }
        _ => {}
    }
    if let Some(Overlay::Filter(input) | Overlay::Palette(input, _) | Overlay::Store(_, input)) =
        &mut app.overlay
    {
        input.insert(text);
    }
    if let Some(Overlay::Palette(_, selected)) = &mut app.overlay {
        *selected = 0;
    }
    live_filter(app);
}

/// The filter works while it is typed.
fn live_filter(app: &mut App) {
    if let Some(Overlay::Filter(input)) = &app.overlay {
        match Filter::parse(input.text()) {
            Some(filter) => app.filters.insert(app.place.screen, filter),
            None => app.filters.remove(&app.place.screen),
        };
    }
}

fn key_pressed(app: &mut App, key: KeyEvent, actions: &mut Vec<Action>) {
    // These two work everywhere, also while something is typed.
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => return leave(app, actions),
            KeyCode::Char('z') => return actions.push(Action::Suspend),
            _ => {}
        }
    }
    // What was asked for before is not what is wanted now.
    app.waiting = None;
    match app.overlay.take() {
        None => {
            if let Some(command) = app.command(key) {
                run(app, command, actions);
            }
        }
        Some(overlay) => overlay_key(app, overlay, key, actions),
    }
}

fn overlay_key(app: &mut App, overlay: Overlay, key: KeyEvent, actions: &mut Vec<Action>) {
    let command = app.command(key);
    let last = overlay::last_line(app, &overlay);
    match overlay {
        Overlay::Sheet(words, line) => match scrolled(line.min(last), command) {
            Some(line) => app.overlay = Some(Overlay::Sheet(words, line)),
            None if command == Some(Command::Quit) => leave(app, actions),
            None => {}
        },
        Overlay::Help(line) => match scrolled(line.min(last), command) {
            Some(line) => app.overlay = Some(Overlay::Help(line)),
            None if command == Some(Command::Quit) => leave(app, actions),
            None => {}
        },
        Overlay::Form(form) => form_key(app, form, key, actions),
        Overlay::Store(prompt, input) => store::prompt_key(app, prompt, input, key),
        Overlay::Work(id) => work_key(app, id, key, actions),
        Overlay::Leave => match (command, key.code) {
            (Some(Command::Quit), _) | (_, KeyCode::Enter | KeyCode::Char('q')) => actions.push(Action::Quit),
            (_, KeyCode::Esc) => {}
            _ => app.overlay = Some(Overlay::Leave),
        },
        Overlay::Export(index) => {
            let last = super::export::FORMS.len() - 1;
            match command {
                Some(Command::Down) => app.overlay = Some(Overlay::Export((index + 1).min(last))),
                Some(Command::Up) => app.overlay = Some(Overlay::Export(index.saturating_sub(1))),
                Some(Command::Back | Command::Export) => {}
                _ if key.code == KeyCode::Enter => acts::export(app, super::export::FORMS[index], actions),
                _ => app.overlay = Some(Overlay::Export(index)),
            }
        }
        Overlay::Diff(line) => match scrolled(line.min(last), command) {
            Some(line) => app.overlay = Some(Overlay::Diff(line)),
            None if command == Some(Command::Quit) => leave(app, actions),
            None => {}
        },
        Overlay::Sort(index) => {
            let columns = rows::of(app, app.focus()).columns;
            let last = columns.len().saturating_sub(1);
            match command {
                Some(Command::Down) => app.overlay = Some(Overlay::Sort((index + 1).min(last))),
                Some(Command::Up) => app.overlay = Some(Overlay::Sort(index.saturating_sub(1))),
                Some(Command::Back | Command::SortMenu) => {}
                Some(Command::Quit) => leave(app, actions),
                _ if key.code == KeyCode::Enter => {
                    if let Some(column) = columns.into_iter().nth(index) {
                        app.sort_by(column.name);
                    }
                }
                _ => app.overlay = Some(Overlay::Sort(index)),
            }
        }
        Overlay::Filter(mut input) => match key.code {
            KeyCode::Enter => {
                if app.filter().is_some_and(|f| f.literal) {
                    app.say("not a regular expression: searched for as it is");
                }
            }
            KeyCode::Esc => {
                app.filters.remove(&app.place.screen);
            }
            _ => {
                input.key(key);
                app.overlay = Some(Overlay::Filter(input));
                live_filter(app);
            }
        },
        Overlay::Palette(mut input, selected) => {
            let entries = palette(app, input.text());
            let last = entries.len().saturating_sub(1);
            match key.code {
                KeyCode::Esc => {}
                KeyCode::Enter => match entries.into_iter().nth(selected) {
                    Some(entry) => choose(app, entry.what, actions),
                    None => app.say(format!("nothing is called {}", input.text())),
                },
                KeyCode::Down => app.overlay = Some(Overlay::Palette(input, (selected + 1).min(last))),
                KeyCode::Up => app.overlay = Some(Overlay::Palette(input, selected.saturating_sub(1))),
                _ => {
                    input.key(key);
                    app.overlay = Some(Overlay::Palette(input, 0));
                }
            }
        }
    }
}

/// Leaves; what ends with it is asked about first, and a second time means it.
fn leave(app: &mut App, actions: &mut Vec<Action>) {
    let ends = app.settings.serving || app.works.iter().any(work::Work::is_running);
    if ends && app.overlay != Some(Overlay::Leave) {
        app.overlay = Some(Overlay::Leave);
    } else {
        actions.push(Action::Quit);
    }
}

fn form_key(app: &mut App, mut form: form::Form, key: KeyEvent, actions: &mut Vec<Action>) {
    match form.key(key) {
        form::Answer::Stay => app.overlay = Some(Overlay::Form(form)),
        form::Answer::Close => {}
        form::Answer::Deed(deed) => {
            if !acts::filled_in(app, deed, actions) {
                app.overlay = Some(Overlay::Form(form));
            } else if let Some(Overlay::Work(id)) = app.overlay
                && let Some(work) = app.works.iter_mut().find(|w| w.id == id)
            {
                work.form = Some(form);
            }
        }
    }
}

fn work_key(app: &mut App, id: u64, key: KeyEvent, actions: &mut Vec<Action>) {
    let context = app.settings.context.clone();
    let changes = app.key(Command::Works);
    let last = app.work(id).map_or(0, |work| dialog::work_last_line(app, work));
    let Some(work) = app.works.iter_mut().find(|w| w.id == id) else {
        return;
    };
    work.scroll = work.scroll.min(last);
    let answer = work.key(key, &context);
    match answer {
        work::Answer::Close => {
            // What was typed does not stay armed.
            work.typed = Input::default();
            work.apply = false;
            if work.is_running() {
                app.say(format!("the change goes on; {changes} shows it"));
            }
            return;
        }
        work::Answer::Stay => {}
        work::Answer::Wrong(wanted) => app.say(format!("nothing is done before {wanted} is typed exactly")),
        work::Answer::Apply(rehearsal) => {
            work.stage = Stage::Running(rehearsal.clone());
            work.at_ms = app.now_ms;
            work.scroll = 0;
            actions.push(Action::CarryOut(id, work.deed.clone(), rehearsal));
        }
        work::Answer::Stop => {
            work.stopping = true;
            actions.push(Action::Stop(id));
        }
        work::Answer::Again => {
            work.stage = Stage::Rehearsing;
            work.stopping = false;
            work.lines.clear();
            work.typed = Input::default();
            work.apply = false;
            actions.push(Action::Rehearse(id, work.deed.clone()));
        }
        work::Answer::Edit(form) => {
            app.overlay = Some(Overlay::Form(form));
            return;
        }
        work::Answer::Copy => {
            let line = work.deed.line();
            app.say("copied the command");
            actions.push(Action::Copy(line));
        }
        work::Answer::Undo(deed) => {
            let deed = super::deed::Deed {
                about: work.deed.about.clone(),
                ..deed
            };
            return app.begin(deed, actions);
        }
    }
    app.overlay = Some(Overlay::Work(id));
}

/// The new first line of a scrolled page; `None` closes it.
fn scrolled(line: usize, command: Option<Command>) -> Option<usize> {
    match command? {
        Command::Down => Some(line + 1),
        Command::Up => Some(line.saturating_sub(1)),
        Command::PageDown | Command::HalfPageDown => Some(line + 10),
        Command::PageUp | Command::HalfPageUp => Some(line.saturating_sub(10)),
        Command::First => Some(0),
        Command::Last => Some(usize::MAX / 2),
        _ => None,
    }
}

pub(super) fn run(app: &mut App, command: Command, actions: &mut Vec<Action>) {
    if store::run(app, command, actions) {
        return;
    }
    let page = layout::page(app, app.focus()).max(1);
    match command {
        Command::Down => app.step(true, 1),
        Command::Up => app.step(false, 1),
        Command::First => app.select(0),
        Command::Last => app.select(usize::MAX),
        Command::HalfPageDown => app.step(true, page.div_ceil(2)),
        Command::HalfPageUp => app.step(false, page.div_ceil(2)),
        Command::PageDown => app.step(true, page),
        Command::PageUp => app.step(false, page),
        Command::Left => {
            let state = app.panes.entry(app.focus()).or_default();
            state.column = state.column.saturating_sub(1);
        }
        Command::Right => {
            let pane = app.focus();
            let last = rows::of(app, pane).columns.len().saturating_sub(2);
            let state = app.panes.entry(pane).or_default();
            state.column = (state.column + 1).min(last);
        }
        Command::Go(Screen::Messages) => {
            let place = messages::place(app);
            app.visit(place);
        }
        Command::Go(screen) => app.visit(Place::screen(screen)),
        Command::NextPane => app.move_focus(true),
        Command::PreviousPane => app.move_focus(false),
        Command::Open if app.place.screen == Screen::Offsets => acts::choose_reset(app),
        Command::Open if app.place.screen == Screen::Messages => messages::open(app),
        Command::Open if app.place.screen == Screen::Dead => dead::open(app),
        Command::Open => app.open(),
        Command::Back => app.back(),
        Command::Filter => {
            let text = app.filter().map(|f| f.text.clone()).unwrap_or_default();
            app.overlay = Some(Overlay::Filter(Input::new(text)));
        }
        Command::Palette => app.overlay = Some(Overlay::Palette(Input::default(), 0)),
        Command::SortMenu => {
            let pane = app.focus();
            let columns = rows::of(app, pane).columns;
            if columns.is_empty() {
                app.say("nothing to sort here");
            } else {
                let sort = app.pane(pane).sort;
                let now = sort.and_then(|s| columns.iter().position(|c| c.name == s.column));
                app.overlay = Some(Overlay::Sort(now.unwrap_or(0)));
            }
        }
        Command::SortLeft => app.sort_step(false),
        Command::SortRight => app.sort_step(true),
        Command::SortReverse => {
            if let Some(sort) = app.panes.get_mut(&app.focus()).and_then(|p| p.sort.as_mut()) {
                sort.descending = !sort.descending;
            }
        }
        Command::CopyName | Command::CopyRow => copy(app, command == Command::CopyRow, actions),
        Command::Freeze => {
            app.frozen = match app.frozen.take() {
                Some(_) => None,
                None => Some(Frozen {
                    at_ms: app.now_ms,
                    model: Box::new(app.model.clone()),
                }),
            };
        }
        Command::Refresh => {
            super::messages::again(app);
            app.say("asking every server now");
            actions.push(Action::Refresh);
        }
        Command::Zoom => app.zoom = !app.zoom,
        Command::Wide => app.wide = !app.wide,
        Command::Diff => app.overlay = Some(Overlay::Diff(0)),
        Command::Previous => {
            if let Some(at) = app.visited_at.checked_sub(1) {
                app.visited_at = at;
                app.arrive(app.visited[at].clone());
            }
        }
        Command::Next => {
            if let Some(place) = app.visited.get(app.visited_at + 1).cloned() {
                app.visited_at += 1;
                app.arrive(place);
            }
        }
        Command::Help => app.overlay = Some(Overlay::Help(0)),
        Command::Suspend => actions.push(Action::Suspend),
        Command::Quit => leave(app, actions),
        Command::Mouse => {
            app.mouse = !app.mouse;
            let key = app.key(Command::Mouse);
            app.say(if app.mouse {
                format!("the mouse works here; {key} gives it back to the terminal")
            } else {
                "the mouse belongs to the terminal again".to_owned()
            });
            actions.push(Action::Mouse(app.mouse));
        }
        Command::Mark | Command::MarkAll => mark(app, command == Command::MarkAll),
        Command::Export => app.overlay = Some(Overlay::Export(0)),
        other => acts::run(app, other, actions),
    }
}

/// Marks a row, or all that pass the filter; once more takes the marks away.
fn mark(app: &mut App, all: bool) {
    let pane = app.focus();
    let table = app.table(pane);
    let selected = app.selected(pane, &table);
    let marks = app.marks.entry(pane).or_default();
    if all {
        let ids = table.rows.iter().map(|r| &r.id);
        if ids.clone().all(|id| marks.contains(id)) {
            marks.clear();
        } else {
            marks.extend(ids.cloned());
        }
    } else if let Some(row) = selected.map(|at| &table.rows[at]) {
        if !marks.remove(&row.id) {
            marks.insert(row.id.clone());
        }
        app.step(true, 1);
    }
}

fn copy(app: &mut App, whole_row: bool, actions: &mut Vec<Action>) {
    let pane = app.focus();
    let table = app.table(pane);
    let Some(index) = app.selected(pane, &table) else {
        return app.say("nothing to copy here");
    };
    let row = &table.rows[index];
    let text = if whole_row {
        let cells = table.columns.iter().zip(&row.cells);
        let object: serde_json::Map<String, serde_json::Value> = cells
            .map(|(column, cell)| (column.name.to_lowercase(), cell.plain().into()))
            .collect();
        serde_json::Value::Object(object).to_string()
    } else {
        match app.marked(pane) {
            Some(marks) => {
                let names = table.rows.iter().filter(|r| marks.contains(&r.id));
                names.map(|r| r.name.as_str()).collect::<Vec<_>>().join("\n")
            }
            None => row.name.clone(),
        }
    };
    let what = if whole_row {
        "the row".to_owned()
    } else if app.marked(pane).is_some() {
        counted(text.lines().count(), "name")
    } else {
        row.name.clone()
    };
    app.say(format!("copied {what}"));
    actions.push(Action::Copy(text));
}

fn choose(app: &mut App, choice: Choice, actions: &mut Vec<Action>) {
    match choice {
        Choice::Run(command) => run(app, command, actions),
        Choice::Open(place) => app.visit(place),
        Choice::Theme(Ok(palette)) => {
            app.settings.palette = palette;
            app.settings.colour = app.settings.may_colour && palette != Palette::Mono;
        }
        Choice::Theme(Err(why)) => app.say(why),
        // Elsewhere nothing would be seen of it.
        Choice::Context(_) | Choice::Map(_) if app.works.iter().any(work::Work::is_running) => {
            let changes = app.key(Command::Works);
            app.say(format!("a change is in flight; {changes} shows it"));
        }
        Choice::Context(name) => actions.push(Action::Go(Left::Context(name))),
        Choice::Map(rule) => actions.push(Action::Go(Left::Map(rule))),
        Choice::Interval(interval) => {
            app.settings.interval = interval;
            actions.push(Action::Interval(interval));
        }
    }
}
