//! Offsets of a static topic as its clients see them, made of what brokers tell of physical queues.

use std::collections::BTreeMap;

use super::mapping::{Items, believed, is_decided, logical_broker, scope_of, to_logical};
use crate::client::snapshot::GroupLag;
use crate::protocol::body::{LogicQueueMappingItem, TopicOffset, TopicQueueMappingDetail, TopicStatsTable};

/// What clients see of a static topic.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Logical {
    /// The broker name that stands for all brokers.
    pub broker: String,
    /// Generations by logical queue, by the leader's list.
    pub queues: BTreeMap<i32, Items>,
}

/// The range of a logical queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    /// First logical offset; `None` when the broker of the oldest generation did not tell.
    pub min: Option<i64>,
    /// Logical end; `None` when the leader did not tell.
    pub max: Option<i64>,
    /// Messages; offsets that no generation has are not counted. `None` when the broker of a generation did not tell.
    pub count: Option<i64>,
    /// Store time of the newest message, epoch ms; 0 when there is none.
    pub last_stored: i64,
}

/// Physical ranges by broker and queue.
pub type Physical = BTreeMap<(String, i32), TopicOffset>;

/// Adds what one broker tells.
pub fn add_stats(physical: &mut Physical, stats: &TopicStatsTable) {
    for (queue, offset) in &stats.offset_table {
        physical.insert((queue.broker_name.clone(), queue.queue_id), *offset);
    }
}

/// Messages of a physical queue.
pub const fn count(offset: &TopicOffset) -> i64 {
    let count = offset.max_offset.saturating_sub(offset.min_offset);
    if count > 0 { count } else { 0 }
}

/// The logical offset of a physical minimum. Messages that are deleted may reach beyond the end of an ended generation.
fn minimum(item: &LogicQueueMappingItem, physical: i64) -> i64 {
    let ended = item.end_offset >= item.start_offset && item.end_offset < physical;
    to_logical(item, if ended { item.end_offset } else { physical })
}

impl Logical {
    /// From the mappings of the brokers; `None` when none has one.
    pub fn of<'a>(details: impl Iterator<Item = &'a TopicQueueMappingDetail> + Clone) -> Option<Self> {
        let scope = details.clone().map(scope_of).next()?;
        Some(Self {
            broker: logical_broker(scope),
            queues: believed(details)
                .into_iter()
                .map(|(queue, items)| (queue, items.clone()))
                .collect(),
        })
    }

    /// Brokers that have a generation.
    pub fn brokers(&self) -> std::collections::BTreeSet<&str> {
        self.queues.values().flatten().map(|i| i.bname.as_str()).collect()
    }

    /// The range of each queue.
    pub fn ranges(&self, physical: &Physical) -> BTreeMap<i32, Range> {
        let at = |item: &LogicQueueMappingItem| physical.get(&(item.bname.clone(), item.queue_id));
        self.queues
            .iter()
            .map(|(queue, items)| {
                let told: Vec<&TopicOffset> = items.iter().filter_map(&at).collect();
                let mut decided = items.iter().filter(|item| is_decided(item));
                let (first, last) = (decided.clone().next(), decided.next_back());
                let range = Range {
                    min: first.and_then(|item| Some(minimum(item, at(item)?.min_offset))),
                    max: last.and_then(|item| Some(to_logical(item, at(item)?.max_offset))),
                    count: (told.len() == items.len())
                        .then(|| told.iter().map(|o| count(o)).fold(0, i64::saturating_add)),
                    last_stored: told.iter().map(|o| o.last_update_timestamp).max().unwrap_or(0),
                };
                (*queue, range)
            })
            .collect()
    }

    /// A group's rows of a topic, physical to logical. A physical row that belongs to no generation stays when it holds
    /// messages. A queue whose leader did not tell has no row.
    pub fn lag(&self, rows: Vec<GroupLag>) -> Vec<GroupLag> {
        let mut physical: BTreeMap<(String, i32), GroupLag> = rows
            .into_iter()
            .map(|row| ((row.broker.clone(), row.queue), row))
            .collect();
        let mut logical = Vec::new();
        for (queue, items) in &self.queues {
            let parts: Vec<(&LogicQueueMappingItem, Option<GroupLag>)> = items
                .iter()
                .map(|item| (item, physical.remove(&(item.bname.clone(), item.queue_id))))
                .collect();
            logical.extend(self.one(*queue, &parts));
        }
        logical.extend(physical.into_values().filter(|row| row.max > 0));
        logical
    }

    /// A position is in the newest generation that has one: groups commit where the message was.
    fn one(&self, queue: i32, parts: &[(&LogicQueueMappingItem, Option<GroupLag>)]) -> Option<GroupLag> {
        let (last, row) = parts.iter().rfind(|(item, _)| is_decided(item))?;
        let row = row.as_ref()?;
        let max = to_logical(last, row.max);
        let stands = parts.iter().enumerate().rev().find_map(|(at, (item, row))| {
            let row = row.as_ref().filter(|_| is_decided(item))?;
            Some((at, to_logical(item, row.committed?), row))
        });
        let unread = stands.map(|(at, _, row)| {
            let behind = parts[at + 1..].iter().filter_map(|(_, row)| row.as_ref());
            behind
                .map(|row| row.max.max(0))
                .fold(row.lag().unwrap_or(0), i64::saturating_add)
        });
        let committed = stands.map(|(_, committed, _)| committed);
        Some(GroupLag {
            group: row.group.clone(),
            topic: row.topic.clone(),
            broker: self.broker.clone(),
            queue,
            max,
            committed,
            inflight: stands.and_then(|(_, _, row)| row.inflight),
            last_consumed_ms: stands.and_then(|(_, _, row)| row.last_consumed_ms),
            hole: match (committed, unread) {
                (Some(committed), Some(unread)) if committed <= max => {
                    max.saturating_sub(committed).saturating_sub(unread)
                }
                _ => 0,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::mapping::tests::item;
    use super::*;

    fn logical(items: Items) -> Logical {
        Logical {
            broker: "__syslo__global__".into(),
            queues: [(3, items)].into(),
        }
    }

    fn offset(min: i64, max: i64) -> TopicOffset {
        TopicOffset {
            min_offset: min,
            max_offset: max,
            last_update_timestamp: max,
        }
    }

    /// By Java's `convertPhysicalTopicStats`; the counts are ours.
    #[test]
    fn a_range_reaches_from_the_oldest_generation_to_the_leader() {
        let moved = logical(vec![item(0, "a", 1, 0), item(1, "b", 0, 10_000)]);
        let physical = [
            (("a".to_owned(), 1), offset(2, 7)),
            (("b".to_owned(), 0), offset(0, 4)),
        ]
        .into();
        let range = moved.ranges(&physical)[&3];
        assert_eq!(
            (range.min, range.max, range.count, range.last_stored),
            (Some(2), Some(10_004), Some(9), 7)
        );
        // An empty queue that was moved ends at 10000, as mqadmin shows.
        let empty = [
            (("a".to_owned(), 1), offset(0, 0)),
            (("b".to_owned(), 0), offset(0, 0)),
        ]
        .into();
        let range = moved.ranges(&empty)[&3];
        assert_eq!(
            (range.min, range.max, range.count),
            (Some(0), Some(10_000), Some(0))
        );
        // A part that is not told is not nothing.
        let half = [(("b".to_owned(), 0), offset(0, 4))].into();
        let range = moved.ranges(&half)[&3];
        assert_eq!((range.min, range.max, range.count), (None, Some(10_004), None));
        // In the middle of a change the old leader is the end.
        let open = logical(vec![item(0, "a", 1, 0), item(1, "b", 0, -1)]);
        assert_eq!(open.ranges(&physical)[&3].max, Some(7));
        assert_eq!(open.ranges(&Physical::new())[&3], Range::default());
    }

    fn row(broker: &str, queue: i32, max: i64, committed: Option<i64>) -> GroupLag {
        GroupLag {
            topic: "T".into(),
            broker: broker.into(),
            queue,
            max,
            committed,
            ..GroupLag::default()
        }
    }

    #[test]
    fn a_backlog_is_of_messages_and_not_of_offsets() {
        let moved = logical(vec![item(0, "a", 1, 0), item(1, "b", 0, 10_000)]);
        let lag = |rows: Vec<GroupLag>| moved.lag(rows);
        let rows = lag(vec![row("a", 1, 7, Some(3)), row("b", 0, 4, None)]);
        let [one] = rows.as_slice() else {
            panic!("{rows:?}")
        };
        assert_eq!((one.broker.as_str(), one.queue), ("__syslo__global__", 3));
        assert_eq!((one.max, one.committed, one.lag()), (10_004, Some(3), Some(8)));
        let rows = lag(vec![row("a", 1, 7, Some(7)), row("b", 0, 4, Some(1))]);
        assert_eq!((rows[0].committed, rows[0].lag()), (Some(10_001), Some(3)));
        let rows = lag(vec![row("a", 1, 7, Some(7)), row("b", 0, 4, Some(4))]);
        assert_eq!((rows[0].committed, rows[0].lag()), (Some(10_004), Some(0)));
        let rows = lag(vec![row("a", 1, 7, None), row("b", 0, 4, None)]);
        assert_eq!((rows[0].committed, rows[0].lag()), (None, None));
        // The leader is silent: nothing is made up. What belongs to no queue is not hidden.
        let rows = lag(vec![
            row("a", 1, 7, Some(7)),
            row("a", 9, 5, Some(1)),
            row("a", 8, 0, None),
        ]);
        assert_eq!(rows.len(), 1);
        assert_eq!((rows[0].queue, rows[0].lag()), (9, Some(4)));
    }
}
