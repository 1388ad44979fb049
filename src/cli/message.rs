//! `rmq message send|get|find`; `tail` has its own file.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::{Args, Subcommand, ValueEnum};

use super::exit::{self, Failure};
use super::output::{Cell, Column, Detail, Listing, col, wide};
use super::session::Session;
use super::tail::{self, TailArgs};
use super::time::{self, When};
use super::topic::not_found;
use crate::client::admin::cluster::registered;
use crate::client::admin::message::{Pull, QueueAt};
use crate::client::admin::topic::masters;
use crate::client::produce::{Outgoing, Producer};
use crate::client::{BrokerAt, Message, Server};
use crate::protocol::message_id::parse_offset_id;

/// Longest body read from a file or stdin: a frame takes no more.
const BODY_MAX: u64 = 16 * 1024 * 1024;

/// Commands on messages.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Send messages
    Send(SendArgs),
    /// Show one message by id, or by its place in a queue
    Get {
        /// Offset id or unique key; the kind is detected. A unique key needs --topic
        #[arg(required_unless_present = "offset")]
        id: Option<String>,
        /// Topic name
        #[arg(short, long, value_name = "NAME", required_unless_present = "id")]
        topic: Option<String>,
        /// Broker name, with --queue and --offset
        #[arg(short, long, value_name = "NAME")]
        broker: Option<String>,
        /// Queue number, with --offset
        #[arg(long, value_name = "N")]
        queue: Option<i32>,
        /// Offset in the queue
        #[arg(long, value_name = "N", requires_all = ["topic", "broker", "queue"], conflicts_with = "id")]
        offset: Option<i64>,
        /// How the body is shown
        #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
        body: BodyForm,
    },
    /// Find messages by key or id
    Find {
        /// Topic name
        #[arg(short, long, value_name = "NAME")]
        topic: String,
        /// Key the producer gave
        #[arg(
            short,
            long,
            value_name = "KEY",
            required_unless_present = "unique_id",
            conflicts_with = "unique_id"
        )]
        key: Option<String>,
        /// Unique key that the producer's client made
        #[arg(long, value_name = "ID")]
        unique_id: Option<String>,
        /// Stored at or after
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        since: Option<When>,
        /// Stored at or before
        #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
        until: Option<When>,
        /// Most messages from each broker
        #[arg(long, default_value_t = 64, value_name = "N")]
        limit: i32,
        /// How the body is shown
        #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
        body: BodyForm,
    },
    /// Show the newest messages of a topic, or follow it
    Tail(TailArgs),
}

/// `rmq message send`
#[derive(Debug, Clone, Args)]
pub struct SendArgs {
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// Body
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "file",
        conflicts_with = "file"
    )]
    body: Option<String>,
    /// File with the body; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// One message for each line of the file
    #[arg(long, requires = "file")]
    lines: bool,
    /// Key; repeatable
    #[arg(short, long, value_name = "KEY")]
    key: Vec<String>,
    /// Tag
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Property; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    prop: Vec<(String, String)>,
    /// Delay level, 1 to 18 on a default broker
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(i32).range(1..=99))]
    delay: Option<i32>,
    /// Only to this broker
    #[arg(short, long, value_name = "NAME")]
    broker: Option<String>,
    /// Only to this queue
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// How often
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Let the broker create the topic when it does not exist
    #[arg(long)]
    create: bool,
    /// Producer group
    #[arg(short, long, default_value = "RMQ_CLI", value_name = "NAME")]
    group: String,
}

/// How a body is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BodyForm {
    /// Text when it is UTF-8, else hexadecimal
    Auto,
    /// Text, wrong bytes replaced
    Text,
    /// Hexadecimal
    Hex,
    /// Not at all
    None,
}

impl BodyForm {
    /// The body in this form.
    pub fn show(self, body: &[u8]) -> Cell {
        let hex = || body.iter().map(|b| format!("{b:02x}")).collect::<String>();
        match (self, std::str::from_utf8(body)) {
            (Self::None, _) => Cell::Unknown,
            (Self::Hex, _) | (Self::Auto, Err(_)) => hex().into(),
            (Self::Auto | Self::Text, Ok(text)) => text.into(),
            (Self::Text, Err(_)) => String::from_utf8_lossy(body).into_owned().into(),
        }
    }
}

/// Runs a message command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Send(args) => send(session, args).await,
        Command::Get {
            id: Some(id),
            topic,
            body,
            ..
        } => get(session, &id, topic.as_deref(), body).await,
        Command::Get {
            topic: Some(topic),
            broker: Some(broker),
            queue: Some(queue),
            offset: Some(offset),
            body,
            ..
        } => get_at(session, &topic, &broker, queue, offset, body).await,
        Command::Get { .. } => Err(Failure::usage(
            "name an id, or --topic, --broker, --queue and --offset",
        )),
        Command::Find {
            topic,
            key,
            unique_id,
            since,
            until,
            limit,
            body,
        } => {
            let window = window(session, since.as_ref(), until.as_ref())?;
            find(
                session,
                &topic,
                key.as_deref(),
                unique_id.as_deref(),
                window,
                limit,
                body,
            )
            .await
        }
        Command::Tail(args) => tail::run(session, args).await,
    }
}

/// `--since` and `--until` as store times.
pub fn window(session: &Session, since: Option<&When>, until: Option<&When>) -> Result<(i64, i64), Failure> {
    let now = time::now_ms();
    let at = |when: Option<&When>, none: i64| match when {
        None => Ok(none),
        Some(when) => when
            .at_ms(now, &session.printer.zone)
            .map(|ms| ms.unwrap_or(none))
            .map_err(Failure::usage),
    };
    let (from, to) = (at(since, 0)?, at(until, i64::MAX)?);
    if from > to {
        return Err(Failure::usage("the window ends before it begins"));
    }
    Ok((from, to))
}

/// Columns of a list of messages.
pub fn columns() -> Vec<Column> {
    vec![
        col("stored"),
        col("broker"),
        col("queue"),
        col("offset"),
        col("tag"),
        col("keys"),
        col("body"),
        wide("size"),
        wide("reconsume_times"),
        wide("born"),
        wide("born_host"),
        wide("unique_key"),
        wide("offset_id"),
        wide("properties"),
    ]
}

/// One message as a row.
pub fn row(message: &Message, body: BodyForm) -> Vec<Cell> {
    vec![
        Cell::time(Some(message.stored_ms)),
        message.broker.as_str().into(),
        message.queue.into(),
        message.offset.into(),
        message.tag().into(),
        message.keys().into(),
        body.show(&message.body),
        message.size.into(),
        message.reconsume_times.into(),
        Cell::time(Some(message.born_ms)),
        message.born_host.as_str().into(),
        message.unique_key().into(),
        message.offset_id.as_str().into(),
        message
            .properties
            .iter()
            .map(|(k, v)| format!("{k}={v}"))
            .collect::<Vec<_>>()
            .into(),
    ]
}

fn detail(message: &Message, body: BodyForm) -> Detail {
    let mut properties = Listing::new("Properties", &[col("property"), col("value")]);
    properties.ordered = true;
    for (key, value) in &message.properties {
        properties.push(vec![key.as_str().into(), value.as_str().into()]);
    }
    Detail {
        kind: "Message",
        fields: vec![
            ("offset_id", message.offset_id.as_str().into()),
            ("unique_key", message.unique_key().into()),
            ("topic", message.topic.as_str().into()),
            ("broker", message.broker.as_str().into()),
            ("queue", message.queue.into()),
            ("offset", message.offset.into()),
            ("commit_log_offset", message.physical_offset.into()),
            ("tag", message.tag().into()),
            ("keys", message.keys().into()),
            ("stored", Cell::time(Some(message.stored_ms))),
            ("store_host", message.store_host.as_str().into()),
            ("born", Cell::time(Some(message.born_ms))),
            ("born_host", message.born_host.as_str().into()),
            ("reconsume_times", message.reconsume_times.into()),
            ("sys_flag", message.sys_flag.0.into()),
            ("flag", message.flag.into()),
            ("size", message.size.into()),
            ("body_size", message.body.len().into()),
            ("body", body.show(&message.body)),
            ("body_error", message.body_error.clone().into()),
        ],
        tables: vec![("properties", properties)],
        errors: Vec::new(),
    }
}

async fn topic_masters(session: &Session, topic: &str) -> Result<Vec<BrokerAt>, Failure> {
    let route = session.client.route(topic).await;
    session.warn_of_dead_name_servers();
    match route? {
        Some(route) => Ok(masters(&route)),
        None => Err(not_found(session, topic, String::new()).await),
    }
}

async fn get(session: &Session, id: &str, topic: Option<&str>, body: BodyForm) -> Result<(), Failure> {
    let client = &session.client;
    if let Ok((host, offset)) = parse_offset_id(id) {
        // The id holds the broker's address. One that nobody registered may still be right behind an address map.
        let addr = host.to_string();
        let info = client.cluster_info().await;
        session.warn_of_dead_name_servers();
        let known = info.map(|info| registered(&info)).unwrap_or_default();
        let server = known
            .iter()
            .find(|b| b.addr == addr)
            .map_or_else(|| Server::at(&addr), BrokerAt::server);
        match client.message_at(&server, offset, client.deadline()).await {
            Ok(message) => {
                session.note(&format!("{id} is an offset id"));
                return session.printer.print_detail(detail(&message, body));
            }
            // It may be a unique key that reads as an address by chance.
            Err(e) if topic.is_none() => {
                return Err(Failure::from(&e).because(
                    "The id reads as an offset id. If it is a unique key, name its topic with --topic.",
                ));
            }
            Err(_) => {}
        }
    }
    let Some(topic) = topic else {
        return Err(Failure::usage(format!(
            "\"{id}\" is not an offset id; a unique key needs its topic"
        ))
        .hint(format!("rmq message get {id} --topic NAME")));
    };
    let (messages, failures, searched) = search(session, topic, None, id, (0, i64::MAX), 32).await?;
    let Some(message) = messages.first() else {
        return Err(failures.into_iter().next().unwrap_or_else(|| {
            Failure::new(
                exit::NOT_FOUND,
                format!("no message has the id {id} in topic {topic} (searched {searched})"),
            )
            .because("Either it is past retention, or the id belongs to another topic.")
        }));
    };
    session.note(&format!(
        "{id} is a unique key{}",
        match messages.len() {
            1 => String::new(),
            n => format!(" of {n} copies, the first is shown"),
        }
    ));
    session.printer.print_detail(detail(message, body))?;
    Failure::over(&failures, true)
}

async fn get_at(
    session: &Session,
    topic: &str,
    broker: &str,
    queue: i32,
    offset: i64,
    body: BodyForm,
) -> Result<(), Failure> {
    let brokers = topic_masters(session, topic).await?;
    let Some(at) = brokers
        .iter()
        .find(|b| b.id.name == broker || b.addr == broker)
        .map(|b| QueueAt {
            broker: b.server(),
            queue,
        })
    else {
        let names: Vec<&str> = brokers.iter().map(|b| b.id.name.as_str()).collect();
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!(
                "topic {topic} is not on broker \"{broker}\"; it is on {}",
                names.join(", ")
            ),
        ));
    };
    let client = &session.client;
    let pull = Pull {
        topic,
        queue,
        offset,
        most: 1,
        tags: "*",
        hold: None,
    };
    let pulled = client.pull(&at.broker, &pull, client.deadline()).await?;
    match pulled.messages.iter().find(|m| m.offset == offset) {
        Some(message) => session.printer.print_detail(detail(message, body)),
        None => {
            let range = match (pulled.min, pulled.max) {
                (Some(min), Some(max)) => {
                    format!("; the queue holds offsets {min} up to, not including, {max}")
                }
                _ => String::new(),
            };
            Err(Failure::new(
                exit::NOT_FOUND,
                format!(
                    "there is no message at offset {offset} of {topic} on {} queue {queue}{range}",
                    at.broker
                ),
            ))
        }
    }
}

/// Messages by key, or by unique key when `key` is none, from every master of the topic; failures; where it looked.
pub async fn search(
    session: &Session,
    topic: &str,
    key: Option<&str>,
    unique: &str,
    window: (i64, i64),
    limit: i32,
) -> Result<(Vec<Message>, Vec<Failure>, String), Failure> {
    let brokers = topic_masters(session, topic).await?;
    let searched: Vec<String> = brokers.iter().map(|b| b.id.name.clone()).collect();
    let client = &session.client;
    let deadline = client.deadline();
    let answers = client
        .each(brokers, |broker| async move {
            let server = broker.server();
            match key {
                Some(key) => {
                    client
                        .messages_by_key(&server, topic, key, window, limit, deadline)
                        .await
                }
                None => {
                    client
                        .messages_by_unique_key(&server, topic, unique, deadline)
                        .await
                }
            }
        })
        .await;
    let (mut messages, mut failures) = (Vec::new(), Vec::new());
    for answer in answers {
        match answer {
            Ok(found) => messages.extend(found),
            Err(e) => failures.push(Failure::from(&e)),
        }
    }
    messages.sort_by_key(|m: &Message| (m.stored_ms, m.physical_offset));
    messages.retain(|m| (window.0..=window.1).contains(&m.stored_ms));
    Ok((messages, failures, searched.join(", ")))
}

async fn find(
    session: &Session,
    topic: &str,
    key: Option<&str>,
    unique: Option<&str>,
    window: (i64, i64),
    limit: i32,
    body: BodyForm,
) -> Result<(), Failure> {
    if limit < 1 {
        return Err(Failure::usage("--limit is at least 1"));
    }
    let (messages, failures, searched) =
        search(session, topic, key, unique.unwrap_or_default(), window, limit).await?;
    if messages.is_empty() {
        let what = match (key, unique) {
            (Some(key), _) => format!("key \"{key}\""),
            (None, unique) => format!("unique key \"{}\"", unique.unwrap_or_default()),
        };
        let zone = &session.printer.zone;
        let from = if window.0 == 0 {
            "the beginning".to_owned()
        } else {
            zone.text(window.0).unwrap_or_default()
        };
        let to = if window.1 == i64::MAX {
            "now".to_owned()
        } else {
            zone.text(window.1).unwrap_or_default()
        };
        return Err(failures.into_iter().next().unwrap_or_else(|| {
            Failure::new(
                exit::NOT_FOUND,
                format!("no messages match {what} in topic {topic} (searched {searched}; stored from {from} to {to})"),
            )
        }));
    }
    let mut listing = Listing::new("MessageList", &columns());
    listing.ordered = true;
    listing.rows = messages.iter().map(|m| row(m, body)).collect();
    listing.errors = failures;
    let verdict = Failure::over(&listing.errors, true);
    session.printer.print(listing)?;
    verdict
}

fn bodies(args: &SendArgs) -> Result<Vec<Bytes>, Failure> {
    let Some(path) = &args.file else {
        let body = args.body.clone().unwrap_or_default();
        return Ok(vec![Bytes::from(body)]);
    };
    let mut bytes = Vec::new();
    let failed = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let read = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(BODY_MAX + 1).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(BODY_MAX + 1).read_to_end(&mut bytes))
    };
    let length = read.map_err(failed)? as u64;
    if length > BODY_MAX {
        return Err(Failure::usage(format!(
            "{} is longer than {BODY_MAX} bytes, more than a frame takes",
            path.display()
        )));
    }
    let bytes = Bytes::from(bytes);
    if !args.lines {
        return Ok(vec![bytes]);
    }
    Ok(bytes
        .split(|b| *b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .map(|line| bytes.slice_ref(line))
        .collect())
}

async fn send(session: &Session, args: SendArgs) -> Result<(), Failure> {
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            "nothing was sent: the context is read only",
        ));
    }
    let bodies = bodies(&args)?;
    let producer = Producer::new(Arc::clone(&session.client), &args.group)?;
    let template = Outgoing {
        topic: args.topic.clone(),
        body: Bytes::new(),
        keys: args.key.clone(),
        tag: args.tag.clone(),
        properties: args.prop.clone(),
        delay_level: args.delay,
        broker: args.broker.clone(),
        queue: args.queue,
        create_topic: args.create,
    };
    let mut listing = Listing::new(
        "SendResult",
        &[
            col("status"),
            col("broker"),
            col("queue"),
            col("offset"),
            col("unique_key"),
            wide("offset_id"),
        ],
    );
    listing.ordered = true;
    if session.dry_run {
        if session.client.route(&args.topic).await?.is_none() && !args.create {
            return Err(missing_topic(session, &args.topic).await);
        }
        session.note(&format!(
            "would send {} messages to {}",
            bodies.len() as u64 * u64::from(args.count),
            args.topic
        ));
        return Ok(());
    }
    let mut sent = false;
    'all: for body in &bodies {
        for _ in 0..args.count {
            let message = Outgoing {
                body: body.clone(),
                ..template.clone()
            };
            match producer.send(&message).await {
                Ok(done) => {
                    sent = true;
                    listing.push(vec![
                        done.status.name().into(),
                        done.broker.name.unwrap_or(done.broker.addr).into(),
                        done.queue.into(),
                        done.offset.into(),
                        done.unique_key.into(),
                        done.offset_id.into(),
                    ]);
                }
                Err(crate::client::Error::NotFound { .. }) => {
                    return Err(missing_topic(session, &args.topic).await);
                }
                Err(e) => {
                    // What follows would most likely fail the same way, and out of order.
                    listing.errors.push(Failure::from(&e));
                    break 'all;
                }
            }
        }
    }
    session.warn_of_dead_name_servers();
    let verdict = Failure::over(&listing.errors, sent);
    if sent {
        session.printer.print(listing)?;
    }
    verdict
}

async fn missing_topic(session: &Session, topic: &str) -> Failure {
    let failure = not_found(session, topic, String::new()).await;
    failure.hint(format!(
        "rmq topic create {topic}, or --create to let the broker make it"
    ))
}
