//! How long positions have been standing, by our own looks.

use std::collections::HashMap;
use std::time::Duration;

use crate::client::snapshot::GroupLag;

/// A position, the first look that saw it there and the last one, epoch ms.
type Stand = (i64, i64, i64);

/// Positions of one broker that have something to read, and since when they are where they are.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standings {
    /// By group, then topic and queue.
    groups: HashMap<String, HashMap<(String, i32), Stand>>,
}

impl Standings {
    /// Takes in the rows that the broker told. What has nothing to read, or is not told any more, begins anew when it has.
    pub fn look(&mut self, rows: &[GroupLag], at_ms: i64) {
        let before = std::mem::take(&mut self.groups);
        for row in rows {
            let Some(committed) = row.committed.filter(|_| row.lag().is_some_and(|lag| lag > 0)) else {
                continue;
            };
            let key = (row.topic.clone(), row.queue);
            let known = before.get(&row.group).and_then(|queues| queues.get(&key));
            let first = match known {
                Some((at, first, _)) if *at == committed => *first,
                _ => at_ms,
            };
            let queues = self.groups.entry(row.group.clone()).or_default();
            queues.insert(key, (committed, first, at_ms));
        }
    }

    /// How long our looks have seen the row's position where it is, with something to read all the while. `None` when
    /// the row tells another position than the last look.
    pub fn unmoved(&self, row: &GroupLag) -> Option<Duration> {
        let key = (row.topic.clone(), row.queue);
        let (committed, first, last) = self.groups.get(&row.group)?.get(&key)?;
        let passed = u64::try_from(last.saturating_sub(*first)).ok()?;
        (row.committed == Some(*committed)).then(|| Duration::from_millis(passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_stands_while_looks_see_it_and_there_is_something_to_read() {
        let row = |committed: i64, max: i64| GroupLag {
            group: "G".into(),
            topic: "T".into(),
            broker: "b".into(),
            committed: Some(committed),
            max,
            ..GroupLag::default()
        };
        let mut s = Standings::default();
        let mut look = |row: &GroupLag, at_s: i64| {
            s.look(std::slice::from_ref(row), at_s * 1000);
            s.unmoved(row).map(|d| d.as_secs())
        };
        assert_eq!(look(&row(5, 5), 10), None, "nothing to read");
        assert_eq!(look(&row(5, 6), 20), Some(0));
        assert_eq!(look(&row(5, 9), 310), Some(290));
        // The same answer again proves no more.
        assert_eq!(look(&row(5, 9), 310), Some(290));
        assert_eq!(look(&row(6, 9), 320), Some(0));
        assert_eq!(look(&row(6, 6), 330), None);
        assert_eq!(look(&row(6, 7), 340), Some(0));
        // Another question saw it move.
        assert_eq!(s.unmoved(&row(7, 9)), None);
    }
}
