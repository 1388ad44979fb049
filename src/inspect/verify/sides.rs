//! The queue entries that go with the records of a pass, read in small windows: however many queues there are, they
//! share one budget of memory, and few files are open at once.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;

use super::Pass;
use crate::inspect::Error;
use crate::inspect::consume_queue::QueueKind;
use crate::store::format::consume_queue::{Entry, EntryView, LEN};
use crate::store::reader::QueueName;
use crate::store::segments::{self, SegmentFile};

/// Bytes of all windows of all threads.
const BUDGET: usize = 6 * 1024 * 1024;
/// Bytes of one window: from 5 to 2,048 entries.
const WINDOW: std::ops::RangeInclusive<usize> = 5 * LEN..=2048 * LEN;
/// Files that a thread keeps open.
const OPEN: usize = 64;

/// One queue.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) name: QueueName,
    pub(super) kind: QueueKind,
    /// Queue offset of its first entry whose record is there.
    pub(super) min: i64,
    files: Vec<SegmentFile>,
}

/// All queues.
#[derive(Debug)]
pub(super) struct Sides {
    list: Vec<Side>,
    topics: HashMap<String, Vec<(i32, usize)>>,
}

impl Sides {
    pub(super) fn new(pass: &Pass<'_>) -> Result<Self, Error> {
        let mut list = Vec::with_capacity(pass.info.queues.len());
        let mut topics: HashMap<String, Vec<(i32, usize)>> = HashMap::new();
        for queue in &pass.info.queues {
            let dir = pass.store.root().join("consumequeue");
            let files = match queue.kind {
                QueueKind::Simple => {
                    let number = queue.name.queue_id.to_string();
                    segments::list(&dir.join(&queue.name.topic).join(number))?.files
                }
                // Those are looked up one by one.
                QueueKind::Batch => Vec::new(),
            };
            match topics.get_mut(&queue.name.topic) {
                Some(numbers) => numbers.push((queue.name.queue_id, list.len())),
                None => {
                    let numbers = vec![(queue.name.queue_id, list.len())];
                    topics.insert(queue.name.topic.clone(), numbers);
                }
            }
            list.push(Side {
                name: queue.name.clone(),
                kind: queue.kind,
                min: queue.bounds.min_offset,
                files,
            });
        }
        for numbers in topics.values_mut() {
            numbers.sort_unstable();
        }
        Ok(Self { list, topics })
    }

    /// The numbers of a topic's queues with their places.
    pub(super) fn topic(&self, topic: &str) -> &[(i32, usize)] {
        self.topics.get(topic).map_or(&[], Vec::as_slice)
    }

    pub(super) fn get(&self, side: usize) -> &Side {
        &self.list[side]
    }

    pub(super) fn len(&self) -> usize {
        self.list.len()
    }
}

/// The place of a queue among those of its topic.
pub(super) fn of_number(numbers: &[(i32, usize)], queue_id: i32) -> Option<usize> {
    // The numbers of a topic are 0, 1, 2 and so on, nearly always.
    let guess = usize::try_from(queue_id).ok().and_then(|n| numbers.get(n));
    match guess {
        Some(&(id, side)) if id == queue_id => Some(side),
        _ => numbers
            .binary_search_by_key(&queue_id, |(id, _)| *id)
            .ok()
            .map(|n| numbers[n].1),
    }
}

/// What was read of one queue.
#[derive(Debug, Default)]
struct Window {
    at: u64,
    bytes: Vec<u8>,
}

/// The windows of one thread.
#[derive(Debug)]
pub(super) struct Windows<'a> {
    sides: &'a Sides,
    windows: Vec<Window>,
    window_len: usize,
    open: Vec<Option<(PathBuf, File)>>,
}

impl<'a> Windows<'a> {
    /// One of `threads` that share the budget.
    pub(super) fn new(sides: &'a Sides, threads: usize) -> Self {
        let share = BUDGET / threads.max(1) / sides.len().max(1);
        let window_len = share.clamp(*WINDOW.start(), *WINDOW.end());
        Self {
            sides,
            windows: (0..sides.len()).map(|_| Window::default()).collect(),
            window_len: window_len - window_len % LEN,
            open: (0..OPEN).map(|_| None).collect(),
        }
    }

    /// An entry of a queue; `None` where none was written.
    pub(super) fn entry(&mut self, side: usize, queue_offset: u64) -> Option<Entry> {
        let at = queue_offset.checked_mul(LEN as u64)?;
        let window = &self.windows[side];
        let from = at.wrapping_sub(window.at);
        let found = match usize::try_from(from) {
            Ok(from) if from < window.bytes.len() => window.bytes.get(from..)?.first_chunk()?,
            _ => {
                self.fill(side, at)?;
                self.windows[side].bytes.first_chunk()?
            }
        };
        let entry = EntryView::new(found).to_entry();
        entry.is_written().then_some(entry)
    }

    fn fill(&mut self, side: usize, at: u64) -> Option<()> {
        let window = &mut self.windows[side];
        window.bytes.clear();
        window.at = at;
        let files = &self.sides.list[side].files;
        let file = files.get(files.partition_point(|file| file.base <= at).checked_sub(1)?)?;
        let in_file = at - file.base;
        let left = file.len.checked_sub(in_file).filter(|&left| left >= LEN as u64)?;
        let len = self.window_len.min(usize::try_from(left).unwrap_or(usize::MAX));
        let open = &mut self.open[side % OPEN];
        if open.as_ref().is_none_or(|(path, _)| *path != file.path) {
            *open = Some((file.path.clone(), File::open(&file.path).ok()?));
        }
        let (_, handle) = open.as_ref()?;
        window.bytes.resize(len, 0);
        let read = segments::read_at_most(handle, &mut window.bytes, in_file).unwrap_or(0);
        window.bytes.truncate(read - read % LEN);
        Some(())
    }
}
