//! A closed-loop sender for measuring a broker, Java's or ours: `N` sends in flight on one connection.
//!
//! ```text
//! send_load BROKER [--topic T] [--size 1024] [--in-flight 64] [--connections 1] [--warm 20000] [--count 200000] [--pid PID]
//! ```
//!
//! It creates the topic (8 queues), warms up, sends `count` messages that carry the properties a Java client
//! sends, and prints one JSON line: sends per second, latency percentiles, refusals, and, when `--pid` is given,
//! the CPU time of that process per message and its anonymous memory afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::fields::Fields;
use rmq::protocol::frame::Frame;
use rmq::remoting::Peer;
use rmq::remoting::pool::{NoService, Pool};

mod process;
use process::rss_anon_kib;

const USAGE: &str = "send_load BROKER [--topic T] [--size N] [--in-flight N] [--connections N] [--warm N] [--count N] [--pid PID]";

#[derive(Clone)]
struct Load {
    broker: String,
    topic: String,
    size: usize,
    in_flight: usize,
    connections: usize,
    warm: u64,
    count: u64,
    pid: Option<u32>,
}

fn arguments() -> Option<Load> {
    let mut arguments = std::env::args().skip(1);
    let mut load = Load {
        broker: arguments.next()?,
        topic: "send_load".into(),
        size: 1024,
        in_flight: 64,
        connections: 1,
        warm: 20_000,
        count: 200_000,
        pid: None,
    };
    while let Some(flag) = arguments.next() {
        let value = arguments.next()?;
        match flag.as_str() {
            "--topic" => load.topic = value,
            "--size" => load.size = value.parse().ok()?,
            "--in-flight" => load.in_flight = value.parse().ok()?,
            "--connections" => load.connections = value.parse().ok()?,
            "--warm" => load.warm = value.parse().ok()?,
            "--count" => load.count = value.parse().ok()?,
            "--pid" => load.pid = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(load)
}

/// User and system time of a process in microseconds (fields 14 and 15 of its stat line, 100 ticks a second).
fn cpu_micros(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
    let ticks = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(ticks * 10_000)
}

fn send_frame(load: &Load, number: u64, body: &Bytes) -> Frame {
    let properties = format!("UNIQ_KEY\u{1}7F0000010000{number:020X}\u{2}WAIT\u{1}true\u{2}");
    let fields: Fields = [
        ("a", "send_load_group".to_owned()),
        ("b", load.topic.clone()),
        ("c", "TBW102".to_owned()),
        ("d", "8".to_owned()),
        ("e", (number % 8).to_string()),
        ("f", "0".to_owned()),
        ("g", "1700000000000".to_owned()),
        ("h", "0".to_owned()),
        ("i", properties),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("m", "false".to_owned()),
    ]
    .into_iter()
    .collect();
    let mut frame = Frame::request(310, fields);
    frame.body = body.clone();
    frame
}

#[derive(Default)]
struct Tally {
    next: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

async fn sender(peer: Peer, load: Load, limit: u64, tally: Arc<Tally>) -> Vec<u32> {
    let body = Bytes::from(vec![b'x'; load.size]);
    let mut latencies = Vec::new();
    loop {
        let number = tally.next.fetch_add(1, Ordering::Relaxed);
        if number >= limit {
            return latencies;
        }
        let begin = Instant::now();
        match peer
            .exchange(send_frame(&load, number, &body), Duration::from_secs(30))
            .await
        {
            Ok(answer) if answer.code == 0 => {
                latencies.push(u32::try_from(begin.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Ok(_) => {
                tally.refused.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {
                tally.failed.fetch_add(1, Ordering::Relaxed);
                return latencies;
            }
        }
    }
}

async fn round(peers: &[Peer], load: &Load, limit: u64) -> (Vec<u32>, Arc<Tally>) {
    let tally = Arc::new(Tally::default());
    let mut tasks = Vec::new();
    for peer in peers {
        for _ in 0..load.in_flight {
            tasks.push(tokio::spawn(sender(
                peer.clone(),
                load.clone(),
                limit,
                Arc::clone(&tally),
            )));
        }
    }
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.unwrap_or_default());
    }
    latencies.sort_unstable();
    (latencies, tally)
}

async fn connect(load: &Load) -> anyhow::Result<(Vec<Pool<NoService>>, Vec<Peer>)> {
    let mut pools = Vec::new();
    let mut peers = Vec::new();
    for _ in 0..load.connections {
        // A pool shares one connection an address: a pool for each connection.
        let pool = Pool::new(Arc::new(NoService), Duration::from_secs(3));
        peers.push(pool.peer(&load.broker).await?);
        pools.push(pool);
    }
    let create: Fields = [
        ("topic", load.topic.as_str()),
        ("defaultTopic", "TBW102"),
        ("readQueueNums", "8"),
        ("writeQueueNums", "8"),
        ("perm", "6"),
        ("topicFilterType", "SINGLE_TAG"),
        ("topicSysFlag", "0"),
        ("order", "false"),
    ]
    .into_iter()
    .collect();
    let created = peers[0]
        .exchange(Frame::request(17, create), Duration::from_secs(30))
        .await?;
    anyhow::ensure!(created.code == 0, "topic not created: {:?}", created.remark);
    Ok((pools, peers))
}

#[tokio::main(flavor = "current_thread")]
#[allow(clippy::print_stdout, clippy::print_stderr)]
async fn main() -> anyhow::Result<()> {
    let Some(load) = arguments() else {
        eprintln!("usage: {USAGE}");
        std::process::exit(2);
    };
    let (_pools, peers) = connect(&load).await?;
    if load.warm > 0 {
        round(&peers, &load, load.warm).await;
    }
    let cpu_before = load.pid.and_then(cpu_micros);
    let begin = Instant::now();
    let (latencies, tally) = round(&peers, &load, load.count).await;
    let elapsed = begin.elapsed();
    let cpu = load
        .pid
        .and_then(cpu_micros)
        .zip(cpu_before)
        .map(|(after, before)| after - before);
    anyhow::ensure!(!latencies.is_empty(), "no send succeeded");
    let at = |share: f64| latencies[((latencies.len() - 1) as f64 * share) as usize];
    let acked = latencies.len() as f64;
    println!(
        "{}",
        serde_json::json!({
            "broker": load.broker,
            "acked": latencies.len(),
            "refused": tally.refused.load(Ordering::Relaxed),
            "failed": tally.failed.load(Ordering::Relaxed),
            "per_second": (acked / elapsed.as_secs_f64()).round(),
            "p50_us": at(0.50),
            "p99_us": at(0.99),
            "cpu_us_per_message": cpu.map(|micros| (micros as f64 / acked * 100.0).round() / 100.0),
            "rss_anon_kib": load.pid.and_then(rss_anon_kib),
        })
    );
    Ok(())
}
