//! F7: each flush takes 200 ms longer, then five seconds. Consumers of what is there must not notice, and nothing may
//! be answered with success before its flush.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::Plan;
use super::audit::Audit;
use super::dice::Dice;
use super::line::{Line, percentile};
use super::load::{Load, Producers};
use super::power::{Platter, Unflushed};
use super::server::{Server, Site};
use super::shim::Control;
use super::support::{ports, scratch};
use super::wire::{FLUSH_DISK_TIMEOUT, Wire};

const TOPIC: &str = "faults";
const QUEUES: i32 = 4;
const SYSTEM_BUSY: i64 = 2;

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    super::shim::library()?;
    // Both are mostly waiting.
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| one_delay(plan, 200, if plan.long { 20 } else { 3 }));
        let slower = scope.spawn(|| one_delay(plan, 5_000, if plan.long { 40 } else { 11 }));
        [slow, slower]
            .into_iter()
            .map(|one| one.join().expect("it does not panic"))
            .collect()
    })
}

fn one_delay(plan: &Plan, delay_ms: u32, seconds: u64) -> Result<Line, String> {
    let dir = scratch();
    let ports = ports::Block::take();
    let mut site = Site::new(dir.path(), ports.broker())
        .with("flushDiskType", "SYNC_FLUSH")
        .with("mappedFileSizeCommitLog", "1048576")
        .with("maxMessageSize", "65536")
        .with("mappedFileSizeConsumeQueue", "20000");
    let control = Control::attach(&mut site)?;
    control.record(true);
    let mut server = Server::start(&plan.target, &site).expect("a broker starts");
    let mut wire = Wire::connect(&site.address(), Duration::from_secs(20)).expect("it answers");
    wire.create_topic(TOPIC, QUEUES).expect("it answers");
    let journals = dir.path().join("journals");
    let mut load = Load::new(&site.address(), TOPIC, plan.seed, 1);
    load.most = 100;
    Producers::start(&load, 2, &journals).join();
    control.delay_flushes(delay_ms);
    let stop = Arc::new(AtomicBool::new(false));
    let consumer = {
        let (stop, address) = (Arc::clone(&stop), site.address());
        std::thread::spawn(move || pulls(&address, &stop))
    };
    load.round = 2;
    load.most = u64::MAX;
    load.one_connection = false;
    load.patience = Duration::from_secs(20);
    let producers = Producers::start(&load, 4, &journals);
    std::thread::sleep(Duration::from_secs(seconds));
    stop.store(true, Ordering::SeqCst);
    let mut pulled = consumer.join().expect("the consumer does not panic");
    let mut tally = producers.stop();
    server.process.kill();
    let platter = Platter::read(&control.platter);
    let after = dir.path().join("after");
    let mut dice = Dice::new(plan.seed, u64::from(delay_ms));
    platter.fail(&site.store, &after, Unflushed::AllKept, &mut dice);
    site.store = after;
    site.env.clear();
    site.hush();
    let mut audit = Audit::new(TOPIC, QUEUES);
    audit.load_all(&journals);
    let _server = Server::start(&plan.target, &site).expect("a broker starts");
    let found = audit.look(&site.address()).expect("it can be read");
    // Two cores that others use as well make any time limit a lottery: the short form allows for that.
    let limit = if plan.long { 50.0 } else { 250.0 };
    let p99 = percentile(&mut pulled, 0.99);
    let timeouts = tally.of(FLUSH_DISK_TIMEOUT);
    Ok(Line::new("F7", plan.seed)
        .figure("server", plan.target.name())
        .figure("flush_delay_ms", delay_ms)
        .figure("seconds", seconds)
        .figure("sends", tally.took_ms.len())
        .figure(
            "send_p99_ms",
            format!("{:.0}", percentile(&mut tally.took_ms, 0.99)),
        )
        .bar("flush_disk_timeout", timeouts, delay_ms < 5_000 || timeouts > 0)
        .figure("busy", tally.of(SYSTEM_BUSY))
        .figure("pulls", pulled.len())
        .bar(
            "pulls_p99_ms",
            format!("{p99:.1}"),
            !pulled.is_empty() && p99 < limit,
        )
        .bar("acked", found.acked, found.acked > 0)
        .none("success_without_flush", found.lost)
        .none("torn", found.torn)
        .none("extra", found.extra))
}

/// Reads what is flushed, over and over; the milliseconds of each pull.
fn pulls(address: &str, stop: &AtomicBool) -> Vec<f64> {
    let mut took = Vec::new();
    let Ok(mut wire) = Wire::connect(address, Duration::from_secs(20)) else {
        return took;
    };
    let mut queue = 0;
    while !stop.load(Ordering::SeqCst) {
        let begin = Instant::now();
        match wire.pull(TOPIC, queue, 0) {
            Ok(answer) if answer.code == 0 => took.push(begin.elapsed().as_secs_f64() * 1000.0),
            _ => return Vec::new(),
        }
        queue = (queue + 1) % QUEUES;
        std::thread::sleep(Duration::from_millis(2));
    }
    took
}
