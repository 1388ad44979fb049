//! What was acknowledged against what is there: every queue from its first offset to its last, and the index by key.

use std::collections::HashMap;
use std::path::Path;
use std::time::{Duration, Instant};

use super::load::{self, hash, key, producer};
use super::record::{self, Record};
use super::wire::Wire;

/// A line of a journal.
#[derive(Clone, Copy)]
pub struct Sent {
    pub hash: u64,
    pub code: i64,
    pub queue: i32,
    pub offset: i64,
}

/// What was found.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Findings {
    /// Sends that were answered with success.
    pub acked: u64,
    /// Messages read.
    pub read: u64,
    /// Acknowledged and absent.
    pub lost: u64,
    /// Present, but not what was sent.
    pub torn: u64,
    /// Present twice, or never sent, or somewhere else than the answer said.
    pub extra: u64,
    /// A later message before an earlier one of the same producer in a queue.
    pub reorder: u64,
    /// The right message in a queue that it was not sent to.
    pub misplaced: u64,
    /// Acknowledged, present, and not found by its key.
    pub unindexed: u64,
}

impl Findings {
    /// True when nothing is wrong.
    pub fn is_clean(&self) -> bool {
        let counts = [
            self.lost,
            self.torn,
            self.extra,
            self.reorder,
            self.misplaced,
            self.unindexed,
        ];
        counts.iter().all(|count| *count == 0)
    }

    pub fn add(&mut self, other: Findings) {
        self.acked += other.acked;
        self.read += other.read;
        self.lost += other.lost;
        self.torn += other.torn;
        self.extra += other.extra;
        self.reorder += other.reorder;
        self.misplaced += other.misplaced;
        self.unindexed += other.unindexed;
    }
}

/// An audit of one topic. Goes on where it stopped, so that a long run is not read again after each round.
pub struct Audit {
    topic: String,
    queues: i32,
    sent: HashMap<u64, Sent>,
    seen: HashMap<u64, (i32, i64)>,
    /// Where each queue is read from.
    next: Vec<i64>,
    last_physical: Vec<i64>,
    /// Newest id by queue and producer.
    newest: HashMap<(i32, u64), u64>,
    /// Acknowledged since the last look.
    fresh: Vec<u64>,
    /// Ask the index for every so manieth message.
    pub index_step: usize,
    /// What was lost, to say more about it.
    pub lost: Vec<(u64, Sent)>,
}

impl Audit {
    pub fn new(topic: &str, queues: i32) -> Self {
        Self {
            topic: topic.to_owned(),
            queues,
            sent: HashMap::new(),
            seen: HashMap::new(),
            next: vec![-1; queues as usize],
            last_physical: vec![-1; queues as usize],
            newest: HashMap::new(),
            fresh: Vec::new(),
            index_step: 1,
            lost: Vec::new(),
        }
    }

    /// Takes in a journal. Its last line may be cut, as any file's whose writer was stopped.
    pub fn load(&mut self, journal: &Path) {
        for line in std::fs::read_to_string(journal).unwrap().lines() {
            let parts: Vec<&str> = line.split(' ').collect();
            let [id, hash, code, queue, offset] = parts[..] else {
                continue;
            };
            let id = u64::from_str_radix(id, 16).unwrap();
            let sent = Sent {
                hash: u64::from_str_radix(hash, 16).unwrap(),
                code: code.parse().unwrap(),
                queue: queue.parse().unwrap(),
                offset: offset.parse().unwrap(),
            };
            if sent.code == 0 {
                self.fresh.push(id);
            }
            self.sent.insert(id, sent);
        }
    }

    pub fn load_all(&mut self, dir: &Path) {
        let mut journals: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        journals.sort();
        journals.iter().for_each(|journal| self.load(journal));
    }

    /// Sends answered with success so far.
    pub fn acked(&self) -> u64 {
        self.sent.values().filter(|sent| sent.code == 0).count() as u64
    }

    /// Reads what is new and compares.
    pub fn look(&mut self, address: &str) -> Result<Findings, String> {
        let mut wire = settled(address)?;
        let mut found = Findings::default();
        for queue in 0..self.queues {
            self.read_queue(&mut wire, queue, &mut found)
                .map_err(|e| format!("reading queue {queue}: {e}"))?;
        }
        let fresh = std::mem::take(&mut self.fresh);
        found.acked = fresh.len() as u64;
        for (n, id) in fresh.into_iter().enumerate() {
            let sent = self.sent[&id];
            match self.seen.get(&id) {
                None => {
                    found.lost += 1;
                    self.lost.push((id, sent));
                }
                Some(&at) if at != (sent.queue, sent.offset) => found.extra += 1,
                Some(_) if n % self.index_step == 0 => {
                    let answer = wire.by_key(&self.topic, &key(id)).map_err(|e| e.to_string())?;
                    let (records, torn) = record::all(&answer.body);
                    found.torn += u64::from(torn);
                    if !records.iter().any(|record| hash(record.body) == sent.hash) {
                        found.unindexed += 1;
                    }
                }
                Some(_) => {}
            }
        }
        Ok(found)
    }

    fn read_queue(&mut self, wire: &mut Wire, queue: i32, found: &mut Findings) -> std::io::Result<()> {
        let (min, max) = wire.range(&self.topic, queue)?;
        let slot = queue as usize;
        let mut at = self.next[slot].max(min);
        while at < max {
            let answer = wire.pull(&self.topic, queue, at)?;
            let (records, torn) = record::all(&answer.body);
            found.torn += u64::from(torn);
            for record in &records {
                self.judge(record, queue, at, max, found);
            }
            let next = answer.number("nextBeginOffset");
            if next <= at {
                let why = format!("stuck at {at} of {max}: code {} {}", answer.code, answer.remark);
                return Err(std::io::Error::other(why));
            }
            at = next;
        }
        self.next[slot] = at.max(max);
        Ok(())
    }

    fn judge(&mut self, record: &Record<'_>, queue: i32, from: i64, max: i64, found: &mut Findings) {
        found.read += 1;
        let slot = queue as usize;
        let id = load::id_in(record.body);
        let Some((id, sent)) = id.and_then(|id| Some((id, *self.sent.get(&id)?))) else {
            // Its id may be what was damaged: either way nobody sent this.
            found.extra += 1;
            return;
        };
        if hash(record.body) != sent.hash || record.topic != self.topic.as_bytes() {
            found.torn += 1;
            return;
        }
        if sent.queue != queue {
            found.misplaced += 1;
            return;
        }
        let is_placed = record.queue == queue && (from..max).contains(&record.queue_offset);
        let rises = record.physical_offset > self.last_physical[slot];
        self.last_physical[slot] = record.physical_offset;
        if !is_placed || !rises || self.seen.insert(id, (queue, record.queue_offset)).is_some() {
            found.extra += 1;
        }
        let newest = self.newest.entry((queue, producer(id))).or_insert(id);
        if id < *newest {
            found.reorder += 1;
        }
        *newest = id.max(*newest);
    }
}

/// A connection to a broker whose queues and index have caught up with its log.
pub fn settled(address: &str) -> Result<Wire, String> {
    let mut wire = Wire::connect(address, Duration::from_secs(20)).map_err(|e| e.to_string())?;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let figures = wire.figures().map_err(|e| format!("runtime info: {e}"))?;
        let behind = figures
            .get("dispatchBehindBytes")
            .and_then(|n| n.parse::<i64>().ok());
        // Java's may be below zero for good after a disk was full.
        match behind {
            Some(..=0) => return Ok(wire),
            behind if Instant::now() > until => return Err(format!("dispatch is behind: {behind:?}")),
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}
