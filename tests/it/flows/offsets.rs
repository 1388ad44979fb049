//! `rmq group reset|skip|clone-offsets` and `rmq offset`.

use super::{Reader, done, json, library};
use crate::cli::{Cluster, Rmq, items};
use serde_json::Value;

async fn committed(rmq: &Rmq, group: &str) -> Vec<i64> {
    let rows = rmq.rows(&["offset", "get", group, "--topic", "T"]).await;
    rows.iter()
        .map(|r| r["committed"].as_i64().unwrap_or(-1))
        .collect()
}

fn preview_of(document: &Value) -> (i64, i64) {
    let summary = &document["summary"];
    (
        summary["replays"].as_i64().unwrap(),
        summary["skips"].as_i64().unwrap(),
    )
}

/// A topic of two queues with 5 messages each, and a group that has read them all.
async fn consumed(cluster: &Cluster) -> Rmq {
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 2 --yes").await;
    done(&rmq, "message send --topic T --body x --count 10").await;
    let reader = Reader::start(library(cluster), "CG", "T");
    reader.has(10).await;
    reader.leave().await;
    rmq
}

/// What the preview says is replayed is what is replayed, offset 0 is an offset, and the undo line restores (F5, F18).
#[tokio::test(flavor = "multi_thread")]
async fn a_reset_replays_what_its_preview_said_and_can_be_undone() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = consumed(&cluster).await;
    assert_eq!(committed(&rmq, "CG").await, [5, 5]);

    let preview = done(&rmq, "group reset CG --topic T --to 0 -o json").await;
    assert_eq!(preview_of(&json(&preview)), (10, 0));
    assert_eq!(committed(&rmq, "CG").await, [5, 5], "a preview changes nothing");

    // Nobody can be asked: refused, nothing changed.
    let asked = rmq.line("group reset CG --topic T --to 0 --execute").await;
    assert_eq!(asked.code, 13, "{asked:?}");
    let dry = rmq
        .line("group reset CG --topic T --to 0 --execute --dry-run")
        .await;
    assert_eq!(dry.code, 0, "{dry:?}");
    let outside = rmq.line("group reset CG --topic T --to 6 --execute --yes").await;
    assert_eq!(outside.code, 9, "{outside:?}");
    assert_eq!(committed(&rmq, "CG").await, [5, 5]);

    let moved = done(&rmq, "group reset CG --topic T --to 0 --execute --yes=CG").await;
    assert_eq!(committed(&rmq, "CG").await, [0, 0]);
    let undo = moved
        .stdout
        .lines()
        .last()
        .unwrap()
        .strip_prefix("undo: rmq ")
        .unwrap()
        .to_owned();
    let reader = Reader::start(library(&cluster), "CG", "T");
    reader.has(10).await;
    assert_eq!(reader.leave().await.len(), 10, "to the message");

    done(
        &rmq,
        "group reset CG --topic T --queue broker-a/1=2 --execute --yes",
    )
    .await;
    assert_eq!(committed(&rmq, "CG").await, [5, 2]);
    done(&rmq, "group reset CG --topic T --shift -1 --execute --yes").await;
    assert_eq!(committed(&rmq, "CG").await, [4, 1]);
    // One queue, by its broker's address and through the old command: mqadmin's -b is an address.
    let addr = cluster.brokers[0].addr().to_string();
    let line = format!("group reset CG --topic T --to latest --queue {addr}/0 --execute --yes");
    done(&rmq, &line).await;
    assert_eq!(committed(&rmq, "CG").await, [5, 1]);
    let old = format!("mqadmin resetOffsetByTime -g CG -t T -s 0 -b {addr} -q 0");
    done(&rmq, &old).await;
    assert_eq!(committed(&rmq, "CG").await, [0, 1], "the other queue stays");
    done(&rmq, &format!("{old} -o 4")).await;
    assert_eq!(committed(&rmq, "CG").await, [4, 1]);
    for half in [format!("-b {addr}"), "-q 0".to_owned()] {
        let line = format!("mqadmin resetOffsetByTime -g CG -t T -s 0 {half}");
        let refused = rmq.line(&line).await;
        assert_eq!(refused.code, 2, "{refused:?}");
    }
    assert_eq!(committed(&rmq, "CG").await, [4, 1]);
    let skip = done(&rmq, "group skip CG --topic T -o json").await;
    assert_eq!(preview_of(&json(&skip)), (0, 5));
    done(&rmq, "group skip CG --topic T --execute --yes").await;
    done(&rmq, "group reset CG --topic T --to earliest --execute --yes").await;
    assert_eq!(committed(&rmq, "CG").await, [0, 0]);
    done(&rmq, &undo).await;
    assert_eq!(committed(&rmq, "CG").await, [5, 5], "{undo}");
    let again = rmq.line(&undo).await;
    assert!(again.stderr.contains("nothing to change"), "{again:?}");
    let journal = std::fs::read_to_string(rmq.state().join("journal.jsonl")).unwrap();
    assert!(journal.contains("offset import"), "{journal}");
    cluster.stop().await;
}

/// A group with clients: the broker keeps the reset until the next pull, and the clients go there.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_with_clients_goes_where_it_is_reset_to() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = consumed(&cluster).await;
    let reader = Reader::start(library(&cluster), "CG", "T");
    super::until("it is online", std::time::Duration::from_secs(10), async || {
        items(&rmq.line("group clients CG -o json").await).len() == 1
    })
    .await;
    let preview = done(&rmq, "group reset CG --topic T --to earliest -o json").await;
    assert_eq!(json(&preview)["summary"]["clients"], 1);
    done(&rmq, "group reset CG --topic T --to earliest --execute --yes").await;
    // The pulls that are held end with a message each, or take the reset at once.
    done(&rmq, "message send --topic T --body y --count 2").await;
    let old = |bodies: &[String]| bodies.iter().filter(|b| *b == "x").count();
    super::until(
        "it read all again",
        std::time::Duration::from_secs(20),
        async || old(&reader.bodies()) == 10,
    )
    .await;
    assert_eq!(old(&reader.leave().await), 10);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_travel_through_files_and_between_groups() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = consumed(&cluster).await;
    let file = cluster.path("offsets.json");
    let file = file.to_str().unwrap();
    done(&rmq, "offset set CG broker-a/0=3 --topic T --yes").await;
    done(&rmq, &format!("offset export CG --out {file}")).await;
    let saved: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let first = saved["offsets"]
        .as_array()
        .unwrap()
        .iter()
        .find(|o| o["queue"] == 0)
        .unwrap();
    assert_eq!(first["offset"], 3);
    assert!(first["stored_at_ms"].is_i64(), "{saved}");
    assert_eq!(done(&rmq, &format!("offset diff {file}")).await.code, 0);

    done(&rmq, "group reset CG --topic T --to earliest --execute --yes").await;
    let different = rmq.line(&format!("offset diff {file} -o json")).await;
    assert_eq!(
        (different.code, items(&different).len()),
        (10, 2),
        "{different:?}"
    );
    done(&rmq, &format!("offset import {file} --yes")).await;
    assert_eq!(committed(&rmq, "CG").await, [3, 5]);
    done(&rmq, "group reset CG --topic T --to earliest --execute --yes").await;
    done(&rmq, &format!("offset import {file} --by-time --yes")).await;
    // Times are not exact within one ms, and nothing behind them is skipped.
    let at = committed(&rmq, "CG").await;
    assert!(at[0] <= 3 && at[1] == 5, "{at:?}");
    done(&rmq, &format!("offset import {file} --yes")).await;

    // The target must exist; a heartbeat makes it.
    let missing = rmq.line("group clone-offsets CG CG2 --yes").await;
    assert_eq!(missing.code, 4, "{missing:?}");
    let reader = Reader::start(library(&cluster), "CG2", "T");
    reader.has(10).await;
    reader.leave().await;
    done(&rmq, "group clone-offsets CG CG2 --yes").await;
    assert_eq!(committed(&rmq, "CG2").await, [3, 5]);
    // The same as a reset with its preview, in one topic; a group goes nowhere but where the other is.
    done(&rmq, "offset set CG2 --topic T broker-a/0=0 broker-a/1=1 --yes").await;
    let like = done(&rmq, "group reset CG2 --topic T --from-group CG -o json").await;
    assert_eq!(preview_of(&json(&like)), (0, 7));
    done(&rmq, "group reset CG2 --topic T --from-group CG --execute --yes").await;
    assert_eq!(committed(&rmq, "CG2").await, [3, 5]);
    let none = rmq.line("group reset CG2 --topic T --from-group Nobody").await;
    assert_eq!(none.code, 4, "{none:?}");
    let itself = rmq.line("group reset CG2 --topic T --from-group CG2").await;
    assert_eq!(itself.code, 2, "{itself:?}");
    cluster.stop().await;
}

/// What a preview says of the way there, and that the last move is taken back without its line.
#[tokio::test(flavor = "multi_thread")]
async fn the_facts_of_a_reset_are_told_and_its_undo_is_found_again() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = consumed(&cluster).await;
    let none = rmq.line("offset undo CG --yes").await;
    assert_eq!(none.code, 4, "{none:?}");

    let preview = done(&rmq, "group reset CG --topic T --to 0").await;
    for part in [
        "server-side reset on",
        "how long a replay takes is not known",
        "the present offsets will be kept as",
    ] {
        assert!(preview.stderr.contains(part), "{part}: {preview:?}");
    }
    let summary = json(&done(&rmq, "group reset CG --topic T --to 0 -o json").await)["summary"].clone();
    let broker = &summary["brokers"][0];
    assert_eq!(broker["broker"], "broker-a");
    assert_eq!(
        (&broker["server_side_reset"], &broker["method"]),
        (&Value::from(true), &Value::from("server-side reset"))
    );
    assert!(
        broker["version"].as_str().is_some_and(|v| !v.is_empty()),
        "{summary}"
    );
    assert_eq!(
        (&summary["popping"], &summary["replay_seconds"]),
        (&Value::from(false), &Value::Null)
    );
    let kept = summary["undo_file"].as_str().unwrap();
    assert!(kept.ends_with("offsets/CG-TIME.json"), "{kept}");

    done(&rmq, "group reset CG --topic T --to 0 --execute --yes=CG").await;
    let files = std::path::Path::new(kept).parent().unwrap();
    let names: Vec<String> = (std::fs::read_dir(files).unwrap())
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(names.len() == 1 && names[0].starts_with("CG-"), "{names:?}");
    assert_eq!(committed(&rmq, "CG").await, [0, 0]);
    let other = rmq.line("offset undo CG --topic U --yes").await;
    assert_eq!(other.code, 4, "another topic was not moved: {other:?}");
    done(&rmq, "offset undo CG --topic T --yes=CG").await;
    assert_eq!(committed(&rmq, "CG").await, [5, 5]);
    // The undo is a move as well, and taken back alike.
    done(&rmq, "offset undo CG --yes=CG").await;
    assert_eq!(committed(&rmq, "CG").await, [0, 0]);
    cluster.stop().await;
}
