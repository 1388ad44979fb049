//! Dead letters: listed, shown, traced, exported, and sent again once.

use rmq::client::{Client, Options, Server};
use rmq::protocol::Request as _;
use rmq::protocol::requests::{ConsumerSendMsgBack, SendMessageV2};
use serde_json::json;

use super::{Cluster, items};

/// A cluster with a topic `T` of one queue, and `count` messages in it that group `g` gave up.
pub async fn with_letters(count: usize) -> (Cluster, Vec<String>) {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    let made = rmq.line("topic create T --queues 1 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let client = Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    });
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let mut ids = Vec::new();
    for i in 0..count {
        let tag = if i % 2 == 0 { "TagA" } else { "TagB" };
        let sent = rmq
            .run(&[
                "message",
                "send",
                "--topic",
                "T",
                "--body",
                &format!("body-{i}"),
                "--key",
                &format!("K-{i}"),
                "--tag",
                tag,
                "--prop",
                &format!("seq={i}"),
                "-o",
                "json",
            ])
            .await;
        let row = items(&sent).remove(0);
        let (_, offset) =
            rmq::protocol::message_id::parse_offset_id(row["offset_id"].as_str().unwrap()).unwrap();
        let give_up = ConsumerSendMsgBack {
            offset,
            group: "g".into(),
            delay_level: -1,
            origin_msg_id: Some(row["offset_id"].as_str().unwrap().into()),
            origin_topic: Some("T".into()),
            unit_mode: false,
            max_reconsume_times: None,
            bname: None,
        };
        client
            .call(&broker, &give_up, (), client.deadline())
            .await
            .unwrap();
        ids.push(row["unique_key"].as_str().unwrap().to_owned());
    }
    (cluster, ids)
}

async fn count(cluster: &Cluster, topic: &str) -> i64 {
    let rows = cluster.rmq().rows(&["topic", "status", topic]).await;
    rows.iter()
        .map(|r| r["max"].as_i64().unwrap() - r["min"].as_i64().unwrap())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_are_sent_again_once() {
    let (cluster, ids) = with_letters(6).await;
    let rmq = cluster.rmq();
    let listed = rmq.rows(&["dlq", "list"]).await;
    assert_eq!(
        (
            &listed[0]["group"],
            &listed[0]["count"],
            &listed[0]["resent_count"]
        ),
        (&json!("g"), &json!(6), &json!(0)),
        "{listed:?}"
    );
    let shown = rmq.rows(&["dlq", "show", "g"]).await;
    assert_eq!(shown.len(), 6);
    assert_eq!(
        (&shown[0]["topic"], &shown[0]["resent"]),
        (&json!("T"), &json!("no"))
    );
    assert_eq!(shown[0]["properties"]["seq"], "0");

    // Nothing without a selection, nothing without a yes, nothing with --dry-run.
    assert_eq!(rmq.line("dlq resend g").await.code, 2);
    let unasked = rmq.line("dlq resend g --all").await;
    assert_eq!(unasked.code, 13, "{unasked:?}");
    let dry = rmq.line("dlq resend g --all --dry-run -o json").await;
    assert_eq!(
        (dry.code, items(&dry)[0]["letters"].clone()),
        (0, json!(6)),
        "{dry:?}"
    );
    assert_eq!(count(&cluster, "T").await, 6);

    let one = rmq
        .run(&["dlq", "resend", "g", "--id", &ids[2], "--yes", "-o", "json"])
        .await;
    assert_eq!(
        (one.code, items(&one)[0]["sent"].clone()),
        (0, json!(1)),
        "{one:?}"
    );
    let some = rmq
        .run(&[
            "dlq", "resend", "g", "--filter", "tag=TagA", "--yes", "-o", "json",
        ])
        .await;
    // Three letters have the tag; one of them was sent before.
    assert_eq!(
        (some.code, items(&some)[0]["sent"].clone()),
        (0, json!(2)),
        "{some:?}"
    );
    let rest = rmq.line("dlq resend g --all --yes --rate 1000/s -o json").await;
    assert_eq!(
        (rest.code, items(&rest)[0]["sent"].clone()),
        (0, json!(3)),
        "{rest:?}"
    );
    assert_eq!(count(&cluster, "T").await, 12);
    let again = rmq.line("dlq resend g --all --yes").await;
    assert_eq!(again.code, 0, "{again:?}");
    assert!(again.stderr.contains("nothing to send"), "{again:?}");
    assert_eq!(count(&cluster, "T").await, 12);
    assert_eq!(rmq.rows(&["dlq", "list"]).await[0]["resent_count"], 6);

    // A copy keeps what the application said, and says where it comes from.
    let copies = rmq
        .rows(&["message", "find", "--topic", "T", "--key", "K-3"])
        .await;
    assert_eq!(copies.len(), 2, "{copies:?}");
    let text = copies[1]["properties"].to_string();
    for part in ["seq", "RMQ_RESENT_FROM", "RMQ_RESENT_AT"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(
        !text.contains("ORIGIN_MESSAGE_ID") && !text.contains("RETRY_TOPIC"),
        "{text}"
    );
    assert_eq!(copies[1]["tag"], "TagB");
    cluster.stop().await;
}

/// A copy that nobody answered is not told as "not sent", and is looked for before it is sent again.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_without_an_answer_is_not_sent_twice() {
    let (cluster, _) = with_letters(2).await;
    let addr = cluster.brokers[0].addr().to_string();
    let wire = super::recorder::Wire::tap(&cluster.addr.to_string(), &[addr]).await;
    let rmq = super::Rmq::new(&wire.name_server, cluster.dir());
    let through = format!("--yes --timeout 1s -o json --broker-map {}", wire.maps[0]);
    wire.lies[0].lock().unwrap().mute_to = vec![SendMessageV2::CODE];
    let ran = rmq.line(&format!("dlq resend g --all {through}")).await;
    assert_eq!(ran.code, 7, "{ran:?}");
    let row = &items(&ran)[0];
    assert_eq!(
        (&row["sent"], &row["failed"], &row["not_known"]),
        (&json!(0), &json!(0), &json!(2)),
        "{row}"
    );
    assert!(!ran.stderr.contains("was not sent"), "{ran:?}");
    assert!(ran.stderr.contains("dlq resend g --resume"), "{ran:?}");
    assert_eq!(count(&cluster, "T").await, 4);
    let ran = rmq.line(&format!("dlq resend g --resume {through}")).await;
    assert_eq!((ran.code, &items(&ran)[0]["sent"]), (0, &json!(2)), "{ran:?}");
    assert_eq!(count(&cluster, "T").await, 4);
    wire.stop().await;
    cluster.stop().await;
}

/// A resend that was killed at any line of its state file is taken up without sending anything twice.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_resend_is_taken_up_where_it_was() {
    let (cluster, _) = with_letters(4).await;
    let rmq = cluster.rmq();
    let done = rmq.line("dlq resend g --all --yes").await;
    assert_eq!(done.code, 0, "{done:?}");
    assert_eq!(count(&cluster, "T").await, 8);
    let state = std::fs::read_dir(cluster.dir().join(".local/state/rmq/dlq"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let whole = std::fs::read_to_string(&state).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    // One line to begin with, two for each letter.
    assert_eq!(lines.len(), 9);
    // Killed between sending the second letter and writing it down: it is found by its key and not sent again.
    std::fs::write(&state, lines[..4].join("\n") + "\n" + &lines[4][..10]).unwrap();
    let resumed = rmq.line("dlq resend g --resume --yes -o json").await;
    assert_eq!(resumed.code, 0, "{resumed:?}");
    // The second was there already; the third and the fourth are sent, as the file does not know of them.
    assert_eq!(count(&cluster, "T").await, 10);
    let again = rmq.line("dlq resend g --resume --yes").await;
    assert_eq!(again.code, 0, "{again:?}");
    assert_eq!(count(&cluster, "T").await, 10);
    let nothing = rmq.line("dlq resend other --resume --yes").await;
    assert_eq!(nothing.code, 4, "{nothing:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn letters_go_to_the_group_alone_or_to_a_file_and_are_never_purged() {
    let (cluster, _) = with_letters(2).await;
    let rmq = cluster.rmq();
    let sent = rmq.line("dlq resend g --all --to-retry --yes -o json").await;
    assert_eq!(
        (sent.code, items(&sent)[0]["topic"].clone()),
        (0, json!("%RETRY%g")),
        "{sent:?}"
    );
    let copies = rmq.rows(&["message", "tail", "--topic", "%RETRY%g"]).await;
    assert_eq!(copies.len(), 2);
    assert!(
        copies[0]["properties"].to_string().contains("RETRY_TOPIC"),
        "{copies:?}"
    );

    let file = cluster.dir().join("dead.jsonl");
    let path = file.to_str().unwrap();
    let written = rmq.run(&["dlq", "export", "g", "--out", path]).await;
    assert_eq!(written.code, 0, "{written:?}");
    let text = std::fs::read_to_string(&file).unwrap();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&first["body"], &first["keys"]),
        (&json!("body-0"), &json!(["K-0"]))
    );
    let over = rmq.run(&["dlq", "export", "g", "--out", path]).await;
    assert_eq!(over.code, 2, "a file is not overwritten: {over:?}");

    // What was exported is imported, keys and properties included.
    let target = rmq.line("topic create T2 --queues 1 --yes").await;
    assert_eq!(target.code, 0, "{target:?}");
    let back = rmq
        .run(&[
            "message",
            "import",
            "--file",
            path,
            "--to-topic",
            "T2",
            "--yes",
            "-o",
            "json",
        ])
        .await;
    assert_eq!(
        (back.code, items(&back)[0]["sent"].clone()),
        (0, json!(2)),
        "{back:?}"
    );
    let found = rmq
        .rows(&["message", "find", "--topic", "T2", "--key", "K-1"])
        .await;
    assert_eq!((found.len(), &found[0]["body"]), (1, &json!("body-1")));

    let purge = rmq.line("dlq purge g --yes").await;
    assert_eq!(purge.code, 12, "{purge:?}");
    let absent = rmq.line("dlq show gg").await;
    assert_eq!(absent.code, 4);
    assert!(absent.stderr.contains("Similar: g"), "{absent:?}");
    cluster.stop().await;
}

/// The way of a message that died: stored, given back, dead; and what is missing with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_message_is_traced_to_its_letter() {
    let (cluster, ids) = with_letters(1).await;
    let rmq = cluster.rmq();
    let traced = rmq
        .run(&["message", "trace", &ids[0], "--topic", "T", "-o", "json"])
        .await;
    assert_eq!(traced.code, 0, "{traced:?}");
    let trace = items(&traced).remove(0);
    assert_eq!(trace["id_kind"], "unique key");
    let events: Vec<&str> = trace["timeline"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["event"].as_str().unwrap())
        .collect();
    assert_eq!(&events[..2], ["born", "stored"], "{trace}");
    let missing = trace["missing"].to_string();
    assert!(missing.contains("RMQ_SYS_TRACE_TOPIC"), "{missing}");
    // The same by the offset id of the original, of the letter, and by its key.
    let letter = rmq.rows(&["dlq", "show", "g"]).await.remove(0);
    let of_letter = rmq
        .run(&[
            "message",
            "trace",
            letter["offset_id"].as_str().unwrap(),
            "-o",
            "json",
        ])
        .await;
    let trace = items(&of_letter).remove(0);
    assert_eq!(
        (&trace["id_kind"], &trace["topic"]),
        (&json!("offset id"), &json!("T")),
        "{trace}"
    );
    let by_key = rmq.line("message trace --key K-0 --topic T -o json").await;
    let trace = items(&by_key).remove(0);
    assert_eq!(
        (&trace["id_kind"], &trace["unique_key"]),
        (&json!("key"), &json!(ids[0]))
    );

    // With a group that has a position on the topic, its standing and its letter are part of the picture.
    let client = Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    });
    let broker = Server::at(cluster.brokers[0].addr().to_string());
    let commit = rmq::protocol::requests::UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "T".into(),
        queue_id: Some(0),
        commit_offset: Some(1),
        bname: None,
    };
    client
        .call(&broker, &commit, (), client.deadline())
        .await
        .unwrap();
    let traced = rmq
        .run(&["message", "trace", &ids[0], "--topic", "T", "-o", "json"])
        .await;
    let trace = items(&traced).remove(0);
    let group = &trace["groups"][0];
    assert_eq!(
        (&group["group"], &group["state"], &group["dead"]),
        (&json!("g"), &json!("CONSUMED"), &json!(1)),
        "{trace}"
    );
    let last = trace["timeline"].as_array().unwrap().last().unwrap();
    assert_eq!(last["event"], "dead letter", "{trace}");

    let unknown = rmq.line("message trace NOSUCHID --topic T").await;
    assert_eq!(unknown.code, 4, "{unknown:?}");
    assert!(unknown.stderr.contains("RMQ_SYS_TRACE_TOPIC"), "{unknown:?}");
    cluster.stop().await;
}
