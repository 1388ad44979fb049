//! Our workflows on offsets and queues against Java's servers and clients.

use crate::support::java::{self, Cluster};
use crate::support::ports::Block;
use crate::support::session::Session;
use crate::support::{rmq, scratch, wire};

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
}
