//! What is in a log: messages, bytes, rate and sizes by topic and span of time.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use super::commit_log::{Gap, Step, Walk};
use super::record::Wanted;
use crate::protocol::message::MessageView;

/// Classes of sizes: up to 128 bytes, 256, 512, .. 8 MiB, and more.
const CLASSES: usize = 18;
/// The limit of the first class.
const FIRST_LIMIT: u64 = 128;
/// Most combinations of topic and span that are told apart.
const MOST_CELLS: usize = 100_000;
/// Whose the rest is.
pub const OTHERS: &str = "(others)";

/// The greatest size of a class; `None` for the last one.
pub fn size_limit(class: usize) -> Option<u64> {
    (class + 1 < CLASSES).then(|| FIRST_LIMIT << class)
}

/// How many records of each class of sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes([u64; CLASSES]);

impl Sizes {
    fn add(&mut self, size: u64) {
        let class = (0..CLASSES)
            .find(|&class| size_limit(class).is_none_or(|limit| size <= limit))
            .unwrap_or(CLASSES - 1);
        self.0[class] += 1;
    }

    fn merge(&mut self, other: &Self) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum += n;
        }
    }

    /// The classes in use, with their counts.
    pub fn classes(&self) -> impl Iterator<Item = (usize, u64)> {
        let first = self.0.iter().position(|&n| n > 0).unwrap_or(CLASSES);
        let end = self.0.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
        (first..end).map(|class| (class, self.0[class]))
    }

    /// The limit of the class that the record at a share of the way lies in, the smallest records first.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let total: u64 = self.0.iter().sum();
        let wanted = (total as f64 * share).ceil().max(1.0) as u64;
        let mut sum = 0;
        let class = self.0.iter().position(|&n| {
            sum += n;
            sum >= wanted
        })?;
        Some(size_limit(class).unwrap_or(u64::MAX))
    }
}

/// Sums over records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Sums {
    /// Records.
    pub records: u64,
    /// Messages; a record of a batch queue has several.
    pub messages: u64,
    /// Bytes of the records.
    pub bytes: u64,
    /// Bytes of their bodies as stored.
    pub body_bytes: u64,
    /// The largest record.
    pub largest: u64,
    /// Sizes of the records.
    pub sizes: Sizes,
    /// First store time, ms.
    pub first_ms: Option<i64>,
    /// Last store time, ms.
    pub last_ms: Option<i64>,
}

impl Sums {
    fn add(&mut self, view: &MessageView<'_>) {
        let size = view.size() as u64;
        let stored = view.store_timestamp();
        self.records += 1;
        self.messages += u64::from(view.messages());
        self.bytes += size;
        self.body_bytes += view.body().len() as u64;
        self.largest = self.largest.max(size);
        self.sizes.add(size);
        self.first_ms = Some(self.first_ms.map_or(stored, |first| first.min(stored)));
        self.last_ms = self.last_ms.max(Some(stored));
    }

    /// Adds the sums of others.
    pub fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.body_bytes += other.body_bytes;
        self.largest = self.largest.max(other.largest);
        self.sizes.merge(&other.sizes);
        self.first_ms = match (self.first_ms, other.first_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.last_ms = self.last_ms.max(other.last_ms);
    }

    /// Mean size of a record.
    pub fn mean(&self) -> Option<u64> {
        self.bytes.checked_div(self.records)
    }

    /// Messages a second over a span of ms, at least one second.
    pub fn rate(&self, span_ms: i64) -> f64 {
        self.messages as f64 * 1000.0 / span_ms.max(1000) as f64
    }
}

/// What is counted.
#[derive(Debug, Clone, Default)]
pub struct Query {
    /// Which records.
    pub wanted: Wanted,
    /// Store times from here on, ms.
    pub from_ms: Option<i64>,
    /// Store times up to here, ms.
    pub to_ms: Option<i64>,
    /// Length of a span, ms; at least 1.
    pub every_ms: i64,
}

/// Sums of one topic in one span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// The topic.
    pub topic: String,
    /// Begin of the span, epoch ms.
    pub begin_ms: i64,
    /// Its sums.
    pub sums: Sums,
}

/// What was counted so far.
#[derive(Debug, Default)]
pub struct Stats {
    cells: BTreeMap<String, BTreeMap<i64, Sums>>,
    count: usize,
    /// Of all records that count.
    pub all: Sums,
    /// Damaged places.
    pub gaps: Vec<Gap>,
}

impl Stats {
    /// Counts what a walk meets, until it ends or `go_on`, called with each position, is false.
    pub fn read(&mut self, walk: Walk<'_>, query: &Query, mut go_on: impl FnMut(u64) -> bool) {
        for step in walk {
            if !go_on(step.end()) {
                return;
            }
            match step {
                Step::Message { record, stale } => {
                    let Ok(view) = record.view() else { continue };
                    let stored = view.store_timestamp();
                    // Times do not decrease along a log, apart from leftovers.
                    if !stale && query.to_ms.is_some_and(|to| stored > to) {
                        return;
                    }
                    if query.from_ms.is_none_or(|from| stored >= from) && query.wanted.matches(&view) {
                        self.add(&view, query.every_ms.max(1));
                    }
                }
                Step::Gap(gap) => self.gaps.push(gap),
                Step::Filler { .. } | Step::Tail { .. } => {}
            }
        }
    }

    fn add(&mut self, view: &MessageView<'_>, every_ms: i64) {
        self.all.add(view);
        let begin = view.store_timestamp().div_euclid(every_ms) * every_ms;
        let topic = if self.cells.contains_key(view.topic()) || self.count < MOST_CELLS {
            view.topic()
        } else {
            OTHERS
        };
        let spans = self.cells.entry(topic.to_owned()).or_default();
        match spans.entry(begin) {
            Entry::Occupied(mut sums) => sums.get_mut().add(view),
            Entry::Vacant(place) if self.count < MOST_CELLS => {
                self.count += 1;
                place.insert(Sums::default()).add(view);
            }
            // Too many spans: the topic's last one takes the rest.
            Entry::Vacant(_) => match spans.last_entry() {
                Some(mut last) => last.get_mut().add(view),
                None => spans.entry(begin).or_default().add(view),
            },
        }
    }

    /// True when there were more topics and spans than are told apart.
    pub fn is_crowded(&self) -> bool {
        self.count >= MOST_CELLS
    }

    /// By topic and span.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        self.cells.iter().flat_map(|(topic, spans)| {
            spans.iter().map(|(&begin_ms, sums)| Cell {
                topic: topic.clone(),
                begin_ms,
                sums: sums.clone(),
            })
        })
    }

    /// By topic, those with the most bytes first.
    pub fn topics(&self) -> Vec<(String, Sums)> {
        let mut topics: Vec<(String, Sums)> = self
            .cells
            .iter()
            .map(|(topic, spans)| {
                let mut sums = Sums::default();
                for span in spans.values() {
                    sums.merge(span);
                }
                (topic.clone(), sums)
            })
            .collect();
        topics.sort_by(|a, b| b.1.bytes.cmp(&a.1.bytes).then_with(|| a.0.cmp(&b.0)));
        topics
    }

    /// By span, in order.
    pub fn spans(&self) -> BTreeMap<i64, Sums> {
        let mut spans: BTreeMap<i64, Sums> = BTreeMap::new();
        for (&begin, sums) in self.cells.values().flatten() {
            spans.entry(begin).or_default().merge(sums);
        }
        spans
    }

    /// How much of a span the counted records cover, ms: the first and the last one are not whole.
    pub fn covered_ms(&self, begin_ms: i64, every_ms: i64) -> i64 {
        let first = self.all.first_ms.unwrap_or(begin_ms);
        let last = self.all.last_ms.unwrap_or(begin_ms);
        let end = begin_ms.saturating_add(every_ms).min(last);
        end.saturating_sub(begin_ms.max(first)).max(1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_fall_into_classes_of_powers_of_two() {
        let mut sizes = Sizes::default();
        for size in [92, 128, 129, 256, 257, 20 << 20] {
            sizes.add(size);
        }
        let used: Vec<(usize, u64)> = sizes.classes().filter(|(_, n)| *n > 0).collect();
        assert_eq!(used, [(0, 2), (1, 2), (2, 1), (17, 1)]);
        assert_eq!(size_limit(0), Some(128));
        assert_eq!(size_limit(16), Some(8 << 20));
        assert_eq!(size_limit(17), None);
        assert_eq!(sizes.quantile(0.5), Some(256));
        assert_eq!(sizes.quantile(1.0), Some(u64::MAX));
        assert_eq!(Sizes::default().quantile(0.5), None);
    }
}
