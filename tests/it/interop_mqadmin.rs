//! Stock `mqadmin` 5.3.3 prints the same numbers against our cluster as against Java's, for the same traffic.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::support::java::Cluster;
use crate::support::ports::Block;
use crate::support::session::{Reply, Session};
use crate::support::{java, local, rmq, scratch, text, wait, wire};

type Table = Vec<Vec<String>>;

/// What a cluster printed, by the command: times, rates, ids and addresses left out.
#[derive(Default)]
struct Numbers(BTreeMap<String, Table>);

impl Numbers {
    fn add(&mut self, what: &str, table: Table) {
        assert!(self.0.insert(what.to_owned(), table).is_none(), "{what} twice");
    }

    fn add_lines(&mut self, what: &str, lines: impl IntoIterator<Item = String>) {
        self.add(what, lines.into_iter().map(|line| vec![line]).collect());
    }
}

struct Side<'a> {
    session: &'a mut Session,
    namesrv: String,
    broker: String,
    numbers: Numbers,
}

impl<'a> Side<'a> {
    fn new(session: &'a mut Session, ports: &Block) -> Side<'a> {
        Side {
            session,
            namesrv: local(ports.namesrv()),
            broker: local(ports.broker()),
            numbers: Numbers::default(),
        }
    }

    fn mqadmin(&mut self, words: &[&str]) -> Reply {
        self.session.mqadmin(&self.namesrv, words)
    }

    fn wait(&self, topic: &str, text: &str) {
        wire::wait_for_route(&self.namesrv, topic, text);
    }

    fn begin_group(&mut self, group: &str, topic: &str) {
        self.session
            .begin_group(&self.namesrv, &self.broker, group, topic);
    }

    /// Waits until a group has so many messages to read and none in flight: a consumer that stops does not wait for the
    /// broker to take its offsets, and the broker has an acknowledged message in the log before it is in the queue.
    fn wait_for_lag(&mut self, group: &str, lag: &str) {
        let what = format!("{group} lags {lag}");
        wait::until_true(&what, Duration::from_secs(30), || {
            let reply = self.mqadmin(&["consumerProgress", "-g", group]);
            let total = |key: &str| text::value(&reply.out, key);
            total("Consume Diff Total") == Some(lag) && total("Consume Inflight Total") == Some("0")
        });
    }

    /// The lines of a command with this side's broker address under a common name.
    fn lines(&self, reply: &Reply) -> Vec<String> {
        reply
            .out
            .iter()
            .map(|line| line.trim_end().replace(&self.broker, "BROKER"))
            .filter(|line| !line.is_empty())
            .collect()
    }

    fn same_text(&mut self, what: &str, words: &[&str]) {
        let reply = self.mqadmin(words).ok();
        let lines = self.lines(&reply);
        self.numbers.add_lines(what, lines);
    }

    fn same_columns(&mut self, what: &str, words: &[&str], which: &[usize]) -> Reply {
        let reply = self.mqadmin(words).ok();
        let mut rows = text::rows(&self.lines(&reply));
        rows.retain(|row| !row.iter().any(|word| word == "TPS:"));
        self.numbers.add(what, text::columns(&rows, which));
        reply
    }

    /// The code that a failing command names in its stack trace.
    fn same_failure(&mut self, what: &str, words: &[&str]) {
        let reply = self.mqadmin(words);
        let all = reply.everything();
        let code = all
            .split("CODE: ")
            .nth(1)
            .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
        self.numbers.add(what, vec![vec![code.unwrap_or(all)]]);
    }
}

fn traffic(mut side: Side) -> BTreeMap<String, Table> {
    let side = &mut side;
    let broker = side.broker.clone();
    side.same_text(
        "updateTopic Orders",
        &["updateTopic", "-b", &broker, "-t", "Orders", "-r", "8", "-w", "8"],
    );
    let namesrv = side.namesrv.clone();
    side.wait("Orders", "\"writeQueueNums\":8");
    let sent = side.session.send(&namesrv, "Orders", 80, &[]);
    side.begin_group("CG_ORDERS", "Orders");
    let received = side.session.receive(&namesrv, "Orders", "CG_ORDERS", 80, &[]);
    side.numbers
        .add("received", text::columns(&received, &[0, 1, 2, 3, 4, 5]));
    let more = side.session.send(&namesrv, "Orders", 16, &["first=80"]);
    let all: Table = sent.iter().chain(&more).cloned().collect();
    side.numbers.add("acks", text::columns(&all, &[0, 1, 4, 5]));
    side.wait_for_lag("CG_ORDERS", "16");

    listings(side);
    queries(side, &sent[5]);
    changes(side);
    servers(side);
    std::mem::take(&mut side.numbers.0)
}

fn listings(side: &mut Side) {
    let clusters = side.same_columns("clusterList", &["clusterList"], &[0, 1, 2, 3, 4]);
    let activated: Table = text::rows(&clusters.out)
        .iter()
        .map(|row| row.last().cloned().into_iter().collect())
        .collect();
    side.numbers.add("clusterList activated", activated);
    side.same_columns("clusterList -m", &["clusterList", "-m"], &[0, 1]);
    let topics = side.mqadmin(&["topicList"]).ok();
    let names: BTreeSet<String> = topics.out.iter().map(|line| line.trim().to_owned()).collect();
    side.numbers.add_lines("topicList", names);
    // Java names a topic itself as one of its groups once somebody subscribed to it; ours does not.
    let owned = side.mqadmin(&["topicList", "-c"]).ok();
    let owned: Table = text::rows(&owned.out)
        .into_iter()
        .filter(|row| row.get(1) != row.get(2))
        .collect();
    side.numbers
        .add("topicList -c", text::columns(&owned, &[0, 1, 2]));
    side.same_text("topicClusterList", &["topicClusterList", "-t", "Orders"]);
    for topic in [
        "Orders",
        "%RETRY%CG_ORDERS",
        "TBW102",
        "SELF_TEST_TOPIC",
        "SCHEDULE_TOPIC_XXXX",
        "BenchmarkTest",
    ] {
        side.same_text(&format!("topicRoute {topic}"), &["topicRoute", "-t", topic]);
    }
    side.same_columns(
        "topicRoute -l",
        &["topicRoute", "-l", "-t", "Orders"],
        &[0, 1, 2, 3, 4, 5],
    );
    side.same_columns("topicStatus", &["topicStatus", "-t", "Orders"], &[0, 1, 2, 3]);
    side.same_columns(
        "topicStatus %RETRY%",
        &["topicStatus", "-t", "%RETRY%CG_ORDERS"],
        &[0, 1, 2, 3],
    );

    let all_groups = side.mqadmin(&["consumerProgress"]).ok();
    let rows: Table = text::rows(&all_groups.out)
        .iter()
        .map(|row| [&row[..3], &row[row.len() - 1..]].concat())
        .collect();
    side.numbers
        .add("consumerProgress", text::columns(&rows, &[0, 1, 2, 3]));
    let group = side.same_columns(
        "consumerProgress -g",
        &["consumerProgress", "-g", "CG_ORDERS"],
        &[0, 1, 2, 3, 4, 5, 6],
    );
    let totals: Vec<String> = ["Consume Diff Total", "Consume Inflight Total"]
        .iter()
        .map(|key| text::value(&group.out, key).unwrap_or("absent").to_owned())
        .collect();
    assert_eq!(totals, ["16", "0"], "{group:#?}");
    side.numbers.add("consumerProgress -g totals", vec![totals]);

    let broker = side.broker.clone();
    let status = side.mqadmin(&["brokerStatus", "-b", &broker]).ok();
    let names: BTreeSet<String> = status
        .out
        .iter()
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned()))
        .map(|name| name.split('/').next().unwrap_or_default().to_owned()) // a directory of this side
        .filter(|name| !name.starts_with("rmq")) // what ours has to say beyond Java's
        .collect();
    side.numbers.add_lines("brokerStatus keys", names);
    let values = [
        "brokerVersion",
        "brokerVersionDesc",
        "brokerActive",
        "commitLogMinOffset",
        "putMessageFailedTimes",
        "msgPutTotalTodayMorning",
        "msgPutTotalYesterdayMorning",
        "dispatchBehindBytes",
    ];
    let values = values.iter().map(|key| {
        vec![
            (*key).to_owned(),
            text::value(&status.out, key).unwrap_or("absent").to_owned(),
        ]
    });
    side.numbers.add("brokerStatus values", values.collect());
    let put: u64 = text::value(&status.out, "msgPutTotalTodayNow")
        .and_then(|v| v.parse().ok())
        .unwrap_or(0);
    // 96 of ours; Java counts messages of its own too.
    assert!((96..140).contains(&put), "{status:#?}");
}

/// `sent`: the line of message 5.
fn queries(side: &mut Side, sent: &[String]) {
    for key in ["K-5", "K-95", "shared-5"] {
        side.same_columns(
            &format!("queryMsgByKey {key}"),
            &["queryMsgByKey", "-t", "Orders", "-k", key],
            &[1, 2],
        );
    }
    side.same_failure(
        "queryMsgByKey absent",
        &["queryMsgByKey", "-t", "Orders", "-k", "absent"],
    );
    let (unique, offset_id) = (sent[2].clone(), sent[3].clone());
    let by_id = side
        .mqadmin(&["queryMsgById", "-t", "Orders", "-i", &offset_id])
        .ok();
    let by_key = side
        .mqadmin(&["queryMsgByUniqueKey", "-t", "Orders", "-i", &unique])
        .ok();
    let by_offset = side
        .mqadmin(&[
            "queryMsgByOffset",
            "-t",
            "Orders",
            "-b",
            "broker-a",
            "-i",
            "5",
            "-o",
            "0",
        ])
        .ok();
    for (what, reply) in [
        ("queryMsgById", &by_id),
        ("queryMsgByUniqueKey", &by_key),
        ("queryMsgByOffset", &by_offset),
    ] {
        let fields = [
            "Topic",
            "Tags",
            "Keys",
            "Queue ID",
            "Queue Offset",
            "Reconsume Times",
            "System Flag",
        ];
        let fields = fields.iter().map(|key| {
            vec![
                (*key).to_owned(),
                text::value(&reply.out, key).unwrap_or("absent").to_owned(),
            ]
        });
        side.numbers.add(what, fields.collect());
        let properties = text::value(&reply.out, "Properties")
            .unwrap_or_default()
            .trim_matches(['{', '}']);
        let properties: BTreeSet<String> = properties
            .split(", ")
            .map(|pair| {
                if pair.starts_with("UNIQ_KEY=") {
                    "UNIQ_KEY".into()
                } else {
                    pair.to_owned()
                }
            })
            .collect();
        side.numbers.add_lines(&format!("{what} properties"), properties);
    }
    assert!(
        by_id
            .text()
            .contains("consumerGroup=CG_ORDERS, trackType=NOT_ONLINE"),
        "{by_id:#?}"
    );
    side.same_failure(
        "queryMsgById of no record",
        &[
            "queryMsgById",
            "-t",
            "Orders",
            "-i",
            &format!("{}FFFFF", &offset_id[..27]),
        ],
    );
}

/// Commands on servers that print the same whoever answers: they name codes and texts, no numbers of traffic.
fn servers(side: &mut Side) {
    let broker = side.broker.clone();
    for words in [
        "updateColdDataFlowCtrGroupConfig -c DefaultCluster -g CG_LAG -v 1000",
        "getColdDataFlowCtrInfo -c DefaultCluster",
        "removeColdDataFlowCtrGroupConfig -c DefaultCluster -g CG_LAG",
        "getColdDataFlowCtrInfo -b BROKER",
        "setCommitLogReadAheadMode -b BROKER -m 0",
        "resetMasterFlushOffset -b BROKER -o 0",
    ] {
        let line = words.replace("BROKER", &broker);
        side.same_text(words, &line.split(' ').collect::<Vec<_>>());
    }
    for words in [
        "getBrokerEpoch -c DefaultCluster",
        "addBroker -c BROKER -b /x.conf",
        "getControllerMetaData -a BROKER",
    ] {
        let line = words.replace("BROKER", &broker);
        side.same_failure(words, &line.split(' ').collect::<Vec<_>>());
    }
}

fn changes(side: &mut Side) {
    let broker = side.broker.clone();
    side.same_text(
        "updateTopicPerm 4",
        &["updateTopicPerm", "-b", &broker, "-t", "Orders", "-p", "4"],
    );
    side.wait("Orders", "\"perm\":4");
    side.same_text("topicRoute with perm 4", &["topicRoute", "-t", "Orders"]);
    side.same_text(
        "updateTopicPerm -c 6",
        &[
            "updateTopicPerm",
            "-c",
            "DefaultCluster",
            "-t",
            "Orders",
            "-p",
            "6",
        ],
    );
    side.wait("Orders", "\"perm\":6");
    side.same_text("topicRoute with perm 6", &["topicRoute", "-t", "Orders"]);
    side.same_failure(
        "updateTopicPerm absent",
        &["updateTopicPerm", "-b", &broker, "-t", "Absent", "-p", "6"],
    );
    side.same_text(
        "updateTopic T2",
        &[
            "updateTopic",
            "-c",
            "DefaultCluster",
            "-t",
            "T2",
            "-r",
            "4",
            "-w",
            "2",
            "-p",
            "6",
        ],
    );
    side.wait("T2", "\"writeQueueNums\":2");
    side.same_text("topicRoute T2", &["topicRoute", "-t", "T2"]);
    side.same_text(
        "updateTopic T2 smaller",
        &[
            "updateTopic",
            "-b",
            &broker,
            "-t",
            "T2",
            "-r",
            "2",
            "-w",
            "1",
            "-p",
            "4",
        ],
    );
    side.wait("T2", "\"writeQueueNums\":1");
    side.same_text("topicRoute T2 smaller", &["topicRoute", "-t", "T2"]);
    side.same_failure("updateTopic a/b", &["updateTopic", "-b", &broker, "-t", "a/b"]);
    side.same_failure("topicStatus absent", &["topicStatus", "-t", "Absent"]);
    side.same_failure(
        "consumerProgress absent",
        &["consumerProgress", "-g", "CG_ABSENT"],
    );
    side.same_text(
        "deleteTopic",
        &["deleteTopic", "-c", "DefaultCluster", "-t", "T2"],
    );
    side.same_failure("topicRoute deleted", &["topicRoute", "-t", "T2"]);
    let made = side
        .mqadmin(&[
            "updateSubGroup",
            "-c",
            "DefaultCluster",
            "-g",
            "CG_NEW",
            "-r",
            "2",
            "-q",
            "3",
        ])
        .ok();
    assert!(made.text().contains("success"), "{made:#?}");
    let deleted = side
        .mqadmin(&["deleteSubGroup", "-c", "DefaultCluster", "-g", "CG_NEW"])
        .ok();
    assert!(deleted.text().contains("success"), "{deleted:#?}");
    side.same_text(
        "updateBrokerConfig",
        &[
            "updateBrokerConfig",
            "-b",
            &broker,
            "-k",
            "autoCreateTopicEnable",
            "-v",
            "false",
        ],
    );
    let config = side.mqadmin(&["getBrokerConfig", "-b", &broker]).ok();
    let value = |key: &str| {
        let line = config
            .out
            .iter()
            .find(|line| line.split_whitespace().next() == Some(key));
        line.and_then(|line| line.split_whitespace().last())
            .unwrap_or("absent")
            .to_owned()
    };
    let keys = [
        "autoCreateTopicEnable",
        "brokerName",
        "brokerPermission",
        "flushDiskType",
        "fileReservedTime",
        "maxMessageSize",
    ];
    side.numbers.add(
        "getBrokerConfig",
        keys.iter()
            .map(|key| vec![(*key).to_owned(), value(key)])
            .collect(),
    );
}

#[test]
fn mqadmin_prints_the_same_numbers() {
    let Some(peers) = java::peers("mqadmin_prints_the_same_numbers") else {
        return;
    };
    let (java_dir, our_dir, java_ports, our_ports) = (scratch(), scratch(), Block::take(), Block::take());
    let (javas, ours) = std::thread::scope(|scope| {
        let javas = scope.spawn(|| {
            let mut session = Session::start(peers, java_dir.path());
            let _cluster = Cluster::start(peers, java_dir.path(), &java_ports);
            traffic(Side::new(&mut session, &java_ports))
        });
        let mut session = Session::start(peers, our_dir.path());
        let name = ["brokerName=broker-a".to_owned()];
        let _ours = rmq::standalone(our_dir.path(), our_ports.namesrv(), our_ports.broker(), &name);
        let ours = traffic(Side::new(&mut session, &our_ports));
        (javas.join().expect("Java's side"), ours)
    });
    let mut differences = String::new();
    for (what, java) in &javas {
        let our = &ours[what];
        if our != java {
            differences += &format!("\n{what}\n");
            for row in java.iter().filter(|row| !our.contains(row)) {
                differences += &format!("  java: {}\n", row.join(" "));
            }
            for row in our.iter().filter(|row| !java.contains(row)) {
                differences += &format!("  ours: {}\n", row.join(" "));
            }
        }
    }
    assert!(differences.is_empty(), "{differences}");
}
