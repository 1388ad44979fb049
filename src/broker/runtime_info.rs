//! The runtime info (28): every key of a Java broker, with what was measured here. What this broker does not have
//! (thread pool queues) is 0, which is true.

use std::sync::Arc;

use super::topics::{SCHEDULE_TOPIC, TIMER_TOPIC};
use super::{Broker, now_ms};
use crate::protocol::body::RuntimeInfo;
use crate::protocol::model::{VERSION, VERSION_NAME};
use crate::protocol::requests::GetBrokerRuntimeInfo;
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// Keys of figures that a broker without request queues and transient pool has as 0.
const ALWAYS_ZERO: &[&str] = &[
    "dispatchMaxBuffer",
    "sendThreadPoolQueueSize",
    "sendThreadPoolQueueCapacity",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueSize",
    "pullThreadPoolQueueCapacity",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "litePullThreadPoolQueueSize",
    "litePullThreadPoolQueueCapacity",
    "litePullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueSize",
    "queryThreadPoolQueueCapacity",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "ackThreadPoolQueueSize",
    "ackThreadPoolQueueCapacity",
    "ackThreadPoolQueueHeadWaitTimeMills",
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
];

/// The timer's figures when there is none.
const NO_TIMER: &[(&str, &str)] = &[
    ("timerReadBehind", "0"),
    ("timerOffsetBehind", "0"),
    ("timerCongestNum", "0"),
    ("timerEnqueueTps", "0.0"),
    ("timerDequeueTps", "0.0"),
];

/// 28
pub async fn get(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetBrokerRuntimeInfo,
    (): (),
) -> Handled<GetBrokerRuntimeInfo> {
    // The disk is asked for its free space, which may block.
    let owner = broker.clone();
    let entries = tokio::task::spawn_blocking(move || owner.runtime_info())
        .await
        .map_err(|e| {
            Refusal::new(
                codes::SYSTEM_ERROR,
                format!("gathering the figures was aborted: {e}"),
            )
        })?;
    let mut body = RuntimeInfo::default();
    body.table.extend(entries);
    Ok(Answer::ok((), Json::new(body)))
}

impl Broker {
    fn runtime_info(&self) -> Vec<(String, String)> {
        let figures = self.store.figures();
        let mut out = Vec::with_capacity(80);
        self.stats.runtime_info(&mut out);
        let mut put = |name: &str, value: String| out.push((name.to_owned(), value));
        put("bootTimestamp", self.boot_ms.to_string());
        put("runtime", uptime((now_ms() - self.boot_ms).max(0) / 1000));
        put("brokerActive", (!self.stopping.is_cancelled()).to_string());
        put("brokerVersion", VERSION.to_string());
        put("brokerVersionDesc", VERSION_NAME.to_owned());
        put("rmqVersion", env!("CARGO_PKG_VERSION").to_owned());
        put("rmqTopics", self.topics.len().to_string());
        let connections: usize = self.listeners().iter().map(|l| l.connections()).sum();
        put("rmqConnections", connections.to_string());
        put("dispatchBehindBytes", figures.dispatch_behind_bytes.to_string());
        put("pageCacheLockTimeMills", figures.append_lock_held_ms.to_string());
        put("commitLogMinOffset", figures.min_offset.to_string());
        put("commitLogMaxOffset", figures.max_offset.to_string());
        let ratio = format!("{:?}", figures.commit_log_disk_ratio);
        let store = self.store.config();
        let log = store
            .store_path_commit_log
            .clone()
            .unwrap_or_else(|| store.store_path_root_dir.join("commitlog"));
        put(&format!("commitLogDiskRatio_{}", log.display()), ratio.clone());
        put("commitLogDiskRatio", ratio);
        put(
            "consumeQueueDiskRatio",
            format!("{:?}", figures.consume_queue_disk_ratio),
        );
        let (total, free) = figures.capacity;
        put(
            "commitLogDirCapacity",
            format!("Total : {}, Free : {}.", human_bytes(total), human_bytes(free)),
        );
        put(
            "earliestMessageTimeStamp",
            figures.earliest_message_timestamp.to_string(),
        );
        put(
            "remainHowManyDataToFlush",
            human_bytes(figures.unflushed_bytes.max(0) as u64),
        );
        // Java's value for a store without a transient pool.
        put("remainTransientStoreBufferNumbs", i32::MAX.to_string());
        put(
            "startAcceptSendRequestTimeStamp",
            self.config().start_accept_send_request_time_stamp.to_string(),
        );
        let lost = self.lost_unread.load(std::sync::atomic::Ordering::Relaxed);
        put("rmqLostUnread", lost.to_string());
        put("rmqPopGivenUp", self.pop.given_up().to_string());
        put("rmqIndexOff", figures.index_off.to_string());
        if let Some(reason) = figures.not_writable {
            put("rmqNotWritable", reason);
        }
        for name in ALWAYS_ZERO {
            put(name, "0".into());
        }
        for (level, offset) in self.delays.progress() {
            let max = self.store.max_offset(SCHEDULE_TOPIC, level - 1);
            put(
                &format!("scheduleMessageOffset_{level}"),
                format!("{offset},{max}"),
            );
        }
        match &self.timer {
            Some(timer) => timer.runtime_info(self.store.max_offset(TIMER_TOPIC, 0), put),
            None => {
                for (name, value) in NO_TIMER {
                    put(name, (*value).to_owned());
                }
            }
        }
        out
    }
}

/// Java's `[ 0 days, 0 hours, 3 minutes, 50 seconds ]`.
fn uptime(seconds: i64) -> String {
    format!(
        "[ {} days, {} hours, {} minutes, {} seconds ]",
        seconds / 86_400,
        seconds / 3600 % 24,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Java's `236.5 GiB`.
fn human_bytes(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10) as usize;
    let unit = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power.min(6)];
    format!("{:.1} {unit}B", bytes as f64 / (1u64 << (10 * power)) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_written_as_java_does() {
        assert_eq!(uptime(230), "[ 0 days, 0 hours, 3 minutes, 50 seconds ]");
        assert_eq!(uptime(90_061), "[ 1 days, 1 hours, 1 minutes, 1 seconds ]");
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1024), "1.0 KiB");
        assert_eq!(human_bytes(252 << 30), "252.0 GiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
    }
}
