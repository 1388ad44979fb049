//! The timer's files, as Java keeps them: the wheel of slots, the log of units, and the checkpoint that says how far
//! both were read. The wheel holds in memory only slots that are still to come, so a million waiting messages cost no
//! more than the slots they wait in.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::Error;
use super::disk::{self, io_error};
use super::format::timer_check::{self, TimerCheck};

mod log;
mod recover;
mod wheel;

pub use log::TimerLog;
pub use recover::{Recovered, recover};
pub use wheel::Wheel;

pub use super::format::timer_log::{DEFAULT, DELETE, ROLL, Unit};

/// The file of the timer's checkpoint.
#[derive(Debug)]
pub struct CheckFile {
    path: PathBuf,
    file: File,
}

impl CheckFile {
    /// Opens or makes `path` and reads what it says; an empty one says 0 everywhere.
    pub fn open(path: &Path) -> Result<(Self, TimerCheck), Error> {
        if let Some(dir) = path.parent() {
            disk::create_dir(dir)?;
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(io_error("open", path))?;
        let len = file.metadata().map_err(io_error("inspect", path))?.len();
        if len == 0 {
            // As long as Java makes it: a table of no length is a broken one for whoever looks at the store.
            file.set_len(timer_check::LEN as u64)
                .map_err(io_error("extend", path))?;
        }
        let mut bytes = [0; timer_check::USED];
        disk::read_at_most(&file, &mut bytes, 0).map_err(io_error("read", path))?;
        let path = path.to_owned();
        Ok((Self { path, file }, TimerCheck::parse(&bytes)))
    }

    /// Writes and flushes the checkpoint.
    pub fn write(&self, check: &TimerCheck) -> Result<(), Error> {
        self.file
            .write_all_at(&check.to_bytes(), 0)
            .and_then(|()| self.file.set_len(timer_check::LEN as u64))
            .and_then(|()| self.file.sync_data())
            .map_err(io_error("write", &self.path))
    }
}
