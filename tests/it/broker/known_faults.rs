//! Known faults of such systems that show at a broker as a whole. The numbers are those of the list in the tests of the
//! store.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rmq::broker::{Broker, Settings};
use rmq::config_file::ConfigFile;
use rmq::protocol::requests::QueryConsumerOffset;
use rmq::store::MessageStore;

use super::support::*;
use crate::store_life::{bodies, settled};

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
