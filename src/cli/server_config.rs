//! Configurations of brokers, name servers and controllers: shown, and changed with a look before and after.

use std::collections::BTreeMap;

use super::change::{self, Class, Outcome, Plan, Step, Unread};
use super::exit::{self, Failure};
use super::output::{Listing, col, wide};
use super::session::Session;
use super::watch::Rows;
use crate::client::admin::config::{ConfigOf, is_secret, shown};
use crate::client::{Server, similar};

/// `k=v`
pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("\"{text}\" is not KEY=VALUE")),
    }
}

fn unknown_key(of: ConfigOf, key: &str, known: &BTreeMap<String, String>, server: &Server) -> Failure {
    let near = similar(key, known.keys().map(String::as_str));
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!("{server} has no configuration key \"{key}\""),
    );
    let failure = if near.is_empty() {
        failure
    } else {
        failure.because(format!("Similar: {}.", near.join(", ")))
    };
    let name = match of {
        ConfigOf::Broker => format!(" {}", server.name.as_ref().unwrap_or(&server.addr)),
        ConfigOf::NameServer | ConfigOf::Controller => String::new(),
    };
    failure.hint(format!("rmq {} get-config{name}", of.noun()))
}

/// What a server of another kind answers is told as what is missing.
pub fn explained(of: ConfigOf, failure: Failure) -> Failure {
    match of {
        ConfigOf::Controller if failure.exit == exit::UNSUPPORTED => failure.because(
            "This needs a controller (enableControllerInNamesrv=true on a name server, or mqcontroller); \
             it is neither a broker nor a plain name server.",
        ),
        _ => failure,
    }
}

/// Every key, or some, of each server; one row a key and server.
pub async fn get(
    session: &Session,
    (of, kind, noun): (ConfigOf, &'static str, &'static str),
    servers: Vec<Server>,
    keys: &[String],
) -> Result<Rows, Failure> {
    let client = &session.client;
    let several = servers.len() > 1;
    let answers = client
        .each(servers, |server| async move {
            let config = client.server_config(of, &server, client.deadline()).await;
            (server, config)
        })
        .await;
    let mut listing = Listing::new(
        kind,
        &[
            col("key"),
            col("value"),
            if several { col(noun) } else { wide(noun) },
            // False for a value that waits for the server's next start, and for a key that it does not know; empty where the
            // server does not tell.
            wide("in_force"),
        ],
    );
    let mut found = false;
    for (server, config) in answers {
        match config {
            Ok(config) => {
                for key in keys {
                    if !config.entries.contains_key(key) {
                        listing
                            .errors
                            .push(unknown_key(of, key, &config.entries, &server));
                    }
                }
                for (key, value) in &config.entries {
                    if keys.is_empty() || keys.contains(key) {
                        found = true;
                        let waits = config.is_waiting(key);
                        if waits == Some(true) {
                            session.note(&format!("{key} of {server} is in force from its next start on"));
                        }
                        let idle = config.is_without_effect(key);
                        if idle && !keys.is_empty() {
                            session.note(&format!(
                                "{key} is kept and has no effect on {server}, which does not know it: a misspelling, or a key of Java's"
                            ));
                        }
                        listing.push(vec![
                            key.as_str().into(),
                            shown(key, value).into(),
                            server.name.clone().unwrap_or_else(|| server.addr.clone()).into(),
                            waits.map(|waits| !waits && !idle).into(),
                        ]);
                    }
                }
            }
            Err(e) => listing.errors.push(explained(of, Failure::from(&e))),
        }
    }
    Ok(Rows {
        listing,
        some_answered: found,
    })
}

/// A server whose configuration is changed.
pub struct Target {
    /// Where it is.
    pub server: Server,
    /// The command before the pairs that undo the change.
    pub undo: String,
}

/// What becomes of a target: its changes, or why it could not be read.
struct Work {
    server: Server,
    changes: Vec<(String, String)>,
    /// What each change is worth when it is not for good and at once.
    worth: Vec<Option<&'static str>>,
}

/// Changes keys on every target: unknown keys and values of the wrong type are refused before anything is written, each
/// key is read back.
pub async fn set(
    session: &Session,
    of: ConfigOf,
    (action, object, cluster): (String, String, String),
    targets: Vec<Target>,
    changes: &[(String, String)],
) -> Result<(), Failure> {
    let client = &session.client;
    let mut plan = Plan {
        action,
        object,
        cluster,
        class: Class::B,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let read = client
        .each(targets, |target| async move {
            let config = client.server_config(of, &target.server, client.deadline()).await;
            (target, config)
        })
        .await;
    let (mut work, mut undo, mut unread) = (Vec::new(), Vec::new(), Vec::new());
    let mut waiting: Vec<&str> = Vec::new();
    for (target, config) in read {
        let config = match config {
            Ok(config) => config,
            Err(e) => {
                unread.push(Unread::at(&target.server, explained(of, Failure::from(&e))));
                continue;
            }
        };
        let (mut differing, mut back, mut worth) = (Vec::new(), Vec::new(), Vec::new());
        for (key, after) in changes {
            let now = config
                .entries
                .get(key)
                .ok_or_else(|| unknown_key(of, key, &config.entries, &target.server))?;
            config.check(key, now, after).map_err(Failure::usage)?;
            if now == after {
                continue;
            }
            let waits = config.waits_for_start(key);
            if waits && config.forgets() {
                return Err(Failure::new(
                    exit::PRECONDITION,
                    format!("{key} of {} was not changed: it would have no effect", target.server),
                )
                .because("The server reads it at its start, and keeps no change over that: its configStorePath is empty.")
                .hint("start it with -c FILE, or with --set configStorePath=FILE"));
            }
            if waits && !waiting.contains(&key.as_str()) {
                waiting.push(key);
            }
            worth.push(if config.is_without_effect(key) {
                Some("and has no effect: the server does not know it")
            } else if waits {
                Some("from its next start on")
            } else if config.forgets() {
                Some("until its next start")
            } else {
                None
            });
            plan.steps.push(Step {
                target: target.server.to_string(),
                field: key.clone(),
                before: shown(key, now),
                after: shown(key, after),
            });
            differing.push((key.clone(), after.clone()));
            if !is_secret(key) {
                back.push(super::quoted(&format!("{key}={now}")));
            }
        }
        if !differing.is_empty() {
            if !back.is_empty() {
                undo.push(format!("{} {}", target.undo, back.join(" ")));
            }
            work.push(Work {
                server: target.server,
                changes: differing,
                worth,
            });
        }
    }
    if !waiting.is_empty() {
        plan.impact.push(format!(
            "takes effect only at the next start of the {}: {}",
            match of {
                ConfigOf::Broker => "broker",
                ConfigOf::NameServer => "name server",
                ConfigOf::Controller => "controller",
            },
            waiting.join(", ")
        ));
    }
    if of == ConfigOf::Broker && !work.is_empty() {
        plan.impact.push(
            client
                .use_of_brokers(work.iter().map(|one| one.server.clone()))
                .await,
        );
    }
    let undo = (!undo.is_empty()).then(|| undo.join(" && "));
    let unread = ("configuration", unread);
    change::each(session, plan, unread, work, undo, |work| async move {
        let deadline = client.deadline();
        let written = client
            .set_server_config(of, &work.server, &work.changes, deadline)
            .await;
        let written = written.map_err(Failure::from);
        // One look for all keys, and only where something may be written.
        let now = match &written {
            Err(failure) if !failure.unsettled => Ok(BTreeMap::new()),
            _ => client
                .server_config(of, &work.server, client.deadline())
                .await
                .map(|config| config.entries)
                .map_err(Failure::from),
        };
        let mut outcomes = Vec::new();
        for ((key, wanted), worth) in work.changes.iter().zip(work.worth) {
            let differs = now.as_ref().map(|now| differs(now, key, wanted));
            let read_back = std::future::ready(differs.map_err(Clone::clone));
            outcomes.push(match (change::proof(written.clone(), read_back).await, worth) {
                (Outcome::Done, Some(worth)) => Outcome::DoneBut(worth.to_owned()),
                (outcome, _) => outcome,
            });
        }
        outcomes
    })
    .await
}

/// What a configuration has in the place of a wanted value.
fn differs(now: &BTreeMap<String, String>, key: &str, wanted: &str) -> Option<String> {
    match now.get(key) {
        Some(value) if value == wanted => None,
        Some(value) => Some(format!("reads back {}", shown(key, value))),
        None => Some("reads back nothing".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_read_back_is_not_done() {
        let now = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
        assert_eq!(differs(&now, "a", "1"), None);
        assert_eq!(differs(&now, "a", "2").as_deref(), Some("reads back 1"));
        assert_eq!(differs(&now, "b", "2").as_deref(), Some("reads back nothing"));
    }
}
