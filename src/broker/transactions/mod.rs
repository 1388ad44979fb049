//! Transactions: half messages wait in [`TRANS_HALF`] until their producer commits them or rolls them back (37), and
//! are asked about (39) when it says nothing. Ended ones are marked in [`TRANS_OP_HALF`], both in Java's format.
//!
//! ```text
//! send --> half queue --commit--> real topic          mark: op queue, tag `d`, body `17,18,21,`
//!              |  \----rollback-> nothing                   (queue offsets of half messages)
//!              due: ask a producer, append again with one check more; after the last: TRANS_CHECK_MAX_TIME_TOPIC
//! ```

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};

use super::config::BrokerConfig;
use super::put::again;
use super::topics::{TRANS_HALF, TRANS_OP_HALF};
use super::{Broker, now_ms};
use crate::protocol::message::{MessageView, NewMessage};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{self, Properties, names};
use crate::store::{AppendError, Appended, MessageStore};
use halves::{Half, Halves};

mod check;
mod end;
mod halves;
mod marks;

pub use end::{end, resume};

/// Whose offsets say how far the books of both queues are done.
const GROUP: &str = "CID_RMQ_SYS_TRANS";
/// The only queue of both topics that is written, as in Java.
const QUEUE: i32 = 0;
/// Most records that the start reads in one go.
const READ_AT_ONCE: usize = 256;

/// What the broker knows of open transactions.
#[derive(Debug)]
pub struct Transactions {
    /// Held for map operations, and while a half message is appended, so that none is stored without being known.
    /// The store's append lock may be taken inside.
    halves: Mutex<Halves>,
    /// Set when an earlier half message is due than the checker sleeps for, or one should be moved up.
    due: Notify,
    /// Set when marks wait, and again when there are many.
    marks: Notify,
    /// True once the half messages that the store holds are known.
    loaded: watch::Sender<bool>,
    /// Ends of the half and the op queue when the store was opened: what lies before them has to be read.
    ends: (i64, i64),
    /// Whose turn it is among the producers of a group.
    turn: AtomicUsize,
}

impl Transactions {
    /// Of a store that was just opened, before anything is appended.
    pub fn new(store: &MessageStore) -> Self {
        Self {
            halves: Mutex::default(),
            due: Notify::new(),
            marks: Notify::new(),
            loaded: watch::Sender::new(false),
            ends: (
                store.next_offset(TRANS_HALF, QUEUE),
                store.next_offset(TRANS_OP_HALF, QUEUE),
            ),
            turn: AtomicUsize::new(0),
        }
    }

    fn halves(&self) -> MutexGuard<'_, Halves> {
        self.halves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many half messages are open.
    pub fn open(&self) -> usize {
        self.halves().len()
    }

    /// Resolves when the half messages that the store holds are known.
    async fn loaded(&self) {
        // The sender lives as long as self.
        let _ = self.loaded.subscribe().wait_for(|loaded| *loaded).await;
    }
}

/// How long a half message is left alone before the first check: its own time, or `transactionTimeOut`.
fn immunity(properties: Properties<'_>, config: &BrokerConfig) -> Option<Duration> {
    let own = properties.get(names::CHECK_IMMUNITY_TIME_IN_SECONDS)?.trim();
    let seconds = own.parse::<u64>().ok().filter(|seconds| *seconds > 0);
    Some(seconds.map_or(config.transaction_timeout(), Duration::from_secs))
}

/// What a client's message becomes while its transaction is open. Books that a client wrote itself are dropped.
pub(super) fn half_of(message: NewMessage, unique_key: &str) -> NewMessage {
    let mut text = message.properties;
    for name in [
        names::TRANSACTION_CHECK_TIMES,
        names::TRAN_PREPARED_QUEUE_OFFSET,
        names::TRANSACTION_ID,
        names::REAL_TOPIC,
        names::REAL_QID,
    ] {
        properties::remove(&mut text, name);
    }
    properties::append(&mut text, names::TRANSACTION_ID, unique_key);
    properties::append(&mut text, names::REAL_TOPIC, &message.topic);
    properties::append(&mut text, names::REAL_QID, &message.queue_id.to_string());
    NewMessage {
        topic: TRANS_HALF.to_owned(),
        queue_id: QUEUE,
        sys_flag: SysFlag(message.sys_flag.0 & !SysFlag::TRANSACTION_MASK),
        properties: text,
        ..message
    }
}

/// A half message to store once more: with another count of checks, unless it stays, and with the offset of its first
/// record, unless this becomes the first.
fn next_record(half: &MessageView<'_>, checks: Option<u32>, first: Option<i64>) -> NewMessage {
    let mut next = again(half);
    let text = &mut next.properties;
    properties::remove(text, names::TRAN_PREPARED_QUEUE_OFFSET);
    if let Some(checks) = checks {
        properties::remove(text, names::TRANSACTION_CHECK_TIMES);
        properties::append(text, names::TRANSACTION_CHECK_TIMES, &checks.to_string());
    }
    if let Some(first) = first {
        properties::append(text, names::TRAN_PREPARED_QUEUE_OFFSET, &first.to_string());
    }
    next
}

/// A stored half message with what its properties say.
struct HalfRecord<'a> {
    view: MessageView<'a>,
    first: i64,
    group: &'a str,
    checks: u32,
    real_topic: &'a str,
    real_queue: i32,
}

impl<'a> HalfRecord<'a> {
    /// `None` when the record is of another topic or lacks what every half message has.
    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let view = MessageView::parse(bytes).ok()?;
        if view.topic() != TRANS_HALF {
            return None;
        }
        Self::of(view)
    }

    fn of(view: MessageView<'a>) -> Option<Self> {
        let properties = view.properties();
        let number = |name| properties.get(name)?.trim().parse::<i64>().ok();
        let at = view.queue_offset();
        Some(Self {
            first: number(names::TRAN_PREPARED_QUEUE_OFFSET)
                .filter(|first| (0..=at).contains(first))
                .unwrap_or(at),
            group: properties.get(names::PGROUP)?,
            checks: number(names::TRANSACTION_CHECK_TIMES)
                .and_then(|n| u32::try_from(n).ok())
                .unwrap_or(0),
            real_topic: properties.get(names::REAL_TOPIC)?,
            real_queue: properties
                .get(names::REAL_QID)?
                .trim()
                .parse()
                .ok()
                .filter(|q| *q >= 0)?,
            view,
        })
    }
}

impl Broker {
    /// Stores a half message as [`half_of`] made it, and knows it from then on.
    pub(super) fn put_half(&self, message: &NewMessage) -> Result<Appended, AppendError> {
        let config = self.config();
        let properties = Properties::from(message.properties.as_str());
        let due = Instant::now() + self.first_check(properties, &config);
        let mut halves = self.transactions.halves();
        let appended = self.store.append(message)?;
        let half = Half {
            first: appended.queue_offset,
            log_offset: appended.offset,
            group: halves.group(properties.get(names::PGROUP).unwrap_or_default()),
            since_ms: now_ms(),
            checks: 0,
            due,
            ending: false,
        };
        if halves.add(appended.queue_offset, half) {
            self.transactions.due.notify_one();
        }
        Ok(appended)
    }

    /// Time until a new half message is looked at: never later than when it is too old to be asked about.
    fn first_check(&self, properties: Properties<'_>, config: &BrokerConfig) -> Duration {
        immunity(properties, config)
            .unwrap_or(config.transaction_timeout())
            .min(self.oldest_half())
    }

    /// Age at which a half message is given up, whatever its checks: its record is about to be deleted.
    fn oldest_half(&self) -> Duration {
        Duration::from_secs(self.store.config().file_reserved_time.saturating_mul(3600))
    }

    /// Reads the half messages that the store holds, then keeps the books until the broker stops.
    pub(super) async fn run_transactions(self: Arc<Self>) {
        let (half_end, op_end) = self.transactions.ends;
        for (topic, end) in [(TRANS_HALF, half_end), (TRANS_OP_HALF, op_end)] {
            // What a crash left behind in the log is put into the queues first.
            let mut bell = self.store.bell(topic, QUEUE);
            let caught_up = bell.wait_for(|max| *max >= end);
            if self.stopping.run_until_cancelled(caught_up).await.is_none() {
                return;
            }
        }
        let broker = self.clone();
        let read = tokio::task::spawn_blocking(move || broker.load_halves(half_end, op_end));
        if let Err(e) = read.await {
            tracing::error!(error = %e, "reading the half messages was aborted; transactions do not end");
            return;
        }
        self.transactions.loaded.send_replace(true);
        tokio::join!(self.clone().check_back(), self.write_marks());
    }

    /// Learns the open half messages before `half_end` from both queues.
    fn load_halves(&self, half_end: i64, op_end: i64) {
        let store = &self.store;
        let from = |topic, end: i64| {
            let min = store.min_offset(topic, QUEUE);
            // After a crash the table, which is flushed at once, may be ahead of the log.
            let saved = (!store.was_recovered())
                .then(|| self.offsets.committed(GROUP, topic, QUEUE))
                .flatten();
            saved.unwrap_or(min).clamp(min, end.max(min))
        };
        let (half_from, op_from) = (from(TRANS_HALF, half_end), from(TRANS_OP_HALF, op_end));
        let mut ended = HashSet::new();
        let mut ops = Vec::new();
        read_queue(store, TRANS_OP_HALF, op_from, op_end, |view| {
            let known: Vec<i64> = marks::read(&view)
                .filter(|offset| (half_from..half_end).contains(offset))
                .collect();
            ops.push((view.queue_offset(), known.iter().copied().max()));
            ended.extend(known);
        });
        let config = self.config();
        let (now, now_ms) = (Instant::now(), now_ms());
        let mut halves = self.transactions.halves();
        halves.start(half_end, op_end);
        for (at, largest) in ops {
            halves.op(at, largest);
        }
        drop(halves);
        read_queue(store, TRANS_HALF, half_from, half_end, |view| {
            if ended.contains(&view.queue_offset()) {
                return;
            }
            let Some(record) = HalfRecord::of(view) else {
                let offset = view.queue_offset();
                tracing::warn!(offset, "a record of the half queue is no half message, ignored");
                return;
            };
            let mut halves = self.transactions.halves();
            let half = Half {
                first: record.first,
                log_offset: view.physical_offset(),
                group: halves.group(record.group),
                since_ms: self.since(&record),
                checks: record.checks,
                due: now + self.due_after_start(&record, now_ms, &config),
                ending: false,
            };
            halves.add(view.queue_offset(), half);
        });
        let open = self.transactions.open();
        if open > 0 {
            tracing::info!(open, "half messages wait for their producers");
        }
    }

    /// When the first record of a half message was stored, as far as can be known: a record that was moved up tells
    /// its client's clock alone.
    fn since(&self, record: &HalfRecord<'_>) -> i64 {
        let (born, stored) = (record.view.born_timestamp(), record.view.store_timestamp());
        let oldest = i64::try_from(self.oldest_half().as_millis()).unwrap_or(i64::MAX);
        let moved = record.first != record.view.queue_offset();
        if moved && born <= stored && stored.saturating_sub(born) < oldest {
            born
        } else {
            stored
        }
    }

    /// How long after a start a half message is looked at first.
    fn due_after_start(&self, record: &HalfRecord<'_>, now_ms: i64, config: &BrokerConfig) -> Duration {
        let stored = record.view.store_timestamp();
        let (from, wait) = if record.checks > 0 {
            (stored, config.transaction_check_interval())
        } else {
            (
                self.since(record),
                self.first_check(record.view.properties(), config),
            )
        };
        let gone = u64::try_from(now_ms.saturating_sub(from)).unwrap_or(0);
        wait.saturating_sub(Duration::from_millis(gone))
    }

    /// Notes in the offset table how far both queues are done with.
    fn save_progress(&self, halves: &mut Halves) {
        let (half, op) = halves.progress();
        let step = self.config().consumer_offset_update_version_step;
        for (topic, offset) in [(TRANS_HALF, half), (TRANS_OP_HALF, op)] {
            let saved = self.offsets.committed(GROUP, topic, QUEUE);
            if saved.unwrap_or(0) != offset {
                self.offsets.commit(GROUP, topic, QUEUE, offset, step);
            }
        }
    }
}

/// Reads a queue from `from` up to `end`; what cannot be read is stepped over.
fn read_queue(store: &MessageStore, topic: &str, from: i64, end: i64, mut each: impl FnMut(MessageView<'_>)) {
    let mut at = from;
    while at < end {
        let got = store.get(topic, QUEUE, at, READ_AT_ONCE, usize::MAX, &|_| true);
        for record in &got.records {
            if let Ok(view) = MessageView::parse(record)
                && view.queue_offset() < end
            {
                each(view);
            }
        }
        if got.next_offset <= at {
            break;
        }
        at = got.next_offset;
    }
}
