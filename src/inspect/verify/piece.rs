//! One piece of the log, a few files of it, read by one thread: each record with its checksum, its queue entry and its
//! index items.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use super::compare::{Amiss, Lookup, Picked, Topics};
use super::items::{Compared, Join, Runs, hash_on};
use super::log::{gap_finding, whole_finding};
use super::sides::{Sides, of_number};
use super::throttle::Throttle;
use super::{Depth, Finding};
use crate::inspect::commit_log::{Log, Step};
use crate::inspect::index::Index;
use crate::inspect::info::Info;
use crate::inspect::{Error, Store};
use crate::protocol::message::MessageView;
use crate::protocol::model::SysFlag;
use crate::store::cursor::Record;
use crate::store::reader::QueueName;
use crate::store::segments::SegmentFile;

/// Bytes between two looks at throttle and cancellation.
const STRIDE: u64 = 1024 * 1024;
/// Bytes that a piece has at least, unless the log ends or has a hole.
const PIECE: u64 = 64 * 1024 * 1024;

/// A run of files without a hole between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) from: u64,
    pub(super) to: u64,
}

/// Cuts a log into pieces.
pub(super) fn pieces<'a>(files: impl Iterator<Item = &'a SegmentFile>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for file in files.filter(|file| file.len > 0) {
        let to = file.base.saturating_add(file.len);
        match pieces.last_mut() {
            Some(piece) if piece.to == file.base && piece.to - piece.from < PIECE => piece.to = to,
            _ => pieces.push(Piece { from: file.base, to }),
        }
    }
    pieces
}

/// Records one after the other in a queue that no entry leads to.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) count: u64,
    pub(super) at: u64,
    pub(super) what: String,
    pub(super) code: &'static str,
    pub(super) is_late: bool,
}

impl Run {
    /// Takes in a run of the same kind that begins right behind this one.
    pub(super) fn join(&mut self, next: &Self) -> bool {
        let fits = self.code == next.code && self.first.checked_add(self.count) == Some(next.first);
        if fits {
            self.count += next.count;
        }
        fits
    }
}

/// What a thread tells.
pub(super) enum Event {
    /// Damage that ends at this offset.
    Gap(Finding, u64),
    /// Records that are older than those before a gap begin here.
    Stale(u64),
    /// Something else.
    Found(Finding),
    /// Records without their entries. Open when the piece ended with them.
    Run { name: QueueName, run: Run, open: bool },
    /// The piece is through.
    Done(Box<Done>),
    /// The store cannot be read.
    Failed(Error),
}

/// What a piece came to.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) records: u64,
    /// Entries that a record was found for, by place of the queue.
    pub(super) matched: Vec<(usize, u64)>,
    pub(super) compared: Compared,
}

/// What all threads share.
pub(super) struct Context<'a> {
    pub(super) store: &'a Store,
    pub(super) info: &'a Info,
    pub(super) depth: Depth,
    pub(super) log: &'a Log,
    pub(super) index: &'a Index,
    pub(super) runs: &'a Runs,
    pub(super) sides: Sides,
    pub(super) topics: Topics,
    /// Physical offset behind the last record that any queue knows of.
    pub(super) reached: u64,
    pub(super) threads: usize,
    pub(super) throttle: &'a Throttle,
    pub(super) cancelled: &'a AtomicBool,
    pub(super) done: AtomicU64,
}

/// Nobody listens any more, or the store cannot be read.
enum Ended {
    Quiet,
    Failed(Error),
}

impl From<Error> for Ended {
    fn from(e: Error) -> Self {
        Self::Failed(e)
    }
}

/// The topic of the last record, and what is known of it.
struct LastTopic<'a> {
    topic: String,
    /// Hash of `topic#`.
    prefix: i32,
    numbers: &'a [(i32, usize)],
}

/// What one thread keeps from piece to piece.
pub(super) struct Worker<'a> {
    context: &'a Context<'a>,
    lookup: Lookup<'a>,
    /// Matched entries of this piece, by place of the queue; and which are not 0.
    matched: Vec<u64>,
    touched: Vec<usize>,
    runs: HashMap<QueueName, Run>,
    last: LastTopic<'a>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            lookup: Lookup::new(context),
            matched: vec![0; context.sides.len()],
            touched: Vec::new(),
            runs: HashMap::new(),
            last: LastTopic {
                topic: String::new(),
                prefix: hash_on(0, "#"),
                numbers: &[],
            },
        }
    }

    /// Reads a piece and tells what it meets.
    pub(super) fn read(&mut self, piece: Piece, to: &SyncSender<Event>) {
        if let Err(Ended::Failed(e)) = self.read_inner(piece, to) {
            // Nobody to tell when it was given up.
            let _ = to.send(Event::Failed(e));
        }
    }

    fn read_inner(&mut self, piece: Piece, tx: &SyncSender<Event>) -> Result<(), Ended> {
        let context = self.context;
        let send = |event| tx.send(event).map_err(|_| Ended::Quiet);
        let mut done = Done::default();
        let mut stale_told = false;
        // What came after the pass began is left out.
        let end = if context.log.is_live() {
            piece.to.min(context.info.log_end)
        } else {
            piece.to
        };
        let mut join = (context.depth == Depth::Full).then(|| {
            let end = end.min(context.info.log_end);
            Join::new(context.index, context.runs, piece.from, end)
        });
        let mut reported = piece.from;
        for step in context.log.walk(piece.from, true) {
            if step.at() >= end {
                break;
            }
            let reached = step.end().min(end);
            if reached - reported >= STRIDE {
                self.took(reached - reported);
                reported = reached;
                if context.cancelled.load(Ordering::Relaxed) {
                    return Err(Ended::Quiet);
                }
            }
            match step {
                Step::Message { record, stale } => {
                    done.records += 1;
                    if stale && !stale_told {
                        stale_told = true;
                        send(Event::Stale(record.at))?;
                    }
                    self.record(&record, join.as_mut(), tx)?;
                }
                Step::Gap(gap) => {
                    let finding = gap_finding(context.info, &gap);
                    send(Event::Gap(finding, gap.at.saturating_add(gap.len)))?;
                }
                Step::Filler { .. } | Step::Tail { .. } => {}
            }
        }
        self.took(end.saturating_sub(reported));
        let mut open: Vec<_> = self.runs.drain().collect();
        open.sort_by_key(|(_, run)| run.at);
        for (name, run) in open {
            send(Event::Run {
                name,
                run,
                open: true,
            })?;
        }
        done.matched = self
            .touched
            .drain(..)
            .map(|side| (side, std::mem::take(&mut self.matched[side])))
            .collect();
        if let Some(join) = join {
            done.compared = join.finish(end.min(context.info.log_end));
        }
        send(Event::Done(Box::new(done)))
    }

    fn took(&self, bytes: u64) {
        self.context.done.fetch_add(bytes, Ordering::Relaxed);
        self.context.throttle.took(bytes, self.context.cancelled);
    }

    fn record(
        &mut self,
        record: &Record,
        join: Option<&mut Join<'_>>,
        tx: &SyncSender<Event>,
    ) -> Result<(), Ended> {
        let Ok(view) = record.view() else { return Ok(()) };
        let at = record.at;
        if let Some(Err(fault)) = view.check_whole() {
            let finding = whole_finding(self.context.log, &view, at, &fault);
            tx.send(Event::Found(finding)).map_err(|_| Ended::Quiet)?;
        }
        if self.last.topic != view.topic() {
            let topic = view.topic();
            topic.clone_into(&mut self.last.topic);
            self.last.prefix = hash_on(hash_on(0, topic), "#");
            self.last.numbers = self.context.sides.topic(topic);
        }
        let picked = Picked::of(&view);
        let transaction = view.sys_flag().transaction();
        if let Some(join) = join {
            // A roll-back is not indexed.
            let keys = if transaction == SysFlag::TRANSACTION_ROLLBACK {
                [None; 2]
            } else {
                [picked.unique_key, picked.keys]
            };
            join.record(&view, at, self.last.prefix, keys);
        }
        let is_hidden =
            transaction == SysFlag::TRANSACTION_PREPARED || transaction == SysFlag::TRANSACTION_ROLLBACK;
        if is_hidden || self.context.info.rocks_db {
            return Ok(());
        }
        let side = of_number(self.last.numbers, view.queue_id());
        let amiss = self
            .lookup
            .look(side, view.topic(), view.queue_offset(), &view, &picked, at)?;
        let home = |topic: &str, queue_id| QueueName {
            topic: topic.to_owned(),
            queue_id,
        };
        self.note(
            side,
            amiss,
            view.queue_offset(),
            at,
            || home(view.topic(), view.queue_id()),
            tx,
        )?;
        let (Some(queues), Some(offsets)) = (picked.queues, picked.offsets) else {
            return Ok(());
        };
        for (topic, offset) in queues.split(',').zip(offsets.split(',')) {
            // Whether a broker dispatches these at all is up to its configuration.
            let side = of_number(self.context.sides.topic(topic), 0);
            if let (Ok(offset), Some(_)) = (offset.parse(), side) {
                let amiss = self.lookup.look(side, topic, offset, &view, &picked, at)?;
                self.note(side, amiss, offset, at, || home(topic, 0), tx)?;
            }
        }
        Ok(())
    }

    /// Counts a match, or adds to the run of those that are none.
    fn note(
        &mut self,
        side: Option<usize>,
        amiss: Option<Amiss>,
        queue_offset: i64,
        at: u64,
        name: impl Fn() -> QueueName,
        tx: &SyncSender<Event>,
    ) -> Result<(), Ended> {
        let close = |name, run| {
            let event = Event::Run {
                name,
                run,
                open: false,
            };
            tx.send(event).map_err(|_| Ended::Quiet)
        };
        let Some((code, what)) = amiss else {
            if let Some(side) = side {
                if self.matched[side] == 0 {
                    self.touched.push(side);
                }
                self.matched[side] += 1;
            }
            if self.runs.is_empty() {
                return Ok(());
            }
            let name = name();
            return match self.runs.remove(&name) {
                Some(run) => close(name, run),
                None => Ok(()),
            };
        };
        let new = Run {
            first: u64::try_from(queue_offset).unwrap_or(0),
            count: 1,
            at,
            what,
            code,
            is_late: at >= self.context.reached,
        };
        let name = name();
        let Some(run) = self.runs.get_mut(&name) else {
            self.runs.insert(name, new);
            return Ok(());
        };
        if run.join(&new) {
            return Ok(());
        }
        let run = std::mem::replace(run, new);
        close(name, run)
    }
}

/// The queue of a record in words.
pub(super) fn whose(view: &MessageView<'_>) -> String {
    format!(
        "in the record of {}@{} queue offset {}",
        view.topic(),
        view.queue_id(),
        view.queue_offset()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_holes_and_are_not_small() {
        let file = |base: u64, len: u64| SegmentFile {
            base,
            path: format!("{base:020}").into(),
            len,
        };
        let half = PIECE / 2;
        let files = [
            file(0, half),
            file(half, half),
            file(PIECE, half),
            file(3 * PIECE, half),
            file(3 * PIECE + half, 0),
        ];
        let piece = |from, to| Piece { from, to };
        assert_eq!(
            pieces(files.iter()),
            [
                piece(0, PIECE),
                piece(PIECE, PIECE + half),
                piece(3 * PIECE, 3 * PIECE + half)
            ]
        );
    }
}
