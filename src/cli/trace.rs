//! `rmq message trace`: the way of one message from four sources, and which of them are missing and why.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;

use super::exit::{self, Failure};
use super::message::{BodyForm, search};
use super::output::{Cell, Detail, Listing, col};
use super::session::Session;
use super::time;
use crate::client::admin::cluster::registered;
use crate::client::admin::topic::masters;
use crate::client::dlq::origin_topic;
use crate::client::trace::{Event, GroupCopy, Standing, TRACE_TOPIC, TraceRecord, Track};
use crate::client::{BrokerAt, Message};
use crate::protocol::message_id::parse_offset_id;
use crate::protocol::model::{DLQ_PREFIX, RETRY_PREFIX};

/// `rmq message trace`
#[derive(Debug, Clone, Args)]
pub struct TraceArgs {
    /// Offset id or unique key; the kind is detected. The topic of a unique key is looked up in the trace records
    /// unless --topic names it
    #[arg(required_unless_present = "key", conflicts_with = "key")]
    id: Option<String>,
    /// The newest message with this key instead
    #[arg(short, long, value_name = "KEY", requires = "topic")]
    key: Option<String>,
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Topic of the trace records
    #[arg(long, default_value = TRACE_TOPIC, value_name = "NAME")]
    trace_topic: String,
    /// How the body is shown
    #[arg(long, value_enum, default_value_t = BodyForm::None, value_name = "FORM")]
    body: BodyForm,
}

/// Parts of the picture that are missing, with the reason.
#[derive(Default)]
struct Missing(Vec<(&'static str, String)>);

impl Missing {
    fn add(&mut self, part: &'static str, why: impl Into<String>) {
        self.0.push((part, why.into()));
    }
}

/// The message that is meant.
struct Meant {
    message: Option<Message>,
    kind: &'static str,
    unique_key: Option<String>,
    topic: Option<String>,
}

/// Runs `rmq message trace`.
pub async fn run(session: &Session, args: &TraceArgs) -> Result<(), Failure> {
    let client = &session.client;
    let mut missing = Missing::default();
    let mut meant = find(session, args, &mut missing).await?;
    if let Some(message) = meant.message.take() {
        meant.message = Some(original(session, message, &mut missing).await);
    }
    let deadline = client.deadline();
    let unique_key = meant
        .message
        .as_ref()
        .and_then(|m| m.unique_key().map(str::to_owned))
        .or_else(|| meant.unique_key.clone());
    let records = match &unique_key {
        Some(id) => traced(session, args, id, &mut missing).await,
        None => {
            missing.add("trace", "the message has no unique key to look for");
            Vec::new()
        }
    };
    let Some(message) = &meant.message else {
        if records.is_empty() {
            return Err(nothing(args, &meant, &missing));
        }
        return print(session, args, &meant, &records, &[], &[], &missing);
    };
    let (tracks, groups) = standings(session, message, &records, &mut missing).await;
    let (copies, failed) = client.group_copies(&groups, message, deadline).await;
    for e in failed {
        missing.add("copies", e.reason());
    }
    for track in &tracks {
        let done = records
            .iter()
            .any(|r| r.event == Event::Handled && r.ok == Some(true) && belongs(r, &records, &track.group));
        if track.standing == Standing::NotYet && done {
            session.warn(&format!(
                "{} has handled the message by its trace record, but its position is not past it: it may get it again",
                track.group
            ));
        }
    }
    print(session, args, &meant, &records, &tracks, &copies, &missing)
}

/// Finds the message, if it is still there.
async fn find(session: &Session, args: &TraceArgs, missing: &mut Missing) -> Result<Meant, Failure> {
    let client = &session.client;
    if let (Some(key), Some(topic)) = (&args.key, &args.topic) {
        let (messages, failures, searched) = search(session, topic, Some(key), "", (0, i64::MAX), 64).await?;
        let Some(message) = messages.last().cloned() else {
            return Err(failures.into_iter().next().unwrap_or_else(|| {
                Failure::new(
                    exit::NOT_FOUND,
                    format!("no message has the key {key} in topic {topic} (searched {searched})"),
                )
                .because("It is past retention, or was never sent with this key.")
            }));
        };
        if messages.len() > 1 {
            session.note(&format!(
                "{} messages have the key {key}, the newest is shown; the others: rmq message find --topic {topic} --key {key}",
                messages.len()
            ));
        }
        return Ok(Meant {
            unique_key: message.unique_key().map(str::to_owned),
            topic: Some(topic.clone()),
            message: Some(message),
            kind: "key",
        });
    }
    let id = args.id.as_deref().unwrap_or_default();
    if let Ok((host, offset)) = parse_offset_id(id) {
        let addr = host.to_string();
        let info = client.cluster_info().await;
        session.warn_of_dead_name_servers();
        let known = info.map(|info| registered(&info)).unwrap_or_default();
        let at = known.iter().find(|b| b.addr == addr).map(BrokerAt::server);
        // An address that nobody registered belongs to a unique key more often than to a broker.
        if let Some(server) = at {
            match client.message_at(&server, offset, client.deadline()).await {
                Ok(message) => {
                    return Ok(Meant {
                        unique_key: message.unique_key().map(str::to_owned),
                        topic: Some(message.topic.clone()),
                        message: Some(message),
                        kind: "offset id",
                    });
                }
                Err(e) if args.topic.is_none() => {
                    missing.add(
                        "message",
                        format!("{server} has no message at offset {offset}: {}", e.reason()),
                    );
                    return Ok(Meant {
                        message: None,
                        kind: "offset id",
                        unique_key: None,
                        topic: None,
                    });
                }
                Err(_) => {}
            }
        }
    }
    let topic = match &args.topic {
        Some(topic) => Some(topic.clone()),
        None => topic_by_trace(session, args, id).await,
    };
    let Some(topic) = topic else {
        return Err(Failure::usage(format!(
            "\"{id}\" is a unique key of which no trace record tells the topic; name it"
        ))
        .hint(format!("rmq message trace {id} --topic NAME")));
    };
    let (messages, failures, searched) = search(session, &topic, None, id, (0, i64::MAX), 32).await?;
    for failure in failures {
        missing.add("message", failure.what);
    }
    if messages.is_empty() {
        missing.add(
            "message",
            format!("{topic} has no message with this unique key (searched {searched}): past retention, or another topic"),
        );
    }
    Ok(Meant {
        message: messages.into_iter().next(),
        kind: "unique key",
        unique_key: Some(id.to_owned()),
        topic: Some(topic),
    })
}

/// The topic that a producer's trace record names.
async fn topic_by_trace(session: &Session, args: &TraceArgs, id: &str) -> Option<String> {
    let client = &session.client;
    let found = client
        .trace_records(&args.trace_topic, id, client.deadline())
        .await
        .ok()??;
    found.0.into_iter().find_map(|r| r.topic)
}

/// The message of which this one is a copy in a retry or dead-letter topic, if it is one and the original is there.
async fn original(session: &Session, message: Message, missing: &mut Missing) -> Message {
    let is_copy = message.topic.starts_with(RETRY_PREFIX) || message.topic.starts_with(DLQ_PREFIX);
    let (true, Some(topic), Some(id)) = (is_copy, origin_topic(&message), message.unique_key()) else {
        return message;
    };
    match search(session, topic, None, id, (0, i64::MAX), 32).await {
        Ok((found, _, _)) if !found.is_empty() => {
            session.note(&format!(
                "the id is that of a copy in {}; the original in {topic} is shown",
                message.topic
            ));
            found.into_iter().next().unwrap_or(message)
        }
        _ => {
            missing.add(
                "message",
                format!(
                    "the original in {topic} is gone; the copy in {} is shown",
                    message.topic
                ),
            );
            message
        }
    }
}

async fn traced(session: &Session, args: &TraceArgs, id: &str, missing: &mut Missing) -> Vec<TraceRecord> {
    let client = &session.client;
    let topic = &args.trace_topic;
    let deadline = client.deadline();
    match client.trace_records(topic, id, deadline).await {
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
                let oldest = client.oldest_of(topic, deadline).await;
                let reach = match oldest.and_then(|ms| session.printer.zone.text(ms)) {
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
    session: &Session,
    message: &Message,
    records: &[TraceRecord],
    missing: &mut Missing,
) -> (Vec<Track>, BTreeSet<String>) {
    let client = &session.client;
    let consumers = records
        .iter()
        .filter(|r| matches!(r.event, Event::Delivered | Event::Handled))
        .filter_map(|r| r.group.clone());
    let mut groups: BTreeSet<String> = consumers.collect();
    for prefix in [RETRY_PREFIX, DLQ_PREFIX] {
        groups.extend(message.topic.strip_prefix(prefix).map(str::to_owned));
    }
    let server = match client.route(&message.topic).await {
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
    match client.tracks(&server, message, client.deadline()).await {
        Ok(tracks) => {
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

/// True when a record is of this group; of an older client, when its first half is.
fn belongs(record: &TraceRecord, all: &[TraceRecord], group: &str) -> bool {
    match &record.group {
        Some(own) => own == group,
        None => all.iter().any(|other| {
            other.event == Event::Delivered
                && other.request == record.request
                && other.group.as_deref() == Some(group)
        }),
    }
}

fn nothing(args: &TraceArgs, meant: &Meant, missing: &Missing) -> Failure {
    let id = args.id.as_deref().unwrap_or_default();
    let why: Vec<String> = missing
        .0
        .iter()
        .map(|(part, why)| format!("{part}: {why}"))
        .collect();
    Failure::new(
        exit::NOT_FOUND,
        format!(
            "nothing is known of {id}, which is {} by its form",
            article(meant.kind)
        ),
    )
    .because(why.join("\n       "))
    .hint(match &meant.topic {
        Some(topic) => format!("rmq message find --topic {topic} --unique-id {id}"),
        None => format!("rmq message trace {id} --topic NAME"),
    })
}

fn article(kind: &str) -> String {
    match kind {
        "offset id" => "an offset id".into(),
        other => format!("a {other}"),
    }
}

/// One line of the timeline.
struct Moment {
    at_ms: Option<i64>,
    event: &'static str,
    who: String,
    place: String,
    detail: String,
}

fn timeline(message: Option<&Message>, records: &[TraceRecord], copies: &[GroupCopy]) -> Vec<Moment> {
    let mut all = Vec::new();
    if let Some(message) = message {
        all.push(Moment {
            at_ms: Some(message.born_ms),
            event: "born",
            who: message.born_host.clone(),
            place: message.topic.clone(),
            detail: String::new(),
        });
        all.push(Moment {
            at_ms: Some(message.stored_ms),
            event: "stored",
            who: message.broker.clone(),
            place: format!("{}/{}@{}", message.broker, message.queue, message.offset),
            detail: String::new(),
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
        });
    }
    // What has no time keeps its place behind what has.
    all.sort_by_key(|m| m.at_ms.unwrap_or(i64::MAX));
    all
}

fn print(
    session: &Session,
    args: &TraceArgs,
    meant: &Meant,
    records: &[TraceRecord],
    tracks: &[Track],
    copies: &[GroupCopy],
    missing: &Missing,
) -> Result<(), Failure> {
    let message = meant.message.as_ref();
    let mut times = Listing::new(
        "Timeline",
        &[col("time"), col("event"), col("who"), col("where"), col("detail")],
    );
    times.ordered = true;
    for moment in timeline(message, records, copies) {
        let blank = |text: String| {
            if text.is_empty() {
                Cell::Unknown
            } else {
                text.into()
            }
        };
        times.push(vec![
            Cell::time(moment.at_ms),
            moment.event.into(),
            blank(moment.who),
            blank(moment.place),
            blank(moment.detail),
        ]);
    }
    let mut groups = Listing::new(
        "Tracks",
        &[
            col("group"),
            col("state"),
            col("committed"),
            col("clients"),
            col("expression"),
            col("retries"),
            col("dead"),
            col("note"),
        ],
    );
    for track in tracks {
        let of = |dead: bool| {
            copies
                .iter()
                .filter(|c| c.group == track.group && c.dead == dead)
                .count()
        };
        groups.push(vec![
            track.group.as_str().into(),
            track.standing.name().into(),
            track.committed.into(),
            track.clients.into(),
            track.expression.clone().into(),
            of(false).into(),
            of(true).into(),
            track.note.clone().into(),
        ]);
    }
    let mut gaps = Listing::new("Missing", &[col("part"), col("why")]);
    gaps.ordered = true;
    for (part, why) in &missing.0 {
        gaps.push(vec![(*part).into(), why.as_str().into()]);
    }
    let id = args.id.as_deref().or(args.key.as_deref()).unwrap_or_default();
    session.note(&format!("{id} is {}", article(meant.kind)));
    session.printer.print_detail(Detail {
        kind: "MessageTrace",
        fields: vec![
            ("id", id.into()),
            ("id_kind", meant.kind.into()),
            (
                "topic",
                message
                    .map(|m| m.topic.clone())
                    .or_else(|| meant.topic.clone())
                    .into(),
            ),
            ("broker", message.map(|m| m.broker.clone()).into()),
            ("queue", message.map(|m| m.queue).into()),
            ("offset", message.map(|m| m.offset).into()),
            ("offset_id", message.map(|m| m.offset_id.clone()).into()),
            (
                "unique_key",
                message
                    .and_then(|m| m.unique_key().map(str::to_owned))
                    .or_else(|| meant.unique_key.clone())
                    .into(),
            ),
            ("tag", message.and_then(|m| m.tag().map(str::to_owned)).into()),
            ("keys", message.map(Message::keys).into()),
            ("stored", Cell::time(message.map(|m| m.stored_ms))),
            ("age", age(message)),
            ("body", message.map_or(Cell::Unknown, |m| args.body.show(&m.body))),
        ],
        tables: vec![("timeline", times), ("groups", groups), ("missing", gaps)],
        errors: Vec::new(),
    })
}

fn age(message: Option<&Message>) -> Cell {
    message.map_or(Cell::Unknown, |m| {
        let ms = u64::try_from(time::now_ms().saturating_sub(m.stored_ms)).unwrap_or(0);
        time::duration(std::time::Duration::from_millis(ms)).into()
    })
}
