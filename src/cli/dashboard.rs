//! `rmq tui`: the live dashboard over the same client as every command.

use std::io::IsTerminal as _;
use std::time::Duration;

use clap::Args;

use super::exit::Failure;
use super::session::Session;
use super::time;
use crate::tui::{self, app::Screen};

/// `rmq tui`
#[derive(Debug, Clone, Args)]
pub struct TuiArgs {
    /// Time between two looks at the cluster, such as 2s or 500ms
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = interval)]
    interval: Duration,
    /// First screen
    #[arg(long, default_value = "overview", value_name = "NAME", value_parser = screen)]
    screen: Screen,
    /// Allow no change, whatever the context says
    #[arg(long)]
    read_only: bool,
    /// Draw with ASCII signs only
    #[arg(long)]
    ascii: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    time::parse_duration(text).map_err(|e| e.to_string())
}

fn screen(text: &str) -> Result<Screen, String> {
    match text {
        "overview" | "1" => Ok(Screen::Overview),
        "heartbeats" | "beats" | "2" => Ok(Screen::Heartbeats),
        "brokers" | "3" => Ok(Screen::Brokers),
        _ => Err("there are overview, heartbeats and brokers".into()),
    }
}

/// Shows the dashboard until it is left.
pub async fn run(session: &Session, args: TuiArgs, no_color: bool) -> Result<(), Failure> {
    if !std::io::stdout().is_terminal() || !std::io::stdin().is_terminal() {
        return Err(
            Failure::usage("the dashboard needs a terminal on standard input and output")
                .hint("rmq cluster list --watch"),
        );
    }
    let options = tui::Options {
        interval: args.interval,
        read_only: args.read_only || session.read_only,
        no_color,
        ascii: args.ascii,
        screen: args.screen,
        context: session.context.clone().unwrap_or_default(),
    };
    Ok(tui::run(session.client.clone(), options).await?)
}
