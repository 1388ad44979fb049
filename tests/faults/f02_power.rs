//! F2: the power fails under load. The store that the next start finds has what was flushed, and of the rest a random
//! subset: pages, sizes and names.

use std::time::Duration;

use super::Plan;
use super::audit::{Audit, Findings};
use super::dice::Dice;
use super::line::Line;
use super::load::{Load, Producers};
use super::power::{Platter, Unflushed};
use super::server::{Server, Site};
use super::shim::Control;
use super::support::{ports, scratch};
use super::wire::Wire;

const TOPIC: &str = "faults";
const QUEUES: i32 = 4;
pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    super::shim::library()?;
    ["SYNC_FLUSH", "ASYNC_FLUSH"]
        .into_iter()
        .map(|mode| one_mode(plan, mode))
        .collect()
}

fn one_mode(plan: &Plan, mode: &str) -> Result<Line, String> {
    let rounds = plan.rounds(4, 100) as u64;
    let is_sync = mode == "SYNC_FLUSH";
    let ports = ports::Block::take();
    let mut dice = Dice::new(plan.seed, 2);
    let mut all = Findings::default();
    let (mut flushed, mut lost_flushed, mut unreadable) = (0, 0, 0);
    for round in 0..rounds {
        let dir = scratch();
        let mut site = Site::new(dir.path(), ports.broker())
            .with("flushDiskType", mode)
            .with("mappedFileSizeCommitLog", "1048576")
            .with("maxMessageSize", "65536")
            .with("mappedFileSizeConsumeQueue", "20000");
        let control = Control::attach(&mut site)?;
        control.record(true);
        let mut server = Server::start(&plan.target, &site).expect("a broker starts");
        let made = Wire::connect(&site.address(), Duration::from_secs(10))
            .and_then(|mut wire| wire.create_topic(TOPIC, QUEUES));
        assert!(made.is_ok_and(|answer| answer.code == 0), "the topic is made");
        let mut load = Load::new(&site.address(), TOPIC, plan.seed, round + 1);
        load.body = (40, 3000);
        let journals = dir.path().join("journals");
        let producers = Producers::start(&load, 3, &journals);
        std::thread::sleep(Duration::from_millis(
            dice.within(20, if is_sync { 900 } else { 2_500 }),
        ));
        server.process.kill();
        producers.join();
        let platter = Platter::read(&control.platter);
        let durable = platter.flushed(&site.store.join("commitlog"));
        flushed += durable.len() as u64;
        let after = dir.path().join("after");
        platter.fail(&site.store, &after, Unflushed::AnySubset, &mut dice);
        let mut site = site.clone();
        site.store = after;
        site.env.clear();
        site.hush();
        let mut audit = Audit::new(TOPIC, QUEUES);
        audit.load_all(&journals);
        let looked = Server::start(&plan.target, &site).and_then(|_server| audit.look(&site.address()));
        match looked {
            Ok(found) => {
                if is_sync && found.lost > 0 {
                    eprintln!("F2 {mode} round {round}: {found:?}, left: {}", names(&site.store));
                }
                all.add(found);
            }
            // Without a flush there need not be a topic yet.
            Err(why) if !is_sync && durable.is_empty() => eprintln!("F2 {mode} round {round}: {why}"),
            Err(why) => {
                eprintln!("F2 {mode} round {round}: {why}");
                unreadable += 1;
            }
        }
        // What a flush made durable, without a guess from times. Spec: "lost only younger than the last flush".
        lost_flushed += audit.lost.iter().filter(|(id, _)| durable.contains(id)).count() as u64;
    }
    let mut line = Line::new("F2", plan.seed)
        .figure("server", plan.target.name())
        .figure("mode", mode)
        .figure("rounds", rounds)
        .bar("acked", all.acked, all.acked > 0)
        .bar("flushed", flushed, flushed > 0)
        .none("lost_flushed", lost_flushed);
    line = if is_sync {
        line.none("lost", all.lost)
    } else {
        line.figure("lost_unflushed", all.lost - lost_flushed)
    };
    Ok(line
        .none("torn", all.torn)
        .none("extra", all.extra)
        .none("reorder", all.reorder)
        .none("unindexed", all.unindexed)
        .none("unreadable", unreadable))
}

/// What is in a directory, two levels deep.
fn names(dir: &std::path::Path) -> String {
    let mut out = String::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let inner = std::fs::read_dir(entry.path()).map_or(0, Iterator::count);
        out += &format!("{}({inner}) ", entry.file_name().to_string_lossy());
    }
    out
}
