//! `rmq store commitlog`.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value, json};

use super::rows::{Meter, Rows};
use super::{Damaged, Place, count, hex, int, interrupt, not_inside, path};
use crate::cli::exit::{self, Failure};
use crate::cli::message::BodyForm;
use crate::cli::output::{Cell, Column, Detail, Listing, col, wide};
use crate::cli::session::Session;
use crate::cli::time::{self, When};
use crate::inspect::{BODY_LIMIT, Body, Gap, Log, Point, Record, Step, Wanted, body, sys_flag_names};
use crate::protocol::message::{MAGIC_V2, MessageView, parse_batch};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{Properties, names};

/// `rmq store commitlog`
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    #[command(flatten)]
    pub place: Place,
    /// Show the one record that this offset lies in
    #[arg(long, value_name = "OFFSET", conflicts_with_all = ["from", "to", "limit"])]
    at: Option<u64>,
    /// Begin at an offset or a store time; a bare number is an offset, @MS an epoch time
    #[arg(long, value_name = "OFFSET|TIME", allow_hyphen_values = true)]
    from: Option<Bound>,
    /// End before an offset, or behind a store time
    #[arg(long, value_name = "OFFSET|TIME", allow_hyphen_values = true)]
    to: Option<Bound>,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Only this queue number
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// Only this tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Only records with this key or unique key
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// End after so many records
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Show the bytes of each record beside its fields
    #[arg(long)]
    hex: bool,
    /// Show bodies, decompressed: auto, text or hex
    #[arg(
        long,
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "auto",
        value_name = "FORM"
    )]
    body: Option<BodyForm>,
    /// Write bodies, decompressed, to files: to PATH itself with --at, else to PATH/OFFSET for each record
    #[arg(long, value_name = "PATH")]
    save_body: Option<PathBuf>,
}

/// An offset or a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bound {
    Offset(u64),
    Time(When),
}

impl FromStr for Bound {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(offset) = text.parse() {
            return Ok(Self::Offset(offset));
        }
        if let Some(at) = text.strip_prefix('@') {
            return at.parse().map(Self::Time);
        }
        text.parse()
            .map(Self::Time)
            .map_err(|e| format!("neither an offset nor a time: {e}; epoch times begin with @ here"))
    }
}

impl Bound {
    /// `None` for the open ends `earliest` and `latest`.
    pub(super) fn point(&self, session: &Session) -> Result<Option<Point>, Failure> {
        match self {
            Self::Offset(at) => Ok(Some(Point::Offset(*at))),
            Self::Time(when) => Ok(when
                .at_ms(time::now_ms(), &session.printer.zone)
                .map_err(Failure::usage)?
                .map(Point::Time)),
        }
    }
}

/// What the rows of a record show.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    body: Option<BodyForm>,
    hex: bool,
}

impl Shown {
    /// Without bytes.
    pub fn body(body: Option<BodyForm>) -> Self {
        Self { body, hex: false }
    }
}

/// The columns of a record.
pub fn columns(shown: Shown) -> Vec<Column> {
    let mut columns = vec![
        col("offset"),
        col("size"),
        wide("kind"),
        col("topic"),
        col("queue_id"),
        col("queue_offset"),
        col("stored_at"),
        col("tags"),
        col("keys"),
        col("body_size"),
        wide("stored_body_size"),
        wide("record_version"),
        wide("body_crc"),
        wide("flag"),
        wide("sys_flag"),
        wide("sys_flag_bits"),
        wide("born_at"),
        wide("born_host"),
        wide("store_host"),
        wide("reconsume_times"),
        wide("prepared_offset"),
        wide("offset_id"),
        wide("unique_key"),
        wide("properties"),
        wide("file"),
    ];
    if shown.body.is_some() {
        columns.push(col("body"));
    }
    if shown.hex {
        columns.push(wide("hex"));
    }
    columns.push(col("note"));
    columns
}

/// The row of a step; the columns that do not apply are unknown.
pub(super) fn row(log: &Log, step: &Step, shown: Shown) -> Vec<Cell> {
    match step {
        Step::Message { record, stale } => {
            let note = if *stale {
                Cell::from("older than what is before the damage: left over from before the log was cut")
            } else {
                Cell::Unknown
            };
            record_row(log, record, if *stale { "stale" } else { "record" }, note, shown)
        }
        Step::Filler { at, len } => plain_row(
            log,
            *at,
            *len,
            "filler",
            "filler up to the end of the file",
            shown,
        ),
        Step::Tail { at, len } => plain_row(log, *at, *len, "tail", "nothing written yet", shown),
        Step::Gap(gap) => {
            let note = gap_note(gap);
            match &gap.record {
                Some(record) => {
                    let mut row = record_row(log, record, "damage", note.as_str().into(), shown);
                    row[1] = int(gap.len);
                    row
                }
                None => plain_row(log, gap.at, gap.len, "damage", &note, shown),
            }
        }
    }
}

fn gap_note(gap: &Gap) -> String {
    let end = if gap.is_last {
        "no valid record follows".to_owned()
    } else {
        format!("the next valid record is at {}", gap.at.saturating_add(gap.len))
    };
    format!("damaged: {}; {end}", gap.kind)
}

/// The keys of a message, which stand in one property.
pub fn keys(property: Option<&str>) -> Vec<String> {
    let words = property.unwrap_or_default().split(' ');
    words.filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

/// The row of a valid record.
pub fn record_row(log: &Log, record: &Record, kind: &str, note: Cell, shown: Shown) -> Vec<Cell> {
    let Ok(view) = record.view() else {
        return plain_row(log, record.at, record.bytes.len() as u64, kind, "", shown);
    };
    let properties = view.properties();
    let text = |name: &str| Cell::from(properties.get(name));
    let keys = keys(properties.get(names::KEYS));
    let flag = view.sys_flag();
    let body = body(&view, BODY_LIMIT);
    let body_size = match &body {
        Body::Text(text) => Cell::from(text.len()),
        Body::Binary(bytes) => Cell::from(bytes.len()),
        Body::Broken(_) => Cell::Unknown,
    };
    let mut row = vec![
        int(record.at),
        view.size().into(),
        kind.into(),
        view.topic().into(),
        view.queue_id().into(),
        view.queue_offset().into(),
        Cell::time(Some(view.store_timestamp())),
        text(names::TAGS),
        keys.into(),
        body_size,
        view.body().len().into(),
        Cell::Int(if view.magic() == MAGIC_V2 { 2 } else { 1 }),
        Cell::Int(view.body_crc().into()),
        view.flag().into(),
        flag.0.into(),
        sys_flag_names(flag)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
            .into(),
        Cell::time(Some(view.born_timestamp())),
        view.born_host().to_string().into(),
        view.store_host().to_string().into(),
        view.reconsume_times().into(),
        view.prepared_transaction_offset().into(),
        view.offset_id().into(),
        text(names::UNIQ_KEY),
        Cell::Pairs(
            properties
                .iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
        ),
        file(log, record.at),
    ];
    let mut note = note;
    if let Body::Broken(reason) = &body
        && matches!(note, Cell::Unknown)
    {
        note = Cell::from(format!("the body does not decompress: {reason}"));
    }
    if let Some(form) = shown.body {
        row.push(match &body {
            Body::Text(text) => form.show(text.as_bytes()),
            Body::Binary(bytes) => form.show(bytes),
            Body::Broken(_) => Cell::Unknown,
        });
    }
    if shown.hex {
        row.push(hex::plain(&record.bytes).into());
    }
    row.push(note);
    row
}

fn file(log: &Log, at: u64) -> Cell {
    log.file_of(at).map_or(Cell::Unknown, |file| path(&file.path))
}

fn plain_row(log: &Log, at: u64, len: u64, kind: &str, note: &str, shown: Shown) -> Vec<Cell> {
    columns(shown)
        .iter()
        .map(|column| match column.key {
            "offset" => int(at),
            "size" => int(len),
            "kind" => kind.into(),
            "file" => file(log, at),
            "hex" => {
                let len = usize::try_from(len).unwrap_or(usize::MAX).min(hex::MOST);
                if kind == "damage" {
                    hex::plain(&log.bytes(at, len)).into()
                } else {
                    Cell::Unknown
                }
            }
            "note" if !note.is_empty() => note.into(),
            _ => Cell::Unknown,
        })
        .collect()
}

/// Runs `rmq store commitlog`.
pub fn run(session: &Session, args: &LogArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    // A list reads the log from one end to the other, one record is looked up.
    let log = match args.at {
        Some(_) => store.log()?,
        None => store.log_streaming()?,
    };
    if log.files().next().is_none() {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("the commit log of {} has no files", store.root().display()),
        )
        .hint("--commitlog-dir DIR, when storePathCommitLog names another directory"));
    }
    if let Some(at) = args.at {
        return one(session, args, &log, at);
    }
    list(session, args, &log)
}

/// The record that an offset lies in.
fn one(session: &Session, args: &LogArgs, log: &Log, at: u64) -> Result<(), Failure> {
    let begin = log.align(at)?;
    let Some(step) = log.walk(begin, true).next() else {
        return Err(Failure::new(exit::NOT_FOUND, format!("there is nothing at {at}")));
    };
    if let Step::Tail { at: end, .. } = step {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("nothing is written at {at}: the log ends at {end}"),
        ));
    }
    let as_blocks = args.hex && session.is_table();
    let shown = Shown {
        body: Some(args.body.unwrap_or(BodyForm::Auto)),
        hex: args.hex && !as_blocks,
    };
    let fields = columns(shown)
        .iter()
        .map(|column| column.key)
        .zip(row(log, &step, shown))
        .collect();
    let record = match &step {
        Step::Message { record, .. } => Some(record),
        Step::Gap(gap) => gap.record.as_ref(),
        Step::Filler { .. } | Step::Tail { .. } => None,
    };
    if let Some(file) = &args.save_body {
        let Some(record) = record else {
            return Err(Failure::new(exit::NOT_FOUND, format!("there is no body at {at}")));
        };
        save(args, record, file)?;
        session.note(&format!("the body is in {}", file.display()));
    }
    session.printer.print_detail(Detail {
        kind: "CommitLogRecord",
        fields,
        tables: record
            .and_then(items)
            .into_iter()
            .map(|items| ("messages", items))
            .collect(),
        ..Detail::default()
    })?;
    if as_blocks {
        let mut out = std::io::stdout().lock();
        writeln!(out)?;
        block(session, log, &step, &mut out)?;
    }
    let mut damaged = Damaged::default();
    if let Step::Gap(gap) = &step {
        damaged.add(gap);
    }
    damaged.verdict(&args.place)
}

/// Writes the body of a record to a new file.
fn save(args: &LogArgs, record: &Record, file: &Path) -> Result<(), Failure> {
    let failed = |e: std::io::Error| {
        let exit = match e.kind() {
            std::io::ErrorKind::AlreadyExists => exit::PRECONDITION,
            _ => exit::INTERNAL,
        };
        Failure::new(exit, format!("{} cannot be written: {e}", file.display()))
    };
    not_inside(&args.place.dir, file, "--save-body")?;
    let view = record
        .view()
        .map_err(|e| Failure::new(exit::ERRORS, format!("the record at {}: {e}", record.at)))?;
    let body = view.decoded_body(BODY_LIMIT).map_err(|e| {
        Failure::new(
            exit::ERRORS,
            format!("the body of the record at {} does not decompress: {e}", record.at),
        )
    })?;
    if let Some(dir) = file.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        std::fs::create_dir_all(dir).map_err(failed)?;
    }
    std::fs::File::create_new(file)
        .and_then(|mut out| out.write_all(&body))
        .map_err(failed)
}

/// The messages of a record that a batch queue holds.
fn items(record: &Record) -> Option<Listing> {
    let view = record.view().ok()?;
    if !view.sys_flag().has(SysFlag::INNER_BATCH) {
        return None;
    }
    let body = view.decoded_body(BODY_LIMIT).ok()?;
    let items = parse_batch(&bytes::Bytes::copy_from_slice(&body)).ok()?;
    let mut listing = Listing::new(
        "BatchMessageList",
        &[
            col("queue_offset"),
            col("tags"),
            col("keys"),
            col("body_size"),
            col("body"),
            wide("flag"),
            wide("unique_key"),
            wide("properties"),
        ],
    );
    listing.ordered = true;
    for (n, item) in items.iter().enumerate() {
        let properties = Properties::new(item.properties.as_bytes());
        let pairs = properties.iter().map(|(k, v)| (k.to_owned(), v.to_owned()));
        listing.push(vec![
            Cell::Int(view.queue_offset().saturating_add(i64::try_from(n).unwrap_or(0))),
            properties.get(names::TAGS).into(),
            keys(properties.get(names::KEYS)).into(),
            item.body.len().into(),
            BodyForm::Auto.show(&item.body),
            item.flag.into(),
            properties.get(names::UNIQ_KEY).into(),
            Cell::Pairs(pairs.collect()),
        ]);
    }
    Some(listing)
}

/// What was seen of the log.
#[derive(Debug, Default)]
struct Seen {
    saved: u64,
    records: u64,
    record_bytes: u64,
    stale: u64,
    fillers: u64,
    damaged: Damaged,
    end: u64,
    written_end: Option<u64>,
    more: Option<u64>,
}

/// Where the steps go: rows, or blocks of bytes.
enum Out<'a> {
    Rows(Box<Rows<'a>>),
    Blocks(&'a Session, std::io::BufWriter<std::io::Stdout>, Meter),
}

impl Out<'_> {
    fn step(&mut self, log: &Log, step: &Step, shown: Shown) -> Result<(), Failure> {
        match self {
            Self::Rows(rows) => rows.push(row(log, step, shown)),
            Self::Blocks(session, out, meter) => {
                block(session, log, step, out)?;
                // A bar and bytes on one terminal would be in each other's way.
                Ok(meter.aside(|| out.flush())?)
            }
        }
    }

    fn at(&mut self, done: u64) -> Result<(), Failure> {
        match self {
            Self::Rows(rows) => rows.at(done),
            Self::Blocks(_, _, meter) => {
                meter.at(done);
                Ok(())
            }
        }
    }

    fn finish(self, summary: &Map<String, Value>, note: &str) -> Result<(), Failure> {
        match self {
            Self::Rows(rows) => rows.finish(summary, note),
            Self::Blocks(session, mut out, meter) => {
                drop(meter);
                out.flush()?;
                session.note(note);
                Ok(())
            }
        }
    }
}

fn list(session: &Session, args: &LogArgs, log: &Log) -> Result<(), Failure> {
    let wanted = Wanted {
        topic: args.topic.clone(),
        queue_id: args.queue,
        tag: args.tag.clone(),
        key: args.key.clone(),
    };
    let point = |bound: &Option<Bound>| {
        Ok::<_, Failure>(bound.as_ref().map(|b| b.point(session)).transpose()?.flatten())
    };
    let (from, to) = (point(&args.from)?, point(&args.to)?);
    let begin = match from {
        Some(point) => log.begin_of(point)?,
        None => log.start(),
    };
    let as_blocks = args.hex && session.is_table();
    let shown = Shown {
        body: args.body,
        hex: args.hex && !as_blocks,
    };
    let meter = Meter::new(session, "commit log", log.end().saturating_sub(begin));
    let mut out = if as_blocks {
        Out::Blocks(session, std::io::BufWriter::new(std::io::stdout()), meter)
    } else {
        Out::Rows(Box::new(Rows::new(
            session,
            "CommitLogRecordList",
            &columns(shown),
            meter,
        )?))
    };
    let mut seen = Seen {
        end: begin,
        ..Seen::default()
    };
    let limit = args.limit.unwrap_or(u64::MAX);
    // Everything before the first record that is late enough does not count.
    let mut is_early = matches!(from, Some(Point::Time(_)));
    for step in log.walk(begin, true) {
        if to.is_some_and(|to| is_past(&step, to)) {
            break;
        }
        match &step {
            Step::Message { record, stale } => {
                let Ok(view) = record.view() else { continue };
                is_early = is_early && is_before(&view, from);
                if !is_early && wanted.matches(&view) {
                    if seen.records == limit {
                        seen.more = Some(record.at);
                        break;
                    }
                    seen.records += 1;
                    seen.record_bytes += record.bytes.len() as u64;
                    seen.stale += u64::from(*stale);
                    if let Some(dir) = &args.save_body {
                        save(args, record, &dir.join(format!("{:020}", record.at)))?;
                        seen.saved += 1;
                    }
                    out.step(log, &step, shown)?;
                }
            }
            Step::Gap(gap) if !is_early => {
                seen.damaged.add(gap);
                out.step(log, &step, shown)?;
            }
            Step::Filler { .. } if !is_early => {
                seen.fillers += 1;
                if wanted.all() {
                    out.step(log, &step, shown)?;
                }
            }
            Step::Tail { at, .. } => seen.written_end = Some(*at),
            Step::Gap(_) | Step::Filler { .. } => {}
        }
        seen.end = step.end();
        out.at(seen.end.saturating_sub(begin))?;
        if interrupt::asked() {
            seen.more = Some(seen.end);
            break;
        }
    }
    let summary = seen.summary(begin);
    let note = seen.note(begin);
    out.finish(&summary, &note)?;
    interrupt::check(&format!("the log was read up to {}", seen.end))?;
    seen.damaged.verdict(&args.place)
}

fn is_before(view: &MessageView<'_>, from: Option<Point>) -> bool {
    matches!(from, Some(Point::Time(ms)) if view.store_timestamp() < ms)
}

fn is_past(step: &Step, to: Point) -> bool {
    match (to, step) {
        (Point::Offset(end), _) => step.at() >= end,
        (Point::Time(ms), Step::Message { record, stale: false }) => {
            record.view().is_ok_and(|view| view.store_timestamp() > ms)
        }
        (Point::Time(_), _) => false,
    }
}

impl Seen {
    fn summary(&self, begin: u64) -> Map<String, Value> {
        let value = json!({
            "from_offset": begin,
            "to_offset": self.written_end.unwrap_or(self.end),
            "records": self.records,
            "record_bytes": self.record_bytes,
            "stale_records": self.stale,
            "fillers": self.fillers,
            "damaged_places": self.damaged.places,
            "damaged_bytes": self.damaged.bytes,
            "end_of_log": self.written_end,
            "next_offset": self.more,
        });
        value.as_object().cloned().unwrap_or_default()
    }

    fn note(&self, begin: u64) -> String {
        let mut text = format!(
            "{} of {}, {} between {begin} and {}",
            count(self.records, "record"),
            count(self.record_bytes, "byte"),
            count(self.fillers, "filler"),
            self.written_end.unwrap_or(self.end)
        );
        if self.damaged.places > 0 {
            text += &format!(
                "; {} damaged, {}",
                count(self.damaged.places, "place"),
                count(self.damaged.bytes, "byte")
            );
        }
        if self.saved > 0 {
            text += &format!("; {} written to files", count(self.saved, "body"));
        }
        if let Some(at) = self.more {
            text += &format!("; more with --from {at}");
        } else if let Some(end) = self.written_end {
            text += &format!("; the log ends at {end}");
        }
        text
    }
}

/// A step as a heading and its bytes with the fields beside.
fn block(session: &Session, log: &Log, step: &Step, out: &mut impl std::io::Write) -> std::io::Result<()> {
    let file = log
        .file_of(step.at())
        .map(|file| file.path.display().to_string())
        .unwrap_or_default();
    let len = step.end() - step.at();
    match step {
        Step::Message { record, .. } => {
            writeln!(out, "record at {}, {len} bytes, {file}", record.at)?;
            record_bytes(session, record, out)?;
        }
        Step::Gap(gap) => {
            writeln!(out, "{} at {}, {len} bytes, {file}", gap_note(gap), gap.at)?;
            match &gap.record {
                Some(record) => record_bytes(session, record, out)?,
                None => {
                    let most = usize::try_from(len).unwrap_or(usize::MAX).min(hex::MOST);
                    hex::dump(&log.bytes(gap.at, most), gap.at, out)?;
                    if len > hex::MOST as u64 {
                        writeln!(out, "  and {} bytes more", len - hex::MOST as u64)?;
                    }
                }
            }
        }
        Step::Filler { at, .. } => {
            writeln!(out, "filler at {at}, {len} bytes, {file}")?;
            hex::dump(&log.bytes(*at, 8), *at, out)?;
        }
        Step::Tail { .. } => return Ok(()),
    }
    writeln!(out)
}

fn record_bytes(session: &Session, record: &Record, out: &mut impl std::io::Write) -> std::io::Result<()> {
    match record.view() {
        Ok(view) => hex::fields(&view, record.at, &session.printer.zone, out),
        Err(_) => hex::dump(&record.bytes, record.at, out),
    }
}
