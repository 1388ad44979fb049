//! F5: torn writes and bit rot. One place of a copy of a store is cut, zeroed or has a bit flipped; then the inspector
//! must name it, and a broker must start on it and serve nothing that was never sent.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use super::Plan;
use super::audit::Audit;
use super::dice::Dice;
use super::line::Line;
use super::load::{Load, Producers};
use super::record;
use super::server::{Server, Site};
use super::support::{ports, scratch};
use super::wire::Wire;

const TOPIC: &str = "faults";
const QUEUES: i32 = 4;
const SEGMENT: u64 = 65_536;
const SLOTS: u64 = 50;
const ITEMS: u64 = 200;

/// Fields of a record that nothing else in the store repeats: a flipped bit in them is another value.
const UNPROTECTED: &[&str] = &[
    "flag",
    "sysFlag",
    "bornTimestamp",
    "bornHost",
    "storeTimestamp",
    "storeHost",
    "reconsumeTimes",
    "preparedTransactionOffset",
    "properties",
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Harm {
    Cut,
    Zero,
    Flip,
}

/// Where to do harm, and what lies there.
#[derive(Clone, Debug)]
struct Spot {
    kind: &'static str,
    file: PathBuf,
    at: u64,
    harm: Harm,
    /// Bytes to zero, or which bit to flip.
    amount: u64,
    /// Field of a record, where it is one.
    field: &'static str,
    /// The last field that the harm reaches, empty when one before it has a check.
    last_field: &'static str,
    /// The store was not stopped cleanly.
    torn_stop: bool,
    /// Ids of the messages that lie there.
    hit: usize,
}

/// A message of the log.
struct Placed {
    file: PathBuf,
    at: u64,
    len: u64,
    body: u64,
    topic: u64,
}

#[derive(Default)]
struct Counts {
    places: u64,
    crashes: u64,
    wrong: u64,
    /// The damaged header said so, and no checksum covers it.
    misplaced: u64,
    refused_start: u64,
    stuck: u64,
    beside: u64,
    unindexed: u64,
    /// Places that the inspector must name, and those it did.
    nameable: u64,
    named: u64,
}

pub fn run(plan: &Plan) -> Result<Vec<Line>, String> {
    let dir = scratch();
    let ports = ports::Block::take();
    let base = make_store(plan, dir.path(), ports.broker())?;
    let spots = choose(plan, &base)?;
    let kinds = [
        "field",
        "commitlog",
        "consumequeue",
        "index",
        "checkpoint",
        "config",
    ];
    let all: Mutex<Vec<(&'static str, Counts)>> =
        Mutex::new(kinds.map(|kind| (kind, Counts::default())).into());
    let next = Mutex::new(spots.into_iter());
    // Each worker has a broker of its own.
    let workers = if plan.target.is_java() { 1 } else { 2 };
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let ports = ports::Block::take();
                loop {
                    let Some(spot) = next.lock().unwrap().next() else {
                        break;
                    };
                    let counts = try_spot(plan, &base, &spot, ports.broker());
                    let mut all = all.lock().unwrap();
                    let (_, sum) = all.iter_mut().find(|(kind, _)| *kind == spot.kind).unwrap();
                    sum.add(&counts);
                }
            });
        }
    });
    let all = all.into_inner().unwrap();
    Ok(all
        .into_iter()
        .map(|(kind, counts)| counts.line(plan, kind))
        .collect())
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.places += other.places;
        self.crashes += other.crashes;
        self.wrong += other.wrong;
        self.misplaced += other.misplaced;
        self.refused_start += other.refused_start;
        self.stuck += other.stuck;
        self.beside += other.beside;
        self.unindexed += other.unindexed;
        self.nameable += other.nameable;
        self.named += other.named;
    }

    fn line(self, plan: &Plan, kind: &str) -> Line {
        let line = Line::new("F5", plan.seed)
            .figure("server", plan.target.name())
            .figure("file", kind)
            .bar("places", self.places, self.places > 0)
            .none("crashes", self.crashes)
            .none("wrong", self.wrong)
            .figure("misplaced", self.misplaced)
            .figure("refused_start", self.refused_start)
            .none("stuck", self.stuck)
            .figure("dropped_beside", self.beside)
            .figure("unindexed", self.unindexed);
        if plan.target.is_java() {
            return line;
        }
        let must = matches!(kind, "field" | "commitlog" | "consumequeue");
        line.bar(
            "named",
            format!("{}/{}", self.named, self.nameable),
            !must || self.named == self.nameable,
        )
    }
}

fn settings(site: Site) -> Site {
    site.with("mappedFileSizeCommitLog", &SEGMENT.to_string())
        .with("maxMessageSize", "16384")
        .with("mappedFileSizeConsumeQueue", "1000")
        .with("maxHashSlotNum", &SLOTS.to_string())
        .with("maxIndexNum", &ITEMS.to_string())
}

/// A store with several files of each kind, stopped cleanly.
fn make_store(plan: &Plan, dir: &Path, port: u16) -> Result<PathBuf, String> {
    let site = settings(Site::new(&dir.join("base"), port));
    let mut server = Server::start(&plan.target, &site).expect("a broker starts");
    let made = Wire::connect(&site.address(), Duration::from_secs(10))
        .and_then(|mut wire| wire.create_topic(TOPIC, QUEUES));
    assert!(made.is_ok_and(|answer| answer.code == 0), "the topic is made");
    let mut load = Load::new(&site.address(), TOPIC, plan.seed, 1);
    load.most = 250;
    Producers::start(&load, 2, &site.dir.join("journals")).join();
    super::audit::settled(&site.address()).expect("it settles");
    server.process.terminate(Duration::from_secs(60));
    Ok(site.dir)
}

/// Files of a directory in the order of their names.
fn files(dir: &Path) -> Vec<PathBuf> {
    let mut out: Vec<PathBuf> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    out.sort();
    out.retain(|path| path.is_file());
    out
}

/// The messages of the commit log, by walking it.
fn placed(store: &Path) -> Vec<Placed> {
    let mut out = Vec::new();
    for file in files(&store.join("commitlog")) {
        let bytes = std::fs::read(&file).unwrap();
        let mut at = 0;
        while let Some(record) = bytes.get(at..).and_then(record::parse) {
            let base = bytes.as_ptr() as usize;
            out.push(Placed {
                file: file.clone(),
                at: at as u64,
                len: record.len as u64,
                body: (record.body.as_ptr() as usize - base) as u64,
                topic: (record.topic.as_ptr() as usize - base) as u64,
            });
            at += record.len;
        }
    }
    out
}

fn fields(record: &Placed) -> Vec<(&'static str, u64)> {
    let mut out: Vec<(&'static str, u64)> = [
        ("totalSize", 0),
        ("magicCode", 4),
        ("bodyCRC", 8),
        ("queueId", 12),
        ("flag", 16),
        ("queueOffset", 20),
        ("physicalOffset", 28),
        ("sysFlag", 36),
        ("bornTimestamp", 40),
        ("bornHost", 48),
        ("storeTimestamp", 56),
        ("storeHost", 64),
        ("reconsumeTimes", 72),
        ("preparedTransactionOffset", 76),
    ]
    .map(|(name, at)| (name, record.at + at))
    .into();
    let properties = record.topic + TOPIC.len() as u64;
    out.extend([
        ("bodyLength", record.body - 4),
        ("body", record.body),
        ("topicLength", record.topic - 1),
        ("topic", record.topic),
        ("propertiesLength", properties),
        ("properties", properties + 2),
    ]);
    out
}

/// The field that a place of a record lies in.
fn field_at(record: &Placed, at: u64) -> &'static str {
    fields(record)
        .into_iter()
        .rfind(|(_, begin)| *begin <= at)
        .map_or("", |(name, _)| name)
}

/// The field of a record that changed bytes end in, when no field that they touch is covered by a check.
fn open_range(record: &Placed, changed: &[u64]) -> &'static str {
    let is_open = |at: u64| at < record.at + record.len && UNPROTECTED.contains(&field_at(record, at));
    match changed.last() {
        Some(&last) if changed.iter().all(|&at| is_open(at)) => field_at(record, last),
        _ => "",
    }
}

/// Places that harm changes: bytes that are zero already stay as they are.
fn changed(file: &Path, at: u64, len: u64, harm: Harm) -> Vec<u64> {
    let bytes = std::fs::read(file).unwrap();
    (at..at + len)
        .filter(|&at| harm != Harm::Zero || bytes.get(at as usize).is_some_and(|&byte| byte != 0))
        .collect()
}

fn choose(plan: &Plan, base: &Path) -> Result<Vec<Spot>, String> {
    let store = base.join("store");
    let log = placed(&store);
    let last = log.last().ok_or("the base store has no messages")?;
    let mut dice = Dice::new(plan.seed, 5);
    let mut out = Vec::new();
    let harms = [Harm::Cut, Harm::Zero, Harm::Flip];
    let slow = plan.target.is_java();
    for (name, at) in fields(last) {
        for harm in harms {
            // The short form draws one of the three.
            let torn_stop = dice.chance(50);
            if (plan.long && !slow) || dice.chance(33) {
                out.push(Spot {
                    kind: "field",
                    file: last.file.clone(),
                    at,
                    harm,
                    amount: if harm == Harm::Zero { 4 } else { dice.within(0, 8) },
                    field: name,
                    last_field: open_range(
                        last,
                        &changed(&last.file, at, if harm == Harm::Zero { 4 } else { 1 }, harm),
                    ),
                    torn_stop,
                    hit: 1,
                });
            }
        }
    }
    let mut used: Vec<(&'static str, PathBuf, u64)> = Vec::new();
    for file in files(&store.join("commitlog")) {
        let end = log.iter().filter(|m| m.file == file).map(|m| m.at + m.len).max();
        used.extend(end.map(|end| ("commitlog", file, end)));
    }
    for queue in 0..QUEUES {
        for file in files(&store.join("consumequeue").join(TOPIC).join(queue.to_string())) {
            let bytes = std::fs::read(&file).unwrap();
            // An entry that was written has a size.
            let entries = bytes
                .chunks(20)
                .filter(|entry| entry.len() == 20 && entry[8..12] != [0; 4])
                .count();
            used.push(("consumequeue", file, entries as u64 * 20));
        }
    }
    for file in files(&store.join("index")) {
        let bytes = std::fs::read(&file).unwrap();
        let count = u32::from_be_bytes(bytes[36..40].try_into().unwrap());
        used.push(("index", file, 40 + SLOTS * 4 + u64::from(count) * 20));
    }
    used.push(("checkpoint", store.join("checkpoint"), 24));
    for name in ["topics.json", "subscriptionGroup.json", "consumerOffset.json"] {
        let file = store.join("config").join(name);
        let len = std::fs::metadata(&file).map_or(0, |meta| meta.len());
        used.push(("config", file, len));
    }
    used.retain(|(_, _, len)| *len > 0);
    for kind in ["commitlog", "consumequeue", "index", "checkpoint", "config"] {
        let places = plan.rounds(4, if slow { 12 } else { 500 });
        let all: Vec<_> = used.iter().filter(|(of, _, _)| *of == kind).collect();
        for _ in 0..places {
            let (_, file, len) = *dice.pick(&all);
            let harm = *dice.pick(&harms);
            let at = dice.within(0, *len);
            let amount = if harm == Harm::Zero {
                dice.within(1, 64).min(len - at)
            } else {
                dice.within(0, 8)
            };
            let end = match harm {
                Harm::Cut => u64::MAX,
                Harm::Zero => at + amount,
                Harm::Flip => at + 1,
            };
            let touched = |m: &&Placed| m.file == *file && m.at < end && at < m.at + m.len;
            out.push(Spot {
                kind,
                file: file.clone(),
                at,
                harm,
                amount,
                field: log.iter().find(touched).map_or("", |m| field_at(m, at.max(m.at))),
                last_field: log.iter().find(touched).filter(|m| at >= m.at).map_or("", |m| {
                    open_range(
                        m,
                        &changed(file, at, if harm == Harm::Zero { amount } else { 1 }, harm),
                    )
                }),
                torn_stop: dice.chance(50),
                hit: if kind == "commitlog" {
                    log.iter().filter(touched).count()
                } else {
                    0
                },
            });
        }
    }
    Ok(out)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            std::fs::copy(&path, &target).unwrap();
        }
    }
}

/// Does the harm; false when it changed nothing.
fn harm(file: &Path, spot: &Spot) -> bool {
    let out = File::options().read(true).write(true).open(file).unwrap();
    let before = std::fs::read(file).unwrap();
    match spot.harm {
        Harm::Cut => out.set_len(spot.at).unwrap(),
        Harm::Zero => out.write_all_at(&vec![0; spot.amount as usize], spot.at).unwrap(),
        Harm::Flip => {
            let byte = before[spot.at as usize] ^ 1 << spot.amount;
            out.write_all_at(&[byte], spot.at).unwrap();
        }
    }
    before != std::fs::read(file).unwrap()
}

fn try_spot(plan: &Plan, base: &Path, spot: &Spot, port: u16) -> Counts {
    let dir = scratch();
    let site = settings(Site::new(dir.path(), port));
    copy(&base.join("store"), &site.store);
    let file = site
        .store
        .join(spot.file.strip_prefix(base.join("store")).unwrap());
    let mut counts = Counts::default();
    if !harm(&file, spot) {
        return counts;
    }
    if spot.torn_stop {
        std::fs::write(site.store.join("abort"), "1").unwrap();
    }
    counts.places = 1;
    let what = |why: &str| {
        let name = spot.file.strip_prefix(base.join("store")).unwrap().display();
        eprintln!(
            "F5 {} {name} at {} {:?} {} {} unclean={}: {why}",
            spot.kind, spot.at, spot.harm, spot.amount, spot.field, spot.torn_stop
        );
    };
    if !plan.target.is_java() {
        let is_open = match spot.kind {
            "field" | "commitlog" => spot.harm != Harm::Cut && UNPROTECTED.contains(&spot.last_field),
            _ => false,
        };
        match inspect(&site.store, &file, dir.path()) {
            Ok(named) if !is_open => {
                counts.nameable = 1;
                counts.named = u64::from(named);
                if !named && matches!(spot.kind, "field" | "commitlog" | "consumequeue") {
                    what("the inspector does not name it");
                }
            }
            Ok(_) => {}
            Err(why) => {
                what(&why);
                counts.crashes += 1;
            }
        }
    }
    let mut server = match Server::start(&plan.target, &site) {
        Ok(server) => server,
        Err(why) => {
            if why.contains("panicked") || why.contains("SIGSEGV") || why.contains("SIGBUS") {
                counts.crashes += 1;
            } else {
                counts.refused_start += 1;
            }
            if spot.kind != "config" {
                what(&why);
            }
            return counts;
        }
    };
    let mut audit = Audit::new(TOPIC, QUEUES);
    audit.index_step = 7;
    audit.load_all(&base.join("journals"));
    match audit.look(&site.address()) {
        Ok(found) => {
            counts.wrong = found.torn + found.extra + found.reorder;
            counts.misplaced = found.misplaced;
            if counts.wrong > 0 {
                what(&format!("{found:?}"));
            }
            // What was cut off is gone, and what is damaged too; the rest need not be.
            counts.beside = found.lost.saturating_sub(spot.hit as u64);
            counts.unindexed = found.unindexed;
        }
        Err(why) if spot.kind == "config" && why.contains("not exist") => {}
        Err(why) => {
            what(&why);
            counts.stuck = 1;
        }
    }
    if let Err(why) = goes_on(&site.address())
        && spot.kind != "config"
    {
        what(&why);
        counts.wrong += 1;
    }
    if !server.process.is_running() || site.said().contains("panicked") {
        what(&format!("it ended:\n{}", super::server::tail(&site.said())));
        counts.crashes += 1;
    }
    server.process.kill();
    counts
}

/// A new message gets a place, and is found there.
fn goes_on(address: &str) -> Result<(), String> {
    let text = |e: std::io::Error| e.to_string();
    let mut wire = Wire::connect(address, Duration::from_secs(10)).map_err(text)?;
    let answer = wire
        .send(TOPIC, 0, "after", b"sent after the damage")
        .map_err(text)?;
    if answer.code != 0 {
        return Err(format!(
            "a new message is refused: {} {}",
            answer.code, answer.remark
        ));
    }
    let offset = answer.number("queueOffset");
    super::audit::settled(address)?;
    let pulled = wire.pull(TOPIC, 0, offset).map_err(text)?;
    let (records, _) = record::all(&pulled.body);
    match records.first() {
        Some(first) if first.queue_offset == offset && first.body == b"sent after the damage" => Ok(()),
        _ => Err(format!(
            "a new message is not found at {offset}: code {}",
            pulled.code
        )),
    }
}

/// Whether the inspector names the file; an error when it crashes.
fn inspect(store: &Path, file: &Path, home: &Path) -> Result<bool, String> {
    let output = Command::new(env!("CARGO_BIN_EXE_rmq"))
        .args(["store", "verify", "-o", "jsonl", "--state"])
        .arg(home.join("verify-state"))
        .arg(store)
        .env("HOME", home)
        .output()
        .map_err(|e| e.to_string())?;
    let (said, talk) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    if output.status.code().is_none() || talk.contains("panicked") {
        return Err(format!("the inspector crashed: {talk}"));
    }
    let name = file.strip_prefix(store).unwrap().display().to_string();
    // A record whose header says something else is named where its queue entry differs from it; entries that are gone
    // from the end of a queue, by the records that they led to.
    let is_log = name.starts_with("commitlog");
    let is_queue = name.starts_with("consumequeue");
    Ok(said.contains(&name)
        || is_log && said.contains("entry-differs")
        || is_queue && said.contains("missing-entry"))
}
