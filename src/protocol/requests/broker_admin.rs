//! Running a broker: configuration, figures, clean-up, replication state.

use serde::{Deserialize, Serialize};

use crate::protocol::body::{BrokerEpochs, ColdDataFlowInfo, HaRuntimeInfo, RuntimeInfo};
use crate::protocol::{Json, Text};
use crate::request;

/// Change a broker's configuration; the body is properties text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateBrokerConfig;
request!(UpdateBrokerConfig = 25 "UPDATE_BROKER_CONFIG" (Text) -> (), ());

/// A broker's configuration as properties text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBrokerConfig;
request!(GetBrokerConfig = 26 "GET_BROKER_CONFIG" (()) -> GetBrokerConfigReply, Text);

/// Version of the configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetBrokerConfigReply {
    /// A data version as JSON text.
    pub version: String,
    /// Keys, separated by `;`, whose change waits for the next start. Ours; a Java broker does not tell.
    #[serde(rename = "rmqReadAtStart")]
    pub rmq_read_at_start: Option<String>,
    /// Keys, separated by `;`, whose value as told waits for the next start: another one is in force. Ours.
    #[serde(rename = "rmqWaiting")]
    pub rmq_waiting: Option<String>,
    /// Keys, separated by `;`, that are kept and have no effect: those that this broker does not know, of Java's or misspelt. Ours.
    #[serde(rename = "rmqWithoutEffect")]
    pub rmq_without_effect: Option<String>,
    /// What keys may be set to, `key=FROM..TO` or `key=WORD|WORD`, separated by `;`. Ours as well.
    #[serde(rename = "rmqLimits")]
    pub rmq_limits: Option<String>,
}

/// A broker's figures.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBrokerRuntimeInfo;
request!(GetBrokerRuntimeInfo = 28 "GET_BROKER_RUNTIME_INFO" (()) -> (), Json<RuntimeInfo>);

/// Delete consume queue files that lie before the commit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanExpiredConsumequeue;
request!(CleanExpiredConsumequeue = 306 "CLEAN_EXPIRED_CONSUMEQUEUE" (()) -> (), ());

/// Delete consume queues of topics that do not exist.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CleanUnusedTopic;
request!(CleanUnusedTopic = 316 "CLEAN_UNUSED_TOPIC" (()) -> (), ());

/// Delete expired commit log files now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteExpiredCommitlog;
request!(DeleteExpiredCommitlog = 329 "DELETE_EXPIRED_COMMITLOG" (()) -> (), ());

/// Compare RocksDB and file consume queues.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckRocksdbCqWriteProgress {
    /// Topic name.
    pub topic: String,
    /// Compare messages stored since, ms.
    pub check_store_time: Option<i64>,
}
request!(CheckRocksdbCqWriteProgress = 354 "CHECK_ROCKSDB_CQ_WRITE_PROGRESS" (()) -> (), Json<CheckRocksdbCqWriteAnswer>);

/// Result of the comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CheckRocksdbCqWriteAnswer {
    /// Text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_result: Option<String>,
    /// 0 good, 1 wrong, 2 running, 3 failed.
    pub check_status: i32,
}

/// Write RocksDB tables out as JSON files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExportRocksdbConfigToJson {
    /// `topics`, `subscriptionGroups`, `consumerOffsets`, joined by `;`.
    pub config_type: String,
}
request!(ExportRocksdbConfigToJson = 355 "EXPORT_ROCKSDB_CONFIG_TO_JSON" (()) -> (), ());

/// Set cold read thresholds; the body is `group=threshold` lines.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpdateColdDataFlowCtrConfig;
request!(UpdateColdDataFlowCtrConfig = 2001 "UPDATE_COLD_DATA_FLOW_CTR_CONFIG" (Text) -> (), ());

/// Remove the cold read threshold of the group named in the body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveColdDataFlowCtrConfig;
request!(RemoveColdDataFlowCtrConfig = 2002 "REMOVE_COLD_DATA_FLOW_CTR_CONFIG" (Text) -> (), ());

/// Cold reads by group.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetColdDataFlowCtrInfo;
request!(GetColdDataFlowCtrInfo = 2003 "GET_COLD_DATA_FLOW_CTR_INFO" (()) -> (), Json<ColdDataFlowInfo>);

/// How the kernel should read the commit log ahead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SetCommitlogReadMode {
    /// 0 normal, 1 random; its absence has an answer of its own.
    #[serde(rename = "READ_AHEAD_MODE")]
    pub read_ahead_mode: Option<String>,
}
request!(SetCommitlogReadMode = 2004 "SET_COMMITLOG_READ_MODE" (()) -> (), ());

/// Replication state of a broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBrokerHaStatus;
request!(GetBrokerHaStatus = 907 "GET_BROKER_HA_STATUS" (()) -> (), Json<HaRuntimeInfo>);

/// Tell a slave how far its master has flushed. A master takes it and does nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResetMasterFlushOffset {
    /// The offset.
    pub master_flush_offset: Option<i64>,
}
request!(ResetMasterFlushOffset = 908 "RESET_MASTER_FLUSH_OFFSET" (()) -> (), ());

/// The epochs of a broker in controller mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetBrokerEpochCache;
request!(GetBrokerEpochCache = 1007 "GET_BROKER_EPOCH_CACHE" (()) -> (), Json<BrokerEpochs>);

/// Start a broker inside a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddBroker {
    /// Configuration file on the container's machine.
    pub config_path: Option<String>,
}
request!(AddBroker = 902 "ADD_BROKER" (()) -> (), ());

/// Stop a broker inside a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RemoveBroker {
    /// Broker set.
    pub broker_name: String,
    /// Cluster name.
    pub broker_cluster_name: String,
    /// 0 is the master.
    pub broker_id: i64,
}
request!(RemoveBroker = 903 "REMOVE_BROKER" (()) -> (), ());

/// Move POP records from RocksDB to the store's own files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PopRollback;
request!(PopRollback = 200056 "POP_ROLLBACK" (()) -> (), ());
