//! Rows for a person: columns side by side, cut to the width of the terminal.

use comfy_table::{CellAlignment, ContentArrangement, Table};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{Cell, Column, Format, Listing, Printer};

impl Printer {
    /// A cell for a person.
    pub(in crate::cli) fn shown(&self, cell: &Cell) -> String {
        match cell {
            Cell::Int(v) if self.human => human(*v),
            cell => cell.text(&self.zone),
        }
    }

    /// The table as text. Every line ends in a newline and has no blanks before it.
    pub(super) fn table(&self, listing: &Listing) -> String {
        let width = self.width.filter(|_| self.format == Format::Table);
        let left_out = match width {
            // Who names the columns gets them.
            Some(width) if self.columns.is_none() => self.left_out(listing, width),
            _ => Vec::new(),
        };
        if !left_out.is_empty() {
            let names: Vec<&str> = left_out.iter().map(|&i| listing.columns[i].key).collect();
            let note = format!("({} left out; -o wide has all columns)", names.join(", "));
            let keep = |i: &usize| !left_out.contains(i);
            let narrow = Listing {
                columns: (0..listing.columns.len())
                    .filter(keep)
                    .map(|i| listing.columns[i])
                    .collect(),
                rows: listing
                    .rows
                    .iter()
                    .map(|row| (0..row.len()).filter(keep).map(|i| row[i].clone()).collect())
                    .collect(),
                kind: listing.kind,
                ..Listing::default()
            };
            return format!(
                "{}{}\n",
                self.text(&narrow, width),
                cut(&note, width.unwrap_or(usize::MAX))
            );
        }
        self.text(listing, width)
    }

    /// The columns that a terminal of this width has no room for: first those that matter less, then others from the right,
    /// and the state last. The first column stays, it says which row it is. A text gives way before a column does, down to [`LEAST`].
    fn left_out(&self, listing: &Listing, width: usize) -> Vec<usize> {
        let totals = self.totals(listing);
        let needs: Vec<usize> = (0..listing.columns.len())
            .map(|i| {
                let head = heading(&listing.columns[i]).width();
                let cells = listing
                    .rows
                    .iter()
                    .chain(&totals)
                    .map(|row| self.shown(&row[i]).width());
                let most = cells.max().unwrap_or(0).max(head);
                if is_whole(listing, i) {
                    most
                } else {
                    most.min(LEAST.max(head))
                }
            })
            .collect();
        let mut order: Vec<usize> = (1..listing.columns.len()).rev().collect();
        order.sort_by_key(|&i| match listing.columns[i] {
            // How things stand is what most people look for.
            Column { key: "state", .. } => 2,
            Column { less: true, .. } => 0,
            _ => 1,
        });
        let mut left_out = Vec::new();
        let mut total = needs.iter().sum::<usize>() + 2 * needs.len().saturating_sub(1);
        for i in order {
            if total <= width {
                break;
            }
            total -= needs[i] + 2;
            left_out.push(i);
        }
        left_out.sort_unstable();
        left_out
    }

    /// The last row of a terminal's table: what the columns that add up come to.
    fn totals(&self, listing: &Listing) -> Option<Vec<Cell>> {
        if self.width.is_none() || listing.rows.len() < 2 || listing.columns.first()?.sums {
            return None;
        }
        let sums: Vec<Cell> = listing
            .columns
            .iter()
            .enumerate()
            .map(|(i, column)| match i {
                0 => "TOTAL".into(),
                _ if column.sums => sum(listing.rows.iter().map(|row| &row[i])),
                _ => Cell::Text(String::new()),
            })
            .collect();
        let any = sums.iter().any(Cell::is_number);
        any.then_some(sums)
    }

    fn text(&self, listing: &Listing, width: Option<usize>) -> String {
        let totals = self.totals(listing);
        let mut cells: Vec<Vec<String>> = listing
            .rows
            .iter()
            .chain(&totals)
            .map(|row| row.iter().map(|c| self.shown(c)).collect())
            .collect();
        let heads: Vec<String> = listing.columns.iter().map(heading).collect();
        let numeric: Vec<bool> = (0..heads.len())
            .map(|i| {
                let mut known = listing
                    .rows
                    .iter()
                    .map(|r| &r[i])
                    .filter(|c| !matches!(c, Cell::Unknown))
                    .peekable();
                known.peek().is_some() && known.all(Cell::is_number)
            })
            .collect();
        if let Some(width) = width {
            let whole: Vec<bool> = (0..heads.len()).map(|i| is_whole(listing, i)).collect();
            cut_to(width, &heads, &whole, &mut cells);
        }
        let mut table = Table::new();
        table
            .load_style(comfy_table::presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled);
        if self.headers {
            table.set_header(&heads);
        }
        for row in cells {
            table.add_row(row);
        }
        for (i, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, 2));
            if numeric.get(i).copied().unwrap_or(false) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let mut text = String::new();
        for (i, line) in table.lines().enumerate() {
            let line = line.trim_end();
            if i == 0 && self.headers && self.color {
                text.push_str("\x1b[1m");
                text.push_str(line);
                text.push_str("\x1b[0m");
            } else {
                text.push_str(line);
            }
            text.push('\n');
        }
        text
    }
}

/// What the known numbers come to; nothing where none is known.
fn sum<'a>(cells: impl Iterator<Item = &'a Cell>) -> Cell {
    cells.fold(Cell::Text(String::new()), |sum, cell| match (&sum, cell) {
        (Cell::Int(a), Cell::Int(b)) => Cell::Int(a.saturating_add(*b)),
        (Cell::Float(a), Cell::Float(b)) => Cell::Float(a + b),
        (Cell::Text(_), Cell::Int(_) | Cell::Float(_)) => cell.clone(),
        _ => sum,
    })
}

/// `1.2k`, `3.4M`: three digits and a unit of thousands.
pub(super) fn human(number: i64) -> String {
    let size = number.unsigned_abs() as f64;
    for (unit, name) in [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")] {
        if size >= unit {
            let part = number as f64 / unit;
            return if part.abs() < 10.0 {
                format!("{part:.2}{name}")
            } else if part.abs() < 100.0 {
                format!("{part:.1}{name}")
            } else {
                format!("{part:.0}{name}")
            };
        }
    }
    number.to_string()
}

/// What a column of texts is cut down to at most.
const LEAST: usize = 8;

fn heading(column: &Column) -> String {
    column.key.to_uppercase().trim_end_matches("_MS").to_owned()
}

/// True for a column of which a part is of no use: numbers, times, addresses.
fn is_whole(listing: &Listing, at: usize) -> bool {
    listing.rows.iter().all(|row| match &row[at] {
        Cell::Text(text) => text.parse::<std::net::SocketAddr>().is_ok(),
        Cell::List(_) | Cell::Pairs(_) => false,
        _ => true,
    })
}

/// Cuts the widest columns of texts until the table fits; what is of use only as a whole stays whole.
fn cut_to(width: usize, heads: &[String], whole: &[bool], cells: &mut [Vec<String>]) {
    let mut widths: Vec<usize> = heads.iter().map(|h| h.width()).collect();
    for row in cells.iter() {
        for (w, cell) in widths.iter_mut().zip(row) {
            *w = (*w).max(cell.width());
        }
    }
    let before = widths.clone();
    loop {
        let total: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        if total <= width {
            break;
        }
        let Some(widest) = (0..widths.len())
            .filter(|&i| !whole[i] && widths[i] > LEAST)
            .max_by_key(|&i| widths[i])
        else {
            break;
        };
        widths[widest] -= (total - width).min(widths[widest] - LEAST);
    }
    for row in cells.iter_mut() {
        for (i, cell) in row.iter_mut().enumerate() {
            if widths[i] < before[i] && cell.width() > widths[i] {
                *cell = cut(cell, widths[i]);
            }
        }
    }
}

/// `text` cut to `width` terminal columns, the last one `…`.
pub fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let w = c.width().unwrap_or(0);
        if used + w + 1 > width {
            break;
        }
        out.push(c);
        used += w;
    }
    out.push('…');
    out
}
