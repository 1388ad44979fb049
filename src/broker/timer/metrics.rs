//! How many messages of each topic wait (config/timermetrics), and how fast they come and go.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::super::now_ms;
use super::super::tables::{self, TableFile};
use crate::config_file;
use crate::protocol::json;
use crate::protocol::model::DataVersion;

/// The file's shape.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Saved {
    data_version: DataVersion,
    timing_count: BTreeMap<String, Count>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Count {
    count: i64,
    time_stamp: i64,
}

/// Waiting messages by topic.
#[derive(Debug)]
pub struct Metrics {
    path: PathBuf,
    state: Mutex<Saved>,
    changed: AtomicBool,
}

impl Metrics {
    /// Loads the file at `path`.
    pub fn load(path: PathBuf) -> Result<Self, tables::Error> {
        let saved = TableFile::new(path.clone()).load::<Saved>()?;
        Ok(Self {
            path,
            state: Mutex::new(saved.unwrap_or_default()),
            changed: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, Saved> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts messages that begin or end to wait; never below 0.
    pub fn add(&self, topic: &str, messages: i64) {
        let now = now_ms();
        let mut state = self.state();
        if !state.timing_count.contains_key(topic) {
            state.timing_count.insert(topic.to_owned(), Count::default());
        }
        if let Some(count) = state.timing_count.get_mut(topic) {
            count.count = count.count.saturating_add(messages).max(0);
            count.time_stamp = now;
        }
        state.data_version = state.data_version.next(now);
        self.changed.store(true, Relaxed);
    }

    /// Forgets a deleted topic.
    pub fn remove(&self, topic: &str) {
        if self.state().timing_count.remove(topic).is_some() {
            self.changed.store(true, Relaxed);
        }
    }

    /// Messages of a topic that wait.
    #[cfg(test)]
    pub fn count(&self, topic: &str) -> i64 {
        self.state()
            .timing_count
            .get(topic)
            .map_or(0, |count| count.count)
    }

    /// Writes the file if something changed. Blocks on the disk.
    pub fn save(&self) -> Result<(), config_file::Error> {
        if !self.changed.swap(false, Relaxed) {
            return Ok(());
        }
        let text = json::to_vec(&*self.state());
        config_file::replace(&self.path, &text).inspect_err(|_| self.changed.store(true, Relaxed))
    }
}

/// A count and what it was a moment ago.
#[derive(Debug, Default)]
pub struct Rate {
    count: AtomicU64,
    /// Count at the last tick, and the rate of the second before it.
    last: Mutex<(u64, f64)>,
}

impl Rate {
    /// Counts one.
    pub fn add(&self) {
        self.count.fetch_add(1, Relaxed);
    }

    /// Called once a second.
    pub fn tick(&self) {
        let now = self.count.load(Relaxed);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (now, now.saturating_sub(last.0) as f64);
    }

    /// Events in the last second.
    pub fn per_second(&self) -> f64 {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_kept_as_java_writes_them_and_never_negative() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("timermetrics");
        let java = r#"{"dataVersion":{"counter":19,"stateVersion":0,"timestamp":5},"timingCount":{"t":{"count":3,"timeStamp":4}}}"#;
        std::fs::write(&path, java).unwrap();
        let metrics = Metrics::load(path.clone()).unwrap();
        assert_eq!(metrics.count("t"), 3);
        metrics.add("t", -5);
        assert_eq!(metrics.count("t"), 0);
        metrics.add("t", 2);
        metrics.save().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with(r#"{"dataVersion":{"counter":21,"stateVersion":0,"timestamp":"#),
            "{text}"
        );
        assert!(
            text.contains(r#""timingCount":{"t":{"count":2,"timeStamp":"#) && !text.contains('\n'),
            "{text}"
        );
        metrics.remove("t");
        assert_eq!(metrics.count("t"), 0);
    }
}
