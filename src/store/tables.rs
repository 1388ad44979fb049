//! The small tables under `config/`: JSON files that are replaced as a whole.
//!
//! Saving never leaves a half-written table: temporary file, flush, the old one kept as `.bak`, rename, flush of the
//! directory. Loading falls back to `.bak`; if neither can be read, that is an error and not an empty table. A table
//! that was not loaded is never saved, so a tick during start cannot wipe it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Error;
use super::disk::io_error;
use crate::protocol::json;
use crate::replace::{beside, replace};

/// One table file.
#[derive(Debug)]
pub struct Table {
    path: PathBuf,
    /// Whether the file was loaded; also keeps two savers apart.
    loaded: Mutex<bool>,
}

impl Table {
    /// The table at `path`, not loaded yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            loaded: Mutex::new(false),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the table; `None` when there was none yet.
    pub fn load<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        let value = load(&self.path)?;
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = true;
        Ok(value)
    }

    /// Replaces the table, in Java's pretty form.
    pub fn save<T: Serialize>(&self, value: &T) -> Result<(), Error> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if !*loaded {
            return Err(io_error("save", &self.path)(io::Error::other(
                "the table was not loaded",
            )));
        }
        save(&self.path, value)
    }
}

/// Reads a table, or its `.bak` when it is missing, empty or damaged; `None` when neither is there.
pub fn load<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    load_with(path, |bytes| json::from_slice(bytes).map_err(|e| e.to_string()))
}

/// Replaces a table, in Java's pretty form.
pub fn save<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    save_bytes(path, &json::to_vec_pretty(value))
}

fn backup(path: &Path) -> PathBuf {
    beside(path, ".bak")
}

/// [`load`] for a table in any form.
pub fn load_with<T>(path: &Path, parse: impl Fn(&[u8]) -> Result<T, String>) -> Result<Option<T>, Error> {
    let mut damaged = None;
    for candidate in [path.to_owned(), backup(path)] {
        let bytes = match std::fs::read(&candidate) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
            bytes => bytes.map_err(io_error("read", &candidate))?,
        };
        // A table is never zero bytes long: that is what a power failure leaves of one.
        let parsed = if bytes.iter().all(|b| *b == 0 || b.is_ascii_whitespace()) {
            Err("empty".to_owned())
        } else {
            parse(&bytes)
        };
        match parsed {
            Ok(value) => {
                if let Some(damage) = &damaged {
                    tracing::warn!("{damage}; using {}", candidate.display());
                }
                return Ok(Some(value));
            }
            Err(reason) => {
                damaged.get_or_insert(Error::Damaged {
                    path: candidate,
                    offset: 0,
                    reason,
                });
            }
        }
    }
    damaged.map_or(Ok(None), Err)
}

/// [`save`] for a table in any form.
pub fn save_bytes(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    Ok(replace(path, bytes)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> Result<String, String> {
        let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
        if text.starts_with('{') && text.ends_with('}') {
            Ok(text.to_owned())
        } else {
            Err("not whole".into())
        }
    }

    #[test]
    fn a_table_is_replaced_and_the_old_one_kept() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config/topics.json");
        assert_eq!(load_with(&path, text).unwrap(), None);
        save_bytes(&path, b"{1}").unwrap();
        save_bytes(&path, b"{2}").unwrap();
        save_bytes(&path, b"{3}").unwrap();
        assert_eq!(load_with(&path, text).unwrap().unwrap(), "{3}");
        assert_eq!(std::fs::read(backup(&path)).unwrap(), b"{2}");
        assert_eq!(std::fs::read_dir(dir.path().join("config")).unwrap().count(), 2);
    }

    #[test]
    fn a_damaged_table_falls_back_and_two_damaged_ones_are_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        save_bytes(&path, b"{old}").unwrap();
        save_bytes(&path, b"{new}").unwrap();
        for damage in [&b""[..], b"{new", b"\0\0\0", b"\xFF\xFE{}", b"  "] {
            std::fs::write(&path, damage).unwrap();
            assert_eq!(load_with(&path, text).unwrap().unwrap(), "{old}", "{damage:?}");
        }
        std::fs::write(backup(&path), b"{").unwrap();
        let error = load_with(&path, text).unwrap_err().to_string();
        assert!(error.contains("t.json"), "{error}");
        std::fs::remove_file(backup(&path)).unwrap();
        assert!(load_with(&path, text).is_err());
    }

    #[test]
    fn the_backup_is_not_touched_before_the_new_table_is_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        std::fs::write(&path, b"{damaged").unwrap();
        // A backup that cannot be replaced shows what happens before it is.
        std::fs::create_dir_all(backup(&path).join("x")).unwrap();
        assert!(save_bytes(&path, b"{new}").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"{new}");
    }

    #[test]
    fn an_empty_table_does_not_become_the_backup() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        save_bytes(&path, b"{old}").unwrap();
        save_bytes(&path, b"{new}").unwrap();
        std::fs::write(&path, b"").unwrap();
        save_bytes(&path, b"{newest}").unwrap();
        assert_eq!(std::fs::read(backup(&path)).unwrap(), b"{old}");
    }

    /// K28
    #[test]
    fn k28_a_table_that_was_not_loaded_is_not_saved() {
        let dir = tempfile::tempdir().unwrap();
        let table = Table::new(dir.path().join("t.json"));
        assert!(table.save(&1).is_err());
        assert!(!table.path().exists());
    }

    /// K27: cut at each of its last 200 bytes, and every state that a killed saver leaves.
    #[test]
    fn k27_no_damage_and_no_interrupted_save_loses_a_table() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.json");
        let table = |n: usize| format!("{{{}}}", format!("{n};").repeat(150)).into_bytes();
        let now = || load_with(&path, text).unwrap().unwrap().into_bytes();
        save_bytes(&path, &table(1)).unwrap();
        save_bytes(&path, &table(2)).unwrap();
        for len in table(2).len() - 200..table(2).len() {
            std::fs::write(&path, &table(2)[..len]).unwrap();
            assert_eq!(now(), table(1), "{len}");
        }
        // Killed with the new table half written, written, linked, in place, and with the copy replaced.
        let (temporary, old) = (beside(&path, ".tmp"), beside(&path, ".old"));
        std::fs::write(&path, table(2)).unwrap();
        for half in [0, 100, table(3).len()] {
            std::fs::write(&temporary, &table(3)[..half]).unwrap();
            assert_eq!(now(), table(2));
        }
        std::fs::hard_link(&path, &old).unwrap();
        assert_eq!(now(), table(2));
        std::fs::rename(&temporary, &path).unwrap();
        assert_eq!(now(), table(3));
        std::fs::rename(&old, backup(&path)).unwrap();
        assert_eq!(now(), table(3));
        std::fs::write(&path, b"").unwrap();
        assert_eq!(now(), table(2));
        // What such a kill left behind is in nobody's way.
        std::fs::write(&temporary, b"{").unwrap();
        std::fs::write(&old, b"{").unwrap();
        save_bytes(&path, &table(4)).unwrap();
        assert_eq!(now(), table(4));
    }
}
