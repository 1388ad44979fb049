//! A store directory, opened read-only: creates nothing, changes nothing, takes no lock.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::disk::{self, io_error};
use super::format::checkpoint::Checkpoint;
use super::format::index::{IndexView, Shape};
use super::format::{checkpoint, consume_queue, file_name};
use super::segments::{self, Segment, SegmentFile, Segments};
use super::{Error, StoreConfig, lock};

/// One queue of the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueName {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub queue_id: i32,
}

/// A store directory, read-only.
#[derive(Debug)]
pub struct StoreReader {
    config: StoreConfig,
    holder: Option<u32>,
}

/// An index file with its shape.
#[derive(Debug)]
pub struct IndexFile {
    path: PathBuf,
    shape: Shape,
    bytes: bytes::Bytes,
}

impl IndexFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many slots and items it has room for.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Its header, slots and items; `None` when the file is shorter than its shape.
    pub fn view(&self) -> Option<IndexView<'_>> {
        IndexView::new(&self.bytes, self.shape)
    }
}

impl StoreReader {
    /// The store in `root`, with default sizes where the files do not tell.
    pub fn open(root: &Path) -> Result<Self, Error> {
        Self::with_config(StoreConfig {
            store_path_root_dir: root.to_owned(),
            ..StoreConfig::default()
        })
    }

    /// The store that a configuration names.
    pub fn with_config(config: StoreConfig) -> Result<Self, Error> {
        let root = &config.store_path_root_dir;
        std::fs::read_dir(root).map_err(io_error("list", root))?;
        let holder = lock::holder(root);
        Ok(Self { config, holder })
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.config.store_path_root_dir
    }

    /// The process that runs a broker on it now, if one does.
    pub fn holder(&self) -> Option<u32> {
        self.holder
    }

    /// The commit log. The size of its segments is that of its first file.
    pub fn commit_log(&self) -> Result<Segments, Error> {
        let files = segments::list(&self.config.commit_log_dir())?.files;
        let size = segment_size(&files, self.config.mapped_file_size_commit_log);
        Ok(Segments::new(files, size, self.holder.is_some()))
    }

    /// The size of a commit log segment, from the first file.
    pub fn commit_log_segment_size(&self) -> Result<u64, Error> {
        let files = segments::list(&self.config.commit_log_dir())?.files;
        Ok(segment_size(&files, self.config.mapped_file_size_commit_log))
    }

    /// All queues, by topic and number.
    pub fn queues(&self) -> Result<Vec<QueueName>, Error> {
        let mut queues = list_queues(&self.config.consume_queue_dir())?.0;
        queues.sort();
        Ok(queues)
    }

    /// The entries of a queue; none when there is no such queue.
    pub fn consume_queue(&self, queue: &QueueName) -> Result<Segments, Error> {
        let dir = queue_dir(&self.config.consume_queue_dir(), &queue.topic, queue.queue_id);
        let files = segments::list(&dir)?.files;
        let configured = consume_queue::segment_size(self.config.mapped_file_size_consume_queue);
        let size = segment_size(&files, configured);
        Ok(Segments::new(files, size, self.holder.is_some()))
    }

    /// Index files, oldest first.
    pub fn index_files(&self) -> Result<Vec<PathBuf>, Error> {
        list_index(&self.config.index_dir()).map(|(files, _)| files)
    }

    /// One index file. That of a running broker is copied to memory, so better do not hold many.
    pub fn index(&self, path: &Path) -> Result<IndexFile, Error> {
        let shape = self.config.index_shape();
        let len = std::fs::metadata(path).map_err(io_error("inspect", path))?.len();
        if len != shape.file_len() {
            return Err(Error::Size {
                path: path.to_owned(),
                found: len,
                expected: shape.file_len(),
                key: "maxHashSlotNum and maxIndexNum",
            });
        }
        let bytes = if self.holder.is_some() {
            std::fs::read(path).map_err(io_error("read", path))?.into()
        } else {
            Segment::open_read(path, 0)?.window(0).unwrap_or_default()
        };
        Ok(IndexFile {
            path: path.to_owned(),
            shape,
            bytes,
        })
    }

    /// The checkpoint; `None` when there is none.
    pub fn checkpoint(&self) -> Result<Option<Checkpoint>, Error> {
        let path = self.root().join("checkpoint");
        let file = match File::open(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io_error("open", &path))?,
        };
        let mut bytes = [0; checkpoint::USED];
        disk::read_at_most(&file, &mut bytes, 0).map_err(io_error("read", &path))?;
        Ok(Some(Checkpoint::parse(&bytes)))
    }

    /// Text of the crash marker (a process id); `None` after a clean stop.
    pub fn abort(&self) -> Result<Option<String>, Error> {
        let path = self.root().join("abort");
        match std::fs::read(&path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            text => {
                let text = text.map_err(io_error("read", &path))?;
                Ok(Some(String::from_utf8_lossy(&text).into_owned()))
            }
        }
    }

    /// Names of the files under `config/`.
    pub fn tables(&self) -> Result<Vec<String>, Error> {
        let dir = self.root().join("config");
        let entries = match std::fs::read_dir(&dir) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(io_error("list", &dir))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(io_error("list", &dir))?;
            names.extend(entry.file_name().into_string());
        }
        names.sort();
        Ok(names)
    }

    /// Bytes of a file under `config/`.
    pub fn table(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.root().join("config").join(name);
        std::fs::read(&path).map_err(io_error("read", &path))
    }

    /// Names in the log, queue and index directories that mean nothing there.
    pub fn strays(&self) -> Result<Vec<PathBuf>, Error> {
        let mut strays = segments::list(&self.config.commit_log_dir())?.strays;
        let queues = self.config.consume_queue_dir();
        let (names, more) = list_queues(&queues)?;
        strays.extend(more);
        for name in names {
            strays.extend(segments::list(&queue_dir(&queues, &name.topic, name.queue_id))?.strays);
        }
        strays.extend(list_index(&self.config.index_dir())?.1);
        Ok(strays)
    }
}

fn segment_size(files: &[SegmentFile], configured: u64) -> u64 {
    files
        .first()
        .map(|file| file.len)
        .filter(|len| *len > 0)
        .unwrap_or(configured)
}

/// The directory of a queue.
pub(super) fn queue_dir(queues: &Path, topic: &str, queue_id: i32) -> PathBuf {
    queues.join(topic).join(queue_id.to_string())
}

/// All queue directories, and what else lies among them.
pub(super) fn list_queues(dir: &Path) -> Result<(Vec<QueueName>, Vec<PathBuf>), Error> {
    let (mut queues, mut strays) = (Vec::new(), Vec::new());
    for (topic, topic_dir, is_dir) in names(dir)? {
        if !is_dir {
            strays.push(topic_dir);
            continue;
        }
        for (number, path, is_dir) in names(&topic_dir)? {
            match number.parse::<i32>() {
                Ok(queue_id) if is_dir && queue_id >= 0 && number == queue_id.to_string() => {
                    queues.push(QueueName {
                        topic: topic.clone(),
                        queue_id,
                    });
                }
                _ => strays.push(path),
            }
        }
    }
    Ok((queues, strays))
}

/// Index files by number, and what else lies among them.
pub(super) fn list_index(dir: &Path) -> Result<(Vec<PathBuf>, Vec<PathBuf>), Error> {
    let (mut files, mut strays) = (Vec::new(), Vec::new());
    for (name, path, is_dir) in names(dir)? {
        match file_name::parse_index(&name) {
            Some(number) if !is_dir => files.push((number, path)),
            _ => strays.push(path),
        }
    }
    files.sort();
    Ok((files.into_iter().map(|(_, path)| path).collect(), strays))
}

/// Name, path and whether it is a directory, of all that is in a directory; a missing one is empty.
fn names(dir: &Path) -> Result<Vec<(String, PathBuf, bool)>, Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(io_error("list", dir))?,
    };
    entries
        .map(|entry| {
            let entry = entry.map_err(io_error("list", dir))?;
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_dir = std::fs::metadata(&path).is_ok_and(|meta| meta.is_dir());
            Ok((name, path, is_dir))
        })
        .collect()
}
