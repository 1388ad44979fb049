//! The fault suite: what a broker acknowledged is counted against what is there after the fault.
//!
//! `cargo test` runs the short form. `cargo test --release --test faults -- --long` runs the long one; `f1 f13` picks
//! faults, `--seed N` and `--rounds N` change what is drawn, `--java` tries Apache's broker 5.3.3 with the same audit
//! and `--server CMD` any other that takes `-c FILE`. Each fault prints `F1 seed=S key=value ... PASS|FAIL`.

// Fixtures may fail as tests do, and the lines are what this program is for.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![allow(dead_code)]

#[path = "../it/support/mod.rs"]
#[allow(dead_code)]
mod support;

mod audit;
mod dice;
mod f01_kill;
mod f13_frames;
mod line;
mod load;
mod record;
mod server;
mod wire;

use std::process::ExitCode;
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

const FAULTS: &[(&str, Fault)] = &[("f1", f01_kill::run), ("f13", f13_frames::run)];

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
    let mut failed = 0;
    for (name, fault) in FAULTS {
        if !wanted.is_empty() && !wanted.iter().any(|one| one == name) {
            continue;
        }
        let begin = Instant::now();
        match fault(&plan) {
            Ok(lines) => {
                for line in lines {
                    println!("{line}");
                    failed += usize::from(!line.is_passed());
                }
            }
            Err(why) => println!("{} seed={} SKIPPED: {why}", name.to_uppercase(), plan.seed),
        }
        eprintln!("({name} took {:.1} s)", begin.elapsed().as_secs_f64());
    }
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
