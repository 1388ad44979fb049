//! Acknowledgements (200051, 200151): stored for the revive queue of their checkpoint, or taken at once in order.

use std::sync::Arc;

use super::checkpoint::Ack;
use super::handle::{Handle, Kind, ORDERLY};
use super::order::Next;
use super::request::{LONGEST_INVISIBLE, bad_queue};
use crate::broker::{Broker, now_ms, send};
use crate::protocol::base64::STANDARD;
use crate::protocol::body::{BatchAck, BatchAckRequest, TopicConfig};
use crate::protocol::requests::{AckMessage, BatchAckMessage};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::Appended;

/// Longest bit set of one entry, as text: a checkpoint's messages lie closer together.
const LONGEST_BITS: usize = 64 * 1024;
/// Entries of a batch between two looks at what else the thread has to do.
const TURN: usize = 32;
/// Most messages that one entry of a batch may acknowledge; a checkpoint has 32.
const MOST_OF_ONE: usize = 1024;

/// 200051
pub async fn ack(broker: &Arc<Broker>, peer: &Peer, header: AckMessage, (): ()) -> Handled<AckMessage> {
    let (topic, group, queue_id) = (
        header.topic.as_str(),
        header.consumer_group.as_str(),
        header.queue_id,
    );
    broker.check_ack(peer, topic, group, queue_id)?;
    let (min, max) = broker.range(topic, queue_id);
    if header.offset < min || header.offset > max {
        let offset = header.offset;
        let remark = format!("offset is illegal, key:{topic}@{queue_id}, commit:{offset}, store:{min}~{max}");
        return Err(Refusal::new(codes::NO_MESSAGE, remark));
    }
    let handle = Handle::parse(&header.extra_info)?;
    if handle.revive_queue == ORDERLY {
        broker.ack_in_order(peer, topic, group, queue_id, header.offset, handle.pop_time)?;
        return Ok(Answer::ok((), ()));
    }
    let ack = Ack {
        offset: header.offset,
        offsets: None,
        broker_name: Some(handle.broker_name.clone()),
        group: group.to_owned(),
        pop_time: handle.pop_time,
        queue_id,
        start_offset: handle.start_offset,
        topic: topic.to_owned(),
    };
    let appended = broker.store_ack(&ack, handle.revive_queue, handle.invisible_time)?;
    broker.until_durable(&appended).await?;
    Ok(Answer::ok((), ()))
}

/// 200151: offsets that are not in the queue are passed over, as in Java.
pub async fn batch_ack(
    broker: &Arc<Broker>,
    peer: &Peer,
    _: BatchAckMessage,
    body: Option<Json<BatchAckRequest>>,
) -> Handled<BatchAckMessage> {
    let Some(request) = body.map(|body| body.value).filter(|body| !body.acks.is_empty()) else {
        return Err(Refusal::new(codes::NO_MESSAGE, "nothing to acknowledge"));
    };
    let mut last = None;
    let mut refused = None;
    for (n, one) in request.acks.iter().enumerate() {
        if n > 0 && n.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
        match broker.ack_one_of_batch(peer, one, request.broker_name.as_deref()) {
            Ok(appended) => last = appended.or(last),
            Err(refusal) => {
                tracing::debug!(group = %one.consumer_group, topic = %one.topic, code = refusal.code,
                    remark = %refusal.remark, "part of a batch was not acknowledged");
                refused.get_or_insert(refusal);
            }
        }
    }
    if let Some(appended) = last {
        broker.until_durable(&appended).await?;
    }
    match refused {
        Some(refusal) => Err(refusal),
        None => Ok(Answer::ok((), ())),
    }
}

impl Broker {
    /// First offset of a queue, and the one behind its last.
    pub(super) fn range(&self, topic: &str, queue_id: i32) -> (i64, i64) {
        (
            self.store.min_offset(topic, queue_id),
            self.store.max_offset(topic, queue_id),
        )
    }

    /// Checks that a queue and a group exist.
    pub(super) fn check_ack(
        &self,
        peer: &Peer,
        topic: &str,
        group: &str,
        queue_id: i32,
    ) -> Result<Arc<TopicConfig>, Refusal> {
        let faq = crate::broker::FAQ;
        let Some(config) = self.topics.get(topic) else {
            let remark = format!("topic[{topic}] not exist, apply first please! {faq}");
            return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
        };
        if !(0..config.read_queue_nums).contains(&queue_id) {
            return Err(Refusal::new(
                codes::MESSAGE_ILLEGAL,
                bad_queue(queue_id, &config, peer),
            ));
        }
        if !self.groups.contains(group) {
            let remark = format!("subscription group [{group}] does not exist, {faq}");
            return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        }
        Ok(config)
    }

    /// Checks where a handle says its checkpoint is, and when it would be due.
    pub(super) fn check_revive(
        &self,
        revive_queue: i32,
        pop_time: i64,
        invisible_time: i64,
    ) -> Result<i64, Refusal> {
        let bad = |remark: String| Err(Refusal::new(codes::INVALID_PARAMETER, remark));
        if !(0..self.revive_queues()).contains(&revive_queue) {
            return bad(format!("the handle names revive queue {revive_queue}"));
        }
        // Nobody pops in the future; a little is left for a clock that was set back.
        if pop_time > now_ms().saturating_add(60_000) || !(0..=LONGEST_INVISIBLE).contains(&invisible_time) {
            return bad(format!(
                "the handle says popped at {pop_time} for {invisible_time} ms"
            ));
        }
        Ok(pop_time.saturating_add(invisible_time))
    }

    /// Appends acknowledgements; they hold after [`Self::until_durable`].
    pub(super) fn store_ack(
        &self,
        ack: &Ack,
        revive_queue: i32,
        invisible_time: i64,
    ) -> Result<Appended, Refusal> {
        let due = self.check_revive(revive_queue, ack.pop_time, invisible_time)?;
        let count = ack.offsets.as_ref().map_or(1, Vec::len) as i64;
        let appended = self
            .put_for_revive(&self.ack_message(ack, revive_queue, due))
            .map_err(|e| send::refusal(self, e))?;
        self.count_acks(&ack.group, &ack.topic, count);
        if ack.pop_time >= self.boot_ms {
            self.pop.landed(&ack.topic, &ack.group, ack.queue_id, count);
        }
        if self.config().enable_pop_message_threshold {
            // The queue may have been closed for having too many in flight.
            let topic = super::handle::normal_topic(&ack.topic, &ack.group);
            self.pop.pops.wake_queue(topic, &ack.group, ack.queue_id);
        }
        Ok(appended)
    }

    fn ack_one_of_batch(
        self: &Arc<Self>,
        peer: &Peer,
        one: &BatchAck,
        broker_name: Option<&str>,
    ) -> Result<Option<Appended>, Refusal> {
        let bad = |remark: String| Refusal::new(codes::INVALID_PARAMETER, remark);
        let kind = Kind::from_mark(&one.retry)
            .ok_or_else(|| bad(format!("retry kind {:?} of a batch", one.retry.get(..9))))?;
        let (group, queue_id) = (one.consumer_group.as_str(), one.queue_id);
        let topic = kind.topic(&one.topic, group);
        self.check_ack(peer, &topic, group, queue_id)?;
        if one.bit_set.len() > LONGEST_BITS {
            let len = one.bit_set.len();
            return Err(bad(format!("a bit set of {len} characters is too long")));
        }
        let bits = STANDARD
            .decode(one.bit_set.trim().trim_end_matches('='))
            .ok_or_else(|| bad("the bit set is not Base64".into()))?;
        let (min, max) = self.range(&topic, queue_id);
        let offsets: Vec<i64> = set_bits(&bits)
            .filter_map(|bit| one.start_offset.checked_add(bit))
            .filter(|offset| (min..=max).contains(offset))
            .take(MOST_OF_ONE + 1)
            .collect();
        if offsets.len() > MOST_OF_ONE {
            return Err(bad(format!("more than {MOST_OF_ONE} messages of one checkpoint")));
        }
        if one.revive_queue_id == ORDERLY {
            for offset in offsets {
                self.ack_in_order(peer, &topic, group, queue_id, offset, one.pop_time)?;
            }
            return Ok(None);
        }
        if offsets.is_empty() {
            return Ok(None);
        }
        let ack = Ack {
            offset: -1,
            offsets: Some(offsets),
            broker_name: broker_name.map(str::to_owned),
            group: group.to_owned(),
            pop_time: one.pop_time,
            queue_id,
            start_offset: one.start_offset,
            topic,
        };
        self.store_ack(&ack, one.revive_queue_id, one.invisible_time)
            .map(Some)
    }

    /// Takes an acknowledgement in order: the group's offset moves to its first message that is not done.
    fn ack_in_order(
        self: &Arc<Self>,
        peer: &Peer,
        topic: &str,
        group: &str,
        queue_id: i32,
        offset: i64,
        pop_time: i64,
    ) -> Result<(), Refusal> {
        let queue = self.pop.queue(topic, group, queue_id);
        let mut held = queue.lock();
        let old = self.offsets.committed(group, topic, queue_id).unwrap_or(-1);
        if offset < old {
            return Ok(());
        }
        let next = match held.as_mut() {
            Some(order) => order.acknowledge(offset, pop_time),
            None => Next::Commit(offset.saturating_add(1)),
        };
        match next {
            Next::Commit(next) => {
                if !self.offsets.has_reset(group, topic, queue_id) {
                    self.commit(group, topic, queue_id, next);
                }
                self.pop.orders_file.mark();
                self.count_acks(group, topic, 1);
                let free = held
                    .as_ref()
                    .is_none_or(|order| order.blocked_until(None, now_ms()).is_none());
                drop(held);
                if free {
                    self.pop.pops.wake_queue(topic, group, queue_id);
                    self.pop.notifications.wake_queue(topic, group, queue_id);
                }
                Ok(())
            }
            Next::Stale => {
                tracing::debug!(group, topic, queue_id, offset, "acknowledged after another pop");
                Ok(())
            }
            Next::Illegal => {
                let remark = format!(
                    "offset is illegal, key:{topic}@{group}@{queue_id}, old:{old}, commit:{offset}, next:-1, /{}",
                    peer.remote()
                );
                Err(Refusal::new(codes::MESSAGE_ILLEGAL, remark))
            }
        }
    }
}

/// The numbers of the bits that are set, as Java's `BitSet.valueOf` reads them.
fn set_bits(bytes: &[u8]) -> impl Iterator<Item = i64> {
    bytes.iter().enumerate().flat_map(|(n, &byte)| {
        (0..8)
            .filter(move |bit| byte & (1 << bit) != 0)
            .map(move |bit| n as i64 * 8 + bit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_sets_are_javas() {
        // protocol.md 8.14: bits 0, 3 and 9.
        assert_eq!(set_bits(&[9, 2]).collect::<Vec<_>>(), [0, 3, 9]);
    }
}
