//! Messages of several queues in the order of their store time, read no further than they are wanted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt as _};
use tokio::time::Instant;

use super::admin::message::{Pull, PullStatus, Pulled, QueueAt};
use super::error::Error;
use super::stretch::Select;
use super::{Client, Message};

/// Messages of one pull, and how many a queue has ready before it is read on.
const BATCH: i32 = 32;

/// Keeps a pause between two calls of one broker.
#[derive(Debug, Default)]
pub struct Pace {
    pause: Duration,
    /// When the next call of an address may go out. Bounded by the brokers of a cluster.
    next: Mutex<BTreeMap<String, Instant>>,
}

impl Pace {
    /// No pause at all.
    pub fn none() -> Self {
        Self::default()
    }

    /// At most so many calls of one broker a second.
    pub fn per_second(calls: u32) -> Self {
        Self {
            pause: Duration::from_secs(1) / calls.max(1),
            next: Mutex::default(),
        }
    }

    /// Waits for the turn of one call.
    pub async fn turn(&self, addr: &str) {
        if self.pause.is_zero() {
            return;
        }
        let at = {
            let mut all = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let next = all.entry(addr.to_owned()).or_insert_with(Instant::now);
            let at = (*next).max(Instant::now());
            *next = at + self.pause;
            at
        };
        tokio::time::sleep_until(at).await;
    }
}

/// One queue and what was read ahead of it.
struct Line {
    at: QueueAt,
    next: i64,
    end: i64,
    ahead: VecDeque<Message>,
    pulling: bool,
}

impl Line {
    /// True when nothing more can come.
    fn is_over(&self) -> bool {
        !self.pulling && self.next >= self.end
    }
}

/// What waits for its turn: store time, place in the commit log, line.
type Front = Reverse<(i64, i64, usize)>;

/// What reading on comes upon.
#[derive(Debug)]
pub enum Met {
    /// The next message.
    Message(Box<Message>),
    /// So many offsets without a message that is selected; told when they are read, not in the order of time.
    Passed(u64),
}

type Waiting<'a> = FuturesUnordered<BoxFuture<'a, (usize, Result<Pulled, Error>)>>;

impl Client {
    /// Shows the messages of these stretches to `visit` in the order of their store time, until it breaks. Gives the
    /// failure of each queue that could not be read to its end.
    ///
    /// Within a queue the order is that of the queue. At most two pulls' worth of messages of each queue are kept.
    pub async fn read_ordered(
        &self,
        topic: &str,
        stretches: Vec<(QueueAt, (i64, i64))>,
        select: &Select,
        pace: &Pace,
        visit: &mut (dyn FnMut(Message) -> ControlFlow<()> + Send),
    ) -> Vec<Error> {
        let mut messages = |met| match met {
            Met::Message(message) => visit(*message),
            Met::Passed(_) => ControlFlow::Continue(()),
        };
        self.walk_ordered(topic, stretches, select, pace, &mut messages)
            .await
    }

    /// The same; `visit` is told of the offsets that were passed over, too.
    pub async fn walk_ordered(
        &self,
        topic: &str,
        stretches: Vec<(QueueAt, (i64, i64))>,
        select: &Select,
        pace: &Pace,
        visit: &mut (dyn FnMut(Met) -> ControlFlow<()> + Send),
    ) -> Vec<Error> {
        let mut lines: Vec<Line> = stretches
            .into_iter()
            .map(|(at, (next, end))| Line {
                at,
                next,
                end,
                ahead: VecDeque::new(),
                pulling: false,
            })
            .collect();
        let most = self.options.parallel.max(1);
        let (mut failed, mut fronts) = (Vec::new(), BinaryHeap::<Front>::new());
        let mut waiting: Waiting<'_> = FuturesUnordered::new();
        // Lines that should be read on, those without a message first.
        let mut due: VecDeque<usize> = (0..lines.len()).filter(|i| !lines[*i].is_over()).collect();
        // Lines that may still bring a message older than all that are ready.
        let mut missing = due.len();
        loop {
            while waiting.len() < most
                && let Some(index) = due.pop_front()
            {
                lines[index].pulling = true;
                let (at, offset) = (lines[index].at.clone(), lines[index].next);
                waiting.push(Box::pin(async move {
                    pace.turn(&at.broker.addr).await;
                    let (text, kind) = select.expression();
                    let pull = Pull {
                        topic,
                        queue: at.queue,
                        offset,
                        most: BATCH,
                        tags: text,
                        hold: None,
                    };
                    let answer = self.pull_by(&at.broker, &pull, kind, self.deadline()).await;
                    (index, answer)
                }));
            }
            if missing == 0 {
                let Some(Reverse((_, _, index))) = fronts.pop() else {
                    return failed;
                };
                let line = &mut lines[index];
                let Some(message) = line.ahead.pop_front() else {
                    continue;
                };
                let less = line.ahead.len() < BATCH as usize / 2;
                match line.ahead.front() {
                    Some(front) => fronts.push(Reverse((front.stored_ms, front.physical_offset, index))),
                    None if line.is_over() => {}
                    None => missing += 1,
                }
                if less && !line.pulling && line.next < line.end && !due.contains(&index) {
                    if line.ahead.is_empty() {
                        due.push_front(index);
                    } else {
                        due.push_back(index);
                    }
                }
                if visit(Met::Message(Box::new(message))).is_break() {
                    return failed;
                }
                continue;
            }
            let Some((index, answer)) = waiting.next().await else {
                return failed;
            };
            let line = &mut lines[index];
            line.pulling = false;
            let was_missing = line.ahead.is_empty();
            match answer {
                Ok(pulled) => {
                    let here = line.next;
                    let end = line.end;
                    let messages = pulled.messages.into_iter();
                    let before = line.ahead.len();
                    line.ahead
                        .extend(messages.filter(|m| m.offset < end && select.fits(m)));
                    let taken = (line.ahead.len() - before) as u64;
                    line.next = match pulled.status {
                        PullStatus::NoNew => end,
                        // A server that does not move on must not hold us for ever.
                        _ => pulled.next.max(here.saturating_add(1)),
                    };
                    // What the broker has no more, or could not read, was not looked at.
                    let looked = matches!(pulled.status, PullStatus::Found | PullStatus::NoMatched)
                        && pulled.damage.is_none();
                    let stepped = if looked {
                        line.next.min(end).saturating_sub(here)
                    } else {
                        0
                    };
                    let passed = u64::try_from(stepped).unwrap_or(0).saturating_sub(taken);
                    if let Some(reason) = pulled.damage {
                        line.next = end;
                        failed.push(Error::Answer {
                            request: "PULL_MESSAGE",
                            server: line.at.broker.clone(),
                            reason,
                            changes: false,
                        });
                    }
                    if passed > 0 && visit(Met::Passed(passed)).is_break() {
                        return failed;
                    }
                }
                Err(e) => {
                    line.next = line.end;
                    failed.push(e);
                }
            }
            if was_missing {
                match line.ahead.front() {
                    Some(front) => {
                        fronts.push(Reverse((front.stored_ms, front.physical_offset, index)));
                        missing -= 1;
                    }
                    None if line.is_over() => missing -= 1,
                    None => due.push_front(index),
                }
            }
        }
    }
}
