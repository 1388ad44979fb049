//! Messages that come back: one task a revive queue reads checkpoints and acknowledgements, and puts what was not
//! acknowledged in time into the group's retry topic, or its dead-letter topic after too many tries.
//!
//! The timer delivers a checkpoint a second before its time and its acknowledgements at that time, so the task holds
//! what is due soon and no more. Progress is the offset of [`REVIVE_GROUP`], which as in Java names the last record done
//! with, not the next one; it never passes a checkpoint that is still held, so a crash reads that again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use super::REVIVE_GROUP;
use super::checkpoint::{Ack, Checkpoint, Found, Key};
use super::handle::{Kind, normal_topic};
use crate::broker::groups::is_system_group;
use crate::broker::put::{self, PutError};
use crate::broker::topics::TIMER_TOPIC;
use crate::broker::{Broker, now_ms};
use crate::protocol::message::{MAX_PROPERTIES, MessageView};
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};
use crate::protocol::properties::{self, names};
use crate::store::{AppendError, Appended, GetStatus, Got};

/// How long after its time a checkpoint waits for acknowledgements on their way, ms.
const GRACE_MS: i64 = 1000;
/// Most checkpoints held of one queue; beyond it the oldest do not wait for acknowledgements any more.
const MOST_HELD: usize = 200_000;
/// How long to wait when the timer has not got to what is due.
const BEHIND_PAUSE: Duration = Duration::from_millis(20);
/// Records read at once.
const STEP: usize = 256;
/// Checkpoints revived at once.
const BATCH: usize = 64;
/// Pause after a checkpoint whose messages could not be put, doubled each time up to the second one.
const BACK_OFF: (i64, i64) = (1000, 60_000);
/// How long a message that cannot be read is left alone, by the number of tries, s (Java's
/// `ckRewriteIntervalsInSeconds`).
const UNREADABLE_S: [i64; 17] = [
    10, 20, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200,
];

/// A checkpoint that is held.
#[derive(Debug)]
struct HeldCheckpoint {
    ck: Checkpoint,
    key: Key,
    due_ms: i64,
    pause_ms: i64,
}

/// How far the timer is, through which checkpoints and acknowledgements come.
#[derive(Debug, Clone, Copy)]
struct TimerLook {
    /// Offset in its topic up to which it has taken messages.
    seen: i64,
    /// Offset behind the last message of its topic.
    end: i64,
    /// Of what it has taken, everything before this time was delivered.
    delivered_ms: i64,
    now_ms: i64,
}

/// Whether the times in a revive queue can be relied on: while the timer catches up, after a start or a pause, it
/// delivers what is overdue as it finds it, and an acknowledgement may come long after its time.
#[derive(Debug, Default)]
struct Order {
    /// Before this offset of the revive queue, times may be in any order.
    disordered_to: i64,
    /// An end of the timer's topic that it has not reached yet, and when that was the end.
    mark: Option<(i64, i64)>,
    /// It was late when it was looked at last.
    is_late: bool,
    /// The timer was looked at before.
    is_begun: bool,
}

impl Order {
    fn look(&mut self, timer: &TimerLook, end: impl FnOnce() -> i64) {
        if !self.is_begun {
            // What an earlier run has left is late from the first.
            self.mark = Some((timer.end, i64::MIN));
            self.is_begun = true;
        }
        self.mark = match self.mark.filter(|(end, _)| timer.seen < *end) {
            None if timer.seen < timer.end => Some((timer.end, timer.now_ms)),
            mark => mark,
        };
        let oldest = timer.now_ms - GRACE_MS;
        let is_late = timer.delivered_ms < oldest || self.mark.is_some_and(|(_, since)| since < oldest);
        if is_late || self.is_late {
            self.disordered_to = end();
        }
        self.is_late = is_late;
    }

    /// True when all before `next` is read and the times behind it are in order.
    fn reads_in_order(&self, next: i64) -> bool {
        !self.is_late && next >= self.disordered_to
    }
}

/// What one revive queue holds.
#[derive(Debug, Default)]
struct Pending {
    /// By its offset in the revive queue.
    by_offset: BTreeMap<i64, HeldCheckpoint>,
    by_key: HashMap<Key, Vec<i64>>,
    /// When each is due, ms, and its offset.
    due: BTreeSet<(i64, i64)>,
    /// The next start begins here at the latest: from here on some were given up in this run.
    floor: Option<i64>,
}

impl Pending {
    fn add(&mut self, offset: i64, ck: Checkpoint, own_name: &str) {
        let key = ck.key(own_name);
        let due_ms = ck.due_ms().saturating_add(GRACE_MS);
        self.by_key.entry(key.clone()).or_default().push(offset);
        self.due.insert((due_ms, offset));
        let held = HeldCheckpoint {
            ck,
            key,
            due_ms,
            pause_ms: BACK_OFF.0,
        };
        self.by_offset.insert(offset, held);
    }

    fn acknowledge(&mut self, ack: &Ack, own_name: &str) {
        let Some(offsets) = self.by_key.get(&ack.key(own_name)) else {
            // Came back already, or was dropped.
            return;
        };
        for offset in offsets.clone() {
            let Some(held) = self.by_offset.get_mut(&offset) else {
                continue;
            };
            let several = ack.offsets.iter().flatten().copied();
            let one = ack.offsets.is_none().then_some(ack.offset);
            for acked in several.chain(one) {
                if let Some(n) = held.ck.place_of(acked) {
                    held.ck.set_done(n);
                }
            }
            if (0..held.ck.len()).all(|n| held.ck.is_done(n)) {
                self.remove(offset);
            }
        }
    }

    fn remove(&mut self, offset: i64) -> Option<HeldCheckpoint> {
        let held = self.by_offset.remove(&offset)?;
        self.due.remove(&(held.due_ms, offset));
        if let Some(offsets) = self.by_key.get_mut(&held.key) {
            offsets.retain(|&o| o != offset);
            if offsets.is_empty() {
                self.by_key.remove(&held.key);
            }
        }
        Some(held)
    }

    /// Those whose time is over at `frontier`, and those that are too many.
    fn take_due(&mut self, frontier: i64) -> Vec<(i64, HeldCheckpoint)> {
        let mut taken = Vec::new();
        while taken.len() < BATCH {
            let crowded = self.by_offset.len() > MOST_HELD;
            let Some(&(due, offset)) = self.due.first() else {
                break;
            };
            if due > frontier && !crowded {
                break;
            }
            taken.extend(self.remove(offset).map(|held| (offset, held)));
        }
        taken
    }

    fn put_back(&mut self, offset: i64, mut held: HeldCheckpoint, now_ms: i64) {
        held.due_ms = now_ms.saturating_add(held.pause_ms);
        held.pause_ms = (held.pause_ms * 2).min(BACK_OFF.1);
        self.due.insert((held.due_ms, offset));
        self.by_key.entry(held.key.clone()).or_default().push(offset);
        self.by_offset.insert(offset, held);
    }
}

/// Reads one revive queue until the broker stops.
pub async fn run(broker: Arc<Broker>, queue_id: i32) {
    let topic = broker.revive_topic();
    let mut pending = Pending::default();
    let committed = broker.offsets.committed(REVIVE_GROUP, &topic, queue_id);
    let mut next = committed.map_or(0, |done| done.saturating_add(1)).max(0);
    // The newest delivery time seen: all acknowledgements of before are read, if the timer delivers in order.
    let mut seen_ms = 0;
    let mut order = Order::default();
    let mut bell = broker.store.bell(&topic, queue_id);
    while !broker.stopping.is_cancelled() {
        bell.borrow_and_update();
        // Before the queue is read: what the timer delivers meanwhile counts as not delivered.
        let timer = broker.look_at_timer();
        order.look(&timer, || broker.store.next_offset(&topic, queue_id));
        let at_end = broker
            .read_revive(&topic, queue_id, &mut next, &mut pending, &mut seen_ms)
            .await;
        let frontier = if at_end && timer.seen >= timer.end {
            timer.delivered_ms
        } else if order.reads_in_order(next) {
            seen_ms.min(timer.delivered_ms)
        } else {
            i64::MIN
        };
        let due = pending.take_due(frontier);
        let busy = !due.is_empty() || !at_end;
        if !due.is_empty() {
            match broker.revive_all(due, queue_id, &mut pending).await {
                Some(true) => {}
                // The store takes nothing now.
                Some(false) => tokio::time::sleep(BEHIND_PAUSE).await,
                None => return,
            }
        }
        let first = pending.by_offset.keys().next().copied().unwrap_or(next);
        let done = pending.floor.map_or(first, |floor| floor.min(first)) - 1;
        if done >= 0 && broker.offsets.committed(REVIVE_GROUP, &topic, queue_id) != Some(done) {
            broker.commit(REVIVE_GROUP, &topic, queue_id, done);
        }
        if busy {
            tokio::task::yield_now().await;
            continue;
        }
        let until = pending.due.first().map(|&(due, _)| due);
        let sleep = async {
            match until {
                Some(due) => {
                    let left = match u64::try_from(due.saturating_sub(now_ms())) {
                        Ok(left) if left > 0 => Duration::from_millis(left + 1),
                        _ => BEHIND_PAUSE,
                    };
                    tokio::time::sleep(left).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            rung = bell.changed() => if rung.is_err() {
                // Nobody deletes this topic but by hand.
                tokio::time::sleep(Duration::from_secs(1)).await;
                bell = broker.store.bell(&topic, queue_id);
            },
            () = sleep => {}
            () = broker.stopping.cancelled() => return,
        }
    }
}

/// How a checkpoint ended.
struct Revived {
    offset: i64,
    held: HeldCheckpoint,
    /// Nothing is left to do.
    done: bool,
    appended: Option<Appended>,
}

impl Broker {
    /// How far the timer is.
    fn look_at_timer(&self) -> TimerLook {
        let now_ms = now_ms();
        let Some(timer) = &self.timer else {
            return TimerLook {
                seen: 0,
                end: 0,
                delivered_ms: now_ms,
                now_ms,
            };
        };
        let end = self.store.next_offset(TIMER_TOPIC, 0);
        TimerLook {
            seen: timer.next_offset(),
            end,
            delivered_ms: timer.delivered_to(now_ms),
            now_ms,
        }
    }

    /// Reads what there is, within bounds; true at the end of the queue.
    async fn read_revive(
        self: &Arc<Self>,
        topic: &str,
        queue_id: i32,
        next: &mut i64,
        pending: &mut Pending,
        seen_ms: &mut i64,
    ) -> bool {
        if pending.by_offset.len() > MOST_HELD {
            return false;
        }
        // Appended and not in the queue yet counts as not read.
        let end = self.store.next_offset(topic, queue_id);
        if *next >= end && *next <= self.store.max_offset(topic, queue_id) {
            return true;
        }
        let (owner, name, from) = (self.clone(), topic.to_owned(), *next);
        let read = tokio::task::spawn_blocking(move || {
            owner
                .store
                .get(&name, queue_id, from, STEP, usize::MAX, &|_| true)
        });
        let got = match read.await {
            Ok(got) => got,
            Err(e) => {
                tracing::error!(queue_id, error = %e, "reading a revive queue was aborted");
                tokio::time::sleep(Duration::from_secs(1)).await;
                return false;
            }
        };
        self.hold_read(&got, pending, seen_ms);
        match got.status {
            GetStatus::Found | GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => {
                *next = got.next_offset;
            }
            GetStatus::OffsetTooSmall | GetStatus::OffsetOverflowBadly => {
                tracing::warn!(
                    topic,
                    queue_id,
                    offset = *next,
                    next = got.next_offset,
                    why = got.status.name(),
                    "revive offset corrected"
                );
                *next = got.next_offset;
            }
            GetStatus::OffsetFoundNull if got.next_offset > *next => *next = got.next_offset,
            GetStatus::OffsetFoundNull => {
                // Cannot be read now; the store has said why.
                tokio::time::sleep(Duration::from_secs(1)).await;
                return false;
            }
            GetStatus::NoMessageInQueue | GetStatus::NoMatchedLogicQueue | GetStatus::OffsetOverflowOne => {
                // Appended, and in the queue in a moment.
                return *next >= self.store.next_offset(topic, queue_id) || {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    false
                };
            }
        }
        *next >= self.store.next_offset(topic, queue_id)
    }

    /// Takes checkpoints and acknowledgements out of what was read.
    fn hold_read(&self, got: &Got, pending: &mut Pending, seen_ms: &mut i64) {
        let own_name = self.config().broker_name.clone();
        let mut garbage = 0;
        for record in &got.records {
            let Ok(view) = MessageView::parse(record) else {
                garbage += 1;
                continue;
            };
            match Found::of(&view) {
                Found::Checkpoint(ck) => pending.add(view.queue_offset(), ck, &own_name),
                Found::Ack(ack) => pending.acknowledge(&ack, &own_name),
                Found::Garbage => garbage += 1,
            }
            let at = view.properties().get(names::TIMER_DELIVER_MS);
            if let Some(at) = at.and_then(|at| at.parse::<i64>().ok()) {
                *seen_ms = (*seen_ms).max(at.min(now_ms()));
            }
        }
        if garbage > 0 {
            tracing::warn!(
                garbage,
                "records of a revive queue cannot be read and are passed over"
            );
        }
    }

    /// Puts back the messages of checkpoints; those that fail are held for another try. True when any was put back,
    /// `None` when the broker stops or a flush failed, which is final: the next start begins with these again.
    async fn revive_all(
        self: &Arc<Self>,
        due: Vec<(i64, HeldCheckpoint)>,
        queue_id: i32,
        pending: &mut Pending,
    ) -> Option<bool> {
        let owner = self.clone();
        let first = due.iter().map(|(offset, _)| *offset).min();
        let work = tokio::task::spawn_blocking(move || {
            let one = |(offset, held)| owner.revive(offset, held, queue_id);
            due.into_iter().map(one).collect::<Vec<_>>()
        });
        let revived = match work.await {
            Ok(revived) => revived,
            Err(e) => {
                // Their offsets are not committed past; the next start reads them again.
                tracing::error!(queue_id, error = %e, "reviving was aborted");
                pending.floor = pending.floor.into_iter().chain(first).min();
                return Some(true);
            }
        };
        let last = revived
            .iter()
            .filter_map(|one| one.appended)
            .max_by_key(|a| a.end);
        if !self.holds(last.as_ref()).await {
            return None;
        }
        let now = now_ms();
        let any = revived.iter().any(|one| one.done || one.appended.is_some());
        for one in revived.into_iter().filter(|one| !one.done) {
            pending.put_back(one.offset, one.held, now);
        }
        Some(any)
    }

    /// Puts back the messages of one checkpoint. Blocks on the disk.
    fn revive(self: &Arc<Self>, offset: i64, mut held: HeldCheckpoint, queue_id: i32) -> Revived {
        let mut appended = None;
        let mut done = true;
        let ck = &mut held.ck;
        let normal = normal_topic(&ck.topic, &ck.group);
        let gone = !self.topics.contains(normal)
            || !self.topics.contains(&ck.topic)
            || self.groups.find(&ck.group, &self.config()).is_none();
        if gone {
            let left = (0..ck.len()).filter(|&n| !ck.is_done(n)).count() as i64;
            tracing::info!(topic = %ck.topic, group = %ck.group, messages = left,
                "topic or group of a checkpoint is gone; its messages do not come back");
            self.forget(ck, left);
            return Revived {
                offset,
                held,
                done,
                appended,
            };
        }
        for n in 0..ck.len() {
            if ck.is_done(n) {
                continue;
            }
            let put = match self.original(&ck.topic, ck.queue_id, ck.offset_at(n)) {
                Original::Here(record) => self.come_back(ck, &record),
                Original::Gone => {
                    tracing::warn!(topic = %ck.topic, group = %ck.group, queue_id = ck.queue_id,
                        offset = ck.offset_at(n), "a message that should come back is gone");
                    self.forget(ck, 1);
                    Ok(None)
                }
                Original::Unreadable => self.try_later(ck, n, queue_id),
            };
            match put {
                Ok(put) => {
                    appended = put.or(appended);
                    ck.set_done(n);
                }
                Err(e) => {
                    done = false;
                    tracing::warn!(topic = %ck.topic, group = %ck.group, error = %e,
                        "a message cannot come back now; it will be tried again");
                }
            }
        }
        Revived {
            offset,
            held,
            done,
            appended,
        }
    }

    /// Notes messages that will not come back.
    fn forget(&self, ck: &Checkpoint, count: i64) {
        self.pop.lost.fetch_add(count.unsigned_abs(), Relaxed);
        self.back(ck, count);
    }

    /// Notes messages of a checkpoint that nobody holds any more.
    fn back(&self, ck: &Checkpoint, count: i64) {
        if ck.pop_time >= self.boot_ms {
            self.pop.landed(&ck.topic, &ck.group, ck.queue_id, count);
        }
    }

    /// The record that was handed out.
    fn original(&self, topic: &str, queue_id: i32, offset: i64) -> Original {
        let got = self.store.get(topic, queue_id, offset, 1, usize::MAX, &|_| true);
        match got.records.into_iter().next() {
            // The read may have passed over a damaged one.
            Some(record) => match MessageView::parse(&record) {
                Ok(view) if view.queue_offset() == offset || got.next_offset == offset + 1 => {
                    Original::Here(record)
                }
                _ => Original::Unreadable,
            },
            None if offset < got.min_offset => Original::Gone,
            // The queue was deleted and began anew.
            None if offset >= self.store.next_offset(topic, queue_id) => Original::Gone,
            None => Original::Unreadable,
        }
    }

    /// Puts a message into the retry topic, or among the dead letters.
    fn come_back(self: &Arc<Self>, ck: &Checkpoint, record: &[u8]) -> Result<Option<Appended>, PutError> {
        let Ok(view) = MessageView::parse(record) else {
            return Ok(None);
        };
        let config = self.config();
        let most = self
            .groups
            .find(&ck.group, &config)
            .map_or(16, |group| group.retry_max_times);
        let dead = view.reconsume_times() >= most;
        let topic = if dead {
            format!("{DLQ_PREFIX}{}", ck.group)
        } else if ck.topic.starts_with(RETRY_PREFIX) {
            ck.topic.clone()
        } else {
            let kind = if config.enable_retry_topic_v2 {
                Kind::RetryV2
            } else {
                Kind::RetryV1
            };
            kind.topic(&ck.topic, &ck.group)
        };
        let (_, new) = self.topics.create_for_group(&topic, 1, false, 0);
        if new {
            if !dead && self.offsets.committed(&ck.group, &topic, 0).is_none() {
                self.commit(&ck.group, &topic, 0, 0);
            }
            // Without its topic a message would be forgotten by the next start.
            if let Err(e) = self.topics.save() {
                tracing::error!(error = %e, "a retry topic is not saved; it will be tried again");
            }
            if let Some(made) = self.topics.get(&topic) {
                drop(self.register_topics(vec![made]));
            }
        }
        let mut message = put::again(&view);
        message.topic.clone_from(&topic);
        message.queue_id = 0;
        message.store_host = self.store_host;
        message.reconsume_times = view.reconsume_times().saturating_add(1);
        let has = |name| view.properties().get(name).is_some();
        if view.reconsume_times() == 0 || !has(names::FIRST_POP_TIME) {
            note(
                &mut message.properties,
                names::FIRST_POP_TIME,
                &ck.pop_time.to_string(),
            );
        }
        if dead {
            tracing::info!(topic = %ck.topic, group = %ck.group, offset = view.queue_offset(),
                times = view.reconsume_times(), "a message that was never acknowledged becomes a dead letter");
            if !has(names::RETRY_TOPIC) {
                let normal = normal_topic(&ck.topic, &ck.group);
                note(&mut message.properties, names::RETRY_TOPIC, normal);
            }
            if !has(names::ORIGIN_MESSAGE_ID) {
                note(
                    &mut message.properties,
                    names::ORIGIN_MESSAGE_ID,
                    &view.offset_id(),
                );
            }
        }
        let started = Instant::now();
        let put = match self.place(&message) {
            Ok(placed) => self.store.append_again(&placed),
            // A time that it cannot have: it comes back at once.
            Err(_) => self.store.append_again(&message),
        };
        let put = put.map_err(PutError::from);
        match put {
            Ok(appended) => {
                let system = self.topics.is_system(&topic) || is_system_group(&ck.group);
                let bytes = appended.end - appended.offset;
                self.stats.put(&topic, system, 1, bytes, started.elapsed());
                self.back(ck, 1);
                Ok(Some(appended))
            }
            Err(PutError::Append(AppendError::Illegal(why))) => {
                // Another try would end the same way.
                tracing::error!(%topic, group = %ck.group, %why, "a message cannot come back");
                self.forget(ck, 1);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Leaves one message that cannot be read now to a checkpoint of its own, due later.
    fn try_later(&self, ck: &Checkpoint, n: usize, queue_id: i32) -> Result<Option<Appended>, PutError> {
        let tried = ck
            .put_again
            .as_deref()
            .map_or(0, |n| n.parse::<usize>().unwrap_or(127));
        let offset = ck.offset_at(n);
        if tried >= UNREADABLE_S.len() && self.config().skip_when_ck_re_put_reach_max_times {
            tracing::error!(topic = %ck.topic, group = %ck.group, queue_id = ck.queue_id, offset, tried,
                "a message that cannot be read is given up");
            self.forget(ck, 1);
            return Ok(None);
        }
        let pause_s = UNREADABLE_S[tried.min(UNREADABLE_S.len() - 1)];
        tracing::warn!(topic = %ck.topic, group = %ck.group, queue_id = ck.queue_id, offset, tried, pause_s,
            "a message that should come back cannot be read now");
        let mut later = Checkpoint {
            done: 0,
            diffs: vec![0],
            count: 1,
            start_offset: offset,
            // From now on, whatever time has passed since it was popped.
            invisible_time: now_ms()
                .saturating_sub(ck.pop_time)
                .max(0)
                .saturating_add(pause_s * 1000),
            put_again: Some(tried.saturating_add(1).to_string()),
            ..ck.clone()
        };
        later.revive_time = later.due_ms();
        self.put_for_revive(&self.checkpoint_message(&later, queue_id, None))
            .map(Some)
    }
}

/// Adds to the properties of a message what it can do without.
fn note(text: &mut String, name: &str, value: &str) {
    properties::note(text, name, value, MAX_PROPERTIES);
}

/// What became of a message that was handed out.
enum Original {
    Here(bytes::Bytes),
    /// It is not in the store any more.
    Gone,
    /// It may be read another time.
    Unreadable,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(start: i64, count: i32, pop_time: i64) -> Checkpoint {
        Checkpoint {
            group: "g".into(),
            topic: "t".into(),
            start_offset: start,
            count,
            diffs: (0..count).collect(),
            pop_time,
            invisible_time: 1000,
            ..Checkpoint::default()
        }
    }

    fn ack(start: i64, offset: i64, pop_time: i64) -> Ack {
        Ack {
            offset,
            group: "g".into(),
            topic: "t".into(),
            start_offset: start,
            pop_time,
            ..Ack::default()
        }
    }

    #[test]
    fn a_checkpoint_leaves_when_all_is_acknowledged_or_its_time_is_over() {
        let mut pending = Pending::default();
        pending.add(0, checkpoint(10, 2, 100), "b");
        pending.add(1, checkpoint(20, 1, 100), "b");
        pending.acknowledge(&ack(10, 11, 100), "b");
        pending.acknowledge(&ack(10, 99, 100), "b");
        pending.acknowledge(&ack(10, 10, 101), "b");
        assert_eq!(pending.by_offset.len(), 2, "one message of the first is left");
        pending.acknowledge(&ack(20, 20, 100), "b");
        assert_eq!(pending.by_offset.keys().copied().collect::<Vec<_>>(), [0]);
        let due = 100 + 1000 + GRACE_MS;
        assert!(pending.take_due(due - 1).is_empty());
        let taken = pending.take_due(due);
        assert_eq!(taken.len(), 1);
        assert!(taken[0].1.ck.is_done(1) && !taken[0].1.ck.is_done(0));
        assert!(pending.by_key.is_empty() && pending.due.is_empty());
    }

    #[test]
    fn checkpoints_of_one_name_do_not_replace_each_other() {
        let mut pending = Pending::default();
        pending.add(0, checkpoint(10, 2, 100), "b");
        pending.add(5, checkpoint(10, 1, 100), "b");
        pending.acknowledge(&ack(10, 10, 100), "b");
        assert_eq!(pending.by_offset.keys().copied().collect::<Vec<_>>(), [0]);
        let several = Ack {
            offset: -1,
            offsets: Some(vec![10, 11]),
            ..ack(10, 0, 100)
        };
        pending.acknowledge(&several, "b");
        assert!(pending.by_offset.is_empty());
    }

    #[test]
    fn times_are_not_relied_on_until_the_timer_has_caught_up_and_that_is_read() {
        let look = |seen, end, delivered_ms| TimerLook {
            seen,
            end,
            delivered_ms,
            now_ms: 10_000,
        };
        let mut order = Order::default();
        // Messages of an earlier run are left in the timer's topic.
        order.look(&look(3, 5, 10_000), || 7);
        assert_eq!(order.disordered_to, 7);
        order.look(&look(4, 6, 10_000), || 8);
        assert_eq!(order.disordered_to, 8);
        // All of them taken: what came until now may be disordered, what comes is not.
        assert!(!order.reads_in_order(8));
        order.look(&look(5, 6, 10_000), || 9);
        assert_eq!(order.disordered_to, 9);
        assert!(order.reads_in_order(9) && !order.reads_in_order(8));
        order.look(&look(5, 9, 10_000), || 20);
        assert_eq!(order.disordered_to, 9, "a little behind is no disorder");
        // A slot that should long have been delivered.
        order.look(&look(9, 9, 8999), || 30);
        assert_eq!(order.disordered_to, 30);
        order.look(&look(9, 9, 9000), || 31);
        order.look(&look(9, 9, 9000), || 32);
        assert_eq!(order.disordered_to, 31);
    }

    #[test]
    fn a_failed_one_waits_longer_each_time() {
        let mut pending = Pending::default();
        pending.add(7, checkpoint(10, 1, 0), "b");
        let mut now = 10_000;
        for pause in [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000] {
            let mut taken = pending.take_due(now);
            let (offset, held) = taken.pop().unwrap();
            pending.put_back(offset, held, now);
            assert!(pending.take_due(now + pause - 1).is_empty());
            now += pause;
        }
    }
}
