//! Settings of the store, by Java's key names (`MessageStoreConfig`).

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::format::consume_queue;
use super::format::index::Shape;

/// Java's delay levels.
const DELAY_LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// Most delay levels; each has a queue of its own.
pub const MOST_DELAY_LEVELS: usize = 1024;
/// Longest delay of a level, ms: a year.
const LONGEST_DELAY: i64 = 366 * 86_400_000;

/// Reads a list of delays like Java's `1s 5s 10s`, in ms; `None` when it is empty or one of them is no time.
pub fn delay_levels(text: &str) -> Option<Vec<i64>> {
    let one = |level: &str| {
        let unit = level.chars().next_back()?;
        let ms = match unit {
            's' => 1000,
            'm' => 60_000,
            'h' => 3_600_000,
            'd' => 86_400_000,
            _ => return None,
        };
        let count: i64 = level[..level.len() - unit.len_utf8()].parse().ok()?;
        count
            .checked_mul(ms)
            .filter(|delay| (0..=LONGEST_DELAY).contains(delay))
    };
    let levels: Vec<i64> = text.split_whitespace().map(one).collect::<Option<_>>()?;
    (1..=MOST_DELAY_LEVELS).contains(&levels.len()).then_some(levels)
}

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
    /// Root directory of the store. Read at start.
    pub store_path_root_dir: PathBuf,
    /// Directory of the commit log; `<root>/commitlog` when absent. Read at start.
    pub store_path_commit_log: Option<PathBuf>,
    /// Size of a commit log segment; must match the files on disk. Read at start.
    pub mapped_file_size_commit_log: u64,
    /// Size of a consume queue segment, rounded up to a multiple of 20. Read at start.
    pub mapped_file_size_consume_queue: u64,
    /// When an append counts as durable.
    pub flush_disk_type: FlushDiskType,
    /// Longest body in bytes.
    pub max_message_size: usize,
    /// How long a SYNC_FLUSH append waits, ms.
    pub sync_flush_timeout: u64,

    /// How often the commit log is flushed under ASYNC_FLUSH, ms.
    pub flush_interval_commit_log: u64,
    /// Dirty pages that make such a flush worth while.
    pub flush_commit_log_least_pages: u64,
    /// After this time it is flushed however few there are, ms.
    pub flush_commit_log_thorough_interval: u64,
    /// How often the consume queues are flushed, ms.
    pub flush_interval_consume_queue: u64,
    /// Dirty pages of a queue that make its flush worth while.
    pub flush_consume_queue_least_pages: u64,
    /// After this time all are flushed however few there are, ms.
    pub flush_consume_queue_thorough_interval: u64,

    /// An append that holds the lock for longer than this makes others be refused as busy, ms.
    pub os_page_cache_busy_time_out_mills: u64,

    /// How often disk use and expiry are looked at, ms.
    pub clean_resource_interval: u64,
    /// Hours of the day (local time, `;` between) at which expired files are deleted.
    pub delete_when: String,
    /// How long files are kept, hours.
    pub file_reserved_time: u64,
    /// Pause between two deletions of the commit log, ms.
    pub delete_commit_log_files_interval: u64,
    /// Pause between two queues whose files are deleted, ms.
    pub delete_consume_queue_files_interval: u64,
    /// Most commit log files deleted in one round.
    pub delete_file_batch_max: usize,
    /// Used share of the disk, in percent, from which expired files are deleted at any hour (10..=95).
    pub disk_max_used_space_ratio: u32,
    /// From which files are deleted before they expire (30..=85).
    pub disk_space_clean_forcibly_ratio: u32,
    /// From which writes are refused (35..=90).
    pub disk_space_warning_level_ratio: u32,
    /// Whether files may be deleted before they expire.
    pub clean_file_forcibly_enable: bool,

    /// Whether recovery compares the checksums of bodies.
    #[serde(rename = "checkCRCOnRecover")]
    pub check_crc_on_recover: bool,

    /// Most bytes of an answer whose records are in memory.
    pub max_transfer_bytes_on_message_in_memory: usize,
    /// Most records of an answer whose records are in memory.
    pub max_transfer_count_on_message_in_memory: usize,
    /// Most bytes of an answer whose records must be read from the disk.
    pub max_transfer_bytes_on_message_in_disk: usize,
    /// Most records of an answer whose records must be read from the disk.
    pub max_transfer_count_on_message_in_disk: usize,
    /// How far behind the end of the log a record is still taken to be in memory: percent of the memory.
    pub access_message_in_memory_max_ratio: u64,
    /// How far behind the end of the log a record is cold for the control of cold reads: percent of the memory.
    pub access_message_in_memory_hot_ratio: u64,
    /// Groups that read much cold data are slowed down (`cgColdReadThreshold`).
    pub cold_data_flow_control_enable: bool,
    /// The system reads the commit log ahead; otherwise page by page.
    pub data_read_ahead_enable: bool,
    /// Bytes of queue entries looked at for one answer, at 20 an entry.
    pub max_filter_message_size: usize,

    /// Consumers may read the light queues (`%LMQ%…`) that the store has.
    pub enable_lmq: bool,
    /// Recovery also completes the light queues that records name. Read at start.
    pub enable_multi_dispatch: bool,

    /// Whether keys are indexed.
    pub message_index_enable: bool,
    /// Hash slots of an index file; must match the files on disk. Read at start.
    pub max_hash_slot_num: u32,
    /// Items of an index file; must match the files on disk. Read at start.
    pub max_index_num: u32,
    /// Most records that a query by key finds.
    pub max_msgs_num_batch: usize,

    /// Delays of the levels 1, 2, ..: decides the delivery time in the delay topic's queue entries. What waits already is
    /// delivered by the new list when it changes.
    pub message_delay_level: String,
    /// How often the progress of the delay levels is written, ms.
    pub flush_delay_offset_interval: u64,

    /// Whether messages may ask for a time of delivery of their own. Read at start.
    pub timer_wheel_enable: bool,
    /// Step between two slots of the timing wheel, ms. Messages are delivered at their own time within it. Read at
    /// start.
    pub timer_precision_ms: i64,
    /// Farthest time that a message may ask for, s.
    pub timer_max_delay_sec: i64,
    /// A message that waits for more slots than this goes round the wheel more than once. Read at start.
    pub timer_roll_window_slot: i64,
    /// How often the timer's files are flushed while something changes, ms.
    pub timer_flush_interval_ms: u64,
    /// From so many messages in one slot on more are refused now and then, from twice as many always.
    pub timer_congest_num_each_slot: i32,
    /// No more messages are put into the wheel; they are kept in their queue.
    pub timer_stop_enqueue: bool,
    /// No messages are delivered out of the wheel.
    pub timer_stop_dequeue: bool,
    /// Size of a segment of the timer log; must match the files on disk. Read at start.
    pub mapped_file_size_timer_log: u64,
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
            flush_interval_commit_log: 500,
            flush_commit_log_least_pages: 4,
            flush_commit_log_thorough_interval: 10_000,
            flush_interval_consume_queue: 1000,
            flush_consume_queue_least_pages: 2,
            flush_consume_queue_thorough_interval: 60_000,
            os_page_cache_busy_time_out_mills: 1000,
            clean_resource_interval: 10_000,
            delete_when: "04".into(),
            file_reserved_time: 72,
            delete_commit_log_files_interval: 100,
            delete_consume_queue_files_interval: 100,
            delete_file_batch_max: 10,
            disk_max_used_space_ratio: 75,
            disk_space_clean_forcibly_ratio: 85,
            disk_space_warning_level_ratio: 90,
            clean_file_forcibly_enable: true,
            check_crc_on_recover: true,
            max_transfer_bytes_on_message_in_memory: 256 * 1024,
            max_transfer_count_on_message_in_memory: 32,
            max_transfer_bytes_on_message_in_disk: 64 * 1024,
            max_transfer_count_on_message_in_disk: 8,
            access_message_in_memory_max_ratio: 40,
            access_message_in_memory_hot_ratio: 26,
            cold_data_flow_control_enable: false,
            data_read_ahead_enable: true,
            max_filter_message_size: 16_000,
            enable_lmq: false,
            enable_multi_dispatch: false,
            message_index_enable: true,
            max_hash_slot_num: 5_000_000,
            max_index_num: 20_000_000,
            max_msgs_num_batch: 64,
            message_delay_level: DELAY_LEVELS.into(),
            flush_delay_offset_interval: 10_000,
            timer_wheel_enable: true,
            timer_precision_ms: 1000,
            timer_max_delay_sec: 3 * 24 * 3600,
            timer_roll_window_slot: 2 * 24 * 3600,
            timer_flush_interval_ms: 1000,
            timer_congest_num_each_slot: i32::MAX,
            timer_stop_enqueue: false,
            timer_stop_dequeue: false,
            mapped_file_size_timer_log: 100 * 1024 * 1024,
        }
    }
}

impl StoreConfig {
    /// How many bytes and records one read may hand out, by whether they are in memory.
    pub fn transfer_limits(&self, in_memory: bool) -> (usize, usize) {
        if in_memory {
            (
                self.max_transfer_bytes_on_message_in_memory,
                self.max_transfer_count_on_message_in_memory,
            )
        } else {
            (
                self.max_transfer_bytes_on_message_in_disk,
                self.max_transfer_count_on_message_in_disk,
            )
        }
    }

    /// Where the commit log is.
    pub fn commit_log_dir(&self) -> PathBuf {
        self.store_path_commit_log
            .clone()
            .filter(|path| !path.as_os_str().is_empty())
            .unwrap_or_else(|| self.store_path_root_dir.join("commitlog"))
    }

    /// Where the consume queues are.
    pub fn consume_queue_dir(&self) -> PathBuf {
        self.store_path_root_dir.join("consumequeue")
    }

    /// Where the index files are.
    pub fn index_dir(&self) -> PathBuf {
        self.store_path_root_dir.join("index")
    }

    /// Size of a consume queue segment in whole entries.
    pub fn consume_queue_segment(&self) -> u64 {
        consume_queue::segment_size(self.mapped_file_size_consume_queue)
    }

    /// Shape of an index file.
    pub fn index_shape(&self) -> Shape {
        Shape {
            slots: self.max_hash_slot_num.max(1),
            items: self.max_index_num.clamp(2, i32::MAX as u32),
        }
    }

    /// Delay of each level in ms, the first one for level 1. Java's levels when the setting does not read as such.
    pub fn delay_levels(&self) -> Vec<i64> {
        delay_levels(&self.message_delay_level)
            .or_else(|| delay_levels(DELAY_LEVELS))
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_delay_levels_are_javas() {
        let levels = StoreConfig::default().delay_levels();
        assert_eq!(levels.len(), 18);
        assert_eq!((levels[0], levels[4], levels[17]), (1000, 60_000, 7_200_000));
        for (text, levels) in [
            ("2d  1s", Some(vec![172_800_000, 1000])),
            ("2d x 1s", None),
            ("", None),
            ("-1s", None),
            ("9999d", None),
        ] {
            assert_eq!(delay_levels(text), levels, "{text}");
        }
    }

    #[test]
    fn an_index_counts_with_signed_words() {
        let shape = |max_index_num| {
            let config = StoreConfig {
                max_index_num,
                ..StoreConfig::default()
            };
            config.index_shape().items
        };
        assert_eq!((shape(0), shape(u32::MAX)), (2, i32::MAX as u32));
    }

    #[test]
    fn keys_have_javas_spelling() {
        let fields = crate::fields::Fields::from_value(&StoreConfig::default()).unwrap();
        for (key, value) in [
            ("checkCRCOnRecover", "true"),
            ("osPageCacheBusyTimeOutMills", "1000"),
            ("flushDiskType", "ASYNC_FLUSH"),
            ("mappedFileSizeCommitLog", "1073741824"),
            ("maxTransferCountOnMessageInMemory", "32"),
            ("deleteWhen", "04"),
        ] {
            assert_eq!(fields.get(key), Some(value), "{key}");
        }
    }
}
