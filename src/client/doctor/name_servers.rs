//! NS1 to NS4: name servers answer and agree.

use std::collections::{BTreeMap, BTreeSet};

use super::Evidence;
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::liveness;
use crate::client::snapshot::Snapshot;
use crate::client::words::quoted;
use crate::protocol::body::TopicRouteData;

/// Settings that name servers of one cluster share. Addresses and paths are their own.
const SHARED: &[&str] = &[
    "clusterTest",
    "deleteTopicWithBrokerRegistration",
    "enableAllTopicList",
    "enableTopicList",
    "needWaitForService",
    "notifyMinBrokerIdChanged",
    "orderMessageEnable",
    "returnOrderTopicConfigToBroker",
    "scanNotActiveBrokerInterval",
    "supportActingMaster",
];

/// NS1 to NS4.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    silent(e.snapshot, found);
    broker_tables(e, found);
    older_tables(e.snapshot, found);
    match e.details {
        Some(details) => {
            routes(&details.routes, found);
            order_entries(&details.orders, found);
        }
        None => topic_lists(e.snapshot, found),
    }
    settings(e.snapshot, found);
}

fn silent(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    for server in &snapshot.name_servers {
        let Some(why) = &server.cluster.error else {
            continue;
        };
        let text = match server.cluster.age(snapshot.taken_at_ms) {
            Some(age) => format!("name server {} silent {}s", server.addr, age.as_secs()),
            None => format!("name server {} does not answer", server.addr),
        };
        let subject = Subject::NameServer(server.addr.clone());
        if why.refusal.is_some() {
            let text = format!(
                "name server {} answers and refuses to list its brokers",
                server.addr
            );
            found.push(
                Finding::new("NS1", "name-server-refuses", Severity::Warning, subject, text).detail(&**why),
            );
            continue;
        }
        found.push(Finding::new("NS1", "name-server-down", Severity::Critical, subject, text).detail(&**why));
    }
    if snapshot.name_servers.iter().any(|s| s.is_up()) && snapshot.brokers.is_empty() {
        let text = "no broker is registered";
        found.push(Finding::new(
            "BR4",
            "no-broker",
            Severity::Warning,
            Subject::Cluster,
            text,
        ));
    }
}

/// Brokers that one answering name server lists and another does not, or lists elsewhere. A single look cannot tell a
/// difference from a registration under way; a doctor looks twice.
fn broker_tables(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let severity = if e.details.is_some() {
        Severity::Critical
    } else {
        Severity::Warning
    };
    for broker in &e.snapshot.brokers {
        let asked: Vec<_> = broker
            .registrations
            .iter()
            .filter(|r| r.listed.is_some())
            .collect();
        let missing: Vec<_> = asked
            .iter()
            .filter(|r| r.listed == Some(false))
            .map(|r| r.name_server.as_str())
            .collect();
        // Missing everywhere is a broker that left, not a disagreement.
        if missing.is_empty() || missing.len() >= asked.len() {
            continue;
        }
        let text = format!(
            "name servers disagree: {} not on {}",
            broker.broker,
            missing.join(" ")
        );
        let subject = Subject::Broker(broker.broker.clone());
        let finding = Finding::new("NS2", "name-servers-disagree", severity, subject, text);
        let names = broker.config.get().map_or(&[][..], |c| &c.name_servers);
        found.push(if names.is_empty() {
            finding
        } else {
            finding.detail(format!("its namesrvAddr is {}", names.join(";")))
        });
    }
}

fn older_tables(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    for broker in &snapshot.brokers {
        for (i, registration) in broker.registrations.iter().enumerate() {
            let Some(newer) = liveness::behind(&broker.registrations, i) else {
                continue;
            };
            let text = format!(
                "{} has an older topic table of {} than {newer}",
                registration.name_server, broker.broker
            );
            let subject = Subject::Broker(broker.broker.clone());
            found.push(Finding::new(
                "NS3",
                "route-behind",
                Severity::Warning,
                subject,
                text,
            ));
        }
    }
}

/// Names that are in the list of one answering name server only.
fn topic_lists(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    let lists: Vec<_> = snapshot
        .name_servers
        .iter()
        .filter_map(|s| s.topics.fresh().map(|t| (s.addr.as_str(), t)))
        .collect();
    let Some((first, rest)) = lists.split_first() else {
        return;
    };
    for (addr, topics) in rest {
        let left: BTreeSet<&String> = first.1.iter().collect();
        let right: BTreeSet<&String> = topics.iter().collect();
        let differ: Vec<&&String> = left.symmetric_difference(&right).collect();
        let Some(example) = differ.first() else { continue };
        let more = match differ.len() {
            1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        let text = format!("name servers disagree on topic {example}{more}");
        found.push(
            Finding::new(
                "NS3",
                "name-servers-disagree",
                Severity::Warning,
                Subject::Cluster,
                text,
            )
            .detail(format!("one of {} and {addr} does not list it", first.0)),
        );
    }
}

/// What counts in a route: queues and permission by broker name, and where the brokers are.
fn essence(route: &TopicRouteData) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> = route
        .queue_datas
        .iter()
        .map(|q| {
            let text = format!("r{} w{} perm {}", q.read_queue_nums, q.write_queue_nums, q.perm.0);
            (q.broker_name.clone(), text)
        })
        .collect();
    for broker in &route.broker_datas {
        let addrs: Vec<String> = broker
            .broker_addrs
            .iter()
            .map(|(id, addr)| format!("{id}={addr}"))
            .collect();
        if let Some(text) = out.get_mut(&broker.broker_name) {
            text.push_str(&format!(" at {}", addrs.join(" ")));
        }
    }
    out
}

fn routes(routes: &BTreeMap<String, BTreeMap<String, Option<TopicRouteData>>>, found: &mut Vec<Finding>) {
    let mut more = Vec::new();
    for (topic, by_server) in routes {
        if let Some(difference) = difference(by_server) {
            let subject = Subject::Topic(topic.clone());
            let text = format!("name servers disagree on the route of {topic}");
            more.push(
                Finding::new("NS3", "route-differs", Severity::Critical, subject, text)
                    .detail(difference)
                    .next(format!("rmq topic route {topic} --each-namesrv")),
            );
        }
    }
    found.extend(more);
}

/// Order entries by name server and topic: each name server keeps its own, and no broker brings it to the others.
fn order_entries(orders: &BTreeMap<String, BTreeMap<String, String>>, found: &mut Vec<Finding>) {
    let topics: BTreeSet<&String> = orders.values().flat_map(BTreeMap::keys).collect();
    let mut more = Vec::new();
    for topic in topics {
        let mut values: BTreeMap<Option<&str>, Vec<&str>> = BTreeMap::new();
        for (addr, entries) in orders {
            let value = entries.get(topic).map(String::as_str);
            values.entry(value).or_default().push(addr);
        }
        if values.len() > 1 {
            let sides: Vec<String> = values
                .iter()
                .map(|(value, addrs)| format!("{} on {}", value.unwrap_or("none"), addrs.join(" ")))
                .collect();
            let subject = Subject::Topic(topic.clone());
            let text = format!("name servers disagree on the order configuration of {topic}");
            more.push(
                Finding::new("NS3", "order-entry-differs", Severity::Critical, subject, text)
                    .detail(sides.join(", "))
                    .next(format!("rmq topic order get {}", quoted(topic))),
            );
        }
    }
    found.extend(more);
}

/// How the routes of one topic differ between name servers, if they do.
pub(super) fn difference(by_server: &BTreeMap<String, Option<TopicRouteData>>) -> Option<String> {
    let told: Vec<(&String, Option<BTreeMap<String, String>>)> = by_server
        .iter()
        .map(|(addr, route)| (addr, route.as_ref().map(essence)))
        .collect();
    let (first, rest) = told.split_first()?;
    let (other_addr, other) = rest.iter().find(|(_, route)| *route != first.1)?;
    let none = BTreeMap::new();
    let (left, right) = (first.1.as_ref(), other.as_ref());
    if left.is_none() || right.is_none() {
        let (has, lacks) = if left.is_none() {
            (other_addr, &first.0)
        } else {
            (&first.0, other_addr)
        };
        return Some(format!("{has} has a route, {lacks} has none"));
    }
    let (left, right) = (left.unwrap_or(&none), right.unwrap_or(&none));
    let brokers: BTreeSet<&String> = left.keys().chain(right.keys()).collect();
    let broker = brokers.into_iter().find(|b| left.get(*b) != right.get(*b))?;
    let side = |map: &BTreeMap<String, String>| map.get(broker).map_or("absent", String::as_str).to_owned();
    Some(format!(
        "{broker}: {} on {}, {} on {other_addr}",
        side(left),
        first.0,
        side(right)
    ))
}

fn settings(snapshot: &Snapshot, found: &mut Vec<Finding>) {
    for key in SHARED {
        let mut values: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for server in &snapshot.name_servers {
            let value = server.config.fresh().and_then(|c| c.entries.get(*key));
            if let Some(value) = value {
                values.entry(value).or_default().push(&server.addr);
            }
        }
        if values.len() > 1 {
            let sides: Vec<String> = values
                .iter()
                .map(|(value, addrs)| format!("{value} on {}", addrs.join(" ")))
                .collect();
            let text = format!("name servers have different {key}: {}", sides.join(", "));
            found.push(Finding::new(
                "NS4",
                "name-server-settings",
                Severity::Warning,
                Subject::Cluster,
                text,
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::client::snapshot::{NameServerConfig, Seen};

    #[test]
    fn a_route_that_one_name_server_lacks_is_an_error() {
        let mut c = Cluster::healthy();
        let route = c.details.routes["orders"]["ns1:9876"].clone();
        c.details
            .routes
            .get_mut("orders")
            .unwrap()
            .insert("ns2:9876".into(), route.clone());
        c.finds(&[]);
        c.details
            .routes
            .get_mut("orders")
            .unwrap()
            .insert("ns2:9876".into(), None);
        let found = c.finds(&["NS3"]);
        assert_eq!(found[0].severity, Severity::Critical);
        assert_eq!(
            found[0].detail.as_deref(),
            Some("ns1:9876 has a route, ns2:9876 has none")
        );
        let mut other = route.unwrap();
        other.queue_datas[0].write_queue_nums = 16;
        c.details
            .routes
            .get_mut("orders")
            .unwrap()
            .insert("ns2:9876".into(), Some(other));
        let detail = c.finds(&["NS3"]).remove(0).detail.unwrap();
        assert!(
            detail.contains("w8") && detail.contains("w16 perm 6 at 0=") && detail.contains("ns2"),
            "{detail}"
        );
    }

    #[test]
    fn an_order_entry_that_one_name_server_lacks_is_an_error() {
        let mut c = Cluster::healthy();
        c.add_name_server("ns2:9876");
        for on in &mut c.topic("orders").brokers {
            on.order = true;
        }
        let entry = BTreeMap::from([("orders".to_owned(), "broker-a:8;broker-b:8".to_owned())]);
        for addr in ["ns1:9876", "ns2:9876"] {
            c.details.orders.insert(addr.into(), entry.clone());
        }
        c.finds(&[]);
        c.details.orders.insert("ns2:9876".into(), BTreeMap::new());
        let found = c.finds(&["NS3"]);
        assert_eq!(
            found[0].text,
            "name servers disagree on the order configuration of orders"
        );
        assert_eq!(
            found[0].detail.as_deref(),
            Some("none on ns2:9876, broker-a:8;broker-b:8 on ns1:9876")
        );
        // One that was not asked, or did not answer, proves nothing.
        c.details.orders.remove("ns2:9876");
        c.finds(&[]);
    }

    #[test]
    fn a_broker_that_one_name_server_lacks_is_an_error_for_a_doctor() {
        let mut c = Cluster::healthy();
        c.add_name_server("ns2:9876");
        c.finds(&[]);
        let second = c.snapshot.name_servers[1].cluster.value.as_mut().unwrap();
        second.listed.pop();
        c.settle();
        let found = c.finds(&["NS2"]);
        assert_eq!(found[0].severity, Severity::Critical);
        assert!(found[0].text.contains("broker-b:0 not on ns2:9876"), "{found:?}");
    }

    #[test]
    fn settings_that_differ_are_told_with_both_sides() {
        let mut c = Cluster::healthy();
        c.add_name_server("ns2:9876");
        for (server, scan) in c.snapshot.name_servers.iter_mut().zip(["5000", "10000"]) {
            server.config = Seen::answered(
                NameServerConfig {
                    entries: [
                        ("scanNotActiveBrokerInterval".to_owned(), scan.to_owned()),
                        ("listenPort".to_owned(), scan.to_owned()),
                    ]
                    .into(),
                    ..NameServerConfig::default()
                },
                NOW,
            );
        }
        let found = c.finds(&["NS4"]);
        assert_eq!(
            found[0].text,
            "name servers have different scanNotActiveBrokerInterval: 10000 on ns2:9876, 5000 on ns1:9876"
        );
    }

    #[test]
    fn a_silent_name_server_is_an_error() {
        let mut c = Cluster::healthy();
        c.add_name_server("ns2:9876");
        c.snapshot.name_servers[1].cluster = Seen::failed("connection refused");
        c.settle();
        let found = c.finds(&["NS1"]);
        assert_eq!(found[0].severity, Severity::Critical);
    }
}
