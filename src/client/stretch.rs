//! Reading a stretch of a topic's queues, message by message, without a trace.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use super::admin::message::{PullStatus, QueueAt, TOOLS_GROUP, queues};
use super::error::{Error, Server};
use super::ordered::Pace;
use super::{Client, Message};
use crate::protocol::body::{SubscriptionData, TopicRouteData};
use crate::protocol::requests::PullMessage;

/// Messages of one pull.
const BATCH: i32 = 32;

/// Where a stretch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// At the first message there is.
    Earliest,
    /// At an offset, or the first message behind it.
    Offset(i64),
    /// At the first message stored at or after a time, epoch ms.
    Time(i64),
    /// That many messages before the end.
    Last(i64),
}

/// What the broker selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Select {
    /// Tags joined by `||`, or `*`.
    Tags(String),
    /// An SQL expression on properties.
    Sql(String),
}

impl Select {
    /// Every message.
    pub fn all() -> Self {
        Self::Tags("*".into())
    }

    /// The expression that a broker filters by, and its type.
    pub fn expression(&self) -> (&str, &'static str) {
        match self {
            Self::Tags(tags) => (tags, SubscriptionData::TAG),
            Self::Sql(sql) => (sql, SubscriptionData::SQL92),
        }
    }

    /// True for a message that the broker's comparison of hashes let pass rightly.
    pub(super) fn fits(&self, message: &Message) -> bool {
        match self {
            Self::Tags(tags) => {
                let tags: Vec<&str> = tags.split("||").map(str::trim).collect();
                tags == ["*"] || message.tag().is_some_and(|tag| tags.contains(&tag))
            }
            Self::Sql(_) => true,
        }
    }
}

/// The queues of a route that are on this broker and have this number, where one is named.
pub fn picked(route: &TopicRouteData, broker: Option<&str>, queue: Option<i32>) -> Vec<QueueAt> {
    let mut all = queues(route);
    all.retain(|at| {
        queue.is_none_or(|q| q == at.queue)
            && broker.is_none_or(|b| at.broker.name.as_deref() == Some(b) || at.broker.addr == b)
    });
    all
}

impl Client {
    /// First offset and exclusive end of a stretch of a queue. The end is the end of the queue now.
    pub async fn stretch(&self, at: &QueueAt, topic: &str, from: From) -> Result<(i64, i64), Error> {
        let deadline = self.deadline();
        let (min, max) = tokio::try_join!(
            self.min_offset(at, topic, deadline),
            self.max_offset(at, topic, deadline)
        )?;
        let start = match from {
            From::Earliest => min,
            From::Offset(offset) => offset.max(min),
            From::Last(n) => max.saturating_sub(n.max(0)).max(min),
            From::Time(ms) => self.offset_at(at, topic, ms, deadline).await?.max(min),
        };
        Ok((start.min(max), max))
    }

    /// The same for several queues of a topic, and the failure of each broker or queue that cannot be asked. One call a
    /// broker tells the ends of most of its queues; every call waits for its turn.
    pub async fn stretches(
        &self,
        topic: &str,
        queues: Vec<QueueAt>,
        from: From,
        pace: &Pace,
    ) -> Vec<Result<(QueueAt, (i64, i64)), Error>> {
        let mut brokers: Vec<Server> = Vec::new();
        for at in &queues {
            if !brokers.contains(&at.broker) {
                brokers.push(at.broker.clone());
            }
        }
        let tables = self
            .each(brokers, |broker| async move {
                pace.turn(&broker.addr).await;
                let stats = self.topic_stats(&broker, topic, self.deadline()).await;
                (broker.addr, stats)
            })
            .await;
        // A broker that does not answer is one failure, and is not asked once more for each queue.
        let (mut ends, mut lost, mut all) = (BTreeMap::new(), BTreeSet::new(), Vec::new());
        for (addr, stats) in tables {
            match stats {
                Ok(stats) => ends.extend(stats.offset_table.into_iter().map(|(queue, range)| {
                    (
                        (addr.clone(), queue.queue_id),
                        (range.min_offset, range.max_offset),
                    )
                })),
                Err(e) if e.is_unreachable() => {
                    lost.insert(addr);
                    all.push(Err(e));
                }
                Err(_) => {}
            }
        }
        let mut queues = queues;
        queues.retain(|at| !lost.contains(&at.broker.addr));
        let ends = &ends;
        let found = self.each(queues, |at| async move {
            let Some(&(min, max)) = ends.get(&(at.broker.addr.clone(), at.queue)) else {
                pace.turn(&at.broker.addr).await;
                let range = self.stretch(&at, topic, from).await?;
                return Ok((at, range));
            };
            let start = match from {
                From::Earliest => min,
                From::Offset(offset) => offset.max(min),
                From::Last(n) => max.saturating_sub(n.max(0)).max(min),
                From::Time(_) if min >= max => max,
                From::Time(ms) => {
                    pace.turn(&at.broker.addr).await;
                    self.offset_at(&at, topic, ms, self.deadline()).await?.max(min)
                }
            };
            Ok((at, (start.min(max), max)))
        });
        all.extend(found.await);
        all
    }

    /// Shows each message of a stretch to `visit` in its order, until it breaks. A record that cannot be read is an
    /// error; a place whose messages are gone is stepped over.
    pub async fn read_stretch(
        &self,
        at: &QueueAt,
        topic: &str,
        (from, to): (i64, i64),
        select: &Select,
        visit: &mut (dyn FnMut(Message) -> ControlFlow<()> + Send),
    ) -> Result<(), Error> {
        let (text, kind) = select.expression();
        let mut offset = from;
        while offset < to {
            let header = PullMessage {
                consumer_group: TOOLS_GROUP.to_owned(),
                topic: topic.to_owned(),
                queue_id: at.queue,
                queue_offset: offset,
                max_msg_nums: BATCH,
                sys_flag: PullMessage::SUBSCRIPTION,
                subscription: Some(text.to_owned()),
                expression_type: Some(kind.to_owned()),
                ..PullMessage::default()
            };
            let pulled = self.pull_with(&at.broker, &header, self.deadline()).await?;
            for message in pulled.messages {
                if message.offset >= to {
                    return Ok(());
                }
                if select.fits(&message) && visit(message).is_break() {
                    return Ok(());
                }
            }
            if let Some(reason) = pulled.damage {
                return Err(Error::Answer {
                    request: "PULL_MESSAGE",
                    server: at.broker.clone(),
                    reason,
                    changes: false,
                });
            }
            if pulled.status == PullStatus::NoNew {
                return Ok(());
            }
            // A server that does not move on must not hold us for ever.
            offset = pulled.next.max(offset.saturating_add(1));
        }
        Ok(())
    }
}
