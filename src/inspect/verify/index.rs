//! The index by itself: headers, links, items that lead outside the log; and, after the log was read, what its items
//! lead to.

use std::collections::BTreeMap;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use super::items::{Compared, ItemRun, MOST_RUNS, Missing, Runs, Wrong};
use super::throttle::Throttle;
use super::{Depth, Finding, Pass, Progress, Severity, Stop, is_unfinished};
use crate::inspect::commit_log::Log;
use crate::inspect::index::{FileWalk, Index};
use crate::inspect::{Error, io_error};
use crate::store::format::index::{ITEM_LEN, SLOT_LEN, Shape};

/// Slots whose heads are in memory at a time, for each of two threads: 20 MiB. A file of default size has fewer.
const MOST_SLOTS: u32 = 5 * 1024 * 1024;
/// Files looked at together.
const THREADS: usize = 2;
/// Items between two looks at throttle and cancellation.
const STRIDE: u64 = 64 * 1024;
/// Pause between two reports of the progress.
const TICK: Duration = Duration::from_millis(2);

/// What one file holds.
#[derive(Debug, Default)]
struct Scan {
    items: u64,
    /// Number, what is there, what should be there: the first, and how many.
    broken: Option<(u32, i32, i32)>,
    broken_count: u64,
    slots_behind_count: u64,
    negative: Wrong,
    beyond: Wrong,
    runs: Vec<ItemRun>,
    is_disordered: bool,
}

/// Checks files by themselves; returns their items as runs for the comparison with the log.
pub(super) fn check(pass: &mut Pass<'_>, index: &Index) -> Result<Runs, Stop> {
    for file in index.files() {
        header(pass, file)?;
    }
    let mut runs = Runs {
        is_whole: index.files().iter().all(|file| file.shape().is_some()),
        reach: i64::MIN,
        ..Runs::default()
    };
    if pass.depth == Depth::Quick {
        return Ok(runs);
    }
    let total: u64 = index.files().iter().map(FileWalk::len).sum();
    for (n, scan) in scan_all(pass, index, total)? {
        let Some(file) = index.files().get(n) else {
            continue;
        };
        pass.report.items += scan.items;
        report(pass, file, &scan)?;
        runs.reach = scan
            .runs
            .iter()
            .map(|run| run.offsets.1)
            .fold(runs.reach, i64::max);
        if scan.is_disordered || runs.list.len() + scan.runs.len() > MOST_RUNS {
            runs.is_whole = false;
            let what = format!(
                "its items are not in the order of the log; {} of them are not compared with it",
                scan.items
            );
            pass.find(finding(
                file,
                Severity::Warning,
                "index-disorder",
                what,
                "queries by key may find less than was sent",
            ))?;
        } else {
            runs.list.extend(scan.runs);
        }
    }
    pass.at("index", total, total)?;
    Ok(runs)
}

/// Scans the files, two at a time.
fn scan_all(pass: &mut Pass<'_>, index: &Index, total: u64) -> Result<BTreeMap<usize, Scan>, Stop> {
    let files: Vec<(usize, &FileWalk, Shape)> = index
        .files()
        .iter()
        .enumerate()
        .filter_map(|(n, file)| Some((n, file, file.shape()?)))
        .collect();
    let threads = pass.threads(files.len()).min(THREADS);
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let results: Mutex<BTreeMap<usize, Result<Scan, Error>>> = Mutex::default();
    let log_end = i64::try_from(pass.info.log_end).unwrap_or(i64::MAX);
    let (throttle, cancelled) = (&pass.throttle, &pass.cancelled);
    let progress = &mut pass.progress;
    let work = || {
        while let Some(&(n, file, shape)) = files.get(next.fetch_add(1, Ordering::Relaxed)) {
            let scanner = Scanner {
                file,
                number: n,
                shape,
                log_end,
                throttle,
                cancelled,
                done: &done,
            };
            let scan = scanner.scan();
            let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
            results.insert(n, scan);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        while threads.iter().any(|thread| !thread.is_finished()) {
            std::thread::park_timeout(TICK);
            let goes_on = progress(Progress {
                pass: "index",
                done: done.load(Ordering::Relaxed).min(total),
                total,
            });
            if !goes_on {
                cancelled.store(true, Ordering::Relaxed);
            }
        }
    });
    if cancelled.load(Ordering::Relaxed) {
        return Err(Stop::Asked);
    }
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results
        .into_iter()
        .map(|(n, scan)| Ok((n, scan?)))
        .collect::<Result<_, Error>>()
        .map_err(Stop::Failed)
}

struct Scanner<'a> {
    file: &'a FileWalk,
    number: usize,
    shape: Shape,
    log_end: i64,
    throttle: &'a Throttle,
    cancelled: &'a AtomicBool,
    done: &'a AtomicU64,
}

impl Scanner<'_> {
    fn scan(&self) -> Result<Scan, Error> {
        let mut scan = Scan::default();
        let mut from = 0;
        while from < self.shape.slots && !self.cancelled.load(Ordering::Relaxed) {
            let to = from.saturating_add(MOST_SLOTS).min(self.shape.slots);
            self.part(from, to, &mut scan)?;
            from = to;
        }
        Ok(scan)
    }

    fn took(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
        self.throttle.took(bytes, self.cancelled);
    }

    /// Checks the links of the slots `from..to`; with the first of them, all that concerns items alone.
    fn part(&self, from: u32, to: u32, scan: &mut Scan) -> Result<(), Error> {
        let mut heads = vec![0i32; (to - from) as usize];
        let is_first = from == 0;
        self.file.items(|n, item| {
            if let Some(head) = self
                .shape
                .slot_of(item.hash)
                .checked_sub(from)
                .and_then(|slot| heads.get_mut(slot as usize))
            {
                if item.previous != *head {
                    scan.broken_count += 1;
                    scan.broken
                        .get_or_insert((n.unsigned_abs(), item.previous, *head));
                }
                *head = n;
            }
            if is_first {
                scan.items += 1;
                self.place(scan, n, item.offset);
            }
            let n = u64::from(n.unsigned_abs());
            if n % STRIDE == 0 {
                self.took(if is_first { STRIDE * ITEM_LEN as u64 } else { 0 });
            }
            !self.cancelled.load(Ordering::Relaxed)
        })?;
        let failed = |e| io_error("read", self.file.path())(e);
        let mut handle = self.file.handle();
        handle
            .seek(SeekFrom::Start(self.shape.slot_at(from) as u64))
            .map_err(failed)?;
        let mut reader = BufReader::with_capacity(256 * 1024, handle);
        for (n, &head) in (0u64..).zip(&heads) {
            let mut word = [0; SLOT_LEN];
            reader.read_exact(&mut word).map_err(failed)?;
            let found = i32::from_be_bytes(word);
            if found >= self.file.header().count {
                scan.slots_behind_count += 1;
            } else if found != head {
                scan.broken_count += 1;
                scan.broken.get_or_insert((head.unsigned_abs(), found, head));
            }
            if n % STRIDE == 0 {
                self.took(STRIDE.min(heads.len() as u64) * SLOT_LEN as u64);
            }
        }
        Ok(())
    }

    /// Notes where an item leads.
    fn place(&self, scan: &mut Scan, n: i32, offset: i64) {
        if offset < 0 {
            scan.negative.add(n, offset);
        } else if offset >= self.log_end {
            scan.beyond.add(n, offset);
        }
        let crowded = scan.runs.len() >= MOST_RUNS;
        match scan.runs.last_mut() {
            Some(run) if run.offsets.1 <= offset => {
                run.end = n.saturating_add(1);
                run.offsets.1 = offset;
            }
            _ if crowded => scan.is_disordered = true,
            _ => scan.runs.push(ItemRun {
                file: self.number,
                first: n,
                end: n.saturating_add(1),
                offsets: (offset, offset),
            }),
        }
    }
}

fn finding(file: &FileWalk, severity: Severity, code: &'static str, what: String, meaning: &str) -> Finding {
    Finding {
        severity,
        code,
        subject: "index".into(),
        file: Some(file.path().to_owned()),
        offset: None,
        len: None,
        what,
        meaning: meaning.into(),
    }
}

fn header(pass: &mut Pass<'_>, file: &FileWalk) -> Result<(), Stop> {
    let header = file.header();
    if file.shape().is_none() {
        let what = format!("{} bytes do not tell how many slots and items it has", file.len());
        return pass.find(finding(
            file,
            Severity::Warning,
            "index-shape",
            what,
            "it cannot be checked; a broker refuses it unless its configuration has the same sizes",
        ));
    }
    let backwards = header.begin_timestamp > header.end_timestamp || header.begin_offset > header.end_offset;
    if backwards && !file.is_empty() {
        pass.find(finding(
            file,
            Severity::Error,
            "index-header",
            format!(
                "begins at {} / {} ms and ends before, at {} / {} ms",
                header.begin_offset, header.begin_timestamp, header.end_offset, header.end_timestamp
            ),
            "queries by key pass over the file",
        ))?;
    }
    let end = i64::try_from(pass.info.log_end).unwrap_or(i64::MAX);
    if header.end_offset >= end && !file.is_empty() && !pass.store.is_live() {
        pass.find(finding(
            file,
            Severity::Warning,
            "index-beyond-log",
            format!("reaches to {}, the log ends at {end}", header.end_offset),
            "new records are not indexed until the log has grown past that",
        ))?;
    }
    Ok(())
}

fn report(pass: &mut Pass<'_>, file: &FileWalk, scan: &Scan) -> Result<(), Stop> {
    if let Some((n, found, expected)) = scan.broken {
        let what = format!(
            "{} links lead elsewhere than the items before call for; first at item {n}: {found} instead of {expected}",
            scan.broken_count
        );
        let severity = if is_unfinished(pass.info) {
            Severity::Warning
        } else {
            Severity::Error
        };
        pass.find(Finding {
            offset: Some(u64::from(n)),
            len: Some(scan.broken_count),
            ..finding(file, severity, "index-links", what, "queries by key miss records")
        })?;
    }
    if scan.slots_behind_count > 0 && !pass.store.is_live() {
        let what = format!(
            "{} slots lead to items behind the count of {}",
            scan.slots_behind_count,
            file.header().count
        );
        let meaning = "the header was not written back before a crash; a Java broker drops such a file at its next start";
        pass.find(finding(file, Severity::Warning, "index-count", what, meaning))?;
    }
    few(
        pass,
        file,
        &scan.negative,
        "index-no-record",
        "lead to no valid record",
        ": negative offset",
        "queries by these keys find less than was sent",
    )?;
    // A running broker goes on indexing behind the end that was seen at the start.
    if pass.store.is_live() {
        return Ok(());
    }
    few(
        pass,
        file,
        &scan.beyond,
        "index-item-beyond-log",
        "lead behind the end of the log",
        "",
        "queries by these keys find less than was sent",
    )
}

fn few(
    pass: &mut Pass<'_>,
    file: &FileWalk,
    wrong: &Wrong,
    code: &'static str,
    what: &str,
    why: &str,
    meaning: &str,
) -> Result<(), Stop> {
    let Some((n, offset)) = wrong.first else {
        return Ok(());
    };
    let what = format!(
        "{} items {what}; first is item {n} for {offset}{why}",
        wrong.count
    );
    pass.find(Finding {
        offset: Some(u64::from(n.unsigned_abs())),
        len: Some(wrong.count),
        ..finding(file, Severity::Warning, code, what, meaning)
    })
}

/// Tells how items and records compared.
pub(super) fn compared(
    pass: &mut Pass<'_>,
    index: &Index,
    log: &Log,
    compared: &Compared,
) -> Result<(), Stop> {
    for (&n, (gone, other)) in &compared.wrong {
        let Some(file) = index.files().get(n) else {
            continue;
        };
        let why = match gone
            .first
            .and_then(|(_, at)| log.record(u64::try_from(at).ok()?, false).err())
        {
            Some(kind) => format!(": {kind}"),
            None => String::new(),
        };
        few(
            pass,
            file,
            gone,
            "index-no-record",
            "lead to no valid record",
            &why,
            "queries by these keys find less than was sent",
        )?;
        let hash = |(n, _)| Some(file.item(file.shape()?, n)?.hash);
        let why = other.first.and_then(hash).map_or_else(String::new, |hash| {
            format!(": the record has no key with hash {hash}")
        });
        few(
            pass,
            file,
            other,
            "index-other-record",
            "lead to a record with other keys",
            &why,
            "queries by key return records that do not have the key",
        )?;
    }
    let meaning = "queries by these keys do not find the messages; consumers get them all the same";
    missing(
        pass,
        log,
        &compared.missing.0,
        "before the end of the index",
        meaning,
    )?;
    if pass.store.is_live() {
        return Ok(());
    }
    let meaning = if is_unfinished(pass.info) {
        "not indexed before the crash; the next start adds them"
    } else {
        meaning
    };
    missing(
        pass,
        log,
        &compared.missing.1,
        "behind the end of the index",
        meaning,
    )
}

fn missing(
    pass: &mut Pass<'_>,
    log: &Log,
    missing: &Missing,
    place: &str,
    meaning: &str,
) -> Result<(), Stop> {
    let Some((at, key)) = &missing.first else {
        return Ok(());
    };
    pass.find(Finding {
        severity: Severity::Warning,
        code: "not-indexed",
        subject: "index".into(),
        file: log.file_of(*at).map(|file| file.path.clone()),
        offset: Some(*at),
        len: Some(missing.count),
        what: format!(
            "{} keys of records {place} are not in it; first is {key} of the record at {at}",
            missing.count
        ),
        meaning: meaning.into(),
    })
}
