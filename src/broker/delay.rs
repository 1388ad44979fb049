//! Delay levels: messages wait in one queue a level until their time, then go where they belong.
//!
//! A queue is in order of time, so only its head is looked at. How far each level has come is kept in
//! `config/delayOffset.json` and moves only when what was delivered holds: a crash repeats some, and loses none.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::select_all;
use tokio::sync::{Notify, watch};

use super::stats::Named;
use super::tables::{self, TableFile};
use super::topics::{SCHEDULE_TOPIC, TRANS_HALF};
use super::waiting::real_place;
use super::{Broker, now_ms, put};
use crate::protocol::body::DelayOffsets;
use crate::protocol::message::MessageView;
use crate::protocol::model::DataVersion;
use crate::store::config::MOST_DELAY_LEVELS;
use crate::store::{AppendError, Appended, Durability, MessageStore, QueueEntry};

/// Messages of one level that are delivered before the others have their turn.
const ROUND: usize = 256;
/// Longest sleep while something waits, since the clock may be set.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);
/// Pause before a put that was refused is tried again.
const RETRY: Duration = Duration::from_millis(100);

/// Under which group the deliveries are counted, as in Java.
const DELIVERER: &str = "SCHEDULE_CONSUMER";

/// How far each level has come.
#[derive(Debug)]
pub(super) struct Delays {
    state: Mutex<State>,
    file: TableFile,
    levels: AtomicI32,
    /// Tells that levels may have become shorter.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    offsets: BTreeMap<i32, i64>,
    version: DataVersion,
    moves: i64,
}

impl Delays {
    /// Loads the table at `path`; progress outside its queue is moved to the queue's nearer end.
    pub(super) fn load(path: PathBuf, store: &MessageStore) -> Result<Self, tables::Error> {
        let file = TableFile::new(path);
        let saved: DelayOffsets = file.load()?.unwrap_or_else(|| DelayOffsets {
            data_version: DataVersion {
                timestamp: now_ms(),
                ..DataVersion::default()
            },
            ..DelayOffsets::default()
        });
        let mut offsets = saved.offset_table;
        offsets.retain(|level, offset| {
            if !(1..=MOST_DELAY_LEVELS as i32).contains(level) {
                tracing::warn!(level, "an entry of delayOffset.json is no level; it is left out");
                return false;
            }
            let (min, max) = (
                store.min_offset(SCHEDULE_TOPIC, level - 1),
                store.max_offset(SCHEDULE_TOPIC, level - 1),
            );
            let right = (*offset).min(max).max(min);
            if right != *offset {
                tracing::warn!(
                    level,
                    offset,
                    min,
                    max,
                    "delay progress lies outside its queue and is corrected"
                );
                *offset = right;
                file.mark();
            }
            true
        });
        Ok(Self {
            state: Mutex::new(State {
                offsets,
                version: saved.data_version,
                moves: 0,
            }),
            file,
            levels: AtomicI32::new(count(&store.config().delay_levels())),
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many levels there are.
    pub(super) fn levels(&self) -> i32 {
        self.levels.load(Ordering::Relaxed)
    }

    /// Takes over another list of levels.
    pub(super) fn set_levels(&self, levels: &[i64]) {
        self.levels.store(count(levels), Ordering::Relaxed);
        self.changed.notify_one();
    }

    /// Levels with messages delivered or looked at, and the next queue offset of each.
    pub(super) fn progress(&self) -> BTreeMap<i32, i64> {
        self.state().offsets.clone()
    }

    fn next_of(&self, level: i32) -> i64 {
        self.state().offsets.get(&level).copied().unwrap_or(0)
    }

    fn advance(&self, level: i32, next: i64, step: i64) {
        let mut state = self.state();
        if state.offsets.insert(level, next) == Some(next) {
            return;
        }
        state.moves += 1;
        if state.moves % step.max(1) == 0 {
            state.version = state.version.next(now_ms());
        }
        drop(state);
        self.file.mark();
    }

    /// The table as it is stored and sent.
    pub(super) fn snapshot(&self) -> DelayOffsets {
        let state = self.state();
        DelayOffsets {
            data_version: state.version,
            offset_table: state.offsets.clone(),
        }
    }

    /// True when memory is ahead of the file.
    pub(super) fn is_behind(&self) -> bool {
        self.file.is_marked()
    }

    /// Writes the table if it changed. Blocks on the disk.
    pub(super) fn save(&self) -> Result<(), tables::Error> {
        self.file.save_if_marked(|| self.snapshot())
    }
}

fn count(levels: &[i64]) -> i32 {
    i32::try_from(levels.len()).unwrap_or(i32::MAX).max(1)
}

/// Messages of one level whose times lie ahead although their delay has begun: the clock was set back. They wait for
/// the whole delay from the moment this was noticed, by a clock that cannot be set.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// Those below this queue offset are meant.
    below: i64,
    until: Instant,
}

/// One look at all levels.
#[derive(Debug, Default)]
struct Round {
    /// Level, next offset, and the last message put.
    moved: Vec<(i32, i64, Option<Appended>)>,
    /// Time until the next message is due.
    sleep: Option<Duration>,
    /// Queue and end of each level that has nothing waiting.
    empty: Vec<(i32, i64)>,
    held: BTreeMap<i32, Held>,
}

impl Round {
    fn sleep_at_most(&mut self, time: Duration) {
        self.sleep = Some(self.sleep.map_or(time, |known| known.min(time)));
    }
}

impl Broker {
    /// Delivers delayed messages until the broker stops.
    pub(super) async fn deliver_delayed(self: Arc<Self>) {
        let mut held = BTreeMap::new();
        let mut bells: BTreeMap<i32, watch::Receiver<i64>> = BTreeMap::new();
        while !self.stopping.is_cancelled() {
            let broker = self.clone();
            // Messages that waited for hours are read from the disk.
            let looked = tokio::task::spawn_blocking(move || broker.look_at_levels(held)).await;
            let round = match looked {
                Ok(round) => round,
                Err(e) => {
                    tracing::error!(error = %e, "delivering delayed messages was aborted; it goes on");
                    held = BTreeMap::new();
                    tokio::time::sleep(RETRY).await;
                    continue;
                }
            };
            let step = self.config().delay_offset_update_version_step;
            for (level, next, last) in &round.moved {
                if self.holds(last.as_ref()).await {
                    self.delays.advance(*level, *next, step);
                } else {
                    return;
                }
            }
            held = round.held;
            if round.sleep != Some(Duration::ZERO) {
                self.wait_for_level(&round.empty, round.sleep, &mut bells).await;
            }
        }
    }

    /// Waits until what was put holds. False when it never will, or the broker stops.
    pub(super) async fn holds(&self, last: Option<&Appended>) -> bool {
        let Some(last) = last else { return true };
        loop {
            let durability = tokio::select! {
                biased;
                // What holds already is told at a stop as well, else the next start would put it again.
                durability = self.store.durable(last, true) => durability,
                () = self.stopping.cancelled() => return false,
            };
            match durability {
                Durability::Done => return true,
                // It is in the log already; putting it once more would not make it faster.
                Durability::FlushTimeout => {}
                Durability::FlushFailed => return false,
            }
        }
    }

    /// Sleeps until a message is due, one comes to a level without any, or the levels change.
    async fn wait_for_level(
        &self,
        empty: &[(i32, i64)],
        sleep: Option<Duration>,
        bells: &mut BTreeMap<i32, watch::Receiver<i64>>,
    ) {
        bells.retain(|queue, _| empty.iter().any(|(q, _)| q == queue));
        for &(queue, end) in empty {
            let bell = bells
                .entry(queue)
                .or_insert_with(|| self.store.bell(SCHEDULE_TOPIC, queue));
            if *bell.borrow_and_update() > end {
                return;
            }
        }
        let rings = async {
            if bells.is_empty() {
                std::future::pending::<()>().await;
            }
            let (rung, _, _) = select_all(bells.values_mut().map(|bell| bell.changed().boxed())).await;
            if rung.is_err() {
                // The queue was deleted; its successor has another bell.
                tokio::time::sleep(RETRY).await;
            }
        };
        let due = async {
            match sleep {
                Some(time) => tokio::time::sleep(time.min(LONGEST_SLEEP)).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.stopping.cancelled() => {}
            () = self.delays.changed.notified() => {}
            () = due => {}
            () = rings => bells.retain(|_, bell| bell.has_changed().is_ok()),
        }
    }

    /// Delivers what is due, a bounded number of messages a level.
    fn look_at_levels(&self, held: BTreeMap<i32, Held>) -> Round {
        let mut round = Round {
            held,
            ..Round::default()
        };
        let delays = self.store.config().delay_levels();
        // Levels that were taken from the list may still have messages.
        let last = self
            .delays
            .state()
            .offsets
            .keys()
            .next_back()
            .copied()
            .unwrap_or(0);
        let queues = self
            .topics
            .get(SCHEDULE_TOPIC)
            .map_or(0, |topic| topic.read_queue_nums);
        for level in 1..=count(&delays).max(last).max(queues) {
            // As Java takes a level that it does not know.
            let delay = delays.get(level as usize - 1).copied().unwrap_or(1000);
            self.look_at_level(level, delay, &mut round);
        }
        round
    }

    fn look_at_level(&self, level: i32, delay: i64, round: &mut Round) {
        let queue = level - 1;
        let from = self.delays.next_of(level);
        let found = self.store.entries(SCHEDULE_TOPIC, queue, from, ROUND);
        let (mut next, mut last, mut gone, mut bad) = (from, None, 0, 0);
        let mut open = true;
        for entry in &found.entries {
            let now = now_ms();
            let record = self.store.record_at(entry.offset);
            let view = record.as_deref().and_then(|bytes| MessageView::parse(bytes).ok());
            let due_in = self.due_in(level, entry, view.as_ref(), delay, now, round);
            if due_in > 0 {
                round.sleep_at_most(Duration::from_millis(due_in as u64));
                next = entry.queue_offset;
                open = false;
                break;
            }
            match self.deliver_delayed_one(entry, view.as_ref()) {
                Ok(appended) => {
                    self.count_delivered(queue, appended.end - appended.offset);
                    last = Some(appended);
                }
                Err(Undelivered::Gone) => gone += 1,
                Err(Undelivered::Bad(why)) => {
                    if bad == 0 {
                        tracing::warn!(
                            level,
                            offset = entry.queue_offset,
                            why,
                            "a delayed message cannot be delivered"
                        );
                    }
                    bad += 1;
                }
                Err(Undelivered::Refused(e)) => {
                    tracing::debug!(level, error = %e, "delivery of a delayed message is put off");
                    round.sleep_at_most(RETRY);
                    next = entry.queue_offset;
                    open = false;
                    break;
                }
            }
            next = entry.queue_offset + 1;
        }
        if open {
            next = found.next_offset.max(next);
            if next < self.store.max_offset(SCHEDULE_TOPIC, queue) {
                round.sleep_at_most(if next > from { Duration::ZERO } else { RETRY });
            } else {
                round.empty.push((queue, next));
                round.held.remove(&level);
            }
        }
        if gone + bad > 1 {
            tracing::warn!(
                level,
                gone,
                bad,
                "delayed messages left out: their records are gone, or no delayed messages"
            );
        }
        if next != from || last.is_some() {
            round.moved.push((level, next, last));
        }
    }

    /// Counts a delivered message as got from its level, as Java's `ScheduleMessageService` does.
    fn count_delivered(&self, queue: i32, bytes: i64) {
        let key = format!("{SCHEDULE_TOPIC}@{queue}@{DELIVERER}");
        self.stats.count(Named::QueueGetNums, &key, 1);
        self.stats.count(Named::QueueGetSize, &key, bytes);
    }

    /// Time until a message is due, ms; 0 or less when it is.
    fn due_in(
        &self,
        level: i32,
        entry: &QueueEntry,
        view: Option<&MessageView<'_>>,
        delay: i64,
        now: i64,
        round: &mut Round,
    ) -> i64 {
        let due = entry.tags_code;
        if due.saturating_sub(now) <= delay {
            return due.saturating_sub(now);
        }
        match view {
            // The level was made shorter.
            Some(view) if view.store_timestamp() <= now => view
                .store_timestamp()
                .saturating_add(delay)
                .min(due)
                .saturating_sub(now),
            Some(_) => {
                let at = Instant::now();
                let known = round
                    .held
                    .get(&level)
                    .filter(|held| entry.queue_offset < held.below);
                let held = known.copied().unwrap_or_else(|| {
                    tracing::warn!(
                        level,
                        due,
                        now,
                        "the clock was set back; what is delayed waits for its whole delay"
                    );
                    Held {
                        below: self.store.max_offset(SCHEDULE_TOPIC, level - 1),
                        until: at + Duration::from_millis(delay.max(0) as u64),
                    }
                });
                round.held.insert(level, held);
                let left = held.until.saturating_duration_since(at);
                i64::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i64::MAX)
            }
            None => 0,
        }
    }

    fn deliver_delayed_one(
        &self,
        entry: &QueueEntry,
        view: Option<&MessageView<'_>>,
    ) -> Result<Appended, Undelivered> {
        let view = view
            .filter(|view| {
                view.physical_offset() == entry.offset && view.size() as i64 == i64::from(entry.size)
            })
            .ok_or(Undelivered::Gone)?;
        if view.topic() != SCHEDULE_TOPIC {
            return Err(Undelivered::Bad("its record is of another topic"));
        }
        let (topic, queue_id) =
            real_place(&view.properties()).ok_or(Undelivered::Bad("it does not say where it belongs"))?;
        // As Java: a half message is not delayed, and what is delayed twice never ends.
        if topic == TRANS_HALF || topic == SCHEDULE_TOPIC {
            return Err(Undelivered::Bad(
                "it belongs to a topic that takes no delayed messages",
            ));
        }
        let mut message = put::again(view);
        message.topic = topic;
        message.queue_id = queue_id;
        message.prepared_transaction_offset = 0;
        self.deliver(&message)
    }

    /// Puts a message that has waited where it belongs; it does not wait again.
    pub(super) fn deliver(
        &self,
        message: &crate::protocol::message::NewMessage,
    ) -> Result<Appended, Undelivered> {
        let started = Instant::now();
        let appended = self.store.append_again(message).map_err(|e| match e {
            AppendError::Illegal(_) => Undelivered::Bad("it is too long to be stored"),
            e => Undelivered::Refused(e),
        })?;
        let bytes = appended.end - appended.offset;
        let system = self.topics.is_system(&message.topic);
        self.stats
            .put(&message.topic, system, 1, bytes, started.elapsed());
        Ok(appended)
    }
}

/// Why a message that has waited was not delivered.
#[derive(Debug)]
pub(super) enum Undelivered {
    /// Its record is not there any more.
    Gone,
    /// It can never be delivered.
    Bad(&'static str),
    /// Not now.
    Refused(AppendError),
}
