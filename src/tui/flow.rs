//! Messages a second from positions that were told twice: the ends of a topic's queues, and how far groups have come.
//!
//! A broker's own averages of a minute say nothing before it has sampled twice, 10 to 20 s after the first message; positions of
//! all groups come every 2 s then. The end of a queue is a counter, so its difference is used wherever it is at hand. The
//! position of a group is none: a reset moves it. It stands in only for an average that says nought, and never for more than
//! the broker handed out to everybody meanwhile.

use std::collections::{HashMap, HashSet};

use super::history::{Counter, Reading};
use crate::client::snapshot::{GroupLag, Seen};

/// A difference counts as long as the broker's own average is not newer by so much, ms.
const COUNTS_FOR_MS: i64 = 15_000;

/// A sum of positions, and what its last two readings say.
#[derive(Debug, Clone, Default, PartialEq)]
struct Flow {
    /// How many queues are summed: with others the sum begins anew.
    queues: usize,
    counter: Counter,
    rate: Seen<f64>,
}

impl Flow {
    /// Takes a reading; true when it makes a rate.
    fn read(&mut self, at_ms: i64, queues: usize, sum: u64) -> bool {
        if queues != self.queues {
            *self = Self {
                queues,
                ..Self::default()
            };
        }
        match self.counter.rate(u64::try_from(at_ms).unwrap_or(0), sum) {
            Reading::Rate(rate) => {
                self.rate = Seen::answered(rate, at_ms);
                true
            }
            // It went back: what was known is of another series.
            Reading::First => {
                self.rate = Seen::unasked();
                false
            }
            Reading::TooSoon => false,
        }
    }
}

/// What moves on one broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Flows {
    topics: HashMap<String, Flow>,
    groups: HashMap<String, Flow>,
    handed: Counter,
}

impl Flows {
    /// Takes the positions of all groups, and how many messages the broker has handed out until now. `writes` says how many
    /// queues of a topic are written: where groups tell of fewer, their ends are not all that came in. Returns the topics
    /// that have a new rate.
    pub fn read(
        &mut self,
        at_ms: i64,
        rows: &[GroupLag],
        handed: Option<u64>,
        writes: impl Fn(&str) -> Option<usize>,
    ) -> Vec<String> {
        let mut ends: HashMap<&str, HashMap<i32, u64>> = HashMap::new();
        let mut taken: HashMap<&str, (usize, u64)> = HashMap::new();
        for row in rows {
            let end = u64::try_from(row.max).unwrap_or(0);
            ends.entry(&row.topic).or_default().insert(row.queue, end);
            if let Some(at) = row.committed {
                let sum = taken.entry(&row.group).or_default();
                sum.0 += 1;
                sum.1 = sum.1.saturating_add(u64::try_from(at).unwrap_or(0));
            }
        }
        ends.retain(|topic, queues| writes(topic).is_none_or(|writes| queues.len() >= writes));
        let known: HashSet<&str> = ends.keys().copied().collect();
        self.topics.retain(|name, _| known.contains(name.as_str()));
        self.groups.retain(|name, _| taken.contains_key(name.as_str()));
        let at = u64::try_from(at_ms).unwrap_or(0);
        let most = match handed.map(|handed| self.handed.rate(at, handed)) {
            Some(Reading::Rate(rate)) => Some(rate),
            _ => None,
        };
        for (name, (queues, sum)) in taken {
            let flow = self.groups.entry(name.to_owned()).or_default();
            if flow.read(at_ms, queues, sum) {
                flow.rate = match (flow.rate.get(), most) {
                    (Some(rate), Some(most)) => Seen::answered(rate.min(most), at_ms),
                    _ => Seen::unasked(),
                };
            }
        }
        let mut told = Vec::new();
        for (name, queues) in ends {
            let sum = queues.values().fold(0u64, |sum, end| sum.saturating_add(*end));
            if self
                .topics
                .entry(name.to_owned())
                .or_default()
                .read(at_ms, queues.len(), sum)
            {
                told.push(name.to_owned());
            }
        }
        told
    }

    /// Messages a second stored in a topic, unless the broker's own average is newer by far.
    pub fn stored(&self, topic: &str, average: &Seen<f64>) -> Option<&Seen<f64>> {
        let rate = self.topics.get(topic).map(|flow| &flow.rate)?;
        let counts = rate.get().is_some() && rate.as_of_ms + COUNTS_FOR_MS >= average.as_of_ms;
        counts.then_some(rate)
    }

    /// Messages a second that a group takes, where that was told lately.
    pub fn taken(&self, group: &str, now_ms: i64) -> Option<f64> {
        let rate = self.groups.get(group).map(|flow| &flow.rate)?;
        let lately = now_ms.saturating_sub(rate.as_of_ms) <= COUNTS_FOR_MS;
        rate.get().copied().filter(|_| lately)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(group: &str, queue: i32, max: i64, committed: i64) -> GroupLag {
        GroupLag {
            group: group.into(),
            topic: "T".into(),
            broker: "b".into(),
            queue,
            max,
            committed: Some(committed),
            ..GroupLag::default()
        }
    }

    fn any(_: &str) -> Option<usize> {
        None
    }

    fn stored(flows: &Flows) -> Option<f64> {
        flows.stored("T", &Seen::unasked())?.get().copied()
    }

    #[test]
    fn the_ends_of_queues_tell_what_came_in_however_many_groups_tell_them() {
        let mut flows = Flows::default();
        let rows = [row("G", 0, 100, 0), row("H", 0, 100, 50), row("G", 1, 40, 0)];
        assert!(flows.read(1_000, &rows, None, any).is_empty());
        assert_eq!(stored(&flows), None);
        let rows = [row("G", 0, 300, 0), row("H", 0, 300, 50), row("G", 1, 60, 0)];
        assert_eq!(flows.read(3_000, &rows, None, any), ["T"]);
        assert_eq!(stored(&flows), Some(110.0));
        // One more queue, or a broker that began anew, says nothing about the time before.
        let more = [row("G", 0, 300, 0), row("G", 1, 60, 0), row("G", 2, 9_000, 0)];
        assert!(flows.read(5_000, &more, None, any).is_empty());
        assert_eq!(stored(&flows), None);
        let anew = [row("G", 0, 3, 0), row("G", 1, 6, 0), row("G", 2, 9, 0)];
        assert!(flows.read(7_000, &anew, None, any).is_empty());
        assert_eq!(stored(&flows), None);
        let on = [row("G", 0, 5, 0), row("G", 1, 6, 0), row("G", 2, 9, 0)];
        assert_eq!(flows.read(9_000, &on, None, any), ["T"]);
        assert_eq!(stored(&flows), Some(1.0));
        // The broker's average is used when it is newer by more than a look or two.
        let average = |at_ms| Seen::answered(7.0, at_ms);
        assert!(flows.stored("T", &average(24_000)).is_some());
        assert!(flows.stored("T", &average(24_001)).is_none());
        // A fourth queue is written and read by nobody.
        flows.read(11_000, &on, None, |_| Some(4));
        assert_eq!(stored(&flows), None);
    }

    #[test]
    fn a_group_takes_no_more_than_its_broker_hands_out() {
        let mut flows = Flows::default();
        flows.read(1_000, &[row("G", 0, 1_000, 0)], Some(500), any);
        flows.read(3_000, &[row("G", 0, 1_000, 80)], Some(600), any);
        assert_eq!(flows.taken("G", 3_000), Some(40.0));
        assert_eq!(flows.taken("G", 18_000), Some(40.0));
        assert_eq!(flows.taken("G", 18_001), None, "that is not now");
        // Skipped to the end: nobody read that.
        flows.read(5_000, &[row("G", 0, 1_000, 1_000)], Some(600), any);
        assert_eq!(flows.taken("G", 5_000), Some(0.0));
        // Back to the begin: a new series.
        flows.read(7_000, &[row("G", 0, 1_000, 0)], Some(600), any);
        assert_eq!(flows.taken("G", 7_000), None);
        // How much it hands out is not known.
        flows.read(9_000, &[row("G", 0, 1_000, 10)], None, any);
        assert_eq!(flows.taken("G", 9_000), None);
    }
}
