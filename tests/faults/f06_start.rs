//! F6: `kill -9` inside recovery, and at each system call of the saving of a table.

use std::time::Duration;

use super::Plan;
use super::audit::{Audit, Findings};
use super::dice::Dice;
use super::line::Line;
use super::load::{Load, Producers};
use super::server::{Server, Site, answers};
use super::shim::{Action, Calls, Control};
use super::support::{ports, scratch};
use super::wire::Wire;

const TOPIC: &str = "faults";
const QUEUES: i32 = 4;
/// A save has fewer calls.
const MOST_CALLS: u32 = 60;

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    let mut lines = vec![in_recovery(plan)?];
    match super::shim::library() {
        Ok(_) => lines.push(in_a_save(plan)?),
        Err(why) => println!("F6 seed={} part=save SKIPPED: {why}", plan.seed),
    }
    Ok(lines)
}

fn in_recovery(plan: &Plan) -> Result<Line, String> {
    let rounds = plan.rounds(10, 100);
    let dir = scratch();
    let ports = ports::Block::take();
    let site = Site::new(dir.path(), ports.broker())
        .with("mappedFileSizeCommitLog", "1048576")
        .with("maxMessageSize", "65536")
        .with("mappedFileSizeConsumeQueue", "20000");
    let mut dice = Dice::new(plan.seed, 6);
    let journals = dir.path().join("journals");
    let mut all = Findings::default();
    let (mut unreadable, mut half_started, mut batch) = (0, 0, 0);
    let mut boot = Duration::from_millis(200);
    for round in 0..rounds {
        // Now and then there is something new to recover.
        if round % 10 == 0 {
            batch += 1;
            match Server::start(&plan.target, &site) {
                Ok(mut server) => {
                    boot = server.boot;
                    let made = Wire::connect(&site.address(), Duration::from_secs(10))
                        .and_then(|mut wire| wire.create_topic(TOPIC, QUEUES));
                    assert!(made.is_ok_and(|answer| answer.code == 0), "the topic is made");
                    let mut load = Load::new(&site.address(), TOPIC, plan.seed, batch);
                    load.most = if plan.long { 3_000 } else { 600 };
                    Producers::start(&load, 2, &journals).join();
                    server.process.kill();
                }
                Err(why) => {
                    eprintln!("F6 round {round}: {why}");
                    unreadable += 1;
                    break;
                }
            }
        }
        let mut server = Server::starting(&plan.target, &site);
        let most = boot.as_micros() as u64 * 11 / 10;
        std::thread::sleep(Duration::from_micros(dice.within(0, most)));
        half_started += u64::from(!answers(&site.address()));
        server.process.kill();
    }
    let mut audit = Audit::new(TOPIC, QUEUES);
    audit.load_all(&journals);
    match Server::start(&plan.target, &site).and_then(|_server| audit.look(&site.address())) {
        Ok(found) => all.add(found),
        Err(why) => {
            eprintln!("F6: {why}");
            unreadable += 1;
        }
    }
    Ok(Line::new("F6", plan.seed)
        .figure("server", plan.target.name())
        .figure("part", "recovery")
        .figure("rounds", rounds)
        .figure("killed_before_ready", half_started)
        .bar("acked", all.acked, all.acked > 0)
        .none("lost", all.lost)
        .none("torn", all.torn)
        .none("extra", all.extra)
        .none("reorder", all.reorder)
        .none("unindexed", all.unindexed)
        .none("unreadable", unreadable))
}

fn in_a_save(plan: &Plan) -> Result<Line, String> {
    let dir = scratch();
    let ports = ports::Block::take();
    let mut site = Site::new(dir.path(), ports.broker());
    let control = Control::attach(&mut site)?;
    let all_calls = [
        Calls::FSYNC,
        Calls::FDATASYNC,
        Calls::WRITE,
        Calls::PWRITE,
        Calls::FTRUNCATE,
        Calls::RENAME,
        Calls::OPEN,
        Calls::LINK,
        Calls::UNLINK,
    ];
    let calls = Calls(all_calls.iter().map(|calls| calls.0).sum());
    let (mut kills, mut unreadable, mut lost, mut last) = (0, 0, 0, 0);
    let mut known: Vec<String> = Vec::new();
    for action in [Action::KillBefore, Action::KillAfter] {
        for k in 1..MOST_CALLS {
            control.disarm();
            let mut server = match Server::start(&plan.target, &site) {
                Ok(server) => server,
                Err(why) => {
                    eprintln!("F6 {action:?} k={k}: {why}");
                    unreadable += 1;
                    break;
                }
            };
            let mut wire = Wire::connect(&site.address(), Duration::from_secs(10)).expect("it answers");
            let table = wire.call(21, &serde_json::json!({}), b"").expect("it answers");
            let table = String::from_utf8_lossy(&table.body).into_owned();
            let missing = known
                .iter()
                .filter(|topic| !table.contains(&format!("\"{topic}\"")))
                .count();
            if missing > 0 {
                eprintln!(
                    "F6 {action:?} k={k}: {missing} of {} topics are gone",
                    known.len()
                );
            }
            lost += missing as u64;
            known.retain(|topic| table.contains(&format!("\"{topic}\"")));
            let topic = format!("t-{action:?}-{k}");
            control.arm(calls, "/config/", k, action, 0);
            let answer = wire.create_topic(&topic, 1);
            let is_hit = control.hits() > 0;
            if answer.is_ok_and(|answer| answer.code == 0) {
                known.push(topic);
            }
            server.process.kill();
            if !is_hit {
                break;
            }
            kills += 1;
            last = last.max(k);
        }
    }
    Ok(Line::new("F6", plan.seed)
        .figure("server", plan.target.name())
        .figure("part", "save")
        .figure("calls_of_a_save", last)
        .bar("kills", kills, kills > 0)
        .none("lost", lost)
        .none("unreadable_config", unreadable))
}
