//! What tests that run real processes share: directories, ports, waiting, the processes of both sides and a bare
//! client of the wire that depends on nothing under test.

pub mod clock;
pub mod java;
pub mod nodes;
pub mod ports;
pub mod process;
pub mod rmq;
pub mod schema;
pub mod session;
pub mod text;
pub mod wait;
pub mod wire;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// A directory of this test alone, gone at its end.
pub fn scratch() -> TempDir {
    tempfile::Builder::new()
        .prefix("rmq-it-")
        .tempdir()
        .expect("a temporary directory can be made")
}

/// A directory of this test alone, in memory where there is room: for stores that are opened hundreds of times over, where
/// most of the time would go into waiting for a disk.
pub fn quick_scratch() -> TempDir {
    const ROOM: u64 = 1 << 30;
    let memory = Path::new("/dev/shm");
    let has_room = rustix::fs::statvfs(memory).is_ok_and(|fs| fs.f_bavail * fs.f_frsize > ROOM);
    let made = has_room.then(|| tempfile::Builder::new().prefix("rmq-it-").tempdir_in(memory));
    made.and_then(Result::ok).unwrap_or_else(scratch)
}

/// `host:port` on the loopback.
pub fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

/// Prints past the capture of the test harness: a skipped test that nobody sees is a passed test.
pub fn loud(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "\n{line}");
}

fn golden_store(file: &str) -> zstd::Decoder<'static, BufReader<File>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden/stores")
        .join(file);
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    zstd::Decoder::new(file).expect("a zstd stream")
}

/// Unpacks a store of `tests/golden/stores` into `into`; returns the store's directory.
pub fn unpack_golden_store(name: &str, into: &Path) -> PathBuf {
    tar::Archive::new(golden_store(&format!("{name}.tar.zst")))
        .unpack(into)
        .expect("the archive unpacks");
    into.join(name)
}

/// What Java reads from that store.
pub fn golden_expectation(name: &str) -> serde_json::Value {
    serde_json::from_reader(golden_store(&format!("{name}.expect.json.zst"))).expect("JSON")
}
