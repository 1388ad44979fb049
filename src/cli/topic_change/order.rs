//! The order entry that changes with its topic, and its way back.

use std::collections::BTreeMap;

use super::write::Write;
use crate::cli::change::Plan;
use crate::cli::exit::Failure;
use crate::cli::session::Session;
use crate::cli::topic::configs;
use crate::cli::{kv, quoted, topic_order};
use crate::client::Which;

/// An order entry that changes with its topic.
#[derive(Debug, Default)]
pub struct OrderChange {
    /// The name servers that are written, with what they had.
    pub was: Vec<(String, Option<String>)>,
    /// What they get; none removes it.
    pub value: Option<String>,
    /// What the brokers as they are ask for; the commands that bring a topic back bring it back, too.
    pub by_brokers: Option<String>,
    /// How many name servers there are.
    everyone: usize,
}

impl OrderChange {
    /// Adds to an undo line what gives the name servers back what they had.
    pub fn go_back(&self, name: &str, undo: &mut String) {
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
pub async fn order_entries(
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
        plan.steps
            .push(topic_order::step(&addr, before.as_deref(), value.as_deref()));
        was.push((addr, before));
    }
    Ok(OrderChange {
        was,
        value,
        by_brokers,
        everyone,
    })
}
