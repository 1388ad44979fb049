//! Old commands on topics.

use super::Old;
use super::given::{Given, Line, attributes};
use crate::cli::exit::Failure;

pub const TABLE: &[Old] = &[
    Old {
        name: "updateTopic",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("a", "attributes", true),
            ("t", "topic", true),
            ("r", "readQueueNums", true),
            ("w", "writeQueueNums", true),
            ("p", "perm", true),
            ("o", "order", true),
            ("u", "unit", true),
            ("s", "hasUnitSub", true),
        ],
        line: |given| {
            let line = Line::change("topic update")
                .arg(given.need("t")?)
                .flag("--create", true)
                .scope(given)?
                .opt("--read-queues", given.get("r"))
                .opt("--write-queues", given.get("w"))
                .opt("--perm", given.get("p"))
                .opt("--order", given.bool("o"))
                .opt("--unit", given.bool("u"))
                .opt("--has-unit-sub", given.bool("s"))
                .note(
                    true,
                    "fields that are not named keep their values; mqadmin set them to 8 queues, perm 6, order false",
                );
            attributes(line, given.get("a"))
        },
    },
    Old {
        name: "updateTopicList",
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
        name: "updateTopicPerm",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("t", "topic", true),
            ("p", "perm", true),
        ],
        line: |given| {
            Line::change("topic update")
                .arg(given.need("t")?)
                .opt("--perm", Some(given.need("p")?))
                .scope(given)
        },
    },
    Old {
        name: "deleteTopic",
        options: &[("t", "topic", true), ("c", "clusterName", true)],
        line: |given| {
            Ok(Line::change("topic delete")
                .arg(given.need("t")?)
                .opt("--cluster", Some(given.need("c")?)))
        },
    },
    Old {
        name: "topicList",
        options: &[("c", "clusterModel", false)],
        line: |given| Ok(Line::read("topic list --all").flag("--with-groups", given.has("c"))),
    },
    Old {
        name: "topicRoute",
        options: &[("t", "topic", true), ("l", "list", false)],
        line: |given| {
            Ok(Line::read("topic route")
                .arg(given.need("t")?)
                .note(given.has("l"), "-l chose a table, which rmq prints anyway"))
        },
    },
    Old {
        name: "topicStatus",
        options: &[("t", "topic", true), ("c", "cluster", true)],
        line: |given| {
            Ok(Line::read("topic status")
                .arg(given.need("t")?)
                .opt("--cluster", given.get("c")))
        },
    },
    Old {
        name: "topicClusterList",
        options: &[("t", "topic", true)],
        line: |given| Ok(Line::read("topic clusters").arg(given.need("t")?)),
    },
    Old {
        name: "updateOrderConf",
        options: &[
            ("t", "topic", true),
            ("v", "orderConf", true),
            ("m", "method", true),
        ],
        line: |given| {
            let topic = given.need("t")?;
            let line = match given.need("m")?.to_ascii_lowercase().as_str() {
                "get" => Line::read("topic order get").arg(topic),
                "put" => return Ok(Line::change("topic order set").arg(topic).arg(given.need("v")?)),
                "delete" => Line::change("topic order unset").arg(topic),
                other => {
                    return Err(Failure::usage(format!(
                        "-m {other}: the methods are put, get and delete"
                    )));
                }
            };
            Ok(line.note(given.has("v"), "-v has no effect but with -m put"))
        },
    },
    Old {
        name: "allocateMQ",
        options: &[("t", "topic", true), ("i", "ipList", true)],
        line: |given| {
            Ok(Line::read("topic allocate")
                .arg(given.need("t")?)
                .opt("--clients", Some(given.need("i")?)))
        },
    },
    Old {
        name: "statsAll",
        options: &[("a", "activeTopic", false), ("t", "topic", true)],
        line: |given| {
            let line = Line::read("topic stats");
            Ok(match given.get("t") {
                Some(topic) => line.arg(topic),
                None => line.flag("--all", true),
            }
            .flag("--active", given.has("a")))
        },
    },
    Old {
        name: "updateStaticTopic",
        options: &[
            ("c", "clusters", true),
            ("b", "brokers", true),
            ("t", "topic", true),
            ("qn", "totalQueueNum", true),
            ("mf", "mapFile", true),
            ("fr", "forceReplace", true),
        ],
        line: |given| {
            let topic = given.need("t")?;
            if let Some(file) = given.get("mf") {
                return Ok(from_file("static-topic update", topic, file, given));
            }
            Ok(Line::change("static-topic update")
                .arg(topic)
                .opt("--queues", Some(given.need("qn")?))
                .flag("--create", true)
                .scope(given)?
                .note(given.has("fr"), FORCE)
                .note(
                    true,
                    "new queues go to the brokers named and to those that lead queues already; of a topic that is there \
                     mqadmin used every other broker of its clusters as well",
                ))
        },
    },
    Old {
        name: "remappingStaticTopic",
        options: &[
            ("c", "clusters", true),
            ("b", "brokers", true),
            ("t", "topic", true),
            ("mf", "mapFile", true),
            ("fr", "forceReplace", true),
        ],
        line: |given| {
            let topic = given.need("t")?;
            if let Some(file) = given.get("mf") {
                return Ok(from_file("static-topic remap", topic, file, given));
            }
            Ok(Line::change("static-topic remap")
                .arg(topic)
                .scope(given)?
                .note(given.has("fr"), FORCE))
        },
    },
];

const FORCE: &str = "-fr has no effect without -mf, as in mqadmin";

/// A change by a mapping file. mqadmin looked for it under -f, which it does not take.
fn from_file(command: &str, topic: &str, file: &str, given: &Given<'_>) -> Line {
    Line::change(command)
        .arg(topic)
        .opt("--map-file", Some(file))
        .flag("--force-replace", given.is_true("fr"))
        .note(true, "the mapping is that of the file; mqadmin never read it")
        .note(given.has("qn"), "-qn has no effect beside -mf")
        .note(
            given.has("b") || given.has("c"),
            "-b and -c have no effect beside -mf: the file names the brokers",
        )
}
