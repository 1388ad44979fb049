//! `rmq message tail`: the newest messages of a topic, and what follows.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;

use super::exit::Failure;
use super::message::{columns, row};
use super::message_list::Shape;
use super::output::{Format, Listing, Printer, cut, printable};
use super::session::Session;
use super::time::{self, When};
use super::topic::not_found;
use crate::client::admin::message::{Pull, QueueAt, queues};
use crate::client::follow::{Follow, Followed};
use crate::client::stretch::{Select, picked};
use crate::client::words::counted;
use crate::client::{Error, Message};

/// Messages of one pull.
const BATCH: i32 = 32;

/// `rmq message tail`
#[derive(Debug, Clone, Args)]
pub struct TailArgs {
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// Go on with messages as they come
    #[arg(short, long)]
    follow: bool,
    /// Where to begin: earliest, latest or a time [default: so that the limit is shown]
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
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "follow"
    )]
    until: Option<When>,
    /// Only this broker
    #[arg(short, long, value_name = "NAME")]
    broker: Option<String>,
    /// Only this queue number
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// Only these tags, such as 'TagA || TagB'; filtered by the broker
    #[arg(long, default_value = "*", value_name = "TAGS", hide_default_value = true)]
    tag: String,
    /// Only messages for which this SQL92 expression holds; filtered by the broker (enablePropertyFilter=true)
    #[arg(long, value_name = "EXPR", conflicts_with = "tag")]
    sql: Option<String>,
    /// Only bodies that contain this text
    #[arg(long, value_name = "TEXT")]
    grep: Option<String>,
    /// Only messages with this key
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// Only messages with this property; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    prop: Vec<(String, String)>,
    /// Print at most so many messages a second, such as 10 or 10/s
    #[arg(long, value_name = "RATE", value_parser = super::dlq::rate, requires = "follow")]
    rate: Option<f64>,
    /// Follow for this long, then end
    #[arg(long = "for", value_name = "DURATION", value_parser = time::parse_duration, requires = "follow")]
    span: Option<Duration>,
    /// Pause between two looks for new queues and brokers
    #[arg(long, default_value = "10s", value_name = "DURATION", value_parser = time::parse_duration)]
    refresh: Duration,
    /// Most messages; 0 is no limit [default: 10, without a limit when following]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    #[command(flatten)]
    shape: Shape,
}

impl TailArgs {
    fn wants(&self, message: &Message) -> bool {
        let tags: Vec<&str> = self.tag.split("||").map(str::trim).collect();
        // The broker compares hashes; two tags may share one.
        let tag = self.sql.is_some() || tags == ["*"] || message.tag().is_some_and(|t| tags.contains(&t));
        let text = self
            .grep
            .as_ref()
            .is_none_or(|g| String::from_utf8_lossy(&message.body).contains(g.as_str()));
        tag && text
            && self.key.as_ref().is_none_or(|key| message.keys().contains(key))
            && self
                .prop
                .iter()
                .all(|(name, value)| message.property(name) == Some(value))
    }

    /// What the broker selects.
    fn select(&self) -> Select {
        match &self.sql {
            Some(sql) => Select::Sql(sql.clone()),
            None => Select::Tags(self.tag.clone()),
        }
    }

    fn limit(&self) -> usize {
        match self.limit {
            Some(0) => usize::MAX,
            Some(n) => n,
            None if self.follow => usize::MAX,
            None => 10,
        }
    }
}

/// Runs `rmq message tail`.
pub async fn run(session: &Session, args: TailArgs) -> Result<(), Failure> {
    let found = wanted_queues(session, &args).await;
    session.warn_of_dead_name_servers();
    let found = found?;
    if args.follow {
        return follow(session, &args, found).await;
    }
    show(session, &args, found).await
}

/// The queues that are meant.
async fn wanted_queues(session: &Session, args: &TailArgs) -> Result<Vec<QueueAt>, Failure> {
    let Some(route) = session.client.route(&args.topic).await? else {
        return Err(not_found(session, &args.topic, String::new()).await);
    };
    let found = picked(&route, args.broker.as_deref(), args.queue);
    if found.is_empty() {
        return Err(Failure::new(
            super::exit::NOT_FOUND,
            format!(
                "topic {} has no such queue; it has {}",
                args.topic,
                counted(queues(&route).len(), "queue")
            ),
        )
        .hint(format!("rmq topic route {}", args.topic)));
    }
    Ok(found)
}

/// Where to begin in a queue, and its end now.
async fn range(session: &Session, args: &TailArgs, at: &QueueAt) -> Result<(i64, i64), Error> {
    let client = &session.client;
    let topic = &args.topic;
    let deadline = client.deadline();
    let (min, max) = tokio::try_join!(
        client.min_offset(at, topic, deadline),
        client.max_offset(at, topic, deadline)
    )?;
    let begin = match (args.from_offset, &args.from) {
        (Some(offset), _) => offset,
        (None, Some(When::Earliest)) => min,
        (None, Some(When::Latest)) => max,
        (None, Some(when)) => {
            let zone = &session.printer.zone;
            let ms = when
                .at_ms(time::now_ms(), zone)
                .map_err(|reason| Error::Invalid {
                    what: "--from".into(),
                    reason,
                })?;
            client.offset_at(at, topic, ms.unwrap_or(0), deadline).await?
        }
        // Enough of each queue that the newest of all are among them.
        (None, None) => max.saturating_sub(i64::try_from(args.limit()).unwrap_or(i64::MAX)),
    };
    Ok((begin.clamp(min.min(max), max), max))
}

/// Prints what is there now.
async fn show(session: &Session, args: &TailArgs, found: Vec<QueueAt>) -> Result<(), Failure> {
    let window = super::message::window(session, args.from.as_ref(), args.until.as_ref())?;
    let limit = args.limit();
    let answers = session
        .client
        .each(found, |at| async move {
            read_queue(session, args, &at, window, limit).await
        })
        .await;
    let (mut messages, mut errors, mut answered) = (Vec::new(), Vec::new(), false);
    for answer in answers {
        match answer {
            Ok(found) => {
                answered = true;
                messages.extend(found);
            }
            Err(e) => errors.push(Failure::from(&e)),
        }
    }
    errors.dedup_by(|a, b| a.what == b.what);
    messages.sort_by_key(|m: &Message| (m.stored_ms, m.queue, m.offset));
    if args.from.is_none() && args.from_offset.is_none() {
        messages.drain(..messages.len().saturating_sub(limit));
    } else {
        messages.truncate(limit);
    }
    args.shape.decode(&mut messages);
    if args.shape.print(session, &messages)? {
        return Failure::over(&errors, answered);
    }
    let mut listing = Listing::new("MessageList", &columns());
    listing.ordered = true;
    listing.rows = messages.iter().map(|m| row(m, args.shape.body)).collect();
    listing.errors = errors;
    let verdict = Failure::over(&listing.errors, answered);
    session.printer.print(listing)?;
    verdict
}

/// Messages of one queue from its begin up to its present end, at most `limit`.
async fn read_queue(
    session: &Session,
    args: &TailArgs,
    at: &QueueAt,
    window: (i64, i64),
    limit: usize,
) -> Result<Vec<Message>, Error> {
    let client = &session.client;
    let (mut next, end) = range(session, args, at).await?;
    let mut messages = Vec::new();
    let select = args.select();
    let (text, kind) = select.expression();
    while next < end && messages.len() < limit {
        let pull = Pull {
            topic: &args.topic,
            queue: at.queue,
            offset: next,
            most: BATCH,
            tags: text,
            hold: None,
        };
        let pulled = client.pull_by(&at.broker, &pull, kind, client.deadline()).await?;
        if let Some(damage) = &pulled.damage {
            session.warn(&format!(
                "{} queue {} behind offset {next}: {damage}",
                at.broker, at.queue
            ));
        }
        let past_end = pulled.messages.last().is_some_and(|m| m.stored_ms > window.1);
        messages.extend(
            pulled
                .messages
                .into_iter()
                .filter(|m| m.offset < end && (window.0..=window.1).contains(&m.stored_ms) && args.wants(m)),
        );
        if pulled.next <= next || past_end {
            break;
        }
        next = pulled.next;
    }
    messages.truncate(limit);
    Ok(messages)
}

/// Where to begin in a queue that is followed.
async fn begin(session: &Session, args: &TailArgs, at: &QueueAt) -> Result<i64, Error> {
    let client = &session.client;
    match (&args.from, args.from_offset) {
        (None, None) => client.max_offset(at, &args.topic, client.deadline()).await,
        _ => Ok(range(session, args, at).await?.0),
    }
}

/// Prints messages in the order of their store time as they come, until the limit, the time or an interrupt.
async fn follow(session: &Session, args: &TailArgs, found: Vec<QueueAt>) -> Result<(), Failure> {
    let mut left = args.limit();
    let mut out = Lines::new(session, args)?;
    let mut queues = Vec::with_capacity(found.len());
    for at in found {
        let offset = begin(session, args, &at).await?;
        queues.push((at, offset));
    }
    let followed = Followed {
        topic: args.topic.clone(),
        broker: args.broker.clone(),
        queue: args.queue,
        select: args.select(),
        refresh: args.refresh,
        pace: None,
    };
    let wants = args.clone();
    let passes = Box::new(move |message: &Message| wants.wants(message));
    let mut follow = Follow::new(Arc::clone(&session.client), followed, passes, queues);
    let end = args.span.map(|span| Instant::now() + span);
    // When the next message may be printed.
    let mut pace = std::time::Instant::now();
    while left > 0 {
        let now = std::time::Instant::now();
        let most = if args.rate.is_some() {
            usize::from(pace <= now)
        } else {
            left
        };
        for message in follow.due(most.min(left)) {
            out.print(message)?;
            left -= 1;
            if let Some(rate) = args.rate {
                pace = pace.max(now) + Duration::from_secs_f64(1.0 / rate);
            }
        }
        out.flush()?;
        if left == 0 {
            break;
        }
        for notice in follow.notices() {
            session.warn(&notice);
        }
        let turn = follow
            .next_due()
            .map(|due| if args.rate.is_some() { due.max(pace) } else { due });
        tokio::select! {
            waited = follow.wait(turn) => waited?,
            () = sleep_until(end) => break,
            _ = tokio::signal::ctrl_c() => {
                print_rest(&mut out, &mut follow, left)?;
                return Err(Failure::new(super::exit::INTERRUPTED, "interrupted"));
            }
        }
    }
    print_rest(&mut out, &mut follow, left)
}

/// What came and waits for older messages is printed at the end, too.
fn print_rest(out: &mut Lines<'_>, follow: &mut Follow, left: usize) -> Result<(), Failure> {
    for message in follow.rest().into_iter().take(left) {
        out.print(message)?;
    }
    out.flush()
}

/// Sleeps until then, or for ever.
async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Messages one a line, in the chosen form.
struct Lines<'a> {
    session: &'a Session,
    shape: &'a Shape,
    rows: Printer,
}

impl<'a> Lines<'a> {
    fn new(session: &'a Session, args: &'a TailArgs) -> Result<Self, Failure> {
        let format = match session.printer.format {
            // A stream has no end at which one document could be closed.
            Format::Json | Format::Jsonl => Format::Jsonl,
            other => other,
        };
        if format == Format::Csv && !args.shape.is_lines() && session.printer.headers {
            let head = Printer {
                headers: true,
                filter: None,
                ..session.printer.rows(format)
            };
            head.print(Listing::new("MessageList", &columns()))?;
        }
        Ok(Self {
            session,
            shape: &args.shape,
            rows: session.printer.rows(format),
        })
    }

    fn print(&mut self, mut message: Message) -> Result<(), Failure> {
        self.shape.decode(std::slice::from_mut(&mut message));
        let message = &message;
        if let Some(line) = self.shape.line(self.session, message) {
            return Ok(writeln!(std::io::stdout().lock(), "{line}")?);
        }
        if !self.session.is_table() {
            let mut listing = Listing::new("MessageList", &columns());
            listing.push(row(message, self.shape.body));
            return self.rows.print(listing);
        }
        let printer = &self.session.printer;
        let time = printer.zone.text(message.stored_ms).unwrap_or_default();
        let tag = message.tag().map(|t| format!(" [{t}]")).unwrap_or_default();
        let keys = message.keys().join(" ");
        let keys = if keys.is_empty() { keys } else { format!(" {keys}") };
        let body = match self.shape.body.show(&message.body) {
            super::output::Cell::Text(text) => format!(" {text}"),
            _ => String::new(),
        };
        let line = printable(&format!(
            "{time} {}/{}@{}{tag}{keys}{body}",
            message.broker, message.queue, message.offset
        ));
        let line = match printer.width.filter(|_| printer.format == Format::Table) {
            Some(width) => cut(&line, width),
            None => line,
        };
        writeln!(std::io::stdout().lock(), "{line}")?;
        Ok(())
    }

    fn flush(&self) -> Result<(), Failure> {
        std::io::stdout().lock().flush()?;
        Ok(())
    }
}
