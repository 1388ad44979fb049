//! Static topics on Java's cluster: what `rmq` makes, mqadmin and Java's clients go by, and the other way round; queues move
//! under messages, and nothing is lost.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::{Checks, same};
use crate::support::nodes::{Kind, Nodes};
use crate::support::session::Session;
use crate::support::{java, scratch, text};

const LOGICAL: &str = "__syslo__global__";

/// Queue, first offset, end.
type Ranges = Vec<(i64, i64, i64)>;

struct Bench<'a> {
    nodes: &'a Nodes,
    session: &'a mut Session,
    checks: &'a mut Checks,
}

impl Bench<'_> {
    fn items(&self, line: &str) -> Vec<Value> {
        let ran = self.nodes.line(&format!("{line} -o json"));
        serde_json::from_str::<Value>(&ran.out)
            .ok()
            .and_then(|json| json["items"].as_array().cloned())
            .unwrap_or_default()
    }

    /// The leader and logical offset of each queue, as `rmq static-topic get` has them.
    fn leaders(&self, topic: &str) -> BTreeMap<i64, (String, i64)> {
        self.items(&format!("static-topic get {topic}"))
            .iter()
            .map(|row| {
                let leader = row["broker"].as_str().unwrap_or_default().to_owned();
                (
                    row["queue"].as_i64().unwrap_or(-1),
                    (leader, row["logic_offset"].as_i64().unwrap_or(-1)),
                )
            })
            .collect()
    }

    fn load(&self, topic: &str) -> BTreeMap<String, usize> {
        let mut load = BTreeMap::new();
        for (leader, _) in self.leaders(topic).into_values() {
            *load.entry(leader).or_default() += 1;
        }
        load
    }

    fn ours(&self, topic: &str) -> Ranges {
        let number = |row: &Value, key: &str| row[key].as_i64().unwrap_or(-1);
        let rows = self.items(&format!("topic status {topic}"));
        let mut found: Ranges = rows
            .iter()
            .filter(|row| row["broker"] == LOGICAL)
            .map(|row| (number(row, "queue"), number(row, "min"), number(row, "max")))
            .collect();
        found.sort_unstable();
        found
    }

    fn mqadmin(&mut self, words: &[&str]) -> Vec<String> {
        self.session.mqadmin(&self.nodes.namesrv, words).ok().out
    }

    fn javas(&mut self, topic: &str) -> Ranges {
        let rows = text::rows(&self.mqadmin(&["topicStatus", "-t", topic]));
        let number = |word: &String| word.parse().unwrap_or(-1);
        let mut found: Ranges = rows
            .iter()
            .filter(|row| row[0] == LOGICAL)
            .map(|row| (number(&row[1]), number(&row[2]), number(&row[3])))
            .collect();
        found.sort_unstable();
        found
    }

    /// stock mqadmin and `rmq topic status` tell the same numbers.
    fn same_status(&mut self, what: &str, topic: &str, queues: usize) {
        let (ours, javas) = (self.ours(topic), self.javas(topic));
        let wrong = same(&ours, &javas).and_then(|()| same(&ours.len(), &queues));
        self.checks
            .check(&format!("{what}: topicStatus has the same numbers"), wrong);
    }

    /// Runs a change; its undo line.
    fn change(&mut self, line: &str) -> Option<String> {
        let ran = self.nodes.line(&format!("{line} --yes"));
        let wrong = if ran.code == 0 {
            Ok(())
        } else {
            Err(format!("{ran:?}"))
        };
        self.checks.check(line, wrong);
        let last = ran.out.lines().last()?;
        last.strip_prefix("undo: rmq ").map(str::to_owned)
    }

    fn leads(&mut self, what: &str, topic: &str, wanted: &[(&str, usize)]) {
        let wanted: BTreeMap<String, usize> = wanted.iter().map(|(b, n)| ((*b).to_owned(), *n)).collect();
        let wrong = same(&self.load(topic), &wanted);
        self.checks.check(what, wrong);
    }

    fn send(&mut self, topic: &str, count: usize, first: usize) {
        let first = format!("first={first}");
        self.session.send(&self.nodes.namesrv, topic, count, &[&first]);
    }

    /// Keys of what a group receives.
    fn receive(&mut self, topic: &str, group: &str, count: usize) -> BTreeSet<String> {
        let lines = self
            .session
            .receive(&self.nodes.namesrv, topic, group, count, &["linger=500"]);
        lines.iter().map(|line| line[2].clone()).collect()
    }

    fn lag(&self, group: &str, topic: &str) -> Option<i64> {
        let ran = self
            .nodes
            .line(&format!("group lag {group} --topic {topic} -o json"));
        let json: Value = serde_json::from_str(&ran.out).ok()?;
        let logical = json["items"]
            .as_array()?
            .iter()
            .all(|row| row["broker"] == LOGICAL);
        logical.then(|| json["summary"]["total_lag"].as_i64())?
    }

    fn lags(&mut self, what: &str, group: &str, topic: &str, wanted: i64) {
        let begin = Instant::now();
        while self.lag(group, topic) != Some(wanted) && begin.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(200));
        }
        let wrong = same(&self.lag(group, topic), &Some(wanted));
        self.checks.check(what, wrong);
    }
}

fn seqs(range: std::ops::Range<usize>) -> BTreeSet<String> {
    range.map(|i| format!("K-{i} shared-{}", i % 10)).collect()
}

/// The file that mqadmin's last change of a topic left in the JVM's temporary directory.
fn mqadmins_file(dir: &std::path::Path, topic: &str, suffix: &str) -> Option<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.join("tmp"))
        .ok()?
        .filter_map(|entry| Some(entry.ok()?.path().display().to_string()))
        .filter(|path| path.contains(&format!("/{topic}-")) && path.ends_with(suffix))
        .collect();
    names.sort();
    names.pop()
}

#[test]
#[ignore = "starts five Java servers: cargo test --test it acceptance -- --ignored"]
fn static_topics_move_on_javas_cluster() {
    let test = "static_topics_move_on_javas_cluster";
    let Some(peers) = java::peers(test) else { return };
    let dir = scratch();
    let mut session = Session::start(peers, dir.path());
    let nodes = Nodes::start(Kind::Java, peers, dir.path(), &[]);
    let mut checks = Checks::new(test);
    let mut b = Bench {
        nodes: &nodes,
        session: &mut session,
        checks: &mut checks,
    };

    // Made by rmq.
    b.change("static-topic create Ledger --queues 5");
    b.leads("queues are spread", "Ledger", &[("broker-a", 3), ("broker-b", 2)]);
    b.same_status("a new topic", "Ledger", 5);
    let again = nodes.line("static-topic create Ledger --queues 5 --yes").code;
    b.checks.check("a second create is refused", same(&again, &9));
    let fewer = nodes.line("static-topic update Ledger --queues 4 --yes").code;
    b.checks.check("fewer queues are refused", same(&fewer, &9));
    let code = nodes.line("static-topic get OrderEvents").code;
    b.checks.check("a topic that is not there", same(&code, &4));
    b.change("static-topic update Ledger --queues 6");
    b.leads("one more queue", "Ledger", &[("broker-a", 3), ("broker-b", 3)]);

    // Java's clients go by it.
    b.session
        .mqadmin(&nodes.namesrv, &["updateSubGroup", "-c", "C1", "-g", "CG_LEDGER"])
        .ok();
    b.send("Ledger", 60, 0);
    b.same_status("messages", "Ledger", 6);
    let got = b.receive("Ledger", "CG_LEDGER", 60);
    b.checks.check("all is consumed", same(&got, &seqs(0..60)));
    b.lags("nothing is behind", "CG_LEDGER", "Ledger", 0);

    // Moved by rmq, between messages.
    b.send("Ledger", 30, 60);
    b.lags("30 are behind", "CG_LEDGER", "Ledger", 30);
    let undo = b.change("static-topic remap Ledger --broker broker-b");
    b.leads("all queues moved", "Ledger", &[("broker-b", 6)]);
    let blocks: BTreeSet<i64> = b
        .leaders("Ledger")
        .into_values()
        .map(|(_, begins)| begins)
        .collect();
    b.checks.check(
        "moved queues begin on a block",
        same(&blocks, &[0, 10_000].into()),
    );
    b.same_status("after a remap", "Ledger", 6);
    b.lags("still 30 are behind", "CG_LEDGER", "Ledger", 30);
    b.send("Ledger", 30, 90);
    b.same_status("messages after a remap", "Ledger", 6);
    b.lags("60 are behind", "CG_LEDGER", "Ledger", 60);
    let got = b.receive("Ledger", "CG_LEDGER", 60);
    b.checks.check("the rest is consumed", same(&got, &seqs(60..120)));
    b.lags("nothing is behind after a remap", "CG_LEDGER", "Ledger", 0);

    // Moved by mqadmin, on top.
    b.mqadmin(&["remappingStaticTopic", "-t", "Ledger", "-b", "broker-a"]);
    b.leads("moved by mqadmin", "Ledger", &[("broker-a", 6)]);
    b.same_status("after mqadmin's remap", "Ledger", 6);
    b.send("Ledger", 30, 120);
    b.lags("30 are behind after mqadmin's remap", "CG_LEDGER", "Ledger", 30);
    b.change("static-topic remap Ledger");
    b.leads("shared again", "Ledger", &[("broker-a", 3), ("broker-b", 3)]);
    b.send("Ledger", 30, 150);
    b.same_status("after four moves", "Ledger", 6);
    let got = b.receive("Ledger", "CG_LEDGER", 60);
    b.checks.check("and consumed", same(&got, &seqs(120..180)));
    let got = b.receive("Ledger", "CG_NEW", 180);
    b.checks.check(
        "a new group reads everything ever sent",
        same(&got, &seqs(0..180)),
    );

    // A way back that is too old is refused.
    let code = undo.map(|undo| nodes.line(&format!("{undo} --yes")).code);
    b.checks
        .check("an undo of an older state is refused", same(&code, &Some(9)));

    // Made by mqadmin, read and enlarged by rmq; its files are read.
    b.mqadmin(&["updateStaticTopic", "-t", "MqMade", "-qn", "4", "-c", "C1"]);
    b.leads("made by mqadmin", "MqMade", &[("broker-a", 2), ("broker-b", 2)]);
    let file = mqadmins_file(dir.path(), "MqMade", ".after").unwrap_or_default();
    let ran = nodes.line(&format!("static-topic update MqMade --map-file {file} --yes"));
    let nothing = ran.code == 0 && ran.err.contains("nothing to change");
    b.checks.check(
        "mqadmin's file is what is there",
        if nothing { Ok(()) } else { Err(format!("{ran:?}")) },
    );
    b.change("static-topic update MqMade --queues 6");
    b.leads("enlarged by rmq", "MqMade", &[("broker-a", 3), ("broker-b", 3)]);
    b.mqadmin(&["updateStaticTopic", "-t", "MqMade", "-qn", "8", "-c", "C1"]);
    b.leads(
        "enlarged by mqadmin",
        "MqMade",
        &[("broker-a", 4), ("broker-b", 4)],
    );
    let ran = nodes.line("--yes mqadmin --no-hint remappingStaticTopic -t MqMade -b broker-b");
    b.checks.check("the bridge", same(&ran.code, &0));
    b.leads("moved by the bridge", "MqMade", &[("broker-b", 8)]);
    let undo = ran.out.lines().last().and_then(|l| l.strip_prefix("undo: rmq "));
    let ran = undo.map(|undo| nodes.line(&format!("{undo} --yes")));
    let code = ran.as_ref().map(|ran| ran.code);
    b.checks.check("undo of a remap", same(&code, &Some(0)));
    b.leads(
        "as before the remap",
        "MqMade",
        &[("broker-a", 4), ("broker-b", 4)],
    );
    b.send("MqMade", 16, 0);
    let got = b.receive("MqMade", "CG_NEW", 16);
    b.checks.check("and usable", same(&got, &seqs(0..16)));
    checks.end();
}
