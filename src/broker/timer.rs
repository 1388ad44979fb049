//! Messages with a time of delivery: from the queue of `rmq_sys_wheel_timer` into the slots of the wheel, and out of
//! them when their time comes.
//!
//! A slot is a step of `timerPrecisionMs`; its messages are due within the step behind it. Java delivers a slot when
//! its step is over. Here the slot is read shortly before it begins, and each message goes out at the very time that
//! it asked for, never before. Files and their meaning are Java's: slots from the checkpoint's read time on are still
//! to be delivered, so a crash repeats some messages of a step and loses none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::atomic::{
    AtomicI64, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::delay::Undelivered;
use super::topics::TIMER_TOPIC;
use super::{Broker, now_ms};
use crate::protocol::message::MessageView;
use crate::protocol::model::java_hash;
use crate::store::timer::{CheckFile, DEFAULT, DELETE, ROLL, TimerLog, Unit, Wheel};
use crate::store::{Appended, QueueEntry};

mod keep;
mod message;
mod metrics;
mod slots;

use message::Timed;
pub(super) use message::recall_key;
use metrics::{Metrics, Rate};
use slots::MOVED;

/// Messages put into the wheel before deliveries have their turn.
const ENQUEUE_ROUND: usize = 512;
/// Messages delivered before others are put into the wheel.
const DELIVER_ROUND: usize = 1024;
/// How long before its begin a slot is read, ms.
const READ_AHEAD_MS: i64 = 300;
/// A slot is read a millisecond earlier for so many messages.
const READ_PER_MS: i64 = 50;
/// Longest sleep while something waits, since the clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Pause before a put that was refused is tried again, ms.
const RETRY_MS: i64 = 100;
/// The time at which a message was put into the wheel when it never was, as Java writes it.
const NEVER_IN_WHEEL: i64 = i64::MAX;

/// The timer of a broker.
#[derive(Debug)]
pub(super) struct Timer {
    /// Step between two slots, ms.
    precision_ms: i64,
    /// A message farther away goes round the wheel.
    window_ms: i64,
    /// Held during a round. The wheel is locked inside it.
    core: Mutex<Core>,
    /// Held for single look-ups and changes.
    wheel: Mutex<Wheel>,
    /// Messages that wait, by topic.
    pub(super) metrics: Metrics,
    /// Tells that settings changed.
    pub(super) changed: Notify,
    /// Tells that something is to be flushed.
    dirty: Notify,
    queue_offset: AtomicI64,
    read_ms: AtomicI64,
    /// The earliest time of anything that is not delivered; the greatest number when nothing waits.
    next_due_ms: AtomicI64,
    enqueued: Rate,
    dequeued: Rate,
    /// Units and entries without the message that they stand for.
    dangling: AtomicU64,
}

#[derive(Debug)]
struct Core {
    log: TimerLog,
    check: crate::store::format::timer_check::TimerCheck,
    check_file: Arc<CheckFile>,
    /// Next message of the timer topic.
    queue_offset: i64,
    /// Queue offset and read time of which everything before holds.
    confirmed: (i64, i64),
    /// Messages of the slots that were read, by time.
    heap: BinaryHeap<Reverse<Due>>,
    seq: u64,
    /// Slots that were read, by time.
    open: BTreeMap<i64, Open>,
    /// What recalls of these slots take back.
    recalls: HashMap<String, Recall>,
    /// Slots before this time were read.
    read_to: i64,
    last_now: i64,
    /// The newest message that was put into the wheel.
    newest: Option<(i64, i32)>,
    /// Messages below this queue offset whose slots lie before this time were delivered by an earlier run.
    known: (i64, i64),
    /// The read time must reach this before the files are at rest.
    need_read_ms: i64,
    dirty: bool,
    /// Something was put of which it is not known yet that it holds.
    unconfirmed: bool,
    /// The last write of the log failed.
    log_failed: bool,
    /// The slot of the first message that the store refused and that waits for another try.
    put_off_ms: Option<i64>,
    cleaned: Instant,
}

/// A slot that was read.
#[derive(Debug, Default, Clone, Copy)]
struct Open {
    pending: u32,
    delivered: u32,
}

/// A message to deliver, ordered by time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: i64,
    seq: u64,
    slot: i64,
    offset: i64,
    size: i32,
    enqueued_ms: i64,
    magic: i32,
}

#[derive(Debug)]
struct Recall {
    slot: i64,
    offset: i64,
    size: i32,
    topic: String,
    found: bool,
}

/// What a round did.
#[derive(Debug, Default)]
struct Round {
    last: Option<Appended>,
    /// Time until there is something to do; `None` while nothing waits.
    sleep: Option<Duration>,
    /// End of the timer topic's queue as far as it was looked at.
    seen: i64,
}

impl Round {
    fn sleep_at_most(&mut self, ms: i64) {
        let time = Duration::from_millis(ms.max(0) as u64);
        self.sleep = Some(self.sleep.map_or(time, |known| known.min(time)));
    }
}

impl Timer {
    /// Step between two slots, ms.
    pub(super) fn precision_ms(&self) -> i64 {
        self.precision_ms
    }

    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wheel(&self) -> MutexGuard<'_, Wheel> {
        self.wheel.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn floor(&self, ms: i64) -> i64 {
        ms - ms.rem_euclid(self.precision_ms)
    }

    /// The time before which everything that went into the wheel was delivered; `now` at most.
    pub(super) fn delivered_to(&self, now: i64) -> i64 {
        self.next_due_ms.load(Acquire).min(now)
    }

    /// The slot of a message that came while the clock was so far ahead that this one knows of no such time: its delay
    /// begins now.
    fn slot_of_wrong_clock(
        &self,
        timed: &Timed,
        view: &MessageView<'_>,
        max_delay_ms: i64,
        now: i64,
    ) -> Option<i64> {
        let far = now.saturating_add(max_delay_ms).saturating_add(self.precision_ms);
        let stored = view.store_timestamp();
        let delay_ms = timed.out.saturating_sub(stored).clamp(0, max_delay_ms);
        (timed.out > far && stored > far).then(|| self.floor(now + delay_ms) + self.precision_ms)
    }

    /// Notes the earliest time of what is still to be delivered.
    fn note_next_due(&self, core: &mut Core) {
        let first_open = core.open.iter().find(|(_, open)| open.pending > 0);
        // One that was refused has a later time in the heap than it asked for.
        core.put_off_ms = core
            .put_off_ms
            .filter(|slot| first_open.is_some_and(|(first, _)| first <= slot));
        let next = [
            core.heap.peek().map(|Reverse(due)| due.at),
            core.put_off_ms,
            self.wheel().next(core.read_to).map(|(time, _)| time),
        ];
        let next = next.into_iter().flatten().min().unwrap_or(i64::MAX);
        self.next_due_ms.store(next, Release);
    }

    /// The next message of the timer topic that goes into the wheel.
    pub(super) fn next_offset(&self) -> i64 {
        self.queue_offset.load(Acquire)
    }

    /// True when the slot of a time takes no more, or shall take fewer: from `limit` messages on some are refused,
    /// from twice as many all.
    pub(super) fn is_congested(&self, slot_ms: i64, limit: i32) -> bool {
        if limit == i32::MAX {
            return false;
        }
        let (count, limit) = (
            i64::from(self.wheel().slot(slot_ms).count),
            i64::from(limit.max(0)),
        );
        if count <= limit {
            return false;
        }
        // The low digits of the clock are as good as dice.
        let dice = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(0, |t| i64::from(t.subsec_nanos()) / 128);
        count >= 2 * limit || dice % limit.max(1) < count - limit
    }

    /// Called once a second.
    pub(super) fn tick(&self) {
        self.enqueued.tick();
        self.dequeued.tick();
    }

    /// The timer's figures for the runtime info.
    pub(super) fn runtime_info(&self, queue_end: i64, mut put: impl FnMut(&str, String)) {
        // With nothing waiting nobody reads.
        let behind_ms = match self.wheel().count() {
            0 => 0,
            _ => (now_ms() - self.read_ms.load(Relaxed)).max(0),
        };
        put("timerReadBehind", (behind_ms / 1000).to_string());
        let behind = (queue_end - self.queue_offset.load(Relaxed)).max(0);
        put("timerOffsetBehind", behind.to_string());
        put("timerCongestNum", self.wheel().count().to_string());
        put("timerEnqueueTps", format!("{:?}", self.enqueued.per_second()));
        put("timerDequeueTps", format!("{:?}", self.dequeued.per_second()));
        put("rmqTimerDangling", self.dangling.load(Relaxed).to_string());
    }
}

impl Core {
    fn push(&mut self, mut due: Due) {
        self.seq += 1;
        due.seq = self.seq;
        self.open.entry(due.slot).or_default().pending += 1;
        self.heap.push(Reverse(due));
    }

    /// Writes the new units; false when that failed, which is tried again. Only the first failure is logged.
    fn write_out(&mut self, round: &mut Round) -> bool {
        let written = self.log.write_out();
        match &written {
            Ok(()) if self.log_failed => tracing::info!("the timer log can be written again"),
            Err(e) if !self.log_failed => {
                tracing::error!(error = %e, "the timer log cannot be written; this is tried until it works");
            }
            _ => {}
        }
        self.log_failed = written.is_err();
        if self.log_failed {
            round.sleep_at_most(RETRY_MS);
        }
        !self.log_failed
    }

    /// A message of a slot is done with.
    fn done(&mut self, slot: i64, precision_ms: i64) {
        if let Some(open) = self.open.get_mut(&slot) {
            open.pending = open.pending.saturating_sub(1);
            open.delivered += 1;
        }
        self.need_read_ms = self.need_read_ms.max(slot + precision_ms);
        self.dirty = true;
    }
}

impl Broker {
    /// Runs the timer until the broker stops.
    pub(super) async fn run_timer(self: Arc<Self>) {
        let mut bell = self.store.bell(TIMER_TOPIC, 0);
        while !self.stopping.is_cancelled() {
            let Some(timer) = &self.timer else { return };
            let broker = self.clone();
            let round = match tokio::task::spawn_blocking(move || broker.timer_round()).await {
                Ok(round) => round,
                Err(e) => {
                    tracing::error!(error = %e, "a round of the timer was aborted; it goes on");
                    tokio::time::sleep(Duration::from_millis(RETRY_MS as u64)).await;
                    continue;
                }
            };
            if !self.holds(round.last.as_ref()).await {
                return;
            }
            timer.confirm();
            if round.sleep == Some(Duration::ZERO) {
                continue;
            }
            let stopped = self.store.config().timer_stop_enqueue;
            if !stopped && *bell.borrow_and_update() > round.seen {
                continue;
            }
            let due = async {
                match round.sleep {
                    Some(time) => tokio::time::sleep(time.min(LONGEST_SLEEP)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.stopping.cancelled() => {}
                () = timer.changed.notified() => {}
                () = due => {}
                rung = bell.changed() => if rung.is_err() {
                    // The queue was deleted; its successor has another bell.
                    tokio::time::sleep(Duration::from_millis(RETRY_MS as u64)).await;
                    bell = self.store.bell(TIMER_TOPIC, 0);
                },
            }
        }
    }

    /// Delivers what is due, puts new messages into the wheel, reads the slots that are next.
    fn timer_round(&self) -> Round {
        let mut round = Round::default();
        let Some(timer) = &self.timer else { return round };
        let config = self.store.config();
        let mut core = timer.core();
        let core = &mut *core;
        let now = now_ms();
        if now < core.last_now - timer.precision_ms {
            tracing::warn!(
                now,
                before = core.last_now,
                "the clock was set back; the timer's slots are arranged anew"
            );
            if let Err(e) = timer.restart(core, &config, now) {
                tracing::error!(error = %e, "the timer's slots could not be arranged anew");
            }
        }
        core.last_now = now;
        let refused = !config.timer_stop_dequeue && self.deliver_due(timer, core, &mut round);
        if core.write_out(&mut round) && !config.timer_stop_enqueue {
            self.enqueue(timer, core, &mut round);
            core.write_out(&mut round);
        }
        if core.log.is_written() && !config.timer_stop_dequeue {
            self.read_slots(timer, core, &mut round);
        }
        timer.close_slots(core, now_ms());
        timer.note_next_due(core);
        if !config.timer_stop_dequeue
            && let Some(Reverse(next)) = core.heap.peek()
        {
            let wait = next.at - now_ms();
            round.sleep_at_most(if refused { wait.max(RETRY_MS) } else { wait });
        }
        core.unconfirmed = round.last.is_some();
        if core.dirty || timer.wheel().is_dirty() {
            timer.dirty.notify_one();
        }
        round
    }

    /// Delivers messages whose time has come. True when the store refused one.
    fn deliver_due(&self, timer: &Timer, core: &mut Core, round: &mut Round) -> bool {
        let mut done = 0;
        let (mut dangling, mut bad) = (0u64, 0u64);
        let mut refused = false;
        while let Some(&Reverse(due)) = core.heap.peek() {
            let now = now_ms();
            if due.at > now || done >= DELIVER_ROUND {
                break;
            }
            core.heap.pop();
            done += 1;
            match self.deliver_one(timer, core, &due, now) {
                Ok(appended) => round.last = appended.or(round.last),
                Err(Undelivered::Gone) => dangling += 1,
                Err(Undelivered::Bad(why)) => {
                    if bad == 0 {
                        tracing::warn!(offset = due.offset, why, "a timer message cannot be delivered");
                    }
                    bad += 1;
                }
                Err(Undelivered::Refused(e)) => {
                    tracing::debug!(error = %e, "delivery of a timer message is put off");
                    core.put_off_ms = core.put_off_ms.into_iter().chain([due.slot]).min();
                    core.heap.push(Reverse(Due {
                        at: now + RETRY_MS,
                        ..due
                    }));
                    refused = true;
                    break;
                }
            }
            timer.dequeued.add();
            core.done(due.slot, timer.precision_ms);
        }
        if dangling > 0 {
            timer.dangling.fetch_add(dangling, Relaxed);
            tracing::warn!(
                messages = dangling,
                "timer messages left out: their records are gone"
            );
        }
        refused
    }

    fn deliver_one(
        &self,
        timer: &Timer,
        core: &mut Core,
        due: &Due,
        now: i64,
    ) -> Result<Option<Appended>, Undelivered> {
        let record = self.store.record_at(due.offset).ok_or(Undelivered::Gone)?;
        let view = waiting(&record, due.offset, due.size).ok_or(Undelivered::Gone)?;
        let timed = Timed::of(&view, timer.precision_ms)
            .ok_or(Undelivered::Bad("it does not say where it belongs"))?;
        let roll = due.magic & ROLL != 0;
        if !roll
            && let Some(recall) = timed.key.as_ref().and_then(|key| core.recalls.get_mut(key))
            && recall.slot == due.slot
        {
            recall.found = true;
            return Ok(None);
        }
        if !roll && timed.recalls.is_some() {
            return Ok(None);
        }
        let delivered = self.deliver(&message::due(&view, &timed, due.enqueued_ms, roll, now));
        if !matches!(delivered, Err(Undelivered::Refused(_))) && due.enqueued_ms != NEVER_IN_WHEEL {
            timer.metrics.add(&timed.topic, -1);
        }
        delivered.map(Some)
    }

    /// Puts the next messages of the timer topic into the wheel, or delivers them when they are due already.
    fn enqueue(&self, timer: &Timer, core: &mut Core, round: &mut Round) {
        let found = self
            .store
            .entries(TIMER_TOPIC, 0, core.queue_offset, ENQUEUE_ROUND);
        let (mut dangling, mut bad) = (0u64, 0u64);
        for entry in &found.entries {
            core.queue_offset = entry.queue_offset + 1;
            core.dirty = true;
            let record = self.store.record_at(entry.offset);
            let view = record
                .as_deref()
                .and_then(|bytes| waiting(bytes, entry.offset, entry.size));
            let Some(view) = view else {
                dangling += 1;
                continue;
            };
            let Some(timed) = Timed::of(&view, timer.precision_ms) else {
                if bad == 0 {
                    tracing::warn!(
                        offset = entry.queue_offset,
                        "a message of the timer topic has no time or no topic; left out"
                    );
                }
                bad += 1;
                continue;
            };
            let (below, delivered_to) = core.known;
            if entry.queue_offset < below && timed.out < delivered_to {
                continue;
            }
            self.enqueue_one(timer, core, entry, &view, &timed, round);
        }
        core.queue_offset = core.queue_offset.max(found.next_offset);
        timer.queue_offset.store(core.queue_offset, Release);
        round.seen = core.queue_offset;
        if dangling + bad > 0 {
            timer.dangling.fetch_add(dangling, Relaxed);
            tracing::warn!(dangling, bad, "entries of the timer topic left out");
        }
        if found.entries.len() >= ENQUEUE_ROUND {
            round.sleep_at_most(0);
        }
    }

    fn enqueue_one(
        &self,
        timer: &Timer,
        core: &mut Core,
        entry: &QueueEntry,
        view: &MessageView<'_>,
        timed: &Timed,
        round: &mut Round,
    ) {
        let now = now_ms();
        let max_delay_ms = self.max_delay_ms();
        let write = timer.floor(now);
        let is_recall = timed.recalls.is_some();
        timer.enqueued.add();
        if timed.exact <= now {
            // A recall of what is delivered already does nothing.
            if is_recall {
                return;
            }
            match self.deliver(&message::due(view, timed, NEVER_IN_WHEEL, false, now)) {
                Ok(appended) => {
                    round.last = Some(appended);
                    timer.dequeued.add();
                    return;
                }
                Err(Undelivered::Refused(_)) => {}
                Err(e) => {
                    tracing::warn!(offset = entry.offset, why = ?e, "a timer message cannot be delivered");
                    return;
                }
            }
        }
        let moved = timer.slot_of_wrong_clock(timed, view, max_delay_ms, now);
        let mut slot = moved.unwrap_or(timed.out).max(write);
        let mut magic = if is_recall { DEFAULT | DELETE } else { DEFAULT };
        let half = timer.floor(timer.window_ms / 2);
        if slot - write >= timer.window_ms {
            magic |= ROLL;
            // Enough is left for the next time round.
            let rest = slot - write - timer.window_ms;
            slot = write
                + if rest < timer.window_ms / 3 {
                    half
                } else {
                    timer.window_ms
                };
        }
        let position = core.log.push(Unit {
            previous: timer.wheel().slot(slot).last,
            magic,
            write_time: write,
            delay_ms: i32::try_from(slot - write).unwrap_or(i32::MAX),
            offset: entry.offset,
            record_size: entry.size,
            topic_hash: java_hash(&timed.topic),
            reserved: if moved.is_some() { MOVED } else { 0 },
        });
        // Before anybody may take it for seen, see queue_offset.
        timer.next_due_ms.fetch_min(slot, Release);
        timer.wheel().put(slot, position, if is_recall { -1 } else { 1 });
        timer.metrics.add(&timed.topic, if is_recall { -1 } else { 1 });
        core.newest = Some((entry.offset, entry.size));
        if slot >= core.read_to {
            return;
        }
        match &timed.recalls {
            Some(key) if magic & ROLL == 0 => {
                core.recalls.insert(
                    key.clone(),
                    Recall {
                        slot,
                        offset: entry.offset,
                        size: entry.size,
                        topic: timed.topic.clone(),
                        found: false,
                    },
                );
                core.open.entry(slot).or_default();
            }
            _ => core.push(Due {
                at: if magic & ROLL == 0 && moved.is_none() {
                    timed.exact
                } else {
                    slot + timer.precision_ms
                },
                seq: 0,
                slot,
                offset: entry.offset,
                size: entry.size,
                enqueued_ms: write,
                magic,
            }),
        }
    }
}

/// The record of a waiting message, if that is what lies there.
fn waiting(bytes: &[u8], offset: i64, size: i32) -> Option<MessageView<'_>> {
    let view = MessageView::parse(bytes).ok()?;
    let is_it = view.topic() == TIMER_TOPIC
        && view.physical_offset() == offset
        && i64::try_from(view.size()) == Ok(i64::from(size));
    is_it.then_some(view)
}
