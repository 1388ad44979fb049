//! The way of one message: a timeline from its own times, the trace records and its copies; where the groups stand; and
//! what of that is missing, with the reason.

use std::collections::{BTreeMap, BTreeSet};

use super::admin::topic::masters;
use super::trace::{Event, GroupCopy, Standing, TraceRecord, Track};
use super::{Client, Message};
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};

/// A part of the picture that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Which part: `message`, `trace`, `groups`, `copies`.
    pub part: &'static str,
    /// Why.
    pub why: String,
}

/// Parts of the picture that are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Missing(pub Vec<Gap>);

impl Missing {
    /// One more is missing.
    pub fn add(&mut self, part: &'static str, why: impl Into<String>) {
        self.0.push(Gap {
            part,
            why: why.into(),
        });
    }
}

/// The way of a message, or of one that is gone but left records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Way {
    /// Trace records of it.
    pub records: Vec<TraceRecord>,
    /// Where the groups of its topic stand.
    pub tracks: Vec<Track>,
    /// Its copies in retry and dead-letter topics.
    pub copies: Vec<GroupCopy>,
    /// What is not known.
    pub missing: Missing,
}

impl Way {
    /// What happened, in order.
    pub fn timeline(&self, message: Option<&Message>) -> Vec<Moment> {
        timeline(message, &self.records, &self.copies)
    }

    /// Copies in the retry topic of a group, or in its dead-letter topic.
    pub fn copies_of(&self, group: &str, dead: bool) -> usize {
        let here = |copy: &&GroupCopy| copy.group == group && copy.dead == dead;
        self.copies.iter().filter(here).count()
    }

    /// True for a group whose trace record says that it has handled the message while its position is not past it: it
    /// may get it again.
    pub fn is_ahead_of_its_position(&self, track: &Track) -> bool {
        track.standing == Standing::NotYet
            && self.records.iter().any(|r| {
                r.event == Event::Handled && r.ok == Some(true) && belongs(r, &self.records, &track.group)
            })
    }
}

/// One line of the timeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moment {
    /// Epoch ms, by the clock of whoever tells it.
    pub at_ms: Option<i64>,
    /// What happened.
    pub event: &'static str,
    /// Group, client or broker.
    pub who: String,
    /// Where.
    pub place: String,
    /// What else is known of it.
    pub detail: String,
    /// How long it took, ms.
    pub took_ms: Option<i64>,
}

/// What happened to a message, in the order of time. What has no time comes last.
pub fn timeline(message: Option<&Message>, records: &[TraceRecord], copies: &[GroupCopy]) -> Vec<Moment> {
    let mut all = Vec::new();
    if let Some(message) = message {
        all.push(Moment {
            at_ms: Some(message.born_ms),
            event: "born",
            who: message.born_host.clone(),
            place: message.topic.clone(),
            detail: String::new(),
            took_ms: None,
        });
        all.push(Moment {
            at_ms: Some(message.stored_ms),
            event: "stored",
            who: message.broker.clone(),
            place: format!("{}/{}@{}", message.broker, message.queue, message.offset),
            detail: String::new(),
            took_ms: None,
        });
    }
    let begun: BTreeMap<&str, &TraceRecord> = records
        .iter()
        .filter(|r| r.event == Event::Delivered)
        .filter_map(|r| Some((r.request.as_deref()?, r)))
        .collect();
    for record in records {
        let first = record.request.as_deref().and_then(|r| begun.get(r));
        let group = record
            .group
            .clone()
            .or_else(|| first.and_then(|f| f.group.clone()))
            .unwrap_or_else(|| "-".into());
        let mut detail = Vec::new();
        if let Some(n) = record.retry.filter(|n| *n > 0) {
            detail.push(format!("retry {n}"));
        }
        if let Some(note) = &record.note {
            detail.push(note.clone());
        }
        if let Some(cost) = record.cost_ms {
            detail.push(format!("{cost} ms"));
        }
        let (event, at_ms) = match (record.event, record.ok) {
            (Event::Sent, Some(false)) => ("send failed", record.at_ms),
            (Event::Sent, _) => ("sent", record.at_ms),
            (Event::Delivered, _) => ("delivered", record.at_ms),
            (Event::Handled, ok) => {
                let end = first
                    .and_then(|f| Some(f.at_ms?.saturating_add(record.cost_ms.unwrap_or(0))))
                    .or(record.at_ms);
                let event = match ok {
                    Some(true) => "consumed",
                    Some(false) => "consume failed",
                    None => "handled",
                };
                (event, end)
            }
            (Event::Decided, _) => ("transaction", record.at_ms),
            (Event::Recalled, _) => ("recalled", record.at_ms),
        };
        all.push(Moment {
            at_ms,
            event,
            who: group,
            place: record.client.clone(),
            detail: detail.join(", "),
            took_ms: record.cost_ms,
        });
    }
    for copy in copies {
        all.push(Moment {
            at_ms: Some(copy.message.stored_ms),
            event: if copy.dead { "dead letter" } else { "given back" },
            who: copy.group.clone(),
            place: format!(
                "{} {}/{}@{}",
                copy.message.topic, copy.message.broker, copy.message.queue, copy.message.offset
            ),
            detail: format!("after {} tries", copy.message.reconsume_times),
            took_ms: None,
        });
    }
    // What has no time keeps its place behind what has.
    all.sort_by_key(|m| m.at_ms.unwrap_or(i64::MAX));
    all
}

/// True when a record is of this group; of an older client, when its first half is.
pub fn belongs(record: &TraceRecord, all: &[TraceRecord], group: &str) -> bool {
    match &record.group {
        Some(own) => own == group,
        None => all.iter().any(|other| {
            other.event == Event::Delivered
                && other.request == record.request
                && other.group.as_deref() == Some(group)
        }),
    }
}

impl Client {
    /// The way of a message that is there. `text` writes a time for the reasons of what is missing.
    pub async fn way(
        &self,
        message: &Message,
        trace_topic: &str,
        text: impl Fn(i64) -> Option<String>,
    ) -> Way {
        let mut missing = Missing::default();
        let records = match message.unique_key() {
            Some(id) => self.traced(trace_topic, id, &mut missing, text).await,
            None => {
                missing.add("trace", "the message has no unique key to look for");
                Vec::new()
            }
        };
        let (tracks, groups) = self.standings(message, &records, &mut missing).await;
        let (copies, failed) = self.group_copies(&groups, message, self.deadline()).await;
        for e in failed {
            missing.add("copies", e.reason());
        }
        Way {
            records,
            tracks,
            copies,
            missing,
        }
    }

    /// Trace records of a message by its unique key.
    pub async fn traced(
        &self,
        topic: &str,
        id: &str,
        missing: &mut Missing,
        text: impl Fn(i64) -> Option<String>,
    ) -> Vec<TraceRecord> {
        let deadline = self.deadline();
        match self.trace_records(topic, id, deadline).await {
            Err(e) => missing.add("trace", e.reason()),
            Ok(None) => missing.add(
                "trace",
                format!("there is no topic {topic}: brokers make it with traceTopicEnable=true"),
            ),
            Ok(Some((records, failed))) => {
                for e in failed {
                    missing.add("trace", e.reason());
                }
                if records.is_empty() {
                    let oldest = self.oldest_of(topic, deadline).await;
                    let reach = match oldest.and_then(text) {
                        Some(at) => format!("the oldest trace record is of {at}"),
                        None => format!("{topic} is empty"),
                    };
                    missing.add(
                        "trace",
                        format!("no record of the message: its clients did not enable trace, or it is past retention ({reach})"),
                    );
                } else if !records.iter().any(|r| r.event == Event::Sent) {
                    missing.add(
                        "trace",
                        "no record of the send: its producer did not enable trace",
                    );
                }
                return records;
            }
        }
        Vec::new()
    }

    /// Where the groups stand, and every group that may have copies.
    async fn standings(
        &self,
        message: &Message,
        records: &[TraceRecord],
        missing: &mut Missing,
    ) -> (Vec<Track>, BTreeSet<String>) {
        let consumers = records
            .iter()
            .filter(|r| matches!(r.event, Event::Delivered | Event::Handled))
            .filter_map(|r| r.group.clone());
        let mut groups: BTreeSet<String> = consumers.collect();
        for prefix in [RETRY_PREFIX, DLQ_PREFIX] {
            groups.extend(message.topic.strip_prefix(prefix).map(str::to_owned));
        }
        let server = match self.route(&message.topic).await {
            Ok(Some(route)) => masters(&route)
                .into_iter()
                .find(|b| b.id.name == message.broker || b.addr == message.broker)
                .map(|b| b.server()),
            _ => None,
        };
        let Some(server) = server else {
            missing.add(
                "groups",
                format!(
                    "the route of {} does not have the message's broker",
                    message.topic
                ),
            );
            return (Vec::new(), groups);
        };
        match self.tracks(&server, message, self.deadline()).await {
            // What failed is in the notes of the tracks.
            Ok((tracks, _)) => {
                if tracks.is_empty() {
                    missing.add("groups", format!("no group reads {} on {server}", message.topic));
                }
                groups.extend(tracks.iter().map(|t| t.group.clone()));
                (tracks, groups)
            }
            Err(e) => {
                missing.add("groups", e.reason());
                (Vec::new(), groups)
            }
        }
    }
}
