//! `rmq store repair`: the only command here that writes to a store.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use super::rows::Meter;
use super::{Place, count, holder, interrupt, not_inside};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Column, Listing, col, printable, wide};
use crate::cli::session::Session;
use crate::cli::time;
use crate::inspect::repair::{Choice, Plan, Step, apply, plan, undo};
use crate::inspect::{Depth, Severity, Store};

/// `rmq store repair`
#[derive(Debug, Clone, Args)]
#[group(id = "how", required = true, multiple = false, args = ["plan", "apply", "undo"])]
pub struct RepairArgs {
    #[command(flatten)]
    place: Place,
    /// Look for what is wrong and write the steps that mend it to a new file; nothing else is changed
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// Do the steps of a plan, after showing them and asking; what they take away is kept beside the store's files
    #[arg(long, value_name = "FILE")]
    apply: Option<PathBuf>,
    /// Take back what a repair did, from the directory that it kept things in
    #[arg(long, value_name = "KEPT")]
    undo: Option<PathBuf>,
    /// With --plan: end the log at the first damage, even where good records follow
    #[arg(long, requires = "plan")]
    cut_at_first_damage: bool,
}

const STEPS: &[Column] = &[
    col("n"),
    col("step"),
    col("target"),
    col("before"),
    col("after"),
    wide("why"),
];

/// Queues named in a table before it says only how many more there are.
const NAMED_QUEUES: usize = 3;

/// Runs `rmq store repair`.
pub fn run(session: &Session, args: &RepairArgs) -> Result<(), Failure> {
    let store = open(&args.place)?;
    if let Some(pid) = store.holder() {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{} runs a broker on {}", holder(pid), store.root().display()),
        )
        .because("Nothing was changed. A store is mended only while no broker runs on it.")
        .hint(format!(
            "rmq store verify {}",
            crate::cli::quoted(&store.root().to_string_lossy())
        )));
    }
    match (&args.plan, &args.apply, &args.undo) {
        (Some(file), _, _) => make_plan(session, args, &store, file),
        (_, Some(file), _) => do_plan(session, args, &store, file),
        (_, _, Some(kept)) => take_back(session, &store, kept),
        (None, None, None) => Err(Failure::usage("name --plan, --apply or --undo")),
    }
}

/// The store by its absolute path: plan and journal are used from other directories, too.
fn open(place: &Place) -> Result<Store, Failure> {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let commit_log = place.commitlog_dir.as_ref().map(|dirs| {
        let dirs = dirs.split(',').map(|dir| absolute(Path::new(dir.trim())));
        let dirs: Vec<String> = dirs.map(|dir| dir.to_string_lossy().into_owned()).collect();
        dirs.join(",")
    });
    Ok(Store::open(&absolute(&place.dir), commit_log.as_deref())?)
}

fn quoted(path: &Path) -> String {
    crate::cli::quoted(&path.to_string_lossy())
}

fn make_plan(session: &Session, args: &RepairArgs, store: &Store, file: &Path) -> Result<(), Failure> {
    let choice = if args.cut_at_first_damage {
        Choice::CutAtFirstDamage
    } else {
        Choice::KeepBehindDamage
    };
    not_inside(store.root(), file, "the plan")?;
    if file.exists() {
        return Err(
            Failure::new(exit::PRECONDITION, format!("{} exists already", file.display()))
                .because("A plan is never written over another."),
        );
    }
    let mut meter = Meter::new(session, "", 0);
    let made = plan(store, choice, time::now_ms(), &mut |at| {
        meter.pass(at.pass, at.total);
        meter.at(at.done);
        !interrupt::asked()
    })?;
    drop(meter);
    let Some(made) = made else {
        return Err(interrupt::failure("no plan was made"));
    };
    let text = serde_json::to_string_pretty(&made).map_err(std::io::Error::from)?;
    let failed = |e: std::io::Error| {
        Failure::new(
            exit::INTERNAL,
            format!("{} cannot be written: {e}", file.display()),
        )
    };
    std::fs::File::create_new(file)
        .and_then(|mut out| writeln!(out, "{text}"))
        .map_err(failed)?;
    session.printer.print(listing(&made, None))?;
    for remark in &made.remarks {
        session.warn(remark);
    }
    if made.steps.is_empty() {
        session.note(&format!(
            "{} found; nothing to mend",
            count(made.problems, "problem")
        ));
    } else {
        session.note(&format!(
            "{} found; the plan is in {}, nothing was changed\nnext: rmq store repair {} --apply {}",
            count(made.problems, "problem"),
            file.display(),
            quoted(store.root()),
            quoted(file)
        ));
    }
    Ok(())
}

/// The steps as rows, with what became of them once they are done.
fn listing(plan: &Plan, done: Option<&[String]>) -> Listing {
    let mut columns = STEPS.to_vec();
    if done.is_some() {
        columns.push(col("result"));
    }
    let mut listing = Listing::new("StoreRepairPlan", &columns);
    listing.ordered = true;
    for (n, step) in plan.steps.iter().enumerate() {
        let (before, after, why) = words(step);
        let mut row: Vec<Cell> = vec![
            (n + 1).into(),
            step.name().into(),
            step.target().into(),
            before.into(),
            after.into(),
            why.into(),
        ];
        if let Some(done) = done {
            row.push(done.get(n).cloned().into());
        }
        listing.push(row);
    }
    let summary = json!({ "store": plan.store, "problems": plan.problems, "remarks": plan.remarks });
    listing.summary = summary.as_object().cloned().unwrap_or_default();
    listing
}

/// Before, after, and why.
fn words(step: &Step) -> (String, String, Option<String>) {
    match step {
        Step::ExtendSegment { from, to, .. } => (
            format!("{from} bytes"),
            format!("{to} bytes"),
            Some("the file was cut short".into()),
        ),
        Step::CutLog {
            at,
            end,
            records,
            files,
        } => (
            format!("ends at {end}"),
            format!("ends at {at}"),
            Some(format!(
                "{} bytes with {} and {} go",
                end.saturating_sub(*at),
                count(*records, "whole record"),
                count(files.len() as u64, "whole file")
            )),
        ),
        Step::RebuildQueues { queues } => {
            let mut names = String::new();
            for queue in queues.iter().take(NAMED_QUEUES) {
                let _ = write!(
                    names,
                    "{}{}@{}",
                    if names.is_empty() { "" } else { ", " },
                    queue.topic,
                    queue.queue_id
                );
            }
            if queues.len() > NAMED_QUEUES {
                let _ = write!(names, " and {} more", queues.len() - NAMED_QUEUES);
            }
            (
                names,
                "as the log has them".into(),
                queues.first().map(|queue| queue.why.clone()),
            )
        }
        Step::RebuildIndex { why, files, .. } => (
            count(*files, "file"),
            "as the log has it".into(),
            Some(why.clone()),
        ),
        Step::RestoreTable { why, .. } => ("cannot be loaded".into(), "its .bak".into(), Some(why.clone())),
        Step::WriteCheckpoint { newest_ms } => (
            "older, or not to be relied on".into(),
            match time::rfc3339(*newest_ms) {
                Some(text) if *newest_ms > 0 => format!("flushed up to {text}"),
                _ => "nothing flushed".into(),
            },
            None,
        ),
        Step::RemoveAbort => ("the last stop was not clean".into(), "a clean stop".into(), None),
    }
}

fn do_plan(session: &Session, args: &RepairArgs, store: &Store, file: &Path) -> Result<(), Failure> {
    let bytes = std::fs::read(file)
        .map_err(|e| Failure::new(exit::NOT_FOUND, format!("{} cannot be read: {e}", file.display())))?;
    let plan = Plan::parse(&bytes)
        .map_err(|e| Failure::usage(format!("{} is no plan of a repair: {e}", file.display())))?;
    if plan.steps.is_empty() {
        session.note("the plan has no steps; nothing was changed");
        return Ok(());
    }
    confirm(session, &plan)?;
    if session.dry_run {
        session.printer.print(listing(&plan, None))?;
        session.note("nothing was changed (--dry-run)");
        return Ok(());
    }
    interrupt::check("nothing was changed")?;
    let change = interrupt::Change::begin();
    let meter = RefCell::new(Meter::new(session, "", 0));
    let name = kept_name(store);
    let done = apply(store, &plan, &name, &mut |at| {
        let mut meter = meter.borrow_mut();
        meter.pass(at.pass, at.total);
        meter.at(at.done);
    });
    drop(meter);
    let done = done.map_err(|e| failed_midway(e, store, &name))?;
    let mut shown = listing(&plan, Some(&done.steps));
    shown.summary.insert("kept".into(), json!(done.kept));
    session.printer.print(shown)?;
    if session.is_table() {
        let mut out = std::io::stdout().lock();
        let undo = format!(
            "rmq store repair {} --undo {}",
            quoted(store.root()),
            quoted(&done.kept)
        );
        writeln!(out, "undo: {undo}")?;
    }
    drop(change);
    look_again(session, args, &plan)
}

/// A name for the directory of what is kept that is not there yet.
fn kept_name(store: &Store) -> String {
    let now = jiff::tz::TimeZone::system().to_datetime(jiff::Timestamp::now());
    let now = format!(
        "repair-{:04}{:02}{:02}-{:02}{:02}{:02}",
        now.year(),
        now.month(),
        now.day(),
        now.hour(),
        now.minute(),
        now.second()
    );
    let mut name = now.clone();
    let mut n = 1;
    while store.root().join(&name).exists() {
        n += 1;
        name = format!("{now}-{n}");
    }
    name
}

/// `name` is that of the directory that this attempt would keep things in.
fn failed_midway(e: crate::inspect::Error, store: &Store, name: &str) -> Failure {
    let failure = Failure::from(e);
    let kept = store.root().join(name);
    if !kept.join("journal.jsonl").exists() {
        return failure.because("Nothing was changed.");
    }
    failure
        .because("Steps before it are done; they can be taken back.")
        .hint(format!(
            "rmq store repair {} --undo {}",
            quoted(store.root()),
            quoted(&kept)
        ))
}

/// Shows the plan on stderr and asks. `Ok` means yes.
fn confirm(session: &Session, plan: &Plan) -> Result<(), Failure> {
    if session.yes.is_some() || session.dry_run {
        return Ok(());
    }
    let mut lines = vec![format!("repair {}", plan.store.display())];
    for step in &plan.steps {
        let (before, after, why) = words(step);
        lines.push(printable(&format!(
            "  {} {}: {before} → {after}",
            step.name(),
            step.target()
        )));
        lines.extend(why.map(|why| printable(&format!("      {why}"))));
    }
    lines.push("  ! what is taken away is kept under the store and can be put back".into());
    session.talk(&lines.join("\n"));
    ask()
}

/// Compares what was wrong before with what is wrong now.
fn look_again(session: &Session, args: &RepairArgs, plan: &Plan) -> Result<(), Failure> {
    let store = args.place.open()?;
    let (mut left, mut first, mut worst) = (0u64, None, Severity::Info);
    super::verify::quietly(&store, Depth::Full, &mut |finding| {
        if finding.severity > Severity::Info {
            left += 1;
            worst = worst.max(finding.severity);
            first.get_or_insert_with(|| format!("{}: {}", finding.subject, finding.what));
        }
    })?;
    session.note(&format!(
        "verified: {} before, {} now",
        count(plan.problems, "problem"),
        left
    ));
    match first {
        None => Ok(()),
        Some(first) => Err(Failure::new(
            if worst == Severity::Error {
                exit::ERRORS
            } else {
                exit::WARNINGS
            },
            format!("{} left after the repair; first: {first}", count(left, "problem")),
        )
        .hint(format!("rmq store verify {}", quoted(store.root())))),
    }
}

fn take_back(session: &Session, store: &Store, kept: &Path) -> Result<(), Failure> {
    // A bare name means the directory under the store.
    let kept = if kept.join("journal.jsonl").exists() {
        kept.to_owned()
    } else {
        store.root().join(kept)
    };
    if !kept.join("journal.jsonl").exists() {
        let failure = Failure::new(
            exit::NOT_FOUND,
            format!("{} has no journal of a repair", kept.display()),
        );
        return Err(if kept.join("undone.jsonl").exists() {
            failure.because("What it did was taken back already.")
        } else {
            failure
        });
    }
    if session.yes.is_none() || session.dry_run {
        session.talk(&format!(
            "undo the repair whose journal is in {}: {} becomes what it was before",
            kept.display(),
            store.root().display()
        ));
    }
    if session.dry_run {
        session.note("nothing was changed (--dry-run)");
        return Ok(());
    }
    if session.yes.is_none() {
        ask()?;
    }
    let change = interrupt::Change::begin();
    let undone = undo(store, &kept)?;
    drop(change);
    session.note(&format!("{} taken back", count(undone, "change")));
    Ok(())
}

/// Asks a person to go on.
fn ask() -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            exit::DECLINED,
            "nothing was changed: stdin is not a terminal, nobody can confirm it",
        )
        .hint("the same command with --yes"));
    }
    let mut err = std::io::stderr().lock();
    write!(err, "Go on? [y/N] ")?;
    err.flush()?;
    drop(err);
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        Ok(())
    } else {
        Err(Failure::new(exit::DECLINED, "nothing was changed"))
    }
}
