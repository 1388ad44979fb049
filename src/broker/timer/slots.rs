//! Slots: read shortly before their time, closed when it is over.

use std::sync::atomic::Ordering::Relaxed;

use super::super::{Broker, now_ms};
use super::message::Timed;
use super::{Core, Due, READ_AHEAD_MS, READ_PER_MS, Recall, Round, Timer, waiting};
use crate::store::format::timer_wheel::Slot;
use crate::store::timer::{ROLL, Unit};

/// Set in the reserved word of a unit whose slot is not the one that its message asked for. Java neither writes nor
/// reads that word.
pub(super) const MOVED: i64 = 1;

impl Broker {
    /// Reads the slots whose time is near, in order.
    pub(super) fn read_slots(&self, timer: &Timer, core: &mut Core, round: &mut Round) {
        loop {
            let Some((time, slot)) = timer.wheel().next(core.read_to) else {
                break;
            };
            let ahead = READ_AHEAD_MS + i64::from(slot.count.max(0)) / READ_PER_MS;
            let wait = time - ahead - now_ms();
            if wait > 0 {
                round.sleep_at_most(wait);
                break;
            }
            self.read_slot(timer, core, time, slot);
            core.read_to = time + timer.precision_ms;
        }
        // A message that comes later for a slot that begins now is due within it, so the slot is open already.
        core.read_to = core.read_to.max(timer.floor(now_ms()) + timer.precision_ms);
    }

    fn read_slot(&self, timer: &Timer, core: &mut Core, time: i64, slot: Slot) {
        core.open.entry(time).or_default();
        let (units, broken) = timer.chain(core, time, slot);
        let mut dangling = 0u64;
        for unit in &units {
            let is_recall = unit.is_delete() && !unit.is_roll();
            let record = self.store.record_at(unit.offset);
            let view = record
                .as_deref()
                .and_then(|bytes| waiting(bytes, unit.offset, unit.record_size));
            let timed = view.as_ref().and_then(|view| Timed::of(view, timer.precision_ms));
            let Some(timed) = timed else {
                dangling += 1;
                continue;
            };
            if is_recall {
                // The end mark of a clean stop looks like a recall of nothing.
                let Some(key) = timed.recalls else { continue };
                let recall = Recall {
                    slot: time,
                    offset: unit.offset,
                    size: unit.record_size,
                    topic: timed.topic,
                    found: false,
                };
                core.recalls.insert(key, recall);
                continue;
            }
            let end = time + timer.precision_ms;
            let at = if unit.is_roll() {
                end
            } else if timed.out <= time {
                timed.exact.max(time)
            } else if unit.reserved == MOVED {
                timed.exact.min(end)
            } else {
                // Another message lies where this unit's was.
                dangling += 1;
                continue;
            };
            core.push(Due {
                at,
                seq: 0,
                slot: time,
                offset: unit.offset,
                size: unit.record_size,
                enqueued_ms: unit.write_time,
                magic: unit.magic & (ROLL | 1),
            });
        }
        if dangling > 0 || broken {
            timer.dangling.fetch_add(dangling, Relaxed);
            tracing::warn!(
                slot = time,
                dangling,
                broken,
                "units of a timer slot have no message and were left out"
            );
        }
    }
}

impl Timer {
    /// The units of a slot, oldest first, and whether the chain was cut short.
    pub(super) fn chain(&self, core: &mut Core, time: i64, slot: Slot) -> (Vec<Unit>, bool) {
        let mut units = Vec::new();
        let mut at = slot.last;
        let mut broken = false;
        while at >= 0 {
            // Each unit lies before the one that names it, so this ends.
            match core.log.read(at) {
                Some(unit) if unit.due_ms() == time && unit.previous < at => {
                    at = unit.previous;
                    units.push(unit);
                }
                _ => {
                    broken = true;
                    break;
                }
            }
        }
        units.reverse();
        (units, broken)
    }

    /// Forgets slots that are over and delivered.
    pub(super) fn close_slots(&self, core: &mut Core, now: i64) {
        while let Some((&time, open)) = core.open.first_key_value() {
            if open.pending > 0 || time + self.precision_ms > now {
                break;
            }
            core.open.pop_first();
            self.wheel().delivered(time);
            core.recalls.retain(|_, recall| {
                if recall.slot != time {
                    return true;
                }
                if !recall.found {
                    // It was counted as one message less.
                    self.metrics.add(&recall.topic, 1);
                }
                false
            });
        }
        self.read_ms.store(self.read_time(core, now), Relaxed);
    }

    /// The first slot that is not wholly delivered.
    pub(super) fn read_time(&self, core: &Core, now: i64) -> i64 {
        let mut read = self.floor(now);
        if let Some((&time, _)) = core.open.first_key_value() {
            read = read.min(time);
        }
        if let Some((time, _)) = self.wheel().live().next() {
            read = read.min(time);
        }
        read
    }
}
