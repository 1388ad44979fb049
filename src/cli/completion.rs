//! Shell completion: the grammar, and names from the cluster.
//!
//! The shell runs `rmq` itself with `COMPLETE` set. Names of topics, groups, brokers and clusters come from the servers
//! within 300 ms and are kept for a minute in the user's cache directory; without a server nothing is offered and
//! nothing is said.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Command, Parser as _};
use clap_complete::env::Shells;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate};
use etcetera::BaseStrategy as _;

use super::exit::Failure;
use super::session::Session;
use super::{Cli, context};
use crate::client::admin::cluster::registered;
use crate::client::admin::topic::kind;
use crate::client::snapshot::TopicKind;
use crate::client::{Client, Scope, Which};

/// Variable that makes `rmq` answer a shell.
const VARIABLE: &str = "COMPLETE";
/// Most that a shell waits for names.
const BUDGET: Duration = Duration::from_millis(300);
/// How long names are kept.
const AGE: Duration = Duration::from_secs(60);

/// Answers a shell that asks for completions, and ends the process then.
pub fn answer() {
    if std::env::var_os(VARIABLE).is_some() {
        CompleteEnv::with_factory(|| attach(super::command(), ""))
            .var(VARIABLE)
            .complete();
    }
}

/// Prints the script that makes a shell ask.
pub fn script(shell: clap_complete::Shell) -> Result<(), Failure> {
    let name = shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&name)
        .ok_or_else(|| Failure::usage(format!("there is no completion for {name}")))?;
    let mut out = Vec::new();
    completer.write_registration(VARIABLE, "rmq", "rmq", "rmq", &mut out)?;
    std::io::stdout().lock().write_all(&out)?;
    Ok(())
}

/// What an argument names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Topics,
    Groups,
    Brokers,
    Clusters,
    Contexts,
    OldCommands,
}

/// What an argument of a command names, if anything that a server knows.
fn named_by(noun: &str, arg: &Arg) -> Option<Names> {
    Some(match (noun, arg.get_id().as_str()) {
        (_, "topic" | "to_topic" | "trace_topic") => Names::Topics,
        (_, "group" | "groups") if noun != "producer" => Names::Groups,
        (_, "broker" | "brokers") => Names::Brokers,
        (_, "cluster") => Names::Clusters,
        (_, "context") => Names::Contexts,
        ("mqadmin", "line") => Names::OldCommands,
        ("config", "name") => Names::Contexts,
        ("topic" | "static-topic", "name" | "names") | ("lite", "parent") => Names::Topics,
        ("group", "name" | "source" | "target") => Names::Groups,
        _ => return None,
    })
}

/// Gives the arguments of a command, and of those below it, their names.
fn attach(mut command: Command, noun: &str) -> Command {
    // In place: positional arguments keep their order.
    command = command.mut_args(|arg| match named_by(noun, &arg) {
        Some(names) => arg.add(ArgValueCompleter::new(move |begun: &OsStr| {
            candidates(names, begun)
        })),
        None => arg,
    });
    let below: Vec<String> = command
        .get_subcommands()
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in below {
        let noun = if noun.is_empty() {
            name.clone()
        } else {
            noun.to_owned()
        };
        command = command.mut_subcommand(name, |sub| attach(sub, &noun));
    }
    command
}

fn candidates(names: Names, begun: &OsStr) -> Vec<CompletionCandidate> {
    let begun = begun.to_string_lossy();
    let all = match names {
        Names::OldCommands => return old_commands(&begun, std::env::args()),
        Names::Contexts => contexts(),
        other => live(other).unwrap_or_default(),
    };
    // Names of the brokers' own are offered to those who begin to write one.
    let own = |name: &str| name.starts_with('%') || name.to_ascii_lowercase().starts_with("rmq_sys_");
    all.into_iter()
        .filter(|name| name.starts_with(&*begun) && (!own(name) || !begun.is_empty()))
        .map(CompletionCandidate::new)
        .collect()
}

/// Names of mqadmin's commands, which stand first behind `mqadmin` and are written in any case.
fn old_commands(begun: &str, line: impl Iterator<Item = String>) -> Vec<CompletionCandidate> {
    let options = line.skip_while(|word| word != "mqadmin").skip(2).count();
    if options > 0 {
        return Vec::new();
    }
    super::mqadmin::names()
        .into_iter()
        .filter(|name| name.to_lowercase().starts_with(&begun.to_lowercase()))
        .map(CompletionCandidate::new)
        .collect()
}

fn contexts() -> BTreeSet<String> {
    context::load(value_of(&["--config"]).map(PathBuf::from).as_deref())
        .map(|config| config.contexts.into_keys().collect())
        .unwrap_or_default()
}

/// The value of a flag in the line that is being written.
fn value_of(flags: &[&str]) -> Option<String> {
    let words: Vec<String> = std::env::args().collect();
    words.iter().enumerate().find_map(|(i, word)| {
        flags.iter().find_map(|flag| match word.strip_prefix(flag) {
            Some("") => words.get(i + 1).cloned(),
            Some(rest) => rest.strip_prefix('=').map(str::to_owned),
            None => None,
        })
    })
}

/// Names that the servers know, from the cache where it is fresh.
fn live(names: Names) -> Option<BTreeSet<String>> {
    let mut line = vec!["rmq".to_owned(), "version".to_owned()];
    for (flags, flag) in [
        (&["-n", "--namesrv"][..], "--namesrv"),
        (&["--context"][..], "--context"),
        (&["--config"][..], "--config"),
    ] {
        if let Some(value) = value_of(flags) {
            line.push(format!("{flag}={value}"));
        }
    }
    let cli = Cli::try_parse_from(line).ok()?;
    let session = Session::adjusted(&cli.global, |options| {
        options.timeout = BUDGET;
        options.connect_timeout = BUDGET;
        options.read_only = true;
    })
    .ok()?;
    let cache = cache_file(&session, names);
    if let Some(kept) = cache.as_ref().and_then(fresh) {
        return Some(kept);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let found = runtime
        .block_on(async { tokio::time::timeout(BUDGET, ask(&session.client, names)).await })
        .ok()??;
    if let Some(path) = cache {
        keep(&path, &found);
    }
    Some(found)
}

async fn ask(client: &Client, names: Names) -> Option<BTreeSet<String>> {
    let info = client.cluster_info().await.ok()?;
    let masters = || crate::client::admin::cluster::select(&info, &Scope::default(), Which::Masters).ok();
    Some(match names {
        Names::Clusters => info.cluster_addr_table.keys().cloned().collect(),
        Names::Brokers => registered(&info).into_iter().map(|b| b.id.name).collect(),
        Names::Topics => {
            let mut servers: BTreeSet<String> = info.broker_addr_table.keys().cloned().collect();
            servers.extend(info.cluster_addr_table.keys().cloned());
            let all = client.topic_names(None).await.ok()?;
            all.into_iter()
                .filter(|name| name.starts_with('%') || kind(name, &servers) != TopicKind::System)
                .collect()
        }
        Names::Groups => client
            .known_groups(&masters()?)
            .await
            .groups
            .into_keys()
            .filter(|name| !crate::client::admin::group::is_system(name))
            .collect(),
        Names::Contexts | Names::OldCommands => return None,
    })
}

/// The cache of these name servers and this sort of names.
fn cache_file(session: &Session, names: Names) -> Option<PathBuf> {
    let dir = etcetera::choose_base_strategy().ok()?.cache_dir().join("rmq");
    let servers: String = session
        .name_servers
        .join("+")
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || ".-+".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    Some(dir.join(format!("names-{servers}-{}", format!("{names:?}").to_lowercase())))
}

fn fresh(path: &PathBuf) -> Option<BTreeSet<String>> {
    let age = std::fs::metadata(path).ok()?.modified().ok()?.elapsed().ok()?;
    if age > AGE {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().map(str::to_owned).collect())
}

/// Keeps names for the next key press. A cache that cannot be written costs a question, nothing more.
fn keep(path: &PathBuf, names: &BTreeSet<String>) {
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    let Some(dir) = path.parent() else { return };
    let _ = std::fs::create_dir_all(dir);
    let draft = path.with_extension(format!("{}", std::process::id()));
    if std::fs::write(&draft, text).is_ok() {
        let _ = std::fs::rename(&draft, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_name_something_are_completed() {
        let mut root = attach(super::super::command(), "");
        root.build();
        let names = |path: &[&str], id: &str| {
            let mut at = &root;
            for name in path {
                at = at.find_subcommand(name).unwrap();
            }
            at.get_arguments()
                .find(|arg| arg.get_id() == id)
                .and_then(|arg| arg.get::<ArgValueCompleter>())
                .is_some()
        };
        assert!(names(&["topic", "update"], "name"));
        assert!(names(&["group", "lag"], "groups"));
        assert!(names(&["message", "send"], "topic"));
        assert!(names(&["topic", "list"], "broker"));
        assert!(!names(&["topic", "update"], "perm"));
        assert!(names(&["mqadmin"], "line"));
        let old = |begun: &str, line: &str| -> Vec<String> {
            old_commands(begun, line.split(' ').map(str::to_owned))
                .iter()
                .map(|c| c.get_value().to_string_lossy().into_owned())
                .collect()
        };
        assert_eq!(old("topicR", "rmq -- rmq mqadmin topicR"), ["topicRoute"]);
        assert_eq!(old("TOPICr", "rmq -- rmq mqadmin TOPICr"), ["topicRoute"]);
        assert!(old("t", "rmq -- rmq mqadmin topicRoute t").is_empty());
        // Positional arguments stay in their order.
        attach(super::super::command(), "").debug_assert();
    }
}
