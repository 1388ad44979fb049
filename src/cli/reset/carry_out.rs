//! Moves offsets that were agreed: question, backup, requests, read-back, undo line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Batch, MovingArgs, kept, preview};
use crate::cli::change::{self, Class, Outcome, Plan, Step};
use crate::cli::exit::{self, Failure};
use crate::cli::session::Session;
use crate::client::admin::group::is_system;
use crate::client::positions::{Method, Move, Seen, judge, method, shows, went_back};
use crate::client::{BrokerAt, Error};
use crate::protocol::model::{Language, version_name};

/// Pause between two read-backs.
const LOOK: Duration = Duration::from_secs(1);

/// Confirms, keeps the present offsets, moves, reads back, reports with the undo line.
pub async fn carry_out(
    session: &Session,
    action: String,
    brokers: &[BrokerAt],
    batches: Vec<Batch>,
    moving: &MovingArgs,
) -> Result<(), Failure> {
    let groups: BTreeSet<String> = batches.iter().map(|b| b.group.clone()).collect();
    if let Some(own) = groups.iter().find(|g| is_system(g) && !moving.force_system) {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{own} is a group of the brokers' own; nothing was changed"),
        )
        .because("Where it stands decides what timers, transactions and retries do next.")
        .hint("--force-system, when you mean it"));
    }
    let mut clusters: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
    clusters.dedup();
    let mut plan = Plan {
        action,
        object: match groups.iter().next() {
            Some(only) if groups.len() == 1 => only.clone(),
            _ => clusters.join(","),
        },
        cluster: clusters.join(","),
        class: Class::C,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let methods = methods(session, &batches).await?;
    // One job a batch and broker.
    let mut jobs: Vec<(&Batch, Method, Vec<&Move>)> = Vec::new();
    for batch in &batches {
        plan.impact.push(preview::verdict(session, batch));
        let mut by_broker: BTreeMap<&BrokerAt, Vec<&Move>> = BTreeMap::new();
        for one in batch.moves.iter().filter(|m| !m.is_still()) {
            by_broker.entry(&one.at.broker).or_default().push(one);
        }
        for (broker, moves) in by_broker {
            let server_side = methods.get(broker).copied().unwrap_or(false);
            let Some(method) = method(&batch.goal, server_side, &batch.audience) else {
                return Err(Failure::new(
                    exit::UNSUPPORTED,
                    format!(
                        "{} does not keep resets, and the clients of {} pop",
                        broker.server(),
                        batch.group
                    ),
                )
                .because("Only the broker can move pop clients.")
                .hint(format!(
                    "rmq broker set-config {} useServerSideResetOffset=true",
                    broker.id.name
                )));
            };
            plan.impact.extend(warnings(batch, broker, method));
            jobs.push((batch, method, moves));
        }
    }
    for (batch, _, moves) in &jobs {
        for one in moves {
            plan.steps.push(Step {
                target: one.at.broker.server().to_string(),
                field: format!("{} {}/{}", batch.group, batch.topic, one.at.queue),
                before: one.at.current.map_or_else(|| "none".into(), |at| at.to_string()),
                after: one.target.to_string(),
            });
        }
    }
    if plan.steps.is_empty() {
        return change::nothing(session);
    }
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let all: Vec<&Move> = jobs.iter().flat_map(|(_, _, moves)| moves).copied().collect();
    let path = kept::keep(session, brokers, &all).await?;
    session.progress(&format!("the present offsets are in {}", path.display()));
    // A first position has nothing to go back to.
    let undo = all.iter().any(|m| m.at.current.is_some());
    let undo = undo.then(|| kept::undo_line(session, &plan, &path));
    session.under_way.undone_by(undo.clone());
    for line in kept::undo_limits(&jobs) {
        session.warn(&line);
    }
    let client = &session.client;
    // All are sent, then all are watched together.
    let results = client
        .each(jobs.iter().collect(), |(_, method, moves)| async move {
            client.carry_out_moves(moves, *method).await
        })
        .await;
    let mut sent = Vec::new();
    for ((batch, method, moves), results) in jobs.iter().zip(results) {
        let watched = *method != Method::Server && !batch.audience.clients.is_empty();
        sent.extend(moves.iter().zip(results).map(|(one, result)| {
            let failure = result.err().map(|e| Failure::from(&*e));
            Sent {
                one,
                method: *method,
                watched,
                back: false,
                lost: failure.clone().filter(|failure| failure.unsettled),
                outcome: failure
                    .map_or_else(|| Outcome::Unproven("not read back yet".into()), Outcome::Failed),
            }
        }));
    }
    verify(session, &mut sent, moving.verify_wait).await;
    let outcomes = sent.into_iter().map(|s| s.outcome).collect();
    change::report(session, &plan, outcomes, undo)
}

/// Whether each broker keeps resets.
async fn methods<'a>(
    session: &Session,
    batches: &'a [Batch],
) -> Result<BTreeMap<&'a BrokerAt, bool>, Failure> {
    let brokers: BTreeSet<&BrokerAt> = batches
        .iter()
        .flat_map(|b| b.moves.iter().map(|m| &m.at.broker))
        .collect();
    let answers = session
        .client
        .each(brokers.into_iter().collect(), |broker| async move {
            let keeps = session.client.resets_on_server(&broker.server()).await?;
            Ok::<_, Error>((broker, keeps))
        })
        .await;
    Ok(answers.into_iter().collect::<Result<_, Error>>()?)
}

/// What an operator should know of clients that may not do what is asked.
fn warnings(batch: &Batch, broker: &BrokerAt, method: Method) -> Vec<String> {
    if batch.audience.clients.is_empty() || method == Method::Server {
        return Vec::new();
    }
    let name = &broker.id.name;
    if method == Method::Commit {
        return vec![format!(
            "{name} does not keep resets: running clients may commit their old positions again; stop the group first"
        )];
    }
    batch
        .audience
        .clients
        .values()
        .filter(|client| client.language != Language::Java)
        .map(|client| {
            format!(
                "{name} tells client {} ({} {}), which may not listen",
                client.client_id,
                client.language.name(),
                version_name(client.version)
            )
        })
        .collect()
}

/// A move that was sent.
struct Sent<'a> {
    one: &'a Move,
    method: Method,
    /// Running clients could undo it.
    watched: bool,
    /// Some look saw the group between the target and its old position.
    back: bool,
    /// Nobody answered it.
    lost: Option<Failure>,
    outcome: Outcome,
}

/// Reads the moved positions back, for a while where running clients could undo the move.
async fn verify(session: &Session, sent: &mut [Sent<'_>], wait: Duration) {
    let client = &session.client;
    let started = tokio::time::Instant::now();
    loop {
        let open: Vec<&mut Sent<'_>> = sent.iter_mut().filter(|s| s.outcome.may_be_written()).collect();
        if open.is_empty() {
            return;
        }
        client
            .each(open, |sent| async move {
                let at = &sent.one.at;
                let seen = client
                    .committed(
                        &at.broker.server(),
                        &at.group,
                        &at.topic,
                        at.queue,
                        client.deadline(),
                    )
                    .await;
                sent.outcome = match (seen, &sent.lost) {
                    (Ok(seen), Some(_)) if shows(sent.one, seen) => Outcome::Done,
                    (Ok(seen), Some(lost)) => {
                        let at = seen.map_or_else(|| "-".to_owned(), |at| at.to_string());
                        Outcome::Failed(lost.clone().seen(&format!("committed offset reads back {at}")))
                    }
                    (Err(e), Some(lost)) => {
                        Outcome::Failed(lost.clone().seen(&format!("not read back: {}", e.reason())))
                    }
                    (Ok(seen), None) => {
                        sent.back |= went_back(sent.one, seen);
                        match judge(sent.one, sent.method, seen, sent.back) {
                            Seen::Good => Outcome::Done,
                            Seen::Other(at) if sent.watched => Outcome::Unproven(format!(
                                "committed offset is {at}, and the group was not seen at its new position: \
                                 a running client may not have gone there; stop the group and repeat"
                            )),
                            Seen::Other(at) => Outcome::Unproven(format!("committed offset reads back {at}")),
                        }
                    }
                    (Err(e), None) => Outcome::Unproven(format!("moved, but not read back: {}", e.reason())),
                };
            })
            .await;
        let settled = sent.iter().all(|s| match s.outcome {
            Outcome::Done => !s.watched,
            _ => !s.outcome.may_be_written(),
        });
        if settled || started.elapsed() >= wait {
            return;
        }
        tokio::time::sleep(LOOK.min(wait.saturating_sub(started.elapsed()))).await;
    }
}
