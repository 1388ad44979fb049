//! The writes of `rmq apply`, and the proof that each is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Prepared;
use crate::cli::change::{self, Outcome};
use crate::cli::exit::{self, Failure};
use crate::cli::session::Session;
use crate::cli::topic_change::still_at;
use crate::client::declare::plan::{Change, changes};
use crate::client::{BrokerAt, Deadline, Error};
use crate::protocol::Json;
use crate::protocol::requests::{DeleteSubscriptiongroup, UpdateAndCreateSubscriptiongroup};

/// Changes in a row that a broker does not answer, after which it gets no more.
const GIVE_UP: u32 = 3;

/// Does the writes, to all brokers at once and in their order on each; one that fails does not stop the others. A broker
/// that says nothing [`GIVE_UP`] times in a row is asked no more.
pub(super) async fn carry_out(session: &Session, prepared: &Prepared) -> Vec<Result<(), Failure>> {
    let mut by_broker: BTreeMap<&BrokerAt, Vec<(usize, &Change)>> = BTreeMap::new();
    for (at, change) in prepared.changes.iter().enumerate() {
        by_broker.entry(change.broker()).or_default().push((at, change));
    }
    let done = session
        .client
        .each(by_broker.into_values().collect(), |changes| async move {
            let mut done = Vec::new();
            let mut in_a_row = 0;
            for (at, change) in changes {
                if in_a_row >= GIVE_UP {
                    let server = change.broker().server();
                    let failure = Failure::new(
                        exit::CONNECTION,
                        format!("not sent: {server} answered none of the {GIVE_UP} changes before it"),
                    );
                    done.push((at, Err(failure)));
                    continue;
                }
                let written = write_one(session, change).await;
                in_a_row = match &written {
                    Err(e) if e.is_unreachable() => in_a_row + 1,
                    _ => 0,
                };
                done.push((at, written.map_err(Failure::from)));
            }
            done
        })
        .await;
    let mut done: Vec<(usize, Result<(), Failure>)> = done.into_iter().flatten().collect();
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, written)| written).collect()
}

async fn write_one(session: &Session, change: &Change) -> Result<(), Error> {
    let client = &session.client;
    let server = change.broker().server();
    let deadline = client.deadline();
    match change {
        Change::Topic { before, after, .. } => {
            client
                .write_topic(&server, before.as_ref(), after, deadline)
                .await
        }
        Change::Group { before, after, .. } => {
            let body = Json::new(group_body(before.as_deref(), after));
            client
                .call(&server, &UpdateAndCreateSubscriptiongroup, Some(body), deadline)
                .await
                .map(drop)
        }
        Change::DeleteTopic { name, .. } => client.delete_topic_on_broker(&server, name, deadline).await,
        Change::DeleteGroup { name, .. } => {
            let header = DeleteSubscriptiongroup {
                group_name: name.clone(),
                clean_offset: true,
            };
            client.call(&server, &header, (), deadline).await.map(drop)
        }
        Change::User { before, after, .. } => {
            client
                .write_user(&server, after.clone(), before.is_none(), deadline)
                .await
        }
        Change::Rule { after, is_first, .. } => {
            let rules = std::slice::from_ref(after);
            client
                .write_acl(&server, &after.subject, rules, *is_first, deadline)
                .await
        }
        Change::DeleteRule { rule, .. } => {
            client
                .delete_acl(&server, &rule.subject, Some(&rule.resource), deadline)
                .await
        }
        Change::DeleteUser { name, .. } => client.delete_user(&server, name, deadline).await,
    }
}

/// The routes of topics that are gone from every broker are taken from the name servers, which keep them otherwise; where
/// one stays, the topic is not deleted.
pub(super) async fn forget_routes(session: &Session, prepared: &Prepared, outcomes: &mut [Outcome]) {
    let client = &session.client;
    let mut gone: BTreeMap<&str, bool> = BTreeMap::new();
    for (change, outcome) in prepared.changes.iter().zip(&*outcomes) {
        if let Change::DeleteTopic { name, .. } = change {
            *gone.entry(name).or_insert(true) &= outcome.is_done();
        }
    }
    // Declared for other brokers, it lives on there and registers itself.
    gone.retain(|name, gone| *gone && !prepared.declared.topics.contains_key(*name));
    let routes: Vec<(&str, &str)> = gone
        .keys()
        .flat_map(|name| {
            client
                .name_servers()
                .iter()
                .map(move |addr| (*name, addr.as_str()))
        })
        .collect();
    let proven = client
        .each(routes, |(name, addr)| async move {
            let cluster = &prepared.cluster;
            let deleted = client
                .delete_topic_on_name_server(addr, name, cluster, client.deadline())
                .await;
            let outcome = change::proof(deleted, still_at(session, addr, name, cluster)).await;
            (name, addr, outcome)
        })
        .await;
    for (name, addr, of_route) in proven.iter().filter(|(.., outcome)| !outcome.is_done()) {
        let why = format!(
            "gone from the brokers, but not proven gone from name server {addr}: {}",
            of_route.text()
        );
        let changes = prepared.changes.iter().zip(&mut *outcomes);
        for (_, outcome) in changes.filter(
            |(change, _)| matches!(change, Change::DeleteTopic { name: deleted, .. } if deleted == name),
        ) {
            if outcome.is_done() {
                *outcome = Outcome::Unproven(why.clone());
            }
        }
    }
}

/// The group as the broker takes it: attributes travel as changes, `+key` sets and `-key` takes away.
fn group_body(
    before: Option<&crate::protocol::body::SubscriptionGroupConfig>,
    after: &crate::protocol::body::SubscriptionGroupConfig,
) -> crate::protocol::body::SubscriptionGroupConfig {
    let none = BTreeMap::new();
    let old = before.map_or(&none, |b| &b.attributes);
    let set = after
        .attributes
        .iter()
        .filter(|(k, v)| old.get(*k) != Some(v))
        .map(|(k, v)| (format!("+{k}"), v.clone()));
    let unset = old
        .keys()
        .filter(|k| !after.attributes.contains_key(*k))
        .map(|k| (format!("-{k}"), String::new()));
    crate::protocol::body::SubscriptionGroupConfig {
        attributes: set.chain(unset).collect(),
        ..after.clone()
    }
}

/// What became of each change. Waits for those that may be written until the timeout, longer each time; a broker that
/// cannot be read is not asked again, and leaves its own changes without proof.
pub(super) async fn read_back(
    session: &Session,
    prepared: &Prepared,
    done: Vec<Result<(), Failure>>,
    prune: bool,
) -> Vec<Outcome> {
    let end = Instant::now() + session.timeout;
    let mut pause = Duration::from_millis(50);
    let mut held = prepared.held.clone();
    let mut unread: BTreeSet<&BrokerAt> = BTreeSet::new();
    let mut wrong: Vec<Result<Option<String>, Failure>> = vec![Ok(None); done.len()];
    let mut open: Vec<usize> = (0..done.len())
        .filter(|at| done[*at].as_ref().err().is_none_or(|failure| failure.unsettled))
        .collect();
    while !open.is_empty() {
        let brokers = |of_accounts: bool| -> Vec<BrokerAt> {
            let changes = open.iter().map(|at| &prepared.changes[*at]);
            let those = changes.filter(|change| matches!(change.noun(), "user" | "acl") == of_accounts);
            let brokers: BTreeSet<&BrokerAt> = those.map(Change::broker).collect();
            brokers.into_iter().cloned().collect()
        };
        let deadline = Deadline::after(session.timeout);
        let (settings, accounts) = (brokers(false), brokers(true));
        let ((now, mut failed), read) = tokio::join!(
            session.client.held_by_some(&settings, deadline),
            session.client.accounts(&accounts, deadline)
        );
        held.topics.extend(now.topics);
        held.groups.extend(now.groups);
        held.accounts.extend(read.held);
        failed.extend(read.failed.into_iter().chain(read.left_out));
        let left = changes(&prepared.declared, &held, prune);
        for at in &open {
            let change = &prepared.changes[*at];
            wrong[*at] = match (failed.iter().find(|(broker, _)| broker == change.broker()), &left) {
                (Some((_, e)), _) => {
                    unread.insert(change.broker());
                    Err(Failure::from(e))
                }
                (None, Err(why)) => Err(Failure::new(exit::REJECTED, why.clone())),
                (None, Ok(left)) => Ok(left.iter().find(|left| same(left, change)).map(reads_back)),
            };
        }
        open.retain(|at| !matches!(wrong[*at], Ok(None)) && !unread.contains(prepared.changes[*at].broker()));
        if Instant::now() + pause >= end {
            break;
        }
        if !open.is_empty() {
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
    let mut outcomes = Vec::new();
    for (written, wrong) in done.into_iter().zip(wrong) {
        outcomes.push(change::proof(written, std::future::ready(wrong)).await);
    }
    outcomes
}

/// True for two changes of one object on one broker.
fn same(a: &Change, b: &Change) -> bool {
    a.noun() == b.noun() && a.name() == b.name() && a.broker() == b.broker()
}

/// What is there in place of what was written.
fn reads_back(left: &Change) -> String {
    let wrong = left.fields();
    let wrong = wrong
        .iter()
        .map(|(field, now, _)| format!("{field} reads back {now}"));
    wrong.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::declare::fresh_group;

    #[test]
    fn attributes_of_a_group_travel_as_changes() {
        let mut before = fresh_group("g");
        before.attributes = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "2".to_owned())].into();
        let mut after = before.clone();
        after.attributes = [("b".to_owned(), "3".to_owned()), ("c".to_owned(), "4".to_owned())].into();
        let body = group_body(Some(&before), &after);
        let sent: Vec<(&str, &str)> = body
            .attributes
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(sent, [("+b", "3"), ("+c", "4"), ("-a", "")]);
    }
}
