//! Drawing of the store screens. Pure.

mod checks;
mod index;
mod record;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

pub use index::{FINE, chain, heat_cell, heat_cells, heat_count, heat_shape};
pub use record::hex_width;

use super::{Order, index_file, root};
use crate::tui::app::App;
use crate::tui::keys::Command;
use crate::tui::place::{Pane, Part, Screen};
use crate::tui::table::Table;
use crate::tui::view::bar::Piece;
use crate::tui::view::theme::Role;
use crate::tui::view::{grid, layout, text};

/// A number with separators: `31,356,766,276`.
pub fn digits(n: impl Into<i128>) -> String {
    text::grouped(n)
}

fn zoned(app: &App, at_ms: i64, format: &str) -> String {
    let Ok(time) = jiff::Timestamp::from_millisecond(at_ms) else {
        return at_ms.to_string();
    };
    time.to_zoned_datetime(app.settings.zone.clone())
        .strftime(format)
        .to_string()
}

/// `11-29 12:04:30.111`
pub fn moment(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms, "%m-%d %H:%M:%S%.3f")
}

/// `11-29 12:04`
pub fn minute(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms, "%m-%d %H:%M")
}

/// `12:04:30`
pub fn second(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms, "%H:%M:%S")
}

/// `12:04:30.111`
pub fn clock(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms, "%H:%M:%S%.3f")
}

/// `2026-11-29`
pub fn day(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms, "%Y-%m-%d")
}

/// `20261129-120431`
pub fn stamp(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms, "%Y%m%d-%H%M%S")
}

/// What a title says when a broker was asked.
const SOURCE_WIRE: &str = "source: wire (321, 33)";
/// What is said of what no request brings.
const FILE_ONLY: &str = "file-only: this is from the files, not over the wire ";

pub(super) fn plain(text: impl Into<String>) -> Piece {
    (text.into(), Role::Plain)
}

pub(super) fn label(text: impl Into<String>) -> Piece {
    (text.into(), Role::Label)
}

/// Writes lines into an area, a blank column at each side.
pub(super) fn lines(app: &App, area: Rect, buffer: &mut Buffer, lines: &[Vec<Piece>]) {
    let inside = Rect::new(area.x + 1, area.y, area.width.saturating_sub(2), area.height);
    for (line, y) in lines.iter().zip(inside.top()..inside.bottom()) {
        grid::pieces(buffer, inside.x, y, inside.right(), app.theme(), line);
    }
}

/// Where the panes of a store screen are.
pub fn areas(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    let roomy = body.width >= 96 && body.height >= 20;
    if !roomy {
        return vec![(app.focus(), body)];
    }
    let wide = body.width >= layout::WIDE;
    let above = |area: Rect, height: u16| split(area, height.min(area.height), true);
    let left = |area: Rect, width: u16| split(area, width.min(area.width), false);
    match app.place.screen {
        Screen::Store if wide => {
            let (list, detail) = left(body, body.width - 92);
            let (tree, hex) = above(detail, (detail.height * 3 / 5).min(30));
            vec![
                (Pane::Store(Part::Log), list),
                (Pane::Store(Part::Tree), tree),
                (Pane::Store(Part::Hex), hex),
            ]
        }
        Screen::Store => {
            let (list, detail) = above(body, (body.height * 2 / 5).max(8));
            let (hex, tree) = left(detail, body.width * 3 / 5);
            vec![
                (Pane::Store(Part::Log), list),
                (Pane::Store(Part::Hex), hex),
                (Pane::Store(Part::Tree), tree),
            ]
        }
        Screen::StoreQueues => {
            let queues = app.store.queues.value.as_ref();
            let rows = |n: usize| u16::try_from(n).unwrap_or(u16::MAX).saturating_add(3);
            let lines = rows(queues.map_or(1, |queues| queues.queues.len()));
            let positions = queues.and_then(|queues| queues.positions.as_ref());
            let groups = rows(positions.map_or(1, |positions| positions.groups.len().max(1)));
            let third = body.height / 3;
            let (upper, lower) = above(body, body.height - groups.clamp(4, third.max(5)));
            let (entries, list) = above(upper, upper.height - lines.clamp(4, third.max(6)));
            vec![
                (Pane::Store(Part::Entries), entries),
                (Pane::Store(Part::QueueList), list),
                (Pane::Store(Part::Positions), lower),
            ]
        }
        Screen::StoreIndex => {
            let files = app.store.index.value.as_ref().map_or(1, Vec::len);
            let files = u16::try_from(files).unwrap_or(u16::MAX).saturating_add(3);
            let (files, rest) = above(body, files.clamp(4, (body.height / 3).max(5)));
            let (middle, lengths) = above(rest, rest.height.saturating_sub(3));
            let (heat, lookup) = left(middle, body.width / 2);
            vec![
                (Pane::Store(Part::Files), files),
                (Pane::Store(Part::Heat), heat),
                (Pane::Store(Part::Lookup), lookup),
                (Pane::Store(Part::Lengths), lengths),
            ]
        }
        _ => {
            let (upper, findings) = above(body, (body.height / 2).min(12));
            let (checkpoint, verify) = left(upper, body.width / 2);
            vec![
                (Pane::Store(Part::Checkpoint), checkpoint),
                (Pane::Store(Part::Verify), verify),
                (Pane::Store(Part::Findings), findings),
            ]
        }
    }
}

fn split(area: Rect, first: u16, down: bool) -> (Rect, Rect) {
    if down {
        (
            Rect {
                height: first,
                ..area
            },
            Rect {
                y: area.y + first,
                height: area.height - first,
                ..area
            },
        )
    } else {
        (
            Rect { width: first, ..area },
            Rect {
                x: area.x + first,
                width: area.width - first,
                ..area
            },
        )
    }
}

/// Draws a pane that is no plain table; false for the others.
pub fn draw(app: &App, pane: Pane, area: Rect, buffer: &mut Buffer) -> bool {
    match pane {
        Pane::Store(Part::Hex) => record::hex(app, area, buffer),
        Pane::Store(Part::Tree) => record::tree(app, area, buffer),
        Pane::Store(Part::Heat) => index::heat(app, area, buffer),
        Pane::Store(Part::Lookup) => index::lookup(app, area, buffer),
        Pane::Store(Part::Lengths) => index::lengths(app, area, buffer),
        Pane::Store(Part::Checkpoint) => checks::checkpoint(app, area, buffer),
        Pane::Store(Part::Verify) => checks::verify(app, area, buffer),
        _ => return false,
    }
    true
}

/// Draws a table with the selection that the pane has.
pub(super) fn table(app: &App, pane: Pane, area: Rect, buffer: &mut Buffer, rows: &Table) {
    let selected = app.selected(pane, rows);
    let page = usize::from(area.height.saturating_sub(1));
    let state = app.pane(pane);
    let view = grid::View {
        offset: layout::scroll(state.offset, selected.unwrap_or(0), page, rows.rows.len()),
        selected,
        column: state.column,
        focused: app.focus() == pane,
    };
    grid::table(buffer, area, app.theme(), rows, view);
}

/// Who holds the store, in the title.
fn holder(app: &App) -> Piece {
    match app.store.glance.value.as_ref().map(|glance| glance.holder) {
        Some(Some(0)) => ("READ-ONLY, a broker runs".to_owned(), Role::Warn),
        Some(Some(pid)) => (format!("READ-ONLY, lock held: pid {pid}"), Role::Warn),
        Some(None) => ("READ-ONLY, no broker runs".to_owned(), Role::Ok),
        None => ("?".to_owned(), Role::Plain),
    }
}

/// Where the queues are, when they are not in files.
fn rocks_db(app: &App) -> Option<Piece> {
    let glance = app.store.glance.value.as_ref()?;
    glance.rocks_db.then(|| {
        (
            "  queues lie in RocksDB, which is not read".to_owned(),
            Role::Warn,
        )
    })
}

/// The title of a pane.
pub fn title(app: &App, pane: Pane) -> Vec<Piece> {
    let state = &app.store;
    match pane {
        Pane::Store(Part::Log) if state.is_wire() => vec![
            plain(format!("Records of {}   ", queue_name(app))),
            (SOURCE_WIRE.to_owned(), Role::Warn),
        ],
        Pane::Store(Part::Log) => {
            let mut title = vec![plain("CommitLog  ")];
            if let Some((root, commit_log)) = root(app) {
                let dir = commit_log.unwrap_or_else(|| root.join("commitlog").display().to_string());
                title.push(plain(format!("{dir}  ")));
            }
            if let Some(glance) = &state.glance.value {
                let n = glance.segments;
                let size = text::bytes(glance.segment_size);
                title.push(plain(format!(
                    "{n} segment{} × {size}  ",
                    if n == 1 { "" } else { "s" }
                )));
            }
            if let Some(topic) = &state.topic {
                title.push((format!("only {topic}  "), Role::Warn));
            }
            title.push(holder(app));
            title.extend(rocks_db(app));
            if let Some(glance) = &state.glance.value {
                let (start, end) = (digits(glance.start), digits(glance.end));
                title.push(plain(format!("  {start} to {end}")));
            }
            title
        }
        Pane::Store(Part::Hex) | Pane::Store(Part::Tree) => record::title(app, pane),
        Pane::Store(Part::Entries) => {
            let Some((topic, queue)) = &state.queue else {
                let mut title = vec![plain("ConsumeQueue")];
                title.extend(rocks_db(app));
                return title;
            };
            let page = &state.entries.page;
            if state.is_wire() {
                let ends = if state.entries.is_known {
                    format!(
                        "   min {}  max {}",
                        digits(page.offsets.0),
                        digits(page.offsets.1)
                    )
                } else {
                    String::new()
                };
                return vec![
                    plain(format!("ConsumeQueue  {}{ends}   ", queue_name(app))),
                    (SOURCE_WIRE.to_owned(), Role::Warn),
                ];
            }
            let mut title = vec![plain(format!("ConsumeQueue  {topic} / {queue}"))];
            if state.entries.is_known {
                title.push(plain(format!(
                    "   {} file{} × {} entries × {} B   min {}  max {}",
                    page.files,
                    if page.files == 1 { "" } else { "s" },
                    digits(page.per_file),
                    page.entry_len,
                    digits(page.offsets.0),
                    digits(page.offsets.1)
                )));
            }
            title.extend(rocks_db(app));
            title
        }
        Pane::Store(Part::QueueList) => {
            let topic = state.queue.as_ref().map_or("?", |(topic, _)| topic.as_str());
            let read = state.queues.value.as_ref().and_then(|queues| queues.read_queues);
            let read = read.map_or_else(|| "?".to_owned(), |read| read.to_string());
            let mut title = vec![plain(format!("Queues of {topic}  (consumers read {read})"))];
            let queues = state.queues.value.as_ref().filter(|_| state.is_wire());
            if let Some(why) = queues.and_then(|queues| queues.problem.as_ref()) {
                title.push((format!("  ✗ {why}"), Role::Crit));
            }
            title
        }
        Pane::Store(Part::Positions) => {
            let queue = state
                .queue
                .as_ref()
                .map_or_else(String::new, |(_, queue)| format!(" in queue {queue}"));
            let from = match &state.wire {
                Some(broker) => format!("as {broker} tells"),
                None => "config/consumerOffset.json".to_owned(),
            };
            let mut title = vec![plain(format!("Committed offsets{queue}  ({from})"))];
            let queues = state.queues.value.as_ref();
            let positions = queues.and_then(|queues| queues.positions.as_ref());
            let more = positions.map_or(0, |positions| positions.more);
            if more > 0 {
                let verb = if state.is_wire() { "asked" } else { "listed" };
                title.push((format!("  {more} more groups not {verb}"), Role::Warn));
            }
            if let Some(why) = positions.and_then(|positions| positions.problem.as_ref()) {
                title.push((format!("  ✗ {why}"), Role::Crit));
            }
            title
        }
        Pane::Store(Part::Files) => {
            let shape = index_file(app).map(|file| (file.slots.1, file.items.1));
            let shape = match shape {
                Some((Some(slots), Some(items))) => {
                    format!("  {} slots × {} entries", digits(slots), digits(items + 1))
                }
                _ => String::new(),
            };
            vec![plain(format!("IndexFile  store/index{shape}"))]
        }
        Pane::Store(Part::Heat) | Pane::Store(Part::Lookup) | Pane::Store(Part::Lengths) => {
            index::title(app, pane)
        }
        _ => checks::title(app, pane),
    }
}

/// Why a table has no rows.
pub fn empty(app: &App, pane: Pane) -> String {
    let state = &app.store;
    let of_files = !(state.is_wire() && matches!(app.place.screen, Screen::Store | Screen::StoreQueues));
    if !of_files {
        return empty_over_the_wire(app, pane);
    }
    let Some((root, _)) = root(app) else {
        return "no store: start with rmq tui --store DIR, or beside a broker of this machine".to_owned();
    };
    if let Some(why) = &state.glance.error {
        let hint = if state.root.is_none() {
            format!(
                "; {} lies on the broker's machine: copy it, then rmq tui --store DIR",
                root.display()
            )
        } else {
            String::new()
        };
        return format!("✗ {why}{hint}");
    }
    let error = match pane {
        Pane::Store(Part::Log) => &state.log.error,
        Pane::Store(Part::Entries) => &state.entries.error,
        Pane::Store(Part::QueueList) | Pane::Store(Part::Positions) => &state.queues.error,
        Pane::Store(Part::Files) => &state.index.error,
        _ => &None,
    };
    if let Some(why) = error {
        return format!("✗ {why}");
    }
    match pane {
        Pane::Store(Part::Log) if state.log.is_known => "no record".to_owned(),
        Pane::Store(Part::Entries) if state.entries.is_known => "no entry".to_owned(),
        Pane::Store(Part::Entries) if state.queue.is_none() => which_queue(app),
        Pane::Store(Part::Positions) => match &state.queues.value {
            Some(queues) => match &queues.problem {
                Some(why) => format!("! {why}"),
                None => "no group has a position on this topic".to_owned(),
            },
            None => "reading".to_owned(),
        },
        Pane::Store(Part::Files) if state.index.value.is_some() => "the store has no index file".to_owned(),
        Pane::Store(Part::Findings) => match &state.verify.value {
            None if state.verify.error.is_some() => {
                format!("✗ {}", state.verify.error.as_deref().unwrap_or_default())
            }
            None => format!(
                "not verified yet: {} reads headers and ends, {} reads everything",
                app.key(Command::Store(Order::Verify)),
                app.key(Command::Store(Order::VerifyFull))
            ),
            Some(seen) if seen.ended.is_none() => "nothing found so far".to_owned(),
            Some(_) if state.least_severity > 0 => format!(
                "nothing of this severity ({} shows others)",
                app.key(Command::Store(Order::Severity))
            ),
            Some(_) => "✓ nothing is wrong".to_owned(),
        },
        _ => "reading".to_owned(),
    }
}

fn empty_over_the_wire(app: &App, pane: Pane) -> String {
    let state = &app.store;
    let (error, is_known) = match pane {
        Pane::Store(Part::Log) => (&state.log.error, state.log.is_known),
        Pane::Store(Part::Entries) => (&state.entries.error, state.entries.is_known),
        _ => (&state.queues.error, state.queues.value.is_some()),
    };
    let topics = state.topics.error.as_ref().filter(|_| state.queue.is_none());
    match (error.as_ref().or(topics).or(state.queues.error.as_ref()), pane) {
        (Some(why), _) => format!("✗ {why}"),
        (None, Pane::Store(Part::Log)) if !is_known => {
            format!(
                "no record: {} chooses a queue",
                app.key(Command::Store(Order::Queues))
            )
        }
        (None, Pane::Store(Part::Positions)) if is_known => {
            let queues = state.queues.value.as_ref();
            let asked = queues.and_then(|queues| queues.positions.as_ref());
            match asked {
                None => "asking".to_owned(),
                Some(asked) if asked.problem.is_some() => "not known".to_owned(),
                Some(_) => "no group has a position on this topic".to_owned(),
            }
        }
        (None, _) if is_known => "no entry".to_owned(),
        (None, _) if state.queue.is_none() && state.topics.value.is_some() => which_queue(app),
        (None, _) => "asking".to_owned(),
    }
}

fn which_queue(app: &App) -> String {
    format!(
        "which queue? {} takes a topic",
        app.key(Command::Store(Order::Name))
    )
}

/// `orders / 0 on broker-a`
fn queue_name(app: &App) -> String {
    let state = &app.store;
    let name = match &state.queue {
        Some((topic, queue)) => format!("{topic} / {queue}"),
        None => "?".to_owned(),
    };
    match state.wire.as_deref() {
        Some("") => format!("{name} on ?"),
        Some(broker) => format!("{name} on {broker}"),
        None => name,
    }
}

/// What follows the name of the screen in the path, and a word about where the numbers come from.
pub fn path(app: &App) -> (String, Vec<Piece>) {
    let state = &app.store;
    match app.place.screen {
        Screen::Store => {
            let at = super::log_row(app).map_or_else(|| "?".to_owned(), |row| digits(row.at));
            let mut views = Vec::new();
            let keys = app.settings.keys.on_screen(Screen::Store, true);
            for binding in keys.filter(|line| line.command.is_view()) {
                views.push(label(binding.first_key()));
                views.push(plain(format!(" {}  ", binding.footer)));
            }
            let source = if state.is_wire() { "record" } else { "commitlog" };
            (format!("{source} > {at}"), views)
        }
        Screen::StoreQueues => {
            let name = match &state.queue {
                Some((topic, queue)) => format!("{topic}/{queue}"),
                None => "?".to_owned(),
            };
            (name, vec![queue_check(app)])
        }
        Screen::StoreIndex => (
            index_file(app).map_or_else(|| "?".to_owned(), |file| file.name.clone()),
            if state.is_wire() {
                vec![(format!("the index is {FILE_ONLY}"), Role::Warn)]
            } else {
                index::note(app)
            },
        ),
        _ if state.is_wire() => (
            String::new(),
            vec![(format!("checkpoint and verification are {FILE_ONLY}"), Role::Warn)],
        ),
        _ => (String::new(), checks::note(app)),
    }
}

fn queue_check(app: &App) -> Piece {
    use super::question::What;
    let state = &app.store;
    let source = app.key(Command::Store(Order::Source));
    let verify = app.key(Command::Store(Order::Verify));
    let checks = format!("{verify} checks every entry of this queue ");
    if state.is_wire() {
        return plain(format!("source: wire; {source}: the files of the broker "));
    }
    let Some(name) = &state.queue else {
        return plain("");
    };
    let runs = state.runs(
        |what| matches!(what, What::CheckQueue { topic, queue, .. } if (topic, queue) == (&name.0, &name.1)),
    );
    match state.sums.get(name) {
        Some(sums) if runs => plain(format!(
            "checking: {} of {}  {} stops ",
            digits(sums.reached),
            digits(sums.end),
            app.key(Command::Store(Order::Stop))
        )),
        None if runs => plain(format!(
            "checking  {} stops ",
            app.key(Command::Store(Order::Stop))
        )),
        Some(sums) if sums.wrong() == 0 && sums.over && !sums.stopped => (
            format!("✓ all {} entries lead to their record ", digits(sums.entries)),
            Role::Ok,
        ),
        Some(sums) => {
            // What an abandoned pass told last is not all there is.
            let stopped = if sums.over && !sums.stopped {
                String::new()
            } else {
                format!("stopped at {} of {}: ", digits(sums.reached), digits(sums.end))
            };
            let first = sums.first.as_ref().map_or_else(String::new, |(at, what)| {
                format!("; first at {}: {what}", digits(*at))
            });
            let (role, sign) = if sums.wrong() > 0 {
                (Role::Crit, "✗")
            } else {
                (Role::Warn, "!")
            };
            (
                format!(
                    "{sign} {stopped}{} of {} entries wrong{first} ",
                    sums.wrong(),
                    digits(sums.entries)
                ),
                role,
            )
        }
        None if state.offline => plain(format!("source: files; {checks}")),
        None => plain(format!("source: files ({source}: over the wire); {checks}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!(digits(0), "0");
        assert_eq!(digits(999), "999");
        assert_eq!(digits(1000), "1,000");
        assert_eq!(digits(-1_234_567), "-1,234,567");
        assert_eq!(digits(31_356_766_276_u64), "31,356,766,276");
        assert_eq!(digits(u64::MAX), "18,446,744,073,709,551,615");
    }
}
