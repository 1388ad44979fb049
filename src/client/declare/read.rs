//! A declaration from a file: TOML, or one of the two JSON lists of `mqadmin`. An unknown key is an error with its
//! line.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use serde_json::Value;

use super::accounts::{Password, RuleKey};
use super::write::API;
use super::{Declared, GroupFields, MESSAGE_TYPE, RuleFields, Spread, TopicFields, UserFields};
use crate::client::admin::auth::{CUSTOM, action, resource, subject};
use crate::client::admin::topic::MAX_QUEUES;
use crate::protocol::body::{
    CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicy, GroupRetryPolicyType,
    SimpleSubscriptionData, SubscriptionGroupConfig, TopicConfig,
};
use crate::protocol::model::{Perm, TopicFilterType, check_group, check_topic};

/// Reads a declaration. The error says what is wrong and where.
pub fn parse(text: &str) -> Result<Declared, String> {
    let declared = if text.trim_start().starts_with(['[', '{']) && serde_json::from_str::<Value>(text).is_ok()
    {
        from_json(text)?
    } else {
        from_toml(text)?
    };
    for name in declared.topics.keys() {
        check_topic(name).map_err(|e| format!("topic \"{name}\": {e}"))?;
    }
    for name in declared.groups.keys() {
        check_group(name).map_err(|e| format!("group \"{name}\": {e}"))?;
    }
    for (name, topic) in &declared.topics {
        for fields in std::iter::once(&topic.all).chain(topic.brokers.values()) {
            for number in [fields.read_queues, fields.write_queues].into_iter().flatten() {
                if !(0..=MAX_QUEUES).contains(&number) {
                    return Err(format!(
                        "topic \"{name}\": {number} is not a number of queues; use 0 to {MAX_QUEUES}"
                    ));
                }
            }
        }
    }
    Ok(declared)
}

/// Two declarations as one; an object may stand in one of them only.
pub fn merge(mut one: Declared, other: Declared) -> Result<Declared, String> {
    match (&one.cluster, &other.cluster) {
        (Some(a), Some(b)) if a != b => {
            return Err(format!("the files are about different clusters: {a} and {b}"));
        }
        (None, Some(_)) => one.cluster = other.cluster,
        _ => {}
    }
    for (name, topic) in other.topics {
        if one.topics.insert(name.clone(), topic).is_some() {
            return Err(format!("topic \"{name}\" stands in two files"));
        }
    }
    for (name, group) in other.groups {
        if one.groups.insert(name.clone(), group).is_some() {
            return Err(format!("group \"{name}\" stands in two files"));
        }
    }
    for (name, user) in other.users.into_iter().flatten() {
        if one
            .users
            .get_or_insert_default()
            .insert(name.clone(), user)
            .is_some()
        {
            return Err(format!("user \"{name}\" stands in two files"));
        }
    }
    one.passwords.extend(other.passwords);
    for (key, rule) in other.rules.into_iter().flatten() {
        if one
            .rules
            .get_or_insert_default()
            .insert(key.clone(), rule)
            .is_some()
        {
            return Err(format!("the access rule {key} stands in two files"));
        }
    }
    Ok(one)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileToml {
    api: Option<String>,
    cluster: Option<String>,
    #[serde(default)]
    topic: BTreeMap<String, TopicToml>,
    #[serde(default)]
    group: BTreeMap<String, GroupToml>,
    user: Option<BTreeMap<String, UserToml>>,
    acl: Option<Vec<RuleToml>>,
}

macro_rules! with_brokers {
    ($whole:ident, $part:ident { $($(#[$meta:meta])* $field:ident: $type:ty,)* }) => {
        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct $part {
            $($(#[$meta])* $field: Option<$type>,)*
        }

        #[derive(Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        struct $whole {
            $($(#[$meta])* $field: Option<$type>,)*
            broker: BTreeMap<String, $part>,
        }

        impl $whole {
            fn split(self) -> ($part, BTreeMap<String, $part>) {
                ($part { $($field: self.$field,)* }, self.broker)
            }
        }
    };
}

with_brokers!(TopicToml, TopicPart {
    queues: i32,
    read_queues: i32,
    write_queues: i32,
    perm: PermToml,
    #[serde(rename = "type")] message_type: String,
    order: bool,
    attributes: BTreeMap<String, String>,
    sys_flag: i32,
    filter: FilterToml,
});

with_brokers!(GroupToml, GroupPart {
    consume_enable: bool,
    consume_from_min: bool,
    consume_broadcast: bool,
    consume_orderly: bool,
    consume_timeout_minutes: i32,
    retry_queues: i32,
    retry_max: i32,
    retry_policy: PolicyToml,
    read_from: i64,
    slow_read_from: i64,
    notify_change: bool,
    attributes: BTreeMap<String, String>,
    sys_flag: i32,
    subscriptions: Vec<SubscriptionToml>,
});

/// A user. The password stands elsewhere, and is the same on all brokers.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserToml {
    password_from: Option<String>,
    #[serde(rename = "type")]
    user_type: Option<String>,
    status: Option<String>,
    #[serde(default)]
    broker: BTreeMap<String, UserPart>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UserPart {
    #[serde(rename = "type")]
    user_type: Option<String>,
    status: Option<String>,
}

/// An access rule: what it is, and what it says.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleToml {
    subject: String,
    resource: String,
    policy: Option<String>,
    actions: Option<Vec<String>>,
    decision: Option<String>,
    source_ips: Option<Vec<String>>,
    #[serde(default)]
    broker: BTreeMap<String, RulePart>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RulePart {
    actions: Option<Vec<String>>,
    decision: Option<String>,
    source_ips: Option<Vec<String>>,
}

/// `"RW"`, `"R"`, `"W"`, `"none"`, or the bits.
#[derive(Debug, Clone, Copy)]
struct PermToml(Perm);

impl<'de> Deserialize<'de> for PermToml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Bits;
        impl Visitor<'_> for Bits {
            type Value = PermToml;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a permission: RW, R, W, none, or its bits 0 to 15")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<PermToml, E> {
                match text.to_ascii_uppercase().as_str() {
                    "RW" | "WR" | "6" => Ok(PermToml(Perm::READ_WRITE)),
                    "R" | "4" => Ok(PermToml(Perm::READ)),
                    "W" | "2" => Ok(PermToml(Perm::WRITE)),
                    "NONE" | "0" => Ok(PermToml(Perm(0))),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }

            fn visit_i64<E: de::Error>(self, bits: i64) -> Result<PermToml, E> {
                match i32::try_from(bits) {
                    Ok(bits @ 0..=15) => Ok(PermToml(Perm(bits))),
                    _ => Err(E::invalid_value(de::Unexpected::Signed(bits), &self)),
                }
            }
        }
        deserializer.deserialize_any(Bits)
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum FilterToml {
    SingleTag,
    MultiTag,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum PolicyToml {
    Default {},
    Exponential {
        initial: DurationToml,
        max: DurationToml,
        multiplier: i64,
    },
    Custom {
        next: Vec<DurationToml>,
    },
}

/// `500ms`, `5s`, `2m`, `2h`, `3d`.
#[derive(Debug, Clone, Copy)]
struct DurationToml(i64);

impl<'de> Deserialize<'de> for DurationToml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let of = match &text[digits.len()..] {
            "ms" => Some(1),
            "s" => Some(1_000),
            "m" => Some(60_000),
            "h" => Some(3_600_000),
            "d" => Some(86_400_000),
            _ => None,
        };
        let ms = digits
            .parse::<i64>()
            .ok()
            .filter(|n| *n >= 0)
            .and_then(|n| n.checked_mul(of?));
        ms.map(DurationToml).ok_or_else(|| {
            de::Error::custom(format!(
                "\"{text}\" is not a duration; use forms such as 500ms, 5s, 2h"
            ))
        })
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct SubscriptionToml {
    topic: String,
    expression: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    version: i64,
}

fn from_toml(text: &str) -> Result<Declared, String> {
    let file: FileToml = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
    match file.api {
        Some(api) if api == API => {}
        Some(api) => return Err(format!("api is \"{api}\"; this version reads \"{API}\"")),
        None => {
            return Err(format!(
                "the line api = \"{API}\" is missing; it stands first in the file"
            ));
        }
    }
    let mut declared = Declared {
        cluster: file.cluster,
        ..Declared::default()
    };
    for (name, topic) in file.topic {
        let (all, brokers) = topic.split();
        let at = |e: String| format!("topic \"{name}\": {e}");
        let spread = Spread {
            all: topic_fields(all).map_err(at)?,
            brokers: brokers
                .into_iter()
                .map(|(broker, part)| Ok((broker, topic_fields(part).map_err(at)?)))
                .collect::<Result<_, String>>()?,
        };
        declared.topics.insert(name, spread);
    }
    for (name, group) in file.group {
        let (all, brokers) = group.split();
        let spread = Spread {
            all: group_fields(all),
            brokers: brokers
                .into_iter()
                .map(|(broker, part)| (broker, group_fields(part)))
                .collect(),
        };
        declared.groups.insert(name, spread);
    }
    if let Some(users) = file.user {
        declared.users = Some(BTreeMap::new());
        for (name, user) in users {
            read_user(&mut declared, &name, user).map_err(|e| format!("user \"{name}\": {e}"))?;
        }
    }
    if let Some(rules) = file.acl {
        declared.rules = Some(BTreeMap::new());
        for (i, rule) in rules.into_iter().enumerate() {
            read_rule(&mut declared, rule).map_err(|e| format!("access rule {}: {e}", i + 1))?;
        }
    }
    Ok(declared)
}

/// A word as Java spells it.
fn word(text: Option<String>, words: [&str; 2]) -> Result<Option<String>, String> {
    let Some(text) = text else { return Ok(None) };
    let known = words.into_iter().find(|word| word.eq_ignore_ascii_case(&text));
    match known {
        Some(word) => Ok(Some(word.to_owned())),
        None => Err(format!(
            "\"{text}\" is neither {} nor {}",
            words[0].to_ascii_lowercase(),
            words[1].to_ascii_lowercase()
        )),
    }
}

fn read_user(declared: &mut Declared, name: &str, user: UserToml) -> Result<(), String> {
    if name.trim().is_empty() {
        return Err("a user name is not empty".into());
    }
    let fields = |part: UserPart| -> Result<UserFields, String> {
        Ok(UserFields {
            user_type: word(part.user_type, ["Normal", "Super"])?,
            status: word(part.status, ["enable", "disable"])?,
        })
    };
    if let Some(from) = user.password_from {
        if !(from.starts_with("env:") || from.starts_with("file:")) {
            return Err("password_from is env:NAME or file:PATH, never the password itself".into());
        }
        declared
            .passwords
            .insert(name.to_owned(), Password { from, text: None });
    }
    let (user_type, status) = (user.user_type, user.status);
    let spread = Spread {
        all: fields(UserPart { user_type, status })?,
        brokers: user
            .broker
            .into_iter()
            .map(|(broker, part)| Ok((broker, fields(part)?)))
            .collect::<Result<_, String>>()?,
    };
    declared
        .users
        .get_or_insert_default()
        .insert(name.to_owned(), spread);
    Ok(())
}

fn read_rule(declared: &mut Declared, rule: RuleToml) -> Result<(), String> {
    let fields = |part: RulePart| -> Result<RuleFields, String> {
        let actions = part.actions.map(|list| {
            let actions: Result<Vec<String>, String> = list.iter().map(|text| action(text)).collect();
            actions.and_then(|list| match list.is_empty() {
                true => Err("a rule has at least one action".to_owned()),
                false => Ok(list),
            })
        });
        Ok(RuleFields {
            actions: actions.transpose()?,
            decision: word(part.decision, ["Allow", "Deny"])?,
            source_ips: part.source_ips,
        })
    };
    let key = RuleKey {
        subject: subject(&rule.subject)?,
        resource: resource(&rule.resource)?,
        policy: word(rule.policy, [CUSTOM, "Default"])?.unwrap_or_else(|| CUSTOM.to_owned()),
    };
    let all = RulePart {
        actions: rule.actions,
        decision: rule.decision,
        source_ips: rule.source_ips,
    };
    let spread = Spread {
        all: fields(all)?,
        brokers: rule
            .broker
            .into_iter()
            .map(|(broker, part)| Ok((broker, fields(part)?)))
            .collect::<Result<_, String>>()?,
    };
    let twice = format!("{key} stands twice in the file");
    match declared.rules.get_or_insert_default().insert(key, spread) {
        Some(_) => Err(twice),
        None => Ok(()),
    }
}

fn topic_fields(part: TopicPart) -> Result<TopicFields, String> {
    if part.queues.is_some() && (part.read_queues.is_some() || part.write_queues.is_some()) {
        return Err("queues stands for both read_queues and write_queues; name either it or them".into());
    }
    let mut attributes = part.attributes;
    if let Some(kind) = part.message_type {
        let kind = kind.to_ascii_uppercase();
        let table = attributes.get_or_insert_default();
        let before = table.insert(MESSAGE_TYPE.into(), kind.clone());
        if before.is_some_and(|before| before != kind) {
            return Err(format!(
                "type and the attribute {MESSAGE_TYPE} say different things"
            ));
        }
    }
    Ok(TopicFields {
        read_queues: part.queues.or(part.read_queues),
        write_queues: part.queues.or(part.write_queues),
        perm: part.perm.map(|p| p.0),
        order: part.order,
        attributes,
        sys_flag: part.sys_flag,
        filter_type: part.filter.map(|f| match f {
            FilterToml::SingleTag => TopicFilterType::SingleTag,
            FilterToml::MultiTag => TopicFilterType::MultiTag,
        }),
    })
}

fn group_fields(part: GroupPart) -> GroupFields {
    GroupFields {
        consume_enable: part.consume_enable,
        consume_from_min: part.consume_from_min,
        consume_broadcast: part.consume_broadcast,
        consume_orderly: part.consume_orderly,
        consume_timeout_minutes: part.consume_timeout_minutes,
        retry_queues: part.retry_queues,
        retry_max: part.retry_max,
        retry_policy: part.retry_policy.map(|policy| match policy {
            PolicyToml::Default {} => GroupRetryPolicy::default(),
            PolicyToml::Exponential {
                initial,
                max,
                multiplier,
            } => GroupRetryPolicy {
                kind: GroupRetryPolicyType::Exponential,
                exponential_retry_policy: Some(ExponentialRetryPolicy {
                    initial: initial.0,
                    max: max.0,
                    multiplier,
                }),
                customized_retry_policy: None,
            },
            PolicyToml::Custom { next } => GroupRetryPolicy {
                kind: GroupRetryPolicyType::Customized,
                customized_retry_policy: Some(CustomizedRetryPolicy {
                    next: next.into_iter().map(|d| d.0).collect(),
                }),
                exponential_retry_policy: None,
            },
        }),
        read_from: part.read_from,
        slow_read_from: part.slow_read_from,
        notify_change: part.notify_change,
        attributes: part.attributes,
        sys_flag: part.sys_flag,
        subscriptions: part.subscriptions.map(|list| {
            let list: Vec<SimpleSubscriptionData> = list
                .into_iter()
                .map(|s| SimpleSubscriptionData {
                    topic: s.topic,
                    expression: s.expression,
                    expression_type: s.kind,
                    version: s.version,
                })
                .collect();
            // A group without fixed subscriptions has none, not an empty list of them.
            (!list.is_empty()).then_some(list)
        }),
    }
}

/// The lists that `mqadmin updateTopicList` and `updateSubGroupList` take.
fn from_json(text: &str) -> Result<Declared, String> {
    let value: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let Value::Array(list) = value else {
        return Err("JSON here is a list of topics or of groups, as mqadmin updateTopicList and updateSubGroupList take".into());
    };
    let mut declared = Declared::default();
    for (i, object) in list.into_iter().enumerate() {
        let at = |e: String| format!("entry {}: {e}", i + 1);
        let name = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = name("topicName") {
            let fields = json_topic(&object).map_err(at)?;
            let spread = Spread {
                all: fields,
                brokers: BTreeMap::new(),
            };
            if declared.topics.insert(name.clone(), spread).is_some() {
                return Err(format!("topic \"{name}\" stands twice in the list"));
            }
        } else if let Some(name) = name("groupName") {
            let fields = json_group(&object).map_err(at)?;
            let spread = Spread {
                all: fields,
                brokers: BTreeMap::new(),
            };
            if declared.groups.insert(name.clone(), spread).is_some() {
                return Err(format!("group \"{name}\" stands twice in the list"));
            }
        } else {
            return Err(at("it has neither a topicName nor a groupName".into()));
        }
    }
    Ok(declared)
}

/// Fields of `object` that a configuration has; only those that are named count.
fn named<'a>(object: &'a Value, known: &Value) -> Result<Vec<&'a str>, String> {
    let (Value::Object(object), Value::Object(known)) = (object, known) else {
        return Err("it is not an object".into());
    };
    for key in object.keys() {
        // Java's writers leave these out when they are empty, so that ours do not show them.
        let optional = ["subscriptionDataSet"].contains(&key.as_str());
        if !known.contains_key(key) && !optional {
            let all: Vec<&str> = known.keys().map(String::as_str).collect();
            return Err(format!("unknown key \"{key}\"; the keys are {}", all.join(", ")));
        }
    }
    Ok(object
        .iter()
        .filter(|(_, v)| !v.is_null())
        .map(|(k, _)| k.as_str())
        .collect())
}

fn json_topic(object: &Value) -> Result<TopicFields, String> {
    let known = serde_json::to_value(TopicConfig::default()).map_err(|e| e.to_string())?;
    let named = named(object, &known)?;
    let mut config: TopicConfig = serde_json::from_value(object.clone()).map_err(|e| e.to_string())?;
    // As a command line has them: +key=value sets.
    let mut attributes = BTreeMap::new();
    for (key, value) in &config.attributes {
        if key.starts_with('-') {
            return Err(format!(
                "attribute {key}: a list says what a topic has, not what is taken away"
            ));
        }
        attributes.insert(key.trim_start_matches('+').to_owned(), value.clone());
    }
    config.attributes = attributes;
    let all = TopicFields::of(&config);
    let has = |key: &str| named.contains(&key);
    Ok(TopicFields {
        read_queues: all.read_queues.filter(|_| has("readQueueNums")),
        write_queues: all.write_queues.filter(|_| has("writeQueueNums")),
        perm: all.perm.filter(|_| has("perm")),
        order: all.order.filter(|_| has("order")),
        attributes: all.attributes.filter(|_| has("attributes")),
        sys_flag: all.sys_flag.filter(|_| has("topicSysFlag")),
        filter_type: all.filter_type.filter(|_| has("topicFilterType")),
    })
}

fn json_group(object: &Value) -> Result<GroupFields, String> {
    let known = serde_json::to_value(SubscriptionGroupConfig::default()).map_err(|e| e.to_string())?;
    let named = named(object, &known)?;
    let config: SubscriptionGroupConfig =
        serde_json::from_value(object.clone()).map_err(|e| e.to_string())?;
    let all = GroupFields::of(&config);
    let has = |key: &str| named.contains(&key);
    Ok(GroupFields {
        consume_enable: all.consume_enable.filter(|_| has("consumeEnable")),
        consume_from_min: all.consume_from_min.filter(|_| has("consumeFromMinEnable")),
        consume_broadcast: all.consume_broadcast.filter(|_| has("consumeBroadcastEnable")),
        consume_orderly: all.consume_orderly.filter(|_| has("consumeMessageOrderly")),
        consume_timeout_minutes: all
            .consume_timeout_minutes
            .filter(|_| has("consumeTimeoutMinute")),
        retry_queues: all.retry_queues.filter(|_| has("retryQueueNums")),
        retry_max: all.retry_max.filter(|_| has("retryMaxTimes")),
        retry_policy: all.retry_policy.filter(|_| has("groupRetryPolicy")),
        read_from: all.read_from.filter(|_| has("brokerId")),
        slow_read_from: all.slow_read_from.filter(|_| has("whichBrokerWhenConsumeSlowly")),
        notify_change: all
            .notify_change
            .filter(|_| has("notifyConsumerIdsChangedEnable")),
        attributes: all.attributes.filter(|_| has("attributes")),
        sys_flag: all.sys_flag.filter(|_| has("groupSysFlag")),
        subscriptions: all.subscriptions.filter(|_| has("subscriptionDataSet")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::held;
    use super::super::write::to_toml;
    use super::*;

    #[test]
    fn the_example_of_the_specification_is_read() {
        let text = r#"
            api = "rmq/v1"
            cluster = "OrdersEU"

            [topic.OrderEvents]
            queues = 8
            perm   = "RW"
            type   = "fifo"
            attributes = { "message.type" = "FIFO" }

            [topic.Uneven]
            perm = 4
            [topic.Uneven.broker.broker-a]
            read_queues = 16
            write_queues = 8

            [group.CG_ORDERS]
            retry_max = 5
            consume_orderly = true
            retry_policy = { type = "exponential", initial = "5s", max = "2h", multiplier = 2 }
        "#;
        let declared = parse(text).unwrap();
        let topic = &declared.topics["OrderEvents"].all;
        assert_eq!((topic.read_queues, topic.write_queues), (Some(8), Some(8)));
        assert_eq!(topic.attributes.as_ref().unwrap()["message.type"], "FIFO");
        assert_eq!(topic.order, None);
        let uneven = declared.topics["Uneven"].on("broker-a").unwrap();
        assert_eq!((uneven.read_queues, uneven.perm), (Some(16), Some(Perm::READ)));
        let group = &declared.groups["CG_ORDERS"].all;
        let policy = group.retry_policy.as_ref().unwrap();
        assert_eq!(
            policy.exponential_retry_policy.as_ref().unwrap(),
            &ExponentialRetryPolicy {
                initial: 5_000,
                max: 7_200_000,
                multiplier: 2
            }
        );
        assert_eq!(group.consume_enable, None);
    }

    #[test]
    fn what_was_written_is_read_back_as_it_was() {
        let mut held = held(&[("Same", "*", 8), ("One", "broker-b", 3), ("%odd|name", "*", 1)]);
        let mut groups = held.groups.values_mut();
        let first = groups.next().unwrap();
        let group = first.get_mut("g").unwrap();
        group.retry_max_times = 3;
        group.attributes.insert("a.b".into(), "x\"y\n".into());
        group.group_retry_policy = GroupRetryPolicy {
            kind: GroupRetryPolicyType::Customized,
            customized_retry_policy: Some(CustomizedRetryPolicy {
                next: vec![1_000, 90_500],
            }),
            exponential_retry_policy: None,
        };
        group.subscription_data_set = Some(vec![SimpleSubscriptionData {
            topic: "T".into(),
            expression: "*".into(),
            expression_type: Some("TAG".into()),
            version: 3,
        }]);
        let mut topics = held.topics.values_mut();
        let topic = topics.next().unwrap().get_mut("Same").unwrap();
        topic.perm = Perm(7);
        topic.attributes.insert("message.type".into(), "DELAY".into());
        let declared = held.declared(false);
        let text = to_toml(&declared);
        let again = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        assert_eq!(again, declared, "{text}");
        assert_eq!(to_toml(&again), text);
    }

    #[test]
    fn what_is_not_known_is_an_error_with_its_line() {
        let base = "api = \"rmq/v1\"\n";
        for (text, parts) in [
            ("[topic.T]\nqueue = 8\n", &["line 3", "queue"][..]),
            ("[topic.T.broker.b]\nperms = 6\n", &["line 3", "perms"]),
            ("[group.g]\nretry = 1\n", &["line 3", "retry"]),
            ("[topics.T]\n", &["line 2", "topics"]),
            ("[topic.T]\nperm = 99\n", &["line 3", "permission"]),
            ("[topic.T]\nqueues = \"x\"\n", &["line 3"]),
            ("[topic.T]\nqueues = 1\nread_queues = 2\n", &["T", "either"]),
            (
                "[topic.T]\ntype = \"fifo\"\nattributes = { \"message.type\" = \"DELAY\" }\n",
                &["different"],
            ),
            ("[topic.T]\nqueues = -1\n", &["-1", "0 to"]),
            ("[topic.\"a/b\"]\n", &["illegal"]),
            (
                "[group.g]\nretry_policy = { type = \"custom\", next = [\"5x\"] }\n",
                &["5x"],
            ),
        ] {
            let error = parse(&format!("{base}{text}")).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{text}: {part} is missing in {error}");
            }
        }
        assert!(parse("api = \"rmq/v9\"\n").unwrap_err().contains("rmq/v1"));
        assert!(
            parse("cluster = \"C\"\n")
                .unwrap_err()
                .contains("api = \"rmq/v1\"")
        );
    }

    #[test]
    fn both_lists_of_mqadmin_are_read() {
        let topics = r#"[{"topicName":"A","readQueueNums":4,"writeQueueNums":4,"perm":6,"topicFilterType":"SINGLE_TAG",
            "topicSysFlag":0,"order":false,"attributes":{"+message.type":"FIFO"}},{"topicName":"B"}]"#;
        let declared = parse(topics).unwrap();
        assert_eq!(declared.topics["A"].all.read_queues, Some(4));
        assert_eq!(
            declared.topics["A"].all.attributes.as_ref().unwrap()["message.type"],
            "FIFO"
        );
        assert_eq!(declared.topics["B"].all, TopicFields::default());
        let groups = r#"[{"groupName":"g","consumeEnable":false,"retryMaxTimes":3}]"#;
        let declared = parse(groups).unwrap();
        let fields = &declared.groups["g"].all;
        assert_eq!((fields.consume_enable, fields.retry_max), (Some(false), Some(3)));
        assert_eq!(fields.retry_queues, None);
        for wrong in [
            r#"[{"topicName":"A","readQueues":4}]"#,
            r#"[{"perm":6}]"#,
            r#"{"topicName":"A"}"#,
            r#"[{"topicName":"A"},{"topicName":"A"}]"#,
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
