//! A store directory with messages handed out, passed between our broker and Java's: what was acknowledged stays away,
//! what was not comes back, on either side.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rmq::protocol::codes;

use super::pop::{ack_of, got, held, pop};
use super::support::*;
use crate::support::ports::Block;
use crate::support::{java, local, rmq as program, scratch};

const LIMIT: Duration = Duration::from_secs(90);

/// Pops for `invisible_ms` until the wanted bodies were seen, and acknowledges all of them.
async fn take_back(client: &Client, wanted: &[&str], never: &[&str]) {
    let begin = Instant::now();
    let mut seen = BTreeSet::new();
    while !wanted.iter().all(|body| seen.contains(*body)) {
        assert!(begin.elapsed() < LIMIT, "only {seen:?} of {wanted:?}");
        let answer = client.ask(held(pop("t", -1, 32, 60_000), 1000), ()).await;
        assert!([0, codes::POLLING_TIMEOUT].contains(&answer.code), "{answer:?}");
        for one in got(&answer, "t") {
            assert!(!never.contains(&one.body.as_str()), "{} came again", one.body);
            assert_eq!(one.times, 1, "{one:?}");
            client.ok(ack_of(&one, "t"), ()).await;
            seen.insert(one.body);
        }
    }
}

#[ignore = "depends on times that a busy machine does not keep: run it alone"]
#[tokio::test(flavor = "multi_thread")]
async fn pending_pops_move_to_java_and_back() {
    let Some(peers) = java::peers("pending_pops_move_to_java_and_back") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let _namesrv = program::namesrv(dir.path(), ports.namesrv());
    let settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    let settings = java::with(settings, "brokerName", "broker-t");
    let addr = local(ports.broker());

    // Handed out by ours: two acknowledged, four not.
    let mut ours = program::broker(dir.path(), &namesrv, &settings);
    let client = Client::new(&addr).await;
    client.create_topic("t", 1).await;
    for n in 0..12 {
        client.send("t", 0, "", &format!("m{n}")).await;
    }
    client.await_max("t", 0, 12).await;
    for n in 0..3 {
        for one in got(&client.ask(pop("t", 0, 2, 25_000), ()).await, "t") {
            if n == 1 {
                client.ok(ack_of(&one, "t"), ()).await;
            }
        }
    }
    // Java would not look into checkpoints for offsets that the file does not have yet.
    ours.process.terminate(Duration::from_secs(10));

    // Java gives back those four and no others, then hands out the rest.
    let mut theirs = peers.broker(dir.path(), &settings);
    let client = Client::new(&addr).await;
    let mut rest = Vec::new();
    while rest.len() < 6 {
        rest.extend(got(&client.ask(pop("t", 0, 3, 20_000), ()).await, "t"));
    }
    assert_eq!(
        rest.iter().map(|one| one.offset).collect::<Vec<_>>(),
        [6, 7, 8, 9, 10, 11]
    );
    take_back(&client, &["m0", "m1", "m4", "m5"], &["m2", "m3"]).await;
    for one in &rest[..2] {
        client.ok(ack_of(one, "t"), ()).await;
    }
    // Java keeps new offsets for five seconds in memory alone.
    tokio::time::sleep(Duration::from_secs(6)).await;
    theirs.kill();

    // And ours gives back what Java handed out.
    let _ours = program::broker(dir.path(), &namesrv, &settings);
    let client = Client::new(&addr).await;
    take_back(&client, &["m8", "m9", "m10", "m11"], &["m2", "m3", "m6", "m7"]).await;
}
