//! `rmq apply -f` and `rmq diff -f`: a cluster as a file says.

mod accounts;
mod carry_out;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;

pub use self::accounts::{Reach, left_out, read_accounts};
use self::carry_out::{carry_out, forget_routes, read_back};

use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::output::{Listing, col};
use super::scope::ScopeArgs;
use super::session::Session;
use super::topic_change::{refuse_static, undo_line};
use super::{quoted, time};
use crate::client::declare::plan::{Change, changes};
use crate::client::declare::{Declared, Held, read, write};
use crate::client::{BrokerAt, BrokerSelector, Deadline, Scope, Server, Which};
use crate::protocol::model::Perm;

/// Longest file read.
const FILE_MAX: u64 = 64 * 1024 * 1024;
/// A topic that took a message in this time is not pruned, ms.
const IN_USE_MS: i64 = 600_000;

/// Where the declaration is.
#[derive(Debug, Clone, Args)]
pub struct FileArgs {
    /// TOML file, JSON list of mqadmin, directory of such files, or - for stdin; repeatable
    #[arg(short, long = "file", value_name = "FILE|DIR", required = true)]
    file: Vec<PathBuf>,
    /// Also delete topics, groups, users and access rules that the file does not have, of the kinds that it has any of; never
    /// system objects and super users
    #[arg(long)]
    prune: bool,
    /// Cluster, when the file does not say which or another is meant
    #[arg(short, long, value_name = "NAME")]
    cluster: Option<String>,
    /// Only this broker of the cluster: NAME, NAME:ID or HOST:PORT; repeatable
    #[arg(short, long, value_name = "BROKER", conflicts_with = "prune")]
    broker: Vec<BrokerSelector>,
}

/// `rmq apply`
#[derive(Debug, Clone, Args)]
pub struct ApplyArgs {
    #[command(flatten)]
    files: FileArgs,
    /// Let a smaller number of queues be reached step by step, as rmq topic scale does
    #[arg(long)]
    scale: bool,
}

/// A declaration and what it means for a cluster.
struct Prepared {
    declared: Declared,
    cluster: String,
    held: Held,
    changes: Vec<Change>,
}

/// Reads one file; JSON or TOML.
pub fn read_file(path: &Path) -> Result<Declared, Failure> {
    let failed = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(FILE_MAX)
            .read_to_string(&mut text)
            .map_err(failed)?;
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(FILE_MAX).read_to_string(&mut text).map_err(failed)?;
    }
    if text.len() as u64 >= FILE_MAX {
        return Err(Failure::usage(format!(
            "{} is longer than {FILE_MAX} bytes",
            path.display()
        )));
    }
    read::parse(&text).map_err(|e| {
        Failure::usage(format!(
            "{} does not say what a cluster shall look like",
            path.display()
        ))
        .because(e)
    })
}

fn read_all(paths: &[PathBuf]) -> Result<Declared, Failure> {
    let mut files = Vec::new();
    for path in paths {
        if path.is_dir() {
            let failed = |e: std::io::Error| Failure::usage(format!("cannot read {}: {e}", path.display()));
            let mut inside = Vec::new();
            for entry in std::fs::read_dir(path).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                if path.extension().is_some_and(|e| e == "toml" || e == "json") {
                    inside.push(path);
                }
            }
            if inside.is_empty() {
                return Err(Failure::usage(format!(
                    "{} has no .toml and no .json file in it",
                    path.display()
                )));
            }
            inside.sort();
            files.extend(inside);
        } else {
            files.push(path.clone());
        }
    }
    let mut all = Declared::default();
    for path in files {
        all = read::merge(all, read_file(&path)?)
            .map_err(|e| Failure::usage(format!("{}: {e}", path.display())))?;
    }
    Ok(all)
}

/// What masters have; all of them, or the failure of those that do not answer.
pub async fn held(session: &Session, brokers: &[BrokerAt]) -> Result<Held, Failure> {
    let deadline = Deadline::after(session.timeout);
    session.client.held(brokers, deadline).await.map_err(|failed| {
        let failures: Vec<Failure> = failed.iter().map(|(_, e)| Failure::from(e)).collect();
        match Failure::over(&failures, false) {
            Err(failure) => failure.unchanged(),
            Ok(()) => Failure::new(exit::CONNECTION, "a broker cannot be read"),
        }
    })
}

async fn prepare(session: &Session, args: &FileArgs, will_write: bool) -> Result<Prepared, Failure> {
    let mut declared = read_all(&args.file)?;
    let of_accounts = declared.users.is_some() || declared.rules.is_some();
    if declared.topics.is_empty() && declared.groups.is_empty() && !of_accounts {
        return Err(Failure::usage(
            "the file has neither a topic nor a group, a user or an access rule in it",
        ));
    }
    accounts::read_passwords(session, &mut declared, will_write)?;
    let scope = ScopeArgs {
        cluster: args.cluster.clone().or_else(|| declared.cluster.clone()),
        broker: args.broker.clone(),
    };
    let brokers = scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let cluster = brokers.first().map(|b| b.id.cluster.clone()).unwrap_or_default();
    if let Some(other) = brokers.iter().find(|b| b.id.cluster != cluster) {
        return Err(Failure::usage(format!(
            "the brokers are of clusters {cluster} and {}; a file is applied to one cluster",
            other.id.cluster
        )));
    }
    let mut held = held(session, &brokers).await?;
    if !args.broker.is_empty() && !cluster.is_empty() {
        let whole = Scope {
            cluster: Some(cluster.clone()),
            brokers: Vec::new(),
        };
        let masters = session.client.brokers(&whole, Which::Masters).await?;
        held.others = masters.into_iter().map(|b| b.id.name).collect();
    }
    if of_accounts {
        let replicas = scope.brokers(session, Which::AllToWrite).await?;
        held.accounts = read_accounts(session, &replicas, Reach::of(&declared))
            .await?
            .held;
        let whole = Scope {
            cluster: Some(cluster.clone()).filter(|name| !name.is_empty()),
            brokers: Vec::new(),
        };
        let replicas = session.client.brokers(&whole, Which::All).await?;
        held.other_replicas = replicas.iter().map(|b| accounts::place(&b.id)).collect();
    }
    let changes = changes(&declared, &held, args.prune).map_err(|e| {
        Failure::new(exit::NOT_FOUND, e).hint(format!("rmq broker list --cluster {}", quoted(&cluster)))
    })?;
    Ok(Prepared {
        declared,
        cluster,
        held,
        changes,
    })
}

/// Runs `rmq diff -f`.
pub async fn diff(session: &Session, args: &FileArgs) -> Result<(), Failure> {
    let prepared = prepare(session, args, false).await?;
    let mut listing = Listing::new(
        "Diff",
        &[
            col("op"),
            col("kind"),
            col("name"),
            col("target"),
            col("field"),
            col("cluster"),
            col("file"),
        ],
    );
    listing.ordered = true;
    for change in &prepared.changes {
        for (field, before, after) in change.fields() {
            listing.push(vec![
                change.sign().into(),
                change.noun().into(),
                change.name().into(),
                change.broker().id.name.as_str().into(),
                field.into(),
                before.into(),
                after.into(),
            ]);
        }
    }
    let count = listing.rows.len();
    session.printer.print(listing)?;
    if count == 0 {
        session.note(&format!("cluster {} is as the file says", prepared.cluster));
        return Ok(());
    }
    Err(Failure::new(
        exit::WARNINGS,
        format!(
            "cluster {} differs from the file in {count} fields",
            prepared.cluster
        ),
    )
    .hint("rmq apply with the same file"))
}

/// Runs `rmq apply`.
pub async fn apply(session: &Session, args: &ApplyArgs) -> Result<(), Failure> {
    let mut prepared = prepare(session, &args.files, true).await?;
    if prepared.changes.is_empty() {
        return change::nothing(session);
    }
    accounts::refuse_incomplete(&prepared.changes)?;
    let resized = prepared.changes.iter().filter(|change| change.resizes());
    let names: BTreeSet<&str> = resized.map(Change::name).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let checks = session
        .client
        .each(names, |name| refuse_static(session, name))
        .await;
    checks.into_iter().collect::<Result<(), Failure>>()?;
    if let Some(name) = prepared.changes.iter().find(|c| c.shrinks()).map(Change::name) {
        if !args.scale {
            return Err(refuse_shrink(&prepared, name));
        }
        for way in scales(&prepared)? {
            super::scale::run(session, way).await?;
        }
        prepared = prepare(session, &args.files, true).await?;
        // What a dry run did not scale is left out of the rest.
        prepared.changes.retain(|c| !(session.dry_run && c.shrinks()));
        if let Some(name) = prepared.changes.iter().find(|c| c.shrinks()).map(Change::name) {
            return Err(refuse_shrink(&prepared, name));
        }
        if prepared.changes.is_empty() {
            return Ok(());
        }
    }
    if !session.dry_run {
        refuse_in_use(session, &prepared).await?;
    }
    let (mut plan, counts) = plan(&prepared);
    touched(session, &mut plan, &prepared.changes).await;
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let undo = undo(session, &prepared, &args.files.broker)?;
    session.under_way.undone_by(undo.clone());
    let done = carry_out(session, &prepared).await;
    let mut proven = read_back(session, &prepared, done, args.files.prune).await;
    forget_routes(session, &prepared, &mut proven).await;
    let outcomes = proven
        .into_iter()
        .zip(counts)
        .flat_map(|(outcome, count)| vec![outcome; count])
        .collect();
    change::report(session, &plan, outcomes, undo)
}

/// Messages may be left in queues that nobody reads: that takes the steps of `rmq topic scale`.
fn refuse_shrink(prepared: &Prepared, name: &str) -> Failure {
    let to = prepared
        .changes
        .iter()
        .find_map(|c| match c {
            Change::Topic { after, .. } if c.name() == name && c.shrinks() => Some(after.write_queue_nums),
            _ => None,
        })
        .unwrap_or(0);
    Failure::new(
        exit::PRECONDITION,
        format!("the file has fewer queues of topic {name} than the cluster; nothing was changed"),
    )
    .because("Messages in the queues that go must be consumed first: write queues shrink, then a wait, then read queues.")
    .hint(format!("rmq topic scale {name} --to {to}, or --scale to let apply do it"))
}

/// The command line of one way to fewer queues.
#[derive(Debug, clap::Parser)]
struct Way {
    #[command(flatten)]
    args: super::scale::ScaleArgs,
}

/// One way a topic and number of queues, for all brokers that go there.
fn scales(prepared: &Prepared) -> Result<Vec<super::scale::ScaleArgs>, Failure> {
    let mut ways: BTreeMap<(&str, i32, i32), Vec<&str>> = BTreeMap::new();
    for change in prepared.changes.iter().filter(|c| c.shrinks()) {
        if let Change::Topic { broker, after, .. } = change {
            ways.entry((&after.topic_name, after.read_queue_nums, after.write_queue_nums))
                .or_default()
                .push(&broker.id.name);
        }
    }
    ways.into_iter()
        .map(|((name, read, write), brokers)| {
            let mut words = vec![
                "scale".to_owned(),
                format!("--read-to={read}"),
                format!("--write-to={write}"),
            ];
            words.extend(brokers.iter().map(|b| format!("--broker={b}")));
            words.extend(["--".to_owned(), name.to_owned()]);
            <Way as clap::Parser>::try_parse_from(words)
                .map(|way| way.args)
                .map_err(|e| Failure::usage(e.to_string()))
        })
        .collect()
}

/// What is pruned is not in use: no client online, no message in the last ten minutes.
async fn refuse_in_use(session: &Session, prepared: &Prepared) -> Result<(), Failure> {
    let client = &session.client;
    for change in &prepared.changes {
        let server = change.broker().server();
        let refused = |what: String| {
            Failure::new(
                exit::PRECONDITION,
                format!("{what}, so it is not deleted; nothing was changed"),
            )
        };
        match change {
            Change::DeleteGroup { name, .. } => {
                let online = client.group_clients(&server, name, client.deadline()).await?;
                if online.is_some_and(|c| !c.connection_set.is_empty()) {
                    return Err(refused(format!("group {name} has clients online at {server}"))
                        .hint(format!("rmq group clients {name}")));
                }
            }
            Change::DeleteTopic { name, .. } => {
                let stats = client.topic_stats(&server, name, client.deadline()).await?;
                let newest = stats
                    .offset_table
                    .values()
                    .filter(|r| r.max_offset > r.min_offset)
                    .map(|r| r.last_update_timestamp)
                    .max();
                if newest.is_some_and(|at| time::now_ms().saturating_sub(at) < IN_USE_MS) {
                    return Err(refused(format!(
                        "topic {name} took a message on {server} in the last 10 minutes"
                    ))
                    .hint(format!("rmq topic status {name}")));
                }
            }
            Change::Topic { .. }
            | Change::Group { .. }
            | Change::User { .. }
            | Change::Rule { .. }
            | Change::DeleteRule { .. }
            | Change::DeleteUser { .. } => {}
        }
    }
    Ok(())
}

/// The plan, and how many of its steps belong to each change.
fn plan(prepared: &Prepared) -> (Plan, Vec<usize>) {
    let mut plan = Plan {
        action: format!("apply to cluster {}", prepared.cluster),
        object: prepared.cluster.clone(),
        cluster: prepared.cluster.clone(),
        class: Class::A,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let mut counts = Vec::new();
    for change in &prepared.changes {
        let fields = change.fields();
        counts.push(fields.len());
        let what = format!("{} {}", change.noun(), change.name());
        for (field, before, after) in fields {
            plan.steps.push(Step {
                target: change.broker().server().to_string(),
                field: if field == change.noun() {
                    what.clone()
                } else {
                    format!("{what} {field}")
                },
                before,
                after,
            });
        }
        match change {
            Change::DeleteTopic { name, .. } => {
                plan.class = Class::C;
                plan.impact.push(format!(
                    "the messages of topic {name} on {} are lost",
                    change.broker().id.name
                ));
            }
            Change::DeleteGroup { name, .. } => {
                plan.class = Class::C;
                plan.impact.push(format!(
                    "the positions of group {name} on {} are lost",
                    change.broker().id.name
                ));
            }
            Change::Topic {
                before: Some(before),
                after,
                ..
            } => {
                if before.perm.writable() && !after.perm.writable() {
                    plan.class = plan.class.max(Class::B);
                    plan.impact.push(format!(
                        "{}: producers of {} are refused",
                        change.broker().id.name,
                        after.topic_name
                    ));
                }
                if before.perm.readable() && !after.perm.readable() {
                    plan.class = plan.class.max(Class::B);
                    plan.impact.push(format!(
                        "{}: consumers of {} are refused",
                        change.broker().id.name,
                        after.topic_name
                    ));
                }
            }
            Change::Group {
                before: Some(before),
                after,
                ..
            } => {
                if before.consume_enable && !after.consume_enable {
                    plan.class = plan.class.max(Class::B);
                    plan.impact.push(format!(
                        "{}: clients of {} are refused",
                        change.broker().id.name,
                        after.group_name
                    ));
                }
            }
            Change::DeleteUser { .. }
            | Change::DeleteRule { .. }
            | Change::Rule { .. }
            | Change::User { before: Some(_), .. } => accounts::weigh(&mut plan, change),
            Change::Topic { .. } | Change::Group { .. } | Change::User { .. } => {}
        }
    }
    (plan, counts)
}

/// Counts who uses the topics and groups that lose a permission.
async fn touched(session: &Session, plan: &mut Plan, changes: &[Change]) {
    let (mut topics, mut groups) = (BTreeMap::new(), BTreeMap::new());
    for change in changes {
        let (all, name) = match change {
            Change::Topic {
                before: Some(before),
                after,
                ..
            } if before.perm.and(Perm::READ_WRITE).without(after.perm) != Perm(0) => {
                (&mut topics, &after.topic_name)
            }
            Change::Group {
                before: Some(before),
                after,
                ..
            } if before.consume_enable && !after.consume_enable => (&mut groups, &after.group_name),
            _ => continue,
        };
        let servers: &mut Vec<Server> = all.entry(name).or_default();
        servers.push(change.broker().server());
    }
    let client = &session.client;
    let topics = topics.into_iter().collect();
    let of_topics = client.each(topics, |(name, servers)| client.use_of_topic(servers, name));
    let groups = groups.into_iter().collect();
    let of_groups = client.each(groups, |(name, servers)| client.use_of_group(servers, name));
    let (of_topics, of_groups) = tokio::join!(of_topics, of_groups);
    plan.impact.extend(of_topics.into_iter().chain(of_groups));
}

/// How a broker is called again; one that nobody registered has an address only.
fn called(broker: &BrokerAt) -> &str {
    match broker.id.name.as_str() {
        "" => &broker.addr,
        name => name,
    }
}

/// The commands that restore what was there. Deletions cannot be undone; what else changed can.
fn undo(session: &Session, prepared: &Prepared, scope: &[BrokerSelector]) -> Result<Option<String>, Failure> {
    let is_final = |change: &Change| {
        matches!(change, Change::DeleteTopic { .. } | Change::DeleteGroup { .. })
            || accounts::is_final(change)
    };
    if prepared.changes.iter().any(is_final) {
        return Ok(None);
    }
    let mut lines = Vec::new();
    let (mut made, mut groups) = (BTreeSet::new(), BTreeSet::new());
    for change in &prepared.changes {
        match change {
            Change::Topic {
                broker,
                before: Some(before),
                after,
                ..
            } => lines.push(undo_line(&after.topic_name, broker, before, after)),
            Change::Topic { broker, after, .. } => {
                made.insert(format!(
                    "rmq topic delete {} --broker {}",
                    quoted(&after.topic_name),
                    called(broker)
                ));
            }
            Change::Group {
                after,
                before,
                broker,
                ..
            } => {
                if before.is_some() {
                    groups.insert(after.group_name.clone());
                } else {
                    // Other brokers may have had it before.
                    made.insert(format!(
                        "rmq group delete {} --broker {}",
                        quoted(&after.group_name),
                        called(broker)
                    ));
                }
            }
            // A user goes after its rules.
            Change::User { before: None, .. } => made.extend(accounts::undo_line(change)),
            Change::User { .. } | Change::Rule { .. } | Change::DeleteRule { .. } => {
                lines.extend(accounts::undo_line(change));
            }
            Change::DeleteTopic { .. } | Change::DeleteGroup { .. } | Change::DeleteUser { .. } => {}
        }
    }
    if !groups.is_empty() {
        let mut before = prepared.held.declared(true);
        before.topics.clear();
        (before.users, before.rules) = (None, None);
        before.groups.retain(|name, _| groups.contains(name));
        let dir = super::context::state_dir().map(|d| d.join("apply"));
        let written = dir.and_then(|dir| {
            let path = dir.join(format!("before-{}.toml", time::now_ms()));
            crate::replace::replace(&path, write::to_toml(&before).as_bytes()).ok()?;
            Some(path)
        });
        match written {
            Some(path) => {
                let mut line = format!("rmq apply -f {}", quoted(&path.display().to_string()));
                for broker in scope {
                    line.push_str(&format!(" --broker {}", quoted(&broker.0)));
                }
                lines.push(line);
            }
            None => {
                session.warn("the groups as they were could not be written down: this change has no undo")
            }
        }
    }
    lines.extend(made);
    Ok((!lines.is_empty()).then(|| lines.join(" && ")))
}
