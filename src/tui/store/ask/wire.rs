//! The same answers out of a broker in place of its files.

use bytes::Bytes;

use super::log;
use crate::client::Client;
use crate::client::entries::{EntryLook, Place, QueueSlice, TopicPositions, TopicRanges, is_address};
use crate::inspect::Record;
use crate::protocol::message::MessageView;
use crate::protocol::model::SCHEDULE_TOPIC;
use crate::protocol::properties::names;
use crate::tui::store::answer::{
    Answer, Compared, GroupPositions, Kind, LogRow, Page, QueueLine, QueuePage, QueueRow, RecordView,
    TopicQueues,
};
use crate::tui::store::question::At;
use crate::tui::store::wire::Question;

/// Entries before and from the place that is asked for: each costs the broker a read of its record.
const AROUND: (u16, u16) = (20, 30);
/// Groups whose positions are asked for: a request for each, every time.
const MOST_GROUPS: usize = 40;
/// Groups of which nothing was told that are named.
const NAMED: usize = 2;

/// Answers a question. Errors are in words.
pub async fn answer(client: &Client, question: &Question) -> Result<Answer, String> {
    let words = |e: crate::client::Error| e.reason();
    let deadline = client.deadline();
    match question {
        Question::Topics => {
            let names = client.topic_names(None).await.map_err(words)?;
            Ok(Answer::Topics(names.into_iter().collect()))
        }
        Question::Topic { topic, broker } => {
            let ranges = client.topic_ranges(topic).await.map_err(words)?;
            Ok(Answer::Topic(queues(ranges, broker)))
        }
        Question::Positions { topic, broker } => {
            let master = client.master_of(topic, broker).await.map_err(words)?;
            let found = client
                .positions_on(&master.server(), topic, MOST_GROUPS, deadline)
                .await
                .map_err(words)?;
            Ok(Answer::Positions(positions(found)))
        }
        Question::Queue {
            broker,
            topic,
            queue,
            at,
        } => {
            let place = match *at {
                At::Oldest => Place::Oldest,
                At::Newest => Place::Newest,
                At::Offset(offset) => Place::Offset(i64::try_from(offset).unwrap_or(i64::MAX)),
                At::Time(ms) => Place::Time(ms),
            };
            let master = client.master_of(topic, broker).await.map_err(words)?;
            let slice = client
                .queue_slice(&master.server(), (topic, *queue), place, AROUND, deadline)
                .await
                .map_err(words)?;
            Ok(Answer::Queue(page(slice, topic)))
        }
        Question::Record { broker, topic, at } => {
            let master = client.master_of(topic, broker).await.map_err(words)?;
            let offset = i64::try_from(*at).map_err(|_| format!("there is no offset {at}"))?;
            let bytes = client
                .record_bytes(&master.server(), offset, deadline)
                .await
                .map_err(words)?;
            // A body may have to be decompressed.
            let at = *at;
            let view = tokio::task::spawn_blocking(move || record(at, bytes)).await;
            view.map(|view| Answer::Record(Box::new(view)))
                .map_err(|e| e.to_string())
        }
    }
}

fn queues(ranges: TopicRanges, broker: &str) -> TopicQueues {
    let read = ranges.queues.iter().find(|range| range.broker == broker);
    TopicQueues {
        read_queues: read.and_then(|range| range.read_queues).map(i64::from),
        problem: (!ranges.failed.is_empty()).then(|| ranges.failed.join("; ")),
        positions: None,
        queues: (ranges.queues.into_iter())
            .map(|range| QueueLine {
                broker: range.broker,
                queue: range.queue,
                min: range.min,
                max: range.max,
                files: 0,
                span: None,
            })
            .collect(),
    }
}

fn positions(found: TopicPositions) -> GroupPositions {
    let failed = &found.failed;
    let named = failed.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    let problem = match failed.len() {
        0 => None,
        n if n <= NAMED => Some(named),
        n => Some(format!("{named}; {} more groups", n - NAMED)),
    };
    GroupPositions {
        groups: found.positions,
        more: found.not_asked,
        problem,
    }
}

fn index(offset: i64) -> u64 {
    u64::try_from(offset).unwrap_or(0)
}

fn page(slice: QueueSlice, topic: &str) -> QueuePage {
    let mut records: Vec<LogRow> = slice.entries.iter().filter_map(record_row).collect();
    records.sort_by_key(|row| row.at);
    records.dedup_by_key(|row| row.at);
    QueuePage {
        page: Page {
            focus: (slice.min < slice.max).then(|| index(slice.here.min(slice.max - 1))),
            is_first: slice
                .entries
                .first()
                .is_none_or(|entry| entry.offset <= slice.min),
            is_last: slice.end >= slice.max,
            rows: slice.entries.iter().map(|entry| row(entry, topic)).collect(),
        },
        offsets: (slice.min, slice.max),
        records,
        ..QueuePage::default()
    }
}

fn view_of(entry: &EntryLook) -> Option<MessageView<'_>> {
    let bytes = entry.record.as_ref()?.as_ref().ok()?;
    MessageView::parse(bytes).ok()
}

fn row(entry: &EntryLook, topic: &str) -> QueueRow {
    let view = view_of(entry);
    let (check, note) = match &entry.record {
        None => (
            Compared::Past,
            "not compared: too large beside the others of this page".to_owned(),
        ),
        Some(Err(why)) => (Compared::Wrong, format!("no record: {why}")),
        Some(Ok(_)) if entry.differences.is_empty() => (Compared::Good, String::new()),
        Some(Ok(_)) => (Compared::Wrong, entry.differences.join("; ")),
    };
    QueueRow {
        index: index(entry.offset),
        offset: entry.offset,
        record: Some((entry.at, entry.size)),
        code: if topic == SCHEDULE_TOPIC {
            format!("@{}", entry.tags_code)
        } else if is_address(entry.tags_code) {
            "an extension unit".to_owned()
        } else {
            entry.tags_code.to_string()
        },
        tag: view
            .as_ref()
            .and_then(|view| view.properties().get(names::TAGS).map(str::to_owned)),
        stored_ms: view.as_ref().map(|view| view.store_timestamp()),
        check,
        note,
    }
}

fn record_row(entry: &EntryLook) -> Option<LogRow> {
    let at = u64::try_from(entry.at).ok()?;
    let size = u64::try_from(entry.size).unwrap_or(0);
    Some(match &entry.record {
        Some(Ok(bytes)) => checked(&Record {
            at,
            bytes: bytes.clone(),
        }),
        Some(Err(why)) => LogRow {
            note: why.clone(),
            ..log::bare(at, size, Kind::Damage("NO RECORD"))
        },
        None => LogRow {
            note: "not read for the list".to_owned(),
            ..log::bare(at, size, Kind::Filler)
        },
    })
}

/// The row of a record whose body is compared with its checksum.
fn checked(record: &Record) -> LogRow {
    let mut row = log::record_row(record, false);
    if let Ok(view) = record.view()
        && let Err(fault) = view.check_body()
    {
        row.kind = Kind::Damage("BAD CRC");
        row.note = fault.to_string();
    }
    row
}

fn record(at: u64, bytes: Bytes) -> RecordView {
    let record = Record { at, bytes };
    let row = checked(&record);
    let mut view = RecordView {
        at,
        kind: row.kind,
        len: record.bytes.len() as u64,
        bytes: record.bytes.to_vec(),
        fields: Vec::new(),
        body: String::new(),
        note: row.note,
    };
    log::fill(&mut view, &record);
    view
}
