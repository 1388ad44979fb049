//! Where groups begin in queues that producers are about to get.
//!
//! A consumer that has no position in a queue asks its broker for one. Java's broker answers 0 when the first message
//! of the queue is still there and in memory, else that it knows none (an empty queue included), and then the client
//! goes where it was told to: by default to the end, as it is at that moment. A message that comes in before that
//! moment is passed over by that group. So each group that is known on the topic gets, before producers get the
//! queue, the position at which it would begin then:
//!
//! - a queue without messages: its end. Nothing can be passed over by that, however the group begins.
//! - a queue with messages of an earlier, longer life of the topic: for a group whose clients begin at the first
//!   message, the first one; else what the broker answers; else the end. What that passes over is told: for an offline
//!   group, whose mode nobody knows, it is a decision.
//!
//! Clients that begin at a time find it themselves, and broadcasting ones keep their positions: both are left alone.

use std::collections::{BTreeMap, BTreeSet};

use super::Queues;
use super::observe::Observer;
use crate::client::admin::group::is_system;
use crate::client::error::{Error, Server};
use crate::client::{BrokerAt, Client};
use crate::protocol::body::{ConsumeFromWhere, ConsumerConnection, MessageModel};
use crate::protocol::codes;
use crate::protocol::requests::{QueryConsumerOffset, UpdateConsumerOffset};

/// A group's first position in a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Begin {
    /// Broker name.
    pub broker: String,
    /// Queue number.
    pub queue: i32,
    /// Group name.
    pub group: String,
    /// The position.
    pub offset: i64,
    /// Older messages of the queue that the group does not read.
    pub passed_over: i64,
}

impl std::fmt::Display for Begin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} begins at {} in {}/{}",
            self.group, self.offset, self.broker, self.queue
        )?;
        if self.passed_over > 0 {
            write!(
                f,
                ": {} older messages there are not read by it",
                self.passed_over
            )?;
        }
        Ok(())
    }
}

/// What groups need before producers get the queues.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Begins {
    /// Positions to write.
    pub missing: Vec<Begin>,
    /// Groups that have a position in each of the queues.
    pub settled: BTreeSet<String>,
    /// Groups that are left alone, and why.
    pub left_alone: Vec<String>,
    /// What could not be seen: it is waited for.
    pub unknown: Vec<String>,
}

/// A group as the brokers of the topic know it.
#[derive(Debug, Default)]
struct Reader {
    broadcasts: bool,
    from: Option<ConsumeFromWhere>,
    /// Brokers that have a configuration of it: others refuse its positions.
    configured: BTreeSet<String>,
    /// Positions by broker and queue.
    positions: BTreeSet<(String, i32)>,
}

impl Reader {
    fn add(&mut self, connection: &ConsumerConnection) {
        self.broadcasts |= connection.message_model == MessageModel::Broadcasting;
        self.from = Some(connection.consume_from_where);
    }
}

/// Where a group begins in a queue `min..max`; `answer` is what the broker says to one without a position. `None`
/// where the clients find it themselves.
fn begin(from: Option<ConsumeFromWhere>, (min, max): (i64, i64), answer: Option<i64>) -> Option<i64> {
    if min >= max {
        return Some(max);
    }
    match from {
        Some(ConsumeFromWhere::Timestamp) => None,
        Some(ConsumeFromWhere::FirstOffset | ConsumeFromWhere::MinOffset) => Some(min),
        _ => Some(answer.map_or(max, |at| at.clamp(min, max))),
    }
}

impl Observer {
    /// What the groups of the topic need in the queues that producers are about to get.
    pub async fn begins(
        &mut self,
        client: &Client,
        numbers: &BTreeMap<String, Result<Queues, String>>,
    ) -> Begins {
        let mut begins = Begins::default();
        let readers = self.readers(client, &mut begins.unknown).await;
        let mut open: BTreeSet<&String> = BTreeSet::new();
        for (name, on) in self.plan().brokers.clone() {
            let (Some(broker), Some(Ok(_))) = (self.brokers.get(&name), numbers.get(&name)) else {
                continue;
            };
            let server = broker.server();
            let ranges = client.queue_ranges(&server, &self.plan().topic, on.grown());
            let ranges = match ranges.await {
                Ok(ranges) => ranges,
                Err(e) => {
                    begins.unknown.push(format!("queues on {name}: {}", e.reason()));
                    continue;
                }
            };
            for (group, reader) in readers.iter().filter(|(_, reader)| !reader.broadcasts) {
                let missing: Vec<i32> = on
                    .grown()
                    .filter(|queue| !reader.positions.contains(&(name.clone(), *queue)))
                    .collect();
                if missing.is_empty() {
                    continue;
                }
                open.insert(group);
                if !reader.configured.contains(&name) {
                    begins.left_alone.push(format!(
                        "{group} has no configuration on {name}: its clients begin there by their own setting"
                    ));
                    continue;
                }
                let found = self.first_positions(client, broker, group, reader, &missing, &ranges);
                match found.await {
                    Ok(found) if found.len() == missing.len() => begins.missing.extend(found),
                    Ok(found) => {
                        begins.missing.extend(found);
                        begins.left_alone.push(format!(
                            "{group} on {name}: its clients begin at a time, which they find themselves"
                        ));
                    }
                    Err(e) => begins
                        .unknown
                        .push(format!("positions of {group} on {name}: {}", e.reason())),
                }
            }
        }
        for (group, reader) in &readers {
            if reader.broadcasts {
                let line = format!("{group} is broadcasting: its positions are on its clients");
                begins.left_alone.push(line);
            } else if !open.contains(group) {
                begins.settled.insert(group.clone());
            }
        }
        begins.missing.sort();
        begins
    }

    async fn first_positions(
        &self,
        client: &Client,
        broker: &BrokerAt,
        group: &str,
        reader: &Reader,
        queues: &[i32],
        ranges: &BTreeMap<i32, (i64, i64)>,
    ) -> Result<Vec<Begin>, Error> {
        let mut found = Vec::new();
        for &queue in queues {
            let range = ranges.get(&queue).copied().unwrap_or((0, 0));
            let answer = if range.0 < range.1 {
                answer(client, &broker.server(), group, &self.plan().topic, queue).await?
            } else {
                None
            };
            let Some(offset) = begin(reader.from, range, answer) else {
                continue;
            };
            found.push(Begin {
                broker: broker.id.name.clone(),
                queue,
                group: group.to_owned(),
                offset,
                passed_over: offset.saturating_sub(range.0).max(0),
            });
        }
        Ok(found)
    }

    /// Groups with a position on the topic or clients that subscribe to it, on any of its brokers.
    async fn readers(&mut self, client: &Client, unknown: &mut Vec<String>) -> BTreeMap<String, Reader> {
        let topic = self.plan().topic.clone();
        let brokers: Vec<BrokerAt> = self.brokers.values().cloned().collect();
        let mut readers: BTreeMap<String, Reader> = BTreeMap::new();
        for broker in &brokers {
            match self.groups(client, &broker.server()).await {
                Ok(groups) => {
                    for group in groups {
                        readers.entry(group).or_default();
                    }
                }
                Err(e) => unknown.push(format!("groups on {}: {}", broker.id.name, e.reason())),
            }
        }
        let answers = client
            .each(brokers, |broker| async move {
                let (server, deadline) = (broker.server(), client.deadline());
                let (configs, positions) = tokio::join!(
                    client.broker_groups(&server, deadline),
                    client.broker_offsets(&server, deadline)
                );
                (broker, configs, positions)
            })
            .await;
        for (broker, configs, positions) in answers {
            let name = &broker.id.name;
            match positions {
                Ok(positions) => {
                    for (group, of, queue, _) in positions {
                        if of == topic && !is_system(&group) {
                            let reader = readers.entry(group).or_default();
                            reader.positions.insert((name.clone(), queue));
                        }
                    }
                }
                Err(e) => unknown.push(format!("positions on {name}: {}", e.reason())),
            }
            match configs {
                Ok(table) => {
                    for (group, reader) in &mut readers {
                        if table.subscription_group_table.contains_key(group) {
                            reader.configured.insert(name.clone());
                        }
                    }
                }
                Err(e) => unknown.push(format!("group configurations on {name}: {}", e.reason())),
            }
        }
        let targets: Vec<(String, Server)> = readers
            .keys()
            .flat_map(|group| self.brokers.values().map(move |b| (group.clone(), b.server())))
            .collect();
        let connections = client
            .each(targets, |(group, server)| async move {
                let connection = client.group_clients(&server, &group, client.deadline()).await;
                (group, server, connection)
            })
            .await;
        for (group, server, connection) in connections {
            match (connection, readers.get_mut(&group)) {
                (Ok(Some(connection)), Some(reader)) => reader.add(&connection),
                (Ok(_), _) => {}
                (Err(e), _) => unknown.push(format!("clients of {group} on {server}: {}", e.reason())),
            }
        }
        readers
    }
}

/// What a broker answers to a client without a position.
async fn answer(
    client: &Client,
    server: &Server,
    group: &str,
    topic: &str,
    queue: i32,
) -> Result<Option<i64>, Error> {
    let header = QueryConsumerOffset {
        consumer_group: group.to_owned(),
        topic: topic.to_owned(),
        queue_id: queue,
        set_zero_if_not_found: None,
        bname: None,
    };
    match client.call(server, &header, (), client.deadline()).await {
        Ok((reply, ())) => Ok(Some(reply.offset)),
        Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(None),
        Err(e) => Err(e),
    }
}

impl Client {
    /// Writes a group's first position.
    pub(super) async fn begin_at(&self, broker: &BrokerAt, topic: &str, begin: &Begin) -> Result<(), Error> {
        let header = UpdateConsumerOffset {
            consumer_group: begin.group.clone(),
            topic: topic.to_owned(),
            queue_id: Some(begin.queue),
            commit_offset: Some(begin.offset),
            bname: None,
        };
        self.call(&broker.server(), &header, (), self.deadline())
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_without_messages_is_begun_at_its_end() {
        for from in [
            None,
            Some(ConsumeFromWhere::FirstOffset),
            Some(ConsumeFromWhere::LastOffset),
            Some(ConsumeFromWhere::Timestamp),
        ] {
            assert_eq!(begin(from, (0, 0), None), Some(0));
            assert_eq!(begin(from, (70, 70), None), Some(70));
        }
    }

    /// Left over from a longer life of the topic: messages 40 to 69 are still there.
    #[test]
    fn old_messages_are_read_where_the_group_would_read_them() {
        let left = (40, 70);
        assert_eq!(begin(Some(ConsumeFromWhere::LastOffset), left, None), Some(70));
        assert_eq!(begin(Some(ConsumeFromWhere::FirstOffset), left, None), Some(40));
        assert_eq!(begin(Some(ConsumeFromWhere::Timestamp), left, None), None);
        assert_eq!(begin(None, left, None), Some(70));
        // The broker says 0 where the first message is still in memory.
        assert_eq!(
            begin(Some(ConsumeFromWhere::LastOffset), (0, 30), Some(0)),
            Some(0)
        );
        assert_eq!(begin(None, (0, 30), Some(0)), Some(0));
    }
}
