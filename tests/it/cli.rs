//! The real binary against servers of this process: exit codes, clean stdout, one row a target.

mod calls;
mod declare;
pub mod dlq;
mod docs;
mod doctor;
mod doctor_servers;
mod dry_runs;
mod exports;
mod fakes;
mod hung;
mod left_behind;
mod life;
mod objects;
mod prompt;
mod reach;
pub mod recorder;
mod refusals;
mod schema;
mod static_topics;
mod stops;
mod unanswered;
mod undo_lines;
mod verdicts;

pub use doctor::all_but_disk;

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rmq::broker::{Broker, BrokerConfig};
use rmq::namesrv::{NameServer, NamesrvConfig};
use rmq::store::StoreConfig;
use serde_json::Value;

/// A name server and brokers on free ports, in a directory that goes with it.
pub struct Cluster {
    pub name_server: Option<NameServer>,
    pub brokers: Vec<Arc<Broker>>,
    pub addr: SocketAddr,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// Starts a name server and one master for each name, and waits until all are routed.
    pub async fn start(names: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let name_server = NameServer::start(NamesrvConfig {
            listen_port: 0,
            bind_address: "127.0.0.1".into(),
            kv_config_path: dir.path().join("kv.json").to_string_lossy().into_owned(),
            ..NamesrvConfig::default()
        })
        .await
        .unwrap();
        let addr = name_server.addr();
        let mut brokers = Vec::new();
        for name in names {
            brokers.push(broker(name, &addr.to_string(), &dir.path().join(name)).await);
        }
        let cluster = Self {
            name_server: Some(name_server),
            brokers,
            addr,
            dir,
        };
        cluster.routed().await;
        cluster
    }

    async fn routed(&self) {
        let rmq = self.rmq();
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let out = rmq.run(&["broker", "list", "-o", "json"]).await;
            let up = items(&out).iter().filter(|b| b["state"] == "ok").count();
            if up == self.brokers.len() {
                return;
            }
            assert!(Instant::now() < until, "brokers are not routed: {out:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The binary with this cluster's name server.
    pub fn rmq(&self) -> Rmq {
        Rmq::new(&self.addr.to_string(), self.dir.path())
    }

    /// A path in the cluster's directory.
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    /// Home of the binary; it goes with the cluster.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub async fn stop(mut self) {
        for broker in &self.brokers {
            broker.stop().await.unwrap();
        }
        if let Some(name_server) = self.name_server.take() {
            name_server.stop().await;
        }
    }
}

/// A master on a free port.
pub async fn broker(name: &str, name_server: &str, root: &Path) -> Arc<Broker> {
    let config = BrokerConfig {
        broker_cluster_name: "DefaultCluster".into(),
        broker_name: name.into(),
        listen_port: 0,
        bind_address: "127.0.0.1".into(),
        broker_ip1: "127.0.0.1".into(),
        namesrv_addr: name_server.into(),
        ..BrokerConfig::default()
    };
    let store = StoreConfig {
        store_path_root_dir: root.to_owned(),
        mapped_file_size_commit_log: 8 * 1024 * 1024,
        mapped_file_size_consume_queue: 20_000,
        max_hash_slot_num: 200,
        max_index_num: 800,
        disk_max_used_space_ratio: 95,
        clean_file_forcibly_enable: false,
        ..StoreConfig::default()
    };
    Broker::start(config, store).await.unwrap()
}

/// The binary with an environment of its own.
#[derive(Clone)]
pub struct Rmq {
    name_server: String,
    home: std::path::PathBuf,
}

/// What a run left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Rmq {
    pub fn new(name_server: &str, home: &Path) -> Self {
        Self {
            name_server: name_server.to_owned(),
            home: home.to_owned(),
        }
    }

    /// Where it keeps its state.
    pub fn state(&self) -> std::path::PathBuf {
        self.home.join(".local/state/rmq")
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rmq"));
        command
            .args(args)
            .env_clear()
            .env("HOME", &self.home)
            .env("RMQ_NAMESRV", &self.name_server)
            .stdin(Stdio::null());
        command
    }

    /// Runs it; the servers of this process go on meanwhile.
    pub async fn run(&self, args: &[&str]) -> Ran {
        self.finish(self.command(args)).await
    }

    /// [`Self::run`] with words that need no quoting.
    pub async fn line(&self, line: &str) -> Ran {
        self.run(&line.split(' ').collect::<Vec<_>>()).await
    }

    pub async fn finish(&self, mut command: Command) -> Ran {
        let Output {
            status,
            stdout,
            stderr,
        } = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap()
            .unwrap();
        let ran = Ran {
            code: status.code().unwrap_or(-1),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        };
        assert!(!ran.stderr.contains("panicked"), "{ran:?}");
        crate::support::schema::collect(&ran.stdout);
        ran
    }

    /// Runs it with `-o json`; the rows. The code must be 0.
    pub async fn rows(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
        let ran = self.run(&args).await;
        assert_eq!(ran.code, 0, "{args:?}: {ran:?}");
        assert_eq!(ran.stderr, "", "{args:?}");
        items(&ran)
    }
}

/// The rows of a JSON document.
pub fn items(ran: &Ran) -> Vec<Value> {
    let document: Value = serde_json::from_str(&ran.stdout).unwrap_or(Value::Null);
    document["items"].as_array().cloned().unwrap_or_default()
}
