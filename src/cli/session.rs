//! Flags, environment and configuration of one run, resolved.

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum as _};

use super::context::{self, Config, Context};
use super::desk::Desk;
use super::exit::{self, Failure};
use super::output::{Filter, Format, Printer, SortBy};
use super::quoted;
use super::reach::Reach;
use super::stop::UnderWay;
use super::time::{self, Zone};
use crate::client::scale::Progress;
use crate::client::{AddressMap, AddressRule, Client, Observed, Options};

/// Where a name server is looked for when nothing names one.
const DEFAULT_NAME_SERVER: &str = "127.0.0.1:9876";

/// Flags that every command takes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Global options", next_display_order = 1000)]
pub struct Global {
    /// Name servers, separated by ; or , [default: the context's, else 127.0.0.1:9876]
    #[arg(
        short,
        long,
        global = true,
        env = "RMQ_NAMESRV",
        value_name = "HOST:PORT[;…]",
        hide_env = true
    )]
    pub namesrv: Option<String>,
    /// Named context of the configuration file
    #[arg(
        long,
        global = true,
        env = "RMQ_CONTEXT",
        value_name = "NAME",
        hide_env = true
    )]
    pub context: Option<String>,
    /// Configuration file [default: ~/.config/rmq/config.toml, then /etc/rmq/config.toml]
    #[arg(long, global = true, env = "RMQ_CONFIG", value_name = "FILE", hide_env = true)]
    pub config: Option<PathBuf>,
    /// Output form: table, wide, json, jsonl, csv, name, prometheus
    #[arg(
        short,
        long,
        global = true,
        env = "RMQ_OUTPUT",
        value_name = "FORM",
        hide_env = true,
        hide_possible_values = true
    )]
    pub output: Option<Format>,
    /// Columns to print, by their name in the heading
    #[arg(long, global = true, value_delimiter = ',', value_name = "A,B")]
    pub columns: Option<Vec<String>>,
    /// Column to sort by
    #[arg(long, global = true, value_name = "COLUMN[:desc]")]
    pub sort_by: Option<SortBy>,
    /// Rows to print: conditions on columns with = != ~ !~ > >= < <=, joined by &&
    #[arg(long, global = true, value_name = "EXPR")]
    pub filter: Option<Filter>,
    /// Answer yes to the confirmation; a protected context wants --yes=CLUSTER
    #[arg(short, long, global = true, num_args = 0..=1, require_equals = true, value_name = "CLUSTER")]
    pub yes: Option<Option<String>>,
    /// Print the change and send nothing that changes state
    #[arg(long, global = true)]
    pub dry_run: bool,
    /// Limit of one request, such as 500ms or 5s [default: 5s]
    #[arg(
        long,
        global = true,
        env = "RMQ_TIMEOUT",
        value_name = "DURATION",
        hide_env = true
    )]
    pub timeout: Option<String>,
    /// Limit of the whole command; workflows have limits of their own
    #[arg(long, global = true, value_name = "DURATION", value_parser = time::parse_duration)]
    pub deadline: Option<Duration>,
    /// Repeat a request that was not taken (no connection, server too busy) [default: 1 for reads, else 0]
    #[arg(long, global = true, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100))]
    pub retries: Option<u32>,
    /// Read from slaves where there are any
    #[arg(long, global = true)]
    pub prefer_slave: bool,
    /// Look at every cluster, whatever cluster the context names; a change is made in one
    #[arg(long, global = true)]
    pub all_clusters: bool,
    /// Sign requests as this account
    #[arg(
        long,
        global = true,
        env = "RMQ_ACCESS_KEY",
        value_name = "KEY",
        hide_env = true
    )]
    pub access_key: Option<String>,
    /// File with the account's secret, readable by its owner alone
    #[arg(long, global = true, value_name = "FILE")]
    pub secret_key_file: Option<PathBuf>,
    /// File with a temporary token, readable by its owner alone
    #[arg(long, global = true, value_name = "FILE")]
    pub security_token_file: Option<PathBuf>,
    /// Requests in flight at once
    #[arg(
        long,
        global = true,
        default_value_t = 16,
        value_name = "N",
        hide_default_value = true
    )]
    pub parallel: usize,
    /// Dial TO for brokers registered as FROM (host, host:port, *:port or network); repeatable
    #[arg(long, global = true, value_name = "FROM=TO")]
    pub broker_map: Vec<AddressRule>,
    /// How servers are reached.
    #[command(flatten)]
    pub reach: Reach,
    /// Read and print times in UTC
    #[arg(long, global = true)]
    pub utc: bool,
    /// Print only data and errors
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Print every request with its target and time; twice: with headers, secrets masked
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// No colour, also with NO_COLOR set
    #[arg(long, global = true)]
    pub no_color: bool,
    /// Tables and CSV without their first line
    #[arg(long, global = true)]
    pub no_headers: bool,
    /// Numbers in tables with units: 1.2k, 3.4M
    #[arg(long, global = true)]
    pub human: bool,
    /// The command stands for a line of mqadmin.
    #[arg(skip)]
    pub bridged: bool,
    /// The configuration's current context does not count.
    #[arg(skip)]
    pub no_context: bool,
    /// Where the command says and shows everything, when that is not the terminal.
    #[arg(skip)]
    pub desk: Option<Arc<Desk>>,
}

/// One run of a command.
pub struct Session {
    /// How results are printed.
    pub printer: Printer,
    /// The form was asked for in this run, not by the configuration or by nobody.
    pub form_asked: bool,
    /// Context in use, if any.
    pub context: Option<String>,
    /// Every context of the configuration.
    pub contexts: Vec<String>,
    /// Name servers in use.
    pub name_servers: Vec<String>,
    /// Default for `--cluster`.
    pub cluster: Option<String>,
    /// `--yes[=CLUSTER]`.
    pub yes: Option<Option<String>>,
    /// The command stands for a line of mqadmin.
    pub bridged: bool,
    /// `--dry-run`.
    pub dry_run: bool,
    /// Changes need the cluster's name.
    pub protected: bool,
    /// No change is sent.
    pub read_only: bool,
    /// Changes are written to the journal.
    pub journal: bool,
    /// Limit of one request.
    pub timeout: Duration,
    /// Limit of the whole command.
    pub deadline: Option<Duration>,
    /// Account that signs the requests.
    pub access_key: Option<String>,
    /// Reads go to slaves where there are any.
    pub prefer_slave: bool,
    /// Every cluster was asked for.
    pub all_clusters: bool,
    /// Flags that say which servers are meant; an undo line needs them.
    place: Vec<String>,
    quiet: bool,
    /// What is known of the change that the command makes.
    pub under_way: UnderWay,
    /// The admin client.
    pub client: Arc<Client>,
}

impl Session {
    /// Resolves flags against environment and configuration.
    pub fn new(global: &Global) -> Result<Self, Failure> {
        Self::adjusted(global, |_| {})
    }

    /// The same, with a last word on how the client behaves.
    pub fn adjusted(global: &Global, adjust: impl FnOnce(&mut Options)) -> Result<Self, Failure> {
        let config = context::load(global.config.as_deref())?;
        let current = config.current.as_ref().filter(|_| !global.no_context);
        let name = global.context.as_ref().or(current).cloned();
        let context = match &name {
            Some(name) => Some(find_context(&config, name, global.context.is_some())?),
            None => None,
        };
        let none = Context::default();
        let chosen = context.unwrap_or(&none);
        let name_servers = name_servers(global, chosen)?;
        let format = match (
            &global.output,
            chosen.output.as_ref().or(config.defaults.output.as_ref()),
        ) {
            (Some(format), _) => *format,
            (None, Some(text)) => {
                Format::from_str(text, true).map_err(|e| Failure::usage(format!("output: {e}")))?
            }
            (None, None) => Format::Table,
        };
        let timeout = match global
            .timeout
            .as_ref()
            .or(chosen.timeout.as_ref())
            .or(config.defaults.timeout.as_ref())
        {
            Some(text) => {
                time::parse_duration(text).map_err(|e| Failure::usage(format!("--timeout: {e}")))?
            }
            None => Duration::from_secs(5),
        };
        if timeout.is_zero() {
            return Err(Failure::usage("--timeout: 0 leaves no time for an answer"));
        }
        let mut rules = global.broker_map.clone();
        rules.extend(chosen.address_rules()?);
        let read_only = chosen.read_only;
        let credentials = super::account::find(global, chosen)?;
        let access_key = credentials.as_ref().map(|c| c.access_key.clone());
        let mut options = Options {
            name_servers: name_servers.clone(),
            timeout,
            parallel: global.parallel.max(1),
            address_map: AddressMap(rules),
            dial: global.reach.dial(chosen)?,
            read_only: read_only || global.dry_run,
            retries: global.retries,
            credentials,
            pace: global.desk.as_ref().and_then(|desk| desk.pace()),
            observer: match global.verbose {
                0 => None,
                1 => Some(Box::new(|call: &Observed<'_>| super::trace(call, false)) as _),
                _ => Some(Box::new(|call: &Observed<'_>| super::trace(call, true)) as _),
            },
            ..Options::default()
        };
        adjust(&mut options);
        let client = Client::new(options);
        let servers_named = place(global, name.as_deref(), &name_servers);
        let no_color = global.no_color || std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
        let width = Printer::terminal_width();
        let session = Self {
            printer: Printer {
                format,
                columns: global.columns.clone(),
                sort: global.sort_by.clone(),
                filter: global.filter.clone(),
                headers: !global.no_headers,
                human: global.human,
                color: width.is_some() && !no_color,
                width,
                zone: Zone::new(global.utc),
                context: name.clone(),
                desk: global.desk.clone(),
            },
            form_asked: global.output.is_some(),
            context: name.clone(),
            contexts: config.contexts.keys().cloned().collect(),
            name_servers,
            cluster: chosen.cluster.clone().filter(|_| !global.all_clusters),
            yes: global.yes.clone(),
            bridged: global.bridged,
            dry_run: global.dry_run,
            protected: chosen.protected,
            read_only,
            journal: config.journal != Some(false),
            timeout,
            deadline: global.deadline,
            access_key,
            prefer_slave: global.prefer_slave,
            all_clusters: global.all_clusters,
            place: servers_named,
            quiet: global.quiet,
            under_way: UnderWay::default(),
            client: Arc::new(client),
        };
        for key in config.unknown_keys(name.as_deref()) {
            session.warn(&format!(
                "configuration key {key} is not supported and has no effect"
            ));
        }
        Ok(session)
    }

    /// A command, or several joined by `&&`, for the same servers as this one.
    pub fn for_same_servers(&self, command: &str) -> String {
        let commands = commands(command);
        let parts = commands.into_iter().map(|part| {
            // A store is files: whoever serves it is not asked.
            let asks = !part.starts_with("rmq store ");
            let missing = self.place.iter().filter(|_| asks).filter(|flag| {
                flag.split(' ')
                    .next()
                    .is_none_or(|name| !part.contains(&format!(" {name} ")))
            });
            std::iter::once(part)
                .chain(missing.map(String::as_str))
                .collect::<Vec<_>>()
                .join(" ")
        });
        parts.collect::<Vec<_>>().join(" && ")
    }

    /// A warning on stderr.
    pub fn warn(&self, text: &str) {
        if !self.quiet {
            self.talk(&format!("warning: {text}"));
        }
    }

    /// A sentence on stderr for a person; a program that reads JSON or CSV gets the same from the data.
    pub fn note(&self, text: &str) {
        if !self.quiet && self.is_table() {
            self.talk(text);
        }
    }

    /// A line of progress on stderr, in every form of output.
    pub fn progress(&self, text: &str) {
        if !self.quiet {
            self.talk(text);
        }
    }

    /// Where a scaling is: for a display that shows more than lines.
    pub fn way(&self, progress: Progress) {
        if let Some(desk) = self.desk() {
            desk.way(progress);
        }
    }

    /// True when only data and errors are wanted.
    pub fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True when a bar can be drawn: a person is at the terminal on stderr.
    pub fn draws_progress(&self) -> bool {
        !self.quiet && self.desk().is_none() && std::io::stderr().is_terminal()
    }

    /// Text on stderr.
    pub fn talk(&self, text: &str) {
        if let Some(desk) = self.desk() {
            return desk.say(text);
        }
        // A closed stderr leaves nobody to tell.
        let _ = writeln!(std::io::stderr().lock(), "{text}");
    }

    /// True for the forms a person reads.
    pub fn is_table(&self) -> bool {
        matches!(self.printer.format, Format::Table | Format::Wide)
    }

    /// True when a person looks at stdout.
    pub fn is_live(&self) -> bool {
        self.desk().is_none() && std::io::stdout().is_terminal()
    }

    /// Where the command says and shows everything, when that is not the terminal.
    pub fn desk(&self) -> Option<&Desk> {
        self.printer.desk.as_deref()
    }

    /// The words of the command line.
    pub fn words(&self) -> Vec<String> {
        self.desk()
            .map_or_else(|| std::env::args().collect(), |desk| desk.words().to_vec())
    }

    /// Warns of name servers that did not answer, once each.
    pub fn warn_of_dead_name_servers(&self) {
        for (addr, why) in self.client.take_dead_name_servers() {
            self.warn(&format!("name server {addr} was skipped: {why}"));
        }
    }
}

/// The commands of a line that are joined by `&&`; one inside quotes joins nothing.
fn commands(line: &str) -> Vec<&str> {
    const AND: &str = " && ";
    let (mut parts, mut begin, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, c) in line.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if !quoted => escaped = true,
            '\'' => quoted = !quoted,
            ' ' if !quoted && at >= begin && line[at..].starts_with(AND) => {
                parts.push(&line[begin..at]);
                begin = at + AND.len();
            }
            _ => {}
        }
    }
    parts.push(&line[begin..]);
    parts
}

/// The flags that say which servers are meant, wherever it was said. A shell of tomorrow has another environment, and the
/// configuration another current context: an undo line names its own.
fn place(global: &Global, context: Option<&str>, name_servers: &[String]) -> Vec<String> {
    // Servers of the context come with it; any others stand above it and are named as well.
    let from_context = context.is_some() && global.namesrv.is_none() && environment_servers().is_none();
    let config = global
        .config
        .as_ref()
        .map(|path| path.display().to_string())
        .filter(|path| std::env::var("RMQ_CONFIG").ok().as_ref() != Some(path));
    let single = [
        ("-n", (!from_context).then(|| name_servers.join(","))),
        ("--context", context.map(str::to_owned)),
        ("--config", config),
    ];
    let maps = global
        .broker_map
        .iter()
        .map(|rule| ("--broker-map", Some(rule.to_string())));
    single
        .into_iter()
        .chain(maps)
        .filter_map(|(flag, value)| Some(format!("{flag} {}", quoted(&value?))))
        .chain(global.reach.given())
        .collect()
}

/// Name servers that Java's variable names.
fn environment_servers() -> Option<String> {
    std::env::var("NAMESRV_ADDR")
        .ok()
        .filter(|t| !t.trim().is_empty())
}

fn find_context<'a>(config: &'a Config, name: &str, asked: bool) -> Result<&'a Context, Failure> {
    config.contexts.get(name).ok_or_else(|| {
        let known: Vec<&str> = config.contexts.keys().map(String::as_str).collect();
        let what = if asked {
            format!("there is no context \"{name}\" in the configuration")
        } else {
            format!("the configuration's current context \"{name}\" does not exist")
        };
        let failure = Failure::new(exit::NOT_FOUND, what);
        let failure = if known.is_empty() {
            failure
        } else {
            failure.because(format!("It has: {}.", known.join(", ")))
        };
        failure.hint("rmq config list")
    })
}

fn name_servers(global: &Global, chosen: &Context) -> Result<Vec<String>, Failure> {
    let (text, from) = if let Some(text) = &global.namesrv {
        (text.clone(), "--namesrv")
    } else if let Some(text) = environment_servers() {
        (text, "NAMESRV_ADDR")
    } else if chosen.namesrv.is_empty() {
        (DEFAULT_NAME_SERVER.to_owned(), "default")
    } else {
        (chosen.namesrv.join(";"), "context")
    };
    context::name_servers(&text).map_err(|e| Failure::usage(format!("{from}: {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with everything that a shell takes for something, as `quoted` writes them.
    #[test]
    fn commands_are_told_apart_outside_of_quotes_only() {
        let first = format!("rmq kv put a {}", quoted("x && y"));
        let second = format!("rmq kv put b {}", quoted("it's && 'so'"));
        assert_eq!(commands(&first), [first.as_str()]);
        let both = format!("{first} && {second} && rmq c");
        assert_eq!(commands(&both), [first.as_str(), second.as_str(), "rmq c"]);
        assert_eq!(commands("rmq a && rmq b"), ["rmq a", "rmq b"]);
        assert_eq!(commands(""), [""]);
    }
}
