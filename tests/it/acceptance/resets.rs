//! A reset replays what its preview said, to the message, and its undo brings back what was: groups of Java's client, of
//! the Go client and of a client that pops.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Checks, same};
use crate::support::java::Peers;
use crate::support::nodes::{Kind, Nodes, Program};
use crate::support::session::Session;
use crate::support::{java, loud, scratch};

const LIMIT: Duration = Duration::from_secs(180);
/// Messages of a case: 10 in each of four queues.
const MESSAGES: usize = 40;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Java,
    Go,
    Pop,
}

/// The Go consumer; `None`, and a line, where Go or its modules are missing.
fn go_consumer(dir: &std::path::Path) -> Option<PathBuf> {
    let program = dir.join("stay");
    let source = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output();
    match built {
        Ok(output) if output.status.success() => Some(program),
        Ok(output) => {
            loud(&format!(
                "SKIPPED the Go client: {}",
                String::from_utf8_lossy(&output.stderr)
            ));
            None
        }
        Err(e) => {
            loud(&format!("SKIPPED the Go client: {e}"));
            None
        }
    }
}

/// Deliveries, by place and offset.
type Deliveries = BTreeMap<(String, i64), usize>;

fn deliveries(lines: &[String]) -> Deliveries {
    let mut found = Deliveries::new();
    for line in lines {
        if let [broker, queue, offset, _] = line.split('\t').collect::<Vec<_>>()[..] {
            let place = format!("{broker}/{queue}");
            *found
                .entry((place, offset.parse().expect("an offset")))
                .or_default() += 1;
        }
    }
    found
}

fn count(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains('\t')).count()
}

struct Case<'a> {
    nodes: &'a Nodes,
    peers: &'a Peers,
    dir: PathBuf,
    go: Option<&'a PathBuf>,
    client: Client,
    group: String,
    topic: String,
}

impl Case<'_> {
    fn start(&self) -> Program {
        std::fs::create_dir_all(&self.dir).expect("a directory");
        let args = [self.nodes.namesrv.as_str(), &self.topic, &self.group];
        let mut program = match self.client {
            Client::Java => Program::start(self.peers, &self.dir, "Stay", &args),
            Client::Pop => Program::start(
                self.peers,
                &self.dir,
                "Stay",
                &[&args[..], &["server=1"]].concat(),
            ),
            Client::Go => {
                let mut command = Command::new(self.go.expect("it was built"));
                command.args(args);
                Program::run("go-stay", &self.dir, command)
            }
        };
        program.wait("the consumer is online", LIMIT, |lines| {
            lines.iter().any(|l| l == "online")
        });
        program
    }

    fn lag(&self) -> Option<i64> {
        let ran = self.nodes.line(&format!(
            "group lag {} --topic {} -o json",
            self.group, self.topic
        ));
        (ran.code == 0).then(|| ran.json()["summary"]["total_lag"].as_i64())?
    }

    fn wait_for_lag(&self, lag: i64) -> Result<(), String> {
        let begin = std::time::Instant::now();
        while self.lag() != Some(lag) {
            if begin.elapsed() > LIMIT {
                return Err(format!("the lag is {:?}, not {lag}", self.lag()));
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(())
    }

    /// What a preview says will come: every place and offset once.
    fn promised(&self, goal: &str) -> Deliveries {
        let line = format!("group reset {} --topic {} {goal} -o json", self.group, self.topic);
        let preview = self.nodes.ok(&line).json();
        let mut found = Deliveries::new();
        for row in preview["items"].as_array().into_iter().flatten() {
            let place = format!("{}/{}", row["broker"].as_str().unwrap_or_default(), row["queue"]);
            let number = |key: &str| row[key].as_i64().unwrap_or_else(|| panic!("{key}: {row}"));
            for offset in number("new_offset")..number("committed") {
                found.insert((place.clone(), offset), 1);
            }
        }
        found
    }

    /// Resets and returns the undo line's words.
    fn reset(&self, goal: &str) -> Result<String, String> {
        let line = format!(
            "group reset {} --topic {} {goal} --execute --yes",
            self.group, self.topic
        );
        let ran = self.nodes.line(&line);
        let undo = ran
            .out
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("undo: rmq "));
        match undo {
            Some(undo) if ran.code == 0 => Ok(undo.to_owned()),
            _ => Err(format!("{line}: {ran:?}")),
        }
    }

    fn replay(&self, program: &mut Program, goal: &str) -> Result<(), String> {
        let promised = self.promised(goal);
        let before = program.printed().len();
        self.reset(goal)?;
        let begin = std::time::Instant::now();
        while count(&program.printed()[before..]) < promised.len() && begin.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.wait_for_lag(0)?;
        // What came too often comes at once: the client has nothing else to read.
        std::thread::sleep(Duration::from_secs(2));
        let have = deliveries(&program.printed()[before..]);
        if have == promised {
            return Ok(());
        }
        let missing = promised.keys().filter(|key| !have.contains_key(*key)).count();
        let extra = have.keys().filter(|key| !promised.contains_key(*key)).count();
        let twice = have.values().filter(|n| **n > 1).count();
        Err(format!(
            "of {} promised messages {missing} are missing; {extra} others came, {twice} more than once",
            promised.len()
        ))
    }

    fn run(&self, session: &mut Session, checks: &mut Checks) {
        let who = format!("{:?} {:?}", self.nodes.kind, self.client);
        self.nodes
            .ok(&format!("topic create {} --queues 2 --yes", self.topic));
        self.nodes.ok(&format!("group create {} --yes", self.group));
        self.nodes.wait_for_route(&self.topic, "\"writeQueueNums\":2");
        if self.client == Client::Pop {
            self.nodes.ok(&format!(
                "group set-mode {} --topic {} --mode pop --yes",
                self.group, self.topic
            ));
        }
        session.send(&self.nodes.namesrv, &self.topic, MESSAGES, &[]);
        let mut program = self.start();
        program.wait("all messages came", LIMIT, |lines| count(lines) >= MESSAGES);
        checks.check(&format!("{who}: all is read"), self.wait_for_lag(0));
        checks.check(
            &format!("{who}: online, to an offset"),
            self.replay(&mut program, "--to-offset 6"),
        );
        checks.check(
            &format!("{who}: online, to offset 0"),
            self.replay(&mut program, "--to earliest"),
        );
        let all_again = self.promised("--to earliest").len();
        checks.check(
            &format!("{who}: a preview after a replay"),
            same(&all_again, &MESSAGES),
        );
        program.end();
        checks.check(&format!("{who}: still read when offline"), self.wait_for_lag(0));

        let undone = self.reset("--to-offset 3").and_then(|undo| {
            self.wait_for_lag(28)?;
            let ran = self.nodes.line(&undo);
            if ran.code != 0 {
                return Err(format!("{undo}: {ran:?}"));
            }
            self.wait_for_lag(0)
        });
        checks.check(&format!("{who}: offline, and undone"), undone);
        // What the undo brought back is what a client goes by.
        let mut program = self.start();
        session.send(&self.nodes.namesrv, &self.topic, 4, &["first=40"]);
        program.wait("the new messages came", LIMIT, |lines| count(lines) >= 4);
        let settled = self.wait_for_lag(0);
        std::thread::sleep(Duration::from_secs(2));
        let came = count(program.printed());
        checks.check(
            &format!("{who}: after the undo only new messages come"),
            settled.and_then(|()| same(&came, &4)),
        );
        program.end();
        let replayed = self.promised("--to-offset 8");
        checks.check(
            &format!("{who}: offline, to an offset"),
            self.reset("--to-offset 8").map(drop),
        );
        let mut program = self.start();
        let begin = std::time::Instant::now();
        while count(program.printed()) < replayed.len() && begin.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_secs(2));
        let have = deliveries(program.printed());
        checks.check(
            &format!("{who}: offline, its replay is what the preview said"),
            same(&have, &replayed),
        );
        program.end();
    }
}

fn resets(test: &str, kind: Kind) {
    let Some(peers) = java::peers(test) else { return };
    let dir = scratch();
    let go = go_consumer(dir.path());
    let mut session = Session::start(peers, dir.path());
    let nodes = Nodes::start(kind, peers, dir.path(), &[]);
    let mut checks = Checks::new(test);
    for client in [Client::Java, Client::Go, Client::Pop] {
        if client == Client::Go && go.is_none() {
            continue;
        }
        let case = Case {
            nodes: &nodes,
            peers,
            dir: dir.path().join(format!("{client:?}")),
            go: go.as_ref(),
            client,
            group: format!("CG_RESET_{client:?}"),
            topic: format!("Reset{client:?}"),
        };
        case.run(&mut session, &mut checks);
    }
    checks.end();
}

#[test]
#[ignore = "a minute and more: cargo test --test it acceptance -- --ignored"]
fn resets_on_our_cluster() {
    resets("resets_on_our_cluster", Kind::Ours);
}

#[test]
#[ignore = "starts five Java servers: cargo test --test it acceptance -- --ignored"]
fn resets_on_javas_cluster() {
    resets("resets_on_javas_cluster", Kind::Java);
}
