//! A table as text: what is written when a view is exported. Pure.

use std::fmt::Write as _;

use serde_json::Value;

use super::table::{Cell, Key, Table};

/// A form of an exported view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Comma separated values with a heading.
    Csv,
    /// One JSON object a row.
    Jsonl,
    /// A JSON array of objects.
    Json,
    /// A Markdown table.
    Markdown,
}

/// Every form.
pub const FORMS: [Form; 4] = [Form::Csv, Form::Jsonl, Form::Json, Form::Markdown];

impl Form {
    /// The ending of its files.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::Json => "json",
            Self::Markdown => "md",
        }
    }
}

fn keys(table: &Table) -> Vec<String> {
    let key = |name: &str| name.trim().to_lowercase().replace([' ', '/'], "_");
    table.columns.iter().map(|c| key(&c.name)).collect()
}

/// What a program reads: numbers in full, nothing where nothing is known. A number that is a bound or doubtful keeps its
/// sign, and so is a text.
fn value(cell: &Cell) -> Value {
    let plain = cell.plain();
    if let Key::Count(number) = cell.key {
        let sign = plain.trim_start().chars().next().filter(|c| "≥~".contains(*c));
        let number = if number == number.trunc() && number.abs() < 9e15 {
            Value::from(number as i64)
        } else {
            Value::from(number)
        };
        return match sign {
            Some(sign) => format!("{sign}{number}").into(),
            None => number,
        };
    }
    match plain.as_str() {
        "?" | "–" => Value::Null,
        _ => plain.into(),
    }
}

/// The same in a line of text.
fn word(cell: &Cell) -> String {
    match value(cell) {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn object(keys: &[String], cells: &[Cell]) -> Value {
    let pairs = keys.iter().zip(cells);
    Value::Object(pairs.map(|(k, c)| (k.clone(), value(c))).collect())
}

/// The rows of a table in a form.
pub fn text(table: &Table, form: Form) -> String {
    let keys = keys(table);
    let mut out = String::new();
    match form {
        Form::Csv => {
            let mut csv = csv::Writer::from_writer(Vec::new());
            let rows = table.rows.iter().map(|r| r.cells.iter().map(word).collect());
            for record in std::iter::once(keys).chain(rows) {
                // A Vec takes everything.
                let _: Result<(), _> = csv.write_record(&record);
            }
            out = String::from_utf8(csv.into_inner().unwrap_or_default()).unwrap_or_default();
        }
        Form::Jsonl => {
            for row in &table.rows {
                let _ = writeln!(out, "{}", object(&keys, &row.cells));
            }
        }
        Form::Json => {
            let rows = table.rows.iter().map(|r| object(&keys, &r.cells)).collect();
            let _ = writeln!(out, "{:#}", Value::Array(rows));
        }
        Form::Markdown => {
            let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
            out += &line(table.columns.iter().map(|c| c.name.clone()).collect());
            out += &line(vec!["---".to_owned(); table.columns.len()]);
            for row in &table.rows {
                out += &line(row.cells.iter().map(|c| c.plain().replace('|', "\\|")).collect());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::table::Row;

    #[test]
    fn numbers_are_written_in_full() {
        let mut table = Table::new([
            ("LAG", true, 0),
            ("RATE", true, 0),
            ("AGE", true, 0),
            ("END", true, 0),
        ]);
        table.rows.push(Row {
            id: "g".into(),
            name: "g".into(),
            subject: None,
            cells: vec![
                Cell::count("≥", 35_612.0),
                Cell::count("", 0.25),
                Cell::unknown(),
                Cell::whole(1_234_567),
            ],
        });
        assert_eq!(
            text(&table, Form::Csv),
            "lag,rate,age,end\n≥35612,0.25,,1234567\n"
        );
        assert_eq!(
            text(&table, Form::Jsonl),
            "{\"age\":null,\"end\":1234567,\"lag\":\"≥35612\",\"rate\":0.25}\n"
        );
        // For people it stays as it is drawn.
        assert!(text(&table, Form::Markdown).contains("| ≥35.6k |"));
    }

    #[test]
    fn every_form_keeps_every_cell() {
        let mut table = Table::new([("W/R", false, 0), ("NOTE", false, 1)]);
        table.rows.push(Row {
            id: "a".into(),
            name: "a".into(),
            subject: None,
            cells: vec![Cell::text("8/8"), Cell::text("a,\"b\"|c")],
        });
        assert_eq!(text(&table, Form::Csv), "w_r,note\n8/8,\"a,\"\"b\"\"|c\"\n");
        assert_eq!(
            text(&table, Form::Jsonl),
            "{\"note\":\"a,\\\"b\\\"|c\",\"w_r\":\"8/8\"}\n"
        );
        assert_eq!(
            text(&table, Form::Markdown),
            "| W/R | NOTE |\n| --- | --- |\n| 8/8 | a,\"b\"\\|c |\n"
        );
        let json: serde_json::Value = serde_json::from_str(&text(&table, Form::Json)).unwrap();
        assert_eq!(json[0]["w_r"], "8/8");
    }
}
