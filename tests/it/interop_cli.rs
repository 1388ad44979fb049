//! Our command line against a Java cluster, compared with what `mqadmin` prints about it.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::java::Cluster;
use crate::support::ports::Block;
use crate::support::rmq::Ran;
use crate::support::session::Session;
use crate::support::{java, local, rmq, scratch, text, wire};

/// The rows of `-o json`, each as its values of `keys`.
fn items(ran: &Ran, keys: &[&str]) -> Vec<Vec<String>> {
    let json = ran.json();
    let rows = json["items"]
        .as_array()
        .unwrap_or_else(|| panic!("no items: {ran:?}"));
    let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| keys.iter().map(|key| plain(&row[key])).collect())
        .collect();
    rows.sort();
    rows
}

#[test]
fn a_java_name_server_that_wants_tls() {
    let Some(peers) = java::peers("a_java_name_server_that_wants_tls") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    // In its test mode it makes a certificate up.
    let wants = ["-Dtls.test.mode.enable=true", "-Dtls.server.mode=enforcing"];
    let _namesrv = peers.namesrv_with(dir.path(), ports.namesrv(), &wants);
    let run = |args: &[&str]| rmq::run(dir.path(), &local(ports.namesrv()), args);
    let put = run(&["kv", "set", "NS", "K", "over TLS", "--yes", "--tls-insecure"]);
    assert_eq!(put.code, 0, "{put:?}");
    let got = run(&["kv", "get", "NS", "K", "-o", "json", "--tls-insecure"]);
    assert!(got.out.contains("over TLS"), "{got:?}");
    for refused in [&["kv", "get", "NS", "K"][..], &["kv", "get", "NS", "K", "--tls"]] {
        let ran = run(refused);
        assert_eq!(ran.code, 3, "{ran:?}");
    }
}

#[test]
fn our_commands_on_a_java_cluster() {
    let Some(peers) = java::peers("our_commands_on_a_java_cluster") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let mut session = Session::start(peers, dir.path());
    let cluster = Cluster::start(peers, dir.path(), &ports);
    let namesrv = cluster.namesrv_address.clone();
    let broker = cluster.broker_address.clone();
    // A dead name server in the list costs a warning, not the answer.
    let both = format!("{};{namesrv}", local(ports.dead()));
    let home = dir.path().join("rmq-home");
    std::fs::create_dir_all(&home).expect("a directory");
    let rmq = |args: &[&str]| rmq::run(&home, &both, args);

    let created = rmq(&["topic", "create", "Orders", "--queues", "8", "--yes"]);
    assert_eq!(created.code, 0, "{created:?}");
    wire::wait_for_route(&namesrv, "Orders", "\"writeQueueNums\":8");
    session.send(&namesrv, "Orders", 80, &[]);
    session.begin_group(&namesrv, &cluster.broker_address, "CG_ORDERS", "Orders");
    session.receive(&namesrv, "Orders", "CG_ORDERS", 80, &[]);
    let more = session.send(&namesrv, "Orders", 16, &["first=80"]);

    let clusters = rmq(&["cluster", "list", "-o", "json"]);
    assert_eq!(
        items(&clusters, &["name", "brokers", "masters", "slaves", "state"]),
        [["DefaultCluster", "1", "1", "0", "ok"]]
    );
    assert!(
        clusters.err.contains(&local(ports.dead())),
        "no word of the dead name server: {clusters:?}"
    );
    let listed = text::rows(&session.mqadmin(&namesrv, &["clusterList"]).ok().out);
    assert_eq!(
        items(
            &rmq(&["broker", "list", "-o", "json"]),
            &["cluster", "name", "id", "addr", "version", "state"]
        ),
        [[
            &listed[0][0],
            &listed[0][1],
            &listed[0][2],
            &listed[0][3],
            &listed[0][4],
            "ok"
        ]],
    );

    let topics = session.mqadmin(&namesrv, &["topicList"]).ok();
    let topics: BTreeSet<String> = topics
        .out
        .iter()
        .map(|line| line.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let ours = rmq(&["topic", "list", "--all", "-o", "name"]);
    assert_eq!(
        ours.out.lines().map(str::to_owned).collect::<BTreeSet<_>>(),
        topics,
        "{ours:?}"
    );
    assert_eq!(rmq(&["topic", "list", "-o", "name"]).out.trim(), "Orders");

    let status = text::rows(
        &session
            .mqadmin(&namesrv, &["topicStatus", "-t", "Orders"])
            .ok()
            .out,
    );
    let status: Vec<Vec<String>> = status.into_iter().filter(|row| row[0] == "broker-a").collect();
    assert_eq!(
        items(
            &rmq(&["topic", "status", "Orders", "-o", "json"]),
            &["broker", "queue", "min", "max"]
        ),
        text::columns(&status, &[0, 1, 2, 3])
    );

    let progress = text::rows(
        &session
            .mqadmin(&namesrv, &["consumerProgress", "-g", "CG_ORDERS"])
            .ok()
            .out,
    );
    let progress: Vec<Vec<String>> = progress.into_iter().filter(|row| row[0] == "Orders").collect();
    let lag = rmq(&["group", "lag", "CG_ORDERS", "-t", "Orders", "-o", "json"]);
    assert_eq!(
        items(
            &lag,
            &["topic", "broker", "queue", "max", "committed", "lag", "inflight"]
        ),
        text::columns(&progress, &[0, 1, 2, 3, 4, 5, 6])
    );
    assert_eq!(lag.json()["summary"]["total_lag"], 16, "{lag:?}");
    assert_eq!(lag.json()["summary"]["state"], "offline", "{lag:?}");
    let absent = rmq(&["group", "lag", "CG_ORDER", "-o", "json"]);
    assert_eq!(absent.code, 4, "{absent:?}");
    assert!(
        absent.err.contains("CG_ORDERS"),
        "the like name is not offered: {absent:?}"
    );

    // The permission and nothing else: the queue numbers stay uneven.
    session
        .mqadmin(
            &namesrv,
            &["updateTopic", "-b", &broker, "-t", "Orders", "-r", "9", "-w", "7"],
        )
        .ok();
    wire::wait_for_route(&namesrv, "Orders", "\"writeQueueNums\":7");
    let dry = rmq(&["topic", "update", "Orders", "--perm", "4", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    let refused = rmq(&["topic", "update", "Orders", "--perm", "4"]);
    assert_eq!(
        refused.code, 13,
        "a change without a terminal and without --yes: {refused:?}"
    );
    let route = wire::route(&namesrv, "Orders").expect("a route");
    assert!(route.contains("\"perm\":6"), "changed without consent: {route}");
    let updated = rmq(&["topic", "update", "Orders", "--perm", "4", "--yes"]);
    assert_eq!(updated.code, 0, "{updated:?}");
    wire::wait_for_route(&namesrv, "Orders", "\"perm\":4");
    let route = session
        .mqadmin(&namesrv, &["topicRoute", "-t", "Orders"])
        .ok()
        .text();
    assert!(
        route.contains("\"readQueueNums\":9") && route.contains("\"writeQueueNums\":7"),
        "{route}"
    );
    assert_eq!(
        items(
            &rmq(&["topic", "route", "Orders", "-o", "json"]),
            &["broker", "read_queues", "write_queues", "perm_bits"]
        ),
        [["broker-a", "9", "7", "4"]]
    );
    let bad = rmq(&["topic", "update", "Orders", "--perm", "9", "--yes"]);
    assert_eq!(bad.code, 2, "{bad:?}");
    let nameless = rmq(&["topic", "update", "--perm", "6", "--yes"]);
    assert_eq!(nameless.code, 2, "{nameless:?}");
    assert_eq!(
        rmq(&["topic", "update", "Orders", "--perm", "+W", "--yes"]).code,
        0
    );
    wire::wait_for_route(&namesrv, "Orders", "\"perm\":6");
    assert_eq!(rmq(&["topic", "route", "Absent"]).code, 4);

    let (unique, offset_id) = (more[5][2].as_str(), more[5][3].as_str());
    for args in [
        ["message", "get", offset_id, "--topic", "Orders", "-o", "wide"],
        ["message", "get", unique, "--topic", "Orders", "-o", "wide"],
        ["message", "find", "--topic", "Orders", "--key=K-85", "-o", "wide"],
    ] {
        let found = rmq(&args);
        let whole = found.out.contains("K-85") && found.out.contains(unique);
        assert!(found.code == 0 && whole, "{args:?}: {found:?}");
    }
    assert_eq!(
        rmq(&["message", "find", "--topic", "Orders", "--key", "absent"]).code,
        4
    );
    let sent = rmq(&[
        "message",
        "send",
        "--topic",
        "Orders",
        "--body",
        "from the command line",
        "--key",
        "cli",
        "--tag",
        "TagCli",
    ]);
    assert_eq!(sent.code, 0, "{sent:?}");
    let found = session
        .mqadmin(&namesrv, &["queryMsgByKey", "-t", "Orders", "-k", "cli"])
        .ok();
    assert_eq!(text::rows(&found.out).len(), 1, "{found:#?}");
    let received = session.receive(&namesrv, "Orders", "CG_CLI", 1, &["tag=TagCli"]);
    assert_eq!(received[0][2..4], ["cli", "TagCli"]);

    let set = rmq(&[
        "broker",
        "set-config",
        "broker-a",
        "autoCreateTopicEnable=false",
        "--yes",
    ]);
    assert_eq!(set.code, 0, "{set:?}");
    let config = session
        .mqadmin(&namesrv, &["getBrokerConfig", "-b", &broker])
        .ok();
    let line = config
        .out
        .iter()
        .find(|line| line.starts_with("autoCreateTopicEnable"));
    assert!(
        line.is_some_and(|line| line.trim_end().ends_with("false")),
        "{line:?}"
    );

    // One of the two name servers is gone, and what it has stays.
    let deleted = rmq(&["topic", "delete", "Orders", "--force", "--yes"]);
    assert_eq!(deleted.code, 7, "{deleted:?}");
    assert!(deleted.err.contains("succeeded for 2 of 3 steps"), "{deleted:?}");
    assert!(wire::route(&namesrv, "Orders").is_none());

    // Nothing of the sweep waits for a broker that is gone.
    drop(cluster.broker);
    let none = rmq(&["broker", "list", "-o", "json"]);
    assert_ne!(none.code, 1, "{none:?}");
}
