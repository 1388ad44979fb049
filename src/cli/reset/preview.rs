//! What a move of offsets would do, before it is done: each queue, and the facts that decide what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::json;

use super::{Batch, Failure, Session, kept};
use crate::cli::output::{Cell, Listing, col, less, wide};
use crate::cli::time;
use crate::client::BrokerAt;
use crate::client::positions::{Method, Move, method};
use crate::client::words::counted;

fn would(one: &Move) -> String {
    match (one.at.current, one.replays(), one.skips()) {
        (None, _, _) => format!("begin, {} to read", one.unread_of_none().unwrap_or(0)),
        (_, 0, 0) => "none".into(),
        (_, 0, skips) => format!("skip {skips}"),
        (_, replays, _) => format!("replay {replays}"),
    }
}

/// `replays 1204 messages stored since 2026-11-29 16:00:00.000, skips 0`
pub fn verdict(session: &Session, batch: &Batch) -> String {
    let replays: i64 = batch.moves.iter().map(Move::replays).sum();
    let skips: i64 = batch.moves.iter().map(Move::skips).sum();
    let since = batch
        .moves
        .iter()
        .filter(|m| m.replays() > 0)
        .filter_map(|m| m.target_ms)
        .min()
        .and_then(|ms| session.printer.zone.text(ms))
        .map_or_else(String::new, |text| format!(" stored since {text}"));
    let clients = match batch.audience.clients.len() {
        0 => "offline".to_owned(),
        n => format!("{} online", counted(n, "client")),
    };
    let new: Vec<i64> = batch.moves.iter().filter_map(Move::unread_of_none).collect();
    let new = match new.len() {
        0 => String::new(),
        n => format!(
            "; it has no position yet in {}, and begins there with {} to read",
            counted(n, "queue"),
            counted(new.iter().sum::<i64>(), "message")
        ),
    };
    format!(
        "{} ({clients}) in {}: replays {}{since}, skips {skips}{new}",
        batch.group,
        batch.topic,
        counted(replays, "message")
    )
}

/// Prints each queue, and what has to be known of the whole.
pub async fn show(session: &Session, batch: &Batch) -> Result<(), Failure> {
    let facts = Facts::ask(session, batch).await;
    let mut listing = Listing::new(
        "OffsetPreview",
        &[
            wide("group"),
            wide("topic"),
            col("broker"),
            col("queue"),
            less("min"),
            less("max"),
            col("committed"),
            col("new_offset"),
            less("delta"),
            col("would"),
            col("target_time"),
        ],
    );
    listing.ordered = true;
    for one in &batch.moves {
        listing.push(vec![
            batch.group.as_str().into(),
            batch.topic.as_str().into(),
            one.at.broker.id.name.as_str().into(),
            one.at.queue.into(),
            one.at.min.into(),
            one.at.max.into(),
            one.at.current.into(),
            one.target.into(),
            one.delta().into(),
            would(one).into(),
            Cell::time(one.target_ms),
        ]);
    }
    let sum = |of: fn(&Move) -> i64| batch.moves.iter().map(of).sum::<i64>();
    listing
        .summary
        .insert("replays".into(), sum(Move::replays).into());
    listing.summary.insert("skips".into(), sum(Move::skips).into());
    let new = batch.moves.iter().filter_map(Move::unread_of_none);
    listing
        .summary
        .insert("queues_without_position".into(), new.clone().count().into());
    listing
        .summary
        .insert("begins_with".into(), new.sum::<i64>().into());
    listing
        .summary
        .insert("clients".into(), batch.audience.clients.len().into());
    listing.summary.insert("executed".into(), false.into());
    listing.summary.extend(facts.summary());
    let brokers: BTreeSet<BrokerAt> = batch.moves.iter().map(|one| one.at.broker.clone()).collect();
    let brokers: Vec<BrokerAt> = brokers.into_iter().collect();
    crate::cli::stranded::tell(
        session,
        &brokers,
        std::slice::from_ref(&batch.group),
        Some(&batch.topic),
        Some(&mut listing),
    )
    .await;
    session.printer.print(listing)?;
    session.note(&verdict(session, batch));
    for line in facts.lines() {
        session.note(&line);
    }
    session.note("nothing was changed; --execute does it");
    Ok(())
}

/// How a broker would carry the move out.
struct OnBroker {
    name: String,
    version: Option<String>,
    /// It keeps resets until the next pull; the reason where it did not say.
    keeps: Result<bool, String>,
    method: Option<Method>,
}

impl OnBroker {
    /// What that means.
    fn means(&self, online: bool) -> &'static str {
        match (&self.keeps, self.method) {
            (Err(_), _) => "not known",
            (_, Some(Method::Server)) => "server-side reset on: right for offline groups too",
            (_, Some(Method::Commit)) if online => {
                "server-side reset off: a commit, which running clients may commit over; stop the group first"
            }
            (_, Some(Method::Commit)) => "server-side reset off: a commit, right for an offline group",
            (_, Some(Method::Push { .. })) => {
                "server-side reset off: clients are told and go themselves; queues from the write count on are missed"
            }
            (_, None) => "server-side reset off, and the clients pop: refused",
        }
    }
}

/// What decides what becomes of a move, beside its numbers.
struct Facts {
    brokers: Vec<OnBroker>,
    online: bool,
    popping: bool,
    /// Messages a second that the group consumes of the topic; `None` when a broker did not say.
    tps: Option<f64>,
    replays: i64,
    /// Where the present offsets would be kept.
    undo: Option<String>,
}

impl Facts {
    /// Asks the brokers of the moves. What one does not say is not known, and no reason to show nothing.
    async fn ask(session: &Session, batch: &Batch) -> Self {
        let client = &session.client;
        let brokers: BTreeMap<&str, &BrokerAt> = (batch.moves.iter())
            .map(|one| (one.at.broker.id.name.as_str(), &one.at.broker))
            .collect();
        let answers = client
            .each(brokers.into_values().collect(), |broker| async move {
                let (server, deadline) = (broker.server(), client.deadline());
                let (keeps, runtime, lag) = tokio::join!(
                    client.resets_on_server(&server),
                    client.broker_runtime(&server, deadline),
                    client.group_lag(&server, &batch.group, Some(&batch.topic), deadline)
                );
                let keeps = keeps.map_err(|e| e.reason());
                let method = method(
                    &batch.goal,
                    keeps.as_ref().copied().unwrap_or(false),
                    &batch.audience,
                );
                let on = OnBroker {
                    name: broker.id.name.clone(),
                    version: runtime.ok().and_then(|info| info.version),
                    keeps,
                    method,
                };
                (on, lag.ok().map(|lag| lag.consume_tps))
            })
            .await;
        let (brokers, tps): (Vec<OnBroker>, Vec<Option<f64>>) = answers.into_iter().unzip();
        let name = kept::file_name(&BTreeSet::from([batch.group.as_str()]), "TIME");
        Self {
            brokers,
            online: !batch.audience.clients.is_empty(),
            popping: batch.audience.popping,
            tps: tps.into_iter().sum(),
            replays: batch.moves.iter().map(Move::replays).sum(),
            undo: kept::dir().map(|dir| dir.join(name).display().to_string()),
        }
    }

    /// How long the group would need for what it consumes again, at its present rate.
    fn replay(&self) -> Option<Duration> {
        let tps = self.tps.filter(|tps| *tps > 0.0)?;
        // Some thousand years at most: no sum of queues is longer.
        (self.replays > 0).then(|| Duration::from_secs((self.replays as f64 / tps).ceil().min(1e11) as u64))
    }

    fn summary(&self) -> serde_json::Map<String, serde_json::Value> {
        let brokers: Vec<_> = (self.brokers.iter())
            .map(|on| {
                json!({
                    "broker": on.name,
                    "version": on.version,
                    "server_side_reset": on.keeps.as_ref().ok(),
                    "method": on.method.map(Method::name),
                    "means": on.means(self.online),
                })
            })
            .collect();
        let pairs = [
            ("brokers", json!(brokers)),
            ("popping", json!(self.popping)),
            ("consume_tps", json!(self.tps)),
            ("replay_seconds", json!(self.replay().map(|took| took.as_secs()))),
            ("undo_file", json!(self.undo)),
        ];
        pairs
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect()
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if self.replays > 0 {
            lines.push(match (self.replay(), self.tps) {
                (Some(took), Some(tps)) => {
                    format!(
                        "the replay takes ~{} at {tps:.1} messages/s, the group's rate now; less if it has caught up, as that is the producers' rate then",
                        time::duration(took)
                    )
                }
                (_, Some(_)) => {
                    "the group consumes nothing of the topic now: how long a replay takes is not known".into()
                }
                (_, None) => {
                    "how long the replay takes is not known: not every broker told the group's rate".into()
                }
            });
        }
        for on in &self.brokers {
            let version = on.version.as_deref().unwrap_or("?");
            let why = on
                .keeps
                .as_ref()
                .err()
                .map_or_else(String::new, |why| format!(": {why}"));
            lines.push(format!("{} ({version}) {}{why}", on.name, on.means(self.online)));
        }
        if self.popping {
            lines.push(POPPED.to_owned());
        }
        if let Some(undo) = &self.undo {
            lines.push(format!("the present offsets will be kept as {undo}"));
        }
        lines
    }
}

/// What a reset does not reach.
const POPPED: &str =
    "messages that pop clients hold and have not acknowledged come back after their invisible time";

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(tps: Option<f64>, replays: i64) -> Facts {
        Facts {
            brokers: vec![OnBroker {
                name: "broker-a".into(),
                version: Some("V5_3_3".into()),
                keeps: Ok(true),
                method: Some(Method::Server),
            }],
            online: true,
            popping: false,
            tps,
            replays,
            undo: Some("/s/CG-TIME.json".into()),
        }
    }

    #[test]
    fn a_replay_takes_its_messages_by_the_rate_of_now() {
        // The example of the specification: 2,294,663 messages at 2.7k/s are about 14 minutes.
        assert_eq!(
            facts(Some(2700.0), 2_294_663).replay(),
            Some(Duration::from_secs(850))
        );
        assert!(facts(Some(2700.0), 2_294_663).lines()[0].starts_with("the replay takes ~14m 10s at 2700.0"));
        assert_eq!(facts(Some(0.0), 5).replay(), None);
        assert_eq!(facts(None, 5).replay(), None);
        assert_eq!(facts(Some(1.0), 0).lines().len(), 2);
    }

    #[test]
    fn what_a_broker_does_with_a_reset_is_told() {
        let mut pops = facts(Some(1.0), 1);
        pops.popping = true;
        pops.brokers[0].keeps = Ok(false);
        pops.brokers[0].method = None;
        let said = pops.lines().join("\n");
        assert!(said.contains("broker-a (V5_3_3) server-side reset off, and the clients pop: refused"));
        assert!(said.contains("come back after their invisible time"));
        assert_eq!(pops.summary()["brokers"][0]["server_side_reset"], false);
    }
}
