//! Questions about pops: whether one would find something (200054), held until it would; how many wait (200055).

use std::sync::Arc;
use std::time::Instant;

use super::handle::Kind;
use super::polls::PollKey;
use super::request::{earlier, hold_until};
use crate::broker::{Broker, now_ms};
use crate::protocol::codes;
use crate::protocol::model::Perm;
use crate::protocol::requests::{Notification, NotificationReply, PollingInfo, PollingInfoReply};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// 200054
pub async fn notification(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: Notification,
    (): (),
) -> Handled<Notification> {
    let mut header = header;
    if header.born_time <= 0 {
        header.born_time = now_ms();
    }
    header.queue_id = header.queue_id.max(-1);
    broker.check_asker(peer, &header.topic, &header.consumer_group, header.queue_id)?;
    let mut polling_full = false;
    let mut has_msg = broker.has_message(&header).is_ok();
    if !has_msg && let Some(until) = hold_until(header.born_time, header.poll_time) {
        let key = PollKey {
            topic: header.topic.clone(),
            group: header.consumer_group.clone(),
            queue_id: header.queue_id,
        };
        match broker.pop.notifications.hold(broker, key) {
            None => polling_full = true,
            Some(held) => loop {
                held.settle();
                let free_at = match broker.has_message(&header) {
                    Ok(()) => {
                        has_msg = true;
                        break;
                    }
                    Err(free_at) => free_at,
                };
                if Instant::now() >= until {
                    break;
                }
                tokio::select! {
                    () = held.woken() => {}
                    () = tokio::time::sleep_until(earlier(until, free_at).into()) => {}
                    () = peer.draining() => break,
                }
                broker.check_asker(peer, &header.topic, &header.consumer_group, header.queue_id)?;
            },
        }
    }
    Ok(Answer::ok(
        NotificationReply {
            has_msg,
            polling_full,
        },
        (),
    ))
}

/// 200055
pub async fn polling_info(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: PollingInfo,
    (): (),
) -> Handled<PollingInfo> {
    broker.check_asker(peer, &header.topic, &header.consumer_group, header.queue_id)?;
    let key = PollKey {
        topic: header.topic,
        group: header.consumer_group,
        queue_id: header.queue_id.max(-1),
    };
    let polling_num = i32::try_from(broker.pop.pops.count(&key)).unwrap_or(i32::MAX);
    Ok(Answer::ok(PollingInfoReply { polling_num }, ()))
}

impl Broker {
    /// The checks of a question about pops, in Java's order.
    pub(super) fn check_asker(
        &self,
        peer: &Peer,
        topic: &str,
        group: &str,
        queue_id: i32,
    ) -> Result<(), Refusal> {
        let config = self.config();
        if !Perm(config.broker_permission).readable() {
            let remark = format!("the broker[{}] peeking message is forbidden", config.broker_ip1);
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        self.check_reader(peer, topic, group, queue_id, "peeking")
            .map(drop)
    }

    /// Whether a pop would find something; if not, when a queue that is blocked by its order will be free, ms.
    fn has_message(&self, header: &Notification) -> Result<(), Option<i64>> {
        let group = header.consumer_group.as_str();
        let mut free_at: Option<i64> = None;
        let mut topics = vec![header.topic.clone()];
        let kinds = self.retry_kinds().iter();
        topics.extend(kinds.map(|kind| kind.topic(&header.topic, group)));
        for topic in &topics {
            let Some(config) = self.topics.get(topic) else {
                continue;
            };
            let one =
                header.queue_id >= 0 && Kind::of(topic) == Kind::of(&header.topic) && *topic == header.topic;
            let queues = if one {
                header.queue_id..header.queue_id + 1
            } else {
                0..config.read_queue_nums
            };
            for queue_id in queues {
                if self.next_offset_of(topic, group, queue_id) >= self.store.max_offset(topic, queue_id) {
                    continue;
                }
                let blocked = if header.order {
                    self.blocked_until(&header.topic, group, queue_id, header.attempt_id.as_deref())
                } else {
                    None
                };
                match blocked {
                    None => return Ok(()),
                    Some(until) => free_at = Some(free_at.map_or(until, |at| at.min(until))),
                }
            }
        }
        Err(free_at)
    }

    /// Where a group's next pop of a queue would begin.
    pub(super) fn next_offset_of(&self, topic: &str, group: &str, queue_id: i32) -> i64 {
        self.offsets
            .committed(group, topic, queue_id)
            .filter(|&offset| offset >= 0)
            .unwrap_or_else(|| self.store.min_offset(topic, queue_id))
    }

    fn blocked_until(&self, topic: &str, group: &str, queue_id: i32, attempt: Option<&str>) -> Option<i64> {
        let queue = self.pop.find(topic, group, queue_id)?;
        let held = queue.lock();
        held.as_ref()
            .and_then(|order| order.blocked_until(attempt, now_ms()))
    }
}
