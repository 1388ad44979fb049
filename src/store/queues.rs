//! All consume queues of a store, by topic and number.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Error;
use super::consume_queue::{ConsumeQueue, Recovered};
use super::reader::{QueueName, queue_dir};

/// Maps of queue segments that a store keeps at most; the system's limit is usually 65,530 for a process.
const MOST_MAPS: usize = 16_384;
/// From so many dirty queues on the file system is flushed before each file.
const MANY_FLUSHED: usize = 128;

/// Counts the mapped queue segments of a store.
#[derive(Debug, Default)]
pub struct Maps {
    count: AtomicUsize,
    /// Set when the next round of letting go should not wait.
    crowded: std::sync::atomic::AtomicBool,
}

impl Maps {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Notes new ones.
    pub fn add(&self, n: usize) {
        self.count.fetch_add(n, Ordering::Relaxed);
    }

    /// Notes that some are gone.
    pub fn remove(&self, n: usize) {
        self.count.fetch_sub(n, Ordering::Relaxed);
    }

    /// Called before one is made.
    pub fn make_room(&self) {
        if self.count() >= MOST_MAPS {
            self.crowded.store(true, Ordering::Relaxed);
        }
    }

    /// True once after there were too many.
    pub fn take_crowded(&self) -> bool {
        self.crowded.load(Ordering::Relaxed) && self.crowded.swap(false, Ordering::Relaxed)
    }
}

/// Queues of one topic by number.
type ByNumber = Vec<(i32, Arc<ConsumeQueue>)>;

/// All queues.
#[derive(Debug)]
pub struct ConsumeQueues {
    dir: PathBuf,
    segment_size: u64,
    maps: Arc<Maps>,
    /// Held for a look-up only; no other lock is taken under it.
    table: RwLock<HashMap<Box<str>, ByNumber>>,
}

impl ConsumeQueues {
    /// None yet.
    pub fn new(dir: PathBuf, segment_size: u64) -> Self {
        Self {
            dir,
            segment_size,
            maps: Arc::default(),
            table: RwLock::default(),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, ByNumber>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, ByNumber>> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// A queue, if anybody has used it.
    pub fn find(&self, topic: &str, queue_id: i32) -> Option<Arc<ConsumeQueue>> {
        let table = self.read();
        let queues = table.get(topic)?;
        let n = queues.binary_search_by_key(&queue_id, |(id, _)| *id).ok()?;
        Some(Arc::clone(&queues[n].1))
    }

    /// A queue; a new one is empty and has no files.
    pub fn find_or_make(&self, topic: &str, queue_id: i32) -> Arc<ConsumeQueue> {
        self.find(topic, queue_id)
            .unwrap_or_else(|| self.insert(topic, queue_id, Recovered::default()))
    }

    /// Adds a queue in a known state, unless there is one; returns the one there is.
    pub fn insert(&self, topic: &str, queue_id: i32, state: Recovered) -> Arc<ConsumeQueue> {
        let mut table = self.write();
        if !table.contains_key(topic) {
            table.insert(topic.into(), Vec::new());
        }
        let queues = table.entry(topic.into()).or_default();
        match queues.binary_search_by_key(&queue_id, |(id, _)| *id) {
            Ok(n) => Arc::clone(&queues[n].1),
            Err(n) => {
                let name = QueueName {
                    topic: topic.to_owned(),
                    queue_id,
                };
                let dir = queue_dir(&self.dir, topic, queue_id);
                let queue = ConsumeQueue::new(name, dir, self.segment_size, Arc::clone(&self.maps), state);
                let queue = Arc::new(queue);
                queues.insert(n, (queue_id, Arc::clone(&queue)));
                queue
            }
        }
    }

    /// All queues.
    pub fn all(&self) -> Vec<Arc<ConsumeQueue>> {
        self.read()
            .values()
            .flatten()
            .map(|(_, queue)| Arc::clone(queue))
            .collect()
    }

    /// Flushes queues one after the other. When they are many, the file system is told to write everything at once
    /// before: file by file each waits for a commit of its own (ten thousand took three minutes). Only the flush of each
    /// file tells whether it worked: the file system's own answer is about everybody's files, and given once.
    pub fn flush(&self, dirty: &[Arc<ConsumeQueue>]) -> Result<(), Error> {
        if dirty.len() >= MANY_FLUSHED
            && let Ok(dir) = File::open(&self.dir)
        {
            let _ = rustix::fs::syncfs(&dir);
        }
        dirty.iter().try_for_each(|queue| queue.flush())
    }

    /// Topics that have queues.
    pub fn topics(&self) -> Vec<String> {
        self.read().keys().map(|topic| topic.to_string()).collect()
    }

    /// Lets the queues of a topic take nothing more. Called under the append lock.
    pub fn retire(&self, topic: &str) {
        for (_, queue) in self.read().get(topic).into_iter().flatten() {
            queue.retire();
        }
    }

    /// Removes the retired queues of a topic and their files. They stay in the table until the files are gone, so that
    /// no new queue makes files in the same place meanwhile.
    pub fn delete(&self, topic: &str) -> Result<(), Error> {
        let retired: Vec<_> = self
            .read()
            .get(topic)
            .into_iter()
            .flatten()
            .filter(|(_, queue)| queue.is_retired())
            .map(|(_, queue)| Arc::clone(queue))
            .collect();
        let deleted = retired
            .iter()
            .map(|queue| queue.delete())
            .fold(Ok(()), Result::and);
        let mut table = self.write();
        if let Some(queues) = table.get_mut(topic) {
            queues.retain(|(_, queue)| !queue.is_retired());
            if queues.is_empty() {
                table.remove(topic);
            }
        }
        deleted
    }

    /// Lets go of maps when there are many. Called now and then.
    pub fn let_go(&self) {
        let crowded = self.maps.take_crowded();
        if crowded || self.maps.count() > MOST_MAPS / 2 {
            for queue in self.all() {
                queue.let_go(crowded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_made_once_and_without_files() {
        let dir = tempfile::tempdir().unwrap();
        let queues = ConsumeQueues::new(dir.path().join("consumequeue"), 100);
        assert!(queues.find("t", 3).is_none());
        let made = queues.find_or_make("t", 3);
        queues.find_or_make("t", 1);
        assert!(Arc::ptr_eq(&made, &queues.find_or_make("t", 3)));
        assert_eq!(queues.all().len(), 2);
        queues.delete("t").unwrap();
        assert_eq!(queues.all().len(), 2, "nobody retired them");
        queues.retire("t");
        queues.delete("t").unwrap();
        assert!(queues.all().is_empty());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
