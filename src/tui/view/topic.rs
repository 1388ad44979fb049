//! One topic: its queues, its groups, its scaling.

use std::collections::HashMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::{self, Piece};
use super::theme::Role;
use super::{grid, groups, text, topics, way};
use crate::client::findings::Subject;
use crate::client::snapshot::{BrokerId, GroupLag, TopicState, told_sum};
use crate::client::stranded::Stranded;
use crate::client::words::spans;
use crate::tui::app::App;
use crate::tui::keys::Command;
use crate::tui::table::{Cell, Row, Table};
use crate::tui::want::{Found, QueueEnds, TopicDetail, Want};
use crate::tui::work::Work;

/// Columns of a lag bar.
const BAR: usize = 10;

fn name(app: &App) -> &str {
    app.topic().unwrap_or_default()
}

fn state(app: &App) -> Option<&TopicState> {
    app.shown().topic(name(app))
}

fn detail(app: &App) -> Option<&TopicDetail> {
    match app.found(&Want::Topic(name(app).to_owned())).get() {
        Some(Found::Topic(detail)) => Some(detail),
        _ => None,
    }
}

/// `orders   w 8 r 16   perm 6 rw-   in 4.1k/s`.
pub fn title(app: &App) -> String {
    let Some(topic) = app.topic() else {
        return "topic".to_owned();
    };
    let mut parts = vec![topic.to_owned()];
    if let Some(state) = state(app) {
        let kinds: Vec<&str> = (state.brokers.iter())
            .filter_map(|on| on.attributes.get("message.type").map(String::as_str))
            .collect();
        parts.extend(kinds.first().map(|k| format!("type {k}")));
        parts.push(topics::numbers(app, topic));
        parts.push(format!("perm {}", topics::perms(app, topic)));
        if state.brokers.iter().any(|on| on.order) {
            parts.push("ordered".to_owned());
        }
    }
    let work = app.work_on(&Subject::Topic(topic.to_owned()));
    let way = work.and_then(|work| work.way.as_ref());
    if let Some(at) = way.or_else(|| app.kept_way(topic).map(|kept| &kept.progress)) {
        parts.push(format!("scaling: {}", at.place()));
    }
    parts.extend(super::stale(app, app.found(&Want::Topic(topic.to_owned()))));
    if let Some(detail) = detail(app) {
        let bound = groups::bound(is_partial(app, detail));
        parts.push(format!("in {bound}{}/s", text::count(detail.in_tps)));
        parts.push(format!("{bound}{} messages", text::count(detail.messages as f64)));
    }
    parts.join("   ")
}

/// True when a broker's part is missing.
fn is_partial(app: &App, detail: &TopicDetail) -> bool {
    let Some(state) = state(app) else { return true };
    let has_it = |id: &BrokerId| state.brokers.iter().any(|on| on.broker == *id);
    !detail.failed.is_empty() || app.shown().silent_masters().any(|b| has_it(&b.broker))
}

/// Every queue, with the group that is furthest behind in it.
pub fn queues(app: &App) -> Table {
    let mut table = Table::new([
        ("BROKER/Q", false, 0),
        ("MIN", true, 4),
        ("MAX", true, 2),
        ("IN/s", true, 3),
        ("LAST PUT", true, 3),
        ("WORST GROUP", false, 1),
        ("LAG", true, 0),
        ("W R", false, 0),
        ("BAR (lag)", false, 5),
    ]);
    let (Some(detail), Some(state)) = (detail(app), state(app)) else {
        return table;
    };
    let worst = worst(app, &state.name);
    let most = worst.values().map(|(_, lag)| *lag).max().unwrap_or(0).max(1);
    let mut failed = detail.failed.clone();
    for broker in app.shown().silent_masters() {
        if state.brokers.iter().any(|on| on.broker == broker.broker) {
            let since = broker.last_answer_ms.map(|at| super::age_ms(app.shown_ms(), at));
            let why = since.map_or_else(
                || "no answer".to_owned(),
                |ms| format!("no answer for {}", text::age(ms)),
            );
            failed.insert(broker.broker.name.clone(), why);
        }
    }
    for (broker, why) in &failed {
        table.rows.push(Row {
            id: format!("{broker}/"),
            name: broker.clone(),
            subject: None,
            cells: std::iter::once(Cell::of(format!("{broker} ✗ {why}"), Role::Crit))
                .chain((1..9).map(|_| Cell::unknown()))
                .collect(),
        });
    }
    for queue in detail.queues.iter().chain(&stranded_ends(state, detail)) {
        let on = state.brokers.iter().find(|on| on.broker.name == queue.broker);
        let writable = on.is_some_and(|on| queue.queue < on.write_queues && on.perm.writable());
        let readable = on.is_some_and(|on| queue.queue < on.read_queues && on.perm.readable());
        let behind = worst.get(&(queue.broker.as_str(), queue.queue));
        let dot = |is| if is { "●" } else { "○" };
        let stranded = !readable && queue.max > queue.min;
        let (group, lag) = match behind {
            Some((group, lag)) => (Cell::text(*group), Cell::whole(*lag)),
            None => (Cell::none(), Cell::none()),
        };
        let lag_of = behind.map_or(0, |(_, lag)| *lag);
        let mut bar = vec![(bar::gauge(lag_of as f64 / most as f64, BAR), Role::Data)];
        if on.is_some_and(|on| on.stranded.iter().any(|s| s.queue == queue.queue)) {
            bar.push((" ✗ stranded".to_owned(), Role::Crit));
        } else if stranded && behind.is_none_or(|(_, lag)| *lag > 0) {
            bar.push((" ! not readable".to_owned(), Role::Warn));
        } else if !writable && lag_of > 0 {
            bar.push((" draining".to_owned(), Role::Warn));
        }
        let id = format!("{}/{}", queue.broker, queue.queue);
        table.rows.push(Row {
            id: id.clone(),
            name: id.clone(),
            subject: behind.map(|(group, _)| Subject::Group((*group).to_owned())),
            cells: vec![
                Cell::text(id).by(f64::from(queue.queue)),
                Cell::whole(queue.min),
                Cell::whole(queue.max),
                queue
                    .in_tps
                    .map_or_else(Cell::unknown, |rate| Cell::count("", rate)),
                match queue.last_ms {
                    0 => Cell::none(),
                    at => topics::age(app, &queue.broker, at),
                },
                group,
                lag,
                Cell::text(format!("{} {}", dot(writable), dot(readable))),
                Cell {
                    pieces: bar,
                    key: crate::tui::table::Key::Number(lag_of as f64),
                },
            ],
        });
    }
    table
}

/// The stranded queues that no answer about the topic names.
fn stranded_ends(state: &TopicState, detail: &TopicDetail) -> Vec<QueueEnds> {
    let told =
        |broker: &str, queue: i32| (detail.queues.iter()).any(|q| q.broker == broker && q.queue == queue);
    (state.brokers.iter())
        .flat_map(|on| on.stranded.iter().map(move |s| (&on.broker.name, s)))
        .filter(|(broker, s)| !told(broker, s.queue))
        .map(|(broker, s)| QueueEnds {
            broker: broker.clone(),
            queue: s.queue,
            min: s.min,
            max: s.max,
            last_ms: 0,
            // Nobody can write there.
            in_tps: Some(0.0),
        })
        .collect()
}

/// The group that is furthest behind, by broker and queue.
fn worst<'a>(app: &'a App, topic: &str) -> HashMap<(&'a str, i32), (&'a str, i64)> {
    let mut worst: HashMap<(&str, i32), (&str, i64)> = HashMap::new();
    for group in &app.shown().snapshot.groups {
        let rows = group.lag.get().into_iter().flatten();
        for row in rows.filter(|row| row.topic == topic) {
            let Some(lag) = GroupLag::lag(row) else { continue };
            let entry = worst
                .entry((row.broker.as_str(), row.queue))
                .or_insert((&group.name, lag));
            if lag > entry.1 {
                *entry = (&group.name, lag);
            }
        }
    }
    // No backlog has those: brokers leave them out.
    let topics = app.shown().snapshot.topics.iter().filter(|t| t.name == topic);
    for on in topics.flat_map(|t| &t.brokers) {
        for queue in &on.stranded {
            if let Some(found) = queue.worst() {
                worst.insert((on.broker.name.as_str(), queue.queue), found);
            }
        }
    }
    worst
}

/// `Groups on this topic 3`.
pub fn groups_title(app: &App) -> String {
    let count = detail(app).map_or_else(|| "?".to_owned(), |d| d.groups.len().to_string());
    match app.topic() {
        Some(_) => format!("Groups on this topic {count}"),
        None => "Groups on this topic".to_owned(),
    }
}

/// The groups of the topic.
pub fn groups(app: &App) -> Table {
    let mut table = Table::new([
        ("GROUP", false, 0),
        ("MEMB", true, 1),
        ("LAG", true, 0),
        ("OUT/s", true, 2),
        ("SUBSCRIPTION", false, 3),
    ]);
    let Some(detail) = detail(app) else {
        return table;
    };
    let partial = is_partial(app, detail);
    let bound = groups::bound(partial);
    let mut groups: Vec<_> = detail.groups.iter().collect();
    groups.sort_by(|a, b| b.lag.cmp(&a.lag).then_with(|| a.name.cmp(&b.name)));
    for group in groups {
        // Nobody online is known only when every broker told its clients.
        let offline = group.clients == 0 && !partial;
        let role = if offline && group.lag.unwrap_or(0) > 0 {
            Role::Warn
        } else {
            Role::Plain
        };
        table.rows.push(Row {
            id: group.name.clone(),
            name: group.name.clone(),
            subject: Some(Subject::Group(group.name.clone())),
            cells: vec![
                Cell::text(&group.name),
                if offline {
                    Cell::of("OFFLINE", role).by(0.0)
                } else if group.clients == 0 {
                    Cell::unknown()
                } else {
                    Cell::number(format!("{bound}{}", group.clients), group.clients as f64)
                },
                group
                    .lag
                    .map_or_else(Cell::unknown, |lag| Cell::count(bound, lag as f64).role(role)),
                Cell::count(bound, group.out_tps),
                Cell::text(group.expressions.join(" | ")),
            ],
        });
    }
    table
}

/// The numbers as bars, the change in flight, or what can be done.
pub fn scaling(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme();
    let lines = scaling_lines(
        app,
        usize::from(area.width.saturating_sub(2)),
        usize::from(area.height),
    );
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        grid::pieces(buffer, area.x + 1, y, area.right() - 1, theme, line);
    }
}

fn scaling_lines(app: &App, columns: usize, rows: usize) -> Vec<Vec<Piece>> {
    let plain = |text: String| vec![(text, Role::Plain)];
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    let Some(state) = state(app) else {
        if app.topic().is_none() {
            return lines;
        }
        return vec![plain("? no broker has told this topic yet".to_owned())];
    };
    let most = (state.brokers.iter())
        .map(|on| on.write_queues.max(on.read_queues))
        .max()
        .unwrap_or(1)
        .max(1);
    let bar_columns = columns.saturating_sub(36).clamp(4, 16);
    let bar = |n: i32| {
        let filled = bar::gauge(f64::from(n) / f64::from(most), bar_columns);
        let pad = bar_columns.saturating_sub(text::width(&filled));
        format!("{filled}{}", " ".repeat(pad))
    };
    let mut seen: Vec<(i32, i32)> = Vec::new();
    for on in &state.brokers {
        let numbers = (on.write_queues, on.read_queues);
        if seen.contains(&numbers) {
            continue;
        }
        seen.push(numbers);
        let short = if on.read_queues < on.write_queues {
            (" ! read < write: some are not read".to_owned(), Role::Crit)
        } else {
            (String::new(), Role::Plain)
        };
        lines.push(vec![
            ("write ".to_owned(), Role::Label),
            (
                format!("{}{:>3}  ", bar(on.write_queues), on.write_queues),
                Role::Data,
            ),
            ("read ".to_owned(), Role::Label),
            (
                format!("{}{:>3}", bar(on.read_queues), on.read_queues),
                Role::Data,
            ),
            short,
        ]);
    }
    for on in state.brokers.iter().filter(|on| !on.stranded.is_empty()) {
        let queues: Vec<i32> = on.stranded.iter().map(|s| s.queue).collect();
        let messages = told_sum(on.stranded.iter().map(Stranded::messages));
        let text = format!(
            "✗ {} stranded in {} of {}: raise read again, by",
            text::count(messages as f64),
            spans(&queues),
            on.broker.name
        );
        lines.push(vec![(text, Role::Crit)]);
        lines.extend(on.raise_read(&state.name).map(plain));
    }
    if seen.len() > 1 {
        lines.push(vec![("! brokers differ".to_owned(), Role::Warn)]);
    }
    let subject = Subject::Topic(state.name.clone());
    // What runs counts more than what was looked at since.
    let newest = || (app.works.iter().rev()).find(|w| w.deed.about.as_ref() == Some(&subject));
    let last = app.work_on(&subject).or_else(newest);
    let room = rows.saturating_sub(lines.len());
    match (last, app.kept_way(&state.name)) {
        (Some(work), kept) if work.is_running() || kept.is_none() => {
            lines.extend(work_lines(app, work, columns, room));
        }
        (_, Some(kept)) => lines.extend(way::of_kept(app, kept, columns, room)),
        _ if app.settings.read_only => {}
        _ => {
            let hints = [
                format!("{} sets the numbers, by a plan that", app.key(Command::Queues)),
                "waits until no message can be lost".to_owned(),
                "more: readers first, then writers".to_owned(),
                "fewer: writers leave, queues drain, readers leave".to_owned(),
                format!("{} goes back after an interruption", app.undo_keys()),
                format!("{} changes the permission", app.key(Command::Perm)),
            ];
            lines.extend(hints.map(plain));
        }
    }
    lines
}

/// A change of the topic: the command, its state, the newest lines of progress.
fn work_lines(app: &App, work: &Work, columns: usize, room: usize) -> Vec<Vec<Piece>> {
    let mut lines = Vec::new();
    if let Some(at) = work.way.as_ref().filter(|_| work.is_running()) {
        lines.push(vec![super::dialog::stage(app, work)]);
        lines.extend(way::lines(at, app.now_ms, columns, room.saturating_sub(1)));
        return lines;
    }
    lines.push(vec![(work.deed.line(), Role::Label)]);
    lines.push(vec![super::dialog::stage(app, work)]);
    let room = room.saturating_sub(lines.len());
    lines.extend(super::dialog::progress(work, columns, room));
    lines
}
