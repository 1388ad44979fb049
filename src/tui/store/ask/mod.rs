//! Answers to the questions of the store screens. Everything here reads files and may block; it runs beside the
//! runtime, never on it. No lock is taken and nothing in a store is
//! written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::answer::{Answer, Glance};
use super::question::{Question, What};
use crate::inspect::{Error, Log, LogEnd, Store, resumable, state_file};

mod checks;
mod index;
mod log;
mod queue;
pub mod wire;

/// Pause between two looks at whether one who waits for a state file is still there.
const CLAIM_LOOK: Duration = Duration::from_millis(100);
/// Pause between two reports of a pass.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Answers questions, and remembers where logs ended, so that an end is not looked for anew each time.
#[derive(Debug, Default)]
pub struct Inspector {
    ends: Mutex<BTreeMap<(PathBuf, Option<String>), LogEnd>>,
    /// Where verifications note how far they are.
    state_dir: Option<PathBuf>,
    /// State files that a verification writes to now. One that was stopped may still be on its last lines.
    in_use: Mutex<BTreeSet<PathBuf>>,
    given_back: Condvar,
}

/// A state file that nobody else of this program uses.
struct Claim<'a> {
    inspector: &'a Inspector,
    path: PathBuf,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut in_use = self
            .inspector
            .in_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        in_use.remove(&self.path);
        self.inspector.given_back.notify_all();
    }
}

/// The one who asks: hears how far a pass is, and may end it.
pub struct Asker<'a> {
    tell: &'a mut dyn FnMut(Answer),
    stop: &'a AtomicBool,
    told: Option<Instant>,
}

impl<'a> Asker<'a> {
    /// `tell` hears what is known before the end, `stop` ends the work.
    pub fn new(tell: &'a mut dyn FnMut(Answer), stop: &'a AtomicBool) -> Self {
        Self {
            tell,
            stop,
            told: None,
        }
    }

    fn is_gone(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the work when nobody waits for it any more.
    fn goes_on(&self) -> Result<(), Error> {
        if self.is_gone() {
            return Err(Error::Changed {
                what: "nobody waits for this any more".to_owned(),
            });
        }
        Ok(())
    }

    /// Tells how far a pass is, unless that was told just now; false when nobody listens any more.
    fn tell(&mut self, answer: impl FnOnce() -> Answer) -> bool {
        if self.told.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            self.told = Some(Instant::now());
            (self.tell)(answer());
        }
        !self.is_gone()
    }
}

impl Inspector {
    /// One that lets full verifications note in this directory how far they are, outside the stores.
    pub fn noting_in(state_dir: Option<PathBuf>) -> Self {
        Self {
            state_dir,
            ..Self::default()
        }
    }

    /// The state file of a store, once no other verification uses it; `None` when there is no place for one.
    fn claim(&self, store: &Store, asker: &Asker<'_>) -> Result<Option<Claim<'_>>, Error> {
        let Some(path) = self
            .state_dir
            .as_deref()
            .and_then(|dir| state_file(dir, store.root()))
        else {
            return Ok(None);
        };
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        while !in_use.insert(path.clone()) {
            asker.goes_on()?;
            let waited = self.given_back.wait_timeout(in_use, CLAIM_LOOK);
            in_use = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(in_use);
        Ok(Some(Claim {
            inspector: self,
            path,
        }))
    }

    /// Answers a question. Errors are in words.
    pub fn answer(&self, question: &Question, asker: &mut Asker<'_>) -> Result<Answer, String> {
        let answered = self.look(question, asker);
        answered.map_err(|e| e.to_string())
    }

    /// Forgets where logs ended.
    pub fn forget(&self) {
        self.ends().clear();
    }

    fn look(&self, question: &Question, asker: &mut Asker<'_>) -> Result<Answer, Error> {
        if !question.what.is_pass() {
            asker.goes_on()?;
        }
        let store = Store::open(&question.root, question.commit_log.as_deref())?;
        // The log and where it ends.
        let log = || -> Result<(Log, LogEnd), Error> {
            let log = store.log()?;
            let end = self.end(question, &log);
            Ok((log, end))
        };
        Ok(match &question.what {
            What::Glance => {
                let (log, end) = log()?;
                Answer::Glance(glance(&store, &log, end.at))
            }
            What::Log { at, topic } => {
                let (log, end) = log()?;
                asker.goes_on()?;
                Answer::Log(match topic {
                    None => log::page(&log, end.at, *at, asker)?,
                    Some(topic) => log::page_of(&store, (&log, end.at), *at, topic, asker)?,
                })
            }
            What::Record(at) => {
                let (log, end) = log()?;
                asker.goes_on()?;
                Answer::Record(Box::new(log::record(&log, end.at, *at)))
            }
            What::Topics => Answer::Topics(store.topics()?.into_iter().collect()),
            What::Topic(topic) => Answer::Topic(queue::topic(&store, topic, asker)?),
            What::Queue { topic, queue, at } => {
                let (log, end) = log()?;
                asker.goes_on()?;
                Answer::Queue(queue::page(&store, (&log, end.at), topic, *queue, *at, asker)?)
            }
            What::CheckQueue { topic, queue, .. } => {
                let (log, end) = log()?;
                Answer::CheckQueue(queue::check(&store, (&log, end.at), topic, *queue, asker)?)
            }
            What::Index => Answer::Index(index::files(&store)?),
            What::Survey { file, .. } => Answer::Survey(Box::new(index::survey(&store, file, asker)?)),
            What::Slot { file, slot } => Answer::Slot(index::slot(&store, file, *slot, asker)?),
            What::Key { topic, key } => Answer::Key(index::key(&store, topic.as_deref(), key, asker)?),
            What::Checks => {
                let (log, end) = log()?;
                asker.goes_on()?;
                Answer::Checks(Box::new(checks::look(&store, &log, end, asker)?))
            }
            What::Kept { .. } => {
                let claim = self.claim(&store, asker)?;
                Answer::Kept(match &claim {
                    Some(claim) => resumable(&store, &claim.path)?,
                    None => None,
                })
            }
            What::Verify {
                full, anew, limit, ..
            } => {
                let claim = if *full { self.claim(&store, asker)? } else { None };
                let state = claim.as_ref().map(|claim| claim.path.as_path());
                Answer::Verify(Box::new(checks::verify_all(
                    &store,
                    *full,
                    *limit,
                    (state, !anew),
                    asker,
                )?))
            }
        })
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<(PathBuf, Option<String>), LogEnd>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the log ends now: looked for from the last end on, as long as the record before that is still there.
    fn end(&self, question: &Question, log: &Log) -> LogEnd {
        let name = (question.root.clone(), question.commit_log.clone());
        let known = self.ends().get(&name).copied();
        let end = known
            .and_then(|known| log.end_since(known))
            .unwrap_or_else(|| log.records_end());
        self.ends().insert(name, end);
        end
    }
}

fn glance(store: &Store, log: &Log, end: u64) -> Glance {
    Glance {
        holder: store.holder(),
        segments: log.files().count(),
        segment_size: log.segment_size(),
        start: log.start(),
        end,
        bases: log.files().map(|file| file.base).collect(),
        rocks_db: store.is_rocks_db(),
    }
}
