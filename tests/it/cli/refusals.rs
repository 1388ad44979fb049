//! Commands that must fail, and how: a code, nothing on stdout, an error that names the thing.

use super::{Cluster, Ran, Rmq, items};

fn clean(ran: &Ran, code: i32, part: &str) {
    assert_eq!(ran.code, code, "{ran:?}");
    assert_eq!(ran.stdout, "", "{ran:?}");
    assert!(ran.stderr.contains(part), "{part} is missing: {ran:?}");
}

/// These need no server: they fail before anything is dialled.
#[tokio::test(flavor = "multi_thread")]
async fn wrong_usage_ends_with_2_and_touches_nothing() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1", home.path());
    let cases: &[(&[&str], &str)] = &[
        (
            &["topic", "update", "--perm", "6"],
            "rmq topic update OrderEvents --perm 6",
        ),
        (&["topic", "update", "T"], "nothing to change"),
        (&["topic", "update", "T", "--perm", "9"], "2 (write), 4 (read)"),
        (&["topic", "update", "T", "--queues", "-1"], "-1"),
        (&["topic", "update", "T", "--queues", "99999"], "16384"),
        (&["topic", "create", "a/b", "--yes"], "illegal characters"),
        (&["topic", "create", "..", "--yes"], "illegal characters"),
        (&["topic", "create", "T", "--queues", "0", "--yes"], "1 to 16384"),
        (&["topic", "create", "T", "--queues", "x"], "x"),
        (&["topic", "frobnicate"], "frobnicate"),
        (&["static-topic", "create", "T", "--queues", "0"], "1 to 16384"),
        (&["static-topic", "update", "T", "--force-replace"], "--map-file"),
        (
            &[
                "message",
                "find",
                "--topic",
                "T",
                "--key",
                "K",
                "--since",
                "yesterday",
            ],
            "RFC 3339",
        ),
        (&["message", "send", "--topic", "T"], "--body"),
        (
            &["message", "send", "--topic", "T", "--body", "x", "--delay", "0"],
            "0",
        ),
        (&["message", "get", "--topic", "T", "--queue", "1"], "--offset"),
        (&["group", "lag", "G", "--by", "moon"], "moon"),
        (&["cluster", "list", "--timeout", "5"], "500ms"),
        (&["cluster", "list", "--timeout", "0s"], "0"),
        (&["cluster", "list", "--watch=1ms"], "100ms"),
        (&["cluster", "list", "-n", "nonsense"], "HOST:PORT"),
        (
            &["cluster", "list", "--config", "/does/not/exist"],
            "/does/not/exist",
        ),
        (&["cluster", "list", "--broker-map", "x"], "FROM=TO"),
        (&["cluster", "list", "--filter", "name"], "condition"),
        (&["cluster", "list", "-o", "yaml"], "yaml"),
        (
            &[
                "group",
                "reset",
                "G",
                "--topic",
                "T",
                "--to",
                "2099-01-01",
                "--execute",
                "--yes",
            ],
            "2099-01-01 00:00:00.000 is in the future",
        ),
        (&["config", "set", "c", "namesrv", "nonsense"], "HOST:PORT"),
        (&["config", "set", "c", "color", "red"], "color"),
        (
            &[
                "group",
                "reset",
                "G",
                "--topic",
                "T",
                "--from-group",
                "H",
                "--queue",
                "broker-a/0=5",
            ],
            "cannot be used with",
        ),
        (
            &[
                "group",
                "reset",
                "G",
                "--topic",
                "T",
                "--from-group",
                "H",
                "--to",
                "earliest",
            ],
            "cannot be used with",
        ),
        (&["completion", "tcsh"], "tcsh"),
    ];
    for (args, part) in cases {
        let ran = rmq.run(args).await;
        assert_eq!(ran.code, 2, "{args:?}: {ran:?}");
        clean(&ran, 2, part);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_server_is_3_and_names_every_address() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1;127.0.0.1:2", home.path());
    let commands: &[&[&str]] = &[
        &["cluster", "list"],
        &["broker", "list"],
        &["broker", "describe", "b"],
        &["broker", "get-config", "b"],
        &["broker", "set-config", "b", "k=v", "--yes"],
        &["topic", "list"],
        &["topic", "get", "T"],
        &["topic", "route", "T"],
        &["topic", "status", "T"],
        &["topic", "create", "T", "--yes"],
        &["topic", "update", "T", "--perm", "6", "--yes"],
        &["topic", "delete", "T", "--yes"],
        &["group", "list"],
        &["group", "lag"],
        &["group", "lag", "G"],
        &["group", "clients", "G"],
        &["message", "send", "--topic", "T", "--body", "x"],
        &["message", "find", "--topic", "T", "--key", "K"],
        &["message", "tail", "--topic", "T"],
    ];
    for args in commands {
        let ran = rmq.run(args).await;
        clean(&ran, 3, "no name server could be reached");
        for addr in ["127.0.0.1:1", "127.0.0.1:2"] {
            assert!(ran.stderr.contains(addr), "{args:?}: {ran:?}");
        }
        let json: Vec<&str> = args.iter().copied().chain(["-o", "json", "--quiet"]).collect();
        let ran = rmq.run(&json).await;
        let error: serde_json::Value =
            serde_json::from_str(&ran.stderr).unwrap_or_else(|e| panic!("{e}: {ran:?}"));
        assert_eq!(error["error"]["kind"], "connection");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_is_4_with_the_nearest_names() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(
        rmq.run(&["topic", "create", "OrderEvents", "--yes"]).await.code,
        0
    );
    let cases: &[(&[&str], &str)] = &[
        (&["topic", "get", "orderevents"], "OrderEvents"),
        (&["topic", "route", "OrderEvent"], "OrderEvents"),
        (&["topic", "status", "OrderEvent"], "OrderEvents"),
        (
            &["topic", "update", "OrderEvent", "--perm", "6", "--yes"],
            "OrderEvents",
        ),
        (&["topic", "delete", "OrderEvent", "--yes"], "OrderEvents"),
        (&["message", "tail", "--topic", "OrderEvent"], "OrderEvents"),
        (&["broker", "describe", "broker-b"], "broker-a"),
        (&["broker", "get-config", "broker-b"], "broker-a"),
        (&["topic", "list", "--cluster", "Default"], "DefaultCluster"),
        (
            &["cluster", "list", "--cluster", "defaultcluster"],
            "DefaultCluster",
        ),
        (&["group", "lag", "CG_X"], "CG_X"),
        (&["group", "clients", "CG_X"], "CG_X"),
        (
            &["message", "find", "--topic", "OrderEvents", "--key", "nokey"],
            "searched broker-a",
        ),
        (
            &["message", "tail", "--topic", "OrderEvents", "--queue", "77"],
            "8 queues",
        ),
    ];
    for (args, part) in cases {
        clean(&rmq.run(args).await, 4, part);
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_to_ask_is_13_and_a_dry_run_changes_nothing() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(rmq.run(&["topic", "create", "T", "--yes"]).await.code, 0);
    let before = rmq.rows(&["topic", "get", "T"]).await;
    let changes: &[&[&str]] = &[
        &["topic", "create", "T2"],
        &["topic", "update", "T", "--perm", "4"],
        &["topic", "delete", "T"],
        &["broker", "set-config", "broker-a", "fileReservedTime=9"],
    ];
    for change in changes {
        let asked = rmq.run(change).await;
        clean(&asked, 13, "→");
        let dry: Vec<&str> = change
            .iter()
            .copied()
            .chain(["--dry-run", "-o", "json"])
            .collect();
        let planned = rmq.run(&dry).await;
        assert_eq!(planned.code, 0, "{planned:?}");
        assert_eq!(items(&planned)[0]["result"], "planned", "{planned:?}");
    }
    assert_eq!(rmq.rows(&["topic", "get", "T"]).await, before);
    let config = rmq
        .rows(&["broker", "get-config", "broker-a", "fileReservedTime"])
        .await;
    assert_eq!(config[0]["value"], "72");
    clean(
        &rmq.run(&["topic", "delete", "TBW102", "--yes"]).await,
        9,
        "system topic",
    );
    cluster.stop().await;
}

/// §2: --dry-run computes and prints; what is deleted is asked about.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_leaves_the_configuration_file_alone() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1", home.path());
    let line = async |line: &str, code: i32| {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{line}: {ran:?}");
        ran
    };
    for name in ["one", "two"] {
        line(&format!("config set {name} namesrv 127.0.0.1:9876"), 0).await;
    }
    line("config use one", 0).await;
    let file = home.path().join(".config/rmq/config.toml");
    let text = || std::fs::read_to_string(&file).unwrap();
    let before = text();
    for (change, field) in [
        ("config use two", "current"),
        ("config set one protected true", "contexts.one.protected"),
        ("config set new cluster C", "contexts.new.cluster"),
        ("config set journal off", "journal"),
        ("config delete one", "contexts.one.namesrv"),
    ] {
        let planned = line(&format!("{change} --dry-run -o json"), 0).await;
        let fields: Vec<serde_json::Value> = items(&planned).iter().map(|r| r["field"].clone()).collect();
        assert!(fields.contains(&field.into()), "{change}: {planned:?}");
        assert_eq!(text(), before, "{change}");
    }
    // A context that is broken, or not there, is told as without a dry run.
    line("config use nope --dry-run", 4).await;
    line("config set one namesrv nonsense --dry-run", 2).await;
    // Nobody can be asked.
    line("config delete one", 13).await;
    assert_eq!(text(), before);
    line("config delete one --yes", 0).await;
    assert!(!text().contains("one"), "{}", text());
    line("config use two", 0).await;
}

/// §1: one of --cluster, --broker and --all-clusters; a context's cluster is a default only.
#[tokio::test(flavor = "multi_thread")]
async fn every_cluster_is_read_although_the_context_names_one() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    for line in ["config set prod cluster Other", "config use prod"] {
        assert_eq!(rmq.line(line).await.code, 0, "{line}");
    }
    clean(&rmq.line("broker list").await, 4, "Other");
    for line in [
        "broker list --all-clusters",
        "topic list --all-clusters",
        "cluster list --all-clusters",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    assert_eq!(rmq.rows(&["broker", "list", "--all-clusters"]).await.len(), 1);
    for line in [
        "broker list --all-clusters --cluster DefaultCluster",
        "topic list --all-clusters --broker broker-a",
    ] {
        clean(&rmq.line(line).await, 2, "--all-clusters");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_protected_context_wants_the_clusters_name() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let addr = cluster.addr.to_string();
    for (key, value) in [("namesrv", addr.as_str()), ("protected", "true")] {
        assert_eq!(rmq.run(&["config", "set", "prod", key, value]).await.code, 0);
    }
    assert_eq!(rmq.run(&["config", "use", "prod"]).await.code, 0);
    let contexts = rmq.rows(&["config", "list"]).await;
    assert_eq!(
        (&contexts[0]["name"], &contexts[0]["current"]),
        (&"prod".into(), &true.into())
    );
    clean(
        &rmq.run(&["topic", "create", "T", "--yes"]).await,
        13,
        "--yes=DefaultCluster",
    );
    clean(
        &rmq.run(&["topic", "create", "T", "--yes=Other"]).await,
        13,
        "protected",
    );
    assert_eq!(
        rmq.run(&["topic", "create", "T", "--yes=DefaultCluster"])
            .await
            .code,
        0
    );
    assert_eq!(
        rmq.run(&["config", "set", "prod", "read_only", "true"])
            .await
            .code,
        0
    );
    let refused = rmq
        .run(&["topic", "update", "T", "--perm", "4", "--yes=DefaultCluster"])
        .await;
    clean(&refused, 9, "read only");
    clean(
        &rmq.run(&["message", "send", "--topic", "T", "--body", "x"]).await,
        9,
        "read only",
    );
    let test = rmq.rows(&["config", "test"]).await;
    assert_eq!(test[0]["state"], "up");
    cluster.stop().await;
}

/// A reader that has seen enough is no failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_closed_pipe_is_a_normal_end() {
    let home = tempfile::tempdir().unwrap();
    let rmq = Rmq::new("127.0.0.1:1", home.path());
    let mut command = rmq.command(&["completion", "bash"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let out = tokio::task::spawn_blocking(move || child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    assert_eq!((out.status.code(), out.stderr.as_slice()), (Some(0), &b""[..]));
}

/// Static and lite topics are for other servers: ours says so, and the command what is lacking.
#[tokio::test(flavor = "multi_thread")]
async fn what_our_brokers_do_not_answer_is_12() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(rmq.line("topic create T --queues 2 --yes").await.code, 0);
    for (line, part) in [
        ("lite list", "5.5.0"),
        ("lite get T", "5.5.0"),
        ("lite get T one", "5.5.0"),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 12, "{line}: {ran:?}");
        assert!(ran.stderr.contains(part), "{line}: {ran:?}");
    }
    let ran = rmq.line("static-topic create Fixed --queues 2 --yes").await;
    assert_eq!(ran.code, 12, "{ran:?}");
    assert!(ran.stderr.contains("UPDATE_AND_CREATE_STATIC_TOPIC"), "{ran:?}");
    for (line, code) in [
        ("static-topic get T", 4),
        ("static-topic get Absent", 4),
        ("static-topic create T --queues 2 --yes", 9),
        ("static-topic update T --queues 4 --yes", 9),
        ("static-topic update Absent --queues 4 --yes", 4),
        ("static-topic update T --map-file /does/not/exist --yes", 2),
        ("static-topic remap TBW102 --yes", 9),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{line}: {ran:?}");
    }
}
