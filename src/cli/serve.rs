//! `rmq standalone`, `rmq namesrv start`, `rmq broker start`: the only commands that start server roles.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tracing::info;

use crate::broker::{Broker, BrokerConfig};
use crate::client::Client;
use crate::config_file::ConfigFile;
use crate::namesrv::{NameServer, NamesrvConfig};
use crate::store::StoreConfig;
use crate::telemetry::{self, Destination};

mod demo;

/// Flags that every server command has.
#[derive(Debug, Clone, Args)]
pub struct RoleArgs {
    /// Configuration file: Java's properties form, or TOML with the same keys
    #[arg(short = 'c', long = "config-file", value_name = "FILE")]
    pub config_file: Option<PathBuf>,
    /// One setting that overrides the file; repeatable
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Directory of the rolling log files
    #[arg(long, value_name = "DIR")]
    pub log_dir: Option<PathBuf>,
}

/// `rmq namesrv start`
#[derive(Debug, Clone, Args)]
pub struct NamesrvStartArgs {
    #[command(flatten)]
    pub role: RoleArgs,
}

/// `rmq broker start`
#[derive(Debug, Clone, Args)]
pub struct BrokerStartArgs {
    #[command(flatten)]
    pub role: RoleArgs,
}

/// `rmq standalone`
#[derive(Debug, Clone, Args)]
pub struct StandaloneArgs {
    /// Directory of the store; made when absent
    #[arg(long, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Port of the name server
    #[arg(long, default_value_t = 9876, value_name = "PORT")]
    pub namesrv_port: u16,
    /// Port of the broker; the fast port is two below
    #[arg(long, default_value_t = 10911, value_name = "PORT")]
    pub broker_port: u16,
    /// Address both roles listen on and announce
    #[arg(long, default_value = "127.0.0.1", value_name = "IP")]
    pub listen: IpAddr,
    /// Run a few producers and consumers of uneven speed
    #[arg(long)]
    pub demo: bool,
    /// Show the dashboard in this terminal; quitting it stops the servers
    #[arg(long)]
    pub tui: bool,
    #[command(flatten)]
    pub role: RoleArgs,
}
