//! A few entries around a place, and a pass over all of them.

use super::{Bounds, Check, Queue, QueueStep, partition};
use crate::inspect::commit_log::Log;

/// What a pass over a queue has seen so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSums {
    /// Number behind the last entry that was looked at.
    pub reached: u64,
    /// Number behind the last entry there is.
    pub end: u64,
    /// Entries.
    pub entries: u64,
    /// Entries that agree with their record.
    pub agree: u64,
    /// Entries whose record has expired, and those that only take up a place.
    pub expired: u64,
    /// Entries that lead to no record.
    pub orphans: u64,
    /// Entries that say otherwise than their record.
    pub differ: u64,
    /// Places without an entry, and how many are missing there.
    pub gaps: (u64, u64),
    /// Entries that lead before the end of the one before.
    pub disorder: u64,
    /// The first thing that is wrong: number of the entry, and what.
    pub first: Option<(u64, String)>,
    /// The pass was ended before it was through.
    pub stopped: bool,
    /// Nothing more will come.
    pub over: bool,
}

impl QueueSums {
    /// Things that are wrong.
    pub const fn wrong(&self) -> u64 {
        self.orphans + self.differ + self.gaps.0 + self.disorder
    }

    fn name(&mut self, index: u64, what: impl FnOnce() -> String) {
        self.first.get_or_insert_with(|| (index, what()));
    }

    fn add(&mut self, step: &QueueStep) {
        match step {
            QueueStep::Gap { index, count, .. } => {
                self.gaps = (self.gaps.0 + 1, self.gaps.1 + count);
                self.name(*index, || format!("{count} entries missing"));
            }
            QueueStep::Disorder {
                index,
                before,
                offset,
            } => {
                self.disorder += 1;
                self.name(*index, || {
                    format!("leads to {offset}, the entry before ends at {before}")
                });
            }
            QueueStep::Entry(row) => {
                self.entries += 1;
                self.reached = row.index + 1;
                match &row.check {
                    Check::Agrees => self.agree += 1,
                    Check::Blank | Check::Expired => self.expired += 1,
                    Check::BeyondLog => {
                        self.orphans += 1;
                        self.name(row.index, || "leads behind the end of the log".to_owned());
                    }
                    Check::NoRecord(kind) => {
                        self.orphans += 1;
                        self.name(row.index, || format!("leads to no record: {kind}"));
                    }
                    Check::Differs(differences) => {
                        self.differ += 1;
                        self.name(row.index, || differences.join("; "));
                    }
                }
            }
        }
    }
}

/// Entries between two looks at whether the caller wants more.
const STRIDE: u64 = 256;

impl Queue {
    /// Bytes of an entry.
    pub fn entry_len(&self) -> u64 {
        self.kind.entry_len() as u64
    }

    /// Number of the first entry whose record does not lie before a physical offset.
    pub fn index_of_record(&self, at: u64, bounds: &Bounds) -> u64 {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        partition(bounds.first_index..bounds.end_index, |index| {
            self.entry(index)
                .is_some_and(|entry| entry.is_blank() || entry.offset < at)
        })
    }

    /// Physical offset of the record of the first entry that has one.
    pub fn first_record(&self, bounds: &Bounds) -> Option<i64> {
        let entry = self.entry(bounds.first_index)?;
        (!entry.is_blank()).then_some(entry.offset)
    }

    /// Up to `most` steps from an entry on, each as `each` makes it, until it makes none; none behind the last entry.
    pub fn page<T>(
        &self,
        from: u64,
        most: usize,
        bounds: &Bounds,
        (log, log_end): (&Log, u64),
        each: impl FnMut(QueueStep) -> Option<T>,
    ) -> Vec<T> {
        if from >= bounds.end_index {
            return Vec::new();
        }
        self.walk(from, Some(log), log_end)
            .take(most)
            .map_while(each)
            .collect()
    }

    /// Compares every entry with its record. `each` hears how far it is and ends it with false.
    pub fn check_all(
        &self,
        bounds: &Bounds,
        (log, log_end): (&Log, u64),
        each: &mut dyn FnMut(&QueueSums) -> bool,
    ) -> QueueSums {
        let mut sums = QueueSums {
            reached: bounds.first_index,
            end: bounds.end_index,
            ..QueueSums::default()
        };
        if bounds.first_index >= bounds.end_index {
            sums.over = true;
            return sums;
        }
        let mut steps = 0;
        for step in self.walk(bounds.first_index, Some(log), log_end) {
            sums.add(&step);
            steps += 1;
            if sums.reached >= bounds.end_index {
                break;
            }
            if steps % STRIDE == 0 && !each(&sums) {
                sums.stopped = true;
                break;
            }
        }
        sums.over = true;
        sums
    }
}
