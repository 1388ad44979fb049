//! `rmq topic create|update|delete`.

mod create;
mod delete;
mod order;
mod update;
mod write;

use std::collections::BTreeSet;

use super::exit::{self, Failure};
use super::session::Session;
use crate::client::BrokerAt;
use crate::client::admin::topic::{MAX_QUEUES, kind};
use crate::client::snapshot::TopicKind;
use crate::protocol::body::TopicConfig;
use crate::protocol::model::{UNIT, UNIT_SUB, check_topic};

pub use create::{CreateArgs, create};
pub use delete::{DeleteArgs, delete, still_at};
pub use update::{UpdateArgs, refuse_static, undo_line, update};

/// `broker-b=4`
pub fn broker_queues(text: &str) -> Result<(String, i32), String> {
    let (broker, number) = super::broker::pair(text)?;
    match number.trim().parse() {
        Ok(n) if (1..=MAX_QUEUES).contains(&n) => Ok((broker, n)),
        _ => Err(format!(
            "{number} is not a number of queues; use 1 to {MAX_QUEUES}"
        )),
    }
}

/// `--per-broker` may only name brokers that are meant.
pub fn check_per_broker(per_broker: &[(String, i32)], brokers: &[BrokerAt]) -> Result<(), Failure> {
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

/// `--type`
pub fn message_type(text: &str) -> Result<String, String> {
    let upper = text.to_ascii_uppercase();
    match upper.as_str() {
        "NORMAL" | "FIFO" | "DELAY" | "TRANSACTION" | "MIXED" | "UNSPECIFIED" => Ok(upper),
        _ => Err("use normal, fifo, delay, transaction, mixed or unspecified".into()),
    }
}

/// Refuses a number of queues that no topic has.
pub fn check_queues(flag: &str, number: Option<i32>, least: i32) -> Result<(), Failure> {
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

/// Refuses a name that is none, and system topics unless they are meant.
pub async fn check_name(session: &Session, name: &str, force_system: bool) -> Result<(), Failure> {
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

/// A configuration in words.
pub fn described(config: &TopicConfig) -> String {
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
