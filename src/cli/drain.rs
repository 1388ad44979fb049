//! `rmq broker drain|undrain`.

mod stop;

use std::collections::BTreeSet;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::change::{self, Class, Outcome, Plan, Step};
use super::exit::{self, Failure};
use super::session::Session;
use super::{quoted, time};
use crate::client::drain::{Calm, Drain, Look, Next, Observer, PERMISSION, Settings, Survey, permission};
use crate::client::scale::kept::file_name;
use crate::client::words::counted;
use crate::client::{BrokerAt, BrokerSelector, Scope, Which};
use crate::protocol::model::Perm;

/// Pause between two lines of progress.
const TELL: Duration = Duration::from_secs(5);

/// `rmq broker drain`
#[derive(Debug, Clone, Args)]
pub struct DrainArgs {
    /// Broker name or HOST:PORT of a master
    broker: BrokerSelector,
    /// How producers are sent away
    #[arg(long, value_name = "METHOD", default_value = "permission")]
    method: Method,
    /// How long no message may come
    #[arg(long = "quiet-time", value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    quiet_time: Duration,
    /// End of all waiting; exit code 8
    #[arg(long, value_name = "DURATION", default_value = "30m", value_parser = time::parse_duration)]
    deadline: Duration,
    /// This topic may have no writable broker left; repeatable
    #[arg(long, value_name = "TOPIC")]
    allow_unwritable: Vec<String>,
    /// Wait until the broker's own writes end as well
    #[arg(long)]
    include_system: bool,
    /// Do not wait for delayed, timed and half messages: they go on when the broker is back
    #[arg(long)]
    ignore_delayed: bool,
    /// How long the backlog must be gone where pop clients may hold messages
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time::parse_duration)]
    pop_wait: Duration,
    /// Do not wait for this group, though it is or was online; repeatable
    #[arg(long, value_name = "GROUP")]
    ignore_group: Vec<String>,
    /// End the broker's process when it is safe to stop: only for one of this host that `rmq broker start` runs
    #[arg(long)]
    then_stop: bool,
}

/// `rmq broker undrain`
#[derive(Debug, Clone, Args)]
pub struct UndrainArgs {
    /// Broker name or HOST:PORT of a master
    broker: BrokerSelector,
    /// How producers were sent away [default: as the drain did it, else permission]
    #[arg(long, value_name = "METHOD")]
    method: Option<Method>,
}

/// `--method`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Method {
    /// The broker's own brokerPermission
    Permission,
    /// Write permission wiped at each name server, again and again while it drains
    Wipe,
}

/// What a drain leaves for its undoing.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    method: Method,
    permission: i32,
    begun: String,
}

impl Kept {
    /// The permission to go back to. Where somebody let producers in meanwhile they stay.
    fn restored(&self, now: Perm) -> Perm {
        let was = Perm(self.permission);
        if now.writable() && !was.writable() {
            now
        } else {
            was
        }
    }
}

fn kept_path(session: &Session, broker: &BrokerAt) -> Option<PathBuf> {
    let name = file_name(&broker.id.cluster, &broker.id.name, &session.name_servers);
    Some(super::context::state_dir()?.join("drain").join(name))
}

/// What an earlier drain left; a file that cannot be understood is not taken for none.
fn read_kept(session: &Session, broker: &BrokerAt) -> Result<Option<Kept>, Failure> {
    let Some(path) = kept_path(session, broker) else {
        return Ok(None);
    };
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        text => text.map_err(|e| e.to_string()),
    };
    let kept = text.and_then(|text| serde_json::from_str(&text).map_err(|e| e.to_string()));
    kept.map(Some).map_err(|why| {
        Failure::new(
            exit::PRECONDITION,
            format!(
                "what {} was before it was drained cannot be read: {why}; nothing was changed",
                broker.server()
            ),
        )
        .because(format!("It stands in {}.", path.display()))
        .hint("mend that file, or remove it and see to brokerPermission yourself")
    })
}

fn keep(session: &Session, broker: &BrokerAt, kept: &Kept) {
    let Some(path) = kept_path(session, broker) else {
        return;
    };
    let text = serde_json::to_vec(kept).unwrap_or_default();
    if let Err(e) = crate::replace::replace(&path, &text) {
        session.warn(&format!("what undrain restores was not written down: {e}"));
    }
}

/// Nothing is drained any more.
fn forget(session: &Session, broker: &BrokerAt) {
    let Some(path) = kept_path(session, broker) else {
        return;
    };
    for path in [crate::replace::beside(&path, ".bak"), path] {
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                session.warn(&format!("{} stays: {e}", path.display()));
            }
            _ => {}
        }
    }
}

async fn master(session: &Session, selector: &BrokerSelector) -> Result<BrokerAt, Failure> {
    let scope = Scope {
        cluster: None,
        brokers: vec![selector.clone()],
    };
    let brokers = session.client.brokers(&scope, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    match brokers.as_slice() {
        [only] if only.id.is_master() && !only.id.name.is_empty() => Ok(only.clone()),
        [] => Err(Failure::new(
            exit::NOT_FOUND,
            format!("{} has no master that is registered", selector.0),
        )),
        _ => Err(
            Failure::usage(format!("{} is not one registered master", selector.0)).hint("rmq broker list"),
        ),
    }
}

/// `rmq broker drain`
pub async fn drain(session: &Session, args: DrainArgs) -> Result<(), Failure> {
    let client = &session.client;
    let broker = master(session, &args.broker).await?;
    let survey = client.drain_survey(&broker).await?;
    refuse(&broker, &survey, &args)?;
    let before = read_kept(session, &broker)?;
    let own = args
        .then_stop
        .then(|| stop::Own::find(&broker, client.detour(&broker.addr)))
        .transpose()?;
    let wipe = args.method == Method::Wipe;
    let mut observer = Observer::new(broker.clone(), &survey, wipe);
    let pending = observer.pending(client).await?;
    let due = pending.last_due_ms.unwrap_or(0);
    let end = time::now_ms().saturating_add(i64::try_from(args.deadline.as_millis()).unwrap_or(i64::MAX));
    if due > end && !args.ignore_delayed {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!(
                "{pending} wait on {}, the last until {}: behind the deadline; nothing was changed",
                broker.server(),
                session.printer.zone.text(due).unwrap_or_default()
            ),
        )
        .hint("--ignore-delayed: they go on when the broker is back"));
    }
    let mut plan = describe(&broker, &survey, &args);
    plan.impact.push(client.use_of_brokers([broker.server()]).await);
    if !survey.permission.writable() && before.is_none() {
        plan.impact.push(format!(
            "{PERMISSION} is {} already, and not by a drain that is known here: undrain leaves it so",
            survey.permission.0
        ));
    }
    if let Some(own) = &own {
        plan.impact
            .push(format!("process {} is ended when it is safe", own.pid()));
    }
    if !pending.is_empty() {
        let waits = if args.ignore_delayed {
            "stay"
        } else {
            "are waited for"
        };
        let last = session
            .printer
            .zone
            .text(due)
            .filter(|_| due > 0)
            .map_or_else(String::new, |text| format!(", the last is due {text}"));
        plan.impact.push(format!("{pending} {waits}{last}"));
    }
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let undrain = format!("rmq broker undrain {}", quoted(&broker.id.name));
    session.under_way.undone_by(Some(undrain.clone()));
    // A wipe stays at the name servers until it is taken back, whatever came after it.
    let wiped = before.as_ref().is_some_and(|kept| kept.method == Method::Wipe);
    let kept = Kept {
        method: if wiped { Method::Wipe } else { args.method },
        permission: recorded(before.as_ref(), survey.permission),
        begun: time::rfc3339(time::now_ms()).unwrap_or_default(),
    };
    keep(session, &broker, &kept);
    let undo = session.for_same_servers(&undrain);
    let again = session.for_same_servers(&format!("rmq broker drain {}", quoted(&broker.id.name)));
    if wipe {
        for (addr, done) in client.set_route_writable(&broker.id.name, false).await {
            if let Err(e) = done {
                session.warn(&format!("name server {addr}: {}", e.reason()));
            }
        }
    } else if survey.permission.writable() {
        let outcome = write_permission(session, &broker, survey.permission.without(Perm::WRITE)).await;
        if !outcome.is_done() {
            let may_be_closed = outcome.may_be_written();
            return change::report(session, &plan, vec![outcome], Some(undrain)).map_err(|failure| {
                match may_be_closed {
                    true => failure
                        .because("Producers may be kept off it.")
                        .hint(format!("{again} again, or {undo}")),
                    false => failure,
                }
            });
        }
    }
    let ended = wait(session, &broker, &mut observer, &args).await?;
    if !matches!(ended, Ended::Safe(..)) {
        // Producers are kept off all the same.
        let outcome = Outcome::Unproven("not drained to the end".into());
        change::journal(session, &plan, &[outcome], Some(&undo));
    }
    match ended {
        Ended::Safe(calm, look) => {
            let outcomes = vec![Outcome::Done; plan.steps.len()];
            change::report(session, &plan, outcomes, Some(undrain))?;
            tell_safe(session, &broker, &survey, calm, &look, &args.ignore_group)?;
            match own {
                Some(own) => own.end(session, args.deadline).await,
                None => Ok(()),
            }
        }
        Ended::Deadline(left) => Err(Failure::new(
            exit::TIMEOUT,
            format!(
                "{} is not drained after {}; producers are kept off it",
                broker.server(),
                time::duration(args.deadline)
            ),
        )
        .because(left.join("\n       "))
        .hint(format!("{again} again, or {undo}"))),
        Ended::Stopped => stopped(session, &broker, &kept, (&again, &undo)).await,
    }
}

/// The permission to restore: that of an earlier drain when this one finds the broker closed already, else what is
/// there.
fn recorded(before: Option<&Kept>, now: Perm) -> i32 {
    match before {
        Some(kept) if !now.writable() => kept.permission,
        _ => now.0,
    }
}

fn refuse(broker: &BrokerAt, survey: &Survey, args: &DrainArgs) -> Result<(), Failure> {
    let server = broker.server();
    let no = |what: String| Failure::new(exit::PRECONDITION, format!("{what}; nothing was changed"));
    if !survey.disagree.is_empty() {
        return Err(no(format!(
            "name servers do not list {server} as a master at its address: {}",
            survey.disagree.join(", ")
        ))
        .hint("rmq namesrv list"));
    }
    if survey.others.is_empty() {
        return Err(no(format!(
            "{server} is the last broker of cluster {} that takes messages",
            broker.id.cluster
        )));
    }
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    if !survey.static_topics.is_empty() {
        return Err(no(format!(
            "{server} has queues of static topics: {}",
            list(&survey.static_topics)
        ))
        .because("Their queues are moved to other brokers, not drained."));
    }
    let allowed: BTreeSet<String> = args.allow_unwritable.iter().cloned().collect();
    let unwritable: BTreeSet<String> = survey.only_here.difference(&allowed).cloned().collect();
    if !unwritable.is_empty() {
        let flags: Vec<String> = unwritable
            .iter()
            .map(|t| format!("--allow-unwritable {}", quoted(t)))
            .collect();
        return Err(no(format!(
            "without {server} no producer could write to {}",
            list(&unwritable)
        ))
        .hint(format!(
            "rmq topic create on another broker, or {}",
            flags.join(" ")
        )));
    }
    Ok(())
}

fn describe(broker: &BrokerAt, survey: &Survey, args: &DrainArgs) -> Plan {
    let server = broker.server();
    let closed = survey.permission.without(Perm::WRITE);
    let step = if args.method == Method::Wipe {
        Step {
            target: "every name server".into(),
            field: format!("write permission of {}", broker.id.name),
            before: "as registered".into(),
            after: "wiped".into(),
        }
    } else {
        Step {
            target: server.to_string(),
            field: PERMISSION.into(),
            before: survey.permission.0.to_string(),
            after: closed.0.to_string(),
        }
    };
    let mut impact = vec![format!(
        "producers of {} go to {}",
        counted(survey.topics.len(), "topic"),
        survey.others.join(", ")
    )];
    let list = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(", ");
    if !survey.ordered.is_empty() {
        impact.push(format!(
            "ordered topics lose their order once: {}",
            list(&survey.ordered)
        ));
    }
    if !survey.idle_only_here.is_empty() {
        impact.push(format!(
            "not writable any more, without a message for a day: {}",
            list(&survey.idle_only_here)
        ));
    }
    if !survey.only_here.is_empty() {
        impact.push(format!(
            "not writable any more, as allowed: {}",
            list(&survey.only_here)
        ));
    }
    Plan {
        action: format!("drain broker {}", broker.id.name),
        object: broker.id.name.clone(),
        cluster: broker.id.cluster.clone(),
        class: Class::B,
        steps: vec![step],
        impact,
    }
}

/// Writes the permission and reads it back.
async fn write_permission(session: &Session, broker: &BrokerAt, wanted: Perm) -> Outcome {
    let client = &session.client;
    let server = broker.server();
    let entry = (PERMISSION.to_owned(), wanted.0.to_string());
    let written = client
        .set_broker_config(&server, std::slice::from_ref(&entry), client.deadline())
        .await;
    let read_back = async {
        let now = permission(&client.broker_config(&server, client.deadline()).await?);
        Ok((now != wanted).then(|| format!("{PERMISSION} reads back {}, not {}", now.0, wanted.0)))
    };
    change::proof(written, read_back).await
}

enum Ended {
    Safe(Calm, Box<Look>),
    Deadline(Vec<String>),
    Stopped,
}

async fn wait(
    session: &Session,
    broker: &BrokerAt,
    observer: &mut Observer,
    args: &DrainArgs,
) -> Result<Ended, Failure> {
    let pause = (args.quiet_time / 4).clamp(Duration::from_millis(200), Duration::from_secs(2));
    let settings = Settings {
        quiet: args.quiet_time,
        deadline: args.deadline,
        pause,
        include_system: args.include_system,
        ignore_delayed: args.ignore_delayed,
        pop_wait: args.pop_wait,
        ignored: args.ignore_group.iter().cloned().collect(),
    };
    let mut drain = Drain::new(settings, time::now_ms());
    let stop = session.stopped();
    tokio::pin!(stop);
    let mut told: Option<tokio::time::Instant> = None;
    loop {
        let started = tokio::time::Instant::now();
        let look = tokio::select! {
            () = &mut stop => return Ok(Ended::Stopped),
            look = observer.look(&session.client) => look,
        };
        match drain.next(&look) {
            Next::Safe(calm) => return Ok(Ended::Safe(calm, Box::new(look))),
            Next::Deadline(left) => return Ok(Ended::Deadline(left)),
            Next::Wait(left) => {
                if told.is_none_or(|at| at.elapsed() >= TELL) {
                    told = Some(tokio::time::Instant::now());
                    session.progress(&format!("drain {}: {}", broker.id.name, left.join("; ")));
                }
            }
        }
        // Looks at a broker with many topics are long: they do not become its load.
        let pause = pause.max(started.elapsed() * 4);
        tokio::select! {
            () = &mut stop => return Ok(Ended::Stopped),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The last line: what was seen, and that it may stop.
fn tell_safe(
    session: &Session,
    broker: &BrokerAt,
    survey: &Survey,
    calm: Calm,
    look: &Look,
    ignored: &[String],
) -> Result<(), Failure> {
    for (group, lag) in &look.offline {
        session.warn(&format!(
            "{group} is offline and {} behind on this broker{}",
            counted(*lag, "message"),
            look.unplaced_of(group)
        ));
    }
    let passed_over: Vec<(&String, i64)> = look
        .online
        .iter()
        .filter(|(group, lag)| **lag > 0 && ignored.contains(group))
        .map(|(group, lag)| (group, *lag))
        .collect();
    for (group, lag) in &passed_over {
        session.warn(&format!(
            "{group} is ignored and {} behind on this broker{}",
            counted(*lag, "message"),
            look.unplaced_of(group)
        ));
    }
    if !look.broadcasting.is_empty() {
        let names: Vec<&str> = look.broadcasting.iter().map(String::as_str).collect();
        session.warn(&format!(
            "broadcasting, what they have read only their clients know: {}",
            names.join(", ")
        ));
    }
    if !look.pending.is_empty() {
        session.warn(&format!("{} stay on it", look.pending));
    }
    if !look.producers.is_empty() {
        let names: Vec<&str> = look.producers.iter().map(String::as_str).collect();
        session.note(&format!("still connected: {}", names.join(", ")));
    }
    if let Some(tps) = look.in_tps.filter(|tps| *tps > 0.0) {
        session.note(&format!("the broker's own writes: {tps:.1}/s over the last 10 s"));
    }
    let slave = calm.slave_behind.map_or_else(
        || "no slave".to_owned(),
        |bytes| format!("slave diff {bytes} bytes"),
    );
    let mut stay: Vec<String> = look
        .offline
        .iter()
        .map(|(group, lag)| format!("{lag} of offline {group}"))
        .collect();
    stay.extend(
        passed_over
            .iter()
            .map(|(group, lag)| format!("{lag} of ignored {group}")),
    );
    let offline = if stay.is_empty() {
        String::new()
    } else {
        format!(" of the groups waited for ({} stay)", stay.join(", "))
    };
    let line = format!(
        "SAFE TO STOP {} ({}): in 0/s for {} s, {}, lag 0{offline}, {slave}",
        broker.id.name,
        broker.addr,
        calm.quiet_s,
        counted(survey.queues, "queue")
    );
    if session.is_table() && session.desk().is_none() {
        writeln!(std::io::stdout().lock(), "{line}")?;
    } else {
        session.talk(&line);
    }
    Ok(())
}

/// Ctrl-C: the broker is closed to producers, which a person may want to take back at once.
async fn stopped(
    session: &Session,
    broker: &BrokerAt,
    kept: &Kept,
    (again, undo): (&str, &str),
) -> Result<(), Failure> {
    let ask = session.desk().is_none() && std::io::stdin().is_terminal();
    let restore = ask && {
        let mut err = std::io::stderr().lock();
        write!(err, "\nRestore write permission? [Y/n] ")?;
        err.flush()?;
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        !answer.trim().to_ascii_lowercase().starts_with('n')
    };
    if restore {
        let client = &session.client;
        let config = client.broker_config(&broker.server(), client.deadline()).await;
        let now = config.map_err(|e| Failure::from(&e).because("Producers are kept off it.").hint(undo))?;
        let now = permission(&now);
        let wanted = kept.restored(now);
        let routes = wanted.writable() && kept.method == Method::Wipe;
        let (outcome, all) = open(session, broker, (now != wanted).then_some(wanted), routes).await;
        if !outcome.is_done() {
            return Err(Failure::new(
                exit::INTERRUPTED,
                format!(
                    "draining {} was interrupted; that producers may write to it again is not proven",
                    broker.server()
                ),
            )
            .because(outcome.text())
            .hint(undo));
        }
        if all {
            forget(session, broker);
        }
        let state = if wanted.writable() {
            "producers may write to it again"
        } else {
            "producers stay away, as before"
        };
        return Err(Failure::new(
            exit::INTERRUPTED,
            format!("draining {} was interrupted; {state}", broker.server()),
        ));
    }
    Err(Failure::new(
        exit::INTERRUPTED,
        format!(
            "draining {} was interrupted; state: producers are kept off it, consumers go on",
            broker.server()
        ),
    )
    .hint(format!("{again} again, or {undo}")))
}

/// Lets producers back: the broker's own permission where that changes, and, unless it stayed as it was, the routes at the
/// name servers. What became of the permission; false when a name server did not take its part.
async fn open(session: &Session, broker: &BrokerAt, changed: Option<Perm>, routes: bool) -> (Outcome, bool) {
    let outcome = match changed {
        Some(wanted) => write_permission(session, broker, wanted).await,
        None => Outcome::Done,
    };
    let mut all = true;
    if routes && outcome.may_be_written() {
        for (addr, done) in session.client.set_route_writable(&broker.id.name, true).await {
            if let Err(e) = done {
                all = false;
                session.warn(&format!("name server {addr}: {}", e.reason()));
            }
        }
    }
    (outcome, all)
}

/// `rmq broker undrain`
pub async fn undrain(session: &Session, args: UndrainArgs) -> Result<(), Failure> {
    let client = &session.client;
    let broker = master(session, &args.broker).await?;
    let config = client.broker_config(&broker.server(), client.deadline()).await?;
    let now = permission(&config);
    let kept = read_kept(session, &broker)?;
    let method = args.method.or(kept.as_ref().map(|k| k.method));
    let wiped = method == Some(Method::Wipe);
    let wanted = match &kept {
        Some(kept) => kept.restored(now),
        // Of a wipe that is not known here only the routes are known to be left.
        None if wiped => now,
        None => Perm::READ_WRITE,
    };
    let changed = (now != wanted).then_some(wanted);
    let servers = client.server_names().await?;
    let table = client.broker_topics(&broker.server(), client.deadline()).await?;
    let topics: BTreeSet<String> = table
        .topic_config_table
        .into_iter()
        .filter(|(name, config)| {
            let kind = crate::client::admin::topic::kind(name, &servers);
            kind == crate::client::snapshot::TopicKind::User && config.perm.writable()
        })
        .map(|(name, _)| name)
        .collect();
    let closed = client.routes_with_write(&broker.id.name, &topics, true).await;
    let mut plan = Plan {
        action: format!("undrain broker {}", broker.id.name),
        object: broker.id.name.clone(),
        cluster: broker.id.cluster.clone(),
        class: Class::B,
        steps: Vec::new(),
        impact: vec![if wanted.writable() {
            format!(
                "producers may write to {} here again",
                counted(topics.len(), "topic")
            )
        } else {
            format!(
                "{PERMISSION} was {} before the drain: producers stay away",
                wanted.0
            )
        }],
    };
    if changed.is_some() {
        plan.steps.push(Step {
            target: broker.server().to_string(),
            field: PERMISSION.into(),
            before: now.0.to_string(),
            after: wanted.0.to_string(),
        });
    }
    // With a permission that changes, the broker registers anew, which opens what was not wiped.
    let routes = wanted.writable() && !closed.wrong.is_empty() && (wiped || changed.is_none());
    if routes {
        plan.steps.push(Step {
            target: "every name server".into(),
            field: format!("write permission of {}", broker.id.name),
            before: "wiped".into(),
            after: "as registered".into(),
        });
    }
    if plan.steps.is_empty() {
        if wanted.writable()
            && let Some((addr, why)) = closed.silent.first_key_value()
        {
            return Err(Failure::new(
                exit::PARTIAL,
                format!("what name server {addr} shows of {} is unknown", broker.server()),
            )
            .because(why.clone()));
        }
        if !session.dry_run {
            forget(session, &broker);
        }
        return change::nothing(session);
    }
    if session.dry_run {
        let planned = vec![Outcome::Planned; plan.steps.len()];
        return change::report(session, &plan, planned, None);
    }
    change::confirm(session, &plan)?;
    let undo = format!("rmq broker drain {}", quoted(&broker.id.name));
    session.under_way.undone_by(Some(undo.clone()));
    let (written, _) = open(session, &broker, changed, routes).await;
    let end = tokio::time::Instant::now() + session.timeout;
    let seen = loop {
        // What the broker did not take no name server shows.
        if !wanted.writable() || !written.is_done() {
            break written.clone();
        }
        let seen = client.routes_with_write(&broker.id.name, &topics, true).await;
        let open = match (seen.wrong.first(), seen.silent.first_key_value()) {
            (Some((addr, topic)), _) => format!("name server {addr} still shows {topic} not writable"),
            (None, Some((addr, why))) => format!("what name server {addr} shows is unknown: {why}"),
            (None, None) => break Outcome::Done,
        };
        if tokio::time::Instant::now() >= end {
            break Outcome::Unproven(open);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let (done, sent) = (seen.is_done(), seen.may_be_written());
    if done {
        forget(session, &broker);
    }
    let outcomes = vec![seen; plan.steps.len()];
    let again = session.for_same_servers(&format!("rmq broker undrain {}", quoted(&broker.id.name)));
    change::report(session, &plan, outcomes, Some(undo)).map_err(|failure| match sent && !done {
        true => failure.hint(format!("{again} again")),
        false => failure,
    })
}
