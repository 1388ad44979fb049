//! Index items in the order of the log: beside the records of a piece run the items that lead to them.
//!
//! A broker appends items as it dispatches, so within a file their physical offsets do not decrease. Where they do, a
//! crash was replayed or an item is damaged, and another run begins.

use std::collections::BTreeMap;

use crate::inspect::index::{FileWalk, Index};
use crate::protocol::message::MessageView;
use crate::store::format::index::{ITEM_LEN, Item, Shape};
use crate::store::segments;

/// Most runs that are compared with the log.
pub(super) const MOST_RUNS: usize = 4096;
/// Bytes of items read at once by all cursors of a piece.
const BUDGET: usize = 512 * 1024;

/// Items of one file whose offsets do not decrease.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemRun {
    /// Which file.
    pub(super) file: usize,
    /// Number of the first item.
    pub(super) first: i32,
    /// Number behind the last.
    pub(super) end: i32,
    /// Lowest and highest physical offset.
    pub(super) offsets: (i64, i64),
}

/// All items of the index, as runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    pub(super) list: Vec<ItemRun>,
    /// False when a record that no item leads to may be indexed all the same: a file cannot be read, or is in
    /// disorder.
    pub(super) is_whole: bool,
    /// Highest physical offset of all.
    pub(super) reach: i64,
}

/// Items that have the same thing wrong.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Wrong {
    pub(super) count: u64,
    pub(super) first: Option<(i32, i64)>,
}

impl Wrong {
    pub(super) fn add(&mut self, n: i32, offset: i64) {
        self.count += 1;
        self.first.get_or_insert((n, offset));
    }

    pub(super) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.first = match (self.first, other.first) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// Keys of records that no item leads to the record for.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Missing {
    pub(super) count: u64,
    /// Physical offset of the record, and `topic#key`.
    pub(super) first: Option<(u64, String)>,
}

impl Missing {
    pub(super) fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.first = match (self.first.take(), other.first) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
    }
}

/// How items and records compared.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Compared {
    /// By index file: items that lead to no record, items that lead to a record without such a key.
    pub(super) wrong: BTreeMap<usize, (Wrong, Wrong)>,
    /// Keys that are not indexed, of records before the end of the index and behind it.
    pub(super) missing: (Missing, Missing),
}

impl Compared {
    pub(super) fn merge(&mut self, other: Self) {
        for (file, (gone, wrong)) in other.wrong {
            let ours = self.wrong.entry(file).or_default();
            ours.0.merge(&gone);
            ours.1.merge(&wrong);
        }
        self.missing.0.merge(other.missing.0);
        self.missing.1.merge(other.missing.1);
    }
}

/// One run, read from some offset on.
struct Cursor<'a> {
    file: &'a FileWalk,
    number: usize,
    shape: Shape,
    next: i32,
    end: i32,
    bytes: Vec<u8>,
    at: usize,
    most: usize,
}

impl Cursor<'_> {
    fn peek(&mut self) -> Option<Item> {
        if self.next >= self.end {
            return None;
        }
        if self.at + ITEM_LEN > self.bytes.len() {
            let first = u32::try_from(self.next).ok()?;
            let left = usize::try_from(self.end - self.next).ok()?;
            self.bytes.resize(left.saturating_mul(ITEM_LEN).min(self.most), 0);
            let from = self.shape.item_at(first) as u64;
            let read = segments::read_at_most(self.file.handle(), &mut self.bytes, from).unwrap_or(0);
            self.bytes.truncate(read);
            self.at = 0;
        }
        Some(Item::parse(self.bytes.get(self.at..)?.first_chunk()?))
    }

    fn step(&mut self) {
        self.next += 1;
        self.at += ITEM_LEN;
    }
}

/// The items that lead into a piece of the log.
pub(super) struct Join<'a> {
    cursors: Vec<Cursor<'a>>,
    /// Records whose keys no item leads to are told.
    checks_keys: bool,
    reach: i64,
    hashes: Vec<(i32, bool)>,
    pub(super) compared: Compared,
}

impl<'a> Join<'a> {
    /// The items for the offsets `from..to`.
    pub(super) fn new(index: &'a Index, runs: &Runs, from: u64, to: u64) -> Self {
        let (from, to) = (
            i64::try_from(from).unwrap_or(i64::MAX),
            i64::try_from(to).unwrap_or(i64::MAX),
        );
        let mut cursors = Vec::new();
        for run in &runs.list {
            let (low, high) = run.offsets;
            let file = index.files().get(run.file);
            let Some((file, shape)) = file.and_then(|file| Some((file, file.shape()?))) else {
                continue;
            };
            if high < from || low >= to {
                continue;
            }
            let before = |n: i32| file.item(shape, n).is_some_and(|item| item.offset < from);
            let (mut low, mut high) = (run.first, run.end);
            while low < high {
                let middle = low + (high - low) / 2;
                if before(middle) {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            cursors.push(Cursor {
                file,
                number: run.file,
                shape,
                next: low,
                end: run.end,
                bytes: Vec::new(),
                at: 0,
                most: 0,
            });
        }
        let most = (BUDGET / cursors.len().max(1) / ITEM_LEN).max(16) * ITEM_LEN;
        for cursor in &mut cursors {
            cursor.most = most;
        }
        Self {
            cursors,
            checks_keys: runs.is_whole && !runs.list.is_empty(),
            reach: runs.reach,
            hashes: Vec::new(),
            compared: Compared::default(),
        }
    }

    /// Compares the items for a record with its keys. `prefix` is the hash of `topic#`.
    pub(super) fn record(&mut self, view: &MessageView<'_>, at: u64, prefix: i32, keys: [Option<&str>; 2]) {
        let at = i64::try_from(at).unwrap_or(i64::MAX);
        let [unique, words] = keys;
        let keys = || {
            let words = words.unwrap_or_default().split(' ');
            unique.into_iter().chain(words.filter(|word| !word.is_empty()))
        };
        self.hashes.clear();
        for key in keys() {
            let hash = hash_on(prefix, key).checked_abs().unwrap_or(0);
            self.hashes.push((hash, false));
        }
        for cursor in &mut self.cursors {
            while let Some(item) = cursor.peek().filter(|item| item.offset <= at) {
                if item.offset < at {
                    let wrong = self.compared.wrong.entry(cursor.number).or_default();
                    wrong.0.add(cursor.next, item.offset);
                } else {
                    let mut known = false;
                    for (hash, found) in &mut self.hashes {
                        if *hash == item.hash {
                            (*found, known) = (true, true);
                        }
                    }
                    if !known {
                        let wrong = self.compared.wrong.entry(cursor.number).or_default();
                        wrong.1.add(cursor.next, item.offset);
                    }
                }
                cursor.step();
            }
        }
        if self.checks_keys && self.hashes.iter().any(|(_, found)| !found) {
            let missing = if at > self.reach {
                &mut self.compared.missing.1
            } else {
                &mut self.compared.missing.0
            };
            for (key, _) in keys().zip(&self.hashes).filter(|(_, (_, found))| !found) {
                missing.count += 1;
                missing.first.get_or_insert_with(|| {
                    (u64::try_from(at).unwrap_or(0), format!("{}#{key}", view.topic()))
                });
            }
        }
    }

    /// What came out; items that lead behind the last record of the piece lead to none.
    pub(super) fn finish(mut self, to: u64) -> Compared {
        let to = i64::try_from(to).unwrap_or(i64::MAX);
        for cursor in &mut self.cursors {
            while let Some(item) = cursor.peek().filter(|item| item.offset < to) {
                let wrong = self.compared.wrong.entry(cursor.number).or_default();
                wrong.0.add(cursor.next, item.offset);
                cursor.step();
            }
        }
        self.compared
    }
}

/// Java's string hash, continued from that of what stands before.
pub(super) fn hash_on(before: i32, text: &str) -> i32 {
    let next = |h: i32, c: u16| h.wrapping_mul(31).wrapping_add(i32::from(c));
    if text.is_ascii() {
        text.bytes().fold(before, |h, c| next(h, u16::from(c)))
    } else {
        text.encode_utf16().fold(before, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::format::index::key_hash;

    #[test]
    fn a_hash_can_be_continued() {
        for key in ["k0", "shared0", "Vw7uuIAsszv", "ключ"] {
            let prefix = hash_on(hash_on(0, "g_basic_b"), "#");
            let hash = hash_on(prefix, key).checked_abs().unwrap_or(0);
            assert_eq!(hash, key_hash("g_basic_b", key), "{key}");
        }
    }
}
