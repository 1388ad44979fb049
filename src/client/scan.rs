//! Reading a topic from one end to the other, queue by queue, without a group.

use super::admin::message::{Pull, PullStatus, QueueAt, queues};
use super::{Client, Deadline, Error, Message};

/// Messages of one pull.
const BATCH: i32 = 32;

/// A part of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueRange {
    /// The queue.
    pub at: QueueAt,
    /// First offset.
    pub begin: i64,
    /// End; the offset of the first message that is not part of it.
    pub end: i64,
}

impl QueueRange {
    /// Messages in it, as far as offsets tell.
    pub fn len(&self) -> i64 {
        self.end.saturating_sub(self.begin).max(0)
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What one step of a scan brought.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Messages within the range.
    pub messages: Vec<Message>,
    /// Offset to go on at.
    pub next: i64,
    /// A record that could not be read.
    pub damage: Option<String>,
}

impl Client {
    /// What every queue of a topic holds now, from a store time on (epoch ms) or from the beginning. `None` when the
    /// topic has no route; a queue that cannot be asked is an error of its own.
    pub async fn ranges(
        &self,
        topic: &str,
        since_ms: Option<i64>,
    ) -> Result<Option<Vec<Result<QueueRange, Error>>>, Error> {
        let Some(route) = self.route(topic).await? else {
            return Ok(None);
        };
        let deadline = self.deadline();
        let ranges = self
            .each(queues(&route), |at| async move {
                self.range(topic, at, since_ms, deadline).await
            })
            .await;
        Ok(Some(ranges))
    }

    async fn range(
        &self,
        topic: &str,
        at: QueueAt,
        since_ms: Option<i64>,
        deadline: Deadline,
    ) -> Result<QueueRange, Error> {
        let (min, end) = tokio::try_join!(
            self.min_offset(&at, topic, deadline),
            self.max_offset(&at, topic, deadline)
        )?;
        let begin = match since_ms {
            Some(since) => self
                .offset_at(&at, topic, since, deadline)
                .await?
                .clamp(min.min(end), end),
            None => min,
        };
        Ok(QueueRange { at, begin, end })
    }

    /// The next messages of a range from `offset` on. An empty batch whose `next` is at or beyond the end is the end.
    pub async fn batch(
        &self,
        topic: &str,
        range: &QueueRange,
        offset: i64,
        tags: &str,
    ) -> Result<Batch, Error> {
        let pull = Pull {
            topic,
            queue: range.at.queue,
            offset,
            most: BATCH,
            tags,
            hold: None,
        };
        let mut pulled = self.pull(&range.at.broker, &pull, self.deadline()).await?;
        pulled.messages.retain(|m| m.offset < range.end);
        let next = match pulled.status {
            // A broker that does not move on has nothing more to give.
            _ if pulled.next <= offset => range.end,
            PullStatus::Found | PullStatus::NoMatched | PullStatus::OffsetMoved => pulled.next,
            PullStatus::NoNew => range.end,
        };
        Ok(Batch {
            messages: pulled.messages,
            next,
            damage: pulled.damage,
        })
    }
}
