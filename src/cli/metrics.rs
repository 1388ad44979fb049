//! Rows as Prometheus text: every column of numbers is a metric, texts are its labels.
//!
//! `rmq_group_lag{group="CG",topic="T",broker="b",queue="0"} 7`. A metric is named by the kind of the rows and the column,
//! with the unit of its values: times are in seconds. The names of [`NAMED`] stand for themselves. What is unknown has no
//! sample; rows that differ in nothing but numbers count once, the first.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write;

use super::output::{Cell, Listing};

/// Columns of numbers that name a row.
const NAMING: &[&str] = &["queue", "id", "level", "offset"];

/// Metrics with a name of their own and a sentence on what they are: kind, column, name, help.
const NAMED: &[(&str, &str, &str, &str)] = &[
    (
        "GroupLag",
        "lag",
        "rmq_group_lag",
        "Messages that the group has not consumed yet.",
    ),
    (
        "GroupLag",
        "max_queue_lag",
        "rmq_group_max_queue_lag",
        "Messages not consumed yet in the queue that is furthest behind.",
    ),
    (
        "GroupLag",
        "lag_time_ms",
        "rmq_group_lag_time_seconds",
        "Age of the oldest message that the group has not consumed yet.",
    ),
    (
        "GroupLag",
        "max",
        "rmq_group_queue_end_offset",
        "Offset behind the last message of the queue.",
    ),
    (
        "GroupLag",
        "committed",
        "rmq_group_committed_offset",
        "Offset of the next message that the group reads.",
    ),
    (
        "GroupLag",
        "inflight",
        "rmq_group_inflight",
        "Messages that clients have been given and have not acknowledged.",
    ),
    (
        "GroupLag",
        "consume_tps",
        "rmq_group_consume_rate",
        "Messages consumed a second.",
    ),
    (
        "GroupLag",
        "unowned",
        "rmq_group_unowned_queues",
        "Queues that no client of the group reads.",
    ),
];

/// Name, help and divisor of a column of numbers.
fn metric(kind: &str, key: &str, is_span: bool) -> (String, String, f64) {
    let per = if is_span { 1e3 } else { 1.0 };
    if let Some((.., name, help)) = NAMED.iter().find(|(k, column, ..)| (*k, *column) == (kind, key)) {
        return ((*name).to_owned(), (*help).to_owned(), per);
    }
    let words = words(kind);
    let mut name = format!("rmq_{}", words.join("_"));
    let key = match key.strip_suffix("_ms") {
        Some(stem) if is_span => format!("{stem}_seconds"),
        _ => key.to_owned(),
    };
    if !name.ends_with(&format!("_{key}")) {
        name = format!("{name}_{key}");
    }
    let help = format!("Column {key} of {}.", words.join(" "));
    (name, help, per)
}

/// `GroupLag` as `group`, `lag`.
fn words(kind: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for c in kind.chars() {
        match words.last_mut() {
            Some(word) if !c.is_ascii_uppercase() => word.push(c),
            _ => words.push(c.to_ascii_lowercase().to_string()),
        }
    }
    words
}

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
        let is_span = listing.rows.iter().any(|row| matches!(row[at], Cell::Span(_)));
        let (name, help, per) = metric(listing.kind, column.key, is_span);
        some = true;
        writeln!(out, "# HELP {name} {help}")?;
        writeln!(out, "# TYPE {name} gauge")?;
        let mut written = BTreeSet::new();
        for row in &listing.rows {
            let Some(value) = row[at].number() else { continue };
            let labels = labels(listing, row);
            if written.insert(labels.clone()) {
                writeln!(out, "{name}{labels} {}", value / per)?;
            }
        }
    }
    Ok(some)
}

/// Things that rows are of: one label for one thing, whether a row has it as its name or beside others.
const THINGS: &[&str] = &["broker", "cluster", "group", "topic"];

/// The label of a column of texts.
fn label(listing: &Listing, key: &'static str) -> String {
    let thing = words(listing.kind).into_iter().next().unwrap_or_default();
    let is_free = || listing.columns.iter().all(|column| column.key != thing);
    if key == "name" && THINGS.contains(&thing.as_str()) && is_free() {
        thing
    } else {
        key.to_owned()
    }
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
            let label = label(listing, column.key);
            let _ = write!(text, "{comma}{label}=\"{value}\"");
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
            "# HELP rmq_group_lag Messages that the group has not consumed yet.\n\
             # TYPE rmq_group_lag gauge\n\
             rmq_group_lag{group=\"C\\\"G\",queue=\"3\"} 7\n\
             # HELP rmq_group_lag_time_seconds Age of the oldest message that the group has not consumed yet.\n\
             # TYPE rmq_group_lag_time_seconds gauge\n\
             rmq_group_lag_time_seconds{group=\"C\\\"G\",queue=\"3\"} 1.5\n"
        );
    }

    #[test]
    fn one_thing_has_one_label_and_a_span_no_noise() {
        let mut listing = Listing::new("Group", &[col("name"), col("lag_time_ms")]);
        listing.push(vec!["CG".into(), Cell::Span(34_160)]);
        let mut out = Vec::new();
        assert!(write(&listing, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("_lag_time_seconds{group=\"CG\"} 34.16\n"), "{text}");
    }

    #[test]
    fn a_column_without_a_name_of_its_own_is_named_by_kind_and_unit() {
        let named = |kind: &str, key: &str, span: bool| metric(kind, key, span).0;
        assert_eq!(named("GroupLag", "max", false), "rmq_group_queue_end_offset");
        assert_eq!(
            named("BrokerList", "put_p99_ms", true),
            "rmq_broker_list_put_p99_seconds"
        );
        assert_eq!(
            named("BrokerList", "in_tps_10s", false),
            "rmq_broker_list_in_tps_10s"
        );
        assert_eq!(named("TopicStats", "stats", false), "rmq_topic_stats");
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
