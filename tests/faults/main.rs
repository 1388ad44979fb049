//! The fault suite: what a broker acknowledged is counted against what is there after the fault.
//!
//! `cargo test` runs the short form. `cargo test --release --test faults -- --long` runs the long one; `f1 f13` picks
//! faults, `--seed N` and `--rounds N` change what is drawn, `--java` tries Apache's broker 5.3.3 with the same audit
//! and `--server CMD` any other that takes `-c FILE`. Each fault prints `F1 seed=S key=value ... PASS|FAIL`.

// Fixtures may fail as tests do, and the lines are what this program is for.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

#[path = "../it/support/mod.rs"]
#[allow(dead_code)]
mod support;

mod audit;
mod dice;
mod f01_kill;
mod f02_power;
mod f03_full;
mod f04_errors;
mod f05_rot;
mod f06_start;
mod f07_slow;
mod f13_frames;
mod line;
mod load;
mod power;
mod record;
mod server;
mod shim;
mod wire;

use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use line::Line;
use server::Target;

/// What a fault runs with.
pub struct Plan {
    /// Everything random comes from it.
    pub seed: u64,
    /// The numbers of a release instead of those of every change.
    pub long: bool,
    /// Rounds, when the command line names them.
    rounds: Option<usize>,
    /// Whom to hurt.
    pub target: Target,
}

impl Plan {
    /// How often to repeat: in the short form, in the long one.
    pub fn rounds(&self, short: usize, long: usize) -> usize {
        self.rounds.unwrap_or(if self.long { long } else { short })
    }
}

/// A fault: its lines, or why it cannot be tried here.
type Fault = fn(&Plan) -> Result<Vec<Line>, String>;

// The slow disk is waited for longest, so it goes first.
const FAULTS: &[(&str, Fault)] = &[
    ("f7", f07_slow::run),
    ("f1", f01_kill::run),
    ("f2", f02_power::run),
    ("f3", f03_full::run),
    ("f4", f04_errors::run),
    ("f5", f05_rot::run),
    ("f6", f06_start::run),
    ("f13", f13_frames::run),
];

fn main() -> ExitCode {
    let mut plan = Plan {
        seed: 1,
        long: false,
        rounds: None,
        target: Target::Rmq,
    };
    let mut wanted = Vec::new();
    let mut arguments = std::env::args().skip(1);
    if let Ok(command) = std::env::var("RMQ_FAULTS_SERVER") {
        plan.target = Target::Command(command);
    }
    while let Some(argument) = arguments.next() {
        let mut number = || {
            arguments
                .next()
                .and_then(|n| n.parse().ok())
                .expect("a number follows")
        };
        match argument.as_str() {
            "--long" => plan.long = true,
            "--seed" => plan.seed = number(),
            "--rounds" => plan.rounds = Some(number() as usize),
            "--java" => match support::java::peers("the fault suite") {
                Some(peers) => plan.target = Target::Java(peers),
                None => return ExitCode::SUCCESS,
            },
            "--server" => plan.target = Target::Command(arguments.next().expect("a command follows")),
            "--list" => {
                FAULTS.iter().for_each(|(name, _)| println!("{name}: test"));
                return ExitCode::SUCCESS;
            }
            // Options of the usual harness, which cargo hands to every test binary.
            option if option.starts_with('-') => {}
            name => wanted.push(name.to_ascii_lowercase()),
        }
    }
    let chosen = FAULTS
        .iter()
        .filter(|(name, _)| wanted.is_empty() || wanted.iter().any(|one| one == name));
    let (chosen, failed) = (Mutex::new(chosen), AtomicUsize::new(0));
    // The short form is mostly waiting; the figures of the long one are taken alone.
    let lanes = if plan.long || plan.target.is_java() { 1 } else { 4 };
    std::thread::scope(|scope| {
        for _ in 0..lanes {
            scope.spawn(|| {
                loop {
                    let next = chosen.lock().unwrap().next();
                    let Some((name, fault)) = next else { break };
                    failed.fetch_add(one_fault(&plan, name, *fault), Ordering::SeqCst);
                }
            });
        }
    });
    let failed = failed.into_inner();
    shim::clean_up();
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs a fault and prints its lines; how many of them failed.
fn one_fault(plan: &Plan, name: &str, fault: Fault) -> usize {
    let begin = Instant::now();
    let failed = match std::panic::catch_unwind(AssertUnwindSafe(|| fault(plan))) {
        Ok(Ok(lines)) => {
            lines.iter().for_each(|line| println!("{line}"));
            lines.iter().filter(|line| !line.is_passed()).count()
        }
        Ok(Err(why)) => {
            println!("{} seed={} SKIPPED: {why}", name.to_uppercase(), plan.seed);
            0
        }
        Err(_) => {
            println!("{} seed={} FAIL (panicked)", name.to_uppercase(), plan.seed);
            1
        }
    };
    eprintln!("({name} took {:.1} s)", begin.elapsed().as_secs_f64());
    failed
}
