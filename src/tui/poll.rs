//! Asking: one task per server, each with its own schedule and breaker, so that none waits for another.
//!
//! A cycle asks everything that is due, at most [`IN_FLIGHT`] calls at once, and all its calls share one deadline:
//! a server that hangs costs one deadline however many calls were due. A beat that passed meanwhile is skipped. Rates that
//! nobody looks at have half a beat, at least a second, for turn and answer, and no beat counts as skipped because of them.

mod calls;

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::breaker::Breaker;
use super::model::{BrokerTold, Roster, Told, Update};
use crate::client::snapshot::BrokerId;
use crate::client::stranded::Ends;
use crate::client::{Client, Deadline, Rank};
use crate::protocol::model::DLQ_PREFIX;
use calls::ask;

/// Least time for turn and answer of a rate that nobody looks at.
const RATE_LEAST: Duration = Duration::from_secs(1);
/// Limit of all calls of a cycle.
const CYCLE: Duration = Duration::from_secs(2);
/// Calls to one server at once.
const IN_FLIGHT: usize = 4;
/// Updates that wait for the display; beyond, the tasks wait.
const UPDATES: usize = 1024;
/// A call that was denied or is not supported is not repeated for this long.
pub(super) const REFUSED: Duration = Duration::from_secs(60);
/// An answer about all positions that took so long is asked for again after this many times as long: it may be hard work
/// for the broker.
const LAG_REST: u32 = 20;

const CONFIG_EVERY: Duration = Duration::from_secs(60);
const HA_EVERY: Duration = Duration::from_secs(5);
const TOPICS_EVERY: Duration = Duration::from_secs(30);
const TOPIC_NAMES_EVERY: Duration = Duration::from_secs(10);
/// Pause between two looks at all positions: a slope needs five of them within a minute.
const LAG_EVERY: Duration = Duration::from_secs(10);
/// The same while the console is young and no slope is known yet; no shorter than the interval.
const YOUNG_LAG_EVERY: Duration = Duration::from_secs(2);
/// Longest pause between two of them, whatever the interval: else a minute has too few for a slope.
const LAG_AT_MOST: Duration = Duration::from_secs(10);
/// Pause between two rates of a topic on the screen.
const RATE_EVERY: Duration = Duration::from_secs(10);
/// Pause between two rates while the console is young and most of them are unknown or nought.
const YOUNG_EVERY: Duration = Duration::from_secs(4);
/// How long that is.
const YOUNG: Duration = Duration::from_secs(40);
/// Pause between two rates of topics that are not on the screen, once each has been asked for.
const OTHER_RATE_EVERY: Duration = Duration::from_secs(5);
/// Queues behind the read queues of their topic that are asked for at one look, two calls each.
const STRANDED: usize = 8;
const HALF_EVERY: Duration = Duration::from_secs(10);
/// Pause between two looks at a dead-letter topic, once each was looked at.
const DEAD_EVERY: Duration = Duration::from_secs(10);
/// Dead-letter topics never looked at, in one cycle.
const FIRST_DEAD: usize = 2;
/// Rates of topics never asked for, in one cycle.
const FIRST_RATES: usize = 8;

/// The polling tasks. They end when this is dropped.
#[derive(Debug)]
pub struct Poller {
    client: Arc<Client>,
    updates: mpsc::Sender<Update>,
    wishes: watch::Sender<Wishes>,
    brokers: HashMap<BrokerId, AbortHandle>,
    name_servers: Vec<AbortHandle>,
}

/// What the operator wants of every task.
#[derive(Debug, Clone)]
struct Wishes {
    interval: Duration,
    /// Counts the wishes to be asked now.
    refresh: u64,
    /// Topics on the screen.
    interest: Arc<Vec<String>>,
    /// Versions of the brokers' topic tables as the name servers have them.
    versions: Arc<BTreeMap<BrokerId, i64>>,
    /// Brokers that registered after our last try, and when.
    revived: Arc<BTreeMap<BrokerId, i64>>,
}

impl Poller {
    /// Starts to ask the name servers.
    pub fn start(client: Arc<Client>, interval: Duration) -> (Self, mpsc::Receiver<Update>) {
        let (updates, news) = mpsc::channel(UPDATES);
        let (wishes, _) = watch::channel(Wishes {
            interval,
            refresh: 0,
            interest: Arc::default(),
            versions: Arc::default(),
            revived: Arc::default(),
        });
        let mut poller = Self {
            client,
            updates,
            wishes,
            brokers: HashMap::new(),
            name_servers: Vec::new(),
        };
        for addr in poller.client.name_servers().to_vec() {
            let target = Target::NameServer(addr);
            let handle = poller.spawn(target);
            poller.name_servers.push(handle);
        }
        (poller, news)
    }

    /// Where news of other tasks join those of the poll.
    pub fn updates(&self) -> mpsc::Sender<Update> {
        self.updates.clone()
    }

    fn spawn(&self, target: Target) -> AbortHandle {
        let task = Task {
            client: Arc::clone(&self.client),
            target,
            updates: self.updates.clone(),
            wishes: self.wishes.subscribe(),
            schedule: HashMap::new(),
            breaker: Breaker::default(),
            topics: BTreeMap::new(),
            other_rate_at: None,
            dead: BTreeMap::new(),
            dead_at: None,
            started: Instant::now(),
            topics_version: None,
            read_queues: None,
            ends: Arc::default(),
        };
        tokio::spawn(task.run()).abort_handle()
    }

    /// Starts, moves or ends the polling of a broker.
    pub fn roster(&mut self, change: Roster) {
        let (id, next) = match change {
            Roster::Poll(id, addr) => {
                let handle = self.spawn(Target::Broker(id.clone(), addr));
                (id, Some(handle))
            }
            Roster::Drop(id) => (id, None),
        };
        let before = match next {
            Some(handle) => self.brokers.insert(id, handle),
            None => self.brokers.remove(&id),
        };
        if let Some(before) = before {
            before.abort();
        }
    }

    /// Asks every server now.
    pub fn refresh(&self) {
        self.wishes.send_modify(|w| w.refresh += 1);
    }

    /// Polls at this interval.
    pub fn set_interval(&self, interval: Duration) {
        self.wishes.send_modify(|w| w.interval = interval);
    }

    /// Brokers whose topic table is older than this are asked for it again.
    pub fn set_versions(&self, versions: BTreeMap<BrokerId, i64>) {
        self.wishes.send_modify(|w| w.versions = Arc::new(versions));
    }

    /// Brokers that registered after our last try, and when: they need not rest any longer.
    pub fn set_revived(&self, brokers: BTreeMap<BrokerId, i64>) {
        self.wishes.send_modify(|w| w.revived = Arc::new(brokers));
    }

    /// Rates of these topics are on the screen.
    pub fn set_interest(&self, topics: Vec<String>) {
        self.wishes.send_modify(|w| w.interest = Arc::new(topics));
    }
}

impl Drop for Poller {
    fn drop(&mut self) {
        for handle in self.name_servers.iter().chain(self.brokers.values()) {
            handle.abort();
        }
    }
}

#[derive(Debug, Clone)]
enum Target {
    NameServer(String),
    Broker(BrokerId, String),
}

impl Target {
    fn addr(&self) -> &str {
        match self {
            Self::NameServer(addr) | Self::Broker(_, addr) => addr,
        }
    }
}

/// A call of the schedule.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Job {
    Cluster,
    Limits,
    TopicNames,
    Runtime,
    Config,
    Ha,
    Topics,
    Lag,
    /// Queues behind the read queues: needs the topics first.
    Stranded,
    Half,
    Rate(String),
    Dead(String),
}

impl Job {
    /// The call that tells whether the server lives.
    const fn is_probe(&self) -> bool {
        matches!(self, Self::Cluster | Self::Runtime)
    }
}

/// Read queues of each topic, and what is known of the queues behind them.
pub(super) type Behind = (Arc<BTreeMap<String, i32>>, Arc<Ends>);

/// How a call ended, beside its news.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Answered,
    /// The server said no and will say so again.
    Refused,
    /// Nobody answered.
    Unreachable,
    /// It had no turn within the budget of calls.
    Skipped,
}

struct Task {
    client: Arc<Client>,
    target: Target,
    updates: mpsc::Sender<Update>,
    wishes: watch::Receiver<Wishes>,
    /// When each job is due; absent is at once.
    schedule: HashMap<Job, Instant>,
    breaker: Breaker,
    /// Topics of the broker and when the rate of each was asked for.
    topics: BTreeMap<String, Option<Instant>>,
    other_rate_at: Option<Instant>,
    /// Dead-letter topics of the broker and when each was looked at.
    dead: BTreeMap<String, Option<Instant>>,
    dead_at: Option<Instant>,
    started: Instant,
    /// Version of the topic table that `topics` comes from.
    topics_version: Option<i64>,
    /// Read queues of each topic, once they are told, and what is known of the queues behind them.
    read_queues: Option<Arc<BTreeMap<String, i32>>>,
    ends: Arc<Ends>,
}

impl Task {
    async fn run(mut self) {
        loop {
            let wishes = self.wishes.borrow_and_update().clone();
            let jobs = self.due(&wishes, Instant::now());
            if !jobs.is_empty() && self.cycle(jobs, &wishes).await.is_err() {
                return; // The display is gone.
            }
            let next = self.next(&wishes);
            let changed = tokio::select! {
                () = tokio::time::sleep_until(next) => false,
                changed = self.wishes.changed() => match changed {
                    Ok(()) => true,
                    Err(_) => return,
                },
            };
            if changed {
                self.wish_changed(&wishes);
            }
        }
    }

    fn wish_changed(&mut self, before: &Wishes) {
        let (interval, refresh, registered, revived) = {
            let now = self.wishes.borrow();
            let (registered, revived) = match &self.target {
                Target::Broker(id, _) => (now.versions.get(id).copied(), now.revived.get(id).copied()),
                Target::NameServer(_) => (None, None),
            };
            (now.interval, now.refresh, registered, revived)
        };
        let revived_before = match &self.target {
            Target::Broker(id, _) => before.revived.get(id).copied(),
            Target::NameServer(_) => None,
        };
        if revived > revived_before {
            self.breaker.hurry();
        }
        if registered.is_some() && self.topics_version.is_some_and(|v| registered > Some(v)) {
            self.schedule.remove(&Job::Topics);
        }
        if refresh != before.refresh {
            self.breaker.hurry();
            self.schedule.clear();
        }
        if interval != before.interval {
            self.schedule.retain(|job, _| !job.is_probe());
        }
    }

    fn fixed_jobs(&self) -> &'static [Job] {
        const SERVER: &[Job] = &[Job::Cluster, Job::TopicNames, Job::Limits];
        const MASTER: &[Job] = &[
            Job::Runtime,
            Job::Config,
            Job::Ha,
            Job::Topics,
            Job::Lag,
            Job::Half,
            Job::Stranded,
        ];
        const SLAVE: &[Job] = &[Job::Runtime, Job::Config];
        match &self.target {
            Target::NameServer(_) => SERVER,
            Target::Broker(id, _) if id.is_master() && self.read_queues.is_none() => {
                &MASTER[..MASTER.len() - 1]
            }
            Target::Broker(id, _) if id.is_master() => MASTER,
            Target::Broker(..) => SLAVE,
        }
    }

    fn is_due(&self, job: &Job, now: Instant) -> bool {
        self.schedule.get(job).is_none_or(|at| *at <= now)
    }

    /// What to ask now, most important first, within the budget.
    fn due(&mut self, wishes: &Wishes, now: Instant) -> Vec<Job> {
        if self.breaker.rests_until().is_some_and(|until| until > now) {
            return Vec::new();
        }
        let open = self.breaker.is_open();
        let fixed = self.fixed_jobs().iter();
        let mut jobs: Vec<Job> = fixed
            .filter(|job| {
                if open {
                    job.is_probe()
                } else {
                    self.is_due(job, now)
                }
            })
            .cloned()
            .collect();
        if !open {
            // What the others leave of the budget; the rest has its turn in a later cycle.
            let room = self.client.room(self.target.addr()).saturating_sub(jobs.len());
            let dead = self.due_dead(now);
            jobs.extend(dead.into_iter().chain(self.due_rates(wishes, now)).take(room));
        }
        for job in &jobs {
            match job {
                Job::Rate(topic) => drop(self.topics.insert(topic.clone(), Some(now))),
                Job::Dead(topic) => drop(self.dead.insert(topic.clone(), Some(now))),
                _ => {}
            }
        }
        jobs
    }

    /// Dead-letter topics that were never looked at, then now and then the one looked at longest ago.
    fn due_dead(&mut self, now: Instant) -> Vec<Job> {
        let never = self.dead.iter().filter(|(_, at)| at.is_none());
        let mut chosen: Vec<String> = never.take(FIRST_DEAD).map(|(topic, _)| topic.clone()).collect();
        let due = self
            .dead_at
            .is_none_or(|at| now.saturating_duration_since(at) >= DEAD_EVERY);
        if chosen.is_empty() && due {
            // One that was refused rests: its time is yet to come.
            let awake = self.dead.iter().filter(|(_, at)| at.is_none_or(|at| at <= now));
            let longest = awake.min_by_key(|(_, at)| **at);
            chosen.extend(longest.map(|(topic, _)| topic.clone()));
            self.dead_at = Some(now);
        }
        chosen.into_iter().map(Job::Dead).collect()
    }

    /// Rates of topics on the screen, then of those never asked for, then now and then of the others.
    fn due_rates(&mut self, wishes: &Wishes, now: Instant) -> Vec<Job> {
        let young = now.saturating_duration_since(self.started) < YOUNG;
        let every = if young { YOUNG_EVERY } else { RATE_EVERY };
        let old = |at: &Option<Instant>| at.is_none_or(|at| now.saturating_duration_since(at) >= every);
        let mut chosen: Vec<&String> = wishes
            .interest
            .iter()
            .filter(|topic| self.topics.get(*topic).is_some_and(old))
            .collect();
        let never = self
            .topics
            .iter()
            .filter(|(_, at)| at.is_none())
            .map(|(topic, _)| topic);
        let fresh: Vec<&String> = never
            .filter(|t| !wishes.interest.contains(t))
            .take(FIRST_RATES)
            .collect();
        let passed_once = fresh.is_empty();
        chosen.extend(fresh);
        let other_due = self
            .other_rate_at
            .is_none_or(|at| now.saturating_duration_since(at) >= OTHER_RATE_EVERY);
        if passed_once && other_due {
            let others = self
                .topics
                .iter()
                .filter(|(topic, at)| old(at) && !chosen.contains(topic));
            if let Some((topic, _)) = others.min_by_key(|(_, at)| **at) {
                chosen.push(topic);
            }
            self.other_rate_at = Some(now);
        }
        chosen.into_iter().cloned().map(Job::Rate).collect()
    }

    /// Asks all jobs; `Err` when nobody listens any more.
    async fn cycle(&mut self, jobs: Vec<Job>, wishes: &Wishes) -> Result<(), ()> {
        let start = Instant::now();
        let deadline = Deadline::after(CYCLE);
        let (client, target) = (Arc::clone(&self.client), self.target.clone());
        let beats = matches!(self.target, Target::Broker(..)) && jobs.iter().any(Job::is_probe);
        let is_seen = |job: &Job| match job {
            Job::Rate(topic) => wishes.interest.contains(topic),
            Job::Dead(_) | Job::Half => false,
            _ => true,
        };
        let calls: Vec<_> = jobs
            .into_iter()
            .map(|job| {
                let (rank, until) = if is_seen(&job) {
                    (Rank::First, deadline)
                } else {
                    (
                        Rank::Spare,
                        deadline.at_most((wishes.interval / 2).max(RATE_LEAST)),
                    )
                };
                let read = self.read_queues.clone().unwrap_or_default();
                let read = (read, Arc::clone(&self.ends));
                rank.of(ask(Arc::clone(&client), target.clone(), (job, read), until))
            })
            .collect();
        let mut took = Duration::ZERO;
        let mut answers: BoxStream<'_, (Job, Told, Outcome, Duration)> =
            stream::iter(calls).buffer_unordered(IN_FLIGHT).boxed();
        while let Some((job, told, outcome, call_took)) = answers.next().await {
            if outcome == Outcome::Skipped {
                // It stays due, and what was known stays shown with its age.
                match job {
                    Job::Rate(topic) => drop(self.topics.insert(topic, None)),
                    Job::Dead(topic) => drop(self.dead.insert(topic, None)),
                    _ => {}
                }
                continue;
            }
            if is_seen(&job) {
                took = start.elapsed();
            }
            let retry_at_ms = self.account(&job, &told, (outcome, call_took), start, wishes);
            let update = Update {
                at_ms: super::now_ms(),
                retry_at_ms,
                told,
            };
            self.updates.send(update).await.map_err(|_| ())?;
        }
        drop(answers);
        // Beats that passed while the broker was answering are counted and not made up for.
        let missed = took.as_millis() / wishes.interval.as_millis().max(1);
        if beats
            && missed > 0
            && let Target::Broker(id, _) = &self.target
        {
            let missed = u64::try_from(missed).unwrap_or(u64::MAX);
            let update = Update {
                at_ms: super::now_ms(),
                retry_at_ms: None,
                told: Told::Broker(id.clone(), BrokerTold::Missed(missed)),
            };
            self.updates.send(update).await.map_err(|_| ())?;
        }
        Ok(())
    }

    /// Schedules the job's next time; returns when a resting server is probed again, epoch ms.
    fn account(
        &mut self,
        job: &Job,
        told: &Told,
        (outcome, took): (Outcome, Duration),
        start: Instant,
        wishes: &Wishes,
    ) -> Option<i64> {
        let now = Instant::now();
        let mut retry_at_ms = None;
        if job.is_probe() {
            match outcome {
                Outcome::Unreachable => {
                    let rest = self.breaker.fail(now, jitter());
                    retry_at_ms = Some(super::now_ms() + i64::try_from(rest.as_millis()).unwrap_or(0));
                    // When it comes back, everything about it is asked anew.
                    self.schedule.clear();
                }
                Outcome::Answered | Outcome::Refused | Outcome::Skipped => self.breaker.succeed(),
            }
        }
        let every = match job {
            Job::Cluster | Job::Runtime => wishes.interval,
            Job::Limits | Job::Config | Job::Stranded => CONFIG_EVERY,
            Job::Ha => HA_EVERY,
            Job::Topics => TOPICS_EVERY,
            Job::TopicNames => TOPIC_NAMES_EVERY,
            Job::Half => HALF_EVERY,
            Job::Dead(topic) => {
                if outcome == Outcome::Refused {
                    self.dead.insert(topic.clone(), Some(start + REFUSED));
                }
                return retry_at_ms;
            }
            Job::Lag => {
                let young = now.saturating_duration_since(self.started) < YOUNG;
                lag_pause(took, wishes.interval, young)
            }
            Job::Rate(topic) => {
                if outcome == Outcome::Refused {
                    // As if it had been asked so late that it is due when the rest is over.
                    self.topics
                        .insert(topic.clone(), Some(start + REFUSED - RATE_EVERY));
                }
                return retry_at_ms;
            }
        };
        let every = if outcome == Outcome::Refused {
            every.max(REFUSED)
        } else {
            every
        };
        // From the start of the cycle, so that the beat does not drift by the time of the calls.
        self.schedule.insert(job.clone(), (start + every).max(now));
        if let Told::Broker(_, BrokerTold::Topics(Ok((topics, version)))) = told {
            self.topics_version = version.map(|v| v.counter);
            let read = topics.iter().map(|(name, on)| (name.clone(), on.read_queues));
            self.read_queues = Some(Arc::new(read.collect()));
            let names = || topics.iter().map(|(name, _)| name);
            self.topics = kept(&self.topics, names());
            self.dead = kept(&self.dead, names().filter(|name| name.starts_with(DLQ_PREFIX)));
        }
        retry_at_ms
    }

    /// When to look again.
    fn next(&self, wishes: &Wishes) -> Instant {
        let now = Instant::now();
        if let Some(until) = self.breaker.rests_until() {
            return until.max(now);
        }
        let due = |job: &Job| self.schedule.get(job).copied().unwrap_or(now);
        let first = self.fixed_jobs().iter().map(due).min().unwrap_or(now);
        // Not in a circle when the budget is used up or the next job is due this instant.
        let first = first.max(now + Duration::from_millis(50));
        let rates = !self.topics.is_empty() && !self.breaker.is_open();
        if rates {
            first.min(now + wishes.interval)
        } else {
            first
        }
    }
}

/// When each of these was asked for, as far as it was.
fn kept<'a>(
    before: &BTreeMap<String, Option<Instant>>,
    names: impl Iterator<Item = &'a String>,
) -> BTreeMap<String, Option<Instant>> {
    let at = |name: &String| before.get(name).copied().flatten();
    names.map(|name| (name.clone(), at(name))).collect()
}

/// Pause after an answer about all positions that took so long.
fn lag_pause(took: Duration, interval: Duration, young: bool) -> Duration {
    let least = if young { YOUNG_LAG_EVERY } else { LAG_EVERY };
    let beat = interval.min(LAG_AT_MOST).max(least);
    (took * LAG_REST).clamp(beat, CONFIG_EVERY)
}

/// A number from 0 to 1 that differs between processes and calls.
fn jitter() -> f64 {
    f64::from(RandomState::new().hash_one(0u8) as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_has_five_looks_at_all_positions_and_a_slow_broker_rests() {
        let s = Duration::from_secs;
        let quick = Duration::from_millis(20);
        // A young console has a slope after four pauses.
        assert_eq!(lag_pause(quick, Duration::from_millis(500), true), s(2));
        assert_eq!(lag_pause(quick, s(2), false), s(10));
        for interval in [s(1), s(5), s(60), s(3600)] {
            for young in [true, false] {
                assert!(lag_pause(quick, interval, young) * 4 <= s(60), "{interval:?}");
            }
        }
        // Five hundredths of the broker's time at most.
        assert_eq!(lag_pause(Duration::from_millis(700), s(2), true), s(14));
        assert_eq!(lag_pause(s(20), s(2), true), s(60));
    }
}
