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

/// The reason of a failure, where it is a denial.
fn denial<T>(answer: &Answer<T>) -> Option<&str> {
    let why = answer.as_ref().err()?;
    why.starts_with("denied").then_some(why)
}

impl ServerTold {
    pub(super) fn denial(&self) -> Option<&str> {
        match self {
            Self::Cluster(answer) => denial(answer),
            Self::Config(answer) => denial(answer),
            Self::Topics(answer) => denial(answer),
        }
    }
}

impl BrokerTold {
    pub(super) fn denial(&self) -> Option<&str> {
        match self {
            Self::Runtime(answer) => denial(answer),
            Self::Config(answer) => denial(answer),
            Self::Ha(answer) => denial(answer),
            Self::Topics(answer) => denial(answer),
            Self::TopicRate(_, answer) => denial(answer),
            Self::Lag(answer) => denial(answer),
            Self::Stranded(answer) => denial(answer),
            Self::Half(answer) | Self::Dead(_, answer) => denial(answer),
            Self::Missed(_) => None,
        }
    }
}
