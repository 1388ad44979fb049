//! Mixed clusters: a Java broker under our name server, our broker under the Java name server, Java clients on both.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::support::ports::Block;
use crate::support::session::Session;
use crate::support::{java, local, rmq, scratch, text, wait, wire};

/// What `Send` and `Receive` print of the same messages: keys, tags and MD5 of the bodies do not depend on the broker.
fn keys(lines: &[Vec<String>], column: usize) -> BTreeSet<String> {
    lines.iter().map(|line| line[column].clone()).collect()
}

fn expected_keys(count: usize) -> BTreeSet<String> {
    (0..count).map(|i| format!("K-{i} shared-{}", i % 10)).collect()
}

#[test]
fn java_broker_under_our_name_server() {
    let Some(peers) = java::peers("java_broker_under_our_name_server") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let _server = rmq::namesrv(dir.path(), ports.namesrv());
    let settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    let mut broker = peers.broker_starting(dir.path(), &settings);
    let mut session = Session::start(peers, dir.path());
    java::registered(&mut broker, &settings);

    // The topic does not exist: the first send takes TBW102's route, and the broker registers the new topic.
    let sent = session.send(&namesrv, "Orders", 40, &[]);
    assert_eq!(keys(&sent, 0).len(), 40);
    let received = session.receive(&namesrv, "Orders", "CG_ORDERS", 40, &[]);
    assert_eq!(keys(&received, 2), expected_keys(40));
    let retried = session.receive(&namesrv, "Orders", "CG_RETRY", 41, &["retry=1"]);
    assert_eq!(
        retried.iter().filter(|line| line[5] == "1").count(),
        1,
        "{retried:?}"
    );

    let clusters = session.mqadmin(&namesrv, &["clusterList"]).ok();
    let rows = text::rows(&clusters.out);
    assert_eq!(rows.len(), 1, "{clusters:#?}");
    assert_eq!(rows[0][..3], ["DefaultCluster", "broker-a", "0"], "{clusters:#?}");
    assert_eq!(rows[0][3], local(ports.broker()));
    assert_eq!(rows[0][4], "V5_3_3");

    let topics = session.mqadmin(&namesrv, &["topicList"]).ok();
    let names: BTreeSet<&str> = topics.out.iter().map(|line| line.trim()).collect();
    for name in [
        "Orders",
        "%RETRY%CG_ORDERS",
        "TBW102",
        "DefaultCluster",
        "broker-a",
        "SCHEDULE_TOPIC_XXXX",
    ] {
        assert!(names.contains(name), "{name} is missing: {topics:#?}");
    }
    let owned = session.mqadmin(&namesrv, &["topicList", "-c"]).ok();
    assert!(
        text::rows(&owned.out).iter().any(|row| row.starts_with(&[
            "DefaultCluster".into(),
            "Orders".into(),
            "CG_ORDERS".into()
        ])),
        "{owned:#?}"
    );
    let of_topic = session
        .mqadmin(&namesrv, &["topicClusterList", "-t", "Orders"])
        .ok();
    assert_eq!(of_topic.text().trim(), "DefaultCluster");

    let route = session
        .mqadmin(&namesrv, &["topicRoute", "-t", "Orders"])
        .ok()
        .text();
    assert!(
        route.contains(&format!("\"brokerAddrs\":{{0:\"{}\"", local(ports.broker()))),
        "{route}"
    );
    assert!(
        route.contains("\"readQueueNums\":8") || route.contains("\"readQueueNums\":4"),
        "{route}"
    );

    // Write permission by name server commands: the route shows 4, then 6 again.
    let wiped = session
        .mqadmin(&namesrv, &["wipeWritePerm", "-b", "broker-a"])
        .ok();
    assert!(wiped.text().contains("broker-a"), "{wiped:#?}");
    let perm = |wanted: &str| wire::route(&namesrv, "Orders").is_some_and(|r| r.contains(wanted));
    assert!(perm("\"perm\":4"), "{:?}", wire::route(&namesrv, "Orders"));
    session
        .mqadmin(&namesrv, &["addWritePerm", "-b", "broker-a"])
        .ok();
    assert!(perm("\"perm\":6"), "{:?}", wire::route(&namesrv, "Orders"));

    session
        .mqadmin(
            &namesrv,
            &["updateKvConfig", "-s", "NS", "-k", "colour", "-v", "blue"],
        )
        .ok();
    let kv = wire::ask(
        &namesrv,
        101,
        serde_json::json!({"namespace": "NS", "key": "colour"}),
    )
    .expect("it answers");
    assert_eq!(kv.fields["value"], "blue", "{kv:?}");
    session
        .mqadmin(&namesrv, &["deleteKvConfig", "-s", "NS", "-k", "colour"])
        .ok();
    let config = session.mqadmin(&namesrv, &["getNamesrvConfig"]).ok();
    assert!(config.text().contains("listenPort"), "{config:#?}");

    // The kernel closes a killed broker's connection, and the name server acts on that, not on the 120 s timeout.
    broker.kill();
    wait::until_true(
        "the killed broker leaves the route",
        Duration::from_secs(3),
        || wire::route(&namesrv, "Orders").is_none() && !wire::is_registered(&namesrv, "broker-a"),
    );
    let gone = session.mqadmin(&namesrv, &["topicRoute", "-t", "Orders"]);
    assert!(gone.everything().contains("CODE: 17"), "{gone:#?}");
}

#[test]
fn our_broker_under_the_java_name_server() {
    let Some(peers) = java::peers("our_broker_under_the_java_name_server") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let mut session = Session::start(peers, dir.path());
    let mut second = Session::start(peers, &dir.path().join("second"));
    let _server = peers.namesrv(dir.path(), ports.namesrv());
    // A name server that is down costs nothing: not the start, not a new topic's registration, not the stop.
    let both = format!("{};{namesrv}", local(ports.dead()));
    let settings = java::broker_settings(dir.path(), &both, ports.broker());
    let mut broker = rmq::broker(dir.path(), &both, &settings);

    let clusters = session.mqadmin(&namesrv, &["clusterList"]).ok();
    let rows = text::rows(&clusters.out);
    assert_eq!(rows.len(), 1, "{clusters:#?}");
    assert_eq!(
        rows[0][..4],
        ["DefaultCluster", "broker-a", "0", &local(ports.broker())],
        "{clusters:#?}"
    );

    // Created by the first send from TBW102, and registered at once: the same client's second send needs its route.
    let sent = session.send(&namesrv, "AutoMade", 40, &[]);
    let route = session
        .mqadmin(&namesrv, &["topicRoute", "-t", "AutoMade"])
        .ok()
        .text();
    assert!(route.contains("\"brokerName\":\"broker-a\""), "{route}");
    // Java's client asks for 4 queues (defaultTopicQueueNums) at most, whatever TBW102 has.
    assert!(route.contains("\"writeQueueNums\":4"), "{route}");
    assert!(route.contains("\"perm\":6"), "{route}");

    let received = session.receive(&namesrv, "AutoMade", "CG_AUTO", 40, &[]);
    assert_eq!(keys(&received, 2), expected_keys(40));
    let dumped = session.dump(&namesrv, "AutoMade");
    assert_eq!(dumped.len(), 40);
    let ids: BTreeSet<&str> = dumped
        .iter()
        .filter_map(|line| line.rsplit('\t').next())
        .collect();
    assert_eq!(
        ids,
        sent.iter().map(|line| line[3].as_str()).collect(),
        "offset ids of the acks and of the pulls"
    );

    let only_a = session.receive(&namesrv, "AutoMade", "CG_TAG", 14, &["tag=TagA"]);
    assert!(only_a.iter().all(|line| line[3] == "TagA"), "{only_a:?}");
    // 0, 3, .. 39: i % 3 == 0
    assert_eq!(only_a.len(), 14);

    // A second group takes up its offsets where it left them.
    session.send(&namesrv, "AutoMade", 10, &["first=40"]);
    let rest = session.receive(&namesrv, "AutoMade", "CG_AUTO", 10, &["linger=300"]);
    assert_eq!(
        keys(&rest, 2),
        (40..50).map(|i| format!("K-{i} shared-{}", i % 10)).collect()
    );

    online_consumers(&mut session, &mut second, &namesrv, &local(ports.broker()));

    // A clean stop takes the broker out of the route at once, and is quick.
    let (status, took) = broker.process.terminate(Duration::from_secs(10));
    assert!(status.success(), "{status}: {}", broker.process.output());
    assert!(took < Duration::from_secs(2), "it took {took:?}");
    wait::until_true(
        "the stopped broker leaves the route",
        Duration::from_secs(3),
        || !wire::is_registered(&namesrv, "broker-a"),
    );
}

/// What the tool says of a group whose consumer is online, and how a message reaches it.
fn online_consumers(session: &mut Session, second: &mut Session, namesrv: &str, broker: &str) {
    let consumers = |wanted: usize| {
        wait::until_true(&format!("{wanted} consumers"), Duration::from_secs(10), || {
            let answer = wire::ask(broker, 38, serde_json::json!({"consumerGroup": "CG_TWO"}));
            answer.is_ok_and(|a| String::from_utf8_lossy(&a.body).matches("receive-").count() == wanted)
        });
    };
    // The 50 messages that are there, and ten more later.
    let mut first = second.begin(&["Receive", namesrv, "AutoMade", "CG_TWO", "60", "30"]);
    first.wait_for_lines(50);
    consumers(1);
    let connection = session
        .mqadmin(namesrv, &["consumerConnection", "-g", "CG_TWO"])
        .ok();
    assert_eq!(
        text::value(&connection.out, "ConsumeType"),
        Some("CONSUME_PASSIVELY")
    );
    assert_eq!(text::value(&connection.out, "MessageModel"), Some("CLUSTERING"));
    assert_eq!(
        text::value(&connection.out, "ConsumeFromWhere"),
        Some("CONSUME_FROM_FIRST_OFFSET")
    );
    let rows = text::rows(&connection.out);
    let client = &rows[0];
    assert!(
        client[0].contains("@receive-") && client[1].starts_with("127.0.0.1:"),
        "{client:?}"
    );
    assert_eq!(client[2..4], ["JAVA", "V5_3_3"]);
    assert!(
        rows.contains(&vec!["AutoMade".to_owned(), "*".to_owned()]),
        "{rows:?}"
    );
    let progress = text::rows(&session.mqadmin(namesrv, &["consumerProgress"]).ok().out);
    let group = progress.iter().find(|row| row[0] == "CG_TWO").expect("the group");
    assert_eq!(group[1..5], ["1", "V5_3_3", "PUSH", "CLUSTERING"]);
    session.send(namesrv, "AutoMade", 10, &["first=50"]);
    let received = first.finish().ok().columns();
    assert_eq!(keys(&received, 2), expected_keys(60));
    consumers(0);
}
