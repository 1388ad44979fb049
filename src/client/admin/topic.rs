//! Topics: routes, configuration, creation, change, deletion, offset ranges.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError};

use tokio::time::Instant;

use super::cluster::BrokerAt;
use crate::client::error::{Error, Server};
use crate::client::snapshot::{BrokerId, TopicKind};
use crate::client::{Client, Deadline, ROUTE_AGE, ROUTES_KEPT};
use crate::protocol::body::{TopicConfig, TopicConfigTable, TopicRouteData, TopicStatsTable};
use crate::protocol::codes;
use crate::protocol::model::{DLQ_PREFIX, Perm, RETRY_PREFIX, SCHEDULE_TOPIC, UNIT, UNIT_SUB};
use crate::protocol::requests::{
    DeleteTopicInBroker, DeleteTopicInNamesrv, GetAllTopicConfig, GetAllTopicListFromNameserver,
    GetRouteinfoByTopic, GetSystemTopicListFromNs, GetTopicConfig, GetTopicStatsInfo, GetTopicsByCluster,
    QueryTopicConsumeByWho, UpdateAndCreateTopic,
};

/// Read and write queues of a topic on each broker where a creation does not name them, as in mqadmin.
pub const NEW_QUEUES: i32 = 8;
/// Most queues that a change asks for.
pub const MAX_QUEUES: i32 = 16_384;

/// Topics that every broker makes itself.
const BUILT_IN: &[&str] = &[
    "TBW102",
    SCHEDULE_TOPIC,
    "SELF_TEST_TOPIC",
    "OFFSET_MOVED_EVENT",
    "BenchmarkTest",
    "TRANS_CHECK_MAX_TIME_TOPIC",
];

/// What sort of topic a name belongs to. Cluster and broker names are system topics, too: give them in `servers`.
pub fn kind(name: &str, servers: &BTreeSet<String>) -> TopicKind {
    if name.starts_with(RETRY_PREFIX) {
        TopicKind::Retry
    } else if name.starts_with(DLQ_PREFIX) {
        TopicKind::DeadLetter
    } else if name.starts_with("rmq_sys_")
        || name.starts_with("RMQ_SYS_")
        || BUILT_IN.contains(&name)
        || servers.contains(name)
        || name
            .strip_suffix("_REPLY_TOPIC")
            .is_some_and(|cluster| servers.contains(cluster))
    {
        TopicKind::System
    } else {
        TopicKind::User
    }
}

/// Where a topic configuration was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConfigSource {
    /// From the broker itself, complete.
    Broker,
    /// From the route, since the broker is too old to tell: order and attributes are unknown.
    Route,
}

/// A change of permission bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermChange {
    /// Exactly these.
    To(Perm),
    /// These as well.
    Add(Perm),
    /// Not these any more.
    Remove(Perm),
}

impl PermChange {
    /// The permission after the change. The inherit and priority bits stay unless a value is given.
    pub fn apply(self, perm: Perm) -> Perm {
        match self {
            Self::To(to) => to,
            Self::Add(bits) => perm.with(bits),
            Self::Remove(bits) => perm.without(bits),
        }
    }
}

impl std::str::FromStr for PermChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bits = |name: &str| match name.to_ascii_uppercase().as_str() {
            "R" => Some(Perm::READ),
            "W" => Some(Perm::WRITE),
            "RW" | "WR" => Some(Perm::READ_WRITE),
            _ => None,
        };
        let text = text.trim();
        let change = match text {
            "0" | "none" => Some(Self::To(Perm(0))),
            "2" => Some(Self::To(Perm::WRITE)),
            "4" => Some(Self::To(Perm::READ)),
            "6" => Some(Self::To(Perm::READ_WRITE)),
            _ => match text.split_at_checked(1) {
                Some(("+", rest)) => bits(rest).map(Self::Add),
                Some(("-", rest)) => bits(rest).map(Self::Remove),
                _ => bits(text).map(Self::To),
            },
        };
        change.ok_or_else(|| {
            format!(
                "perm {text} is not a permission; use 2 (write), 4 (read), 6 (read and write), 0 (neither), W, R, RW, \
                 none, or +W -W +R -R"
            )
        })
    }
}

/// Named fields of a topic to change; every other keeps the broker's value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicPatch {
    /// Queues that consumers read.
    pub read_queues: Option<i32>,
    /// Queues that producers write.
    pub write_queues: Option<i32>,
    /// Permission.
    pub perm: Option<PermChange>,
    /// Ordered topic.
    pub order: Option<bool>,
    /// A topic of a unit.
    pub unit: Option<bool>,
    /// Units subscribe to it.
    pub has_unit_sub: Option<bool>,
    /// Attributes to set.
    pub set_attributes: BTreeMap<String, String>,
    /// Attributes to remove.
    pub unset_attributes: BTreeSet<String>,
}

impl TopicPatch {
    /// True when nothing is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `config` with the named fields changed.
    pub fn apply(&self, config: &TopicConfig) -> TopicConfig {
        let mut after = config.clone();
        if let Some(n) = self.read_queues {
            after.read_queue_nums = n;
        }
        if let Some(n) = self.write_queues {
            after.write_queue_nums = n;
        }
        if let Some(change) = self.perm {
            after.perm = change.apply(config.perm);
        }
        if let Some(order) = self.order {
            after.order = order;
        }
        for (bit, on) in [(UNIT, self.unit), (UNIT_SUB, self.has_unit_sub)] {
            match on {
                Some(true) => after.topic_sys_flag |= bit,
                Some(false) => after.topic_sys_flag &= !bit,
                None => {}
            }
        }
        for key in &self.unset_attributes {
            after.attributes.remove(key);
        }
        after.attributes.extend(self.set_attributes.clone());
        after
    }
}

/// A changed field: name, value before, value after.
pub fn differences(before: &TopicConfig, after: &TopicConfig) -> Vec<(String, String, String)> {
    let mut out = Vec::new();
    let mut field = |name: &str, a: String, b: String| {
        if a != b {
            out.push((name.to_owned(), a, b));
        }
    };
    field(
        "perm",
        format!("{} {}", before.perm.0, before.perm),
        format!("{} {}", after.perm.0, after.perm),
    );
    field(
        "read_queues",
        before.read_queue_nums.to_string(),
        after.read_queue_nums.to_string(),
    );
    field(
        "write_queues",
        before.write_queue_nums.to_string(),
        after.write_queue_nums.to_string(),
    );
    field("order", before.order.to_string(), after.order.to_string());
    for (name, bit) in [("unit", UNIT), ("has-unit-sub", UNIT_SUB)] {
        let on = |config: &TopicConfig| (config.topic_sys_flag & bit != 0).to_string();
        field(name, on(before), on(after));
    }
    let keys: BTreeSet<&String> = before.attributes.keys().chain(after.attributes.keys()).collect();
    for key in keys {
        let value = |config: &TopicConfig| config.attributes.get(key).map_or("-", String::as_str).to_owned();
        field(&format!("attr {key}"), value(before), value(after));
    }
    out
}

/// `+key=value,-key` from one attribute table to the other; `None` when they are equal.
fn attribute_changes(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Option<String> {
    let set = after
        .iter()
        .filter(|(k, v)| before.get(*k) != Some(v))
        .map(|(k, v)| format!("+{k}={v}"));
    let unset = before
        .keys()
        .filter(|k| !after.contains_key(*k))
        .map(|k| format!("-{k}"));
    let all: Vec<String> = set.chain(unset).collect();
    (!all.is_empty()).then(|| all.join(","))
}

/// A topic's masters by a route.
pub fn masters(route: &TopicRouteData) -> Vec<BrokerAt> {
    let mut list: Vec<BrokerAt> = route
        .broker_datas
        .iter()
        .filter_map(|set| {
            Some(BrokerAt {
                id: BrokerId {
                    cluster: set.cluster.clone(),
                    name: set.broker_name.clone(),
                    id: 0,
                },
                addr: set.master()?.to_owned(),
            })
        })
        .collect();
    list.sort();
    list
}

impl Client {
    /// The route of a topic; `None` when no name server has one.
    pub async fn route(&self, topic: &str) -> Result<Option<TopicRouteData>, Error> {
        let header = route_header(topic);
        match self.ask(&header, self.deadline()).await {
            Ok((_, _, route)) => Ok(Some(route.value)),
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// A route that may be up to half a minute old.
    pub async fn kept_route(&self, topic: &str) -> Result<Option<Arc<TopicRouteData>>, Error> {
        {
            let routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some((at, route)) = routes.get(topic)
                && at.elapsed() < ROUTE_AGE
            {
                return Ok(Some(route.clone()));
            }
        }
        let Some(route) = self.route(topic).await? else {
            return Ok(None);
        };
        let route = Arc::new(route);
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if routes.len() >= ROUTES_KEPT {
            routes.clear();
        }
        routes.insert(topic.to_owned(), (Instant::now(), route.clone()));
        Ok(Some(route))
    }

    /// The route of a topic at every name server; `None` where one has none.
    pub async fn route_each(&self, topic: &str) -> Vec<(String, Result<Option<TopicRouteData>, Error>)> {
        let header = route_header(topic);
        self.ask_each(&header, self.deadline())
            .await
            .into_iter()
            .map(|(addr, answer)| {
                let route = match answer {
                    Ok((_, route)) => Ok(Some(route.value)),
                    Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Ok(None),
                    Err(e) => Err(e),
                };
                (addr, route)
            })
            .collect()
    }

    /// Topic names, of one cluster or of all.
    pub async fn topic_names(&self, cluster: Option<&str>) -> Result<BTreeSet<String>, Error> {
        let deadline = self.deadline();
        let names = match cluster {
            Some(cluster) => {
                let header = GetTopicsByCluster {
                    cluster: cluster.to_owned(),
                };
                self.ask(&header, deadline).await?.2
            }
            None => self.ask(&GetAllTopicListFromNameserver, deadline).await?.2,
        };
        Ok(names.value.topic_list)
    }

    /// Cluster and broker names: topics of these names are the brokers' own.
    pub async fn server_names(&self) -> Result<BTreeSet<String>, Error> {
        let (_, _, list) = self.ask(&GetSystemTopicListFromNs, self.deadline()).await?;
        Ok(list.value.topic_list)
    }

    /// Every topic of a broker.
    pub async fn broker_topics(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<TopicConfigTable, Error> {
        let (_, table) = self.call(broker, &GetAllTopicConfig, (), deadline).await?;
        Ok(table.value)
    }

    /// A topic's configuration on a broker; `None` where it has no such topic. A broker too old to be asked is read
    /// through the route.
    pub async fn topic_config(
        &self,
        broker: &BrokerAt,
        topic: &str,
        deadline: Deadline,
    ) -> Result<Option<(TopicConfig, ConfigSource)>, Error> {
        let header = GetTopicConfig {
            topic: topic.to_owned(),
            lo: None,
        };
        match self.call(&broker.server(), &header, (), deadline).await {
            Ok((_, found)) => Ok(Some((found.value.config, ConfigSource::Broker))),
            Err(e) => match e.remote_code() {
                Some(codes::TOPIC_NOT_EXIST) => Ok(None),
                Some(codes::REQUEST_CODE_NOT_SUPPORTED) => {
                    let route = self.route(topic).await?;
                    Ok(route.and_then(|route| from_route(&route, &broker.id.name, topic)))
                }
                _ => Err(e),
            },
        }
    }

    /// Writes a topic's configuration to a broker. Attributes travel as the difference from `before`; every other
    /// field is sent as it shall be.
    pub async fn write_topic(
        &self,
        broker: &Server,
        before: Option<&TopicConfig>,
        after: &TopicConfig,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let none = BTreeMap::new();
        let header = UpdateAndCreateTopic {
            topic: after.topic_name.clone(),
            read_queue_nums: after.read_queue_nums,
            write_queue_nums: after.write_queue_nums,
            perm: after.perm,
            topic_filter_type: after.topic_filter_type,
            topic_sys_flag: after.topic_sys_flag,
            order: after.order,
            attributes: attribute_changes(before.map_or(&none, |b| &b.attributes), &after.attributes),
            ..UpdateAndCreateTopic::default()
        };
        self.call(broker, &header, (), deadline).await.map(drop)
    }

    /// Deletes a topic on one broker. The broker answers success for a topic it does not have.
    pub async fn delete_topic_on_broker(
        &self,
        broker: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = DeleteTopicInBroker {
            topic: topic.to_owned(),
        };
        self.call(broker, &header, (), deadline).await.map(drop)
    }

    /// Takes a topic of one cluster off a name server.
    pub async fn delete_topic_on_name_server(
        &self,
        addr: &str,
        topic: &str,
        cluster: &str,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = DeleteTopicInNamesrv {
            topic: topic.to_owned(),
            cluster_name: Some(cluster.to_owned()),
        };
        self.call(&Server::at(addr), &header, (), deadline)
            .await
            .map(drop)
    }

    /// Offset ranges of a topic's queues on one broker.
    pub async fn topic_stats(
        &self,
        broker: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<TopicStatsTable, Error> {
        let header = GetTopicStatsInfo {
            topic: topic.to_owned(),
        };
        let (_, table) = self.call(broker, &header, (), deadline).await?;
        Ok(table.value)
    }

    /// Groups that consume a topic, as one broker knows them. A group named like the topic is left out: Java 5.3.3
    /// records one by mistake.
    pub async fn topic_groups(
        &self,
        broker: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<BTreeSet<String>, Error> {
        let header = QueryTopicConsumeByWho {
            topic: topic.to_owned(),
        };
        let (_, list) = self.call(broker, &header, (), deadline).await?;
        let mut groups = list.value.group_list;
        groups.remove(topic);
        Ok(groups)
    }
}

pub(super) fn route_header(topic: &str) -> GetRouteinfoByTopic {
    GetRouteinfoByTopic {
        topic: topic.to_owned(),
        ..GetRouteinfoByTopic::default()
    }
}

/// A topic's configuration on one broker as far as a route tells it.
fn from_route(route: &TopicRouteData, broker: &str, topic: &str) -> Option<(TopicConfig, ConfigSource)> {
    let queues = route.queue_datas.iter().find(|q| q.broker_name == broker)?;
    let config = TopicConfig {
        topic_name: topic.to_owned(),
        perm: queues.perm,
        read_queue_nums: queues.read_queue_nums,
        write_queue_nums: queues.write_queue_nums,
        topic_sys_flag: queues.topic_sys_flag,
        ..TopicConfig::default()
    };
    Some((config, ConfigSource::Route))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> TopicConfig {
        TopicConfig {
            topic_name: "T".into(),
            read_queue_nums: 16,
            write_queue_nums: 4,
            perm: Perm(7),
            order: true,
            topic_sys_flag: 2,
            attributes: [("message.type".to_owned(), "FIFO".to_owned())].into(),
            ..TopicConfig::default()
        }
    }

    #[test]
    fn each_option_alone_changes_its_field_and_no_other() {
        let patches = [
            (
                TopicPatch {
                    perm: Some(PermChange::To(Perm(4))),
                    ..TopicPatch::default()
                },
                "perm",
            ),
            (
                TopicPatch {
                    read_queues: Some(0),
                    ..TopicPatch::default()
                },
                "read_queues",
            ),
            (
                TopicPatch {
                    write_queues: Some(9),
                    ..TopicPatch::default()
                },
                "write_queues",
            ),
            (
                TopicPatch {
                    order: Some(false),
                    ..TopicPatch::default()
                },
                "order",
            ),
            (
                TopicPatch {
                    set_attributes: [("reserve.time".to_owned(), "5".to_owned())].into(),
                    ..TopicPatch::default()
                },
                "attr reserve.time",
            ),
            (
                TopicPatch {
                    unset_attributes: ["message.type".to_owned()].into(),
                    ..TopicPatch::default()
                },
                "attr message.type",
            ),
        ];
        for (patch, field) in patches {
            let before = config();
            let after = patch.apply(&before);
            let changed: Vec<String> = differences(&before, &after).into_iter().map(|d| d.0).collect();
            assert_eq!(changed, [field]);
            assert_eq!(after.topic_sys_flag, 2);
        }
        assert!(differences(&config(), &TopicPatch::default().apply(&config())).is_empty());
    }

    #[test]
    fn permissions_are_read_in_every_form() {
        let apply = |text: &str, perm| text.parse::<PermChange>().unwrap().apply(Perm(perm)).0;
        assert_eq!(apply("6", 0), 6);
        assert_eq!(apply("W", 4), 2);
        assert_eq!(apply("rw", 0), 6);
        assert_eq!(apply("none", 6), 0);
        assert_eq!(apply("+W", 5), 7);
        assert_eq!(apply("-R", 6), 2);
        for bad in ["", "9", "1", "8", "X", "+", "-X", "66", "ä"] {
            assert!(bad.parse::<PermChange>().is_err(), "{bad}");
        }
    }

    #[test]
    fn attributes_travel_as_a_difference() {
        let before = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
        let after = [("b".to_owned(), "3".to_owned()), ("c".to_owned(), "4".to_owned())].into();
        assert_eq!(
            attribute_changes(&before, &after).as_deref(),
            Some("+b=3,+c=4,-a")
        );
        assert_eq!(attribute_changes(&before, &before), None);
    }

    #[test]
    fn system_names_are_told_from_users() {
        let servers = ["DefaultCluster".to_owned(), "broker-a".to_owned()].into();
        for (name, expected) in [
            ("Orders", TopicKind::User),
            ("%RETRY%g", TopicKind::Retry),
            ("%DLQ%g", TopicKind::DeadLetter),
            ("TBW102", TopicKind::System),
            ("rmq_sys_wheel_timer", TopicKind::System),
            ("RMQ_SYS_TRACE_TOPIC", TopicKind::System),
            ("broker-a", TopicKind::System),
            ("DefaultCluster_REPLY_TOPIC", TopicKind::System),
            ("My_REPLY_TOPIC", TopicKind::User),
        ] {
            assert_eq!(kind(name, &servers), expected, "{name}");
        }
    }
}
