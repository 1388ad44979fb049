//! Replies that cannot be read are kept as files, so that what a server really said can be looked at: in the state
//! directory under `bad-replies`, few and bounded.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::model::{BadReply, Told, Update};
use crate::client::Unreadable;

/// Files kept; the oldest goes.
pub const FILES: usize = 20;
/// Bytes of a file; what is beyond is cut off.
pub const LONGEST: usize = 1 << 20;
/// The same server's answer to the same request is kept this seldom.
const EVERY: Duration = Duration::from_secs(60);
/// Servers and requests that are remembered.
const REMEMBERED: usize = 1024;

/// Keeps them. It is given to a client before the console that hears of it starts.
#[derive(Debug, Default)]
pub struct BadReplies {
    /// The state directory.
    dir: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    kept: HashMap<(String, &'static str), Instant>,
    updates: Option<mpsc::Sender<Update>>,
}

impl BadReplies {
    /// Files go below the state directory `dir`; without one there are none.
    pub fn new(dir: Option<PathBuf>) -> Self {
        Self {
            dir: dir.map(|dir| dir.join("bad-replies")),
            state: Mutex::default(),
        }
    }

    /// From now on each is told here.
    pub fn listen(&self, updates: mpsc::Sender<Update>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).updates = Some(updates);
    }

    /// Keeps the bytes of a reply, beside the caller.
    pub fn hear(&self, reply: &Unreadable<'_>) {
        let server = reply.server.to_string();
        let updates = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let key = (server.clone(), reply.request);
            let fresh = |at: &Instant| now.saturating_duration_since(*at) < EVERY;
            if state.kept.get(&key).is_some_and(fresh) {
                return;
            }
            if state.kept.len() >= REMEMBERED {
                state.kept.retain(|_, at| fresh(at));
            }
            if state.kept.len() < REMEMBERED {
                state.kept.insert(key, now);
            }
            state.updates.clone()
        };
        let (request, why) = (reply.request, reply.why.to_string());
        let bytes = reply.bytes[..reply.bytes.len().min(LONGEST)].to_vec();
        let dir = self.dir.clone();
        let now_ms = super::now_ms();
        // A client that is used outside a runtime does not exist.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        runtime.spawn_blocking(move || {
            let kept = match dir {
                None => Err("there is no state directory".to_owned()),
                Some(dir) => keep(&dir, &name(now_ms, request), &bytes)
                    .map(|path| path.display().to_string())
                    .map_err(|e| e.to_string()),
            };
            let told = Told::BadReply(Box::new(BadReply {
                server,
                request,
                why,
                kept,
            }));
            if let Some(updates) = updates {
                // A display that is behind does without the line of the log.
                let _ = updates.try_send(Update {
                    at_ms: now_ms,
                    retry_at_ms: None,
                    told,
                });
            }
        });
    }
}

/// A name that no other reply has, of this process or of another one; the time comes first.
fn name(now_ms: i64, request: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{now_ms}-{}-{n}-{request}.bin", std::process::id())
}

/// Writes a file that only its owner may read, since replies may have secrets in them, and removes the oldest ones beyond
/// [`FILES`].
fn keep(dir: &Path, name: &str, bytes: &[u8]) -> std::io::Result<PathBuf> {
    std::fs::create_dir_all(dir)?;
    let path = dir.join(name);
    super::clipboard::write_private(&path, bytes)?;
    let mut files: Vec<PathBuf> = std::fs::read_dir(dir)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "bin"))
        .collect();
    // Names begin with their time.
    files.sort();
    for old in files.iter().take(files.len().saturating_sub(FILES)) {
        match std::fs::remove_file(old) {
            // Another dashboard was faster.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_files_go() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("bad-replies");
        for i in 0..FILES + 5 {
            keep(&dir, &format!("{}-X.bin", 1_700_000_000_000 + i), b"x").unwrap();
        }
        let names: Vec<_> = std::fs::read_dir(&dir).unwrap().flatten().collect();
        assert_eq!(names.len(), FILES);
        assert!(!dir.join("1700000000004-X.bin").exists());
        assert!(dir.join("1700000000005-X.bin").exists());
    }

    #[test]
    fn two_replies_of_one_moment_are_both_kept_for_their_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let kept = ["a", "b"].map(|bytes| keep(dir.path(), &name(7, "X"), bytes.as_bytes()).unwrap());
        assert_eq!(
            kept.clone().map(|path| std::fs::read_to_string(path).unwrap()),
            ["a", "b"]
        );
        #[cfg(unix)]
        for path in kept {
            let mode = std::os::unix::fs::PermissionsExt::mode(&path.metadata().unwrap().permissions());
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}
