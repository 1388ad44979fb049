//! What a repair did, one line a deed, written before the deed; and the way back.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::plan::state;
use super::{State, changed};
use crate::inspect::info::info;
use crate::inspect::{Error, Store, io_error};
use crate::store::rebuild::{self, Guard};

/// Name of the journal in the directory of what was kept.
pub(super) const NAME: &str = "journal.jsonl";

/// One deed. The paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "deed", rename_all = "kebab-case")]
pub(super) enum Deed {
    /// What follows was done to this store.
    Begun {
        /// Its root.
        store: PathBuf,
    },
    /// A file or directory was moved.
    Moved {
        /// Where it was.
        from: PathBuf,
        /// Where it is.
        to: PathBuf,
    },
    /// The end of a file was zeroed; what it held is kept.
    Cleared {
        /// The file.
        file: PathBuf,
        /// From here on.
        at: u64,
        /// The bytes that were there, zeros at their end left out.
        kept: PathBuf,
    },
    /// A file was made longer.
    Extended {
        /// The file.
        file: PathBuf,
        /// Its length before.
        from: u64,
    },
    /// A new file was put where none was.
    Made {
        /// The file.
        file: PathBuf,
    },
    /// From here on, the deeds before are being taken back.
    Undoing,
    /// All is done; the store is like this now.
    Finished {
        /// How it is.
        state: State,
    },
}

/// The directory of what was kept.
#[derive(Debug)]
pub(super) struct Kept {
    dir: PathBuf,
    journal: File,
}

impl Kept {
    /// Makes the directory, under the store's root.
    pub(super) fn create(root: &Path, name: &str) -> Result<Self, Error> {
        let dir = root.join(name);
        std::fs::create_dir(&dir).map_err(io_error("create", &dir))?;
        let path = dir.join(NAME);
        let journal = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(io_error("create", &path))?;
        rebuild::sync_dir(&dir)?;
        rebuild::sync_dir(root)?;
        let mut kept = Self { dir, journal };
        kept.note(&Deed::Begun {
            store: root.to_owned(),
        })?;
        Ok(kept)
    }

    /// To go on with the journal of an earlier run.
    fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(NAME);
        let journal = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(io_error("open", &path))?;
        Ok(Self {
            dir: dir.to_owned(),
            journal,
        })
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn note(&mut self, deed: &Deed) -> Result<(), Error> {
        let path = self.dir.join(NAME);
        let mut line = serde_json::to_vec(deed)
            .map_err(std::io::Error::from)
            .map_err(io_error("write", &path))?;
        line.push(b'\n');
        self.journal
            .write_all(&line)
            .and_then(|()| self.journal.sync_data())
            .map_err(io_error("write", &path))
    }

    /// Moves a file or directory.
    pub(super) fn move_to(&mut self, from: &Path, to: &Path) -> Result<(), Error> {
        self.note(&Deed::Moved {
            from: from.to_owned(),
            to: to.to_owned(),
        })?;
        rename(from, to)
    }

    /// Moves a file or directory of the store out of the way, to the same place under what is kept.
    pub(super) fn keep(&mut self, root: &Path, path: &Path) -> Result<(), Error> {
        let name = path.strip_prefix(root).map(Path::to_owned).unwrap_or_else(|_| {
            // A commit log elsewhere.
            Path::new("commitlog").join(path.file_name().unwrap_or_default())
        });
        let to = self.dir.join("old").join(name);
        self.move_to(path, &to)
    }
}

/// Moves what is there, with the names on the disk afterwards.
fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    if let Some(parent) = to.parent() {
        std::fs::create_dir_all(parent).map_err(io_error("create", parent))?;
    }
    match std::fs::rename(from, to) {
        Ok(()) => {}
        Err(e) if e.kind() == std::io::ErrorKind::CrossesDevices => {
            std::fs::copy(from, to)
                .and_then(|_| File::open(to)?.sync_all())
                .and_then(|()| std::fs::remove_file(from))
                .map_err(io_error("move", from))?;
        }
        Err(e) => return Err(io_error("move", from)(e)),
    }
    for dir in [from.parent(), to.parent()].into_iter().flatten() {
        rebuild::sync_dir(dir)?;
    }
    Ok(())
}

/// Takes back what a repair did, the last deed first. `kept` is the directory that it left. Returns how many deeds.
pub fn undo(store: &Store, kept: &Path) -> Result<u64, Error> {
    let _guard = Guard::take(store.root())?;
    let path = kept.join(NAME);
    let text = std::fs::read_to_string(&path).map_err(io_error("read", &path))?;
    let mut deeds = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        match serde_json::from_str::<Deed>(line) {
            Ok(deed) => deeds.push(deed),
            // A last line that a crash cut short was not followed by its deed.
            Err(_) if lines.peek().is_none() => {}
            Err(e) => return Err(changed(&format!("{} cannot be read: {e}", path.display()))),
        }
    }
    let root = std::path::absolute(store.root()).map_err(io_error("find", store.root()))?;
    match deeds.first() {
        Some(Deed::Begun { store }) if *store == root => {}
        Some(Deed::Begun { store }) => {
            let (store, root) = (store.display(), root.display());
            return Err(changed(&format!("the repair was one of {store}, not of {root}")));
        }
        _ => {
            return Err(changed(&format!(
                "{} does not say of which store it is",
                path.display()
            )));
        }
    }
    if let Some(Deed::Finished { state: then }) = deeds.last()
        && state(&info(store)?) != *then
    {
        return Err(changed(
            "the store is not as the repair left it: a broker has run on it since",
        ));
    }
    // A broker may have run on what an unfinished repair left: nothing is written over what it stored.
    for (n, deed) in deeds.iter().enumerate() {
        check(deed, &deeds[n + 1..])?;
    }
    Kept::open(kept)?.note(&Deed::Undoing)?;
    let mut undone = 0;
    for deed in deeds.iter().rev() {
        undone += u64::from(take_back(deed, kept)?);
    }
    // What a second attempt would find.
    let done = kept.join("undone.jsonl");
    rename(&path, &done)?;
    Ok(undone)
}

/// An error when taking a deed back would destroy what came since: bytes behind the end of a log or queue that are neither
/// zero nor what was there before the repair, which a clear or an undo that was cut short leaves; or a file that was moved
/// away and is there again, though no `later` deed put it there.
fn check(deed: &Deed, later: &[Deed]) -> Result<(), Error> {
    let puts = |path: &Path, deed: &Deed| match deed {
        Deed::Made { file } | Deed::Moved { to: file, .. } => file.starts_with(path),
        _ => false,
    };
    let (file, at, before) = match deed {
        Deed::Cleared { file, at, kept } => {
            let before = std::fs::read(kept).map_err(io_error("read", kept))?;
            (file, *at, before)
        }
        Deed::Extended { file, from } => (file, *from, Vec::new()),
        Deed::Moved { from, to }
            if from.exists() && to.exists() && !later.iter().any(|deed| puts(from, deed)) =>
        {
            let (from, to) = (from.display(), to.display());
            return Err(changed(&format!("{from} is there again, beside {to}")));
        }
        _ => return Ok(()),
    };
    let open = File::open(file).map_err(io_error("open", file))?;
    let len = open.metadata().map_err(io_error("inspect", file))?.len();
    let end = rebuild::data_end(&open, at, len).map_err(io_error("read", file))?;
    let mut there = vec![0; before.len()];
    let read = rebuild::read_at_most(&open, &mut there, at).map_err(io_error("read", file))?;
    let mut both = there[..read].iter().zip(&before);
    if end > at + before.len() as u64 || both.any(|(there, before)| *there != 0 && there != before) {
        let file = file.display();
        return Err(changed(&format!(
            "{file} has new messages behind {at}: a broker has run on it since"
        )));
    }
    Ok(())
}

/// True when there was something to take back.
fn take_back(deed: &Deed, kept_in: &Path) -> Result<bool, Error> {
    match deed {
        Deed::Moved { from, to } if to.exists() => {
            if from.exists() {
                let (from, to) = (from.display(), to.display());
                return Err(changed(&format!("{from} is there again, beside {to}")));
            }
            rename(to, from)?;
            return Ok(true);
        }
        Deed::Cleared { file, at, kept } => {
            let bytes = std::fs::read(kept).map_err(io_error("read", kept))?;
            let out = OpenOptions::new().write(true).open(file);
            out.and_then(|out| {
                out.write_all_at(&bytes, *at)?;
                out.sync_data()
            })
            .map_err(io_error("write", file))?;
            return Ok(true);
        }
        Deed::Extended { file, from } => {
            let out = OpenOptions::new().write(true).open(file);
            out.and_then(|out| {
                out.set_len(*from)?;
                out.sync_all()
            })
            .map_err(io_error("shorten", file))?;
            return Ok(true);
        }
        // Kept, since a broker may have written it again.
        Deed::Made { file } if file.exists() => {
            let name = file.file_name().unwrap_or_default();
            rename(file, &kept_in.join("made").join(name))?;
            return Ok(true);
        }
        Deed::Moved { .. }
        | Deed::Made { .. }
        | Deed::Begun { .. }
        | Deed::Undoing
        | Deed::Finished { .. } => {}
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What stands behind the end of a log is only taken for ours while it is zeros or what was there before.
    #[test]
    fn undo_writes_over_nothing_that_came_since() {
        let dir = tempfile::tempdir().unwrap();
        let (file, kept) = (dir.path().join("log"), dir.path().join("kept"));
        std::fs::write(&kept, [7; 100]).unwrap();
        let cleared = Deed::Cleared {
            file: file.clone(),
            at: 1000,
            kept,
        };
        let extended = Deed::Extended {
            file: file.clone(),
            from: 1000,
        };
        let with = |tail: &[u8]| {
            let mut bytes = vec![1; 4096];
            bytes[1000..].fill(0);
            bytes[1000..1000 + tail.len()].copy_from_slice(tail);
            std::fs::write(&file, bytes).unwrap();
        };
        let half = [[0; 50], [7; 50]].concat();
        for tail in [&[][..], &[7; 100], &half, &[7; 50]] {
            with(tail);
            assert!(check(&cleared, &[]).is_ok(), "{tail:?}");
        }
        for tail in [&[7; 101][..], &[8; 10]] {
            with(tail);
            assert!(check(&cleared, &[]).is_err(), "{tail:?}");
        }
        with(&[]);
        assert!(check(&extended, &[]).is_ok());
        with(&[0, 0, 9]);
        assert!(check(&extended, &[]).is_err());
        let moved = Deed::Moved {
            from: file.clone(),
            to: dir.path().join("kept"),
        };
        assert!(check(&moved, &[]).is_err());
        assert!(check(&moved, &[Deed::Made { file }]).is_ok());
    }
}
