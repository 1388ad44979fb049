//! `rmq store info`.

use std::collections::BTreeMap;

use super::small;
use super::{count, holder, int, path};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Detail, Format, Listing, col, wide};
use crate::cli::session::Session;
use crate::inspect::{Info, QueueInfo, QueueKind, Recovery, Store, info};

/// Shows a store at a glance.
pub fn run(session: &Session, store: &Store) -> Result<(), Failure> {
    let info = info(store)?;
    let mut tables = vec![("topics", topics(&info.queues)), ("segments", segments(&info))];
    if session.printer.format != Format::Table {
        tables.push(("queues", queues(&info.queues)));
    }
    tables.push(("index_files", index_files(&info)));
    tables.push(("tables", small::listing(&info.tables)));
    session.printer.print_detail(Detail {
        kind: "StoreInfo",
        fields: fields(&info),
        tables,
        ..Detail::default()
    })?;
    for stray in &info.strays {
        session.warn(&format!("{} means nothing there", stray.display()));
    }
    Ok(())
}

fn fields(info: &Info) -> Vec<(&'static str, Cell)> {
    let messages: i64 = info.queues.iter().map(QueueInfo::messages).sum();
    let topics: std::collections::BTreeSet<&str> =
        info.queues.iter().map(|q| q.name.topic.as_str()).collect();
    let recovery = info.recovery.as_ref();
    let checkpoint =
        |pick: fn(&crate::inspect::Checkpoint) -> i64| Cell::time(info.checkpoint.as_ref().map(pick));
    let unless_rocks = |cell: Cell| if info.rocks_db { Cell::Unknown } else { cell };
    let end = recovery.and_then(|r| r.end.map(|end| (end, r.cut)));
    vec![
        ("store", path(&info.root)),
        (
            "broker",
            match info.holder {
                Some(pid) => format!("running: {} holds the lock", holder(pid)).into(),
                None => "not running".into(),
            },
        ),
        (
            "last_stop",
            match (&info.abort, info.holder) {
                (_, Some(_)) => Cell::Unknown,
                (None, _) => "clean".into(),
                (Some(pid), _) => format!("not clean: abort file of process {}", pid.trim()).into(),
            },
        ),
        (
            "queues_in",
            if info.rocks_db {
                "RocksDB (not read)"
            } else {
                "files"
            }
            .into(),
        ),
        ("log_start", int(info.log_start)),
        ("log_end", int(info.log_end)),
        ("segments", info.segments.len().into()),
        ("segment_size", int(info.segment_size)),
        ("first_stored_at", Cell::time(info.first_time)),
        ("last_stored_at", Cell::time(info.last_time)),
        ("topics", unless_rocks(topics.len().into())),
        ("queues", unless_rocks(info.queues.len().into())),
        ("messages", unless_rocks(messages.into())),
        ("index_files", info.index.len().into()),
        ("checkpoint_log", checkpoint(|c| c.physic_msg_timestamp)),
        ("checkpoint_queues", checkpoint(|c| c.logics_msg_timestamp)),
        ("checkpoint_index", checkpoint(|c| c.index_msg_timestamp)),
        (
            "recovery",
            recovery.map_or(Cell::Unknown, |r| recovery_words(r).into()),
        ),
        ("recovery_from", recovery.map_or(Cell::Unknown, |r| int(r.from))),
        ("recovery_end", end.map_or(Cell::Unknown, |(end, _)| int(end))),
        ("recovery_cuts", end.map_or(Cell::Unknown, |(_, cut)| int(cut))),
    ]
}

fn recovery_words(recovery: &Recovery) -> String {
    let mut text = format!(
        "{} start from {}: {}",
        if recovery.clean { "clean" } else { "unclean" },
        recovery.from,
        recovery.why
    );
    match (recovery.end, &recovery.stops_at) {
        (Some(end), Some(kind)) => {
            let cut = count(recovery.cut, "byte");
            text += &match recovery.rmq_from > end {
                true => format!(
                    "; a Java broker stops at {end} ({kind}) and cuts off {cut}, rmq begins at {} and cuts nothing off",
                    recovery.rmq_from
                ),
                false => format!("; it stops at {end} ({kind}) and cuts off {cut}"),
            };
        }
        (Some(end), None) => text += &format!("; it ends at {end}"),
        (None, _) => text += "; what it finds was not looked at",
    }
    if recovery.queues_cut > 0 {
        text += &format!("; {} cut back", count(recovery.queues_cut as u64, "queue"));
    }
    if recovery.index_files_dropped > 0 {
        text += &format!(
            "; {} made anew",
            count(recovery.index_files_dropped as u64, "index file")
        );
    }
    text
}

fn topics(queues: &[QueueInfo]) -> Listing {
    let mut listing = Listing::new(
        "StoreTopicList",
        &[
            col("topic"),
            col("queues"),
            col("messages"),
            col("files"),
            col("bytes"),
        ],
    );
    let mut by_topic: BTreeMap<&str, (u64, i64, u64, u64)> = BTreeMap::new();
    for queue in queues {
        let sums = by_topic.entry(&queue.name.topic).or_default();
        sums.0 += 1;
        sums.1 += queue.messages();
        sums.2 += queue.files as u64;
        sums.3 += queue.bytes;
    }
    for (topic, (n, messages, files, bytes)) in by_topic {
        listing.push(vec![
            topic.into(),
            int(n),
            messages.into(),
            int(files),
            int(bytes),
        ]);
    }
    listing
}

fn queues(queues: &[QueueInfo]) -> Listing {
    let mut listing = Listing::new(
        "StoreQueueList",
        &[
            col("topic"),
            col("queue_id"),
            col("kind"),
            col("min_offset"),
            col("max_offset"),
            col("messages"),
            col("files"),
            col("bytes"),
            col("log_end"),
        ],
    );
    for queue in queues {
        listing.push(vec![
            queue.name.topic.as_str().into(),
            queue.name.queue_id.into(),
            match queue.kind {
                QueueKind::Simple => "simple",
                QueueKind::Batch => "batch",
            }
            .into(),
            queue.bounds.min_offset.into(),
            queue.bounds.max_offset.into(),
            queue.messages().into(),
            queue.files.into(),
            int(queue.bytes),
            queue.bounds.physical_end.into(),
        ]);
    }
    listing
}

fn segments(info: &Info) -> Listing {
    let mut listing = Listing::new(
        "SegmentList",
        &[
            col("file"),
            col("size"),
            col("used"),
            col("first_stored_at"),
            wide("path"),
            col("note"),
        ],
    );
    listing.ordered = true;
    for segment in &info.segments {
        listing.push(vec![
            segment
                .path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .into(),
            int(segment.len),
            int(segment.used),
            Cell::time(segment.first_time),
            path(&segment.path),
            segment.problem.clone().into(),
        ]);
    }
    listing
}

fn index_files(info: &Info) -> Listing {
    let mut listing = Listing::new(
        "IndexFileList",
        &[
            col("file"),
            col("size"),
            col("items"),
            col("room"),
            col("begins_at"),
            col("ends_at"),
            wide("begin_offset"),
            wide("end_offset"),
        ],
    );
    listing.ordered = true;
    for file in &info.index {
        listing.push(vec![
            file.path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned())
                .into(),
            int(file.len),
            Cell::Int(i64::from(file.header.count) - 1),
            file.shape
                .map_or(Cell::Unknown, |shape| Cell::Int(i64::from(shape.items) - 1)),
            Cell::time(Some(file.header.begin_timestamp)),
            Cell::time(Some(file.header.end_timestamp)),
            file.header.begin_offset.into(),
            file.header.end_offset.into(),
        ]);
    }
    listing
}
