//! Known faults of such systems that show at a broker as a whole. The numbers are those of the list in the tests of the
//! store.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmq::broker::{Broker, Settings};
use rmq::config_file::ConfigFile;
use rmq::protocol::Json;
use rmq::protocol::body::{LockBatchRequest, MessageModel};
use rmq::protocol::model::{MessageQueue, Perm};
use rmq::protocol::requests::*;
use rmq::store::MessageStore;

use super::support::*;
use super::timer;
use crate::store_faults::SmallDisk;
use crate::store_life::{bodies, settled};
use crate::support::clock::Clock;
use crate::support::ports::Block;
use crate::support::{java, local, rmq as program, scratch, wire};

/// K14: the transient pool is not there, so it does not make SYNC_FLUSH time out.
#[tokio::test(flavor = "multi_thread")]
async fn k14_sync_flush_with_the_transient_pool_asked_for_never_times_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.conf");
    std::fs::write(&path, "flushDiskType=SYNC_FLUSH\ntransientStorePoolEnable=true\n").unwrap();
    let base = Settings {
        broker: loopback(),
        store: small_store(dir.path()),
        ..Settings::default()
    };
    let settings = base.over(&ConfigFile::load(Some(&path), &[]).unwrap()).unwrap();
    let broker = Broker::start_with(settings).await.unwrap();
    let addr = broker.addr().to_string();
    Client::new(&addr).await.create_topic("t", 1).await;
    let senders = (0..8).map(|_| {
        let addr = addr.clone();
        tokio::spawn(async move {
            let client = Client::new(&addr).await;
            for _ in 0..125 {
                client.send("t", 0, "", "x").await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let client = Client::new(&addr).await;
    client.await_max("t", 0, 1000).await;
    broker.stop().await.unwrap();
}

/// K18: what is stored and acknowledged is what each of many connections sent.
#[tokio::test(flavor = "multi_thread")]
async fn k18_no_bytes_of_one_connection_get_into_the_body_of_another() {
    let broker = TestBroker::start().await;
    broker.client().await.create_topic("t", 1).await;
    let body =
        |sender: usize, n: usize| format!("{sender}-{n};").repeat(1 + (sender * 7919 + n * 104_729) % 4000);
    let senders = (0..8).map(|sender| {
        let addr = broker.addr();
        tokio::spawn(async move {
            let client = Client::new(&addr).await;
            for n in 0..40 {
                client.send("t", 0, "", &body(sender, n)).await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let dir = broker.stop().await;
    let store = MessageStore::open(small_store(dir.path())).unwrap();
    settled(&store);
    let mut found = bodies(&store, "t", 0);
    let mut sent: Vec<_> = (0..8)
        .flat_map(|sender| (0..40).map(move |n| bytes::Bytes::from(body(sender, n))))
        .collect();
    found.sort();
    sent.sort();
    assert!(found == sent, "{} found", found.len());
}

/// K25: a group that had committed what the log lost gets what comes in its place.
#[tokio::test(flavor = "multi_thread")]
async fn k25_offsets_beyond_a_log_that_was_cut_are_moved_back() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for _ in 0..30 {
        client.send("t", 0, "", "x").await;
    }
    client.await_max("t", 0, 30).await;
    client.heartbeat("c", "g", "t", "*").await;
    let commit = rmq::protocol::requests::UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: Some(0),
        commit_offset: Some(30),
        ..Default::default()
    };
    client.ok(commit, ()).await;
    let dir = broker.stop().await;
    let log = dir.path().join("commitlog/00000000000000000000");
    let mut bytes = std::fs::read(&log).unwrap();
    let records = rmq::protocol::message::records(&bytes).take_while(Result::is_ok);
    let end: usize = records.take(20).map(|record| record.unwrap().size()).sum();
    bytes[end..].fill(0);
    std::fs::write(&log, bytes).unwrap();
    std::fs::write(dir.path().join("abort"), "1").unwrap();
    let broker = TestBroker::on(dir, loopback(), |_| {}).await;
    let client = broker.client().await;
    let query = QueryConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: 0,
        set_zero_if_not_found: None,
        bname: None,
    };
    assert_eq!(client.ok(query, ()).await.0.offset, 20);
    assert_eq!(client.send("t", 0, "", "new").await.queue_offset, 20);
    broker.stop().await;
}

/// K27: with a damaged table the copy is used; with a damaged copy, too, the start is refused with the file's name.
#[tokio::test(flavor = "multi_thread")]
async fn k27_a_damaged_table_is_replaced_by_its_copy_or_refuses_the_start() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.heartbeat("c", "g", "t", "*").await;
    let mut dir = broker.stop().await;
    for name in ["topics.json", "subscriptionGroup.json", "consumerOffset.json"] {
        // Twice, so that there is a copy.
        dir = TestBroker::on(dir, loopback(), |_| {}).await.stop().await;
        let (path, copy) = (
            dir.path().join("config").join(name),
            dir.path().join("config").join(format!("{name}.bak")),
        );
        let (whole, kept) = (std::fs::read(&path).unwrap(), std::fs::read(&copy).unwrap());
        let half = whole[..whole.len() / 2].to_vec();
        for damage in [Vec::new(), vec![0; 100], b"\xFF\xFE{\0}\0".to_vec(), half] {
            std::fs::write(&path, &damage).unwrap();
            std::fs::write(&copy, &damage).unwrap();
            let Err(e) = Broker::start(loopback(), small_store(dir.path())).await else {
                panic!("{name} is damaged, and its copy");
            };
            assert!(e.to_string().contains(name), "{e}");
            std::fs::write(&copy, &kept).unwrap();
            dir = TestBroker::on(dir, loopback(), |_| {}).await.stop().await;
        }
    }
}

/// K30: whatever keeps a broker off its directory is one line and an exit code, at once.
#[test]
fn k30_a_store_that_cannot_be_used_is_told_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let in_use = dir.path().join("in-use");
    let _holder = MessageStore::open(small_store(&in_use)).unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let rocks = dir.path().join("rocks");
    std::fs::create_dir_all(rocks.join("consumequeue")).unwrap();
    std::fs::write(rocks.join("consumequeue/CURRENT"), b"MANIFEST-000001\n").unwrap();
    for (root, reason) in [
        (in_use.as_path(), "a broker is running"),
        (file.as_path(), "store directory"),
        (std::path::Path::new("/proc/no/store"), "store directory"),
        (rocks.as_path(), "RocksDB"),
    ] {
        let conf = dir.path().join("broker.conf");
        let text = format!(
            "bindAddress=127.0.0.1\nbrokerIP1=127.0.0.1\nlistenPort=0\nstorePathRootDir={}\n",
            root.display()
        );
        std::fs::write(&conf, text).unwrap();
        let asked = Instant::now();
        let out = Command::new(env!("CARGO_BIN_EXE_rmq"))
            .args(["broker", "start", "-c"])
            .arg(&conf)
            .arg("--log-dir")
            .arg(dir.path().join("logs"))
            .env("HOME", dir.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(
            !out.status.success() && asked.elapsed() < Duration::from_secs(5),
            "{root:?}"
        );
        let text = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
        let told: Vec<_> = text.lines().filter(|line| line.contains(reason)).collect();
        assert!(
            !told.is_empty() && told[0].contains(root.to_str().unwrap()),
            "{root:?}: {text}"
        );
    }
}

/// K37, #1080: a client that died keeps its locks for the lease of 60 s, and no longer. Waits that long, so it runs with
/// `RMQ_TEST_LONG=1` alone; the table of locks has a test of its own that does not wait.
#[tokio::test(flavor = "multi_thread")]
async fn k37_a_dead_clients_lock_is_taken_over_when_its_lease_ends() {
    if std::env::var_os("RMQ_TEST_LONG").is_none() {
        return;
    }
    let broker = TestBroker::start().await;
    let (killed, other) = (broker.client().await, broker.client().await);
    killed.create_topic("t", 1).await;
    let request = |id: &str| {
        Json::new(LockBatchRequest {
            client_id: id.into(),
            consumer_group: "g".into(),
            mq_set: [MessageQueue {
                broker_name: "broker-t".into(),
                queue_id: 0,
                topic: "t".into(),
            }]
            .into(),
            only_this_broker: false,
        })
    };
    let locked = async |client: &Client, id: &str| {
        let answer = client.ok(LockBatchMq, request(id)).await.1.value;
        answer.lock_ok_mq_set.len()
    };
    assert_eq!(locked(&killed, "a").await, 1);
    let begin = Instant::now();
    killed.disconnect();
    within(Duration::from_secs(70), async || {
        tokio::time::sleep(Duration::from_millis(100)).await;
        locked(&other, "b").await == 1
    })
    .await;
    let took = begin.elapsed();
    assert!((60..65).contains(&took.as_secs()), "{took:?}");
    broker.stop().await;
}

/// K38, #7909: whether a message may be given back is a matter of the group's retry topic, not of its own topic.
#[tokio::test(flavor = "multi_thread")]
async fn k38_a_message_of_a_topic_that_takes_none_can_be_given_back() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.heartbeat("c", "g", "t", "*").await;
    let sent = client.send("t", 0, "", "one").await;
    client.create_topic_with("t", 1, 1, Perm::READ).await;
    let back = ConsumerSendMsgBack {
        offset: i64::from_str_radix(&sent.msg_id[16..32], 16).unwrap(),
        group: "g".into(),
        delay_level: 1,
        ..ConsumerSendMsgBack::default()
    };
    client.ok(back, ()).await;
    client.await_max("%RETRY%g", 0, 1).await;
    broker.stop().await;
}

/// K41: each of thousands of messages on a grid of seconds is delivered once and not early, though the store takes
/// nothing for a twentieth of the time; and no count goes below zero. 10,000 with `RMQ_TEST_LONG=1`.
#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::print_stdout)]
async fn k41_timers_come_once_each_and_never_early_while_writes_fail() {
    let Some(disk) = SmallDisk::mount(64) else {
        println!("SKIPPED: no right to mount a small file system");
        return;
    };
    let count: i64 = if std::env::var_os("RMQ_TEST_LONG").is_some() {
        10_000
    } else {
        2000
    };
    let root = disk.0.path().join("store");
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let broker = TestBroker::on(dir, loopback(), |store| {
        store.store_path_root_dir = root.clone();
        store.mapped_file_size_commit_log = 1024 * 1024;
        store.mapped_file_size_timer_log = 1024 * 1024;
        store.clean_resource_interval = 5;
    })
    .await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.create_topic("probe", 1).await;
    let first = (now_ms() / 1000 + 4) * 1000;
    let due = move |n: i64| first + n % 4 * 1000;
    let addr = broker.addr();
    let senders = (0..8).map(|sender| {
        let addr = addr.clone();
        tokio::spawn(async move {
            let client = Client::new(&addr).await;
            for n in (sender..count).step_by(8) {
                let at = due(n).to_string();
                let header = timer::with("t", &[("TIMER_DELIVER_MS", &at)]);
                client.ok(header, timer::body(n.to_string())).await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    let max = async || {
        let header = GetMaxOffset {
            topic: "t".into(),
            ..GetMaxOffset::default()
        };
        client.ok(header, ()).await.0.offset
    };
    // Nine tenths of the disk are full now and then: the store refuses every write.
    let filler = disk.0.path().join("filler");
    let free = |path: &std::path::Path| {
        rustix::fs::statvfs(path)
            .map(|s| s.f_bavail * s.f_frsize)
            .unwrap()
    };
    let mut refused = 0;
    let until = Instant::now() + Duration::from_secs(60);
    while max().await < count {
        assert!(Instant::now() < until, "{} of {count}", max().await);
        let left = free(disk.0.path()).saturating_sub(4 * 1024 * 1024);
        std::fs::write(&filler, vec![1; usize::try_from(left).unwrap()]).unwrap();
        tokio::time::sleep(Duration::from_millis(15)).await;
        refused += u32::from(client.ask(message("probe", 0), "x".into()).await.code != 0);
        std::fs::remove_file(&filler).unwrap();
        tokio::time::sleep(Duration::from_millis(285)).await;
    }
    assert!(refused > 0, "no write failed");
    let got = timer::all(&client, "t").await;
    assert_eq!(got.len() as i64, count);
    let distinct: BTreeSet<&str> = got.iter().map(|one| one.body.as_str()).collect();
    assert_eq!(distinct.len() as i64, count);
    for one in &got {
        let at = due(one.body.parse().unwrap());
        assert!(one.at >= at, "{} came {} ms early", one.body, at - one.at);
    }
    broker.stop().await;
    let metrics = std::fs::read_to_string(root.join("config/timermetrics")).unwrap();
    assert!(metrics.contains("count") && !metrics.contains(":-"), "{metrics}");
}

/// K43: the broker runs with a clock that is 24 years ahead, which is set right, set an hour ahead, set right again
/// while it runs; then it is started once more. The name server's clock is right all the time.
#[tokio::test(flavor = "multi_thread")]
async fn k43_a_clock_that_jumps_stops_nothing() {
    const YEARS: i64 = 24 * 365 * 86_400;
    let (dir, ports) = (scratch(), Block::take());
    let clock = match Clock::make(dir.path()) {
        Ok(clock) => clock,
        Err(why) => {
            crate::support::loud(&format!("SKIPPED: {why}"));
            return;
        }
    };
    let namesrv = local(ports.namesrv());
    let _namesrv = program::namesrv(dir.path(), ports.namesrv());
    let settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    let settings = java::with(settings, "messageDelayLevel", "1s 3s");
    let start = || program::broker_in(dir.path(), &namesrv, &settings, &clock.environment());
    clock.set_ahead(YEARS);
    let mut server = start();
    let addr = local(ports.broker());
    let client = Client::new(&addr).await;
    client.create_topic("t", 1).await;
    let mut seen = all_works(&client, &namesrv, 0, YEARS).await;
    // What waits when the clock is set right waits for its whole delay at most.
    client
        .ok(timer::with("t", &[("DELAY", "2")]), timer::body("x"))
        .await;
    client
        .ok(timer::with("t", &[("TIMER_DELAY_MS", "2000")]), timer::body("x"))
        .await;
    within(TIMEOUT, async || {
        timer::figure(&client, "timerCongestNum").await == "1"
    })
    .await;
    // The timer has taken that one, and the next one perhaps not.
    client
        .ok(timer::with("t", &[("TIMER_DELAY_MS", "1000")]), timer::body("x"))
        .await;
    seen += 1;
    clock.set_ahead(0);
    seen += 2;
    within(Duration::from_secs(20), async || {
        timer::all(&client, "t").await.len() == seen
    })
    .await;
    seen = all_works(&client, &namesrv, 1, 0).await;
    clock.set_ahead(3600);
    seen = all_works(&client, &namesrv, 2, 3600).await.max(seen);
    clock.set_ahead(0);
    seen = all_works(&client, &namesrv, 3, 0).await.max(seen);
    client.disconnect();
    server.process.terminate(Duration::from_secs(10));
    let _server = start();
    let client = Client::new(&addr).await;
    assert_eq!(
        timer::all(&client, "t").await.len(),
        seen,
        "and nothing comes again"
    );
    all_works(&client, &namesrv, 4, 0).await;
}

/// Registration, subscription, sending, both kinds of delay. Returns how many messages the topic has then.
async fn all_works(client: &Client, namesrv: &str, round: i64, ahead_s: i64) -> usize {
    let topic = format!("new-{round}");
    client.create_topic(&topic, 1).await;
    wire::wait_for_route(namesrv, &topic, "broker-a");
    // A client's version of its subscription is its clock.
    let tag = format!("T{round}");
    let mut beat = beat("c", "g", "t", &tag);
    beat.consumer_data_set[0].subscription_data_set[0].sub_version = now_ms() + ahead_s * 1000;
    client.ok(HeartBeat, Json::new(beat)).await;
    let ask = GetConsumerConnectionList {
        consumer_group: "g".into(),
    };
    let table = client.ok(ask, ()).await.1.value.subscription_table;
    assert_eq!(table["t"].sub_string, tag);
    let before = timer::all(client, "t").await.len();
    let begun = Instant::now();
    client.send("t", 0, "", "now").await;
    client
        .ok(timer::with("t", &[("DELAY", "1")]), timer::body("later"))
        .await;
    client
        .ok(
            timer::with("t", &[("TIMER_DELAY_MS", "1000")]),
            timer::body("later"),
        )
        .await;
    client.await_max("t", 0, before as i64 + 1).await;
    within(Duration::from_secs(20), async || {
        let count = timer::all(client, "t").await.len();
        assert!(count <= before + 3, "{count}, {before} before round {round}");
        // Two clocks count here, this one and the broker's.
        assert!(
            count <= before + 1 || begun.elapsed() > Duration::from_millis(950),
            "early, round {round}"
        );
        count == before + 3
    })
    .await;
    before + 3
}

/// K47, K48, the server's part: figures of a group are per queue, those that are not known are not made up, and an
/// offset beyond its queue is told as it is and not as a lag below zero.
#[tokio::test(flavor = "multi_thread")]
async fn k47_lags_are_told_by_queue_and_never_made_up() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 8).await;
    for queue_id in 0..8 {
        for _ in 0..10 {
            client.send("t", queue_id, "", "x").await;
        }
        client.await_max("t", queue_id, 10).await;
    }
    client.heartbeat("c", "g", "t", "*").await;
    // One queue is stuck, one is ahead of the broker, one has no offset.
    for (queue_id, offset) in [(0, 10), (1, 10), (2, 3), (3, 10), (4, 10), (5, 15), (6, 10)] {
        let commit = UpdateConsumerOffset {
            consumer_group: "g".into(),
            topic: "t".into(),
            queue_id: Some(queue_id),
            commit_offset: Some(offset),
            ..UpdateConsumerOffset::default()
        };
        client.ask(commit, ()).await;
    }
    let ask = GetConsumeStats {
        consumer_group: "g".into(),
        ..GetConsumeStats::default()
    };
    let table = client.ok(ask, ()).await.1.value.offset_table;
    assert_eq!(table.len(), 8);
    let of = |queue_id: i32| {
        let found = table.iter().find(|(queue, _)| queue.queue_id == queue_id);
        let one = found.unwrap().1;
        (one.broker_offset, one.consumer_offset)
    };
    assert_eq!(
        [of(0), of(1), of(2), of(7)],
        [(10, 10), (10, 10), (10, 3), (10, 0)]
    );
    assert!(of(5).0 == 10 && [10, 15].contains(&of(5).1), "{:?}", of(5));
    let stuck = table.iter().find(|(queue, _)| queue.queue_id == 2).unwrap().1;
    // When the last message that was consumed was stored: the age of what is unread.
    assert!(
        (now_ms() - 60_000..=now_ms()).contains(&stuck.last_timestamp),
        "{stuck:?}"
    );
    // Whether a group broadcasts, which makes its offsets mean nothing here, is told by its clients.
    let mut beat = beat("b", "everybody", "t", "*");
    beat.consumer_data_set[0].message_model = MessageModel::Broadcasting;
    client.ok(HeartBeat, Json::new(beat)).await;
    for (group, model) in [
        ("everybody", MessageModel::Broadcasting),
        ("g", MessageModel::Clustering),
    ] {
        let ask = GetConsumerConnectionList {
            consumer_group: group.into(),
        };
        assert_eq!(client.ok(ask, ()).await.1.value.message_model, model);
    }
    broker.stop().await;
}
