//! The list of groups, and the cells that every list of groups has.

use std::collections::{BTreeSet, HashMap};

use super::bar::{self, Base};
use super::theme::Role;
use super::{cell, text};
use crate::client::admin::group::is_system;
use crate::client::findings::{Finding, Subject};
use crate::client::lag::GroupKind;
use crate::client::snapshot::GroupState;
use crate::tui::app::App;
use crate::tui::history::{self, Eta, Trend};
use crate::tui::model::{Model, SLOPE_WINDOW_MS};
use crate::tui::table::{Cell, Row, Table};
use crate::tui::want::{Found, GroupBrief, Want};

/// Columns of the small series.
const SPARK: usize = 10;

/// The rows: largest backlog first.
pub fn table(app: &App) -> Table {
    let model = app.shown();
    let mut table = Table::new([
        ("GROUP", false, 0),
        ("MODE", false, 4),
        ("MEMB", true, 3),
        ("TOP", true, 6),
        ("LAG", true, 0),
        ("10 MIN", false, 2),
        ("SLOPE", true, 3),
        ("OLDEST", true, 2),
        ("ETA", true, 0),
        ("OUT/s", true, 4),
        ("RETRY", true, 5),
        ("NOTE", false, 1),
    ]);
    let silent = model.silent_masters().next().is_some();
    let mut groups: Vec<&GroupState> = model
        .snapshot
        .groups
        .iter()
        .filter(|g| !is_system(&g.name))
        .collect();
    groups.sort_by_cached_key(|g| (std::cmp::Reverse(g.total_lag()), g.name.clone()));
    let mut notes: HashMap<&str, &Finding> = HashMap::new();
    for finding in &model.findings {
        if let Subject::Group(name) = &finding.subject {
            notes.entry(name).or_insert(finding);
        }
    }
    for group in groups {
        let name = &group.name;
        let rows = || group.lag.get().into_iter().flatten();
        let of_topics: BTreeSet<&str> = rows()
            .map(|row| row.topic.as_str())
            .filter(|topic| !is_retry(topic))
            .collect();
        let brief = app.found(&Want::GroupBrief(name.clone()));
        let of = |make: &dyn Fn(&GroupBrief) -> Cell| {
            let now = app.shown_ms();
            cell::value(brief, now, |found| match found {
                Found::GroupBrief(told) => Some(cell::aged(make(told), brief.as_of_ms, now)),
                _ => None,
            })
        };
        let known = match brief.get() {
            Some(Found::GroupBrief(brief)) => Some(brief),
            _ => None,
        };
        let broadcast = known.is_some_and(|b| b.kind == GroupKind::Broadcasting);
        let lag = if broadcast { None } else { group.total_lag() };
        table.rows.push(Row {
            id: name.clone(),
            name: name.clone(),
            subject: Some(Subject::Group(name.clone())),
            cells: vec![
                Cell::text(name),
                of(&|brief| {
                    if is_sure(brief, silent) {
                        Cell::text(mode(brief))
                    } else {
                        Cell::unknown()
                    }
                }),
                of(&|brief| {
                    let bound = bound(silent || brief.partial);
                    Cell::number(format!("{bound}{}", brief.clients), brief.clients as f64)
                }),
                Cell::number(of_topics.len().to_string(), of_topics.len() as f64),
                lag_cell(group, broadcast, app.shown_ms()),
                spark(model, name, SPARK),
                slope(model, name),
                oldest(app, group, lag),
                eta(model, name, lag),
                of(&|brief| {
                    let bound = bound(silent || brief.partial);
                    Cell::count(bound, model.taken(name, brief.tps, app.shown_ms()))
                }),
                match model.retry_of(name) {
                    Some(retry) => {
                        let rate = format!("{}{}/s", bound(group.partial), text::count(retry));
                        Cell::number(rate, retry)
                    }
                    None => Cell::unknown(),
                },
                note(
                    notes.get(name.as_str()).copied(),
                    known.filter(|b| is_sure(b, silent)),
                    lag,
                ),
            ],
        });
    }
    table
}

/// Nobody online is known only when every broker told its clients.
fn is_sure(brief: &GroupBrief, silent: bool) -> bool {
    brief.clients > 0 || !(silent || brief.partial)
}

/// The sign of a lower bound.
pub const fn bound(partial: bool) -> &'static str {
    if partial { "≥" } else { "" }
}

fn is_retry(topic: &str) -> bool {
    topic.starts_with(crate::protocol::model::RETRY_PREFIX)
}

/// `push clu`, `pop clu`, `push brd`, `–`.
fn mode(brief: &GroupBrief) -> String {
    let how = match brief.kind {
        GroupKind::Offline => return "–".to_owned(),
        GroupKind::Clustering => "clu",
        GroupKind::Broadcasting => "brd",
    };
    format!("{} {how}", brief.takes)
}

/// Backlog of a group, with its age where a broker takes long to tell; `n/a` when its positions are on its clients.
pub fn lag_cell(group: &GroupState, broadcast: bool, now_ms: i64) -> Cell {
    if broadcast {
        return Cell::text("n/a");
    }
    match group.total_lag() {
        Some(lag) => {
            let bound = if group.partial { "≥" } else { "" };
            cell::aged(Cell::count(bound, lag as f64), group.lag.as_of_ms, now_ms)
        }
        None => Cell::unknown(),
    }
}

/// Backlog over the last ten minutes.
pub fn spark(model: &Model, group: &str, columns: usize) -> Cell {
    let series = model.group_series.get(group);
    let spark = series.map_or_else(String::new, |s| {
        bar::sparkline(s.within(history::TEN_MINUTES_MS), columns, Base::Lowest)
    });
    Cell::of(spark, Role::Data)
}

/// `+310/s`: change of the backlog over the last minute.
pub fn slope(model: &Model, group: &str) -> Cell {
    let series = model.group_series.get(group);
    let Some((course, lag)) = series.and_then(|s| Some((s.course(SLOPE_WINDOW_MS)?, s.last()?))) else {
        return Cell::unknown();
    };
    let slope = course.slope;
    let (sign, role) = match history::trend(lag, course) {
        Trend::Rising => ("+", Role::Warn),
        Trend::Falling => ("", Role::Ok),
        Trend::Flat => return Cell::text("0/s").counted(slope),
    };
    Cell::of(format!("{sign}{}/s", text::count(slope)), role).counted(slope)
}

/// How long the group's first unread message has been waiting. Before that was asked, no longer than since the last
/// message that the group consumed in the queue that is furthest behind was stored: `≤4h`.
pub fn oldest(app: &App, group: &GroupState, lag: Option<i64>) -> Cell {
    if lag.is_none_or(|lag| lag <= 0) {
        return Cell::none();
    }
    let lagging = || {
        let rows = group.lag.get().into_iter().flatten();
        rows.filter(|row| row.lag().is_some_and(|lag| lag > 0))
            .map(|row| (row, row.last_consumed_ms.filter(|at| *at > 0)))
    };
    if let Some(waiting) = app.shown().oldest(group) {
        let bound = bound(!waiting.sure);
        let age = super::age_on(app, &waiting.broker, waiting.stored_ms);
        return Cell::number(format!("{bound}{}", text::age(age)), age as f64);
    }
    // A queue of which nothing was consumed has no bound.
    let ages = lagging().map(|(row, consumed)| Some(super::age_on(app, &row.broker, consumed?)));
    match ages.reduce(|a, b| Some(a?.max(b?))).flatten() {
        Some(age) => Cell::number(format!("≤{}", text::age(age)), age as f64),
        None => Cell::unknown(),
    }
}

/// When the backlog is gone.
pub fn eta(model: &Model, group: &str, lag: Option<i64>) -> Cell {
    let Some(lag) = lag else {
        return Cell::none();
    };
    let series = model.group_series.get(group);
    let course = series.and_then(|s| s.course(SLOPE_WINDOW_MS));
    match history::eta(lag as f64, course) {
        Eta::Seconds(s) if s < 30.0 * 86_400.0 => {
            Cell::number(text::age((s * 1000.0) as u64), s).role(Role::Ok)
        }
        Eta::Seconds(s) => Cell::number("> 30 days", s),
        Eta::Never => Cell::of("never", Role::Warn).by(f64::MAX),
        Eta::Flat => Cell::text("flat").by(f64::MAX / 2.0),
        Eta::Unknown => Cell::unknown(),
        Eta::Done => Cell::none(),
    }
}

fn note(finding: Option<&Finding>, brief: Option<&GroupBrief>, lag: Option<i64>) -> Cell {
    if brief.is_some_and(|b| b.kind == GroupKind::Offline) && lag.is_some_and(|lag| lag > 0) {
        return Cell::of("! OFFLINE", Role::Warn);
    }
    if let Some(finding) = finding {
        let (glyph, role) = super::rows::severity(finding.severity);
        return Cell::of(format!("{glyph} {}", finding.rule.replace('-', " ")), role);
    }
    let Some(brief) = brief else {
        return Cell::text("");
    };
    if brief.kind == GroupKind::Broadcasting {
        return Cell::text("broadcast");
    }
    if brief.versions > 1 {
        return Cell::text("mixed versions");
    }
    if brief.inflight > 0 {
        return Cell::text(format!("inflight {}", brief.inflight));
    }
    if brief.kind == GroupKind::Offline {
        return Cell::text("offline");
    }
    Cell::text("")
}
