//! `rmq bench`: load and latency of sends and reads, measured from here.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, Subcommand};
use futures_util::stream::{FuturesUnordered, StreamExt as _};

use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::message_list::{StretchArgs, wanted};
use super::output::{Cell, Detail, Listing, col, wide};
use super::progress::Pulse;
use super::scope::ScopeArgs;
use super::session::Session;
use super::stop::Listener;
use super::time;
use super::topic::not_found;
use crate::client::admin::topic::masters;
use crate::client::produce::{Outgoing, Producer};
use crate::client::stretch::From;
use crate::client::words::counted;
use crate::client::{BrokerAt, Error, Which};

/// Producer group of the probes.
const GROUP: &str = "RMQ_CLI_BENCH";
/// Largest body.
const SIZE_MAX: usize = 4 * 1024 * 1024;
/// Most samples kept; beyond it every second one goes.
const SAMPLES_MAX: usize = 1 << 20;

/// Measurements.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Send as fast as the brokers take it, or at a rate
    Produce(ProduceArgs),
    /// Read a topic's messages without a group
    Consume(ConsumeArgs),
    /// Send one message after the other and time each
    Latency(LatencyArgs),
    /// The same to the topic named after each broker, one row a broker
    ClusterLatency(ClusterArgs),
}

/// `rmq bench produce`
#[derive(Debug, Clone, Args)]
pub struct ProduceArgs {
    /// Topic name
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    /// Size of a body, such as 1KiB
    #[arg(long, value_name = "SIZE", default_value = "1KiB", value_parser = size)]
    size: usize,
    /// How long
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = time::parse_duration,
          conflicts_with = "count")]
    span: Duration,
    /// How many messages, instead of how long
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Sends in flight at once
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=4096))]
    in_flight: u32,
    /// Messages a second at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    rate: Option<u64>,
}

/// `rmq bench consume`
#[derive(Debug, Clone, Args)]
pub struct ConsumeArgs {
    #[command(flatten)]
    stretch: StretchArgs,
    /// How long at most; it ends earlier at the end of the topic
    #[arg(long = "for", value_name = "DURATION", default_value = "10s", value_parser = time::parse_duration)]
    span: Duration,
}

/// `rmq bench latency`
#[derive(Debug, Clone, Args)]
pub struct LatencyArgs {
    /// Topic name [default: the topic named after the broker]
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Only this broker
    #[arg(short, long, value_name = "NAME")]
    broker: Option<String>,
    /// How many messages
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Size of a body, such as 128 or 1KiB
    #[arg(long, value_name = "SIZE", default_value = "128", value_parser = size)]
    size: usize,
}

/// `rmq bench cluster-latency`
#[derive(Debug, Clone, Args)]
pub struct ClusterArgs {
    /// How many messages to each broker
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Size of a body, such as 128 or 1KiB
    #[arg(long, value_name = "SIZE", default_value = "128", value_parser = size)]
    size: usize,
    /// Again after this time, until it is interrupted
    #[arg(long, value_name = "DURATION", value_parser = time::parse_duration)]
    interval: Option<Duration>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `128`, `1KiB`, `1MiB`
fn size(text: &str) -> Result<usize, String> {
    let wrong = || format!("\"{text}\" is not a size; use 128, 1KiB or 1MiB, up to 4MiB");
    let (digits, unit) = match text.find(|c: char| !c.is_ascii_digit()) {
        Some(at) => text.split_at(at),
        None => (text, ""),
    };
    let number: usize = digits.parse().map_err(|_| wrong())?;
    let unit = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        _ => return Err(wrong()),
    };
    number
        .checked_mul(unit)
        .filter(|n| (1..=SIZE_MAX).contains(n))
        .ok_or_else(wrong)
}

/// Runs a measurement.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Produce(args) => produce(session, args).await,
        Command::Consume(args) => consume(session, args).await,
        Command::Latency(args) => latency(session, args).await,
        Command::ClusterLatency(args) => cluster_latency(session, args).await,
    }
}

/// Times of single operations.
#[derive(Debug, Default)]
struct Samples {
    micros: Vec<u64>,
    /// Every so many are kept.
    every: u64,
    seen: u64,
    failed: u64,
}

impl Samples {
    fn add(&mut self, took: Duration) {
        self.every = self.every.max(1);
        if self.seen.is_multiple_of(self.every) {
            if self.micros.len() >= SAMPLES_MAX {
                self.every *= 2;
                let mut i = 0;
                self.micros.retain(|_| {
                    i += 1;
                    i % 2 == 0
                });
            }
            self.micros
                .push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        }
        self.seen += 1;
    }

    /// A percentile in ms; nothing without samples. Every sample counts, the first one too.
    fn percentile(&mut self, part: f64) -> Option<f64> {
        self.micros.sort_unstable();
        let last = self.micros.len().checked_sub(1)?;
        let at = ((last as f64) * part).ceil() as usize;
        self.micros.get(at.min(last)).map(|us| *us as f64 / 1000.0)
    }

    /// p50, p95, p99 and the longest, ms.
    fn cells(&mut self) -> [Cell; 4] {
        [0.5, 0.95, 0.99, 1.0].map(|part| self.percentile(part).into())
    }
}

/// Asks before messages go into a topic; the plan that was agreed to.
fn ask(session: &Session, what: &str, topic: &str, cluster: &str, after: String) -> Result<Plan, Failure> {
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            "nothing was sent: the context is read only",
        ));
    }
    let plan = Plan {
        action: format!("{what} {topic}"),
        object: topic.to_owned(),
        cluster: cluster.to_owned(),
        class: Class::A,
        steps: vec![Step {
            target: format!("topic {topic}"),
            field: "messages".into(),
            before: "-".into(),
            after,
        }],
        impact: vec!["groups of the topic get the messages".into()],
    };
    if session.dry_run {
        return change::report(session, &plan, vec![Outcome::Planned], None)
            .and(Err(Failure::new(exit::DONE, "")));
    }
    change::ask(session, &plan)?;
    Ok(plan)
}

/// Writes down what was sent.
fn write_down(session: &Session, plan: &Plan, sent: u64, failed: u64) {
    let outcome = match failed {
        0 => Outcome::DoneBut(format!("{sent} sent")),
        _ => Outcome::Unproven(format!("{sent} sent, {failed} failed")),
    };
    change::journal(session, plan, &[outcome], None);
}

/// The cluster of a topic; none is a failure with names that are close.
async fn cluster_of(session: &Session, topic: &str) -> Result<String, Failure> {
    match session.client.route(topic).await? {
        Some(route) => Ok(route
            .broker_datas
            .first()
            .map(|b| b.cluster.clone())
            .unwrap_or_default()),
        None => Err(not_found(session, topic, String::new())
            .await
            .hint(format!("rmq topic create {topic}"))),
    }
}

fn body(size: usize) -> Bytes {
    Bytes::from(vec![b'x'; size])
}

async fn produce(session: &Session, args: ProduceArgs) -> Result<(), Failure> {
    let cluster = cluster_of(session, &args.topic).await?;
    let amount = match args.count {
        Some(n) => format!("{n} of {} bytes", args.size),
        None => format!("{} of {} bytes each", time::duration(args.span), args.size),
    };
    let plan = ask(session, "send load to", &args.topic, &cluster, amount)?;
    let producer = Producer::new(Arc::clone(&session.client), GROUP)?;
    let message = Outgoing {
        topic: args.topic.clone(),
        body: body(args.size),
        ..Outgoing::default()
    };
    let stop = session.under_way.listen();
    let mut ticks = args
        .rate
        .map(|rate| tokio::time::interval(Duration::from_secs_f64((1.0 / rate as f64).max(1e-6))));
    let begun = Instant::now();
    let most = args.count.unwrap_or(u64::MAX);
    let (mut samples, mut started, mut first_error) = (Samples::default(), 0_u64, None::<Error>);
    let mut flying = FuturesUnordered::new();
    let over = |started: u64| {
        started >= most || (args.count.is_none() && begun.elapsed() >= args.span) || stop.is_stopped()
    };
    let mut pulse = Pulse::default();
    loop {
        let (may_send, wait) = (
            flying.len() < args.in_flight as usize && !over(started),
            &mut ticks,
        );
        let turn = async {
            if let Some(ticks) = wait {
                ticks.tick().await;
            }
        };
        // What is under way goes on while the next one waits for its time, and is timed when it ends.
        let (took, sent) = tokio::select! {
            biased;
            Some(done) = flying.next(), if !flying.is_empty() => done,
            () = turn, if may_send => {
                started += 1;
                let (producer, message) = (&producer, &message);
                flying.push(async move {
                    let at = Instant::now();
                    let sent = producer.send(message).await;
                    (at.elapsed(), sent)
                });
                continue;
            }
            else => break,
        };
        match sent {
            Ok(_) => samples.add(took),
            Err(e) => {
                samples.failed += 1;
                first_error.get_or_insert(e);
            }
        }
        if pulse.is_due() && !session.is_quiet() {
            session.talk(&format!(
                "{} sent, {} failed, {:.0}/s",
                samples.seen,
                samples.failed,
                samples.seen as f64 / begun.elapsed().as_secs_f64()
            ));
        }
    }
    write_down(session, &plan, samples.seen, samples.failed);
    let took = begun.elapsed().as_secs_f64().max(1e-9);
    let rate = samples.seen as f64 / took;
    let [p50, p95, p99, max] = samples.cells();
    session.printer.print_detail(Detail {
        kind: "BenchProduce",
        fields: vec![
            ("topic", args.topic.as_str().into()),
            ("sent", i64::try_from(samples.seen).unwrap_or(i64::MAX).into()),
            ("failed", i64::try_from(samples.failed).unwrap_or(i64::MAX).into()),
            ("seconds", took.into()),
            ("per_s", rate.into()),
            ("mib_per_s", (rate * args.size as f64 / (1024.0 * 1024.0)).into()),
            ("in_flight", i64::from(args.in_flight).into()),
            ("p50_millis", p50),
            ("p95_millis", p95),
            ("p99_millis", p99),
            ("max_millis", max),
        ],
        ..Detail::default()
    })?;
    verdict(first_error, samples.seen > 0, &stop)
}

/// The failure of a measurement: the first error, or that it was interrupted.
fn verdict(first: Option<Error>, some: bool, stop: &Listener<'_>) -> Result<(), Failure> {
    if stop.is_stopped() {
        return Err(Failure::new(
            exit::INTERRUPTED,
            "interrupted; the figures are of what was done",
        ));
    }
    match first {
        None => Ok(()),
        Some(e) => Failure::over(&[Failure::from(&e)], some),
    }
}

async fn consume(session: &Session, args: ConsumeArgs) -> Result<(), Failure> {
    let found = wanted(session, &args.stretch).await?;
    let client = &session.client;
    let (messages, bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let topic = args.stretch.topic.as_str();
    let select = args.stretch.select();
    let stop = session.under_way.listen();
    let begun = Instant::now();
    let queues = found.len();
    let answers = client
        .each(found, |at| {
            let (messages, bytes, select, stop) = (&messages, &bytes, &select, &stop);
            async move {
                let range = client.stretch(&at, topic, From::Earliest).await?;
                let mut visit = |message: crate::client::Message| {
                    messages.fetch_add(1, Ordering::Relaxed);
                    bytes.fetch_add(message.body.len() as u64, Ordering::Relaxed);
                    if begun.elapsed() >= args.span || stop.is_stopped() {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                };
                client.read_stretch(&at, topic, range, select, &mut visit).await
            }
        })
        .await;
    let took = begun.elapsed().as_secs_f64().max(1e-9);
    let (messages, bytes) = (messages.into_inner(), bytes.into_inner());
    let first = answers.into_iter().find_map(Result::err);
    session.printer.print_detail(Detail {
        kind: "BenchConsume",
        fields: vec![
            ("topic", topic.into()),
            ("queues", queues.into()),
            ("messages", i64::try_from(messages).unwrap_or(i64::MAX).into()),
            ("seconds", took.into()),
            ("per_s", (messages as f64 / took).into()),
            ("mib_per_s", (bytes as f64 / took / (1024.0 * 1024.0)).into()),
        ],
        ..Detail::default()
    })?;
    verdict(first, messages > 0, &stop)
}

/// Sends `count` messages one after the other; their times, the first error, and the queues they went to.
async fn probe(
    producer: &Producer,
    message: &Outgoing,
    count: u64,
    stop: &Listener<'_>,
) -> (Samples, Option<Error>) {
    let (mut samples, mut first) = (Samples::default(), None);
    for _ in 0..count {
        if stop.is_stopped() {
            break;
        }
        let at = Instant::now();
        match producer.send(message).await {
            Ok(_) => samples.add(at.elapsed()),
            Err(e) => {
                samples.failed += 1;
                first.get_or_insert(e);
            }
        }
    }
    (samples, first)
}

fn probe_columns(kind: &'static str, first: &'static str) -> Listing {
    let mut listing = Listing::new(
        kind,
        &[
            col(first),
            col("sent"),
            col("failed"),
            col("p50_millis"),
            col("p95_millis"),
            col("p99_millis"),
            col("max_millis"),
            wide("cluster"),
        ],
    );
    listing.ordered = true;
    listing
}

fn probe_row(name: &str, cluster: &str, samples: &mut Samples) -> Vec<Cell> {
    let [p50, p95, p99, max] = samples.cells();
    vec![
        name.into(),
        i64::try_from(samples.seen).unwrap_or(i64::MAX).into(),
        i64::try_from(samples.failed).unwrap_or(i64::MAX).into(),
        p50,
        p95,
        p99,
        max,
        cluster.into(),
    ]
}

async fn latency(session: &Session, args: LatencyArgs) -> Result<(), Failure> {
    let topic = match (&args.topic, &args.broker) {
        (Some(topic), _) => topic.clone(),
        (None, Some(broker)) => broker.clone(),
        (None, None) => {
            return Err(Failure::usage("name a topic or a broker").hint("rmq bench latency --topic NAME"));
        }
    };
    // Never made by the send: a misspelt name must not become a topic.
    let Some(route) = session.client.route(&topic).await? else {
        return Err(not_found(session, &topic, String::new()).await);
    };
    let brokers: Vec<BrokerAt> = masters(&route)
        .into_iter()
        .filter(|b| {
            args.broker
                .as_ref()
                .is_none_or(|name| b.id.name == *name || b.addr == *name)
        })
        .collect();
    let Some(cluster) = brokers.first().map(|b| b.id.cluster.clone()) else {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!(
                "topic {topic} is not on broker {}",
                args.broker.unwrap_or_default()
            ),
        )
        .hint(format!("rmq topic route {topic}")));
    };
    let amount = format!("{} of {} bytes to each broker", args.count, args.size);
    let plan = ask(session, "measure sends to", &topic, &cluster, amount)?;
    let producer = Producer::new(Arc::clone(&session.client), GROUP)?;
    let stop = session.under_way.listen();
    let mut listing = probe_columns("BenchLatency", "broker");
    let (mut seen, mut failed, mut first) = (0, 0, None);
    for broker in brokers {
        let message = Outgoing {
            topic: topic.clone(),
            body: body(args.size),
            broker: Some(broker.id.name.clone()),
            ..Outgoing::default()
        };
        let (mut samples, error) = probe(&producer, &message, args.count, &stop).await;
        seen += samples.seen;
        failed += samples.failed;
        listing.push(probe_row(&broker.id.name, &broker.id.cluster, &mut samples));
        if let Some(e) = error {
            listing.errors.push(Failure::from(&e));
            first.get_or_insert(e);
        }
    }
    write_down(session, &plan, seen, failed);
    session.printer.print(listing)?;
    verdict(first, seen > 0, &stop)
}

async fn cluster_latency(session: &Session, args: ClusterArgs) -> Result<(), Failure> {
    let brokers = args.scope.brokers(session, Which::Masters).await?;
    let mut clusters: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
    clusters.dedup();
    let names: Vec<&str> = brokers.iter().map(|b| b.id.name.as_str()).collect();
    let amount = format!(
        "{} of {} bytes to each of {}",
        args.count,
        args.size,
        counted(brokers.len(), "broker")
    );
    let plan = ask(
        session,
        "measure sends to the topics named after",
        &names.join(","),
        &clusters.join(","),
        amount,
    )?;
    let producer = Producer::new(Arc::clone(&session.client), GROUP)?;
    let stop = session.under_way.listen();
    let (mut seen, mut failed) = (0, 0);
    loop {
        let round = Instant::now();
        let client = &session.client;
        let (producer, stop) = (&producer, &stop);
        // All brokers at once: each has its own queue of sends.
        let answers = client
            .each(brokers.clone(), |broker| async move {
                let message = Outgoing {
                    topic: broker.id.name.clone(),
                    body: body(args.size),
                    broker: Some(broker.id.name.clone()),
                    ..Outgoing::default()
                };
                let (samples, error) = probe(producer, &message, args.count, stop).await;
                (broker, samples, error)
            })
            .await;
        let mut listing = probe_columns("BenchClusterLatency", "broker");
        let (mut some, mut first) = (false, None);
        for (broker, mut samples, error) in answers {
            some |= samples.seen > 0;
            seen += samples.seen;
            failed += samples.failed;
            listing.push(probe_row(&broker.id.name, &broker.id.cluster, &mut samples));
            if let Some(e) = error {
                listing.errors.push(Failure::from(&e));
                first.get_or_insert(e);
            }
        }
        session.printer.print(listing)?;
        let Some(interval) = args.interval else {
            write_down(session, &plan, seen, failed);
            return verdict(first, some, stop);
        };
        if let Some(e) = &first {
            session.warn(&Failure::from(e).line());
        }
        let until = round + interval;
        while Instant::now() < until && !stop.is_stopped() {
            let left = until.saturating_duration_since(Instant::now());
            tokio::time::sleep(left.min(Duration::from_millis(100))).await;
        }
        if stop.is_stopped() {
            write_down(session, &plan, seen, failed);
            return Err(Failure::new(exit::INTERRUPTED, "interrupted"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_count_the_first_sample_too() {
        let mut samples = Samples::default();
        // The run of the old tool: 33 ms and 5 ms, of which it printed 5.00.
        samples.add(Duration::from_millis(33));
        samples.add(Duration::from_millis(5));
        assert_eq!(samples.percentile(1.0), Some(33.0));
        assert_eq!(samples.percentile(0.0), Some(5.0));
        assert_eq!(Samples::default().percentile(0.5), None);
    }

    #[test]
    fn samples_stay_bounded() {
        let mut samples = Samples::default();
        for i in 0..(SAMPLES_MAX as u64 * 2 + 10) {
            samples.add(Duration::from_micros(i));
        }
        assert!(samples.micros.len() <= SAMPLES_MAX);
        assert_eq!(samples.seen, SAMPLES_MAX as u64 * 2 + 10);
    }

    #[test]
    fn sizes_are_read_with_their_unit() {
        assert_eq!(size("128"), Ok(128));
        assert_eq!(size("1KiB"), Ok(1024));
        assert_eq!(size("4m"), Ok(SIZE_MAX));
        for bad in ["", "0", "5MiB", "1GiB", "x", "-1"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }
}
