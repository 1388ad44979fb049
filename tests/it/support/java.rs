//! Java's name server, broker, admin tool and clients of Apache RocketMQ 5.3.3 (`tests/java`).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use super::process::{End, Process};
use super::{local, loud, wait, wire};

/// Exports that JDK 17 wants for unmapping files.
const OPENS: &[&str] = &[
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
];
const READY: Duration = Duration::from_secs(60);

/// Where the jars and the compiled programs are.
pub struct Peers {
    dir: PathBuf,
}

/// The Java peers, made by `tests/java/fetch.sh` on first use. `None`, and a line that cannot be missed, when there is no
/// JDK or Maven or when RMQ_SKIP_JAVA=1.
pub fn peers(test: &str) -> Option<&'static Peers> {
    static PEERS: OnceLock<Result<Peers, String>> = OnceLock::new();
    match PEERS.get_or_init(fetch) {
        Ok(peers) => Some(peers),
        Err(why) => {
            loud(&format!("SKIPPED {test}: {why}"));
            None
        }
    }
}

fn fetch() -> Result<Peers, String> {
    if std::env::var("RMQ_SKIP_JAVA").is_ok_and(|v| v == "1") {
        return Err("RMQ_SKIP_JAVA=1".into());
    }
    let dir = std::env::var_os("RMQ_JAVA_CACHE")
        .map(PathBuf::from)
        .or_else(|| std::env::home_dir().map(|home| home.join(".cache/rmq-java")))
        .ok_or("no home directory for the Java peers")?;
    if !Command::new("java")
        .arg("-version")
        .output()
        .is_ok_and(|o| o.status.success())
    {
        return Err("java is not installed".into());
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/fetch.sh");
    let made = Command::new("sh").arg(script).arg(&dir).output();
    match made {
        Ok(output) if output.status.success() => Ok(Peers { dir }),
        Ok(output) => Err(format!(
            "tests/java/fetch.sh failed (it needs javac and mvn): {}",
            String::from_utf8_lossy(&output.stderr)
        )),
        Err(e) => Err(format!("tests/java/fetch.sh: {e}")),
    }
}

impl Peers {
    /// A JVM for a main class, its home and temporary files under `dir`.
    pub fn command(&self, dir: &Path, heap: &str, name: &str) -> Command {
        for sub in ["home", "tmp"] {
            std::fs::create_dir_all(dir.join(sub)).expect("a directory");
        }
        let dir = dir.canonicalize().expect("it was just made");
        let mut command = Command::new("java");
        command
            .args([
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:MaxDirectMemorySize=512m",
                "-Xms32m",
            ])
            .arg(format!("-Xmx{heap}"))
            .arg(format!("-Duser.home={}", dir.join("home").display()))
            .arg(format!("-Djava.io.tmpdir={}", dir.join("tmp").display()))
            .arg(format!(
                "-Drocketmq.client.logRoot={}",
                dir.join("home/logs").display()
            ))
            .arg("-Drocketmq.client.rebalance.waitInterval=1000")
            // A TLS context costs seconds at start.
            .args(["-Dtls.test.mode.enable=false", "-Dtls.server.mode=disabled"])
            .arg(format!(
                "-Drmq.logback.configurationFile=file:{}/tests/java/logback.xml",
                env!("CARGO_MANIFEST_DIR")
            ))
            .arg(format!(
                "-Drmq.log.file={}",
                dir.join(format!("{name}.log")).display()
            ))
            .args(OPENS)
            .arg("-cp")
            .arg(format!("{0}/classes:{0}/lib/*", self.dir.display()))
            .env("ROCKETMQ_HOME", &dir)
            .env_remove("NAMESRV_ADDR")
            .env_remove("JAVA_TOOL_OPTIONS");
        command
    }

    /// A Java name server, answering.
    pub fn namesrv(&self, dir: &Path, port: u16) -> Process {
        self.namesrv_with(dir, port, &[])
    }

    /// The same with more options of the JVM; of two values of a property the later one counts.
    pub fn namesrv_with(&self, dir: &Path, port: u16, options: &[&str]) -> Process {
        std::fs::create_dir_all(dir).expect("a directory");
        let conf = dir.join("namesrv.conf");
        let text = format!(
            "bindAddress=127.0.0.1\nlistenPort={port}\nrocketmqHome={0}\nkvConfigPath={0}/kvConfig.json\n",
            dir.display()
        );
        std::fs::write(&conf, text).expect("a file");
        let mut command = self.command(dir, "128m", "namesrv");
        command
            .args(options)
            .args(["org.apache.rocketmq.namesrv.NamesrvStartup", "-c"])
            .arg(&conf);
        let mut process = Process::start("java-namesrv", dir, command, End::Kill);
        process.wait_for_line("boot success", READY);
        process
    }

    /// A Java broker, registered with its name server, which must be running.
    pub fn broker(&self, dir: &Path, settings: &[(&str, String)]) -> Process {
        let mut process = self.broker_starting(dir, settings);
        registered(&mut process, settings);
        process
    }

    /// As `broker`, without waiting for it.
    pub fn broker_starting(&self, dir: &Path, settings: &[(&str, String)]) -> Process {
        std::fs::create_dir_all(dir).expect("a directory");
        let conf = dir.join("broker.conf");
        let text: String = settings
            .iter()
            .map(|(key, value)| format!("{key}={value}\n"))
            .collect();
        std::fs::write(&conf, text).expect("a file");
        let _ = std::fs::remove_file(dir.join("java-broker.out"));
        let mut command = self.command(dir, "512m", "broker");
        command
            .args(["org.apache.rocketmq.broker.BrokerStartup", "-c"])
            .arg(&conf);
        Process::start("java-broker", dir, command, End::Kill)
    }
}

/// Waits until a broker that is starting is in the route of the default topic.
pub fn registered(broker: &mut Process, settings: &[(&str, String)]) {
    let namesrv = settings
        .iter()
        .find(|(key, _)| *key == "namesrvAddr")
        .map_or("", |(_, value)| value);
    in_route(broker, namesrv, "TBW102");
}

/// Waits until a broker that is starting is in a topic's route. Its "boot success" may come before its registration, and
/// one that fails under load is tried again only after ten seconds.
pub fn in_route(broker: &mut Process, namesrv: &str, topic: &str) {
    broker.wait_for_line("boot success", READY);
    routed(namesrv, topic);
}

/// Waits until the topic has a route: a client that asks a moment too early asks again half a minute later.
pub fn routed(namesrv: &str, topic: &str) {
    wait::until_true("the broker registers", READY, || {
        wire::route(namesrv, topic).is_some()
    });
}

/// A broker's settings that both sides take: one master on the loopback, small files.
pub fn broker_settings(dir: &Path, namesrv: &str, port: u16) -> Vec<(&'static str, String)> {
    let store = dir.join("store");
    vec![
        ("brokerClusterName", "DefaultCluster".into()),
        ("brokerName", "broker-a".into()),
        ("brokerId", "0".into()),
        ("namesrvAddr", namesrv.into()),
        ("brokerIP1", "127.0.0.1".into()),
        ("brokerIP2", "127.0.0.1".into()),
        ("bindAddress", "127.0.0.1".into()),
        ("listenPort", port.to_string()),
        ("storePathRootDir", store.display().to_string()),
        (
            "storePathCommitLog",
            store.join("commitlog").display().to_string(),
        ),
        ("mappedFileSizeCommitLog", "16777216".into()),
        ("mappedFileSizeConsumeQueue", "60000".into()),
        ("mappedFileSizeTimerLog", "1048576".into()),
        ("maxHashSlotNum", "20000".into()),
        ("maxIndexNum", "80000".into()),
        ("diskMaxUsedSpaceRatio", "95".into()),
        ("autoCreateTopicEnable", "true".into()),
    ]
}

/// `settings` with the value of `key` replaced, or added.
pub fn with<'a>(mut settings: Vec<(&'a str, String)>, key: &'a str, value: &str) -> Vec<(&'a str, String)> {
    settings.retain(|(name, _)| *name != key);
    settings.push((key, value.to_owned()));
    settings
}

/// Java's name server and broker on a block of ports.
pub struct Cluster {
    pub namesrv_address: String,
    pub broker_address: String,
    pub broker: Process,
    _namesrv: Process,
}

impl Cluster {
    pub fn start(peers: &Peers, dir: &Path, ports: &super::ports::Block) -> Cluster {
        let namesrv_address = local(ports.namesrv());
        let namesrv = peers.namesrv(dir, ports.namesrv());
        let broker = peers.broker(dir, &broker_settings(dir, &namesrv_address, ports.broker()));
        Cluster {
            namesrv_address,
            broker_address: local(ports.broker()),
            broker,
            _namesrv: namesrv,
        }
    }
}
