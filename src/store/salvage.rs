//! Keeps what recovery cuts off. The log ends at the first damage, but whole records may lie behind it; they are
//! copied to `lost/` under the root before their place is used again, so that a person can look.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::Error;
use super::cursor::{Found, MessageCursor};
use super::disk::{create_dir, io_error};
use super::format::file_name;
use super::segments::{LogBytes, Segments};
use crate::protocol::message::{MAGIC_V1, MAGIC_V2};

/// Copies the whole records behind `end` into one file, named by the offset of the first of them.
pub fn set_aside(root: &Path, segments: &Segments, end: u64) -> Result<(), Error> {
    let mut out: Option<(File, std::path::PathBuf)> = None;
    let mut count = 0u64;
    let mut at = end;
    while let Some(found) = next_record(segments, at) {
        let mut cursor = MessageCursor::new(segments, found);
        while let Some(Ok(step)) = cursor.next() {
            let Found::Message(record) = step else { continue };
            let (file, path) = match &mut out {
                Some(out) => out,
                none => {
                    let dir = root.join("lost");
                    create_dir(&dir)?;
                    let path = dir.join(file_name::segment(record.at));
                    let file = File::create(&path).map_err(io_error("create", &path))?;
                    none.insert((file, path))
                }
            };
            file.write_all(&record.bytes).map_err(io_error("write", path))?;
            count += 1;
        }
        at = cursor.position().max(found + 1);
    }
    if let Some((file, path)) = out {
        file.sync_all().map_err(io_error("flush", &path))?;
        tracing::error!(
            "{count} whole records lie behind the damage at {end}; they are cut off and kept in {}",
            path.display()
        );
    }
    Ok(())
}

/// The next place at or behind `from` that looks like a record of that place.
fn next_record(segments: &Segments, from: u64) -> Option<u64> {
    let mut at = from;
    while at < segments.end() {
        let file_end = segments.file_end(at).min(segments.end());
        if let Some(window) = segments.window(at, (file_end - at) as usize) {
            let found = window.windows(36).position(|head| {
                let magic = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
                (magic == MAGIC_V1 || magic == MAGIC_V2) && {
                    let position =
                        (at as usize).wrapping_add(head.as_ptr() as usize - window.as_ptr() as usize);
                    head[28..36] == (position as u64).to_be_bytes()
                }
            });
            if let Some(n) = found {
                return Some(at + n as u64);
            }
        }
        at = file_end;
    }
    None
}
