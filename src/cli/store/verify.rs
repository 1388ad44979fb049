//! `rmq store verify`.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use clap::Args;

use super::rows::{Meter, Rows};
use super::{Place, count, holder, int, interrupt, not_inside, path};
use crate::cli::context;
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Column, col, wide};
use crate::cli::session::Session;
use crate::client::time::rfc3339;
use crate::inspect::{Depth, Finding, Options, Report, Severity, Store, state_file, verify};

/// `rmq store verify`
#[derive(Debug, Clone, Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    place: Place,
    /// Look only at files, the begin of each segment, the newest segment, the ends of the queues, headers and tables
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Look at every record, queue entry and index item: the default
    #[arg(long)]
    full: bool,
    /// Read at most this many megabytes a second
    #[arg(long, value_name = "MB/s", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    throttle: Option<u64>,
    /// Go on where an earlier full run on this store was interrupted
    #[arg(long, conflicts_with = "quick")]
    resume: bool,
    /// File that says how far a full run is, outside the store [default: verify-HASH.jsonl in ~/.local/state/rmq]
    #[arg(long, value_name = "FILE", conflicts_with = "quick")]
    state: Option<PathBuf>,
}

impl VerifyArgs {
    /// Where a full run says how far it is; `None` when there is no place for that.
    fn state(&self, root: &Path) -> Result<Option<PathBuf>, Failure> {
        let Some(path) = &self.state else {
            return Ok(context::state_dir().and_then(|dir| state_file(&dir, root)));
        };
        not_inside(root, path, "--state")?;
        Ok(Some(path.clone()))
    }
}

const COLUMNS: &[Column] = &[
    col("severity"),
    col("code"),
    col("subject"),
    col("offset"),
    col("len"),
    col("what"),
    col("meaning"),
    wide("file"),
];

fn row(finding: &Finding) -> Vec<Cell> {
    vec![
        finding.severity.name().into(),
        finding.code.into(),
        finding.subject.as_str().into(),
        finding.offset.map_or(Cell::Unknown, int),
        finding.len.map_or(Cell::Unknown, int),
        finding.what.as_str().into(),
        finding.meaning.as_str().into(),
        finding.file.as_deref().map_or(Cell::Unknown, path),
    ]
}

/// Verifies a store without a word; findings go to `found`.
pub fn quietly(store: &Store, depth: Depth, found: &mut dyn FnMut(Finding)) -> Result<Report, Failure> {
    let mut each = |finding| {
        found(finding);
        ControlFlow::Continue(())
    };
    Ok(verify(store, Options::from(depth), &mut each, &mut |_| true)?)
}

/// Runs `rmq store verify`.
pub fn run(session: &Session, args: &VerifyArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    if let Some(pid) = store.holder() {
        session.warn(&format!(
            "{} runs a broker on this store; what it is writing now is left out",
            holder(pid)
        ));
    }
    let depth = if args.quick { Depth::Quick } else { Depth::Full };
    let state = match depth {
        Depth::Quick => None,
        Depth::Full => args.state(store.root())?,
    };
    let options = Options {
        bytes_per_second: args.throttle.map(|megabytes| megabytes.saturating_mul(1_000_000)),
        state: state.as_deref(),
        resume: args.resume,
        ..Options::from(depth)
    };
    let meter = Meter::new(session, "", 0);
    // Findings and progress come from two callbacks.
    let rows = RefCell::new(Rows::new(session, "StoreFindingList", COLUMNS, meter)?);
    let failed: RefCell<Option<Failure>> = RefCell::new(None);
    let mut worst: Option<(Severity, String)> = None;
    let report = verify(
        &store,
        options,
        &mut |finding| {
            if worst
                .as_ref()
                .is_none_or(|(severity, _)| *severity < finding.severity)
            {
                worst = Some((finding.severity, format!("{}: {}", finding.subject, finding.what)));
            }
            match rows.borrow_mut().push(row(&finding)) {
                Ok(()) if interrupt::asked() => ControlFlow::Break(()),
                Ok(()) => ControlFlow::Continue(()),
                Err(failure) => {
                    failed.borrow_mut().get_or_insert(failure);
                    ControlFlow::Break(())
                }
            }
        },
        &mut |progress| {
            let mut rows = rows.borrow_mut();
            rows.meter.pass(progress.pass, progress.total);
            if let Err(failure) = rows.at(progress.done) {
                failed.borrow_mut().get_or_insert(failure);
                return false;
            }
            !interrupt::asked()
        },
    )?;
    if let Some(failure) = failed.into_inner() {
        return Err(failure);
    }
    if args.resume && report.resumed_at.is_none() {
        session.note("there was nothing to resume; this run began at the start of the log");
    }
    if report.resumed_at.is_some() {
        let of = report.resumed_of_ms.and_then(rfc3339);
        let of = of.unwrap_or_else(|| "then".to_owned());
        session.note(&format!(
            "what was found before the place that it went on from is as of {of}"
        ));
    }
    if report.could_resume {
        session
            .note("an earlier run was interrupted; this one began anew, --resume would have gone on with it");
    }
    let summary = report.summary(depth);
    let note = format!(
        "{} of {}, {} in {}, {}: {}, {}",
        count(report.records, "record"),
        count(report.bytes, "byte"),
        count(report.entries, "entry"),
        count(report.queues, "queue"),
        count(report.items, "index item"),
        count(report.errors, "error"),
        count(report.warnings, "warning")
    );
    rows.into_inner().finish(&summary, &note)?;
    if report.stopped {
        let reached = format!("{} of the log were read", count(report.bytes, "byte"));
        let failure = interrupt::failure(&reached);
        return Err(match state {
            Some(_) => failure.because("--resume goes on from there."),
            None => failure,
        });
    }
    let exit = match (report.errors, report.warnings) {
        (0, 0) => return Ok(()),
        (0, _) => exit::WARNINGS,
        _ => exit::ERRORS,
    };
    let text = format!(
        "{} and {} in {}; first: {}",
        count(report.errors, "error"),
        count(report.warnings, "warning"),
        store.root().display(),
        worst.map(|(_, text)| text).unwrap_or_default()
    );
    Err(Failure::new(exit, text))
}
