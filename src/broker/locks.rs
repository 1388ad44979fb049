//! Queue locks of ordered consumers: (group, queue) -> client, with a lease.
//!
//! A lock lasts 60 s after its newest renewal. A closed connection does not release it early: the client may be
//! back in a moment, and its messages would run out of order otherwise.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::protocol::model::MessageQueue;

/// How long a lock holds without renewal (Java's `rocketmq.broker.rebalance.lockMaxLiveTime`).
pub const LEASE: Duration = Duration::from_secs(60);

#[derive(Debug)]
struct Lock {
    client: String,
    renewed: Instant,
}

impl Lock {
    fn held(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.renewed) <= LEASE
    }
}

/// All queue locks of a broker.
#[derive(Debug, Default)]
pub struct QueueLocks {
    /// Group -> queue -> lock. The mutex covers a few map operations a request and is never held longer.
    groups: Mutex<HashMap<String, HashMap<MessageQueue, Lock>>>,
}

impl QueueLocks {
    /// Locks or renews what is free or the client's own; returns those queues.
    pub fn lock(
        &self,
        group: &str,
        client: &str,
        queues: BTreeSet<MessageQueue>,
        now: Instant,
    ) -> BTreeSet<MessageQueue> {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        let locks = groups.entry(group.to_owned()).or_default();
        queues
            .into_iter()
            .filter(|queue| match locks.get_mut(queue) {
                Some(lock) if lock.held(now) && lock.client != client => false,
                Some(lock) => {
                    if lock.client != client {
                        tracing::info!(group, ?queue, from = %lock.client, to = client, "queue lock moves");
                        lock.client = client.to_owned();
                    }
                    lock.renewed = now;
                    true
                }
                None => {
                    let lock = Lock {
                        client: client.to_owned(),
                        renewed: now,
                    };
                    locks.insert(queue.clone(), lock);
                    true
                }
            })
            .collect()
    }

    /// Releases those of the queues that the client holds.
    pub fn unlock(&self, group: &str, client: &str, queues: &BTreeSet<MessageQueue>) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(locks) = groups.get_mut(group) {
            for queue in queues {
                if locks.get(queue).is_some_and(|lock| lock.client == client) {
                    locks.remove(queue);
                }
            }
            if locks.is_empty() {
                groups.remove(group);
            }
        }
    }

    /// True while any queue of the group is locked, which marks it as an ordered one.
    pub fn any_held(&self, group: &str, now: Instant) -> bool {
        let groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups
            .get(group)
            .is_some_and(|locks| locks.values().any(|lock| lock.held(now)))
    }

    /// Forgets locks whose lease has run out.
    pub fn expire(&self, now: Instant) {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        groups.retain(|_, locks| {
            locks.retain(|_, lock| lock.held(now));
            !locks.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(id: i32) -> MessageQueue {
        MessageQueue {
            broker_name: "b".into(),
            queue_id: id,
            topic: "t".into(),
        }
    }

    #[test]
    fn k37_a_lock_is_one_clients_until_its_lease_ends() {
        let (locks, start) = (QueueLocks::default(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        assert_eq!(locks.lock("g", "a", [queue(0), queue(1)].into(), at(0)).len(), 2);
        assert_eq!(
            locks.lock("g", "b", [queue(0), queue(2)].into(), at(1)),
            [queue(2)].into()
        );
        assert_eq!(
            locks.lock("other", "b", [queue(0)].into(), at(1)),
            [queue(0)].into(),
            "groups are apart"
        );
        assert_eq!(
            locks.lock("g", "a", [queue(0)].into(), at(30)),
            [queue(0)].into(),
            "renewal"
        );
        assert!(
            locks.lock("g", "b", [queue(0)].into(), at(90)).is_empty(),
            "renewed at 30, ends behind 90"
        );
        assert_eq!(locks.lock("g", "b", [queue(0), queue(1)].into(), at(91)).len(), 2);
    }

    #[test]
    fn k37_only_the_owner_unlocks() {
        let (locks, now) = (QueueLocks::default(), Instant::now());
        locks.lock("g", "a", [queue(0)].into(), now);
        locks.unlock("g", "b", &[queue(0)].into());
        assert!(locks.any_held("g", now));
        locks.unlock("g", "a", &[queue(0)].into());
        assert!(!locks.any_held("g", now));
        assert_eq!(locks.lock("g", "b", [queue(0)].into(), now), [queue(0)].into());
        locks.expire(now + LEASE + Duration::from_millis(1));
        assert!(locks.groups.lock().unwrap().is_empty());
    }
}
