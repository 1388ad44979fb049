//! `rmq broker clean-*|pop-rollback|export-config`: work that a broker is told to do, which nothing undoes.

use std::collections::BTreeMap;

use clap::Args;

use super::broker::{cluster_of, named};
use super::broker_look::{JAVA_ONLY, without_rocksdb};
use super::change::{self, Class, Outcome, Plan, Step, Undo, Unread};
use super::exit::{self, Failure};
use super::session::Session;
use crate::client::admin::broker::CleanUp;
use crate::client::admin::config::ConfigOf;
use crate::client::{BrokerAt, BrokerSelector, RuntimeInfo, Which};

/// Which brokers work.
#[derive(Debug, Clone, Args)]
pub struct CleanArgs {
    /// NAME, NAME:ID or HOST:PORT; masters and slaves of the cluster when none is named
    broker: Vec<BrokerSelector>,
    /// Brokers of this cluster
    #[arg(short, long, value_name = "NAME")]
    cluster: Option<String>,
}

/// `rmq broker export-config`
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// NAME, NAME:ID or HOST:PORT; masters and slaves of the cluster when none is named
    broker: Vec<BrokerSelector>,
    /// Brokers of this cluster
    #[arg(short, long, value_name = "NAME")]
    cluster: Option<String>,
    /// Tables to write, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "TABLE",
          default_values = ["topics", "subscriptionGroups", "consumerOffsets"],
          value_parser = ["topics", "subscriptionGroups", "consumerOffsets"])]
    tables: Vec<String>,
}

/// What a command line chose.
struct Chosen {
    brokers: Vec<BrokerAt>,
    cluster: String,
    object: String,
    /// A broker or the cluster stands in the command line.
    by_name: bool,
}

/// The brokers, and what must be typed to go on: the first broker named, else the cluster.
async fn chosen(
    session: &Session,
    broker: Vec<BrokerSelector>,
    cluster: Option<String>,
) -> Result<Chosen, Failure> {
    let by_name = !broker.is_empty() || cluster.is_some();
    let scope = named(broker, cluster);
    let brokers = scope.brokers(session, Which::AllToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let cluster = cluster_of(&brokers);
    let object = scope
        .broker
        .first()
        .map_or_else(|| cluster.clone(), |b| b.0.clone());
    Ok(Chosen {
        brokers,
        cluster,
        object,
        by_name,
    })
}

/// What is cleaned, what stands before it, what afterwards.
fn words(what: CleanUp) -> (&'static str, &'static str, &'static str) {
    match what {
        CleanUp::ExpiredQueues => (
            "clean expired consume queues",
            "consume queues",
            "files behind the log are deleted",
        ),
        CleanUp::ExpiredLog => (
            "delete expired commit log segments",
            "commit log",
            "expired segments are deleted at the next round",
        ),
        CleanUp::UnusedTopics => (
            "delete queues of topics without configuration",
            "consume queues",
            "queues of unknown topics are deleted",
        ),
    }
}

fn state(what: CleanUp, info: &RuntimeInfo) -> String {
    match what {
        CleanUp::ExpiredLog => format!(
            "first byte {}, disk {}",
            info.commit_log_min
                .map_or_else(|| "unknown".to_owned(), |at| at.to_string()),
            info.commit_log_disk_ratio
                .map_or_else(|| "unknown".to_owned(), |r| format!("{:.0}%", r * 100.0))
        ),
        CleanUp::ExpiredQueues | CleanUp::UnusedTopics => format!(
            "disk {}",
            info.consume_queue_disk_ratio
                .map_or_else(|| "unknown".to_owned(), |r| format!("{:.0}%", r * 100.0))
        ),
    }
}

/// `rmq broker clean-cq|clean-commitlog|clean-unused-topics`
pub async fn clean(session: &Session, args: CleanArgs, what: CleanUp) -> Result<(), Failure> {
    let client = &session.client;
    let Chosen {
        brokers,
        cluster,
        object,
        by_name,
    } = chosen(session, args.broker, args.cluster).await?;
    let (action, field, after) = words(what);
    let looked = client
        .each(brokers, |broker| async move {
            let info = client.broker_runtime(&broker.server(), client.deadline()).await;
            (broker, info)
        })
        .await;
    let mut plan = Plan {
        action: action.into(),
        object,
        cluster,
        class: Class::C,
        steps: Vec::new(),
        impact: vec![
            match what {
                CleanUp::ExpiredLog => "messages older than fileReservedTime are gone, consumed or not",
                CleanUp::ExpiredQueues => "only places of messages that are gone already are lost",
                CleanUp::UnusedTopics => "messages of topics without configuration cannot be found again",
            }
            .into(),
        ],
    };
    for (broker, info) in &looked {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: field.into(),
            before: info
                .as_ref()
                .map_or_else(|e| e.reason(), |info| state(what, info)),
            after: after.into(),
        });
    }
    if !by_name {
        change::want_name(session, &plan)?;
    }
    let gone = Undo::Never("what was deleted is gone");
    change::execute(session, plan, gone, async |plan| {
        let done = client
            .each(looked, |(broker, _)| async move {
                let server = broker.server();
                client.clean(&server, what, client.deadline()).await?;
                Ok(client.broker_runtime(&server, client.deadline()).await)
            })
            .await;
        let mut outcomes = Vec::new();
        for (step, answer) in plan.steps.iter_mut().zip(done) {
            match answer {
                Ok(Ok(info)) => {
                    step.after = match what {
                        CleanUp::ExpiredLog => format!("{}; {after}", state(what, &info)),
                        CleanUp::ExpiredQueues | CleanUp::UnusedTopics => state(what, &info),
                    };
                    outcomes.push(Outcome::Done);
                }
                Ok(Err(e)) => outcomes.push(Outcome::DoneBut(format!(
                    "but its state was not read afterwards: {}",
                    e.reason()
                ))),
                Err(failure) => outcomes.push(Outcome::Failed(failure)),
            }
        }
        outcomes
    })
    .await
}

/// What a broker needs in its configuration to do a piece of work; Java's answers SUCCESS without it and does nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// POP records in RocksDB (`transferPopToFsStore` of 5.3.3).
    PopStore,
    /// Tables in RocksDB (`exportRocksDBConfigToJson`).
    Tables,
    /// Consume queues in files and in RocksDB at once (`doCheckRocksdbCqWriteProgress`).
    BothQueues,
}

impl Need {
    /// What stands in the way.
    fn missing(self, config: &BTreeMap<String, String>) -> Option<String> {
        let value = |key: &str| config.get(key).map(String::as_str);
        let is_rocksdb = value("storeType").is_some_and(|v| v.eq_ignore_ascii_case("defaultRocksDB"));
        let is_on = |key: &str| value(key).is_some_and(|v| v.eq_ignore_ascii_case("true"));
        match self {
            Self::PopStore if !is_on("popConsumerKVServiceInit") => {
                Some("it keeps no POP records in RocksDB: popConsumerKVServiceInit is not true".into())
            }
            Self::Tables if !is_rocksdb => {
                Some("it keeps no tables in RocksDB: storeType is not defaultRocksDB".into())
            }
            Self::Tables if value("configManagerVersion") == Some("v2") => {
                Some("its RocksDB tables are not exported: configManagerVersion is v2".into())
            }
            Self::BothQueues if is_rocksdb => {
                Some("it has no file queues to compare with: storeType is defaultRocksDB".into())
            }
            Self::BothQueues if !is_on("rocksdbCQDoubleWriteEnable") => {
                Some("it has no RocksDB queues to compare: rocksdbCQDoubleWriteEnable is not true".into())
            }
            _ => None,
        }
    }
}

/// The brokers that can do the work, and the others with the reason.
pub async fn able(session: &Session, brokers: Vec<BrokerAt>, need: Need) -> (Vec<BrokerAt>, Vec<Unread>) {
    let client = &session.client;
    let read = client
        .each(brokers, |broker| async move {
            let deadline = client.deadline();
            let config = client
                .server_config(ConfigOf::Broker, &broker.server(), deadline)
                .await;
            (broker, config)
        })
        .await;
    let (mut able, mut not) = (Vec::new(), Vec::new());
    for (broker, config) in read {
        let server = broker.server();
        match config {
            Err(e) => not.push(Unread::at(server, Failure::from(&e))),
            Ok(config) => match need.missing(&config.entries) {
                None => able.push(broker),
                Some(what) => {
                    let failure = Failure::new(exit::UNSUPPORTED, format!("{server}: {what}"));
                    not.push(Unread::at(server, failure.because(JAVA_ONLY)));
                }
            },
        }
    }
    (able, not)
}

/// `rmq broker pop-rollback`
pub async fn pop_rollback(session: &Session, args: CleanArgs) -> Result<(), Failure> {
    let client = &session.client;
    let Chosen {
        brokers,
        cluster,
        object,
        by_name,
    } = chosen(session, args.broker, args.cluster).await?;
    let (brokers, not) = able(session, brokers, Need::PopStore).await;
    let plan = Plan {
        action: "move POP records from RocksDB to files".into(),
        object,
        cluster,
        class: Class::C,
        steps: steps(
            &brokers,
            "POP records",
            "asked to move them to the store's own files",
        ),
        impact: vec!["for going back to a broker without popConsumerKVServiceEnable".into()],
    };
    if !by_name && !brokers.is_empty() {
        change::want_name(session, &plan)?;
    }
    change::each(
        session,
        plan,
        ("POP records", not),
        brokers,
        Undo::Never("the records do not go back to RocksDB"),
        |broker| async move {
            vec![
                match client.roll_back_pop(&broker.server(), client.deadline()).await {
                    Ok(()) => Outcome::Done,
                    Err(e) => Outcome::Failed(without_rocksdb(&e)),
                },
            ]
        },
    )
    .await
}

/// `rmq broker export-config`
pub async fn export_tables(session: &Session, args: ExportArgs) -> Result<(), Failure> {
    let client = &session.client;
    let Chosen {
        brokers,
        cluster,
        object,
        by_name: _,
    } = chosen(session, args.broker, args.cluster).await?;
    let (brokers, not) = able(session, brokers, Need::Tables).await;
    let plan = Plan {
        action: format!("write {} as JSON", args.tables.join(", ")),
        object,
        cluster,
        class: Class::A,
        steps: steps(
            &brokers,
            "RocksDB tables",
            "asked for JSON files on the broker's machine",
        ),
        impact: vec!["the files are written under the brokers' own store directories, not here".into()],
    };
    let (tables, not) = (&args.tables, ("RocksDB tables", not));
    let stay = Undo::Never("the files stay on the brokers' machines");
    change::each(session, plan, not, brokers, stay, |broker| async move {
        let (server, deadline) = (broker.server(), client.deadline());
        vec![
            match client.export_rocksdb_tables(&server, tables, deadline).await {
                Ok(()) => Outcome::Done,
                Err(e) => Outcome::Failed(without_rocksdb(&e)),
            },
        ]
    })
    .await
}

fn steps(brokers: &[BrokerAt], field: &str, after: &str) -> Vec<Step> {
    brokers
        .iter()
        .map(|broker| Step {
            target: broker.server().to_string(),
            field: field.into(),
            before: "-".into(),
            after: after.into(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn java_does_nothing_without_these_keys() {
        let config = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        };
        let java = config(&[
            ("popConsumerKVServiceInit", "false"),
            ("storeType", "default"),
            ("configManagerVersion", "v1"),
            ("rocksdbCQDoubleWriteEnable", "false"),
        ]);
        for (need, key) in [
            (Need::PopStore, "popConsumerKVServiceInit"),
            (Need::Tables, "storeType"),
            (Need::BothQueues, "rocksdbCQDoubleWriteEnable"),
        ] {
            assert!(
                need.missing(&java).is_some_and(|why| why.contains(key)),
                "{need:?}"
            );
            assert!(
                need.missing(&config(&[])).is_some(),
                "{need:?} of a broker without the key"
            );
        }
        let both = config(&[("storeType", "default"), ("rocksdbCQDoubleWriteEnable", "true")]);
        assert_eq!(Need::BothQueues.missing(&both), None);
        let tables = config(&[
            ("storeType", "defaultRocksDB"),
            ("rocksdbCQDoubleWriteEnable", "true"),
        ]);
        assert_eq!(Need::Tables.missing(&tables), None);
        assert!(
            Need::BothQueues
                .missing(&tables)
                .is_some_and(|why| why.contains("storeType"))
        );
        let second = config(&[("storeType", "defaultRocksDB"), ("configManagerVersion", "v2")]);
        assert!(
            Need::Tables
                .missing(&second)
                .is_some_and(|why| why.contains("configManagerVersion"))
        );
        assert_eq!(
            Need::PopStore.missing(&config(&[("popConsumerKVServiceInit", "true")])),
            None
        );
    }
}
