//! The timer's files: wheel, log, checkpoint and metrics.
//!
//! A wheel slot says when and how many, the timer log which records; delivery clears neither. What is still to come
//! is what lies at or behind the checkpoint's read time.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::commit_log::{Log, usual_size};
use super::tables::{TableFile, tables};
use super::{Error, Store, io_error};
use crate::protocol::model::java_hash;
use crate::protocol::properties::names;
use crate::store::cursor::{DamageKind, Record};
use crate::store::format::timer_check::{self, TimerCheck};
use crate::store::format::timer_log::{self, BLANK_LEN, Found, Unit};
use crate::store::format::timer_wheel::{self, FILE_LEN, NO_POSITION, SLOTS, Slot};
use crate::store::segments::{self, LogBytes, Pieces, SegmentFile, Segments};

/// Topic of the records that wait in the wheel.
pub const TIMER_TOPIC: &str = "rmq_sys_wheel_timer";
/// Java's `timerPrecisionMs` unless the files tell otherwise.
const USUAL_PRECISION_MS: i64 = 1000;
/// Bytes of the timer log read at once.
const READ_AHEAD: usize = 4096;
/// Most units of one slot that are followed.
const MOST_UNITS: u64 = 10_000_000;

/// The timer of a store.
#[derive(Debug)]
pub struct Timer {
    wheel: Option<(PathBuf, File, u64)>,
    log: Segments,
    log_size: u64,
    check: Option<TimerCheck>,
    metrics: Option<TableFile>,
    precision_ms: i64,
}

/// A slot in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotRow {
    /// Its number.
    pub number: u64,
    /// What it says.
    pub slot: Slot,
    /// Its moment, epoch ms.
    pub time_ms: i64,
    /// Still to be delivered.
    pub is_pending: bool,
}

/// The units of a slot, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    /// Units with a message.
    pub messages: u64,
    /// Of those, how many go round once more.
    pub rolls: u64,
    /// Units that take one away.
    pub deletes: u64,
    /// Messages by the hash of the topic that they are meant for.
    pub by_topic_hash: BTreeMap<i32, u64>,
    /// What does not add up.
    pub problem: Option<String>,
}

/// What a walk over the timer log meets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnitStep {
    /// A unit.
    Unit {
        /// Its position.
        at: u64,
        /// What it says.
        unit: Unit,
    },
    /// The filler up to the next segment.
    Blank {
        /// Its position.
        at: u64,
    },
    /// The end: what stands here is no unit. Ends the walk.
    End {
        /// Position.
        at: u64,
        /// What stands there, if it is not nothing.
        damage: Option<(i32, i32)>,
    },
}

/// A unit compared with the record that it leads to.
#[derive(Debug, Clone)]
pub enum UnitCheck {
    /// The record is the one meant.
    Agrees(Record),
    /// The record lies before the first file of the log.
    Expired,
    /// There is no valid record.
    NoRecord(DamageKind),
    /// There is another one; what differs.
    Differs(Record, Vec<String>),
}

/// The timer log, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogStats {
    /// Units.
    pub units: u64,
    /// Of those, how many roll.
    pub rolls: u64,
    /// How many take one away.
    pub deletes: u64,
    /// Units that are due at or behind the read time.
    pub pending: u64,
    /// Position of the first byte.
    pub start: u64,
    /// Position behind the last unit.
    pub end: u64,
    /// What stands at the end, size and magic, when it is not nothing.
    pub damage: Option<(i32, i32)>,
}

/// The wheel, counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WheelStats {
    /// Slots that something was ever put into.
    pub used: u64,
    /// Slots that are still to be delivered.
    pub pending: u64,
    /// What those say they hold.
    pub pending_messages: i64,
    /// The next of them, ms.
    pub next_ms: Option<i64>,
    /// The last of them, ms.
    pub last_ms: Option<i64>,
}

impl Timer {
    pub(super) fn open(store: &Store) -> Result<Option<Self>, Error> {
        let path = store.root().join("timerwheel");
        let wheel = match File::open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            file => {
                let file = file.map_err(io_error("open", &path))?;
                let len = file.metadata().map_err(io_error("inspect", &path))?.len();
                Some((path, file, len))
            }
        };
        let files = segments::list(&store.root().join("timerlog"))?.files;
        let metrics = tables(store)?
            .into_iter()
            .find(|table| table.name == "timermetrics");
        let check = read_check(&store.root().join("config").join("timercheck"))?;
        if wheel.is_none() && files.is_empty() && check.is_none() {
            return Ok(None);
        }
        let log_size = usual_size(&files);
        let mut timer = Self {
            wheel,
            log: Segments::reading(files, log_size, store.is_live(), READ_AHEAD),
            log_size,
            check,
            metrics,
            precision_ms: USUAL_PRECISION_MS,
        };
        if let Some(precision) = timer.find_precision()? {
            timer.precision_ms = precision;
        }
        Ok(Some(timer))
    }

    /// The wheel's file and its length; `None` when there is none.
    pub fn wheel_file(&self) -> Option<(&Path, u64)> {
        self.wheel.as_ref().map(|(path, _, len)| (path.as_path(), *len))
    }

    /// What is wrong with the wheel as a file.
    pub fn wheel_problem(&self) -> Option<String> {
        let (_, _, len) = self.wheel.as_ref()?;
        (*len != FILE_LEN)
            .then(|| format!("{len} bytes; a wheel has {FILE_LEN}, and a Java broker does not start"))
    }

    /// The segments of the timer log.
    pub fn log_files(&self) -> impl DoubleEndedIterator<Item = &SegmentFile> {
        self.log.files()
    }

    /// Bytes of a segment.
    pub fn log_segment_size(&self) -> u64 {
        self.log_size
    }

    /// The timer's checkpoint.
    pub fn check(&self) -> Option<&TimerCheck> {
        self.check.as_ref()
    }

    /// How many messages of each topic are to come, and when that was noted, as `timermetrics` says.
    pub fn metrics(&self) -> Vec<(String, i64, i64)> {
        let counts = self
            .metrics
            .as_ref()
            .and_then(|table| table.content()?.get("timingCount")?.as_object());
        let number = |value: &serde_json::Value, name| value.get(name).and_then(serde_json::Value::as_i64);
        counts
            .into_iter()
            .flatten()
            .map(|(topic, value)| {
                let count = number(value, "count").unwrap_or(0);
                (topic.clone(), count, number(value, "timeStamp").unwrap_or(0))
            })
            .collect()
    }

    /// Ms that a slot stands for (`timerPrecisionMs`): told by a unit and its slot, else Java's default.
    pub fn precision_ms(&self) -> i64 {
        self.precision_ms
    }

    fn find_precision(&self) -> Result<Option<i64>, Error> {
        let mut found = None;
        self.raw_slots(0, SLOTS, &mut |_, slot| {
            // A slot holds its time divided by the precision, its units hold it in ms.
            let due = self.unit(slot.last).map(|unit| unit.due_ms());
            found = due
                .and_then(|due| due.checked_div(slot.time))
                .filter(|&ms| ms > 0);
            found.is_none()
        })?;
        Ok(found)
    }

    /// Calls `each` for slots in use, by number, until it returns false.
    fn raw_slots(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, Slot) -> bool) -> Result<bool, Error> {
        const LEN: u64 = timer_wheel::LEN as u64;
        let Some((path, file, len)) = &self.wheel else {
            return Ok(true);
        };
        // Most of a wheel was never written.
        let mut pieces = Pieces::of(file, from * LEN, (to * LEN).min(*len)).in_units_of(timer_wheel::LEN);
        while let Some((at, bytes)) = pieces.read().map_err(io_error("read", path))? {
            for (n, view) in timer_wheel::slots(bytes).enumerate() {
                if !view.is_unused() && view.time() > 0 && !each(at / LEN + n as u64, view.to_slot()) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Calls `each` for slots in use until it returns false: first those to come, by time, then those that were
    /// passed.
    pub fn slots(&self, mut each: impl FnMut(SlotRow) -> bool) -> Result<(), Error> {
        let read_time = self.check.map_or(0, |check| check.last_read_time_ms);
        let first = timer_wheel::slot_of(read_time, self.precision_ms);
        let mut as_row = |number, slot: Slot| {
            let time_ms = slot.time_ms(self.precision_ms);
            each(SlotRow {
                number,
                slot,
                time_ms,
                is_pending: time_ms >= read_time,
            })
        };
        if self.raw_slots(first, SLOTS, &mut as_row)? {
            self.raw_slots(0, first, &mut as_row)?;
        }
        Ok(())
    }

    /// Counts the wheel.
    pub fn wheel_stats(&self) -> Result<WheelStats, Error> {
        let mut stats = WheelStats::default();
        self.slots(|row| {
            stats.used += 1;
            if row.is_pending {
                stats.pending += 1;
                stats.pending_messages += i64::from(row.slot.count);
                stats.next_ms = Some(stats.next_ms.map_or(row.time_ms, |ms| ms.min(row.time_ms)));
                stats.last_ms = stats.last_ms.max(Some(row.time_ms));
            }
            true
        })?;
        Ok(stats)
    }

    fn found(&self, at: u64) -> Option<Found> {
        let mut bytes = self.log.window(at, timer_log::LEN)?;
        bytes.truncate(timer_log::LEN);
        Some(timer_log::read(&bytes))
    }

    /// The unit at a position of the timer log.
    pub fn unit(&self, at: i64) -> Option<Unit> {
        match self.found(u64::try_from(at).ok()?)? {
            Found::Unit(unit) => Some(unit),
            Found::Blank | Found::Other { .. } => None,
        }
    }

    /// Follows the units of a slot, from the newest back, and calls `each` until it returns false.
    pub fn chain(&self, row: &SlotRow, mut each: impl FnMut(u64, &Unit) -> bool) -> Chain {
        let mut chain = Chain::default();
        let mut at = row.slot.last;
        let mut has_first = false;
        let log_start = i64::try_from(self.log.start()).unwrap_or(i64::MAX);
        let mut problem = |text: String| {
            chain.problem.get_or_insert(text);
        };
        for _ in 0..MOST_UNITS {
            if at == NO_POSITION {
                break;
            }
            if at < log_start {
                problem(format!(
                    "older units lie at {at}, before the first file of the timer log"
                ));
                break;
            }
            let Some(unit) = self.unit(at) else {
                problem(format!("there is no unit at {at}"));
                break;
            };
            has_first |= at == row.slot.first;
            if unit.due_ms() / self.precision_ms != row.slot.time {
                problem(format!(
                    "the unit at {at} is due at another time, {}",
                    unit.due_ms()
                ));
            }
            if unit.is_delete() {
                chain.deletes += 1;
            } else {
                chain.messages += 1;
                *chain.by_topic_hash.entry(unit.topic_hash).or_default() += 1;
            }
            chain.rolls += u64::from(unit.is_roll());
            if !each(u64::try_from(at).unwrap_or(0), &unit) {
                return chain;
            }
            if unit.previous >= at {
                problem(format!(
                    "the unit at {at} leads to {}, which is not older",
                    unit.previous
                ));
                break;
            }
            at = unit.previous;
        }
        if !has_first {
            problem(format!(
                "the chain does not reach the first unit, {}",
                row.slot.first
            ));
        }
        let counted = i64::try_from(chain.messages).unwrap_or(i64::MAX)
            - i64::try_from(chain.deletes).unwrap_or(i64::MAX);
        if i64::from(row.slot.count) != counted {
            problem(format!("the slot counts {}, its units {counted}", row.slot.count));
        }
        chain
    }

    /// Calls `each` for what lies in the timer log from a position on, until it returns false. A position inside a
    /// unit begins with the next one.
    pub fn walk(&self, from: u64, mut each: impl FnMut(UnitStep) -> bool) {
        let mut at = from.max(self.log.start());
        let file = self.log.files().rfind(|file| file.base <= at);
        if let Some(file) = file {
            at = file.base + (at - file.base).next_multiple_of(timer_log::LEN as u64);
        }
        while at < self.log.end() {
            let left = self.log.file_end(at).saturating_sub(at);
            let step = match self.found(at) {
                Some(Found::Unit(unit)) => UnitStep::Unit { at, unit },
                Some(Found::Blank) => UnitStep::Blank { at },
                // A rest that holds not even a filler.
                Some(Found::Other { size: 0, magic: 0 }) if left < BLANK_LEN as u64 => UnitStep::Blank { at },
                Some(Found::Other { size: 0, magic: 0 }) | None => UnitStep::End { at, damage: None },
                Some(Found::Other { size, magic }) => UnitStep::End {
                    at,
                    damage: Some((size, magic)),
                },
            };
            at += match &step {
                UnitStep::Unit { .. } => timer_log::LEN as u64,
                UnitStep::Blank { .. } => left,
                UnitStep::End { .. } => 0,
            };
            let ends = matches!(step, UnitStep::End { .. });
            if !each(step) || ends {
                return;
            }
        }
        each(UnitStep::End { at, damage: None });
    }

    /// Counts the timer log.
    pub fn log_stats(&self) -> LogStats {
        let read_time = self.check.map_or(0, |check| check.last_read_time_ms);
        let mut stats = LogStats {
            start: self.log.start(),
            end: self.log.start(),
            ..LogStats::default()
        };
        self.walk(0, |step| {
            match step {
                UnitStep::Unit { at, unit } => {
                    stats.units += 1;
                    stats.rolls += u64::from(unit.is_roll());
                    stats.deletes += u64::from(unit.is_delete());
                    stats.pending += u64::from(unit.due_ms() >= read_time);
                    stats.end = at + timer_log::LEN as u64;
                }
                UnitStep::Blank { .. } => {}
                UnitStep::End { damage, .. } => stats.damage = damage,
            }
            true
        });
        stats
    }

    /// Compares a unit with the record that it leads to.
    pub fn compare(&self, unit: &Unit, log: &Log) -> UnitCheck {
        let Ok(at) = u64::try_from(unit.offset) else {
            return UnitCheck::NoRecord(DamageKind::Missing);
        };
        if at < log.start() {
            return UnitCheck::Expired;
        }
        let record = match log.record_at(at) {
            Err(kind) => return UnitCheck::NoRecord(kind),
            Ok(record) => record,
        };
        let mut out = Vec::new();
        match record.view() {
            Err(fault) => out.push(fault.to_string()),
            Ok(view) => {
                if view.topic() != TIMER_TOPIC {
                    out.push(format!("the record's topic is {}", view.topic()));
                }
                if usize::try_from(unit.record_size) != Ok(view.size()) {
                    out.push(format!("size: unit {}, record {}", unit.record_size, view.size()));
                }
                let properties = view.properties();
                let topic = properties.get(names::REAL_TOPIC);
                if topic.is_some_and(|topic| java_hash(topic) != unit.topic_hash) {
                    out.push(format!("the hash {} is of another topic", unit.topic_hash));
                }
                let out_ms: Option<i64> = properties
                    .get(names::TIMER_OUT_MS)
                    .and_then(|text| text.parse().ok());
                // One that rolls is put into an earlier slot than its own.
                let same_slot = |ms: i64| ms / self.precision_ms == unit.due_ms() / self.precision_ms;
                if !unit.is_roll() && out_ms.is_some_and(|ms| !same_slot(ms)) {
                    out.push(format!(
                        "due: unit {}, record {}",
                        unit.due_ms(),
                        out_ms.unwrap_or_default()
                    ));
                }
            }
        }
        if out.is_empty() {
            UnitCheck::Agrees(record)
        } else {
            UnitCheck::Differs(record, out)
        }
    }

    /// Names of the topics whose hashes occur, as far as the store's tables and queues know them.
    pub fn topics(&self, store: &Store) -> Result<BTreeMap<i32, String>, Error> {
        let mut names = super::find::topics(store)?;
        names.extend(self.metrics().into_iter().map(|(topic, _, _)| topic));
        Ok(names.into_iter().map(|name| (java_hash(&name), name)).collect())
    }
}

fn read_check(path: &Path) -> Result<Option<TimerCheck>, Error> {
    let bytes = match std::fs::read(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(io_error("read", path))?,
    };
    Ok((bytes.len() >= timer_check::USED).then(|| TimerCheck::parse(&bytes)))
}
