//! What the console knows: updates of single servers folded into one [`Snapshot`], with history beside it.
//!
//! Updates may come late, twice and in any order: each carries the time of its answer, and an older one never
//! replaces a newer one.

mod fold;
mod heard;
mod settle;
#[cfg(test)]
mod tests;
mod told;

pub use told::{Answer, BadReply, BrokerTold, NamedTopics, ServerTold, Told, Update};

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use heard::Heard;

use super::events::{EventLog, Watch};
use super::flow::Flows;
use super::history::{Counter, Series};
use super::record::Recorded;
use super::retries::{GroupFlow, Growth};
use super::standing::Standings;
use super::want::{Found, Want};
use crate::client::admin::group::is_system;
use crate::client::findings::Finding;
use crate::client::skew::Skew;
use crate::client::snapshot::{
    BrokerId, BrokerState, GroupLag, GroupState, NameServerState, Seen, Snapshot, TopicState, told_sum,
};
use crate::client::stranded::Stranded;

/// A broker that no name server lists any more is kept on the screens this long.
const KEEP_GONE_MS: i64 = 10 * 60 * 1000;
/// Series of topics and groups kept at most, each; those with the smallest values go first.
const SERIES_MAX: usize = 2000;
/// Registrations nearer than this are the same one, told by two name servers.
const SAME_BEAT_MS: i64 = 5_000;
/// Answers to questions of screens that are kept.
const FOUND: usize = 256;
/// Window of the lag trend.
pub const SLOPE_WINDOW_MS: u64 = 60_000;
/// A number of clients older than this says nothing about now.
const CLIENTS_AGE_MS: i64 = 60_000;

/// A sum in which a part may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Total {
    /// The sum of what is known; `None` when nothing is.
    pub value: Option<f64>,
    /// Something is missing: the value is a lower bound.
    pub partial: bool,
}

/// What is remembered of one broker beside the snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
struct Parts {
    topics: Seen<NamedTopics>,
    /// The broker's own averages by topic.
    rates: BTreeMap<String, Seen<f64>>,
    /// What two looks at the positions of its groups tell.
    flows: Flows,
    lag: Seen<Vec<GroupLag>>,
    /// How long the positions in `lag` have been standing.
    standing: Standings,
    heard: Heard,
    stranded: Seen<BTreeMap<String, Vec<Stranded>>>,
    half: Seen<i64>,
    /// Dead-letter topics.
    dead: BTreeMap<String, Growth>,
    /// Groups.
    retries: BTreeMap<String, GroupFlow>,
    listed_ms: i64,
    put: Counter,
    get: Counter,
    behind_since_ms: Option<i64>,
    /// Beats skipped because it was slow.
    missed: u64,
}

/// Series of one broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokerSeries {
    /// Messages a second stored.
    pub put: Series,
    /// Messages a second handed out.
    pub get: Series,
}

/// Everything the console knows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Model {
    /// The newest state of everything, judged at `taken_at_ms`.
    pub snapshot: Snapshot,
    /// What the health rules found in it.
    pub findings: Vec<Finding>,
    /// What happened since the console started.
    pub log: EventLog,
    /// Messages a second stored, all brokers.
    pub put: Series,
    /// Messages a second handed out, all brokers.
    pub get: Series,
    /// Lag of all groups.
    pub lag: Series,
    /// By broker.
    pub broker_series: BTreeMap<BrokerId, BrokerSeries>,
    /// Messages a second stored, by topic.
    pub topic_series: BTreeMap<String, Series>,
    /// Lag, by group.
    pub group_series: BTreeMap<String, Series>,
    /// When a resting task tries again, by name server address or broker.
    pub retry_at_ms: BTreeMap<String, i64>,
    found: BTreeMap<Want, (i64, Seen<Found>)>,
    /// What was recorded of topics, groups and brokers that were not seen yet.
    recorded: Recorded,
    parts: BTreeMap<BrokerId, Parts>,
    /// By name server.
    heard: HashMap<String, Heard>,
    groups_by_topic: HashMap<String, usize>,
    /// Counts the changes of what is known.
    version: u64,
    topics_changed: bool,
    /// Topics whose rate was told since the last point of their series.
    rates_told: HashSet<String>,
    lag_changed: bool,
    totals_at_ms: i64,
    all_down_since_ms: Option<i64>,
    hurry: BTreeMap<BrokerId, i64>,
    watch: Watch,
}

/// A broker whose polling starts, moves or ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Roster {
    /// Poll it at this address.
    Poll(BrokerId, String),
    /// It is gone for long.
    Drop(BrokerId),
}

impl Model {
    /// A model that knows the configured name servers and nothing of them.
    pub fn new(name_servers: Vec<String>) -> Self {
        let servers = name_servers.into_iter().map(|addr| NameServerState {
            addr,
            ..NameServerState::default()
        });
        let mut model = Self::default();
        model.snapshot.name_servers = servers.collect();
        model
    }

    /// Forgets what was found of a question.
    pub fn forget(&mut self, want: &Want) {
        self.found.remove(want);
    }

    /// Messages a second that a group takes: what the brokers say, and where that is nought, as it is before they have
    /// sampled twice, what two looks at its positions tell.
    pub fn taken(&self, group: &str, average: f64, now_ms: i64) -> f64 {
        if average > 0.0 {
            return average;
        }
        let taken = self
            .parts
            .values()
            .filter_map(|parts| parts.flows.taken(group, now_ms));
        taken.reduce(|a, b| a + b).unwrap_or(average)
    }

    /// Masters that do not answer: their part is missing everywhere.
    pub fn silent_masters(&self) -> impl Iterator<Item = &BrokerState> {
        let masters = self.snapshot.brokers.iter().filter(|b| b.broker.is_master());
        masters.filter(|b| b.is_silent())
    }

    /// What is known of a question.
    pub fn found(&self, want: &Want) -> &Seen<Found> {
        static UNASKED: Seen<Found> = Seen::unasked();
        self.found.get(want).map_or(&UNASKED, |(_, seen)| seen)
    }

    fn lag_is_partial(&self) -> bool {
        let masters = self.snapshot.brokers.iter().filter(|b| b.broker.is_master());
        masters
            .into_iter()
            .any(|b| self.parts.get(&b.broker).is_none_or(|p| p.lag.fresh().is_none()) || b.is_silent())
    }

    /// Messages a second stored by all masters.
    pub fn put_total(&self) -> Total {
        self.total(true, |s| &s.put)
    }

    /// Messages a second handed out by all brokers.
    pub fn get_total(&self) -> Total {
        self.total(false, |s| &s.get)
    }

    fn total(&self, masters_only: bool, series: impl Fn(&BrokerSeries) -> &Series) -> Total {
        let mut total = Total::default();
        for broker in &self.snapshot.brokers {
            if masters_only && !broker.broker.is_master() {
                continue;
            }
            let rate = self
                .broker_series
                .get(&broker.broker)
                .and_then(|s| series(s).last());
            match rate.filter(|_| broker.answers()) {
                Some(rate) => *total.value.get_or_insert(0.0) += rate,
                None => total.partial = true,
            }
        }
        total
    }

    /// A topic by its name.
    pub fn topic(&self, name: &str) -> Option<&TopicState> {
        let topics = &self.snapshot.topics;
        let at = topics.binary_search_by(|t| t.name.as_str().cmp(name)).ok()?;
        Some(&topics[at])
    }

    /// A group by its name.
    pub fn group(&self, name: &str) -> Option<&GroupState> {
        let groups = &self.snapshot.groups;
        let at = groups.binary_search_by(|g| g.name.as_str().cmp(name)).ok()?;
        Some(&groups[at])
    }

    /// Groups that have a position in a topic.
    pub fn groups_of(&self, topic: &str) -> usize {
        self.groups_by_topic.get(topic).copied().unwrap_or(0)
    }

    /// Counts the changes of what is known: rows made at one number are right as long as it stays.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Lag of all groups but the brokers' own.
    pub fn lag_total(&self) -> Total {
        let users = self.snapshot.groups.iter().filter(|g| !is_system(&g.name));
        let known = users.filter_map(GroupState::total_lag);
        let asked = self.parts.values().any(|p| p.lag.get().is_some());
        Total {
            value: asked.then(|| told_sum(known) as f64),
            partial: self.lag_is_partial(),
        }
    }

    /// How long a position has been seen where it is: [`Standings::unmoved`].
    pub fn unmoved(&self, row: &GroupLag) -> Option<Duration> {
        let named = self.parts.iter().filter(|(id, _)| id.name == row.broker);
        named
            .into_iter()
            .find_map(|(_, parts)| parts.standing.unmoved(row))
    }

    /// Messages a second that come back to be tried again, of all groups but the brokers' own.
    pub fn retry_total(&self) -> Total {
        let told = || self.parts.values().flat_map(|parts| &parts.retries);
        let users = told().filter(|(name, _)| !is_system(name));
        let known: Vec<f64> = users.filter_map(|(_, flow)| flow.retry).collect();
        let nobody = told().next().is_none() && self.parts.values().any(|p| p.lag.get().is_some());
        Total {
            value: (nobody || !known.is_empty()).then(|| known.iter().sum()),
            partial: self.lag_is_partial(),
        }
    }

    /// Messages a second that come back to a group to be tried again, where some broker told it.
    pub fn retry_of(&self, group: &str) -> Option<f64> {
        let flows = self.parts.values().filter_map(|parts| parts.retries.get(group));
        flows.filter_map(|flow| flow.retry).reduce(|sum, more| sum + more)
    }

    /// Dead letters since the console watches their topics.
    pub fn dead_total(&self) -> Total {
        let mut total = self.over_masters(|parts| {
            parts.topics.get()?;
            let grown: Option<Vec<i64>> = parts.dead.values().map(Growth::grown).collect();
            Some(told_sum(grown?))
        });
        total.partial |= self
            .parts
            .values()
            .any(|parts| parts.dead.values().any(Growth::is_old));
        total
    }

    /// Half messages that are not decided.
    pub fn half_total(&self) -> Total {
        self.over_masters(|parts| parts.half.fresh().copied())
    }

    /// Half messages of one broker.
    pub fn half_of(&self, id: &BrokerId) -> Option<&Seen<i64>> {
        self.parts.get(id).map(|p| &p.half)
    }

    fn over_masters(&self, number: impl Fn(&Parts) -> Option<i64>) -> Total {
        let mut total = Total::default();
        for broker in self.snapshot.brokers.iter().filter(|b| b.broker.is_master()) {
            match self.parts.get(&broker.broker).and_then(&number) {
                Some(n) if broker.is_alive() => *total.value.get_or_insert(0.0) += n as f64,
                _ => total.partial = true,
            }
        }
        total
    }

    /// Brokers that do not answer us but registered after our last try, with the time of that registration: worth a
    /// try before their rest is over.
    pub fn revived(&self) -> &BTreeMap<BrokerId, i64> {
        &self.hurry
    }

    /// The newest version of each broker's topic table that a name server told.
    pub fn registered_versions(&self) -> BTreeMap<BrokerId, i64> {
        let newest = |b: &BrokerState| {
            let versions = b.registrations.iter().filter_map(|r| r.data_version);
            Some((b.broker.clone(), versions.map(|v| v.counter).max()?))
        };
        self.snapshot.brokers.iter().filter_map(newest).collect()
    }

    /// Since when no name server has answered, epoch ms.
    pub fn all_down_since_ms(&self) -> Option<i64> {
        self.all_down_since_ms
    }

    /// Beats of one broker that were skipped because it was slow to answer.
    pub fn missed(&self, id: &BrokerId) -> u64 {
        self.parts.get(id).map_or(0, |p| p.missed)
    }

    /// Newest lag answer of one broker.
    pub fn lag_of(&self, id: &BrokerId) -> Option<&Seen<Vec<GroupLag>>> {
        self.parts.get(id).map(|p| &p.lag)
    }

    /// Milliseconds that the clock of a broker name's master is ahead of ours, at least; negative when it is behind.
    pub fn ahead_ms(&self, name: &str) -> i64 {
        let brokers = self.snapshot.brokers.iter();
        let mut masters = brokers.filter(|b| b.broker.is_master() && b.broker.name == name);
        masters
            .find_map(|b| b.runtime.get()?.clock)
            .map_or(0, Skew::least)
    }

    /// Topics of one broker.
    pub fn topics_of(&self, id: &BrokerId) -> Option<&Seen<NamedTopics>> {
        self.parts.get(id).map(|p| &p.topics)
    }

    /// When the newest answer of any server came, epoch ms.
    pub fn newest_ms(&self) -> Option<i64> {
        let servers = self.snapshot.name_servers.iter().map(|s| s.cluster.as_of_ms);
        let brokers = self.snapshot.brokers.iter().map(|b| b.runtime.as_of_ms);
        servers.chain(brokers).max().filter(|at| *at > 0)
    }
}
