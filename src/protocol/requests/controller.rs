//! What an admin asks a controller. All but the metadata and the configuration go to the leader.

use serde::{Deserialize, Serialize};

use crate::protocol::body::{BrokerReplicas, ElectedGroup};
use crate::protocol::{Json, Text};
use crate::request;

/// Make a replica the master of its set.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElectMaster {
    /// Cluster name.
    pub cluster_name: String,
    /// Broker set.
    pub broker_name: String,
    /// The controller's number of the replica, -1 for any.
    pub broker_id: i64,
    /// This replica and no other.
    pub designate_elect: bool,
    /// When it was asked, ms.
    pub invoke_time: Option<i64>,
}
request!(ElectMaster = 1002 "CONTROLLER_ELECT_MASTER" (()) -> ElectMasterReply, Option<Json<ElectedGroup>>);

/// The master now.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElectMasterReply {
    /// The controller's number of it.
    pub master_broker_id: Option<i64>,
    /// Its address.
    pub master_address: Option<String>,
    /// How often the set has had a new master.
    pub master_epoch: Option<i32>,
    /// How often the in-sync set has changed.
    pub sync_state_set_epoch: Option<i32>,
}

/// Who leads the controllers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetControllerMetadata;
request!(GetControllerMetadata = 1005 "CONTROLLER_GET_METADATA_INFO" (()) -> GetControllerMetadataReply, ());

/// The group of controllers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetControllerMetadataReply {
    /// Name of the group.
    pub group: Option<String>,
    /// Name of the leader in it.
    pub controller_leader_id: Option<String>,
    /// Where the leader is.
    pub controller_leader_address: Option<String>,
    /// Whether who answers leads.
    #[serde(alias = "leader")]
    pub is_leader: bool,
    /// `n0:127.0.0.1:9878`, separated by `;`.
    pub peers: Option<String>,
}

/// Which replicas of broker sets are in sync; the body has the names of the sets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetSyncStateData;
request!(GetSyncStateData = 1006 "CONTROLLER_GET_SYNC_STATE_DATA" (Json<Vec<String>>) -> (), Json<BrokerReplicas>);

/// Change a controller's configuration; the body is properties text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateControllerConfig;
request!(UpdateControllerConfig = 1009 "UPDATE_CONTROLLER_CONFIG" (Text) -> (), ());

/// A controller's configuration as properties text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetControllerConfig;
request!(GetControllerConfig = 1010 "GET_CONTROLLER_CONFIG" (()) -> (), Text);

/// Forget replicas of a broker set; success also for one that the controller does not know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CleanBrokerData {
    /// Cluster name.
    pub cluster_name: Option<String>,
    /// Broker set.
    pub broker_name: String,
    /// The controller's numbers of the replicas, separated by `;`; all when absent.
    pub broker_controller_ids_to_clean: Option<String>,
    /// Replicas that are alive as well.
    #[serde(rename = "isCleanLivingBroker", alias = "cleanLivingBroker")]
    pub clean_living_broker: bool,
    /// When it was asked, ms.
    pub invoke_time: Option<i64>,
}
request!(CleanBrokerData = 1011 "CLEAN_BROKER_DATA" (()) -> (), ());
