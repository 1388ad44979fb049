//! A store at a glance, and what the next start of a broker would do with it.

use std::path::PathBuf;

use super::commit_log::{Log, Step};
use super::consume_queue::{Bounds, QueueKind};
use super::tables::{TableFile, tables};
use super::{Error, Store};
use crate::store::cursor::{DamageKind, Record};
use crate::store::format::checkpoint::Checkpoint;
use crate::store::format::index::{Header, Shape};
use crate::store::reader::QueueName;

/// Bytes of the log that are read to tell what recovery would find; beyond that it is left open.
const RECOVERY_BYTES: u64 = 64 * 1024 * 1024;

/// Bytes of the log that are read at once.
const READ_AHEAD: usize = 256 * 1024;

/// A store at a glance.
#[derive(Debug)]
pub struct Info {
    /// The directory.
    pub root: PathBuf,
    /// The process that runs a broker on it; 0 when its id cannot be seen.
    pub holder: Option<u32>,
    /// Text of the crash marker.
    pub abort: Option<String>,
    /// The checkpoint.
    pub checkpoint: Option<Checkpoint>,
    /// True when the queues lie in RocksDB.
    pub rocks_db: bool,
    /// Files of the commit log.
    pub segments: Vec<SegmentInfo>,
    /// Bytes of a segment.
    pub segment_size: u64,
    /// First offset of the log.
    pub log_start: u64,
    /// Behind the last record.
    pub log_end: u64,
    /// Store time of the first record.
    pub first_time: Option<i64>,
    /// Store time of the last record.
    pub last_time: Option<i64>,
    /// The queues.
    pub queues: Vec<QueueInfo>,
    /// Files of the index.
    pub index: Vec<IndexFile>,
    /// Files under `config/`.
    pub tables: Vec<TableFile>,
    /// Names that mean nothing where they are.
    pub strays: Vec<PathBuf>,
    /// What the next start would do; `None` after a clean stop with queues in RocksDB, which are not read.
    pub recovery: Option<Recovery>,
}

/// One file of the commit log.
#[derive(Debug, Clone)]
pub struct SegmentInfo {
    /// Where it is.
    pub path: PathBuf,
    /// Offset of its first byte.
    pub base: u64,
    /// Its bytes.
    pub len: u64,
    /// Bytes in use.
    pub used: u64,
    /// Store time of its first record.
    pub first_time: Option<i64>,
    /// What is wrong with it as a file.
    pub problem: Option<String>,
}

/// One queue.
#[derive(Debug, Clone)]
pub struct QueueInfo {
    /// Whose it is.
    pub name: QueueName,
    /// Its layout.
    pub kind: QueueKind,
    /// Its offsets.
    pub bounds: Bounds,
    /// How many files.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl QueueInfo {
    /// Messages that have not expired.
    pub fn messages(&self) -> i64 {
        (self.bounds.max_offset - self.bounds.min_offset).max(0)
    }
}

/// One file of the index.
#[derive(Debug, Clone)]
pub struct IndexFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub len: u64,
    /// Slots and items, if that can be told.
    pub shape: Option<Shape>,
    /// Its header.
    pub header: Header,
}

/// What the next start of a broker would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// True after a clean stop.
    pub clean: bool,
    /// Offset that it reads the log from.
    pub from: u64,
    /// Why from there.
    pub why: String,
    /// Offset that `rmq` reads it from: after a clean stop it begins where the queues end, and what is damaged before
    /// that is no end of the log. What follows here is of a Java broker, which begins with the file of that place.
    pub rmq_from: u64,
    /// The end that it would find; `None` when more than a little must be read to tell.
    pub end: Option<u64>,
    /// What it stops at, when that is not the end of what was written.
    pub stops_at: Option<DamageKind>,
    /// Bytes behind that end that would be cut off.
    pub cut: u64,
    /// Queues with entries behind that end.
    pub queues_cut: usize,
    /// Index files that a Java broker deletes, since they may not have been written back.
    pub index_files_dropped: usize,
}

/// Where the next start of a broker begins to read the log, and where that ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Restart {
    /// Offset that it reads the log from.
    pub from: u64,
    /// Why from there.
    pub why: String,
    /// Offset that `rmq` reads it from; the rest is of a Java broker.
    pub rmq_from: u64,
    /// The end that it would find; `None` when more than a little must be read to tell.
    pub end: Option<u64>,
    /// What it stops at, when that is not the end of what was written.
    pub stops_at: Option<DamageKind>,
    /// Bytes behind that end that would be cut off.
    pub cut: u64,
}

/// Where the next start would begin and end, without a look into all queues: after a crash none is needed, after a
/// clean stop all are, and with more than `most` of them, or with queues in RocksDB, it is left open. `going` ends it with false. `written` is the
/// end of the log.
pub fn restart(
    store: &Store,
    written: u64,
    most: usize,
    going: &dyn Fn() -> bool,
) -> Result<Option<Restart>, Error> {
    let log = store.log_reading(READ_AHEAD)?;
    let checkpoint = store.checkpoint()?;
    let mut reached = None;
    if store.abort()?.is_none() {
        if store.is_rocks_db() {
            return Ok(None);
        }
        let names = store.queues()?;
        if names.len() > most {
            return Ok(None);
        }
        let mut all = Vec::with_capacity(names.len());
        for (name, kind) in names {
            if !going() {
                return Ok(None);
            }
            all.push(store.queue(name, kind)?.bounds(log.start()));
        }
        reached = Some(Reached::by(all.iter()));
    }
    Ok(Some(restarted(&log, written, reached, checkpoint.as_ref())))
}

/// Looks at a store.
pub fn info(store: &Store) -> Result<Info, Error> {
    let log = store.log_reading(READ_AHEAD)?;
    let rocks_db = store.is_rocks_db();
    let mut queues = Vec::new();
    let names = if rocks_db { Vec::new() } else { store.queues()? };
    for (name, kind) in names {
        let queue = store.queue(name.clone(), kind)?;
        queues.push(QueueInfo {
            name,
            kind,
            bounds: queue.bounds(log.start()),
            files: queue.files().count(),
            bytes: queue.files().map(|file| file.len).sum(),
        });
    }
    let last = last_known(&log, &queues);
    let log_end = log.written_end(last.as_ref().map_or(log.start(), Record::end));
    let index: Vec<IndexFile> = store
        .index()?
        .files()
        .iter()
        .map(|file| IndexFile {
            path: file.path().to_owned(),
            len: file.len(),
            shape: file.shape(),
            header: *file.header(),
        })
        .collect();
    let checkpoint = store.checkpoint()?;
    let abort = store.abort()?;
    let clean = abort.is_none();
    let recovery =
        (!(rocks_db && clean)).then(|| recovery(&log, log_end, clean, checkpoint.as_ref(), &queues, &index));
    let segments = segments(&log, log_end);
    Ok(Info {
        root: store.root().to_owned(),
        holder: store.holder(),
        abort,
        checkpoint,
        rocks_db,
        segment_size: log.segment_size(),
        log_start: log.start(),
        log_end,
        first_time: segments.iter().find_map(|segment| segment.first_time),
        last_time: last_time(&log, last, log_end),
        segments,
        queues,
        index,
        tables: tables(store)?,
        strays: store.strays()?,
        recovery,
    })
}

/// The newest record that a queue knows of and that is there.
fn last_known(log: &Log, queues: &[QueueInfo]) -> Option<Record> {
    let mut last: Vec<u64> = queues
        .iter()
        .filter_map(|queue| u64::try_from(queue.bounds.last_record?).ok())
        .collect();
    last.sort_unstable();
    // Entries behind the end of the log are passed over.
    last.into_iter().rev().find_map(|at| log.record_at(at).ok())
}

fn last_time(log: &Log, last: Option<Record>, end: u64) -> Option<i64> {
    let from = last.as_ref().map_or(0, |record| record.at).max(log.newest_base());
    let time = |record: &Record| record.view().ok().map(|view| view.store_timestamp());
    let mut newest = last.as_ref().and_then(time);
    for step in log.walk_until(from, end, false) {
        if let Step::Message { record, .. } = step {
            newest = time(&record).or(newest);
        }
    }
    newest
}

fn segments(log: &Log, log_end: u64) -> Vec<SegmentInfo> {
    let mut expected = None;
    let mut out = Vec::new();
    for file in log.files() {
        let problem = if file.len != log.segment_size() {
            Some(format!(
                "{} bytes, the others have {}",
                file.len,
                log.segment_size()
            ))
        } else if expected.is_some_and(|base| base != file.base) {
            expected.map(|base| format!("a file is missing before it: {base:020}"))
        } else {
            None
        };
        expected = file.base.checked_add(file.len);
        out.push(SegmentInfo {
            path: file.path.clone(),
            base: file.base,
            len: file.len,
            used: log_end.saturating_sub(file.base).min(file.len),
            first_time: log.first_time(file),
            problem,
        });
    }
    out
}

fn recovery(
    log: &Log,
    written: u64,
    clean: bool,
    checkpoint: Option<&Checkpoint>,
    queues: &[QueueInfo],
    index: &[IndexFile],
) -> Recovery {
    let reached = clean.then(|| Reached::by(queues.iter().map(|q| &q.bounds)));
    let restart = restarted(log, written, reached, checkpoint);
    Recovery {
        clean,
        from: restart.from,
        why: restart.why,
        rmq_from: restart.rmq_from,
        queues_cut: restart.end.map_or(0, |end| {
            let end = i64::try_from(end).unwrap_or(i64::MAX);
            queues.iter().filter(|q| q.bounds.physical_end > end).count()
        }),
        end: restart.end,
        stops_at: restart.stops_at,
        cut: restart.cut,
        index_files_dropped: if clean {
            0
        } else {
            let flushed = checkpoint.map_or(0, |c| c.index_msg_timestamp);
            index
                .iter()
                .filter(|file| file.header.end_timestamp > flushed)
                .count()
        },
    }
}

/// The newest record that a queue leads to.
#[derive(Debug, Clone, Copy, Default)]
struct Reached {
    /// Where it begins; `None` when no queue leads to any.
    record: Option<u64>,
    /// Where it ends.
    end: u64,
}

impl Reached {
    fn by<'a>(queues: impl Iterator<Item = &'a Bounds>) -> Self {
        let newest = queues.max_by_key(|bounds| bounds.physical_end);
        newest.map_or_else(Self::default, |bounds| Self {
            record: bounds.last_record.and_then(|at| u64::try_from(at).ok()),
            end: u64::try_from(bounds.physical_end).unwrap_or(0),
        })
    }

    /// That record is in the log, and ends where its entry says.
    fn is_there(&self, log: &Log) -> bool {
        let record = self.record.and_then(|at| log.record_at(at).ok());
        record.is_some_and(|record| record.end() == self.end)
    }
}

/// `reached` after a clean stop.
fn restarted(log: &Log, written: u64, reached: Option<Reached>, checkpoint: Option<&Checkpoint>) -> Restart {
    let (from, why) = if let Some(Reached { end: reached, .. }) = reached {
        match log.files().rfind(|file| file.base <= reached) {
            Some(file) => (file.base, format!("the queues reach to {reached}")),
            None => (
                log.start(),
                "no file begins before the end of the queues".to_owned(),
            ),
        }
    } else {
        let time = checkpoint.map_or(0, Checkpoint::recover_from);
        let good = |file: &&crate::store::segments::SegmentFile| {
            log.record_at(file.base)
                .ok()
                .and_then(|record| record.view().ok().map(|view| view.store_timestamp()))
                .is_some_and(|stored| stored > 0 && stored <= time)
        };
        match log.files().rfind(good) {
            Some(file) => (
                file.base,
                "the newest file whose first record is older than the checkpoint".to_owned(),
            ),
            None => (
                log.start(),
                "no file begins with a record older than the checkpoint".to_owned(),
            ),
        }
    };
    let rmq_from = reached
        .filter(|reached| reached.is_there(log))
        .map_or(from, |reached| reached.end);
    let (mut end, mut stops_at) = (None, None);
    let mut reached = from;
    for step in log.walk(from, true) {
        if step.at().saturating_sub(from) > RECOVERY_BYTES {
            break;
        }
        match step {
            Step::Gap(gap) => {
                end = Some(gap.at);
                stops_at = Some(gap.kind);
                break;
            }
            Step::Tail { at, .. } => end = Some(at),
            // Behind the filler of the last file nothing came: the next append writes over it.
            Step::Filler { at, len } if at.saturating_add(len) >= log.end() => end = Some(at),
            Step::Message { .. } | Step::Filler { .. } => reached = step.end(),
        }
    }
    if end.is_none() && reached >= log.end() {
        end = Some(reached);
    }
    Restart {
        from,
        why,
        rmq_from,
        cut: end.map_or(0, |end| {
            if stops_at.is_some() {
                written.saturating_sub(end)
            } else {
                0
            }
        }),
        end,
        stops_at,
    }
}
