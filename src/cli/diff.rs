//! `rmq topic diff`, `rmq group diff`, `rmq cluster diff`: two sides and what differs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;

use super::apply::{Reach, held, left_out, read_accounts, read_file};
use super::exit::{self, Failure};
use super::output::{Format, Listing, Printer, col};
use super::scope::ScopeArgs;
use super::session::{Global, Session};
use crate::client::admin::group::is_system;
use crate::client::declare::compare::{Difference, compare, maps};
use crate::client::declare::{Declared, write};
use crate::client::doctor::AGREED_SETTINGS;
use crate::client::{BrokerAt, BrokerSelector, Scope, Which};

/// Two sides.
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// Left side: a context, cluster, broker or file; context:NAME, cluster:NAME, broker:NAME or file:PATH where the
    /// word could be several of them
    left: String,
    /// Right side
    right: String,
    /// Print the TOML that would make the right side like the left one
    #[arg(long)]
    as_apply: bool,
    /// System objects as well
    #[arg(short, long)]
    all: bool,
}

/// `rmq topic diff`, `rmq group diff`
#[derive(Debug, Clone, Args)]
pub struct NounDiffArgs {
    #[command(flatten)]
    sides: DiffArgs,
    /// Only this one; repeatable
    #[arg(long = "only", value_name = "NAME")]
    names: Vec<String>,
}

/// `rmq cluster diff`
#[derive(Debug, Clone, Args)]
pub struct ClusterDiffArgs {
    #[command(flatten)]
    sides: DiffArgs,
    /// Positions of groups as well, as backlog and as the store time of the last consumed message
    #[arg(long)]
    offsets: bool,
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Noun {
    Topic,
    Group,
    Cluster,
}

/// One side, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Context(String),
    Cluster(String),
    Broker(String),
    File(PathBuf),
}

/// Everything that is known of a side.
#[derive(Default)]
struct Side {
    declared: Declared,
    /// Settings on which brokers agree; `None` for a file.
    config: Option<BTreeMap<String, String>>,
    /// Brokers whose users and access rules are not known, and why.
    left_out: Option<String>,
    /// Backlog and last consumed message of each group and topic.
    offsets: BTreeMap<(String, String), (i64, Option<i64>)>,
}

/// `rmq topic diff`
pub async fn topics(global: &Global, args: &NounDiffArgs) -> Result<(), Failure> {
    run(global, &args.sides, Noun::Topic, &args.names, false).await
}

/// `rmq group diff`
pub async fn groups(global: &Global, args: &NounDiffArgs) -> Result<(), Failure> {
    run(global, &args.sides, Noun::Group, &args.names, false).await
}

/// `rmq cluster diff`
pub async fn cluster(global: &Global, args: &ClusterDiffArgs) -> Result<(), Failure> {
    run(global, &args.sides, Noun::Cluster, &[], args.offsets).await
}

/// What a word means: what its prefix says, else the first that exists.
fn place(word: &str, contexts: &BTreeSet<String>, clusters: &BTreeSet<String>) -> Place {
    match word.split_once(':') {
        Some(("context", name)) => return Place::Context(name.to_owned()),
        Some(("cluster", name)) => return Place::Cluster(name.to_owned()),
        Some(("broker", name)) => return Place::Broker(name.to_owned()),
        Some(("file", path)) => return Place::File(path.into()),
        _ => {}
    }
    if word == "-" || word.ends_with(".toml") || word.ends_with(".json") {
        Place::File(word.into())
    } else if contexts.contains(word) {
        Place::Context(word.to_owned())
    } else if clusters.contains(word) {
        Place::Cluster(word.to_owned())
    } else {
        Place::Broker(word.to_owned())
    }
}

async fn run(
    global: &Global,
    args: &DiffArgs,
    noun: Noun,
    names: &[String],
    offsets: bool,
) -> Result<(), Failure> {
    let session = Session::new(global)?;
    let contexts = super::context::load(global.config.as_deref())?
        .contexts
        .keys()
        .cloned()
        .collect();
    let mut sides = Vec::new();
    let mut clusters: Option<BTreeSet<String>> = None;
    for word in [&args.left, &args.right] {
        let mut found = place(word, &contexts, &BTreeSet::new());
        if matches!(&found, Place::Broker(name) if name == word) {
            // Only then does anybody have to be asked.
            if clusters.is_none() {
                let info = session.client.cluster_info().await?;
                clusters = Some(info.cluster_addr_table.keys().cloned().collect());
            }
            found = place(word, &contexts, clusters.as_ref().unwrap_or(&BTreeSet::new()));
        }
        sides.push(look(global, &session, &found, args.all, noun, offsets).await?);
    }
    session.warn_of_dead_name_servers();
    let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else {
        return Err(Failure::new(exit::INTERNAL, "a diff has two sides"));
    };
    let mut found = compare(&left.declared, &right.declared);
    found.retain(|d| match noun {
        Noun::Topic => d.noun == "topic",
        Noun::Group => d.noun == "group",
        Noun::Cluster => true,
    });
    if !names.is_empty() {
        found.retain(|d| names.contains(&d.name));
    }
    if let (Noun::Cluster, Some(a), Some(b)) = (noun, &left.config, &right.config) {
        maps(&mut found, "config", "broker", a, b);
    }
    if offsets {
        compare_offsets(&mut found, &left, &right);
    }
    if args.as_apply {
        return as_apply(&left.declared, &right.declared, &found);
    }
    let left_out = [left.left_out, right.left_out].into_iter().flatten();
    let left_out: Vec<String> = left_out.collect();
    let not_compared = (!left_out.is_empty()).then(|| left_out.join("; "));
    print(&session, (&args.left, &args.right), &found, not_compared)
}

async fn look(
    global: &Global,
    session: &Session,
    place: &Place,
    all: bool,
    noun: Noun,
    offsets: bool,
) -> Result<Side, Failure> {
    let other;
    let (session, scope, which) = match place {
        Place::File(path) => {
            return Ok(Side {
                declared: read_file(path)?,
                ..Side::default()
            });
        }
        Place::Context(name) => {
            let mut global = global.clone();
            global.context = Some(name.clone());
            // The context says where; an address of this run would be that of the other side.
            global.namesrv = None;
            other = Session::new(&global)?;
            let scope = ScopeArgs::default().scope(&other)?;
            (&other, scope, Which::Masters)
        }
        Place::Cluster(name) => {
            let scope = Scope {
                cluster: Some(name.clone()),
                brokers: Vec::new(),
            };
            (session, scope, Which::Masters)
        }
        Place::Broker(name) => {
            let scope = Scope {
                cluster: None,
                brokers: vec![BrokerSelector(name.clone())],
            };
            (session, scope, Which::Masters)
        }
    };
    let brokers = session.client.brokers(&scope, which).await?;
    if brokers.is_empty() {
        return Err(
            Failure::new(exit::NOT_FOUND, "no broker is registered on this side").hint("rmq namesrv list"),
        );
    }
    let mut held = held(session, &brokers).await?;
    let mut side = Side::default();
    if noun == Noun::Cluster {
        let replicas = session.client.brokers(&scope, Which::All).await?;
        let read = read_accounts(session, &replicas, Reach::WhatIsKept).await?;
        side.left_out = left_out(&read);
        held.accounts = read.held;
    }
    side.declared = held.declared(all);
    if noun == Noun::Cluster {
        side.config = Some(settings(session, &brokers).await?);
    }
    if offsets {
        side.offsets = positions(session, &brokers).await?;
    }
    Ok(side)
}

/// Settings that decide what happens to a message; where masters differ, each value with its brokers.
async fn settings(session: &Session, brokers: &[BrokerAt]) -> Result<BTreeMap<String, String>, Failure> {
    let client = &session.client;
    let mut out: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
    for broker in brokers {
        let config = client.broker_config(&broker.server(), client.deadline()).await?;
        for key in AGREED_SETTINGS {
            if let Some(value) = config.get(*key) {
                out.entry((*key).to_owned())
                    .or_default()
                    .entry(value.clone())
                    .or_default()
                    .push(broker.id.name.clone());
            }
        }
    }
    Ok(out
        .into_iter()
        .map(|(key, values)| {
            let text = match values.len() {
                1 => values.into_keys().next().unwrap_or_default(),
                _ => values
                    .iter()
                    .map(|(value, names)| format!("{value} ({})", names.join(" ")))
                    .collect::<Vec<_>>()
                    .join(", "),
            };
            (key, text)
        })
        .collect())
}

async fn positions(
    session: &Session,
    brokers: &[BrokerAt],
) -> Result<BTreeMap<(String, String), (i64, Option<i64>)>, Failure> {
    let client = &session.client;
    let mut out: BTreeMap<(String, String), (i64, Option<i64>)> = BTreeMap::new();
    for broker in brokers {
        for row in client.look_lag(&broker.server(), client.deadline()).await? {
            if is_system(&row.group) {
                continue;
            }
            let lag = row.lag().unwrap_or(0);
            let entry = out.entry((row.group, row.topic)).or_default();
            entry.0 = entry.0.saturating_add(lag);
            entry.1 = entry.1.max(row.last_consumed_ms);
        }
    }
    Ok(out)
}

fn compare_offsets(found: &mut Vec<Difference>, left: &Side, right: &Side) {
    let keys: BTreeSet<&(String, String)> = left.offsets.keys().chain(right.offsets.keys()).collect();
    for key in keys {
        let flat = |side: &Side| {
            let mut out = BTreeMap::new();
            if let Some((lag, at)) = side.offsets.get(key) {
                out.insert("lag".to_owned(), lag.to_string());
                if let Some(at) = at.and_then(super::time::rfc3339) {
                    out.insert("consumed_until".to_owned(), at);
                }
            }
            out
        };
        maps(
            found,
            "offset",
            &format!("{} {}", key.0, key.1),
            &flat(left),
            &flat(right),
        );
    }
}

fn print(
    session: &Session,
    (left, right): (&str, &str),
    found: &[Difference],
    not_compared: Option<String>,
) -> Result<(), Failure> {
    let mut listing = Listing::new(
        "Diff",
        &[
            col("op"),
            col("kind"),
            col("name"),
            col("field"),
            col("left"),
            col("right"),
        ],
    );
    listing.ordered = true;
    for difference in found {
        listing.push(vec![
            difference.sign().into(),
            difference.noun.into(),
            difference.name.as_str().into(),
            difference.field.as_str().into(),
            difference.left.clone().into(),
            difference.right.clone().into(),
        ]);
    }
    listing.summary.insert("left".into(), left.into());
    listing.summary.insert("right".into(), right.into());
    if let Some(not_compared) = not_compared {
        listing.summary.insert("not_compared".into(), not_compared.into());
    }
    session.printer.print(listing)?;
    verdict(found.len(), left, right, session)
}

fn verdict(count: usize, left: &str, right: &str, session: &Session) -> Result<(), Failure> {
    if count == 0 {
        session.note(&format!("{left} and {right} are the same"));
        return Ok(());
    }
    Err(Failure::new(
        exit::WARNINGS,
        format!("{left} and {right} differ in {count} fields"),
    ))
}

/// The left side's objects that differ, as a file for the right side.
fn as_apply(left: &Declared, right: &Declared, found: &[Difference]) -> Result<(), Failure> {
    let differs = |noun: &str, name: &String| found.iter().any(|d| d.noun == noun && d.name == *name);
    let mut out = left.clone();
    out.cluster.clone_from(&right.cluster);
    out.topics.retain(|name, _| differs("topic", name));
    out.groups.retain(|name, _| differs("group", name));
    if let Some(users) = &mut out.users {
        users.retain(|name, _| differs("user", name));
    }
    if let Some(rules) = &mut out.rules {
        rules.retain(|key, _| differs("acl", &key.to_string()));
    }
    use std::io::Write as _;
    std::io::stdout()
        .lock()
        .write_all(write::to_toml(&out).as_bytes())?;
    Ok(())
}

/// Rows of any listing, written to a file instead of stdout.
pub fn print_to(session: &Session, listing: Listing, out: Option<&PathBuf>) -> Result<(), Failure> {
    let printer: &Printer = &session.printer;
    match out.filter(|path| path.as_os_str() != "-") {
        None => printer.print(listing),
        Some(path) => {
            // A file is read by programs first, and nothing in it is cut for a terminal.
            let format = match printer.format {
                Format::Table if !session.form_asked => Format::Json,
                format => format,
            };
            let mut text = Vec::new();
            printer.for_file(format).write(listing, &mut text)?;
            write_new(path, &text)
        }
    }
}

/// Writes a new file; one that exists is not overwritten.
pub fn write_new(path: &PathBuf, bytes: &[u8]) -> Result<(), Failure> {
    use std::io::Write as _;
    let failed = |e: std::io::Error| Failure::usage(format!("cannot write {}: {e}", path.display()));
    let mut file = std::fs::File::create_new(path).map_err(failed)?;
    file.write_all(bytes).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_what_its_prefix_says_or_what_exists() {
        let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
        let (contexts, clusters) = (set(&["prod", "both"]), set(&["C1", "both"]));
        let at = |word: &str| place(word, &contexts, &clusters);
        assert_eq!(at("prod"), Place::Context("prod".into()));
        assert_eq!(at("C1"), Place::Cluster("C1".into()));
        assert_eq!(at("both"), Place::Context("both".into()));
        assert_eq!(at("cluster:both"), Place::Cluster("both".into()));
        assert_eq!(at("broker-a"), Place::Broker("broker-a".into()));
        assert_eq!(at("10.0.0.1:10911"), Place::Broker("10.0.0.1:10911".into()));
        assert_eq!(at("x.toml"), Place::File("x.toml".into()));
        assert_eq!(at("file:x"), Place::File("x".into()));
    }
}
