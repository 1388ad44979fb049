//! Pages of the commit log, and single records.

use super::Asker;
use crate::inspect::{Body, DamageKind, Error, Field, Gap, Log, Record, Step, Store, Value, body, layout};
use crate::protocol::message::{Fault, MAGIC_V2, MessageView};
use crate::protocol::properties::names;
use crate::tui::store::answer::{Kind, LogRow, Page, RecordView};
use crate::tui::store::question::At;

/// Rows before and from the place that is asked for.
const AROUND: (usize, usize) = (100, 150);
/// Most bytes of a record that are shown.
const MOST_BYTES: usize = 128 * 1024;
/// Most bytes of damage that are shown.
const MOST_DAMAGE: u64 = 4096;
/// Most bytes of a body that are decompressed to show its begin.
const MOST_BODY: usize = 8 * 1024 * 1024;
/// Characters of a body that are shown.
const SHOWN_BODY: usize = 2048;
/// Characters of a property that are shown.
const SHOWN_VALUE: usize = 512;

/// Where a page lies, on a boundary of records.
fn place(log: &Log, end: u64, at: At) -> u64 {
    match at {
        At::Oldest => log.start(),
        At::Newest => end,
        At::Offset(at) if at >= end => end,
        At::Offset(at) => log.align(at.max(log.start())).unwrap_or(end),
        At::Time(ms) => log.first_at(ms, end),
    }
}

/// Rows around a place.
pub fn page(log: &Log, end: u64, at: At, asker: &Asker<'_>) -> Result<Page<LogRow>, Error> {
    let from = place(log, end, at);
    asker.goes_on()?;
    let mut rows = log.before(from, AROUND.0, true, |step| row(&step));
    let is_first = rows.first().is_none_or(|row| row.at <= log.start());
    let last_before = rows.last().map(|row| row.at);
    asker.goes_on()?;
    rows.extend(log.ahead(from, AROUND.1, end, |step| row(&step)));
    if from >= end && !matches!(rows.last(), Some(last) if last.kind == Kind::Tail) {
        // The last file is full: what comes next needs another one.
        rows.push(row(&Step::Tail { at: end, len: 0 }));
    }
    let focus = if from >= end {
        last_before.or(Some(end))
    } else {
        Some(from)
    };
    let is_last = rows
        .last()
        .is_none_or(|row| row.kind == Kind::Tail || row.at.saturating_add(row.size) >= log.end());
    Ok(Page {
        rows,
        focus,
        is_first,
        is_last,
    })
}

/// Rows of one topic around a place, as its queues have them.
pub fn page_of(
    store: &Store,
    (log, end): (&Log, u64),
    at: At,
    topic: &str,
    asker: &Asker<'_>,
) -> Result<Page<LogRow>, Error> {
    let from = match at {
        At::Offset(at) => at,
        other => place(log, end, other),
    };
    asker.goes_on()?;
    let found = store.records_of(topic, from, AROUND.0, AROUND.1)?;
    let mut rows: Vec<LogRow> = Vec::with_capacity(found.offsets.len());
    for &at in &found.offsets {
        asker.goes_on()?;
        rows.push(match log.record_at(at) {
            Ok(record) => record_row(&record, false),
            Err(kind) => LogRow {
                note: format!("a queue entry leads here: {kind}"),
                ..bare(at, 0, Kind::Damage(damage(&kind)))
            },
        });
    }
    let focus = rows
        .iter()
        .find(|row| row.at >= from)
        .or(rows.last())
        .map(|row| row.at);
    Ok(Page {
        rows,
        focus,
        is_first: found.is_first,
        is_last: found.is_last,
    })
}

/// One or two words for damage.
fn damage(kind: &DamageKind) -> &'static str {
    match kind {
        DamageKind::Zeros => "HOLE",
        DamageKind::Record(Fault::Magic(_)) => "BAD MAGIC",
        DamageKind::Record(Fault::BodyCrc { .. } | Fault::WholeCrc { .. }) => "BAD CRC",
        DamageKind::Record(Fault::Short { .. } | Fault::Length { .. } | Fault::Total { .. }) => "BAD SIZE",
        DamageKind::Record(Fault::Text(_)) => "BAD TEXT",
        DamageKind::Offset { .. } => "MISPLACED",
        DamageKind::Missing => "NO FILE",
        DamageKind::Entry { .. } => "BAD ENTRY",
    }
}

pub(super) fn bare(at: u64, size: u64, kind: Kind) -> LogRow {
    LogRow {
        at,
        size,
        kind,
        topic: String::new(),
        queue: None,
        stored_ms: None,
        keys: String::new(),
        tag: String::new(),
        body: 0,
        real: None,
        note: String::new(),
    }
}

fn row(step: &Step) -> LogRow {
    match step {
        Step::Message { record, stale } => record_row(record, *stale),
        Step::Filler { at, len } => LogRow {
            note: "filler up to the end of the file".to_owned(),
            ..bare(*at, *len, Kind::Filler)
        },
        Step::Tail { at, len } => LogRow {
            note: "nothing written yet".to_owned(),
            ..bare(*at, *len, Kind::Tail)
        },
        Step::Gap(gap) => gap_row(gap),
    }
}

fn gap_row(gap: &Gap) -> LogRow {
    let mut row = match &gap.record {
        Some(record) => record_row(record, false),
        None => bare(gap.at, gap.len, Kind::Filler),
    };
    row.kind = Kind::Damage(damage(&gap.kind));
    row.size = gap.len;
    row.note = if gap.is_last {
        format!("{}; no valid record follows", gap.kind)
    } else {
        format!("{}; goes on at {}", gap.kind, gap.at.saturating_add(gap.len))
    };
    row
}

fn version(view: &MessageView<'_>) -> u8 {
    if view.magic() == MAGIC_V2 { 2 } else { 1 }
}

pub(super) fn record_row(record: &Record, stale: bool) -> LogRow {
    let size = record.bytes.len() as u64;
    let Ok(view) = record.view() else {
        return bare(record.at, size, Kind::Damage("BAD"));
    };
    let properties = view.properties();
    let text = |name: &str| properties.get(name).unwrap_or_default().to_owned();
    let real = properties
        .get(names::REAL_TOPIC)
        .filter(|real| *real != view.topic())
        .map(|real| {
            let queue = properties.get(names::REAL_QID).and_then(|id| id.parse().ok());
            (real.to_owned(), queue.unwrap_or(0))
        });
    LogRow {
        kind: if stale {
            Kind::Stale
        } else {
            Kind::Record(version(&view))
        },
        topic: view.topic().to_owned(),
        queue: Some((view.queue_id(), view.queue_offset())),
        stored_ms: Some(view.store_timestamp()),
        keys: match text(names::KEYS) {
            keys if keys.is_empty() => text(names::UNIQ_KEY),
            keys => keys,
        },
        tag: text(names::TAGS),
        body: view.body().len(),
        real,
        note: if stale {
            "older than what is before the damage: left over from before the log was cut".to_owned()
        } else {
            String::new()
        },
        ..bare(record.at, size, Kind::Filler)
    }
}

/// The bytes at an offset and what they mean.
pub fn record(log: &Log, end: u64, at: u64) -> RecordView {
    let step = log.ahead(at, 1, end, |step| step).pop();
    let mut view = RecordView {
        at,
        kind: Kind::Tail,
        len: 0,
        bytes: Vec::new(),
        fields: Vec::new(),
        body: String::new(),
        note: "nothing written yet".to_owned(),
    };
    let Some(step) = step else { return view };
    let row = row(&step);
    (view.kind, view.len, view.note) = (row.kind, row.size, row.note);
    match &step {
        Step::Message { record, .. } => fill(&mut view, record),
        Step::Gap(gap) => match &gap.record {
            Some(record) => fill(&mut view, record),
            None => view.bytes = log.bytes(at, short(gap.len)).to_vec(),
        },
        Step::Filler { len, .. } => view.bytes = log.bytes(at, short((*len).min(64))).to_vec(),
        Step::Tail { .. } => {}
    }
    view
}

fn short(len: u64) -> usize {
    usize::try_from(len.min(MOST_DAMAGE)).unwrap_or(0)
}

pub(super) fn fill(view: &mut RecordView, record: &Record) {
    let Ok(message) = record.view() else { return };
    view.len = record.bytes.len() as u64;
    view.bytes = record.bytes.iter().copied().take(MOST_BYTES).collect();
    view.fields = layout(&message).into_iter().map(shortened).collect();
    view.body = match body(&message, MOST_BODY) {
        Body::Text(text) => text.chars().take(SHOWN_BODY).collect(),
        Body::Binary(bytes) => format!("{} bytes that are no text", bytes.len()),
        Body::Broken(reason) => format!("does not decompress: {reason}"),
    };
}

fn shortened(mut field: Field) -> Field {
    if let Value::Text(text) = &mut field.value
        && text.chars().count() > SHOWN_VALUE
    {
        *text = text.chars().take(SHOWN_VALUE).collect::<String>() + "…";
    }
    field
}
