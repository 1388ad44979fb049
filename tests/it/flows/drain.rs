//! `rmq broker drain` and `undrain`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rmq::client::consume::Consumer;
use rmq::client::drain::Observer;
use rmq::client::produce::{Outgoing, Producer};
use rmq::client::{Scope, Which};

use super::{Reader, done, library, until};
use crate::cli::{Cluster, items};

/// A producer that sends without pause sees no error beyond its own retry; the broker gets nothing more and is safe.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_broker_gets_no_more_messages_and_no_producer_fails() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 2 --yes").await;
    let reader = Reader::start(library(&cluster), "CG", "T");
    let (stop, failed, sent) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let sending = {
        let (stop, failed, sent) = (stop.clone(), failed.clone(), sent.clone());
        let addr = cluster.addr;
        tokio::spawn(async move {
            // A client fetches its route anew after a refusal, as Java's does: a fresh one has no old route.
            let fresh = || {
                Arc::new(rmq::client::Client::new(rmq::client::Options {
                    name_servers: vec![addr.to_string()],
                    ..rmq::client::Options::default()
                }))
            };
            let mut producer = Producer::new(fresh(), "PG").unwrap();
            let message = Outgoing {
                topic: "T".into(),
                body: "x".into(),
                ..Outgoing::default()
            };
            while !stop.load(Ordering::SeqCst) {
                let mut tries = 0;
                while producer.send(&message).await.is_err() {
                    tries += 1;
                    if tries > 2 {
                        failed.fetch_add(1, Ordering::SeqCst);
                        break;
                    }
                    producer = Producer::new(fresh(), "PG").unwrap();
                }
                sent.fetch_add(1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    };
    until("messages flow", Duration::from_secs(10), async || {
        sent.load(Ordering::SeqCst) > 50
    })
    .await;

    let only = rmq.line("broker drain broker-c --yes").await;
    assert_eq!(only.code, 4, "{only:?}");
    let dry = done(&rmq, "broker drain broker-b --dry-run").await;
    assert!(dry.stdout.contains("brokerPermission"), "{dry:?}");
    let drained = done(&rmq, "broker drain broker-b --yes --quiet-time 2s --deadline 60s").await;
    let last = drained.stdout.lines().last().unwrap();
    assert!(last.starts_with("SAFE TO STOP broker-b ("), "{drained:?}");
    assert!(
        last.contains("in 0/s for 2 s") || last.contains("in 0/s for 3 s"),
        "{last}"
    );
    assert!(last.ends_with("2 queues, lag 0, no slave"), "{last}");
    assert_eq!(failed.load(Ordering::SeqCst), 0);

    // The other one is the last that takes messages.
    let last = rmq.line("broker drain broker-a --yes").await;
    assert_eq!(last.code, 9, "{last:?}");
    assert!(last.stderr.contains("last broker"), "{last:?}");

    let back = done(&rmq, "broker undrain broker-b --yes").await;
    assert!(
        back.stdout.contains("undo: rmq broker drain broker-b"),
        "{back:?}"
    );
    let route = rmq.rows(&["topic", "route", "T"]).await;
    assert!(route.iter().all(|r| r["perm"] == "RW-"), "{route:?}");
    let before = ends(&rmq).await;
    until("producers come back", Duration::from_secs(40), async || {
        ends(&rmq).await > before
    })
    .await;
    stop.store(true, Ordering::SeqCst);
    sending.await.unwrap();
    assert_eq!(failed.load(Ordering::SeqCst), 0);
    reader.leave().await;
    cluster.stop().await;
}

async fn ends(rmq: &crate::cli::Rmq) -> i64 {
    let rows = items(&rmq.line("topic status T --broker broker-b -o json").await);
    rows.iter().map(|r| r["max"].as_i64().unwrap_or(0)).sum()
}

/// A topic with traffic on this broker alone is not made unwritable by surprise.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_only_this_broker_takes_stops_a_drain() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create Only --queues 1 --broker broker-b --yes").await;
    done(&rmq, "message send --topic Only --body x").await;
    let refused = rmq.line("broker drain broker-b --yes").await;
    assert_eq!(refused.code, 9, "{refused:?}");
    assert!(refused.stderr.contains("--allow-unwritable Only"), "{refused:?}");
    let wiped = done(
        &rmq,
        "broker drain broker-b --allow-unwritable Only --method wipe --yes --quiet-time 1s --deadline 30s",
    )
    .await;
    assert!(wiped.stdout.contains("SAFE TO STOP broker-b"), "{wiped:?}");
    let config = rmq
        .rows(&["broker", "get-config", "broker-b", "brokerPermission"])
        .await;
    assert_eq!(config[0]["value"], "6");
    done(&rmq, "broker undrain broker-b --yes").await;
    let route = rmq.rows(&["topic", "route", "Only"]).await;
    assert_eq!(route[0]["perm"], "RW-", "{route:?}");
    // Ctrl-C: nobody can be asked here, and the state is told with the way back.
    let line = "broker drain broker-b --allow-unwritable Only --yes --quiet-time 20s";
    let told = super::interrupted(&rmq, line, "drain broker-b").await;
    assert_eq!(told.0, Some(130), "{told:?}");
    assert!(
        told.1.contains("producers are kept off it") && told.1.contains("rmq broker undrain broker-b"),
        "{told:?}"
    );
    let journal = std::fs::read_to_string(rmq.state().join("journal.jsonl")).unwrap();
    assert!(journal.contains("not drained to the end"), "{journal}");
    done(&rmq, "broker undrain broker-b --yes").await;
    // A delayed message is waited for; behind the deadline it needs a word.
    done(&rmq, "message send --topic Only --body later --delay 4").await;
    let late = rmq
        .line("broker drain broker-b --allow-unwritable Only --yes --quiet-time 1s --deadline 2s")
        .await;
    assert_eq!(late.code, 9, "{late:?}");
    assert!(late.stderr.contains("--ignore-delayed"), "{late:?}");
    cluster.stop().await;
}

/// What was sent to another broker lately is traffic, when that one takes nothing any more.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_in_use_elsewhere_is_not_taken_for_unused() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    for name in ["Used", "Unused"] {
        done(&rmq, &format!("topic create {name} --queues 1 --yes")).await;
    }
    done(
        &rmq,
        "message send --topic Used --broker broker-a --queue 0 --body x",
    )
    .await;
    for name in ["Used", "Unused"] {
        done(
            &rmq,
            &format!("topic update {name} --broker broker-a --perm 4 --yes"),
        )
        .await;
    }
    let refused = rmq
        .line("broker drain broker-b --yes --quiet-time 1s --deadline 5s")
        .await;
    assert_eq!(refused.code, 9, "{refused:?}");
    assert!(refused.stderr.contains("--allow-unwritable Used"), "{refused:?}");
    assert!(
        !refused.stderr.contains("--allow-unwritable Unused"),
        "{refused:?}"
    );
    cluster.stop().await;
}

/// A broker that says it takes messages is no refuge where the name servers send no producer to it.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_is_wiped_from_the_routes_is_no_refuge() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 2 --yes").await;
    done(&rmq, "message send --topic T --body x --count 4").await;
    let client = library(&cluster);
    for (addr, wiped) in client.set_route_writable("broker-b", false).await {
        wiped.unwrap_or_else(|e| panic!("{addr}: {e}"));
    }
    let refused = rmq.line("broker drain broker-a --yes").await;
    assert_eq!(refused.code, 9, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("the last broker of cluster DefaultCluster that takes messages"),
        "{refused:?}"
    );
    for (addr, back) in client.set_route_writable("broker-b", true).await {
        back.unwrap_or_else(|e| panic!("{addr}: {e}"));
    }
    done(&rmq, "broker drain broker-a --yes --quiet-time 1s --deadline 30s").await;
    cluster.stop().await;
}

/// A drain by permission and then one by wipe: undrain takes back both. What a broker was before is what is there, and
/// a file about it that cannot be read is not taken for none.
#[tokio::test(flavor = "multi_thread")]
async fn undrain_brings_back_what_was_there_however_it_was_drained() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 2 --yes").await;
    let permission = async || {
        let rows = rmq
            .rows(&["broker", "get-config", "broker-b", "brokerPermission"])
            .await;
        rows[0]["value"].as_str().unwrap().to_owned()
    };
    let quick = "--yes --quiet-time 1s --deadline 30s";
    done(&rmq, &format!("broker drain broker-b {quick}")).await;
    assert_eq!(permission().await, "4");
    done(&rmq, &format!("broker drain broker-b --method wipe {quick}")).await;
    let back = done(&rmq, "broker undrain broker-b --yes").await;
    assert_eq!(permission().await, "6", "{back:?}");
    let route = rmq.rows(&["topic", "route", "T"]).await;
    assert!(route.iter().all(|r| r["perm"] == "RW-"), "{route:?}");
    // Closed by somebody else, for a reason of their own.
    done(&rmq, "broker set-config broker-b brokerPermission=4 --yes").await;
    let closed = done(&rmq, &format!("broker drain broker-b {quick}")).await;
    assert!(closed.stderr.contains("undrain leaves it so"), "{closed:?}");
    let files = std::fs::read_dir(rmq.state().join("drain")).unwrap();
    let kept: Vec<_> = files
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().unwrap() == "json")
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    done(&rmq, "broker undrain broker-b --yes").await;
    assert_eq!(permission().await, "4");
    std::fs::write(&kept[0], "{").unwrap();
    for line in ["broker drain broker-b --yes", "broker undrain broker-b --yes"] {
        let damaged = rmq.line(line).await;
        assert_eq!(damaged.code, 9, "{damaged:?}");
        assert!(damaged.stderr.contains("cannot be read"), "{damaged:?}");
    }
    assert_eq!(permission().await, "4");
    cluster.stop().await;
}

/// A group that is online and has read nothing has no position, and everything to read.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_without_a_position_is_waited_for() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 1 --yes").await;
    done(
        &rmq,
        "message send --topic T --broker broker-b --body x --count 3",
    )
    .await;
    let client = library(&cluster);
    let consumer = Consumer::new(client.clone(), "STUCK", "T").unwrap();
    // It never ends its first batch.
    let handler = Arc::new(|_: Vec<rmq::client::Message>| {
        let never: futures_util::future::BoxFuture<'static, ()> = Box::pin(std::future::pending());
        never
    });
    let task = tokio::spawn(consumer.run(handler, tokio_util::sync::CancellationToken::new()));
    until("it is online", Duration::from_secs(20), async || {
        items(&rmq.line("group clients STUCK -o json").await).len() == 1
    })
    .await;
    let broker = rmq::client::Server::at(cluster.brokers[1].addr().to_string());
    let committed = client
        .committed(&broker, "STUCK", "T", 0, client.deadline())
        .await;
    assert_eq!(committed.unwrap(), None);
    let waits = "--yes --quiet-time 1s --deadline 4s";
    let behind = rmq.line(&format!("broker drain broker-b {waits}")).await;
    assert_eq!(behind.code, 8, "{behind:?}");
    assert!(behind.stderr.contains("STUCK is 3 messages behind"), "{behind:?}");
    let ignored = done(
        &rmq,
        &format!("broker drain broker-b --ignore-group STUCK {waits}"),
    )
    .await;
    assert!(
        ignored.stdout.contains("(3 of ignored STUCK stay)"),
        "{ignored:?}"
    );
    // Once it was seen online it is waited for to the end, gone or not, with a position or without one.
    let looking = library(&cluster);
    let brokers = looking.brokers(&Scope::default(), Which::Masters).await.unwrap();
    let at = brokers.into_iter().find(|b| b.id.name == "broker-b").unwrap();
    let survey = looking.drain_survey(&at).await.unwrap();
    let mut observer = Observer::new(at, &survey, false);
    let online = observer.look(&looking).await;
    assert_eq!(online.online.get("STUCK"), Some(&3), "{online:?}");
    task.abort();
    client.close();
    until("it is gone", Duration::from_secs(20), async || {
        items(&rmq.line("group clients STUCK -o json").await).is_empty()
    })
    .await;
    let gone = observer.look(&looking).await;
    assert_eq!(gone.offline.get("STUCK"), Some(&3), "{gone:?}");
    cluster.stop().await;
}

/// --then-stop ends the process of a broker that `rmq broker start` runs here, and no other.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_broker_is_stopped_where_it_is_known_for_certain() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let ports = crate::support::ports::Block::take();
    let (conf, root) = (cluster.path("b.conf"), cluster.path("broker-b"));
    let text = format!(
        "brokerClusterName=DefaultCluster\nbrokerName=broker-b\nbrokerIP1=127.0.0.1\nbindAddress=127.0.0.1\n\
         listenPort={}\nnamesrvAddr={}\nstorePathRootDir={}\nmappedFileSizeCommitLog=8388608\n\
         mappedFileSizeConsumeQueue=20000\nmaxHashSlotNum=200\nmaxIndexNum=800\ndiskMaxUsedSpaceRatio=95\n",
        ports.broker(),
        cluster.addr,
        root.display()
    );
    std::fs::write(&conf, text).unwrap();
    let mut command = rmq.command(&["broker", "start", "-c", conf.to_str().unwrap()]);
    command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = command.spawn().unwrap();
    until("broker-b is routed", Duration::from_secs(30), async || {
        let rows = items(&rmq.line("broker list -o json").await);
        rows.iter().any(|b| b["name"] == "broker-b" && b["state"] == "ok")
    })
    .await;
    // The other one runs in the process of this test.
    let foreign = rmq.line("broker drain broker-a --then-stop --yes").await;
    assert_eq!(foreign.code, 9, "{foreign:?}");
    assert!(
        foreign.stderr.contains("not run by `rmq broker start`"),
        "{foreign:?}"
    );
    let stopped = done(
        &rmq,
        "broker drain broker-b --then-stop --yes --quiet-time 1s --deadline 60s",
    )
    .await;
    assert!(stopped.stdout.contains("SAFE TO STOP broker-b"), "{stopped:?}");
    assert!(
        stopped
            .stderr
            .contains(&format!("process {} has ended", child.id())),
        "{stopped:?}"
    );
    let status = tokio::task::spawn_blocking(move || child.wait())
        .await
        .unwrap()
        .unwrap();
    assert!(status.success(), "{status}");
    cluster.stop().await;
}
