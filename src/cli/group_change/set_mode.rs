//! `rmq group set-mode`.

use clap::Args;

use super::check_name;
use crate::cli::broker::cluster_of;
use crate::cli::change::{self, Class, Plan, Step, mention};
use crate::cli::exit::Failure;
use crate::cli::group::not_found;
use crate::cli::scope::{ScopeArgs, unread as unread_at};
use crate::cli::session::Session;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::MessageRequestMode;

/// `rmq group set-mode`
#[derive(Debug, Clone, Args)]
pub struct SetModeArgs {
    /// Group name
    name: String,
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// pull or pop, in any case
    #[arg(short, long, value_name = "MODE", value_parser = mode)]
    mode: MessageRequestMode,
    /// How many neighbours share a client's queues when popping; 0 shares all
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    share_queues: i32,
    #[command(flatten)]
    scope: ScopeArgs,
}

fn mode(text: &str) -> Result<MessageRequestMode, String> {
    match text.to_ascii_lowercase().as_str() {
        "pull" => Ok(MessageRequestMode::Pull),
        "pop" => Ok(MessageRequestMode::Pop),
        _ => Err("use pull or pop".into()),
    }
}

/// A mode as the plan shows it.
fn mode_text(mode: Option<(MessageRequestMode, i32)>) -> String {
    match mode {
        None => "pull (not set)".into(),
        Some((MessageRequestMode::Pull, _)) => "pull".into(),
        Some((MessageRequestMode::Pop, 0)) => "pop".into(),
        Some((MessageRequestMode::Pop, n)) => format!("pop, shared by {n}"),
    }
}

/// `rmq group set-mode`
pub async fn set_mode(session: &Session, args: SetModeArgs) -> Result<(), Failure> {
    check_name(&args.name, false)?;
    let (group, topic) = (args.name.as_str(), args.topic.as_str());
    let client = &session.client;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let deadline = client.deadline();
    let (known, modes) = tokio::join!(
        client.group_configs(&brokers, group),
        client.each(brokers.clone(), |broker| async move {
            let modes = client.request_modes(&broker.server(), deadline).await;
            (broker, modes)
        })
    );
    if known.iter().all(|(_, config)| matches!(config, Ok(None)))
        && let Some(failure) = not_found(session, &brokers, group).await
    {
        return Err(failure);
    }
    if client.route(topic).await?.is_none() {
        return Err(crate::cli::topic::not_found(session, topic, String::new()).await);
    }
    let mut plan = Plan {
        action: format!("set the mode of group {group} for topic {topic}"),
        object: group.to_owned(),
        cluster: cluster_of(&brokers),
        class: Class::B,
        steps: Vec::new(),
        impact: vec!["the group's clients get its messages in the new way after their next rebalance".into()],
    };
    let after = Some((args.mode, args.share_queues));
    let (mut writes, mut unread, mut undo) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, answer) in modes {
        let before = match answer {
            Ok(modes) => modes
                .message_request_mode_map
                .get(topic)
                .and_then(|groups| groups.get(group))
                .map(|m| (m.mode, m.pop_share_queue_num)),
            Err(e) => {
                unread.push(unread_at(&broker, &e));
                continue;
            }
        };
        if before == after {
            continue;
        }
        let (mode, share) = before.unwrap_or((MessageRequestMode::Pull, 0));
        undo.push(format!(
            "rmq group set-mode {group} --topic {topic} --mode {} --share-queues {share} --broker {}",
            mode.name().to_lowercase(),
            broker.addr
        ));
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: "mode".into(),
            before: mode_text(before),
            after: mode_text(after),
        });
        writes.push((1, broker));
    }
    if !writes.is_empty() {
        plan.impact.push(
            client
                .use_of_group(brokers.iter().map(BrokerAt::server), group)
                .await,
        );
    }
    mention(&mut plan, "mode", &unread, unread.len() < brokers.len())?;
    if writes.is_empty() && unread.is_empty() {
        return change::nothing(session);
    }
    let undo = undo.join(" && ");
    change::carry_out(
        session,
        &plan,
        writes,
        unread,
        Some(undo),
        |broker: BrokerAt| async move {
            let server = broker.server();
            let done = client
                .set_request_mode(
                    &server,
                    group,
                    topic,
                    args.mode,
                    args.share_queues,
                    client.deadline(),
                )
                .await;
            change::proof(done, async {
                let modes = client.request_modes(&server, client.deadline()).await?;
                let now = modes
                    .message_request_mode_map
                    .get(topic)
                    .and_then(|groups| groups.get(group))
                    .map(|m| (m.mode, m.pop_share_queue_num));
                Ok((now != after).then(|| format!("the mode reads back {}", mode_text(now))))
            })
            .await
        },
    )
    .await
}
