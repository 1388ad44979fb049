//! The budgets of the console (specification, section 9), measured on the real program in a terminal.
//!
//! Ignored, since it takes two minutes and only a release build's figures mean anything:
//!
//! ```text
//! cargo build --release
//! RMQ_TUI_BIN=target/release/rmq cargo test --test it tui::budgets -- --ignored --nocapture
//! ```

use std::time::{Duration, Instant};

use rmq::client::produce::{Outgoing, Producer};
use rmq::client::{Client, Options};

use super::program::Program;
use super::servers::Fake;
use crate::cli::Cluster;

/// Prints a line and remembers a failure.
struct Verdict(Vec<String>);

impl Verdict {
    fn judge(&mut self, what: &str, value: f64, limit: f64, unit: &str) {
        let good = value <= limit;
        let word = if good { "PASS" } else { "FAIL" };
        let line = format!("budget {what}: {value:.1} {unit}, limit {limit} {unit} {word}");
        println!("{line}");
        if !good {
            self.0.push(line);
        }
    }
}

/// User and system time of a process, seconds.
fn cpu_seconds(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
    ticks / 100.0
}

/// Resident memory, MiB.
fn resident_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

fn ms(of: Duration) -> f64 {
    of.as_secs_f64() * 1000.0
}

/// Median of a few.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// 3 brokers, 200 topics, 100 groups with positions.
async fn cluster() -> Cluster {
    let cluster = Cluster::start(&["broker-a", "broker-b", "broker-c"]).await;
    let rmq = cluster.rmq();
    let client = std::sync::Arc::new(Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        ..Options::default()
    }));
    let producer = Producer::new(client, "PG").unwrap();
    for i in 0..200 {
        let ran = rmq.line(&format!("topic create T{i} --queues 4 --yes")).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let message = Outgoing {
            topic: format!("T{i}"),
            body: bytes::Bytes::from_static(b"x"),
            broker: Some("broker-a".into()),
            queue: Some(0),
            ..Outgoing::default()
        };
        producer.send(&message).await.unwrap();
    }
    for i in 0..100 {
        for line in [
            format!("group create G{i} --yes"),
            format!("offset set G{i} -t T{i} broker-a/0=0 --yes"),
        ] {
            let ran = rmq.line(&line).await;
            assert_eq!(ran.code, 0, "{ran:?}");
        }
    }
    cluster
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "two minutes; for a release build"]
async fn budgets() {
    let mut verdict = Verdict(Vec::new());
    let cluster = cluster().await;
    let addr = cluster.addr.to_string();

    let at = addr.clone();
    let (first, live) = blocking(move || {
        let (mut first, mut live) = (Vec::new(), Vec::new());
        for _ in 0..7 {
            let began = Instant::now();
            let mut program = Program::start(&at, &["--interval", "2s"]);
            program.shows("Health");
            first.push(ms(began.elapsed()));
            program.shows("brokers 3/3");
            live.push(ms(began.elapsed()));
            program.press("q");
            program.ends();
        }
        (median(first), median(live))
    })
    .await;
    verdict.judge("first frame after exec", first, 50.0, "ms");
    verdict.judge("first live data, loopback", live, 300.0, "ms");

    let at = addr.clone();
    let (idle, resident) = blocking(move || {
        let mut program = Program::start(&at, &["--interval", "2s"]);
        program.shows("brokers 3/3");
        // The rates of all topics are asked for once at the begin.
        std::thread::sleep(Duration::from_secs(45));
        let (before, began) = (cpu_seconds(program.pid()), Instant::now());
        std::thread::sleep(Duration::from_secs(60));
        let used = (cpu_seconds(program.pid()) - before) / began.elapsed().as_secs_f64();
        let resident = resident_mib(program.pid());
        program.press("q");
        program.ends();
        (used * 100.0, resident)
    })
    .await;
    verdict.judge(
        "idle, 3 brokers, 200 topics, 100 groups",
        idle,
        1.0,
        "% of a core",
    );
    verdict.judge("resident memory then", resident, 40.0, "MiB");

    // Ten thousand topics on a wide terminal: every key is a frame.
    let many = Fake::broker(10_000, false).await;
    let servers = Fake::name_server(&[("many", many.addr)]).await;
    let at = servers.addr.to_string();
    let frame = blocking(move || {
        let mut program = Program::start(&at, &["--interval", "30s", "--screen", "topics"]);
        program.resize(200, 60);
        program.shows("of 10000");
        std::thread::sleep(Duration::from_secs(3));
        const KEYS: u32 = 400;
        let (before, began) = (cpu_seconds(program.pid()), Instant::now());
        for _ in 0..KEYS {
            program.press("j");
            std::thread::sleep(Duration::from_millis(4));
        }
        // What it costs beside the keys, in the same time.
        let all = cpu_seconds(program.pid()) - before;
        let took = began.elapsed();
        let before = cpu_seconds(program.pid());
        std::thread::sleep(took);
        let beside = cpu_seconds(program.pid()) - before;
        program.press("\x03");
        program.ends();
        (all - beside) * 1000.0 / f64::from(KEYS)
    })
    .await;
    verdict.judge("key and frame at 200x60, 10,000 topics (CPU)", frame, 4.0, "ms");

    let good = Fake::broker(3, false).await;
    let tarpit = Fake::broker(3, true).await;
    let servers = Fake::name_server(&[("good", good.addr), ("tarpit", tarpit.addr)]).await;
    let at = servers.addr.to_string();
    let (key, quit) = blocking(move || {
        let (mut keys, mut quits) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let mut program = Program::start(&at, &["--interval", "2s"]);
            program.shows("brokers 1/2!");
            for _ in 0..5 {
                for (key, text) in [("2", "Registrations"), ("3", "Brokers 2")] {
                    let began = Instant::now();
                    program.press(key);
                    program.shows(text);
                    keys.push(ms(began.elapsed()));
                }
            }
            program.press("r");
            let began = Instant::now();
            program.press("q");
            program.ends();
            quits.push(ms(began.elapsed()));
        }
        (median(keys), median(quits))
    })
    .await;
    verdict.judge("key to screen while a broker hangs", key, 30.0, "ms");
    verdict.judge("quit while calls hang", quit, 100.0, "ms");

    let at = servers.addr.to_string();
    let before = good.fake.asked().len();
    let seconds = blocking(move || {
        let mut program = Program::start(&at, &["--interval", "2s"]);
        program.shows("brokers 1/2!");
        let began = Instant::now();
        std::thread::sleep(Duration::from_secs(20));
        program.press("q");
        program.ends();
        began.elapsed().as_secs_f64()
    })
    .await;
    let calls = (good.fake.asked().len() - before) as f64 / seconds;
    verdict.judge("calls on a broker from the overview", calls, 20.0, "a second");
    assert!(verdict.0.is_empty(), "{:#?}", verdict.0);
}
