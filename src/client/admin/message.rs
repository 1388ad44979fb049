//! Messages: read by id, by key, by position. Nothing here commits, registers or wakes anyone.

use std::time::Duration;

use crate::client::error::{Error, Server};
use crate::client::find::Hits;
use crate::client::message::Message;
use crate::client::{Client, Deadline};
use crate::protocol::body::{SubscriptionData, TopicRouteData};
use crate::protocol::codes;
use crate::protocol::requests::{
    GetMaxOffset, GetMinOffset, PullMessage, PullMessageReply, QueryMessage, SearchOffsetByTimestamp,
    ViewMessageById,
};

/// Group that inspection reads go under. Brokers have it from the start and do not count it.
pub(in crate::client) const TOOLS_GROUP: &str = "TOOLS_CONSUMER";
/// Java's limit of a query by unique key.
const UNIQUE_KEY_COPIES: i32 = 32;

/// One queue of a topic and the broker that has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueAt {
    /// The broker.
    pub broker: Server,
    /// Queue number.
    pub queue: i32,
}

/// How a pull ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullStatus {
    /// Messages came.
    Found,
    /// There are none yet.
    NoNew,
    /// The filter took all of them.
    NoMatched,
    /// The offset was outside the queue.
    OffsetMoved,
}

/// What a pull brought.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// How it ended.
    pub status: PullStatus,
    /// The messages.
    pub messages: Vec<Message>,
    /// Offset to go on at.
    pub next: i64,
    /// First offset of the queue, if told.
    pub min: Option<i64>,
    /// End of the queue, if told.
    pub max: Option<i64>,
    /// A record that could not be read.
    pub damage: Option<String>,
}

/// What to pull.
#[derive(Debug, Clone)]
pub struct Pull<'a> {
    /// Topic name.
    pub topic: &'a str,
    /// Queue number.
    pub queue: i32,
    /// First offset wanted.
    pub offset: i64,
    /// Most messages wanted.
    pub most: i32,
    /// Tags joined by `||`, or `*`.
    pub tags: &'a str,
    /// Wait this long for a message when there is none.
    pub hold: Option<Duration>,
}

/// Queues of a topic by a route: on each master the larger of its two counts, since a shrunk queue may still hold
/// messages.
pub fn queues(route: &TopicRouteData) -> Vec<QueueAt> {
    let masters = super::topic::masters(route);
    masters
        .iter()
        .flat_map(|broker| {
            let count = route
                .queue_datas
                .iter()
                .filter(|q| q.broker_name == broker.id.name)
                .map(|q| q.read_queue_nums.max(q.write_queue_nums))
                .max()
                .unwrap_or(0)
                .clamp(0, super::topic::MAX_QUEUES);
            (0..count).map(|queue| QueueAt {
                broker: broker.server(),
                queue,
            })
        })
        .collect()
}

impl Client {
    /// The message at a commit log offset of a broker.
    pub async fn message_at(
        &self,
        broker: &Server,
        offset: i64,
        deadline: Deadline,
    ) -> Result<Message, Error> {
        let header = ViewMessageById { topic: None, offset };
        let (_, bytes) = self.call(broker, &header, (), deadline).await?;
        let (messages, damage) = Message::read_all(&bytes, broker);
        messages.into_iter().next().ok_or_else(|| Error::Answer {
            request: "VIEW_MESSAGE_BY_ID",
            server: broker.clone(),
            reason: damage.unwrap_or_else(|| "no message in it".into()),
            changes: false,
        })
    }

    /// Messages of a topic with a key on one broker, stored within the window (epoch ms, both ends included).
    pub async fn messages_by_key(
        &self,
        broker: &Server,
        topic: &str,
        key: &str,
        window: (i64, i64),
        most: i32,
        deadline: Deadline,
    ) -> Result<Hits, Error> {
        let found = self
            .query(broker, topic, key, None, window, most, deadline)
            .await?;
        // The index knows hashes only and its times are whole seconds: keep what really fits.
        let all = found.len();
        let messages: Vec<Message> = found
            .into_iter()
            .filter(|m| m.keys().iter().any(|k| k == key) || m.unique_key() == Some(key))
            .filter(|m| (window.0..=window.1).contains(&m.stored_ms))
            .collect();
        Ok(Hits {
            strangers: all - messages.len(),
            messages,
        })
    }

    /// Messages of a topic with a unique key on one broker: several when it was retried.
    pub async fn messages_by_unique_key(
        &self,
        broker: &Server,
        topic: &str,
        unique_key: &str,
        deadline: Deadline,
    ) -> Result<Vec<Message>, Error> {
        let all_time = (0, i64::MAX);
        let found = self
            .query(
                broker,
                topic,
                unique_key,
                Some(true),
                all_time,
                UNIQUE_KEY_COPIES,
                deadline,
            )
            .await?;
        Ok(found
            .into_iter()
            .filter(|m| m.unique_key() == Some(unique_key))
            .collect())
    }

    #[allow(clippy::too_many_arguments, reason = "the fields of one request")]
    async fn query(
        &self,
        broker: &Server,
        topic: &str,
        key: &str,
        unique: Option<bool>,
        window: (i64, i64),
        most: i32,
        deadline: Deadline,
    ) -> Result<Vec<Message>, Error> {
        let header = QueryMessage {
            topic: topic.to_owned(),
            key: key.to_owned(),
            max_num: most,
            // Index times are whole seconds: one more at either end, or a message at the edge is missed.
            begin_timestamp: window.0.saturating_sub(1000).max(0),
            end_timestamp: window.1.saturating_add(1000),
            unique_key_query: unique,
            bname: None,
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, found)) => {
                let bytes = crate::protocol::frame::join(found.0);
                Ok(Message::read_all(&bytes, broker).0)
            }
            Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(Vec::new()),
            Err(e) => Err(e),
        }
    }

    /// Reads a queue without a trace: the subscription travels in the header, nothing is committed.
    pub async fn pull(&self, broker: &Server, pull: &Pull<'_>, deadline: Deadline) -> Result<Pulled, Error> {
        self.pull_by(broker, pull, SubscriptionData::TAG, deadline).await
    }

    /// [`Client::pull`] with `tags` as an expression of this type, `TAG` or `SQL92`.
    pub async fn pull_by(
        &self,
        broker: &Server,
        pull: &Pull<'_>,
        expression_type: &str,
        deadline: Deadline,
    ) -> Result<Pulled, Error> {
        let hold = if pull.hold.is_some() {
            PullMessage::SUSPEND
        } else {
            0
        };
        let header = PullMessage {
            consumer_group: TOOLS_GROUP.to_owned(),
            topic: pull.topic.to_owned(),
            queue_id: pull.queue,
            queue_offset: pull.offset,
            max_msg_nums: pull.most,
            sys_flag: PullMessage::SUBSCRIPTION | hold,
            suspend_timeout_millis: pull
                .hold
                .map_or(0, |hold| i64::try_from(hold.as_millis()).unwrap_or(i64::MAX)),
            subscription: Some(pull.tags.to_owned()),
            expression_type: Some(expression_type.to_owned()),
            ..PullMessage::default()
        };
        self.pull_with(broker, &header, deadline).await
    }

    /// Sends a pull as it is and sorts out the four good answers.
    pub(in crate::client) async fn pull_with(
        &self,
        broker: &Server,
        header: &PullMessage,
        deadline: Deadline,
    ) -> Result<Pulled, Error> {
        const NAME: &str = "PULL_MESSAGE";
        let answer = self.exchange(broker, header, (), deadline).await?;
        let status = match answer.code {
            codes::SUCCESS => PullStatus::Found,
            codes::PULL_NOT_FOUND => PullStatus::NoNew,
            codes::PULL_RETRY_IMMEDIATELY => PullStatus::NoMatched,
            codes::PULL_OFFSET_MOVED => PullStatus::OffsetMoved,
            _ => {
                return Err(Error::Call {
                    request: NAME,
                    server: broker.clone(),
                    source: crate::client::call::remote(broker, answer),
                    changes: false,
                });
            }
        };
        let reply: PullMessageReply = answer.fields.to_value().map_err(|e| Error::Answer {
            request: NAME,
            server: broker.clone(),
            reason: e.to_string(),
            changes: false,
        })?;
        let (mut messages, damage) = match status {
            PullStatus::Found => Message::read_all(&answer.body, broker),
            _ => (Vec::new(), None),
        };
        // Static topics: records carry the physical queue's offsets.
        let delta = reply.offset_delta.unwrap_or(0);
        for message in &mut messages {
            message.offset = message.offset.saturating_add(delta);
        }
        Ok(Pulled {
            status,
            next: reply.next_begin_offset.unwrap_or(header.queue_offset),
            min: reply.min_offset,
            max: reply.max_offset,
            messages,
            damage,
        })
    }

    /// First offset of a queue.
    pub async fn min_offset(&self, at: &QueueAt, topic: &str, deadline: Deadline) -> Result<i64, Error> {
        let header = GetMinOffset {
            topic: topic.to_owned(),
            queue_id: at.queue,
            bname: None,
        };
        Ok(self.call(&at.broker, &header, (), deadline).await?.0.offset)
    }

    /// End of a queue.
    pub async fn max_offset(&self, at: &QueueAt, topic: &str, deadline: Deadline) -> Result<i64, Error> {
        let header = GetMaxOffset {
            topic: topic.to_owned(),
            queue_id: at.queue,
            ..GetMaxOffset::default()
        };
        Ok(self.call(&at.broker, &header, (), deadline).await?.0.offset)
    }

    /// Offset of the first message of a queue stored at or after a time (epoch ms).
    pub async fn offset_at(
        &self,
        at: &QueueAt,
        topic: &str,
        time_ms: i64,
        deadline: Deadline,
    ) -> Result<i64, Error> {
        let header = SearchOffsetByTimestamp {
            topic: topic.to_owned(),
            queue_id: at.queue,
            timestamp: time_ms,
            ..SearchOffsetByTimestamp::default()
        };
        Ok(self.call(&at.broker, &header, (), deadline).await?.0.offset)
    }
}
