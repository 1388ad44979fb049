//! Makes consume queues and index out of a log, in a directory where none are: for a store that is mended or copied.
//! The entries are those that a broker's own dispatch makes.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

pub use super::consume_queue::clear_tail;
pub use super::disk::{data_end, read_at_most, sync_dir};

use super::batch_queues::BatchQueues;
use super::build::{Dispatch, Wanted, light_queues};
use super::consume_queue::Pushed;
use super::deleted::DeletedTopics;
use super::disk::{self, io_error};
use super::format::batch_queue;
use super::format::checkpoint::{self, Checkpoint};
use super::format::consume_queue::Entry;
use super::format::file_name;
use super::index::Index;
use super::lock::{self, StoreLock};
use super::queues::ConsumeQueues;
use super::reader::QueueName;
use super::{Error, StoreConfig, segments};
use crate::protocol::message::MessageView;
use crate::protocol::model::{SysFlag, tags_code};
use crate::protocol::properties::names;

/// Entries of a batch queue that are written at once.
const BATCHED: usize = 1024;
/// Records between two looks at how many maps are held.
const LOOK_EVERY: u64 = 100_000;

/// What is made of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// The entry of its own queue.
    pub queue: bool,
    /// Its keys in the index.
    pub index: bool,
}

/// Queues and index in the making.
#[derive(Debug)]
pub struct Rebuild {
    queues: ConsumeQueues,
    index: Index,
    deleted: DeletedTopics,
    delays: Vec<i64>,
    /// What the dispatch takes for batch queues; those of a rebuild are written here.
    no_batches: BatchQueues,
    batches: HashMap<QueueName, BatchQueue>,
    batch_dir: PathBuf,
    batch_segment: u64,
    light: HashSet<String>,
    records: u64,
    entries: u64,
}

/// What was made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Made {
    /// Queue offset behind the last entry of each queue.
    pub queues: Vec<(QueueName, i64)>,
    /// Entries in all of them.
    pub entries: u64,
    /// Files of the index.
    pub index_files: usize,
    /// Store time up to which the index reaches, ms.
    pub indexed_ms: i64,
}

impl Rebuild {
    /// Under the root of `config`, with its sizes. Topics that are listed as deleted under the `config` directory of
    /// `deleted_in` get no queues. Entries of batch queues go into files of `batch_segment` bytes, those of light
    /// queues only to queues in `light`.
    pub fn new(
        config: &StoreConfig,
        batch_segment: u64,
        light: HashSet<String>,
        deleted_in: Option<(&Path, u64)>,
    ) -> Result<Self, Error> {
        let deleted = match deleted_in {
            Some((root, log_start)) => {
                DeletedTopics::load(&root.join("config"), i64::try_from(log_start).unwrap_or(i64::MAX))?
            }
            None => DeletedTopics::default(),
        };
        let entry = batch_queue::LEN as u64;
        Ok(Self {
            queues: ConsumeQueues::new(config.consume_queue_dir(), config.consume_queue_segment()),
            index: Index::new(config.index_dir(), config.index_shape(), Vec::new()),
            deleted,
            delays: config.delay_levels(),
            no_batches: BatchQueues::load(&config.store_path_root_dir)?,
            batches: HashMap::new(),
            batch_dir: config.store_path_root_dir.join("batchconsumequeue"),
            batch_segment: batch_segment.max(entry).next_multiple_of(entry),
            light,
            records: 0,
            entries: 0,
        })
    }

    /// Makes the parts of a record. Records come in the order of the log.
    pub fn add(&mut self, view: &MessageView<'_>, parts: Parts) -> Result<(), Error> {
        let is_batch = view.sys_flag().has(SysFlag::INNER_BATCH);
        let dispatch = Dispatch {
            queues: &self.queues,
            batches: &self.no_batches,
            // See add_light(), which gets over holes.
            light_queues: false,
            index: parts.index.then_some(&self.index),
            delays: &self.delays,
            deleted: &self.deleted,
            indexed_to: -1,
        };
        let wanted = Wanted::of(view);
        if parts.queue
            && !is_batch
            && let Some((queue, entry)) = dispatch.entry(view, &wanted)
        {
            let pushed = queue.push(view.queue_offset(), entry)?;
            self.entries += u64::from(pushed == Pushed::New);
        }
        dispatch.index_keys(view, &wanted, |index, key| {
            let put = index.put(view.topic(), key, view.physical_offset(), view.store_timestamp());
            if let Some(full) = put? {
                full.flush()?;
            }
            Ok(())
        })?;
        let batch = (parts.queue && is_batch)
            .then(|| dispatch.batch_of(view, &wanted))
            .flatten();
        if let Some(entry) = batch {
            self.add_batch(view, entry)?;
        }
        self.records += 1;
        if self.records.is_multiple_of(LOOK_EVERY) {
            self.queues.let_go();
        }
        Ok(())
    }

    /// Makes the entries of a record in the light queues that it was sent to besides its own.
    pub fn add_light(&mut self, view: &MessageView<'_>) -> Result<(), Error> {
        for (name, offset) in light_queues(view) {
            if self.light.contains(name) {
                let entry = Entry {
                    offset: view.physical_offset(),
                    size: i32::try_from(view.size()).unwrap_or(i32::MAX),
                    tags_code: view.properties().get(names::TAGS).map_or(0, tags_code),
                };
                let pushed = self.queues.find_or_make(name, 0).push(offset, entry)?;
                self.entries += u64::from(pushed == Pushed::New);
            }
        }
        Ok(())
    }

    /// Makes a queue of which the log has nothing: blank entries up to the number that comes next, so that no number is
    /// given twice. False when it has entries, or no number to keep.
    pub fn keep_number(&self, name: &QueueName, next: i64) -> Result<bool, Error> {
        let queue = self.queues.find_or_make(&name.topic, name.queue_id);
        if queue.max() > 0 || next <= 0 {
            return Ok(false);
        }
        queue.push(next - 1, Entry::BLANK)?;
        Ok(true)
    }

    fn add_batch(&mut self, view: &MessageView<'_>, entry: batch_queue::Entry) -> Result<(), Error> {
        let name = QueueName {
            topic: view.topic().to_owned(),
            queue_id: view.queue_id(),
        };
        let dir = self.batch_dir.join(&name.topic).join(name.queue_id.to_string());
        self.entries += 1;
        self.batches
            .entry(name)
            .or_insert_with(|| BatchQueue {
                dir,
                segment: self.batch_segment,
                at: 0,
                end_offset: 0,
                ahead: Vec::new(),
            })
            .push(entry)
    }

    /// Brings everything to the disk.
    pub fn finish(mut self) -> Result<Made, Error> {
        let mut made = Made {
            entries: self.entries,
            ..Made::default()
        };
        let mut queues = self.queues.all();
        // One that was only asked for.
        queues.retain(|queue| queue.max() > 0);
        self.queues.flush(&queues)?;
        for queue in queues {
            queue.let_go(true);
            made.queues.push((queue.name().clone(), queue.max()));
        }
        for (name, queue) in &mut self.batches {
            queue.flush()?;
            made.queues.push((name.clone(), queue.end_offset));
        }
        self.index.flush()?;
        let files = self.index.files();
        made.index_files = files.len();
        made.indexed_ms = files.last().map_or(0, |file| file.header().end_timestamp);
        made.queues.sort();
        Ok(made)
    }
}

/// A batch queue in the making.
#[derive(Debug)]
struct BatchQueue {
    dir: PathBuf,
    segment: u64,
    /// Position behind what was written.
    at: u64,
    end_offset: i64,
    ahead: Vec<u8>,
}

impl BatchQueue {
    fn push(&mut self, entry: batch_queue::Entry) -> Result<(), Error> {
        self.end_offset = entry.end_offset();
        self.ahead.extend_from_slice(&entry.to_bytes());
        let end = self.at + self.ahead.len() as u64;
        if self.ahead.len() >= BATCHED * batch_queue::LEN || end.is_multiple_of(self.segment) {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.ahead.is_empty() {
            return Ok(());
        }
        let base = self.at - self.at % self.segment;
        let path = self.dir.join(file_name::segment(base));
        let file = if path.exists() {
            segments::open_rw(&path)?
        } else {
            disk::create_dir(&self.dir)?;
            segments::create_rw(&path, self.segment, 0)?
        };
        file.write_all_at(&self.ahead, self.at - base)
            .and_then(|()| file.sync_data())
            .map_err(io_error("write", &path))?;
        self.at += self.ahead.len() as u64;
        self.ahead.clear();
        Ok(())
    }
}

/// Keeps brokers off a store while it is mended; gives them way when it is dropped.
#[derive(Debug)]
pub struct Guard(#[allow(dead_code, reason = "held for its drop")] StoreLock);

impl Guard {
    /// Takes the lock that a broker takes; an error when one runs.
    pub fn take(root: &Path) -> Result<Self, Error> {
        lock::StoreLock::take(root).map(Self)
    }
}

/// Writes a checkpoint file, whole and flushed.
pub fn write_checkpoint(path: &Path, values: &Checkpoint) -> Result<(), Error> {
    let mut bytes = vec![0; checkpoint::LEN];
    bytes[..checkpoint::USED].copy_from_slice(&values.to_bytes());
    write_new(path, &bytes)
}

/// Writes a file of which nothing is there before it is whole, flushed with its name.
pub fn write_new(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let written = File::create(&part).and_then(|file| {
        file.write_all_at(bytes, 0)?;
        file.sync_all()?;
        std::fs::rename(&part, path)
    });
    written.map_err(io_error("write", path))?;
    path.parent().map_or(Ok(()), disk::sync_dir)
}

/// Makes a segment of zeros; writing to it needs no more space in its first `reserved` bytes.
pub fn create_segment(path: &Path, size: u64) -> Result<File, Error> {
    segments::create_rw(path, size, 0)
}
