//! Committed offsets: which group and topic, where a reset would lead, what it means.

use std::collections::BTreeMap;
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::Piece;
use super::theme::Role;
use super::{grid, text};
use crate::client::admin::group::is_system;
use crate::client::findings::Subject;
use crate::client::snapshot::GroupLag;
use crate::client::time::duration;
use crate::tui::app::{App, Pane};
use crate::tui::deed::Sheet;
use crate::tui::keys::Command;
use crate::tui::table::{Cell, Row, Table};
use crate::tui::want::{Found, Want};

/// Between group and topic in a row's identity.
const SEPARATOR: char = '\u{1f}';

/// Every group with every topic that it has a position in.
pub fn positions(app: &App) -> Table {
    let mut table = Table::new([
        ("GROUP", false, 0),
        ("TOPIC", false, 0),
        ("QUEUES", true, 2),
        ("LAG", true, 0),
    ]);
    let wanted = app.place.group();
    for group in &app.shown().snapshot.groups {
        if is_system(&group.name) || wanted.is_some_and(|g| g != group.name) {
            continue;
        }
        let mut topics: BTreeMap<&str, (usize, Option<i64>)> = BTreeMap::new();
        for row in group.lag.get().into_iter().flatten() {
            let topic = topics.entry(&row.topic).or_default();
            topic.0 += 1;
            if let Some(lag) = GroupLag::lag(row) {
                topic.1 = Some(topic.1.unwrap_or(0) + lag);
            }
        }
        for (topic, (queues, lag)) in topics {
            table.rows.push(Row {
                id: format!("{}{SEPARATOR}{topic}", group.name),
                name: group.name.clone(),
                subject: Some(Subject::Group(group.name.clone())),
                cells: vec![
                    Cell::text(&group.name),
                    Cell::text(topic),
                    Cell::number(queues.to_string(), queues as f64),
                    lag.map_or_else(Cell::unknown, |lag| {
                        let bound = super::groups::bound(group.partial);
                        Cell::count(bound, lag as f64)
                    }),
                ],
            });
        }
    }
    table
}

/// Group and topic of the selected row.
pub fn selected(app: &App) -> Option<(String, String)> {
    let table = app.table(Pane::Positions);
    let row = table.rows.get(app.selected(Pane::Positions, &table)?)?;
    let (group, topic) = row.id.split_once(SEPARATOR)?;
    Some((group.to_owned(), topic.to_owned()))
}

/// The topic in which a group is furthest behind; retry topics come last.
pub fn first_topic(app: &App, group: &str) -> Option<String> {
    let state = app.shown().snapshot.groups.iter().find(|g| g.name == group)?;
    let rows = state.lag.get()?.iter();
    let retry = |topic: &str| topic.starts_with(crate::protocol::model::RETRY_PREFIX);
    let mut topics: BTreeMap<&str, i64> = BTreeMap::new();
    for row in rows {
        *topics.entry(&row.topic).or_default() += row.lag().unwrap_or(0);
    }
    topics
        .into_iter()
        .max_by_key(|(topic, lag)| (!retry(topic), *lag))
        .map(|(topic, _)| topic.to_owned())
}

fn sheet(app: &App) -> Option<Result<&Sheet, &str>> {
    let reset = app.reset.as_ref()?;
    let seen = app.found(&Want::Sheet(reset.words()));
    match (seen.get(), &seen.error) {
        (_, Some(why)) => Some(Err(why)),
        (Some(Found::Sheet(sheet)), None) => Some(Ok(sheet)),
        _ => None,
    }
}

/// `Reset  group CID_pay  topic orders  --to=-1h   PREVIEW`.
pub fn preview_title(app: &App) -> String {
    match &app.reset {
        None => "Preview".to_owned(),
        Some(reset) => format!(
            "Preview  group {}  topic {}  {}",
            reset.group,
            reset.topic,
            (reset.goal.iter())
                .map(|word| word.trim_start_matches("--").replacen('=', " ", 1))
                .collect::<Vec<_>>()
                .join("  ")
        ),
    }
}

/// Why there is no preview.
pub fn preview_empty(app: &App) -> String {
    match (&app.reset, sheet(app)) {
        (None, _) => format!(
            "{} on a group and topic above, then say where to",
            app.key(Command::Open)
        ),
        (Some(_), None) => "? being worked out".to_owned(),
        (Some(_), Some(Err(why))) => format!("✗ {}", why.lines().next().unwrap_or_default()),
        (Some(_), Some(Ok(_))) => "no queue would move".to_owned(),
    }
}

/// One row a queue, as `rmq group reset` shows it, with the backlog before and after.
pub fn preview(app: &App) -> Table {
    let mut table = Table::new([
        ("QUEUE", false, 0),
        ("MIN", true, 4),
        ("COMMIT", true, 2),
        ("TARGET", true, 0),
        ("MAX", true, 3),
        ("MOVE", true, 1),
        ("LAG NOW → AFTER", true, 1),
        ("NOTE", false, 0),
        ("MESSAGE OF", false, 5),
    ]);
    let Some(Ok(sheet)) = sheet(app) else {
        return table;
    };
    for row in &sheet.rows {
        let text_of = |key| sheet.cell(row, key).map_or("?", |c| c.text.as_str());
        let number = |key| sheet.cell(row, key).and_then(|c| c.number);
        let (max, current, target, min) = (
            number("max"),
            number("committed"),
            number("new_offset"),
            number("min"),
        );
        let lag = |at: Option<f64>| match (max, at) {
            (Some(max), Some(at)) => text::count((max - at).max(0.0)),
            _ => "?".to_owned(),
        };
        let delta = match number("delta") {
            Some(d) if d < 0.0 => Cell::text(format!("◀ {}", text::grouped(-d as i64))).counted(d),
            Some(d) if d > 0.0 => Cell::of(format!("▶ {}", text::grouped(d as i64)), Role::Warn).counted(d),
            Some(_) => Cell::text("stays").counted(0.0),
            None => Cell::text("new"),
        };
        let clamped = target.is_some() && target == min && number("delta").is_some_and(|d| d < 0.0);
        let note = match (text_of("would"), clamped) {
            (would, true) => format!("{would}, from the first that is left"),
            (would, false) => would.to_owned(),
        };
        // Offsets are whole numbers far below 2^53.
        let cell = |key| number(key).map_or_else(Cell::none, |n| Cell::whole(n as i64));
        let id = format!("{}/{}", text_of("broker"), text_of("queue"));
        table.rows.push(Row {
            id: id.clone(),
            name: id.clone(),
            subject: None,
            cells: vec![
                Cell::text(id),
                cell("min"),
                cell("committed"),
                cell("new_offset"),
                cell("max"),
                delta,
                Cell::text(format!("{} → {}", lag(current), lag(target))),
                Cell::text(note),
                Cell::text(sheet.cell(row, "target_time").map_or("", |c| c.text.as_str())),
            ],
        });
    }
    table
}

/// What it means, and the command that does it.
pub fn effect(app: &App, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width.saturating_sub(2));
    let theme = app.theme();
    let lines = effect_lines(app, columns).into_iter();
    for (line, y) in lines.zip(area.top()..area.bottom()) {
        grid::pieces(buffer, area.x + 1, y, area.right() - 1, theme, &line);
    }
}

fn pair(label: &str, value: String) -> Vec<Piece> {
    vec![(format!("{label:<9} "), Role::Label), (value, Role::Plain)]
}

/// What [`effect`] shows in so many columns.
pub fn effect_lines(app: &App, columns: usize) -> Vec<Vec<Piece>> {
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    match (&app.reset, sheet(app)) {
        (Some(reset), Some(Ok(sheet))) => {
            lines.extend(facts(sheet));
            lines.extend(
                sheet
                    .failed
                    .iter()
                    .map(|why| vec![(format!("✗ {why}"), Role::Crit)]),
            );
            lines.push(pair("command", reset.deed().line()));
            if app.settings.read_only {
                lines.push(vec![(
                    "nothing may be changed from here: the console is read only".to_owned(),
                    Role::Warn,
                )]);
            } else {
                lines.push(pair(
                    "next",
                    format!(
                        "{} applies it (asks first) · {} says where to · {} takes the last one back",
                        app.key(Command::Apply),
                        app.key(Command::Goal),
                        app.key(Command::Undo)
                    ),
                ));
            }
        }
        (Some(reset), Some(Err(why))) => {
            let wrapped = why.lines().flat_map(|l| text::wrap(l, columns));
            lines.extend(wrapped.map(|l| vec![(l.into_owned(), Role::Crit)]));
            lines.push(pair("command", reset.deed().line()));
        }
        (Some(_), None) => lines.push(vec![("? being worked out".to_owned(), Role::Plain)]),
        (None, _) => {
            lines.push(vec![(
                format!(
                    "Nothing moves before {}: the preview says for each queue what would be read again or never.",
                    app.key(Command::Apply)
                ),
                Role::Plain,
            )]);
            if !app.settings.read_only {
                lines.push(vec![(
                    format!(
                        "{} takes the last move of the selected group back, also one of an earlier session.",
                        app.key(Command::Undo)
                    ),
                    Role::Plain,
                )]);
            }
        }
    }
    lines.iter().flat_map(|line| wrapped(line, columns)).collect()
}

/// What the preview says beside its rows.
fn facts(sheet: &Sheet) -> Vec<Vec<Piece>> {
    let mut lines = Vec::new();
    let replay = || {
        let took = Duration::from_secs(sheet.total("replay_seconds")?.as_u64()?);
        let rate = sheet.total("consume_tps")?.as_f64()?;
        Some(format!(
            ", ~{} at {}/s, less if caught up",
            duration(took),
            text::count(rate)
        ))
    };
    for key in ["replays", "skips", "clients"] {
        let Some(value) = sheet.total(key) else { continue };
        let unit = match (key, value.as_i64()) {
            ("clients", Some(0)) => " online: the offsets are written, the group goes on there".to_owned(),
            ("clients", _) => " online: told by the broker; their next commits are watched".to_owned(),
            ("replays", _) => format!(" messages{}", replay().unwrap_or_default()),
            _ => " messages".to_owned(),
        };
        let value = value.as_i64().map_or_else(|| value.to_string(), text::grouped);
        lines.push(pair(key, format!("{value}{unit}")));
    }
    // Brokers that would do the same stand together.
    let mut alike: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let brokers = sheet.total("brokers").and_then(|all| all.as_array());
    for broker in brokers.into_iter().flatten() {
        let word = |key: &str| broker[key].as_str().unwrap_or("?").to_owned();
        alike
            .entry((word("version"), word("means")))
            .or_default()
            .push(word("broker"));
    }
    for ((version, means), names) in alike {
        lines.push(pair("brokers", format!("{} {version}, {means}", names.join(" "))));
    }
    if sheet.total("popping").is_some_and(|pops| pops == true) {
        let back = "messages held and not acknowledged come back after their invisible time";
        lines.push(vec![
            (format!("{:<9} ", "pop"), Role::Label),
            (back.to_owned(), Role::Warn),
        ]);
    }
    if let Some(file) = sheet.total("undo_file").and_then(|file| file.as_str()) {
        lines.push(pair("undo", format!("kept in {file}")));
    }
    lines
}

/// A line of pieces in lines of at most `columns`; what is broken off keeps the last piece's role.
fn wrapped(line: &[Piece], columns: usize) -> Vec<Vec<Piece>> {
    let Some(((last, role), first)) = line.split_last() else {
        return Vec::new();
    };
    let used: usize = first.iter().map(|(t, _)| text::width(t)).sum();
    let mut parts = text::wrap(last, columns.saturating_sub(used).max(10)).into_iter();
    let mut lines = vec![
        first
            .iter()
            .cloned()
            .chain(parts.next().map(|p| (p.into_owned(), *role)))
            .collect(),
    ];
    lines.extend(parts.map(|p| vec![(" ".repeat(used), Role::Plain), (p.into_owned(), *role)]));
    lines
}
