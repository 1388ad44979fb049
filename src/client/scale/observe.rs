//! Looks at a topic that is being scaled. Reads only.

use std::collections::{BTreeMap, BTreeSet};

use super::pending::{Landing, Waiting};
use super::{Drained, DrainedGroup, Machine, Observation, Pending, Plan, Queues, Wants};
use crate::client::admin::cluster::BrokerAt;
use crate::client::admin::group::is_system;
use crate::client::error::{Error, Server};
use crate::client::lag::GroupKind;
use crate::client::positions::unread;
use crate::client::produce::now_ms;
use crate::client::{Client, Deadline};
use crate::protocol::body::{ConsumeType, ConsumerConnection, MessageModel};
use crate::protocol::requests::{GetAllProducerInfo, QueryTopicConsumeByWho};

/// What looks need and learn.
#[derive(Debug)]
pub struct Observer {
    /// The topic's masters by name.
    pub brokers: BTreeMap<String, BrokerAt>,
    plan: Plan,
    /// Pending messages by broker name, with the broker's configuration.
    waiting: BTreeMap<String, (Waiting, BTreeMap<String, String>)>,
    /// Whether a group named like the topic is real: Java can name a topic as its own group.
    own_name_is_group: Option<bool>,
}

impl Observer {
    /// An observer of a plan's brokers.
    pub fn new(plan: &Plan, brokers: Vec<BrokerAt>) -> Self {
        Self {
            brokers: brokers.into_iter().map(|b| (b.id.name.clone(), b)).collect(),
            plan: plan.clone(),
            waiting: BTreeMap::new(),
            own_name_is_group: None,
        }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// One look for a machine.
    pub async fn look(&mut self, client: &Client, machine: &Machine) -> Observation {
        let mut seen = Observation {
            now_ms: now_ms(),
            ..Observation::default()
        };
        let deadline = client.deadline();
        let topic = self.plan.topic.clone();
        seen.brokers = self.numbers(client, deadline).await;
        let Wants {
            routes,
            owners,
            begins,
            drained,
            ends,
        } = machine.wants();
        if routes {
            for (addr, route) in client.route_each(&topic).await {
                match route {
                    Ok(route) => {
                        let queues = route.map(|r| r.queue_datas).unwrap_or_default();
                        let shown = queues.into_iter().map(|q| {
                            let numbers = Queues {
                                read: q.read_queue_nums,
                                write: q.write_queue_nums,
                            };
                            (q.broker_name, numbers)
                        });
                        seen.routes.push((addr, shown.collect()));
                    }
                    Err(_) => seen.silent_name_servers.push(addr),
                }
            }
        }
        if owners {
            let numbers = seen.brokers.clone();
            (seen.unowned, seen.unknown) = self.unowned(client, &numbers).await;
        }
        if begins {
            seen.begins = Some(self.begins(client, &seen.brokers).await);
        }
        if ends {
            for (name, broker) in &self.brokers {
                let Some(Ok(has)) = seen.brokers.get(name) else {
                    continue;
                };
                // Those that nobody writes yet as well: messages of a longer life of the topic are not new.
                let queues = 0..self
                    .plan
                    .brokers
                    .get(name)
                    .map_or(0, |on| on.target.write)
                    .max(has.write);
                match client.queue_ranges(&broker.server(), &topic, queues).await {
                    Ok(ranges) => {
                        for (queue, (_, max)) in ranges {
                            seen.ends.insert((name.clone(), queue), max);
                        }
                    }
                    Err(e) => seen.unknown.push(format!("queues on {name}: {}", e.reason())),
                }
            }
        }
        if drained {
            seen.drained = Some(self.drained(client, &seen.brokers).await);
        }
        seen
    }

    /// The topic's numbers on each broker of the plan, or why they are unknown.
    pub async fn numbers(
        &self,
        client: &Client,
        deadline: Deadline,
    ) -> BTreeMap<String, Result<Queues, String>> {
        let topic = self.plan.topic.as_str();
        let answers = client
            .each(self.brokers.values().cloned().collect(), |broker| async move {
                let numbers = match client.topic_config(&broker, topic, deadline).await {
                    Ok(Some((config, _))) => Ok(Queues {
                        read: config.read_queue_nums,
                        write: config.write_queue_nums,
                    }),
                    Ok(None) => Err("the broker has the topic no longer".to_owned()),
                    Err(e) => Err(e.reason()),
                };
                (broker.id.name, numbers)
            })
            .await;
        answers.into_iter().collect()
    }

    /// Groups of the topic on one broker, without the broker's own and without phantoms.
    pub(super) async fn groups(
        &mut self,
        client: &Client,
        broker: &Server,
    ) -> Result<BTreeSet<String>, Error> {
        let topic = self.plan.topic.clone();
        let header = QueryTopicConsumeByWho { topic: topic.clone() };
        let (_, list) = client.call(broker, &header, (), client.deadline()).await?;
        let mut groups = list.value.group_list;
        groups.retain(|group| !is_system(group));
        if groups.contains(&topic) {
            let real = match self.own_name_is_group {
                Some(real) => real,
                None => {
                    let brokers: Vec<BrokerAt> = self.brokers.values().cloned().collect();
                    let known = client.known_groups(&brokers).await;
                    *self
                        .own_name_is_group
                        .insert(known.groups.contains_key(&topic) || !known.failed.is_empty())
                }
            };
            if !real {
                groups.remove(&topic);
            }
        }
        Ok(groups)
    }

    /// Queues without an owner, by online clustering group, and what could not be asked: a group may be behind that.
    async fn unowned(
        &mut self,
        client: &Client,
        numbers: &BTreeMap<String, Result<Queues, String>>,
    ) -> (BTreeMap<String, Option<usize>>, Vec<String>) {
        let mut unknown = Vec::new();
        let topic = self.plan.topic.clone();
        let mut clients: BTreeMap<String, BTreeMap<String, Server>> = BTreeMap::new();
        let brokers: Vec<BrokerAt> = self.brokers.values().cloned().collect();
        for broker in &brokers {
            let server = broker.server();
            let groups = match self.groups(client, &server).await {
                Ok(groups) => groups,
                Err(e) => {
                    unknown.push(format!("groups on {}: {}", broker.id.name, e.reason()));
                    continue;
                }
            };
            for group in groups {
                let connection = match client.group_clients(&server, &group, client.deadline()).await {
                    Ok(Some(connection)) => connection,
                    Ok(None) => continue,
                    Err(e) => {
                        unknown.push(format!(
                            "clients of {group} on {}: {}",
                            broker.id.name,
                            e.reason()
                        ));
                        continue;
                    }
                };
                if connection.message_model == MessageModel::Broadcasting
                    || !connection.subscription_table.contains_key(&topic)
                {
                    continue;
                }
                let known = clients.entry(group).or_default();
                for one in connection.connection_set {
                    known.entry(one.client_id).or_insert_with(|| server.clone());
                }
            }
        }
        let mut unowned = BTreeMap::new();
        for (group, clients) in clients {
            let owners = client.queue_owners(&group, &clients).await;
            let mut open = 0;
            for (name, numbers) in numbers {
                let read = numbers.as_ref().map_or(0, |q| q.read);
                open += (0..read)
                    .filter(|queue| owners.of(&topic, name, *queue).is_none())
                    .count();
            }
            let known = open == 0 || owners.silent.is_empty();
            unowned.insert(group, known.then_some(open));
        }
        (unowned, unknown)
    }

    /// The queues that lose their readers, on the brokers where they still have them.
    pub async fn drained(
        &mut self,
        client: &Client,
        numbers: &BTreeMap<String, Result<Queues, String>>,
    ) -> Drained {
        let now = now_ms();
        let topic = self.plan.topic.clone();
        let mut drained = Drained::default();
        // Pending messages first: what lands between the looks shows in the ends.
        for (name, on) in &self.plan.brokers {
            let (Some(broker), Some(Ok(has))) = (self.brokers.get(name), numbers.get(name)) else {
                continue;
            };
            if on.target.read >= has.read.max(has.write) {
                continue;
            }
            let server = broker.server();
            match pending(
                &mut self.waiting,
                client,
                name,
                &server,
                &topic,
                on.drained(),
                now,
            )
            .await
            {
                Ok(found) => drained.pending = drained.pending.and(found),
                Err(e) => drained
                    .unknown
                    .push(format!("messages that wait on {name}: {}", e.reason())),
            }
        }
        for (name, on) in self.plan.brokers.clone() {
            let (Some(broker), Some(Ok(has))) = (self.brokers.get(&name).cloned(), numbers.get(&name)) else {
                continue;
            };
            let queues = on.target.read..has.read.max(has.write);
            if queues.is_empty() {
                continue;
            }
            let server = broker.server();
            if let Err(e) = self.queues_of(client, &name, &server, queues, &mut drained).await {
                drained.unknown.push(format!("groups on {name}: {}", e.reason()));
            }
        }
        drained
    }

    async fn queues_of(
        &mut self,
        client: &Client,
        name: &str,
        server: &Server,
        queues: std::ops::Range<i32>,
        drained: &mut Drained,
    ) -> Result<(), Error> {
        let topic = self.plan.topic.clone();
        let deadline = client.deadline();
        let groups = self.groups(client, server).await?;
        let ranges = client.queue_ranges(server, &topic, queues.clone()).await?;
        for (queue, (_, max)) in &ranges {
            drained.ends.insert((name.to_owned(), *queue), *max);
        }
        let answers = client
            .each(groups.into_iter().collect(), |group| {
                let topic = topic.as_str();
                async move {
                    let (lag, clients) = tokio::join!(
                        client.group_lag(server, &group, Some(topic), deadline),
                        client.group_clients(server, &group, deadline)
                    );
                    (group, lag, clients)
                }
            })
            .await;
        for (group, lag, clients) in answers {
            let (mut lag, clients) = (lag?, clients?);
            let untold = client
                .untold_rows((name, server), (&group, &topic), &lag.queues, &ranges)
                .await?;
            lag.queues.extend(untold);
            let entry = drained.groups.entry(group).or_insert_with(|| DrainedGroup {
                kind: GroupKind::Offline,
                pops: false,
                lag: 0,
                inflight: 0,
                position: 0,
                clients: BTreeSet::new(),
            });
            if let Some(connection) = clients {
                add_clients(entry, connection);
            }
            for row in lag.queues.iter().filter(|row| queues.contains(&row.queue)) {
                let committed = row.committed.unwrap_or(0);
                entry.lag = entry.lag.saturating_add(unread(row, &ranges));
                if committed < row.max {
                    entry.inflight = entry.inflight.saturating_add(row.inflight.unwrap_or(0).max(0));
                }
                entry.position = entry.position.saturating_add(committed);
            }
        }
        // Only for the name of who still writes; an old broker does not say.
        if let Ok((_, table)) = client.call(server, &GetAllProducerInfo, (), deadline).await {
            for (group, producers) in table.value.data {
                let ids = producers.into_iter().map(|p| format!("{group} {}", p.client_id));
                drained
                    .producers
                    .extend(ids.filter(|_| group != "CLIENT_INNER_PRODUCER"));
            }
        }
        Ok(())
    }
}

fn add_clients(entry: &mut DrainedGroup, connection: ConsumerConnection) {
    entry.kind = if connection.message_model == MessageModel::Broadcasting {
        GroupKind::Broadcasting
    } else {
        GroupKind::Clustering
    };
    entry.pops |= connection.consume_type == ConsumeType::Pop;
    entry
        .clients
        .extend(connection.connection_set.into_iter().map(|c| c.client_id));
}

/// What waits on one broker for some queues.
async fn pending(
    known: &mut BTreeMap<String, (Waiting, BTreeMap<String, String>)>,
    client: &Client,
    name: &str,
    server: &Server,
    topic: &str,
    queues: std::ops::Range<i32>,
    now: i64,
) -> Result<Pending, Error> {
    if !known.contains_key(name) {
        let config = client.broker_config(server, client.deadline()).await?;
        let landing = Landing::In {
            topic: topic.to_owned(),
            queues,
        };
        known.insert(name.to_owned(), (Waiting::new(landing), config));
    }
    match known.get_mut(name) {
        Some((waiting, config)) => waiting.look(client, server, config, now).await,
        None => Ok(Pending::default()),
    }
}
