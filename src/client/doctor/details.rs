//! What a doctor asks beyond a snapshot.

use std::collections::BTreeMap;

use crate::client::RuntimeInfo;
use crate::client::snapshot::{BrokerId, ClusterTable, HaState};
pub use crate::client::stranded::Offsets;
use crate::protocol::body::{
    ConsumerConnection, ConsumerRunningInfo, SubscriptionGroupConfig, TopicRouteData, TopicStatsTable,
};

/// A half message that is not decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Half {
    /// Producer group that must decide.
    pub group: String,
    /// Topic it is meant for.
    pub topic: String,
    /// Client clock when it was sent, epoch ms.
    pub born_ms: i64,
    /// How often the broker has asked.
    pub checks: i32,
}

/// A second look at a broker, some seconds after the snapshot.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Later {
    /// Runtime numbers.
    pub runtime: Option<RuntimeInfo>,
    /// Replication, masters only.
    pub ha: Option<HaState>,
}

/// What a controller says of one broker name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerView {
    /// Address of the leading controller; `None` when there is none.
    pub leader: Option<String>,
    /// Id of the elected master.
    pub master: Option<i64>,
    /// Epoch of the election.
    pub epoch: i64,
    /// Replicas in sync.
    pub in_sync: usize,
    /// Known replicas that are not.
    pub out_of_sync: Vec<String>,
}

/// A question that got no answer: what depends on it was not checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missed {
    /// Who was asked.
    pub server: String,
    /// For what.
    pub what: &'static str,
    /// Why there is no answer.
    pub why: String,
}

/// Everything a doctor asked. What was not asked, or not answered, is absent.
#[derive(Debug, Clone, Default)]
pub struct Details {
    /// Route by topic and name server; `None` where it has no route of the topic. Differences are those of a second
    /// look.
    pub routes: BTreeMap<String, BTreeMap<String, Option<TopicRouteData>>>,
    /// Order configurations by name server and topic.
    pub orders: BTreeMap<String, BTreeMap<String, String>>,
    /// Broker tables of name servers that only brokers name, and why there is none.
    pub other_name_servers: BTreeMap<String, Result<ClusterTable, String>>,
    /// Offset ranges by topic and broker.
    pub stats: BTreeMap<String, BTreeMap<BrokerId, TopicStatsTable>>,
    /// Group configurations by broker.
    pub group_configs: BTreeMap<BrokerId, BTreeMap<String, SubscriptionGroupConfig>>,
    /// Committed offsets by broker, then group and topic, then queue.
    pub offsets: BTreeMap<BrokerId, Offsets>,
    /// Clients by group and broker; only groups that are online.
    pub connections: BTreeMap<String, BTreeMap<BrokerId, ConsumerConnection>>,
    /// The inside of clients by group and client id, and why it is not known.
    pub running: BTreeMap<String, BTreeMap<String, Result<ConsumerRunningInfo, String>>>,
    /// Store time of the first unread message by group, topic, broker name and queue, epoch ms.
    pub oldest_unread: BTreeMap<(String, String, String, i32), i64>,
    /// Half messages by broker.
    pub halves: BTreeMap<BrokerId, Vec<Half>>,
    /// Second looks at brokers of which the first was suspicious.
    pub later: BTreeMap<BrokerId, Later>,
    /// Controllers by broker name, where brokers have one.
    pub controllers: BTreeMap<String, Result<ControllerView, String>>,
    /// Questions without an answer.
    pub missed: Vec<Missed>,
}
