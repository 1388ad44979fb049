//! `rmq topic create|update|delete`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use clap::Args;

use super::broker::cluster_of;
use super::change::{self, Class, Outcome, Plan, Step, Undo, Unread, mention};
use super::exit::{self, Failure};
use super::scope::{ScopeArgs, lacking, unread as unread_at};
use super::session::Session;
use super::topic::{configs, not_found};
use super::{kv, quoted, time, topic_order};
use crate::client::admin::group_check::count;
use crate::client::admin::topic::{
    ConfigSource, MAX_QUEUES, NEW_QUEUES, PermChange, TopicPatch, differences, kind,
};
use crate::client::snapshot::TopicKind;
use crate::client::static_topic::is_static;
use crate::client::words::counted;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::{TopicConfig, TopicRouteData};
use crate::protocol::model::{DLQ_PREFIX, Perm, RETRY_PREFIX, UNIT, UNIT_SUB, check_topic};

/// A topic that took a message in this time is in use.
const IN_USE: Duration = Duration::from_secs(600);

/// `rmq topic create`
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// Topic name
    name: String,
    /// Read and write queues on each broker [default: 8]
    #[arg(long, value_name = "N", conflicts_with_all = ["read_queues", "write_queues"])]
    queues: Option<i32>,
    /// Queues on each broker that consumers read [default: 8]
    #[arg(long, value_name = "N")]
    read_queues: Option<i32>,
    /// Queues on each broker that producers write [default: 8]
    #[arg(long, value_name = "N")]
    write_queues: Option<i32>,
    /// 2 or W, 4 or R, 6 or RW, 0 or none [default: 6]
    #[arg(long, value_name = "PERM")]
    perm: Option<PermChange>,
    /// Other numbers on one broker, such as broker-b=4 (read and write queues); repeatable
    #[arg(long, value_name = "BROKER=N", value_parser = broker_queues)]
    per_broker: Vec<(String, i32)>,
    /// Ordered topic; the name servers get its order entry
    #[arg(long)]
    order: bool,
    /// A topic of a unit
    #[arg(long)]
    unit: bool,
    /// Units subscribe to the topic
    #[arg(long)]
    has_unit_sub: bool,
    /// Message type: normal, fifo, delay, transaction, mixed
    #[arg(long = "type", value_name = "TYPE", value_parser = message_type)]
    message_type: Option<String>,
    /// An attribute; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    attr: Vec<(String, String)>,
    /// Create a topic with a system name
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq topic update`
#[derive(Debug, Clone, Args)]
pub struct UpdateArgs {
    /// Topic name
    name: String,
    /// 2 or W, 4 or R, 6 or RW, 0 or none; +W -W +R -R change one bit
    #[arg(long, value_name = "PERM", allow_hyphen_values = true)]
    perm: Option<PermChange>,
    /// Read and write queues on each broker
    #[arg(long, value_name = "N", conflicts_with_all = ["read_queues", "write_queues"])]
    queues: Option<i32>,
    /// Queues on each broker that consumers read
    #[arg(long, value_name = "N")]
    read_queues: Option<i32>,
    /// Queues on each broker that producers write
    #[arg(long, value_name = "N")]
    write_queues: Option<i32>,
    /// Other numbers on one broker, such as broker-b=4 (read and write queues); repeatable
    #[arg(long, value_name = "BROKER=N", value_parser = broker_queues)]
    per_broker: Vec<(String, i32)>,
    /// Ordered topic; its order entry at the name servers follows
    #[arg(long, value_name = "BOOL")]
    order: Option<bool>,
    /// A topic of a unit
    #[arg(long, value_name = "BOOL")]
    unit: Option<bool>,
    /// Units subscribe to the topic
    #[arg(long, value_name = "BOOL")]
    has_unit_sub: Option<bool>,
    /// Message type: normal, fifo, delay, transaction, mixed
    #[arg(long = "type", value_name = "TYPE", value_parser = message_type)]
    message_type: Option<String>,
    /// Set an attribute; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    attr: Vec<(String, String)>,
    /// Remove an attribute; repeatable
    #[arg(long, value_name = "KEY")]
    unset_attr: Vec<String>,
    /// Allow fewer queues than now, or fewer read than write queues
    #[arg(long)]
    force: bool,
    /// Create it where it does not exist, with 8 queues and perm 6 unless named
    #[arg(long)]
    create: bool,
    /// Change a system topic
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

impl UpdateArgs {
    /// A change of the permission alone.
    pub fn perm(name: String, perm: PermChange, scope: ScopeArgs) -> Self {
        Self {
            name,
            perm: Some(perm),
            queues: None,
            read_queues: None,
            write_queues: None,
            per_broker: Vec::new(),
            order: None,
            unit: None,
            has_unit_sub: None,
            message_type: None,
            attr: Vec::new(),
            unset_attr: Vec::new(),
            force: false,
            create: false,
            force_system: false,
            scope,
        }
    }
}

/// `broker-b=4`
fn broker_queues(text: &str) -> Result<(String, i32), String> {
    let (broker, number) = super::broker::pair(text)?;
    match number.trim().parse() {
        Ok(n) if (1..=MAX_QUEUES).contains(&n) => Ok((broker, n)),
        _ => Err(format!(
            "{number} is not a number of queues; use 1 to {MAX_QUEUES}"
        )),
    }
}

/// `--per-broker` may only name brokers that are meant.
fn check_per_broker(per_broker: &[(String, i32)], brokers: &[BrokerAt]) -> Result<(), Failure> {
    match per_broker
        .iter()
        .find(|(name, _)| !brokers.iter().any(|b| b.id.name == *name))
    {
        None => Ok(()),
        Some((name, _)) => {
            let names: Vec<&str> = brokers.iter().map(|b| b.id.name.as_str()).collect();
            Err(Failure::usage(format!(
                "--per-broker {name}: the brokers are {}",
                names.join(", ")
            )))
        }
    }
}

/// `rmq topic delete`
#[derive(Debug, Clone, Args)]
pub struct DeleteArgs {
    /// Topic name
    name: String,
    /// With the retry and dead-letter topics of groups that consume only this topic
    #[arg(long)]
    with_retry_dlq: bool,
    /// Delete it although a group is online on it or a message came in the last 10 minutes
    #[arg(long)]
    force: bool,
    /// Delete a system topic
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

pub fn message_type(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "NORMAL" | "FIFO" | "DELAY" | "TRANSACTION" | "MIXED" | "UNSPECIFIED" => Ok(upper),
        _ => Err("use normal, fifo, delay, transaction, mixed or unspecified".into()),
    }
}

fn check_queues(flag: &str, number: Option<i32>, least: i32) -> Result<(), Failure> {
    match number {
        Some(n) if !(least..=MAX_QUEUES).contains(&n) => Err(Failure::usage(format!(
            "--{flag} {n} is not a number of queues; use {least} to {MAX_QUEUES}"
        ))),
        _ => Ok(()),
    }
}

/// The kind of a topic whose name is in order.
pub async fn checked_kind(session: &Session, name: &str) -> Result<TopicKind, Failure> {
    legal(name)?;
    let servers = match session.client.server_names().await {
        Ok(names) => names,
        Err(e) if e.is_unreachable() => return Err(Failure::from(e)),
        // A name server may refuse its lists; the built-in names are known without it.
        Err(_) => BTreeSet::new(),
    };
    Ok(kind(name, &servers))
}

fn legal(name: &str) -> Result<(), Failure> {
    check_topic(name).map_err(|e| Failure::usage(format!("topic \"{name}\": {e}")))
}

async fn check_name(session: &Session, name: &str, force_system: bool) -> Result<(), Failure> {
    if force_system {
        return legal(name);
    }
    if checked_kind(session, name).await? == TopicKind::System {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{name}\" is a system topic; nothing was changed"),
        )
        .hint("--force-system if that is really meant"));
    }
    Ok(())
}

/// One write: the broker, its topic before (if any) and after.
struct Write {
    broker: BrokerAt,
    before: Option<TopicConfig>,
    after: TopicConfig,
    /// How many plan steps belong to it.
    steps: usize,
}

/// `rmq topic create`
pub async fn create(session: &Session, args: CreateArgs) -> Result<(), Failure> {
    let (read, write) = (
        args.queues.or(args.read_queues).unwrap_or(NEW_QUEUES),
        args.queues.or(args.write_queues).unwrap_or(NEW_QUEUES),
    );
    check_queues("queues", args.queues, 1)?;
    check_queues("read-queues", Some(read), 1)?;
    check_queues("write-queues", Some(write), 1)?;
    check_name(session, &args.name, args.force_system).await?;
    let mut after = TopicConfig {
        topic_name: args.name.clone(),
        read_queue_nums: read,
        write_queue_nums: write,
        perm: args.perm.map_or(Perm::READ_WRITE, |p| p.apply(Perm(0))),
        order: args.order,
        topic_sys_flag: if args.unit { UNIT } else { 0 } | if args.has_unit_sub { UNIT_SUB } else { 0 },
        attributes: args.attr.into_iter().collect(),
        ..TopicConfig::default()
    };
    if let Some(message_type) = args.message_type {
        after.attributes.insert("message.type".into(), message_type);
    }
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    check_per_broker(&args.per_broker, &brokers)?;
    let answers = configs(session, &brokers, &args.name).await;
    let (absent, unread) = lacking("topic", &args.name, answers)?;
    let mut plan = Plan {
        action: format!("create topic {}", args.name),
        object: args.name.clone(),
        cluster: cluster_of(&brokers),
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let mut writes = Vec::new();
    let mut total = 0;
    for broker in absent {
        let mut after = after.clone();
        if let Some((_, n)) = args.per_broker.iter().find(|(name, _)| *name == broker.id.name) {
            after.read_queue_nums = *n;
            after.write_queue_nums = *n;
        }
        total += after.write_queue_nums;
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: "topic".into(),
            before: "absent".into(),
            after: described(&after),
        });
        writes.push(Write {
            broker,
            before: None,
            after,
            steps: 1,
        });
    }
    plan.impact.push(match args.per_broker.is_empty() {
        true => format!(
            "{write} write and {read} read queues on each of {} = {total} write queues",
            counted(writes.len(), "broker")
        ),
        false => format!("{total} write queues over {}", counted(writes.len(), "broker")),
    });
    let whole_cluster = args.scope.broker.is_empty() && unread.is_empty();
    let mut undo = args.scope.delete_line(
        ("topic", &args.name),
        &plan.cluster,
        writes.iter().map(|w| &w.broker),
        unread.is_empty(),
    );
    mention(&mut plan, "topic", &unread, !writes.is_empty())?;
    let order = if args.order {
        order_entries(session, &mut plan, &args.name, &writes).await?
    } else {
        OrderChange::default()
    };
    // A topic that goes from its whole cluster takes its entry along, and from one broker leaves it.
    if !(whole_cluster && order.was.iter().all(|(_, before)| before.is_none())) {
        order.go_back(&args.name, &mut undo);
    }
    carry_out(session, plan, writes, unread, order, &args.name, undo).await
}

/// A configuration in words.
fn described(config: &TopicConfig) -> String {
    let attributes: String = config
        .attributes
        .iter()
        .map(|(k, v)| format!(", {k}={v}"))
        .collect();
    let flag = |on: bool, word: &str| if on { format!(", {word}") } else { String::new() };
    format!(
        "{} read and {} write queues, perm {} {}{}{}{}{attributes}",
        config.read_queue_nums,
        config.write_queue_nums,
        config.perm.0,
        config.perm,
        flag(config.order, "ordered"),
        flag(config.topic_sys_flag & UNIT != 0, "unit"),
        flag(config.topic_sys_flag & UNIT_SUB != 0, "unit subscriptions"),
    )
}

/// An order entry that changes with its topic.
#[derive(Debug, Default)]
struct OrderChange {
    /// The name servers that are written, with what they had.
    was: Vec<(String, Option<String>)>,
    /// What they get; none removes it.
    value: Option<String>,
    /// What the brokers as they are ask for; the commands that bring a topic back bring it back, too.
    by_brokers: Option<String>,
    /// How many name servers there are.
    everyone: usize,
}

impl OrderChange {
    /// Adds to an undo line what gives the name servers back what they had.
    fn go_back(&self, name: &str, undo: &mut String) {
        if self.was.is_empty() {
            return;
        }
        let entry = kv::undo(self.everyone, self.was.clone(), |before| match before {
            Some(before) => format!("topic order set {} {}", quoted(name), quoted(before)),
            None => format!("topic order unset {}", quoted(name)),
        });
        undo.push_str(&format!(" && {entry}"));
    }
}

/// The entry that brokers with these order flags and write queues ask for.
fn order_conf(queues: &BTreeMap<String, (bool, i32)>) -> Option<String> {
    let ordered: Vec<String> = queues
        .iter()
        .filter(|(_, (order, _))| *order)
        .map(|(broker, (_, n))| format!("{broker}:{n}"))
        .collect();
    (!ordered.is_empty()).then(|| ordered.join(";"))
}

/// What the name servers' order entry of a topic shall be after `writes`, as steps of the plan. Producers and
/// consumers of ordered topics go by it where it is there.
async fn order_entries(
    session: &Session,
    plan: &mut Plan,
    name: &str,
    writes: &[Write],
) -> Result<OrderChange, Failure> {
    let scope = crate::client::Scope {
        cluster: writes
            .first()
            .map(|w| w.broker.id.cluster.clone())
            .filter(|c| !c.is_empty()),
        ..crate::client::Scope::default()
    };
    let brokers = session.client.brokers(&scope, Which::Masters).await?;
    let mut queues: BTreeMap<String, (bool, i32)> = BTreeMap::new();
    for (broker, answer) in configs(session, &brokers, name).await {
        if let Ok(Some((config, _))) = answer {
            queues.insert(broker.id.name, (config.order, config.write_queue_nums));
        }
    }
    let by_brokers = order_conf(&queues);
    for write in writes {
        queues.insert(
            write.broker.id.name.clone(),
            (write.after.order, write.after.write_queue_nums),
        );
    }
    let value = order_conf(&queues);
    let answers = session.client.order_conf_each(name).await;
    let (everyone, mut was) = (answers.len(), Vec::new());
    for (addr, before) in answers {
        // A name server that does not answer has no entry to change; its state shows when it is back.
        let Ok(before) = before else { continue };
        if before == value {
            continue;
        }
        plan.steps.push(Step {
            target: format!("name server {addr}"),
            field: "order_conf".into(),
            before: before.clone().unwrap_or_else(|| "absent".into()),
            after: value.clone().unwrap_or_else(|| "absent".into()),
        });
        was.push((addr, before));
    }
    Ok(OrderChange {
        was,
        value,
        by_brokers,
        everyone,
    })
}

/// `rmq topic update`
pub async fn update(session: &Session, args: UpdateArgs) -> Result<(), Failure> {
    let mut patch = TopicPatch {
        read_queues: args.queues.or(args.read_queues),
        write_queues: args.queues.or(args.write_queues),
        perm: args.perm,
        order: args.order,
        unit: args.unit,
        has_unit_sub: args.has_unit_sub,
        set_attributes: args.attr.into_iter().collect(),
        unset_attributes: args.unset_attr.into_iter().collect(),
    };
    if let Some(message_type) = args.message_type {
        patch.set_attributes.insert("message.type".into(), message_type);
    }
    if patch.is_empty() && args.per_broker.is_empty() && !args.create {
        return Err(
            Failure::usage(format!("nothing to change in topic {} is named", args.name))
                .hint(format!("rmq topic update {} --perm 6", args.name)),
        );
    }
    check_queues("queues", args.queues, 0)?;
    check_queues("read-queues", patch.read_queues, 0)?;
    check_queues("write-queues", patch.write_queues, 0)?;
    check_name(session, &args.name, args.force_system).await?;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    check_per_broker(&args.per_broker, &brokers)?;
    // A broker that gets it from here would have it as an ordinary topic.
    let resized = patch.read_queues.is_some()
        || patch.write_queues.is_some()
        || !args.per_broker.is_empty()
        || args.create;
    if resized {
        refuse_static(session, &args.name).await?;
    }
    let mut plan = Plan {
        action: format!("update topic {}", args.name),
        object: args.name.clone(),
        cluster: cluster_of(&brokers),
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let (mut writes, mut undo, mut unread, mut found) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (broker, answer) in configs(session, &brokers, &args.name).await {
        let (before, source) = match answer {
            Ok(Some(config)) => config,
            Ok(None) if args.create => {
                found += 1;
                let mut after = patch.apply(&TopicConfig {
                    topic_name: args.name.clone(),
                    read_queue_nums: 8,
                    write_queue_nums: 8,
                    ..TopicConfig::default()
                });
                if let Some((_, n)) = args.per_broker.iter().find(|(name, _)| *name == broker.id.name) {
                    after.read_queue_nums = *n;
                    after.write_queue_nums = *n;
                }
                undo.push(format!("rmq topic delete {} --broker {}", args.name, broker.addr));
                plan.steps.push(Step {
                    target: broker.server().to_string(),
                    field: "topic".into(),
                    before: "absent".into(),
                    after: described(&after),
                });
                writes.push(Write {
                    steps: 1,
                    broker,
                    before: None,
                    after,
                });
                continue;
            }
            Ok(None) => continue,
            Err(e) => {
                unread.push(unread_at(&broker, &e));
                continue;
            }
        };
        found += 1;
        if source == ConfigSource::Route {
            session.warn(&format!(
                "{} is too old to tell a topic's order flag and attributes; they are sent as defaults",
                broker.server()
            ));
        }
        let mut after = patch.apply(&before);
        if let Some((_, n)) = args.per_broker.iter().find(|(name, _)| *name == broker.id.name) {
            after.read_queue_nums = *n;
            after.write_queue_nums = *n;
        }
        let changed = differences(&before, &after);
        if changed.is_empty() {
            continue;
        }
        judge(&mut plan, &broker, &before, &after, args.force)?;
        undo.push(undo_line(&args.name, &broker, &before, &after));
        for (field, from, to) in &changed {
            plan.steps.push(Step {
                target: broker.server().to_string(),
                field: field.clone(),
                before: from.clone(),
                after: to.clone(),
            });
        }
        writes.push(Write {
            steps: changed.len(),
            broker,
            before: Some(before),
            after,
        });
    }
    mention(&mut plan, "topic", &unread, found > 0)?;
    if found == 0 {
        let searched = format!("{} of cluster {}", counted(brokers.len(), "broker"), plan.cluster);
        return Err(not_found(session, &args.name, searched).await);
    }
    if writes.is_empty() && unread.is_empty() {
        return change::nothing(session);
    }
    let touches_order = |w: &Write| {
        let before = w.before.as_ref().map(|b| (b.order, b.write_queue_nums));
        match before {
            Some((order, queues)) => {
                order != w.after.order || w.after.order && queues != w.after.write_queue_nums
            }
            None => w.after.order,
        }
    };
    let order = if writes.iter().any(touches_order) {
        order_entries(session, &mut plan, &args.name, &writes).await?
    } else {
        OrderChange::default()
    };
    let mut undo = undo.join(" && ");
    let made = writes.iter().any(|write| write.before.is_none());
    if made || order.was.iter().any(|(_, before)| *before != order.by_brokers) {
        order.go_back(&args.name, &mut undo);
    }
    carry_out(session, plan, writes, unread, order, &args.name, undo).await
}

/// The queues of a static topic are changed by its mapping alone.
pub async fn refuse_static(session: &Session, name: &str) -> Result<(), Failure> {
    let client = &session.client;
    let Some(route) = client.route(name).await? else {
        return Ok(());
    };
    if !client.is_static_now(name, &route).await? {
        return Ok(());
    }
    let what = format!("\"{name}\" is a static topic; nothing was changed");
    Err(Failure::new(exit::PRECONDITION, what)
        .because("Its brokers' queues belong to the queues of its mapping.")
        .hint(format!("rmq static-topic update {name} --queues N")))
}

/// Raises the class of a plan, adds its impact, and refuses what hides messages.
fn judge(
    plan: &mut Plan,
    broker: &BrokerAt,
    before: &TopicConfig,
    after: &TopicConfig,
    force: bool,
) -> Result<(), Failure> {
    let name = &broker.id.name;
    let fewer_reads = after.read_queue_nums < before.read_queue_nums;
    let fewer_writes = after.write_queue_nums < before.write_queue_nums;
    let unread = after.read_queue_nums < after.write_queue_nums
        && (after.read_queue_nums != before.read_queue_nums
            || after.write_queue_nums != before.write_queue_nums);
    if (fewer_reads || fewer_writes || unread) && !force {
        let why = if unread {
            format!(
                "On {name} producers would write {} of which consumers read {}.",
                counted(after.write_queue_nums, "queue"),
                after.read_queue_nums
            )
        } else {
            format!("On {name} there would be fewer queues than now; messages in the others may stay unread.")
        };
        return Err(
            Failure::new(exit::PRECONDITION, format!("{} was not done", plan.action))
                .because(why)
                .hint("rmq topic scale, which shrinks step by step and waits until nothing is left; --force goes on now"),
        );
    }
    if fewer_reads || fewer_writes {
        plan.class = plan.class.max(Class::B);
        plan.impact.push(format!(
            "{name}: queues {} and up are no longer {}",
            if fewer_reads {
                after.read_queue_nums
            } else {
                after.write_queue_nums
            },
            if fewer_reads { "read" } else { "written" }
        ));
    }
    if before.perm.writable() && !after.perm.writable() {
        plan.class = plan.class.max(Class::B);
        plan.impact.push(format!("{name}: producers are refused"));
    }
    if before.perm.readable() && !after.perm.readable() {
        plan.class = plan.class.max(Class::B);
        plan.impact.push(format!("{name}: consumers are refused"));
    }
    Ok(())
}

/// The command that restores what a broker had.
pub fn undo_line(name: &str, broker: &BrokerAt, before: &TopicConfig, after: &TopicConfig) -> String {
    let mut line = format!("rmq topic update {name} --broker {}", broker.addr);
    if before.perm != after.perm {
        line.push_str(&format!(" --perm {}", before.perm.0));
    }
    if before.read_queue_nums != after.read_queue_nums {
        line.push_str(&format!(" --read-queues {}", before.read_queue_nums));
    }
    if before.write_queue_nums != after.write_queue_nums {
        line.push_str(&format!(" --write-queues {}", before.write_queue_nums));
    }
    if before.order != after.order {
        line.push_str(&format!(" --order {}", before.order));
    }
    for (key, value) in &before.attributes {
        if after.attributes.get(key) != Some(value) {
            line.push_str(&format!(" --attr {}", quoted(&format!("{key}={value}"))));
        }
    }
    for key in after
        .attributes
        .keys()
        .filter(|k| !before.attributes.contains_key(*k))
    {
        line.push_str(&format!(" --unset-attr {}", quoted(key)));
    }
    for (bit, flag) in [(UNIT, "unit"), (UNIT_SUB, "has-unit-sub")] {
        let (was, is) = (before.topic_sys_flag & bit != 0, after.topic_sys_flag & bit != 0);
        if was != is {
            line.push_str(&format!(" --{flag} {was}"));
        }
    }
    // Going back up from a shrink, or down from a growth, needs no second thought in an undo.
    if after.read_queue_nums > before.read_queue_nums || after.write_queue_nums > before.write_queue_nums {
        line.push_str(" --force");
    }
    line
}

/// Confirms, writes to every broker, reads back from every broker and name server, reports.
async fn carry_out(
    session: &Session,
    plan: Plan,
    writes: Vec<Write>,
    unread: Vec<Unread>,
    order: OrderChange,
    name: &str,
    undo: String,
) -> Result<(), Failure> {
    if session.dry_run {
        return change::rehearse(session, &plan, unread, order.was.len());
    }
    change::confirm(session, &plan)?;
    let client = &session.client;
    let results = client
        .each(writes, |write| async move {
            let server = write.broker.server();
            let done = client
                .write_topic(&server, write.before.as_ref(), &write.after, client.deadline())
                .await;
            let outcome = change::proof(done, read_back(session, &write)).await;
            (write, outcome)
        })
        .await;
    let mut outcomes = Vec::new();
    let mut written: Vec<&Write> = Vec::new();
    for (write, outcome) in &results {
        if outcome.is_done() {
            written.push(write);
        }
        outcomes.extend(vec![outcome.clone(); write.steps]);
    }
    if let Some(why) = routes_differ(session, name, &written).await {
        for outcome in &mut outcomes {
            if matches!(outcome, Outcome::Done) {
                *outcome = Outcome::Unproven(why.clone());
            }
        }
    }
    outcomes.extend(unread.into_iter().map(|u| Outcome::Failed(u.failure)));
    // Only brokers that took the change may be named by the entry.
    let all_done = outcomes.iter().all(|o| matches!(o, Outcome::Done));
    for (addr, _) in order.was {
        outcomes.push(if all_done {
            topic_order::write(session, &addr, name, order.value.as_deref()).await
        } else {
            let what = "not written, since a broker failed";
            Outcome::Failed(Failure::new(exit::PRECONDITION, what))
        });
    }
    change::report(session, &plan, outcomes, Some(undo))
}

/// What the broker has after the write, when it is not what was written.
async fn read_back(session: &Session, write: &Write) -> Result<Option<String>, Failure> {
    let client = &session.client;
    let now = client
        .topic_config(&write.broker, &write.after.topic_name, client.deadline())
        .await?;
    Ok(match now {
        Some((now, source)) => {
            let wrong = differences(&write.after, &now);
            // A route knows neither order nor attributes.
            let wrong: Vec<String> = wrong
                .into_iter()
                .filter(|(field, _, _)| {
                    source == ConfigSource::Broker || field != "order" && !field.starts_with("attr")
                })
                .map(|(field, _, now)| format!("{field} reads back {now}"))
                .collect();
            (!wrong.is_empty()).then(|| wrong.join(", "))
        }
        None => Some("the broker does not have the topic".into()),
    })
}

/// Waits until every name server that answers has the new values; what is still wrong at the end.
async fn routes_differ(session: &Session, name: &str, writes: &[&Write]) -> Option<String> {
    if writes.is_empty() {
        return None;
    }
    let client = &session.client;
    let end = Instant::now() + session.timeout;
    let mut pause = Duration::from_millis(5);
    // A broker registers a topic's permission cut down to its own; asked for only where the two differ.
    let mut own_perms: BTreeMap<&str, Option<Perm>> = BTreeMap::new();
    loop {
        let mut wrong = None;
        'routes: for (addr, route) in client.route_each(name).await {
            // A dead name server learns from the broker when it is back.
            let Ok(route) = route else { continue };
            let Some(route) = route else {
                wrong = Some(format!("name server {addr} has no route yet"));
                break;
            };
            for write in writes {
                let broker = write.broker.id.name.as_str();
                let mut what = differs(&route, write, None);
                if what.is_some() {
                    if !own_perms.contains_key(broker) {
                        let config = client
                            .look_config(&write.broker.server(), client.deadline())
                            .await;
                        own_perms.insert(broker, config.ok().and_then(|c| c.perm));
                    }
                    what = differs(&route, write, own_perms[broker]);
                }
                if let Some(what) = what {
                    wrong = Some(format!("name server {addr} {what}"));
                    break 'routes;
                }
            }
        }
        let why = wrong?;
        if Instant::now() + pause >= end {
            return Some(why);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

fn differs(route: &TopicRouteData, write: &Write, own_perm: Option<Perm>) -> Option<String> {
    let broker = &write.broker.id.name;
    if broker.is_empty() {
        return None;
    }
    let Some(queues) = route.queue_datas.iter().find(|q| q.broker_name == *broker) else {
        return Some(format!("does not list {broker}"));
    };
    let after = &write.after;
    if queues.read_queue_nums != after.read_queue_nums || queues.write_queue_nums != after.write_queue_nums {
        return Some(format!(
            "still shows {}/{} on {broker}",
            queues.read_queue_nums,
            counted(queues.write_queue_nums, "queue")
        ));
    }
    let wanted = own_perm.map_or(after.perm, |own| after.perm.and(own));
    (queues.perm.and(Perm::READ_WRITE) != wanted.and(Perm::READ_WRITE))
        .then(|| format!("still shows perm {} on {broker}", queues.perm))
}

/// `rmq topic delete`
pub async fn delete(session: &Session, args: DeleteArgs) -> Result<(), Failure> {
    check_name(session, &args.name, args.force_system).await?;
    let client = &session.client;
    let name = args.name.as_str();
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let (mut targets, mut unread) = (Vec::new(), Vec::new());
    for (broker, answer) in configs(session, &brokers, name).await {
        match answer {
            Ok(Some((config, _))) => targets.push((broker, config)),
            Ok(None) => {}
            Err(e) => unread.push(unread_at(&broker, &e)),
        }
    }
    let cluster = cluster_of(&brokers);
    let whole_cluster = args.scope.broker.is_empty() || nowhere_else(session, name, &cluster, &brokers).await;
    let routes = client.route_each(name).await;
    let silent: Vec<Unread> = routes
        .iter()
        .filter(|_| whole_cluster)
        .filter_map(|(addr, route)| {
            let e = route.as_ref().err()?;
            Some(Unread::at(format!("name server {addr}"), Failure::from(e)))
        })
        .collect();
    let routed: Vec<String> = routes
        .iter()
        .filter(|(_, route)| {
            route.as_ref().is_ok_and(|route| {
                route
                    .as_ref()
                    .is_some_and(|r| r.broker_datas.iter().any(|set| set.cluster == cluster))
            })
        })
        .map(|(addr, _)| addr.clone())
        .collect();
    if targets.is_empty() && routed.is_empty() && unread.is_empty() {
        let searched = format!("{} of cluster {cluster}", counted(brokers.len(), "broker"));
        return Err(not_found(session, name, searched).await);
    }
    let was_static = routes
        .iter()
        .any(|(_, route)| route.as_ref().is_ok_and(|r| r.as_ref().is_some_and(is_static)));
    if was_static {
        session.warn(&format!(
            "a Java name server keeps the mapping of a static topic until its restart: it calls a topic that is made anew as \
             {name} static"
        ));
    }
    let mut impact = impact_of_delete(session, name, &targets, args.force).await?;
    let extra = if args.with_retry_dlq {
        companions(session, name, &targets).await?
    } else {
        Vec::new()
    };
    for (_, topic, messages) in &extra {
        impact.push(format!(
            "{} of {topic} will be lost",
            counted(*messages, "message")
        ));
    }
    let mut plan = Plan {
        action: format!("delete topic {name}"),
        object: name.to_owned(),
        cluster: cluster.clone(),
        class: Class::C,
        steps: Vec::new(),
        impact,
    };
    for (broker, config) in &targets {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: "topic".into(),
            before: format!(
                "{} read and {} write queues, perm {} {}",
                config.read_queue_nums, config.write_queue_nums, config.perm.0, config.perm
            ),
            after: "absent".into(),
        });
    }
    for (broker, topic, messages) in &extra {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: topic.clone(),
            before: counted(*messages, "message"),
            after: "absent".into(),
        });
    }
    // A name server is told of a topic of a whole cluster; see `still_routed` for the others.
    let name_servers: Vec<String> = if whole_cluster {
        routes
            .iter()
            .filter(|(_, route)| route.is_ok())
            .map(|(addr, _)| addr.clone())
            .collect()
    } else {
        Vec::new()
    };
    for addr in &name_servers {
        plan.steps.push(Step {
            target: format!("name server {addr}"),
            field: "route".into(),
            before: if routed.contains(addr) {
                "present"
            } else {
                "absent"
            }
            .into(),
            after: "absent".into(),
        });
    }
    let mut more_routes: Vec<(String, String)> = Vec::new();
    for addr in &name_servers {
        let topics: BTreeSet<&String> = extra.iter().map(|(_, topic, _)| topic).collect();
        for topic in topics {
            plan.steps.push(Step {
                target: format!("name server {addr}"),
                field: topic.clone(),
                before: "present".into(),
                after: "absent".into(),
            });
            more_routes.push((addr.clone(), topic.clone()));
        }
    }
    let mut entries: Vec<String> = Vec::new();
    if whole_cluster {
        for (addr, value) in client.order_conf_each(name).await {
            if let Ok(Some(value)) = value {
                plan.steps.push(Step {
                    target: format!("name server {addr}"),
                    field: "order_conf".into(),
                    before: value,
                    after: "absent".into(),
                });
                entries.push(addr);
            }
        }
    }
    mention(
        &mut plan,
        "topic",
        &unread,
        !targets.is_empty() || !routed.is_empty(),
    )?;
    mention(&mut plan, "route", &silent, true)?;
    unread.extend(silent);
    if session.dry_run {
        return change::rehearse(session, &plan, unread, 0);
    }
    change::confirm(session, &plan)?;
    let of_topic: Vec<String> = targets.iter().map(|(broker, _)| broker.id.name.clone()).collect();
    let places: Vec<(BrokerAt, String)> = targets
        .into_iter()
        .map(|(broker, _)| (broker, name.to_owned()))
        .chain(extra.into_iter().map(|(broker, topic, _)| (broker, topic)))
        .collect();
    let mut on_brokers = client
        .each(places, |(broker, topic)| async move {
            let server = broker.server();
            let deleted = client
                .delete_topic_on_broker(&server, &topic, client.deadline())
                .await;
            let answered = deleted.is_ok();
            change::proof(deleted, async {
                Ok(
                    match client.topic_config(&broker, &topic, client.deadline()).await? {
                        None => None,
                        // A broker too old to be asked is read through the route, which still has it now.
                        Some((_, ConfigSource::Route)) if answered => None,
                        Some(_) => Some("the broker still has the topic".into()),
                    },
                )
            })
            .await
        })
        .await;
    if !whole_cluster {
        still_routed(session, name, &of_topic, &mut on_brokers).await;
    }
    let routes: Vec<(String, String)> = name_servers
        .into_iter()
        .map(|addr| (addr, name.to_owned()))
        .chain(more_routes)
        .collect();
    let on_name_servers = client
        .each(routes, |(addr, topic)| {
            let cluster = cluster.as_str();
            async move {
                let deleted = client
                    .delete_topic_on_name_server(&addr, &topic, cluster, client.deadline())
                    .await;
                change::proof(deleted, still_at(session, &addr, &topic, cluster)).await
            }
        })
        .await;
    let on_entries = client
        .each(entries, |addr| async move {
            topic_order::write(session, &addr, name, None).await
        })
        .await;
    let not_read = unread.into_iter().map(|u| Outcome::Failed(u.failure));
    let outcomes = on_brokers
        .into_iter()
        .chain(on_name_servers)
        .chain(on_entries)
        .chain(not_read)
        .collect();
    let gone = Undo::Never("the messages are gone; rmq topic create makes the topic anew, empty");
    change::report(session, &plan, outcomes, gone)
}

/// True when the other brokers of the cluster answered that they do not have a topic: its routes go with it.
async fn nowhere_else(session: &Session, name: &str, cluster: &str, brokers: &[BrokerAt]) -> bool {
    let scope = crate::client::Scope {
        cluster: Some(cluster.to_owned()),
        ..crate::client::Scope::default()
    };
    let Ok(mut others) = session.client.brokers(&scope, Which::Masters).await else {
        return false;
    };
    others.retain(|broker| !brokers.iter().any(|b| b.id.name == broker.id.name));
    let answers = configs(session, &others, name).await;
    answers.iter().all(|(_, answer)| matches!(answer, Ok(None)))
}

/// A broker that has lost a topic registers without it. What it registered before stays where deleteTopicWithBrokerRegistration
/// is not set, as it is by default with Java's name servers and ours, and no request takes the queues of one broker away.
async fn still_routed(session: &Session, topic: &str, brokers: &[String], outcomes: &mut [Outcome]) {
    let routes = session.client.route_each(topic).await;
    for (broker, outcome) in brokers.iter().zip(outcomes) {
        let lists = |route: &TopicRouteData| route.queue_datas.iter().any(|q| q.broker_name == *broker);
        let left: Vec<&str> = routes
            .iter()
            .filter(|(_, route)| route.as_ref().is_ok_and(|r| r.as_ref().is_some_and(lists)))
            .map(|(addr, _)| addr.as_str())
            .collect();
        if !left.is_empty() && matches!(outcome, Outcome::Done) {
            *outcome = Outcome::DoneBut(format!(
                "but still routed to by {}: a name server forgets it only with deleteTopicWithBrokerRegistration=true, at the \
                 broker's next registration",
                left.join(", ")
            ));
        }
    }
}

/// A name server's "success" proves nothing: a broker that still has the topic brings its route back.
pub(super) async fn still_at(
    session: &Session,
    addr: &str,
    topic: &str,
    cluster: &str,
) -> Result<Option<String>, Failure> {
    let client = &session.client;
    let route = client.route_at(addr, topic, client.deadline()).await?;
    let sets = route.into_iter().flat_map(|route| route.broker_datas);
    let left: Vec<String> = sets
        .filter(|set| set.cluster == cluster)
        .map(|set| set.broker_name)
        .collect();
    Ok((!left.is_empty()).then(|| format!("still routed to {}", left.join(", "))))
}

/// Retry and dead-letter topics of groups that have positions in this topic and in no other, with their messages.
async fn companions(
    session: &Session,
    name: &str,
    targets: &[(BrokerAt, TopicConfig)],
) -> Result<Vec<(BrokerAt, String, i64)>, Failure> {
    let client = &session.client;
    let brokers: Vec<BrokerAt> = targets.iter().map(|(broker, _)| broker.clone()).collect();
    let known = client.known_groups(&brokers).await;
    if let Some((_, e)) = known.failed.first() {
        return Err(Failure::from(e));
    }
    let mut found = Vec::new();
    for (group, state) in &known.groups {
        let own: BTreeSet<&String> = state
            .offsets
            .values()
            .flatten()
            .filter(|topic| !topic.starts_with(RETRY_PREFIX))
            .collect();
        if own.len() != 1 || !own.iter().any(|topic| *topic == name) {
            continue;
        }
        for broker in &brokers {
            for topic in [format!("{RETRY_PREFIX}{group}"), format!("{DLQ_PREFIX}{group}")] {
                if client
                    .topic_config(broker, &topic, client.deadline())
                    .await?
                    .is_some()
                {
                    let stats = client
                        .topic_stats(&broker.server(), &topic, client.deadline())
                        .await?;
                    found.push((broker.clone(), topic, count(&stats)));
                }
            }
        }
    }
    Ok(found)
}

/// What is lost with a topic; refuses while it is in use.
async fn impact_of_delete(
    session: &Session,
    name: &str,
    targets: &[(BrokerAt, TopicConfig)],
    force: bool,
) -> Result<Vec<String>, Failure> {
    let client = &session.client;
    let (mut messages, mut last_stored) = (0_i64, 0_i64);
    let mut online = BTreeSet::new();
    for (broker, _) in targets {
        let server = broker.server();
        let stats = client.topic_stats(&server, name, client.deadline()).await?;
        for offsets in stats.offset_table.values() {
            messages += offsets.max_offset.saturating_sub(offsets.min_offset).max(0);
            last_stored = last_stored.max(offsets.last_update_timestamp);
        }
        for group in client.topic_groups(&server, name, client.deadline()).await? {
            let clients = client.group_clients(&server, &group, client.deadline()).await?;
            if clients
                .is_some_and(|c| !c.connection_set.is_empty() && c.subscription_table.contains_key(name))
            {
                online.insert(group);
            }
        }
    }
    let mut impact = vec![format!("{} will be lost", counted(messages, "message"))];
    let mut in_use = Vec::new();
    if !online.is_empty() {
        let groups: Vec<String> = online.into_iter().collect();
        in_use.push(format!("groups online on it: {}", groups.join(", ")));
    }
    let idle = u64::try_from(time::now_ms().saturating_sub(last_stored)).unwrap_or(0);
    if last_stored > 0 && Duration::from_millis(idle) < IN_USE {
        in_use.push(format!(
            "the last message came {} ago",
            time::duration(Duration::from_millis(idle))
        ));
    }
    if !in_use.is_empty() && !force {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("topic \"{name}\" is in use; nothing was changed"),
        )
        .because(in_use.join("; "))
        .hint("--force deletes it all the same"));
    }
    impact.extend(in_use);
    Ok(impact)
}
