//! How far a pass is, in a file outside the store: one line of JSON for what the pass is of, then for each piece of
//! the log its findings and what it came to. A block without its last line was cut short and is left out.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::items::Compared;
use super::log::Merged;
use super::piece::Run;
use super::sides::Sides;
use super::{Finding, Pass, Resumable, Severity, Stop};
use crate::inspect::commit_log::Log;
use crate::inspect::{Error, Store, io_error};
use crate::store::reader::QueueName;

/// Layout of the file.
const VERSION: u32 = 1;
/// Longest line that is read.
const MOST_LINE: usize = 64 * 1024 * 1024;
/// The names of findings that a pass over the log makes.
const CODES: [&str; 8] = [
    "damaged-record",
    "record-checksum",
    "stale-records",
    "deleted-topic",
    "missing-queue",
    "missing-entry",
    "other-record",
    "entry-differs",
];

fn code(name: &str) -> Option<&'static str> {
    CODES.into_iter().find(|code| *code == name)
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    version: u32,
    store: PathBuf,
    log_start: u64,
    segment_size: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Line {
    Finding(Row),
    Done(DoneLine),
}

#[derive(Debug, Serialize, Deserialize)]
struct Row {
    severity: u8,
    code: String,
    subject: String,
    file: Option<PathBuf>,
    offset: Option<u64>,
    len: Option<u64>,
    what: String,
    meaning: String,
}

#[derive(Debug, Serialize, Deserialize)]
struct RunRow {
    topic: String,
    queue: i32,
    first: u64,
    count: u64,
    at: u64,
    what: String,
    code: String,
    is_late: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct DoneLine {
    /// Offset behind the piece.
    to: u64,
    /// When it was through, epoch ms.
    #[serde(default)]
    at_ms: Option<i64>,
    /// Records so far.
    records: u64,
    gap_end: u64,
    stale_told: bool,
    /// Checksum of names, lengths and times of the files so far.
    files: u32,
    /// Of this piece alone.
    matched: Vec<(String, i32, u64)>,
    /// So far.
    compared: Compared,
    open: Vec<RunRow>,
}

/// The lines of a piece, until it is through.
#[derive(Debug, Default)]
pub(super) struct Block {
    text: Vec<u8>,
}

impl Block {
    fn line(&mut self, line: &Line) -> std::io::Result<()> {
        serde_json::to_writer(&mut self.text, line)?;
        self.text.push(b'\n');
        Ok(())
    }

    /// Notes a finding.
    pub(super) fn finding(&mut self, finding: &Finding) {
        let row = Row {
            severity: finding.severity as u8,
            code: finding.code.to_owned(),
            subject: finding.subject.clone(),
            file: finding.file.clone(),
            offset: finding.offset,
            len: finding.len,
            what: finding.what.clone(),
            meaning: finding.meaning.clone(),
        };
        // A path that is not UTF-8 cannot be written; the finding is then told once only.
        let before = self.text.len();
        if self.line(&Line::Finding(row)).is_err() {
            self.text.truncate(before);
        }
    }
}

/// The file.
#[derive(Debug)]
pub(super) struct State {
    path: PathBuf,
    head: Head,
    /// There once the first piece is through.
    file: Option<File>,
    /// Another pass writes it: this one goes on without notes.
    is_foreign: bool,
}

/// What of a file can be taken over.
#[derive(Debug, Clone, Copy)]
struct Usable {
    /// Bytes of the file.
    len: u64,
    /// Offset of the log that they lead to.
    to: u64,
    /// When the first piece was through, epoch ms, if it was noted.
    of_ms: Option<i64>,
}

impl State {
    /// Prepares the file that the options name, and takes over what is in it if they say so.
    pub(super) fn open(pass: &mut Pass<'_>, log: &Log) -> Result<(Option<Self>, Merged), Stop> {
        let Some(path) = pass.options.state else {
            return Ok((None, Merged::default()));
        };
        let mut state = Self::of(pass.store, log, path)?;
        if state.usable(log)?.is_none() {
            return Ok((Some(state), Merged::default()));
        }
        if !pass.options.resume {
            pass.report.could_resume = true;
            return Ok((Some(state), Merged::default()));
        }
        let file = OpenOptions::new()
            .append(true)
            .open(path)
            .map_err(io_error("open", path))?;
        if !is_ours(&file) {
            let what = format!("{} is in use by another verification", path.display());
            return Err(Error::Changed { what }.into());
        }
        // Whoever had it until now may have gone on.
        let Some(usable) = state.usable(log)? else {
            return Ok((Some(state), Merged::default()));
        };
        let merged = state.take_over(pass, usable.len)?;
        pass.report.resumed_at = Some(merged.to);
        pass.report.resumed_of_ms = usable.of_ms;
        file.set_len(usable.len).map_err(io_error("shorten", path))?;
        state.file = Some(file);
        Ok((Some(state), merged))
    }

    fn of(store: &Store, log: &Log, path: &Path) -> Result<Self, Error> {
        let root = store.root();
        Ok(Self {
            path: path.to_owned(),
            head: Head {
                version: VERSION,
                store: std::fs::canonicalize(root).map_err(io_error("resolve", root))?,
                log_start: log.start(),
                segment_size: log.segment_size(),
            },
            file: None,
            is_foreign: false,
        })
    }

    /// What of the file can be taken over; `None` when it is of another store, or of other files.
    fn usable(&self, log: &Log) -> Result<Option<Usable>, Error> {
        let file = match File::open(&self.path) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(io_error("open", &self.path))?,
        };
        let mut lines = Lines::new(file);
        match lines
            .next()
            .and_then(|line| serde_json::from_slice::<Head>(line).ok())
        {
            Some(head) if head == self.head => {}
            _ => return Ok(None),
        }
        let mut usable: Option<Usable> = None;
        while let Some(line) = lines.next() {
            match serde_json::from_slice(line) {
                Ok(Line::Finding(row)) if code(&row.code).is_some() => {}
                Ok(Line::Done(done)) if done.open.iter().all(|run| code(&run.code).is_some()) => {
                    // Pieces are in the order of the log; a second time is another pass, whose sums are not added.
                    if usable.is_some_and(|before| done.to <= before.to)
                        || done.files != files_before(log, done.to)
                    {
                        break;
                    }
                    usable = Some(Usable {
                        len: lines.at,
                        to: done.to,
                        of_ms: usable.map_or(done.at_ms, |before| before.of_ms),
                    });
                }
                _ => break,
            }
        }
        Ok(usable)
    }

    /// Tells the findings of an earlier pass again, and adds up what it came to.
    fn take_over(&self, pass: &mut Pass<'_>, len: u64) -> Result<Merged, Stop> {
        let file = File::open(&self.path).map_err(io_error("open", &self.path))?;
        let mut lines = Lines::new(file);
        let mut merged = Merged::default();
        lines.next();
        while lines.at < len
            && let Some(line) = lines.next()
        {
            match serde_json::from_slice(line) {
                Ok(Line::Finding(row)) => {
                    if let Some(finding) = row.to_finding() {
                        pass.find(finding)?;
                    }
                }
                Ok(Line::Done(done)) => done.add_to(&mut merged),
                Err(_) => break,
            }
        }
        Ok(merged)
    }

    /// Adds a piece that is through.
    pub(super) fn write(
        &mut self,
        mut block: Block,
        sides: &Sides,
        matched: &[(usize, u64)],
        merged: &Merged,
        log: &Log,
    ) -> Result<(), Error> {
        if self.is_foreign {
            return Ok(());
        }
        let done = DoneLine {
            to: merged.to,
            at_ms: now_ms(),
            records: merged.records,
            gap_end: merged.gap_end,
            stale_told: merged.stale_told,
            files: files_before(log, merged.to),
            matched: matched
                .iter()
                .map(|&(side, count)| {
                    let name = &sides.get(side).name;
                    (name.topic.clone(), name.queue_id, count)
                })
                .collect(),
            compared: merged.compared.clone(),
            open: merged
                .open
                .iter()
                .map(|(name, run)| RunRow::new(name, run))
                .collect(),
        };
        let path = self.path.clone();
        let failed = |e| io_error("write", &path)(e);
        block.line(&Line::Done(done)).map_err(failed)?;
        if self.file.is_none() {
            if let Some(dir) = path.parent() {
                std::fs::create_dir_all(dir).map_err(io_error("create", dir))?;
            }
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .map_err(io_error("create", &path))?;
            if !is_ours(&file) {
                self.is_foreign = true;
                return Ok(());
            }
            file.set_len(0).map_err(failed)?;
            let mut head = serde_json::to_vec(&self.head)
                .map_err(std::io::Error::from)
                .map_err(failed)?;
            head.push(b'\n');
            file.write_all(&head).map_err(failed)?;
            self.file = Some(file);
        }
        if let Some(file) = &mut self.file {
            file.write_all(&block.text).map_err(failed)?;
        }
        Ok(())
    }
}

/// Where a pass with this file would go on.
pub(super) fn reached(store: &Store, log: &Log, path: &Path) -> Result<Option<Resumable>, Error> {
    let usable = State::of(store, log, path)?.usable(log)?;
    Ok(usable.map(|usable| Resumable {
        at: usable.to,
        of_ms: usable.of_ms,
    }))
}

/// No other pass writes this file; until it is closed none will. Where a file system has no locks, nobody is asked.
fn is_ours(file: &File) -> bool {
    !matches!(file.try_lock(), Err(TryLockError::WouldBlock))
}

/// The present, epoch ms; `None` for a clock that is before 1970.
fn now_ms() -> Option<i64> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.ok().and_then(|since| i64::try_from(since.as_millis()).ok())
}

/// Removes the file of a pass that is through, unless another pass writes it.
pub(super) fn remove(path: Option<&Path>) -> Result<(), Error> {
    let Some(path) = path else { return Ok(()) };
    if File::open(path).is_ok_and(|file| !is_ours(&file)) {
        return Ok(());
    }
    match std::fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(io_error("remove", path)),
    }
}

/// Checksum of the names, lengths and times of the files before an offset.
fn files_before(log: &Log, to: u64) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for file in log.files().filter(|file| file.base < to) {
        let time = std::fs::metadata(&file.path).map_or((0, 0), |meta| (meta.mtime(), meta.mtime_nsec()));
        for word in [file.base as i64, file.len as i64, time.0, time.1] {
            hasher.update(&word.to_be_bytes());
        }
    }
    hasher.finalize()
}

impl Row {
    fn to_finding(&self) -> Option<Finding> {
        let severity = match self.severity {
            0 => Severity::Info,
            1 => Severity::Warning,
            _ => Severity::Error,
        };
        Some(Finding {
            severity,
            code: code(&self.code)?,
            subject: self.subject.clone(),
            file: self.file.clone(),
            offset: self.offset,
            len: self.len,
            what: self.what.clone(),
            meaning: self.meaning.clone(),
        })
    }
}

impl RunRow {
    fn new(name: &QueueName, run: &Run) -> Self {
        Self {
            topic: name.topic.clone(),
            queue: name.queue_id,
            first: run.first,
            count: run.count,
            at: run.at,
            what: run.what.clone(),
            code: run.code.to_owned(),
            is_late: run.is_late,
        }
    }
}

impl DoneLine {
    fn add_to(self, merged: &mut Merged) {
        merged.to = self.to;
        merged.records = self.records;
        merged.gap_end = self.gap_end;
        merged.stale_told = self.stale_told;
        merged.compared = self.compared;
        for (topic, queue_id, count) in self.matched {
            *merged.matched.entry(QueueName { topic, queue_id }).or_default() += count;
        }
        merged.open = self
            .open
            .into_iter()
            .filter_map(|row| {
                let name = QueueName {
                    topic: row.topic,
                    queue_id: row.queue,
                };
                let run = Run {
                    first: row.first,
                    count: row.count.max(1),
                    at: row.at,
                    what: row.what,
                    code: code(&row.code)?,
                    is_late: row.is_late,
                };
                Some((name, run))
            })
            .collect();
    }
}

/// Whole lines of a file, none longer than it may be.
struct Lines {
    reader: BufReader<File>,
    line: Vec<u8>,
    /// Position behind the last line.
    at: u64,
}

impl Lines {
    fn new(file: File) -> Self {
        Self {
            reader: BufReader::new(file),
            line: Vec::new(),
            at: 0,
        }
    }

    fn next(&mut self) -> Option<&[u8]> {
        self.line.clear();
        let mut limited = std::io::Read::take(&mut self.reader, MOST_LINE as u64);
        let read = limited.read_until(b'\n', &mut self.line).ok()?;
        self.at += read as u64;
        self.line.strip_suffix(b"\n")
    }
}
