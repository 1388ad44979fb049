//! GR2, GR5, GR6: configurations, positions and dead letters of groups.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Details, Evidence, add_many, grouped, span};
use crate::client::admin::group::is_system;
use crate::client::admin::group_config::{create_line, differences, disagreements};
use crate::client::findings::{Finding, Severity, Subject};
use crate::client::snapshot::{BrokerId, GroupState, Snapshot};
use crate::client::words::{counted, quoted};
use crate::protocol::body::MessageModel;
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};

/// Lag may rise this long.
const LAG_RISING: Duration = Duration::from_secs(180);
/// From here on it is worth knowing.
const LAG_RISES: Duration = Duration::from_secs(30);
/// Share of the messages consumed that may come back to be tried again.
const RETRIED: f64 = 0.1;
/// Messages a second below which that is no storm.
const RETRIED_LEAST: f64 = 1.0;
/// A message may wait this long, ms.
const LAG_AGE_MS: i64 = 600_000;
/// A dead letter this young is news, ms.
const DEAD_LATELY_MS: i64 = 3_600_000;

/// GR2, GR5 and GR6.
pub(super) fn check(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    positions(e, found);
    let Some(details) = e.details else { return };
    configurations(e.snapshot, details, found);
    left_behind(e.snapshot, details, found);
    below_the_beginning(details, found);
    dead_letters(e.snapshot, details, found);
}

/// Positions of broadcasting groups are on their clients; what a broker has says nothing.
pub(super) fn is_broadcast(details: &Details, group: &str) -> bool {
    details.connections.get(group).is_some_and(|by_broker| {
        by_broker
            .values()
            .any(|c| c.message_model == MessageModel::Broadcasting)
    })
}

fn positions(e: &Evidence<'_>, found: &mut Vec<Finding>) {
    let (mut old, mut beyond_end) = (Vec::new(), Vec::new());
    for group in &e.snapshot.groups {
        if is_system(&group.name) || e.details.is_some_and(|d| is_broadcast(d, &group.name)) {
            continue;
        }
        let subject = || Subject::Group(group.name.clone());
        if let Some((retried, consumed)) = e.trends.retries.get(&group.name)
            && *retried >= RETRIED_LEAST
            && *retried > consumed * RETRIED
        {
            let text = format!(
                "group {} retries {retried:.0}/s of {consumed:.0}/s consumed",
                group.name
            );
            found.push(Finding::new(
                "GR5",
                "retry-storm",
                Severity::Warning,
                subject(),
                text,
            ));
        }
        let Some(lag) = group.total_lag() else { continue };
        let lag_text = format!("{}{}", if group.partial { "at least " } else { "" }, grouped(lag));
        let waits = e
            .trends
            .waits
            .get(&group.name)
            .filter(|(age, _)| *age > LAG_AGE_MS);
        let mut rises = false;
        if let Some((time, slope)) = e
            .trends
            .lag_rising
            .get(&group.name)
            .filter(|(t, _)| *t >= LAG_RISES)
        {
            let text = format!("group {} lag {lag_text} growing +{slope:.0}/s", group.name);
            let severity = if *time >= LAG_RISING {
                Severity::Warning
            } else {
                Severity::Info
            };
            let finding = Finding::new("GR5", "lag-rising", severity, subject(), text);
            let finding = match e.details.map(|d| paused_on(d, &group.name)) {
                Some(paused) if !paused.is_empty() => because_paused(finding, &group.name, &paused),
                _ => finding,
            };
            let since = match time.as_secs() {
                seconds @ 0..120 => format!("{seconds} s"),
                seconds => format!("{} min", seconds / 60),
            };
            let detail = match &finding.detail {
                Some(cause) => format!("rising for {since}; {cause}"),
                None => format!("rising for {since}"),
            };
            let detail = match waits {
                Some((age, _)) => format!("{detail}; oldest message waits at least {}", span(*age)),
                None => detail,
            };
            rises = severity == Severity::Warning;
            found.push(finding.detail(detail));
        }
        match e.details {
            None => {
                if lag > 0 && group.clients.fresh() == Some(&0) {
                    let text = format!("group {} is offline with lag {lag_text}", group.name);
                    found.push(Finding::new(
                        "GR5",
                        "offline-with-lag",
                        Severity::Warning,
                        subject(),
                        text,
                    ));
                } else if let Some((age, broker)) = waits.filter(|_| lag > 0 && !rises) {
                    let text = format!(
                        "group {} lag {lag_text}, oldest message waits at least {} ({broker})",
                        group.name,
                        span(*age)
                    );
                    old.push(
                        Finding::new("GR5", "lag-old", Severity::Warning, subject(), text)
                            .next(format!("rmq group lag {}", group.name)),
                    );
                }
            }
            Some(details) => {
                old.extend(old_lag(group, &lag_text, details, e.snapshot.taken_at_ms));
            }
        }
        let rows = group.lag.get().into_iter().flatten();
        let beyond = rows.filter(|r| r.is_beyond_end()).count();
        if beyond > 0 {
            let text = format!(
                "group {} is beyond the end of {}",
                group.name,
                counted(beyond, "queue")
            );
            beyond_end.push(
                Finding::new("GR5", "beyond-end", Severity::Warning, subject(), text)
                    .next(format!("rmq group lag {}", group.name)),
            );
        }
    }
    add_many(e, found, old);
    add_many(e, found, beyond_end);
}

/// A group with a message that has waited for long.
fn old_lag(group: &GroupState, lag_text: &str, details: &Details, now_ms: i64) -> Option<Finding> {
    let rows = group.lag.get()?.iter();
    let (row, age) = rows
        .filter(|row| row.lag().unwrap_or(0) > 0)
        .filter_map(|row| {
            let key = (
                row.group.clone(),
                row.topic.clone(),
                row.broker.clone(),
                row.queue,
            );
            let stored = details.oldest_unread.get(&key)?;
            Some((row, now_ms.saturating_sub(*stored)))
        })
        .max_by_key(|(_, age)| *age)?;
    let paused = paused_on(details, &group.name);
    // A pause is somebody's wish, and nobody's news; it is the whole cause of what waits.
    if age <= LAG_AGE_MS && paused.is_empty() {
        return None;
    }
    let severity = if age <= LAG_AGE_MS {
        Severity::Info
    } else {
        Severity::Warning
    };
    let offline = !details.connections.contains_key(&group.name);
    let text = format!(
        "group {}{} lag {lag_text}, oldest message waits {} ({} {} queue {})",
        group.name,
        if offline { " is offline," } else { "" },
        span(age),
        row.topic,
        row.broker,
        row.queue
    );
    let subject = Subject::Group(group.name.clone());
    let finding = Finding::new("GR5", "lag-old", severity, subject, text);
    Some(if paused.is_empty() {
        finding.next(format!("rmq group lag {}", group.name))
    } else {
        because_paused(finding, &group.name, &paused)
    })
}

/// A finding about a backlog with its cause, and what ends it.
fn because_paused(finding: Finding, group: &str, on: &[&str]) -> Finding {
    finding
        .detail(format!(
            "it is paused on {} (consume-enable is false)",
            on.join(" ")
        ))
        .next(format!("rmq group resume {group}"))
}

/// Topics of a group: where it has positions and what its clients subscribe to, retry topics apart.
fn topics_of<'a>(details: &'a Details, group: &str) -> BTreeSet<&'a str> {
    let positions = details
        .offsets
        .values()
        .flat_map(BTreeMap::keys)
        .filter(|(of, _)| of == group)
        .map(|(_, topic)| topic.as_str());
    let subscribed = details
        .connections
        .get(group)
        .into_iter()
        .flat_map(BTreeMap::values)
        .flat_map(|c| c.subscription_table.keys().map(String::as_str));
    positions
        .chain(subscribed)
        .filter(|topic| !topic.starts_with(RETRY_PREFIX))
        .collect()
}

/// GR2.
fn configurations(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    let names: BTreeSet<&String> = details
        .group_configs
        .values()
        .flat_map(BTreeMap::keys)
        .chain(details.connections.keys())
        .filter(|name| !is_system(name))
        .collect();
    let (mut more, mut uneven) = (Vec::new(), Vec::new());
    for group in names {
        let subject = || Subject::Group(group.clone());
        let (with, without): (Vec<&BrokerId>, Vec<&BrokerId>) = details
            .group_configs
            .iter()
            .map(|(broker, configs)| (broker, configs.contains_key(group)))
            .fold(
                (Vec::new(), Vec::new()),
                |(mut with, mut without), (broker, has)| {
                    if has { &mut with } else { &mut without }.push(broker);
                    (with, without)
                },
            );
        let online = details.connections.contains_key(group);
        if with.is_empty() {
            if online && !without.is_empty() {
                let text = format!("group {group} is online and no broker has a configuration of it");
                more.push(
                    Finding::new("GR2", "group-unknown", Severity::Warning, subject(), text)
                        .next(format!("rmq group create {group}")),
                );
            }
            continue;
        }
        // Needed where its topics are; of a group without topics nothing is known, so everywhere in its clusters.
        let topics = topics_of(details, group);
        let needed = |broker: &BrokerId| {
            with.iter().any(|b| b.cluster == broker.cluster)
                && (topics.is_empty()
                    || snapshot
                        .topics
                        .iter()
                        .filter(|t| topics.contains(t.name.as_str()))
                        .any(|t| t.brokers.iter().any(|b| b.broker == *broker)))
        };
        let lacking: Vec<&BrokerId> = without.iter().copied().filter(|b| needed(b)).collect();
        if let Some(first) = lacking.first() {
            let names: Vec<&str> = lacking.iter().map(|b| b.name.as_str()).collect();
            let text = format!(
                "group {group} has a configuration on {} of {}, not on {}",
                with.len(),
                counted(details.group_configs.len(), "broker"),
                names.join(" ")
            );
            // Made as it is in its own cluster: another one may have other settings on purpose.
            let like = with.iter().find(|b| b.cluster == first.cluster);
            let like = like.and_then(|b| details.group_configs.get(*b)?.get(group));
            more.push(
                Finding::new("GR2", "group-missing", Severity::Warning, subject(), text).next(create_line(
                    group,
                    &first.name,
                    like,
                )),
            );
        }
        let mut clusters: BTreeMap<&str, Vec<&BrokerId>> = BTreeMap::new();
        for broker in &with {
            clusters.entry(&broker.cluster).or_default().push(broker);
        }
        for brokers in clusters.into_values() {
            let configs = brokers
                .iter()
                .filter_map(|b| Some((b.name.as_str(), details.group_configs.get(*b)?.get(group)?)));
            let told = disagreements(configs);
            if let ([first, .., last], false) = (brokers.as_slice(), told.is_empty()) {
                let text = format!(
                    "group {group} is not the same on every broker: {}",
                    told.join("; ")
                );
                let other = brokers
                    .iter()
                    .find(|b| {
                        let of = |b: &BrokerId| details.group_configs.get(b).and_then(|c| c.get(group));
                        of(first)
                            .zip(of(b))
                            .is_some_and(|(one, other)| !differences(one, other).is_empty())
                    })
                    .unwrap_or(last);
                let next = format!("rmq group diff {} {} --only {group}", first.name, other.name);
                uneven
                    .push(Finding::new("GR2", "group-uneven", Severity::Warning, subject(), text).next(next));
            }
        }
    }
    found.extend(more);
    found.extend(uneven);
}

/// Brokers on which a group is paused (consumeEnable is false).
pub(super) fn paused_on<'a>(details: &'a Details, group: &str) -> Vec<&'a str> {
    details
        .group_configs
        .iter()
        .filter(|(_, configs)| configs.get(group).is_some_and(|c| !c.consume_enable))
        .map(|(broker, _)| broker.name.as_str())
        .collect()
}

/// GR5: positions of groups and topics that are gone.
fn left_behind(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    let mut lost_groups: BTreeMap<&str, BTreeSet<&BrokerId>> = BTreeMap::new();
    let mut lost_topics: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (broker, offsets) in &details.offsets {
        let told = snapshot
            .brokers
            .iter()
            .any(|b| b.broker == *broker && b.topics_version.fresh().is_some());
        for (group, topic) in offsets.keys() {
            if is_system(group) {
                continue;
            }
            let configs = details.group_configs.get(broker);
            if configs.is_some_and(|c| !c.contains_key(group)) && !details.connections.contains_key(group) {
                lost_groups.entry(group).or_default().insert(broker);
            }
            let here = |t: &crate::client::snapshot::TopicState| {
                t.name == *topic && t.brokers.iter().any(|b| b.broker == *broker)
            };
            if told && !snapshot.topics.iter().any(here) {
                lost_topics.entry(group).or_default().insert(topic);
            }
        }
    }
    let mut more = Vec::new();
    for (group, brokers) in &lost_groups {
        let text = format!(
            "offsets of group {group} are left on {}, which has no such group",
            brokers
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        );
        // Another broker may have the group, and it is in use there.
        let there: String = brokers
            .iter()
            .map(|b| format!(" --broker {}", quoted(&b.name)))
            .collect();
        let subject = Subject::Group((*group).to_owned());
        more.push(
            Finding::new("GR5", "offsets-left-group", Severity::Warning, subject, text)
                .next(format!("rmq group delete {}{there} --keep-dlq", quoted(group))),
        );
    }
    for (group, topics) in lost_topics {
        if lost_groups.contains_key(group) {
            continue;
        }
        let text = format!(
            "group {group} has offsets of topics that are gone: {}",
            topics.into_iter().collect::<Vec<_>>().join(", ")
        );
        let subject = Subject::Group(group.to_owned());
        more.push(
            Finding::new("GR5", "offsets-left-topic", Severity::Warning, subject, text)
                .next(format!("rmq group lag {group}")),
        );
    }
    found.extend(more);
}

/// GR5: the next message of a group is deleted already.
fn below_the_beginning(details: &Details, found: &mut Vec<Finding>) {
    let mut lost: BTreeMap<&str, (usize, i64, &str)> = BTreeMap::new();
    for (broker, offsets) in &details.offsets {
        for ((group, topic), queues) in offsets {
            if is_system(group) || is_broadcast(details, group) {
                continue;
            }
            let Some(stats) = details.stats.get(topic).and_then(|s| s.get(broker)) else {
                continue;
            };
            for (queue, range) in &stats.offset_table {
                let missing = queues
                    .get(&queue.queue_id)
                    .map_or(0, |at| range.min_offset.saturating_sub(*at));
                if missing > 0 {
                    let entry = lost.entry(group).or_insert((0, 0, topic));
                    entry.0 += 1;
                    entry.1 = entry.1.saturating_add(missing);
                }
            }
        }
    }
    let more = lost.into_iter().map(|(group, (queues, messages, topic))| {
        let text = format!(
            "group {group} is before the beginning of {} of {topic}: {} messages are deleted unread",
            counted(queues, "queue"),
            grouped(messages)
        );
        let subject = Subject::Group(group.to_owned());
        Finding::new("GR5", "before-beginning", Severity::Warning, subject, text)
            .next(format!("rmq group lag {group}"))
    });
    found.extend(more);
}

/// GR6.
fn dead_letters(snapshot: &Snapshot, details: &Details, found: &mut Vec<Finding>) {
    let mut more = Vec::new();
    for (topic, stats) in &details.stats {
        let Some(group) = topic.strip_prefix(DLQ_PREFIX) else {
            continue;
        };
        let ranges = || stats.values().flat_map(|s| s.offset_table.values());
        let held: i64 = ranges()
            .map(|r| r.max_offset.saturating_sub(r.min_offset).max(0))
            .sum();
        let newest = ranges()
            .filter(|r| r.max_offset > r.min_offset)
            .map(|r| r.last_update_timestamp)
            .max()
            .unwrap_or(0);
        let age = snapshot.taken_at_ms.saturating_sub(newest);
        if held > 0 && age <= DEAD_LATELY_MS {
            let text = format!(
                "group {group} has {} dead letters, the last {} ago",
                grouped(held),
                span(age)
            );
            let subject = Subject::Group(group.to_owned());
            more.push(
                Finding::new("GR6", "dead-letters", Severity::Warning, subject, text)
                    .next(format!("rmq dlq show {group}")),
            );
        }
    }
    found.extend(more);
}

#[cfg(test)]
mod tests {
    use super::super::made_up::*;
    use super::*;
    use crate::protocol::body::{SubscriptionGroupConfig, TopicOffset};
    use crate::protocol::model::MessageQueue;

    #[test]
    fn a_group_is_configured_where_its_topics_are() {
        let mut c = Cluster::healthy();
        c.details
            .group_configs
            .get_mut(&id("broker-b", 0))
            .unwrap()
            .clear();
        // Its offsets there are those of an online group, so not left over.
        let found = c.finds(&["GR2"]);
        assert_eq!(
            found[0].text,
            "group g has a configuration on 1 of 2 brokers, not on broker-b"
        );
        c.details
            .group_configs
            .get_mut(&id("broker-a", 0))
            .unwrap()
            .clear();
        assert_eq!(c.finds(&["GR2"])[0].rule, "group-unknown");
        let mut c = Cluster::healthy();
        c.topic("orders").brokers.pop();
        c.details.offsets.remove(&id("broker-b", 0));
        c.details
            .group_configs
            .get_mut(&id("broker-b", 0))
            .unwrap()
            .clear();
        let found = judge_of(&c);
        assert!(found.iter().all(|f| f.check != "GR2"), "{found:?}");
    }

    #[test]
    fn a_group_is_the_same_on_every_broker_and_made_so() {
        let mut c = Cluster::healthy();
        let config = c.details.group_configs.get_mut(&id("broker-a", 0)).unwrap();
        config.get_mut("g").unwrap().retry_max_times = 3;
        let found = c.finds(&["GR2"]);
        assert_eq!(
            found[0].text,
            "group g is not the same on every broker: retry-max 3 on broker-a, 16 on broker-b"
        );
        assert_eq!(
            found[0].next.as_deref(),
            Some("rmq group diff broker-a broker-b --only g")
        );
        c.details
            .group_configs
            .get_mut(&id("broker-b", 0))
            .unwrap()
            .clear();
        assert_eq!(
            c.finds(&["GR2"])[0].next.as_deref(),
            Some("rmq group create g --broker broker-b --retry-max 3")
        );
    }

    #[test]
    fn a_group_is_made_as_it_is_in_the_same_cluster() {
        let mut c = Cluster::healthy();
        // Sorts before cluster c, and has the group with another setting.
        let other = BrokerId {
            cluster: "a".into(),
            ..id("broker-z", 0)
        };
        let set = |max: i32| SubscriptionGroupConfig {
            retry_max_times: max,
            ..SubscriptionGroupConfig::default()
        };
        let configs = &mut c.details.group_configs;
        configs.insert(other, [("g".to_owned(), set(99))].into());
        configs.insert(id("broker-a", 0), [("g".to_owned(), set(3))].into());
        configs.insert(id("broker-b", 0), BTreeMap::new());
        let found = judge_of(&c);
        let missing = found.iter().find(|f| f.rule == "group-missing").unwrap();
        assert_eq!(
            missing.next.as_deref(),
            Some("rmq group create g --broker broker-b --retry-max 3")
        );
    }

    #[test]
    fn a_paused_group_is_told_as_the_cause_of_its_backlog() {
        let mut c = Cluster::healthy();
        let config = c.details.group_configs.get_mut(&id("broker-b", 0)).unwrap();
        config.get_mut("g").unwrap().consume_enable = false;
        let config = c.details.group_configs.get_mut(&id("broker-a", 0)).unwrap();
        config.get_mut("g").unwrap().consume_enable = false;
        c.finds(&[]);
        let row = &mut c.snapshot.groups[0].lag.value.as_mut().unwrap()[0];
        row.max += 7;
        let key = ("g".to_owned(), row.topic.clone(), row.broker.clone(), row.queue);
        for (age, severity) in [(1_000, Severity::Info), (LAG_AGE_MS + 1, Severity::Warning)] {
            c.details.oldest_unread.insert(key.clone(), NOW - age);
            let found = c.finds(&["GR5"]);
            assert_eq!(found[0].severity, severity);
            assert_eq!(
                found[0].detail.as_deref(),
                Some("it is paused on broker-a broker-b (consume-enable is false)")
            );
            assert_eq!(found[0].next.as_deref(), Some("rmq group resume g"));
        }
    }

    #[test]
    fn lag_is_told_by_the_age_of_its_oldest_message() {
        let mut c = Cluster::healthy();
        let row = &mut c.snapshot.groups[0].lag.value.as_mut().unwrap()[0];
        row.max += 7;
        let key = ("g".to_owned(), row.topic.clone(), row.broker.clone(), row.queue);
        c.details
            .oldest_unread
            .insert(key.clone(), NOW - LAG_AGE_MS + 1_000);
        c.finds(&[]);
        c.details.oldest_unread.insert(key, NOW - LAG_AGE_MS - 60_000);
        let found = c.finds(&["GR5"]);
        assert_eq!(
            found[0].text,
            "group g lag 7, oldest message waits 11m (orders broker-a queue 0)"
        );
    }

    #[test]
    fn positions_outside_of_their_queues_are_found() {
        let mut c = Cluster::healthy();
        let row = &mut c.snapshot.groups[0].lag.value.as_mut().unwrap()[0];
        row.committed = Some(row.max + 1);
        assert_eq!(c.finds(&["GR5"])[0].rule, "beyond-end");
        let mut c = Cluster::healthy();
        for stats in c.details.stats.get_mut("orders").unwrap().values_mut() {
            for range in stats.offset_table.values_mut() {
                range.min_offset = range.max_offset - 1;
            }
        }
        for offsets in c.details.offsets.values_mut() {
            offsets
                .get_mut(&("g".into(), "orders".into()))
                .unwrap()
                .insert(0, 40);
        }
        let found = c.finds(&["GR5"]);
        // Both brokers hold 100 messages in queue 0, of which 99 are gone: 59 are lost on each.
        assert!(
            found[0].text.contains("2 queues of orders: 118 messages"),
            "{found:?}"
        );
    }

    #[test]
    fn offsets_of_what_is_gone_are_found() {
        let mut c = Cluster::healthy();
        for offsets in c.details.offsets.values_mut() {
            offsets.insert(("gone".into(), "orders".into()), [(0, 5)].into());
        }
        let found = c.finds(&["GR5"]);
        assert_eq!(
            found[0].text,
            "offsets of group gone are left on broker-a:0 broker-b:0, which has no such group"
        );
        let mut c = Cluster::healthy();
        for offsets in c.details.offsets.values_mut() {
            offsets.insert(("g".into(), "old".into()), [(0, 5)].into());
        }
        assert_eq!(c.finds(&["GR5"])[0].rule, "offsets-left-topic");
    }

    #[test]
    fn dead_letters_of_the_last_hour_are_news() {
        let mut c = Cluster::healthy();
        let dead = |at: i64| {
            let queue = MessageQueue {
                broker_name: "broker-a".into(),
                queue_id: 0,
                topic: "%DLQ%g".into(),
            };
            let range = TopicOffset {
                min_offset: 0,
                max_offset: 3,
                last_update_timestamp: at,
            };
            [(id("broker-a", 0), stats_of([(queue, range)]))].into()
        };
        c.details
            .stats
            .insert("%DLQ%g".into(), dead(NOW - 2 * DEAD_LATELY_MS));
        c.finds(&[]);
        c.details.stats.insert("%DLQ%g".into(), dead(NOW - 90_000));
        let found = c.finds(&["GR6"]);
        assert_eq!(found[0].text, "group g has 3 dead letters, the last 90s ago");
    }
}
