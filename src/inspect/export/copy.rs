//! A store of its own out of chosen records: commit log, queues, index, checkpoint and tables, as after a clean stop.
//!
//! Records keep queue offset, store time and everything else; only their physical offset changes, and with it the
//! checksum in `__CRC32#`. The log begins at the second segment. Where a queue misses records in its middle, the later ones move up, since no queue can have
//! a hole that consumers get over.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::tables;
use crate::inspect::consume_queue::QueueKind;
use crate::inspect::{Error, Store, io_error};
use crate::protocol::message::{BLANK_LEN, MAGIC_BLANK, MessageView};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::names;
use crate::store::StoreConfig;
use crate::store::cursor::Record;
use crate::store::format::checkpoint::Checkpoint;
use crate::store::format::file_name;
use crate::store::format::index::Shape;
use crate::store::reader::QueueName;
use crate::store::rebuild::{self, Parts, Rebuild};

/// Positions of words in a record.
const QUEUE_OFFSET: usize = 20;
const PHYSICAL_OFFSET: usize = 28;
/// Bytes of the property `__CRC32#`: name, 0x01, ten digits, 0x02.
const CRC_LEN: usize = 20;

/// Java's `mapperFileSizeBatchConsumeQueue`.
const BATCH_SEGMENT: u64 = 13_800_000;

/// Sizes of the files of a new store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Bytes of a commit log segment.
    pub log_segment: u64,
    /// Bytes of a consume queue segment.
    pub queue_segment: u64,
    /// Bytes of a batch queue segment.
    pub batch_segment: u64,
    /// Slots and items of an index file.
    pub index: Shape,
}

impl Target {
    /// The sizes that another store has; Java's defaults for what it does not tell.
    pub fn like(store: &Store) -> Result<Self, Error> {
        let usual = StoreConfig::default();
        let log = store.log()?;
        let mut target = Self {
            log_segment: if log.files().next().is_some() {
                log.segment_size()
            } else {
                usual.mapped_file_size_commit_log
            },
            queue_segment: usual.consume_queue_segment(),
            batch_segment: BATCH_SEGMENT,
            index: usual.index_shape(),
        };
        let (mut has_simple, mut has_batch) = (false, false);
        if !store.is_rocks_db() {
            for (name, kind) in store.queues()? {
                let known = match kind {
                    QueueKind::Simple => &mut has_simple,
                    QueueKind::Batch => &mut has_batch,
                };
                if *known {
                    continue;
                }
                let queue = store.queue(name, kind)?;
                let Some(len) = queue.files().map(|file| file.len).max().filter(|&len| len > 0) else {
                    continue;
                };
                *known = true;
                match kind {
                    QueueKind::Simple => target.queue_segment = len,
                    QueueKind::Batch => target.batch_segment = len,
                }
            }
        }
        if let Some(shape) = store
            .index()?
            .files()
            .iter()
            .find_map(super::super::FileWalk::shape)
        {
            target.index = shape;
        }
        Ok(target)
    }

    /// The configuration of a broker for a store of these sizes.
    pub fn config(&self, root: &Path) -> StoreConfig {
        StoreConfig {
            store_path_root_dir: root.to_owned(),
            mapped_file_size_commit_log: self.log_segment,
            mapped_file_size_consume_queue: self.queue_segment,
            max_hash_slot_num: self.index.slots,
            max_index_num: self.index.items,
            ..StoreConfig::default()
        }
    }

    /// Keys that a broker needs because they differ from Java's defaults.
    pub fn keys(&self) -> Vec<(&'static str, u64)> {
        let usual = StoreConfig::default();
        [
            (
                "mappedFileSizeCommitLog",
                self.log_segment,
                usual.mapped_file_size_commit_log,
            ),
            (
                "mappedFileSizeConsumeQueue",
                self.queue_segment,
                usual.consume_queue_segment(),
            ),
            (
                // Spelled so by Java.
                "mapperFileSizeBatchConsumeQueue",
                self.batch_segment,
                BATCH_SEGMENT,
            ),
            (
                "maxHashSlotNum",
                self.index.slots.into(),
                usual.max_hash_slot_num.into(),
            ),
            ("maxIndexNum", self.index.items.into(), usual.max_index_num.into()),
        ]
        .into_iter()
        .filter(|(_, value, usual)| value != usual)
        .map(|(key, value, _)| (key, value))
        .collect()
    }
}

/// What a copy has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Records.
    pub records: u64,
    /// End of its log.
    pub log_end: u64,
    /// Queues, with the offset behind the last entry.
    pub queues: Vec<(QueueName, i64)>,
    /// Files of the index.
    pub index_files: usize,
    /// Topics in its table.
    pub topics: usize,
    /// Queues in which later records moved up, and by how many places in all.
    pub moved: Vec<(QueueName, i64)>,
}

/// How a queue is numbered in the copy.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    next: i64,
    /// From this queue offset of the source on, offsets are lowered by so many.
    pub(super) lowered: BTreeMap<i64, i64>,
}

/// A store in the making.
#[derive(Debug)]
pub struct StoreCopy {
    root: PathBuf,
    target: Target,
    rebuild: Rebuild,
    out: Option<(BufWriter<File>, u64)>,
    at: u64,
    records: u64,
    last: Option<(u64, i64)>,
    numbers: HashMap<QueueName, Numbers>,
}

impl StoreCopy {
    /// Begins a store in a directory that is not there yet or has nothing in it.
    pub fn create(root: &Path, target: Target, light: HashSet<String>) -> Result<Self, Error> {
        match std::fs::read_dir(root) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::InUse {
                        path: root.to_owned(),
                    });
                }
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                std::fs::create_dir_all(root).map_err(io_error("create", root))?;
            }
            Err(e) => return Err(io_error("list", root)(e)),
        }
        let log_dir = root.join("commitlog");
        std::fs::create_dir(&log_dir).map_err(io_error("create", &log_dir))?;
        Ok(Self {
            root: root.to_owned(),
            rebuild: Rebuild::new(&target.config(root), target.batch_segment, light, None)?,
            // Not at 0: a Java broker takes the blanks before a queue's first entry for records at 0, if there are
            // any, and then skips what follows in that file.
            at: target.log_segment,
            target,
            out: None,
            records: 0,
            last: None,
            numbers: HashMap::new(),
        })
    }

    /// Adds a record.
    pub fn push(&mut self, record: &Record, view: &MessageView<'_>) -> Result<(), Error> {
        let size = self.target.log_segment;
        let len = view.size() as u64;
        if len + BLANK_LEN as u64 > size {
            return Err(Error::Segment { len, size });
        }
        let left = size - self.at % size;
        if len + BLANK_LEN as u64 > left {
            self.fill(left)?;
        }
        let mut bytes = record.bytes.to_vec();
        let offset = self.number(view);
        bytes[QUEUE_OFFSET..QUEUE_OFFSET + 8].copy_from_slice(&offset.to_be_bytes());
        let at = i64::try_from(self.at).unwrap_or(i64::MAX);
        bytes[PHYSICAL_OFFSET..PHYSICAL_OFFSET + 8].copy_from_slice(&at.to_be_bytes());
        renew_crc(&mut bytes);
        self.write(&bytes)?;
        let copied = MessageView::parse(&bytes).map_err(|fault| Error::Copy {
            at: record.at,
            reason: fault.to_string(),
        })?;
        self.rebuild.add(
            &copied,
            Parts {
                queue: true,
                index: true,
            },
        )?;
        self.rebuild.add_light(&copied)?;
        self.last = Some((self.at, copied.store_timestamp()));
        self.at += len;
        self.records += 1;
        Ok(())
    }

    /// The queue offset of a record in the copy.
    fn number(&mut self, view: &MessageView<'_>) -> i64 {
        let offset = view.queue_offset();
        let has_entry = !matches!(
            view.sys_flag().transaction(),
            SysFlag::TRANSACTION_PREPARED | SysFlag::TRANSACTION_ROLLBACK
        );
        // The offsets of a batch stand in its properties too, and its queue gets over holes.
        if !has_entry || offset < 0 || view.sys_flag().has(SysFlag::INNER_BATCH) {
            return offset;
        }
        let name = QueueName {
            topic: view.topic().to_owned(),
            queue_id: view.queue_id(),
        };
        let numbers = self.numbers.entry(name).or_insert_with(|| Numbers {
            next: offset,
            lowered: BTreeMap::new(),
        });
        let new = numbers.next;
        let lowered = numbers.lowered.values().next_back().copied().unwrap_or(0);
        if offset - new != lowered {
            numbers.lowered.insert(offset, offset - new);
        }
        numbers.next = new + 1;
        new
    }

    fn fill(&mut self, left: u64) -> Result<(), Error> {
        let mut blank = [0; BLANK_LEN];
        blank[..4].copy_from_slice(&u32::try_from(left).unwrap_or(u32::MAX).to_be_bytes());
        blank[4..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
        self.write(&blank)?;
        self.at += left;
        Ok(())
    }

    fn path(&self, base: u64) -> PathBuf {
        self.root.join("commitlog").join(file_name::segment(base))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let base = self.at - self.at % self.target.log_segment;
        let path = self.path(base);
        if self.out.as_ref().is_none_or(|(_, open)| *open != base) {
            self.close()?;
            let file = rebuild::create_segment(&path, self.target.log_segment)?;
            let mut out = BufWriter::with_capacity(1 << 20, file);
            out.seek(SeekFrom::Start(self.at - base))
                .map_err(io_error("seek in", &path))?;
            self.out = Some((out, base));
        }
        if let Some((out, _)) = &mut self.out {
            out.write_all(bytes).map_err(io_error("write", &path))?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        let Some((mut out, base)) = self.out.take() else {
            return Ok(());
        };
        out.flush()
            .and_then(|()| out.get_ref().sync_data())
            .map_err(io_error("flush", &self.path(base)))
    }

    /// Takes back the directories of a store without records.
    pub fn abandon(self) {
        // What is not empty was not made here and stays.
        let _ = std::fs::remove_dir(self.root.join("commitlog"));
        let _ = std::fs::remove_dir(&self.root);
    }

    /// Completes the store with what the tables of `source` say of its topics.
    pub fn finish(mut self, source: &Store, has_topic: impl Fn(&str) -> bool) -> Result<Copied, Error> {
        self.close()?;
        let made = self.rebuild.finish()?;
        let ends = made.queues.iter().cloned().collect();
        let config = self.root.join("config");
        let topics = tables::copy(source, &config, &has_topic, &self.numbers, &ends)?;
        let (last, newest_ms) = self.last.unwrap_or((0, 0));
        let values = Checkpoint {
            physic_msg_timestamp: newest_ms,
            logics_msg_timestamp: newest_ms,
            index_msg_timestamp: made.indexed_ms,
            master_flushed_offset: 0,
            confirm_phy_offset: i64::try_from(last).unwrap_or(i64::MAX),
        };
        rebuild::write_checkpoint(&self.root.join("checkpoint"), &values)?;
        rebuild::sync_dir(&self.root.join("commitlog"))?;
        rebuild::sync_dir(&self.root)?;
        let mut moved: Vec<(QueueName, i64)> = self
            .numbers
            .into_iter()
            .filter_map(|(name, numbers)| {
                let lowered = numbers.lowered.values().next_back().copied()?;
                Some((name, lowered))
            })
            .collect();
        moved.sort();
        Ok(Copied {
            records: self.records,
            log_end: self.at,
            queues: made.queues,
            index_files: made.index_files,
            topics,
            moved,
        })
    }
}

/// Computes the checksum property of a record anew, where it has one: its digits run from the least to the most
/// significant.
fn renew_crc(bytes: &mut [u8]) {
    let Some(from) = bytes.len().checked_sub(CRC_LEN) else {
        return;
    };
    let (head, tail) = bytes.split_at_mut(from);
    let name = names::CRC32.as_bytes();
    if tail.get(..name.len()) != Some(name) || tail.get(name.len()) != Some(&1) || tail.last() != Some(&2) {
        return;
    }
    let mut crc = crc32fast::hash(head) & 0x7FFF_FFFF;
    for digit in &mut tail[name.len() + 1..CRC_LEN - 1] {
        *digit = b'0' + (crc % 10) as u8;
        crc /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_property_has_its_digits_backwards() {
        // CRC-32 of "123456789" is 0xCBF43926; without the highest bit that is 1274296614.
        let mut bytes = b"123456789__CRC32#\x010000000000\x02".to_vec();
        renew_crc(&mut bytes);
        assert_eq!(&bytes[9..], b"__CRC32#\x014166924721\x02");
        let mut other = b"123456789".to_vec();
        renew_crc(&mut other);
        assert_eq!(other, b"123456789");
    }
}
