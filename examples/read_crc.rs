//! Reads every file of a store (log, queues, index) once and computes its CRC-32: the least that a full check can
//! cost. Holes of sparse files are passed over.
//!
//! ```text
//! cargo run --release --example read_crc -- DIR
//! ```

#![allow(clippy::print_stdout)]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::SeekFrom;

fn files(dir: &Path, into: &mut Vec<PathBuf>) -> std::io::Result<()> {
    let mut names: Vec<_> = std::fs::read_dir(dir)?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    names.sort();
    for path in names {
        if path.is_dir() {
            files(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args().nth(1).ok_or("usage: read_crc DIR")?;
    let mut all = Vec::new();
    for part in ["commitlog", "consumequeue", "index"] {
        let dir = Path::new(&root).join(part);
        if dir.is_dir() {
            files(&dir, &mut all)?;
        }
    }
    let begun = Instant::now();
    let mut piece = vec![0; 1 << 20];
    let (mut bytes, mut sum) = (0u64, 0u32);
    for path in &all {
        let file = File::open(path)?;
        let len = file.metadata()?.len();
        let mut hasher = crc32fast::Hasher::new();
        let mut at = 0;
        while at < len {
            let Ok(data) = rustix::fs::seek(&file, SeekFrom::Data(at)) else {
                break;
            };
            let hole = rustix::fs::seek(&file, SeekFrom::Hole(data)).unwrap_or(len);
            at = data;
            while at < hole {
                let want = piece.len().min(usize::try_from(hole - at)?);
                let read = file.read_at(&mut piece[..want], at)?;
                if read == 0 {
                    break;
                }
                hasher.update(&piece[..read]);
                at += read as u64;
                bytes += read as u64;
            }
        }
        sum ^= hasher.finalize();
    }
    let took = begun.elapsed().as_secs_f64();
    println!(
        "read {bytes} bytes of {} files in {took:.2} s, {:.0} MB/s, crc {sum:08x}",
        all.len(),
        bytes as f64 / took / 1e6
    );
    Ok(())
}
