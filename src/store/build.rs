//! Follows the commit log and makes what is derived from it: consume queue entries, index items, and the ring of a
//! queue's bell. Recovery replays through the same code.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use super::Error;
use super::batch_queues::BatchQueues;
use super::consume_queue::{ConsumeQueue, Pushed};
use super::cursor::{Found, MessageCursor};
use super::deleted::DeletedTopics;
use super::format::batch_queue;
use super::format::consume_queue::Entry;
use super::health::Block;
use super::index::Index;
use super::queues::ConsumeQueues;
use super::segments::LogBytes;
use super::shared::Shared;
use super::wake::Waker;
use crate::protocol::message::MessageView;
use crate::protocol::model::{SCHEDULE_TOPIC, SysFlag, tags_code};
use crate::protocol::properties::names;

/// Names of light queues begin with this; they have one queue each and no configuration.
pub const LIGHT_QUEUE_PREFIX: &str = "%LMQ%";

/// Records between two rings of the bells.
const RUN: usize = 256;
/// While records keep coming the thread looks for more after this time, instead of being woken for each.
const LINGER: Duration = Duration::from_micros(200);
/// How often it looks in vain before it parks.
const LINGERS: u32 = 3;
/// Longest pause before a failed write is tried again, as in Java; the first ones are shorter, since what is
/// acknowledged is not seen by consumers meanwhile.
const RETRY: Duration = Duration::from_secs(1);
/// The first pause; each next one is twice as long.
const FIRST_RETRY: Duration = Duration::from_millis(20);
/// Pause before the index is tried again; meanwhile queues do not get their entries.
const INDEX_RETRY: Duration = Duration::from_millis(100);
/// Attempts before the index is given up, when its trouble is not a full disk.
const INDEX_ATTEMPTS: u32 = 3;

/// How far the building has come.
#[derive(Debug, Default)]
pub struct Build {
    /// Everything below is in queues and index.
    at: AtomicU64,
    /// Store time of the newest record there.
    timestamp: AtomicI64,
    /// Given up for this run.
    index_off: AtomicBool,
    pub(super) waker: Waker,
}

impl Build {
    /// Begins behind what recovery has replayed.
    pub fn new(at: u64, timestamp: i64) -> Self {
        Self {
            at: AtomicU64::new(at),
            timestamp: AtomicI64::new(timestamp),
            ..Self::default()
        }
    }

    /// Physical offset up to which everything is built.
    pub fn at(&self) -> u64 {
        self.at.load(Ordering::Acquire)
    }

    /// True when the index was given up for this run.
    pub fn is_index_off(&self) -> bool {
        self.index_off.load(Ordering::Relaxed)
    }

    /// Store time of the newest record that is built.
    pub fn timestamp(&self) -> i64 {
        self.timestamp.load(Ordering::Acquire)
    }
}

/// The properties that the building looks at.
#[derive(Debug, Default)]
pub struct Wanted<'a> {
    tags: Option<&'a str>,
    keys: Option<&'a str>,
    unique_key: Option<&'a str>,
    delay: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    /// Of a record.
    pub fn of(view: &MessageView<'a>) -> Self {
        const WANTED: [&str; 4] = [names::TAGS, names::KEYS, names::UNIQ_KEY, names::DELAY];
        let mut found = [None; 4];
        for (name, value) in view.properties().iter_bytes() {
            // The last one of a name wins.
            if let Some(n) = WANTED.iter().position(|wanted| wanted.as_bytes() == name) {
                found[n] = Some(value);
            }
        }
        let [tags, keys, unique_key, delay] =
            found.map(|value| value.and_then(|value| std::str::from_utf8(value).ok()));
        Self {
            tags,
            keys,
            unique_key,
            delay,
        }
    }

    /// The keys of the record, in the order in which Java indexes them.
    fn keys(&self) -> impl Iterator<Item = &'a str> {
        let words = self.keys.unwrap_or_default().split(' ');
        self.unique_key
            .into_iter()
            .chain(words.filter(|word| !word.is_empty()))
    }
}

/// Makes what is derived from a record.
#[derive(Debug)]
pub struct Dispatch<'a> {
    /// Where entries go.
    pub queues: &'a ConsumeQueues,
    /// Where entries of records that hold several messages go.
    pub batches: &'a BatchQueues,
    /// Whether records name light queues that they are in as well (Java's `enableMultiDispatch`).
    pub light_queues: bool,
    /// Where items go, if keys are indexed.
    pub index: Option<&'a Index>,
    /// Delay of each level, ms.
    pub delays: &'a [i64],
    /// Topics that were deleted, and when.
    pub deleted: &'a DeletedTopics,
    /// Records up to here are in the index.
    pub indexed_to: i64,
}

impl Dispatch<'_> {
    /// The queue entry of a record, and the queue it goes to; `None` for half messages, roll-backs, and queues that
    /// cannot or need not be.
    pub fn entry(&self, view: &MessageView<'_>, wanted: &Wanted<'_>) -> Option<(Arc<ConsumeQueue>, Entry)> {
        let transaction = view.sys_flag().transaction();
        if transaction == SysFlag::TRANSACTION_PREPARED || transaction == SysFlag::TRANSACTION_ROLLBACK {
            return None;
        }
        let (topic, queue_id, offset) = (view.topic(), view.queue_id(), view.physical_offset());
        if self.deleted.covers(topic, offset) || view.sys_flag().has(SysFlag::INNER_BATCH) {
            return None;
        }
        if !is_file_name(topic) || queue_id < 0 || view.queue_offset() < 0 {
            tracing::error!("record at {offset}: no queue can be {topic:?}@{queue_id}; left out");
            return None;
        }
        let entry = Entry {
            offset,
            size: view.size() as i32,
            tags_code: self.tags_code(view, wanted),
        };
        let queue = self.queues.find_or_make(topic, queue_id);
        self.is_still_there(topic, offset).then_some((queue, entry))
    }

    /// Asked again with the queue in hand: a queue found before its topic was deleted takes nothing more, and one made
    /// after it must not begin with a record from before.
    fn is_still_there(&self, topic: &str, offset: i64) -> bool {
        !self.deleted.covers(topic, offset)
    }

    /// The entry of a record that holds several messages goes to a batch queue. Such records are Java's: this version
    /// writes none, so they come by at a replay alone, or behind one that a full disk ended.
    pub fn batch_entry(&self, view: &MessageView<'_>, wanted: &Wanted<'_>) -> Result<(), Error> {
        let Some(entry) = self.batch_of(view, wanted) else {
            return Ok(());
        };
        let queue = self.batches.find_or_make(view.topic(), view.queue_id())?;
        if self.is_still_there(view.topic(), entry.offset) {
            queue.push(entry)?;
        }
        Ok(())
    }

    /// The entry of a record that holds several messages; `None` when it does not say which, or its queue cannot or
    /// need not be.
    pub fn batch_of(&self, view: &MessageView<'_>, wanted: &Wanted<'_>) -> Option<batch_queue::Entry> {
        let number = |name| view.properties().get(name)?.parse::<i64>().ok();
        let (base, messages) = (number(names::INNER_BASE)?, number(names::INNER_NUM)?);
        let (topic, queue_id, offset) = (view.topic(), view.queue_id(), view.physical_offset());
        let batch_size = i16::try_from(messages).ok().filter(|n| *n > 0);
        if self.deleted.covers(topic, offset) || !is_file_name(topic) || queue_id < 0 || base < 0 {
            return None;
        }
        Some(batch_queue::Entry {
            offset,
            size: view.size() as i32,
            tags_code: self.tags_code(view, wanted),
            store_time: view.store_timestamp(),
            base_offset: base,
            batch_size: batch_size?,
            compacted_offset: -1,
        })
    }

    /// Adds a record to the light queues that it names, where it comes next: entries that a crash kept out of their
    /// files.
    pub fn light_entries(&self, view: &MessageView<'_>, entry: Entry) -> Result<(), Error> {
        for (name, offset) in light_queues(view) {
            if !name.starts_with(LIGHT_QUEUE_PREFIX)
                || !is_file_name(name)
                || self.deleted.covers(name, entry.offset)
            {
                continue;
            }
            let queue = self.queues.find_or_make(name, 0);
            if offset == queue.max() && self.is_still_there(name, entry.offset) {
                queue.push(offset, entry)?;
                queue.next.fetch_max(offset + 1, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn tags_code(&self, view: &MessageView<'_>, wanted: &Wanted<'_>) -> i64 {
        if view.topic() == SCHEDULE_TOPIC
            && let Some(level) = wanted.delay.and_then(|delay| delay.parse::<usize>().ok())
            && level > 0
        {
            let level = level.min(self.delays.len());
            let delay = level.checked_sub(1).and_then(|n| self.delays.get(n));
            // Java's delay of a level that it does not know.
            return view
                .store_timestamp()
                .saturating_add(delay.copied().unwrap_or(1000));
        }
        wanted.tags.map_or(0, tags_code)
    }

    /// Calls `put` for each key of a record that is not in the index yet.
    pub fn index_keys(
        &self,
        view: &MessageView<'_>,
        wanted: &Wanted<'_>,
        mut put: impl FnMut(&Index, &str) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let Some(index) = self.index else {
            return Ok(());
        };
        if view.physical_offset() <= self.indexed_to
            || view.sys_flag().transaction() == SysFlag::TRANSACTION_ROLLBACK
        {
            return Ok(());
        }
        wanted.keys().try_for_each(|key| put(index, key))
    }
}

/// The light queues that a record was sent to besides its own, and its offsets in them.
pub fn light_queues<'a>(view: &MessageView<'a>) -> impl Iterator<Item = (&'a str, i64)> {
    let properties = view.properties();
    let list = |name| properties.get(name).unwrap_or_default().split(',');
    list(names::INNER_MULTI_DISPATCH)
        .zip(list(names::INNER_MULTI_QUEUE_OFFSET))
        .filter_map(|(name, offset)| Some((name, offset.parse().ok().filter(|offset| *offset >= 0)?)))
}

/// True for a name that is one part of a path and nothing else.
pub fn is_file_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name != "." && name != ".." && !name.contains(['/', '\0'])
}

/// Body of the build thread.
pub fn run(shared: &Shared) {
    let mut config = shared.config.load_full();
    let mut delays = config.delay_levels();
    // Recovery may have indexed more than it could write to the queues.
    let indexed_to = shared.index.end_offset();
    let build = &shared.build;
    let mut cursor = MessageCursor::new(shared.log.segments(), build.at()).check_body(false);
    let mut touched: Vec<Arc<ConsumeQueue>> = Vec::new();
    let mut lingers = 0;
    while !shared.stop.is_stopped() {
        if !Arc::ptr_eq(&config, &shared.config.load()) {
            config = shared.config.load_full();
            delays = config.delay_levels();
        }
        let dispatch = Dispatch {
            queues: &shared.queues,
            batches: &shared.batches,
            light_queues: config.enable_multi_dispatch,
            index: Some(&shared.index),
            delays: &delays,
            deleted: &shared.deleted,
            indexed_to,
        };
        let bound = shared.visible_end();
        let mut timestamp = 0;
        let mut done = 0;
        while done < RUN && cursor.position() < bound {
            match cursor.next() {
                Some(Ok(Found::Message(record))) => {
                    let Ok(view) = record.view() else { continue };
                    if !write(shared, &dispatch, &view, &mut touched) {
                        return;
                    }
                    timestamp = view.store_timestamp();
                }
                Some(Ok(Found::Filler { .. })) => {}
                Some(Err(damage)) => {
                    // What an append wrote reads back, so this is memory or disk gone bad under us.
                    let log = shared.log.segments();
                    // Only as much is passed over as must be: to the next segment, or to the first that is left.
                    let next = log.file_end(damage.at).max(log.start()).min(bound);
                    tracing::error!("commit log {damage}; records up to {next} cannot be consumed");
                    cursor.seek(next);
                }
                None => break,
            }
            done += 1;
        }
        if done > 0 {
            for queue in touched.drain(..) {
                queue.touched.store(false, Ordering::Relaxed);
                queue.ring();
            }
            build.timestamp.fetch_max(timestamp, Ordering::Release);
            build.at.store(cursor.position(), Ordering::Release);
            shared.flush.waker.wake();
            shared.queue_flush.wake();
            lingers = 0;
            continue;
        }
        lingers += 1;
        let more = || shared.visible_end() > cursor.position() || shared.stop.is_stopped();
        if lingers <= LINGERS {
            std::thread::park_timeout(LINGER);
        } else {
            build.waker.park(None, more);
        }
    }
}

/// Writes entry and items of a record, trying again while the disk is full. False when the store stops.
fn write(
    shared: &Shared,
    dispatch: &Dispatch<'_>,
    view: &MessageView<'_>,
    touched: &mut Vec<Arc<ConsumeQueue>>,
) -> bool {
    let wanted = Wanted::of(view);
    // What recovery could not write for lack of space. Records of this run are in queues of their own alone.
    let is_old = u64::try_from(view.physical_offset()).is_ok_and(|at| at < shared.opened_at);
    if is_old && view.sys_flag().has(SysFlag::INNER_BATCH) {
        match retry(shared, u32::MAX, || dispatch.batch_entry(view, &wanted)) {
            Tried::Done(()) => {}
            Tried::GivenUp | Tried::Stopped => return false,
        }
    }
    if let Some((queue, entry)) = dispatch.entry(view, &wanted) {
        if is_old && dispatch.light_queues {
            match retry(shared, u32::MAX, || dispatch.light_entries(view, entry)) {
                Tried::Done(()) => {}
                Tried::GivenUp | Tried::Stopped => return false,
            }
        }
        let pushed = retry(shared, u32::MAX, || queue.push(view.queue_offset(), entry));
        match pushed {
            Tried::Done(Pushed::New) => {
                if !queue.touched.swap(true, Ordering::Relaxed) {
                    touched.push(queue);
                }
            }
            Tried::Done(Pushed::Repeated) => {}
            Tried::GivenUp | Tried::Stopped => return false,
        }
    }
    if !shared.config.load().message_index_enable || shared.build.index_off.load(Ordering::Relaxed) {
        return true;
    }
    let mut stopped = false;
    let _ = dispatch.index_keys(view, &wanted, |index, key| {
        if stopped || shared.build.index_off.load(Ordering::Relaxed) {
            return Ok(());
        }
        let put = || index.put(view.topic(), key, view.physical_offset(), view.store_timestamp());
        match retry(shared, INDEX_ATTEMPTS, put) {
            Tried::Done(full) => shared.full_index_files(full),
            Tried::GivenUp => {
                shared.build.index_off.store(true, Ordering::Relaxed);
                tracing::error!(
                    "{}: the index cannot be written; messages are stored but not found by key until the next start",
                    shared.config.load().index_dir().display()
                );
            }
            Tried::Stopped => stopped = true,
        }
        Ok(())
    });
    !stopped
}

enum Tried<T> {
    Done(T),
    GivenUp,
    Stopped,
}

/// Tries until it works, at most `attempts` times unless the disk is full. Meanwhile the store takes no writes, unless
/// it can do without.
fn retry<T>(shared: &Shared, attempts: u32, mut work: impl FnMut() -> Result<T, Error>) -> Tried<T> {
    let mut failed = 0u32;
    loop {
        let must;
        match work() {
            Ok(done) => {
                if failed > 0 {
                    shared.health.unblock(Block::BuildFailed);
                }
                return Tried::Done(done);
            }
            Err(e) => {
                let is_full = matches!(&e, Error::Io { source, .. }
                    if source.kind() == std::io::ErrorKind::StorageFull);
                must = is_full || attempts == u32::MAX;
                if !must {
                    tracing::warn!("{e}");
                    shared.health.unblock(Block::BuildFailed);
                } else if shared.health.block(Block::BuildFailed, e.to_string()) {
                    tracing::error!("{e}; writes are refused until this works");
                }
                failed = failed.saturating_add(1);
                if failed >= attempts && !must {
                    return Tried::GivenUp;
                }
            }
        }
        let pause = FIRST_RETRY.saturating_mul(1 << (failed - 1).min(6)).min(RETRY);
        if shared.stop.sleep(if must { pause } else { INDEX_RETRY }) {
            return Tried::Stopped;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_part_of_a_path_is_a_file_name() {
        for good in ["t", "%RETRY%g", "a.b", "ä"] {
            assert!(is_file_name(good), "{good}");
        }
        for bad in ["", ".", "..", "a/b", "/", "a\0"] {
            assert!(!is_file_name(bad), "{bad:?}");
        }
        assert!(!is_file_name(&"x".repeat(256)));
    }
}
