//! Answers to the questions of the store screens. Everything here reads files and may block; it runs beside the
//! runtime, never on it. No lock is taken and nothing is written.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::answer::{Answer, Glance};
use super::question::{Question, What};
use crate::inspect::{Error, Log, Store};

mod checks;
mod index;
mod log;
mod queue;

/// Pause between two reports of a pass.
const REPORT_EVERY: Duration = Duration::from_millis(200);

/// Answers questions, and remembers where logs ended, so that an end is not looked for anew each time.
#[derive(Debug, Default)]
pub struct Desk {
    ends: Mutex<BTreeMap<PathBuf, u64>>,
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

    /// Tells how far a pass is, unless that was told just now; false when nobody listens any more.
    fn tell(&mut self, answer: impl FnOnce() -> Answer) -> bool {
        if self.told.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            self.told = Some(Instant::now());
            (self.tell)(answer());
        }
        !self.is_gone()
    }
}

impl Desk {
    /// Answers a question. Errors are in words.
    pub fn answer(&self, question: &Question, asker: &mut Asker<'_>) -> Result<Answer, String> {
        let answered = self.look(question, asker);
        answered.map_err(|e| e.to_string())
    }

    fn look(&self, question: &Question, asker: &mut Asker<'_>) -> Result<Answer, Error> {
        let store = Store::open(&question.root, question.commit_log.as_deref())?;
        Ok(match &question.what {
            What::Glance => Answer::Glance(self.glance(&store)?),
            What::Log { at, topic } => {
                let log = store.log()?;
                let end = self.end(&store, &log);
                Answer::Log(match topic {
                    None => log::page(&log, end, *at),
                    Some(topic) => log::page_of(&store, &log, end, *at, topic)?,
                })
            }
            What::Record(at) => {
                let log = store.log()?;
                let end = self.end(&store, &log);
                Answer::Record(Box::new(log::record(&log, end, *at)))
            }
            What::Topics => Answer::Topics(store.topics()?.into_iter().collect()),
            What::Topic(topic) => Answer::Topic(queue::topic(&store, topic)?),
            What::Queue { topic, queue, at } => {
                let log = store.log()?;
                let end = self.end(&store, &log);
                Answer::Queue(queue::page(&store, (&log, end), topic, *queue, *at)?)
            }
            What::CheckQueue { topic, queue, .. } => {
                let log = store.log()?;
                let end = self.end(&store, &log);
                Answer::CheckQueue(queue::check(&store, (&log, end), topic, *queue, asker)?)
            }
            What::Index => Answer::Index(index::files(&store)?),
            What::Survey { file, .. } => Answer::Survey(Box::new(index::survey(&store, file, asker)?)),
            What::Slot { file, slot } => Answer::Slot(index::slot(&store, file, *slot)?),
            What::Key { topic, key } => Answer::Key(index::key(&store, topic.as_deref(), key, asker)?),
            What::Checks => Answer::Checks(Box::new(checks::look(&store)?)),
            What::Verify { full, limit, .. } => {
                Answer::Verify(Box::new(checks::verify_all(&store, *full, *limit, asker)?))
            }
        })
    }

    fn glance(&self, store: &Store) -> Result<Glance, Error> {
        let log = store.log()?;
        Ok(Glance {
            holder: store.holder(),
            segments: log.files().count(),
            segment_size: log.segment_size(),
            start: log.start(),
            end: self.end(store, &log),
            bases: log.files().map(|file| file.base).collect(),
            rocks_db: store.is_rocks_db(),
        })
    }

    /// Where the log ends now.
    fn end(&self, store: &Store, log: &Log) -> u64 {
        let ends = || self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let known = ends().get(store.root()).copied();
        let end = match known {
            Some(known) if (log.start()..=log.end()).contains(&known) => log.end_since(known),
            _ => log.records_end(),
        };
        ends().insert(store.root().to_owned(), end);
        end
    }
}
