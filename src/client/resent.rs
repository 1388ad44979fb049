//! What was sent again: one file a group, one JSON line a step. An entry is written before its message is sent and
//! again when the answer is there, so that whatever happens in between, nothing is sent twice.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{BrokerAt, Message};

/// Why the file does not serve.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
    /// It cannot be written.
    #[error("cannot write {}, so nothing more is sent: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What happened.
        source: std::io::Error,
    },
}

/// The file of a group of a cluster in the user's state directory.
pub fn file(state_dir: &Path, cluster: &str, group: &str) -> PathBuf {
    let safe = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || "-_%".contains(c) {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    let name = format!("{}-{}.jsonl", safe(cluster), safe(group));
    state_dir.join("dlq").join(name)
}

/// The cluster that the file of a group is named after: that of the first master of its dead-letter topic.
pub fn cluster_of(masters: &[BrokerAt]) -> Option<&str> {
    masters.first().map(|b| b.id.cluster.as_str())
}

/// Identity of a dead letter in the file.
pub fn entry(message: &Message) -> String {
    format!(
        "{}/{}/{}/{}",
        message.broker, message.queue, message.offset, message.offset_id
    )
}

/// What a resend was about: enough to go on with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Selection {
    /// Only these ids; all when empty.
    pub ids: Vec<String>,
    /// Stored at or after, epoch ms.
    pub since_ms: Option<i64>,
    /// Stored at or before, epoch ms.
    pub until_ms: Option<i64>,
    /// Rows of `--filter`, as it was written.
    pub filter: Option<String>,
    /// Topic of all copies.
    pub to_topic: Option<String>,
    /// Copies go to the retry topic.
    pub to_retry: bool,
}

/// How far an entry is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Handed to the network; no answer is known.
    Sending {
        /// Topic of the copy.
        topic: String,
        /// Unique key of the copy.
        unique_key: String,
    },
    /// Stored by a broker.
    Sent,
    /// Refused by the broker; may be sent again.
    Failed,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "step", rename_all = "snake_case")]
enum Line {
    Begin {
        at_ms: i64,
        selection: Selection,
    },
    Sending {
        entry: String,
        topic: String,
        unique_key: String,
    },
    Sent {
        entry: String,
        at_ms: i64,
    },
    Failed {
        entry: String,
    },
}

/// The state file of a group, read.
#[derive(Debug)]
pub struct State {
    path: PathBuf,
    file: Option<File>,
    steps: BTreeMap<String, Step>,
    last: Option<Selection>,
}

fn unreadable(path: &Path, source: std::io::Error) -> Error {
    Error::Read {
        path: path.to_owned(),
        source,
    }
}

impl State {
    /// Reads a file; one that does not exist is empty. A torn last line is what a kill leaves: it is dropped.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let mut state = Self {
            path: path.to_owned(),
            file: None,
            steps: BTreeMap::new(),
            last: None,
        };
        let file = match File::open(path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(state),
            Err(e) => return Err(unreadable(path, e)),
        };
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|e| unreadable(path, e))?;
            let Ok(line) = serde_json::from_str(&line) else {
                continue;
            };
            state.take(line);
        }
        Ok(state)
    }

    fn take(&mut self, line: Line) {
        match line {
            Line::Begin { selection, .. } => self.last = Some(selection),
            Line::Sending {
                entry,
                topic,
                unique_key,
            } => {
                self.steps.insert(entry, Step::Sending { topic, unique_key });
            }
            Line::Sent { entry, .. } => {
                self.steps.insert(entry, Step::Sent);
            }
            Line::Failed { entry } => {
                self.steps.insert(entry, Step::Failed);
            }
        }
    }

    /// How far an entry is; `None` for one that was never tried.
    pub fn step(&self, entry: &str) -> Option<&Step> {
        self.steps.get(entry)
    }

    /// What the last resend was about.
    pub fn last(&self) -> Option<&Selection> {
        self.last.as_ref()
    }

    /// Entries that were sent.
    pub fn sent(&self) -> usize {
        self.steps.values().filter(|s| **s == Step::Sent).count()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn write(&mut self, line: Line) -> Result<(), Error> {
        let failed = |path: &Path, source: std::io::Error| Error::Write {
            path: path.to_owned(),
            source,
        };
        if self.file.is_none() {
            if let Some(dir) = self.path.parent() {
                std::fs::create_dir_all(dir).map_err(|e| failed(&self.path, e))?;
            }
            let torn = std::fs::read(&self.path).is_ok_and(|b| !b.is_empty() && !b.ends_with(b"\n"));
            let mut file = File::options()
                .create(true)
                .append(true)
                .open(&self.path)
                .map_err(|e| failed(&self.path, e))?;
            if torn {
                file.write_all(b"\n").map_err(|e| failed(&self.path, e))?;
            }
            self.file = Some(file);
        }
        let mut text = serde_json::to_string(&line).map_err(|e| failed(&self.path, e.into()))?;
        text.push('\n');
        if let Some(file) = &mut self.file {
            // One write a line: a killed process leaves whole lines or a torn last one.
            file.write_all(text.as_bytes())
                .map_err(|e| failed(&self.path, e))?;
        }
        self.take(line);
        Ok(())
    }

    /// Begins a resend.
    pub fn begin(&mut self, at_ms: i64, selection: &Selection) -> Result<(), Error> {
        let selection = selection.clone();
        self.write(Line::Begin { at_ms, selection })
    }

    /// An entry is about to be sent.
    pub fn sending(&mut self, entry: &str, topic: &str, unique_key: &str) -> Result<(), Error> {
        self.write(Line::Sending {
            entry: entry.to_owned(),
            topic: topic.to_owned(),
            unique_key: unique_key.to_owned(),
        })
    }

    /// An entry is stored.
    pub fn done(&mut self, entry: &str, at_ms: i64) -> Result<(), Error> {
        let entry = entry.to_owned();
        self.write(Line::Sent { entry, at_ms })
    }

    /// An entry was refused.
    pub fn failed(&mut self, entry: &str) -> Result<(), Error> {
        let entry = entry.to_owned();
        self.write(Line::Failed { entry })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_killed_resend_is_read_to_its_last_whole_step() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("sub").join("g.jsonl");
        let mut state = State::read(&path).unwrap();
        let selection = Selection {
            to_retry: true,
            ..Selection::default()
        };
        state.begin(1, &selection).unwrap();
        state.sending("a", "T", "U1").unwrap();
        state.done("a", 2).unwrap();
        state.sending("b", "T", "U2").unwrap();
        state.failed("c").unwrap();
        drop(state);
        let mut file = File::options().append(true).open(&path).unwrap();
        file.write_all(b"{\"step\":\"sent\",\"entry\":\"b").unwrap();
        let mut state = State::read(&path).unwrap();
        assert_eq!(state.last(), Some(&selection));
        assert_eq!(state.step("a"), Some(&Step::Sent));
        let sending = Step::Sending {
            topic: "T".into(),
            unique_key: "U2".into(),
        };
        assert_eq!(state.step("b"), Some(&sending));
        assert_eq!((state.step("c"), state.step("d")), (Some(&Step::Failed), None));
        // The next line does not grow out of the torn one.
        state.done("b", 3).unwrap();
        assert_eq!(State::read(&path).unwrap().sent(), 2);
    }
}
