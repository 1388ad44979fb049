//! Plain text tables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Texts by key: a KV namespace, a broker's runtime figures.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KvTable {
    /// The entries.
    pub table: BTreeMap<String, String>,
}

/// Answer of GET_BROKER_RUNTIME_INFO.
pub type RuntimeInfo = KvTable;
