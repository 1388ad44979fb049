//! The index: its files, their chains, and the way from a key to its records.

use std::path::Path;

use super::Asker;
use crate::inspect::{ChainItem, Error, FileWalk, Index, Keep, Others, Store, Verdict, key_hash};
use crate::tui::store::answer::{Answer, Chain, ChainRow, Found, IndexRow, KeyFound, Surveyed};

/// Parts that a survey tells apart; a heat map adds them up to the cells it has room for.
const CELLS: usize = 4096;
/// Longest chains that are explained.
const HOT: usize = 12;
/// Items of a chain that are shown.
const MOST_ITEMS: usize = 200;
/// Chains of a key that are kept.
const MOST_CHAINS: usize = 64;
/// Other topics with the same key that are named.
const MOST_TOPICS: usize = 8;

fn name(path: &Path) -> String {
    path.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

fn file<'a>(index: &'a Index, wanted: &str) -> Result<&'a FileWalk, Error> {
    let found = index.files().iter().find(|file| name(file.path()) == wanted);
    found.ok_or_else(|| Error::Index {
        path: wanted.into(),
        reason: "there is no such file any more".to_owned(),
    })
}

/// The files, oldest first.
pub fn files(store: &Store) -> Result<Vec<IndexRow>, Error> {
    let index = store.index()?;
    let rows = index.files().iter().map(|file| {
        let (header, shape) = (file.header(), file.shape());
        IndexRow {
            name: name(file.path()),
            len: file.len(),
            items: (
                i64::from(header.count) - 1,
                shape.map(|shape| u64::from(shape.items).saturating_sub(1)),
            ),
            slots: (header.used_slots.into(), shape.map(|shape| shape.slots.into())),
            times: (header.begin_timestamp, header.end_timestamp),
            offsets: (header.begin_offset, header.end_offset),
        }
    });
    Ok(rows.collect())
}

/// Counts all chains of a file, and explains the longest.
pub fn survey(store: &Store, wanted: &str, asker: &mut Asker<'_>) -> Result<Surveyed, Error> {
    let index = store.index()?;
    let file = file(&index, wanted)?;
    let mut seen = Surveyed::default();
    let survey = file.survey(CELLS, &mut |done, total| {
        seen.done = (done, total);
        asker.tell(|| Answer::Survey(Box::new(seen.clone())))
    })?;
    let log = store.log()?;
    for &(slot, items) in survey.hottest.iter().take(HOT) {
        if asker.is_gone() {
            break;
        }
        seen.hot.push(file.hot(slot, items, &log)?);
    }
    seen.survey = Some(survey);
    Ok(seen)
}

fn row(item: &ChainItem) -> ChainRow {
    ChainRow {
        number: item.number,
        hash: item.item.hash,
        at: item.item.offset,
        stored_ms: item.time,
        verdict: match &item.verdict {
            Verdict::Hit => Found::Hit,
            Verdict::Collision => Found::OtherKey,
            Verdict::OtherHash => Found::OtherHash,
            Verdict::Expired => Found::Expired,
            Verdict::NoRecord(kind) => Found::NoRecord(kind.to_string()),
        },
        keys: item.real_keys(),
    }
}

/// The chain of a slot.
pub fn slot(store: &Store, wanted: &str, slot: u32, asker: &Asker<'_>) -> Result<Chain, Error> {
    let index = store.index()?;
    let file = file(&index, wanted)?;
    let slots = file.shape().map_or(0, |shape| shape.slots);
    if slots > 0 && slot >= slots {
        return Err(Error::Index {
            path: wanted.into(),
            reason: format!("has {slots} slots, there is none with number {slot}"),
        });
    }
    let log = store.log()?;
    let keep = Keep {
        most: MOST_ITEMS,
        others: Others::Explained,
        going: &|| !asker.is_gone(),
    };
    Ok(Chain {
        file: wanted.to_owned(),
        walk: index.walk_slot(file, slot, None, &log, keep, |item| row(&item))?,
    })
}

/// The chains of a key, newest file first.
pub fn key(store: &Store, topic: Option<&str>, key: &str, asker: &Asker<'_>) -> Result<KeyFound, Error> {
    let index = store.index()?;
    let log = store.log()?;
    let topics: Vec<String> = match topic {
        Some(topic) => vec![topic.to_owned()],
        None => store.topics()?.into_iter().collect(),
    };
    // Without the number of its slots a file cannot be walked.
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    for file in index.files().iter().filter(|file| !file.is_empty()) {
        match file.shape() {
            Some(shape) => files.push((file, shape)),
            None => skipped.push(name(file.path())),
        }
    }
    let keep = Keep {
        most: MOST_ITEMS,
        others: Others::Bare,
        going: &|| !asker.is_gone(),
    };
    let mut found = KeyFound {
        text: topic.map_or_else(|| key.to_owned(), |topic| format!("{topic}#{key}")),
        hash: topic.map(|topic| key_hash(topic, key)),
        tried: (files.len(), topics.len()),
        skipped,
        ..KeyFound::default()
    };
    for of in &topics {
        let hash = key_hash(of, key);
        let mut chains = Vec::new();
        let mut hits = 0;
        for (file, shape) in files.iter().rev() {
            asker.goes_on()?;
            let slot = shape.slot_of(hash);
            let walk = index.walk_slot(file, slot, Some((of, key)), &log, keep, |item| row(&item))?;
            hits += walk.sums.1;
            found.cut += u64::from(walk.broken.is_some());
            if chains.len() < MOST_CHAINS && (walk.sums.0 > 0 || topic.is_some()) {
                chains.push(Chain {
                    file: name(file.path()),
                    walk,
                });
            }
        }
        let is_first = found.hits == 0;
        if hits > 0 && !is_first {
            if found.also.len() < MOST_TOPICS {
                found.also.push(of.clone());
            }
        } else if hits > 0 || topic.is_some() {
            found.text = format!("{of}#{key}");
            found.hash = Some(hash);
            found.chains = chains;
            found.hits = hits;
        }
    }
    Ok(found)
}
