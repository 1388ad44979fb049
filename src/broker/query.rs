//! Looking messages up: by key (12), by offset id (33), and the entries of a consume queue (321).

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;

use super::Broker;
use crate::protocol::body::{ConsumeQueueData, QueryConsumeQueueAnswer};
use crate::protocol::message::MessageView;
use crate::protocol::model::tags_code;
use crate::protocol::properties::names;
use crate::protocol::requests::{QueryConsumeQueue, QueryMessage, QueryMessageReply, ViewMessageById};
use crate::protocol::{Json, Records, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::{MessageStore, touch};

/// Most messages a query answers (Java's `maxMsgsNumBatch`), and what a query by unique key asks for.
const MOST: i32 = 64;
const UNIQUE_KEY_MOST: i32 = 32;
/// Most queue entries that one request looks at.
const MOST_ENTRIES: i32 = 1024;

/// 12: messages whose keys hash like the one asked for; clients compare the keys themselves.
pub async fn by_key(broker: &Arc<Broker>, _: &Peer, header: QueryMessage, (): ()) -> Handled<QueryMessage> {
    let most = if header.unique_key_query == Some(true) {
        UNIQUE_KEY_MOST
    } else {
        header.max_num.clamp(1, MOST)
    };
    let store = broker.store.clone();
    let QueryMessage {
        topic,
        key,
        begin_timestamp,
        end_timestamp,
        ..
    } = header;
    // The index may be cold, and a long chain touches many pages.
    let query = move || {
        let found = store.query(&topic, &key, most as usize, begin_timestamp, end_timestamp);
        found.records.iter().for_each(|record| touch(record));
        found
    };
    let found = broker.look_up(query).await?;
    let header = QueryMessageReply {
        index_last_update_timestamp: found.index_last_update_timestamp,
        index_last_update_phyoffset: found.index_last_update_offset,
    };
    if found.records.is_empty() {
        return Ok(Answer {
            code: codes::QUERY_NOT_FOUND,
            remark: Some("can not find message, maybe time range not correct".into()),
            header,
            body: Records::default(),
        });
    }
    Ok(Answer::ok(header, Records(found.records)))
}

/// 33: the record at an offset of the commit log.
pub async fn by_offset(
    broker: &Arc<Broker>,
    _: &Peer,
    header: ViewMessageById,
    (): (),
) -> Handled<ViewMessageById> {
    broker.warm_record(header.offset).await?;
    let record = broker.store.record_at(header.offset).ok_or_else(|| {
        let remark = format!("can not find message by the offset, {}", header.offset);
        Refusal::new(codes::SYSTEM_ERROR, remark)
    })?;
    Ok(Answer::ok((), record))
}

/// 321: entries of a queue from an index on.
pub async fn consume_queue(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QueryConsumeQueue,
    (): (),
) -> Handled<QueryConsumeQueue> {
    let QueryConsumeQueue {
        topic,
        queue_id,
        index,
        count,
        consumer_group,
    } = header;
    let mut body = QueryConsumeQueueAnswer {
        min_queue_index: broker.store.min_offset(&topic, queue_id),
        max_queue_index: broker.store.max_offset(&topic, queue_id),
        ..QueryConsumeQueueAnswer::default()
    };
    if let Some(group) = consumer_group {
        body.subscription_data = broker.clients.subscription(&group, &topic);
        body.filter_data = Some(if body.subscription_data.is_some() {
            "null".into()
        } else {
            format!("{group}@{topic} is not online!")
        });
    }
    if !(body.min_queue_index..body.max_queue_index).contains(&index) {
        return Ok(Answer {
            code: codes::SUCCESS,
            remark: Some(format!("Index {index} of {queue_id}@{topic} is not exist!")),
            header: (),
            body: Json::new(body),
        });
    }
    let end = index.saturating_add(i64::from(count.clamp(0, MOST_ENTRIES)));
    let (store, end) = (broker.store.clone(), end.min(body.max_queue_index));
    body.queue_data = broker
        .look_up(move || entries(&store, &topic, queue_id, index..end))
        .await?;
    Ok(Answer::ok((), Json::new(body)))
}

/// What the entries of a queue say. May wait for the disk.
fn entries(
    store: &MessageStore,
    topic: &str,
    queue_id: i32,
    range: std::ops::Range<i64>,
) -> Vec<ConsumeQueueData> {
    let mut data = Vec::new();
    let mut next = range.start;
    while next < range.end {
        let tags = RefCell::new(Vec::new());
        let note = |code| {
            tags.borrow_mut().push(code);
            true
        };
        let most = (range.end - next) as usize;
        let got = store.get(topic, queue_id, next, most, usize::MAX, &note);
        if got.records.is_empty() || got.next_offset <= next {
            break;
        }
        let tags = tags.into_inner();
        for (i, record) in got.records.iter().enumerate() {
            // The filter sees every entry it is asked about, records that are gone included: then codes and
            // records do not pair up, and the record's own tag has to do.
            let code = tags.get(i).copied().filter(|_| tags.len() == got.records.len());
            data.extend(entry(record, code));
        }
        next = got.next_offset;
    }
    data
}

fn entry(record: &Bytes, code: Option<i64>) -> Option<ConsumeQueueData> {
    let view = MessageView::parse(record).ok()?;
    let own = || view.properties().get(names::TAGS).map_or(0, tags_code);
    Some(ConsumeQueueData {
        physic_offset: view.physical_offset(),
        physic_size: view.size() as i32,
        tags_code: code.unwrap_or_else(own),
        ..ConsumeQueueData::default()
    })
}
