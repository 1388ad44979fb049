//! `rmq tui`: the live dashboard over the same client as every command.

use std::io::IsTerminal as _;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, FromArgMatches as _};

use super::context;
use super::desk::DeskOperator;
use super::exit::Failure;
use super::session::{Global, Session};
use super::{themes, time};
use crate::client::{Client, Pace, Unreadable};
use crate::tui;
use crate::tui::Left;
use crate::tui::app::{INTERVALS, Screen};
use crate::tui::bad_reply::BadReplies;
use crate::tui::view::own_theme::named as badge_colour;

/// `rmq tui`
#[derive(Debug, Clone, Args)]
pub struct TuiArgs {
    /// Time between two looks at the cluster, such as 2s or 500ms [default: the context's, else 2s]
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    interval: Option<Duration>,
    /// First screen [default: overview, or store with --store]
    #[arg(long, value_name = "NAME", value_parser = screen)]
    screen: Option<Screen>,
    /// Allow no change, whatever the context says
    #[arg(long)]
    read_only: bool,
    /// Colours: default, light, safe (for eyes that do not tell red from green), mono, or themes/NAME.toml beside the
    /// configuration file
    #[arg(long, default_value = "default", value_name = "NAME")]
    theme: String,
    /// Calls a second that each server gets at most, from all screens together
    #[arg(long, default_value_t = BUDGET, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    budget: u32,
    /// Keep the history in this directory, in one bounded file a context, and begin with what is there
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// Draw with ASCII signs only
    #[arg(long)]
    ascii: bool,
    /// Look into this store directory; without -n or --context no network is used at all
    #[arg(long, value_name = "DIR")]
    store: Option<PathBuf>,
    /// Where its commit log is, if not in DIR/commitlog (storePathCommitLog); directories separated by commas
    #[arg(long, value_name = "DIRS", requires = "store")]
    commitlog_dir: Option<String>,
}

impl Default for TuiArgs {
    /// What `rmq tui` without a flag is.
    fn default() -> Self {
        let command = Self::augment_args(clap::Command::new("tui"));
        command
            .try_get_matches_from(["tui"])
            .and_then(|matches| Self::from_arg_matches(&matches))
            .expect("every flag of rmq tui may be left out; a test says so")
    }
}

/// A time between two looks.
pub fn interval(text: &str) -> Result<Duration, String> {
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

/// Time between two looks, where nobody says another.
const INTERVAL: Duration = Duration::from_secs(2);

/// Calls a second that one server gets from one console, unless `--budget` says otherwise.
const BUDGET: u32 = 20;

/// Limit of one dial: a console that waits longer shows nothing new meanwhile.
const CONNECT: Duration = Duration::from_secs(1);

/// Shows the dashboard until it is left. Another context, or another address rule, is another start.
pub fn run(global: &Global, args: TuiArgs) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
        return Err(
            Failure::usage("the dashboard needs a terminal on standard input and output")
                .hint("rmq cluster list --watch"),
        );
    }
    let mut global = global.clone();
    let given_rules = global.broker_map.len();
    loop {
        let (client, options) = console(&global, &args)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        let left = runtime.block_on(tui::run(client, options));
        // Calls that hang must not hold up the end.
        runtime.shutdown_background();
        match left? {
            Left::Done => return Ok(()),
            Left::Map(rule) => add_rule(&mut global, &rule)?,
            Left::Context(name) => {
                // Rules of the moment were for the servers before.
                global.broker_map.truncate(given_rules);
                global.namesrv = servers_of(&global, &name)?;
                global.context = Some(name);
            }
        }
    }
}

/// One more address rule.
pub fn add_rule(global: &mut Global, rule: &str) -> Result<(), Failure> {
    let rule = rule
        .parse()
        .map_err(|e| Failure::usage(format!("map {rule}: {e}")))?;
    global.broker_map.push(rule);
    Ok(())
}

/// The name servers of a context: what the environment names was for another one.
fn servers_of(global: &Global, name: &str) -> Result<Option<String>, Failure> {
    let config = context::load(global.config.as_deref())?;
    let context = config.contexts.get(name);
    Ok(context
        .map(|c| c.namesrv.join(";"))
        .filter(|text| !text.is_empty()))
}

/// The client that looks, and how the dashboard starts.
pub fn console(global: &Global, args: &TuiArgs) -> Result<(Arc<Client>, tui::Options), Failure> {
    // A directory that is no store is told of before the terminal is taken.
    if let Some(dir) = &args.store {
        crate::inspect::Store::open(dir, args.commitlog_dir.as_deref())?;
    }
    // What the environment names does not count: a store on a laptop is looked at without its cluster.
    let named =
        |flag: &Option<String>, variable: &str| flag.is_some() && std::env::var(variable).ok() != *flag;
    let offline = args.store.is_some()
        && !named(&global.namesrv, "RMQ_NAMESRV")
        && !named(&global.context, "RMQ_CONTEXT");
    if args.record.is_some() && offline {
        return Err(Failure::usage(
            "--record: without a network there is nothing to record",
        ));
    }
    let bad_replies = Arc::new(BadReplies::new(context::state_dir()));
    let hears = Arc::clone(&bad_replies);
    let pace = Arc::new(Pace::new(NonZeroU32::new(args.budget).unwrap_or(NonZeroU32::MIN)));
    let session = Session::adjusted(global, |options| {
        options.pace = Some(Arc::clone(&pace));
        options.unreadable = Some(Box::new(move |reply: &Unreadable<'_>| hears.hear(reply)));
        if offline {
            options.name_servers.clear();
        }
        options.connect_timeout = CONNECT;
        // What is looked at changes nothing, and no defect of a screen may: changes go through the commands' own
        // sessions.
        options.read_only = true;
        // Lines about requests would land on the screen.
        options.observer = None;
    })?;
    let context_name = session.context.clone().unwrap_or_default();
    if let Some(dir) = &args.record {
        // A file that cannot be written to is told of before the terminal is taken.
        let path = tui::record::file_of(dir, &context_name);
        tui::record::prepare(&path)
            .map_err(|e| Failure::usage(format!("--record: cannot write {}: {e}", path.display())))?;
    }
    let own_themes = themes::load(global.config.as_deref());
    let palette = themes::named(&args.theme, &own_themes, global.config.as_deref())?;
    let config = context::load(global.config.as_deref())?;
    let keys = config.keys(&context::path(global.config.as_deref()))?;
    let chosen = config.contexts.get(&context_name).cloned().unwrap_or_default();
    let own = |key: &str, why: String| Failure::usage(format!("contexts.{context_name}.{key}: {why}"));
    let own_interval = chosen.interval.as_deref().map(interval).transpose();
    let own_interval = own_interval.map_err(|why| own("interval", why))?;
    let badge = chosen.colour.as_deref().map(badge_colour).transpose();
    let badge = badge.map_err(|why| own("colour", why))?;
    let read_only = args.read_only || session.read_only || global.dry_run;
    let options = tui::Options {
        interval: args.interval.or(own_interval).unwrap_or(INTERVAL),
        read_only,
        no_color: global.no_color,
        palette,
        themes: own_themes,
        keys,
        contexts: session.contexts.clone(),
        serving: false,
        ascii: args.ascii,
        utc: global.utc,
        screen: args.screen.unwrap_or(match args.store {
            Some(_) => Screen::Store,
            None => Screen::Overview,
        }),
        context: context_name,
        badge,
        store: args.store.clone().map(|dir| (dir, args.commitlog_dir.clone())),
        offline,
        operator: (!offline).then(|| {
            Arc::new(DeskOperator::new(global, &session, read_only, pace)) as Arc<dyn tui::deed::Operator>
        }),
        state_dir: context::state_dir(),
        bad_replies: Some(bad_replies),
        record: args.record.clone(),
    };
    Ok((session.client, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_may_be_left_out() {
        assert_eq!(TuiArgs::default().interval, None);
    }

    #[test]
    fn a_context_has_its_own_colour_and_interval_and_a_flag_wins() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        let start = |text: &str, given: Option<Duration>| {
            std::fs::write(
                &path,
                format!("[contexts.prod]\nnamesrv = [\"127.0.0.1:1\"]\n{text}\n"),
            )
            .unwrap();
            let words = [
                "rmq",
                "--config",
                path.to_str().unwrap(),
                "--context",
                "prod",
                "tui",
            ];
            let matches = crate::cli::command().try_get_matches_from(words).unwrap();
            let global = crate::cli::Cli::from_arg_matches(&matches).unwrap().global;
            let args = TuiArgs {
                interval: given,
                ..TuiArgs::default()
            };
            console(&global, &args).map(|(_, options)| (options.interval, options.badge))
        };
        let s = Duration::from_secs;
        let red = Some(ratatui::style::Color::Red);
        let both = "colour = \"red\"\ninterval = \"5s\"";
        assert_eq!(start(both, None).unwrap(), (s(5), red));
        assert_eq!(start(both, Some(s(9))).unwrap(), (s(9), red));
        assert_eq!(start("", None).unwrap(), (INTERVAL, None));
        let said = |text: &str| start(text, None).unwrap_err().what;
        assert!(said("colour = \"reddish\"").starts_with("contexts.prod.colour: reddish is no colour"));
        assert!(said("interval = \"1ms\"").starts_with("contexts.prod.interval: an interval is from"));
    }
}
