//! Two declarations side by side.

use std::collections::{BTreeMap, BTreeSet};

use super::plan::between;
use super::write::{duration, perm};
use super::{Declared, GroupFields, RuleFields, Spread, TopicFields, UserFields, is_default_policy};
use crate::protocol::body::{GroupRetryPolicy, GroupRetryPolicyType};

/// One difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// `topic`, `group`, `user`, `acl`, `config` or `offset`.
    pub noun: &'static str,
    /// Name of the object.
    pub name: String,
    /// Field, with the broker before it where brokers differ; the noun itself when one side lacks the object.
    pub field: String,
    /// Value on the left; `None` where it is absent.
    pub left: Option<String>,
    /// Value on the right; `None` where it is absent.
    pub right: Option<String>,
}

impl Difference {
    /// `-` left only, `+` right only, `~` on both sides.
    pub fn sign(&self) -> &'static str {
        match (&self.left, &self.right) {
            (Some(_), None) => "-",
            (None, Some(_)) => "+",
            _ => "~",
        }
    }
}

/// A topic's fields as texts.
pub(super) fn flat_topic(fields: &TopicFields) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), value);
        }
    };
    put("read_queues", fields.read_queues.map(|v| v.to_string()));
    put("write_queues", fields.write_queues.map(|v| v.to_string()));
    put("perm", fields.perm.map(|v| perm(v).trim_matches('"').to_owned()));
    put("order", fields.order.map(|v| v.to_string()));
    put("sys_flag", fields.sys_flag.map(|v| v.to_string()));
    put("filter", fields.filter_type.map(|v| format!("{v:?}")));
    for (key, value) in fields.attributes.iter().flatten() {
        put(&format!("attr {key}"), Some(value.clone()));
    }
    out
}

/// A group's fields as texts.
pub(super) fn flat_group(fields: &GroupFields) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    let mut put = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            out.insert(key.to_owned(), value);
        }
    };
    put("consume_enable", fields.consume_enable.map(|v| v.to_string()));
    put("consume_from_min", fields.consume_from_min.map(|v| v.to_string()));
    put(
        "consume_broadcast",
        fields.consume_broadcast.map(|v| v.to_string()),
    );
    put("consume_orderly", fields.consume_orderly.map(|v| v.to_string()));
    put(
        "consume_timeout_minutes",
        fields.consume_timeout_minutes.map(|v| v.to_string()),
    );
    put("retry_queues", fields.retry_queues.map(|v| v.to_string()));
    put("retry_max", fields.retry_max.map(|v| v.to_string()));
    put("retry_policy", fields.retry_policy.as_ref().map(policy));
    put("read_from", fields.read_from.map(|v| v.to_string()));
    put("slow_read_from", fields.slow_read_from.map(|v| v.to_string()));
    put("notify_change", fields.notify_change.map(|v| v.to_string()));
    put("sys_flag", fields.sys_flag.map(|v| v.to_string()));
    for (key, value) in fields.attributes.iter().flatten() {
        put(&format!("attr {key}"), Some(value.clone()));
    }
    for subscription in fields.subscriptions.iter().flatten().flatten() {
        put(
            &format!("subscription {}", subscription.topic),
            Some(subscription.expression.clone()),
        );
    }
    out
}

fn named<const N: usize>(fields: [(&str, Option<String>); N]) -> BTreeMap<String, String> {
    let fields = fields.into_iter();
    fields
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

fn flat_user(fields: &UserFields) -> BTreeMap<String, String> {
    named([
        ("type", fields.user_type.clone()),
        ("status", fields.status.clone()),
    ])
}

fn flat_rule(fields: &RuleFields) -> BTreeMap<String, String> {
    let list = |list: &Option<Vec<String>>| list.as_ref().map(|list| list.join(","));
    named([
        ("actions", list(&fields.actions)),
        ("decision", fields.decision.clone()),
        ("source_ips", list(&fields.source_ips)),
    ])
}

/// `exponential:initial=5s,max=2h,multiplier=2`, as the command line has it.
fn policy(policy: &GroupRetryPolicy) -> String {
    if is_default_policy(policy) {
        return "default".into();
    }
    match policy.kind {
        GroupRetryPolicyType::Exponential => {
            let own = policy.exponential_retry_policy.clone().unwrap_or_default();
            format!(
                "exponential:initial={},max={},multiplier={}",
                duration(own.initial),
                duration(own.max),
                own.multiplier
            )
        }
        GroupRetryPolicyType::Customized => {
            let own = policy.customized_retry_policy.clone().unwrap_or_default();
            let next: Vec<String> = own.next.iter().map(|ms| duration(*ms)).collect();
            format!("custom:{}", next.join(","))
        }
    }
}

fn spread<F>(object: &Spread<F>, flat: impl Fn(&F) -> BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut out = flat(&object.all);
    if !object.brokers.is_empty() {
        let names: Vec<&str> = object.brokers.keys().map(String::as_str).collect();
        out.insert("brokers".into(), names.join(","));
    }
    for (broker, own) in &object.brokers {
        for (key, value) in flat(own) {
            out.insert(format!("{broker} {key}"), value);
        }
    }
    out
}

/// Every difference, left against right, by noun, name and field. Users and access rules are compared where both sides
/// say something of them.
pub fn compare(left: &Declared, right: &Declared) -> Vec<Difference> {
    let mut out = Vec::new();
    objects(&mut out, "topic", &left.topics, &right.topics, |t| {
        spread(t, flat_topic)
    });
    objects(&mut out, "group", &left.groups, &right.groups, |g| {
        spread(g, flat_group)
    });
    if let (Some(left), Some(right)) = (&left.users, &right.users) {
        objects(&mut out, "user", left, right, |u| spread(u, flat_user));
    }
    if let (Some(left), Some(right)) = (&left.rules, &right.rules) {
        objects(&mut out, "acl", left, right, |r| spread(r, flat_rule));
    }
    out
}

fn objects<K: Ord + ToString, F>(
    out: &mut Vec<Difference>,
    noun: &'static str,
    left: &BTreeMap<K, Spread<F>>,
    right: &BTreeMap<K, Spread<F>>,
    flat: impl Fn(&Spread<F>) -> BTreeMap<String, String>,
) {
    let names: BTreeSet<&K> = left.keys().chain(right.keys()).collect();
    for name in names {
        let (a, b) = (left.get(name).map(&flat), right.get(name).map(&flat));
        match (a, b) {
            (Some(a), Some(b)) => maps(out, noun, &name.to_string(), &a, &b),
            (a, b) => out.push(Difference {
                noun,
                name: name.to_string(),
                field: noun.into(),
                left: a.map(|_| "present".into()),
                right: b.map(|_| "present".into()),
            }),
        }
    }
}

/// Differences of two objects that both sides have.
pub fn maps(
    out: &mut Vec<Difference>,
    noun: &'static str,
    name: &str,
    left: &BTreeMap<String, String>,
    right: &BTreeMap<String, String>,
) {
    for (field, _, _) in between(left, right) {
        out.push(Difference {
            noun,
            name: name.to_owned(),
            left: left.get(&field).cloned(),
            right: right.get(&field).cloned(),
            field,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::held;
    use super::*;

    #[test]
    fn only_what_differs_is_told_with_both_sides() {
        let left = held(&[("Same", "*", 8), ("Left", "*", 8), ("Queues", "*", 8)]).declared(false);
        let mut other = held(&[("Same", "*", 8), ("Right", "*", 8), ("Queues", "*", 4)]);
        for groups in other.groups.values_mut() {
            groups.get_mut("g").unwrap().retry_max_times = 3;
        }
        let right = other.declared(false);
        assert_eq!(compare(&left, &left), []);
        let told: Vec<String> = compare(&left, &right)
            .iter()
            .map(|d| {
                let side = |s: &Option<String>| s.clone().unwrap_or_else(|| "·".into());
                format!(
                    "{}{} {} {} {} {}",
                    d.sign(),
                    d.noun,
                    d.name,
                    d.field,
                    side(&d.left),
                    side(&d.right)
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                "-topic Left topic present ·",
                "~topic Queues read_queues 8 4",
                "~topic Queues write_queues 8 4",
                "+topic Right topic · present",
                "~group g retry_max 16 3"
            ]
        );
    }
}
