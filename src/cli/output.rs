//! Rows as a table, JSON, JSON lines, CSV or bare names.
//!
//! A command declares its columns once and fills cells; every output form, `--columns`, `--sort-by` and `--filter`
//! follow from them. Data goes to stdout and nothing else does.

use std::io::{self, IsTerminal as _, Write};
use std::sync::Arc;

use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde_json::{Map, Value, json};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::desk::Desk;
use super::exit::Failure;
use super::time::{self, Zone};

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

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Nobody said: `-` and `null`.
    Unknown,
    /// A text.
    Text(String),
    /// A number.
    Int(i64),
    /// A number with one decimal in tables.
    Float(f64),
    /// A part of one, shown as a percentage.
    Ratio(f64),
    /// `yes` or `no`.
    Bool(bool),
    /// Epoch ms.
    Time(i64),
    /// A span in ms; the column's key ends in `_ms`.
    Span(i64),
    /// Several texts.
    List(Vec<String>),
    /// Names and values.
    Pairs(Vec<(String, String)>),
}

impl From<&str> for Cell {
    fn from(v: &str) -> Self {
        Self::Text(v.to_owned())
    }
}
impl From<String> for Cell {
    fn from(v: String) -> Self {
        Self::Text(v)
    }
}
impl From<i64> for Cell {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}
impl From<i32> for Cell {
    fn from(v: i32) -> Self {
        Self::Int(v.into())
    }
}
impl From<usize> for Cell {
    fn from(v: usize) -> Self {
        Self::Int(i64::try_from(v).unwrap_or(i64::MAX))
    }
}
impl From<f64> for Cell {
    fn from(v: f64) -> Self {
        Self::Float(v)
    }
}
impl From<bool> for Cell {
    fn from(v: bool) -> Self {
        Self::Bool(v)
    }
}
impl From<Vec<String>> for Cell {
    fn from(v: Vec<String>) -> Self {
        Self::List(v)
    }
}
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(v: Option<T>) -> Self {
        v.map_or(Self::Unknown, Into::into)
    }
}

impl Cell {
    /// A point in time, if there is one.
    pub fn time(ms: Option<i64>) -> Self {
        ms.filter(|ms| *ms > 0).map_or(Self::Unknown, Self::Time)
    }

    /// A span, if there is one.
    pub fn span(span: Option<std::time::Duration>) -> Self {
        span.map_or(Self::Unknown, |s| {
            Self::Span(i64::try_from(s.as_millis()).unwrap_or(i64::MAX))
        })
    }

    fn is_number(&self) -> bool {
        matches!(
            self,
            Self::Int(_) | Self::Float(_) | Self::Ratio(_) | Self::Span(_)
        )
    }

    pub(super) fn number(&self) -> Option<f64> {
        match self {
            Self::Int(v) | Self::Time(v) | Self::Span(v) => Some(*v as f64),
            Self::Float(v) | Self::Ratio(v) => Some(*v),
            _ => None,
        }
    }

    /// For a person. Control characters are escaped: a message body must not drive the terminal.
    fn text(&self, zone: &Zone) -> String {
        match self {
            Self::Unknown => "-".into(),
            Self::Text(v) => printable(v),
            Self::Int(v) => v.to_string(),
            Self::Float(v) => format!("{v:.1}"),
            Self::Ratio(v) => format!("{:.0}%", v * 100.0),
            Self::Bool(v) => if *v { "yes" } else { "no" }.into(),
            Self::Time(ms) => zone.text(*ms).unwrap_or_else(|| ms.to_string()),
            Self::Span(ms) => time::duration(std::time::Duration::from_millis(ms.unsigned_abs())),
            Self::List(v) if v.is_empty() => "-".into(),
            Self::List(v) => printable(&v.join(",")),
            Self::Pairs(v) if v.is_empty() => "-".into(),
            Self::Pairs(v) => printable(&joined(v, ",")),
        }
    }

    /// For a program that reads text: full precision, no units.
    pub(super) fn raw(&self) -> String {
        match self {
            Self::Unknown => String::new(),
            Self::Text(v) => v.clone(),
            Self::Int(v) | Self::Span(v) => v.to_string(),
            Self::Float(v) | Self::Ratio(v) => v.to_string(),
            Self::Bool(v) => v.to_string(),
            Self::Time(ms) => time::rfc3339(*ms).unwrap_or_else(|| ms.to_string()),
            Self::List(v) => v.join(";"),
            Self::Pairs(v) => joined(v, ";"),
        }
    }

    fn json(&self, key: &str, out: &mut Map<String, Value>) {
        let value = match self {
            Self::Unknown => Value::Null,
            Self::Text(v) => json!(v),
            Self::Int(v) | Self::Span(v) => json!(v),
            Self::Float(v) | Self::Ratio(v) => json!(v),
            Self::Bool(v) => json!(v),
            Self::Time(ms) => {
                out.insert(key.to_owned(), json!(time::rfc3339(*ms)));
                out.insert(format!("{key}_ms"), json!(ms));
                return;
            }
            Self::List(v) => json!(v),
            // Of several values of one name the last one counts, as in Java.
            Self::Pairs(v) => Value::Object(v.iter().map(|(k, v)| (k.clone(), json!(v))).collect()),
        };
        out.insert(key.to_owned(), value);
    }
}

fn joined(pairs: &[(String, String)], between: &str) -> String {
    let words: Vec<String> = pairs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    words.join(between)
}

/// `text` with control characters as escapes.
pub fn printable(text: &str) -> String {
    if !text.chars().any(char::is_control) {
        return text.to_owned();
    }
    text.chars()
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> = if c.is_control() {
                Box::new(c.escape_default())
            } else {
                Box::new(std::iter::once(c))
            };
            escaped
        })
        .collect()
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
}

/// A column of every form.
pub const fn col(key: &'static str) -> Column {
    Column {
        key,
        wide: false,
        less: false,
    }
}

/// A column of the wide form (and of JSON and CSV).
pub const fn wide(key: &'static str) -> Column {
    Column {
        key,
        wide: true,
        less: false,
    }
}

/// A column of every form that a narrow terminal does without.
pub const fn less(key: &'static str) -> Column {
    Column {
        key,
        wide: false,
        less: true,
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

    /// Adds a row.
    pub fn push(&mut self, row: Vec<Cell>) {
        debug_assert_eq!(row.len(), self.columns.len(), "{}", self.kind);
        self.rows.push(row);
    }
}

/// Kind of a table of names and their values.
pub const PROPERTIES: &str = "Properties";

/// One object: named values, and tables that belong to it.
#[derive(Debug, Clone, Default)]
pub struct Detail {
    /// JSON kind, such as `Broker`.
    pub kind: &'static str,
    /// Key and value, in order.
    pub fields: Vec<(&'static str, Cell)>,
    /// Tables under their JSON key.
    pub tables: Vec<(&'static str, Listing)>,
    /// Targets that failed.
    pub errors: Vec<Failure>,
}

/// `--sort-by col[:desc]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortBy {
    key: String,
    descending: bool,
}

impl std::str::FromStr for SortBy {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (key, order) = text.split_once(':').unwrap_or((text, "asc"));
        match order {
            "asc" | "desc" if !key.is_empty() => Ok(Self {
                key: key.to_ascii_lowercase(),
                descending: order == "desc",
            }),
            _ => Err(format!("\"{text}\" is not COLUMN[:desc]")),
        }
    }
}

impl Filter {
    /// True when some row of a listing fulfils every condition. A column that is not there is an error.
    pub fn any(&self, listing: &Listing) -> Result<bool, Failure> {
        let mut at = Vec::new();
        for condition in &self.0 {
            at.push((Printer::index(listing, &condition.key)?, condition));
        }
        Ok(listing
            .rows
            .iter()
            .any(|row| at.iter().all(|(i, condition)| condition.holds(&row[*i]))))
    }
}

/// `--filter 'name~ORDERS && lag>100'`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(Vec<Condition>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Condition {
    key: String,
    op: &'static str,
    value: String,
}

impl std::str::FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.split("&&")
            .map(|part| {
                // Two-character operators first, and the leftmost operator wins: values may contain others.
                let (at, op) = ["!=", "!~", ">=", "<=", "=", "~", ">", "<"]
                    .into_iter()
                    .filter_map(|op| part.find(op).map(|at| (at, op)))
                    .min_by_key(|(at, op)| (*at, std::cmp::Reverse(op.len())))
                    .ok_or_else(|| {
                        format!(
                            "\"{}\" is not a condition; use COLUMN OP VALUE with = != ~ !~ > >= < <=",
                            part.trim()
                        )
                    })?;
                Ok(Condition {
                    key: part[..at].trim().to_ascii_lowercase(),
                    op,
                    value: part[at + op.len()..].trim().trim_matches('\'').to_owned(),
                })
            })
            .collect::<Result<_, String>>()
            .map(Self)
    }
}

/// As it is written, so that it reads back.
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, condition) in self.0.iter().enumerate() {
            let and = if i == 0 { "" } else { " && " };
            write!(f, "{and}{}{}'{}'", condition.key, condition.op, condition.value)?;
        }
        Ok(())
    }
}

impl Filter {
    /// True for a row that it lets pass; an unknown column is a wrong usage.
    pub fn keeps(&self, listing: &Listing, row: &[Cell]) -> Result<bool, Failure> {
        for condition in &self.0 {
            let at = Printer::index(listing, &condition.key)?;
            if !condition.holds(&row[at]) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Condition {
    fn holds(&self, cell: &Cell) -> bool {
        let text = cell.raw();
        let order = || match (cell.number(), self.value.parse::<f64>()) {
            (Some(a), Ok(b)) => a.partial_cmp(&b),
            (None, _) if matches!(cell, Cell::Unknown) => None,
            _ => Some(text.as_str().cmp(self.value.as_str())),
        };
        let has = || text.to_lowercase().contains(&self.value.to_lowercase());
        let same = || order() == Some(std::cmp::Ordering::Equal) || text == self.value;
        match self.op {
            "=" => same(),
            "!=" => !same(),
            "~" => has(),
            "!~" => !has(),
            ">" => order().is_some_and(std::cmp::Ordering::is_gt),
            ">=" => order().is_some_and(std::cmp::Ordering::is_ge),
            "<" => order().is_some_and(std::cmp::Ordering::is_lt),
            _ => order().is_some_and(std::cmp::Ordering::is_le),
        }
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

/// Rows as metrics; what has none is asked for in another form.
fn metrics(listing: &Listing, out: &mut dyn Write) -> Result<(), Failure> {
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

    fn index(listing: &Listing, key: &str) -> Result<usize, Failure> {
        listing.columns.iter().position(|c| c.key == key).ok_or_else(|| {
            let known: Vec<&str> = listing.columns.iter().map(|c| c.key).collect();
            Failure::usage(format!(
                "there is no column \"{key}\" here; the columns are {}",
                known.join(", ")
            ))
        })
    }

    /// Applies filter, order and column choice.
    pub fn arrange(&self, mut listing: Listing) -> Result<Listing, Failure> {
        if let Some(filter) = &self.filter {
            for condition in &filter.0 {
                let at = Self::index(&listing, &condition.key)?;
                listing.rows.retain(|row| condition.holds(&row[at]));
            }
        }
        match &self.sort {
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
        let keep: Option<Vec<usize>> = match &self.columns {
            Some(keys) => Some(
                keys.iter()
                    .map(|k| Self::index(&listing, &k.to_ascii_lowercase()))
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
                let mut last = None;
                for row in &listing.rows {
                    let name = row.first().map(Cell::raw).unwrap_or_default();
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

    /// Writes one object to `out`.
    pub fn write_detail(&self, detail: Detail, out: &mut dyn Write) -> Result<(), Failure> {
        match self.format {
            Format::Table | Format::Wide => {
                let width = detail.fields.iter().map(|f| f.0.len()).max().unwrap_or(0);
                for (key, cell) in &detail.fields {
                    writeln!(out, "{key:width$}  {}", cell.text(&self.zone))?;
                }
                for (key, listing) in detail.tables {
                    let listing = self.arrange(listing)?;
                    if !listing.rows.is_empty() {
                        writeln!(out, "\n{key}")?;
                        out.write_all(self.table(&listing).as_bytes())?;
                    }
                }
            }
            Format::Json | Format::Jsonl => {
                if self.format == Format::Jsonl {
                    let object = self.object(detail.fields, detail.tables)?;
                    serde_json::to_writer(&mut *out, &object).map_err(io::Error::from)?;
                    out.write_all(b"\n")?;
                } else {
                    self.write_documents(vec![detail], out)?;
                }
            }
            Format::Csv => {
                let mut csv = csv::Writer::from_writer(out);
                if self.headers {
                    csv.write_record(["field", "value"]).map_err(io::Error::from)?;
                }
                for (key, cell) in &detail.fields {
                    csv.write_record([*key, &cell.raw()]).map_err(io::Error::from)?;
                }
                csv.flush()?;
            }
            Format::Name => {
                if let Some((_, cell)) = detail.fields.first() {
                    writeln!(out, "{}", cell.raw())?;
                }
            }
            Format::Prometheus => {
                let mut listing = Listing {
                    kind: detail.kind,
                    ..Listing::default()
                };
                let (keys, cells): (Vec<_>, Vec<_>) = detail.fields.into_iter().unzip();
                listing.columns = keys.into_iter().map(col).collect();
                listing.push(cells);
                metrics(&listing, out)?;
            }
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

    /// The fields and tables of one object as JSON.
    fn object(
        &self,
        fields: Vec<(&'static str, Cell)>,
        tables: Vec<(&'static str, Listing)>,
    ) -> Result<Value, Failure> {
        let mut object = Map::new();
        for (key, cell) in &fields {
            cell.json(key, &mut object);
        }
        for (key, listing) in tables {
            let listing = self.arrange(listing)?;
            object.insert(key.to_owned(), nested(&listing));
        }
        Ok(Value::Object(object))
    }

    /// Writes objects of one kind as one JSON document.
    fn write_documents(&self, details: Vec<Detail>, out: &mut dyn Write) -> Result<(), Failure> {
        let kind = details.first().map_or("", |detail| detail.kind);
        let (mut items, mut errors) = (Vec::new(), Vec::new());
        for detail in details {
            items.push(self.object(detail.fields, detail.tables)?);
            errors.extend(detail.errors);
        }
        let document = self.envelope(kind, items, Map::new(), &errors);
        serde_json::to_writer_pretty(&mut *out, &document).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        Ok(())
    }

    /// Prints objects of one kind on stdout; as JSON they are one document.
    pub fn print_details(&self, details: Vec<Detail>) -> Result<(), Failure> {
        let mut out = io::BufWriter::new(io::stdout().lock());
        if self.format == Format::Json {
            self.write_documents(details, &mut out)?;
        } else {
            for detail in details {
                self.write_detail(detail, &mut out)?;
            }
        }
        out.flush()?;
        Ok(())
    }

    /// Prints one object on stdout.
    pub fn print_detail(&self, detail: Detail) -> Result<(), Failure> {
        if let Some(desk) = &self.desk {
            let mut text = Vec::new();
            self.write_detail(detail, &mut text)?;
            desk.say(&String::from_utf8_lossy(&text));
            return Ok(());
        }
        let mut out = io::BufWriter::new(io::stdout().lock());
        self.write_detail(detail, &mut out)?;
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

    /// A cell for a person.
    pub(super) fn shown(&self, cell: &Cell) -> String {
        match cell {
            Cell::Int(v) if self.human => human(*v),
            cell => cell.text(&self.zone),
        }
    }

    /// The table as text. Every line ends in a newline and has no blanks before it.
    fn table(&self, listing: &Listing) -> String {
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

    /// The columns that a terminal of this width has no room for: first those that matter less, then others from the right.
    /// The first column stays, it says which row it is. A text gives way before a column does, down to [`LEAST`].
    fn left_out(&self, listing: &Listing, width: usize) -> Vec<usize> {
        let needs: Vec<usize> = (0..listing.columns.len())
            .map(|i| {
                let head = heading(&listing.columns[i]).width();
                let cells = listing.rows.iter().map(|row| self.shown(&row[i]).width());
                let most = cells.max().unwrap_or(0).max(head);
                if is_whole(listing, i) {
                    most
                } else {
                    most.min(LEAST.max(head))
                }
            })
            .collect();
        let mut order: Vec<usize> = (1..listing.columns.len()).rev().collect();
        order.sort_by_key(|&i| !listing.columns[i].less);
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

    fn text(&self, listing: &Listing, width: Option<usize>) -> String {
        let mut cells: Vec<Vec<String>> = listing
            .rows
            .iter()
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

/// `1.2k`, `3.4M`: three digits and a unit of thousands.
fn human(number: i64) -> String {
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

/// A table of a detail: properties are an object, as they are in a row.
fn nested(listing: &Listing) -> Value {
    if listing.kind == PROPERTIES {
        let pairs = listing.rows.iter().filter_map(|row| match row.as_slice() {
            [Cell::Text(key), value] => Some((key.clone(), json!(value.raw()))),
            _ => None,
        });
        return Value::Object(pairs.collect());
    }
    let rows = listing.rows.iter().map(|row| item(&listing.columns, row));
    Value::Array(rows.collect())
}

fn item(columns: &[Column], row: &[Cell]) -> Value {
    let mut out = Map::new();
    for (column, cell) in columns.iter().zip(row) {
        cell.json(column.key, &mut out);
    }
    Value::Object(out)
}

fn compare(a: &Cell, b: &Cell) -> std::cmp::Ordering {
    match (a.number(), b.number()) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => a.raw().cmp(&b.raw()),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn printer(format: Format) -> Printer {
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

    #[test]
    fn properties_are_an_object() {
        let mut properties = Listing::new(PROPERTIES, &[col("property"), col("value")]);
        properties.push(vec!["KEYS".into(), "a b".into()]);
        let detail = Detail {
            kind: "Message",
            tables: vec![("properties", properties)],
            ..Detail::default()
        };
        let mut out = Vec::new();
        printer(Format::Json).write_detail(detail, &mut out).unwrap();
        let value: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(value["items"][0]["properties"], json!({"KEYS": "a b"}));
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
