//! The lock that keeps a second broker off a store: a POSIX record lock on the file `lock`, as the Java broker takes
//! one on its first byte, and a `flock` besides.
//!
//! A record lock belongs to the process and is lost when the process closes *any* descriptor of the file. So the file
//! is opened only here, and a list of held locks answers for a second open within the process.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::Error;
use super::disk::io_error;

const CONTENT: &[u8] = b"lock";

/// How long a `flock` alone may be in the way. A process that this one starts has copies of our descriptors until it
/// executes its program, so a lock just given up can be held by such a child for a moment.
const FORK_WINDOW: Duration = Duration::from_millis(500);

/// Device and inode of the locks that this process holds.
static HELD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

fn held() -> MutexGuard<'static, Vec<(u64, u64)>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

fn id(meta: &std::fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// Where the lock of a store is.
pub fn path(root: &Path) -> PathBuf {
    root.join("lock")
}

/// A held lock; dropping it lets others in.
#[derive(Debug)]
pub struct StoreLock {
    id: (u64, u64),
    /// There until the drop.
    file: Option<File>,
}

impl StoreLock {
    /// Takes the lock of a store without waiting for it.
    pub fn take(root: &Path) -> Result<Self, Error> {
        let path = path(root);
        let mut held = held();
        let known = std::fs::metadata(&path).ok().map(|meta| id(&meta));
        if known.is_some_and(|id| held.contains(&id)) {
            return Err(Error::Locked { path });
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(io_error("open", &path))?;
        let patient = || {
            let until = Instant::now() + FORK_WINDOW;
            loop {
                let locked = flock(&file, FlockOperation::NonBlockingLockExclusive);
                if locked != Err(Errno::AGAIN) || Instant::now() >= until {
                    return locked;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        // The record lock first: it is what a broker holds, and it is answered at once.
        let record = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
        for locked in [record, record.and_then(|()| patient())] {
            match locked {
                Ok(()) => {}
                Err(Errno::AGAIN | Errno::ACCESS) => return Err(Error::Locked { path }),
                Err(e) => return Err(io_error("lock", &path)(e.into())),
            }
        }
        let meta = file.metadata().map_err(io_error("inspect", &path))?;
        if meta.len() != CONTENT.len() as u64 {
            file.set_len(0)
                .and_then(|()| file.write_all_at(CONTENT, 0))
                .map_err(io_error("write", &path))?;
        }
        let id = id(&meta);
        held.push(id);
        Ok(Self { id, file: Some(file) })
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        // The list stays shut until the file is closed: closing it gives up every record lock of this process on it,
        // a newer one as well.
        let mut held = held();
        drop(self.file.take());
        held.retain(|id| *id != self.id);
    }
}

/// The process that holds a store: its id, 0 when it is out of sight (in another container). Asks the system who
/// would be in the way of a lock, and takes none.
pub fn holder(root: &Path) -> Option<u32> {
    let path = path(root);
    let meta = std::fs::metadata(&path).ok()?;
    // Closing a descriptor of the file gives up the lock of this process, so the list stays shut until that is done.
    let held = held();
    if held.contains(&id(&meta)) {
        return Some(std::process::id());
    }
    let wanted = Flock {
        start: 0,
        length: 1,
        ..Flock::from(FlockType::WriteLock)
    };
    match File::open(&path).map(|file| fcntl_getlk(&file, &wanted)) {
        Ok(Ok(found)) => found.map(|lock| {
            lock.pid
                .map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs())
        }),
        // No right to read the file, or a file system that does not tell.
        _ => parse_locks(&std::fs::read_to_string("/proc/locks").ok()?, &meta),
    }
}

fn parse_locks(text: &str, meta: &std::fs::Metadata) -> Option<u32> {
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let file = format!("{major:02x}:{minor:02x}:{}", meta.ino());
    text.lines().find_map(|line| {
        // 1: POSIX  ADVISORY  WRITE 1234 fe:00:5678 0 0
        let mut words = line.split_whitespace().skip(1);
        let (kind, _, mode, pid, which) = (
            words.next()?,
            words.next()?,
            words.next()?,
            words.next()?,
            words.next()?,
        );
        (kind == "POSIX" && mode == "WRITE" && which == file).then(|| pid.parse().ok())?
    })
}

/// Creates the root of a store and the lock in it, with errors that say what to do.
pub fn prepare_root(root: &Path) -> Result<StoreLock, Error> {
    if let Err(source) = std::fs::create_dir_all(root) {
        return Err(Error::Io {
            what: "create store directory",
            path: root.to_owned(),
            source,
        });
    }
    if !root.is_dir() {
        return Err(Error::Io {
            what: "use as store directory",
            path: root.to_owned(),
            source: io::Error::from(io::ErrorKind::NotADirectory),
        });
    }
    StoreLock::take(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_is_locked_once_and_free_again_after_the_drop() {
        let dir = tempfile::tempdir().unwrap();
        let lock = prepare_root(dir.path()).unwrap();
        assert!(matches!(StoreLock::take(dir.path()), Err(Error::Locked { .. })));
        assert_eq!(holder(dir.path()), Some(std::process::id()));
        let listed = std::fs::read_to_string("/proc/locks").unwrap();
        let meta = std::fs::metadata(path(dir.path())).unwrap();
        // Some sandboxes show no locks at all.
        if !listed.is_empty() {
            assert_eq!(parse_locks(&listed, &meta), Some(std::process::id()));
        }
        drop(lock);
        assert_eq!(holder(dir.path()), None);
        assert_eq!(std::fs::read(path(dir.path())).unwrap(), CONTENT);
        assert!(StoreLock::take(dir.path()).is_ok());
    }

    #[test]
    fn a_file_in_place_of_the_directory_is_a_clear_error() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("store");
        std::fs::write(&root, b"").unwrap();
        let error = prepare_root(&root).unwrap_err().to_string();
        assert!(
            error.contains("store directory") && error.contains("/store"),
            "{error}"
        );
    }
}
