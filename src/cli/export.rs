//! `rmq export`, `rmq import`, `rmq message export|import`: a cluster and its messages as files.

mod report;

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};

use super::apply::{Reach, held, read_accounts};
use super::change::{self, Class, Outcome, Plan, Step};
use super::diff::write_new;
use super::dlq::{Tally, rate};
use super::exit::{self, Failure};
use super::message::window;
use super::message_file::{Copy, FileForm};
use super::output::{Listing, col};
use super::progress::Progress;
use super::quoted;
use super::scope::ScopeArgs;
use super::session::Session;
use super::time::When;
use super::topic::not_found;
use crate::client::declare::write;
use crate::client::produce::Producer;
use crate::client::record::Record;
use crate::client::words::counted;
use crate::client::{Error, Message, Which};

/// Longest line of a file that is imported: a frame takes no more, and Base64 makes a third more of it.
const LINE_MAX: usize = 24 * 1024 * 1024;
/// Failures in a row after which nothing more is tried.
const GIVE_UP: u32 = 5;

/// Commands that write a cluster to files.
#[derive(Debug, Clone, Subcommand)]
pub enum ExportCommand {
    /// Topics as TOML that rmq apply reads back
    Topics(DeclaredArgs),
    /// Groups as TOML that rmq apply reads back
    Groups(DeclaredArgs),
    /// Topics, groups, users without passwords and access rules as TOML that rmq apply reads back
    All(DeclaredArgs),
    /// The settings of brokers that decide what happens to a message
    Config(report::ConfigArgs),
    /// Figures for sizing: rates, disk, counts
    Metrics(report::ReportArgs),
    /// Messages of a topic with all properties
    Messages(ExportArgs),
    /// Committed offsets of groups, as rmq offset export
    Offsets(super::offsets::ExportArgs),
}

/// Commands that read files back.
#[derive(Debug, Clone, Subcommand)]
pub enum ImportCommand {
    /// Send the messages of a file
    Messages(ImportArgs),
    /// Write committed offsets back, as rmq offset import
    Offsets(super::offsets::ImportArgs),
}

/// What `export topics|groups|all` takes.
#[derive(Debug, Clone, Args)]
pub struct DeclaredArgs {
    /// File to write; - is stdout. A file that exists is not overwritten
    #[arg(long, default_value = "-", value_name = "FILE", hide_default_value = true)]
    out: PathBuf,
    /// System, retry and dead-letter objects as well
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq message export`
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// File to write; - is stdout. A file that exists is not overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Go on with the file of an export that broke off: what is in it is not read again
    #[arg(long)]
    resume: bool,
    /// Form of the file; only jsonl can be imported
    #[arg(long, value_enum, default_value_t = FileForm::Jsonl, value_name = "FORM")]
    format: FileForm,
    /// Stored at or after
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<When>,
    /// Stored at or before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
    /// Only these tags, such as 'TagA || TagB'
    #[arg(long, default_value = "*", value_name = "TAGS", hide_default_value = true)]
    tag: String,
    /// Only messages with this key
    #[arg(short, long, value_name = "KEY")]
    key: Option<String>,
    /// Only messages with this property; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = super::broker::pair)]
    prop: Vec<(String, String)>,
    /// Only this broker
    #[arg(short, long, value_name = "NAME")]
    broker: Option<String>,
    /// Only this queue number
    #[arg(long, value_name = "N")]
    queue: Option<i32>,
    /// Most messages
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

impl ExportArgs {
    /// The command line, without --resume; what was so long ago then is a point in time.
    fn command(&self, window: (i64, i64)) -> String {
        let mut line = "rmq message export".to_owned();
        let mut add = |flag: &str, value: &str| line.push_str(&format!(" {flag}={}", quoted(value)));
        add("--topic", &self.topic);
        add("--out", &self.out.display().to_string());
        if self.format == FileForm::Csv {
            add("--format", "csv");
        }
        for (flag, when, ms) in [
            ("--since", &self.since, window.0),
            ("--until", &self.until, window.1),
        ] {
            if when.is_some() {
                add(flag, &ms.to_string());
            }
        }
        if self.tag != "*" {
            add("--tag", &self.tag);
        }
        for (key, value) in &self.prop {
            add("--prop", &format!("{key}={value}"));
        }
        let numbers = [
            ("--key", self.key.clone()),
            ("--broker", self.broker.clone()),
            ("--queue", self.queue.map(|queue| queue.to_string())),
            ("--limit", self.limit.map(|limit| limit.to_string())),
        ];
        for (flag, value) in numbers {
            if let Some(value) = value {
                add(flag, &value);
            }
        }
        line
    }
}

/// `rmq message import`
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// JSON lines, as rmq message export and rmq dlq export write them; - is stdin
    #[arg(short, long, value_name = "FILE")]
    file: PathBuf,
    /// Send to this topic [default: the topic that each message names]
    #[arg(long, value_name = "NAME")]
    to_topic: Option<String>,
    /// Messages a second, such as 100 or 100/s [default: as fast as they go]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Leave out the first N lines: how to go on with an import that was interrupted
    #[arg(long, default_value_t = 0, value_name = "N")]
    skip: u64,
    /// Most messages
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Producer group
    #[arg(short, long, default_value = "RMQ_CLI", value_name = "NAME")]
    group: String,
}

/// Runs `rmq export`.
pub async fn export(session: &Session, command: ExportCommand) -> Result<(), Failure> {
    match command {
        ExportCommand::Topics(args) => declared(session, &args, true, false).await,
        ExportCommand::Groups(args) => declared(session, &args, false, true).await,
        ExportCommand::All(args) => declared(session, &args, true, true).await,
        ExportCommand::Config(args) => report::config(session, &args).await,
        ExportCommand::Metrics(args) => report::metrics(session, &args).await,
        ExportCommand::Messages(args) => messages(session, &args).await,
        ExportCommand::Offsets(args) => {
            super::offsets::run(session, super::offsets::Command::Export(args)).await
        }
    }
}

/// Runs `rmq import`.
pub async fn import(session: &Session, command: ImportCommand) -> Result<(), Failure> {
    match command {
        ImportCommand::Messages(args) => import_messages(session, &args).await,
        ImportCommand::Offsets(args) => {
            super::offsets::run(session, super::offsets::Command::Import(args)).await
        }
    }
}

async fn declared(session: &Session, args: &DeclaredArgs, topics: bool, groups: bool) -> Result<(), Failure> {
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let mut held = held(session, &brokers).await?;
    if topics && groups {
        let replicas = args.scope.brokers(session, Which::AllToWrite).await?;
        held.accounts = read_accounts(session, &replicas, Reach::WhatIsKept).await?.held;
    }
    let mut declared = held.declared(args.all);
    if !topics {
        declared.topics.clear();
    }
    if !groups {
        declared.groups.clear();
    }
    let text = write::to_toml(&declared);
    if args.out.as_os_str() == "-" {
        use std::io::Write as _;
        std::io::stdout().lock().write_all(text.as_bytes())?;
        return Ok(());
    }
    write_new(&args.out, text.as_bytes())?;
    let mut what = vec![
        counted(declared.topics.len(), "topic"),
        counted(declared.groups.len(), "group"),
    ];
    what.extend(declared.users.as_ref().map(|users| counted(users.len(), "user")));
    what.extend(
        declared
            .rules
            .as_ref()
            .map(|rules| counted(rules.len(), "access rule")),
    );
    session.note(&format!(
        "{} of {} written to {}",
        what.join(", "),
        counted(brokers.len(), "broker"),
        args.out.display()
    ));
    Ok(())
}

/// Runs `rmq message export`.
pub async fn messages(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let window = window(session, args.since.as_ref(), args.until.as_ref())?;
    let since = args.since.as_ref().map(|_| window.0);
    let found = session.client.ranges(&args.topic, since).await;
    session.warn_of_dead_name_servers();
    let Some(found) = found? else {
        return Err(not_found(session, &args.topic, String::new()).await);
    };
    let (mut ranges, mut failures) = (Vec::new(), Vec::<Failure>::new());
    for range in found {
        match range {
            Ok(range) => ranges.push(range),
            Err(e) => {
                let failure = Failure::from(&e);
                if !failures.iter().any(|f| f.what == failure.what) {
                    failures.push(failure);
                }
            }
        }
    }
    ranges.retain(|r| {
        args.queue.is_none_or(|q| q == r.at.queue)
            && args
                .broker
                .as_ref()
                .is_none_or(|b| r.at.broker.name.as_ref() == Some(b) || r.at.broker.addr == *b)
    });
    let tags: Vec<&str> = args.tag.split("||").map(str::trim).collect();
    let copy = Copy {
        topic: &args.topic,
        out: &args.out,
        form: args.format,
        resume: args.resume,
        tags: &args.tag,
        limit: args.limit.unwrap_or(u64::MAX),
        command: args.command(window),
    };
    let passes = |message: &Message| {
        (window.0..=window.1).contains(&message.stored_ms)
            // The broker compares hashes; two tags may share one.
            && (tags == ["*"] || message.tag().is_some_and(|t| tags.contains(&t)))
            && args.key.as_ref().is_none_or(|key| message.keys().contains(key))
            && args.prop.iter().all(|(k, v)| message.property(k) == Some(v))
    };
    let (count, verdict) = copy.run(session, ranges, failures, passes).await?;
    session.note(&format!(
        "{} of {} written to {}",
        counted(count, "message"),
        args.topic,
        args.out.display()
    ));
    verdict
}

fn lines(path: &PathBuf) -> Result<Box<dyn std::io::BufRead>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    let file = std::fs::File::open(path)
        .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?;
    Ok(Box::new(BufReader::new(file)))
}

/// The next line that is not blank, with its number from 1.
fn next_line(
    input: &mut dyn std::io::BufRead,
    number: &mut u64,
    path: &Path,
) -> Result<Option<String>, Failure> {
    loop {
        let mut bytes = Vec::new();
        let mut limited = std::io::Read::take(&mut *input, LINE_MAX as u64 + 1);
        let read = limited
            .read_until(b'\n', &mut bytes)
            .map_err(|e| Failure::usage(format!("cannot read {}: {e}", path.display())))?;
        if read == 0 {
            return Ok(None);
        }
        *number += 1;
        if bytes.len() > LINE_MAX {
            return Err(Failure::usage(format!(
                "{} line {number} is longer than {LINE_MAX} bytes, more than a message may be",
                path.display()
            )));
        }
        let text = String::from_utf8(bytes)
            .map_err(|_| Failure::usage(format!("{} line {number} is not UTF-8", path.display())))?;
        if !text.trim().is_empty() {
            return Ok(Some(text));
        }
    }
}

/// Runs `rmq message import`.
pub async fn import_messages(session: &Session, args: &ImportArgs) -> Result<(), Failure> {
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            "nothing was sent: the context is read only",
        ));
    }
    let from_stdin = args.file.as_os_str() == "-";
    let limit = args.limit.unwrap_or(u64::MAX);
    // A file is read twice: first to say what would be sent. Stdin passes once, so it is not counted.
    let mut topics: BTreeMap<String, u64> = BTreeMap::new();
    if !from_stdin {
        let (mut input, mut number, mut count) = (lines(&args.file)?, 0, 0);
        while let Some(line) = next_line(&mut *input, &mut number, &args.file)? {
            if number <= args.skip {
                continue;
            }
            if count >= limit {
                break;
            }
            count += 1;
            let out = record(&line, number, args)?;
            *topics.entry(out.topic).or_default() += 1;
        }
    } else if let Some(topic) = &args.to_topic {
        topics.insert(topic.clone(), 0);
    }
    for topic in topics.keys() {
        if session.client.route(topic).await?.is_none() {
            return Err(not_found(session, topic, String::new())
                .await
                .hint("--to-topic NAME sends everything to another topic"));
        }
    }
    let plan = Plan {
        action: "import messages".into(),
        object: topics.keys().cloned().collect::<Vec<_>>().join(","),
        cluster: session.cluster.clone().unwrap_or_default(),
        class: Class::B,
        steps: topics
            .iter()
            .map(|(topic, count)| Step {
                target: topic.clone(),
                field: "messages".into(),
                before: "0".into(),
                after: if from_stdin {
                    "those of stdin".into()
                } else {
                    count.to_string()
                },
            })
            .collect(),
        impact: Vec::new(),
    };
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let mut tally = Tally::default();
    let sent = send(session, args, topics.values().sum(), limit, &mut tally).await;
    let stopped = sent.err();
    if let Some(failure) = stopped.clone().filter(|_| tally.total() == 0) {
        return Err(failure);
    }
    let outcome = if tally.sent == tally.total() && stopped.is_none() {
        Outcome::Done
    } else {
        Outcome::Unproven(tally.text())
    };
    change::journal(session, &plan, &vec![outcome; plan.steps.len()], None);
    let mut listing = Listing::new(
        "ImportResult",
        &[col("file"), col("sent"), col("failed"), col("not_known")],
    );
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).into();
    listing.push(vec![
        args.file.display().to_string().into(),
        number(tally.sent),
        number(tally.failed),
        number(tally.not_known),
    ]);
    session.printer.print(listing)?;
    stopped.map_or_else(|| tally.verdict("messages"), Err)
}

fn record(line: &str, number: u64, args: &ImportArgs) -> Result<crate::client::produce::Outgoing, Failure> {
    let wrong = |e: String| Failure::usage(format!("{} line {number}: {e}", args.file.display()));
    let record: Record = serde_json::from_str(line).map_err(|e| wrong(e.to_string()))?;
    record.outgoing(args.to_topic.as_deref()).map_err(wrong)
}

/// The command that goes on behind a line.
fn resume(args: &ImportArgs, tally: Tally, line: u64) -> String {
    let mut command = format!(
        "rmq message import --file {} --skip {line}",
        quoted(&args.file.display().to_string())
    );
    if let Some(topic) = &args.to_topic {
        command.push_str(&format!(" --to-topic {}", quoted(topic)));
    }
    if let Some(limit) = args.limit {
        command.push_str(&format!(" --limit {}", limit.saturating_sub(tally.total())));
    }
    command
}

/// Failures in a row, each with its line and whether it may have been sent all the same; why nothing more is tried.
fn given_up(args: &ImportArgs, tally: Tally, in_a_row: &[(u64, bool)], last: &str) -> Failure {
    let text = format!("stopped after {GIVE_UP} failures in a row; the last: {last}");
    let failure = Failure::new(exit::PARTIAL, text);
    let (in_doubt, not_sent): (Vec<(u64, bool)>, Vec<_>) =
        in_a_row.iter().copied().partition(|(_, in_doubt)| *in_doubt);
    let lines = |of: &[(u64, bool)]| {
        let lines: Vec<String> = of.iter().map(|(line, _)| line.to_string()).collect();
        lines.join(", ")
    };
    // Nothing is sent twice: what comes after goes on behind the last line that may have been sent.
    let Some((behind, _)) = in_doubt.last().copied() else {
        let first = not_sent.first().map_or(0, |(line, _)| line.saturating_sub(1));
        return failure.hint(resume(args, tally, first));
    };
    let before: Vec<(u64, bool)> = not_sent.into_iter().filter(|(line, _)| *line < behind).collect();
    let mut why = format!(
        "Of these lines it is not known whether they were sent, and they are left out: {}.",
        lines(&in_doubt)
    );
    if !before.is_empty() {
        why.push_str(&format!(" Not sent, and left out as well: {}.", lines(&before)));
    }
    Failure {
        unsettled: true,
        ..failure.because(why).hint(resume(args, tally, behind))
    }
}

/// Sends the messages and counts them. The failure is why it stopped before the end.
async fn send(
    session: &Session,
    args: &ImportArgs,
    expected: u64,
    limit: u64,
    tally: &mut Tally,
) -> Result<(), Failure> {
    let producer = Producer::new(Arc::clone(&session.client), &args.group)?;
    let mut progress = Progress::new(session, "import", (expected > 0).then_some(expected));
    let mut pace = args.rate.map(|rate| {
        let mut pace = tokio::time::interval(Duration::from_secs_f64((1.0 / rate).max(1e-6)));
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        pace
    });
    let mut interrupted = std::pin::pin!(session.stopped());
    let (mut input, mut number) = (lines(&args.file)?, 0);
    let mut in_a_row: Vec<(u64, bool)> = Vec::new();
    // The last line that is dealt with.
    let mut behind = 0;
    while tally.total() < limit {
        let read = next_line(&mut *input, &mut number, &args.file).and_then(|line| match line {
            Some(line) if number > args.skip => record(&line, number, args).map(|out| Some(Some(out))),
            Some(_) => Ok(Some(None)),
            None => Ok(None),
        });
        let read = read.map_err(|failure| match tally.total() {
            0 => failure,
            _ => failure.hint(resume(args, *tally, behind)),
        });
        let out = match read? {
            Some(Some(out)) => out,
            Some(None) => {
                behind = number;
                continue;
            }
            None => break,
        };
        let tick = async {
            if let Some(pace) = &mut pace {
                pace.tick().await;
            }
        };
        let stop = tokio::select! {
            biased;
            _ = &mut interrupted => true,
            () = tick => false,
        };
        if stop {
            let text = format!("interrupted after {}", counted(tally.sent, "message"));
            return Err(Failure::new(exit::INTERRUPTED, text).hint(resume(args, *tally, behind)));
        }
        match producer.send(&out).await {
            Ok(_) => {
                tally.sent += 1;
                in_a_row.clear();
            }
            Err(e) => {
                let line = match &e {
                    Error::NotFound { .. } => format!("topic {} has no route", out.topic),
                    other => Failure::from(other).line(),
                };
                let in_doubt = tally.miss(&e);
                in_a_row.push((number, in_doubt));
                session.warn(&match in_doubt {
                    true => format!("line {number}: {line}"),
                    false => format!("line {number} was not sent: {line}"),
                });
                if in_a_row.len() as u64 >= u64::from(GIVE_UP) {
                    return Err(given_up(args, *tally, &in_a_row, &line));
                }
            }
        }
        behind = number;
        progress.add(1);
    }
    Ok(())
}
