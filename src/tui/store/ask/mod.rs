//! Answers to the questions of the store screens. Everything here reads files and may block; it runs beside the
//! runtime, never on it. No lock is taken and nothing is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::answer::{Answer, Glance};
use super::question::{Question, What};
use crate::inspect::{Error, Log, LogEnd, Store};

mod checks;
mod index;
mod log;
mod queue;

/// Pause between two reports of a pass.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Answers questions, and remembers where logs ended, so that an end is not looked for anew each time.
#[derive(Debug, Default)]
pub struct Inspector {
    ends: Mutex<BTreeMap<(PathBuf, Option<String>), LogEnd>>,
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
            What::Verify { full, limit, .. } => {
                Answer::Verify(Box::new(checks::verify_all(&store, *full, *limit, asker)?))
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
