//! `rmq cluster doctor`: nothing in a healthy cluster, and each fault that can really be made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rmq::client::{Client, Options, Server};
use rmq::namesrv::{NameServer, NamesrvConfig};
use rmq::protocol::body::{
    ConsumerData, ConsumerRunningInfo, HeartbeatData, MessageModel, ProcessQueueInfo, SubscriptionData,
};
use rmq::protocol::frame::Frame;
use rmq::protocol::model::MessageQueue;
use rmq::protocol::requests::{
    ConsumerSendMsgBack, DeleteSubscriptiongroup, GetConsumerRunningInfo, HeartBeat, PutKvConfig,
    UpdateConsumerOffset, WipeWritePermOfBroker,
};
use rmq::protocol::{Body as _, Json, Request as _, codes};
use rmq::remoting::pool::Pool;
use rmq::remoting::{Peer, Refusal, Reply, Service};
use serde_json::Value;

use super::{Cluster, Ran, Rmq, items};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Checks that found something, sorted.
pub fn ids(ran: &Ran) -> Vec<String> {
    let mut ids: Vec<String> = items(ran)
        .iter()
        .map(|row| row["check"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    ids
}

/// All checks but ST1: how full the disk of the tests is tells nothing of the cluster.
pub fn all_but_disk() -> String {
    let ids = rmq::client::doctor::CHECKS.iter().map(|check| check.id);
    ids.filter(|id| *id != "ST1").collect::<Vec<_>>().join(",")
}

async fn doctor(rmq: &Rmq) -> Ran {
    rmq.line(&format!("cluster doctor --checks {} -o json", all_but_disk()))
        .await
}

/// The finding of a check; fails when there is none or when another check found something, too.
async fn finds(rmq: &Rmq, checks: &[&str]) -> Vec<Value> {
    let ran = doctor(rmq).await;
    assert_eq!(ids(&ran), checks, "{ran:?}");
    let rows = items(&ran);
    for row in &rows {
        for key in ["severity", "about", "evidence", "why", "next"] {
            assert!(row[key].as_str().is_some_and(|t| !t.is_empty()), "{key}: {row}");
        }
    }
    let error = rows.iter().any(|r| r["severity"] == "error");
    assert_eq!(ran.code, if error { 11 } else { 10 }, "{ran:?}");
    rows
}

/// A client of a group that tells a broker what it subscribes to, and an operator what it has.
struct Member {
    info: ConsumerRunningInfo,
}

impl Service for Member {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        if request.code == GetConsumerRunningInfo::CODE {
            return Reply {
                body: Json::new(self.info.clone()).encode(),
                ..Reply::default()
            };
        }
        Refusal::new(codes::REQUEST_CODE_NOT_SUPPORTED, "no").into()
    }
}

pub struct Online(Vec<Pool<Member>>);

/// A client online at every broker of the cluster, owning some of the queues of `T`.
pub async fn online(
    cluster: &Cluster,
    id: &str,
    tags: &str,
    model: MessageModel,
    queues: &[(&str, i32)],
) -> Online {
    let subscription = SubscriptionData {
        topic: "T".into(),
        sub_string: tags.into(),
        sub_version: 1,
        ..SubscriptionData::default()
    };
    let info = ConsumerRunningInfo {
        subscription_set: vec![subscription.clone()],
        properties: [("messageModel".to_owned(), model.name().to_owned())].into(),
        mq_table: queues
            .iter()
            .map(|(broker, queue_id)| {
                let queue = MessageQueue {
                    broker_name: (*broker).into(),
                    queue_id: *queue_id,
                    topic: "T".into(),
                };
                (queue, ProcessQueueInfo::default())
            })
            .collect(),
        ..ConsumerRunningInfo::default()
    };
    let beat = HeartbeatData {
        client_id: id.into(),
        consumer_data_set: vec![ConsumerData {
            group_name: "g".into(),
            message_model: model,
            subscription_data_set: vec![subscription],
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    };
    let mut pools = Vec::new();
    for broker in &cluster.brokers {
        let pool = Pool::new(Arc::new(Member { info: info.clone() }), TIMEOUT);
        let peer = pool.peer(&broker.addr().to_string()).await.unwrap();
        peer.call(&HeartBeat, Json::new(beat.clone()), TIMEOUT)
            .await
            .unwrap();
        pools.push(pool);
    }
    Online(pools)
}

impl Online {
    pub fn leave(self) {
        for pool in &self.0 {
            pool.close();
        }
    }
}

fn admin(cluster: &Cluster) -> Client {
    Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    })
}

/// Two brokers that make nothing by themselves, and topic `T` with 2 queues on each.
async fn cluster() -> Cluster {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let made = rmq.line("topic create T --queues 2 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    cluster
}

const ALL: &[(&str, i32)] = &[("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)];

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_found_in_a_healthy_cluster() {
    let cluster = cluster().await;
    let rmq = cluster.rmq();
    let first = online(&cluster, "c1", "*", MessageModel::Clustering, &ALL[..2]).await;
    let second = online(&cluster, "c2", "*", MessageModel::Clustering, &ALL[2..]).await;
    for _ in 0..3 {
        let sent = rmq.line("message send --topic T --body x").await;
        assert_eq!(sent.code, 0, "{sent:?}");
    }
    let ran = doctor(&rmq).await;
    assert_eq!((ran.code, ids(&ran)), (0, vec![]), "{ran:?}");
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(document["kind"], "DoctorReport");
    assert_eq!(document["summary"]["checks"], 31);
    assert_eq!(document["summary"]["brokers"], 2);
    assert_eq!(document["summary"]["not_checked"], serde_json::json!([]));
    // The short name, and text for a person.
    let short = rmq.line(&format!("doctor --checks {}", all_but_disk())).await;
    assert_eq!((short.code, short.stdout.as_str()), (0, ""), "{short:?}");
    assert!(
        short.stderr.contains("31 checks over 1 name server, 2 brokers"),
        "{short:?}"
    );
    first.leave();
    second.leave();
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_topics_and_settings_have_wrong_is_found() {
    let cluster = cluster().await;
    let rmq = cluster.rmq();
    let admin = admin(&cluster);
    let deadline = || admin.deadline();
    let run = async |line: &str| {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    };
    finds_nothing(&rmq).await;

    // TP1: fewer read than write queues; with messages in them an error.
    run("topic update T --read-queues 1 --force --yes").await;
    assert_eq!(finds(&rmq, &["TP1"]).await[0]["severity"], "warning");
    run("topic update T --read-queues 2 --yes").await;
    for queue in ["0", "1"] {
        run(&format!(
            "message send --topic T --broker broker-a --queue {queue} --body x"
        ))
        .await;
    }
    run("topic update T --read-queues 1 --force --yes").await;
    let rows = finds(&rmq, &["TP1", "TP3"]).await;
    assert_eq!(rows[0]["severity"], "error", "{rows:?}");
    run("topic update T --read-queues 2 --yes").await;
    // TP3 stays: nobody reads what was just written.
    finds(&rmq, &["TP3"]).await;
    let listed = rmq.line("cluster doctor --checks TP1,BR -o name").await;
    assert_eq!((listed.code, listed.stdout.as_str()), (0, ""), "{listed:?}");
    let only_errors = format!(
        "cluster doctor --checks {} --fail-on error -o name",
        all_but_disk()
    );
    let only_errors = rmq.line(&only_errors).await;
    assert_eq!((only_errors.code, only_errors.stdout.as_str()), (0, "TP3\n"));

    // TP1, TP2: a topic on one broker, where brokers make topics.
    run("topic create Half --broker broker-a --yes").await;
    finds(&rmq, &["TP1", "TP2", "TP3"]).await;
    run("topic delete Half --yes").await;

    // TP4.
    let order = |value: &str| PutKvConfig {
        namespace: Some("ORDER_TOPIC_CONFIG".into()),
        key: Some("T".into()),
        value: Some(value.into()),
    };
    let name_server = Server::at(cluster.addr.to_string());
    let wrong = order("broker-a:2;broker-z:2");
    admin.call(&name_server, &wrong, (), deadline()).await.unwrap();
    assert_eq!(finds(&rmq, &["TP3", "TP4"]).await[0]["severity"], "error");
    let right = order("broker-a:2;broker-b:2");
    admin.call(&name_server, &right, (), deadline()).await.unwrap();
    run("topic update T --order true --yes").await;
    finds(&rmq, &["TP3"]).await;

    // BR6 at the broker and at the name server.
    run("broker set-config broker-b brokerPermission=4 --yes").await;
    let rows = finds(&rmq, &["BR6", "TP3"]).await;
    assert!(
        rows[0]["next"].as_str().unwrap().contains("brokerPermission=6"),
        "{rows:?}"
    );
    run("broker set-config broker-b brokerPermission=6 --yes").await;
    let wipe = WipeWritePermOfBroker {
        broker_name: "broker-b".into(),
    };
    admin.call(&name_server, &wipe, (), deadline()).await.unwrap();
    let rows = finds(&rmq, &["BR6", "TP3"]).await;
    assert!(
        rows[0]["evidence"].as_str().unwrap().contains("T 4 instead of 6"),
        "{rows:?}"
    );
    // A registration of the broker undoes it.
    run("topic update T --order false --yes").await;
    let back = rmq.line("topic update T --perm 6 --yes").await;
    assert_eq!(back.code, 0, "{back:?}");

    // BR7.
    run("broker set-config broker-b fileReservedTime=48 --yes").await;
    let ran = doctor(&rmq).await;
    assert!(ids(&ran).contains(&"BR7".to_owned()), "{ran:?}");
    run("broker set-config broker-b fileReservedTime=72 --yes").await;
    cluster.stop().await;
}

/// As mqadmin's `updateTopic -r 1 -w 1` does it: no answer about the topic names the queue any more.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_shrink_by_hand_left_behind_is_found() {
    let cluster = cluster().await;
    let rmq = cluster.rmq();
    let admin = admin(&cluster);
    let run = async |line: &str| {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    };
    for _ in 0..3 {
        run("message send --topic T --broker broker-a --queue 1 --body x").await;
    }
    let stands = |offset| UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "T".into(),
        queue_id: Some(1),
        commit_offset: Some(offset),
        ..UpdateConsumerOffset::default()
    };
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let commit = async |offset| {
        admin
            .call(&broker, &stands(offset), (), admin.deadline())
            .await
            .unwrap();
    };
    let topic = async || {
        let ran = rmq.line("cluster doctor --checks TP1 -o json").await;
        items(&ran)
    };
    run("group create g --yes").await;
    commit(1).await;
    assert_eq!(topic().await, Vec::<Value>::new());
    run("topic update T --read-queues 1 --write-queues 1 --force --yes").await;
    let rows = topic().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0]["severity"], "error");
    let evidence = rows[0]["evidence"].as_str().unwrap();
    assert!(
        evidence.starts_with("topic T w1/r1 on broker-a: 2 messages in queue 1 are stranded, unread by g"),
        "{rows:?}"
    );
    let next = rows[0]["next"].as_str().unwrap().to_owned();
    assert_eq!(next, "rmq topic update T --read-queues 2 --broker broker-a");
    run(&format!("{} --yes", next.strip_prefix("rmq ").unwrap())).await;
    let stranded = |rows: &[Value]| {
        let mut rows = rows.iter();
        rows.any(|r| r["evidence"].as_str().unwrap().contains("stranded"))
    };
    assert!(!stranded(&topic().await));
    // Once the group is at the end nothing is left there.
    commit(3).await;
    run("topic update T --read-queues 1 --force --yes").await;
    assert!(!stranded(&topic().await));
    cluster.stop().await;
}

async fn finds_nothing(rmq: &Rmq) {
    let ran = doctor(rmq).await;
    assert_eq!((ran.code, ids(&ran)), (0, vec![]), "{ran:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_clients_of_a_group_have_wrong_is_found() {
    let cluster = cluster().await;
    let rmq = cluster.rmq();
    let clustering = MessageModel::Clustering;
    let first = online(&cluster, "c1", "*", clustering, &ALL[..2]).await;
    finds(&rmq, &["GR3"]).await;
    let second = online(&cluster, "c2", "TagA", clustering, &ALL[2..]).await;
    let rows = finds(&rmq, &["GR1"]).await;
    let evidence = rows[0]["evidence"].as_str().unwrap();
    assert!(
        evidence.contains("T * (c1)") && evidence.contains("T TagA (c2)"),
        "{rows:?}"
    );
    second.leave();
    let second = online(&cluster, "c2", "*", MessageModel::Broadcasting, &ALL[2..]).await;
    finds(&rmq, &["GR7"]).await;
    second.leave();
    let second = online(&cluster, "c1", "*", clustering, ALL).await;
    // Which of the two an operator's question reaches is open, so a queue may seem to have no owner as well.
    let ran = doctor(&rmq).await;
    let twice = items(&ran).into_iter().find(|r| r["check"] == "GR4");
    assert_eq!(twice.expect("GR4")["severity"], "error");
    second.leave();

    // GR2: the broker forgot the group while it is online.
    let admin = admin(&cluster);
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let forget = DeleteSubscriptiongroup {
        group_name: "g".into(),
        clean_offset: false,
    };
    let whole = online(&cluster, "c2", "*", clustering, &ALL[2..]).await;
    admin.call(&broker, &forget, (), admin.deadline()).await.unwrap();
    let ran = doctor(&rmq).await;
    assert!(ids(&ran).contains(&"GR2".to_owned()), "{ran:?}");
    whole.leave();
    first.leave();
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_and_dead_letters_are_found() {
    let cluster = cluster().await;
    let rmq = cluster.rmq();
    let admin = admin(&cluster);
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let member = online(&cluster, "c1", "*", MessageModel::Clustering, ALL).await;
    let sent = rmq
        .line("message send --topic T --broker broker-a --queue 0 --body x -o json")
        .await;
    assert_eq!(sent.code, 0, "{sent:?}");
    let commit = |group: &str, offset: i64| UpdateConsumerOffset {
        consumer_group: group.into(),
        topic: "T".into(),
        queue_id: Some(0),
        commit_offset: Some(offset),
        bname: None,
    };
    admin
        .call(&broker, &commit("g", 1), (), admin.deadline())
        .await
        .unwrap();
    finds_nothing(&rmq).await;

    // GR6: the group gives its message up.
    let id = items(&sent)[0]["offset_id"].as_str().unwrap().to_owned();
    let (_, offset) = rmq::protocol::message_id::parse_offset_id(&id).unwrap();
    let give_up = ConsumerSendMsgBack {
        offset,
        group: "g".into(),
        delay_level: -1,
        origin_msg_id: Some(id),
        origin_topic: Some("T".into()),
        unit_mode: false,
        max_reconsume_times: None,
        bname: None,
    };
    admin.call(&broker, &give_up, (), admin.deadline()).await.unwrap();
    let rows = finds(&rmq, &["GR6"]).await;
    assert_eq!(rows[0]["next"], "rmq dlq show g");

    // GR5: offsets of a group that does not exist any more.
    let other = rmq::protocol::requests::UpdateAndCreateSubscriptiongroup;
    let config = rmq::protocol::body::SubscriptionGroupConfig {
        group_name: "gone".into(),
        ..rmq::protocol::body::SubscriptionGroupConfig::default()
    };
    admin
        .call(&broker, &other, Some(Json::new(config)), admin.deadline())
        .await
        .unwrap();
    admin
        .call(&broker, &commit("gone", 1), (), admin.deadline())
        .await
        .unwrap();
    let forget = DeleteSubscriptiongroup {
        group_name: "gone".into(),
        clean_offset: false,
    };
    admin.call(&broker, &forget, (), admin.deadline()).await.unwrap();
    let rows = finds(&rmq, &["GR5", "GR6"]).await;
    assert!(
        rows.iter()
            .any(|r| r["evidence"].as_str().unwrap().contains("offsets of group gone")),
        "{rows:?}"
    );
    member.leave();
    cluster.stop().await;
}

/// NS1, NS2, NS3, NS4, BR1, BR3: a second name server that nobody registers at, then none; a broker that was killed.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_gone_or_disagree_are_found() {
    let cluster = cluster().await;
    let home = tempfile::tempdir().unwrap();
    let other = NameServer::start(NamesrvConfig {
        listen_port: 0,
        bind_address: "127.0.0.1".into(),
        kv_config_path: home.path().join("kv.json").to_string_lossy().into_owned(),
        scan_not_active_broker_interval: 7_000,
        ..NamesrvConfig::default()
    })
    .await
    .unwrap();
    let both = Rmq::new(&format!("{};{}", cluster.addr, other.addr()), home.path());
    let ran = doctor(&both).await;
    assert_eq!(
        (ids(&ran), ran.code),
        (vec!["NS2".into(), "NS3".into(), "NS4".into()], 11),
        "{ran:?}"
    );
    let addr = other.addr();
    other.stop().await;
    let gone = Rmq::new(&format!("{};{addr}", cluster.addr), home.path());
    let rows = finds(&gone, &["NS1"]).await;
    assert_eq!(rows[0]["severity"], "error");

    // A broker whose registration is left: its name server knows an address that nobody listens on.
    let name_server = Server::at(cluster.addr.to_string());
    let admin = admin(&cluster);
    let header = rmq::protocol::requests::RegisterBroker {
        broker_name: "broker-c".into(),
        broker_addr: "127.0.0.1:1".into(),
        cluster_name: "DefaultCluster".into(),
        broker_id: 0,
        ..rmq::protocol::requests::RegisterBroker::default()
    };
    admin
        .call(&name_server, &header, Bytes::new(), admin.deadline())
        .await
        .unwrap();
    let start = std::time::Instant::now();
    let rows = finds(&cluster.rmq(), &["BR1"]).await;
    assert!(
        rows[0]["evidence"].as_str().unwrap().contains("127.0.0.1:1"),
        "{rows:?}"
    );
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "a dead broker delays nothing"
    );

    let nobody = Rmq::new("127.0.0.1:1", home.path());
    let ran = doctor(&nobody).await;
    assert_eq!((ran.code, ids(&ran)), (3, vec!["NS1".into()]), "{ran:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_are_listed_without_asking_anybody() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1", home.path());
    let listed = rmq.line("doctor --list -o name").await;
    assert_eq!(
        (listed.code, listed.stdout.lines().count()),
        (0, 32),
        "{listed:?}"
    );
    let wrong = rmq.line("doctor --checks XX9").await;
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("NS1"), "{wrong:?}");
}

/// Every finding is in the data; a person reads ten of a kind, and how many more there are.
#[tokio::test(flavor = "multi_thread")]
async fn many_findings_of_one_rule_are_all_told() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let mut file = "api = \"rmq/v1\"\n".to_owned();
    for n in 0..12 {
        for (broker, queues) in [("broker-a", 4), ("broker-b", 8)] {
            file.push_str(&format!("[topic.T{n:02}.broker.{broker}]\nqueues = {queues}\n"));
        }
    }
    let path = cluster.path("uneven.toml");
    std::fs::write(&path, file).unwrap();
    let made = rmq.line(&format!("apply -f {} --yes", path.display())).await;
    assert_eq!(made.code, 0, "{made:?}");
    let json = rmq.line("doctor --checks TP1 -o json").await;
    assert_eq!(json.code, 10, "{json:?}");
    let about: Vec<Value> = items(&json).iter().map(|row| row["about"].clone()).collect();
    let wanted: Vec<String> = (0..12).map(|n| format!("topic T{n:02}")).collect();
    assert_eq!(about, wanted);
    let document: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(document["summary"]["warnings"], 12);
    let table = rmq.line("doctor --checks TP1").await;
    assert!(
        table.stdout.contains("T09") && !table.stdout.contains("T10"),
        "{table:?}"
    );
    assert!(table.stdout.contains("and 2 more: --all or -o json"), "{table:?}");
    let all = rmq.line("doctor --checks TP1 --all").await;
    assert!(
        all.stdout.contains("T11") && !all.stdout.contains(" more:"),
        "{all:?}"
    );
    cluster.stop().await;
}
