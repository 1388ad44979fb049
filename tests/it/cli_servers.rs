//! Commands on servers: name servers, brokers, KV, users, access rules, controllers.

mod accounts;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use rmq::client::{Client, Options};
use rmq::namesrv::{NameServer, NamesrvConfig};
use rmq::protocol::body::{
    AclInfo, BrokerData, ClusterInfo, PolicyInfo, SubscriptionGroupTable, TopicConfigTable, UserInfo,
};
use rmq::protocol::frame::Frame;
use rmq::protocol::{Body as _, Json, Request as _, Text, codes, requests as r};
use rmq::remoting::{Listener, Peer, Refusal, Reply, Service};
use serde_json::{Value, json};

use crate::cli::{Cluster, Ran, Rmq, broker, items};
use crate::support::java;
use crate::support::ports::Block;
use crate::support::session::Session;
use crate::support::{local, rmq as program, scratch, text};

/// Two name servers and a master that registers with both.
struct Pair {
    name_servers: Vec<NameServer>,
    broker: Arc<rmq::broker::Broker>,
    rmq: Rmq,
    dir: tempfile::TempDir,
}

impl Pair {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut name_servers = Vec::new();
        for n in 0..2 {
            let config = NamesrvConfig {
                listen_port: 0,
                bind_address: "127.0.0.1".into(),
                kv_config_path: dir.path().join(format!("kv{n}.json")).display().to_string(),
                ..NamesrvConfig::default()
            };
            name_servers.push(NameServer::start(config).await.unwrap());
        }
        let addrs: Vec<String> = name_servers.iter().map(|n| n.addr().to_string()).collect();
        let list = addrs.join(";");
        let broker = broker("broker-a", &list, &dir.path().join("store")).await;
        let rmq = Rmq::new(&list, dir.path());
        let pair = Self {
            name_servers,
            broker,
            rmq,
            dir,
        };
        pair.until("namesrv diff", 0).await;
        pair
    }

    fn addr(&self, n: usize) -> String {
        self.name_servers[n].addr().to_string()
    }

    /// An undo line for these name servers.
    fn there(&self, line: &str) -> String {
        format!("{line} -n {},{}", self.addr(0), self.addr(1))
    }

    /// Runs a command until it ends with this code: brokers register in their own time.
    async fn until(&self, line: &str, code: i32) -> Ran {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        loop {
            let ran = self.rmq.line(line).await;
            if ran.code == code {
                let listed = self.rmq.line("broker list -o name").await;
                if listed.stdout.trim() == "broker-a" {
                    return ran;
                }
            }
            assert!(std::time::Instant::now() < end, "{line}: {ran:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn stop(self) {
        self.broker.stop().await.unwrap();
        for name_server in self.name_servers {
            name_server.stop().await;
        }
    }
}

fn undo(ran: &Ran) -> String {
    let last = ran.stdout.lines().last().unwrap_or_default();
    last.strip_prefix("undo: rmq ")
        .unwrap_or_else(|| panic!("no undo: {ran:?}"))
        .to_owned()
}

async fn ok(rmq: &Rmq, line: &str) -> Ran {
    let ran = rmq.line(line).await;
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
    ran
}

#[tokio::test(flavor = "multi_thread")]
async fn name_servers_are_configured_together_and_compared() {
    let pair = Pair::start().await;
    let rmq = &pair.rmq;
    let line = "namesrv set-config scanNotActiveBrokerInterval=6000 enableTopicList=false --yes";
    let set = ok(rmq, line).await;
    assert_eq!(
        set.stdout.matches(" ok, until its next start\n").count(),
        4,
        "without a file the change is kept in memory: {set:?}"
    );
    let scope = "set configuration of the name servers (name servers ";
    assert!(
        set.stderr.starts_with(scope) && set.stderr.lines().count() == 1,
        "an rmq name server takes both at once: {set:?}"
    );
    let rows = rmq.rows(&["namesrv", "get-config", "enableTopicList"]).await;
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row["value"] == "false"), "{rows:?}");
    for undo in undo(&set).split(" && rmq ") {
        // The address list of one name server holds no separator.
        ok(rmq, &format!("{undo} --yes")).await;
    }
    assert_eq!(
        ok(rmq, &format!("{line} --dry-run"))
            .await
            .stdout
            .matches("planned")
            .count(),
        4
    );
    let unchanged = ok(rmq, "namesrv set-config enableTopicList=true --yes -o json").await;
    assert_eq!(items(&unchanged), Vec::<Value>::new());
    for (line, code, part) in [
        (
            "namesrv set-config enableTopicLst=false --yes",
            4,
            "enableTopicList",
        ),
        ("namesrv set-config enableTopicList=no --yes", 2, "true or false"),
        (
            "namesrv set-config scanNotActiveBrokerInterval=1 --dry-run",
            2,
            "from 10 to 3600000",
        ),
        (
            "namesrv set-config listenPort=1234 --dry-run",
            9,
            "configStorePath",
        ),
        (
            "broker set-config broker-a fileReservedTime=0 --dry-run",
            2,
            "from 1 to 1000000",
        ),
        ("namesrv set-config enableTopicList=false", 13, "--yes"),
        ("namesrv get-config nope", 4, "no configuration key"),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        assert!(ran.stderr.contains(part), "{line}: {ran:?}");
    }

    ok(rmq, "topic create Orders --queues 4 --yes").await;
    pair.until("namesrv diff", 0).await;
    let routes = rmq.rows(&["namesrv", "routes"]).await;
    assert_eq!(routes.len(), 1, "{routes:?}");
    assert_eq!(routes[0]["namesrv"], json!([pair.addr(0), pair.addr(1)]));
    assert_eq!(
        (&routes[0]["topic"], &routes[0]["write_queues"]),
        (&json!("Orders"), &json!(4))
    );
    // One of them forgets the write permission: the route is told twice, and the difference.
    ok(
        rmq,
        &format!("broker wipe-write broker-a --yes -n {}", pair.addr(1)),
    )
    .await;
    let routes = rmq.rows(&["namesrv", "routes", "Orders"]).await;
    assert_eq!(routes.len(), 2, "{routes:?}");
    let differs = rmq.line("namesrv diff Orders -o json").await;
    assert_eq!(differs.code, 10, "{differs:?}");
    let found = items(&differs);
    assert_eq!(found.len(), 1, "{differs:?}");
    assert_eq!(
        (&found[0]["kind"], &found[0]["name"], &found[0]["field"]),
        (&json!("topic"), &json!("Orders"), &json!("broker-a"))
    );
    assert_eq!(found[0]["values"][pair.addr(0)], "4/4 RW-");
    assert_eq!(found[0]["values"][pair.addr(1)], "4/4 R--");
    assert_eq!(rmq.line("namesrv routes NoSuch").await.code, 4);
    pair.stop().await;
}

/// Each name server keeps entries of its own, and nothing brings them to the others.
#[tokio::test(flavor = "multi_thread")]
async fn entries_that_name_servers_do_not_share_are_a_difference() {
    let pair = Pair::start().await;
    let rmq = &pair.rmq;
    pair.until("namesrv diff --kv OWN", 0).await;
    for entry in ["ORDER_TOPIC_CONFIG Orders broker-a:4", "OWN k v"] {
        ok(rmq, &format!("kv set {entry} --yes -n {}", pair.addr(1))).await;
    }
    for (line, wanted) in [
        (
            "namesrv diff",
            &[("ORDER_TOPIC_CONFIG", "Orders", "broker-a:4")][..],
        ),
        (
            "namesrv diff Orders",
            &[("ORDER_TOPIC_CONFIG", "Orders", "broker-a:4")],
        ),
        ("namesrv diff Other", &[]),
        (
            "namesrv diff --kv OWN",
            &[("ORDER_TOPIC_CONFIG", "Orders", "broker-a:4"), ("OWN", "k", "v")],
        ),
    ] {
        let differs = rmq.line(&format!("{line} -o json")).await;
        assert_eq!(
            differs.code,
            if wanted.is_empty() { 0 } else { 10 },
            "{differs:?}"
        );
        let found = items(&differs);
        assert_eq!(found.len(), wanted.len(), "{differs:?}");
        for (row, (namespace, key, value)) in found.iter().zip(wanted) {
            assert_eq!(
                (&row["kind"], &row["name"], &row["field"]),
                (&json!("kv"), &json!(namespace), &json!(key))
            );
            assert_eq!(
                row["values"],
                json!({ pair.addr(0): "absent", pair.addr(1): value })
            );
        }
    }
    pair.stop().await;
}

/// A route that a name server keeps of a topic that no broker has: its delete says so, and the difference says what helps.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_server_that_misses_a_delete_is_a_failed_row() {
    let pair = Pair::start().await;
    let rmq = &pair.rmq;
    ok(rmq, "topic create Orders --yes").await;
    pair.until("namesrv diff", 0).await;
    // Behind a name that nobody listens at, the second one is away for this command.
    let gone = rmq
        .line(&format!(
            "topic delete Orders --force --yes --timeout 2s -n {};127.0.0.1:1 -o json",
            pair.addr(0)
        ))
        .await;
    assert_eq!(gone.code, 7, "{gone:?}");
    let rows = items(&gone);
    let of = |target: &str| {
        rows.iter()
            .find(|r| r["target"] == target)
            .unwrap_or_else(|| panic!("no row of {target}: {gone:?}"))
    };
    assert_eq!(of(&format!("name server {}", pair.addr(0)))["result"], "ok");
    assert_ne!(of("name server 127.0.0.1:1")["result"], "ok");
    let differs = pair.until("namesrv diff Orders", 10).await;
    let hint = differs
        .stderr
        .lines()
        .find_map(|l| l.trim().strip_prefix("Try: rmq "))
        .unwrap()
        .to_owned();
    assert!(hint.starts_with("topic delete Orders --cluster "), "{differs:?}");
    ok(rmq, &format!("{hint} --yes")).await;
    ok(rmq, "namesrv diff Orders").await;
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn write_permission_goes_and_comes_back_with_proof() {
    let pair = Pair::start().await;
    let rmq = &pair.rmq;
    ok(rmq, "topic create Orders --queues 4 --yes").await;
    pair.until("namesrv diff", 0).await;
    let wiped = ok(rmq, "broker wipe-write broker-a --yes").await;
    assert_eq!(undo(&wiped), pair.there("broker restore-write broker-a"));
    ok(rmq, &format!("{} --yes", undo(&wiped))).await;
    ok(rmq, "topic create Closed --perm 4 --yes").await;
    pair.until("namesrv diff", 0).await;
    let perms = async |topic: &str| -> Vec<i64> {
        let rows = rmq.rows(&["namesrv", "routes", topic]).await;
        rows.iter()
            .map(|row| row["perm_bits"].as_i64().unwrap())
            .collect()
    };
    let wiped = ok(rmq, "broker wipe-write broker-a --yes").await;
    assert_eq!(wiped.stdout.matches("name server ").count(), 2, "{wiped:?}");
    assert_eq!(perms("Orders").await, [4]);
    // Restoring would open what was closed: that is no undo, and is said.
    assert!(!wiped.stdout.contains("undo:"), "{wiped:?}");
    assert!(
        wiped
            .stderr
            .contains("restore-write would open these as well: Closed\n"),
        "{wiped:?}"
    );
    assert_eq!(
        ok(rmq, "broker wipe-write broker-a --yes -o json").await.stderr,
        ""
    );
    let restore = rmq.line("broker restore-write broker-a").await;
    assert_eq!(restore.code, 13);
    assert!(restore.stderr.contains("not open: Closed"), "{restore:?}");
    ok(rmq, "broker restore-write broker-a --yes").await;
    assert_eq!((perms("Orders").await, perms("Closed").await), (vec![6], vec![6]));
    // F4: mqadmin says "OK, 0".
    assert_eq!(rmq.line("broker wipe-write broker-z --yes").await.code, 4);

    let closed = ok(rmq, "broker set-permission broker-a -W --yes").await;
    assert_eq!((perms("Orders").await, perms("Closed").await), (vec![4], vec![4]));
    ok(rmq, &format!("{} --yes", undo(&closed))).await;
    assert_eq!((perms("Orders").await, perms("Closed").await), (vec![6], vec![4]));
    // A name server that cannot be asked proves nothing.
    let half = rmq
        .line(&format!(
            "broker set-permission broker-a -W --yes --timeout 1s -n {};127.0.0.1:1",
            pair.addr(0)
        ))
        .await;
    assert_eq!(half.code, 7, "{half:?}");
    assert!(half.stdout.contains("127.0.0.1:1 could not be asked"), "{half:?}");
    ok(rmq, "broker set-permission broker-a +W --yes").await;
    assert_eq!(rmq.line("broker set-permission broker-a 9 --yes").await.code, 2);
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broker_settings_are_checked_told_and_undone() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    // Every master, several keys at once.
    let set = ok(&rmq, "broker set-config fileReservedTime=48 traceOn=false --yes").await;
    assert_eq!(set.stdout.matches(" ok\n").count(), 4, "{set:?}");
    for undo in undo(&set).split(" && rmq ") {
        ok(&rmq, &format!("{undo} --yes")).await;
    }
    let rows = rmq
        .rows(&["broker", "get-config", "broker-b", "fileReservedTime"])
        .await;
    assert_eq!(rows[0]["value"], "72");
    // The broker itself tells what waits for its next start.
    let waits = rmq
        .line("broker set-config broker-a maxHashSlotNum=300 traceOn=false")
        .await;
    assert_eq!(waits.code, 13);
    assert!(
        waits
            .stderr
            .contains("next start of the broker: maxHashSlotNum\n"),
        "{waits:?}"
    );
    for (line, code) in [
        ("broker set-config broker-a --yes", 2),
        ("broker set-config broker-a fileReservedTime=x --yes", 2),
        ("broker set-config broker-a fileReservedTim=48 --yes", 4),
        ("broker set-config broker-z fileReservedTime=48 --yes", 4),
        ("broker set-config broker-a brokerConfigPath=/x --yes", 4),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{line}: {ran:?}");
    }

    let stats = rmq.rows(&["broker", "stats", "broker-a"]).await;
    let keys: Vec<&str> = stats.iter().map(|row| row["key"].as_str().unwrap()).collect();
    assert!(
        keys.contains(&"putTps") && keys.contains(&"bootTimestamp"),
        "{keys:?}"
    );
    let ha = rmq.rows(&["broker", "ha"]).await;
    assert_eq!(ha.len(), 2);
    assert_eq!(
        (
            &ha[0]["role"],
            &ha[0]["slaves"],
            &ha[0]["in_sync_slaves"],
            &ha[0]["peer"]
        ),
        (&json!("master"), &json!(0), &json!(0), &Value::Null)
    );
    let stats = rmq.rows(&["cluster", "stats"]).await;
    assert_eq!(stats.len(), 2);
    // An empty store keeps nothing: mqadmin prints the hours since 1970.
    assert_eq!(stats[0]["retained_ms"], Value::Null);
    let described = ok(&rmq, "cluster describe -o json").await;
    let described = &items(&described)[0];
    assert_eq!(
        (&described["masters"], &described["name"]),
        (&json!(2), &json!("DefaultCluster"))
    );
    assert_eq!(described["broker_list"].as_array().unwrap().len(), 2);
    assert_eq!(rmq.line("cluster describe nope").await.code, 4);

    let ahead = ok(&rmq, "broker set-readahead random broker-a --yes").await;
    let rows = rmq
        .rows(&["broker", "get-config", "broker-a", "dataReadAheadEnable"])
        .await;
    assert_eq!(rows[0]["value"], "false");
    ok(&rmq, &format!("{} --yes", undo(&ahead))).await;
    assert_eq!(
        ok(&rmq, "broker set-readahead normal --yes -o json").await.stderr,
        ""
    );

    let cold = ok(&rmq, "broker cold-flow set CG_LAG 1000 --yes").await;
    let rows = rmq.rows(&["broker", "cold-flow", "list"]).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(
        (
            &rows[0]["group"],
            &rows[0]["threshold"],
            &rows[0]["own_threshold"]
        ),
        (&json!("CG_LAG"), &json!(1000), &json!(true))
    );
    for undo in undo(&cold).split(" && rmq ") {
        ok(&rmq, &format!("{undo} --yes")).await;
    }
    assert_eq!(
        rmq.rows(&["broker", "cold-flow", "list"]).await,
        Vec::<Value>::new()
    );
    assert_eq!(rmq.line("broker cold-flow set CG_LAG -1").await.code, 2);

    for (line, code, part) in [
        ("broker clean-cq broker-a", 13, "clean expired consume queues"),
        ("broker clean-cq broker-a --yes", 0, ""),
        // A bare --yes names nothing; mqadmin's lines never did.
        ("broker clean-commitlog --yes", 13, "--yes=DefaultCluster"),
        ("broker clean-cq --yes", 13, "--yes alone names nothing"),
        (
            "broker clean-unused-topics --yes",
            13,
            "--yes alone names nothing",
        ),
        ("broker clean-commitlog --yes=DefaultCluster", 0, ""),
        ("mqadmin deleteExpiredCommitLog", 0, "is now"),
        ("mqadmin cleanExpiredCQ", 0, "is now"),
        // Refused before it is done, not after.
        (
            "broker clean-cq broker-a --yes -o prometheus",
            2,
            "was not done: a change has no metrics",
        ),
        (
            "message send --topic T --body x --create -o prometheus",
            2,
            "was not done",
        ),
        ("broker clean-unused-topics --cluster DefaultCluster --yes", 0, ""),
        ("broker clean-cq --cluster nope --yes", 4, "nope"),
        (
            "broker reset-flush-offset broker-a --to 0 --yes",
            9,
            "only a slave",
        ),
        ("broker epoch broker-a", 12, "enableControllerMode"),
        (
            "broker container add 127.0.0.1:1 --broker-config x --yes",
            3,
            "connection refused",
        ),
        ("broker pop-rollback broker-a --yes", 12, "RocksDB"),
        ("broker check-cq --broker broker-a --yes", 12, "RocksDB"),
        ("broker export-config broker-a --yes", 12, "RocksDB"),
        (
            "user list",
            12,
            "authenticationMetadataProvider and authorizationMetadataProvider",
        ),
        ("user get alice", 12, "authenticationMetadataProvider"),
        (
            "user create alice --password-from env:HOME --yes",
            12,
            "MetadataProvider",
        ),
        (
            "user create alice --password-from hunter2",
            2,
            "never the secret itself",
        ),
        ("user update alice", 2, "required"),
        ("acl list", 12, "MetadataProvider"),
        ("acl get alice", 12, "MetadataProvider"),
        (
            "acl create alice --resource Topic:T --action Pub --decision allow --yes",
            12,
            "MetadataProvider",
        ),
        (
            "acl create alice --resource T --action Pub --decision allow",
            2,
            "TYPE:NAME",
        ),
        ("controller get", 12, "enableControllerMode"),
        ("controller sync-state", 12, "no broker names a controller"),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        assert!(ran.stderr.contains(part), "{line}: {ran:?}");
    }
    // A broker is no container and no controller.
    let addr = cluster.brokers[0].addr().to_string();
    let ran = rmq
        .line(&format!("broker container remove {addr} C:b:0 --yes"))
        .await;
    assert_eq!(ran.code, 12, "{ran:?}");
    let ran = rmq.line(&format!("controller get -a {addr}")).await;
    assert_eq!(ran.code, 12, "{ran:?}");
    assert!(ran.stderr.contains("enableControllerInNamesrv"), "{ran:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kv_entries_live_on_every_name_server() {
    let pair = Pair::start().await;
    let rmq = &pair.rmq;
    let set = ok(rmq, "kv set NS key v1 --yes").await;
    assert_eq!(undo(&set), pair.there("kv delete NS key"));
    let list = rmq.rows(&["kv", "list", "NS"]).await;
    assert_eq!(list[0]["namesrv"], json!([pair.addr(0), pair.addr(1)]));
    // Only on one of them: two rows, and a warning.
    let one = ok(rmq, &format!("kv set NS key v2 --yes -n {}", pair.addr(0))).await;
    // The undo line acts where the change did.
    assert_eq!(undo(&one), format!("kv set NS key v1 -n {}", pair.addr(0)));
    assert_eq!(rmq.rows(&["kv", "list", "NS"]).await.len(), 2);
    let got = rmq.line("kv get NS key -o name").await;
    assert!(
        got.code == 0 && got.stderr.contains("not have the same value"),
        "{got:?}"
    );
    // Each gets back what it had.
    let both = ok(rmq, "kv set NS key v3 --yes").await;
    assert_eq!(
        undo(&both),
        format!(
            "-n {} kv set NS key v1 && rmq -n {} kv set NS key v2",
            pair.addr(1),
            pair.addr(0)
        )
    );
    // F4: mqadmin says yes to an absent key.
    let absent = rmq.line("kv delete NS kez --yes").await;
    assert_eq!(absent.code, 4, "{absent:?}");
    assert!(absent.stderr.contains("Similar: key."), "{absent:?}");
    ok(rmq, "kv delete NS key --yes").await;
    assert_eq!(rmq.line("kv get NS key").await.code, 4);
    assert_eq!(rmq.rows(&["kv", "list"]).await, Vec::<Value>::new());
    assert_eq!(rmq.line("kv set NS key v").await.code, 13);
    pair.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_dead_brokers_registration_is_dropped() {
    let pair = Pair::start().await;
    let rmq = &pair.rmq;
    let alive = rmq.line("namesrv drop-broker broker-a --yes").await;
    assert_eq!(alive.code, 9, "{alive:?}");
    assert_eq!(rmq.line("namesrv drop-broker broker-z --yes").await.code, 4);
    // Registered at both by a client that is no broker.
    let list = vec![pair.addr(0), pair.addr(1)];
    let client = Client::new(Options {
        name_servers: list.clone(),
        ..Options::default()
    });
    for addr in &list {
        let header = r::RegisterBroker {
            broker_name: "broker-b".into(),
            broker_addr: "127.0.0.1:1".into(),
            cluster_name: "DefaultCluster".into(),
            ha_server_addr: None,
            broker_id: 0,
            heartbeat_timeout_millis: None,
            enable_acting_master: None,
            compressed: false,
            body_crc32: 0,
            zone_name: None,
        };
        let server = rmq::client::Server::at(addr);
        let body = bytes::Bytes::from_static(b"{}");
        client
            .call(&server, &header, body, client.deadline())
            .await
            .unwrap();
    }
    assert_eq!(
        ok(rmq, "namesrv drop-broker broker-b --dry-run")
            .await
            .stdout
            .matches("planned")
            .count(),
        2
    );
    ok(rmq, "namesrv drop-broker broker-b --yes").await;
    let rows = rmq.rows(&["broker", "list"]).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    let journal = pair.dir.path().join(".local/state/rmq/journal.jsonl");
    let journal = std::fs::read_to_string(journal).unwrap();
    assert!(
        journal.contains("drop the registration of broker broker-b"),
        "{journal}"
    );
    pair.stop().await;
}

/// A broker that keeps users and rules as 5.3.3 does, and is its own name server.
#[derive(Default)]
struct Keeper {
    addr: OnceLock<String>,
    users: Mutex<Vec<UserInfo>>,
    rules: Mutex<Vec<AclInfo>>,
    /// Its configuration as properties text.
    config: Mutex<String>,
    /// It keeps no users and rules: what a Java broker without providers says.
    keeps_none: bool,
    /// Requests that it was asked, by code.
    asked: Mutex<Vec<i32>>,
    /// A resource whose rules are not deleted.
    stuck: Mutex<Option<String>>,
    /// A second broker of the same name service.
    other: OnceLock<String>,
    /// As a container it runs this broker, under its own address.
    inside: Mutex<Option<&'static str>>,
}

impl Keeper {
    fn answer(&self, request: &Frame) -> Result<Vec<bytes::Bytes>, Refusal> {
        let name = request.fields.get("username").unwrap_or_default().to_owned();
        let subject = request.fields.get("subject").unwrap_or_default().to_owned();
        let mut users = self.users.lock().unwrap();
        let mut rules = self.rules.lock().unwrap();
        let body = || -> Json<UserInfo> { Json::decode(request.body.clone()).unwrap() };
        self.asked.lock().unwrap().push(request.code);
        if self.keeps_none && (3001..=3010).contains(&request.code) {
            return Err(Refusal::new(
                codes::SYSTEM_ERROR,
                "An system error occurred, please try again later.",
            ));
        }
        Ok(match request.code {
            r::GetAllTopicConfig::CODE => Json::new(TopicConfigTable::default()).encode(),
            r::GetAllSubscriptiongroupConfig::CODE => Json::new(SubscriptionGroupTable::default()).encode(),
            r::GetBrokerConfig::CODE => Text(self.config.lock().unwrap().clone()).encode(),
            r::PopRollback::CODE | r::CheckRocksdbCqWriteProgress::CODE => Vec::new(),
            r::AddBroker::CODE => {
                if request.fields.get("configPath") != Some("/never.conf") {
                    *self.inside.lock().unwrap() = Some("inside");
                }
                Vec::new()
            }
            r::RemoveBroker::CODE => {
                *self.inside.lock().unwrap() = None;
                Vec::new()
            }
            r::DeleteAcl::CODE if self.stuck.lock().unwrap().as_deref() == request.fields.get("resource") => {
                return Err(Refusal::new(codes::SYSTEM_ERROR, "stuck"));
            }
            r::GetBrokerClusterInfo::CODE => {
                let set = BrokerData {
                    broker_name: "keeper".into(),
                    cluster: "C".into(),
                    broker_addrs: [(0, self.addr.get().unwrap().clone())].into(),
                    ..BrokerData::default()
                };
                let mut sets = vec![("keeper".to_owned(), set.clone())];
                if let Some(addr) = self.other.get() {
                    let other = BrokerData {
                        broker_name: "other".into(),
                        broker_addrs: [(0, addr.clone())].into(),
                        ..set
                    };
                    sets.push(("other".to_owned(), other));
                }
                if let Some(name) = *self.inside.lock().unwrap() {
                    let inside = BrokerData {
                        broker_name: name.into(),
                        ..sets[0].1.clone()
                    };
                    sets.push((name.to_owned(), inside));
                }
                let names = sets.iter().map(|(name, _)| name.clone()).collect();
                Json::new(ClusterInfo {
                    broker_addr_table: sets.into_iter().collect(),
                    cluster_addr_table: [("C".to_owned(), names)].into(),
                    ..ClusterInfo::default()
                })
                .encode()
            }
            r::CreateUser::CODE if users.iter().any(|u| u.username.as_ref() == Some(&name)) => {
                return Err(Refusal::new(codes::NO_PERMISSION, "The user is existed"));
            }
            r::CreateUser::CODE => {
                users.push(body().value);
                Vec::new()
            }
            r::UpdateUser::CODE => {
                let change = body().value;
                let user = users
                    .iter_mut()
                    .find(|u| u.username.as_ref() == Some(&name))
                    .unwrap();
                user.password = change.password.or(user.password.take());
                user.user_type = change.user_type.or(user.user_type.take());
                user.user_status = change.user_status.or(user.user_status.take());
                Vec::new()
            }
            r::DeleteUser::CODE => {
                users.retain(|u| u.username.as_ref() != Some(&name));
                Vec::new()
            }
            r::GetUser::CODE => {
                let user = users.iter().find(|u| u.username.as_ref() == Some(&name)).cloned();
                user.map(Json::new).encode()
            }
            r::ListUsers::CODE => Json::new(users.clone()).encode(),
            r::CreateAcl::CODE | r::UpdateAcl::CODE => {
                let new: Json<AclInfo> = Json::decode(request.body.clone()).unwrap();
                let mut entries: Vec<_> = rules
                    .iter()
                    .find(|a| a.subject.as_ref() == Some(&subject))
                    .and_then(|a| a.policies.as_ref()?[0].entries.clone())
                    .unwrap_or_default();
                for entry in new.value.policies.unwrap().remove(0).entries.unwrap() {
                    entries.retain(|e| e.resource != entry.resource);
                    entries.push(entry);
                }
                rules.retain(|a| a.subject.as_ref() != Some(&subject));
                rules.push(AclInfo {
                    policies: Some(vec![PolicyInfo {
                        entries: Some(entries),
                        policy_type: Some("Custom".into()),
                    }]),
                    subject: Some(subject),
                });
                Vec::new()
            }
            r::DeleteAcl::CODE => {
                let resource = request.fields.get("resource").map(str::to_owned);
                for acl in rules.iter_mut().filter(|a| a.subject.as_ref() == Some(&subject)) {
                    for entries in acl
                        .policies
                        .iter_mut()
                        .flatten()
                        .filter_map(|p| p.entries.as_mut())
                    {
                        entries.retain(|e| resource.is_some() && e.resource != resource);
                    }
                }
                Vec::new()
            }
            r::GetAcl::CODE => {
                let acl = rules
                    .iter()
                    .find(|a| a.subject.as_ref() == Some(&subject))
                    .cloned();
                acl.map(Json::new).encode()
            }
            r::ListAcls::CODE => Json::new(rules.clone()).encode(),
            code => {
                return Err(Refusal::new(
                    codes::REQUEST_CODE_NOT_SUPPORTED,
                    format!("no {code}"),
                ));
            }
        })
    }
}

impl Service for Keeper {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        match self.answer(&request) {
            Ok(body) => Reply {
                body,
                ..Reply::default()
            },
            Err(refusal) => refusal.into(),
        }
    }
}

/// Java's broker answers SUCCESS to these and does nothing where the keys are not set.
#[tokio::test(flavor = "multi_thread")]
async fn work_that_a_broker_is_not_configured_for_is_not_asked_of_it() {
    let home = tempfile::tempdir().unwrap();
    let keeper = Arc::new(Keeper::default());
    let free: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::start(free, keeper.clone()).await.unwrap();
    keeper.addr.set(listener.addr().to_string()).unwrap();
    let rmq = Rmq::new(&listener.addr().to_string(), home.path());
    *keeper.config.lock().unwrap() =
        "storeType=default\npopConsumerKVServiceInit=false\nrocksdbCQDoubleWriteEnable=false\n".into();
    for (line, key) in [
        ("broker pop-rollback keeper --yes", "popConsumerKVServiceInit"),
        ("broker export-config keeper --yes", "storeType"),
        (
            "broker check-cq --broker keeper --yes",
            "rocksdbCQDoubleWriteEnable",
        ),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 12, "{line}: {ran:?}");
        assert!(ran.stderr.contains(key), "{line}: {ran:?}");
    }
    let changing = [
        r::PopRollback::CODE,
        r::ExportRocksdbConfigToJson::CODE,
        r::CheckRocksdbCqWriteProgress::CODE,
    ];
    let asked = || -> Vec<i32> {
        let asked = keeper.asked.lock().unwrap().clone();
        asked.into_iter().filter(|code| changing.contains(code)).collect()
    };
    assert_eq!(asked(), Vec::<i32>::new());
    *keeper.config.lock().unwrap() =
        "storeType=default\npopConsumerKVServiceInit=true\nrocksdbCQDoubleWriteEnable=true\n".into();
    ok(&rmq, "broker pop-rollback keeper --yes").await;
    assert_eq!(asked(), [r::PopRollback::CODE]);
    listener.stop(Duration::ZERO).await;
}

/// A container's yes is not believed: the name servers say whether the broker is there, and the undo line names it.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_in_a_container_is_seen_to_come_and_go() {
    let home = tempfile::tempdir().unwrap();
    let keeper = Arc::new(Keeper::default());
    let free: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::start(free, keeper.clone()).await.unwrap();
    let addr = listener.addr().to_string();
    keeper.addr.set(addr.clone()).unwrap();
    let rmq = Rmq::new(&addr, home.path());
    *keeper.config.lock().unwrap() = "brokerConfigPath=/etc/inside.conf\n".into();
    let added = ok(
        &rmq,
        &format!("broker container add {addr} --broker-config /etc/inside.conf --yes"),
    )
    .await;
    assert!(
        added.stdout.contains(&format!("C:inside:0 at {addr}")),
        "{added:?}"
    );
    assert_eq!(
        undo(&added),
        format!("broker container remove {addr} C:inside:0 -n {addr}")
    );
    let removed = ok(&rmq, &format!("broker container remove {addr} C:inside:0 --yes")).await;
    assert_eq!(
        undo(&removed),
        format!("broker container add {addr} --broker-config /etc/inside.conf -n {addr}")
    );
    let unseen = rmq
        .line(&format!(
            "broker container add {addr} --broker-config /never.conf --yes --timeout 300ms"
        ))
        .await;
    assert_eq!(unseen.code, 7, "{unseen:?}");
    assert!(
        unseen.stdout.contains("no name server lists a new broker"),
        "{unseen:?}"
    );

    // It starts and stops a broker before it answers, which may take longer than anybody waits.
    let wire = crate::cli::recorder::Wire::tap(&addr, std::slice::from_ref(&addr)).await;
    wire.lies[0].lock().unwrap().mute_to = vec![r::AddBroker::CODE, r::RemoveBroker::CODE];
    let rmq = Rmq::new(&wire.name_server, home.path());
    let through = format!("--yes --timeout 1s --broker-map {}", wire.maps[0]);
    let added = ok(
        &rmq,
        &format!("broker container add {addr} --broker-config /etc/inside.conf {through}"),
    )
    .await;
    assert!(
        undo(&added).starts_with(&format!("broker container remove {addr} C:inside:0")),
        "{added:?}"
    );
    ok(
        &rmq,
        &format!("broker container remove {addr} C:inside:0 {through}"),
    )
    .await;
    let unseen = rmq
        .line(&format!(
            "broker container add {addr} --broker-config /never.conf {through}"
        ))
        .await;
    assert_ne!(unseen.code, 0, "{unseen:?}");
    assert!(
        unseen.stdout.contains("whether it was done is not known"),
        "{unseen:?}"
    );
    wire.stop().await;
    listener.stop(Duration::ZERO).await;
}

/// What cannot be read has its row and its exit code, in a dry run as well, and does not keep the others waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_cannot_be_read_fails_and_the_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    let keeper = Arc::new(Keeper::default());
    let free: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::start(free, keeper.clone()).await.unwrap();
    keeper.addr.set(listener.addr().to_string()).unwrap();
    keeper.other.set("127.0.0.1:1".into()).unwrap();
    let rmq = Rmq::new(&listener.addr().to_string(), home.path());
    *keeper.config.lock().unwrap() = "dataReadAheadEnable=true\nfileReservedTime=72\n".into();
    for line in [
        "user create alice --password-from env:HOME",
        "broker set-readahead random",
        "broker set-config fileReservedTime=48",
    ] {
        let ran = rmq.line(&format!("{line} --dry-run -o json")).await;
        assert_eq!(ran.code, 7, "{line}: {ran:?}");
        let rows = items(&ran);
        assert_eq!(rows.len(), 2, "{line}: {ran:?}");
        assert_eq!(rows[0]["result"], "planned", "{line}: {ran:?}");
        assert!(
            rows[1]["target"].as_str().unwrap().contains("other")
                && rows[1]["result"].as_str().unwrap().contains("connection refused"),
            "{line}: {ran:?}"
        );
    }
    // With nothing that can be done it is the failure itself.
    let ran = rmq
        .line("broker set-config other fileReservedTime=48 --dry-run")
        .await;
    assert_eq!(ran.code, 3, "{ran:?}");
    listener.stop(Duration::ZERO).await;
}

const PASSWORD: &str = "hunter2-never-shown";

/// F7: no password on the command line, in an answer, in the plan, in the journal.
#[tokio::test(flavor = "multi_thread")]
async fn users_and_rules_change_and_no_password_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let keeper = Arc::new(Keeper::default());
    let free: std::net::SocketAddr = ([127, 0, 0, 1], 0).into();
    let listener = Listener::start(free, keeper.clone()).await.unwrap();
    keeper.addr.set(listener.addr().to_string()).unwrap();
    let rmq = Rmq::new(&listener.addr().to_string(), home.path());
    let run = async |line: &str| -> Ran {
        let mut command = rmq.command(&line.split(' ').collect::<Vec<_>>());
        command.env("ALICE_PW", PASSWORD);
        let ran = rmq.finish(command).await;
        assert!(
            !ran.stdout.contains(PASSWORD) && !ran.stderr.contains(PASSWORD),
            "{ran:?}"
        );
        ran
    };
    let made = run("user create alice --password-from env:ALICE_PW --yes -vv").await;
    assert_eq!(made.code, 0, "{made:?}");
    assert!(undo(&made).starts_with("user delete alice -n "), "{made:?}");
    assert_eq!(
        keeper.users.lock().unwrap()[0].password.as_deref(),
        Some(PASSWORD)
    );
    assert_eq!(
        run("user create alice --password-from env:ALICE_PW --yes")
            .await
            .code,
        9
    );
    let disabled = run("user update alice --status disable --type super --yes").await;
    assert_eq!(disabled.code, 0, "{disabled:?}");
    assert!(
        undo(&disabled).contains("--type normal --status enable"),
        "{disabled:?}"
    );
    let kept = keeper.users.lock().unwrap()[0].clone();
    assert_eq!(
        kept.password.as_deref(),
        Some(PASSWORD),
        "an update keeps what it does not name"
    );
    let same = run("user update alice --password-from env:ALICE_PW --yes -o json").await;
    assert_eq!((same.code, items(&same)), (0, Vec::new()));
    for line in [
        "user list -o json",
        "user get alice -o wide",
        "user list -o csv",
        "user list ali",
    ] {
        let ran = run(line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(
            ran.stdout.contains("alice") && ran.stdout.contains("disable"),
            "{ran:?}"
        );
    }
    let absent = run("user get alise").await;
    assert_eq!(absent.code, 4);
    assert!(absent.stderr.contains("alice"), "{absent:?}");

    let rule = "acl create alice --resource Topic:Orders,Group:CG_* --action Pub,sub --decision allow --source-ip 10.0.0.0/8";
    let made = run(&format!("{rule} --yes")).await;
    assert_eq!(made.code, 0, "{made:?}");
    assert_eq!(
        run(&format!("{rule} --yes -o json")).await.code,
        0,
        "the same again is no change"
    );
    let denied = run("acl update alice --resource Topic:Orders --action Pub --decision deny --yes").await;
    assert_eq!(denied.code, 0, "{denied:?}");
    let rules = rmq.rows(&["acl", "get", "User:alice"]).await;
    let told: Vec<(&str, &str)> = rules
        .iter()
        .map(|r| (r["resource"].as_str().unwrap(), r["decision"].as_str().unwrap()))
        .collect();
    assert_eq!(told, [("Group:CG_*", "Allow"), ("Topic:Orders", "Deny")]);
    let check = "acl check alice --resource Topic:Orders --action Pub --source-ip 10.0.0.7 -o json";
    assert_eq!(run(check).await.code, 10, "the user is disabled");
    assert_eq!(
        run("user update alice --type normal --status enable --yes")
            .await
            .code,
        0
    );
    assert_eq!(run(check).await.code, 10, "the rule denies it");
    assert_eq!(run(&format!("{} --yes", undo(&denied))).await.code, 0);
    assert_eq!(run(check).await.code, 0);
    assert_eq!(
        run("acl create alice --resource Topic:Orders --action Sub --decision allow --yes")
            .await
            .code,
        9
    );
    // One rule that stays does not hide that the other went, nor how to bring that back.
    *keeper.stuck.lock().unwrap() = Some("Group:CG_*".into());
    let half = run("acl delete alice --yes").await;
    assert_eq!(half.code, 7, "{half:?}");
    assert_eq!(half.stdout.matches(" ok\n").count(), 1, "{half:?}");
    assert!(half.stdout.contains("1 SYSTEM_ERROR: stuck"), "{half:?}");
    assert!(
        undo(&half).contains("acl update User:alice --resource Topic:Orders --action Pub"),
        "{half:?}"
    );
    *keeper.stuck.lock().unwrap() = None;
    assert_eq!(rmq.rows(&["acl", "list"]).await.len(), 1);
    assert_eq!(
        run("acl delete alice --resource Topic:Orders --yes").await.code,
        4
    );

    assert_eq!(run("user delete alice").await.code, 13);
    assert_eq!(run("user delete alice --yes").await.code, 0);
    // F4: mqadmin says yes to an unknown user.
    assert_eq!(run("user delete alice --yes").await.code, 4);
    let journal = home.path().join(".local/state/rmq/journal.jsonl");
    // A password inside of a configuration value does not stay in the journal's command either.
    *keeper.config.lock().unwrap() = "initAuthenticationUser=old\n".into();
    run(&format!(
        "broker set-config keeper initAuthenticationUser={{\"password\":\"{PASSWORD}\"}} --yes"
    ))
    .await;
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&journal).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let journal = std::fs::read_to_string(journal).unwrap();
    assert!(
        journal.contains("create user alice")
            && journal.contains("initAuthenticationUser=***")
            && !journal.contains(PASSWORD),
        "{journal}"
    );
    listener.stop(Duration::ZERO).await;
}

/// The last word of the line that begins with `key`.
fn after<'a>(lines: &'a [String], key: &str) -> Option<&'a str> {
    let line = lines
        .iter()
        .find(|line| line.split_whitespace().next() == Some(key))?;
    line.split_whitespace().last()
}

/// The same commands on Java's servers, with what `mqadmin` says afterwards.
#[test]
fn servers_of_java_obey_and_mqadmin_agrees() {
    let Some(peers) = java::peers("servers_of_java_obey_and_mqadmin_agrees") else {
        return;
    };
    let (dir, ports) = (scratch(), Block::take());
    let namesrv = local(ports.namesrv());
    let _namesrv = peers.namesrv(dir.path(), ports.namesrv());
    let mut settings = java::broker_settings(dir.path(), &namesrv, ports.broker());
    for (key, class) in [
        (
            "authenticationMetadataProvider",
            "authentication.provider.LocalAuthenticationMetadataProvider",
        ),
        (
            "authorizationMetadataProvider",
            "authorization.provider.LocalAuthorizationMetadataProvider",
        ),
    ] {
        settings = java::with(settings, key, &format!("org.apache.rocketmq.auth.{class}"));
    }
    let first = "{\"username\":\"rootuser\",\"password\":\"rootpw\"}";
    settings = java::with(settings, "initAuthenticationUser", first);
    settings = java::with(
        settings,
        "authConfigPath",
        &dir.path().join("auth").display().to_string(),
    );
    let _broker = peers.broker(dir.path(), &settings);
    let mut session = Session::start(peers, dir.path());
    let home = dir.path().join("rmq-home");
    std::fs::create_dir_all(&home).expect("a directory");
    let password = home.join("pw");
    std::fs::write(&password, "alicepw\n").expect("a file");
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).expect("it is ours");
    }
    let rmq = |line: &str| {
        let ran = program::run(&home, &namesrv, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran
    };
    let address = local(ports.broker());

    rmq(&format!(
        "user create alice --password-from file:{} --yes",
        password.display()
    ));
    rmq("user update alice --status disable --yes");
    rmq(
        "acl create alice --resource Topic:OrderEvents,Group:CG_ORDERS --action Pub,Sub --decision allow --source-ip 10.0.0.0/8 --yes",
    );
    rmq("acl update alice --resource Topic:OrderEvents --action Pub --decision deny --yes");
    let listed = session.mqadmin(&namesrv, &["listUser", "-b", &address]).ok();
    let listed = text::rows(&listed.out);
    assert!(
        listed
            .iter()
            .any(|row| row[..] == ["alice", "alicepw", "Normal", "disable"].map(str::to_owned)),
        "{listed:?}"
    );
    let acl = session
        .mqadmin(&namesrv, &["getAcl", "-b", &address, "-s", "User:alice"])
        .ok()
        .text();
    for part in ["Topic:OrderEvents", "Deny", "[Pub, Sub]", "[10.0.0.0/8]"] {
        assert!(acl.contains(part), "{part} is missing in {acl}");
    }
    assert!(!rmq("user list -o json").out.contains("alicepw"));
    rmq("user delete alice --yes");
    let listed = session
        .mqadmin(&namesrv, &["listUser", "-b", &address])
        .ok()
        .text();
    assert!(
        !listed.contains("alice") && listed.contains("rootuser"),
        "{listed}"
    );

    rmq("broker cold-flow set CG_LAG 1000 --yes");
    let cold = session
        .mqadmin(&namesrv, &["getColdDataFlowCtrInfo", "-b", &address])
        .ok()
        .text();
    assert!(
        cold.replace([' ', '\t'], "").contains("\"CG_LAG\":1000"),
        "{cold}"
    );
    rmq("broker cold-flow unset CG_LAG --yes");
    rmq("broker set-readahead random --yes");
    rmq("broker set-readahead normal --yes");
    rmq("broker set-config broker-a fileReservedTime=48 maxMessageSize=4194303 --yes");
    let config = session
        .mqadmin(&namesrv, &["getBrokerConfig", "-b", &address])
        .ok();
    assert_eq!(after(&config.out, "fileReservedTime"), Some("48"));
    rmq("namesrv set-config scanNotActiveBrokerInterval=6000 --yes");
    rmq("kv set NS key value --yes");
    assert_eq!(rmq("kv get NS key -o name").out, "value\n");
    rmq("kv delete NS key --yes");
    rmq("broker set-permission broker-a -W --yes");
    rmq("broker set-permission broker-a +W --yes");
    rmq("broker wipe-write broker-a --yes");
    rmq("broker restore-write broker-a --yes");
    for what in ["clean-cq", "clean-commitlog", "clean-unused-topics"] {
        rmq(&format!("broker {what} broker-a --yes"));
    }
    let ha = rmq("broker ha -o json").json();
    let told = session.mqadmin(&namesrv, &["haStatus", "-b", &address]).ok();
    let max = after(&told.out, "#MasterCommitLogMaxOffset");
    assert_eq!(
        max.map(str::to_owned),
        Some(ha["items"][0]["max_offset"].to_string()),
        "{told:?}"
    );
    let stats = rmq("broker stats broker-a -o json").json();
    let status = session.mqadmin(&namesrv, &["brokerStatus", "-b", &address]).ok();
    let count = status.out.iter().filter(|line| line.contains(':')).count();
    assert_eq!(stats["items"].as_array().map(Vec::len), Some(count), "{status:?}");
    rmq("topic create Orders --queues 4 --yes");
    session.send(&namesrv, "Orders", 40, &[]);
    session.receive(&namesrv, "Orders", "CG_ORDERS", 40, &[]);
    session.send(&namesrv, "Orders", 12, &["first=40"]);
    let cells = |ran: &program::Ran, keys: &[&str]| -> Vec<Vec<String>> {
        let json = ran.json();
        let rows = json["items"].as_array().cloned().unwrap_or_default();
        let plain = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
        let mut rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| keys.iter().map(|key| plain(&row[key])).collect())
            .collect();
        rows.sort();
        rows
    };
    let told = session
        .mqadmin(&namesrv, &["brokerConsumeStats", "-b", &address])
        .ok();
    let mut told = text::rows(&told.out);
    told.retain(|row| row[0] == "Orders");
    let keys = [
        "topic",
        "group",
        "broker",
        "queue",
        "broker_offset",
        "consumer_offset",
        "diff",
    ];
    let ours = rmq("broker consume-stats broker-a --filter topic=Orders -o json");
    assert_eq!(cells(&ours, &keys), text::columns(&told, &[0, 1, 2, 3, 4, 5, 6]));
    assert_eq!(ours.json()["summary"]["total_diff"], 12, "{ours:?}");
    let told = session.mqadmin(&namesrv, &["clusterList", "-m"]).ok();
    let keys = [
        "cluster",
        "broker",
        "in_yesterday",
        "out_yesterday",
        "in_today",
        "out_today",
    ];
    assert_eq!(
        cells(&rmq("cluster stats -o json"), &keys),
        text::columns(&text::rows(&told.out), &[0, 1, 2, 3, 4, 5])
    );
    for (line, code) in [
        ("broker reset-flush-offset broker-a --to 0 --yes", 9),
        ("broker epoch broker-a", 12),
        ("controller get", 12),
        ("namesrv drop-broker broker-a --yes", 9),
    ] {
        let ran = program::run(&home, &namesrv, &line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, code, "{line}: {ran:?}");
    }
}
