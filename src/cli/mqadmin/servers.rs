//! Old commands on servers: brokers, name servers, controllers, users, exports.

use super::given::{Given, Line};
use super::{Old, none};
use crate::cli::exit::Failure;

/// A command on the brokers of `-b` or `-c`; as a positional argument and an option.
fn brokers(line: Line, given: &Given<'_>) -> Line {
    match given.get("b") {
        Some(broker) => line.arg(broker).note(given.has("c"), BESIDE),
        None => line.opt("--cluster", given.get("c")),
    }
}

/// mqadmin looked at the cluster only where no broker was named.
const BESIDE: &str = "-c has no effect beside -b";

/// The same where mqadmin took all clusters without either.
fn all(line: Line, given: &Given<'_>) -> Line {
    let none = given.get("b").is_none() && given.get("c").is_none();
    brokers(line, given).note(
        none,
        "mqadmin went through every cluster without -b and -c; rmq takes the only one, or asks which",
    )
}

/// `--watch` of the old `-i`, seconds.
fn watched(line: Line, given: &Given<'_>) -> Line {
    match given.get("i") {
        Some(seconds) => line.arg(format!("--watch={seconds}s")),
        None => line,
    }
}

/// `-f` of the old exports was a directory.
fn export(what: &str, file: &str, given: &Given<'_>) -> Line {
    let mut line = Line::read(what);
    let out = given
        .get("f")
        .map(|dir| format!("{}/{file}", dir.trim_end_matches('/')));
    line = line.opt("--out", out.as_deref()).opt("--cluster", given.get("c"));
    line.note(
        given.get("f").is_none(),
        "without --out it goes to stdout; mqadmin wrote to /tmp/rocketmq/export",
    )
}

pub const TABLE: &[Old] = &[
    Old {
        name: "clusterList",
        options: &[
            ("m", "moreStats", false),
            ("i", "interval", true),
            ("c", "clusterName", true),
        ],
        line: |given| {
            let cluster = given.get("c");
            let line = match (given.has("m"), cluster) {
                (true, Some(cluster)) => Line::read("cluster stats").arg(cluster),
                (true, None) => Line::read("cluster stats"),
                (false, cluster) => Line::read("broker list").opt("--cluster", cluster),
            };
            Ok(watched(line, given))
        },
    },
    Old {
        name: "brokerStatus",
        options: &[("b", "brokerAddr", true), ("c", "clusterName", true)],
        line: |given| {
            given.need_one("b", "c")?;
            Ok(brokers(Line::read("broker stats"), given))
        },
    },
    Old {
        name: "brokerConsumeStats",
        options: &[
            ("b", "brokerAddr", true),
            ("t", "timeoutMillis", true),
            ("l", "level", true),
            ("o", "order", true),
        ],
        line: |given| {
            let timeout = given.get("t").map(|ms| format!("{ms}ms"));
            Ok(Line::read("broker consume-stats")
                .arg(given.need("b")?)
                .opt("--timeout", timeout.as_deref())
                .opt("--min-diff", given.get("l"))
                .note(given.is_true("o"), "-o chose ordered topics only; rmq shows all"))
        },
    },
    Old {
        name: "getBrokerConfig",
        options: &[("b", "brokerAddr", true), ("c", "clusterName", true)],
        line: |given| {
            match given.get("b") {
                Some(broker) => Ok(Line::read("broker get-config")
                    .arg(broker)
                    .note(given.has("c"), BESIDE)),
                // One broker after the other is what a cluster's configuration is exported for.
                None => Ok(Line::read("export config --all").opt("--cluster", Some(given.need("c")?))),
            }
        },
    },
    Old {
        name: "updateBrokerConfig",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("a", "updateAllBroker", true),
            ("k", "key", true),
            ("v", "value", true),
        ],
        line: |given| {
            let pair = format!("{}={}", given.need("k")?, given.need("v")?);
            given.need_one("b", "c")?;
            Ok(brokers(Line::change("broker set-config"), given)
                .arg(pair)
                .flag("--replicas", given.has("a") && given.get("b").is_none())
                .note(
                    given.has("a") && given.has("b"),
                    "-a has no effect beside -b: one broker is set",
                ))
        },
    },
    Old {
        name: "wipeWritePerm",
        options: &[("b", "brokerName", true)],
        line: |given| Ok(Line::change("broker wipe-write").arg(given.need("b")?)),
    },
    Old {
        name: "addWritePerm",
        options: &[("b", "brokerName", true)],
        line: |given| Ok(Line::change("broker restore-write").arg(given.need("b")?)),
    },
    Old {
        name: "haStatus",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("i", "interval", true),
        ],
        line: |given| {
            given.need_one("b", "c")?;
            Ok(watched(brokers(Line::read("broker ha"), given), given))
        },
    },
    Old {
        name: "resetMasterFlushOffset",
        options: &[("b", "brokerAddr", true), ("o", "offset", true)],
        line: |given| {
            Ok(Line::change("broker reset-flush-offset")
                .arg(given.need("b")?)
                .opt("--to", Some(given.need("o")?)))
        },
    },
    Old {
        name: "getBrokerEpoch",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerName", true),
            ("i", "interval", true),
        ],
        line: |given| {
            given.need_one("b", "c")?;
            Ok(watched(brokers(Line::read("broker epoch"), given), given))
        },
    },
    Old {
        name: "cleanExpiredCQ",
        options: &[("b", "brokerAddr", true), ("c", "cluster", true)],
        line: |given| Ok(all(Line::change("broker clean-cq"), given)),
    },
    Old {
        name: "cleanUnusedTopic",
        options: &[("b", "brokerAddr", true), ("c", "cluster", true)],
        line: |given| Ok(all(Line::change("broker clean-unused-topics"), given)),
    },
    Old {
        name: "deleteExpiredCommitLog",
        options: &[
            ("n", "namesrvAddr", true),
            ("b", "brokerAddr", true),
            ("c", "cluster", true),
        ],
        line: |given| Ok(all(Line::change("broker clean-commitlog"), given)),
    },
    Old {
        name: "setCommitLogReadAheadMode",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("m", "commitLogReadAheadMode", true),
        ],
        line: |given| {
            let mode = match given.need("m")? {
                "0" => "normal",
                "1" => "random",
                other => {
                    return Err(Failure::usage(format!(
                        "-m {other}: the modes are 0 (normal) and 1 (random)"
                    )));
                }
            };
            given.need_one("b", "c")?;
            Ok(brokers(Line::change("broker set-readahead").arg(mode), given))
        },
    },
    Old {
        name: "getColdDataFlowCtrInfo",
        options: &[("b", "brokerAddr", true), ("c", "clusterName", true)],
        line: |given| Ok(brokers(Line::read("broker cold-flow list"), given)),
    },
    Old {
        name: "updateColdDataFlowCtrGroupConfig",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("g", "consumerGroup", true),
            ("v", "threshold", true),
        ],
        line: |given| {
            Line::change("broker cold-flow set")
                .arg(given.need("g")?)
                .arg(given.need("v")?)
                .scope(given)
        },
    },
    Old {
        name: "removeColdDataFlowCtrGroupConfig",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("g", "consumerGroup", true),
        ],
        line: |given| {
            Line::change("broker cold-flow unset")
                .arg(given.need("g")?)
                .scope(given)
        },
    },
    Old {
        name: "checkRocksdbCqWriteProgress",
        options: &[
            ("c", "cluster", true),
            ("n", "nameserverAddr", true),
            ("t", "topic", true),
            ("cf", "checkFrom", true),
        ],
        line: |given| {
            Ok(Line::change("broker check-cq")
                .opt("--cluster", Some(given.need("c")?))
                .opt("--topic", given.get("t"))
                .opt("--since", given.get("cf")))
        },
    },
    Old {
        name: "addBroker",
        options: &[
            ("c", "brokerContainerAddr", true),
            ("b", "brokerConfigPath", true),
        ],
        line: |given| {
            Ok(Line::change("broker container add")
                .arg(given.need("c")?)
                .opt("--broker-config", Some(given.need("b")?)))
        },
    },
    Old {
        name: "removeBroker",
        options: &[("c", "brokerContainerAddr", true), ("b", "brokerIdentity", true)],
        line: |given| {
            Ok(Line::change("broker container remove")
                .arg(given.need("c")?)
                .arg(given.need("b")?))
        },
    },
    Old {
        name: "getNamesrvConfig",
        options: &[],
        line: |given| {
            let _ = given;
            Ok(Line::read("namesrv get-config"))
        },
    },
    Old {
        name: "updateNamesrvConfig",
        options: &[("k", "key", true), ("v", "value", true)],
        line: |given| {
            Ok(Line::change("namesrv set-config").arg(format!("{}={}", given.need("k")?, given.need("v")?)))
        },
    },
    Old {
        name: "updateKvConfig",
        options: &[("s", "namespace", true), ("k", "key", true), ("v", "value", true)],
        line: |given| {
            Ok(Line::change("kv set")
                .arg(given.need("s")?)
                .arg(given.need("k")?)
                .arg(given.need("v")?))
        },
    },
    Old {
        name: "deleteKvConfig",
        options: &[("s", "namespace", true), ("k", "key", true)],
        line: |given| {
            Ok(Line::change("kv delete")
                .arg(given.need("s")?)
                .arg(given.need("k")?))
        },
    },
    Old {
        name: "getControllerMetaData",
        options: &[("a", "controllerAddress", true)],
        line: |given| controller(Line::read("controller get"), given),
    },
    Old {
        name: "getControllerConfig",
        options: &[("a", "controllerAddress", true)],
        line: |given| controller(Line::read("controller get-config"), given),
    },
    Old {
        name: "updateControllerConfig",
        options: &[
            ("a", "controllerAddress", true),
            ("k", "key", true),
            ("v", "value", true),
        ],
        line: |given| {
            let line = Line::change("controller set-config").arg(format!(
                "{}={}",
                given.need("k")?,
                given.need("v")?
            ));
            controller(line, given)
        },
    },
    Old {
        name: "getSyncStateSet",
        options: &[
            ("a", "controllerAddress", true),
            ("c", "clusterName", true),
            ("b", "brokerName", true),
            ("i", "interval", true),
        ],
        line: |given| {
            let line = brokers(Line::read("controller sync-state"), given);
            Ok(watched(controller(line, given)?, given))
        },
    },
    Old {
        name: "electMaster",
        options: &[
            ("a", "controllerAddress", true),
            ("b", "brokerId", true),
            ("bn", "brokerName", true),
            ("c", "clusterName", true),
        ],
        line: |given| {
            let line =
                Line::change("controller elect").arg(format!("{}:{}", given.need("bn")?, given.need("b")?));
            Ok(
                controller(line, given)?
                    .note(given.has("c"), "-c: the controller knows the broker's cluster"),
            )
        },
    },
    Old {
        name: "cleanBrokerMetadata",
        options: &[
            ("a", "controllerAddress", true),
            ("b", "brokerControllerIdsToClean", true),
            ("bn", "brokerName", true),
            ("c", "clusterName", true),
            ("l", "cleanLivingBroker", false),
        ],
        line: |given| {
            let line = controller(
                Line::change("controller clean-broker").arg(given.need("bn")?),
                given,
            )?;
            let ids = given.get("b").unwrap_or_default();
            let line = ids
                .split(';')
                .map(str::trim)
                .filter(|id| !id.is_empty())
                .fold(line, |line, id| line.opt("--id", Some(id)));
            Ok(line
                .flag("--all", ids.is_empty())
                .flag("--living", given.has("l"))
                .note(given.has("c"), "-c: the controller knows the broker's cluster"))
        },
    },
    Old {
        name: "createUser",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("u", "username", true),
            ("p", "password", true),
            ("t", "userType", true),
        ],
        line: |given| {
            Ok(Line::change("user create")
                .arg(given.need("u")?)
                .opt("--type", user_type(given).as_deref())
                .scope(given)?
                .opt("--password-from", Some(PASSWORD_FROM))
                .secret(given.need("p")?))
        },
    },
    Old {
        name: "updateUser",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("u", "username", true),
            ("p", "password", true),
            ("t", "userType", true),
            ("s", "userStatus", true),
        ],
        line: |given| {
            let line = Line::change("user update")
                .arg(given.need("u")?)
                .opt("--type", user_type(given).as_deref())
                .opt("--status", given.get("s").map(str::to_lowercase).as_deref())
                .scope(given)?;
            match given.get("p") {
                Some(password) => Ok(line.opt("--password-from", Some(PASSWORD_FROM)).secret(password)),
                None => Ok(line),
            }
        },
    },
    Old {
        name: "deleteUser",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("u", "username", true),
        ],
        line: |given| Line::change("user delete").arg(given.need("u")?).scope(given),
    },
    Old {
        name: "getUser",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("u", "username", true),
        ],
        line: |given| Line::read("user get").arg(given.need("u")?).scope(given),
    },
    Old {
        name: "listUser",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("f", "filter", true),
        ],
        line: |given| {
            let line = Line::read("user list");
            match given.get("f") {
                Some(filter) => line.arg(filter),
                None => line,
            }
            .scope(given)
        },
    },
    Old {
        name: "copyUser",
        options: &[
            ("f", "fromBroker", true),
            ("t", "toBroker", true),
            ("u", "usernames", true),
        ],
        line: |given| {
            let line = Line::change("user copy")
                .opt("--from", Some(given.need("f")?))
                .opt("--to", Some(given.need("t")?));
            Ok(names(line, given.get("u")))
        },
    },
    Old {
        name: "createAcl",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("s", "subject", true),
            ("r", "resources", true),
            ("a", "actions", true),
            ("i", "sourceIp", true),
            ("d", "decision", true),
        ],
        line: |given| {
            Line::change("acl create")
                .arg(given.need("s")?)
                .opt("--resource", Some(given.need("r")?))
                .opt("--action", Some(given.need("a")?))
                .opt("--decision", Some(&given.need("d")?.to_lowercase()))
                .opt("--source-ip", given.get("i"))
                .scope(given)
        },
    },
    Old {
        name: "updateAcl",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("s", "subject", true),
            ("r", "resources", true),
            ("a", "actions", true),
            ("i", "sourceIp", true),
            ("d", "decision", true),
        ],
        line: |given| {
            Line::change("acl update")
                .arg(given.need("s")?)
                .opt("--resource", Some(given.need("r")?))
                .opt("--action", Some(given.need("a")?))
                .opt("--decision", Some(&given.need("d")?.to_lowercase()))
                .opt("--source-ip", given.get("i"))
                .scope(given)
        },
    },
    Old {
        name: "deleteAcl",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("s", "subject", true),
            ("r", "resources", true),
        ],
        line: |given| {
            Line::change("acl delete")
                .arg(given.need("s")?)
                .opt("--resource", given.get("r"))
                .scope(given)
        },
    },
    Old {
        name: "getAcl",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("s", "subject", true),
        ],
        line: |given| Line::read("acl get").arg(given.need("s")?).scope(given),
    },
    Old {
        name: "listAcl",
        options: &[
            ("b", "brokerAddr", true),
            ("c", "clusterName", true),
            ("s", "subject", true),
            ("r", "resource", true),
        ],
        line: |given| {
            Line::read("acl list")
                .opt("--subject", given.get("s"))
                .opt("--resource", given.get("r"))
                .scope(given)
        },
    },
    Old {
        name: "copyAcl",
        options: &[
            ("f", "fromBroker", true),
            ("t", "toBroker", true),
            ("s", "subjects", true),
        ],
        line: |given| {
            let line = Line::change("acl copy")
                .opt("--from", Some(given.need("f")?))
                .opt("--to", Some(given.need("t")?));
            Ok(names(line, given.get("s")))
        },
    },
    Old {
        name: "exportMetadata",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("f", "filePath", true),
            ("t", "topic", false),
            ("g", "subscriptionGroup", false),
            ("s", "specialTopic", false),
        ],
        line: |given| {
            let what = match (given.has("t"), given.has("g")) {
                (true, false) => "export topics",
                (false, true) => "export groups",
                _ => "export all",
            };
            Ok(export(what, "metadata.toml", given)
                .opt("--broker", given.get("b"))
                .note(given.has("s"), "-s: system topics are not exported")
                .note(true, "queue numbers stand for each broker; mqadmin added them up"))
        },
    },
    Old {
        name: "exportConfigs",
        options: &[("c", "clusterName", true), ("f", "filePath", true)],
        line: |given| Ok(export("export config --mqadmin", "configs.json", given)),
    },
    Old {
        name: "exportMetrics",
        options: &[("c", "clusterName", true), ("f", "filePath", true)],
        line: |given| Ok(export("export metrics --mqadmin", "metrics.json", given)),
    },
    Old {
        name: "exportMetadataInRocksDB",
        options: &[
            ("p", "path", true),
            ("t", "configType", true),
            ("j", "jsonEnable", true),
        ],
        line: |given| {
            let _ = given;
            Err(none(
                "exportMetadataInRocksDB",
                "RocksDB stores are not supported by this version; rmq store config reads the tables of an ordinary store.",
            ))
        },
    },
    Old {
        name: "exportPopRecord",
        options: &[
            ("c", "clusterName", true),
            ("b", "brokerAddr", true),
            ("d", "dryRun", true),
        ],
        line: |given| {
            let dry = given.is_true("d");
            Ok(all(Line::change("broker pop-rollback"), given)
                .flag("--dry-run", dry)
                .note(dry, "-d true is a dry run here; mqadmin sent the real request"))
        },
    },
    Old {
        name: "rocksDBConfigToJson",
        options: &[
            ("t", "configType", true),
            ("p", "configPath", true),
            ("e", "exportFile", true),
            ("j", "jsonEnable", true),
            ("n", "nameserverAddr", true),
            ("c", "cluster", true),
            ("b", "brokerAddr", true),
        ],
        line: |given| {
            if given.get("b").is_none() && given.get("c").is_none() {
                return Err(none(
                    "rocksDBConfigToJson -p",
                    "RocksDB stores are not supported by this version; rmq store config reads the tables of an ordinary store.",
                ));
            }
            Ok(brokers(Line::change("broker export-config"), given)
                .opt("--tables", given.get("t"))
                .note(
                    given.has("p") || given.has("e") || given.has("j"),
                    "-p, -e and -j are of a store on this machine and have no effect beside -b and -c",
                )
                .note(true, "the brokers write the files on their own machines"))
        },
    },
];

/// With the address of the controller.
fn controller(line: Line, given: &Given<'_>) -> Result<Line, Failure> {
    Ok(line.opt("--controller", Some(given.need("a")?)))
}

/// Names joined by commas as arguments.
fn names(line: Line, text: Option<&str>) -> Line {
    text.unwrap_or_default()
        .split(',')
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .fold(line, |line, name| line.arg(name))
}

/// Normal or Super, as ours are spelt.
fn user_type(given: &Given<'_>) -> Option<String> {
    given.get("t").map(str::to_lowercase)
}

/// Where the new command finds the password of an old line: a secret is not repeated on a command line.
const PASSWORD_FROM: &str = "env:RMQ_MQADMIN_PASSWORD";
