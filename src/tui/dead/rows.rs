//! Rows of the dead-letter screen.

use std::collections::BTreeMap;

use super::ask::{Found, Resent};
use crate::client::dlq::{origin_id, origin_topic};
use crate::client::findings::Subject;
use crate::client::letters::Letters;
use crate::client::resent::entry;
use crate::protocol::model::DLQ_PREFIX;
use crate::tui::app::App;
use crate::tui::keys::Command;
use crate::tui::messages::rows::{middle, size};
use crate::tui::messages::search::{Mark, Sieve};
use crate::tui::table::{Cell, Row, Table};
use crate::tui::view::theme::Role;
use crate::tui::view::{age_ms, clock, date, text};

/// A day, ms.
const DAY_MS: u64 = 86_400_000;
/// Source topics that a row names.
const SOURCES: usize = 3;

/// Every group with a dead-letter topic.
pub fn groups(app: &App) -> Table {
    let mut table = Table::new([
        ("%DLQ% GROUP", false, 0),
        ("COUNT", true, 0),
        ("+24h", true, 1),
        ("OLDEST", true, 3),
        ("NEWEST", true, 2),
        ("SOURCE TOPICS", false, 4),
        ("READABLE", false, 1),
        ("KEPT UNTIL", false, 3),
    ]);
    let Ok(Some(groups)) = super::groups(app) else {
        return table;
    };
    for (group, letters) in &groups.groups {
        let mut cells = vec![Cell::text(group)];
        match letters {
            Some(letters) => cells.extend(group_cells(app, group, letters)),
            None => cells.extend(std::iter::repeat_with(Cell::unknown).take(7)),
        }
        table.rows.push(Row {
            id: group.clone(),
            name: group.clone(),
            subject: Some(Subject::Group(group.clone())),
            cells,
        });
    }
    table
}

/// Masters that are known and those of them that answer.
pub fn masters(app: &App) -> (usize, usize) {
    let masters = app
        .shown()
        .snapshot
        .brokers
        .iter()
        .filter(|b| b.broker.is_master());
    let asked = masters.clone().filter(|b| !b.runtime.is_unasked());
    let (mut all, mut up) = (0, 0);
    for broker in asked {
        all += 1;
        up += usize::from(broker.is_alive());
    }
    (up, all)
}

fn group_cells(app: &App, group: &str, letters: &Letters) -> Vec<Cell> {
    let (up, all) = masters(app);
    let is_partial = !letters.missing.is_empty() || up < all;
    let bound = |n: i64, role: Role| {
        let sign = if is_partial { "≥" } else { "" };
        Cell::of(format!("{sign}{}", text::grouped(n)), role).counted(n as f64)
    };
    if letters.brokers.is_empty() && !letters.missing.is_empty() {
        return std::iter::repeat_with(Cell::failed).take(7).collect();
    }
    let age = |at: Option<i64>| {
        at.map_or_else(Cell::none, |at| {
            let ms = age_ms(app.shown_ms(), at);
            Cell::number(text::age(ms), ms as f64)
        })
    };
    let role = if letters.count > 0 {
        Role::Warn
    } else {
        Role::Plain
    };
    let sources: Vec<&str> = letters.sources.iter().map(String::as_str).collect();
    let more = match sources.len().saturating_sub(SOURCES) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    vec![
        bound(letters.count, role),
        match letters.since {
            Some(n) => bound(n, if n > 0 { Role::Warn } else { Role::Plain }),
            None => Cell::unknown(),
        },
        age(letters.oldest_ms),
        age(letters.newest_ms),
        match sources.as_slice() {
            [] if letters.count == 0 => Cell::none(),
            [] => Cell::unknown(),
            some => Cell::text(format!("{}{more}", some[..some.len().min(SOURCES)].join(", "))),
        },
        readable(app, group, letters),
        kept_until(app, letters),
    ]
}

/// What the brokers' own tables say, else the route.
fn readable(app: &App, group: &str, letters: &Letters) -> Cell {
    let topics = &app.shown().snapshot.topics;
    let topic = topics
        .iter()
        .find(|t| t.name.strip_prefix(DLQ_PREFIX) == Some(group));
    let perms = topic.into_iter().flat_map(|t| t.brokers.iter().map(|on| on.perm));
    let perm = perms.reduce(|a, b| a.and(b)).or(letters.perm);
    match perm {
        None => Cell::unknown(),
        Some(perm) if perm.readable() => Cell::text("yes"),
        Some(_) => Cell::of(
            format!("NO: {} opens it", app.key(Command::MakeReadable)),
            Role::Crit,
        ),
    }
}

/// When the oldest letter may go: its store time and the shortest time that its brokers keep messages.
fn kept_until(app: &App, letters: &Letters) -> Cell {
    if letters.count == 0 {
        return Cell::none();
    }
    let brokers = app.shown().snapshot.brokers.iter();
    let hours = brokers
        .filter(|b| b.broker.is_master() && letters.brokers.contains(&b.broker.name))
        .filter_map(|b| {
            b.config
                .get()?
                .entries
                .get("fileReservedTime")?
                .parse::<i64>()
                .ok()
        })
        .min();
    let (Some(hours), Some(oldest)) = (hours, letters.oldest_ms) else {
        return Cell::unknown();
    };
    let until = oldest.saturating_add(hours.saturating_mul(3_600_000));
    let left = until.saturating_sub(app.shown_ms());
    let gone = if letters.expired {
        ", older ones are gone"
    } else {
        ""
    };
    let cell = match u64::try_from(left) {
        Ok(left) if left < DAY_MS => Cell::of(format!("in {}{gone}", text::age(left)), Role::Warn),
        Ok(left) => Cell::text(format!("in {}{gone}", text::age(left))),
        Err(_) => Cell::of("PAST: goes with its file", Role::Crit),
    };
    cell.by(until as f64)
}

/// Letters of the selected group, the newest first.
pub fn letters(app: &App) -> Table {
    let mut table = Table::new([
        ("WHEN", false, 0),
        ("MSG ID", false, 2),
        ("ORIGIN", false, 0),
        ("ORIGIN ID", false, 4),
        ("RETRIES", true, 3),
        ("KEYS", false, 1),
        ("SIZE", true, 2),
        ("TAG", false, 3),
        ("RESENT", false, 0),
    ]);
    let Ok(Some(found)) = super::letters(app) else {
        return table;
    };
    table.unfiltered = found.rows.len();
    let sieve = app.filter().and_then(|f| Sieve::lenient(&f.text));
    let shown = found.rows.iter().rev();
    for letter in shown.filter(|m| sieve.as_ref().is_none_or(|s| s.passes(m))) {
        let optional = |text: Option<String>| text.map_or_else(Cell::none, Cell::text);
        let keys = letter.keys();
        let resent = match found.resent.get(&entry(letter)) {
            Some(Resent::Sent) => Cell::of("✓ sent", Role::Ok),
            Some(Resent::Failed) => Cell::of("✗ refused", Role::Crit),
            Some(Resent::Unknown) => Cell::of("? no answer", Role::Warn),
            None => Cell::none(),
        };
        table.rows.push(Row {
            id: Mark::id(letter),
            name: letter.unique_key().unwrap_or(&letter.offset_id).to_owned(),
            subject: None,
            cells: vec![
                when(app, letter.stored_ms),
                Cell::text(middle(letter.unique_key().unwrap_or(&letter.offset_id), 14)),
                optional(origin_topic(letter).map(str::to_owned)),
                optional(origin_id(letter).map(|id| middle(id, 14))),
                Cell::whole(letter.reconsume_times.into()),
                optional((!keys.is_empty()).then(|| keys.join(","))),
                size(letter),
                optional(letter.tag().map(str::to_owned)),
                resent,
            ],
        });
    }
    table
}

/// The time today, the date before.
fn when(app: &App, at_ms: i64) -> Cell {
    let text = if age_ms(app.shown_ms(), at_ms) < DAY_MS {
        clock(app, at_ms)
    } else {
        date(app, at_ms)
    };
    Cell::number(text, at_ms as f64)
}

/// How many of these letters each topic would get; `None` for those that do not say where they came from.
pub fn by_topic<'a>(
    letters: impl Iterator<Item = &'a crate::client::Message>,
) -> BTreeMap<Option<&'a str>, usize> {
    let mut counts = BTreeMap::new();
    for letter in letters {
        *counts.entry(origin_topic(letter)).or_insert(0) += 1;
    }
    counts
}

/// `12 sent · 1 refused · 2 without an answer`, of all letters that are shown; empty when none was ever sent again.
pub fn results(found: &Found) -> Vec<(String, Role)> {
    let count = |wanted: Resent| found.resent.values().filter(|r| **r == wanted).count();
    [
        (Resent::Sent, "sent", Role::Ok),
        (Resent::Failed, "refused", Role::Crit),
        (Resent::Unknown, "without an answer: not sent twice", Role::Warn),
    ]
    .into_iter()
    .filter_map(|(resent, word, role)| {
        let n = count(resent);
        (n > 0).then(|| (format!("{n} {word}   "), role))
    })
    .collect()
}
