//! `rmq standalone`, `rmq namesrv start`, `rmq broker start`: the only commands that start server roles.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::dashboard::{TuiArgs, add_rule, console};
use super::exit::{self, Failure};
use super::session::Global;
use crate::broker::{self, Broker, Settings};
use crate::config_file::{self, ConfigFile};
use crate::namesrv::{NameServer, NamesrvConfig};
use crate::telemetry::{self, Destination};
use crate::tui;

mod demo;

/// How long the I/O threads may take to end once a role has stopped.
const LAST_WAIT: Duration = Duration::from_millis(100);

/// Flags that every server command has.
#[derive(Debug, Clone, Args)]
pub struct RoleArgs {
    /// Configuration file: Java's properties form, or TOML with the same keys
    #[arg(short = 'c', long = "config-file", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// One setting that overrides the file; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Directory of the daily log files [default: `logs` under the store, or under the user's state directory]
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
}

impl RoleArgs {
    fn load(&self) -> anyhow::Result<ConfigFile> {
        Ok(ConfigFile::load(self.config_file.as_deref(), &self.set)?)
    }
}

/// `rmq namesrv start`
#[derive(Debug, Clone, Args)]
pub struct NamesrvStartArgs {
    /// Where the configuration comes from, and where the log goes.
    #[command(flatten)]
    pub role: RoleArgs,
}

/// `rmq broker start`
#[derive(Debug, Clone, Args)]
pub struct BrokerStartArgs {
    /// Where the configuration comes from, and where the log goes.
    #[command(flatten)]
    pub role: RoleArgs,
}

/// `rmq standalone`
#[derive(Debug, Clone, Args)]
pub struct StandaloneArgs {
    /// Directory of the store; made when absent [default: `rmq/store` under the user's data directory]
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Port of the name server
    #[arg(long, default_value_t = 9876, value_name = "PORT")]
    pub namesrv_port: u16,
    /// Port of the broker; its fast port is two below
    #[arg(long, default_value_t = 10911, value_name = "PORT")]
    pub broker_port: u16,
    /// Address that both roles listen on and announce
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub listen: IpAddr,
    /// Run a few producers and consumers of uneven speed
    #[arg(long)]
    pub demo: bool,
    /// Show the dashboard in this terminal; leaving it stops the servers
    #[arg(long)]
    pub tui: bool,
    /// Broker settings, and where the log goes.
    #[command(flatten)]
    pub role: RoleArgs,
}

/// Runs a name server until SIGTERM or SIGINT.
///
/// # Errors
/// When the configuration is wrong or the port cannot be bound.
pub fn namesrv_start(args: &NamesrvStartArgs) -> anyhow::Result<()> {
    let file = args.role.load()?;
    let mut config = file.merge(&NamesrvConfig::default(), NamesrvConfig::LIMITS)?;
    // As `NamesrvStartup` does: a change goes to where the settings came from.
    if let Some(path) = file.path().filter(|_| config.config_store_path.is_empty()) {
        config.config_store_path = std::path::absolute(path)?.display().to_string();
    }
    let set = args.role.set.iter().filter_map(|pair| pair.split_once('='));
    config.on_command_line = set.map(|(key, _)| key.trim().to_owned()).collect();
    let log_dir = args.role.log_dir.clone().map_or_else(|| state_dir("logs"), Ok)?;
    let _log = telemetry::start(Destination {
        stderr: true,
        files: Some(&log_dir),
    })?;
    run(async {
        let stop = stop_signal()?;
        let namesrv = NameServer::start(config).await?;
        stop.await;
        namesrv.stop().await;
        Ok(())
    })
}

/// Runs a broker until SIGTERM or SIGINT.
///
/// # Errors
/// When the configuration is wrong, a port cannot be bound, or the store cannot be opened.
pub fn broker_start(args: &BrokerStartArgs) -> anyhow::Result<()> {
    let settings = Settings::read(&args.role.load()?)?;
    let _log = start_log(&args.role, &settings, true)?;
    run(async {
        let stop = stop_signal()?;
        let broker = Broker::start_with(settings).await?;
        stop.await;
        broker.stop().await?;
        Ok(())
    })
}

/// Runs a name server and a broker in this process until SIGTERM, SIGINT, or the dashboard is left.
///
/// # Errors
/// As [`namesrv_start`] and [`broker_start`].
pub fn standalone(global: &Global, args: &StandaloneArgs) -> anyhow::Result<()> {
    let store = args.store.clone().map_or_else(|| data_dir("store"), Ok)?;
    let listen = args.listen.to_string();
    let mut base = Settings::default();
    base.broker.broker_name = "broker-a".into();
    base.broker.broker_ip1.clone_from(&listen);
    base.broker.broker_ip2.clone_from(&listen);
    base.broker.bind_address.clone_from(&listen);
    base.broker.listen_port = args.broker_port;
    base.broker.namesrv_addr = format!("{listen}:{}", args.namesrv_port);
    base.store.store_path_root_dir = store;
    let settings = Settings::over(&base, &args.role.load()?)?;
    let namesrv_config = NamesrvConfig {
        bind_address: listen,
        listen_port: args.namesrv_port,
        kv_config_path: settings
            .store
            .store_path_root_dir
            .join("config")
            .join("namesrvKvConfig.json")
            .display()
            .to_string(),
        ..NamesrvConfig::default()
    };
    let _log = start_log(&args.role, &settings, !args.tui)?;
    run(async {
        let stop = stop_signal()?;
        let namesrv = NameServer::start(namesrv_config).await?;
        let broker = match Broker::start_with(settings).await {
            Ok(broker) => broker,
            Err(e) => {
                namesrv.stop().await;
                return Err(e.into());
            }
        };
        let address = namesrv.addr().to_string();
        let demo = if args.demo {
            Some(demo::Demo::start(address.clone())?)
        } else {
            None
        };
        let left = if args.tui {
            dashboard(global, address, stop).await
        } else {
            stop.await;
            Ok(())
        };
        if let Some(demo) = demo {
            demo.stop().await;
        }
        broker.stop().await?;
        namesrv.stop().await;
        left
    })
}

/// Shows the dashboard until it is left or `stop` resolves.
async fn dashboard(global: &Global, namesrv: String, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
    let mut global = global.clone();
    global.namesrv = Some(namesrv);
    // What the operator's current context says is about other servers.
    (global.context, global.no_context) = (None, true);
    let shown = async {
        loop {
            let (client, mut options) =
                console(&global, &TuiArgs::default()).map_err(|e| anyhow::anyhow!("{}", e.text()))?;
            options.context = "standalone".into();
            options.contexts = Vec::new();
            options.serving = true;
            match tui::run(client, options).await? {
                tui::Left::Map(rule) => {
                    add_rule(&mut global, &rule).map_err(|e| anyhow::anyhow!("{}", e.text()))?;
                }
                tui::Left::Done | tui::Left::Context(_) => return Ok(()),
            }
        }
    };
    tokio::select! {
        left = shown => left,
        () = stop => Ok(()),
    }
}

/// Runs a role on I/O threads of its own. Whatever blocks in one of them when the role has stopped, a name look-up
/// most likely, is left behind: the process is about to end.
fn run<T>(role: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("rmq-io")
        .build()
        .context("cannot start the I/O threads")?;
    let done = runtime.block_on(role);
    runtime.shutdown_timeout(LAST_WAIT);
    done
}

/// Resolves on SIGTERM or SIGINT.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    let mut term = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut int = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    Ok(async move {
        tokio::select! {
            _ = term.recv() => info!("SIGTERM: stopping"),
            _ = int.recv() => info!("SIGINT: stopping"),
        }
    })
}

fn start_log(args: &RoleArgs, settings: &Settings, stderr: bool) -> anyhow::Result<telemetry::Guard> {
    let dir = args
        .log_dir
        .clone()
        .unwrap_or_else(|| settings.store.store_path_root_dir.join("logs"));
    telemetry::start(Destination {
        stderr,
        files: Some(&dir),
    })
}

/// What keeps a role from starting, as the operator sees it: a wrong setting is wrong usage, anything else (a port in
/// use, a store that cannot be opened) is a condition that is not met.
pub fn failure(e: &anyhow::Error) -> Failure {
    let wrong_setting = e.chain().any(|cause| cause.is::<config_file::Error>())
        || matches!(e.downcast_ref(), Some(broker::Error::Config(_)));
    let exit = if wrong_setting {
        exit::USAGE
    } else {
        exit::PRECONDITION
    };
    Failure::new(exit, exit::chain(e))
}

fn data_dir(name: &str) -> anyhow::Result<PathBuf> {
    use etcetera::BaseStrategy;
    Ok(etcetera::choose_base_strategy()
        .context("no home directory; name one with --store")?
        .data_dir()
        .join("rmq")
        .join(name))
}

fn state_dir(name: &str) -> anyhow::Result<PathBuf> {
    use etcetera::BaseStrategy;
    let base = etcetera::choose_base_strategy().context("no home directory; name one with --log-dir")?;
    Ok(base
        .state_dir()
        .unwrap_or_else(|| base.data_dir())
        .join("rmq")
        .join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_does_not_keep_a_stopped_role() {
        let start = std::time::Instant::now();
        let (release, blocked) = std::sync::mpsc::channel::<()>();
        run(async {
            // As a name look-up that no server answers.
            tokio::task::spawn_blocking(move || blocked.recv_timeout(Duration::from_secs(5)));
            Ok(())
        })
        .unwrap();
        assert!(start.elapsed() < Duration::from_secs(2));
        drop(release);
    }
}
