//! Looks for records by key, id or body: by the index where it can, by reading the whole log where it must.
//!
//! A scan reads several segments at a time. What they find is handed out in the order of the log; a reader that is
//! ahead waits when it has found more than a little.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use regex::bytes::Regex;

use super::commit_log::{Gap, Log, Step};
use super::index::Verdict;
use super::record::{BODY_LIMIT, keys};
use super::tables::tables;
use super::{Error, Store};
use crate::protocol::message::MessageView;
use crate::protocol::message_id::parse_offset_id;
use crate::store::cursor::Record;

/// What is looked for.
#[derive(Debug, Clone)]
pub enum Find {
    /// A key or unique key, of one topic or of any.
    Key {
        /// The topic.
        topic: Option<String>,
        /// The key.
        key: String,
    },
    /// An offset id or a unique key.
    Id(String),
    /// A body, decompressed, that matches.
    Body(Regex),
}

/// How a search was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum How {
    /// By the offset in the id.
    Offset,
    /// By the index.
    Index {
        /// How many files it has.
        files: usize,
        /// How many topics were tried.
        topics: usize,
    },
    /// By reading the log.
    Scan {
        /// From this offset on.
        from: u64,
        /// To this one.
        to: u64,
        /// Segments read at a time.
        readers: usize,
    },
}

/// What a search meets.
#[derive(Debug, Clone)]
pub enum FindStep {
    /// A record that is looked for.
    Hit(Record),
    /// Damage that may hide one.
    Gap(Gap),
    /// So many bytes of the log are read. Only for showing.
    Read(u64),
}

/// A search that knows how it goes about it.
pub struct Search<'a> {
    how: How,
    hits: Vec<Record>,
    log: &'a Log,
    find: Find,
}

/// Most segments read at a time.
const MOST_READERS: usize = 4;
/// What a reader may have found before it waits for its turn.
const AHEAD: usize = 16;
/// How often the position is told while nothing is found.
const REPORT_EVERY: Duration = Duration::from_millis(100);

impl Find {
    /// Starts the search. With `scan` the index is not used.
    pub fn start<'a>(self, store: &Store, log: &'a Log, scan: bool) -> Result<Search<'a>, Error> {
        let found = match &self {
            _ if scan => None,
            Self::Body(_) => None,
            Self::Key { topic, key } => Some(by_index(store, log, topic.as_deref(), key)?),
            Self::Id(id) => match by_offset(log, id) {
                Some(record) => Some((How::Offset, vec![record])),
                None => Some(by_index(store, log, None, id)?),
            },
        };
        let (how, hits) = found.unwrap_or_else(|| {
            let how = How::Scan {
                from: log.start(),
                to: log.end(),
                readers: readers(log),
            };
            (how, Vec::new())
        });
        Ok(Search {
            how,
            hits,
            log,
            find: self,
        })
    }

    fn matches(&self, view: &MessageView<'_>) -> bool {
        match self {
            Self::Key { topic, key } => {
                topic.as_deref().is_none_or(|topic| topic == view.topic()) && keys(view).any(|k| k == key)
            }
            Self::Id(id) => keys(view).any(|key| key == id) || view.offset_id().eq_ignore_ascii_case(id),
            Self::Body(pattern) => view
                .decoded_body(BODY_LIMIT)
                .is_ok_and(|body| pattern.is_match(&body)),
        }
    }
}

fn by_offset(log: &Log, id: &str) -> Option<Record> {
    let (_, offset) = parse_offset_id(id).ok()?;
    let record = log.record_at(u64::try_from(offset).ok()?).ok()?;
    let same = record.view().ok()?.offset_id().eq_ignore_ascii_case(id);
    same.then_some(record)
}

/// All topics that the store knows of, since the index holds hashes of topic and key together.
pub(super) fn topics(store: &Store) -> Result<BTreeSet<String>, Error> {
    let mut topics = BTreeSet::new();
    if !store.is_rocks_db() {
        topics.extend(store.queues()?.into_iter().map(|(name, _)| name.topic));
    }
    let table = tables(store)?
        .into_iter()
        .find(|table| table.name == "topics.json");
    if let Some(named) = table
        .as_ref()
        .and_then(|table| table.content()?.get("topicConfigTable")?.as_object())
    {
        topics.extend(named.keys().cloned());
    }
    Ok(topics)
}

fn by_index(store: &Store, log: &Log, topic: Option<&str>, key: &str) -> Result<(How, Vec<Record>), Error> {
    let index = store.index()?;
    let topics = match topic {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => topics(store)?,
    };
    let mut hits: Vec<Record> = Vec::new();
    for file in index.files().iter().filter(|file| !file.is_empty()) {
        for topic in &topics {
            let walk = index.walk_key(file, topic, key, log, false)?;
            hits.extend(
                walk.items
                    .into_iter()
                    .filter(|item| item.verdict == Verdict::Hit)
                    .filter_map(|item| item.record),
            );
        }
    }
    hits.sort_by_key(|record| record.at);
    hits.dedup_by_key(|record| record.at);
    let how = How::Index {
        files: index.files().len(),
        topics: topics.len(),
    };
    Ok((how, hits))
}

/// How many segments are read at a time.
fn readers(log: &Log) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.min(MOST_READERS).min(log.files().count()).max(1)
}

impl Search<'_> {
    /// How it is done.
    pub fn how(&self) -> &How {
        &self.how
    }

    /// Searches, and hands what is found to `each` in the order of the log until that breaks it off.
    pub fn run(self, mut each: impl FnMut(FindStep) -> ControlFlow<()>) {
        let How::Scan { readers, .. } = self.how else {
            for record in self.hits {
                if each(FindStep::Hit(record)).is_break() {
                    return;
                }
            }
            return;
        };
        let ranges: Vec<(u64, u64)> = self
            .log
            .files()
            .map(|file| (file.base, file.base.saturating_add(file.len)))
            .collect();
        let (senders, receivers): (Vec<SyncSender<FindStep>>, Vec<Receiver<FindStep>>) =
            ranges.iter().map(|_| sync_channel(AHEAD)).unzip();
        let shared = Shared {
            next: AtomicUsize::new(0),
            read: AtomicU64::new(0),
            stop: AtomicBool::new(false),
        };
        let senders: Vec<_> = senders
            .into_iter()
            .map(|sender| std::sync::Mutex::new(Some(sender)))
            .collect();
        std::thread::scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| {
                    loop {
                        let n = shared.next.fetch_add(1, Ordering::Relaxed);
                        let (Some(&range), Some(sender)) = (ranges.get(n), senders.get(n)) else {
                            return;
                        };
                        let sender = sender
                            .lock()
                            .unwrap_or_else(std::sync::PoisonError::into_inner)
                            .take();
                        if let Some(sender) = sender {
                            read(self.log, &self.find, range, &shared, &sender);
                        }
                    }
                });
            }
            for receiver in receivers {
                if hand_out(&receiver, &shared, &mut each).is_break() {
                    shared.stop.store(true, Ordering::Relaxed);
                    // The rest of the receivers go with the loop, so that nobody waits to send.
                    break;
                }
            }
        });
    }
}

/// What the readers share.
struct Shared {
    /// Number of the next segment.
    next: AtomicUsize,
    /// Bytes that were read.
    read: AtomicU64,
    stop: AtomicBool,
}

/// Reads one segment.
fn read(log: &Log, find: &Find, (from, to): (u64, u64), shared: &Shared, out: &SyncSender<FindStep>) {
    let mut at = from;
    for step in log.walk(from, true) {
        if step.at() >= to || shared.stop.load(Ordering::Relaxed) {
            break;
        }
        let end = step.end().min(to);
        shared.read.fetch_add(end.saturating_sub(at), Ordering::Relaxed);
        at = end.max(at);
        let found = match step {
            Step::Message { record, .. } => {
                let is_hit = record.view().is_ok_and(|view| find.matches(&view));
                // What waits must not keep all that was read with it.
                is_hit.then(|| {
                    FindStep::Hit(Record {
                        at: record.at,
                        bytes: bytes::Bytes::copy_from_slice(&record.bytes),
                    })
                })
            }
            Step::Gap(gap) => Some(FindStep::Gap(gap)),
            Step::Filler { .. } | Step::Tail { .. } => None,
        };
        if let Some(found) = found
            && out.send(found).is_err()
        {
            return;
        }
    }
    shared.read.fetch_add(to.saturating_sub(at), Ordering::Relaxed);
}

/// Hands out what one segment has, until its reader is through.
fn hand_out(
    receiver: &Receiver<FindStep>,
    shared: &Shared,
    each: &mut impl FnMut(FindStep) -> ControlFlow<()>,
) -> ControlFlow<()> {
    loop {
        match receiver.recv_timeout(REPORT_EVERY) {
            Ok(step) => each(step)?,
            Err(RecvTimeoutError::Timeout) => each(FindStep::Read(shared.read.load(Ordering::Relaxed)))?,
            Err(RecvTimeoutError::Disconnected) => return ControlFlow::Continue(()),
        }
    }
}
