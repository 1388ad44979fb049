//! `rmq store index`.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value, json};

use super::{Place, count, int, interrupt, path};
use crate::cli::exit::{self, Failure};
use crate::cli::output::{Cell, Column, Detail, Listing, col, wide};
use crate::cli::session::Session;
use crate::inspect::{ChainItem, FileWalk, Index, KeyWalk, Store, Verdict, key_hash};

/// `rmq store index`
#[derive(Debug, Clone, Args)]
pub struct IndexArgs {
    #[command(flatten)]
    place: Place,
    /// One index file, by name or path: its chains are counted and checked
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Walk the chain of a key and explain each item
    #[arg(short, long, num_args = 2, value_names = ["TOPIC", "KEY"])]
    key: Option<Vec<String>>,
    /// With --key: also the items of other keys that share the slot
    #[arg(long, requires = "key")]
    all: bool,
}

const FILES: &[Column] = &[
    col("file"),
    col("items"),
    col("room"),
    col("slots"),
    col("used_slots"),
    col("begins_at"),
    col("ends_at"),
    col("begin_offset"),
    col("end_offset"),
    wide("size"),
    wide("path"),
];

const ITEMS: &[Column] = &[
    col("file"),
    col("item"),
    col("offset"),
    col("stored_at"),
    col("verdict"),
    col("keys"),
    wide("hash"),
    wide("slot"),
    wide("seconds"),
    wide("previous"),
    col("note"),
];

/// Files whose slot and time window are told.
const NAMED_FILES: usize = 20;

/// Runs `rmq store index`.
pub fn run(session: &Session, args: &IndexArgs) -> Result<(), Failure> {
    let store = args.place.open()?;
    let index = store.index()?;
    if let Some([topic, key]) = args.key.as_deref() {
        return walk_key(session, args, &store, &index, topic, key);
    }
    if args.file.is_some() {
        let file = chosen(args, &index)?;
        return chains(session, file.first().copied());
    }
    let mut listing = Listing::new("IndexFileList", FILES);
    listing.ordered = true;
    for file in index.files() {
        listing.push(file_row(file));
    }
    session.printer.print(listing)
}

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

/// The file that was named, or all.
fn chosen<'a>(args: &IndexArgs, index: &'a Index) -> Result<Vec<&'a FileWalk>, Failure> {
    let Some(wanted) = &args.file else {
        return Ok(index.files().iter().collect());
    };
    let found: Vec<&FileWalk> = index
        .files()
        .iter()
        .filter(|file| file.path() == wanted || name(file.path()) == name(wanted))
        .collect();
    if found.is_empty() {
        let known: Vec<String> = index.files().iter().map(|file| name(file.path())).collect();
        let failure = Failure::new(
            exit::NOT_FOUND,
            format!("there is no index file {}", wanted.display()),
        );
        return Err(if known.is_empty() {
            failure.because("The store has no index files.")
        } else {
            failure.because(format!("There are: {}.", known.join(", ")))
        });
    }
    Ok(found)
}

fn file_row(file: &FileWalk) -> Vec<Cell> {
    let header = file.header();
    let shape = file.shape();
    vec![
        name(file.path()).into(),
        Cell::Int(i64::from(header.count) - 1),
        shape.map_or(Cell::Unknown, |shape| Cell::Int(i64::from(shape.items) - 1)),
        shape.map_or(Cell::Unknown, |shape| Cell::Int(shape.slots.into())),
        header.used_slots.into(),
        Cell::time(Some(header.begin_timestamp)),
        Cell::time(Some(header.end_timestamp)),
        header.begin_offset.into(),
        header.end_offset.into(),
        int(file.len()),
        path(file.path()),
    ]
}

/// Lengths of chains that are told apart; the last line counts all longer ones too.
const LENGTHS: usize = 10;

/// One file: header, slot use, lengths of its chains.
fn chains(session: &Session, file: Option<&FileWalk>) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let stats = file.survey(1, &mut |_, _| true)?;
    let mut fields: Vec<(&'static str, Cell)> = FILES
        .iter()
        .map(|column| column.key)
        .zip(file_row(file))
        .collect();
    let slots = file.shape().map_or(0, |shape| u64::from(shape.slots));
    let share = |part: u64, whole: u64| {
        if whole == 0 {
            0.0
        } else {
            part as f64 / whole as f64
        }
    };
    fields.extend([
        ("slot_use", Cell::Ratio(share(stats.used, slots))),
        ("mean_chain", Cell::Float(share(stats.items, stats.used))),
        ("longest_chain", Cell::Int(stats.longest().into())),
        ("slots_behind_count", int(stats.behind_count)),
        ("broken_links", int(stats.broken)),
        ("items_out_of_order", int(stats.disordered)),
    ]);
    let mut lengths = Listing::new(
        "ChainLengthList",
        &[col("chain_length"), col("chains"), col("share")],
    );
    lengths.ordered = true;
    let chains: u64 = stats.lengths.iter().sum();
    let told = stats.lengths.len().min(LENGTHS);
    for n in 0..told {
        let is_last = n + 1 == told;
        let is_open = is_last && stats.longest() as usize > n + 1;
        let upto = if is_last { stats.lengths.len() } else { n + 1 };
        let found: u64 = stats.lengths[n..upto].iter().sum();
        let length = if is_open {
            format!("{} and more", n + 1)
        } else {
            (n + 1).to_string()
        };
        lengths.push(vec![length.into(), int(found), Cell::Ratio(share(found, chains))]);
    }
    let mut broken = Listing::new(
        "BrokenLinkList",
        &[col("item"), col("leads_to"), col("should_be")],
    );
    broken.ordered = true;
    for &(item, found, expected) in &stats.broken_links {
        broken.push(vec![Cell::Int(item.into()), found.into(), expected.into()]);
    }
    session.printer.print_detail(Detail {
        kind: "IndexFile",
        fields,
        tables: vec![("chain_lengths", lengths), ("broken_links", broken)],
        ..Detail::default()
    })?;
    if stats.broken == 0 {
        return Ok(());
    }
    Err(Failure::new(
        exit::ERRORS,
        format!(
            "{} broken in {}",
            count(stats.broken, "link"),
            file.path().display()
        ),
    ))
}

fn verdict_words(item: &ChainItem) -> (&'static str, Option<String>) {
    match &item.verdict {
        Verdict::Hit => ("hit", None),
        Verdict::Collision => (
            "collision",
            Some("same hash, another key: a broker returns it, the client drops it".into()),
        ),
        Verdict::OtherHash => ("other hash", Some("another key that shares the slot".into())),
        Verdict::Expired => (
            "expired",
            Some("the record lies before the first file of the log".into()),
        ),
        Verdict::NoRecord(kind) => ("no record", Some(format!("no valid record there: {kind}"))),
    }
}

fn walk_key(
    session: &Session,
    args: &IndexArgs,
    store: &Store,
    index: &Index,
    topic: &str,
    key: &str,
) -> Result<(), Failure> {
    let log = store.log()?;
    let files = chosen(args, index)?;
    let mut listing = Listing::new("IndexItemList", ITEMS);
    listing.ordered = true;
    let (mut hits, mut collisions, mut slots) = (0u64, 0u64, Vec::new());
    let mut windows = Vec::new();
    let zone = &session.printer.zone;
    let when = |ms: i64| zone.text(ms).unwrap_or_else(|| ms.to_string());
    // A query goes from the newest file back.
    for file in files.iter().rev().filter(|file| !file.is_empty()) {
        if interrupt::asked() {
            break;
        }
        let walk = index.walk_key(file, topic, key, &log, args.all)?;
        slots.push(json!({
            "file": name(&walk.path), "slot": walk.slot, "head": walk.head, "walked": walk.walked,
            "begins_at_ms": walk.header.begin_timestamp, "ends_at_ms": walk.header.end_timestamp,
            "broken": walk.broken,
        }));
        windows.push(format!(
            "{}: slot {} leads to item {}, {} walked; records of {} to {}",
            name(&walk.path),
            walk.slot,
            walk.head,
            count(walk.walked, "item"),
            when(walk.header.begin_timestamp),
            when(walk.header.end_timestamp)
        ));
        if let Some(broken) = &walk.broken {
            session.warn(&format!("{}: {broken}", walk.path.display()));
        }
        for item in &walk.items {
            hits += u64::from(item.verdict == Verdict::Hit);
            collisions += u64::from(item.verdict == Verdict::Collision);
            listing.push(item_row(&walk, item));
        }
    }
    let hash = key_hash(topic, key);
    let summary = json!({
        "topic": topic, "key": key, "hash": hash, "files": files.len(),
        "hits": hits, "collisions": collisions, "slots": slots,
    });
    listing.summary = summary.as_object().cloned().unwrap_or_else(Map::new);
    session.printer.print(listing)?;
    for window in windows.iter().take(NAMED_FILES) {
        session.note(window);
    }
    let slot = slots
        .first()
        .and_then(|slot| slot.get("slot"))
        .and_then(Value::as_u64);
    session.note(&format!(
        "\"{topic}#{key}\" has hash {hash}{}: {}, {} in {}",
        slot.map_or_else(String::new, |slot| format!(", slot {slot}")),
        count(hits, "hit"),
        count(collisions, "collision"),
        count(files.len() as u64, "file")
    ));
    interrupt::check(&format!("{} were walked", count(windows.len() as u64, "file")))?;
    if hits > 0 {
        return Ok(());
    }
    Err(Failure::new(
        exit::NOT_FOUND,
        format!("the index has no record with key \"{key}\" of topic {topic}"),
    )
    .hint(format!(
        "rmq store find {} --topic {} --key {} --scan",
        crate::cli::quoted(&store.root().to_string_lossy()),
        crate::cli::quoted(topic),
        crate::cli::quoted(key)
    )))
}

fn item_row(walk: &KeyWalk, item: &ChainItem) -> Vec<Cell> {
    let (verdict, note) = verdict_words(item);
    vec![
        name(&walk.path).into(),
        item.number.into(),
        item.item.offset.into(),
        Cell::time(Some(item.time)),
        verdict.into(),
        item.real_keys().into(),
        item.item.hash.into(),
        Cell::Int(walk.slot.into()),
        item.item.seconds.into(),
        item.item.previous.into(),
        note.into(),
    ]
}
