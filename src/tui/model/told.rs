//! News of polling tasks: who said what.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::client::RuntimeInfo;
use crate::client::snapshot::{
    BrokerConfigView, BrokerId, ClusterTable, Fault, GroupLag, HaState, NameServerConfig, TopicOnBroker,
};
use crate::client::stranded::Stranded;
use crate::protocol::model::DataVersion;
use crate::tui::record::Recorded;
use crate::tui::refusal::Kind;
use crate::tui::want::{Found, Want};

/// Topics of one broker by name.
pub type NamedTopics = Vec<(String, TopicOnBroker)>;
/// An answer or the reason why there is none.
pub type Answer<T> = Result<T, Fault>;

/// One piece of news from a polling task.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// When the answer or the failure arrived, epoch ms.
    pub at_ms: i64,
    /// When the task tries again, epoch ms, if it rests after failures.
    pub retry_at_ms: Option<i64>,
    /// Who said what.
    pub told: Told,
}

/// Who said what.
#[derive(Debug, Clone, PartialEq)]
pub enum Told {
    /// A name server, by its configured address.
    NameServer(String, ServerTold),
    /// A broker.
    Broker(BrokerId, BrokerTold),
    /// What a screen wanted to know.
    Found(Want, Result<Found, String>),
    /// What was recorded before this session.
    Recorded(Box<Recorded>),
    /// A reply that could not be read: whose, to what, why, and where its bytes are.
    BadReply(Box<BadReply>),
}

/// A reply that could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadReply {
    /// The server, with its name where it has one.
    pub server: String,
    /// Java's name of the request.
    pub request: &'static str,
    /// What is wrong with it.
    pub why: String,
    /// The file with its bytes, or why there is none.
    pub kept: Result<String, String>,
}

/// What a name server can tell.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerTold {
    /// Its broker table and the time of the call.
    Cluster(Answer<(ClusterTable, Duration)>),
    /// Its limits.
    Config(Answer<NameServerConfig>),
    /// Its topics.
    Topics(Answer<Vec<String>>),
}

/// What a broker can tell.
#[derive(Debug, Clone, PartialEq)]
pub enum BrokerTold {
    /// Its runtime numbers and the time of the call.
    Runtime(Answer<(Box<RuntimeInfo>, Duration)>),
    /// Its configuration.
    Config(Answer<BrokerConfigView>),
    /// Its replication.
    Ha(Answer<HaState>),
    /// Its topics by name, and the version of its table.
    Topics(Answer<(NamedTopics, Option<DataVersion>)>),
    /// Messages a second stored in one topic.
    TopicRate(String, Answer<f64>),
    /// Positions of all groups.
    Lag(Answer<Vec<GroupLag>>),
    /// Queues behind the read queues that hold unread messages, by topic.
    Stranded(Answer<BTreeMap<String, Vec<Stranded>>>),
    /// Half messages that are not decided.
    Half(Answer<i64>),
    /// Messages ever stored in a dead-letter topic.
    Dead(String, Answer<i64>),
    /// Beats that passed while it was slow to answer, and were skipped.
    Missed(u64),
}

impl BrokerTold {
    /// The broker itself has said it just now, if only a no.
    pub(super) fn is_alive(&self) -> bool {
        fn said<T>(answer: &Answer<T>) -> bool {
            answer
                .as_ref()
                .map_or_else(|fault| fault.refusal.is_some(), |_| true)
        }
        match self {
            Self::Runtime(answer) => said(answer),
            Self::Config(answer) => said(answer),
            Self::Ha(answer) => said(answer),
            _ => false,
        }
    }
}

/// That the server allowed it, or why it denied it; `None` where it said neither.
fn verdict<T>(answer: &Answer<T>) -> Option<Result<(), &str>> {
    match answer {
        Ok(_) => Some(Ok(())),
        Err(why) => (Kind::of(why) == Kind::Denied).then_some(Err(why)),
    }
}

impl ServerTold {
    pub(super) fn verdict(&self) -> Option<Result<(), &str>> {
        match self {
            Self::Cluster(answer) => verdict(answer),
            Self::Config(answer) => verdict(answer),
            Self::Topics(answer) => verdict(answer),
        }
    }
}

impl BrokerTold {
    pub(super) fn verdict(&self) -> Option<Result<(), &str>> {
        match self {
            Self::Runtime(answer) => verdict(answer),
            Self::Config(answer) => verdict(answer),
            Self::Ha(answer) => verdict(answer),
            Self::Topics(answer) => verdict(answer),
            Self::TopicRate(_, answer) => verdict(answer),
            Self::Lag(answer) => verdict(answer),
            Self::Stranded(answer) => verdict(answer),
            Self::Half(answer) | Self::Dead(_, answer) => verdict(answer),
            Self::Missed(_) => None,
        }
    }
}
