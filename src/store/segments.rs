//! Mapped files, and a run of equally sized files as one address space. The only `unsafe` of the crate is here.
//!
//! A [`Segment`] is one mapped file with a mark: bytes below it are readable and never change again, bytes above
//! belong to the one [`SegmentWriter`]. So readers and the writer never touch the same byte, and a slice may outlive
//! the deletion of its file.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};

use super::Error;
use super::disk::{self, io_error};
pub use super::disk::{Pieces, last_nonzero, read_at_most};
use super::format::file_name;

/// Bytes that look like one long file, of which the front may be gone.
pub trait LogBytes {
    /// Offset of the first byte.
    fn start(&self) -> u64;
    /// Offset behind the last byte; a live log moves it.
    fn end(&self) -> u64;
    /// Offset behind the last byte of the file that `at` lies in.
    fn file_end(&self, at: u64) -> u64;
    /// Bytes from `at` on: `at_least` as many if the file has them, perhaps more, never beyond the file. `None`
    /// where there are none.
    fn window(&self, at: u64, at_least: usize) -> Option<Bytes>;

    /// Exactly `len` bytes of one file.
    fn slice(&self, at: u64, len: usize) -> Option<Bytes> {
        let mut window = self.window(at, len)?;
        if window.len() < len {
            return None;
        }
        window.truncate(len);
        Some(window)
    }
}

impl<L: LogBytes + ?Sized> LogBytes for &L {
    fn start(&self) -> u64 {
        (**self).start()
    }

    fn end(&self) -> u64 {
        (**self).end()
    }

    fn file_end(&self, at: u64) -> u64 {
        (**self).file_end(at)
    }

    fn window(&self, at: u64, at_least: usize) -> Option<Bytes> {
        (**self).window(at, at_least)
    }
}

/// Bytes of a page, on all machines that this is usually run on.
const PAGE: usize = 4096;

/// Touches every page of a slice, so that whoever reads it next waits for no disk.
pub fn touch(bytes: &[u8]) {
    for byte in bytes.iter().step_by(PAGE).chain(bytes.last()) {
        std::hint::black_box(*byte);
    }
}

/// One mapped file.
#[derive(Debug)]
pub struct Segment {
    path: PathBuf,
    base: u64,
    map: MmapRaw,
    /// Bytes below are initialized and never written again while this object lives.
    readable: AtomicUsize,
}

impl Segment {
    /// Maps a whole file for reading. Nobody may write to it meanwhile: the caller holds the store's lock, or the
    /// file is full.
    pub fn open_read(path: &Path, base: u64) -> Result<Arc<Self>, Error> {
        let file = File::open(path).map_err(io_error("open", path))?;
        let len = file.metadata().map_err(io_error("inspect", path))?.len();
        if len == 0 {
            return Err(Error::Damaged {
                path: path.to_owned(),
                offset: 0,
                reason: "empty file".into(),
            });
        }
        let map = MmapOptions::new()
            .map_raw_read_only(&file)
            .map_err(io_error("map", path))?;
        Ok(Arc::new(Self {
            path: path.to_owned(),
            base,
            readable: AtomicUsize::new(map.len()),
            map,
        }))
    }

    /// Maps a file for appending behind its first `readable` bytes. The one writer is handed out with it.
    pub fn open_write(
        path: &Path,
        base: u64,
        file: &File,
        readable: usize,
    ) -> Result<(Arc<Self>, SegmentWriter), Error> {
        let map = MmapOptions::new().map_raw(file).map_err(io_error("map", path))?;
        let readable = readable.min(map.len());
        let segment = Arc::new(Self {
            path: path.to_owned(),
            base,
            map,
            readable: AtomicUsize::new(readable),
        });
        let writer = SegmentWriter {
            segment: Arc::clone(&segment),
            at: readable,
        };
        Ok((segment, writer))
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Offset of the first byte.
    pub fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of the file.
    pub fn len(&self) -> usize {
        self.map.len()
    }

    /// True for a file without bytes, which cannot be mapped.
    pub fn is_empty(&self) -> bool {
        self.map.len() == 0
    }

    /// How many bytes may be read.
    pub fn readable(&self) -> usize {
        self.readable.load(Ordering::Acquire)
    }

    /// The readable bytes from `at` on.
    pub fn bytes(&self, at: usize) -> &[u8] {
        let readable = self.readable();
        let at = at.min(readable);
        // SAFETY: `readable <= map.len()`, since open_*() and the writer see to that, and the map lives as long as
        // self. Bytes below `readable` are not written again: the only writer starts at the mark and the mark only
        // grows; the Acquire load pairs with the writer's Release store. Other processes are kept out by the lock.
        unsafe { std::slice::from_raw_parts(self.map.as_ptr().add(at), readable - at) }
    }

    /// The readable bytes from `at` on, kept alive by the result.
    pub fn window(self: &Arc<Self>, at: usize) -> Option<Bytes> {
        let len = self.readable().checked_sub(at).filter(|&len| len > 0)?;
        Some(Bytes::from_owner(Window {
            segment: Arc::clone(self),
            at,
            len,
        }))
    }

    /// Writes a range back to the disk and waits for it.
    pub fn flush(&self, from: usize, to: usize) -> Result<(), Error> {
        let to = to.min(self.len());
        if from >= to {
            return Ok(());
        }
        self.map
            .flush_range(from, to - from)
            .map_err(io_error("flush", &self.path))
    }

    /// True when the pages of a range are in the page cache, so that reading them waits for no disk. A page may be
    /// dropped right after; what cannot be told counts as not there.
    pub fn is_resident(&self, from: usize, to: usize) -> bool {
        let (from, to) = (from - from % PAGE, to.min(self.len()));
        let mut at = from;
        let mut pages = [0u8; 64];
        while at < to {
            let len = (to - at).min(pages.len() * PAGE);
            let present = &mut pages[..len.div_ceil(PAGE)];
            // SAFETY: `at..at + len` lies in the map, which lives as long as self and begins on a page, as `at` does;
            // `present` has a byte for each page of it. Where pages are larger, the call fails and changes nothing.
            let told = unsafe {
                let start = self.map.as_mut_ptr().add(at);
                libc::mincore(start.cast(), len, present.as_mut_ptr())
            };
            if told != 0 || present.iter().any(|page| page & 1 == 0) {
                return false;
            }
            at += len;
        }
        true
    }

    /// Makes a fault bring in one page and no more. In a new file with holes, what the system reads ahead is megabytes
    /// of zeros. Only a wish.
    pub fn read_singly(&self) {
        let _ = self.map.advise(Advice::Random);
    }

    /// Lets the system read ahead again, as it does unless [`Self::read_singly`] was asked for. Only a wish.
    pub fn read_ahead(&self) {
        let _ = self.map.advise(Advice::Normal);
    }

    /// Orders a range to be read from the disk, without waiting for it. Only a wish.
    pub fn will_need(&self, from: usize, to: usize) {
        let to = to.min(self.len());
        let from = from - from % PAGE;
        if from < to {
            let _ = self.map.advise_range(Advice::WillNeed, from, to - from);
        }
    }

    /// Makes the pages of a range present and writable, so that the writer does not stop for each. Only a wish.
    pub fn populate(&self, from: usize, to: usize) {
        let to = to.min(self.len());
        if from < to {
            let _ = self.map.advise_range(Advice::PopulateWrite, from, to - from);
        }
    }
}

/// Keeps a mapped segment for a slice of it.
struct Window {
    segment: Arc<Segment>,
    at: usize,
    len: usize,
}

impl AsRef<[u8]> for Window {
    fn as_ref(&self) -> &[u8] {
        &self.segment.bytes(self.at)[..self.len]
    }
}

/// The one who may write to a segment, behind its mark.
#[derive(Debug)]
pub struct SegmentWriter {
    segment: Arc<Segment>,
    at: usize,
}

impl SegmentWriter {
    /// The segment.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Position in the file, the mark.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes left behind the mark.
    pub fn remaining(&self) -> usize {
        self.segment.len() - self.at
    }

    /// The next `len` bytes to be written, unseen by readers until [`Self::advance`]. `None` when they do not fit.
    pub fn slot(&mut self, len: usize) -> Option<&mut [u8]> {
        if len > self.remaining() {
            return None;
        }
        // SAFETY: `at + len <= map.len()` was just checked; readers stay below the mark, which is `at`; there is one
        // writer a segment, made with it, and the borrow of self keeps its slots apart. The map was opened for
        // writing, because only open_write() makes a writer, and lives as long as the segment.
        Some(unsafe { std::slice::from_raw_parts_mut(self.segment.map.as_mut_ptr().add(self.at), len) })
    }

    /// Lets readers see `len` more bytes.
    pub fn advance(&mut self, len: usize) {
        self.at += len.min(self.remaining());
        self.segment.readable.store(self.at, Ordering::Release);
    }
}

/// Maps a whole file for reading and writing anywhere in it. The caller guards it with a lock of its own, and the
/// store's lock keeps others out.
pub fn map_mut(path: &Path, file: &File) -> Result<MmapMut, Error> {
    // SAFETY: the file belongs to the store whose lock this process holds, so nobody else changes or shortens it;
    // within the process the map is the only access to it.
    unsafe { MmapOptions::new().map_mut(file) }.map_err(io_error("map", path))
}

/// A file of a run, as found in its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentFile {
    /// Offset of its first byte, from its name.
    pub base: u64,
    /// Where it is.
    pub path: PathBuf,
    /// Its length.
    pub len: u64,
}

/// What a directory of segments holds.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    /// Segments by offset.
    pub files: Vec<SegmentFile>,
    /// Names that mean nothing here.
    pub strays: Vec<PathBuf>,
}

/// Lists the segments of a directory; a missing one has none.
pub fn list(dir: &Path) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(listing),
        entries => entries.map_err(io_error("list", dir))?,
    };
    for entry in entries {
        let entry = entry.map_err(io_error("list", dir))?;
        let path = entry.path();
        let base = entry.file_name().to_str().and_then(file_name::parse_segment);
        let meta = entry.metadata().map_err(io_error("inspect", &path))?;
        match base {
            Some(base) if meta.is_file() => listing.files.push(SegmentFile {
                base,
                path,
                len: meta.len(),
            }),
            _ => listing.strays.push(path),
        }
    }
    listing.files.sort_by_key(|file| file.base);
    listing.strays.sort();
    Ok(listing)
}

/// A run of segment files, read only: never creates, resizes or locks anything, and opens a file when it is first
/// looked at.
#[derive(Debug)]
pub struct Segments {
    size: u64,
    files: Vec<(SegmentFile, OnceLock<Option<Source>>)>,
    /// Files from here on are read, not mapped: another process writes to them, or their pages shall not count.
    read_from: u64,
    /// Files from here on must not be mapped, since another process writes to them.
    live_from: u64,
    /// How much is read at once.
    read_ahead: usize,
}

#[derive(Debug)]
enum Source {
    Map(Arc<Segment>),
    Read(File),
}

/// How much is read at once where a file is not mapped.
const READ_AHEAD: usize = 256 * 1024;
/// Longer pieces are mapped where they may be: a damaged length must not cost memory.
const MOST_READ: usize = 8 * 1024 * 1024;

impl Segments {
    /// Files below are mapped, not read.
    pub fn mapped_end(&self) -> u64 {
        self.read_from.min(self.end())
    }

    /// Over the files of a directory, each of `size` bytes. With `live`, another process may be writing to the last
    /// two files, so those are read instead of mapped.
    pub fn new(files: Vec<SegmentFile>, size: u64, live: bool) -> Self {
        let read_from = match files.len() {
            n if live => files.get(n.saturating_sub(2)).map_or(0, |file| file.base),
            _ => u64::MAX,
        };
        Self {
            size: size.max(1),
            files: files.into_iter().map(|file| (file, OnceLock::new())).collect(),
            read_from,
            live_from: read_from,
            read_ahead: READ_AHEAD,
        }
    }

    /// The same, but nothing is mapped: every file is read, `read_ahead` bytes at once. For passes over more than
    /// fits in memory.
    pub fn reading(files: Vec<SegmentFile>, size: u64, live: bool, read_ahead: usize) -> Self {
        Self {
            read_from: 0,
            read_ahead: read_ahead.max(1),
            ..Self::new(files, size, live)
        }
    }

    /// The files by offset.
    pub fn files(&self) -> impl DoubleEndedIterator<Item = &SegmentFile> {
        self.files.iter().map(|(file, _)| file)
    }

    /// An error when the file that `at` lies in could not be opened; where there is none, that is none.
    pub fn check(&self, at: u64) -> Result<(), Error> {
        match self.find(at) {
            Some((file, source)) if matches!(source.get(), Some(None)) => {
                let reason = "it could not be opened at first".to_owned();
                Segment::open_read(&file.path, file.base).and(Err(Error::Damaged {
                    path: file.path.clone(),
                    offset: 0,
                    reason,
                }))
            }
            _ => Ok(()),
        }
    }

    fn find(&self, at: u64) -> Option<&(SegmentFile, OnceLock<Option<Source>>)> {
        let n = self.files.partition_point(|(file, _)| file.base <= at);
        let found = self.files.get(n.checked_sub(1)?)?;
        (at - found.0.base < found.0.len).then_some(found)
    }
}

impl LogBytes for Segments {
    fn start(&self) -> u64 {
        self.files.first().map_or(0, |(file, _)| file.base)
    }

    fn end(&self) -> u64 {
        self.files
            .last()
            .map_or(0, |(file, _)| file.base.saturating_add(file.len))
    }

    fn file_end(&self, at: u64) -> u64 {
        (at - at % self.size).saturating_add(self.size)
    }

    fn window(&self, at: u64, at_least: usize) -> Option<Bytes> {
        let (file, source) = self.find(at)?;
        let source = source.get_or_init(|| {
            if file.base < self.read_from {
                Segment::open_read(&file.path, file.base).ok().map(Source::Map)
            } else {
                File::open(&file.path).ok().map(Source::Read)
            }
        });
        let in_file = at - file.base;
        match source.as_ref()? {
            Source::Map(segment) => segment.window(usize::try_from(in_file).ok()?),
            Source::Read(_) if at_least > MOST_READ && file.base < self.live_from => {
                let segment = Segment::open_read(&file.path, file.base).ok()?;
                segment.window(usize::try_from(in_file).ok()?)
            }
            Source::Read(handle) => {
                let left = usize::try_from(file.len - in_file).unwrap_or(usize::MAX);
                let out = disk::read_new(handle, at_least.max(self.read_ahead).min(left), in_file).ok()?;
                (!out.is_empty()).then(|| out.into())
            }
        }
    }
}

/// Opens an existing file for reading and writing.
pub fn open_rw(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .map_err(io_error("open", path))
}

/// Creates a file of `size` bytes, of which the first `reserved` have blocks of their own. On failure nothing is
/// left behind.
pub fn create_rw(path: &Path, size: u64, reserved: u64) -> Result<File, Error> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(path)
        .map_err(io_error("create", path))?;
    let made = file
        .set_len(size)
        .and_then(|()| disk::reserve(&file, 0, reserved.min(size)));
    match made {
        Ok(()) => Ok(file),
        Err(e) => {
            let _ = std::fs::remove_file(path);
            Err(io_error("reserve space for", path)(e))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_sees_what_was_published_and_keeps_it_after_deletion() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(file_name::segment(0));
        let file = create_rw(&path, 8192, 8192).unwrap();
        let (segment, mut writer) = Segment::open_write(&path, 0, &file, 0).unwrap();
        writer.slot(5).unwrap().copy_from_slice(b"hello");
        assert!(segment.window(0).is_none());
        writer.advance(5);
        let seen = segment.window(1).unwrap();
        assert_eq!(&seen[..], b"ello");
        assert!(segment.window(5).is_none());
        assert!(writer.slot(8188).is_none());
        segment.populate(0, 8192);
        segment.flush(0, 5).unwrap();
        disk::remove_file(&path).unwrap();
        drop((segment, writer));
        assert_eq!(&seen[..], b"ello");
    }

    #[test]
    fn a_run_of_files_is_one_address_space_mapped_or_read() {
        let dir = tempfile::tempdir().unwrap();
        for (n, fill) in [(1u64, 1u8), (2, 2), (4, 4)] {
            std::fs::write(dir.path().join(file_name::segment(n * 100)), [fill; 100]).unwrap();
        }
        std::fs::write(dir.path().join("lost+found"), b"").unwrap();
        std::fs::create_dir(dir.path().join(file_name::segment(500))).unwrap();
        let listing = list(dir.path()).unwrap();
        assert_eq!(listing.strays.len(), 2);
        for live in [false, true] {
            let segments = Segments::new(listing.files.clone(), 100, live);
            assert_eq!((segments.start(), segments.end()), (100, 500));
            assert_eq!(segments.slice(150, 50).unwrap(), vec![1; 50]);
            assert_eq!(segments.slice(150, 51), None);
            assert_eq!(segments.window(299, 1).unwrap(), vec![2]);
            for hole in [0, 99, 300, 399, 500, u64::MAX] {
                assert_eq!(segments.window(hole, 1), None, "at {hole}");
            }
            assert_eq!(segments.file_end(150), 200);
        }
    }

    #[test]
    fn nothing_is_left_of_a_file_that_could_not_be_reserved() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("big");
        // More than any file system has.
        assert!(create_rw(&path, 1 << 60, 1 << 60).is_err());
        assert!(!path.exists());
    }
}
