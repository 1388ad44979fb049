//! What a name server knows: brokers, their addresses, the queues of each topic. Plain data: no sockets, no lock,
//! and the time is an argument. The rules are those of Java's `RouteInfoManager`; where they differ, it says so.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::protocol::body::{
    BrokerData, BrokerMemberGroup, ClusterInfo, LiveBroker, QueueData, TopicConfig, TopicConfigTable,
    TopicList, TopicQueueMappingInfo, TopicRouteData,
};
use crate::protocol::model::{DataVersion, MASTER_ID, Perm, UNIT, UNIT_SUB};

/// Silence after which a broker is dropped unless it named a limit of its own, ms.
pub const DEFAULT_TIMEOUT_MS: i64 = 120_000;
/// Topics of broker sets about themselves; no acting master is shown for them.
const MEMBER_GROUP_PREFIX: &str = "rmq_sys_SYNC_BROKER_MEMBER_";

/// A broker process: cluster and address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrokerAddr {
    /// Cluster name.
    pub cluster: String,
    /// Address clients reach it at.
    pub addr: String,
}

/// What a broker says about itself.
#[derive(Debug, Clone, Default)]
pub struct Registration {
    /// Cluster name.
    pub cluster: String,
    /// Address clients reach it at.
    pub addr: String,
    /// Name of its set.
    pub name: String,
    /// 0 is the master.
    pub id: i64,
    /// Address slaves reach it at.
    pub ha_addr: Option<String>,
    /// Its zone.
    pub zone: Option<String>,
    /// Silence after which it is to be dropped, ms.
    pub timeout_ms: Option<i64>,
    /// A slave may act as master; `None` from brokers before 5.0.
    pub acting_master: Option<bool>,
    /// The connection it came over.
    pub channel: u64,
    /// Its topics.
    pub topics: TopicConfigTable,
    /// Its filter servers; `None` leaves them as they are.
    pub filter_servers: Option<Vec<String>>,
}

/// How a registration ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Registered {
    /// Taken over.
    Done {
        /// For a slave: the live master's address and replication address.
        master: Option<(String, Option<String>)>,
        /// Whom to tell that the smallest id changed.
        notice: Option<MinIdChange>,
    },
    /// Another address holds the id with a newer state; Java answers success.
    Outdated,
    /// The first registration of a broker must carry its full table, not one topic.
    Incomplete,
}

/// A broker that leaves or is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leaving {
    /// Which process.
    pub broker: BrokerAddr,
    /// Name of its set.
    pub name: String,
    /// Its id.
    pub id: i64,
}

/// A dropped broker and the connection it had registered over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expired {
    /// Who.
    pub leaving: Leaving,
    /// Its connection.
    pub channel: u64,
    /// Its limit, ms.
    pub timeout_ms: i64,
}

/// The smallest live id of a set changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinIdChange {
    /// The smallest id now.
    pub min_id: i64,
    /// Its address.
    pub min_addr: String,
    /// Who went away.
    pub offline_addr: Option<String>,
    /// Replication address of the new smallest.
    pub ha_addr: Option<String>,
    /// Whom to tell.
    pub notify: Vec<String>,
}

#[derive(Debug, Clone)]
struct Live {
    last_update_ms: i64,
    timeout_ms: i64,
    version: DataVersion,
    channel: u64,
    ha_addr: Option<String>,
}

/// All routes.
#[derive(Debug, Default)]
pub struct RouteTable {
    /// Queues by topic; few brokers hold one topic, so a short sorted list.
    topics: HashMap<String, Vec<QueueData>>,
    /// Sets by name.
    brokers: BTreeMap<String, BrokerData>,
    /// Set names by cluster.
    clusters: BTreeMap<String, BTreeSet<String>>,
    live: HashMap<BrokerAddr, Live>,
    filter_servers: HashMap<BrokerAddr, Vec<String>>,
    /// Static topics: mapping by topic and broker name.
    mappings: HashMap<String, BTreeMap<String, TopicQueueMappingInfo>>,
}

impl RouteTable {
    /// Takes over what a broker says. `replace_topics` removes its topics that it does not list any more.
    pub fn register(&mut self, r: Registration, replace_topics: bool, now_ms: i64) -> Registered {
        let key = BrokerAddr {
            cluster: r.cluster.clone(),
            addr: r.addr.clone(),
        };
        let known = self.brokers.get(&r.name);
        let holder = known.and_then(|set| set.broker_addrs.get(&r.id));
        // Java notices this only after it has made an empty entry, which then stays.
        if holder.is_none() && r.topics.topic_config_table.len() == 1 {
            return Registered::Incomplete;
        }
        let outdated = holder.filter(|&addr| *addr != r.addr).is_some_and(|addr| {
            let holder = BrokerAddr {
                cluster: r.cluster.clone(),
                addr: addr.clone(),
            };
            let live = self.live.get(&holder);
            live.is_some_and(|l| l.version.state_version > r.topics.data_version.state_version)
        });
        let mut first = known.is_none();

        self.clusters
            .entry(r.cluster.clone())
            .or_default()
            .insert(r.name.clone());
        let set = self.brokers.entry(r.name.clone()).or_insert_with(|| BrokerData {
            cluster: r.cluster.clone(),
            broker_name: r.name.clone(),
            ..BrokerData::default()
        });
        set.enable_acting_master = r.acting_master.unwrap_or(false);
        set.zone_name.clone_from(&r.zone);
        let min_before = set.broker_addrs.keys().next().copied().unwrap_or(MASTER_ID);
        // A slave that became master: an address has one id.
        set.broker_addrs.retain(|id, addr| *addr != r.addr || *id == r.id);
        if outdated {
            self.live.remove(&key);
            return Registered::Outdated;
        }
        first |= set.broker_addrs.insert(r.id, r.addr.clone()).is_none();

        let min_id = set.broker_addrs.keys().next().copied().unwrap_or(r.id);
        let is_master = r.id == MASTER_ID;
        let is_prime_slave = r.acting_master.is_some() && !is_master && r.id == min_id;
        let acts = is_prime_slave && set.enable_acting_master;
        let notice = (r.id < min_before).then(|| MinIdChange {
            min_id,
            min_addr: r.addr.clone(),
            offline_addr: None,
            ha_addr: r.ha_addr.clone(),
            notify: others_or_only(&set.broker_addrs, min_id),
        });
        let master_addr = set.master().filter(|_| !is_master).map(str::to_owned);

        let version = r.topics.data_version;
        if is_master || is_prime_slave {
            self.take_topics(
                &r.name,
                r.topics,
                first || self.is_changed(&key, version),
                acts,
                replace_topics,
            );
        }
        let live = Live {
            last_update_ms: now_ms,
            timeout_ms: r.timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS),
            version,
            channel: r.channel,
            ha_addr: r.ha_addr,
        };
        match r.filter_servers {
            Some(list) if list.is_empty() => drop(self.filter_servers.remove(&key)),
            Some(list) => drop(self.filter_servers.insert(key.clone(), list)),
            None => {}
        }
        if self.live.insert(key, live).is_none() {
            tracing::info!(
                cluster = r.cluster,
                broker = r.name,
                id = r.id,
                addr = r.addr,
                "broker registered"
            );
        }
        let master = master_addr.and_then(|addr| {
            let key = BrokerAddr {
                cluster: r.cluster,
                addr,
            };
            let ha_addr = self.live.get(&key)?.ha_addr.clone();
            Some((key.addr, ha_addr))
        });
        Registered::Done { master, notice }
    }

    /// Takes over the topics of a set. An unchanged table only adds what is missing.
    fn take_topics(
        &mut self,
        name: &str,
        table: TopicConfigTable,
        changed: bool,
        without_write: bool,
        replace: bool,
    ) {
        let mappings = table.topic_queue_mapping_info_map.unwrap_or_default();
        if replace && mappings.is_empty() {
            self.topics.retain(|topic, queues| {
                if !table.topic_config_table.contains_key(topic) {
                    queues.retain(|q| q.broker_name != name);
                }
                !queues.is_empty()
            });
        }
        for (key, config) in table.topic_config_table {
            let topic = if config.topic_name.is_empty() {
                key
            } else {
                config.topic_name.clone()
            };
            let queues = self.topics.entry(topic).or_default();
            let at = queues.binary_search_by(|q| q.broker_name.as_str().cmp(name));
            if changed || at.is_err() {
                put(queues, at, queue_data(name, &config, without_write));
            }
        }
        if changed {
            for (topic, mapping) in mappings {
                let by_broker = self.mappings.entry(topic).or_default();
                by_broker.insert(mapping.bname.clone(), mapping);
            }
        }
    }

    /// Adds the queues of one topic; false when one names an unknown broker, and then nothing is added.
    pub fn register_topic(&mut self, topic: &str, queues: Vec<QueueData>) -> bool {
        if queues.iter().any(|q| !self.brokers.contains_key(&q.broker_name)) {
            return false;
        }
        if !queues.is_empty() {
            let list = self.topics.entry(topic.to_owned()).or_default();
            for queue in queues {
                put(
                    list,
                    list.binary_search_by(|q| q.broker_name.cmp(&queue.broker_name)),
                    queue,
                );
            }
        }
        true
    }

    /// Removes a topic, from the brokers of one cluster or from all. With it goes what these had of a static topic's mapping,
    /// which Java keeps: a topic made anew under the name would look static.
    pub fn delete_topic(&mut self, topic: &str, cluster: Option<&str>) {
        let Some(cluster) = cluster else {
            self.topics.remove(topic);
            self.mappings.remove(topic);
            return;
        };
        if let Some(names) = self.clusters.get(cluster) {
            if let Some(queues) = self.topics.get_mut(topic) {
                queues.retain(|q| !names.contains(&q.broker_name));
                if queues.is_empty() {
                    self.topics.remove(topic);
                }
            }
            if let Some(mapping) = self.mappings.get_mut(topic) {
                mapping.retain(|broker, _| !names.contains(broker));
            }
        }
        // What brokers left that are gone goes with the last queue.
        let mapped = self.mappings.get(topic);
        if !self.topics.contains_key(topic) || mapped.is_some_and(BTreeMap::is_empty) {
            self.mappings.remove(topic);
        }
    }

    /// A sign of life.
    pub fn touch(&mut self, broker: &BrokerAddr, now_ms: i64) {
        if let Some(live) = self.live.get_mut(broker) {
            live.last_update_ms = now_ms;
        }
    }

    /// Version of the topics a broker registered last.
    pub fn version(&self, broker: &BrokerAddr) -> Option<DataVersion> {
        self.live.get(broker).map(|live| live.version)
    }

    /// True when `version` is not the one the broker registered last.
    pub fn is_changed(&self, broker: &BrokerAddr, version: DataVersion) -> bool {
        self.version(broker) != Some(version)
    }

    /// Brokers that have been silent for longer than their limit.
    pub fn expired(&self, now_ms: i64) -> Vec<Expired> {
        let late = |live: &Live| live.last_update_ms.saturating_add(live.timeout_ms) < now_ms;
        self.leaving(late)
    }

    /// Brokers whose last registration came over a connection. Java finds the first only.
    pub fn on_channel(&self, channel: u64) -> Vec<Expired> {
        self.leaving(|live| live.channel == channel)
    }

    fn leaving(&self, which: impl Fn(&Live) -> bool) -> Vec<Expired> {
        let found = self.live.iter().filter(|(_, live)| which(live));
        found
            .map(|(broker, live)| {
                let holds = |set: &&BrokerData| set.broker_addrs.values().any(|a| *a == broker.addr);
                // The set of the same cluster first: two clusters may know one address.
                let set = (self
                    .brokers
                    .values()
                    .filter(|s| s.cluster == broker.cluster)
                    .find(holds))
                .or_else(|| self.brokers.values().find(holds));
                let id = set.and_then(|s| {
                    let mut addrs = s.broker_addrs.iter();
                    addrs.find(|(_, a)| **a == broker.addr).map(|(id, _)| *id)
                });
                Expired {
                    leaving: Leaving {
                        broker: broker.clone(),
                        name: set.map(|s| s.broker_name.clone()).unwrap_or_default(),
                        id: id.unwrap_or(MASTER_ID),
                    },
                    channel: live.channel,
                    timeout_ms: live.timeout_ms,
                }
            })
            .collect()
    }

    /// Removes brokers, and what nobody holds any more. Whom to tell about a new smallest id.
    pub fn unregister(&mut self, leaving: &[Leaving]) -> Vec<MinIdChange> {
        let mut notices = Vec::new();
        let mut removed = BTreeSet::new();
        let mut without_master = BTreeSet::new();
        for Leaving { broker, name, id } in leaving {
            self.live.remove(broker);
            self.filter_servers.remove(broker);
            let Some(set) = self.brokers.get_mut(name) else {
                continue;
            };
            let was_min = set.broker_addrs.keys().next() == Some(id);
            set.broker_addrs.retain(|_, addr| *addr != broker.addr);
            tracing::info!(
                cluster = broker.cluster,
                broker = name,
                id,
                addr = broker.addr,
                "broker removed"
            );
            let Some((&min_id, min_addr)) = set.broker_addrs.first_key_value() else {
                for cluster in [&broker.cluster, &set.cluster] {
                    if let Some(names) = self.clusters.get_mut(cluster) {
                        names.remove(name);
                        if names.is_empty() {
                            self.clusters.remove(cluster);
                        }
                    }
                }
                self.brokers.remove(name);
                removed.insert(name.as_str());
                continue;
            };
            if set.enable_acting_master {
                if min_id > MASTER_ID {
                    without_master.insert(name.as_str());
                }
                if was_min {
                    notices.push(MinIdChange {
                        min_id,
                        min_addr: min_addr.clone(),
                        offline_addr: Some(broker.addr.clone()),
                        ha_addr: None,
                        notify: set.broker_addrs.values().cloned().collect(),
                    });
                }
            }
        }
        if !removed.is_empty() || !without_master.is_empty() {
            self.topics.retain(|_, queues| {
                queues.retain(|q| !removed.contains(q.broker_name.as_str()));
                for queue in queues.iter_mut() {
                    if without_master.contains(queue.broker_name.as_str()) {
                        queue.perm = queue.perm.without(Perm::WRITE);
                    }
                }
                !queues.is_empty()
            });
        }
        notices
    }

    /// Changes the permission of a set in all its topics; how many.
    pub fn change_perm(&mut self, broker_name: &str, change: impl Fn(Perm) -> Perm) -> i32 {
        let mut count = 0;
        for queues in self.topics.values_mut() {
            if let Some(queue) = queues.iter_mut().find(|q| q.broker_name == broker_name) {
                queue.perm = change(queue.perm);
                count += 1;
            }
        }
        count
    }

    /// Where the queues of a topic are; `None` when no known broker holds any.
    pub fn route(&self, topic: &str, acting_master: bool) -> Option<TopicRouteData> {
        let queues = self.topics.get(topic)?;
        let sets = queues.iter().filter_map(|q| self.brokers.get(&q.broker_name));
        let mut route = TopicRouteData {
            broker_datas: sets.cloned().collect(),
            queue_datas: queues.clone(),
            topic_queue_mapping_by_broker: self.mappings.get(topic).cloned(),
            ..TopicRouteData::default()
        };
        if route.broker_datas.is_empty() {
            return None;
        }
        if !self.filter_servers.is_empty() {
            for set in &route.broker_datas {
                for addr in set.broker_addrs.values() {
                    let key = BrokerAddr {
                        cluster: set.cluster.clone(),
                        addr: addr.clone(),
                    };
                    if let Some(list) = self.filter_servers.get(&key) {
                        route.filter_server_table.insert(addr.clone(), list.clone());
                    }
                }
            }
        }
        if acting_master && !topic.starts_with(MEMBER_GROUP_PREFIX) {
            for set in &mut route.broker_datas {
                show_acting_master(set, queues);
            }
        }
        Some(route)
    }

    /// All sets and clusters; with `now_ms` also the exact state of each broker.
    pub fn cluster_info(&self, now_ms: Option<i64>) -> ClusterInfo {
        let live_table = |_| {
            let live = self.leaving(|_| true).into_iter().filter_map(|e| {
                let live = self.live.get(&e.leaving.broker)?;
                let state = LiveBroker {
                    broker_id: e.leaving.id,
                    broker_name: e.leaving.name,
                    cluster_name: e.leaving.broker.cluster,
                    data_version: live.version,
                    heartbeat_timeout_millis: live.timeout_ms,
                    last_update_timestamp: live.last_update_ms,
                };
                Some((e.leaving.broker.addr, state))
            });
            live.collect()
        };
        ClusterInfo {
            broker_addr_table: self.brokers.clone(),
            cluster_addr_table: self.clusters.clone(),
            rmq_live_table: now_ms.map(live_table),
            rmq_now: now_ms,
            rmq_version: now_ms.map(|_| env!("CARGO_PKG_VERSION").to_owned()),
        }
    }

    /// Addresses of one set; none when it is unknown.
    pub fn member_group(&self, cluster: &str, name: &str) -> BrokerMemberGroup {
        BrokerMemberGroup {
            broker_addrs: self
                .brokers
                .get(name)
                .map(|s| s.broker_addrs.clone())
                .unwrap_or_default(),
            broker_name: name.to_owned(),
            cluster: cluster.to_owned(),
        }
    }

    /// Topics for which `wanted` holds.
    fn topics_where(&self, wanted: impl Fn(&[QueueData]) -> bool) -> TopicList {
        let found = self.topics.iter().filter(|(_, queues)| wanted(queues));
        TopicList {
            topic_list: found.map(|(topic, _)| topic.clone()).collect(),
            ..TopicList::default()
        }
    }

    /// All topics.
    pub fn all_topics(&self) -> TopicList {
        self.topics_where(|_| true)
    }

    /// Topics of a cluster's brokers; none when it is unknown.
    pub fn topics_of_cluster(&self, cluster: &str) -> TopicList {
        let Some(names) = self.clusters.get(cluster) else {
            return TopicList::default();
        };
        self.topics_where(|queues| queues.iter().any(|q| names.contains(&q.broker_name)))
    }

    /// Names of clusters and sets, and some broker's address.
    pub fn system_topics(&self) -> TopicList {
        let sets = self.clusters.values().flatten();
        TopicList {
            broker_addr: self
                .brokers
                .values()
                .find_map(|set| set.broker_addrs.values().next().cloned()),
            topic_list: self.clusters.keys().chain(sets).cloned().collect(),
        }
    }

    /// Topics of a unit.
    pub fn unit_topics(&self) -> TopicList {
        self.topics_where(|queues| first_flag(queues) & UNIT != 0)
    }

    /// Topics a unit subscribes to.
    pub fn unit_sub_topics(&self) -> TopicList {
        self.topics_where(|queues| first_flag(queues) & UNIT_SUB != 0)
    }

    /// Topics a unit subscribes to that are of no unit.
    pub fn unit_sub_ununit_topics(&self) -> TopicList {
        self.topics_where(|queues| first_flag(queues) & (UNIT | UNIT_SUB) == UNIT_SUB)
    }
}

/// Leaves only the sets of a zone, and those without a master, which may be used from anywhere.
pub fn keep_zone(route: &mut TopicRouteData, zone: &str) {
    let stays = |set: &BrokerData| {
        set.master().is_none()
            || set
                .zone_name
                .as_deref()
                .is_some_and(|z| z.eq_ignore_ascii_case(zone))
    };
    let (kept, removed): (Vec<_>, Vec<_>) = std::mem::take(&mut route.broker_datas)
        .into_iter()
        .partition(stays);
    route.broker_datas = kept;
    for set in removed {
        route.queue_datas.retain(|q| q.broker_name != set.broker_name);
        for addr in set.broker_addrs.values() {
            route.filter_server_table.remove(addr);
        }
    }
}

/// Clients look for id 0: a set that lost its master and its write permission shows its smallest id as 0.
fn show_acting_master(set: &mut BrokerData, queues: &[QueueData]) {
    if !set.enable_acting_master || set.master().is_some() {
        return;
    }
    let queue = queues.iter().find(|q| q.broker_name == set.broker_name);
    if queue.is_some_and(|q| !q.perm.writable())
        && let Some((_, addr)) = set.broker_addrs.pop_first()
    {
        set.broker_addrs.insert(MASTER_ID, addr);
    }
}

fn put(queues: &mut Vec<QueueData>, at: Result<usize, usize>, queue: QueueData) {
    match at {
        Ok(at) => queues[at] = queue,
        Err(at) => queues.insert(at, queue),
    }
}

fn queue_data(broker_name: &str, config: &TopicConfig, without_write: bool) -> QueueData {
    QueueData {
        broker_name: broker_name.to_owned(),
        perm: if without_write {
            config.perm.without(Perm::WRITE)
        } else {
            config.perm
        },
        read_queue_nums: config.read_queue_nums,
        topic_sys_flag: config.topic_sys_flag,
        write_queue_nums: config.write_queue_nums,
    }
}

/// Everyone but the new smallest; that one when it is alone.
fn others_or_only(addrs: &BTreeMap<i64, String>, min_id: i64) -> Vec<String> {
    let alone = addrs.len() == 1;
    let told = addrs.iter().filter(|(id, _)| alone || **id != min_id);
    told.map(|(_, addr)| addr.clone()).collect()
}

fn first_flag(queues: &[QueueData]) -> i32 {
    queues.first().map_or(0, |q| q.topic_sys_flag)
}
