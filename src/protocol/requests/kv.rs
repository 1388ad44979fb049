//! The name server's key-value store.

use serde::{Deserialize, Serialize};

use crate::protocol::Json;
use crate::protocol::body::KvTable;
use crate::request;

/// Set one value. An absent name has an answer of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PutKvConfig {
    /// Namespace.
    pub namespace: Option<String>,
    /// Key.
    pub key: Option<String>,
    /// Value.
    pub value: Option<String>,
}
request!(PutKvConfig = 100 "PUT_KV_CONFIG" (()) -> (), ());

/// One value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetKvConfig {
    /// Namespace.
    pub namespace: Option<String>,
    /// Key.
    pub key: Option<String>,
}
request!(GetKvConfig = 101 "GET_KV_CONFIG" (()) -> GetKvConfigReply, ());

/// The value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GetKvConfigReply {
    /// The value.
    pub value: Option<String>,
}

/// Remove one value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeleteKvConfig {
    /// Namespace.
    pub namespace: Option<String>,
    /// Key.
    pub key: Option<String>,
}
request!(DeleteKvConfig = 102 "DELETE_KV_CONFIG" (()) -> (), ());

/// All values of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetKvlistByNamespace {
    /// Namespace.
    pub namespace: Option<String>,
}
request!(GetKvlistByNamespace = 219 "GET_KVLIST_BY_NAMESPACE" (()) -> (), Json<KvTable>);
