//! `rmq topic update`, and what a change of a topic must not do.

use clap::Args;

use super::order::{OrderChange, order_entries};
use super::write::{Write, carry_out};
use super::{broker_queues, check_name, check_per_broker, check_queues, described, message_type};
use crate::cli::broker::cluster_of;
use crate::cli::change::{self, Class, Plan, Step, mention};
use crate::cli::exit::{self, Failure};
use crate::cli::quoted;
use crate::cli::scope::{ScopeArgs, unread as unread_at};
use crate::cli::session::Session;
use crate::cli::topic::{configs, not_found};
use crate::client::admin::topic::{ConfigSource, PermChange, TopicPatch, differences};
use crate::client::words::counted;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::TopicConfig;
use crate::protocol::model::{UNIT, UNIT_SUB};

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
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::cli::broker::pair)]
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
    if plan.class >= Class::B {
        touched(session, &mut plan, &args.name, &writes).await;
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

/// Counts who uses the topic, and what is left in queues that lose their readers.
async fn touched(session: &Session, plan: &mut Plan, name: &str, writes: &[Write]) {
    let servers = writes.iter().map(|one| one.broker.server());
    plan.impact.push(session.client.use_of_topic(servers, name).await);
    for one in writes {
        let reads = one.after.read_queue_nums;
        if one
            .before
            .as_ref()
            .is_some_and(|before| reads < before.read_queue_nums)
        {
            let held = session
                .client
                .unconsumed_from(&one.broker.server(), name, reads)
                .await;
            plan.impact.push(format!("{}: {held}", one.broker.id.name));
        }
    }
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
