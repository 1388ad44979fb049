//! Taking a broker out of service: producers leave it, what it holds is consumed, then it may stop.
//!
//! [`Client::drain_survey`] looks before anything is changed, [`Observer`] looks while it drains, [`Drain`] decides
//! from those looks, without a clock or network of its own.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::admin::cluster::BrokerAt;
use super::admin::topic::{MAX_QUEUES, kind};
use super::error::{Error, Server};
use super::positions::unread;
use super::produce::now_ms;
use super::scale::Pending;
use super::scale::pending::{Landing, Waiting};
use super::snapshot::{GroupLag, TopicKind};
use super::{Client, Which};
use crate::protocol::body::{ConsumeType, MessageModel, TopicRouteData};
use crate::protocol::codes;
use crate::protocol::model::Perm;
use crate::protocol::requests::GetAllProducerInfo;

/// A topic that took a message in this time has write traffic.
const TRAFFIC: Duration = Duration::from_secs(86_400);
/// Window of the rate that is shown.
const WINDOW_MS: i64 = 10_000;
/// The setting that decides whether a broker takes messages.
pub const PERMISSION: &str = "brokerPermission";

/// What a broker has, before it is drained.
#[derive(Debug, Default)]
pub struct Survey {
    /// Its permission now.
    pub permission: Perm,
    /// Its configuration.
    pub config: BTreeMap<String, String>,
    /// Users' topics that producers may write here.
    pub topics: BTreeSet<String>,
    /// Of those, writable nowhere else, and with traffic of the last day here or on another master; with a master that could not
    /// be asked as well.
    pub only_here: BTreeSet<String>,
    /// Writable nowhere else, but without traffic on any master.
    pub idle_only_here: BTreeSet<String>,
    /// Ordered topics.
    pub ordered: BTreeSet<String>,
    /// Static topics with queues here.
    pub static_topics: BTreeSet<String>,
    /// Other masters of the cluster that take messages, as they say and as name servers send producers there.
    pub others: Vec<String>,
    /// Name servers that answer and do not list the broker at its address.
    pub disagree: Vec<String>,
    /// Queues of all its users' topics.
    pub queues: i64,
}

/// One look at a broker that drains.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Look {
    /// When, epoch ms.
    pub now_ms: i64,
    /// Name servers with topics that are still writable here.
    pub writable_at: Vec<String>,
    /// Sum of the ends of users' topics.
    pub stored: i64,
    /// Messages stored since boot, the broker's own included.
    pub stored_all: Option<i64>,
    /// The broker's own rate, all messages, 10 s.
    pub in_tps: Option<f64>,
    /// Backlog of online groups that share the queues, those without one included.
    pub online: BTreeMap<String, i64>,
    /// Messages handed out and not acknowledged, where there are any, whether the group is online or not.
    pub inflight: BTreeMap<String, i64>,
    /// Online groups that pop: what they hold is behind their position already.
    pub pops: BTreeSet<String>,
    /// Online groups whose positions are on their clients.
    pub broadcasting: BTreeSet<String>,
    /// Backlog of offline groups, which nobody reads.
    pub offline: BTreeMap<String, i64>,
    /// Of these backlogs what lies in queues where the group has no position, and where it would begin its clients decide.
    pub unplaced: BTreeMap<String, i64>,
    /// What waits for its time or its end.
    pub pending: Pending,
    /// Bytes that the slowest slave is behind; `None` without slaves.
    pub slave_behind: Option<i64>,
    /// Producers that are connected.
    pub producers: BTreeSet<String>,
    /// What could not be seen.
    pub unknown: Vec<String>,
}

/// How long to wait for what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// How long no message may come.
    pub quiet: Duration,
    /// End of the wait.
    pub deadline: Duration,
    /// Pause between two looks.
    pub pause: Duration,
    /// Wait for the broker's own writes as well.
    pub include_system: bool,
    /// Delayed, timed and half messages stay.
    pub ignore_delayed: bool,
    /// How long the backlog must have been gone where pop clients may hold messages.
    pub pop_wait: Duration,
    /// Groups that are not waited for.
    pub ignored: BTreeSet<String>,
}

/// What to do after a look.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Look again; what is waited for.
    Wait(Vec<String>),
    /// It may stop; what was seen.
    Safe(Calm),
    /// The deadline passed; what is left.
    Deadline(Vec<String>),
}

/// A drained broker in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calm {
    /// How long no message came, s.
    pub quiet_s: i64,
    /// Bytes that the slowest slave is behind.
    pub slave_behind: Option<i64>,
}

/// The decider.
#[derive(Debug)]
pub struct Drain {
    settings: Settings,
    started_ms: i64,
    /// Stored sum and since when it stands.
    still: Option<(i64, i64)>,
    /// Time and stored sum of looks in the window.
    history: VecDeque<(i64, i64)>,
    /// Groups that were online in some look: they are waited for to the end.
    required: BTreeSet<String>,
    /// Of those, groups that popped in some look.
    popped: BTreeSet<String>,
    /// Since when no required group has anything left.
    read_since: Option<i64>,
}

impl Drain {
    /// A drain that begins now.
    pub fn new(settings: Settings, now_ms: i64) -> Self {
        Self {
            settings,
            started_ms: now_ms,
            still: None,
            history: VecDeque::new(),
            required: BTreeSet::new(),
            popped: BTreeSet::new(),
            read_since: None,
        }
    }

    /// Messages a second into users' topics, over the window.
    pub fn in_rate(&self) -> Option<f64> {
        let (first, last) = (self.history.front()?, self.history.back()?);
        let span = last.0 - first.0;
        (span > 0).then(|| (last.1 - first.1).max(0) as f64 * 1000.0 / span as f64)
    }

    /// The decision after a look.
    pub fn next(&mut self, look: &Look) -> Next {
        let now = look.now_ms;
        let stored = if self.settings.include_system {
            look.stored_all.unwrap_or(look.stored)
        } else {
            look.stored
        };
        self.history.push_back((now, stored));
        while self.history.front().is_some_and(|(at, _)| now - at > WINDOW_MS) && self.history.len() > 2 {
            self.history.pop_front();
        }
        let since = match self.still {
            Some((sum, since)) if sum == stored && look.writable_at.is_empty() => since,
            _ => now,
        };
        self.still = Some((stored, since));
        let quiet_s = (now - since) / 1000;
        let mut left = look.unknown.clone();
        left.extend(look.writable_at.iter().cloned());
        if now - since < i64::try_from(self.settings.quiet.as_millis()).unwrap_or(i64::MAX) {
            let rate = self
                .in_rate()
                .map_or_else(String::new, |rate| format!(", in {rate:.1}/s"));
            let who = if look.producers.is_empty() || quiet_s > 0 {
                String::new()
            } else {
                let names: Vec<&str> = look.producers.iter().map(String::as_str).collect();
                format!(", producers connected: {}", names.join(", "))
            };
            left.push(format!(
                "no message for {quiet_s} of {}s{rate}{who}",
                self.settings.quiet.as_secs()
            ));
        }
        left.extend(self.unread(look));
        if !self.settings.ignore_delayed && !look.pending.is_empty() {
            left.push(format!("{} wait here", look.pending));
        }
        if let Some(behind) = look.slave_behind.filter(|behind| *behind > 0) {
            left.push(format!("a slave is {behind} bytes behind"));
        }
        if left.is_empty() {
            return Next::Safe(Calm {
                quiet_s,
                slave_behind: look.slave_behind,
            });
        }
        if Duration::from_millis(u64::try_from(now - self.started_ms).unwrap_or(0)) >= self.settings.deadline
        {
            return Next::Deadline(left);
        }
        Next::Wait(left)
    }

    /// What groups have not read, and what pop clients may hold. A group that was online once stays required.
    fn unread(&mut self, look: &Look) -> Vec<String> {
        let now = look.now_ms;
        let ignored = &self.settings.ignored;
        let named = |groups: &BTreeSet<String>| groups.difference(ignored).cloned().collect::<Vec<_>>();
        let online: BTreeSet<String> = look.online.keys().cloned().collect();
        self.required.extend(named(&online));
        self.popped.extend(named(&look.pops));
        let mut behind = Vec::new();
        for group in &self.required {
            let online = look.online.get(group);
            let lag = *online.or_else(|| look.offline.get(group)).unwrap_or(&0);
            let inflight = look.inflight.get(group).copied().unwrap_or(0);
            if lag == 0 && inflight == 0 {
                continue;
            }
            let mut line = format!("{group} is {lag} messages behind");
            line.push_str(&look.unplaced_of(group));
            if inflight > 0 {
                line.push_str(&format!(" with {inflight} in flight"));
            }
            if online.is_none() {
                line.push_str(", was online and is not now");
            }
            behind.push(line);
        }
        if !behind.is_empty() {
            self.read_since = None;
            return behind;
        }
        // Without an answer of every group nothing is known to be read.
        if !look.unknown.is_empty() {
            self.read_since = None;
            return behind;
        }
        let read_for = now - *self.read_since.get_or_insert(now);
        let wanted = i64::try_from(self.settings.pop_wait.as_millis()).unwrap_or(i64::MAX);
        if !self.popped.is_empty() && read_for < wanted {
            let names: Vec<&str> = self.popped.iter().map(String::as_str).collect();
            behind.push(format!(
                "pop clients of {} may hold messages: read for {} of {}s",
                names.join(", "),
                read_for / 1000,
                self.settings.pop_wait.as_secs()
            ));
        }
        behind
    }
}

impl Look {
    /// What of a group's backlog lies in queues where it has no position, in words to append; nothing without any.
    pub fn unplaced_of(&self, group: &str) -> String {
        match self.unplaced.get(group) {
            None | Some(0) => String::new(),
            Some(n) => format!(" ({n} of them in queues where it has no position)"),
        }
    }
}

impl Client {
    /// What a master has, and what would be left without it.
    pub async fn drain_survey(&self, broker: &BrokerAt) -> Result<Survey, Error> {
        let deadline = self.deadline();
        let server = broker.server();
        let mut survey = Survey::default();
        for (addr, table) in self.cluster_info_each().await {
            let Ok((_, table)) = table else { continue };
            let listed = table
                .broker_addr_table
                .get(&broker.id.name)
                .is_some_and(|set| set.master() == Some(broker.addr.as_str()));
            if !listed {
                survey.disagree.push(addr);
            }
        }
        survey.config = self.broker_config(&server, deadline).await?;
        survey.permission = permission(&survey.config);
        let servers = self.server_names().await?;
        let scope = super::Scope {
            cluster: Some(broker.id.cluster.clone()),
            brokers: Vec::new(),
        };
        let masters: Vec<BrokerAt> = self
            .brokers(&scope, Which::Masters)
            .await?
            .into_iter()
            .filter(|other| other.id.name != broker.id.name)
            .collect();
        let configs = self
            .each(masters.clone(), |other| async move {
                let config = self.broker_config(&other.server(), deadline).await;
                (other.id.name, config)
            })
            .await;
        // A broker that cannot be asked is no refuge, whatever the name servers still show.
        let alive: BTreeSet<String> = configs
            .into_iter()
            .filter(|(_, config)| config.as_ref().is_ok_and(|c| permission(c).writable()))
            .map(|(name, _)| name)
            .collect();
        let own = self.broker_topics(&server, deadline).await?;
        let hosted = own.topic_queue_mapping_detail_map.unwrap_or_default();
        survey.static_topics = hosted
            .into_iter()
            .filter(|(_, mapping)| !mapping.hosted_queues.is_empty())
            .map(|(name, _)| name)
            .collect();
        for (name, config) in own.topic_config_table {
            if kind(&name, &servers) != TopicKind::User {
                continue;
            }
            survey.queues += i64::from(config.read_queue_nums.max(config.write_queue_nums));
            if !config.perm.writable() {
                continue;
            }
            if config.order {
                survey.ordered.insert(name.clone());
            }
            survey.topics.insert(name);
        }
        // Producers go where name servers send them. The topic of a cluster's name is on all its brokers.
        let mut routed: Vec<&String> = survey.topics.iter().collect();
        routed.push(&broker.id.cluster);
        let routes = self
            .each(
                routed,
                |topic| async move { (topic, self.route_each(topic).await) },
            )
            .await;
        let (mut candidates, mut others) = (Vec::new(), BTreeSet::new());
        for (topic, answers) in routes {
            let shown: Vec<TopicRouteData> = answers.into_iter().filter_map(|(_, r)| r.ok()?).collect();
            let elsewhere: BTreeSet<String> = writable_elsewhere(&shown, &broker.id.name)
                .intersection(&alive)
                .cloned()
                .collect();
            if elsewhere.is_empty() && survey.topics.contains(topic) {
                candidates.push(topic.clone());
            }
            // Without that topic (clusterTopicEnable=false) only their own word is left.
            if shown.is_empty() && *topic == broker.id.cluster {
                others.extend(alive.iter().cloned());
            }
            others.extend(elsewhere);
        }
        survey.others = others.into_iter().collect();
        let since = now_ms() - i64::try_from(TRAFFIC.as_millis()).unwrap_or(0);
        // What was sent to another broker, which takes nothing any more, is traffic of the topic as well.
        let looks: Vec<(&String, Server)> = std::iter::once(broker)
            .chain(&masters)
            .flat_map(|master| candidates.iter().map(|name| (name, master.server())))
            .collect();
        let answers = self
            .each(looks, |(name, at)| async move {
                let stats = self.topic_stats(&at, name, self.deadline()).await;
                (name, at, stats)
            })
            .await;
        for (name, at, stats) in answers {
            let used = match stats {
                Ok(stats) => {
                    let mut times = stats.offset_table.values().map(|at| at.last_update_timestamp);
                    times.any(|last| last >= since)
                }
                Err(e) if at == server => return Err(e),
                // A broker that does not have the topic, or cannot be asked: what it had is not known.
                Err(e) => e.remote_code() != Some(codes::TOPIC_NOT_EXIST),
            };
            if used {
                survey.only_here.insert(name.clone());
            }
        }
        survey.idle_only_here = candidates.into_iter().collect();
        survey
            .idle_only_here
            .retain(|name| !survey.only_here.contains(name));
        Ok(survey)
    }

    /// Takes write permission of a broker away at every name server, or gives it back; one result each.
    pub async fn set_route_writable(&self, broker: &str, writable: bool) -> Vec<(String, Result<(), Error>)> {
        let servers = self.name_servers().to_vec();
        self.each(servers, |addr| async move {
            let done = self
                .set_write_perm(&addr, broker, writable, self.deadline())
                .await;
            (addr, done.map(drop))
        })
        .await
    }

    /// Name servers and topics whose route shows the broker with another write permission than wanted, and name
    /// servers that did not say.
    pub async fn routes_with_write(
        &self,
        broker: &str,
        topics: &BTreeSet<String>,
        writable: bool,
    ) -> RoutesSeen {
        let answers = self
            .each(topics.iter().collect(), |topic| async move {
                (topic, self.route_each(topic).await)
            })
            .await;
        let mut seen = RoutesSeen::default();
        for (topic, routes) in answers {
            for (addr, route) in routes {
                let route = match route {
                    Ok(Some(route)) => route,
                    Ok(None) => continue,
                    Err(e) => {
                        seen.silent.insert(addr, e.reason());
                        continue;
                    }
                };
                let shown = route.queue_datas.iter().find(|q| q.broker_name == broker);
                if shown.is_some_and(|q| q.perm.writable() != writable) {
                    seen.wrong.push((addr, topic.clone()));
                }
            }
        }
        seen
    }
}

/// Write permission of a broker as the name servers show it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RoutesSeen {
    /// Name servers and topics that show another one than wanted.
    pub wrong: Vec<(String, String)>,
    /// Name servers that did not answer, with the reason: what they show is unknown.
    pub silent: BTreeMap<String, String>,
}

/// Other brokers that every name server with a route sends producers to: with a master, and with queues to write. A
/// permission that was wiped at one of them counts.
fn writable_elsewhere(routes: &[TopicRouteData], own: &str) -> BTreeSet<String> {
    routes
        .iter()
        .map(|route| {
            let masters: BTreeSet<&str> = route
                .broker_datas
                .iter()
                .filter(|set| set.master().is_some())
                .map(|set| set.broker_name.as_str())
                .collect();
            route
                .queue_datas
                .iter()
                .filter(|q| q.broker_name != own && q.perm.writable() && q.write_queue_nums > 0)
                .filter(|q| masters.contains(q.broker_name.as_str()))
                .map(|q| q.broker_name.clone())
                .collect::<BTreeSet<String>>()
        })
        .reduce(|all, one| all.intersection(&one).cloned().collect())
        .unwrap_or_default()
}

/// The permission in a configuration; a broker that does not say has all.
pub fn permission(config: &BTreeMap<String, String>) -> Perm {
    config
        .get(PERMISSION)
        .and_then(|v| v.parse().ok())
        .map_or(Perm::READ_WRITE, Perm)
}

/// Looks at a broker that drains.
#[derive(Debug)]
pub struct Observer {
    broker: BrokerAt,
    topics: BTreeSet<String>,
    config: BTreeMap<String, String>,
    waiting: Waiting,
    /// Topics whose routes are not yet as wanted.
    routed: BTreeSet<String>,
    /// Write permission is wiped at the name servers again and again.
    wipe: bool,
    /// Topics of the groups that were seen online, which may have no position in them when they leave.
    subscribed: BTreeMap<String, BTreeSet<String>>,
}

impl Observer {
    /// An observer after a survey.
    pub fn new(broker: BrokerAt, survey: &Survey, wipe: bool) -> Self {
        Self {
            broker,
            topics: survey.topics.clone(),
            config: survey.config.clone(),
            waiting: Waiting::new(Landing::Anywhere),
            routed: survey.topics.clone(),
            wipe,
            subscribed: BTreeMap::new(),
        }
    }

    /// What waits on the broker for its time or its end.
    pub async fn pending(&mut self, client: &Client) -> Result<Pending, Error> {
        let server = self.broker.server();
        self.waiting.look(client, &server, &self.config, now_ms()).await
    }

    /// One look.
    pub async fn look(&mut self, client: &Client) -> Look {
        let server = self.broker.server();
        let mut look = Look::default();
        // With the wipe, a broker's next registration may bring the permission back: every route is looked at.
        let routed = if self.wipe { &self.topics } else { &self.routed };
        let RoutesSeen { wrong, silent } = client
            .routes_with_write(&self.broker.id.name, routed, false)
            .await;
        // What a silent name server shows is looked at again.
        if silent.is_empty() {
            self.routed = wrong.iter().map(|(_, topic)| topic.clone()).collect();
        }
        for (addr, why) in silent {
            look.unknown.push(format!("routes of name server {addr}: {why}"));
        }
        if !wrong.is_empty() {
            if self.wipe {
                for (addr, done) in client.set_route_writable(&self.broker.id.name, false).await {
                    if let Err(e) = done {
                        look.unknown.push(format!("name server {addr}: {}", e.reason()));
                    }
                }
            }
            let mut by_server: BTreeMap<String, usize> = BTreeMap::new();
            for (addr, _) in wrong {
                *by_server.entry(addr).or_default() += 1;
            }
            let line = |(addr, n)| format!("name server {addr} shows {n} topics writable");
            look.writable_at = by_server.into_iter().map(line).collect();
        }
        match self.pending(client).await {
            Ok(pending) => look.pending = pending,
            Err(e) => look.unknown.push(format!("messages that wait: {}", e.reason())),
        }
        let ends = client
            .each(self.topics.iter().collect(), |topic| {
                let server = &server;
                async move { client.topic_stats(server, topic, client.deadline()).await }
            })
            .await;
        for stats in ends {
            match stats {
                Ok(stats) => look.stored += stats.offset_table.values().map(|at| at.max_offset).sum::<i64>(),
                Err(e) => look.unknown.push(format!("queues: {}", e.reason())),
            }
        }
        match client.broker_runtime(&server, client.deadline()).await {
            Ok(runtime) => {
                look.stored_all = runtime.put_total;
                look.in_tps = runtime.put_tps.s10;
            }
            Err(e) => look.unknown.push(format!("runtime: {}", e.reason())),
        }
        if let Err(e) = self.groups(client, &server, &mut look).await {
            look.unknown.push(format!("groups: {}", e.reason()));
        }
        match client.broker_ha(&server, client.deadline()).await {
            Ok(state) => {
                look.slave_behind = state.slaves.iter().map(|s| s.behind_bytes.max(0)).max();
                self.slaves(client, state.slaves.len(), &mut look).await;
            }
            Err(e) => look.unknown.push(format!("replication: {}", e.reason())),
        }
        // An old broker does not name its producers.
        let producers = client
            .call(&server, &GetAllProducerInfo, (), client.deadline())
            .await;
        if let Ok((_, table)) = producers {
            for (group, list) in table.value.data {
                let ids = list.into_iter().map(|p| format!("{group} {}", p.client_id));
                look.producers
                    .extend(ids.filter(|_| group != "CLIENT_INNER_PRODUCER"));
            }
        }
        look.now_ms = now_ms();
        look
    }

    /// A slave that is registered and not connected has who knows what.
    async fn slaves(&self, client: &Client, connected: usize, look: &mut Look) {
        let mut registered = BTreeSet::new();
        for (_, table) in client.cluster_info_each().await {
            // A name server that is silent is told with its routes; the others list the slaves.
            let Ok((_, table)) = table else { continue };
            if let Some(set) = table.broker_addr_table.get(&self.broker.id.name) {
                registered.extend(set.broker_addrs.keys().copied().filter(|id| *id != 0));
            }
        }
        if connected < registered.len() {
            look.unknown.push(format!(
                "{connected} of {} registered slaves are connected",
                registered.len()
            ));
        }
    }

    /// What a group has to read in the queues of a topic that its rows do not name.
    async fn untold(
        &self,
        client: &Client,
        server: &Server,
        (group, topic, queues): (&str, &str, i32),
        rows: &[GroupLag],
    ) -> Result<i64, Error> {
        let told = rows.iter().filter(|row| row.topic == topic).map(|row| row.queue);
        let told: BTreeSet<i32> = told.collect();
        if (0..queues).all(|queue| told.contains(&queue)) {
            return Ok(0);
        }
        let ranges = client.queue_ranges(server, topic, 0..queues).await?;
        let name = self.broker.id.name.as_str();
        let untold = client
            .untold_rows((name, server), (group, topic), rows, &ranges)
            .await?;
        Ok(untold.iter().map(|row| unread(row, &ranges)).sum())
    }

    /// Backlog of every group that the broker knows by a configuration or by a position. The list of all groups in
    /// one answer (317) leaves out read queues that are not written and groups without a configuration.
    async fn groups(&mut self, client: &Client, server: &Server, look: &mut Look) -> Result<(), Error> {
        let mut known = client.known_groups(std::slice::from_ref(&self.broker)).await;
        if let Some((_, e)) = known.failed.pop() {
            return Err(e);
        }
        let groups: Vec<String> = known
            .groups
            .into_keys()
            .filter(|group| !super::admin::group::is_system(group))
            .collect();
        let topics = client
            .broker_topics(server, client.deadline())
            .await?
            .topic_config_table;
        let seen = &*self;
        let lags = client
            .each(groups, |group| {
                let topics = &topics;
                async move {
                    let lag = client.group_lag(server, &group, None, client.deadline()).await?;
                    let inflight: i64 = lag.queues.iter().map(|q| q.inflight.unwrap_or(0).max(0)).sum();
                    // Asked of groups without a backlog as well: who is online now is waited for to the end.
                    let clients = client.group_clients(server, &group, client.deadline()).await?;
                    let mut unread: i64 = lag.queues.iter().filter_map(|q| q.lag()).sum();
                    let subscribed: BTreeSet<String> = match &clients {
                        Some(c) if c.message_model == MessageModel::Broadcasting => BTreeSet::new(),
                        Some(c) => c.subscription_table.keys().cloned().collect(),
                        None => seen.subscribed.get(&group).cloned().unwrap_or_default(),
                    };
                    let mut unplaced = 0i64;
                    for (topic, config) in subscribed.iter().filter_map(|topic| topics.get_key_value(topic)) {
                        let queues = config.read_queue_nums.max(config.write_queue_nums);
                        let of = (group.as_str(), topic.as_str(), queues.clamp(0, MAX_QUEUES));
                        let untold = seen.untold(client, server, of, &lag.queues).await?;
                        unplaced = unplaced.saturating_add(untold);
                    }
                    unread = unread.saturating_add(unplaced);
                    Ok::<_, Error>((group, (unread, unplaced), inflight, clients, subscribed))
                }
            })
            .await;
        for answer in lags {
            let (group, (lag, unplaced), inflight, clients, subscribed) = answer?;
            self.subscribed.insert(group.clone(), subscribed);
            match clients {
                Some(c) if c.message_model == MessageModel::Broadcasting => {
                    look.broadcasting.insert(group);
                    continue;
                }
                Some(c) => {
                    if c.consume_type == ConsumeType::Pop {
                        look.pops.insert(group.clone());
                    }
                    look.online.insert(group.clone(), lag);
                }
                None if lag > 0 => {
                    look.offline.insert(group.clone(), lag);
                }
                None => {}
            }
            if unplaced > 0 {
                look.unplaced.insert(group.clone(), unplaced);
            }
            // What was handed out behind the position; a group that is at the end has none in flight here.
            if lag > 0 && inflight > 0 {
                look.inflight.insert(group, inflight);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> Settings {
        Settings {
            quiet: Duration::from_secs(30),
            deadline: Duration::from_secs(300),
            pause: Duration::from_secs(2),
            include_system: false,
            ignore_delayed: false,
            pop_wait: Duration::from_secs(60),
            ignored: BTreeSet::new(),
        }
    }

    fn look(at_s: i64, stored: i64) -> Look {
        Look {
            now_ms: at_s * 1000,
            stored,
            ..Look::default()
        }
    }

    #[test]
    fn a_broker_is_safe_only_when_nothing_comes_and_nothing_is_left() {
        let mut drain = Drain::new(settings(), 0);
        assert!(matches!(drain.next(&look(0, 5)), Next::Wait(_)));
        assert!(matches!(drain.next(&look(10, 7)), Next::Wait(_)));
        assert_eq!(drain.in_rate(), Some(0.2));
        assert!(matches!(drain.next(&look(39, 7)), Next::Wait(_)));
        let mut behind = look(41, 7);
        behind.online.insert("CG".into(), 3);
        behind.unplaced.insert("CG".into(), 2);
        behind.offline.insert("OLD".into(), 9);
        assert_eq!(
            drain.next(&behind),
            Next::Wait(vec![
                "CG is 3 messages behind (2 of them in queues where it has no position)".into()
            ])
        );
        let mut slave = look(43, 7);
        slave.slave_behind = Some(10);
        assert_eq!(
            drain.next(&slave),
            Next::Wait(vec!["a slave is 10 bytes behind".into()])
        );
        slave.slave_behind = Some(0);
        slave.now_ms = 45_000;
        assert_eq!(
            drain.next(&slave),
            Next::Safe(Calm {
                quiet_s: 35,
                slave_behind: Some(0)
            })
        );
    }

    /// A broker whose write permission is wiped at one name server is no refuge for producers that ask that one.
    #[test]
    fn only_brokers_that_every_name_server_sends_producers_to_are_a_refuge() {
        use crate::protocol::body::{BrokerData, QueueData};
        let route = |brokers: &[(&str, Perm, i32, i64)]| TopicRouteData {
            queue_datas: brokers
                .iter()
                .map(|(name, perm, write, _)| QueueData {
                    broker_name: (*name).into(),
                    perm: *perm,
                    write_queue_nums: *write,
                    ..QueueData::default()
                })
                .collect(),
            broker_datas: brokers
                .iter()
                .map(|(name, _, _, id)| BrokerData {
                    broker_name: (*name).into(),
                    broker_addrs: [(*id, "127.0.0.1:1".to_owned())].into(),
                    ..BrokerData::default()
                })
                .collect(),
            ..TopicRouteData::default()
        };
        let (rw, r) = (Perm::READ_WRITE, Perm::READ);
        let first = route(&[
            ("own", rw, 4, 0),
            ("a", rw, 4, 0),
            ("b", rw, 4, 0),
            ("c", rw, 0, 0),
        ]);
        let second = route(&[
            ("own", rw, 4, 0),
            ("a", rw, 4, 0),
            ("b", r, 4, 0),
            ("d", rw, 4, 1),
        ]);
        let refuges = |routes: &[TopicRouteData]| writable_elsewhere(routes, "own");
        assert_eq!(
            refuges(std::slice::from_ref(&first)),
            ["a", "b"].map(str::to_owned).into()
        );
        assert_eq!(refuges(&[first, second.clone()]), ["a".to_owned()].into());
        assert_eq!(refuges(&[second]), ["a".to_owned()].into());
        assert!(refuges(&[]).is_empty());
    }

    #[test]
    fn a_group_that_was_online_once_stays_required() {
        let calm = |settings: Settings, seen_online: bool| {
            let mut drain = Drain::new(settings, 0);
            let mut first = look(0, 1);
            if seen_online {
                first.online.insert("CG".into(), 0);
            }
            drain.next(&first);
            let mut gone = look(60, 1);
            gone.offline.insert("CG".into(), 4);
            drain.next(&gone)
        };
        assert_eq!(
            calm(settings(), true),
            Next::Wait(vec!["CG is 4 messages behind, was online and is not now".into()])
        );
        // Offline the whole time: told, not waited for.
        assert!(matches!(calm(settings(), false), Next::Safe(_)));
        let ignoring = Settings {
            ignored: ["CG".to_owned()].into(),
            ..settings()
        };
        assert!(matches!(calm(ignoring, true), Next::Safe(_)));
    }

    #[test]
    fn pop_clients_keep_what_they_hold_for_a_while() {
        let mut drain = Drain::new(settings(), 0);
        let pop = |at_s: i64, lag: i64| {
            let mut look = look(at_s, 1);
            look.online.insert("CG".into(), lag);
            look.pops.insert("CG".into());
            look
        };
        assert!(matches!(drain.next(&pop(0, 1)), Next::Wait(_)));
        assert_eq!(
            drain.next(&pop(40, 0)),
            Next::Wait(vec![
                "pop clients of CG may hold messages: read for 0 of 60s".into()
            ])
        );
        // Its clients leave: what they held comes back all the same.
        assert!(matches!(drain.next(&look(99, 1)), Next::Wait(_)));
        let mut held = look(100, 1);
        held.inflight.insert("CG".into(), 2);
        held.offline.insert("CG".into(), 2);
        assert!(matches!(drain.next(&held), Next::Wait(_)));
        assert!(matches!(drain.next(&look(110, 1)), Next::Wait(_)));
        assert!(matches!(drain.next(&look(169, 1)), Next::Wait(_)));
        assert!(matches!(drain.next(&look(170, 1)), Next::Safe(_)));
    }

    #[test]
    fn delayed_messages_are_waited_for_unless_they_may_stay() {
        let waits = Look {
            pending: Pending {
                delayed: 2,
                ..Pending::default()
            },
            ..look(60, 1)
        };
        let mut drain = Drain::new(settings(), 0);
        drain.next(&look(0, 1));
        assert!(matches!(drain.next(&waits), Next::Wait(_)));
        let mut drain = Drain::new(
            Settings {
                ignore_delayed: true,
                ..settings()
            },
            0,
        );
        drain.next(&look(0, 1));
        assert!(matches!(drain.next(&waits), Next::Safe(_)));
    }

    #[test]
    fn a_route_that_is_still_writable_keeps_the_clock_at_zero() {
        let mut drain = Drain::new(settings(), 0);
        let mut open = look(0, 1);
        open.writable_at.push("ns".into());
        drain.next(&open);
        open.now_ms = 60_000;
        assert!(matches!(drain.next(&open), Next::Wait(_)));
        assert!(matches!(drain.next(&look(62, 1)), Next::Wait(_)));
        assert!(matches!(drain.next(&look(330, 2)), Next::Deadline(_)));
    }
}
