//! GR1, GR3, GR4, GR7, and of GR5 what clients say: those of a group agree, share its queues, and get on with them.

use std::collections::{BTreeMap, BTreeSet};

use super::groups::{is_broadcast, paused_on};
use super::{Details, Evidence, span};
use crate::client::admin::group::is_system;
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::Snapshot;
use crate::client::stuck;
use crate::client::words::counted;
use crate::protocol::body::{ConsumeType, ConsumerRunningInfo, SubscriptionData};
use crate::protocol::model::{MessageQueue, RETRY_PREFIX};

/// A client that started in this time may not have its queues yet: clients share anew every 20 s, ms.
const SETTLING_MS: i64 = 60_000;

/// Properties of a client on which all of its group agree, and what they are called.
const AGREED: &[(&str, &str)] = &[
    ("messageModel", "message model"),
    ("PROP_CONSUME_TYPE", "consume type"),
    ("PROP_CONSUMEORDERLY", "order"),
    ("consumeFromWhere", "consume-from setting"),
];

/// GR1, GR3, GR4, GR7, and of GR5 the clients that stand still.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let Some(details) = e.details else { return };
    let (mut one, mut three, mut four, mut seven) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut stuck = Vec::new();
    for group in details.connections.keys().filter(|g| !is_system(g)) {
        subscriptions(details, group, &mut one);
        queues(e.snapshot, details, group, &mut three);
        ids(details, group, &mut four);
        modes(details, group, &mut seven);
        standing(e.snapshot, details, group, &mut stuck);
    }
    for more in [one, three, four, seven, stuck] {
        found.extend(more);
    }
}

fn finding(
    check: &'static str,
    rule: &'static str,
    severity: Severity,
    group: &str,
    text: String,
) -> Finding {
    Finding::new(check, rule, severity, Subject::Group(group.to_owned()), text)
        .next(format!("rmq group clients {group}"))
}

/// `orders TagA || TagB, payments *`: topics and expressions, retry topics apart.
pub fn expressions<'a>(subscriptions: impl IntoIterator<Item = &'a SubscriptionData>) -> String {
    let mut all: Vec<String> = subscriptions
        .into_iter()
        .filter(|s| !s.topic.starts_with(RETRY_PREFIX))
        .map(|s| {
            let tags: Vec<&str> = s.sub_string.split("||").map(str::trim).collect();
            if s.is_tag() {
                // The order in which tags are named means nothing.
                let tags: BTreeSet<&str> = tags.into_iter().collect();
                let tags: Vec<&str> = tags.into_iter().collect();
                format!("{} {}", s.topic, tags.join(" || "))
            } else {
                format!("{} {} {}", s.topic, s.expression_type, s.sub_string)
            }
        })
        .collect();
    all.sort();
    if all.is_empty() {
        "nothing".into()
    } else {
        all.join(", ")
    }
}

fn known<'a>(details: &'a Details, group: &str) -> BTreeMap<&'a str, &'a ConsumerRunningInfo> {
    details
        .running
        .get(group)
        .into_iter()
        .flatten()
        .filter_map(|(client, info)| Some((client.as_str(), info.as_ref().ok()?)))
        .collect()
}

/// Who has which value: `a on c1 c2, b on c3`; `None` when all have the same.
fn sides<'a>(values: impl IntoIterator<Item = (&'a str, String)>) -> Option<String> {
    let mut by_value: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (who, value) in values {
        by_value.entry(value).or_default().push(who);
    }
    if by_value.len() < 2 {
        return None;
    }
    let sides: Vec<String> = by_value
        .iter()
        .map(|(value, who)| {
            let more = if who.len() > 3 { " …" } else { "" };
            format!("{value} ({}{more})", who[..who.len().min(3)].join(" "))
        })
        .collect();
    Some(sides.join(" / "))
}

/// GR1. Each client's own word counts; brokers keep only the last they heard.
fn subscriptions(details: &Details, group: &str, found: &mut Vec<Finding>) {
    let own = known(details, group)
        .into_iter()
        .map(|(client, info)| (client, expressions(&info.subscription_set)));
    if let Some(sides) = sides(own) {
        let text = format!("clients of group {group} subscribe differently: {sides}");
        found.push(finding(
            "GR1",
            "subscriptions-differ",
            Severity::Critical,
            group,
            text,
        ));
        return;
    }
    let brokers: Vec<(String, String)> = details
        .connections
        .get(group)
        .into_iter()
        .flatten()
        .map(|(broker, c)| (broker.to_string(), expressions(c.subscription_table.values())))
        .collect();
    let kept = brokers.iter().map(|(broker, e)| (broker.as_str(), e.clone()));
    if let Some(sides) = sides(kept) {
        let text = format!("brokers have different subscriptions of group {group}: {sides}");
        let finding = finding("GR1", "subscriptions-differ", Severity::Warning, group, text);
        found.push(finding.detail("its clients told them different ones, or one has just changed"));
    }
}

/// GR3.
fn queues(snapshot: &Snapshot, details: &Details, group: &str, found: &mut Vec<Finding>) {
    if is_broadcast(details, group) {
        return;
    }
    let connections = || details.connections.get(group).into_iter().flatten();
    // A client that assigns its queues itself owes nobody all of them.
    if connections().any(|(_, c)| c.consume_type == ConsumeType::Actively) {
        return;
    }
    let topics: BTreeSet<&str> = connections()
        .flat_map(|(_, c)| c.subscription_table.keys())
        .map(String::as_str)
        .filter(|t| !t.starts_with(RETRY_PREFIX))
        .collect();
    let clients: BTreeSet<&str> = connections()
        .flat_map(|(_, c)| &c.connection_set)
        .map(|c| c.client_id.as_str())
        .collect();
    let owners = known(details, group);
    let everyone = !clients.is_empty() && clients.iter().all(|c| owners.contains_key(c));
    let settled = owners.values().all(|info| {
        let started = info.properties.get("PROP_CONSUMER_START_TIMESTAMP");
        started
            .and_then(|v| v.parse::<i64>().ok())
            .is_none_or(|at| snapshot.taken_at_ms.saturating_sub(at) > SETTLING_MS)
    });
    for topic in topics {
        let Some(state) = snapshot.topics.iter().find(|t| t.name == topic) else {
            continue;
        };
        let all: BTreeSet<(&str, i32)> = state
            .brokers
            .iter()
            .filter(|b| b.broker.is_master() && b.perm.readable())
            .flat_map(|b| (0..b.read_queues.max(0)).map(|q| (b.broker.name.as_str(), q)))
            .collect();
        if all.is_empty() {
            continue;
        }
        if clients.len() > all.len() {
            let text = format!(
                "group {group} has {} for {} of {topic}: {} have none",
                counted(clients.len(), "client"),
                counted(all.len(), "queue"),
                clients.len() - all.len()
            );
            found.push(finding("GR3", "idle-clients", Severity::Warning, group, text));
        }
        if !everyone || !settled {
            continue;
        }
        let owned: BTreeSet<(&str, i32)> = owners
            .values()
            .flat_map(|info| info.mq_table.keys().chain(info.mq_pop_table.keys()))
            .filter(|queue| queue.topic == topic)
            .map(|queue| (queue.broker_name.as_str(), queue.queue_id))
            .collect();
        // A client that pops may own the whole of a topic as queue -1.
        let left: Vec<String> = all
            .iter()
            .filter(|(broker, queue)| !owned.contains(&(*broker, *queue)) && !owned.contains(&(*broker, -1)))
            .map(|(broker, queue)| format!("{broker}/{queue}"))
            .collect();
        if !left.is_empty() {
            let text = format!(
                "{} of {} of {topic} have no client of group {group}: {}{}",
                left.len(),
                counted(all.len(), "queue"),
                left[..left.len().min(5)].join(" "),
                if left.len() > 5 { " …" } else { "" }
            );
            found.push(finding(
                "GR3",
                "queues-without-owner",
                Severity::Critical,
                group,
                text,
            ));
        }
    }
}

/// GR4: one client has one connection to a broker.
fn ids(details: &Details, group: &str, found: &mut Vec<Finding>) {
    let mut twice: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for connection in details
        .connections
        .get(group)
        .into_iter()
        .flatten()
        .map(|(_, c)| c)
    {
        let mut addrs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for client in &connection.connection_set {
            addrs
                .entry(&client.client_id)
                .or_default()
                .insert(&client.client_addr);
        }
        for (id, addrs) in addrs.into_iter().filter(|(_, addrs)| addrs.len() > 1) {
            twice.entry(id).or_default().extend(addrs);
        }
    }
    for (id, addrs) in twice {
        let addrs: Vec<&str> = addrs.into_iter().collect();
        let text = format!(
            "group {group} has several clients with the id {id}: {}",
            addrs.join(" ")
        );
        found.push(finding("GR4", "client-id-twice", Severity::Critical, group, text));
    }
}

/// GR5: clients that hold queues and do not get on with them. Where the group is paused they are refused.
fn standing(snapshot: &Snapshot, details: &Details, group: &str, found: &mut Vec<Finding>) {
    if is_broadcast(details, group) {
        return;
    }
    let paused = paused_on(details, group);
    let now = snapshot.taken_at_ms;
    let waits = |queue: &MessageQueue| {
        let key = (
            group.to_owned(),
            queue.topic.clone(),
            queue.broker_name.clone(),
            queue.queue_id,
        );
        let stored = details.oldest_unread.get(&key)?;
        (!paused.contains(&queue.broker_name.as_str())).then_some(stuck::ago(now, *stored)?)
    };
    for (client, info) in known(details, group) {
        let queues = stuck::stuck_queues(info, now, waits);
        let Some(first) = queues.first() else { continue };
        let text = format!(
            "client {client} of group {group} stands in {}, such as {} {}/{}: nothing consumed for {}, and messages wait",
            counted(queues.len(), "queue"),
            first.topic,
            first.broker_name,
            first.queue_id,
            span(i64::try_from(stuck::STUCK.as_millis()).unwrap_or(0))
        );
        let finding = finding("GR5", "client-stuck", Severity::Critical, group, text)
            .detail("its listener hangs, or all its threads wait for something")
            .next(format!("rmq group clients {group} --stack"));
        found.push(finding);
    }
}

/// GR7.
fn modes(details: &Details, group: &str, found: &mut Vec<Finding>) {
    let clients = known(details, group);
    for (property, name) in AGREED {
        let values = clients
            .iter()
            .filter_map(|(client, info)| Some((*client, info.properties.get(*property)?.to_uppercase())));
        if let Some(sides) = sides(values) {
            let text = format!("clients of group {group} have a different {name}: {sides}");
            found.push(finding("GR7", "modes-differ", Severity::Critical, group, text));
        }
    }
    let brokers: Vec<(String, String)> = details
        .connections
        .get(group)
        .into_iter()
        .flatten()
        .map(|(broker, c)| {
            let mode = format!(
                "{} {} {}",
                c.consume_type.name(),
                c.message_model.name(),
                c.consume_from_where.name()
            );
            (broker.to_string(), mode)
        })
        .collect();
    if found
        .iter()
        .any(|f| f.rule == "modes-differ" && f.subject == Subject::Group(group.to_owned()))
    {
        return;
    }
    if let Some(sides) = sides(brokers.iter().map(|(b, m)| (b.as_str(), m.clone()))) {
        let text = format!("brokers were told different modes of group {group}: {sides}");
        found.push(finding("GR7", "modes-differ", Severity::Critical, group, text));
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::protocol::body::Connection;
    use crate::protocol::body::MessageModel;

    fn client<'a>(c: &'a mut Cluster, id: &str) -> &'a mut ConsumerRunningInfo {
        let group = c.details.running.get_mut("g").unwrap();
        group.get_mut(id).unwrap().as_mut().unwrap()
    }

    #[test]
    fn each_clients_own_subscription_counts() {
        let mut c = Cluster::healthy();
        client(&mut c, "c2").subscription_set[0].sub_string = "TagA".into();
        let found = c.finds(&["GR1"]);
        assert_eq!(found[0].severity, Severity::Critical);
        assert_eq!(
            found[0].text,
            "clients of group g subscribe differently: orders * (c1) / orders TagA (c2)"
        );
        // Tags in another order are the same tags.
        let mut c = Cluster::healthy();
        client(&mut c, "c1").subscription_set[0].sub_string = "A||B".into();
        client(&mut c, "c2").subscription_set[0].sub_string = "B || A".into();
        c.finds(&[]);
        // Without the clients' word, what the brokers kept.
        c.details.running.clear();
        let connection = c.details.connections.get_mut("g").unwrap();
        let kept = connection.get_mut(&id("broker-b", 0)).unwrap();
        kept.subscription_table.get_mut("orders").unwrap().sub_string = "TagB".into();
        assert_eq!(c.finds(&["GR1"])[0].severity, Severity::Warning);
    }

    #[test]
    fn a_queue_without_an_owner_is_an_error_once_clients_had_their_time() {
        let mut c = Cluster::healthy();
        let taken = client(&mut c, "c2").mq_table.pop_last();
        assert!(taken.is_some());
        let found = c.finds(&["GR3"]);
        assert_eq!(
            found[0].text,
            "1 of 16 queues of orders have no client of group g: broker-b/7"
        );
        let young = (NOW - 10_000).to_string();
        client(&mut c, "c2")
            .properties
            .insert("PROP_CONSUMER_START_TIMESTAMP".into(), young);
        c.finds(&[]);
        // One client that does not tell may own it.
        let group = c.details.running.get_mut("g").unwrap();
        group.insert("c2".into(), Err("timed out".into()));
        c.finds(&[]);
    }

    #[test]
    fn more_clients_than_queues_are_idle() {
        let mut c = Cluster::healthy();
        for connection in c.details.connections.get_mut("g").unwrap().values_mut() {
            for i in 0..20 {
                connection.connection_set.push(Connection {
                    client_id: format!("more-{i}"),
                    client_addr: format!("127.0.0.1:{}", 7000 + i),
                    version: 479,
                    ..Connection::default()
                });
            }
        }
        let found = c.finds(&["GR3"]);
        assert_eq!(
            (found[0].rule, found[0].severity),
            ("idle-clients", Severity::Warning)
        );
        assert!(found[0].text.contains("22 clients for 16 queues"), "{found:?}");
    }

    #[test]
    fn one_id_on_two_connections_of_a_broker_is_an_error() {
        let mut c = Cluster::healthy();
        let connection = c.details.connections.get_mut("g").unwrap();
        let there = &mut connection.get_mut(&id("broker-a", 0)).unwrap().connection_set;
        let mut twin = there[0].clone();
        twin.client_addr = "10.0.0.9:999".into();
        there.push(twin);
        let found = c.finds(&["GR4"]);
        assert!(found[0].text.contains("c1") && found[0].text.contains("10.0.0.9:999"));
    }

    #[test]
    fn a_client_that_consumes_nothing_while_messages_wait_is_an_error() {
        let mut c = Cluster::healthy();
        let waits = |c: &mut Cluster, ms: i64| {
            let key = ("g".to_owned(), "orders".to_owned(), "broker-b".to_owned(), 3);
            c.details.oldest_unread.insert(key, NOW - ms);
        };
        for (queue, state) in &mut client(&mut c, "c2").mq_table {
            state.last_pull_timestamp = NOW - 10;
            state.last_consume_timestamp = NOW - if queue.queue_id < 4 { 301_000 } else { 1_000 };
        }
        c.finds(&[]);
        waits(&mut c, 1_000);
        c.finds(&[]);
        waits(&mut c, 302_000);
        let found = c.finds(&["GR5"]);
        assert_eq!(
            (found.len(), found[0].rule, found[0].severity),
            (1, "client-stuck", Severity::Critical)
        );
        assert_eq!(
            found[0].text,
            "client c2 of group g stands in 1 queue, such as orders broker-b/3: nothing consumed for 5m, and messages wait"
        );
        let config = c.details.group_configs.get_mut(&id("broker-b", 0)).unwrap();
        config.get_mut("g").unwrap().consume_enable = false;
        assert!(judge_of(&c).iter().all(|f| f.rule != "client-stuck"));
    }

    #[test]
    fn modes_of_clients_are_compared() {
        let mut c = Cluster::healthy();
        for (name, model) in [("c1", "CLUSTERING"), ("c2", "BROADCASTING")] {
            client(&mut c, name)
                .properties
                .insert("messageModel".into(), model.into());
        }
        let found = c.finds(&["GR7"]);
        assert_eq!(
            found[0].text,
            "clients of group g have a different message model: BROADCASTING (c2) / CLUSTERING (c1)"
        );
        let mut c = Cluster::healthy();
        c.details.running.clear();
        let connection = c.details.connections.get_mut("g").unwrap();
        connection.get_mut(&id("broker-b", 0)).unwrap().message_model = MessageModel::Broadcasting;
        assert_eq!(c.finds(&["GR7"])[0].severity, Severity::Critical);
    }
}
