//! A change: plan, question, result, undo line, journal.

use std::io::{IsTerminal as _, Write as _};

use serde_json::{Value, json};

use super::exit::{self, Failure};
use super::output::{Cell, Listing, col, printable};
use super::session::Session;
use super::time;

/// How much a change can hurt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Adds something, or is trivially undone.
    A,
    /// Affects live traffic.
    B,
    /// Can lose messages or positions.
    C,
}

/// One field of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// `broker-a 127.0.0.1:10911`.
    pub target: String,
    /// Field, as the command line names it.
    pub field: String,
    /// Value now.
    pub before: String,
    /// Value afterwards.
    pub after: String,
}

/// What a change is about to do.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Verb and object, such as `update topic OrderEvents`.
    pub action: String,
    /// Name that must be typed for class C.
    pub object: String,
    /// Cluster it happens in.
    pub cluster: String,
    /// How much it can hurt.
    pub class: Class,
    /// Changed fields only.
    pub steps: Vec<Step>,
    /// What else it means, one sentence each.
    pub impact: Vec<String>,
}

/// What became of a step.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Written, and read back as wanted.
    Done,
    /// Only planned.
    Planned,
    /// Failed.
    Failed(Failure),
    /// Written without an error, but not read back as wanted.
    Unproven(String),
}

impl Outcome {
    fn text(&self) -> String {
        match self {
            Self::Done => "ok".into(),
            Self::Planned => "planned".into(),
            Self::Failed(failure) => failure.line(),
            Self::Unproven(why) => why.clone(),
        }
    }
}

/// Prints the plan on stderr and asks. `Ok` means yes.
pub fn confirm(session: &Session, plan: &Plan) -> Result<(), Failure> {
    let class = if session.protected && plan.class < Class::C {
        if plan.class == Class::A {
            Class::B
        } else {
            Class::C
        }
    } else {
        plan.class
    };
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{} was not done: the context is read only", plan.action),
        ));
    }
    // A plan for servers outside of any cluster has its object for a word.
    let cluster = if plan.cluster.is_empty() {
        &plan.object
    } else {
        &plan.cluster
    };
    match &session.yes {
        Some(answer) if session.protected => {
            if !cluster.is_empty() && answer.as_deref() == Some(cluster.as_str()) {
                return Ok(());
            }
            show(session, plan);
            return Err(Failure::new(
                exit::DECLINED,
                format!("{} was not done: the context is protected", plan.action),
            )
            .hint(format!("--yes={cluster}")));
        }
        Some(None) => return Ok(()),
        Some(Some(answer)) if *answer == plan.cluster || *answer == plan.object => return Ok(()),
        Some(Some(answer)) => {
            return Err(Failure::usage(format!(
                "--yes={answer} names neither the cluster {} nor {}",
                plan.cluster, plan.object
            )));
        }
        None => {}
    }
    show(session, plan);
    if !std::io::stdin().is_terminal() {
        return Err(Failure::new(
            exit::DECLINED,
            format!(
                "{} was not done: stdin is not a terminal, nobody can confirm it",
                plan.action
            ),
        )
        .hint("the same command with --yes"));
    }
    let word = if session.protected {
        Some(cluster)
    } else if class == Class::C {
        Some(&plan.object)
    } else {
        None
    };
    let mut err = std::io::stderr().lock();
    match word {
        Some(word) => write!(err, "Type {word} to go on: ")?,
        None => write!(err, "Go on? [y/N] ")?,
    }
    err.flush()?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    let answer = answer.trim();
    let yes = word.map_or_else(
        || matches!(answer.to_ascii_lowercase().as_str(), "y" | "yes"),
        |word| !word.is_empty() && answer == word,
    );
    if yes {
        Ok(())
    } else {
        Err(Failure::new(
            exit::DECLINED,
            format!("{} was not done", plan.action),
        ))
    }
}

/// A target that could not be read: it is not changed, and has its row all the same.
pub struct Unread {
    /// The target.
    pub target: String,
    /// Why.
    pub failure: Failure,
}

/// Adds what cannot be done to a plan; without anything that can be done, that is the failure.
pub fn mention(plan: &mut Plan, field: &str, unread: &[Unread], possible: bool) -> Result<(), Failure> {
    if !possible && !unread.is_empty() {
        let failures: Vec<Failure> = unread.iter().map(|u| u.failure.clone()).collect();
        Failure::over(&failures, false)?;
    }
    for one in unread {
        plan.impact.push(format!(
            "{} cannot be read and stays as it is: {}",
            one.target,
            one.failure.line()
        ));
        plan.steps.push(Step {
            target: one.target.clone(),
            field: field.into(),
            before: "unknown".into(),
            after: "unchanged".into(),
        });
    }
    Ok(())
}

/// Asks, does the writes, all at once, and reports. A write says how many steps of the plan are its own; the steps of
/// `unread` stand behind those of the writes.
pub async fn carry_out<T, F: Future<Output = Outcome>>(
    session: &Session,
    plan: &Plan,
    writes: Vec<(usize, T)>,
    unread: Vec<Unread>,
    undo: Option<String>,
    write: impl Fn(T) -> F,
) -> Result<(), Failure> {
    if session.dry_run {
        return report(session, plan, vec![Outcome::Planned; plan.steps.len()], None);
    }
    confirm(session, plan)?;
    let done = session
        .client
        .each(writes, |(steps, what)| {
            let outcome = write(what);
            async move { vec![outcome.await; steps] }
        })
        .await;
    let outcomes = done
        .into_iter()
        .flatten()
        .chain(unread.into_iter().map(|u| Outcome::Failed(u.failure)))
        .collect();
    report(session, plan, outcomes, undo)
}

fn show(session: &Session, plan: &Plan) {
    let mut lines = vec![format!(
        "{} in cluster {} ({}name servers {})",
        plan.action,
        plan.cluster,
        session
            .context
            .as_ref()
            .map(|c| format!("context {c}, "))
            .unwrap_or_default(),
        session.name_servers.join(";")
    )];
    for step in &plan.steps {
        lines.push(format!(
            "  {}  {}  {} → {}",
            step.target,
            step.field,
            printable(&step.before),
            printable(&step.after)
        ));
    }
    lines.extend(plan.impact.iter().map(|line| format!("  ! {line}")));
    session.talk(&lines.join("\n"));
}

/// Says what a plan means where nobody is asked, and so nobody is shown the plan.
pub fn tell_impact(session: &Session, plan: &Plan) {
    if session.dry_run || session.yes.is_some() {
        for line in &plan.impact {
            session.note(line);
        }
    }
}

/// A change from its plan on: nothing to do, a dry run, or the question, the work and the report. `work` gives one
/// outcome a step, in their order; it may put what it found into the steps.
pub async fn execute(
    session: &Session,
    mut plan: Plan,
    undo: Option<String>,
    work: impl AsyncFnOnce(&mut Plan) -> Vec<Outcome>,
) -> Result<(), Failure> {
    if plan.steps.is_empty() {
        return nothing(session);
    }
    tell_impact(session, &plan);
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return report(session, &plan, planned, None);
    }
    confirm(session, &plan)?;
    let outcomes = work(&mut plan).await;
    report(session, &plan, outcomes, undo)
}

/// Everything is as wanted: a sentence for a person, no rows for a program.
pub fn nothing(session: &Session) -> Result<(), Failure> {
    session.note("nothing to change");
    if session.is_table() {
        return Ok(());
    }
    session.printer.print(listing())
}

fn listing() -> Listing {
    let mut listing = Listing::new(
        "Change",
        &[
            col("target"),
            col("field"),
            col("before"),
            col("after"),
            col("result"),
        ],
    );
    listing.ordered = true;
    listing
}

/// Prints one row a step, the undo line, and writes the journal; the exit code follows from the outcomes.
pub fn report(
    session: &Session,
    plan: &Plan,
    outcomes: Vec<Outcome>,
    undo: Option<String>,
) -> Result<(), Failure> {
    let mut listing = listing();
    let planned = outcomes.iter().any(|o| matches!(o, Outcome::Planned));
    let done = outcomes.iter().filter(|o| matches!(o, Outcome::Done)).count();
    let mut first: Option<Failure> = None;
    for (step, outcome) in plan.steps.iter().zip(&outcomes) {
        listing.push(vec![
            step.target.as_str().into(),
            step.field.as_str().into(),
            step.before.as_str().into(),
            step.after.as_str().into(),
            Cell::Text(outcome.text()),
        ]);
        match outcome {
            Outcome::Failed(failure) => {
                listing.errors.push(failure.clone());
                first.get_or_insert_with(|| failure.clone());
            }
            Outcome::Unproven(why) => {
                let failure = Failure::new(exit::PARTIAL, format!("{}: {why}", step.target));
                listing.errors.push(failure.clone());
                first.get_or_insert(failure);
            }
            Outcome::Done | Outcome::Planned => {}
        }
    }
    let failed = listing.errors.len();
    // What was written is undone even when the rest failed.
    let undo = undo
        .filter(|_| done > 0)
        .map(|undo| session.for_same_servers(&undo));
    if let Some(undo) = &undo {
        listing.summary.insert("undo".into(), json!(undo));
    }
    if !planned {
        journal(session, plan, &outcomes, undo.as_deref());
    }
    session.printer.print(listing)?;
    if let Some(undo) = undo.filter(|_| session.is_table()) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "undo: {undo}")?;
    }
    match first {
        None => Ok(()),
        Some(failure) if done == 0 => Err(failure),
        Some(failure) => Err(Failure {
            exit: exit::PARTIAL,
            what: format!(
                "{} succeeded for {done} of {} steps, {failed} failed; first: {}",
                plan.action,
                plan.steps.len(),
                failure.what
            ),
            ..failure
        }),
    }
}

/// Appends one line to the change journal. A journal that cannot be written is a warning: the change is done.
pub fn journal(session: &Session, plan: &Plan, outcomes: &[Outcome], undo: Option<&str>) {
    if !session.journal {
        return;
    }
    let Some(dir) = super::context::state_dir() else {
        return;
    };
    let steps: Vec<Value> = plan
        .steps
        .iter()
        .zip(outcomes)
        .map(|(step, outcome)| {
            json!({
                "target": step.target, "field": step.field,
                "before": step.before, "after": step.after, "result": outcome.text(),
            })
        })
        .collect();
    let line = json!({
        "time": time::rfc3339(time::now_ms()),
        "user": std::env::var("USER").ok(),
        "context": session.context,
        "name_servers": session.name_servers,
        "cluster": plan.cluster,
        "command": std::env::args().collect::<Vec<_>>(),
        "action": plan.action,
        "steps": steps,
        "undo": undo,
    });
    let written = std::fs::create_dir_all(&dir).and_then(|()| {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(dir.join("journal.jsonl"))?;
        file.write_all(format!("{line}\n").as_bytes())
    });
    if let Err(e) = written {
        session.warn(&format!(
            "the change journal in {} was not written: {e}",
            dir.display()
        ));
    }
}
