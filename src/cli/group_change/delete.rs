//! `rmq group delete`: the configuration, the positions, the retry and dead-letter topics.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::Args;

use super::check_name;
use crate::cli::broker::cluster_of;
use crate::cli::change::{self, Class, Outcome, Plan, Step, Undo, mention};
use crate::cli::exit::{self, Failure};
use crate::cli::group::not_found;
use crate::cli::scope::{ScopeArgs, unread as unread_at};
use crate::cli::session::Session;
use crate::cli::topic_change::still_at;
use crate::client::admin::group_check::count;
use crate::client::words::counted;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::SubscriptionGroupConfig;
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};

/// `rmq group delete`
#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    /// Group name
    name: String,
    /// Leave its positions: a group of that name made again goes on at them
    #[arg(long)]
    keep_offsets: bool,
    /// Leave its dead-letter topic
    #[arg(long)]
    keep_dlq: bool,
    /// Delete a group of the broker's own
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// What of a group is on one broker.
struct Remains {
    broker: BrokerAt,
    config: Option<SubscriptionGroupConfig>,
    /// Topics it has positions in.
    offsets: usize,
    /// Its retry and dead-letter topics with their messages.
    topics: Vec<(String, i64)>,
}

async fn remains(session: &Session, broker: BrokerAt, name: &str) -> Result<Remains, (BrokerAt, Failure)> {
    let client = &session.client;
    let deadline = client.deadline();
    let server = broker.server();
    let topics = [format!("{RETRY_PREFIX}{name}"), format!("{DLQ_PREFIX}{name}")];
    let look = async {
        let (configs, offsets, retry, dlq) = tokio::try_join!(
            client.broker_groups(&server, deadline),
            client.broker_offset_groups(&server, deadline),
            client.topic_config(&broker, &topics[0], deadline),
            client.topic_config(&broker, &topics[1], deadline)
        )?;
        let mut found = Vec::new();
        for (topic, config) in topics.iter().zip([retry, dlq]) {
            if config.is_some() {
                let stats = client.topic_stats(&server, topic, deadline).await?;
                found.push((topic.clone(), count(&stats)));
            }
        }
        Ok::<_, crate::client::Error>((
            configs.subscription_group_table.get(name).cloned(),
            offsets.get(name).map_or(0, std::collections::BTreeSet::len),
            found,
        ))
    };
    match look.await {
        Ok((config, offsets, topics)) => Ok(Remains {
            broker,
            config,
            offsets,
            topics,
        }),
        Err(e) => Err((broker, Failure::from(&e))),
    }
}

/// `rmq group delete`
pub async fn delete(session: &Session, args: DeleteArgs) -> Result<(), Failure> {
    check_name(&args.name, args.force_system)?;
    let name = args.name.as_str();
    let client = &session.client;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let cluster = cluster_of(&brokers);
    let clients = client.clients_of_group(&brokers, name).await;
    let online = clients.ids();
    if !online.is_empty() {
        let ids: Vec<&str> = online.keys().map(String::as_str).collect();
        return Err(Failure::new(
            exit::PRECONDITION,
            format!(
                "group \"{name}\" has {} online; nothing was changed",
                counted(ids.len(), "client")
            ),
        )
        .because(format!("They are {}.", ids.join(", ")))
        .hint(format!("stop them first; rmq group clients {name}")));
    }
    let looks = client
        .each(brokers.clone(), |broker| remains(session, broker, name))
        .await;
    let (mut found, mut unread) = (Vec::new(), Vec::new());
    for look in looks {
        match look {
            Ok(there) => found.push(there),
            Err((broker, failure)) => unread.push(unread_at(&broker, failure)),
        }
    }
    let mut plan = Plan {
        action: format!("delete group {name}"),
        object: name.to_owned(),
        cluster: cluster.clone(),
        class: Class::C,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let whole_cluster = args.scope.broker.is_empty();
    let mut writes: Vec<(usize, Removal)> = Vec::new();
    let mut topics: BTreeMap<String, i64> = BTreeMap::new();
    let mut step = |target: String, field: &str, before: String| {
        plan.steps.push(Step {
            target,
            field: field.to_owned(),
            before,
            after: "absent".into(),
        });
    };
    for there in &found {
        let target = there.broker.server().to_string();
        let mut steps = 0;
        if let Some(config) = &there.config {
            step(
                target.clone(),
                "group",
                format!(
                    "retry-max {}, consume-enable {}",
                    config.retry_max_times, config.consume_enable
                ),
            );
            steps += 1;
        }
        if there.offsets > 0 && !args.keep_offsets {
            step(
                target.clone(),
                "offsets",
                format!("positions in {}", counted(there.offsets, "topic")),
            );
            steps += 1;
        }
        if steps > 0 {
            writes.push((steps, Removal::Group(there.broker.clone())));
        }
        for (topic, messages) in &there.topics {
            if args.keep_dlq && topic.starts_with(DLQ_PREFIX) {
                continue;
            }
            step(target.clone(), topic, counted(*messages, "message"));
            *topics.entry(topic.clone()).or_default() += messages;
            writes.push((1, Removal::Topic(there.broker.clone(), topic.clone())));
        }
    }
    let mut routes: Vec<(usize, Removal)> = Vec::new();
    if whole_cluster {
        for topic in topics.keys() {
            for (addr, route) in client.route_each(topic).await {
                if route.as_ref().is_ok_and(Option::is_some) {
                    step(format!("name server {addr}"), topic, "routed".into());
                    routes.push((1, Removal::Route(addr, topic.clone())));
                }
            }
        }
    }
    for (topic, messages) in &topics {
        plan.impact.push(format!(
            "{} of {topic} will be lost",
            counted(*messages, "message")
        ));
    }
    mention(&mut plan, "group", &unread, !writes.is_empty())?;
    if writes.is_empty() {
        return Err(match not_found(session, &brokers, name).await {
            Some(failure) => failure,
            None => Failure::new(
                exit::NOT_FOUND,
                format!(
                    "group \"{name}\" has nothing left to delete on {}",
                    counted(brokers.len(), "broker")
                ),
            ),
        });
    }
    if session.dry_run {
        return change::rehearse(session, &plan, unread, 0);
    }
    change::confirm(session, &plan)?;
    let gone = Undo::Never("what was deleted is kept nowhere; rmq group create makes the group anew");
    session.under_way.undone_by(gone.clone());
    // Brokers first: a topic taken off the name servers comes back with the next registration of a broker that has it.
    let mut outcomes = Vec::new();
    for phase in [writes, routes] {
        let done = client
            .each(phase, |(steps, removal)| {
                let outcome = remove(session, removal, name, &cluster, args.keep_offsets);
                async move { vec![outcome.await; steps] }
            })
            .await;
        outcomes.extend(done.into_iter().flatten());
    }
    outcomes.extend(unread.into_iter().map(|u| Outcome::Failed(u.failure)));
    change::report(session, &plan, outcomes, gone)
}

/// One thing to take away.
enum Removal {
    /// Configuration and positions on a broker.
    Group(BrokerAt),
    /// A topic on a broker.
    Topic(BrokerAt, String),
    /// A topic on a name server.
    Route(String, String),
}

async fn remove(
    session: &Session,
    removal: Removal,
    name: &str,
    cluster: &str,
    keep_offsets: bool,
) -> Outcome {
    let client = &session.client;
    let deadline = client.deadline();
    let done = match &removal {
        Removal::Group(broker) => {
            client
                .delete_group_on_broker(&broker.server(), name, !keep_offsets, deadline)
                .await
        }
        Removal::Topic(broker, topic) => {
            client
                .delete_topic_on_broker(&broker.server(), topic, deadline)
                .await
        }
        Removal::Route(addr, topic) => {
            client
                .delete_topic_on_name_server(addr, topic, cluster, deadline)
                .await
        }
    };
    change::proof(done, remaining(session, removal, name, cluster, keep_offsets)).await
}

/// What is left of it.
async fn remaining(
    session: &Session,
    removal: Removal,
    name: &str,
    cluster: &str,
    keep_offsets: bool,
) -> Result<Option<String>, Failure> {
    let client = &session.client;
    match removal {
        Removal::Group(broker) => {
            let there = remains(session, broker, name).await.map_err(|(_, e)| e)?;
            let left = if there.config.is_some() {
                Some("the broker still has the group")
            } else if there.offsets > 0 && !keep_offsets {
                Some("the broker still has its positions")
            } else {
                None
            };
            Ok(left.map(str::to_owned))
        }
        Removal::Topic(broker, topic) => {
            let now = client.topic_config(&broker, &topic, client.deadline()).await?;
            Ok(now.map(|_| "the broker still has the topic".into()))
        }
        Removal::Route(addr, topic) => {
            let end = Instant::now() + session.timeout;
            loop {
                let left = still_at(session, &addr, &topic, cluster).await?;
                if left.is_none() || Instant::now() > end {
                    return Ok(left);
                }
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}
