//! Transactions.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::request;

/// Commit or roll back a half message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndTransaction {
    /// Real topic.
    #[serde(default)]
    pub topic: Option<String>,
    /// Producer group.
    pub producer_group: String,
    /// Offset in the half queue.
    pub tran_state_table_offset: i64,
    /// Commit log offset of the half message.
    pub commit_log_offset: i64,
    /// 8 commit, 12 roll back, 0 not known yet.
    pub commit_or_rollback: i32,
    /// In answer to a check; absent is false.
    #[serde(default)]
    pub from_transaction_check: bool,
    /// Unique key.
    #[serde(default)]
    pub msg_id: Option<String>,
    /// Transaction id.
    #[serde(default)]
    pub transaction_id: Option<String>,
    /// Broker name the client believes it talks to.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(EndTransaction = 37 "END_TRANSACTION" (()) -> (), ());

/// Broker to producer, oneway: what became of this transaction? The body is the record with its real topic.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckTransactionState {
    /// The half topic.
    #[serde(default)]
    pub topic: Option<String>,
    /// Offset in the half queue.
    pub tran_state_table_offset: i64,
    /// Commit log offset of the half message.
    pub commit_log_offset: i64,
    /// Unique key.
    #[serde(default)]
    pub msg_id: Option<String>,
    /// Transaction id.
    #[serde(default)]
    pub transaction_id: Option<String>,
    /// Offset message id.
    #[serde(default)]
    pub offset_msg_id: Option<String>,
    /// Name of the asking broker.
    #[serde(default)]
    pub bname: Option<String>,
}
request!(CheckTransactionState = 39 "CHECK_TRANSACTION_STATE" (Bytes) -> (), ());

/// Let the checker ask again about a half message it gave up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResumeCheckHalfMessage {
    /// Topic name.
    #[serde(default)]
    pub topic: Option<String>,
    /// Offset message id.
    #[serde(default)]
    pub msg_id: Option<String>,
}
request!(ResumeCheckHalfMessage = 323 "RESUME_CHECK_HALF_MESSAGE" (()) -> (), ());
