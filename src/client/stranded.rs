//! Messages that nobody can read any more: in queues behind the read queues of their topic.
//!
//! A broker refuses a pull there, and its answers about a topic leave such queues out (Java's 202 goes by the larger of
//! read and write queues, 208 by read queues). What names them are the committed offsets (43), which stay. Only queues
//! that these name are asked for: a question about a queue that never was makes one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::admin::cluster::BrokerAt;
use super::admin::group::{is_system, position_key};
use super::admin::message::QueueAt;
use super::error::{Error, Server};
use super::snapshot::told_sum;
use super::words::{counted, quoted, spans};
use super::{Client, Deadline};
use crate::protocol::requests::GetAllConsumerOffset;

/// Committed offsets of one broker by group and topic, then queue.
pub type Offsets = BTreeMap<(String, String), BTreeMap<i32, i64>>;

/// Topic and queue, and the position of each group in it.
type Suspects = BTreeMap<(String, i32), BTreeMap<String, i64>>;

/// The number of the look, and what is known of queues: first offset and end, and the look that asked.
type Known = (u64, BTreeMap<(String, i32), (Range<i64>, u64)>);

/// First offset and end of suspicious queues, and at which look each was asked for: who looks again and again asks some of
/// them each time. Nobody writes there, so that an old answer is good.
#[derive(Debug, Default)]
pub struct Ends(Mutex<Known>);

impl Ends {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which to ask now: those that were never asked for, then the longest ago. Others than these suspects are forgotten.
    fn next(&self, suspects: &Suspects, most: usize) -> Vec<(String, i32)> {
        let mut known = self.known();
        known.0 += 1;
        known.1.retain(|key, _| suspects.contains_key(key));
        let mut all: Vec<&(String, i32)> = suspects.keys().collect();
        all.sort_by_key(|key| known.1.get(*key).map_or(0, |(_, look)| *look));
        all.into_iter().take(most).cloned().collect()
    }

    fn put(&self, key: (String, i32), range: Range<i64>) {
        let mut known = self.known();
        let look = known.0;
        known.1.insert(key, (range, look));
    }

    /// The stranded queues among the suspects whose ends are known, by topic.
    fn judge(&self, suspects: &Suspects) -> BTreeMap<String, Vec<Stranded>> {
        let known = self.known();
        let mut found: BTreeMap<String, Vec<Stranded>> = BTreeMap::new();
        for (key, groups) in suspects {
            let range = known.1.get(key).map(|(range, _)| range.clone());
            if let Some(queue) = range.and_then(|range| stranded(key.1, range, groups)) {
                found.entry(key.0.clone()).or_default().push(queue);
            }
        }
        found
    }
}

/// A queue behind the read queues of its topic that is not read to the end.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stranded {
    /// Queue number.
    pub queue: i32,
    /// First offset still there.
    pub min: i64,
    /// Exclusive end.
    pub max: i64,
    /// Messages that each group has not read.
    pub unread: BTreeMap<String, i64>,
}

impl Stranded {
    /// The group that has most to read, and how much.
    pub fn worst(&self) -> Option<(&str, i64)> {
        let worst = self.unread.iter().max_by_key(|(_, unread)| **unread);
        worst.map(|(group, unread)| (group.as_str(), *unread))
    }

    /// Messages that some group has not read.
    pub fn messages(&self) -> i64 {
        self.worst().map_or(0, |(_, unread)| unread)
    }
}

/// Stranded queues of one topic on one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// Broker name.
    pub broker: String,
    /// Topic name.
    pub topic: String,
    /// The queues, each with something unread.
    pub queues: Vec<Stranded>,
}

impl Left {
    /// Messages that some group has not read.
    pub fn messages(&self) -> i64 {
        told_sum(self.queues.iter().map(Stranded::messages))
    }

    /// `3 messages in queue 5 of T on broker-a are stranded, unread by CG`
    pub fn text(&self) -> String {
        let numbers: Vec<i32> = self.queues.iter().map(|s| s.queue).collect();
        let groups: BTreeSet<&str> = self
            .queues
            .iter()
            .flat_map(|s| s.unread.keys().map(String::as_str))
            .collect();
        format!(
            "{} in {} {} of {} on {} are stranded, unread by {}",
            counted(self.messages(), "message"),
            if numbers.len() == 1 { "queue" } else { "queues" },
            spans(&numbers),
            self.topic,
            self.broker,
            groups.into_iter().collect::<Vec<_>>().join(" ")
        )
    }
}

/// The command that makes stranded queues of a topic readable again on all these brokers.
pub fn raise_read<'a>(
    topic: &str,
    brokers: impl IntoIterator<Item = (&'a str, &'a [Stranded])>,
) -> Option<String> {
    let (mut read, mut names) = (None, String::new());
    for (broker, queues) in brokers {
        let Some(last) = queues.iter().map(|s| s.queue).max() else {
            continue;
        };
        read = read.max(Some(last.saturating_add(1)));
        names.push_str(&format!(" --broker {}", quoted(broker)));
    }
    Some(format!(
        "rmq topic update {} --read-queues {}{names}",
        quoted(topic),
        read?
    ))
}

/// The committed offsets in a broker's answer, or in the state of its store.
pub fn offsets_of(table: BTreeMap<String, BTreeMap<i32, i64>>) -> Offsets {
    let entries = table.into_iter();
    entries
        .filter_map(|(key, queues)| {
            let (topic, group) = position_key(&key)?;
            Some(((group.to_owned(), topic.to_owned()), queues))
        })
        .collect()
}

/// Queues that positions name and that lie behind the read queues of their topic. A topic that is gone has none.
fn suspects(offsets: &Offsets, read: &BTreeMap<String, i32>) -> Suspects {
    let mut found = Suspects::new();
    for ((group, topic), queues) in offsets.iter().filter(|((group, _), _)| !is_system(group)) {
        let Some(read) = read.get(topic) else { continue };
        for (queue, committed) in queues.range(*read..) {
            let groups = found.entry((topic.clone(), *queue)).or_default();
            groups.insert(group.clone(), *committed);
        }
    }
    found
}

impl Client {
    /// The stranded queues of a broker by topic, `read` being the read queues of its topics: one question, and two
    /// for each of at most `most` suspicious queues.
    pub async fn look_stranded(
        &self,
        broker: &Server,
        read: &BTreeMap<String, i32>,
        (ends, most): (&Ends, usize),
        deadline: Deadline,
    ) -> Result<BTreeMap<String, Vec<Stranded>>, Error> {
        let (_, body) = self.call(broker, &GetAllConsumerOffset, (), deadline).await?;
        let offsets = offsets_of(body.value.offset_table);
        Ok(self
            .stranded(broker, &offsets, read, (ends, most), deadline)
            .await)
    }

    /// What is stranded on some brokers for these groups (none named: for all) in this topic, or in all; and whether every
    /// broker told. Two questions a broker, and two for each of its suspicious queues.
    pub async fn left_stranded(
        &self,
        brokers: &[BrokerAt],
        groups: &BTreeSet<String>,
        topic: Option<&str>,
    ) -> (Vec<Left>, bool) {
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let (server, deadline) = (broker.server(), self.deadline());
                let (offsets, read) =
                    tokio::join!(self.call(&server, &GetAllConsumerOffset, (), deadline), async {
                        Ok::<BTreeMap<String, i32>, Error>(match topic {
                            Some(topic) => self
                                .topic_config(&broker, topic, deadline)
                                .await?
                                .map(|(config, _)| (topic.to_owned(), config.read_queue_nums))
                                .into_iter()
                                .collect(),
                            None => {
                                let table = self.broker_topics(&server, deadline).await?.topic_config_table;
                                table
                                    .into_iter()
                                    .map(|(name, config)| (name, config.read_queue_nums))
                                    .collect()
                            }
                        })
                    });
                let mut offsets = offsets_of(offsets?.1.value.offset_table);
                offsets.retain(|(group, _), _| groups.is_empty() || groups.contains(group));
                let ends = (&Ends::default(), usize::MAX);
                let found = self
                    .stranded(&server, &offsets, &read?, ends, self.deadline())
                    .await;
                Ok::<_, Error>((broker.id.name, found))
            })
            .await;
        let complete = answers.iter().all(Result::is_ok);
        let mut left: Vec<Left> = answers
            .into_iter()
            .flatten()
            .flat_map(|(broker, found)| {
                found.into_iter().map(move |(topic, queues)| Left {
                    broker: broker.clone(),
                    topic,
                    queues,
                })
            })
            .collect();
        left.sort_by(|a, b| (&a.topic, &a.broker).cmp(&(&b.topic, &b.broker)));
        (left, complete)
    }

    /// The same where the positions are known. A queue that cannot be asked for is left out.
    pub async fn stranded(
        &self,
        broker: &Server,
        offsets: &Offsets,
        read: &BTreeMap<String, i32>,
        (ends, most): (&Ends, usize),
        deadline: Deadline,
    ) -> BTreeMap<String, Vec<Stranded>> {
        let suspects = suspects(offsets, read);
        let next = ends.next(&suspects, most);
        self.each(next, |key| async move {
            let at = QueueAt {
                broker: broker.clone(),
                queue: key.1,
            };
            let Ok(max) = self.max_offset(&at, &key.0, deadline).await else {
                return;
            };
            let Ok(min) = self.min_offset(&at, &key.0, deadline).await else {
                return;
            };
            ends.put(key, min.max(0)..max);
        })
        .await;
        ends.judge(&suspects)
    }
}

/// What is unread in a queue; messages that are deleted already are nobody's. `None` where nothing is.
fn stranded(queue: i32, range: Range<i64>, groups: &BTreeMap<String, i64>) -> Option<Stranded> {
    let unread: BTreeMap<String, i64> = groups
        .iter()
        .map(|(group, at)| {
            (
                (*group).to_owned(),
                range.end.saturating_sub((*at).max(range.start)),
            )
        })
        .filter(|(_, unread)| *unread > 0)
        .collect();
    (!unread.is_empty()).then_some(Stranded {
        queue,
        min: range.start,
        max: range.end,
        unread,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A topic of 16 queues that was made one of 8, as mqadmin's `updateTopic -r 8 -w 8` does.
    #[test]
    fn positions_name_the_queues_that_a_shrink_left_behind() {
        let table = [
            ("orders@CID_pay".to_owned(), [(7, 5), (8, 5), (9, 40)].into()),
            ("orders@CID_bi".to_owned(), [(8, 12)].into()),
            ("orders@CID_RMQ_SYS_TRANS".to_owned(), [(11, 0)].into()),
            ("gone@CID_pay".to_owned(), [(3, 0)].into()),
            ("small@CID_pay".to_owned(), [(0, 0), (1, 0)].into()),
        ];
        let offsets = offsets_of(table.into());
        let read = [("orders".to_owned(), 8), ("small".to_owned(), 2)].into();
        let found = suspects(&offsets, &read);
        let groups = |all: &[(&str, i64)]| -> BTreeMap<String, i64> {
            all.iter().map(|(group, at)| ((*group).to_owned(), *at)).collect()
        };
        let orders = |queue| ("orders".to_owned(), queue);
        let expected: Suspects = [
            (orders(8), groups(&[("CID_bi", 12), ("CID_pay", 5)])),
            (orders(9), groups(&[("CID_pay", 40)])),
        ]
        .into();
        assert_eq!(found, expected);
        // Some at each look; what is known stays known.
        let ends = Ends::default();
        assert_eq!(ends.next(&found, 1), [orders(8)]);
        ends.put(orders(8), 0..12);
        assert_eq!(ends.next(&found, 1), [orders(9)]);
        ends.put(orders(9), 0..40);
        assert_eq!(ends.next(&found, 1), [orders(8)]);
        let judged = ends.judge(&found);
        let queues: Vec<(i32, i64)> = judged["orders"].iter().map(|s| (s.queue, s.messages())).collect();
        assert_eq!((judged.len(), queues), (1, vec![(8, 7)]));
        let mut drained = found.clone();
        drained.insert(orders(8), groups(&[("CID_pay", 12)]));
        assert!(ends.judge(&drained).is_empty());
    }

    #[test]
    fn unread_is_what_is_still_there() {
        let groups = [("a", 5), ("b", 12), ("c", 20)].map(|(group, at)| (group.to_owned(), at));
        let groups = groups.into();
        let found = stranded(8, 10..20, &groups).unwrap();
        assert_eq!(found.unread, [("a".to_owned(), 10), ("b".to_owned(), 8)].into());
        assert_eq!((found.worst(), found.messages()), (Some(("a", 10)), 10));
        assert_eq!(stranded(8, 20..20, &groups), None);
    }
}
