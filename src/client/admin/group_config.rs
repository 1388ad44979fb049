//! Consumer groups: configuration, creation, change, deletion, request modes.

use std::collections::{BTreeMap, BTreeSet};

use super::cluster::BrokerAt;
use crate::client::error::{Error, Server};
use crate::client::words::quoted;
use crate::client::{Client, Deadline};
use crate::protocol::Json;
use crate::protocol::body::{
    GroupRetryPolicy, GroupRetryPolicyType, MessageRequestMode, MessageRequestModes,
    SetMessageRequestModeRequest, SubscriptionGroupConfig,
};
use crate::protocol::requests::{
    DeleteSubscriptiongroup, GetAllMessageRequestMode, SetMessageRequestMode,
    UpdateAndCreateSubscriptiongroup, UpdateAndGetGroupForbidden,
};

/// Named fields of a group to change; every other keeps the broker's value.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupPatch {
    /// Consuming is allowed.
    pub consume_enable: Option<bool>,
    /// Consuming from the minimum offset is allowed.
    pub from_min: Option<bool>,
    /// Broadcasting is allowed.
    pub broadcast: Option<bool>,
    /// Retries keep the order.
    pub orderly: Option<bool>,
    /// Queues of the retry topic.
    pub retry_queues: Option<i32>,
    /// Retries before a message goes to the dead-letter topic.
    pub retry_max: Option<i32>,
    /// Delays between retries.
    pub retry_policy: Option<GroupRetryPolicy>,
    /// Broker id that consumers are sent to.
    pub read_from: Option<i64>,
    /// Broker id suggested to consumers that lag behind memory.
    pub slow_read_from: Option<i64>,
    /// Clients are told when the group's clients change.
    pub notify_change: Option<bool>,
    /// Attributes to set.
    pub set_attributes: BTreeMap<String, String>,
    /// Attributes to remove.
    pub unset_attributes: BTreeSet<String>,
}

impl GroupPatch {
    /// True when nothing is named.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `config` with the named fields changed.
    pub fn apply(&self, config: &SubscriptionGroupConfig) -> SubscriptionGroupConfig {
        let mut after = config.clone();
        fn put<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                *field = value.clone();
            }
        }
        put(&mut after.consume_enable, &self.consume_enable);
        put(&mut after.consume_from_min_enable, &self.from_min);
        put(&mut after.consume_broadcast_enable, &self.broadcast);
        put(&mut after.consume_message_orderly, &self.orderly);
        put(&mut after.retry_queue_nums, &self.retry_queues);
        put(&mut after.retry_max_times, &self.retry_max);
        put(&mut after.group_retry_policy, &self.retry_policy);
        put(&mut after.broker_id, &self.read_from);
        put(&mut after.which_broker_when_consume_slowly, &self.slow_read_from);
        put(&mut after.notify_consumer_ids_changed_enable, &self.notify_change);
        for key in &self.unset_attributes {
            after.attributes.remove(key);
        }
        after.attributes.extend(self.set_attributes.clone());
        after
    }
}

/// The fields of a group as the command line names them, with their values.
pub fn fields(config: &SubscriptionGroupConfig) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> = vec![
        ("consume-enable".into(), config.consume_enable.to_string()),
        ("from-min".into(), config.consume_from_min_enable.to_string()),
        ("broadcast".into(), config.consume_broadcast_enable.to_string()),
        ("orderly".into(), config.consume_message_orderly.to_string()),
        ("retry-queues".into(), config.retry_queue_nums.to_string()),
        ("retry-max".into(), config.retry_max_times.to_string()),
        ("retry-policy".into(), policy_text(&config.group_retry_policy)),
        ("read-from".into(), config.broker_id.to_string()),
        (
            "slow-read-from".into(),
            config.which_broker_when_consume_slowly.to_string(),
        ),
        (
            "notify-change".into(),
            config.notify_consumer_ids_changed_enable.to_string(),
        ),
    ];
    fields.extend(
        config
            .attributes
            .iter()
            .map(|(key, value)| (format!("attr {key}"), value.clone())),
    );
    fields
}

/// The flags of `rmq group create` and `rmq group update` that make a group as `config` is, where it differs from `from`.
pub fn flags(from: &SubscriptionGroupConfig, config: &SubscriptionGroupConfig) -> String {
    let mut line = String::new();
    for (field, _, value) in differences(from, config) {
        match field.strip_prefix("attr ") {
            Some(key) if config.attributes.contains_key(key) => {
                line += &format!(" --attr {}", quoted(&format!("{key}={value}")));
            }
            Some(key) => line += &format!(" --unset-attr {}", quoted(key)),
            None => line += &format!(" --{field} {}", quoted(&value)),
        }
    }
    line
}

/// The command that makes a group on a broker as `config` is; what it does not name are the defaults of a creation.
pub fn create_line(group: &str, broker: &str, config: Option<&SubscriptionGroupConfig>) -> String {
    let flags = config.map_or_else(String::new, |config| {
        flags(&SubscriptionGroupConfig::default(), config)
    });
    format!(
        "rmq group create {} --broker {}{flags}",
        quoted(group),
        quoted(broker)
    )
}

/// What differs between the configurations of a group, by broker name: `retry-max 3 on broker-a, 16 on broker-b`.
pub fn disagreements<'a>(
    configs: impl Iterator<Item = (&'a str, &'a SubscriptionGroupConfig)>,
) -> Vec<String> {
    let mut by_field: BTreeMap<String, Vec<(&str, String)>> = BTreeMap::new();
    let mut brokers = Vec::new();
    for (broker, config) in configs {
        brokers.push(broker);
        for (field, value) in fields(config) {
            by_field.entry(field).or_default().push((broker, value));
        }
    }
    let mut out = Vec::new();
    for (field, told) in by_field {
        let mut sides: Vec<(String, Vec<&str>)> = Vec::new();
        for broker in &brokers {
            let value = told.iter().find(|(of, _)| of == broker);
            let value = value.map_or("-", |(_, value)| value).to_owned();
            match sides.iter_mut().find(|(known, _)| *known == value) {
                Some((_, on)) => on.push(broker),
                None => sides.push((value, vec![broker])),
            }
        }
        if sides.len() > 1 {
            let sides: Vec<String> = sides
                .into_iter()
                .map(|(value, on)| format!("{value} on {}", on.join(" ")))
                .collect();
            out.push(format!("{field} {}", sides.join(", ")));
        }
    }
    out
}

/// A changed field: name, value before, value after. A missing attribute is `-`.
pub fn differences(
    before: &SubscriptionGroupConfig,
    after: &SubscriptionGroupConfig,
) -> Vec<(String, String, String)> {
    let old: BTreeMap<String, String> = fields(before).into_iter().collect();
    let new: BTreeMap<String, String> = fields(after).into_iter().collect();
    let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let value =
        |of: &BTreeMap<String, String>, name: &String| of.get(name).map_or("-", String::as_str).to_owned();
    names
        .into_iter()
        .filter(|name| old.get(*name) != new.get(*name))
        .map(|name| (name.clone(), value(&old, name), value(&new, name)))
        .collect()
}

/// A retry policy as the command line writes it; `levels` is none of its own.
pub fn policy_text(policy: &GroupRetryPolicy) -> String {
    match policy.kind {
        GroupRetryPolicyType::Exponential => match &policy.exponential_retry_policy {
            Some(p) => format!(
                "exponential:initial={},max={},multiplier={}",
                span(p.initial),
                span(p.max),
                p.multiplier
            ),
            None => "exponential".into(),
        },
        GroupRetryPolicyType::Customized => match &policy.customized_retry_policy {
            Some(p) => format!(
                "custom:{}",
                p.next.iter().map(|ms| span(*ms)).collect::<Vec<_>>().join(",")
            ),
            None => "levels".into(),
        },
    }
}

/// A span in the largest unit that keeps it whole.
fn span(ms: i64) -> String {
    for (unit, name) in [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")] {
        if ms != 0 && ms % unit == 0 {
            return format!("{}{name}", ms / unit);
        }
    }
    format!("{ms}ms")
}

impl Client {
    /// A group's configuration on each of `brokers`; `None` where it has none. (Asking for the single group would
    /// create it on some brokers.)
    pub async fn group_configs(
        &self,
        brokers: &[BrokerAt],
        group: &str,
    ) -> Vec<(BrokerAt, Result<Option<SubscriptionGroupConfig>, Error>)> {
        let deadline = self.deadline();
        self.each(brokers.to_vec(), |broker| async move {
            let config = self
                .broker_groups(&broker.server(), deadline)
                .await
                .map(|mut table| table.subscription_group_table.remove(group));
            (broker, config)
        })
        .await
    }

    /// Writes a group's configuration to a broker. Attributes travel as the difference from `before`, signed; every
    /// other field is sent as it shall be.
    pub async fn write_group(
        &self,
        broker: &Server,
        before: Option<&SubscriptionGroupConfig>,
        after: &SubscriptionGroupConfig,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let none = BTreeMap::new();
        let old = before.map_or(&none, |b| &b.attributes);
        let mut attributes: BTreeMap<String, String> = after
            .attributes
            .iter()
            .filter(|(key, value)| old.get(*key) != Some(value))
            .map(|(key, value)| (format!("+{key}"), value.clone()))
            .collect();
        attributes.extend(
            old.keys()
                .filter(|key| !after.attributes.contains_key(*key))
                .map(|key| (format!("-{key}"), String::new())),
        );
        let body = SubscriptionGroupConfig {
            attributes,
            ..after.clone()
        };
        self.call(
            broker,
            &UpdateAndCreateSubscriptiongroup,
            Some(Json::new(body)),
            deadline,
        )
        .await
        .map(drop)
    }

    /// Deletes a group on one broker, with its offsets when wanted. The broker answers success for a group it does
    /// not have.
    pub async fn delete_group_on_broker(
        &self,
        broker: &Server,
        group: &str,
        clean_offset: bool,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = DeleteSubscriptiongroup {
            group_name: group.to_owned(),
            clean_offset,
        };
        self.call(broker, &header, (), deadline).await.map(drop)
    }

    /// How groups get messages, by topic and group; what is not listed is pulled.
    pub async fn request_modes(
        &self,
        broker: &Server,
        deadline: Deadline,
    ) -> Result<MessageRequestModes, Error> {
        let (_, modes) = self.call(broker, &GetAllMessageRequestMode, (), deadline).await?;
        Ok(modes.value)
    }

    /// Lets a group read a topic on a broker, or forbids it.
    pub async fn allow_reading(
        &self,
        broker: &Server,
        group: &str,
        topic: &str,
        readable: bool,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let header = UpdateAndGetGroupForbidden {
            group: group.to_owned(),
            topic: topic.to_owned(),
            readable: Some(readable),
        };
        self.call(broker, &header, (), deadline).await?;
        Ok(())
    }

    /// Sets how a group gets the messages of a topic.
    pub async fn set_request_mode(
        &self,
        broker: &Server,
        group: &str,
        topic: &str,
        mode: MessageRequestMode,
        share_queues: i32,
        deadline: Deadline,
    ) -> Result<(), Error> {
        let body = SetMessageRequestModeRequest {
            consumer_group: group.to_owned(),
            mode,
            pop_share_queue_num: share_queues,
            topic: topic.to_owned(),
        };
        self.call(broker, &SetMessageRequestMode, Json::new(body), deadline)
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::{CustomizedRetryPolicy, ExponentialRetryPolicy};

    #[test]
    fn each_named_field_of_a_group_changes_and_no_other() {
        let before = SubscriptionGroupConfig {
            group_name: "g".into(),
            retry_max_times: 5,
            consume_timeout_minute: 30,
            group_sys_flag: 1,
            ..SubscriptionGroupConfig::default()
        };
        let patches = [
            (
                GroupPatch {
                    consume_enable: Some(false),
                    ..GroupPatch::default()
                },
                "consume-enable",
            ),
            (
                GroupPatch {
                    retry_max: Some(3),
                    ..GroupPatch::default()
                },
                "retry-max",
            ),
            (
                GroupPatch {
                    slow_read_from: Some(0),
                    ..GroupPatch::default()
                },
                "slow-read-from",
            ),
            (
                GroupPatch {
                    set_attributes: [("a".to_owned(), "1".to_owned())].into(),
                    ..GroupPatch::default()
                },
                "attr a",
            ),
        ];
        for (patch, field) in patches {
            let after = patch.apply(&before);
            let changed: Vec<String> = differences(&before, &after).into_iter().map(|d| d.0).collect();
            assert_eq!(changed, [field]);
            assert_eq!((after.consume_timeout_minute, after.group_sys_flag), (30, 1));
        }
        assert!(GroupPatch::default().is_empty());
    }

    #[test]
    fn a_retry_policy_reads_as_it_is_written_on_the_command_line() {
        let mut policy = GroupRetryPolicy::default();
        assert_eq!(policy_text(&policy), "levels");
        policy.customized_retry_policy = Some(CustomizedRetryPolicy {
            next: vec![1_000, 90_000, 1_500, 7_200_000],
        });
        assert_eq!(policy_text(&policy), "custom:1s,90s,1500ms,2h");
        policy.kind = GroupRetryPolicyType::Exponential;
        policy.exponential_retry_policy = Some(ExponentialRetryPolicy::default());
        assert_eq!(policy_text(&policy), "exponential:initial=5s,max=2h,multiplier=2");
    }

    #[test]
    fn a_group_is_made_like_another_and_disagreements_are_told() {
        let plain = SubscriptionGroupConfig::default();
        let other = SubscriptionGroupConfig {
            retry_max_times: 3,
            consume_enable: false,
            attributes: [("a".to_owned(), "x y".to_owned())].into(),
            ..plain.clone()
        };
        assert_eq!(
            flags(&plain, &other),
            " --attr 'a=x y' --consume-enable false --retry-max 3"
        );
        assert_eq!(flags(&other, &other), "");
        let told = disagreements([("b1", &plain), ("b2", &other), ("b3", &plain)].into_iter());
        assert_eq!(
            told,
            [
                "attr a - on b1 b3, x y on b2",
                "consume-enable true on b1 b3, false on b2",
                "retry-max 16 on b1 b3, 3 on b2"
            ]
        );
    }
}
