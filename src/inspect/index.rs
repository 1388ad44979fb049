//! The index: its files, their chains, and what a query for a key would walk through.
//!
//! Read piece by piece, since a file has 420 MB and a broker may be writing to it.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::commit_log::Log;
use super::record::keys;
use super::{Error, io_error};
use crate::protocol::message::MessageView;
use crate::store::StoreConfig;
use crate::store::cursor::{DamageKind, Record};
use crate::store::format::index::{HEADER_LEN, Header, ITEM_LEN, Item, SLOT_LEN, Shape, key_hash};

mod survey;

pub use survey::{HeatCell, HotSlot, Keep, Others, SlotWalk, Survey};

/// Most items of one chain that are walked.
const MOST_ITEMS: usize = 1_000_000;

/// One file of the index, read only.
#[derive(Debug)]
pub struct FileWalk {
    path: PathBuf,
    file: File,
    len: u64,
    header: Header,
    shape: Option<Shape>,
}

/// The files of the index, oldest first.
#[derive(Debug)]
pub struct Index {
    files: Vec<FileWalk>,
}

impl FileWalk {
    fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let len = file.metadata().map_err(io_error("inspect", path))?.len();
        let mut head = [0; HEADER_LEN];
        let header = match file.read_exact_at(&mut head, 0) {
            Ok(()) => Header::parse(&head).unwrap_or_default(),
            Err(_) => Header::default(),
        };
        Ok(Self {
            path: path.to_owned(),
            file,
            len,
            header,
            shape: None,
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True for a file without items.
    pub fn is_empty(&self) -> bool {
        self.header.count <= 1
    }

    /// Its header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The file, open for reading.
    pub(super) fn handle(&self) -> &File {
        &self.file
    }

    /// Slots and items; `None` when that cannot be told.
    pub fn shape(&self) -> Option<Shape> {
        self.shape
    }

    fn known_shape(&self) -> Result<Shape, Error> {
        self.shape.ok_or_else(|| Error::Index {
            path: self.path.clone(),
            reason: format!(
                "{} bytes do not tell how many slots and items it has (maxHashSlotNum, maxIndexNum)",
                self.len
            ),
        })
    }

    /// The number in a slot.
    pub fn slot(&self, shape: Shape, slot: u32) -> std::io::Result<i32> {
        let mut word = [0; SLOT_LEN];
        self.file.read_exact_at(&mut word, shape.slot_at(slot) as u64)?;
        Ok(i32::from_be_bytes(word))
    }

    /// The item of a number.
    pub fn item(&self, shape: Shape, n: i32) -> Option<Item> {
        let n = u32::try_from(n).ok().filter(|&n| n >= 1 && n < shape.items)?;
        let mut bytes = [0; ITEM_LEN];
        self.file
            .read_exact_at(&mut bytes, shape.item_at(n) as u64)
            .ok()?;
        Some(Item::parse(&bytes))
    }

    /// Goes along a chain from an item on, newest first; at most `most` items, and until `each` returns false. Says
    /// why it was left before its end, if it was.
    fn follow(&self, head: i32, most: usize, mut each: impl FnMut(i32, Item) -> bool) -> Option<String> {
        let shape = self.shape?;
        if head == 0 {
            return None;
        }
        if head < 0 || head >= self.header.count {
            let given_out = self.header.count - 1;
            return Some(format!(
                "the slot leads to item {head}, but {given_out} were given out"
            ));
        }
        let mut next = head;
        for _ in 0..most {
            let Some(item) = self.item(shape, next) else {
                return Some(format!("there is no item {next}"));
            };
            let goes_on = each(next, item);
            if item.previous == 0 {
                return None;
            }
            if item.previous >= next || item.previous < 0 {
                return Some(format!(
                    "item {next} leads to {}, which is not older",
                    item.previous
                ));
            }
            if !goes_on {
                return Some(format!("stopped at item {next}"));
            }
            next = item.previous;
        }
        Some(format!("left after {most} items"))
    }

    /// True when a shape fits what the header says: the first item, the last item, and the slot of the last item,
    /// which nothing came after.
    fn fits(&self, shape: Shape) -> bool {
        let last = self.header.count - 1;
        if last < 1 || i64::from(last) >= i64::from(shape.items) {
            return false;
        }
        self.item(shape, 1)
            .is_some_and(|item| item.offset == self.header.begin_offset && item.previous == 0)
            && self.item(shape, last).is_some_and(|item| {
                item.offset == self.header.end_offset
                    && self
                        .slot(shape, shape.slot_of(item.hash))
                        .is_ok_and(|head| head == last)
            })
    }

    fn shape_of_items(&self, items: u64) -> Option<Shape> {
        let slot_bytes = self
            .len
            .checked_sub(HEADER_LEN as u64)?
            .checked_sub(items.checked_mul(ITEM_LEN as u64)?)?;
        (slot_bytes > 0 && slot_bytes % SLOT_LEN as u64 == 0).then_some(())?;
        Some(Shape {
            slots: u32::try_from(slot_bytes / SLOT_LEN as u64).ok()?,
            items: u32::try_from(items).ok()?,
        })
    }

    /// Looks for the one shape that fits length and content.
    fn find_shape(&self) -> Option<Shape> {
        // The default is four items a slot, and so are most others.
        let body = self.len.checked_sub(HEADER_LEN as u64)?;
        let of_four = self.shape_of_items(body / (4 * ITEM_LEN + SLOT_LEN) as u64 * 4);
        let full = self.shape_of_items(u64::try_from(self.header.count).ok()?);
        if let Some(shape) = [of_four, full]
            .into_iter()
            .flatten()
            .find(|&shape| self.fits(shape))
        {
            return Some(shape);
        }
        if self.is_empty() || body > 64 * 1024 * 1024 {
            return None;
        }
        let least = u64::try_from(self.header.count).ok()?;
        (least..=body / ITEM_LEN as u64)
            .filter_map(|items| self.shape_of_items(items))
            .find(|&shape| self.fits(shape))
    }

    /// Calls `each` with every item that was given out, oldest first, until it returns false.
    pub fn items(&self, mut each: impl FnMut(i32, Item) -> bool) -> Result<(), Error> {
        let shape = self.known_shape()?;
        let failed = |e| io_error("read", &self.path)(e);
        let mut handle = &self.file;
        handle
            .seek(SeekFrom::Start(shape.item_at(1) as u64))
            .map_err(failed)?;
        let mut reader = BufReader::with_capacity(256 * 1024, handle);
        let end = i64::from(self.header.count).min(i64::from(shape.items));
        for n in 1..end {
            let mut bytes = [0; ITEM_LEN];
            reader.read_exact(&mut bytes).map_err(failed)?;
            if !each(i32::try_from(n).unwrap_or(i32::MAX), Item::parse(&bytes)) {
                break;
            }
        }
        Ok(())
    }
}

/// What an item of a chain means for a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The record has the key.
    Hit,
    /// The record has another key with the same hash; a broker returns it, and the client throws it away.
    Collision,
    /// Another hash that shares the slot.
    OtherHash,
    /// The record has expired: it lies before the first file of the log.
    Expired,
    /// There is no valid record.
    NoRecord(DamageKind),
}

/// One item of a chain, explained.
#[derive(Debug, Clone)]
pub struct ChainItem {
    /// Its number.
    pub number: i32,
    /// The item.
    pub item: Item,
    /// Its store time, rounded down to a second of its file.
    pub time: i64,
    /// What it means.
    pub verdict: Verdict,
    /// The record, when there is one.
    pub record: Option<Record>,
}

impl ChainItem {
    /// `topic#key` of what the record is indexed under.
    pub fn real_keys(&self) -> Vec<String> {
        match self.record.as_ref().map(Record::view) {
            Some(Ok(view)) => keys(&view).map(|key| format!("{}#{key}", view.topic())).collect(),
            _ => Vec::new(),
        }
    }
}

/// The walk for one key through one file.
#[derive(Debug, Clone)]
pub struct KeyWalk {
    /// The file.
    pub path: PathBuf,
    /// Its header.
    pub header: Header,
    /// Hash of the key.
    pub hash: i32,
    /// Its slot.
    pub slot: u32,
    /// The number in the slot.
    pub head: i32,
    /// How many items were walked.
    pub walked: u64,
    /// The items of the chain that were asked for, newest first.
    pub items: Vec<ChainItem>,
    /// Why the chain was left before its end, if it was.
    pub broken: Option<String>,
}

impl Index {
    pub(super) fn open(paths: Vec<PathBuf>) -> Result<Self, Error> {
        let mut files = paths
            .iter()
            .map(|path| FileWalk::open(path))
            .collect::<Result<Vec<_>, _>>()?;
        let default = StoreConfig::default().index_shape();
        // All files of a store have one shape. Any file with items tells it; the default is looked at first.
        let found = files.iter().filter(|file| !file.is_empty()).find_map(|file| {
            if file.len == default.file_len() && file.fits(default) {
                Some((file.len, default))
            } else {
                file.find_shape().map(|shape| (file.len, shape))
            }
        });
        for file in &mut files {
            file.shape = match found {
                Some((len, shape)) if file.len == len => Some(shape),
                _ if file.len == default.file_len() => Some(default),
                _ => file.find_shape(),
            };
        }
        Ok(Self { files })
    }

    /// The files, oldest first.
    pub fn files(&self) -> &[FileWalk] {
        &self.files
    }

    /// Walks the chain of a key in one file and explains each item. Items of other hashes are left out unless
    /// `all`.
    pub fn walk_key(
        &self,
        file: &FileWalk,
        topic: &str,
        key: &str,
        log: &Log,
        all: bool,
    ) -> Result<KeyWalk, Error> {
        let hash = key_hash(topic, key);
        let slot = file.known_shape()?.slot_of(hash);
        let others = if all { Others::Explained } else { Others::LeftOut };
        let keep = Keep {
            most: usize::MAX,
            others,
            going: &|| true,
        };
        let walk = self.walk_slot(file, slot, Some((topic, key)), log, keep, |item| item)?;
        Ok(KeyWalk {
            path: file.path.clone(),
            header: file.header,
            hash,
            slot,
            head: walk.head,
            walked: walk.walked,
            items: walk.items,
            broken: walk.broken,
        })
    }
}

fn judge(item: &Item, hash: i32, topic: &str, key: &str, log: &Log) -> (Verdict, Option<Record>) {
    let (record, verdict) = record_of(item, log);
    if item.hash != hash {
        return (Verdict::OtherHash, record);
    }
    let has_key = |view: MessageView<'_>| view.topic() == topic && keys(&view).any(|k| k == key);
    match &record {
        Some(found) if found.view().is_ok_and(has_key) => (Verdict::Hit, record),
        Some(_) => (Verdict::Collision, record),
        None => (verdict.unwrap_or(Verdict::Expired), None),
    }
}

fn record_of(item: &Item, log: &Log) -> (Option<Record>, Option<Verdict>) {
    match u64::try_from(item.offset) {
        Err(_) => (None, Some(Verdict::NoRecord(DamageKind::Missing))),
        Ok(at) if at < log.start() => (None, Some(Verdict::Expired)),
        Ok(at) => match log.record_at(at) {
            Ok(record) => (Some(record), None),
            Err(kind) => (None, Some(Verdict::NoRecord(kind))),
        },
    }
}
