//! A change: plan, question, result, undo line, journal.

use std::io::{IsTerminal as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

use serde_json::{Value, json};

use super::exit::{self, Failure};
use super::output::{Cell, Format, Listing, col, printable};
use super::session::Session;
use super::time;
use crate::client::admin::config::{is_secret, shown};
use crate::client::words::counted;
use crate::tui::deed::UNCHANGED;

/// Targets that a scope line names.
const TARGETS: usize = 8;

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
    /// Written, and read back as wanted; what that is worth.
    DoneBut(String),
    /// Only planned.
    Planned,
    /// Failed.
    Failed(Failure),
    /// Written without an error, but not read back as wanted.
    Unproven(String),
}

impl Outcome {
    /// True when it is written and read back.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::DoneBut(_))
    }

    /// True when it may be written: what was not read back, and what nobody answered.
    pub fn may_be_written(&self) -> bool {
        match self {
            Self::Done | Self::DoneBut(_) | Self::Unproven(_) => true,
            Self::Failed(failure) => failure.unsettled,
            Self::Planned => false,
        }
    }

    /// For the result's column.
    pub fn text(&self) -> String {
        match self {
            Self::Done => "ok".into(),
            Self::DoneBut(what) => format!("ok, {what}"),
            Self::Planned => "planned".into(),
            Self::Failed(failure) => failure.line(),
            Self::Unproven(why) => why.clone(),
        }
    }
}

/// What is said of going back, under the rows of a change that was made.
#[derive(Debug, Clone)]
pub enum Undo {
    /// The command that brings the state before back.
    Line(String),
    /// Nothing does, and why.
    Never(&'static str),
    /// Nothing is left to go back from.
    Unsaid,
}

impl From<Option<String>> for Undo {
    fn from(line: Option<String>) -> Self {
        line.filter(|line| !line.is_empty())
            .map_or(Self::Unsaid, Self::Line)
    }
}

/// [`ask`] for a change whose rows are texts: asked for as metrics it is refused before anything is done.
pub fn confirm(session: &Session, plan: &Plan) -> Result<(), Failure> {
    refuse_metrics(session, &plan.action)?;
    ask(session, plan)
}

/// A result without numbers cannot be printed as metrics; that is said while nothing is done yet.
pub fn refuse_metrics(session: &Session, action: &str) -> Result<(), Failure> {
    if session.printer.format == Format::Prometheus {
        return Err(Failure::usage(format!(
            "{action} was not done: a change has no metrics; use -o table, json or csv"
        )));
    }
    Ok(())
}

/// What can lose messages is not done by a bare --yes on a scope that nobody named. mqadmin's old lines never named one.
pub fn want_name(session: &Session, plan: &Plan) -> Result<(), Failure> {
    if session.dry_run || session.protected || session.bridged || session.yes != Some(None) {
        return Ok(());
    }
    show(session, plan);
    Err(Failure::new(
        exit::DECLINED,
        format!("{} was not done: --yes alone names nothing", plan.action),
    )
    .because("What can lose messages is done when its broker or cluster is named.")
    .hint(format!("--yes={}", plan.object)))
}

/// The class that counts: one higher in a protected context.
pub fn effective_class(session: &Session, plan: &Plan) -> Class {
    match plan.class {
        class if !session.protected => class,
        Class::A => Class::B,
        Class::B | Class::C => Class::C,
    }
}

/// Prints the plan on stderr and asks. `Ok` means yes: from there on the change is under way until it is reported.
pub fn ask(session: &Session, plan: &Plan) -> Result<(), Failure> {
    agree(session, plan)?;
    session.under_way.begin(plan);
    Ok(())
}

fn agree(session: &Session, plan: &Plan) -> Result<(), Failure> {
    let class = effective_class(session, plan);
    if session.read_only {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{} was not done: the context is read only", plan.action),
        ));
    }
    if let Some(desk) = session.desk() {
        return desk.confirm(plan, class);
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
                tell(session, plan);
                return Ok(());
            }
            show(session, plan);
            let wrong = answer.as_ref().map_or_else(String::new, |answer| {
                format!(", and {answer} is not the name of the cluster")
            });
            return Err(Failure::new(
                exit::DECLINED,
                format!("{} was not done: the context is protected{wrong}", plan.action),
            )
            .hint(format!("--yes={cluster}")));
        }
        Some(None) => {
            tell(session, plan);
            return Ok(());
        }
        Some(Some(answer)) if *answer == plan.cluster || *answer == plan.object => {
            tell(session, plan);
            return Ok(());
        }
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
        .hint(match session.protected {
            true => format!("the same command with --yes={cluster}"),
            false => "the same command with --yes".to_owned(),
        }));
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

impl Unread {
    /// A target that was not read for this reason.
    pub fn at(target: impl ToString, failure: Failure) -> Self {
        Self {
            target: target.to_string(),
            failure,
        }
    }
}

/// Adds what cannot be done to a plan; without anything that can be done, that is the failure.
pub fn mention(plan: &mut Plan, field: &str, unread: &[Unread], possible: bool) -> Result<(), Failure> {
    if !possible && !unread.is_empty() {
        let failures: Vec<Failure> = unread.iter().map(|u| u.failure.clone()).collect();
        Failure::over(&failures, false)?;
    }
    for one in unread {
        plan.impact
            .push(format!("{} stays as it is: {}", one.target, one.failure.line()));
        plan.steps.push(Step {
            target: one.target.clone(),
            field: field.into(),
            before: "unknown".into(),
            after: UNCHANGED.into(),
        });
    }
    Ok(())
}

/// What became of a write. `read_back` tells what is not as wanted; it is asked as well where nobody answered the write,
/// which may have been done.
pub async fn proof<T>(
    written: Result<T, impl Into<Failure>>,
    read_back: impl Future<Output = Result<Option<String>, Failure>>,
) -> Outcome {
    let lost = match written.map_err(Into::into) {
        Ok(_) => None,
        Err(failure) if failure.unsettled => Some(failure),
        Err(failure) => return Outcome::Failed(failure),
    };
    match (read_back.await, lost) {
        (Ok(None), _) => Outcome::Done,
        (Ok(Some(why)), Some(failure)) => Outcome::Failed(failure.seen(&why)),
        (Err(e), Some(failure)) => Outcome::Failed(failure.seen(&format!("not read back: {}", e.line()))),
        (Ok(Some(why)), None) => Outcome::Unproven(why),
        (Err(e), None) => Outcome::Unproven(format!("done, but not read back: {}", e.line())),
    }
}

/// Asks, does the writes, all at once, and reports. A write says how many steps of the plan are its own; the steps of
/// `unread` stand behind those of the writes.
pub async fn carry_out<T, F: Future<Output = Outcome>>(
    session: &Session,
    plan: &Plan,
    writes: Vec<(usize, T)>,
    unread: Vec<Unread>,
    undo: impl Into<Undo>,
    write: impl Fn(T) -> F,
) -> Result<(), Failure> {
    if session.dry_run {
        return rehearse(session, plan, unread, 0);
    }
    confirm(session, plan)?;
    let undo = undo.into();
    session.under_way.undone_by(undo.clone());
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

/// What is done and where: the first line of every plan.
fn head(session: &Session, plan: &Plan) -> String {
    let cluster = match plan.cluster.as_str() {
        "" => String::new(),
        cluster => format!(" in cluster {cluster}"),
    };
    let context = session.context.as_ref().map(|c| format!("context {c}, "));
    format!(
        "{}{cluster} ({}name servers {})",
        plan.action,
        context.unwrap_or_default(),
        session.name_servers.join(";")
    )
}

fn impact_lines(plan: &Plan) -> impl Iterator<Item = String> {
    plan.impact.iter().map(|line| format!("  ! {line}"))
}

fn show(session: &Session, plan: &Plan) {
    let mut lines = vec![head(session, plan)];
    for step in &plan.steps {
        lines.push(format!(
            "  {}  {}  {} → {}",
            step.target,
            step.field,
            printable(&step.before),
            printable(&step.after)
        ));
    }
    lines.extend(impact_lines(plan));
    session.talk(&lines.join("\n"));
}

/// What is done, where, to which targets, and what it means: for a change that asks nobody, and so shows nobody its plan.
/// The dashboard has shown it.
pub fn tell(session: &Session, plan: &Plan) {
    if session.desk().is_some() || session.is_quiet() {
        return;
    }
    let mut targets: Vec<&str> = Vec::new();
    for step in &plan.steps {
        if !targets.contains(&step.target.as_str()) {
            targets.push(&step.target);
        }
    }
    let more = targets.len().saturating_sub(TARGETS);
    targets.truncate(TARGETS);
    let mut line = format!("{}: {}", head(session, plan), targets.join(", "));
    if more > 0 {
        line.push_str(&format!(" and {more} more"));
    }
    let lines: Vec<String> = std::iter::once(line).chain(impact_lines(plan)).collect();
    session.talk(&lines.join("\n"));
}

/// A dry run: what is planned, and what cannot be done since it was not read. The steps of `unread` stand together, with
/// `behind` others behind them.
pub fn rehearse(session: &Session, plan: &Plan, unread: Vec<Unread>, behind: usize) -> Result<(), Failure> {
    let mut outcomes = vec![Outcome::Planned; plan.steps.len()];
    let first = outcomes.len().saturating_sub(behind + unread.len());
    for (outcome, unread) in outcomes.iter_mut().skip(first).zip(unread) {
        *outcome = Outcome::Failed(unread.failure);
    }
    report(session, plan, outcomes, Undo::Unsaid)
}

/// A change from its plan on: nothing to do, a dry run, or the question, the work and the report. `work` gives one
/// outcome a step, in their order; it may put what it found into the steps.
pub async fn execute(
    session: &Session,
    plan: Plan,
    undo: impl Into<Undo>,
    work: impl AsyncFnOnce(&mut Plan) -> Vec<Outcome>,
) -> Result<(), Failure> {
    execute_but(session, plan, Vec::new(), undo, work).await
}

/// [`execute`] for a plan whose last steps are those of `unread`, which `work` knows nothing of.
async fn execute_but(
    session: &Session,
    mut plan: Plan,
    unread: Vec<Unread>,
    undo: impl Into<Undo>,
    work: impl AsyncFnOnce(&mut Plan) -> Vec<Outcome>,
) -> Result<(), Failure> {
    if plan.steps.is_empty() {
        return nothing(session);
    }
    if session.dry_run {
        return rehearse(session, &plan, unread, 0);
    }
    confirm(session, &plan)?;
    let undo = undo.into();
    session.under_way.undone_by(undo.clone());
    let mut outcomes = work(&mut plan).await;
    outcomes.extend(unread.into_iter().map(|u| Outcome::Failed(u.failure)));
    report(session, &plan, outcomes, undo)
}

/// A change of several targets at once, from its plan on. The steps of the plan are those of `work`, in its order; what was
/// not read gets a row called `field` that says why. `write` gives the outcomes of its own steps.
pub async fn each<T, F: Future<Output = Vec<Outcome>>>(
    session: &Session,
    mut plan: Plan,
    (field, unread): (&str, Vec<Unread>),
    work: Vec<T>,
    undo: impl Into<Undo>,
    write: impl Fn(T) -> F,
) -> Result<(), Failure> {
    mention(&mut plan, field, &unread, !work.is_empty())?;
    execute_but(session, plan, unread, undo, async |_| {
        let done = session.client.each(work, write).await;
        done.into_iter().flatten().collect()
    })
    .await
}

/// Everything is as wanted: a sentence for a person, no rows for a program.
pub fn nothing(session: &Session) -> Result<(), Failure> {
    session.note("nothing to change");
    if let Some(desk) = session.desk() {
        desk.nothing();
        return Ok(());
    }
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
    undo: impl Into<Undo>,
) -> Result<(), Failure> {
    if session.dry_run {
        tell(session, plan);
    }
    let mut listing = listing();
    let planned = outcomes.iter().any(|o| matches!(o, Outcome::Planned));
    let done = outcomes.iter().filter(|o| o.is_done()).count();
    let (mut first, mut doubt) = (None::<Failure>, 0);
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
                doubt += usize::from(failure.unsettled);
                listing.errors.push(failure.clone());
                first.get_or_insert_with(|| failure.clone());
            }
            Outcome::Unproven(why) => {
                doubt += 1;
                let failure = Failure::new(exit::PARTIAL, format!("{}: {why}", step.target));
                listing.errors.push(failure.clone());
                first.get_or_insert(failure);
            }
            Outcome::Done | Outcome::DoneBut(_) | Outcome::Planned => {}
        }
    }
    let failed = listing.errors.len() - doubt;
    let unsettled = listing.errors.iter().any(|failure| failure.unsettled);
    // What was written is undone even when the rest failed, and what may have been written as well.
    let (undo, never) = match undo.into() {
        _ if !outcomes.iter().any(Outcome::may_be_written) => (None, None),
        Undo::Line(undo) => (Some(session.for_same_servers(&undo)), None),
        Undo::Never(why) => (None, Some(why)),
        Undo::Unsaid => (None, None),
    };
    if let Some(undo) = &undo {
        listing.summary.insert("undo".into(), json!(undo));
    }
    if let Some(why) = never {
        listing.summary.insert("no_undo".into(), json!(why));
    }
    if !planned {
        journal(session, plan, &outcomes, undo.as_deref());
    }
    if let Some(desk) = session.desk() {
        desk.report(plan, effective_class(session, plan), &outcomes, undo);
    } else {
        session.printer.print(listing)?;
        print_undo(session, undo)?;
        if let Some(why) = never.filter(|_| session.is_table()) {
            writeln!(std::io::stdout().lock(), "no undo: {why}")?;
        }
    }
    let (good, verb, rest) = if planned {
        (outcomes.len() - failed, "is planned", "cannot be done")
    } else {
        (done, "succeeded", "failed")
    };
    let parts = [(failed, rest), (doubt, "not known to be done")];
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, what)| format!("{n} {what}")).collect();
    match first {
        None => Ok(()),
        Some(failure) if good == 0 => Err(Failure { unsettled, ..failure }),
        Some(failure) => Err(Failure {
            exit: exit::PARTIAL,
            what: format!(
                "{} {verb} for {good} of {}, {}; first: {}",
                plan.action,
                counted(plan.steps.len(), "step"),
                parts.join(", "),
                failure.what
            ),
            unsettled,
            ..failure
        }),
    }
}

fn print_undo(session: &Session, undo: Option<String>) -> Result<(), Failure> {
    if let Some(undo) = undo.filter(|_| session.is_table()) {
        let mut out = std::io::stdout().lock();
        writeln!(out, "undo: {undo}")?;
    }
    Ok(())
}

/// A change that is left in its middle: nobody knows what is written, so all of it may be. The failure to end with.
pub fn left(session: &Session, plan: &Plan, undo: Undo, why: Failure) -> Failure {
    let outcomes = vec![Outcome::Failed(why.clone().unsettled()); plan.steps.len()];
    report(session, plan, outcomes, undo).err().unwrap_or(why)
}

/// A change that was cut short and may have written something: into the journal, and onto the desk. Who calls says the
/// rest.
pub fn cut_short(session: &Session, plan: &Plan, outcomes: &[Outcome], undo: String) {
    journal(session, plan, outcomes, Some(&undo));
    if let Some(desk) = session.desk() {
        desk.report(plan, effective_class(session, plan), outcomes, Some(undo));
    }
}

/// Appends one line to the change journal: the change is over. A journal that cannot be written is a warning: the change is
/// done.
pub fn journal(session: &Session, plan: &Plan, outcomes: &[Outcome], undo: Option<&str>) {
    session.under_way.end();
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
        "command": masked(session.words()),
        "action": plan.action,
        "steps": steps,
        "undo": undo,
    });
    let written = std::fs::create_dir_all(&dir).and_then(|()| {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .mode(0o600)
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

/// A command line as it may be kept: without the values of secret keys, be they KEY=VALUE or mqadmin's `-k KEY -v VALUE`.
fn masked(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    let (mut flag, mut of_secret) = (String::new(), false);
    for word in words {
        let follows = std::mem::take(&mut flag);
        kept.push(match word.split_once('=') {
            _ if of_secret && ["-v", "--value"].contains(&follows.as_str()) => "***".into(),
            Some((key, value)) if is_secret(key) => format!("{key}={}", shown(key, value)),
            Some((name @ ("-v" | "--value"), _)) if of_secret => format!("{name}=***"),
            Some(("-k" | "--key", key)) => {
                of_secret = is_secret(key);
                word
            }
            _ => {
                if ["-k", "--key"].contains(&follows.as_str()) {
                    of_secret = is_secret(&word);
                }
                flag.clone_from(&word);
                word
            }
        });
    }
    // mqadmin takes the value before the key as well.
    if of_secret {
        for at in 1..kept.len() {
            if ["-v", "--value"].contains(&kept[at - 1].as_str()) {
                kept[at] = "***".into();
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{self, CallError};

    /// A lost answer is settled by reading back, and by nothing else.
    #[tokio::test]
    async fn reading_back_tells_what_became_of_a_write() {
        let call = |source: CallError| client::Error::Call {
            request: "UPDATE_AND_CREATE_TOPIC",
            server: client::Server::at("127.0.0.1:1"),
            source,
            changes: true,
        };
        let addr = || "127.0.0.1:1".to_owned();
        let lost = || call(CallError::Closed { addr: addr() });
        let refused = || call(CallError::Busy { addr: addr() });
        let written = |e: client::Error| Err::<(), _>(Failure::from(&e));
        let good = || std::future::ready(Ok(None));
        let other = || std::future::ready(Ok(Some("reads back 3".to_owned())));
        let unread = || std::future::ready(Err(Failure::from(&lost())));

        assert!(matches!(proof(Ok::<_, Failure>(()), good()).await, Outcome::Done));
        assert!(matches!(
            proof(Ok::<_, Failure>(()), other()).await,
            Outcome::Unproven(_)
        ));
        assert!(matches!(
            proof(Ok::<_, Failure>(()), unread()).await,
            Outcome::Unproven(_)
        ));
        assert!(matches!(proof(written(lost()), good()).await, Outcome::Done));
        for outcome in [
            proof(written(lost()), other()).await,
            proof(written(lost()), unread()).await,
        ] {
            let text = outcome.text();
            assert!(outcome.may_be_written() && text.contains("not known"), "{text}");
            assert!(
                !text.contains("but not read back"),
                "nobody said that it was done: {text}"
            );
        }
        // What was refused is not asked for.
        let outcome = proof(written(refused()), good()).await;
        assert!(matches!(outcome, Outcome::Failed(_)) && !outcome.may_be_written());
    }

    #[test]
    fn no_secret_gets_into_the_journals_command() {
        let kept = |line: &str| masked(line.split(' ').map(str::to_owned)).join(" ");
        for (line, wanted) in [
            (
                "rmq broker set-config b initAuthenticationUser={\"password\":\"x\"} traceOn=true",
                "rmq broker set-config b initAuthenticationUser=*** traceOn=true",
            ),
            (
                "rmq mqadmin updateBrokerConfig -b a:1 -k metricsGrpcExporterHeader -v token:x",
                "rmq mqadmin updateBrokerConfig -b a:1 -k metricsGrpcExporterHeader -v ***",
            ),
            (
                "rmq mqadmin updateBrokerConfig --value x --key=initAuthenticationUser",
                "rmq mqadmin updateBrokerConfig --value *** --key=initAuthenticationUser",
            ),
            (
                "rmq mqadmin updateBrokerConfig -k traceOn -v true",
                "rmq mqadmin updateBrokerConfig -k traceOn -v true",
            ),
            (
                "rmq -v topic create T --queues 4",
                "rmq -v topic create T --queues 4",
            ),
        ] {
            assert_eq!(kept(line), wanted);
        }
    }
}
