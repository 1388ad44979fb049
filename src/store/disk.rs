//! What the store asks of the file system beyond reading and writing: reserved space, zeroed tails, synced
//! directories, and how full a partition is.

use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{Advice, FallocateFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};

use super::Error;
use crate::replace;

/// Step of whatever reads or writes a file piece by piece.
const PIECE: usize = 64 * 1024;
/// Size of a page; where pages are larger, more of a hole is read.
const PAGE: u64 = 4096;

/// Turns a system error into [`Error::Io`].
pub fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Io { what, path, source }
}

/// Reserves blocks for `len` bytes from `at` on, growing the file if need be, so that writing them through a map
/// cannot meet a full disk. What is there stays as it is; where the file system cannot reserve, zeros are written,
/// so the range must hold nothing of value.
pub fn reserve(file: &File, at: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), at, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, at, at + len),
        other => other.map_err(Into::into),
    }
}

/// [`reserve`] for a range that holds something: where the file system cannot reserve, its bytes are written again.
pub fn reserve_kept(file: &File, at: u64, len: u64) -> io::Result<()> {
    if len == 0 {
        return Ok(());
    }
    match retry_on_intr(|| rustix::fs::fallocate(file, FallocateFlags::empty(), at, len)) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_again(file, at, at + len),
        other => other.map_err(Into::into),
    }
}

fn write_again(file: &File, mut at: u64, end: u64) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    while at < end {
        let len = PIECE.min(usize::try_from(end - at).unwrap_or(PIECE));
        let piece = &mut piece[..len];
        let read = read_at_most(file, piece, at)?;
        piece[read..].fill(0);
        file.write_all_at(piece, at)?;
        at += len as u64;
    }
    Ok(())
}

fn write_zeros(file: &File, mut at: u64, end: u64) -> io::Result<()> {
    let zeros = vec![0; PIECE];
    while at < end {
        let len = PIECE.min(usize::try_from(end - at).unwrap_or(PIECE));
        file.write_all_at(&zeros[..len], at)?;
        at += len as u64;
    }
    Ok(())
}

/// Place of the last byte that is not zero. Whole pages of zeros are passed over quickly.
pub fn last_nonzero(bytes: &[u8]) -> Option<usize> {
    let (pages, rest) = bytes.as_chunks::<4096>();
    let in_rest = rest
        .iter()
        .rposition(|&b| b != 0)
        .map(|n| bytes.len() - rest.len() + n);
    in_rest.or_else(|| {
        let page = pages
            .iter()
            .rposition(|page| page.iter().fold(0, |all, &b| all | b) != 0)?;
        Some(page * 4096 + pages[page].iter().rposition(|&b| b != 0)?)
    })
}

/// Zeroes what is not zero in `at..end`, reading only where the file has data. Returns how far the data reached,
/// `at` when there was none.
pub fn zero_tail(file: &File, at: u64, end: u64) -> io::Result<u64> {
    let reached = data_end(file, at, end)?;
    if reached > at {
        write_zeros(file, at, reached)?;
    }
    Ok(reached)
}

/// Behind the last byte of `at..end` that is not zero, or `at`. Reads only where the file has data.
pub fn data_end(file: &File, at: u64, end: u64) -> io::Result<u64> {
    let mut reached = at;
    let mut pieces = Pieces::of_tail(file, at, end);
    while let Some((at, piece)) = pieces.read()? {
        if let Some(last) = last_nonzero(piece) {
            reached = at + last as u64 + 1;
        }
    }
    Ok(reached)
}

/// The parts of a file that hold data, piece by piece; holes, which were never written, are passed over.
#[derive(Debug)]
pub struct Pieces<'a> {
    file: &'a File,
    begin: u64,
    at: u64,
    end: u64,
    unit: u64,
    overlap: u64,
    piece: Vec<u8>,
}

impl<'a> Pieces<'a> {
    /// Most bytes of a piece.
    const LEN: u64 = 256 * 1024;

    /// Pieces of `at..end`.
    pub fn of(file: &'a File, at: u64, end: u64) -> Self {
        Self {
            file,
            begin: at,
            at,
            end,
            unit: 1,
            overlap: 0,
            piece: Vec::new(),
        }
    }

    /// Pieces of `at..end`, most of which was probably never written.
    ///
    /// Pages of a hole that somebody read, or that were read ahead, count as data; each leads on to the next, through
    /// the whole file. So clean pages are dropped first (dirty ones stay), and nothing is read ahead afterwards.
    pub fn of_tail(file: &'a File, at: u64, end: u64) -> Self {
        let len = NonZeroU64::new(end.saturating_sub(at));
        // Advice: without it this is slower, and as right.
        let _ = rustix::fs::fadvise(file, at, len, Advice::DontNeed);
        let _ = rustix::fs::fadvise(file, 0, None, Advice::Random);
        Self::of(file, at, end)
    }

    /// Each piece begins at a multiple of `unit` bytes, a divisor of a page, and ends at one unless the range does not.
    pub fn in_units_of(mut self, unit: usize) -> Self {
        self.unit = unit as u64;
        self
    }

    /// Each piece begins `overlap` bytes before new data.
    pub fn overlapping(mut self, overlap: usize) -> Self {
        self.overlap = overlap as u64;
        self
    }

    /// The next piece with its place in the file.
    pub fn read(&mut self) -> io::Result<Option<(u64, &[u8])>> {
        if self.at >= self.end {
            return Ok(None);
        }
        let data = match rustix::fs::seek(self.file, SeekFrom::Data(self.at)) {
            Ok(data) if data < self.end => data,
            Ok(_) | Err(Errno::NXIO) => return Ok(None),
            // The file system does not tell.
            Err(Errno::INVAL | Errno::OPNOTSUPP) => self.at,
            Err(e) => return Err(e.into()),
        };
        let begin = data.saturating_sub(self.overlap);
        let begin = (begin - begin % self.unit).max(self.begin);
        // Ends with a page: the rest of a page that was read would count as data.
        let end = (begin + Self::LEN) / self.unit.max(PAGE) * self.unit.max(PAGE);
        let len = usize::try_from(end.min(self.end) - begin).unwrap_or(0);
        self.piece.resize(len, 0);
        let len = read_at_most(self.file, &mut self.piece, begin)?;
        self.at = if len == 0 { self.end } else { begin + len as u64 };
        Ok((len > 0).then(|| (begin, &self.piece[..len])))
    }
}

/// Reads `len` bytes, fewer where the file ends.
pub fn read_new(file: &File, len: usize, at: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(len);
    while out.len() < len {
        let from = at + out.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut out), from) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
    out.truncate(len);
    Ok(out)
}

/// Reads until `out` is full or the file ends.
pub fn read_at_most(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match file.read_at(&mut out[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Makes created, renamed and deleted names of a directory durable.
pub fn sync_dir(path: &Path) -> Result<(), Error> {
    Ok(replace::sync_dir(path)?)
}

/// Creates a directory and its parents.
pub fn create_dir(path: &Path) -> Result<(), Error> {
    std::fs::create_dir_all(path).map_err(io_error("create", path))
}

/// [`create_dir`], its name and those of its new parents flushed.
pub fn create_dir_durably(path: &Path) -> Result<(), Error> {
    Ok(replace::create_dir(path)?)
}

/// Removes a file; that it is gone already is no failure.
pub fn remove_file(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(io_error("delete", path)(e)),
        _ => Ok(()),
    }
}

/// How full a partition is.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Bytes of the partition.
    pub total: u64,
    /// Bytes that we may still write.
    pub available: u64,
    /// Used share of what we may write to, 0..=1, as `df` counts it.
    pub ratio: f64,
}

/// How full the partition of `path` is; of its nearest parent that exists.
pub fn usage(path: &Path) -> Result<Usage, Error> {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(path);
    let stat = rustix::fs::statvfs(existing).map_err(|e| io_error("inspect", path)(e.into()))?;
    let used = stat.f_blocks.saturating_sub(stat.f_bfree);
    let writable = used + stat.f_bavail;
    Ok(Usage {
        total: stat.f_blocks.saturating_mul(stat.f_frsize),
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        ratio: if writable == 0 {
            0.0
        } else {
            used as f64 / writable as f64
        },
    })
}

/// Bytes of physical memory.
pub fn ram_bytes() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram.saturating_mul(u64::from(info.mem_unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_byte_that_is_not_zero_is_found_anywhere() {
        let mut bytes = vec![0; 3 * 4096 + 100];
        assert_eq!(last_nonzero(&bytes), None);
        for at in [0, 1, 4095, 4096, 9000, 3 * 4096 - 1, 3 * 4096, 3 * 4096 + 99] {
            bytes[at] = 1;
            assert_eq!(last_nonzero(&bytes), Some(at));
        }
        assert_eq!(last_nonzero(&[]), None);
    }

    #[test]
    fn a_tail_is_zeroed_and_its_reach_told() {
        let file = tempfile::tempfile().unwrap();
        reserve(&file, 0, 300_000).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 300_000);
        file.write_all_at(b"data", 1000).unwrap();
        file.write_all_at(b"stale", 200_000).unwrap();
        assert_eq!(zero_tail(&file, 1004, 300_000).unwrap(), 200_005);
        assert_eq!(zero_tail(&file, 1004, 300_000).unwrap(), 1004);
        let mut all = vec![1; 300_000];
        assert_eq!(read_at_most(&file, &mut all, 0).unwrap(), 300_000);
        assert_eq!(&all[1000..1004], b"data");
        assert!(all[1004..].iter().all(|&b| b == 0));
    }

    #[test]
    fn what_is_written_again_stays_as_it_is() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"head", 0).unwrap();
        file.write_all_at(b"tail", 199_990).unwrap();
        write_again(&file, 0, 200_000).unwrap();
        let mut all = vec![1; 200_000];
        assert_eq!(read_at_most(&file, &mut all, 0).unwrap(), 200_000);
        assert_eq!((&all[..4], &all[199_990..199_994]), (&b"head"[..], &b"tail"[..]));
        assert!(all[4..199_990].iter().all(|&b| b == 0));
    }

    #[test]
    fn a_partition_has_a_ratio() {
        let usage = usage(Path::new("/no/such/directory")).unwrap();
        assert!(usage.total > 0 && (0.0..=1.0).contains(&usage.ratio));
        assert!(ram_bytes() > 1 << 20);
    }

    #[test]
    fn a_reserved_tail_is_not_read_through() {
        let dir = tempfile::tempdir().unwrap();
        let len = 64 * 1024 * 1024;
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.path().join("f"))
            .unwrap();
        reserve(&file, 0, len).unwrap();
        file.write_all_at(b"0123456789", 1_000_003).unwrap();
        file.sync_all().unwrap();
        for (begin, end) in [(0, 1_000_013), (1_000_005, 1_000_013), (1_000_013, 1_000_013)] {
            // Whoever read it before, with what is read ahead.
            read_at_most(&file, &mut vec![0; 1 << 20], begin).unwrap();
            assert_eq!(data_end(&file, begin, len).unwrap(), end);
            let mut pieces = Pieces::of_tail(&file, begin, len).overlapping(7);
            let mut read = 0;
            while let Some((_, piece)) = pieces.read().unwrap() {
                read += piece.len();
            }
            assert!(read <= 2 << 20, "{read} bytes were read from {begin} on");
        }
    }

    #[test]
    fn pieces_cover_the_data_with_their_overlap() {
        let dir = tempfile::tempdir().unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.path().join("f"))
            .unwrap();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8 + 1).collect();
        file.write_all_at(&bytes, 5_000_000).unwrap();
        file.set_len(20_000_000).unwrap();
        let mut pieces = Pieces::of(&file, 0, 20_000_000).overlapping(7);
        let mut reached = None;
        while let Some((at, piece)) = pieces.read().unwrap() {
            if let Some(reached) = reached {
                assert_eq!(at, reached - 7);
            } else {
                assert!(at <= 5_000_000);
            }
            for (at, byte) in (at..).zip(piece) {
                let want = at.checked_sub(5_000_000).and_then(|n| bytes.get(n as usize));
                assert_eq!(byte, want.unwrap_or(&0), "at {at}");
            }
            reached = Some(at + piece.len() as u64);
        }
        assert!(reached.unwrap() >= 6_000_000);
    }
}
