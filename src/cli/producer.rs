//! `rmq producer`: connected producers.

use std::collections::{BTreeMap, BTreeSet};

use clap::Subcommand;

use super::exit::{self, Failure};
use super::output::{Cell, Listing, col, less, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::topic::not_found;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::topic::masters;
use crate::client::{BrokerAt, Which, similar};
use crate::protocol::body::ProducerInfo;
use crate::protocol::model::version_name;

/// Commands on producers.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the connected producers of every group
    List {
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the connected clients of a producer group
    Clients {
        /// Producer group
        group: String,
        /// Ask only the brokers of this topic
        #[arg(short, long, value_name = "NAME")]
        topic: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
}

/// Runs a producer command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { scope, watch } => {
            watch::print(session, &watch, || async {
                let brokers = scope.brokers(session, Which::Masters).await?;
                Ok(list(session, brokers, "ProducerList").await)
            })
            .await
        }
        Command::Clients {
            group,
            topic,
            scope,
            watch,
        } => {
            watch::print(session, &watch, || {
                clients(session, &group, topic.as_deref(), &scope)
            })
            .await
        }
    }
}

/// The producers connected to `brokers`, one row a client and group.
pub async fn list(session: &Session, brokers: Vec<BrokerAt>, kind: &'static str) -> Rows {
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers, |broker| async move {
            let producers = client.broker_producers(&broker.server(), deadline).await;
            (broker, producers)
        })
        .await;
    let mut listing = Listing::new(
        kind,
        &[
            col("group"),
            col("client"),
            col("addr"),
            less("language"),
            less("version"),
            col("last_heartbeat"),
            wide("broker_names"),
        ],
    );
    let mut answered = false;
    let mut seen: BTreeMap<(String, String), (ProducerInfo, BTreeSet<String>)> = BTreeMap::new();
    for (broker, producers) in answers {
        match producers {
            Ok(groups) => {
                answered = true;
                for (group, producers) in groups {
                    for producer in producers {
                        let key = (group.clone(), producer.client_id.clone());
                        let one = seen
                            .entry(key)
                            .or_insert_with(|| (producer.clone(), BTreeSet::new()));
                        if producer.last_update_timestamp > one.0.last_update_timestamp {
                            one.0 = producer;
                        }
                        one.1.insert(broker.id.to_string());
                    }
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    for ((group, id), (producer, brokers)) in seen {
        listing.push(vec![
            group.into(),
            id.into(),
            producer.remote_ip.trim_start_matches('/').into(),
            producer.language.name().into(),
            version_name(producer.version).into(),
            Cell::time(Some(producer.last_update_timestamp)),
            brokers.into_iter().collect::<Vec<_>>().into(),
        ]);
    }
    Rows {
        listing,
        some_answered: answered,
    }
}

async fn clients(
    session: &Session,
    group: &str,
    topic: Option<&str>,
    scope: &ScopeArgs,
) -> Result<Rows, Failure> {
    let client = &session.client;
    let mut brokers = scope.brokers(session, Which::Masters).await?;
    if let Some(topic) = topic {
        let Some(route) = client.route(topic).await? else {
            return Err(not_found(session, topic, String::new()).await);
        };
        let hosts = masters(&route);
        brokers.retain(|b| hosts.iter().any(|h| h.id.name == b.id.name));
    }
    let deadline = client.deadline();
    let answers = client
        .each(brokers.clone(), |broker| async move {
            let found = client.producer_clients(&broker.server(), group, deadline).await;
            (broker, found)
        })
        .await;
    let mut listing = Listing::new(
        "ProducerClients",
        &[
            col("client"),
            col("addr"),
            less("language"),
            less("version"),
            col("broker_names"),
        ],
    );
    let mut answered = false;
    let mut seen: BTreeMap<String, (Vec<Cell>, Vec<String>)> = BTreeMap::new();
    for (broker, found) in answers {
        match found {
            Ok(connection) => {
                answered = true;
                for c in connection.into_iter().flat_map(|c| c.connection_set) {
                    seen.entry(c.client_id.clone())
                        .or_insert_with(|| {
                            let row = vec![
                                c.client_id.into(),
                                c.client_addr.into(),
                                c.language.name().into(),
                                version_name(c.version).into(),
                            ];
                            (row, Vec::new())
                        })
                        .1
                        .push(broker.id.to_string());
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    for (mut row, brokers) in seen.into_values() {
        row.push(brokers.into());
        listing.push(row);
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        let known = list(session, brokers, "ProducerList").await;
        let names: BTreeSet<String> = known
            .listing
            .rows
            .iter()
            .filter_map(|row| match row.first() {
                Some(Cell::Text(name)) => Some(name.clone()),
                _ => None,
            })
            .collect();
        let near = similar(group, names.iter().map(String::as_str));
        let failure = Failure::new(
            exit::NOT_FOUND,
            format!("producer group \"{group}\" has no client connected"),
        );
        let failure = if near.is_empty() {
            failure
        } else {
            failure.because(format!("Similar: {}.", near.join(", ")))
        };
        return Err(failure.hint("rmq producer list"));
    }
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}
