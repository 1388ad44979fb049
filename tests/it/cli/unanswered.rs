//! What is told of a write that nobody answers: what reading back shows, and never "failed" where it may be done.

use rmq::protocol::Request as _;
use rmq::protocol::requests::{
    DeleteTopicInBroker, DeleteTopicInNamesrv, GetBrokerRuntimeInfo, SendMessageV2, UpdateAndCreateTopic,
    UpdateBrokerConfig,
};
use serde_json::Value;

use super::recorder::Wire;
use super::{Cluster, Ran, Rmq, items};

/// A cluster behind recorders, and the flags that lead through them.
pub(super) async fn tapped(brokers: &[&str]) -> (Cluster, Wire, Rmq, String) {
    let cluster = Cluster::start(brokers).await;
    let addrs: Vec<String> = cluster.brokers.iter().map(|b| b.addr().to_string()).collect();
    let wire = Wire::tap(&cluster.addr.to_string(), &addrs).await;
    let rmq = Rmq::new(&wire.name_server, cluster.dir());
    let maps: Vec<String> = wire
        .maps
        .iter()
        .map(|map| format!(" --broker-map {map}"))
        .collect();
    let through = format!("--yes --timeout 1s{}", maps.concat());
    (cluster, wire, rmq, through)
}

async fn ok(rmq: &Rmq, line: &str) -> Ran {
    let ran = rmq.line(line).await;
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
    ran
}

fn journal(rmq: &Rmq) -> Vec<Value> {
    let text = std::fs::read_to_string(rmq.state().join("journal.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A topic whose deletion was not answered is gone from its broker, and then from the name servers; one that a name server
/// keeps is not deleted.
#[tokio::test(flavor = "multi_thread")]
async fn a_pruned_topic_leaves_no_route() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    let file = cluster.dir().join("keep.toml").display().to_string();
    std::fs::write(&file, "api = \"rmq/v1\"\n[topic.Kept]\nqueues = 1\n").unwrap();
    let routed = async |topic: &str| {
        let ran = cluster.rmq().line(&format!("topic route {topic}")).await;
        assert!([0, 4].contains(&ran.code), "{ran:?}");
        ran.code == 0
    };
    for topic in ["Kept", "Gone"] {
        ok(&rmq, &format!("topic create {topic} --queues 1 --yes")).await;
    }
    wire.lies[0].lock().unwrap().mute_to = vec![DeleteTopicInBroker::CODE];
    ok(&rmq, &format!("apply -f {file} --prune {through}")).await;
    assert!(!routed("Gone").await);
    assert!(routed("Kept").await);

    wire.lies[0].lock().unwrap().mute_to = Vec::new();
    ok(&rmq, "topic create Gone --queues 1 --yes").await;
    wire.of_name_server.lock().unwrap().deaf_to = vec![DeleteTopicInNamesrv::CODE];
    let kept = rmq.line(&format!("apply -f {file} --prune {through}")).await;
    assert_eq!(kept.code, 7, "{kept:?}");
    assert!(kept.stdout.contains("still routed to broker-"), "{kept:?}");
    wire.stop().await;
    cluster.stop().await;
}

/// A broker that says nothing any more leaves its own changes without proof, not those of the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_applied_where_it_can_be() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    let file = cluster.dir().join("new.toml").display().to_string();
    let topics: String = (0..6).map(|n| format!("[topic.T{n}]\nqueues = 1\n")).collect();
    std::fs::write(&file, format!("api = \"rmq/v1\"\n{topics}")).unwrap();
    {
        let mut lies = wire.lies[1].lock().unwrap();
        lies.mute_to = vec![UpdateAndCreateTopic::CODE];
        lies.dies_of_it = true;
    }
    let ran = rmq.line(&format!("apply -f {file} -o json {through}")).await;
    assert_eq!(ran.code, 7, "{ran:?}");
    let results = |broker: &str| -> Vec<String> {
        let rows = items(&ran);
        let own = rows
            .iter()
            .filter(|row| row["target"].as_str().unwrap().starts_with(broker));
        own.map(|row| row["result"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(results("broker-a"), ["ok"; 6]);
    let silent = results("broker-b");
    assert!(
        silent[..3]
            .iter()
            .all(|r| r.contains("whether it was done is not known")),
        "{silent:?}"
    );
    assert!(
        silent[3..].iter().all(|r| r.starts_with("not sent")),
        "{silent:?}"
    );
    wire.stop().await;
    cluster.stop().await;
}

/// A broker that may be closed to producers is told of, with the way back, and opened again.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_nobody_answers_can_be_taken_back() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a", "broker-b"]).await;
    ok(&rmq, "topic create T --queues 1 --yes").await;
    let permission = async || {
        let line = ["broker", "get-config", "broker-b", "brokerPermission"];
        let rows = cluster.rmq().rows(&line).await;
        rows[0]["value"].as_str().unwrap().to_owned()
    };
    let lies = |dies: bool| {
        let mut lies = wire.lies[1].lock().unwrap();
        lies.mute_to = vec![UpdateBrokerConfig::CODE];
        (lies.dies_of_it, lies.dead) = (dies, false);
    };
    let drain = format!("broker drain broker-b --quiet-time 1s --deadline 30s {through}");
    lies(false);
    ok(&rmq, &drain).await;
    assert_eq!(permission().await, "4");
    ok(&rmq, &format!("broker undrain broker-b {through}")).await;
    assert_eq!(permission().await, "6");

    lies(true);
    let ran = rmq.line(&drain).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("whether it was done is not known"), "{ran:?}");
    assert!(
        ran.stdout.contains("undo: rmq broker undrain broker-b"),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("rmq broker undrain broker-b"), "{ran:?}");
    let last = journal(&rmq).pop().unwrap();
    assert!(last["undo"].as_str().unwrap().contains("undrain"), "{last}");
    assert_eq!(permission().await, "4");

    lies(true);
    let ran = rmq.line(&format!("broker undrain broker-b {through}")).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("rmq broker undrain broker-b"), "{ran:?}");
    let last = journal(&rmq).pop().unwrap();
    assert!(last["undo"].as_str().unwrap().contains("broker drain"), "{last}");
    assert_eq!(permission().await, "6");
    wire.stop().await;
    cluster.stop().await;
}

/// A clean-up that was done is done, whatever cannot be read afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn a_clean_up_is_not_failed_by_what_is_read_after_it() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a"]).await;
    wire.lies[0].lock().unwrap().mute_to = vec![GetBrokerRuntimeInfo::CODE];
    let ran = ok(&rmq, &format!("broker clean-cq broker-a {through}")).await;
    assert!(ran.stdout.contains("ok, but its state was not read"), "{ran:?}");
    wire.stop().await;
    cluster.stop().await;
}

/// Dead letters are made readable although nobody says so, and the way back is told and kept.
#[tokio::test(flavor = "multi_thread")]
async fn letters_made_readable_without_an_answer_are_shown() {
    let (cluster, _) = super::dlq::with_letters(1).await;
    let addr = cluster.brokers[0].addr().to_string();
    let wire = Wire::tap(&cluster.addr.to_string(), &[addr]).await;
    let rmq = Rmq::new(&wire.name_server, cluster.dir());
    ok(&rmq, "topic update %DLQ%g --perm 2 --yes").await;
    wire.lies[0].lock().unwrap().mute_to = vec![UpdateAndCreateTopic::CODE];
    let ran = ok(
        &rmq,
        &format!("dlq show g --yes --timeout 1s --broker-map {}", wire.maps[0]),
    )
    .await;
    assert!(ran.stderr.contains("undo: rmq topic update %DLQ%g"), "{ran:?}");
    let last = journal(&rmq).pop().unwrap();
    assert!(last["undo"].as_str().unwrap().contains("--perm 2"), "{last}");
    wire.stop().await;
    cluster.stop().await;
}

/// A message that nobody answered is not told as "not sent", and the line that goes on does not send it again. What ends an
/// import early leaves the count of what was sent, and the line that goes on.
#[tokio::test(flavor = "multi_thread")]
async fn an_import_goes_on_behind_what_may_be_sent() {
    let (cluster, wire, rmq, through) = tapped(&["broker-a"]).await;
    ok(&rmq, "topic create T --queues 1 --yes").await;
    ok(&rmq, "topic create Into --queues 1 --yes").await;
    ok(&rmq, "message send --topic T --body x --count 6").await;
    let file = cluster.dir().join("messages.jsonl").display().to_string();
    ok(&rmq, &format!("message export --topic T --out {file}")).await;

    let first: Vec<String> = std::fs::read_to_string(&file)
        .unwrap()
        .lines()
        .take(2)
        .map(str::to_owned)
        .collect();
    let broken = cluster.dir().join("broken.jsonl");
    std::fs::write(&broken, first.join("\n") + "\n{\n").unwrap();
    let words = "message import --file - --to-topic Into --yes -o json";
    let mut command = rmq.command(&words.split(' ').collect::<Vec<_>>());
    command.stdin(std::fs::File::open(&broken).unwrap());
    let ran = rmq.finish(command).await;
    assert_eq!(
        (ran.code, &items(&ran)[0]["sent"]),
        (2, &Value::from(2)),
        "{ran:?}"
    );
    assert!(ran.stderr.contains("--skip 2 --to-topic Into"), "{ran:?}");

    wire.lies[0].lock().unwrap().mute_to = vec![SendMessageV2::CODE];
    let ran = rmq
        .line(&format!(
            "message import --file {file} --to-topic Into -o json {through}"
        ))
        .await;
    assert_eq!(ran.code, 7, "{ran:?}");
    assert_eq!(items(&ran)[0]["not_known"], 5, "{ran:?}");
    assert_eq!(items(&ran)[0]["failed"], 0, "{ran:?}");
    assert!(!ran.stderr.contains("was not sent"), "{ran:?}");
    assert!(ran.stderr.contains("--skip 5 --to-topic Into"), "{ran:?}");
    wire.stop().await;
    cluster.stop().await;
}
