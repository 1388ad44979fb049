//! Asking what a screen wants beyond the standing poll: one task a question, bounded, ended when nobody looks any more.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::deed::Operator;
use super::model::{Told, Update};
use super::poll::REFUSED;
use super::refusal::{Kind, short};
use super::store::ask::{Asker as StoreAsker, Inspector};
use super::want::{
    ClientDetail, ClientLine, ClientTold, Found, GroupBrief, GroupDetail, GroupOnTopic, QueueEnds,
    TopicBrief, TopicDetail, Want, Wanted,
};
use super::{dead, messages, routes};
use crate::client::admin::group_check::count;
use crate::client::admin::group_config;
use crate::client::doctor::expressions;
use crate::client::scale::kept::PlanFile;
use crate::client::{BrokerAt, Client, Error, Server, stuck};
use crate::protocol::body::{ConsumeStatus, ConsumeType, ConsumerRunningInfo};
use crate::protocol::codes;
use crate::protocol::model::{MessageQueue, version_name};

/// Questions that are being asked at once.
const AT_ONCE: usize = 4;
/// Limit of one question: hundreds of calls take their time within the budget of a broker.
const LIMIT: Duration = Duration::from_secs(30);

/// Most messages that are read for the oldest one of a group in a list.
const READS: usize = 6;

/// What an answer may depend on beside the servers.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The zone of times that are typed.
    pub zone: jiff::tz::TimeZone,
    /// The user's state directory.
    pub state_dir: Option<PathBuf>,
}

/// What every question needs.
#[derive(Clone)]
struct Means {
    client: Arc<Client>,
    operator: Option<Arc<dyn Operator>>,
    updates: mpsc::Sender<Update>,
    ground: Ground,
    turns: Arc<Semaphore>,
    inspector: Arc<Inspector>,
    routes: Arc<tokio::sync::Mutex<routes::Book>>,
}

/// The asking tasks. They end when this is dropped.
pub struct Asker {
    means: Means,
    running: HashMap<Want, (Option<Duration>, Vec<BrokerAt>, AbortHandle)>,
}

impl Asker {
    /// Asks nothing yet. Answers go into `updates`; without an operator sheets have none.
    pub fn new(
        client: Arc<Client>,
        operator: Option<Arc<dyn Operator>>,
        updates: mpsc::Sender<Update>,
        ground: Ground,
    ) -> Self {
        let inspector = Arc::new(Inspector::noting_in(ground.state_dir.clone()));
        Self {
            means: Means {
                client,
                operator,
                updates,
                ground,
                turns: Arc::new(Semaphore::new(AT_ONCE)),
                inspector,
                routes: Arc::default(),
            },
            running: HashMap::new(),
        }
    }

    /// Asks these from now on, and no others.
    pub fn set(&mut self, wanted: Vec<Wanted>, masters: &[BrokerAt]) {
        let keep: BTreeMap<&Want, Option<Duration>> = wanted.iter().map(|w| (&w.want, w.every)).collect();
        self.running.retain(|want, (every, brokers, task)| {
            let stays = keep.get(want) == Some(every) && (brokers == masters || want.is_apart());
            if stays {
                masters.clone_into(brokers);
            } else {
                task.abort();
            }
            stays
        });
        for Wanted { want, every } in wanted {
            if self.running.contains_key(&want) {
                continue;
            }
            let question = Question {
                means: self.means.clone(),
                masters: masters.to_vec(),
                want: want.clone(),
            };
            let task = tokio::spawn(question.run(every)).abort_handle();
            self.running.insert(want, (every, masters.to_vec(), task));
        }
    }

    /// Asks everything again now; what takes long goes on: passes over a whole store, searches, a tail.
    pub fn refresh(&mut self) {
        self.means.inspector.forget();
        let (long, again): (Vec<_>, Vec<_>) = self.running.drain().partition(|(want, _)| want.is_long());
        let kept: Vec<Wanted> = long
            .iter()
            .map(|(want, (every, _, _))| Wanted {
                want: want.clone(),
                every: *every,
            })
            .collect();
        self.running.extend(long);
        let again: Vec<(Want, Option<Duration>, Vec<BrokerAt>)> = again
            .into_iter()
            .map(|(want, (every, masters, task))| {
                task.abort();
                (want, every, masters)
            })
            .collect();
        let masters = again.first().map(|(_, _, m)| m.clone()).unwrap_or_default();
        let wanted = again.into_iter().map(|(want, every, _)| Wanted { want, every });
        self.set(kept.into_iter().chain(wanted).collect(), &masters);
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        for (_, _, task) in self.running.values() {
            task.abort();
        }
    }
}

/// Ends the work of a question that nobody waits for any more.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Question {
    means: Means,
    masters: Vec<BrokerAt>,
    want: Want,
}

impl Question {
    async fn run(self, every: Option<Duration>) {
        loop {
            let started = tokio::time::Instant::now();
            // Time of the newest picture of a search that goes on: its end is newer.
            let told = AtomicI64::new(0);
            let answer = if let Want::Store(question) = &self.want {
                // Passes take as long as they take, and no turn of the others.
                let turn = if question.what.is_pass() {
                    None
                } else {
                    Arc::clone(&self.means.turns).acquire_owned().await.ok()
                };
                self.look(question.clone(), turn).await
            } else if matches!(self.want, Want::Messages(_) | Want::Dead(_)) {
                // Each of their calls has its own limit, and some follow a topic until nobody looks any more.
                self.search(&told).await
            } else {
                // The semaphore is never closed.
                let _turn = self.means.turns.acquire().await;
                tokio::time::timeout(LIMIT, self.ask())
                    .await
                    .unwrap_or_else(|_| Err(format!("no answer within {} s", LIMIT.as_secs())))
            };
            // What was refused is not asked again and again.
            let rest = match &answer {
                Err(why) if Kind::of(why).is_refusal() => REFUSED,
                _ => Duration::ZERO,
            };
            let update = Update {
                at_ms: after(&told),
                retry_at_ms: None,
                told: Told::Found(self.want.clone(), answer),
            };
            if self.means.updates.send(update).await.is_err() {
                return;
            }
            match every {
                Some(pause) => tokio::time::sleep_until(started + pause.max(rest)).await,
                None => return,
            }
        }
    }

    /// Looks into the files of a store, beside the runtime; ends when this is dropped. The turn is kept until the work
    /// is over, even when nobody waits for it any more.
    async fn look(
        &self,
        question: super::store::question::Question,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Result<Found, String> {
        let stop = StopOnDrop(Arc::new(AtomicBool::new(false)));
        let (flag, inspector, updates) = (
            Arc::clone(&stop.0),
            Arc::clone(&self.means.inspector),
            self.means.updates.clone(),
        );
        let looked = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let want = Want::Store(question.clone());
            let mut tell = |answer| {
                // What a full channel does not take is told again in a moment.
                let _ = updates.try_send(Update {
                    at_ms: super::now_ms(),
                    retry_at_ms: None,
                    told: Told::Found(want.clone(), Ok(Found::Store(Box::new(answer)))),
                });
            };
            inspector.answer(&question, &mut StoreAsker::new(&mut tell, &flag))
        });
        let answer = looked.await.map_err(|e| e.to_string())??;
        drop(stop);
        Ok(Found::Store(Box::new(answer)))
    }

    /// A search that tells what it has so far.
    async fn search(&self, told: &AtomicI64) -> Result<Found, String> {
        let (client, ground) = (Arc::clone(&self.means.client), self.means.ground.clone());
        let tell = |found: Found| {
            let update = Update {
                at_ms: after(told),
                retry_at_ms: None,
                told: Told::Found(self.want.clone(), Ok(found)),
            };
            // A picture that finds no room is followed by another one.
            let _ = self.means.updates.try_send(update);
        };
        match self.want.clone() {
            Want::Messages(question) => {
                let tell = |answer| tell(Found::Messages(answer));
                let found = messages::ask::answer(client, question, ground.zone, tell).await;
                found.map(Found::Messages)
            }
            Want::Dead(question) => {
                let tell = |answer| tell(Found::Dead(answer));
                let found = dead::ask::answer(client, question, ground.state_dir, tell).await;
                found.map(Found::Dead)
            }
            _ => self.ask().await,
        }
    }

    async fn ask(&self) -> Result<Found, String> {
        let client = &self.means.client;
        match &self.want {
            Want::Store(question) => self.look(question.clone(), None).await,
            Want::Topic(name) => {
                let detail = topic(client, &self.masters, name).await?;
                Ok(Found::Topic(Box::new(detail)))
            }
            Want::Wire(question) => {
                let answer = super::store::ask::wire::answer(client, question).await?;
                Ok(Found::Store(Box::new(answer)))
            }
            Want::TopicBrief(name) => topic_brief(client, &self.masters, name)
                .await
                .map(Found::TopicBrief),
            Want::GroupBrief(name) => group_brief(client, &self.masters, name)
                .await
                .map(Found::GroupBrief),
            Want::Group(name) => {
                let detail = group(client, &self.masters, name).await?;
                Ok(Found::Group(Box::new(detail)))
            }
            Want::Clients(name) => clients(client, &self.masters, name).await.map(Found::Clients),
            Want::Sheet(words) => {
                let operator = self
                    .means
                    .operator
                    .clone()
                    .ok_or("commands cannot be run from this dashboard")?;
                let words = words.clone();
                tokio::task::spawn_blocking(move || operator.look(&words))
                    .await
                    .map_err(|e| e.to_string())?
                    .map(|sheet| Found::Sheet(Box::new(sheet)))
            }
            Want::Ways => {
                let Some(dir) = self.means.ground.state_dir.clone() else {
                    return Ok(Found::Ways(Vec::new()));
                };
                let servers = client.name_servers().to_vec();
                tokio::task::spawn_blocking(move || PlanFile::ways(&dir, &servers))
                    .await
                    .map_err(|e| e.to_string())
                    .map(Found::Ways)
            }
            Want::Routes => {
                let compared = routes::look(client, &self.means.routes).await?;
                Ok(Found::Routes(Box::new(compared)))
            }
            // Searches are asked by `search`, which calls this for everything else.
            Want::Messages(_) | Want::Dead(_) => Err("this is a search".into()),
        }
    }
}

/// Now, and later than everything that was told before, epoch ms.
fn after(told: &AtomicI64) -> i64 {
    let now = super::now_ms();
    let before = told.fetch_max(now, Ordering::Relaxed);
    if before < now {
        return now;
    }
    told.fetch_add(1, Ordering::Relaxed) + 1
}

fn failed(into: &mut BTreeMap<String, String>, broker: &BrokerAt, e: &Error) {
    into.entry(broker.id.name.clone()).or_insert_with(|| short(e));
}

async fn topic(client: &Client, masters: &[BrokerAt], name: &str) -> Result<TopicDetail, String> {
    let used = client.topic_use(masters, name).await;
    let mut detail = TopicDetail {
        in_tps: used.incoming.tps,
        day: used.incoming.day,
        messages: used.messages,
        last_stored_ms: used.last_stored_ms,
        groups: (used.groups.into_iter())
            .map(|(name, group)| GroupOnTopic {
                name,
                lag: group.lag,
                clients: group.clients.len(),
                out_tps: group.out.tps,
                expressions: group.expressions.into_iter().collect(),
            })
            .collect(),
        queues: (used.queues.into_iter())
            .map(|(queue, range)| QueueEnds {
                broker: queue.broker_name,
                queue: queue.queue_id,
                min: range.min_offset,
                max: range.max_offset,
                last_ms: range.last_update_timestamp,
                in_tps: None,
            })
            .collect(),
        failed: BTreeMap::new(),
    };
    let mut answered = used.answered;
    for e in &used.errors {
        // A broker that does not have the topic has no queues of it.
        if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) {
            answered += 1;
            continue;
        }
        let who = e
            .server()
            .map_or_else(|| "a broker".to_owned(), ToString::to_string);
        detail.failed.entry(who).or_insert_with(|| short(e));
    }
    if answered == 0 {
        return Err(nobody(detail.failed.into_values().next()));
    }
    Ok(detail)
}

/// Why there is no answer at all.
fn nobody(why: Option<String>) -> String {
    why.unwrap_or_else(|| "no broker answers".to_owned())
}

async fn topic_brief(client: &Client, masters: &[BrokerAt], name: &str) -> Result<TopicBrief, String> {
    let deadline = client.deadline();
    let answers = client
        .each(masters.to_vec(), |broker| async move {
            let stats = client.topic_stats(&broker.server(), name, deadline).await;
            (broker, stats)
        })
        .await;
    let mut brief = TopicBrief::default();
    let (mut any, mut why) = (false, None);
    for (broker, answer) in answers {
        match answer {
            Ok(stats) => {
                any = true;
                brief.messages = brief.messages.saturating_add(count(&stats));
                let newest = stats.offset_table.values().map(|r| r.last_update_timestamp);
                let newest = newest.max().unwrap_or(0);
                if newest > brief.last_ms {
                    (brief.last_ms, brief.last_on) = (newest, broker.id.name);
                }
            }
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => any = true,
            Err(e) => {
                brief.partial = true;
                why = Some(short(&e));
            }
        }
    }
    if any { Ok(brief) } else { Err(nobody(why)) }
}

async fn group_brief(client: &Client, masters: &[BrokerAt], name: &str) -> Result<GroupBrief, String> {
    let mut backlogs = client.named_backlogs(&[name.to_owned()], None, masters).await;
    let backlog = backlogs.groups.remove(name).unwrap_or_default();
    all_failed(&backlogs.failed, masters)?;
    let connection = backlog.connection.as_ref();
    let versions: BTreeSet<i32> = connection
        .into_iter()
        .flat_map(|c| c.connection_set.iter().map(|c| c.version))
        .collect();
    let oldest = match backlog.is_broadcast() {
        true => None,
        false => client.longest_waiting(masters, &backlog.queues, READS).await,
    };
    Ok(GroupBrief {
        oldest,
        kind: backlog.kind(),
        takes: match connection.map(|c| c.consume_type) {
            Some(ConsumeType::Pop) => "pop",
            Some(ConsumeType::Actively) => "pull",
            _ => "push",
        },
        clients: backlog.clients.len(),
        versions: versions.len(),
        inflight: backlog.queues.iter().filter_map(|q| q.inflight).sum(),
        tps: backlog.tps,
        partial: !backlogs.failed.is_empty(),
    })
}

/// When nobody answered there is no answer.
fn all_failed(failed: &[(Server, Error)], masters: &[BrokerAt]) -> Result<(), String> {
    match failed.first() {
        Some((_, e)) if failed.len() >= masters.len() => Err(short(e)),
        None if masters.is_empty() => Err(nobody(None)),
        _ => Ok(()),
    }
}

async fn group(client: &Client, masters: &[BrokerAt], name: &str) -> Result<GroupDetail, String> {
    let names = [name.to_owned()];
    let (mut backlogs, configs) = tokio::join!(
        client.named_backlogs(&names, None, masters),
        client.group_configs(masters, name)
    );
    all_failed(&backlogs.failed, masters)?;
    let backlog = backlogs.groups.remove(name).unwrap_or_default();
    let mut oldest = BTreeMap::new();
    if !backlog.is_broadcast() {
        for ((topic, broker, queue, _), stored) in client.first_unread(masters, &backlog.queues).await {
            oldest.insert((topic, broker, queue), stored);
        }
    }
    let mut detail = GroupDetail {
        kind: backlog.kind(),
        oldest,
        clients: Vec::new(),
        subscriptions: BTreeMap::new(),
        tps: backlog.tps,
        configs: BTreeMap::new(),
        failed: BTreeMap::new(),
        queues: backlog.queues,
    };
    detail.queues.sort_by(|a, b| {
        b.lag()
            .cmp(&a.lag())
            .then_with(|| (&a.topic, &a.broker, a.queue).cmp(&(&b.topic, &b.broker, b.queue)))
    });
    if let Some(connection) = backlog.connection {
        detail.clients = (connection.connection_set.into_iter())
            .map(|c| ClientLine {
                id: c.client_id,
                addr: c.client_addr,
                language: c.language.name().to_owned(),
                version: version_name(c.version),
                version_code: c.version,
            })
            .collect();
        detail.clients.sort_by(|a, b| a.id.cmp(&b.id));
        detail.subscriptions = (connection.subscription_table.into_iter())
            .map(|(topic, s)| (topic, s.sub_string))
            .collect();
    }
    for (broker, config) in configs {
        match config {
            Ok(Some(config)) => {
                detail
                    .configs
                    .insert(broker.id.name, group_config::fields(&config));
            }
            Ok(None) => {}
            Err(e) => failed(&mut detail.failed, &broker, &e),
        }
    }
    for (server, e) in backlogs.failed {
        detail
            .failed
            .entry(server.to_string())
            .or_insert_with(|| short(&e));
    }
    Ok(detail)
}

async fn clients(client: &Client, masters: &[BrokerAt], name: &str) -> Result<Vec<ClientDetail>, String> {
    let connected = client.clients_of_group(masters, name).await;
    // With a list missing, a queue without an owner would mean nothing.
    if let Some(e) = connected.errors().next() {
        return Err(short(e));
    }
    let answers = client
        .running_infos(&connected, name, false, client.deadline())
        .await;
    let told = answers.into_iter().map(|(id, info)| ClientDetail {
        id,
        told: info.map(|info| of_client(&info)).map_err(|e| short(&e)),
    });
    Ok(told.collect())
}

fn of_client(info: &ConsumerRunningInfo) -> ClientTold {
    let held = || info.mq_table.iter().filter(|(_, state)| !state.droped);
    let popped = info.mq_pop_table.iter().filter(|(_, state)| !state.droped);
    let key = |q: &MessageQueue| (q.topic.clone(), q.broker_name.clone(), q.queue_id);
    let sum = |rate: fn(&ConsumeStatus) -> f64| {
        let rates = info.status_table.values();
        (rates.len() > 0).then(|| rates.map(rate).sum::<f64>())
    };
    ClientTold {
        queues: held()
            .map(|(queue, _)| queue)
            .chain(popped.map(|(queue, _)| queue))
            .map(key)
            // A queue that goes over to POP is in both for a while.
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect(),
        subscription: expressions(&info.subscription_set),
        cached: held().map(|(_, s)| i64::from(s.cached_msg_count)).sum(),
        cached_mib: held().map(|(_, s)| i64::from(s.cached_msg_size_in_mib)).sum(),
        held_back: held().filter(|(_, s)| stuck::is_held_back(info, s)).count(),
        last_pull_ms: held()
            .map(|(_, s)| s.last_pull_timestamp)
            .filter(|at| *at > 0)
            .min(),
        consumed_ms: held()
            .filter(|(_, s)| s.last_consume_timestamp > 0)
            .map(|(queue, s)| (key(queue), s.last_consume_timestamp))
            .collect(),
        consume_rt_ms: stuck::consume_rt_ms(info),
        // A client that tells no rates does not consume nothing.
        ok_tps: sum(|r| r.consume_ok_tps),
        failed_tps: sum(|r| r.consume_failed_tps),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Options;

    #[tokio::test]
    async fn a_change_or_a_broker_that_comes_does_not_begin_a_search_again() {
        let (updates, _news) = mpsc::channel(64);
        let ground = Ground {
            zone: jiff::tz::TimeZone::UTC,
            state_dir: None,
        };
        let client = Arc::new(Client::new(Options::default()));
        let mut asker = Asker::new(client, None, updates, ground);
        let search = messages::search::Search::live("T");
        let wants = [
            Want::Messages(messages::search::Question::Search(search)),
            Want::Dead(dead::ask::Question::Letters("G".into())),
            Want::Sheet(vec!["doctor".into()]),
            Want::Topic("T".into()),
        ];
        let wanted = wants.clone().map(|want| Wanted { want, every: None });
        let tasks = |asker: &Asker| wants.clone().map(|want| asker.running[&want].2.id());
        asker.set(wanted.to_vec(), &[]);
        let first = tasks(&asker);
        let broker = BrokerAt {
            id: crate::client::snapshot::BrokerId {
                cluster: "c".into(),
                name: "b".into(),
                id: 0,
            },
            addr: "127.0.0.1:1".into(),
        };
        asker.set(wanted.to_vec(), &[broker]);
        let then = tasks(&asker);
        assert_eq!(first[..3], then[..3]);
        assert_ne!(first[3], then[3]);
        asker.refresh();
        let again = tasks(&asker);
        assert_eq!(then[0], again[0]);
        assert!(then[1..].iter().zip(&again[1..]).all(|(a, b)| a != b));
    }

    #[tokio::test]
    async fn without_a_master_there_is_no_answer_rather_than_nothing() {
        let client = Client::new(Options::default());
        let why = "no broker answers".to_owned();
        assert_eq!(topic(&client, &[], "T").await, Err(why.clone()));
        assert_eq!(topic_brief(&client, &[], "T").await, Err(why.clone()));
        assert_eq!(group_brief(&client, &[], "G").await, Err(why.clone()));
        assert_eq!(group(&client, &[], "G").await, Err(why));
    }
}
