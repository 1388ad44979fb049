//! `rmq store consumequeue`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::commit_log::Bound;
use super::rows::{Meter, Rows};
use super::{Place, count, int, interrupt, path};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Column, col, wide};
use crate::cli::session::Session;
use crate::inspect::{Check, EntryRow, Log, Point, Queue, QueueKind, QueueStep, TagsCode};
use crate::protocol::properties::names;

/// `rmq store consumequeue`
#[derive(Debug, Clone, Args)]
pub struct QueueArgs {
    #[command(flatten)]
    place: Place,
    /// Topic name
    #[arg(value_name = "TOPIC")]
    topic: String,
    /// Queue number [default: all queues of the topic]
    #[arg(value_name = "QUEUE")]
    queue: Option<i32>,
    /// Begin at a queue offset or a store time; a bare number is an offset, @MS an epoch time
    #[arg(long, value_name = "OFFSET|TIME", allow_hyphen_values = true)]
    from: Option<Bound>,
    /// End after so many entries of each queue
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Only entries that do not agree with the log, and gaps
    #[arg(long)]
    bad: bool,
}

const COLUMNS: &[Column] = &[
    wide("topic"),
    col("queue_id"),
    col("queue_offset"),
    col("offset"),
    col("size"),
    col("tags_code"),
    col("tags"),
    col("stored_at"),
    col("check"),
    wide("index"),
    wide("messages"),
    wide("deliver_at"),
    wide("extension_offset"),
    wide("unique_key"),
    wide("file"),
    wide("file_position"),
    col("note"),
];

/// What was seen of the queues.
#[derive(Debug, Default)]
struct Seen {
    queues: u64,
    entries: u64,
    good: u64,
    bad: u64,
    gaps: u64,
    missing: u64,
    first: Option<String>,
}

/// Runs `rmq store consumequeue`.
pub fn run(session: &Session, args: &QueueArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    let found = store.queues_of(&args.topic, args.queue)?;
    let log = store.log()?;
    let queues: Vec<Queue> = found
        .into_iter()
        .map(|(name, kind)| store.queue(name, kind))
        .collect::<Result<_, _>>()?;
    let bounds = |queue: &Queue| queue.bounds(log.start());
    let total: u64 = queues.iter().map(|queue| bounds(queue).end_index).sum();
    let meter = Meter::new(session, "queues", total);
    let mut rows = Rows::new(session, "ConsumeQueueEntryList", COLUMNS, meter)?;
    let mut seen = Seen::default();
    let from = args.from.as_ref().map(|from| from.point(session)).transpose()?;
    for queue in &queues {
        seen.queues += 1;
        let from = match from.flatten() {
            Some(Point::Offset(offset)) => queue.index_of(offset),
            Some(Point::Time(ms)) => queue.index_at(ms, &log),
            None => 0,
        };
        list(args, queue, from, &log, &mut rows, &mut seen)?;
        if interrupt::asked() {
            break;
        }
    }
    let summary = json!({
        "queues": seen.queues,
        "entries": seen.entries,
        "agree": seen.good,
        "disagree": seen.bad,
        "gaps": seen.gaps,
        "missing_entries": seen.missing,
    });
    let summary: Map<String, Value> = summary.as_object().cloned().unwrap_or_default();
    let note = format!(
        "{} in {}: {} as the log has them, {} not; {} with {}",
        count(seen.entries, "entry"),
        count(seen.queues, "queue"),
        seen.good,
        seen.bad,
        count(seen.gaps, "gap"),
        count(seen.missing, "missing entry")
    );
    rows.finish(&summary, &note)?;
    interrupt::check(&format!("{} were read", count(seen.entries, "entry")))?;
    match seen.first {
        None => Ok(()),
        Some(first) => Err(Failure::new(
            exit::ERRORS,
            format!(
                "{} of topic {} do not agree with the commit log; first: {first}",
                count(seen.bad + seen.gaps, "place"),
                args.topic
            ),
        )),
    }
}

fn list(
    args: &QueueArgs,
    queue: &Queue,
    from: u64,
    log: &Log,
    rows: &mut Rows<'_>,
    seen: &mut Seen,
) -> Result<(), Failure> {
    let mut left = args.limit.unwrap_or(u64::MAX);
    for step in queue.walk(from, Some(log), log.end()) {
        if left == 0 {
            break;
        }
        match step {
            QueueStep::Entry(entry) => {
                seen.entries += 1;
                let is_good = entry.check.is_good();
                if is_good {
                    seen.good += 1;
                } else {
                    seen.bad += 1;
                    let words = check_words(&entry.check);
                    seen.first.get_or_insert_with(|| {
                        format!(
                            "queue {} offset {}: {}",
                            queue.name.queue_id,
                            entry.queue_offset,
                            words.1.unwrap_or_default()
                        )
                    });
                }
                if !args.bad || !is_good {
                    left -= 1;
                    rows.push(entry_row(queue, &entry))?;
                }
            }
            QueueStep::Gap {
                index,
                count: n,
                file,
            } => {
                // Entries before the first one of a queue have expired or never were.
                seen.gaps += 1;
                seen.missing += n;
                let note = format!("{} missing, others follow", count(n, "entry"));
                seen.first
                    .get_or_insert_with(|| format!("queue {} offset {index}: {note}", queue.name.queue_id));
                rows.push(gap_row(queue, index, file, "gap", note))?;
            }
            QueueStep::Disorder {
                index,
                before,
                offset,
            } => {
                seen.bad += 1;
                let note = format!("leads to {offset}, the entry before ends at {before}");
                seen.first
                    .get_or_insert_with(|| format!("queue {} offset {index}: {note}", queue.name.queue_id));
                rows.push(gap_row(queue, index, queue.place(index), "disorder", note))?;
            }
        }
        rows.at(seen.entries)?;
        if interrupt::asked() {
            break;
        }
    }
    Ok(())
}

fn check_words(check: &Check) -> (&'static str, Option<String>) {
    match check {
        Check::Agrees => ("ok", None),
        Check::Blank => (
            "blank",
            Some("takes up the place of an entry that never came".into()),
        ),
        Check::Expired => (
            "expired",
            Some("the record lies before the first file of the log".into()),
        ),
        Check::BeyondLog => (
            "beyond",
            Some("the record would lie behind the end of the log".into()),
        ),
        Check::NoRecord(kind) => ("no record", Some(format!("no valid record there: {kind}"))),
        Check::Differs(differences) => ("differs", Some(differences.join("; "))),
    }
}

fn entry_row(queue: &Queue, row: &EntryRow) -> Vec<Cell> {
    let view = row.record.as_ref().and_then(|record| record.view().ok());
    let property = |name: &str| {
        view.as_ref()
            .and_then(|view| view.properties().get(name))
            .map_or(Cell::Unknown, Cell::from)
    };
    let (check, note) = check_words(&row.check);
    let (file, position) = queue.place(row.index).unzip();
    let (tags_code, deliver_at, extension) = match row.tags {
        TagsCode::None => (Cell::Int(0), None, None),
        TagsCode::Hash(code) => (Cell::Int(code), None, None),
        TagsCode::Address { at, hash } => (hash.into(), None, Some(at)),
        TagsCode::DeliverAt(ms) => (Cell::Unknown, Some(ms), None),
    };
    let note = note.or_else(|| extension.map(|at| format!("tag hash from unit {at} of consumequeue_ext")));
    let note = note.or_else(|| {
        (queue.kind == QueueKind::Batch).then(|| {
            format!(
                "{} in one record",
                count(row.entry.messages.unsigned_abs(), "message")
            )
        })
    });
    vec![
        queue.name.topic.as_str().into(),
        queue.name.queue_id.into(),
        row.queue_offset.into(),
        row.entry.offset.into(),
        row.entry.size.into(),
        tags_code,
        property(names::TAGS),
        Cell::time(view.as_ref().map(|view| view.store_timestamp())),
        check.into(),
        int(row.index),
        Cell::Int(row.entry.messages.into()),
        Cell::time(deliver_at),
        extension.map_or(Cell::Unknown, int),
        property(names::UNIQ_KEY),
        file.as_deref().map_or(Cell::Unknown, path),
        position.map_or(Cell::Unknown, int),
        note.into(),
    ]
}

fn gap_row(
    queue: &Queue,
    index: u64,
    place: Option<(std::path::PathBuf, u64)>,
    check: &str,
    note: String,
) -> Vec<Cell> {
    let (file, position) = place.unzip();
    COLUMNS
        .iter()
        .map(|column| match column.key {
            "topic" => queue.name.topic.as_str().into(),
            "queue_id" => queue.name.queue_id.into(),
            "queue_offset" if queue.kind == QueueKind::Simple => int(index),
            "index" => int(index),
            "check" => check.into(),
            "file" => file.as_deref().map_or(Cell::Unknown, path),
            "file_position" => position.map_or(Cell::Unknown, int),
            "note" => note.as_str().into(),
            _ => Cell::Unknown,
        })
        .collect()
}
