//! The rules of the route table, with a clock made of numbers.

use super::routes::*;
use crate::protocol::body::{QueueData, TopicConfig, TopicConfigTable, TopicQueueMappingInfo};
use crate::protocol::model::{DataVersion, Perm};

fn version(counter: i64) -> DataVersion {
    DataVersion {
        counter,
        state_version: 0,
        timestamp: 1,
    }
}

fn topic(name: &str, perm: i32) -> TopicConfig {
    TopicConfig {
        topic_name: name.into(),
        perm: Perm(perm),
        read_queue_nums: 8,
        write_queue_nums: 4,
        ..TopicConfig::default()
    }
}

fn table(counter: i64, topics: &[TopicConfig]) -> TopicConfigTable {
    TopicConfigTable {
        data_version: version(counter),
        topic_config_table: topics.iter().map(|t| (t.topic_name.clone(), t.clone())).collect(),
        ..TopicConfigTable::default()
    }
}

/// `name` with `id` at `name-id:1`, two topics, no acting master.
fn broker(name: &str, id: i64) -> Registration {
    Registration {
        cluster: "c".into(),
        addr: format!("{name}-{id}:1"),
        name: name.into(),
        id,
        ha_addr: Some(format!("{name}-{id}:2")),
        acting_master: Some(false),
        channel: id as u64 + 100,
        topics: table(1, &[topic("t1", 6), topic("t2", 6)]),
        ..Registration::default()
    }
}

fn addr(name: &str, id: i64) -> BrokerAddr {
    BrokerAddr {
        cluster: "c".into(),
        addr: format!("{name}-{id}:1"),
    }
}

fn leaving(name: &str, id: i64) -> Leaving {
    Leaving {
        broker: addr(name, id),
        name: name.into(),
        id,
    }
}

fn with(brokers: &[Registration]) -> RouteTable {
    let mut routes = RouteTable::default();
    for broker in brokers {
        let done = routes.register(broker.clone(), false, 1000);
        assert!(matches!(done, Registered::Done { .. }), "{done:?}");
    }
    routes
}

fn perm(routes: &RouteTable, topic: &str, name: &str) -> Option<i32> {
    let route = routes.route(topic, false)?;
    let queue = route.queue_datas.iter().find(|q| q.broker_name == name);
    queue.map(|q| q.perm.0)
}

#[test]
fn a_route_has_the_queues_and_addresses_of_every_broker() {
    let routes = with(&[broker("b", 0), broker("a", 0), broker("a", 1)]);
    let route = routes.route("t1", false).unwrap();
    let names: Vec<&str> = route
        .broker_datas
        .iter()
        .map(|b| b.broker_name.as_str())
        .collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(route.broker_datas[0].broker_addrs[&1], "a-1:1");
    assert_eq!(route.broker_datas[0].cluster, "c");
    assert_eq!(route.queue_datas.len(), 2);
    let queue = &route.queue_datas[0];
    assert_eq!(
        (queue.read_queue_nums, queue.write_queue_nums, queue.perm),
        (8, 4, Perm(6))
    );
    assert_eq!(route.order_topic_conf, None);
    assert!(route.filter_server_table.is_empty());
    assert_eq!(routes.route("t9", false), None);
}

#[test]
fn a_first_registration_with_one_topic_is_refused_and_leaves_nothing() {
    let mut routes = RouteTable::default();
    let one = Registration {
        topics: table(1, &[topic("t1", 6)]),
        ..broker("a", 0)
    };
    assert_eq!(routes.register(one.clone(), false, 0), Registered::Incomplete);
    assert!(routes.cluster_info(None).broker_addr_table.is_empty());
    assert!(routes.cluster_info(None).cluster_addr_table.is_empty());
    // A known broker may send one topic; an empty table is fine at any time.
    routes.register(broker("a", 0), false, 0);
    assert!(matches!(routes.register(one, false, 0), Registered::Done { .. }));
    let none = Registration {
        topics: TopicConfigTable::default(),
        ..broker("b", 0)
    };
    assert!(matches!(routes.register(none, false, 0), Registered::Done { .. }));
}

#[test]
fn topics_are_taken_over_only_with_another_data_version() {
    let mut routes = with(&[broker("a", 0)]);
    let mut again = broker("a", 0);
    again.topics = table(1, &[topic("t1", 4), topic("t3", 6)]);
    routes.register(again.clone(), false, 0);
    assert_eq!(perm(&routes, "t1", "a"), Some(6), "same version, known topic");
    assert_eq!(perm(&routes, "t3", "a"), Some(6), "same version, missing topic");
    again.topics = table(2, &[topic("t1", 4)]);
    routes.register(again, false, 0);
    assert_eq!(perm(&routes, "t1", "a"), Some(4));
    assert_eq!(perm(&routes, "t2", "a"), Some(6), "topics not listed stay");
}

#[test]
fn a_registration_may_replace_the_topics_of_its_set() {
    let mut routes = with(&[broker("a", 0), broker("b", 0)]);
    let mut fewer = broker("a", 0);
    fewer.topics = table(2, &[topic("t1", 6), topic("t4", 6)]);
    routes.register(fewer.clone(), true, 0);
    assert_eq!(perm(&routes, "t2", "a"), None);
    assert_eq!(perm(&routes, "t2", "b"), Some(6));
    // Not with static topics, as in Java.
    let mapping = TopicQueueMappingInfo {
        bname: "a".into(),
        topic: "t1".into(),
        ..TopicQueueMappingInfo::default()
    };
    fewer.topics = table(3, &[topic("t1", 6)]);
    fewer.topics.topic_queue_mapping_info_map = Some([("t1".to_owned(), mapping)].into());
    routes.register(fewer, true, 0);
    assert_eq!(perm(&routes, "t4", "a"), Some(6));
    let mappings = routes
        .route("t1", false)
        .unwrap()
        .topic_queue_mapping_by_broker
        .unwrap();
    assert_eq!(mappings["a"].topic, "t1");
    // A topic that is made anew under the name of a deleted one is not static.
    routes.delete_topic("t1", Some("c"));
    routes.register(broker("a", 0), false, 0);
    let route = routes.route("t1", false).unwrap();
    assert_eq!(route.topic_queue_mapping_by_broker, None);
    assert_eq!(
        routes.route("t4", false).unwrap().topic_queue_mapping_by_broker,
        None
    );
}

/// Clients go by the mapping alone: one of a broker that is gone would make a topic static for ever.
#[test]
fn the_mapping_of_a_broker_that_is_gone_goes_with_the_topic() {
    let mut routes = with(&[]);
    for name in ["a", "b"] {
        let mut with_mapping = broker(name, 0);
        // An unknown broker does not begin with a single topic.
        with_mapping.topics = table(3, &[topic("t1", 6), topic("t2", 6)]);
        let mapping = TopicQueueMappingInfo {
            bname: name.into(),
            topic: "t1".into(),
            ..TopicQueueMappingInfo::default()
        };
        with_mapping.topics.topic_queue_mapping_info_map = Some([("t1".to_owned(), mapping)].into());
        let done = routes.register(with_mapping, false, 0);
        assert!(matches!(done, Registered::Done { .. }), "{done:?}");
    }
    routes.unregister(&[leaving("b", 0)]);
    routes.delete_topic("t1", Some("c"));
    let mut anew = broker("a", 0);
    anew.topics = table(4, &[topic("t1", 6)]);
    routes.register(anew, false, 0);
    let route = routes.route("t1", false).unwrap();
    assert_eq!(route.topic_queue_mapping_by_broker, None);
}

#[test]
fn a_slave_learns_its_master_and_brings_no_topics() {
    let mut routes = with(&[broker("a", 0)]);
    let mut slave = broker("a", 1);
    slave.topics = table(9, &[topic("t1", 2), topic("t9", 6)]);
    let Registered::Done { master, notice } = routes.register(slave, false, 0) else {
        panic!("not done");
    };
    assert_eq!(master, Some(("a-0:1".into(), Some("a-0:2".into()))));
    assert_eq!(notice, None);
    assert_eq!(perm(&routes, "t1", "a"), Some(6));
    assert_eq!(routes.route("t9", false), None);
}

#[test]
fn a_slave_without_master_brings_topics_unless_it_is_old() {
    let mut old = broker("a", 1);
    old.acting_master = None;
    assert_eq!(with(&[old]).route("t1", false), None);
    let routes = with(&[broker("a", 1)]);
    assert_eq!(perm(&routes, "t1", "a"), Some(6));
    assert!(!routes.route("t1", false).unwrap().broker_datas[0].enable_acting_master);
    let mut acting = broker("a", 1);
    acting.acting_master = Some(true);
    let routes = with(&[acting]);
    assert_eq!(
        perm(&routes, "t1", "a"),
        Some(4),
        "an acting master cannot be written to"
    );
    assert!(routes.route("t1", false).unwrap().broker_datas[0].enable_acting_master);
}

#[test]
fn an_acting_master_is_shown_as_id_0_once_its_queues_cannot_be_written() {
    let (mut master, mut slave) = (broker("a", 0), broker("a", 2));
    (master.acting_master, slave.acting_master) = (Some(true), Some(true));
    let mut routes = with(&[master.clone(), slave]);
    let notices = routes.unregister(&[leaving("a", 0)]);
    assert_eq!(
        perm(&routes, "t1", "a"),
        Some(4),
        "write permission goes with the master"
    );
    let change = MinIdChange {
        min_id: 2,
        min_addr: "a-2:1".into(),
        offline_addr: Some("a-0:1".into()),
        ha_addr: None,
        notify: vec!["a-2:1".into()],
    };
    assert_eq!(notices, [change]);
    let ids = |acting, topic: &str, routes: &RouteTable| {
        let route = routes.route(topic, acting).unwrap();
        route.broker_datas[0]
            .broker_addrs
            .keys()
            .copied()
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(true, "t1", &routes), [0]);
    assert_eq!(ids(false, "t1", &routes), [2]);
    assert_eq!(
        routes.cluster_info(None).broker_addr_table["a"].broker_addrs[&2],
        "a-2:1"
    );
    // The master comes back: its permission as well.
    let Registered::Done { notice, .. } = routes.register(master, false, 0) else {
        panic!("not done");
    };
    assert_eq!(notice.unwrap().notify, ["a-2:1"]);
    assert_eq!(perm(&routes, "t1", "a"), Some(6));
    assert_eq!(ids(true, "t1", &routes), [0, 2]);
}

#[test]
fn an_address_has_one_id() {
    let mut routes = with(&[broker("a", 0), broker("a", 1)]);
    let mut promoted = broker("a", 0);
    promoted.addr = "a-1:1".into();
    promoted.topics.data_version.state_version = 1;
    routes.register(promoted, false, 0);
    let set = &routes.cluster_info(None).broker_addr_table["a"];
    assert_eq!(set.broker_addrs, [(0, "a-1:1".to_owned())].into());
}

#[test]
fn an_id_held_with_a_newer_state_is_not_taken() {
    let mut holder = broker("a", 0);
    holder.topics.data_version.state_version = 5;
    let mut routes = with(&[holder]);
    let mut other = broker("a", 0);
    other.addr = "x:1".into();
    other.topics.data_version.state_version = 4;
    assert_eq!(routes.register(other.clone(), false, 0), Registered::Outdated);
    assert_eq!(
        routes.cluster_info(None).broker_addr_table["a"].broker_addrs[&0],
        "a-0:1"
    );
    other.topics.data_version.state_version = 5;
    assert!(matches!(
        routes.register(other, false, 0),
        Registered::Done { .. }
    ));
    assert_eq!(
        routes.cluster_info(None).broker_addr_table["a"].broker_addrs[&0],
        "x:1"
    );
}

#[test]
fn a_silent_broker_expires_after_120_s_or_its_own_limit() {
    let mut quick = broker("b", 0);
    quick.timeout_ms = Some(10_000);
    let mut routes = with(&[broker("a", 0), quick]);
    let names = |routes: &RouteTable, now| {
        let mut names: Vec<String> = routes.expired(now).into_iter().map(|e| e.leaving.name).collect();
        names.sort();
        names
    };
    assert!(
        names(&routes, 11_000).is_empty(),
        "exactly at the limit it is still there"
    );
    assert_eq!(names(&routes, 11_001), ["b"]);
    routes.touch(&addr("b", 0), 11_000);
    assert!(names(&routes, 21_000).is_empty());
    assert!(names(&routes, 121_000).contains(&"b".to_owned()));
    assert_eq!(names(&routes, 121_001), ["a", "b"]);
    let expired = routes.expired(121_001);
    assert!(
        expired
            .iter()
            .any(|e| e.channel == 100 && e.timeout_ms == DEFAULT_TIMEOUT_MS)
    );
    // A sign of life of an unknown broker is no registration.
    routes.touch(&addr("z", 0), 0);
    assert_eq!(routes.version(&addr("z", 0)), None);
}

#[test]
fn the_last_address_of_a_set_takes_its_topics_and_its_cluster_along() {
    let mut routes = with(&[broker("a", 0), broker("a", 1), broker("b", 0)]);
    routes.unregister(&[leaving("a", 0)]);
    assert_eq!(perm(&routes, "t1", "a"), Some(6), "a slave is left");
    routes.unregister(&[leaving("a", 1)]);
    assert_eq!(perm(&routes, "t1", "a"), None);
    let info = routes.cluster_info(None);
    assert_eq!(info.cluster_addr_table["c"], ["b".to_owned()].into());
    routes.unregister(&[leaving("b", 0), leaving("unknown", 0)]);
    assert_eq!(routes.route("t1", false), None);
    assert!(routes.all_topics().topic_list.is_empty());
    let info = routes.cluster_info(Some(5));
    assert!(info.cluster_addr_table.is_empty() && info.broker_addr_table.is_empty());
    assert!(info.rmq_live_table.unwrap().is_empty());
}

#[test]
fn all_brokers_of_a_closed_connection_leave() {
    let mut second = broker("b", 0);
    second.channel = 100;
    let routes = with(&[broker("a", 0), second, broker("c", 1)]);
    let mut gone: Vec<_> = routes.on_channel(100).into_iter().map(|e| e.leaving).collect();
    gone.sort_by(|a, b| a.name.cmp(&b.name));
    assert_eq!(gone, [leaving("a", 0), leaving("b", 0)]);
}

#[test]
fn a_wiped_write_permission_lasts_until_the_data_version_changes() {
    let mut routes = with(&[broker("a", 0), broker("b", 0)]);
    assert_eq!(routes.change_perm("a", |p| p.without(Perm::WRITE)), 2);
    assert_eq!(routes.change_perm("unknown", |p| p), 0);
    routes.register(broker("a", 0), false, 0);
    assert_eq!(
        (perm(&routes, "t1", "a"), perm(&routes, "t1", "b")),
        (Some(4), Some(6))
    );
    let mut changed = broker("a", 0);
    changed.topics = table(2, &[topic("t1", 7), topic("t2", 4)]);
    routes.register(changed, false, 0);
    assert_eq!(perm(&routes, "t1", "a"), Some(7));
    assert_eq!(routes.change_perm("a", |_| Perm::READ_WRITE), 2);
    assert_eq!(
        (perm(&routes, "t1", "a"), perm(&routes, "t2", "a")),
        (Some(6), Some(6))
    );
}

#[test]
fn one_topic_is_registered_and_deleted_by_name() {
    let mut other = broker("o", 0);
    other.cluster = "other".into();
    let mut routes = with(&[broker("a", 0), other]);
    let queue = |name: &str| QueueData {
        broker_name: name.into(),
        ..QueueData::default()
    };
    assert!(!routes.register_topic("n", vec![queue("a"), queue("unknown")]));
    assert_eq!(routes.route("n", false), None);
    assert!(routes.register_topic("n", vec![queue("a"), queue("o")]));
    assert_eq!(routes.route("n", false).unwrap().queue_datas.len(), 2);
    routes.delete_topic("n", Some("unknown"));
    routes.delete_topic("n", Some("c"));
    assert_eq!(routes.route("n", false).unwrap().queue_datas[0].broker_name, "o");
    routes.delete_topic("n", Some("other"));
    assert_eq!(routes.route("n", false), None);
    routes.delete_topic("t1", None);
    routes.delete_topic("t1", None);
    assert_eq!(routes.route("t1", false), None);
}

#[test]
fn lists_of_topics() {
    let mut units = broker("u", 0);
    units.cluster = "units".into();
    let flagged = |name: &str, flag| TopicConfig {
        topic_sys_flag: flag,
        ..topic(name, 6)
    };
    units.topics = table(1, &[flagged("u1", 1), flagged("u2", 2), flagged("u3", 3)]);
    let routes = with(&[broker("a", 0), units]);
    let names = |list: crate::protocol::body::TopicList| list.topic_list.into_iter().collect::<Vec<_>>();
    assert_eq!(names(routes.all_topics()), ["t1", "t2", "u1", "u2", "u3"]);
    assert_eq!(names(routes.topics_of_cluster("c")), ["t1", "t2"]);
    assert!(names(routes.topics_of_cluster("unknown")).is_empty());
    assert_eq!(names(routes.unit_topics()), ["u1", "u3"]);
    assert_eq!(names(routes.unit_sub_topics()), ["u2", "u3"]);
    assert_eq!(names(routes.unit_sub_ununit_topics()), ["u2"]);
    assert_eq!(routes.system_topics().broker_addr.as_deref(), Some("a-0:1"));
    assert_eq!(names(routes.system_topics()), ["a", "c", "u", "units"]);
}

#[test]
fn a_zone_keeps_its_own_sets_and_those_without_master() {
    let zoned = |name, id, zone: &str| Registration {
        zone: Some(zone.into()),
        filter_servers: Some(vec![format!("f-{name}:1")]),
        ..broker(name, id)
    };
    let routes = with(&[
        zoned("a", 0, "East"),
        zoned("b", 0, "west"),
        zoned("s", 1, "west"),
        broker("n", 0),
    ]);
    let mut route = routes.route("t1", false).unwrap();
    assert_eq!(route.filter_server_table.len(), 3);
    keep_zone(&mut route, "east");
    let sets: Vec<&str> = route
        .broker_datas
        .iter()
        .map(|b| b.broker_name.as_str())
        .collect();
    let queues: Vec<&str> = route.queue_datas.iter().map(|b| b.broker_name.as_str()).collect();
    assert_eq!(sets, ["a", "s"]);
    assert_eq!(queues, ["a", "s"]);
    assert_eq!(
        route.filter_server_table.keys().collect::<Vec<_>>(),
        ["a-0:1", "s-1:1"]
    );
}

#[test]
fn the_live_table_is_exact() {
    let mut routes = with(&[broker("a", 0)]);
    routes.touch(&addr("a", 0), 4000);
    let info = routes.cluster_info(Some(5000));
    let live = &info.rmq_live_table.unwrap()["a-0:1"];
    assert_eq!(
        (
            live.broker_name.as_str(),
            live.broker_id,
            live.cluster_name.as_str()
        ),
        ("a", 0, "c")
    );
    assert_eq!(
        (live.last_update_timestamp, live.heartbeat_timeout_millis),
        (4000, 120_000)
    );
    assert_eq!(live.data_version, version(1));
    assert_eq!(info.rmq_now, Some(5000));
    assert!(info.rmq_version.is_some());
    let plain = routes.cluster_info(None);
    assert_eq!(
        (plain.rmq_live_table, plain.rmq_now, plain.rmq_version),
        (None, None, None)
    );
}

#[test]
fn a_changed_version_is_noticed() {
    let routes = with(&[broker("a", 0)]);
    assert!(!routes.is_changed(&addr("a", 0), version(1)));
    assert!(routes.is_changed(&addr("a", 0), version(2)));
    assert!(routes.is_changed(&addr("z", 0), version(1)));
    assert_eq!(routes.version(&addr("a", 0)), Some(version(1)));
}
