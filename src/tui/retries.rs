//! What goes round and what falls out: retries of groups and dead letters, as rates and growth of what the standing poll
//! asks anyway.

use super::history::{Counter, Reading};
use crate::client::snapshot::GroupLag;
use crate::protocol::model::RETRY_PREFIX;

/// A group's messages on their way: how many it consumes, how many come back to be tried again.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupFlow {
    /// Queues that the sums below are of: another number of them says nothing about the time before.
    queues: usize,
    consumed: Counter,
    retried: Counter,
    /// Messages a second that it commits, without those tried again.
    pub consume: Option<f64>,
    /// Messages a second that are put into its retry topic.
    pub retry: Option<f64>,
}

impl GroupFlow {
    /// Takes in the positions on one broker at a time.
    pub fn take(&mut self, at_ms: u64, rows: &[&GroupLag]) {
        if self.queues != rows.len() {
            *self = Self {
                queues: rows.len(),
                ..Self::default()
            };
        }
        let (again, first): (Vec<&GroupLag>, Vec<&GroupLag>) =
            rows.iter().partition(|row| row.topic.starts_with(RETRY_PREFIX));
        let sum = |offsets: &mut dyn Iterator<Item = i64>| {
            offsets
                .map(|offset| u64::try_from(offset).unwrap_or(0))
                .fold(0u64, u64::saturating_add)
        };
        let committed = sum(&mut first.iter().filter_map(|row| row.committed));
        rate(&mut self.consume, self.consumed.rate(at_ms, committed));
        // A group without such a topic has nothing to try again.
        let stored = sum(&mut again.iter().map(|row| row.max));
        rate(&mut self.retry, self.retried.rate(at_ms, stored));
    }
}

fn rate(known: &mut Option<f64>, reading: Reading) {
    match reading {
        Reading::Rate(rate) => *known = Some(rate),
        // A broker that began anew, or a position that was moved back: what was known is of another time.
        Reading::First => *known = None,
        Reading::TooSoon => {}
    }
}

/// Messages of a topic since the console watches it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Growth {
    first: Option<i64>,
    last: Option<i64>,
    /// The last look brought nothing.
    is_old: bool,
}

impl Growth {
    /// Of a topic that was not there when the console began.
    pub const NEW: Self = Self {
        first: Some(0),
        last: None,
        is_old: false,
    };

    /// Takes in how many were ever stored. A topic that was made anew begins anew.
    pub fn take(&mut self, stored: i64) {
        if self.first.is_none() || self.last.is_some_and(|last| stored < last) {
            self.first = Some(stored);
        }
        self.last = Some(stored);
        self.is_old = false;
    }

    /// Takes in that it was not told: there may be more by now.
    pub fn miss(&mut self) {
        self.is_old = true;
    }

    /// True when the last look brought nothing.
    pub fn is_old(&self) -> bool {
        self.is_old
    }

    /// By how much it grew; `None` before it was looked at.
    pub fn grown(&self) -> Option<i64> {
        Some(self.last?.saturating_sub(self.first?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(topic: &str, committed: i64, max: i64) -> GroupLag {
        GroupLag {
            topic: topic.into(),
            committed: Some(committed),
            max,
            ..GroupLag::default()
        }
    }

    #[test]
    fn rates_of_a_group_come_from_its_positions_and_the_ends_of_its_retry_topic() {
        let mut flow = GroupFlow::default();
        let look = |flow: &mut GroupFlow, at: u64, committed: i64, retried: i64| {
            flow.take(at, &[&row("T", committed, 10_000), &row("%RETRY%G", 3, retried)]);
            (flow.consume, flow.retry)
        };
        assert_eq!(look(&mut flow, 1_000, 100, 5), (None, None));
        assert_eq!(look(&mut flow, 11_000, 1100, 125), (Some(100.0), Some(12.0)));
        // Too soon for a rate.
        assert_eq!(look(&mut flow, 11_100, 1200, 126), (Some(100.0), Some(12.0)));
        // A reset goes back: nothing is known of the rate.
        assert_eq!(look(&mut flow, 21_000, 0, 126), (None, Some(0.1)));
        // One more queue, with all that it ever had.
        let more = [
            &row("T", 10, 1),
            &row("T", 1_000_000, 1),
            &row("%RETRY%G", 3, 900),
        ];
        flow.take(31_000, &more);
        assert_eq!((flow.consume, flow.retry), (None, None));
    }

    #[test]
    fn a_topic_that_comes_counts_from_nothing_and_one_that_was_there_from_where_it_was() {
        let mut old = Growth::default();
        assert_eq!(old.grown(), None);
        for (stored, grown) in [(40, 0), (43, 3), (0, 0), (2, 2)] {
            old.take(stored);
            assert_eq!(old.grown(), Some(grown), "{stored}");
        }
        let mut new = Growth::NEW;
        assert_eq!(new.grown(), None);
        new.take(2);
        assert_eq!(new.grown(), Some(2));
    }
}
