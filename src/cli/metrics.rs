//! Rows as Prometheus text: every column of numbers is a metric, texts are its labels.
//!
//! `rmq_group_lag{group="CG",topic="T",broker="b",queue="0"} 7`. What is unknown has no sample; rows that differ in
//! nothing but numbers count once, the first.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

use super::output::{Cell, Listing};

/// Columns of numbers that name a row.
const NAMING: &[&str] = &["queue", "id", "level", "offset"];

/// Writes the samples of a listing; false when it has rows and none of them a number.
pub fn write(listing: &Listing, out: &mut dyn Write) -> std::io::Result<bool> {
    let mut some = listing.rows.is_empty();
    for (at, column) in listing.columns.iter().enumerate() {
        let is_metric = !NAMING.contains(&column.key)
            && listing.rows.iter().any(|row| {
                matches!(
                    row[at],
                    Cell::Int(_) | Cell::Float(_) | Cell::Ratio(_) | Cell::Span(_)
                )
            });
        if !is_metric {
            continue;
        }
        let name = metric(listing.kind, column.key);
        some = true;
        writeln!(out, "# TYPE {name} gauge")?;
        let mut written = BTreeSet::new();
        for row in &listing.rows {
            let Some(value) = row[at].number() else { continue };
            let labels = labels(listing, row);
            if written.insert(labels.clone()) {
                writeln!(out, "{name}{labels} {value}")?;
            }
        }
    }
    Ok(some)
}

/// `GroupLag` and `lag` are `rmq_group_lag`, `GroupLag` and `max` are `rmq_group_lag_max`.
fn metric(kind: &str, key: &str) -> String {
    let mut name = String::from("rmq");
    for c in kind.chars() {
        if c.is_ascii_uppercase() {
            name.push('_');
        }
        name.push(c.to_ascii_lowercase());
    }
    if !name.ends_with(&format!("_{key}")) {
        name.push('_');
        name.push_str(key);
    }
    name
}

fn labels(listing: &Listing, row: &[Cell]) -> String {
    let mut text = String::new();
    for (column, cell) in listing.columns.iter().zip(row) {
        let is_label = match cell {
            Cell::Text(_) | Cell::Bool(_) => true,
            Cell::Int(_) => NAMING.contains(&column.key),
            _ => false,
        };
        if is_label {
            let comma = if text.is_empty() { "" } else { "," };
            let value = cell
                .raw()
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            // Writing to a string cannot fail.
            let _ = write!(text, "{comma}{}=\"{value}\"", column.key);
        }
    }
    if text.is_empty() {
        text
    } else {
        format!("{{{text}}}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::output::col;
    use super::*;

    #[test]
    fn numbers_are_samples_and_texts_their_labels() {
        let mut listing = Listing::new(
            "GroupLag",
            &[
                col("group"),
                col("queue"),
                col("lag"),
                col("lag_time_ms"),
                col("note"),
            ],
        );
        listing.push(vec![
            "C\"G".into(),
            3.into(),
            7.into(),
            Cell::Span(1500),
            Cell::Unknown,
        ]);
        listing.push(vec![
            "B".into(),
            0.into(),
            Cell::Unknown,
            Cell::Unknown,
            Cell::Unknown,
        ]);
        let mut out = Vec::new();
        assert!(write(&listing, &mut out).unwrap());
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "# TYPE rmq_group_lag gauge\n\
             rmq_group_lag{group=\"C\\\"G\",queue=\"3\"} 7\n\
             # TYPE rmq_group_lag_lag_time_ms gauge\n\
             rmq_group_lag_lag_time_ms{group=\"C\\\"G\",queue=\"3\"} 1500\n"
        );
    }

    #[test]
    fn rows_without_a_number_are_no_metrics() {
        let mut listing = Listing::new("KvList", &[col("namespace"), col("queue")]);
        let mut out = Vec::new();
        assert!(
            write(&listing, &mut out).unwrap(),
            "an empty listing is an empty scrape"
        );
        listing.push(vec!["N".into(), 3.into()]);
        assert!(!write(&listing, &mut out).unwrap());
        assert!(out.is_empty());
    }
}
