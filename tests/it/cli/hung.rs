//! A broker that takes connections and never answers: the others are not accused, and not left unasked.

use std::time::Duration;

use serde_json::Value;

use super::fakes::{Hanging, listen};
use super::{Cluster, items};

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_hangs_takes_no_time_from_the_next_one() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let ran = rmq.line("topic create T --queues 1 --yes").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    for line in [
        "group create CG --yes",
        "message send --topic T --body x --broker broker-a",
        "offset set CG --topic T broker-a/0=0 --yes",
        "group pause CG --yes",
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
    }
    let hanging = listen(Hanging).await;
    let map = format!("--broker-map {}={}", cluster.brokers[1].addr(), hanging.addr());
    let drained = rmq
        .line(&format!("broker drain broker-a --dry-run --timeout 1s {map}"))
        .await;
    assert_eq!(drained.code, 9, "{drained:?}");
    assert!(
        drained.stderr.contains("is the last broker of cluster"),
        "{drained:?}"
    );

    for deadline in ["3s", "30s"] {
        let ran = rmq
            .line(&format!(
                "doctor --checks GR5,TP1,BR1 --deadline {deadline} -o json {map}"
            ))
            .await;
        let document: Value = serde_json::from_str(&ran.stdout).unwrap();
        let missed: Vec<&str> = document["summary"]["not_checked"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        assert!(
            !missed.is_empty() && missed.iter().all(|line| line.contains("broker-b")),
            "{ran:?}"
        );
        let lag: Vec<Value> = items(&ran)
            .into_iter()
            .filter(|row| row["about"].as_str().unwrap().contains("CG"))
            .collect();
        assert!(
            lag.iter()
                .any(|row| row["evidence"].as_str().unwrap().contains("lag at least 1")),
            "{ran:?}"
        );
    }
    // Not even that much time: nobody is said to refuse connections.
    let ran = rmq
        .line(&format!("doctor --checks GR5 --deadline 1ms {map}"))
        .await;
    assert!(!ran.stderr.contains("connect timed out"), "{ran:?}");
    hanging.stop(Duration::ZERO).await;
    cluster.stop().await;
}

/// As Java's producer: what a broker refuses that was closed meanwhile goes to another one.
#[tokio::test(flavor = "multi_thread")]
async fn a_send_goes_on_with_another_broker() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let ran = rmq.line("topic create T --queues 2 --yes").await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let line = "message send --topic T --body x --count 60 --rate 20 -o json";
    let closed = async {
        let end = std::time::Instant::now() + Duration::from_secs(10);
        while cluster.brokers.is_empty()
            || items(&rmq.line("message list --topic T -o json").await).is_empty()
        {
            assert!(std::time::Instant::now() < end, "nothing is sent");
        }
        rmq.line("broker set-permission broker-a -W --yes").await
    };
    let (sent, closed) = tokio::join!(rmq.line(line), closed);
    assert_eq!(closed.code, 0, "{closed:?}");
    assert_eq!(sent.code, 0, "{sent:?}");
    let rows = items(&sent);
    assert_eq!(rows.len(), 60);
    assert!(
        rows.iter().rev().take(10).all(|row| row["broker"] == "broker-b"),
        "{sent:?}"
    );
    let fixed = rmq
        .line("message send --topic T --body x --count 2 --broker broker-a")
        .await;
    assert_ne!(fixed.code, 0, "{fixed:?}");
    assert!(fixed.stderr.contains("0 of 2 messages were sent"), "{fixed:?}");
    cluster.stop().await;
}

/// mqadmin prints its usage and does nothing there.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_line_without_broker_and_cluster_changes_nothing() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    for line in [
        "updateTopic -t T -w 4 -r 4",
        "updateSubGroup -g G -r 9",
        "deleteSubGroup -g G",
        "updateTopicPerm -t T -p 4",
        "setConsumeMode -t T -g G -m PULL",
        "updateBrokerConfig -k fileReservedTime -v 24",
        "setCommitLogReadAheadMode -m 1",
        "brokerStatus",
    ] {
        let ran = rmq.line(&format!("mqadmin {line}")).await;
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
        assert!(ran.stderr.contains("needs -b or -c"), "{line}: {ran:?}");
    }
    let ran = rmq
        .line("mqadmin updateTopic -c DefaultCluster -t T -w 4 -r 4 --yes")
        .await;
    assert!(!ran.stderr.contains("needs -b or -c"), "{ran:?}");
    cluster.stop().await;
}
