//! Screen 1: findings and traffic; its tables come from [`super::rows`].

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::{self, Base, Piece};
use super::grid;
use super::theme::Role;
use super::{rows, text};
use crate::client::doctor::{CHECKS, RESTING};
use crate::client::findings::{self, Severity};
use crate::client::{RuntimeInfo, Snapshot};
use crate::tui::app::{App, Pane};
use crate::tui::history::{POINTS, Series};
use crate::tui::keys::Command;
use crate::tui::model::Total;

/// A difference that is known to this many ms is told as one number.
const EXACT_MS: i64 = 100;

/// `Health  3 ok  1 warn  1 crit`
pub fn health_title(app: &App) -> Vec<Piece> {
    let model = app.shown();
    let count = |severity| model.findings.iter().filter(|f| f.severity == severity).count();
    let ok = findings::healthy(&model.snapshot, &model.findings);
    let mut title = vec![
        ("Health  ".to_owned(), Role::Plain),
        (format!("{ok} ok"), Role::Ok),
    ];
    for (severity, word, role) in [
        (Severity::Warning, "warn", Role::Warn),
        (Severity::Critical, "crit", Role::Crit),
    ] {
        let n = count(severity);
        title.push((format!("  {n} {word}"), if n > 0 { role } else { Role::Plain }));
    }
    title
}

/// Findings, worst first: a line, and an indented one with the detail.
pub fn health(app: &App, area: Rect, buffer: &mut Buffer, focused: bool) {
    let model = app.shown();
    let theme = app.theme();
    let (x, end) = (area.x + 1, area.right().saturating_sub(1));
    let lines = health_lines(app, usize::from(end.saturating_sub(x)));
    let used = lines.len().max(1);
    // Findings have the room first.
    if model.newest_ms().is_some() && used < usize::from(area.height) {
        grid::pieces(buffer, x, area.bottom() - 1, end, theme, &rest(app));
    }
    if model.findings.is_empty() {
        let line: Vec<Piece> = if model.newest_ms().is_none() {
            let servers: Vec<&str> = model
                .snapshot
                .name_servers
                .iter()
                .map(|s| s.addr.as_str())
                .collect();
            vec![(format!("? waiting for {}", servers.join(" ")), Role::Plain)]
        } else {
            vec![(
                format!("✓ {} checks found nothing", CHECKS.len() - RESTING.len()),
                Role::Ok,
            )]
        };
        grid::pieces(buffer, x, area.y, end, theme, &line);
        return;
    }
    let table = app.table(Pane::Health);
    let selected = app.selected(Pane::Health, &table);
    let room = usize::from(area.height);
    let last_selected = lines.iter().rposition(|(i, _)| Some(*i) == selected).unwrap_or(0);
    let from = (last_selected + 1).saturating_sub(room);
    for ((index, line), y) in lines.iter().skip(from).zip(area.top()..area.bottom()) {
        grid::pieces(buffer, x, y, end, theme, line);
        if focused && Some(*index) == selected {
            let row = Rect::new(area.x, y, area.width, 1);
            buffer.set_style(row, theme.style(Role::Selected));
        }
    }
}

/// `clock skew 12 ms  13 checks not run: D runs them`: what the findings do not tell.
fn rest(app: &App) -> Vec<Piece> {
    let mut line = vec![("· ".to_owned(), Role::Plain)];
    if let Some(skew) = skew(&app.shown().snapshot) {
        line.push(("clock skew ".to_owned(), Role::Label));
        line.push((format!("{skew}  "), Role::Plain));
    }
    let key = app.hint(Command::Doctor).unwrap_or_else(|| ":doctor".to_owned());
    line.push((
        format!("{} checks not run: {key} runs them", RESTING.len()),
        Role::Plain,
    ));
    line
}

/// The largest difference of a broker's clock from ours, as well as it is known.
fn skew(snapshot: &Snapshot) -> Option<String> {
    let clocks = snapshot.brokers.iter().filter_map(|b| b.runtime.fresh()?.clock);
    let skew = clocks.max_by_key(|skew| (skew.least().abs(), skew.most()))?;
    let ms = |ms: i64| text::latency(ms.abs().max(1) as f64);
    Some(if skew.high.saturating_sub(skew.low) <= EXACT_MS {
        ms(skew.low.midpoint(skew.high))
    } else if skew.least() == 0 {
        format!("≤ {}", ms(skew.most()))
    } else {
        format!("≥ {}", ms(skew.least()))
    })
}

/// The findings as lines of this width, each with the index of its finding: the text after its glyph, broken at
/// blanks; the detail behind it where it fits, else below it.
pub fn health_lines(app: &App, columns: usize) -> Vec<(usize, Vec<Piece>)> {
    let model = app.shown();
    let mut lines: Vec<(usize, Vec<Piece>)> = Vec::new();
    for (index, finding) in model.findings.iter().enumerate() {
        let (glyph, role) = rows::severity(finding.severity);
        let (text, detail) = rows::finding_texts(&model.snapshot, finding);
        let room = columns.saturating_sub(2);
        let mut broken = text::wrap(&text, room).into_iter();
        let first = broken.next().unwrap_or_default();
        let mut used = text::width(&first);
        lines.push((
            index,
            vec![(format!("{glyph} "), role), (first.into_owned(), role)],
        ));
        for more in broken {
            used = text::width(&more);
            lines.push((index, vec![(format!("  {more}"), role)]));
        }
        let Some(detail) = detail else { continue };
        match lines.last_mut() {
            Some((_, line)) if used + 2 + text::width(&detail) <= room => {
                line.push((format!("  {detail}"), Role::Plain));
            }
            _ => {
                let broken = text::wrap(&detail, room);
                lines.extend(
                    broken
                        .iter()
                        .map(|l| (index, vec![(format!("  {l}"), Role::Plain)])),
                );
            }
        }
    }
    lines
}

/// `Traffic of the last 4m00s (peak 14.1k/s)`
pub fn traffic_title(app: &App) -> String {
    let model = app.shown();
    let peak = [&model.put, &model.get]
        .into_iter()
        .filter_map(Series::peak)
        .reduce(f64::max);
    let span = model.put.span_ms().max(model.lag.span_ms());
    let span = if span > 0 {
        format!(" of the last {}", text::age(span))
    } else {
        String::new()
    };
    match peak {
        Some(peak) => format!("Traffic{span} (peak {}/s)", text::count(peak)),
        None => format!("Traffic{span}"),
    }
}

/// A total as the header and the charts show it: `≥` when a part is missing.
pub fn total(total: Total, unit: &str) -> String {
    match total.value {
        None => "?".to_owned(),
        Some(value) => format!(
            "{}{}{unit}",
            if total.partial { "≥" } else { "" },
            text::count(value)
        ),
    }
}

/// Charts of in, out and lag; then what the masters say of their disks.
pub fn traffic(app: &App, area: Rect, buffer: &mut Buffer) {
    let model = app.shown();
    let theme = app.theme();
    let (x, end) = (area.x + 1, area.right().saturating_sub(1));
    let series = [
        ("in ", &model.put, total(model.put_total(), "/s"), Base::Zero),
        ("out", &model.get, total(model.get_total(), "/s"), Base::Zero),
        ("lag", &model.lag, total(model.lag_total(), ""), Base::Lowest),
    ];
    let value_columns = series
        .iter()
        .map(|(_, _, v, _)| text::width(v))
        .max()
        .unwrap_or(0)
        .max(6);
    let columns = usize::from(end.saturating_sub(x)).saturating_sub(value_columns + 6);
    // Two lines are for the stores; what is left is shared by the charts.
    let height = usize::from(area.height.saturating_sub(2) / 3).max(1);
    let mut y = area.y;
    for (name, points, value, base) in series {
        let rows = bar::chart(points.tail(POINTS), columns, height, base);
        for (i, row) in rows.iter().enumerate() {
            if y >= area.bottom() {
                return;
            }
            let last = i + 1 == rows.len();
            let label = if last { name } else { "   " };
            let value = if last { value.as_str() } else { "" };
            let line = [
                (format!("{label} "), Role::Label),
                (row.clone(), Role::Data),
                (format!(" {value}"), Role::Plain),
            ];
            grid::pieces(buffer, x, y, end, theme, &line);
            y += 1;
        }
    }
    for line in stores(app) {
        if y >= area.bottom() {
            return;
        }
        grid::pieces(buffer, x, y, end, theme, &line);
        y += 1;
    }
}

/// The slowest and the most behind of the answering brokers; what goes round and waits; the third line where there is room.
fn stores(app: &App) -> [Vec<Piece>; 3] {
    let snapshot = &app.shown().snapshot;
    let answering: Vec<&RuntimeInfo> = snapshot
        .brokers
        .iter()
        .filter_map(|b| b.runtime.fresh())
        .collect();
    let worst = |get: fn(&RuntimeInfo) -> Option<i64>| answering.iter().filter_map(|r| get(r)).max();
    let p99 = answering.iter().filter_map(|r| r.put_p99_ms).reduce(f64::max);
    let bytes =
        |n: Option<i64>| n.map_or_else(|| "?".to_owned(), |n| text::bytes(u64::try_from(n).unwrap_or(0)));
    let unknown = || "?".to_owned();
    let delay = (!answering.is_empty()).then(|| {
        let levels = answering.iter().flat_map(|r| &r.delay_levels);
        levels
            .map(|l| l.max.saturating_sub(l.delivered).max(0))
            .sum::<i64>()
    });
    let disk = answering
        .iter()
        .flat_map(|r| [r.commit_log_disk_ratio, r.consume_queue_disk_ratio])
        .flatten()
        .reduce(f64::max);
    let label = |text: &str| (text.to_owned(), Role::Label);
    let plain = |text: String| (text, Role::Plain);
    let model = app.shown();
    let dead = total(model.dead_total(), "");
    [
        vec![
            label("disk "),
            plain(disk.map_or_else(unknown, |d| format!("{:.0}%", d * 100.0))),
            label("  p99 "),
            plain(p99.map_or_else(unknown, |ms| format!("{ms:.0} ms"))),
            label("  flush "),
            plain(bytes(worst(|r| r.flush_behind_bytes))),
            label("  dispatch "),
            plain(bytes(worst(|r| r.dispatch_behind_bytes))),
        ],
        vec![
            label("retry "),
            plain(total(model.retry_total(), "/s")),
            label("  new dlq "),
            plain(dead),
            label("  delayed "),
            plain(delay.map_or_else(unknown, |n| text::count(n as f64))),
            label("  half "),
            plain(total(model.half_total(), "")),
        ],
        vec![
            label("send wait "),
            plain(worst(|r| r.send_pool.head_wait_ms).map_or_else(unknown, |ms| format!("{ms} ms"))),
        ],
    ]
}
