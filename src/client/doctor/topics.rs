//! TP1 to TP4: queues of topics, where topics are, who reads them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Details, Evidence, add_many, grouped};
use crate::client::admin::group::is_system;
use crate::client::admin::topic::NEW_QUEUES;
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::{BrokerId, Snapshot, TopicKind, TopicOnBroker, TopicState, told_sum};
use crate::client::stranded::{Stranded, raise_read};
use crate::client::words::{counted, quoted, spans};
use crate::protocol::model::{MASTER_ID, Perm, UNIT, UNIT_SUB};

/// A topic that was written to in this time is in use, ms.
const IN_USE_MS: i64 = 86_400_000;

/// TP1 to TP4.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    queue_counts(e, found);
    let Some(details) = e.details else { return };
    let partial = spread(e.snapshot, found);
    auto_created(e.snapshot, &partial, found);
    unread(e.snapshot, details, found);
    orders(e.snapshot, details, found);
}

fn users(snapshot: &Snapshot) -> impl Iterator<Item = &TopicState> {
    snapshot.topics.iter().filter(|t| t.kind == TopicKind::User)
}

/// Messages in queues that consumers do not see.
fn surplus(details: Option<&Details>, topic: &str, on: &TopicOnBroker) -> Option<i64> {
    let stats = details?.stats.get(topic)?.get(&on.broker)?;
    let beyond = stats
        .offset_table
        .iter()
        .filter(|(queue, _)| queue.queue_id >= on.read_queues);
    Some(
        beyond
            .map(|(_, range)| range.max_offset.saturating_sub(range.min_offset).max(0))
            .sum(),
    )
}

fn queue_counts(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let mut more = Vec::new();
    for topic in users(e.snapshot) {
        let subject = || Subject::Topic(topic.name.clone());
        let name = &topic.name;
        let mut any = false;
        for on in topic.brokers.iter().filter(|b| b.read_queues < b.write_queues) {
            any = true;
            let left = told_sum(on.stranded.iter().map(Stranded::messages));
            let held = surplus(e.details, name, on).unwrap_or(0).max(left);
            let text = format!(
                "topic {name} w{}/r{} on {}: {}messages in the last queues are not read",
                on.write_queues,
                on.read_queues,
                on.broker.name,
                if held > 0 {
                    format!("{} ", grouped(held))
                } else {
                    String::new()
                }
            );
            let severity = if held > 0 {
                Severity::Critical
            } else {
                Severity::Warning
            };
            more.push(
                Finding::new("TP1", "read-below-write", severity, subject(), text).next(format!(
                    "rmq topic update {name} --read-queues {} --broker {}",
                    on.write_queues, on.broker.name
                )),
            );
        }
        let left = || {
            let brokers = topic.brokers.iter();
            brokers.filter(|b| b.read_queues >= b.write_queues && !b.stranded.is_empty())
        };
        // One command for all of them: what it raises on one broker only leaves the others as they are.
        let next = raise_read(
            name,
            left().map(|on| (on.broker.name.as_str(), on.stranded.as_slice())),
        );
        for on in left() {
            any = true;
            more.push(stranded(name, on, next.clone()));
        }
        if !any && let Some(on) = topic.brokers.iter().find(|b| b.read_queues > b.write_queues) {
            let text = format!(
                "topic {name} w{}/r{} shrink half done",
                on.write_queues, on.read_queues
            );
            more.push(
                Finding::new("TP1", "shrink-half-done", Severity::Warning, subject(), text)
                    .next(format!("rmq topic scale {name} --to {}", on.write_queues)),
            );
        }
    }
    more.sort_by_key(|f| f.severity);
    add_many(e, found, more);
}

/// Both numbers of a topic were lowered before the last queues were read to the end.
fn stranded(topic: &str, on: &TopicOnBroker, next: Option<String>) -> Finding {
    let queues: Vec<i32> = on.stranded.iter().map(|s| s.queue).collect();
    let messages = told_sum(on.stranded.iter().map(Stranded::messages));
    let groups: BTreeSet<&str> = on
        .stranded
        .iter()
        .flat_map(|s| s.unread.keys().map(String::as_str))
        .collect();
    let groups: Vec<&str> = groups.into_iter().collect();
    let text = format!(
        "topic {topic} w{}/r{} on {}: {} messages in {} {} are stranded, unread by {}{}",
        on.write_queues,
        on.read_queues,
        on.broker.name,
        grouped(messages),
        if queues.len() == 1 { "queue" } else { "queues" },
        spans(&queues),
        groups[..groups.len().min(3)].join(" "),
        if groups.len() > 3 { " …" } else { "" }
    );
    let subject = Subject::Topic(topic.to_owned());
    let finding = Finding::new("TP1", "stranded", Severity::Critical, subject, text).detail(
        "a broker refuses pulls behind the read queues: raise read again, and lower it when they are empty",
    );
    match next {
        Some(next) => finding.next(next),
        None => finding,
    }
}

/// The command that makes a topic on a broker as it is on another: what it does not name are the defaults of a creation.
fn create_line(name: &str, like: &TopicOnBroker, broker: &str) -> String {
    let mut line = format!("rmq topic create {} --broker {}", quoted(name), quoted(broker));
    if (like.read_queues, like.write_queues) != (NEW_QUEUES, NEW_QUEUES) {
        line += &format!(
            " --read-queues {} --write-queues {}",
            like.read_queues, like.write_queues
        );
    }
    if like.perm != Perm::READ_WRITE {
        line += &format!(" --perm {}", like.perm.0);
    }
    for (wanted, flag) in [
        (like.order, "--order"),
        (like.sys_flag & UNIT != 0, "--unit"),
        (like.sys_flag & UNIT_SUB != 0, "--has-unit-sub"),
    ] {
        if wanted {
            line += &format!(" {flag}");
        }
    }
    for (key, value) in &like.attributes {
        line += &format!(" --attr {}", quoted(&format!("{key}={value}")));
    }
    line
}

/// Topics that are not the same on every master of a cluster; those that are missing on one.
fn spread(snapshot: &Snapshot, found: &mut Vec<Finding>) -> BTreeSet<String> {
    let mut masters: BTreeMap<&str, BTreeSet<&BrokerId>> = BTreeMap::new();
    for broker in snapshot.brokers.iter().filter(|b| b.broker.id == MASTER_ID) {
        // What a broker has is only known when it told.
        if broker.topics_version.fresh().is_some() {
            masters
                .entry(&broker.broker.cluster)
                .or_default()
                .insert(&broker.broker);
        }
    }
    let (mut more, mut partial) = (Vec::new(), BTreeSet::new());
    for topic in users(snapshot) {
        for (cluster, masters) in &masters {
            let on: Vec<&TopicOnBroker> = topic
                .brokers
                .iter()
                .filter(|b| b.broker.cluster == **cluster)
                .collect();
            let Some(first) = on.first() else { continue };
            let missing: Vec<&str> = masters
                .iter()
                .filter(|id| !on.iter().any(|b| b.broker == ***id))
                .map(|id| id.name.as_str())
                .collect();
            let subject = || Subject::Topic(topic.name.clone());
            if !missing.is_empty() {
                partial.insert(topic.name.clone());
                let text = format!(
                    "topic {} is on {} of {} of {cluster}, not on {}",
                    topic.name,
                    on.len(),
                    counted(masters.len(), "broker"),
                    missing.join(" ")
                );
                more.push(
                    Finding::new("TP1", "topic-missing", Severity::Warning, subject(), text)
                        .next(create_line(&topic.name, first, missing[0])),
                );
            }
            let counts = |b: &TopicOnBroker| (b.read_queues, b.write_queues);
            if let Some(other) = on.iter().find(|b| counts(b) != counts(first)) {
                let text = format!(
                    "topic {} has w{}/r{} on {} and w{}/r{} on {}",
                    topic.name,
                    first.write_queues,
                    first.read_queues,
                    first.broker.name,
                    other.write_queues,
                    other.read_queues,
                    other.broker.name
                );
                more.push(Finding::new(
                    "TP1",
                    "queues-uneven",
                    Severity::Warning,
                    subject(),
                    text,
                ));
            }
        }
    }
    found.extend(more);
    partial
}

/// TP2: brokers make topics, and some topics are where their first message came in.
fn auto_created(snapshot: &Snapshot, partial: &BTreeSet<String>, found: &mut Vec<Finding>) {
    let mut clusters: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for broker in snapshot.brokers.iter().filter(|b| b.broker.is_master()) {
        let on = broker
            .config
            .fresh()
            .and_then(|c| c.entries.get("autoCreateTopicEnable"));
        if on.is_some_and(|v| v == "true") {
            clusters
                .entry(&broker.broker.cluster)
                .or_default()
                .push(&broker.broker.name);
        }
    }
    for (cluster, names) in clusters {
        let here: Vec<&str> = users(snapshot)
            .filter(|t| partial.contains(&t.name))
            .filter(|t| t.brokers.iter().any(|b| b.broker.cluster == cluster))
            .map(|t| t.name.as_str())
            .collect();
        if here.is_empty() {
            continue;
        }
        let text = format!(
            "autoCreateTopicEnable is on in {cluster}, and {} topics are on some of its brokers only: {}{}",
            here.len(),
            here[..here.len().min(5)].join(", "),
            if here.len() > 5 { ", …" } else { "" }
        );
        found.push(
            Finding::new("TP2", "auto-created", Severity::Warning, Subject::Cluster, text).next(format!(
                "rmq broker set-config {} autoCreateTopicEnable=false",
                names[0]
            )),
        );
    }
}

/// TP3.
fn unread(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    let mut more = Vec::new();
    for topic in users(snapshot) {
        let Some(stats) = details.stats.get(&topic.name) else {
            continue;
        };
        let newest = stats
            .values()
            .flat_map(|s| s.offset_table.values())
            .filter(|range| range.max_offset > range.min_offset)
            .map(|range| range.last_update_timestamp)
            .max()
            .unwrap_or(0);
        if newest <= snapshot.taken_at_ms.saturating_sub(IN_USE_MS) || is_read(details, &topic.name) {
            continue;
        }
        let text = format!("topic {} is written to and no group reads it", topic.name);
        let subject = Subject::Topic(topic.name.clone());
        more.push(
            Finding::new("TP3", "topic-unread", Severity::Warning, subject, text)
                .next(format!("rmq topic status {}", topic.name)),
        );
    }
    found.extend(more);
}

/// A group has a position in the topic, or a client that subscribes to it.
fn is_read(details: &Details, topic: &str) -> bool {
    let positions = details.offsets.values().flat_map(BTreeMap::keys);
    let connections = details.connections.values().flat_map(BTreeMap::values);
    positions
        .into_iter()
        .any(|(group, of)| of == topic && !is_system(group))
        || connections
            .into_iter()
            .any(|c| c.subscription_table.contains_key(topic))
}

/// The brokers and queues of an order configuration such as `broker-a:8;broker-b:8`.
fn told_in(order: &str) -> BTreeMap<&str, Option<i32>> {
    let parts = order.split(';').filter(|part| !part.trim().is_empty());
    parts
        .map(|part| match part.split_once(':') {
            Some((name, count)) => (name.trim(), count.trim().parse().ok()),
            None => (part.trim(), None),
        })
        .collect()
}

/// TP4: order configurations against the brokers that are registered and the queues that producers write.
fn orders(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    let registered: BTreeSet<&str> = snapshot
        .brokers
        .iter()
        .filter(|b| b.registrations.iter().any(|r| r.listed != Some(false)))
        .map(|b| b.broker.name.as_str())
        .collect();
    // What a broker has is only known when it told.
    let asked: BTreeSet<&str> = snapshot
        .brokers
        .iter()
        .filter(|b| b.broker.is_master() && b.topics_version.fresh().is_some())
        .map(|b| b.broker.name.as_str())
        .collect();
    let mut more = Vec::new();
    for (addr, orders) in &details.orders {
        for (name, order) in orders {
            let subject = || Subject::Topic(name.clone());
            let topic = users(snapshot).find(|t| t.name == *name);
            let mut told = told_in(order);
            let gone: Vec<&str> = told.keys().copied().filter(|b| !registered.contains(b)).collect();
            told.retain(|broker, _| asked.contains(broker));
            let own: BTreeMap<&str, Option<i32>> = topic
                .iter()
                .flat_map(|t| &t.brokers)
                .filter(|b| b.broker.is_master())
                .map(|b| (b.broker.name.as_str(), Some(b.write_queues)))
                .collect();
            let queues: Vec<String> = own
                .iter()
                .map(|(name, count)| format!("{name}:{}", count.unwrap_or(0)))
                .collect();
            let queues = queues.join(";");
            if !gone.is_empty() {
                let verb = if gone.len() == 1 { "is" } else { "are" };
                let text = format!(
                    "order configuration of {name} on {addr} names {}, which {verb} not registered",
                    gone.join(" ")
                );
                let without = match own.is_empty() {
                    true => format!("rmq topic order unset {}", quoted(name)),
                    false => format!("rmq topic order set {} {}", quoted(name), quoted(&queues)),
                };
                let finding = Finding::new("TP4", "order-broker-gone", Severity::Critical, subject(), text);
                more.push(
                    finding
                        .detail(format!(
                            "its queues take no messages until it is back; if it is gone for good: {without}"
                        ))
                        .next("rmq broker list"),
                );
                continue;
            }
            let Some(topic) = topic else { continue };
            if told != own {
                let text =
                    format!("order configuration of {name} on {addr} is {order}, its queues are {queues}");
                more.push(
                    Finding::new("TP4", "order-differs", Severity::Critical, subject(), text).next(format!(
                        "rmq topic order set {} {}",
                        quoted(name),
                        quoted(&queues)
                    )),
                );
            } else if !topic.brokers.iter().any(|b| b.order) && !told.is_empty() {
                let text = format!("topic {name} has an order configuration on {addr} and is not ordered");
                more.push(
                    Finding::new("TP4", "order-left-over", Severity::Warning, subject(), text)
                        .next(format!("rmq topic update {} --order true", quoted(name))),
                );
            }
        }
    }
    found.extend(more);
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::protocol::body::TopicOffset;
    use crate::protocol::model::MessageQueue;

    #[test]
    fn fewer_read_queues_are_an_error_once_they_hide_messages() {
        let mut c = Cluster::healthy();
        for on in &mut c.topic("orders").brokers {
            on.read_queues = 4;
        }
        // Each broker is told.
        let found = c.finds(&["TP1"]);
        assert_eq!((found.len(), found[0].severity), (2, Severity::Warning));
        let stats = c.details.stats.get_mut("orders").unwrap();
        let hidden = MessageQueue {
            broker_name: "broker-a".into(),
            queue_id: 5,
            topic: "orders".into(),
        };
        stats.get_mut(&id("broker-a", 0)).unwrap().offset_table.insert(
            hidden,
            TopicOffset {
                min_offset: 10,
                max_offset: 15,
                last_update_timestamp: NOW,
            },
        );
        let found = c.finds(&["TP1"]);
        assert_eq!(found[0].severity, Severity::Critical);
        assert!(found[0].text.contains("5 messages"), "{found:?}");
    }

    /// Both numbers lowered by hand: nothing else of the topic tells that something is left.
    #[test]
    fn queues_that_a_shrink_left_behind_are_an_error() {
        let mut c = Cluster::healthy();
        let left = |queue: i32, pay: i64| Stranded {
            queue,
            min: 0,
            max: 1_000,
            unread: [("CID_bi".to_owned(), 4), ("CID_pay".to_owned(), pay)].into(),
        };
        c.topic("orders").brokers[1].stranded = vec![left(8, 1_200), left(9, 4), left(12, 0)];
        let found = c.finds(&["TP1"]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Critical));
        assert_eq!(
            found[0].text,
            "topic orders w8/r8 on broker-b: 1,208 messages in queues 8-9,12 are stranded, unread by CID_bi CID_pay"
        );
        assert_eq!(
            found[0].next.as_deref(),
            Some("rmq topic update orders --read-queues 13 --broker broker-b")
        );
        // A dashboard finds the same.
        let look =
            crate::client::findings::findings(&c.snapshot, &crate::client::findings::Trends::default());
        assert!(look.iter().any(|f| f.rule == "stranded"), "{look:?}");
    }

    #[test]
    fn a_missing_topic_is_made_as_it_is_elsewhere() {
        let line = |change: &dyn Fn(&mut TopicOnBroker)| {
            let mut c = Cluster::healthy();
            let brokers = &mut c.topic("orders").brokers;
            brokers.pop();
            change(&mut brokers[0]);
            let found = judge_of(&c);
            let missing = found.iter().find(|f| f.rule == "topic-missing").unwrap();
            missing.next.clone().unwrap()
        };
        assert_eq!(line(&|_| {}), "rmq topic create orders --broker broker-b");
        assert_eq!(
            line(&|on| {
                (on.read_queues, on.write_queues, on.perm) = (2, 2, Perm(4));
                on.order = true;
                on.sys_flag = UNIT_SUB;
                on.attributes.insert("message.type".into(), "FIFO".into());
            }),
            "rmq topic create orders --broker broker-b --read-queues 2 --write-queues 2 --perm 4 --order --has-unit-sub \
             --attr message.type=FIFO"
        );
    }

    #[test]
    fn topics_are_the_same_on_all_masters() {
        let mut c = Cluster::healthy();
        c.topic("orders").brokers[1].read_queues = 4;
        c.topic("orders").brokers[1].write_queues = 4;
        assert_eq!(c.finds(&["TP1"])[0].rule, "queues-uneven");
        let mut c = Cluster::healthy();
        c.topic("orders").brokers.pop();
        c.details.offsets.remove(&id("broker-b", 0));
        let found = c.finds(&["TP1"]);
        assert_eq!(
            found[0].text,
            "topic orders is on 1 of 2 brokers of c, not on broker-b"
        );
        // Brokers that make topics are named as the reason.
        c.set_config("broker-a", "autoCreateTopicEnable", "true");
        c.set_config("broker-b", "autoCreateTopicEnable", "true");
        c.finds(&["TP1", "TP2"]);
        // A broker that did not tell its topics proves nothing.
        c.snapshot.brokers[1].topics_version = crate::client::Seen::failed("timed out");
        c.finds(&[]);
    }

    #[test]
    fn a_topic_without_readers_is_told_while_it_is_written_to() {
        let mut c = Cluster::healthy();
        c.details.connections.clear();
        c.details.running.clear();
        c.details.offsets.clear();
        let found = c.finds(&["TP3"]);
        assert_eq!(found[0].subject, Subject::Topic("orders".into()));
        for stats in c.details.stats.get_mut("orders").unwrap().values_mut() {
            for range in stats.offset_table.values_mut() {
                range.last_update_timestamp = NOW - 2 * IN_USE_MS;
            }
        }
        c.finds(&[]);
    }

    #[test]
    fn order_configurations_fit_the_queues() {
        let mut c = Cluster::healthy();
        let set = |c: &mut Cluster, text: &str| {
            let orders = [("orders".to_owned(), text.to_owned())].into();
            c.details.orders.insert("ns1:9876".into(), orders);
        };
        for on in &mut c.topic("orders").brokers {
            on.order = true;
        }
        set(&mut c, "broker-a:8;broker-b:8");
        c.finds(&[]);
        for wrong in ["broker-a:8", "broker-a:8;broker-b:4", "broker-a:8;broker-b:x", ""] {
            set(&mut c, wrong);
            let found = c.finds(&["TP4"]);
            assert_eq!(found[0].severity, Severity::Critical, "{wrong}");
        }
        for on in &mut c.topic("orders").brokers {
            on.order = false;
        }
        set(&mut c, "broker-a:8;broker-b:8");
        assert_eq!(c.finds(&["TP4"])[0].rule, "order-left-over");
    }

    #[test]
    fn an_order_configuration_that_names_a_broker_that_is_gone_is_told() {
        let mut c = Cluster::healthy();
        let both = "broker-a:8;broker-b:8".to_owned();
        let orders = [
            ("orders".to_owned(), both.clone()),
            ("lost".to_owned(), "broker-b:8".into()),
        ];
        c.details.orders.insert("ns1:9876".into(), orders.into());
        for on in &mut c.topic("orders").brokers {
            on.order = true;
        }
        // A broker that is registered and says nothing is told as such, and not as a wrong order.
        c.snapshot.brokers[1].topics_version = crate::client::Seen::failed("timed out");
        c.topic("orders").brokers.pop();
        let of_orders = |c: &Cluster| {
            let mut found = judge_of(c);
            found.retain(|f| f.check == "TP4");
            found
        };
        assert_eq!(of_orders(&c), []);
        // It is dropped: no name server lists it, so no other check can know of it.
        c.snapshot.brokers.pop();
        let found = of_orders(&c);
        let texts: Vec<&str> = found.iter().map(|f| f.text.as_str()).collect();
        assert_eq!(
            texts,
            [
                "order configuration of lost on ns1:9876 names broker-b, which is not registered",
                "order configuration of orders on ns1:9876 names broker-b, which is not registered",
            ]
        );
        let ends = |i: usize, with: &str| found[i].detail.as_ref().is_some_and(|d| d.ends_with(with));
        assert!(ends(0, "gone for good: rmq topic order unset lost"), "{found:?}");
        assert!(
            ends(1, "gone for good: rmq topic order set orders broker-a:8"),
            "{found:?}"
        );
        assert_eq!(found[0].severity, Severity::Critical);
    }
}
