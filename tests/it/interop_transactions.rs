//! Java transactional producers against our broker, and open transactions handed over in both directions.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::support::ports::Block;
use crate::support::session::Session;
use crate::support::{java, local, rmq, scratch, wait};

/// Keys of what was delivered, each once.
fn delivered(session: &mut Session, namesrv: &str) -> BTreeSet<String> {
    let dump = session.dump(namesrv, "Paid");
    let keys: Vec<String> = dump
        .iter()
        .map(|line| line.split('\t').nth(4).unwrap_or_default().to_owned())
        .collect();
    let set: BTreeSet<String> = keys.iter().cloned().collect();
    assert_eq!(set.len(), keys.len(), "each once: {keys:?}");
    set
}

fn keys(numbers: impl Iterator<Item = usize>) -> BTreeSet<String> {
    numbers.map(|i| format!("K-{i}")).collect()
}

/// How many half messages the log's op messages name.
fn marks(dir: &Path) -> usize {
    const OP: &[u8] = b"RMQ_SYS_TRANS_OP_HALF_TOPIC";
    let log = std::fs::read(dir.join("store/commitlog/00000000000000000000")).expect("the first segment");
    let ends = (1..log.len().saturating_sub(OP.len())).filter(|&at| {
        // The topic comes right behind the body, with one byte of length between.
        log[at..].starts_with(OP) && usize::from(log[at - 1]) == OP.len()
    });
    let is_body = |b: &&u8| b.is_ascii_digit() || **b == b',';
    ends.map(|at| {
        log[..at - 1]
            .iter()
            .rev()
            .take_while(is_body)
            .filter(|b| **b == b',')
            .count()
    })
    .sum()
}

/// Waits until so many half messages are marked as ended: that follows the end by a moment.
fn marked(dir: &Path, count: usize) {
    wait::until_true("the ends are marked", Duration::from_secs(20), || {
        marks(dir) >= count
    });
}

#[test]
fn open_transactions_go_from_java_to_ours_and_back_with_kills() {
    let Some(peers) = java::peers("open_transactions_go_from_java_to_ours_and_back_with_kills") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let mut session = Session::start(peers, dir.path());
    let _server = rmq::namesrv(dir.path(), ports.namesrv());
    let mut settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    for (key, value) in [
        ("transactionTimeOut", "1000"),
        ("transactionCheckInterval", "1000"),
        ("transactionOpBatchInterval", "100"),
        ("flushConsumerOffsetInterval", "500"),
    ] {
        settings = java::with(settings, key, value);
    }
    let calm = java::with(settings.clone(), "transactionCheckInterval", "3600000");
    let calm = java::with(calm, "transactionTimeOut", "3600000");

    // Java opens 9: three are committed, three rolled back, three stay open over the kill.
    let mut theirs = peers.broker(dir.path(), &calm);
    session.run(&["Tx", &namesrv, "Paid", "9"]).ok();
    let mut expected = keys([0, 3, 6].into_iter());
    assert_eq!(delivered(&mut session, &namesrv), expected);
    marked(dir.path(), 6);
    theirs.kill();

    // Ours asks about just those three, and takes 9 more of a Java producer.
    let mut ours = rmq::broker(dir.path(), &namesrv, &settings);
    java::routed(&namesrv, "Paid");
    let reply = session.run(&["Tx", &namesrv, "Paid", "0", "checks=3"]).ok();
    let asked: BTreeSet<String> = reply.columns().into_iter().map(|line| line[1].clone()).collect();
    assert_eq!(asked, keys([2, 5, 8].into_iter()));
    assert!(reply.out.iter().all(|line| line.ends_with("\tPaid")), "{reply:?}");
    expected.extend(keys([2, 5, 8].into_iter()));
    assert_eq!(delivered(&mut session, &namesrv), expected);
    ours.process.kill();
    let mut ours = rmq::broker(dir.path(), &namesrv, &calm);
    let before = marks(dir.path());
    session.run(&["Tx", &namesrv, "Paid", "9", "first=9"]).ok();
    expected.extend(keys([9, 12, 15].into_iter()));
    assert_eq!(delivered(&mut session, &namesrv), expected);
    // Three of the first nine were marked by Java, then checked and marked by ours; now six of the second nine.
    marked(dir.path(), before + 6);
    ours.process.kill();

    // Java asks about just the last three.
    let mut theirs = peers.broker_starting(dir.path(), &settings);
    java::in_route(&mut theirs, &namesrv, "Paid");
    let reply = session.run(&["Tx", &namesrv, "Paid", "0", "checks=3"]).ok();
    let asked: BTreeSet<String> = reply.columns().into_iter().map(|line| line[1].clone()).collect();
    assert_eq!(asked, keys([11, 14, 17].into_iter()));
    expected.extend(keys([11, 14, 17].into_iter()));
    assert_eq!(delivered(&mut session, &namesrv), expected);
}
