//! Rows and columns of a pane before they are drawn: filtered, sorted, each row with an identity.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use regex::{Regex, RegexBuilder};

use super::view::bar::Piece;
use super::view::theme::Role;
use crate::client::findings::Subject;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Numbers stand to the right.
    pub right: bool,
    /// Columns with the highest number go first when there is no room; 0 always stays.
    pub priority: u8,
}

/// What a cell sorts by.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// Its text.
    Text,
    /// A number.
    Number(f64),
    /// A number too, of which the text is a short form: an export writes it in full.
    Count(f64),
    /// Nothing is known; last in either order.
    Nothing,
}

/// A cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What is drawn.
    pub pieces: Vec<Piece>,
    /// What it sorts by.
    pub key: Key,
}

impl Cell {
    /// A plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::of(text, Role::Plain)
    }

    /// A text of one role.
    pub fn of(text: impl Into<String>, role: Role) -> Self {
        Self {
            pieces: vec![(text.into(), role)],
            key: Key::Text,
        }
    }

    /// A text that stands for a number.
    pub fn number(text: impl Into<String>, number: f64) -> Self {
        Self::text(text).by(number)
    }

    /// A whole number, its thousands apart.
    pub fn whole(number: i64) -> Self {
        Self::text(super::view::text::grouped(number)).counted(number as f64)
    }

    /// A count in three or four characters, with a sign before it such as `≥`.
    pub fn count(sign: &str, number: f64) -> Self {
        Self::text(format!("{sign}{}", super::view::text::count(number))).counted(number)
    }

    /// `?`: not asked yet or not knowable.
    pub fn unknown() -> Self {
        Self {
            key: Key::Nothing,
            ..Self::text("?")
        }
    }

    /// `–`: does not apply.
    pub fn none() -> Self {
        Self {
            key: Key::Nothing,
            ..Self::text("–")
        }
    }

    /// `✗`: asked and failed.
    pub fn failed() -> Self {
        Self {
            key: Key::Nothing,
            ..Self::of("✗", Role::Crit)
        }
    }

    /// The same cell, sorted by a number.
    #[must_use]
    pub fn by(self, number: f64) -> Self {
        Self {
            key: Key::Number(number),
            ..self
        }
    }

    /// The same cell, sorted by a number and exported as it.
    #[must_use]
    pub fn counted(self, number: f64) -> Self {
        Self {
            key: Key::Count(number),
            ..self
        }
    }

    /// The same cell in another role.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        for piece in &mut self.pieces {
            piece.1 = role;
        }
        self
    }

    /// All text of the cell.
    pub fn plain(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// A row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Identity: selection follows it, not the position.
    pub id: String,
    /// What `y` copies.
    pub name: String,
    /// What `enter` opens.
    pub subject: Option<Subject>,
    /// One cell a column.
    pub cells: Vec<Cell>,
}

/// Rows and columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Columns.
    pub columns: Vec<Column>,
    /// Rows in drawing order.
    pub rows: Vec<Row>,
    /// Rows before the filter.
    pub unfiltered: usize,
    /// Identities of the marked rows.
    pub marks: BTreeSet<String>,
}

impl Table {
    /// A table without rows. Each column: heading, right-aligned, priority.
    pub fn new<N: Into<String>>(columns: impl IntoIterator<Item = (N, bool, u8)>) -> Self {
        let columns = columns.into_iter().map(|(name, right, priority)| Column {
            name: name.into(),
            right,
            priority,
        });
        Self {
            columns: columns.collect(),
            ..Self::default()
        }
    }

    /// Keeps the rows that pass the filter, in the order of `sort`.
    #[must_use]
    pub fn arranged(mut self, filter: Option<&Filter>, sort: Option<&Sort>) -> Self {
        // Rows that were filtered while they were made are counted by their maker.
        self.unfiltered = self.unfiltered.max(self.rows.len());
        if let Some(filter) = filter {
            let columns = &self.columns;
            self.rows.retain(|row| filter.passes(columns, row));
        }
        if let Some(sort) = sort
            && let Some(index) = self.columns.iter().position(|c| c.name == sort.column)
        {
            // Stable: equal rows keep their natural order.
            self.rows
                .sort_by(|a, b| compare(&a.cells[index], &b.cells[index], sort.descending));
        }
        self
    }

    /// Takes a column away.
    pub fn drop_column(&mut self, name: &str) {
        if let Some(index) = self.columns.iter().position(|c| c.name == name) {
            self.columns.remove(index);
            for row in &mut self.rows {
                row.cells.remove(index);
            }
        }
    }

    /// Position of a row.
    pub fn position(&self, id: &str) -> Option<usize> {
        self.rows.iter().position(|r| r.id == id)
    }
}

fn compare(a: &Cell, b: &Cell, descending: bool) -> Ordering {
    let order = match (&a.key, &b.key) {
        (Key::Nothing, Key::Nothing) => return Ordering::Equal,
        (Key::Nothing, _) => return Ordering::Greater,
        (_, Key::Nothing) => return Ordering::Less,
        (Key::Number(a) | Key::Count(a), Key::Number(b) | Key::Count(b)) => a.total_cmp(b),
        (Key::Number(_) | Key::Count(_), Key::Text) => Ordering::Less,
        (Key::Text, Key::Number(_) | Key::Count(_)) => Ordering::Greater,
        (Key::Text, Key::Text) => a.plain().cmp(&b.plain()),
    };
    if descending { order.reverse() } else { order }
}

/// A sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sort {
    /// Heading of the column.
    pub column: String,
    /// Largest first.
    pub descending: bool,
}

/// A row filter: a regular expression, inverted by a leading `!`, on one column with a leading `field:`.
#[derive(Debug, Clone)]
pub struct Filter {
    /// As typed.
    pub text: String,
    inverted: bool,
    field: Option<String>,
    regex: Regex,
    /// The text is no regular expression and is searched for as it is.
    pub literal: bool,
}

impl PartialEq for Filter {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// Compiled size a filter may have, bytes.
const FILTER_SIZE: usize = 1 << 18;

impl Filter {
    /// Reads what was typed; `None` when that is nothing.
    pub fn parse(text: &str) -> Option<Self> {
        let trimmed = text.trim();
        let (inverted, rest) = trimmed
            .strip_prefix('!')
            .map_or((false, trimmed), |rest| (true, rest));
        let (field, pattern) = match rest.split_once(':') {
            Some((field, pattern)) if !field.is_empty() && field.chars().all(char::is_alphanumeric) => {
                (Some(field.to_uppercase()), pattern)
            }
            _ => (None, rest),
        };
        if pattern.is_empty() {
            return None;
        }
        let build = |pattern: &str| {
            RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(FILTER_SIZE)
                .build()
        };
        let (regex, literal) = match build(pattern) {
            Ok(regex) => (regex, false),
            Err(_) => (build(&regex::escape(pattern)).ok()?, true),
        };
        Some(Self {
            text: trimmed.to_owned(),
            inverted,
            field,
            regex,
            literal,
        })
    }

    fn passes(&self, columns: &[Column], row: &Row) -> bool {
        let column = self.field.as_ref().and_then(|f| {
            columns
                .iter()
                .position(|c| c.name.to_uppercase().starts_with(f.as_str()))
        });
        let found = match column {
            Some(index) => self.regex.is_match(&row.cells[index].plain()),
            // An address has a colon too: without such a column the whole text is the pattern's.
            None if self.field.is_some() => {
                let whole = self.text.trim_start_matches('!').to_lowercase();
                let text = |c: &Cell| c.plain().to_lowercase();
                row.cells.iter().any(|c| text(c).contains(&whole))
            }
            None => row.cells.iter().any(|c| self.regex.is_match(&c.plain())),
        };
        found != self.inverted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new([("NAME", false, 0), ("LAG", true, 0), ("ADDR", false, 1)]);
        for (name, lag, addr) in [
            ("b", Some(2.0), "10.0.0.1:10911"),
            ("a", None, "10.0.0.2:10911"),
            ("c", Some(10.0), "10.0.0.3:10911"),
        ] {
            let lag = lag.map_or_else(Cell::unknown, |n| Cell::number(n.to_string(), n));
            t.rows.push(Row {
                id: name.into(),
                name: name.into(),
                subject: None,
                cells: vec![Cell::text(name), lag, Cell::text(addr)],
            });
        }
        t
    }

    fn names(filter: &str, sort: Option<(&str, bool)>) -> String {
        let filter = Filter::parse(filter);
        let sort = sort.map(|(column, descending)| Sort {
            column: column.into(),
            descending,
        });
        let t = table().arranged(filter.as_ref(), sort.as_ref());
        assert_eq!(t.unfiltered, 3);
        t.rows.into_iter().map(|r| r.id).collect()
    }

    #[test]
    fn filters_are_expressions_fields_or_their_opposite() {
        assert_eq!(names("", None), "bac");
        assert_eq!(names("^[ab]$", None), "ba");
        assert_eq!(names("!^[ab]$", None), "c");
        assert_eq!(names("addr:0.3", None), "c");
        assert_eq!(names("!name:a", None), "bc");
        assert_eq!(names("0.2:109", None), "a");
        // Not an expression: searched for as it is.
        assert_eq!(names("((", None), "");
        assert!(Filter::parse("((").unwrap().literal);
    }

    #[test]
    fn unknown_sorts_last_in_either_order() {
        assert_eq!(names("", Some(("LAG", false))), "bca");
        assert_eq!(names("", Some(("LAG", true))), "cba");
        assert_eq!(names("", Some(("NAME", false))), "abc");
        assert_eq!(names("", Some(("NO SUCH", false))), "bac");
    }
}
