//! The numbers of mqadmin's reference values: `rmq mqadmin LINE` prints them on either cluster, and stock mqadmin prints
//! them about ours.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{Checks, same};
use crate::support::java::Peers;
use crate::support::nodes::{Kind, Nodes, Program};
use crate::support::session::Session;
use crate::support::{java, scratch, text, wait};

pub type Table = Vec<Vec<String>>;

const COMMANDS: &[(&str, &str)] = &[
    // First: what a broker counted stays in its newest window for a minute, in Java's too.
    ("034", "statsAll"),
    ("035", "statsAll -t OrderEvents"),
    ("001", "clusterList"),
    ("002", "clusterList -m"),
    ("003", "topicList"),
    ("004", "topicList -c"),
    ("005", "topicRoute -t OrderEvents"),
    ("006", "topicRoute -t OrderEvents -l"),
    ("007", "topicStatus -t OrderEvents"),
    ("008", "topicClusterList -t OrderEvents"),
    ("009", "brokerStatus -b A0"),
    ("011", "getBrokerConfig -b A0"),
    ("012", "getNamesrvConfig"),
    ("013", "haStatus -c C1"),
    ("014", "brokerConsumeStats -b A0"),
    ("015", "producerConnection -g PG_ORDERS -t OrderEvents"),
    ("016", "consumerConnection -g CG_ORDERS"),
    ("017", "producer -b A0"),
    ("018", "consumerProgress"),
    ("019", "consumerProgress -g CG_LAG"),
    ("020", "consumerProgress -g CG_ORDERS -s true"),
    ("021", "consumerProgress -g CG_LAG -t OrderEvents"),
    ("022", "consumerStatus -g CG_ORDERS"),
    ("023", "getConsumerConfig -g CG_ORDERS"),
    ("024", "queryMsgById -t OrderEvents -i OFFSET_ID"),
    ("025", "queryMsgByUniqueKey -t OrderEvents -i UNIQUE_ID"),
    ("026", "queryMsgByKey -t OrderEvents -k K-3"),
    ("027", "queryMsgByOffset -t OrderEvents -b broker-a -i 0 -o 0"),
    ("028", "queryMsgTraceById -i UNIQUE_ID"),
    ("031", "queryCq -t OrderEvents -q 0 -i 0 -c 5 -b A0"),
    ("036", "allocateMQ -t OrderEvents -i 10.0.0.1,10.0.0.2,10.0.0.3"),
];

pub fn sorted(mut table: Table) -> Table {
    table.sort();
    table
}

/// The part of a client id after the address.
pub fn instance(id: &str) -> String {
    id.rsplit('@').next().unwrap_or_default().to_owned()
}

fn keyed(lines: &[String], keys: &[&str]) -> Table {
    let value = |key: &&str| {
        let value = text::value(lines, key).unwrap_or("absent");
        vec![(*key).to_owned(), value.trim_matches(['[', ']']).to_owned()]
    };
    keys.iter().map(value).collect()
}

/// `key = value` lines, the ones that name a place or a version of the file format left out.
fn settings(lines: &[String]) -> Table {
    let pairs = lines.iter().filter_map(|line| line.split_once('='));
    let pairs = pairs.map(|(key, value)| vec![key.trim().to_owned(), value.trim().to_owned()]);
    sorted(pairs.filter(|row| !row[0].is_empty()).collect())
}

const MESSAGE: &[&str] = &[
    "Tags",
    "Keys",
    "Queue ID",
    "Queue Offset",
    "Reconsume Times",
    "System Flag",
];

/// The groups that read a message, those that are online.
fn tracks(all: &str) -> Table {
    let mut found = Table::new();
    for part in all.split("consumerGroup=").skip(1) {
        let group = part.split(',').next().unwrap_or_default();
        if part.contains("trackType=CONSUMED,") {
            found.push(vec![group.to_owned(), "CONSUMED".to_owned()]);
        }
    }
    sorted(found)
}

const STATUS: &[&str] = &[
    "brokerActive",
    "brokerVersion",
    "brokerVersionDesc",
    "commitLogMinOffset",
    "dispatchBehindBytes",
    "msgPutTotalTodayNow",
    "msgPutTotalTodayMorning",
    "putMessageFailedTimes",
    "scheduleMessageOffset_1",
];

/// What an output of mqadmin says in numbers; addresses are names by now.
pub fn of_mqadmin(file: &str, lines: &[String]) -> Table {
    let all = lines.join("\n");
    let words = text::rows(lines);
    match file {
        "001" => {
            let active = |row: &Vec<String>| row.last().cloned().unwrap_or_default();
            sorted(words.iter().map(|r| [&r[..5], &[active(r)]].concat()).collect())
        }
        // What went out counts what a rebalance gave out twice.
        "002" => text::columns(&words, &[0, 1, 2, 4]),
        "003" => sorted(words),
        "004" => {
            // A topic is no group of its own (F17).
            let used = words.into_iter().filter(|row| row.len() == 3 && row[1] != row[2]);
            text::columns(&used.collect::<Table>(), &[1, 2])
        }
        "005" => {
            let value = |line: &String| {
                let line = line.trim().trim_end_matches(',');
                let (key, value) = line.split_once(':')?;
                Some((
                    key.trim_matches('"').to_owned(),
                    value.trim_matches('"').to_owned(),
                ))
            };
            let (mut found, mut row) = (Table::new(), Vec::new());
            for (key, value) in all[all.find("queueDatas").unwrap_or_default()..]
                .lines()
                .map(str::to_owned)
                .filter_map(|l| value(&l))
            {
                if ["brokerName", "perm", "readQueueNums", "writeQueueNums"].contains(&key.as_str()) {
                    row.push(value);
                }
                if row.len() == 4 {
                    found.push(std::mem::take(&mut row));
                }
            }
            sorted(found)
        }
        "006" => {
            let of_brokers = words.iter().filter(|row| row[0] == "C1");
            let wanted = of_brokers.map(|r| [&r[..2], &r[r.len() - 3..]].concat());
            sorted(wanted.collect())
        }
        "007" => {
            let of_queues = words.into_iter().filter(|row| row[0].starts_with("broker-"));
            text::columns(&of_queues.collect::<Table>(), &[0, 1, 2, 3])
        }
        "009" => keyed(lines, STATUS),
        "011" | "012" => settings(lines),
        "013" => {
            let mut found = Table::new();
            for line in lines {
                match line.split_once('\t') {
                    Some(("#MasterAddr", addr)) => found.push(vec![addr.trim().to_owned()]),
                    Some(("#SlaveNum" | "#InSyncSlaveNum", n)) => {
                        if let Some(row) = found.last_mut() {
                            row.push(n.trim().to_owned());
                        }
                    }
                    _ => {}
                }
            }
            sorted(found)
        }
        "014" => {
            let read = words.into_iter().filter(|row| row.len() > 6 && row[4] != "0");
            text::columns(&read.collect::<Table>(), &[0, 1, 2, 3, 4, 5, 6])
        }
        "015" => words
            .iter()
            .map(|r| vec![instance(&r[1]), r[3].clone(), r[4].clone()])
            .collect(),
        "016" => {
            let mut found: Table = words
                .iter()
                .filter(|row| row[0].contains('@'))
                .map(|r| vec![instance(&r[0]), r[2].clone(), r[3].clone()])
                .collect();
            for row in words.iter().filter(|r| r.len() == 2 && r[1] == "*") {
                found.push(row.clone());
            }
            for key in ["ConsumeType", "MessageModel", "ConsumeFromWhere"] {
                found.push(vec![text::value(lines, key).unwrap_or("absent").to_owned()]);
            }
            sorted(found)
        }
        "017" => {
            let ours = lines.iter().filter(|line| line.contains("(PG_ORDERS)"));
            let id = |line: &String| {
                let after = line.split("clientId=").nth(1).unwrap_or_default();
                vec![instance(after.split(',').next().unwrap_or_default())]
            };
            ours.map(id).collect()
        }
        "018" => sorted(
            words
                .iter()
                .map(|r| [&r[..2], &r[r.len() - 1..]].concat())
                .collect(),
        ),
        "019" | "021" => {
            let total = text::value(lines, "Consume Diff Total").unwrap_or("absent");
            let of_queues = words.into_iter().filter(|row| row[0] == "OrderEvents");
            let mut found = text::columns(&of_queues.collect::<Table>(), &[1, 2, 3, 4, 5, 6]);
            found.push(vec![total.to_owned()]);
            found
        }
        "020" => keyed(lines, &["Consume Diff Total"]),
        "022" => {
            let clients = words.iter().filter(|row| row.len() > 2 && row[1].contains('@'));
            sorted(clients.map(|row| vec![instance(&row[1])]).collect())
        }
        "023" => {
            let wanted = [
                "consumeEnable",
                "consumeFromMinEnable",
                "consumeBroadcastEnable",
                "consumeMessageOrderly",
                "retryQueueNums",
                "retryMaxTimes",
                "brokerId",
                "whichBrokerWhenConsumeSlowly",
                "notifyConsumerIdsChangedEnable",
                "consumeTimeoutMinute",
            ];
            let mut found = Table::new();
            for block in all
                .split("=============================")
                .skip(1)
                .collect::<Vec<_>>()
                .chunks(2)
            {
                let lines: Vec<String> = block
                    .get(1)
                    .unwrap_or(&"")
                    .lines()
                    .map(|l| l.replacen('=', ":", 1))
                    .collect();
                let mut row = vec![block[0].split(':').nth(1).unwrap_or_default().to_owned()];
                row.extend(keyed(&lines, &wanted).into_iter().map(|mut pair| pair.remove(1)));
                found.push(row);
            }
            sorted(found)
        }
        "024" | "025" | "027" => [keyed(lines, MESSAGE), tracks(&all)].concat(),
        "026" => text::columns(&words, &[1, 2]),
        "028" => {
            let lines = words.iter().filter(|row| row[0] == "Pub" || row[0] == "Sub");
            sorted(
                lines
                    .map(|r| vec![r[0].clone(), r[1].clone(), r[r.len() - 1].clone()])
                    .collect(),
            )
        }
        "031" => {
            let mut found = vec![vec![
                lines
                    .iter()
                    .find(|l| l.starts_with("max:"))
                    .cloned()
                    .unwrap_or_default(),
            ]];
            for part in all.split("physicSize=").skip(1) {
                let number = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
                let tags = part.split("tagsCode=").nth(1).unwrap_or_default();
                found.push(vec![number(part), number(tags)]);
            }
            found
        }
        "034" | "035" => {
            let read = words
                .into_iter()
                .filter(|r| r[0] == "OrderEvents" && r[1] != r[0]);
            sorted(
                read.map(|r| vec![r[1].clone(), r[2].clone(), r[5].clone(), r[6].clone()])
                    .collect(),
            )
        }
        "036" => {
            let document: Value = serde_json::from_str(&all).unwrap_or_default();
            let shares = document["result"].as_object().into_iter().flatten();
            let count = |queues: &Value| queues.as_array().map_or(0, Vec::len).to_string();
            sorted(
                shares
                    .map(|(client, queues)| vec![client.clone(), count(queues)])
                    .collect(),
            )
        }
        _ => words,
    }
}

pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The same out of the JSON of `rmq`.
fn of_rmq(file: &str, json: &Value) -> Table {
    let items = json["items"].as_array().cloned().unwrap_or_default();
    let pick = |keys: &[&str]| -> Table {
        sorted(
            items
                .iter()
                .map(|item| keys.iter().map(|key| plain(&item[*key])).collect())
                .collect(),
        )
    };
    let first = items.first().cloned().unwrap_or_default();
    match file {
        "001" => {
            let mut table = pick(&["cluster", "name", "id", "addr", "version", "role"]);
            table
                .iter_mut()
                .for_each(|row| row[5] = (row[5] == "master").to_string());
            table
        }
        "002" => pick(&["cluster", "broker", "in_yesterday", "in_today"]),
        "003" => pick(&["name"]),
        "004" => {
            let groups = |item: &Value| item["groups"].as_array().cloned().unwrap_or_default();
            let pairs = items.iter().flat_map(|item| {
                groups(item)
                    .into_iter()
                    .map(|group| vec![plain(&item["name"]), plain(&group)])
            });
            // mqadmin leaves out retry topics.
            sorted(pairs.filter(|row| !row[0].starts_with('%')).collect())
        }
        "005" => pick(&["broker", "perm_bits", "read_queues", "write_queues"]),
        "006" => pick(&["cluster", "broker", "read_queues", "write_queues", "perm_bits"]),
        "007" => pick(&["broker", "queue", "min", "max"]),
        "008" => pick(&["cluster"]),
        "009" => {
            let lines: Vec<String> = pick(&["key", "value"]).iter().map(|row| row.join(": ")).collect();
            keyed(&lines, STATUS)
        }
        "011" | "012" => pick(&["key", "value"]),
        "013" => {
            let mut table = pick(&["addr", "slaves", "in_sync_slaves", "role"]);
            table.retain(|row| row[3] == "master");
            table.iter_mut().for_each(|row| row.truncate(3));
            table
        }
        "014" => {
            let mut table = pick(&[
                "topic",
                "group",
                "broker",
                "queue",
                "broker_offset",
                "consumer_offset",
                "diff",
            ]);
            table.retain(|row| row[4] != "0");
            table
        }
        "015" => pick(&["client", "language", "version"])
            .into_iter()
            .map(|r| vec![instance(&r[0]), r[1].clone(), r[2].clone()])
            .collect(),
        "016" => {
            let mut table: Table = pick(&["client", "language", "version"])
                .into_iter()
                .map(|r| vec![instance(&r[0]), r[1].clone(), r[2].clone()])
                .collect();
            for text in json["summary"]["subscriptions"].as_array().into_iter().flatten() {
                table.push(plain(text).split(' ').map(str::to_owned).collect());
            }
            for key in ["type", "model", "from"] {
                table.push(vec![plain(&json["summary"][key])]);
            }
            sorted(table)
        }
        "017" => {
            let table = pick(&["group", "client"]);
            let ours = table.iter().filter(|row| row[0] == "PG_ORDERS");
            ours.map(|row| vec![instance(&row[1])]).collect()
        }
        "018" => pick(&["group", "clients", "lag"]),
        "019" | "021" => {
            let mut table = pick(&["broker", "queue", "max", "committed", "lag", "inflight"]);
            table.push(vec![plain(&json["summary"]["total_lag"])]);
            table
        }
        "020" => vec![vec![
            "Consume Diff Total".into(),
            plain(&json["summary"]["total_lag"]),
        ]],
        "022" => {
            let names: BTreeSet<String> = items
                .iter()
                .map(|item| instance(&plain(&item["client"])))
                .collect();
            names.into_iter().map(|name| vec![name]).collect()
        }
        "023" => pick(&[
            "broker",
            "consume",
            "from_min",
            "broadcast",
            "orderly",
            "retry_queues",
            "retry_max",
            "read_from",
            "slow_read_from",
            "notify_change",
            "consume_timeout_min",
        ]),
        "024" | "025" | "027" => {
            let keys = first["keys"].as_array().cloned().unwrap_or_default();
            let keys: Vec<String> = keys.iter().map(plain).collect();
            let values = [
                plain(&first["tag"]),
                keys.join(" "),
                plain(&first["queue"]),
                plain(&first["offset"]),
                plain(&first["reconsume_times"]),
                plain(&first["sys_flag"]),
            ];
            let mut table: Table = MESSAGE
                .iter()
                .zip(values)
                .map(|(key, value)| vec![(*key).to_owned(), value])
                .collect();
            // mqadmin gives no state to a group that is offline.
            let groups = first["groups"].as_array().cloned().unwrap_or_default();
            let online = groups.iter().filter(|g| g["group"] != "CG_LAG");
            table.extend(sorted(
                online
                    .map(|g| vec![plain(&g["group"]), plain(&g["state"])])
                    .collect(),
            ));
            table
        }
        "026" => pick(&["queue", "offset"]),
        "028" => {
            let mut table = Table::new();
            for event in first["timeline"].as_array().into_iter().flatten() {
                let (kind, state) = match event["event"].as_str().unwrap_or_default() {
                    "sent" => ("Pub", "success"),
                    "consumed" => ("Sub", "success"),
                    "consume failed" => ("Sub", "failed"),
                    _ => continue,
                };
                table.push(vec![kind.into(), plain(&event["who"]), state.into()]);
            }
            sorted(table)
        }
        "031" => {
            let range = plain(&json["summary"]["broker-a"]);
            let (min, max) = range.split_once(' ').unwrap_or_default();
            let mut table = vec![vec![format!("max: {max}, min: {min}")]];
            table.extend(
                items
                    .iter()
                    .map(|item| vec![plain(&item["size"]), plain(&item["tags_code"])]),
            );
            table
        }
        "034" | "035" => {
            let mut table = pick(&["group", "lag", "in_24h", "out_24h", "topic"]);
            table.retain(|row| row[4] == "OrderEvents");
            table.iter_mut().for_each(|row| row.truncate(4));
            table
        }
        "036" => pick(&["client", "queues"]),
        _ => Table::new(),
    }
}

/// What the reference file says, its addresses named.
fn wanted(file: &str, line: &str, kind: Kind) -> Table {
    let name = line.split(' ').next().unwrap_or_default();
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/mqadmin/base/{file}-{name}.txt"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let names = [
        ("127.0.0.1:32010", "A0"),
        ("127.0.0.1:32020", "A1"),
        ("127.0.0.1:32030", "B0"),
    ];
    let text = names
        .iter()
        .fold(text, |text, (addr, name)| text.replace(addr, name));
    let lines: Vec<String> = text
        .lines()
        .filter(|line| !line.starts_with("# "))
        .map(str::to_owned)
        .collect();
    let mut table = of_mqadmin(file, &lines);
    if kind == Kind::Ours {
        // There is no slave.
        match file {
            "001" => table.retain(|row| row[3] != "A1"),
            "002" => {
                let zero = table.iter().position(|row| row[1] == "broker-a" && row[3] == "0");
                table.remove(zero.expect("the row of the slave"));
            }
            "013" => table.iter_mut().for_each(|row| row[1..].fill("0".into())),
            _ => {}
        }
    }
    table
}

/// Settings that both have must be the same; places are each its own.
fn same_settings(have: &Table, want: &Table) -> Result<(), String> {
    const OWN: &[&str] = &[
        "brokerName",
        "brokerClusterName",
        "brokerId",
        "listenPort",
        "namesrvAddr",
        "rocketmqHome",
        "bindAddress",
        "haListenPort",
        "mappedFileSizeTimerLog",
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "maxHashSlotNum",
        "maxIndexNum",
    ];
    let own =
        |key: &str| OWN.contains(&key) || key.to_lowercase().contains("path") || key.starts_with("brokerIP");
    // A number of threads follows the machine.
    let own = |key: &str| {
        own(key)
            || key.contains("ThreadPoolNums")
            || key.contains("ThreadNums")
            || key.contains("SelectorThreads")
    };
    let mut both = 0;
    let mut wrong = String::new();
    for row in want.iter().filter(|row| !own(&row[0])) {
        if let Some(found) = have.iter().find(|have| have[0] == row[0]) {
            both += 1;
            if found[1] != row[1] {
                wrong += &format!("\n    {} is {} and should be {}", row[0], found[1], row[1]);
            }
        }
    }
    if both < 15 {
        return Err(format!("only {both} settings are there"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong) }
}

pub fn state(nodes: &Nodes, peers: &Peers, session: &mut Session, dir: &Path) -> (Program, String, String) {
    session.warm_up(&nodes.namesrv);
    let mut mqadmin = |line: &str| {
        session
            .mqadmin(&nodes.namesrv, &line.split(' ').collect::<Vec<_>>())
            .ok()
    };
    mqadmin("updateTopic -c C1 -t OrderEvents -r 8 -w 8");
    for group in ["CG_ORDERS", "CG_LAG", "CG_FAIL"] {
        mqadmin(&format!("updateSubGroup -c C1 -g {group} -r 3"));
    }
    nodes.wait_for_route("OrderEvents", "\"writeQueueNums\":8");
    let mut orders = Program::start(peers, dir, "Orders", &[&nodes.namesrv]);
    orders.wait("everything is read", Duration::from_secs(150), |lines| {
        lines.last().is_some_and(|l| l == "ready")
    });
    let first: Vec<String> = orders.printed()[0].split('\t').map(str::to_owned).collect();
    // Consumers store their offsets in their own time.
    let settled =
        ["CG_ORDERS", "CG_FAIL", "CG_LAG"].map(|group| (group, if group == "CG_LAG" { "80" } else { "0" }));
    for (group, lag) in settled {
        wait::until_true(&format!("{group} lags {lag}"), Duration::from_secs(60), || {
            let ran = nodes.line(&format!("group lag {group} -o json"));
            ran.code == 0 && {
                let json = ran.json();
                let queues = json["items"].as_array().map_or(0, Vec::len);
                let total = json["summary"]["total_lag"].to_string();
                total == lag && queues >= 16
            }
        });
    }
    wait::until_true("all dead letters are there", Duration::from_secs(60), || {
        let ran = nodes.line("topic status %DLQ%CG_FAIL -o json");
        ran.code == 0 && ran.json()["summary"]["messages"] == 240
    });
    (orders, first[1].clone(), first[2].clone())
}

fn numbers(test: &str, kind: Kind) {
    let Some(peers) = java::peers(test) else { return };
    let dir = scratch();
    let mut session = Session::start(peers, dir.path());
    let nodes = Nodes::start(kind, peers, dir.path(), &[]);
    let (orders, unique, offset_id) = state(&nodes, peers, &mut session, &dir.path().join("orders"));
    let mut checks = Checks::new(test);
    let mut named = vec![(nodes.broker_a.clone(), "A0"), (nodes.broker_b.clone(), "B0")];
    named.extend(nodes.slave.clone().map(|addr| (addr, "A1")));
    let name = |text: &str| {
        named
            .iter()
            .fold(text.to_owned(), |text, (addr, name)| text.replace(addr, name))
    };
    for &(file, line) in COMMANDS {
        let want = wanted(file, line, kind);
        assert!(!want.is_empty(), "{file} says nothing");
        let compare = |have: &Table| match file {
            "011" | "012" => same_settings(have, &want),
            _ => same(have, &want),
        };
        let addressed = line
            .replace("A0", &nodes.broker_a)
            .replace("UNIQUE_ID", &unique)
            .replace("OFFSET_ID", &offset_id);
        let words: Vec<&str> = addressed.split(' ').collect();
        let old = session.mqadmin(&nodes.namesrv, &words).ok();
        let lines: Vec<String> = old.out.iter().map(|line| name(line)).collect();
        checks.check(
            &format!("{file} mqadmin {line}"),
            compare(&of_mqadmin(file, &lines)),
        );

        let ran = nodes.rmq(&[&["-o", "json", "mqadmin", "--no-hint"], words.as_slice()].concat());
        let result = match serde_json::from_str::<Value>(&name(&ran.out)) {
            Ok(json) if ran.code == 0 => compare(&of_rmq(file, &json)),
            _ => Err(format!("{ran:?}")),
        };
        checks.check(&format!("{file} rmq mqadmin {line}"), result);
    }
    whole_messages(&mut checks, &nodes, &mut session);
    writes(&mut checks, &nodes, &mut session);
    orders.end();
    checks.end();
}

/// The outputs that are messages: how many there are.
fn whole_messages(checks: &mut Checks, nodes: &Nodes, session: &mut Session) {
    for (line, count) in [
        ("printMsg -t OrderEvents -d true", 240),
        (
            "printMsgByQueue -t OrderEvents -a broker-a -i 0 -p true -d true -f true",
            15,
        ),
        ("consumeMessage -t OrderEvents -c 5", 5),
        ("consumeMessage -t OrderEvents -b broker-a -i 0 -o 0 -c 3", 3),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let old = session.mqadmin(&nodes.namesrv, &words).ok();
        let printed = old.out.iter().filter(|line| line.starts_with("MSGID:")).count();
        checks.check(&format!("mqadmin {line}"), same(&printed, &count));
        let ran = nodes.rmq(&[&["-o", "json", "mqadmin", "--no-hint"], words.as_slice()].concat());
        let items = ran.json()["items"].as_array().map_or(0, Vec::len);
        checks.check(&format!("rmq mqadmin {line}"), same(&items, &count));
    }
    let tags = nodes
        .ok("message count --topic OrderEvents --broker broker-a --queue 0 --by tag -o json")
        .json();
    let first = &tags["items"][0];
    checks.check(
        "rmq message count --by tag",
        same(&plain(&first["count"]), &"15".to_owned()),
    );
}

/// The last commands send: what they sent is there.
fn writes(checks: &mut Checks, nodes: &Nodes, session: &mut Session) {
    let total = || nodes.ok("topic status OrderEvents -o json").json()["summary"]["messages"].clone();
    let mut old = |line: &str| {
        session
            .mqadmin(&nodes.namesrv, &line.split(' ').collect::<Vec<_>>())
            .ok()
    };
    let sent = old("sendMessage -t OrderEvents -p hello -k KX -c TagA");
    checks.check(
        "mqadmin sendMessage",
        same(&text::rows(&sent.out)[0][2], &"SEND_OK".to_owned()),
    );
    let timed = old("checkMsgSendRT -t OrderEvents -a 5");
    let sends = text::rows(&timed.out)
        .iter()
        .filter(|row| row.len() > 2 && row[2] == "true")
        .count();
    checks.check("mqadmin checkMsgSendRT", same(&sends, &5));
    let probed = old("sendMsgStatus -b broker-a -c 3");
    let sends = probed.out.iter().filter(|line| line.contains("SEND_OK")).count();
    checks.check("mqadmin sendMsgStatus", same(&sends, &3));
    checks.check("mqadmin sent 6 of 246", same(&plain(&total()), &"246".to_owned()));
    let run = |line: &str| nodes.ok(&format!("-o json mqadmin --no-hint {line}")).json();
    let sent = run("sendMessage -t OrderEvents -p hello -k KX -c TagA");
    checks.check(
        "rmq mqadmin sendMessage",
        same(&plain(&sent["items"][0]["status"]), &"SEND_OK".to_owned()),
    );
    let probed = run("sendMsgStatus -b broker-a -c 3");
    checks.check(
        "rmq mqadmin sendMsgStatus",
        same(&plain(&probed["items"][0]["sent"]), &"3".to_owned()),
    );
    checks.check(
        "rmq mqadmin sent 1 more",
        same(&plain(&total()), &"247".to_owned()),
    );
    run("checkMsgSendRT -t OrderEvents -a 5");
    checks.check(
        "rmq mqadmin checkMsgSendRT sends 5 to each broker",
        same(&plain(&total()), &"257".to_owned()),
    );
}

#[test]
fn the_numbers_of_mqadmin_on_our_cluster() {
    numbers("the_numbers_of_mqadmin_on_our_cluster", Kind::Ours);
}

/// Five servers of Java: too much for every run of the tests.
#[test]
#[ignore = "starts five Java servers: cargo test --test it acceptance -- --ignored"]
fn the_numbers_of_mqadmin_on_javas_cluster() {
    numbers("the_numbers_of_mqadmin_on_javas_cluster", Kind::Java);
}
