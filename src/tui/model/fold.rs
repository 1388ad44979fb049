//! Taking in one piece of news.

use std::collections::{HashMap, HashSet};

use super::heard::{Heard, What};
use super::{BadReply, BrokerSeries, BrokerTold, FOUND, Model, Parts, ServerTold, Told, Update};
use crate::client::RuntimeInfo;
use crate::client::findings::Severity;
use crate::client::snapshot::{BrokerId, Fault, GroupLag, Seen};
use crate::protocol::model::DLQ_PREFIX;
use crate::tui::dead::ask::Question as DeadQuestion;
use crate::tui::history::{Counter, RATE_LEAST_MS, Reading, Series};
use crate::tui::messages::search::Question;
use crate::tui::record::{Recorded, Track};
use crate::tui::retries::Growth;
use crate::tui::want::{Found, TopicDetail, Want};

impl Model {
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

    fn fold_found(&mut self, want: Want, answer: Result<Found, String>, at_ms: i64) {
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
        let heard = self.heard.entry(addr.clone()).or_default();
        let what = (kind, None);
        if !heard.is_news(&what, at_ms) {
            return;
        }
        if let Some(line) = denial(heard, &format!("name server {addr}"), &what, told.verdict()) {
            self.log.push(at_ms, Severity::Warning, line);
        }
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

    fn fold_broker(&mut self, id: BrokerId, told: BrokerTold, at_ms: i64, retry_at_ms: Option<i64>) {
        let what = match &told {
            BrokerTold::Runtime(_) => ("runtime", None),
            BrokerTold::Config(_) => ("config", None),
            BrokerTold::Ha(_) => ("ha", None),
            BrokerTold::Topics(_) => ("topics", None),
            BrokerTold::TopicRate(topic, _) => ("rate", Some(topic.clone())),
            BrokerTold::Lag(_) => ("lag", None),
            BrokerTold::Stranded(_) => ("all positions", None),
            BrokerTold::Half(_) => ("half messages", None),
            BrokerTold::Dead(topic, _) => ("dead letters", Some(topic.clone())),
            BrokerTold::Missed(_) => ("missed", None),
        };
        let who = format!("{}/{id}", id.cluster);
        // A late answer of a broker that was dropped must not bring it back.
        let Some(index) = self.snapshot.brokers.iter().position(|b| b.broker == id) else {
            return;
        };
        let parts = self.parts.entry(id.clone()).or_default();
        if !parts.heard.is_news(&what, at_ms) {
            return;
        }
        if let Some(line) = denial(&mut parts.heard, &id.to_string(), &what, told.verdict()) {
            self.log.push(at_ms, Severity::Warning, line);
        }
        let broker = &mut self.snapshot.brokers[index];
        if told.is_alive() {
            broker.last_answer_ms = Some(broker.last_answer_ms.map_or(at_ms, |at| at.max(at_ms)));
        }
        match told {
            BrokerTold::Runtime(answer) => {
                let (info, rtt) = match answer {
                    Ok((mut info, rtt)) => {
                        // Each look bounds the clock; all of them bound it best.
                        let before = broker.runtime.get().and_then(|before| before.clock);
                        info.clock = match (before, info.clock) {
                            (Some(before), Some(now)) => Some(before.narrowed(now)),
                            (_, now) => now,
                        };
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
                let was = broker.is_silent();
                put(&mut broker.runtime, info, at_ms);
                self.topics_changed |= was != broker.is_silent();
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
                        parts.heard.keep_topics(&names);
                        let first = parts.topics.get().is_none();
                        for name in names.iter().filter(|name| name.starts_with(DLQ_PREFIX)) {
                            let growth = if first { Growth::default() } else { Growth::NEW };
                            parts.dead.entry((*name).to_owned()).or_insert(growth);
                        }
                        (Ok(topics), version.ok_or_else(|| "not told".into()))
                    }
                    Err(e) => (Err(e.clone()), Err(e)),
                };
                put(&mut parts.topics, topics, at_ms);
                put(&mut broker.topics_version, version, at_ms);
                self.topics_changed = true;
            }
            BrokerTold::TopicRate(topic, answer) => {
                let rate = parts.rates.entry(topic.clone()).or_default();
                let is_told = answer.is_ok();
                put(rate, answer, at_ms);
                if is_told && parts.flows.stored(&topic, rate).is_none() {
                    self.rates_told.insert(topic);
                }
                self.topics_changed = true;
            }
            BrokerTold::Missed(beats) => parts.missed = parts.missed.saturating_add(beats),
            BrokerTold::Half(answer) => put(&mut parts.half, answer, at_ms),
            BrokerTold::Dead(topic, answer) => {
                // Of a topic that is gone meanwhile nothing is told any more.
                if let Some(growth) = parts.dead.get_mut(&topic) {
                    match answer {
                        Ok(stored) => growth.take(stored),
                        Err(_) => growth.miss(),
                    }
                }
            }
            BrokerTold::Lag(answer) => {
                if let Ok(rows) = &answer {
                    let topics = parts.topics.get().into_iter().flatten();
                    let writes: HashMap<&str, i32> = topics
                        .map(|(name, on)| (name.as_str(), on.write_queues))
                        .collect();
                    let writes = |topic: &str| usize::try_from(*writes.get(topic)?).ok();
                    let mut by_group: HashMap<&str, Vec<&GroupLag>> = HashMap::new();
                    for row in rows {
                        by_group.entry(&row.group).or_default().push(row);
                    }
                    parts
                        .retries
                        .retain(|name, _| by_group.contains_key(name.as_str()));
                    for (name, rows) in by_group {
                        let flow = parts.retries.entry(name.to_owned()).or_default();
                        flow.take(u64::try_from(at_ms).unwrap_or(0), &rows);
                    }
                    let told = parts.flows.read(at_ms, rows, parts.get.value(), writes);
                    self.topics_changed |= !told.is_empty();
                    self.rates_told.extend(told);
                    parts.standing.look(rows, at_ms);
                }
                put(&mut parts.lag, answer, at_ms);
                self.lag_changed = true;
            }
            BrokerTold::Stranded(answer) => {
                put(&mut parts.stranded, answer, at_ms);
                self.topics_changed = true;
            }
        }
    }
}

/// What the event log says of a denial, where that was not said yet. A failure of another kind allows nothing.
fn denial(heard: &mut Heard, name: &str, what: &What, verdict: Option<Result<(), &str>>) -> Option<String> {
    let why = match verdict? {
        Err(why) => why,
        Ok(()) => {
            heard.allows(what);
            return None;
        }
    };
    let (kind, topic) = what;
    let (of, others) = match topic {
        Some(topic) => (format!(" of {topic}"), ", others are not told"),
        None => (String::new(), ""),
    };
    let line = format!("{name}, {kind}{of}: {why}; asked again after a minute{others}");
    heard.denies(what).then_some(line)
}

/// Stores an answer, or the reason beside the earlier answer.
fn put<T>(seen: &mut Seen<T>, answer: Result<T, impl Into<Fault>>, at_ms: i64) {
    match answer {
        Ok(value) => *seen = Seen::answered(value, at_ms),
        Err(why) => seen.error = Some(why.into()),
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
            .map(|q| queue.max.saturating_sub(q.max))
            .filter(|more| *more >= 0)
            .map(|more| more as f64 * 1000.0 / passed_ms as f64);
    }
    // The broker's average of a minute is nought at the beginning, and late afterwards.
    let known: Option<Vec<f64>> = now.queues.iter().map(|queue| queue.in_tps).collect();
    if let Some(rates) = known.filter(|rates| !rates.is_empty()) {
        now.in_tps = rates.iter().sum();
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
