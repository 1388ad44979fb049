//! What a screen wants to know beyond the standing poll, and what was found: plain data. [`ask`](super::ask) asks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::lag::{GroupKind, Waiting};
use crate::client::scale::kept::KeptWay;
use crate::client::snapshot::GroupLag;

use super::deed::Sheet;
use super::{dead, messages};

/// A question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// Queues, traffic and groups of a topic.
    Topic(String),
    /// Size and newest message of a topic, for its row in the list.
    TopicBrief(String),
    /// Positions, clients and configuration of a group.
    Group(String),
    /// Clients of a group, for its row in the list.
    GroupBrief(String),
    /// What each client of a group says about itself: reaches into the clients, so only when asked for.
    Clients(String),
    /// Something about the files of a store.
    Store(super::store::question::Question),
    /// The same of a broker that has such files.
    Wire(super::store::wire::Question),
    /// What a command of the CLI shows, word by word; it never changes anything.
    Sheet(Vec<String>),
    /// Messages, or the way of one.
    Messages(messages::search::Question),
    /// Dead letters.
    Dead(dead::ask::Question),
    /// Scalings that are on their way, or were interrupted: those of other sessions as well.
    Ways,
    /// What the name servers route differently.
    Routes,
}

impl Want {
    /// True for what does not go by the known masters: it needs no server, or finds its own. A broker that comes or
    /// goes does not begin it again.
    pub const fn is_apart(&self) -> bool {
        matches!(
            self,
            Self::Store(_) | Self::Messages(_) | Self::Dead(_) | Self::Sheet(_) | Self::Ways | Self::Routes
        )
    }

    /// True for what takes long, or never ends, and whose answer no change makes wrong.
    pub fn is_long(&self) -> bool {
        match self {
            Self::Store(question) => question.what.is_pass(),
            Self::Messages(question) => matches!(question, messages::search::Question::Search(_)),
            // It writes a file, which is not written over when something else was changed.
            Self::Sheet(words) => {
                matches!(words.as_slice(), [noun, verb, ..] if noun == "offset" && verb == "export")
            }
            _ => false,
        }
    }
}

/// A question and how often it is asked while it is on the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The question.
    pub want: Want,
    /// Pause between two times; `None` asks once.
    pub every: Option<Duration>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq)]
pub enum Found {
    /// Of [`Want::Topic`].
    Topic(Box<TopicDetail>),
    /// Of [`Want::TopicBrief`].
    TopicBrief(TopicBrief),
    /// Of [`Want::GroupBrief`].
    GroupBrief(GroupBrief),
    /// Of [`Want::Group`].
    Group(Box<GroupDetail>),
    /// Of [`Want::Clients`].
    Clients(Vec<ClientDetail>),
    /// Of [`Want::Store`] and [`Want::Wire`].
    Store(Box<super::store::answer::Answer>),
    /// Of [`Want::Sheet`].
    Sheet(Box<Sheet>),
    /// Of [`Want::Messages`].
    Messages(messages::search::Answer),
    /// Of [`Want::Dead`].
    Dead(dead::ask::Answer),
    /// Of [`Want::Ways`].
    Ways(Vec<KeptWay>),
    /// Of [`Want::Routes`].
    Routes(Box<super::routes::Compared>),
}

/// A topic in a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicBrief {
    /// Messages that are there.
    pub messages: i64,
    /// Store time of the newest one, epoch ms; 0 without any.
    pub last_ms: i64,
    /// The broker that has it.
    pub last_on: String,
    /// A broker did not answer.
    pub partial: bool,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupBrief {
    /// Whether and how it consumes.
    pub kind: GroupKind,
    /// `push`, `pull` or `pop`.
    pub takes: &'static str,
    /// Online clients.
    pub clients: usize,
    /// Different versions among them.
    pub versions: usize,
    /// Messages handed out and not yet acknowledged.
    pub inflight: i64,
    /// The message that has been waiting longest; `None` where none does, or that is not known.
    pub oldest: Option<Waiting>,
    /// Messages a second consumed.
    pub tps: f64,
    /// A broker did not answer: the numbers are lower bounds.
    pub partial: bool,
}

/// A queue of a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueEnds {
    /// Broker name.
    pub broker: String,
    /// Queue number.
    pub queue: i32,
    /// First offset still there.
    pub min: i64,
    /// Exclusive end.
    pub max: i64,
    /// Store time of the newest message, epoch ms; 0 without any.
    pub last_ms: i64,
    /// Messages a second since the look before; `None` at the first one.
    pub in_tps: Option<f64>,
}

/// A group on a topic.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupOnTopic {
    /// Group name.
    pub name: String,
    /// Backlog in this topic; `None` when unknown.
    pub lag: Option<i64>,
    /// Online clients.
    pub clients: usize,
    /// Messages a second it gets.
    pub out_tps: f64,
    /// Subscription expressions of its clients.
    pub expressions: Vec<String>,
}

/// A topic over all masters that have it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TopicDetail {
    /// Its queues, by broker and number.
    pub queues: Vec<QueueEnds>,
    /// Its groups, by name.
    pub groups: Vec<GroupOnTopic>,
    /// Messages a second stored.
    pub in_tps: f64,
    /// Messages of the last day.
    pub day: i64,
    /// Messages that are there.
    pub messages: i64,
    /// Store time of the newest one, epoch ms; 0 without any.
    pub last_stored_ms: i64,
    /// Brokers that failed, and why.
    pub failed: BTreeMap<String, String>,
}

/// A connected client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLine {
    /// Client id.
    pub id: String,
    /// Its address.
    pub addr: String,
    /// Its language.
    pub language: String,
    /// Its version.
    pub version: String,
    /// The number of that, which rises from version to version.
    pub version_code: i32,
}

/// A group over all masters.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupDetail {
    /// Whether and how it consumes.
    pub kind: GroupKind,
    /// Positions, largest backlog first.
    pub queues: Vec<GroupLag>,
    /// Store time of the first unread message by topic, broker and queue, epoch ms; the reason where it is unknown.
    pub oldest: BTreeMap<(String, String, i32), Result<i64, String>>,
    /// Its clients.
    pub clients: Vec<ClientLine>,
    /// Subscriptions of its clients, topic to expression.
    pub subscriptions: BTreeMap<String, String>,
    /// Messages a second consumed.
    pub tps: f64,
    /// Configuration by broker name: [`fields`](crate::client::admin::group_config::fields).
    pub configs: BTreeMap<String, Vec<(String, String)>>,
    /// Brokers that failed, and why.
    pub failed: BTreeMap<String, String>,
}

impl GroupDetail {
    /// One field of the configuration, on each broker that told it.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let of = move |fields: &'a Vec<(String, String)>| fields.iter().find(|(n, _)| n == name);
        self.configs.values().filter_map(of).map(|(_, v)| v.as_str())
    }

    /// Names of the brokers on which the group may not consume.
    pub fn paused(&self) -> impl Iterator<Item = &str> {
        let is = |(name, value): &(String, String)| name == "consume-enable" && value == "false";
        let paused = self
            .configs
            .iter()
            .filter(move |(_, fields)| fields.iter().any(is));
        paused.map(|(broker, _)| broker.as_str())
    }

    /// One field of the configuration, where all brokers agree.
    pub fn field<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        let mut values = self.values(name);
        let first = values.next()?;
        values.all(|v| v == first).then_some(first)
    }
}

/// What one client says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientDetail {
    /// Client id.
    pub id: String,
    /// What it says, or why it did not.
    pub told: Result<ClientTold, String>,
}

/// A client's own numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ClientTold {
    /// Queues it reads: topic, broker, number.
    pub queues: Vec<(String, String, i32)>,
    /// What it subscribes to, in one line.
    pub subscription: String,
    /// Messages fetched and not yet consumed.
    pub cached: i64,
    /// Their size, MiB.
    pub cached_mib: i64,
    /// Queues of which it holds as much as it may, and does not pull.
    pub held_back: usize,
    /// Time of its oldest last pull, or try of one, epoch ms.
    pub last_pull_ms: Option<i64>,
    /// When it last consumed something of each queue, by its own clock, epoch ms.
    pub consumed_ms: BTreeMap<(String, String, i32), i64>,
    /// Milliseconds a message takes to consume; `None` without any in the last minute.
    pub consume_rt_ms: Option<f64>,
    /// Messages a second consumed; `None` of a client that tells no rates.
    pub ok_tps: Option<f64>,
    /// Messages a second given back; `None` of a client that tells no rates.
    pub failed_tps: Option<f64>,
}
