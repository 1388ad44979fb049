//! TR1 and TM1: half transactions and timed messages that wait too long.

use std::collections::BTreeMap;

use super::{Evidence, span};
use crate::client::RuntimeInfo;
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::BrokerState;

/// A half message is decided in this time, ms.
const DECIDED_MS: i64 = 600_000;
/// The timer may be behind this long, s.
const TIMER_BEHIND_S: i64 = 60;

/// TR1 and TM1.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    for broker in &e.snapshot.brokers {
        // The timers of a slave stand when its master is gone; that is told of the master.
        let id = &broker.broker;
        let of_same = |b: &&BrokerState| b.broker.cluster == id.cluster && b.broker.name == id.name;
        let mut masters = e.snapshot.brokers.iter().filter(of_same);
        if !id.is_master() && !masters.any(|b| b.broker.is_master() && b.answers()) {
            continue;
        }
        if let Some(info) = broker.runtime.fresh() {
            let later = e.details.and_then(|d| d.later.get(&broker.broker));
            timer(
                &Subject::Broker(broker.broker.clone()),
                info,
                later.and_then(|l| l.runtime.as_ref()),
                found,
            );
        }
    }
    let mut more = Vec::new();
    for (broker, halves) in e.details.into_iter().flat_map(|d| &d.halves) {
        let mut groups: BTreeMap<&str, (usize, i64, &str)> = BTreeMap::new();
        for half in halves {
            let age = e.snapshot.taken_at_ms.saturating_sub(half.born_ms);
            if age > DECIDED_MS {
                let entry = groups.entry(&half.group).or_insert((0, 0, &half.topic));
                entry.0 += 1;
                entry.1 = entry.1.max(age);
            }
        }
        for (group, (count, age, topic)) in groups {
            let text = format!(
                "{count} half messages of producer group {group} for {topic} on {broker} are undecided for {}",
                span(age)
            );
            let subject = Subject::Broker(broker.clone());
            more.push(
                Finding::new("TR1", "half-old", Severity::Warning, subject, text)
                    .detail("its producers do not answer the broker's questions, or none is online"),
            );
        }
    }
    found.extend(more);
}

fn timer(subject: &Subject, info: &RuntimeInfo, later: Option<&RuntimeInfo>, found: &mut Vec<Finding>) {
    let Subject::Broker(broker) = subject else { return };
    let behind = info.timer_behind_s.unwrap_or(0);
    if behind > TIMER_BEHIND_S {
        let text = format!(
            "{broker} delivers timed messages {} late",
            span(behind.saturating_mul(1000))
        );
        found.push(Finding::new(
            "TM1",
            "timer-behind",
            Severity::Warning,
            subject.clone(),
            text,
        ));
    }
    let congested = |info: &RuntimeInfo| info.entries.get("timerCongestNum")?.parse::<i64>().ok();
    if let (Some(before), Some(after)) = (congested(info), later.and_then(congested))
        && before > 0
        && after > before
    {
        let text =
            format!("{broker} has {after} timed messages that are due and not delivered, {before} before");
        found.push(Finding::new(
            "TM1",
            "timer-congested",
            Severity::Warning,
            subject.clone(),
            text,
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::super::{Half, Later};
    use super::*;
    use crate::client::snapshot::Seen;

    #[test]
    fn half_messages_are_decided_in_time() {
        let mut c = Cluster::healthy();
        let half = |age: i64| Half {
            group: "pg".into(),
            topic: "orders".into(),
            born_ms: NOW - age,
            checks: 3,
        };
        c.details
            .halves
            .insert(id("broker-a", 0), vec![half(1_000), half(DECIDED_MS)]);
        c.finds(&[]);
        c.details
            .halves
            .insert(id("broker-a", 0), vec![half(1_000), half(DECIDED_MS + 60_000)]);
        let found = c.finds(&["TR1"]);
        assert_eq!(
            found[0].text,
            "1 half messages of producer group pg for orders on broker-a:0 are undecided for 11m"
        );
    }

    #[test]
    fn timers_of_a_slave_without_its_master_are_not_told() {
        let mut c = Cluster::healthy();
        c.add_slave("broker-a", 1);
        let slave = c.snapshot.brokers.last_mut().unwrap();
        slave.runtime.value.as_mut().unwrap().timer_behind_s = Some(600);
        // The made-up master knows of no slave that is in sync.
        c.finds(&["HA1", "TM1"]);
        // The master is registered and silent, and then dropped.
        c.snapshot.brokers[0].runtime = Seen::failed("connection refused");
        c.settle();
        let found = judge_of(&c);
        assert!(found.iter().any(|f| f.check == "BR1"), "{found:?}");
        assert!(found.iter().all(|f| f.check != "TM1"), "{found:?}");
        c.snapshot.brokers.remove(0);
        c.settle();
        let found = judge_of(&c);
        assert!(found.iter().any(|f| f.check == "BR4"), "{found:?}");
        assert!(found.iter().all(|f| f.check != "TM1"), "{found:?}");
    }

    #[test]
    fn the_timer_is_behind_or_congested() {
        let mut c = Cluster::healthy();
        c.runtime("broker-a").timer_behind_s = Some(61);
        assert_eq!(c.finds(&["TM1"])[0].rule, "timer-behind");
        let mut c = Cluster::healthy();
        let with = |n: i64| RuntimeInfo {
            entries: [("timerCongestNum".to_owned(), n.to_string())].into(),
            ..RuntimeInfo::default()
        };
        c.runtime("broker-a").entries = with(10).entries;
        for (after, ids) in [(9, &[][..]), (11, &["TM1"])] {
            let later = Later {
                runtime: Some(with(after)),
                ha: None,
            };
            c.details.later.insert(id("broker-a", 0), later);
            c.finds(ids);
        }
    }
}
