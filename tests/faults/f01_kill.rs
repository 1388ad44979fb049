//! F1: `kill -9` at random points under four producers, and a start after each.

use std::time::Duration;

use super::Plan;
use super::audit::{Audit, Findings};
use super::dice::Dice;
use super::line::{Line, percentile};
use super::load::{Load, Producers};
use super::server::{Server, Site};
use super::support::{ports, scratch};
use super::wire::Wire;

const TOPIC: &str = "faults";
const QUEUES: i32 = 4;

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    Ok(["ASYNC_FLUSH", "SYNC_FLUSH"]
        .into_iter()
        .map(|mode| one_mode(plan, mode))
        .collect())
}

fn one_mode(plan: &Plan, mode: &str) -> Line {
    let rounds = plan.rounds(6, 200) as u64;
    let dir = scratch();
    let ports = ports::Block::take();
    let site = Site::new(dir.path(), ports.broker()).with("flushDiskType", mode);
    let journals = dir.path().join("journals");
    let mut dice = Dice::new(plan.seed, 1);
    let mut audit = Audit::new(TOPIC, QUEUES);
    let mut found = Findings::default();
    let mut boots = Vec::new();
    let mut trouble = String::new();
    for round in 0..=rounds {
        let server = match Server::start(&plan.target, &site) {
            Ok(server) => server,
            Err(why) => {
                trouble = why;
                break;
            }
        };
        if round == 0 {
            let made = Wire::connect(&site.address(), Duration::from_secs(10))
                .and_then(|mut wire| wire.create_topic(TOPIC, QUEUES));
            assert!(made.is_ok_and(|answer| answer.code == 0), "the topic is made");
        } else {
            boots.push(server.boot.as_secs_f64() * 1000.0);
            match audit.look(&site.address()) {
                Ok(more) => found.add(more),
                Err(why) => {
                    trouble = why;
                    break;
                }
            }
        }
        if round == rounds {
            // All of it once more, from the first offset on.
            let mut whole = Audit::new(TOPIC, QUEUES);
            whole.index_step = 16;
            whole.load_all(&journals);
            match whole.look(&site.address()) {
                Ok(all) => {
                    found.lost = found.lost.max(all.lost);
                    found.torn = found.torn.max(all.torn);
                    found.extra = found.extra.max(all.extra);
                    found.reorder = found.reorder.max(all.reorder);
                    found.unindexed = found.unindexed.max(all.unindexed);
                }
                Err(why) => trouble = why,
            }
            break;
        }
        let mut server = server;
        let load = Load::new(&site.address(), TOPIC, plan.seed, round + 1);
        let producers = Producers::start(&load, 4, &journals);
        std::thread::sleep(Duration::from_millis(dice.within(5, 801)));
        server.process.kill();
        let files = producers.journals.clone();
        producers.join();
        files.iter().for_each(|file| audit.load(file));
    }
    if !trouble.is_empty() {
        eprintln!("F1 {mode}: {trouble}");
    }
    let gib = directory_bytes(&site.store.join("commitlog")) as f64 / (1u64 << 30) as f64;
    let slowest = percentile(&mut boots, 1.0);
    let limit = if plan.target.is_java() {
        60_000.0
    } else {
        2_000.0 + 1_000.0 * gib
    };
    Line::new("F1", plan.seed)
        .figure("server", plan.target.name())
        .figure("mode", mode)
        .bar(
            "rounds",
            boots.len(),
            boots.len() as u64 == rounds && trouble.is_empty(),
        )
        .bar("acked", found.acked, found.acked > 0)
        .none("lost", found.lost)
        .none("torn", found.torn)
        .none("extra", found.extra)
        .none("reorder", found.reorder)
        .none("unindexed", found.unindexed)
        .figure("recovery_ms_p50", format!("{:.0}", percentile(&mut boots, 0.5)))
        .bar("recovery_ms_max", format!("{slowest:.0}"), slowest < limit)
}

fn directory_bytes(dir: &std::path::Path) -> u64 {
    std::fs::read_dir(dir).map_or(0, |entries| {
        entries
            .flatten()
            .filter_map(|e| Some(e.metadata().ok()?.len()))
            .sum()
    })
}
