//! A whole cluster: two name servers, two masters and, on Java's side, a slave of the first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::java::{Peers, broker_settings, with};
use super::ports::Block;
use super::process::{End, Process};
use super::{local, rmq, wait, wire};

/// Whose servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Java,
    Ours,
}

/// A server of either kind.
pub enum Node {
    Java(Process),
    Ours(rmq::Server),
}

impl Node {
    pub fn process(&mut self) -> &mut Process {
        match self {
            Node::Java(process) => process,
            Node::Ours(server) => &mut server.process,
        }
    }
}

/// Cluster `C1`, started as the reference values of mqadmin were measured.
pub struct Nodes {
    pub kind: Kind,
    /// Both name servers, as `-n` takes them.
    pub namesrv: String,
    pub namesrvs: [String; 2],
    pub broker_a: String,
    pub broker_b: String,
    /// Java only.
    pub slave: Option<String>,
    pub a: Node,
    pub b: Node,
    pub home: PathBuf,
    _namesrvs: [Node; 2],
    slave_node: Option<Node>,
    _blocks: [Block; 3],
}

const SETTINGS: &[(&str, &str)] = &[
    ("brokerClusterName", "C1"),
    ("traceTopicEnable", "true"),
    ("enablePropertyFilter", "true"),
    ("enableCalcFilterBitMap", "true"),
    ("defaultTopicQueueNums", "4"),
    ("slaveReadEnable", "true"),
    ("mappedFileSizeConsumeQueue", "600000"),
];

impl Nodes {
    /// Starts them, with `more` in the configuration of the masters. Waits until every name server has every broker.
    pub fn start(kind: Kind, peers: &Peers, dir: &Path, more: &[(&'static str, String)]) -> Nodes {
        let blocks = [Block::take(), Block::take(), Block::take()];
        let namesrvs = [local(blocks[0].namesrv()), local(blocks[1].namesrv())];
        let namesrv = namesrvs.join(";");
        let name_server = |n: usize| {
            let dir = dir.join(format!("namesrv-{n}"));
            match kind {
                Kind::Java => Node::Java(peers.namesrv(&dir, blocks[n].namesrv())),
                Kind::Ours => Node::Ours(rmq::namesrv(&dir, blocks[n].namesrv())),
            }
        };
        let (first, second) = (name_server(0), name_server(1));
        let settings = |name: &str, block: &Block, dir: &Path| {
            let mut settings = broker_settings(dir, &namesrv, block.broker());
            for (key, value) in SETTINGS {
                settings = with(settings, key, value);
            }
            for (key, value) in more {
                settings = with(settings, key, value);
            }
            with(settings, "brokerName", name)
        };
        let broker = |name: &str, block: &Block| {
            let dir = dir.join(name);
            std::fs::create_dir_all(&dir).expect("a directory");
            let settings = settings(name, block, &dir);
            match kind {
                Kind::Java => Node::Java(peers.broker_starting(&dir, &settings)),
                Kind::Ours => Node::Ours(rmq::broker(&dir, &namesrv, &settings)),
            }
        };
        let (a, b) = (broker("broker-a", &blocks[0]), broker("broker-b", &blocks[1]));
        let slave = (kind == Kind::Java).then(|| {
            let dir = dir.join("slave");
            let settings = settings("broker-a", &blocks[2], &dir);
            let settings = with(settings, "brokerId", "1");
            let settings = with(settings, "brokerRole", "SLAVE");
            Node::Java(peers.broker_starting(&dir, &settings))
        });
        let nodes = Nodes {
            kind,
            namesrv,
            broker_a: local(blocks[0].broker()),
            broker_b: local(blocks[1].broker()),
            slave: slave.as_ref().map(|_| local(blocks[2].broker())),
            a,
            b,
            home: dir.join("rmq-home"),
            namesrvs,
            _namesrvs: [first, second],
            slave_node: slave,
            _blocks: blocks,
        };
        std::fs::create_dir_all(&nodes.home).expect("a directory");
        nodes.wait_until_registered();
        nodes
    }

    /// Waits until every name server lists every broker.
    pub fn wait_until_registered(&self) {
        let all = [Some(&self.broker_a), Some(&self.broker_b), self.slave.as_ref()];
        wait::until_true(
            "every name server has every broker",
            Duration::from_secs(120),
            || {
                self.namesrvs.iter().all(|namesrv| {
                    let table = wire::cluster_info(namesrv);
                    all.iter().flatten().all(|addr| table.contains(addr.as_str()))
                })
            },
        );
    }

    /// The process of Java's slave.
    pub fn slave_node(&mut self) -> &mut Process {
        self.slave_node
            .as_mut()
            .expect("Java's cluster has a slave")
            .process()
    }

    /// `rmq ARGS` on this cluster.
    pub fn rmq(&self, args: &[&str]) -> rmq::Ran {
        rmq::run_patiently(&self.home, &self.namesrv, args)
    }

    /// [`Self::rmq`] with words without spaces; quotes are left out, as a shell does.
    pub fn line(&self, line: &str) -> rmq::Ran {
        let words = line.split(' ').map(|word| word.trim_matches('\''));
        self.rmq(&words.collect::<Vec<_>>())
    }

    /// The same, which must end well.
    pub fn ok(&self, line: &str) -> rmq::Ran {
        let ran = self.line(line);
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran
    }

    /// Waits until a topic is routed to both masters by both name servers.
    pub fn wait_for_route(&self, topic: &str, text: &str) {
        let what = format!("{topic} is routed with {text}");
        wait::until_true(&what, Duration::from_secs(60), || {
            self.namesrvs.iter().all(|namesrv| {
                wire::route(namesrv, topic).is_some_and(|route| route.matches(text).count() == 2)
            })
        });
    }
}

/// A client that stays until it is told to end: a program of `tests/java` or of `tests/go`.
pub struct Program {
    process: Process,
    input: Option<std::process::ChildStdin>,
    lines: std::sync::mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Program {
    /// Starts `NAME ARGS`.
    pub fn start(peers: &Peers, dir: &Path, name: &str, args: &[&str]) -> Program {
        std::fs::create_dir_all(dir).expect("a directory");
        let mut command = peers.command(dir, "256m", name);
        command.arg(name).args(args);
        Program::run(name, dir, command)
    }

    /// Starts any program that ends with its input.
    pub fn run(name: &str, dir: &Path, command: std::process::Command) -> Program {
        let (process, input, output) = Process::start_piped(name, dir, command, End::Kill);
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            use std::io::BufRead as _;
            for line in std::io::BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Program {
            process,
            input: Some(input),
            lines,
            seen: Vec::new(),
        }
    }

    /// Everything that it printed.
    pub fn printed(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    /// Waits until what it printed satisfies `condition`.
    pub fn wait(&mut self, what: &str, limit: Duration, mut condition: impl FnMut(&[String]) -> bool) {
        wait::until_true(what, limit, || {
            let found = condition(self.printed());
            assert!(
                found || self.process.is_running(),
                "it ended before {what}: {:#?}\n{}",
                self.seen,
                self.process.output()
            );
            found
        });
    }

    /// Ends it as its user would, and waits.
    pub fn end(mut self) -> Vec<String> {
        drop(self.input.take());
        let limit = Duration::from_secs(30);
        wait::until_true("the program ends", limit, || !self.process.is_running());
        // The thread that reads ends with the pipe.
        self.seen.extend(self.lines.iter());
        std::mem::take(&mut self.seen)
    }
}
