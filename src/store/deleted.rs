//! Topics that were deleted while their records were still in the log.
//!
//! A crash makes recovery replay old records; without this list the queues of a deleted topic would come back. Text,
//! one line a topic: the end of the log at its deletion, a blank, the topic. The Java broker does not know the file.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, RwLock};

use super::{Error, tables};

/// Name of the file under `config/`.
const NAME: &str = "rmqDeletedTopics";

/// The list.
#[derive(Debug, Default)]
pub struct DeletedTopics {
    path: PathBuf,
    topics: RwLock<HashMap<String, i64>>,
    count: AtomicUsize,
    /// Keeps two savers apart.
    saving: Mutex<()>,
}

impl DeletedTopics {
    /// Loads the list of a store; entries of records that are gone are left out.
    pub fn load(config_dir: &std::path::Path, log_start: i64) -> Result<Self, Error> {
        let path = config_dir.join(NAME);
        let mut topics = tables::load_with(&path, parse)?.unwrap_or_default();
        topics.retain(|_, end| *end > log_start);
        Ok(Self {
            path,
            count: AtomicUsize::new(topics.len()),
            topics: RwLock::new(topics),
            saving: Mutex::default(),
        })
    }

    /// True for a record that was there when its topic was deleted.
    pub fn covers(&self, topic: &str, offset: i64) -> bool {
        self.count.load(Ordering::Relaxed) > 0
            && self
                .topics
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .get(topic)
                .is_some_and(|end| offset < *end)
    }

    /// Notes that a topic is deleted now. [`Self::save`] makes it durable.
    pub fn note(&self, topic: &str, log_end: i64) {
        let mut topics = self.topics.write().unwrap_or_else(PoisonError::into_inner);
        topics.insert(topic.to_owned(), log_end);
        self.count.store(topics.len(), Ordering::Relaxed);
    }

    /// Writes the list; durable when it returns.
    pub fn save(&self) -> Result<(), Error> {
        let _saving = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (topic, end) in self.topics.read().unwrap_or_else(PoisonError::into_inner).iter() {
            text += &format!("{end} {topic}\n");
        }
        tables::save_bytes(&self.path, text.as_bytes())
    }
}

fn parse(bytes: &[u8]) -> Result<HashMap<String, i64>, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    text.lines()
        .map(|line| {
            let (end, topic) = line.split_once(' ').ok_or("no blank in a line")?;
            let end = end.parse().map_err(|_| format!("`{end}` is no offset"))?;
            Ok((topic.to_owned(), end))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deleted_topic_covers_its_old_records_also_after_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let deleted = DeletedTopics::load(dir.path(), 0).unwrap();
        assert!(!deleted.covers("t", 0));
        deleted.note("t", 100);
        deleted.note("u", 50);
        deleted.save().unwrap();
        for list in [&deleted, &DeletedTopics::load(dir.path(), 0).unwrap()] {
            assert!(list.covers("t", 99) && !list.covers("t", 100));
            assert!(list.covers("u", 0) && !list.covers("v", 0));
        }
        assert!(!DeletedTopics::load(dir.path(), 60).unwrap().covers("u", 0));
    }
}
