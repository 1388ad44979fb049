//! `rmq topic order get|set|unset`: the entry of an ordered topic in the name servers' store.

use clap::Subcommand;

use super::change::{self, Class, Outcome, Plan, Step, Unread, mention};
use super::exit::{self, Failure};
use super::output::{Cell, Listing, col};
use super::session::Session;
use super::topic::not_found;
use super::{kv, quoted};
use crate::protocol::body::TopicRouteData;
use crate::protocol::model::check_topic;

/// Commands on order entries.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show the entry at every name server
    Get {
        /// Topic name
        name: String,
    },
    /// Set the entry at every name server
    Set {
        /// Topic name
        name: String,
        /// Queues by broker [default: the write queues of the route]
        #[arg(value_name = "BROKER:QUEUES;…", value_parser = order_conf)]
        conf: Option<String>,
    },
    /// Remove the entry from every name server
    Unset {
        /// Topic name
        name: String,
    },
}

/// `broker-a:4;broker-b:4`
fn order_conf(text: &str) -> Result<String, String> {
    let good = text.split(';').all(|part| {
        part.split_once(':')
            .is_some_and(|(broker, queues)| !broker.trim().is_empty() && queues.trim().parse::<u16>().is_ok())
    });
    if good {
        Ok(text.to_owned())
    } else {
        Err("use BROKER:QUEUES, several joined by ;".into())
    }
}

/// The row of a name server whose order entry changes.
pub fn step(addr: &str, before: Option<&str>, after: Option<&str>) -> Step {
    Step {
        target: format!("name server {addr}"),
        field: "order_conf".into(),
        before: before.unwrap_or("absent").into(),
        after: after.unwrap_or("absent").into(),
    }
}

/// The entry that a route stands for.
pub fn of_route(route: &TopicRouteData) -> String {
    let mut parts: Vec<String> = route
        .queue_datas
        .iter()
        .map(|q| format!("{}:{}", q.broker_name, q.write_queue_nums))
        .collect();
    parts.sort();
    parts.join(";")
}

/// Runs a command on order entries.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Get { name } => get(session, &name).await,
        Command::Set { name, conf } => {
            check_topic(&name).map_err(|e| Failure::usage(format!("topic \"{name}\": {e}")))?;
            let conf = match conf {
                Some(conf) => conf,
                None => match session.client.route(&name).await? {
                    Some(route) => of_route(&route),
                    None => return Err(not_found(session, &name, String::new()).await),
                },
            };
            change(session, &name, Some(conf)).await
        }
        Command::Unset { name } => change(session, &name, None).await,
    }
}

async fn get(session: &Session, name: &str) -> Result<(), Failure> {
    let mut listing = Listing::new("TopicOrder", &[col("namesrv"), col("topic"), col("order_conf")]);
    listing.ordered = true;
    let mut found = false;
    for (addr, value) in session.client.order_conf_each(name).await {
        match value {
            Ok(value) => {
                found |= value.is_some();
                listing.push(vec![
                    addr.into(),
                    name.into(),
                    value.map_or(Cell::Unknown, Cell::Text),
                ]);
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    if !found && listing.errors.is_empty() {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("topic {name} has no order entry at any name server"),
        )
        .hint(format!("rmq topic order set {name}")));
    }
    let verdict = Failure::over(&listing.errors, !listing.rows.is_empty());
    session.printer.print(listing)?;
    verdict
}

/// Writes the entry at one name server and reads it back.
pub async fn write(session: &Session, addr: &str, topic: &str, value: Option<&str>) -> Outcome {
    let client = &session.client;
    let written = client
        .write_order_conf(addr, topic, value, client.deadline())
        .await;
    change::proof(written, async {
        let now = client.order_conf_at(addr, topic, client.deadline()).await?;
        let differs = now.as_deref() != value;
        Ok(differs.then(|| format!("it reads back {}", now.as_deref().unwrap_or("-"))))
    })
    .await
}

async fn change(session: &Session, name: &str, value: Option<String>) -> Result<(), Failure> {
    // A name server's store is shared by all its clusters.
    let cluster = match &session.cluster {
        Some(cluster) => cluster.clone(),
        None => {
            let info = session.client.cluster_info().await?;
            info.cluster_addr_table.into_keys().collect::<Vec<_>>().join(",")
        }
    };
    let mut plan = Plan {
        action: format!(
            "{} the order entry of topic {name}",
            if value.is_some() { "set" } else { "unset" }
        ),
        object: name.to_owned(),
        cluster,
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let answers = session.client.order_conf_each(name).await;
    let everyone = answers.len();
    let (mut writes, mut unread, mut was, mut answered) = (Vec::new(), Vec::new(), Vec::new(), false);
    for (addr, answer) in answers {
        let before = match answer {
            Ok(before) => before,
            Err(e) => {
                unread.push(Unread {
                    target: format!("name server {addr}"),
                    failure: Failure::from(&e),
                });
                continue;
            }
        };
        answered = true;
        if before == value {
            continue;
        }
        plan.steps.push(step(&addr, before.as_deref(), value.as_deref()));
        was.push((addr.clone(), before));
        writes.push((1, addr));
    }
    mention(&mut plan, "order_conf", &unread, answered)?;
    if writes.is_empty() && unread.is_empty() {
        return change::nothing(session);
    }
    let undo = kv::undo(everyone, was, |before| match before {
        Some(before) => format!("topic order set {} {}", quoted(name), quoted(before)),
        None => format!("topic order unset {}", quoted(name)),
    });
    let value = value.as_deref();
    change::carry_out(
        session,
        &plan,
        writes,
        unread,
        Some(undo),
        |addr: String| async move { write(session, &addr, name, value).await },
    )
    .await
}
