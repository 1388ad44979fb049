//! What a cluster shall look like, as a file says it: topics, groups, users and access rules with their settings.
//!
//! A field that is not named is not managed. What is read from a cluster names every field, so a file that was written
//! from a cluster and applied to it changes nothing ([`write`], [`read`], [`plan`]).

pub mod accounts;
pub mod compare;
pub mod plan;
pub mod read;
pub mod write;

use std::collections::{BTreeMap, BTreeSet};

use self::accounts::{Account, Accounts, Password, RuleKey};
use super::admin::auth::Rule;
use super::admin::cluster::BrokerAt;
use super::admin::group::is_system;
use super::admin::topic::kind;
use super::error::{Error, Server};
use super::snapshot::{BrokerId, TopicKind};
use super::{Client, Deadline};
use crate::protocol::body::{
    GroupRetryPolicy, GroupRetryPolicyType, SimpleSubscriptionData, SubscriptionGroupConfig, TopicConfig,
};
use crate::protocol::model::{Perm, TopicFilterType};

/// Queues of a topic whose file does not say how many.
const DEFAULT_QUEUES: i32 = 8;
/// Attribute that the word `type` stands for.
pub(super) const MESSAGE_TYPE: &str = "message.type";

macro_rules! fields {
    ($(#[$meta:meta])* $name:ident of $config:ident { $($(#[$doc:meta])* $field:ident: $type:ty = $($of:ident).+;)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        pub struct $name {
            $($(#[$doc])* pub $field: Option<$type>,)*
        }

        impl $name {
            /// Every field of a configuration.
            pub fn of(config: &$config) -> Self {
                Self { $($field: Some(config.$($of).+.clone()),)* }
            }

            /// These fields, and those of `other` where these say nothing.
            #[must_use]
            pub fn or(&self, other: &Self) -> Self {
                Self { $($field: self.$field.clone().or_else(|| other.$field.clone()),)* }
            }

            /// The fields that `other` has as well, with the same value.
            #[must_use]
            pub fn common(&self, other: &Self) -> Self {
                Self { $($field: self.$field.clone().filter(|v| other.$field.as_ref() == Some(v)),)* }
            }

            /// The fields that `other` does not have with the same value.
            #[must_use]
            pub fn beyond(&self, other: &Self) -> Self {
                Self { $($field: self.$field.clone().filter(|v| other.$field.as_ref() != Some(v)),)* }
            }

            /// `config` with the named fields changed.
            pub fn apply(&self, config: &$config) -> $config {
                let mut after = config.clone();
                $(if let Some(value) = &self.$field {
                    after.$($of).+ = value.clone();
                })*
                after
            }
        }
    };
}

fields! {
    /// Named fields of a topic.
    TopicFields of TopicConfig {
        /// Queues that consumers read.
        read_queues: i32 = read_queue_nums;
        /// Queues that producers write.
        write_queues: i32 = write_queue_nums;
        /// Permission bits.
        perm: Perm = perm;
        /// Ordered topic.
        order: bool = order;
        /// All attributes, `message.type` among them.
        attributes: BTreeMap<String, String> = attributes;
        /// Unit bits.
        sys_flag: i32 = topic_sys_flag;
        /// One tag a message, or several.
        filter_type: TopicFilterType = topic_filter_type;
    }
}

fields! {
    /// Named fields of a group.
    GroupFields of SubscriptionGroupConfig {
        /// Consuming is allowed.
        consume_enable: bool = consume_enable;
        /// Consuming from the minimum offset is allowed.
        consume_from_min: bool = consume_from_min_enable;
        /// Broadcasting is allowed.
        consume_broadcast: bool = consume_broadcast_enable;
        /// Retries keep the order.
        consume_orderly: bool = consume_message_orderly;
        /// Minutes a message may be held.
        consume_timeout_minutes: i32 = consume_timeout_minute;
        /// Queues of the retry topic.
        retry_queues: i32 = retry_queue_nums;
        /// Retries before a message dies.
        retry_max: i32 = retry_max_times;
        /// Delays between retries.
        retry_policy: GroupRetryPolicy = group_retry_policy;
        /// Broker id that consumers are sent to.
        read_from: i64 = broker_id;
        /// Broker id for consumers that lag behind memory.
        slow_read_from: i64 = which_broker_when_consume_slowly;
        /// Clients are told when others come or go.
        notify_change: bool = notify_consumer_ids_changed_enable;
        /// All attributes.
        attributes: BTreeMap<String, String> = attributes;
        /// Unit bits.
        sys_flag: i32 = group_sys_flag;
        /// Fixed subscriptions.
        subscriptions: Option<Vec<SimpleSubscriptionData>> = subscription_data_set;
    }
}

fields! {
    /// Named fields of a user. The password is not among them: see [`Declared::passwords`].
    UserFields of Account {
        /// `Normal` or `Super`.
        user_type: String = user_type;
        /// `enable` or `disable`.
        status: String = status;
    }
}

fields! {
    /// Named fields of an access rule.
    RuleFields of Rule {
        /// What is allowed or denied.
        actions: Vec<String> = actions;
        /// `Allow` or `Deny`.
        decision: String = decision;
        /// Addresses and networks; everywhere when empty.
        source_ips: Vec<String> = source_ips;
    }
}

/// An object on all masters of a cluster alike, or on some, each with fields of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spread<F> {
    /// Fields on every broker.
    pub all: F,
    /// The brokers it is on, with what differs there. Empty: all masters.
    pub brokers: BTreeMap<String, F>,
}

/// What a file or a cluster says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Declared {
    /// Cluster it is about.
    pub cluster: Option<String>,
    /// Topics by name.
    pub topics: BTreeMap<String, Spread<TopicFields>>,
    /// Groups by name.
    pub groups: BTreeMap<String, Spread<GroupFields>>,
    /// Users by name; `None` where nothing is said of users.
    pub users: Option<BTreeMap<String, Spread<UserFields>>>,
    /// Where passwords are, by user. A cluster is never asked to tell them: only a file has these.
    pub passwords: BTreeMap<String, Password>,
    /// Access rules; `None` where nothing is said of them.
    pub rules: Option<BTreeMap<RuleKey, Spread<RuleFields>>>,
}

macro_rules! spread {
    ($fields:ident) => {
        impl Spread<$fields> {
            /// The fields on one broker; `None` where the object is not.
            pub fn on(&self, broker: &str) -> Option<$fields> {
                if self.brokers.is_empty() {
                    return Some(self.all.clone());
                }
                self.brokers.get(broker).map(|own| own.or(&self.all))
            }

            /// What brokers have: said once when all masters have the same.
            pub fn of(on: &BTreeMap<String, $fields>, masters: &BTreeSet<String>) -> Self {
                let Some(first) = on.values().next() else {
                    return Self::default();
                };
                let common = on
                    .values()
                    .fold(first.clone(), |common, own| common.common(own));
                let everywhere = masters.iter().all(|name| on.contains_key(name));
                if everywhere && on.values().all(|own| *own == common) {
                    return Self {
                        all: common,
                        brokers: BTreeMap::new(),
                    };
                }
                Self {
                    brokers: on
                        .iter()
                        .map(|(broker, own)| (broker.clone(), own.beyond(&common)))
                        .collect(),
                    all: common,
                }
            }
        }
    };
}
spread!(TopicFields);
spread!(GroupFields);
spread!(UserFields);
spread!(RuleFields);

/// A topic that does not exist yet.
pub fn fresh_topic(name: &str) -> TopicConfig {
    TopicConfig {
        topic_name: name.to_owned(),
        read_queue_nums: DEFAULT_QUEUES,
        write_queue_nums: DEFAULT_QUEUES,
        ..TopicConfig::default()
    }
}

/// A group that does not exist yet.
pub fn fresh_group(name: &str) -> SubscriptionGroupConfig {
    SubscriptionGroupConfig {
        group_name: name.to_owned(),
        ..SubscriptionGroupConfig::default()
    }
}

/// True for the policy of a group that was never given one.
pub(super) fn is_default_policy(policy: &GroupRetryPolicy) -> bool {
    policy.kind == GroupRetryPolicyType::Customized
        && policy.customized_retry_policy.is_none()
        && policy.exponential_retry_policy.is_none()
}

/// What masters have.
#[derive(Debug, Clone, Default)]
pub struct Held {
    /// The masters.
    pub brokers: Vec<BrokerAt>,
    /// Names of the cluster's other masters: what a file says of them is meant for another time.
    pub others: BTreeSet<String>,
    /// The cluster's other replicas, for the same reason.
    pub other_replicas: BTreeSet<String>,
    /// Topics by broker.
    pub topics: BTreeMap<BrokerId, BTreeMap<String, TopicConfig>>,
    /// Groups by broker.
    pub groups: BTreeMap<BrokerId, BTreeMap<String, SubscriptionGroupConfig>>,
    /// Users and access rules by broker, replicas among them; empty where they were not asked for.
    pub accounts: BTreeMap<BrokerAt, Accounts>,
}

impl Held {
    /// Names of the masters.
    pub fn names(&self) -> BTreeSet<String> {
        self.brokers.iter().map(|b| b.id.name.clone()).collect()
    }

    fn servers(&self) -> BTreeSet<String> {
        self.brokers
            .iter()
            .flat_map(|b| [b.id.name.clone(), b.id.cluster.clone()])
            .collect()
    }

    /// True for a topic that an operator made.
    pub fn is_user_topic(&self, name: &str) -> bool {
        kind(name, &self.servers()) == TopicKind::User
    }

    /// Everything as a declaration; built-in, retry and dead-letter objects only when asked for.
    pub fn declared(&self, system: bool) -> Declared {
        let names = self.names();
        let servers = self.servers();
        let mut topics: BTreeMap<String, BTreeMap<String, TopicFields>> = BTreeMap::new();
        for (broker, table) in &self.topics {
            for (name, config) in table {
                if system || kind(name, &servers) == TopicKind::User {
                    topics
                        .entry(name.clone())
                        .or_default()
                        .insert(broker.name.clone(), TopicFields::of(config));
                }
            }
        }
        let mut groups: BTreeMap<String, BTreeMap<String, GroupFields>> = BTreeMap::new();
        for (broker, table) in &self.groups {
            for (name, config) in table {
                if system || !is_system(name) {
                    groups
                        .entry(name.clone())
                        .or_default()
                        .insert(broker.name.clone(), GroupFields::of(config));
                }
            }
        }
        let mut clusters: Vec<&String> = self.brokers.iter().map(|b| &b.id.cluster).collect();
        clusters.dedup();
        Declared {
            cluster: match clusters.as_slice() {
                [one] => Some((*one).clone()),
                _ => None,
            },
            topics: topics
                .into_iter()
                .map(|(name, on)| (name, Spread::<TopicFields>::of(&on, &names)))
                .collect(),
            groups: groups
                .into_iter()
                .map(|(name, on)| (name, Spread::<GroupFields>::of(&on, &names)))
                .collect(),
            users: self.declared_users(),
            passwords: BTreeMap::new(),
            rules: self.declared_rules(),
        }
    }
}

impl Client {
    /// Topics and groups of masters. All must answer: a part of the truth is no base for a change.
    pub async fn held(&self, brokers: &[BrokerAt], deadline: Deadline) -> Result<Held, Vec<(Server, Error)>> {
        let (held, failed) = self.held_by_some(brokers, deadline).await;
        if failed.is_empty() {
            return Ok(held);
        }
        let failed = failed.into_iter().map(|(broker, e)| (broker.server(), e));
        Err(failed.collect())
    }

    /// Topics and groups of the masters that answer, and why the others do not.
    pub async fn held_by_some(
        &self,
        brokers: &[BrokerAt],
        deadline: Deadline,
    ) -> (Held, Vec<(BrokerAt, Error)>) {
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                let server = broker.server();
                let (topics, groups) = tokio::join!(
                    self.broker_topics(&server, deadline),
                    self.broker_groups(&server, deadline)
                );
                (broker, topics, groups)
            })
            .await;
        let mut held = Held {
            brokers: brokers.to_vec(),
            ..Held::default()
        };
        let mut failed = Vec::new();
        for (broker, topics, groups) in answers {
            match (topics, groups) {
                (Ok(topics), Ok(groups)) => {
                    held.topics.insert(broker.id.clone(), topics.topic_config_table);
                    held.groups.insert(broker.id, groups.subscription_group_table);
                }
                (Err(e), _) | (_, Err(e)) => failed.push((broker, e)),
            }
        }
        (held, failed)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::client::declare) fn held(topics: &[(&str, &str, i32)]) -> Held {
        let mut held = Held::default();
        for broker in ["broker-a", "broker-b"] {
            let id = BrokerId {
                cluster: "C".into(),
                name: broker.into(),
                id: 0,
            };
            let table = topics
                .iter()
                .filter(|(_, on, _)| *on == broker || *on == "*")
                .map(|(name, _, queues)| {
                    let config = TopicConfig {
                        topic_name: (*name).into(),
                        read_queue_nums: *queues,
                        write_queue_nums: *queues,
                        ..TopicConfig::default()
                    };
                    ((*name).to_owned(), config)
                })
                .collect();
            held.topics.insert(id.clone(), table);
            held.groups.insert(
                id.clone(),
                [
                    ("g".to_owned(), fresh_group("g")),
                    ("TOOLS_CONSUMER".to_owned(), fresh_group("x")),
                ]
                .into(),
            );
            held.brokers.push(BrokerAt {
                id,
                addr: format!("127.0.0.1:{}", 10911 + held.brokers.len()),
            });
        }
        held
    }

    #[test]
    fn what_is_the_same_on_all_masters_is_said_once() {
        let held = held(&[("Same", "*", 8), ("Uneven", "broker-a", 8), ("TBW102", "*", 8)]);
        let declared = held.declared(false);
        assert_eq!(declared.topics.keys().collect::<Vec<_>>(), ["Same", "Uneven"]);
        assert!(declared.topics["Same"].brokers.is_empty());
        let uneven = &declared.topics["Uneven"];
        assert_eq!(uneven.brokers.keys().collect::<Vec<_>>(), ["broker-a"]);
        assert_eq!(uneven.on("broker-a").unwrap().read_queues, Some(8));
        assert_eq!(uneven.on("broker-b"), None);
        assert_eq!(declared.groups.keys().collect::<Vec<_>>(), ["g"]);
        assert_eq!(held.declared(true).topics.len(), 3);
    }

    #[test]
    fn queue_counts_of_brokers_are_never_added_up() {
        let mut held = held(&[("T", "*", 8)]);
        let second = held.topics.values_mut().nth(1).unwrap();
        second.get_mut("T").unwrap().write_queue_nums = 4;
        let topic = &held.declared(false).topics["T"];
        assert_eq!(topic.all.read_queues, Some(8));
        assert_eq!(topic.all.write_queues, None);
        assert_eq!(topic.on("broker-b").unwrap().write_queues, Some(4));
    }
}
