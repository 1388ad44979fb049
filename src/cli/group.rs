//! `rmq group`: list, lag, clients. One group in full is in `group_read`, changes in `group_change`.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;

use super::exit::Failure;
pub use super::lag::not_found;
use super::lag::{self, LagArgs};
use super::output::{Cell, Listing, col, wide};
use super::reset::{self, CloneArgs, ResetArgs, SkipArgs};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use super::{consumer, group_change, group_read};
use crate::client::Which;
use crate::client::admin::group::{KnownGroups, is_system};
use crate::protocol::model::version_name;

/// Commands on consumer groups.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the groups, those that only have offsets left as well
    List {
        /// The brokers' own groups as well
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the backlog of groups, the most lagging queue first
    Lag(LagArgs),
    /// Move a group to a time or an offset; shows what would happen unless --execute is given
    Reset(ResetArgs),
    /// Move a group to the end of a topic; shows what would happen unless --execute is given
    Skip(SkipArgs),
    /// Give a group the committed offsets of another one
    CloneOffsets(CloneArgs),
    /// Show the online clients of a group
    Clients {
        /// Group name
        group: String,
        /// Their thread stacks instead; nothing is written to disk
        #[arg(long)]
        stack: bool,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    #[command(flatten)]
    Read(group_read::Command),
    #[command(flatten)]
    Change(group_change::Command),
}

/// Runs a group command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { all, scope, watch } => {
            watch::print(session, &watch, || list(session, all, &scope)).await
        }
        Command::Lag(args) => lag::run(session, &args).await,
        Command::Reset(args) => reset::reset(session, args).await,
        Command::Skip(args) => reset::skip(session, args).await,
        Command::CloneOffsets(args) => reset::clone_offsets(session, args).await,
        Command::Clients {
            group,
            stack: true,
            scope,
            ..
        } => consumer::group_stacks(session, &group, &scope).await,
        Command::Clients {
            group, scope, watch, ..
        } => watch::print(session, &watch, || clients(session, &group, &scope)).await,
        Command::Read(command) => group_read::run(session, command).await,
        Command::Change(command) => group_change::run(session, command).await,
    }
}

fn failures(known: &KnownGroups) -> Vec<Failure> {
    known.failed.iter().map(|(_, e)| Failure::from(e)).collect()
}

async fn list(session: &Session, all: bool, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let known = session.client.known_groups(&brokers).await;
    let mut listing = Listing::new(
        "GroupList",
        &[
            col("name"),
            col("state"),
            col("brokers"),
            col("consume"),
            col("broadcast"),
            col("orderly"),
            col("retry_max"),
            wide("retry_queues"),
            wide("topics"),
        ],
    );
    for (name, group) in &known.groups {
        if !all && is_system(name) {
            continue;
        }
        let flag = |flag: &dyn Fn(&crate::protocol::body::SubscriptionGroupConfig) -> bool| -> Cell {
            let values: BTreeSet<bool> = group.configs.values().map(flag).collect();
            match (values.contains(&true), values.contains(&false)) {
                (true, true) => "mixed".into(),
                (false, false) => Cell::Unknown,
                (yes, _) => yes.into(),
            }
        };
        let first = group.configs.values().next();
        let topics: BTreeSet<&String> = group.offsets.values().flatten().collect();
        listing.push(vec![
            name.as_str().into(),
            if first.is_some() {
                "configured"
            } else {
                // Left behind by a deleted group.
                "offsets only"
            }
            .into(),
            group.configs.len().max(group.offsets.len()).into(),
            flag(&|c| c.consume_enable),
            flag(&|c| c.consume_broadcast_enable),
            flag(&|c| c.consume_message_orderly),
            first.map(|c| c.retry_max_times).into(),
            first.map(|c| c.retry_queue_nums).into(),
            topics.into_iter().cloned().collect::<Vec<_>>().into(),
        ]);
    }
    listing.errors = failures(&known);
    Ok(Rows {
        some_answered: listing.errors.len() < brokers.len(),
        listing,
    })
}

async fn clients(session: &Session, group: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::All).await?;
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers.clone(), |broker| async move {
            let answer = client.group_clients(&broker.server(), group, deadline).await;
            (broker, answer)
        })
        .await;
    let mut listing = Listing::new(
        "GroupClients",
        &[
            col("client"),
            col("addr"),
            col("language"),
            col("version"),
            col("brokers"),
        ],
    );
    let mut by_client: BTreeMap<String, (String, String, String, Vec<String>)> = BTreeMap::new();
    let (mut answered, mut shape) = (false, None);
    for (broker, answer) in answers {
        match answer {
            Ok(connection) => {
                answered = true;
                let Some(connection) = connection else { continue };
                for c in &connection.connection_set {
                    by_client
                        .entry(c.client_id.clone())
                        .or_insert_with(|| {
                            (
                                c.client_addr.clone(),
                                c.language.name().to_owned(),
                                version_name(c.version),
                                Vec::new(),
                            )
                        })
                        .3
                        .push(broker.id.to_string());
                }
                shape = Some(connection);
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    for (client, (addr, language, version, brokers)) in by_client {
        listing.push(vec![
            client.into(),
            addr.into(),
            language.into(),
            version.into(),
            brokers.into(),
        ]);
    }
    match shape {
        Some(c) => {
            let subscriptions: Vec<String> = c
                .subscription_table
                .values()
                .map(|s| format!("{} {}", s.topic, s.sub_string))
                .collect();
            listing
                .summary
                .insert("type".into(), c.consume_type.name().into());
            listing
                .summary
                .insert("model".into(), c.message_model.name().into());
            listing
                .summary
                .insert("from".into(), c.consume_from_where.name().into());
            session.note(&format!(
                "{group}: {}, {}, {}; subscribes to {}",
                c.consume_type,
                c.message_model,
                c.consume_from_where,
                subscriptions.join(", ")
            ));
            listing
                .summary
                .insert("subscriptions".into(), subscriptions.into());
        }
        None if listing.errors.is_empty() => {
            if let Some(failure) = not_found(session, &brokers, group).await {
                return Err(failure);
            }
            session.note(&format!("{group}: no client is online"));
        }
        None => {}
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}
