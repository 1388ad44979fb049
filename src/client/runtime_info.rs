//! A broker's runtime texts (request 28) as numbers.
//!
//! Java writes about sixty texts, some of them several numbers in one. A text that is missing or does not parse is
//! `None`; all texts stay available in `entries`.

use std::collections::BTreeMap;

use super::skew::Skew;

/// Averages over 10 s, 1 min and 10 min. A young broker has not all of them yet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rates {
    /// Over the last 10 s.
    pub s10: Option<f64>,
    /// Over the last minute.
    pub m1: Option<f64>,
    /// Over the last 10 minutes.
    pub m10: Option<f64>,
}

impl Rates {
    fn parse(text: &str) -> Self {
        let mut numbers = text.split_whitespace().map(|n| n.parse().ok());
        let mut next = || numbers.next().flatten().filter(|n: &f64| n.is_finite());
        Self {
            s10: next(),
            m1: next(),
            m10: next(),
        }
    }
}

/// A thread pool's queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolQueue {
    /// Requests waiting.
    pub size: Option<i64>,
    /// Most that may wait.
    pub capacity: Option<i64>,
    /// How long the first one has waited, ms.
    pub head_wait_ms: Option<i64>,
}

/// One bucket of the put latency histogram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyBucket {
    /// Range as the broker names it, such as `0~10ms`.
    pub range: String,
    /// Puts in it since boot.
    pub count: i64,
}

/// Position of one delay level: what was delivered and what is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayLevel {
    /// Level number, from 1.
    pub level: i32,
    /// Next message to deliver.
    pub delivered: i64,
    /// End of the level's queue.
    pub max: i64,
}

/// Runtime numbers of a broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RuntimeInfo {
    /// Version name, `V5_3_3`.
    pub version: Option<String>,
    /// False on a slave and while the special services rest.
    pub active: Option<bool>,
    /// Start of the store, epoch ms.
    pub boot_ms: Option<i64>,
    /// Messages stored, per second.
    pub put_tps: Rates,
    /// Messages handed to consumers, per second.
    pub transferred_tps: Rates,
    /// Reads that found messages, per second.
    pub found_tps: Rates,
    /// Reads that found none, per second.
    pub miss_tps: Rates,
    /// Messages stored since midnight.
    pub put_today: Option<i64>,
    /// Messages stored yesterday.
    pub put_yesterday: Option<i64>,
    /// Messages consumed since midnight.
    pub get_today: Option<i64>,
    /// Messages consumed yesterday.
    pub get_yesterday: Option<i64>,
    /// Messages stored since boot.
    pub put_total: Option<i64>,
    /// Average size of a stored message, bytes.
    pub put_average_bytes: Option<f64>,
    /// 99th percentile of a put, ms.
    pub put_p99_ms: Option<f64>,
    /// 99.9th percentile of a put, ms.
    pub put_p999_ms: Option<f64>,
    /// Slowest put since boot, ms.
    pub put_max_ms: Option<i64>,
    /// Histogram of puts since boot.
    pub put_latency: Vec<LatencyBucket>,
    /// Used part of the commit log's disk, 0 to 1.
    pub commit_log_disk_ratio: Option<f64>,
    /// Used part of the consume queues' disk, 0 to 1.
    pub consume_queue_disk_ratio: Option<f64>,
    /// First byte of the commit log.
    pub commit_log_min: Option<i64>,
    /// End of the commit log.
    pub commit_log_max: Option<i64>,
    /// Store time of the oldest message, epoch ms.
    pub earliest_message_ms: Option<i64>,
    /// Bytes stored and not yet in a consume queue.
    pub dispatch_behind_bytes: Option<i64>,
    /// Bytes stored and not yet flushed (Java rounds them to a unit).
    pub flush_behind_bytes: Option<i64>,
    /// How long the append lock has been held, ms.
    pub page_cache_lock_ms: Option<i64>,
    /// Send requests waiting.
    pub send_pool: PoolQueue,
    /// Pull requests waiting.
    pub pull_pool: PoolQueue,
    /// Query requests waiting.
    pub query_pool: PoolQueue,
    /// End-transaction requests waiting.
    pub end_transaction_pool: PoolQueue,
    /// Delay levels in use.
    pub delay_levels: Vec<DelayLevel>,
    /// Seconds that the timer wheel's delivery is behind.
    pub timer_behind_s: Option<i64>,
    /// Its clock against ours, where the times of the call are known.
    pub clock: Option<Skew>,
    /// Every text the broker answered.
    pub entries: BTreeMap<String, String>,
}

impl RuntimeInfo {
    /// Reads the texts of an answer that came between two times of our clock.
    pub fn between(entries: BTreeMap<String, String>, times: (i64, i64)) -> Self {
        let info = Self::parse(entries);
        let runtime = info.entries.get("runtime").map(String::as_str);
        Self {
            clock: Skew::told(info.boot_ms, runtime, times),
            ..info
        }
    }

    /// Reads the texts.
    pub fn parse(entries: BTreeMap<String, String>) -> Self {
        let text = |key: &str| entries.get(key).map(|v| v.trim());
        let int = |key: &str| text(key).and_then(|v| v.parse::<i64>().ok());
        let float = |key: &str| {
            text(key)
                .and_then(|v| v.parse::<f64>().ok())
                .filter(|v| v.is_finite())
        };
        let time = |key: &str| int(key).filter(|&ms| ms > 0);
        // Java answers -1 where the directory is missing.
        let ratio = |key: &str| float(key).filter(|v| *v >= 0.0);
        let rates = |key: &str| text(key).map(Rates::parse).unwrap_or_default();
        let pool = |prefix: &str| PoolQueue {
            size: int(&format!("{prefix}ThreadPoolQueueSize")),
            capacity: int(&format!("{prefix}ThreadPoolQueueCapacity")),
            head_wait_ms: int(&format!("{prefix}ThreadPoolQueueHeadWaitTimeMills")),
        };
        let difference = |a: &str, b: &str| Some(int(a)?.saturating_sub(int(b)?));
        Self {
            version: text("brokerVersionDesc").map(str::to_owned),
            active: text("brokerActive").map(|v| v == "true"),
            boot_ms: time("bootTimestamp"),
            put_tps: rates("putTps"),
            transferred_tps: rates("getTransferredTps"),
            found_tps: rates("getFoundTps"),
            miss_tps: rates("getMissTps"),
            put_today: difference("msgPutTotalTodayNow", "msgPutTotalTodayMorning"),
            put_yesterday: difference("msgPutTotalTodayMorning", "msgPutTotalYesterdayMorning"),
            get_today: difference("msgGetTotalTodayNow", "msgGetTotalTodayMorning"),
            get_yesterday: difference("msgGetTotalTodayMorning", "msgGetTotalYesterdayMorning"),
            put_total: int("putMessageTimesTotal"),
            put_average_bytes: float("putMessageAverageSize"),
            put_p99_ms: float("putLatency99"),
            put_p999_ms: float("putLatency999"),
            put_max_ms: int("putMessageEntireTimeMax"),
            put_latency: text("putMessageDistributeTime")
                .map(histogram)
                .unwrap_or_default(),
            commit_log_disk_ratio: ratio("commitLogDiskRatio"),
            consume_queue_disk_ratio: ratio("consumeQueueDiskRatio"),
            commit_log_min: int("commitLogMinOffset"),
            commit_log_max: int("commitLogMaxOffset"),
            earliest_message_ms: time("earliestMessageTimeStamp"),
            dispatch_behind_bytes: int("dispatchBehindBytes"),
            flush_behind_bytes: text("remainHowManyDataToFlush").and_then(bytes),
            page_cache_lock_ms: int("pageCacheLockTimeMills"),
            send_pool: pool("send"),
            pull_pool: pool("pull"),
            query_pool: pool("query"),
            end_transaction_pool: PoolQueue {
                size: int("EndTransactionQueueSize"),
                ..pool("EndTransaction")
            },
            delay_levels: delay_levels(&entries),
            timer_behind_s: int("timerReadBehind"),
            clock: None,
            entries,
        }
    }
}

/// `[<=0ms]:6 [0~10ms]:10 …`
fn histogram(text: &str) -> Vec<LatencyBucket> {
    text.split_whitespace()
        .filter_map(|part| {
            let (range, count) = part.strip_prefix('[')?.split_once("]:")?;
            Some(LatencyBucket {
                range: range.to_owned(),
                count: count.parse().ok()?,
            })
        })
        .collect()
}

/// `0 B`, `1.5 KiB`: Java's readable byte count with binary units.
fn bytes(text: &str) -> Option<i64> {
    let (number, unit) = text.split_once(' ').unwrap_or((text, "B"));
    let number: f64 = number.parse().ok()?;
    let power = match unit.trim() {
        "B" => 0,
        "KiB" => 1,
        "MiB" => 2,
        "GiB" => 3,
        "TiB" => 4,
        "PiB" => 5,
        _ => return None,
    };
    Some((number * 1024f64.powi(power)) as i64)
}

/// `scheduleMessageOffset_1` = `delivered,max`.
fn delay_levels(entries: &BTreeMap<String, String>) -> Vec<DelayLevel> {
    let mut levels: Vec<DelayLevel> = entries
        .iter()
        .filter_map(|(key, value)| {
            let (delivered, max) = value.split_once(',')?;
            Some(DelayLevel {
                level: key.strip_prefix("scheduleMessageOffset_")?.parse().ok()?,
                delivered: delivered.trim().parse().ok()?,
                max: max.trim().parse().ok()?,
            })
        })
        .collect();
    levels.sort_by_key(|l| l.level);
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts of a Java 5.3.3 broker five minutes after its start.
    fn java() -> RuntimeInfo {
        let texts = [
            ("brokerVersionDesc", "V5_3_3"),
            ("bootTimestamp", "1795973386176"),
            ("putTps", "0.0 0.5 "),
            ("getTotalTps", "34.499950144580716 40.4430663107102 0.0"),
            ("getMissTps", "34.5 40.25 "),
            ("msgPutTotalTodayNow", "240"),
            ("msgPutTotalTodayMorning", "40"),
            ("putLatency99", "0.00"),
            ("commitLogDiskRatio", "0.17"),
            ("consumeQueueDiskRatio", "-1.0"),
            ("remainHowManyDataToFlush", "1.5 KiB"),
            ("earliestMessageTimeStamp", "-1"),
            ("scheduleMessageOffset_10", "3,7"),
            ("scheduleMessageOffset_2", "120,120"),
            ("sendThreadPoolQueueSize", "3"),
            ("sendThreadPoolQueueCapacity", "10000"),
            ("EndTransactionQueueSize", "0"),
            ("EndTransactionThreadPoolQueueCapacity", "100000"),
            ("putMessageDistributeTime", "[<=0ms]:6 [0~10ms]:10 [10s~]:0 "),
        ];
        RuntimeInfo::parse(texts.map(|(k, v)| (k.to_owned(), v.to_owned())).into())
    }

    #[test]
    fn a_young_broker_has_two_of_three_rates() {
        let info = java();
        assert_eq!(
            info.put_tps,
            Rates {
                s10: Some(0.0),
                m1: Some(0.5),
                m10: None
            }
        );
        assert_eq!(info.transferred_tps, Rates::default());
    }

    #[test]
    fn unknown_numbers_stay_unknown() {
        let info = java();
        assert_eq!(info.earliest_message_ms, None);
        assert_eq!(info.consume_queue_disk_ratio, None);
        assert_eq!(info.get_today, None);
        assert_eq!(info.put_today, Some(200));
    }

    #[test]
    fn composed_texts_are_taken_apart() {
        let info = java();
        assert_eq!(info.flush_behind_bytes, Some(1536));
        let levels: Vec<_> = info
            .delay_levels
            .iter()
            .map(|l| (l.level, l.delivered, l.max))
            .collect();
        assert_eq!(levels, [(2, 120, 120), (10, 3, 7)]);
        assert_eq!(info.put_latency.len(), 3);
        assert_eq!(
            (info.put_latency[1].range.as_str(), info.put_latency[1].count),
            ("0~10ms", 10)
        );
        assert_eq!(
            info.send_pool,
            PoolQueue {
                size: Some(3),
                capacity: Some(10000),
                head_wait_ms: None
            }
        );
        assert_eq!(info.end_transaction_pool.capacity, Some(100_000));
    }
}
