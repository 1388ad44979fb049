//! How the store's threads sleep: parked while there is nothing to do, woken without a system call when they are not.

use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::Duration;

/// Lets one thread sleep until another has work for it.
#[derive(Debug, Default)]
pub struct Waker {
    parked: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Waker {
    /// Wakes the thread if it sleeps. What it shall see must have been stored before.
    pub fn wake(&self) {
        // Pairs with the fence in park(): either the sleeper sees the work or we see the sleeper.
        fence(Ordering::SeqCst);
        if self.parked.load(Ordering::Relaxed)
            && self.parked.swap(false, Ordering::Relaxed)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }

    /// Sleeps until [`Self::wake`] or the timeout, unless `ready`. Always called by the same thread. May return
    /// early.
    pub fn park(&self, timeout: Option<Duration>, ready: impl Fn() -> bool) {
        self.thread.get_or_init(thread::current);
        self.parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if !ready() {
            match timeout {
                Some(timeout) => thread::park_timeout(timeout),
                None => thread::park(),
            }
        }
        self.parked.store(false, Ordering::Relaxed);
    }
}

/// The order to stop, and sleeps that it cuts short.
#[derive(Debug, Default)]
pub struct Stop {
    stopped: Mutex<bool>,
    told: Condvar,
    seen: AtomicBool,
}

impl Stop {
    /// Gives the order.
    pub fn stop(&self) {
        *self.stopped.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.seen.store(true, Ordering::SeqCst);
        self.told.notify_all();
    }

    /// True once the order was given.
    pub fn is_stopped(&self) -> bool {
        self.seen.load(Ordering::SeqCst)
    }

    /// Sleeps for `time`; true when the order came.
    pub fn sleep(&self, time: Duration) -> bool {
        let stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let (stopped, _) = self
            .told
            .wait_timeout_while(stopped, time, |stopped| !*stopped)
            .unwrap_or_else(PoisonError::into_inner);
        *stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn no_wake_is_lost() {
        let shared = Arc::new((Waker::default(), AtomicUsize::new(0), AtomicUsize::new(0)));
        let sleeper = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (waker, work, done) = &*shared;
                while done.load(Ordering::SeqCst) < 20_000 {
                    let now = work.load(Ordering::Acquire);
                    done.store(now, Ordering::SeqCst);
                    waker.park(None, || work.load(Ordering::Relaxed) > now || now == 20_000);
                }
            })
        };
        for n in 1..=20_000 {
            shared.1.store(n, Ordering::Release);
            shared.0.wake();
        }
        sleeper.join().unwrap();
    }

    #[test]
    fn a_stop_cuts_a_sleep_short() {
        let stop = Arc::new(Stop::default());
        assert!(!stop.sleep(Duration::from_millis(1)));
        let other = Arc::clone(&stop);
        let sleeper = thread::spawn(move || other.sleep(Duration::from_secs(60)));
        stop.stop();
        assert!(sleeper.join().unwrap() && stop.is_stopped());
    }
}
