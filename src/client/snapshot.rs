//! One look at a cluster as plain data: what every name server and broker said, and when.
//!
//! Nothing here fails: a server that did not answer is a [`Seen`] without a value and with the reason. Zero is only
//! stored when a server said zero; what nobody said is `None`.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::time::Duration;

use super::stranded::{Stranded, raise_read};
use super::{Error, RuntimeInfo};
use crate::protocol::model::{DataVersion, MASTER_ID, Perm};
use crate::remoting::CallError;

/// Why a server was asked in vain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// In a few words, without the server.
    pub why: String,
    /// What the server itself said, if it did: one that refuses to be looked at is alive.
    pub refusal: Option<Refused>,
}

/// A server's own no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Its response code.
    pub code: i32,
    /// Its remark.
    pub remark: String,
}

impl Deref for Fault {
    type Target = str;

    fn deref(&self) -> &str {
        &self.why
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self { why, refusal: None }
    }
}

impl From<&str> for Fault {
    fn from(why: &str) -> Self {
        Self::from(why.to_owned())
    }
}

impl From<&Error> for Fault {
    fn from(e: &Error) -> Self {
        let refusal = match e {
            Error::Call {
                source: CallError::Remote { code, remark, .. },
                ..
            } => Some(Refused {
                code: *code,
                remark: remark.clone(),
            }),
            _ => None,
        };
        Self {
            why: e.reason(),
            refusal,
        }
    }
}

/// Something a remote server was asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Seen<T> {
    /// The newest answer, if there ever was one.
    pub value: Option<T>,
    /// When `value` was answered, epoch ms; 0 without a value.
    pub as_of_ms: i64,
    /// Why the newest attempt failed; `None` when it succeeded or when nobody asked.
    pub error: Option<Fault>,
}

impl<T> Seen<T> {
    /// Not asked.
    pub const fn unasked() -> Self {
        Self {
            value: None,
            as_of_ms: 0,
            error: None,
        }
    }

    /// Answered at `now_ms`.
    pub const fn answered(value: T, now_ms: i64) -> Self {
        Self {
            value: Some(value),
            as_of_ms: now_ms,
            error: None,
        }
    }

    /// Asked without success.
    pub fn failed(error: impl Into<Fault>) -> Self {
        Self {
            value: None,
            as_of_ms: 0,
            error: Some(error.into()),
        }
    }

    /// An answer or a failure.
    pub fn from_result<E>(result: Result<T, E>, now_ms: i64) -> Self
    where
        Fault: for<'a> From<&'a E>,
    {
        match result {
            Ok(value) => Self::answered(value, now_ms),
            Err(e) => Self::failed(&e),
        }
    }

    /// True when the newest attempt failed.
    pub const fn is_failed(&self) -> bool {
        self.error.is_some()
    }

    /// True when nobody asked.
    pub const fn is_unasked(&self) -> bool {
        self.value.is_none() && self.error.is_none()
    }

    /// The value, whatever its age.
    pub const fn get(&self) -> Option<&T> {
        self.value.as_ref()
    }

    /// The value only when the newest attempt brought it.
    pub fn fresh(&self) -> Option<&T> {
        if self.error.is_some() {
            None
        } else {
            self.value.as_ref()
        }
    }

    /// How old the value is at `now_ms`.
    pub fn age(&self, now_ms: i64) -> Option<Duration> {
        let ms = u64::try_from(now_ms.saturating_sub(self.as_of_ms)).unwrap_or(0);
        self.value.as_ref().map(|_| Duration::from_millis(ms))
    }

    /// Takes over the value of an earlier look when this one brought none.
    #[must_use]
    pub fn or_earlier(self, earlier: &Self) -> Self
    where
        T: Clone,
    {
        if self.value.is_some() || earlier.value.is_none() {
            return self;
        }
        Self {
            value: earlier.value.clone(),
            as_of_ms: earlier.as_of_ms,
            error: self.error,
        }
    }
}

impl<T> Default for Seen<T> {
    fn default() -> Self {
        Self::unasked()
    }
}

/// One look at everything in scope.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// When the look ended, epoch ms.
    pub taken_at_ms: i64,
    /// How long it took.
    pub took: Duration,
    /// Every configured name server, in the order of the configuration.
    pub name_servers: Vec<NameServerState>,
    /// Every broker that any name server lists, by cluster, name and id.
    pub brokers: Vec<BrokerState>,
    /// Every topic any asked broker has, by name. Empty when topics were not in scope.
    pub topics: Vec<TopicState>,
    /// Every consumer group any asked broker has, by name. Empty when groups were not in scope.
    pub groups: Vec<GroupState>,
}

/// Identity of a broker process in a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BrokerId {
    /// Cluster it registers in.
    pub cluster: String,
    /// Broker name, shared by a master and its slaves.
    pub name: String,
    /// 0 is the master.
    pub id: i64,
}

impl BrokerId {
    /// True for the master of its name.
    pub const fn is_master(&self) -> bool {
        self.id == MASTER_ID
    }
}

/// `broker-a:0`.
impl std::fmt::Display for BrokerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.id)
    }
}

/// What one name server said.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NameServerState {
    /// Address as configured.
    pub addr: String,
    /// Time of the cluster-info call, dial excluded when the connection was open.
    pub rtt: Seen<Duration>,
    /// Its broker table.
    pub cluster: Seen<ClusterTable>,
    /// Its limits.
    pub config: Seen<NameServerConfig>,
    /// Names of its topics.
    pub topics: Seen<Vec<String>>,
}

impl NameServerState {
    /// True when the newest look got an answer.
    pub fn is_up(&self) -> bool {
        self.cluster.fresh().is_some()
    }

    /// True when the newest look was answered, if only with a refusal.
    pub fn is_alive(&self) -> bool {
        self.is_up() || self.cluster.error.as_ref().is_some_and(|e| e.refusal.is_some())
    }
}

/// The broker table of one name server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClusterTable {
    /// Listed brokers, by cluster, name and id.
    pub listed: Vec<Listed>,
    /// Exact registration times by broker address, where the server tells them (an `rmq` name server does).
    pub live: Option<Vec<LiveBroker>>,
}

/// One broker as a name server lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Which broker.
    pub broker: BrokerId,
    /// Its announced address.
    pub addr: String,
}

/// Exact liveness of one broker, from an `rmq` name server.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveBroker {
    /// Cluster name.
    pub cluster: String,
    /// Announced address.
    pub addr: String,
    /// Time since its last registration or heartbeat, at the time of the answer.
    pub age: Duration,
    /// Silence after which the server drops it.
    pub limit: Option<Duration>,
    /// Version of the topic table it registered last.
    pub data_version: Option<DataVersion>,
}

/// The limits of a name server, from its configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NameServerConfig {
    /// Pause between two scans for silent brokers.
    pub scan_interval: Option<Duration>,
    /// Every key it answered.
    pub entries: BTreeMap<String, String>,
}

/// How well the age of a registration is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RegistrationAge {
    /// The name server told it; age at `Snapshot::taken_at_ms`.
    Exact(Duration),
    /// The broker answers us and is listed: younger than its period, no more is known.
    Answering,
    /// The broker has been silent since a known time: its last registration lies between these ages.
    Between(Duration, Duration),
    /// Listed, never seen answering.
    Unknown,
}

/// One broker as one name server sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Registration {
    /// Address of the name server.
    pub name_server: String,
    /// Does it list the broker now? `None` when the name server did not answer.
    pub listed: Option<bool>,
    /// Age of the last registration.
    pub age: RegistrationAge,
    /// Silence after which it drops the broker, where known.
    pub limit: Option<Duration>,
    /// Version of the topic table registered there, where known.
    pub data_version: Option<DataVersion>,
}

/// What is known of one broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokerState {
    /// Which broker.
    pub broker: BrokerId,
    /// Announced address, as the name servers list it.
    pub addr: String,
    /// Address dialled, when an address map changed it.
    pub dialled: Option<String>,
    /// One entry a configured name server, in their order.
    pub registrations: Vec<Registration>,
    /// Time of the runtime call.
    pub rtt: Seen<Duration>,
    /// Runtime numbers.
    pub runtime: Seen<RuntimeInfo>,
    /// Configuration.
    pub config: Seen<BrokerConfigView>,
    /// Replication, masters only.
    pub ha: Seen<HaState>,
    /// Version of its topic table.
    pub topics_version: Seen<DataVersion>,
    /// Last time it answered a call of this process, epoch ms.
    pub last_answer_ms: Option<i64>,
}

impl BrokerState {
    /// True when the newest look got an answer.
    pub fn answers(&self) -> bool {
        self.runtime.fresh().is_some()
    }

    /// What it said when the newest look was refused.
    pub fn refusal(&self) -> Option<&Refused> {
        self.runtime.error.as_ref()?.refusal.as_ref()
    }

    /// True when the newest look brought nothing at all: not even a refusal.
    pub fn is_silent(&self) -> bool {
        self.runtime.is_failed() && self.refusal().is_none()
    }

    /// True when the newest look was answered, if only with a refusal.
    pub fn is_alive(&self) -> bool {
        self.answers() || self.refusal().is_some()
    }
}

/// The part of a broker's configuration that a dashboard shows, and all of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BrokerConfigView {
    /// Pause between two registrations, as the broker clamps it.
    pub register_period: Option<Duration>,
    /// Name servers it registers with.
    pub name_servers: Vec<String>,
    /// `ASYNC_FLUSH` or `SYNC_FLUSH`.
    pub flush: Option<String>,
    /// `ASYNC_MASTER`, `SYNC_MASTER` or `SLAVE`.
    pub role: Option<String>,
    /// Permission of the whole broker.
    pub perm: Option<Perm>,
    /// Every key it answered.
    pub entries: BTreeMap<String, String>,
}

/// Replication state of a master.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HaState {
    /// End of the master's commit log.
    pub master_offset: i64,
    /// Slaves that are in sync.
    pub in_sync: i64,
    /// Connected slaves.
    pub slaves: Vec<SlaveState>,
}

/// One connected slave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SlaveState {
    /// Address of its connection.
    pub addr: String,
    /// What it has acknowledged.
    pub acked_offset: i64,
    /// Bytes behind the master.
    pub behind_bytes: i64,
    /// Counted as in sync.
    pub in_sync: bool,
    /// Bytes a second it is sent.
    pub transferred_bytes_per_s: i64,
}

/// One topic over all asked brokers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicState {
    /// Topic name.
    pub name: String,
    /// Built in, retry, dead letter, or a user's.
    pub kind: TopicKind,
    /// Its configuration on each broker that has it.
    pub brokers: Vec<TopicOnBroker>,
}

/// What sort of topic a name belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TopicKind {
    /// Made by a user.
    #[default]
    User,
    /// `%RETRY%group`.
    Retry,
    /// `%DLQ%group`.
    DeadLetter,
    /// Built in.
    System,
}

/// A topic's configuration on one broker.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicOnBroker {
    /// Which broker.
    pub broker: BrokerId,
    /// Queues that consumers read.
    pub read_queues: i32,
    /// Queues that producers write.
    pub write_queues: i32,
    /// Permission bits.
    pub perm: Perm,
    /// Ordered topic.
    pub order: bool,
    /// Java's topicSysFlag: whether it is of a unit, and whether units subscribe to it.
    pub sys_flag: i32,
    /// Attributes, such as `message.type`.
    pub attributes: BTreeMap<String, String>,
    /// Messages a second stored, where asked.
    pub in_tps: Seen<f64>,
    /// Queues behind the read queues that hold unread messages, where asked.
    pub stranded: Vec<Stranded>,
}

impl TopicOnBroker {
    /// The command that makes stranded queues readable again; `None` where none is stranded.
    pub fn raise_read(&self, topic: &str) -> Option<String> {
        raise_read(topic, [(self.broker.name.as_str(), self.stranded.as_slice())])
    }
}

/// One consumer group over all asked brokers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupState {
    /// Group name.
    pub name: String,
    /// Backlog in every queue that the group has a position in.
    pub lag: Seen<Vec<GroupLag>>,
    /// Messages a second consumed, as the brokers count them.
    pub consume_tps: Seen<f64>,
    /// Online clients.
    pub clients: Seen<usize>,
    /// Some broker did not answer: sums are lower bounds.
    pub partial: bool,
}

/// The sum of numbers that servers tell, which may be any.
pub fn told_sum(numbers: impl IntoIterator<Item = i64>) -> i64 {
    numbers.into_iter().fold(0, i64::saturating_add)
}

impl GroupState {
    /// Total backlog, where any is known.
    pub fn total_lag(&self) -> Option<i64> {
        let rows = self.lag.get()?;
        Some(told_sum(rows.iter().filter_map(GroupLag::lag)))
    }
}

/// Position of a group in one queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupLag {
    /// Group name.
    pub group: String,
    /// Topic name.
    pub topic: String,
    /// Broker name.
    pub broker: String,
    /// Queue number.
    pub queue: i32,
    /// End of the queue.
    pub max: i64,
    /// Next message the group reads; `None` when it has none stored.
    pub committed: Option<i64>,
    /// Messages handed out and not yet acknowledged, as the broker counts them.
    pub inflight: Option<i64>,
    /// Store time of the last consumed message, epoch ms.
    pub last_consumed_ms: Option<i64>,
    /// Offsets between the position and the end that no message has: what lies between two generations of a queue of a
    /// static topic. 0 elsewhere; negative when the newest generation has no offsets yet.
    pub hole: i64,
}

impl GroupLag {
    /// Messages not yet consumed; `None` when unknown. Never negative: a position beyond the end counts as 0 and is
    /// told by [`GroupLag::is_beyond_end`].
    pub fn lag(&self) -> Option<i64> {
        self.committed
            .map(|at| self.max.saturating_sub(at).saturating_sub(self.hole).max(0))
    }

    /// The group's position lies behind the end of the queue (a truncated or rebuilt queue).
    pub fn is_beyond_end(&self) -> bool {
        self.committed.is_some_and(|at| at > self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_look_keeps_the_earlier_value_and_its_age() {
        let earlier = Seen::answered(7, 1_000);
        let now = Seen::<i32>::failed("refused").or_earlier(&earlier);
        assert_eq!((now.get(), now.fresh()), (Some(&7), None));
        assert_eq!(now.age(4_000), Some(Duration::from_secs(3)));
        assert_eq!(now.error.as_deref(), Some("refused"));
    }

    #[test]
    fn lag_is_unknown_or_not_negative() {
        let mut row = GroupLag {
            max: 10,
            ..GroupLag::default()
        };
        assert_eq!(row.lag(), None);
        row.committed = Some(4);
        assert_eq!((row.lag(), row.is_beyond_end()), (Some(6), false));
        row.committed = Some(12);
        assert_eq!((row.lag(), row.is_beyond_end()), (Some(0), true));
    }
}
