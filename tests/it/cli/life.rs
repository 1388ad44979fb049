//! What an operator does on a healthy cluster.

use rmq::protocol::Request as _;
use rmq::protocol::requests::{DeleteTopicInNamesrv, UpdateAndCreateTopic, UpdateBrokerConfig};
use serde_json::{Value, json};

use super::{Cluster, items};

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_lives_from_create_to_delete() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();

    let made = rmq
        .run(&[
            "topic",
            "create",
            "Orders",
            "--read-queues",
            "5",
            "--write-queues",
            "4",
            "--yes",
        ])
        .await;
    assert_eq!(made.code, 0, "{made:?}");
    let undo = made.stdout.lines().last().unwrap();
    let wanted = format!(
        "undo: rmq topic delete Orders --cluster DefaultCluster -n {}",
        cluster.addr
    );
    assert_eq!(undo, wanted);
    let again = rmq.run(&["topic", "create", "Orders", "--yes"]).await;
    assert_eq!(again.code, 9, "{again:?}");

    let listed = rmq.rows(&["topic", "list"]).await;
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(
        (
            &listed[0]["name"],
            &listed[0]["read_queues"],
            &listed[0]["brokers"]
        ),
        (&json!("Orders"), &json!(5), &json!(2))
    );
    let names = rmq.run(&["topic", "list", "-o", "name"]).await;
    assert_eq!(names.stdout, "Orders\n");

    let route = rmq.rows(&["topic", "route", "Orders"]).await;
    assert_eq!(route.len(), 2);
    assert_eq!(route[0]["write_queues"], 4);

    let gone = rmq.run(&["topic", "delete", "Orders", "--yes"]).await;
    assert_eq!(gone.code, 0, "{gone:?}");
    let absent = rmq.run(&["topic", "get", "Orders"]).await;
    assert_eq!((absent.code, absent.stdout.as_str()), (4, ""), "{absent:?}");
    cluster.stop().await;
}

/// Each option alone changes its field on every broker, and the full topic is otherwise as before (K49, F1, F3).
#[tokio::test(flavor = "multi_thread")]
async fn an_update_changes_the_named_field_and_nothing_else() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    // Different queue counts: the Java tool would copy those of the first broker to the other.
    for (broker, queues) in [("broker-a", "16"), ("broker-b", "4")] {
        let made = rmq
            .run(&[
                "topic",
                "create",
                "T",
                "--queues",
                queues,
                "--broker",
                broker,
                "--attr",
                "+message.type=NORMAL",
                "--yes",
            ])
            .await;
        // An attribute key with a sign is not one.
        assert_ne!(made.code, 0, "{made:?}");
        let made = rmq
            .run(&[
                "topic", "create", "T", "--queues", queues, "--broker", broker, "--type", "normal",
                "--order", "--yes",
            ])
            .await;
        assert_eq!(made.code, 0, "{made:?}");
    }
    let steps: [(&[&str], &str, Value); 6] = [
        (&["--perm", "4"], "perm_bits", json!(4)),
        (&["--perm", "+W"], "perm_bits", json!(6)),
        (&["--perm", "-R"], "perm_bits", json!(2)),
        (&["--perm", "6"], "perm_bits", json!(6)),
        (&["--order", "false"], "order", json!(false)),
        (&["--type", "fifo"], "type", json!("fifo")),
    ];
    for (flags, field, value) in steps {
        let before = rmq.rows(&["topic", "get", "T"]).await;
        let args: Vec<&str> = ["topic", "update", "T", "--yes"]
            .iter()
            .chain(flags)
            .copied()
            .collect();
        let done = rmq.run(&args).await;
        assert_eq!(done.code, 0, "{flags:?}: {done:?}");
        let after = rmq.rows(&["topic", "get", "T"]).await;
        assert_eq!(before.len(), after.len());
        for (mut before, after) in before.into_iter().zip(after) {
            assert_eq!(after[field], value, "{flags:?}");
            before[field] = value.clone();
            for derived in ["perm", "attributes"] {
                before[derived] = after[derived].clone();
            }
            assert_eq!(before, after, "{flags:?}");
        }
    }
    let same = rmq.run(&["topic", "update", "T", "--perm", "6", "--yes"]).await;
    assert_eq!((same.code, same.stdout.as_str()), (0, ""));
    assert!(same.stderr.contains("nothing to change"), "{same:?}");

    // A shrink asks for --force and says why; 0 is sent as 0.
    let refused = rmq
        .run(&["topic", "update", "T", "--read-queues", "0", "--yes"])
        .await;
    assert_eq!(refused.code, 9, "{refused:?}");
    // A Java broker takes 0; ours names it in its refusal. Either way it was not turned into "not given".
    let zero = rmq
        .line("topic update T --read-queues 0 --force --broker broker-a --yes")
        .await;
    let told = zero.stdout.contains("readQueueNums=0");
    assert!(zero.code == 0 || zero.code == 6 && told, "{zero:?}");
    let forced = rmq
        .line("topic update T --read-queues 2 --force --broker broker-a --yes")
        .await;
    assert_eq!(forced.code, 0, "{forced:?}");
    let queues: Vec<Value> = rmq
        .rows(&["topic", "get", "T"])
        .await
        .iter()
        .map(|row| json!([row["read_queues"], row["write_queues"]]))
        .collect();
    assert_eq!(queues, [json!([2, 16]), json!([4, 4])]);
    cluster.stop().await;
}

/// The last line of a change restores the state before.
#[tokio::test(flavor = "multi_thread")]
async fn the_undo_line_undoes() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(rmq.run(&["topic", "create", "T", "--yes"]).await.code, 0);
    let before = rmq.rows(&["topic", "get", "T"]).await;
    let done = rmq
        .run(&[
            "topic", "update", "T", "--perm", "0", "--queues", "12", "--type", "delay", "--yes",
        ])
        .await;
    assert_eq!(done.code, 0, "{done:?}");
    let undo = done
        .stdout
        .lines()
        .last()
        .unwrap()
        .strip_prefix("undo: rmq ")
        .unwrap();
    let args: Vec<&str> = undo.split(' ').chain(["--yes"]).collect();
    let undone = rmq.run(&args).await;
    assert_eq!(undone.code, 0, "{undone:?}");
    assert_eq!(rmq.rows(&["topic", "get", "T"]).await, before);
    let journal = std::fs::read_to_string(cluster.dir.path().join(".local/state/rmq/journal.jsonl")).unwrap();
    assert_eq!(journal.lines().count(), 3);
    for line in journal.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        assert_eq!(entry["steps"][0]["result"], "ok", "{entry}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_sent_found_and_tailed() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let missing = rmq
        .run(&["message", "send", "--topic", "Orders", "--body", "x"])
        .await;
    assert_eq!(missing.code, 4, "{missing:?}");
    assert_eq!(
        rmq.run(&["topic", "create", "Orders", "--queues", "2", "--yes"])
            .await
            .code,
        0
    );
    let mut sent = Vec::new();
    for i in 0..6 {
        let (body, key) = (format!("{{\"order\":{i},\"name\":\"订单\"}}"), format!("K-{i}"));
        let tag = if i % 2 == 0 { "TagA" } else { "TagB" };
        let rows = rmq
            .rows(&[
                "message", "send", "--topic", "Orders", "--body", &body, "--key", &key, "--tag", tag,
                "--prop", "seq=1",
            ])
            .await;
        assert_eq!(rows[0]["status"], "SEND_OK");
        sent.push(rows[0].clone());
    }
    let found = rmq
        .rows(&["message", "find", "--topic", "Orders", "--key", "K-3"])
        .await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["body"], "{\"order\":3,\"name\":\"订单\"}");
    assert_eq!(found[0]["unique_key"], sent[3]["unique_key"]);

    // Both kinds of id, and the place in the queue, lead to the same message.
    let offset_id = sent[3]["offset_id"].as_str().unwrap();
    let unique = sent[3]["unique_key"].as_str().unwrap();
    let queue = sent[3]["queue"].to_string();
    let offset = sent[3]["offset"].to_string();
    let broker = sent[3]["broker"].as_str().unwrap();
    let by_id = rmq.rows(&["message", "get", offset_id]).await;
    let by_key = rmq.rows(&["message", "get", unique, "--topic", "Orders"]).await;
    let by_place = rmq
        .rows(&[
            "message", "get", "--topic", "Orders", "--broker", broker, "--queue", &queue, "--offset", &offset,
        ])
        .await;
    assert_eq!(by_id, by_key);
    assert_eq!(by_id, by_place);
    assert_eq!(by_id[0]["keys"], json!(["K-3"]));

    // The name of a message is what the next command takes.
    let made = rmq.line("topic create Names --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    for line in [
        "message list --topic Orders -o name",
        "message tail --topic Orders --limit 100 -o name",
        "message find --topic Orders --key K-3 -o name",
        "message send --topic Names --body x -o name",
    ] {
        let named = rmq.line(line).await;
        assert_eq!(named.code, 0, "{named:?}");
        let known = named.stdout.lines().filter(|name| *name == offset_id).count();
        assert_eq!(known, usize::from(!line.contains("send")), "{line}: {named:?}");
        for name in named.stdout.lines() {
            let one = rmq.run(&["message", "get", name]).await;
            assert_eq!(one.code, 0, "{line}: {name}: {one:?}");
        }
    }

    let tail = rmq
        .rows(&["message", "tail", "--topic", "Orders", "--limit", "4"])
        .await;
    let bodies: Vec<&str> = tail.iter().map(|m| m["keys"][0].as_str().unwrap()).collect();
    assert_eq!(bodies, ["K-2", "K-3", "K-4", "K-5"]);
    let tagged = rmq
        .rows(&[
            "message", "tail", "--topic", "Orders", "--tag", "TagB", "--from", "earliest", "--limit", "0",
        ])
        .await;
    assert_eq!(tagged.len(), 3);

    // The window is exact to the millisecond (K51).
    let at = tail[1]["stored_ms"].as_i64().unwrap();
    let (since, until) = (at.to_string(), at.to_string());
    let window = rmq
        .rows(&[
            "message", "find", "--topic", "Orders", "--key", "K-3", "--since", &since, "--until", &until,
        ])
        .await;
    assert_eq!(window.len(), 1);
    let after = (at + 1).to_string();
    let outside = rmq
        .run(&[
            "message", "find", "--topic", "Orders", "--key", "K-3", "--since", &after,
        ])
        .await;
    assert_eq!(outside.code, 4, "{outside:?}");

    let status = rmq.run(&["topic", "status", "Orders", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&status.stdout).unwrap();
    assert_eq!(document["summary"]["messages"], 6);
    assert_eq!(document["items"].as_array().unwrap().len(), 4);

    // Looking left no group, no client and no offset behind.
    let groups = rmq.rows(&["group", "list"]).await;
    assert_eq!(groups, Vec::<Value>::new());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_sees_messages_as_they_come() {
    use std::io::{BufRead as _, BufReader};
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(
        rmq.run(&["topic", "create", "T", "--queues", "2", "--yes"])
            .await
            .code,
        0
    );
    assert_eq!(
        rmq.run(&["message", "send", "--topic", "T", "--body", "before"])
            .await
            .code,
        0
    );
    let mut command = rmq.command(&[
        "message", "tail", "--topic", "T", "--follow", "--from", "earliest", "--limit", "3", "-o", "jsonl",
    ]);
    command.stdout(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first = tokio::task::spawn_blocking(move || {
        let line = lines.next().unwrap().unwrap();
        (line, lines)
    });
    let (first, lines) = first.await.unwrap();
    assert!(first.contains("\"before\""), "{first}");
    for body in ["one", "two"] {
        assert_eq!(
            rmq.run(&["message", "send", "--topic", "T", "--body", body])
                .await
                .code,
            0
        );
    }
    let rest: Vec<String> = tokio::task::spawn_blocking(move || lines.map(Result::unwrap).collect())
        .await
        .unwrap();
    assert_eq!(rest.len(), 2, "{rest:?}");
    assert!(child.wait().unwrap().success());
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_shows_its_backlog_and_clients() {
    use rmq::client::consume::Consumer;
    use rmq::client::{Client, Options};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio_util::sync::CancellationToken;

    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    assert_eq!(
        rmq.run(&["topic", "create", "T", "--queues", "2", "--yes"])
            .await
            .code,
        0
    );
    let send = ["message", "send", "--topic", "T", "--body", "x", "--count", "8"];
    assert_eq!(rmq.run(&send).await.code, 0);

    let client = Arc::new(Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    }));
    let (stop, seen) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let counted = seen.clone();
    let consumer = Consumer::new(client, "CG_T", "T").unwrap();
    let running = tokio::spawn(consumer.run(
        Arc::new(move |batch: Vec<rmq::client::Message>| {
            counted.fetch_add(batch.len(), Ordering::SeqCst);
            Box::pin(std::future::ready(()))
        }),
        stop.clone(),
    ));
    let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let rows = rmq.rows(&["group", "lag", "CG_T", "--by", "group"]).await;
        if seen.load(Ordering::SeqCst) == 8 && rows[0]["lag"] == 0 && rows[0]["queues"] == 2 {
            assert_eq!(
                (&rows[0]["state"], &rows[0]["clients"]),
                (&json!("online"), &json!(1))
            );
            break;
        }
        assert!(std::time::Instant::now() < until, "{rows:?}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let clients = rmq.rows(&["group", "clients", "CG_T"]).await;
    assert_eq!(clients.len(), 1);
    stop.cancel();
    running.await.unwrap();

    let send = ["message", "send", "--topic", "T", "--body", "x", "--count", "5"];
    assert_eq!(rmq.run(&send).await.code, 0);
    let lag = rmq.run(&["group", "lag", "CG_T", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&lag.stdout).unwrap();
    assert_eq!(document["summary"]["total_lag"], 5, "{document}");
    assert_eq!(document["summary"]["state"], "offline");
    let rows = items(&lag);
    assert!(
        rows[0]["lag"].as_i64() >= rows[1]["lag"].as_i64(),
        "most lagging first"
    );
    assert!(rows[0]["lag_time_ms"].is_i64(), "{rows:?}");
    let over = rmq
        .run(&["group", "lag", "CG_T", "--fail-over", "4", "-o", "json"])
        .await;
    assert_eq!((over.code, items(&over).len()), (11, 2), "{over:?}");
    let under = rmq.run(&["group", "lag", "CG_T", "--fail-over", "5"]).await;
    assert_eq!(under.code, 0);
    let all = rmq.rows(&["group", "lag"]).await;
    assert_eq!(all.iter().find(|g| g["group"] == "CG_T").unwrap()["lag"], 5);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_setting_is_checked_written_and_read_back() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    for (change, code) in [
        ("noSuchKey=1", 4),
        ("fileReservedTime=soon", 2),
        ("fileReservedTime", 2),
    ] {
        let refused = rmq
            .run(&["broker", "set-config", "broker-a", change, "--yes"])
            .await;
        assert_eq!((refused.code, refused.stdout.as_str()), (code, ""), "{refused:?}");
    }
    let typo = rmq
        .run(&["broker", "set-config", "broker-a", "fileReservedTim=1", "--yes"])
        .await;
    assert!(typo.stderr.contains("fileReservedTime"), "{typo:?}");
    let done = rmq
        .run(&["broker", "set-config", "broker-a", "fileReservedTime=48", "--yes"])
        .await;
    assert_eq!(done.code, 0, "{done:?}");
    let rows = rmq
        .rows(&["broker", "get-config", "broker-a", "fileReservedTime"])
        .await;
    assert_eq!(rows[0]["value"], "48");
    assert_eq!(rows[0]["in_force"], true);
    // A key that is read at the start: what is shown is not what the broker runs with.
    let waits = rmq
        .line("broker set-config broker-a maxIndexNum=90001 --yes")
        .await;
    assert_eq!(waits.code, 0, "{waits:?}");
    let rows = rmq
        .rows(&["broker", "get-config", "broker-a", "maxIndexNum"])
        .await;
    assert_eq!(
        (&rows[0]["value"], &rows[0]["in_force"]),
        (&json!("90001"), &json!(false))
    );
    let told = rmq.line("broker get-config broker-a maxIndexNum").await;
    assert!(
        told.stderr.contains("in force from its next start on"),
        "{told:?}"
    );
    // A key that only Java's brokers have is kept, and does nothing.
    let client = rmq::client::Client::new(rmq::client::Options::default());
    let server = rmq::client::Server::at(cluster.brokers[0].addr().to_string());
    let only_javas = [("onlyJavaHasIt".to_owned(), "true".to_owned())];
    let of = rmq::client::admin::config::ConfigOf::Broker;
    let kept = client.set_server_config(of, &server, &only_javas, client.deadline());
    kept.await.unwrap();
    let rows = rmq
        .rows(&["broker", "get-config", "broker-a", "onlyJavaHasIt"])
        .await;
    assert_eq!(rows[0]["in_force"], false);
    let told = rmq.line("broker get-config broker-a onlyJavaHasIt").await;
    assert!(told.stderr.contains("has no effect on"), "{told:?}");
    let set = rmq
        .line("broker set-config broker-a onlyJavaHasIt=false --yes")
        .await;
    assert!(set.code == 0 && set.stdout.contains("has no effect"), "{set:?}");
    let detail = rmq.rows(&["broker", "describe", "broker-a"]).await;
    assert_eq!(detail[0]["registrations"][0]["listed"], true);
    assert!(
        detail[0]["registrations"][0]["age_ms"].is_i64(),
        "an rmq name server tells the age"
    );
    cluster.stop().await;
}

/// A write that nobody answered is read back; what cannot be read is not told as not done.
#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_an_answer_is_read_back() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let broker = cluster.brokers[0].addr().to_string();
    let wire = super::recorder::Wire::tap(&cluster.addr.to_string(), std::slice::from_ref(&broker)).await;
    let rmq = super::Rmq::new(&wire.name_server, cluster.dir());
    let through = format!("--broker-map {} --timeout 1s", wire.maps[0]);
    let ran = rmq.line("topic create T --queues 2 --yes").await;
    assert_eq!(ran.code, 0, "{ran:?}");

    wire.lies[0].lock().unwrap().mute_to = vec![UpdateAndCreateTopic::CODE];
    let ran = rmq
        .line(&format!("topic update T --perm 4 --yes {through}"))
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        ran.stdout.contains("undo: rmq topic update T --broker"),
        "{ran:?}"
    );

    wire.lies[0].lock().unwrap().dies_of_it = true;
    let line = format!("topic update T --perm 6 --yes -o json {through}");
    let ran = rmq.line(&line).await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("whether it was done is not known"), "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(told["errors"][0]["unsettled"], true, "{told}");
    let undo = told["summary"]["undo"].as_str().unwrap_or_default();
    assert!(undo.contains("--perm 4"), "{told}");
    let rows = rmq.rows(&["topic", "get", "T"]).await;
    assert_eq!(rows[0]["perm_bits"], 6, "it was done: {rows:?}");

    // A configuration is read back as well.
    *wire.lies[0].lock().unwrap() = super::recorder::Lies {
        mute_to: vec![UpdateBrokerConfig::CODE],
        ..Default::default()
    };
    let ran = rmq
        .line(&format!(
            "broker set-config broker-a traceOn=false --yes {through}"
        ))
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    wire.stop().await;
    cluster.stop().await;
}

/// A name server that says yes and keeps the route is not believed.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_with_a_route_is_not_deleted() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let wire = super::recorder::Wire::tap(&cluster.addr.to_string(), &[]).await;
    wire.of_name_server.lock().unwrap().deaf_to = vec![DeleteTopicInNamesrv::CODE];
    let rmq = super::Rmq::new(&wire.name_server, cluster.dir());
    for (line, code) in [
        ("topic create T --queues 1 --yes", 0),
        ("topic delete T --yes", 7),
    ] {
        let ran = rmq.line(line).await;
        assert_eq!(ran.code, code, "{ran:?}");
        assert_eq!(
            ran.stderr.contains("still routed to broker-a"),
            code != 0,
            "{ran:?}"
        );
    }
    wire.stop().await;
    cluster.stop().await;
}
