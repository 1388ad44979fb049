//! BR9: brokers that nobody registers, known only since others speak of them. Nothing is remembered from an earlier look: a
//! broker that is gone and of which nobody speaks cannot be told.
//!
//! Other checks have their own such traces: BR4 a slave without its master, TP4 an order configuration, HA2 a replica that
//! the controller misses.

use std::collections::{BTreeMap, BTreeSet};

use super::{Details, Evidence};
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::{BrokerState, Snapshot};

/// BR9.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    replicas(e.snapshot, found);
    let Some(details) = e.details else { return };
    elsewhere(e.snapshot, details, found);
    queues_of_clients(e.snapshot, details, found);
}

fn finding(rule: &'static str, severity: Severity, subject: Subject, text: String) -> Finding {
    Finding::new("BR9", rule, severity, subject, text).next("rmq broker list")
}

/// Brokers that a name server lists, or may list: one that does not answer says nothing.
fn registered(snapshot: &Snapshot) -> impl Iterator<Item = &BrokerState> {
    let brokers = snapshot.brokers.iter();
    brokers.filter(|b| b.registrations.iter().any(|r| r.listed != Some(false)))
}

fn number(broker: &BrokerState, key: &str) -> Option<i64> {
    broker.config.fresh()?.entries.get(key)?.trim().parse().ok()
}

/// A master that is set to have more replicas than are registered, and ids with a gap.
fn replicas(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    let mut names: BTreeMap<(&str, &str), Vec<&BrokerState>> = BTreeMap::new();
    for broker in registered(snapshot) {
        let name = (broker.broker.cluster.as_str(), broker.broker.name.as_str());
        names.entry(name).or_default().push(broker);
    }
    for ((_, name), members) in names {
        // Without a master BR4 tells more.
        let Some(master) = members.iter().find(|b| b.broker.is_master()) else {
            continue;
        };
        let subject = || Subject::Broker(master.broker.clone());
        let ids: BTreeSet<i64> = members.iter().map(|b| b.broker.id).collect();
        let text = ids.iter().map(i64::to_string).collect::<Vec<_>>().join(" ");
        let total = number(master, "totalReplicas").unwrap_or(1);
        let here = i64::try_from(ids.len()).unwrap_or(i64::MAX);
        if total > here {
            let text = format!("{name} is set to have {total} replicas and has {here}: ids {text}");
            found.push(
                finding("replica-missing", Severity::Warning, subject(), text)
                    .detail("totalReplicas of its master"),
            );
            continue;
        }
        // A controller gives ids away in its own order, and the leader of a DLedger group is 0 whichever it was.
        let is_told = |key: &str| {
            master
                .config
                .fresh()
                .and_then(|c| c.entries.get(key))
                .map(String::as_str)
        };
        let moves = ["enableControllerMode", "enableDLegerCommitLog"];
        if master.config.fresh().is_none() || moves.iter().any(|key| is_told(key) == Some("true")) {
            continue;
        }
        let last = ids.last().copied().unwrap_or(0);
        if here <= last {
            let text = format!("ids of {name} have a gap: {text}");
            let detail = "one between them was never started, or is gone";
            found.push(finding("id-gap", Severity::Info, subject(), text).detail(detail));
        }
    }
}

/// Brokers at a name server that only brokers name.
fn elsewhere(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    for (addr, table) in &details.other_name_servers {
        let Ok(table) = table else { continue };
        for listed in &table.listed {
            if !registered(snapshot).any(|b| b.broker == listed.broker) {
                let text = format!(
                    "{} {} is registered at {addr} and at no name server asked here",
                    listed.broker, listed.addr
                );
                let subject = Subject::Broker(listed.broker.clone());
                found.push(finding("registered-elsewhere", Severity::Warning, subject, text));
            }
        }
    }
}

/// Queues that clients hold of brokers without a registration: they had a route there a moment ago.
fn queues_of_clients(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    let names: BTreeSet<&str> = registered(snapshot).map(|b| b.broker.name.as_str()).collect();
    let mut held: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (group, clients) in &details.running {
        for info in clients.values().flatten() {
            for (queue, _) in info.mq_table.iter().filter(|(_, state)| !state.droped) {
                let name = queue.broker_name.as_str();
                // The name of static topics, whose queues are on many brokers.
                if !names.contains(name) && !name.starts_with("__syslo__") {
                    held.entry(name).or_default().insert(group);
                }
            }
        }
    }
    for (name, groups) in held {
        let groups = groups.into_iter().collect::<Vec<_>>().join(" ");
        let text = format!("clients hold queues of {name}, which is registered nowhere");
        let detail = format!("groups {groups}; clients drop it when they next ask for the route");
        let found_one = finding("held-by-clients", Severity::Warning, Subject::Cluster, text);
        found.push(found_one.detail(detail));
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::client::snapshot::{ClusterTable, Listed};

    /// What BR9 finds; a slave that only stands in the lists is told by HA1 as well.
    fn told(c: &Cluster) -> Vec<Finding> {
        let mut found = judge_of(c);
        found.retain(|f| f.check == "BR9");
        found
    }

    #[test]
    fn a_replica_that_the_master_is_set_to_have_is_missed() {
        let mut c = Cluster::healthy();
        c.set_config("broker-a", "totalReplicas", "2");
        let found = c.finds(&["BR9"]);
        assert!(found[0].text.contains("2 replicas and has 1: ids 0"), "{found:?}");
        c.add_slave("broker-a", 1);
        assert_eq!(told(&c), []);
    }

    #[test]
    fn ids_with_a_gap_are_told_unless_a_controller_gives_them() {
        let mut c = Cluster::healthy();
        c.add_slave("broker-a", 2);
        let found = told(&c);
        assert!(found[0].text.contains("broker-a have a gap: 0 2"), "{found:?}");
        assert_eq!(found[0].severity, Severity::Info);
        c.set_config("broker-a", "enableControllerMode", "true");
        assert_eq!(told(&c), []);
    }

    #[test]
    fn what_another_name_server_lists_and_what_clients_hold_is_told() {
        let mut c = Cluster::healthy();
        let table = ClusterTable {
            listed: vec![Listed {
                broker: id("broker-z", 0),
                addr: "10.0.0.9:10911".into(),
            }],
            live: None,
        };
        c.details.other_name_servers.insert("ns9:9876".into(), Ok(table));
        let running = c
            .details
            .running
            .values_mut()
            .flat_map(|clients| clients.values_mut());
        let info = running.flatten().next().expect("a client");
        let (queue, held) = info
            .mq_table
            .iter()
            .next()
            .map(|(q, p)| (q.clone(), p.clone()))
            .expect("a queue");
        let gone = crate::protocol::model::MessageQueue {
            broker_name: "broker-y".into(),
            ..queue
        };
        info.mq_table.insert(gone, held);
        let told = told(&c);
        let texts: Vec<&str> = told.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert!(
            texts
                .iter()
                .any(|t| t.contains("broker-z:0 10.0.0.9:10911 is registered at ns9:9876")),
            "{texts:?}"
        );
        assert!(texts.iter().any(|t| t.contains("broker-y")), "{texts:?}");
    }
}
