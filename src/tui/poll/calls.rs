//! The calls of the poll: what each job asks, and what its answer means for the next time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Behind, Job, Outcome, STRANDED, Target};
use crate::client::snapshot::{BrokerId, Fault};
use crate::client::stranded::Ends;
use crate::client::{CallError, Client, Deadline, Error, Server};
use crate::tui::model::{BrokerTold, ServerTold, Told};
use crate::tui::refusal::{Kind, short};

/// The answer to a job, what it means, and how long it took without the time before its turn.
pub(super) async fn ask(
    client: Arc<Client>,
    target: Target,
    (job, (read, ends)): (Job, Behind),
    deadline: Deadline,
) -> (Job, Told, Outcome, Duration) {
    let start = Instant::now();
    let (told, outcome) = match target {
        Target::NameServer(addr) => {
            let (told, outcome) = ask_name_server(&client, &addr, &job, deadline).await;
            (Told::NameServer(addr, told), outcome)
        }
        Target::Broker(id, addr) => {
            let (told, outcome) = ask_broker(&client, (&id, &addr), (&job, &read, &ends), deadline).await;
            (Told::Broker(id, told), outcome)
        }
    };
    (job, told, outcome, start.elapsed())
}

async fn ask_name_server(
    client: &Client,
    addr: &str,
    job: &Job,
    deadline: Deadline,
) -> (ServerTold, Outcome) {
    match job {
        Job::TopicNames => {
            let (answer, outcome) = judged(client.look_topic_names(addr, deadline).await);
            (ServerTold::Topics(answer), outcome)
        }
        Job::Limits => {
            let (answer, outcome) = judged(client.look_limits(addr, deadline).await);
            (ServerTold::Config(answer), outcome)
        }
        _ => {
            let (answer, outcome) = judged(client.look_cluster(addr, deadline).await);
            (ServerTold::Cluster(answer), outcome)
        }
    }
}

async fn ask_broker(
    client: &Client,
    (id, addr): (&BrokerId, &str),
    (job, read, ends): (&Job, &BTreeMap<String, i32>, &Ends),
    deadline: Deadline,
) -> (BrokerTold, Outcome) {
    let server = Server::named(id.to_string(), addr);
    match job {
        Job::Config => {
            let (answer, outcome) = judged(client.look_config(&server, deadline).await);
            (BrokerTold::Config(answer), outcome)
        }
        Job::Ha => {
            let (answer, outcome) = judged(client.broker_ha(&server, deadline).await);
            (BrokerTold::Ha(answer), outcome)
        }
        Job::Topics => {
            let (answer, outcome) = judged(client.look_topics(id, &server, deadline).await);
            (
                BrokerTold::Topics(answer.map(|(topics, version)| (topics, Some(version)))),
                outcome,
            )
        }
        Job::Lag => {
            let (answer, outcome) = judged(client.look_lag(&server, deadline).await);
            (BrokerTold::Lag(answer), outcome)
        }
        Job::Stranded => {
            let found = client.look_stranded(&server, read, (ends, STRANDED), deadline);
            let (answer, outcome) = judged(found.await);
            (BrokerTold::Stranded(answer), outcome)
        }
        Job::Half => {
            let (answer, outcome) = judged(client.look_half(&server, deadline).await);
            (BrokerTold::Half(answer), outcome)
        }
        Job::Dead(topic) => {
            let (answer, outcome) = judged(client.look_stored(&server, topic, deadline).await);
            (BrokerTold::Dead(topic.clone(), answer), outcome)
        }
        Job::Rate(topic) => {
            let (answer, outcome) = judged(client.look_topic_rate(&server, topic, deadline).await);
            (BrokerTold::TopicRate(topic.clone(), answer), outcome)
        }
        _ => {
            let (answer, outcome) = judged(client.look_runtime(&server, deadline).await);
            let answer = answer.map(|(info, took)| (Box::new(info), took));
            (BrokerTold::Runtime(answer), outcome)
        }
    }
}

/// The answer with a short reason for a cell, and what it means for the next call.
fn judged<T>(answer: Result<T, Error>) -> (Result<T, Fault>, Outcome) {
    let error = match answer {
        Ok(value) => return (Ok(value), Outcome::Answered),
        Err(error) => error,
    };
    let why = short(&error);
    let outcome = match &error {
        _ if Kind::of(&why).is_refusal() => Outcome::Refused,
        Error::Call {
            source: CallError::Busy { .. },
            ..
        } => Outcome::Skipped,
        error if error.is_unreachable() => Outcome::Unreachable,
        _ => Outcome::Answered,
    };
    let fault = Fault {
        why,
        ..Fault::from(&error)
    };
    (Err(fault), outcome)
}
