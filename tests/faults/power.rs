//! What a disk would hold after the power failed: what flushes made durable, as the shim wrote it down, and of all the
//! rest whatever the dice say.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::dice::Dice;
use super::{load, record};

const PAGE: usize = 4096;
const HEADER: usize = 40;
const MAGIC: u32 = 0x504C_4154;
/// The second word of what fills the rest of a segment.
const BLANK: [u8; 4] = 0xCBD4_3194_u32.to_be_bytes();

/// A file as far as it was flushed.
#[derive(Default, Clone)]
struct Durable {
    size: u64,
    pages: BTreeMap<u64, Box<[u8; PAGE]>>,
    /// Pages whose write-back failed, as they were then. The system takes such a page for clean: until it is written to
    /// again, a later flush has nothing to do and succeeds.
    failed: BTreeMap<u64, Box<[u8; PAGE]>>,
}

impl Durable {
    /// The file as the disk has it for sure.
    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; self.size as usize];
        for (number, page) in &self.pages {
            let at = *number as usize * PAGE;
            if let Some(place) = out.get_mut(at..) {
                let len = PAGE.min(place.len());
                place[..len].copy_from_slice(&page[..len]);
            }
        }
        out
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        for (number, from, piece) in pages(at, bytes) {
            if piece.len() == PAGE
                && self
                    .failed
                    .get(&number)
                    .is_some_and(|failed| failed[..] == *piece)
            {
                continue;
            }
            self.failed.remove(&number);
            let page = self.pages.entry(number).or_insert_with(|| Box::new([0; PAGE]));
            page[from..from + piece.len()].copy_from_slice(piece);
        }
    }

    fn fail(&mut self, at: u64, bytes: &[u8]) {
        for (number, from, piece) in pages(at, bytes) {
            let clean = [0; PAGE];
            let durable = self.pages.get(&number).map_or(&clean, |page| &**page);
            let mut page = Box::new(*durable);
            page[from..from + piece.len()].copy_from_slice(piece);
            if *page != *durable {
                self.failed.insert(number, page);
            }
        }
    }
}

/// The pages that bytes at an offset lie in: number, begin within it, and the piece.
fn pages(mut at: u64, mut bytes: &[u8]) -> Vec<(u64, usize, &[u8])> {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let from = at as usize % PAGE;
        let (piece, rest) = bytes.split_at(bytes.len().min(PAGE - from));
        out.push((at / PAGE as u64, from, piece));
        at += piece.len() as u64;
        bytes = rest;
    }
    out
}

/// Names of a directory: identity and whether it is a directory itself.
type Names = BTreeMap<String, (u64, bool)>;

/// The record of durable things.
#[derive(Default)]
pub struct Platter {
    files: HashMap<u64, Durable>,
    directories: HashMap<u64, Names>,
}

/// How much of what was not flushed is kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unflushed {
    /// Any subset, also of names that were not flushed: what POSIX allows.
    AnySubset,
    /// All names, as on a file system whose flushes carry the journal along.
    AllKept,
}

impl Platter {
    /// Reads the record; its last note may be cut, since the process was killed.
    pub fn read(path: &Path) -> Self {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(path) {
            file.read_to_end(&mut bytes).unwrap();
        }
        let mut platter = Self::default();
        let mut rest = &bytes[..];
        while rest.len() >= HEADER {
            let word = |at: usize| u64::from_ne_bytes(rest[at..at + 8].try_into().unwrap());
            let half = |at: usize| u32::from_ne_bytes(rest[at..at + 4].try_into().unwrap());
            assert_eq!(half(0), MAGIC, "a note of the shim");
            let (kind, id, offset, size) = (half(4), word(8), word(16), word(32));
            let len = word(24) as usize;
            let Some(data) = rest.get(HEADER..HEADER + len) else {
                break;
            };
            if kind == 1 {
                let file = platter.files.entry(id).or_default();
                file.size = size;
                file.put(offset, data);
            } else if kind == 3 {
                platter.files.entry(id).or_default().fail(offset, data);
            } else {
                platter.directories.insert(id, names(data));
            }
            rest = &rest[HEADER + len..];
        }
        platter
    }

    /// Ids of the messages that flushes made durable in the commit log at `dir`, from its first byte as far as records
    /// follow on each other. Whatever the dice say, these are on the disk.
    pub fn flushed(&self, dir: &Path) -> HashSet<u64> {
        let mut out = HashSet::new();
        for (_, (id, _)) in list(dir) {
            let bytes = self.files.get(&id).map(Durable::bytes).unwrap_or_default();
            let mut rest = &bytes[..];
            while let Some(record) = record::parse(rest) {
                out.extend(load::id_in(record.body));
                rest = &rest[record.len..];
            }
            // A log goes on in the next segment only behind a full one.
            if !rest.is_empty() && rest.get(4..8) != Some(&BLANK[..]) {
                break;
            }
        }
        out
    }

    /// Makes in `into` what the disk under `store` holds after the power failed.
    pub fn fail(&self, store: &Path, into: &Path, names: Unflushed, dice: &mut Dice) {
        // Nothing kept, all kept, or something between, for the pages and for the names.
        let mut share = || *dice.pick(&[0, 10, 50, 90, 100]);
        let (pages, unsure) = (share(), share());
        let mut paths = HashMap::new();
        index(store, &mut paths);
        let mut image = Image {
            platter: self,
            paths,
            pages,
            unsure,
            names,
            dice,
        };
        std::fs::create_dir_all(into).unwrap();
        image.directory(identity(store), into);
    }
}

struct Image<'a> {
    platter: &'a Platter,
    /// Where everything is now.
    paths: HashMap<u64, PathBuf>,
    /// Of a hundred pages that were not flushed so many are kept.
    pages: u64,
    /// Of a hundred names likewise.
    unsure: u64,
    names: Unflushed,
    dice: &'a mut Dice,
}

impl Image<'_> {
    fn directory(&mut self, id: u64, into: &Path) {
        let now = self.paths.get(&id).map(|path| list(path)).unwrap_or_default();
        let durable = self.platter.directories.get(&id).cloned().unwrap_or_default();
        let all: BTreeSet<String> = now.keys().chain(durable.keys()).cloned().collect();
        for name in all {
            let is_sure = now.get(&name) == durable.get(&name);
            let newer = self.names == Unflushed::AllKept || is_sure || self.dice.chance(self.unsure);
            let Some(&(id, is_directory)) = (if newer { now.get(&name) } else { durable.get(&name) }) else {
                continue;
            };
            let to = into.join(&name);
            if is_directory {
                std::fs::create_dir_all(&to).unwrap();
                self.directory(id, &to);
            } else {
                self.file(id, &to);
            }
        }
    }

    fn file(&mut self, id: u64, to: &Path) {
        let durable = self.platter.files.get(&id).cloned().unwrap_or_default();
        let out = File::create(to).unwrap();
        let now = self.paths.get(&id).and_then(|path| File::open(path).ok());
        let size_now = now.as_ref().map_or(0, |file| file.metadata().unwrap().len());
        let mut size = durable.size;
        // A size that was not flushed may be kept as well, with or without the pages.
        if now.is_some() && size_now != size && self.dice.chance(self.pages) {
            size = size_now;
        }
        let mut pages = durable.pages;
        if let Some(now) = now {
            let mut page = Box::new([0; PAGE]);
            for number in 0..size_now.div_ceil(PAGE as u64) {
                page.fill(0);
                let len = PAGE.min((size_now - number * PAGE as u64) as usize);
                now.read_exact_at(&mut page[..len], number * PAGE as u64).unwrap();
                let old = pages.get(&number);
                let is_same = old.map_or(page.iter().all(|&b| b == 0), |old| *old == page);
                if !is_same && self.dice.chance(self.pages) {
                    pages.insert(number, page.clone());
                    // Sizes are set before anything is written, so there is no size between the two.
                    if number * PAGE as u64 + len as u64 > size {
                        size = size_now;
                    }
                }
            }
        }
        out.set_len(size).unwrap();
        for (number, page) in pages {
            let at = number * PAGE as u64;
            if at < size {
                let len = PAGE.min((size - at) as usize);
                out.write_all_at(&page[..len], at).unwrap();
            }
        }
    }
}

/// As the shim makes it: the inode's number and its birth time.
fn identity(path: &Path) -> u64 {
    let Ok(meta) = std::fs::symlink_metadata(path) else {
        return 0;
    };
    let born = meta
        .created()
        .ok()
        .and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok());
    let born = born.map_or(0, |t| t.as_nanos() as u64);
    meta.ino().wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ born
}

fn names(mut bytes: &[u8]) -> Names {
    let mut out = Names::new();
    while bytes.len() >= 11 {
        let id = u64::from_ne_bytes(bytes[..8].try_into().unwrap());
        let len = usize::from(u16::from_ne_bytes([bytes[9], bytes[10]]));
        let name = String::from_utf8_lossy(&bytes[11..11 + len]).into_owned();
        out.insert(name, (id, bytes[8] == 1));
        bytes = &bytes[11 + len..];
    }
    out
}

fn list(dir: &Path) -> Names {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, (identity(&path), path.is_dir()))
        })
        .collect()
}

fn index(dir: &Path, into: &mut HashMap<u64, PathBuf>) {
    into.insert(identity(dir), dir.to_owned());
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            index(&path, into);
        } else {
            into.insert(identity(&path), path);
        }
    }
}
