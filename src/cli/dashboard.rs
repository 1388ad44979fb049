//! `rmq tui`: the live dashboard over the same client as every command.

use std::io::IsTerminal as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;

use super::desk::DeskOperator;
use super::exit::Failure;
use super::session::{Global, Session};
use super::time;
use crate::tui;
use crate::tui::Left;
use crate::tui::app::{INTERVALS, Screen};
use crate::tui::view::theme::Palette;

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
    /// Colours: default, light, safe (for eyes that do not tell red from green), mono
    #[arg(long, default_value = "default", value_name = "NAME", value_parser = palette)]
    theme: Palette,
    /// Draw with ASCII signs only
    #[arg(long)]
    ascii: bool,
}

fn interval(text: &str) -> Result<Duration, String> {
    let interval = time::parse_duration(text)?;
    let (least, most) = INTERVALS;
    if (least..=most).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval is from 500ms to 1h".into())
    }
}

fn screen(text: &str) -> Result<Screen, String> {
    Screen::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = Screen::tabs().map(|(screen, _)| screen.name()).collect();
        format!("the screens are {}", names.join(", "))
    })
}

fn palette(text: &str) -> Result<Palette, String> {
    Palette::from_name(text).ok_or_else(|| {
        let names = Palette::ALL.map(Palette::name);
        format!("the themes are {}", names.join(", "))
    })
}

/// Limit of one dial: a console that waits longer shows nothing new meanwhile.
const CONNECT: Duration = Duration::from_secs(1);

/// Shows the dashboard until it is left. Another context, or another address rule, is another start.
pub fn run(global: &Global, args: TuiArgs) -> Result<(), Failure> {
    let mut global = global.clone();
    loop {
        match show(&global, &args)? {
            Left::Done => return Ok(()),
            Left::Context(name) => {
                // What named the servers until now would outrank the context.
                (global.namesrv, global.context) = (None, Some(name));
            }
            Left::Map(rule) => {
                let rule = rule
                    .parse()
                    .map_err(|e| Failure::usage(format!("map {rule}: {e}")))?;
                global.broker_map.push(rule);
            }
        }
    }
}

fn show(global: &Global, args: &TuiArgs) -> Result<Left, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(
            Failure::usage("the dashboard needs a terminal on standard input and output")
                .hint("rmq cluster list --watch"),
        );
    }
    let session = Session::adjusted(global, |options| {
        options.connect_timeout = CONNECT;
        // What is looked at changes nothing, and no defect of a screen may: changes go through the commands' own
        // sessions.
        options.read_only = true;
        // Lines about requests would land on the screen.
        options.observer = None;
    })?;
    let read_only = args.read_only || session.read_only || global.dry_run;
    let options = tui::Options {
        interval: args.interval,
        read_only,
        no_color: global.no_color,
        palette: args.theme,
        contexts: session.contexts.clone(),
        ascii: args.ascii,
        utc: global.utc,
        screen: args.screen,
        context: session.context.clone().unwrap_or_default(),
        operator: Some(Arc::new(DeskOperator::new(global, read_only))),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let left = runtime.block_on(tui::run(session.client, options));
    // Calls that hang must not hold up the end.
    runtime.shutdown_background();
    Ok(left?)
}
