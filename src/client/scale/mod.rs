//! Changing the number of a topic's queues without losing or stranding a message.
//!
//! Consumers must read every queue that holds messages, so the numbers change in one order whatever the direction:
//!
//! ```text
//! raise read -> clients see it and own the queues -> set write -> producers see it -> drain -> lower read
//! ```
//!
//! Growing ends after `set write`, shrinking begins there. Draining waits until the queues that lose their readers
//! stand still, every group has read them, and nothing delayed, timed or half committed can land in them any more.
//! [`Machine`] decides, from what was seen, what to do next; it knows no clock and no network. [`run`](run::run) sees
//! and does.

pub mod machine;
pub mod marker;
pub mod observe;
pub mod pending;
pub mod run;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use machine::{End, Machine, Next, Step};

/// Queue numbers of a topic on one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// Queues that consumers read.
    pub read: i32,
    /// Queues that producers write.
    pub write: i32,
}

impl std::fmt::Display for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "read {} write {}", self.read, self.write)
    }
}

/// One broker's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnBroker {
    /// Numbers at the begin.
    pub before: Queues,
    /// Numbers wanted.
    pub target: Queues,
}

impl OnBroker {
    /// Queues read meanwhile: all that were or will be written or read.
    pub fn widest(&self) -> i32 {
        self.before.read.max(self.before.write).max(self.target.read)
    }

    /// Queues that lose their readers at the end.
    pub fn drained(&self) -> Range<i32> {
        self.target.read..self.widest()
    }

    /// Queues that producers get in addition.
    pub fn grown(&self) -> Range<i32> {
        self.before.write..self.target.write.max(self.before.write)
    }

    /// True when nothing has to be done.
    pub fn is_still(&self) -> bool {
        self.before == self.target
    }
}

/// What shall become of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Topic name.
    pub topic: String,
    /// By broker name.
    pub brokers: BTreeMap<String, OnBroker>,
}

impl Plan {
    /// True when some queues lose their readers.
    pub fn shrinks(&self) -> bool {
        self.brokers.values().any(|b| !b.drained().is_empty())
    }

    /// True when producers get queues in addition.
    pub fn grows(&self) -> bool {
        self.brokers.values().any(|b| !b.grown().is_empty())
    }

    /// The way back from wherever this plan stands.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let turn = |on: &OnBroker| OnBroker {
            // Queues up to the widest may be in use.
            before: Queues {
                read: on.widest(),
                write: on.target.write.max(on.before.write),
            },
            target: on.before,
        };
        Self {
            topic: self.topic.clone(),
            brokers: self.brokers.iter().map(|(n, on)| (n.clone(), turn(on))).collect(),
        }
    }
}

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

/// Ends of queues by broker name and number.
pub type Ends = BTreeMap<(String, i32), i64>;

/// What of a topic is looked at. The numbers themselves always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// Routes at the name servers.
    pub routes: bool,
    /// Owners of the queues.
    pub owners: bool,
    /// The queues to drain.
    pub drained: bool,
    /// Ends of all queues.
    pub ends: bool,
}

/// One look at a topic.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// When, epoch ms.
    pub now_ms: i64,
    /// Numbers by broker name, or why they are unknown.
    pub brokers: BTreeMap<String, Result<Queues, String>>,
    /// Numbers by broker name at each name server that answered.
    pub routes: Vec<(String, BTreeMap<String, Queues>)>,
    /// Name servers that did not answer.
    pub silent_name_servers: Vec<String>,
    /// Queues without an owner by online group; `None` where a client does not say.
    pub unowned: BTreeMap<String, Option<usize>>,
    /// The queues to drain.
    pub drained: Option<Drained>,
    /// Ends of all queues by broker and number.
    pub ends: Ends,
}

/// The queues to drain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drained {
    /// Ends by broker and number.
    pub ends: Ends,
    /// Groups of the topic by name.
    pub groups: BTreeMap<String, DrainedGroup>,
    /// Messages that will still land in them.
    pub pending: Pending,
    /// Producers connected to the brokers.
    pub producers: BTreeSet<String>,
    /// What could not be seen.
    pub unknown: Vec<String>,
}

/// A group's part in the queues to drain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DrainedGroup {
    /// Whether and how it consumes.
    pub kind: crate::client::lag::GroupKind,
    /// It pops.
    pub pops: bool,
    /// Messages not read.
    pub lag: i64,
    /// Messages handed out and not acknowledged.
    pub inflight: i64,
    /// Sum of its positions: changes when it moves.
    pub position: i64,
    /// Its clients.
    pub clients: BTreeSet<String>,
}

/// Messages that wait elsewhere to be put into a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pending {
    /// In the delay levels.
    pub delayed: usize,
    /// In the timer wheel.
    pub timed: usize,
    /// Half messages whose transaction is open.
    pub half: usize,
    /// Latest delivery among the delayed and timed ones, epoch ms.
    pub last_due_ms: Option<i64>,
    /// Entries that are not looked at yet: the numbers are lower bounds.
    pub unread: i64,
}

impl Pending {
    /// True when nothing waits and everything was looked at.
    pub fn is_empty(&self) -> bool {
        self.delayed == 0 && self.timed == 0 && self.half == 0 && self.unread == 0
    }

    /// The sum of two brokers' numbers.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            delayed: self.delayed + other.delayed,
            timed: self.timed + other.timed,
            half: self.half + other.half,
            last_due_ms: self.last_due_ms.max(other.last_due_ms),
            unread: self.unread.saturating_add(other.unread),
        }
    }
}

impl std::fmt::Display for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} delayed, {} timed, {} half messages",
            self.delayed, self.timed, self.half
        )?;
        if self.unread > 0 {
            write!(f, ", {} entries not looked at yet", self.unread)?;
        }
        Ok(())
    }
}
