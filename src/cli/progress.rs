//! Progress of a long work, on stderr: one line that is rewritten while somebody watches, nothing elsewhere.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::session::Session;
use super::time;

/// Pause between two rewritings.
const REWRITE: Duration = Duration::from_millis(200);

/// Counts what is done. Says nothing in the first second: most work is over by then.
#[derive(Debug)]
pub struct Progress {
    what: String,
    total: Option<u64>,
    done: u64,
    started: Instant,
    told: Instant,
    shown: bool,
    drawn: bool,
}

impl Progress {
    /// Begins. `what` names the work, such as `resend`.
    pub fn new(session: &Session, what: &str, total: Option<u64>) -> Self {
        let now = Instant::now();
        Self {
            what: what.to_owned(),
            total,
            done: 0,
            started: now,
            told: now,
            // The dashboard has lines of progress of its own.
            shown: session.desk().is_none() && session.shows_progress(),
            drawn: false,
        }
    }

    /// So much more is done.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        if !self.shown || self.told.elapsed() < REWRITE || self.started.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.told = Instant::now();
        let line = line(&self.what, self.done, self.total, self.started.elapsed());
        let mut err = std::io::stderr().lock();
        self.drawn = true;
        // A closed stderr leaves nobody to tell.
        let _ = write!(err, "\r\x1b[2K{line}").and_then(|()| err.flush());
    }

    /// Takes the line away.
    pub fn finish(&mut self) {
        if self.drawn {
            let mut err = std::io::stderr().lock();
            let _ = write!(err, "\r\x1b[2K").and_then(|()| err.flush());
            self.drawn = false;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

fn line(what: &str, done: u64, total: Option<u64>, took: Duration) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    match total {
        Some(total) => {
            let left = total.saturating_sub(done) as f64;
            let eta = if rate > 0.0 {
                time::duration(Duration::from_secs((left / rate) as u64))
            } else {
                "unknown".into()
            };
            format!("{what}: {done}/{total}, {rate:.0}/s, {eta} left")
        }
        None => format!("{what}: {done}, {rate:.0}/s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let text = line("resend", 50, Some(200), Duration::from_secs(5));
        assert_eq!(text, "resend: 50/200, 10/s, 15s left");
        assert_eq!(line("scan", 50, None, Duration::from_secs(5)), "scan: 50, 10/s");
    }
}
