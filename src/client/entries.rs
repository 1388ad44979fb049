//! A queue over the wire: its ends (30, 31), its entries (321), the records that they lead to
//! (33), its topic's queues (202) and positions (300, 208).
//! All of it reads; nothing is committed and no client is woken.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::admin::cluster::BrokerAt;
use super::admin::message::QueueAt;
use super::admin::topic::masters;
use super::error::{Error, Server};
use super::{Client, Deadline};
use crate::protocol::message::{EntryClaim, MessageView, difference};
use crate::protocol::model::{SysFlag, tags_code};
use crate::protocol::properties::names;
use crate::protocol::requests::ViewMessageById;

/// The topic whose entries have a delivery time in place of a tag hash.
pub const DELAY_TOPIC: &str = "SCHEDULE_TOPIC_XXXX";
/// Tags codes up to this are addresses of extension units (Java: `ConsumeQueueExt.MAX_ADDR`).
const MOST_ADDRESS: i64 = i32::MIN as i64 - 1;

/// Most bytes of records that one slice asks for.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// True for a tags code that is the address of an extension unit.
pub const fn is_address(tags_code: i64) -> bool {
    tags_code <= MOST_ADDRESS
}

/// Where a slice of a queue lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At its first entry.
    Oldest,
    /// At its end.
    Newest,
    /// At a queue offset.
    Offset(i64),
    /// At the first message stored at or behind this, epoch ms.
    Time(i64),
}

/// An entry and the record that it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryLook {
    /// Queue offset of its (first) message.
    pub offset: i64,
    /// Physical offset.
    pub at: i64,
    /// Bytes.
    pub size: i32,
    /// Tag hash, delivery time or address, as it is.
    pub tags_code: i64,
    /// The record, or why it could not be had; `None` when it was not asked for, since the records before it were large.
    pub record: Option<Result<Bytes, String>>,
    /// What the entry says otherwise than the record does.
    pub differences: Vec<String>,
}

/// Entries around a place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueueSlice {
    /// First queue offset that has not expired.
    pub min: i64,
    /// The one behind the last.
    pub max: i64,
    /// The entry that was asked for.
    pub here: i64,
    /// The entries, by offset.
    pub entries: Vec<EntryLook>,
    /// Offset behind the last of them.
    pub end: i64,
}

/// One queue of a topic on one broker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueueRange {
    /// Name of the broker.
    pub broker: String,
    /// Number of the queue.
    pub queue: i32,
    /// First queue offset that has not expired.
    pub min: i64,
    /// The one behind the last.
    pub max: i64,
    /// How many queues of the topic consumers read there.
    pub read_queues: Option<i32>,
}

/// The queues of a topic on all its masters, and who has read how far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicRanges {
    /// The queues.
    pub queues: Vec<QueueRange>,
    /// Positions by group, then broker and queue.
    pub positions: BTreeMap<String, BTreeMap<(String, i32), i64>>,
    /// Brokers that did not answer, and why.
    pub failed: Vec<String>,
}

impl Client {
    /// The bytes of the record at a commit log offset of a broker, as its log has them.
    pub async fn record_bytes(
        &self,
        broker: &Server,
        offset: i64,
        deadline: Deadline,
    ) -> Result<Bytes, Error> {
        let header = ViewMessageById { topic: None, offset };
        Ok(self.call(broker, &header, (), deadline).await?.1)
    }

    /// The masters that have a topic.
    pub async fn masters_of(&self, topic: &str) -> Result<Vec<BrokerAt>, Error> {
        match self.route(topic).await? {
            Some(route) => Ok(masters(&route)),
            None => Err(no_topic(topic)),
        }
    }

    /// The master of the broker of this name, which has the topic.
    pub async fn master_of(&self, topic: &str, broker: &str) -> Result<BrokerAt, Error> {
        let all = self.masters_of(topic).await?;
        all.into_iter()
            .find(|at| at.id.name == broker)
            .ok_or_else(|| Error::NotFound {
                noun: "broker",
                name: broker.to_owned(),
                searched: format!("the masters that have {topic}"),
                similar: Vec::new(),
            })
    }

    /// The queues of a topic on all its masters, and the positions of its groups.
    pub async fn topic_ranges(&self, topic: &str) -> Result<TopicRanges, Error> {
        let deadline = self.deadline();
        let Some(route) = self.route(topic).await? else {
            return Err(no_topic(topic));
        };
        let answers = self
            .each(masters(&route), |broker| async move {
                let found = self.ranges_on(&broker.server(), topic, deadline).await;
                (broker, found)
            })
            .await;
        let mut all = TopicRanges::default();
        let mut why = None;
        let mut answered = false;
        for (broker, found) in answers {
            match found {
                Ok(mut found) => {
                    answered = true;
                    let read = route.queue_datas.iter().find(|q| q.broker_name == broker.id.name);
                    for range in &mut found.queues {
                        range.read_queues = read.map(|q| q.read_queue_nums);
                    }
                    all.queues.append(&mut found.queues);
                    for (group, positions) in found.positions {
                        all.positions.entry(group).or_default().extend(positions);
                    }
                }
                Err(e) => {
                    all.failed.push(format!("{}: {}", broker.id.name, e.reason()));
                    why = Some(e);
                }
            }
        }
        all.queues.sort();
        match why {
            Some(e) if !answered => Err(e),
            _ => Ok(all),
        }
    }

    async fn ranges_on(
        &self,
        server: &Server,
        topic: &str,
        deadline: Deadline,
    ) -> Result<TopicRanges, Error> {
        let (stats, groups) = tokio::try_join!(
            self.topic_stats(server, topic, deadline),
            self.topic_groups(server, topic, deadline)
        )?;
        let mut found = TopicRanges {
            queues: (stats.offset_table.into_iter())
                .map(|(queue, range)| QueueRange {
                    broker: queue.broker_name,
                    queue: queue.queue_id,
                    min: range.min_offset,
                    max: range.max_offset,
                    read_queues: None,
                })
                .collect(),
            ..TopicRanges::default()
        };
        for group in groups {
            let lag = self.group_lag(server, &group, Some(topic), deadline).await?;
            let positions = (lag.queues.into_iter())
                .filter_map(|row| Some(((row.broker, row.queue), row.committed?)))
                .collect();
            found.positions.insert(group, positions);
        }
        Ok(found)
    }

    /// Entries of a queue around a place, up to `around.0` before it and `around.1` from it on, each with its record.
    pub async fn queue_slice(
        &self,
        broker: &Server,
        (topic, queue): (&str, i32),
        place: Place,
        around: (u16, u16),
        deadline: Deadline,
    ) -> Result<QueueSlice, Error> {
        let at = QueueAt {
            broker: broker.clone(),
            queue,
        };
        let (min, max) = tokio::try_join!(
            self.min_offset(&at, topic, deadline),
            self.max_offset(&at, topic, deadline)
        )?;
        if min >= max {
            return Ok(QueueSlice {
                min,
                max,
                here: max,
                end: max,
                ..QueueSlice::default()
            });
        }
        let here = match place {
            Place::Oldest => min,
            Place::Newest => max,
            Place::Offset(offset) => offset,
            Place::Time(ms) => self.offset_at(&at, topic, ms, deadline).await?,
        }
        .clamp(min, max);
        let from = here.saturating_sub(around.0.into()).max(min);
        let most = here.saturating_sub(from).saturating_add(around.1.into());
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let found = self
            .queue_entries(broker, topic, (queue, from, most), None, deadline)
            .await?;
        let mut room = MOST_BYTES;
        let entries = (found.queue_data.into_iter())
            .take(usize::try_from(most).unwrap_or(0))
            .map(|entry| {
                let size = usize::try_from(entry.physic_size).unwrap_or(usize::MAX);
                let fits = size <= room;
                room = room.saturating_sub(size);
                (entry, fits)
            })
            .collect();
        let records = self
            .each(entries, |(entry, fits)| async move {
                if !fits {
                    return (entry, None);
                }
                let record = self.record_bytes(broker, entry.physic_offset, deadline).await;
                (entry, Some(record.map_err(|e| e.reason())))
            })
            .await;
        let mut slice = QueueSlice {
            min,
            max,
            here,
            ..QueueSlice::default()
        };
        let mut offset = from;
        for (entry, record) in records {
            let claim = EntryClaim {
                topic,
                queue,
                offset,
                size: entry.physic_size,
            };
            let (differences, messages) = match &record {
                Some(Ok(bytes)) => compared(&claim, (entry.physic_offset, entry.tags_code), bytes),
                _ => (Vec::new(), 1),
            };
            slice.entries.push(EntryLook {
                offset,
                at: entry.physic_offset,
                size: entry.physic_size,
                tags_code: entry.tags_code,
                record,
                differences,
            });
            offset = offset.saturating_add(messages);
        }
        slice.end = offset;
        Ok(slice)
    }
}

fn no_topic(topic: &str) -> Error {
    Error::NotFound {
        noun: "topic",
        name: topic.to_owned(),
        searched: "the name servers".to_owned(),
        similar: Vec::new(),
    }
}

/// What an entry says otherwise than its record, and how many messages the record has.
fn compared(claim: &EntryClaim<'_>, (at, code): (i64, i64), bytes: &[u8]) -> (Vec<String>, i64) {
    let view = match MessageView::parse(bytes) {
        Ok(view) => view,
        Err(fault) => return (vec![fault.to_string()], 1),
    };
    let mut differences = claim.differences(&view);
    if view.physical_offset() != at {
        differences.push(difference("physical offset", &at, &view.physical_offset()));
    }
    if let Err(fault) = view.check_body() {
        differences.push(fault.to_string());
    }
    let expected = view.properties().get(names::TAGS).map_or(0, tags_code);
    if claim.topic == DELAY_TOPIC {
        if code < view.store_timestamp() {
            differences.push(difference("delivery time", &code, &view.store_timestamp()));
        }
    } else if !is_address(code) && code != expected {
        differences.push(difference("tag hash", &code, &expected));
    }
    let messages = if view.sys_flag().0 & SysFlag::INNER_BATCH == 0 {
        1
    } else {
        let count = view
            .properties()
            .get(names::INNER_NUM)
            .and_then(|n| n.parse().ok());
        count.filter(|&n: &i64| n > 0).unwrap_or(1)
    };
    (differences, messages)
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::protocol::message::{NewMessage, Stamp};

    fn record(properties: &str, sys_flag: i32) -> Vec<u8> {
        let message = NewMessage {
            topic: "T".into(),
            queue_id: 2,
            flag: 0,
            sys_flag: SysFlag(sys_flag),
            born_timestamp: 1,
            born_host: ([127, 0, 0, 1], 1).into(),
            store_host: ([127, 0, 0, 1], 2).into(),
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: Bytes::from_static(b"0123456789"),
            properties: properties.into(),
        };
        let stamp = Stamp {
            queue_offset: 7,
            physical_offset: 4096,
            store_timestamp: 1000,
        };
        message.to_vec(stamp).unwrap()
    }

    #[test]
    fn an_entry_is_compared_in_every_part() {
        // The hash of a tag is that of Java's String: "Tag" is 83834.
        let bytes = record("TAGS\u{1}Tag\u{2}", 0);
        let size = i32::try_from(bytes.len()).unwrap();
        let claim = EntryClaim {
            topic: "T",
            queue: 2,
            offset: 7,
            size,
        };
        assert_eq!(compared(&claim, (4096, 83_834), &bytes), (Vec::new(), 1));
        assert_eq!(compared(&claim, (4096, MOST_ADDRESS), &bytes), (Vec::new(), 1));
        let wrong = |claim: EntryClaim<'_>, place| compared(&claim, place, &bytes).0.join("; ");
        assert_eq!(wrong(claim, (4096, 1)), "tag hash: entry 1, record 83834");
        assert_eq!(
            wrong(claim, (4000, 83_834)),
            "physical offset: entry 4000, record 4096"
        );
        let other = EntryClaim { offset: 8, ..claim };
        assert_eq!(wrong(other, (4096, 83_834)), "queue offset: entry 8, record 7");
        let other = EntryClaim { queue: 3, ..claim };
        assert_eq!(wrong(other, (4096, 83_834)), "queue: entry T@3, record T@2");
        let other = EntryClaim { size: 1, ..claim };
        assert_eq!(
            wrong(other, (4096, 83_834)),
            format!("size: entry 1, record {size}")
        );
        let mut torn = bytes.clone();
        let body = torn.windows(10).position(|part| part == b"0123456789").unwrap();
        torn[body] ^= 1;
        assert!(!compared(&claim, (4096, 83_834), &torn).0.is_empty());
        assert!(!compared(&claim, (4096, 83_834), &bytes[..20]).0.is_empty());
    }

    #[test]
    fn a_record_of_several_messages_takes_several_offsets() {
        let bytes = record("INNER_NUM\u{1}5\u{2}", SysFlag::INNER_BATCH);
        let claim = EntryClaim {
            topic: "T",
            queue: 2,
            offset: 7,
            size: i32::try_from(bytes.len()).unwrap(),
        };
        assert_eq!(compared(&claim, (4096, 0), &bytes), (Vec::new(), 5));
    }
}
