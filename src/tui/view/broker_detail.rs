//! One broker: runtime, put latency, delay levels, replication. Shown alone and beside the list of brokers.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::{self, Piece};
use super::cell::{self, Grade};
use super::grid;
use super::theme::Role;
use super::{age_ms, brokers, text};
use crate::client::RuntimeInfo;
use crate::client::runtime_info::{PoolQueue, Rates};
use crate::client::snapshot::{BrokerState, Seen};
use crate::client::words::counted;
use crate::protocol::model::DLQ_PREFIX;
use crate::tui::app::{App, Pane};
use crate::tui::keys::Command;
use crate::tui::table::{Cell, Row, Table};

/// Java's default delay levels, for a broker whose configuration is not known.
const DELAY_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// The broker that the detail panes are about.
pub fn subject(app: &App) -> Option<&BrokerState> {
    if app.place.broker().is_some() {
        app.broker()
    } else {
        app.selected_broker()
    }
}

/// Title of a detail pane.
pub fn title(app: &App, pane: Pane) -> String {
    let name = subject(app).map_or_else(|| "broker".to_owned(), |b| b.broker.to_string());
    match pane {
        Pane::Runtime => format!("{name} runtime"),
        Pane::Latency => "put latency since boot".to_owned(),
        Pane::Flows => format!("system flows on {name}"),
        Pane::Replication => "replication".to_owned(),
        _ => format!("{name} configuration"),
    }
}

/// Draws runtime, latency or flows.
pub fn draw(app: &App, pane: Pane, area: Rect, buffer: &mut Buffer) {
    let lines = match subject(app) {
        None if app.place.broker().is_some() => vec![vec![plain("this broker is gone")]],
        None => vec![vec![plain("no broker")]],
        Some(broker) => match cell::grade(&broker.runtime, app.shown_ms()) {
            Grade::Unknown => vec![vec![plain("? not asked yet")]],
            Grade::Failed if pane != Pane::Runtime => vec![vec![("✗ no answer".to_owned(), Role::Crit)]],
            Grade::Failed => failed(app, broker),
            Grade::Good | Grade::Doubtful => match broker.runtime.get() {
                None => Vec::new(),
                Some(info) => match pane {
                    Pane::Latency => latency(info, area),
                    Pane::Flows => flows(app, broker, info, area),
                    _ => runtime(app, broker, info),
                },
            },
        },
    };
    let inside = Rect::new(area.x + 1, area.y, area.width.saturating_sub(2), area.height);
    for (line, y) in lines.iter().zip(inside.top()..inside.bottom()) {
        grid::pieces(buffer, inside.x, y, inside.right(), app.theme(), line);
    }
}

fn plain(text: impl Into<String>) -> Piece {
    (text.into(), Role::Plain)
}

fn labelled(label: &str, value: impl Into<String>) -> Vec<Piece> {
    vec![(format!("{label:<12}"), Role::Label), plain(value)]
}

fn failed(app: &App, broker: &BrokerState) -> Vec<Vec<Piece>> {
    let why = broker.runtime.error.as_deref().unwrap_or("no reason known");
    let last = match broker.last_answer_ms {
        Some(at) => format!(
            "{} ({} ago)",
            super::clock(app, at),
            text::age(age_ms(app.shown_ms(), at))
        ),
        None => "never".to_owned(),
    };
    let who = format!("{}/{}", broker.broker.cluster, broker.broker);
    let mut lines = vec![
        vec![("✗ ".to_owned(), Role::Crit), (why.to_owned(), Role::Crit)],
        labelled("address", broker.addr.clone()),
        labelled("answered", last),
    ];
    if let Some(at) = app.shown().retry_at_ms.get(&who) {
        let ms = at.saturating_sub(app.shown_ms()).max(0);
        lines.push(labelled(
            "next try",
            format!(
                "in {}s ({} tries now)",
                (ms + 999) / 1000,
                app.key(Command::Refresh)
            ),
        ));
    }
    lines
}

fn rates(rates: Rates) -> String {
    let one = |r: Option<f64>| r.map_or_else(|| "?".to_owned(), text::count);
    format!("{} / {} / {}", one(rates.s10), one(rates.m1), one(rates.m10))
}

fn known<T>(value: Option<T>, show: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "?".to_owned(), show)
}

fn size(value: Option<i64>) -> String {
    known(value, |n| text::bytes(u64::try_from(n).unwrap_or(0)))
}

fn runtime(app: &App, broker: &BrokerState, info: &RuntimeInfo) -> Vec<Vec<Piece>> {
    let now = app.shown_ms();
    let there = brokers::broker_now(info, now);
    let since = |at: Option<i64>| {
        known(at, |at| {
            format!("{} ({})", super::date(app, at), text::age(age_ms(there, at)))
        })
    };
    let today = |n: Option<i64>| known(n, |n| text::count(n as f64));
    let doubtful = cell::grade(&broker.runtime, now) == Grade::Doubtful;
    let version = known(brokers::version(info), |v| v);
    let age = age_ms(now, broker.runtime.as_of_ms);
    let version = if doubtful {
        format!("{version}  ~{} old", text::age(age))
    } else {
        version
    };
    let version = match app.shown().missed(&broker.broker) {
        0 => version,
        missed => format!("{version}  slow: {} skipped", counted(missed, "beat")),
    };
    let mut lines = vec![
        labelled("version", version),
        labelled("boot", since(info.boot_ms)),
        labelled(
            "put today",
            format!("{}   get today {}", today(info.put_today), today(info.get_today)),
        ),
        labelled("put TPS", format!("{} (10s 1m 10m)", rates(info.put_tps))),
        labelled("get TPS", rates(info.transferred_tps)),
        labelled("miss TPS", rates(info.miss_tps)),
        labelled(
            "dispatch",
            format!(
                "behind {}   flush {}",
                size(info.dispatch_behind_bytes),
                size(info.flush_behind_bytes)
            ),
        ),
        labelled(
            "page cache",
            format!("lock {}", known(info.page_cache_lock_ms, |ms| format!("{ms} ms"))),
        ),
        labelled(
            "commitlog",
            format!(
                "min {} max {}",
                size(info.commit_log_min),
                size(info.commit_log_max)
            ),
        ),
        labelled("earliest", since(info.earliest_message_ms)),
    ];
    let disk = |ratio: Option<f64>| known(ratio, |r| format!("{:.0}%", r * 100.0));
    lines.push(labelled(
        "disk",
        format!(
            "commitlog {}   queues {}",
            disk(info.commit_log_disk_ratio),
            disk(info.consume_queue_disk_ratio)
        ),
    ));
    lines
}

fn pool(name: &str, queue: PoolQueue) -> String {
    let one = |n: Option<i64>| known(n, |n| n.to_string());
    let wait = queue
        .head_wait_ms
        .filter(|w| *w > 0)
        .map_or_else(String::new, |w| format!(" ({w} ms)"));
    format!("{name} {}/{}{wait}", one(queue.size), one(queue.capacity))
}

/// Histogram of puts; buckets that nothing fell into are left out when they would not fit.
fn latency(info: &RuntimeInfo, area: Rect) -> Vec<Vec<Piece>> {
    let total: i64 = info.put_latency.iter().map(|b| b.count).sum();
    let summary = vec![
        vec![
            ("p99 ".to_owned(), Role::Label),
            plain(known(info.put_p99_ms, |ms| format!("{ms:.0} ms"))),
            ("  p99.9 ".to_owned(), Role::Label),
            plain(known(info.put_p999_ms, |ms| format!("{ms:.0} ms"))),
            ("  max ".to_owned(), Role::Label),
            plain(known(info.put_max_ms, |ms| format!("{ms} ms"))),
        ],
        vec![
            ("pools ".to_owned(), Role::Label),
            plain(format!(
                "{} {}",
                pool("send", info.send_pool),
                pool("pull", info.pull_pool)
            )),
        ],
        vec![
            plain("      "),
            plain(format!(
                "{} {}",
                pool("query", info.query_pool),
                pool("endTx", info.end_transaction_pool)
            )),
        ],
    ];
    let room = usize::from(area.height).saturating_sub(summary.len());
    let mut lines = Vec::new();
    if info.put_latency.is_empty() {
        lines.push(vec![plain("? no histogram")]);
    } else if total == 0 {
        lines.push(vec![plain("no message stored since boot")]);
    } else {
        let all = info.put_latency.len() <= room;
        let bar_columns = usize::from(area.width).saturating_sub(24);
        let buckets = info.put_latency.iter().filter(|b| all || b.count > 0);
        for bucket in buckets.take(room) {
            let ratio = bucket.count as f64 / total as f64;
            lines.push(vec![
                (format!("{:<11} ", bucket.range), Role::Label),
                (bar::gauge(ratio, bar_columns), Role::Data),
                plain(format!(" {}", share(ratio, bucket.count))),
            ]);
        }
    }
    lines.extend(summary);
    lines
}

fn share(ratio: f64, count: i64) -> String {
    match ratio * 100.0 {
        _ if count == 0 => "0".to_owned(),
        p if p < 0.1 => "<0.1%".to_owned(),
        p => format!("{p:.1}%"),
    }
}

/// Pending messages by delay level, timer wheel, and the counts of special topics.
fn flows(app: &App, broker: &BrokerState, info: &RuntimeInfo, area: Rect) -> Vec<Vec<Piece>> {
    let names = broker
        .config
        .get()
        .and_then(|c| c.entries.get("messageDelayLevel"));
    let names: Vec<&str> = names
        .map_or(DELAY_LEVELS, String::as_str)
        .split_whitespace()
        .collect();
    let pending = |index: usize| {
        let level = i32::try_from(index + 1).unwrap_or(i32::MAX);
        let found = info.delay_levels.iter().find(|l| l.level == level);
        // A level that was never used is not reported: nothing waits there.
        found.map_or(0, |l| l.max.saturating_sub(l.delivered).max(0))
    };
    let mut head = vec![("delay   ".to_owned(), Role::Label)];
    let mut values = vec![("pending ".to_owned(), Role::Label)];
    let mut used = 8;
    let room = usize::from(area.width).saturating_sub(2);
    let mut columns: Vec<(String, String, Role)> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let n = pending(index);
            let role = if n > 0 { Role::Warn } else { Role::Plain };
            ((*name).to_owned(), text::count(n as f64), role)
        })
        .collect();
    let behind = known(info.timer_behind_s, |s| format!("{s}s"));
    columns.insert(0, ("timer".to_owned(), behind, Role::Plain));
    let dead = app.shown().topics_of(&broker.broker).and_then(|t| t.get());
    let dead = known(dead, |topics| {
        let is_dead = |name: &str| name.starts_with(DLQ_PREFIX);
        topics
            .iter()
            .filter(|(name, _)| is_dead(name))
            .count()
            .to_string()
    });
    columns.insert(1, ("dlqs".to_owned(), dead, Role::Plain));
    let half = app.shown().half_of(&broker.broker).and_then(Seen::get);
    columns.insert(
        1,
        (
            "half".to_owned(),
            known(half, |n| text::count(*n as f64)),
            Role::Plain,
        ),
    );
    for (name, value, role) in columns {
        let width = text::width(&name).max(text::width(&value)) + 1;
        if used + width > room {
            break;
        }
        used += width;
        head.push((format!("{name:<width$}"), Role::Label));
        values.push((format!("{value:<width$}"), role));
    }
    vec![head, values]
}

/// Slaves of the broker.
pub fn slaves(app: &App) -> Table {
    let mut table = Table::new([
        ("SLAVE", false, 0),
        ("ACKED", true, 2),
        ("BEHIND", true, 0),
        ("IN SYNC", false, 1),
        ("SENT/s", true, 3),
    ]);
    let Some(ha) = subject(app).and_then(|b| b.ha.get()) else {
        return table;
    };
    for slave in &ha.slaves {
        let behind = u64::try_from(slave.behind_bytes).unwrap_or(0);
        let sent = u64::try_from(slave.transferred_bytes_per_s).unwrap_or(0);
        let sync = if slave.in_sync {
            Cell::of("✓ yes", Role::Ok)
        } else {
            Cell::of("✗ no", Role::Crit)
        };
        table.rows.push(Row {
            id: slave.addr.clone(),
            name: slave.addr.clone(),
            subject: None,
            cells: vec![
                Cell::text(&slave.addr),
                Cell::number(slave.acked_offset.to_string(), slave.acked_offset as f64),
                Cell::number(text::bytes(behind), behind as f64),
                sync,
                Cell::number(text::bytes(sent), sent as f64),
            ],
        });
    }
    table
}
