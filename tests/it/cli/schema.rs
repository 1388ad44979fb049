//! `rmq schema` against what is printed, and against the kinds that the source names.

use std::path::Path;

use rmq::protocol::body::MessageModel;
use serde_json::Value;

use super::doctor::online;
use super::{Cluster, Rmq};
use crate::support::schema::{knows, lack};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_is_as_the_schema_says() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = Rmq::new(&cluster.addr.to_string(), cluster.dir());
    let made = ["topic create T --queues 2 --yes", "group create g --yes"];
    let lines = made.into_iter().chain([
        "message send --topic T --body x --key k",
        "topic list",
        "topic get T",
        "topic status T",
        "topic route T",
        "topic consumers T",
        "topic find-unused",
        "group list",
        "group get g",
        "offset get g",
        "consumer clients",
        "consumer stack c1 --group g",
        "consumer running-info c1 --group g",
        "cluster list",
        "cluster doctor --list",
        "broker list",
        "broker describe broker-a",
        "broker get-config broker-a",
        "namesrv list",
        "message list --topic T",
        "message find --topic T --key k",
        "config list",
        "config get",
        "version",
        "schema",
    ]);
    let (mut lacks, mut member) = (Vec::new(), None);
    for line in lines {
        let ran = rmq.line(&format!("{line} -o json")).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        lacks.extend(lack(&ran.stdout).map(|why| format!("{line}: {why}")));
        if line == made[1] {
            member = Some(online(&cluster, "c1", "*", MessageModel::Clustering, &[("broker-a", 0)]).await);
        }
    }
    assert!(lacks.is_empty(), "tests/it/support/schema.rs says how: {lacks:?}");
    let ran = rmq.line("schema TopicList").await;
    let schema: Value = serde_json::from_str(&ran.stdout).unwrap();
    let item = &schema["properties"]["items"]["items"]["properties"];
    assert_eq!(schema["properties"]["kind"]["const"], "TopicList");
    assert_eq!(
        item["name"]["type"],
        serde_json::json!(["string", "null"]),
        "{schema}"
    );
    let ran = rmq.line("schema TopicLst").await;
    assert_eq!(ran.code, 4, "{ran:?}");
    assert!(ran.stderr.contains("There is: TopicList"), "{ran:?}");
    member.expect("the group was made").leave();
    cluster.stop().await;
}

/// Tables within an item, which is not called so where it is printed.
const WITHIN: &[&str] = &[
    "BatchMessageList",
    "BrokenLinkList",
    "ChainLengthList",
    "ControllerPeers",
    "DelayLevelList",
    "FindingList",
    "KvAt",
    "LatencyList",
    "MessageTracks",
    "Missing",
    "Rates",
    "RegistrationList",
    "SegmentList",
    "SizeList",
    "SlaveList",
    "StoreQueueList",
    "StoreSpanList",
    "StoreStatsList",
    "StoreTopicList",
    "Subscriptions",
    "Timeline",
    "TimerSlotList",
    "TimerTopicList",
    "Tracks",
];

/// Answers of servers that only Java has: a controller, a broker that knows lite topics.
const ONLY_JAVAS: &[&str] = &[
    "Controller",
    "ControllerConfig",
    "ControllerList",
    "EpochList",
    "LiteParent",
    "LiteTopic",
    "LiteTopicList",
    "SyncStateList",
];

/// The word between the first two quotes behind `mark`.
fn named<'a>(text: &'a str, mark: &str) -> Vec<&'a str> {
    let after = text.split(mark).skip(1);
    let quoted = after.filter_map(|rest| rest.trim_start().strip_prefix('"'));
    quoted.filter_map(|rest| rest.split('"').next()).collect()
}

fn walk(dir: &Path, kinds: &mut Vec<String>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, kinds);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let source = text.split("#[cfg(test)]").next().unwrap();
            let all = named(source, "Listing::new(");
            kinds.extend(all.into_iter().map(str::to_owned));
            let details = source
                .split("Detail {")
                .skip(1)
                .filter_map(|rest| rest.trim_start().strip_prefix("kind:"));
            let quoted = details.filter_map(|rest| rest.trim_start().strip_prefix('"')?.split('"').next());
            kinds.extend(quoted.map(str::to_owned));
        }
    }
}

#[test]
fn every_kind_has_a_schema() {
    let mut kinds = Vec::new();
    walk(Path::new("src/cli"), &mut kinds);
    assert!(kinds.len() > 40, "{kinds:?}");
    kinds.retain(|kind| !knows(kind) && ![WITHIN, ONLY_JAVAS].concat().contains(&kind.as_str()));
    assert!(kinds.is_empty(), "tests/it/support/schema.rs says how: {kinds:?}");
}
