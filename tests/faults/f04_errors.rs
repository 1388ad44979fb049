//! F4: the k-th flush, write, truncate or rename in the store fails, for k = 1, 2, ... until a run is not touched.
//! What is audited is what the disk holds after a power failure: the page cache would hide a failed flush.

use std::time::Duration;

use super::Plan;
use super::audit::{Audit, Findings};
use super::dice::Dice;
use super::line::Line;
use super::load::{body, hash, id, key};
use super::power::{Platter, Unflushed};
use super::server::{Server, Site};
use super::shim::{Action, Calls, Control, EIO, ENOSPC};
use super::support::{ports, scratch};
use super::wire::Wire;

const TOPIC: &str = "faults";
const QUEUES: i32 = 2;
const MESSAGES: u64 = 40;
/// A run that is still hit at this call is a run without end.
const MOST_CALLS: u32 = 2_000;

const KINDS: &[(&str, Calls)] = &[
    ("fsync", Calls::FSYNC),
    ("fdatasync", Calls::FDATASYNC),
    ("msync", Calls::MSYNC),
    ("pwrite", Calls::PWRITE),
    ("write", Calls::WRITE),
    ("ftruncate", Calls::FTRUNCATE),
    ("rename", Calls::RENAME),
];

#[derive(Default)]
struct Counts {
    found: Findings,
    runs: u64,
    hits: u64,
    /// Hit while starting; ended with a reason.
    start_refused: u64,
    refused: u64,
    /// A send that began after a failed flush of the commit log was answered with success.
    success_after: u64,
    /// The fault shows in no log line.
    silent: u64,
    /// The store refuses writes for good, and not exactly one line says so.
    unclear_log: u64,
    /// Sends are refused and the figures do not say why.
    unshown: u64,
    reads_failed: u64,
    crashes: u64,
    unreadable: u64,
    /// The topic of acknowledged messages was gone.
    topics_lost: u64,
    /// Flushes of the commit log that failed.
    fatal: u64,
}

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    super::shim::library()?;
    let ports = ports::Block::take();
    let errors: &[(&str, u32)] = if plan.long && !plan.target.is_java() {
        &[("EIO", EIO), ("ENOSPC", ENOSPC)]
    } else {
        &[("EIO", EIO)]
    };
    let mut lines = Vec::new();
    for (error_name, error) in errors {
        let mut counts = Counts::default();
        let mut ranges = Vec::new();
        for (name, calls) in KINDS {
            let (mut k, mut last) = (1, 0);
            while k < MOST_CALLS && one_run(plan, &ports, *calls, k, *error, &mut counts)? {
                last = k;
                // The short form takes steps; a slow server is tried at fewer places.
                k = match (plan.long, plan.target.is_java()) {
                    (true, false) => k + 1,
                    (true, true) => k + 1 + k / 4,
                    (false, _) => k * 3,
                };
            }
            ranges.push(format!("{name}:{last}"));
        }
        let found = counts.found;
        lines.push(
            Line::new("F4", plan.seed)
                .figure("server", plan.target.name())
                .figure("error", error_name)
                .figure("last_k", ranges.join(","))
                .figure("runs", counts.runs)
                .bar("hit", counts.hits, counts.hits > 0)
                .figure("log_flush_failed", counts.fatal)
                .figure("start_refused", counts.start_refused)
                .bar("acked", found.acked, found.acked > 0)
                .figure("refused", counts.refused)
                .none("lost", found.lost)
                .none("torn", found.torn)
                .none("extra", found.extra)
                .none("reorder", found.reorder)
                .none("unindexed", found.unindexed)
                .none("success_after_failed_flush", counts.success_after)
                .none("silent", counts.silent)
                .none("unclear_log", counts.unclear_log)
                .none("state_not_shown", counts.unshown)
                .none("reads_failed", counts.reads_failed)
                .none("topics_lost", counts.topics_lost)
                .none("crashes", counts.crashes)
                .none("unreadable", counts.unreadable),
        );
    }
    Ok(lines)
}

/// True when the fault was met.
fn one_run(
    plan: &Plan,
    ports: &ports::Block,
    calls: Calls,
    k: u32,
    error: u32,
    counts: &mut Counts,
) -> Result<bool, String> {
    let dir = scratch();
    let mut site = Site::new(dir.path(), ports.broker())
        .with("flushDiskType", "SYNC_FLUSH")
        .with("maxMessageSize", "32768")
        .with("mappedFileSizeConsumeQueue", "2000")
        .with("maxHashSlotNum", "50")
        .with("maxIndexNum", "60")
        .with("flushIntervalConsumeQueue", "30")
        .with("flushConsumeQueueThoroughInterval", "100")
        .with("mappedFileSizeCommitLog", "131072");
    let control = Control::attach(&mut site)?;
    control.record(true);
    control.arm(calls, "", k, Action::FailOnce, error);
    counts.runs += 1;
    let mut dice = Dice::new(plan.seed, u64::from(k) << 16 | u64::from(calls.0));
    let journals = dir.path().join("journals");
    std::fs::create_dir_all(&journals).unwrap();
    let is_rmq = !plan.target.is_java();
    let what = |why: &str| {
        eprintln!(
            "F4 {calls:?} k={k} error {error} at {}: {why}",
            control.hit_path()
        )
    };
    let server = match Server::start(&plan.target, &site) {
        Ok(server) => Some(server),
        Err(why) => {
            if control.hits() == 0 || why.contains("panicked") {
                what(&why);
                counts.crashes += 1;
            }
            counts.start_refused += 1;
            None
        }
    };
    let mut by_term = false;
    if let Some(mut server) = server {
        let mut journal = String::new();
        let work = send_all(&site, &control, calls, &mut dice, &mut journal, counts);
        std::fs::write(journals.join("one"), journal).unwrap();
        if let Err(why) = work {
            what(&format!("{why}\n{}", super::server::tail(&site.said())));
            counts.crashes += 1;
        }
        if !server.process.is_running() || site.said().contains("panicked") {
            what("it ended");
            counts.crashes += 1;
        } else if is_rmq && dice.chance(50) {
            by_term = true;
            server.process.terminate(Duration::from_secs(15));
        }
        server.process.kill();
    }
    let hit = control.hits() > 0;
    let path = control.hit_path();
    if hit {
        counts.hits += 1;
        let said = site.said();
        let shown = ["os error", "Input/output", "No space", "IOException"];
        if !shown.iter().any(|word| said.contains(word)) {
            what(&format!("no log line (stopped: {by_term})"));
            counts.silent += 1;
        }
        let final_lines = said.matches("takes no more writes").count();
        let is_fatal = is_data_flush(calls, &path);
        counts.fatal += u64::from(is_fatal);
        if is_rmq && (final_lines > 1 || is_fatal && final_lines == 0 && !said.contains("it ended")) {
            what(&format!("{final_lines} lines that it takes no more writes"));
            counts.unclear_log += 1;
        }
    }
    // The machine loses power now; then there is a good disk again.
    let platter = Platter::read(&control.platter);
    let after = dir.path().join("after");
    platter.fail(&site.store, &after, Unflushed::AllKept, &mut dice);
    site.store = after;
    site.env.clear();
    site.hush();
    let mut audit = Audit::new(TOPIC, QUEUES);
    audit.load_all(&journals);
    let acked = audit.acked();
    let server = Server::start(&plan.target, &site);
    let mut looked = server
        .as_ref()
        .map_err(Clone::clone)
        .and_then(|_| audit.look(&site.address()));
    if acked > 0 && looked.as_ref().is_err_and(|why| why.contains("not exist")) {
        // The table of topics was not on the disk; the messages may be all the same.
        counts.topics_lost += 1;
        let made = Wire::connect(&site.address(), Duration::from_secs(20))
            .and_then(|mut wire| wire.create_topic(TOPIC, QUEUES));
        looked = made
            .map_err(|e| e.to_string())
            .and_then(|_| audit.look(&site.address()));
    }
    match looked {
        Ok(found) => {
            if !found.is_clean() {
                what(&format!("{found:?}"));
            }
            counts.found.add(found);
        }
        Err(why) if acked == 0 && why.contains("not exist") => {}
        Err(why) => {
            what(&why);
            counts.unreadable += 1;
        }
    }
    Ok(hit)
}

/// Messages of the log are flushed by msync; fsync and fdatasync are for a new file that holds nothing yet.
fn is_data_flush(calls: Calls, path: &str) -> bool {
    calls == Calls::MSYNC && path.contains("/commitlog/")
}

fn send_all(
    site: &Site,
    control: &Control,
    calls: Calls,
    dice: &mut Dice,
    journal: &mut String,
    counts: &mut Counts,
) -> Result<(), String> {
    use std::fmt::Write as _;
    let text = |e: std::io::Error| e.to_string();
    let mut wire = Wire::connect(&site.address(), Duration::from_secs(20)).map_err(text)?;
    // The one fault may be met here; then the second try must work.
    let first = wire.create_topic(TOPIC, QUEUES).map_err(text)?;
    if first.code != 0 {
        let second = wire.create_topic(TOPIC, QUEUES).map_err(text)?;
        if second.code != 0 {
            return Err(format!(
                "the topic is refused twice: {} {}",
                second.code, second.remark
            ));
        }
    }
    let mut acked = Vec::new();
    let mut send = |wire: &mut Wire, number: u64, counts: &mut Counts| -> Result<(i64, String), String> {
        let failed_before = control.hits() > 0 && is_data_flush(calls, &control.hit_path());
        let id = id(1, 0, number);
        let bytes = body(id, dice, (1_500, 7_000));
        let queue = (number % QUEUES as u64) as i32;
        let answer = wire.send(TOPIC, queue, &key(id), &bytes).map_err(text)?;
        let offset = answer.number("queueOffset");
        let _ = writeln!(
            journal,
            "{id:x} {:x} {} {queue} {offset}",
            hash(&bytes),
            answer.code
        );
        if answer.code == 0 {
            acked.push((queue, offset));
            counts.success_after += u64::from(failed_before);
        } else {
            counts.refused += 1;
        }
        Ok((answer.code, answer.remark))
    };
    let mut last = (0, String::new());
    for number in 0..MESSAGES {
        last = send(&mut wire, number, counts)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    // Time for queues, index and checkpoint.
    std::thread::sleep(Duration::from_millis(150));
    if last.0 > 0 {
        let figures = wire.figures().map_err(text)?;
        // What was tried again and worked meanwhile is shown no more, and refused no more.
        if !figures.contains_key("rmqNotWritable") && send(&mut wire, MESSAGES, counts)?.0 > 0 {
            counts.unshown += 1;
            eprintln!(
                "F4: refused with {} {} and the figures do not show it",
                last.0, last.1
            );
        }
    }
    for queue in 0..QUEUES {
        let Some((_, newest)) = acked.iter().rev().find(|(q, _)| *q == queue) else {
            continue;
        };
        let (_, max) = wire.range(TOPIC, queue).map_err(text)?;
        let answer = wire.pull(TOPIC, queue, 0).map_err(text)?;
        if answer.code != 0 || max <= *newest {
            eprintln!(
                "F4: reading queue {queue}: code {} {}, end {max}, newest {newest}",
                answer.code, answer.remark
            );
            counts.reads_failed += 1;
        }
    }
    Ok(())
}
