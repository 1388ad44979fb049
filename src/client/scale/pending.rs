//! Messages that a broker keeps elsewhere and will put into a queue later: delay levels, timer wheel, open half
//! messages. Their real topic and queue are properties of the kept record.
//!
//! The first look reads what waits; later looks read only what came since. Each look reads at most [`MOST`] records
//! of a queue, the rest is told as unread.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::time::Duration;

use super::Pending;
use crate::client::admin::message::{Pull, QueueAt};
use crate::client::error::{Error, Server};
use crate::client::skew::Skew;
use crate::client::{Client, Deadline, Message, RuntimeInfo};
use crate::protocol::codes;
use crate::protocol::model::SCHEDULE_TOPIC;
use crate::protocol::properties::names;
use crate::protocol::requests::GetAllDelayOffset;

/// Timed messages are kept here.
const TIMER: &str = "rmq_sys_wheel_timer";
/// Half messages of open transactions.
const HALF: &str = "RMQ_SYS_TRANS_HALF_TOPIC";
/// Marks of ended ones.
const OP: &str = "RMQ_SYS_TRANS_OP_HALF_TOPIC";
/// The group that keeps the books of both.
const TRANSACTIONS: &str = "CID_RMQ_SYS_TRANS";
/// Records of a queue read in one look.
const MOST: i64 = 20_000;
/// Records of one pull; brokers give fewer.
const BATCH: i32 = 256;
/// A timed message is rolled on after two days at most (`timerRollWindowSlot`); its newest record is younger.
const ROLLED_AFTER: Duration = Duration::from_secs(2 * 86_400);
/// Java's default of `timerMaxDelaySec`.
const LONGEST_TIMER: Duration = Duration::from_secs(3 * 86_400);
/// Time from a timer's due second to the message in its queue.
const GRACE_MS: i64 = 5_000;
/// Java's default of `messageDelayLevel`.
const LEVELS: &str = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h";

/// Delays of a broker's levels, ms, level 1 first; as many as its configuration has. A text that Java could not read
/// either ends the list: nobody knows the delays behind it.
fn level_delays(config: &BTreeMap<String, String>) -> Vec<i64> {
    let text = config.get("messageDelayLevel").map_or(LEVELS, String::as_str);
    text.split_whitespace()
        .map_while(|level| {
            let (number, unit) = level.split_at_checked(level.len().checked_sub(1)?)?;
            let unit: i64 = match unit {
                "s" => 1_000,
                "m" => 60_000,
                "h" => 3_600_000,
                "d" => 86_400_000,
                _ => return None,
            };
            number.parse::<i64>().ok()?.checked_mul(unit)
        })
        .collect()
}

/// Which messages are meant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Landing {
    /// Any.
    #[default]
    Anywhere,
    /// Those for some queues of a topic.
    In {
        /// Topic name.
        topic: String,
        /// Queue numbers.
        queues: Range<i32>,
    },
}

impl Landing {
    fn has(&self, message: &Message) -> bool {
        match self {
            Self::Anywhere => true,
            Self::In { topic, queues } => {
                message.property(names::REAL_TOPIC) == Some(topic)
                    && message
                        .property(names::REAL_QID)
                        .and_then(|q| q.parse().ok())
                        // A message whose place is unknown may be for any of them.
                        .is_none_or(|q: i32| queues.contains(&q))
            }
        }
    }
}

/// What is known of one broker.
#[derive(Debug, Default)]
pub struct Waiting {
    landing: Landing,
    levels: BTreeMap<i32, Level>,
    timer: Timer,
    half: Half,
}

#[derive(Debug, Default)]
struct Level {
    cursor: i64,
    /// Due time by offset, in the broker's clock; `None` where its delay is not known.
    waiting: BTreeMap<i64, Option<i64>>,
}

#[derive(Debug, Default)]
struct Timer {
    cursor: Option<i64>,
    /// Offset of the newest record and due time, by unique key where there is one.
    waiting: HashMap<String, (i64, i64)>,
}

#[derive(Debug, Default)]
struct Half {
    cursor: i64,
    op_cursor: i64,
    waiting: BTreeSet<i64>,
    ended: BTreeSet<i64>,
}

/// Reading one queue of a broker.
struct Reader<'a> {
    client: &'a Client,
    broker: &'a Server,
}

impl Reader<'_> {
    fn deadline(&self) -> Deadline {
        self.client.deadline()
    }

    /// Ends of a topic's queues; empty where the broker has no such topic.
    async fn ends(&self, topic: &str) -> Result<BTreeMap<i32, (i64, i64)>, Error> {
        match self.client.topic_stats(self.broker, topic, self.deadline()).await {
            Ok(stats) => Ok(stats
                .offset_table
                .into_iter()
                .map(|(queue, at)| (queue.queue_id, (at.min_offset.max(0), at.max_offset.max(0))))
                .collect()),
            Err(e) if e.remote_code() == Some(codes::TOPIC_NOT_EXIST) => Ok(BTreeMap::new()),
            Err(e) => Err(e),
        }
    }

    /// Reads `from..to`, at most [`MOST`] records; where the next look goes on.
    async fn read(
        &self,
        topic: &str,
        queue: i32,
        from: i64,
        to: i64,
        mut each: impl FnMut(&Message),
    ) -> Result<i64, Error> {
        let mut next = from;
        while next < to && next - from < MOST {
            let pull = Pull {
                topic,
                queue,
                offset: next,
                most: BATCH,
                tags: "*",
                hold: None,
            };
            let pulled = self.client.pull(self.broker, &pull, self.deadline()).await?;
            for message in &pulled.messages {
                each(message);
            }
            if pulled.next <= next {
                // The queue says nothing behind this place; a later look tries again.
                break;
            }
            next = pulled.next;
        }
        Ok(next)
    }
}

impl Waiting {
    /// Nothing is known yet.
    pub fn new(landing: Landing) -> Self {
        Self {
            landing,
            ..Self::default()
        }
    }

    /// What waits on the broker now. `config` is the broker's own.
    pub async fn look(
        &mut self,
        client: &Client,
        broker: &Server,
        config: &BTreeMap<String, String>,
        now_ms: i64,
    ) -> Result<Pending, Error> {
        let reader = Reader { client, broker };
        let landing = self.landing.clone();
        let runtime = client.broker_runtime(broker, client.deadline()).await?;
        // Store and due times are the broker's.
        let ahead = runtime.clock.map_or(0, Skew::least);
        let delays = level_delays(config);
        let (delayed, timed, half) = tokio::join!(
            look_levels(&mut self.levels, &reader, &landing, &delays),
            self.timer
                .look(&reader, &landing, config, &runtime, now_ms.saturating_add(ahead)),
            self.half.look(&reader, &landing),
        );
        let mut pending = delayed?.and(timed?).and(half?);
        pending.last_due_ms = pending.last_due_ms.map(|due| due.saturating_sub(ahead));
        Ok(pending)
    }
}

async fn look_levels(
    levels: &mut BTreeMap<i32, Level>,
    reader: &Reader<'_>,
    landing: &Landing,
    delays_ms: &[i64],
) -> Result<Pending, Error> {
    // Delivered positions first: what is delivered between the two answers counts as waiting for one look more.
    let (_, delivered) = reader
        .client
        .call(reader.broker, &GetAllDelayOffset, (), reader.deadline())
        .await?;
    let delivered = delivered.value.offset_table;
    let mut pending = Pending::default();
    for (queue, (min, max)) in reader.ends(SCHEDULE_TOPIC).await? {
        let done = delivered.get(&(queue + 1)).copied().unwrap_or(0).max(min);
        let level = levels.entry(queue).or_default();
        level.waiting = level.waiting.split_off(&done);
        let from = level.cursor.max(done);
        if from >= max {
            level.cursor = from;
        } else {
            let delay = usize::try_from(queue)
                .ok()
                .and_then(|q| delays_ms.get(q))
                .copied();
            let waiting = &mut level.waiting;
            level.cursor = reader
                .read(SCHEDULE_TOPIC, queue, from, max, |message| {
                    if landing.has(message) {
                        let due = delay.map(|delay| message.stored_ms.saturating_add(delay));
                        waiting.insert(message.offset, due);
                    }
                })
                .await?;
        }
        pending = pending.and(Pending {
            delayed: level.waiting.len(),
            last_due_ms: level.waiting.values().copied().max().flatten(),
            unread: (max - level.cursor.max(done)).max(0),
            ..Pending::default()
        });
    }
    Ok(pending)
}

impl Timer {
    /// `now_ms` is the broker's.
    async fn look(
        &mut self,
        reader: &Reader<'_>,
        landing: &Landing,
        config: &BTreeMap<String, String>,
        runtime: &RuntimeInfo,
        now_ms: i64,
    ) -> Result<Pending, Error> {
        let Some((min, max)) = reader.ends(TIMER).await?.get(&0).copied() else {
            return Ok(Pending::default());
        };
        // Behind which second the deliveries are, and how many records are not even in the wheel.
        let number = |key: &str| {
            runtime
                .entries
                .get(key)
                .and_then(|v| v.trim().parse::<i64>().ok())
        };
        let behind_ms = number("timerReadBehind").unwrap_or(0).clamp(0, 86_400) * 1000;
        let not_in_wheel = max - number("timerOffsetBehind").unwrap_or(0).clamp(0, max);
        let from = match self.cursor {
            Some(cursor) => cursor,
            None => {
                let longest = config
                    .get("timerMaxDelaySec")
                    .and_then(|v| v.parse().ok())
                    .map_or(LONGEST_TIMER, Duration::from_secs)
                    .max(ROLLED_AFTER);
                let since = now_ms.saturating_sub(i64::try_from(longest.as_millis()).unwrap_or(i64::MAX));
                let queue = QueueAt {
                    broker: reader.broker.clone(),
                    queue: 0,
                };
                let since = since.saturating_sub(3_600_000).max(0);
                let first = reader
                    .client
                    .offset_at(&queue, TIMER, since, reader.deadline())
                    .await?;
                first.clamp(min, max)
            }
        };
        let waiting = &mut self.waiting;
        let cursor = reader
            .read(TIMER, 0, from, max, |message| {
                if let Some(deleted) = message.property(names::TIMER_DEL_UNIQKEY) {
                    // A recall: `topic+key`.
                    let key = deleted.rsplit_once('+').map_or(deleted, |(_, key)| key);
                    waiting.remove(key);
                    return;
                }
                if !landing.has(message) {
                    return;
                }
                let due = message.property(names::TIMER_OUT_MS).and_then(|v| v.parse().ok());
                let key = message
                    .unique_key()
                    .map_or_else(|| message.offset.to_string(), str::to_owned);
                // Without a due time it waits until the timer has passed its record.
                waiting.insert(key, (message.offset, due.unwrap_or(0)));
            })
            .await?;
        self.cursor = Some(cursor);
        let delivered = now_ms - behind_ms - GRACE_MS;
        self.waiting
            .retain(|_, (offset, due)| *due > delivered || *offset >= not_in_wheel);
        Ok(Pending {
            timed: self.waiting.len(),
            last_due_ms: self.waiting.values().map(|(_, due)| *due).max(),
            unread: (max - cursor).max(0),
            ..Pending::default()
        })
    }
}

impl Half {
    async fn look(&mut self, reader: &Reader<'_>, landing: &Landing) -> Result<Pending, Error> {
        let Some((min, max)) = reader.ends(HALF).await?.get(&0).copied() else {
            return Ok(Pending::default());
        };
        let (client, broker, deadline) = (reader.client, reader.broker, reader.deadline());
        let committed = async |topic: &str| {
            client
                .committed(broker, TRANSACTIONS, topic, 0, deadline)
                .await
                .map(|at| at.unwrap_or(0))
        };
        // The op queue's place first: an op message is passed over only when its half messages are.
        let op_done = committed(OP).await?;
        let done = committed(HALF).await?.clamp(min, max);
        let from = self.cursor.max(done);
        let waiting = &mut self.waiting;
        self.cursor = reader
            .read(HALF, 0, from, max, |message| {
                if landing.has(message) {
                    waiting.insert(message.offset);
                }
            })
            .await?;
        // Ends of the op queue after the half messages were read: none of theirs is missed.
        let (op_min, op_max) = reader.ends(OP).await?.get(&0).copied().unwrap_or((0, 0));
        let op_from = self.op_cursor.max(op_done.clamp(op_min, op_max));
        let ended = &mut self.ended;
        self.op_cursor = reader
            .read(OP, 0, op_from, op_max, |message| {
                if message.tag() == Some("d") {
                    let text = String::from_utf8_lossy(&message.body);
                    ended.extend(text.split(',').filter_map(|o| o.trim().parse::<i64>().ok()));
                }
            })
            .await?;
        self.ended = self.ended.split_off(&done);
        self.waiting = self.waiting.split_off(&done);
        let ended = &self.ended;
        self.waiting.retain(|offset| !ended.contains(offset));
        let unread = (max - self.cursor).max(0) + (op_max - self.op_cursor).max(0);
        Ok(Pending {
            half: self.waiting.len(),
            unread,
            ..Pending::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(properties: &[(&str, &str)]) -> Message {
        let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
        Message {
            topic: SCHEDULE_TOPIC.into(),
            properties: properties.iter().map(owned).collect(),
            ..Message::empty()
        }
    }

    #[test]
    fn a_broker_has_as_many_levels_as_its_configuration_says() {
        let default = level_delays(&BTreeMap::new());
        assert_eq!(default.len(), 18);
        assert_eq!((default[0], default[17]), (1_000, 7_200_000));
        let own = |text: &str| level_delays(&[("messageDelayLevel".to_owned(), text.to_owned())].into());
        let mut long = LEVELS.to_owned();
        long.push_str(" 6h 12h 1d");
        assert_eq!(own(&long)[18..], [21_600_000, 43_200_000, 86_400_000]);
        assert_eq!(own("3s  2m"), [3_000, 120_000]);
        assert_eq!(own("1s x 2s"), [1_000]);
        assert_eq!(own("1s 2µ 2s"), [1_000]);
    }

    #[test]
    fn a_message_lands_where_its_properties_say() {
        let landing = Landing::In {
            topic: "T".into(),
            queues: 8..16,
        };
        let to = |topic: &str, queue: &str| message(&[("REAL_TOPIC", topic), ("REAL_QID", queue)]);
        assert!(landing.has(&to("T", "12")));
        assert!(!landing.has(&to("T", "7")));
        assert!(!landing.has(&to("U", "12")));
        // A place that cannot be read may be any.
        assert!(landing.has(&to("T", "x")));
        assert!(Landing::Anywhere.has(&to("U", "1")));
    }
}
