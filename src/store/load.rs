//! Looks over a store directory before anything in it is touched: kind of store, sizes of files, names that do not
//! belong there.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::build::LIGHT_QUEUE_PREFIX;
use super::consume_queue::Recovered;
use super::cursor::QueueCursor;
use super::disk::{self, io_error};
use super::format::consume_queue::{Entry, LEN};
use super::format::file_name;
use super::format::index::HEADER_LEN;
use super::index::IndexFile;
use super::reader::{QueueName, list_index, list_queues, queue_dir};
use super::salvage::{keep_aside, record_of};
use super::segments::{self, Listing, LogBytes, SegmentFile, Segments};
use super::stopped::{Stopped, StoppedQueue};
use super::{Error, StoreConfig, tables};

/// Segment sizes are multiples of this in every store that was configured by a person.
const PAGE: u64 = 4096;

/// Refuses stores of a kind that this broker cannot read.
pub fn check_kind(config: &StoreConfig) -> Result<(), Error> {
    let rocks = config.consume_queue_dir().join("CURRENT");
    if rocks.exists() {
        return Err(Error::Unsupported {
            path: rocks,
            reason: "a store with RocksDB queues (storeType=defaultRocksDB)".into(),
        });
    }
    let log = config.commit_log_dir();
    if log.to_string_lossy().contains(',') {
        return Err(Error::Unsupported {
            path: log,
            reason: "storePathCommitLog with more than one directory".into(),
        });
    }
    Ok(())
}

fn warn_of_strays(strays: &[std::path::PathBuf]) {
    for stray in strays {
        tracing::warn!("{}: not a file of the store, ignored", stray.display());
    }
}

/// Checks the lengths of a run of segments. A last file that is empty is deleted, one that is too short is extended
/// where it certainly was cut; anything else is an error that names the config key. `right_size_seen` tells that
/// other files of the store prove the size to be right.
fn check_lengths(
    listing: Listing,
    size: u64,
    unit: u64,
    key: &'static str,
    right_size_seen: bool,
) -> Result<Vec<SegmentFile>, Error> {
    let mut files = listing.files;
    if files.last().is_some_and(|last| last.len == 0)
        && let Some(last) = files.pop()
    {
        tracing::warn!("{}: empty, deleted", last.path.display());
        disk::remove_file(&last.path)?;
    }
    let count = files.len();
    for (n, file) in files.iter_mut().enumerate() {
        let wrong_size = Error::Size {
            path: file.path.clone(),
            found: file.len,
            expected: size,
            key,
        };
        if file.base % size != 0 || file.len > size {
            return Err(wrong_size);
        }
        if file.len < size {
            let was_cut = count > 1 || right_size_seen || file.len % unit != 0;
            if n + 1 < count || !was_cut {
                return Err(wrong_size);
            }
            tracing::warn!(
                "{}: {} bytes instead of {size}, extended; what was cut off is lost",
                file.path.display(),
                file.len
            );
            segments::open_rw(&file.path)?
                .set_len(size)
                .map_err(io_error("extend", &file.path))?;
            file.len = size;
        }
    }
    Ok(files)
}

/// The files of the commit log.
pub fn commit_log(config: &StoreConfig) -> Result<Vec<SegmentFile>, Error> {
    let listing = segments::list(&config.commit_log_dir())?;
    warn_of_strays(&listing.strays);
    let size = config.mapped_file_size_commit_log;
    check_lengths(listing, size, PAGE, "mappedFileSizeCommitLog", false)
}

/// A queue as its files tell.
#[derive(Debug)]
pub struct LoadedQueue {
    /// Topic and number.
    pub name: QueueName,
    /// Its files.
    pub files: Vec<SegmentFile>,
    /// Its state.
    pub state: Recovered,
    /// Its last entry that points to a record.
    pub last: Option<Entry>,
    /// It is as the last clean stop left it.
    pub intact: bool,
    /// Its files had lengths that they cannot have and were moved away: all of it is to be made again, and queue
    /// offsets below this were given.
    pub remade: Option<i64>,
}

/// All queues. Their files are checked but not changed, apart from [`check_lengths`] and those of a length that they
/// cannot have: these are moved away, after `before_moving`, once it is sure that no other queue stops the start.
pub fn queues(
    config: &StoreConfig,
    abnormal: bool,
    stopped: Option<&Stopped>,
    log: &Segments,
    before_moving: impl FnOnce() -> Result<(), Error>,
) -> Result<Vec<LoadedQueue>, Error> {
    let dir = config.consume_queue_dir();
    let size = config.consume_queue_segment();
    let (names, strays) = list_queues(&dir)?;
    warn_of_strays(&strays);
    let mut listings = Vec::with_capacity(names.len());
    let mut right_size_seen = false;
    for name in names {
        let listing = segments::list(&queue_dir(&dir, &name.topic, name.queue_id))?;
        warn_of_strays(&listing.strays);
        right_size_seen |= listing.files.iter().any(|file| file.len == size);
        listings.push((name, listing));
    }
    let (mut whole, mut wrong) = (Vec::with_capacity(listings.len()), Vec::new());
    for (name, listing) in listings {
        let unit = LEN as u64;
        let found = listing.files.clone();
        match check_lengths(listing, size, unit, "mappedFileSizeConsumeQueue", right_size_seen) {
            // Other files tell that the configured size is right, or no configuration has this one; and the log has what
            // the entries were made of.
            Err(Error::Size { path, found: len, .. })
                if (right_size_seen || len == 0 || len % unit != 0)
                    && !name.topic.starts_with(LIGHT_QUEUE_PREFIX)
                    && found.iter().all(|file| file.base % size == 0) =>
            {
                wrong.push((name, found, path, len));
            }
            checked => whole.push((name, checked?)),
        }
    }
    let mut loaded = Vec::with_capacity(whole.len() + wrong.len());
    if !wrong.is_empty() {
        before_moving()?;
    }
    for (name, files, path, len) in wrong {
        loaded.push(set_aside(config, name, files, (&path, len))?);
    }
    let whole = whole
        .into_iter()
        .map(|(name, files)| {
            let was = stopped.and_then(|stopped| stopped.queues.get(&name));
            if let Some(was) = was
                && let Some((state, last)) = as_stopped(&files, size, was)
            {
                return Ok(LoadedQueue {
                    name,
                    files,
                    state,
                    last,
                    intact: true,
                    remade: None,
                });
            }
            let (mut state, mut last) = scan(&files, size, abnormal)?;
            drop_wrong_tail(&name, &files, size, log, &mut state, &mut last);
            Ok(LoadedQueue {
                name,
                files,
                state,
                last,
                intact: false,
                remade: None,
            })
        })
        .collect::<Result<Vec<_>, Error>>()?;
    loaded.extend(whole);
    Ok(loaded)
}

/// Moves the files of a queue to `lost/`, because one of them has a length that it cannot have.
fn set_aside(
    config: &StoreConfig,
    name: QueueName,
    files: Vec<SegmentFile>,
    (wrong, len): (&Path, u64),
) -> Result<LoadedQueue, Error> {
    let size = config.consume_queue_segment();
    let next = next_offset(&files, size);
    let mut kept = None;
    for file in files.iter().filter(|file| file.path.exists()) {
        kept = Some(keep_aside(&config.store_path_root_dir, &file.path)?);
    }
    tracing::error!(
        "{}: {len} bytes instead of {size}; consume queue {}@{} is made again from the log, its files are kept in {}",
        wrong.display(),
        name.topic,
        name.queue_id,
        kept.as_deref().and_then(Path::parent).unwrap_or(wrong).display()
    );
    Ok(LoadedQueue {
        name,
        files: Vec::new(),
        state: Recovered::default(),
        last: None,
        intact: false,
        remade: Some(next),
    })
}

/// The queue offset behind the last entry in files of whatever length.
fn next_offset(files: &[SegmentFile], size: u64) -> i64 {
    let end = files.iter().rev().find_map(|file| {
        let segments = Segments::new(vec![file.clone()], size, true);
        let first = file.base / LEN as u64;
        let mut cursor = QueueCursor::new(&segments, first);
        cursor.skip_written(|_| {});
        let end = cursor.position().min((file.base + size) / LEN as u64);
        (end > first).then_some(end)
    });
    let first = files.first().map_or(0, |file| file.base / LEN as u64);
    i64::try_from(end.unwrap_or(first)).unwrap_or(0)
}

/// The state of a queue whose files and last entry are as the last clean stop left them.
fn as_stopped(files: &[SegmentFile], size: u64, was: &StoppedQueue) -> Option<(Recovered, Option<Entry>)> {
    let (first, last) = (files.first()?, files.last()?);
    let end = u64::try_from(was.max).ok()?.checked_mul(LEN as u64)?;
    let is_whole = u64::try_from(was.first).ok()? * LEN as u64 == first.base
        && files.windows(2).all(|pair| pair[1].base - pair[0].base == size)
        && (last.base + 1..=last.base + size).contains(&end);
    if !is_whole {
        return None;
    }
    let segments = Segments::new(files.to_vec(), size, true);
    let mut cursor = QueueCursor::new(&segments, was.max as u64 - 1);
    let (_, entry) = cursor.next()?.ok()?;
    let goes_on = matches!(cursor.next(), Some(Ok(_)));
    if entry.is_blank() || entry.end() != was.max_physic || goes_on {
        return None;
    }
    let state = Recovered {
        bases: files.iter().map(|file| file.base).collect(),
        min: was.min,
        max: was.max,
        max_physic: was.max_physic,
        flushed: was.max,
    };
    Some((state, Some(entry)))
}

/// Takes entries off the end of a queue whose records are not in the log: what a power failure or a bad disk leaves
/// would hide all that is missing behind it.
fn drop_wrong_tail(
    name: &QueueName,
    files: &[SegmentFile],
    size: u64,
    log: &Segments,
    state: &mut Recovered,
    last: &mut Option<Entry>,
) {
    // Queues of light topics hold entries of other topics' records.
    if name.topic.starts_with(LIGHT_QUEUE_PREFIX) || log.files().next().is_none() {
        return;
    }
    let segments = Segments::new(files.to_vec(), size, true);
    let max = state.max;
    while state.max > state.min {
        let Some(Ok((_, entry))) = QueueCursor::new(&segments, state.max as u64 - 1).next() else {
            break;
        };
        if entry.is_blank() {
            // No damage looks like that: the queue lost its records and kept its number.
            if state.max < max {
                *last = (state.min..state.max).rev().find_map(|n| {
                    let found = QueueCursor::new(&segments, n as u64).next()?.ok()?;
                    (!found.1.is_blank()).then_some(found.1)
                });
            }
            break;
        }
        let (at, size) = (entry.offset, entry.size);
        let is_old = at < log.start() as i64;
        if is_old || record_of(log, (at, size), &name.topic, name.queue_id).is_some() {
            *last = Some(entry);
            break;
        }
        state.max -= 1;
        *last = None;
    }
    if state.max < max {
        state.max_physic = last.map_or(0, |entry| entry.end());
        state.flushed = state.flushed.min(state.max);
        tracing::warn!(
            "consume queue {}@{}: its last {} entries lead to no record of it; left out",
            name.topic,
            name.queue_id,
            max - state.max
        );
    }
}

/// Names of the topics that the broker knows, if its table can be read.
pub fn known_topics(root: &Path) -> Option<HashSet<String>> {
    let table: serde_json::Value = tables::load(&root.join("config/topics.json")).ok()??;
    let topics = table.get("topicConfigTable")?.as_object()?;
    Some(topics.keys().cloned().collect())
}

/// Finds the end of a queue: the first entry that was not written, looking from the third file from the end on, or
/// from an earlier one if those before lack their ends as well.
fn scan(files: &[SegmentFile], size: u64, abnormal: bool) -> Result<(Recovered, Option<Entry>), Error> {
    let Some(first) = files.first() else {
        return Ok((Recovered::default(), None));
    };
    // The last files are read, not mapped: behind their entries they are holes, and to look at a hole of a mapped file
    // takes space that a full tmpfs does not have.
    let segments = Segments::new(files.to_vec(), size, true);
    let is_whole = |file: &SegmentFile| {
        let last = (file.base + size) / LEN as u64 - 1;
        matches!(QueueCursor::new(&segments, last).next(), Some(Ok(_)))
    };
    // Behind a hole between files nothing counts: it is made again.
    let whole = 1 + files
        .windows(2)
        .take_while(|pair| pair[1].base - pair[0].base == size)
        .count();
    let files = &files[..whole];
    let mut from = files.len().saturating_sub(3);
    while from > 0 && !is_whole(&files[from - 1]) {
        segments.check(files[from - 1].base)?;
        from -= 1;
    }
    let from = &files[from];
    let mut cursor = QueueCursor::new(&segments, from.base / LEN as u64);
    let mut last = None;
    cursor.skip_written(|entry| {
        if !entry.is_blank() {
            last = Some(*entry);
        }
    });
    // A file that is there and cannot be opened does not end the queue.
    segments.check(cursor.position() * LEN as u64)?;
    let state = Recovered {
        bases: files.iter().map(|file| file.base).collect(),
        min: (first.base / LEN as u64) as i64,
        max: cursor.position() as i64,
        max_physic: last.map_or(0, |entry: Entry| entry.end()),
        flushed: if abnormal {
            // What a killed process wrote may be in the page cache only.
            (from.base / LEN as u64) as i64
        } else {
            cursor.position() as i64
        },
    };
    Ok((state, last))
}

/// The index files that can be used, oldest first, and from where on records must be indexed anew because a file was
/// damaged and is gone.
#[derive(Debug, Default)]
pub struct LoadedIndex {
    /// Files.
    pub files: Vec<Arc<IndexFile>>,
    /// Physical offset from which records are missing.
    pub missing_from: Option<i64>,
}

/// Opens the index files. After an abnormal stop, those that the checkpoint does not vouch for are looked through.
pub fn index(
    config: &StoreConfig,
    abnormal: bool,
    vouched_for: i64,
    stopped: Option<&Stopped>,
) -> Result<LoadedIndex, Error> {
    let shape = config.index_shape();
    let (paths, strays) = list_index(&config.index_dir())?;
    warn_of_strays(&strays);
    let mut lengths = BTreeMap::new();
    for path in &paths {
        let len = std::fs::metadata(path).map_err(io_error("inspect", path))?.len();
        lengths.insert(path, len);
    }
    let right_size_seen = lengths.values().any(|len| *len == shape.file_len());
    let mut loaded = LoadedIndex::default();
    let listed = stopped.map_or(&[][..], |stopped| &stopped.index);
    let as_listed = |file: &IndexFile| {
        let (number, header) = (file.number(), file.header());
        let was = listed.iter().find(|was| was.number == number);
        was.is_none_or(|was| (was.count, was.end_offset) == (header.count, header.end_offset))
    };
    // The end of what came before the first file that is missing altogether.
    let mut end_before = 0;
    for was in listed {
        if !paths.iter().any(|path| number(path) == was.number) {
            tracing::warn!("index file {} is missing; made anew from the log", was.number);
            loaded.missing_from = Some(end_before);
            break;
        }
        end_before = was.end_offset;
    }
    // Nothing was written into a full file since it was flushed; into another one anything may have been.
    let is_vouched = |file: &IndexFile| file.is_full() && file.header().end_timestamp <= vouched_for;
    for (n, path) in paths.iter().enumerate() {
        let found = lengths[path];
        let is_last = n + 1 == paths.len();
        // Less than a header is no file of any configuration.
        let was_cut = if right_size_seen {
            is_last && found < shape.file_len()
        } else {
            found < HEADER_LEN as u64
        };
        let file = if found == shape.file_len() {
            Some(IndexFile::open(path, number(path), shape)?)
        } else if was_cut {
            None
        } else if right_size_seen {
            // Others tell that the configured size is right.
            let kept = keep_aside(&config.store_path_root_dir, path)?;
            tracing::error!(
                "{}: {found} bytes instead of {}; kept as {}, the index is made anew from the log",
                path.display(),
                shape.file_len(),
                kept.display()
            );
            let from = end_of_last(&loaded);
            loaded.missing_from.get_or_insert(from);
            continue;
        } else {
            return Err(Error::Size {
                path: path.clone(),
                found,
                expected: shape.file_len(),
                key: "maxHashSlotNum and maxIndexNum",
            });
        };
        let previous_end = end_of_last(&loaded);
        match file {
            Some(file) if !as_listed(&file) => {
                tracing::warn!("{}: not as it was left, made anew from the log", path.display());
                disk::remove_file(path)?;
                let from = loaded
                    .missing_from
                    .map_or(previous_end, |from| from.min(previous_end));
                loaded.missing_from = Some(from);
            }
            Some(file) if !abnormal || is_vouched(&file) || file.is_sound() => {
                loaded.files.push(Arc::new(file));
            }
            _ => {
                tracing::warn!("{}: damaged, made anew from the log", path.display());
                disk::remove_file(path)?;
                loaded.missing_from.get_or_insert(previous_end);
            }
        }
    }
    // Files behind a damaged one would get older items after newer ones: all of them are made anew.
    if let Some(from) = loaded.missing_from {
        for file in loaded
            .files
            .extract_if(.., |file| file.header().end_offset > from)
        {
            disk::remove_file(file.path())?;
        }
    }
    Ok(loaded)
}

/// Physical offset of the newest item so far.
fn end_of_last(loaded: &LoadedIndex) -> i64 {
    loaded.files.last().map_or(0, |file| file.header().end_offset)
}

fn number(path: &Path) -> u64 {
    path.file_name()
        .and_then(|name| name.to_str())
        .and_then(file_name::parse_index)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(lengths: &[u64]) -> (tempfile::TempDir, Listing) {
        let dir = tempfile::tempdir().unwrap();
        for (n, len) in lengths.iter().enumerate() {
            let path = dir.path().join(file_name::segment(n as u64 * 8192));
            std::fs::write(path, vec![1; *len as usize]).unwrap();
        }
        let listing = segments::list(dir.path()).unwrap();
        (dir, listing)
    }

    fn check(lengths: &[u64], seen: bool) -> Result<Vec<u64>, Error> {
        let (_dir, listing) = files(lengths);
        check_lengths(listing, 8192, PAGE, "theKey", seen).map(|files| files.iter().map(|f| f.len).collect())
    }

    #[test]
    fn a_last_file_that_was_cut_is_mended() {
        assert_eq!(check(&[8192, 0], false).unwrap(), [8192]);
        assert_eq!(check(&[0], false).unwrap(), [0u64; 0]);
        for cut in [1, 4096, 8191] {
            assert_eq!(check(&[8192, cut], false).unwrap(), [8192, 8192], "{cut}");
        }
        assert_eq!(check(&[1], false).unwrap(), [8192]);
        assert_eq!(check(&[4096], true).unwrap(), [8192]);
    }

    #[test]
    fn a_queue_file_that_cannot_be_opened_does_not_end_the_queue() {
        let (dir, listing) = files(&[8192]);
        std::fs::remove_file(dir.path().join(file_name::segment(0))).unwrap();
        assert!(scan(&listing.files, 8192, false).is_err());
    }

    #[test]
    fn another_size_is_an_error_with_file_and_key() {
        for lengths in [&[4096][..], &[16_384], &[4096, 8192], &[0, 8192], &[8192, 16_384]] {
            let error = check(lengths, false).unwrap_err();
            assert!(matches!(error, Error::Size { key: "theKey", .. }), "{lengths:?}");
            assert!(error.to_string().contains("theKey says 8192"), "{error}");
        }
    }
}
