//! Servers that hang, refuse or lie: a row instead of a wait, a warning instead of an end.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use rmq::protocol::body::{BrokerData, ClusterInfo, QueueData, TopicRouteData};
use rmq::protocol::frame::Frame;
use rmq::protocol::model::Perm;
use rmq::protocol::{Body as _, Json, Request as _, codes, requests};
use rmq::remoting::{Listener, Peer, Refusal, Reply, Service};

use super::{Cluster, Rmq, items};

/// Lists brokers of its own choice and answers nothing else.
pub(super) struct FakeNameServer {
    pub(super) brokers: Vec<(&'static str, i64, String)>,
}

impl Service for FakeNameServer {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        if request.code != requests::GetBrokerClusterInfo::CODE {
            return Refusal::new(codes::TOPIC_NOT_EXIST, "no route").into();
        }
        let mut info = ClusterInfo::default();
        for (name, id, addr) in &self.brokers {
            let set = info
                .broker_addr_table
                .entry((*name).into())
                .or_insert_with(|| BrokerData {
                    broker_name: (*name).into(),
                    cluster: "C".into(),
                    ..BrokerData::default()
                });
            set.broker_addrs.insert(*id, addr.clone());
            info.cluster_addr_table
                .entry("C".into())
                .or_default()
                .insert((*name).into());
        }
        Reply {
            body: Json::new(info).encode(),
            ..Reply::default()
        }
    }
}

/// A broker of a time before GET_TOPIC_CONFIG; keeps what it is told. It is its own name server, too.
#[derive(Default)]
struct Old {
    addr: OnceLock<String>,
    queues: Mutex<QueueData>,
    wrote: Mutex<Vec<requests::UpdateAndCreateTopic>>,
}

impl Service for Old {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        let addr = self.addr.get().unwrap().clone();
        let set = BrokerData {
            broker_name: "old".into(),
            cluster: "C".into(),
            broker_addrs: [(0, addr)].into(),
            ..BrokerData::default()
        };
        let body = match request.code {
            requests::GetBrokerClusterInfo::CODE => Json::new(ClusterInfo {
                broker_addr_table: [("old".to_owned(), set)].into(),
                cluster_addr_table: [("C".to_owned(), ["old".to_owned()].into())].into(),
                ..ClusterInfo::default()
            })
            .encode(),
            requests::GetRouteinfoByTopic::CODE => Json::new(TopicRouteData {
                broker_datas: vec![set],
                queue_datas: vec![self.queues.lock().unwrap().clone()],
                ..TopicRouteData::default()
            })
            .encode(),
            requests::UpdateAndCreateTopic::CODE => {
                let topic: requests::UpdateAndCreateTopic = request.fields.to_value().unwrap();
                let mut queues = self.queues.lock().unwrap();
                queues.perm = topic.perm;
                queues.read_queue_nums = topic.read_queue_nums;
                queues.write_queue_nums = topic.write_queue_nums;
                self.wrote.lock().unwrap().push(topic);
                Vec::new()
            }
            code => return Refusal::new(codes::REQUEST_CODE_NOT_SUPPORTED, format!("no {code}")).into(),
        };
        Reply {
            body,
            ..Reply::default()
        }
    }
}

/// A broker that cannot be asked for a topic is read through the route: its queue counts stay.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_broker_is_updated_from_its_route() {
    let home = tempfile::tempdir().unwrap();
    let old = Arc::new(Old::default());
    *old.queues.lock().unwrap() = QueueData {
        broker_name: "old".into(),
        perm: Perm(4),
        read_queue_nums: 11,
        write_queue_nums: 7,
        ..QueueData::default()
    };
    let free: SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::start(free, old.clone()).await.unwrap();
    let addr = listener.addr().to_string();
    old.addr.set(addr.clone()).unwrap();
    let rmq = Rmq::new(&addr, home.path());
    let ran = rmq.line("topic update T --perm 6 --yes").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("too old"), "{ran:?}");
    let wrote = old.wrote.lock().unwrap().clone();
    assert_eq!(wrote.len(), 1);
    let queues = (wrote[0].read_queue_nums, wrote[0].write_queue_nums, wrote[0].perm);
    assert_eq!(queues, (11, 7, Perm(6)));
    listener.stop(Duration::ZERO).await;
}

/// Never answers.
pub(super) struct Hanging;

impl Service for Hanging {
    async fn handle(self: Arc<Self>, _: Peer, _: Frame) -> Reply {
        std::future::pending().await
    }
}

/// Says no to everything, and counts.
struct Refusing(AtomicUsize);

impl Service for Refusing {
    async fn handle(self: Arc<Self>, _: Peer, _: Frame) -> Reply {
        self.0.fetch_add(1, Ordering::SeqCst);
        Refusal::new(codes::NO_PERMISSION, "no, and 不行").into()
    }
}

pub(super) async fn listen<S: Service>(service: S) -> Listener {
    let free: SocketAddr = ([127, 0, 0, 1], 0).into();
    Listener::start(free, Arc::new(service)).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_and_hanging_brokers_are_rows_and_cost_one_deadline() {
    let home = tempfile::tempdir().unwrap();
    let (hanging, refusing) = (listen(Hanging).await, listen(Refusing(AtomicUsize::new(0))).await);
    let mut brokers = vec![
        ("broker-dead", 0, "127.0.0.1:1".to_owned()),
        ("broker-no", 0, refusing.addr().to_string()),
    ];
    for id in 0..6 {
        brokers.push(("broker-hangs", id, hanging.addr().to_string()));
    }
    let name_server = listen(FakeNameServer { brokers }).await;
    let rmq = Rmq::new(&name_server.addr().to_string(), home.path());
    for noun in ["cluster", "broker"] {
        let start = Instant::now();
        let ran = rmq.run(&[noun, "list", "--timeout", "500ms", "-o", "json"]).await;
        assert!(
            start.elapsed() < Duration::from_millis(2500),
            "{:?}",
            start.elapsed()
        );
        assert_eq!(ran.code, 3, "{ran:?}");
        let rows = items(&ran);
        assert_eq!(rows.len(), if noun == "cluster" { 1 } else { 8 }, "{ran:?}");
        for row in rows {
            assert_ne!(row["state"], "ok");
            assert_eq!(row["in_tps_10s"], serde_json::Value::Null, "nobody said zero");
        }
    }
    let told = rmq.run(&["broker", "get-config", "broker-no"]).await;
    assert_eq!(told.code, 5, "{told:?}");
    for part in [
        "16 NO_PERMISSION",
        "不行",
        "broker-no",
        &refusing.addr().to_string(),
        "GET_BROKER_CONFIG",
    ] {
        assert!(told.stderr.contains(part), "{part} is missing: {told:?}");
    }
    let dead = rmq.run(&["broker", "describe", "broker-dead"]).await;
    assert_eq!(dead.code, 3, "{dead:?}");
    assert!(
        dead.stderr.contains("connection refused") && dead.stderr.contains("still lists it"),
        "{dead:?}"
    );
    for listener in [hanging, refusing, name_server] {
        listener.stop(Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_name_server_is_skipped_with_one_warning() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let hanging = listen(Hanging).await;
    for dead in ["127.0.0.1:1".to_owned(), hanging.addr().to_string()] {
        for list in [
            format!("{dead};{}", cluster.addr),
            format!("{};{dead}", cluster.addr),
        ] {
            let rmq = Rmq::new(&list, cluster.dir.path());
            // Several runs: where a run starts is random.
            for _ in 0..3 {
                let start = Instant::now();
                let ran = rmq
                    .run(&["topic", "list", "--all", "-o", "json", "--timeout", "1s"])
                    .await;
                assert_eq!(ran.code, 0, "{ran:?}");
                assert!(
                    start.elapsed() < Duration::from_millis(900),
                    "{:?}",
                    start.elapsed()
                );
                assert!(!items(&ran).is_empty());
                assert!(ran.stderr.matches("warning").count() <= 1, "{ran:?}");
            }
            // Everyone is asked here, so it is always told.
            let ran = rmq.run(&["cluster", "list", "--timeout", "500ms"]).await;
            assert_eq!(ran.code, 0, "{ran:?}");
            assert_eq!(
                ran.stderr
                    .matches(&format!("name server {dead} was skipped"))
                    .count(),
                1,
                "{ran:?}"
            );
        }
    }
    hanging.stop(Duration::ZERO).await;
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_dead_broker_of_two_is_partial_and_the_other_is_still_shown() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    assert_eq!(rmq.run(&["topic", "create", "T", "--yes"]).await.code, 0);
    // Behind an address map that leads nowhere, broker-b is dead for this client alone.
    let there = cluster.brokers[1].addr().to_string();
    let map = format!("{there}=127.0.0.1:1");
    let mapped = |args: &[&str]| -> Vec<String> {
        args.iter()
            .map(|a| (*a).to_owned())
            .chain([
                "--broker-map".to_owned(),
                map.clone(),
                "-o".to_owned(),
                "json".to_owned(),
            ])
            .collect()
    };
    for args in [
        &["broker", "list"][..],
        &["topic", "list"],
        &["topic", "get", "T"],
        &["topic", "status", "T"],
        &["group", "list", "--all"],
    ] {
        let args = mapped(args);
        let ran = rmq
            .run(&args.iter().map(String::as_str).collect::<Vec<_>>())
            .await;
        assert_eq!(ran.code, 7, "{args:?}: {ran:?}");
        assert!(!items(&ran).is_empty(), "{args:?}: {ran:?}");
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(document["errors"][0]["kind"], "connection", "{ran:?}");
    }
    // A change goes on with the others and has a row for each (F16).
    let args = mapped(&["topic", "update", "T", "--perm", "4", "--yes"]);
    let ran = rmq
        .run(&args.iter().map(String::as_str).collect::<Vec<_>>())
        .await;
    assert_eq!(ran.code, 7, "{ran:?}");
    let results: Vec<(bool, bool)> = items(&ran)
        .iter()
        .map(|row| {
            (
                row["target"].as_str().unwrap().starts_with("broker-a"),
                row["result"] == "ok",
            )
        })
        .collect();
    assert_eq!(results, [(true, true), (false, false)], "{ran:?}");
    let perms: Vec<i64> = rmq
        .rows(&["topic", "get", "T"])
        .await
        .iter()
        .map(|row| row["perm_bits"].as_i64().unwrap())
        .collect();
    assert_eq!(perms, [4, 6]);
    cluster.stop().await;
}

/// `--dry-run` and a read-only context hold at the transport: no code outside the read list leaves.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_client_sends_no_change() {
    use rmq::client::{Client, Error, Options, Server};
    let refusing = Arc::new(Refusing(AtomicUsize::new(0)));
    let free: SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::start(free, refusing.clone()).await.unwrap();
    let client = Client::new(Options {
        name_servers: vec![listener.addr().to_string()],
        read_only: true,
        ..Options::default()
    });
    let server = Server::at(listener.addr().to_string());
    let changes = [
        client
            .set_broker_config(&server, &[("a".into(), "b".into())], client.deadline())
            .await,
        client
            .delete_topic_on_broker(&server, "T", client.deadline())
            .await,
        client
            .delete_topic_on_name_server(&server.addr, "T", "C", client.deadline())
            .await,
        client
            .write_topic(
                &server,
                None,
                &rmq::protocol::body::TopicConfig::default(),
                client.deadline(),
            )
            .await,
        client
            .call(&server, &requests::HeartBeat, Json::default(), client.deadline())
            .await
            .map(drop),
    ];
    for change in changes {
        assert!(matches!(change, Err(Error::Guarded { .. })), "{change:?}");
    }
    assert_eq!(refusing.0.load(Ordering::SeqCst), 0);
    assert!(client.broker_config(&server, client.deadline()).await.is_err());
    assert_eq!(refusing.0.load(Ordering::SeqCst), 1);
    listener.stop(Duration::ZERO).await;
}
