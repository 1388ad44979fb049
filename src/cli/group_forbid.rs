//! `rmq group forbid|allow`: whether a group may read a topic.

use clap::Args;

use super::broker::cluster_of;
use super::change::{self, Class, Plan, Step, mention};
use super::exit::Failure;
use super::group_change::without_configuration;
use super::quoted;
use super::scope::{ScopeArgs, unread as unread_at};
use super::session::Session;
use crate::client::{BrokerAt, Error, Which};
use crate::protocol::body::SubscriptionGroupTable;
use crate::protocol::model::{check_group, check_topic};

/// `rmq group forbid` and `rmq group allow`
#[derive(Debug, Clone, Args)]
pub struct ForbidArgs {
    /// Group name
    name: String,
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    #[command(flatten)]
    scope: ScopeArgs,
}

const fn word(readable: bool) -> &'static str {
    if readable { "allowed" } else { "forbidden" }
}

/// Takes the reading of a topic away from a group, or gives it back, on each broker.
pub async fn run(session: &Session, args: ForbidArgs, readable: bool) -> Result<(), Failure> {
    let (group, topic) = (args.name.as_str(), args.topic.as_str());
    check_group(group).map_err(|e| Failure::usage(format!("group \"{group}\": {e}")))?;
    check_topic(topic).map_err(|e| Failure::usage(format!("topic \"{topic}\": {e}")))?;
    let client = &session.client;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let deadline = client.deadline();
    let tables = client
        .each(brokers.clone(), |broker| async move {
            let table = client.broker_groups(&broker.server(), deadline).await;
            (broker, table)
        })
        .await;
    let has_group = |table: &SubscriptionGroupTable| table.subscription_group_table.contains_key(group);
    let lacks = |table: &Result<SubscriptionGroupTable, Error>| table.as_ref().is_ok_and(|t| !has_group(t));
    if tables.iter().all(|(_, table)| lacks(table)) {
        return Err(without_configuration(session, &brokers, group).await);
    }
    if client.route(topic).await?.is_none() {
        return Err(super::topic::not_found(session, topic, String::new()).await);
    }
    let verb = if readable { "allow" } else { "forbid" };
    let mut plan = Plan {
        action: format!("{verb} group {group} to read topic {topic}"),
        object: group.to_owned(),
        cluster: cluster_of(&brokers),
        class: if readable { Class::A } else { Class::B },
        steps: Vec::new(),
        impact: Vec::new(),
    };
    if !readable {
        plan.impact
            .push("its pulls are refused from then on; its messages stay and pile up".into());
    }
    let (mut writes, mut unread) = (Vec::new(), Vec::new());
    for (broker, table) in tables {
        match table {
            // It would refuse.
            Ok(table) if !has_group(&table) => {
                plan.impact.push(format!(
                    "{} does not have the group and is left out",
                    broker.server()
                ));
                continue;
            }
            Ok(table) if table.forbids(group, topic) != readable => continue,
            Ok(_) => {}
            Err(e) => {
                unread.push(unread_at(&broker, &e));
                continue;
            }
        }
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: format!("reading {topic}"),
            before: word(!readable).into(),
            after: word(readable).into(),
        });
        writes.push((1, broker));
    }
    if !readable && !writes.is_empty() {
        plan.impact.push(
            client
                .use_of_group(brokers.iter().map(BrokerAt::server), group)
                .await,
        );
    }
    mention(
        &mut plan,
        "forbidden topics",
        &unread,
        unread.len() < brokers.len(),
    )?;
    if writes.is_empty() && unread.is_empty() {
        return change::nothing(session);
    }
    // Where it was so before it stays so.
    let changed = writes
        .iter()
        .map(|(_, broker)| format!(" --broker {}", broker.addr));
    let undo = format!(
        "rmq group {} {group} --topic {}{}",
        if readable { "forbid" } else { "allow" },
        quoted(topic),
        changed.collect::<String>()
    );
    let write = |broker: BrokerAt| async move {
        let server = broker.server();
        let done = client
            .allow_reading(&server, group, topic, readable, client.deadline())
            .await;
        change::proof(done, async {
            let table = client.broker_groups(&server, client.deadline()).await?;
            let differs = table.forbids(group, topic) == readable;
            Ok(differs.then(|| format!("it reads back {}", word(!readable))))
        })
        .await
    };
    change::carry_out(session, &plan, writes, unread, Some(undo), write).await
}
