//! Following a topic: messages of all its queues as they are stored, without a group.
//!
//! Every queue has one pull that its broker holds until a message comes. What came waits in a [`Merge`], so that the
//! order is that of the store times. New queues and brokers are looked for again and again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::{Instant, Interval};

use super::admin::message::{Pull, PullStatus, Pulled, QueueAt};
use super::merge::Merge;
use super::ordered::Pace;
use super::stretch::{From, Select, picked};
use super::time::now_ms;
use super::{Client, Deadline, Error, Message};
use crate::protocol::codes;

/// How long a broker holds a pull of an idle queue.
const HOLD: Duration = Duration::from_secs(15);
/// What a held pull may take beyond it.
const GRACE: Duration = Duration::from_secs(10);
/// Rest before a pull that failed is tried again.
const REST: Duration = Duration::from_secs(1);
/// How a notice ends that speaks of a broker which does not answer: it is over when the broker does.
pub const AGAIN: &str = "; trying again";
/// Pause between two notices of falling behind.
const BEHIND_EVERY: Duration = Duration::from_secs(10);
/// Messages of one pull.
const BATCH: i32 = 32;
/// How far behind, over all queues, a follower with a pace may be before it leaves messages out.
const LEFT: i64 = 320;

/// What is followed.
#[derive(Debug, Clone)]
pub struct Followed {
    /// Topic name.
    pub topic: String,
    /// Only this broker, by name or address.
    pub broker: Option<String>,
    /// Only this queue number.
    pub queue: Option<i32>,
    /// What the broker selects.
    pub select: Select,
    /// Pause between two looks for new queues and brokers.
    pub refresh: Duration,
    /// Pause between two pulls of one broker. Whoever has one leaves messages out where more come than it may read:
    /// see [`Follow::skipped`].
    pub pace: Option<Arc<Pace>>,
}

/// Says which messages are wanted beyond what the broker selects.
pub type Passes = Box<dyn Fn(&Message) -> bool + Send + Sync>;

type Waiting = FuturesUnordered<BoxFuture<'static, (QueueAt, i64, Result<Pulled, Error>)>>;

/// A topic that is followed. Ends when it is dropped.
pub struct Follow {
    client: Arc<Client>,
    followed: Arc<Followed>,
    passes: Passes,
    started_ms: i64,
    merge: Merge,
    waiting: Waiting,
    /// Queues that are not pulled while too many messages wait for their turn.
    parked: Vec<(QueueAt, i64)>,
    known: Vec<QueueAt>,
    refresh: Interval,
    silent: BTreeMap<String, String>,
    told_behind: Option<std::time::Instant>,
    notices: Vec<String>,
    read: u64,
    skipped: u64,
}

impl Follow {
    /// Begins with these queues, each at its offset.
    pub fn new(client: Arc<Client>, followed: Followed, passes: Passes, queues: Vec<(QueueAt, i64)>) -> Self {
        let refresh = followed.refresh;
        let mut follow = Self {
            client,
            followed: Arc::new(followed),
            passes,
            started_ms: now_ms(),
            merge: Merge::default(),
            waiting: FuturesUnordered::new(),
            parked: Vec::new(),
            known: Vec::new(),
            refresh: tokio::time::interval_at(Instant::now() + refresh, refresh),
            silent: BTreeMap::new(),
            told_behind: None,
            notices: Vec::new(),
            read: 0,
            skipped: 0,
        };
        for (at, offset) in queues {
            follow.known.push(at.clone());
            follow.hold(at, offset, Duration::ZERO);
        }
        follow
    }

    /// Messages whose turn has come, at most `most` of them, oldest first.
    pub fn due(&mut self, most: usize) -> Vec<Message> {
        let now = std::time::Instant::now();
        let due = self.merge.due(now, most);
        if !self.merge.is_full() {
            for (at, offset) in std::mem::take(&mut self.parked) {
                self.hold(at, offset, Duration::ZERO);
            }
        } else if self.told_behind.is_none_or(|at| at.elapsed() > BEHIND_EVERY) {
            self.told_behind = Some(now);
            self.notices.push(format!(
                "falling behind: {} messages wait for their turn, {} queues are not read meanwhile",
                self.merge.waiting(),
                self.parked.len()
            ));
        }
        due
    }

    /// When the next message may have its turn.
    pub fn next_due(&self) -> Option<std::time::Instant> {
        self.merge.next_due()
    }

    /// What came and waits for older messages.
    pub fn rest(&mut self) -> Vec<Message> {
        self.merge.drain()
    }

    /// What the operator should know and was not told yet.
    pub fn notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notices)
    }

    /// Messages that were read so far, wanted or not.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Messages that were left out so far because more came than the pace lets be read.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Queues that are followed.
    pub fn queues(&self) -> &[QueueAt] {
        &self.known
    }

    /// Brokers that do not answer at present, with the reason.
    pub fn silent(&self) -> &BTreeMap<String, String> {
        &self.silent
    }

    /// Waits until something came, or until `turn`. An expression that a broker refuses is an error: it would be
    /// refused again. Whatever else fails is tried again.
    pub async fn wait(&mut self, turn: Option<std::time::Instant>) -> Result<(), Error> {
        tokio::select! {
            Some((at, offset, answer)) = self.waiting.next() => self.take(at, offset, answer),
            () = until(turn) => Ok(()),
            _ = self.refresh.tick() => {
                self.look_for_new_queues().await;
                Ok(())
            }
        }
    }

    fn take(&mut self, at: QueueAt, offset: i64, answer: Result<Pulled, Error>) -> Result<(), Error> {
        let who = at.broker.to_string();
        let (next, rest) = match answer {
            Ok(pulled) => {
                self.silent.remove(&who);
                if pulled.status == PullStatus::OffsetMoved && pulled.next != offset {
                    self.notices.push(format!(
                        "{who} queue {}: offset {offset} is gone, going on at {}",
                        at.queue, pulled.next
                    ));
                }
                if let Some(damage) = &pulled.damage {
                    self.notices.push(format!(
                        "{who} queue {} behind offset {offset}: {damage}",
                        at.queue
                    ));
                }
                let jump = self.followed.pace.is_some();
                let next = jump
                    .then(|| caught_up(&pulled, self.known.len()))
                    .flatten()
                    .unwrap_or(pulled.next);
                self.skipped += u64::try_from(next.saturating_sub(pulled.next)).unwrap_or(0);
                let arrived = std::time::Instant::now();
                for message in pulled.messages {
                    self.read += 1;
                    if (self.passes)(&message) {
                        self.merge.push(message, arrived);
                    }
                }
                (next, Duration::ZERO)
            }
            Err(e) if e.remote_code() == Some(codes::SUBSCRIPTION_PARSE_FAILED) => return Err(e),
            Err(e) => {
                let why = e.reason();
                if self.silent.insert(who.clone(), why.clone()).as_ref() != Some(&why) {
                    self.notices.push(format!("{who}: {why}{AGAIN}"));
                }
                (offset, REST)
            }
        };
        if self.merge.is_full() {
            self.parked.push((at, next));
        } else {
            self.hold(at, next, rest);
        }
        Ok(())
    }

    async fn look_for_new_queues(&mut self) {
        let topic = &self.followed.topic;
        let Ok(Some(route)) = self.client.route(topic).await else {
            return;
        };
        let found = picked(&route, self.followed.broker.as_deref(), self.followed.queue);
        for at in found {
            if self.known.contains(&at) {
                continue;
            }
            // Stored since we began: a broker that comes back brings its whole past along.
            let from = From::Time(self.started_ms);
            if let Ok((offset, _)) = self.client.stretch(&at, &self.followed.topic, from).await {
                self.known.push(at.clone());
                self.hold(at, offset, Duration::ZERO);
            }
        }
    }

    /// One held pull, after a rest.
    fn hold(&mut self, at: QueueAt, offset: i64, rest: Duration) {
        let (client, followed) = (Arc::clone(&self.client), Arc::clone(&self.followed));
        self.waiting.push(Box::pin(async move {
            tokio::time::sleep(rest).await;
            if let Some(pace) = &followed.pace {
                pace.turn(&at.broker.addr).await;
            }
            let (text, kind) = followed.select.expression();
            let pull = Pull {
                topic: &followed.topic,
                queue: at.queue,
                offset,
                most: BATCH,
                tags: text,
                hold: Some(HOLD),
            };
            let deadline = Deadline::after(HOLD + GRACE);
            let answer = client.pull_by(&at.broker, &pull, kind, deadline).await;
            (at, offset, answer)
        }));
    }
}

/// Where to go on in a queue whose end is too far away, near that end; `None` when it is not.
fn caught_up(pulled: &Pulled, queues: usize) -> Option<i64> {
    let queues = i64::try_from(queues).unwrap_or(i64::MAX).max(1);
    let may = (LEFT / queues).max(i64::from(BATCH));
    let max = pulled.max?;
    (max.saturating_sub(pulled.next) > may).then(|| max - i64::from(BATCH))
}

/// Sleeps until then, or for ever.
async fn until(at: Option<std::time::Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(Instant::from_std(at)).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_follower_with_a_pace_jumps_when_the_end_is_too_far_away() {
        let pulled = |next, max| Pulled {
            status: PullStatus::Found,
            messages: Vec::new(),
            next,
            min: None,
            max,
            damage: None,
        };
        assert_eq!(caught_up(&pulled(100, Some(420)), 1), None);
        assert_eq!(caught_up(&pulled(100, Some(421)), 1), Some(389));
        // The more queues, the less of each.
        assert_eq!(caught_up(&pulled(100, Some(141)), 8), Some(109));
        assert_eq!(caught_up(&pulled(100, Some(132)), 64), None);
        assert_eq!(caught_up(&pulled(100, None), 1), None);
    }
}
