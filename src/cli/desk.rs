//! Commands on behalf of the dashboard: the same code, with a desk where the terminal would be.

use std::sync::{Arc, Mutex, PoisonError};

use clap::FromArgMatches as _;
use tokio::sync::mpsc;

use super::change::{Class, Outcome, Plan};
use super::exit::{self, Failure};
use super::output::{Format, Listing, Printer};
use super::session::{Global, Session};
use super::{Cli, command, dispatch};
use crate::client::Pace;
use crate::client::scale::Progress;
use crate::tui::deed::{
    Deed, DeedTold, Level, Operator, Rehearsal, Report, Sheet, SheetCell, StepLine, Stop,
};

/// What a command says and shows, instead of printing it.
#[derive(Debug, Default)]
pub struct Desk {
    /// The words of the command line, for the journal.
    words: Vec<String>,
    /// The budget of calls that the dashboard's commands share with its screens.
    pace: Option<Arc<Pace>>,
    /// What the operator agreed to. A plan that differs by now is refused.
    agreed: Option<Rehearsal>,
    /// Where lines of progress go while it runs.
    progress: Option<(u64, mpsc::Sender<(u64, DeedTold)>)>,
    stop: Stop,
    papers: Mutex<Papers>,
}

#[derive(Debug, Default)]
struct Papers {
    lines: Vec<String>,
    rehearsal: Option<Rehearsal>,
    nothing: bool,
    report: Option<Report>,
    sheet: Option<Sheet>,
}

/// Lines kept; beyond, the oldest go.
const LINES: usize = 200;

impl Desk {
    fn papers(&self) -> std::sync::MutexGuard<'_, Papers> {
        self.papers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A text for a person.
    pub fn say(&self, text: &str) {
        let mut papers = self.papers();
        for line in text.lines() {
            if papers.lines.len() == LINES {
                papers.lines.remove(0);
            }
            papers.lines.push(line.to_owned());
            if let Some((id, told)) = &self.progress {
                // A display that is behind misses a line of progress, not the end.
                let _ = told.try_send((*id, DeedTold::Line(line.to_owned())));
            }
        }
    }

    /// Where a scaling is.
    pub fn way(&self, progress: Progress) {
        if let Some((id, told)) = &self.progress {
            // The next look tells again.
            let _ = told.try_send((*id, DeedTold::Way(Box::new(progress))));
        }
    }

    /// A listing.
    pub fn show(&self, printer: &Printer, listing: Listing) -> Result<(), Failure> {
        let listing = printer.arrange(listing)?;
        let columns: Vec<String> = listing.columns.iter().map(|c| c.key.to_owned()).collect();
        let rows = listing.rows.iter().map(|row| {
            let cell = |cell| SheetCell {
                text: printer.shown(cell),
                number: cell.number(),
            };
            row.iter().map(cell).collect()
        });
        self.papers().sheet = Some(Sheet {
            rows: rows.collect(),
            columns,
            summary: listing.summary,
            lines: Vec::new(),
            failed: listing.errors.iter().map(Failure::line).collect(),
        });
        Ok(())
    }

    /// Everything is as wanted already.
    pub fn nothing(&self) {
        self.papers().nothing = true;
    }

    /// The operator has agreed already, to this and to nothing else.
    pub fn confirm(&self, plan: &Plan, class: Class) -> Result<(), Failure> {
        let now = rehearsal(plan, class, &vec![Outcome::Planned; plan.steps.len()]);
        match &self.agreed {
            Some(agreed)
                if agreed.is_same(
                    &now,
                    !Deed::new(self.words.get(1..).unwrap_or_default()).moves_offsets(),
                ) =>
            {
                Ok(())
            }
            _ => Err(Failure::new(
                exit::PRECONDITION,
                format!("{} was not done: it is not what was shown any more", plan.action),
            )
            .because(
                "Somebody else changed it meanwhile, or a server answers that did not, or does not any more.",
            )),
        }
    }

    /// What is planned, or what became of it.
    pub fn report(&self, plan: &Plan, class: Class, outcomes: &[Outcome], undo: Option<String>) {
        let rehearsal = rehearsal(plan, class, outcomes);
        let mut papers = self.papers();
        if self.agreed.is_some() {
            papers.report = Some(Report {
                steps: rehearsal.steps,
                undo,
                failure: None,
            });
        } else {
            papers.rehearsal = Some(rehearsal);
        }
    }

    /// Resolves when the operator wants it stopped.
    pub async fn stopped(&self) {
        self.stop.asked().await;
    }

    /// The budget of calls of the command's client.
    pub fn pace(&self) -> Option<Arc<Pace>> {
        self.pace.clone()
    }

    /// The command line.
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

fn rehearsal(plan: &Plan, class: Class, outcomes: &[Outcome]) -> Rehearsal {
    let steps = plan.steps.iter().zip(outcomes).map(|(step, outcome)| StepLine {
        target: step.target.clone(),
        field: step.field.clone(),
        before: step.before.clone(),
        after: step.after.clone(),
        result: outcome.text(),
        good: outcome.is_done() || matches!(outcome, Outcome::Planned),
    });
    Rehearsal {
        action: plan.action.clone(),
        object: plan.object.clone(),
        cluster: plan.cluster.clone(),
        level: match class {
            Class::A => Level::Apply,
            Class::B => Level::Name,
            Class::C => Level::NameAndContext,
        },
        steps: steps.collect(),
        impact: plan.impact.clone(),
        lines: Vec::new(),
    }
}

/// What a command without fields to change says that it would do, such as sending a message.
fn spoken(words: &[String], protected: bool, lines: Vec<String>) -> Rehearsal {
    let topic = words
        .iter()
        .position(|w| w == "-t")
        .and_then(|at| words.get(at + 1));
    Rehearsal {
        action: words.iter().take(2).cloned().collect::<Vec<_>>().join(" "),
        object: topic.cloned().unwrap_or_else(|| "yes".to_owned()),
        cluster: String::new(),
        level: if protected { Level::Name } else { Level::Apply },
        steps: Vec::new(),
        impact: lines,
        lines: Vec::new(),
    }
}

/// The rows of a sheet, a line each.
fn row_lines(sheet: &Sheet) -> Vec<String> {
    let line = |row: &Vec<SheetCell>| {
        let pairs = sheet.columns.iter().zip(row);
        let pairs = pairs.map(|(key, cell)| format!("{key} {}", cell.text));
        pairs.collect::<Vec<_>>().join("  ")
    };
    sheet.rows.iter().map(line).collect()
}

/// Runs command lines with the global options that the dashboard was started with.
#[derive(Debug, Clone)]
pub struct DeskOperator {
    global: Global,
    protected: bool,
    pace: Arc<Pace>,
}

impl DeskOperator {
    /// An operator for the servers of `session`, whatever becomes of the configuration meanwhile; with `read_only` it only
    /// looks. Its commands ask within `pace`.
    pub fn new(global: &Global, session: &Session, read_only: bool, pace: Arc<Pace>) -> Self {
        let mut global = global.clone();
        global.namesrv = Some(session.name_servers.join(";"));
        global.context.clone_from(&session.context);
        global.no_context = session.context.is_none();
        // Nothing that changes anything leaves the client then.
        global.dry_run |= read_only;
        // What was said for the dashboard's own start is no option of its commands.
        (global.columns, global.sort_by, global.filter) = (None, None, None);
        // Not the form that the configuration prefers either.
        global.output = Some(Format::Table);
        (global.yes, global.verbose, global.quiet, global.deadline) = (None, 0, false, None);
        Self {
            global,
            protected: session.protected,
            pace,
        }
    }

    /// Runs one command on this thread.
    fn run(&self, words: &[String], dry: bool, mut desk: Desk) -> (Result<(), Failure>, Arc<Desk>) {
        desk.words = std::iter::once("rmq".to_owned())
            .chain(words.iter().cloned())
            .collect();
        desk.pace = Some(Arc::clone(&self.pace));
        let desk = Arc::new(desk);
        let done = self.parse(&desk).and_then(|mut cli| {
            cli.global = Global {
                dry_run: dry || self.global.dry_run,
                desk: Some(Arc::clone(&desk)),
                ..self.global.clone()
            };
            dispatch(cli)
        });
        (done, desk)
    }

    fn parse(&self, desk: &Desk) -> Result<Cli, Failure> {
        command()
            .try_get_matches_from(desk.words())
            .and_then(|matches| Cli::from_arg_matches(&matches))
            .map_err(|e| {
                let text = e.to_string();
                let line = text.lines().next().unwrap_or_default();
                Failure::usage(line.trim_start_matches("error: "))
            })
    }
}

/// A thread of its own for one command: it may block, and its runtime ends with it.
fn on_its_own(work: impl FnOnce() + Send + 'static) {
    // Without a thread nothing is done, and the dialog says so by its silence; that takes a machine out of threads.
    let _ = std::thread::Builder::new().name("rmq-deed".into()).spawn(work);
}

impl Operator for DeskOperator {
    fn rehearse(&self, id: u64, deed: &Deed, told: mpsc::Sender<(u64, DeedTold)>) {
        let (operator, words) = (self.clone(), deed.words.clone());
        on_its_own(move || {
            let (done, desk) = operator.run(&words, true, Desk::default());
            let mut papers = std::mem::take(&mut *desk.papers());
            let answer = match (done, papers.rehearsal) {
                // What is planned for some targets and impossible on others is shown with both.
                (_, Some(mut rehearsal)) => {
                    rehearsal.lines = std::mem::take(&mut papers.lines);
                    Ok(Some(Box::new(rehearsal)))
                }
                (Ok(()), None) if papers.nothing || papers.lines.is_empty() => Ok(None),
                (Ok(()), None) => Ok(Some(Box::new(spoken(&words, operator.protected, papers.lines)))),
                (Err(failure), None) => Err(failure.text()),
            };
            let _ = told.blocking_send((id, DeedTold::Planned(answer)));
        });
    }

    fn carry_out(&self, id: u64, deed: &Deed, shown: Rehearsal, told: mpsc::Sender<(u64, DeedTold)>) -> Stop {
        let (operator, words) = (self.clone(), deed.words.clone());
        let stop = Stop::default();
        let desk = Desk {
            agreed: Some(shown),
            progress: Some((id, told.clone())),
            stop: stop.clone(),
            ..Desk::default()
        };
        on_its_own(move || {
            let (done, desk) = operator.run(&words, false, desk);
            let mut papers = std::mem::take(&mut *desk.papers());
            let mut report = papers.report.take().unwrap_or_default();
            for line in papers.sheet.iter().flat_map(row_lines) {
                let _ = told.blocking_send((id, DeedTold::Line(line)));
            }
            report.failure = done.err().map(|failure| failure.text());
            let _ = told.blocking_send((id, DeedTold::Done(Box::new(report))));
        });
        stop
    }

    fn look(&self, words: &[String]) -> Result<Sheet, String> {
        let (done, desk) = self.run(words, true, Desk::default());
        let mut papers = std::mem::take(&mut *desk.papers());
        match (done, papers.sheet.take()) {
            (Ok(()), Some(mut sheet)) => {
                sheet.lines = papers.lines;
                Ok(sheet)
            }
            (Ok(()), None) => Ok(Sheet {
                lines: papers.lines,
                ..Sheet::default()
            }),
            // What some servers said stands beside what others did not.
            (Err(failure), Some(mut sheet)) => {
                sheet.lines = papers.lines;
                if sheet.failed.is_empty() {
                    sheet.failed.push(failure.line());
                }
                Ok(sheet)
            }
            (Err(failure), None) => Err(failure.text()),
        }
    }
}
