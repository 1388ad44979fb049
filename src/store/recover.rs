//! Opening a store: find the end of the log, cut off what is behind it, and complete queues and index.
//!
//! After a clean stop the walk begins where the log ended then, and queues and index are compared with the list that the
//! stop left; without such a list (Java leaves none) a small log is compared with its queues record by record, a big
//! one by the heads of its segments. After a crash the walk begins at the newest segment whose first record is older
//! than what the checkpoint vouches for, and every record from there on is replayed: queues and index skip what they
//! have. See [`super::replay`] for the walk itself.

use std::fs::File;
use std::path::Path;

use super::batch_queues::BatchQueues;
use super::build::{Dispatch, LIGHT_QUEUE_PREFIX};
use super::commit_log::CommitLog;
use super::consume_queue::clear_tail;
use super::cursor::{Found, MessageCursor};
use super::deleted::DeletedTopics;
use super::disk::{self, io_error};
use super::flush::CheckpointFile;
use super::index::Index;
use super::load::{self, LoadedIndex, LoadedQueue};
use super::lock;
use super::queues::ConsumeQueues;
use super::reader::QueueName;
use super::replay::{Pass, Replay};
use super::salvage;
use super::segments::{self, LogBytes, SegmentFile, Segments};
use super::shared::{Parts, Shared};
use super::stopped::{Stopped, StoppedQueue};
use super::{Error, StoreConfig};
use crate::protocol::message::MessageView;

/// A log up to this size is compared with its queues when nothing tells that they are whole, bytes.
const SMALL_LOG: u64 = 256 * 1024 * 1024;

/// Takes the lock of a store and makes it ready for use.
pub fn open(config: StoreConfig) -> Result<Shared, Error> {
    let root = config.store_path_root_dir.clone();
    let store_lock = lock::prepare_root(&root)?;
    load::check_kind(&config)?;
    let abnormal = root.join("abort").exists();
    let mut files = load::commit_log(&config)?;
    let size = config.mapped_file_size_commit_log;
    let log = Segments::new(files.clone(), size, false);
    let stopped = if abnormal {
        None
    } else {
        Stopped::load(&root, &log)
    };
    let checkpoint = CheckpointFile::open(&root)?;
    let (vouched_for, recover_from) = (
        checkpoint.get().index_msg_timestamp,
        checkpoint.get().recover_from(),
    );
    let distrust = || checkpoint.distrust_queues();
    let loaded = load::queues(&config, abnormal, stopped.as_ref(), &log, distrust)?;
    let loaded_index = load::index(&config, abnormal, vouched_for, stopped.as_ref())?;
    // From here on the directory changes.
    write_abort(&root)?;
    let log_start = log.start();
    let deleted = DeletedTopics::load(&root.join("config"), log_start as i64)?;

    let (start, last) = match &stopped {
        _ if abnormal => (abnormal_start(&log, recover_from), None),
        Some(stopped) => (stopped.end, stopped.last),
        None => clean_start(&log, &loaded),
    };
    let intact = stopped.is_some() && loaded.iter().all(|queue| queue.intact);
    let remade: Vec<_> = loaded
        .iter()
        .filter_map(|queue| Some((queue.name.clone(), queue.remade?)))
        .collect();
    let queues = prepare_queues(&config, loaded, &deleted, files.is_empty())?;
    let (index, mut missing_from) = prepare_index(&config, loaded_index, abnormal, start, files.is_empty())?;
    if abnormal && config.message_index_enable {
        // A power failure takes back what was not flushed: the index may end before the log's replay begins.
        let flushed_to = abnormal_start(&log, vouched_for);
        let from = index.end_offset().max(flushed_to as i64);
        missing_from = Some(missing_from.map_or(from, |missing| missing.min(from)));
    }
    let batches = BatchQueues::load(&root)?;
    let delays = config.delay_levels();
    let dispatch = Dispatch {
        queues: &queues,
        batches: &batches,
        light_queues: config.enable_multi_dispatch,
        index: config.message_index_enable.then_some(&index),
        delays: &delays,
        deleted: &deleted,
        indexed_to: index.end_offset(),
    };
    let mut replay = Replay::new(dispatch, &log, load::known_topics(&root));
    for queue in remade
        .iter()
        .filter_map(|(name, _)| queues.find(&name.topic, name.queue_id))
    {
        replay.note_quietly(&queue);
    }
    let is_there = |(name, was): (&QueueName, &StoppedQueue)| {
        was.max_physic <= log_start as i64 || queues.find(&name.topic, name.queue_id).is_some()
    };
    let complete = intact && stopped.as_ref().is_some_and(|s| s.queues.iter().all(is_there));
    if !abnormal && !complete {
        // Should this start be cut short, the next one has neither the list nor a reason to look at these queues.
        checkpoint.distrust_queues()?;
    }
    match &stopped {
        Some(stopped) => compare_with_list(&mut replay, stopped)?,
        None if abnormal => {}
        None => compare_with_log(&mut replay, start)?,
    }
    if let Some(from) = missing_from.filter(|from| (*from as u64) < start) {
        replay.sweep(from as u64, start, Pass::Index)?;
        replay.dispatch.indexed_to = index.end_offset();
    }
    let mut walked = replay.walk(start, config.check_crc_on_recover)?;
    walked.last = walked.last.or(last);
    replay.complete(walked.end)?;
    for (name, next) in &remade {
        if let Some(queue) = queues.find(&name.topic, name.queue_id) {
            // The log may not have the last ones any more; their numbers are not given away a second time.
            queue.note(next - 1);
        }
    }
    for (name, next) in stopped.iter().flat_map(|stopped| &stopped.given) {
        queues.find_or_make(&name.topic, name.queue_id).note(next - 1);
    }
    let (stuck_at, full_index) = (replay.stuck_at, std::mem::take(&mut replay.full_index));
    drop(replay);

    batches.fit(log_start as i64, walked.end as i64);
    if walked.damaged || (abnormal && has_data_behind(&files, walked.end)?) {
        salvage::set_aside(&root, &log, walked.end)?;
    }
    drop(log);
    cut_log(&mut files, walked.end, size)?;
    let untouched = intact
        && stopped
            .as_ref()
            .is_some_and(|s| (s.start, s.end) == (log_start, walked.end));
    for queue in queues.all() {
        queue.behind.store(false, std::sync::atomic::Ordering::Relaxed);
        if !untouched {
            queue.truncate(walked.end as i64)?;
            queue.correct_min(log_start as i64)?;
        }
        queue.let_go(true);
    }
    let index = cut_index(
        index,
        &config,
        stuck_at.unwrap_or(walked.end).min(walked.end) as i64,
    )?;
    if abnormal {
        // What a killed process wrote may be in the page cache only; from here on it counts as flushed.
        for file in files.iter().filter(|file| file.base + size > start) {
            segments::open_rw(&file.path)?
                .sync_data()
                .map_err(io_error("flush", &file.path))?;
        }
    }
    checkpoint.update(|c| c.confirm_phy_offset = walked.last.map_or(0, |(at, _)| at as i64));
    let log = CommitLog::open(&config.commit_log_dir(), &files, size, walked.end, walked.last)?;
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
        built_to: stuck_at,
        recovered: stopped.is_none(),
    }))
}

/// True when anything but zeros lies behind the end of the log. A hole that a power failure left looks like an end.
fn has_data_behind(files: &[SegmentFile], end: u64) -> Result<bool, Error> {
    for file in files.iter().filter(|file| file.base + file.len > end) {
        let from = end.saturating_sub(file.base);
        let data_end = File::open(&file.path).and_then(|open| disk::data_end(&open, from, file.len));
        if data_end.map_err(io_error("read", &file.path))? > from {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Notes the queues that the last clean stop had and that are missing or short now.
fn compare_with_list(replay: &mut Replay<'_>, stopped: &Stopped) -> Result<(), Error> {
    for (name, was) in &stopped.queues {
        let is_deleted = replay.dispatch.deleted.covers(&name.topic, was.max_physic - 1);
        // A light queue holds records of other topics, and cannot be made again from the start.
        if was.max == 0 || is_deleted || name.topic.starts_with(LIGHT_QUEUE_PREFIX) {
            continue;
        }
        let queue = replay.dispatch.queues.find_or_make(&name.topic, name.queue_id);
        if was.max_physic <= replay.log.start() as i64 {
            // Nothing to make it from any more, but its numbers are not given away a second time.
            if queue.first().is_none() {
                queue.note(was.max - 1);
            }
            continue;
        }
        let lost_start = queue.first().is_none_or(|first| first > was.first);
        if queue.behind.load(std::sync::atomic::Ordering::Relaxed) {
            // It is to be made again as a whole.
            continue;
        }
        if lost_start || queue.max() < was.max || queue.max_physic() != was.max_physic {
            replay.note(&queue, lost_start)?;
        }
    }
    Ok(())
}

/// Notes the queues that lack entries of records before `start`, without a list of what there should be.
fn compare_with_log(replay: &mut Replay<'_>, start: u64) -> Result<(), Error> {
    let log = replay.log;
    if log.end() - log.start() <= SMALL_LOG {
        return replay.sweep(log.start(), start, Pass::Check);
    }
    let heads: Vec<u64> = log
        .files()
        .map(|file| file.base)
        .filter(|base| *base < start)
        .collect();
    for head in heads {
        if let Some(Ok(Found::Message(record))) = MessageCursor::new(log, head).check_body(false).next()
            && let Ok(view) = record.view()
            && !replay.has(&view)
        {
            return replay.sweep(log.start(), start, Pass::Check);
        }
    }
    Ok(())
}

/// Marks the store as in use: what is found at a start was not stopped cleanly.
fn write_abort(root: &Path) -> Result<(), Error> {
    let path = root.join("abort");
    match std::fs::write(&path, std::process::id().to_string()) {
        // The name is what counts, and it is there.
        Err(e) if e.kind() == std::io::ErrorKind::StorageFull && path.exists() => {
            tracing::warn!(
                "cannot write {}: {e}; the empty file marks the store as in use all the same",
                path.display()
            );
        }
        written => written.map_err(io_error("write", &path))?,
    }
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
        if let Some(last) = kept.last()
            && !queue.intact
        {
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
        // The last record may have got some of its keys only: it is indexed anew.
        (false, true) => (start as i64).min(index.end_offset().max(0)),
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
