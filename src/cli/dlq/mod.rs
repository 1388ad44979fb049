//! `rmq dlq`: dead letters.

mod resend;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::message::{BodyForm, window};
use super::message_file::{Copy, FileForm, damaged};
use super::output::{Cell, Listing, col, wide};
use super::quoted;
use super::session::Session;
use super::time::When;
use super::topic_change::undo_line;
use super::watch::{self, Rows, WatchArgs};
use crate::client::admin::topic::masters;
use crate::client::dlq::{origin_id, origin_topic, topic_of};
use crate::client::letters::{Ask, Letters};
use crate::client::resent::{self, State, Step as Done, entry};
use crate::client::scan::QueueRange;
use crate::client::{BrokerAt, Message, similar};
use crate::protocol::body::TopicRouteData;
use crate::protocol::model::{DLQ_PREFIX, Perm};
pub use resend::{Tally, rate};

/// Commands on dead letters.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// List the groups that have dead letters
    List {
        /// Groups without any as well
        #[arg(short, long)]
        all: bool,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Show the dead letters of a group
    Show(ShowArgs),
    /// Send dead letters again; one that was sent is never sent twice
    Resend(resend::ResendArgs),
    /// Write dead letters with all their properties to a file
    Export(ExportArgs),
    /// Delete dead letters: no server supports it
    Purge {
        /// Group name
        group: String,
    },
}

/// `rmq dlq show`
#[derive(Debug, Clone, Args)]
pub struct ShowArgs {
    /// Group name
    group: String,
    /// Stored at or after
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<When>,
    /// Stored at or before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
    /// Most letters, the oldest first; 0 is no limit
    #[arg(long, default_value_t = 64, value_name = "N")]
    limit: usize,
    /// How the body is shown
    #[arg(long, value_enum, default_value_t = BodyForm::Auto, value_name = "FORM")]
    body: BodyForm,
}

/// `rmq dlq export`
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Group name
    group: String,
    /// File to write; - is stdout. A file that exists is not overwritten
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Go on with the file of an export that broke off: what is in it is not read again
    #[arg(long)]
    resume: bool,
    /// Form of the file
    #[arg(long, value_enum, default_value_t = FileForm::Jsonl, value_name = "FORM")]
    format: FileForm,
    /// Stored at or after
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    since: Option<When>,
    /// Stored at or before
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,
}

impl ExportArgs {
    /// The command line, without --resume; what was so long ago then is a point in time.
    fn command(&self, window: (i64, i64)) -> String {
        let out = self.out.display().to_string();
        let mut line = format!("rmq dlq export {} --out {}", quoted(&self.group), quoted(&out));
        if self.format == FileForm::Csv {
            line.push_str(" --format csv");
        }
        for (flag, when, ms) in [
            ("--since", &self.since, window.0),
            ("--until", &self.until, window.1),
        ] {
            if when.is_some() {
                line.push_str(&format!(" {flag}={ms}"));
            }
        }
        line
    }
}

/// Runs a command on dead letters.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::List { all, watch } => watch::print(session, &watch, || list(session, all)).await,
        Command::Show(args) => show(session, &args).await,
        Command::Resend(args) => resend::run(session, &args).await,
        Command::Export(args) => export(session, &args).await,
        Command::Purge { group } => Err(purge(&group)),
    }
}

fn purge(group: &str) -> Failure {
    Failure::new(
        exit::UNSUPPORTED,
        format!("dead letters of {group} cannot be deleted one by one: nothing was changed"),
    )
    .because(
        "No server has a request that advances the beginning of a queue; a dead-letter topic is append-only \
         and its messages expire like all others.",
    )
    .hint(format!(
        "rmq dlq resend {group} --all, or rmq topic delete '{DLQ_PREFIX}{group}' when no letter in it is needed"
    ))
}

async fn list(session: &Session, all: bool) -> Result<Rows, Failure> {
    let client = &session.client;
    let names = client.topic_names(None).await?;
    let groups: Vec<String> = names
        .iter()
        .filter_map(|t| t.strip_prefix(DLQ_PREFIX))
        .map(str::to_owned)
        .collect();
    let dead = client
        .each(groups, |group| async move {
            let dead = look(session, &group).await;
            (group, dead)
        })
        .await;
    let mut listing = Listing::new(
        "DlqList",
        &[
            col("group"),
            col("count").sums(),
            col("resent_count").sums(),
            col("oldest"),
            col("newest"),
            col("in_per_min"),
            col("perm"),
            col("clients"),
            wide("broker_names"),
        ],
    );
    // A broker that hangs is missing in each row, and none of them is worthless for it.
    let (mut total, mut answered) = (0i64, dead.is_empty());
    for (group, (dead, errors, resent)) in dead {
        answered |= errors.is_empty() || !dead.brokers.is_empty();
        listing.errors.extend(errors);
        if dead.count == 0 && !all {
            continue;
        }
        total = total.saturating_add(dead.count);
        listing.push(vec![
            group.into(),
            dead.count.into(),
            resent.into(),
            Cell::time(dead.oldest_ms),
            Cell::time(dead.newest_ms),
            dead.per_minute.into(),
            dead.perm.map(|p| p.to_string()).into(),
            dead.clients.into(),
            dead.brokers.into(),
        ]);
    }
    listing.summary.insert("total".into(), total.into());
    let partial = !listing.errors.is_empty();
    listing.summary.insert("partial".into(), partial.into());
    Ok(Rows {
        some_answered: answered,
        listing,
    })
}

/// Everything of one group's row, what failed, and how many letters were sent again.
async fn look(session: &Session, group: &str) -> (Letters, Vec<Failure>, usize) {
    let ask = Ask {
        rate: true,
        clients: true,
        ..Ask::default()
    };
    let (letters, failed) = session.client.letters(group, ask).await;
    let resent = letters
        .cluster
        .as_deref()
        .and_then(|cluster| state_path(group, cluster))
        .and_then(|path| State::read(&path).ok())
        .map_or(0, |state| state.sent());
    (letters, failed.iter().map(Failure::from).collect(), resent)
}

/// Where what was sent again is remembered: by cluster and group.
fn state_path(group: &str, cluster: &str) -> Option<PathBuf> {
    Some(resent::file(&super::context::state_dir()?, cluster, group))
}

/// The dead-letter topic of a group, or why there is none.
async fn route_of(session: &Session, group: &str) -> Result<TopicRouteData, Failure> {
    let topic = topic_of(group);
    let route = session.client.route(&topic).await;
    session.warn_of_dead_name_servers();
    if let Some(route) = route? {
        return Ok(route);
    }
    let names = session.client.topic_names(None).await.unwrap_or_default();
    let known = names.iter().filter_map(|t| t.strip_prefix(DLQ_PREFIX));
    let failure = Failure::new(
        exit::NOT_FOUND,
        format!(
            "group \"{group}\" has no dead-letter topic: no message of it has died, or there is no such group"
        ),
    );
    let near = similar(group, known);
    let failure = if near.is_empty() {
        failure
    } else {
        failure.because(format!("Similar: {}.", near.join(", ")))
    };
    Err(failure.hint("rmq dlq list"))
}

/// Lets the dead letters be read where their topic forbids it, as older brokers make it. Asks first.
async fn make_readable(session: &Session, group: &str, route: &TopicRouteData) -> Result<(), Failure> {
    let client = &session.client;
    let topic = topic_of(group);
    let mut plan = Plan {
        action: format!("make the dead letters of {group} readable"),
        object: topic.clone(),
        cluster: masters(route)
            .first()
            .map(|b| b.id.cluster.clone())
            .unwrap_or_default(),
        class: Class::A,
        steps: Vec::new(),
        impact: vec!["a dead-letter topic of an older broker cannot be read until somebody allows it".into()],
    };
    let mut writes = Vec::new();
    for broker in masters(route) {
        let closed = |q: &&crate::protocol::body::QueueData| q.broker_name == broker.id.name;
        if route
            .queue_datas
            .iter()
            .find(closed)
            .is_none_or(|q| q.perm.readable())
        {
            continue;
        }
        let server = broker.server();
        if let Some((before, _)) = client.topic_config(&broker, &topic, client.deadline()).await?
            && !before.perm.readable()
        {
            let mut after = before.clone();
            after.perm = before.perm.with(Perm::READ);
            plan.steps.push(Step {
                target: server.to_string(),
                field: "perm".into(),
                before: format!("{} {}", before.perm.0, before.perm),
                after: format!("{} {}", after.perm.0, after.perm),
            });
            writes.push((broker, before, after));
        }
    }
    if writes.is_empty() {
        return Ok(());
    }
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let topic = topic.as_str();
    let undo_of = |(broker, before, after): &(BrokerAt, _, _)| {
        session.for_same_servers(&undo_line(&quoted(topic), broker, before, after))
    };
    let undo: Vec<String> = writes.iter().map(undo_of).collect();
    session.under_way.undone_by(Some(undo.join(" && ")));
    let outcomes = client
        .each(writes.iter().collect(), |(broker, before, after)| async move {
            let server = broker.server();
            let done = client
                .write_topic(&server, Some(before), after, client.deadline())
                .await;
            let read_back = async {
                let now = client.topic_config(broker, topic, client.deadline()).await?;
                Ok(match now {
                    Some((now, _)) if now.perm.readable() => None,
                    Some((now, _)) => Some(format!("perm reads back {} {}", now.perm.0, now.perm)),
                    None => Some("the topic is gone".into()),
                })
            };
            change::proof(done, read_back).await
        })
        .await;
    let undo: Vec<String> = writes
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.may_be_written())
        .map(|(write, _)| undo_of(write))
        .collect();
    let undo = (!undo.is_empty()).then(|| undo.join(" && "));
    change::journal(session, &plan, &outcomes, undo.as_deref());
    if let Some(undo) = &undo {
        session.note(&format!("undo: {undo}"));
    }
    let failures: Vec<Failure> = plan
        .steps
        .iter()
        .zip(&outcomes)
        .filter_map(|(step, outcome)| match outcome {
            Outcome::Failed(failure) => Some(failure.clone()),
            Outcome::Unproven(why) => Some(Failure::new(exit::PARTIAL, format!("{}: {why}", step.target))),
            Outcome::Done | Outcome::DoneBut(_) | Outcome::Planned => None,
        })
        .collect();
    Failure::over(&failures, outcomes.iter().any(Outcome::is_done))
}

/// The queues of the dead letters of a group, and the failures of those that cannot be asked.
async fn ranges(
    session: &Session,
    group: &str,
    since_ms: Option<i64>,
) -> Result<(Vec<QueueRange>, Vec<Failure>), Failure> {
    let found = session.client.ranges(&topic_of(group), since_ms).await?;
    let (mut ranges, mut failures) = (Vec::new(), Vec::<Failure>::new());
    for range in found.unwrap_or_default() {
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
    Ok((ranges, failures))
}

fn columns() -> Listing {
    Listing::new(
        "DlqMessages",
        &[
            col("stored"),
            col("topic"),
            col("reconsume_times"),
            col("tag"),
            col("keys"),
            col("body"),
            col("resent"),
            wide("origin_id"),
            wide("unique_key"),
            wide("offset_id").named(),
            wide("broker"),
            wide("queue"),
            wide("offset"),
            wide("properties"),
        ],
    )
}

fn row(message: &Message, body: BodyForm, state: Option<&State>) -> Vec<Cell> {
    let resent = match state.and_then(|s| s.step(&entry(message))) {
        Some(Done::Sent) => "yes",
        Some(Done::Sending { .. }) => "unknown",
        Some(Done::Failed) => "failed",
        None => "no",
    };
    vec![
        Cell::time(Some(message.stored_ms)),
        origin_topic(message).into(),
        message.reconsume_times.into(),
        message.tag().into(),
        message.keys().into(),
        body.show(&message.body),
        resent.into(),
        origin_id(message).into(),
        message.unique_key().into(),
        message.offset_id.as_str().into(),
        message.broker.as_str().into(),
        message.queue.into(),
        message.offset.into(),
        Cell::Pairs(message.properties.clone()),
    ]
}

async fn show(session: &Session, args: &ShowArgs) -> Result<(), Failure> {
    let window = window(session, args.since.as_ref(), args.until.as_ref())?;
    let route = route_of(session, &args.group).await?;
    if route.queue_datas.iter().any(|q| !q.perm.readable()) {
        make_readable(session, &args.group, &route).await?;
    }
    let state = resent::cluster_of(&masters(&route))
        .and_then(|cluster| state_path(&args.group, cluster))
        .and_then(|path| State::read(&path).ok());
    let limit = if args.limit == 0 { usize::MAX } else { args.limit };
    let (ranges, mut failures) = ranges(session, &args.group, args.since.as_ref().map(|_| window.0)).await?;
    let some = !ranges.is_empty();
    let topic = topic_of(&args.group);
    let mut messages: Vec<Message> = Vec::new();
    for range in &ranges {
        let (mut next, mut here) = (range.begin, 0);
        // The oldest of all queues are wanted, so as many of each.
        while next < range.end && here < limit {
            let batch = match session.client.batch(&topic, range, next, "*").await {
                Ok(batch) => batch,
                Err(e) => {
                    let failure = Failure::from(&e);
                    if !failures.iter().any(|f| f.what == failure.what) {
                        failures.push(failure);
                    }
                    break;
                }
            };
            if let Some(why) = &batch.damage {
                session.warn(&damaged(range, why));
            }
            let wanted = batch
                .messages
                .into_iter()
                .filter(|m| (window.0..=window.1).contains(&m.stored_ms));
            let before = messages.len();
            messages.extend(wanted);
            here += messages.len() - before;
            next = batch.next;
        }
    }
    messages.sort_by_key(|m| (m.stored_ms, m.physical_offset));
    messages.truncate(limit);
    let mut listing = columns();
    listing.ordered = true;
    listing.rows = messages
        .iter()
        .map(|m| row(m, args.body, state.as_ref()))
        .collect();
    listing.errors = failures;
    let verdict = Failure::over(&listing.errors, some);
    session.printer.print(listing)?;
    verdict
}

async fn export(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let window = window(session, args.since.as_ref(), args.until.as_ref())?;
    let route = route_of(session, &args.group).await?;
    if route.queue_datas.iter().any(|q| !q.perm.readable()) {
        make_readable(session, &args.group, &route).await?;
    }
    let topic = topic_of(&args.group);
    let (ranges, failures) = ranges(session, &args.group, args.since.as_ref().map(|_| window.0)).await?;
    let copy = Copy {
        topic: &topic,
        out: &args.out,
        form: args.format,
        resume: args.resume,
        tags: "*",
        limit: u64::MAX,
        command: args.command(window),
    };
    let passes = |message: &Message| (window.0..=window.1).contains(&message.stored_ms);
    let (count, verdict) = copy.run(session, ranges, failures, passes).await?;
    session.note(&format!(
        "{count} dead letters of {} written to {}",
        args.group,
        args.out.display()
    ));
    verdict
}
