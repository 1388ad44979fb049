//! `rmq topic create`.

use clap::Args;

use super::order::{OrderChange, order_entries};
use super::write::{Write, carry_out};
use super::{broker_queues, check_name, check_per_broker, check_queues, described, message_type};
use crate::cli::broker::cluster_of;
use crate::cli::change::{Class, Plan, Step, mention};
use crate::cli::exit::Failure;
use crate::cli::scope::{ScopeArgs, lacking};
use crate::cli::session::Session;
use crate::cli::topic::configs;
use crate::client::Which;
use crate::client::admin::topic::{NEW_QUEUES, PermChange};
use crate::client::words::counted;
use crate::protocol::body::TopicConfig;
use crate::protocol::model::{Perm, UNIT, UNIT_SUB};

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
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::cli::broker::pair)]
    attr: Vec<(String, String)>,
    /// Create a topic with a system name
    #[arg(long)]
    force_system: bool,
    #[command(flatten)]
    scope: ScopeArgs,
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
