//! Settings of the broker role, by Java's key names (`BrokerConfig`), and where they came from.
//!
//! Only keys with an effect are here. Others are kept as they came, reported once and echoed by a config query.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config_file::{self, Allowed, ConfigFile, Limits};
use crate::fields::Fields;
use crate::store::StoreConfig;
use crate::store::config::delay_levels;

/// Settings of a broker. Times in ms unless a key says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BrokerConfig {
    /// Cluster the broker belongs to.
    pub broker_cluster_name: String,
    /// Name that a master and its replicas share; the host name when empty.
    pub broker_name: String,
    /// 0 is the master; replicas are not supported yet.
    pub broker_id: i64,
    /// Address clients are told to use; the first non-loopback address when empty.
    #[serde(rename = "brokerIP1")]
    pub broker_ip1: String,
    /// Address replicas are told to use; as brokerIP1 when empty.
    #[serde(rename = "brokerIP2")]
    pub broker_ip2: String,
    /// Main port; the fast port is two below it. 0 picks free ports (for tests).
    pub listen_port: u16,
    /// Address both ports are bound to.
    pub bind_address: String,
    /// Name servers, `host:port` separated by `;`.
    pub namesrv_addr: String,
    /// Period of the registration at the name servers, kept within 10..60 s.
    pub register_name_server_period: u64,
    /// What the broker allows: 2 write, 4 read, 6 both. ANDed into every topic at registration.
    pub broker_permission: i32,
    /// Unknown topics are made from the template a producer names, normally TBW102.
    pub auto_create_topic_enable: bool,
    /// Unknown consumer groups are made at their first pull or heartbeat.
    pub auto_create_subscription_group: bool,
    /// Queues of the template topic TBW102.
    pub default_topic_queue_nums: i32,
    /// The topic named like the cluster may be used.
    pub cluster_topic_enable: bool,
    /// The topic named like the broker may be used.
    pub broker_topic_enable: bool,
    /// The trace topic is made at boot.
    pub trace_topic_enable: bool,
    /// Name of the trace topic.
    pub msg_trace_topic_name: String,
    /// Pulls without a message are held for as long as the client asks.
    pub long_polling_enable: bool,
    /// How long they are held otherwise.
    pub short_polling_time_mills: u64,
    /// Pulls of the lite pull consumer (361) are served.
    pub lite_pull_message_enable: bool,
    /// Pull consumers that do not heartbeat are refused.
    pub reject_pull_consumer_enable: bool,
    /// Period of writing consumerOffset.json.
    pub flush_consumer_offset_interval: u64,
    /// The version of the offset table moves once in so many commits.
    pub consumer_offset_update_version_step: i64,
    /// The version of the delay progress moves once in so many steps.
    pub delay_offset_update_version_step: i64,
    /// Messages that wait for their time may be taken back by their handle (370).
    pub recall_message_enable: bool,
    /// They may be taken back while the broker takes no sends.
    pub allow_recall_when_broker_not_writeable: bool,
    /// Members of a group are told when one joins or leaves.
    pub notify_consumer_ids_changed_enable: bool,
    /// A client without a heartbeat for this long is dropped.
    pub channel_expired_timeout: u64,
    /// A subscription known from pulls alone is forgotten after this long.
    pub subscription_expired_timeout: u64,
    /// A reset of offsets (222) is kept in the broker until the next pull has taken it; otherwise the online clients
    /// of the group are pushed to their new places.
    pub use_server_side_reset_offset: bool,
    /// Consumers may select messages by SQL92 over their properties.
    pub enable_property_filter: bool,
    /// How long consumerFilter.json keeps the SQL subscription of a group that has gone.
    pub filter_data_clean_time_span: u64,
    /// Topics may be made with `message.type` MIXED.
    pub enable_mixed_message_type: bool,
    /// System topics cannot be changed or deleted by an admin request.
    pub validate_system_topic_when_update_topic: bool,
    /// Sends are refused before this time, epoch ms.
    pub start_accept_send_request_time_stamp: i64,
    /// Half messages of transactions are refused.
    pub reject_transaction_message: bool,
    /// A half message without a time of its own is left alone for this long before its producer is asked.
    pub transaction_time_out: u64,
    /// Time from one question about a half message to the next.
    pub transaction_check_interval: u64,
    /// So often a producer is asked; then the message goes to TRANS_CHECK_MAX_TIME_TOPIC.
    pub transaction_check_max: u32,
    /// Ends of transactions are marked at once when so many bytes of marks wait.
    pub transaction_op_msg_max_size: usize,
    /// Otherwise they are marked after this time.
    pub transaction_op_batch_interval: u64,
    /// Replies are stored as well, in `<cluster>_REPLY_TOPIC`.
    pub store_reply_message_enable: bool,
    /// Region told to clients and stored with every message.
    pub region_id: String,
    /// Clients are told to send traces.
    pub trace_on: bool,
    /// Keys that no request may change, separated by `;`.
    pub config_black_list: String,
    /// Revive queues, over which the checkpoints of pops are spread. Read when the revive topic is first made.
    pub revive_queue_num: i32,
    /// Most pops of one group and queue that wait for messages; further ones are answered 209 at once.
    pub pop_polling_size: usize,
    /// Most pops that wait in all.
    pub max_pop_polling_size: usize,
    /// How many pops of a hundred look into the retry topic first.
    pub pop_from_retry_probability: u32,
    /// Pops answer retried messages under the name of their retry topic, not of their own topic.
    pub pop_response_return_actual_retry_topic: bool,
    /// Pop retry topics are named `%RETRY%group+topic`, not `%RETRY%group_topic`.
    pub enable_retry_topic_v2: bool,
    /// With the new names, messages under the old ones are popped too.
    pub retrieve_message_from_pop_retry_topic_v1: bool,
    /// A new group that pops from the end begins at the first message of a young, hot queue.
    pub init_pop_offset_by_check_msg_in_mem: bool,
    /// A queue of which a group holds too many messages gives it no more.
    pub enable_pop_message_threshold: bool,
    /// How many are too many.
    pub pop_inflight_message_threshold: i64,
    /// A message that cannot be read is given up after 17 tries to hand it out again.
    #[serde(rename = "skipWhenCKRePutReachMaxTimes")]
    pub skip_when_ck_re_put_reach_max_times: bool,
    /// Pop retry topics go when their topic is deleted.
    pub clear_retry_topic_when_delete_topic: bool,
    /// The broker shares queues among clients that ask for it; off, each gets all.
    pub server_load_balancer_enable: bool,
    /// How groups consume topics that nobody set a mode for: PULL or POP.
    pub default_message_request_mode: String,
    /// How many neighbours share a pop client's queues then; all when it is 0 or less.
    pub default_pop_share_queue_num: i32,
    /// Bytes of cold data that a group may read in five seconds before it is slowed down, where nothing else was set
    /// for it (2001).
    pub cg_cold_read_threshold: i64,
    /// Bytes of cold data that all groups together may read in five seconds.
    pub global_cold_read_threshold: i64,
    /// Sends to a topic or broker without write permission are answered 16, so that clients turn to another broker
    /// at once; false is Java's way, which checks the broker's permission for order topics alone.
    pub rmq_check_write_perm: bool,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            broker_cluster_name: "DefaultCluster".into(),
            broker_name: String::new(),
            broker_id: 0,
            broker_ip1: String::new(),
            broker_ip2: String::new(),
            listen_port: 10911,
            bind_address: "0.0.0.0".into(),
            namesrv_addr: String::new(),
            register_name_server_period: 30_000,
            broker_permission: 6,
            auto_create_topic_enable: true,
            auto_create_subscription_group: true,
            default_topic_queue_nums: 8,
            cluster_topic_enable: true,
            broker_topic_enable: true,
            trace_topic_enable: false,
            msg_trace_topic_name: "RMQ_SYS_TRACE_TOPIC".into(),
            long_polling_enable: true,
            short_polling_time_mills: 1000,
            lite_pull_message_enable: true,
            reject_pull_consumer_enable: false,
            flush_consumer_offset_interval: 5000,
            consumer_offset_update_version_step: 500,
            delay_offset_update_version_step: 200,
            recall_message_enable: false,
            allow_recall_when_broker_not_writeable: true,
            notify_consumer_ids_changed_enable: true,
            channel_expired_timeout: 120_000,
            subscription_expired_timeout: 600_000,
            use_server_side_reset_offset: true,
            enable_property_filter: false,
            filter_data_clean_time_span: 86_400_000,
            enable_mixed_message_type: false,
            validate_system_topic_when_update_topic: true,
            start_accept_send_request_time_stamp: 0,
            reject_transaction_message: false,
            transaction_time_out: 6000,
            transaction_check_interval: 30_000,
            transaction_check_max: 15,
            transaction_op_msg_max_size: 4096,
            transaction_op_batch_interval: 3000,
            store_reply_message_enable: true,
            region_id: "DefaultRegion".into(),
            trace_on: true,
            config_black_list: "configBlackList;brokerConfigPath".into(),
            revive_queue_num: 8,
            pop_polling_size: 1024,
            max_pop_polling_size: 100_000,
            pop_from_retry_probability: 20,
            pop_response_return_actual_retry_topic: false,
            enable_retry_topic_v2: false,
            retrieve_message_from_pop_retry_topic_v1: true,
            init_pop_offset_by_check_msg_in_mem: true,
            enable_pop_message_threshold: false,
            pop_inflight_message_threshold: 10_000,
            skip_when_ck_re_put_reach_max_times: false,
            clear_retry_topic_when_delete_topic: true,
            server_load_balancer_enable: true,
            default_message_request_mode: "PULL".into(),
            default_pop_share_queue_num: -1,
            cg_cold_read_threshold: 3 * 1024 * 1024,
            global_cold_read_threshold: 100 * 1024 * 1024,
            rmq_check_write_perm: true,
        }
    }
}

impl BrokerConfig {
    /// `transactionTimeOut`
    pub(super) fn transaction_timeout(&self) -> Duration {
        Duration::from_millis(self.transaction_time_out)
    }

    /// `transactionCheckInterval`
    pub(super) fn transaction_check_interval(&self) -> Duration {
        Duration::from_millis(self.transaction_check_interval)
    }
}

/// Keys of the broker whose type alone does not say what they may be.
pub const LIMITS: Limits = &[
    ("brokerId", Allowed::Range(0, 0)),
    ("listenPort", Allowed::Range(0, 65_534)),
    ("registerNameServerPeriod", Allowed::Range(1, i64::MAX)),
    ("brokerPermission", Allowed::Perm),
    ("defaultTopicQueueNums", Allowed::Range(1, MAX_QUEUES as i64)),
    ("shortPollingTimeMills", Allowed::Range(1, 3_600_000)),
    ("flushConsumerOffsetInterval", Allowed::Range(100, 3_600_000)),
    ("consumerOffsetUpdateVersionStep", Allowed::Range(1, i64::MAX)),
    ("delayOffsetUpdateVersionStep", Allowed::Range(1, i64::MAX)),
    ("channelExpiredTimeout", Allowed::Range(1000, i64::MAX)),
    ("subscriptionExpiredTimeout", Allowed::Range(1000, i64::MAX)),
    ("transactionTimeOut", Allowed::Range(0, 31_536_000_000)),
    ("transactionCheckInterval", Allowed::Range(100, 31_536_000_000)),
    ("transactionCheckMax", Allowed::Range(1, i32::MAX as i64)),
    ("transactionOpMsgMaxSize", Allowed::Range(1, 1_000_000)),
    ("transactionOpBatchInterval", Allowed::Range(0, 3_600_000)),
    ("reviveQueueNum", Allowed::Range(1, 64)),
    ("popPollingSize", Allowed::Range(0, 1_000_000)),
    ("maxPopPollingSize", Allowed::Range(0, 10_000_000)),
    ("popFromRetryProbability", Allowed::Range(0, 100)),
    ("popInflightMessageThreshold", Allowed::Range(0, i64::MAX)),
    ("defaultMessageRequestMode", Allowed::OneOf(&["PULL", "POP"])),
    ("cgColdReadThreshold", Allowed::Range(0, i64::MAX)),
    ("globalColdReadThreshold", Allowed::Range(0, i64::MAX)),
];

/// The same for keys of the store.
pub const STORE_LIMITS: Limits = &[
    ("flushDiskType", Allowed::OneOf(&["ASYNC_FLUSH", "SYNC_FLUSH"])),
    // A message travels in a frame of at most 16 MiB, header and properties included.
    ("maxMessageSize", Allowed::Range(1, 16_646_144)),
    ("mappedFileSizeCommitLog", Allowed::Range(4096, 1 << 40)),
    ("mappedFileSizeConsumeQueue", Allowed::Range(20, 1 << 30)),
    ("maxHashSlotNum", Allowed::Range(1, 100_000_000)),
    ("maxIndexNum", Allowed::Range(2, 100_000_000)),
    ("maxMsgsNumBatch", Allowed::Range(1, 10_000)),
    ("syncFlushTimeout", Allowed::Range(1, 3_600_000)),
    ("flushIntervalCommitLog", Allowed::Range(1, 3_600_000)),
    ("flushIntervalConsumeQueue", Allowed::Range(1, 3_600_000)),
    ("cleanResourceInterval", Allowed::Range(1, 3_600_000)),
    ("osPageCacheBusyTimeOutMills", Allowed::Range(1, 3_600_000)),
    ("fileReservedTime", Allowed::Range(1, 1_000_000)),
    ("diskMaxUsedSpaceRatio", Allowed::Range(10, 95)),
    ("diskSpaceCleanForciblyRatio", Allowed::Range(30, 85)),
    ("diskSpaceWarningLevelRatio", Allowed::Range(35, 90)),
    (
        "messageDelayLevel",
        Allowed::Checked(
            |text| delay_levels(text).is_some(),
            "1 to 1024 times of at most a year like `1s 5s 1m 2h 1d`",
        ),
    ),
    ("flushDelayOffsetInterval", Allowed::Range(100, 3_600_000)),
    ("timerPrecisionMs", Allowed::Range(1, 60_000)),
    ("timerMaxDelaySec", Allowed::Range(1, 100 * 366 * 86_400)),
    ("timerFlushIntervalMs", Allowed::Range(1, 3_600_000)),
    ("timerCongestNumEachSlot", Allowed::Range(1, i32::MAX as i64)),
    ("mappedFileSizeTimerLog", Allowed::Range(1024, 1 << 30)),
    ("accessMessageInMemoryMaxRatio", Allowed::Range(1, 100)),
    ("accessMessageInMemoryHotRatio", Allowed::Range(0, 100)),
    ("maxTransferCountOnMessageInMemory", Allowed::Range(1, 100_000)),
    ("maxTransferBytesOnMessageInMemory", Allowed::Range(1, 16_000_000)),
    ("maxTransferCountOnMessageInDisk", Allowed::Range(1, 100_000)),
    ("maxTransferBytesOnMessageInDisk", Allowed::Range(1, 16_000_000)),
];

/// Most queues a topic may have on one broker.
pub const MAX_QUEUES: i32 = 16_384;

/// Keys that take effect at once when a request changes them; all others wait for the next start.
const LIVE: &[&str] = &[
    "namesrvAddr",
    "registerNameServerPeriod",
    "brokerPermission",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "longPollingEnable",
    "shortPollingTimeMills",
    "litePullMessageEnable",
    "rejectPullConsumerEnable",
    "flushConsumerOffsetInterval",
    "consumerOffsetUpdateVersionStep",
    "delayOffsetUpdateVersionStep",
    "recallMessageEnable",
    "allowRecallWhenBrokerNotWriteable",
    "notifyConsumerIdsChangedEnable",
    "channelExpiredTimeout",
    "subscriptionExpiredTimeout",
    "useServerSideResetOffset",
    "enablePropertyFilter",
    "filterDataCleanTimeSpan",
    "enableMixedMessageType",
    "validateSystemTopicWhenUpdateTopic",
    "startAcceptSendRequestTimeStamp",
    "rejectTransactionMessage",
    "transactionTimeOut",
    "transactionCheckInterval",
    "transactionCheckMax",
    "transactionOpMsgMaxSize",
    "transactionOpBatchInterval",
    "storeReplyMessageEnable",
    "regionId",
    "traceOn",
    "popPollingSize",
    "maxPopPollingSize",
    "popFromRetryProbability",
    "popResponseReturnActualRetryTopic",
    "enableRetryTopicV2",
    "retrieveMessageFromPopRetryTopicV1",
    "initPopOffsetByCheckMsgInMem",
    "enablePopMessageThreshold",
    "popInflightMessageThreshold",
    "skipWhenCKRePutReachMaxTimes",
    "clearRetryTopicWhenDeleteTopic",
    "serverLoadBalancerEnable",
    "defaultMessageRequestMode",
    "defaultPopShareQueueNum",
    "cgColdReadThreshold",
    "globalColdReadThreshold",
    "rmqCheckWritePerm",
];

/// Keys of the store that are read at its start.
const STORE_AT_START: &[&str] = &[
    "storePathRootDir",
    "storePathCommitLog",
    "mappedFileSizeCommitLog",
    "mappedFileSizeConsumeQueue",
    "maxHashSlotNum",
    "maxIndexNum",
    "enableMultiDispatch",
    "timerWheelEnable",
    "timerPrecisionMs",
    "timerRollWindowSlot",
    "mappedFileSizeTimerLog",
];

/// Every key whose change waits for the next start.
pub(super) fn read_at_start() -> impl Iterator<Item = &'static str> {
    let roles = config_file::keys::<BrokerConfig>().iter().copied();
    roles
        .filter(|key| !LIVE.contains(key))
        .chain(STORE_AT_START.iter().copied())
}

/// Keys of the broker or the store that name where things are or who the broker is: no request may change them.
const GUARDED: &[&str] = &[
    "configBlackList",
    "brokerConfigPath",
    "rocketmqHome",
    "storePathRootDir",
    "storePathCommitLog",
    "storePathConsumeQueue",
    "storePathIndex",
    "storeCheckpoint",
    "abortFile",
    "readOnlyCommitLogStorePaths",
];

/// Everything a broker is started with.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Settings of the role.
    pub broker: BrokerConfig,
    /// Settings of its store.
    pub store: StoreConfig,
    /// The file they came from, which changes are written back to.
    pub file: Option<PathBuf>,
    /// What that file says, without overrides.
    pub file_entries: Fields,
    /// Every key that the file or an override named.
    pub named: BTreeSet<String>,
    /// Keys that neither role nor store knows, as they came.
    pub unknown: BTreeMap<String, String>,
}

/// Key lists of role and store.
fn known_keys() -> [&'static [&'static str]; 2] {
    [
        config_file::keys::<BrokerConfig>(),
        config_file::keys::<StoreConfig>(),
    ]
}

impl Settings {
    /// Reads both roles' keys out of a file and its overrides.
    pub fn read(file: &ConfigFile) -> Result<Self, config_file::Error> {
        Self::default().over(file)
    }

    /// These settings where the file is silent, the file's elsewhere.
    pub fn over(&self, file: &ConfigFile) -> Result<Self, config_file::Error> {
        let mut broker = file.merge(&self.broker, LIMITS)?;
        if broker.namesrv_addr.is_empty() {
            broker.namesrv_addr = std::env::var("NAMESRV_ADDR").unwrap_or_default();
        }
        let mut unknown = self.unknown.clone();
        unknown.extend(file.unknown(&known_keys()));
        Ok(Self {
            broker,
            store: file.merge(&self.store, STORE_LIMITS)?,
            file: file.path().map(Path::to_owned),
            file_entries: file.file_entries().clone(),
            named: file.entries().iter().map(|(key, _)| key.to_owned()).collect(),
            unknown,
        })
    }

    /// These settings with what earlier config updates left in `kept`, a file beside the store that is used when no
    /// other was given. What was named at the start wins, and so does everything that needs a named file.
    pub(super) fn with_kept(mut self, kept: &ConfigFile) -> Result<Self, config_file::Error> {
        let roles = config_file::keys::<BrokerConfig>();
        let usable: Fields = kept
            .entries()
            .iter()
            .filter(|(key, _)| !self.named.contains(*key))
            .filter(|(key, _)| LIVE.contains(key) || (!roles.contains(key) && !GUARDED.contains(key)))
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        self.broker = config_file::merge(&self.broker, &usable, LIMITS)?;
        self.store = config_file::merge(&self.store, &usable, STORE_LIMITS)?;
        self.unknown.extend(kept.unknown(&known_keys()));
        self.file_entries = kept.file_entries().clone();
        self.file = kept.path().map(Path::to_owned);
        Ok(self)
    }

    /// Every key with its value, as a config query shows it.
    pub fn entries(&self) -> Result<Fields, crate::fields::Error> {
        let mut all = Fields::from_value(&self.broker)?;
        for (key, value) in Fields::from_value(&self.store)?.iter() {
            all.push(key.to_owned(), value);
        }
        for (key, value) in &self.unknown {
            all.push(key.clone(), value.as_str());
        }
        Ok(all)
    }

    /// These settings with `changes` laid over them; nothing is changed when one does not fit.
    pub fn changed(&self, changes: &Fields) -> Result<Self, ChangeError> {
        let black_list = &self.broker.config_black_list;
        for (key, value) in changes.iter() {
            // A line break in a key would become another key in the file.
            if !config_file::is_key(key) {
                return Err(ChangeError::Value(config_file::Error::Value {
                    key: key.escape_debug().to_string(),
                    value: value.to_owned(),
                    allowed: "for a key: letters, digits, `.`, `_` and `-`".into(),
                }));
            }
            if GUARDED.contains(&key) || black_list.split(';').any(|k| k.trim() == key) {
                return Err(ChangeError::Guarded);
            }
        }
        let mut next = self.clone();
        next.broker = config_file::merge(&self.broker, changes, LIMITS)?;
        next.store = config_file::merge(&self.store, changes, STORE_LIMITS)?;
        for (key, value) in changes.iter() {
            if !known_keys().iter().any(|keys| keys.contains(&key)) {
                next.unknown.insert(key.to_owned(), value.to_owned());
            }
            next.file_entries.push(key.to_owned(), value);
        }
        Ok(next)
    }
}

/// `running` with those of the `changes` that take effect at once, and the keys that do not.
pub(super) fn live_change(
    running: &BrokerConfig,
    changes: &Fields,
) -> Result<(BrokerConfig, Vec<String>), config_file::Error> {
    let known = config_file::keys::<BrokerConfig>();
    let (mut live, mut waiting) = (Fields::new(), Vec::new());
    for (key, value) in changes.iter() {
        if LIVE.contains(&key) {
            live.push(key.to_owned(), value);
        } else if known.contains(&key) {
            waiting.push(key.to_owned());
        }
    }
    Ok((config_file::merge(running, &live, LIMITS)?, waiting))
}

/// Why a change of the configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// A key that no request may change.
    #[error("Can not update config in black list.")]
    Guarded,
    /// A value that does not fit.
    #[error(transparent)]
    Value(#[from] config_file::Error),
}

/// The settings in force with what they leave open filled in: names and addresses of this machine.
pub(super) fn resolved(mut config: BrokerConfig) -> BrokerConfig {
    if config.broker_name.is_empty() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        config.broker_name = host.chars().map(|c| if legal(c) { c } else { '_' }).collect();
        if config.broker_name.is_empty() {
            config.broker_name = "DEFAULT_BROKER".into();
        }
    }
    if config.broker_ip1.is_empty() {
        config.broker_ip1 = own_address().to_string();
    }
    if config.broker_ip2.is_empty() {
        config.broker_ip2.clone_from(&config.broker_ip1);
    }
    config
}

/// The address this machine would send from. No packet is sent: connecting a datagram socket only picks a route.
fn own_address() -> IpAddr {
    let documentation_net = (Ipv4Addr::new(192, 0, 2, 1), 9);
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| {
            socket
                .connect(documentation_net)
                .and_then(|()| socket.local_addr())
        })
        .map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |addr| addr.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_and_live_keys_name_real_keys() {
        let known = config_file::keys::<BrokerConfig>();
        for key in LIMITS.iter().map(|(key, _)| key).chain(LIVE) {
            assert!(known.contains(key), "{key}");
        }
        let of_store = config_file::keys::<StoreConfig>();
        for (key, _) in STORE_LIMITS {
            assert!(of_store.contains(key), "{key}");
        }
        let defaults = Settings::default().entries().unwrap();
        Settings::default()
            .changed(
                &defaults
                    .iter()
                    .filter(|(k, _)| !GUARDED.contains(k))
                    .map(|(k, v)| (k.to_owned(), v))
                    .collect(),
            )
            .expect("the defaults fit their own limits");
    }

    #[test]
    fn the_shipped_file_lists_every_key_with_its_default() {
        let text = include_str!("../../conf/broker.conf");
        let mut listed: BTreeMap<&str, &str> = BTreeMap::new();
        for line in text.lines() {
            if let Some((key, value)) = line.strip_prefix('#').and_then(|l| l.split_once('='))
                && !key.is_empty()
                && key.chars().all(char::is_alphanumeric)
            {
                listed.insert(key, value);
            }
        }
        let defaults = Settings::default();
        let written = defaults.entries().unwrap();
        let known = config_file::keys::<BrokerConfig>()
            .iter()
            .chain(config_file::keys::<StoreConfig>());
        for &key in known {
            let shown = listed.remove(key);
            if key == "storePathRootDir" {
                assert_eq!(shown, Some("$HOME/store"), "{key}");
            } else {
                assert_eq!(shown, Some(written.get(key).unwrap_or("")), "{key}");
            }
        }
        assert!(listed.is_empty(), "keys nobody knows: {listed:?}");
    }

    #[test]
    fn a_change_is_whole_or_refused() {
        let settings = Settings::default();
        let entries =
            |pairs: &[(&str, &str)]| -> Fields { pairs.iter().map(|&(k, v)| (k.to_owned(), v)).collect() };
        let next = settings
            .changed(&entries(&[
                ("brokerPermission", "4"),
                ("flushDiskType", "SYNC_FLUSH"),
                ("zz", "1"),
            ]))
            .unwrap();
        assert_eq!(next.broker.broker_permission, 4);
        assert_eq!(next.store.flush_disk_type, crate::store::FlushDiskType::SyncFlush);
        assert_eq!(next.entries().unwrap().get("zz"), Some("1"));
        for bad in ["brokerConfigPath", "configBlackList", "storePathRootDir"] {
            let refused = settings.changed(&entries(&[(bad, "/tmp/x")]));
            assert!(matches!(refused, Err(ChangeError::Guarded)), "{bad}");
        }
        for bad in ["zz\nstorePathRootDir", "zz\rstorePathRootDir", "# zz", ""] {
            let refused = settings.changed(&entries(&[(bad, "/tmp/x")]));
            assert!(matches!(refused, Err(ChangeError::Value(_))), "{bad:?}");
        }
        let refused = settings.changed(&entries(&[("traceOn", "false"), ("brokerPermission", "x")]));
        assert!(matches!(refused, Err(ChangeError::Value(_))));
    }

    #[test]
    fn open_names_and_addresses_are_filled_in() {
        let config = resolved(BrokerConfig::default());
        assert!(!config.broker_name.is_empty());
        assert!(config.broker_ip1.parse::<IpAddr>().is_ok());
        assert_eq!(config.broker_ip1, config.broker_ip2);
    }
}
