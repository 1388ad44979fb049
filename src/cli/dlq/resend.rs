//! `rmq dlq resend`: plan, question, one copy after the other, each remembered before and after it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use super::{columns, make_readable, ranges, route_of, row, state_path};
use crate::cli::change::{self, Class, Outcome, Plan, Step};
use crate::cli::exit::{self, Failure};
use crate::cli::message::{BodyForm, window};
use crate::cli::message_file::{damaged, total};
use crate::cli::output::{Filter, Listing, Printer, col};
use crate::cli::progress::Progress;
use crate::cli::quoted;
use crate::cli::session::Session;
use crate::cli::time::{self, When};
use crate::client::admin::topic::masters;
use crate::client::dlq::{Target, copy, origin_id, topic_of};
use crate::client::produce::Producer;
use crate::client::resent::{self, Selection, State, Step as Done, entry};
use crate::client::scan::QueueRange;
use crate::client::words::counted;
use crate::client::{BrokerAt, Error, Message};

/// Failures in a row after which nothing more is tried.
const GIVE_UP: u32 = 5;
/// Pause between two looks at the group's backlog.
const LAG_EVERY: Duration = Duration::from_secs(5);
/// Producer group of the copies.
const PRODUCER: &str = "RMQ_CLI";

/// `rmq dlq resend`
#[derive(Debug, Clone, Args)]
pub struct ResendArgs {
    /// Group name
    group: String,
    /// Only this letter: offset id, unique key or original id; repeatable
    #[arg(long, value_name = "ID", conflicts_with_all = ["all", "resume"])]
    id: Vec<String>,
    /// Stored at or after
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "resume"
    )]
    since: Option<When>,
    /// Stored at or before
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "resume"
    )]
    until: Option<When>,
    /// All letters
    #[arg(long, conflicts_with = "resume")]
    all: bool,
    /// Go on with the resend that was interrupted: same letters, same target
    #[arg(long)]
    resume: bool,
    /// Send to this topic [default: the topic that each letter was first sent to]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["to_retry", "resume"])]
    to_topic: Option<String>,
    /// Send to the group's retry topic, so that no other group gets the copies
    #[arg(long, conflicts_with = "resume")]
    to_retry: bool,
    /// Copies a second, such as 100 or 100/s [default: as fast as they go]
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<f64>,
    /// Stop when the group is more than N messages behind
    #[arg(long, value_name = "N")]
    max_lag: Option<i64>,
}

/// `100` or `100/s`, copies a second.
pub fn rate(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches("/s").trim();
    match number.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate > 0.0 => Ok(rate),
        _ => Err(format!(
            "\"{text}\" is not a rate; use a number a second, such as 100/s"
        )),
    }
}

/// One resend, resolved.
struct Job<'a> {
    session: &'a Session,
    group: &'a str,
    topic: String,
    target: Target,
    selection: Selection,
    filter: Option<Filter>,
    window: (i64, i64),
    ids: BTreeSet<String>,
    ranges: Vec<QueueRange>,
}

impl Job<'_> {
    /// True for a letter that is meant.
    fn wants(&self, message: &Message, shape: &Listing, state: &State) -> Result<bool, Failure> {
        if !(self.window.0..=self.window.1).contains(&message.stored_ms) {
            return Ok(false);
        }
        let has = |id: Option<&str>| id.is_some_and(|id| self.ids.contains(id));
        if !self.ids.is_empty()
            && !has(Some(&message.offset_id))
            && !has(message.unique_key())
            && !has(origin_id(message))
        {
            return Ok(false);
        }
        match &self.filter {
            Some(filter) => filter.keeps(
                shape,
                &row(message, BodyForm::Auto, Some(state)),
                &self.session.printer.zone,
            ),
            None => Ok(true),
        }
    }
}

/// What a look through the letters found.
#[derive(Default)]
struct Found {
    /// Letters to send by topic of their copies.
    to_send: BTreeMap<String, u64>,
    already: u64,
    lost: u64,
}

/// Runs `rmq dlq resend`.
pub async fn run(session: &Session, args: &ResendArgs) -> Result<(), Failure> {
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            "nothing was sent: the context is read only",
        ));
    }
    let route = route_of(session, &args.group).await?;
    let brokers = masters(&route);
    let cluster = resent::cluster_of(&brokers).unwrap_or_default();
    let path = state_path(&args.group, cluster).ok_or_else(|| {
        Failure::new(
            exit::PRECONDITION,
            "there is no directory to remember in what was sent: set HOME or XDG_STATE_HOME",
        )
    })?;
    let mut state = State::read(&path)?;
    let selection = selection(session, args, &state)?;
    if route.queue_datas.iter().any(|q| !q.perm.readable()) {
        make_readable(session, &args.group, &route).await?;
    }
    let (ranges, failures) = ranges(session, &args.group, selection.since_ms).await?;
    if !failures.is_empty() {
        // A part of the letters cannot be seen; better all of them later than these now.
        return Err(Failure::over(&failures, false).err().unwrap_or_else(|| {
            Failure::new(exit::CONNECTION, "a broker of the dead letters cannot be asked")
        }));
    }
    let job = Job {
        session,
        group: &args.group,
        topic: topic_of(&args.group),
        target: match (&selection.to_topic, selection.to_retry) {
            (Some(topic), _) => Target::Topic(topic.clone()),
            (None, true) => Target::Retry,
            (None, false) => Target::Origin,
        },
        filter: selection
            .filter
            .as_ref()
            .map(|text| text.parse().map_err(Failure::usage))
            .transpose()?,
        window: (
            selection.since_ms.unwrap_or(0),
            selection.until_ms.unwrap_or(i64::MAX),
        ),
        ids: selection.ids.iter().cloned().collect(),
        selection,
        ranges,
    };
    let found = look(&job, &state).await?;
    if !job.ids.is_empty() && found.to_send.is_empty() && found.already == 0 && found.lost == 0 {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("no dead letter of {} has one of these ids", job.group),
        )
        .hint(format!("rmq dlq show {} -o wide", job.group)));
    }
    let plan = plan(&job, &found, &brokers).await?;
    if plan.steps.is_empty() {
        session.note(&format!(
            "nothing to send: {} letters were sent before, {} do not say where they came from",
            found.already, found.lost
        ));
        if session.desk().is_some() {
            return change::nothing(session);
        }
        return Ok(());
    }
    if session.desk().is_some() && session.dry_run {
        return change::report(session, &plan, vec![Outcome::Planned; plan.steps.len()], None);
    }
    if session.dry_run {
        change::tell(session, &plan);
        return report(&job, &found, &BTreeMap::new(), "planned");
    }
    change::ask(session, &plan)?;
    state.begin(time::now_ms(), &job.selection)?;
    let mut sent = Counts::new();
    let stopped = send(&job, &found, &mut state, args, &mut sent).await.err();
    let mut all = Tally::default();
    sent.values().for_each(|tally| all.add(*tally));
    let resume = format!("rmq dlq resend {} --resume", quoted(job.group));
    let stopped = stopped.map(|failure| failure.hint(&resume));
    if let Some(failure) = stopped.clone().filter(|_| all.total() == 0) {
        return Err(failure);
    }
    let outcomes: Vec<Outcome> = plan
        .steps
        .iter()
        .map(|step| {
            let tally = sent.get(&step.target).copied().unwrap_or_default();
            let wanted = found.to_send.get(&step.target).copied().unwrap_or(0);
            match tally.sent == wanted && tally.total() == wanted {
                true => Outcome::Done,
                false => Outcome::Unproven(tally.text()),
            }
        })
        .collect();
    if session.desk().is_some() {
        let verdict = change::report(session, &plan, outcomes, None);
        return stopped.map_or(verdict, Err);
    }
    change::journal(session, &plan, &outcomes, None);
    report(&job, &found, &sent, "done")?;
    match stopped {
        Some(failure) => Err(failure),
        None => all
            .verdict(&format!("letters of {}", job.group))
            .map_err(|failure| failure.hint(resume)),
    }
}

fn selection(session: &Session, args: &ResendArgs, state: &State) -> Result<Selection, Failure> {
    if args.resume {
        return state.last().cloned().ok_or_else(|| {
            Failure::new(
                exit::PRECONDITION,
                format!(
                    "no resend of {} is remembered in {}",
                    args.group,
                    state.path().display()
                ),
            )
            .hint(format!("rmq dlq resend {} --all", quoted(&args.group)))
        });
    }
    let filter = session.printer.filter.as_ref().map(ToString::to_string);
    if args.id.is_empty() && args.since.is_none() && args.until.is_none() && !args.all && filter.is_none() {
        return Err(
            Failure::usage("say which letters: --id, --since, --until, --filter or --all")
                .hint(format!("rmq dlq resend {} --all --dry-run", quoted(&args.group))),
        );
    }
    let (from, to) = window(session, args.since.as_ref(), args.until.as_ref())?;
    Ok(Selection {
        ids: args.id.clone(),
        since_ms: args.since.as_ref().map(|_| from),
        until_ms: args.until.as_ref().map(|_| to),
        filter,
        to_topic: args.to_topic.clone(),
        to_retry: args.to_retry,
    })
}

/// Counts what is to be sent, by topic.
async fn look(job: &Job<'_>, state: &State) -> Result<Found, Failure> {
    let shape = columns();
    let mut found = Found::default();
    let mut progress = Progress::new(job.session, "looking through the letters", total(&job.ranges));
    for range in &job.ranges {
        let mut next = range.begin;
        while next < range.end {
            let batch = job.session.client.batch(&job.topic, range, next, "*").await?;
            if let Some(why) = &batch.damage {
                job.session.warn(&damaged(range, why));
            }
            for message in &batch.messages {
                if !job.wants(message, &shape, state)? {
                    continue;
                }
                if state.step(&entry(message)) == Some(&Done::Sent) {
                    found.already += 1;
                    continue;
                }
                match job.target.topic(job.group, message) {
                    Some(topic) => *found.to_send.entry(topic).or_default() += 1,
                    None => found.lost += 1,
                }
            }
            progress.add(u64::try_from(batch.next.saturating_sub(next)).unwrap_or(0));
            next = batch.next;
        }
    }
    Ok(found)
}

async fn plan(job: &Job<'_>, found: &Found, brokers: &[BrokerAt]) -> Result<Plan, Failure> {
    let client = &job.session.client;
    let mut plan = Plan {
        action: format!("resend dead letters of {}", job.group),
        object: job.group.to_owned(),
        cluster: brokers.first().map(|b| b.id.cluster.clone()).unwrap_or_default(),
        // One letter is looked at before it is sent; many are a flood.
        class: if found.to_send.values().sum::<u64>() == 1 {
            Class::A
        } else {
            Class::B
        },
        steps: Vec::new(),
        impact: Vec::new(),
    };
    for (topic, count) in &found.to_send {
        let Some(route) = client.route(topic).await? else {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("{count} letters would go to {topic}, which has no route; nothing was sent"),
            )
            .because(match job.target {
                Target::Retry => "A retry topic is made when a client of the group connects.",
                _ => "It was deleted, or its brokers are away.",
            })
            .hint("--to-topic NAME sends all of them to another topic"));
        };
        plan.steps.push(Step {
            target: topic.clone(),
            field: "copies".into(),
            before: "0".into(),
            after: count.to_string(),
        });
        if job.target == Target::Retry {
            continue;
        }
        let deadline = client.deadline();
        let mut others: BTreeSet<String> = BTreeSet::new();
        for broker in masters(&route) {
            match client.topic_groups(&broker.server(), topic, deadline).await {
                Ok(groups) => others.extend(groups),
                Err(e) => plan.impact.push(format!(
                    "which groups read {topic} on {} is not known: {}",
                    broker.server(),
                    e.reason()
                )),
            }
        }
        others.remove(job.group);
        if !others.is_empty() {
            plan.impact.push(format!(
                "{} more groups read {topic} and get the copies as well: {} (--to-retry sends to {} alone)",
                others.len(),
                others.into_iter().collect::<Vec<_>>().join(", "),
                job.group
            ));
        }
    }
    if found.already > 0 {
        plan.impact.push(format!(
            "{} letters were sent before and are left out",
            found.already
        ));
    }
    if found.lost > 0 {
        plan.impact.push(format!(
            "{} letters do not say where they came from and are left out; --to-topic NAME sends them",
            found.lost
        ));
    }
    Ok(plan)
}

/// What became of messages that were sent one by one.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// Stored by a broker.
    pub sent: u64,
    /// Surely not stored.
    pub failed: u64,
    /// Handed to the network, and nobody told whether they are stored.
    pub not_known: u64,
}

impl Tally {
    /// All of them.
    pub fn total(self) -> u64 {
        self.sent + self.failed + self.not_known
    }

    /// Adds those of another.
    pub fn add(&mut self, other: Self) {
        self.sent += other.sent;
        self.failed += other.failed;
        self.not_known += other.not_known;
    }

    /// Counts one that was not answered as it should be; true when it may be stored.
    pub fn miss(&mut self, e: &Error) -> bool {
        let in_doubt = e.is_in_doubt();
        *(if in_doubt {
            &mut self.not_known
        } else {
            &mut self.failed
        }) += 1;
        in_doubt
    }

    /// For a row.
    pub fn text(self) -> String {
        let mut text = format!("{} sent, {} failed", self.sent, self.failed);
        if self.not_known > 0 {
            text.push_str(&format!(", {} not known", self.not_known));
        }
        text
    }

    /// What was not sent, or may not have been, as the failure of the whole; `what` are `messages`.
    pub fn verdict(self, what: &str) -> Result<(), Failure> {
        let text = match (self.failed, self.not_known) {
            (0, 0) => return Ok(()),
            (failed, 0) => format!("{failed} {what} were not sent"),
            (0, not_known) => format!("whether {not_known} {what} were sent is not known"),
            (failed, not_known) => {
                format!("{failed} {what} were not sent; whether {not_known} more were is not known")
            }
        };
        Err(Failure {
            unsettled: self.not_known > 0,
            ..Failure::new(exit::PARTIAL, text)
        })
    }
}

/// Copies by topic.
type Counts = BTreeMap<String, Tally>;

/// Sends the copies and counts them. The failure is why it stopped before the end.
async fn send(
    job: &Job<'_>,
    found: &Found,
    state: &mut State,
    args: &ResendArgs,
    counts: &mut Counts,
) -> Result<(), Failure> {
    let session = job.session;
    let client = &session.client;
    let producer = Producer::new(Arc::clone(client), PRODUCER)?;
    let shape = columns();
    let mut progress = Progress::new(session, "resend", Some(found.to_send.values().sum()));
    let mut pace = args.rate.map(|rate| {
        let mut pace = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
        pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        pace
    });
    let mut in_a_row = 0;
    let mut lag_at = Instant::now();
    let mut interrupted = std::pin::pin!(session.stopped());
    for range in &job.ranges {
        let mut next = range.begin;
        while next < range.end {
            let batch = client.batch(&job.topic, range, next, "*").await?;
            for message in &batch.messages {
                if !job.wants(message, &shape, state)? {
                    continue;
                }
                let entry = entry(message);
                if let Some(known) = settled(session, state, &entry).await? {
                    if known {
                        // An earlier run was cut off between sending and writing it down.
                        let topic = job.target.topic(job.group, message).unwrap_or_default();
                        counts.entry(topic).or_default().sent += 1;
                        progress.add(1);
                    }
                    continue;
                }
                let Some(copy) = copy(message, job.group, &job.target, time::now_ms()) else {
                    continue;
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
                    let done: u64 = counts.values().map(|tally| tally.sent).sum();
                    return Err(Failure::new(
                        exit::INTERRUPTED,
                        format!("interrupted after {}", counted(done, "copy")),
                    ));
                }
                let unique_key = producer.unique_key();
                state.sending(&entry, &copy.topic, &unique_key)?;
                let count = counts.entry(copy.topic.clone()).or_default();
                match producer.send_as(&copy, &unique_key).await {
                    Ok(_) => {
                        count.sent += 1;
                        in_a_row = 0;
                        state.done(&entry, time::now_ms())?;
                    }
                    Err(e) => {
                        in_a_row += 1;
                        let line = Failure::from(&e).line();
                        if count.miss(&e) {
                            // --resume looks for it by its key.
                            session.warn(&format!("{}: {line}", message.offset_id));
                        } else {
                            session.warn(&format!("{} was not sent: {line}", message.offset_id));
                            state.failed(&entry)?;
                        }
                        if in_a_row >= GIVE_UP {
                            return Err(Failure::new(
                                exit::PARTIAL,
                                format!("stopped after {GIVE_UP} failures in a row; the last: {line}"),
                            ));
                        }
                    }
                }
                progress.add(1);
                if let Some(most) = args.max_lag
                    && lag_at.elapsed() >= LAG_EVERY
                {
                    lag_at = Instant::now();
                    if let Some(lag) = lag(job).await.filter(|lag| *lag > most) {
                        let text = format!(
                            "stopped: {} is {} behind (limit {most})",
                            job.group,
                            counted(lag, "message")
                        );
                        return Err(Failure::new(exit::TIMEOUT, text));
                    }
                }
            }
            next = batch.next;
        }
    }
    Ok(())
}

/// What is known of an entry: `Some(false)` for one that was sent and is written down, `Some(true)` for one that turns
/// out to be sent, `None` for one that must be sent. One whose fate cannot be learned is left alone.
async fn settled(session: &Session, state: &mut State, entry: &str) -> Result<Option<bool>, Failure> {
    let (topic, unique_key) = match state.step(entry) {
        None | Some(Done::Failed) => return Ok(None),
        Some(Done::Sent) => return Ok(Some(false)),
        Some(Done::Sending { topic, unique_key }) => (topic.clone(), unique_key.clone()),
    };
    let client = &session.client;
    let Some(route) = client.route(&topic).await? else {
        return Ok(None);
    };
    let deadline = client.deadline();
    for broker in masters(&route) {
        match client
            .messages_by_unique_key(&broker.server(), &topic, &unique_key, deadline)
            .await
        {
            Ok(found) if found.is_empty() => {}
            Ok(_) => {
                state.done(entry, time::now_ms())?;
                return Ok(Some(true));
            }
            Err(e) => {
                session.warn(&format!(
                    "whether {entry} was sent before cannot be learned ({}); it is left out",
                    e.reason()
                ));
                return Ok(Some(false));
            }
        }
    }
    Ok(None)
}

/// How far the group is behind, over all brokers of its dead letters.
async fn lag(job: &Job<'_>) -> Option<i64> {
    let client = &job.session.client;
    let mut total = 0i64;
    let mut asked: Vec<&crate::client::Server> = Vec::new();
    for range in &job.ranges {
        if asked.contains(&&range.at.broker) {
            continue;
        }
        asked.push(&range.at.broker);
        let lag = client
            .group_lag(&range.at.broker, job.group, None, client.deadline())
            .await
            .ok()?;
        total = total.saturating_add(lag.queues.iter().filter_map(|q| q.lag()).sum());
    }
    Some(total)
}

fn report(job: &Job<'_>, found: &Found, sent: &Counts, state: &str) -> Result<(), Failure> {
    let mut listing = Listing::new(
        "DlqResend",
        &[
            col("topic"),
            col("letters"),
            col("sent"),
            col("failed"),
            col("not_known"),
            col("state"),
        ],
    );
    for (topic, letters) in &found.to_send {
        let tally = sent.get(topic).copied().unwrap_or_default();
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).into();
        listing.push(vec![
            topic.as_str().into(),
            number(*letters),
            number(tally.sent),
            number(tally.failed),
            number(tally.not_known),
            state.into(),
        ]);
    }
    listing
        .summary
        .insert("already_sent".into(), found.already.into());
    listing.summary.insert("without_origin".into(), found.lost.into());
    let printer = &job.session.printer;
    // The filter chose letters, not these rows.
    let plain = Printer {
        headers: printer.headers,
        width: printer.width,
        columns: None,
        filter: None,
        context: printer.context.clone(),
        ..printer.rows(printer.format)
    };
    plain.print(listing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_numbers_a_second() {
        assert_eq!(rate("100/s"), Ok(100.0));
        assert_eq!(rate("0.5"), Ok(0.5));
        for wrong in ["", "0", "-1", "x", "100/m", "inf"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
    }
}
