//! Small tables of the broker as Java keeps them: `<store>/config/<name>.json` with a `.bak` beside it.
//!
//! A change only marks the table; one writer task saves what is marked, off the request path, and once more at stop.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::config_file::{self, replace};
use crate::protocol::json;

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
    changed: AtomicBool,
    /// Held while the file is written, so that an older state never replaces a newer one.
    saving: Mutex<()>,
}

impl TableFile {
    /// The table at `path`.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            changed: AtomicBool::new(false),
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
                Ok(bytes) if bytes.iter().all(u8::is_ascii_whitespace) => {}
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

    /// Notes that memory is ahead of the file.
    pub fn mark(&self) {
        self.changed.store(true, std::sync::atomic::Ordering::Release);
    }

    /// True when memory is ahead of the file.
    pub fn is_marked(&self) -> bool {
        self.changed.load(std::sync::atomic::Ordering::Acquire)
    }

    /// Writes `value()` if something was marked since the last time. Blocks on the disk.
    pub fn save_if_marked<T: Serialize>(&self, value: impl FnOnce() -> T) -> Result<(), Error> {
        let _guard = self.saving.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.changed.swap(false, AcqRel) {
            return Ok(());
        }
        let text = json::to_vec_pretty(&value());
        replace(&self.path, &text).map_err(|e| {
            self.mark();
            Error::File(e)
        })
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
}
