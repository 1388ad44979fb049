//! Writes group configurations and reads them back.

use crate::cli::change::{self, Outcome, Step};
use crate::cli::session::Session;
use crate::client::BrokerAt;
use crate::client::admin::group_config::{differences, fields};
use crate::protocol::body::SubscriptionGroupConfig;

/// One broker and its group before (if any) and after.
pub struct Write {
    pub broker: BrokerAt,
    pub before: Option<SubscriptionGroupConfig>,
    pub after: SubscriptionGroupConfig,
}

impl Write {
    /// A group that a broker does not have yet, and its row.
    pub fn new_group(broker: BrokerAt, after: SubscriptionGroupConfig) -> (Step, Self) {
        let step = Step {
            target: broker.server().to_string(),
            field: "group".into(),
            before: "absent".into(),
            after: described(&after),
        };
        let before = None;
        (
            step,
            Self {
                broker,
                before,
                after,
            },
        )
    }
}

/// A configuration in words.
pub fn described(config: &SubscriptionGroupConfig) -> String {
    let words: Vec<String> = fields(config).iter().map(|(k, v)| format!("{k} {v}")).collect();
    words.join(", ")
}

/// Writes a configuration and reads it back.
pub async fn write(session: &Session, write: Write) -> Outcome {
    let client = &session.client;
    let server = write.broker.server();
    let done = client
        .write_group(&server, write.before.as_ref(), &write.after, client.deadline())
        .await;
    change::proof(done, async {
        let table = client.broker_groups(&server, client.deadline()).await?;
        let Some(now) = table.subscription_group_table.get(&write.after.group_name) else {
            return Ok(Some("the broker does not have the group".into()));
        };
        let wrong: Vec<String> = differences(&write.after, now)
            .into_iter()
            .map(|(field, _, now)| format!("{field} reads back {now}"))
            .collect();
        Ok((!wrong.is_empty()).then(|| wrong.join(", ")))
    })
    .await
}
