//! The wheel: which units of the timer log wait for which moment. Only slots that are still to come are in memory;
//! the file is written slot by slot where it changed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::Error;
use super::super::disk::{Pieces, io_error};
use super::super::format::timer_wheel::{self, FILE_LEN, LEN, NO_POSITION, SLOTS, Slot};

/// The wheel.
#[derive(Debug)]
pub struct Wheel {
    path: PathBuf,
    file: Arc<File>,
    precision_ms: i64,
    /// By moment, ms.
    live: BTreeMap<i64, Slot>,
    dirty: BTreeSet<i64>,
    /// The slot of the latest moment in the file, as it was read.
    latest: Option<Slot>,
}

impl Wheel {
    /// Opens or makes the wheel; slots before `read_ms` were delivered.
    pub fn open(path: &Path, precision_ms: i64, read_ms: i64) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io_error("open", path))?;
        let len = file.metadata().map_err(io_error("inspect", path))?.len();
        if len != FILE_LEN {
            if len != 0 {
                return Err(Error::Unsupported {
                    path: path.to_owned(),
                    reason: format!("{len} bytes, but a timing wheel has {FILE_LEN}"),
                });
            }
            file.set_len(FILE_LEN).map_err(io_error("resize", path))?;
        }
        let mut wheel = Self {
            path: path.to_owned(),
            file: Arc::new(file),
            precision_ms,
            live: BTreeMap::new(),
            dirty: BTreeSet::new(),
            latest: None,
        };
        let mut live = BTreeMap::new();
        let mut latest: Option<Slot> = None;
        wheel.each(|_, slot| {
            let time_ms = slot.time_ms(precision_ms);
            if slot.last != NO_POSITION && latest.is_none_or(|known| known.time < slot.time) {
                latest = Some(slot);
            }
            if time_ms >= read_ms && slot.last != NO_POSITION {
                live.insert(time_ms, slot);
            }
        })?;
        wheel.live = live;
        wheel.latest = latest;
        Ok(wheel)
    }

    /// Calls `each` with number and content of every slot that was used and belongs where it is.
    fn each(&self, mut each: impl FnMut(u64, Slot)) -> Result<(), Error> {
        // A wheel is mostly a hole.
        let mut pieces = Pieces::of(&self.file, 0, FILE_LEN).in_units_of(LEN);
        while let Some((at, piece)) = pieces.read().map_err(io_error("read", &self.path))? {
            for (number, view) in (at / LEN as u64..).zip(timer_wheel::slots(piece)) {
                if !view.is_unused() && view.time() >= 0 && view.time() as u64 % SLOTS == number {
                    each(number, view.to_slot());
                }
            }
        }
        Ok(())
    }

    /// The slot of the latest moment in the file, as it was when it was opened.
    pub fn latest(&self) -> Option<Slot> {
        self.latest
    }

    /// The slot of a moment, empty or not.
    pub fn slot(&self, time_ms: i64) -> Slot {
        self.live.get(&time_ms).copied().unwrap_or(Slot::EMPTY)
    }

    /// Puts a unit into the slot of a moment.
    pub fn put(&mut self, time_ms: i64, position: i64, count: i32) {
        let slot = self.live.entry(time_ms).or_insert(Slot {
            time: time_ms / self.precision_ms,
            ..Slot::EMPTY
        });
        if slot.first == NO_POSITION {
            slot.first = position;
        }
        slot.last = position;
        slot.count = slot.count.saturating_add(count);
        self.dirty.insert(time_ms);
    }

    /// Lets the slot of a moment begin anew.
    pub fn clear(&mut self, time_ms: i64) {
        let time = time_ms / self.precision_ms;
        self.live.insert(time_ms, Slot { time, ..Slot::EMPTY });
        self.dirty.insert(time_ms);
    }

    /// Forgets a slot that was delivered; the file keeps it, as in Java.
    pub fn delivered(&mut self, time_ms: i64) {
        self.live.remove(&time_ms);
        self.dirty.remove(&time_ms);
    }

    /// The first slot at or behind a moment.
    pub fn next(&self, from_ms: i64) -> Option<(i64, Slot)> {
        self.live
            .range(from_ms..)
            .next()
            .map(|(time, slot)| (*time, *slot))
    }

    /// All slots that are still to come.
    pub fn live(&self) -> impl Iterator<Item = (i64, Slot)> {
        self.live.iter().map(|(time, slot)| (*time, *slot))
    }

    /// How many messages wait, as the slots count them.
    pub fn count(&self) -> i64 {
        self.live.values().map(|slot| i64::from(slot.count.max(0))).sum()
    }

    /// Replaces all slots. What the file has besides is overwritten where its moment is not before `from_ms`.
    pub fn replace(&mut self, live: BTreeMap<i64, Slot>, from_ms: i64) -> Result<(), Error> {
        let mut dead = Vec::new();
        self.each(|number, slot| {
            let time_ms = slot.time_ms(self.precision_ms);
            if time_ms >= from_ms && !live.contains_key(&time_ms) {
                dead.push(number);
            }
        })?;
        for number in dead {
            self.file
                .write_all_at(&Slot::EMPTY.to_bytes(), number * LEN as u64)
                .map_err(io_error("write", &self.path))?;
        }
        self.dirty = live.keys().copied().collect();
        self.live = live;
        Ok(())
    }

    /// What is to be written to make the file like the memory, and the file; see [`write_slots`].
    pub fn take_dirty(&mut self) -> (Arc<File>, Vec<(i64, Slot)>) {
        let slots = std::mem::take(&mut self.dirty)
            .into_iter()
            .filter_map(|time| Some((time, *self.live.get(&time)?)))
            .collect();
        (Arc::clone(&self.file), slots)
    }

    /// Gives slots back whose writing failed.
    pub fn give_back(&mut self, slots: &[(i64, Slot)]) {
        self.dirty.extend(slots.iter().map(|(time, _)| *time));
    }

    /// True when memory is ahead of the file.
    pub fn is_dirty(&self) -> bool {
        !self.dirty.is_empty()
    }

    /// Step between two moments, ms.
    pub fn precision_ms(&self) -> i64 {
        self.precision_ms
    }

    /// Writes slots to their places and flushes the file.
    pub fn write_slots(file: &File, slots: &[(i64, Slot)]) -> std::io::Result<()> {
        for (_, slot) in slots {
            let number = u64::try_from(slot.time).map_or(0, |time| time % SLOTS);
            file.write_all_at(&slot.to_bytes(), number * LEN as u64)?;
        }
        if slots.is_empty() {
            Ok(())
        } else {
            file.sync_data()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_survive_and_delivered_ones_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timerwheel");
        let mut wheel = Wheel::open(&path, 1000, 0).unwrap();
        wheel.put(5000, 0, 1);
        wheel.put(5000, 52, 1);
        wheel.put(9000, 104, 1);
        wheel.put(9000, 156, -1);
        let (file, slots) = wheel.take_dirty();
        Wheel::write_slots(&file, &slots).unwrap();
        drop(wheel);
        let mut wheel = Wheel::open(&path, 1000, 6000).unwrap();
        assert_eq!(
            wheel.next(0),
            Some((
                9000,
                Slot {
                    time: 9,
                    first: 104,
                    last: 156,
                    count: 0,
                    magic: 0
                }
            ))
        );
        assert_eq!((wheel.live().count(), wheel.count()), (1, 0));
        let live = BTreeMap::from([(
            7000,
            Slot {
                time: 7,
                first: 0,
                last: 0,
                count: 1,
                magic: 0,
            },
        )]);
        wheel.replace(live, 0).unwrap();
        let (file, slots) = wheel.take_dirty();
        Wheel::write_slots(&file, &slots).unwrap();
        let wheel = Wheel::open(&path, 1000, 0).unwrap();
        assert_eq!(wheel.live().map(|(time, _)| time).collect::<Vec<_>>(), [7000]);
        std::fs::write(&path, [0; 100]).unwrap();
        let refused = Wheel::open(&path, 1000, 0).unwrap_err().to_string();
        assert!(
            refused.contains("100 bytes, but a timing wheel has 38707200"),
            "{refused}"
        );
    }
}
