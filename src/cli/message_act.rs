//! `rmq message view|body|decode-id|resend|push`.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use jiff::Timestamp;

use super::body::BodyForm;
use super::change::{self, Class, Outcome, Plan, Step, Undo};
use super::exit::{self, Failure};
use super::message::{self, Place};
use super::output::{Cell, Detail, Listing, col};
use super::session::Session;
use super::time;
use crate::client::admin::message::QueueAt;
use crate::client::admin::topic::masters;
use crate::client::dlq;
use crate::client::produce::Producer;
use crate::client::{BrokerAt, Message, Server, Which};
use crate::protocol::body::ConsumeResult;
use crate::protocol::message_id::{UniqueKey, parse_offset_id};

/// Commands on one message.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show one message, and which groups have consumed it
    View {
        #[command(flatten)]
        place: Place,
        /// How the body is shown
        #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
        body: BodyForm,
    },
    /// Write the body of a message as it is
    Body {
        #[command(flatten)]
        place: Place,
        /// File to write [default: stdout]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Take a message id apart; asks nobody
    DecodeId {
        /// Offset id or unique key
        id: String,
    },
    /// Send a stored message once more, to its topic or another one
    Resend(ResendArgs),
    /// Have one client of a group consume a stored message now
    Push(PushArgs),
}

/// `rmq message resend`
#[derive(Debug, Clone, Args)]
pub struct ResendArgs {
    #[command(flatten)]
    place: Place,
    /// Topic to send to [default: its own]
    #[arg(long, value_name = "NAME")]
    to_topic: Option<String>,
    /// Producer group
    #[arg(
        long,
        default_value = "RMQ_CLI",
        value_name = "NAME",
        hide_default_value = true
    )]
    producer_group: String,
}

/// `rmq message push`
#[derive(Debug, Clone, Args)]
pub struct PushArgs {
    #[command(flatten)]
    place: Place,
    /// Consumer group
    #[arg(short, long, value_name = "NAME")]
    group: String,
    /// Client id [default: the only client of the group]
    #[arg(long, value_name = "ID")]
    client: Option<String>,
}

/// Runs a command on one message.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::View { place, body } => view(session, &place, body).await,
        Command::Body { place, out } => body(session, &place, out).await,
        Command::DecodeId { id } => decode_id(session, &id),
        Command::Resend(args) => resend(session, args).await,
        Command::Push(args) => push(session, args).await,
    }
}

async fn view(session: &Session, place: &Place, body: BodyForm) -> Result<(), Failure> {
    let (message, failures) = message::at_place(session, place).await?;
    let groups = tracks(session, &message).await;
    let mut detail = message::detail(&message, body);
    let mut failures = failures;
    match groups {
        Ok((listing, more)) => {
            detail.tables.push(("groups", listing));
            failures.extend(more);
        }
        Err(failure) => failures.push(failure),
    }
    let verdict = Failure::over(&failures, true);
    detail.errors = failures;
    session.printer.print_detail(detail)?;
    verdict
}

/// What each group of the message's topic has made of it, by its committed offset.
async fn tracks(session: &Session, message: &Message) -> Result<(Listing, Vec<Failure>), Failure> {
    let client = &session.client;
    let mut listing = Listing::new(
        "MessageTracks",
        &[col("group"), col("state"), col("committed"), col("why")],
    );
    let Some(route) = client.route(&message.topic).await? else {
        return Ok((listing, Vec::new()));
    };
    let Some(broker) = masters(&route)
        .into_iter()
        .find(|b| b.id.name == message.broker || b.addr == message.broker || b.addr == message.store_host)
    else {
        return Ok((listing, Vec::new()));
    };
    let (tracks, failed) = client
        .tracks(&broker.server(), message, client.deadline())
        .await?;
    for track in tracks {
        let why = track.note.unwrap_or_else(|| track.standing.why().to_owned());
        listing.push(vec![
            track.group.into(),
            track.standing.name().into(),
            track.committed.into(),
            why.into(),
        ]);
    }
    let failures = failed.iter().map(Failure::from).collect();
    Ok((listing, failures))
}

async fn body(session: &Session, place: &Place, out: Option<PathBuf>) -> Result<(), Failure> {
    let (message, failures) = message::at_place(session, place).await?;
    if let Some(why) = &message.body_error {
        session.warn(&format!(
            "the body does not decompress, it is written as stored: {why}"
        ));
    }
    match &out {
        Some(path) => {
            std::fs::write(path, &message.body)
                .map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))?;
            session.note(&format!("{} bytes in {}", message.body.len(), path.display()));
        }
        None => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&message.body)?;
            stdout.flush()?;
        }
    }
    Failure::over(&failures, true)
}

/// The start of the month that a unique key's time counts from, nearest to now and not later.
fn month_time(month_ms: i32, now_ms: i64) -> Option<i64> {
    let now = Timestamp::from_millisecond(now_ms)
        .ok()?
        .to_zoned_datetime(jiff::tz::TimeZone::UTC);
    let first = now.date().first_of_month();
    let at = |first: jiff::civil::Date| -> Option<i64> {
        let start = jiff::tz::TimeZone::UTC
            .to_timestamp(first.at(0, 0, 0, 0))
            .ok()?
            .as_millisecond();
        Some(start + i64::from(month_ms.cast_unsigned()))
    };
    match at(first) {
        // A day of slack for clocks and time zones.
        Some(ms) if ms <= now_ms + 86_400_000 => Some(ms),
        _ => at(first.checked_sub(jiff::Span::new().months(1)).ok()?),
    }
}

fn decode_id(session: &Session, id: &str) -> Result<(), Failure> {
    let mut fields: Vec<(&'static str, Cell)> = vec![("message_id", id.into())];
    let offset_id = parse_offset_id(id);
    let unique = UniqueKey::parse(id);
    if let Ok((host, offset)) = &offset_id {
        fields.push(("as_offset_id_broker", host.to_string().into()));
        fields.push(("as_offset_id_commit_log_offset", (*offset).into()));
    }
    match unique {
        Ok(key) => {
            fields.push(("as_unique_key_client", key.ip.to_string().into()));
            fields.push(("as_unique_key_pid", i64::from(key.pid).into()));
            fields.push(("as_unique_key_process_hash", format!("{:08x}", key.hash).into()));
            fields.push(("as_unique_key_counter", i64::from(key.counter).into()));
            // The key knows the time within a month only, in the client's own zone.
            fields.push((
                "as_unique_key_time",
                Cell::time(month_time(key.month_ms, time::now_ms())),
            ));
        }
        Err(e) if offset_id.is_err() => {
            return Err(
                Failure::usage(format!("\"{id}\" is neither an offset id nor a unique key"))
                    .because(e.to_string()),
            );
        }
        Err(_) => {}
    }
    session.note("an id does not say which of the two it is: an offset id holds a broker's address, a unique key a client's");
    session.printer.print_detail(Detail {
        kind: "MessageId",
        fields,
        ..Detail::default()
    })
}

async fn resend(session: &Session, args: ResendArgs) -> Result<(), Failure> {
    let (message, _) = message::at_place(session, &args.place).await?;
    let topic = args.to_topic.clone().unwrap_or_else(|| message.topic.clone());
    let client = &session.client;
    let Some(route) = client.route(&topic).await? else {
        return Err(super::topic::not_found(session, &topic, String::new()).await);
    };
    if let Some(why) = &message.body_error {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!(
                "the body of {} does not decompress; nothing was sent",
                message.offset_id
            ),
        )
        .because(why.clone()));
    }
    let mut groups = std::collections::BTreeSet::new();
    for broker in masters(&route) {
        groups.extend(
            client
                .topic_groups(&broker.server(), &topic, client.deadline())
                .await?,
        );
    }
    let cluster = route
        .broker_datas
        .first()
        .map(|b| b.cluster.clone())
        .unwrap_or_default();
    let plan = Plan {
        action: format!("resend message {}", message.offset_id),
        object: topic.clone(),
        cluster,
        class: Class::B,
        steps: vec![Step {
            target: format!("topic {topic}"),
            field: "message".into(),
            before: format!(
                "{} queue {} offset {}",
                message.broker, message.queue, message.offset
            ),
            after: "one more copy at the end of a queue".into(),
        }],
        impact: vec![if groups.is_empty() {
            "no group consumes the topic".into()
        } else {
            format!(
                "every group of the topic gets the copy: {}",
                groups.into_iter().collect::<Vec<_>>().join(", ")
            )
        }],
    };
    let mut copy = dlq::again(&message, &topic);
    let original = message.unique_key().unwrap_or(&message.offset_id);
    copy.properties
        .push((dlq::RESENT_FROM.into(), original.to_owned()));
    copy.properties
        .push((dlq::RESENT_AT.into(), time::now_ms().to_string()));
    let producer = Producer::new(Arc::clone(&session.client), &args.producer_group)?;
    let (producer, copy) = (&producer, &copy);
    let sent = Undo::Never("a message that was sent stays");
    change::carry_out(session, &plan, vec![(1, ())], Vec::new(), sent, |()| async move {
        match producer.send(copy).await {
            Ok(sent) => {
                session.note(&format!(
                    "sent to {} queue {} offset {} as {}",
                    sent.broker, sent.queue, sent.offset, sent.unique_key
                ));
                Outcome::Done
            }
            Err(e) => Outcome::Failed(Failure::from(&e)),
        }
    })
    .await
}

/// The client that is meant, and the brokers it is connected to.
async fn target(
    session: &Session,
    group: &str,
    client: Option<&str>,
    brokers: &[BrokerAt],
) -> Result<(String, Vec<BrokerAt>), Failure> {
    let ids: BTreeMap<String, Vec<BrokerAt>> = session.client.clients_of_group(brokers, group).await.ids();
    match client {
        Some(id) => match ids.get(id) {
            Some(brokers) => Ok((id.to_owned(), brokers.clone())),
            None => Err(Failure::new(
                exit::NOT_FOUND,
                format!("client \"{id}\" is not connected in group {group}"),
            )
            .hint(format!("rmq group clients {group}"))),
        },
        None => {
            let mut ids = ids.into_iter();
            match (ids.next(), ids.next()) {
                (Some(only), None) => Ok(only),
                (None, _) => Err(Failure::new(
                    exit::NOT_FOUND,
                    format!("group {group} has no client online"),
                )
                .hint(format!("rmq group clients {group}"))),
                (Some(first), Some(second)) => Err(Failure::usage(format!(
                    "group {group} has several clients: {}, {}{}",
                    first.0,
                    second.0,
                    ids.next().map(|_| ", …").unwrap_or_default()
                ))
                .hint("--client ID")),
            }
        }
    }
}

async fn push(session: &Session, args: PushArgs) -> Result<(), Failure> {
    let (message, _) = message::at_place(session, &args.place).await?;
    let info = session.client.cluster_info().await?;
    let all = crate::client::admin::cluster::select(&info, &crate::client::Scope::default(), Which::Masters)?;
    let (id, _) = target(session, &args.group, args.client.as_deref(), &all).await?;
    // The broker that stores the message is the one that can hand it out, over its own connection to the client.
    let broker = all
        .iter()
        .find(|b| b.id.name == message.broker || b.addr == message.store_host)
        .map_or_else(|| Server::at(&message.store_host), BrokerAt::server);
    let cluster = all.first().map(|b| b.id.cluster.clone()).unwrap_or_default();
    let plan = Plan {
        action: format!("push message {} to client {id}", message.offset_id),
        object: args.group.clone(),
        cluster,
        class: Class::B,
        steps: vec![Step {
            target: format!("client {id}"),
            field: "message".into(),
            before: "-".into(),
            after: format!("consumed now by {}", args.group),
        }],
        impact: vec!["the client's listener runs, whatever the group has consumed already".into()],
    };
    let client = &session.client;
    let (broker, message, id) = (&broker, &message, id.as_str());
    let group = args.group.as_str();
    let consumed = Undo::Never("what the listener did stays");
    change::carry_out(
        session,
        &plan,
        vec![(1, ())],
        Vec::new(),
        consumed,
        |()| async move {
            let result = client
                .push_message(
                    broker,
                    group,
                    id,
                    &message.topic,
                    &message.offset_id,
                    client.deadline(),
                )
                .await;
            match result {
                Ok(result) => {
                    let verdict = result.consume_result.map_or("no result", ConsumeResult::name);
                    let text = format!("{verdict} after {} ms", result.spent_time_mills);
                    match result.consume_result {
                        Some(ConsumeResult::Success | ConsumeResult::Commit) => {
                            session.note(&text);
                            Outcome::Done
                        }
                        _ => Outcome::Failed(
                            Failure::new(exit::REJECTED, format!("the client did not consume it: {text}"))
                                .because(result.remark.unwrap_or_else(|| "It gave no reason.".into())),
                        ),
                    }
                }
                Err(e) => Outcome::Failed(Failure::from(&e)),
            }
        },
    )
    .await
}

/// The queue that a place names.
pub fn queue_of(brokers: &[BrokerAt], broker: &str, queue: i32) -> Option<QueueAt> {
    brokers
        .iter()
        .find(|b| b.id.name == broker || b.addr == broker)
        .map(|b| QueueAt {
            broker: b.server(),
            queue,
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_unique_key_is_the_last_one_that_can_be() {
        // 2026-11-29T17:47:56.978Z; the key says 28 days, 17:47:56.978 after the first.
        let now = 1_795_974_476_978;
        let key = (28_i64 * 86_400_000 + ((17 * 60 + 47) * 60 + 56) * 1000 + 978) as i32;
        assert_eq!(month_time(key, now), Some(now));
        // Seen on the second of December it is of the month before.
        let later = now + 3 * 86_400_000;
        assert_eq!(month_time(key, later), Some(now));
    }
}
