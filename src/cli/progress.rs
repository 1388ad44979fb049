//! Progress of a long work, on stderr: one line that is rewritten while somebody watches, else a line every five seconds.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::session::Session;
use super::time;

/// Pause between two rewritings.
const REWRITE: Duration = Duration::from_millis(200);

/// Pause between two lines where nobody watches.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// When the next line of a long work is due: every five seconds, and not before the first five are over.
#[derive(Debug)]
pub struct Pulse {
    last: Instant,
    every: Duration,
}

impl Default for Pulse {
    fn default() -> Self {
        Self {
            last: Instant::now(),
            every: LINE_EVERY,
        }
    }
}

impl Pulse {
    /// True once in every span.
    pub fn is_due(&mut self) -> bool {
        let due = self.last.elapsed() >= self.every;
        if due {
            self.last = Instant::now();
        }
        due
    }
}

/// Where lines of progress go that nobody watches: `None` when they are not wanted, or when a person at the terminal or the
/// dashboard sees more than lines.
pub fn lines(session: &Session) -> Option<Pulse> {
    let wanted = session.desk().is_none() && !session.is_quiet();
    (wanted && !std::io::stderr().is_terminal()).then(Pulse::default)
}

/// One line on stderr.
pub fn say(line: &str) {
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Counts what is done. Says nothing in the first second: most work is over by then.
#[derive(Debug)]
pub struct Progress {
    what: String,
    total: Option<u64>,
    done: u64,
    started: Instant,
    told: Instant,
    /// Lines, where nobody watches.
    pulse: Option<Pulse>,
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
            pulse: lines(session),
            shown: session.draws_progress(),
            drawn: false,
        }
    }

    /// So much more is done.
    pub fn add(&mut self, more: u64) {
        self.done += more;
        let took = self.started.elapsed();
        let line = |of: &Self| line(&of.what, of.done, of.total, took, &|n| n.to_string());
        if let Some(pulse) = &mut self.pulse {
            if pulse.is_due() {
                say(&line(self));
            }
            return;
        }
        if !self.shown || self.told.elapsed() < REWRITE || took < Duration::from_secs(1) {
            return;
        }
        self.told = Instant::now();
        let line = line(self);
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

/// How far, how fast and how long still; `shown` writes a number.
pub fn line(
    what: &str,
    done: u64,
    total: Option<u64>,
    took: Duration,
    shown: &dyn Fn(u64) -> String,
) -> String {
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let speed = shown(rate.round() as u64);
    match total {
        Some(total) => {
            let left = total.saturating_sub(done) as f64;
            let eta = if rate > 0.0 {
                time::duration(Duration::from_secs((left / rate) as u64))
            } else {
                "unknown".into()
            };
            format!("{what}: {}/{}, {speed}/s, {eta} left", shown(done), shown(total))
        }
        None => format!("{what}: {}, {speed}/s", shown(done)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_how_fast_and_how_long() {
        let plain = |n: u64| n.to_string();
        let text = line("resend", 50, Some(200), Duration::from_secs(5), &plain);
        assert_eq!(text, "resend: 50/200, 10/s, 15s left");
        let text = line("scan", 50, None, Duration::from_secs(5), &plain);
        assert_eq!(text, "scan: 50, 10/s");
    }

    /// Section 4 of the specification: a line every five seconds, the first after five.
    #[test]
    fn a_pulse_waits_its_time() {
        assert_eq!(Pulse::default().every, Duration::from_secs(5));
        let mut pulse = Pulse::default();
        assert!(!pulse.is_due());
        pulse.every = Duration::ZERO;
        assert!(pulse.is_due());
        pulse.every = Duration::from_secs(60);
        assert!(!pulse.is_due());
    }
}
