//! Measures how late a broker, Java's or ours, delivers messages with a time, and what a million waiting ones cost.
//!
//! ```text
//! timer_load BROKER [--count 100000] [--rate 10000] [--ahead 15] [--pending 0] [--pid PID]
//! ```
//!
//! First `pending` messages are sent for an hour later, and the process's memory before and after is noted (`--pid`).
//! Then `count` messages are sent for times that begin `ahead` seconds from now and follow each other at `rate` a
//! second. Each carries its time in the body; how late it came is the store time of what was delivered less that
//! time. One JSON line is printed.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rmq::fields::Fields;
use rmq::protocol::frame::Frame;
use rmq::protocol::message::records;
use rmq::protocol::requests::{PullMessage, UpdateAndCreateTopic};
use rmq::remoting::Peer;
use rmq::remoting::pool::{NoService, Pool};

mod process;
use process::rss_anon_kib;

const USAGE: &str = "timer_load BROKER [--count N] [--rate N] [--ahead SECONDS] [--pending N] [--pid PID]";
/// Sends in flight.
const IN_FLIGHT: usize = 64;
const LIMIT: Duration = Duration::from_secs(30);

struct Load {
    broker: String,
    count: i64,
    rate: i64,
    ahead: i64,
    pending: i64,
    pid: Option<u32>,
}

fn arguments() -> Option<Load> {
    let mut arguments = std::env::args().skip(1);
    let mut load = Load {
        broker: arguments.next()?,
        count: 100_000,
        rate: 10_000,
        ahead: 15,
        pending: 0,
        pid: None,
    };
    while let Some(flag) = arguments.next() {
        let value = arguments.next()?;
        match flag.as_str() {
            "--count" => load.count = value.parse().ok()?,
            "--rate" => load.rate = value.parse().ok()?,
            "--ahead" => load.ahead = value.parse().ok()?,
            "--pending" => load.pending = value.parse().ok()?,
            "--pid" => load.pid = Some(value.parse().ok()?),
            _ => return None,
        }
    }
    Some(load)
}

fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |t| t.as_millis() as i64)
}

fn frame(topic: &str, at: i64, number: i64) -> Frame {
    let properties = format!(
        "UNIQ_KEY\u{1}7F0000010000{number:020X}\u{2}WAIT\u{1}true\u{2}TIMER_DELIVER_MS\u{1}{at}\u{2}"
    );
    let fields: Fields = [
        ("a", "timer_load_group".to_owned()),
        ("b", topic.to_owned()),
        ("c", "TBW102".to_owned()),
        ("d", "8".to_owned()),
        ("e", (number % 8).to_string()),
        ("f", "0".to_owned()),
        ("g", now_ms().to_string()),
        ("h", "0".to_owned()),
        ("i", properties),
        ("j", "0".to_owned()),
        ("k", "false".to_owned()),
        ("m", "false".to_owned()),
    ]
    .into_iter()
    .collect();
    let mut frame = Frame::request(310, fields);
    frame.body = Bytes::from(at.to_string());
    frame
}

/// Sends `count` messages, the n-th for the time `at(n)`; returns how many were stored.
async fn send(
    peer: &Peer,
    topic: &'static str,
    count: i64,
    at: impl Fn(i64) -> i64 + Send + Sync + 'static,
) -> i64 {
    let (next, stored) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
    let at = Arc::new(at);
    let tasks: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (peer, next, stored, at) = (peer.clone(), next.clone(), stored.clone(), at.clone());
            tokio::spawn(async move {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    if n >= count {
                        return;
                    }
                    // A broker that is busy, as Java's is when it starts, is asked again.
                    for _ in 0..200 {
                        match peer.exchange(frame(topic, at(n), n), LIMIT).await {
                            Ok(answer) if answer.code == 0 => {
                                stored.fetch_add(1, Relaxed);
                                break;
                            }
                            _ => tokio::time::sleep(Duration::from_millis(20)).await,
                        }
                    }
                }
            })
        })
        .collect();
    for task in tasks {
        let _ = task.await;
    }
    stored.load(Relaxed)
}

async fn create(peer: &Peer, topic: &str) {
    let header = UpdateAndCreateTopic {
        topic: topic.into(),
        read_queue_nums: 8,
        write_queue_nums: 8,
        perm: rmq::protocol::model::Perm::READ_WRITE,
        ..UpdateAndCreateTopic::default()
    };
    if let Err(e) = peer.call(&header, (), LIMIT).await {
        eprintln!("topic {topic}: {e}");
    }
}

/// How late each delivered message of a topic is, ms.
async fn lateness(peer: &Peer, topic: &str, wanted: i64, until: Instant) -> Vec<i64> {
    let mut late = Vec::new();
    let mut next = [0i64; 8];
    while (late.len() as i64) < wanted && Instant::now() < until {
        let before = late.len();
        for queue in 0..8 {
            let header = PullMessage {
                consumer_group: "timer_load".into(),
                topic: topic.into(),
                queue_id: queue,
                queue_offset: next[queue as usize],
                max_msg_nums: 32,
                sys_flag: PullMessage::SUBSCRIPTION,
                subscription: Some("*".into()),
                ..PullMessage::default()
            };
            let Ok(request) = Fields::from_value(&header) else {
                continue;
            };
            let Ok(answer) = peer.exchange(Frame::request(11, request), LIMIT).await else {
                continue;
            };
            for record in records(&answer.body).flatten() {
                next[queue as usize] = record.queue_offset() + 1;
                if let Ok(at) = String::from_utf8_lossy(record.body()).parse::<i64>() {
                    late.push(record.store_timestamp() - at);
                }
            }
        }
        if late.len() == before {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    late
}

#[tokio::main]
async fn main() {
    let Some(load) = arguments() else {
        eprintln!("{USAGE}");
        std::process::exit(2);
    };
    let pool = Pool::new(Arc::new(NoService), LIMIT);
    let peer = match pool.peer(&load.broker).await {
        Ok(peer) => peer,
        Err(e) => {
            eprintln!("{}: {e}", load.broker);
            std::process::exit(1);
        }
    };
    create(&peer, "timer_load").await;
    create(&peer, "timer_pending").await;
    let memory = || load.pid.and_then(rss_anon_kib).unwrap_or(0);
    // Warm up, so that neither broker's first messages count.
    send(&peer, "timer_pending", 2000, |_| now_ms() + 3_600_000).await;
    let before = memory();
    let begun = Instant::now();
    let pending = send(&peer, "timer_pending", load.pending, |n| {
        now_ms() + 3_600_000 + n % 600_000
    })
    .await;
    let sent_in = begun.elapsed();
    // The wheel takes them up behind the sends.
    tokio::time::sleep(Duration::from_secs(if load.pending > 0 { 10 } else { 0 })).await;
    let after = memory();
    let (first, rate) = (now_ms() + load.ahead * 1000, load.rate.max(1));
    let stored = send(&peer, "timer_load", load.count, move |n| first + n * 1000 / rate).await;
    let sends_end = now_ms();
    let end = first + load.count * 1000 / rate;
    let wait = Duration::from_millis((end - now_ms()).max(0) as u64);
    tokio::time::sleep(wait).await;
    let mut late = lateness(
        &peer,
        "timer_load",
        stored,
        Instant::now() + Duration::from_secs(60),
    )
    .await;
    late.sort_unstable();
    let at = |share: f64| {
        late.get(((late.len() as f64 * share) as usize).min(late.len().saturating_sub(1)))
            .copied()
    };
    println!(
        "{{\"stored\":{stored},\"delivered\":{},\"sends_done_ms_before_first\":{},\"early\":{},\"late_ms\":{{\"p50\":{:?},\"p90\":{:?},\"p99\":{:?},\"max\":{:?}}},\
         \"pending\":{pending},\"pending_sent_s\":{:.1},\"anon_kib_before\":{before},\"anon_kib_pending\":{after}}}",
        late.len(),
        first - sends_end,
        late.iter().filter(|ms| **ms < 0).count(),
        at(0.5).unwrap_or(-1),
        at(0.9).unwrap_or(-1),
        at(0.99).unwrap_or(-1),
        late.last().copied().unwrap_or(-1),
        sent_in.as_secs_f64(),
    );
    pool.close();
}
