//! What a clean stop left: the end of the log, and every queue and index file with its numbers.
//!
//! The next start compares, so that a queue or index file that got lost or short meanwhile is made again, and a big
//! store opens without being read. The Java broker does not know the file and lets such a queue stay empty. Text, a
//! line each:
//!
//! ```text
//! rmq-stopped 1
//! log <start> <end> <offset of the last record, -1 without one> <its store time>
//! queue <first entry on disk> <min> <max> <physical end> <queue id> <topic>
//! given <number behind the last one given> <queue id> <topic>
//! index <file number> <count> <physical offset of the newest item>
//! end
//! ```

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::cursor::{DamageKind, Found, MessageCursor};
use super::reader::QueueName;
use super::segments::Segments;
use super::{Error, disk, tables};

/// Name of the file under `config/`.
const NAME: &str = "rmqStopped";
/// The Java broker leaves this file behind whenever it starts, and we remove it at each clean stop.
const JAVA_WAS_HERE: &str = "abort.bak";

/// One queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedQueue {
    /// Queue offset that its first file begins with.
    pub first: i64,
    /// Smallest queue offset.
    pub min: i64,
    /// Queue offset behind its last entry.
    pub max: i64,
    /// Physical offset behind its last entry's record.
    pub max_physic: i64,
}

/// One index file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoppedIndex {
    /// Its name as a number.
    pub number: u64,
    /// Its header's count.
    pub count: i32,
    /// Physical offset of its newest item.
    pub end_offset: i64,
}

/// A store at rest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stopped {
    /// First byte of the log.
    pub start: u64,
    /// Behind its last byte.
    pub end: u64,
    /// Offset and store time of its last record.
    pub last: Option<(u64, i64)>,
    /// Queues that ever had an entry.
    pub queues: HashMap<QueueName, StoppedQueue>,
    /// Queues that gave numbers beyond their last entry, and the next number: the log lost the records, and no number is
    /// given twice.
    pub given: HashMap<QueueName, i64>,
    /// Index files, oldest first.
    pub index: Vec<StoppedIndex>,
}

fn path(root: &Path) -> PathBuf {
    root.join("config").join(NAME)
}

impl Stopped {
    /// What the last stop left, if nobody else has used the store since and the log is as it was.
    pub fn load(root: &Path, log: &Segments) -> Option<Self> {
        if root.join(JAVA_WAS_HERE).exists() {
            return None;
        }
        let path = path(root);
        match tables::load_with(&path, parse) {
            Ok(stopped) => stopped.filter(|stopped| stopped.fits(log)),
            Err(e) => {
                tracing::warn!("{e}; the store is looked through instead");
                None
            }
        }
    }

    /// Writes it; durable when it returns.
    pub fn save(&self, root: &Path) -> Result<(), Error> {
        disk::remove_file(&root.join(JAVA_WAS_HERE))?;
        tables::save_bytes(&path(root), self.to_text().as_bytes())
    }

    /// True when the last record is where it was and nothing comes behind the end.
    fn fits(&self, log: &Segments) -> bool {
        let Some((last, _)) = self.last else {
            return ends(log, self.end);
        };
        let mut cursor = MessageCursor::new(log, last);
        let mut end = match cursor.next() {
            Some(Ok(Found::Message(record))) => record.end(),
            _ => return false,
        };
        if end < self.end {
            match cursor.next() {
                Some(Ok(Found::Filler { at, len })) => end = at + len,
                _ => return false,
            }
        }
        end == self.end && ends(log, end)
    }

    fn to_text(&self) -> String {
        let mut text = String::from("rmq-stopped 1\n");
        let (last, time) = self.last.map_or((-1, 0), |(at, time)| (at as i64, time));
        // Writing to a string does not fail.
        let _ = writeln!(text, "log {} {} {last} {time}", self.start, self.end);
        for (name, queue) in &self.queues {
            let StoppedQueue {
                first,
                min,
                max,
                max_physic,
            } = queue;
            let (id, topic) = (name.queue_id, &name.topic);
            let _ = writeln!(text, "queue {first} {min} {max} {max_physic} {id} {topic}");
        }
        for (name, next) in &self.given {
            let _ = writeln!(text, "given {next} {} {}", name.queue_id, name.topic);
        }
        for file in &self.index {
            let _ = writeln!(text, "index {} {} {}", file.number, file.count, file.end_offset);
        }
        text += "end\n";
        text
    }
}

/// True when no record begins at `at`.
fn ends(log: &Segments, at: u64) -> bool {
    match MessageCursor::new(log, at).next() {
        None => true,
        Some(Err(damage)) => matches!(damage.kind, DamageKind::Zeros | DamageKind::Missing),
        Some(Ok(_)) => false,
    }
}

fn parse(bytes: &[u8]) -> Result<Stopped, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let mut lines = text.lines();
    if lines.next() != Some("rmq-stopped 1") {
        return Err("not a list of this version".into());
    }
    let mut stopped = Stopped::default();
    for line in lines {
        let odd = || format!("cannot read `{line}`");
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match kind {
            "log" => {
                let [start, end, last, time] = numbers(rest).ok_or_else(odd)?;
                stopped.start = u64::try_from(start).map_err(|_| odd())?;
                stopped.end = u64::try_from(end).map_err(|_| odd())?;
                stopped.last = u64::try_from(last).ok().map(|last| (last, time));
            }
            "queue" => {
                let mut words = rest.splitn(6, ' ');
                let mut number = || words.next()?.parse::<i64>().ok();
                let (Some(first), Some(min), Some(max), Some(max_physic), Some(id)) =
                    (number(), number(), number(), number(), number())
                else {
                    return Err(odd());
                };
                let name = QueueName {
                    queue_id: i32::try_from(id).map_err(|_| odd())?,
                    topic: words.next().ok_or_else(odd)?.to_owned(),
                };
                if first < 0 || min < first.min(max) || max < min {
                    return Err(odd());
                }
                let queue = StoppedQueue {
                    first,
                    min,
                    max,
                    max_physic,
                };
                stopped.queues.insert(name, queue);
            }
            "given" => {
                let mut words = rest.splitn(3, ' ');
                let mut number = || words.next()?.parse::<i64>().ok();
                let (Some(next), Some(id)) = (number().filter(|next| *next > 0), number()) else {
                    return Err(odd());
                };
                let name = QueueName {
                    queue_id: i32::try_from(id).map_err(|_| odd())?,
                    topic: words.next().ok_or_else(odd)?.to_owned(),
                };
                stopped.given.insert(name, next);
            }
            "index" => {
                let [number, count, end_offset] = numbers(rest).ok_or_else(odd)?;
                stopped.index.push(StoppedIndex {
                    number: u64::try_from(number).map_err(|_| odd())?,
                    count: i32::try_from(count).map_err(|_| odd())?,
                    end_offset,
                });
            }
            "end" => return Ok(stopped),
            _ => return Err(odd()),
        }
    }
    Err("the end is missing".into())
}

fn numbers<const N: usize>(text: &str) -> Option<[i64; N]> {
    let mut out = [0; N];
    let mut words = text.split(' ');
    for slot in &mut out {
        *slot = words.next()?.parse().ok()?;
    }
    words.next().is_none().then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_reads_back_and_what_was_cut_does_not() {
        let name = |topic: &str, queue_id| QueueName {
            topic: topic.into(),
            queue_id,
        };
        let queue = |max| StoppedQueue {
            first: 0,
            min: 1,
            max,
            max_physic: 900,
        };
        let stopped = Stopped {
            start: 0,
            end: 1000,
            last: Some((900, 1_795_974_948_015)),
            queues: HashMap::from([(name("a b%c", 3), queue(7)), (name("t", 0), queue(1 << 40))]),
            given: HashMap::from([(name("a b%c", 3), 9)]),
            index: vec![StoppedIndex {
                number: 20_261_129_000_000_000,
                count: 5,
                end_offset: 800,
            }],
        };
        let text = stopped.to_text();
        assert_eq!(parse(text.as_bytes()).unwrap(), stopped);
        for cut in 0..text.len() - 1 {
            assert!(parse(&text.as_bytes()[..cut]).is_err(), "{cut}");
        }
        let nothing = Stopped::default();
        assert_eq!(parse(nothing.to_text().as_bytes()).unwrap(), nothing);
    }
}
