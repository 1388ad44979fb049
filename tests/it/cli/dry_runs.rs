//! §10.4: every command that changes something has a dry run, and no code that changes anything leaves in it.

use std::collections::BTreeSet;

use super::recorder::Wire;
use super::{Cluster, Rmq};

/// Codes that read: those of the specification's wire facts that every change may send first.
const READS: &[i32] = &[
    11, 12, 14, 21, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 101, 105, 106, 201, 202, 203, 204, 206, 208, 219,
    224, 300, 304, 305, 307, 315, 317, 319, 321, 328, 351, 352, 402, 907, 1005, 1006, 1007, 1010, 2003, 3004,
    3005, 3009, 3010,
];

/// Every command of classes A to C, with the codes that a dry run of it may end with: 0, or what it needs is not there.
const CHANGES: &[(&str, &[i32])] = &[
    ("namesrv set-config scanNotActiveBrokerInterval=6000", &[0]),
    ("namesrv drop-broker broker-a", &[9]),
    ("broker set-config broker-a fileReservedTime=9", &[0]),
    ("broker set-permission broker-a R", &[0]),
    ("broker wipe-write broker-a", &[0]),
    ("broker restore-write broker-a", &[0]),
    ("broker drain broker-a", &[0, 9]),
    ("broker undrain broker-a", &[0, 9]),
    ("broker clean-cq broker-a", &[0]),
    ("broker clean-commitlog broker-a", &[0]),
    ("broker clean-unused-topics broker-a", &[0]),
    ("broker set-readahead random broker-a", &[0, 9, 12]),
    ("broker cold-flow set CG 1000", &[0, 9, 12]),
    ("broker cold-flow unset CG", &[0, 9, 12]),
    ("broker reset-flush-offset broker-a --to 0", &[0, 9]),
    ("broker pop-rollback broker-a", &[0, 9, 12]),
    ("broker check-cq --cluster DefaultCluster", &[0, 9, 12]),
    ("broker export-config broker-a", &[0, 9, 12]),
    ("broker container add BROKER --broker-config /x.conf", &[0, 9, 12]),
    ("broker container remove BROKER C:b:0", &[0, 4, 9, 12]),
    ("topic create New", &[0]),
    ("topic update T --perm 4", &[0]),
    ("topic delete T --force", &[0]),
    ("topic scale T --to 8", &[0, 9]),
    ("topic stop-writes T", &[0]),
    ("topic allow-writes T", &[0]),
    ("topic order set T broker-a:2", &[0]),
    ("topic order unset T", &[0]),
    ("static-topic create Fixed --queues 4", &[0]),
    ("static-topic update Fixed --queues 4 --create", &[0]),
    ("static-topic remap T", &[4]),
    ("group create New", &[0]),
    ("group update CG --retry-max 3", &[0]),
    ("group delete CG", &[0]),
    ("group reset CG --topic T --to earliest --execute", &[0]),
    ("group skip CG --topic T --execute", &[0]),
    ("group clone-offsets CG CG2", &[0]),
    ("group set-mode CG --topic T --mode pop", &[0]),
    ("group pause CG", &[0]),
    ("group resume CG", &[0]),
    ("offset set CG --topic T broker-a/0=0", &[0]),
    ("offset import OFFSETS", &[0]),
    ("offset undo CG", &[0, 4]),
    ("message send --topic T --body y", &[0]),
    ("message resend ID", &[0]),
    ("message push ID --topic T --group CG", &[0, 4, 9]),
    ("message import --file MESSAGES", &[0]),
    ("import messages --file MESSAGES", &[0]),
    ("import offsets OFFSETS", &[0]),
    ("dlq resend CG --all", &[0, 4, 9]),
    ("dlq purge CG", &[4, 9, 12]),
    ("kv set NAMESPACE key value", &[0]),
    ("kv delete ORDER_TOPIC_CONFIG T", &[0]),
    ("user create alice --password-from env:HOME", &[0, 12]),
    ("user update alice --status disable", &[0, 4, 12]),
    ("user delete alice", &[0, 4, 12]),
    ("user copy --from broker-a --to broker-b", &[0, 4, 12]),
    (
        "acl create User:alice --resource Topic:T --action Pub --decision allow",
        &[0, 12],
    ),
    (
        "acl update User:alice --resource Topic:T --action Pub --decision allow",
        &[0, 4, 12],
    ),
    ("acl delete User:alice", &[0, 4, 12]),
    ("acl copy --from broker-a --to broker-b", &[0, 4, 12]),
    ("controller set-config a=b --controller BROKER", &[0, 12]),
    ("controller elect broker-a:1 --controller BROKER", &[0, 4, 12]),
    (
        "controller clean-broker broker-a --all --controller BROKER",
        &[0, 4, 12],
    ),
    ("apply --file DECLARED", &[0]),
    ("bench produce --topic T --count 3", &[0]),
    ("bench latency --topic T --count 3", &[0]),
    ("bench cluster-latency --count 3", &[0]),
];

/// Dry runs that say in words of their own what would be done.
const UNPLANNED: &[&str] = &[
    "message send --topic T --body y",
    "message resend ID",
    "message import --file MESSAGES",
    "import messages --file MESSAGES",
];

/// Commands that need to read nothing first.
const SILENT: &[&str] = &[
    "dlq purge CG",
    "broker container add BROKER --broker-config /x.conf",
    "broker container remove BROKER C:b:0",
];

async fn prepared(cluster: &Cluster, rmq: &Rmq) -> Vec<(&'static str, String)> {
    let run = async |line: &str| {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran
    };
    run("topic create T --queues 4 --order --yes").await;
    run("group create CG --yes").await;
    run("group create CG2 --yes").await;
    run("message send --topic T --body x --key K").await;
    run("offset set CG --topic T broker-a/0=0 --yes").await;
    let path = |name: &str| cluster.path(name).display().to_string();
    let (offsets, messages, declared) = (
        path("offsets.json"),
        path("messages.jsonl"),
        path("declared.toml"),
    );
    run(&format!("offset export CG --out {offsets}")).await;
    run(&format!("message export --topic T --out {messages}")).await;
    std::fs::write(
        &declared,
        "api = \"rmq/v1\"\n[topic.Declared]\nqueues = 4\n[group.CG]\nretry_max = 2\n",
    )
    .unwrap();
    let listed = rmq.rows(&["message", "list", "--topic", "T"]).await;
    let id = listed[0]["offset_id"].as_str().unwrap().to_owned();
    vec![
        ("OFFSETS", offsets),
        ("MESSAGES", messages),
        ("DECLARED", declared),
        ("ID", id),
        ("BROKER", cluster.brokers[0].addr().to_string()),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_change_has_a_dry_run_that_only_reads() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let names = prepared(&cluster, &rmq).await;
    let brokers: Vec<String> = cluster.brokers.iter().map(|b| b.addr().to_string()).collect();
    let wire = Wire::tap(&cluster.addr.to_string(), &brokers).await;
    let seen = Rmq::new(&wire.name_server, cluster.dir());
    let (mut wrong, mut sent) = (Vec::new(), BTreeSet::new());
    for (line, codes) in CHANGES {
        let words = line.split(' ').map(|word| {
            let known = names.iter().find(|(name, _)| *name == word);
            known.map_or(word, |(_, value)| value.as_str())
        });
        let mut args: Vec<&str> = words.collect();
        args.push("--dry-run");
        for map in &wire.maps {
            args.extend(["--broker-map", map]);
        }
        let ran = seen.run(&args).await;
        if !codes.contains(&ran.code) {
            wrong.push(format!("{line}: {ran:?}"));
        }
        let taken = wire.take();
        if taken.is_empty() && !SILENT.contains(line) {
            wrong.push(format!("{line}: nothing was asked: {ran:?}"));
        }
        // Section 6, rule 9: the scope, whoever is asked.
        let scope = format!("name servers {}", wire.name_server);
        let tells = |line: &str| line.contains(&scope) && line.contains("): ");
        let planned = ran.stderr != "nothing to change\n" && !UNPLANNED.contains(line);
        if ran.code == 0 && planned && !ran.stderr.lines().any(tells) {
            wrong.push(format!("{line}: no scope is told: {ran:?}"));
        }
        if let Some(code) = taken.iter().find(|code| !READS.contains(code)) {
            wrong.push(format!("{line} sent {code}"));
        }
        sent.extend(taken);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sent.len() > 15, "{sent:?}");
    wire.stop().await;
    cluster.stop().await;
}
