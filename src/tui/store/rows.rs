//! Tables of the store screens. Pure.

use serde_json::json;

use super::answer::{Compared, Found, Kind};
use super::question::What;
use super::view::{digits, minute, moment};
use super::{Lookup, entry_id, index_file, log_id};
use crate::inspect::Severity;
use crate::inspect::repair::{Remedy, remedy};
use crate::tui::app::App;
use crate::tui::place::{Pane, Part};
use crate::tui::table::{Cell, Row, Table};
use crate::tui::view::bar;
use crate::tui::view::text;
use crate::tui::view::theme::Role;

/// Columns of a bar that shows positions.
const BAR: usize = 40;

/// Rows of a pane; panes that are no tables have none.
pub fn of(app: &App, pane: Pane) -> Table {
    match pane {
        Pane::Store(Part::Log) => log(app),
        Pane::Store(Part::Entries) => entries(app),
        Pane::Store(Part::QueueList) => queues(app),
        Pane::Store(Part::Positions) => positions(app),
        Pane::Store(Part::Files) => files(app),
        Pane::Store(Part::Lookup) => lookup(app),
        Pane::Store(Part::Findings) => findings(app),
        _ => Table::default(),
    }
}

fn row(id: impl Into<String>, name: impl Into<String>, cells: Vec<Cell>) -> Row {
    Row {
        id: id.into(),
        name: name.into(),
        subject: None,
        cells,
    }
}

#[allow(clippy::cast_precision_loss)]
fn number(n: i64) -> Cell {
    Cell::number(digits(n), n as f64)
}

#[allow(clippy::cast_precision_loss)]
fn unsigned(n: u64) -> Cell {
    Cell::number(digits(n), n as f64)
}

/// Word and role of what a row of the log is.
pub fn kind(kind: Kind) -> (String, Role) {
    match kind {
        Kind::Record(version) => (format!("V{version}"), Role::Plain),
        Kind::Stale => ("STALE".to_owned(), Role::Warn),
        Kind::Filler => ("BLANK".to_owned(), Role::Data),
        Kind::Tail => ("TAIL".to_owned(), Role::Data),
        Kind::Damage(what) => (what.to_owned(), Role::Crit),
    }
}

fn log(app: &App) -> Table {
    let mut table = Table::new([
        ("PHYS OFFSET", true, 0),
        ("SIZE", true, 1),
        ("TYPE", false, 0),
        ("TOPIC", false, 0),
        ("Q", true, 2),
        ("Q OFFSET", true, 3),
        ("STORE TIME", false, 4),
        ("KEYS", false, 5),
        ("CRC", false, 1),
        ("TAG", false, 7),
        ("BODY", true, 8),
    ]);
    let most = if app.wide {
        usize::MAX
    } else {
        usize::from(app.size.0) / 5
    };
    for found in &app.store.log.page.rows {
        let (word, role) = kind(found.kind);
        let is_record = matches!(found.kind, Kind::Record(_) | Kind::Stale) || found.queue.is_some();
        let text_or_none = |text: &str| {
            if text.is_empty() {
                Cell::none()
            } else {
                Cell::text(text)
            }
        };
        // A long name leaves room for the other columns.
        let topic = if is_record {
            Cell::text(text::fit(&text::clean(&found.topic), most).into_owned())
        } else {
            Cell::of(&found.note, role)
        };
        let crc = match found.kind {
            Kind::Record(_) | Kind::Stale => Cell::of("ok", Role::Ok),
            Kind::Damage("BAD CRC") => Cell::of("✗ bad", Role::Crit),
            _ => Cell::none(),
        };
        let mut cells = vec![
            unsigned(found.at),
            if found.kind == Kind::Tail {
                Cell::none()
            } else {
                unsigned(found.size)
            },
            Cell::of(word, role),
            topic,
        ];
        match found.queue {
            Some((queue, offset)) => cells.extend([number(queue.into()), number(offset)]),
            None => cells.extend([Cell::none(), Cell::none()]),
        }
        cells.extend([
            found
                .stored_ms
                .map_or_else(Cell::none, |at| Cell::text(moment(app, at))),
            text_or_none(&found.keys),
            crc,
            text_or_none(&found.tag),
            if is_record {
                unsigned(found.body as u64)
            } else {
                Cell::none()
            },
        ]);
        table.rows.push(row(log_id(found), found.at.to_string(), cells));
    }
    table
}

fn entries(app: &App) -> Table {
    let mut table = Table::new([
        ("Q OFFSET", true, 0),
        ("PHYS OFFSET", true, 0),
        ("SIZE", true, 3),
        ("TAGSCODE", true, 4),
        ("TAG", false, 2),
        ("STORE TIME", false, 5),
        ("RECORD CHECK", false, 0),
    ]);
    for found in &app.store.entries.page.page.rows {
        let check = match found.check {
            Compared::Good => Cell::of("✓ ok", Role::Ok),
            Compared::Past => Cell::of("– past", Role::Plain),
            Compared::Wrong => Cell::of("✗", Role::Crit),
        };
        let check = if found.note.is_empty() {
            check
        } else {
            let mut check = check;
            let role = if found.check == Compared::Wrong {
                Role::Crit
            } else {
                Role::Plain
            };
            check.pieces.push((format!(" {}", found.note), role));
            check
        };
        let code = match found.code.strip_prefix('@').and_then(|ms| ms.parse().ok()) {
            Some(ms) => format!("due {}", moment(app, ms)),
            None => found.code.clone(),
        };
        let (at, size) = match found.record {
            Some((at, size)) => (number(at), number(size.into())),
            None => (Cell::none(), Cell::none()),
        };
        table.rows.push(row(
            entry_id(found),
            found.record.map_or_else(String::new, |(at, _)| at.to_string()),
            vec![
                number(found.offset),
                at,
                size,
                Cell::text(code),
                found.tag.as_ref().map_or_else(Cell::none, Cell::text),
                found
                    .stored_ms
                    .map_or_else(Cell::unknown, |at| Cell::text(moment(app, at))),
                check,
            ],
        ));
    }
    table
}

fn queues(app: &App) -> Table {
    let mut table = Table::new([
        ("Q", true, 0),
        ("MIN", true, 1),
        ("MAX", true, 0),
        ("FILES", true, 4),
        ("COMMITLOG SPAN", false, 3),
        ("GAPS", true, 2),
        ("ORPHANS", true, 2),
        ("SERVED", false, 0),
    ]);
    let (Some(queues), Some((topic, shown))) = (&app.store.queues.value, &app.store.queue) else {
        return table;
    };
    for line in &queues.queues {
        // Checks are of the files.
        let sums = match app.store.wire {
            None => app.store.sums.get(&(topic.clone(), line.queue)),
            Some(_) => None,
        };
        let counted = |count: u64, over: bool| {
            let role = if count > 0 { Role::Crit } else { Role::Ok };
            let least = if over { "" } else { "≥" };
            Cell::of(format!("{least}{}", digits(count)), role)
        };
        let (gaps, orphans) = match sums {
            Some(sums) => {
                let over = sums.over && !sums.stopped;
                (
                    counted(sums.gaps.0, over),
                    counted(sums.orphans + sums.differ, over),
                )
            }
            None => (Cell::unknown(), Cell::unknown()),
        };
        let waiting = line.max.saturating_sub(line.min);
        // How many consumers read is known of the broker that is shown.
        let read = queues.read_queues.filter(|_| {
            app.store
                .wire
                .as_ref()
                .is_none_or(|broker| *broker == line.broker)
        });
        let served = match read {
            None => Cell::unknown(),
            Some(read) if i64::from(line.queue) < read => Cell::of("yes", Role::Ok),
            Some(_) if waiting > 0 => Cell::of(format!("NO: {} stranded", digits(waiting)), Role::Warn),
            Some(_) => Cell::text("no, empty"),
        };
        let is_shown = line.queue == *shown
            && app
                .store
                .wire
                .as_ref()
                .is_none_or(|broker| *broker == line.broker);
        let sign = if is_shown { "▸" } else { "" };
        table.rows.push(row(
            line.id(),
            format!("{topic}/{}", line.queue),
            vec![
                Cell::number(format!("{sign}{}", line.id()), line.queue.into()),
                number(line.min),
                number(line.max),
                if app.store.is_wire() {
                    Cell::none()
                } else {
                    Cell::text(line.files.to_string())
                },
                line.span
                    .map_or_else(Cell::none, |(from, to)| Cell::text(span(from, to))),
                gaps,
                orphans,
                served,
            ],
        ));
    }
    table
}

/// `0.4 – 29.2 GiB`: two offsets in the unit of the second.
pub fn span(from: i64, to: i64) -> String {
    let [from, to] = [from, to].map(|n| u64::try_from(n).unwrap_or(0));
    let (to_text, from_text) = (text::bytes(to), text::bytes(from));
    match (from_text.rsplit_once(' '), to_text.rsplit_once(' ')) {
        (Some((number, a)), Some((_, b))) if a == b => format!("{number} – {to_text}"),
        _ => format!("{from_text} – {to_text}"),
    }
}

fn positions(app: &App) -> Table {
    let mut table = Table::new([
        ("GROUP", false, 0),
        ("OFFSET", true, 1),
        ("POSITION", false, 2),
        ("LAG", true, 0),
    ]);
    let (Some(queues), Some((_, queue))) = (&app.store.queues.value, &app.store.queue) else {
        return table;
    };
    let is_here = |broker: &str| app.store.wire.as_ref().is_none_or(|here| here == broker);
    let line = queues
        .queues
        .iter()
        .find(|line| line.queue == *queue && is_here(&line.broker));
    let Some(positions) = &queues.positions else {
        return table;
    };
    for (group, offsets) in &positions.groups {
        let cells = match (offsets.get(queue), line) {
            (Some(&offset), Some(line)) => {
                let lag = line.max.saturating_sub(offset);
                let role = match lag {
                    0 => Role::Ok,
                    lag if lag < 0 || offset < line.min => Role::Crit,
                    _ => Role::Plain,
                };
                let place = if lag < 0 {
                    Cell::of("✗ beyond the end of the queue", Role::Crit)
                } else if offset < line.min {
                    Cell::of("! before the first entry: messages are gone", Role::Warn)
                } else {
                    marker(offset.saturating_sub(line.min), line.max.saturating_sub(line.min))
                };
                vec![number(offset), place, number(lag).role(role)]
            }
            _ => vec![
                Cell::none(),
                Cell::text("no position in this queue"),
                Cell::none(),
            ],
        };
        let mut all = vec![Cell::text(group)];
        all.extend(cells);
        table.rows.push(row(group.clone(), group.clone(), all));
    }
    table
}

/// `├────▲──┤`
fn marker(at: i64, of: i64) -> Cell {
    let cells = i64::try_from(BAR).unwrap_or(0);
    let place = if of > 0 {
        at.saturating_mul(cells) / of
    } else {
        cells
    };
    let place = usize::try_from(place).unwrap_or(0).min(BAR);
    Cell {
        pieces: vec![
            (format!("├{}", "─".repeat(place)), Role::Data),
            ("▲".to_owned(), Role::Focus),
            (format!("{}┤", "─".repeat(BAR - place)), Role::Data),
        ],
        key: crate::tui::table::Key::Text,
    }
}

#[allow(clippy::cast_precision_loss)]
fn share(part: i64, whole: Option<u64>) -> Option<f64> {
    whole
        .filter(|&whole| whole > 0)
        .map(|whole| part as f64 / whole as f64)
}

fn files(app: &App) -> Table {
    let mut table = Table::new([
        ("FILE", false, 0),
        ("KEYS", true, 0),
        ("SLOTS USED", true, 2),
        ("FULL", false, 1),
        ("TIME SPAN", false, 3),
        ("PHYS SPAN", false, 4),
        ("SIZE", true, 5),
    ]);
    for file in app.store.index.value.as_deref().unwrap_or_default() {
        let percent = |part: i64, whole: Option<u64>| {
            share(part, whole).map_or_else(|| "?".to_owned(), |share| format!("{:.0}%", share * 100.0))
        };
        let full = share(file.items.0, file.items.1);
        let full = match full {
            Some(full) => Cell {
                pieces: vec![
                    (format!("{:<6}", bar::gauge(full, 6)), Role::Data),
                    (
                        format!(" {:>4}", percent(file.items.0, file.items.1)),
                        Role::Plain,
                    ),
                ],
                key: crate::tui::table::Key::Number(full),
            },
            None => Cell::of("? shape unknown", Role::Warn),
        };
        let is_empty = file.items.0 <= 0;
        let times = |at: i64| minute(app, at);
        table.rows.push(row(
            file.name.clone(),
            file.name.clone(),
            vec![
                Cell::text(&file.name),
                number(file.items.0),
                Cell::text(format!(
                    "{} ({})",
                    digits(file.slots.0),
                    percent(file.slots.0, file.slots.1)
                )),
                full,
                if is_empty {
                    Cell::none()
                } else {
                    Cell::text(format!("{} – {}", times(file.times.0), times(file.times.1)))
                },
                if is_empty {
                    Cell::none()
                } else {
                    Cell::text(span(file.offsets.0, file.offsets.1))
                },
                Cell::text(text::bytes(file.len)),
            ],
        ));
    }
    table
}

/// A store time out of the index, which knows whole seconds.
fn stored(app: &App, at_ms: i64) -> String {
    let mut text = moment(app, at_ms);
    if let Some(point) = text.rfind('.') {
        text.truncate(point);
    }
    text
}

fn lookup(app: &App) -> Table {
    if app.store.lookup == Lookup::Hottest {
        return hottest(app);
    }
    let mut table = Table::new([
        ("ITEM", true, 0),
        ("HASH", false, 0),
        ("PHYS OFFSET", true, 0),
        ("STORE TIME", false, 1),
        ("MEANS", false, 0),
    ]);
    let chain = super::view::chain(app);
    let is_key = matches!(app.store.lookup, Lookup::Key { .. });
    for item in chain.map(|chain| chain.walk.items.as_slice()).unwrap_or_default() {
        let sign = match item.verdict {
            _ if !is_key => item.hash.to_string(),
            Found::OtherHash => "≠".to_owned(),
            _ => "=".to_owned(),
        };
        let keys = item.keys.join(" ");
        let means = match &item.verdict {
            Found::Hit if is_key => Cell::of("✓ MATCH", Role::Ok),
            Found::Hit => Cell::text(keys),
            Found::OtherKey => Cell::of(format!("! other key {keys}"), Role::Warn),
            Found::OtherHash => Cell::text("collision inside the slot"),
            Found::Expired => Cell::text("– expired"),
            Found::NoRecord(why) => Cell::of(format!("✗ no record: {why}"), Role::Crit),
        };
        table.rows.push(row(
            item.number.to_string(),
            item.at.to_string(),
            vec![
                number(item.number.into()),
                Cell::text(sign),
                number(item.at),
                Cell::text(stored(app, item.stored_ms)),
                means,
            ],
        ));
    }
    table
}

fn hottest(app: &App) -> Table {
    let mut table = Table::new([
        ("SLOT", true, 0),
        ("ITEMS", true, 0),
        ("OF ONE KEY", true, 1),
        ("KEY", false, 0),
    ]);
    let survey = index_file(app).and_then(|file| app.store.surveys.get(&file.name));
    for hot in survey.map(|seen| seen.hot.as_slice()).unwrap_or_default() {
        let least = if hot.walked < u64::from(hot.items) {
            "≥"
        } else {
            ""
        };
        table.rows.push(row(
            hot.slot.to_string(),
            hot.slot.to_string(),
            vec![
                number(hot.slot.into()),
                number(hot.items.into()),
                Cell::text(format!("{least}{}", digits(hot.of_hash))),
                match &hot.key {
                    Some(key) => Cell::text(key),
                    None => Cell::text(format!("hash {} (its record is gone)", hot.hash)),
                },
            ],
        ));
    }
    table
}

/// Glyph, word and role of a severity.
pub const fn severity(severity: Severity) -> (&'static str, Role) {
    match severity {
        Severity::Error => ("✗ error", Role::Crit),
        Severity::Warning => ("! warn", Role::Warn),
        Severity::Info => ("· info", Role::Plain),
    }
}

/// What `rmq store repair` does about a finding.
pub fn fix(finding: &crate::inspect::Finding) -> &'static str {
    if finding.severity == Severity::Info {
        return "–";
    }
    match remedy(finding.code) {
        Remedy::CutLog => "cut the log here",
        Remedy::Queue => "make the queue anew",
        Remedy::Index => "make the index anew",
        Remedy::Checkpoint => "write it anew",
        Remedy::File | Remedy::None => "–",
    }
}

fn findings(app: &App) -> Table {
    let mut table = Table::new([
        ("SEV", false, 0),
        ("WHERE", false, 0),
        ("WHAT", false, 0),
        ("FIX", false, 3),
        ("MEANING", false, 5),
    ]);
    let least = app.store.least_severity;
    let found = app
        .store
        .verify
        .value
        .as_ref()
        .map(|seen| seen.findings.as_slice());
    let rank = |severity: Severity| match severity {
        Severity::Error => 2,
        Severity::Warning => 1,
        Severity::Info => 0,
    };
    let mut order: Vec<usize> = (0..found.map_or(0, <[_]>::len)).collect();
    let found = found.unwrap_or_default();
    order.retain(|&n| rank(found[n].severity) >= least);
    order.sort_by_key(|&n| std::cmp::Reverse(rank(found[n].severity)));
    for n in order {
        let finding = &found[n];
        let (word, role) = severity(finding.severity);
        let file = finding
            .file
            .as_deref()
            .and_then(|file| file.file_name()?.to_str());
        let mut place = finding.subject.clone();
        match (file, finding.offset) {
            (_, Some(at)) => place += &format!(" {}", digits(at)),
            (Some(file), None) if !place.contains(file) => place += &format!(" {file}"),
            _ => {}
        }
        table.rows.push(row(
            n.to_string(),
            place.clone(),
            vec![
                Cell::of(word, role).by(f64::from(rank(finding.severity))),
                Cell::text(place),
                Cell::text(&finding.what),
                Cell::text(fix(finding)),
                Cell::text(&finding.meaning),
            ],
        ));
    }
    table
}

/// Name and text of the report of the newest verification.
pub fn report(app: &App) -> Option<(String, String)> {
    let seen = app.store.verify.value.as_ref()?;
    let stamp = super::view::stamp(app, seen.begun_ms);
    let items: Vec<_> = seen
        .findings
        .iter()
        .map(|finding| {
            json!({
                "severity": finding.severity.name(), "code": finding.code, "subject": finding.subject,
                "offset": finding.offset, "len": finding.len, "what": finding.what,
                "meaning": finding.meaning, "file": finding.file,
            })
        })
        .collect();
    let depth = What::depth(seen.full);
    let mut summary = seen.report.clone().unwrap_or_default().summary(depth);
    if seen.report.is_none() {
        // It is not over, or was stopped: of the numbers only those of the findings are known.
        summary
            .values_mut()
            .filter(|v| v.is_number())
            .for_each(|v| *v = serde_json::Value::Null);
        for (name, severity) in [
            ("infos", Severity::Info),
            ("warnings", Severity::Warning),
            ("errors", Severity::Error),
        ] {
            let of = seen.counts.iter().filter(|((_, _, s), _)| *s == severity);
            summary.insert(name.to_owned(), of.map(|(_, n)| n).sum::<u64>().into());
        }
    }
    summary.insert(
        "complete".to_owned(),
        (seen.ended == Some(super::answer::Ended::Complete)).into(),
    );
    summary.insert("resumed_at".to_owned(), seen.resumed.map(|from| from.at).into());
    let of_ms = seen.resumed.and_then(|from| from.of_ms);
    summary.insert("resumed_of_ms".to_owned(), of_ms.into());
    summary.insert("elapsed_ms".to_owned(), seen.elapsed_ms.into());
    summary.insert("findings_left_out".to_owned(), seen.more.into());
    let text = json!({
        "kind": "StoreFindingList",
        "apiVersion": "rmq/v1",
        "context": { "store": seen.root, "begun_ms": seen.begun_ms },
        "items": items,
        "summary": summary,
        "errors": [],
    });
    Some((format!("verify-{stamp}.json"), format!("{text:#}\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_name_a_unit_once() {
        const GIB: i64 = 1 << 30;
        assert_eq!(span(GIB / 2, GIB), "512.0 MiB – 1.0 GiB");
        assert_eq!(span(GIB, 29 * GIB), "1.0 – 29.0 GiB");
        assert_eq!(span(-1, 100), "0 – 100 B");
    }

    #[test]
    fn a_position_lies_between_the_ends() {
        let text = |at, of| marker(at, of).plain();
        assert!(text(0, 100).starts_with("├▲"));
        assert!(text(100, 100).ends_with("▲┤"));
        assert!(text(0, 0).ends_with("▲┤"));
        assert_eq!(text(50, 100).chars().count(), BAR + 3);
    }
}
