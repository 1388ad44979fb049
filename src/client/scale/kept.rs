//! The plan file: what an interrupted way is gone on from, and the lock that keeps a second run off it.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Machine, Progress};
use crate::replace::{self, beside};

/// The file's `api`.
const API: &str = "rmq/v1";

/// What the file says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Kept {
    /// Version of the form.
    api: String,
    /// Cluster of the topic.
    pub cluster: String,
    /// The name servers that know the cluster.
    pub name_servers: Vec<String>,
    /// The same as in the mark at the name servers.
    pub token: String,
    /// When the way began, RFC 3339.
    pub begun: String,
    /// The way is one back to earlier numbers.
    #[serde(default)]
    pub undoing: bool,
    /// Plan, settings and step.
    pub machine: Machine,
    /// It was interrupted: nobody goes it now.
    #[serde(default)]
    pub stopped: Option<Stopped>,
}

/// How a way was interrupted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stopped {
    /// When, epoch ms.
    pub at_ms: i64,
    /// Why.
    pub why: String,
}

/// A way that is kept, for whoever shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptWay {
    /// Cluster of the topic.
    pub cluster: String,
    /// Topic name.
    pub topic: String,
    /// It leads back to earlier numbers.
    pub undoing: bool,
    /// Where it is.
    pub progress: Progress,
    /// It was interrupted.
    pub stopped: Option<Stopped>,
}

/// Who goes a way writes at least that often that it does.
pub const SIGN_EVERY: Duration = Duration::from_secs(10);

impl KeptWay {
    /// When somebody was seen on it last, epoch ms.
    pub fn sign_ms(&self) -> i64 {
        let stopped_ms = self.stopped.as_ref().map_or(0, |stopped| stopped.at_ms);
        self.progress.seen_ms.max(self.progress.since_ms).max(stopped_ms)
    }

    /// True when nobody goes it: it was interrupted, or three signs of life did not come.
    pub fn is_abandoned(&self, now_ms: i64) -> bool {
        let silent = now_ms.saturating_sub(self.sign_ms());
        self.stopped.is_some() || silent > 3 * super::machine::ms(SIGN_EVERY)
    }
}

impl Kept {
    /// What is kept of a way.
    pub fn new(
        cluster: String,
        name_servers: &[String],
        token: String,
        begun: String,
        machine: Machine,
    ) -> Self {
        Self {
            api: API.into(),
            cluster,
            name_servers: in_order(name_servers),
            token,
            begun,
            undoing: false,
            machine,
            stopped: None,
        }
    }

    /// The same, interrupted.
    #[must_use]
    pub fn stopped(self, at_ms: i64, why: String) -> Self {
        Self {
            stopped: Some(Stopped { at_ms, why }),
            ..self
        }
    }

    /// What a screen shows of it.
    pub fn way(&self) -> KeptWay {
        KeptWay {
            cluster: self.cluster.clone(),
            topic: self.machine.plan().topic.clone(),
            undoing: self.undoing,
            progress: self.machine.progress(),
            stopped: self.stopped.clone(),
        }
    }

    /// The same, as a way back.
    #[must_use]
    pub fn undoing(self, undoing: bool) -> Self {
        Self { undoing, ..self }
    }

    /// True for a way of this topic of this cluster at these name servers.
    pub fn is_of(&self, cluster: &str, topic: &str, name_servers: &[String]) -> bool {
        self.cluster == cluster
            && self.machine.plan().topic == topic
            && self.name_servers == in_order(name_servers)
    }
}

fn in_order(name_servers: &[String]) -> Vec<String> {
    let mut list = name_servers.to_vec();
    list.sort();
    list.dedup();
    list
}

/// The name of a file about an object of a cluster at these name servers: readable, and with a hash (FNV-1a, 64 bits)
/// over all of it, since clusters of the same name are many and `prod` `eu-orders` reads like `prod-eu` `orders`.
pub fn file_name(cluster: &str, object: &str, name_servers: &[String]) -> String {
    let plain = |text: &str| text.replace(['/', '%', ':'], "_");
    let servers = in_order(name_servers).join(";");
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    for byte in [cluster, object, servers.as_str()].join("\0").bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    format!("{}-{}-{hash:016x}.json", plain(cluster), plain(object))
}

/// Why a plan file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// Another process goes this way right now.
    #[error("another rmq is scaling this topic right now ({} is locked)", .0.display())]
    Locked(PathBuf),
    /// It is there and cannot be understood.
    #[error("{} cannot be read: {why}", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// It cannot be written or locked.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// It cannot be put in its place.
    #[error(transparent)]
    Replace(#[from] replace::Error),
}

/// The plan file of one topic. While it is held no other process goes that way.
#[derive(Debug)]
pub struct PlanFile {
    path: PathBuf,
    /// Locked until it is closed.
    _lock: File,
}

impl PlanFile {
    /// Where the plan file of a topic is, under a state directory.
    pub fn path_in(state_dir: &Path, cluster: &str, topic: &str, name_servers: &[String]) -> PathBuf {
        let name = file_name(cluster, topic, name_servers);
        state_dir.join("scale").join(name)
    }

    /// Ways of a topic of this name that were begun at other name servers: `path` is that of the ones at hand.
    pub fn elsewhere(path: &Path, topic: &str) -> Vec<Kept> {
        let files = path.parent().and_then(|dir| std::fs::read_dir(dir).ok());
        files
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|other| other != path && other.extension().is_some_and(|end| end == "json"))
            .filter_map(|other| Self::peek(&other).ok().flatten())
            .filter(|kept| kept.machine.plan().topic == topic)
            .collect()
    }

    /// The ways that are kept under a state directory, of the clusters of these name servers, by topic. A file that cannot
    /// be read is left to the command that wants it.
    pub fn ways(state_dir: &Path, name_servers: &[String]) -> Vec<KeptWay> {
        let servers = in_order(name_servers);
        let files = std::fs::read_dir(state_dir.join("scale")).ok();
        let mut ways: Vec<KeptWay> = files
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|end| end == "json"))
            .filter_map(|path| Self::peek(&path).ok().flatten())
            .filter(|kept| kept.name_servers == servers)
            .map(|kept| kept.way())
            .collect();
        ways.sort_by(|a, b| (&a.topic, &a.cluster).cmp(&(&b.topic, &b.cluster)));
        ways
    }

    /// What is kept of a topic's way, without a lock: for a look.
    pub fn peek(path: &Path) -> Result<Option<Kept>, KeptError> {
        let bad = |why: String| KeptError::Bad {
            path: path.to_owned(),
            why,
        };
        match std::fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text)
                .map(Some)
                .map_err(|e| bad(e.to_string())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(bad(e.to_string())),
        }
    }

    /// Takes the file for this process, whether it is there yet or not; what it says. The lock is a file beside it,
    /// which stays: who deletes a locked file lets a second process lock another one of its name.
    pub fn open(path: PathBuf) -> Result<(Self, Option<Kept>), KeptError> {
        if let Some(dir) = path.parent() {
            replace::create_dir(dir)?;
        }
        let lock_path = beside(&path, ".lock");
        let io = |source| KeptError::Io {
            path: lock_path.clone(),
            source,
        };
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(io)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(KeptError::Locked(lock_path)),
            Err(TryLockError::Error(e)) => return Err(io(e)),
        }
        let kept = Self::peek(&path)?;
        Ok((Self { path, _lock: lock }, kept))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Puts this in its place.
    pub fn write(&self, kept: &Kept) -> Result<(), KeptError> {
        let text = serde_json::to_vec_pretty(kept).map_err(|e| KeptError::Bad {
            path: self.path.clone(),
            why: e.to_string(),
        })?;
        Ok(replace::replace(&self.path, &text)?)
    }

    /// The way has ended: nothing is kept of it.
    pub fn remove(&self) -> Result<(), KeptError> {
        for path in [beside(&self.path, ".bak"), self.path.clone()] {
            match std::fs::remove_file(&path) {
                Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                    return Err(KeptError::Io { path, source });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::scale::{Plan, Settings, Step};

    fn kept() -> Kept {
        let plan = Plan {
            topic: "T".into(),
            brokers: std::collections::BTreeMap::new(),
        };
        let machine = Machine::new(plan, Settings::default(), 5);
        Kept::new("c".into(), &servers(), "1-2".into(), "then".into(), machine)
    }

    fn servers() -> Vec<String> {
        vec!["b:1".into(), "a:1".into()]
    }

    #[test]
    fn a_plan_file_is_of_one_topic_of_one_cluster_at_its_name_servers() {
        let one = ["a:1".to_owned()];
        assert_ne!(
            file_name("prod", "eu-orders", &one),
            file_name("prod-eu", "orders", &one)
        );
        assert_ne!(file_name("c", "T", &one), file_name("c", "T", &servers()));
        assert_ne!(file_name("c", "a_b", &one), file_name("c", "a%b", &one));
        let turned: Vec<String> = servers().into_iter().rev().collect();
        assert_eq!(file_name("c", "T", &turned), file_name("c", "T", &servers()));
        let kept = kept();
        assert!(kept.is_of("c", "T", &turned));
        assert!(!kept.is_of("d", "T", &turned));
        assert!(!kept.is_of("c", "U", &turned));
        assert!(!kept.is_of("c", "T", &one));
        let dir = tempfile::tempdir().unwrap();
        let (file, _) = PlanFile::open(PlanFile::path_in(dir.path(), "c", "T", &turned)).unwrap();
        file.write(&kept).unwrap();
        let other = PlanFile::path_in(dir.path(), "c", "T", &one);
        assert!(PlanFile::open(other.clone()).unwrap().1.is_none());
        assert_eq!(PlanFile::elsewhere(&other, "T").len(), 1);
        assert!(PlanFile::elsewhere(file.path(), "T").is_empty());
        let ways = PlanFile::ways(dir.path(), &turned);
        assert_eq!(ways, [kept.way()]);
        assert!(PlanFile::ways(dir.path(), &one).is_empty());
        assert!(PlanFile::ways(&dir.path().join("none"), &turned).is_empty());
    }

    #[test]
    fn a_way_is_gone_while_it_gives_signs_of_life() {
        // Entered at 5 ms, never looked at.
        let way = kept().way();
        assert!(!way.is_abandoned(30_005));
        assert!(way.is_abandoned(30_006));
        let stopped = kept().stopped(9_000, "Ctrl-C".into()).way();
        assert!(stopped.is_abandoned(9_001));
        assert_eq!(stopped.sign_ms(), 9_000);
    }

    #[test]
    fn a_plan_file_has_one_holder_and_says_what_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = PlanFile::path_in(dir.path(), "c", "%RETRY%x/y", &servers());
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name.starts_with("c-_RETRY_x_y-"), "{name}");
        let (file, nothing) = PlanFile::open(path.clone()).unwrap();
        assert!(nothing.is_none());
        assert!(matches!(PlanFile::open(path.clone()), Err(KeptError::Locked(_))));
        file.write(&kept()).unwrap();
        file.write(&kept()).unwrap();
        assert_eq!(PlanFile::peek(&path).unwrap().unwrap().token, "1-2");
        drop(file);
        let (file, again) = PlanFile::open(path.clone()).unwrap();
        let again = again.unwrap();
        assert_eq!((again.undoing, again.machine.step()), (false, Step::RaiseRead));
        file.remove().unwrap();
        assert!(PlanFile::peek(&path).unwrap().is_none());
        drop(file);
        assert!(PlanFile::open(path).unwrap().1.is_none());
    }

    #[test]
    fn a_damaged_plan_file_is_told_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("p.json");
        std::fs::write(&path, "{").unwrap();
        assert!(matches!(PlanFile::open(path.clone()), Err(KeptError::Bad { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{");
    }
}
