//! `rmq cluster doctor` on what servers have wrong: faults that were made where a test can make them, and answers that say
//! so where it cannot.

use std::time::Duration;

use bytes::Bytes;
use rmq::client::{Client, Options, Server};
use rmq::protocol::body::{ConsumerData, HeartbeatData, SubscriptionData};
use rmq::protocol::frame::Frame;
use rmq::protocol::model::SysFlag;
use rmq::protocol::requests::{HeartBeat, RegisterBroker, SendMessageV2};
use rmq::protocol::{Body as _, Json, Request as _, properties};
use rmq::remoting::{NoService, Pool};

use super::doctor::{all_but_disk, ids};
use super::recorder::{Lies, Wire};
use super::{Cluster, Ran, Rmq, broker, items};
use crate::support::clock::Clock;
use crate::support::ports::Block;
use crate::support::{java, local, loud, rmq as program, scratch, wait};

fn admin(addr: &str) -> Client {
    Client::new(Options {
        name_servers: vec![addr.to_owned()],
        ..Options::default()
    })
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_millis()).unwrap()
}

/// A cluster of two brokers behind recorders that may lie.
struct Told {
    cluster: Cluster,
    wire: Wire,
    rmq: Rmq,
}

impl Told {
    async fn start() -> Self {
        let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
        let brokers: Vec<String> = cluster.brokers.iter().map(|b| b.addr().to_string()).collect();
        let wire = Wire::tap(&cluster.addr.to_string(), &brokers).await;
        let rmq = Rmq::new(&wire.name_server, cluster.dir());
        Self { cluster, wire, rmq }
    }

    /// The doctor while broker-a says this; `checks` are those that it makes.
    async fn doctor(&self, lies: Lies, checks: &str) -> Ran {
        *self.wire.lies[0].lock().unwrap() = lies;
        let mut args = vec!["cluster", "doctor", "--checks", checks, "-o", "json"];
        for map in &self.wire.maps {
            args.extend(["--broker-map", map]);
        }
        self.rmq.run(&args).await
    }

    async fn finds(&self, what: &str, lies: Lies, checks: &[&str], severity: &str) {
        let ran = self.doctor(lies, &all_but_disk()).await;
        assert_eq!(ids(&ran), checks, "{what}: {ran:?}");
        assert_eq!(items(&ran)[0]["severity"], severity, "{what}: {ran:?}");
        assert_eq!(
            ran.code,
            if severity == "error" { 11 } else { 10 },
            "{what}: {ran:?}"
        );
    }

    async fn stop(self) {
        self.wire.stop().await;
        self.cluster.stop().await;
    }
}

fn runtime(pairs: &[(&'static str, &str)]) -> Lies {
    Lies {
        runtime: pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect(),
        ..Lies::default()
    }
}

fn config(pairs: &[(&'static str, &str)]) -> Lies {
    Lies {
        config: pairs.iter().map(|(k, v)| (*k, (*v).to_owned())).collect(),
        ..Lies::default()
    }
}

/// BR5, BR8, ST1, ST2, TM1, SE1, HA1, HA2: states of a broker that a test cannot make in a moment.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_broker_says_of_itself_is_judged() {
    let told = Told::start().await;
    let healthy = told.doctor(Lies::default(), &all_but_disk()).await;
    assert_eq!((healthy.code, ids(&healthy)), (0, vec![]), "{healthy:?}");
    let old = runtime(&[("brokerVersionDesc", "V5_1_0"), ("brokerVersion", "435")]);
    told.finds("another version", old, &["BR5"], "warning").await;
    let mib = 1024 * 1024;
    for (behind, severity) in [(100 * mib, "warning"), (400 * mib, "error")] {
        let lies = runtime(&[("dispatchBehindBytes", &behind.to_string())]);
        told.finds("dispatch behind", lies, &["BR8"], severity).await;
    }
    let waits = runtime(&[("sendThreadPoolQueueHeadWaitTimeMills", "500")]);
    told.finds("sends wait", waits, &["BR8"], "warning").await;
    let held = runtime(&[("pageCacheLockTimeMills", "6000")]);
    told.finds("the append lock is held", held, &["BR8"], "error")
        .await;
    let late = runtime(&[("timerReadBehind", "120")]);
    told.finds("timers are late", late, &["TM1"], "warning").await;
    let now = now_ms();
    let young = (now - 3_600_000).to_string();
    let lost = runtime(&[
        ("commitLogMinOffset", "8388608"),
        ("earliestMessageTimeStamp", &young),
    ]);
    told.finds("short lives", lost, &["ST2"], "warning").await;
    for (ratio, code) in [("0.30", 0), ("0.87", 11), ("0.95", 11)] {
        let lies = Lies {
            runtime: ["commitLogDiskRatio", "consumeQueueDiskRatio"]
                .map(|key| (key, ratio.to_owned()))
                .into(),
            ..Lies::default()
        };
        *told.wire.lies[1].lock().unwrap() =
            runtime(&[("commitLogDiskRatio", "0.3"), ("consumeQueueDiskRatio", "0.3")]);
        let ran = told.doctor(lies, "ST1").await;
        assert_eq!(ran.code, code, "{ratio}: {ran:?}");
        *told.wire.lies[1].lock().unwrap() = Lies::default();
    }
    let asks = config(&[
        ("authenticationEnabled", "true"),
        ("authorizationEnabled", "true"),
        ("autoCreateSubscriptionGroup", "true"),
    ]);
    let ran = told.doctor(asks, "SE1").await;
    assert_eq!((ran.code, ids(&ran)), (10, vec!["SE1".to_owned()]), "{ran:?}");
    let ran = told.doctor(config(&[("brokerRole", "SYNC_MASTER")]), "HA1").await;
    assert_eq!((ran.code, ids(&ran)), (10, vec!["HA1".to_owned()]), "{ran:?}");
    let silent = config(&[
        ("enableControllerMode", "true"),
        ("controllerAddr", "127.0.0.1:1"),
    ]);
    let ran = told.doctor(silent, "HA2").await;
    assert_eq!((ran.code, ids(&ran)), (11, vec!["HA2".to_owned()]), "{ran:?}");
    told.stop().await;
}

/// BR2: brokers that answer and do not register as often as they say, which a name server's ages tell. A broker of this
/// process that stops registering takes its answers with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_does_not_register_in_time_is_found() {
    let told = Told::start().await;
    // It says every 30 s, and two seconds more are nothing.
    for (silent_s, severity, text) in [
        (31, "", ""),
        (40, "warning", "broker-a:0 late on"),
        (70, "error", "broker-a:0 answers but does not register"),
    ] {
        told.wire.of_name_server.lock().unwrap().silent_for_ms = Some(silent_s * 1000);
        let ran = told.doctor(Lies::default(), "BR2").await;
        let found: Vec<String> = items(&ran).iter().map(ToString::to_string).collect();
        if severity.is_empty() {
            assert_eq!((ran.code, found.len()), (0, 0), "{silent_s}: {ran:?}");
            continue;
        }
        let code = if severity == "error" { 11 } else { 10 };
        assert_eq!((ran.code, found.len()), (code, 2), "{silent_s}: {ran:?}");
        assert!(
            found.iter().any(|row| row.contains(text)),
            "{silent_s}: {found:?}"
        );
    }
    told.stop().await;
}

/// BR3, BR4, BR5 by a client, TR1.
#[tokio::test(flavor = "multi_thread")]
async fn faults_of_registrations_and_transactions_are_found() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let admin = admin(&cluster.addr.to_string());
    let a = Server::at(cluster.brokers[0].addr().to_string());

    // A client of long ago.
    let pool = Pool::new(std::sync::Arc::new(NoService), Duration::from_secs(5));
    let beat = HeartbeatData {
        client_id: "old".into(),
        consumer_data_set: vec![ConsumerData {
            group_name: "g".into(),
            subscription_data_set: vec![SubscriptionData {
                topic: "TBW102".into(),
                sub_string: "*".into(),
                ..SubscriptionData::default()
            }],
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    };
    let frame = Frame {
        code: HeartBeat::CODE,
        version: 100,
        body: Json::new(beat).encode().concat().into(),
        ..Frame::default()
    };
    let answer = pool
        .exchange(&a.addr, frame, Duration::from_secs(5))
        .await
        .unwrap();
    assert_eq!(answer.code, 0, "{answer:?}");
    let ran = rmq.line("cluster doctor --checks BR5 -o json").await;
    assert_eq!((ran.code, ids(&ran)), (10, vec!["BR5".to_owned()]), "{ran:?}");
    pool.close();

    // A half message that nobody decides; its age is that of its birth.
    let made = rmq.line("topic create T --queues 2 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let mut text = String::new();
    for (name, value) in [
        ("TRAN_MSG", "true"),
        ("PGROUP", "PG"),
        ("UNIQ_KEY", "7F000001000100000000000000000001"),
    ] {
        properties::append(&mut text, name, value);
    }
    let half = SendMessageV2 {
        producer_group: "PG".into(),
        topic: "T".into(),
        queue_id: 0,
        sys_flag: SysFlag(4),
        born_timestamp: now_ms() - 11 * 60_000,
        properties: text,
        ..SendMessageV2::default()
    };
    admin
        .call(&a, &half, Bytes::from_static(b"x"), admin.deadline())
        .await
        .unwrap();
    wait_for(&rmq, "TR1", 10).await;

    // broker-c is registered without a master; it answers, through broker-a.
    let header = RegisterBroker {
        broker_name: "broker-c".into(),
        broker_addr: a.addr.clone(),
        cluster_name: "DefaultCluster".into(),
        broker_id: 1,
        ..RegisterBroker::default()
    };
    let name_server = Server::at(cluster.addr.to_string());
    admin
        .call(&name_server, &header, Bytes::new(), admin.deadline())
        .await
        .unwrap();
    let ran = rmq.line("cluster doctor --checks BR4 -o json").await;
    assert_eq!((ran.code, ids(&ran)), (11, vec!["BR4".to_owned()]), "{ran:?}");

    // A broker that names a name server which is not there.
    let both = format!("{};127.0.0.1:1", cluster.addr);
    let other = broker("broker-b", &both, &cluster.path("broker-b")).await;
    wait_for(&rmq, "BR3", 10).await;
    other.stop().await.unwrap();
    cluster.stop().await;
}

/// Waits until the doctor finds this check and nothing of the others of its family.
async fn wait_for(rmq: &Rmq, check: &str, code: i32) {
    let end = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let ran = rmq
            .line(&format!("cluster doctor --checks {check} -o json"))
            .await;
        if (ran.code, ids(&ran)) == (code, vec![check.to_owned()]) {
            return;
        }
        assert!(std::time::Instant::now() < end, "{check}: {ran:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// CL1, GR5 and BR1 of a broker that is its own process: a wrong clock, messages that wait since long, a broker that stands.
#[test]
fn a_wrong_clock_old_lag_and_a_stopped_broker_are_found() {
    let (dir, ports) = (scratch(), Block::take());
    let clock = match Clock::make(dir.path()) {
        Ok(clock) => clock,
        Err(why) => {
            return loud(&format!(
                "SKIPPED a_wrong_clock_old_lag_and_a_stopped_broker_are_found: {why}"
            ));
        }
    };
    let _name_server = program::namesrv(&dir.path().join("namesrv"), ports.namesrv());
    let name_server = local(ports.namesrv());
    let root = dir.path().join("broker-a");
    std::fs::create_dir_all(&root).unwrap();
    let settings = java::broker_settings(&root, &name_server, ports.broker());
    clock.set_ahead(-20 * 60);
    let server = program::broker_in(&root, &name_server, &settings, &clock.environment());
    let home = dir.path().join("home");
    std::fs::create_dir_all(&home).unwrap();
    let line = |line: &str| program::run(&home, &name_server, &line.split(' ').collect::<Vec<_>>());
    let found = |checks: &str| {
        let ran = line(&format!("doctor --checks {checks} -o name"));
        (ran.code, ran.out.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let one = |id: &str| vec![id.to_owned()];
    for command in [
        "topic create T --queues 1 --yes",
        "group create g --yes",
        "message send --topic T --body x",
        "offset set g --topic T broker-a/0=0 --yes",
    ] {
        let ran = line(command);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
    }
    assert_eq!(found("CL1"), (11, one("CL1")), "20 minutes behind");
    clock.set_ahead(0);
    wait::until_true("the clock is right again", Duration::from_secs(10), || {
        found("CL1").0 == 0
    });
    assert_eq!(found("GR5"), (10, one("GR5")), "a message waits for 20 minutes");
    clock.set_ahead(3);
    assert_eq!(found("CL1"), (10, one("CL1")), "3 s ahead");
    clock.set_ahead(0);
    server.process.pause();
    assert_eq!(found("BR1"), (11, one("BR1")), "a broker that stands");
    server.process.resume();
    wait::until_true("the broker goes on", Duration::from_secs(10), || {
        found("BR1").0 == 0
    });
}
