//! Draws boxes, lines of pieces, tables.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::Piece;
use super::text;
use super::theme::{Role, Theme};
use crate::tui::table::{Cell, Table};

/// Blank columns between two table columns.
const GAP: usize = 2;

/// Writes a text and returns the column after it. What does not fit before `end` is cut.
pub fn put(
    buffer: &mut Buffer,
    x: u16,
    y: u16,
    end: u16,
    content: &str,
    style: ratatui::style::Style,
) -> u16 {
    let room = usize::from(end.saturating_sub(x));
    if room == 0 || y >= buffer.area.bottom() {
        return x;
    }
    let content = text::clean(content);
    let fitting = text::fit(&content, room);
    let (after, _) = buffer.set_stringn(x, y, fitting, room, style);
    after
}

/// Writes pieces one after the other.
pub fn pieces(buffer: &mut Buffer, x: u16, y: u16, end: u16, theme: Theme, pieces: &[Piece]) -> u16 {
    pieces.iter().fold(x, |x, (content, role)| {
        put(buffer, x, y, end, content, theme.style(*role))
    })
}

/// Draws a frame with a title and returns what is inside it.
pub fn frame(buffer: &mut Buffer, area: Rect, theme: Theme, title: &[Piece], focused: bool) -> Rect {
    if area.width < 2 || area.height < 2 {
        return Rect::default();
    }
    let line = theme.style(if focused { Role::Focus } else { Role::Plain });
    let (left, right) = (area.left(), area.right() - 1);
    let (top, bottom) = (area.top(), area.bottom() - 1);
    for x in left + 1..right {
        put(buffer, x, top, right, "─", line);
        put(buffer, x, bottom, right, "─", line);
    }
    for y in top + 1..bottom {
        put(buffer, left, y, right, "│", line);
        put(buffer, right, y, right + 1, "│", line);
    }
    for (x, y, corner) in [
        (left, top, "┌"),
        (left, bottom, "└"),
        (right, top, "┐"),
        (right, bottom, "┘"),
    ] {
        put(buffer, x, y, right + 1, corner, line);
    }
    if area.width > 6 && !title.is_empty() {
        let x = put(buffer, left + 1, top, right, "─ ", line);
        let mut x = x;
        for (content, role) in title {
            let style = if *role == Role::Plain {
                line
            } else {
                theme.style(*role)
            };
            x = put(buffer, x, top, right - 1, content, style);
        }
        if x < right - 1 {
            put(buffer, x, top, right, " ", line);
        }
    }
    Rect::new(area.x + 1, area.y + 1, area.width - 2, area.height - 2)
}

/// How a table lies in its area.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    /// First row drawn.
    pub offset: usize,
    /// Selected row.
    pub selected: Option<usize>,
    /// Columns scrolled away; the first one stays.
    pub column: usize,
    /// The selection is shown.
    pub focused: bool,
}

/// Draws the heading and the rows that fit.
pub fn table(buffer: &mut Buffer, area: Rect, theme: Theme, table: &Table, view: View) {
    if area.height == 0 || area.width < 3 {
        return;
    }
    // Marks stand left of the first column, as long as there are any.
    let signs = if table.marks.is_empty() { 0 } else { 2 };
    let inner = Rect::new(
        area.x + 1 + signs,
        area.y,
        (area.width - 2).saturating_sub(signs),
        area.height,
    );
    let page = usize::from(inner.height).saturating_sub(1);
    let from = view.offset.min(table.rows.len());
    let shown = &table.rows[from..table.rows.len().min(from + page)];
    let columns = choose(
        table,
        shown.iter().map(|r| &r.cells),
        usize::from(inner.width),
        view.column,
    );
    let label = theme.style(Role::Label);
    let mut x = inner.x;
    for &(index, width) in &columns {
        let column = &table.columns[index];
        let name = fitted(&column.name, width);
        let pad = if column.right {
            width - text::width(&name)
        } else {
            0
        };
        put(buffer, x + to_u16(pad), inner.y, inner.right(), &name, label);
        x = x.saturating_add(to_u16(width + GAP));
    }
    for (row, y) in shown.iter().zip(inner.y + 1..) {
        if table.marks.contains(&row.id) {
            put(buffer, area.x + 1, y, inner.x, "●", theme.style(Role::Focus));
        }
        let mut x = inner.x;
        for &(index, width) in &columns {
            let cell = &row.cells[index];
            let pad = if table.columns[index].right {
                width.saturating_sub(cell_width(cell))
            } else {
                0
            };
            let end = x.saturating_add(to_u16(width)).min(inner.right());
            pieces(buffer, x.saturating_add(to_u16(pad)), y, end, theme, &cell.pieces);
            x = x.saturating_add(to_u16(width + GAP));
        }
    }
    if let Some(row) = view
        .selected
        .filter(|_| view.focused)
        .and_then(|s| s.checked_sub(from))
        && row < shown.len()
    {
        let y = inner.y + 1 + to_u16(row);
        buffer.set_style(Rect::new(area.x, y, area.width, 1), theme.style(Role::Selected));
    }
}

fn cell_width(cell: &Cell) -> usize {
    cell.pieces
        .iter()
        .map(|(t, _)| text::width(&text::clean(t)))
        .sum()
}

fn fitted(name: &str, width: usize) -> Cow<'_, str> {
    match text::clean(name) {
        Cow::Borrowed(name) => text::fit(name, width),
        Cow::Owned(name) => Cow::Owned(text::fit(&name, width).into_owned()),
    }
}

/// Columns that fit and their widths: those with the highest priority number go first.
fn choose<'a>(
    table: &Table,
    rows: impl Iterator<Item = &'a Vec<Cell>>,
    room: usize,
    scrolled: usize,
) -> Vec<(usize, usize)> {
    let mut widths: Vec<usize> = table
        .columns
        .iter()
        .map(|c| text::width(&text::clean(&c.name)))
        .collect();
    for cells in rows {
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(cell_width(cell));
        }
    }
    let mut chosen: Vec<(usize, usize)> = widths
        .into_iter()
        .enumerate()
        .filter(|(index, _)| *index == 0 || *index > scrolled)
        .collect();
    loop {
        let total: usize = chosen.iter().map(|(_, w)| w + GAP).sum();
        if total <= room + GAP {
            return chosen;
        }
        let candidate = chosen
            .iter()
            .enumerate()
            .filter(|(_, (index, _))| table.columns[*index].priority > 0)
            .max_by_key(|(_, (index, _))| (table.columns[*index].priority, *index))
            .map(|(at, _)| at);
        match candidate {
            Some(at) => {
                chosen.remove(at);
            }
            None => {
                shrink(&mut chosen, total - (room + GAP));
                return chosen;
            }
        }
    }
}

/// Takes `excess` columns from the widest columns that have more than a few.
fn shrink(chosen: &mut [(usize, usize)], mut excess: usize) {
    const LEAST: usize = 6;
    while excess > 0 {
        let Some((_, width)) = chosen
            .iter_mut()
            .filter(|(_, w)| *w > LEAST)
            .max_by_key(|(_, w)| *w)
        else {
            return;
        };
        *width -= 1;
        excess -= 1;
    }
}

fn to_u16(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}
