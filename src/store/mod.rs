//! The message store: commit log, consume queues, index, checkpoint and small tables in Java's own formats.

use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::protocol::message::{BLANK_LEN, Measured, NewMessage};
use crate::protocol::model::SysFlag;
use disk::io_error;
use health::Block;
use segments::LogBytes;
use shared::Shared;
use stopped::{Stopped, StoppedIndex, StoppedQueue};

mod ahead;
mod answer;
mod batch_queues;
mod build;
mod clean;
mod commit_log;
pub mod config;
mod consume_queue;
pub mod cursor;
mod deleted;
mod disk;
pub mod error;
mod filter;
mod flush;
pub mod format;
mod health;
mod index;
mod load;
mod lock;
mod queues;
mod read;
pub mod reader;
pub mod rebuild;
mod recover;
mod replay;
mod salvage;
pub mod segments;
mod shared;
mod stopped;
pub mod tables;
pub mod timer;
mod wake;
mod warm;

pub use answer::{
    AppendError, Appended, Boundary, Durability, Entries, GetStatus, Got, Queried, QueueEntry, StoreFigures,
};
pub use build::LIGHT_QUEUE_PREFIX;
pub use clean::Lost;
pub use config::{FlushDiskType, StoreConfig};
pub use error::Error;
pub use filter::MessageFilter;
pub use segments::touch;

/// Bytes that a record may be longer than the longest body, as in Java.
const RECORD_OVERHEAD: usize = 64 * 1024;
/// How long a clean stop waits for queues and index to catch up with the log.
const CATCH_UP: Duration = Duration::from_secs(30);
/// How long it waits when they cannot be written, on a full disk for one.
const STUCK: Duration = Duration::from_millis(1500);

/// An open store directory. Owned by one process at a time.
///
/// Dropped without [`Self::close`] it stops like a killed process: what was appended stays in the page cache, and the
/// next start recovers.
#[derive(Debug)]
pub struct MessageStore {
    shared: Arc<Shared>,
    /// Empty after the stop.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl MessageStore {
    /// Locks the directory, loads and recovers it, starts the background threads.
    pub fn open(config: StoreConfig) -> Result<Arc<Self>, Error> {
        let shared = Arc::new(recover::open(config)?);
        clean::check_disk(&shared);
        let ahead = Arc::clone(shared.log.ahead());
        let bodies: [(&str, Body); 5] = [
            ("rmq-ahead", Box::new(move || ahead.run())),
            ("rmq-build", body(&shared, build::run)),
            ("rmq-flush", body(&shared, flush::run)),
            ("rmq-flush-queue", body(&shared, flush::run_queues)),
            ("rmq-clean", body(&shared, clean::run)),
        ];
        let store = Arc::new(Self {
            threads: Mutex::default(),
            shared,
        });
        for (name, body) in bodies {
            let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
            let thread = thread.map_err(io_error(
                "start a thread for",
                &store.config().store_path_root_dir,
            ))?;
            store.threads().push(thread);
        }
        Ok(store)
    }

    fn threads(&self) -> std::sync::MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The configuration it runs with.
    pub fn config(&self) -> Arc<StoreConfig> {
        self.shared.config.load_full()
    }

    /// Changes the keys that may change at run time (`flushDiskType`, `fileReservedTime`, ratios, transfer limits…).
    /// The broker hands over the whole new struct; directories and file sizes stay as they were at the start.
    pub fn reconfigure(&self, config: StoreConfig) {
        let old = self.config();
        self.shared.reconfigure(StoreConfig {
            store_path_root_dir: old.store_path_root_dir.clone(),
            store_path_commit_log: old.store_path_commit_log.clone(),
            mapped_file_size_commit_log: old.mapped_file_size_commit_log,
            mapped_file_size_consume_queue: old.mapped_file_size_consume_queue,
            max_hash_slot_num: old.max_hash_slot_num,
            max_index_num: old.max_index_num,
            ..config
        });
    }

    /// Appends one record. Does not block on the disk.
    pub fn append(&self, message: &NewMessage) -> Result<Appended, AppendError> {
        let most = self.shared.config.load().max_message_size;
        let measured = measure(message, most)?;
        self.append_run(std::slice::from_ref(message), &[measured], |_| ())
    }

    /// Appends a message that is in the store already, at another place: it was accepted once, so `maxMessageSize` may
    /// have become smaller since.
    pub fn append_again(&self, message: &NewMessage) -> Result<Appended, AppendError> {
        let measured = measure(message, usize::MAX)?;
        self.append_run(std::slice::from_ref(message), &[measured], |_| ())
    }

    /// Appends several records of one topic and queue as one piece: all or none, consecutive offsets. The second
    /// value is the physical offset of each record.
    pub fn append_batch(&self, messages: &[NewMessage]) -> Result<(Appended, Vec<i64>), AppendError> {
        let Some(first) = messages.first() else {
            return Err(AppendError::Illegal("empty batch".into()));
        };
        let mut measured = Vec::with_capacity(messages.len());
        let most = self.shared.config.load().max_message_size;
        for message in messages {
            if message.topic != first.topic || message.queue_id != first.queue_id {
                return Err(AppendError::Illegal("a batch has one topic and queue".into()));
            }
            measured.push(measure(message, most)?);
        }
        let mut offsets = Vec::with_capacity(messages.len());
        let appended = self.append_run(messages, &measured, |at| offsets.push(at))?;
        Ok((appended, offsets))
    }

    fn append_run(
        &self,
        messages: &[NewMessage],
        measured: &[Measured],
        at: impl FnMut(i64),
    ) -> Result<Appended, AppendError> {
        let shared = &*self.shared;
        if let Some(reason) = shared.health.reason() {
            return Err(AppendError::NotWritable(reason));
        }
        if shared.is_busy() {
            return Err(AppendError::Busy);
        }
        let total: usize = measured.iter().map(|m| m.len).sum();
        let segment = shared.log.segment_size();
        // Java fills a whole segment with such a record and answers that it is stored.
        if (total + BLANK_LEN) as u64 > segment {
            return Err(AppendError::Illegal(format!(
                "{total} bytes do not fit a commit log segment of {segment}"
            )));
        }
        let has_offset = |message: &NewMessage| {
            let transaction = message.sys_flag.transaction();
            transaction != SysFlag::TRANSACTION_PREPARED && transaction != SysFlag::TRANSACTION_ROLLBACK
        };
        let queue = messages
            .first()
            .filter(|first| has_offset(first))
            .map(|first| shared.queues.find_or_make(&first.topic, first.queue_id));
        let place = queue.as_ref().map(|queue| queue.place());
        let appended = shared.log.append(place, messages, measured, at)?;
        shared.appended();
        Ok(appended)
    }

    /// Waits until what was appended holds: at once under ASYNC_FLUSH or when `wait` is false.
    pub fn durable(
        &self,
        appended: &Appended,
        wait: bool,
    ) -> impl Future<Output = Durability> + Send + 'static {
        let end = u64::try_from(appended.end).unwrap_or(0);
        let follow = (wait && self.shared.is_sync()).then(|| {
            let limit = Duration::from_millis(self.shared.config.load().sync_flush_timeout);
            (self.shared.flush.follow(), limit)
        });
        async move {
            let Some((mut flushed, limit)) = follow else {
                return Durability::Done;
            };
            let held = flushed.wait_for(|state| state.failed || state.to >= end);
            match tokio::time::timeout(limit, held).await {
                Ok(Ok(state)) if state.to >= end => Durability::Done,
                Ok(_) => Durability::FlushFailed,
                Err(_) => Durability::FlushTimeout,
            }
        }
    }

    /// Reads up to `max_count` records whose tag code passes `filter`, within the byte limits of the configuration
    /// (and `max_bytes`). Never creates a queue.
    pub fn get(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn Fn(i64) -> bool,
    ) -> Got {
        self.get_filtered(
            topic,
            queue_id,
            offset,
            max_count,
            max_bytes,
            &filter::ByCode(filter),
        )
    }

    /// As [`Self::get`], for a filter that may want to see the records.
    pub fn get_filtered(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Got {
        self.shared
            .get(topic, queue_id, offset, max_count, max_bytes, filter)
    }

    /// Up to `most` entries of a queue from `from` on, those that point nowhere left out. Never creates a queue.
    pub fn entries(&self, topic: &str, queue_id: i32, from: i64, most: usize) -> Entries {
        self.shared.entries(topic, queue_id, from, most)
    }

    /// [`Self::get_filtered`] without ever waiting for the disk: `None` when it would have to. What it asks the system
    /// may be outdated right after, rarely.
    pub fn get_in_memory(
        &self,
        topic: &str,
        queue_id: i32,
        offset: i64,
        max_count: usize,
        max_bytes: usize,
        filter: &dyn MessageFilter,
    ) -> Option<Got> {
        self.shared
            .get_in_memory(topic, queue_id, offset, max_count, max_bytes, filter)
    }

    /// Smallest queue offset, 0 for an unknown queue.
    pub fn min_offset(&self, topic: &str, queue_id: i32) -> i64 {
        if let Some(batches) = self.shared.batches.find(topic, queue_id) {
            return batches.min();
        }
        self.shared
            .queues
            .find(topic, queue_id)
            .map_or(0, |queue| queue.min())
    }

    /// Offset behind the last entry that consumers may see, 0 for an unknown queue.
    pub fn max_offset(&self, topic: &str, queue_id: i32) -> i64 {
        if let Some(batches) = self.shared.batches.find(topic, queue_id) {
            return batches.max();
        }
        self.shared
            .queues
            .find(topic, queue_id)
            .map_or(0, |queue| queue.max())
    }

    /// The queue offset the next append will get.
    pub fn next_offset(&self, topic: &str, queue_id: i32) -> i64 {
        if let Some(batches) = self.shared.batches.find(topic, queue_id) {
            return batches.max();
        }
        self.shared
            .queues
            .find(topic, queue_id)
            .map_or(0, |queue| queue.next.load(std::sync::atomic::Ordering::Relaxed))
    }

    /// Follows the queue's max offset: how a held pull is woken. The channel belongs to the queue and is made for
    /// any legal (topic, queue) without creating files.
    pub fn bell(&self, topic: &str, queue_id: i32) -> tokio::sync::watch::Receiver<i64> {
        self.shared.queues.find_or_make(topic, queue_id).bell()
    }

    /// Queue offset by store time (ms), clamped to [min, max].
    pub fn offset_by_time(&self, topic: &str, queue_id: i32, time_ms: i64, boundary: Boundary) -> i64 {
        self.shared.offset_by_time(topic, queue_id, time_ms, boundary)
    }

    /// Store time (ms) of an entry, -1 when there is none.
    pub fn store_time(&self, topic: &str, queue_id: i32, offset: i64) -> i64 {
        self.shared.store_time(topic, queue_id, offset)
    }

    /// True when the entry's record lies in the newest `accessMessageInMemoryMaxRatio` % of RAM of the log.
    pub fn in_memory(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        self.shared.in_memory(topic, queue_id, offset)
    }

    /// True when a record at this physical offset lies behind the newest `accessMessageInMemoryHotRatio` % of RAM of
    /// the log.
    pub fn is_cold(&self, physical_offset: i64) -> bool {
        self.shared.is_cold(physical_offset)
    }

    /// [`Self::is_cold`] for the record of a queue's entry; false when there is no such entry.
    pub fn is_cold_entry(&self, topic: &str, queue_id: i32, offset: i64) -> bool {
        self.shared.is_cold_entry(topic, queue_id, offset)
    }

    /// The whole record at a physical offset; `None` when there is none, or a damaged one.
    pub fn record_at(&self, offset: i64) -> Option<Bytes> {
        self.shared.log.sound_record(offset)
    }

    /// True when [`Self::record_at`] and a look at all of the record wait for no disk.
    pub fn record_in_memory(&self, offset: i64) -> bool {
        self.shared.is_in_memory(offset)
    }

    /// Physical offset behind the last record.
    pub fn log_end(&self) -> i64 {
        i64::try_from(self.shared.log.segments().end()).unwrap_or(i64::MAX)
    }

    /// Records whose keys hash like `key`, within store times `begin..=end` (ms).
    pub fn query(&self, topic: &str, key: &str, max: usize, begin: i64, end: i64) -> Queried {
        self.shared.query(topic, key, max, begin, end)
    }

    /// Removes the queues of a topic, files and all.
    pub fn delete_topic(&self, topic: &str) -> Result<(), Error> {
        let shared = &*self.shared;
        // No append lies between the end that is noted and the last one that its queues take.
        shared.log.at_rest(|end| {
            shared.deleted.note(topic, end as i64);
            shared.queues.retire(topic);
        });
        let saved = shared.deleted.save();
        let batches = shared.batches.delete(topic);
        shared.queues.delete(topic).and(batches).and(saved)
    }

    /// True when this start did not follow a clean stop of ours: the end of the log may have been lost or cut off.
    pub fn was_recovered(&self) -> bool {
        self.shared.recovered
    }

    /// Calls `told` with what the queues lose when files are deleted before their time, since the disk is full. Once
    /// for a store.
    pub fn on_loss(&self, told: impl Fn(&[Lost]) + Send + Sync + 'static) {
        self.shared.on_loss(Box::new(told));
    }

    /// Topics that have queues.
    pub fn topics(&self) -> Vec<String> {
        self.shared.queues.topics()
    }

    /// Deletes queue and index files that lie behind the start of the log. Blocks on the disk.
    pub fn clean_expired_queues(&self) -> Result<(), Error> {
        clean::follow(&self.shared, self.shared.log.segments().start()).map(drop)
    }

    /// Lets the cleaner delete expired segments of the log in its next rounds, whatever the hour (Java's
    /// `executeDeleteFilesManually`).
    pub fn delete_expired_soon(&self) {
        self.shared
            .manual_rounds
            .store(clean::MANUAL_ROUNDS, std::sync::atomic::Ordering::Relaxed);
    }

    /// Figures for the runtime info.
    pub fn figures(&self) -> StoreFigures {
        self.shared.figures()
    }

    /// Where a small table of the broker lives: `<root>/config/<name>`.
    pub fn table_path(&self, name: &str) -> PathBuf {
        self.config().store_path_root_dir.join("config").join(name)
    }

    /// Flushes everything, stops the threads, removes `abort`, releases the lock. Idempotent.
    pub fn close(&self) -> Result<(), Error> {
        let shared = &*self.shared;
        let first = shared.health.block(Block::Closed, "the store is closed".into());
        if !first {
            return Ok(());
        }
        let until = Instant::now() + CATCH_UP;
        let is_behind = || {
            let hidden = shared.is_sync() && shared.flush.flushed().failed;
            shared.build.at() < shared.log.segments().end() && !hidden
        };
        let stuck = Instant::now() + STUCK;
        let hopeless = || shared.health.has(Block::BuildFailed) && Instant::now() > stuck;
        while is_behind() && Instant::now() < until && !hopeless() {
            shared.appended();
            thread::sleep(Duration::from_millis(1));
        }
        self.stop_threads();
        let stopped = self.settle(!is_behind());
        shared.lock.lock().unwrap_or_else(PoisonError::into_inner).take();
        stopped
    }

    /// Writes back everything; the crash marker goes only if all of it worked and nothing is missing.
    fn settle(&self, caught_up: bool) -> Result<(), Error> {
        let shared = &*self.shared;
        let root = self.config().store_path_root_dir.clone();
        let failed = |reason: &str| Error::Io {
            what: "stop cleanly",
            path: root.clone(),
            source: std::io::Error::other(reason.to_owned()),
        };
        if !flush::flush_log(shared) || shared.health.has(Block::FlushFailed) {
            return Err(failed("a flush failed; the next start recovers"));
        }
        shared.full_index_files(shared.index.files().into_iter().filter(|file| file.is_full()));
        shared.index.flush()?;
        flush::flush_queues(shared, 1, true)?;
        shared.log.ahead().discard()?;
        if !caught_up {
            return Err(failed("queues are behind the log; the next start recovers"));
        }
        self.stopped().save(&root)?;
        recover::remove_abort(&root)
    }

    /// What the next start compares with.
    fn stopped(&self) -> Stopped {
        let shared = &*self.shared;
        let (end, last) = shared.log.last();
        let queue = |queue: &consume_queue::ConsumeQueue| StoppedQueue {
            first: queue.first().unwrap_or(queue.max()),
            min: queue.min(),
            max: queue.max(),
            max_physic: queue.max_physic(),
        };
        let all = shared.queues.all();
        let given = all.iter().filter(|queue| queue.next() > queue.max());
        let queues = all.iter().filter(|queue| queue.max() > 0);
        let index = shared.index.files().into_iter().map(|file| StoppedIndex {
            number: file.number(),
            count: file.header().count,
            end_offset: file.header().end_offset,
        });
        Stopped {
            start: shared.log.segments().start(),
            end,
            last,
            queues: queues.map(|q| (q.name().clone(), queue(q))).collect(),
            given: given.map(|q| (q.name().clone(), q.next())).collect(),
            index: index.collect(),
        }
    }

    fn stop_threads(&self) {
        self.shared.stop_threads();
        let threads = std::mem::take(&mut *self.threads());
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store panicked");
            }
        }
    }
}

/// What a thread of the store runs.
type Body = Box<dyn FnOnce() + Send>;

fn body(shared: &Arc<Shared>, run: fn(&Shared)) -> Body {
    let shared = Arc::clone(shared);
    Box::new(move || run(&shared))
}

impl Drop for MessageStore {
    fn drop(&mut self) {
        self.stop_threads();
    }
}

/// Checks a message against the limits, `most` bytes of body among them; all of it that need not happen under the lock.
fn measure(message: &NewMessage, most: usize) -> Result<Measured, AppendError> {
    if message.body.len() > most {
        let len = message.body.len();
        return Err(AppendError::Illegal(format!(
            "message body size {len} over limit {most} (maxMessageSize)"
        )));
    }
    if !build::is_file_name(&message.topic) || message.queue_id < 0 {
        let (topic, queue_id) = (&message.topic, message.queue_id);
        return Err(AppendError::Illegal(format!(
            "no queue can be {topic:?}@{queue_id}"
        )));
    }
    let measured = message
        .measure()
        .map_err(|e| AppendError::Illegal(e.to_string()))?;
    if measured.len > most.saturating_add(RECORD_OVERHEAD) {
        let len = measured.len;
        return Err(AppendError::Illegal(format!(
            "message of {len} bytes is too long"
        )));
    }
    Ok(measured)
}

#[cfg(test)]
mod tests;
