//! What goes wrong for an admin client. A server's code and remark are kept to the very end.

use crate::protocol::codes;
use crate::remoting::CallError;

/// A server we asked: its name where it has one, and its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// `broker-a:0`, or `None` for a name server or a bare address.
    pub name: Option<String>,
    /// The address as configured or announced.
    pub addr: String,
}

impl Server {
    /// A server that is known by its address alone.
    pub fn at(addr: impl Into<String>) -> Self {
        Self {
            name: None,
            addr: addr.into(),
        }
    }

    /// A named server.
    pub fn named(name: impl Into<String>, addr: impl Into<String>) -> Self {
        Self {
            name: Some(name.into()),
            addr: addr.into(),
        }
    }
}

impl std::fmt::Display for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} {}", self.addr),
            None => f.write_str(&self.addr),
        }
    }
}

/// Why an operation brought no value.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Every configured name server was tried.
    #[error("no name server could be reached")]
    NoNameServer {
        /// Each address with its failure.
        tried: Vec<(String, CallError)>,
    },
    /// One request failed.
    #[error("{request} to {server}: {source}")]
    Call {
        /// Java's name of the request.
        request: &'static str,
        /// Whom we asked.
        server: Server,
        /// What happened.
        source: CallError,
        /// The request can change something: it is not on the list of reads.
        changes: bool,
    },
    /// The client may only read, and the request is not on the read list.
    #[error("request {code} {request} is not sent by a read-only client")]
    Guarded {
        /// Java's name of the request.
        request: &'static str,
        /// Its code.
        code: i32,
    },
    /// The named thing does not exist.
    #[error("{noun} \"{name}\" was not found")]
    NotFound {
        /// `topic`, `group`, `broker`, `cluster`, `message`.
        noun: &'static str,
        /// What was asked for.
        name: String,
        /// Where it was looked for.
        searched: String,
        /// Names that are close.
        similar: Vec<String>,
    },
    /// Several candidates where exactly one is needed.
    #[error("{what}: {}", names.join(", "))]
    Ambiguous {
        /// What there are several of.
        what: &'static str,
        /// The candidates.
        names: Vec<String>,
    },
    /// An argument that cannot be right.
    #[error("{what}: {reason}")]
    Invalid {
        /// Which argument.
        what: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A static topic where only ordinary ones are dealt with: its positions are kept by physical queues and told by logical
    /// ones.
    #[error("topic \"{0}\" is static: positions in it are not read or written queue by queue")]
    Static(String),
    /// An answer that makes no sense.
    #[error("the answer of {server} to {request} makes no sense: {reason}")]
    Answer {
        /// Java's name of the request.
        request: &'static str,
        /// Whom we asked.
        server: Server,
        /// What is wrong with it.
        reason: String,
        /// The request can change something: it is not on the list of reads.
        changes: bool,
    },
}

impl Error {
    /// The server's response code, if it answered with one.
    pub fn remote_code(&self) -> Option<i32> {
        match self {
            Self::Call {
                source: CallError::Remote { code, .. },
                ..
            } => Some(*code),
            _ => None,
        }
    }

    /// True when a broker refused a pull since the queue is not among the read queues of its topic: Java's words, which come
    /// with `INVALID_PARAMETER`, and with `SYSTEM_ERROR` from old brokers.
    pub fn is_illegal_queue(&self) -> bool {
        matches!(self, Self::Call { source: CallError::Remote { remark, .. }, .. }
            if remark.starts_with("queueId[") && remark.contains("] is illegal"))
    }

    /// The server it is about, where there is one.
    pub fn server(&self) -> Option<&Server> {
        match self {
            Self::Call { server, .. } | Self::Answer { server, .. } => Some(server),
            _ => None,
        }
    }

    /// What went wrong without the request and the server, for a row that names them already.
    pub fn reason(&self) -> String {
        match self {
            Self::Call { source, .. } => reason(source),
            other => other.to_string(),
        }
    }

    /// True when a change may have been made although no answer came: it was sent, and the answer is lost or not to be
    /// read.
    pub fn is_in_doubt(&self) -> bool {
        match self {
            Self::Call {
                source,
                changes: true,
                ..
            } => matches!(
                source,
                CallError::Closed { .. } | CallError::TimedOut { .. } | CallError::Protocol { .. }
            ),
            Self::Answer { changes, .. } => *changes,
            _ => false,
        }
    }

    /// True when the server could not be reached or did not answer.
    pub fn is_unreachable(&self) -> bool {
        match self {
            Self::NoNameServer { .. } => true,
            Self::Call { source, .. } => !matches!(
                source,
                CallError::Remote { .. }
                    | CallError::Protocol { .. }
                    | CallError::Unsendable { .. }
                    | CallError::Busy { .. }
                    | CallError::NoTime { .. }
            ),
            _ => false,
        }
    }
}

/// Why a call failed, without the address.
pub fn reason(e: &CallError) -> String {
    match e {
        CallError::Connect { source, .. } => match source.kind() {
            std::io::ErrorKind::ConnectionRefused => "connection refused".into(),
            std::io::ErrorKind::TimedOut => "connect timed out".into(),
            _ => source.to_string(),
        },
        CallError::Closed { .. } => "closed the connection before it answered".into(),
        CallError::TimedOut { after, .. } => format!("no answer within {:.1}s", after.as_secs_f64()),
        CallError::NoTime { .. } => "not asked: the time of the command was used up before".into(),
        CallError::Busy { .. } => "too many calls are waiting".into(),
        CallError::Remote { code, remark, .. } => {
            format!("{code} {}: {remark}", codes::name(*code).unwrap_or("?"))
        }
        CallError::Protocol { source, .. } | CallError::Unsendable { source, .. } => source.to_string(),
    }
}

/// Names close to `name`: the same but for case, or at most two edits away. At most five, nearest first.
pub fn similar<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let lower = name.to_lowercase();
    let mut near: Vec<(usize, &str)> = known
        .into_iter()
        .filter_map(|other| {
            let other_lower = other.to_lowercase();
            let distance = if other_lower == lower {
                0
            } else {
                edits(&lower, &other_lower)
            };
            let prefix = lower.len() >= 3 && other_lower.starts_with(&lower);
            (distance <= 2 || prefix).then_some((distance, other))
        })
        .collect();
    near.sort();
    near.dedup();
    near.into_iter().take(5).map(|(_, n)| n.to_owned()).collect()
}

/// Levenshtein distance, cut short when it must exceed 2.
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > 2 {
        return 3;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(ca != cb)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_are_offered_nearest_first() {
        let known = ["CG_ORDERS", "CG_ORDER", "cg_orderz", "PAYMENTS"];
        assert_eq!(similar("CG_ORDER", known), ["CG_ORDER", "CG_ORDERS", "cg_orderz"]);
        assert_eq!(similar("cg_orders", known)[0], "CG_ORDERS");
        assert!(similar("zzz", known).is_empty());
    }
}
