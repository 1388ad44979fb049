//! One JVM that runs Java clients and `mqadmin` commands one after the other (`tests/java/src/Session.java`).

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::json;

use super::java::Peers;
use super::process::{End, Process};
use super::wire;

const LIMIT: Duration = Duration::from_secs(180);

/// The running JVM.
pub struct Session {
    process: Process,
    input: ChildStdin,
    lines: Receiver<String>,
}

/// What a command printed.
#[derive(Debug, Default, Clone)]
pub struct Reply {
    pub command: String,
    pub code: i32,
    pub out: Vec<String>,
    pub err: Vec<String>,
}

impl Reply {
    /// Fails the test when the command failed: by its code, or as `mqadmin` by a stack trace.
    pub fn ok(self) -> Reply {
        let broken = self
            .err
            .iter()
            .chain(&self.out)
            .any(|line| line.trim_start().starts_with("at org.apache"));
        assert!(
            self.code == 0 && !broken,
            "{} ended with {}\n{}\n{}",
            self.command,
            self.code,
            short(&self.out),
            short(&self.err)
        );
        self
    }

    /// The columns of each line, which tabs separate.
    pub fn columns(&self) -> Vec<Vec<String>> {
        self.out
            .iter()
            .map(|line| line.split('\t').map(str::to_owned).collect())
            .collect()
    }

    /// The output as one text.
    pub fn text(&self) -> String {
        self.out.join("\n")
    }

    /// Both outputs as one text.
    pub fn everything(&self) -> String {
        format!("{}\n{}", self.text(), self.err.join("\n"))
    }
}

/// The first and the last lines.
fn short(lines: &[String]) -> String {
    match lines.len() {
        0..=40 => lines.join("\n"),
        n => format!("{}\n...\n{}", lines[..20].join("\n"), lines[n - 20..].join("\n")),
    }
}

impl Session {
    /// Starts the JVM, which takes a second; the first command waits for it.
    pub fn start(peers: &Peers, dir: &Path) -> Session {
        let mut command = peers.command(dir, "256m", "session");
        // `consumerStatus` writes files to where it runs.
        command.arg("Session").current_dir(dir);
        let (process, input, output) = Process::start_piped("java-session", dir, command, End::Kill);
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Session {
            process,
            input,
            lines,
        }
    }

    /// Begins a command: its words.
    pub fn begin(&mut self, words: &[&str]) -> Running<'_> {
        writeln!(self.input, "{}", words.join("\t"))
            .unwrap_or_else(|e| panic!("the session is gone: {e}\n{}", self.process.output()));
        let reply = Reply {
            command: words.join(" "),
            ..Reply::default()
        };
        Running { session: self, reply }
    }

    /// Runs a command to its end.
    pub fn run(&mut self, words: &[&str]) -> Reply {
        self.begin(words).finish()
    }

    /// `mqadmin COMMAND ... -n NAMESRV`.
    pub fn mqadmin(&mut self, namesrv: &str, words: &[&str]) -> Reply {
        let mut all = vec!["mqadmin"];
        all.extend(words);
        all.extend(["-n", namesrv]);
        self.run(&all)
    }

    /// Runs mqadmin until it has an answer: with its first command a JVM loads its classes, which on a busy machine takes
    /// longer than mqadmin gives a request.
    pub fn warm_up(&mut self, namesrv: &str) {
        let begin = Instant::now();
        while self.mqadmin(namesrv, &["clusterList"]).out.is_empty() {
            assert!(
                begin.elapsed() < LIMIT,
                "mqadmin does not get an answer of {namesrv}"
            );
        }
    }

    /// Makes a group with one offset of the topic. Java's broker makes a table for the first offset of a group and topic
    /// without a lock: of the first ones of several queues, which a consumer sends at once when it stops, one may get
    /// lost (`ConsumerOffsetManager.commitOffset`).
    pub fn begin_group(&mut self, namesrv: &str, broker: &str, group: &str, topic: &str) {
        self.mqadmin(namesrv, &["updateSubGroup", "-b", broker, "-g", group])
            .ok();
        let fields = json!({ "consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "0" });
        let answer = wire::ask(broker, 15, fields).expect("the broker answers");
        assert_eq!(answer.code, 0, "{answer:?}");
    }

    /// `Send`; each message must be acknowledged. Returns its lines.
    pub fn send(&mut self, namesrv: &str, topic: &str, count: usize, options: &[&str]) -> Vec<Vec<String>> {
        let count_text = count.to_string();
        let mut words = vec!["Send", namesrv, topic, &count_text];
        words.extend(options);
        let reply = self.run(&words).ok();
        let lines = reply.columns();
        assert_eq!(lines.len(), count, "{reply:#?}");
        assert!(lines.iter().all(|line| line[1] == "SEND_OK"), "{reply:#?}");
        lines
    }

    /// `Receive`; all of `count` must come within 30 s. Returns its lines.
    pub fn receive(
        &mut self,
        namesrv: &str,
        topic: &str,
        group: &str,
        count: usize,
        options: &[&str],
    ) -> Vec<Vec<String>> {
        let count_text = count.to_string();
        let mut words = vec!["Receive", namesrv, topic, group, &count_text, "30"];
        words.extend(options);
        self.run(&words).ok().columns()
    }

    /// `DumpAll`: every message of the topic, one line each.
    pub fn dump(&mut self, namesrv: &str, topic: &str) -> Vec<String> {
        self.run(&["DumpAll", namesrv, topic]).ok().out
    }
}

/// A command that has not ended yet.
pub struct Running<'a> {
    session: &'a mut Session,
    reply: Reply,
}

impl Running<'_> {
    /// The next line; `None` at the end of the command.
    fn next(&mut self, limit: Instant) -> Option<()> {
        let left = limit.saturating_duration_since(Instant::now());
        let line = match self.session.lines.recv_timeout(left) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no end within {LIMIT:?}: {:#?}", self.reply),
            Err(RecvTimeoutError::Disconnected) => {
                panic!(
                    "the session ended: {:#?}\n{}",
                    self.reply,
                    self.session.process.output()
                )
            }
        };
        match line.split_at_checked(1) {
            Some(("o", text)) => self.reply.out.push(text.to_owned()),
            Some(("e", text)) => self.reply.err.push(text.to_owned()),
            Some(("x", code)) => {
                self.reply.code = code.parse().expect("a number follows x");
                return None;
            }
            _ => panic!("not a line of a session: {line:?}"),
        }
        Some(())
    }

    /// Waits until the command printed `count` lines.
    pub fn wait_for_lines(&mut self, count: usize) {
        let limit = Instant::now() + LIMIT;
        while self.reply.out.len() < count {
            self.next(limit)
                .unwrap_or_else(|| panic!("it ended before {count} lines: {:#?}", self.reply));
        }
    }

    /// Waits for the end.
    pub fn finish(mut self) -> Reply {
        let limit = Instant::now() + LIMIT;
        while self.next(limit).is_some() {}
        self.reply
    }
}
