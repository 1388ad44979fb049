//! Messages of many queues in the order in which they were stored, as they come.
//!
//! A message waits for [`WINDOW`] after it arrived: what another queue brings within that time and was stored before
//! it goes first. The number and the bytes of those that wait are bounded; whoever fills it must wait.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::Message;

/// How long a message waits for older ones.
pub const WINDOW: Duration = Duration::from_millis(500);
/// Most messages that wait.
const MOST: usize = 10_000;
/// Most bytes of bodies that wait.
const MOST_BYTES: usize = 64 * 1024 * 1024;

/// Place in the order: store time, then broker, queue, offset, and where the message is kept.
type Key = (i64, String, i32, i64, u64);

/// Messages that wait for their turn.
#[derive(Debug, Default)]
pub struct Merge {
    heap: BinaryHeap<Reverse<Key>>,
    kept: std::collections::HashMap<u64, Message>,
    /// When each arrival's wait is over, with its store time; in the order of arrival.
    waits: VecDeque<(Instant, i64)>,
    bytes: usize,
    next: u64,
}

impl Merge {
    /// Takes a message that arrived at `now`.
    pub fn push(&mut self, message: Message, now: Instant) {
        self.waits.push_back((now + WINDOW, message.stored_ms));
        self.bytes += message.body.len();
        self.heap.push(Reverse((
            message.stored_ms,
            message.broker.clone(),
            message.queue,
            message.offset,
            self.next,
        )));
        self.kept.insert(self.next, message);
        self.next += 1;
    }

    /// Messages whose turn has come at `now`, in order, at most `most` of them.
    pub fn due(&mut self, now: Instant, most: usize) -> Vec<Message> {
        let mut until = None;
        while let Some((over, stored)) = self.waits.front()
            && *over <= now
        {
            until = until.max(Some(*stored));
            self.waits.pop_front();
        }
        let mut out = Vec::new();
        let Some(until) = until else { return out };
        while out.len() < most && self.heap.peek().is_some_and(|Reverse(key)| key.0 <= until) {
            out.extend(self.pop());
        }
        if out.len() == most && self.heap.peek().is_some_and(|Reverse(key)| key.0 <= until) {
            // The rest is due as well, at the next call.
            self.waits.push_front((now, until));
        }
        out
    }

    /// Everything that is left, in order.
    pub fn drain(&mut self) -> Vec<Message> {
        self.waits.clear();
        let mut out = Vec::with_capacity(self.heap.len());
        while !self.heap.is_empty() {
            out.extend(self.pop());
        }
        out
    }

    fn pop(&mut self) -> Option<Message> {
        let Reverse((_, _, _, _, at)) = self.heap.pop()?;
        let message = self.kept.remove(&at)?;
        self.bytes -= message.body.len();
        Some(message)
    }

    /// When the next message may have its turn.
    pub fn next_due(&self) -> Option<Instant> {
        self.waits.front().map(|(over, _)| *over)
    }

    /// True when nothing more should be brought.
    pub fn is_full(&self) -> bool {
        self.heap.len() >= MOST || self.bytes >= MOST_BYTES
    }

    /// Messages that wait.
    pub fn waiting(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(stored_ms: i64, queue: i32, offset: i64) -> Message {
        Message {
            queue,
            offset,
            stored_ms,
            body: bytes::Bytes::from_static(b"xy"),
            ..Message::empty()
        }
    }

    fn times(messages: &[Message]) -> Vec<i64> {
        messages.iter().map(|m| m.stored_ms).collect()
    }

    #[test]
    fn queues_are_merged_by_store_time_within_the_window() {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut merge = Merge::default();
        merge.push(message(100, 0, 0), at(0));
        merge.push(message(300, 0, 1), at(0));
        merge.push(message(200, 1, 0), at(400));
        assert!(merge.due(at(499), 100).is_empty());
        assert_eq!(merge.next_due(), Some(at(500)));
        // 200 came within the window of 300 and goes before it; its own wait is over with that.
        assert_eq!(times(&merge.due(at(500), 100)), [100, 200, 300]);
        assert!(merge.due(at(900), 100).is_empty());
        // One that comes later than the window is late, and printed all the same.
        merge.push(message(50, 1, 1), at(1000));
        assert_eq!(times(&merge.due(at(1500), 100)), [50]);
        assert_eq!((merge.waiting(), merge.bytes), (0, 0));
    }

    #[test]
    fn what_may_not_go_at_once_goes_at_the_next_call() {
        let start = Instant::now();
        let mut merge = Merge::default();
        for i in 0..5 {
            merge.push(message(i, 0, i), start);
        }
        let later = start + WINDOW;
        assert_eq!(times(&merge.due(later, 2)), [0, 1]);
        assert_eq!(times(&merge.due(later, 2)), [2, 3]);
        assert_eq!(times(&merge.drain()), [4]);
    }

    #[test]
    fn it_is_full_at_its_bound() {
        let mut merge = Merge::default();
        let now = Instant::now();
        for i in 0..MOST {
            assert!(!merge.is_full());
            merge.push(message(0, 0, i as i64), now);
        }
        assert!(merge.is_full());
    }
}
