//! Small tables of the broker as Java keeps them: `<store>/config/<name>.json` with a `.bak` beside it.
//!
//! A change marks the table; one writer task saves what is marked, off the request path, and once more at stop. Whoever
//! must not answer before the file has the change saves it himself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Broker;
use crate::config_file::{self, replace};
use crate::protocol::{codes, json};
use crate::remoting::Refusal;

/// Why a table cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] config_file::Error),
    /// Neither the file nor its `.bak` can be understood.
    #[error("{}: {reason}; the copy beside it does not help; repair or remove both to start empty", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// One table's file, and whether memory is ahead of it.
#[derive(Debug)]
pub struct TableFile {
    path: PathBuf,
    /// Counts changes of the memory.
    changed: AtomicU64,
    /// The changes that the file has.
    saved: AtomicU64,
    /// Held while the file is written, so that an older state never replaces a newer one.
    saving: Mutex<()>,
}

impl TableFile {
    /// The table at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            changed: AtomicU64::new(0),
            saved: AtomicU64::new(0),
            saving: Mutex::new(()),
        }
    }

    /// Reads the file, or its copy when the file is missing or unreadable; `None` when there is neither.
    pub fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let mut copy = self.path.as_os_str().to_owned();
        copy.push(".bak");
        let mut damage = None;
        for path in [self.path.as_path(), Path::new(&copy)] {
            match fs::read(path) {
                // A table is never without bytes: that is what a power failure leaves of one.
                Ok(bytes) if bytes.iter().all(|b| *b == 0 || b.is_ascii_whitespace()) => {
                    damage.get_or_insert_with(|| "empty".to_owned());
                }
                Ok(bytes) => match json::from_slice(&bytes) {
                    Ok(value) => return Ok(Some(value)),
                    Err(e) => {
                        tracing::warn!(file = %path.display(), error = %e, "table cannot be understood");
                        damage.get_or_insert_with(|| e.to_string());
                    }
                },
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(config_file::Error::Io {
                        what: "read",
                        path: path.to_owned(),
                        source,
                    }
                    .into());
                }
            }
        }
        match damage {
            None => Ok(None),
            Some(reason) => Err(Error::Damaged {
                path: self.path.clone(),
                reason,
            }),
        }
    }

    /// Notes that memory is ahead of the file; the number of the change.
    pub fn mark(&self) -> u64 {
        self.changed.fetch_add(1, Release) + 1
    }

    /// True when memory is ahead of the file.
    pub fn is_marked(&self) -> bool {
        self.saved() < self.changed.load(Acquire)
    }

    /// The newest change that the file has.
    pub fn saved(&self) -> u64 {
        self.saved.load(Acquire)
    }

    /// Writes `value()` if something was marked since the last time. Blocks on the disk, and while another writes:
    /// when it returns, the file has all that was marked before.
    pub fn save_if_marked<T: Serialize>(&self, value: impl FnOnce() -> T) -> Result<(), Error> {
        let _guard = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed.load(Acquire);
        if self.saved() < changed {
            let text = json::to_vec_pretty(&value());
            replace(&self.path, &text)?;
            self.saved.store(changed, Release);
        }
        Ok(())
    }
}

impl Broker {
    /// Waits until `save` has written a table, whose change may be answered with success only then.
    pub(super) async fn kept(
        self: &Arc<Self>,
        save: impl FnOnce(&Self) -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Refusal> {
        let broker = self.clone();
        let failed = |why: String| Refusal::new(codes::SYSTEM_ERROR, why);
        match tokio::task::spawn_blocking(move || save(&broker)).await {
            Ok(saved) => saved.map_err(|e| {
                tracing::error!(error = %e, "a change is not kept; it will be tried again");
                failed(format!("the change could not be written to the disk: {e}"))
            }),
            Err(e) => Err(failed(format!("writing the change was aborted: {e}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    type Sample = BTreeMap<String, i32>;

    fn sample(n: i32) -> Sample {
        BTreeMap::from([("a".to_owned(), n)])
    }

    #[test]
    fn a_damaged_file_falls_back_to_its_copy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config").join("t.json");
        let table = TableFile::new(path.clone());
        assert!(table.load::<Sample>().unwrap().is_none());
        table.save_if_marked(|| sample(0)).unwrap();
        assert!(!path.exists(), "nothing was marked");
        for n in 1..=2 {
            table.mark();
            table.save_if_marked(|| sample(n)).unwrap();
        }
        assert_eq!(table.load::<Sample>().unwrap(), Some(sample(2)));
        fs::write(&path, "{\"a\":").unwrap();
        assert_eq!(table.load::<Sample>().unwrap(), Some(sample(1)));
        fs::write(path.with_extension("json.bak"), "nonsense").unwrap();
        assert!(matches!(table.load::<Sample>(), Err(Error::Damaged { .. })));
    }

    #[test]
    fn a_table_that_could_not_be_written_stays_marked_and_its_good_copy_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        let table = TableFile::new(path.clone());
        table.mark();
        table.save_if_marked(|| sample(1)).unwrap();
        let change = table.mark();
        // A directory in the place of the new file.
        let fresh = dir.path().join("t.json.tmp");
        fs::create_dir(&fresh).unwrap();
        assert!(table.save_if_marked(|| sample(2)).is_err());
        assert!(table.is_marked() && table.saved() < change);
        assert_eq!(table.load::<Sample>().unwrap(), Some(sample(1)));
        fs::remove_dir(&fresh).unwrap();
        table.save_if_marked(|| sample(2)).unwrap();
        assert!(!table.is_marked() && table.saved() == change);
        // The file is damaged: until the next one is in its place, the copy is all there is.
        fs::write(&path, "{").unwrap();
        let kept = path.with_extension("json.bak");
        fs::remove_file(&kept).unwrap();
        fs::create_dir(&kept).unwrap();
        table.mark();
        assert!(
            table.save_if_marked(|| sample(3)).is_err(),
            "a directory is no copy to replace"
        );
        assert_eq!(table.load::<Sample>().unwrap(), Some(sample(3)));
    }
}
