//! `rmq topic scale`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::change::{self, Class, Outcome, Step as PlanStep};
use super::exit::{self, Failure};
use super::scope::ScopeArgs;
use super::session::Session;
use super::{quoted, time};
use crate::client::admin::topic::{ConfigSource, MAX_QUEUES, kind};
use crate::client::scale::machine::unwaitable;
use crate::client::scale::observe::Observer;
use crate::client::scale::run::{Event, Ran, run as go};
use crate::client::scale::{Drained, End, Machine, OnBroker, Phase, Plan, Queues, Settings, Step, marker};
use crate::client::snapshot::TopicKind;
use crate::client::{BrokerAt, Which};
use crate::protocol::body::TopicConfig;
use crate::protocol::model::check_topic;

/// Pause between two lines of progress where nobody looks at a terminal.
const TELL: Duration = Duration::from_secs(5);

/// `rmq topic scale`
#[derive(Debug, Clone, Args)]
#[allow(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub struct ScaleArgs {
    /// Topic name
    name: String,
    /// Read and write queues on each broker
    #[arg(long, value_name = "N", required_unless_present_any = ["read_to", "write_to", "resume", "undo"])]
    to: Option<i32>,
    /// Queues that consumers read, where it is not the number of --to
    #[arg(long, value_name = "N")]
    read_to: Option<i32>,
    /// Queues that producers write, where it is not the number of --to
    #[arg(long, value_name = "N")]
    write_to: Option<i32>,
    /// Do only one half of the way
    #[arg(long, value_name = "PHASE", default_value = "all")]
    phase: Half,
    /// Time for producers to see a smaller number
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time::parse_duration)]
    producer_wait: Duration,
    /// How long the queues to drain must stand still
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    still: Duration,
    /// How long the backlog must be gone where pop clients may hold messages
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time::parse_duration)]
    pop_wait: Duration,
    /// Longest wait for clients to own new queues
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = time::parse_duration)]
    rebalance_wait: Duration,
    /// Longest wait for messages in new queues
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = time::parse_duration)]
    verify_wait: Duration,
    /// End of all waiting; exit code 8
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = time::parse_duration)]
    deadline: Duration,
    /// End when a group has a backlog and does not move for so long; exit code 9
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = time::parse_duration)]
    stall: Duration,
    /// Do not wait for this group, which is offline or broadcasting; repeatable
    #[arg(long, value_name = "GROUP")]
    ignore_group: Vec<String>,
    /// Scale an ordered topic: its keys go to other queues
    #[arg(long)]
    allow_reorder: bool,
    /// Go on with an interrupted way
    #[arg(long, conflicts_with_all = ["to", "read_to", "write_to", "undo", "phase"])]
    resume: bool,
    /// Go back to the numbers before an interrupted way
    #[arg(long, conflicts_with_all = ["to", "read_to", "write_to", "phase"])]
    undo: bool,
    #[command(flatten)]
    scope: ScopeArgs,
}

/// `--phase`
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Half {
    /// Both
    All,
    /// Only the number of write queues
    Write,
    /// Only the number of read queues
    Read,
}

/// The resume file.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    api: String,
    cluster: String,
    token: String,
    begun: String,
    machine: Machine,
}

/// A topic as it is.
struct Found {
    cluster: String,
    brokers: Vec<(BrokerAt, TopicConfig)>,
}

impl ScaleArgs {
    fn settings(&self) -> Settings {
        let pause = (self.still / 4).clamp(Duration::from_millis(200), Duration::from_secs(2));
        Settings {
            phase: match self.phase {
                Half::All => Phase::All,
                Half::Write => Phase::Write,
                Half::Read => Phase::Read,
            },
            rebalance_wait: self.rebalance_wait,
            producer_wait: self.producer_wait,
            still: self.still,
            pop_wait: self.pop_wait,
            verify_wait: self.verify_wait,
            deadline: self.deadline,
            stall: self.stall,
            pause,
            ignored: self.ignore_group.iter().cloned().collect(),
        }
    }

    fn target(&self, phase: Phase, now: Queues) -> Result<Queues, Failure> {
        let wanted = Queues {
            read: self.read_to.or(self.to).unwrap_or(now.read),
            write: self.write_to.or(self.to).unwrap_or(now.write),
        };
        for (flag, number) in [("read", wanted.read), ("write", wanted.write)] {
            if !(1..=MAX_QUEUES).contains(&number) {
                return Err(Failure::usage(format!(
                    "{number} {flag} queues: use a number from 1 to {MAX_QUEUES}"
                )));
            }
        }
        if wanted.read < wanted.write {
            return Err(Failure::usage(format!(
                "{} write and {} read queues: messages in the others would not be read",
                wanted.write, wanted.read
            )));
        }
        Ok(match phase {
            Phase::All => wanted,
            Phase::Write => Queues {
                read: now.read,
                ..wanted
            },
            Phase::Read => Queues {
                write: now.write,
                ..wanted
            },
        })
    }
}

/// Runs the command.
pub async fn run(session: &Session, args: ScaleArgs) -> Result<(), Failure> {
    check_topic(&args.name).map_err(|e| Failure::usage(format!("topic \"{}\": {e}", args.name)))?;
    let found = find(session, &args).await?;
    let path = kept_path(&found.cluster, &args.name)?;
    let kept = read_kept(&path)?;
    let now = time::now_ms();
    let settings = args.settings();
    let (mut machine, token) = match kept {
        Some(kept) if args.resume => {
            let mut machine = kept.machine.resumed(now);
            let earlier = machine.settings();
            let ignored = earlier.ignored.union(&settings.ignored).cloned().collect();
            let phase = earlier.phase;
            machine.set(Settings {
                phase,
                ignored,
                ..settings
            });
            (machine, kept.token)
        }
        Some(kept) if args.undo => (
            Machine::new(kept.machine.plan().reversed(), settings, now),
            kept.token,
        ),
        Some(kept) => {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!(
                    "topic \"{}\" is being scaled since {} (step: {}); nothing was changed",
                    args.name,
                    kept.begun,
                    kept.machine.step().name()
                ),
            )
            .because(format!("Its state is in {}.", path.display()))
            .hint(format!(
                "rmq topic scale {0} --resume, or rmq topic scale {0} --undo",
                args.name
            )));
        }
        None if args.resume || args.undo => {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("no interrupted scaling of topic \"{}\" is known here", args.name),
            )
            .because(format!("There is no file {}.", path.display())));
        }
        None => {
            let plan = plan(&args, &settings, &found)?;
            let token = format!("{}-{now}", std::process::id());
            (Machine::new(plan, settings, now), token)
        }
    };
    let brokers: Vec<BrokerAt> = found.brokers.iter().map(|(b, _)| b.clone()).collect();
    if let Some(missing) = machine
        .plan()
        .brokers
        .keys()
        .find(|name| brokers.iter().all(|b| b.id.name != **name))
    {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{missing} belongs to the plan and has no such topic now; nothing was changed"),
        ));
    }
    let mut observer = Observer::new(machine.plan(), brokers);
    let change = describe(session, &args, &found, &machine, &mut observer).await?;
    check_marks(session, &args.name, &token).await?;
    if change.steps.is_empty() && !args.resume && !args.undo {
        session.note("nothing to change");
        return Ok(());
    }
    change::tell_impact(session, &change);
    if session.dry_run {
        let planned = vec![Outcome::Planned; change.steps.len()];
        return change::report(session, &change, planned, None);
    }
    change::confirm(session, &change)?;
    mark(session, &args.name, &token, &machine).await?;
    let begun = time::rfc3339(now).unwrap_or_default();
    let mut keep = |machine: &Machine| -> Result<(), Failure> {
        let kept = Kept {
            api: "rmq/v1".into(),
            cluster: found.cluster.clone(),
            token: token.clone(),
            begun: begun.clone(),
            machine: machine.clone(),
        };
        write_kept(&path, &kept)
    };
    keep(&machine)?;
    let ran = travel(session, &mut machine, &mut observer, &mut keep).await?;
    finish(session, &args, &found, &path, change, &machine, ran).await
}

/// The topic on the brokers that are meant.
async fn find(session: &Session, args: &ScaleArgs) -> Result<Found, Failure> {
    let client = &session.client;
    let servers = client.server_names().await.unwrap_or_default();
    let what = match kind(&args.name, &servers) {
        TopicKind::System => Some("a system topic"),
        // Brokers send to them by the numbers of the group's configuration, whatever the topic has.
        TopicKind::Retry => Some("a retry topic"),
        TopicKind::DeadLetter => Some("a dead letter topic"),
        _ => None,
    };
    if let Some(what) = what {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{}\" is {what}; nothing was changed", args.name),
        ));
    }
    let brokers = args.scope.brokers(session, Which::MastersToWrite).await?;
    session.warn_of_dead_name_servers();
    let mut found = Vec::new();
    for (broker, answer) in super::topic::configs(session, &brokers, &args.name).await {
        match answer? {
            Some((config, ConfigSource::Broker)) => found.push((broker, config)),
            Some((_, ConfigSource::Route)) => {
                return Err(Failure::new(
                    exit::UNSUPPORTED,
                    format!("{} is too old to tell the topic's configuration", broker.server()),
                ));
            }
            None => {}
        }
    }
    let mut clusters: Vec<&str> = brokers.iter().map(|b| b.id.cluster.as_str()).collect();
    clusters.dedup();
    let cluster = clusters.join(",");
    if found.is_empty() {
        let searched = format!("{} brokers of cluster {cluster}", brokers.len());
        return Err(super::topic::not_found(session, &args.name, searched).await);
    }
    let route = client.route(&args.name).await?;
    if route.as_ref().is_some_and(|r| {
        r.topic_queue_mapping_by_broker
            .as_ref()
            .is_some_and(|m| !m.is_empty())
    }) {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{}\" is a static topic; nothing was changed", args.name),
        ));
    }
    let ordered = found.iter().any(|(_, config)| {
        config.order || config.attributes.get("message.type").map(String::as_str) == Some("FIFO")
    }) || route.is_some_and(|r| r.order_topic_conf.is_some());
    if ordered && !args.allow_reorder && !args.resume && !args.undo {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{}\" is an ordered topic; nothing was changed", args.name),
        )
        .because("With another number of queues its keys go to other queues: their order is lost once.")
        .hint("--allow-reorder"));
    }
    Ok(Found {
        cluster,
        brokers: found,
    })
}

fn plan(args: &ScaleArgs, settings: &Settings, found: &Found) -> Result<Plan, Failure> {
    let mut brokers = BTreeMap::new();
    for (broker, config) in &found.brokers {
        let before = Queues {
            read: config.read_queue_nums,
            write: config.write_queue_nums,
        };
        let target = args.target(settings.phase, before)?;
        let on = OnBroker { before, target };
        let refused = match settings.phase {
            Phase::All => None,
            // Only the other half makes these safe.
            Phase::Write => {
                (target.write > before.read).then_some("raise the read queues first: --phase read")
            }
            Phase::Read => {
                (target.read < before.write).then_some("lower the write queues first: --phase write")
            }
        };
        if let Some(why) = refused {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("{} has {before}; nothing was changed", broker.server()),
            )
            .because(why));
        }
        // With read 8 and write 16 there is something to do even for the same numbers.
        if !on.is_still() || on.widest() > on.before.read {
            brokers.insert(broker.id.name.clone(), on);
        }
    }
    Ok(Plan {
        topic: args.name.clone(),
        brokers,
    })
}

/// The plan for the operator, with what a shrink has to wait for; refuses groups that cannot be waited for.
async fn describe(
    session: &Session,
    args: &ScaleArgs,
    found: &Found,
    machine: &Machine,
    observer: &mut Observer,
) -> Result<change::Plan, Failure> {
    let plan = machine.plan().clone();
    let mut change = change::Plan {
        action: format!("scale topic {}", args.name),
        object: args.name.clone(),
        cluster: found.cluster.clone(),
        class: Class::B,
        steps: Vec::new(),
        impact: Vec::new(),
    };
    let mut numbers = BTreeMap::new();
    for (broker, config) in &found.brokers {
        let Some(on) = plan.brokers.get(&broker.id.name) else {
            continue;
        };
        let now = Queues {
            read: config.read_queue_nums,
            write: config.write_queue_nums,
        };
        numbers.insert(broker.id.name.clone(), Ok(now));
        let fields = [
            ("read_queues", now.read, on.target.read),
            ("write_queues", now.write, on.target.write),
        ];
        for (field, before, after) in fields {
            if before != after {
                change.steps.push(PlanStep {
                    target: broker.server().to_string(),
                    field: field.into(),
                    before: before.to_string(),
                    after: after.to_string(),
                });
            }
        }
    }
    if plan.shrinks() && machine.settings().phase != Phase::Write {
        let drained = observer.drained(&session.client, &numbers).await;
        if let Some(why) = drained.unknown.first() {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("what waits in the queues to drain cannot be seen: {why}; nothing was changed"),
            ));
        }
        let refused = unwaitable(&drained.groups, &machine.settings().ignored);
        change
            .impact
            .extend(backlog_lines(&plan, &drained, &machine.settings().ignored));
        if !refused.is_empty() {
            let flags: Vec<String> = drained
                .groups
                .keys()
                .filter(|name| refused.iter().any(|r| r.starts_with(&format!("{name} ("))))
                .map(|name| format!("--ignore-group {}", quoted(name)))
                .collect();
            return Err(Failure::new(
                exit::PRECONDITION,
                format!("these groups cannot be waited for: {}; nothing was changed", refused.join(", ")),
            )
            .because("Nobody moves the positions of an offline group; those of a broadcasting one are on its clients.")
            .hint(flags.join(" ")));
        }
    } else if plan.grows() {
        change
            .impact
            .push("consumers get the new queues first, then producers".into());
    }
    Ok(change)
}

fn backlog_lines(plan: &Plan, drained: &Drained, ignored: &BTreeSet<String>) -> Vec<String> {
    let queues: BTreeSet<String> = plan
        .brokers
        .values()
        .filter(|on| !on.drained().is_empty())
        .map(|on| format!("{} to {}", on.drained().start, on.drained().end - 1))
        .collect();
    let mut lines = vec![format!(
        "queues {} are drained before they lose their readers: {} stored ever, {} will still land in them",
        queues.into_iter().collect::<Vec<_>>().join(" and "),
        drained.ends.values().sum::<i64>(),
        drained.pending
    )];
    for (name, group) in &drained.groups {
        lines.push(format!(
            "{name} ({}): {} unread there, {} in flight{}",
            group.kind.name(),
            group.lag,
            group.inflight,
            if ignored.contains(name) { ", ignored" } else { "" }
        ));
    }
    lines
}

/// Somebody else's mark stops; a dead name server does not.
async fn check_marks(session: &Session, topic: &str, token: &str) -> Result<(), Failure> {
    for (addr, mark) in session.client.scale_marks(topic).await {
        let Ok(Some(text)) = mark else { continue };
        let theirs = serde_json::from_str::<serde_json::Value>(&text)
            .ok()
            .and_then(|v| v["token"].as_str().map(str::to_owned));
        if theirs.as_deref() != Some(token) {
            return Err(Failure::new(
                exit::PRECONDITION,
                format!(
                    "name server {addr} says that topic \"{topic}\" is being scaled; nothing was changed"
                ),
            )
            .because(format!("The mark is: {text}"))
            .hint(format!(
                "if nobody does: rmq kv delete {} {}",
                marker::NAMESPACE,
                quoted(&marker::key(topic))
            )));
        }
    }
    Ok(())
}

async fn mark(session: &Session, topic: &str, token: &str, machine: &Machine) -> Result<(), Failure> {
    let targets: BTreeMap<&String, String> = machine
        .plan()
        .brokers
        .iter()
        .map(|(name, on)| (name, on.target.to_string()))
        .collect();
    let text = json!({
        "token": token,
        "user": std::env::var("USER").ok(),
        "begun": time::rfc3339(time::now_ms()),
        "targets": targets,
    });
    let marks = session.client.set_scale_mark(topic, &text.to_string()).await;
    if marks.iter().all(|(_, done)| done.is_err())
        && let Some((_, Err(e))) = marks.first()
    {
        return Err(Failure::from(e));
    }
    for (addr, done) in &marks {
        if let Err(e) = done {
            session.warn(&format!("no mark at name server {addr}: {}", e.reason()));
        }
    }
    Ok(())
}

/// Goes the way, with progress on stderr; Ctrl-C stops between two requests.
async fn travel(
    session: &Session,
    machine: &mut Machine,
    observer: &mut Observer,
    keep: &mut dyn FnMut(&Machine) -> Result<(), Failure>,
) -> Result<Ran, Failure> {
    let mut told: Option<(Step, tokio::time::Instant)> = None;
    let mut kept = None;
    let stop = async {
        // Without a signal handler the way is not stoppable, and goes on.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    go(
        &session.client,
        machine,
        observer,
        stop,
        |machine, event| -> Result<(), Failure> {
            let step = machine.step();
            match event {
                Event::Moved => {
                    if kept != Some(step) {
                        keep(machine)?;
                        kept = Some(step);
                    }
                }
                Event::Writing(writes) => {
                    keep(machine)?;
                    for (name, queues) in writes {
                        session.progress(&format!("{}: {name} gets {queues}", step.name()));
                    }
                }
                Event::Failed(broker, e) => session.warn(&format!("{broker}: {}", e.reason())),
                Event::Waiting(what) => {
                    let due = told.is_none_or(|(of, at)| of != step || at.elapsed() >= TELL);
                    if due {
                        told = Some((step, tokio::time::Instant::now()));
                        session.progress(&format!("{}: {}", step.name(), what.join("; ")));
                    }
                }
            }
            Ok(())
        },
    )
    .await
}

async fn finish(
    session: &Session,
    args: &ScaleArgs,
    found: &Found,
    path: &Path,
    change: change::Plan,
    machine: &Machine,
    ran: Ran,
) -> Result<(), Failure> {
    let state = machine.state();
    let name = &args.name;
    let both = format!("rmq topic scale {name} --resume, or rmq topic scale {name} --undo");
    let stopped = |code: u8, what: String, why: Vec<String>| {
        // Something may have been written: that goes into the journal as well.
        let outcomes = vec![Outcome::Unproven(format!("{what}; {state}")); change.steps.len()];
        let undo = format!("rmq topic scale {name} --undo");
        change::journal(session, &change, &outcomes, Some(&undo));
        let failure = Failure::new(code, format!("{what}; state: {state}"));
        let failure = if why.is_empty() {
            failure
        } else {
            failure.because(why.join("\n       "))
        };
        Err(failure.hint(both.clone()))
    };
    match ran {
        Ran::End(End::Done) => {
            for (addr, done) in session.client.clear_scale_mark(name).await {
                if let Err(e) = done {
                    session.warn(&format!("the mark at name server {addr} stays: {}", e.reason()));
                }
            }
            if let Err(e) = std::fs::remove_file(path) {
                session.warn(&format!("{} stays: {e}", path.display()));
            }
            for note in machine.notes() {
                session.note(note);
            }
            session.note(&format!("topic {name}: {state}"));
            let outcomes = vec![Outcome::Done; change.steps.len()];
            change::report(
                session,
                &change,
                outcomes,
                Some(undo_line(name, found, machine.plan())),
            )
        }
        Ran::End(End::Deadline(why)) => stopped(
            exit::TIMEOUT,
            format!(
                "scaling topic {name} was not done within {}",
                time::duration(args.deadline)
            ),
            why,
        ),
        Ran::End(End::Stalled(why)) => stopped(
            exit::PRECONDITION,
            format!("scaling topic {name} waits for groups that do not move"),
            why,
        ),
        Ran::End(End::Unreachable(why)) => stopped(
            exit::PRECONDITION,
            format!("scaling topic {name} was interrupted: brokers cannot be seen"),
            why,
        ),
        Ran::End(End::Changed(why)) => stopped(
            exit::PRECONDITION,
            format!("scaling topic {name} was interrupted: the numbers are not what it made them"),
            why,
        ),
        Ran::Stopped => stopped(
            exit::INTERRUPTED,
            format!("scaling topic {name} was interrupted"),
            Vec::new(),
        ),
    }
}

/// The command that brings back the numbers before, one for each different pair.
fn undo_line(name: &str, found: &Found, plan: &Plan) -> String {
    let mut by_numbers: BTreeMap<(i32, i32), Vec<&str>> = BTreeMap::new();
    for (broker, _) in &found.brokers {
        if let Some(on) = plan.brokers.get(&broker.id.name) {
            let before = (on.before.read, on.before.write);
            by_numbers.entry(before).or_default().push(&broker.addr);
        }
    }
    let lines = by_numbers.into_iter().map(|((read, write), brokers)| {
        let numbers = if read == write {
            format!("--to {read}")
        } else {
            format!("--read-to {read} --write-to {write}")
        };
        let brokers: String = brokers.iter().map(|b| format!(" --broker {b}")).collect();
        format!("rmq topic scale {name} {numbers}{brokers}")
    });
    lines.collect::<Vec<_>>().join(" && ")
}

fn kept_path(cluster: &str, topic: &str) -> Result<PathBuf, Failure> {
    let dir = super::context::state_dir().ok_or_else(|| {
        Failure::new(
            exit::PRECONDITION,
            "there is no state directory for the resume file; nothing was changed",
        )
    })?;
    let plain = |text: &str| text.replace(['/', '%'], "_");
    Ok(dir
        .join("scale")
        .join(format!("{}-{}.json", plain(cluster), plain(topic))))
}

fn read_kept(path: &Path) -> Result<Option<Kept>, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text).map(Some).map_err(|e| {
            Failure::new(
                exit::PRECONDITION,
                format!("{} cannot be read: {e}", path.display()),
            )
        }),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Failure::new(
            exit::PRECONDITION,
            format!("{} cannot be read: {e}", path.display()),
        )),
    }
}

fn write_kept(path: &Path, kept: &Kept) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(kept).map_err(|e| Failure::new(exit::INTERNAL, e.to_string()))?;
    let fresh = path.with_extension("new");
    path.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(&fresh, text))
        .and_then(|()| std::fs::rename(&fresh, path))
        .map_err(|e| {
            Failure::new(
                exit::PRECONDITION,
                format!("cannot write {}: {e}", path.display()),
            )
        })
}
