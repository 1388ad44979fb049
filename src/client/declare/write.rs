//! A declaration as TOML. The same declaration always gives the same text.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{
    Declared, GroupFields, MESSAGE_TYPE, RuleFields, Spread, TopicFields, UserFields, is_default_policy,
};
use crate::client::admin::auth::CUSTOM;
use crate::protocol::body::{GroupRetryPolicy, GroupRetryPolicyType};
use crate::protocol::model::{Perm, TopicFilterType};

/// Version of the form.
pub const API: &str = "rmq/v1";

/// The text of a declaration.
pub fn to_toml(declared: &Declared) -> String {
    let mut out = format!("api = {}\n", quoted(API));
    if let Some(cluster) = &declared.cluster {
        let _ = writeln!(out, "cluster = {}", quoted(cluster));
    }
    for (name, topic) in &declared.topics {
        spread(
            &mut out,
            &format!("topic.{}", key(name)),
            None,
            topic,
            topic_lines,
        );
    }
    for (name, group) in &declared.groups {
        spread(
            &mut out,
            &format!("group.{}", key(name)),
            None,
            group,
            group_lines,
        );
    }
    for (name, user) in declared.users.iter().flatten() {
        let path = format!("user.{}", key(name));
        let from = declared.passwords.get(name).map(|password| &password.from);
        let head = from.map(|from| format!("[{path}]\npassword_from = {}", quoted(from)));
        spread(&mut out, &path, head, user, user_lines);
    }
    for (rule, fields) in declared.rules.iter().flatten() {
        let mut head = format!(
            "[[acl]]\nsubject = {}\nresource = {}",
            quoted(&rule.subject),
            quoted(&rule.resource)
        );
        if rule.policy != CUSTOM {
            let _ = write!(head, "\npolicy = {}", quoted(&rule.policy.to_ascii_lowercase()));
        }
        spread(&mut out, "acl", Some(head), fields, rule_lines);
    }
    out
}

/// An object under `[path]`, or another head.
fn spread<F>(
    out: &mut String,
    path: &str,
    head: Option<String>,
    object: &Spread<F>,
    lines: impl Fn(&mut String, &F),
) {
    let head = head.unwrap_or_else(|| format!("[{path}]"));
    let _ = writeln!(out, "\n{head}");
    lines(out, &object.all);
    for (broker, own) in &object.brokers {
        let _ = writeln!(out, "\n[{path}.broker.{}]", key(broker));
        lines(out, own);
    }
}

/// A string of TOML.
pub(super) fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A key of TOML: bare where it may be.
fn key(text: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !text.is_empty() && text.chars().all(bare) {
        text.to_owned()
    } else {
        // A string with a newline would be written in three quotes, which no key may have.
        let mut out = String::from("\"");
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                c if c.is_control() => {
                    let _ = write!(out, "\\u{:04X}", c as u32);
                }
                c => out.push(c),
            }
        }
        out.push('"');
        out
    }
}

fn table(map: &BTreeMap<String, String>) -> String {
    if map.is_empty() {
        return "{}".into();
    }
    let pairs: Vec<String> = map
        .iter()
        .map(|(k, v)| format!("{} = {}", key(k), quoted(v)))
        .collect();
    format!("{{ {} }}", pairs.join(", "))
}

/// `"RW"`, `"R"`, `"W"`, `"none"`, or the number of other bits.
pub(super) fn perm(perm: Perm) -> String {
    match perm.0 {
        0 => quoted("none"),
        2 => quoted("W"),
        4 => quoted("R"),
        6 => quoted("RW"),
        other => other.to_string(),
    }
}

fn topic_lines(out: &mut String, fields: &TopicFields) {
    let mut line = |key: &str, value: String| {
        let _ = writeln!(out, "{key} = {value}");
    };
    match (fields.read_queues, fields.write_queues) {
        (Some(read), Some(write)) if read == write => line("queues", read.to_string()),
        (read, write) => {
            if let Some(read) = read {
                line("read_queues", read.to_string());
            }
            if let Some(write) = write {
                line("write_queues", write.to_string());
            }
        }
    }
    if let Some(bits) = fields.perm {
        line("perm", perm(bits));
    }
    if let Some(order) = fields.order {
        line("order", order.to_string());
    }
    if let Some(attributes) = &fields.attributes {
        let mut rest = attributes.clone();
        if let Some(kind) = rest.remove(MESSAGE_TYPE) {
            line("type", quoted(&kind.to_ascii_lowercase()));
        }
        line("attributes", table(&rest));
    }
    if let Some(flag) = fields.sys_flag {
        line("sys_flag", flag.to_string());
    }
    if let Some(filter) = fields.filter_type {
        line(
            "filter",
            quoted(match filter {
                TopicFilterType::SingleTag => "single_tag",
                TopicFilterType::MultiTag => "multi_tag",
            }),
        );
    }
}

/// `5s`, `2h`: the largest unit that leaves nothing over.
pub(super) fn duration(ms: i64) -> String {
    for (unit, of) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
        if ms != 0 && ms % of == 0 {
            return format!("{}{unit}", ms / of);
        }
    }
    format!("{ms}ms")
}

fn policy(policy: &GroupRetryPolicy) -> String {
    if is_default_policy(policy) {
        return "{ type = \"default\" }".into();
    }
    match policy.kind {
        GroupRetryPolicyType::Exponential => {
            let own = policy.exponential_retry_policy.clone().unwrap_or_default();
            format!(
                "{{ type = \"exponential\", initial = {}, max = {}, multiplier = {} }}",
                quoted(&duration(own.initial)),
                quoted(&duration(own.max)),
                own.multiplier
            )
        }
        GroupRetryPolicyType::Customized => {
            let own = policy.customized_retry_policy.clone().unwrap_or_default();
            let next: Vec<String> = own.next.iter().map(|ms| quoted(&duration(*ms))).collect();
            format!("{{ type = \"custom\", next = [{}] }}", next.join(", "))
        }
    }
}

fn group_lines(out: &mut String, fields: &GroupFields) {
    let mut line = |key: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    };
    line("consume_enable", fields.consume_enable.map(|v| v.to_string()));
    line("consume_from_min", fields.consume_from_min.map(|v| v.to_string()));
    line(
        "consume_broadcast",
        fields.consume_broadcast.map(|v| v.to_string()),
    );
    line("consume_orderly", fields.consume_orderly.map(|v| v.to_string()));
    line(
        "consume_timeout_minutes",
        fields.consume_timeout_minutes.map(|v| v.to_string()),
    );
    line("retry_queues", fields.retry_queues.map(|v| v.to_string()));
    line("retry_max", fields.retry_max.map(|v| v.to_string()));
    line("retry_policy", fields.retry_policy.as_ref().map(policy));
    line("read_from", fields.read_from.map(|v| v.to_string()));
    line("slow_read_from", fields.slow_read_from.map(|v| v.to_string()));
    line("notify_change", fields.notify_change.map(|v| v.to_string()));
    line("attributes", fields.attributes.as_ref().map(table));
    line("sys_flag", fields.sys_flag.map(|v| v.to_string()));
    line(
        "subscriptions",
        fields.subscriptions.as_ref().map(|subscriptions| {
            let each: Vec<String> = subscriptions
                .iter()
                .flatten()
                .map(|s| {
                    let kind = s
                        .expression_type
                        .as_ref()
                        .map(|t| format!(", type = {}", quoted(t)))
                        .unwrap_or_default();
                    format!(
                        "{{ topic = {}, expression = {}{kind}, version = {} }}",
                        quoted(&s.topic),
                        quoted(&s.expression),
                        s.version
                    )
                })
                .collect();
            format!("[{}]", each.join(", "))
        }),
    );
}

fn user_lines(out: &mut String, fields: &UserFields) {
    for (key, value) in [("type", &fields.user_type), ("status", &fields.status)] {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {}", quoted(&value.to_ascii_lowercase()));
        }
    }
}

fn rule_lines(out: &mut String, fields: &RuleFields) {
    let list = |list: &[String]| {
        let each: Vec<String> = list.iter().map(|text| quoted(text)).collect();
        format!("[{}]", each.join(", "))
    };
    let lines = [
        ("actions", fields.actions.as_deref().map(list)),
        (
            "decision",
            fields.decision.as_ref().map(|d| quoted(&d.to_ascii_lowercase())),
        ),
        ("source_ips", fields.source_ips.as_deref().map(list)),
    ];
    for (key, value) in lines {
        if let Some(value) = value {
            let _ = writeln!(out, "{key} = {value}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_in_their_largest_whole_unit() {
        let texts = [0, 500, 1_000, 5_000, 90_000, 7_200_000, 86_400_000].map(duration);
        assert_eq!(texts, ["0ms", "500ms", "1s", "5s", "90s", "2h", "1d"]);
    }

    #[test]
    fn names_that_are_no_bare_keys_are_quoted() {
        assert_eq!(key("Order-Events_1"), "Order-Events_1");
        assert_eq!(key("%RETRY%g"), "\"%RETRY%g\"");
        assert_eq!(key("a\"b\n"), "\"a\\\"b\\u000A\"");
    }
}
