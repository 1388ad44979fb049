//! Carrying a plan out: look, decide, write, wait.

use std::collections::BTreeMap;

use super::begins::Begin;
use super::observe::Observer;
use super::{End, Machine, Next, Queues};
use crate::client::error::Error;
use crate::client::snapshot::BrokerId;
use crate::client::{BrokerAt, Client};

/// What happens on the way.
#[derive(Debug)]
pub enum Event<'a> {
    /// These numbers are about to be written.
    Writing(&'a [(String, Queues)]),
    /// These first positions of groups are about to be written.
    Beginning(&'a [Begin]),
    /// A write failed; it is tried again after the next look.
    Failed(&'a BrokerId, &'a Error),
    /// It waits for this.
    Waiting(&'a [String]),
    /// Something was seen or done: the machine as it is now, for keeping.
    Moved,
}

/// How a run ended.
#[derive(Debug)]
pub enum Ran {
    /// The machine ended it.
    End(End),
    /// It was stopped between two requests.
    Stopped,
}

/// Goes on until the machine ends or `stop` is ready. A write that has begun is finished first: every state in
/// between is one in which all written queues are read. `token` is that of the caller's mark: a mark of somebody else
/// ends the way before the next write.
pub async fn run<E>(
    client: &Client,
    machine: &mut Machine,
    observer: &mut Observer,
    token: &str,
    stop: impl Future<Output = ()>,
    mut tell: impl FnMut(&Machine, Event<'_>) -> Result<(), E>,
) -> Result<Ran, E> {
    tokio::pin!(stop);
    loop {
        let seen = tokio::select! {
            biased;
            () = &mut stop => return Ok(stopped(client, machine, observer).await),
            seen = observer.look(client, machine) => seen,
        };
        match machine.next(&seen) {
            Next::End(end) => {
                tell(machine, Event::Moved)?;
                return Ok(Ran::End(end));
            }
            Next::Begin(begins) => {
                tell(machine, Event::Moved)?;
                if let Some(end) = foreign(client, machine, token).await {
                    return Ok(Ran::End(end));
                }
                tell(machine, Event::Beginning(&begins))?;
                let topic = machine.plan().topic.clone();
                let targets: Vec<(BrokerAt, Begin)> = begins
                    .into_iter()
                    .filter_map(|begin| Some((observer.brokers.get(&begin.broker)?.clone(), begin)))
                    .collect();
                let done = client
                    .each(targets, |(broker, begin)| {
                        let topic = topic.as_str();
                        async move { (client.begin_at(&broker, topic, &begin).await, broker) }
                    })
                    .await;
                // One line a broker is enough.
                let failed: BTreeMap<BrokerId, Error> = done
                    .into_iter()
                    .filter_map(|(done, broker)| Some((broker.id, done.err()?)))
                    .collect();
                for (broker, e) in &failed {
                    tell(machine, Event::Failed(broker, e))?;
                }
                machine.note_failed(failed.iter().map(reason));
                if !failed.is_empty() && !paused(machine, &mut stop).await {
                    return Ok(stopped(client, machine, observer).await);
                }
            }
            Next::Write(writes) => {
                // What is about to be is kept first: a run that dies here is gone on with.
                tell(machine, Event::Moved)?;
                if let Some(end) = foreign(client, machine, token).await {
                    return Ok(Ran::End(end));
                }
                tell(machine, Event::Writing(&writes))?;
                let mut failed = BTreeMap::new();
                for (name, queues) in &writes {
                    let Some(broker) = observer.brokers.get(name) else {
                        continue;
                    };
                    if let Err(e) = write(client, machine, broker, *queues).await {
                        tell(machine, Event::Failed(&broker.id, &e))?;
                        failed.insert(broker.id.clone(), e);
                    }
                }
                machine.note_failed(failed.iter().map(reason));
                if !failed.is_empty() && !paused(machine, &mut stop).await {
                    return Ok(stopped(client, machine, observer).await);
                }
            }
            Next::Wait(what, pause) => {
                tell(machine, Event::Moved)?;
                if !what.is_empty() {
                    tell(machine, Event::Waiting(&what))?;
                }
                tokio::select! {
                    biased;
                    () = &mut stop => return Ok(stopped(client, machine, observer).await),
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
}

/// A mark of somebody else, found before a write, is the end.
async fn foreign(client: &Client, machine: &Machine, token: &str) -> Option<End> {
    let others = client.foreign_scale_marks(&machine.plan().topic, token).await;
    let lines: Vec<String> = others
        .into_iter()
        .map(|(server, text)| {
            format!("name server {server} says that somebody else scales the topic: {text}")
        })
        .collect();
    (!lines.is_empty()).then_some(End::Changed(lines))
}

fn reason((broker, error): (&BrokerId, &Error)) -> (String, String) {
    (broker.name.clone(), error.reason())
}

/// The pause between two tries; false when it was stopped in it.
async fn paused(machine: &Machine, stop: &mut (impl Future<Output = ()> + Unpin)) -> bool {
    tokio::select! {
        biased;
        () = stop => false,
        () = tokio::time::sleep(machine.settings().pause) => true,
    }
}

/// What was written since the last look shows in the state that is told.
async fn stopped(client: &Client, machine: &mut Machine, observer: &Observer) -> Ran {
    let numbers = observer.numbers(client, client.deadline()).await;
    machine.note_numbers(&numbers);
    Ran::Stopped
}

/// Changes the two numbers on a broker and nothing else.
async fn write(
    client: &Client,
    machine: &Machine,
    broker: &crate::client::BrokerAt,
    queues: Queues,
) -> Result<(), Error> {
    let topic = &machine.plan().topic;
    let deadline = client.deadline();
    let Some((before, _)) = client.topic_config(broker, topic, deadline).await? else {
        return Err(Error::NotFound {
            noun: "topic",
            name: topic.clone(),
            searched: broker.server().to_string(),
            similar: Vec::new(),
        });
    };
    if queues.read < before.read_queue_nums && queues.write < before.write_queue_nums {
        return Err(Error::Invalid {
            what: format!("topic \"{topic}\" on {}", broker.server()),
            reason: "somebody else changed it meanwhile; both numbers are never lowered at once".into(),
        });
    }
    let mut after = before.clone();
    after.read_queue_nums = queues.read;
    after.write_queue_nums = queues.write;
    client
        .write_topic(&broker.server(), Some(&before), &after, deadline)
        .await
}
