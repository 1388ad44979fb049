//! `rmq message list|count`, and the searches of `find` that read the queues.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Args, ValueEnum};

use super::body::{BodyForm, Charset};
use super::exit::{self, Failure};
use super::message::{at_limit, columns, row};
use super::output::{Cell, Format, Listing, col};
use super::progress::Pulse;
use super::session::Session;
use super::time::{self, When};
use super::topic::not_found;
use crate::client::Message;
use crate::client::admin::message::{QueueAt, queues};
use crate::client::admin::topic::masters;
use crate::client::content::Test;
use crate::client::ordered::Pace;
use crate::client::stretch::{From, Select, picked};
use crate::client::words::counted;

/// Rows that are printed at once when there is no limit.
const CHUNK: usize = 1000;

/// Which messages of a topic.
#[derive(Debug, Clone, Args)]
pub struct StretchArgs {
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    pub topic: String,
    /// Only this broker
    #[arg(short, long, value_name = "NAME")]
    pub broker: Option<String>,
    /// Only this queue number
    #[arg(long, value_name = "N")]
    pub queue: Option<i32>,
    /// Only these tags, such as 'TagA || TagB'; filtered by the broker
    #[arg(long, value_name = "TAGS", conflicts_with = "sql")]
    pub tag: Option<String>,
    /// Only messages whose properties fit this SQL expression; filtered by the broker
    #[arg(long, value_name = "EXPR")]
    pub sql: Option<String>,
}

impl StretchArgs {
    /// What the broker selects.
    pub fn select(&self) -> Select {
        match (&self.sql, &self.tag) {
            (Some(sql), _) => Select::Sql(sql.clone()),
            (None, Some(tags)) => Select::Tags(tags.clone()),
            (None, None) => Select::all(),
        }
    }
}

/// `rmq message list`
#[derive(Debug, Clone, Args)]
pub struct ListArgs {
    #[command(flatten)]
    stretch: StretchArgs,
    /// Where to begin: earliest, latest or a time [default: earliest]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "from_offset"
    )]
    from: Option<When>,
    /// Begin at this offset of each queue
    #[arg(long, value_name = "N")]
    from_offset: Option<i64>,
    /// Stored at or before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
    /// Most messages, the first ones by store time; 0 is no limit and goes queue by queue
    #[arg(long, value_name = "N", default_value_t = 64)]
    limit: usize,
    #[command(flatten)]
    shape: Shape,
}

/// How a message of a stretch is shown.
#[derive(Debug, Clone, Args)]
pub struct Shape {
    /// How the body is shown
    #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
    pub body: BodyForm,
    /// Charset of the bodies, such as gbk
    #[arg(long, value_name = "CHARSET")]
    decode: Option<Charset>,
    /// A line a message with {stored} {broker} {queue} {offset} {tag} {keys} {body} and properties as {prop.NAME}
    #[arg(long, value_name = "TEXT")]
    format: Option<String>,
}

impl Shape {
    /// True where messages are lines of a format and not rows.
    pub const fn is_lines(&self) -> bool {
        self.format.is_some()
    }

    /// Bodies as UTF-8.
    pub fn decode(&self, messages: &mut [Message]) {
        if let Some(charset) = self.decode {
            for message in messages {
                message.body = charset.decode(&message.body).into();
            }
        }
    }

    /// The line of a message; `None` where no format is given.
    pub fn line(&self, session: &Session, message: &Message) -> Option<String> {
        let format = self.format.as_deref()?;
        Some(line(session, format, message, self.body))
    }

    /// Prints messages as lines; false where no format is given.
    pub fn print(&self, session: &Session, messages: &[Message]) -> Result<bool, Failure> {
        let mut out = std::io::stdout().lock();
        for line in messages.iter().filter_map(|message| self.line(session, message)) {
            writeln!(out, "{line}")?;
        }
        Ok(self.is_lines())
    }
}

/// `rmq message count`
#[derive(Debug, Clone, Args)]
pub struct CountArgs {
    #[command(flatten)]
    stretch: StretchArgs,
    /// Stored at or after
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<When>,
    /// Stored at or before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
    /// What a row is; tag and key read the messages
    #[arg(long, value_enum, default_value_t = CountBy::Queue, value_name = "UNIT")]
    by: CountBy,
}

/// What a row of `message count` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CountBy {
    /// One queue
    Queue,
    /// One broker
    Broker,
    /// One tag
    Tag,
    /// One key
    Key,
}

/// Queues of a topic that are meant; none is a failure.
pub async fn wanted(session: &Session, args: &StretchArgs) -> Result<Vec<QueueAt>, Failure> {
    let route = session.client.route(&args.topic).await;
    session.warn_of_dead_name_servers();
    let Some(route) = route? else {
        return Err(not_found(session, &args.topic, String::new()).await);
    };
    let found = picked(&route, args.broker.as_deref(), args.queue);
    if found.is_empty() {
        let all = queues(&route);
        let mut names: Vec<String> = all.iter().filter_map(|at| at.broker.name.clone()).collect();
        names.dedup();
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!(
                "topic {} has no such queue; it has {} on {}",
                args.topic,
                counted(all.len(), "queue"),
                names.join(", ")
            ),
        )
        .hint(format!("rmq topic route {}", args.topic)));
    }
    Ok(found)
}

/// A point where reading begins.
fn beginning(session: &Session, when: Option<&When>) -> Result<From, Failure> {
    match when {
        None | Some(When::Earliest) => Ok(From::Earliest),
        Some(When::Latest) => Ok(From::Offset(i64::MAX)),
        Some(when) => when
            .at_ms(time::now_ms(), &session.printer.zone)
            .map(|ms| ms.map_or(From::Earliest, From::Time))
            .map_err(Failure::usage),
    }
}

/// The end of a window, epoch ms.
fn ending(session: &Session, when: Option<&When>) -> Result<i64, Failure> {
    match when {
        None => Ok(i64::MAX),
        Some(when) => when
            .at_ms(time::now_ms(), &session.printer.zone)
            .map(|ms| ms.unwrap_or(i64::MAX))
            .map_err(Failure::usage),
    }
}

/// How far a scan is, a line every five seconds on stderr.
pub struct Progress<'a> {
    session: &'a Session,
    what: String,
    read: AtomicU64,
    pulse: Mutex<Pulse>,
}

impl<'a> Progress<'a> {
    /// Nothing is read yet.
    pub fn new(session: &'a Session, what: impl Into<String>) -> Self {
        Self {
            session,
            what: what.into(),
            read: AtomicU64::new(0),
            pulse: Mutex::default(),
        }
    }

    /// One more message is read.
    pub fn step(&self) {
        let read = self.read.fetch_add(1, Ordering::Relaxed) + 1;
        if !read.is_multiple_of(256) || self.session.is_quiet() {
            return;
        }
        let mut pulse = self
            .pulse
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if pulse.is_due() {
            self.session.talk(&format!("{}: {read} messages read", self.what));
        }
    }

    /// Messages read so far.
    pub fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

/// Messages of several queues in order of their store time, the first `limit` that pass; what failed.
pub async fn gather(
    session: &Session,
    found: Vec<QueueAt>,
    topic: &str,
    (from, until): (From, i64),
    select: &Select,
    limit: usize,
    passes: &(dyn Fn(&Message) -> bool + Sync),
) -> (Vec<Message>, Vec<Failure>, u64) {
    let client = &session.client;
    let progress = Progress::new(session, topic);
    let pace = Pace::none();
    let (mut stretches, mut failures) = (Vec::new(), Vec::new());
    for stretch in client.stretches(topic, found, from, &pace).await {
        match stretch {
            Ok(stretch) => stretches.push(stretch),
            Err(e) => failures.push(Failure::from(&e)),
        }
    }
    let mut messages = Vec::new();
    let mut visit = |message: Message| {
        progress.step();
        if message.stored_ms > until {
            return ControlFlow::Break(());
        }
        if passes(&message) {
            messages.push(message);
        }
        if messages.len() >= limit {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    };
    let failed = client
        .read_ordered(topic, stretches, select, &pace, &mut visit)
        .await;
    failures.extend(failed.iter().map(Failure::from));
    failures.dedup_by(|a, b| a.what == b.what);
    (messages, failures, progress.read())
}

/// `rmq message list`
pub async fn list(session: &Session, args: ListArgs) -> Result<(), Failure> {
    let from = match args.from_offset {
        Some(offset) => From::Offset(offset),
        None => beginning(session, args.from.as_ref())?,
    };
    let until = ending(session, args.until.as_ref())?;
    let found = wanted(session, &args.stretch).await?;
    let select = args.stretch.select();
    if args.limit == 0 && session.printer.format != Format::Json {
        return everything(session, &args, found, from, until, &select).await;
    }
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let topic = &args.stretch.topic;
    let (messages, failures, _) =
        gather(session, found, topic, (from, until), &select, limit, &|_| true).await;
    let some = !messages.is_empty() || failures.is_empty();
    let verdict = Failure::over(&failures, some);
    if messages.is_empty() && failures.is_empty() {
        session.note(&format!("{topic}: no messages there"));
    }
    print(session, &args, messages, failures, true)?;
    verdict
}

/// Prints messages as a listing or as lines of a format.
fn print(
    session: &Session,
    args: &ListArgs,
    mut messages: Vec<Message>,
    failures: Vec<Failure>,
    first: bool,
) -> Result<(), Failure> {
    args.shape.decode(&mut messages);
    if args.shape.print(session, &messages)? {
        return Ok(());
    }
    let mut listing = Listing::new("MessageList", &columns());
    listing.ordered = true;
    listing.rows = messages.iter().map(|m| row(m, args.shape.body)).collect();
    listing.errors = failures;
    if first {
        if args.limit > 0 && listing.rows.len() >= args.limit {
            at_limit(session, &mut listing, "first");
        }
        return session.printer.print(listing);
    }
    let mut more = session.printer.rows(session.printer.format);
    more.zone = session.printer.zone.again();
    more.width = session.printer.width;
    more.print(listing)
}

/// `--format`: names in braces replaced by what a message has.
fn line(session: &Session, format: &str, message: &Message, body: BodyForm) -> String {
    let mut out = String::new();
    let mut rest = format;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            out.push('{');
            rest = after;
            continue;
        };
        let value = match name {
            "stored" => session.printer.zone.text(message.stored_ms).unwrap_or_default(),
            "born" => session.printer.zone.text(message.born_ms).unwrap_or_default(),
            "topic" => message.topic.clone(),
            "broker" => message.broker.clone(),
            "queue" => message.queue.to_string(),
            "offset" => message.offset.to_string(),
            "tag" => message.tag().unwrap_or_default().to_owned(),
            "keys" => message.keys().join(" "),
            "unique_key" => message.unique_key().unwrap_or_default().to_owned(),
            "offset_id" => message.offset_id.clone(),
            "body" => match body.show(&message.body) {
                Cell::Text(text) => text,
                _ => String::new(),
            },
            other => other
                .strip_prefix("prop.")
                .and_then(|name| message.property(name))
                .unwrap_or_default()
                .to_owned(),
        };
        out.push_str(&super::output::printable(&value));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Without a limit: queue by queue, printed as it comes, so that memory stays small.
async fn everything(
    session: &Session,
    args: &ListArgs,
    found: Vec<QueueAt>,
    from: From,
    until: i64,
    select: &Select,
) -> Result<(), Failure> {
    let client = &session.client;
    let topic = args.stretch.topic.as_str();
    let progress = Progress::new(session, topic);
    let (mut failures, mut printed, mut failed) = (Vec::new(), false, None);
    // Rows of several queues stand in one table.
    let mut chunk: Vec<Message> = Vec::new();
    for at in found {
        let range = match client.stretch(&at, topic, from).await {
            Ok(range) => range,
            Err(e) => {
                failures.push(Failure::from(&e));
                continue;
            }
        };
        let mut visit = |message: Message| {
            progress.step();
            if message.stored_ms > until {
                return ControlFlow::Break(());
            }
            chunk.push(message);
            if chunk.len() >= CHUNK {
                let out = print(session, args, std::mem::take(&mut chunk), Vec::new(), !printed);
                printed = true;
                if let Err(e) = out {
                    failed = Some(e);
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        };
        let read = client.read_stretch(&at, topic, range, select, &mut visit).await;
        if let Some(failure) = failed {
            return Err(failure);
        }
        if let Err(e) = read {
            failures.push(Failure::from(&e));
        }
    }
    if !chunk.is_empty() {
        print(session, args, chunk, Vec::new(), !printed)?;
        printed = true;
    }
    if !printed && failures.is_empty() {
        print(session, args, Vec::new(), Vec::new(), true)?;
        session.note(&format!("{topic}: no messages there"));
    }
    Failure::over(&failures, printed)
}

/// `rmq message count`
pub async fn count(session: &Session, args: CountArgs) -> Result<(), Failure> {
    let from = beginning(session, args.since.as_ref())?;
    let until = ending(session, args.until.as_ref())?;
    let found = wanted(session, &args.stretch).await?;
    let client = &session.client;
    let topic = args.stretch.topic.as_str();
    let select = args.stretch.select();
    let by_content = matches!(args.by, CountBy::Tag | CountBy::Key) || select != Select::all();
    let progress = Progress::new(session, topic);
    let answers = client
        .each(found, |at| {
            let (progress, select) = (&progress, &select);
            async move {
                let (start, mut end) = client.stretch(&at, topic, from).await?;
                let mut counts: BTreeMap<String, i64> = BTreeMap::new();
                if !by_content {
                    if until != i64::MAX {
                        let deadline = client.deadline();
                        end = client
                            .offset_at(&at, topic, until.saturating_add(1), deadline)
                            .await?
                            .clamp(start, end);
                    }
                    counts.insert(String::new(), end - start);
                    return Ok::<_, crate::client::Error>((at, counts));
                }
                let mut visit = |message: Message| {
                    progress.step();
                    if message.stored_ms > until {
                        return ControlFlow::Break(());
                    }
                    let names = match args.by {
                        CountBy::Tag => vec![message.tag().unwrap_or_default().to_owned()],
                        CountBy::Key => message.keys(),
                        CountBy::Queue | CountBy::Broker => vec![String::new()],
                    };
                    for name in names {
                        *counts.entry(name).or_default() += 1;
                    }
                    ControlFlow::Continue(())
                };
                client
                    .read_stretch(&at, topic, (start, end), select, &mut visit)
                    .await?;
                Ok((at, counts))
            }
        })
        .await;
    let columns = match args.by {
        CountBy::Queue => vec![col("broker"), col("queue"), col("count").sums()],
        CountBy::Broker => vec![col("broker"), col("count").sums()],
        CountBy::Tag => vec![col("tag"), col("count").sums()],
        CountBy::Key => vec![col("key"), col("count")],
    };
    let mut listing = Listing::new("MessageCount", &columns);
    let (mut sums, mut total, mut answered) = (BTreeMap::<(String, i32), i64>::new(), 0_i64, false);
    for answer in answers {
        match answer {
            Ok((at, counts)) => {
                answered = true;
                let broker = at.broker.name.clone().unwrap_or(at.broker.addr);
                for (name, n) in counts {
                    total += n;
                    let key = match args.by {
                        CountBy::Queue => (broker.clone(), at.queue),
                        CountBy::Broker => (broker.clone(), 0),
                        CountBy::Tag | CountBy::Key => (name, 0),
                    };
                    *sums.entry(key).or_default() += n;
                }
            }
            Err(e) => listing.errors.push(Failure::from(&e)),
        }
    }
    for ((name, queue), n) in sums {
        let mut row: Vec<Cell> = vec![if name.is_empty() {
            Cell::Unknown
        } else {
            name.into()
        }];
        if args.by == CountBy::Queue {
            row.push(queue.into());
        }
        row.push(n.into());
        listing.push(row);
    }
    listing.errors.dedup_by(|a, b| a.what == b.what);
    listing.summary.insert("messages".into(), total.into());
    listing
        .summary
        .insert("partial".into(), (!listing.errors.is_empty()).into());
    let verdict = Failure::over(&listing.errors, answered);
    if let Some(route) = client.route(topic).await? {
        let wanted = args.stretch.broker.as_deref();
        let mut brokers = masters(&route);
        brokers.retain(|b| wanted.is_none_or(|wanted| b.id.name == wanted || b.addr == wanted));
        super::stranded::tell(session, &brokers, &[], Some(topic), Some(&mut listing)).await;
    }
    session.printer.print(listing)?;
    session.note(&counted(total, "message"));
    verdict
}

/// A search by content, as `message find` makes it.
pub async fn search(
    session: &Session,
    args: &StretchArgs,
    tests: &[Test],
    window: (i64, i64),
    limit: usize,
) -> Result<(Vec<Message>, Vec<Failure>, u64), Failure> {
    let found = wanted(session, args).await?;
    let from = if window.0 <= 0 {
        From::Earliest
    } else {
        From::Time(window.0)
    };
    let passes = |message: &Message| {
        (window.0..=window.1).contains(&message.stored_ms) && tests.iter().all(|t| t.passes(message))
    };
    Ok(gather(
        session,
        found,
        &args.topic,
        (from, window.1),
        &args.select(),
        limit,
        &passes,
    )
    .await)
}
