//! HA1 and HA2: slaves and controllers.

use super::{Evidence, by_limit};
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::{BrokerState, HaState};

/// A slave may be behind this far, bytes.
const BEHIND_BYTES: i64 = 64 * 1024 * 1024;

/// HA1 and HA2.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    for broker in &e.snapshot.brokers {
        slaves(e, broker, found);
    }
    controllers(e, found);
}

fn slaves(e: &Evidence<'_>, broker: &BrokerState, found: &mut Vec<Finding>) {
    let Some(ha) = broker.ha.fresh().filter(|_| broker.broker.is_master()) else {
        return;
    };
    let same_name = |other: &BrokerState| {
        other.broker.cluster == broker.broker.cluster && other.broker.name == broker.broker.name
    };
    let registered = e
        .snapshot
        .brokers
        .iter()
        .filter(|b| same_name(b) && !b.broker.is_master())
        .count();
    let subject = || Subject::Broker(broker.broker.clone());
    let name = &broker.broker;
    let expected = registered.max(ha.slaves.len());
    if expected > 0 && ha.in_sync < 1 {
        let text = format!("{name} has no slave in sync ({expected} known)");
        found.push(Finding::new(
            "HA1",
            "no-slave-in-sync",
            Severity::Critical,
            subject(),
            text,
        ));
    } else if ha.slaves.len() < registered {
        let text = format!(
            "{name} has {} of {registered} registered slaves connected",
            ha.slaves.len()
        );
        found.push(Finding::new(
            "HA1",
            "slave-missing",
            Severity::Warning,
            subject(),
            text,
        ));
    }
    let role = broker.config.fresh().and_then(|c| c.role.as_deref());
    // A standing state that a dashboard would show for ever.
    if e.details.is_some() && expected == 0 && role == Some("SYNC_MASTER") {
        let text = format!("{name} is SYNC_MASTER and has no slave");
        found.push(
            Finding::new("HA1", "slave-missing", Severity::Warning, subject(), text)
                .detail("each send is answered SLAVE_NOT_AVAILABLE"),
        );
    }
    let later = e
        .details
        .and_then(|d| d.later.get(name))
        .and_then(|l| l.ha.as_ref());
    for slave in &ha.slaves {
        if let Some(severity) = by_limit(slave.behind_bytes, BEHIND_BYTES) {
            let text = format!(
                "slave {} of {name} is {} B behind",
                slave.addr, slave.behind_bytes
            );
            found.push(Finding::new("HA1", "slave-behind", severity, subject(), text));
        } else if !slave.in_sync && ha.in_sync >= 1 {
            let text = format!("slave {} of {name} is not in sync", slave.addr);
            found.push(Finding::new(
                "HA1",
                "slave-not-in-sync",
                Severity::Warning,
                subject(),
                text,
            ));
        }
        if let Some(later) = later
            && stands_still(ha, later, &slave.addr)
        {
            let text = format!(
                "slave {} of {name} stands at {} while its master grows",
                slave.addr, slave.acked_offset
            );
            found.push(Finding::new(
                "HA1",
                "slave-stands",
                Severity::Critical,
                subject(),
                text,
            ));
        }
    }
}

fn stands_still(before: &HaState, after: &HaState, addr: &str) -> bool {
    let acked = |state: &HaState| {
        state
            .slaves
            .iter()
            .find(|s| s.addr == addr)
            .map(|s| s.acked_offset)
    };
    let (Some(a), Some(b)) = (acked(before), acked(after)) else {
        return false;
    };
    after.master_offset > before.master_offset && a == b && b < before.master_offset
}

fn controllers(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    for (name, view) in e.details.into_iter().flat_map(|d| &d.controllers) {
        let Some(broker) = e
            .snapshot
            .brokers
            .iter()
            .find(|b| b.broker.name == *name)
            .map(|b| &b.broker)
        else {
            continue;
        };
        let mut add = |rule, text: String| {
            let subject = Subject::Broker(broker.clone());
            found.push(Finding::new("HA2", rule, Severity::Critical, subject, text));
        };
        match view {
            Err(why) => add(
                "controller-silent",
                format!("no controller of {name} answers: {why}"),
            ),
            Ok(view) => {
                if view.leader.is_none() {
                    add(
                        "controller-no-leader",
                        format!("the controllers of {name} have no leader"),
                    );
                }
                if view.master.is_none() {
                    add("no-elected-master", format!("{name} has no elected master"));
                }
                if !view.out_of_sync.is_empty() {
                    let text = format!(
                        "{name} has {} replicas in sync and {} not: {}",
                        view.in_sync,
                        view.out_of_sync.len(),
                        view.out_of_sync.join(" ")
                    );
                    add("replica-not-in-sync", text);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::super::{ControllerView, Later};
    use super::*;
    use crate::client::snapshot::{Seen, SlaveState};

    fn slave(acked: i64, behind: i64, in_sync: bool) -> SlaveState {
        SlaveState {
            addr: "127.0.0.1:5000".into(),
            acked_offset: acked,
            behind_bytes: behind,
            in_sync,
            transferred_bytes_per_s: 0,
        }
    }

    fn with(slaves: Vec<SlaveState>, in_sync: i64) -> Cluster {
        let mut c = Cluster::healthy();
        c.add_slave("broker-a", 1);
        c.snapshot.brokers[0].ha = Seen::answered(
            HaState {
                master_offset: 1000,
                in_sync,
                slaves,
            },
            NOW,
        );
        c
    }

    #[test]
    fn slaves_are_there_in_sync_and_near() {
        with(vec![slave(1000, 0, true)], 1).finds(&[]);
        let rule = |slaves, in_sync| {
            let found = with(slaves, in_sync).finds(&["HA1"]);
            (found[0].rule, found[0].severity)
        };
        assert_eq!(rule(vec![], 0), ("no-slave-in-sync", Severity::Critical));
        assert_eq!(
            rule(vec![slave(0, 65 << 20, true)], 1),
            ("slave-behind", Severity::Warning)
        );
        assert_eq!(
            rule(vec![slave(0, 321 << 20, true)], 1),
            ("slave-behind", Severity::Critical)
        );
        let mut c = with(vec![slave(1000, 0, true)], 1);
        c.add_slave("broker-a", 2);
        assert_eq!(c.finds(&["HA1"])[0].rule, "slave-missing");
    }

    #[test]
    fn a_slave_that_stands_while_its_master_grows_is_an_error() {
        let mut c = with(vec![slave(900, 100, true)], 1);
        let mut later = HaState {
            master_offset: 2000,
            in_sync: 1,
            slaves: vec![slave(900, 1100, true)],
        };
        let put = |c: &mut Cluster, ha: &HaState| {
            let later = Later {
                ha: Some(ha.clone()),
                runtime: None,
            };
            c.details.later.insert(id("broker-a", 0), later);
        };
        put(&mut c, &later);
        assert_eq!(c.finds(&["HA1"])[0].rule, "slave-stands");
        later.slaves[0].acked_offset = 1500;
        put(&mut c, &later);
        c.finds(&[]);
    }

    #[test]
    fn a_sync_master_needs_a_slave() {
        let mut c = Cluster::healthy();
        c.snapshot.brokers[0].config.value.as_mut().unwrap().role = Some("SYNC_MASTER".into());
        assert_eq!(c.finds(&["HA1"])[0].rule, "slave-missing");
    }

    #[test]
    fn controllers_lead_and_replicas_are_in_sync() {
        let view = ControllerView {
            leader: Some("c:1".into()),
            master: Some(1),
            epoch: 3,
            in_sync: 2,
            out_of_sync: Vec::new(),
        };
        let rules = |view: Result<ControllerView, String>| {
            let mut c = Cluster::healthy();
            c.details.controllers.insert("broker-a".into(), view);
            let found = judge_of(&c);
            found.iter().map(|f| f.rule).collect::<Vec<_>>()
        };
        assert!(rules(Ok(view.clone())).is_empty());
        assert_eq!(rules(Err("refused".into())), ["controller-silent"]);
        let broken = ControllerView {
            leader: None,
            master: None,
            out_of_sync: vec!["2".into()],
            ..view
        };
        assert_eq!(
            rules(Ok(broken)),
            ["controller-no-leader", "no-elected-master", "replica-not-in-sync"]
        );
    }
}
