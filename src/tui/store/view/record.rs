//! The bytes of a record and what they mean: the field under the cursor is marked in both.

use std::fmt::Write as _;
use std::ops::Range;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{clock, digits, label, lines, moment, plain};
use crate::inspect::Value;
use crate::protocol::message::{MAGIC_V1, MAGIC_V2};
use crate::tui::app::App;
use crate::tui::place::{Pane, Part};
use crate::tui::store::answer::{Kind, RecordView};
use crate::tui::store::rows;
use crate::tui::view::bar::Piece;
use crate::tui::view::theme::Role;
use crate::tui::view::{layout, text};

/// Columns of the name of a field.
const NAME: usize = 15;
/// Lines of a body that are shown below its field.
const BODY_LINES: usize = 6;

/// The title of the bytes or the fields.
pub fn title(app: &App, pane: Pane) -> Vec<Piece> {
    let record = app.store.record.value.as_ref();
    match (pane, record) {
        (Pane::Store(Part::Hex), Some(record)) => {
            vec![plain(format!(
                "hex  {}  +{}",
                digits(record.at),
                digits(record.len)
            ))]
        }
        (Pane::Store(Part::Hex), None) => vec![plain("hex")],
        (_, Some(record)) => {
            let (word, role) = rows::kind(record.kind);
            vec![plain("decoded  "), (word, role)]
        }
        (_, None) => vec![plain("decoded")],
    }
}

/// Bytes of a row, and whether their characters stand beside.
fn shape(columns: u16) -> (usize, bool) {
    let room = usize::from(columns.saturating_sub(2));
    // Position, mark, three columns a byte, one a character.
    for (bytes, with_text) in [
        (16, true),
        (12, true),
        (16, false),
        (12, false),
        (8, true),
        (8, false),
    ] {
        let need = 6 + bytes * 3 + if with_text { 1 + bytes } else { 0 };
        if need <= room {
            return (bytes, with_text);
        }
    }
    (4, false)
}

/// Bytes of a row of the hex pane now.
pub fn hex_width(app: &App) -> usize {
    let areas = layout::areas(app);
    let found = areas
        .iter()
        .flat_map(|areas| &areas.panes)
        .find(|(pane, _)| *pane == Pane::Store(Part::Hex));
    shape(found.map_or(80, |(_, area)| area.width.saturating_sub(2))).0
}

/// The bytes of the field under the cursor.
fn marked(app: &App, record: &RecordView) -> Range<usize> {
    match record.fields.get(app.store.spot.field) {
        Some(field) => field.at..field.at + field.len,
        None => app.store.spot.byte..app.store.spot.byte + 1,
    }
}

fn nothing(app: &App, area: Rect, buffer: &mut Buffer) {
    let line = match (&app.store.record.error, &app.store.record.value) {
        (Some(why), _) => (format!("✗ {why}"), Role::Crit),
        (None, Some(record)) => plain(record.note.clone()),
        (None, None) => plain("no record is selected"),
    };
    lines(app, area, buffer, &[vec![line]]);
}

/// Draws the bytes.
pub fn hex(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(record) = app
        .store
        .record
        .value
        .as_ref()
        .filter(|record| !record.bytes.is_empty())
    else {
        return nothing(app, area, buffer);
    };
    let (width, with_text) = shape(area.width);
    let marked = marked(app, record);
    let page = usize::from(area.height);
    let total = record.bytes.len().div_ceil(width);
    let cursor = app
        .store
        .spot
        .byte
        .max(marked.start)
        .min(record.bytes.len().saturating_sub(1))
        / width;
    // The last line tells how much is left, when something is.
    let page = if total > page {
        page.saturating_sub(1).max(1)
    } else {
        page
    };
    let offset = layout::scroll(cursor.saturating_sub(page / 2), cursor, page, total);
    let mut out = Vec::with_capacity(page);
    for row in offset..(offset + page).min(total) {
        let from = row * width;
        let bytes = &record.bytes[from..(from + width).min(record.bytes.len())];
        out.push(hex_row(from, bytes, width, with_text, &marked));
    }
    let below = total.saturating_sub(offset + page);
    if total > page {
        let cut = record.len.saturating_sub(record.bytes.len() as u64);
        let more = if cut > 0 {
            format!(", then {} not shown", text::bytes(cut))
        } else {
            String::new()
        };
        let rows = if below == 1 { "row" } else { "rows" };
        out.push(vec![plain(format!(
            "… {} more {rows}{more}",
            digits(below as u64)
        ))]);
    }
    lines(app, area, buffer, &out);
}

fn hex_row(from: usize, bytes: &[u8], width: usize, with_text: bool, marked: &Range<usize>) -> Vec<Piece> {
    let is_marked = |n: usize| marked.contains(&(from + n));
    let sign = if (0..bytes.len()).any(is_marked) {
        "▸"
    } else {
        " "
    };
    let mut line = vec![label(format!("{from:04X}{sign} "))];
    let mut push = |text: &str, role: Role| match line.last_mut() {
        Some((last, same)) if *same == role => last.push_str(text),
        _ => line.push((text.to_owned(), role)),
    };
    for n in 0..width {
        let role = if n < bytes.len() && is_marked(n) {
            Role::Selected
        } else {
            Role::Plain
        };
        match bytes.get(n) {
            Some(byte) => push(&format!("{byte:02X}"), role),
            None => push("  ", Role::Plain),
        }
        // The blank between two marked bytes belongs to them.
        let both = role == Role::Selected && n + 1 < bytes.len() && is_marked(n + 1);
        push(" ", if both { Role::Selected } else { Role::Plain });
    }
    if with_text {
        for (n, byte) in bytes.iter().enumerate() {
            let c = if byte.is_ascii_graphic() || *byte == b' ' {
                char::from(*byte)
            } else {
                '.'
            };
            let role = if is_marked(n) { Role::Selected } else { Role::Plain };
            push(&c.to_string(), role);
        }
    }
    line
}

fn value(app: &App, record: &RecordView, name: &str, value: &Value, room: usize) -> String {
    match value {
        Value::Time(ms) => match format!("{} ({ms})", moment(app, *ms)) {
            both if both.len() <= room => both,
            _ if room >= 18 => moment(app, *ms),
            // The day is in the list.
            _ => clock(app, *ms),
        },
        Value::Bytes => {
            let line = record.body.lines().next().unwrap_or_default();
            if line.is_empty() {
                "empty".to_owned()
            } else {
                line.to_owned()
            }
        }
        Value::Text(text) => match name {
            "queueOffset" | "physicalOffset" | "totalSize" | "bodyLength" => {
                text.parse::<i64>().map_or_else(|_| text.clone(), digits)
            }
            "magicCode" => text
                .replace(&format!("{MAGIC_V1:#010x}"), &format!("0x{MAGIC_V1:08X}"))
                .replace(&format!("{MAGIC_V2:#010x}"), &format!("0x{MAGIC_V2:08X}"))
                .replace(" version ", " v"),
            "bodyCRC" => match text.split_once(' ') {
                Some((crc, rest)) => {
                    let crc = crc
                        .parse::<u32>()
                        .map_or_else(|_| crc.to_owned(), |crc| format!("0x{crc:08X}"));
                    let verdict = if rest == "as the body" { "✓ ok" } else { rest };
                    format!("{crc} {verdict}")
                }
                None => text.clone(),
            },
            _ => text.clone(),
        },
    }
}

/// Draws the fields.
pub fn tree(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(record) = app.store.record.value.as_ref() else {
        return nothing(app, area, buffer);
    };
    if record.fields.is_empty() {
        let (word, role) = rows::kind(record.kind);
        let mut out = vec![vec![(word, role)]];
        let room = usize::from(area.width.saturating_sub(2));
        out.extend(
            text::wrap(&record.note, room)
                .into_iter()
                .map(|line| vec![plain(line)]),
        );
        if record.kind == Kind::Tail {
            out.push(vec![plain("the next record will be written here")]);
        }
        return lines(app, area, buffer, &out);
    }
    let focused = app.focus() == Pane::Store(Part::Tree);
    let spot = app.store.spot.field.min(record.fields.len() - 1);
    let mut out: Vec<Vec<Piece>> = Vec::new();
    let mut cursor = 0;
    if !record.note.is_empty() {
        out.push(vec![(record.note.clone(), Role::Crit)]);
    }
    let room = usize::from(area.width.saturating_sub(2));
    for (n, field) in record.fields.iter().enumerate() {
        let here = n == spot;
        if here {
            cursor = out.len();
        }
        let name = match field.name {
            "property" => "  PROPERTY".to_owned(),
            name => name.to_uppercase(),
        };
        let name = text::fit(&name, NAME).into_owned();
        let shown = value(
            app,
            record,
            field.name,
            &field.value,
            room.saturating_sub(NAME + 7),
        );
        let mut line = String::new();
        let sign = if here { "▸" } else { " " };
        let _ = write!(line, "{sign}{:>4} {name:<NAME$} {shown}", field.at);
        if here && focused {
            let line = text::fit(&text::clean(&line), room).into_owned();
            let pad = room.saturating_sub(text::width(&line));
            out.push(vec![(format!("{line}{}", " ".repeat(pad)), Role::Selected)]);
        } else {
            let role = match shown.as_str() {
                shown if field.name == "bodyCRC" && !shown.contains('✓') && !shown.contains("no body") => {
                    Role::Crit
                }
                _ => Role::Plain,
            };
            out.push(vec![
                plain(format!("{sign}{:>4} ", field.at)),
                label(format!("{name:<NAME$} ")),
                (shown, role),
            ]);
        }
        if here && field.name == "body" {
            let wrapped = record
                .body
                .lines()
                .flat_map(|line| text::wrap(line, room.saturating_sub(8)));
            for line in wrapped.take(BODY_LINES) {
                out.push(vec![plain(format!("        {line}"))]);
            }
        }
    }
    let page = usize::from(area.height).max(1);
    let offset = layout::scroll(cursor.saturating_sub(page / 2), cursor, page, out.len());
    lines(app, area, buffer, &out[offset..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_bytes_mark_a_field_and_keep_their_columns() {
        let line = hex_row(0, b"\0\0\x01ABC", 8, true, &(2..5));
        let text: String = line.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(text, "0000▸ 00 00 01 41 42 43       ...ABC");
        let selected: Vec<&str> = line
            .iter()
            .filter(|(_, role)| *role == Role::Selected)
            .map(|(text, _)| text.as_str())
            .collect();
        assert_eq!(selected, ["01 41 42", ".AB"]);
    }

    #[test]
    fn the_width_of_a_row_follows_the_pane() {
        assert_eq!(shape(90), (16, true));
        assert_eq!(shape(73), (16, true));
        assert_eq!(shape(72), (12, true));
        assert_eq!(shape(58), (12, true));
        assert_eq!(shape(50), (12, false));
        assert_eq!(shape(10), (4, false));
    }
}
