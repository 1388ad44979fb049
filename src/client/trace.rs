//! The way of one message: what clients recorded of it, which groups are past it, and its copies in retry and
//! dead-letter topics.

use std::collections::BTreeSet;

use super::admin::topic::masters;
use super::error::{Error, Server};
use super::{Client, Deadline, Message};
use crate::protocol::body::{ConsumerConnection, MessageModel, SubscriptionData};
use crate::protocol::codes;
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};
use crate::protocol::properties::names;

/// Topic of trace records, unless brokers and clients were told another.
pub const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Most trace messages of one broker: a query gives no more.
const MOST: i32 = 64;
/// Between two fields of a record (Java's `TraceConstants.CONTENT_SPLITOR`).
const FIELD_END: char = '\u{1}';
/// Between two records.
const RECORD_END: char = '\u{2}';

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A producer sent it.
    Sent,
    /// A consumer is about to handle it.
    Delivered,
    /// A consumer has handled it.
    Handled,
    /// A producer decided its transaction.
    Decided,
    /// A producer took it back.
    Recalled,
}

/// One trace record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRecord {
    /// What happened.
    pub event: Event,
    /// Client clock, epoch ms; `None` where the client did not write it.
    pub at_ms: Option<i64>,
    /// Producer or consumer group.
    pub group: Option<String>,
    /// Topic, where the record says it.
    pub topic: Option<String>,
    /// Id of the message.
    pub id: String,
    /// How long it took, ms.
    pub cost_ms: Option<i64>,
    /// How it ended.
    pub ok: Option<bool>,
    /// How often it had been given back.
    pub retry: Option<i32>,
    /// Joins the two records of one delivery.
    pub request: Option<String>,
    /// Further words, such as the state of a transaction.
    pub note: Option<String>,
    /// Address of the client that wrote the record.
    pub client: String,
}

/// What Java's `ConsumeReturnType` says of a delivery.
fn outcome(code: &str) -> Option<&'static str> {
    match code {
        "0" => Some("success"),
        "1" => Some("timed out"),
        "2" => Some("threw an exception"),
        "3" => Some("returned nothing"),
        "4" => Some("asked for a retry"),
        _ => None,
    }
}

/// The records of a trace message's body. One that is not understood is left out.
pub fn records(body: &str, client: &str) -> Vec<TraceRecord> {
    body.split(RECORD_END)
        .filter_map(|record| {
            let fields: Vec<&str> = record.split(FIELD_END).collect();
            let text = |at: usize| {
                fields
                    .get(at)
                    .map(|f| f.trim())
                    .filter(|f| !f.is_empty() && *f != "null")
                    .map(str::to_owned)
            };
            let int = |at: usize| text(at)?.parse::<i64>().ok();
            let flag = |at: usize| text(at).map(|f| f == "true");
            let blank = TraceRecord {
                event: Event::Sent,
                at_ms: None,
                group: None,
                topic: None,
                id: String::new(),
                cost_ms: None,
                ok: None,
                retry: None,
                request: None,
                note: None,
                client: client.to_owned(),
            };
            Some(match *fields.first()? {
                "Pub" => TraceRecord {
                    at_ms: int(1),
                    group: text(3),
                    topic: text(4),
                    id: text(5)?,
                    cost_ms: int(10),
                    // Before the offset id was added, the result stood in its place.
                    ok: if fields.len() >= 14 { flag(13) } else { flag(12) },
                    ..blank
                },
                "SubBefore" => TraceRecord {
                    event: Event::Delivered,
                    at_ms: int(1),
                    group: text(3),
                    request: text(4),
                    id: text(5)?,
                    retry: int(6).and_then(|n| i32::try_from(n).ok()),
                    ..blank
                },
                "SubAfter" => TraceRecord {
                    event: Event::Handled,
                    request: text(1),
                    id: text(2)?,
                    cost_ms: int(3),
                    ok: flag(4),
                    note: text(6).as_deref().and_then(outcome).map(str::to_owned),
                    at_ms: int(7),
                    group: text(8),
                    ..blank
                },
                "EndTransaction" => TraceRecord {
                    event: Event::Decided,
                    at_ms: int(1),
                    group: text(3),
                    topic: text(4),
                    id: text(5)?,
                    note: text(11),
                    ..blank
                },
                "Recall" => TraceRecord {
                    event: Event::Recalled,
                    at_ms: int(1),
                    group: text(3),
                    topic: text(4),
                    id: text(5)?,
                    ok: flag(6),
                    ..blank
                },
                _ => return None,
            })
        })
        .collect()
}

/// Where a group stands to a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Its position is behind the message.
    Consumed,
    /// Its position is at or before it, and clients are online.
    NotYet,
    /// Its position is behind it, and its subscription does not take the tag.
    Filtered,
    /// Its position is at or before it, and nobody is online.
    Offline,
    /// Its positions are on its clients.
    Broadcast,
    /// The broker did not tell.
    Unknown,
}

impl Standing {
    /// As an operator reads it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Consumed => "CONSUMED",
            Self::NotYet => "NOT YET",
            Self::Filtered => "FILTERED",
            Self::Offline => "OFFLINE",
            Self::Broadcast => "BROADCAST",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Why it is so, where nothing more is known.
    pub const fn why(self) -> &'static str {
        match self {
            Self::Consumed => "its position is behind the message",
            Self::NotYet => "its position is at or before the message",
            Self::Filtered => "its subscription does not take the tag",
            Self::Offline => "no client is connected to the message's broker",
            Self::Broadcast => "its positions are on its clients",
            Self::Unknown => "the broker did not tell",
        }
    }
}

/// One group and the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// Group name.
    pub group: String,
    /// Where it stands.
    pub standing: Standing,
    /// Its position in the message's queue.
    pub committed: Option<i64>,
    /// Clients online at the message's broker.
    pub clients: usize,
    /// What it subscribes to, where a client is online.
    pub expression: Option<String>,
    /// Why the standing is not known, or what else is to be said.
    pub note: Option<String>,
}

/// True when a subscription takes a message with this tag; `None` when only the broker can tell.
fn takes(subscription: &SubscriptionData, tag: Option<&str>) -> Option<bool> {
    if !subscription.is_tag() {
        return None;
    }
    let expression = subscription.sub_string.trim();
    if expression == SubscriptionData::ALL || expression.is_empty() {
        return Some(true);
    }
    Some(tag.is_some_and(|tag| expression.split("||").any(|t| t.trim() == tag)))
}

/// Where a group stands, by its position and its clients.
fn stand(
    message: &Message,
    committed: Option<i64>,
    connection: Option<&ConsumerConnection>,
) -> (Standing, Option<&'static str>) {
    if connection.is_some_and(|c| c.message_model == MessageModel::Broadcasting) {
        return (Standing::Broadcast, Some(Standing::Broadcast.why()));
    }
    let subscription = connection.and_then(|c| c.subscription_table.get(&message.topic));
    if committed.is_some_and(|at| at > message.offset) {
        return match subscription.map(|s| takes(s, message.tag())) {
            Some(Some(false)) => (Standing::Filtered, Some(Standing::Filtered.why())),
            Some(None) => (
                Standing::Consumed,
                Some("it subscribes by SQL: the message may have been filtered"),
            ),
            Some(Some(true)) | None => (Standing::Consumed, None),
        };
    }
    if connection.is_some_and(|c| !c.connection_set.is_empty()) {
        (Standing::NotYet, None)
    } else {
        (Standing::Offline, None)
    }
}

/// Where a group stands when its position or its clients may not have been told: without either nothing is certain.
fn judge(
    message: &Message,
    position: Option<Option<i64>>,
    clients: Option<Option<&ConsumerConnection>>,
) -> (Standing, Option<&'static str>) {
    match (position, clients) {
        (Some(committed), Some(connection)) => stand(message, committed, connection),
        _ => (Standing::Unknown, None),
    }
}

/// A copy of the message in a topic of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCopy {
    /// Group name.
    pub group: String,
    /// In the dead-letter topic; else in the retry topic.
    pub dead: bool,
    /// The copy.
    pub message: Message,
}

impl Client {
    /// Trace records of a message by one of its ids, from every broker of the trace topic; what failed. `None` when the
    /// trace topic has no route.
    pub async fn trace_records(
        &self,
        trace_topic: &str,
        id: &str,
        deadline: Deadline,
    ) -> Result<Option<(Vec<TraceRecord>, Vec<Error>)>, Error> {
        let Some(route) = self.route(trace_topic).await? else {
            return Ok(None);
        };
        let answers = self
            .each(masters(&route), |broker| async move {
                let window = (0, i64::MAX);
                self.messages_by_key(&broker.server(), trace_topic, id, window, MOST, deadline)
                    .await
            })
            .await;
        let (mut all, mut failed) = (Vec::new(), Vec::new());
        for answer in answers {
            match answer {
                Ok(hits) => {
                    for message in hits.messages {
                        let body = String::from_utf8_lossy(&message.body).into_owned();
                        let client = message.born_host.rsplit_once(':').map_or("", |(host, _)| host);
                        all.extend(records(&body, client).into_iter().filter(|r| r.id == id));
                    }
                }
                Err(e) => failed.push(e),
            }
        }
        all.sort_by_key(|r| r.at_ms.unwrap_or(0));
        Ok(Some((all, failed)))
    }

    /// Store time of the oldest message of a topic, epoch ms: how far back its records go.
    pub async fn oldest_of(&self, topic: &str, deadline: Deadline) -> Option<i64> {
        let route = self.route(topic).await.ok()??;
        let queues = super::admin::message::queues(&route);
        let times = self
            .each(queues, |at| async move {
                self.earliest(&at, topic, deadline).await.ok().flatten()
            })
            .await;
        times.into_iter().flatten().min()
    }

    /// Where every group of the topic stands to a message; what failed, which is in the notes of its groups, too.
    pub async fn tracks(
        &self,
        broker: &Server,
        message: &Message,
        deadline: Deadline,
    ) -> Result<(Vec<Track>, Vec<Error>), Error> {
        let groups: Vec<String> = self
            .topic_groups(broker, &message.topic, deadline)
            .await?
            .into_iter()
            .filter(|g| !super::admin::group::is_system(g))
            .collect();
        let tracks = self
            .each(groups, |group| async move {
                let (lag, connection) = tokio::join!(
                    self.group_lag(broker, &group, Some(&message.topic), deadline),
                    self.group_clients(broker, &group, deadline)
                );
                let (mut notes, mut failed) = (Vec::new(), Vec::new());
                let position = match lag {
                    Ok(lag) => Some(
                        lag.queues
                            .iter()
                            .find(|q| q.queue == message.queue)
                            .and_then(|q| q.committed),
                    ),
                    Err(e) => {
                        notes.push(format!("its position is not known: {}", e.reason()));
                        failed.push(e);
                        None
                    }
                };
                let clients = match connection {
                    Ok(connection) => Some(connection),
                    Err(e) => {
                        notes.push(format!("its clients are not known: {}", e.reason()));
                        failed.push(e);
                        None
                    }
                };
                let (standing, note) = judge(message, position, clients.as_ref().map(Option::as_ref));
                let connection = clients.flatten();
                notes.extend(note.map(str::to_owned));
                let expression = connection
                    .as_ref()
                    .and_then(|c| c.subscription_table.get(&message.topic))
                    .map(|s| s.sub_string.clone());
                let track = Track {
                    group,
                    standing,
                    committed: position.flatten(),
                    clients: connection.map_or(0, |c| c.connection_set.len()),
                    expression,
                    note: (!notes.is_empty()).then(|| notes.join("; ")),
                };
                (track, failed)
            })
            .await;
        let (tracks, failed): (Vec<Track>, Vec<Vec<Error>>) = tracks.into_iter().unzip();
        Ok((tracks, failed.into_iter().flatten().collect()))
    }

    /// Copies of a message that groups gave back; what failed.
    pub async fn group_copies(
        &self,
        groups: &BTreeSet<String>,
        message: &Message,
        deadline: Deadline,
    ) -> (Vec<GroupCopy>, Vec<Error>) {
        let Some(unique_key) = message.unique_key() else {
            return (Vec::new(), Vec::new());
        };
        let questions: Vec<(String, bool)> = groups
            .iter()
            .flat_map(|group| [(group.clone(), false), (group.clone(), true)])
            .collect();
        let answers = self
            .each(questions, |(group, dead)| async move {
                let prefix = if dead { DLQ_PREFIX } else { RETRY_PREFIX };
                let topic = format!("{prefix}{group}");
                let (mut copies, mut failed) = (Vec::new(), Vec::new());
                let route = match self.route(&topic).await {
                    Ok(route) => route,
                    Err(e) => {
                        failed.push(e);
                        None
                    }
                };
                for broker in route.iter().flat_map(masters) {
                    let found = self
                        .messages_by_unique_key(&broker.server(), &topic, unique_key, deadline)
                        .await;
                    match found {
                        Ok(found) => {
                            copies.extend(found.into_iter().filter(|copy| is_copy_of(copy, message)).map(
                                |message| GroupCopy {
                                    group: group.clone(),
                                    dead,
                                    message,
                                },
                            ))
                        }
                        Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => {}
                        Err(e) => failed.push(e),
                    }
                }
                (copies, failed)
            })
            .await;
        let (mut copies, mut failed) = (Vec::new(), Vec::new());
        for (more, errors) in answers {
            copies.extend(more);
            failed.extend(errors);
        }
        copies.sort_by_key(|c| (c.message.stored_ms, c.message.physical_offset));
        (copies, failed)
    }
}

/// A copy names its original by one of its ids, or not at all when an old client made it.
fn is_copy_of(copy: &Message, original: &Message) -> bool {
    [names::ORIGIN_MESSAGE_ID, names::DLQ_ORIGIN_MESSAGE_ID]
        .iter()
        .find_map(|name| copy.property(name))
        .is_none_or(|id| id == original.offset_id || Some(id) == original.unique_key())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(fields: &[&str]) -> String {
        fields.join("\u{1}")
    }

    #[test]
    fn records_are_read_as_java_writes_them() {
        let body = [
            join(&[
                "Pub",
                "1000",
                "DefaultRegion",
                "PG",
                "Orders",
                "ID",
                "TagA",
                "K-1",
                "127.0.0.1:10911",
                "11",
                "7",
                "0",
                "OFF",
                "true",
            ]),
            join(&[
                "SubBefore",
                "1010",
                "DefaultRegion",
                "CG",
                "req",
                "ID",
                "1",
                "K-1",
            ]),
            join(&["SubAfter", "req", "ID", "5", "false", "K-1", "4", "1015", "CG"]),
            join(&["SubAfter", "req", "ID", "5", "true", "K-1", "0"]),
            join(&[
                "EndTransaction",
                "1020",
                "DefaultRegion",
                "PG",
                "Orders",
                "ID",
                "TagA",
                "K-1",
                "h",
                "2",
                "tx",
                "COMMIT_MESSAGE",
                "false",
            ]),
            "Future\u{1}1".into(),
            join(&["Pub"]),
        ]
        .join("\u{2}");
        let all = records(&body, "10.0.0.1");
        assert_eq!(all.len(), 5);
        let sent = &all[0];
        assert_eq!(
            (
                sent.event,
                sent.at_ms,
                sent.cost_ms,
                sent.ok,
                sent.topic.as_deref()
            ),
            (Event::Sent, Some(1000), Some(7), Some(true), Some("Orders"))
        );
        assert_eq!((all[1].event, all[1].retry), (Event::Delivered, Some(1)));
        assert_eq!(
            (all[2].ok, all[2].note.as_deref(), all[2].group.as_deref()),
            (Some(false), Some("asked for a retry"), Some("CG"))
        );
        // An older client writes neither time nor group behind it.
        assert_eq!((all[3].at_ms, all[3].group.as_deref()), (None, None));
        assert_eq!(all[4].note.as_deref(), Some("COMMIT_MESSAGE"));
        // Thirteen fields: the client before the offset id.
        let old = join(&[
            "Pub", "1", "R", "PG", "T", "ID", "", "", "h", "1", "2", "0", "false",
        ]);
        assert_eq!(records(&old, "")[0].ok, Some(false));
    }

    #[test]
    fn a_groups_standing_follows_from_position_tag_and_clients() {
        let message = Message {
            offset: 10,
            properties: vec![("TAGS".into(), "A".into())],
            ..Message::empty()
        };
        let online = |expression: &str, kind: &str| ConsumerConnection {
            connection_set: vec![crate::protocol::body::Connection::default()],
            subscription_table: [(
                "T".to_owned(),
                SubscriptionData {
                    topic: "T".into(),
                    sub_string: expression.into(),
                    expression_type: kind.into(),
                    ..SubscriptionData::default()
                },
            )]
            .into(),
            ..ConsumerConnection::default()
        };
        let standing =
            |committed, connection: Option<&ConsumerConnection>| stand(&message, committed, connection).0;
        let all = online("*", "TAG");
        assert_eq!(standing(Some(11), Some(&all)), Standing::Consumed);
        assert_eq!(standing(Some(10), Some(&all)), Standing::NotYet);
        assert_eq!(standing(None, Some(&all)), Standing::NotYet);
        assert_eq!(standing(Some(10), None), Standing::Offline);
        assert_eq!(standing(Some(11), None), Standing::Consumed);
        assert_eq!(
            standing(Some(11), Some(&online("B || C", "TAG"))),
            Standing::Filtered
        );
        assert_eq!(
            standing(Some(11), Some(&online("B || A", "TAG"))),
            Standing::Consumed
        );
        let sql = online("a > 1", "SQL92");
        assert!(stand(&message, Some(11), Some(&sql)).1.is_some());
        let mut broadcast = all.clone();
        broadcast.message_model = MessageModel::Broadcasting;
        assert_eq!(standing(Some(99), Some(&broadcast)), Standing::Broadcast);
        // Without its clients nobody knows whether it is offline, filters, or keeps its positions itself.
        let judged = |position, clients| judge(&message, position, clients).0;
        assert_eq!(judged(Some(Some(11)), None), Standing::Unknown);
        assert_eq!(judged(Some(Some(10)), None), Standing::Unknown);
        assert_eq!(judged(None, Some(Some(&all))), Standing::Unknown);
        assert_eq!(judged(Some(Some(10)), Some(None)), Standing::Offline);
    }
}
