//! Queues: their entries, those of a topic, and who has read how far.

use std::collections::BTreeMap;

use super::Asker;
use crate::inspect::{Check, Error, Log, Queue, QueueKind, QueueStep, QueueSums, Store, TagsCode, table};
use crate::protocol::properties::names;
use crate::tui::store::answer::{
    Answer, Compared, GroupPositions, Page, QueueLine, QueuePage, QueueRow, TopicQueues,
};
use crate::tui::store::question::At;

/// Rows before and from the place that is asked for.
const AROUND: (u64, usize) = (100, 150);
/// Groups whose positions are shown.
const MOST_GROUPS: usize = 200;

fn open(store: &Store, topic: &str, queue: i32) -> Result<Option<Queue>, Error> {
    let found = store.queues_of(topic, Some(queue))?.into_iter().next();
    found.map(|(name, kind)| store.queue(name, kind)).transpose()
}

/// Entries around a place.
pub fn page(
    store: &Store,
    log: (&Log, u64),
    topic: &str,
    queue: i32,
    at: At,
    asker: &Asker<'_>,
) -> Result<QueuePage, Error> {
    let Some(queue) = open(store, topic, queue)? else {
        return Ok(QueuePage::default());
    };
    let bounds = queue.bounds(log.0.start());
    let here = match at {
        At::Oldest => bounds.first_index,
        At::Newest => bounds.end_index,
        At::Offset(offset) => queue.index_of(offset),
        At::Time(ms) => queue.index_at(ms, log.0),
    }
    .clamp(bounds.first_index, bounds.end_index);
    let from = here.saturating_sub(AROUND.0).max(bounds.first_index);
    let most = usize::try_from(here - from).unwrap_or(0) + AROUND.1;
    let rows = queue.page(from, most, &bounds, log, |step| {
        (!asker.is_gone()).then(|| row(&queue, step))
    });
    asker.goes_on()?;
    let last = bounds.end_index.checked_sub(1);
    Ok(QueuePage {
        page: Page {
            focus: last.map(|last| here.min(last)),
            is_first: from == bounds.first_index,
            is_last: rows.last().is_none_or(|row| Some(row.index) >= last),
            rows,
        },
        files: queue.files().count(),
        per_file: queue
            .files()
            .next()
            .map_or(0, |file| file.len / queue.entry_len()),
        entry_len: queue.entry_len(),
        offsets: (bounds.min_offset, bounds.max_offset),
        records: Vec::new(),
    })
}

fn row(queue: &Queue, step: QueueStep) -> QueueRow {
    let plain = |index: u64, note: String| QueueRow {
        index,
        offset: i64::try_from(index).unwrap_or(i64::MAX),
        record: None,
        code: String::new(),
        tag: None,
        stored_ms: None,
        check: Compared::Wrong,
        note,
    };
    let found = match step {
        QueueStep::Gap { index, count, .. } => {
            return plain(index, format!("{count} entries missing, others follow"));
        }
        QueueStep::Disorder {
            index,
            before,
            offset,
        } => {
            return plain(
                index,
                format!("leads to {offset}, the entry before ends at {before}"),
            );
        }
        QueueStep::Entry(found) => found,
    };
    let view = found.record.as_ref().and_then(|record| record.view().ok());
    let (check, note) = match &found.check {
        Check::Agrees => (
            Compared::Good,
            match queue.kind {
                QueueKind::Simple => String::new(),
                QueueKind::Batch => format!("{} messages in one record", found.entry.messages),
            },
        ),
        Check::Blank => (
            Compared::Past,
            "takes up the place of one that never came".to_owned(),
        ),
        Check::Expired => (Compared::Past, "the record has expired".to_owned()),
        Check::BeyondLog => (Compared::Wrong, "leads behind the end of the log".to_owned()),
        Check::NoRecord(kind) => (Compared::Wrong, format!("no valid record there: {kind}")),
        Check::Differs(differences) => (Compared::Wrong, differences.join("; ")),
    };
    let tag = view.as_ref().and_then(|view| view.properties().get(names::TAGS));
    QueueRow {
        index: found.index,
        offset: found.queue_offset,
        record: (!found.entry.is_blank()).then_some((found.entry.offset, found.entry.size)),
        code: match found.tags {
            TagsCode::None => "0".to_owned(),
            TagsCode::Hash(code) => code.to_string(),
            TagsCode::Address { at, hash: Some(hash) } => format!("{hash} (unit {at})"),
            TagsCode::Address { at, hash: None } => format!("unit {at} ?"),
            TagsCode::DeliverAt(ms) => format!("@{ms}"),
        },
        tag: tag.map(str::to_owned),
        stored_ms: view.as_ref().map(|view| view.store_timestamp()),
        check,
        note,
    }
}

/// The queues of a topic, and who has read how far.
pub fn topic(store: &Store, topic: &str, asker: &Asker<'_>) -> Result<TopicQueues, Error> {
    let mut found = TopicQueues::default();
    let log_start = store.log()?.start();
    for (name, kind) in store.queues_of(topic, None)? {
        asker.goes_on()?;
        let queue = store.queue(name, kind)?;
        let bounds = queue.bounds(log_start);
        let first = queue.first_record(&bounds);
        found.queues.push(QueueLine {
            broker: String::new(),
            queue: queue.name.queue_id,
            min: bounds.min_offset,
            max: bounds.max_offset,
            files: queue.files().count(),
            span: first.map(|first| (first, bounds.physical_end)),
        });
    }
    found.queues.sort_by_key(|line| line.queue);
    found.read_queues = table(store, "topics.json").as_ref().and_then(|table| {
        table
            .content()?
            .get("topicConfigTable")?
            .get(topic)?
            .get("readQueueNums")?
            .as_i64()
    });
    match table(store, "consumerOffset.json") {
        None => found.problem = Some("there is no config/consumerOffset.json".to_owned()),
        Some(table) => match table.content() {
            None => found.problem = Some(format!("config/consumerOffset.json is {}", table.state.name())),
            Some(content) => found.positions = Some(positions(content, topic)),
        },
    }
    Ok(found)
}

fn positions(content: &serde_json::Value, topic: &str) -> GroupPositions {
    let mut found = GroupPositions::default();
    let table = content.get("offsetTable").and_then(serde_json::Value::as_object);
    for (name, queues) in table.into_iter().flatten() {
        let Some((of, group)) = name.split_once('@') else {
            continue;
        };
        if of != topic {
            continue;
        }
        if found.groups.len() >= MOST_GROUPS {
            found.more += 1;
            continue;
        }
        let offsets: BTreeMap<i32, i64> = queues
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(queue, offset)| Some((queue.parse().ok()?, offset.as_i64()?)))
            .collect();
        found.groups.insert(group.to_owned(), offsets);
    }
    found
}

/// Compares every entry of a queue with its record.
pub fn check(
    store: &Store,
    log: (&Log, u64),
    topic: &str,
    queue: i32,
    asker: &mut Asker<'_>,
) -> Result<QueueSums, Error> {
    let Some(queue) = open(store, topic, queue)? else {
        return Ok(QueueSums::default());
    };
    let bounds = queue.bounds(log.0.start());
    Ok(queue.check_all(&bounds, log, &mut |sums| {
        asker.tell(|| Answer::CheckQueue(sums.clone()))
    }))
}
