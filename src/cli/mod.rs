//! The command line: grammar, output, exit codes.
//!
//! Data goes to stdout, talk to stderr. A command ends with one of the codes of [`exit`].

mod account;
mod acl;
mod apply;
mod bench;
mod body;
mod broker;
mod broker_change;
mod broker_clean;
mod broker_look;
mod change;
mod cluster;
mod cluster_look;
mod cold_flow;
mod completion;
mod config;
mod consumer;
mod container;
mod context;
mod controller;
mod dashboard;
mod desk;
mod diff;
mod dlq;
mod docs;
mod doctor;
mod drain;
mod examples;
pub mod exit;
mod export;
mod group;
mod group_change;
mod group_forbid;
mod group_read;
mod kv;
mod lag;
mod lite;
mod message;
mod message_act;
mod message_file;
mod message_list;
mod metrics;
mod mqadmin;
mod namesrv;
mod offsets;
pub mod output;
mod producer;
mod progress;
mod reach;
mod reset;
mod restart;
mod scale;
mod schema;
mod scope;
mod secret;
pub mod serve;
mod server_config;
mod session;
mod size;
mod static_topic;
mod static_topic_change;
mod stop;
mod store;
mod stranded;
mod tail;
mod themes;
mod topic;
mod topic_change;
mod topic_order;
mod topic_read;
mod trace;
mod user;
mod watch;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use serde_json::json;

use crate::client::Observed;
use crate::client::words::quoted;
use crate::protocol::codes;
use exit::Failure;
use output::{Detail, Format};
use session::{Global, Session};

pub use crate::client::time;
pub use docs::write_man_pages;

/// RocketMQ for operators: name server, broker, admin commands and live dashboard in one binary
#[derive(Debug, Parser)]
#[command(name = "rmq", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start a name server and a broker in one process
    Standalone(serve::StandaloneArgs),
    /// Clusters
    #[command(subcommand, visible_alias = "clusters")]
    Cluster(ClusterCommand),
    /// Brokers
    #[command(subcommand, visible_aliases = ["brokers", "b"])]
    Broker(BrokerCommand),
    /// Name servers
    #[command(subcommand, visible_alias = "ns", alias = "namesrvs")]
    Namesrv(NamesrvCommand),
    /// Topics
    #[command(subcommand, visible_aliases = ["topics", "t"])]
    Topic(TopicCommand),
    /// Topics with a fixed number of queues that move between brokers
    #[command(subcommand, alias = "static-topics")]
    StaticTopic(static_topic::Command),
    /// Lite topics, of servers newer than 5.4.0
    #[command(subcommand)]
    Lite(lite::Command),
    /// Consumer groups
    #[command(subcommand, visible_aliases = ["groups", "g"])]
    Group(GroupCommand),
    /// Committed offsets of groups
    #[command(subcommand, visible_alias = "offsets")]
    Offset(offsets::Command),
    /// Producers
    #[command(subcommand, visible_alias = "producers")]
    Producer(producer::Command),
    /// Consumer processes; group is the whole group
    #[command(subcommand, visible_alias = "consumers")]
    Consumer(consumer::Command),
    /// Messages
    #[command(subcommand, visible_aliases = ["messages", "msg"])]
    Message(MessageCommand),
    /// Key-value store of the name servers
    #[command(subcommand, alias = "kvs")]
    Kv(kv::Command),
    /// Users of brokers
    #[command(subcommand, visible_alias = "users")]
    User(user::Command),
    /// Access rules of brokers
    #[command(subcommand, visible_alias = "acls")]
    Acl(acl::Command),
    /// Controllers of Java brokers
    #[command(subcommand, visible_alias = "controllers")]
    Controller(controller::Command),
    /// Dead letters
    #[command(subcommand, alias = "dlqs")]
    Dlq(dlq::Command),
    /// Write topics, groups, settings or messages to files
    #[command(subcommand, alias = "exports")]
    Export(export::ExportCommand),
    /// Make a cluster look as a file says
    Apply(apply::ApplyArgs),
    /// Show how a cluster differs from a file; changes nothing
    Diff(apply::FileArgs),
    /// Read files back
    #[command(subcommand, alias = "imports")]
    Import(export::ImportCommand),
    /// Examine the clusters and say what needs a look
    Doctor(doctor::DoctorArgs),
    /// Load and latency, measured
    #[command(subcommand)]
    Bench(bench::Command),
    /// Show clusters, heartbeats and brokers live
    #[command(visible_alias = "top")]
    Tui(dashboard::TuiArgs),
    /// A store directory, offline or beside the broker that runs on it
    #[command(subcommand, alias = "stores")]
    Store(store::Command),
    /// Contexts in the configuration file
    #[command(subcommand, visible_alias = "context", aliases = ["configs", "contexts"])]
    Config(config::Command),
    /// Run a command of the old mqadmin, and show the rmq command that it is now
    Mqadmin(mqadmin::MqadminArgs),
    /// Print a shell completion script
    Completion {
        /// Shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages
    Man {
        /// Directory; made when absent
        #[arg(long, value_name = "DIR")]
        out: std::path::PathBuf,
    },
    /// Print the JSON schema of an answer, or the kinds of answers
    Schema {
        /// As `kind` has it in the JSON
        kind: Option<String>,
    },
    /// Show the version
    Version,
}

#[derive(Debug, Subcommand)]
enum NamesrvCommand {
    /// Start a name server
    Start(serve::NamesrvStartArgs),
    #[command(flatten)]
    Ask(namesrv::Command),
}

#[derive(Debug, Subcommand)]
enum BrokerCommand {
    /// Start a broker
    Start(serve::BrokerStartArgs),
    #[command(flatten)]
    Ask(broker::Command),
    /// Print the steps of a rolling restart; changes nothing
    RestartPlan {
        #[command(flatten)]
        scope: scope::ScopeArgs,
    },
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    #[command(flatten)]
    Ask(cluster::Command),
    /// Examine the clusters and say what needs a look
    Doctor(doctor::DoctorArgs),
    /// Compare two clusters, brokers or files: topics, groups, settings
    Diff(diff::ClusterDiffArgs),
}

#[derive(Debug, Subcommand)]
enum TopicCommand {
    #[command(flatten)]
    Ask(topic::Command),
    /// Compare the topics of two clusters, brokers or files
    Diff(diff::NounDiffArgs),
}

#[derive(Debug, Subcommand)]
enum GroupCommand {
    #[command(flatten)]
    Ask(group::Command),
    /// Compare the groups of two clusters, brokers or files
    Diff(diff::NounDiffArgs),
}

#[derive(Debug, Subcommand)]
enum MessageCommand {
    #[command(flatten)]
    Ask(message::Command),
    /// Show the way of one message: stored, delivered, given back, dead, and where each group stands
    Trace(trace::TraceArgs),
    /// Write the messages of a topic with all properties to a file
    Export(export::ExportArgs),
    /// Send the messages of a file
    Import(export::ImportArgs),
}

/// The grammar with the examples in its help.
fn command() -> clap::Command {
    examples::add(Cli::command())
}

/// Parses the arguments, runs the command, prints a failure; the process's exit code.
pub fn run() -> ExitCode {
    completion::answer();
    let mut grammar = command();
    let matches = grammar.try_get_matches_from_mut(std::env::args_os());
    let cli = match matches.and_then(|matches| {
        let mut cli = Cli::from_arg_matches(&matches)?;
        // A workflow's own limit is its own business: it leaves the cluster in a named state when it is reached.
        if has_own_deadline(&grammar, &matches) {
            cli.global.deadline = None;
        }
        Ok(cli)
    }) {
        Ok(cli) => cli,
        Err(e) => return ExitCode::from(usage(&e)),
    };
    let format = cli.global.output;
    match dispatch(cli) {
        Ok(()) => ExitCode::from(exit::DONE),
        Err(failure) => {
            // A closed pipe is a normal end and has nothing to say.
            if failure.exit != exit::DONE {
                tell(&failure, format);
            }
            ExitCode::from(failure.exit)
        }
    }
}

/// True when the command that was called declares `--deadline` itself.
fn has_own_deadline(grammar: &clap::Command, matches: &clap::ArgMatches) -> bool {
    let (mut command, mut at) = (grammar, matches);
    while let Some((name, below)) = at.subcommand() {
        let Some(sub) = command.find_subcommand(name) else {
            break;
        };
        (command, at) = (sub, below);
    }
    command
        .get_arguments()
        .any(|arg| arg.get_id() == "deadline" && !arg.is_global_set())
}

/// Prints what the parser has to say; help and version are no failure.
fn usage(e: &clap::Error) -> u8 {
    let args = || {
        std::env::args_os()
            .map(|arg| arg.to_string_lossy().into_owned())
            .skip(1)
    };
    let example = (e.kind() == clap::error::ErrorKind::MissingRequiredArgument)
        .then(|| examples::nearest(args()))
        .flatten();
    if e.use_stderr() && wants_json(args(), std::env::var("RMQ_OUTPUT").ok().as_deref()) {
        tell(&unparsed(&e.render().to_string(), example), Some(Format::Json));
        return exit::USAGE;
    }
    // A closed pipe is a normal end.
    let _ = e.print();
    if !e.use_stderr() {
        return exit::DONE;
    }
    if let Some(example) = example {
        let _ = writeln!(std::io::stderr().lock(), "\nTry: {example}");
    }
    exit::USAGE
}

/// True when a line that does not parse asks for JSON, as far as that can be told.
fn wants_json(args: impl Iterator<Item = String>, environment: Option<&str>) -> bool {
    let mut form = environment.map(str::to_owned);
    let mut args = args.take_while(|arg| arg != "--");
    while let Some(arg) = args.next() {
        if arg == "-o" || arg == "--output" {
            form = args.next();
        } else if let Some(value) = arg.strip_prefix("--output=") {
            form = Some(value.to_owned());
        } else if let Some(value) = arg.strip_prefix("-o") {
            form = Some(value.trim_start_matches('=').to_owned());
        }
    }
    matches!(form.as_deref(), Some("json" | "jsonl"))
}

/// What the parser says, as a failure: its first paragraph, its tips and the nearest example.
fn unparsed(text: &str, example: Option<&'static str>) -> Failure {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut paragraphs = text.split("\n\n");
    let first = paragraphs.next().unwrap_or_default();
    let mut failure = Failure::usage(one_line(first.trim_start_matches("error: ")));
    let tips: Vec<String> = paragraphs
        .filter(|p| p.trim_start().starts_with("tip:"))
        .map(one_line)
        .collect();
    if !tips.is_empty() {
        failure = failure.because(tips.join("; "));
    }
    match example {
        Some(example) => failure.hint(example),
        None => failure,
    }
}

fn tell(failure: &Failure, format: Option<Format>) {
    let mut err = std::io::stderr().lock();
    // Nobody is left to tell when stderr is closed.
    let _ = if matches!(format, Some(Format::Json | Format::Jsonl)) {
        writeln!(err, "{}", json!({ "error": failure.json() }))
    } else {
        writeln!(err, "error: {}", failure.text())
    };
}

fn dispatch(cli: Cli) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Standalone(args) => serve::standalone(&global, &args).map_err(|e| serve::failure(&e)),
        Command::Namesrv(NamesrvCommand::Start(args)) => {
            serve::namesrv_start(&args).map_err(|e| serve::failure(&e))
        }
        Command::Broker(BrokerCommand::Start(args)) => {
            serve::broker_start(&args).map_err(|e| serve::failure(&e))
        }
        Command::Mqadmin(args) => mqadmin::run(global, &args),
        Command::Completion { shell } => completion::script(shell),
        Command::Man { out } => write_man_pages(&out),
        Command::Schema { kind } => schema::run(&global, kind.as_deref()),
        Command::Version => version(&global),
        Command::Config(command) => on_this_thread(config::run(&global, command)),
        Command::Store(command) => store::run(&Session::new(&global)?, command),
        Command::Namesrv(NamesrvCommand::Ask(command)) => {
            ask(&global, async |session| namesrv::run(session, command).await)
        }
        Command::Kv(command) => ask(&global, async |session| kv::run(session, command).await),
        Command::User(command) => ask(&global, async |session| user::run(session, command).await),
        Command::Acl(command) => ask(&global, async |session| acl::run(session, command).await),
        Command::Controller(command) => ask(&global, async |session| controller::run(session, command).await),
        Command::Broker(BrokerCommand::Ask(command)) => {
            ask(&global, async |session| broker::run(session, command).await)
        }
        Command::Broker(BrokerCommand::RestartPlan { scope }) => {
            ask(&global, async |session| restart::run(session, &scope).await)
        }
        Command::Tui(args) => dashboard::run(&global, args),
        Command::Offset(command) => ask(&global, async |session| offsets::run(session, command).await),
        Command::Dlq(command) => ask(&global, async |session| dlq::run(session, command).await),
        Command::Export(command) => ask(&global, async |session| export::export(session, command).await),
        Command::Import(command) => ask(&global, async |session| export::import(session, command).await),
        Command::Apply(args) => ask(&global, async |session| apply::apply(session, &args).await),
        Command::Diff(args) => ask(&global, async |session| apply::diff(session, &args).await),
        Command::Cluster(ClusterCommand::Ask(cluster::Command::Top(args))) => dashboard::run(&global, args),
        Command::Cluster(ClusterCommand::Diff(args)) => on_this_thread(diff::cluster(&global, &args)),
        Command::Topic(TopicCommand::Diff(args)) => on_this_thread(diff::topics(&global, &args)),
        Command::Group(GroupCommand::Diff(args)) => on_this_thread(diff::groups(&global, &args)),
        Command::Message(MessageCommand::Trace(args)) => {
            ask(&global, async |session| trace::run(session, &args).await)
        }
        Command::Message(MessageCommand::Export(args)) => {
            ask(&global, async |session| export::messages(session, &args).await)
        }
        Command::Message(MessageCommand::Import(args)) => ask(&global, async |session| {
            export::import_messages(session, &args).await
        }),
        Command::Cluster(ClusterCommand::Doctor(args)) | Command::Doctor(args) => {
            ask(&global, async |session| doctor::run(session, &args).await)
        }
        Command::Cluster(ClusterCommand::Ask(command)) => {
            ask(&global, async |session| cluster::run(session, command).await)
        }
        Command::Topic(TopicCommand::Ask(command)) => {
            ask(&global, async |session| topic::run(session, command).await)
        }
        Command::Lite(command) => ask(&global, async |session| lite::run(session, command).await),
        Command::StaticTopic(command) => {
            ask(&global, async |session| static_topic::run(session, command).await)
        }
        Command::Group(GroupCommand::Ask(command)) => {
            ask(&global, async |session| group::run(session, command).await)
        }
        Command::Message(MessageCommand::Ask(command)) => {
            ask(&global, async |session| message::run(session, command).await)
        }
        Command::Bench(command) => ask(&global, async |session| bench::run(session, command).await),
        Command::Producer(command) => ask(&global, async |session| producer::run(session, command).await),
        Command::Consumer(command) => ask(&global, async |session| consumer::run(session, command).await),
    }
}

/// Runs a command that asks a cluster.
fn ask(global: &Global, command: impl AsyncFnOnce(&Session) -> Result<(), Failure>) -> Result<(), Failure> {
    let session = Session::new(global)?;
    on_this_thread(async {
        let done = session.run(command(&session)).await;
        session.warn_of_dead_name_servers();
        done
    })
}

/// One command is a handful of requests: a single thread starts fastest.
fn on_this_thread(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(work)
}

fn version(global: &Global) -> Result<(), Failure> {
    if global
        .output
        .is_none_or(|f| matches!(f, Format::Table | Format::Wide))
    {
        writeln!(
            std::io::stdout().lock(),
            "rmq {} (speaks as {})",
            env!("CARGO_PKG_VERSION"),
            crate::protocol::model::VERSION_NAME
        )?;
        return Ok(());
    }
    Session::new(global)?.printer.print_detail(Detail {
        kind: "Version",
        fields: vec![
            ("version", env!("CARGO_PKG_VERSION").into()),
            ("protocol", crate::protocol::model::VERSION_NAME.into()),
        ],
        ..Detail::default()
    })
}

/// `-v`: one line a request; `-vv`: with the headers of request and answer.
fn trace(call: &Observed<'_>, headers: bool) {
    let outcome = match call.outcome {
        Ok(answer) => format!("{} {}", answer.code, codes::name(answer.code).unwrap_or("?")),
        Err(e) => e.to_string(),
    };
    let mut err = std::io::stderr().lock();
    // A closed stderr leaves nobody to tell.
    let _ = writeln!(
        err,
        "{:>7.2}ms {} {} -> {}: {outcome}",
        call.took.as_secs_f64() * 1000.0,
        call.code,
        call.name,
        call.server
    );
    if headers {
        let _ = writeln!(err, "           > {}", header_text(call.fields));
        if let Ok(answer) = call.outcome {
            let remark = answer.remark.as_deref().unwrap_or_default();
            let remark = if remark.is_empty() {
                String::new()
            } else {
                format!(" remark: {remark}")
            };
            let text = format!(
                "{} body: {} bytes{remark}",
                header_text(&answer.fields),
                answer.body.len()
            );
            let _ = writeln!(err, "           < {}", output::printable(&text));
        }
    }
}

/// Header values with the secret ones as stars.
fn header_text(fields: &crate::fields::Fields) -> String {
    let words: Vec<String> = fields
        .iter()
        .map(|(name, value)| {
            let value = if crate::client::sign::is_secret(name) {
                "***"
            } else {
                value
            };
            output::printable(&format!("{name}={value}"))
        })
        .collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 1 of the specification: the plural of each noun, and five short forms.
    #[test]
    fn nouns_have_their_plurals_and_short_forms() {
        for alias in [
            "topics",
            "groups",
            "brokers",
            "clusters",
            "messages",
            "offsets",
            "producers",
            "consumers",
            "namesrvs",
            "kvs",
            "users",
            "acls",
            "stores",
            "exports",
            "imports",
            "controllers",
            "dlqs",
            "static-topics",
            "configs",
            "context",
            "g",
            "t",
            "b",
            "ns",
            "msg",
            "top",
        ] {
            let asked = command().try_get_matches_from(["rmq", alias, "--help"]);
            let kind = asked.map(drop).map_err(|e| e.kind());
            assert_eq!(kind, Err(clap::error::ErrorKind::DisplayHelp), "{alias}");
        }
    }

    #[test]
    fn the_grammar_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn a_line_that_does_not_parse_may_ask_for_json() {
        let wants = |line: &str, environment| wants_json(line.split(' ').map(str::to_owned), environment);
        for line in [
            "topic -o json",
            "-ojson topic",
            "topic --output=jsonl",
            "topic --output json x",
            "-o=json x",
        ] {
            assert!(wants(line, None), "{line}");
        }
        for line in ["topic -o csv", "topic -- -o json", "topic -o", "topic"] {
            assert!(!wants(line, None), "{line}");
        }
        assert!(wants("topic", Some("json")));
        assert!(!wants("topic -o table", Some("json")));
        let text = "error: invalid value 'x' for '--queues <N>':\n  a number\n\n  tip: try 8\n\nFor more information, try '--help'.\n";
        let failure = unparsed(text, Some("rmq topic create T"));
        assert_eq!(failure.what, "invalid value 'x' for '--queues <N>': a number");
        assert_eq!(failure.why.as_deref(), Some("tip: try 8"));
        assert_eq!(failure.hint.as_deref(), Some("rmq topic create T"));
    }

    /// An argument under the name of a global one is read as that one, and with another type ends the process.
    #[test]
    fn no_argument_has_the_name_of_a_global_one_and_another_type() {
        fn below(command: &clap::Command, globals: &[clap::Arg], path: &str) {
            for sub in command.get_subcommands() {
                let path = format!("{path} {}", sub.get_name());
                for arg in sub.get_arguments().filter(|a| !a.is_global_set()) {
                    let same = globals.iter().find(|g| g.get_id() == arg.get_id());
                    let kind = |arg: &clap::Arg| arg.get_value_parser().type_id();
                    assert!(
                        same.is_none_or(|g| kind(g) == kind(arg)),
                        "{path}: {}",
                        arg.get_id()
                    );
                }
                below(sub, globals, &path);
            }
        }
        let root = command();
        let globals: Vec<clap::Arg> = root
            .get_arguments()
            .filter(|a| a.is_global_set())
            .cloned()
            .collect();
        assert!(globals.iter().any(|g| g.get_id() == "filter"));
        below(&root, &globals, "rmq");
    }
}
