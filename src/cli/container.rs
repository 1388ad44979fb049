//! `rmq broker container add|remove`: brokers inside a Java broker container.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::Subcommand;
use tokio::time::Instant;

use super::change::{self, Class, Plan, Step, Undo};
use super::exit::{self, Failure};
use super::quoted;
use super::session::Session;
use crate::client::snapshot::BrokerId;
use crate::client::{BrokerAt, Error, Server};

/// `CLUSTER:NAME:ID`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    cluster: String,
    name: String,
    id: i64,
}

impl std::str::FromStr for Inside {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not CLUSTER:NAME:ID");
        let mut parts = text.split(':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(cluster), Some(name), Some(id), None) if !cluster.is_empty() && !name.is_empty() => {
                let id = id.parse().ok().filter(|id| *id >= 0).ok_or_else(wrong)?;
                Ok(Self {
                    cluster: cluster.to_owned(),
                    name: name.to_owned(),
                    id,
                })
            }
            _ => Err(wrong()),
        }
    }
}

/// Commands on containers.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Start a broker inside a container
    Add {
        /// Address of the container, HOST:PORT
        container: String,
        /// Broker configuration file on the container's machine
        #[arg(long, value_name = "PATH")]
        broker_config: String,
    },
    /// Stop a broker inside a container
    Remove {
        /// Address of the container, HOST:PORT
        container: String,
        /// CLUSTER:NAME:ID
        broker: Inside,
    },
}

fn explained(e: &Error) -> Failure {
    let failure = Failure::from(e);
    if failure.exit == exit::UNSUPPORTED {
        failure.because(
            "This needs a Java broker container (mqbrokercontainer); an ordinary broker, Java's or rmq's, holds one broker.",
        )
    } else {
        failure
    }
}

/// Brokers that the name servers list.
struct Registered {
    brokers: BTreeSet<BrokerAt>,
    /// Name servers that did not answer: what they list is not known.
    silent: Vec<String>,
}

/// Brokers that the name servers list; why not, when none of them answers.
async fn listed(session: &Session) -> Result<Registered, Failure> {
    let client = &session.client;
    let tables = client
        .each(client.name_servers().to_vec(), |addr| async move {
            let table = client.look_cluster(&addr, client.deadline()).await;
            (addr, table)
        })
        .await;
    client.take_dead_name_servers();
    let (mut found, mut failure, mut answered) = (BTreeSet::new(), None, false);
    let mut silent = Vec::new();
    for (addr, table) in tables {
        match table {
            Ok((table, _)) => {
                answered = true;
                found.extend(table.listed.into_iter().map(|listed| BrokerAt {
                    id: listed.broker,
                    addr: listed.addr,
                }));
            }
            Err(e) => {
                silent.push(format!("name server {addr} does not say: {}", e.reason()));
                failure = Some(Failure::from(&e));
            }
        }
    }
    match failure {
        Some(failure) if !answered => Err(failure),
        _ => Ok(Registered {
            brokers: found,
            silent,
        }),
    }
}

/// The file that a broker inside a container was started from.
async fn started_from(session: &Session, broker: &BrokerAt) -> Option<String> {
    let client = &session.client;
    let config = client.broker_config(&broker.server(), client.deadline()).await;
    config
        .ok()?
        .remove("brokerConfigPath")
        .filter(|path| !path.is_empty())
}

/// Looks at what the name servers list until `look` gives something or the time of a request is over; then says `otherwise`,
/// or who does not answer.
async fn until_listed<T>(
    session: &Session,
    otherwise: &str,
    look: impl AsyncFn(Registered) -> Option<T>,
) -> Result<T, String> {
    let end = Instant::now() + session.timeout;
    let mut pause = Duration::from_millis(20);
    loop {
        let why = match listed(session).await {
            Ok(now) => {
                let silent = now.silent.clone();
                match look(now).await {
                    Some(found) => return Ok(found),
                    None if silent.is_empty() => otherwise.to_owned(),
                    None => silent.join("; "),
                }
            }
            Err(failure) => failure.line(),
        };
        if Instant::now() + pause >= end {
            return Err(why);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

/// What a container's answer is worth, before what the name servers show.
fn yes(answer: &Result<(), Error>) -> &'static str {
    match answer {
        Ok(()) => "the container says yes; ",
        Err(_) => "",
    }
}

/// Runs a command on a container.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Add {
            container,
            broker_config,
        } => add(session, &container, &broker_config).await,
        Command::Remove { container, broker } => remove(session, &container, &broker).await,
    }
}

fn plan(
    action: String,
    container: &Server,
    class: Class,
    (field, before, after): (&str, String, String),
) -> Plan {
    Plan {
        action,
        object: container.addr.clone(),
        cluster: String::new(),
        class,
        steps: vec![Step {
            target: container.to_string(),
            field: field.to_owned(),
            before,
            after,
        }],
        impact: Vec::new(),
    }
}

async fn add(session: &Session, container: &str, path: &str) -> Result<(), Failure> {
    let (client, server) = (&session.client, Server::at(container));
    let mut plan = plan(
        format!("add a broker to container {container}"),
        &server,
        Class::A,
        ("broker", "-".into(), format!("started from {path}")),
    );
    if session.dry_run {
        return change::rehearse(session, &plan, Vec::new(), 0);
    }
    change::confirm(session, &plan)?;
    // Without it a broker that has been there is not told from a new one.
    let before = listed(session).await.map_err(|failure| {
        Failure::new(
            failure.exit,
            "which brokers there are cannot be seen; nothing was changed",
        )
        .because(failure.line())
    })?;
    let added = client.add_to_container(&server, path, client.deadline()).await;
    // The container does not say whom it has started: it is the newcomer that tells this file. It starts it before it
    // answers, which takes its time.
    let before = &before;
    let none = format!("no name server lists a new broker started from {path}");
    let mut found = None;
    let yes = yes(&added);
    let read_back = async {
        let newcomer = until_listed(session, &none, async |now| {
            for broker in now
                .brokers
                .into_iter()
                .filter(|broker| !before.brokers.contains(broker))
            {
                if started_from(session, &broker).await.as_deref() == Some(path) {
                    return Some(broker);
                }
            }
            None
        });
        Ok(match newcomer.await {
            Ok(broker) => {
                found = Some(broker);
                None
            }
            Err(why) => Some(format!("{yes}{why}")),
        })
    };
    let outcome = change::proof(added.map_err(|e| explained(&e)), read_back).await;
    match found {
        Some(broker) => {
            let inside = format!("{}:{}:{}", broker.id.cluster, broker.id.name, broker.id.id);
            if let Some(step) = plan.steps.first_mut() {
                step.after = format!("{inside} at {}", broker.addr);
            }
            let undo = format!(
                "rmq broker container remove {} {}",
                quoted(container),
                quoted(&inside)
            );
            change::report(session, &plan, vec![outcome], Some(undo))
        }
        None => {
            let unknown =
                Undo::Never("which broker it is was not seen; rmq broker container remove wants its name");
            change::report(session, &plan, vec![outcome], unknown)
        }
    }
}

async fn remove(session: &Session, container: &str, inside: &Inside) -> Result<(), Failure> {
    let (client, server) = (&session.client, Server::at(container));
    let id = BrokerId {
        cluster: inside.cluster.clone(),
        name: inside.name.clone(),
        id: inside.id,
    };
    let before = listed(session).await;
    let unknown = before.is_err();
    let there = before
        .ok()
        .and_then(|before| before.brokers.into_iter().find(|broker| broker.id == id));
    let path = match &there {
        Some(broker) => started_from(session, broker).await,
        None => None,
    };
    let mut plan = plan(
        format!("remove a broker from container {container}"),
        &server,
        Class::B,
        (
            &format!("broker {}:{}:{}", inside.cluster, inside.name, inside.id),
            there.as_ref().map_or_else(
                || if unknown { "unknown" } else { "not registered" }.to_owned(),
                |broker| format!("registered at {}", broker.addr),
            ),
            "stopped".into(),
        ),
    );
    plan.cluster.clone_from(&inside.cluster);
    if let Some(broker) = &there {
        plan.impact
            .push(session.client.use_of_brokers([broker.server()]).await);
    }
    let undo = match path {
        Some(path) => Undo::Line(format!(
            "rmq broker container add {} --broker-config {}",
            quoted(container),
            quoted(&path)
        )),
        None => Undo::Never("the broker did not tell the file that it was started from"),
    };
    change::execute(session, plan, undo, async |_| {
        let wanted = (inside.cluster.as_str(), inside.name.as_str(), inside.id);
        let removed = client
            .remove_from_container(&server, wanted, client.deadline())
            .await;
        let yes = yes(&removed);
        // Each of them must say so: the one that does not may list it still.
        let read_back = async {
            let gone = until_listed(session, "a name server still lists the broker", async |now| {
                let gone = now.brokers.iter().all(|broker| broker.id != id);
                (gone && now.silent.is_empty()).then_some(())
            });
            let left = gone.await.err();
            Ok(left.map(|why| format!("{yes}{why}")))
        };
        vec![change::proof(removed.map_err(|e| explained(&e)), read_back).await]
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broker_inside_has_three_parts() {
        let broker: Inside = "C1:broker-a:0".parse().unwrap();
        assert_eq!(
            (broker.cluster.as_str(), broker.name.as_str(), broker.id),
            ("C1", "broker-a", 0)
        );
        for bad in [
            "C1:broker-a",
            "C1:broker-a:x",
            "C1:broker-a:-1",
            "::0",
            "a:b:1:2",
            "",
        ] {
            assert!(bad.parse::<Inside>().is_err(), "{bad}");
        }
    }
}
