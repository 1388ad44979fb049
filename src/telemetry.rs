//! Logs: human lines on stderr, and daily rolling files beside the store.

use std::io::IsTerminal;
use std::path::Path;

use tracing_appender::non_blocking::WorkerGuard;
use tracing_appender::rolling::{Builder, Rotation};
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, fmt};

/// How many daily log files are kept.
const FILES_KEPT: usize = 10;

/// Where log lines go.
#[derive(Debug, Clone, Copy, Default)]
pub struct Destination<'a> {
    /// Lines on stderr. Off while a dashboard owns the terminal.
    pub stderr: bool,
    /// Directory of the rolling files.
    pub files: Option<&'a Path>,
}

/// Keeps the file writer alive; lines still in memory are written when it is dropped.
#[derive(Debug)]
pub struct Guard {
    _files: Option<WorkerGuard>,
}

/// Starts logging for this process. `RMQ_LOG` sets the filter (`info` by default).
///
/// # Errors
/// When the directory of the log files cannot be made or written.
pub fn start(destination: Destination<'_>) -> anyhow::Result<Guard> {
    let filter = || EnvFilter::try_from_env("RMQ_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let stderr = destination.stderr.then(|| {
        fmt::layer()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
            .with_target(false)
            .with_filter(filter())
    });
    let (files, guard) = match destination.files {
        None => (None, None),
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .map_err(|e| anyhow::anyhow!("cannot create the log directory {}: {e}", dir.display()))?;
            let appender = Builder::new()
                .rotation(Rotation::DAILY)
                .filename_prefix("rmq")
                .filename_suffix("log")
                .max_log_files(FILES_KEPT)
                .build(dir)
                .map_err(|e| anyhow::anyhow!("cannot write logs under {}: {e}", dir.display()))?;
            let (writer, guard) = tracing_appender::non_blocking(appender);
            (
                Some(
                    fmt::layer()
                        .with_writer(writer)
                        .with_ansi(false)
                        .with_filter(filter()),
                ),
                Some(guard),
            )
        }
    };
    // A second start in one process (tests) keeps the first subscriber.
    let _ = tracing_subscriber::registry().with(stderr).with(files).try_init();
    Ok(Guard { _files: guard })
}
