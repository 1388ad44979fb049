//! The timer's files: loaded at start, flushed while something changed, put in order at a clean stop.

use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::super::topics::TIMER_TOPIC;
use super::super::{Broker, Error, now_ms};
use super::metrics::{Metrics, Rate};
use super::slots::MOVED;
use super::{Core, Open, Timer, waiting};
use crate::store::format::timer_wheel::{NO_POSITION, SLOTS, Slot};
use crate::store::timer::{DEFAULT, DELETE, Recovered, Unit, Wheel, recover};
use crate::store::{self, MessageStore, StoreConfig};

/// Slots of the wheel that a window leaves free at least, as in Java.
const BLANK_SLOTS: i64 = 60;
/// How often expired segments are looked for.
const CLEAN_INTERVAL: Duration = Duration::from_secs(30);

impl Timer {
    /// Recovers the timer of a store; `None` when it is off. Blocks on the disk.
    pub(in super::super) fn load(store: &MessageStore) -> Result<Option<Self>, Error> {
        let config = store.config();
        if !config.timer_wheel_enable {
            return Ok(None);
        }
        let precision_ms = config.timer_precision_ms.max(1);
        let root: &Path = &config.store_path_root_dir;
        let log_end = store.figures().max_offset;
        let Recovered {
            log,
            wheel,
            check_file,
            check,
            last,
            whole,
            dangling,
            replaced,
        } = recover(root, config.mapped_file_size_timer_log, precision_ms, log_end)?;
        let now = now_ms();
        let behind_last = last.and_then(|unit| {
            let record = store.record_at(unit.offset)?;
            let view = waiting(&record, unit.offset, unit.record_size)?;
            Some(view.queue_offset() + 1)
        });
        let kept = check.last_timer_queue_offset;
        let wanted = match behind_last {
            // Messages that were due at once left no unit, so the checkpoint may be further.
            Some(offset) if whole => offset.max(kept),
            None if whole => kept,
            behind_last => behind_last.unwrap_or(0),
        };
        let (min, max) = (store.min_offset(TIMER_TOPIC, 0), store.max_offset(TIMER_TOPIC, 0));
        let queue_offset = wanted.min(max).max(min);
        if queue_offset != wanted {
            tracing::warn!(
                wanted,
                min,
                max,
                "the timer's place in its queue lies outside it and is corrected"
            );
        }
        let newest = (store.entries(TIMER_TOPIC, 0, queue_offset - 1, 1).entries.first())
            .filter(|entry| entry.queue_offset < queue_offset)
            .map(|entry| (entry.offset, entry.size));
        let timer = Self {
            precision_ms,
            window_ms: window_ms(&config),
            core: Mutex::new(Core {
                log,
                check,
                check_file: Arc::new(check_file),
                queue_offset,
                confirmed: (queue_offset, check.last_read_time_ms),
                heap: BinaryHeap::new(),
                seq: 0,
                open: BTreeMap::new(),
                recalls: HashMap::new(),
                read_to: i64::MIN,
                last_now: now,
                newest,
                known: (kept, check.last_read_time_ms),
                need_read_ms: 0,
                dirty: queue_offset != kept,
                unconfirmed: false,
                log_failed: false,
                put_off_ms: None,
                cleaned: Instant::now(),
            }),
            wheel: Mutex::new(wheel),
            metrics: Metrics::load(store.table_path("timermetrics"))?,
            changed: Notify::new(),
            dirty: Notify::new(),
            queue_offset: AtomicI64::new(queue_offset),
            read_ms: AtomicI64::new(now),
            // Until the first round knows better.
            next_due_ms: AtomicI64::new(i64::MIN),
            enqueued: Rate::default(),
            dequeued: Rate::default(),
            dangling: AtomicU64::new(dangling),
        };
        {
            let mut core = timer.core();
            if let Some(units) = replaced {
                timer.rewrite(&mut core, units, now)?;
            } else if check.last_read_time_ms > now + precision_ms {
                tracing::warn!(
                    read = check.last_read_time_ms,
                    now,
                    "the timer has run with a clock ahead of this one"
                );
                let shift = check.last_read_time_ms - timer.floor(now);
                let units = timer.live_units(&mut core);
                let units = timer.shifted(units, shift, max_delay_ms(&config), now);
                timer.rewrite(&mut core, units, now)?;
            }
            let waiting = timer.wheel().count();
            tracing::info!(
                waiting,
                queue_offset,
                read = check.last_read_time_ms,
                "timer ready"
            );
        }
        Ok(Some(timer))
    }

    /// What was put or delivered holds now.
    pub(super) fn confirm(&self) {
        let mut core = self.core();
        core.unconfirmed = false;
        if core.log.is_written() {
            core.confirmed = (core.queue_offset, self.read_time(&core, now_ms()));
        }
    }

    /// All units that are still to be delivered, slot by slot.
    fn live_units(&self, core: &mut Core) -> Vec<Unit> {
        let slots: Vec<(i64, Slot)> = self.wheel().live().collect();
        let mut units = Vec::new();
        for (time, slot) in slots {
            if core.open.contains_key(&time) {
                units.extend(pending_units(core, time));
            } else {
                units.extend(self.chain(core, time, slot).0);
            }
        }
        units
    }

    /// Begins the log anew with these units, so that no scan finds what was delivered.
    fn rewrite(&self, core: &mut Core, units: Vec<Unit>, now: i64) -> Result<(), store::Error> {
        let begin = core.log.begin_segment();
        let mut live: BTreeMap<i64, Slot> = BTreeMap::new();
        let count = units.len();
        for unit in units {
            // The grid may have changed.
            let due = self.floor(unit.due_ms());
            let slot = live.entry(due).or_insert(Slot {
                time: due / self.precision_ms,
                ..Slot::EMPTY
            });
            let position = core.log.push(Unit {
                previous: slot.last,
                delay_ms: i32::try_from(due - unit.write_time).unwrap_or(i32::MAX),
                reserved: if due == unit.due_ms() {
                    unit.reserved
                } else {
                    MOVED
                },
                ..unit
            });
            if slot.first == NO_POSITION {
                slot.first = position;
            }
            slot.last = position;
            slot.count += if unit.is_delete() { -1 } else { 1 };
        }
        let last = live.keys().next().copied().unwrap_or_else(|| self.floor(now));
        let mark = self.end_mark(core, last, live.get(&last).map_or(NO_POSITION, |slot| slot.last));
        if let (Some(position), Some(slot)) = (mark, live.get_mut(&last)) {
            slot.last = position;
        }
        core.log.write_out()?;
        self.wheel()
            .replace(live, self.floor(now).min(core.check.last_read_time_ms))?;
        tracing::info!(units = count, "the timer log was begun anew");
        core.confirmed = (core.queue_offset, self.read_time(core, now));
        core.dirty = true;
        self.flush_core(core)?;
        core.log.drop_before(begin)
    }

    /// The units of a clock that was `shift` ms ahead: what this clock cannot know of, being further away than a message
    /// may ask for, comes so much earlier.
    fn shifted(&self, units: Vec<Unit>, shift: i64, max_delay_ms: i64, now: i64) -> Vec<Unit> {
        let far = now.saturating_add(max_delay_ms).saturating_add(self.precision_ms);
        let units = units.into_iter().map(|unit| {
            if unit.due_ms() <= far {
                return unit;
            }
            let due = unit.due_ms() - shift;
            let write_time = self.floor(now);
            Unit {
                write_time,
                delay_ms: i32::try_from(due - write_time).unwrap_or(i32::MAX),
                reserved: MOVED,
                ..unit
            }
        });
        units.collect()
    }

    /// Arranges everything anew for a clock that was set back. When that was by more than the longest delay there is,
    /// the clock was wrong before, and what it said of the times of delivery, too.
    pub(super) fn restart(
        &self,
        core: &mut Core,
        config: &StoreConfig,
        now: i64,
    ) -> Result<(), store::Error> {
        let units = self.live_units(core);
        let (shift, max_delay_ms) = (core.last_now - now, max_delay_ms(config));
        if shift > max_delay_ms.saturating_add(self.precision_ms) {
            // As after a start: all of it is read from the wheel again.
            core.heap.clear();
            core.open.clear();
            core.recalls.clear();
            core.put_off_ms = None;
            core.read_to = i64::MIN;
            // The read time is another clock's, too.
            core.check.last_read_time_ms = core.check.last_read_time_ms.min(self.floor(now));
            let units = self.shifted(units, self.floor(shift), max_delay_ms, now);
            return self.rewrite(core, units, now);
        }
        // Slots that were read stay read: their messages are in memory.
        let open: BTreeMap<i64, Open> = core
            .open
            .iter()
            .map(|(time, open)| {
                (
                    *time,
                    Open {
                        delivered: 0,
                        ..*open
                    },
                )
            })
            .collect();
        core.open = open;
        self.rewrite(core, units, now)
    }

    /// Marks the newest message as the last of the log: its queue offset is where Java goes on.
    fn end_mark(&self, core: &mut Core, slot: i64, previous: i64) -> Option<i64> {
        let (offset, record_size) = core.newest?;
        let write_time = slot;
        Some(core.log.push(Unit {
            previous,
            magic: DEFAULT | DELETE,
            write_time,
            delay_ms: 0,
            offset,
            record_size,
            topic_hash: 0,
            reserved: 0,
        }))
    }

    /// Puts the files in order for whoever opens them next: of slots that were delivered in part only the rest stays.
    pub(in super::super) fn close(&self) -> Result<(), store::Error> {
        let mut core = self.core();
        let core = &mut *core;
        core.log.write_out()?;
        self.close_slots(core, now_ms());
        let partly: Vec<i64> = core
            .open
            .iter()
            .filter(|(_, open)| open.delivered > 0)
            .map(|(time, _)| *time)
            .collect();
        for (n, time) in partly.iter().enumerate() {
            let units = pending_units(core, *time);
            self.wheel().clear(*time);
            for unit in units {
                let previous = self.wheel().slot(*time).last;
                let position = core.log.push(Unit { previous, ..unit });
                self.wheel()
                    .put(*time, position, if unit.is_delete() { -1 } else { 1 });
            }
            if n + 1 == partly.len() {
                let previous = self.wheel().slot(*time).last;
                if let Some(position) = self.end_mark(core, *time, previous) {
                    self.wheel().put(*time, position, 0);
                }
            }
        }
        core.log.write_out()?;
        core.confirmed = (core.queue_offset, self.read_time(core, now_ms()));
        core.dirty = true;
        self.flush_core(core)
    }

    /// Writes and flushes everything while the core is held.
    fn flush_core(&self, core: &mut Core) -> Result<(), store::Error> {
        let work = self.prepare(core);
        self.flush(core.check_file.clone().as_ref(), work)
            .map_err(|(work, e)| {
                self.take_back(core, work);
                e
            })
    }

    fn prepare(&self, core: &mut Core) -> Work {
        let (queue_offset, read_ms) = core.confirmed;
        let check = &mut core.check;
        if (check.last_timer_queue_offset, check.last_read_time_ms) != (queue_offset, read_ms) {
            check.counter += 1;
            check.timestamp = now_ms().max(check.timestamp);
        }
        check.last_timer_queue_offset = queue_offset;
        check.master_timer_queue_offset = queue_offset;
        check.last_read_time_ms = read_ms;
        check.last_timer_log_flush_pos = core.log.end();
        let (wheel, slots) = self.wheel().take_dirty();
        core.dirty = false;
        Work {
            log: core.log.take_dirty(),
            wheel,
            slots,
            check: *check,
        }
    }

    fn take_back(&self, core: &mut Core, work: Work) {
        core.log.give_back(work.log);
        self.wheel().give_back(&work.slots);
        core.dirty = true;
    }

    /// The units before the slots that point to them, both before the checkpoint that vouches for them.
    fn flush(&self, check_file: &store::timer::CheckFile, work: Work) -> Result<(), (Work, store::Error)> {
        let failed = |what, source| store::Error::Io {
            what,
            path: "timerwheel".into(),
            source,
        };
        for file in &work.log {
            if let Err(e) = file.sync_data() {
                return Err((work, failed("flush the log of", e)));
            }
        }
        if let Err(e) = Wheel::write_slots(&work.wheel, &work.slots) {
            return Err((work, failed("write", e)));
        }
        match check_file.write(&work.check) {
            Ok(()) => Ok(()),
            Err(e) => Err((work, e)),
        }
    }
}

/// What one flush writes.
struct Work {
    log: Vec<Arc<std::fs::File>>,
    wheel: Arc<std::fs::File>,
    slots: Vec<(i64, Slot)>,
    check: crate::store::format::timer_check::TimerCheck,
}

/// The units of an open slot that are still to be delivered, recalls first.
fn pending_units(core: &Core, time: i64) -> Vec<Unit> {
    let unit = |offset, record_size, magic, write_time: i64, reserved| Unit {
        previous: NO_POSITION,
        magic,
        write_time,
        delay_ms: i32::try_from(time - write_time).unwrap_or(0),
        offset,
        record_size,
        topic_hash: 0,
        reserved,
    };
    let recalls = core.recalls.values().filter(|recall| recall.slot == time);
    let mut units: Vec<Unit> = recalls
        .map(|recall| unit(recall.offset, recall.size, DEFAULT | DELETE, time, 0))
        .collect();
    let mut due: Vec<_> = core
        .heap
        .iter()
        .map(|due| due.0)
        .filter(|due| due.slot == time)
        .collect();
    due.sort_unstable();
    units.extend(due.iter().map(|due| {
        let write_time = if due.enqueued_ms > time {
            time
        } else {
            due.enqueued_ms
        };
        unit(due.offset, due.size, due.magic, write_time, MOVED)
    }));
    units
}

/// Longest delay that a message may ask for.
fn max_delay_ms(config: &StoreConfig) -> i64 {
    config.timer_max_delay_sec.saturating_mul(1000)
}

/// From which distance on a message goes round the wheel.
fn window_ms(config: &StoreConfig) -> i64 {
    let most = (SLOTS / 2) as i64 - BLANK_SLOTS;
    let slots = match config.timer_roll_window_slot {
        slots if slots > most || slots < 2 => most,
        slots => slots,
    };
    let precision = config.timer_precision_ms.max(1);
    // A unit counts its delay in a word of 32 bits.
    slots.min(i64::from(i32::MAX) / 2 / precision) * precision
}

impl Broker {
    /// Flushes the timer's files while something changes, until the broker stops.
    pub(in super::super) async fn flush_timer(self: Arc<Self>) {
        loop {
            let Some(timer) = &self.timer else { return };
            if self
                .stopping
                .run_until_cancelled(timer.dirty.notified())
                .await
                .is_none()
            {
                return;
            }
            let interval = Duration::from_millis(self.store.config().timer_flush_interval_ms);
            if self
                .stopping
                .run_until_cancelled(tokio::time::sleep(interval))
                .await
                .is_none()
            {
                return;
            }
            let broker = self.clone();
            let flushed = tokio::task::spawn_blocking(move || broker.flush_timer_once()).await;
            if let Err(e) = flushed {
                tracing::error!(error = %e, "flushing the timer was aborted");
            }
        }
    }

    fn flush_timer_once(&self) {
        let Some(timer) = &self.timer else { return };
        timer.confirm_read();
        let (check_file, work, again) = {
            let mut core = timer.core();
            if core.cleaned.elapsed() >= CLEAN_INTERVAL {
                core.cleaned = Instant::now();
                if let Err(e) = core.log.expire(self.store.figures().min_offset) {
                    tracing::error!(error = %e, "expired segments of the timer log were not deleted");
                }
            }
            let work = timer.prepare(&mut core);
            let again = work.check.last_read_time_ms < core.need_read_ms;
            (core.check_file.clone(), work, again)
        };
        if let Err((work, e)) = timer.flush(&check_file, work) {
            tracing::error!(error = %e, "the timer's files were not flushed; it will be tried again");
            timer.take_back(&mut timer.core(), work);
            timer.dirty.notify_one();
        }
        if let Err(e) = timer.metrics.save() {
            tracing::error!(error = %e, "the timer's counts were not written; it will be tried again");
        }
        if again {
            timer.dirty.notify_one();
        }
    }
}

impl Timer {
    /// Lets the read time follow the clock when nothing is under way.
    fn confirm_read(&self) {
        let mut core = self.core();
        let now = now_ms();
        if core.log.is_written() && !core.unconfirmed {
            self.close_slots(&mut core, now);
            core.confirmed.1 = core.confirmed.1.max(self.read_time(&core, now));
        }
    }
}
