//! `rmq lite`: lite topics, of brokers newer than 5.4.0.

use clap::Subcommand;

use super::exit::{self, Failure};
use super::output::{Cell, Listing, col, wide};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::words::counted;
use crate::client::{BrokerAt, Error, Which};
use crate::protocol::body::ParentTopicInfo;
use crate::protocol::codes;

/// Commands on lite topics.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the parent topics of lite topics, one row a broker
    List {
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show a parent topic, or one lite topic under it, on each broker
    Get {
        /// Parent topic
        parent: String,
        /// Name of the lite topic under it
        lite: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
}

/// Runs a command on lite topics.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { scope, watch } => watch::print(session, &watch, || list(session, &scope)).await,
        Command::Get {
            parent,
            lite: None,
            scope,
            watch,
        } => watch::print(session, &watch, || parent_topic(session, &parent, &scope)).await,
        Command::Get {
            parent,
            lite: Some(name),
            scope,
            watch,
        } => watch::print(session, &watch, || lite_topic(session, &parent, &name, &scope)).await,
    }
}

/// A failed broker; one that does not know the request says since when brokers do.
fn failed(e: &Error) -> Failure {
    let failure = Failure::from(e);
    match e.remote_code() {
        Some(codes::REQUEST_CODE_NOT_SUPPORTED) => {
            failure.because("Lite topics came with RocketMQ 5.5.0; 5.4.0 and older have no such requests.")
        }
        _ => failure,
    }
}

fn parent_columns() -> [super::output::Column; 7] {
    [
        col("topic"),
        col("broker"),
        col("ttl_minutes"),
        col("lite_topics"),
        col("groups"),
        wide("broker_lmqs"),
        wide("cluster"),
    ]
}

fn parent_row(broker: &BrokerAt, info: &ParentTopicInfo) -> Vec<Cell> {
    vec![
        info.topic.as_str().into(),
        broker.id.name.as_str().into(),
        // Without a limit there is none to show.
        (info.ttl >= 0).then_some(info.ttl).into(),
        info.lite_topic_count.into(),
        info.groups.iter().cloned().collect::<Vec<_>>().into(),
        info.lmq_num.into(),
        broker.id.cluster.as_str().into(),
    ]
}

async fn list(session: &Session, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let mut listing = Listing::new("LiteTopicList", &parent_columns());
    let (mut answered, mut count) = (false, 0_i64);
    for (broker, answer) in session.client.lite_topics(&brokers).await {
        match answer {
            Ok((_, parents)) => {
                answered = true;
                for info in &parents {
                    count = count.saturating_add(i64::from(info.lite_topic_count));
                    listing.push(parent_row(&broker, info));
                }
            }
            Err(e) => listing.errors.push(failed(&e)),
        }
    }
    listing.summary.insert("lite_topics".into(), count.into());
    Ok(Rows {
        listing,
        some_answered: answered,
    })
}

/// The failure for a parent topic that no broker has as one.
fn no_parent(parent: &str, brokers: usize) -> Failure {
    Failure::new(
        exit::NOT_FOUND,
        format!(
            "topic \"{parent}\" is no parent of lite topics on any of {}",
            counted(brokers, "broker")
        ),
    )
    .because("A parent topic has the attribute message.type=LITE.")
    .hint("rmq lite list")
}

async fn parent_topic(session: &Session, parent: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let mut listing = Listing::new("LiteParent", &parent_columns());
    for (broker, answer) in session.client.lite_parent(parent, &brokers).await {
        match answer {
            Ok(Some(info)) => listing.push(parent_row(&broker, &info)),
            Ok(None) => {}
            Err(e) => listing.errors.push(failed(&e)),
        }
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        return Err(no_parent(parent, brokers.len()));
    }
    Ok(Rows {
        some_answered: !listing.rows.is_empty(),
        listing,
    })
}

async fn lite_topic(session: &Session, parent: &str, name: &str, scope: &ScopeArgs) -> Result<Rows, Failure> {
    let brokers = scope.brokers(session, Which::Masters).await?;
    let mut listing = Listing::new(
        "LiteTopic",
        &[
            col("lite_topic"),
            col("broker"),
            col("home"),
            col("min"),
            col("max"),
            col("count"),
            col("last_stored"),
            col("subscribers"),
            wide("parent"),
        ],
    );
    let (mut parents, mut known) = (0, false);
    for (broker, answer) in session.client.lite_topic(parent, name, &brokers).await {
        match answer {
            Ok(Some(info)) => {
                parents += 1;
                let at = info.topic_offset;
                known |= at.max_offset > 0 || !info.subscriber.is_empty();
                let subscribers = info
                    .subscriber
                    .iter()
                    .map(|client| format!("{}@{}", client.group, client.client_id));
                listing.push(vec![
                    name.into(),
                    broker.id.name.as_str().into(),
                    info.sharding_to_broker.into(),
                    at.min_offset.into(),
                    at.max_offset.into(),
                    at.max_offset.saturating_sub(at.min_offset).max(0).into(),
                    Cell::time(Some(at.last_update_timestamp)),
                    subscribers.collect::<Vec<_>>().into(),
                    parent.into(),
                ]);
            }
            Ok(None) => {}
            Err(e) => listing.errors.push(failed(&e)),
        }
    }
    if listing.errors.is_empty() && parents == 0 {
        return Err(no_parent(parent, brokers.len()));
    }
    // A broker answers for any name: what has no message and no subscriber is not there.
    if listing.errors.is_empty() && !known {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!(
                "lite topic \"{name}\" of {parent} has neither a message nor a subscriber on any of {}",
                counted(parents, "broker")
            ),
        )
        .hint(format!("rmq lite get {parent}")));
    }
    Ok(Rows {
        some_answered: !listing.rows.is_empty(),
        listing,
    })
}
