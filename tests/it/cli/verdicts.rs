//! Exit codes and next commands: what they say is so, and following them helps.

use std::time::Duration;

use serde_json::{Value, json};

use super::fakes::{Hanging, listen};
use super::{Cluster, Ran, items};

fn document(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_not_found() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create T --queues 1 --yes",
        "group create G --yes",
        "topic create R --queues 1 --perm 4 --yes",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let sent = rmq.line("message send --topic T --body x -o json").await;
    let id = items(&sent)[0]["offset_id"].as_str().unwrap().to_owned();
    // Address and port stay, the place in the log is one that nothing begins at.
    let nothing = format!("{}{:016X}", &id[..16], 0x0F_FFFF);
    let got = rmq.line(&format!("message get {nothing}")).await;
    assert_eq!(got.code, 4, "{got:?}");

    let typo = rmq.line("group lag G --topic TYPO").await;
    assert_eq!(typo.code, 4, "{typo:?}");
    assert!(typo.stderr.contains("TYPO"), "{typo:?}");
    // A group that never read the topic has no position, whatever a broker makes up.
    let none = rmq.line("group lag G --topic T -o json").await;
    assert_eq!(none.code, 0, "{none:?}");
    let rows = items(&none);
    assert_eq!(rows.len(), 1, "{none:?}");
    assert_eq!(
        (&rows[0]["committed"], &rows[0]["lag"], &rows[0]["note"]),
        (&Value::Null, &Value::Null, &json!("no position"))
    );
    assert_eq!(document(&none)["summary"]["total_lag"], Value::Null);
    let told = rmq.line("group lag G --topic T").await;
    assert!(told.stderr.contains("no position in T"), "{told:?}");
    // With one it is told.
    let moved = rmq
        .line("group reset G --topic T --to-offset 0 --execute --yes")
        .await;
    assert_eq!(moved.code, 0, "{moved:?}");
    let rows = rmq.rows(&["group", "lag", "G", "--topic", "T"]).await;
    assert_eq!((&rows[0]["committed"], &rows[0]["lag"]), (&json!(0), &json!(1)));

    // Nor has it one in a queue beside another of the same topic that it read.
    for line in [
        "topic create P --queues 2 --yes",
        "offset set G --topic P broker-a/0=0 --yes",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let rows = rmq.rows(&["group", "lag", "G", "--topic", "P"]).await;
    let committed: Vec<(&Value, &Value)> = rows.iter().map(|r| (&r["queue"], &r["committed"])).collect();
    assert_eq!(committed, [(&json!(0), &json!(0)), (&json!(1), &Value::Null)]);

    let refused = rmq.line("message send --topic R --body x").await;
    assert_eq!(refused.code, 9, "{refused:?}");
    assert!(
        refused.stderr.contains("Try: rmq topic update R --perm 6"),
        "{refused:?}"
    );
    let opened = rmq.line("topic update R --perm 6 --yes").await;
    assert_eq!(opened.code, 0, "{opened:?}");
    let sent = rmq.line("message send --topic R --body x").await;
    assert_eq!(sent.code, 0, "{sent:?}");

    for line in ["topic list --context nope", "config use nope"] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 4, "{ran:?}");
    }
    let zero = rmq.line("topic create Z --queues 0").await;
    assert_eq!(zero.code, 2, "{zero:?}");
    assert!(zero.stderr.contains("--queues 0 is not"), "{zero:?}");
    let file = cluster.path("no-api.toml");
    std::fs::write(&file, "[topic.T]\nqueues = 1\n").unwrap();
    let ran = rmq.line(&format!("apply -f {}", file.display())).await;
    assert!(ran.stderr.contains("api = \"rmq/v1\""), "{ran:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_hung_broker_makes_an_answer_partial() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create T --queues 1 --yes",
        "topic create %DLQ%g --force-system --queues 1 --yes",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let hanging = listen(Hanging).await;
    let map = format!(
        "--broker-map {}={} --timeout 1s",
        cluster.brokers[1].addr(),
        hanging.addr()
    );
    for line in ["dlq list --all", "message count --topic T"] {
        let ran = rmq.line(&format!("{line} {map} -o json")).await;
        assert_eq!(ran.code, 7, "{line}: {ran:?}");
        assert_eq!(document(&ran)["summary"]["partial"], true, "{ran:?}");
        assert!(!items(&ran).is_empty(), "{ran:?}");
        let whole = rmq.line(&format!("{line} -o json")).await;
        assert_eq!(whole.code, 0, "{whole:?}");
        assert_eq!(document(&whole)["summary"]["partial"], false, "{whole:?}");
    }
    // Alone it is a request that timed out.
    let ran = rmq
        .line(&format!("broker get-config broker-b {map} -o json"))
        .await;
    assert_eq!(ran.code, 8, "{ran:?}");
    assert!(ran.stderr.contains("\"kind\":\"timeout\""), "{ran:?}");
    let ran = rmq.line(&format!("broker describe broker-b {map}")).await;
    assert!(!ran.stderr.contains("Try: rmq broker describe"), "{ran:?}");
    hanging.stop(Duration::ZERO).await;
    cluster.stop().await;
}

/// The doctor's next command makes what is missing as it is elsewhere, and nothing is left to find.
#[tokio::test(flavor = "multi_thread")]
async fn the_doctors_next_command_mends_what_it_found() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    for line in [
        "topic create Solo --broker broker-a --queues 2 --perm 4 --yes",
        "group create CGX --broker broker-a --retry-max 3 --orderly true --yes",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let found = rmq.line("cluster doctor --checks TP1,GR2 -o json").await;
    assert_eq!(found.code, 10, "{found:?}");
    let rows = items(&found);
    assert_eq!(rows.len(), 2, "{found:?}");
    for row in &rows {
        let next = row["next"].as_str().unwrap().strip_prefix("rmq ").unwrap();
        let ran = rmq.line(&format!("{next} --yes")).await;
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let again = rmq.line("cluster doctor --checks TP1,GR2").await;
    assert_eq!(again.code, 0, "{again:?}");
    let uneven = rmq
        .line("group update CGX --broker broker-b --retry-max 16 --yes")
        .await;
    assert_eq!(uneven.code, 0, "{uneven:?}");
    let found = rmq.line("cluster doctor --checks GR2").await;
    assert_eq!(found.code, 10, "{found:?}");
    assert!(
        found.stdout.contains("retry-max 3 on broker-a, 16 on broker-b"),
        "{found:?}"
    );
    let check = rmq.line("group check CGX").await;
    assert!(check.stdout.contains("retry-max 3 on broker-a"), "{check:?}");

    let paused = rmq.line("group pause CGX --yes").await;
    assert_eq!(paused.code, 0, "{paused:?}");
    let check = rmq.line("group check CGX -o json").await;
    assert_eq!(check.code, 10, "{check:?}");
    let row = items(&check)
        .into_iter()
        .find(|row| row["check"] == "GR5")
        .unwrap();
    assert_eq!(row["next"], "rmq group resume CGX");
    assert!(
        row["evidence"]
            .as_str()
            .unwrap()
            .contains("paused on broker-a, broker-b")
    );
    let told = rmq.line("group describe CGX").await;
    assert!(told.stdout.contains("offline, paused"), "{told:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bridge_names_its_commands_and_its_servers() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let help = rmq.line("mqadmin help").await;
    assert_eq!(help.code, 0, "{help:?}");
    for name in ["topicRoute", "updateSubGroup", "clusterList"] {
        assert!(help.stdout.contains(name), "{help:?}");
    }
    let short = rmq.line("mqadmin -h").await;
    assert!(short.stdout.contains("help lists the commands"), "{short:?}");
    // Stock mqadmin prints the usage of one command and ends with 0.
    for line in ["mqadmin help TOPICROUTE", "mqadmin topicRoute -h"] {
        let one = rmq.line(line).await;
        assert_eq!((one.code, one.stderr.as_str()), (0, ""), "{one:?}");
        assert!(one.stdout.contains("  -t, --topic VALUE\n"), "{one:?}");
        assert!(one.stdout.contains("\n  rmq topic route TOPIC\n"), "{one:?}");
    }
    let unknown = rmq.line("mqadmin help qqqq").await;
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let unknown = rmq.line("mqadmin qqqq").await;
    assert_eq!(unknown.code, 2, "{unknown:?}");
    assert!(unknown.stderr.contains("Try: rmq mqadmin help"), "{unknown:?}");
    let bare = rmq.line("mqadmin topicRoute").await;
    assert_eq!(bare.code, 2, "{bare:?}");
    assert!(
        bare.stderr.contains("Try: rmq mqadmin help topicRoute"),
        "{bare:?}"
    );
    // The environment names other servers than the line: the new line must name those of the line.
    let words = format!("mqadmin clusterList -n {}", cluster.addr);
    let mut command = rmq.command(&words.split(' ').collect::<Vec<_>>());
    command.env("RMQ_NAMESRV", "127.0.0.1:1");
    let ran = rmq.finish(command).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let line = ran
        .stderr
        .lines()
        .find_map(|l| l.split_once(" is now: rmq "))
        .unwrap()
        .1;
    assert!(line.ends_with(&format!(" -n {}", cluster.addr)), "{ran:?}");
    let mut command = rmq.command(&line.split(' ').collect::<Vec<_>>());
    command.env("RMQ_NAMESRV", "127.0.0.1:1");
    let again = rmq.finish(command).await;
    assert_eq!((again.code, &again.stdout), (0, &ran.stdout));
    cluster.stop().await;
}
