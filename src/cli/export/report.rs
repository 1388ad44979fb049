//! `rmq export config|metrics`: settings and figures of brokers, as a listing or as mqadmin wrote them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Map, Value, json};

use crate::cli::diff::{print_to, write_new};
use crate::cli::exit::Failure;
use crate::cli::output::{Cell, Listing, col, wide};
use crate::cli::scope::ScopeArgs;
use crate::cli::session::Session;
use crate::client::admin::config::is_secret;
use crate::client::admin::group::is_system;
use crate::client::doctor::AGREED_SETTINGS;
use crate::client::snapshot::TopicKind;
use crate::client::{BrokerAt, Client, Deadline, Error, Which};
use crate::protocol::body::TopicConfigTable;
use crate::protocol::model::{SCHEDULE_TOPIC, version_name};

/// What `export config|metrics` takes.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// File to write, as JSON unless -o says another form; - is stdout. A file that exists is not overwritten
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// The JSON document that mqadmin's exportConfigs or exportMetrics writes, of masters only
    #[arg(long)]
    mqadmin: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// What `export config` takes.
#[derive(Debug, Clone, Args)]
pub struct ConfigArgs {
    /// Every setting, not only those on which brokers should agree
    #[arg(short, long, conflicts_with = "mqadmin")]
    all: bool,
    #[command(flatten)]
    report: ReportArgs,
}

/// The settings in mqadmin's file.
const MQADMIN_SETTINGS: [&str; 16] = [
    "brokerClusterName",
    "brokerId",
    "brokerName",
    "brokerRole",
    "fileReservedTime",
    "filterServerNums",
    "flushDiskType",
    "maxMessageSize",
    "messageDelayLevel",
    "msgTraceTopicName",
    "slaveReadEnable",
    "traceOn",
    "traceTopicEnable",
    "useTLS",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
];

/// Where half messages are.
const HALF_TOPIC: &str = "RMQ_SYS_TRANS_HALF_TOPIC";

/// Runs `rmq export config`.
pub async fn config(session: &Session, args: &ConfigArgs) -> Result<(), Failure> {
    if args.report.mqadmin {
        return mqadmin_config(session, &args.report).await;
    }
    let brokers = args.report.scope.brokers(session, Which::All).await?;
    let client = &session.client;
    let deadline = client.deadline();
    let asked = brokers.len();
    let answers = client
        .each(brokers, |broker| async move {
            let config = client.broker_config(&broker.server(), deadline).await;
            (broker, config)
        })
        .await;
    let mut listing = Listing::new(
        "ConfigExport",
        &[col("cluster"), col("broker"), col("key"), col("value")],
    );
    for (broker, config) in answers {
        match config {
            Ok(config) => {
                for (key, value) in &config {
                    if args.all || AGREED_SETTINGS.contains(&key.as_str()) {
                        listing.push(vec![
                            broker.id.cluster.as_str().into(),
                            broker.id.to_string().into(),
                            key.as_str().into(),
                            if is_secret(key) { "***" } else { value }.into(),
                        ]);
                    }
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    let verdict = Failure::over(&listing.errors, listing.errors.len() < asked);
    print_to(session, listing, args.report.out.as_ref())?;
    verdict
}

/// Runs `rmq export metrics`.
pub async fn metrics(session: &Session, args: &ReportArgs) -> Result<(), Failure> {
    if args.mqadmin {
        return mqadmin_metrics(session, args).await;
    }
    let brokers = args.scope.brokers(session, Which::All).await?;
    let client = &session.client;
    let deadline = client.deadline();
    let asked = brokers.len();
    let answers = client
        .each(brokers, |broker| async move {
            let server = broker.server();
            let (runtime, topics, groups) = tokio::join!(
                client.broker_runtime(&server, deadline),
                client.broker_topics(&server, deadline),
                client.broker_groups(&server, deadline),
            );
            (broker, runtime, topics, groups)
        })
        .await;
    let mut listing = Listing::new(
        "MetricsExport",
        &[
            col("cluster"),
            col("broker"),
            col("version"),
            col("in_tps_10s"),
            col("out_tps_10s"),
            col("put_today"),
            col("put_yesterday"),
            col("get_today"),
            col("get_yesterday"),
            col("message_bytes_average"),
            col("put_p99_ms"),
            col("disk"),
            col("log_bytes"),
            col("topics"),
            col("queues"),
            col("groups"),
            wide("earliest_message"),
            wide("dispatch_behind_bytes"),
        ],
    );
    for (broker, runtime, topics, groups) in answers {
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(e) => {
                listing.errors.push(Failure::from(&e));
                continue;
            }
        };
        let users: Option<Vec<i32>> = topics.ok().map(|table| user_topics(&broker, &table).collect());
        let bytes = runtime
            .commit_log_max
            .zip(runtime.commit_log_min)
            .map(|(max, min)| max.saturating_sub(min));
        listing.push(vec![
            broker.id.cluster.as_str().into(),
            broker.id.to_string().into(),
            runtime.version.clone().into(),
            runtime.put_tps.s10.into(),
            runtime.transferred_tps.s10.into(),
            runtime.put_today.into(),
            runtime.put_yesterday.into(),
            runtime.get_today.into(),
            runtime.get_yesterday.into(),
            runtime.put_average_bytes.into(),
            runtime.put_p99_ms.into(),
            runtime.commit_log_disk_ratio.map_or(Cell::Unknown, Cell::Ratio),
            bytes.into(),
            users.as_ref().map(Vec::len).into(),
            users
                .as_ref()
                .map(|counts| counts.iter().map(|n| i64::from(*n)).sum::<i64>())
                .into(),
            groups
                .ok()
                .map(|table| {
                    table
                        .subscription_group_table
                        .keys()
                        .filter(|g| !is_system(g))
                        .count()
                })
                .into(),
            Cell::time(runtime.earliest_message_ms),
            runtime.dispatch_behind_bytes.into(),
        ]);
    }
    let verdict = Failure::over(&listing.errors, listing.errors.len() < asked);
    print_to(session, listing, args.out.as_ref())?;
    verdict
}

/// Topics that users made, of a broker's table.
fn user_topics<'a>(broker: &BrokerAt, table: &'a TopicConfigTable) -> impl Iterator<Item = i32> + use<'a> {
    let servers: BTreeSet<String> = [broker.id.name.clone(), broker.id.cluster.clone()].into();
    let users = table
        .topic_config_table
        .iter()
        .filter(move |(name, _)| crate::client::admin::topic::kind(name, &servers) == TopicKind::User);
    users.map(|(_, config)| config.write_queue_nums)
}

/// Writes a document where `--out` says.
fn write(args: &ReportArgs, document: &Value) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut bytes = serde_json::to_vec_pretty(document).map_err(std::io::Error::from)?;
    bytes.push(b'\n');
    match args.out.as_ref().filter(|path| path.as_os_str() != "-") {
        Some(path) => write_new(path, &bytes),
        None => Ok(std::io::stdout().lock().write_all(&bytes)?),
    }
}

/// Answers of masters by broker name, and why others gave none.
fn by_name<T>(answers: Vec<(BrokerAt, Result<T, Error>)>) -> (BTreeMap<String, T>, Vec<Failure>) {
    let (mut told, mut failures) = (BTreeMap::new(), Vec::new());
    for (broker, answer) in answers {
        match answer {
            Ok(answer) => {
                told.insert(broker.id.name, answer);
            }
            Err(e) => failures.push(Failure::from(&e)),
        }
    }
    (told, failures)
}

async fn mqadmin_config(session: &Session, args: &ReportArgs) -> Result<(), Failure> {
    let brokers = args.scope.brokers(session, Which::All).await?;
    let (masters, slaves): (Vec<BrokerAt>, Vec<BrokerAt>) =
        brokers.into_iter().partition(|broker| broker.id.is_master());
    let scale = json!({
        "namesrvSize": session.name_servers.len(),
        "masterBrokerSize": masters.len(),
        "slaveBrokerSize": slaves.len(),
    });
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(masters, |broker| async move {
            let config = client.broker_config(&broker.server(), deadline).await;
            (broker, config)
        })
        .await;
    let (told, failures) = by_name(answers);
    let configs: Map<String, Value> = told
        .into_iter()
        .map(|(name, mut config)| {
            config.retain(|key, _| MQADMIN_SETTINGS.contains(&key.as_str()));
            (name, json!(config))
        })
        .collect();
    let verdict = Failure::over(&failures, !configs.is_empty());
    write(args, &json!({ "brokerConfigs": configs, "clusterScale": scale }))?;
    verdict
}

/// What mqadmin says of one broker, and its part of the totals.
struct Figures {
    report: Value,
    tps: [f64; 4],
    day: [i64; 4],
}

async fn mqadmin_metrics(session: &Session, args: &ReportArgs) -> Result<(), Failure> {
    let brokers = args.scope.brokers(session, Which::Masters).await?;
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers, |broker| async move {
            let figures = figures(client, &broker, deadline).await;
            (broker, figures)
        })
        .await;
    let (told, failures) = by_name(answers);
    let tps = |n: usize| told.values().map(|figures| figures.tps[n]).sum::<f64>();
    let day = |n: usize| told.values().map(|figures| figures.day[n]).sum::<i64>();
    let totals = json!({
        "totalTps": {
            "totalNormalInTps": tps(0),
            "totalNormalOutTps": tps(1),
            "totalTransInTps": tps(2),
            "totalScheduleInTps": tps(3),
        },
        "totalOneDayNum": {
            "normalOneDayInNum": day(0),
            "normalOneDayOutNum": day(1),
            "transOneDayInNum": day(2),
            "scheduleOneDayInNum": day(3),
        },
    });
    let verdict = Failure::over(&failures, !told.is_empty());
    let reports: Map<String, Value> = told
        .into_iter()
        .map(|(name, figures)| (name, figures.report))
        .collect();
    write(args, &json!({ "evaluateReport": reports, "totalData": totals }))?;
    verdict
}

async fn figures(client: &Client, broker: &BrokerAt, deadline: Deadline) -> Result<Figures, Error> {
    let server = broker.server();
    let (runtime, config, topics, groups, half, schedule) = tokio::try_join!(
        client.broker_runtime(&server, deadline),
        client.broker_config(&server, deadline),
        client.broker_topics(&server, deadline),
        client.broker_groups(&server, deadline),
        client.topic_put(&server, HALF_TOPIC, deadline),
        client.topic_put(&server, SCHEDULE_TOPIC, deadline),
    )?;
    let groups: Vec<&String> = groups
        .subscription_group_table
        .keys()
        .filter(|group| !is_system(group))
        .collect();
    let clients = client
        .each(groups.clone(), |group| {
            client.group_clients(&server, group, deadline)
        })
        .await;
    // A group that cannot be asked about is left out, as in mqadmin.
    let clients: BTreeSet<String> = clients
        .into_iter()
        .filter_map(|answer| answer.ok().flatten())
        .flat_map(|connection| connection.connection_set)
        .map(|one| format!("{}%{}", one.language.name(), version_name(one.version)))
        .collect();
    let text = |key: &str| runtime.entries.get(key);
    let tps = [
        runtime.put_tps.s10.unwrap_or(0.0),
        runtime.transferred_tps.s10.unwrap_or(0.0),
        half.tps,
        schedule.tps,
    ];
    let day = [
        runtime.put_yesterday.unwrap_or(0),
        runtime.get_yesterday.unwrap_or(0),
        half.day,
        schedule.day,
    ];
    let mut report = json!({
        "runtimeEnv": {
            "cpuNum": config.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": text("totalMemKBytes"),
        },
        "runtimeQuota": {
            "diskRatio": {
                "commitLogDiskRatio": text("commitLogDiskRatio"),
                "consumeQueueDiskRatio": text("consumeQueueDiskRatio"),
            },
            "tps": {
                "normalInTps": tps[0],
                "normalOutTps": tps[1],
                "transInTps": tps[2],
                "scheduleInTps": tps[3],
            },
            "oneDayNum": {
                "normalOneDayInNum": day[0],
                "normalOneDayOutNum": day[1],
                "transOneDayInNum": day[2],
                "scheduleOneDayInNum": day[3],
            },
            "messageAverageSize": text("putMessageAverageSize"),
            "topicSize": user_topics(broker, &topics).count(),
            "groupSize": groups.len(),
        },
        "runtimeVersion": { "rocketmqVersion": runtime.version, "clientInfo": clients },
    });
    leave_out_unknown(&mut report);
    Ok(Figures { report, tps, day })
}

/// mqadmin writes no key without a value.
fn leave_out_unknown(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|_, field| !field.is_null());
        fields.values_mut().for_each(leave_out_unknown);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_exported() {
        for key in [
            "initAuthenticationUser",
            "innerClientAuthenticationCredentials",
            "tlsKeyPassword",
            "secretKey",
        ] {
            assert!(is_secret(key), "{key}");
        }
        assert!(!is_secret("fileReservedTime"));
    }
}
