//! Our workflows on offsets and queues against Java's servers and clients.

use crate::support::java::{self, Cluster};
use crate::support::ports::Block;
use crate::support::session::Session;
use crate::support::{rmq, scratch, wait, wire};
use std::time::Duration;

/// A preview equals what a Java consumer then gets again, offset 0 is set (F5), and the undo line restores.
#[test]
fn a_java_group_is_reset_on_a_java_broker() {
    let Some(peers) = java::peers("a_java_group_is_reset_on_a_java_broker") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let mut session = Session::start(peers, dir.path());
    let cluster = Cluster::start(peers, dir.path(), &ports);
    let namesrv = cluster.namesrv_address.clone();
    let home = dir.path().join("rmq-home");
    std::fs::create_dir_all(&home).expect("a directory");
    let rmq = |line: &str| rmq::run(&home, &namesrv, &line.split(' ').collect::<Vec<_>>());
    let good = |line: &str| {
        let ran = rmq(line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran
    };
    good("topic create Orders --queues 4 --yes");
    wire::wait_for_route(&namesrv, "Orders", "\"writeQueueNums\":4");
    session.send(&namesrv, "Orders", 40, &[]);
    session.begin_group(&namesrv, &cluster.broker_address, "CG", "Orders");
    session.receive(&namesrv, "Orders", "CG", 40, &[]);

    let committed = || -> Vec<i64> {
        let rows = good("offset get CG --topic Orders -o json").json();
        let rows = rows["items"].as_array().cloned().unwrap_or_default();
        rows.iter()
            .map(|r| r["committed"].as_i64().unwrap_or(-1))
            .collect()
    };
    let read = committed();
    assert_eq!(read.iter().sum::<i64>(), 40, "{read:?}");
    let preview = good("group reset CG --topic Orders --to 0 -o json").json();
    assert_eq!(preview["summary"]["replays"], 40, "{preview}");
    let moved = good("group reset CG --topic Orders --to 0 --execute --yes=CG");
    assert_eq!(committed(), [0, 0, 0, 0]);
    let undo = moved
        .out
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("undo: rmq "))
        .expect("an undo line")
        .replace(&format!(" -n {namesrv}"), "");
    good(&undo);
    assert_eq!(committed(), read, "{undo}");
    good("group reset CG --topic Orders --queue broker-a/1=3 --execute --yes");
    let expected: i64 = read[1] - 3;
    assert_eq!(committed()[1], 3);
    // Exactly these come again.
    let again = session.receive(
        &namesrv,
        "Orders",
        "CG",
        usize::try_from(expected).expect("a count"),
        &["linger=3"],
    );
    assert_eq!(again.len() as i64, expected, "{again:?}");
    let ahead = rmq("group reset CG --topic Orders --to 999 --execute --yes");
    assert_eq!(ahead.code, 9, "{ahead:?}");

    // The way up and down with nobody online but a group that is named.
    let refused = rmq("topic scale Orders --to 2 --yes");
    assert_eq!(refused.code, 9, "{refused:?}");
    good(
        "topic scale Orders --to 2 --ignore-group CG --yes --producer-wait 1s --still 1s --rebalance-wait 1s --verify-wait 1s",
    );
    wire::wait_for_route(&namesrv, "Orders", "\"readQueueNums\":2");
    good("topic scale Orders --to 6 --yes --rebalance-wait 1s --verify-wait 1s");
    wire::wait_for_route(&namesrv, "Orders", "\"writeQueueNums\":6");

    // The group is not running: what comes to the new queues meanwhile is all there for it, and nothing comes twice.
    session.send(&namesrv, "Orders", 60, &["first=100"]);
    assert_eq!(
        session.receive(&namesrv, "Orders", "CG", 60, &["linger=3"]).len(),
        60
    );
}

/// A Java master with a slave is drained: the last line tells the slave's distance.
#[test]
fn a_java_broker_with_a_slave_is_drained() {
    let Some(peers) = java::peers("a_java_broker_with_a_slave_is_drained") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let cluster = Cluster::start(peers, dir.path(), &ports);
    let namesrv = cluster.namesrv_address.clone();
    let (of_master, of_slave) = (Block::take(), Block::take());
    let settings = |name: &str, block: &Block, id: &str, role: &str| {
        let home = dir.path().join(name);
        std::fs::create_dir_all(&home).expect("a directory");
        let settings = java::broker_settings(&home, &namesrv, block.broker());
        let settings = java::with(settings, "brokerName", "broker-b");
        let settings = java::with(settings, "brokerId", id);
        let settings = java::with(settings, "brokerRole", role);
        // One above the broker's port; Java's default is a fixed one.
        let settings = java::with(settings, "haListenPort", &(block.broker() + 1).to_string());
        (home, settings)
    };
    let (home, master) = settings("b-master", &of_master, "0", "ASYNC_MASTER");
    let _master = peers.broker(&home, &master);
    let (home, slave) = settings("b-slave", &of_slave, "1", "SLAVE");
    let _slave = peers.broker(&home, &slave);
    let home = dir.path().join("rmq-home");
    std::fs::create_dir_all(&home).expect("a directory");
    let rmq = |line: &str| rmq::run(&home, &namesrv, &line.split(' ').collect::<Vec<_>>());
    wait::until_true(
        "both brokers and the slave are registered",
        Duration::from_secs(60),
        || {
            let brokers = rmq("broker list -o json");
            brokers.code == 0
                && brokers.json()["items"]
                    .as_array()
                    .is_some_and(|rows| rows.len() == 3)
        },
    );
    let created = rmq("topic create T --queues 4 --yes");
    assert_eq!(created.code, 0, "{created:?}");
    wire::wait_for_route(&namesrv, "T", "\"writeQueueNums\":4");
    let sent = rmq("message send --topic T --body x --count 40 --broker broker-b");
    assert_eq!(sent.code, 0, "{sent:?}");
    let drained = rmq("broker drain broker-b --yes --quiet-time 2s --deadline 90s");
    assert_eq!(drained.code, 0, "{drained:?}");
    let last = drained.out.lines().last().unwrap_or_default();
    assert!(
        last.starts_with("SAFE TO STOP broker-b (") && last.ends_with("slave diff 0 bytes"),
        "{drained:?}"
    );
    let back = rmq("broker undrain broker-b --yes");
    assert_eq!(back.code, 0, "{back:?}");
}
