//! The log: pieces of it are read by several threads; what they tell is put together in the order of the log.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::compare::Topics;
use super::index;
use super::items::{Compared, Runs};
use super::piece::{Context, Done, Event, Piece, Run, Worker, pieces, whose};
use super::sides::Sides;
use super::state::{Block, State};
use super::{Depth, Finding, Pass, Severity, Stop, is_unfinished};
use crate::inspect::commit_log::{Gap, Log};
use crate::inspect::index::Index;
use crate::inspect::info::Info;
use crate::protocol::message::{Fault, MessageView};
use crate::store::reader::QueueName;

/// Bytes of the log that a thread reads at once.
pub(super) const READ_AHEAD: usize = 512 * 1024;
/// What a thread may have told before anybody listened.
const BACKLOG: usize = 64;
/// Pause between two reports of the progress.
const TICK: Duration = Duration::from_millis(100);

/// Entries that a record was found for, by queue.
pub(super) type Matched = HashMap<QueueName, u64>;

/// Compares the log with queues and index. Returns what the queues need to know.
pub(super) fn check(pass: &mut Pass<'_>, log: &Log, index: &Index, runs: &Runs) -> Result<Matched, Stop> {
    let info = pass.info;
    let mut state = None;
    let (from, mut merged) = match pass.depth {
        Depth::Quick => {
            begins(pass, log)?;
            (log.newest_base(), Merged::default())
        }
        Depth::Full => {
            let (opened, merged) = State::open(pass, log)?;
            state = opened;
            (merged.to.max(log.start()), merged)
        }
    };
    let begin = match pass.depth {
        Depth::Quick => from,
        Depth::Full => log.start(),
    };
    let total = info.log_end.saturating_sub(begin);
    let pieces = pieces(log.files().filter(|file| file.base >= from));
    let reached = info
        .queues
        .iter()
        .map(|q| q.bounds.physical_end)
        .max()
        .unwrap_or(0);
    let context = Context {
        store: pass.store,
        info,
        depth: pass.depth,
        log,
        index,
        runs,
        sides: Sides::new(pass)?,
        topics: Topics::new(info),
        reached: u64::try_from(reached).unwrap_or(0),
        threads: pass.threads(pieces.len()),
        // The throttle outlives the borrow of the pass.
        throttle: &super::Throttle::new(pass.options.bytes_per_second),
        cancelled: &std::sync::atomic::AtomicBool::new(false),
        done: AtomicU64::new(from.saturating_sub(begin)),
    };
    let mut tellers: Vec<Receiver<Event>> = Vec::with_capacity(pieces.len());
    let mut listeners: Vec<Mutex<Option<SyncSender<Event>>>> = Vec::with_capacity(pieces.len());
    for _ in &pieces {
        let (tx, rx) = sync_channel(BACKLOG);
        tellers.push(rx);
        listeners.push(Mutex::new(Some(tx)));
    }
    let next = AtomicUsize::new(0);
    let mut gather = Gather {
        pass,
        context: &context,
        merged: &mut merged,
        state: state.as_mut(),
        total,
    };
    let gathered = std::thread::scope(|scope| {
        for _ in 0..context.threads.min(pieces.len()) {
            scope.spawn(|| {
                let mut worker = Worker::new(&context);
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(&piece), Some(listener)) = (pieces.get(n), listeners.get(n)) else {
                        break;
                    };
                    let tx = listener.lock().unwrap_or_else(PoisonError::into_inner).take();
                    if let Some(tx) = tx {
                        worker.read(piece, &tx);
                    }
                }
            });
        }
        let gathered = pieces
            .iter()
            .zip(tellers)
            .try_for_each(|(&piece, teller)| gather.piece(piece, &teller));
        if gathered.is_err() {
            context.cancelled.store(true, Ordering::Relaxed);
            next.store(pieces.len(), Ordering::Relaxed);
        }
        gathered
    });
    gathered?;
    pass.report.records = merged.records;
    pass.report.bytes = total;
    pass.at("commit log", total, total)?;
    let mut open: Vec<(QueueName, Run)> = std::mem::take(&mut merged.open).into_iter().collect();
    open.sort_by_key(|(_, run)| run.at);
    for (name, run) in open {
        finish(pass, &context, &name, &run)?;
    }
    index::compared(pass, index, log, &merged.compared)?;
    Ok(merged.matched)
}

/// What the pieces so far came to.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// Offset behind the last piece that is through.
    pub(super) to: u64,
    pub(super) records: u64,
    pub(super) matched: Matched,
    pub(super) compared: Compared,
    /// Runs that ended with their piece, and may go on in the next.
    pub(super) open: HashMap<QueueName, Run>,
    /// Offset behind the last gap.
    pub(super) gap_end: u64,
    pub(super) stale_told: bool,
}

struct Gather<'p, 'a, 'c> {
    pass: &'p mut Pass<'a>,
    context: &'c Context<'c>,
    merged: &'p mut Merged,
    state: Option<&'p mut State>,
    total: u64,
}

impl Gather<'_, '_, '_> {
    /// Listens until a piece is through.
    fn piece(&mut self, piece: Piece, teller: &Receiver<Event>) -> Result<(), Stop> {
        let mut block = Block::default();
        loop {
            match teller.recv_timeout(TICK) {
                Ok(Event::Done(done)) => return self.done(piece, *done, block),
                Ok(event) => self.event(event, &mut block)?,
                Err(RecvTimeoutError::Timeout) => self.tick()?,
                // It was given up; whoever did that has the reason.
                Err(RecvTimeoutError::Disconnected) => return Err(Stop::Asked),
            }
        }
    }

    fn tick(&mut self) -> Result<(), Stop> {
        let done = self.context.done.load(Ordering::Relaxed).min(self.total);
        self.pass.report.bytes = done;
        self.pass.at("commit log", done, self.total)
    }

    fn event(&mut self, event: Event, block: &mut Block) -> Result<(), Stop> {
        match event {
            Event::Gap(finding, end) => {
                // A gap across two pieces is met again where the second begins.
                let is_known = finding.offset.is_some_and(|at| at < self.merged.gap_end);
                self.merged.gap_end = self.merged.gap_end.max(end);
                if !is_known {
                    self.find(finding, block)?;
                }
            }
            Event::Stale(at) => {
                if !std::mem::replace(&mut self.merged.stale_told, true) {
                    self.find(stale_finding(self.context.log, at), block)?;
                }
            }
            Event::Found(finding) => self.find(finding, block)?,
            Event::Run { name, mut run, open } => {
                if let Some(mut before) = self.merged.open.remove(&name) {
                    if before.join(&run) {
                        run = before;
                    } else {
                        self.finish(&name, &before, block)?;
                    }
                }
                if open {
                    self.merged.open.insert(name, run);
                } else {
                    self.finish(&name, &run, block)?;
                }
            }
            Event::Failed(e) => return Err(Stop::Failed(e)),
            Event::Done(_) => {}
        }
        Ok(())
    }

    fn find(&mut self, finding: Finding, block: &mut Block) -> Result<(), Stop> {
        if self.state.is_some() {
            block.finding(&finding);
        }
        self.pass.find(finding)
    }

    fn finish(&mut self, name: &QueueName, run: &Run, block: &mut Block) -> Result<(), Stop> {
        match run_finding(self.context, name, run) {
            Some(finding) => self.find(finding, block),
            None => Ok(()),
        }
    }

    fn done(&mut self, piece: Piece, done: Done, block: Block) -> Result<(), Stop> {
        let merged = &mut *self.merged;
        merged.to = piece.to;
        merged.records += done.records;
        for (side, count) in &done.matched {
            let name = self.context.sides.get(*side).name.clone();
            *merged.matched.entry(name).or_default() += count;
        }
        merged.compared.merge(done.compared);
        if let Some(state) = self.state.as_mut() {
            state.write(
                block,
                &self.context.sides,
                &done.matched,
                merged,
                self.context.log,
            )?;
        }
        self.tick()?;
        Ok(())
    }
}

/// The begin of each segment but the newest.
fn begins(pass: &mut Pass<'_>, log: &Log) -> Result<(), Stop> {
    let newest = log.newest_base();
    for file in log.files().filter(|file| file.base < newest) {
        if let Err(kind) = log.record_at(file.base) {
            let gap = Gap {
                at: file.base,
                len: 0,
                kind,
                file: Some(file.path.clone()),
                record: None,
                is_last: false,
            };
            pass.find(gap_finding(pass.info, &gap))?;
        }
    }
    Ok(())
}

pub(super) fn gap_finding(info: &Info, gap: &Gap) -> Finding {
    let whose = gap
        .record
        .as_ref()
        .and_then(|record| Some(format!(", {}", whose(&record.view().ok()?))))
        .unwrap_or_default();
    let meaning = match &info.recovery {
        _ if gap.is_last => "nothing valid follows; the next start cuts the log here".to_owned(),
        None => "whether the next start reaches it is told by queues in RocksDB, which are not read; consumers cannot \
                 read past it"
            .to_owned(),
        Some(recovery) if gap.at >= recovery.rmq_from => format!(
            "the next start cuts the log here with the {} bytes behind it; rmq keeps the whole records of those in \
             lost/, a Java broker does not",
            info.log_end.saturating_sub(gap.at)
        ),
        Some(recovery) if gap.at >= recovery.from => format!(
            "rmq begins behind it, at {}, and reads past it; a Java broker begins at {} and cuts the log here with the {} \
             bytes behind it",
            recovery.rmq_from,
            recovery.from,
            info.log_end.saturating_sub(gap.at)
        ),
        Some(recovery) => format!(
            "recovery begins behind it, at {}, and does not notice; rmq reads past it, consumers of a Java broker cannot",
            recovery.from
        ),
    };
    Finding {
        severity: Severity::Error,
        code: "damaged-record",
        subject: "commit log".into(),
        file: gap.file.clone(),
        offset: Some(gap.at),
        len: Some(gap.len),
        what: format!("{}{whose}", gap.kind),
        meaning,
    }
}

/// A record whose body is good and which is not what was stored all the same.
pub(super) fn whole_finding(log: &Log, view: &MessageView<'_>, at: u64, fault: &Fault) -> Finding {
    Finding {
        severity: Severity::Error,
        code: "record-checksum",
        subject: "commit log".into(),
        file: log.file_of(at).map(|file| file.path.clone()),
        offset: Some(at),
        len: Some(view.size() as u64),
        what: format!("{fault}, {}", whose(view)),
        meaning: "the body is good; a field or a property is not as it was stored".into(),
    }
}

fn stale_finding(log: &Log, at: u64) -> Finding {
    Finding {
        severity: Severity::Warning,
        code: "stale-records",
        subject: "commit log".into(),
        file: log.file_of(at).map(|file| file.path.clone()),
        offset: Some(at),
        len: None,
        what: "records behind the damage are older than those before it".into(),
        meaning: "most likely left over from before the log was cut here; no queue should lead to them"
            .into(),
    }
}

fn finish(pass: &mut Pass<'_>, context: &Context<'_>, name: &QueueName, run: &Run) -> Result<(), Stop> {
    match run_finding(context, name, run) {
        Some(finding) => pass.find(finding),
        None => Ok(()),
    }
}

fn run_finding(context: &Context<'_>, name: &QueueName, run: &Run) -> Option<Finding> {
    // What the queues have not reached is dispatched at the next start, or by the running broker just now.
    let late = run.is_late && run.code.starts_with("missing");
    if late && context.info.holder.is_some() {
        return None;
    }
    let severity = match run.code {
        "deleted-topic" => Severity::Info,
        _ if late => Severity::Warning,
        _ => Severity::Error,
    };
    let meaning = if run.code == "deleted-topic" {
        "the records go with their files"
    } else if late && is_unfinished(context.info) {
        "not dispatched before the crash; the next start adds the entries"
    } else if late {
        "the queues end before the log; a Java broker adds the entries at its next start, except the first"
    } else if run.code == "missing-queue" || run.code == "missing-entry" {
        "consumers do not get these messages"
    } else {
        "consumers do not get these messages at their offsets"
    };
    let last = run.first.saturating_add(run.count - 1);
    let range = if run.count == 1 {
        format!("queue offset {last}")
    } else {
        format!("queue offsets {} to {last}", run.first)
    };
    let side = super::sides::of_number(context.sides.topic(&name.topic), name.queue_id);
    let queue = side.and_then(|side| {
        let side = context.sides.get(side);
        context.store.queue(side.name.clone(), side.kind).ok()
    });
    Some(Finding {
        severity,
        code: run.code,
        subject: format!("{}@{}", name.topic, name.queue_id),
        file: queue.and_then(|queue| queue.place(run.first).map(|(file, _)| file)),
        offset: Some(run.first),
        len: Some(run.count),
        what: format!("{range}: {} (first record at {})", run.what, run.at),
        meaning: meaning.into(),
    })
}
