//! `rmq topic scale`.

use std::time::{Duration, Instant};

use rmq::client::produce::Producer;

use super::{Reader, done, library, send, until};
use crate::cli::{Cluster, Ran, Rmq, items};

/// Waits short enough for a test.
const QUICK: &str = "--producer-wait 1s --still 1s --rebalance-wait 1s --verify-wait 1s";

async fn numbers(rmq: &Rmq, topic: &str) -> Vec<(i64, i64)> {
    let rows = rmq.rows(&["topic", "get", topic]).await;
    let number = |row: &serde_json::Value, key: &str| row[key].as_i64().unwrap();
    rows.iter()
        .map(|r| (number(r, "read_queues"), number(r, "write_queues")))
        .collect()
}

/// The undo line of a change, without the program.
fn undo_of(ran: &Ran) -> &str {
    let last = ran.stdout.lines().last().unwrap();
    last.strip_prefix("undo: rmq ").unwrap()
}

/// The plan file of the one way that is interrupted.
fn plan_file(rmq: &Rmq) -> std::path::PathBuf {
    let files = std::fs::read_dir(rmq.state().join("scale")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let plans: Vec<_> = files.filter(|path| path.extension().unwrap() == "json").collect();
    assert_eq!(plans.len(), 1, "{plans:?}");
    plans[0].clone()
}

/// Delayed and half messages for the queues that go are waited for, and arrive; then the way back.
#[tokio::test(flavor = "multi_thread")]
async fn a_shrink_waits_for_what_will_still_land_in_the_queues_that_go() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 16 --yes").await;
    let client = library(&cluster);
    let producer = Producer::new(client.clone(), "PG").unwrap();
    let reader = Reader::start(client.clone(), "CG", "T");
    for queue in 0..16 {
        send(&producer, "T", queue, "now", None).await;
    }
    reader.has(16).await;
    // Level 2 is 5 s.
    let sent = Instant::now();
    send(&producer, "T", 12, "late", Some(2)).await;
    send(&producer, "T", 3, "late elsewhere", Some(2)).await;

    let dry = done(&rmq, "topic scale T --to 8 --dry-run").await;
    assert!(dry.stdout.contains("read_queues"), "{dry:?}");
    assert_eq!(numbers(&rmq, "T").await, [(16, 16), (16, 16)]);

    let shrunk = done(&rmq, &format!("topic scale T --to 8 --yes {QUICK}")).await;
    assert!(
        sent.elapsed() > Duration::from_secs(5),
        "it did not wait: {shrunk:?}"
    );
    assert!(shrunk.stderr.contains("1 delayed, 0 timed, 0 half"), "{shrunk:?}");
    assert_eq!(numbers(&rmq, "T").await, [(8, 8), (8, 8)]);
    reader.has(18).await;
    assert_eq!(reader.bodies().iter().filter(|b| *b == "late").count(), 1);
    let undo = undo_of(&shrunk);
    assert!(undo.starts_with("topic scale T --to 16 --broker"), "{undo}");

    let grown = done(&rmq, &format!("{undo} --yes {QUICK}")).await;
    assert_eq!(numbers(&rmq, "T").await, [(16, 16), (16, 16)], "{grown:?}");
    let again = rmq.line("topic scale T --to 16 --yes").await;
    assert!(again.stderr.contains("nothing to change"), "{again:?}");
    reader.leave().await;
    cluster.stop().await;
}

/// A group that nobody runs must be named; one that does not move is told; the way goes on, or back.
#[tokio::test(flavor = "multi_thread")]
async fn a_shrink_stops_safely_and_goes_on_or_back() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 4 --yes").await;
    let client = library(&cluster);
    let producer = Producer::new(client.clone(), "PG").unwrap();
    let reader = Reader::start(client.clone(), "CG", "T");
    for queue in 0..4 {
        send(&producer, "T", queue, "x", None).await;
    }
    reader.has(4).await;
    reader.leave().await;
    let offline = rmq.line("topic scale T --to 2 --yes").await;
    assert_eq!(offline.code, 9, "{offline:?}");
    assert!(offline.stderr.contains("--ignore-group CG"), "{offline:?}");

    // Level 4 is 30 s: the deadline comes first.
    let reader = Reader::start(client.clone(), "CG", "T");
    until("it is online", Duration::from_secs(10), async || {
        items(&rmq.line("group clients CG -o json").await).len() == 1
    })
    .await;
    send(&producer, "T", 3, "late", Some(4)).await;
    let late = rmq
        .line(&format!("topic scale T --to 2 --yes {QUICK} --deadline 3s"))
        .await;
    assert_eq!(late.code, 8, "{late:?}");
    assert!(
        late.stderr
            .contains("read 4 write 2 on broker-a; every written queue is read"),
        "{late:?}"
    );
    assert_eq!(numbers(&rmq, "T").await, [(4, 2)]);

    // The mark and the file keep others away.
    let other = rmq.line("topic scale T --to 3 --yes").await;
    assert_eq!(other.code, 9, "{other:?}");
    let elsewhere = Rmq::new(&cluster.addr.to_string(), &cluster.path("elsewhere"));
    let marked = elsewhere.line("topic scale T --to 3 --yes").await;
    assert_eq!(marked.code, 9, "{marked:?}");
    assert!(marked.stderr.contains("is being scaled"), "{marked:?}");

    // A process that goes this way holds a lock.
    let plan_file = plan_file(&rmq);
    let lock = std::fs::File::options()
        .write(true)
        .open(plan_file.with_extension("json.lock"))
        .unwrap();
    lock.lock().unwrap();
    let second = rmq.line("topic scale T --resume --yes").await;
    assert_eq!(second.code, 9, "{second:?}");
    assert!(second.stderr.contains("another rmq is scaling"), "{second:?}");
    drop(lock);

    // Where a name server is named on the command line, the way on needs it as well.
    let mut named = rmq.command(&[
        "topic",
        "scale",
        "T",
        "--to",
        "3",
        "--yes",
        "-n",
        &cluster.addr.to_string(),
    ]);
    named.env_remove("RMQ_NAMESRV");
    let named = rmq.finish(named).await;
    for flag in ["--resume", "--undo"] {
        let way = format!("rmq topic scale T {flag} -n {}", cluster.addr);
        assert!(named.stderr.contains(&way), "{named:?}");
    }

    // A cluster of the same name elsewhere is not meant by the plan that is kept here.
    let twin = Cluster::start(&["broker-a"]).await;
    let there = Rmq::new(&twin.addr.to_string(), cluster.dir());
    assert_eq!(there.state(), rmq.state());
    done(&there, "topic create T --queues 4 --yes").await;
    for flag in ["--resume", "--undo"] {
        let refused = there.line(&format!("topic scale T {flag} --yes {QUICK}")).await;
        assert_eq!(refused.code, 9, "{refused:?}");
        let begun = format!("was begun at name servers {}", cluster.addr);
        assert!(refused.stderr.contains(&begun), "{refused:?}");
    }
    assert_eq!(numbers(&there, "T").await, [(4, 4)]);
    twin.stop().await;

    // Nor one whose name servers know nothing of it, until somebody says so.
    done(&rmq, "kv delete rmq scale.T --yes").await;
    let unmarked = rmq.line(&format!("topic scale T --resume --yes {QUICK}")).await;
    assert_eq!(unmarked.code, 9, "{unmarked:?}");
    assert!(
        unmarked.stderr.contains("no name server has the mark"),
        "{unmarked:?}"
    );
    assert_eq!(numbers(&rmq, "T").await, [(4, 2)]);
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&plan_file).unwrap()).unwrap();
    let mark = format!("{{\"token\":{}}}", kept["token"]);
    assert!(
        unmarked
            .stderr
            .contains(&format!("rmq kv set rmq scale.T '{mark}'")),
        "{unmarked:?}"
    );
    let marked = rmq.run(&["kv", "set", "rmq", "scale.T", &mark, "--yes"]).await;
    assert_eq!(marked.code, 0, "{marked:?}");

    // The waits of the first run go on where none are named.
    let resumed = rmq.line("topic scale T --resume --yes --deadline 2s").await;
    assert_eq!(resumed.code, 8, "{resumed:?}");
    assert_eq!(numbers(&rmq, "T").await, [(4, 2)]);
    let kept: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&plan_file).unwrap()).unwrap();
    let waits = &kept["machine"]["settings"];
    for (wait, secs) in [
        ("producer_wait", 1),
        ("still", 1),
        ("deadline", 2),
        ("stall", 300),
    ] {
        assert_eq!(waits[wait]["secs"], secs, "{waits}");
    }
    let back = done(&rmq, "topic scale T --undo --yes").await;
    assert_eq!(numbers(&rmq, "T").await, [(4, 4)], "{back:?}");
    // The state before --undo, not the widest numbers.
    let again = back.stdout.lines().last().unwrap();
    assert!(
        again.starts_with("undo: rmq topic scale T --read-to 4 --write-to 2 "),
        "{again}"
    );
    let nothing = rmq.line("topic scale T --resume --yes").await;
    assert_eq!(nothing.code, 9, "{nothing:?}");
    // Nothing keeps anybody away any more.
    let free = elsewhere.line("topic scale T --to 4 --yes").await;
    assert_eq!(free.code, 0, "{free:?}");
    reader.leave().await;
    cluster.stop().await;
}

/// Ctrl-C after each step: written queues are read, the numbers that are told are those that are there, and the way
/// goes on from there. Each way has a topic of its own, all at the same time.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_after_each_step_leaves_every_written_queue_read() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let client = library(&cluster);
    // Each is told on stderr when it is reached.
    let steps = [
        ("8", "raise read queues"),
        ("8", "wait for consumers"),
        ("8", "give groups a place"),
        ("8", "set write queues"),
        ("8", "wait for messages in new queues"),
        ("2", "set write queues"),
        ("2", "drain"),
        ("2", "lower read queues"),
    ];
    let ways = steps.into_iter().enumerate().map(|(at, (target, step))| {
        let (rmq, client) = (rmq.clone(), client.clone());
        async move {
            let (topic, group) = (format!("T{at}"), format!("CG{at}"));
            done(&rmq, &format!("topic create {topic} --queues 4 --yes")).await;
            let reader = Reader::start(client, &group, &topic);
            until("it is online", Duration::from_secs(20), async || {
                items(&rmq.line(&format!("group clients {group} -o json")).await).len() == 1
            })
            .await;
            let waits = if step == "lower read queues" {
                QUICK
            } else {
                "--rebalance-wait 20s --producer-wait 20s --verify-wait 20s"
            };
            let line = format!("topic scale {topic} --to {target} --yes {waits}");
            let told = super::interrupted(&rmq, &line, step).await;
            let (read, write) = numbers(&rmq, &topic).await[0];
            assert!(read >= write, "after \"{step}\": read {read} write {write}");
            // The last write may end the way: then there was nothing left to interrupt.
            let code = told.0.unwrap_or(-1);
            assert!(
                code == 130 || (code == 0 && step == "lower read queues"),
                "{step}: {told:?}"
            );
            if code == 130 {
                assert!(told.1.contains("was interrupted at step "), "{step}: {told:?}");
                let goal: i64 = target.parse().unwrap();
                let state = match (read, write) {
                    (4, 4) => "as before, nothing changed".to_owned(),
                    both if both == (goal, goal) => "at the goal".to_owned(),
                    _ => format!(
                        "read {read} write {write} on broker-a; every written queue is read, nothing lost"
                    ),
                };
                assert!(
                    told.1.contains(&format!("state: {state}")),
                    "after \"{step}\": {told:?}"
                );
                // Who comes later is told how far it is.
                let again = rmq
                    .line(&format!("topic scale {topic} --to {target} --yes"))
                    .await;
                assert!(again.stderr.contains("is being scaled since"), "{again:?}");
                assert!(again.stderr.contains("(step "), "{again:?}");
                done(&rmq, &format!("topic scale {topic} --resume --yes {QUICK}")).await;
            }
            let target: i64 = target.parse().unwrap();
            assert_eq!(
                numbers(&rmq, &topic).await,
                [(target, target)],
                "after \"{step}\""
            );
            reader.leave().await;
        }
    });
    futures_util::future::join_all(ways).await;
    cluster.stop().await;
}

/// A group that nobody runs while the topic grows has a position in each new queue before the first message comes, and
/// reads them all when it is back; older messages of queues that were there before are told.
#[tokio::test(flavor = "multi_thread")]
async fn an_offline_group_passes_over_no_message_of_a_new_queue() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 4 --yes").await;
    let client = library(&cluster);
    let producer = Producer::new(client.clone(), "PG").unwrap();
    for _ in 0..3 {
        send(&producer, "T", 3, "of a longer life", None).await;
    }
    done(&rmq, &format!("topic scale T --to 2 --yes {QUICK}")).await;
    let reader = Reader::start(client.clone(), "CG", "T");
    send(&producer, "T", 0, "x", None).await;
    send(&producer, "T", 1, "x", None).await;
    reader.has(2).await;
    reader.leave().await;
    let committed = async || -> Vec<(i64, i64)> {
        let rows = rmq.rows(&["offset", "get", "CG", "--topic", "T"]).await;
        let number = |row: &serde_json::Value, key: &str| row[key].as_i64().unwrap_or(-1);
        rows.iter()
            .map(|row| (number(row, "queue"), number(row, "committed")))
            .collect()
    };
    assert_eq!(committed().await, [(0, 1), (1, 1)]);

    let grown = done(&rmq, &format!("topic scale T --to 6 --yes {QUICK}")).await;
    assert!(
        grown
            .stderr
            .contains("CG gets a position in 4 queues of broker-a"),
        "{grown:?}"
    );
    // Queue 3 begins where its broker would have sent a consumer without a position.
    let places = committed().await;
    assert_eq!(places.len(), 6, "{places:?}");
    assert!(
        places[2..]
            .iter()
            .all(|(queue, at)| *at == 0 || (*queue, *at) == (3, 3)),
        "{places:?}"
    );
    let older = 3 - places[3].1;
    // One that knows the new queues.
    let client = library(&cluster);
    let producer = Producer::new(client.clone(), "PG").unwrap();
    for queue in 0..6 {
        send(&producer, "T", queue, "new", None).await;
    }
    let reader = Reader::start(client, "CG", "T");
    reader.has(6 + usize::try_from(older).unwrap()).await;
    let bodies = reader.leave().await;
    assert_eq!(
        bodies.iter().filter(|body| *body == "new").count(),
        6,
        "{bodies:?}"
    );
    let again = done(&rmq, "topic scale T --to 8 --dry-run").await;
    assert!(
        again.stderr.contains("CG gets a position in 2 queues"),
        "{again:?}"
    );
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scale_that_makes_no_sense_is_refused() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 4 --yes").await;
    done(&rmq, "topic create O --queues 4 --order --yes").await;
    for (line, code) in [
        ("topic scale T", 2),
        ("topic scale T --to 0 --yes", 2),
        ("topic scale T --read-to 2 --write-to 4 --yes", 2),
        ("topic scale T --write-to 8 --phase write --read-to 8 --yes", 9),
        ("topic scale T --to 2 --phase read --yes", 9),
        ("topic scale Missing --to 2 --yes", 4),
        ("topic scale O --to 2 --yes", 9),
        ("topic scale TBW102 --to 2 --yes", 9),
        ("topic scale T --undo --yes", 9),
        ("topic scale T --to 8", 13),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{line}: {ran:?}");
    }
    assert_eq!(numbers(&rmq, "T").await, [(4, 4)]);
    done(&rmq, &format!("topic scale T --to 2 --phase write --yes {QUICK}")).await;
    assert_eq!(numbers(&rmq, "T").await, [(4, 2)]);
    done(&rmq, &format!("topic scale T --to 2 --phase read --yes {QUICK}")).await;
    assert_eq!(numbers(&rmq, "T").await, [(2, 2)]);
    // The way back needs the same words as the way.
    let ordered = done(
        &rmq,
        &format!("topic scale O --to 5 --allow-reorder --ignore-group OLD --yes {QUICK}"),
    )
    .await;
    let undo = undo_of(&ordered);
    assert!(undo.contains(" --allow-reorder --ignore-group OLD -n "), "{undo}");
    done(&rmq, "group create OLD --yes").await;
    done(&rmq, "offset set OLD broker-a/4=0 --topic O --yes").await;
    done(&rmq, &format!("{undo} --yes {QUICK}")).await;
    assert_eq!(numbers(&rmq, "O").await, [(4, 4)]);
    cluster.stop().await;
}
