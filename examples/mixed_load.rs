//! One kind of load on a broker for some seconds, for benchmarks that run several kinds together.
//!
//! ```text
//! mixed_load BROKER send    --topic T [--queues 8] [--rate 500] [--seconds 10] [--size 1024]
//! mixed_load BROKER hot     --topic T [--queues 8] [--rate 500] [--seconds 10]    pulls of the last messages
//! mixed_load BROKER cold    --topic T [--queues 8] [--seconds 10]                 pulls from the begin, at full speed
//! mixed_load BROKER visible --topic T [--queues 8] [--rate 500] [--seconds 10]    sends, and held pulls that wait
//! mixed_load BROKER spread  --topic T [--queues 8] [--rate 500] [--seconds 10]    sends over topics T0.. of 1000 queues
//! ```
//!
//! Prints one JSON line: how many, and percentiles of the time that one took, in microseconds. `visible` measures the
//! time from the begin of a send to the answer of the held pull that gets the message.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::fields::Fields;
use rmq::protocol::frame::Frame;
use rmq::remoting::Peer;
use rmq::remoting::pool::{NoService, Pool};

const LIMIT: Duration = Duration::from_secs(60);
const USAGE: &str = "mixed_load BROKER send|hot|cold|visible|spread --topic T [--queues N] [--rate N] [--seconds N] [--size N]";

#[derive(Clone)]
struct Load {
    broker: String,
    kind: String,
    topic: String,
    queues: u64,
    rate: u64,
    seconds: u64,
    size: usize,
}

fn arguments() -> Option<Load> {
    let mut words = std::env::args().skip(1);
    let mut load = Load {
        broker: words.next()?,
        kind: words.next()?,
        topic: "mixed_load".into(),
        queues: 8,
        rate: 500,
        seconds: 10,
        size: 1024,
    };
    while let Some(flag) = words.next() {
        let value = words.next()?;
        match flag.as_str() {
            "--topic" => load.topic = value,
            "--queues" => load.queues = value.parse().ok().filter(|&n| n > 0)?,
            "--rate" => load.rate = value.parse().ok().filter(|&n| n > 0)?,
            "--seconds" => load.seconds = value.parse().ok()?,
            "--size" => load.size = value.parse().ok()?,
            _ => return None,
        }
    }
    Some(load)
}

fn fields<const N: usize>(pairs: [(&'static str, String); N]) -> Fields {
    pairs.into_iter().collect()
}

fn send_frame(topic: &str, queue: u64, number: u64, body: &Bytes) -> Frame {
    let properties = format!("UNIQ_KEY\u{1}7F0000010000{number:020X}\u{2}WAIT\u{1}true\u{2}");
    let mut frame = Frame::request(
        310,
        fields([
            ("a", "mixed_load".into()),
            ("b", topic.into()),
            ("c", "TBW102".into()),
            ("d", "8".into()),
            ("e", queue.to_string()),
            ("f", "0".into()),
            ("g", "1700000000000".into()),
            ("h", "0".into()),
            ("i", properties),
            ("j", "0".into()),
            ("k", "false".into()),
            ("m", "false".into()),
        ]),
    );
    frame.body = body.clone();
    frame
}

/// A pull that carries its subscription; `hold` lets the broker wait.
fn pull_frame(topic: &str, queue: u64, offset: i64, hold: bool) -> Frame {
    let flag = if hold { 6 } else { 4 };
    Frame::request(
        11,
        fields([
            ("consumerGroup", "mixed_load".into()),
            ("topic", topic.into()),
            ("queueId", queue.to_string()),
            ("queueOffset", offset.to_string()),
            ("maxMsgNums", "32".into()),
            ("sysFlag", flag.to_string()),
            ("commitOffset", "0".into()),
            ("suspendTimeoutMillis", "15000".into()),
            ("subscription", "*".into()),
            ("subVersion", "0".into()),
            ("expressionType", "TAG".into()),
        ]),
    )
}

async fn max_offset(peer: &Peer, topic: &str, queue: u64) -> anyhow::Result<i64> {
    let ask = fields([("topic", topic.into()), ("queueId", queue.to_string())]);
    let answer = peer.exchange(Frame::request(30, ask), LIMIT).await?;
    Ok(answer
        .fields
        .get("offset")
        .and_then(|n| n.parse().ok())
        .unwrap_or(0))
}

async fn make_topic(peer: &Peer, topic: &str, queues: u64) -> anyhow::Result<()> {
    let create = fields([
        ("topic", topic.into()),
        ("defaultTopic", "TBW102".into()),
        ("readQueueNums", queues.to_string()),
        ("writeQueueNums", queues.to_string()),
        ("perm", "6".into()),
        ("topicFilterType", "SINGLE_TAG".into()),
        ("topicSysFlag", "0".into()),
        ("order", "false".into()),
    ]);
    let made = peer.exchange(Frame::request(17, create), LIMIT).await?;
    anyhow::ensure!(made.code == 0, "topic not created: {:?}", made.remark);
    Ok(())
}

/// What was measured.
#[derive(Default)]
struct Tally {
    micros: Vec<u32>,
    messages: u64,
    bytes: u64,
    failed: u64,
}

impl Tally {
    fn took(&mut self, time: Duration) {
        self.micros
            .push(u32::try_from(time.as_micros()).unwrap_or(u32::MAX));
    }

    fn add(&mut self, other: Self) {
        self.micros.extend(other.micros);
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.failed += other.failed;
    }
}

/// Calls `work` at a steady rate, whether earlier calls have come back or not, and waits for all of them.
async fn paced<F>(load: &Load, work: impl Fn(u64) -> F) -> Tally
where
    F: Future<Output = Tally> + Send + 'static,
{
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / load.rate));
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..load.rate * load.seconds {
        ticks.tick().await;
        tasks.spawn(work(n));
    }
    let mut tally = Tally::default();
    while let Some(done) = tasks.join_next().await {
        tally.add(done.unwrap_or_default());
    }
    tally
}

async fn one(peer: Peer, frame: Frame) -> Tally {
    let begun = Instant::now();
    let mut tally = Tally::default();
    match peer.exchange(frame, LIMIT).await {
        Ok(answer) if answer.code == 0 => {
            tally.took(begun.elapsed());
            tally.messages = 1;
            tally.bytes = answer.body.len() as u64;
        }
        _ => tally.failed = 1,
    }
    tally
}

async fn send(peer: &Peer, load: &Load) -> Tally {
    let body = Bytes::from(vec![b'x'; load.size]);
    paced(load, |n| {
        one(peer.clone(), send_frame(&load.topic, n % load.queues, n, &body))
    })
    .await
}

async fn hot(peer: &Peer, load: &Load) -> anyhow::Result<Tally> {
    let mut last = Vec::new();
    for queue in 0..load.queues {
        last.push((max_offset(peer, &load.topic, queue).await? - 32).max(0));
    }
    Ok(paced(load, |n| {
        let queue = n % load.queues;
        let offset = last.get(queue as usize).copied().unwrap_or(0);
        one(peer.clone(), pull_frame(&load.topic, queue, offset, false))
    })
    .await)
}

/// One reader a queue, from the begin on, until the time is up; begins anew at the end.
async fn cold(peer: &Peer, load: &Load) -> Tally {
    let until = Instant::now() + Duration::from_secs(load.seconds);
    let readers = (0..load.queues).map(|queue| {
        let (peer, topic) = (peer.clone(), load.topic.clone());
        tokio::spawn(async move {
            let (mut tally, mut offset) = (Tally::default(), 0i64);
            while Instant::now() < until {
                let begun = Instant::now();
                let Ok(answer) = peer
                    .exchange(pull_frame(&topic, queue, offset, false), LIMIT)
                    .await
                else {
                    tally.failed += 1;
                    break;
                };
                tally.took(begun.elapsed());
                let next = answer.fields.get("nextBeginOffset").and_then(|n| n.parse().ok());
                if answer.code == 0 {
                    tally.messages += (next.unwrap_or(offset) - offset).max(0).unsigned_abs();
                    tally.bytes += answer.body.len() as u64;
                    offset = next.unwrap_or(offset + 1);
                } else {
                    offset = next.filter(|&next| next != offset).unwrap_or(0);
                }
            }
            tally
        })
    });
    let readers: Vec<_> = readers.collect();
    let mut tally = Tally::default();
    for reader in readers {
        tally.add(reader.await.unwrap_or_default());
    }
    tally
}

/// A held pull on each queue; sends go round the queues.
async fn visible(peer: &Peer, load: &Load) -> anyhow::Result<Tally> {
    let begun = Instant::now();
    let begun_at: Arc<Vec<AtomicU64>> = Arc::new((0..load.queues).map(|_| AtomicU64::new(0)).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let mut readers = Vec::new();
    for queue in 0..load.queues {
        let mut offset = max_offset(peer, &load.topic, queue).await?;
        let (peer, topic) = (peer.clone(), load.topic.clone());
        let (begun_at, stop) = (begun_at.clone(), stop.clone());
        readers.push(tokio::spawn(async move {
            let mut tally = Tally::default();
            while !stop.load(Ordering::Relaxed) {
                let Ok(answer) = peer
                    .exchange(pull_frame(&topic, queue, offset, true), LIMIT)
                    .await
                else {
                    tally.failed += 1;
                    break;
                };
                let now = begun.elapsed().as_micros() as u64;
                if answer.code == 0 {
                    offset += 1;
                    tally.messages += 1;
                    let since = begun_at[queue as usize].load(Ordering::Relaxed);
                    tally
                        .micros
                        .push(u32::try_from(now.saturating_sub(since)).unwrap_or(u32::MAX));
                } else if answer.code != 19 && !stop.load(Ordering::Relaxed) {
                    eprintln!("pull refused: {} {:?}", answer.code, answer.remark);
                    tally.failed += 1;
                    break;
                }
            }
            tally
        }));
    }
    let body = Bytes::from(vec![b'x'; load.size]);
    let mut ticks = tokio::time::interval(Duration::from_micros(1_000_000 / load.rate));
    for n in 0..load.rate * load.seconds {
        ticks.tick().await;
        let queue = n % load.queues;
        begun_at[queue as usize].store(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
        let answer = peer
            .exchange(send_frame(&load.topic, queue, n, &body), LIMIT)
            .await?;
        if answer.code != 0 {
            anyhow::bail!("send refused: {} {:?}", answer.code, answer.remark);
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    let mut tally = Tally::default();
    for (queue, reader) in (0..).zip(readers) {
        // Lets the held pull go.
        let _ = peer
            .exchange(send_frame(&load.topic, queue, 0, &body), LIMIT)
            .await;
        tally.add(reader.await.unwrap_or_default());
    }
    Ok(tally)
}

async fn spread(peer: &Peer, load: &Load) -> anyhow::Result<Tally> {
    const A_TOPIC: u64 = 1000;
    let topics = load.queues.div_ceil(A_TOPIC);
    for n in 0..topics {
        make_topic(peer, &format!("{}{n}", load.topic), A_TOPIC).await?;
    }
    let body = Bytes::from(vec![b'x'; load.size]);
    Ok(paced(load, |n| {
        let queue = n % load.queues;
        let topic = format!("{}{}", load.topic, queue / A_TOPIC);
        one(peer.clone(), send_frame(&topic, queue % A_TOPIC, n, &body))
    })
    .await)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let Some(load) = arguments() else {
        eprintln!("usage: {USAGE}");
        std::process::exit(2);
    };
    let pool = Pool::new(Arc::new(NoService), Duration::from_secs(3));
    let peer = pool.peer(&load.broker).await?;
    if load.kind != "spread" {
        make_topic(&peer, &load.topic, load.queues).await?;
    }
    let begun = Instant::now();
    let mut tally = match load.kind.as_str() {
        "send" => send(&peer, &load).await,
        "hot" => hot(&peer, &load).await?,
        "cold" => cold(&peer, &load).await,
        "visible" => visible(&peer, &load).await?,
        "spread" => spread(&peer, &load).await?,
        _ => anyhow::bail!("usage: {USAGE}"),
    };
    let seconds = begun.elapsed().as_secs_f64();
    anyhow::ensure!(
        !tally.micros.is_empty(),
        "nothing came back, {} failed",
        tally.failed
    );
    tally.micros.sort_unstable();
    let at = |share: f64| tally.micros[((tally.micros.len() - 1) as f64 * share) as usize];
    println!(
        "{}",
        serde_json::json!({
            "kind": load.kind,
            "count": tally.micros.len(),
            "failed": tally.failed,
            "messages": tally.messages,
            "mb_per_second": (tally.bytes as f64 / seconds / 1e6 * 10.0).round() / 10.0,
            "p50_us": at(0.50),
            "p99_us": at(0.99),
            "p999_us": at(0.999),
            "max_us": at(1.0),
        })
    );
    Ok(())
}
