//! Waiting for a condition, with a deadline.

use std::time::{Duration, Instant};

/// Asks `condition` until it gives a value; fails the test, naming `what`, when that takes longer than `limit`.
pub fn until<T>(what: &str, limit: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(begin.elapsed() < limit, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// `until` for a plain yes or no.
pub fn until_true(what: &str, limit: Duration, mut condition: impl FnMut() -> bool) {
    until(what, limit, || condition().then_some(()));
}
