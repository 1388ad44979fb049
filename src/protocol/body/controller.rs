//! Controller mode: replicas, elections, epochs.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::BrokerMemberGroup;

/// Replicas by broker set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerReplicas {
    /// By the name of the set.
    pub replicas_info_table: BTreeMap<String, ReplicasInfo>,
}

/// Replicas of one broker set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicasInfo {
    /// Those that have what the master has.
    pub in_sync_replicas: Vec<ReplicaIdentity>,
    /// Address of the master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_address: Option<String>,
    /// The controller's number of the master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_broker_id: Option<i64>,
    /// How often the set has had a new master.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub master_epoch: Option<i32>,
    /// The others.
    pub not_in_sync_replicas: Vec<ReplicaIdentity>,
    /// How often the in-sync set has changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_state_set_epoch: Option<i32>,
}

/// One replica.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaIdentity {
    /// Whether the controller hears of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alive: Option<bool>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_address: Option<String>,
    /// The controller's number of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_id: Option<i64>,
    /// Broker set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_name: Option<String>,
}

/// A broker set after an election.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElectedGroup {
    /// Addresses of the set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broker_member_group: Option<BrokerMemberGroup>,
    /// The controller's numbers of the replicas that are in sync.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_state_set: Option<BTreeSet<i64>>,
}

/// The epochs that a broker knows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerEpochs {
    /// 0 is the master.
    pub broker_id: i64,
    /// Broker set.
    pub broker_name: String,
    /// Cluster name.
    pub cluster_name: String,
    /// Oldest first.
    pub epoch_list: Vec<EpochEntry>,
    /// End of the commit log.
    pub max_offset: i64,
}

/// What one master wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EpochEntry {
    /// Behind its last byte; [`i64::MAX`] while it goes on.
    pub end_offset: i64,
    /// Number of the master's time.
    pub epoch: i32,
    /// Its first byte.
    pub start_offset: i64,
}

impl Default for EpochEntry {
    fn default() -> Self {
        Self {
            end_offset: i64::MAX,
            epoch: 0,
            start_offset: 0,
        }
    }
}
