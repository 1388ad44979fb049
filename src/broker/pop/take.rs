//! One try of a pop: which queues are looked at, what is taken of each, and the checkpoint that is stored for it.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::checkpoint::{Checkpoint, MOST};
use super::handle::{Handle, Infos, Kind, ORDERLY};
use super::order::Order;
use crate::broker::clients::Subscription;
use crate::broker::groups::is_system_group;
use crate::broker::{Broker, now_ms, put, send};
use crate::protocol::message::{MessageView, Stamp};
use crate::protocol::model::RETRY_PREFIX;
use crate::protocol::properties::{self, names};
use crate::protocol::requests::PopMessage;
use crate::remoting::Refusal;
use crate::store::{Appended, GetStatus, Got, MessageFilter, touch};

/// How long a held pop leaves a queue alone that another one reads, ms.
const BUSY_PAUSE_MS: i64 = 10;

/// A pop that passed the checks.
#[derive(Debug)]
pub struct Wanted {
    /// The request.
    pub header: PopMessage,
    /// What passes.
    pub subscription: Arc<Subscription>,
    /// Most messages.
    pub most: usize,
}

/// What one try brought.
#[derive(Debug, Default)]
pub struct Taken {
    /// Whole records.
    pub records: Vec<Bytes>,
    /// Where they are from.
    pub infos: Infos,
    /// About how many messages are left, in all queues looked at.
    pub rest: i64,
    /// There is more that another pop of the same kind would get now.
    pub more: bool,
    /// A queue was left alone because another pop was reading it.
    pub busy: bool,
    /// When a queue that is blocked by its order, or by another pop, will be free, ms.
    pub free_at: Option<i64>,
    /// The last checkpoint.
    pub appended: Option<Appended>,
    /// Why a checkpoint could not be stored.
    pub refusal: Option<Refusal>,
    /// When it was, ms.
    pub pop_time: i64,
    /// Where the checkpoints went.
    pub revive_queue: i32,
}

impl Broker {
    /// Tries a pop once: the retry topic first in some cases, then the topic, then the retry topic if there is room.
    pub(super) fn take(self: &Arc<Self>, wanted: &Wanted) -> Taken {
        let header = &wanted.header;
        let config = self.config();
        let dice = self.pop.dice();
        let turn = self.pop.turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut taken = Taken {
            pop_time: now_ms(),
            revive_queue: if header.order {
                ORDERLY
            } else {
                (turn % self.revive_queues() as u64) as i32
            },
            ..Taken::default()
        };
        let retry_first = dice < config.pop_from_retry_probability;
        // The marks of an answer do not tell two retry topics of one queue number apart in old clients, so one pop
        // takes from one of them.
        let kind = match self.retry_kinds() {
            [one] => *one,
            [_, old] if dice.is_multiple_of(2) => *old,
            [new, ..] => *new,
            [] => Kind::RetryV1,
        };
        let retry = kind.topic(&header.topic, &header.consumer_group);
        if retry_first && !header.order {
            self.take_from_topic(wanted, &retry, dice, &mut taken);
        }
        if header.queue_id < 0 {
            self.take_from_topic(wanted, &header.topic, dice, &mut taken);
        } else {
            self.take_from_queue(wanted, &header.topic, header.queue_id, &mut taken);
        }
        if !retry_first && !header.order && taken.records.len() < wanted.most {
            self.take_from_topic(wanted, &retry, dice, &mut taken);
        }
        taken
    }

    fn take_from_topic(self: &Arc<Self>, wanted: &Wanted, topic: &str, dice: u32, taken: &mut Taken) {
        let Some(config) = self.topics.get(topic) else {
            return;
        };
        let queues = config.read_queue_nums;
        for n in 0..queues {
            let queue_id = (dice as i32).wrapping_add(n).rem_euclid(queues);
            self.take_from_queue(wanted, topic, queue_id, taken);
        }
    }

    fn take_from_queue(self: &Arc<Self>, wanted: &Wanted, topic: &str, queue_id: i32, taken: &mut Taken) {
        let header = &wanted.header;
        let group = header.consumer_group.as_str();
        let config = self.config();
        let queue = self.pop.queue(topic, group, queue_id);
        let left = |offset: i64| {
            self.store
                .max_offset(topic, queue_id)
                .saturating_sub(offset)
                .max(0)
        };
        let Some(mut held) = queue.try_lock() else {
            // Whoever pops from it now may have looked before the last message came: a held pop looks again soon.
            taken.busy = true;
            let soon = now_ms() + BUSY_PAUSE_MS;
            taken.free_at = Some(taken.free_at.map_or(soon, |at| at.min(soon)));
            if !header.order {
                taken.rest += left(self.offsets.committed(group, topic, queue_id).unwrap_or(0));
            }
            return;
        };
        let in_flight = queue.in_flight.load(std::sync::atomic::Ordering::Relaxed);
        if config.enable_pop_message_threshold && in_flight > config.pop_inflight_message_threshold {
            taken.rest += left(self.offsets.committed(group, topic, queue_id).unwrap_or(0));
            return;
        }
        let mut offset = match self.offsets.take_reset(group, topic, queue_id) {
            Some(reset) => {
                *held = None;
                queue.in_flight.store(0, std::sync::atomic::Ordering::Relaxed);
                self.pop.orders_file.mark();
                self.commit(group, topic, queue_id, reset);
                reset
            }
            None => self.pop_offset(header, topic, queue_id),
        };
        if header.order {
            let attempt = header.attempt_id.as_deref();
            let blocked = held
                .as_ref()
                .and_then(|order| order.blocked_until(attempt, now_ms()));
            if let Some(until) = blocked {
                taken.free_at = Some(taken.free_at.map_or(until, |at| at.min(until)));
                return;
            }
            queue.in_flight.store(0, std::sync::atomic::Ordering::Relaxed);
        }
        let room = wanted.most.saturating_sub(taken.records.len()).min(MOST);
        if room == 0 {
            let left = left(offset);
            taken.rest += left;
            taken.more |= left > 0;
            return;
        }
        let mut got = self.read_for_pop(wanted, topic, queue_id, offset, room);
        if matches!(
            got.status,
            GetStatus::OffsetTooSmall | GetStatus::OffsetOverflowBadly | GetStatus::OffsetFoundNull
        ) && got.next_offset != offset
        {
            tracing::info!(
                group,
                topic,
                queue_id,
                offset,
                next = got.next_offset,
                why = got.status.name(),
                "pop offset corrected"
            );
            offset = got.next_offset;
            self.commit(group, topic, queue_id, offset);
            got = self.read_for_pop(wanted, topic, queue_id, offset, room);
        }
        let offsets: Vec<i64> = got
            .records
            .iter()
            .filter_map(|record| MessageView::parse(record).ok().map(|view| view.queue_offset()))
            .collect();
        let next = got.next_offset;
        if got.records.is_empty() || offsets.len() != got.records.len() {
            // Only messages that the filter drops, or that are gone, came by.
            let passed = matches!(
                got.status,
                GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving
            );
            if passed && next > offset {
                self.commit(group, topic, queue_id, next);
                taken.more |= next < got.max_offset;
            }
            taken.rest += got.max_offset.saturating_sub(next.max(0)).max(0);
            return;
        }
        if header.order {
            let order = Order::new(
                held.as_ref(),
                header.attempt_id.as_deref(),
                taken.pop_time,
                header.invisible_time,
                &offsets,
            );
            order.tell(&mut taken.infos, topic, queue_id);
            *held = Some(order);
            self.pop.orders_file.mark();
            self.commit(group, topic, queue_id, offset);
        } else {
            if !self.store_checkpoint(wanted, topic, queue_id, offset, &offsets, next, taken) {
                taken.rest += got.records.len() as i64;
                return;
            }
            self.commit(group, topic, queue_id, next);
            queue
                .in_flight
                .fetch_add(offsets.len() as i64, std::sync::atomic::Ordering::Relaxed);
        }
        drop(held);
        if header.order {
            // Who waits for the queue learns when it will be free.
            self.pop.pops.wake_queue(&header.topic, group, queue_id);
        }
        taken.infos.add(topic, queue_id, offset, &offsets);
        let left = got.max_offset.saturating_sub(next).max(0);
        taken.rest += left;
        taken.more |= left > 0 && !header.order;
        let bytes: usize = got.records.iter().map(Bytes::len).sum();
        let system = self.topics.is_system(topic) || is_system_group(group);
        self.stats
            .got(group, topic, system, offsets.len() as i64, bytes as i64);
        let disguise = topic != header.topic && !config.pop_response_return_actual_retry_topic;
        if disguise {
            let handle = Handle {
                start_offset: offset,
                pop_time: taken.pop_time,
                invisible_time: header.invisible_time,
                revive_queue: taken.revive_queue,
                broker_name: config.broker_name.clone(),
            };
            let disguised = |record: &Bytes| as_original(record, &header.topic, &handle);
            taken.records.extend(got.records.iter().map(disguised));
        } else {
            taken.records.append(&mut got.records);
        }
    }

    /// Stores the checkpoint of what is handed out; false when that failed, and nothing may be.
    #[allow(clippy::too_many_arguments)] // the parts of a checkpoint
    fn store_checkpoint(
        &self,
        wanted: &Wanted,
        topic: &str,
        queue_id: i32,
        start: i64,
        offsets: &[i64],
        next: i64,
        taken: &mut Taken,
    ) -> bool {
        let header = &wanted.header;
        let mut ck = Checkpoint {
            broker_name: Some(self.config().broker_name.clone()),
            group: header.consumer_group.clone(),
            diffs: offsets
                .iter()
                .map(|offset| i32::try_from(offset.saturating_sub(start)).unwrap_or(i32::MAX))
                .collect(),
            invisible_time: header.invisible_time,
            count: offsets.len() as i32,
            pop_time: taken.pop_time,
            queue_id,
            start_offset: start,
            topic: topic.to_owned(),
            ..Checkpoint::default()
        };
        ck.revive_time = ck.due_ms();
        match self.put_for_revive(&self.checkpoint_message(&ck, taken.revive_queue, Some(next))) {
            Ok(appended) => {
                taken.appended = Some(appended);
                self.count_checkpoint(&header.consumer_group, topic);
                true
            }
            Err(e) => {
                tracing::warn!(group = %header.consumer_group, topic, queue_id, error = %e,
                    "a checkpoint was not stored; its messages are not handed out");
                taken.refusal = Some(send::refusal(self, e));
                false
            }
        }
    }

    pub(super) fn commit(&self, group: &str, topic: &str, queue_id: i32, offset: i64) {
        let step = self.config().consumer_offset_update_version_step;
        self.offsets.commit(group, topic, queue_id, offset, step);
    }

    /// Where a group goes on in a queue; a new group begins where it asked to, which is committed.
    fn pop_offset(&self, header: &PopMessage, topic: &str, queue_id: i32) -> i64 {
        let group = header.consumer_group.as_str();
        if let Some(offset) = self.offsets.committed(group, topic, queue_id)
            && offset >= 0
        {
            return offset;
        }
        let min = self.store.min_offset(topic, queue_id);
        let young = || {
            self.config().init_pop_offset_by_check_msg_in_mem
                && min <= 0
                && self.store.in_memory(topic, queue_id, 0)
        };
        let offset = if header.init_mode == PopMessage::FROM_MIN || topic.starts_with(RETRY_PREFIX) {
            min
        } else if young() {
            0
        } else {
            // The last message is handed out too.
            (self.store.max_offset(topic, queue_id) - 1).max(0)
        };
        self.commit(group, topic, queue_id, offset);
        offset
    }

    /// Reads what passes the filter. A read that may have to wait for the disk, or takes long to filter, moves the other tasks of its thread
    /// away first.
    fn read_for_pop(&self, wanted: &Wanted, topic: &str, queue_id: i32, offset: i64, room: usize) -> Got {
        let filter = &wanted.subscription.filter;
        let started = Instant::now();
        let hot = if filter.is_costly() {
            None
        } else {
            self.store
                .get_in_memory(topic, queue_id, offset, room, usize::MAX, filter)
        };
        let got = hot.unwrap_or_else(|| {
            let read = || {
                let got = self
                    .store
                    .get_filtered(topic, queue_id, offset, room, usize::MAX, filter);
                // Not while it is sent.
                got.records.iter().for_each(|record| touch(record));
                got
            };
            let runtime = tokio::runtime::Handle::current().runtime_flavor();
            if runtime == tokio::runtime::RuntimeFlavor::MultiThread {
                tokio::task::block_in_place(read)
            } else {
                read()
            }
        });
        self.stats.get_took(started.elapsed());
        got
    }
}

/// A record of a retry topic as one of the topic itself, with its handle; an unreadable one stays as it is.
fn as_original(record: &Bytes, topic: &str, handle: &Handle) -> Bytes {
    let Ok(view) = MessageView::parse(record) else {
        return record.clone();
    };
    let mut message = put::again(&view);
    if view.properties().get(names::POP_CK).is_none() {
        let text = handle.text(view.topic(), view.queue_id(), view.queue_offset());
        properties::append(&mut message.properties, names::POP_CK, &text);
    }
    topic.clone_into(&mut message.topic);
    let stamp = Stamp {
        queue_offset: view.queue_offset(),
        physical_offset: view.physical_offset(),
        store_timestamp: view.store_timestamp(),
    };
    match message.to_vec(stamp) {
        Ok(bytes) => Bytes::from(bytes),
        Err(e) => {
            tracing::warn!(topic, error = %e, "a retried message keeps the name of its retry topic");
            record.clone()
        }
    }
}
