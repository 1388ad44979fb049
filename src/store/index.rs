//! The index: which records have a key. A series of files, each a hash table of its own (see [`super::format::index`]);
//! the newest is filled by the build thread, all are searched.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use memmap2::MmapMut;

use super::Error;
use super::disk::{self, io_error};
use super::format::index::{HEADER_LEN, Header, ITEM_LEN, IndexView, Item, SLOT_LEN, Shape, key_hash};
use super::segments;

/// Items get space in steps of this many bytes; the slots get theirs at once.
const RESERVE: u64 = 4 * 1024 * 1024;
/// Links of one chain that a query follows at most.
const MOST_LINKS: usize = 1 << 20;

/// One index file.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    number: u64,
    shape: Shape,
    inner: RwLock<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    map: MmapMut,
    header: Header,
    /// Space is reserved up to here.
    reserved: u64,
    dirty: bool,
}

/// What a search found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hits {
    /// Physical offsets, newest first; each once.
    pub offsets: Vec<i64>,
    /// Store time of the newest indexed record.
    pub last_timestamp: i64,
    /// Its physical offset.
    pub last_offset: i64,
}

impl IndexFile {
    /// Opens a file of exactly the right length.
    pub fn open(path: &Path, number: u64, shape: Shape) -> Result<Self, Error> {
        let file = segments::open_rw(path)?;
        let map = segments::map_mut(path, &file)?;
        let header = Header::parse(&map).unwrap_or_default();
        Ok(Self {
            path: path.to_owned(),
            number,
            shape,
            inner: RwLock::new(Inner {
                file,
                map,
                header,
                reserved: 0,
                dirty: false,
            }),
        })
    }

    fn create(dir: &Path, number: u64, shape: Shape, header: Header) -> Result<Self, Error> {
        disk::create_dir_durably(dir)?;
        let path = dir.join(format!("{number:017}"));
        let slots = shape.items_at() as u64;
        let file = segments::create_rw(&path, shape.file_len(), slots)?;
        let mut map = segments::map_mut(&path, &file).inspect_err(|_| {
            let _ = disk::remove_file(&path);
        })?;
        map[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        Ok(Self {
            path,
            number,
            shape,
            inner: RwLock::new(Inner {
                file,
                map,
                header,
                reserved: slots,
                dirty: true,
            }),
        })
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its name as a number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its header.
    pub fn header(&self) -> Header {
        self.read().header
    }

    /// True when no item fits any more.
    pub fn is_full(&self) -> bool {
        self.read().header.count >= self.shape.items as i32
    }

    /// Adds an item; false when the file is full.
    fn put(&self, hash: i32, offset: i64, timestamp: i64) -> Result<bool, Error> {
        let inner = &mut *self.write();
        let header = &mut inner.header;
        if header.count >= self.shape.items as i32 {
            return Ok(false);
        }
        let (slot_at, item_at) = (
            self.shape.slot_at(self.shape.slot_of(hash)),
            self.shape.item_at(header.count as u32),
        );
        let item_end = (item_at + ITEM_LEN) as u64;
        if item_end > inner.reserved {
            let to = (item_end + RESERVE).min(self.shape.file_len());
            // The slots of a file that another broker made may have no space of their own yet. They are in use.
            let reserve = if inner.reserved == 0 {
                disk::reserve_kept(&inner.file, 0, self.shape.items_at() as u64)
            } else {
                Ok(())
            };
            reserve
                .and_then(|()| disk::reserve(&inner.file, item_at as u64, to - item_at as u64))
                .map_err(io_error("reserve space for", &self.path))?;
            inner.reserved = to;
        }
        let is_first = header.count <= 1;
        let seconds = if is_first || header.begin_timestamp <= 0 {
            0
        } else {
            let seconds = timestamp.saturating_sub(header.begin_timestamp) / 1000;
            i32::try_from(seconds.max(0)).unwrap_or(i32::MAX)
        };
        let slot = inner.map[slot_at..]
            .first_chunk()
            .map_or(0, |s| i32::from_be_bytes(*s));
        let previous = if (1..header.count).contains(&slot) {
            slot
        } else {
            0
        };
        let item = Item {
            hash,
            offset,
            seconds,
            previous,
        };
        inner.map[item_at..item_at + ITEM_LEN].copy_from_slice(&item.to_bytes());
        inner.map[slot_at..slot_at + SLOT_LEN].copy_from_slice(&header.count.to_be_bytes());
        if is_first {
            header.begin_offset = offset;
            header.begin_timestamp = timestamp;
        }
        header.used_slots = header.used_slots.saturating_add(i32::from(previous == 0));
        header.count += 1;
        header.end_offset = offset;
        header.end_timestamp = timestamp;
        inner.map[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        inner.dirty = true;
        Ok(true)
    }

    /// Removes the items of records at or behind `end`, newest first, so that each chain loses its head only. True
    /// when an item is left.
    pub fn cut(&self, end: i64) -> bool {
        let inner = &mut *self.write();
        let most = (self.shape.items as i32 - 1).min(inner.header.count);
        // One more than the count: the last item may have got its slot and not its count.
        let mut n = most;
        while n >= 1 {
            let Some(item) = IndexView::new(&inner.map, self.shape).and_then(|view| view.item(n)) else {
                break;
            };
            if n < inner.header.count && item.offset < end {
                break;
            }
            let slot_at = self.shape.slot_at(self.shape.slot_of(item.hash));
            let slot: &mut [u8] = &mut inner.map[slot_at..slot_at + SLOT_LEN];
            if slot == n.to_be_bytes() {
                let previous = if (1..n).contains(&item.previous) {
                    item.previous
                } else {
                    0
                };
                slot.copy_from_slice(&previous.to_be_bytes());
                if previous == 0 && n < inner.header.count {
                    inner.header.used_slots = inner.header.used_slots.saturating_sub(1).max(0);
                }
            }
            let item_at = self.shape.item_at(n as u32);
            let item: &mut [u8] = &mut inner.map[item_at..item_at + ITEM_LEN];
            // Behind the last item there may be no space of our own: writing needlessly could fail.
            if item.iter().any(|&b| b != 0) {
                item.fill(0);
            }
            n -= 1;
        }
        let count = (n + 1).min(inner.header.count);
        if count < inner.header.count {
            inner.header.count = count;
            let last = IndexView::new(&inner.map, self.shape).and_then(|view| view.item(count - 1));
            if let Some(last) = last {
                inner.header.end_offset = last.offset;
                inner.header.end_timestamp = last.timestamp(&inner.header);
            }
        }
        inner.map[..HEADER_LEN].copy_from_slice(&inner.header.to_bytes());
        inner.dirty = true;
        inner.header.count > 1
    }

    /// True when its items are in order and each slot leads to the newest of its own, as a writer leaves them. A power
    /// failure may keep any of the pages of header, slots and items, and the others as they were at the last flush.
    pub fn is_sound(&self) -> bool {
        let inner = self.read();
        let Some(view) = IndexView::new(&inner.map, self.shape) else {
            return false;
        };
        let (count, mut last) = (inner.header.count, inner.header.begin_offset);
        let mut heads = vec![0; self.shape.slots as usize];
        let mut follows = |n, item: Item| {
            let head: &mut i32 = &mut heads[self.shape.slot_of(item.hash) as usize];
            let previous = std::mem::replace(head, n);
            item.hash >= 0 && item.previous == previous
        };
        let in_order = (1..count).all(|n| {
            view.item(n).is_some_and(|item| {
                let ok = item.offset >= last;
                last = item.offset;
                ok && follows(n, item)
            })
        });
        if !in_order {
            return false;
        }
        // The last item may have got its slot and not its count.
        if let Some(item) = view.item(count.max(1))
            && view.slot(self.shape.slot_of(item.hash)) == count.max(1)
            && !follows(count.max(1), item)
        {
            return false;
        }
        (0..self.shape.slots).all(|slot| view.slot(slot) == heads[slot as usize])
    }

    /// Flushes the file; returns the store time of its newest record.
    pub fn flush(&self) -> Result<i64, Error> {
        let dirty = std::mem::take(&mut self.write().dirty);
        let inner = self.read();
        let flushed = if dirty { inner.map.flush() } else { Ok(()) };
        let timestamp = inner.header.end_timestamp;
        drop(inner);
        flushed.map_err(|e| {
            self.write().dirty = true;
            io_error("flush", &self.path)(e)
        })?;
        Ok(timestamp)
    }

    fn search(&self, hash: i32, begin: i64, end: i64, most: usize, hits: &mut Vec<i64>) {
        let inner = self.read();
        let Some(view) = IndexView::new(&inner.map, self.shape) else {
            return;
        };
        for (_, item) in view.chain(hash).take(MOST_LINKS) {
            let timestamp = item.timestamp(view.header());
            if item.hash == hash && (begin..=end).contains(&timestamp) && !hits.contains(&item.offset) {
                hits.push(item.offset);
            }
            if hits.len() >= most || timestamp < begin {
                break;
            }
        }
    }
}

/// The index of a store.
#[derive(Debug)]
pub struct Index {
    dir: PathBuf,
    shape: Shape,
    /// Oldest first. Held for a look only; a file's own lock comes after it.
    files: RwLock<Vec<Arc<IndexFile>>>,
}

impl Index {
    /// Over files that were opened, oldest first.
    pub fn new(dir: PathBuf, shape: Shape, files: Vec<Arc<IndexFile>>) -> Self {
        Self {
            dir,
            shape,
            files: RwLock::new(files),
        }
    }

    /// The files, oldest first.
    pub fn files(&self) -> Vec<Arc<IndexFile>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last(&self) -> Option<Arc<IndexFile>> {
        self.files
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .last()
            .cloned()
    }

    /// Physical offset of the newest indexed record, -1 when there is none.
    pub fn end_offset(&self) -> i64 {
        match self.last() {
            Some(file) if file.header().count > 1 => file.header().end_offset,
            Some(file) => file.header().end_offset.saturating_sub(1),
            None => -1,
        }
    }

    /// Adds a key of a record. Called by the build thread and by recovery only, in the order of the log. Returns a
    /// file that became full.
    pub fn put(
        &self,
        topic: &str,
        key: &str,
        offset: i64,
        timestamp: i64,
    ) -> Result<Option<Arc<IndexFile>>, Error> {
        let hash = key_hash(topic, key);
        let last = self.last();
        if let Some(file) = &last
            && file.put(hash, offset, timestamp)?
        {
            return Ok(None);
        }
        let header = last.as_ref().map_or_else(Header::default, |file| {
            let full = file.header();
            Header {
                begin_timestamp: full.end_timestamp,
                end_timestamp: full.end_timestamp,
                begin_offset: full.end_offset,
                end_offset: full.end_offset,
                ..Header::default()
            }
        });
        let header = Header { count: 1, ..header };
        let number = now_name().max(last.as_ref().map_or(0, |file| file.number.saturating_add(1)));
        let file = Arc::new(IndexFile::create(&self.dir, number, self.shape, header)?);
        // The next attempt makes another file, so this one must not stay.
        file.put(hash, offset, timestamp).inspect_err(|_| {
            let _ = disk::remove_file(file.path());
        })?;
        self.files
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(file);
        Ok(last)
    }

    /// Searches a key in records of store times `begin..=end`, newest first, at most `most`.
    pub fn search(&self, topic: &str, key: &str, most: usize, begin: i64, end: i64) -> Hits {
        let hash = key_hash(topic, key);
        let files = self.files();
        let mut hits = Hits::default();
        if let Some(last) = files.last() {
            let header = last.header();
            (hits.last_timestamp, hits.last_offset) = (header.end_timestamp, header.end_offset);
        }
        for file in files.iter().rev() {
            let header = file.header();
            if header.begin_timestamp <= end && header.end_timestamp >= begin {
                file.search(hash, begin, end, most, &mut hits.offsets);
            }
            if header.begin_timestamp < begin || hits.offsets.len() >= most {
                break;
            }
        }
        hits
    }

    /// Deletes files whose records are all before `log_start`, never the last one. Returns how many.
    pub fn expire(&self, log_start: i64) -> Result<usize, Error> {
        let mut gone = Vec::new();
        {
            let mut files = self.files.write().unwrap_or_else(PoisonError::into_inner);
            while files.len() > 1 && files[0].header().end_offset < log_start {
                gone.push(files.remove(0));
            }
        }
        for file in &gone {
            disk::remove_file(file.path())?;
        }
        Ok(gone.len())
    }

    /// Flushes all files.
    pub fn flush(&self) -> Result<(), Error> {
        self.files().iter().try_for_each(|file| file.flush().map(drop))
    }
}

/// The number of a file made now: local time as `yyyyMMddHHmmssSSS`.
fn now_name() -> u64 {
    let now = jiff::tz::TimeZone::system().to_datetime(jiff::Timestamp::now());
    let mut name = u64::from(now.year().unsigned_abs());
    for (part, most) in [
        (now.month().into(), 100),
        (now.day().into(), 100),
        (now.hour().into(), 100),
        (now.minute().into(), 100),
        (now.second().into(), 100),
        (now.millisecond(), 1000),
    ] {
        let part: i16 = part;
        name = name * most + u64::from(part.unsigned_abs());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { slots: 3, items: 5 };
    const ALWAYS: (i64, i64) = (0, i64::MAX);

    fn index(dir: &Path) -> Index {
        Index::new(dir.to_owned(), SHAPE, Vec::new())
    }

    fn found(index: &Index, key: &str, (begin, end): (i64, i64)) -> Vec<i64> {
        index.search("t", key, 64, begin, end).offsets
    }

    #[test]
    fn keys_are_found_across_files_and_collisions_with_them() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path());
        for n in 0..10 {
            // Aa and BB have one hash.
            let key = ["Aa", "BB", "k"][n as usize % 3];
            let full = index.put("t", key, n * 100, 5000 + n * 1000).unwrap();
            assert_eq!(full.is_some(), n == 4 || n == 8, "{n}");
        }
        assert_eq!(found(&index, "Aa", ALWAYS), [900, 700, 600, 400, 300, 100, 0]);
        assert_eq!(found(&index, "k", ALWAYS), [800, 500, 200]);
        assert_eq!(found(&index, "k", (7000, 10_000)), [500, 200]);
        assert_eq!(index.search("t", "k", 2, 0, i64::MAX).offsets, [800, 500]);
        assert_eq!(found(&index, "other", ALWAYS), [0i64; 0]);
        assert_eq!(index.files().len(), 3);
        assert_eq!(index.expire(900).unwrap(), 2);
        assert_eq!(index.expire(9000).unwrap(), 0);
    }

    #[test]
    fn a_cut_takes_the_newest_items_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path());
        for n in 0..4 {
            index.put("t", "k", n * 100, 5000 + n * 1000).unwrap();
        }
        let file = &index.files()[0];
        assert!(file.is_sound());
        assert!(file.cut(200));
        assert_eq!(found(&index, "k", ALWAYS), [100, 0]);
        let header = file.header();
        assert_eq!(
            (header.count, header.end_offset, header.end_timestamp),
            (3, 100, 6000)
        );
        assert_eq!(header.used_slots, 1);
        index.put("t", "k", 200, 7000).unwrap();
        assert_eq!(found(&index, "k", ALWAYS), [200, 100, 0]);
        assert!(!file.cut(0));
        assert_eq!((file.header().count, file.header().used_slots), (1, 0));
        assert_eq!(found(&index, "k", ALWAYS), [0i64; 0]);
    }

    /// Any page may be the one that a power failure took back.
    #[test]
    fn a_header_or_a_slot_of_another_time_is_not_sound() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path());
        index.put("t", "k", 0, 5000).unwrap();
        let file = &index.files()[0];
        let older = file.header();
        index.put("t", "k", 100, 6000).unwrap();
        index.put("t", "other", 200, 7000).unwrap();
        assert!(file.is_sound());
        let (path, shape) = (file.path().to_owned(), index.shape);
        let whole = std::fs::read(&path).unwrap();
        let slot_at = |topic_and_key: (&str, &str)| {
            let hash = key_hash(topic_and_key.0, topic_and_key.1);
            shape.slot_at(shape.slot_of(hash))
        };
        let sound = |change: &dyn Fn(&mut [u8])| {
            let mut bytes = whole.clone();
            change(&mut bytes);
            let changed = dir.path().join("changed");
            std::fs::write(&changed, bytes).unwrap();
            IndexFile::open(&changed, 1, shape).unwrap().is_sound()
        };
        assert!(sound(&|_| ()));
        assert!(!sound(&|bytes| bytes[..HEADER_LEN].fill(0)), "no header");
        assert!(
            !sound(&|bytes| bytes[..HEADER_LEN].copy_from_slice(&older.to_bytes())),
            "an older header"
        );
        let at = slot_at(("t", "k"));
        assert!(!sound(&|bytes| bytes[at..at + SLOT_LEN].fill(0)), "no slot");
        assert!(
            !sound(&|bytes| bytes[at..at + SLOT_LEN].copy_from_slice(&1i32.to_be_bytes())),
            "an older slot"
        );
        let item = shape.item_at(2);
        assert!(!sound(&|bytes| bytes[item..item + ITEM_LEN].fill(0)), "no item");
        // The last one got its slot and not its count.
        let mut behind = file.header();
        behind.count -= 1;
        assert!(sound(
            &|bytes| bytes[..HEADER_LEN].copy_from_slice(&behind.to_bytes())
        ));
    }

    #[test]
    fn a_cut_mends_an_item_that_got_its_slot_and_not_its_count() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path());
        index.put("t", "k", 0, 5000).unwrap();
        index.put("t", "k", 100, 6000).unwrap();
        let file = &index.files()[0];
        file.write().header.count = 2;
        assert!(file.cut(1000));
        assert_eq!(found(&index, "k", ALWAYS), [0]);
        index.put("t", "k", 100, 6000).unwrap();
        assert_eq!(found(&index, "k", ALWAYS), [100, 0]);
    }

    #[test]
    fn a_file_is_named_by_local_time_and_the_next_one_is_later() {
        let dir = tempfile::tempdir().unwrap();
        let index = index(dir.path());
        for n in 0..5 {
            index.put("t", "k", n, 0).unwrap();
        }
        let names: Vec<_> = index
            .files()
            .iter()
            .map(|f| f.path().file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert!(names[0] < names[1] && names[0].len() == 17, "{names:?}");
        assert!(names[0].starts_with("20"));
    }
}
