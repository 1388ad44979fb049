//! `rmq broker container add|remove`: brokers inside a Java broker container.

use clap::Subcommand;

use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::session::Session;
use crate::client::{Error, Server};

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

/// Runs a command on a container.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    let client = &session.client;
    let (container, field, after, class) = match &command {
        Command::Add {
            container,
            broker_config,
        } => (
            container.clone(),
            "broker".to_owned(),
            format!("started from {broker_config}"),
            Class::A,
        ),
        Command::Remove { container, broker } => (
            container.clone(),
            format!("broker {}:{}:{}", broker.cluster, broker.name, broker.id),
            "stopped".to_owned(),
            Class::B,
        ),
    };
    let server = Server::at(container.as_str());
    let plan = Plan {
        action: match class {
            Class::A => format!("add a broker to container {container}"),
            Class::B | Class::C => format!("remove a broker from container {container}"),
        },
        object: container.clone(),
        cluster: match &command {
            Command::Add { .. } => String::new(),
            Command::Remove { broker, .. } => broker.cluster.clone(),
        },
        class,
        steps: vec![Step {
            target: server.to_string(),
            field,
            before: "-".into(),
            after,
        }],
        impact: Vec::new(),
    };
    change::execute(session, plan, None, async |_| {
        let deadline = client.deadline();
        let done = match &command {
            Command::Add { broker_config, .. } => {
                client.add_to_container(&server, broker_config, deadline).await
            }
            Command::Remove { broker, .. } => {
                let id = (broker.cluster.as_str(), broker.name.as_str(), broker.id);
                client.remove_from_container(&server, id, deadline).await
            }
        };
        vec![match done {
            Ok(()) => Outcome::Done,
            Err(e) => Outcome::Failed(explained(&e)),
        }]
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
