//! `rmq group update|pause|resume`.

use super::write::{Write, write};
use super::{check_name, without_configuration};
use crate::cli::broker::cluster_of;
use crate::cli::change::{self, Class, Plan, Step, mention};
use crate::cli::exit::Failure;
use crate::cli::scope::{ScopeArgs, unread as unread_at};
use crate::cli::session::Session;
use crate::client::admin::group_config::{GroupPatch, differences, flags};
use crate::client::{BrokerAt, Which};
use crate::protocol::body::SubscriptionGroupConfig;

/// What an update is called and may do.
pub struct How {
    pub verb: &'static str,
    pub force_system: bool,
    pub create: bool,
}

impl How {
    /// An update of this name that needs no more rights than any.
    pub const fn plain(verb: &'static str) -> Self {
        Self {
            verb,
            force_system: false,
            create: false,
        }
    }
}

/// `rmq group update|pause|resume`
pub async fn update(
    session: &Session,
    how: &How,
    name: &str,
    patch: &GroupPatch,
    scope: &ScopeArgs,
) -> Result<(), Failure> {
    check_name(name, how.force_system)?;
    let brokers = scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let mut plan = Plan {
        action: format!("{} group {name}", how.verb),
        object: name.to_owned(),
        cluster: cluster_of(&brokers),
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let (mut writes, mut undo, mut unread, mut found) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (broker, answer) in session.client.group_configs(&brokers, name).await {
        let before = match answer {
            Ok(Some(config)) => config,
            Ok(None) if how.create => {
                found += 1;
                let after = patch.apply(&SubscriptionGroupConfig {
                    group_name: name.to_owned(),
                    ..SubscriptionGroupConfig::default()
                });
                undo.push(format!("rmq group delete {name} --broker {}", broker.addr));
                let (step, one) = Write::new_group(broker, after);
                plan.steps.push(step);
                writes.push((1, one));
                continue;
            }
            Ok(None) => continue,
            Err(e) => {
                unread.push(unread_at(&broker, &e));
                continue;
            }
        };
        found += 1;
        let after = patch.apply(&before);
        let changed = differences(&before, &after);
        if changed.is_empty() {
            continue;
        }
        if before.consume_enable && !after.consume_enable {
            plan.class = plan.class.max(Class::B);
            plan.impact
                .push(format!("{}: the group's consumers are refused", broker.id.name));
        }
        if before.consume_broadcast_enable && !after.consume_broadcast_enable {
            plan.class = plan.class.max(Class::B);
            plan.impact.push(format!(
                "{}: broadcasting clients of it are refused",
                broker.id.name
            ));
        }
        undo.push(format!(
            "rmq group update {name} --broker {}{}",
            broker.addr,
            flags(&after, &before)
        ));
        for (field, from, to) in &changed {
            plan.steps.push(Step {
                target: broker.server().to_string(),
                field: field.clone(),
                before: from.clone(),
                after: to.clone(),
            });
        }
        let one = Write {
            broker,
            before: Some(before),
            after,
        };
        writes.push((changed.len(), one));
    }
    if plan.class >= Class::B {
        plan.impact.push(
            session
                .client
                .use_of_group(brokers.iter().map(BrokerAt::server), name)
                .await,
        );
    }
    mention(&mut plan, "group", &unread, found > 0)?;
    if found == 0 {
        return Err(without_configuration(session, &brokers, name).await);
    }
    if writes.is_empty() && unread.is_empty() {
        return change::nothing(session);
    }
    let undo = undo.join(" && ");
    change::carry_out(session, &plan, writes, unread, Some(undo), |one| {
        write(session, one)
    })
    .await
}
