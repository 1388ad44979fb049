//! `rmq group get|describe|check|client-info`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;

use super::consumer;
use super::exit::{self, Failure};
use super::group::not_found;
use super::output::{Cell, Detail, Listing, col, less, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::time;
use super::watch::{self, Objects, Rows, WatchArgs};
use crate::client::Which;
use crate::client::admin::group_check::{Gravity, GroupFinding, GroupView};
use crate::client::admin::group_config::policy_text;
use crate::client::words::counted;
use crate::protocol::body::SubscriptionGroupConfig;
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX, version_name};

/// Commands that read one group.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show a group's configuration on each broker
    Get {
        /// Group name
        group: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show one group: configuration, clients, subscriptions, backlog, dead letters, what is wrong
    Describe {
        /// Group name
        group: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Check one group; exit code 10 with warnings, 11 with errors
    Check {
        /// Group name
        group: String,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show what the clients of a group hold, one row a queue, as they tell it themselves
    ClientInfo {
        /// Group name
        group: String,
        /// Only this client
        #[arg(long, value_name = "ID")]
        client: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
}

/// Runs a command that reads one group.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Get { group, scope, watch } => {
            watch::print(session, &watch, || get(session, &group, &scope)).await
        }
        Command::Describe { group, scope, watch } => {
            watch::print(session, &watch, || describe(session, &group, &scope)).await
        }
        Command::Check { group, scope, watch } if watch.interval().is_some() => {
            watch::print(session, &watch, || async {
                let view = view(session, &group, &scope).await?;
                Ok(checks(&view, &view.findings(time::now_ms())))
            })
            .await
        }
        Command::Check { group, scope, .. } => check(session, &group, &scope).await,
        Command::ClientInfo {
            group,
            client,
            scope,
            watch,
        } => {
            watch::print(session, &watch, || {
                consumer::held_queues(session, &group, client.as_deref(), &scope)
            })
            .await
        }
    }
}

fn config_columns() -> Listing {
    Listing::new(
        "GroupConfig",
        &[
            col("broker"),
            col("consume"),
            col("broadcast"),
            col("orderly"),
            col("retry_max"),
            col("retry_queues"),
            col("retry_policy"),
            col("read_from"),
            col("slow_read_from"),
            wide("from_min"),
            wide("notify_change"),
            wide("consume_timeout_min"),
            wide("attributes"),
            wide("addr"),
            wide("cluster"),
        ],
    )
}

fn config_row(broker: &str, addr: &str, cluster: &str, config: &SubscriptionGroupConfig) -> Vec<Cell> {
    vec![
        broker.into(),
        config.consume_enable.into(),
        config.consume_broadcast_enable.into(),
        config.consume_message_orderly.into(),
        config.retry_max_times.into(),
        config.retry_queue_nums.into(),
        policy_text(&config.group_retry_policy).into(),
        config.broker_id.into(),
        config.which_broker_when_consume_slowly.into(),
        config.consume_from_min_enable.into(),
        config.notify_consumer_ids_changed_enable.into(),
        config.consume_timeout_minute.into(),
        Cell::Pairs(config.attributes.clone().into_iter().collect()),
        addr.into(),
        cluster.into(),
    ]
}

async fn get(session: &Session, group: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let mut listing = config_columns();
    for (broker, answer) in session.client.group_configs(&brokers, group).await {
        match answer {
            Ok(Some(config)) => listing.push(config_row(
                &broker.id.name,
                &broker.addr,
                &broker.id.cluster,
                &config,
            )),
            Ok(None) => {}
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        return Err(match not_found(session, &brokers, group).await {
            Some(failure) => failure,
            None => Failure::new(
                exit::NOT_FOUND,
                format!("group \"{group}\" has no configuration, only committed offsets"),
            )
            .hint(format!("rmq group create {group}")),
        });
    }
    Ok(Rows {
        some_answered: !listing.rows.is_empty(),
        listing,
    })
}

/// The group with everything around it; unknown to all brokers is a failure.
async fn view(session: &Session, group: &str, scope: &ScopeArgs) -> Result<GroupView, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let view = session.client.group_view(&brokers, group, true).await;
    if view.is_unknown() {
        let failures: Vec<Failure> = view.errors.iter().map(Failure::from).collect();
        Failure::over(&failures, false)?;
        if let Some(failure) = not_found(session, &brokers, group).await {
            return Err(failure);
        }
    }
    Ok(view)
}

fn checks(view: &GroupView, findings: &[GroupFinding]) -> Rows {
    let mut listing = Listing::new(
        "GroupCheck",
        &[
            col("check"),
            col("severity"),
            col("evidence"),
            wide("why"),
            col("next"),
        ],
    );
    listing.ordered = true;
    for finding in findings {
        listing.push(vec![
            finding.check.into(),
            match finding.gravity {
                Gravity::Warning => "warning",
                Gravity::Error => "error",
            }
            .into(),
            finding.evidence.as_str().into(),
            finding.why.into(),
            finding.next.as_str().into(),
        ]);
    }
    listing.summary.insert("group".into(), view.name.clone().into());
    listing
        .summary
        .insert("clients".into(), view.clients.ids().len().into());
    let silent: Vec<&str> = view
        .running
        .iter()
        .filter(|(_, info)| info.is_err())
        .map(|(client, _)| client.as_str())
        .collect();
    listing.summary.insert("silent_clients".into(), silent.into());
    listing.errors = view.errors.iter().map(Failure::from).collect();
    Rows {
        listing,
        some_answered: true,
    }
}

async fn check(session: &Session, group: &str, scope: &ScopeArgs) -> Result<(), Failure> {
    let view = view(session, group, scope).await;
    session.warn_of_dead_name_servers();
    let view = view?;
    let findings = view.findings(time::now_ms());
    let rows = checks(&view, &findings);
    let partial = Failure::over(&rows.listing.errors, true);
    for (client, info) in &view.running {
        if let Err(e) = info {
            session.warn(&format!("{client} does not tell what it holds: {}", e.reason()));
        }
    }
    if findings.is_empty() && partial.is_ok() {
        session.note(&format!(
            "{group}: nothing found ({})",
            counted(view.clients.ids().len(), "client")
        ));
    }
    let any = !findings.is_empty();
    if any || !session.is_table() {
        session.printer.print(rows.listing)?;
    }
    partial?;
    match findings.iter().map(|f| f.gravity).max() {
        None => Ok(()),
        Some(gravity) => Err(Failure::new(
            match gravity {
                Gravity::Warning => exit::WARNINGS,
                Gravity::Error => exit::ERRORS,
            },
            match findings.len() {
                1 => format!("{group}: one finding"),
                n => format!("{group}: {}", counted(n, "finding")),
            },
        )),
    }
}

async fn describe(session: &Session, group: &str, scope: &ScopeArgs) -> Result<Objects, Failure> {
    let view = view(session, group, scope).await?;
    let ids = view.clients.ids();
    let shape = view.clients.connections().next().map(|(_, c)| c);
    let lag: Option<i64> = (!view.is_broadcast())
        .then(|| {
            view.queues
                .iter()
                .filter_map(|q| q.lag())
                .reduce(i64::saturating_add)
        })
        .flatten();
    let flags: BTreeSet<bool> = view
        .configs
        .values()
        .flatten()
        .map(|c| c.consume_enable)
        .collect();
    let mut configs = config_columns();
    for (broker, config) in &view.configs {
        if let Some(config) = config {
            configs.push(config_row(broker, "", "", config));
        }
    }
    configs.columns.truncate(13);
    configs.rows.iter_mut().for_each(|row| row.truncate(13));
    let mut clients = Listing::new(
        "GroupClients",
        &[
            col("client"),
            col("addr"),
            less("language"),
            less("version"),
            col("broker_names"),
            col("queues"),
        ],
    );
    let owners = view.owners();
    let mut seen = BTreeSet::new();
    for (_, connection) in view.clients.connections() {
        for client in &connection.connection_set {
            if seen.insert(client.client_id.clone()) {
                clients.push(vec![
                    client.client_id.as_str().into(),
                    client.client_addr.as_str().into(),
                    client.language.name().into(),
                    version_name(client.version).into(),
                    ids.get(&client.client_id)
                        .map(|brokers| brokers.iter().map(|b| b.id.to_string()).collect::<Vec<_>>())
                        .into(),
                    owners
                        .values()
                        .filter(|held| held.contains(&client.client_id))
                        .count()
                        .into(),
                ]);
            }
        }
    }
    let mut subscriptions = Listing::new("Subscriptions", &[col("topic"), col("expression"), col("type")]);
    let mut subscribed = BTreeSet::new();
    for (_, connection) in view.clients.connections() {
        for (topic, s) in &connection.subscription_table {
            if subscribed.insert(topic.clone()) {
                subscriptions.push(vec![
                    topic.as_str().into(),
                    s.sub_string.as_str().into(),
                    s.expression_type.as_str().into(),
                ]);
            }
        }
    }
    let mut backlog = Listing::new(
        "GroupLag",
        &[
            col("topic"),
            col("queues"),
            col("lag").sums(),
            col("max_queue_lag"),
            col("oldest_ms"),
        ],
    );
    let mut by_topic: BTreeMap<&str, Vec<&crate::client::snapshot::GroupLag>> = BTreeMap::new();
    for row in &view.queues {
        by_topic.entry(&row.topic).or_default().push(row);
    }
    for (topic, rows) in by_topic {
        let lags = || {
            rows.iter()
                .filter_map(|r| r.lag())
                .filter(|_| !view.is_broadcast())
        };
        backlog.push(vec![
            topic.into(),
            rows.len().into(),
            lags().reduce(i64::saturating_add).into(),
            lags().max().into(),
            Cell::span(
                view.oldest
                    .iter()
                    .filter(|(place, _)| place.0 == topic)
                    .map(|(_, age)| *age)
                    .max(),
            ),
        ]);
    }
    let paused = !view.paused_on().is_empty();
    let findings = view.findings(time::now_ms());
    let rows = checks(&view, &findings);
    let errors: Vec<Failure> = view.errors.iter().map(Failure::from).collect();
    let detail = Detail {
        kind: "Group",
        fields: vec![
            ("name", group.into()),
            (
                "state",
                match (ids.is_empty(), view.is_broadcast(), paused) {
                    (true, _, false) => "offline",
                    (true, _, true) => "offline, paused",
                    (false, true, false) => "broadcast",
                    (false, true, true) => "broadcast, paused",
                    (false, false, false) => "online",
                    (false, false, true) => "online, paused",
                }
                .into(),
            ),
            ("clients", ids.len().into()),
            ("type", shape.map(|c| c.consume_type.name()).into()),
            ("model", shape.map(|c| c.message_model.name()).into()),
            ("from", shape.map(|c| c.consume_from_where.name()).into()),
            (
                "consume",
                match (flags.contains(&true), flags.contains(&false)) {
                    (true, true) => "mixed".into(),
                    (false, false) => Cell::Unknown,
                    (yes, _) => yes.into(),
                },
            ),
            ("lag", lag.into()),
            ("consume_tps", view.consume_tps.into()),
            (
                "retry_messages",
                view.messages_in(&format!("{RETRY_PREFIX}{group}")).into(),
            ),
            (
                "dead_letters",
                view.messages_in(&format!("{DLQ_PREFIX}{group}")).into(),
            ),
            ("findings", findings.len().into()),
        ],
        tables: vec![
            ("configuration", configs),
            ("connected", clients),
            ("subscriptions", subscriptions),
            ("backlog", backlog),
            ("checks", rows.listing),
        ],
        errors: errors.clone(),
    };
    Ok(Objects {
        details: vec![detail],
        failures: errors,
        some_answered: true,
    })
}
