//! Short reasons for a cell, and which of them stay: what a server denies or cannot do, it denies the next time as well.

use crate::client::error::reason;
use crate::client::{CallError, Error};
use crate::protocol::codes;

const DENIED: &str = "denied";
const NOT_SUPPORTED: &str = "n/a";
const BAD_REPLY: &str = "bad reply";

/// A short reason for a cell.
pub fn short(error: &Error) -> String {
    let Error::Call { source, .. } = error else {
        return error.to_string();
    };
    match source {
        CallError::Remote { code, remark, .. } if *code == codes::NO_PERMISSION => {
            format!("{DENIED}: {remark}")
        }
        CallError::Remote { code, .. } if *code == codes::REQUEST_CODE_NOT_SUPPORTED => {
            format!("{NOT_SUPPORTED}: not supported by this server")
        }
        CallError::Protocol { source, .. } => format!("{BAD_REPLY}: {source}"),
        CallError::Unsendable { source, .. } => format!("not sent: {source}"),
        source => reason(source),
    }
}

/// What kind of answer a reason of [`short`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The server does not allow it.
    Denied,
    /// The server cannot do it.
    NotSupported,
    /// What came could not be read.
    BadReply,
    /// Nothing is known but that it failed.
    Failure,
}

impl Kind {
    /// Of a reason.
    pub fn of(why: &str) -> Self {
        let is = |word: &str| why.strip_prefix(word).is_some_and(|rest| rest.starts_with(':'));
        match () {
            () if is(DENIED) => Self::Denied,
            () if is(NOT_SUPPORTED) => Self::NotSupported,
            () if is(BAD_REPLY) => Self::BadReply,
            () => Self::Failure,
        }
    }

    /// True for what stays: asking again soon would bring the same.
    pub const fn is_refusal(self) -> bool {
        matches!(self, Self::Denied | Self::NotSupported)
    }
}
