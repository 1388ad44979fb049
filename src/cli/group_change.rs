//! `rmq group create|update|delete|set-mode|pause|resume`, and the place of `forbid|allow`.

use std::collections::BTreeMap;
use std::time::Instant;

use clap::{Args, Subcommand};

use super::broker::cluster_of;
use super::change::{self, Class, Outcome, Plan, Step, Undo, mention};
use super::exit::{self, Failure};
use super::group::not_found;
use super::group_forbid::{self, ForbidArgs};
use super::scope::{ScopeArgs, lacking, unread as unread_at};
use super::session::Session;
use super::time;
use super::topic_change::still_at;
use crate::client::admin::group::is_system;
use crate::client::admin::group_check::count;
use crate::client::admin::group_config::{GroupPatch, differences, fields, flags};
use crate::client::admin::topic::MAX_QUEUES;
use crate::client::words::counted;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::{
    CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicy, GroupRetryPolicyType,
    MessageRequestMode, SubscriptionGroupConfig,
};
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX, check_group};

/// Commands that change a group.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Create a group; fails when it exists
    Create(CreateArgs),
    /// Change the named fields of a group and no others
    Update(UpdateArgs),
    /// Delete a group: its configuration, its positions, its retry and dead-letter topics
    Delete(DeleteArgs),
    /// Set how a group gets the messages of a topic: pull or pop
    SetMode(SetModeArgs),
    /// Stop a group from consuming, keeping everything else
    Pause(PauseArgs),
    /// Let a paused group consume again
    Resume(PauseArgs),
    /// Forbid a group to read one topic; its pulls there are refused
    Forbid(ForbidArgs),
    /// Let a group read a topic again
    Allow(ForbidArgs),
}

/// Fields of a group.
#[derive(Debug, Clone, Args)]
pub struct FieldArgs {
    /// Consuming is allowed
    #[arg(long, value_name = "BOOL")]
    consume_enable: Option<bool>,
    /// Consuming from the minimum offset is allowed
    #[arg(long, value_name = "BOOL")]
    from_min: Option<bool>,
    /// Broadcasting is allowed
    #[arg(long, value_name = "BOOL")]
    broadcast: Option<bool>,
    /// Retries keep the order
    #[arg(long, value_name = "BOOL")]
    orderly: Option<bool>,
    /// Queues of the retry topic on each broker
    #[arg(long, value_name = "N")]
    retry_queues: Option<i32>,
    /// Retries before a message goes to the dead-letter topic; -1 goes on for ever
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    retry_max: Option<i32>,
    /// Delays of retries: exponential:initial=5s,max=2h,multiplier=2, custom:1s,5s,10s, or levels
    #[arg(long, value_name = "POLICY", value_parser = retry_policy)]
    retry_policy: Option<GroupRetryPolicy>,
    /// Broker id that consumers read from; 0 is the master
    #[arg(long, value_name = "BROKER_ID")]
    read_from: Option<i64>,
    /// Broker id suggested to consumers that lag behind memory
    #[arg(long, value_name = "BROKER_ID")]
    slow_read_from: Option<i64>,
    /// Tell the group's clients when one comes or goes
    #[arg(long, value_name = "BOOL")]
    notify_change: Option<bool>,
    /// Set an attribute; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    attr: Vec<(String, String)>,
}

impl FieldArgs {
    fn patch(self) -> Result<GroupPatch, Failure> {
        let within = |flag: &str, value: Option<i64>, least: i64, most: i64| match value {
            Some(n) if !(least..=most).contains(&n) => Err(Failure::usage(format!(
                "--{flag} {n} is out of range; use {least} to {most}"
            ))),
            _ => Ok(()),
        };
        within(
            "retry-queues",
            self.retry_queues.map(Into::into),
            0,
            MAX_QUEUES.into(),
        )?;
        within("retry-max", self.retry_max.map(Into::into), -1, i32::MAX.into())?;
        within("read-from", self.read_from, 0, i64::MAX)?;
        within("slow-read-from", self.slow_read_from, 0, i64::MAX)?;
        Ok(GroupPatch {
            consume_enable: self.consume_enable,
            from_min: self.from_min,
            broadcast: self.broadcast,
            orderly: self.orderly,
            retry_queues: self.retry_queues,
            retry_max: self.retry_max,
            retry_policy: self.retry_policy,
            read_from: self.read_from,
            slow_read_from: self.slow_read_from,
            notify_change: self.notify_change,
            set_attributes: self.attr.into_iter().collect(),
            ..GroupPatch::default()
        })
    }
}

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

/// `rmq group update`
#[derive(Debug, Clone, Args)]
pub struct UpdateArgs {
    /// Group name
    name: String,
    #[command(flatten)]
    fields: FieldArgs,
    /// Remove an attribute; repeatable
    #[arg(long, value_name = "KEY")]
    unset_attr: Vec<String>,
    /// Create it where it does not exist, with the defaults of group create
    #[arg(long)]
    create: bool,
    /// Change a group of the broker's own
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

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

/// `rmq group pause` and `rmq group resume`
#[derive(Debug, Clone, Args)]
pub struct PauseArgs {
    /// Group name
    name: String,
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

/// `exponential:initial=5s,max=2h,multiplier=2`, `custom:1s,5s,10s`, `levels`, or the JSON of mqadmin.
fn retry_policy(text: &str) -> Result<GroupRetryPolicy, String> {
    let ms = |text: &str| -> Result<i64, String> {
        let span = time::parse_duration(text)?;
        i64::try_from(span.as_millis())
            .ok()
            .filter(|ms| *ms > 0)
            .ok_or_else(|| format!("\"{text}\" is no delay"))
    };
    let text = text.trim();
    if text == "levels" {
        return Ok(GroupRetryPolicy::default());
    }
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|e| format!("not a retry policy: {e}"));
    }
    match text.split_once(':') {
        Some(("custom", list)) => {
            let next = list.split(',').map(|part| ms(part.trim())).collect::<Result<Vec<_>, _>>()?;
            Ok(GroupRetryPolicy {
                customized_retry_policy: Some(CustomizedRetryPolicy { next }),
                ..GroupRetryPolicy::default()
            })
        }
        Some(("exponential", list)) => {
            let mut policy = ExponentialRetryPolicy::default();
            for part in list.split(',').filter(|p| !p.trim().is_empty()) {
                match part.split_once('=').map(|(k, v)| (k.trim(), v.trim())) {
                    Some(("initial", value)) => policy.initial = ms(value)?,
                    Some(("max", value)) => policy.max = ms(value)?,
                    Some(("multiplier", value)) => {
                        policy.multiplier = value
                            .parse()
                            .ok()
                            .filter(|n| *n > 0)
                            .ok_or_else(|| format!("\"{value}\" is no multiplier"))?;
                    }
                    _ => return Err(format!("\"{part}\" is not initial=, max= or multiplier=")),
                }
            }
            Ok(GroupRetryPolicy {
                exponential_retry_policy: Some(policy),
                kind: GroupRetryPolicyType::Exponential,
                ..GroupRetryPolicy::default()
            })
        }
        _ => Err(
            "use exponential:initial=5s,max=2h,multiplier=2, custom:1s,5s,10s, or levels for the broker's delay levels"
                .into(),
        ),
    }
}

/// Runs a command that changes a group.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Create(args) => create(session, args).await,
        Command::Update(args) => {
            let mut patch = args.fields.patch()?;
            patch.unset_attributes = args.unset_attr.into_iter().collect();
            if patch.is_empty() && !args.create {
                return Err(
                    Failure::usage(format!("nothing to change in group {} is named", args.name))
                        .hint(format!("rmq group update {} --retry-max 5", args.name)),
                );
            }
            let how = How {
                verb: "update",
                force_system: args.force_system,
                create: args.create,
            };
            update(session, &how, &args.name, &patch, &args.scope).await
        }
        Command::Pause(args) => {
            let patch = GroupPatch {
                consume_enable: Some(false),
                ..GroupPatch::default()
            };
            update(session, &How::plain("pause"), &args.name, &patch, &args.scope).await
        }
        Command::Resume(args) => {
            let patch = GroupPatch {
                consume_enable: Some(true),
                ..GroupPatch::default()
            };
            update(session, &How::plain("resume"), &args.name, &patch, &args.scope).await
        }
        Command::Forbid(args) => group_forbid::run(session, args, false).await,
        Command::Allow(args) => group_forbid::run(session, args, true).await,
        Command::Delete(args) => delete(session, args).await,
        Command::SetMode(args) => set_mode(session, args).await,
    }
}

fn check_name(name: &str, force_system: bool) -> Result<(), Failure> {
    check_group(name).map_err(|e| Failure::usage(format!("group \"{name}\": {e}")))?;
    if is_system(name) && !force_system {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{name}\" is a group of the broker's own; nothing was changed"),
        )
        .hint("--force-system if that is really meant"));
    }
    Ok(())
}

/// One broker and its group before (if any) and after.
struct Write {
    broker: BrokerAt,
    before: Option<SubscriptionGroupConfig>,
    after: SubscriptionGroupConfig,
}

/// A configuration in words.
fn described(config: &SubscriptionGroupConfig) -> String {
    let words: Vec<String> = fields(config).iter().map(|(k, v)| format!("{k} {v}")).collect();
    words.join(", ")
}

/// Writes a configuration and reads it back.
async fn write(session: &Session, write: Write) -> Outcome {
    let client = &session.client;
    let server = write.broker.server();
    let done = client
        .write_group(&server, write.before.as_ref(), &write.after, client.deadline())
        .await;
    change::proof(done, async {
        let table = client.broker_groups(&server, client.deadline()).await?;
        let Some(now) = table.subscription_group_table.get(&write.after.group_name) else {
            return Ok(Some("the broker does not have the group".into()));
        };
        let wrong: Vec<String> = differences(&write.after, now)
            .into_iter()
            .map(|(field, _, now)| format!("{field} reads back {now}"))
            .collect();
        Ok((!wrong.is_empty()).then(|| wrong.join(", ")))
    })
    .await
}

async fn create(session: &Session, args: CreateArgs) -> Result<(), Failure> {
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
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: "group".into(),
            before: "absent".into(),
            after: described(&after),
        });
        let one = Write {
            broker,
            before: None,
            after: after.clone(),
        };
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

/// No broker has a configuration of the group; it may have positions still.
pub(super) async fn without_configuration(session: &Session, brokers: &[BrokerAt], name: &str) -> Failure {
    not_found(session, brokers, name).await.unwrap_or_else(|| {
        Failure::new(
            exit::NOT_FOUND,
            format!(
                "group \"{name}\" has no configuration on {}, only positions",
                counted(brokers.len(), "broker")
            ),
        )
        .hint(format!("rmq group create {name}"))
    })
}

/// What an update is called and may do.
struct How {
    verb: &'static str,
    force_system: bool,
    create: bool,
}

impl How {
    const fn plain(verb: &'static str) -> Self {
        Self {
            verb,
            force_system: false,
            create: false,
        }
    }
}

async fn update(
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
                plan.steps.push(Step {
                    target: broker.server().to_string(),
                    field: "group".into(),
                    before: "absent".into(),
                    after: described(&after),
                });
                let one = Write {
                    broker,
                    before: None,
                    after,
                };
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

async fn delete(session: &Session, args: DeleteArgs) -> Result<(), Failure> {
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
    let gone = Undo::Never("what was deleted is kept nowhere; rmq group create makes the group anew");
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

/// A mode as the plan shows it.
fn mode_text(mode: Option<(MessageRequestMode, i32)>) -> String {
    match mode {
        None => "pull (not set)".into(),
        Some((MessageRequestMode::Pull, _)) => "pull".into(),
        Some((MessageRequestMode::Pop, 0)) => "pop".into(),
        Some((MessageRequestMode::Pop, n)) => format!("pop, shared by {n}"),
    }
}

async fn set_mode(session: &Session, args: SetModeArgs) -> Result<(), Failure> {
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
        return Err(super::topic::not_found(session, topic, String::new()).await);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::admin::group_config::policy_text;

    #[test]
    fn retry_policies_are_read_in_every_form() {
        for text in [
            "levels",
            "custom:1s,5s,10s",
            "exponential:initial=1s,max=1h,multiplier=3",
        ] {
            assert_eq!(policy_text(&retry_policy(text).unwrap()), text);
        }
        assert_eq!(
            policy_text(&retry_policy("exponential:").unwrap()),
            "exponential:initial=5s,max=2h,multiplier=2"
        );
        // The form of mqadmin's -p.
        let json = r#"{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}}"#;
        assert_eq!(policy_text(&retry_policy(json).unwrap()), "custom:1s,5s,10s");
        for bad in [
            "",
            "custom:",
            "custom:5",
            "linear:1s",
            "exponential:initial=0s",
            "exponential:x=1",
        ] {
            assert!(retry_policy(bad).is_err(), "{bad}");
        }
    }
}
