//! All chains of an index file in numbers: how the slots fill, how long chains are, which are the longest and why.

use std::collections::HashMap;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};

use super::{ChainItem, FileWalk, Index, MOST_ITEMS, Verdict, judge, record_of};
use crate::inspect::commit_log::Log;
use crate::inspect::{Error, io_error};
use crate::store::format::index::{HEADER_LEN, ITEM_LEN, Item, SLOT_LEN, key_hash};

/// Slots that are counted in one pass over the items: what bounds the memory, at 8 bytes a slot.
const SLOTS_AT_ONCE: u32 = 6_000_000;
/// Lengths told apart; the last counts all longer chains.
const LENGTHS: usize = 1024;
/// Longest chains that are named.
const HOTTEST: usize = 20;
/// Broken links that are named.
const NAMED: usize = 16;
/// Items between two looks at whether the caller wants more.
const STRIDE: i32 = 65_536;
/// Most items of a chain that are walked to explain it.
const MOST_EXPLAINED: usize = 20_000;
/// Hashes told apart in such a walk.
const MOST_HASHES: usize = 4096;

/// Slots that lie together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeatCell {
    /// How many slots.
    pub slots: u64,
    /// How many of them lead to an item.
    pub used: u64,
    /// Items of their chains.
    pub items: u64,
    /// Items of the longest chain.
    pub longest: u32,
    /// Its slot.
    pub longest_slot: u32,
}

impl HeatCell {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            slots: self.slots + other.slots,
            used: self.used + other.used,
            items: self.items + other.items,
            longest: self.longest.max(other.longest),
            longest_slot: if other.longest > self.longest {
                other.longest_slot
            } else {
                self.longest_slot
            },
        }
    }
}

/// All chains of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Survey {
    /// Slots of the file.
    pub slots: u64,
    /// Items that were given out.
    pub items: u64,
    /// Slots that items lead to.
    pub used: u64,
    /// How many chains have 1, 2, 3, .. items; the last counts all longer ones too.
    pub lengths: Vec<u64>,
    /// The slots in equal parts.
    pub cells: Vec<HeatCell>,
    /// Slots of the longest chains and how many items these have, longest first.
    pub hottest: Vec<(u32, u32)>,
    /// Items and slots whose link is not the one that the items before call for: number of the item (or of the slot's
    /// head), where it leads, where it should. The first few.
    pub broken_links: Vec<(u32, i32, i32)>,
    /// How many there are.
    pub broken: u64,
    /// Slots whose number is behind the count: not written back before a crash, or by a broker just now.
    pub behind_count: u64,
    /// Items whose physical offset is lower than that of the item before.
    pub disordered: u64,
    /// The pass was ended before it was through.
    pub stopped: bool,
}

impl Survey {
    /// Items of the longest chain.
    pub fn longest(&self) -> u32 {
        self.hottest.first().map_or(0, |&(_, items)| items)
    }

    /// The length that so many of 1000 chains do not exceed; 0 without chains. Lengths of 1024 and more count alike.
    pub fn length_of(&self, permille: u64) -> usize {
        let wanted = (u128::from(self.used) * u128::from(permille)).div_ceil(1000);
        let mut seen = 0;
        for (n, &chains) in self.lengths.iter().enumerate() {
            seen += u128::from(chains);
            if chains > 0 && seen >= wanted {
                return n + 1;
            }
        }
        0
    }

    fn name_broken(&mut self, n: u32, found: i32, expected: i32) {
        self.broken += 1;
        if self.broken_links.len() < NAMED {
            self.broken_links.push((n, found, expected));
        }
    }

    fn count(&mut self, slot: u32, items: u32, cells: usize) {
        let cell = u64::from(slot) * cells as u64 / self.slots.max(1);
        if let Some(cell) = usize::try_from(cell).ok().and_then(|n| self.cells.get_mut(n)) {
            *cell = cell.and(HeatCell {
                slots: 1,
                used: u64::from(items > 0),
                items: items.into(),
                longest: items,
                longest_slot: slot,
            });
        }
        if items == 0 {
            return;
        }
        self.used += 1;
        if let Some(chains) = self.lengths.get_mut((items as usize).min(LENGTHS) - 1) {
            *chains += 1;
        }
        let least = self.hottest.last().map_or(0, |&(_, items)| items);
        if self.hottest.len() < HOTTEST || items > least {
            let place = self.hottest.partition_point(|&(_, other)| other >= items);
            self.hottest.insert(place, (slot, items));
            self.hottest.truncate(HOTTEST);
        }
    }
}

/// A long chain and the key that causes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotSlot {
    /// The slot.
    pub slot: u32,
    /// Items of its chain.
    pub items: u32,
    /// How many of them were looked at.
    pub walked: u64,
    /// The hash that most of those have.
    pub hash: i32,
    /// How many have it.
    pub of_hash: u64,
    /// `topic#key` with that hash, from a record that is still there.
    pub key: Option<String>,
}

/// The chain of a slot, its first items explained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotWalk<T> {
    /// The slot.
    pub slot: u32,
    /// The number in it.
    pub head: i32,
    /// How many items were walked.
    pub walked: u64,
    /// Items with the hash that was asked for, how many of them have the key, how many another key.
    pub sums: (u64, u64, u64),
    /// The first items, newest first.
    pub items: Vec<T>,
    /// Why the chain was left before its end, if it was.
    pub broken: Option<String>,
}

impl FileWalk {
    /// Counts all chains, in `cells` equal parts. `each` hears how many bytes of how many are read and ends it with
    /// false.
    pub fn survey(&self, cells: usize, each: &mut dyn FnMut(u64, u64) -> bool) -> Result<Survey, Error> {
        let shape = self.known_shape()?;
        let mut survey = Survey {
            slots: shape.slots.into(),
            lengths: vec![0; LENGTHS],
            cells: vec![HeatCell::default(); cells.clamp(1, 1 << 20)],
            ..Survey::default()
        };
        let cells = survey.cells.len();
        let given_out = u64::try_from(self.header.count - 1).unwrap_or(0);
        let passes = u64::from(shape.slots.div_ceil(SLOTS_AT_ONCE)).max(1);
        let total = passes * given_out * ITEM_LEN as u64 + u64::from(shape.slots) * SLOT_LEN as u64;
        let mut done = 0;
        let mut from = 0;
        while from < shape.slots && !survey.stopped {
            let to = shape.slots.min(from.saturating_add(SLOTS_AT_ONCE));
            let mut heads = vec![0i32; (to - from) as usize];
            let mut counts = vec![0u32; (to - from) as usize];
            let mut before = i64::MIN;
            let mut going = true;
            self.items(|n, item| {
                if from == 0 {
                    survey.items += 1;
                    survey.disordered += u64::from(item.offset < before);
                    before = item.offset;
                }
                let slot = shape.slot_of(item.hash);
                let place = slot.checked_sub(from).map(|n| n as usize);
                if let Some((head, count)) = place.and_then(|n| Some((heads.get_mut(n)?, counts.get_mut(n)?)))
                {
                    if item.previous != *head {
                        survey.name_broken(n.unsigned_abs(), item.previous, *head);
                    }
                    *head = n;
                    *count += 1;
                }
                done += ITEM_LEN as u64;
                if n % STRIDE == 0 {
                    going = each(done, total);
                }
                going
            })?;
            if !going {
                survey.stopped = true;
                break;
            }
            self.slot_words(from, to, |n, found| {
                let head = heads.get(n).copied().unwrap_or(0);
                if found >= self.header.count {
                    survey.behind_count += 1;
                } else if found != head {
                    survey.name_broken(head.unsigned_abs(), found, head);
                }
            })?;
            done += u64::from(to - from) * SLOT_LEN as u64;
            for (slot, &items) in (from..to).zip(&counts) {
                survey.count(slot, items, cells);
            }
            from = to;
            survey.stopped = !each(done, total);
        }
        while survey.lengths.last() == Some(&0) {
            survey.lengths.pop();
        }
        Ok(survey)
    }

    /// Calls `each` with the numbers in a range of slots.
    fn slot_words(&self, from: u32, to: u32, mut each: impl FnMut(usize, i32)) -> Result<(), Error> {
        let failed = |e| io_error("read", &self.path)(e);
        let mut handle = &self.file;
        let at = HEADER_LEN as u64 + u64::from(from) * SLOT_LEN as u64;
        handle.seek(SeekFrom::Start(at)).map_err(failed)?;
        let mut reader = BufReader::with_capacity(256 * 1024, handle);
        for n in 0..(to - from) as usize {
            let mut word = [0; SLOT_LEN];
            reader.read_exact(&mut word).map_err(failed)?;
            each(n, i32::from_be_bytes(word));
        }
        Ok(())
    }

    /// What makes a chain long: the hash that most of its items have, and the key of it.
    pub fn hot(&self, slot: u32, items: u32, log: &Log) -> Result<HotSlot, Error> {
        let shape = self.known_shape()?;
        let head = self.slot(shape, slot).map_err(io_error("read", &self.path))?;
        let mut hashes: HashMap<i32, (u64, Item)> = HashMap::new();
        let mut walked = 0;
        self.follow(head, MOST_EXPLAINED, |_, item| {
            walked += 1;
            if hashes.len() < MOST_HASHES || hashes.contains_key(&item.hash) {
                hashes.entry(item.hash).or_insert((0, item)).0 += 1;
            }
            true
        });
        // Of hashes that are as frequent the smallest, so that the answer is the same each time.
        let most = hashes
            .into_iter()
            .max_by_key(|(hash, (count, _))| (*count, std::cmp::Reverse(*hash)));
        let (hash, of_hash, newest) = match most {
            Some((hash, (count, item))) => (hash, count, Some(item)),
            None => (0, 0, None),
        };
        let key = newest.and_then(|item| {
            let (record, _) = record_of(&item, log);
            let found = ChainItem {
                number: head,
                item,
                time: 0,
                verdict: Verdict::OtherHash,
                record,
            };
            found.real_keys().into_iter().find(|key| {
                let (topic, key) = key.split_once('#').unwrap_or((key, ""));
                key_hash(topic, key) == hash
            })
        });
        Ok(HotSlot {
            slot,
            items,
            walked,
            hash,
            of_hash,
            key,
        })
    }
}

/// What becomes of items with another hash than the one that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Others {
    /// They are left out.
    LeftOut,
    /// They are kept without their record.
    Bare,
    /// They are kept with their record.
    Explained,
}

/// Which items of a chain are kept, and how long the walk goes on.
#[derive(Clone, Copy)]
pub struct Keep<'a> {
    /// Most items that are kept; all are counted.
    pub most: usize,
    /// What becomes of other hashes.
    pub others: Others,
    /// Ends the walk with false.
    pub going: &'a dyn Fn() -> bool,
}

/// Items between two looks at whether the walk goes on.
const LOOK: u64 = 64;

impl Index {
    /// Walks the chain of a slot, up to a million items, and explains those that are kept: with a topic and key those
    /// that have its hash come with their record, and all are counted.
    pub fn walk_slot<T>(
        &self,
        file: &FileWalk,
        slot: u32,
        wanted: Option<(&str, &str)>,
        log: &Log,
        keep: Keep<'_>,
        mut each: impl FnMut(ChainItem) -> T,
    ) -> Result<SlotWalk<T>, Error> {
        let shape = file.known_shape()?;
        let head = file.slot(shape, slot).map_err(io_error("read", &file.path))?;
        let wanted = wanted.map(|(topic, key)| (topic, key, key_hash(topic, key)));
        let mut walk = SlotWalk {
            slot,
            head,
            walked: 0,
            sums: (0, 0, 0),
            items: Vec::new(),
            broken: None,
        };
        walk.broken = file.follow(head, MOST_ITEMS, |number, item| {
            walk.walked += 1;
            let is_other = wanted.is_some_and(|(_, _, hash)| hash != item.hash);
            let is_kept = walk.items.len() < keep.most && !(is_other && keep.others == Others::LeftOut);
            let (verdict, record) = match wanted {
                Some(_) if is_other && !(is_kept && keep.others == Others::Explained) => {
                    (Verdict::OtherHash, None)
                }
                Some((topic, key, hash)) => judge(&item, hash, topic, key, log),
                None if is_kept => {
                    let (record, verdict) = record_of(&item, log);
                    (verdict.unwrap_or(Verdict::Hit), record)
                }
                None => (Verdict::Hit, None),
            };
            if wanted.is_some() && !is_other {
                walk.sums.0 += 1;
                walk.sums.1 += u64::from(verdict == Verdict::Hit);
                walk.sums.2 += u64::from(verdict == Verdict::Collision);
            }
            if is_kept {
                walk.items.push(each(ChainItem {
                    number,
                    item,
                    time: item.timestamp(&file.header),
                    verdict,
                    record,
                }));
            }
            !walk.walked.is_multiple_of(LOOK) || (keep.going)()
        });
        Ok(walk)
    }
}
