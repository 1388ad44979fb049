//! A cluster that exists only as evidence, for the tests of the checks: everything in it is as it should be.

use std::time::Duration;

use super::{Details, Evidence, RESTING, judge};
use crate::client::findings::{Finding, Trends, findings};
use crate::client::snapshot::{
    BrokerConfigView, BrokerId, BrokerState, ClusterTable, GroupLag, GroupState, HaState, Listed, LiveBroker,
    NameServerState, Seen, Snapshot, TopicKind, TopicOnBroker, TopicState,
};
use crate::client::{RuntimeInfo, liveness};
use crate::protocol::body::{
    BrokerData, Connection, ConsumerConnection, ConsumerRunningInfo, ProcessQueueInfo, QueueData,
    SubscriptionData, SubscriptionGroupConfig, TopicOffset, TopicRouteData, TopicStatsTable,
};
use crate::protocol::model::{DataVersion, MessageQueue, Perm};

pub(super) const NOW: i64 = 1_795_953_871_000;
const QUEUES: i32 = 8;

/// Two masters, one name server, topic `orders` with 8 queues on each, group `g` with two clients and no lag.
pub(super) struct Cluster {
    pub(super) snapshot: Snapshot,
    pub(super) details: Details,
}

pub(super) fn id(name: &str, id: i64) -> BrokerId {
    BrokerId {
        cluster: "c".into(),
        name: name.into(),
        id,
    }
}

pub(super) fn stats_of<const N: usize>(ranges: [(MessageQueue, TopicOffset); N]) -> TopicStatsTable {
    TopicStatsTable {
        offset_table: ranges.into(),
        topic_put_tps: 0.0,
    }
}

pub(super) fn judge_of(c: &Cluster) -> Vec<Finding> {
    judge(&Evidence {
        snapshot: &c.snapshot,
        trends: &Trends::default(),
        details: Some(&c.details),
    })
}

fn queue(broker: &str, queue_id: i32) -> MessageQueue {
    MessageQueue {
        broker_name: broker.into(),
        queue_id,
        topic: "orders".into(),
    }
}

fn broker(name: &str, port: u16) -> BrokerState {
    BrokerState {
        broker: id(name, 0),
        addr: format!("127.0.0.1:{port}"),
        runtime: Seen::answered(
            RuntimeInfo {
                version: Some("V5_3_3".into()),
                ..RuntimeInfo::default()
            },
            NOW,
        ),
        config: Seen::answered(
            BrokerConfigView {
                perm: Some(Perm::READ_WRITE),
                name_servers: vec!["ns1:9876".into()],
                ..BrokerConfigView::default()
            },
            NOW,
        ),
        ha: Seen::answered(HaState::default(), NOW),
        topics_version: Seen::answered(DataVersion::default(), NOW),
        last_answer_ms: Some(NOW),
        ..BrokerState::default()
    }
}

fn client(brokers: &[&str]) -> ConsumerRunningInfo {
    ConsumerRunningInfo {
        subscription_set: vec![all_of_orders()],
        mq_table: brokers
            .iter()
            .flat_map(|b| (0..QUEUES).map(|q| (queue(b, q), ProcessQueueInfo::default())))
            .collect(),
        ..ConsumerRunningInfo::default()
    }
}

fn all_of_orders() -> SubscriptionData {
    SubscriptionData {
        topic: "orders".into(),
        sub_string: "*".into(),
        ..SubscriptionData::default()
    }
}

impl Cluster {
    pub(super) fn healthy() -> Self {
        let brokers = vec![broker("broker-a", 10911), broker("broker-b", 10921)];
        let mut c = Self {
            snapshot: Snapshot {
                taken_at_ms: NOW,
                ..Snapshot::default()
            },
            details: Details::default(),
        };
        c.snapshot.topics.push(TopicState {
            name: "orders".into(),
            kind: TopicKind::User,
            brokers: brokers
                .iter()
                .map(|b| TopicOnBroker {
                    broker: b.broker.clone(),
                    read_queues: QUEUES,
                    write_queues: QUEUES,
                    perm: Perm::READ_WRITE,
                    ..TopicOnBroker::default()
                })
                .collect(),
        });
        c.snapshot.groups.push(GroupState {
            name: "g".into(),
            lag: Seen::answered(
                brokers
                    .iter()
                    .map(|b| GroupLag {
                        group: "g".into(),
                        topic: "orders".into(),
                        broker: b.broker.name.clone(),
                        max: 100,
                        committed: Some(100),
                        ..GroupLag::default()
                    })
                    .collect(),
                NOW,
            ),
            ..GroupState::default()
        });
        let route = TopicRouteData {
            queue_datas: brokers
                .iter()
                .map(|b| QueueData {
                    broker_name: b.broker.name.clone(),
                    read_queue_nums: QUEUES,
                    write_queue_nums: QUEUES,
                    perm: Perm::READ_WRITE,
                    ..QueueData::default()
                })
                .collect(),
            broker_datas: brokers
                .iter()
                .map(|b| BrokerData {
                    broker_name: b.broker.name.clone(),
                    cluster: "c".into(),
                    broker_addrs: [(0, b.addr.clone())].into(),
                    ..BrokerData::default()
                })
                .collect(),
            ..TopicRouteData::default()
        };
        let d = &mut c.details;
        d.routes
            .insert("orders".into(), [("ns1:9876".into(), Some(route))].into());
        for (b, client_id) in brokers.iter().zip(["c1", "c2"]) {
            let range = TopicOffset {
                min_offset: 0,
                max_offset: 100,
                last_update_timestamp: NOW - 1_000,
            };
            d.stats
                .entry("orders".into())
                .or_default()
                .insert(b.broker.clone(), stats_of([(queue(&b.broker.name, 0), range)]));
            d.group_configs.insert(
                b.broker.clone(),
                [("g".to_owned(), SubscriptionGroupConfig::default())].into(),
            );
            d.offsets.insert(
                b.broker.clone(),
                [(("g".to_owned(), "orders".to_owned()), [(0, 100)].into())].into(),
            );
            let connection = ConsumerConnection {
                connection_set: ["c1", "c2"]
                    .into_iter()
                    .zip(6001..)
                    .map(|(client, port)| Connection {
                        client_id: client.into(),
                        client_addr: format!("127.0.0.1:{port}"),
                        version: 479,
                        ..Connection::default()
                    })
                    .collect(),
                subscription_table: [("orders".to_owned(), all_of_orders())].into(),
                ..ConsumerConnection::default()
            };
            d.connections
                .entry("g".into())
                .or_default()
                .insert(b.broker.clone(), connection);
            d.running
                .entry("g".into())
                .or_default()
                .insert(client_id.into(), Ok(client(&[&b.broker.name])));
        }
        c.snapshot.brokers = brokers;
        c.add_name_server("ns1:9876");
        c
    }

    /// One more name server that lists every broker.
    pub(super) fn add_name_server(&mut self, addr: &str) {
        self.snapshot.name_servers.push(NameServerState {
            addr: addr.into(),
            ..NameServerState::default()
        });
        self.list_everywhere();
    }

    /// One more slave, registered everywhere.
    pub(super) fn add_slave(&mut self, name: &str, number: i64) {
        let mut slave = broker(name, 10_000 + u16::try_from(number).unwrap());
        slave.broker.id = number;
        slave.ha = Seen::unasked();
        slave.topics_version = Seen::unasked();
        self.snapshot.brokers.push(slave);
        self.list_everywhere();
    }

    fn list_everywhere(&mut self) {
        let listed: Vec<Listed> = self
            .snapshot
            .brokers
            .iter()
            .map(|b| Listed {
                broker: b.broker.clone(),
                addr: b.addr.clone(),
            })
            .collect();
        for server in &mut self.snapshot.name_servers {
            let table = ClusterTable {
                listed: listed.clone(),
                live: None,
            };
            server.cluster = Seen::answered(table, NOW);
        }
        self.settle();
    }

    /// Works out the registrations anew.
    pub(super) fn settle(&mut self) {
        let servers = &self.snapshot.name_servers;
        for broker in &mut self.snapshot.brokers {
            if broker.runtime.is_failed() {
                broker.last_answer_ms = None;
            }
            broker.registrations = liveness::registrations(servers, broker, NOW);
        }
    }

    /// The name servers tell an exact age of a broker.
    pub(super) fn set_age(&mut self, name: &str, age: Duration) {
        let addr = self.broker(name).addr.clone();
        for server in &mut self.snapshot.name_servers {
            let table = server.cluster.value.as_mut().unwrap();
            table.live = Some(vec![LiveBroker {
                cluster: "c".into(),
                addr: addr.clone(),
                age,
                limit: Some(Duration::from_secs(120)),
                data_version: None,
            }]);
        }
        self.settle();
    }

    fn broker(&mut self, name: &str) -> &mut BrokerState {
        let mut brokers = self.snapshot.brokers.iter_mut();
        brokers.find(|b| b.broker.name == name).unwrap()
    }

    pub(super) fn runtime(&mut self, name: &str) -> &mut RuntimeInfo {
        self.broker(name).runtime.value.as_mut().unwrap()
    }

    pub(super) fn set_config(&mut self, name: &str, key: &str, value: &str) {
        let config = self.broker(name).config.value.as_mut().unwrap();
        config.entries.insert(key.into(), value.into());
    }

    pub(super) fn topic(&mut self, name: &str) -> &mut TopicState {
        let mut topics = self.snapshot.topics.iter_mut();
        topics.find(|t| t.name == name).unwrap()
    }

    /// Judges, and fails unless exactly these checks found something.
    pub(super) fn finds(&self, checks: &[&str]) -> Vec<Finding> {
        let found = judge_of(self);
        // What a dashboard finds is not among what it says it does not look for.
        for finding in findings(&self.snapshot, &Trends::default()) {
            assert!(!RESTING.contains(&finding.check), "{finding:?}");
        }
        let mut ids: Vec<&str> = found.iter().map(|f| f.check).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids, checks, "{found:#?}");
        found
    }
}
