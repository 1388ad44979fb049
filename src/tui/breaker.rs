//! When to leave a silent server alone.

use std::time::Duration;

use tokio::time::Instant;

/// Longest rest after failures.
const LONGEST: Duration = Duration::from_secs(30);
/// Opens on a failure: the server is left alone for 1, 2, 4 … 30 s, then probed by a single call.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Breaker {
    failures: u32,
    until: Option<Instant>,
}

impl Breaker {
    /// One more failure at `now`; `jitter` from 0 to 1 spreads many consoles. Returns the rest.
    pub fn fail(&mut self, now: Instant, jitter: f64) -> Duration {
        let doubled = Duration::from_secs(1 << self.failures.min(5)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        let rest = doubled.mul_f64(0.8 + 0.2 * jitter.clamp(0.0, 1.0));
        self.until = Some(now + rest);
        rest
    }

    /// An answer came.
    pub fn succeed(&mut self) {
        *self = Self::default();
    }

    /// Probe at the next opportunity, rest or not.
    pub fn hurry(&mut self) {
        self.until = None;
    }

    /// True after a failure: only the probe is sent.
    pub const fn is_open(&self) -> bool {
        self.failures > 0
    }

    /// When the rest ends.
    pub const fn rests_until(&self) -> Option<Instant> {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_thirty_seconds() {
        let now = Instant::now();
        let mut b = Breaker::default();
        let rests: Vec<u64> = (0..8).map(|_| b.fail(now, 1.0).as_secs()).collect();
        assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert!(b.is_open());
        b.hurry();
        assert_eq!((b.rests_until(), b.is_open()), (None, true));
        b.succeed();
        assert_eq!(b.fail(now, 0.0), Duration::from_millis(800));
    }
}
