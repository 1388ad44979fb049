//! What a change says of going back is the whole way back, and no step further.

use super::{Cluster, Ran, broker};

/// The undo line, as words for the binary.
fn undo(ran: &Ran) -> &str {
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines = ran.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("undo: rmq "))
        .next()
        .unwrap()
}

/// What is made on one broker beside another that has it already is undone on that one.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_of_a_create_leaves_what_was_there() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    for (noun, name, list) in [
        ("topic", "X", ["topic", "get", "X"]),
        ("group", "G", ["group", "get", "G"]),
    ] {
        let first = rmq
            .line(&format!("{noun} create {name} --broker broker-a --yes"))
            .await;
        let wanted = format!(
            "{noun} delete {name} --broker {} -n {}",
            cluster.brokers[0].addr(),
            cluster.addr
        );
        assert_eq!(undo(&first), wanted);
        let second = rmq
            .line(&format!("{noun} create {name} --broker broker-b --yes"))
            .await;
        let back = rmq.line(&format!("{} --yes", undo(&second))).await;
        assert_eq!(back.code, 0, "{back:?}");
        // What another broker has stays routed, and no request takes the queues of one away.
        if noun == "topic" {
            assert!(back.stdout.contains("still routed to by"), "{back:?}");
        }
        let left = rmq.rows(&list).await;
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(left[0]["broker"], "broker-a");
        // Where nothing else of the cluster has it, nothing of it is left.
        let back = rmq.line(&format!("{} --yes", undo(&first))).await;
        assert_eq!(back.code, 0, "{back:?}");
        assert_eq!(rmq.run(&list).await.code, 4);
        // The whole cluster is named where all of it was meant.
        let whole = rmq.line(&format!("{noun} create {name} --yes")).await;
        let wanted = format!(
            "{noun} delete {name} --cluster DefaultCluster -n {}",
            cluster.addr
        );
        assert_eq!(undo(&whole), wanted);
    }
    // The topic that only broker-b had left no route behind.
    let only = rmq.line("topic create Y --broker broker-b --yes").await;
    let back = rmq.line(&format!("{} --yes", undo(&only))).await;
    assert_eq!(back.code, 0, "{back:?}");
    let routes = rmq.line("namesrv routes Y").await;
    assert_eq!(routes.code, 4, "{routes:?}");
    cluster.stop().await;
}

/// An order entry has the value again that it had, whatever the topic's own way back does with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_of_an_ordered_topic_brings_its_entry_back() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let entry = async || {
        let ran = rmq.line("topic order get X -o json").await;
        let document: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap_or_default();
        document["items"][0]["order_conf"].as_str().map(str::to_owned)
    };
    let go_back = async |ran: &Ran| {
        for command in undo(ran).split(" && rmq ") {
            let words = command.split(' ').map(|word| word.trim_matches('\''));
            let back = rmq.run(&words.chain(["--yes"]).collect::<Vec<_>>()).await;
            assert_eq!(back.code, 0, "{command}: {back:?}");
        }
    };
    // On one broker beside another that keeps the topic, and on that one, which was the last.
    let first = rmq.line("topic create X --order --broker broker-a --yes").await;
    let second = rmq.line("topic create X --order --broker broker-b --yes").await;
    assert_eq!(entry().await.as_deref(), Some("broker-a:8;broker-b:8"));
    go_back(&second).await;
    assert_eq!(entry().await.as_deref(), Some("broker-a:8"));
    go_back(&first).await;
    assert_eq!(entry().await, None);
    // An entry that was there before the topic.
    for line in [
        "topic create X --order --yes",
        "topic create X --order --broker broker-b --yes",
    ] {
        let set = rmq.line("topic order set X old:3;older:4 --yes").await;
        assert_eq!(set.code, 0, "{set:?}");
        let made = rmq.line(line).await;
        assert_ne!(entry().await.as_deref(), Some("old:3;older:4"), "{line}");
        go_back(&made).await;
        assert_eq!(entry().await.as_deref(), Some("old:3;older:4"), "{line}");
    }
    // An entry that was not what the brokers ask for.
    let made = rmq.line("topic create X --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let ordered = rmq.line("topic update X --order true --yes").await;
    assert_eq!(entry().await.as_deref(), Some("broker-a:8;broker-b:8"));
    go_back(&ordered).await;
    assert_eq!(entry().await.as_deref(), Some("old:3;older:4"));
    // Where it was, the way back is the topic's alone.
    let unset = rmq.line("topic order unset X --yes").await;
    assert_eq!(unset.code, 0, "{unset:?}");
    let ordered = rmq.line("topic update X --order true --yes").await;
    assert!(!undo(&ordered).contains("topic order"), "{ordered:?}");
    go_back(&ordered).await;
    assert_eq!(entry().await, None);
    cluster.stop().await;
}

/// A file that makes a group where it is missing is undone there alone.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_of_an_apply_leaves_what_was_there() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let first = rmq.line("group create G --broker broker-a --yes").await;
    assert_eq!(first.code, 0, "{first:?}");
    let file = cluster.path("g.toml");
    std::fs::write(&file, "api = \"rmq/v1\"\n[group.G]\n").unwrap();
    let applied = rmq.line(&format!("apply -f {} --yes", file.display())).await;
    let back = rmq.line(&format!("{} --yes", undo(&applied))).await;
    assert_eq!(back.code, 0, "{back:?}");
    let left = rmq.rows(&["group", "get", "G"]).await;
    assert_eq!(
        (left.len(), &left[0]["broker"]),
        (1, &serde_json::json!("broker-a"))
    );
    cluster.stop().await;
}

/// The servers of a change are in its undo line, wherever they were named: a later shell names others.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_line_names_its_servers() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let config = cluster.path("config.toml");
    let text = format!(
        "current = \"one\"\n[contexts.one]\nnamesrv = [\"{}\"]\n[contexts.two]\nnamesrv = [\"127.0.0.1:1\"]\n",
        cluster.addr
    );
    std::fs::write(&config, text).unwrap();
    let with = |line: &str, servers: Option<(&str, &str)>| {
        let mut command = rmq.command(&line.split(' ').collect::<Vec<_>>());
        command.env_remove("RMQ_NAMESRV").env("RMQ_CONFIG", &config);
        command.envs(servers);
        command
    };
    let addr = cluster.addr.to_string();
    for (topic, given, wanted) in [
        ("A", None, "--context one".to_owned()),
        (
            "B",
            Some(("RMQ_NAMESRV", addr.as_str())),
            format!("-n {addr} --context one"),
        ),
        (
            "C",
            Some(("NAMESRV_ADDR", addr.as_str())),
            format!("-n {addr} --context one"),
        ),
    ] {
        let made = rmq
            .finish(with(&format!("topic create {topic} --yes"), given))
            .await;
        let line = undo(&made).to_owned();
        assert_eq!(
            line,
            format!("topic delete {topic} --cluster DefaultCluster {wanted}")
        );
        let journal = std::fs::read_to_string(rmq.state().join("journal.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(journal.lines().last().unwrap()).unwrap();
        assert_eq!(last["undo"], format!("rmq {line}"));
        // Another context is the current one now; the line still goes where the change went.
        let used = rmq.finish(with("config use two", None)).await;
        assert_eq!(used.code, 0, "{used:?}");
        let back = rmq.finish(with(&format!("{line} --yes"), None)).await;
        assert_eq!(back.code, 0, "{back:?}");
        let used = rmq.finish(with("config use one", None)).await;
        assert_eq!(used.code, 0, "{used:?}");
    }
    cluster.stop().await;
}

/// Where a cluster named by --cluster has a broker that cannot be read, only what was made is undone.
#[tokio::test(flavor = "multi_thread")]
async fn an_undo_of_half_a_create_names_that_half() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let other = broker("broker-b", &cluster.addr.to_string(), &cluster.path("b")).await;
    let map = format!("{}=127.0.0.1:1", other.addr());
    let made = rmq
        .line(&format!(
            "topic create X --cluster DefaultCluster --broker-map {map} --yes"
        ))
        .await;
    assert_eq!(made.code, 7, "{made:?}");
    let wanted = format!(
        "undo: rmq topic delete X --broker {} -n",
        cluster.brokers[0].addr()
    );
    assert!(made.stdout.contains(&wanted), "{made:?}");
    other.stop().await.unwrap();
    cluster.stop().await;
}
