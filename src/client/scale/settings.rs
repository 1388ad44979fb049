//! How long a way waits for what.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Which half of the way is gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// All of it.
    #[default]
    All,
    /// Only the number of write queues is changed.
    Write,
    /// Only the number of read queues is changed.
    Read,
}

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Settings {
    /// Which half of the way.
    pub phase: Phase,
    /// Longest wait for clients to own raised queues.
    pub rebalance_wait: Duration,
    /// Time for producers to see a smaller number.
    pub producer_wait: Duration,
    /// How long the drained queues must stand still.
    pub still: Duration,
    /// How long the backlog must have been gone where pop clients may hold messages.
    pub pop_wait: Duration,
    /// Longest wait for messages in new queues.
    pub verify_wait: Duration,
    /// End of all waiting.
    pub deadline: Duration,
    /// A group that has a backlog and does not move for so long ends the wait.
    pub stall: Duration,
    /// Pause between two looks.
    pub pause: Duration,
    /// Groups that are not waited for.
    pub ignored: BTreeSet<String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            phase: Phase::All,
            // Java's clients fetch routes every 30 s and rebalance every 20 s.
            rebalance_wait: Duration::from_secs(60),
            producer_wait: Duration::from_secs(60),
            still: Duration::from_secs(30),
            // Default invisible time of Java's pop clients.
            pop_wait: Duration::from_secs(60),
            verify_wait: Duration::from_secs(30),
            deadline: Duration::from_secs(3600),
            stall: Duration::from_secs(300),
            pause: Duration::from_secs(2),
            ignored: BTreeSet::new(),
        }
    }
}

/// The waits that somebody named; all others stay as they are, at the defaults or as an interrupted way had them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overrides {
    /// See [`Settings::rebalance_wait`].
    pub rebalance_wait: Option<Duration>,
    /// See [`Settings::producer_wait`].
    pub producer_wait: Option<Duration>,
    /// See [`Settings::still`].
    pub still: Option<Duration>,
    /// See [`Settings::pop_wait`].
    pub pop_wait: Option<Duration>,
    /// See [`Settings::verify_wait`].
    pub verify_wait: Option<Duration>,
    /// See [`Settings::deadline`].
    pub deadline: Option<Duration>,
    /// See [`Settings::stall`].
    pub stall: Option<Duration>,
    /// Groups that are not waited for either.
    pub ignored: BTreeSet<String>,
}

impl Settings {
    /// These settings with what was named; the pause between looks follows the stillness.
    #[must_use]
    pub fn with(mut self, named: &Overrides) -> Self {
        let set = |wait: &mut Duration, named: Option<Duration>| *wait = named.unwrap_or(*wait);
        set(&mut self.rebalance_wait, named.rebalance_wait);
        set(&mut self.producer_wait, named.producer_wait);
        set(&mut self.still, named.still);
        set(&mut self.pop_wait, named.pop_wait);
        set(&mut self.verify_wait, named.verify_wait);
        set(&mut self.deadline, named.deadline);
        set(&mut self.stall, named.stall);
        self.ignored.extend(named.ignored.iter().cloned());
        self.pause = (self.still / 4).clamp(Duration::from_millis(200), Duration::from_secs(2));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let first = Settings::default().with(&Overrides {
            producer_wait: Some(Duration::from_secs(7)),
            still: Some(Duration::from_secs(4)),
            ignored: ["A".to_owned()].into(),
            ..Overrides::default()
        });
        assert_eq!(first.pause, Duration::from_secs(1));
        let resumed = first.clone().with(&Overrides {
            deadline: Some(Duration::from_secs(9)),
            ignored: ["B".to_owned()].into(),
            ..Overrides::default()
        });
        let expected = Settings {
            deadline: Duration::from_secs(9),
            ignored: ["A".to_owned(), "B".to_owned()].into(),
            ..first
        };
        assert_eq!(resumed, expected);
    }
}
