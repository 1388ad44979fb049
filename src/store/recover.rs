//! Opening a store: find the end of the log, cut off what is behind it, and complete queues and index.
//!
//! After a clean stop the walk begins where the queues end; after a crash it begins at the newest segment whose first
//! record is older than what the checkpoint vouches for, and every record from there on is replayed: queues and index
//! skip what they have. The walk ends at the first [`Damage`](super::cursor::Damage).

use std::path::Path;
use std::sync::Arc;

use super::batch_queues::BatchQueues;
use super::build::Dispatch;
use super::commit_log::CommitLog;
use super::consume_queue::clear_tail;
use super::cursor::{DamageKind, Found, MessageCursor};
use super::deleted::DeletedTopics;
use super::disk::{self, io_error};
use super::flush::CheckpointFile;
use super::index::{Index, IndexFile};
use super::load::{self, LoadedIndex, LoadedQueue};
use super::lock;
use super::queues::ConsumeQueues;
use super::salvage;
use super::segments::{self, LogBytes, SegmentFile, Segments};
use super::shared::{Parts, Shared};
use super::{Error, StoreConfig};
use crate::protocol::message::MessageView;

/// Where a walk over the log ended.
#[derive(Debug, Clone, Copy, Default)]
struct Walked {
    end: u64,
    /// Offset and store time of the last whole record.
    last: Option<(u64, i64)>,
    /// The walk ended at something else than zeros.
    damaged: bool,
}

/// Takes the lock of a store and makes it ready for use.
pub fn open(config: StoreConfig) -> Result<Shared, Error> {
    let root = config.store_path_root_dir.clone();
    let store_lock = lock::prepare_root(&root)?;
    load::check_kind(&config)?;
    let abnormal = root.join("abort").exists();
    let mut files = load::commit_log(&config)?;
    let queues = load::queues(&config, abnormal)?;
    let checkpoint = CheckpointFile::open(&root)?;
    let vouched_for = checkpoint.get().index_msg_timestamp;
    let loaded_index = load::index(&config, abnormal, vouched_for)?;
    // From here on the directory changes.
    write_abort(&root)?;
    let log_start = files.first().map_or(0, |file| file.base);
    let deleted = DeletedTopics::load(&root.join("config"), log_start as i64)?;
    let size = config.mapped_file_size_commit_log;
    let log = Segments::new(files.clone(), size, false);

    let (start, last) = if abnormal {
        (abnormal_start(&log, checkpoint.get().recover_from()), None)
    } else {
        clean_start(&log, &queues)
    };
    let known_end = queues
        .iter()
        .map(|queue| queue.state.max_physic)
        .max()
        .unwrap_or(0);
    let queues = prepare_queues(&config, queues, &deleted, files.is_empty())?;
    let (index, missing_from) = prepare_index(&config, loaded_index, abnormal, start, files.is_empty())?;
    let batches = BatchQueues::load(&root)?;
    let mut full_index = Vec::new();
    let delays = config.delay_levels();
    let mut dispatch = Dispatch {
        queues: &queues,
        batches: &batches,
        light_queues: config.enable_multi_dispatch,
        index: config.message_index_enable.then_some(&index),
        delays: &delays,
        deleted: &deleted,
        indexed_to: index.end_offset(),
    };
    if let Some(from) = missing_from.filter(|from| (*from as u64) < start) {
        reindex(&log, from as u64, start, &dispatch, &mut full_index)?;
        dispatch.indexed_to = index.end_offset();
    }
    let replay_from = if abnormal { 0 } else { known_end };
    let check_body = config.check_crc_on_recover;
    let mut walked = walk(&log, start, check_body, |view| {
        if view.physical_offset() >= replay_from {
            full_index.extend(dispatch.replay(view, true)?);
        }
        Ok(())
    })?;

    walked.last = walked.last.or(last);

    if walked.damaged {
        salvage::set_aside(&root, &log, walked.end)?;
    }
    drop(log);
    cut_log(&mut files, walked.end, size)?;
    for queue in queues.all() {
        queue.truncate(walked.end as i64)?;
        queue.correct_min(log_start as i64)?;
        queue.let_go(true);
    }
    batches.fit(log_start as i64, walked.end as i64);
    let index = cut_index(index, &config, walked.end as i64)?;
    if abnormal {
        // What a killed process wrote may be in the page cache only; from here on it counts as flushed.
        for file in files.iter().filter(|file| file.base + size > start) {
            segments::open_rw(&file.path)?
                .sync_data()
                .map_err(io_error("flush", &file.path))?;
        }
    }
    let timestamp = walked.last.map_or(0, |(_, timestamp)| timestamp);
    checkpoint.update(|c| c.confirm_phy_offset = walked.last.map_or(0, |(at, _)| at as i64));
    let log = CommitLog::open(&config.commit_log_dir(), &files, size, walked.end, timestamp)?;
    tracing::info!(
        store = %root.display(),
        clean_stop = !abnormal,
        start = log_start,
        end = walked.end,
        walked_from = start,
        queues = queues.all().len(),
        "store opened"
    );
    Ok(Shared::new(Parts {
        config,
        log,
        queues,
        batches,
        index,
        deleted,
        checkpoint,
        lock: store_lock,
        full_index,
    }))
}

/// Marks the store as in use: what is found at a start was not stopped cleanly.
fn write_abort(root: &Path) -> Result<(), Error> {
    let path = root.join("abort");
    std::fs::write(&path, std::process::id().to_string()).map_err(io_error("write", &path))?;
    disk::sync_dir(root)
}

/// The newest segment whose first record is at least 3 s older than what log and queues are flushed to.
fn abnormal_start(segments: &Segments, recover_from: i64) -> u64 {
    segments
        .files()
        .rev()
        .find(|file| {
            segments.window(file.base, 1).is_some_and(|bytes| {
                MessageView::parse(&bytes)
                    .is_ok_and(|view| (1..=recover_from).contains(&view.store_timestamp()))
            })
        })
        .or(segments.files().next())
        .map_or(0, |file| file.base)
}

/// Where the last record ends that any queue has, if it is really there, and that record; else the start of the segment
/// in which the queues end, as in Java.
fn clean_start(segments: &Segments, queues: &[LoadedQueue]) -> (u64, Option<(u64, i64)>) {
    let newest = queues
        .iter()
        .filter_map(|queue| queue.last)
        .max_by_key(|entry| entry.end());
    let Some(newest) = newest else {
        return (segments.start(), None);
    };
    let offset = u64::try_from(newest.offset).unwrap_or(0);
    let record = segments.slice(offset, usize::try_from(newest.size).unwrap_or(0));
    if let Some(bytes) = record
        && let Ok(view) = MessageView::parse_checked(&bytes)
        && view.physical_offset() == newest.offset
    {
        return (newest.end() as u64, Some((offset, view.store_timestamp())));
    }
    let end = u64::try_from(newest.end()).unwrap_or(0);
    let start = segments
        .files()
        .rev()
        .find(|file| file.base <= end)
        .or(segments.files().next())
        .map_or(0, |file| file.base);
    (start, None)
}

/// Walks the log from `start` on and calls `each` for every whole record.
fn walk(
    segments: &Segments,
    start: u64,
    check_body: bool,
    mut each: impl FnMut(&MessageView<'_>) -> Result<(), Error>,
) -> Result<Walked, Error> {
    let mut walked = Walked {
        end: start,
        ..Walked::default()
    };
    let mut cursor = MessageCursor::new(segments, start).check_body(check_body);
    while let Some(step) = cursor.next() {
        match step {
            Ok(Found::Message(record)) => {
                let Ok(view) = record.view() else { break };
                each(&view)?;
                walked.end = record.end();
                walked.last = Some((record.at, view.store_timestamp()));
            }
            Ok(Found::Filler { at, len }) => {
                // With no file behind it, the filler is where the next record goes.
                let has_next = segments.files().any(|file| file.base == at + len);
                walked.end = if has_next { at + len } else { at };
            }
            Err(damage) => {
                // A file that is there and cannot be opened does not end the log.
                segments.check(damage.at)?;
                let next = segments.files().find(|file| file.base > damage.at);
                if let (DamageKind::Missing, Some(next)) = (&damage.kind, next) {
                    tracing::error!("commit log {damage}; going on with {}", next.path.display());
                    cursor.seek(next.base);
                    walked.end = next.base;
                    continue;
                }
                walked.damaged = damage.kind != DamageKind::Zeros;
                if walked.damaged {
                    tracing::warn!("commit log {damage}; it ends there");
                }
                walked.end = damage.at;
                break;
            }
        }
    }
    Ok(walked)
}

/// Indexes records of `from..to` whose index file was lost, stepping over damage.
fn reindex(
    segments: &Segments,
    from: u64,
    to: u64,
    dispatch: &Dispatch<'_>,
    full: &mut Vec<Arc<IndexFile>>,
) -> Result<(), Error> {
    let mut cursor = MessageCursor::new(segments, from.max(segments.start())).check_body(false);
    while cursor.position() < to {
        match cursor.next() {
            Some(Ok(Found::Message(record))) => {
                if let Ok(view) = record.view() {
                    full.extend(dispatch.replay(&view, false)?);
                }
            }
            Some(Ok(Found::Filler { .. })) => {}
            Some(Err(damage)) => cursor.seek(segments.file_end(damage.at)),
            None => break,
        }
    }
    Ok(())
}

/// Makes the queues as they were found, and clears what their files hold behind the last entry.
fn prepare_queues(
    config: &StoreConfig,
    loaded: Vec<LoadedQueue>,
    deleted: &DeletedTopics,
    log_is_empty: bool,
) -> Result<ConsumeQueues, Error> {
    let queues = ConsumeQueues::new(config.consume_queue_dir(), config.consume_queue_segment());
    if log_is_empty && loaded.iter().any(|queue| queue.state.max > 0) {
        tracing::warn!(
            "{}: no commit log, so the consume queues are deleted",
            config.commit_log_dir().display()
        );
    }
    for mut queue in loaded {
        let is_deleted = queue.state.max > 0 && deleted.covers(&queue.name.topic, queue.state.max_physic - 1);
        if log_is_empty || is_deleted {
            for file in &queue.files {
                disk::remove_file(&file.path)?;
            }
            continue;
        }
        let end = queue.state.max as u64 * super::format::consume_queue::LEN as u64;
        // An end at the border of two files is the end of the earlier one, unless the later one is all there is.
        let (mut kept, mut gone): (Vec<SegmentFile>, Vec<SegmentFile>) =
            queue.files.into_iter().partition(|file| file.base < end);
        if kept.is_empty() && !gone.is_empty() && gone[0].base > 0 {
            kept.push(gone.remove(0));
        }
        for file in &gone {
            disk::remove_file(&file.path)?;
        }
        if let Some(last) = kept.last() {
            clear_tail(&last.path, end.saturating_sub(last.base))?;
        }
        queue.state.bases = kept.iter().map(|file| file.base).collect();
        queues.insert(&queue.name.topic, queue.name.queue_id, queue.state);
    }
    Ok(queues)
}

/// The index without what will be replayed, so that nothing gets into it twice.
fn prepare_index(
    config: &StoreConfig,
    loaded: LoadedIndex,
    abnormal: bool,
    start: u64,
    log_is_empty: bool,
) -> Result<(Index, Option<i64>), Error> {
    let index = Index::new(config.index_dir(), config.index_shape(), loaded.files);
    let cut_at = match (log_is_empty, abnormal) {
        (true, _) => 0,
        (false, true) => start as i64,
        (false, false) => i64::MAX,
    };
    Ok((cut_index(index, config, cut_at)?, loaded.missing_from))
}

/// Removes the items of records at or behind `end`.
fn cut_index(index: Index, config: &StoreConfig, end: i64) -> Result<Index, Error> {
    let mut kept = Vec::new();
    for file in index.files() {
        if file.header().end_offset < end || file.cut(end) {
            kept.push(file);
        } else {
            disk::remove_file(file.path())?;
        }
    }
    Ok(Index::new(config.index_dir(), config.index_shape(), kept))
}

/// Deletes the segments behind the end of the log and zeroes the rest of its last one: what was cut off must not be
/// taken for records when the log has grown up to it again.
fn cut_log(files: &mut Vec<SegmentFile>, end: u64, size: u64) -> Result<(), Error> {
    for file in files.extract_if(.., |file| file.base > end) {
        disk::remove_file(&file.path)?;
        file.path.parent().map_or(Ok(()), disk::sync_dir)?;
    }
    if let Some(last) = files.last() {
        let from = end.saturating_sub(last.base).min(size);
        clear_tail(&last.path, from)?;
    }
    Ok(())
}

/// Removes the crash marker.
pub fn remove_abort(root: &Path) -> Result<(), Error> {
    disk::remove_file(&root.join("abort"))?;
    disk::sync_dir(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_that_cannot_be_opened_is_an_error_and_not_the_end_of_the_log() {
        let path = std::path::PathBuf::from("/no/such/segment");
        let file = |base| SegmentFile {
            base,
            path: path.clone(),
            len: 4096,
        };
        let log = Segments::new(vec![file(0), file(4096)], 4096, false);
        let error = walk(&log, 0, true, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("/no/such/segment"), "{error}");
        // A hole between files is stepped over.
        let log = Segments::new(vec![file(4096)], 4096, false);
        assert!(walk(&log, 0, true, |_| Ok(())).is_err());
    }
}
