//! One group: its queues, its clients, its backlog over time.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::{self, Base};
use super::theme::Role;
use super::{grid, groups, text, topics};
use crate::client::doctor::is_old_client;
use crate::client::findings::Subject;
use crate::client::lag::GroupKind;
use crate::client::snapshot::{GroupLag, GroupState, told_sum};
use crate::client::stuck::{self, Standing};
use crate::tui::app::App;
use crate::tui::history;
use crate::tui::table::{Cell, Row, Table};
use crate::tui::want::{ClientDetail, ClientLine, ClientTold, Found, GroupDetail, Want};

fn name(app: &App) -> &str {
    app.group().unwrap_or_default()
}

fn state(app: &App) -> Option<&GroupState> {
    app.shown().group(name(app))
}

fn detail(app: &App) -> Option<&GroupDetail> {
    match app.found(&Want::Group(name(app).to_owned())).get() {
        Some(Found::Group(detail)) => Some(detail),
        _ => None,
    }
}

/// The group has the screen for itself. Beside a list its clients are not asked: that reaches into them.
fn is_drilled(app: &App) -> bool {
    app.place.group().is_some()
}

fn told(app: &App) -> Option<&[ClientDetail]> {
    match app
        .found(&Want::Clients(name(app).to_owned()))
        .get()
        .filter(|_| app.clients && is_drilled(app))
    {
        Some(Found::Clients(clients)) => Some(clients),
        _ => None,
    }
}

/// `CID_pay  online  lag 1.21M  slope +310/s  ETA never  inflight 812`.
pub fn title(app: &App) -> String {
    let Some(group) = app.group() else {
        return "group".to_owned();
    };
    let model = app.shown();
    let mut parts = vec![group.to_owned()];
    parts.extend(super::stale(app, app.found(&Want::Group(group.to_owned()))));
    if let Some(detail) = detail(app) {
        parts.push(if detail.clients.is_empty() && is_partial(app, detail) {
            "? online".to_owned()
        } else {
            detail.kind.name().to_owned()
        });
        if detail.field("consume-enable") == Some("false") {
            parts.push("PAUSED".to_owned());
        }
    }
    if let Some(state) = state(app) {
        let broadcast = detail(app).is_some_and(|d| d.kind == GroupKind::Broadcasting);
        let lag = if broadcast { None } else { state.total_lag() };
        parts.push(format!(
            "lag {}",
            groups::lag_cell(state, broadcast, app.shown_ms()).plain()
        ));
        parts.push(format!("slope {}", groups::slope(model, group).plain()));
        parts.push(format!("ETA {}", groups::eta(model, group, lag).plain()));
    }
    if let Some(detail) = detail(app) {
        let inflight = told_sum(detail.queues.iter().filter_map(|q| q.inflight));
        let bound = groups::bound(is_partial(app, detail));
        if inflight > 0 {
            parts.push(format!("inflight {bound}{inflight}"));
        }
        let out = model.taken(group, detail.tps, app.shown_ms());
        parts.push(format!("out {bound}{}/s", text::count(out)));
    }
    parts.join("  ")
}

/// True when a broker's part is missing.
fn is_partial(app: &App, detail: &GroupDetail) -> bool {
    !detail.failed.is_empty() || app.shown().silent_masters().next().is_some()
}

/// The clients by the queue that they say they read.
fn owners(app: &App) -> HashMap<(&str, &str, i32), &str> {
    let told = told(app).into_iter().flatten();
    let of = told.filter_map(|c| Some((c.id.as_str(), c.told.as_ref().ok()?)));
    of.flat_map(|(id, told)| {
        told.queues
            .iter()
            .map(move |(topic, broker, queue)| ((topic.as_str(), broker.as_str(), *queue), id))
    })
    .collect()
}

/// Every queue that the group has a position in.
pub fn queues(app: &App) -> Table {
    let mut table = Table::new([
        ("TOPIC/QUEUE", false, 0),
        ("BROKER", false, 2),
        ("COMMIT", true, 3),
        ("MAX", true, 4),
        ("LAG", true, 0),
        ("TIME LAG", true, 0),
        ("CLIENT", false, 1),
        ("LAST", true, 5),
    ]);
    let Some(detail) = detail(app) else {
        return table;
    };
    let owners = owners(app);
    let all_told = told(app).is_some_and(|told| {
        let said: HashSet<&str> = (told.iter().filter(|c| c.told.is_ok()))
            .map(|c| c.id.as_str())
            .collect();
        !detail.clients.is_empty() && detail.clients.iter().all(|c| said.contains(c.id.as_str()))
    });
    let broadcast = detail.kind == GroupKind::Broadcasting;
    let partial = is_partial(app, detail);
    for (broker, why) in &detail.failed {
        table.rows.push(Row {
            id: format!("{broker}/"),
            name: broker.clone(),
            subject: None,
            cells: std::iter::once(Cell::of(format!("{broker} ✗ {why}"), Role::Crit))
                .chain((1..8).map(|_| Cell::unknown()))
                .collect(),
        });
    }
    for row in &detail.queues {
        let lag = if broadcast { None } else { row.lag() };
        let key = (row.topic.clone(), row.broker.clone(), row.queue);
        let time_lag = match (lag, detail.oldest.get(&key)) {
            (Some(0), _) => Cell::text("0s").by(0.0),
            (_, Some(Ok(stored))) => topics::age(app, &row.broker, *stored),
            (_, Some(Err(_))) => Cell::failed(),
            (None, _) => Cell::none(),
            (_, None) => Cell::unknown(),
        };
        let client = match owners.get(&(row.topic.as_str(), row.broker.as_str(), row.queue)) {
            Some(id) => Cell::text(*id),
            None if detail.kind == GroupKind::Offline && !partial => Cell::of("(offline)", Role::Warn),
            None if all_told && lag.is_some_and(|lag| lag > 0) => Cell::of("(unassigned) !", Role::Warn),
            None if all_told => Cell::text("(unassigned)"),
            // i asks the clients.
            None => Cell::unknown(),
        };
        let role = if row.is_beyond_end() {
            Role::Crit
        } else {
            Role::Plain
        };
        let id = format!("{}/{}", row.topic, row.queue);
        table.rows.push(Row {
            id: format!("{} {id}", row.broker),
            name: id.clone(),
            subject: Some(Subject::Topic(row.topic.clone())),
            cells: vec![
                Cell::text(id),
                Cell::text(&row.broker),
                row.committed
                    .map_or_else(Cell::none, |at| Cell::whole(at).role(role)),
                Cell::whole(row.max),
                match lag {
                    Some(lag) => Cell::whole(lag).role(role),
                    None if broadcast => Cell::text("n/a"),
                    None => Cell::unknown(),
                },
                time_lag,
                client,
                match row.last_consumed_ms.filter(|at| *at > 0) {
                    Some(at) => topics::age(app, &row.broker, at),
                    None => Cell::none(),
                },
            ],
        });
    }
    if !is_drilled(app) {
        table.drop_column("CLIENT");
    }
    table
}

/// The clients: what the broker knows of them, and their own numbers where they were asked.
pub fn clients(app: &App) -> Table {
    /// Columns that the broker tells; the others are the clients' own.
    const OF_BROKER: usize = 4;
    let columns = [
        ("CLIENT", false, 0),
        ("VER", false, 2),
        ("LANG", false, 4),
        ("ADDRESS", false, 6),
        ("QUEUES", true, 1),
        ("LAG", true, 0),
        ("CACHED", true, 3),
        ("RT ms", true, 3),
        ("OK/s", true, 2),
        ("FAIL/s", true, 2),
        ("PULL", true, 3),
        ("FLAG", false, 0),
    ];
    // Beside a list only what the broker knows of them.
    let shown = if is_drilled(app) { columns.len() } else { OF_BROKER };
    let mut table = Table::new(columns.into_iter().take(shown));
    let Some(detail) = detail(app) else {
        return table;
    };
    let members = Members::of(app, detail);
    for client in &detail.clients {
        let mut cells = vec![
            Cell::text(&client.id),
            Cell::text(&client.version),
            Cell::text(&client.language),
            Cell::text(&client.addr),
        ];
        if is_drilled(app) {
            cells.extend(numbers(app, detail, client, &members));
        }
        table.rows.push(Row {
            id: client.id.clone(),
            name: client.id.clone(),
            subject: None,
            cells,
        });
    }
    table
}

/// What the rows of clients need of each other and of the queues, gathered once for all of them.
struct Members<'a> {
    told: HashMap<&'a str, &'a Result<ClientTold, String>>,
    /// Positions by topic, broker and queue.
    queues: HashMap<(&'a str, &'a str, i32), &'a GroupLag>,
    /// Newest version by language.
    newest: HashMap<&'a str, i32>,
    /// How many subscriptions they have, and the usual one.
    subscriptions: (usize, Option<&'a str>),
    /// Brokers on which the group is paused: they refuse its pulls.
    paused: HashSet<&'a str>,
}

impl<'a> Members<'a> {
    fn of(app: &'a App, detail: &'a GroupDetail) -> Self {
        let asked = || told(app).into_iter().flatten();
        let mut newest = HashMap::new();
        for client in &detail.clients {
            let newest = newest.entry(client.language.as_str()).or_insert(0);
            *newest = client.version_code.max(*newest);
        }
        let queue = |row: &'a GroupLag| ((row.topic.as_str(), row.broker.as_str(), row.queue), row);
        Self {
            told: asked().map(|c| (c.id.as_str(), &c.told)).collect(),
            queues: detail.queues.iter().map(queue).collect(),
            newest,
            subscriptions: usual(asked().filter_map(|c| c.told.as_ref().ok())),
            paused: detail.paused().collect(),
        }
    }

    /// The queues that a client holds and that the group has a position in.
    fn held<'b>(
        &'b self,
        told: &'b ClientTold,
    ) -> impl Iterator<Item = (&'b (String, String, i32), &'b GroupLag)> {
        told.queues.iter().filter_map(|key| {
            let row = self.queues.get(&(key.0.as_str(), key.1.as_str(), key.2))?;
            Some((key, *row))
        })
    }

    /// What is wrong with a client by what the broker knows: older than it may be, or than others of its kind.
    fn old_version(&self, line: &ClientLine) -> Option<(String, Role)> {
        let newest = self.newest.get(line.language.as_str()).copied().unwrap_or(0);
        (is_old_client(line.version_code) || line.version_code < newest)
            .then(|| ("! OLD VERSION ".to_owned(), Role::Warn))
    }
}

/// The subscription that most clients have; `None` when they all have the same, or nobody knows which is meant.
fn usual<'a>(told: impl Iterator<Item = &'a ClientTold>) -> (usize, Option<&'a str>) {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for one in told {
        *counts.entry(&one.subscription).or_default() += 1;
    }
    let most = counts.values().copied().max().unwrap_or(0);
    let mut usual = counts.iter().filter(|(_, n)| **n == most).map(|(s, _)| *s);
    (counts.len(), usual.next().filter(|_| usual.next().is_none()))
}

fn numbers(app: &App, detail: &GroupDetail, line: &ClientLine, members: &Members<'_>) -> Vec<Cell> {
    let mut flags: Vec<(String, Role)> = Vec::new();
    let old = members.old_version(line);
    let told = match members.told.get(line.id.as_str()) {
        None => {
            let mut cells: Vec<Cell> = (0..7).map(|_| Cell::unknown()).collect();
            cells.push(old.map_or_else(Cell::unknown, |(flag, role)| Cell::of(flag, role)));
            return cells;
        }
        Some(Err(why)) => {
            let mut cells: Vec<Cell> = (0..7).map(|_| Cell::failed()).collect();
            cells.push(Cell::of(why, Role::Warn));
            return cells;
        }
        Some(Ok(told)) => told,
    };
    let lag = told_sum(members.held(told).filter_map(|(_, row)| row.lag()));
    // As old as it was when the client answered: since then nobody looked.
    let answered_ms = app.found(&Want::Clients(name(app).to_owned())).as_of_ms;
    let pull_ms = told.last_pull_ms.map(|at| super::age_ms(answered_ms, at));
    if is_stuck(app, detail, told, members) {
        flags.push(("✗ STUCK ".to_owned(), Role::Crit));
    }
    let (subscriptions, usual) = members.subscriptions;
    if subscriptions > 1 && usual != Some(told.subscription.as_str()) {
        flags.push(("✗ SUB MISMATCH ".to_owned(), Role::Crit));
    }
    if told.held_back > 0 {
        flags.push(("! flow ctl ".to_owned(), Role::Warn));
    }
    flags.extend(old);
    if told.queues.is_empty() {
        flags.push(("no queue ".to_owned(), Role::Warn));
    }
    if flags.is_empty() {
        flags.push(("–".to_owned(), Role::Plain));
    }
    vec![
        Cell::number(told.queues.len().to_string(), told.queues.len() as f64),
        Cell::count("", lag as f64),
        Cell::number(
            format!("{}/{} MiB", told.cached, told.cached_mib),
            told.cached as f64,
        ),
        told.consume_rt_ms
            .map_or_else(Cell::none, |ms| Cell::count("", ms)),
        told.ok_tps.map_or_else(Cell::unknown, |tps| Cell::count("", tps)),
        told.failed_tps
            .map_or_else(Cell::unknown, |tps| Cell::count("", tps)),
        pull_ms.map_or_else(Cell::none, |ms| {
            let cell = Cell::number(text::age(ms), ms as f64);
            super::cell::aged(cell, answered_ms, app.shown_ms())
        }),
        Cell {
            pieces: flags,
            key: crate::tui::table::Key::Text,
        },
    ]
}

/// True when a client does not get on with a queue that it holds and that has something to read. Where the group is
/// paused it need not.
fn is_stuck(app: &App, detail: &GroupDetail, told: &ClientTold, members: &Members<'_>) -> bool {
    if detail.kind == GroupKind::Broadcasting {
        return false;
    }
    members.held(told).any(|(key, row)| {
        let standing = || Standing {
            unmoved: app.shown().unmoved(row),
            consumed: (told.consumed_ms.get(key))
                .and_then(|at| stuck::ago(told.last_pull_ms.unwrap_or(app.shown_ms()), *at)),
            waits: (detail.oldest.get(key))
                .and_then(|stored| stored.as_ref().ok())
                .map(|stored| Duration::from_millis(super::age_on(app, &row.broker, *stored))),
        };
        let waits = row.lag().is_some_and(|lag| lag > 0) && !members.paused.contains(row.broker.as_str());
        waits && standing().is_stuck()
    })
}

/// `Clients 12  (i: their own numbers, T: stacks)`.
pub fn clients_title(app: &App) -> String {
    let count = detail(app).map_or_else(|| "?".to_owned(), |d| d.clients.len().to_string());
    if !is_drilled(app) {
        return format!("Clients {count}");
    }
    let hint = if app.clients {
        "only what the broker knows"
    } else {
        "ask them for their own numbers"
    };
    let key = app.key(crate::tui::keys::Command::Clients);
    format!("Clients {count}  ({key}: {hint})")
}

/// The backlog over the last ten minutes, with its scale.
pub fn chart(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme();
    let Some(series) = app.shown().group_series.get(name(app)).filter(|s| !s.is_empty()) else {
        grid::put(
            buffer,
            area.x + 1,
            area.y,
            area.right(),
            match app.group() {
                Some(_) => "? no backlog was told yet",
                None => "",
            },
            theme.style(Role::Plain),
        );
        return;
    };
    const LABEL: usize = 8;
    let columns = usize::from(area.width).saturating_sub(LABEL + 3);
    // The last line says when, where there is room for one.
    let rows = usize::from(area.height);
    let axis = rows >= 4;
    let rows = rows - usize::from(axis);
    let lines = bar::chart(series.tail(history::POINTS), columns, rows, Base::Zero);
    let peak = series.peak().unwrap_or(0.0);
    for (i, (line, y)) in lines.iter().zip(area.top()..area.bottom()).enumerate() {
        let label = match i {
            0 => text::count(peak),
            _ if i + 1 == lines.len() => "0".to_owned(),
            _ if i == lines.len() / 2 => text::count(peak * (lines.len() - i) as f64 / lines.len() as f64),
            _ => String::new(),
        };
        let pieces = [
            (format!("{label:>LABEL$} ┤"), Role::Label),
            (line.clone(), Role::Data),
        ];
        grid::pieces(buffer, area.x + 1, y, area.right(), theme, &pieces);
    }
    if axis {
        let line = time_axis(columns, series.len().min(columns), series.span_ms());
        let pieces = [(format!("{:>LABEL$} └{line}", ""), Role::Label)];
        grid::pieces(
            buffer,
            area.x + 1,
            area.bottom() - 1,
            area.right(),
            theme,
            &pieces,
        );
    }
}

/// `4m00s ago ─────── now`, from the first of `points` columns to the last.
fn time_axis(columns: usize, points: usize, span_ms: u64) -> String {
    let blank = " ".repeat(columns.saturating_sub(points));
    let ago = format!("{} ago ", text::age(span_ms));
    let between = points.saturating_sub(text::width(&ago) + 4);
    if between == 0 {
        return format!("{:>columns$}", "now");
    }
    format!("{blank}{ago}{} now", "─".repeat(between))
}

/// `lag over 8m 20s`.
pub fn chart_title(app: &App) -> String {
    let span = app.shown().group_series.get(name(app)).map_or(0, |s| s.span_ms());
    format!("lag over {}", text::age(span))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_axis_begins_under_the_first_point_and_ends_under_the_last() {
        assert_eq!(time_axis(30, 20, 240_000), "          4m00s ago ────── now");
        assert_eq!(time_axis(20, 20, 240_000), "4m00s ago ────── now");
        assert_eq!(time_axis(20, 3, 4_000), "                 now");
        assert_eq!(time_axis(2, 0, 0), "now");
    }
}
