//! Touches the log ahead of a walk over it, on a thread of its own: waiting for the disk and looking at records overlap,
//! which is most of the time of a start that reads the whole log.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

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
        while !self.done.load(Ordering::Acquire) && at < log.mapped_end() {
            let walk = self.at.load(Ordering::Relaxed);
            at = at.max(walk);
            if at - walk > AHEAD {
                thread::park_timeout(LOOK);
                continue;
            }
            at = match log.window(at, 1) {
                Some(bytes) => {
                    let step = bytes.len().min(STEP);
                    touch(&bytes[..step]);
                    at + step as u64
                }
                // Not there; the walk will say so.
                None => log.file_end(at),
            };
        }
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
