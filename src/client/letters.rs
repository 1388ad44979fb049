//! What the dead-letter topic of a group holds, over all its brokers.

use std::collections::BTreeSet;

use super::admin::message::{Pull, QueueAt};
use super::admin::topic::masters;
use super::dlq::{origin_topic, topic_of};
use super::error::{Error, Server};
use super::ordered::Pace;
use super::{Client, Deadline, resent};
use crate::protocol::body::TopicOffset;
use crate::protocol::codes;
use crate::protocol::model::{DLQ_PREFIX, Perm};
use crate::protocol::requests::GetEarliestMsgStoretime;

/// Letters of one queue that are looked at for their source topics.
const SAMPLE: i32 = 32;

/// What is asked for beyond the number of letters.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ask<'a> {
    /// How many come in a minute.
    pub rate: bool,
    /// Clients of the group that are online.
    pub clients: bool,
    /// Letters stored at or after this time, epoch ms.
    pub since_ms: Option<i64>,
    /// Topics that the newest letters were first sent to.
    pub sources: bool,
    /// Pause between two calls of one broker.
    pub pace: Option<&'a Pace>,
}

/// What is known of one group's dead letters. What could not be asked is `None`; a sum over fewer brokers than there
/// are is a lower bound.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Letters {
    /// Cluster of the brokers.
    pub cluster: Option<String>,
    /// Brokers that answered.
    pub brokers: Vec<String>,
    /// Brokers that did not, with the reason.
    pub missing: Vec<(String, String)>,
    /// Letters that are there.
    pub count: i64,
    /// Those of them that are at least as new as was asked for.
    pub since: Option<i64>,
    /// Store time of the oldest, epoch ms.
    pub oldest_ms: Option<i64>,
    /// Store time of the newest, epoch ms.
    pub newest_ms: Option<i64>,
    /// The beginning of a queue is gone: letters have expired.
    pub expired: bool,
    /// Letters that came in a minute, over the last one.
    pub per_minute: Option<f64>,
    /// What all of its brokers allow.
    pub perm: Option<Perm>,
    /// Clients of the group that are online.
    pub clients: Option<usize>,
    /// Topics that the newest letters were first sent to.
    pub sources: BTreeSet<String>,
}

impl Client {
    /// Groups that have a dead-letter topic.
    pub async fn groups_with_letters(&self) -> Result<Vec<String>, Error> {
        let names = self.topic_names(None).await?;
        Ok(names
            .iter()
            .filter_map(|topic| topic.strip_prefix(DLQ_PREFIX))
            .map(str::to_owned)
            .collect())
    }

    /// Everything of one group's dead letters; what failed.
    pub async fn letters(&self, group: &str, ask: Ask<'_>) -> (Letters, Vec<Error>) {
        let topic = topic_of(group);
        let (mut letters, mut failed) = (Letters::default(), Vec::new());
        let route = match self.route(&topic).await {
            Ok(Some(route)) => route,
            Ok(None) => return (letters, failed),
            Err(e) => {
                letters.missing.push(("name servers".into(), e.reason()));
                failed.push(e);
                return (letters, failed);
            }
        };
        letters.perm = route.queue_datas.iter().map(|q| q.perm).reduce(|a, b| a.and(b));
        let brokers = masters(&route);
        letters.cluster = resent::cluster_of(&brokers).map(str::to_owned);
        for broker in brokers {
            let server = broker.server();
            match self.letters_on(&mut letters, &topic, group, &server, ask).await {
                Ok(lost) => {
                    letters.brokers.push(broker.id.name.clone());
                    // One broker is one gap, whatever of it is not known.
                    if let Some(e) = lost {
                        letters.missing.push((broker.id.name, e.reason()));
                        failed.push(e);
                    }
                }
                Err(e) => {
                    letters.missing.push((broker.id.name, e.reason()));
                    failed.push(e);
                }
            }
        }
        (letters, failed)
    }

    /// What one broker holds. An error when it does not tell how many; what else it does not tell is the first such
    /// failure.
    async fn letters_on(
        &self,
        letters: &mut Letters,
        topic: &str,
        group: &str,
        server: &Server,
        ask: Ask<'_>,
    ) -> Result<Option<Error>, Error> {
        let mut lost = None;
        let mut known = |e: Error| {
            lost.get_or_insert(e);
        };
        let turn = || async {
            if let Some(pace) = ask.pace {
                pace.turn(&server.addr).await;
            }
            self.deadline()
        };
        let readable = letters.perm.is_none_or(Perm::readable);
        let stats = self.topic_stats(server, topic, turn().await).await;
        let unread = match stats {
            Ok(stats) => {
                // Where nothing is held, nothing is new.
                let is_empty = |r: &TopicOffset| r.max_offset <= r.min_offset;
                if ask.since_ms.is_some() && stats.offset_table.values().all(is_empty) {
                    letters.since.get_or_insert(0);
                }
                for (queue, range) in &stats.offset_table {
                    let held = range.max_offset.saturating_sub(range.min_offset).max(0);
                    letters.expired |= range.min_offset > 0;
                    letters.count = letters.count.saturating_add(held);
                    if held == 0 {
                        continue;
                    }
                    letters.newest_ms = letters.newest_ms.max(Some(range.last_update_timestamp));
                    let at = QueueAt {
                        broker: server.clone(),
                        queue: queue.queue_id,
                    };
                    match self.earliest(&at, topic, turn().await).await {
                        Ok(Some(first)) => {
                            letters.oldest_ms = Some(letters.oldest_ms.unwrap_or(i64::MAX).min(first));
                        }
                        Ok(None) => {}
                        Err(e) => known(e),
                    }
                    if let Some(since) = ask.since_ms {
                        match self.offset_at(&at, topic, since, turn().await).await {
                            Ok(from) => {
                                let newer =
                                    range.max_offset.saturating_sub(from.max(range.min_offset)).max(0);
                                letters.since = Some(letters.since.unwrap_or(0).saturating_add(newer));
                            }
                            Err(e) => known(e),
                        }
                    }
                    if ask.sources && readable {
                        let offset = range.max_offset.saturating_sub(i64::from(SAMPLE));
                        let pull = Pull {
                            topic,
                            queue: at.queue,
                            offset: offset.max(range.min_offset),
                            most: SAMPLE,
                            tags: "*",
                            hold: None,
                        };
                        match self.pull(server, &pull, turn().await).await {
                            Ok(newest) => {
                                let topics = newest.messages.iter().filter_map(origin_topic);
                                letters.sources.extend(topics.map(str::to_owned));
                            }
                            Err(e) => known(e),
                        }
                    }
                }
                None
            }
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => {
                if ask.since_ms.is_some() {
                    letters.since.get_or_insert(0);
                }
                None
            }
            // A broker that cannot be reached is not asked for the rest.
            Err(e) if e.is_unreachable() => return Err(e),
            Err(e) => Some(e),
        };
        if ask.rate {
            match self.look_topic_rate(server, topic, turn().await).await {
                Ok(rate) => letters.per_minute = Some(letters.per_minute.unwrap_or(0.0) + rate * 60.0),
                Err(e) => known(e),
            }
        }
        if ask.clients {
            match self.group_clients(server, group, turn().await).await {
                Ok(clients) => {
                    // A client is connected to every broker of its topics.
                    let here = clients.map_or(0, |c| c.connection_set.len());
                    letters.clients = letters.clients.max(Some(here));
                }
                Err(e) => known(e),
            }
        }
        match unread {
            Some(e) => Err(e),
            None => Ok(lost),
        }
    }

    /// Store time of the first message of a queue, epoch ms; `None` when there is none.
    pub(super) async fn earliest(
        &self,
        at: &QueueAt,
        topic: &str,
        deadline: Deadline,
    ) -> Result<Option<i64>, Error> {
        let header = GetEarliestMsgStoretime {
            topic: topic.to_owned(),
            queue_id: at.queue,
            bname: None,
        };
        let (reply, ()) = self.call(&at.broker, &header, (), deadline).await?;
        Ok(Some(reply.timestamp).filter(|ms| *ms > 0))
    }
}
