//! What the console knows: updates of single servers folded into one [`Snapshot`], with history beside it.
//!
//! Updates may come late, twice and in any order: each carries the time of its answer, and an older one never
//! replaces a newer one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::dead::ask::Question as DeadQuestion;
use super::events::{EventLog, Watch};
use super::flows::{GroupFlow, Growth};
use super::history::{Counter, RATE_LEAST_MS, Reading, Series};
use super::messages::search::Question;
use super::record::{Recorded, Track};
use super::want::{Found, TopicDetail, Want};
use crate::client::RuntimeInfo;
use crate::client::admin::group::is_system;
use crate::client::admin::topic::kind;
use crate::client::findings::{self, Finding, Severity, Trends};
use crate::client::lag::GroupKind;
use crate::client::liveness;
use crate::client::snapshot::{
    BrokerConfigView, BrokerId, BrokerState, ClusterTable, GroupLag, GroupState, HaState, NameServerConfig,
    NameServerState, RegistrationAge, Seen, Snapshot, TopicOnBroker, TopicState,
};
use crate::protocol::model::{DLQ_PREFIX, DataVersion};

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

/// Topics of one broker by name.
pub type NamedTopics = Vec<(String, TopicOnBroker)>;
/// An answer or the reason why there is none.
pub type Answer<T> = Result<T, String>;

/// One piece of news from a polling task.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// When the answer or the failure arrived, epoch ms.
    pub at_ms: i64,
    /// When the task tries again, epoch ms, if it rests after failures.
    pub retry_at_ms: Option<i64>,
    /// Who said what.
    pub told: Told,
}

/// Who said what.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A name server, by its configured address.
    NameServer(String, ServerTold),
    /// A broker.
    Broker(BrokerId, BrokerTold),
    /// What a screen wanted to know.
    Found(Want, Answer<Found>),
    /// What was recorded before this session.
    Recorded(Box<Recorded>),
    /// A reply that could not be read: whose, to what, why, and where its bytes are.
    BadReply(Box<BadReply>),
}

/// A reply that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadReply {
    /// The server, with its name where it has one.
    pub server: String,
    /// Java's name of the request.
    pub request: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// The file with its bytes, or why there is none.
    pub kept: Result<String, String>,
}

/// What a name server can tell.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerTold {
    /// Its broker table and the time of the call.
    Cluster(Answer<(ClusterTable, Duration)>),
    /// Its limits.
    Config(Answer<NameServerConfig>),
    /// Its topics.
    Topics(Answer<Vec<String>>),
}

/// What a broker can tell.
#[derive(Debug, Clone, PartialEq)]
pub enum BrokerTold {
    /// Its runtime numbers and the time of the call.
    Runtime(Answer<(Box<RuntimeInfo>, Duration)>),
    /// Its configuration.
    Config(Answer<BrokerConfigView>),
    /// Its replication.
    Ha(Answer<HaState>),
    /// Its topics by name, and the version of its table.
    Topics(Answer<(NamedTopics, Option<DataVersion>)>),
    /// Messages a second stored in one topic.
    TopicRate(String, Answer<f64>),
    /// Positions of all groups.
    Lag(Answer<Vec<GroupLag>>),
    /// Half messages that are not decided.
    Half(Answer<i64>),
    /// Messages ever stored in a dead-letter topic.
    Dead(String, Answer<i64>),
    /// Beats that passed while it was slow to answer, and were skipped.
    Missed(u64),
}

/// The reason of a failure, where it is a denial.
fn denial<T>(answer: &Answer<T>) -> Option<&str> {
    let why = answer.as_ref().err()?;
    why.starts_with("denied").then_some(why)
}

impl ServerTold {
    fn denial(&self) -> Option<&str> {
        match self {
            Self::Cluster(answer) => denial(answer),
            Self::Config(answer) => denial(answer),
            Self::Topics(answer) => denial(answer),
        }
    }
}

impl BrokerTold {
    fn denial(&self) -> Option<&str> {
        match self {
            Self::Runtime(answer) => denial(answer),
            Self::Config(answer) => denial(answer),
            Self::Ha(answer) => denial(answer),
            Self::Topics(answer) => denial(answer),
            Self::TopicRate(_, answer) => denial(answer),
            Self::Lag(answer) => denial(answer),
            Self::Half(answer) | Self::Dead(_, answer) => denial(answer),
            Self::Missed(_) => None,
        }
    }
}

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
    rates: BTreeMap<String, Seen<f64>>,
    lag: Seen<Vec<GroupLag>>,
    half: Seen<i64>,
    /// Dead-letter topics.
    dead: BTreeMap<String, Growth>,
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
    /// Consumed and retried, by group.
    pub flows: BTreeMap<String, GroupFlow>,
    /// When a resting task tries again, by name server address or broker.
    pub retry_at_ms: BTreeMap<String, i64>,
    found: BTreeMap<Want, (i64, Seen<Found>)>,
    /// What was recorded of topics, groups and brokers that were not seen yet.
    recorded: Recorded,
    parts: BTreeMap<BrokerId, Parts>,
    tried: HashMap<(String, &'static str), i64>,
    /// What servers deny, and of which topic that was told.
    denials: HashMap<(String, &'static str), Option<String>>,
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

    /// Takes in one update; [`Model::settle`] must follow before the next drawing.
    pub fn fold(&mut self, update: Update) {
        self.version += 1;
        let Update {
            at_ms,
            retry_at_ms,
            told,
        } = update;
        match told {
            Told::NameServer(addr, told) => self.fold_server(addr, told, at_ms, retry_at_ms),
            Told::Broker(id, told) => self.fold_broker(id, told, at_ms, retry_at_ms),
            Told::Found(want, answer) => self.fold_found(want, answer, at_ms),
            Told::Recorded(recorded) => self.fold_recorded(*recorded),
            Told::BadReply(reply) => {
                let BadReply {
                    server,
                    request,
                    why,
                    kept,
                } = *reply;
                let kept = match kept {
                    Ok(file) => format!("its bytes are in {file}"),
                    Err(e) => format!("its bytes are not kept: {e}"),
                };
                let text = format!("bad reply of {server} to {request}: {why}; {kept}");
                self.log.push(at_ms, Severity::Warning, text);
            }
        }
    }

    /// True when nothing newer of this kind is known; remembers the time.
    fn is_news(&mut self, who: &str, what: &'static str, at_ms: i64) -> bool {
        let newest = self.tried.entry((who.to_owned(), what)).or_insert(i64::MIN);
        let news = at_ms > *newest;
        if news {
            *newest = at_ms;
        }
        news
    }

    /// Points of earlier sessions go in front of what is known, or wait for their topic, group or broker to be seen.
    fn fold_recorded(&mut self, mut recorded: Recorded) {
        self.put.precede(&recorded.take(&Track::In));
        self.get.precede(&recorded.take(&Track::Out));
        self.lag.precede(&recorded.take(&Track::Lag));
        for (id, series) in &mut self.broker_series {
            series.put.precede(&recorded.take(&Track::Put(id.clone())));
            series.get.precede(&recorded.take(&Track::Get(id.clone())));
        }
        for (name, series) in &mut self.topic_series {
            series.precede(&recorded.take(&Track::Topic(name.clone())));
        }
        for (name, series) in &mut self.group_series {
            series.precede(&recorded.take(&Track::Group(name.clone())));
        }
        self.recorded = recorded;
    }

    fn fold_found(&mut self, want: Want, answer: Answer<Found>, at_ms: i64) {
        // The messages of one search, and the letters of one group, are kept, not those of every one there was.
        let is_search = |want: &Want| matches!(want, Want::Messages(Question::Search(_)));
        let is_letters = |want: &Want| matches!(want, Want::Dead(DeadQuestion::Letters(_)));
        for is_large in [is_search, is_letters] {
            if is_large(&want) {
                self.found.retain(|other, _| *other == want || !is_large(other));
            }
        }
        let seen = self.found.entry(want).or_default();
        if at_ms > seen.0 {
            let answer = match (answer, &seen.1.value) {
                (Ok(Found::Topic(mut now)), Some(Found::Topic(before))) => {
                    queue_rates(&mut now, before, at_ms.saturating_sub(seen.1.as_of_ms));
                    Ok(Found::Topic(now))
                }
                (answer, _) => answer,
            };
            seen.0 = at_ms;
            put(&mut seen.1, answer, at_ms);
        }
        // The oldest goes: what is on the screen is asked again and again.
        if self.found.len() > FOUND
            && let Some(oldest) = self
                .found
                .iter()
                .min_by_key(|(_, (at, _))| *at)
                .map(|(want, _)| want.clone())
        {
            self.found.remove(&oldest);
        }
    }

    /// Forgets what was found of a question.
    pub fn forget(&mut self, want: &Want) {
        self.found.remove(want);
    }

    /// Masters that do not answer: their part is missing everywhere.
    pub fn silent_masters(&self) -> impl Iterator<Item = &BrokerState> {
        let masters = self.snapshot.brokers.iter().filter(|b| b.broker.is_master());
        masters.filter(|b| b.runtime.is_failed())
    }

    /// What is known of a question.
    pub fn found(&self, want: &Want) -> &Seen<Found> {
        static UNASKED: Seen<Found> = Seen::unasked();
        self.found.get(want).map_or(&UNASKED, |(_, seen)| seen)
    }

    fn rest(&mut self, who: &str, retry_at_ms: Option<i64>) {
        match retry_at_ms {
            Some(at) => self.retry_at_ms.insert(who.to_owned(), at),
            None => self.retry_at_ms.remove(who),
        };
    }

    fn fold_server(&mut self, addr: String, told: ServerTold, at_ms: i64, retry_at_ms: Option<i64>) {
        let Some(index) = self.snapshot.name_servers.iter().position(|s| s.addr == addr) else {
            return;
        };
        let kind = match &told {
            ServerTold::Cluster(_) => "cluster",
            ServerTold::Config(_) => "config",
            ServerTold::Topics(_) => "topics",
        };
        if !self.is_news(&addr, kind, at_ms) {
            return;
        }
        let name = format!("name server {addr}");
        self.note_denial((&addr, &name), (kind, None), told.denial(), at_ms);
        let server = &mut self.snapshot.name_servers[index];
        match told {
            ServerTold::Cluster(answer) => {
                let (table, rtt) = match answer {
                    Ok((table, rtt)) => (Ok(table), Ok(rtt)),
                    Err(e) => (Err(e.clone()), Err(e)),
                };
                put(&mut server.cluster, table, at_ms);
                put(&mut server.rtt, rtt, at_ms);
                self.rest(&addr, retry_at_ms);
            }
            ServerTold::Config(answer) => put(&mut server.config, answer, at_ms),
            ServerTold::Topics(answer) => put(&mut server.topics, answer, at_ms),
        }
    }

    /// A server that denies something is told of once, until it allows it; of what it denies topic by topic the first is
    /// told, until that one is allowed.
    fn note_denial(
        &mut self,
        (who, name): (&str, &str),
        (what, topic): (&'static str, Option<&str>),
        why: Option<&str>,
        at_ms: i64,
    ) {
        let key = (who.to_owned(), what);
        let told = self.denials.get(&key);
        match why {
            None => {
                if told.is_some_and(|told| told.as_deref() == topic) {
                    self.denials.remove(&key);
                }
            }
            Some(why) => {
                if told.is_none() {
                    let of = topic.map_or_else(String::new, |topic| format!(" of {topic}"));
                    let others = if topic.is_some() {
                        ", others are not told"
                    } else {
                        ""
                    };
                    let text = format!("{name}, {what}{of}: {why}; asked again after a minute{others}");
                    self.log.push(at_ms, Severity::Warning, text);
                    self.denials.insert(key, topic.map(str::to_owned));
                }
            }
        }
    }

    fn fold_broker(&mut self, id: BrokerId, told: BrokerTold, at_ms: i64, retry_at_ms: Option<i64>) {
        let who = format!("{}/{id}", id.cluster);
        let (topic, kind) = match &told {
            BrokerTold::Runtime(_) => (None, "runtime"),
            BrokerTold::Config(_) => (None, "config"),
            BrokerTold::Ha(_) => (None, "ha"),
            BrokerTold::Topics(_) => (None, "topics"),
            BrokerTold::TopicRate(topic, _) => (Some(topic.clone()), "rate"),
            BrokerTold::Lag(_) => (None, "lag"),
            BrokerTold::Half(_) => (None, "half messages"),
            BrokerTold::Dead(topic, _) => (Some(topic.clone()), "dead letters"),
            BrokerTold::Missed(_) => (None, "missed"),
        };
        let key = topic
            .as_ref()
            .map_or_else(|| who.clone(), |t| format!("{who}/{t}"));
        // A late answer of a broker that was dropped must not bring it back.
        let Some(index) = self.snapshot.brokers.iter().position(|b| b.broker == id) else {
            return;
        };
        if !self.is_news(&key, kind, at_ms) {
            return;
        }
        let name = id.to_string();
        self.note_denial((&who, &name), (kind, topic.as_deref()), told.denial(), at_ms);
        let parts = self.parts.entry(id.clone()).or_default();
        let broker = &mut self.snapshot.brokers[index];
        if matches!(
            &told,
            BrokerTold::Runtime(Ok(_)) | BrokerTold::Config(Ok(_)) | BrokerTold::Ha(Ok(_))
        ) {
            broker.last_answer_ms = Some(broker.last_answer_ms.map_or(at_ms, |at| at.max(at_ms)));
        }
        match told {
            BrokerTold::Runtime(answer) => {
                let (info, rtt) = match answer {
                    Ok((info, rtt)) => {
                        let recorded = &mut self.recorded;
                        let series = self.broker_series.entry(id).or_insert_with_key(|id| {
                            let mut series = BrokerSeries::default();
                            series.put.precede(&recorded.take(&Track::Put(id.clone())));
                            series.get.precede(&recorded.take(&Track::Get(id.clone())));
                            series
                        });
                        remember_rates(parts, series, &info, at_ms);
                        let behind = info.dispatch_behind_bytes.is_some_and(|b| b > 0);
                        parts.behind_since_ms = behind.then(|| parts.behind_since_ms.unwrap_or(at_ms));
                        (Ok(*info), Ok(rtt))
                    }
                    Err(e) => (Err(e.clone()), Err(e)),
                };
                // Rates of a broker that fell silent, or came back, count otherwise.
                self.topics_changed |= broker.runtime.is_failed() != info.is_err();
                put(&mut broker.runtime, info, at_ms);
                put(&mut broker.rtt, rtt, at_ms);
                self.rest(&who, retry_at_ms);
            }
            BrokerTold::Config(answer) => put(&mut broker.config, answer, at_ms),
            BrokerTold::Ha(answer) => put(&mut broker.ha, answer, at_ms),
            BrokerTold::Topics(answer) => {
                let (topics, version) = match answer {
                    Ok((topics, version)) => {
                        let names: HashSet<&str> = topics.iter().map(|(name, _)| name.as_str()).collect();
                        parts.rates.retain(|name, _| names.contains(name.as_str()));
                        parts.dead.retain(|name, _| names.contains(name.as_str()));
                        let first = parts.topics.get().is_none();
                        for name in names.iter().filter(|name| name.starts_with(DLQ_PREFIX)) {
                            let growth = if first { Growth::default() } else { Growth::NEW };
                            parts.dead.entry((*name).to_owned()).or_insert(growth);
                        }
                        (Ok(topics), version.ok_or_else(|| "not told".to_owned()))
                    }
                    Err(e) => (Err(e.clone()), Err(e)),
                };
                put(&mut parts.topics, topics, at_ms);
                put(&mut broker.topics_version, version, at_ms);
                self.topics_changed = true;
            }
            BrokerTold::TopicRate(topic, answer) => {
                if answer.is_ok() {
                    self.rates_told.insert(topic.clone());
                }
                put(parts.rates.entry(topic).or_default(), answer, at_ms);
                self.topics_changed = true;
            }
            BrokerTold::Missed(beats) => parts.missed = parts.missed.saturating_add(beats),
            BrokerTold::Half(answer) => put(&mut parts.half, answer, at_ms),
            BrokerTold::Dead(topic, answer) => {
                // Of a topic that is gone meanwhile nothing is told any more.
                if let (Some(growth), Ok(stored)) = (parts.dead.get_mut(&topic), answer) {
                    growth.take(stored);
                }
            }
            BrokerTold::Lag(answer) => {
                put(&mut parts.lag, answer, at_ms);
                self.lag_changed = true;
            }
        }
    }

    /// Judges everything at `now_ms`; returns which brokers to poll from now on, or no more.
    pub fn settle(&mut self, now_ms: i64, interval: Duration) -> Vec<Roster> {
        self.snapshot.taken_at_ms = now_ms;
        let roster = self.settle_brokers(now_ms);
        if std::mem::take(&mut self.topics_changed) {
            self.settle_topics(now_ms);
        }
        if std::mem::take(&mut self.lag_changed) {
            self.settle_groups(now_ms);
        }
        self.settle_revived(now_ms);
        let partial = self.lag_is_partial();
        for group in &mut self.snapshot.groups {
            group.partial = partial;
            group.clients = Seen::unasked();
        }
        self.settle_clients(now_ms);
        self.settle_totals(now_ms, interval);
        let servers = &self.snapshot.name_servers;
        let all_down = !servers.is_empty() && servers.iter().all(|s| s.cluster.is_failed());
        self.all_down_since_ms = all_down.then(|| {
            let last_answer = servers
                .iter()
                .map(|s| s.cluster.as_of_ms)
                .max()
                .filter(|at| *at > 0);
            self.all_down_since_ms.or(last_answer).unwrap_or(now_ms)
        });
        self.findings = findings::findings(&self.snapshot, &self.trends(now_ms));
        self.watch
            .compare(&self.snapshot, &self.retry_at_ms, &mut self.log);
        roster
    }

    /// How many clients a group has, where that was asked lately and every broker told. A broadcasting group keeps its
    /// positions itself: what the brokers have is no backlog of it.
    fn settle_clients(&mut self, now_ms: i64) {
        for (want, (_, seen)) in &self.found {
            if let (Want::GroupBrief(name), Some(Found::GroupBrief(brief))) = (want, seen.fresh())
                && !brief.partial
                && brief.kind != GroupKind::Broadcasting
                && now_ms.saturating_sub(seen.as_of_ms) < CLIENTS_AGE_MS
                && let Ok(at) = (self.snapshot.groups).binary_search_by(|g| g.name.as_str().cmp(name))
            {
                self.snapshot.groups[at].clients = Seen::answered(brief.clients, seen.as_of_ms);
            }
        }
    }

    fn settle_brokers(&mut self, now_ms: i64) -> Vec<Roster> {
        let mut roster = Vec::new();
        // The newest word on each broker's address; an answering name server outranks a failing one.
        let mut listed: BTreeMap<BrokerId, (bool, String)> = BTreeMap::new();
        for server in &self.snapshot.name_servers {
            let fresh = !server.cluster.is_failed();
            for entry in server.cluster.get().into_iter().flat_map(|t| &t.listed) {
                let known = listed
                    .entry(entry.broker.clone())
                    .or_insert((fresh, entry.addr.clone()));
                if fresh && !known.0 {
                    *known = (true, entry.addr.clone());
                }
            }
        }
        for (id, (_, addr)) in &listed {
            self.parts.entry(id.clone()).or_default().listed_ms = now_ms;
            match self.snapshot.brokers.iter_mut().find(|b| b.broker == *id) {
                Some(broker) if broker.addr == *addr => {}
                Some(broker) => {
                    broker.addr.clone_from(addr);
                    roster.push(Roster::Poll(id.clone(), addr.clone()));
                }
                None => {
                    self.snapshot.brokers.push(BrokerState {
                        broker: id.clone(),
                        addr: addr.clone(),
                        ..BrokerState::default()
                    });
                    roster.push(Roster::Poll(id.clone(), addr.clone()));
                }
            }
        }
        let parts = &mut self.parts;
        self.snapshot.brokers.retain(|b| {
            let listed_ms = parts.get(&b.broker).map_or(now_ms, |p| p.listed_ms);
            let keep = now_ms.saturating_sub(listed_ms) < KEEP_GONE_MS;
            if !keep {
                parts.remove(&b.broker);
                roster.push(Roster::Drop(b.broker.clone()));
            }
            keep
        });
        for change in &roster {
            if let Roster::Drop(id) = change {
                self.broker_series.remove(id);
                self.retry_at_ms.remove(&format!("{}/{id}", id.cluster));
                self.topics_changed = true;
                self.lag_changed = true;
            }
        }
        self.snapshot.brokers.sort_by(|a, b| a.broker.cmp(&b.broker));
        let servers = &self.snapshot.name_servers;
        for broker in &mut self.snapshot.brokers {
            broker.registrations = liveness::registrations(servers, broker, now_ms);
        }
        roster
    }

    fn settle_topics(&mut self, now_ms: i64) {
        let brokers = self.snapshot.brokers.iter().map(|b| &b.broker);
        let servers = brokers
            .flat_map(|b| [b.name.clone(), b.cluster.clone()])
            .collect();
        let silent: HashSet<&BrokerId> = self
            .snapshot
            .brokers
            .iter()
            .filter(|b| b.runtime.is_failed())
            .map(|b| &b.broker)
            .collect();
        let mut topics: BTreeMap<&str, TopicState> = BTreeMap::new();
        // Of each topic with news; `None` while a broker that has it was never asked. What was not asked anew is no point.
        let told = std::mem::take(&mut self.rates_told);
        let mut rates: BTreeMap<&str, Option<f64>> = BTreeMap::new();
        for parts in self.parts.values() {
            for (name, on) in parts.topics.get().into_iter().flatten() {
                let mut on = on.clone();
                if let Some(rate) = parts.rates.get(name) {
                    on.in_tps = rate.clone();
                }
                if silent.contains(&on.broker) {
                    // Not asked while the broker is silent, so as good as failed.
                    on.in_tps
                        .error
                        .get_or_insert_with(|| "the broker is silent".to_owned());
                }
                if told.contains(name) {
                    let sum = rates.entry(name).or_insert(Some(0.0));
                    match on.in_tps.fresh() {
                        Some(rate) => *sum = sum.map(|sum| sum + rate),
                        None if on.in_tps.is_unasked() => *sum = None,
                        None => {}
                    }
                }
                let topic = topics.entry(name).or_insert_with(|| TopicState {
                    name: name.clone(),
                    kind: kind(name, &servers),
                    brokers: Vec::new(),
                });
                topic.brokers.push(on);
            }
        }
        let at = u64::try_from(now_ms).unwrap_or(0);
        for (name, rate) in rates {
            let Some(rate) = rate else { continue };
            let track = |name: &String| Track::Topic(name.clone());
            continued(&mut self.topic_series, &mut self.recorded, name, track).push(at, rate);
        }
        let topics: Vec<TopicState> = topics.into_values().collect();
        self.topic_series
            .retain(|name, _| topics.binary_search_by(|t| t.name.as_str().cmp(name)).is_ok());
        bound(&mut self.topic_series);
        self.snapshot.topics = topics;
    }

    fn settle_groups(&mut self, now_ms: i64) {
        let mut groups: BTreeMap<&str, Vec<GroupLag>> = BTreeMap::new();
        let mut as_of = i64::MAX;
        for parts in self.parts.values() {
            if let Some(rows) = parts.lag.get() {
                as_of = as_of.min(parts.lag.as_of_ms);
                for row in rows {
                    groups.entry(&row.group).or_default().push(row.clone());
                }
            }
        }
        let groups: Vec<GroupState> = groups
            .into_iter()
            .map(|(name, rows)| GroupState {
                name: name.to_owned(),
                lag: Seen::answered(rows, as_of),
                ..GroupState::default()
            })
            .collect();
        let at = u64::try_from(now_ms).unwrap_or(0);
        for group in &groups {
            if let Some(lag) = group.total_lag() {
                let track = |name: &String| Track::Group(name.clone());
                let series = continued(&mut self.group_series, &mut self.recorded, &group.name, track);
                series.push(at, lag as f64);
            }
        }
        for group in &groups {
            let rows = group.lag.get().map_or(&[][..], Vec::as_slice);
            self.flows.entry(group.name.clone()).or_default().take(at, rows);
        }
        self.flows
            .retain(|name, _| groups.binary_search_by(|g| g.name.as_str().cmp(name)).is_ok());
        self.group_series
            .retain(|name, _| groups.binary_search_by(|g| g.name.as_str().cmp(name)).is_ok());
        bound(&mut self.group_series);
        self.groups_by_topic.clear();
        for group in &groups {
            let rows = group.lag.get().into_iter().flatten();
            let topics: HashSet<&str> = rows.map(|row| row.topic.as_str()).collect();
            for topic in topics {
                *self.groups_by_topic.entry(topic.to_owned()).or_default() += 1;
            }
        }
        self.snapshot.groups = groups;
    }

    fn lag_is_partial(&self) -> bool {
        let masters = self.snapshot.brokers.iter().filter(|b| b.broker.is_master());
        masters.into_iter().any(|b| {
            self.parts.get(&b.broker).is_none_or(|p| p.lag.fresh().is_none()) || b.runtime.is_failed()
        })
    }

    fn settle_totals(&mut self, now_ms: i64, interval: Duration) {
        let interval = i64::try_from(interval.as_millis()).unwrap_or(i64::MAX);
        // A little early is still the same beat of the clock.
        if now_ms.saturating_sub(self.totals_at_ms) < interval.saturating_sub(200) {
            return;
        }
        self.totals_at_ms = now_ms;
        let at = u64::try_from(now_ms).unwrap_or(0);
        if let Some(value) = self.put_total().value {
            self.put.push(at, value);
        }
        if let Some(value) = self.get_total().value {
            self.get.push(at, value);
        }
        if let Some(value) = self.lag_total().value {
            self.lag.push(at, value);
        }
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
            value: asked.then(|| known.sum::<i64>() as f64),
            partial: self.lag_is_partial(),
        }
    }

    /// Messages a second that come back to be tried again, of all groups but the brokers' own.
    pub fn retry_total(&self) -> Total {
        let users = self.flows.iter().filter(|(name, _)| !is_system(name));
        let known: Vec<f64> = users.filter_map(|(_, flow)| flow.retry).collect();
        let nobody = self.flows.is_empty() && self.parts.values().any(|p| p.lag.get().is_some());
        Total {
            value: (nobody || !known.is_empty()).then(|| known.iter().sum()),
            partial: self.lag_is_partial(),
        }
    }

    /// Dead letters since the console watches their topics.
    pub fn dead_total(&self) -> Total {
        self.over_masters(|parts| {
            parts.topics.get()?;
            parts.dead.values().map(Growth::grown).sum()
        })
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
                Some(n) if broker.answers() => *total.value.get_or_insert(0.0) += n as f64,
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

    fn settle_revived(&mut self, now_ms: i64) {
        for broker in self.snapshot.brokers.iter().filter(|b| b.runtime.is_failed()) {
            let ages = broker.registrations.iter().filter_map(|r| match r.age {
                RegistrationAge::Exact(age) => Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
                _ => None,
            });
            let Some(age) = ages.min() else { continue };
            let registered_ms = now_ms.saturating_sub(age);
            let who = format!("{}/{}", broker.broker.cluster, broker.broker);
            let tried_ms = self.tried.get(&(who, "runtime")).copied().unwrap_or(i64::MAX);
            let known_ms = self.hurry.get(&broker.broker).copied().unwrap_or(i64::MIN);
            if registered_ms > tried_ms.max(known_ms.saturating_add(SAME_BEAT_MS)) {
                self.hurry.insert(broker.broker.clone(), registered_ms);
            }
        }
        let brokers = &self.snapshot.brokers;
        self.hurry
            .retain(|id, _| brokers.iter().any(|b| b.broker == *id && b.runtime.is_failed()));
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

    fn trends(&self, now_ms: i64) -> Trends {
        let dispatch_behind = self.parts.iter().filter_map(|(id, parts)| {
            let since = parts.behind_since_ms?;
            Some((id.clone(), duration_ms(now_ms.saturating_sub(since))))
        });
        let lag_rising = self.group_series.iter().filter_map(|(name, series)| {
            let since = i64::try_from(series.rising_since()?).ok()?;
            let slope = series.slope(SLOPE_WINDOW_MS).filter(|s| *s > 0.0)?;
            Some((name.clone(), (duration_ms(now_ms.saturating_sub(since)), slope)))
        });
        let retries = self.flows.iter().filter_map(|(name, flow)| {
            let rates = (flow.retry?, flow.consume?);
            Some((name.clone(), rates))
        });
        Trends {
            dispatch_behind: dispatch_behind.collect(),
            lag_rising: lag_rising.collect(),
            retries: retries.collect(),
        }
    }
}

/// Stores an answer, or the reason beside the earlier answer.
fn put<T>(seen: &mut Seen<T>, answer: Answer<T>, at_ms: i64) {
    match answer {
        Ok(value) => *seen = Seen::answered(value, at_ms),
        Err(why) => seen.error = Some(why),
    }
}

/// Messages a second of each queue, from its ends in two looks.
fn queue_rates(now: &mut TopicDetail, before: &TopicDetail, passed_ms: i64) {
    let too_soon = u64::try_from(passed_ms).unwrap_or(0) < RATE_LEAST_MS;
    for queue in &mut now.queues {
        let earlier = before
            .queues
            .iter()
            .find(|q| q.queue == queue.queue && q.broker == queue.broker);
        if too_soon {
            // Over less than that a rate says nothing: what was known stays.
            queue.in_tps = earlier.and_then(|q| q.in_tps);
            continue;
        }
        queue.in_tps = earlier
            .map(|q| queue.max - q.max)
            .filter(|more| *more >= 0)
            .map(|more| more as f64 * 1000.0 / passed_ms as f64);
    }
}

/// Rates of a broker: differences of its counters, or its own 10 s averages before there are two readings.
fn remember_rates(parts: &mut Parts, series: &mut BrokerSeries, info: &RuntimeInfo, at_ms: i64) {
    let at = u64::try_from(at_ms).unwrap_or(0);
    let counter = |key: &str| info.entries.get(key).and_then(|v| v.trim().parse::<u64>().ok());
    let one = |counter: &mut Counter, value: Option<u64>, average: Option<f64>, series: &mut Series| {
        let rate = match value.map(|v| counter.rate(at, v)) {
            Some(Reading::Rate(rate)) => Some(rate),
            Some(Reading::TooSoon) => None,
            Some(Reading::First) | None => average,
        };
        if let Some(rate) = rate {
            series.push(at, rate);
        }
    };
    let put_total = counter("msgPutTotalTodayNow");
    let get_total = counter("msgGetTotalTodayNow");
    one(&mut parts.put, put_total, info.put_tps.s10, &mut series.put);
    one(
        &mut parts.get,
        get_total,
        info.transferred_tps.s10,
        &mut series.get,
    );
}

/// The series of a name; a new one begins with what was recorded of it.
fn continued<'a>(
    series: &'a mut BTreeMap<String, Series>,
    recorded: &mut Recorded,
    name: &str,
    track: impl Fn(&String) -> Track,
) -> &'a mut Series {
    series.entry(name.to_owned()).or_insert_with_key(|name| {
        let mut series = Series::default();
        series.precede(&recorded.take(&track(name)));
        series
    })
}

/// Drops the series with the smallest newest values beyond [`SERIES_MAX`].
fn bound(series: &mut BTreeMap<String, Series>) {
    if series.len() <= SERIES_MAX {
        return;
    }
    let mut values: Vec<f64> = series.values().map(|s| s.last().unwrap_or(0.0)).collect();
    values.sort_by(|a, b| b.total_cmp(a));
    let smallest = values[SERIES_MAX - 1];
    let mut room = SERIES_MAX;
    series.retain(|_, s| {
        let keep = room > 0 && s.last().unwrap_or(0.0) >= smallest;
        room -= usize::from(keep);
        keep
    });
}

fn duration_ms(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::client::snapshot::{Listed, LiveBroker};

    const INTERVAL: Duration = Duration::from_secs(2);

    fn id(name: &str) -> BrokerId {
        BrokerId {
            cluster: "c".into(),
            name: name.into(),
            id: 0,
        }
    }

    fn lists(names: &[&str], at_ms: i64) -> Update {
        let listed = names
            .iter()
            .map(|n| Listed {
                broker: id(n),
                addr: format!("{n}:10911"),
            })
            .collect();
        Update {
            at_ms,
            retry_at_ms: None,
            told: Told::NameServer(
                "ns1".into(),
                ServerTold::Cluster(Ok((ClusterTable { listed, live: None }, Duration::ZERO))),
            ),
        }
    }

    fn runtime(name: &str, answer: Answer<i64>, at_ms: i64) -> Update {
        let answer = answer.map(|put| {
            let entries = BTreeMap::from([
                ("msgPutTotalTodayNow".to_owned(), put.to_string()),
                ("msgGetTotalTodayNow".to_owned(), "0".to_owned()),
            ]);
            (Box::new(RuntimeInfo::parse(entries)), Duration::ZERO)
        });
        Update {
            at_ms,
            retry_at_ms: None,
            told: Told::Broker(id(name), BrokerTold::Runtime(answer)),
        }
    }

    fn model() -> Model {
        let mut m = Model::new(vec!["ns1".into()]);
        m.fold(lists(&["a", "b"], 1000));
        let roster = m.settle(1000, INTERVAL);
        assert_eq!(
            roster,
            [
                Roster::Poll(id("a"), "a:10911".into()),
                Roster::Poll(id("b"), "b:10911".into())
            ]
        );
        m
    }

    #[test]
    fn a_missing_part_makes_a_sum_a_lower_bound() {
        let mut m = model();
        for (i, at) in [2000, 4000].into_iter().enumerate() {
            m.fold(runtime("a", Ok(100 * i as i64), at));
            m.fold(runtime("b", Ok(300 * i as i64), at));
        }
        m.settle(4000, INTERVAL);
        assert_eq!(
            m.put_total(),
            Total {
                value: Some(200.0),
                partial: false
            }
        );
        m.fold(runtime("b", Err("timed out".into()), 6000));
        m.settle(6000, INTERVAL);
        assert_eq!(
            m.put_total(),
            Total {
                value: Some(50.0),
                partial: true
            }
        );
        // The last answer stays, with its age.
        assert_eq!(m.snapshot.brokers[1].runtime.as_of_ms, 4000);
    }

    #[test]
    fn rates_that_are_denied_topic_by_topic_are_told_once_a_broker() {
        let mut m = model();
        let id = m.snapshot.brokers[0].broker.clone();
        let told = |m: &Model| m.log.iter().filter(|line| line.text.contains(", rate")).count();
        let mut at = 2000;
        let mut rate = |m: &mut Model, topic: &str, denied: bool| {
            at += 1000;
            let answer = if denied {
                Err("denied: no".to_owned())
            } else {
                Ok(1.0)
            };
            m.fold(Update {
                at_ms: at,
                retry_at_ms: None,
                told: Told::Broker(id.clone(), BrokerTold::TopicRate(topic.into(), answer)),
            });
        };
        // Allowed and denied topics by turns.
        for round in 0..5 {
            for topic in ["a", "b", "c", "d"] {
                rate(&mut m, topic, topic != "b");
            }
            assert_eq!(told(&m), 1, "{round}");
        }
        assert!(
            m.log
                .iter()
                .any(|line| line.text.contains("rate of a: denied: no"))
        );
        // The one that was told is allowed, and denied again: that is news.
        rate(&mut m, "a", false);
        rate(&mut m, "a", true);
        assert_eq!(told(&m), 2);
    }

    #[test]
    fn a_denial_and_a_bad_reply_are_told_once() {
        let mut m = model();
        let before = m.log.iter().count();
        let told = |m: &Model| {
            m.log
                .iter()
                .take(m.log.iter().count() - before)
                .map(|l| l.text.clone())
                .collect::<Vec<_>>()
        };
        for at in [2000, 4000, 6000] {
            m.fold(runtime("a", Err("denied: no permission".into()), at));
        }
        assert_eq!(
            told(&m),
            ["a:0, runtime: denied: no permission; asked again after a minute"]
        );
        m.fold(runtime("a", Ok(1), 8000));
        m.fold(runtime("a", Err("denied: again".into()), 9000));
        assert_eq!(told(&m).len(), 2);
        let reply = BadReply {
            server: "a:0 10.0.0.1:10911".into(),
            request: "GET_BROKER_RUNTIME_INFO",
            why: "not JSON".into(),
            kept: Ok("/tmp/x.bin".into()),
        };
        m.fold(Update {
            at_ms: 9500,
            retry_at_ms: None,
            told: Told::BadReply(Box::new(reply)),
        });
        assert_eq!(
            told(&m)[0],
            "bad reply of a:0 10.0.0.1:10911 to GET_BROKER_RUNTIME_INFO: not JSON; its bytes are in /tmp/x.bin"
        );
    }

    #[test]
    fn what_was_recorded_comes_before_what_is_seen() {
        let mut m = model();
        let mut recorded = Recorded::default();
        recorded.read(
            "{\"t\":500,\"in\":5.0,\"topics\":{\"T\":9.0,\"U\":1.0},\"put\":[[\"c\",\"a\",0,7.0]]}\n{\"t\":2500,\"in\":99.0}",
            0..=9000,
        );
        for (i, at) in [2000, 4000].into_iter().enumerate() {
            m.fold(runtime("a", Ok(100 * i as i64), at));
            m.fold(runtime("b", Ok(0), at));
            m.settle(at, INTERVAL);
        }
        let live: Vec<_> = m.put.points().collect();
        m.fold(Update {
            at_ms: 4100,
            retry_at_ms: None,
            told: Told::Recorded(Box::new(recorded)),
        });
        let points: Vec<_> = m.put.points().collect();
        assert_eq!(points[0], (500, 5.0));
        assert_eq!(points[points.len() - live.len()..], live);
        assert_eq!(m.broker_series[&id("a")].put.points().next(), Some((500, 7.0)));
        // A topic that is seen later begins with it.
        let topics = vec![(
            "T".to_owned(),
            TopicOnBroker {
                broker: id("a"),
                ..TopicOnBroker::default()
            },
        )];
        let told = |told| Update {
            at_ms: 5000,
            retry_at_ms: None,
            told: Told::Broker(id("a"), told),
        };
        m.fold(told(BrokerTold::Topics(Ok((topics, None)))));
        m.fold(told(BrokerTold::TopicRate("T".into(), Ok(3.0))));
        m.settle(5000, INTERVAL);
        assert_eq!(
            m.topic_series["T"].points().collect::<Vec<_>>(),
            [(500, 9.0), (5000, 3.0)]
        );
    }

    #[test]
    fn only_what_was_told_is_a_point_of_a_topic() {
        let mut m = model();
        let told = |name: &str, told, at_ms| Update {
            at_ms,
            retry_at_ms: None,
            told: Told::Broker(id(name), told),
        };
        for broker in ["a", "b"] {
            let of = |topic: &str| {
                let on = TopicOnBroker {
                    broker: id(broker),
                    ..TopicOnBroker::default()
                };
                (topic.to_owned(), on)
            };
            let topics = vec![of("T"), of("U")];
            m.fold(told(broker, BrokerTold::Topics(Ok((topics, None))), 2000));
        }
        let rate = |m: &mut Model, broker: &str, topic: &str, rate: f64, at: i64| {
            m.fold(told(broker, BrokerTold::TopicRate(topic.into(), Ok(rate)), at));
            m.settle(at, INTERVAL);
        };
        let points = |m: &Model, topic: &str| -> Vec<(u64, f64)> {
            m.topic_series
                .get(topic)
                .into_iter()
                .flat_map(Series::points)
                .collect()
        };
        rate(&mut m, "a", "T", 3.0, 3000);
        assert_eq!(points(&m, "T"), [], "the other broker was not asked yet");
        rate(&mut m, "b", "T", 4.0, 4000);
        rate(&mut m, "a", "U", 0.0, 5000);
        rate(&mut m, "b", "U", 0.0, 6000);
        rate(&mut m, "a", "T", 5.0, 7000);
        assert_eq!(points(&m, "T"), [(4000, 7.0), (7000, 9.0)]);
        assert_eq!(points(&m, "U"), [(6000, 0.0)], "not asked since");
    }

    #[test]
    fn rates_of_brokers_and_queues_cover_a_second() {
        let mut m = model();
        for (put, at) in [(0, 2000), (50, 2500), (50, 3000), (50, 3500)] {
            m.fold(runtime("a", Ok(put), at));
        }
        let points: Vec<_> = m.broker_series[&id("a")].put.points().collect();
        assert_eq!(points, [(3000, 50.0)]);
        let detail = |max, in_tps| {
            Box::new(TopicDetail {
                queues: vec![super::super::want::QueueEnds {
                    broker: "a".into(),
                    queue: 0,
                    min: 0,
                    max,
                    last_ms: 0,
                    in_tps,
                }],
                ..TopicDetail::default()
            })
        };
        let want = Want::Topic("T".into());
        let mut rate = |max, at_ms| {
            m.fold(Update {
                at_ms,
                retry_at_ms: None,
                told: Told::Found(want.clone(), Ok(Found::Topic(detail(max, None)))),
            });
            match m.found(&want).get() {
                Some(Found::Topic(detail)) => detail.queues[0].in_tps,
                _ => None,
            }
        };
        assert_eq!(rate(0, 1000), None);
        assert_eq!(rate(200, 3000), Some(100.0));
        // Asked again at once by an impatient operator.
        assert_eq!(rate(210, 3100), Some(100.0));
        assert_eq!(rate(210, 5100), Some(0.0));
    }

    #[test]
    fn retries_dead_letters_and_half_messages_are_told_with_what_is_missing() {
        let mut m = model();
        let told = |name: &str, told, at_ms| Update {
            at_ms,
            retry_at_ms: None,
            told: Told::Broker(id(name), told),
        };
        let dead = |names: &[&str], broker: &str| {
            let on = |name: &&str| {
                let on = TopicOnBroker {
                    broker: id(broker),
                    ..TopicOnBroker::default()
                };
                ((*name).to_owned(), on)
            };
            BrokerTold::Topics(Ok((names.iter().map(on).collect(), None)))
        };
        let lag = |committed: i64, retried: i64| {
            let row = |topic: &str, committed: i64, max: i64| GroupLag {
                group: "CG".into(),
                topic: topic.into(),
                committed: Some(committed),
                max,
                ..GroupLag::default()
            };
            let rows = vec![row("T", committed, 9000), row("%RETRY%CG", 0, retried)];
            BrokerTold::Lag(Ok(rows))
        };
        assert_eq!(
            (m.retry_total().value, m.dead_total().value, m.half_total().value),
            (None, None, None)
        );
        for broker in ["a", "b"] {
            m.fold(runtime(broker, Ok(1), 2000));
            m.fold(told(broker, dead(&["%DLQ%CG"], broker), 2000));
        }
        m.fold(told("a", BrokerTold::Half(Ok(7)), 2000));
        m.fold(told("a", BrokerTold::Dead("%DLQ%CG".into(), Ok(40)), 2000));
        m.fold(told("b", BrokerTold::Dead("%DLQ%CG".into(), Ok(1)), 2000));
        m.fold(told("a", lag(0, 0), 2000));
        m.settle(2000, INTERVAL);
        assert_eq!(
            m.dead_total(),
            Total {
                value: Some(0.0),
                partial: false
            }
        );
        assert_eq!(
            m.half_total(),
            Total {
                value: Some(7.0),
                partial: true
            }
        );
        // Three more, and the first two of a group that had none.
        m.fold(told("a", dead(&["%DLQ%CG", "%DLQ%New"], "a"), 12_000));
        m.fold(told("a", BrokerTold::Dead("%DLQ%CG".into(), Ok(43)), 12_000));
        m.fold(told("a", BrokerTold::Dead("%DLQ%New".into(), Ok(2)), 12_001));
        m.fold(told("b", BrokerTold::Half(Ok(1)), 12_000));
        m.fold(told("a", lag(1000, 120), 12_000));
        m.settle(12_000, INTERVAL);
        assert_eq!(m.dead_total().value, Some(5.0));
        assert_eq!(
            m.half_total(),
            Total {
                value: Some(8.0),
                partial: false
            }
        );
        assert_eq!(
            m.retry_total(),
            Total {
                value: Some(12.0),
                partial: true
            }
        );
        // 12/s come back of 100/s: that is more than a tenth.
        let storm = m
            .findings
            .iter()
            .find(|f| f.rule == "retry-storm")
            .expect("a finding");
        assert_eq!(storm.text, "group CG retries 12/s of 100/s consumed");
        m.fold(told("a", lag(3000, 130), 22_000));
        m.settle(22_000, INTERVAL);
        assert!(m.findings.iter().all(|f| f.rule != "retry-storm"), "1/s of 200/s");
    }

    #[test]
    fn nothing_known_is_not_zero() {
        let m = model();
        assert_eq!(m.put_total().value, None);
        assert_eq!(m.lag_total().value, None);
    }

    #[test]
    fn a_broker_that_left_is_kept_for_a_while() {
        let mut m = model();
        m.fold(lists(&["a"], 2000));
        assert_eq!(m.settle(2000, INTERVAL), []);
        assert_eq!(m.snapshot.brokers.len(), 2);
        assert_eq!(m.settle(1000 + KEEP_GONE_MS, INTERVAL), [Roster::Drop(id("b"))]);
        m.fold(runtime("b", Ok(1), 2000 + KEEP_GONE_MS));
        m.settle(2000 + KEEP_GONE_MS, INTERVAL);
        assert_eq!(m.snapshot.brokers.len(), 1);
    }

    #[test]
    fn a_registration_after_our_last_try_revives_a_broker() {
        let live = |age_ms, at_ms| {
            let mut update = lists(&["a", "b"], at_ms);
            if let Told::NameServer(_, ServerTold::Cluster(Ok((table, _)))) = &mut update.told {
                table.live = Some(vec![LiveBroker {
                    cluster: "c".into(),
                    addr: "a:10911".into(),
                    age: Duration::from_millis(age_ms),
                    limit: None,
                    data_version: None,
                }]);
            }
            update
        };
        let mut m = model();
        m.fold(runtime("a", Err("timed out".into()), 20_000));
        m.fold(live(9_000, 20_500));
        m.settle(20_500, INTERVAL);
        assert!(m.revived().is_empty(), "it registered before");
        m.fold(live(500, 30_000));
        m.settle(30_000, INTERVAL);
        assert_eq!(m.revived().get(&id("a")), Some(&29_500));
        // The same registration, told again, is no news.
        m.fold(live(2_400, 32_000));
        m.settle(32_000, INTERVAL);
        assert_eq!(m.revived().get(&id("a")), Some(&29_500));
        m.fold(runtime("a", Ok(1), 33_000));
        m.settle(33_000, INTERVAL);
        assert!(m.revived().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Any order and any repetition of the same updates ends in the same state.
        #[test]
        fn order_and_repetition_do_not_matter(order in Just((0..12usize).chain(0..12).collect::<Vec<_>>()).prop_shuffle()) {
            let updates: Vec<Update> = (0..12)
                .map(|i: i64| {
                    let at = 2000 + i * 10;
                    match i % 4 {
                        0 => runtime("a", Ok(at), at),
                        1 => runtime("b", Err(format!("failed {at}")), at),
                        2 => runtime("b", Ok(at), at),
                        _ => lists(&["a", "b"], at),
                    }
                })
                .collect();
            let mut straight = model();
            for u in &updates {
                straight.fold(u.clone());
            }
            straight.settle(10_000, INTERVAL);
            let mut mixed = model();
            for i in order {
                mixed.fold(updates[i].clone());
            }
            mixed.settle(10_000, INTERVAL);
            for (a, b) in straight.snapshot.brokers.iter().zip(&mixed.snapshot.brokers) {
                prop_assert_eq!(&a.runtime.error, &b.runtime.error);
                prop_assert_eq!(a.runtime.is_failed(), b.runtime.is_failed());
                if !a.runtime.is_failed() {
                    prop_assert_eq!(&a.runtime, &b.runtime);
                }
                prop_assert_eq!(&a.addr, &b.addr);
            }
            prop_assert_eq!(&straight.snapshot.name_servers, &mixed.snapshot.name_servers);
        }
    }
}
