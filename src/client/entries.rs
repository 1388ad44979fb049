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
use crate::protocol::body::ConsumeQueueData;
use crate::protocol::message::{EntryClaim, MessageView, difference};
use crate::protocol::model::{MAX_EXT_ADDRESS, SCHEDULE_TOPIC, tags_code};
use crate::protocol::properties::names;
use crate::protocol::requests::ViewMessageById;

/// Most bytes of records that one slice asks for.
const MOST_BYTES: usize = 8 * 1024 * 1024;

/// True for a tags code that is the address of an extension unit.
pub const fn is_address(tags_code: i64) -> bool {
    tags_code <= MAX_EXT_ADDRESS
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
    /// The record, or why it could not be had; `None` when it was not asked for: too large beside the others.
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

/// The queues of a topic on all its masters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicRanges {
    /// The queues.
    pub queues: Vec<QueueRange>,
    /// Brokers that did not answer, and why.
    pub failed: Vec<String>,
}

/// Who has read how far in a topic on one broker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicPositions {
    /// Positions by group, then queue.
    pub positions: BTreeMap<String, BTreeMap<i32, i64>>,
    /// Groups that were not asked for, since there are so many.
    pub not_asked: usize,
    /// Groups of which the broker did not tell, and why.
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

    /// The queues of a topic on all its masters.
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
                    for range in &mut found {
                        range.read_queues = read.map(|q| q.read_queue_nums);
                    }
                    all.queues.append(&mut found);
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
    ) -> Result<Vec<QueueRange>, Error> {
        let stats = self.topic_stats(server, topic, deadline).await?;
        let ranges = stats.offset_table.into_iter().map(|(queue, range)| QueueRange {
            broker: queue.broker_name,
            queue: queue.queue_id,
            min: range.min_offset,
            max: range.max_offset,
            read_queues: None,
        });
        Ok(ranges.collect())
    }

    /// Positions of the groups of a topic on one broker, of the first `most` by name: each is a request. A group of which
    /// the broker does not tell takes nothing from the others.
    pub async fn positions_on(
        &self,
        server: &Server,
        topic: &str,
        most: usize,
        deadline: Deadline,
    ) -> Result<TopicPositions, Error> {
        let groups = self.topic_groups(server, topic, deadline).await?;
        let mut found = TopicPositions {
            not_asked: groups.len().saturating_sub(most),
            ..TopicPositions::default()
        };
        let asked: Vec<String> = groups.into_iter().take(most).collect();
        let answers = self
            .each(asked, |group| async move {
                let lag = self.group_lag(server, &group, Some(topic), deadline).await;
                (group, lag)
            })
            .await;
        for (group, answer) in answers {
            match answer {
                Ok(lag) => {
                    let positions = (lag.queues.into_iter())
                        .filter_map(|row| Some((row.queue, row.committed?)))
                        .collect();
                    found.positions.insert(group, positions);
                }
                Err(e) => found.failed.push(format!("{group}: {}", e.reason())),
            }
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
        let most = usize::try_from(most).unwrap_or(0);
        let entries = affordable(found.queue_data.into_iter().take(most));
        let records = self
            .each(entries, |(entry, fits)| async move {
                if !fits {
                    return (entry, None);
                }
                let record = self.record_bytes(broker, entry.physic_offset, deadline).await;
                (entry, Some(record.map_err(|e| e.reason())))
            })
            .await;
        let (entries, end) = looks((topic, queue), from, records);
        Ok(QueueSlice {
            min,
            max,
            here,
            entries,
            end,
        })
    }
}

/// Which records are asked for: those that have room beside the ones before them. A size that cannot be takes none.
fn affordable(entries: impl Iterator<Item = ConsumeQueueData>) -> Vec<(ConsumeQueueData, bool)> {
    let mut room = MOST_BYTES;
    entries
        .map(|entry| {
            let size = usize::try_from(entry.physic_size).unwrap_or(0);
            let fits = size <= room;
            if fits {
                room -= size;
            }
            (entry, fits)
        })
        .collect()
}

/// The entries from a queue offset on beside their records, and the offset behind the last.
///
/// An entry of a batch queue stands for several messages: how many is known of its record only. Behind one whose record
/// is not known, and at the begin, the next record of this very queue says where it stands.
fn looks(
    (topic, queue): (&str, i32),
    from: i64,
    records: Vec<(ConsumeQueueData, Option<Result<Bytes, String>>)>,
) -> (Vec<EntryLook>, i64) {
    let view_of = |record: &Option<Result<Bytes, String>>| match record {
        Some(Ok(bytes)) => MessageView::parse(bytes).ok().map(|view| {
            let is_here = view.topic() == topic && view.queue_id() == queue;
            (is_here, view.queue_offset(), i64::from(view.messages()))
        }),
        _ => None,
    };
    let is_batch = (records.iter()).any(|(_, record)| view_of(record).is_some_and(|view| view.2 > 1));
    let mut offset = from;
    let mut is_sure = !is_batch;
    let mut entries = Vec::with_capacity(records.len());
    for (entry, record) in records {
        let view = view_of(&record);
        if let Some((true, first, messages)) = view
            && !is_sure
            && first.saturating_add(messages) > offset
        {
            offset = first;
        }
        let claim = EntryClaim {
            topic,
            queue,
            offset,
            size: entry.physic_size,
        };
        let differences = match &record {
            Some(Ok(bytes)) => compared(&claim, (entry.physic_offset, entry.tags_code), bytes),
            _ => Vec::new(),
        };
        entries.push(EntryLook {
            offset,
            at: entry.physic_offset,
            size: entry.physic_size,
            tags_code: entry.tags_code,
            record,
            differences,
        });
        is_sure = !is_batch || view.is_some_and(|(is_here, ..)| is_here);
        offset = offset.saturating_add(view.map_or(1, |(.., messages)| messages));
    }
    (entries, offset)
}

fn no_topic(topic: &str) -> Error {
    Error::NotFound {
        noun: "topic",
        name: topic.to_owned(),
        searched: "the name servers".to_owned(),
        similar: Vec::new(),
    }
}

/// What an entry says otherwise than its record.
fn compared(claim: &EntryClaim<'_>, (at, code): (i64, i64), bytes: &[u8]) -> Vec<String> {
    let view = match MessageView::parse(bytes) {
        Ok(view) => view,
        Err(fault) => return vec![fault.to_string()],
    };
    let mut differences = claim.differences(&view);
    if view.physical_offset() != at {
        differences.push(difference("physical offset", &at, &view.physical_offset()));
    }
    if let Err(fault) = view.check_body() {
        differences.push(fault.to_string());
    }
    let expected = view.properties().get(names::TAGS).map_or(0, tags_code);
    if claim.topic == SCHEDULE_TOPIC {
        if code < view.store_timestamp() {
            differences.push(difference("delivery time", &code, &view.store_timestamp()));
        }
    } else if !is_address(code) && code != expected {
        differences.push(difference("tag hash", &code, &expected));
    }
    differences
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::protocol::message::{NewMessage, Stamp};
    use crate::protocol::model::SysFlag;

    fn record(properties: &str, sys_flag: i32) -> Vec<u8> {
        record_at(properties, sys_flag, 7)
    }

    fn record_at(properties: &str, sys_flag: i32, queue_offset: i64) -> Vec<u8> {
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
            queue_offset,
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
        let none = Vec::<String>::new();
        assert_eq!(compared(&claim, (4096, 83_834), &bytes), none);
        assert_eq!(compared(&claim, (4096, MAX_EXT_ADDRESS), &bytes), none);
        let wrong = |claim: EntryClaim<'_>, place| compared(&claim, place, &bytes).join("; ");
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
        assert!(!compared(&claim, (4096, 83_834), &torn).is_empty());
        assert!(!compared(&claim, (4096, 83_834), &bytes[..20]).is_empty());
    }

    /// A record at a queue offset, and its entry.
    fn stored(at: i64, messages: i64) -> (ConsumeQueueData, Bytes) {
        let (properties, flag) = match messages {
            1 => (String::new(), 0),
            n => (format!("INNER_NUM\u{1}{n}\u{2}"), SysFlag::INNER_BATCH),
        };
        let bytes = record_at(&properties, flag, at);
        let entry = ConsumeQueueData {
            physic_offset: 4096,
            physic_size: i32::try_from(bytes.len()).unwrap(),
            ..ConsumeQueueData::default()
        };
        (entry, bytes.into())
    }

    #[test]
    fn behind_a_record_that_is_not_known_the_next_one_says_where_it_stands() {
        // Batches of 5, 4, 3 and 1 messages from offset 10 on; the queue is asked from the middle of the first.
        let wanted = [10, 15, 19, 22];
        for unread in 0..wanted.len() {
            let rows = [(10, 5), (15, 4), (19, 3), (22, 1)].into_iter().enumerate();
            let rows = rows.map(|(n, (at, messages))| {
                let (entry, bytes) = stored(at, messages);
                let record = if n == unread {
                    Err("gone".to_owned())
                } else {
                    Ok(bytes)
                };
                (entry, Some(record))
            });
            let (entries, end) = looks(("T", 2), 12, rows.collect());
            for (n, entry) in entries.iter().enumerate().filter(|(n, _)| *n != unread) {
                assert_eq!(
                    (entry.offset, &entry.differences),
                    (wanted[n], &Vec::new()),
                    "{unread}"
                );
            }
            assert_eq!(end, 23, "{unread}");
        }
        // In a queue without batches each entry is one message, whatever a record says.
        let rows = [(7, None), (9, Some(())), (9, Some(()))]
            .into_iter()
            .map(|(at, known)| {
                let (entry, bytes) = stored(at, 1);
                (entry, known.map(|()| Ok(bytes)))
            });
        let (entries, end) = looks(("T", 2), 7, rows.collect());
        assert_eq!(entries[1].differences, ["queue offset: entry 8, record 9"]);
        assert_eq!((entries[2].offset, entries[2].differences.len(), end), (9, 0, 10));
    }

    #[test]
    fn one_size_that_cannot_be_or_is_huge_leaves_the_others_their_room() {
        let sizes = [-5, i32::MAX, 100, 8 * 1024 * 1024, 8 * 1024 * 1024 - 100];
        let entries = sizes.into_iter().map(|physic_size| ConsumeQueueData {
            physic_size,
            ..ConsumeQueueData::default()
        });
        let asked: Vec<bool> = affordable(entries).into_iter().map(|(_, fits)| fits).collect();
        // The one that cannot be is asked for, and its record says what is wrong.
        assert_eq!(asked, [true, false, true, false, true]);
    }
}
