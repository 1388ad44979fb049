//! Touches the log ahead of a walk over it, on a thread of its own: waiting for the disk and looking at records overlap,
//! which is most of the time of a start that reads the whole log.

use std::fs::File;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::segments::{LogBytes as _, Segments, touch};

/// How far the touching is ahead at most, in bytes.
const AHEAD: u64 = 64 * 1024 * 1024;
/// Bytes touched between two looks at the walk.
const STEP: usize = 1024 * 1024;
/// How often the walk is looked at by a thread that is far enough ahead of it.
const LOOK: Duration = Duration::from_millis(1);

/// Where a walk is.
#[derive(Debug)]
pub struct Walking {
    at: AtomicU64,
    done: AtomicBool,
}

impl Walking {
    /// Notes that the walk has come to an offset.
    pub fn reached(&self, at: u64) {
        self.at.store(at, Ordering::Relaxed);
    }

    fn touch_ahead(&self, log: &Segments) {
        let mut at = self.at.load(Ordering::Relaxed);
        let mut written = Written::default();
        while !self.done.load(Ordering::Acquire) && at < log.mapped_end() {
            let walk = self.at.load(Ordering::Relaxed);
            at = at.max(walk);
            if at - walk > AHEAD {
                thread::park_timeout(LOOK);
                continue;
            }
            let Some(data) = written.at(log, at) else {
                // Not there, or never written: whoever touched a hole would make pages of it.
                at = log.file_end(at);
                continue;
            };
            at = match log.window(data.start, 1) {
                Some(bytes) => {
                    let step = usize::try_from(data.end - data.start)
                        .unwrap_or(STEP)
                        .min(STEP)
                        .min(bytes.len());
                    touch(&bytes[..step]);
                    data.start + step as u64
                }
                None => log.file_end(at),
            };
        }
    }
}

/// Where the log has data, as the file system tells; a log without holes where it does not.
#[derive(Debug, Default)]
struct Written {
    /// The file looked at last, and its first offset.
    open: Option<(u64, File)>,
}

impl Written {
    /// The data at or behind `at` in the same file.
    fn at(&mut self, log: &Segments, at: u64) -> Option<Range<u64>> {
        let segment = log.files().rfind(|file| file.base <= at)?;
        let (base, end) = (segment.base, segment.base + segment.len);
        if self.open.as_ref().is_none_or(|(of, _)| *of != base) {
            self.open = Some((base, File::open(&segment.path).ok()?));
        }
        let (_, file) = self.open.as_ref()?;
        let start = match rustix::fs::seek(file, SeekFrom::Data(at - base)) {
            Ok(data) => base + data,
            Err(Errno::NXIO) => return None,
            Err(_) => return (at < end).then_some(at..end),
        };
        let hole = rustix::fs::seek(file, SeekFrom::Hole(start - base)).map_or(end, |hole| base + hole);
        Some(start..hole.min(end)).filter(|data| !data.is_empty())
    }
}

/// Ends the touching however the walk ends.
struct Done<'a>(&'a Walking);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.done.store(true, Ordering::Release);
    }
}

/// Runs a walk that begins at `from`, with the log touched ahead of it.
pub fn ahead_of<T>(log: &Segments, from: u64, walk: impl FnOnce(&Walking) -> T) -> T {
    let walking = Walking {
        at: AtomicU64::new(from),
        done: AtomicBool::new(false),
    };
    thread::scope(|scope| {
        let _done = Done(&walking);
        // Without a thread the walk is slower, and as right.
        let _ = thread::Builder::new()
            .name("rmq-warm".into())
            .spawn_scoped(scope, || walking.touch_ahead(log));
        walk(&walking)
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use super::super::segments::SegmentFile;
    use super::*;

    #[test]
    fn only_what_was_written_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("00000000000000000000");
        let file = File::create_new(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 8192], 0).unwrap();
        file.write_all_at(&[1; 4096], 512 * 1024).unwrap();
        let len = 1 << 20;
        let segments = Segments::new(vec![SegmentFile { base: 0, path, len }], len, false);
        let mut written = Written::default();
        assert_eq!(written.at(&segments, 100), Some(100..8192));
        assert_eq!(written.at(&segments, 8192), Some(512 * 1024..516 * 1024));
        assert_eq!(written.at(&segments, 516 * 1024), None);
    }
}
