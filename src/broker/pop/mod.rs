//! Pop consumers: messages are handed out for a while to whoever asks, acknowledged one by one, and come back through
//! the group's retry topic when they are not.
//!
//! ```text
//! pop  -> read, checkpoint appended (through the timer) to the revive topic, offset committed, answer
//! ack  -> acknowledgement appended the same way
//! revive: reads the revive topic; a checkpoint whose time is over puts what was not acknowledged into the retry topic
//! ```
//!
//! A checkpoint is stored before its messages are handed out, and an acknowledgement before it is answered; nothing
//! of either is kept in memory alone. Java's optional buffer (`enablePopBufferMerge`) has no counterpart.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use dashmap::DashMap;

use self::handle::Kind;
use self::order::{Order, OrderTable};
use self::polls::Polls;
use super::stats::Named;
use super::tables::{self, TableFile};
use super::{Broker, now_ms};
use crate::store::MessageStore;

mod ack;
mod assignment;
mod checkpoint;
mod handle;
mod invisible;
mod notification;
mod order;
mod peek;
mod polls;
mod recover;
mod request;
mod revive;
mod take;

pub use ack::{ack, batch_ack};
pub use assignment::{modes, query_assignment, set_mode};
pub use invisible::change_invisible_time;
pub use notification::{notification, polling_info};
pub use peek::peek;
pub use request::pop_message;

/// The group whose offsets tell how far the revive queues were read.
pub const REVIVE_GROUP: &str = "CID_RMQ_SYS_REVIVE_GROUP";

/// What a group holds of one queue.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// Held while the group pops from the queue, with what was handed out in order last. Nothing else is locked
    /// inside but the tables' own shards.
    order: Mutex<Option<Order>>,
    /// Messages handed out, not in order, and neither acknowledged nor come back.
    in_flight: AtomicI64,
}

impl Queue {
    /// The right to pop, unless somebody has it.
    fn try_lock(&self) -> Option<MutexGuard<'_, Option<Order>>> {
        match self.order.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Order>> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes messages that are done or came back.
    fn landed(&self, count: i64) {
        // Those of before the last start were not counted, so it never goes below zero.
        let _ = self
            .in_flight
            .fetch_update(Relaxed, Relaxed, |n| Some((n - count).max(0)));
    }
}

/// How many messages of a queue a group holds, for lag and limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// How many.
    pub count: i64,
    /// They begin at the committed offset; otherwise they lie before it.
    pub in_order: bool,
}

/// Everything about pop consumers.
#[derive(Debug)]
pub struct Pop {
    /// `topic@group` -> queue.
    queues: DashMap<String, DashMap<i32, Arc<Queue>>>,
    pops: Arc<Polls>,
    notifications: Arc<Polls>,
    modes: assignment::Modes,
    routes: assignment::Routes,
    orders_file: TableFile,
    /// Counts pops: for the revive queue, and for the dice.
    turn: AtomicU64,
    /// Messages that could not come back since they are gone.
    lost: AtomicU64,
}

impl Pop {
    /// Loads the tables beside the store.
    pub fn load(store: &MessageStore) -> Result<Self, tables::Error> {
        let orders_file = TableFile::new(store.table_path("consumerOrderInfo.json"));
        let queues: DashMap<String, DashMap<i32, Arc<Queue>>> = DashMap::new();
        if let Some(saved) = orders_file.load::<OrderTable>()? {
            for (key, entries) in saved.table {
                let loaded = queues.entry(key).or_default();
                for (queue_id, order) in entries {
                    let queue = Queue {
                        order: Mutex::new(Some(order)),
                        ..Queue::default()
                    };
                    loaded.insert(queue_id, Arc::new(queue));
                }
            }
        }
        Ok(Self {
            queues,
            pops: Arc::default(),
            notifications: Arc::default(),
            modes: assignment::Modes::load(store.table_path("messageRequestMode.json"))?,
            routes: assignment::Routes::default(),
            orders_file,
            turn: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        })
    }

    /// Messages that could not come back since they are gone, since the start.
    pub fn given_up(&self) -> u64 {
        self.lost.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// What a group holds of a queue.
    fn queue(&self, topic: &str, group: &str, queue_id: i32) -> Arc<Queue> {
        let key = key_of(topic, group);
        if let Some(queues) = self.queues.get(&key)
            && let Some(queue) = queues.get(&queue_id)
        {
            return queue.clone();
        }
        let queues = self.queues.entry(key).or_default();
        queues.entry(queue_id).or_default().clone()
    }

    fn find(&self, topic: &str, group: &str, queue_id: i32) -> Option<Arc<Queue>> {
        let queues = self.queues.get(&key_of(topic, group))?;
        queues.get(&queue_id).map(|queue| queue.clone())
    }

    /// Messages of a queue that a group's clients hold.
    pub fn in_flight(&self, topic: &str, group: &str, queue_id: i32) -> Option<InFlight> {
        let queue = self.find(topic, group, queue_id)?;
        let count = queue.in_flight.load(Relaxed);
        if count > 0 {
            return Some(InFlight {
                count,
                in_order: false,
            });
        }
        let held = queue.lock().as_ref().map(Order::in_flight);
        held.filter(|&count| count > 0).map(|count| InFlight {
            count,
            in_order: true,
        })
    }

    /// Notes messages of a pop after this broker's start that are done or came back.
    fn landed(&self, topic: &str, group: &str, queue_id: i32, count: i64) {
        if let Some(queue) = self.find(topic, group, queue_id) {
            queue.landed(count);
        }
    }

    /// A number below 100, evenly spread.
    fn dice(&self) -> u32 {
        // splitmix64
        let mut n = self
            .turn
            .load(Relaxed)
            .wrapping_add(1)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15);
        n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((n ^ (n >> 31)) % 100) as u32
    }

    /// Forgets a topic.
    pub fn remove_topic(&self, topic: &str) {
        let prefix = key_of(topic, "");
        self.queues.retain(|key, _| !key.starts_with(&prefix));
        self.orders_file.mark();
    }

    /// Forgets a group.
    pub fn remove_group(&self, group: &str) {
        self.queues
            .retain(|key, _| key.rsplit_once('@').is_none_or(|(_, of)| of != group));
        self.orders_file.mark();
    }

    /// Forgets what clients hold of a queue, as a reset of its offset does.
    pub fn reset(&self, topic: &str, group: &str, queue_id: i32) {
        if let Some(queue) = self.find(topic, group, queue_id) {
            queue.in_flight.store(0, Relaxed);
        }
    }

    /// True when a table is behind.
    pub fn is_behind(&self) -> bool {
        self.orders_file.is_marked() || self.modes.is_behind()
    }
}

fn key_of(topic: &str, group: &str) -> String {
    format!("{topic}@{group}")
}

impl Broker {
    /// The topic that checkpoints and acknowledgements are kept in.
    fn revive_topic(&self) -> String {
        format!("rmq_sys_REVIVE_LOG_{}", self.config().broker_cluster_name)
    }

    /// Counts acknowledged messages under Java's names.
    fn count_acks(&self, group: &str, topic: &str, count: i64) {
        let cluster = &self.config().broker_cluster_name;
        self.stats.count(Named::BrokerAckNums, cluster, count);
        self.stats
            .count(Named::GroupAckNums, &key_of(topic, group), count);
    }

    /// Counts a checkpoint under Java's names.
    fn count_checkpoint(&self, group: &str, topic: &str) {
        let cluster = &self.config().broker_cluster_name;
        self.stats.count(Named::BrokerCkNums, cluster, 1);
        self.stats.count(Named::GroupCkNums, &key_of(topic, group), 1);
    }

    /// How many revive queues there are.
    fn revive_queues(&self) -> i32 {
        self.topics
            .get(&self.revive_topic())
            .map_or(1, |topic| topic.read_queue_nums.max(1))
    }

    /// Retry topics that pops of a topic have left, of all groups, if they go with it.
    pub(super) fn pop_retry_topics(&self, topic: &str) -> Vec<String> {
        if !self.config().clear_retry_topic_when_delete_topic {
            return Vec::new();
        }
        let groups = self.offsets.groups_of(topic);
        groups
            .iter()
            .flat_map(|group| [Kind::RetryV2, Kind::RetryV1].map(|kind| kind.topic(topic, group)))
            .filter(|retry| self.topics.contains(retry))
            .collect()
    }

    /// Begins to read the revive queues.
    pub(super) fn start_revive(self: &Arc<Self>) {
        for queue_id in 0..self.revive_queues() {
            let broker = self.clone();
            self.tasks
                .spawn(async move { revive::run(broker, queue_id).await });
        }
    }

    /// Writes the tables that are behind. Blocks on the disk.
    pub(super) fn save_pop(&self) -> Result<(), tables::Error> {
        let saved = self.pop.orders_file.save_if_marked(|| self.orders());
        self.pop.modes.save().and(saved)
    }

    /// Writes the tables in any case, as a clean stop does.
    pub(super) fn save_pop_always(&self) -> Result<(), tables::Error> {
        self.pop.orders_file.mark();
        self.save_pop()
    }

    /// What ordered groups hold, without what nobody needs any more.
    fn orders(&self) -> OrderTable {
        let mut saved = OrderTable::default();
        let oldest = now_ms() - order::KEEP_MS;
        // Copied first, so that no shard is locked while a queue is waited for.
        let all: Vec<(String, i32, Arc<Queue>)> = self
            .pop
            .queues
            .iter()
            .flat_map(|entry| {
                let key = entry.key().clone();
                let of_key = |queue: dashmap::mapref::multiple::RefMulti<'_, i32, Arc<Queue>>| {
                    (key.clone(), *queue.key(), queue.value().clone())
                };
                entry.value().iter().map(of_key).collect::<Vec<_>>()
            })
            .collect();
        for (key, queue_id, queue) in all {
            let Some((topic, group)) = key.split_once('@') else {
                continue;
            };
            let mut held = queue.lock();
            let Some(order) = held.as_ref() else {
                continue;
            };
            let queues = self.topics.get(topic).map_or(0, |topic| topic.read_queue_nums);
            if queue_id >= queues || !self.groups.contains(group) || order.handed_out < oldest {
                *held = None;
                continue;
            }
            saved
                .table
                .entry(key.clone())
                .or_default()
                .insert(queue_id, order.clone());
        }
        saved
    }
}
