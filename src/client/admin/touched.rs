//! What a change touches, counted before anybody agrees to it. Cheap reads, all at once; a broker that does not answer makes
//! a count a lower bound.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::group::is_system;
use super::topic::kind;
use crate::client::snapshot::TopicKind;
use crate::client::words::counted;
use crate::client::{Client, Error, Server};
use crate::protocol::body::ProducerInfo;

/// Things of one kind, told by several servers.
#[derive(Debug, Default)]
pub struct Counted {
    noun: &'static str,
    names: BTreeSet<String>,
    answered: bool,
    missing: bool,
}

impl Counted {
    fn new(noun: &'static str) -> Self {
        Self {
            noun,
            ..Self::default()
        }
    }

    fn add(&mut self, told: Result<impl IntoIterator<Item = String>, Error>) {
        match told {
            Ok(names) => {
                self.answered = true;
                self.names.extend(names);
            }
            Err(_) => self.missing = true,
        }
    }
}

impl fmt::Display for Counted {
    /// `3 groups`, `at least 3 groups`, `? groups`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.answered, self.missing) {
            (false, true) => write!(f, "? {}s", self.noun),
            (true, true) => write!(f, "at least {}", counted(self.names.len(), self.noun)),
            _ => f.write_str(&counted(self.names.len(), self.noun)),
        }
    }
}

impl Client {
    /// `12 topics, 5 groups and 3 producer clients are on broker-a`.
    pub async fn use_of_brokers(&self, brokers: impl IntoIterator<Item = Server>) -> String {
        let deadline = self.deadline();
        let brokers: Vec<Server> = brokers.into_iter().collect();
        let answers = self.each(brokers.clone(), |server| async move {
            tokio::join!(
                self.broker_topics(&server, deadline),
                self.broker_groups(&server, deadline),
                self.broker_producers(&server, deadline)
            )
        });
        let (answers, names) = tokio::join!(answers, self.server_names());
        let names = names.unwrap_or_default();
        let mut topics = Counted::new("topic");
        let mut groups = Counted::new("group");
        let mut producers = Counted::new("producer client");
        for (configs, subscriptions, connected) in answers {
            topics.add(configs.map(|table| {
                let all = table.topic_config_table.into_keys();
                all.filter(|name| kind(name, &names) == TopicKind::User)
            }));
            groups.add(subscriptions.map(|table| {
                let all = table.subscription_group_table.into_keys();
                all.filter(|name| !is_system(name))
            }));
            producers.add(connected.map(client_ids));
        }
        let whom = match brokers.as_slice() {
            [one] => one.name.clone().unwrap_or_else(|| one.addr.clone()),
            all => counted(all.len(), "broker"),
        };
        format!("{topics}, {groups} and {producers} are on {whom}")
    }

    /// `2 groups consume topic T, 3 producer clients are on its brokers`. No server knows which producer sends to which
    /// topic.
    pub async fn use_of_topic(&self, brokers: impl IntoIterator<Item = Server>, topic: &str) -> String {
        let deadline = self.deadline();
        let answers = self
            .each(brokers.into_iter().collect(), |server| async move {
                tokio::join!(
                    self.topic_groups(&server, topic, deadline),
                    self.broker_producers(&server, deadline)
                )
            })
            .await;
        let mut groups = Counted::new("consuming group");
        let mut producers = Counted::new("producer client");
        for (consuming, connected) in answers {
            groups.add(consuming);
            producers.add(connected.map(client_ids));
        }
        format!("topic {topic} has {groups}, and its brokers {producers}")
    }

    /// `group G has 2 clients online`.
    pub async fn use_of_group(&self, brokers: impl IntoIterator<Item = Server>, group: &str) -> String {
        let deadline = self.deadline();
        let answers = self
            .each(brokers.into_iter().collect(), |server| async move {
                self.group_clients(&server, group, deadline).await
            })
            .await;
        let mut clients = Counted::new("client");
        for connection in answers {
            clients.add(connection.map(|found| {
                let all = found.into_iter().flat_map(|c| c.connection_set);
                all.map(|client| client.client_id)
            }));
        }
        format!("group {group} has {clients} online")
    }

    /// `1204 unconsumed messages in 4 queues`: of the queues from number `first` on, by the group that is farthest
    /// behind.
    pub async fn unconsumed_from(&self, broker: &Server, topic: &str, first: i32) -> String {
        match self.unconsumed(broker, topic, first).await {
            Ok((queues, messages)) => format!(
                "{} in {}",
                counted(messages, "unconsumed message"),
                counted(queues, "queue")
            ),
            Err(_) => "? unconsumed messages in these queues".into(),
        }
    }

    async fn unconsumed(&self, broker: &Server, topic: &str, first: i32) -> Result<(u64, i64), Error> {
        let deadline = self.deadline();
        let (stats, groups) = tokio::try_join!(
            self.topic_stats(broker, topic, deadline),
            self.topic_groups(broker, topic, deadline)
        )?;
        let lags = self
            .each(groups.into_iter().collect(), |group: String| async move {
                self.group_lag(broker, &group, Some(topic), deadline).await
            })
            .await;
        let lags = lags.into_iter().collect::<Result<Vec<_>, _>>()?;
        let (mut queues, mut messages) = (0, 0_i64);
        for (queue, range) in stats.offset_table {
            if queue.queue_id < first {
                continue;
            }
            // A group without a position there has read nothing of it.
            let positions = lags.iter().map(|lag| {
                let here = lag.queues.iter().find(|q| q.queue == queue.queue_id);
                here.and_then(|q| q.committed).unwrap_or(range.min_offset)
            });
            let read = positions.min().unwrap_or(range.min_offset).max(range.min_offset);
            let unread = range.max_offset.saturating_sub(read).max(0);
            queues += u64::from(unread > 0);
            messages = messages.saturating_add(unread);
        }
        Ok((queues, messages))
    }
}

fn client_ids(groups: BTreeMap<String, Vec<ProducerInfo>>) -> impl Iterator<Item = String> {
    groups.into_values().flatten().map(|client| client.client_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::CallError;

    /// A server that does not answer makes a count a lower bound, and no server that answers makes it unknown.
    #[test]
    fn a_count_says_what_it_is_worth() {
        let failed = || {
            Err::<Vec<String>, _>(Error::Call {
                request: "GET_ALL_PRODUCER_INFO",
                server: Server::at("127.0.0.1:1"),
                source: CallError::Closed {
                    addr: "127.0.0.1:1".into(),
                },
                changes: false,
            })
        };
        let mut all = Counted::new("group");
        assert_eq!(all.to_string(), "0 groups");
        all.add(failed());
        assert_eq!(all.to_string(), "? groups");
        all.add(Ok(vec!["A".into()]));
        assert_eq!(all.to_string(), "at least 1 group");
        all.add(Ok(vec!["A".into(), "B".into()]));
        assert_eq!(all.to_string(), "at least 2 groups");
        let mut whole = Counted::new("producer client");
        whole.add(Ok(vec!["A".into()]));
        whole.add(Ok(vec!["A".into()]));
        assert_eq!(whole.to_string(), "1 producer client");
    }
}
