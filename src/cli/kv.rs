//! `rmq kv`: the key-value store of the name servers. Each keeps its own copy; a change goes to all of them.

use std::collections::BTreeMap;

use clap::Subcommand;

use super::change::{self, Class, Plan, Step, Unread};
use super::exit::{self, Failure};
use super::output::{Detail, Listing, col};
use super::quoted;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::namesrv::ORDER_NAMESPACE;
use crate::client::similar;

/// Commands on the KV store.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the entries of a namespace, and which name servers have them
    List {
        /// Namespace; name servers have no list of these
        #[arg(default_value = ORDER_NAMESPACE)]
        namespace: String,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show one value
    Get {
        /// Namespace
        namespace: String,
        /// Key
        key: String,
    },
    /// Set a value on every name server
    Set {
        /// Namespace
        namespace: String,
        /// Key
        key: String,
        /// Value
        value: String,
    },
    /// Remove a value from every name server
    Delete {
        /// Namespace
        namespace: String,
        /// Key
        key: String,
    },
}

/// Runs a KV command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { namespace, watch } => {
            watch::print(session, &watch, || list(session, &namespace)).await
        }
        Command::Get { namespace, key } => get(session, &namespace, &key).await,
        Command::Set {
            namespace,
            key,
            value,
        } => set(session, &namespace, &key, Some(value)).await,
        Command::Delete { namespace, key } => set(session, &namespace, &key, None).await,
    }
}

async fn list(session: &Session, namespace: &str) -> Result<Rows, Failure> {
    let client = &session.client;
    let answers = client
        .each(client.name_servers().to_vec(), |addr| async move {
            let table = client.kv_list(&addr, namespace, client.deadline()).await;
            (addr, table)
        })
        .await;
    let mut listing = Listing::new("KvList", &[col("key"), col("value"), col("namesrv")]);
    let mut rows: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    let mut some_answered = false;
    for (addr, table) in answers {
        match table {
            Ok(table) => {
                some_answered = true;
                for entry in table.unwrap_or_default() {
                    rows.entry(entry).or_default().push(addr.clone());
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    for ((key, value), addrs) in rows {
        listing.push(vec![key.into(), value.into(), addrs.into()]);
    }
    Ok(Rows {
        listing,
        some_answered,
    })
}

/// The value at each name server, or why it was not told.
type Values = Vec<(String, Result<Option<String>, Failure>)>;

async fn values(session: &Session, namespace: &str, key: &str) -> Values {
    let client = &session.client;
    client
        .each(client.name_servers().to_vec(), |addr| async move {
            let value = client.kv_get(&addr, namespace, key, client.deadline()).await;
            (addr, value.map_err(|e| Failure::from(&e)))
        })
        .await
}

async fn get(session: &Session, namespace: &str, key: &str) -> Result<(), Failure> {
    let values = values(session, namespace, key).await;
    let failures: Vec<Failure> = values
        .iter()
        .filter_map(|(_, v)| v.as_ref().err().cloned())
        .collect();
    let told: Vec<(&String, Option<&String>)> = values
        .iter()
        .filter_map(|(addr, v)| Some((addr, v.as_ref().ok()?.as_ref())))
        .collect();
    let Some(value) = told.iter().find_map(|(_, value)| *value) else {
        if told.is_empty() {
            Failure::over(&failures, false)?;
        }
        return Err(absent(session, namespace, key).await);
    };
    let mut at = Listing::new("KvAt", &[col("namesrv"), col("value")]);
    at.ordered = true;
    for (addr, value) in &told {
        at.push(vec![addr.as_str().into(), value.cloned().into()]);
    }
    if told.iter().any(|(_, other)| *other != Some(value)) {
        session.warn("the name servers do not have the same value");
    }
    session.printer.print_detail(Detail {
        kind: "Kv",
        fields: vec![
            ("value", value.as_str().into()),
            ("namespace", namespace.into()),
            ("key", key.into()),
        ],
        tables: vec![("name_servers", at)],
        errors: failures.clone(),
    })?;
    Failure::over(&failures, true)
}

/// What to say of a key that nobody has.
async fn absent(session: &Session, namespace: &str, key: &str) -> Failure {
    let known = list(session, namespace).await.map(|rows| rows.listing.rows);
    let known: Vec<String> = known
        .unwrap_or_default()
        .into_iter()
        .filter_map(|row| match row.into_iter().next() {
            Some(super::output::Cell::Text(key)) => Some(key),
            _ => None,
        })
        .collect();
    let near = similar(key, known.iter().map(String::as_str));
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!("no name server has key \"{key}\" in namespace {namespace}"),
    )
    .hint(format!("rmq kv list {}", quoted(namespace)));
    if near.is_empty() {
        failure
    } else {
        failure.because(format!("Similar: {}.", near.join(", ")))
    }
}

async fn set(session: &Session, namespace: &str, key: &str, value: Option<String>) -> Result<(), Failure> {
    if namespace.trim().is_empty() || key.trim().is_empty() {
        return Err(Failure::usage("a namespace and a key are not empty"));
    }
    let client = &session.client;
    let text = |value: Option<&String>| value.cloned().unwrap_or_else(|| "absent".to_owned());
    let read = values(session, namespace, key).await;
    client.take_dead_name_servers();
    if value.is_none()
        && read.iter().any(|(_, v)| v.is_ok())
        && read.iter().all(|(_, v)| !matches!(v, Ok(Some(_))))
    {
        return Err(absent(session, namespace, key).await);
    }
    let mut plan = Plan {
        action: match &value {
            Some(_) => format!("set {namespace} {key}"),
            None => format!("delete {namespace} {key}"),
        },
        object: key.to_owned(),
        cluster: session.cluster.clone().unwrap_or_default(),
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    if namespace == ORDER_NAMESPACE {
        plan.impact
            .push("clients of an order topic follow it at their next look at the route".into());
    }
    let everyone = read.len();
    let (mut work, mut unread, mut was) = (Vec::new(), Vec::new(), Vec::new());
    for (addr, now) in read {
        match now {
            Ok(now) if now == value => {}
            Ok(now) => {
                plan.steps.push(Step {
                    target: format!("name server {addr}"),
                    field: format!("{namespace} {key}"),
                    before: text(now.as_ref()),
                    after: text(value.as_ref()),
                });
                was.push((addr.clone(), now));
                work.push(addr);
            }
            Err(failure) => unread.push(Unread::at(format!("name server {addr}"), failure)),
        }
    }
    let words = format!("{} {}", quoted(namespace), quoted(key));
    let undo = undo(everyone, was, |before| match before {
        Some(before) => format!("kv set {words} {}", quoted(before)),
        None => format!("kv delete {words}"),
    });
    let (wanted, field) = (value.as_deref(), format!("{namespace} {key}"));
    let unread = (field.as_str(), unread);
    change::each(session, plan, unread, work, Some(undo), |addr| async move {
        let deadline = client.deadline();
        let written = client.kv_set(&addr, (namespace, key), wanted, deadline).await;
        let read_back = async {
            let now = client.kv_get(&addr, namespace, key, client.deadline()).await?;
            let differs = now.as_deref() != wanted;
            Ok(differs.then(|| format!("reads back {}", now.as_deref().unwrap_or("nothing"))))
        };
        vec![change::proof(written, read_back).await]
    })
    .await
}

/// The commands that give name servers back what they had. `was` has those that are written, `command` is what follows
/// `rmq` for a value. One command does when all `everyone` of them had the same; else each value has a command of its own,
/// for the name servers that had it.
pub(super) fn undo(
    everyone: usize,
    was: Vec<(String, Option<String>)>,
    command: impl Fn(Option<&str>) -> String,
) -> String {
    let written = was.len();
    let mut by_value: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
    for (addr, value) in was {
        by_value.entry(value).or_default().push(addr);
    }
    if by_value.len() == 1 && written == everyone {
        let value = by_value.into_keys().next().flatten();
        return format!("rmq {}", command(value.as_deref()));
    }
    let commands = by_value.into_iter().map(|(value, addrs)| {
        let addrs = quoted(&addrs.join(";"));
        format!("rmq -n {addrs} {}", command(value.as_deref()))
    });
    commands.collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_server_gets_its_own_value_back() {
        let was = |list: &[(&str, Option<&str>)]| -> Vec<(String, Option<String>)> {
            let owned = |(addr, value): &(&str, Option<&str>)| ((*addr).to_owned(), value.map(str::to_owned));
            list.iter().map(owned).collect()
        };
        let command = |value: Option<&str>| match value {
            Some(value) => format!("set {value}"),
            None => "delete".to_owned(),
        };
        let same = was(&[("n1:1", Some("a")), ("n2:1", Some("a"))]);
        assert_eq!(undo(2, same.clone(), command), "rmq set a");
        assert_eq!(
            undo(3, same, command),
            "rmq -n 'n1:1;n2:1' set a",
            "the third one is not touched"
        );
        let differing = was(&[("n1:1", Some("a")), ("n2:1", None), ("n3:1", Some("a"))]);
        assert_eq!(
            undo(3, differing, command),
            "rmq -n n2:1 delete && rmq -n 'n1:1;n3:1' set a"
        );
    }
}
