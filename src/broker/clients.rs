//! Who is connected: producers and consumers by group, learned from heartbeats, and subscriptions learned from pulls.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dashmap::DashMap;

use super::filter::Filter;
use super::now_ms;
use crate::protocol::body::{
    Connection, ConsumeFromWhere, ConsumeType, ConsumerConnection, ConsumerData, MessageModel,
    ProducerConnection, ProducerInfo, ProducerTableInfo, SubscriptionData,
};
use crate::protocol::model::Language;
use crate::remoting::Peer;

/// One client of a group on one connection.
#[derive(Debug, Clone)]
struct Member {
    peer: Peer,
    client_id: String,
    language: Language,
    version: i32,
    seen: Instant,
    seen_ms: i64,
}

impl Member {
    fn new(peer: &Peer, client_id: &str, now: Instant) -> Self {
        Self {
            peer: peer.clone(),
            client_id: client_id.to_owned(),
            language: peer.language(),
            version: peer.version(),
            seen: now,
            seen_ms: now_ms(),
        }
    }

    fn connection(&self) -> Connection {
        Connection {
            client_addr: self.peer.remote().to_string(),
            client_id: self.client_id.clone(),
            language: self.language,
            version: self.version,
        }
    }
}

/// What a group asks of a topic, ready for filtering.
#[derive(Debug)]
pub struct Subscription {
    /// As the client sent it.
    pub data: SubscriptionData,
    /// Which messages pass.
    pub filter: Filter,
    /// The connection that told.
    from: u64,
}

impl Subscription {
    /// Takes a subscription as the connection `from` sent it.
    pub fn new(data: SubscriptionData, from: u64) -> Self {
        Self {
            filter: Filter::of(&data),
            data,
            from,
        }
    }
}

#[derive(Debug, Default)]
struct ConsumerGroup {
    consume_type: ConsumeType,
    message_model: MessageModel,
    consume_from_where: ConsumeFromWhere,
    /// By connection number.
    members: BTreeMap<u64, Member>,
    subscriptions: HashMap<String, Arc<Subscription>>,
    /// Fingerprint of the newest heartbeat (version 2 of it).
    fingerprint: i32,
}

impl ConsumerGroup {
    fn peers(&self) -> Vec<Peer> {
        if self.message_model == MessageModel::Broadcasting {
            return Vec::new();
        }
        self.members.values().map(|m| m.peer.clone()).collect()
    }

    /// Takes a client's subscriptions for the group's; true when a topic was added or dropped.
    fn subscribe(&mut self, subscriptions: Vec<SubscriptionData>, from: u64) -> bool {
        let mut changed = false;
        let topics: BTreeSet<String> = subscriptions.iter().map(|s| s.topic.clone()).collect();
        for data in subscriptions {
            let newer = match self.subscriptions.get(&data.topic) {
                None => {
                    changed = true;
                    true
                }
                // Versions are clocks of clients. Of two clients the newer one wins; of one client the last word,
                // even after its clock went back.
                Some(old) => {
                    data.sub_version > old.data.sub_version
                        || (data != old.data && (old.from == from || !self.members.contains_key(&old.from)))
                }
            };
            if newer {
                let topic = data.topic.clone();
                self.subscriptions
                    .insert(topic, Arc::new(Subscription::new(data, from)));
            }
        }
        let before = self.subscriptions.len();
        self.subscriptions.retain(|topic, _| topics.contains(topic));
        changed || self.subscriptions.len() != before
    }
}

/// A pull's subscription of a group that does not heartbeat.
#[derive(Debug)]
struct Pulled {
    subscription: Arc<Subscription>,
    at: Instant,
}

/// What a pull wants to know of its group.
#[derive(Debug)]
pub struct GroupView {
    /// How the group consumes.
    pub message_model: MessageModel,
    /// Push, pull or pop.
    pub consume_type: ConsumeType,
    /// The subscription of the topic asked for.
    pub subscription: Option<Arc<Subscription>>,
    /// True when the asking connection is a member.
    pub is_member: bool,
}

/// A client of a group that can be called.
#[derive(Debug, Clone)]
pub struct Reachable {
    /// Its connection.
    pub peer: Peer,
    /// Client id.
    pub client_id: String,
    /// Version it had at its heartbeat.
    pub version: i32,
}

/// Groups whose members should be told that the group changed.
pub type Changed = Vec<(String, Vec<Peer>)>;

/// All clients of a broker. Shard locks are held for map operations alone; peers are told after they are released.
#[derive(Debug, Default)]
pub struct Clients {
    consumers: DashMap<String, ConsumerGroup>,
    producers: DashMap<String, BTreeMap<u64, Member>>,
    /// Newest connection of each producing client, by client id; replies find their way by it.
    producer_ids: DashMap<String, Peer>,
    pulled: DashMap<String, HashMap<String, Pulled>>,
}

impl Clients {
    /// Takes one consumer of a heartbeat; returns the members to tell when something changed. Without
    /// subscriptions (`with_subscriptions` false) only the member is renewed.
    pub fn consumer(
        &self,
        peer: &Peer,
        client_id: &str,
        data: ConsumerData,
        with_subscriptions: bool,
        now: Instant,
    ) -> Option<Vec<Peer>> {
        let mut group = self.consumers.entry(data.group_name).or_default();
        let group = group.value_mut();
        group.consume_type = data.consume_type;
        group.message_model = data.message_model;
        group.consume_from_where = data.consume_from_where;
        let known = group.members.insert(peer.id(), Member::new(peer, client_id, now));
        let joined = known.is_none();
        let changed = with_subscriptions && group.subscribe(data.subscription_data_set, peer.id());
        (joined || changed).then(|| group.peers())
    }

    /// Stores a heartbeat's fingerprint; true when the group had another one.
    pub fn fingerprint(&self, group: &str, fingerprint: i32) -> bool {
        self.consumers.get_mut(group).is_some_and(|mut found| {
            let old = std::mem::replace(&mut found.fingerprint, fingerprint);
            old != 0 && old != fingerprint
        })
    }

    /// Takes one producer of a heartbeat.
    pub fn producer(&self, peer: &Peer, client_id: &str, group: String, now: Instant) {
        let known = self
            .producer_ids
            .get(client_id)
            .is_some_and(|p| p.id() == peer.id());
        if !known {
            self.producer_ids.insert(client_id.to_owned(), peer.clone());
        }
        let before = self
            .producers
            .entry(group)
            .or_default()
            .insert(peer.id(), Member::new(peer, client_id, now));
        if let Some(before) = before.filter(|before| before.client_id != client_id) {
            self.producer_ids
                .remove_if(&before.client_id, |_, known| known.id() == peer.id());
        }
    }

    /// A client leaves a consumer group; returns who is left to tell.
    pub fn leave(&self, peer_id: u64, group: &str) -> Option<Vec<Peer>> {
        let mut found = self.consumers.get_mut(group)?;
        found.members.remove(&peer_id)?;
        let left = found.peers();
        drop(found);
        self.consumers.remove_if(group, |_, g| g.members.is_empty());
        Some(left)
    }

    /// A client leaves a producer group.
    pub fn leave_producers(&self, peer_id: u64, group: &str) {
        let left = self
            .producers
            .get_mut(group)
            .and_then(|mut found| found.remove(&peer_id));
        self.producers.remove_if(group, |_, members| members.is_empty());
        if let Some(left) = left {
            let still = self
                .producers
                .iter()
                .any(|members| members.contains_key(&peer_id));
            if !still {
                self.producer_ids
                    .remove_if(&left.client_id, |_, peer| peer.id() == peer_id);
            }
        }
    }

    /// The open connections of a producer group.
    pub fn producers(&self, group: &str) -> Vec<Peer> {
        self.producers.get(group).map_or_else(Vec::new, |found| {
            let open = found.values().filter(|member| !member.peer.is_closed());
            open.map(|member| member.peer.clone()).collect()
        })
    }

    /// The connection of a client that is a producer of any group.
    pub fn producer_of_client(&self, client_id: &str) -> Option<Peer> {
        self.producer_ids
            .get(client_id)
            .filter(|peer| !peer.is_closed())
            .map(|peer| peer.clone())
    }

    /// A connection is gone: its clients leave all groups.
    pub fn disconnected(&self, peer_id: u64) -> Changed {
        self.drop_members(|id, _| id == peer_id)
    }

    /// Drops members that were not heard of for `after`, and closes their connections; also subscriptions that no
    /// pull renewed for `pulled_after`.
    pub fn expire(&self, now: Instant, after: Duration, pulled_after: Duration) -> Changed {
        let old = |seen: Instant, after| now.saturating_duration_since(seen) > after;
        self.pulled.retain(|_, topics| {
            topics.retain(|_, pulled| !old(pulled.at, pulled_after));
            !topics.is_empty()
        });
        self.drop_members(|_, member| {
            let expired = old(member.seen, after);
            if expired {
                tracing::warn!(client = %member.client_id, peer = %member.peer.remote(),
                    "no heartbeat, client dropped");
                member.peer.close();
            }
            expired
        })
    }

    fn drop_members(&self, gone: impl Fn(u64, &Member) -> bool) -> Changed {
        let mut changed = Vec::new();
        self.consumers.retain(|name, group| {
            let before = group.members.len();
            group.members.retain(|&id, member| !gone(id, member));
            if group.members.len() != before {
                changed.push((name.clone(), group.peers()));
            }
            !group.members.is_empty()
        });
        let mut dropped = HashSet::new();
        self.producers.retain(|_, members| {
            members.retain(|&id, member| {
                let gone = gone(id, member);
                if gone {
                    dropped.insert(id);
                }
                !gone
            });
            !members.is_empty()
        });
        // By connection: one may have beaten under several client ids.
        if !dropped.is_empty() {
            self.producer_ids.retain(|_, peer| !dropped.contains(&peer.id()));
        }
        changed
    }

    /// What a pull needs to know of a group that heartbeats.
    pub fn view(&self, group: &str, topic: &str, peer_id: u64) -> Option<GroupView> {
        let found = self.consumers.get(group)?;
        Some(GroupView {
            message_model: found.message_model,
            consume_type: found.consume_type,
            subscription: found.subscriptions.get(topic).cloned(),
            is_member: found.members.contains_key(&peer_id),
        })
    }

    /// Remembers the subscription of a pull.
    pub fn note_pulled(&self, group: &str, subscription: &Arc<Subscription>, now: Instant) {
        let topic = &subscription.data.topic;
        if let Some(mut topics) = self.pulled.get_mut(group)
            && let Some(known) = topics.get_mut(topic)
        {
            known.subscription = subscription.clone();
            known.at = now;
            return;
        }
        let mut topics = self.pulled.entry(group.to_owned()).or_default();
        topics.insert(
            topic.clone(),
            Pulled {
                subscription: subscription.clone(),
                at: now,
            },
        );
    }

    /// The subscription of the last pull, when it is the wanted one but for its version: expressions are not read
    /// again for every pull.
    pub fn pulled_before(&self, group: &str, wanted: &SubscriptionData) -> Option<Arc<Subscription>> {
        let topics = self.pulled.get(group)?;
        let known = &topics.get(&wanted.topic)?.subscription;
        let same = known.data.sub_string == wanted.sub_string
            && known.data.expression_type == wanted.expression_type;
        same.then(|| known.clone())
    }

    /// True when a client of the group is there.
    pub fn has_group(&self, group: &str) -> bool {
        self.consumers.contains_key(group)
    }

    /// Renews a subscription of a pull; false when it is not known.
    pub fn renew_pulled(&self, group: &str, topic: &str, now: Instant) -> bool {
        self.pulled
            .get_mut(group)
            .and_then(|mut topics| topics.get_mut(topic).map(|known| known.at = now))
            .is_some()
    }

    /// A group's subscription of a topic, from heartbeats or pulls.
    pub fn subscription(&self, group: &str, topic: &str) -> Option<SubscriptionData> {
        let beaten = self
            .consumers
            .get(group)
            .and_then(|found| found.subscriptions.get(topic).map(|s| s.data.clone()));
        beaten.or_else(|| {
            let topics = self.pulled.get(group)?;
            topics.get(topic).map(|pulled| pulled.subscription.data.clone())
        })
    }

    /// How many topics a group's heartbeats name.
    pub fn subscription_count(&self, group: &str) -> usize {
        self.consumers
            .get(group)
            .map_or(0, |found| found.subscriptions.len())
    }

    /// Groups whose heartbeats name the topic.
    pub fn groups_of(&self, topic: &str) -> BTreeSet<String> {
        self.consumers
            .iter()
            .filter(|entry| entry.subscriptions.contains_key(topic))
            .map(|entry| entry.key().clone())
            .collect()
    }

    /// The clients of a consumer group.
    pub fn reachable(&self, group: &str) -> Vec<Reachable> {
        self.consumers.get(group).map_or_else(Vec::new, |found| {
            let reachable = |member: &Member| Reachable {
                peer: member.peer.clone(),
                client_id: member.client_id.clone(),
                version: member.version,
            };
            found.members.values().map(reachable).collect()
        })
    }

    /// Client ids of a group.
    pub fn client_ids(&self, group: &str) -> Vec<String> {
        self.consumers.get(group).map_or_else(Vec::new, |found| {
            found.members.values().map(|m| m.client_id.clone()).collect()
        })
    }

    /// The connections of a consumer group.
    pub fn consumer_connection(&self, group: &str) -> Option<ConsumerConnection> {
        let found = self.consumers.get(group)?;
        Some(ConsumerConnection {
            connection_set: found.members.values().map(Member::connection).collect(),
            consume_from_where: found.consume_from_where,
            consume_type: found.consume_type,
            message_model: found.message_model,
            subscription_table: found
                .subscriptions
                .iter()
                .map(|(topic, s)| (topic.clone(), s.data.clone()))
                .collect(),
        })
    }

    /// The connections of a producer group.
    pub fn producer_connection(&self, group: &str) -> Option<ProducerConnection> {
        let found = self.producers.get(group)?;
        Some(ProducerConnection {
            connection_set: found.values().map(Member::connection).collect(),
        })
    }

    /// Every producer.
    pub fn producer_table(&self) -> ProducerTableInfo {
        let info = |member: &Member| ProducerInfo {
            client_id: member.client_id.clone(),
            language: member.language,
            last_update_timestamp: member.seen_ms,
            remote_ip: format!("/{}", member.peer.remote()),
            version: member.version,
        };
        ProducerTableInfo {
            data: self
                .producers
                .iter()
                .map(|entry| (entry.key().clone(), entry.values().map(info).collect()))
                .collect(),
        }
    }
}
