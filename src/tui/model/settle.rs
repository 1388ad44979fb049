//! Judging what is known at one moment: who is there, what adds up, what is wrong.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use super::{CLIENTS_AGE_MS, KEEP_GONE_MS, Model, Roster, SAME_BEAT_MS, SERIES_MAX, SLOPE_WINDOW_MS};
use crate::client::admin::topic::kind;
use crate::client::findings::{self, Trends};
use crate::client::lag::{GroupKind, Waiting};
use crate::client::liveness;
use crate::client::snapshot::{
    BrokerId, BrokerState, GroupLag, GroupState, RegistrationAge, Seen, TopicState,
};
use crate::tui::history::{Course, Series};
use crate::tui::record::{Recorded, Track};
use crate::tui::want::{Found, Want};

impl Model {
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
        let all_down = !servers.is_empty() && servers.iter().all(|s| s.cluster.is_failed() && !s.is_alive());
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
            .filter(|b| b.is_silent())
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
                if let Some(rate) = parts.flows.stored(name, &on.in_tps) {
                    on.in_tps = rate.clone();
                }
                if let Some(queues) = parts.stranded.get().and_then(|topics| topics.get(name)) {
                    // Those that can be read again since are none.
                    let beyond = queues.iter().filter(|s| s.queue >= on.read_queues);
                    on.stranded = beyond.cloned().collect();
                }
                if silent.contains(&on.broker) {
                    // Not asked while the broker is silent, so as good as failed.
                    on.in_tps
                        .error
                        .get_or_insert_with(|| "the broker is silent".into());
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

    fn settle_revived(&mut self, now_ms: i64) {
        for broker in self.snapshot.brokers.iter().filter(|b| b.runtime.is_failed()) {
            let ages = broker.registrations.iter().filter_map(|r| match r.age {
                RegistrationAge::Exact(age) => Some(i64::try_from(age.as_millis()).unwrap_or(i64::MAX)),
                _ => None,
            });
            let Some(age) = ages.min() else { continue };
            let registered_ms = now_ms.saturating_sub(age);
            let tried = self
                .parts
                .get(&broker.broker)
                .and_then(|parts| parts.heard.of("runtime"));
            let tried_ms = tried.unwrap_or(i64::MAX);
            let known_ms = self.hurry.get(&broker.broker).copied().unwrap_or(i64::MIN);
            if registered_ms > tried_ms.max(known_ms.saturating_add(SAME_BEAT_MS)) {
                self.hurry.insert(broker.broker.clone(), registered_ms);
            }
        }
        let brokers = &self.snapshot.brokers;
        self.hurry
            .retain(|id, _| brokers.iter().any(|b| b.broker == *id && b.runtime.is_failed()));
    }

    fn trends(&self, now_ms: i64) -> Trends {
        let dispatch_behind = self.parts.iter().filter_map(|(id, parts)| {
            let since = parts.behind_since_ms?;
            Some((id.clone(), duration_ms(now_ms.saturating_sub(since))))
        });
        let lag_rising = self.group_series.iter().filter_map(|(name, series)| {
            let since = i64::try_from(series.rising_since()?).ok()?;
            let rises = |course: &Course| !course.is_noise() && course.slope > 0.0;
            let slope = series.course(SLOPE_WINDOW_MS).filter(rises)?.slope;
            Some((name.clone(), (duration_ms(now_ms.saturating_sub(since)), slope)))
        });
        let mut retries: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for (name, flow) in self.parts.values().flat_map(|parts| &parts.retries) {
            if let (Some(retry), Some(consume)) = (flow.retry, flow.consume)
                && retry > 0.0
            {
                let sum = retries.entry(name.clone()).or_default();
                *sum = (sum.0 + retry, sum.1 + consume);
            }
        }
        Trends {
            dispatch_behind: dispatch_behind.collect(),
            lag_rising: lag_rising.collect(),
            retries,
            waits: self.waits(now_ms),
        }
    }

    /// Of the groups whose oldest message was told of late: how long it waits by the clock of its broker.
    fn waits(&self, now_ms: i64) -> BTreeMap<String, (i64, String)> {
        let known = self.found.iter().filter_map(|(want, (_, seen))| {
            let Want::GroupBrief(name) = want else { return None };
            // Of a group that is on no screen any more nobody asks whether it has read on.
            if now_ms.saturating_sub(seen.as_of_ms) >= CLIENTS_AGE_MS {
                return None;
            }
            let at = (self.snapshot.groups).binary_search_by(|g| g.name.as_str().cmp(name));
            let oldest = self.oldest(&self.snapshot.groups[at.ok()?])?;
            let now = now_ms.saturating_add(self.ahead_ms(&oldest.broker));
            let age = now.saturating_sub(oldest.stored_ms);
            Some((name.clone(), (age, oldest.broker.clone())))
        });
        known.collect()
    }

    /// The message of a group that has been waiting longest, as it was told; not when the group has read on since in
    /// every queue.
    pub fn oldest(&self, group: &GroupState) -> Option<&Waiting> {
        let want = Want::GroupBrief(group.name.clone());
        let Some(Found::GroupBrief(brief)) = self.found(&want).get() else {
            return None;
        };
        if brief.kind == GroupKind::Broadcasting {
            return None;
        }
        let passed = |stored: i64| {
            let mut lagging = group
                .lag
                .get()
                .into_iter()
                .flatten()
                .filter(|row| row.lag().is_some_and(|lag| lag > 0));
            lagging.all(|row| row.last_consumed_ms.is_some_and(|at| at > 0 && at > stored))
        };
        brief.oldest.as_ref().filter(|oldest| !passed(oldest.stored_ms))
    }
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
