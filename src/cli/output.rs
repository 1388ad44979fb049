//! Rows as a table, JSON, JSON lines, CSV or bare names.
//!
//! A command declares its columns once and fills cells; every output form, `--columns`, `--sort-by` and `--filter`
//! follow from them. Data goes to stdout and nothing else does.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::desk::Desk;
use super::exit::Failure;
use super::time::Zone;

mod cell;
mod detail;
mod select;
mod table;
mod value;

use cell::compare;
pub use cell::{Cell, printable};
pub use detail::{Detail, PROPERTIES};
pub use select::{Filter, SortBy};
pub use table::cut;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Columns, cut to the terminal's width
    Table,
    /// All columns, nothing cut
    Wide,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma separated, with a header line
    Csv,
    /// Bare names, one a line
    Name,
    /// Numbers as metrics in Prometheus text, texts as their labels
    Prometheus,
}

/// One column: its key is the JSON name and, in capitals, the heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Key, snake case.
    pub key: &'static str,
    /// Shown in the wide form only.
    pub wide: bool,
    /// Left out of a table first when the terminal is too narrow.
    pub less: bool,
    /// What `-o name` prints: what the next command takes. The first column where none is marked.
    pub name: bool,
    /// Its numbers add up: a terminal shows their sum below.
    pub sums: bool,
}

impl Column {
    /// The same column as the name of its row.
    #[must_use]
    pub const fn named(mut self) -> Self {
        self.name = true;
        self
    }

    /// The same, with a sum below.
    #[must_use]
    pub const fn sums(self) -> Self {
        Self { sums: true, ..self }
    }
}

/// A column of every form.
pub const fn col(key: &'static str) -> Column {
    Column {
        key,
        wide: false,
        less: false,
        name: false,
        sums: false,
    }
}

/// A column of the wide form (and of JSON and CSV).
pub const fn wide(key: &'static str) -> Column {
    Column {
        key,
        wide: true,
        less: false,
        name: false,
        sums: false,
    }
}

/// A column of every form that a narrow terminal does without.
pub const fn less(key: &'static str) -> Column {
    Column {
        key,
        wide: false,
        less: true,
        name: false,
        sums: false,
    }
}

/// Rows of one kind.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// JSON kind, such as `TopicList`.
    pub kind: &'static str,
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// One cell a column.
    pub rows: Vec<Vec<Cell>>,
    /// Totals and notes: `summary` in JSON.
    pub summary: Map<String, Value>,
    /// Targets that failed.
    pub errors: Vec<Failure>,
    /// Rows are in a meaningful order already; do not sort by name.
    pub ordered: bool,
}

impl Listing {
    /// An empty listing.
    pub fn new(kind: &'static str, columns: &[Column]) -> Self {
        Self {
            kind,
            columns: columns.to_vec(),
            ..Self::default()
        }
    }

    /// Where a column is, by its JSON name or its heading: `lag_time_ms` is `LAG_TIME` above a table, and of a time
    /// `stored` JSON has `stored_ms` too.
    fn position(&self, key: &str) -> Option<usize> {
        let key = key.to_ascii_lowercase();
        let stem = |key: &str| key.trim_end_matches("_ms").to_owned();
        let find = |fits: &dyn Fn(&str) -> bool| self.columns.iter().position(|c| fits(c.key));
        find(&|own| own == key).or_else(|| find(&|own| stem(own) == stem(&key)))
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.kind);
        self.rows.push(row);
    }
}

/// Everything that decides how a result is printed.
#[derive(Debug)]
pub struct Printer {
    /// Output form.
    pub format: Format,
    /// Chosen columns.
    pub columns: Option<Vec<String>>,
    /// Chosen order.
    pub sort: Option<SortBy>,
    /// Chosen rows.
    pub filter: Option<Filter>,
    /// Print the heading.
    pub headers: bool,
    /// Units for large numbers in tables.
    pub human: bool,
    /// Bold headings.
    pub color: bool,
    /// Columns of the terminal on stdout; `None` for a pipe.
    pub width: Option<usize>,
    /// Zone of printed times.
    pub zone: Zone,
    /// Name of the context, for JSON.
    pub context: Option<String>,
    /// Where listings go instead of stdout.
    pub desk: Option<Arc<Desk>>,
}

/// Which rows and columns of a listing, and in which order.
struct Choice<'a> {
    filter: Option<&'a Filter>,
    sort: Option<&'a SortBy>,
    columns: Option<Vec<String>>,
}

/// Rows as metrics; what has none is asked for in another form.
fn metrics(listing: &Listing, out: &mut dyn Write) -> Result<(), Failure> {
    // Their texts would be labels, bodies among them, and each row a series of its own.
    const EVENTS: &[&str] = &[
        "CommitLogRecord",
        "DlqMessages",
        "Message",
        "MessageList",
        "MessageTrace",
    ];
    if EVENTS.contains(&listing.kind) {
        return Err(Failure::usage(
            "messages are no metrics; use -o table, json or csv",
        ));
    }
    if super::metrics::write(listing, out)? {
        Ok(())
    } else {
        Err(Failure::usage(
            "there are no numbers in this answer to be metrics; use -o table, json or csv",
        ))
    }
}

impl Printer {
    /// Width of the terminal on stdout.
    pub fn terminal_width() -> Option<usize> {
        if !io::stdout().is_terminal() {
            return None;
        }
        crossterm::terminal::size()
            .ok()
            .map(|(columns, _)| usize::from(columns))
            .filter(|c| *c > 0)
    }

    /// A printer of bare rows, for a stream: the same columns and filter, no heading, times in UTC.
    pub fn rows(&self, format: Format) -> Self {
        Self {
            format,
            columns: self.columns.clone(),
            sort: None,
            filter: self.filter.clone(),
            headers: false,
            human: false,
            color: false,
            width: None,
            zone: Zone::new(true),
            context: None,
            desk: self.desk.clone(),
        }
    }

    /// The same for a file: as wide as the rows are, without colours.
    pub fn for_file(&self, format: Format) -> Self {
        Self {
            format,
            columns: self.columns.clone(),
            sort: self.sort.clone(),
            filter: self.filter.clone(),
            color: false,
            width: None,
            zone: self.zone.again(),
            context: self.context.clone(),
            desk: None,
            ..*self
        }
    }

    fn index(listing: &Listing, key: &str) -> Result<usize, Failure> {
        listing.position(key).ok_or_else(|| {
            let known: Vec<&str> = listing.columns.iter().map(|c| c.key).collect();
            Failure::usage(format!(
                "there is no column \"{key}\" here; the columns are {}",
                known.join(", ")
            ))
        })
    }

    /// Applies filter, order and column choice.
    pub fn arrange(&self, listing: Listing) -> Result<Listing, Failure> {
        let choice = Choice {
            filter: self.filter.as_ref(),
            sort: self.sort.as_ref(),
            columns: self.columns.clone(),
        };
        self.arrange_by(choice, listing)
    }

    fn arrange_by(&self, choice: Choice<'_>, mut listing: Listing) -> Result<Listing, Failure> {
        if let Some(filter) = choice.filter {
            let mut rows = listing.rows.iter().collect();
            filter.retain(&listing, &mut rows, &self.zone)?;
            listing.rows = rows.into_iter().cloned().collect();
        }
        match choice.sort {
            Some(sort) => {
                let at = Self::index(&listing, &sort.key)?;
                listing.rows.sort_by(|a, b| {
                    let unknown = |c: &Cell| matches!(c, Cell::Unknown);
                    // Unknown stays last in either direction.
                    unknown(&a[at]).cmp(&unknown(&b[at])).then_with(|| {
                        let order = compare(&a[at], &b[at]);
                        if sort.descending { order.reverse() } else { order }
                    })
                });
            }
            None if !listing.ordered => listing.rows.sort_by(|a, b| {
                a.iter()
                    .zip(b)
                    .map(|(x, y)| compare(x, y))
                    .find(|o| o.is_ne())
                    .unwrap_or(std::cmp::Ordering::Equal)
            }),
            None => {}
        }
        let keep: Option<Vec<usize>> = match &choice.columns {
            Some(keys) => Some(
                keys.iter()
                    .map(|k| Self::index(&listing, k))
                    .collect::<Result<_, _>>()?,
            ),
            None if self.format == Format::Table => Some(
                (0..listing.columns.len())
                    .filter(|&i| !listing.columns[i].wide)
                    .collect(),
            ),
            None => None,
        };
        if let Some(keep) = keep {
            for row in &mut listing.rows {
                *row = keep.iter().map(|&i| row[i].clone()).collect();
            }
            listing.columns = keep.iter().map(|&i| listing.columns[i]).collect();
        }
        Ok(listing)
    }

    /// Writes a listing to `out`.
    pub fn write(&self, listing: Listing, out: &mut dyn Write) -> Result<(), Failure> {
        let listing = self.arrange(listing)?;
        match self.format {
            Format::Table | Format::Wide => out.write_all(self.table(&listing).as_bytes())?,
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document(&listing)).map_err(io::Error::from)?;
                out.write_all(b"\n")?;
            }
            Format::Jsonl => {
                for row in &listing.rows {
                    serde_json::to_writer(&mut *out, &item(&listing.columns, row))
                        .map_err(io::Error::from)?;
                    out.write_all(b"\n")?;
                }
            }
            Format::Csv => self.csv(&listing, out)?,
            Format::Name => {
                let chosen = self.columns.is_some();
                let at = listing.columns.iter().position(|c| c.name && !chosen);
                let mut last = None;
                for row in &listing.rows {
                    let name = row.get(at.unwrap_or(0)).map(Cell::raw).unwrap_or_default();
                    if last.as_ref() != Some(&name) {
                        writeln!(out, "{name}")?;
                    }
                    last = Some(name);
                }
            }
            Format::Prometheus => metrics(&listing, out)?,
        }
        Ok(())
    }

    /// Prints a listing on stdout.
    pub fn print(&self, listing: Listing) -> Result<(), Failure> {
        if let Some(desk) = &self.desk {
            return desk.show(self, listing);
        }
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.write(listing, &mut out)?;
        out.flush()?;
        Ok(())
    }

    fn envelope(
        &self,
        kind: &str,
        items: Vec<Value>,
        summary: Map<String, Value>,
        errors: &[Failure],
    ) -> Value {
        let errors: Vec<Value> = errors.iter().map(Failure::json).collect();
        json!({
            "kind": kind,
            "apiVersion": "rmq/v1",
            "context": self.context,
            "items": items,
            "summary": summary,
            "errors": errors,
        })
    }

    fn document(&self, listing: &Listing) -> Value {
        let rows = listing
            .rows
            .iter()
            .map(|row| item(&listing.columns, row))
            .collect();
        self.envelope(listing.kind, rows, listing.summary.clone(), &listing.errors)
    }

    fn csv(&self, listing: &Listing, out: &mut dyn Write) -> Result<(), Failure> {
        let mut csv = csv::Writer::from_writer(out);
        if self.headers {
            csv.write_record(listing.columns.iter().map(|c| c.key))
                .map_err(io::Error::from)?;
        }
        for row in &listing.rows {
            csv.write_record(row.iter().map(Cell::raw))
                .map_err(io::Error::from)?;
        }
        csv.flush()?;
        Ok(())
    }
}

fn item(columns: &[Column], row: &[Cell]) -> Value {
    let mut out = Map::new();
    for (column, cell) in columns.iter().zip(row) {
        cell.json(column.key, &mut out);
    }
    Value::Object(out)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use super::table::human;
    use super::*;

    pub fn printer(format: Format) -> Printer {
        Printer {
            format,
            columns: None,
            sort: None,
            filter: None,
            headers: true,
            human: false,
            color: false,
            width: None,
            zone: Zone::new(true),
            context: None,
            desk: None,
        }
    }

    fn listing() -> Listing {
        let mut listing = Listing::new("TopicList", &[col("name"), col("lag"), wide("stored_at")]);
        listing.push(vec![
            "订单事件".into(),
            Cell::Unknown,
            Cell::Time(1_795_973_628_318),
        ]);
        listing.push(vec!["audit".into(), Cell::Int(1200), Cell::Unknown]);
        listing.push(vec!["b\x1b[2J".into(), Cell::Int(7), Cell::Unknown]);
        listing
    }

    fn text(printer: &Printer) -> String {
        let mut out = Vec::new();
        printer.write(listing(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_table_aligns_numbers_right_and_wide_characters_by_their_width() {
        assert_eq!(
            text(&printer(Format::Table)),
            "NAME         LAG\naudit       1200\nb\\u{1b}[2J     7\n订单事件       -\n"
        );
    }

    #[test]
    fn json_has_numbers_nulls_and_both_times() {
        let value: Value = serde_json::from_str(&text(&printer(Format::Json))).unwrap();
        assert_eq!(value["kind"], "TopicList");
        assert_eq!(value["apiVersion"], "rmq/v1");
        assert_eq!(value["items"][0]["lag"], 1200);
        assert_eq!(value["items"][2]["lag"], Value::Null);
        assert_eq!(value["items"][2]["stored_at"], "2026-11-29T17:33:48.318Z");
        assert_eq!(value["items"][2]["stored_at_ms"], 1_795_973_628_318_i64);
    }

    #[test]
    fn names_lines_and_csv_carry_raw_values() {
        assert_eq!(text(&printer(Format::Name)).lines().next(), Some("audit"));
        assert_eq!(text(&printer(Format::Csv)).lines().nth(1), Some("audit,1200,"));
        assert_eq!(text(&printer(Format::Jsonl)).lines().count(), 3);
    }

    #[test]
    fn filter_sort_and_columns_work_on_any_listing() {
        let mut p = printer(Format::Name);
        p.filter = Some("lag>10".parse().unwrap());
        assert_eq!(text(&p), "audit\n");
        p.filter = Some("name!~aud && lag<=7".parse().unwrap());
        assert_eq!(text(&p).lines().count(), 1);
        p.filter = None;
        p.sort = Some("lag:desc".parse().unwrap());
        assert_eq!(text(&p).lines().next(), Some("audit"));
        assert_eq!(text(&p).lines().last(), Some("订单事件"));
        p.columns = Some(vec!["LAG".into()]);
        p.format = Format::Csv;
        assert_eq!(text(&p).lines().next(), Some("lag"));
        p.columns = Some(vec!["nope".into()]);
        assert_eq!(
            p.write(listing(), &mut Vec::new()).unwrap_err().exit,
            crate::cli::exit::USAGE
        );
        assert!("name".parse::<Filter>().is_err());
    }

    #[test]
    fn the_name_of_a_row_is_the_column_that_is_marked() {
        let mut p = printer(Format::Name);
        let print = |p: &Printer| {
            let columns = [col("stored"), col("body"), wide("offset_id").named()];
            let mut listing = Listing::new("MessageList", &columns);
            listing.push(vec![Cell::Time(1), "x".into(), "7F".into()]);
            let mut out = Vec::new();
            p.write(listing, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(print(&p), "7F\n");
        p.columns = Some(vec!["body".into()]);
        assert_eq!(print(&p), "x\n", "chosen columns go first");
    }

    #[test]
    fn human_numbers_have_three_digits_and_a_unit() {
        let text = [0, 999, 1_204, 15_360, 999_400, 3_400_000, -2_000_000_000].map(human);
        assert_eq!(text, ["0", "999", "1.20k", "15.4k", "999k", "3.40M", "-2.00G"]);
    }

    #[test]
    fn a_narrow_terminal_loses_what_matters_less_and_never_a_part_of_an_address_or_a_time() {
        let mut p = printer(Format::Table);
        let mut listing = Listing::new(
            "BrokerList",
            &[
                col("name"),
                col("addr"),
                less("version"),
                col("in_tps"),
                less("role"),
                col("target_time"),
            ],
        );
        listing.push(vec![
            "broker-with-a-name-as-long-as-a-sentence".into(),
            "10.100.200.30:10911".into(),
            "V5_3_3".into(),
            Cell::Int(123),
            "master".into(),
            Cell::Time(1_795_973_628_318),
        ]);
        let table = |p: &Printer| {
            let mut out = Vec::new();
            p.write(listing.clone(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        p.width = Some(72);
        let text = table(&p);
        assert!(text.lines().all(|line| line.width() <= 72), "{text}");
        assert!(
            text.contains("10.100.200.30:10911") && text.contains("2026-11-29 17:33:48.318"),
            "{text}"
        );
        assert!(
            !text.contains("ROLE") && text.contains("VERSION") && text.contains("role left out"),
            "{text}"
        );
        p.width = Some(30);
        let text = table(&p);
        assert!(
            text.starts_with("NAME") && !text.contains("TARGET_TIME"),
            "{text}"
        );
        p.width = Some(500);
        assert!(!table(&p).contains("left out"));
        p.width = Some(30);
        p.columns = Some(vec!["name".into(), "target_time".into()]);
        assert!(
            table(&p).contains("2026-11-29 17:33:48.318"),
            "chosen columns stay"
        );
    }

    /// §4: totals are a separate final row only on terminals.
    #[test]
    fn numbers_that_add_up_have_a_sum_on_terminals_only() {
        let mut listing = Listing::new(
            "Lag",
            &[col("group"), col("queue"), col("lag").sums(), wide("tps").sums()],
        );
        for (group, queue, lag, tps) in [
            ("b", 1, Cell::Int(40), 1.5),
            ("a", 2, Cell::Int(2), 2.0),
            ("c", 3, Cell::Unknown, 0.5),
        ] {
            listing.push(vec![group.into(), queue.into(), lag, Cell::Float(tps)]);
        }
        let table = |p: &Printer| {
            let mut out = Vec::new();
            p.write(listing.clone(), &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let mut p = printer(Format::Table);
        assert_eq!(
            table(&p),
            "GROUP  QUEUE  LAG\na          2    2\nb          1   40\nc          3    -\n"
        );
        p.width = Some(80);
        let last = |text: String| {
            text.lines()
                .last()
                .unwrap()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(last(table(&p)), "TOTAL 42");
        p.format = Format::Wide;
        assert_eq!(last(table(&p)), "TOTAL 42 4.0");
        // Of what is shown; one row is its own total, and a column that is not shown has none.
        p.filter = Some("lag>1".parse().unwrap());
        assert_eq!(last(table(&p)), "TOTAL 42 3.5");
        p.filter = Some("lag>5".parse().unwrap());
        assert_eq!(last(table(&p)), "b 1 40 1.5");
        p.filter = None;
        p.columns = Some(vec!["group".into(), "queue".into()]);
        assert_eq!(last(table(&p)), "c 3");
        for format in [Format::Csv, Format::Json, Format::Name] {
            p.format = format;
            assert!(!table(&p).contains("TOTAL"), "{format:?}");
        }
    }

    #[test]
    fn a_terminal_table_fits_and_says_what_it_cut() {
        let mut p = printer(Format::Table);
        p.width = Some(16);
        for line in text(&p).lines() {
            assert!(line.width() <= 16, "{line}");
        }
        assert_eq!(cut("订单事件", 5), "订单…");
        assert_eq!(cut("abc", 3), "abc");
    }
}
