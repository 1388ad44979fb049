//! Drawing the message screen: panes of lines, titles, and where the panes lie.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::rows;
use super::search::Mode;
use crate::tui::app::{App, Pane};
use crate::tui::keys::Command;
use crate::tui::view::bar::Piece;
use crate::tui::view::theme::Role;
use crate::tui::view::{grid, layout, text};

/// Rows that the list has at least beside the details.
const LIST: u16 = 8;

/// Panes and where they are.
pub fn layout(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if app.place.topic().is_none() {
        return vec![(Pane::Messages, body)];
    }
    if body.width >= layout::WIDE {
        let (upper, way) = layout::above(body, body.height - (body.height / 4).max(10));
        let (list, right) = layout::left(upper, body.width * 11 / 20);
        let (detail, below) = layout::above(right, (right.height / 2).min(18));
        return vec![
            (Pane::Messages, list),
            (Pane::Detail, detail),
            (Pane::Body, below),
            (Pane::Way, way),
        ];
    }
    if !layout::roomy(body) {
        let (list, below) = layout::above(body, body.height / 2);
        let second = match app.focus() {
            Pane::Messages => Pane::Detail,
            other => other,
        };
        return vec![(Pane::Messages, list), (second, below)];
    }
    let (list, rest) = layout::above(body, (body.height / 3).max(LIST));
    let (middle, way) = layout::above(rest, rest.height * 5 / 9);
    let (detail, right) = layout::left(middle, body.width / 2);
    vec![
        (Pane::Messages, list),
        (Pane::Detail, detail),
        (Pane::Body, right),
        (Pane::Way, way),
    ]
}

/// Lines of talk under the list: what failed and what is to be known.
pub fn talk(app: &App) -> Vec<Piece> {
    let Ok(Some(listing)) = super::listing(app) else {
        return Vec::new();
    };
    let failed = listing.failed.iter().map(|why| (format!("✗ {why}"), Role::Crit));
    let notes = listing.notes.iter().map(|note| (note.clone(), Role::Label));
    failed.chain(notes).take(3).collect()
}

/// Draws the talk at the bottom of the list and returns the room above it.
pub fn below_list(app: &App, inside: Rect, buffer: &mut Buffer) -> Rect {
    let talk = talk(app);
    let room = inside.height.saturating_sub(3);
    let lines = u16::try_from(talk.len()).unwrap_or(0).min(room);
    let first = inside.bottom() - lines;
    for (piece, y) in talk.iter().zip(first..inside.bottom()) {
        grid::pieces(
            buffer,
            inside.x + 1,
            y,
            inside.right() - 1,
            app.theme(),
            std::slice::from_ref(piece),
        );
    }
    Rect {
        height: inside.height - lines,
        ..inside
    }
}

/// Draws a pane of lines, the selected one marked while the pane has the focus.
pub fn lines(app: &App, pane: Pane, inside: Rect, buffer: &mut Buffer, focused: bool) {
    let table = app.table(pane);
    let theme = app.theme();
    let selected = app.selected(pane, &table).unwrap_or(0);
    let page = usize::from(inside.height);
    let offset = layout::scroll(app.pane(pane).offset, selected, page, table.rows.len());
    let shown = table.rows.iter().enumerate().skip(offset);
    for ((index, row), y) in shown.zip(inside.top()..inside.bottom()) {
        if let Some(cell) = row.cells.first() {
            grid::pieces(buffer, inside.x + 1, y, inside.right() - 1, theme, &cell.pieces);
        }
        if focused && index == selected {
            buffer.set_style(
                Rect::new(inside.x, y, inside.width, 1),
                theme.style(Role::Selected),
            );
        }
    }
}

/// `orders  tail ▸ live  scanned 412 of ~88.1M  [t]ime [k]ey [i]d [o]ffset [L]ive`.
pub fn title(app: &App) -> Vec<Piece> {
    let Some(search) = super::search(app) else {
        return vec![(
            format!(
                "Messages of which topic? {} chooses, {} filters",
                app.key(Command::Open),
                app.key(Command::Filter)
            ),
            Role::Plain,
        )];
    };
    let mut line = format!("{}  {}", search.topic, search.mode.name());
    let typed = search.text();
    if !typed.is_empty() {
        line += &format!(" {typed}");
    }
    match super::listing(app) {
        Ok(Some(listing)) => {
            // Before the long part, which narrow panes cut.
            if !search.keep.is_empty() {
                line += &format!("  kept only {}", search.keep);
            }
            line += &format!("  {}", rows::scanned(listing, &app.key(Command::Further)));
            if !listing.over && search.mode != Mode::Live {
                line += " …";
            }
            let table = app.table(Pane::Messages);
            if app.filter().is_some() {
                line += &format!("  filter {} of {}", table.rows.len(), listing.rows.len());
            }
        }
        Ok(None) => line += "  being asked …",
        Err(_) => line += "  ✗",
    }
    let mut pieces = vec![(line, Role::Plain)];
    let hints = "  [t]ime [k]ey [i]d [o]ffset [L]ive";
    let used: usize = pieces.iter().map(|(t, _)| text::width(&text::clean(t))).sum();
    if used + hints.len() + 6 <= usize::from(app.size.0) {
        pieces.push((hints.to_owned(), Role::Label));
    }
    pieces
}

/// Why the list is empty.
pub fn empty(app: &App, unfiltered: usize) -> String {
    if app.place.topic().is_none() {
        return "? no broker has told its topics yet".to_owned();
    }
    match super::listing(app) {
        Err(why) => format!("✗ {why}"),
        Ok(None) => "? being asked".to_owned(),
        Ok(Some(listing)) if !listing.over => match super::search(app).map(|s| s.mode) {
            Some(Mode::Live) => "no message yet; new ones appear here as they come".to_owned(),
            _ => "nothing found yet".to_owned(),
        },
        Ok(Some(_)) if unfiltered > 0 => {
            format!(
                "none of {unfiltered} messages passes the filter (esc clears it; {} looks further)",
                app.key(Command::Further)
            )
        }
        Ok(Some(listing)) if listing.failed.is_empty() => match super::search(app).map(|s| s.keep) {
            Some(keep) if !keep.is_empty() => format!(
                "none of {} messages passes the filter {keep} (esc clears it; {} looks further)",
                text::grouped(listing.scanned),
                app.key(Command::Further)
            ),
            _ => "no message there".to_owned(),
        },
        Ok(Some(_)) => "no message; not every broker could be asked".to_owned(),
    }
}

/// `Message a/0 @5,512,004`.
pub fn detail_title(app: &App) -> String {
    match super::selected(app) {
        Some(m) => format!("Message {}/{} @{}", m.broker, m.queue, text::grouped(m.offset)),
        None => "Message".to_owned(),
    }
}

/// The title of the way.
pub fn way_title(app: &App) -> String {
    format!("Trace ({})  and who has it", app.messages.trace_topic)
}

/// Why no way is shown.
pub fn way_empty(app: &App) -> String {
    match super::way(app) {
        None if super::selected(app).is_none() => "no message is selected".to_owned(),
        None => format!(
            "{} asks for its trace, and which group has it and which not",
            app.key(Command::Trace)
        ),
        Some(Err(why)) => format!("✗ {why}"),
        Some(Ok(None)) => "? being asked".to_owned(),
        Some(Ok(Some(_))) => "nothing is known of it".to_owned(),
    }
}
