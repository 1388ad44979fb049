//! The fields of a group that a change may name.

use clap::Args;

use crate::cli::exit::Failure;
use crate::cli::time;
use crate::client::admin::group_config::GroupPatch;
use crate::client::admin::topic::MAX_QUEUES;
use crate::protocol::body::{
    CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicy, GroupRetryPolicyType,
};

/// Fields of a group.
#[derive(Debug, Clone, Args)]
pub struct FieldArgs {
    /// Consuming is allowed
    #[arg(long, value_name = "BOOL")]
    consume_enable: Option<bool>,
    /// Consuming from the minimum offset is allowed
    #[arg(long, value_name = "BOOL")]
    from_min: Option<bool>,
    /// Broadcasting is allowed
    #[arg(long, value_name = "BOOL")]
    broadcast: Option<bool>,
    /// Retries keep the order
    #[arg(long, value_name = "BOOL")]
    orderly: Option<bool>,
    /// Queues of the retry topic on each broker
    #[arg(long, value_name = "N")]
    retry_queues: Option<i32>,
    /// Retries before a message goes to the dead-letter topic; -1 goes on for ever
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    retry_max: Option<i32>,
    /// Delays of retries: exponential:initial=5s,max=2h,multiplier=2, custom:1s,5s,10s, or levels
    #[arg(long, value_name = "POLICY", value_parser = retry_policy)]
    retry_policy: Option<GroupRetryPolicy>,
    /// Broker id that consumers read from; 0 is the master
    #[arg(long, value_name = "BROKER_ID")]
    read_from: Option<i64>,
    /// Broker id suggested to consumers that lag behind memory
    #[arg(long, value_name = "BROKER_ID")]
    slow_read_from: Option<i64>,
    /// Tell the group's clients when one comes or goes
    #[arg(long, value_name = "BOOL")]
    notify_change: Option<bool>,
    /// Set an attribute; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = crate::cli::broker::pair)]
    attr: Vec<(String, String)>,
}

impl FieldArgs {
    /// What is named, as a change.
    pub fn patch(self) -> Result<GroupPatch, Failure> {
        let within = |flag: &str, value: Option<i64>, least: i64, most: i64| match value {
            Some(n) if !(least..=most).contains(&n) => Err(Failure::usage(format!(
                "--{flag} {n} is out of range; use {least} to {most}"
            ))),
            _ => Ok(()),
        };
        within(
            "retry-queues",
            self.retry_queues.map(Into::into),
            0,
            MAX_QUEUES.into(),
        )?;
        within("retry-max", self.retry_max.map(Into::into), -1, i32::MAX.into())?;
        within("read-from", self.read_from, 0, i64::MAX)?;
        within("slow-read-from", self.slow_read_from, 0, i64::MAX)?;
        Ok(GroupPatch {
            consume_enable: self.consume_enable,
            from_min: self.from_min,
            broadcast: self.broadcast,
            orderly: self.orderly,
            retry_queues: self.retry_queues,
            retry_max: self.retry_max,
            retry_policy: self.retry_policy,
            read_from: self.read_from,
            slow_read_from: self.slow_read_from,
            notify_change: self.notify_change,
            set_attributes: self.attr.into_iter().collect(),
            ..GroupPatch::default()
        })
    }
}

/// `exponential:initial=5s,max=2h,multiplier=2`, `custom:1s,5s,10s`, `levels`, or the JSON of mqadmin.
fn retry_policy(text: &str) -> Result<GroupRetryPolicy, String> {
    let ms = |text: &str| -> Result<i64, String> {
        let span = time::parse_duration(text)?;
        i64::try_from(span.as_millis())
            .ok()
            .filter(|ms| *ms > 0)
            .ok_or_else(|| format!("\"{text}\" is no delay"))
    };
    let text = text.trim();
    if text == "levels" {
        return Ok(GroupRetryPolicy::default());
    }
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|e| format!("not a retry policy: {e}"));
    }
    match text.split_once(':') {
        Some(("custom", list)) => {
            let next = list.split(',').map(|part| ms(part.trim())).collect::<Result<Vec<_>, _>>()?;
            Ok(GroupRetryPolicy {
                customized_retry_policy: Some(CustomizedRetryPolicy { next }),
                ..GroupRetryPolicy::default()
            })
        }
        Some(("exponential", list)) => {
            let mut policy = ExponentialRetryPolicy::default();
            for part in list.split(',').filter(|p| !p.trim().is_empty()) {
                match part.split_once('=').map(|(k, v)| (k.trim(), v.trim())) {
                    Some(("initial", value)) => policy.initial = ms(value)?,
                    Some(("max", value)) => policy.max = ms(value)?,
                    Some(("multiplier", value)) => {
                        policy.multiplier = value
                            .parse()
                            .ok()
                            .filter(|n| *n > 0)
                            .ok_or_else(|| format!("\"{value}\" is no multiplier"))?;
                    }
                    _ => return Err(format!("\"{part}\" is not initial=, max= or multiplier=")),
                }
            }
            Ok(GroupRetryPolicy {
                exponential_retry_policy: Some(policy),
                kind: GroupRetryPolicyType::Exponential,
                ..GroupRetryPolicy::default()
            })
        }
        _ => Err(
            "use exponential:initial=5s,max=2h,multiplier=2, custom:1s,5s,10s, or levels for the broker's delay levels"
                .into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::admin::group_config::policy_text;

    #[test]
    fn retry_policies_are_read_in_every_form() {
        for text in [
            "levels",
            "custom:1s,5s,10s",
            "exponential:initial=1s,max=1h,multiplier=3",
        ] {
            assert_eq!(policy_text(&retry_policy(text).unwrap()), text);
        }
        assert_eq!(
            policy_text(&retry_policy("exponential:").unwrap()),
            "exponential:initial=5s,max=2h,multiplier=2"
        );
        // The form of mqadmin's -p.
        let json = r#"{"type":"CUSTOMIZED","customizedRetryPolicy":{"next":[1000,5000,10000]}}"#;
        assert_eq!(policy_text(&retry_policy(json).unwrap()), "custom:1s,5s,10s");
        for bad in [
            "",
            "custom:",
            "custom:5",
            "linear:1s",
            "exponential:initial=0s",
            "exponential:x=1",
        ] {
            assert!(retry_policy(bad).is_err(), "{bad}");
        }
    }
}
