//! What must be written so that a cluster looks as declared.

use std::collections::{BTreeMap, BTreeSet};

use super::{Declared, Held, accounts, fresh_group, fresh_topic};
use crate::client::admin::auth::Rule;
use crate::client::admin::cluster::BrokerAt;
use crate::client::admin::group::is_system;
use crate::client::admin::topic::differences;
use crate::protocol::body::{SubscriptionGroupConfig, TopicConfig, UserInfo};

/// A changed field: name, value before, value after.
pub type Field = (String, String, String);

/// One write.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// A topic is made or changed.
    Topic {
        /// Where.
        broker: BrokerAt,
        /// What is there, if anything.
        before: Option<TopicConfig>,
        /// What shall be there.
        after: TopicConfig,
        /// What differs.
        fields: Vec<Field>,
    },
    /// A group is made or changed.
    Group {
        /// Where.
        broker: BrokerAt,
        /// What is there, if anything.
        before: Option<Box<SubscriptionGroupConfig>>,
        /// What shall be there.
        after: Box<SubscriptionGroupConfig>,
        /// What differs.
        fields: Vec<Field>,
    },
    /// A user is made, or what `after` names of it is changed.
    User {
        /// Where.
        broker: BrokerAt,
        /// Who is there, if anybody.
        before: Option<UserInfo>,
        /// What is written; without a password where it stays, or is not known.
        after: UserInfo,
        /// What differs.
        fields: Vec<Field>,
    },
    /// An access rule is made or replaced.
    Rule {
        /// Where.
        broker: BrokerAt,
        /// Subject and resource.
        name: String,
        /// What is there, if anything.
        before: Option<Rule>,
        /// What shall be there.
        after: Rule,
        /// The subject has no rule there yet.
        is_first: bool,
        /// What differs.
        fields: Vec<Field>,
    },
    /// An access rule that the file does not have is deleted.
    DeleteRule {
        /// Where.
        broker: BrokerAt,
        /// Subject and resource.
        name: String,
        /// What is there.
        rule: Rule,
    },
    /// A user that the file does not have is deleted.
    DeleteUser {
        /// Where.
        broker: BrokerAt,
        /// Who.
        name: String,
    },
    /// A topic that the file does not have is deleted.
    DeleteTopic {
        /// Where.
        broker: BrokerAt,
        /// Which.
        name: String,
    },
    /// A group that the file does not have is deleted.
    DeleteGroup {
        /// Where.
        broker: BrokerAt,
        /// Which.
        name: String,
    },
}

impl Change {
    /// Broker of the write.
    pub fn broker(&self) -> &BrokerAt {
        match self {
            Self::Topic { broker, .. }
            | Self::Group { broker, .. }
            | Self::User { broker, .. }
            | Self::Rule { broker, .. }
            | Self::DeleteRule { broker, .. }
            | Self::DeleteUser { broker, .. }
            | Self::DeleteTopic { broker, .. }
            | Self::DeleteGroup { broker, .. } => broker,
        }
    }

    /// `topic`, `group`, `user` or `acl`.
    pub fn noun(&self) -> &'static str {
        match self {
            Self::Topic { .. } | Self::DeleteTopic { .. } => "topic",
            Self::Group { .. } | Self::DeleteGroup { .. } => "group",
            Self::User { .. } | Self::DeleteUser { .. } => "user",
            Self::Rule { .. } | Self::DeleteRule { .. } => "acl",
        }
    }

    /// Name of the object.
    pub fn name(&self) -> &str {
        match self {
            Self::Topic { after, .. } => &after.topic_name,
            Self::Group { after, .. } => &after.group_name,
            Self::User { after, .. } => after.username.as_deref().unwrap_or_default(),
            Self::Rule { name, .. }
            | Self::DeleteRule { name, .. }
            | Self::DeleteUser { name, .. }
            | Self::DeleteTopic { name, .. }
            | Self::DeleteGroup { name, .. } => name,
        }
    }

    /// `+` made, `-` deleted, `~` changed.
    pub fn sign(&self) -> &'static str {
        match self {
            Self::Topic { before: None, .. }
            | Self::Group { before: None, .. }
            | Self::User { before: None, .. }
            | Self::Rule { before: None, .. } => "+",
            Self::Topic { .. } | Self::Group { .. } | Self::User { .. } | Self::Rule { .. } => "~",
            Self::DeleteRule { .. }
            | Self::DeleteUser { .. }
            | Self::DeleteTopic { .. }
            | Self::DeleteGroup { .. } => "-",
        }
    }

    /// What differs; for a deletion, the object itself.
    pub fn fields(&self) -> Vec<Field> {
        let deleted = |before: String| vec![(self.noun().into(), before, "deleted".into())];
        match self {
            Self::Topic { fields, .. }
            | Self::Group { fields, .. }
            | Self::User { fields, .. }
            | Self::Rule { fields, .. } => fields.clone(),
            Self::DeleteRule { rule, .. } => deleted(rule.text()),
            Self::DeleteUser { .. } | Self::DeleteTopic { .. } | Self::DeleteGroup { .. } => {
                deleted("present".into())
            }
        }
    }

    /// True when a topic is made on a broker, or gets another number of queues there.
    pub fn resizes(&self) -> bool {
        match self {
            Self::Topic { before, after, .. } => before.as_ref().is_none_or(|before| {
                (before.read_queue_nums, before.write_queue_nums)
                    != (after.read_queue_nums, after.write_queue_nums)
            }),
            _ => false,
        }
    }

    /// True when fewer queues are read or written than before, or fewer are read than written: messages may stay in
    /// queues that nobody reads.
    pub fn shrinks(&self) -> bool {
        match self {
            Self::Topic {
                before: Some(before),
                after,
                ..
            } => {
                after.read_queue_nums < before.read_queue_nums
                    || after.write_queue_nums < before.write_queue_nums
                    || (after.read_queue_nums < after.write_queue_nums
                        && before.read_queue_nums >= before.write_queue_nums)
            }
            _ => false,
        }
    }
}

/// Fields in which two configurations of a group differ.
pub fn group_differences(before: &SubscriptionGroupConfig, after: &SubscriptionGroupConfig) -> Vec<Field> {
    let flat = |config: &SubscriptionGroupConfig| super::compare::flat_group(&super::GroupFields::of(config));
    between(&flat(before), &flat(after))
}

/// Keys with another value, from one map to the other.
pub(super) fn between(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> Vec<Field> {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value =
        |map: &BTreeMap<String, String>, key: &String| map.get(key).map_or("-", String::as_str).to_owned();
    keys.into_iter()
        .filter(|key| before.get(*key) != after.get(*key))
        .map(|key| (key.clone(), value(before, key), value(after, key)))
        .collect()
}

fn topic_fields(before: Option<&TopicConfig>, after: &TopicConfig) -> Vec<Field> {
    let Some(before) = before else {
        let text = format!(
            "{} read and {} write queues, perm {}{}",
            after.read_queue_nums,
            after.write_queue_nums,
            after.perm,
            if after.order { ", ordered" } else { "" }
        );
        return vec![("topic".into(), "absent".into(), text)];
    };
    let mut fields = differences(before, after);
    if before.topic_sys_flag != after.topic_sys_flag {
        fields.push((
            "sys_flag".into(),
            before.topic_sys_flag.to_string(),
            after.topic_sys_flag.to_string(),
        ));
    }
    if before.topic_filter_type != after.topic_filter_type {
        fields.push((
            "filter".into(),
            format!("{:?}", before.topic_filter_type),
            format!("{:?}", after.topic_filter_type),
        ));
    }
    fields
}

/// The writes that make `held` look as `declared`, in the order in which they are done: users, groups, topics, access
/// rules, then deletions. With `prune`, user objects that the file does not have are deleted, of each kind that it has any of.
/// The error names a broker that does not exist.
pub fn changes(declared: &Declared, held: &Held, prune: bool) -> Result<Vec<Change>, String> {
    let mut names: BTreeSet<String> = held.names().union(&held.others).cloned().collect();
    let masters = names.iter().cloned().collect::<Vec<_>>().join(", ");
    let wanted = |names: &BTreeSet<String>, brokers: Vec<&String>, what: String| -> Result<(), String> {
        match brokers.into_iter().find(|b| !names.contains(*b)) {
            Some(broker) => Err(format!(
                "{what} names the broker {broker}; the masters are {masters}"
            )),
            None => Ok(()),
        }
    };
    let mut out = accounts::user_changes(declared, held);
    for (name, group) in &declared.groups {
        wanted(
            &names,
            group.brokers.keys().collect(),
            format!("group \"{name}\""),
        )?;
        for broker in &held.brokers {
            let Some(fields) = group.on(&broker.id.name) else {
                continue;
            };
            let before = held.groups.get(&broker.id).and_then(|t| t.get(name));
            let mut after = fields.apply(before.unwrap_or(&fresh_group(name)));
            after.group_name.clone_from(name);
            let fields = match before {
                Some(before) => group_differences(before, &after),
                None => vec![("group".into(), "absent".into(), "present".into())],
            };
            if !fields.is_empty() {
                out.push(Change::Group {
                    broker: broker.clone(),
                    before: before.cloned().map(Box::new),
                    after: Box::new(after),
                    fields,
                });
            }
        }
    }
    for (name, topic) in &declared.topics {
        wanted(
            &names,
            topic.brokers.keys().collect(),
            format!("topic \"{name}\""),
        )?;
        for broker in &held.brokers {
            let Some(fields) = topic.on(&broker.id.name) else {
                continue;
            };
            let before = held.topics.get(&broker.id).and_then(|t| t.get(name));
            let mut after = fields.apply(before.unwrap_or(&fresh_topic(name)));
            after.topic_name.clone_from(name);
            let fields = topic_fields(before, &after);
            if !fields.is_empty() {
                out.push(Change::Topic {
                    broker: broker.clone(),
                    before: before.cloned(),
                    after,
                    fields,
                });
            }
        }
    }
    // Only users and rules are said of replicas as well.
    names.extend(held.accounts.keys().map(|broker| accounts::place(&broker.id)));
    names.extend(held.other_replicas.iter().cloned());
    for (name, user) in declared.users.iter().flatten() {
        wanted(&names, user.brokers.keys().collect(), format!("user \"{name}\""))?;
    }
    for (key, rule) in declared.rules.iter().flatten() {
        wanted(
            &names,
            rule.brokers.keys().collect(),
            format!("the access rule {key}"),
        )?;
    }
    out.extend(accounts::rule_changes(declared, held));
    if prune {
        out.extend(accounts::prunings(declared, held));
        for broker in &held.brokers {
            let topics = held.topics.get(&broker.id).into_iter().flat_map(BTreeMap::keys);
            for name in topics.filter(|n| !declared.topics.is_empty() && held.is_user_topic(n)) {
                // Declared for other brokers only is declared not to be here.
                if declared
                    .topics
                    .get(name)
                    .and_then(|t| t.on(&broker.id.name))
                    .is_none()
                {
                    out.push(Change::DeleteTopic {
                        broker: broker.clone(),
                        name: name.clone(),
                    });
                }
            }
            let groups = held.groups.get(&broker.id).into_iter().flat_map(BTreeMap::keys);
            for name in groups.filter(|n| !declared.groups.is_empty() && !is_system(n)) {
                if declared
                    .groups
                    .get(name)
                    .and_then(|g| g.on(&broker.id.name))
                    .is_none()
                {
                    out.push(Change::DeleteGroup {
                        broker: broker.clone(),
                        name: name.clone(),
                    });
                }
            }
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::read::parse;
    use super::super::tests::held;
    use super::super::write::to_toml;
    use super::*;

    fn plan(text: &str, prune: bool) -> Vec<String> {
        let held = held(&[("Same", "*", 8), ("One", "broker-b", 3)]);
        let declared = parse(&format!("api = \"rmq/v1\"\n{text}")).unwrap();
        changes(&declared, &held, prune)
            .unwrap()
            .iter()
            .map(|c| {
                let fields: Vec<String> = c
                    .fields()
                    .into_iter()
                    .map(|(f, a, b)| format!("{f} {a}→{b}"))
                    .collect();
                format!(
                    "{}{} {} {}: {}",
                    c.sign(),
                    c.noun(),
                    c.name(),
                    c.broker().id.name,
                    fields.join(", ")
                )
            })
            .collect()
    }

    #[test]
    fn what_a_cluster_has_is_no_change_to_it() {
        let held = held(&[("Same", "*", 8), ("One", "broker-b", 3)]);
        for system in [false, true] {
            let text = to_toml(&held.declared(system));
            let declared = parse(&text).unwrap();
            assert_eq!(changes(&declared, &held, true), Ok(Vec::new()), "{text}");
        }
    }

    #[test]
    fn a_part_of_the_masters_gets_its_part_of_the_file() {
        let mut held = held(&[("Same", "*", 8)]);
        held.brokers.retain(|broker| broker.id.name == "broker-b");
        let text = "api = \"rmq/v1\"\n[topic.New.broker.broker-a]\n[group.g]\nretry_max = 3\n";
        let declared = parse(text).unwrap();
        assert!(changes(&declared, &held, false).is_err(), "broker-a is not there");
        held.others = ["broker-a".to_owned()].into();
        let changes = changes(&declared, &held, false).unwrap();
        let told: Vec<(&str, &str)> = changes.iter().map(|c| (c.name(), &*c.broker().id.name)).collect();
        assert_eq!(told, [("g", "broker-b")]);
    }

    #[test]
    fn only_named_fields_are_managed() {
        assert!(plan("[topic.Same]\n[group.g]\n", false).is_empty());
        assert_eq!(
            plan("[group.g]\nretry_max = 3\n", false),
            [
                "~group g broker-a: retry_max 16→3",
                "~group g broker-b: retry_max 16→3"
            ]
        );
        assert_eq!(
            plan("[topic.Same.broker.broker-a]\nperm = \"R\"\n", false),
            ["~topic Same broker-a: perm 6 RW-→4 R--"]
        );
        assert_eq!(
            plan("[topic.One]\n", false),
            ["+topic One broker-a: topic absent→8 read and 8 write queues, perm RW-"]
        );
    }

    #[test]
    fn pruning_takes_user_objects_of_the_kinds_in_the_file() {
        assert_eq!(
            plan("[topic.Same]\n", true),
            ["-topic One broker-b: topic present→deleted"]
        );
        assert_eq!(
            plan(
                "[topic.Same]\n[topic.One.broker.broker-b]\n[group.other.broker.broker-a]\n",
                true
            ),
            [
                "+group other broker-a: group absent→present",
                "-group g broker-a: group present→deleted",
                "-group g broker-b: group present→deleted"
            ]
        );
    }

    #[test]
    fn a_shrink_is_seen() {
        let held = held(&[("Same", "*", 8)]);
        let shrinks = |text: &str| {
            let declared = parse(&format!("api = \"rmq/v1\"\n[topic.Same]\n{text}")).unwrap();
            let all = changes(&declared, &held, false).unwrap();
            all.iter().any(Change::shrinks)
        };
        assert!(shrinks("queues = 4"));
        assert!(shrinks("write_queues = 4"));
        assert!(shrinks("write_queues = 16"));
        assert!(!shrinks("queues = 16"));
        assert!(!shrinks("read_queues = 16"));
    }

    #[test]
    fn a_broker_that_does_not_exist_is_named() {
        let declared = parse("api = \"rmq/v1\"\n[topic.T.broker.broker-z]\n").unwrap();
        let error = changes(&declared, &held(&[]), false).unwrap_err();
        assert!(
            error.contains("broker-z") && error.contains("broker-a, broker-b"),
            "{error}"
        );
    }
}
