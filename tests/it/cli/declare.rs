//! A cluster as a file: exported, applied, compared.

use serde_json::json;

use super::{Cluster, items};

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_exported_applied_and_exported_again_byte_for_byte() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create Orders --queues 8 --type fifo --order --yes",
        "topic create Uneven --queues 4 --broker broker-a --yes",
        "topic create Both --queues 3 --yes",
    ] {
        let made = rmq.line(line).await;
        assert_eq!(made.code, 0, "{made:?}");
    }
    let other = rmq
        .line("topic update Both --broker broker-b --write-queues 5 --read-queues 5 --yes")
        .await;
    assert_eq!(other.code, 0, "{other:?}");
    let dir = cluster.dir().to_owned();
    let file = |name: &str| dir.join(name).to_str().unwrap().to_owned();
    let first = file("first.toml");
    let exported = rmq.run(&["export", "all", "--out", &first]).await;
    assert_eq!(exported.code, 0, "{exported:?}");
    let text = std::fs::read_to_string(&first).unwrap();
    assert!(
        text.starts_with("api = \"rmq/v1\"\ncluster = \"DefaultCluster\"\n"),
        "{text}"
    );
    // Queue counts of brokers are not added up, and said once where they are equal.
    assert!(text.contains("[topic.Orders]\nqueues = 8\n"), "{text}");
    assert!(
        text.contains("[topic.Both.broker.broker-b]\nqueues = 5\n"),
        "{text}"
    );

    let nothing = rmq.run(&["apply", "-f", &first, "--prune", "--yes"]).await;
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, ""), "{nothing:?}");
    let same = rmq.run(&["diff", "-f", &first]).await;
    assert_eq!(same.code, 0, "{same:?}");

    // A change, a new group, a new topic; then the file is what the cluster has.
    let wanted = text
        .replace("queues = 8", "queues = 16")
        .replace("perm = \"RW\"", "perm = \"R\"")
        + "\n[topic.New]\nqueues = 2\n\n[group.CG]\nretry_max = 3\nretry_policy = { type = \"exponential\", initial = \"5s\", max = \"2h\", multiplier = 2 }\nattributes = {}\n";
    let second = file("second.toml");
    std::fs::write(&second, &wanted).unwrap();
    let differs = rmq.run(&["diff", "-f", &second, "-o", "json"]).await;
    assert_eq!(differs.code, 10, "{differs:?}");
    let ops: Vec<String> = items(&differs)
        .iter()
        .map(|r| format!("{}{}", r["op"].as_str().unwrap(), r["name"].as_str().unwrap()))
        .collect();
    assert!(
        ops.contains(&"+New".into()) && ops.contains(&"~Orders".into()),
        "{ops:?}"
    );
    let dry = rmq.run(&["apply", "-f", &second, "--dry-run"]).await;
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(rmq.run(&["apply", "-f", &second]).await.code, 13);
    let applied = rmq.run(&["apply", "-f", &second, "--yes"]).await;
    assert_eq!(applied.code, 0, "{applied:?}");
    let undo = applied.stdout.lines().last().unwrap().to_owned();
    assert!(undo.starts_with("undo: "), "{applied:?}");
    let third = file("third.toml");
    assert_eq!(rmq.run(&["export", "all", "--out", &third]).await.code, 0);
    let now = std::fs::read_to_string(&third).unwrap();
    assert!(
        now.contains("[group.CG]") && now.contains("retry_max = 3"),
        "{now}"
    );
    assert!(now.contains("initial = \"5s\", max = \"2h\""), "{now}");
    assert_eq!(
        rmq.run(&["apply", "-f", &third, "--prune", "--yes"]).await.code,
        0
    );
    let fourth = file("fourth.toml");
    assert_eq!(rmq.run(&["export", "all", "--out", &fourth]).await.code, 0);
    assert_eq!(now, std::fs::read_to_string(&fourth).unwrap());

    // Fewer queues are not reached in one step; what the first file lacks goes only when asked.
    let shrink = rmq.run(&["apply", "-f", &first, "--yes"]).await;
    assert_eq!(shrink.code, 9, "{shrink:?}");
    assert!(
        shrink.stderr.contains("rmq topic scale Orders --to 8"),
        "{shrink:?}"
    );
    let pruned = text.replace("queues = 8", "queues = 16");
    let fifth = file("fifth.toml");
    std::fs::write(&fifth, &pruned).unwrap();
    let kept = rmq.run(&["apply", "-f", &fifth, "--yes"]).await;
    assert_eq!(kept.code, 0, "{kept:?}");
    assert_eq!(rmq.line("topic get New").await.code, 0);
    let gone = rmq.run(&["apply", "-f", &fifth, "--prune", "--yes"]).await;
    assert_eq!(gone.code, 0, "{gone:?}");
    assert_eq!(rmq.line("topic get New").await.code, 4);
    assert_eq!(rmq.rows(&["group", "list", "--filter", "name=CG"]).await.len(), 1);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_file_changes_nothing_and_names_its_line() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let path = cluster.dir().join("bad.toml");
    for (text, code, part) in [
        ("api = \"rmq/v1\"\n[topic.T]\nqueue = 3\n", 2, "line 3"),
        (
            "api = \"rmq/v1\"\n[topic.T.broker.broker-z]\nqueues = 3\n",
            4,
            "broker-z",
        ),
        ("api = \"rmq/v1\"\ncluster = \"Other\"\n[topic.T]\n", 4, "Other"),
        ("api = \"rmq/v1\"\n", 2, "neither"),
        ("[{\"topicName\":\"T\",\"readQueues\":3}]", 2, "readQueues"),
    ] {
        std::fs::write(&path, text).unwrap();
        let ran = rmq.run(&["apply", "-f", path.to_str().unwrap(), "--yes"]).await;
        assert_eq!(ran.code, code, "{text}: {ran:?}");
        assert!(ran.stderr.contains(part), "{text}: {ran:?}");
    }
    assert!(rmq.rows(&["topic", "list"]).await.is_empty());
    // Both lists of mqadmin.
    std::fs::write(
        &path,
        r#"[{"topicName":"T","readQueueNums":3,"writeQueueNums":3,"perm":6}]"#,
    )
    .unwrap();
    let made = rmq.run(&["apply", "-f", path.to_str().unwrap(), "--yes"]).await;
    assert_eq!(made.code, 0, "{made:?}");
    std::fs::write(
        &path,
        r#"[{"groupName":"g","retryMaxTimes":3,"consumeEnable":true}]"#,
    )
    .unwrap();
    let made = rmq.run(&["apply", "-f", path.to_str().unwrap(), "--yes"]).await;
    assert_eq!(made.code, 0, "{made:?}");
    let group = rmq.rows(&["group", "list", "--filter", "name=g"]).await;
    assert_eq!((group.len(), &group[0]["retry_max"]), (1, &json!(3)), "{group:?}");
    cluster.stop().await;
}

/// mqadmin's -b meant one broker.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_applied_to_one_broker_of_a_cluster() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let path = cluster.dir().join("topics.json");
    let file = path.to_str().unwrap();
    std::fs::write(
        &path,
        r#"[{"topicName":"T","readQueueNums":3,"writeQueueNums":3,"perm":6}]"#,
    )
    .unwrap();
    let addr = cluster.brokers[1].addr().to_string();
    let bridged = rmq
        .run(&["mqadmin", "updateTopicList", "-b", &addr, "-f", file])
        .await;
    assert_eq!(bridged.code, 0, "{bridged:?}");
    let on = async |topic: &str| -> Vec<String> {
        let ran = rmq.run(&["topic", "get", topic, "-o", "json"]).await;
        let brokers = items(&ran).into_iter();
        brokers
            .map(|row| row["broker"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(on("T").await, ["broker-b"]);
    // What the file says of the others is no fault, and nothing is done there.
    let toml = cluster.dir().join("parts.toml");
    let text = "api = \"rmq/v1\"\n[topic.T.broker.broker-a]\nqueues = 3\n[group.G]\nretry_max = 3\n";
    std::fs::write(&toml, text).unwrap();
    let toml = toml.to_str().unwrap();
    let differs = rmq
        .run(&["diff", "-f", toml, "--broker", "broker-b", "-o", "json"])
        .await;
    assert_eq!(differs.code, 10, "{differs:?}");
    let targets: Vec<serde_json::Value> = items(&differs)
        .iter()
        .map(|row| json!([row["name"], row["target"]]))
        .collect();
    assert_eq!(targets, [json!(["G", "broker-b"])]);
    let applied = rmq.run(&["apply", "-f", toml, "--broker", &addr, "--yes"]).await;
    assert_eq!(applied.code, 0, "{applied:?}");
    assert_eq!(on("T").await, ["broker-b"]);
    let groups = rmq.rows(&["group", "get", "G"]).await;
    assert_eq!(groups.len(), 1, "{groups:?}");
    // A prune of one broker would take the routes of the others.
    let pruned = rmq
        .run(&["apply", "-f", toml, "--broker", &addr, "--prune"])
        .await;
    assert_eq!(pruned.code, 2, "{pruned:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sides_are_compared_and_one_is_made_like_the_other() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create Same --queues 2 --yes",
        "topic create Left --queues 2 --broker broker-a --yes",
        "topic create Queues --queues 4 --broker broker-a --yes",
        "topic create Queues --queues 8 --broker broker-b --yes",
    ] {
        let made = rmq.line(line).await;
        assert_eq!(made.code, 0, "{made:?}");
    }
    let ran = rmq.line("topic diff broker-a broker-b -o json").await;
    assert_eq!(ran.code, 10, "{ran:?}");
    let told: Vec<String> = items(&ran)
        .iter()
        .map(|r| {
            format!(
                "{}{} {}",
                r["op"].as_str().unwrap(),
                r["name"].as_str().unwrap(),
                r["field"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        told,
        ["-Left topic", "~Queues read_queues", "~Queues write_queues"]
    );
    let one = rmq.line("topic diff broker-a broker-b --only Same").await;
    assert_eq!(one.code, 0, "{one:?}");
    let whole = rmq.line("cluster diff DefaultCluster DefaultCluster").await;
    assert_eq!(whole.code, 0, "{whole:?}");
    let groups = rmq.line("group diff broker-a broker-b").await;
    assert_eq!(groups.code, 0, "{groups:?}");
    let apply = rmq
        .line("topic diff broker-a broker-b --as-apply --only Left")
        .await;
    assert!(apply.stdout.contains("[topic.Left]\nqueues = 2\n"), "{apply:?}");
    assert!(!apply.stdout.contains("Queues"), "{apply:?}");
    let nowhere = rmq.line("topic diff broker-a broker-z").await;
    assert_eq!(nowhere.code, 4, "{nowhere:?}");
    // A file is JSON, whole, unless another form is asked for.
    let dir = cluster.dir().to_str().unwrap();
    for (form, part) in [
        ("", "\"kind\": \"ConfigExport\""),
        ("-o csv", "cluster,broker,key,value\n"),
        ("-o table", "CLUSTER"),
    ] {
        let out = format!("{dir}/settings{}", form.trim_start_matches("-o "));
        let ran = rmq
            .line(format!("export config --out {out} {form}").trim_end())
            .await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let text = std::fs::read_to_string(&out).unwrap();
        assert!(text.contains(part), "{form}: {text}");
    }
    mqadmin_files(&rmq, dir).await;
    // Reports of settings and figures, one row each.
    let config = rmq
        .rows(&["export", "config", "--filter", "key=fileReservedTime"])
        .await;
    assert_eq!(config.len(), 2);
    let metrics = rmq.rows(&["export", "metrics"]).await;
    assert_eq!(
        (metrics.len(), &metrics[0]["topics"], &metrics[0]["queues"]),
        (2, &json!(3), &json!(8))
    );
    cluster.stop().await;
}

/// `configs.json` and `metrics.json` have the keys that Java's ExportConfigsCommand and ExportMetricsCommand write.
async fn mqadmin_files(rmq: &crate::cli::Rmq, dir: &str) {
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_str(&std::fs::read_to_string(format!("{dir}/{name}")).unwrap()).unwrap()
    };
    for name in ["exportConfigs", "exportMetrics"] {
        let ran = rmq
            .line(&format!("mqadmin {name} -c DefaultCluster -f {dir}"))
            .await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let configs = read("configs.json");
    assert_eq!(
        configs["clusterScale"],
        json!({"namesrvSize": 1, "masterBrokerSize": 2, "slaveBrokerSize": 0})
    );
    let one = configs["brokerConfigs"]["broker-a"].as_object().unwrap();
    assert_eq!(one["brokerName"], "broker-a");
    assert_eq!(one["brokerClusterName"], "DefaultCluster");
    assert_eq!(one["brokerId"], "0");
    let wanted = [
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerClusterName",
        "brokerId",
        "brokerName",
        "brokerRole",
        "fileReservedTime",
        "filterServerNums",
        "flushDiskType",
        "maxMessageSize",
        "messageDelayLevel",
        "msgTraceTopicName",
        "slaveReadEnable",
        "traceOn",
        "traceTopicEnable",
        "useTLS",
    ];
    // Java leaves out what a broker does not tell.
    assert!(one.keys().all(|key| wanted.contains(&key.as_str())), "{one:?}");
    let metrics = read("metrics.json");
    let quota = &metrics["evaluateReport"]["broker-b"]["runtimeQuota"];
    assert_eq!(
        (&quota["topicSize"], &quota["groupSize"]),
        (&json!(2), &json!(0)),
        "{metrics}"
    );
    assert_eq!(quota["tps"]["scheduleInTps"], 0.0);
    assert!(quota["diskRatio"]["commitLogDiskRatio"].is_string(), "{metrics}");
    assert_eq!(metrics["totalData"]["totalOneDayNum"]["normalOneDayInNum"], 0);
    let all = rmq
        .run(&["mqadmin", "--no-hint", "getBrokerConfig", "-c", "DefaultCluster"])
        .await;
    for key in ["listenPort", "brokerName", "storePathRootDir"] {
        assert!(all.stdout.contains(key), "{key}: {all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tail_follows_in_the_order_of_store_time() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let made = rmq.line("topic create T --queues 4 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let send = async |i: usize| {
        let sent = rmq
            .run(&[
                "message",
                "send",
                "--topic",
                "T",
                "--body",
                &format!("m{i}"),
                "--key",
                if i.is_multiple_of(2) { "even" } else { "odd" },
            ])
            .await;
        assert_eq!(sent.code, 0, "{sent:?}");
    };
    for i in 0..6 {
        send(i).await;
    }
    let tail = rmq
        .line("message tail --topic T --follow --from earliest --limit 6 --for 20s -o jsonl")
        .await;
    assert_eq!(tail.code, 0, "{tail:?}");
    let rows: Vec<serde_json::Value> = tail
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let bodies: Vec<&str> = rows.iter().map(|r| r["body"].as_str().unwrap()).collect();
    assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4", "m5"]);
    // As message list shows them, from an offset of each queue.
    let lines = async |words: &[&str]| {
        let all = ["message", "tail", "--topic", "T"].iter().chain(words);
        let ran = rmq.run(&all.copied().collect::<Vec<_>>()).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let mut lines: Vec<String> = ran.stdout.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let format = ["--format", "{keys}:{body}", "--from-offset", "0"];
    let wanted = ["even:m0", "even:m2", "even:m4", "odd:m1", "odd:m3", "odd:m5"];
    assert_eq!(lines(&format).await, wanted);
    let followed: Vec<&str> = format
        .iter()
        .chain(&["--follow", "--limit", "6"])
        .copied()
        .collect();
    assert_eq!(lines(&followed).await, wanted);
    let behind = lines(&["--format", "{offset}", "--from-offset", "1"]).await;
    assert!(behind.iter().all(|offset| offset == "1"), "{behind:?}");
    assert_eq!(
        lines(&["--format", "{body}", "--decode", "gbk", "--limit", "6"])
            .await
            .len(),
        6
    );
    // Filters, and an end by time alone.
    let odd = rmq
        .line("message tail --topic T --follow --from earliest --key odd --for 2s -o jsonl")
        .await;
    assert_eq!((odd.code, odd.stdout.lines().count()), (0, 3), "{odd:?}");
    let plan = rmq.rows(&["broker", "restart-plan"]).await;
    assert_eq!(plan.len(), 9, "{plan:?}");
    cluster.stop().await;
}
