//! Rows of the message screen: messages, the lines of one of them, its body, its way.

use std::sync::Arc;

use super::body;
use super::search::{Listing, Mark, Sieve, Stop};
use crate::client::Message;
use crate::client::trace::Standing;
use crate::client::way::{Moment, Way};
use crate::protocol::model::{Compression, SysFlag};
use crate::tui::app::{App, Pane};
use crate::tui::table::{Cell, Row, Table};
use crate::tui::view::bar::Piece;
use crate::tui::view::theme::Role;
use crate::tui::view::{clock_ms, layout, text};

/// Columns of the bars beside a timeline.
const BAR: usize = 24;
/// Columns of a label.
const LABEL: usize = 11;
/// Characters of a body in the list.
const PREVIEW: usize = 60;

/// Topics to choose from, or the messages of the one that was chosen.
pub fn messages(app: &App) -> Table {
    if app.place.topic().is_none() {
        return topics(app);
    }
    let is_wide = app.wide || app.size.0 >= layout::WIDE;
    let mut table = Table::new([
        ("STORE TIME", false, 0),
        ("Q", false, 2),
        ("OFFSET", true, 1),
        ("MSG ID (unique)", false, 3),
        ("TAG", false, 4),
        ("KEYS", false, 0),
        ("SIZE", true, 1),
        ("BODY", false, 5),
    ]);
    if !is_wide {
        table.columns.pop();
    }
    let Ok(Some(listing)) = super::listing(app) else {
        return table;
    };
    table.unfiltered = listing.rows.len();
    let sieve = app.filter().and_then(|f| Sieve::lenient(&f.text));
    // The newest first: that is what follows a tail, and what was asked for last.
    let shown = listing.rows.iter().rev();
    for message in shown.filter(|m| sieve.as_ref().is_none_or(|s| s.passes(m))) {
        let mut row = Row {
            id: Mark::id(message),
            name: message.unique_key().unwrap_or(&message.offset_id).to_owned(),
            subject: None,
            cells: cells(app, message),
        };
        if is_wide {
            row.cells.push(Cell::text(preview(message)));
        }
        table.rows.push(row);
    }
    table
}

fn cells(app: &App, message: &Message) -> Vec<Cell> {
    let keys = message.keys();
    vec![
        Cell::number(clock_ms(app, message.stored_ms), message.stored_ms as f64),
        Cell::text(format!("{}/{}", message.broker, message.queue)),
        Cell::whole(message.offset),
        message.unique_key().map_or_else(
            || Cell::text(middle(&message.offset_id, 20)),
            |id| Cell::text(middle(id, 20)),
        ),
        message.tag().map_or_else(Cell::none, Cell::text),
        if keys.is_empty() {
            Cell::none()
        } else {
            Cell::text(keys.join(","))
        },
        size(message),
    ]
}

/// Size of the record; a body that does not fit its checksum is said here.
pub fn size(message: &Message) -> Cell {
    let cell = Cell::count("", message.size as f64);
    if message.intact && message.body_error.is_none() {
        cell
    } else {
        let mut cell = cell.role(Role::Crit);
        cell.pieces.push((" ✗".to_owned(), Role::Crit));
        cell
    }
}

/// The beginning of a body on one line.
fn preview(message: &Message) -> String {
    // No more of it is looked at: there are thousands of rows.
    let start = &message.body[..message.body.len().min(PREVIEW * 4)];
    if body::is_readable(start, start.len() < message.body.len()) {
        String::from_utf8_lossy(start)
            .chars()
            .map(|c| if c.is_whitespace() { ' ' } else { c })
            .take(PREVIEW)
            .collect()
    } else {
        let bytes = start.iter().take(PREVIEW / 3);
        bytes.map(|b| format!("{b:02x} ")).collect()
    }
}

/// `0A00010522…3F0A0000`: both ends of an id say more than its beginning alone.
pub fn middle(id: &str, columns: usize) -> String {
    let chars: Vec<char> = id.chars().collect();
    if chars.len() <= columns || columns < 5 {
        return id.to_owned();
    }
    let tail = (columns - 1) / 2;
    let head = columns - 1 - tail;
    let first: String = chars[..head].iter().collect();
    let last: String = chars[chars.len() - tail..].iter().collect();
    format!("{first}…{last}")
}

/// Topics of users first, then the others.
fn topics(app: &App) -> Table {
    use crate::client::snapshot::TopicKind;
    let mut table = Table::new([("TOPIC", false, 0), ("QUEUES", true, 1), ("GROUPS", true, 2)]);
    let model = app.shown();
    let mut topics: Vec<_> = model.snapshot.topics.iter().collect();
    topics.sort_by_key(|t| {
        let rank = match t.kind {
            TopicKind::User => 0,
            TopicKind::DeadLetter => 1,
            TopicKind::Retry => 2,
            TopicKind::System => 3,
        };
        (rank, t.name.clone())
    });
    for topic in topics {
        let queues: i32 = topic.brokers.iter().map(|on| on.read_queues).sum();
        let groups = model.groups_of(&topic.name);
        table.rows.push(Row {
            id: topic.name.clone(),
            name: topic.name.clone(),
            subject: Some(crate::client::findings::Subject::Topic(topic.name.clone())),
            cells: vec![
                Cell::text(&topic.name),
                Cell::whole(queues.into()),
                Cell::number(groups.to_string(), groups as f64),
            ],
        });
    }
    table
}

/// `scanned 412 of ~88.1M, bound 2,000`: always how much was looked at, and what stopped it.
/// `further` is the key that goes on.
pub fn scanned(listing: &Listing, further: &str) -> String {
    let mut out = format!(
        "scanned {}",
        text::grouped(i64::try_from(listing.scanned).unwrap_or(i64::MAX))
    );
    if let Some(of) = listing.of {
        out += &format!(" of ~{}", text::count(of as f64));
    }
    match listing.stopped {
        Some(Stop::Scanned(n)) => {
            out += &format!(
                ", stopped at the bound of {}: {further} goes on",
                text::grouped(n as i64)
            );
        }
        Some(Stop::Rows(n)) => out += &format!(", stopped at {} rows", text::grouped(n as i64)),
        Some(Stop::Bytes(n)) => out += &format!(", stopped at {}", text::bytes(n as u64)),
        Some(Stop::Hits(n)) => out += &format!(", as many as asked for ({n}): there may be more"),
        None => {}
    }
    match listing.cut {
        Some(Stop::Rows(n)) => out += &format!(", the newest {} kept", text::grouped(n as i64)),
        Some(Stop::Bytes(n)) => out += &format!(", the newest {} kept", text::bytes(n as u64)),
        Some(Stop::Scanned(_) | Stop::Hits(_)) | None => {}
    }
    if listing.strangers > 0 {
        out += &format!(", {} hits of other keys dropped", listing.strangers);
    }
    out
}

/// A line of a pane without a heading.
fn line(id: usize, name: String, pieces: Vec<Piece>) -> Row {
    let cell = Cell {
        pieces,
        ..Cell::text("")
    };
    Row {
        id: id.to_string(),
        name,
        subject: None,
        cells: vec![cell],
    }
}

fn lines(lines: Vec<(String, Vec<Piece>)>) -> Table {
    let mut table = Table::new([("", false, 0)]);
    table.rows = lines
        .into_iter()
        .enumerate()
        .map(|(i, (name, pieces))| line(i, name, pieces))
        .collect();
    table
}

/// Everything beside the body, one line a fact.
pub fn detail(app: &App) -> Table {
    let Some(message) = super::selected(app) else {
        return lines(Vec::new());
    };
    let m = &message;
    let columns = columns(app, Pane::Detail).saturating_sub(LABEL);
    let mut out: Vec<(String, Vec<Piece>)> = Vec::new();
    let mut pair = |label: &str, value: String, role: Role| {
        let mut label = label;
        for part in text::wrap(&text::clean(&value), columns.max(10)) {
            out.push((
                value.clone(),
                vec![
                    (format!("{label:<LABEL$}"), Role::Label),
                    (part.into_owned(), role),
                ],
            ));
            label = "";
        }
    };
    pair("msg id", m.unique_key().unwrap_or("–").to_owned(), Role::Plain);
    pair("offset id", m.offset_id.clone(), Role::Plain);
    let at = |ms: i64, word: &str, who: &str| format!("{} {word} {who}", clock_ms(app, ms));
    pair("born", at(m.born_ms, "from", &m.born_host), Role::Plain);
    pair("stored", at(m.stored_ms, "at", &m.store_host), Role::Plain);
    let (crc, role) = if m.intact {
        ("crc ok", Role::Plain)
    } else {
        ("crc WRONG ✗", Role::Crit)
    };
    pair(
        "phys off",
        format!(
            "{}  size {}  {crc}",
            text::grouped(m.physical_offset),
            text::grouped(i64::try_from(m.size).unwrap_or(i64::MAX))
        ),
        role,
    );
    let delay = m.property("DELAY").map_or_else(|| "–".to_owned(), str::to_owned);
    let tx = match m.sys_flag.transaction() {
        SysFlag::TRANSACTION_PREPARED => "half",
        SysFlag::TRANSACTION_COMMIT => "committed",
        SysFlag::TRANSACTION_ROLLBACK => "rolled back",
        _ => "–",
    };
    pair(
        "sysflag",
        format!(
            "{:#x}  retries {}  delay {delay}  tx {tx}",
            m.sys_flag.0, m.reconsume_times
        ),
        Role::Plain,
    );
    if let Some(why) = &m.body_error {
        pair("body", format!("does not decompress: {why}"), Role::Crit);
    }
    let mut label = "props";
    for (name, value) in &m.properties {
        pair(label, format!("{name}={value}"), Role::Plain);
        label = "";
    }
    lines(out)
}

/// Columns for text in a pane: inside its frame and one blank on either side.
pub fn columns(app: &App, pane: Pane) -> usize {
    let areas = layout::areas(app);
    let found = areas.iter().flat_map(|a| &a.panes).find(|(p, _)| *p == pane);
    found.map_or(40, |(_, area)| usize::from(area.width.saturating_sub(4)))
}

/// Between the number of a line of a body and the path of the value that folds there, in the identity of its row.
const FOLD: char = '>';

/// The path of the value that a line of the body folds.
pub fn fold(row: &Row) -> Option<&str> {
    row.id.split_once(FOLD).map(|(_, path)| path)
}

/// The body in its form.
pub fn body(app: &App) -> Table {
    let Some(message) = super::selected(app) else {
        return lines(Vec::new());
    };
    let state = &app.messages;
    let shown = body::lines(&message.body, state.form, &state.turned, columns(app, Pane::Body));
    let mut table = Table::new([("", false, 0)]);
    for (index, shown) in shown.into_iter().enumerate() {
        let mut row = line(index, shown.text.clone(), vec![(shown.text, Role::Plain)]);
        if let Some(path) = shown.fold {
            row.id = format!("{index}{FOLD}{path}");
        }
        table.rows.push(row);
    }
    table
}

/// `body  json ▸ text hex  lz4 1.2 KiB of 8.0 KiB`.
pub fn body_title(app: &App) -> String {
    let Some(message) = super::selected(app) else {
        return "body".to_owned();
    };
    let now = body::settled(app.messages.form, &message.body);
    let forms = [
        (body::Form::Json, "json"),
        (body::Form::Text, "text"),
        (body::Form::Hex, "hex"),
    ];
    let forms: Vec<String> = forms
        .into_iter()
        .map(|(form, name)| {
            if form == now {
                format!("▸{name}")
            } else {
                name.to_owned()
            }
        })
        .collect();
    let size = |n: usize| text::bytes(n as u64);
    let sizes = match message.sys_flag.compression() {
        None => size(message.body.len()),
        Some(kind) => {
            let name = match kind {
                Compression::Lz4 => "lz4",
                Compression::Zstd => "zstd",
                Compression::Zlib => "zlib",
                Compression::Unknown => "compressed",
            };
            format!(
                "{name} {} of {}",
                size(message.stored_size),
                size(message.body.len())
            )
        }
    };
    format!("body  {}  {sizes}", forms.join(" "))
}

/// What happened to the message, then where each group stands, then what is missing.
pub fn way(app: &App) -> Table {
    let mut table = Table::new([
        ("WHAT", false, 0),
        ("TIME", false, 0),
        ("WHO", false, 0),
        ("WHERE", false, 3),
        ("DETAIL", false, 1),
        ("", false, 4),
    ]);
    let (Some(Ok(Some(way))), Some(message)) = (super::way(app), super::selected(app)) else {
        return table;
    };
    let timeline = way.timeline(Some(&message));
    let span = span(&timeline);
    for (i, moment) in timeline.iter().enumerate() {
        table.rows.push(moment_row(app, i, moment, span));
    }
    for track in &way.tracks {
        table.rows.push(track_row(way, track, &message));
    }
    for (i, gap) in way.missing.0.iter().enumerate() {
        let mut row = Row {
            id: format!("gap {i}"),
            name: gap.why.clone(),
            subject: None,
            cells: vec![
                Cell::of("? missing", Role::Warn),
                Cell::none(),
                Cell::text(gap.part),
            ],
        };
        row.cells
            .extend([Cell::text(""), Cell::text(&gap.why), Cell::text("")]);
        table.rows.push(row);
    }
    table
}

/// When it began and ended, epoch ms: a handler's record is of its end, every other one of its beginning.
fn stretch(moment: &Moment) -> Option<(i64, i64)> {
    let at = moment.at_ms?;
    let took = moment.took_ms.unwrap_or(0).max(0);
    Some(match moment.event {
        "consumed" | "consume failed" | "handled" => (at.saturating_sub(took), at),
        _ => (at, at.saturating_add(took)),
    })
}

/// First and last moment of a timeline, epoch ms.
fn span(timeline: &[Moment]) -> (i64, i64) {
    let all = timeline.iter().filter_map(stretch);
    let first = all.clone().map(|(from, _)| from).min();
    (first.unwrap_or(0), all.map(|(_, to)| to).max().unwrap_or(0))
}

/// `   ├────┤  `: when it began and how long it took, on the scale of the whole timeline.
fn bar(moment: &Moment, (first, last): (i64, i64)) -> String {
    let Some((from, to)) = stretch(moment) else {
        return String::new();
    };
    let all = last.saturating_sub(first).max(1);
    let place = |ms: i64| -> usize {
        let at = ms
            .saturating_sub(first)
            .clamp(0, all)
            .saturating_mul(BAR as i64 - 1)
            / all;
        usize::try_from(at).unwrap_or(0)
    };
    let (from, to) = (place(from), place(to));
    let mark = match to - from {
        0 => "│".to_owned(),
        n => format!("├{}┤", "─".repeat(n - 1)),
    };
    format!("{}{mark}", " ".repeat(from))
}

fn moment_row(app: &App, index: usize, moment: &Moment, span: (i64, i64)) -> Row {
    let role = match moment.event {
        "send failed" | "consume failed" | "dead letter" => Role::Crit,
        "given back" => Role::Warn,
        _ => Role::Plain,
    };
    Row {
        id: format!("moment {index}"),
        name: moment.who.clone(),
        subject: None,
        cells: vec![
            Cell::of(moment.event, role),
            moment
                .at_ms
                .map_or_else(Cell::none, |ms| Cell::number(clock_ms(app, ms), ms as f64)),
            Cell::text(&moment.who),
            Cell::text(&moment.place),
            Cell::text(&moment.detail),
            Cell::of(bar(moment, span), Role::Data),
        ],
    }
}

fn track_row(way: &Way, track: &crate::client::trace::Track, message: &Arc<Message>) -> Row {
    let (sign, role) = match track.standing {
        Standing::Consumed => ("✓", Role::Ok),
        Standing::NotYet | Standing::Offline => ("!", Role::Warn),
        Standing::Filtered | Standing::Broadcast => ("–", Role::Plain),
        Standing::Unknown => ("?", Role::Warn),
    };
    let offset = text::grouped(message.offset);
    let reason = match track.committed {
        Some(at) if at > message.offset => format!("commit {} > {offset}", text::grouped(at)),
        Some(at) => format!("commit {} ≤ {offset}", text::grouped(at)),
        None => "no commit".to_owned(),
    };
    let mut notes = Vec::new();
    let (retries, dead) = (
        way.copies_of(&track.group, false),
        way.copies_of(&track.group, true),
    );
    if dead > 0 {
        notes.push("IN ITS DLQ".to_owned());
    }
    if retries > 0 {
        notes.push(format!("in retry, {retries} copies"));
    }
    if way.is_ahead_of_its_position(track) {
        notes.push("handled by its trace, but may get it again".to_owned());
    }
    if track.standing == Standing::Filtered
        && let Some(expression) = &track.expression
    {
        notes.push(format!("takes {expression}"));
    }
    notes.extend(track.note.clone());
    if track.clients > 0 {
        notes.push(format!("{} online", track.clients));
    }
    Row {
        id: format!("group {}", track.group),
        name: track.group.clone(),
        subject: Some(crate::client::findings::Subject::Group(track.group.clone())),
        cells: vec![
            Cell::of(format!("{sign} {}", track.standing.name()), role),
            Cell::none(),
            Cell::text(&track.group),
            Cell::text(reason),
            Cell::of(notes.join("; "), if dead > 0 { Role::Crit } else { Role::Plain }),
            Cell::text(""),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_told_with_its_own_words() {
        let told = |stopped, cut| {
            let listing = Listing {
                scanned: 9_000,
                stopped,
                cut,
                ..Listing::default()
            };
            scanned(&listing, "+")
        };
        assert_eq!(told(None, None), "scanned 9,000");
        assert_eq!(
            told(Some(Stop::Scanned(9_000)), Some(Stop::Rows(2_000))),
            "scanned 9,000, stopped at the bound of 9,000: + goes on, the newest 2,000 kept"
        );
        assert_eq!(
            told(Some(Stop::Rows(64)), None),
            "scanned 9,000, stopped at 64 rows"
        );
        assert_eq!(
            told(None, Some(Stop::Bytes(16 * 1024 * 1024))),
            "scanned 9,000, the newest 16.0 MiB kept"
        );
        assert_eq!(
            told(Some(Stop::Bytes(16 * 1024 * 1024)), None),
            "scanned 9,000, stopped at 16.0 MiB"
        );
    }

    #[test]
    fn both_ends_of_an_id_stay() {
        assert_eq!(middle("0A00010522B418B4AAC23F0A0000", 20), "0A00010522…23F0A0000");
        assert_eq!(middle("short", 20), "short");
    }

    #[test]
    fn bars_lie_on_the_scale_of_the_timeline() {
        let moment = |at_ms, took_ms| Moment {
            at_ms: Some(at_ms),
            took_ms,
            event: "x",
            who: String::new(),
            place: String::new(),
            detail: String::new(),
        };
        let all = [moment(1000, None), moment(1000, Some(230))];
        assert_eq!(span(&all), (1000, 1230));
        assert_eq!(bar(&all[0], (1000, 1230)), "│");
        assert_eq!(bar(&all[1], (1000, 1230)), format!("├{}┤", "─".repeat(22)));
        assert_eq!(
            bar(&moment(1230, None), (1000, 1230)),
            format!("{}│", " ".repeat(23))
        );
    }
}
