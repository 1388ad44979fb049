//! Reading a stretch of a topic's queues, message by message, without a trace.

use std::ops::ControlFlow;

use super::admin::message::{PullStatus, QueueAt, TOOLS_GROUP};
use super::error::Error;
use super::{Client, Message};
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

    /// True for a message that the broker's comparison of hashes let pass rightly.
    fn fits(&self, message: &Message) -> bool {
        match self {
            Self::Tags(tags) => {
                let tags: Vec<&str> = tags.split("||").map(str::trim).collect();
                tags == ["*"] || message.tag().is_some_and(|tag| tags.contains(&tag))
            }
            Self::Sql(_) => true,
        }
    }
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
            From::Time(ms) => self.offset_at(at, topic, ms, deadline).await?.max(min),
        };
        Ok((start.min(max), max))
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
        let (text, kind) = match select {
            Select::Tags(tags) => (tags, "TAG"),
            Select::Sql(sql) => (sql, "SQL92"),
        };
        let mut offset = from;
        while offset < to {
            let header = PullMessage {
                consumer_group: TOOLS_GROUP.to_owned(),
                topic: topic.to_owned(),
                queue_id: at.queue,
                queue_offset: offset,
                max_msg_nums: BATCH,
                sys_flag: PullMessage::SUBSCRIPTION,
                subscription: Some(text.clone()),
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
