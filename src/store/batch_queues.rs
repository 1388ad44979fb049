//! Batch consume queues (`batchconsumequeue/`), which Java writes for topics with the attribute `queue.type=BatchCQ`: one
//! entry for a record that holds several messages. They are read as they are; what a crash kept out of their files is
//! added by recovery. This version takes no new messages for such topics.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use super::Error;
use super::disk::{self, io_error};
use super::format::batch_queue::{Entry, LEN};
use super::format::file_name;
use super::reader::{QueueName, list_queues, queue_dir};
use super::segments::{self, LogBytes, SegmentFile, Segments};

/// Directory of the queues under the root.
const DIR: &str = "batchconsumequeue";
/// Size of a file of a queue that has none yet: 300,000 entries, as in Java.
const SEGMENT: u64 = 300_000 * LEN as u64;

/// One queue.
#[derive(Debug)]
pub struct BatchQueue {
    name: QueueName,
    dir: PathBuf,
    segment_size: u64,
    /// The files as they were found.
    files: Segments,
    /// Number of the first entry whose record is there.
    first: AtomicU64,
    /// Number behind the last entry in `files` that counts.
    filed: AtomicU64,
    /// Entries that recovery added, behind those. Written to files as well, for the next start.
    added: Mutex<Vec<Entry>>,
}

impl BatchQueue {
    fn load(name: QueueName, dir: PathBuf) -> Result<Self, Error> {
        let files: Vec<SegmentFile> = segments::list(&dir)?.files;
        // A crash may have left a file without its length.
        let whole = |len: &u64| *len > 0 && len.is_multiple_of(LEN as u64);
        let segment_size = files
            .iter()
            .map(|file| file.len)
            .filter(whole)
            .max()
            .unwrap_or(SEGMENT);
        let first = files.first().map_or(0, |file| file.base / LEN as u64);
        let end = files
            .last()
            .map_or(0, |file| file.base.saturating_add(file.len) / LEN as u64);
        let queue = Self {
            name,
            dir,
            segment_size,
            files: Segments::new(files, segment_size, false),
            first: AtomicU64::new(first),
            filed: AtomicU64::new(end),
            added: Mutex::default(),
        };
        // Entries are written in order, so the first that was not written ends the queue.
        let written = partition(first, end, |n| queue.entry(n).is_some());
        queue.filed.store(written, Relaxed);
        Ok(queue)
    }

    fn added(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The entry of a number.
    fn entry(&self, number: u64) -> Option<Entry> {
        let filed = self.filed.load(Relaxed);
        let entry = if number < filed {
            let bytes = self.files.slice(number.checked_mul(LEN as u64)?, LEN)?;
            Entry::parse(bytes.first_chunk()?)
        } else {
            *self.added().get(usize::try_from(number - filed).ok()?)?
        };
        entry.is_written().then_some(entry)
    }

    fn end(&self) -> u64 {
        self.filed.load(Relaxed) + self.added().len() as u64
    }

    fn last(&self) -> Option<Entry> {
        let end = self.end();
        (end > self.first.load(Relaxed))
            .then(|| self.entry(end - 1))
            .flatten()
    }

    /// Smallest queue offset.
    pub fn min(&self) -> i64 {
        let max = self.max();
        self.entry(self.first.load(Relaxed))
            .map_or(max, |entry| entry.base_offset.min(max))
    }

    /// Queue offset behind the last message.
    pub fn max(&self) -> i64 {
        self.last().map_or(0, |entry| entry.end_offset())
    }

    /// Number of the entry that holds a queue offset.
    fn number_of(&self, offset: i64) -> Option<u64> {
        let (first, end) = (self.first.load(Relaxed), self.end());
        let number = partition(first, end, |n| {
            self.entry(n).is_some_and(|e| e.end_offset() <= offset)
        });
        self.entry(number)
            .filter(|entry| entry.base_offset <= offset)
            .map(|_| number)
    }

    /// The entry that holds a queue offset.
    pub fn holding(&self, offset: i64) -> Option<Entry> {
        self.entry(self.number_of(offset)?)
    }

    /// Entries from the one that holds a queue offset on, to the end of its file, as a Java read walks them.
    pub fn run(&self, offset: i64) -> impl Iterator<Item = Entry> + '_ {
        let from = self.number_of(offset);
        let per_file = self.segment_size / LEN as u64;
        let range = from.map_or(0..0, |from| from..(from - from % per_file + per_file));
        range.map_while(|number| self.entry(number))
    }

    /// Queue offset of the first record that was stored at or behind a time, or behind it.
    pub fn offset_by_time(&self, is_before: impl Fn(i64) -> bool) -> i64 {
        let number = partition(self.first.load(Relaxed), self.end(), |n| {
            self.entry(n).is_some_and(|entry| is_before(entry.store_time))
        });
        self.entry(number)
            .map_or_else(|| self.max(), |entry| entry.base_offset)
    }

    /// Adds the entry of a record that recovery found, unless it is there.
    pub fn push(&self, entry: Entry) -> Result<(), Error> {
        if self.last().is_some_and(|last| entry.offset <= last.offset) {
            return Ok(());
        }
        let number = self.end();
        let at = number * LEN as u64;
        let path = self.dir.join(file_name::segment(at - at % self.segment_size));
        write(
            &path,
            self.segment_size,
            at % self.segment_size,
            &entry.to_bytes(),
        )?;
        self.added().push(entry);
        tracing::info!(
            topic = self.name.topic,
            queue_id = self.name.queue_id,
            offset = entry.base_offset,
            "batch queue entry added"
        );
        Ok(())
    }

    /// Forgets entries of records that are not in `log_start..log_end`.
    fn fit(&self, log_start: i64, log_end: i64) {
        let end = partition(self.first.load(Relaxed), self.end(), |n| {
            self.entry(n)
                .is_some_and(|entry| entry.offset.saturating_add(entry.size.into()) <= log_end)
        });
        let filed = self.filed.load(Relaxed);
        self.added()
            .truncate(usize::try_from(end.saturating_sub(filed)).unwrap_or(usize::MAX));
        self.filed.store(filed.min(end), Relaxed);
        let first = partition(self.first.load(Relaxed), self.end(), |n| {
            self.entry(n).is_some_and(|entry| entry.offset < log_start)
        });
        self.first.store(first, Relaxed);
    }
}

/// The first of `from..to` that is not `before`.
fn partition(from: u64, to: u64, before: impl Fn(u64) -> bool) -> u64 {
    let (mut from, mut to) = (from, to.max(from));
    while from < to {
        let mid = from + (to - from) / 2;
        if before(mid) {
            from = mid + 1;
        } else {
            to = mid;
        }
    }
    from
}

fn write(path: &Path, size: u64, at: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut file = if path.exists() {
        OpenOptions::new()
            .write(true)
            .open(path)
            .map_err(io_error("open", path))?
    } else {
        if let Some(dir) = path.parent() {
            disk::create_dir_durably(dir)?;
        }
        let file = File::create(path).map_err(io_error("create", path))?;
        file.set_len(size).map_err(io_error("extend", path))?;
        if let Some(dir) = path.parent() {
            disk::sync_dir(dir)?;
        }
        file
    };
    file.seek(SeekFrom::Start(at))
        .and_then(|_| file.write_all(bytes))
        .and_then(|()| file.sync_data())
        .map_err(io_error("write", path))
}

/// All batch queues of a store; none in most.
#[derive(Debug, Default)]
pub struct BatchQueues {
    dir: PathBuf,
    /// Whether there are any, where every read looks.
    any: AtomicBool,
    /// Sorted by name. Held for a look-up only.
    queues: RwLock<Vec<Arc<BatchQueue>>>,
}

impl BatchQueues {
    /// Reads what there is under a store's root.
    pub fn load(root: &Path) -> Result<Self, Error> {
        let dir = root.join(DIR);
        let (mut names, strays) = list_queues(&dir)?;
        for stray in strays {
            tracing::warn!("{}: not a file of the store, ignored", stray.display());
        }
        names.sort();
        let queues: Result<Vec<_>, Error> = names
            .into_iter()
            .map(|name| {
                let queue_dir = queue_dir(&dir, &name.topic, name.queue_id);
                BatchQueue::load(name, queue_dir).map(Arc::new)
            })
            .collect();
        let queues = queues?;
        Ok(Self {
            dir,
            any: AtomicBool::new(!queues.is_empty()),
            queues: RwLock::new(queues),
        })
    }

    fn all(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<BatchQueue>>> {
        self.queues.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue, if it is a batch queue.
    pub fn find(&self, topic: &str, queue_id: i32) -> Option<Arc<BatchQueue>> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let queues = self.all();
        let at = queues.binary_search_by(|queue| {
            (queue.name.topic.as_str(), queue.name.queue_id).cmp(&(topic, queue_id))
        });
        at.ok().map(|n| Arc::clone(&queues[n]))
    }

    /// A queue, made if it is missing.
    pub fn find_or_make(&self, topic: &str, queue_id: i32) -> Result<Arc<BatchQueue>, Error> {
        if let Some(found) = self.find(topic, queue_id) {
            return Ok(found);
        }
        let name = QueueName {
            topic: topic.to_owned(),
            queue_id,
        };
        let made = Arc::new(BatchQueue::load(name, queue_dir(&self.dir, topic, queue_id))?);
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        queues.push(Arc::clone(&made));
        queues.sort_by(|a, b| a.name.cmp(&b.name));
        self.any.store(true, Relaxed);
        Ok(made)
    }

    /// Forgets entries of records that are not in the log.
    pub fn fit(&self, log_start: i64, log_end: i64) {
        for queue in self.all().iter() {
            queue.fit(log_start, log_end);
        }
    }

    /// Removes the queues of a topic and their files.
    pub fn delete(&self, topic: &str) -> Result<(), Error> {
        let mut queues = self.queues.write().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<_> = queues.extract_if(.., |queue| queue.name.topic == topic).collect();
        drop(queues);
        for queue in gone {
            for file in segments::list(&queue.dir)?.files {
                disk::remove_file(&file.path)?;
            }
            for dir in [Some(queue.dir.as_path()), queue.dir.parent()]
                .into_iter()
                .flatten()
            {
                // Not empty is a reason to stay.
                let _ = std::fs::remove_dir(dir);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(n: i64, messages: i16) -> Entry {
        Entry {
            offset: 1000 + n * 100,
            size: 100,
            tags_code: 0,
            store_time: 10 * n,
            base_offset: n * i64::from(messages),
            batch_size: messages,
            compacted_offset: -1,
        }
    }

    #[test]
    fn entries_of_recovery_are_read_now_and_at_the_next_start() {
        let root = tempfile::tempdir().unwrap();
        let queues = BatchQueues::load(root.path()).unwrap();
        assert!(queues.find("t", 0).is_none());
        let queue = queues.find_or_make("t", 0).unwrap();
        assert_eq!((queue.min(), queue.max()), (0, 0));
        for n in 0..5 {
            queue.push(entry(n, 3)).unwrap();
            queue.push(entry(n, 3)).unwrap();
        }
        let again = BatchQueues::load(root.path()).unwrap();
        for queues in [&queues, &again] {
            let queue = queues.find("t", 0).unwrap();
            assert_eq!((queue.min(), queue.max()), (0, 15));
            assert_eq!(queue.holding(7), Some(entry(2, 3)));
            assert_eq!(queue.holding(15), None);
            assert_eq!(queue.run(7).count(), 3);
            assert_eq!(queue.offset_by_time(|time| time < 20), 6);
            assert_eq!(queue.offset_by_time(|time| time < 999), 15);
            queue.fit(1150, 1450);
            assert_eq!((queue.min(), queue.max()), (6, 12));
        }
        again.delete("t").unwrap();
        assert!(again.find("t", 0).is_none());
        assert_eq!(std::fs::read_dir(root.path().join(DIR)).unwrap().count(), 0);
    }
}
