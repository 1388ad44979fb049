//! `rmq offset`: get, set, export, import, diff.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, Subcommand};

use super::exit::{self, Failure};
use super::lag::Known;
use super::output::{Cell, Listing, col, wide};
use super::reset::{self, Batch, MovingArgs, Queue, queue_offset, read_file};
use super::scope::ScopeArgs;
use super::session::Session;
use super::watch::{self, Rows, WatchArgs};
use crate::client::positions::{Goal, Position};
use crate::client::saved_offsets::{Chosen, SavedOffset, SavedOffsets};
use crate::client::words::counted;
use crate::client::{Error, Which};
use crate::protocol::model::{check_group, check_topic};

/// Commands on committed offsets.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Show where a group stands in each queue, never-committed queues included
    Get {
        /// Group name
        group: String,
        /// Only this topic
        #[arg(short, long, value_name = "NAME")]
        topic: Option<String>,
        #[command(flatten)]
        scope: ScopeArgs,
        #[command(flatten)]
        watch: WatchArgs,
    },
    /// Set committed offsets of single queues
    Set(SetArgs),
    /// Write committed offsets with the store times of the next messages to a file
    Export(ExportArgs),
    /// Bring groups to the offsets of a file
    Import(ImportArgs),
    /// Bring a group back to where it was before its last move from this account
    Undo(UndoArgs),
    /// Compare a file with the cluster or with another file; exit code 10 when they differ
    Diff(DiffArgs),
}

/// `rmq offset set`
#[derive(Debug, Clone, Args)]
pub struct SetArgs {
    /// Group name
    group: String,
    /// Queues with their offsets; BROKER is a name or an address
    #[arg(required = true, value_name = "BROKER/Q=OFFSET", value_parser = queue_offset)]
    queues: Vec<(Queue, i64)>,
    /// Topic of the queues
    #[arg(short, long, value_name = "NAME")]
    topic: String,
    #[command(flatten)]
    moving: MovingArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq offset export`
#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// Group names; without one, every group but the brokers' own
    groups: Vec<String>,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// File to write; - is stdout
    #[arg(long, value_name = "FILE", default_value = "-")]
    out: PathBuf,
    /// Without store times, which cost one read a queue
    #[arg(long)]
    no_times: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq offset import`
#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// File to read; - is stdin
    file: PathBuf,
    /// Only this group; repeatable
    #[arg(short, long, value_name = "NAME")]
    group: Vec<String>,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    /// Go by store times, for another cluster or other queues: nothing after them is skipped
    #[arg(long)]
    by_time: bool,
    #[command(flatten)]
    moving: MovingArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq offset undo`
#[derive(Debug, Clone, Args)]
pub struct UndoArgs {
    /// Group name
    group: String,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    #[command(flatten)]
    moving: MovingArgs,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `rmq offset diff`
#[derive(Debug, Clone, Args)]
pub struct DiffArgs {
    /// File to compare; - is stdin
    file: PathBuf,
    /// Another file, instead of the cluster
    other: Option<PathBuf>,
    /// Only this group; repeatable
    #[arg(short, long, value_name = "NAME")]
    group: Vec<String>,
    /// Only this topic
    #[arg(short, long, value_name = "NAME")]
    topic: Option<String>,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// Runs an offset command.
pub async fn run(session: &Session, command: Command) -> Result<(), Failure> {
    match command {
        Command::Get {
            group,
            topic,
            scope,
            watch,
        } => {
            let watched = watch.interval().is_some();
            let look = || get(session, &group, topic.as_deref(), &scope, watched);
            watch::print(session, &watch, look).await
        }
        Command::Set(args) => set(session, args).await,
        Command::Export(args) => export(session, &args).await,
        Command::Import(args) => import(session, args).await,
        Command::Undo(args) => undo(session, args).await,
        Command::Diff(args) => diff(session, &args).await,
    }
}

async fn get(
    session: &Session,
    group: &str,
    topic: Option<&str>,
    scope: &ScopeArgs,
    watched: bool,
) -> Result<Rows, Failure> {
    let client = &session.client;
    let brokers = scope.brokers(session, Which::Masters).await?;
    let topics: BTreeSet<String> = match topic {
        Some(topic) => BTreeSet::from([topic.to_owned()]),
        None => {
            let chosen = Chosen {
                groups: BTreeSet::from([group.to_owned()]),
                topic: None,
            };
            let saved = client.saved_offsets(&brokers, &chosen, false).await?;
            saved.offsets.into_iter().map(|o| o.topic).collect()
        }
    };
    let mut listing = Listing::new(
        "OffsetList",
        &[
            wide("group"),
            col("topic"),
            col("broker"),
            col("queue"),
            col("min"),
            col("max"),
            col("committed"),
            col("note"),
        ],
    );
    listing.ordered = true;
    for topic in topics {
        let positions = match client.positions(&brokers, group, &topic).await {
            // The others are told.
            Err(e @ Error::Static(_)) => {
                listing.errors.push(Failure::from(&e));
                continue;
            }
            positions => positions?,
        };
        for at in positions {
            let note: Cell = match at.current {
                Some(offset) if offset > at.max => "beyond end".into(),
                Some(offset) if offset < at.min => "before begin".into(),
                _ => Cell::Unknown,
            };
            listing.push(vec![
                group.into(),
                topic.as_str().into(),
                at.broker.id.name.as_str().into(),
                at.queue.into(),
                at.min.into(),
                at.max.into(),
                at.current.into(),
                note,
            ]);
        }
    }
    if listing.rows.is_empty() && listing.errors.is_empty() {
        if let Some(failure) = super::lag::not_found(session, &brokers, group).await {
            return Err(failure);
        }
        session.note(&format!("{group} has no committed offsets"));
    }
    if !watched {
        super::stranded::tell(session, &brokers, &[group.to_owned()], topic, Some(&mut listing)).await;
    }
    Ok(Rows {
        some_answered: !listing.rows.is_empty() || listing.errors.is_empty(),
        listing,
    })
}

async fn set(session: &Session, args: SetArgs) -> Result<(), Failure> {
    check_group(&args.group).map_err(|e| Failure::usage(format!("group \"{}\": {e}", args.group)))?;
    check_topic(&args.topic).map_err(|e| Failure::usage(format!("topic \"{}\": {e}", args.topic)))?;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let goal = Goal::Exact(reset::by_name(&brokers, args.queues)?);
    let known = Known::new();
    let batch = reset::batch(session, &known, &brokers, &args.group, &args.topic, goal).await?;
    let action = format!("set offsets of {} in {}", args.group, args.topic);
    reset::carry_out(session, action, &brokers, vec![batch], &args.moving).await
}

async fn export(session: &Session, args: &ExportArgs) -> Result<(), Failure> {
    let brokers = args.scope.brokers(session, Which::Masters).await?;
    let chosen = Chosen {
        groups: args.groups.iter().cloned().collect(),
        topic: args.topic.clone(),
    };
    let (saved, failed) = session
        .client
        .saved_offsets_of_some(&brokers, &chosen, !args.no_times)
        .await;
    let mut failures = Vec::new();
    for (broker, e) in &failed {
        session.warn(&format!(
            "the offsets of {} are missing: {}",
            broker.server(),
            e.reason()
        ));
        failures.push(Failure::from(e));
    }
    let verdict = Failure::over(&failures, failed.len() < brokers.len());
    if failed.len() == brokers.len() {
        return verdict;
    }
    for group in &args.groups {
        if failed.is_empty() && saved.offsets.iter().all(|o| o.group != *group) {
            if let Some(failure) = super::lag::not_found(session, &brokers, group).await {
                return Err(failure);
            }
            session.warn(&format!("{group} has no committed offsets"));
        }
    }
    if !args.no_times {
        tell_untimed(session, &saved);
    }
    if args.out.as_os_str() == "-" {
        std::io::stdout().lock().write_all(saved.text().as_bytes())?;
        return verdict;
    }
    write_file(&args.out, &saved.text())?;
    let groups: BTreeSet<&String> = saved.offsets.iter().map(|o| &o.group).collect();
    session.note(&format!(
        "{} of {} in {}",
        counted(saved.offsets.len(), "offset"),
        counted(groups.len(), "group"),
        args.out.display()
    ));
    verdict
}

/// Positions that are in the file, but without the time of the next message.
fn tell_untimed(session: &Session, saved: &SavedOffsets) {
    let mut untimed = saved.offsets.iter().filter(|o| o.is_untimed());
    let Some(first) = untimed.next() else { return };
    session.warn(&format!(
        "{} without the time of the next message, the first is {} in {} {}/{}: the topic is gone, or the queue is behind its \
         read queues; offset import leaves out queues that are not there, and refuses the file with --by-time",
        counted(untimed.count() + 1, "offset"),
        first.group,
        first.topic,
        first.broker,
        first.queue
    ));
}

/// Puts a file in its place whole; what is no file, such as `/dev/stderr`, is written to.
fn write_file(path: &std::path::Path, text: &str) -> Result<(), Failure> {
    if std::fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return std::fs::write(path, text)
            .map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())));
    }
    crate::replace::replace(path, text.as_bytes()).map_err(|e| Failure::usage(e.to_string()))
}

/// A file with the part of it that is meant; nothing of it is a failure.
fn chosen_part(path: &std::path::Path, chosen: &Chosen) -> Result<SavedOffsets, Failure> {
    let mut file = read_file(path)?;
    file.offsets.retain(|o| chosen.has(&o.group, &o.topic));
    if file.offsets.is_empty() {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("{} has no offsets of what is asked for", path.display()),
        ));
    }
    Ok(file)
}

async fn import(session: &Session, args: ImportArgs) -> Result<(), Failure> {
    let chosen = Chosen {
        groups: args.group.iter().cloned().collect(),
        topic: args.topic.clone(),
    };
    let file = chosen_part(&args.file, &chosen)?;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    if args.by_time {
        refuse_untimed(&file, &args.file)?;
    }
    let (known, found) = (Known::new(), file.by_topic().into_iter().collect());
    let left_out = AtomicBool::new(false);
    let batches = session
        .client
        .each(found, |((group, topic), offsets)| {
            let (known, brokers, file, by_times) = (&known, &brokers, &file, args.by_time);
            let left_out = &left_out;
            async move {
                let Some(positions) = reset::movable(session, brokers, &group, &topic).await? else {
                    left_out.store(true, Ordering::Relaxed);
                    return Ok(None);
                };
                let goal = if by_times {
                    by_time(session, positions, file, (&group, &topic), offsets).await?
                } else {
                    present(session, positions, &topic, offsets)
                };
                if goal.is_empty() {
                    return Ok(None);
                }
                let batch = reset::batch(session, known, brokers, &group, &topic, Goal::Exact(goal)).await?;
                Ok::<_, Failure>(Some(batch))
            }
        })
        .await;
    let batches: Vec<Option<Batch>> = batches.into_iter().collect::<Result<_, Failure>>()?;
    let batches: Vec<Batch> = batches.into_iter().flatten().collect();
    if batches.is_empty() && left_out.into_inner() {
        return Err(reset::all_static(&args.file.display().to_string()));
    }
    let action = format!("import offsets of {}", args.file.display());
    reset::carry_out(session, action, &brokers, batches, &args.moving).await
}

/// Imports the newest file that was kept before a move of the group.
async fn undo(session: &Session, args: UndoArgs) -> Result<(), Failure> {
    check_group(&args.group).map_err(|e| Failure::usage(format!("group \"{}\": {e}", args.group)))?;
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    let mut clusters: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
    clusters.dedup();
    let cluster = clusters.join(",");
    let dir = reset::kept_dir().unwrap_or_default();
    let here = (cluster.as_str(), session.name_servers.as_slice());
    let Some((file, saved)) = reset::newest(&dir, here, &args.group, args.topic.as_deref()) else {
        return Err(Failure::new(
            exit::NOT_FOUND,
            format!("no move of {} in cluster {cluster} is kept here", args.group),
        )
        .because(format!(
            "What a move changes is kept in {} before, for these name servers only.",
            dir.display()
        )));
    };
    let taken = session.printer.zone.text(saved.taken_at_ms).unwrap_or_default();
    let is_of =
        |o: &SavedOffset| o.group == args.group && args.topic.as_ref().is_none_or(|topic| *topic == o.topic);
    if !saved.offsets.iter().any(is_of) {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!(
                "the last move of {}, {taken}, gave it its first positions: there is nothing to go back to",
                args.group
            ),
        ));
    }
    session.progress(&format!("back to {taken}: {}", file.display()));
    let args = ImportArgs {
        file,
        group: vec![args.group],
        topic: args.topic,
        by_time: false,
        moving: args.moving,
        scope: args.scope,
    };
    import(session, args).await
}

type Offsets = BTreeMap<(String, i32), i64>;

/// The offsets of a file in the queues that there are; messages deleted meanwhile cannot be gone back to.
fn present(session: &Session, positions: Vec<Position>, topic: &str, mut offsets: Offsets) -> Offsets {
    let mut goal = Offsets::new();
    for at in positions {
        let Some(offset) = offsets.remove(&(at.broker.id.name.clone(), at.queue)) else {
            continue;
        };
        let fitting = offset.clamp(at.min, at.max);
        if fitting != offset {
            session.warn(&format!(
                "{topic} {}: {offset} is outside of {} to {}, {fitting} is taken",
                at.place(),
                at.min,
                at.max
            ));
        }
        goal.insert((at.broker.id.name, at.queue), fitting);
    }
    for (broker, queue) in offsets.keys() {
        session.warn(&format!("{topic} has no queue {broker}/{queue} here; left out"));
    }
    goal
}

/// A file is used by its times only when every entry has one: without it a backlog would be skipped.
fn refuse_untimed(file: &SavedOffsets, path: &std::path::Path) -> Result<(), Failure> {
    let mut untimed = file.offsets.iter().filter(|o| o.is_untimed());
    let Some(first) = untimed.next() else {
        return Ok(());
    };
    Err(Failure::new(
        exit::PRECONDITION,
        format!(
            "{} has {} without a store time, the first is {} in {} {}/{}; nothing was changed",
            path.display(),
            counted(untimed.count() + 1, "entry"),
            first.group,
            first.topic,
            first.broker,
            first.queue
        ),
    )
    .because("Its topic was gone, its queue was behind the read queues, it was exported with --no-times, or by a version that did not tell.")
    .hint("--group and --topic leave entries out, or export again without --no-times"))
}

/// The offsets of a file's times in the queues that there are.
async fn by_time(
    session: &Session,
    positions: Vec<Position>,
    file: &SavedOffsets,
    (group, topic): (&str, &str),
    mut offsets: Offsets,
) -> Result<Offsets, Failure> {
    let client = &session.client;
    for at in &positions {
        offsets.remove(&(at.broker.id.name.clone(), at.queue));
    }
    if positions.is_empty() {
        session.warn(&format!("{topic} is not here; {group} is left out in it"));
    } else if !offsets.is_empty() {
        session.warn(&format!(
            "{topic} has {} of the file not here; {group} goes on in those that there are",
            counted(offsets.len(), "queue")
        ));
    }
    let found = client
        .each(positions, |at| async move {
            let place = (at.broker.id.name.clone(), at.queue);
            let Some(time) = file.time_of(group, topic, &place.0, place.1) else {
                return Ok(None);
            };
            let moves = client.moves(std::slice::from_ref(&at), &Goal::Time(time)).await?;
            Ok::<_, Failure>(moves.first().map(|one| (place, one.target)))
        })
        .await;
    let found: Vec<Option<_>> = found.into_iter().collect::<Result<_, Failure>>()?;
    Ok(found.into_iter().flatten().collect())
}

type Place = (String, String, String, i32);

fn by_place(saved: SavedOffsets) -> BTreeMap<Place, i64> {
    let entry = |o: SavedOffset| ((o.group, o.topic, o.broker, o.queue), o.offset);
    saved.offsets.into_iter().map(entry).collect()
}

async fn diff(session: &Session, args: &DiffArgs) -> Result<(), Failure> {
    let chosen = Chosen {
        groups: args.group.iter().cloned().collect(),
        topic: args.topic.clone(),
    };
    let file = chosen_part(&args.file, &chosen)?;
    let other = if let Some(path) = &args.other {
        chosen_part(path, &chosen)?
    } else {
        // Groups that the file does not mention are no difference.
        let groups = file.offsets.iter().map(|o| o.group.clone()).collect();
        let chosen = Chosen { groups, ..chosen };
        let brokers = args.scope.brokers(session, Which::Masters).await?;
        session.client.saved_offsets(&brokers, &chosen, false).await?
    };
    let (left, right) = (by_place(file), by_place(other));
    let mut listing = Listing::new(
        "OffsetDiff",
        &[
            col("group"),
            col("topic"),
            col("broker"),
            col("queue"),
            col("file_offset"),
            col("other_offset"),
            col("delta"),
        ],
    );
    let places: BTreeSet<&Place> = left.keys().chain(right.keys()).collect();
    for place in places {
        let (a, b) = (left.get(place).copied(), right.get(place).copied());
        if a == b {
            continue;
        }
        let (group, topic, broker, queue) = place;
        listing.push(vec![
            group.as_str().into(),
            topic.as_str().into(),
            broker.as_str().into(),
            (*queue).into(),
            a.into(),
            b.into(),
            a.zip(b).map(|(a, b)| b.saturating_sub(a)).into(),
        ]);
    }
    let different = listing.rows.len();
    listing.summary.insert("different".into(), different.into());
    session.printer.print(listing)?;
    if different == 0 {
        session.note("no difference");
        return Ok(());
    }
    Err(Failure::new(exit::WARNINGS, format!("{different} queues differ")))
}
