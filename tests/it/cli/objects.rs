//! Topics, groups, producers, consumers, messages: each command once on a real cluster, with what it must say.

use std::sync::Arc;
use std::time::Duration;

use rmq::fields::Fields;
use rmq::protocol::Request as _;
use rmq::protocol::frame::Frame;
use rmq::protocol::requests::GetAllSubscriptiongroupConfig;
use rmq::remoting::{NoService, Pool};
use serde_json::{Value, json};

use super::recorder::Wire;
use super::{Cluster, Ran, items};

fn ok(ran: &Ran) {
    assert_eq!(ran.code, 0, "{ran:?}");
}

/// The last line of a change, as arguments.
fn undo(ran: &Ran) -> Vec<String> {
    let line = ran.stdout.lines().last().unwrap();
    let line = line
        .strip_prefix("undo: rmq ")
        .unwrap_or_else(|| panic!("{ran:?}"));
    line.split(' ')
        .map(str::to_owned)
        .chain(["--yes".to_owned()])
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_lives_from_create_to_delete() {
    /// The body of GET_ALL_SUBSCRIPTIONGROUP_CONFIG as it is on the wire.
    async fn broker_groups(addr: &str) -> Value {
        let pool = Pool::new(Arc::new(NoService), Duration::from_secs(5));
        let request = Frame::request(GetAllSubscriptiongroupConfig::CODE, Fields::new());
        let answer = pool
            .exchange(addr, request, Duration::from_secs(5))
            .await
            .unwrap();
        serde_json::from_slice(&answer.body).unwrap()
    }

    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("group create CG --retry-max 5 --yes").await);
    let again = rmq.line("group create CG --yes").await;
    assert_eq!(again.code, 9, "{again:?}");
    let rows = rmq.rows(&["group", "get", "CG"]).await;
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["retry_max"], &rows[0]["consume"]),
        (&json!(5), &json!(true))
    );

    // Only what is named changes (F2: mqadmin's -s false reset the retries).
    let paused = rmq.line("group pause CG --yes").await;
    ok(&paused);
    let rows = rmq.rows(&["group", "get", "CG"]).await;
    assert_eq!(
        (&rows[1]["retry_max"], &rows[1]["consume"]),
        (&json!(5), &json!(false))
    );
    ok(&rmq.line("group resume CG --yes").await);
    let before = rmq.rows(&["group", "get", "CG"]).await;
    let changed = rmq
        .line("group update CG --retry-policy custom:1s,5s --slow-read-from 0 --broker broker-a --yes")
        .await;
    ok(&changed);
    let rows = rmq.rows(&["group", "get", "CG"]).await;
    assert_eq!(rows[0]["retry_policy"], "custom:1s,5s");
    assert_eq!(rows[1], before[1]);
    let args = undo(&changed);
    ok(&rmq
        .run(&args.iter().map(String::as_str).collect::<Vec<_>>())
        .await);
    assert_eq!(rmq.rows(&["group", "get", "CG"]).await, before);

    // How it gets a topic's messages, in any case (mqadmin's -m pop was a stack trace).
    ok(&rmq.line("topic create T --yes").await);
    let set = rmq
        .line("group set-mode CG --topic T --mode Pop --share-queues 2 --yes")
        .await;
    ok(&set);
    assert_eq!(set.stdout.matches("pop, shared by 2").count(), 2, "{set:?}");
    let same = rmq
        .line("group set-mode CG --topic T --mode POP --share-queues 2 --yes")
        .await;
    assert!(same.stderr.contains("nothing to change"), "{same:?}");

    // What 5.3.3's mqadmin has no command for.
    let forbidden = rmq.line("group forbid CG --topic T --yes").await;
    ok(&forbidden);
    assert_eq!(forbidden.stdout.matches("allowed").count(), 2, "{forbidden:?}");
    for broker in &cluster.brokers {
        let table = broker_groups(&broker.addr().to_string()).await;
        assert_eq!(
            table["forbiddenTable"],
            json!({"CG": {"T": 4}}),
            "bit 2 is reading"
        );
    }
    let same = rmq.line("group forbid CG --topic T --yes").await;
    assert!(same.stderr.contains("nothing to change"), "{same:?}");
    let args = undo(&forbidden);
    ok(&rmq
        .run(&args.iter().map(String::as_str).collect::<Vec<_>>())
        .await);
    for broker in &cluster.brokers {
        let table = broker_groups(&broker.addr().to_string()).await;
        assert_eq!(table["forbiddenTable"], json!({}));
    }
    // What was forbidden before stays so when the change of the other broker is taken back.
    ok(&rmq
        .line("group forbid CG --topic T --broker broker-a --yes")
        .await);
    let args = undo(&rmq.line("group forbid CG --topic T --yes").await);
    ok(&rmq
        .run(&args.iter().map(String::as_str).collect::<Vec<_>>())
        .await);
    for (broker, left) in cluster.brokers.iter().zip([json!({"CG": {"T": 4}}), json!({})]) {
        let table = broker_groups(&broker.addr().to_string()).await;
        assert_eq!(table["forbiddenTable"], left);
    }

    let described = rmq.rows(&["group", "describe", "CG"]).await;
    assert_eq!(
        (
            &described[0]["state"],
            &described[0]["configuration"][1]["broker"]
        ),
        (&json!("offline"), &json!("broker-b"))
    );
    let healthy = rmq.line("group check CG").await;
    assert_eq!(healthy.code, 0, "{healthy:?}");
    ok(&rmq.line("group delete CG --broker broker-b --yes").await);
    let half = rmq.line("group check CG -o json").await;
    assert_eq!(
        (half.code, &items(&half)[0]["check"]),
        (10, &json!("GR2")),
        "{half:?}"
    );

    // A dry run shows each part that goes; the real one leaves nothing.
    ok(&rmq
        .line("topic create %RETRY%CG --queues 1 --broker broker-a --yes")
        .await);
    let planned = rmq.line("group delete CG --dry-run -o json").await;
    let fields: Vec<Value> = items(&planned).iter().map(|row| row["field"].clone()).collect();
    assert_eq!(
        fields,
        [json!("group"), json!("%RETRY%CG"), json!("%RETRY%CG")],
        "{planned:?}"
    );
    ok(&rmq.line("group delete CG --yes").await);
    assert_eq!(rmq.line("group get CG").await.code, 4);
    assert_eq!(rmq.line("topic route %RETRY%CG").await.code, 4);
    let gone = rmq.line("group delete CG --yes").await;
    assert_eq!(gone.code, 4, "mqadmin called it a success: {gone:?}");
    let system = rmq.line("group delete TOOLS_CONSUMER --yes").await;
    assert_eq!(system.code, 9, "{system:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_a_topic_is_listed_counted_found_and_sent_again() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create Orders --queues 4 --yes").await);
    for i in 0..8 {
        let tag = if i % 2 == 0 { "TagA" } else { "TagB" };
        let body = format!("{{\"order\":{{\"id\":{i}}}}}");
        let key = format!("K-{i}");
        let (seq, queue) = (format!("seq={i}"), (i % 4).to_string());
        ok(&rmq
            .run(&[
                "message", "send", "--topic", "Orders", "--body", &body, "--key", &key, "--tag", tag,
                "--prop", &seq, "--queue", &queue,
            ])
            .await);
    }
    let all = rmq.rows(&["message", "list", "--topic", "Orders"]).await;
    let keys: Vec<&Value> = all.iter().map(|m| &m["keys"][0]).collect();
    assert_eq!(
        keys,
        (0..8)
            .map(|i| json!(format!("K-{i}")))
            .collect::<Vec<_>>()
            .iter()
            .collect::<Vec<_>>()
    );
    let first = rmq
        .rows(&["message", "list", "--topic", "Orders", "--limit", "3"])
        .await;
    assert_eq!(first, all[..3]);
    let one = rmq
        .rows(&[
            "message",
            "list",
            "--topic",
            "Orders",
            "--queue",
            "1",
            "--from-offset",
            "1",
        ])
        .await;
    assert_eq!((one.len(), &one[0]["keys"][0]), (1, &json!("K-5")));
    let tagged = rmq
        .rows(&["message", "list", "--topic", "Orders", "--tag", "TagA"])
        .await;
    assert_eq!(tagged.len(), 4);
    let lines = rmq.line("message list --topic Orders --limit 0 -o jsonl").await;
    assert_eq!(lines.stdout.lines().count(), 8, "{lines:?}");
    let formatted = rmq
        .run(&[
            "message",
            "list",
            "--topic",
            "Orders",
            "--limit",
            "1",
            "--format",
            "{queue}/{offset} {prop.seq}",
        ])
        .await;
    assert_eq!(formatted.stdout, "0/0 0\n");

    let count = rmq
        .run(&["message", "count", "--topic", "Orders", "-o", "json"])
        .await;
    let document: Value = serde_json::from_str(&count.stdout).unwrap();
    assert_eq!(document["summary"]["messages"], 8);
    let tags = rmq
        .rows(&["message", "count", "--topic", "Orders", "--by", "tag"])
        .await;
    assert_eq!(
        tags,
        [
            json!({"tag": "TagA", "count": 4}),
            json!({"tag": "TagB", "count": 4})
        ]
    );
    let none = rmq
        .rows(&[
            "message", "count", "--topic", "Orders", "--until", "-1h", "--by", "broker",
        ])
        .await;
    assert_eq!(none[0]["count"], 0);

    for (search, key) in [
        (&["--body-json", "order.id=5"][..], "K-5"),
        (&["--prop", "seq=6"], "K-6"),
        (&["--body-contains", "\"id\":7"], "K-7"),
        (&["--tag", "TagB", "--body-json", "order.id<2"], "K-1"),
    ] {
        let args: Vec<&str> = ["message", "find", "--topic", "Orders"]
            .iter()
            .chain(search)
            .copied()
            .collect();
        let found = rmq.rows(&args).await;
        assert_eq!(
            (found.len(), &found[0]["keys"][0]),
            (1, &json!(key)),
            "{search:?}"
        );
    }
    let nothing = rmq.line("message find --topic Orders --prop seq=99").await;
    assert_eq!(nothing.code, 4, "{nothing:?}");
    assert!(
        nothing.stderr.contains("seq=99") && nothing.stderr.contains("8 messages read"),
        "{nothing:?}"
    );

    let id = all[3]["offset_id"].as_str().unwrap();
    let viewed = rmq.rows(&["message", "view", id, "--quiet"]).await;
    assert_eq!(
        (&viewed[0]["keys"][0], &viewed[0]["groups"]),
        (&json!("K-3"), &json!([]))
    );
    let body = rmq.run(&["message", "body", id, "--quiet"]).await;
    assert_eq!(body.stdout, "{\"order\":{\"id\":3}}");
    let decoded = rmq.rows(&["message", "decode-id", id]).await;
    assert_eq!(
        decoded[0]["as_offset_id_broker"],
        cluster.brokers[0].addr().to_string()
    );
    let sent = rmq.run(&["message", "resend", id, "--yes", "--quiet"]).await;
    ok(&sent);
    let copies = rmq
        .rows(&["message", "find", "--topic", "Orders", "--key", "K-3"])
        .await;
    assert_eq!(copies.len(), 2, "{copies:?}");
    let properties = &copies[1]["properties"];
    assert!(properties["RMQ_RESENT_FROM"].is_string(), "{properties}");
    assert_eq!(properties["seq"], "3", "{properties}");

    // One key, one queue; a time to come is not there yet.
    for _ in 0..2 {
        ok(&rmq
            .line("message send --topic Orders --body x --order-key customer-7 --key O")
            .await);
    }
    let ordered = rmq
        .rows(&["message", "find", "--topic", "Orders", "--key", "O"])
        .await;
    assert_eq!(ordered[0]["queue"], ordered[1]["queue"]);
    ok(&rmq
        .line("message send --topic Orders --body later --delay 1h --key L")
        .await);
    assert_eq!(rmq.line("message find --topic Orders --key L").await.code, 4);
    // A broker would deliver it by the last level it has.
    let beyond = rmq.line("message send --topic Orders --body x --delay 19").await;
    assert_eq!(beyond.code, 2, "{beyond:?}");
    assert!(
        beyond.stderr.contains("delay levels 1 to 18, not 19"),
        "{beyond:?}"
    );
    // Java's broker answers SYSTEM_ERROR to a pull of a queue that is not there.
    let nowhere = rmq
        .line("message get --topic Orders --broker broker-a --queue 77 --offset 0")
        .await;
    assert_eq!(nowhere.code, 4, "{nowhere:?}");
    assert!(nowhere.stderr.contains("has no queue 77"), "{nowhere:?}");

    let entries = rmq
        .rows(&["topic", "cq", "Orders", "--queue", "0", "--from", "1"])
        .await;
    assert_eq!(entries[0]["offset"], 1);
    assert_eq!(entries[0]["tags_code"], 2_598_919, "the hash code of TagA");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_uses_a_topic_is_told() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let made = rmq
        .line("topic create Steps --queues 4 --per-broker broker-b=2 --order --unit --yes -o json")
        .await;
    ok(&made);
    let order = rmq.rows(&["topic", "order", "get", "Steps"]).await;
    assert_eq!(order[0]["order_conf"], "broker-a:4;broker-b:2");
    let rows = rmq.rows(&["topic", "get", "Steps"]).await;
    assert_eq!(
        (
            &rows[0]["write_queues"],
            &rows[1]["write_queues"],
            &rows[1]["sys_flag"]
        ),
        (&json!(4), &json!(2), &json!(1))
    );
    let clusters = rmq.rows(&["topic", "clusters", "Steps"]).await;
    assert_eq!(
        clusters,
        [json!({"cluster": "DefaultCluster", "broker_names": ["broker-a", "broker-b"], "write_queues": 6})]
    );
    let shares = rmq
        .rows(&[
            "topic",
            "allocate",
            "Steps",
            "--clients",
            "c2,c1",
            "--strategy",
            "circle",
        ])
        .await;
    assert_eq!(
        (&shares[0]["client"], &shares[0]["queues"]),
        (&json!("c1"), &json!(3))
    );
    assert_eq!(shares[0]["share"][1], "broker-a/2");
    ok(&rmq
        .line("message send --topic Steps --body x --broker broker-a")
        .await);
    let described = rmq.rows(&["topic", "describe", "Steps"]).await;
    assert_eq!(
        (
            &described[0]["messages"],
            &described[0]["write_queues"],
            &described[0]["order_conf"]
        ),
        (&json!(1), &json!(6), &json!("broker-a:4;broker-b:2"))
    );
    let listed = rmq.rows(&["topic", "list", "--stats", "--no-consumers"]).await;
    assert_eq!(
        (&listed[0]["messages"], &listed[0]["groups"]),
        (&json!(1), &json!([]))
    );
    assert_eq!(rmq.line("topic list --idle 1h -o name").await.stdout, "");
    assert_eq!(rmq.line("topic list --type fifo -o name").await.stdout, "");
    let unused = rmq.rows(&["topic", "find-unused", "--idle", "1h"]).await;
    assert_eq!(unused.len(), 0);
    let stats = rmq.rows(&["topic", "stats", "Steps"]).await;
    assert_eq!((stats.len(), &stats[0]["messages"]), (1, &json!(1)));
    assert_eq!(rmq.rows(&["topic", "consumers", "Steps"]).await.len(), 0);
    assert_eq!(rmq.rows(&["topic", "producers", "Steps"]).await.len(), 0);

    let stopped = rmq.line("topic stop-writes Steps --broker broker-a --yes").await;
    ok(&stopped);
    let perms = |rows: &[Value]| {
        rows.iter()
            .map(|r| r["perm_bits"].as_i64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(perms(&rmq.rows(&["topic", "get", "Steps"]).await), [4, 6]);
    ok(&rmq.line("topic allow-writes Steps --yes").await);
    assert_eq!(perms(&rmq.rows(&["topic", "get", "Steps"]).await), [6, 6]);

    // The entry follows the topic, and goes with it.
    ok(&rmq.line("topic update Steps --per-broker broker-b=4 --yes").await);
    let order = rmq.rows(&["topic", "order", "get", "Steps"]).await;
    assert_eq!(order[0]["order_conf"], "broker-a:4;broker-b:4");
    ok(&rmq.line("topic delete Steps --force --yes").await);
    assert_eq!(rmq.line("topic order get Steps").await.code, 4);
    ok(&rmq.line("topic order set Other a:4;b:4 --yes").await);
    ok(&rmq.line("topic order unset Other --yes").await);
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_measurement_counts_every_send() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create Bench --queues 2 --yes").await);
    let produced = rmq
        .rows(&[
            "bench", "produce", "--topic", "Bench", "--count", "40", "--size", "100", "--yes", "-q",
        ])
        .await;
    assert_eq!(
        (&produced[0]["sent"], &produced[0]["failed"]),
        (&json!(40), &json!(0))
    );
    let consumed = rmq.rows(&["bench", "consume", "--topic", "Bench"]).await;
    assert_eq!(consumed[0]["messages"], 40);
    let times = rmq
        .rows(&[
            "bench", "latency", "--topic", "Bench", "--count", "5", "--yes", "-q",
        ])
        .await;
    assert_eq!(
        (&times[0]["broker"], &times[0]["sent"]),
        (&json!("broker-a"), &json!(5))
    );
    let probes = rmq
        .rows(&["bench", "cluster-latency", "--count", "3", "--yes", "-q"])
        .await;
    assert_eq!(probes[0]["sent"], 3);
    // mqadmin made a topic of a misspelt name (F12).
    let absent = rmq.line("bench latency --topic Bensh --yes").await;
    assert_eq!(absent.code, 4, "{absent:?}");
    assert_eq!(rmq.line("topic list -o name").await.stdout, "Bench\n");
    cluster.stop().await;
}

/// §10.4: what a dry run sends is read by a recorder on the wire.
#[tokio::test(flavor = "multi_thread")]
async fn a_dry_run_sends_no_code_that_changes() {
    /// Codes that every change command may send before it changes anything.
    const READS: &[i32] = &[
        11, 12, 14, 21, 26, 28, 29, 30, 31, 32, 33, 38, 43, 45, 101, 105, 106, 201, 202, 203, 204, 206, 208,
        219, 224, 300, 304, 305, 307, 315, 317, 319, 321, 328, 351, 402, 907, 2003,
    ];
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create T --order --yes").await);
    ok(&rmq.line("group create CG --yes").await);
    ok(&rmq.line("message send --topic T --body x --key K").await);
    let id = rmq.rows(&["message", "list", "--topic", "T"]).await[0]["offset_id"]
        .as_str()
        .unwrap()
        .to_owned();
    let brokers = vec![cluster.brokers[0].addr().to_string()];
    let wire = Wire::tap(&cluster.addr.to_string(), &brokers).await;
    let lines = [
        "topic create New",
        "topic create Ordered --order",
        "topic update T --perm 4",
        "topic update T --order false",
        "topic update New --create",
        "topic delete T --force --with-retry-dlq",
        "topic stop-writes T",
        "topic order set T broker-a:2",
        "topic order unset T",
        "group create New",
        "group update CG --retry-max 3",
        "group update New --create",
        "group pause CG",
        "group forbid CG --topic T",
        "group delete CG",
        "group set-mode CG --topic T --mode pop",
        "message send --topic T --body y",
        "message resend ID",
        "bench produce --topic T --count 3",
        "bench latency --topic T --count 3",
        "bench cluster-latency --count 3",
        "broker set-config broker-a fileReservedTime=9",
        "mqadmin updateTopic -c DefaultCluster -t T -p 4",
        "mqadmin deleteTopic -c DefaultCluster -t T",
        "mqadmin updateSubGroup -c DefaultCluster -g CG -s false",
        "mqadmin deleteSubGroup -c DefaultCluster -g CG",
        "mqadmin sendMessage -t T -p y",
    ];
    for line in lines {
        let line = line.replace("ID", &id);
        let mut args = vec![
            "--dry-run",
            "-n",
            wire.name_server.as_str(),
            "--broker-map",
            wire.maps[0].as_str(),
        ];
        args.extend(line.split(' '));
        let ran = rmq.run(&args).await;
        // `topic delete` refuses by itself what took a message just now: that is no change either.
        assert!(
            ran.code == 0 || ran.code == 9 && line.contains("elete"),
            "{line}: {ran:?}"
        );
        let codes = wire.take();
        assert!(!codes.is_empty(), "{line}: nothing was asked");
        let wrong: Vec<&i32> = codes.iter().filter(|code| !READS.contains(code)).collect();
        assert!(wrong.is_empty(), "{line} sent {wrong:?}");
    }
    // The recorder sees a change when there is one.
    let mut args = vec![
        "-n",
        wire.name_server.as_str(),
        "--broker-map",
        wire.maps[0].as_str(),
    ];
    args.extend("topic update T --perm 4 --yes".split(' '));
    ok(&rmq.run(&args).await);
    assert!(wire.take().contains(&17));
    wire.stop().await;
    cluster.stop().await;
}

/// §10.3: forty commands that fail, each with its code, and JSON in both streams.
#[tokio::test(flavor = "multi_thread")]
async fn forty_failures_have_their_code_and_stay_readable() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create OrderEvents --yes").await);
    ok(&rmq.line("group create CG_ORDERS --yes").await);
    let cases: &[(&str, i32)] = &[
        ("topic describe NoTopic", 4),
        ("topic clusters NoTopic", 4),
        ("topic consumers NoTopic", 4),
        ("topic producers NoTopic", 4),
        ("topic stats NoTopic", 4),
        ("topic allocate NoTopic --clients a", 4),
        ("topic allocate OrderEvents --clients ,", 2),
        ("topic cq NoTopic --queue 0", 4),
        ("topic cq OrderEvents --queue 0 --limit 0", 2),
        ("topic order get OrderEvents", 4),
        ("topic order set OrderEvents nonsense --yes", 2),
        ("topic order set NoTopic --yes", 4),
        ("topic stop-writes NoTopic --yes", 4),
        ("topic stop-writes OrderEvents", 13),
        ("topic create T --per-broker broker-z=4 --yes", 2),
        ("topic create T --per-broker broker-a=0 --yes", 2),
        ("topic update OrderEvents --queues 2 --yes", 9),
        ("topic list --type moon", 2),
        ("topic find-unused --idle soon", 2),
        ("group get NoGroup", 4),
        ("group describe NoGroup", 4),
        ("group check NoGroup", 4),
        ("group client-info NoGroup", 4),
        ("group clients NoGroup --stack", 4),
        ("group create CG_ORDERS --yes", 9),
        ("group create a/b --yes", 2),
        ("group update CG_ORDERS --yes", 2),
        ("group update NoGroup --retry-max 3 --yes", 4),
        ("group update CG_ORDERS --retry-max -2 --yes", 2),
        ("group update CG_ORDERS --retry-policy linear --yes", 2),
        ("group update CG_ORDERS --attr colour=red --yes", 6),
        ("group delete NoGroup --yes", 4),
        ("group pause CG_ORDERS", 13),
        ("group forbid CG_ORDERS --topic NoTopic --yes", 4),
        ("group forbid NoGroup --topic OrderEvents --yes", 4),
        ("group set-mode CG_ORDERS --topic NoTopic --mode pop --yes", 4),
        (
            "group set-mode CG_ORDERS --topic OrderEvents --mode push --yes",
            2,
        ),
        ("producer clients NoGroup", 4),
        ("consumer stack nobody@1", 4),
        ("consumer running-info nobody@1 --group CG_ORDERS", 4),
        ("message list --topic NoTopic", 4),
        ("message list --topic OrderEvents --queue 99", 4),
        ("message list --topic OrderEvents --decode klingon", 2),
        ("message count --topic NoTopic", 4),
        ("message find --topic OrderEvents", 2),
        ("message find --topic OrderEvents --body-json nothing", 2),
        ("message view 0000", 2),
        ("message body 0000 --topic OrderEvents", 4),
        ("message decode-id xyz", 2),
        ("message resend 0000 --topic OrderEvents --yes", 4),
        ("message push 0000 --topic OrderEvents --group CG_ORDERS --yes", 4),
        ("message send --topic NoTopic --body x", 4),
        ("message send --topic OrderEvents --body x --delay soon", 2),
        ("message send --topic OrderEvents --body x --rate 0", 2),
        ("bench produce --topic NoTopic --yes", 4),
        ("bench latency --yes", 2),
        ("bench latency --topic OrderEvents --size 1TiB --yes", 2),
        ("mqadmin noSuchCmd", 2),
        ("mqadmin topicRoute", 2),
        ("mqadmin topicRoute -t NoTopic", 4),
        ("mqadmin updateStaticTopic -c C -t T -qn 4", 4),
        (
            "mqadmin queryMsgByOffset -t OrderEvents -b broker-a -i 0 -o 99999",
            4,
        ),
        ("cluster list --secret-key-file /does/not/exist --access-key k", 2),
        ("cluster list --deadline never", 2),
    ];
    for (line, code) in cases {
        let plain = rmq.line(line).await;
        assert_eq!(plain.code, *code, "{line}: {plain:?}");
        assert!(
            !plain.stderr.contains("panicked") && !plain.stderr.contains("    at "),
            "{line}: {plain:?}"
        );
        assert!(!plain.stderr.trim().is_empty(), "{line} says nothing");
        let args: Vec<&str> = ["-o", "json", "--quiet"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        let json = rmq.run(&args).await;
        assert_eq!(json.code, *code, "{line}: {json:?}");
        if !json.stdout.is_empty() {
            let document: Result<Value, _> = serde_json::from_str(&json.stdout);
            assert!(document.is_ok(), "{line}: {json:?}");
        }
        let error: Value = serde_json::from_str(json.stderr.trim().lines().last().unwrap_or_default())
            .unwrap_or_else(|e| panic!("{line}: {e}: {json:?}"));
        assert_eq!(error["error"]["code"], *code, "{line}");
    }
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn old_lines_go_on_working_and_show_their_new_form() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    let addr = cluster.addr.to_string();
    // F1: made with 16 queues, then only the permission named.
    let made = rmq
        .run(&[
            "mqadmin",
            "updateTopic",
            "-n",
            &addr,
            "-c",
            "DefaultCluster",
            "-t",
            "T16",
            "-r",
            "16",
            "-w",
            "16",
        ])
        .await;
    ok(&made);
    let wanted = format!(
        "rmq topic update T16 --create --cluster DefaultCluster --read-queues 16 --write-queues 16 -n {} --yes",
        cluster.addr
    );
    assert!(made.stderr.contains(&wanted), "{made:?}");
    ok(&rmq
        .line("mqadmin updatetopic -c DefaultCluster -t T16 -p 4")
        .await);
    let route = rmq
        .run(&["-o", "json", "mqadmin", "--no-hint", "topicRoute", "-t", "T16"])
        .await;
    assert_eq!(route.stderr, "", "{route:?}");
    let rows: Vec<Value> = items(&route)
        .iter()
        .map(|r| json!([r["read_queues"], r["write_queues"], r["perm_bits"]]))
        .collect();
    assert_eq!(rows, [json!([16, 16, 4]), json!([16, 16, 4])]);
    // F2
    ok(&rmq
        .line("mqadmin updateSubGroup -c DefaultCluster -g GX -r 5")
        .await);
    ok(&rmq
        .line("mqadmin updateSubGroup -c DefaultCluster -g GX -s false")
        .await);
    let rows = items(
        &rmq.line("-o json mqadmin --no-hint getConsumerConfig -g GX")
            .await,
    );
    assert_eq!(
        (&rows[0]["retry_max"], &rows[0]["consume"]),
        (&json!(5), &json!(false))
    );
    // F4: deleting what is not there is no success.
    let absent = rmq
        .line("mqadmin deleteTopic -c DefaultCluster -t NoTopicX")
        .await;
    assert_eq!(absent.code, 4, "{absent:?}");
    // F12: a send makes no topic.
    let send = rmq.line("mqadmin sendMessage -t NoTopicAuto -p x").await;
    assert_eq!(send.code, 4, "{send:?}");
    ok(&rmq
        .line("mqadmin deleteSubGroup -c DefaultCluster -g GX -r true")
        .await);
    ok(&rmq.line("mqadmin deleteTopic -c DefaultCluster -t T16").await);
    assert_eq!(rmq.line("topic list -o name").await.stdout, "");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_ends_when_its_condition_holds_and_a_deadline_ends_it_with_8() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create T --yes").await);
    let reached = rmq
        .run(&[
            "topic",
            "list",
            "--watch=100ms",
            "--watch-until",
            "name=T && write_queues=8",
        ])
        .await;
    ok(&reached);
    assert_eq!(reached.stdout.lines().count(), 1, "{reached:?}");
    let late = rmq
        .run(&[
            "topic",
            "list",
            "--watch=100ms",
            "--watch-until",
            "name=U",
            "--deadline",
            "700ms",
            "-o",
            "json",
        ])
        .await;
    assert_eq!(late.code, 8, "{late:?}");
    // One object, by its fields: a line with the time of the look.
    let object = ["topic", "describe", "T", "--watch-until", "name=T && messages=0"];
    let object = rmq.run(&object).await;
    ok(&object);
    let line: serde_json::Value = serde_json::from_str(object.stdout.trim()).unwrap();
    assert!(line["time_ms"].is_i64() && line["name"] == "T", "{object:?}");
    let unknown = rmq.line("broker describe broker-a --watch-until nothing=1").await;
    assert_eq!(unknown.code, 2, "{unknown:?}");
    let headers = rmq.line("topic route T -vv").await;
    assert!(headers.stderr.contains("topic=T"), "{headers:?}");
    let human = rmq.line("topic list --human").await;
    assert!(human.stdout.contains('8'), "{human:?}");
    cluster.stop().await;
}

/// Section 6, rules 2 and 9: a change says where it is made and what it touches, whoever is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_asks_nobody_tells_its_scope_and_what_it_touches() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create T --queues 8 --yes").await);
    ok(&rmq.line("group create CG --yes").await);
    ok(&rmq
        .line("message send --topic T --broker broker-a --queue 5 --body x --count 3")
        .await);
    let tells = |ran: &Ran, parts: &[&str]| {
        for part in parts {
            assert!(ran.stderr.contains(part), "{part}: {ran:?}");
        }
    };
    let shrunk = rmq
        .line("topic update T --read-queues 4 --write-queues 4 --force --yes")
        .await;
    ok(&shrunk);
    let servers = cluster.addr.to_string();
    let scope = [
        "update topic T in cluster ",
        servers.as_str(),
        "): broker-a ",
        "topic T has 0 consuming groups, and its brokers ",
        "broker-a: 3 unconsumed messages in 1 queue",
    ];
    tells(&shrunk, &scope);
    let paused = rmq.line("group pause CG --yes").await;
    ok(&paused);
    tells(&paused, &["group CG has 0 clients online"]);
    let dry = rmq
        .line("broker set-permission broker-a 4 --dry-run -o json")
        .await;
    ok(&dry);
    serde_json::from_str::<serde_json::Value>(&dry.stdout).unwrap();
    let parts = [
        "set permission of broker broker-a in cluster ",
        "1 topic, 1 group and ",
    ];
    tells(&dry, &parts);
    let quiet = rmq.line("broker set-permission broker-a 4 --yes -q").await;
    assert_eq!((quiet.code, quiet.stderr.as_str()), (0, ""), "{quiet:?}");
    cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_complete_from_the_cluster_and_a_dead_server_says_nothing() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    ok(&rmq.line("topic create OrderEvents --yes").await);
    ok(&rmq.line("group create CG_ORDERS --yes").await);
    let complete = async |namesrv: &str, words: &[&str]| {
        let mut args = vec!["--", "rmq"];
        args.extend(words);
        let mut command = rmq.command(&args);
        command
            .env("COMPLETE", "bash")
            .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
            .env("_CLAP_IFS", "\n")
            .env("RMQ_NAMESRV", namesrv);
        rmq.finish(command).await
    };
    let addr = cluster.addr.to_string();
    let has = |ran: &Ran, name: &str| ran.stdout.lines().any(|line| line == name);
    let topics = complete(&addr, &["topic", "get", "Ord"]).await;
    assert!(has(&topics, "OrderEvents"), "{topics:?}");
    let groups = complete(&addr, &["group", "lag", "CG"]).await;
    assert!(has(&groups, "CG_ORDERS"), "{groups:?}");
    let brokers = complete(&addr, &["topic", "list", "--broker", ""]).await;
    assert!(has(&brokers, "broker-a"), "{brokers:?}");
    let verbs = complete(&addr, &["topic", "stop"]).await;
    assert!(has(&verbs, "stop-writes"), "{verbs:?}");
    let dead = complete("127.0.0.1:1", &["topic", "get", "Ord"]).await;
    assert_eq!(
        (dead.code, dead.stdout.trim(), dead.stderr.as_str()),
        (0, "", ""),
        "{dead:?}"
    );
    cluster.stop().await;
}
