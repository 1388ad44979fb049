//! Old commands on messages, and the old load probes.

use super::Old;
use super::given::{Given, Line};
use crate::cli::exit::Failure;

/// What `-c` was for.
const LMQ: &str = "-c found the route of a light queue's parent; rmq finds the topic in every cluster";

/// Shows, resends or pushes the message with an id.
fn by_id(given: &Given<'_>, id: &str) -> Result<Line, Failure> {
    let topic = given.get("t");
    Ok(match (given.get("g"), given.get("d")) {
        (Some(group), Some(client)) => Line::change("message push")
            .arg(id)
            .opt("--topic", topic)
            .opt("--group", Some(group))
            .opt("--client", Some(client)),
        (group, client) => Line::read("message view")
            .arg(id)
            .opt("--topic", topic)
            .note(group.is_some() || client.is_some(), ALONE),
    })
}

/// One of two options that mean something together only.
const ALONE: &str = "-g and -d have an effect together only: they push the message to a client";

/// `-b` and `-e` as a window.
fn window(line: Line, given: &Given<'_>, from: &str, begin: &str, end: &str) -> Line {
    line.opt(from, given.get(begin)).opt("--until", given.get(end))
}

pub const TABLE: &[Old] = &[
    Old {
        name: "queryMsgById",
        options: &[
            ("t", "topic", true),
            ("i", "msgId", true),
            ("g", "consumerGroup", true),
            ("d", "clientId", true),
            ("s", "sendMessage", true),
            ("u", "unitName", true),
            ("f", "bodyFormat", true),
            ("c", "cluster", true),
        ],
        line: |given| {
            let ids: Vec<&str> = given.need("i")?.split(',').map(str::trim).collect();
            let [id] = ids.as_slice() else {
                return Err(Failure::usage("one message a command: -i names several"));
            };
            let pushes = given.get("g").is_some() && given.get("d").is_some();
            let line = if given.is_true("s") && !pushes {
                Line::change("message resend")
                    .arg(*id)
                    .opt("--topic", given.get("t"))
                    .note(given.has("g") || given.has("d"), ALONE)
            } else {
                by_id(given, id)?.note(given.is_true("s"), "-s has no effect beside -g and -d")
            };
            Ok(line
                .note(given.has("u"), "-u, a unit's name, has no effect in rmq")
                .note(
                    given.has("f"),
                    "-f chose a charset for the file with the body; the body is shown itself",
                )
                .note(given.has("c"), LMQ))
        },
    },
    Old {
        name: "queryMsgByKey",
        options: &[
            ("t", "topic", true),
            ("k", "msgKey", true),
            ("b", "beginTimestamp", true),
            ("e", "endTimestamp", true),
            ("m", "maxNum", true),
            ("c", "cluster", true),
        ],
        line: |given| {
            let line = Line::read("message find")
                .opt("--topic", Some(given.need("t")?))
                .opt("--key", Some(given.need("k")?));
            Ok(window(line, given, "--since", "b", "e")
                .opt("--limit", given.get("m"))
                .note(given.has("c"), LMQ))
        },
    },
    Old {
        name: "queryMsgByUniqueKey",
        options: &[
            ("i", "msgId", true),
            ("g", "consumerGroup", true),
            ("d", "clientId", true),
            ("t", "topic", true),
            ("a", "showAll", false),
            ("c", "cluster", true),
        ],
        line: |given| {
            let id = given.need("i")?;
            let topic = given.need("t")?;
            let pushes = given.get("g").is_some() && given.get("d").is_some();
            let line = if given.has("a") && !pushes {
                Line::read("message find")
                    .opt("--topic", Some(topic))
                    .opt("--unique-id", Some(id))
                    .flag("--all-copies", true)
                    .note(given.has("g") || given.has("d"), ALONE)
            } else {
                by_id(given, id)?.note(given.has("a"), "-a has no effect beside -g and -d")
            };
            Ok(line.note(given.has("c"), LMQ))
        },
    },
    Old {
        name: "queryMsgByOffset",
        options: &[
            ("t", "topic", true),
            ("b", "brokerName", true),
            ("i", "queueId", true),
            ("o", "offset", true),
            ("f", "bodyFormat", true),
        ],
        line: |given| {
            Ok(Line::read("message view")
                .opt("--topic", Some(given.need("t")?))
                .opt("--broker", Some(given.need("b")?))
                .opt("--queue", Some(given.need("i")?))
                .opt("--offset", Some(given.need("o")?))
                .note(
                    given.has("f"),
                    "-f chose a charset for the file with the body; the body is shown itself",
                ))
        },
    },
    Old {
        name: "queryMsgTraceById",
        options: &[
            ("i", "msgId", true),
            ("t", "traceTopic", true),
            ("b", "beginTimestamp", true),
            ("e", "endTimestamp", true),
            ("c", "maxNum", true),
        ],
        line: |given| {
            let line = Line::read("message trace")
                .arg(given.need("i")?)
                .opt("--trace-topic", given.get("t"));
            Ok(line.note(
                given.has("b") || given.has("e") || given.has("c"),
                "-b, -e and -c limited the search; rmq looks at all of the message's records",
            ))
        },
    },
    Old {
        name: "printMsg",
        options: &[
            ("t", "topic", true),
            ("c", "charsetName ", true),
            ("s", "subExpression ", true),
            ("b", "beginTimestamp ", true),
            ("e", "endTimestamp ", true),
            ("d", "printBody ", true),
            ("l", "lmqParentTopic ", true),
        ],
        line: |given| {
            let line = Line::read("message list").opt("--topic", Some(given.need("t")?));
            Ok(window(line, given, "--from", "b", "e")
                .opt("--tag", given.get("s"))
                .opt("--decode", charset(given))
                .opt("--body", (given.bool("d") == Some("false")).then_some("none"))
                .opt("--limit", Some("0"))
                .note(
                    given.has("l"),
                    "-l, a light queue's parent, has no effect: light queues are read by their own name",
                ))
        },
    },
    Old {
        name: "printMsgByQueue",
        options: &[
            ("t", "topic", true),
            ("a", "brokerName ", true),
            ("i", "queueId ", true),
            ("c", "charsetName ", true),
            ("s", "subExpression ", true),
            ("b", "beginTimestamp ", true),
            ("e", "endTimestamp ", true),
            ("p", "print msg", true),
            ("d", "printBody ", true),
            ("f", "calculate ", true),
        ],
        line: |given| {
            let place = |line: Line| -> Result<Line, Failure> {
                Ok(line
                    .opt("--topic", Some(given.need("t")?))
                    .opt("--broker", Some(given.need("a")?))
                    .opt("--queue", Some(given.need("i")?)))
            };
            if given.is_true("f") && !given.is_true("p") {
                let line = place(Line::read("message count"))?.opt("--by", Some("tag"));
                return Ok(window(line, given, "--since", "b", "e")
                    .opt("--tag", given.get("s"))
                    .note(
                        given.has("c") || given.has("d"),
                        "-c and -d are of printed messages, and -f without -p true prints none",
                    ));
            }
            let line = place(Line::read("message list"))?;
            Ok(window(line, given, "--from", "b", "e")
                .opt("--tag", given.get("s"))
                .opt("--decode", charset(given))
                .opt("--body", (!given.is_true("d")).then_some("none"))
                .opt("--limit", Some("0"))
                .note(
                    given.is_true("f"),
                    "-f: the numbers by tag are a command of their own: rmq message count --by tag",
                )
                .note(!given.is_true("p"), "mqadmin printed nothing without -p true"))
        },
    },
    Old {
        name: "consumeMessage",
        options: &[
            ("t", "topic", true),
            ("b", "brokerName", true),
            ("i", "queueId", true),
            ("o", "offset", true),
            ("g", "consumerGroup", true),
            ("s", "beginTimestamp ", true),
            ("e", "endTimestamp ", true),
            ("c", "MessageNumber", true),
        ],
        line: |given| {
            Ok(Line::read("message list")
                .opt("--topic", Some(given.need("t")?))
                .opt("--broker", given.get("b"))
                .opt("--queue", given.get("i"))
                .opt("--from", given.get("s"))
                .opt("--from-offset", given.get("o").filter(|_| !given.has("s")))
                .note(given.has("o") && given.has("s"), "-o has no effect beside -s")
                .opt("--until", given.get("e"))
                .opt("--limit", Some(given.get("c").unwrap_or("128")))
                .note(given.has("g"), "-g: rmq reads without a group"))
        },
    },
    Old {
        name: "queryCq",
        options: &[
            ("t", "topic", true),
            ("q", "queue", true),
            ("i", "index", true),
            ("c", "count", true),
            ("b", "broker", true),
            ("g", "consumer", true),
        ],
        line: |given| {
            Ok(Line::read("topic cq")
                .arg(given.need("t")?)
                .opt("--queue", Some(given.need("q")?))
                .opt("--from", Some(given.need("i")?))
                .opt("--limit", given.get("c"))
                .opt("--broker", given.get("b"))
                .opt("--group", given.get("g"))
                .note(
                    given.get("b").is_none(),
                    "without -b mqadmin asked one broker; rmq asks each of the topic's",
                ))
        },
    },
    Old {
        name: "sendMessage",
        options: &[
            ("t", "topic", true),
            ("p", "body", true),
            ("k", "key", true),
            ("c", "tags", true),
            ("b", "broker", true),
            ("i", "qid", true),
            ("m", "msgTraceEnable", true),
        ],
        line: |given| {
            Ok(Line::change("message send")
                .opt("--topic", Some(given.need("t")?))
                .opt("--body", Some(given.need("p")?))
                .opt("--key", given.get("k"))
                .opt("--tag", given.get("c"))
                .opt("--broker", given.get("b"))
                .opt("--queue", given.get("i"))
                .note(given.is_true("m"), "-m: rmq sends no trace of its own"))
        },
    },
    Old {
        name: "sendMsgStatus",
        options: &[
            ("b", "brokerName", true),
            ("s", "messageSize", true),
            ("c", "count", true),
        ],
        line: |given| {
            Ok(Line::change("bench latency")
                .opt("--broker", Some(given.need("b")?))
                .opt("--size", given.get("s"))
                .opt("--count", Some(given.get("c").unwrap_or("50"))))
        },
    },
    Old {
        name: "checkMsgSendRT",
        options: &[("t", "topic", true), ("a", "amount", true), ("s", "size", true)],
        line: |given| {
            Ok(Line::change("bench latency")
                .opt("--topic", Some(given.need("t")?))
                .opt("--count", given.get("a"))
                .opt("--size", given.get("s")))
        },
    },
    Old {
        name: "clusterRT",
        options: &[
            ("a", "amount", true),
            ("s", "size", true),
            ("c", "cluster", true),
            ("p", "print log", true),
            ("m", "machine room", true),
            ("i", "interval", true),
        ],
        line: |given| {
            let interval = format!("{}s", given.get("i").unwrap_or("10"));
            Ok(Line::change("bench cluster-latency")
                .opt("--count", given.get("a"))
                .opt("--size", given.get("s"))
                .opt("--cluster", given.get("c"))
                .opt("--interval", Some(&interval))
                .note(
                    given.has("p") || given.has("m"),
                    "-p and -m chose another form of the output; rmq has -o",
                ))
        },
    },
    Old {
        name: "dumpCompactionLog",
        options: &[("f", "file", true)],
        line: |given| Ok(Line::read("store dump-compaction").arg(given.need("f")?)),
    },
    Old {
        name: "DecodeMessageId",
        options: &[("i", "messageId", true)],
        line: |given| Ok(Line::read("message decode-id").arg(given.need("i")?)),
    },
];

/// UTF-8 is what bodies are read as anyway.
fn charset<'a>(given: &'a Given<'_>) -> Option<&'a str> {
    given
        .get("c")
        .filter(|name| !name.eq_ignore_ascii_case("UTF-8") && !name.eq_ignore_ascii_case("UTF8"))
}
