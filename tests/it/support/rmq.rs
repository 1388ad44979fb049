//! The program under test.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::process::{End, Process};
use super::{local, wait, wire};

const READY: Duration = Duration::from_secs(10);

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rmq"));
    command.env("NO_COLOR", "1");
    for name in [
        "RMQ_NAMESRV",
        "NAMESRV_ADDR",
        "RMQ_CONTEXT",
        "RMQ_CONFIG",
        "RMQ_OUTPUT",
        "RMQ_TIMEOUT",
    ] {
        command.env_remove(name);
    }
    command
}

/// A server role, running.
pub struct Server {
    pub process: Process,
}

/// `rmq namesrv start`, answering.
pub fn namesrv(dir: &Path, port: u16) -> Server {
    std::fs::create_dir_all(dir).expect("a directory");
    let conf = dir.join("rmq-namesrv.conf");
    let kv = dir.join("kvConfig.json");
    let text = format!(
        "bindAddress=127.0.0.1\nlistenPort={port}\nkvConfigPath={}\n",
        kv.display()
    );
    std::fs::write(&conf, text).expect("a file");
    let mut command = command();
    command
        .args(["namesrv", "start", "-c"])
        .arg(&conf)
        .arg("--log-dir")
        .arg(dir.join("logs"));
    command.env("HOME", dir);
    let mut process = Process::start("rmq-namesrv", dir, command, End::Term);
    ready(&mut process, "rmq namesrv answers", || {
        wire::namesrv_answers(&local(port))
    });
    Server { process }
}

/// `rmq broker start` with Java's properties file, registered at `namesrv` under the name in `settings`.
pub fn broker(dir: &Path, namesrv: &str, settings: &[(&str, String)]) -> Server {
    broker_in(dir, namesrv, settings, &[])
}

/// The same with variables in its environment.
pub fn broker_in(
    dir: &Path,
    namesrv: &str,
    settings: &[(&str, String)],
    environment: &[(&str, &Path)],
) -> Server {
    let conf = dir.join("rmq-broker.conf");
    let text: String = settings
        .iter()
        .map(|(key, value)| format!("{key}={value}\n"))
        .collect();
    std::fs::write(&conf, text).expect("a file");
    let mut command = command();
    command
        .args(["broker", "start", "-c"])
        .arg(&conf)
        .arg("--log-dir")
        .arg(dir.join("logs"));
    command.env("HOME", dir);
    command.envs(environment.iter().copied());
    let name = settings
        .iter()
        .find(|(key, _)| *key == "brokerName")
        .map_or("", |(_, value)| value);
    let mut process = Process::start("rmq-broker", dir, command, End::Term);
    ready(&mut process, "rmq broker registers", || {
        namesrv.split(';').any(|one| wire::is_registered(one, name))
    });
    Server { process }
}

/// `rmq standalone`, its broker registered.
pub fn standalone(dir: &Path, namesrv_port: u16, broker_port: u16, settings: &[String]) -> Server {
    let mut command = command();
    command.arg("standalone").arg("--store").arg(dir.join("store"));
    command.args([
        "--namesrv-port",
        &namesrv_port.to_string(),
        "--broker-port",
        &broker_port.to_string(),
    ]);
    command.arg("--log-dir").arg(dir.join("logs"));
    for setting in settings {
        command.args(["--set", setting]);
    }
    command.env("HOME", dir);
    let mut process = Process::start("rmq-standalone", dir, command, End::Term);
    ready(&mut process, "rmq standalone registers its broker", || {
        wire::cluster_info(&local(namesrv_port)).contains(&local(broker_port))
    });
    Server { process }
}

fn ready(process: &mut Process, what: &str, mut condition: impl FnMut() -> bool) {
    wait::until_true(what, READY, || {
        assert!(
            process.is_running(),
            "it ended before {what}:\n{}",
            process.output()
        );
        condition()
    });
}

/// What a command of the CLI printed.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    /// The output as JSON; fails the test when the command failed or printed anything else.
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{self:?}");
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

/// Runs `rmq ARGS` on the name servers to its end, with a home of its own.
pub fn run(home: &Path, namesrv: &str, args: &[&str]) -> Ran {
    run_with(home, namesrv, &[], args)
}

/// The same, with more time for the servers: that a machine is busy is not what is tested.
pub fn run_patiently(home: &Path, namesrv: &str, args: &[&str]) -> Ran {
    run_with(home, namesrv, &[("RMQ_TIMEOUT", "20s")], args)
}

fn run_with(home: &Path, namesrv: &str, environment: &[(&str, &str)], args: &[&str]) -> Ran {
    let output = command()
        .args(args)
        .envs(environment.iter().copied())
        .env("RMQ_NAMESRV", namesrv)
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_STATE_HOME", home.join("state"))
        .env("XDG_CACHE_HOME", home.join("cache"))
        .stdin(std::process::Stdio::null())
        .output()
        .expect("rmq runs");
    super::schema::collect(&String::from_utf8_lossy(&output.stdout));
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
