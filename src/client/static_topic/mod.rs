//! Static topics: topics whose number of queues stays while their queues move between brokers.
//!
//! A change is a value first ([`plan::Change`], before to after), then a row of writes ([`Client::apply_static`]) in an order
//! in which no queue is ever led twice for long and no logical offset is given twice: as Java's `MQAdminUtils` does it.

pub mod mapping;
pub mod offsets;
pub mod plan;

use std::collections::{BTreeMap, BTreeSet};

use self::mapping::{ByBroker, details};
use self::offsets::{Logical, Physical, add_stats};
use self::plan::{Change, Kind, Refused};
use super::admin::cluster::BrokerAt;
use super::admin::topic::masters;
use super::error::{Error, Server};
use super::{Client, Deadline};
use crate::protocol::Json;
use crate::protocol::body::{TopicConfig, TopicConfigAndQueueMapping, TopicRouteData};
use crate::protocol::codes;
use crate::protocol::requests::{GetTopicConfig, UpdateAndCreateStaticTopic, UpdateAndCreateTopic};

/// Why writing a change ended early.
#[derive(Debug, thiserror::Error)]
pub enum Stopped {
    /// A broker did not take its part, or did not say that it did.
    #[error("{broker}: {source}")]
    Write {
        /// Broker name.
        broker: String,
        /// What it answered.
        source: Error,
    },
    /// An old leader did not tell the ends of its queues.
    #[error("{broker}: {source}")]
    Ends {
        /// Broker name.
        broker: String,
        /// What it answered.
        source: Error,
    },
    /// A logical offset could not be decided.
    #[error(transparent)]
    Decide(#[from] Refused),
    /// A broker of the change has no address.
    #[error("{0} has no master")]
    NoMaster(String),
}

impl Stopped {
    /// True when a broker may have what was sent last: its answer is lost.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.is_in_doubt(),
            Self::Ends { .. } | Self::Decide(_) | Self::NoMaster(_) => false,
        }
    }
}

/// What brokers tell of a topic's physical queues.
#[derive(Debug, Default)]
pub struct Told {
    /// Range by broker and queue.
    pub ranges: Physical,
    /// Messages put a second, over all that answered.
    pub put_tps: f64,
    /// Who did not tell.
    pub failed: Vec<(BrokerAt, Error)>,
}

/// What became of a change.
#[derive(Debug, Default)]
pub struct Applied {
    /// Brokers that have all of their part.
    pub done: BTreeSet<String>,
    /// Brokers that have some of it.
    pub begun: BTreeSet<String>,
    /// Why it ended early.
    pub stopped: Option<Stopped>,
}

/// True when a route says that its topic is static. That may be long ago: Java's name servers keep the mapping of a topic that
/// was deleted, until they are restarted. [`Client::is_static_now`] asks the brokers.
pub fn is_static(route: &TopicRouteData) -> bool {
    route
        .topic_queue_mapping_by_broker
        .as_ref()
        .is_some_and(|mapping| !mapping.is_empty())
}

/// The broker that leads a logical queue by a route.
fn leader_by_route(route: &TopicRouteData, queue: i32) -> Option<BrokerAt> {
    let mapping = route.topic_queue_mapping_by_broker.as_ref()?;
    let (name, _) = mapping
        .iter()
        .filter(|(_, info)| info.curr_id_map.contains_key(&queue))
        .max_by_key(|(_, info)| info.epoch)?;
    masters(route).into_iter().find(|broker| broker.id.name == *name)
}

impl Client {
    /// A topic's configuration on a broker with its static mapping; `None` where it has no such topic.
    pub async fn static_topic_on(
        &self,
        broker: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<Option<TopicConfigAndQueueMapping>, Error> {
        let header = GetTopicConfig {
            topic: topic.to_owned(),
            lo: Some(true),
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((_, found)) => Ok(Some(found.value)),
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A topic by broker, on those of `brokers` that have it, and who did not tell.
    pub async fn static_topic(
        &self,
        topic: &str,
        brokers: &[BrokerAt],
    ) -> (ByBroker, Vec<(BrokerAt, Error)>) {
        let deadline = self.deadline();
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let found = self.static_topic_on(&broker.server(), topic, deadline).await;
                (broker, found)
            })
            .await;
        let (mut found, mut failed) = (ByBroker::new(), Vec::new());
        for (broker, answer) in answers {
            match answer {
                Ok(Some(at)) => {
                    found.insert(broker.id.name, at);
                }
                Ok(None) => {}
                Err(e) => failed.push((broker, e)),
            }
        }
        (found, failed)
    }

    /// What clients see of the topic of a route, and who did not tell; `None` for an ordinary topic, which costs nothing.
    pub async fn logical(
        &self,
        topic: &str,
        route: &TopicRouteData,
    ) -> (Option<Logical>, Vec<(BrokerAt, Error)>) {
        if !is_static(route) {
            return (None, Vec::new());
        }
        let (found, failed) = self.static_topic(topic, &masters(route)).await;
        (Logical::of(details(&found)), failed)
    }

    /// True when the topic of a route is static: the route says so, and one of its brokers has a mapping. Where none has one
    /// and not all tell, that is the error.
    pub async fn is_static_now(&self, topic: &str, route: &TopicRouteData) -> Result<bool, Error> {
        let (logical, failed) = self.logical(topic, route).await;
        match (logical, failed.into_iter().next()) {
            (Some(_), _) => Ok(true),
            (None, None) => Ok(false),
            (None, Some((_, e))) => Err(e),
        }
    }

    /// Physical ranges of a topic's queues on some brokers.
    pub async fn physical_ranges(&self, topic: &str, brokers: &[BrokerAt]) -> Told {
        let deadline = self.deadline();
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let stats = self.topic_stats(&broker.server(), topic, deadline).await;
                (broker, stats)
            })
            .await;
        let mut told = Told::default();
        for (broker, answer) in answers {
            match answer {
                Ok(stats) => {
                    add_stats(&mut told.ranges, &stats);
                    told.put_tps += stats.topic_put_tps;
                }
                Err(e) => told.failed.push((broker, e)),
            }
        }
        told
    }

    /// The broker that leads a logical queue, by a route that may be half a minute old.
    pub(in crate::client) async fn leader_of(
        &self,
        topic: &str,
        queue: i32,
    ) -> Result<Option<Server>, Error> {
        let route = self.kept_route(topic).await?;
        Ok(route.and_then(|route| Some(leader_by_route(&route, queue)?.server())))
    }

    /// Writes a topic with its mapping to a broker. `force` has the broker take a lower epoch as well.
    async fn write_static(
        &self,
        broker: &Server,
        at: &TopicConfigAndQueueMapping,
        force: bool,
    ) -> Result<(), Error> {
        let header = UpdateAndCreateStaticTopic(UpdateAndCreateTopic {
            topic: at.config.topic_name.clone(),
            read_queue_nums: at.config.read_queue_nums,
            write_queue_nums: at.config.write_queue_nums,
            perm: at.config.perm,
            topic_filter_type: at.config.topic_filter_type,
            topic_sys_flag: at.config.topic_sys_flag,
            order: at.config.order,
            force,
            ..UpdateAndCreateTopic::default()
        });
        let detail = at.mapping_detail.clone().unwrap_or_default();
        self.call(broker, &header, Json::new(detail), self.deadline())
            .await
            .map(drop)
    }

    /// Writes a change, one broker after the other, and ends at the first that fails. Afterwards `change` has the logical
    /// offsets that were decided.
    ///
    /// Queues that move: first their new leaders learn of them and can be written, then the old leaders, which are written no
    /// more; now their ends stand still, and the new leaders' logical offsets are decided and written, to the new leaders
    /// first. Brokers that have no part in it come last.
    pub async fn apply_static(&self, change: &mut Change, masters: &[BrokerAt], force: bool) -> Applied {
        let mut applied = Applied::default();
        if let Err(stopped) = self.write_phases(change, masters, force, &mut applied).await {
            applied.stopped = Some(stopped);
        }
        applied
    }

    async fn write_phases(
        &self,
        change: &mut Change,
        masters: &[BrokerAt],
        force: bool,
        applied: &mut Applied,
    ) -> Result<(), Stopped> {
        let servers: BTreeMap<String, Server> = masters
            .iter()
            .map(|broker| (broker.id.name.clone(), broker.server()))
            .collect();
        if let Some(lost) = change.after.keys().find(|broker| !servers.contains_key(*broker)) {
            return Err(Stopped::NoMaster(lost.clone()));
        }
        let (map_in, map_out) = (change.map_in.clone(), change.map_out.clone());
        let rest: BTreeSet<String> = change
            .after
            .keys()
            .filter(|broker| !map_in.contains(*broker) && !map_out.contains(*broker))
            .cloned()
            .collect();
        if change.kind == Kind::Remap {
            for group in [&map_in, &map_out] {
                self.write_to(change, &servers, group, force, &mut applied.begun)
                    .await?;
            }
            self.decide(change, &servers).await?;
            for group in [&map_in, &map_out] {
                self.write_to(change, &servers, group, force, &mut applied.done)
                    .await?;
            }
        }
        self.write_to(change, &servers, &rest, force, &mut applied.done)
            .await
    }

    async fn write_to(
        &self,
        change: &Change,
        servers: &BTreeMap<String, Server>,
        brokers: &BTreeSet<String>,
        force: bool,
        written: &mut BTreeSet<String>,
    ) -> Result<(), Stopped> {
        for broker in brokers {
            let (Some(at), Some(server)) = (change.after.get(broker), servers.get(broker)) else {
                return Err(Stopped::NoMaster(broker.clone()));
            };
            self.write_static(server, at, force)
                .await
                .map_err(|source| Stopped::Write {
                    broker: broker.clone(),
                    source,
                })?;
            written.insert(broker.clone());
        }
        Ok(())
    }

    /// Asks the old leaders for the ends of their queues, and decides where the new ones begin.
    async fn decide(&self, change: &mut Change, servers: &BTreeMap<String, Server>) -> Result<(), Stopped> {
        let old: BTreeSet<String> = change.undecided().into_iter().map(|(_, old)| old.bname).collect();
        let mut physical = Physical::new();
        for broker in old {
            let server = servers
                .get(&broker)
                .ok_or_else(|| Stopped::NoMaster(broker.clone()))?;
            let stats = self
                .topic_stats(server, &change.topic, self.deadline())
                .await
                .map_err(|source| Stopped::Ends { broker, source })?;
            add_stats(&mut physical, &stats);
        }
        change.decide(|broker, queue| {
            physical
                .get(&(broker.to_owned(), queue))
                .map(|offset| offset.max_offset)
        })?;
        Ok(())
    }

    /// What a broker has that differs from its part of a change; `None` when nothing does.
    pub async fn static_differs(&self, change: &Change, broker: &BrokerAt) -> Option<String> {
        let wanted = change.after.get(&broker.id.name)?;
        let now = self
            .static_topic_on(&broker.server(), &change.topic, self.deadline())
            .await;
        let (now, detail) = match now {
            Ok(Some(TopicConfigAndQueueMapping {
                config,
                mapping_detail: Some(detail),
            })) => (config, detail),
            Ok(Some(_)) => return Some("it has the topic without a mapping".into()),
            Ok(None) => return Some("it does not have the topic".into()),
            Err(e) => return Some(format!("not read back: {}", e.reason())),
        };
        let queues = (now.read_queue_nums, now.write_queue_nums);
        if queues != (wanted.config.read_queue_nums, wanted.config.write_queue_nums) {
            return Some(format!("it has {} read and {} write queues", queues.0, queues.1));
        }
        let expected = wanted.mapping_detail.as_ref()?;
        if (detail.epoch, detail.total_queues) != (expected.epoch, expected.total_queues) {
            return Some(format!(
                "it has epoch {} and {} queues",
                detail.epoch, detail.total_queues
            ));
        }
        let wrong = expected
            .hosted_queues
            .iter()
            .find(|(queue, items)| detail.hosted_queues.get(queue) != Some(items));
        if let Some((queue, _)) = wrong {
            return Some(format!("queue {queue} reads back with other generations"));
        }
        // A broker keeps lists that it was not sent; it must not lead by one of them.
        let leads = detail.hosted_queues.iter().find(|(queue, items)| {
            !expected.hosted_queues.contains_key(*queue)
                && items.last().is_some_and(|leader| leader.bname == broker.id.name)
        });
        leads
            .map(|(queue, _)| format!("it still leads queue {queue}"))
            .or_else(|| other_config(&wanted.config, &now))
    }

    /// The first name server that does not have the leaders of a change yet, with what it has; `None` when all that answer do,
    /// and one does.
    pub async fn static_route_differs(&self, change: &Change) -> Option<String> {
        let leading = mapping::believed(details(&change.after));
        let mut told = false;
        for (addr, route) in self.route_each(&change.topic).await {
            // A dead name server learns from the brokers when it is back.
            let Ok(route) = route else { continue };
            told = true;
            let mapping = route.and_then(|route| route.topic_queue_mapping_by_broker);
            let Some(mapping) = mapping else {
                return Some(format!("name server {addr} has no mapping yet"));
            };
            for (queue, items) in &leading {
                let Some(leader) = items.last() else { continue };
                let led = mapping.get(&leader.bname).is_some_and(|info| {
                    info.epoch == change.epoch && info.curr_id_map.get(queue) == Some(&leader.queue_id)
                });
                if !led {
                    return Some(format!(
                        "name server {addr} does not have queue {queue} on {} yet",
                        leader.bname
                    ));
                }
            }
        }
        (!told).then(|| "no name server told its route".to_owned())
    }
}

/// What of a topic's configuration, besides its queues, a broker has otherwise than it was sent. Attributes are not sent.
fn other_config(sent: &TopicConfig, now: &TopicConfig) -> Option<String> {
    if now.perm != sent.perm {
        return Some(format!("it has perm {}", now.perm));
    }
    if now.order != sent.order {
        return Some(format!("it has order {}", now.order));
    }
    if now.topic_filter_type != sent.topic_filter_type {
        return Some(format!("it has filter type {:?}", now.topic_filter_type));
    }
    if now.topic_sys_flag != sent.topic_sys_flag {
        return Some(format!("it has sys flag {}", now.topic_sys_flag));
    }
    None
}
