//! Queue locks of orderly consumers.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::model::MessageQueue;

/// Body of LOCK_BATCH_MQ and UNLOCK_BATCH_MQ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatchRequest {
    /// Client id.
    pub client_id: String,
    /// Group name.
    pub consumer_group: String,
    /// Queues to lock or unlock.
    pub mq_set: BTreeSet<MessageQueue>,
    /// Do not ask the other replicas.
    pub only_this_broker: bool,
}

/// Answer of LOCK_BATCH_MQ.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LockBatchAnswer {
    /// Queues the client now holds.
    #[serde(rename = "lockOKMQSet")]
    pub lock_ok_mq_set: BTreeSet<MessageQueue>,
}
