//! Old commands on groups, their positions and their clients.

use super::Old;
use super::given::{Line, attributes};
use crate::cli::exit::Failure;

/// Options of three commands that did nothing.
const FORCE: &str = "-f had no effect in mqadmin either";

pub const TABLE: &[Old] = &[
    Old {
        name: "updateSubGroup",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("g", "groupName", true),
            ("s", "consumeEnable", true),
            ("m", "consumeFromMinEnable", true),
            ("d", "consumeBroadcastEnable", true),
            ("o", "consumeMessageOrderly", true),
            ("q", "retryQueueNums", true),
            ("r", "retryMaxTimes", true),
            ("p", "groupRetryPolicy", true),
            ("i", "brokerId", true),
            ("w", "whichBrokerWhenConsumeSlowly", true),
            ("a", "notifyConsumerIdsChanged", true),
            ("attributes", "attributes", true),
        ],
        line: |given| {
            let line = Line::change("group update")
                .arg(given.need("g")?)
                .flag("--create", true)
                .scope(given)?
                .opt("--consume-enable", given.bool("s"))
                .opt("--from-min", given.bool("m"))
                .opt("--broadcast", given.bool("d"))
                .opt("--orderly", given.bool("o"))
                .opt("--retry-queues", given.get("q"))
                .opt("--retry-max", given.get("r"))
                .opt("--retry-policy", given.get("p"))
                .opt("--read-from", given.get("i"))
                .opt("--slow-read-from", given.get("w"))
                .opt("--notify-change", given.bool("a"))
                .note(
                    true,
                    "fields that are not named keep their values; mqadmin set them to its defaults",
                );
            attributes(line, given.get("attributes"))
        },
    },
    Old {
        name: "updateSubGroupList",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("f", "filename", true),
        ],
        line: |given| {
            Line::change("apply")
                .opt("--file", Some(given.need("f")?))
                .scope(given)
        },
    },
    Old {
        name: "deleteSubGroup",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("g", "groupName", true),
            ("r", "removeOffset", true),
        ],
        line: |given| {
            Line::change("group delete")
                .arg(given.need("g")?)
                .flag("--keep-offsets", !given.is_true("r"))
                .scope(given)
        },
    },
    Old {
        name: "getConsumerConfig",
        options: &[("g", "groupName", true)],
        line: |given| Ok(Line::read("group get").arg(given.need("g")?)),
    },
    Old {
        name: "setConsumeMode",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("t", "topicName", true),
            ("g", "groupName", true),
            ("m", "mode", true),
            ("q", "popShareQueueNum", true),
        ],
        line: |given| {
            Line::change("group set-mode")
                .arg(given.need("g")?)
                .opt("--topic", Some(given.need("t")?))
                .opt("--mode", Some(given.need("m")?))
                .opt("--share-queues", given.get("q"))
                .scope(given)
        },
    },
    Old {
        name: "consumerProgress",
        options: &[
            ("g", "groupName", true),
            ("t", "topicName", true),
            ("s", "showClientIP", true),
            ("c", "cluster", true),
        ],
        line: |given| {
            let line = Line::read("group lag");
            Ok(match given.get("g") {
                Some(group) => line.arg(group),
                None => line,
            }
            .opt("--topic", given.get("t"))
            .opt("--cluster", given.get("c"))
            .opt(
                "--by",
                (given.is_true("s") && given.get("g").is_some()).then_some("client"),
            )
            .note(
                given.is_true("s") && given.get("g").is_none(),
                "-s has no effect without -g, as in mqadmin",
            ))
        },
    },
    Old {
        name: "consumerConnection",
        options: &[("g", "consumerGroup", true), ("b", "brokerAddr", true)],
        line: |given| {
            Ok(Line::read("group clients")
                .arg(given.need("g")?)
                .opt("--broker", given.get("b")))
        },
    },
    Old {
        name: "consumerStatus",
        options: &[
            ("g", "consumerGroup", true),
            ("i", "clientId", true),
            ("b", "brokerAddr", true),
            ("s", "jstack", false),
        ],
        line: |given| {
            let group = given.need("g")?;
            let line = match (given.has("s"), given.get("i")) {
                (true, Some(client)) => Line::read("consumer stack")
                    .arg(client)
                    .opt("--group", Some(group)),
                (true, None) => Line::read("group clients").arg(group).flag("--stack", true),
                (false, client) => Line::read("group client-info").arg(group).opt("--client", client),
            };
            Ok(line
                .opt("--broker", given.get("b"))
                .note(true, "nothing is written to the working directory"))
        },
    },
    Old {
        name: "resetOffsetByTime",
        options: &[
            ("g", "group", true),
            ("t", "topic", true),
            ("s", "timestamp", true),
            ("f", "force", true),
            ("b", "broker", true),
            ("q", "queue", true),
            ("o", "offset", true),
            ("c", "cluster", true),
        ],
        line: |given| {
            let line = Line::change("group reset")
                .arg(given.need("g")?)
                .opt("--topic", Some(given.need("t")?));
            let line = match (given.get("b"), given.get("q"), given.get("o")) {
                (Some(broker), Some(queue), Some(offset)) => line
                    .opt("--queue", Some(&format!("{broker}/{queue}={offset}")))
                    .opt("--broker", Some(broker))
                    .note(given.has("s"), "-s has no effect beside -o"),
                (Some(_), Some(_), None) if given.get("s") == Some("-1") => {
                    return Err(Failure::usage(
                        "-s -1 of one queue was its beginning, of a topic the end: say earliest or latest",
                    ));
                }
                (Some(broker), Some(queue), None) => line
                    .opt("--queue", Some(&format!("{broker}/{queue}")))
                    .opt("--to", Some(reset_time(given.need("s")?)))
                    .opt("--broker", Some(broker)),
                (None, None, None) => line.opt("--to", Some(reset_time(given.need("s")?))),
                // mqadmin moved the whole topic then.
                _ => {
                    return Err(Failure::usage(
                        "-b and -q name one queue together, and -o is an offset in it",
                    ));
                }
            };
            Ok(line
                .flag("--execute", true)
                .opt("--cluster", given.get("c"))
                .note(given.has("f"), FORCE))
        },
    },
    Old {
        name: "resetOffsetByTimeOld",
        options: &[
            ("g", "group", true),
            ("t", "topic", true),
            ("s", "timestamp", true),
            ("f", "force", true),
            ("c", "cluster", true),
        ],
        line: |given| {
            Ok(Line::change("group reset")
                .arg(given.need("g")?)
                .opt("--topic", Some(given.need("t")?))
                .opt("--to", Some(reset_time(given.need("s")?)))
                .flag("--execute", true)
                .opt("--cluster", given.get("c"))
                .note(given.has("f"), FORCE))
        },
    },
    Old {
        name: "skipAccumulatedMessage",
        options: &[
            ("g", "group", true),
            ("t", "topic", true),
            ("f", "force", true),
            ("c", "cluster", true),
        ],
        line: |given| {
            Ok(Line::change("group skip")
                .arg(given.need("g")?)
                .opt("--topic", Some(given.need("t")?))
                .flag("--execute", true)
                .opt("--cluster", given.get("c"))
                .note(given.has("f"), FORCE))
        },
    },
    Old {
        name: "cloneGroupOffset",
        options: &[
            ("s", "srcGroup", true),
            ("d", "destGroup", true),
            ("t", "topic", true),
            ("o", "offline", true),
        ],
        line: |given| {
            Ok(Line::change("group clone-offsets")
                .arg(given.need("s")?)
                .arg(given.need("d")?)
                .opt("--topic", Some(given.need("t")?))
                .note(given.has("o"), "-o had no effect in mqadmin either")
                .note(
                    true,
                    "only the named topic's positions are copied; mqadmin copied those of every topic",
                ))
        },
    },
    Old {
        name: "producerConnection",
        options: &[("g", "producerGroup", true), ("t", "topic", true)],
        line: |given| {
            Ok(Line::read("producer clients")
                .arg(given.need("g")?)
                .opt("--topic", Some(given.need("t")?)))
        },
    },
    Old {
        name: "producer",
        options: &[("b", "broker", true)],
        line: |given| Ok(Line::read("producer list").opt("--broker", Some(given.need("b")?))),
    },
    Old {
        name: "startMonitoring",
        options: &[],
        line: |_| {
            Ok(Line::read("doctor").note(
                true,
                "one look, with findings on stdout; mqadmin looked again and again and wrote to its log",
            ))
        },
    },
    Old {
        name: "consumer",
        options: &[("g", "consumerGroup", true), ("s", "jstack", false)],
        line: |given| {
            let group = given.need("g")?;
            Ok(if given.has("s") {
                Line::read("group clients").arg(group).flag("--stack", true)
            } else {
                Line::read("group describe").arg(group)
            })
        },
    },
    Old {
        name: "getConsumerStatus",
        options: &[
            ("g", "group", true),
            ("t", "topic", true),
            ("i", "originClientId", true),
        ],
        line: |given| {
            Ok(Line::read("group lag")
                .arg(given.need("g")?)
                .opt("--topic", Some(given.need("t")?))
                .opt("--by", Some("client"))
                .opt(
                    "--filter",
                    given.get("i").map(|client| format!("client={client}")).as_deref(),
                ))
        },
    },
];

/// mqadmin took -1 for the end, and a number is a time: a small one is before every message.
fn reset_time(text: &str) -> &str {
    match text.parse::<i64>() {
        Ok(-1) => "latest",
        Ok(ms) if (0..1_000_000_000).contains(&ms) => "earliest",
        _ => text,
    }
}
