//! What shall become of a topic, and what forbids it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{DrainedGroup, Phase};
use crate::client::admin::topic::{ConfigSource, MAX_QUEUES, kind};
use crate::client::error::Error;
use crate::client::lag::GroupKind;
use crate::client::snapshot::TopicKind;
use crate::client::{BrokerAt, Client};
use crate::protocol::body::TopicConfig;

/// Queue numbers of a topic on one broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queues {
    /// Queues that consumers read.
    pub read: i32,
    /// Queues that producers write.
    pub write: i32,
}

impl Queues {
    /// The numbers of a configuration.
    pub fn of(config: &TopicConfig) -> Self {
        Self {
            read: config.read_queue_nums,
            write: config.write_queue_nums,
        }
    }
}

impl std::fmt::Display for Queues {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "read {} write {}", self.read, self.write)
    }
}

/// One broker's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnBroker {
    /// Numbers at the begin.
    pub before: Queues,
    /// Numbers wanted.
    pub target: Queues,
}

impl OnBroker {
    /// Queues read meanwhile: all that were or will be written or read.
    pub fn widest(&self) -> i32 {
        self.before.read.max(self.before.write).max(self.target.read)
    }

    /// Queues that lose their readers at the end.
    pub fn drained(&self) -> Range<i32> {
        self.target.read..self.widest()
    }

    /// Queues that producers get in addition.
    pub fn grown(&self) -> Range<i32> {
        self.before.write..self.target.write.max(self.before.write)
    }

    /// True when nothing has to be done.
    pub fn is_still(&self) -> bool {
        self.before == self.target
    }
}

/// What shall become of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Topic name.
    pub topic: String,
    /// By broker name.
    pub brokers: BTreeMap<String, OnBroker>,
}

impl Plan {
    /// True when some queues lose their readers.
    pub fn shrinks(&self) -> bool {
        self.brokers.values().any(|b| !b.drained().is_empty())
    }

    /// True when producers get queues in addition.
    pub fn grows(&self) -> bool {
        self.brokers.values().any(|b| !b.grown().is_empty())
    }

    /// The way back to the numbers before this plan, from the numbers that the brokers have `now`. Numbers with which
    /// some written queues had no reader are no state to go back to: there the read queues stay raised.
    #[must_use]
    pub fn reversed(&self, now: &BTreeMap<String, Queues>) -> Self {
        let turn = |name: &String, on: &OnBroker| OnBroker {
            before: now.get(name).copied().unwrap_or(Queues {
                read: on.widest(),
                write: on.target.write.max(on.before.write),
            }),
            target: Queues {
                read: on.before.read.max(on.before.write),
                write: on.before.write,
            },
        };
        Self {
            topic: self.topic.clone(),
            brokers: self
                .brokers
                .iter()
                .map(|(name, on)| (name.clone(), turn(name, on)))
                .collect(),
        }
    }

    /// Brokers where written queues had no reader before: their numbers are not brought back.
    pub fn uncovered_before(&self) -> Vec<&str> {
        self.brokers
            .iter()
            .filter(|(_, on)| on.before.read < on.before.write)
            .map(|(name, _)| name.as_str())
            .collect()
    }
}

/// Numbers that somebody wants; one that is not named stays.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wish {
    /// Queues that consumers read.
    pub read: Option<i32>,
    /// Queues that producers write.
    pub write: Option<i32>,
    /// Which half of the way.
    pub phase: Phase,
}

impl Wish {
    fn target(self, now: Queues) -> Result<Queues, Refused> {
        let wanted = Queues {
            read: self.read.unwrap_or(now.read),
            write: self.write.unwrap_or(now.write),
        };
        for (side, number) in [("read", wanted.read), ("write", wanted.write)] {
            if !(1..=MAX_QUEUES).contains(&number) {
                return Err(Refused::Range { side, number });
            }
        }
        if wanted.read < wanted.write {
            return Err(Refused::Uncovered(wanted));
        }
        Ok(match self.phase {
            Phase::All => wanted,
            Phase::Write => Queues {
                read: now.read,
                ..wanted
            },
            Phase::Read => Queues {
                write: now.write,
                ..wanted
            },
        })
    }

    /// The plan for a topic; its brokers are those where something has to be done.
    pub fn plan(self, found: &Found) -> Result<Plan, Refused> {
        let mut brokers = BTreeMap::new();
        for (broker, config) in &found.brokers {
            let before = Queues::of(config);
            let target = self.target(before)?;
            let on = OnBroker { before, target };
            let first = match self.phase {
                Phase::All => None,
                // Only the other half makes these safe.
                Phase::Write => (target.write > before.read).then_some(Phase::Read),
                Phase::Read => (target.read < before.write).then_some(Phase::Write),
            };
            if let Some(first) = first {
                return Err(Refused::Half {
                    broker: broker.server().to_string(),
                    before,
                    first,
                });
            }
            // With read 8 and write 16 there is something to do even for the same numbers.
            if !on.is_still() || on.widest() > on.before.read {
                brokers.insert(broker.id.name.clone(), on);
            }
        }
        Ok(Plan {
            topic: found.topic.clone(),
            brokers,
        })
    }
}

/// Why a topic is not scaled. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// Not a topic of users.
    #[error("\"{topic}\" is {what}")]
    NotOfUsers {
        /// Topic name.
        topic: String,
        /// `a system topic`.
        what: &'static str,
    },
    /// A broker that does not tell the numbers.
    #[error("{0} is too old to tell the topic's configuration")]
    TooOld(String),
    /// On none of the brokers.
    #[error("topic \"{topic}\" is on none of {brokers} brokers of cluster {cluster}")]
    NotFound {
        /// Topic name.
        topic: String,
        /// Brokers that were asked.
        brokers: usize,
        /// Their cluster.
        cluster: String,
    },
    /// Its queues are mapped.
    #[error("\"{0}\" is a static topic")]
    Static(String),
    /// Its keys would go to other queues.
    #[error("\"{0}\" is an ordered topic")]
    Ordered(String),
    /// No number of queues.
    #[error("{number} {side} queues: use a number from 1 to {MAX_QUEUES}")]
    Range {
        /// `read` or `write`.
        side: &'static str,
        /// The number.
        number: i32,
    },
    /// Some written queues would have no reader.
    #[error("{} write and {} read queues: messages in the others would not be read", .0.write, .0.read)]
    Uncovered(Queues),
    /// One half of the way needs the other one first.
    #[error("{broker} has {before}")]
    Half {
        /// The broker.
        broker: String,
        /// Its numbers.
        before: Queues,
        /// The half that comes first.
        first: Phase,
    },
    /// A server did not answer as needed.
    #[error(transparent)]
    Call(#[from] Error),
}

/// A topic as it is.
#[derive(Debug, Clone)]
pub struct Found {
    /// Topic name.
    pub topic: String,
    /// Cluster name; several are joined by commas.
    pub cluster: String,
    /// The masters that have it, with its configuration there.
    pub brokers: Vec<(BrokerAt, TopicConfig)>,
    /// Some broker or name server says that its messages are ordered.
    pub ordered: bool,
}

impl Found {
    /// Numbers by broker name.
    pub fn numbers(&self) -> BTreeMap<String, Queues> {
        self.brokers
            .iter()
            .map(|(broker, config)| (broker.id.name.clone(), Queues::of(config)))
            .collect()
    }

    /// The masters that have it.
    pub fn masters(&self) -> Vec<BrokerAt> {
        self.brokers.iter().map(|(broker, _)| broker.clone()).collect()
    }
}

impl Client {
    /// A topic on the masters that are meant. One that must not be scaled is refused; an ordered one is for the
    /// caller to refuse, or not.
    pub async fn scale_find(&self, topic: &str, masters: &[BrokerAt]) -> Result<Found, Refused> {
        let servers = self.server_names().await.unwrap_or_default();
        let what = match kind(topic, &servers) {
            TopicKind::System => Some("a system topic"),
            // Brokers send to them by the numbers of the group's configuration, whatever the topic has.
            TopicKind::Retry => Some("a retry topic"),
            TopicKind::DeadLetter => Some("a dead letter topic"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(Refused::NotOfUsers {
                topic: topic.to_owned(),
                what,
            });
        }
        let deadline = self.deadline();
        let answers = self
            .each(masters.to_vec(), |broker| async move {
                let config = self.topic_config(&broker, topic, deadline).await;
                (broker, config)
            })
            .await;
        let mut brokers = Vec::new();
        for (broker, answer) in answers {
            match answer? {
                Some((config, ConfigSource::Broker)) => brokers.push((broker, config)),
                Some((_, ConfigSource::Route)) => {
                    return Err(Refused::TooOld(broker.server().to_string()));
                }
                None => {}
            }
        }
        let clusters: BTreeSet<&str> = masters.iter().map(|b| b.id.cluster.as_str()).collect();
        let cluster = clusters.into_iter().collect::<Vec<_>>().join(",");
        if brokers.is_empty() {
            return Err(Refused::NotFound {
                topic: topic.to_owned(),
                brokers: masters.len(),
                cluster,
            });
        }
        let route = self.route(topic).await?;
        if let Some(route) = &route
            && self.is_static_now(topic, route).await?
        {
            return Err(Refused::Static(topic.to_owned()));
        }
        let ordered = brokers.iter().any(|(_, config)| {
            config.order || config.attributes.get("message.type").map(String::as_str) == Some("FIFO")
        }) || route.is_some_and(|route| route.order_topic_conf.is_some());
        Ok(Found {
            topic: topic.to_owned(),
            cluster,
            brokers,
            ordered,
        })
    }
}

/// Groups that cannot be waited for, with the word for why: they need [`Settings::ignored`](super::Settings::ignored).
pub fn unwaitable(
    groups: &BTreeMap<String, DrainedGroup>,
    ignored: &BTreeSet<String>,
) -> Vec<(String, &'static str)> {
    groups
        .iter()
        .filter(|(name, group)| group.kind != GroupKind::Clustering && !ignored.contains(*name))
        .map(|(name, group)| (name.clone(), group.kind.name()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(before: Queues, target: Queues) -> Plan {
        Plan {
            topic: "T".into(),
            brokers: [("b".to_owned(), OnBroker { before, target })].into(),
        }
    }

    fn back(plan: &Plan, read: i32, write: i32) -> OnBroker {
        let now = [("b".to_owned(), Queues { read, write })].into();
        plan.reversed(&now).brokers["b"]
    }

    #[test]
    fn the_way_back_begins_at_the_numbers_that_are_there() {
        let grow = plan(Queues { read: 8, write: 8 }, Queues { read: 16, write: 16 });
        let on = back(&grow, 16, 8);
        assert_eq!(on.before, Queues { read: 16, write: 8 });
        assert_eq!(on.target, Queues { read: 8, write: 8 });
        // Producers may have had them: they are drained all the same.
        assert_eq!((on.drained(), on.grown()), (8..16, 8..8));
        let shrink = plan(Queues { read: 16, write: 16 }, Queues { read: 8, write: 8 });
        let on = back(&shrink, 8, 8);
        assert_eq!((on.drained(), on.grown()), (16..16, 8..16));
        // Not begun: nothing to go back.
        assert!(back(&shrink, 16, 16).is_still());
    }

    #[test]
    fn numbers_that_left_queues_without_readers_are_not_brought_back() {
        let mend = plan(Queues { read: 8, write: 16 }, Queues { read: 16, write: 16 });
        assert_eq!(back(&mend, 16, 16).target, Queues { read: 16, write: 16 });
        assert_eq!(mend.uncovered_before(), ["b"]);
    }
}
