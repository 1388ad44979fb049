//! Faults at system calls, by `shim.c` preloaded into the broker under test.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::server::Site;

/// Kinds of calls, as `shim.c` numbers them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Calls(pub u32);

impl Calls {
    pub const FSYNC: Self = Self(1);
    pub const FDATASYNC: Self = Self(2);
    pub const MSYNC: Self = Self(4);
    pub const PWRITE: Self = Self(8);
    pub const WRITE: Self = Self(16);
    pub const FTRUNCATE: Self = Self(32);
    pub const RENAME: Self = Self(64);
    pub const OPEN: Self = Self(128);
    pub const LINK: Self = Self(256);
    pub const UNLINK: Self = Self(512);
}

/// What happens at the k-th call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    FailOnce = 0,
    KillBefore = 2,
    KillAfter = 3,
}

pub const EIO: u32 = 5;
pub const ENOSPC: u32 = 28;

static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// Removes the library again.
pub fn clean_up() {
    if let Some(Ok(library)) = BUILT.get()
        && let Some(dir) = library.parent()
    {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// The library, compiled once; an error where there is no C compiler.
pub fn library() -> Result<&'static Path, String> {
    let built = BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/shim.c");
        let dir = tempfile::Builder::new()
            .prefix("rmq-shim-")
            .tempdir()
            .map_err(|e| e.to_string())?
            .keep();
        let library = dir.join("shim.so");
        let made = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-w", "-o"])
            .arg(&library)
            .arg(source)
            .output();
        match made {
            Ok(output) if output.status.success() => Ok(library),
            Ok(output) => Err(format!("cc: {}", String::from_utf8_lossy(&output.stderr))),
            Err(e) => Err(format!("no C compiler: {e}")),
        }
    });
    built.as_deref().map_err(Clone::clone)
}

/// The page that the shim and the test share.
pub struct Control {
    file: File,
    pub platter: PathBuf,
}

/// Offsets in it, 4 bytes each; the filter at 32 has 128 bytes, the path of the first strike at 160 has 512.
const KINDS: u64 = 0;
const HITS: u64 = 20;
const DELAY_US: u64 = 24;
const RECORD: u64 = 28;
const FILTER: u64 = 32;
const HIT_PATH: u64 = 160;

impl Control {
    /// Puts the shim into the environment of a site, doing nothing yet.
    pub fn attach(site: &mut Site) -> Result<Self, String> {
        let library = library()?;
        std::fs::create_dir_all(&site.dir).map_err(|e| e.to_string())?;
        std::fs::create_dir_all(&site.store).map_err(|e| e.to_string())?;
        let path = site.dir.join("shim-control");
        let platter = site.dir.join("platter");
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .and_then(|file| file.set_len(4096).map(|()| file))
            .map_err(|e| e.to_string())?;
        let store = site.store.canonicalize().map_err(|e| e.to_string())?;
        site.env = vec![
            ("LD_PRELOAD".into(), library.display().to_string()),
            ("RMQ_SHIM_ROOT".into(), store.display().to_string()),
            ("RMQ_SHIM_CONTROL".into(), path.display().to_string()),
            ("RMQ_SHIM_PLATTER".into(), platter.display().to_string()),
        ];
        Ok(Self { file, platter })
    }

    fn set(&self, at: u64, value: u32) {
        self.file.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn get(&self, at: u64) -> u32 {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, at).unwrap();
        u32::from_ne_bytes(bytes)
    }

    /// Counts from now on: the k-th such call on a path with `filter` in it is hit.
    pub fn arm(&self, calls: Calls, filter: &str, k: u32, action: Action, error: u32) {
        self.set(KINDS, 0);
        let mut text = [0; 128];
        text[..filter.len()].copy_from_slice(filter.as_bytes());
        self.file.write_all_at(&text, FILTER).unwrap();
        for (n, value) in [k, action as u32, error, 0, 0].into_iter().enumerate() {
            self.set(4 + 4 * n as u64, value);
        }
        self.set(KINDS, calls.0);
    }

    pub fn disarm(&self) {
        self.set(KINDS, 0);
    }

    pub fn hits(&self) -> u32 {
        self.get(HITS)
    }

    /// The file of the first hit.
    pub fn hit_path(&self) -> String {
        let mut bytes = [0; 512];
        self.file.read_exact_at(&mut bytes, HIT_PATH).unwrap();
        let len = bytes.iter().position(|&b| b == 0).unwrap_or(0);
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    }

    /// Each flush takes so much longer.
    pub fn delay_flushes(&self, ms: u32) {
        self.set(DELAY_US, ms * 1000);
    }

    /// Writes down what each flush makes durable.
    pub fn record(&self, on: bool) {
        self.set(RECORD, u32::from(on));
    }
}
