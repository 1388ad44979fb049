//! A few steps of the log around a place, without reading all that lies before it.
//!
//! A record holds its own physical offset, so that a magic word found anywhere leads to a begin of a record that can
//! be relied on. Looking back reads pieces that grow, from there on the walk is the usual one.

use std::collections::VecDeque;

use super::{Log, MAGIC, Step};
use crate::protocol::message::{BLANK_LEN, peek};

/// Bytes before an offset that are searched first for a begin, and at most.
const BACK: (u64, u64) = (64 * 1024, 64 * 1024 * 1024);
/// Bytes ahead that are read for one page; large records make it short.
const MOST_AHEAD: u64 = 32 * 1024 * 1024;
/// Steps between two looks at how far a walk is.
const STRIDE: usize = 4096;
/// Steps before the end among which the last record is looked for, when it is not the last of them.
const LAST_STEPS: usize = 16;
/// Bytes that are searched at once, and below which a search by time walks.
const BLOCK: u64 = 64 * 1024;

/// Where a log ends, and the record that tells later whether it was cut since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// Behind what was written.
    pub at: u64,
    /// Offset of the last valid record of the newest file, if there is one.
    pub last: Option<u64>,
}

impl Log {
    /// The last `most` steps that begin before `at`, each as `each` makes it. Damage that is longer than some
    /// 64 MiB may hide what lies before it.
    pub fn before<T>(
        &self,
        at: u64,
        most: usize,
        check_body: bool,
        mut each: impl FnMut(Step) -> T,
    ) -> Vec<T> {
        let at = at.min(self.end());
        if at <= self.start() || most == 0 {
            return Vec::new();
        }
        let mut reach = BACK.0;
        loop {
            let from = at.saturating_sub(reach).max(self.start());
            let is_last = from == self.start() || reach >= BACK.1;
            let begin = if from == self.start() {
                Some(from)
            } else {
                self.begin_in(from, at)
            };
            if let Some(begin) = begin {
                let enough = is_last || self.walk_until(begin, at, false).nth(most - 1).is_some();
                if enough {
                    let mut last = VecDeque::new();
                    for step in self.walk_until(begin, at, check_body) {
                        if last.len() == most {
                            last.pop_front();
                        }
                        last.push_back(each(step));
                    }
                    return last.into();
                }
            } else if is_last {
                // Nothing but damage that far: the file's begin leads over it.
                let base = self.file_of(at - 1).map_or(self.start(), |file| file.base);
                let step = self.walk_until(base, at, check_body).last();
                return step.map(each).into_iter().collect();
            }
            reach = reach.saturating_mul(4);
        }
    }

    /// Up to `most` steps from a boundary of records on. Zeros at or behind `end`, where the log is known to end, are
    /// its tail: what lies behind them is not read. Some 32 MiB end it as well.
    pub fn ahead<T>(&self, from: u64, most: usize, end: u64, mut each: impl FnMut(Step) -> T) -> Vec<T> {
        let mut out = Vec::new();
        let mut walk = self.walk(from, true);
        while out.len() < most {
            let at = walk.position();
            if at >= end && at < self.end() && self.bytes(at, BLANK_LEN).iter().all(|&b| b == 0) {
                out.push(each(Step::Tail {
                    at,
                    len: self.end() - at,
                }));
                break;
            }
            let Some(step) = walk.next() else { break };
            let is_end = matches!(step, Step::Tail { .. }) || step.end().saturating_sub(from) > MOST_AHEAD;
            out.push(each(step));
            if is_end {
                break;
            }
        }
        out
    }

    /// The end of what was written, found without the queues.
    pub fn records_end(&self) -> LogEnd {
        let base = self.newest_base();
        let Some(file) = self.file_of(base) else {
            return LogEnd {
                at: self.start(),
                last: None,
            };
        };
        let (mut low, mut high) = (0, file.len.div_ceil(BLOCK));
        while low < high {
            let middle = low + (high - low) / 2;
            let block = self.bytes(base + middle * BLOCK, BLOCK as usize);
            if block.iter().any(|&b| b != 0) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // Zeros inside a record may have ended that too early; the walk from there on finds the true end.
        let near = base.saturating_add(low * BLOCK);
        let before = |most| {
            self.before(near, most, false, |step| {
                (step.at(), matches!(step, Step::Message { .. }))
            })
        };
        // The last record and the tail, nearly always; only behind a filler or damage more has to be read.
        let mut steps = before(2);
        if !steps.iter().any(|(_, is_record)| *is_record) {
            steps = before(LAST_STEPS);
        }
        // From the last record on, which is remembered; the tail is such a step too.
        let last = steps.iter().rfind(|(_, is_record)| *is_record).or(steps.last());
        let from = last.map_or(base, |&(at, _)| at).max(base);
        self.grown(from, near.saturating_sub(BLOCK), None)
    }

    /// The end of what was written, when it was at `known` a moment ago: what came since is walked over. `None` when
    /// the log was cut meanwhile, or that cannot be told.
    pub fn end_since(&self, known: LogEnd) -> Option<LogEnd> {
        let last = known.last?;
        let end = self.record(last, false).ok()?.end();
        // Damage behind the last record ends with a byte that is not zero.
        let holds = end == known.at
            || (end < known.at && self.bytes(known.at - 1, 1).first().is_some_and(|&byte| byte != 0));
        holds.then(|| self.grown(known.at, known.at, Some(last)))
    }

    /// The end from a boundary of records on; zeros at or behind `end` are not looked behind.
    fn grown(&self, from: u64, end: u64, last: Option<u64>) -> LogEnd {
        let mut found = LogEnd { at: from, last };
        loop {
            let steps = self.ahead(found.at, STRIDE, end, |step| {
                let tail = self.tail_of(&step);
                let record = match &step {
                    Step::Message { record, .. } => Some(record.at),
                    _ => None,
                };
                (tail.unwrap_or(step.end()), tail.is_some(), record)
            });
            let Some(&(at, is_end, _)) = steps.last() else {
                return found;
            };
            let last = steps.iter().rev().find_map(|&(_, _, record)| record);
            let is_stuck = at <= found.at;
            found = LogEnd {
                at,
                last: last.or(found.last),
            };
            if is_end || is_stuck {
                return found;
            }
        }
    }

    /// Offset of the first record that was stored at or behind a time, ms; `end` when there is none. `end` is the end
    /// of what was written.
    pub fn first_at(&self, ms: i64, end: u64) -> u64 {
        let files: Vec<_> = self.files().filter(|file| file.base < end).collect();
        let late = files.partition_point(|file| self.first_time(file).is_some_and(|first| first < ms));
        let Some(file) = late.checked_sub(1).and_then(|n| files.get(n)) else {
            return files.first().map_or(end, |file| file.base);
        };
        let (mut low, mut high) = (file.base, file.base.saturating_add(file.len).min(end));
        while high.saturating_sub(low) > BLOCK {
            let middle = low + (high - low) / 2;
            let found = self.begin_in(middle, high).and_then(|begin| {
                let record = self.record(begin, false).ok()?;
                Some((begin, record.view().ok()?.store_timestamp()))
            });
            match found {
                Some((begin, time)) if time < ms => low = begin,
                _ => high = middle,
            }
        }
        for step in self.walk_until(low, end, false) {
            if let Step::Message { record, .. } = &step
                && record.view().is_ok_and(|view| view.store_timestamp() >= ms)
            {
                return record.at;
            }
        }
        end
    }

    /// The first begin of a valid record or filler in a range; the begin of a file counts.
    fn begin_in(&self, from: u64, to: u64) -> Option<u64> {
        let mut at = from;
        while at < to {
            let Some(file) = self.file_of(at) else {
                // Between two files: on to the next one.
                at = self.files().map(|file| file.base).find(|&base| base > at)?;
                continue;
            };
            if at == file.base {
                return Some(at);
            }
            let end = file.base.saturating_add(file.len);
            let len = (to - at).min(BLOCK);
            // A begin at the last byte has its magic word behind it.
            let bytes = self.bytes(at, len as usize + BLANK_LEN);
            let found = MAGIC.find_iter(&bytes).find_map(|hit| {
                let begin = hit.start().checked_sub(4)?;
                peek(bytes.get(begin..)?).ok()?;
                let begin = at + begin as u64;
                (begin < to && self.is_boundary(begin)).then_some(begin)
            });
            if found.is_some() {
                return found;
            }
            at = at.saturating_add(len).min(end.max(at + 1));
        }
        None
    }
}
