//! Exit codes, and the one shape in which a failure reaches the operator.

mod answers;

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::client::snapshot::Refused;
use crate::client::words::counted;
use crate::client::{self, CallError, error::reason};
use crate::protocol::codes;

macro_rules! exit_codes {
    ($($name:ident = $code:literal $kind:literal $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u8 = $code;)*
        /// Every exit code with its kind and meaning, for the manual.
        pub const CODES: &[(u8, &str, &str)] = &[$(($code, $kind, $text)),*];
    };
}

exit_codes! {
    DONE = 0 "done" "done; every target succeeded";
    INTERNAL = 1 "internal" "unexpected internal error";
    USAGE = 2 "usage" "usage: unknown flag, missing argument, value that does not parse, ambiguous scope";
    CONNECTION = 3 "connection" "no name server, or a broker that was needed, could be reached";
    NOT_FOUND = 4 "not_found" "topic, group, broker, cluster, message or key not found";
    REFUSED = 5 "refused" "permission, access control or authentication";
    REJECTED = 6 "rejected" "the server rejected the request";
    PARTIAL = 7 "partial" "some targets succeeded and some failed; stdout shows one row a target";
    TIMEOUT = 8 "timeout" "timeout, or a stop condition was not reached";
    PRECONDITION = 9 "precondition" "a safety check was not met; nothing was changed";
    WARNINGS = 10 "warnings" "a check found warnings";
    ERRORS = 11 "errors" "a check found errors";
    UNSUPPORTED = 12 "unsupported" "not supported by this server's version or role";
    DECLINED = 13 "declined" "not confirmed: the answer was no, or nobody could be asked";
    INTERRUPTED = 130 "interrupted" "interrupted; the state that was reached is printed";
}

fn kind(exit: u8) -> &'static str {
    CODES
        .iter()
        .find(|(code, _, _)| *code == exit)
        .map_or("internal", |(_, kind, _)| kind)
}

/// A failure with everything that an operator needs to act.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Exit code.
    pub exit: u8,
    /// What did not work.
    pub what: String,
    /// Whom we asked, name and address.
    pub target: Option<String>,
    /// Java's name of the request.
    pub request: Option<String>,
    /// The server's response code.
    pub remote_code: Option<i32>,
    /// The server's remark.
    pub remark: Option<String>,
    /// Why this happens.
    pub why: Option<String>,
    /// One next command.
    pub hint: Option<String>,
    /// A change was sent, and nobody told whether it was done.
    pub unsettled: bool,
}

impl Failure {
    /// A failure without a server.
    pub fn new(exit: u8, what: impl Into<String>) -> Self {
        Self {
            exit,
            what: what.into(),
            target: None,
            request: None,
            remote_code: None,
            remark: None,
            why: None,
            hint: None,
            unsettled: false,
        }
    }

    /// Wrong usage.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(USAGE, what)
    }

    /// The verdict over several targets: fine without failures, the failure itself when nothing succeeded, else
    /// [`PARTIAL`] with all of them.
    pub fn over(failures: &[Self], some_succeeded: bool) -> Result<(), Self> {
        match failures {
            [] => Ok(()),
            [only] if !some_succeeded => Err(only.clone()),
            [first, ..] => {
                let exit = if some_succeeded { PARTIAL } else { first.exit };
                let mut lines: Vec<String> = failures
                    .iter()
                    .map(|f| match &f.target {
                        Some(target) if f.remote_code.is_some() => format!("{target}: {}", f.line()),
                        _ => f.what.clone(),
                    })
                    .collect();
                // What all of them have in common is told once.
                if let Some(why) = &first.why
                    && failures.iter().all(|f| f.why.as_ref() == Some(why))
                {
                    lines.push(why.clone());
                }
                let what = match failures.len() {
                    1 => "one target failed".to_owned(),
                    n => format!("{} failed", counted(n, "target")),
                };
                Err(Self::new(exit, what).because(lines.join("\n       ")))
            }
        }
    }

    /// A server itself said no.
    pub fn refused(request: &str, server: &str, refused: &Refused) -> Self {
        let base = Self {
            target: Some(server.to_owned()),
            request: Some(request.to_owned()),
            ..Self::new(REJECTED, String::new())
        };
        remote(base, refused.code, &refused.remark, server)
    }

    /// Adds why this happens.
    #[must_use]
    pub fn because(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// Says that nothing was changed.
    #[must_use]
    pub fn unchanged(mut self) -> Self {
        self.what.push_str("; nothing was changed");
        self
    }

    /// Says that the change may have been made all the same.
    #[must_use]
    pub fn unsettled(mut self) -> Self {
        self.unsettled = true;
        self.what.push_str("; whether it was done is not known");
        self
    }

    /// Adds what was seen afterwards.
    #[must_use]
    pub fn seen(mut self, what: &str) -> Self {
        self.what.push_str("; ");
        self.what.push_str(what);
        self
    }

    /// Adds the next command.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The lines for a person, without a trailing newline.
    pub fn text(&self) -> String {
        let mut out = self.what.clone();
        if let (Some(target), Some(request)) = (&self.target, &self.request) {
            let _ = write!(out, "\n       asked {target} for {request}");
        } else if let Some(target) = &self.target {
            let _ = write!(out, "\n       asked {target}");
        }
        if let Some(code) = self.remote_code {
            let name = codes::name(code).unwrap_or("unknown code");
            let _ = write!(out, "\n       answer {code} {name}");
            if let Some(remark) = self.remark.as_deref().filter(|r| !r.is_empty()) {
                let _ = write!(out, ": {}", remark.trim().replace('\n', "\n       "));
            }
        }
        if let Some(why) = &self.why {
            let _ = write!(out, "\n       {why}");
        }
        if let Some(hint) = &self.hint {
            let _ = write!(out, "\n       Try: {hint}");
        }
        out
    }

    /// The same in one line, for a row or a warning.
    pub fn line(&self) -> String {
        match (self.remote_code, self.remark.as_deref()) {
            (Some(code), remark) => {
                let name = codes::name(code).unwrap_or("?");
                let remark = remark
                    .unwrap_or("")
                    .lines()
                    .next()
                    .unwrap_or("")
                    .trim()
                    .to_owned();
                if remark.is_empty() {
                    format!("{code} {name}")
                } else {
                    format!("{code} {name}: {remark}")
                }
            }
            _ => self.what.clone(),
        }
    }

    /// `{"kind":…}`, as it stands under `error` and `errors`.
    pub fn json(&self) -> Value {
        let mut out = Map::new();
        out.insert("kind".into(), json!(kind(self.exit)));
        out.insert("code".into(), json!(self.exit));
        out.insert("message".into(), json!(self.what));
        out.insert("remote_code".into(), json!(self.remote_code));
        out.insert(
            "remote_code_name".into(),
            json!(self.remote_code.and_then(codes::name)),
        );
        out.insert("remark".into(), json!(self.remark));
        out.insert("target".into(), json!(self.target));
        out.insert("request".into(), json!(self.request));
        out.insert("why".into(), json!(self.why));
        out.insert("hint".into(), json!(self.hint));
        out.insert("unsettled".into(), json!(self.unsettled));
        Value::Object(out)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

impl From<anyhow::Error> for Failure {
    fn from(e: anyhow::Error) -> Self {
        Self::new(INTERNAL, chain(&e))
    }
}

/// An error with its causes on one line; a cause that the text before it quotes already is not repeated.
pub fn chain(e: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in e.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            let _ = write!(text, ": {cause}");
        }
    }
    text
}

impl From<std::io::Error> for Failure {
    /// A reader that has seen enough closes the pipe: that is a normal end.
    fn from(e: std::io::Error) -> Self {
        let exit = if e.kind() == std::io::ErrorKind::BrokenPipe {
            DONE
        } else {
            INTERNAL
        };
        Self::new(exit, e.to_string())
    }
}

impl From<client::Error> for Failure {
    fn from(e: client::Error) -> Self {
        Self::from(&e)
    }
}

impl From<&client::Error> for Failure {
    fn from(e: &client::Error) -> Self {
        let failure = told(e);
        match e.is_in_doubt() {
            true => failure.unsettled(),
            false => failure,
        }
    }
}

/// What a failure is to an operator.
fn told(e: &client::Error) -> Failure {
    use client::Error;
    match e {
        Error::NoNameServer { tried } => {
            let list: Vec<String> = tried
                .iter()
                .map(|(addr, error)| format!("{addr}: {}", reason(error)))
                .collect();
            Failure {
                target: None,
                ..Failure::new(CONNECTION, "no name server could be reached")
                    .because(list.join("\n       "))
                    .hint("rmq config test, or name one with --namesrv HOST:PORT")
            }
        }
        Error::Call {
            request,
            server,
            source,
            ..
        } => call(request, &server.to_string(), source),
        Error::Guarded { request, code } => Failure {
            request: Some((*request).to_owned()),
            ..Failure::new(
                PRECONDITION,
                format!("request {code} {request} can change state and is not sent by a read-only client"),
            )
        },
        Error::NotFound {
            noun,
            name,
            searched,
            similar,
        } => {
            let mut failure = Failure::new(NOT_FOUND, format!("{noun} \"{name}\" was not found"));
            if !searched.is_empty() {
                failure.what = format!("{} on {searched}", failure.what);
            }
            if !similar.is_empty() {
                failure.why = Some(format!("Similar: {}.", similar.join(", ")));
            }
            failure.hint(format!("rmq {noun} list"))
        }
        Error::Ambiguous { what, names } => Failure::usage(format!("{what}: {}", names.join(", ")))
            .because("A change needs one cluster or named brokers.")
            .hint("--cluster NAME or --broker NAME"),
        Error::Invalid { .. } => Failure::usage(e.to_string()),
        Error::Static(_) => Failure::new(PRECONDITION, e.to_string())
            .because(
                "Its clients commit by logical queue; a broker keeps the position where the message was.",
            )
            .hint("rmq group lag GROUP --topic TOPIC, which tells positions in static topics"),
        Error::Answer { server, .. } => Failure {
            target: Some(server.to_string()),
            ..Failure::new(REJECTED, e.to_string())
        },
    }
}

impl From<client::resent::Error> for Failure {
    fn from(e: client::resent::Error) -> Self {
        match e {
            client::resent::Error::Read { .. } => Self::usage(e.to_string()),
            client::resent::Error::Write { .. } => Self::new(PRECONDITION, e.to_string()),
        }
    }
}

fn call(request: &str, server: &str, whole: &CallError) -> Failure {
    let base = |exit, what: String| Failure {
        target: Some(server.to_owned()),
        request: Some(request.to_owned()),
        ..Failure::new(exit, what)
    };
    match whole {
        CallError::Connect { .. } => base(
            CONNECTION,
            format!("{server} does not accept connections ({})", reason(whole)),
        )
        .because("It may be stopped, or its registered address may not be reachable from here.")
        .hint("rmq namesrv list; a container's address is mapped with --broker-map FROM=TO"),
        CallError::Closed { .. } => base(
            CONNECTION,
            format!("{server} closed the connection before it answered"),
        )
        .because("It stopped or starts anew, or it wants TLS, or none.")
        .hint("rmq doctor --checks NS1,BR1"),
        CallError::TimedOut { after, .. } => base(
            TIMEOUT,
            format!("{server} did not answer within {}", super::time::duration(*after)),
        )
        .because("It may be overloaded or hanging.")
        .hint("a longer --timeout"),
        CallError::NoTime { .. } => base(
            TIMEOUT,
            format!("{server} was not asked: the time of the command was used up before"),
        )
        .hint("a longer --deadline, or a longer --timeout where none was given"),
        CallError::Busy { .. } => {
            base(REJECTED, format!("too many calls are waiting for {server}")).hint("a smaller --parallel")
        }
        CallError::Remote { code, remark, .. } => {
            remote(base(REJECTED, String::new()), *code, remark, server)
        }
        CallError::Protocol { source, .. } => base(
            REJECTED,
            format!("the answer of {server} could not be read: {source}"),
        )
        .because("It may be no RocketMQ server, or one whose answers this rmq does not know.")
        .hint("the same command with -vv"),
        CallError::Unsendable { source, .. } => {
            base(USAGE, format!("nothing was sent to {server}: {source}"))
        }
    }
}

fn remote(mut failure: Failure, code: i32, remark: &str, server: &str) -> Failure {
    let request = failure.request.as_deref().unwrap_or_default();
    let meaning = answers::meaning(code, remark, request);
    failure.remote_code = Some(code);
    failure.remark = Some(remark.trim().to_owned());
    failure.exit = meaning.exit;
    failure.what = format!("{server} {}", meaning.what);
    failure.why = Some(meaning.why.to_owned());
    // A server is `NAME ADDRESS`, or its address alone.
    let addr = server.rsplit(' ').next().unwrap_or(server);
    failure.hint = Some(meaning.next.replace("BROKER", addr));
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_distinct() {
        let mut codes: Vec<u8> = CODES.iter().map(|c| c.0).collect();
        codes.dedup();
        assert_eq!(codes.len(), CODES.len());
    }

    #[test]
    fn a_remote_failure_keeps_code_name_remark_and_server() {
        let source = CallError::Remote {
            addr: "127.0.0.1:1".into(),
            code: 17,
            remark: "No topic".into(),
        };
        let failure = call("GET_TOPIC_CONFIG", "broker-a 127.0.0.1:1", &source);
        let text = failure.text();
        for part in [
            "broker-a 127.0.0.1:1",
            "GET_TOPIC_CONFIG",
            "17 TOPIC_NOT_EXIST",
            "No topic",
        ] {
            assert!(text.contains(part), "{part} is missing in {text}");
        }
        assert_eq!(failure.exit, NOT_FOUND);
        assert_eq!(failure.json()["remote_code"], 17);
    }
}
