//! Small files that are replaced as a whole, and names that must last: what tables, configuration and the store share.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// An operation on a file failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what} {}: {source}", path.display())]
pub struct Error {
    /// The operation, as a verb.
    pub what: &'static str,
    /// The file or directory.
    pub path: PathBuf,
    /// The system's reason.
    pub source: io::Error,
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error { what, path, source }
}

/// The path with something behind its name.
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Puts `bytes` in the place of `path` whole: a new file is written and flushed, the old one kept as `.bak`, and the
/// directory flushed. The old `.bak` goes only when the new file is in its place: should the old file be damaged, it is
/// needed until then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let (fresh, old, kept) = (beside(path, ".tmp"), beside(path, ".old"), beside(path, ".bak"));
    let dir = match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    };
    create_dir(dir)?;
    let mut file = File::create(&fresh).map_err(failed("create", &fresh))?;
    file.write_all(bytes).map_err(failed("write", &fresh))?;
    file.sync_all().map_err(failed("flush", &fresh))?;
    // A second name for the old file, so that `path` exists at every moment. One without bytes is no copy to keep.
    let keeps_old = fs::metadata(path).is_ok_and(|meta| meta.len() > 0);
    if keeps_old {
        let _ = fs::remove_file(&old);
        fs::hard_link(path, &old)
            .or_else(|_| fs::copy(path, &old).map(drop))
            .map_err(failed("keep a copy of", path))?;
    }
    fs::rename(&fresh, path).map_err(failed("rename", &fresh))?;
    if keeps_old {
        fs::rename(&old, &kept).map_err(failed("rename", &old))?;
    }
    sync_dir(dir)
}

/// Makes created, renamed and deleted names of a directory durable.
pub fn sync_dir(path: &Path) -> Result<(), Error> {
    File::open(path)
        .and_then(|dir| dir.sync_all())
        .map_err(failed("flush", path))
}

/// Creates a directory and its parents; the names of those that are new are flushed.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    let missing = path.ancestors().take_while(|dir| !dir.exists()).count();
    if missing == 0 {
        return Ok(());
    }
    fs::create_dir_all(path).map_err(failed("create", path))?;
    path.ancestors().skip(1).take(missing).try_for_each(|parent| {
        // A relative path ends with an empty one.
        sync_dir(if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        })
    })
}
