//! Producers, each with a journal of its own: one line a send, on the disk's side of the process before the next one.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::dice::Dice;
use super::wire::Wire;

/// Code of a send that got no answer.
pub const NO_ANSWER: i64 = -1;

/// What is sent.
#[derive(Clone)]
pub struct Load {
    pub address: String,
    pub topic: String,
    pub queues: i32,
    /// Shortest and longest body.
    pub body: (u64, u64),
    pub seed: u64,
    /// Numbers of the messages begin here, so that no id is ever used twice.
    pub round: u64,
    /// End at the first connection that breaks; otherwise connect again.
    pub one_connection: bool,
    /// Longest wait for an answer.
    pub patience: Duration,
    /// Pause after each send.
    pub pause: Duration,
    /// End after so many sends.
    pub most: u64,
}

impl Load {
    pub fn new(address: &str, topic: &str, seed: u64, round: u64) -> Self {
        Self {
            address: address.to_owned(),
            topic: topic.to_owned(),
            queues: 4,
            body: (40, 600),
            seed,
            round,
            one_connection: true,
            patience: Duration::from_secs(15),
            pause: Duration::ZERO,
            most: u64::MAX,
        }
    }
}

/// How it went.
#[derive(Default)]
pub struct Tally {
    /// Sends by response code.
    pub codes: BTreeMap<i64, u64>,
    /// Milliseconds of each answered send.
    pub took_ms: Vec<f64>,
    /// Remark of the last refusal.
    pub remark: String,
}

impl Tally {
    pub fn of(&self, code: i64) -> u64 {
        self.codes.get(&code).copied().unwrap_or(0)
    }

    pub fn add(&mut self, other: Tally) {
        for (code, count) in other.codes {
            *self.codes.entry(code).or_default() += count;
        }
        self.took_ms.extend(other.took_ms);
        if !other.remark.is_empty() {
            self.remark = other.remark;
        }
    }
}

/// Running producers.
pub struct Producers {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Tally>>,
    pub journals: Vec<PathBuf>,
    /// Sends that were answered with anything but success, so far.
    pub refused: Arc<AtomicU64>,
}

impl Producers {
    pub fn start(load: &Load, count: u64, dir: &Path) -> Self {
        std::fs::create_dir_all(dir).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let refused = Arc::new(AtomicU64::new(0));
        let mut journals = Vec::new();
        let threads = (0..count)
            .map(|number| {
                let path = dir.join(format!("round-{}-producer-{number}", load.round));
                journals.push(path.clone());
                let (load, stop, refused) = (load.clone(), Arc::clone(&stop), Arc::clone(&refused));
                std::thread::spawn(move || produce(&load, number, &path, &stop, &refused))
            })
            .collect();
        Self {
            stop,
            threads,
            journals,
            refused,
        }
    }

    /// Lets them end by themselves: at the end of the connection or of their messages.
    pub fn join(self) -> Tally {
        let mut tally = Tally::default();
        for thread in self.threads {
            tally.add(thread.join().expect("a producer does not panic"));
        }
        tally
    }

    pub fn stop(self) -> Tally {
        self.stop.store(true, Ordering::SeqCst);
        self.join()
    }
}

/// A message: its id at the front, so that it can be told apart whatever happened to the rest.
pub fn body(id: u64, dice: &mut Dice, len: (u64, u64)) -> Vec<u8> {
    let mut out = format!("{id:016x}|").into_bytes();
    let len = dice.within(len.0, len.1 + 1) as usize;
    out.extend(dice.bytes(len.saturating_sub(out.len())));
    out
}

/// The id at the front of a body.
pub fn id_in(body: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(body.get(..16)?).ok()?;
    u64::from_str_radix(text, 16).ok()
}

pub fn key(id: u64) -> String {
    format!("K{id:x}")
}

/// FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// Round, producer and number in one.
pub fn id(round: u64, producer: u64, number: u64) -> u64 {
    round << 40 | producer << 32 | number
}

/// The producer of an id, over all its rounds.
pub fn producer(id: u64) -> u64 {
    id >> 32 & 0xFF
}

fn produce(load: &Load, producer: u64, path: &Path, stop: &AtomicBool, refused: &AtomicU64) -> Tally {
    let mut journal = File::create(path).unwrap();
    let mut dice = Dice::new(load.seed, id(load.round, producer, 0));
    let mut tally = Tally::default();
    let mut wire = None;
    for number in 0..load.most {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        if wire.is_none() {
            match Wire::connect(&load.address, load.patience) {
                Ok(connected) => wire = Some(connected),
                Err(_) if load.one_connection => break,
                Err(_) => {
                    std::thread::sleep(Duration::from_millis(20));
                    continue;
                }
            }
        }
        let Some(connection) = wire.as_mut() else { continue };
        let id = id(load.round, producer, number);
        let body = body(id, &mut dice, load.body);
        let queue = (number % load.queues as u64) as i32;
        let begin = Instant::now();
        let answer = connection.send(&load.topic, queue, &key(id), &body);
        let (code, offset) = match &answer {
            Ok(answer) => {
                tally.took_ms.push(begin.elapsed().as_secs_f64() * 1000.0);
                (answer.code, answer.number("queueOffset"))
            }
            Err(_) => (NO_ANSWER, -1),
        };
        writeln!(journal, "{id:x} {:x} {code} {queue} {offset}", hash(&body)).unwrap();
        *tally.codes.entry(code).or_default() += 1;
        if code != 0 {
            refused.fetch_add(1, Ordering::SeqCst);
        }
        match answer {
            Ok(answer) if answer.code != 0 => {
                tally.remark = answer.remark;
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(_) => {}
            Err(_) if load.one_connection => break,
            Err(_) => wire = None,
        }
        if !load.pause.is_zero() {
            std::thread::sleep(load.pause);
        }
    }
    tally
}
