//! `rmq message send|get|find`; `tail`, `list` and what is done with one message have their own files.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use clap::{Args, Subcommand};

pub use super::body::BodyForm;
use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::message_list::StretchArgs;
use super::output::{Cell, Column, Detail, Listing, PROPERTIES, col, wide};
use super::session::Session;
use super::tail::{self, TailArgs};
use super::time::{self, When};
use super::topic::not_found;
use super::{message_act, message_list};
use crate::client::admin::message::{Pull, QueueAt};
use crate::client::admin::topic::{MAX_QUEUES, masters};
use crate::client::content::{JsonTest, Test};
use crate::client::find::Name;
use crate::client::produce::{Outgoing, Producer};
use crate::client::words::counted;
use crate::client::{BrokerAt, Message};
use crate::protocol::model::java_hash;
use crate::protocol::properties::names;

/// Longest body read from a file or stdin: a frame takes no more.
const BODY_MAX: u64 = 16 * 1024 * 1024;

/// Commands on messages.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Send messages
    Send(SendArgs),
    /// Show one message by id, or by its place in a queue
    Get {
        #[command(flatten)]
        place: Place,
        /// How the body is shown
        #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
        body: BodyForm,
    },
    /// Find messages by key or id, or by what is in them
    Find(FindArgs),
    /// Show the messages of a topic, oldest first
    List(message_list::ListArgs),
    /// Count the messages of a topic
    Count(message_list::CountArgs),
    #[command(flatten)]
    One(message_act::Command),
    /// Show the newest messages of a topic, or follow it
    Tail(TailArgs),
}

/// Which message: its id, or its place in a queue.
#[derive(Debug, Clone, Args)]
pub struct Place {
    /// Offset id or unique key; the kind is detected. A unique key needs --topic
    #[arg(required_unless_present_any = ["offset", "queue"])]
    id: Option<String>,
    /// Topic name
    #[arg(short, long, value_name = "NAME", required_unless_present = "id")]
    topic: Option<String>,
    /// Broker name, with --queue and --offset
    #[arg(short, long, value_name = "NAME")]
    broker: Option<String>,
    /// Queue number, with --offset
    #[arg(long, value_name = "N", requires = "offset")]
    queue: Option<i32>,
    /// Offset in the queue
    #[arg(long, value_name = "N", requires_all = ["topic", "broker", "queue"], conflicts_with = "id")]
    offset: Option<i64>,
}

/// `rmq message find`
#[derive(Debug, Clone, Args)]
pub struct FindArgs {
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// Key the producer gave
    #[arg(short, long, value_name = "KEY", conflicts_with_all = ["unique_id", "id"])]
    key: Option<String>,
    /// Unique key that the producer's client made
    #[arg(long, value_name = "ID", conflicts_with = "id")]
    unique_id: Option<String>,
    /// Offset id
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// Tags, such as 'TagA || TagB'; without a key or an id the queues are read
    #[arg(long, value_name = "TAGS")]
    tag: Option<String>,
    /// A property has this value; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    prop: Vec<(String, String)>,
    /// The body contains this text
    #[arg(long, value_name = "TEXT")]
    body_contains: Option<String>,
    /// A value in a JSON body, such as 'order.id=7', with = != ~ > >= < <=
    #[arg(long, value_name = "EXPR")]
    body_json: Option<JsonTest>,
    /// Stored at or after
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<When>,
    /// Stored at or before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
    /// Most messages
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    limit: i32,
    /// Every copy with the unique key, not the first one alone
    #[arg(long, requires = "unique_id")]
    all_copies: bool,
    /// How the body is shown
    #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
    body: BodyForm,
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
    /// Deliver later: a delay level, 1 to 18 on a default broker, or a duration such as 90s
    #[arg(long, value_name = "LEVEL|DURATION", value_parser = delay)]
    delay: Option<Delay>,
    /// Deliver at this time
    #[arg(long, value_name = "TIME", conflicts_with = "delay")]
    at: Option<When>,
    /// Messages of one key go to one queue, as clients choose it by hash
    #[arg(long, value_name = "KEY", conflicts_with_all = ["queue", "broker"])]
    order_key: Option<String>,
    /// Only to this broker
    #[arg(short, long, value_name = "NAME")]
    broker: Option<String>,
    /// Only to this queue
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// How often
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// Messages a second at most
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Let the broker create the topic when it does not exist
    #[arg(long)]
    create: bool,
    /// Producer group
    #[arg(short, long, default_value = "RMQ_CLI", value_name = "NAME")]
    group: String,
}

/// `--delay`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Delay {
    /// A level of the broker's list.
    Level(i32),
    /// That long after the broker has it, ms.
    Ms(u128),
}

fn delay(text: &str) -> Result<Delay, String> {
    if let Ok(level) = text.parse::<i32>() {
        return if level >= 1 {
            Ok(Delay::Level(level))
        } else {
            Err(format!(
                "{level} is not a delay level; use 1 to 18, or a duration such as 90s"
            ))
        };
    }
    time::parse_duration(text).map(|span| Delay::Ms(span.as_millis()))
}

/// Runs a message command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Send(args) => send(session, args).await,
        Command::Get { place, body } => {
            let (message, failures) = at_place(session, &place).await?;
            session.printer.print_detail(detail(&message, body))?;
            Failure::over(&failures, true)
        }
        Command::Find(args) => find(session, &args).await,
        Command::List(args) => message_list::list(session, args).await,
        Command::Count(args) => message_list::count(session, args).await,
        Command::One(command) => message_act::run(session, command).await,
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
        wide("offset_id").named(),
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
        Cell::Pairs(message.properties.clone()),
    ]
}

/// One message in full.
pub fn detail(message: &Message, body: BodyForm) -> Detail {
    let mut properties = Listing::new(PROPERTIES, &[col("property"), col("value")]);
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

/// The message that a place names, and brokers that failed on the way.
pub async fn at_place(session: &Session, place: &Place) -> Result<(Message, Vec<Failure>), Failure> {
    match place {
        Place {
            id: Some(id), topic, ..
        } => by_id(session, id, topic.as_deref()).await,
        Place {
            topic: Some(topic),
            broker: Some(broker),
            queue: Some(queue),
            offset: Some(offset),
            ..
        } => by_offset(session, topic, broker, *queue, *offset)
            .await
            .map(|message| (message, Vec::new())),
        _ => Err(Failure::usage(
            "name an id, or --topic, --broker, --queue and --offset",
        )),
    }
}

async fn by_id(session: &Session, id: &str, topic: Option<&str>) -> Result<(Message, Vec<Failure>), Failure> {
    let client = &session.client;
    if let Some(spot) = client.spot(id).await {
        session.warn_of_dead_name_servers();
        match client
            .message_at(&spot.server, spot.offset, client.deadline())
            .await
        {
            Ok(message) => {
                session.note(&format!("{id} is an offset id"));
                return Ok((message, Vec::new()));
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
    let copies = messages.len();
    let Some(message) = messages.into_iter().next() else {
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
        match copies {
            1 => String::new(),
            n => format!(" of {}, the first is shown", counted(n, "copy")),
        }
    ));
    Ok((message, failures))
}

async fn by_offset(
    session: &Session,
    topic: &str,
    broker: &str,
    queue: i32,
    offset: i64,
) -> Result<Message, Failure> {
    let brokers = topic_masters(session, topic).await?;
    let Some(at) = message_act::queue_of(&brokers, broker, queue) else {
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
    let pulled = match client.pull(&at.broker, &pull, client.deadline()).await {
        Ok(pulled) => pulled,
        Err(e) => {
            return Err(queue_missing(session, topic, &at)
                .await
                .unwrap_or_else(|| Failure::from(&e)));
        }
    };
    let range = match (pulled.min, pulled.max) {
        (Some(min), Some(max)) => {
            format!("; the queue holds offsets {min} up to, not including, {max}")
        }
        _ => String::new(),
    };
    pulled
        .messages
        .into_iter()
        .find(|m| m.offset == offset)
        .ok_or_else(|| {
            Failure::new(
                exit::NOT_FOUND,
                format!(
                    "there is no message at offset {offset} of {topic} on {} queue {queue}{range}",
                    at.broker
                ),
            )
        })
}

/// That a topic has no such queue on a broker, if it is so: a broker refuses a pull of it with SYSTEM_ERROR.
async fn queue_missing(session: &Session, topic: &str, at: &QueueAt) -> Option<Failure> {
    let route = session.client.route(topic).await.ok().flatten()?;
    let queues = route
        .queue_datas
        .iter()
        .find(|data| Some(&data.broker_name) == at.broker.name.as_ref())?
        .read_queue_nums;
    if (0..queues).contains(&at.queue) {
        return None;
    }
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!("topic {topic} has no queue {} on {}", at.queue, at.broker),
    );
    Some(
        failure
            .because(format!(
                "Its {} there are numbered from 0.",
                counted(queues, "queue")
            ))
            .hint(format!("rmq topic route {}", super::quoted(topic))),
    )
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
    let name = key.map_or(Name::Unique(unique), Name::Key);
    let found = session.client.find_messages(topic, name, window, limit).await;
    session.warn_of_dead_name_servers();
    let Some(found) = found? else {
        return Err(not_found(session, topic, String::new()).await);
    };
    let failures = found.failed.iter().map(Failure::from).collect();
    Ok((found.messages, failures, found.searched.join(", ")))
}

impl FindArgs {
    fn tests(&self) -> Vec<Test> {
        let properties = self
            .prop
            .iter()
            .map(|(k, v)| Test::Property(k.clone(), v.clone()));
        properties
            .chain(self.body_contains.clone().map(Test::Contains))
            .chain(self.body_json.clone().map(Test::Json))
            .collect()
    }

    /// What is looked for, in words.
    fn words(&self) -> String {
        let mut words = Vec::new();
        if let Some(key) = &self.key {
            words.push(format!("key \"{key}\""));
        }
        if let Some(id) = &self.unique_id {
            words.push(format!("unique key \"{id}\""));
        }
        if let Some(tag) = &self.tag {
            words.push(format!("tag \"{tag}\""));
        }
        words.extend(self.prop.iter().map(|(k, v)| format!("property {k}={v}")));
        if let Some(text) = &self.body_contains {
            words.push(format!("body text \"{text}\""));
        }
        if self.body_json.is_some() {
            words.push("the JSON value".into());
        }
        words.join(" and ")
    }
}

async fn find(session: &Session, args: &FindArgs) -> Result<(), Failure> {
    let window = window(session, args.since.as_ref(), args.until.as_ref())?;
    let topic = args.topic.as_str();
    let tests = args.tests();
    if tests.is_empty()
        && [&args.key, &args.unique_id, &args.id, &args.tag]
            .iter()
            .all(|what| what.is_none())
    {
        return Err(Failure::usage(
            "name what to find: --key, --unique-id, --id, --tag, --prop, --body-contains or --body-json",
        )
        .hint(format!("rmq message find --topic {topic} --key K-7")));
    }
    let limit = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let (mut messages, failures, searched) = if let Some(id) = &args.id {
        let (message, failures) = by_id(session, id, Some(topic)).await?;
        let searched = message.broker.clone();
        (vec![message], failures, searched)
    } else if args.key.is_some() || args.unique_id.is_some() {
        let unique = args.unique_id.as_deref().unwrap_or_default();
        search(session, topic, args.key.as_deref(), unique, window, args.limit).await?
    } else {
        let stretch = StretchArgs {
            topic: topic.to_owned(),
            broker: None,
            queue: None,
            tag: args.tag.clone(),
            sql: None,
        };
        let (messages, failures, read) =
            message_list::search(session, &stretch, &tests, window, limit).await?;
        (messages, failures, format!("{read} messages read"))
    };
    let tags: Option<Vec<&str>> = args.tag.as_ref().map(|t| t.split("||").map(str::trim).collect());
    messages.retain(|m| {
        tests.iter().all(|t| t.passes(m))
            && tags
                .as_ref()
                .is_none_or(|tags| m.tag().is_some_and(|tag| tags.contains(&tag)))
    });
    // By key the newest are what the brokers gave; a search that reads begins at the oldest.
    let full = messages.len() >= limit;
    if args.key.is_some() {
        messages.drain(..messages.len().saturating_sub(limit));
    }
    messages.truncate(limit);
    if args.unique_id.is_some() && !args.all_copies && messages.len() > 1 {
        session.note(&format!(
            "{} copies have this key, the first is shown; --all-copies shows the others",
            messages.len()
        ));
        messages.truncate(1);
    }
    if messages.is_empty() {
        let what = args.words();
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
    listing.rows = messages.iter().map(|m| row(m, args.body)).collect();
    listing.errors = failures;
    let verdict = Failure::over(&listing.errors, true);
    if full {
        at_limit(
            session,
            &mut listing,
            if args.key.is_some() { "newest" } else { "first" },
        );
    }
    session.printer.print(listing)?;
    verdict
}

/// Says that `--limit` ended a listing of messages.
pub fn at_limit(session: &Session, listing: &mut Listing, which: &str) {
    let shown = listing.rows.len();
    listing.summary.insert("limit_reached".into(), true.into());
    session.note(&format!(
        "the {which} {shown}; there may be more: --limit {}",
        shown * 10
    ));
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
    let lines: Vec<Bytes> = bytes
        .split(|b| *b == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| !line.is_empty())
        .map(|line| bytes.slice_ref(line))
        .collect();
    if lines.is_empty() {
        return Err(Failure::usage(format!("{} has no line to send", path.display())));
    }
    Ok(lines)
}

async fn send(session: &Session, args: SendArgs) -> Result<(), Failure> {
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            "nothing was sent: the context is read only",
        ));
    }
    change::refuse_metrics(session, "message send")?;
    if args.rate.is_some_and(|rate| !rate.is_finite() || rate <= 0.0) {
        return Err(Failure::usage("--rate is a number above 0"));
    }
    let bodies = bodies(&args)?;
    let wanted = bodies.len() as u64 * u64::from(args.count);
    let producer = Producer::new(Arc::clone(&session.client), &args.group)?;
    let mut template = Outgoing {
        topic: args.topic.clone(),
        body: Bytes::new(),
        keys: args.key.clone(),
        tag: args.tag.clone(),
        properties: args.prop.clone(),
        delay_level: None,
        broker: args.broker.clone(),
        queue: args.queue,
        create_topic: args.create,
    };
    match args.delay {
        Some(Delay::Level(level)) => {
            check_level(session, &args, level).await?;
            template.delay_level = Some(level);
        }
        Some(Delay::Ms(ms)) => template
            .properties
            .push((names::TIMER_DELAY_MS.into(), ms.to_string())),
        None => {}
    }
    if let Some(at) = &args.at {
        let ms = at
            .at_ms(time::now_ms(), &session.printer.zone)
            .map_err(Failure::usage)?
            .ok_or_else(|| Failure::usage("--at wants a point in time"))?;
        template
            .properties
            .push((names::TIMER_DELIVER_MS.into(), ms.to_string()));
    }
    if let Some(key) = &args.order_key {
        let (broker, queue) = queue_by_hash(session, &args.topic, key).await?;
        template
            .properties
            .push((names::SHARDING_KEY.into(), key.clone()));
        template.broker = Some(broker);
        template.queue = Some(queue);
    }
    let mut listing = Listing::new(
        "SendResult",
        &[
            col("status"),
            col("broker"),
            col("queue"),
            col("offset"),
            col("unique_key"),
            wide("offset_id").named(),
        ],
    );
    listing.ordered = true;
    if session.dry_run {
        if session.client.route(&args.topic).await?.is_none() && !args.create {
            return Err(missing_topic(session, &args.topic).await);
        }
        session.note(&format!(
            "would send {} to {}",
            counted(wanted, "message"),
            args.topic
        ));
        return if session.is_table() {
            Ok(())
        } else {
            session.printer.print(listing)
        };
    }
    let plan = plan(session, &args.topic, wanted).await?;
    // The line itself says what is sent and where to: it is asked for only where the context wants the cluster named.
    if session.protected {
        change::ask(session, &plan)?;
    } else {
        session.under_way.begin(&plan);
    }
    let mut stopped = std::pin::pin!(session.stopped());
    let mut ticks = args.rate.map(|rate| {
        tokio::time::interval(std::time::Duration::from_secs_f64(
            (1.0 / rate).clamp(1e-6, 86_400.0),
        ))
    });
    let mut is_stopped = false;
    'all: for body in &bodies {
        for _ in 0..args.count {
            let tick = async {
                if let Some(ticks) = &mut ticks {
                    ticks.tick().await;
                }
            };
            tokio::select! {
                biased;
                () = &mut stopped => {
                    is_stopped = true;
                    break 'all;
                }
                () = tick => {}
            }
            let message = Outgoing {
                body: body.clone(),
                ..template.clone()
            };
            match producer.send(&message).await {
                Ok(done) => {
                    session.under_way.did_one();
                    listing.push(vec![
                        done.status.name().into(),
                        done.broker.name.unwrap_or(done.broker.addr).into(),
                        done.queue.into(),
                        done.offset.into(),
                        done.unique_key.into(),
                        done.offset_id.into(),
                    ]);
                }
                Err(e) => {
                    let failure = match &e {
                        crate::client::Error::NotFound { .. } => {
                            Some(missing_topic(session, &args.topic).await)
                        }
                        crate::client::Error::Invalid { .. } => closed(session, &args.topic).await,
                        _ => None,
                    };
                    // What follows would most likely fail the same way, and out of order.
                    listing.errors.push(failure.unwrap_or_else(|| Failure::from(&e)));
                    break 'all;
                }
            }
        }
    }
    session.warn_of_dead_name_servers();
    let sent = listing.rows.len() as u64;
    let outcome = match listing.errors.first() {
        None if sent == wanted => Outcome::Done,
        None => Outcome::Unproven(format!("interrupted after {sent}")),
        Some(failure) if sent == 0 => Outcome::Failed(failure.clone()),
        Some(failure) => Outcome::Unproven(format!("{sent} sent, then {}", failure.line())),
    };
    if sent > 0 || listing.errors.iter().any(|failure| failure.unsettled) {
        change::journal(session, &plan, &[outcome], None);
    }
    let verdict = Failure::over(&listing.errors, sent > 0);
    if wanted > 1 && !listing.errors.is_empty() {
        session.warn(&format!("{sent} of {} were sent", counted(wanted, "message")));
    }
    if sent > 0 {
        session.printer.print(listing)?;
    }
    match is_stopped {
        true => Err(Failure::new(
            exit::INTERRUPTED,
            format!("interrupted after {} of {wanted}", counted(sent, "message")),
        )),
        false => verdict,
    }
}

/// What a send is about to do: for the journal, and for a protected context's question.
async fn plan(session: &Session, topic: &str, count: u64) -> Result<Plan, Failure> {
    let route = session.client.route(topic).await?;
    let cluster = route.and_then(|route| Some(route.broker_datas.first()?.cluster.clone()));
    Ok(Plan {
        action: format!("send to topic {topic}"),
        object: topic.to_owned(),
        cluster: cluster.or_else(|| session.cluster.clone()).unwrap_or_default(),
        class: Class::A,
        steps: vec![Step {
            target: format!("topic {topic}"),
            field: "messages".into(),
            before: "-".into(),
            after: format!("{count} more"),
        }],
        impact: vec!["groups of the topic get what is sent".into()],
    })
}

/// Refuses a level that a broker of the topic does not have; a broker takes any, and delivers those beyond its list with the
/// last one.
async fn check_level(session: &Session, args: &SendArgs, level: i32) -> Result<(), Failure> {
    let client = &session.client;
    // A topic that is not there is told where the message is sent.
    let Some(route) = client.route(&args.topic).await? else {
        return known_levels(level, JAVA_LEVELS, "a broker");
    };
    let brokers = masters(&route).into_iter().filter(|broker| {
        args.broker
            .as_ref()
            .is_none_or(|wanted| broker.id.name == *wanted || broker.addr == *wanted)
    });
    let levels = client
        .each(brokers.collect(), |broker| async move {
            let config = client.broker_config(&broker.server(), client.deadline()).await;
            let levels = config.map(|mut config| {
                let list = config.remove("messageDelayLevel");
                list.map_or(JAVA_LEVELS, |list| list.split_whitespace().count())
            });
            (levels, broker)
        })
        .await;
    for (levels, broker) in levels {
        match levels {
            Ok(levels) => known_levels(level, levels, &broker.id.name)?,
            Err(e) => session.warn(&format!(
                "which delay levels {} has is not known: {}",
                broker.server(),
                e.reason()
            )),
        }
    }
    Ok(())
}

/// Levels of a broker that tells its configuration without them (`MessageStoreConfig.messageDelayLevel` of 5.3.3).
const JAVA_LEVELS: usize = 18;

fn known_levels(level: i32, levels: usize, broker: &str) -> Result<(), Failure> {
    if usize::try_from(level).is_ok_and(|level| (1..=levels).contains(&level)) {
        return Ok(());
    }
    Err(
        Failure::usage(format!("{broker} has delay levels 1 to {levels}, not {level}"))
            .hint("a duration such as --delay 90s, or --at TIME"),
    )
}

/// The queue that Java's `SelectMessageQueueByHash` takes for a key: queues by broker name and number, the key's hash
/// without its sign modulo their number.
async fn queue_by_hash(session: &Session, topic: &str, key: &str) -> Result<(String, i32), Failure> {
    let Some(route) = session.client.route(topic).await? else {
        return Err(missing_topic(session, topic).await);
    };
    let mut queues: Vec<(String, i32)> = route
        .queue_datas
        .iter()
        .filter(|q| q.perm.writable())
        .flat_map(|q| (0..q.write_queue_nums.clamp(0, MAX_QUEUES)).map(|n| (q.broker_name.clone(), n)))
        .collect();
    queues.sort();
    let hash = usize::try_from(java_hash(key).checked_abs().unwrap_or(0)).unwrap_or(0);
    let at = hash % queues.len().max(1);
    if let Some(queue) = queues.into_iter().nth(at) {
        return Ok(queue);
    }
    Err(match closed(session, topic).await {
        Some(failure) => failure,
        None => Failure::new(
            exit::PRECONDITION,
            format!("topic {topic} has no queue that can be written"),
        )
        .hint(format!("rmq topic route {topic}")),
    })
}

/// That nothing of a topic may be written, if it is so: by its own permission, or by that of its brokers.
async fn closed(session: &Session, topic: &str) -> Option<Failure> {
    let route = session.client.route(topic).await.ok().flatten()?;
    let shut = |q: &crate::protocol::body::QueueData| !q.perm.writable();
    if route.queue_datas.is_empty() || !route.queue_datas.iter().all(shut) {
        return None;
    }
    let perms: Vec<String> = route
        .queue_datas
        .iter()
        .map(|q| format!("{} on {}", q.perm, q.broker_name))
        .collect();
    let failure = Failure::new(
        exit::PRECONDITION,
        format!(
            "topic {topic} takes no messages: its permission is {}; nothing was sent",
            perms.join(", ")
        ),
    );
    // A broker registers a topic's permission cut down to its own.
    let own = super::topic::configs(session, &masters(&route), topic).await;
    let by_broker = own
        .iter()
        .find(|(_, answer)| matches!(answer, Ok(Some((config, _))) if config.perm.writable()));
    Some(match by_broker {
        Some((broker, _)) => failure.hint(format!(
            "rmq broker set-permission {} +W",
            super::quoted(&broker.id.name)
        )),
        None => failure.hint(format!("rmq topic update {} --perm 6", super::quoted(topic))),
    })
}

async fn missing_topic(session: &Session, topic: &str) -> Failure {
    let failure = not_found(session, topic, String::new()).await;
    failure.hint(format!(
        "rmq topic create {topic}, or --create to let the broker make it"
    ))
}
