//! Consumers that hold queues and do not get on with them, and such that their own limits hold back.
//!
//! The time of the last pull says nothing of either: Java's client sets it before it looks whether it may pull at all
//! (`DefaultMQPushConsumerImpl.pullMessage`), so that one whose listener hangs has a fresh one for ever. What tells is
//! the position that does not move, and when the client last gave messages back as consumed.

use std::time::Duration;

use crate::protocol::body::{ConsumerRunningInfo, ProcessQueueInfo};
use crate::protocol::model::MessageQueue;

/// A queue with something to read whose position stands for so long is stuck.
pub const STUCK: Duration = Duration::from_secs(5 * 60);

/// Limits of a client that does not tell its own: Java's defaults of messages, MiB and offsets held of one queue.
const THRESHOLD: (i64, i64, i64) = (1000, 100, 2000);

/// What is known of a queue that a client holds and that has something to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// How long our own looks have seen its position at one place, with something to read all the while.
    pub unmoved: Option<Duration>,
    /// How long ago the client consumed something of it.
    pub consumed: Option<Duration>,
    /// How long its first unread message has been waiting.
    pub waits: Option<Duration>,
}

impl Standing {
    /// True when the position has not moved for [`STUCK`]. A client that consumed nothing for so long is no proof by
    /// itself: there may have been nothing until just now.
    pub fn is_stuck(&self) -> bool {
        let long = |time: Option<Duration>| time.is_some_and(|time| time >= STUCK);
        long(self.unmoved) || (long(self.consumed) && long(self.waits))
    }
}

/// Queues that a client holds and in which it is stuck, by what it says at `now_ms` and by how long the first unread
/// message of each has been waiting; `None` where nothing waits, or that is not known.
pub fn stuck_queues(
    info: &ConsumerRunningInfo,
    now_ms: i64,
    waits: impl Fn(&MessageQueue) -> Option<Duration>,
) -> Vec<&MessageQueue> {
    // Its times are those of its own clock, and it pulls, or tries to, all the while.
    let pulled = info
        .mq_table
        .values()
        .map(|state| state.last_pull_timestamp)
        .max();
    let client_ms = pulled.filter(|at| *at > 0).unwrap_or(now_ms);
    let held = info.mq_table.iter().filter(|(_, state)| !state.droped);
    held.filter(|(queue, state)| {
        let standing = Standing {
            consumed: ago(client_ms, state.last_consume_timestamp),
            waits: waits(queue),
            unmoved: None,
        };
        standing.is_stuck()
    })
    .map(|(queue, _)| queue)
    .collect()
}

/// How long ago a time was that a client tells; `None` of a client that does not tell it.
pub fn ago(now_ms: i64, at_ms: i64) -> Option<Duration> {
    let passed = u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0);
    (at_ms > 0).then(|| Duration::from_millis(passed))
}

/// True when a client holds so much of one queue that it does not pull: Java's conditions, each for one queue, with
/// the client's own limits.
pub fn is_held_back(info: &ConsumerRunningInfo, state: &ProcessQueueInfo) -> bool {
    let property = |name: &str| info.properties.get(name).map(String::as_str);
    let limit = |name: &str, default: i64| property(name).and_then(|v| v.parse().ok()).unwrap_or(default);
    let span = state
        .cached_msg_max_offset
        .saturating_sub(state.cached_msg_min_offset);
    let ordered = property("PROP_CONSUMEORDERLY").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    i64::from(state.cached_msg_count) > limit("pullThresholdForQueue", THRESHOLD.0)
        || i64::from(state.cached_msg_size_in_mib) > limit("pullThresholdSizeForQueue", THRESHOLD.1)
        || (!ordered && span > limit("consumeConcurrentlyMaxSpan", THRESHOLD.2))
}

/// Milliseconds that a message takes a client, over its topics by how many messages each has; `None` without any in the
/// last minute. A topic without messages, such as the group's retry topic, says 0 or what was an hour ago.
pub fn consume_rt_ms(info: &ConsumerRunningInfo) -> Option<f64> {
    let weighed = info
        .status_table
        .values()
        .map(|s| (s.consume_rt, s.consume_ok_tps + s.consume_failed_tps))
        .filter(|(rt, tps)| rt.is_finite() && tps.is_finite() && *tps > 0.0);
    let (sum, weight) = weighed.fold((0.0, 0.0), |(sum, weight), (rt, tps)| {
        (sum + rt * tps, weight + tps)
    });
    (weight > 0.0).then(|| sum / weight)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::ConsumeStatus;

    const NOW: i64 = 1_795_953_871_000;

    fn queue(queue_id: i32) -> MessageQueue {
        MessageQueue {
            topic: "T".into(),
            broker_name: "b".into(),
            queue_id,
        }
    }

    /// Its listener hangs: Java's client goes on to try a pull every 50 ms.
    #[test]
    fn a_client_whose_listener_hangs_is_stuck_whatever_it_pulled() {
        let state = |ago_ms: i64| ProcessQueueInfo {
            last_pull_timestamp: NOW - 40,
            last_consume_timestamp: NOW - ago_ms,
            cached_msg_count: 1001,
            ..ProcessQueueInfo::default()
        };
        let taken = ProcessQueueInfo {
            droped: true,
            ..state(400_000)
        };
        let silent = ProcessQueueInfo {
            last_consume_timestamp: 0,
            ..state(0)
        };
        let info = ConsumerRunningInfo {
            mq_table: [
                (queue(0), state(400_000)),
                (queue(1), state(299_000)),
                (queue(2), taken),
                (queue(3), silent),
            ]
            .into(),
            ..ConsumerRunningInfo::default()
        };
        let stuck = |waits: Option<u64>| {
            let waits = waits.map(Duration::from_secs);
            let stuck = stuck_queues(&info, NOW, |_| waits);
            stuck.iter().map(|q| q.queue_id).collect::<Vec<_>>()
        };
        assert_eq!(stuck(Some(301)), [0]);
        // A quiet queue into which a message came just now.
        assert_eq!(stuck(Some(1)), [0; 0]);
        assert_eq!(stuck(None), [0; 0]);
    }

    #[test]
    fn a_position_that_our_own_looks_saw_stand_is_enough() {
        // Other threads of the client go on: it consumed a second ago.
        let one = |s| Standing {
            unmoved: Some(Duration::from_secs(s)),
            consumed: Some(Duration::from_secs(1)),
            waits: Some(Duration::from_secs(1)),
        };
        assert!(one(300).is_stuck() && !one(299).is_stuck());
    }

    #[test]
    fn limits_are_those_of_one_queue_and_of_the_client() {
        let mut info = ConsumerRunningInfo::default();
        let holds = |count, mib, max| ProcessQueueInfo {
            cached_msg_count: count,
            cached_msg_size_in_mib: mib,
            cached_msg_max_offset: max,
            ..ProcessQueueInfo::default()
        };
        for (state, expected) in [
            (holds(1000, 100, 2000), false),
            (holds(1001, 0, 0), true),
            (holds(1, 101, 0), true),
            (holds(2, 0, 2001), true),
        ] {
            assert_eq!(is_held_back(&info, &state), expected, "{state:?}");
        }
        info.properties
            .insert("pullThresholdForQueue".into(), "32".into());
        info.properties
            .insert("PROP_CONSUMEORDERLY".into(), "true".into());
        assert!(is_held_back(&info, &holds(33, 0, 0)));
        assert!(
            !is_held_back(&info, &holds(2, 0, 2001)),
            "in order there is no span"
        );
    }

    #[test]
    fn a_retry_topic_without_messages_does_not_halve_the_time() {
        let status = |consume_rt, consume_ok_tps, consume_failed_tps| ConsumeStatus {
            consume_rt,
            consume_ok_tps,
            consume_failed_tps,
            ..ConsumeStatus::default()
        };
        let info = |all: &[ConsumeStatus]| ConsumerRunningInfo {
            status_table: (all.iter().enumerate())
                .map(|(i, s)| (format!("T{i}"), *s))
                .collect(),
            ..ConsumerRunningInfo::default()
        };
        let quiet = status(0.0, 0.0, 0.0);
        assert_eq!(consume_rt_ms(&info(&[status(8.0, 10.0, 0.0), quiet])), Some(8.0));
        // 30 messages of 8 ms and 10 of 4 ms.
        let both = [status(8.0, 25.0, 5.0), status(4.0, 10.0, 0.0)];
        assert_eq!(consume_rt_ms(&info(&both)), Some(7.0));
        assert_eq!(consume_rt_ms(&info(&[quiet, status(900.0, 0.0, 0.0)])), None);
    }
}
