//! What goes wrong on the way to a peer, and how a handler says no.

use std::time::Duration;

use crate::fields::Fields;
use crate::protocol::{self, codes};

/// A call that brought no success answer.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No connection could be made.
    #[error("cannot connect to {addr}: {source}")]
    Connect {
        /// Whom we dialled.
        addr: String,
        /// Why not.
        source: std::io::Error,
    },
    /// The connection went away before the answer.
    #[error("{addr} closed the connection before it answered")]
    Closed {
        /// The peer.
        addr: String,
    },
    /// No answer in time.
    #[error("{addr} did not answer within {after:?}")]
    TimedOut {
        /// The peer.
        addr: String,
        /// How long we waited.
        after: Duration,
    },
    /// The time of the whole operation was over before the call began: the peer was not asked.
    #[error("{addr} was not asked: the time was used up before")]
    NoTime {
        /// The peer.
        addr: String,
    },
    /// Too many calls wait on this connection already.
    #[error("too many calls are waiting for {addr}")]
    Busy {
        /// The peer.
        addr: String,
    },
    /// The peer answered with a failure code.
    #[error("{addr} answered {code} {}: {remark}", codes::name(*.code).unwrap_or("?"))]
    Remote {
        /// The peer.
        addr: String,
        /// Its response code.
        code: i32,
        /// Its remark.
        remark: String,
    },
    /// The request has no form on the wire; it was not sent.
    #[error("not sent to {addr}: {source}")]
    Unsendable {
        /// The peer.
        addr: String,
        /// What stands against it.
        source: protocol::Error,
    },
    /// The answer could not be read.
    #[error("{addr}: {source}")]
    Protocol {
        /// The peer.
        addr: String,
        /// What was malformed.
        source: protocol::Error,
    },
}

/// A handler's "no": the one place where a failure becomes a response code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Response code.
    pub code: i32,
    /// Text for the person or client that asked.
    pub remark: String,
    /// Header fields of the answer, for the few requests whose refusals have some.
    pub fields: Fields,
}

impl Refusal {
    /// A refusal with code and remark.
    pub fn new(code: i32, remark: impl Into<String>) -> Self {
        Self {
            code,
            remark: remark.into(),
            fields: Fields::new(),
        }
    }
}

impl From<protocol::Error> for Refusal {
    fn from(e: protocol::Error) -> Self {
        Self::new(codes::SYSTEM_ERROR, e.to_string())
    }
}

impl From<crate::fields::Error> for Refusal {
    fn from(e: crate::fields::Error) -> Self {
        Self::new(codes::SYSTEM_ERROR, e.to_string())
    }
}
