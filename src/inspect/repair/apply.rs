//! The steps of a plan, done.

use std::collections::HashSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::journal::{Deed, Kept};
use super::plan::state;
use super::{Plan, QueueStep, Step, changed};
use crate::inspect::commit_log::{Log, Step as LogStep};
use crate::inspect::consume_queue::QueueKind;
use crate::inspect::export::Target;
use crate::inspect::info::info;
use crate::inspect::{Error, Progress, Store, io_error};
use crate::store::StoreConfig;
use crate::store::format::checkpoint::Checkpoint;
use crate::store::format::index::Shape;
use crate::store::reader::QueueName;
use crate::store::rebuild::{self, Guard, Made, Parts, Rebuild};
use crate::store::segments::{Pieces, last_nonzero};

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    /// Where what was taken away is kept.
    pub kept: PathBuf,
    /// How each step ended, in words.
    pub steps: Vec<String>,
}

/// Does the steps of a plan to the store that it was made for, which must still be as it was then and have no broker.
/// `name` is that of the new directory, under the root, for what is taken away.
pub fn apply(
    store: &Store,
    plan: &Plan,
    name: &str,
    progress: &mut dyn FnMut(Progress),
) -> Result<Done, Error> {
    let root = store.root().to_owned();
    let absolute = std::path::absolute(&root).unwrap_or_else(|_| root.clone());
    if absolute != plan.store {
        return Err(changed(&format!(
            "the plan is for {}, not for {}",
            plan.store.display(),
            absolute.display()
        )));
    }
    let _guard = Guard::take(&root)?;
    if state(&info(store)?) != plan.state {
        return Err(changed("the store is not as it was when the plan was made"));
    }
    let mut work = Work {
        store,
        root: absolute,
        target: Target::like(store)?,
        kept: Kept::create(&root, name)?,
        indexed_ms: info(store)?
            .index
            .last()
            .map_or(0, |file| file.header.end_timestamp),
    };
    let mut steps = Vec::new();
    let mut is_rebuilt = false;
    for step in &plan.steps {
        steps.push(match step {
            Step::ExtendSegment { file, to, .. } => work.extend(file, *to)?,
            Step::CutLog { at, files, .. } => work.cut(*at, files)?,
            Step::RebuildQueues { .. } | Step::RebuildIndex { .. } if is_rebuilt => {
                "with the queues".to_owned()
            }
            Step::RebuildQueues { .. } | Step::RebuildIndex { .. } => {
                is_rebuilt = true;
                work.rebuild(plan, progress)?
            }
            Step::RestoreTable { name, .. } => work.restore(name)?,
            Step::WriteCheckpoint { newest_ms } => work.checkpoint(*newest_ms)?,
            Step::RemoveAbort => {
                let abort = work.root.join("abort");
                work.kept.keep(&work.root, &abort)?;
                "moved away".to_owned()
            }
        });
    }
    let state = state(&info(store)?);
    work.kept.note(&Deed::Finished { state })?;
    Ok(Done {
        kept: work.kept.dir().to_owned(),
        steps,
    })
}

struct Work<'a> {
    store: &'a Store,
    root: PathBuf,
    target: Target,
    kept: Kept,
    /// Store time up to which the index reaches.
    indexed_ms: i64,
}

impl Work<'_> {
    fn extend(&mut self, file: &Path, to: u64) -> Result<String, Error> {
        let handle = File::options()
            .write(true)
            .open(file)
            .map_err(io_error("open", file))?;
        let from = handle.metadata().map_err(io_error("inspect", file))?.len();
        self.kept.note(&Deed::Extended {
            file: file.to_owned(),
            from,
        })?;
        handle
            .set_len(to)
            .and_then(|()| handle.sync_all())
            .map_err(io_error("extend", file))?;
        Ok(format!("{from} → {to} bytes"))
    }

    fn cut(&mut self, at: u64, files: &[PathBuf]) -> Result<String, Error> {
        // The newest first, so that the log has no hole in between.
        for file in files.iter().rev() {
            self.kept.keep(&self.root, file)?;
        }
        let log = self.store.log()?;
        let mut cleared = 0;
        if let Some(file) = log.files().next_back().filter(|file| at < file.base + file.len) {
            let from = at.saturating_sub(file.base);
            let kept = self.kept.dir().join(format!("commitlog-{at:020}"));
            cleared = copy_tail(&file.path, from, &kept)?;
            rebuild::sync_dir(self.kept.dir())?;
            self.kept.note(&Deed::Cleared {
                file: file.path.clone(),
                at: from,
                kept,
            })?;
            rebuild::clear_tail(&file.path, from)?;
        }
        Ok(format!("{cleared} bytes and {} files kept aside", files.len()))
    }

    fn rebuild(&mut self, plan: &Plan, progress: &mut dyn FnMut(Progress)) -> Result<String, Error> {
        let mut queues: &[QueueStep] = &[];
        let mut index = None;
        for step in &plan.steps {
            match step {
                Step::RebuildQueues { queues: wanted } => queues = wanted,
                Step::RebuildIndex { slots, items, .. } => {
                    index = Some(Shape {
                        slots: *slots,
                        items: *items,
                    });
                }
                _ => {}
            }
        }
        let log = self.store.log()?;
        let staging = self.kept.dir().join("new");
        let mut config = self.target.config(&staging);
        if let Some(shape) = index {
            (config.max_hash_slot_num, config.max_index_num) = (shape.slots, shape.items);
        }
        let known = self.store.queues()?;
        let kind_of = |queue: &QueueStep| {
            known
                .iter()
                .find(|(name, _)| name.topic == queue.topic && name.queue_id == queue.queue_id)
                .map(|(_, kind)| *kind)
        };
        let (made, emptied) = make(
            &log,
            &self.root,
            &config,
            self.target.batch_segment,
            queues,
            |queue| kind_of(queue) != Some(QueueKind::Batch),
            index.is_some(),
            progress,
        )?;
        for queue in queues {
            let kind = kind_of(queue);
            for (parent, of) in [
                ("consumequeue", QueueKind::Simple),
                ("batchconsumequeue", QueueKind::Batch),
            ] {
                let place = |root: &Path| {
                    root.join(parent)
                        .join(&queue.topic)
                        .join(queue.queue_id.to_string())
                };
                let (old, new) = (place(&self.root), place(&staging));
                // A batch queue of which the log has nothing stays as it is: blanks cannot keep its numbers.
                if new.exists() && kind.is_none_or(|kind| kind == of) {
                    if old.exists() {
                        self.kept.keep(&self.root, &old)?;
                    }
                    self.kept.move_to(&new, &old)?;
                }
            }
        }
        if index.is_some() {
            let (old, new) = (self.root.join("index"), staging.join("index"));
            if old.exists() {
                self.kept.keep(&self.root, &old)?;
            }
            if new.exists() {
                self.kept.move_to(&new, &old)?;
            }
            self.indexed_ms = made.indexed_ms;
        }
        let full = made.queues.len().saturating_sub(emptied);
        Ok(format!(
            "{full} queues with {} entries{}{}",
            made.entries,
            if emptied > 0 {
                format!(", {emptied} without any that keep their numbers")
            } else {
                String::new()
            },
            if index.is_some() {
                format!(", {} index files", made.index_files)
            } else {
                String::new()
            }
        ))
    }

    fn restore(&mut self, name: &str) -> Result<String, Error> {
        let config = self.root.join("config");
        let (file, backup) = (config.join(name), config.join(format!("{name}.bak")));
        let bytes = std::fs::read(&backup).map_err(io_error("read", &backup))?;
        if file.exists() {
            self.kept.keep(&self.root, &file)?;
        }
        self.kept.note(&Deed::Made { file: file.clone() })?;
        rebuild::write_new(&file, &bytes)?;
        Ok(format!("{} bytes from its backup", bytes.len()))
    }

    fn checkpoint(&mut self, newest_ms: i64) -> Result<String, Error> {
        let path = self.root.join("checkpoint");
        let old = self.store.checkpoint()?.unwrap_or_default();
        // What our broker notes of queues and index at a clean stop is not true any more.
        let stopped = self.root.join("config").join("rmqStopped");
        if stopped.exists() {
            self.kept.keep(&self.root, &stopped)?;
        }
        if path.exists() {
            self.kept.keep(&self.root, &path)?;
        }
        self.kept.note(&Deed::Made { file: path.clone() })?;
        let values = Checkpoint {
            physic_msg_timestamp: newest_ms,
            logics_msg_timestamp: newest_ms,
            index_msg_timestamp: self.indexed_ms,
            ..old
        };
        rebuild::write_checkpoint(&path, &values)?;
        Ok("written".to_owned())
    }
}

/// Makes queues and index in `config`'s directory. Of a queue that the log has nothing of, the number is kept where
/// `keeps` says so; the second value counts those.
#[allow(clippy::too_many_arguments, reason = "called once, with what a step has")]
fn make(
    log: &Log,
    root: &Path,
    config: &StoreConfig,
    batch_segment: u64,
    queues: &[QueueStep],
    keeps: impl Fn(&QueueStep) -> bool,
    index: bool,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Made, usize), Error> {
    let wanted: HashSet<QueueName> = queues
        .iter()
        .map(|queue| QueueName {
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
        })
        .collect();
    let light = wanted.iter().map(|name| name.topic.clone()).collect();
    let mut rebuild = Rebuild::new(config, batch_segment, light, Some((root, log.start())))?;
    let total = log.end().saturating_sub(log.start());
    for step in log.walk(log.start(), true) {
        progress(Progress {
            pass: "rebuild",
            done: step.end().saturating_sub(log.start()).min(total),
            total,
        });
        let LogStep::Message { record, stale: false } = step else {
            continue;
        };
        let Ok(view) = record.view() else { continue };
        let name = QueueName {
            topic: view.topic().to_owned(),
            queue_id: view.queue_id(),
        };
        let parts = Parts {
            queue: wanted.contains(&name),
            index,
        };
        rebuild.add(&view, parts)?;
        rebuild.add_light(&view)?;
    }
    let mut emptied = 0;
    for queue in queues.iter().filter(|queue| keeps(queue)) {
        let name = QueueName {
            topic: queue.topic.clone(),
            queue_id: queue.queue_id,
        };
        emptied += usize::from(rebuild.keep_number(&name, queue.max_offset)?);
    }
    Ok((rebuild.finish()?, emptied))
}

/// Copies the end of a file, without the zeros at its end. Returns how many bytes.
fn copy_tail(path: &Path, from: u64, to: &Path) -> Result<u64, Error> {
    let file = File::open(path).map_err(io_error("open", path))?;
    let len = file.metadata().map_err(io_error("inspect", path))?.len();
    let out = File::create_new(to).map_err(io_error("create", to))?;
    let mut end = from;
    let mut pieces = Pieces::of_tail(&file, from, len);
    while let Some((at, piece)) = pieces.read().map_err(io_error("read", path))? {
        if let Some(last) = last_nonzero(piece) {
            end = at + last as u64 + 1;
            out.write_all_at(&piece[..=last], at - from)
                .map_err(io_error("write", to))?;
        }
    }
    out.sync_all().map_err(io_error("flush", to))?;
    Ok(end - from)
}
