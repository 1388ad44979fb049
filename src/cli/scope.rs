//! `--cluster` and `--broker`.

use clap::Args;

use super::change::Unread;
use super::exit::{self, Failure};
use super::quoted;
use super::session::Session;
use crate::client::admin::cluster::{registered, select};
use crate::client::{BrokerAt, BrokerSelector, Error, Scope, Which};

/// Which brokers a command is about.
#[derive(Debug, Clone, Default, Args)]
pub struct ScopeArgs {
    /// Only this cluster [default: the context's; reads take every cluster, changes the only one]
    #[arg(short, long, value_name = "NAME")]
    pub cluster: Option<String>,
    /// Only this broker: NAME, NAME:ID or HOST:PORT; repeatable
    #[arg(short, long, value_name = "BROKER")]
    pub broker: Vec<BrokerSelector>,
}

impl ScopeArgs {
    /// The scope, with the context's cluster where nothing is named.
    pub fn scope(&self, session: &Session) -> Result<Scope, Failure> {
        if session.all_clusters && (self.cluster.is_some() || !self.broker.is_empty()) {
            return Err(Failure::usage(
                "the scope is one of --cluster, --broker and --all-clusters",
            ));
        }
        let default = session.cluster.clone().filter(|_| self.broker.is_empty());
        Ok(Scope {
            cluster: self.cluster.clone().or(default),
            brokers: self.broker.clone(),
        })
    }

    /// The command that takes away what was created on `made` and nothing else. A whole cluster is named only where it was
    /// meant and each of its brokers was read as lacking it.
    pub fn delete_line<'a>(
        &self,
        (noun, name): (&str, &str),
        cluster: &str,
        made: impl Iterator<Item = &'a BrokerAt>,
        all_lacked: bool,
    ) -> String {
        let mut line = format!("rmq {noun} delete {name}");
        if self.broker.is_empty() && all_lacked {
            line.push_str(&format!(" --cluster {}", quoted(cluster)));
        } else {
            for broker in made {
                line.push_str(&format!(" --broker {}", broker.addr));
            }
        }
        line
    }

    /// The brokers that are meant; none is an error.
    pub async fn brokers(&self, session: &Session, which: Which) -> Result<Vec<BrokerAt>, Failure> {
        let scope = self.scope(session)?;
        let info = session.client.cluster_info().await?;
        let mut brokers = select(&info, &scope, which)?;
        if session.prefer_slave && which == Which::Masters {
            let all = registered(&info);
            for broker in &mut brokers {
                let slave = all.iter().find(|b| {
                    b.id.name == broker.id.name && b.id.cluster == broker.id.cluster && !b.id.is_master()
                });
                if let Some(slave) = slave {
                    *broker = slave.clone();
                }
            }
        }
        if brokers.is_empty() {
            return Err(
                Failure::new(super::exit::NOT_FOUND, "no broker is registered in this scope")
                    .because("The name servers know of none; a broker registers within 30 s of its start.")
                    .hint("rmq namesrv list"),
            );
        }
        Ok(brokers)
    }
}

/// A broker that a change leaves out, since it cannot be read.
pub fn unread(broker: &BrokerAt, failure: impl Into<Failure>) -> Unread {
    Unread {
        target: broker.server().to_string(),
        failure: failure.into(),
    }
}

/// The brokers that lack what is to be created, and those that cannot be read; fails when one has it.
pub fn lacking<T>(
    noun: &str,
    name: &str,
    answers: Vec<(BrokerAt, Result<Option<T>, Error>)>,
) -> Result<(Vec<BrokerAt>, Vec<Unread>), Failure> {
    let (mut there, mut absent, mut out) = (Vec::new(), Vec::new(), Vec::new());
    for (broker, answer) in answers {
        match answer {
            Ok(Some(_)) => there.push(broker.id.name),
            Ok(None) => absent.push(broker),
            Err(e) => out.push(unread(&broker, &e)),
        }
    }
    if there.is_empty() {
        return Ok((absent, out));
    }
    let what = format!("{noun} \"{name}\" exists already on {}", there.join(", "));
    Err(Failure::new(exit::PRECONDITION, what).hint(format!("rmq {noun} update {name}")))
}
