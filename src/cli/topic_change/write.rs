//! Writes topics, and reads back from brokers and name servers.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::order::OrderChange;
use crate::cli::change::{self, Outcome, Plan, Unread};
use crate::cli::exit::{self, Failure};
use crate::cli::session::Session;
use crate::cli::topic_order;
use crate::client::BrokerAt;
use crate::client::admin::topic::{ConfigSource, differences};
use crate::client::words::counted;
use crate::protocol::body::{TopicConfig, TopicRouteData};
use crate::protocol::model::Perm;

/// One write: the broker, its topic before (if any) and after.
pub struct Write {
    pub broker: BrokerAt,
    pub before: Option<TopicConfig>,
    pub after: TopicConfig,
    /// How many plan steps belong to it.
    pub steps: usize,
}

/// Confirms, writes to every broker, reads back from every broker and name server, reports.
pub async fn carry_out(
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
    session.under_way.undone_by(Some(undo.clone()));
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
