//! The read commands and the changes, on a cluster of two name servers, two masters and, with Java, a slave: what a change
//! did is told by stock mqadmin or by a request of the test's own.

use std::time::Duration;

use serde_json::{Value, json};

use super::golden::state;
use super::{Checks, same};
use crate::support::nodes::{Kind, Nodes};
use crate::support::session::Session;
use crate::support::{java, scratch, text, wire};

/// Reads, with the code they end with on Java's cluster and on ours.
const READS: &[(&str, i32, i32)] = &[
    ("cluster list", 0, 0),
    ("cluster describe C1", 0, 0),
    ("cluster stats", 0, 0),
    ("namesrv list", 0, 0),
    ("namesrv get-config", 0, 0),
    ("namesrv routes OrderEvents", 0, 0),
    ("namesrv diff", 0, 0),
    ("broker list", 0, 0),
    ("broker describe broker-a", 0, 0),
    ("broker stats broker-a", 0, 0),
    ("broker get-config broker-a", 0, 0),
    ("broker get-config broker-a fileReservedTime maxMessageSize", 0, 0),
    ("broker ha", 0, 0),
    ("broker consume-stats", 0, 0),
    ("broker cold-flow list", 0, 0),
    ("broker restart-plan", 0, 0),
    ("broker epoch broker-a", 12, 12),
    ("topic list", 0, 0),
    ("topic list --all --with-groups --stats", 0, 0),
    ("topic list --no-consumers", 0, 0),
    ("topic get OrderEvents", 0, 0),
    ("topic describe OrderEvents", 0, 0),
    ("topic route OrderEvents --each-namesrv", 0, 0),
    ("topic status OrderEvents", 0, 0),
    ("topic clusters OrderEvents", 0, 0),
    ("topic consumers OrderEvents", 0, 0),
    ("topic producers OrderEvents", 0, 0),
    ("topic stats OrderEvents", 0, 0),
    ("topic find-unused", 0, 0),
    ("topic diff broker-a broker-b", 0, 0),
    ("topic allocate OrderEvents --clients a,b --strategy circle", 0, 0),
    ("topic order get OrderEvents", 4, 4),
    ("topic cq OrderEvents --queue 0 --from 0", 0, 0),
    ("group list", 0, 0),
    ("group get CG_ORDERS", 0, 0),
    ("group describe CG_ORDERS", 0, 0),
    ("group lag", 0, 0),
    ("group lag CG_LAG --by queue", 0, 0),
    ("group lag CG_ORDERS --by client", 0, 0),
    ("group lag CG_LAG --fail-over 10", 11, 11),
    ("group clients CG_ORDERS", 0, 0),
    ("group clients CG_ORDERS --stack", 0, 0),
    ("group client-info CG_ORDERS", 0, 0),
    ("group check CG_ORDERS", 0, 0),
    ("group diff broker-a broker-b", 0, 0),
    ("producer list", 0, 0),
    ("producer clients PG_ORDERS", 0, 0),
    ("consumer clients", 0, 0),
    ("offset get CG_LAG", 0, 0),
    ("message get OFFSET_ID --topic OrderEvents", 0, 0),
    ("message get UNIQUE_ID --topic OrderEvents", 0, 0),
    ("message view UNIQUE_ID --topic OrderEvents", 0, 0),
    ("message find --topic OrderEvents --key K-3", 0, 0),
    ("message find --topic OrderEvents --prop seq=17", 0, 0),
    ("message find --topic OrderEvents --key nokey", 4, 4),
    ("message list --topic OrderEvents --limit 10 --tag TagA", 0, 0),
    ("message count --topic OrderEvents", 0, 0),
    ("message count --topic OrderEvents --by tag", 0, 0),
    ("message tail --topic OrderEvents --limit 5", 0, 0),
    ("message trace UNIQUE_ID --topic OrderEvents", 0, 0),
    ("message decode-id UNIQUE_ID", 0, 0),
    ("dlq list", 0, 0),
    ("dlq show CG_FAIL --limit 3", 0, 0),
    ("kv list", 0, 0),
    ("kv get NAMESPACE absent", 4, 4),
    ("user list", 12, 12),
    ("acl list", 12, 12),
    ("controller get --controller A0", 12, 12),
];

/// `key    = value` as mqadmin prints it.
fn setting(lines: &[String], key: &str) -> String {
    let line = lines
        .iter()
        .find(|line| line.split('=').next().is_some_and(|k| k.trim() == key));
    line.and_then(|line| line.split_once('='))
        .map_or("absent", |(_, value)| value.trim())
        .to_owned()
}

struct Changes<'a> {
    nodes: &'a Nodes,
    session: &'a mut Session,
    checks: &'a mut Checks,
}

impl Changes<'_> {
    fn mqadmin(&mut self, line: &str) -> Vec<String> {
        self.session
            .mqadmin(&self.nodes.namesrv, &line.split(' ').collect::<Vec<_>>())
            .out
    }

    /// Runs a change; returns its undo line.
    fn change(&mut self, line: &str) -> Result<Option<String>, String> {
        let ran = self.nodes.line(&format!("{line} --yes"));
        if ran.code != 0 {
            return Err(format!("{ran:?}"));
        }
        Ok(ran
            .out
            .lines()
            .last()
            .and_then(|l| l.strip_prefix("undo: rmq "))
            .map(str::to_owned))
    }

    /// A change, and what `read` says afterwards: tried until it is `want`, name servers take their time.
    fn verify<T: PartialEq + std::fmt::Debug>(
        &mut self,
        line: &str,
        want: &T,
        mut read: impl FnMut(&mut Self) -> T,
    ) -> Option<String> {
        let (undo, result) = match self.change(line) {
            Err(why) => (None, Err(why)),
            Ok(undo) => {
                let begin = std::time::Instant::now();
                let mut have = read(self);
                while have != *want && begin.elapsed() < Duration::from_secs(20) {
                    std::thread::sleep(Duration::from_millis(200));
                    have = read(self);
                }
                (undo, same(&have, want))
            }
        };
        self.checks.check(line, result);
        undo
    }

    /// As [`Self::verify`], and its undo line brings `before` back.
    fn undone<T: PartialEq + std::fmt::Debug>(
        &mut self,
        line: &str,
        want: &T,
        before: &T,
        mut read: impl FnMut(&mut Self) -> T,
    ) {
        let undo = self.verify(line, want, &mut read);
        let Some(undo) = undo else {
            return self
                .checks
                .check(&format!("{line}: undo"), Err("no undo line".into()));
        };
        for undo in undo.split(" && rmq ") {
            let yes = if undo.contains("--yes") { "" } else { " --yes" };
            let ran = self.nodes.line(&format!("{undo}{yes}"));
            if ran.code != 0 {
                return self
                    .checks
                    .check(&format!("{line}: undo"), Err(format!("{undo}: {ran:?}")));
            }
        }
        let begin = std::time::Instant::now();
        let mut have = read(self);
        while have != *before && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(200));
            have = read(self);
        }
        self.checks.check(&format!("{line}: undo"), same(&have, before));
    }

    /// Read and write queues and permission of a topic on both brokers, as mqadmin shows the route.
    fn route(&mut self, topic: &str) -> Vec<String> {
        let rows = text::rows(&self.mqadmin(&format!("topicRoute -l -t {topic}")));
        let mut found: Vec<String> = rows
            .iter()
            .filter(|r| r[0] == "C1")
            .map(|r| format!("{} {}", r[1], r[r.len() - 3..].join(" ")))
            .collect();
        found.sort();
        found
    }

    fn group(&mut self, group: &str) -> [String; 3] {
        let lines = self.mqadmin(&format!("getConsumerConfig -g {group}"));
        ["retryMaxTimes", "consumeEnable", "consumeFromMinEnable"].map(|key| setting(&lines, key))
    }

    /// mqadmin does not find a group without a retry topic.
    fn lag(&mut self, group: &str) -> String {
        let ran = self.nodes.line(&format!("group lag {group} -o json"));
        serde_json::from_str::<Value>(&ran.out)
            .map_or("absent".into(), |json| json["summary"]["total_lag"].to_string())
    }

    fn broker_setting(&mut self, key: &str) -> String {
        let broker = self.nodes.broker_a.clone();
        let lines = self.mqadmin(&format!("getBrokerConfig -b {broker}"));
        setting(&lines, key)
    }

    fn kv(&self, key: &str) -> Vec<String> {
        let fields = json!({ "namespace": "NAMESPACE", "key": key });
        let ask =
            |namesrv: &String| wire::ask(namesrv, 101, fields.clone()).map(|a| a.fields["value"].clone());
        let values = self.nodes.namesrvs.iter().map(|n| ask(n).unwrap_or(Value::Null));
        values.map(|v| v.as_str().unwrap_or("none").to_owned()).collect()
    }
}

fn both(rest: &str) -> Vec<String> {
    ["broker-a", "broker-b"]
        .map(|name| format!("{name} {rest}"))
        .to_vec()
}

fn words<const N: usize>(list: [&str; N]) -> [String; N] {
    list.map(str::to_owned)
}

fn topics(c: &mut Changes) {
    c.verify("topic create W1 --queues 4", &both("4 4 6"), |c| c.route("W1"));
    c.undone(
        "topic update W1 --read-queues 6",
        &both("6 4 6"),
        &both("4 4 6"),
        |c| c.route("W1"),
    );
    c.verify("topic update W1 --read-queues 6", &both("6 4 6"), |c| {
        c.route("W1")
    });
    // F1, F3: the permission and nothing else, and the queues of each broker stay its own.
    c.verify(
        "topic update W1 --write-queues 5 --broker broker-b",
        &words(["broker-a 6 4 6", "broker-b 6 5 6"]).to_vec(),
        |c| c.route("W1"),
    );
    c.undone(
        "topic update W1 --perm 4",
        &words(["broker-a 6 4 4", "broker-b 6 5 4"]).to_vec(),
        &words(["broker-a 6 4 6", "broker-b 6 5 6"]).to_vec(),
        |c| c.route("W1"),
    );
    c.undone(
        "topic stop-writes W1",
        &words(["broker-a 6 4 4", "broker-b 6 5 4"]).to_vec(),
        &words(["broker-a 6 4 6", "broker-b 6 5 6"]).to_vec(),
        |c| c.route("W1"),
    );
    let order = |c: &mut Changes| {
        c.mqadmin("updateOrderConf -t W1 -m get")
            .join("")
            .contains("broker-a:4;broker-b:5")
    };
    c.verify("topic order set W1 broker-a:4;broker-b:5", &true, order);
    c.verify("topic order unset W1", &false, order);
    c.verify("topic delete W1 --force", &Vec::new(), |c| c.route("W1"));
}

fn groups(c: &mut Changes) {
    c.verify(
        "group create WG --retry-max 5 --from-min false",
        &words(["5", "true", "false"]),
        |c| c.group("WG"),
    );
    // F2: one field and no other.
    c.undone(
        "group update WG --consume-enable false",
        &words(["5", "false", "false"]),
        &words(["5", "true", "false"]),
        |c| c.group("WG"),
    );
    c.verify("group pause WG", &words(["5", "false", "false"]), |c| {
        c.group("WG")
    });
    c.verify("group resume WG", &words(["5", "true", "false"]), |c| {
        c.group("WG")
    });
    c.verify(
        "group set-mode WG --topic OrderEvents --mode pop",
        &words(["5", "true", "false"]),
        |c| c.group("WG"),
    );
    c.verify("group clone-offsets CG_LAG WG", &"80".to_owned(), |c| c.lag("WG"));
    c.verify(
        "group skip WG --topic OrderEvents --execute",
        &"0".to_owned(),
        |c| c.lag("WG"),
    );
    c.verify(
        "group reset WG --topic OrderEvents --to earliest --execute",
        &"240".to_owned(),
        |c| c.lag("WG"),
    );
    c.verify(
        "offset set WG --topic OrderEvents broker-a/0=7",
        &"233".to_owned(),
        |c| c.lag("WG"),
    );
    c.verify("group delete WG", &words(["absent", "absent", "absent"]), |c| {
        c.group("WG")
    });
    let gone = c.nodes.line("offset get WG").code;
    c.checks.check("group delete took the offsets", same(&gone, &4));
}

fn servers(c: &mut Changes) {
    let namesrv = |c: &mut Changes| {
        let lines = c.mqadmin("getNamesrvConfig");
        let values = lines
            .iter()
            .filter(|line| line.starts_with("scanNotActiveBrokerInterval"));
        values
            .map(|line| line.rsplit('=').next().unwrap_or_default().trim().to_owned())
            .collect::<Vec<_>>()
    };
    c.undone(
        "namesrv set-config scanNotActiveBrokerInterval=6000",
        &vec!["6000".to_owned(); 2],
        &vec!["5000".to_owned(); 2],
        namesrv,
    );
    c.undone(
        "kv set NAMESPACE color red",
        &vec!["red".to_owned(); 2],
        &vec!["none".to_owned(); 2],
        |c| c.kv("color"),
    );
    c.verify("kv set NAMESPACE color blue", &vec!["blue".to_owned(); 2], |c| {
        c.kv("color")
    });
    c.verify("kv delete NAMESPACE color", &vec!["none".to_owned(); 2], |c| {
        c.kv("color")
    });
    c.undone(
        "broker set-config broker-a fileReservedTime=48",
        &"48".to_owned(),
        &"72".to_owned(),
        |c| c.broker_setting("fileReservedTime"),
    );
    let wiped = words(["broker-a 8 8 6", "broker-b 8 8 4"]).to_vec();
    c.undone("broker wipe-write broker-b", &wiped, &both("8 8 6"), |c| {
        c.route("OrderEvents")
    });
    c.verify("broker wipe-write broker-b", &wiped, |c| c.route("OrderEvents"));
    let left = c.nodes.line("cluster doctor --checks BR6 -o name");
    c.checks.check(
        "a left-over wipe is found",
        same(&(left.code, left.out.trim()), &(10, "BR6")),
    );
    c.verify("broker restore-write broker-b", &both("8 8 6"), |c| {
        c.route("OrderEvents")
    });
    c.undone(
        "broker set-permission broker-a R",
        &"4".to_owned(),
        &"6".to_owned(),
        |c| c.broker_setting("brokerPermission"),
    );
    c.verify("broker cold-flow set CG_LAG 1000", &true, |c| {
        c.mqadmin("getColdDataFlowCtrInfo -c C1")
            .join(" ")
            .contains("CG_LAG")
    });
    c.verify("broker cold-flow unset CG_LAG", &false, |c| {
        c.mqadmin("getColdDataFlowCtrInfo -c C1")
            .join(" ")
            .contains("CG_LAG")
    });
    c.verify("broker clean-unused-topics --cluster C1", &both("8 8 6"), |c| {
        c.route("OrderEvents")
    });
    c.verify("broker clean-cq --cluster C1", &both("8 8 6"), |c| {
        c.route("OrderEvents")
    });
}

fn messages(c: &mut Changes) {
    let found = |c: &mut Changes, key: &str| {
        text::rows(&c.mqadmin(&format!("queryMsgByKey -t OrderEvents -k {key}"))).len()
    };
    c.verify(
        "message send --topic OrderEvents --body hello --key CLI-1 --tag TagA",
        &1,
        |c| found(c, "CLI-1"),
    );
    let sent = c
        .nodes
        .ok("message find --topic OrderEvents --key CLI-1 -o json")
        .json();
    let id = sent["items"][0]["unique_key"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    c.verify(&format!("message resend {id} --topic OrderEvents"), &2, |c| {
        found(c, "CLI-1")
    });
    let refused = c.nodes.line("message send --topic NoSuchTopic --body x");
    c.checks
        .check("a send does not make a topic", same(&refused.code, &4));
}

/// §10.9: what is exported is applied without a difference, and exported again as it was; mqadmin's lists are read.
fn declared(c: &mut Changes, dir: &std::path::Path) {
    let path = |name: &str| dir.join(name).display().to_string();
    let (first, second) = (path("first.toml"), path("second.toml"));
    c.nodes.ok("topic create Uneven --queues 3 --yes");
    c.nodes
        .ok("topic update Uneven --queues 5 --broker broker-b --yes");
    c.nodes.ok("group create CG_DECLARED --retry-max 4 --yes");
    c.nodes.wait_for_route("Uneven", "\"perm\":6");
    c.nodes.ok(&format!("export all --out {first}"));
    let same_file = c.nodes.line(&format!("diff -f {first}"));
    c.checks
        .check("diff of what was exported", same(&same_file.code, &0));
    let applied = c.nodes.line(&format!("apply -f {first} --yes"));
    c.checks.check(
        "apply of what was exported changes nothing",
        same(&(applied.code, applied.out.contains("undo")), &(0, false)),
    );
    c.nodes.ok("topic delete Uneven --force --yes");
    c.nodes.ok("group delete CG_DECLARED --yes");
    let differs = c.nodes.line(&format!("diff -f {first}"));
    c.checks
        .check("diff when things are missing", same(&differs.code, &10));
    let applied = c.nodes.line(&format!("apply -f {first} --yes"));
    c.checks.check(
        "apply makes them again",
        if applied.code == 0 {
            Ok(())
        } else {
            Err(format!("{applied:?}"))
        },
    );
    c.nodes.ok(&format!("export all --out {second}"));
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    c.checks.check(
        "export, apply, export: the same bytes",
        same(&read(&first), &read(&second)),
    );
    for (name, command, list) in [
        (
            "topics.json",
            "updateTopicList",
            r#"[{"topicName":"Listed","readQueueNums":3,"writeQueueNums":3,"perm":6}]"#,
        ),
        (
            "groups.json",
            "updateSubGroupList",
            r#"[{"groupName":"CG_LISTED","retryMaxTimes":7}]"#,
        ),
    ] {
        let file = path(name);
        std::fs::write(&file, list).expect("a file");
        let ran = c
            .nodes
            .line(&format!("mqadmin --no-hint {command} -c C1 -f {file}"));
        c.checks.check(
            command,
            if ran.code == 0 {
                Ok(())
            } else {
                Err(format!("{ran:?}"))
            },
        );
    }
    let begin = std::time::Instant::now();
    while c.route("Listed") != both("3 3 6") && begin.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(200));
    }
    let route = c.route("Listed");
    c.checks
        .check("updateTopicList made the topic", same(&route, &both("3 3 6")));
    let retries = c.group("CG_LISTED")[0].clone();
    c.checks.check(
        "updateSubGroupList made the group",
        same(&retries, &"7".to_owned()),
    );
}

fn reads(checks: &mut Checks, nodes: &Nodes, unique: &str, offset_id: &str) {
    for &(line, java, ours) in READS {
        let want = if nodes.kind == Kind::Java { java } else { ours };
        let addressed = line
            .replace("A0", &nodes.broker_a)
            .replace("UNIQUE_ID", unique)
            .replace("OFFSET_ID", offset_id);
        let ran = nodes.line(&format!("{addressed} -o json"));
        let parsed = serde_json::from_str::<Value>(&ran.out);
        let result = if ran.code != want {
            Err(format!("{ran:?}"))
        } else if ran.code == 0
            && parsed
                .as_ref()
                .map_or(true, |json| json["kind"].as_str().is_none())
        {
            Err(format!("no document: {ran:?}"))
        } else if !ran.out.is_empty() && parsed.is_err() {
            Err(format!("not JSON: {ran:?}"))
        } else {
            Ok(())
        };
        checks.check(line, result);
    }
}

fn commands(test: &str, kind: Kind) {
    let Some(peers) = java::peers(test) else { return };
    let dir = scratch();
    let mut session = Session::start(peers, dir.path());
    let nodes = Nodes::start(kind, peers, dir.path(), &[]);
    let (orders, unique, offset_id) = state(&nodes, peers, &mut session, &dir.path().join("orders"));
    let mut checks = Checks::new(test);
    reads(&mut checks, &nodes, &unique, &offset_id);
    let mut changes = Changes {
        nodes: &nodes,
        session: &mut session,
        checks: &mut checks,
    };
    topics(&mut changes);
    groups(&mut changes);
    servers(&mut changes);
    messages(&mut changes);
    declared(&mut changes, dir.path());
    orders.end();
    checks.end();
}

#[test]
#[ignore = "a minute: cargo test --test it acceptance -- --ignored"]
fn commands_on_our_cluster() {
    commands("commands_on_our_cluster", Kind::Ours);
}

#[test]
#[ignore = "starts five Java servers: cargo test --test it acceptance -- --ignored"]
fn commands_on_javas_cluster() {
    commands("commands_on_javas_cluster", Kind::Java);
}
