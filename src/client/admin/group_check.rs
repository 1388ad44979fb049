//! What is wrong with one group (checks GR1 to GR7).

mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::group_config::{create_line, disagreements};
use crate::client::snapshot::GroupLag;
use crate::client::stranded::raise_read;
use crate::client::stuck;
use crate::client::words::counted;
use crate::protocol::body::{ConsumeType, SubscriptionGroupConfig};
use crate::protocol::model::{DLQ_PREFIX, MessageQueue, RETRY_PREFIX};

pub use view::{GroupView, count};

/// A backlog older than this is worth a word.
const LATE: Duration = Duration::from_secs(600);
/// A dead letter younger than this is news.
const FRESH_DLQ_MS: i64 = 3_600_000;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gravity {
    /// Worth knowing.
    Warning,
    /// Messages are late, lost or unread because of it.
    Error,
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupFinding {
    /// Check, `GR1` to `GR7`, or `TP1`.
    pub check: &'static str,
    /// How bad it is.
    pub gravity: Gravity,
    /// What was seen.
    pub evidence: String,
    /// Why it matters.
    pub why: &'static str,
    /// One next command.
    pub next: String,
}

impl GroupView {
    /// What is wrong with the group, worst first.
    pub fn findings(&self, now_ms: i64) -> Vec<GroupFinding> {
        let mut found = Vec::new();
        self.subscriptions(&mut found);
        self.configurations(&mut found);
        self.ownership(&mut found);
        self.client_ids(&mut found);
        self.backlog(&mut found);
        self.stranded(&mut found);
        self.standing(&mut found, now_ms);
        self.dead_letters(&mut found, now_ms);
        self.modes(&mut found);
        found.sort_by(|a, b| b.gravity.cmp(&a.gravity).then(a.check.cmp(b.check)));
        found
    }

    /// GR1: each client's own subscription, not the last one the broker kept.
    fn subscriptions(&self, found: &mut Vec<GroupFinding>) {
        let mut by_text: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for (client, info) in &self.running {
            let Ok(info) = info else { continue };
            let mut parts: Vec<String> = info
                .subscription_set
                .iter()
                .filter(|s| !s.topic.starts_with(RETRY_PREFIX))
                .map(|s| format!("{} {} {}", s.topic, s.expression_type, s.sub_string))
                .collect();
            parts.sort();
            by_text.entry(parts.join("; ")).or_default().push(client);
        }
        if by_text.len() > 1 {
            let evidence: Vec<String> = by_text
                .iter()
                .map(|(text, clients)| format!("{} subscribe to [{text}]", clients.join(", ")))
                .collect();
            found.push(GroupFinding {
                check: "GR1",
                gravity: Gravity::Error,
                evidence: evidence.join("; "),
                why: "Clients of one group share its queues: what one does not subscribe to is skipped when it gets the queue.",
                next: format!("rmq group clients {}", self.name),
            });
        }
    }

    /// GR2
    fn configurations(&self, found: &mut Vec<GroupFinding>) {
        let (with, without): (Vec<_>, Vec<_>) = self.configs.iter().partition(|(_, c)| c.is_some());
        let names = |list: &[(&String, &Option<SubscriptionGroupConfig>)]| {
            list.iter()
                .map(|(name, _)| name.as_str())
                .collect::<Vec<_>>()
                .join(", ")
        };
        let online = self.clients.connections().next().is_some();
        if with.is_empty() && online {
            found.push(GroupFinding {
                check: "GR2",
                gravity: Gravity::Warning,
                evidence: "it is online without a configuration on any broker".into(),
                why: "A broker that creates no groups by itself refuses its pulls.",
                next: format!("rmq group create {}", self.name),
            });
        } else if !with.is_empty() && !without.is_empty() {
            found.push(GroupFinding {
                check: "GR2",
                gravity: Gravity::Warning,
                evidence: format!("configured on {}, not on {}", names(&with), names(&without)),
                why: "Retries and permissions differ from broker to broker.",
                next: match (with[0].1, without[0].0) {
                    (Some(config), broker) => create_line(&self.name, broker, Some(config)),
                    (None, _) => format!("rmq group get {}", self.name),
                },
            });
        }
        let told = disagreements(
            with.iter()
                .filter_map(|(name, config)| Some((name.as_str(), config.as_ref()?))),
        );
        if !told.is_empty() {
            found.push(GroupFinding {
                check: "GR2",
                gravity: Gravity::Warning,
                evidence: format!("it is not the same on every broker: {}", told.join("; ")),
                why: "Retries and permissions differ from broker to broker.",
                next: format!("rmq group get {}", self.name),
            });
        }
    }

    /// GR3
    fn ownership(&self, found: &mut Vec<GroupFinding>) {
        let told = self.running.iter().filter(|(_, info)| info.is_ok()).count();
        let pops = self
            .clients
            .connections()
            .any(|(_, c)| c.consume_type == ConsumeType::Pop)
            || self
                .running
                .iter()
                .any(|(_, info)| info.as_ref().is_ok_and(|i| !i.mq_pop_table.is_empty()));
        // Without every client's word nothing can be said of what is owned by nobody.
        if told == 0 || told < self.running.len() || self.is_broadcast() || pops {
            return;
        }
        let owners = self.owners();
        let subscribed: BTreeSet<&str> = self
            .clients
            .connections()
            .flat_map(|(_, c)| c.subscription_table.keys().map(String::as_str))
            .collect();
        let mut queues = BTreeSet::new();
        for ((topic, broker), stats) in &self.topics {
            let Some(stats) = stats else { continue };
            if subscribed.contains(topic.as_str()) && !topic.starts_with(RETRY_PREFIX) {
                queues.extend(
                    stats
                        .offset_table
                        .keys()
                        .map(|q| (topic.clone(), broker.clone(), q.queue_id)),
                );
            }
        }
        let unowned: Vec<String> = queues
            .iter()
            .filter(|queue| !owners.contains_key(*queue))
            .map(|(topic, broker, queue)| format!("{topic} {broker}/{queue}"))
            .collect();
        if !unowned.is_empty() {
            found.push(GroupFinding {
                check: "GR3",
                gravity: Gravity::Error,
                evidence: format!("no client holds {}", shortened(&unowned)),
                why: "Messages of these queues are not consumed.",
                next: format!("rmq group client-info {}", self.name),
            });
        }
        let idle: Vec<&str> = self
            .running
            .iter()
            .filter(|(client, _)| {
                !owners
                    .iter()
                    .any(|((topic, _, _), held)| !topic.starts_with(RETRY_PREFIX) && held.contains(client))
            })
            .map(|(client, _)| client.as_str())
            .collect();
        if !idle.is_empty() && !queues.is_empty() && queues.len() < told {
            found.push(GroupFinding {
                check: "GR3",
                gravity: Gravity::Warning,
                evidence: format!(
                    "{} for {}; idle: {}",
                    counted(told, "client"),
                    counted(queues.len(), "queue"),
                    idle.join(", ")
                ),
                why: "A queue has one client at a time: more clients than queues do nothing.",
                next: format!("rmq group client-info {}", self.name),
            });
        }
    }

    /// GR4
    fn client_ids(&self, found: &mut Vec<GroupFinding>) {
        let mut twice: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for (_, connection) in self.clients.connections() {
            let mut by_id: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
            for client in &connection.connection_set {
                by_id
                    .entry(&client.client_id)
                    .or_default()
                    .insert(&client.client_addr);
            }
            for (id, addrs) in by_id.into_iter().filter(|(_, addrs)| addrs.len() > 1) {
                twice.entry(id).or_default().extend(addrs);
            }
        }
        for (id, addrs) in twice {
            found.push(GroupFinding {
                check: "GR4",
                gravity: Gravity::Error,
                evidence: format!(
                    "{id} is connected from {}",
                    addrs.into_iter().collect::<Vec<_>>().join(" and ")
                ),
                why: "Two processes with one client id get the same queues: messages are consumed twice, others by nobody.",
                next: format!("rmq group clients {} -o wide", self.name),
            });
        }
    }

    /// GR5: clients that hold queues and do not get on with them.
    fn standing(&self, found: &mut Vec<GroupFinding>, now_ms: i64) {
        let paused = self.paused_on();
        let waits = |queue: &MessageQueue| {
            let key = (queue.topic.clone(), queue.broker_name.clone(), queue.queue_id);
            // Where the group is paused its clients are refused.
            let asked = !paused.contains(&queue.broker_name.as_str());
            self.oldest.get(&key).copied().filter(|_| asked)
        };
        let stuck: Vec<String> = (self.running.iter())
            .filter_map(|(client, info)| Some((client, info.as_ref().ok()?)))
            .flat_map(|(client, info)| {
                let queues = stuck::stuck_queues(info, now_ms, waits).into_iter();
                queues.map(move |q| format!("{client} with {} {}/{}", q.topic, q.broker_name, q.queue_id))
            })
            .collect();
        if !stuck.is_empty() && !self.is_broadcast() {
            found.push(GroupFinding {
                check: "GR5",
                gravity: Gravity::Error,
                evidence: format!(
                    "nothing was consumed for {} although messages wait: {}",
                    counted(stuck::STUCK.as_secs() / 60, "minute"),
                    shortened(&stuck)
                ),
                why: "Its listener hangs, or all its threads wait for something: these queues stand until that ends.",
                next: format!("rmq group clients {} --stack", self.name),
            });
        }
    }

    /// GR5
    fn backlog(&self, found: &mut Vec<GroupFinding>) {
        let next = format!("rmq group lag {}", self.name);
        let paused = self.paused_on();
        if !paused.is_empty() {
            let behind: i64 = self.queues.iter().filter_map(GroupLag::lag).sum();
            found.push(GroupFinding {
                check: "GR5",
                gravity: Gravity::Warning,
                evidence: format!(
                    "it is paused on {} (consume-enable is false){}",
                    paused.join(", "),
                    match behind {
                        0 => String::new(),
                        n => format!(", {} behind", counted(n, "message")),
                    }
                ),
                why: "Its consumers are refused there: it reads nothing until it is resumed.",
                next: format!("rmq group resume {}", self.name),
            });
        }
        if self.is_broadcast() {
            return;
        }
        if let Some((queue, age)) = self.oldest.iter().max_by_key(|(_, age)| **age)
            && *age > LATE
        {
            found.push(GroupFinding {
                check: "GR5",
                gravity: Gravity::Warning,
                evidence: format!(
                    "the oldest unread message ({} {}/{}) is {} old",
                    queue.0,
                    queue.1,
                    queue.2,
                    counted(age.as_secs() / 60, "minute")
                ),
                why: "The group is slower than its producers, or stands still.",
                next: next.clone(),
            });
        }
        let place = |row: &GroupLag| format!("{} {}/{}", row.topic, row.broker, row.queue);
        let beyond: Vec<String> = self
            .queues
            .iter()
            .filter(|q| q.is_beyond_end())
            .map(place)
            .collect();
        if !beyond.is_empty() {
            found.push(GroupFinding {
                check: "GR5",
                gravity: Gravity::Warning,
                evidence: format!("its position is behind the end of {}", shortened(&beyond)),
                why: "New messages are skipped until the queue has grown that far.",
                next: next.clone(),
            });
        }
        let mut expired = Vec::new();
        let mut gone = BTreeSet::new();
        for row in &self.queues {
            match self.topics.get(&(row.topic.clone(), row.broker.clone())) {
                Some(Some(stats)) => {
                    let min = stats
                        .offset_table
                        .iter()
                        .find(|(queue, _)| queue.queue_id == row.queue)
                        .map(|(_, range)| range.min_offset);
                    if let (Some(min), Some(at)) = (min, row.committed)
                        && at < min
                    {
                        expired.push(place(row));
                    }
                }
                Some(None) => {
                    gone.insert(format!("{} on {}", row.topic, row.broker));
                }
                None => {}
            }
        }
        if !expired.is_empty() {
            found.push(GroupFinding {
                check: "GR5",
                gravity: Gravity::Warning,
                evidence: format!(
                    "its position is before the first message of {}",
                    shortened(&expired)
                ),
                why: "Messages were deleted before the group read them.",
                next: next.clone(),
            });
        }
        if !gone.is_empty() {
            found.push(GroupFinding {
                check: "GR5",
                gravity: Gravity::Warning,
                evidence: format!(
                    "it has positions in topics that are gone: {}",
                    shortened(&gone.into_iter().collect::<Vec<_>>())
                ),
                why: "A topic of that name, made again, is read from the old position.",
                next,
            });
        }
    }

    /// TP1, as far as it is this group's.
    fn stranded(&self, found: &mut Vec<GroupFinding>) {
        if self.is_broadcast() {
            return;
        }
        for left in &self.stranded {
            let of_topic = self.stranded.iter().filter(|other| other.topic == left.topic);
            let next = raise_read(
                &left.topic,
                of_topic.map(|l| (l.broker.as_str(), l.queues.as_slice())),
            );
            found.push(GroupFinding {
                check: "TP1",
                gravity: Gravity::Error,
                evidence: left.text(),
                why: "A broker refuses pulls behind the read queues: nobody reads these until there are as many again.",
                next: next.unwrap_or_default(),
            });
        }
    }

    /// GR6
    fn dead_letters(&self, found: &mut Vec<GroupFinding>, now_ms: i64) {
        let topic = format!("{DLQ_PREFIX}{}", self.name);
        let newest = self
            .topics
            .iter()
            .filter(|((name, _), _)| *name == topic)
            .filter_map(|(_, stats)| stats.as_ref())
            .flat_map(|stats| stats.offset_table.values())
            .filter(|range| range.max_offset > range.min_offset)
            .map(|range| range.last_update_timestamp)
            .max();
        if let Some(newest) = newest.filter(|at| *at > 0 && now_ms.saturating_sub(*at) < FRESH_DLQ_MS) {
            found.push(GroupFinding {
                check: "GR6",
                gravity: Gravity::Warning,
                evidence: format!(
                    "{topic} grew {} ago to {}",
                    counted(now_ms.saturating_sub(newest) / 60_000, "minute"),
                    counted(self.messages_in(&topic).unwrap_or(0), "message")
                ),
                why: "These messages failed as often as the group retries; nobody consumes them any more.",
                next: format!("rmq dlq show {}", self.name),
            });
        }
    }

    /// GR7
    fn modes(&self, found: &mut Vec<GroupFinding>) {
        for (property, what) in [
            ("PROP_CONSUME_TYPE", "consume type"),
            ("messageModel", "message model"),
            ("consumeFromWhere", "start position"),
            ("PROP_CONSUMEORDERLY", "orderly mode"),
        ] {
            let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            for (client, info) in &self.running {
                if let Some(value) = info.as_ref().ok().and_then(|i| i.properties.get(property)) {
                    values.entry(value).or_default().push(client);
                }
            }
            if values.len() > 1 {
                let evidence: Vec<String> = values
                    .iter()
                    .map(|(value, clients)| format!("{value}: {}", clients.join(", ")))
                    .collect();
                found.push(GroupFinding {
                    check: "GR7",
                    gravity: Gravity::Error,
                    evidence: format!("the {what} differs: {}", evidence.join("; ")),
                    why: "Clients that consume differently take each other's queues and positions.",
                    next: format!("rmq group client-info {}", self.name),
                });
            }
        }
    }
}

/// The first few of many.
fn shortened(all: &[String]) -> String {
    const SHOWN: usize = 5;
    match all.len().checked_sub(SHOWN) {
        Some(more) if more > 0 => format!("{} and {more} more", all[..SHOWN].join(", ")),
        _ => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::admin::clients::GroupClients;
    use crate::client::admin::cluster::BrokerAt;
    use crate::client::snapshot::BrokerId;
    use crate::protocol::body::{
        Connection, ConsumerConnection, ConsumerRunningInfo, ProcessQueueInfo, SubscriptionData, TopicOffset,
        TopicStatsTable,
    };

    fn queue(id: i32) -> MessageQueue {
        MessageQueue {
            topic: "T".into(),
            broker_name: "a".into(),
            queue_id: id,
        }
    }

    fn running(queues: &[i32], tags: &str, model: &str) -> ConsumerRunningInfo {
        ConsumerRunningInfo {
            mq_table: queues
                .iter()
                .map(|q| (queue(*q), ProcessQueueInfo::default()))
                .collect(),
            properties: [("messageModel".to_owned(), model.to_owned())].into(),
            subscription_set: vec![SubscriptionData {
                topic: "T".into(),
                sub_string: tags.into(),
                ..SubscriptionData::default()
            }],
            ..ConsumerRunningInfo::default()
        }
    }

    /// Two clients that hold the two queues of a topic: nothing is wrong.
    fn view() -> GroupView {
        let connection = ConsumerConnection {
            connection_set: ["c1", "c2"]
                .map(|id| Connection {
                    client_id: id.into(),
                    client_addr: format!("{id}:1"),
                    ..Connection::default()
                })
                .into(),
            subscription_table: [("T".to_owned(), SubscriptionData::default())].into(),
            ..ConsumerConnection::default()
        };
        let broker = BrokerAt {
            id: BrokerId {
                name: "a".into(),
                ..BrokerId::default()
            },
            addr: "127.0.0.1:1".into(),
        };
        let range = TopicOffset {
            max_offset: 10,
            ..TopicOffset::default()
        };
        GroupView {
            name: "g".into(),
            configs: [("a".to_owned(), Some(SubscriptionGroupConfig::default()))].into(),
            clients: GroupClients {
                by_broker: vec![(broker, Ok(Some(connection)))],
            },
            topics: [(
                ("T".to_owned(), "a".to_owned()),
                Some(TopicStatsTable {
                    offset_table: [(queue(0), range), (queue(1), range)].into(),
                    topic_put_tps: 0.0,
                }),
            )]
            .into(),
            running: vec![
                ("c1".into(), Ok(running(&[0], "*", "CLUSTERING"))),
                ("c2".into(), Ok(running(&[1], "*", "CLUSTERING"))),
            ],
            ..GroupView::default()
        }
    }

    fn checks(view: &GroupView) -> Vec<&'static str> {
        view.findings(0).into_iter().map(|f| f.check).collect()
    }

    #[test]
    fn a_healthy_group_has_no_finding_and_each_fault_has_its_own() {
        assert_eq!(checks(&view()), Vec::<&str>::new());
        let mut v = view();
        v.running[1].1 = Ok(running(&[1], "TagA", "CLUSTERING"));
        assert_eq!(checks(&v), ["GR1"]);
        let mut v = view();
        v.configs.insert("b".into(), None);
        assert_eq!(checks(&v), ["GR2"]);
        let mut v = view();
        v.running[1].1 = Ok(running(&[], "*", "CLUSTERING"));
        assert_eq!(checks(&v), ["GR3"]);
        let mut v = view();
        if let Ok(Some(connection)) = &mut v.clients.by_broker[0].1 {
            connection.connection_set[1].client_id = "c1".into();
        }
        assert_eq!(checks(&v), ["GR4"]);
        let mut v = view();
        v.queues.push(GroupLag {
            group: "g".into(),
            topic: "T".into(),
            broker: "a".into(),
            queue: 0,
            max: 10,
            committed: Some(11),
            ..GroupLag::default()
        });
        assert_eq!(checks(&v), ["GR5"]);
        let mut v = view();
        v.oldest
            .insert(("T".into(), "a".into(), 0), Duration::from_secs(601));
        assert_eq!(checks(&v), ["GR5"]);
        let mut v = view();
        v.running[1].1 = Ok(running(&[1], "*", "BROADCASTING"));
        assert_eq!(checks(&v), ["GR7"]);
    }

    #[test]
    fn a_client_that_stands_is_an_error_and_a_paused_one_is_not() {
        let now = 1_000_000;
        let mut v = view();
        let mut hangs = running(&[1], "*", "CLUSTERING");
        for state in hangs.mq_table.values_mut() {
            // As Java's client tells it: it tries to pull, and consumed nothing for long.
            state.last_pull_timestamp = now - 10;
            state.last_consume_timestamp = now - 301_000;
        }
        v.running[1].1 = Ok(hangs);
        assert_eq!(v.findings(now), []);
        v.oldest
            .insert(("T".into(), "a".into(), 1), Duration::from_secs(302));
        let found = v.findings(now);
        assert_eq!(
            (found.len(), found[0].check, found[0].gravity),
            (1, "GR5", Gravity::Error)
        );
        assert!(
            found[0].evidence.ends_with("messages wait: c2 with T a/1"),
            "{found:?}"
        );
        v.configs
            .values_mut()
            .flatten()
            .for_each(|c| c.consume_enable = false);
        assert!(v.findings(now).iter().all(|f| f.gravity < Gravity::Error));
    }

    #[test]
    fn dead_letters_of_the_last_hour_are_told() {
        let mut v = view();
        let range = TopicOffset {
            last_update_timestamp: 1_000_000,
            max_offset: 3,
            min_offset: 0,
        };
        v.topics.insert(
            ("%DLQ%g".into(), "a".into()),
            Some(TopicStatsTable {
                offset_table: [(queue(0), range)].into(),
                topic_put_tps: 0.0,
            }),
        );
        assert_eq!(v.findings(1_000_000 + 60_000)[0].check, "GR6");
        assert!(v.findings(1_000_000 + 3_600_000).is_empty());
    }
}
