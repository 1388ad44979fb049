//! Messages of a topic in a file: written queue by queue, gone on with where it broke off.
//!
//! The file says itself how far it is: the last offset of each queue that is in it. What did not get in stands on stderr
//! and in the exit code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use clap::ValueEnum;
use serde::Deserialize;

use super::exit::{self, Failure};
use super::progress::Progress;
use super::session::Session;
use crate::client::Message;
use crate::client::dlq::origin_topic;
use crate::client::record::Record;
use crate::client::scan::QueueRange;

/// Form of a file of messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileForm {
    /// One JSON object a line
    Jsonl,
    /// Comma separated, with a header line
    Csv,
}

/// Heading of the form for tables.
const COLUMNS: [&str; 14] = [
    "stored",
    "topic",
    "origin_topic",
    "broker",
    "queue",
    "offset",
    "offset_id",
    "unique_key",
    "keys",
    "tag",
    "reconsume_times",
    "properties",
    "body",
    "body_encoding",
];

/// Messages in all of the ranges.
pub fn total(ranges: &[QueueRange]) -> Option<u64> {
    u64::try_from(ranges.iter().map(QueueRange::len).sum::<i64>()).ok()
}

/// A copy of messages to a file.
pub struct Copy<'a> {
    /// Topic they are read from.
    pub topic: &'a str,
    /// File; `-` is stdout.
    pub out: &'a Path,
    /// Its form.
    pub form: FileForm,
    /// Go on with the file where there is one.
    pub resume: bool,
    /// Tags that the broker selects.
    pub tags: &'a str,
    /// Most messages in the file.
    pub limit: u64,
    /// The command, to go on with.
    pub command: String,
}

impl Copy<'_> {
    /// Copies what passes; one queue that cannot be read does not stop the others. `failures` are those of queues that
    /// could not even be asked. How many messages are in the file, and what became of the whole.
    pub async fn run(
        &self,
        session: &Session,
        mut ranges: Vec<QueueRange>,
        mut failures: Vec<Failure>,
        passes: impl Fn(&Message) -> bool,
    ) -> Result<(u64, Result<(), Failure>), Failure> {
        let some = !ranges.is_empty();
        let mut file = Writer::open(self)?;
        for range in &mut ranges {
            let at = (
                range.at.broker.name.as_ref().unwrap_or(&range.at.broker.addr),
                range.at.queue,
            );
            if let Some(last) = file.reached.get(&(at.0.clone(), at.1)) {
                range.begin = range.begin.max(last.saturating_add(1));
            }
        }
        let mut progress = Progress::new(session, "export", total(&ranges));
        let mut interrupted = std::pin::pin!(session.stopped());
        let mut silent: BTreeSet<String> = BTreeSet::new();
        let mut stopped = false;
        'queues: for range in &ranges {
            let mut next = range.begin;
            while next < range.end && file.count < self.limit {
                let addr = &range.at.broker.addr;
                let missing = |why: &str| {
                    session.warn(&format!(
                        "{} queue {}: offsets {next} to {} are not in the file: {why}",
                        range.at.broker,
                        range.at.queue,
                        range.end.saturating_sub(1)
                    ));
                };
                if silent.contains(addr) {
                    missing("its broker does not answer");
                    continue 'queues;
                }
                let asked = session.client.batch(self.topic, range, next, self.tags);
                let batch = tokio::select! {
                    biased;
                    _ = &mut interrupted => {
                        stopped = true;
                        break 'queues;
                    }
                    batch = asked => batch,
                };
                let batch = match batch {
                    Ok(batch) => batch,
                    Err(e) => {
                        missing(&e.reason());
                        if e.is_unreachable() {
                            silent.insert(addr.clone());
                        }
                        let failure = Failure::from(&e);
                        if !failures.iter().any(|f| f.what == failure.what) {
                            failures.push(failure);
                        }
                        continue 'queues;
                    }
                };
                if let Some(damage) = &batch.damage {
                    let what = damaged(range, damage);
                    session.warn(&what);
                    failures.push(Failure::new(exit::PARTIAL, what));
                }
                for message in batch.messages.iter().filter(|message| passes(message)) {
                    if file.count < self.limit {
                        file.write(message)?;
                    }
                }
                progress.add(u64::try_from(batch.next.saturating_sub(next)).unwrap_or(0));
                next = batch.next;
            }
        }
        progress.finish();
        let empty = file.count == 0;
        let count = file.finish()?;
        let goes_on = |failure: Failure| match self.is_stdout() {
            true => failure,
            false => failure.hint(format!("{} --resume", session.for_same_servers(&self.command))),
        };
        if stopped {
            let what = format!("interrupted: {count} messages are in {}", self.out.display());
            return Err(goes_on(Failure::new(exit::INTERRUPTED, what)));
        }
        if failures.is_empty() {
            return Ok((count, Ok(())));
        }
        if empty && !self.resume && !self.is_stdout() {
            // Nothing is in it that could be gone on with, and it would be in the way of the next try.
            let _ = std::fs::remove_file(self.out);
            return Failure::over(&failures, false).map(|()| (count, Ok(())));
        }
        Ok((count, Failure::over(&failures, some).map_err(goes_on)))
    }

    fn is_stdout(&self) -> bool {
        self.out.as_os_str() == "-"
    }
}

/// What is said of a record that cannot be read.
pub fn damaged(range: &QueueRange, why: &str) -> String {
    format!(
        "{} queue {}: a record cannot be read: {why}",
        range.at.broker, range.at.queue
    )
}

/// True when a line ends before a place of a file.
fn is_line_end(file: &File, at: u64) -> std::io::Result<bool> {
    let mut last = [0];
    file.read_exact_at(&mut last, at.saturating_sub(1))?;
    Ok(last == *b"\n")
}

/// Last offset in a file of each broker and queue.
type Reached = BTreeMap<(String, i32), i64>;

/// Where a message of a file was.
#[derive(Debug, Deserialize)]
struct Place {
    topic: String,
    broker: String,
    queue: i32,
    offset: i64,
}

/// What is in a file already.
#[derive(Debug, Default, PartialEq, Eq)]
struct Kept {
    reached: Reached,
    count: u64,
    /// End of the last whole message; what is behind it a kill left.
    end: u64,
}

impl Kept {
    fn add(&mut self, place: Place, topic: &str, end: u64) -> Result<(), String> {
        if place.topic != topic {
            return Err(format!("it has messages of topic {}", place.topic));
        }
        let last = self
            .reached
            .entry((place.broker, place.queue))
            .or_insert(place.offset);
        *last = place.offset.max(*last);
        self.count += 1;
        self.end = end;
        Ok(())
    }

    fn read(file: &File, form: FileForm, topic: &str) -> Result<Self, String> {
        let mut kept = Self::default();
        match form {
            FileForm::Jsonl => {
                let mut input = BufReader::new(file);
                let mut line = Vec::new();
                let mut at = 0;
                loop {
                    line.clear();
                    at += input.read_until(b'\n', &mut line).map_err(|e| e.to_string())? as u64;
                    if line.last() != Some(&b'\n') {
                        return Ok(kept);
                    }
                    let place = serde_json::from_slice(&line).map_err(|e| e.to_string())?;
                    kept.add(place, topic, at)?;
                }
            }
            FileForm::Csv => {
                let length = file.metadata().map_err(|e| e.to_string())?.len();
                let mut input = csv::Reader::from_reader(BufReader::new(file));
                let heads = input.headers().map_err(|e| e.to_string())?.clone();
                if heads.is_empty() {
                    return Ok(kept);
                }
                if heads != COLUMNS[..] {
                    return Err("its first line is not that of such a file".into());
                }
                kept.end = input.position().byte();
                let mut row = csv::StringRecord::new();
                loop {
                    match input.read_record(&mut row) {
                        Ok(true) => {}
                        Ok(false) => return Ok(kept),
                        // The last one lacks a part of it.
                        Err(_) if input.position().byte() >= length => return Ok(kept),
                        Err(e) => return Err(e.to_string()),
                    }
                    // Its last part may be cut short as well, or there is no end of the line to go on behind.
                    let end = input.position().byte();
                    if end >= length && !is_line_end(file, end).map_err(|e| e.to_string())? {
                        return Ok(kept);
                    }
                    let place = row.deserialize(Some(&heads)).map_err(|e| e.to_string())?;
                    kept.add(place, topic, end)?;
                }
            }
        }
    }
}

/// Writes messages to a file or to stdout.
struct Writer {
    out: Box<dyn std::io::Write>,
    form: FileForm,
    count: u64,
    reached: Reached,
}

impl Writer {
    /// A new file, or one that is gone on with; else one that exists is not overwritten.
    fn open(copy: &Copy<'_>) -> Result<Self, Failure> {
        let path = copy.out;
        let failed = |e: std::io::Error| Failure::usage(format!("cannot write {}: {e}", path.display()));
        let mut kept = Kept::default();
        let out: Box<dyn std::io::Write> = if copy.is_stdout() {
            if copy.resume {
                return Err(Failure::usage("--resume goes on with a file, not with stdout"));
            }
            Box::new(std::io::BufWriter::new(std::io::stdout()))
        } else {
            let file = match copy.resume {
                true => File::options().read(true).append(true).create(true).open(path),
                false => File::create_new(path),
            };
            let file = file.map_err(|e| match e.kind() {
                std::io::ErrorKind::AlreadyExists => {
                    failed(e).hint("--resume, to go on with the file of an export that broke off")
                }
                _ => failed(e),
            })?;
            if copy.resume {
                kept = Kept::read(&file, copy.form, copy.topic).map_err(|why| {
                    let what = format!("{} cannot be gone on with: {why}", path.display());
                    Failure::new(exit::PRECONDITION, what)
                })?;
                file.set_len(kept.end).map_err(failed)?;
            }
            Box::new(std::io::BufWriter::new(file))
        };
        let mut writer = Self {
            out,
            form: copy.form,
            count: kept.count,
            reached: kept.reached,
        };
        if writer.form == FileForm::Csv && kept.end == 0 {
            writer.line(&COLUMNS)?;
        }
        Ok(writer)
    }

    fn line(&mut self, fields: &[&str]) -> Result<(), Failure> {
        let mut csv = csv::Writer::from_writer(Vec::new());
        csv.write_record(fields).map_err(std::io::Error::from)?;
        let bytes = csv
            .into_inner()
            .map_err(|e| Failure::new(exit::INTERNAL, e.to_string()))?;
        self.out.write_all(&bytes)?;
        Ok(())
    }

    fn write(&mut self, message: &Message) -> Result<(), Failure> {
        let record = Record::of(message);
        match self.form {
            FileForm::Jsonl => {
                serde_json::to_writer(&mut self.out, &record).map_err(std::io::Error::from)?;
                self.out.write_all(b"\n")?;
            }
            FileForm::Csv => {
                let properties: BTreeMap<&String, &String> = record.properties.iter().collect();
                let properties = serde_json::to_string(&properties)
                    .map_err(|e| Failure::new(exit::INTERNAL, e.to_string()))?;
                let numbers = [
                    record.queue.to_string(),
                    record.offset.to_string(),
                    record.reconsume_times.to_string(),
                ];
                self.line(&[
                    record.stored.as_deref().unwrap_or_default(),
                    &record.topic,
                    origin_topic(message).unwrap_or_default(),
                    &record.broker,
                    &numbers[0],
                    &numbers[1],
                    &record.offset_id,
                    record.unique_key.as_deref().unwrap_or_default(),
                    &record.keys.join(" "),
                    record.tag.as_deref().unwrap_or_default(),
                    &numbers[2],
                    &properties,
                    &record.body,
                    record.body_encoding.as_deref().unwrap_or_default(),
                ])?;
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Ends the file; how many messages are in it.
    fn finish(mut self) -> Result<u64, Failure> {
        self.out.flush()?;
        Ok(self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, form: FileForm, topic: &str) -> Result<Kept, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        std::fs::write(&path, text).unwrap();
        Kept::read(&File::open(&path).unwrap(), form, topic)
    }

    #[test]
    fn a_file_says_how_far_it_is_and_what_a_kill_left_is_cut() {
        let line = |queue: i32, offset: i64| {
            let broker = "b".to_owned();
            let topic = "T".to_owned();
            let record = Record {
                topic,
                broker,
                queue,
                offset,
                ..Record::default()
            };
            serde_json::to_string(&record).unwrap() + "\n"
        };
        let whole = line(0, 3) + &line(0, 5) + &line(1, 0);
        let kept = read(&format!("{whole}{{\"topic\":\"T\",\"bro"), FileForm::Jsonl, "T").unwrap();
        let reached = [(("b".to_owned(), 0), 5), (("b".to_owned(), 1), 0)];
        assert_eq!(kept.reached, reached.into());
        assert_eq!((kept.count, kept.end), (3, whole.len() as u64));
        assert!(read(&whole, FileForm::Jsonl, "Other").is_err());
        assert!(read("no JSON\n", FileForm::Jsonl, "T").is_err());
        assert_eq!(read("", FileForm::Jsonl, "T"), Ok(Kept::default()));
    }

    #[test]
    fn a_file_for_tables_is_cut_inside_of_a_body_too() {
        let head = COLUMNS.join(",") + "\n";
        let row = |offset: i64| format!("s,T,,b,0,{offset},id,,,,0,{{}},\"one\ntwo\",\n");
        let whole = format!("{head}{}{}", row(1), row(2));
        for torn in [
            "s,T,,b,0,3,id,,,,0,{},\"one\n",
            "s,T",
            "s,T,,b,0,3,id,,,,0,{},x",
            "s,T,,b,0,3,id,,,,0,{},x,",
        ] {
            let kept = read(&format!("{whole}{torn}"), FileForm::Csv, "T").unwrap();
            assert_eq!((kept.count, kept.end), (2, whole.len() as u64), "{torn}");
            assert_eq!(kept.reached, [(("b".to_owned(), 0), 2)].into());
        }
        assert_eq!(read(&head, FileForm::Csv, "T").unwrap().end, head.len() as u64);
        assert_eq!(read("", FileForm::Csv, "T"), Ok(Kept::default()));
        assert!(read("a,b\n1,2\n", FileForm::Csv, "T").is_err());
    }
}
