//! `rmq broker restart-plan`: the order of a rolling restart, and the commands of each step. Changes nothing.

use std::collections::BTreeMap;

use super::cluster::look;
use super::exit::{self, Failure};
use super::output::{Listing, col};
use super::scope::ScopeArgs;
use super::session::Session;
use crate::client::Parts;
use crate::client::snapshot::{BrokerState, Snapshot};

/// One step for one broker.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Step {
    broker: String,
    action: &'static str,
    command: String,
    why: String,
}

/// Runs `rmq broker restart-plan`.
pub async fn run(session: &Session, scope: &ScopeArgs) -> Result<(), Failure> {
    let parts = Parts {
        ha: true,
        ..Parts::default()
    };
    let snapshot = look(session, parts, scope).await?;
    if snapshot.brokers.is_empty() {
        return Err(
            Failure::new(exit::NOT_FOUND, "no broker is registered in this scope").hint("rmq namesrv list"),
        );
    }
    let mut listing = Listing::new(
        "RestartPlan",
        &[col("n"), col("broker"), col("action"), col("command"), col("why")],
    );
    listing.ordered = true;
    for (i, step) in steps(&snapshot).into_iter().enumerate() {
        listing.push(vec![
            (i + 1).into(),
            step.broker.into(),
            step.action.into(),
            step.command.into(),
            step.why.into(),
        ]);
    }
    session.printer.print(listing)
}

/// Slaves before masters, one broker at a time, a look at the cluster before the first and after each.
fn steps(snapshot: &Snapshot) -> Vec<Step> {
    let mut out = vec![Step {
        broker: "-".into(),
        action: "check",
        command: "rmq cluster doctor".into(),
        why: "a restart begins in a healthy cluster".into(),
    }];
    let mut names: BTreeMap<(&str, &str), Vec<&BrokerState>> = BTreeMap::new();
    for broker in &snapshot.brokers {
        let name = (broker.broker.cluster.as_str(), broker.broker.name.as_str());
        names.entry(name).or_default().push(broker);
    }
    let slaves = snapshot.brokers.iter().filter(|b| !b.broker.is_master());
    for slave in slaves {
        let id = slave.broker.to_string();
        out.push(Step {
            broker: id.clone(),
            action: "restart",
            command: format!("restart the process of {id} ({})", slave.addr),
            why: "a slave serves nobody who has no other choice".into(),
        });
        out.push(Step {
            broker: id,
            action: "wait",
            command: format!(
                "rmq cluster doctor --checks BR1,HA1 # until {} is in sync",
                slave.broker
            ),
            why: "the next restart may need it".into(),
        });
    }
    let masters = snapshot.brokers.iter().filter(|b| b.broker.is_master());
    for master in masters {
        let name = &master.broker.name;
        let others = snapshot.brokers.iter().any(|b| {
            b.broker.is_master() && b.broker.cluster == master.broker.cluster && b.broker.name != *name
        });
        let members = names.get(&(master.broker.cluster.as_str(), name.as_str()));
        let slaves = members.map_or(0, |m| m.len().saturating_sub(1));
        let in_sync = master.ha.fresh().map_or(0, |ha| ha.in_sync);
        if others {
            out.push(Step {
                broker: name.clone(),
                action: "drain",
                command: format!("rmq broker drain {name}"),
                why: "producers go to the other masters, consumers finish here".into(),
            });
        } else {
            out.push(Step {
                broker: name.clone(),
                action: "warn",
                command: "announce it: the cluster takes no messages meanwhile".into(),
                why: "it is the only master of its cluster".into(),
            });
        }
        out.push(Step {
            broker: name.clone(),
            action: "restart",
            command: format!("restart the process of {} ({})", master.broker, master.addr),
            why: match (slaves, in_sync) {
                (0, _) => "it has no slave: its unread messages wait until it is back".into(),
                (_, 0) => "none of its slaves is in sync: wait for that before".into(),
                (n, in_sync) => format!("{in_sync} of {n} slaves in sync serve reads meanwhile"),
            },
        });
        out.push(Step {
            broker: name.clone(),
            action: "wait",
            command: "rmq cluster doctor --checks NS,BR,HA".into(),
            why: "it answers, is registered everywhere and has its slaves".into(),
        });
        if others {
            out.push(Step {
                broker: name.clone(),
                action: "undrain",
                command: format!("rmq broker undrain {name}"),
                why: "producers may come back".into(),
            });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::snapshot::BrokerId;

    fn broker(name: &str, id: i64) -> BrokerState {
        BrokerState {
            broker: BrokerId {
                cluster: "c".into(),
                name: name.into(),
                id,
            },
            addr: "h:1".into(),
            ..BrokerState::default()
        }
    }

    #[test]
    fn slaves_come_first_and_masters_one_at_a_time() {
        let snapshot = Snapshot {
            brokers: vec![broker("a", 0), broker("a", 1), broker("b", 0)],
            ..Snapshot::default()
        };
        let order: Vec<String> = steps(&snapshot)
            .iter()
            .map(|s| format!("{} {}", s.action, s.broker))
            .collect();
        assert_eq!(
            order,
            [
                "check -",
                "restart a:1",
                "wait a:1",
                "drain a",
                "restart a",
                "wait a",
                "undrain a",
                "drain b",
                "restart b",
                "wait b",
                "undrain b"
            ]
        );
        let alone = Snapshot {
            brokers: vec![broker("a", 0)],
            ..Snapshot::default()
        };
        assert!(steps(&alone).iter().any(|s| s.action == "warn"));
        assert!(steps(&alone).iter().all(|s| s.action != "drain"));
    }
}
