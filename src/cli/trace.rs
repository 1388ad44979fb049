//! `rmq message trace`: the way of one message from four sources, and which of them are missing and why.

use clap::Args;

use super::exit::{self, Failure};
use super::message::{BodyForm, search};
use super::output::{Cell, Detail, Listing, col};
use super::session::Session;
use super::time;
use crate::client::Message;
use crate::client::dlq::origin_topic;
use crate::client::trace::TRACE_TOPIC;
use crate::client::way::{Missing, Way};
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
    let zone = &session.printer.zone;
    let way = match &meant.message {
        Some(message) => {
            let mut way = client.way(message, &args.trace_topic, |ms| zone.text(ms)).await;
            missing.0.append(&mut way.missing.0);
            way
        }
        None => {
            let records = match &meant.unique_key {
                Some(id) => {
                    client
                        .traced(&args.trace_topic, id, &mut missing, |ms| zone.text(ms))
                        .await
                }
                None => {
                    missing.add("trace", "the message has no unique key to look for");
                    Vec::new()
                }
            };
            if records.is_empty() {
                return Err(nothing(args, &meant, &missing));
            }
            Way {
                records,
                ..Way::default()
            }
        }
    };
    for track in way.tracks.iter().filter(|t| way.is_ahead_of_its_position(t)) {
        session.warn(&format!(
            "{} has handled the message by its trace record, but its position is not past it: it may get it again",
            track.group
        ));
    }
    print(session, args, &meant, &way, &missing)
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
    if let Some(spot) = client.spot(id).await {
        session.warn_of_dead_name_servers();
        // An address that nobody registered belongs to a unique key more often than to a broker.
        if spot.registered {
            let (server, offset) = (spot.server, spot.offset);
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

fn nothing(args: &TraceArgs, meant: &Meant, missing: &Missing) -> Failure {
    let id = args.id.as_deref().unwrap_or_default();
    let why: Vec<String> = missing
        .0
        .iter()
        .map(|gap| format!("{}: {}", gap.part, gap.why))
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

fn print(
    session: &Session,
    args: &TraceArgs,
    meant: &Meant,
    way: &Way,
    missing: &Missing,
) -> Result<(), Failure> {
    let message = meant.message.as_ref();
    let mut times = Listing::new(
        "Timeline",
        &[col("time"), col("event"), col("who"), col("where"), col("detail")],
    );
    times.ordered = true;
    for moment in way.timeline(message) {
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
    for track in &way.tracks {
        groups.push(vec![
            track.group.as_str().into(),
            track.standing.name().into(),
            track.committed.into(),
            track.clients.into(),
            track.expression.clone().into(),
            way.copies_of(&track.group, false).into(),
            way.copies_of(&track.group, true).into(),
            track.note.clone().into(),
        ]);
    }
    let mut gaps = Listing::new("Missing", &[col("part"), col("why")]);
    gaps.ordered = true;
    for gap in &missing.0 {
        gaps.push(vec![gap.part.into(), gap.why.as_str().into()]);
    }
    let id = args.id.as_deref().or(args.key.as_deref()).unwrap_or_default();
    session.note(&format!("{id} is {}", article(meant.kind)));
    session.printer.print_detail(Detail {
        kind: "MessageTrace",
        fields: vec![
            ("message_id", id.into()),
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
