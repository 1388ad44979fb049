//! What the timer does at start: finds the end of its log, repairs the slots that a crash left behind it or ahead of
//! it, and cuts everything that points beyond the commit log.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::super::Error;
use super::super::format::timer_check::TimerCheck;
use super::super::format::timer_wheel::NO_POSITION;
use super::{CheckFile, TimerLog, Unit, Wheel};

/// The timer's files as they are after recovery.
#[derive(Debug)]
pub struct Recovered {
    /// The units.
    pub log: TimerLog,
    /// The slots.
    pub wheel: Wheel,
    /// The checkpoint's file.
    pub check_file: CheckFile,
    /// What it says.
    pub check: TimerCheck,
    /// The last unit of the log.
    pub last: Option<Unit>,
    /// The log is at least as long as the checkpoint says.
    pub whole: bool,
    /// Units cut off because their messages lie beyond the end of the commit log.
    pub dangling: u64,
    /// The slots were written with another precision: units that are still to come, to be put in anew.
    pub replaced: Option<Vec<Unit>>,
}

/// Opens the files under `root` for a commit log that ends at `log_end`.
pub fn recover(root: &Path, segment_size: u64, precision_ms: i64, log_end: i64) -> Result<Recovered, Error> {
    let (check_file, check) = CheckFile::open(&root.join("config").join("timercheck"))?;
    let read_ms = check.last_read_time_ms;
    let mut log = TimerLog::open(&root.join("timerlog"), segment_size)?;
    let mut wheel = Wheel::open(&root.join("timerwheel"), precision_ms, read_ms)?;
    let from = check
        .last_timer_log_flush_pos
        .saturating_sub(segment_size as i64)
        .max(0);

    // Units at the very end whose messages were cut off with the commit log; any further back are left out one by one
    // when their time comes.
    let mut first_dangling: Option<(i64, u64)> = None;
    let mut last = None;
    let mut slots: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    let mut scanned = log.scan(from, |at, unit| {
        if unit.offset.saturating_add(i64::from(unit.record_size)) > log_end {
            let (first, count) = first_dangling.unwrap_or((at, 0));
            first_dangling = Some((first, count + 1));
            return;
        }
        first_dangling = None;
        last = Some(*unit);
        if unit.due_ms() >= read_ms {
            slots.entry(unit.due_ms()).or_insert((at, at)).1 = at;
        }
    })?;
    let whole = scanned >= check.last_timer_log_flush_pos;
    let dangling = first_dangling.map_or(0, |(first, count)| {
        scanned = first;
        count
    });
    log.cut(scanned)?;

    for (time, (first, at)) in &slots {
        let slot = wheel.slot(*time);
        if slot.last != *at && time % precision_ms == 0 {
            let count = i32::from(slot.last == NO_POSITION);
            wheel.put(*time, if slot.last == NO_POSITION { *first } else { *at }, count);
            wheel.put(*time, *at, 0);
        }
    }
    // Slots that point behind the end are found again from the oldest of them on.
    let lost: BTreeSet<i64> = wheel
        .live()
        .filter(|(_, slot)| slot.last >= scanned)
        .map(|(time, _)| time)
        .collect();
    if !lost.is_empty() {
        let from = wheel
            .live()
            .filter(|(time, _)| lost.contains(time))
            .map(|(_, slot)| slot.first.max(0))
            .min();
        for time in &lost {
            wheel.clear(*time);
        }
        log.scan(from.unwrap_or(0), |at, unit| {
            if lost.contains(&unit.due_ms()) {
                wheel.put(unit.due_ms(), at, if unit.is_delete() { -1 } else { 1 });
            }
        })?;
        let empty: Vec<i64> = wheel
            .live()
            .filter(|(_, slot)| slot.last == NO_POSITION)
            .map(|(time, _)| time)
            .collect();
        tracing::warn!(
            slots = lost.len(),
            empty = empty.len(),
            "slots of the timer pointed behind its log and were repaired"
        );
        for time in empty {
            wheel.delivered(time);
        }
    }
    if dangling > 0 {
        tracing::warn!(
            units = dangling,
            "timer units point beyond the end of the commit log and were cut off"
        );
    }
    // One slot tells whether the grid is the one the wheel was written with.
    let other_grid = wheel
        .latest()
        .and_then(|slot| Some((slot.time, log.read(slot.last)?)))
        .is_some_and(|(time, unit)| unit.due_ms() / precision_ms != time)
        || slots.keys().any(|time| time % precision_ms != 0);
    let mut replaced = None;
    if other_grid {
        let mut units = Vec::new();
        log.scan(0, |_, unit| {
            if unit.due_ms() >= read_ms {
                units.push(*unit);
            }
        })?;
        tracing::warn!(
            units = units.len(),
            precision_ms,
            "the timer's precision has changed; its slots are made anew"
        );
        replaced = Some(units);
    }
    Ok(Recovered {
        log,
        wheel,
        check_file,
        check,
        last,
        whole,
        dangling,
        replaced,
    })
}
