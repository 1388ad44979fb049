//! Checkpoint and verification.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{clock, digits, label, lines, minute, moment, plain, second, stamp};
use crate::tui::app::App;
use crate::tui::keys::Command;
use crate::tui::place::{Pane, Part};
use crate::tui::store::Order;
use crate::tui::store::answer::{Checks, Ended, Verifying};
use crate::tui::store::question::What;
use crate::tui::view::bar::{self, Piece};
use crate::tui::view::text;
use crate::tui::view::theme::Role;

/// Columns of the bar of a pass.
const BAR: usize = 16;
/// Columns from which there is room for more words.
const ROOMY: u16 = 56;
/// The passes in their order, and what each is called here.
const PASSES: [(&str, &str); 3] = [
    ("index", "index"),
    ("commit log", "commitlog"),
    ("queues", "queues"),
];

/// The titles.
pub fn title(app: &App, pane: Pane) -> Vec<Piece> {
    match pane {
        Pane::Store(Part::Checkpoint) => {
            let read = app.store.checks.value.as_ref();
            let read = read.map_or_else(String::new, |checks| {
                format!(
                    "  as of {} ({})",
                    second(app, checks.read_ms),
                    app.key(Command::Refresh)
                )
            });
            vec![plain(format!("checkpoint (4096 B){read}"))]
        }
        Pane::Store(Part::Verify) => {
            let mut title = vec![plain(format!(
                "verify  {} quick  {} full",
                app.key(Command::Store(Order::Verify)),
                app.key(Command::Store(Order::VerifyFull))
            ))];
            if let Some(seen) = &app.store.verify.value {
                let depth = if seen.full { "full" } else { "quick" };
                let word = match seen.ended {
                    None => ("running", Role::Warn),
                    Some(Ended::Complete) => ("complete", Role::Ok),
                    Some(Ended::Stopped) => ("stopped", Role::Warn),
                };
                let seconds = seen.elapsed_ms / 1000;
                title.push((
                    format!("  {depth} {} {:02}:{:02}", word.0, seconds / 60, seconds % 60),
                    word.1,
                ));
                if app
                    .store
                    .about
                    .as_ref()
                    .is_none_or(|(root, _)| *root != seen.root)
                {
                    title.push((format!("  of {}", seen.root.display()), Role::Warn));
                }
            }
            title
        }
        _ => {
            let shown = match app.store.least_severity {
                0 => "",
                1 => "  warnings and errors",
                _ => "  errors only",
            };
            let mut title = vec![plain(format!(
                "Findings  ({} filter severity){shown}",
                app.key(Command::Store(Order::Severity))
            ))];
            if let Some(seen) = app.store.verify.value.as_ref().filter(|seen| seen.more > 0) {
                title.push((format!("  {} more not listed", digits(seen.more)), Role::Warn));
            }
            title
        }
    }
}

/// What stands at the right of the path line.
pub fn note(app: &App) -> Vec<Piece> {
    match &app.store.verify.value {
        Some(seen) => vec![plain(format!(
            "report: verify-{}.json ({}) ",
            stamp(app, seen.begun_ms),
            app.key(Command::Store(Order::Report))
        ))],
        None => vec![plain("no fix is applied here: rmq store repair --plan FILE ")],
    }
}

fn row(name: &str, value: impl Into<String>, role: Role) -> Vec<Piece> {
    vec![label(format!("{name:<20}")), (value.into(), role)]
}

/// Draws the checkpoint.
pub fn checkpoint(app: &App, area: Rect, buffer: &mut Buffer) {
    let out = match (
        &app.store.checks.value,
        &app.store.checks.error,
        &app.store.glance.error,
    ) {
        (_, Some(why), _) | (None, None, Some(why)) => vec![vec![(format!("✗ {why}"), Role::Crit)]],
        (None, None, None) => vec![vec![plain("reading")]],
        (Some(checks), None, _) => told(app, checks, area.width >= ROOMY),
    };
    lines(app, area, buffer, &out);
}

fn told(app: &App, checks: &Checks, roomy: bool) -> Vec<Vec<Piece>> {
    let mut out = Vec::new();
    match &checks.checkpoint {
        None => out.push(vec![(
            "! there is no checkpoint: a crash reads the whole log".to_owned(),
            Role::Warn,
        )]),
        Some(checkpoint) => {
            let time = |name: &str, at: i64| match at {
                0 => row(name, "– never", Role::Plain),
                at => {
                    let behind = checks.newest_ms.map(|newest| newest.saturating_sub(at));
                    let behind = match behind {
                        Some(ms) if ms > 0 => format!("  {} behind", span(ms.unsigned_abs())),
                        Some(0) => "  the newest".to_owned(),
                        Some(_) => "  ! newer than the log".to_owned(),
                        None => String::new(),
                    };
                    let role = if behind.contains('!') {
                        Role::Warn
                    } else {
                        Role::Plain
                    };
                    // The day is in the list of records.
                    let when = if roomy { moment(app, at) } else { clock(app, at) };
                    row(name, format!("{when}{behind}"), role)
                }
            };
            out.push(time("physicMsgTimestamp", checkpoint.physic_msg_timestamp));
            out.push(time("logicsMsgTimestamp", checkpoint.logics_msg_timestamp));
            out.push(time("indexMsgTimestamp", checkpoint.index_msg_timestamp));
            out.push(row(
                "masterFlushedOffset",
                digits(checkpoint.master_flushed_offset),
                Role::Plain,
            ));
            out.push(row(
                "confirmPhyOffset",
                digits(checkpoint.confirm_phy_offset),
                Role::Plain,
            ));
        }
    }
    // A broker writes its process id into it.
    let by = match checks.abort.as_deref() {
        Some(text) if !text.is_empty() => format!("pid {}", text::clean(text)),
        _ => "a broker".to_owned(),
    };
    out.push(match (&checks.abort, checks.holder) {
        (Some(_), Some(_)) => row("abort file", format!("present: {by} runs"), Role::Plain),
        (Some(_), None) => row(
            "abort file",
            match roomy {
                true => format!("! present: not a clean stop of {by}"),
                false => "! not a clean stop".to_owned(),
            },
            Role::Warn,
        ),
        (None, _) => row("abort file", "✓ none: a clean stop", Role::Ok),
    });
    match &checks.recovery {
        None => out.push(row(
            "recover starts at",
            match app
                .store
                .glance
                .value
                .as_ref()
                .is_some_and(|glance| glance.rocks_db)
            {
                true => "? where the queues end: they lie in RocksDB, which is not read",
                false => "? where the queues end: rmq store info tells",
            },
            Role::Plain,
        )),
        Some(recovery) => {
            out.push(row(
                "recover starts at",
                match roomy {
                    true => format!("{:020}  {}", recovery.from, recovery.why),
                    false => format!("{:020}", recovery.from),
                },
                Role::Plain,
            ));
            let end = match (recovery.end, &recovery.stops_at) {
                (Some(end), Some(kind)) => (
                    format!("✗ {} ({kind}), {} cut", digits(end), text::bytes(recovery.cut)),
                    Role::Crit,
                ),
                (Some(end), None) => (digits(end), Role::Plain),
                (None, _) => (
                    match roomy {
                        true => "? not looked at: more than 64 MiB to read".to_owned(),
                        false => "? over 64 MiB to read".to_owned(),
                    },
                    Role::Plain,
                ),
            };
            out.push(row("recover ends at", end.0, end.1));
        }
    }
    let bad: Vec<String> = checks
        .tables
        .iter()
        .filter(|table| table.state != "good")
        .map(|table| format!("{} {} (.bak {})", table.name, table.state, table.backup))
        .collect();
    out.push(if bad.is_empty() {
        row(
            "config tables",
            format!("✓ {} good", checks.tables.len()),
            Role::Ok,
        )
    } else {
        row("config tables", format!("✗ {}", bad.join(", ")), Role::Crit)
    });
    for table in &checks.tables {
        let version = table
            .version
            .map_or_else(String::new, |version| format!("  version {version}"));
        let entries = table
            .entries
            .map_or_else(String::new, |entries| format!("  {entries} entries"));
        let text = format!("{}{entries}{version}  .bak {}", table.state, table.backup);
        let role = if table.state == "good" {
            Role::Plain
        } else {
            Role::Crit
        };
        // A blank between the name and its state.
        out.push(row(&text::fit(&format!("  {}", table.name), 19), text, role));
    }
    out
}

/// A time span with tenths of a second while it is short.
fn span(ms: u64) -> String {
    if ms < 60_000 {
        format!("{}.{}s", ms / 1000, ms % 1000 / 100)
    } else {
        text::age(ms)
    }
}

/// Draws how far the verification is.
pub fn verify(app: &App, area: Rect, buffer: &mut Buffer) {
    let state = &app.store;
    let runs = state.runs(|what| matches!(what, What::Verify { .. }));
    let limit = match state.limit {
        Some(limit) => format!("{limit} MB/s"),
        None => "none".to_owned(),
    };
    let foot = vec![
        label("limit "),
        plain(format!("{limit} ({})", app.key(Command::Store(Order::Limit)))),
        match state.kept {
            _ if runs => plain(format!(
                "   {} stops, keeps report",
                app.key(Command::Store(Order::Stop))
            )),
            Some(kept) => (
                format!(
                    "   {} goes on at {}",
                    app.key(Command::Store(Order::VerifyFull)),
                    digits(kept.at)
                ),
                Role::Warn,
            ),
            None => plain(String::new()),
        },
    ];
    let mut out = match (&state.verify.value, &state.verify.error) {
        (_, Some(why)) => vec![vec![(format!("✗ {why}"), Role::Crit)]],
        (None, None) if runs => vec![vec![plain("opening")]],
        (None, None) => vec![
            vec![plain("not run yet")],
            vec![
                label(format!("{} ", app.key(Command::Store(Order::Verify)))),
                plain("quick: headers, sizes, ends, the newest segment"),
            ],
            vec![
                label(format!("{} ", app.key(Command::Store(Order::VerifyFull)))),
                plain("full: every record, entry and index item"),
            ],
            vec![plain("nothing is changed, no lock is taken")],
        ],
        (Some(seen), None) => progress(app, seen, area.width >= ROOMY),
    };
    out.push(foot);
    if let Some(kept) = state.kept.filter(|_| !runs) {
        let anew = app.key(Command::Store(Order::VerifyAnew));
        let of = run_of(app, kept.of_ms);
        out.push(vec![plain(format!("{anew} begins anew; before: as of {of}"))]);
    }
    lines(app, area, buffer, &out);
}

/// `11-29 12:04`: when an earlier run looked.
fn run_of(app: &App, at_ms: Option<i64>) -> String {
    at_ms.map_or_else(|| "an earlier run".to_owned(), |at| minute(app, at))
}

fn progress(app: &App, seen: &Verifying, roomy: bool) -> Vec<Vec<Piece>> {
    let mut out = Vec::new();
    for (pass, name) in PASSES {
        let found = seen.passes.iter().find(|(progress, _)| progress.pass == pass);
        let mut line = vec![label(format!("{name:<11}"))];
        match found {
            None => line.push(plain(if seen.ended.is_some() {
                "– not reached"
            } else {
                "waits"
            })),
            Some((progress, ms)) => {
                #[allow(clippy::cast_precision_loss)]
                let done = if progress.total == 0 {
                    1.0
                } else {
                    progress.done as f64 / progress.total as f64
                };
                let full = bar::gauge(done, BAR);
                let rest = "░".repeat(BAR.saturating_sub(text::width(&full)));
                line.push((format!("{full}{rest}"), Role::Data));
                let percent = if done >= 1.0 {
                    100.0
                } else {
                    (done * 100.0).floor()
                };
                line.push(plain(format!(" {percent:>3.0}%")));
                if roomy {
                    line.push(plain(format!(" of {}", text::bytes(progress.total))));
                }
                if let Some(rate) = progress
                    .done
                    .checked_mul(1000)
                    .and_then(|done| done.checked_div(*ms))
                {
                    line.push(plain(format!("  {}/s", text::bytes(rate))));
                }
            }
        }
        out.push(line);
        let counts = counts(seen, pass);
        if !counts.is_empty() {
            out.push(counts);
        }
    }
    if let Some(from) = seen.resumed {
        out.push(vec![
            label("from  "),
            plain(digits(from.at)),
            (format!(", before as of {}", run_of(app, from.of_ms)), Role::Warn),
        ]);
    }
    if let Some(report) = &seen.report {
        out.push(vec![
            label("read  "),
            plain(format!(
                "{} records {} entries {} items",
                digits(report.records),
                digits(report.entries),
                digits(report.items)
            )),
        ]);
        let (text, role) = match (report.errors, report.warnings) {
            (0, 0) => ("✓ nothing is wrong".to_owned(), Role::Ok),
            (0, warnings) => (format!("! {warnings} warnings"), Role::Warn),
            (errors, warnings) => (format!("✗ {errors} errors, {warnings} warnings"), Role::Crit),
        };
        out.push(vec![label("found "), (text, role)]);
    }
    out
}

/// What was found in a pass, by its kind.
fn counts(seen: &Verifying, pass: &str) -> Vec<Piece> {
    let mut line = Vec::new();
    let of_pass = seen.counts.iter().filter(|((of, ..), _)| *of == pass);
    for ((_, code, severity), count) in of_pass {
        let role = crate::tui::store::rows::severity(*severity).1;
        line.push((format!("  {} {count}", code.replace('-', " ")), role));
    }
    line
}
