//! The open half messages of the half queue: which there are, when to ask about each, and how far the books are done.
//!
//! A half message that is asked about is appended again, so that the count of its checks survives and the start of
//! what has to be read at the next start moves on. All records of one half message carry the queue offset of the
//! first one; the newest stands for it. Plain data: no store, no clock.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

/// Queue offsets between the oldest open half message and the newest one, beyond which the oldest are moved up.
const MOST_SPREAD: i64 = 10_000;

/// An open half message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Half {
    /// Queue offset of its first record, the one the producer knows.
    pub first: i64,
    /// Physical offset of its newest record.
    pub log_offset: i64,
    /// Producer group.
    pub group: Arc<str>,
    /// When it was first stored, epoch ms.
    pub since_ms: i64,
    /// How often a producer was asked.
    pub checks: u32,
    /// When to look at it next.
    pub due: Instant,
    /// Its end is being stored: nobody else may end it.
    pub ending: bool,
}

/// All open half messages, and the ended ones whose marks are not stored yet.
#[derive(Debug, Default)]
pub struct Halves {
    /// By queue offset of the newest record.
    open: BTreeMap<i64, Half>,
    /// First offset -> newest one, of those with several records.
    moved: HashMap<i64, i64>,
    /// When to look, and at which first offset.
    due: BTreeSet<(Instant, i64)>,
    /// Ended offsets whose marks wait for the next batch.
    marks: Vec<i64>,
    /// Length of those as text.
    mark_bytes: usize,
    /// Ended offsets whose marks are not stored yet.
    unmarked: BTreeSet<i64>,
    /// Stored marks: offset in the op queue, and the largest offset it names.
    ops: VecDeque<(i64, i64)>,
    /// Behind the newest record of the half queue.
    next: i64,
    /// Behind the newest record of the op queue.
    next_op: i64,
    groups: BTreeSet<Arc<str>>,
}

impl Halves {
    /// Where both queues begin to count.
    pub fn start(&mut self, next: i64, next_op: i64) {
        self.next = self.next.max(next);
        self.next_op = self.next_op.max(next_op);
    }

    /// One copy of each group's name is enough.
    pub fn group(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.groups.get(name) {
            return known.clone();
        }
        if self.groups.len() > 10_000 {
            // Names that only ended half messages had.
            self.groups.retain(|group| Arc::strong_count(group) > 1);
        }
        let name: Arc<str> = name.into();
        self.groups.insert(name.clone());
        name
    }

    /// A record was stored at `offset`. An older one of the same half message is no longer its newest. True when
    /// the checker has to get up for it, earlier than it would.
    pub fn add(&mut self, offset: i64, half: Half) -> bool {
        self.next = self.next.max(offset + 1);
        let first = half.first;
        if let Some(old) = self.current(first)
            && let Some(known) = self.open.remove(&old)
        {
            self.due.remove(&(known.due, first));
        }
        if first == offset {
            self.moved.remove(&first);
        } else {
            self.moved.insert(first, offset);
        }
        let entry = (half.due, first);
        self.due.insert(entry);
        self.open.insert(offset, half);
        self.due.first() == Some(&entry) || self.is_spread()
    }

    /// Offset of the newest record.
    fn current(&self, first: i64) -> Option<i64> {
        let at = self.moved.get(&first).copied().unwrap_or(first);
        self.open.contains_key(&at).then_some(at)
    }

    fn half(&mut self, first: i64) -> Option<&mut Half> {
        let at = self.current(first)?;
        self.open.get_mut(&at)
    }

    /// Claims the end of a half message; false when it is not open, is of another group, or is being ended.
    pub fn claim(&mut self, first: i64, group: &str) -> bool {
        match self.half(first) {
            Some(half) if !half.ending && *half.group == *group => {
                half.ending = true;
                true
            }
            _ => false,
        }
    }

    /// Gives a claim back: the end could not be stored.
    pub fn release(&mut self, first: i64) {
        if let Some(half) = self.half(first) {
            half.ending = false;
        }
    }

    /// Ends a half message; its newest record gets a mark.
    pub fn end(&mut self, first: i64) {
        let Some(at) = self.current(first) else { return };
        if let Some(half) = self.open.remove(&at) {
            self.due.remove(&(half.due, first));
        }
        self.moved.remove(&first);
        self.mark(at);
    }

    fn mark(&mut self, offset: i64) {
        self.marks.push(offset);
        self.mark_bytes += offset.max(1).ilog10() as usize + 2;
        self.unmarked.insert(offset);
    }

    /// A further record of a half message was stored. Its older one gets a mark, or the new one when the half message
    /// was ended meanwhile.
    pub fn moved_to(&mut self, first: i64, offset: i64, log_offset: i64, checks: u32) {
        self.next = self.next.max(offset + 1);
        let Some(old) = self.current(first) else {
            self.mark(offset);
            return;
        };
        let Some(mut half) = self.open.remove(&old) else {
            return;
        };
        half.log_offset = log_offset;
        half.checks = checks;
        self.open.insert(offset, half);
        self.moved.insert(first, offset);
        self.mark(old);
    }

    /// Changes the time at which a half message is looked at next.
    pub fn look_at(&mut self, first: i64, due: Instant) {
        let Some(half) = self.half(first) else { return };
        let old = std::mem::replace(&mut half.due, due);
        self.due.remove(&(old, first));
        self.due.insert((due, first));
    }

    /// Up to `most` half messages that are due, with the offsets of their newest records; each is looked at again
    /// at `again`, whatever comes of it.
    pub fn take_due(&mut self, now: Instant, again: Instant, most: usize) -> Vec<(i64, Half)> {
        let firsts: Vec<i64> = self
            .due
            .iter()
            .take_while(|(due, _)| *due <= now)
            .take(most)
            .map(|&(_, first)| first)
            .collect();
        let mut taken = Vec::with_capacity(firsts.len());
        for first in firsts {
            self.look_at(first, again);
            if let Some(at) = self.current(first)
                && let Some(half) = self.open.get(&at)
                && !half.ending
            {
                taken.push((at, half.clone()));
            }
        }
        taken
    }

    /// When to look next.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|&(due, _)| due)
    }

    /// True when the oldest open half message holds the books back by far more than there are open ones.
    fn is_spread(&self) -> bool {
        let Some((&oldest, _)) = self.open.first_key_value() else {
            return false;
        };
        let open = i64::try_from(self.open.len()).unwrap_or(i64::MAX);
        self.next - oldest > MOST_SPREAD.max(open.saturating_mul(4))
    }

    /// The oldest half message when it should be appended again for the sake of those behind it.
    pub fn take_straggler(&self) -> Option<(i64, Half)> {
        let (&at, half) = self.open.first_key_value()?;
        (self.is_spread() && !half.ending).then(|| (at, half.clone()))
    }

    /// True when marks wait, and when there are so many that they should not wait longer.
    pub fn marks_wait(&self, most_bytes: usize) -> (bool, bool) {
        (!self.marks.is_empty(), self.mark_bytes >= most_bytes)
    }

    /// Takes marks for one op message of about `most_bytes`.
    pub fn take_marks(&mut self, most_bytes: usize) -> Vec<i64> {
        let (mut bytes, mut count) = (0, 0);
        for offset in &self.marks {
            if bytes >= most_bytes {
                break;
            }
            bytes += offset.max(&1).ilog10() as usize + 2;
            count += 1;
        }
        self.mark_bytes = self.mark_bytes.saturating_sub(bytes);
        self.marks.drain(..count).collect()
    }

    /// The op message could not be stored.
    pub fn put_back_marks(&mut self, marks: Vec<i64>) {
        for offset in marks {
            self.mark(offset);
        }
    }

    /// The op message with these marks is stored at `op_offset`.
    pub fn marked(&mut self, op_offset: i64, marks: &[i64]) {
        for offset in marks {
            self.unmarked.remove(offset);
        }
        self.op(op_offset, marks.iter().copied().max());
    }

    /// There is an op message at `op_offset` whose largest offset this is.
    pub fn op(&mut self, op_offset: i64, largest: Option<i64>) {
        self.next_op = self.next_op.max(op_offset + 1);
        if let Some(largest) = largest {
            self.ops.push_back((op_offset, largest));
        }
    }

    /// Offsets in the half and in the op queue from which the next start has to read.
    pub fn progress(&mut self) -> (i64, i64) {
        let open = self.open.first_key_value().map(|(&at, _)| at);
        let unmarked = self.unmarked.first().copied();
        let half = open
            .into_iter()
            .chain(unmarked)
            .min()
            .unwrap_or(self.next)
            .min(self.next);
        while self.ops.front().is_some_and(|&(_, largest)| largest < half) {
            self.ops.pop_front();
        }
        (half, self.ops.front().map_or(self.next_op, |&(at, _)| at))
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn half(halves: &mut Halves, first: i64, due: Instant) -> Half {
        Half {
            first,
            log_offset: first * 100,
            group: halves.group("pg"),
            since_ms: 0,
            checks: 0,
            due,
            ending: false,
        }
    }

    fn with(offsets: std::ops::Range<i64>, start: Instant) -> Halves {
        let mut halves = Halves::default();
        for offset in offsets {
            let one = half(&mut halves, offset, start + Duration::from_secs(offset as u64));
            halves.add(offset, one);
        }
        halves
    }

    #[test]
    fn an_end_is_claimed_once_and_by_its_group() {
        let mut halves = with(0..2, Instant::now());
        assert!(!halves.claim(0, "other") && !halves.claim(7, "pg"));
        assert!(halves.claim(0, "pg") && !halves.claim(0, "pg"));
        halves.release(0);
        assert!(halves.claim(0, "pg"));
        halves.end(0);
        assert!(!halves.claim(0, "pg"));
        assert_eq!(halves.len(), 1);
    }

    #[test]
    fn the_books_end_before_what_is_open_or_not_marked() {
        let mut halves = with(0..4, Instant::now());
        assert_eq!(halves.progress(), (0, 0));
        halves.end(0);
        halves.end(2);
        assert_eq!(halves.progress(), (0, 0), "the mark of 0 is not stored");
        let marks = halves.take_marks(4096);
        assert_eq!(marks, [0, 2]);
        halves.marked(0, &marks);
        assert_eq!(
            halves.progress(),
            (1, 0),
            "the op message names 2, which is behind 1"
        );
        halves.end(1);
        halves.end(3);
        let marks = halves.take_marks(1);
        assert_eq!(marks, [1], "the first one fills it");
        halves.put_back_marks(marks);
        let marks = halves.take_marks(4096);
        assert_eq!(marks, [3, 1]);
        halves.marked(1, &marks);
        assert_eq!(halves.progress(), (4, 2));
        assert_eq!(halves.marks_wait(4096), (false, false));
    }

    #[test]
    fn a_moved_one_is_still_known_by_its_first_offset() {
        let start = Instant::now();
        let mut halves = with(0..2, start);
        halves.moved_to(0, 2, 777, 1);
        assert_eq!(halves.take_marks(4096), [0]);
        assert_eq!(
            halves.take_due(start, start + Duration::from_secs(60), 10)[0].0,
            2
        );
        assert!(halves.claim(0, "pg"));
        halves.moved_to(0, 3, 888, 2);
        halves.end(0);
        assert_eq!(halves.take_marks(4096), [2, 3], "the newest record gets the mark");
        halves.moved_to(0, 4, 999, 3);
        assert_eq!(halves.take_marks(4096), [4], "it was ended while it moved");
        assert_eq!(halves.len(), 1);
    }

    #[test]
    fn the_due_come_in_order_and_once() {
        let start = Instant::now();
        let mut halves = with(0..5, start);
        let at = |s| start + Duration::from_secs(s);
        let due = halves.take_due(at(2), at(9), 2);
        assert_eq!(due.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(halves.next_due(), Some(at(2)));
        assert!(halves.claim(2, "pg"));
        assert!(
            halves.take_due(at(2), at(9), 2).is_empty(),
            "what is being ended is left alone"
        );
        assert_eq!(halves.take_due(at(9), at(20), 10).len(), 4);
    }

    #[test]
    fn one_that_stays_open_is_moved_up_when_many_came_behind_it() {
        let mut halves = with(0..1, Instant::now());
        let mut woken = false;
        for offset in 1..=MOST_SPREAD + 1 {
            let one = half(&mut halves, offset, Instant::now() + Duration::from_secs(99));
            woken |= halves.add(offset, one);
            halves.end(offset);
        }
        assert!(woken);
        let (at, straggler) = halves.take_straggler().unwrap();
        assert_eq!((at, straggler.first), (0, 0));
        halves.moved_to(0, MOST_SPREAD + 2, 5, 0);
        assert!(halves.take_straggler().is_none());
        let marks = halves.take_marks(usize::MAX);
        halves.marked(0, &marks);
        assert_eq!(halves.progress(), (MOST_SPREAD + 2, 1));
        let many = with(0..MOST_SPREAD * 2, Instant::now());
        assert!(many.take_straggler().is_none(), "so many are really open");
    }
}
