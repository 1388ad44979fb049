//! Changing the number of a topic's queues without losing or stranding a message.
//!
//! Consumers must read every queue that holds messages, so the numbers change in one order whatever the direction:
//!
//! ```text
//! raise read -> clients see it and own the queues -> groups get a place -> set write -> producers see it -> drain -> lower read
//! ```
//!
//! Growing ends after `set write`, shrinking begins there. Draining waits until the queues that lose their readers
//! stand still, every group has read them, and nothing delayed, timed or half committed can land in them any more.
//!
//! [`Client::scale_find`](crate::client::Client::scale_find) reads the topic, [`Wish::plan`] makes the plan,
//! [`Observer::survey`](observe::Observer::survey) tells what it has to reckon with before anything is changed.
//! [`Machine`] decides, from what was seen, what to do next; it knows no clock and no network. [`run`](run::run) sees
//! and does. [`Machine::checks`] is the list of steps and conditions for whoever shows it, [`Machine::progress`] where it is,
//! [`kept`] the plan file that an interrupted way is gone on from.

pub mod begins;
mod checks;
mod draining;
pub mod kept;
pub mod machine;
pub mod marker;
pub mod observe;
pub mod pending;
mod plan;
mod progress;
pub mod run;
mod settings;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use checks::{Check, CheckState};
pub use machine::{End, Machine, Next, Step};
pub use plan::{Found, OnBroker, Plan, Queues, Refused, Wish, unwaitable};
pub use progress::Progress;
pub use settings::{Overrides, Phase, Settings};

/// Ends of queues by broker name and number.
pub type Ends = BTreeMap<(String, i32), i64>;

/// What of a topic is looked at. The numbers themselves always are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wants {
    /// Routes at the name servers.
    pub routes: bool,
    /// Owners of the queues.
    pub owners: bool,
    /// Groups in the queues that producers get.
    pub begins: bool,
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
    /// Groups in the queues that producers get.
    pub begins: Option<begins::Begins>,
    /// The queues to drain.
    pub drained: Option<Drained>,
    /// Ends of all queues by broker and number.
    pub ends: Ends,
    /// What could not be seen of the owners and of the ends.
    pub unknown: Vec<String>,
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
