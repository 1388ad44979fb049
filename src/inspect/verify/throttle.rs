//! A limit on how much is read in a second, shared by all threads of a pass.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest sleep before it looks whether the pass was given up.
const NAP: Duration = Duration::from_millis(100);

/// The limit.
#[derive(Debug)]
pub(super) struct Throttle {
    bytes_per_second: Option<u64>,
    begun: Instant,
    taken: AtomicU64,
}

impl Throttle {
    pub(super) fn new(bytes_per_second: Option<u64>) -> Self {
        Self {
            bytes_per_second: bytes_per_second.map(|rate| rate.max(1)),
            begun: Instant::now(),
            taken: AtomicU64::new(0),
        }
    }

    /// Notes that so much was read, and sleeps when that was too fast.
    pub(super) fn took(&self, bytes: u64, cancelled: &AtomicBool) {
        let Some(rate) = self.bytes_per_second else { return };
        let taken = self.taken.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let due = Duration::from_secs_f64(taken as f64 / rate as f64);
        while !cancelled.load(Ordering::Relaxed) {
            let early = due.saturating_sub(self.begun.elapsed());
            if early.is_zero() {
                return;
            }
            std::thread::sleep(early.min(NAP));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_is_slowed_to_the_rate() {
        let throttle = Throttle::new(Some(1_000_000));
        let cancelled = AtomicBool::new(false);
        let begun = Instant::now();
        for _ in 0..10 {
            throttle.took(5_000, &cancelled);
        }
        assert!(begun.elapsed() >= Duration::from_millis(49));
        cancelled.store(true, Ordering::Relaxed);
        throttle.took(u64::from(u32::MAX), &cancelled);
        Throttle::new(None).took(u64::MAX, &AtomicBool::new(false));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}
