//! Damage in the log: what lies behind it, and a copy of what recovery cuts off.
//!
//! The log ends at the first damage of its last segment, as in Java. When whole records lie behind it, everything from
//! the damage to the last of them is copied to `lost/` under the root before its place is used again, byte by byte, so
//! that it can be looked at and put back.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use super::Error;
use super::cursor::{Found, MessageCursor};
use super::disk::{self, create_dir, io_error};
use super::format::file_name;
use super::segments::{LogBytes, Segments};
use crate::protocol::message::{MAGIC_V1, MAGIC_V2, MessageView};

/// Copies the bytes from `end` to the last whole record behind it into one file, which is named by the offset of its
/// first byte.
pub fn set_aside(root: &Path, segments: &Segments, end: u64) -> Result<(), Error> {
    let (mut count, mut at, mut first, mut behind) = (0u64, end, None, end);
    while let Some(found) = next_record(segments, at, segments.end()) {
        let mut cursor = MessageCursor::new(segments, found);
        while let Some(Ok(step)) = cursor.next() {
            if let Found::Message(record) = step {
                first.get_or_insert(record.at);
                behind = record.end();
                count += 1;
            }
        }
        at = cursor.position().max(found + 1);
    }
    let Some(first) = first else {
        return Ok(());
    };
    let dir = root.join("lost");
    create_dir(&dir)?;
    // A second cut at the same place keeps the first copy.
    let path = free_name(&dir.join(file_name::segment(end)));
    let mut out = File::create(&path).map_err(io_error("create", &path))?;
    let mut at = end;
    while at < behind {
        let Some(window) = segments.window(at, 1) else {
            // A file that is gone: the next one goes on.
            at = segments.file_end(at);
            continue;
        };
        let file_end = segments.file_end(at).min(behind);
        let window = &window[..window.len().min((file_end - at) as usize)];
        out.write_all(window).map_err(io_error("write", &path))?;
        at += window.len() as u64;
    }
    out.sync_all().map_err(io_error("flush", &path))?;
    disk::sync_dir(&dir)?;
    disk::sync_dir(root)?;
    tracing::error!(
        "{count} whole records, {first} to {behind}, lie behind the damage at {end}; the log is cut off at {end} and \
         its bytes up to {behind} are kept in {}",
        path.display()
    );
    Ok(())
}

/// Moves a file that is not as the store would have it to the place under `lost/` that it had under the root, and
/// returns where it is now. It must be one that can be made again.
pub fn keep_aside(root: &Path, file: &Path) -> Result<PathBuf, Error> {
    let lost = root.join("lost");
    let kept = lost.join(file.strip_prefix(root).unwrap_or(file));
    // An absolute path would replace the one that it is joined to.
    let kept = if kept.starts_with(&lost) {
        kept
    } else {
        lost.join(file.file_name().unwrap_or_default())
    };
    let dir = kept.parent().unwrap_or(&lost);
    disk::create_dir_durably(dir)?;
    let kept = free_name(&kept);
    std::fs::rename(file, &kept).map_err(io_error("move", file))?;
    disk::sync_dir(dir)?;
    file.parent().map_or(Ok(()), disk::sync_dir)?;
    Ok(kept)
}

/// The path, or that of a later copy where something is there already.
fn free_name(path: &Path) -> PathBuf {
    let numbered = |n: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!("-{n}"));
        PathBuf::from(name)
    };
    std::iter::once(path.to_owned())
        .chain((2..=u32::MAX).map(numbered))
        .find(|path| !path.exists())
        .unwrap_or_else(|| path.to_owned())
}

/// Where the log goes on behind damage in one of its earlier segments: at the next whole record that is as young as
/// what comes before it (`after`, a store time). `None` when no later segment begins with such a record: then the log
/// ends at the damage.
pub fn resume(segments: &Segments, damage: u64, after: i64) -> Option<u64> {
    let file_end = segments.file_end(damage);
    let later = segments
        .files()
        .filter(|file| file.base >= file_end)
        .find_map(|file| Some((file.base, store_time(segments, file.base)?)));
    let (later, later_time) = later.filter(|(_, time)| *time >= after)?;
    let mut at = damage + 1;
    // The segments in between may have lost no more than their beginning.
    while let Some(found) = next_record(segments, at, later) {
        if store_time(segments, found).is_some_and(|time| (after..=later_time).contains(&time)) {
            return Some(found);
        }
        at = found + 1;
    }
    Some(later)
}

/// Store time of the whole record at an offset.
fn store_time(segments: &Segments, at: u64) -> Option<i64> {
    match MessageCursor::new(segments, at).next()? {
        Ok(Found::Message(record)) => Some(record.view().ok()?.store_timestamp()),
        _ => None,
    }
}

/// The next place in `from..to` that looks like a record of that place.
pub fn next_record(segments: &Segments, from: u64, to: u64) -> Option<u64> {
    let mut at = from;
    while at < to {
        let file_end = segments.file_end(at).min(to);
        while at < file_end {
            let Some(window) = segments.window(at, (file_end - at).min(PIECE) as usize) else {
                break;
            };
            let window = &window[..window.len().min((file_end - at) as usize)];
            if let Some(n) = position(window, at) {
                return Some(at + n as u64);
            }
            if window.len() <= HEAD {
                break;
            }
            // The head of a record may lie across the end of the window.
            at += (window.len() - HEAD + 1) as u64;
        }
        at = file_end;
    }
    None
}

/// Bytes up to and including a record's physical offset.
const HEAD: usize = 36;
/// How much is asked for at once where files are not mapped.
const PIECE: u64 = 1 << 20;

/// The first place in `window` that has a record's magic and its own offset, for a window that begins at `at`.
fn position(window: &[u8], at: u64) -> Option<usize> {
    (at..).zip(window.windows(HEAD)).position(|(place, head)| {
        let magic = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
        (magic == MAGIC_V1 || magic == MAGIC_V2) && head[28..36] == place.to_be_bytes()
    })
}

/// True when the record of an entry is there, whole but for its body's checksum, and belongs to the queue. Returns its
/// queue offset.
pub fn record_of(segments: &Segments, (offset, size): (i64, i32), topic: &str, queue_id: i32) -> Option<i64> {
    let bytes = segments.slice(u64::try_from(offset).ok()?, usize::try_from(size).ok()?)?;
    let view = MessageView::parse(&bytes).ok()?;
    let is_it = view.size() == bytes.len()
        && view.physical_offset() == offset
        && view.topic() == topic
        && view.queue_id() == queue_id;
    is_it.then(|| view.queue_offset())
}
