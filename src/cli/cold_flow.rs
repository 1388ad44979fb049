//! `rmq broker cold-flow list|set|unset`.

use clap::Subcommand;
use serde_json::json;

use super::broker::{cluster_of, named};
use super::change::{self, Class, Plan, Step, Unread};
use super::exit::Failure;
use super::output::{Cell, Listing, col, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use super::{quoted, size};
use crate::client::{BrokerSelector, Error, Which};

/// Commands on cold reads.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List thresholds, and what groups read cold in the present five seconds
    List {
        /// NAME, NAME:ID or HOST:PORT; every broker when none is named
        broker: Vec<BrokerSelector>,
        /// Only this cluster
        #[arg(short, long, value_name = "NAME")]
        cluster: Option<String>,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Set how much a group may read cold in five seconds; brokers keep it in memory alone
    Set {
        /// Consumer group
        group: String,
        /// Bytes in five seconds, such as 3MiB
        #[arg(value_parser = size::parse)]
        threshold: i64,
        #[command(flatten)]
        scope: ScopeArgs,
    },
    /// Remove a group's own threshold
    Unset {
        /// Consumer group
        group: String,
        #[command(flatten)]
        scope: ScopeArgs,
    },
}

/// Runs a command on cold reads.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List {
            broker,
            cluster,
            watch,
        } => {
            let scope = named(broker, cluster);
            watch::print(session, &watch, || list(session, &scope)).await
        }
        Command::Set {
            group,
            threshold,
            scope,
        } => set(session, &group, Some(threshold), &scope).await,
        Command::Unset { group, scope } => set(session, &group, None, &scope).await,
    }
}

async fn list(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::All).await?;
    let mut listing = Listing::new(
        "ColdFlowList",
        &[
            col("group"),
            col("broker"),
            col("threshold"),
            col("own_threshold"),
            col("cold_bytes"),
            col("last_cold_read"),
            wide("addr"),
        ],
    );
    let answers = client
        .each(brokers, |broker| async move {
            let info = client.cold_flow(&broker.server(), client.deadline()).await;
            (broker, info)
        })
        .await;
    let mut some_answered = false;
    let mut totals = serde_json::Map::new();
    for (broker, info) in answers {
        let info = match info {
            Ok(info) => info,
            Err(e) => {
                listing.errors.push(Failure::from(&e));
                continue;
            }
        };
        some_answered = true;
        totals.insert(
            broker.id.to_string(),
            json!({
                "cold_bytes": info.global_acc,
                "group_threshold": info.cg_cold_read_threshold,
                "global_threshold": info.global_cold_read_threshold,
            }),
        );
        let mut groups: Vec<&String> = info
            .config_table
            .keys()
            .chain(info.runtime_table.keys())
            .collect();
        groups.sort();
        groups.dedup();
        for group in groups {
            let own = info.config_table.get(group).copied();
            let account = info.runtime_table.get(group);
            listing.push(vec![
                group.as_str().into(),
                broker.id.to_string().into(),
                own.unwrap_or(info.cg_cold_read_threshold).into(),
                own.is_some().into(),
                account.map_or(0, |a| a.cold_acc).into(),
                Cell::time(account.map(|a| a.last_cold_read_time_mills)),
                broker.addr.as_str().into(),
            ]);
        }
    }
    listing.summary.insert("brokers".into(), totals.into());
    Ok(Rows {
        listing,
        some_answered,
    })
}

async fn set(
    session: &Session,
    group: &str,
    threshold: Option<i64>,
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::MastersToWrite).await;
    session.warn_of_dead_name_servers();
    let brokers = brokers?;
    let text = |bytes: Option<i64>| bytes.map_or_else(|| "default".to_owned(), |b| b.to_string());
    let mut plan = Plan {
        action: format!("set the cold read threshold of group {group}"),
        object: group.to_owned(),
        cluster: cluster_of(&brokers),
        class: Class::A,
        steps: Vec::new(),
        impact: vec!["brokers forget it at their next start".into()],
    };
    let (mut work, mut undo, mut off, mut unread) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let read = client
        .each(brokers, |broker| async move {
            let server = broker.server();
            let read = async {
                let info = client.cold_flow(&server, client.deadline()).await?;
                let config = client.look_config(&server, client.deadline()).await?;
                Ok::<_, Error>((info, config))
            };
            let read = read.await;
            (broker, server, read)
        })
        .await;
    for (broker, server, read) in read {
        let (info, config) = match read {
            Ok(read) => read,
            Err(e) => {
                unread.push(Unread::at(&server, Failure::from(&e)));
                continue;
            }
        };
        let before = info.config_table.get(group).copied();
        if before == threshold {
            continue;
        }
        if config
            .entries
            .get("coldDataFlowControlEnable")
            .is_some_and(|v| v == "false")
        {
            off.push(broker.id.name.clone());
        }
        plan.steps.push(Step {
            target: server.to_string(),
            field: "threshold".into(),
            before: text(before),
            after: text(threshold),
        });
        let group = quoted(group);
        undo.push(match before {
            Some(bytes) => format!(
                "rmq broker cold-flow set {group} {bytes} --broker {}",
                broker.addr
            ),
            None => format!("rmq broker cold-flow unset {group} --broker {}", broker.addr),
        });
        work.push(server);
    }
    if !off.is_empty() {
        plan.impact.push(format!(
            "without effect until coldDataFlowControlEnable=true on {}",
            off.join(", ")
        ));
    }
    let undo = Some(undo.join(" && "));
    change::each(
        session,
        plan,
        ("threshold", unread),
        work,
        undo,
        |server| async move {
            let written = client
                .set_cold_flow(&server, group, threshold, client.deadline())
                .await;
            let read_back = async {
                let now = client.cold_flow(&server, client.deadline()).await?;
                let now = now.config_table.get(group).copied();
                Ok((now != threshold).then(|| format!("reads back {}", text(now))))
            };
            vec![change::proof(written, read_back).await]
        },
    )
    .await
}
