//! The broker under test: `rmq`, Apache's, or whatever a command starts.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::support::java::{self, Peers};
use super::support::process::{End, Process};
use super::wire::Wire;

/// Whom to hurt.
pub enum Target {
    Rmq,
    Java(&'static Peers),
    /// A shell command; ` -c FILE` is put behind it.
    Command(String),
}

impl Target {
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rmq => "rmq",
            Self::Java(_) => "java-5.3.3",
            Self::Command(_) => "command",
        }
    }

    pub fn is_java(&self) -> bool {
        matches!(self, Self::Java(_))
    }
}

/// Where a broker runs and with what.
#[derive(Clone)]
pub struct Site {
    /// Configuration, output and logs.
    pub dir: PathBuf,
    pub store: PathBuf,
    pub port: u16,
    /// Settings over the usual ones.
    pub settings: Vec<(&'static str, String)>,
    pub env: Vec<(String, String)>,
}

impl Site {
    pub fn new(dir: &Path, port: u16) -> Self {
        Self {
            dir: dir.to_owned(),
            store: dir.join("store"),
            port,
            settings: Vec::new(),
            env: Vec::new(),
        }
    }

    pub fn with(mut self, key: &'static str, value: &str) -> Self {
        self.settings.push((key, value.to_owned()));
        self
    }

    pub fn address(&self) -> String {
        super::support::local(self.port)
    }

    /// Everything the broker said: its output and its logs.
    pub fn said(&self) -> String {
        let mut out = std::fs::read_to_string(self.dir.join("broker.out")).unwrap_or_default();
        if let Ok(text) = std::fs::read_to_string(self.dir.join("broker.log")) {
            out.push_str(&text);
        }
        out
    }

    /// Forgets what it said.
    pub fn hush(&self) {
        for name in ["broker.out", "broker.log"] {
            let _ = std::fs::remove_file(self.dir.join(name));
        }
    }
}

/// A running broker.
pub struct Server {
    pub process: Process,
    /// From its start until it answered.
    pub boot: Duration,
}

impl Server {
    /// Starts it and waits until it answers. An error is its end, or its silence.
    pub fn start(target: &Target, site: &Site) -> Result<Self, String> {
        let begin = Instant::now();
        let mut server = Self::starting(target, site);
        let limit = Duration::from_secs(if target.is_java() { 180 } else { 90 });
        loop {
            if answers(&site.address()) {
                server.boot = begin.elapsed();
                return Ok(server);
            }
            if !server.process.is_running() {
                let (status, _) = server.process.terminate(Duration::from_secs(1));
                return Err(format!(
                    "it ended while starting ({status}):\n{}",
                    tail(&site.said())
                ));
            }
            if begin.elapsed() > limit {
                return Err(format!(
                    "it does not answer after {limit:?}:\n{}",
                    tail(&site.said())
                ));
            }
            std::thread::sleep(Duration::from_millis(3));
        }
    }

    /// Starts it.
    pub fn starting(target: &Target, site: &Site) -> Self {
        std::fs::create_dir_all(&site.dir).unwrap();
        let mut settings = java::broker_settings(&site.dir, "", site.port);
        settings.retain(|(key, _)| *key != "namesrvAddr");
        settings = java::with(settings, "storePathRootDir", &site.store.display().to_string());
        let log = site.store.join("commitlog");
        settings = java::with(settings, "storePathCommitLog", &log.display().to_string());
        if target.is_java() {
            settings.push(("haListenPort", (site.port + 1).to_string()));
        }
        for (key, value) in &site.settings {
            settings = java::with(settings, key, value);
        }
        let text: String = settings
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        let conf = site.dir.join("broker.conf");
        std::fs::write(&conf, text).unwrap();
        let mut command = match target {
            Target::Rmq => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_rmq"));
                command
                    .args(["broker", "start", "--log-dir"])
                    .arg(site.dir.join("logs"))
                    .arg("-c")
                    .arg(&conf);
                command
            }
            Target::Java(peers) => {
                let mut command = peers.command(&site.dir, "512m", "broker");
                command
                    .args(["org.apache.rocketmq.broker.BrokerStartup", "-c"])
                    .arg(&conf);
                command
            }
            Target::Command(text) => {
                let mut command = Command::new("sh");
                command
                    .arg("-c")
                    .arg(format!("exec {text} -c '{}'", conf.display()));
                command
            }
        };
        command.env("NO_COLOR", "1").env("HOME", &site.dir);
        for name in ["RMQ_LOG", "RMQ_NAMESRV", "NAMESRV_ADDR", "RMQ_CONFIG"] {
            command.env_remove(name);
        }
        command.envs(site.env.iter().map(|(k, v)| (k, v)));
        Self {
            process: Process::start("broker", &site.dir, command, End::Kill),
            boot: Duration::ZERO,
        }
    }
}

/// True when it tells its figures.
pub fn answers(address: &str) -> bool {
    Wire::connect(address, Duration::from_secs(5))
        .and_then(|mut wire| wire.figures())
        .is_ok_and(|figures| !figures.is_empty())
}

pub fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

/// Resident memory of a process, MiB.
pub fn rss_mib(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap_or_default();
    let kib = line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}
