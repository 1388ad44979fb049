//! Settings of the store, by Java's key names (`MessageStoreConfig`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// When an append counts as durable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlushDiskType {
    /// When it is in the page cache.
    #[default]
    #[serde(rename = "ASYNC_FLUSH")]
    AsyncFlush,
    /// When it is on the disk.
    #[serde(rename = "SYNC_FLUSH")]
    SyncFlush,
}

/// Settings of the store. Sizes in bytes, times in ms unless a key says otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StoreConfig {
    /// Root directory of the store.
    pub store_path_root_dir: PathBuf,
    /// Directory of the commit log; `<root>/commitlog` when absent.
    pub store_path_commit_log: Option<PathBuf>,
    /// Size of a commit log segment; must match the files on disk.
    pub mapped_file_size_commit_log: u64,
    /// Size of a consume queue segment, rounded up to a multiple of 20.
    pub mapped_file_size_consume_queue: u64,
    /// When an append counts as durable.
    pub flush_disk_type: FlushDiskType,
    /// Longest body in bytes.
    pub max_message_size: usize,
    /// How long a SYNC_FLUSH append waits, ms.
    pub sync_flush_timeout: u64,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self {
            store_path_root_dir: std::env::home_dir().unwrap_or_default().join("store"),
            store_path_commit_log: None,
            mapped_file_size_commit_log: 1024 * 1024 * 1024,
            mapped_file_size_consume_queue: 6_000_000,
            flush_disk_type: FlushDiskType::AsyncFlush,
            max_message_size: 4 * 1024 * 1024,
            sync_flush_timeout: 5000,
        }
    }
}
