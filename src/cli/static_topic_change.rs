//! `rmq static-topic create|update|remap`.
//!
//! Before anything is written the mapping before and the one afterwards are kept as files that mqadmin's `-mf` reads, too: a
//! change that was left in the middle goes on from the latter.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;

use super::broker::cluster_of;
use super::change::{self, Class, Outcome, Plan, Step, Undo};
use super::exit::{self, Failure};
use super::session::Session;
use super::static_topic::{Found, TargetArgs, described, find, leader_text, not_static};
use super::topic::not_found;
use super::topic_change::checked_kind;
use super::{quoted, time};
use crate::client::BrokerAt;
use crate::client::admin::topic::MAX_QUEUES;
use crate::client::snapshot::TopicKind;
use crate::client::static_topic::mapping::{self, ByBroker, details, leading};
use crate::client::static_topic::plan::{Change, Kind, Refused, move_to, resize, share};
use crate::client::static_topic::{Applied, Stopped};
use crate::protocol::body::TopicRemappingDetail;
use crate::protocol::json;

/// Largest mapping file that is read.
const MAX_FILE: u64 = 64 << 20;

/// `rmq static-topic create`
#[derive(Debug, Clone, Args)]
pub struct CreateArgs {
    /// Topic name
    name: String,
    /// Queues of the topic, over all brokers
    #[arg(long, value_name = "N", value_parser = queues)]
    queues: i32,
    #[command(flatten)]
    targets: TargetArgs,
}

/// `rmq static-topic update`
#[derive(Debug, Clone, Args)]
pub struct UpdateArgs {
    /// Topic name
    name: String,
    /// Queues of the topic, over all brokers; not fewer than now
    #[arg(long, value_name = "N", value_parser = queues, required_unless_present = "map_file", conflicts_with = "map_file")]
    queues: Option<i32>,
    /// Create it where it does not exist
    #[arg(long, conflicts_with = "map_file")]
    create: bool,
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    targets: TargetArgs,
}

/// `rmq static-topic remap`
#[derive(Debug, Clone, Args)]
pub struct RemapArgs {
    /// Topic name
    name: String,
    #[command(flatten)]
    file: FileArgs,
    #[command(flatten)]
    targets: TargetArgs,
}

/// A mapping file in the place of a computed mapping.
#[derive(Debug, Clone, Default, Args)]
struct FileArgs {
    /// Write the mapping of this file, one of mqadmin's or of an earlier run (- is stdin); goes on with an interrupted change
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cluster", "broker"])]
    map_file: Option<PathBuf>,
    /// Have brokers take the file's mapping although theirs is newer
    #[arg(long, requires = "map_file")]
    force_replace: bool,
}

fn queues(text: &str) -> Result<i32, String> {
    match text.parse() {
        Ok(n) if (1..=MAX_QUEUES).contains(&n) => Ok(n),
        _ => Err(format!("{text} is not a number of queues; use 1 to {MAX_QUEUES}")),
    }
}

/// A refused change as a failure of the command.
fn refused(name: &str, refused: Refused) -> Failure {
    let failure = Failure::new(exit::PRECONDITION, format!("{refused}; nothing was changed"));
    match refused {
        Refused::Broken(mapping::Broken::NoMapping(broker)) => {
            let what = format!("topic \"{name}\" is an ordinary topic on {broker}; nothing was changed");
            Failure::new(exit::PRECONDITION, what).hint(format!("rmq topic get {name}"))
        }
        Refused::Broken(_) => failure
            .because("Brokers and clients go by it as it is; a change on top of it could lose queues.")
            .hint(format!("rmq static-topic get {name} --history")),
        Refused::Undecided { .. } => failure.because("A remap ended before it was done.").hint(format!(
            "rmq static-topic remap {name} --map-file FILE.after, the file that the remap named"
        )),
        Refused::Old { .. } | Refused::Keeps { .. } => {
            failure.hint(format!("rmq static-topic get {name} --history"))
        }
        Refused::Range(_) => Failure::usage(failure.what),
        Refused::Absent => Failure::new(exit::NOT_FOUND, failure.what),
        Refused::Fewer { .. }
        | Refused::NoTarget
        | Refused::Full(_)
        | Refused::NoEnd { .. }
        | Refused::OtherFile(_) => failure,
    }
}

async fn check_name(session: &Session, name: &str) -> Result<(), Failure> {
    match checked_kind(session, name).await? {
        TopicKind::User => Ok(()),
        _ => Err(Failure::new(
            exit::PRECONDITION,
            format!("\"{name}\" is a system topic; nothing was changed"),
        )),
    }
}

/// A part of a mapping must not be written on top of one that was not read.
fn all_told(found: Found) -> Result<(Vec<BrokerAt>, ByBroker), Failure> {
    match found.failed.into_iter().next() {
        None => Ok((found.masters, found.present)),
        Some(failure) => Err(failure.unchanged()),
    }
}

/// `rmq static-topic create`
pub async fn create(session: &Session, args: CreateArgs) -> Result<(), Failure> {
    check_name(session, &args.name).await?;
    let info = session.client.cluster_info().await?;
    let targets = args.targets.masters(session, &info)?;
    let (masters, present) = all_told(find(session, &args.name, &info, &targets).await?)?;
    if !present.is_empty() {
        let on: Vec<&str> = present.keys().map(String::as_str).collect();
        let what = format!("topic \"{}\" exists already on {}", args.name, on.join(", "));
        let noun = if details(&present).next().is_some() {
            "static-topic"
        } else {
            "topic"
        };
        return Err(Failure::new(exit::PRECONDITION, what).hint(format!("rmq {noun} get {}", args.name)));
    }
    grow(session, &args.name, args.queues, &targets, masters, present).await
}

/// `rmq static-topic update`
pub async fn update(session: &Session, args: UpdateArgs) -> Result<(), Failure> {
    check_name(session, &args.name).await?;
    if let Some(path) = &args.file.map_file {
        return from_file(session, &args.name, Kind::Resize, path, args.file.force_replace).await;
    }
    let info = session.client.cluster_info().await?;
    let named = if args.targets.is_empty() && !args.create {
        Vec::new()
    } else {
        args.targets.masters(session, &info)?
    };
    let (masters, present) = all_told(find(session, &args.name, &info, &named).await?)?;
    if present.is_empty() && !args.create {
        return Err(not_found(session, &args.name, String::new()).await);
    }
    // Without a word of where, new queues go to the masters of the clusters that the topic is in.
    let targets = if named.is_empty() { masters.clone() } else { named };
    let Some(queues) = args.queues else {
        return Err(Failure::usage("--queues is missing"));
    };
    grow(session, &args.name, queues, &targets, masters, present).await
}

async fn grow(
    session: &Session,
    name: &str,
    queues: i32,
    targets: &[BrokerAt],
    masters: Vec<BrokerAt>,
    present: ByBroker,
) -> Result<(), Failure> {
    let names = targets.iter().map(|b| b.id.name.clone()).collect();
    let mut change = resize(name, queues, &names, &present, time::now_ms()).map_err(|e| refused(name, e))?;
    if change.moved().is_empty() {
        return change::nothing(session);
    }
    let new = present.is_empty();
    change.complete(same_clusters(&change.after, &masters));
    let (action, undo) = if new {
        (
            format!("create static topic {name}"),
            Undo::Line(deletion(&change, &masters)),
        )
    } else {
        (
            format!("update static topic {name}"),
            Undo::Never("a static topic keeps its queues"),
        )
    };
    let class = if new { Class::A } else { Class::B };
    carry_out(session, change, masters, action, class, undo, false).await
}

/// The way back of a creation: the topic is deleted cluster by cluster.
fn deletion(change: &Change, masters: &[BrokerAt]) -> String {
    let clusters: BTreeSet<&str> = masters
        .iter()
        .filter(|b| change.after.contains_key(&b.id.name))
        .map(|b| b.id.cluster.as_str())
        .collect();
    let lines = clusters.into_iter().map(|cluster| {
        format!(
            "rmq topic delete {} --cluster {}",
            quoted(&change.topic),
            quoted(cluster)
        )
    });
    lines.collect::<Vec<_>>().join(" && ")
}

/// Names of the masters in the clusters of the brokers that have a part in a change.
fn same_clusters(after: &ByBroker, masters: &[BrokerAt]) -> Vec<String> {
    let clusters: BTreeSet<&str> = masters
        .iter()
        .filter(|b| after.contains_key(&b.id.name))
        .map(|b| b.id.cluster.as_str())
        .collect();
    masters
        .iter()
        .filter(|b| clusters.contains(b.id.cluster.as_str()))
        .map(|b| b.id.name.clone())
        .collect()
}

/// `rmq static-topic remap`
pub async fn remap(session: &Session, args: RemapArgs) -> Result<(), Failure> {
    let name = args.name.as_str();
    check_name(session, name).await?;
    if let Some(path) = &args.file.map_file {
        return from_file(session, name, Kind::Remap, path, args.file.force_replace).await;
    }
    let info = session.client.cluster_info().await?;
    let named = if args.targets.is_empty() {
        Vec::new()
    } else {
        args.targets.masters(session, &info)?
    };
    let (masters, present) = all_told(find(session, name, &info, &named).await?)?;
    if present.is_empty() {
        return Err(not_found(session, name, String::new()).await);
    }
    if details(&present).next().is_none() {
        return Err(not_static(name));
    }
    let targets = if named.is_empty() { &masters } else { &named };
    let targets: BTreeSet<String> = targets.iter().map(|b| b.id.name.clone()).collect();
    let mapping = mapping::check(name, &present)
        .map_err(|e| refused(name, e.into()))?
        .ok_or_else(|| not_static(name))?;
    let wanted = share(&mapping.leaders(), &targets);
    let mut change = move_to(name, &wanted, &present, time::now_ms()).map_err(|e| refused(name, e))?;
    if change.moved().is_empty() {
        return change::nothing(session);
    }
    change.complete(same_clusters(&change.after, &masters));
    let action = format!("remap static topic {name}");
    carry_out(session, change, masters, action, Class::B, Undo::Unsaid, false).await
}

async fn from_file(
    session: &Session,
    name: &str,
    kind: Kind,
    path: &Path,
    force: bool,
) -> Result<(), Failure> {
    let file = read_file(path)?;
    let info = session.client.cluster_info().await?;
    let meant: Vec<BrokerAt> = crate::client::admin::cluster::registered(&info)
        .into_iter()
        .filter(|b| b.id.is_master() && file.broker_config_map.contains_key(&b.id.name))
        .collect();
    let (masters, present) = all_told(find(session, name, &info, &meant).await?)?;
    let mut change = Change::of_file(name, kind, file, &present, force).map_err(|e| refused(name, e))?;
    let absent = |broker: &&String| !masters.iter().any(|b| b.id.name == **broker);
    if let Some(broker) = change.after.keys().find(absent) {
        return Err(Failure::new(
            exit::PRECONDITION,
            format!("{broker} of the file has no registered master; nothing was changed"),
        ));
    }
    if kind == Kind::Resize {
        change.complete(same_clusters(&change.after, &masters));
    }
    // A change that ended before its offsets were decided has every broker as the file has it.
    if change.undecided().is_empty()
        && change
            .after
            .iter()
            .all(|(broker, at)| present.get(broker) == Some(at))
    {
        return change::nothing(session);
    }
    let (verb, undo) = match kind {
        Kind::Remap => ("remap", Undo::Unsaid),
        Kind::Resize => ("update", Undo::Never("a static topic keeps its queues")),
    };
    let class = if force { Class::C } else { Class::B };
    let action = format!("{verb} static topic {name}");
    carry_out(session, change, masters, action, class, undo, force).await
}

fn read_file(path: &Path) -> Result<TopicRemappingDetail, Failure> {
    let shown = path.display();
    let wrong = |why: String| Failure::usage(format!("mapping file {shown}: {why}"));
    let mut text = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_FILE + 1).read_to_end(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut text))
    };
    let read = read.map_err(|e| wrong(e.to_string()))?;
    if u64::try_from(read).is_ok_and(|read| read > MAX_FILE) {
        return Err(wrong(format!("it is larger than {MAX_FILE} bytes")));
    }
    json::from_slice(&text).map_err(|e| wrong(e.to_string()))
}

/// Where the files of a change are.
struct Files {
    before: PathBuf,
    after: PathBuf,
    undo: PathBuf,
}

impl Files {
    fn of(change: &Change) -> Result<Self, Failure> {
        let dir = super::context::state_dir().ok_or_else(|| unkept("there is no state directory"))?;
        let dir = dir.join("static-topics");
        let name = format!("{}-{}", change.topic.replace('%', "_"), change.epoch);
        let file = |suffix: &str| dir.join(format!("{name}.{suffix}"));
        Ok(Self {
            before: file("before"),
            after: file("after"),
            undo: file("undo"),
        })
    }
}

fn unkept(why: &str) -> Failure {
    Failure::new(
        exit::PRECONDITION,
        format!("the mapping files could not be kept ({why}); nothing was changed"),
    )
}

fn keep(path: &Path, file: &TopicRemappingDetail) -> Result<(), String> {
    crate::replace::replace(path, &json::to_vec_strict(file)).map_err(|e| e.to_string())
}

/// The plan of a change: a row a queue that moves, then a row a broker.
fn plan_of(change: &Change, masters: &[BrokerAt], action: String, class: Class) -> Plan {
    let mut steps: Vec<Step> = change
        .moved()
        .into_iter()
        .map(|(queue, was, is)| Step {
            target: format!("queue {queue}"),
            field: "leader".into(),
            before: leader_text(was),
            after: leader_text(Some(is)),
        })
        .collect();
    for broker in masters.iter().filter(|b| change.after.contains_key(&b.id.name)) {
        steps.push(Step {
            target: broker.server().to_string(),
            field: "mapping".into(),
            before: described(&change.before, &broker.id.name),
            after: described(&change.after, &broker.id.name),
        });
    }
    let mut impact = change.lost();
    if change.kind == Kind::Remap {
        let out: Vec<&str> = change.map_out.iter().map(String::as_str).collect();
        impact.push(format!(
            "what was sent to {} stays there and is read from there: it must run until those messages are consumed or expired",
            out.join(", ")
        ));
        impact.push("producers of a queue that moves are refused until they see the new route".into());
    }
    Plan {
        action,
        object: change.topic.clone(),
        cluster: cluster_of(masters),
        class,
        steps,
        impact,
    }
}

async fn carry_out(
    session: &Session,
    mut change: Change,
    masters: Vec<BrokerAt>,
    action: String,
    class: Class,
    undo: Undo,
    force: bool,
) -> Result<(), Failure> {
    session.warn_of_dead_name_servers();
    let mut plan = plan_of(&change, &masters, action, class);
    if class >= Class::B {
        plan.impact.push(
            session
                .client
                .use_of_topic(masters.iter().map(BrokerAt::server), &change.topic)
                .await,
        );
    }
    let moved: Vec<(i32, String)> = change
        .moved()
        .into_iter()
        .map(|(queue, _, is)| (queue, is.bname.clone()))
        .collect();
    if session.dry_run {
        return change::rehearse(session, &plan, Vec::new(), 0);
    }
    change::confirm(session, &plan)?;
    let files = Files::of(&change)?;
    // What is there when a change goes on is not what was there before it.
    let begins = !goes_on(&change);
    let has_before = begins || files.before.exists();
    if begins {
        keep(&files.before, &change.file_before()).map_err(|e| unkept(&e))?;
    }
    keep(&files.after, &change.to_file()).map_err(|e| unkept(&e))?;
    session.finish_whatever_comes();
    let applied = unstopped(session, session.client.apply_static(&mut change, &masters, force)).await;
    let proofs = proofs(session, &change, &masters, &applied).await;
    let outcome = |broker: &str| {
        proofs
            .iter()
            .find(|(name, _)| name == broker)
            .map_or_else(|| Outcome::Unproven("not written".into()), |(_, o)| o.clone())
    };
    let outcomes: Vec<Outcome> = moved
        .iter()
        .map(|(_, leader)| outcome(leader))
        .chain(proofs.iter().map(|(_, outcome)| outcome.clone()))
        .collect();
    if let Some(stopped) = &applied.stopped {
        let sent = stopped.is_in_doubt() || !applied.begun.is_empty() || !applied.done.is_empty();
        let onward = sent.then(|| onward(session, &change, &files, force));
        return half_done(session, &plan, outcomes, stopped, onward);
    }
    // The file has the offsets that were decided, now.
    if let Err(e) = keep(&files.after, &change.to_file()) {
        session.warn(&format!("the mapping file was not renewed: {e}"));
    }
    let undo = match (undo, change.kind) {
        (Undo::Unsaid, Kind::Remap) if has_before => way_back(session, &change, &files),
        (Undo::Unsaid, Kind::Remap) => {
            session.warn(
                "what was there before the first part of this change is not kept here: it has no way back",
            );
            Undo::Unsaid
        }
        (undo, _) => undo,
    };
    session.note(&match has_before {
        true => format!("mapping files: {} and .after", files.before.display()),
        false => format!("mapping file: {}", files.after.display()),
    });
    change::report(session, &plan, outcomes, undo)
}

/// Does the work to its end: one that is left in the middle leaves queues without offsets. Ctrl-C is answered with a word.
async fn unstopped<T>(session: &Session, work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    let mut told = false;
    loop {
        tokio::select! {
            done = &mut work => return done,
            // Who wants it stopped is told once: a dashboard's wish stands.
            () = session.stopped(), if !told => {
                told = true;
                session.talk("the brokers are being written: a moment, half of it must not stay");
            }
        }
    }
}

/// True when some broker has this change already.
fn goes_on(change: &Change) -> bool {
    details(&change.before).any(|detail| detail.epoch == change.epoch)
}

/// What became of each broker, in the order of the plan's rows.
async fn proofs(
    session: &Session,
    change: &Change,
    masters: &[BrokerAt],
    applied: &Applied,
) -> Vec<(String, Outcome)> {
    let mut found = Vec::new();
    for broker in masters.iter().filter(|b| change.after.contains_key(&b.id.name)) {
        let name = &broker.id.name;
        let outcome = match &applied.stopped {
            Some(Stopped::Write {
                broker: stopped,
                source,
            }) if stopped == name => {
                // A remap writes those that take part twice: what is there after the first time is a part.
                let in_part = change.kind == Kind::Remap
                    && !applied.begun.contains(name)
                    && (change.map_in.contains(name) || change.map_out.contains(name));
                let read_back = async { Ok(session.client.static_differs(change, broker).await) };
                match change::proof(Err::<(), _>(source), read_back).await {
                    Outcome::Done if in_part => Outcome::Unproven("written in part".into()),
                    outcome => outcome,
                }
            }
            _ if applied.done.contains(name) => match session.client.static_differs(change, broker).await {
                None => Outcome::Done,
                Some(why) => Outcome::Unproven(why),
            },
            _ if applied.begun.contains(name) => Outcome::Unproven("written in part".into()),
            Some(stopped) => Outcome::Failed(Failure::new(
                exit_of(stopped),
                format!("{name} was not written: {stopped}"),
            )),
            None => Outcome::Unproven("not written".into()),
        };
        found.push((name.clone(), outcome));
    }
    if applied.stopped.is_none()
        && let Some(why) = route_differs(session, change).await
    {
        for (_, outcome) in &mut found {
            if outcome.is_done() {
                *outcome = Outcome::Unproven(why.clone());
            }
        }
    }
    found
}

/// The exit code of what ended a change.
fn exit_of(stopped: &Stopped) -> u8 {
    match stopped {
        Stopped::Write { source, .. } | Stopped::Ends { source, .. } => Failure::from(source).exit,
        Stopped::Decide(_) | Stopped::NoMaster(_) => exit::PRECONDITION,
    }
}

/// Waits until every name server that answers has the new leaders; what is still wrong at the end.
async fn route_differs(session: &Session, change: &Change) -> Option<String> {
    let end = Instant::now() + session.timeout;
    let mut pause = Duration::from_millis(5);
    loop {
        let why = session.client.static_route_differs(change).await?;
        if Instant::now() + pause >= end {
            return Some(why);
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_millis(250));
    }
}

/// The command that goes on with a change that ended early.
fn onward(session: &Session, change: &Change, files: &Files, force: bool) -> String {
    let verb = match change.kind {
        Kind::Remap => "remap",
        Kind::Resize => "update",
    };
    session.for_same_servers(&format!(
        "rmq static-topic {verb} {} --map-file {}{}",
        quoted(&change.topic),
        quoted(&files.after.display().to_string()),
        if force { " --force-replace" } else { "" }
    ))
}

/// A change that ended early; `onward` goes on with it, unless no broker can have anything of it.
fn half_done(
    session: &Session,
    plan: &Plan,
    outcomes: Vec<Outcome>,
    stopped: &Stopped,
    onward: Option<String>,
) -> Result<(), Failure> {
    let verdict = change::report(session, plan, outcomes, Undo::Unsaid);
    let Some(onward) = onward else {
        return verdict;
    };
    verdict.map_err(|failure| {
        failure
            .because(format!(
                "It ended in the middle ({stopped}); until it is finished, brokers differ."
            ))
            .hint(onward)
    })
}

/// The way back of a remap, as a file: every moved queue goes back to the broker that led it, as a new generation.
fn way_back(session: &Session, change: &Change, files: &Files) -> Undo {
    // Of a change that went on this is what was there before its first part.
    let before = match read_file(&files.before) {
        Ok(file) => file.broker_config_map,
        Err(failure) => {
            session.warn(&format!("there is no way back: {}", failure.what));
            return Undo::Unsaid;
        }
    };
    let leaders = match mapping::check(&change.topic, &before) {
        Ok(Some(mapping)) => mapping.leaders(),
        // Only a file can come on top of such a mapping; it has no way back.
        Ok(None) | Err(_) => return Undo::Unsaid,
    };
    let back = move_to(&change.topic, &leaders, &change.after, change.epoch);
    let kept = back
        .map_err(|e| e.to_string())
        .and_then(|back| keep(&files.undo, &back.to_file()));
    match kept {
        Ok(()) => Undo::Line(format!(
            "rmq static-topic remap {} --map-file {}",
            quoted(&change.topic),
            quoted(&files.undo.display().to_string())
        )),
        Err(e) => {
            let to: Vec<String> = leading(&before).into_iter().collect();
            session.warn(&format!(
                "the file of the way back was not written ({e}); rmq static-topic remap {} --broker {} leads back to \
                 the same brokers",
                change.topic,
                to.join(",")
            ));
            Undo::Unsaid
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_queues_is_checked_before_anything_is_asked() {
        assert_eq!(queues("8"), Ok(8));
        assert_eq!(queues("16384"), Ok(16_384));
        for bad in ["0", "-1", "16385", "x", ""] {
            assert!(queues(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_mapping_file_of_mqadmin_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("T-1700000001000.after");
        // As Java 5.3.3 writes it: bare number keys, fields by name.
        let text = r#"{"brokerConfigMap":{"broker-a":{"attributes":{},"mappingDetail":{"bname":"broker-a","currIdMap":{},"dirty":false,"epoch":1700000001000,"hostedQueues":{0:[{"bname":"broker-a","endOffset":-1,"gen":0,"logicOffset":0,"queueId":0,"startOffset":0,"timeOfEnd":-1,"timeOfStart":-1}]},"scope":"__global__","topic":"T","totalQueues":1},"order":false,"perm":6,"readQueueNums":1,"topicFilterType":"SINGLE_TAG","topicName":"T","topicSysFlag":0,"writeQueueNums":1}},"brokerToMapIn":[],"brokerToMapOut":[],"epoch":1700000001000,"topic":"T","type":"CREATE_OR_UPDATE"}"#;
        std::fs::write(&path, text).unwrap();
        let file = read_file(&path).unwrap();
        let change = Change::of_file("T", Kind::Resize, file, &ByBroker::new(), false).unwrap();
        assert_eq!(change.epoch, 1_700_000_001_000);
        let (queue, was, is) = change.moved()[0];
        assert_eq!((queue, leader_text(was)), (0, "none".into()));
        assert_eq!(leader_text(Some(is)), "broker-a/0 generation 0");
        std::fs::write(&path, "{").unwrap();
        assert_eq!(read_file(&path).unwrap_err().exit, exit::USAGE);
    }
}
