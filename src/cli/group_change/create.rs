//! `rmq group create`.

use clap::Args;

use super::check_name;
use super::fields::FieldArgs;
use super::write::{Write, write};
use crate::cli::broker::cluster_of;
use crate::cli::change::{self, Class, Plan, mention};
use crate::cli::exit::Failure;
use crate::cli::scope::{ScopeArgs, lacking};
use crate::cli::session::Session;
use crate::client::Which;
use crate::protocol::body::SubscriptionGroupConfig;

/// `rmq group create`
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// Group name
    name: String,
    #[command(flatten)]
    fields: FieldArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq group create`
pub async fn create(session: &Session, args: CreateArgs) -> Result<(), Failure> {
    check_name(&args.name, false)?;
    let name = args.name.as_str();
    let after = args.fields.patch()?.apply(&SubscriptionGroupConfig {
        group_name: name.to_owned(),
        ..SubscriptionGroupConfig::default()
    });
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let answers = session.client.group_configs(&brokers, name).await;
    let (absent, unread) = lacking("group", name, answers)?;
    let mut plan = Plan {
        action: format!("create group {name}"),
        object: name.to_owned(),
        cluster: cluster_of(&brokers),
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let mut writes = Vec::new();
    for broker in absent {
        let (step, one) = Write::new_group(broker, after.clone());
        plan.steps.push(step);
        writes.push((1, one));
    }
    mention(&mut plan, "group", &unread, !writes.is_empty())?;
    let made = writes.iter().map(|(_, w): &(usize, Write)| &w.broker);
    let undo = args
        .scope
        .delete_line(("group", name), &plan.cluster, made, unread.is_empty());
    change::carry_out(session, &plan, writes, unread, Some(undo), |one| {
        write(session, one)
    })
    .await
}
