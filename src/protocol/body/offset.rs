//! Committed offsets.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::protocol::model::DataVersion;

/// Committed offsets of all groups; also the shape of `config/consumerOffset.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerOffsets {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Topics by group; 5.x writes it, nobody reads it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_topic_map: Option<BTreeMap<String, BTreeSet<String>>>,
    /// Offset by `topic@group` and queue.
    pub offset_table: BTreeMap<String, BTreeMap<i32, i64>>,
}

/// Delivered offsets of the delay levels; also the shape of `config/delayOffset.json`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DelayOffsets {
    /// Version of the table.
    pub data_version: DataVersion,
    /// Offset by level.
    pub offset_table: BTreeMap<i32, i64>,
}

/// Answer of QUERY_CORRECTION_OFFSET.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QueryCorrectionOffsetAnswer {
    /// Smallest offset of the other groups by queue.
    pub correction_offsets: BTreeMap<i32, i64>,
}
