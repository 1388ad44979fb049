//! Messages in queues behind the read queues of their topic: told wherever a group or a topic is looked at.

use serde_json::{Value, json};

use super::{Cluster, Ran, Rmq, items};

async fn ok(rmq: &Rmq, line: &str) -> Ran {
    let ran = rmq.line(line).await;
    assert_eq!(ran.code, 0, "{line}: {ran:?}");
    ran
}

/// A topic of eight queues a broker that was made one of four: 3 messages in queue 5 of each broker and 2 in queue 6 of the
/// first that `CG` has not read, and one in queue 0 that it has.
async fn shrunk(names: &[&str]) -> (Cluster, Rmq) {
    let cluster = Cluster::start(names).await;
    let rmq = cluster.rmq();
    ok(&rmq, "topic create T --queues 8 --yes").await;
    ok(&rmq, "group create CG --yes").await;
    for name in names {
        for (queue, count) in [(0, 1), (5, 3)] {
            ok(
                &rmq,
                &format!("message send --topic T --body x --broker {name} --queue {queue} --count {count}"),
            )
            .await;
        }
        ok(
            &rmq,
            &format!("offset set CG --topic T {name}/0=1 {name}/5=0 --yes"),
        )
        .await;
    }
    ok(
        &rmq,
        &format!(
            "message send --topic T --body x --broker {} --queue 6 --count 2",
            names[0]
        ),
    )
    .await;
    ok(&rmq, &format!("offset set CG --topic T {}/6=0 --yes", names[0])).await;
    ok(
        &rmq,
        "topic update T --write-queues 4 --read-queues 4 --force --yes",
    )
    .await;
    (cluster, rmq)
}

#[tokio::test(flavor = "multi_thread")]
async fn positions_behind_the_read_queues_do_not_keep_the_others_from_an_export() {
    let (cluster, rmq) = shrunk(&["broker-a", "broker-b"]).await;
    let file = cluster.path("offsets.json").display().to_string();
    for line in ["offset export CG", "export offsets CG"] {
        let _ = std::fs::remove_file(&file);
        let saved = ok(&rmq, &format!("{line} --out {file}")).await;
        assert!(saved.stderr.contains("3 offsets without the time"), "{saved:?}");
        assert!(saved.stderr.contains("CG in T broker-a/5"), "{saved:?}");
        let text: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let offsets = text["offsets"].as_array().unwrap();
        let places: Vec<(&str, i64, i64)> = offsets
            .iter()
            .map(|o| {
                (
                    o["broker"].as_str().unwrap(),
                    o["queue"].as_i64().unwrap(),
                    o["offset"].as_i64().unwrap(),
                )
            })
            .collect();
        let expected = [
            ("broker-a", 0, 1),
            ("broker-a", 5, 0),
            ("broker-a", 6, 0),
            ("broker-b", 0, 1),
            ("broker-b", 5, 0),
        ];
        assert_eq!(places, expected);
        assert!(offsets[0]["stored_at_ms"].is_i64() && offsets[0]["at_end"] == json!(true));
        assert!(offsets[1].get("stored_at_ms").is_none());
    }
    let back = ok(&rmq, &format!("offset import {file} --yes")).await;
    assert!(back.stderr.contains("T has no queue broker-a/5 here"), "{back:?}");
    let timed = rmq.line(&format!("offset import {file} --by-time --yes")).await;
    assert_eq!(timed.code, 9, "{timed:?}");
    cluster.stop().await;
}

/// No number has them, and every look tells them.
#[tokio::test(flavor = "multi_thread")]
async fn messages_behind_the_read_queues_are_told_wherever_one_looks() {
    let (cluster, rmq) = shrunk(&["broker-a", "broker-b"]).await;
    for line in [
        "group lag CG",
        "group lag",
        "offset get CG",
        "topic status T",
        "message count --topic T",
        "group reset CG --topic T --to earliest",
    ] {
        let ran = ok(&rmq, line).await;
        for told in [
            "5 messages in queues 5-6 of T on broker-a are stranded, unread by CG",
            "3 messages in queue 5 of T on broker-b are stranded, unread by CG",
            "rmq topic update T --read-queues 7 --broker broker-a --broker broker-b",
        ] {
            assert!(ran.stderr.contains(told), "{line}: {told}: {ran:?}");
        }
        let ran = ok(&rmq, &format!("{line} -o json")).await;
        let summary: Value = serde_json::from_str(&ran.stdout).unwrap();
        assert_eq!(summary["summary"]["stranded_messages"], 8, "{line}: {ran:?}");
    }
    let next = "rmq topic update T --read-queues 7 --broker broker-a --broker broker-b";
    for line in ["group check CG", "doctor --checks TP1"] {
        let ran = rmq.line(&format!("{line} -o json")).await;
        assert_eq!(ran.code, 11, "{line}: {ran:?}");
        let rows: Vec<Value> = items(&ran)
            .into_iter()
            .filter(|row| row["evidence"].as_str().unwrap().contains("stranded"))
            .collect();
        assert_eq!(rows.len(), 2, "{line}: {rows:?}");
        for (row, broker) in rows.iter().zip(["broker-a", "broker-b"]) {
            assert!(row["evidence"].as_str().unwrap().contains(broker), "{rows:?}");
            assert_eq!(
                (&row["check"], &row["next"]),
                (&json!("TP1"), &json!(next)),
                "{line}"
            );
        }
    }
    let described = rmq.line("group describe CG").await;
    assert!(
        described
            .stdout
            .contains("3 messages in queue 5 of T on broker-b"),
        "{described:?}"
    );
    ok(&rmq, &format!("{} --yes", next.strip_prefix("rmq ").unwrap())).await;
    let lag = ok(&rmq, "group lag CG -o json").await;
    let lag: Value = serde_json::from_str(&lag.stdout).unwrap();
    assert_eq!(
        (&lag["summary"]["total_lag"], &lag["summary"]["stranded_messages"]),
        (&json!(8), &json!(0))
    );

    let scaled = ok(
        &rmq,
        "topic scale T --to 4 --ignore-group CG --yes --producer-wait 1s --still 1s --rebalance-wait 1s --verify-wait 1s",
    )
    .await;
    assert!(
        scaled
            .stderr
            .contains("5 messages in queues 5-6 of T on broker-a are stranded"),
        "{scaled:?}"
    );
    cluster.stop().await;
}
