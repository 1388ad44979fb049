//! Pops and notifications that wait, in the order they came. A message wakes one of them; whoever finds more than it
//! may take wakes the next. One watcher a line follows the bells of its queues, and goes when the line is empty.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::sync::{Notify, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::handle::Kind;
use crate::broker::Broker;

/// Pause before a watcher looks for the successor of a deleted queue.
const GONE_PAUSE: Duration = Duration::from_millis(100);

/// Who waits for what; queue -1 is any queue.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PollKey {
    /// Topic name.
    pub topic: String,
    /// Group name.
    pub group: String,
    /// Queue number.
    pub queue_id: i32,
}

/// One that waits.
#[derive(Debug, Default)]
struct Waiter {
    bell: Notify,
    /// Woken, and not yet back at waiting.
    woken: AtomicBool,
}

#[derive(Debug)]
struct Line {
    waiters: VecDeque<Arc<Waiter>>,
    /// How many queues the watcher follows.
    queues: i32,
    /// Ends the watcher.
    _watcher: DropGuard,
}

#[derive(Debug, Default)]
struct Lines {
    by_key: HashMap<PollKey, Line>,
    total: usize,
}

/// All that wait.
#[derive(Debug, Default)]
pub struct Polls {
    /// Held for a look-up and a step in a line.
    lines: Mutex<Lines>,
}

/// A place in a line, given up when dropped. One that was woken and leaves passes that on.
#[derive(Debug)]
pub struct Held {
    polls: Arc<Polls>,
    key: PollKey,
    waiter: Arc<Waiter>,
}

impl Polls {
    fn lines(&self) -> std::sync::MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place at the end of a line; `None` when too many wait. Messages stored from now on wake it.
    pub fn hold(self: &Arc<Self>, broker: &Arc<Broker>, key: PollKey) -> Option<Held> {
        let config = broker.config();
        let queues = broker
            .topics
            .get(&key.topic)
            .map_or(0, |topic| topic.read_queue_nums);
        let waiter = Arc::new(Waiter::default());
        let mut lines = self.lines();
        if lines.total >= config.max_pop_polling_size {
            return None;
        }
        let line = lines.by_key.get_mut(&key);
        match line {
            // As in Java, one more than the limit.
            Some(line) if line.waiters.len() > config.pop_polling_size => return None,
            Some(line) if line.queues == queues => line.waiters.push_back(waiter.clone()),
            Some(line) => {
                line.queues = queues;
                line._watcher = self.watch(broker, &key, queues);
                line.waiters.push_back(waiter.clone());
            }
            None => {
                let line = Line {
                    waiters: VecDeque::from([waiter.clone()]),
                    queues,
                    _watcher: self.watch(broker, &key, queues),
                };
                lines.by_key.insert(key.clone(), line);
            }
        }
        lines.total += 1;
        drop(lines);
        Some(Held {
            polls: self.clone(),
            key,
            waiter,
        })
    }

    /// Wakes the first of a line that is not awake.
    pub fn wake(&self, key: &PollKey) {
        if let Some(line) = self.lines().by_key.get(key) {
            wake_one(line);
        }
    }

    /// Wakes one that waits for this queue, and one that waits for any.
    pub fn wake_queue(&self, topic: &str, group: &str, queue_id: i32) {
        let mut key = PollKey {
            topic: topic.to_owned(),
            group: group.to_owned(),
            queue_id,
        };
        self.wake(&key);
        key.queue_id = -1;
        self.wake(&key);
    }

    /// How many wait in a line.
    pub fn count(&self, key: &PollKey) -> usize {
        self.lines().by_key.get(key).map_or(0, |line| line.waiters.len())
    }

    /// Follows the bells of a line's queues until the guard is dropped.
    fn watch(self: &Arc<Self>, broker: &Arc<Broker>, key: &PollKey, queues: i32) -> DropGuard {
        let mut followed: Vec<(String, i32)> = Vec::new();
        if key.queue_id >= 0 {
            followed.push((key.topic.clone(), key.queue_id));
        } else {
            followed.extend((0..queues).map(|queue_id| (key.topic.clone(), queue_id)));
        }
        for kind in broker.retry_kinds() {
            let retry = kind.topic(&key.topic, &key.group);
            let queues = broker.topics.get(&retry).map_or(1, |topic| topic.read_queue_nums);
            followed.extend((0..queues).map(|queue_id| (retry.clone(), queue_id)));
        }
        let followed = followed
            .into_iter()
            .map(|(topic, queue_id)| (broker.store.bell(&topic, queue_id), topic, queue_id))
            .collect();
        let token = CancellationToken::new();
        let watcher = watch_bells(broker.clone(), self.clone(), key.clone(), followed);
        let (ended, stopping) = (token.clone(), broker.stopping.clone());
        broker.tasks.spawn(async move {
            tokio::select! {
                () = watcher => {}
                () = ended.cancelled() => {}
                () = stopping.cancelled() => {}
            }
        });
        token.drop_guard()
    }
}

fn wake_one(line: &Line) {
    let asleep = line
        .waiters
        .iter()
        .find(|waiter| !waiter.woken.swap(true, AcqRel));
    if let Some(waiter) = asleep {
        waiter.bell.notify_one();
    }
}

/// A queue's bell, its topic and its number.
type Followed = (watch::Receiver<i64>, String, i32);

/// A bell that rang, or whose queue is gone.
struct Rung {
    bell: watch::Receiver<i64>,
    gone: bool,
    topic: String,
    queue_id: i32,
}

async fn rung(mut bell: watch::Receiver<i64>, topic: String, queue_id: i32) -> Rung {
    let gone = bell.changed().await.is_err();
    Rung {
        bell,
        gone,
        topic,
        queue_id,
    }
}

async fn watch_bells(broker: Arc<Broker>, polls: Arc<Polls>, key: PollKey, followed: Vec<Followed>) {
    let mut bells: FuturesUnordered<_> = followed
        .into_iter()
        .map(|(bell, topic, queue_id)| rung(bell, topic, queue_id))
        .collect();
    while let Some(one) = bells.next().await {
        let Rung {
            mut bell,
            gone,
            topic,
            queue_id,
        } = one;
        if gone {
            // A topic of the name may come back, with another bell.
            tokio::time::sleep(GONE_PAUSE).await;
            bell = broker.store.bell(&topic, queue_id);
        }
        polls.wake(&key);
        bells.push(rung(bell, topic, queue_id));
    }
}

impl Held {
    /// Waits until it is woken.
    pub async fn woken(&self) {
        self.waiter.bell.notified().await;
    }

    /// Goes back to sleep: from now on it can be woken again.
    pub fn settle(&self) {
        self.waiter
            .woken
            .store(false, std::sync::atomic::Ordering::Release);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut lines = self.polls.lines();
        let Some(line) = lines.by_key.get_mut(&self.key) else {
            return;
        };
        let before = line.waiters.len();
        line.waiters.retain(|waiter| !Arc::ptr_eq(waiter, &self.waiter));
        let left = before - line.waiters.len();
        if line.waiters.is_empty() {
            lines.by_key.remove(&self.key);
        } else if self.waiter.woken.load(std::sync::atomic::Ordering::Acquire) {
            wake_one(line);
        }
        lines.total -= left;
    }
}

impl Broker {
    /// The kinds of retry topics whose messages pops look for.
    pub(super) fn retry_kinds(&self) -> &'static [Kind] {
        let config = self.config();
        match (
            config.enable_retry_topic_v2,
            config.retrieve_message_from_pop_retry_topic_v1,
        ) {
            (false, _) => &[Kind::RetryV1],
            (true, false) => &[Kind::RetryV2],
            (true, true) => &[Kind::RetryV2, Kind::RetryV1],
        }
    }
}
