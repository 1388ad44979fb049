//! A wall clock that a test sets, for a process that `clock.c` is preloaded into.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The clock of one process.
pub struct Clock {
    file: File,
    page: PathBuf,
    library: PathBuf,
}

impl Clock {
    /// Compiles the library into `dir`; an error where there is no C compiler.
    pub fn make(dir: &Path) -> Result<Self, String> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/support/clock.c");
        let (library, page) = (dir.join("clock.so"), dir.join("clock"));
        let made = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .arg(&library)
            .arg(source)
            .output()
            .map_err(|e| format!("no C compiler: {e}"))?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        std::fs::write(&page, [0; 8]).map_err(|e| e.to_string())?;
        let file = File::options()
            .write(true)
            .open(&page)
            .map_err(|e| e.to_string())?;
        Ok(Self { file, page, library })
    }

    /// What the process needs in its environment.
    pub fn environment(&self) -> [(&'static str, &Path); 2] {
        [("LD_PRELOAD", &self.library), ("RMQ_TEST_CLOCK", &self.page)]
    }

    /// Sets it so many seconds ahead of the real one, at once.
    pub fn set_ahead(&self, seconds: i64) {
        self.file
            .write_all_at(&seconds.to_ne_bytes(), 0)
            .expect("the page can be written");
    }
}
