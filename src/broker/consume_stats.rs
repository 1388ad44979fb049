//! Topics and groups in figures: queue ranges (202), lag (208, 317), time spans (303), who consumes what
//! (300, 343, 345).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use super::{Broker, now_ms};
use crate::protocol::body::{
    ConsumeStats, ConsumeStatsList, GroupList, OffsetWrapper, QueryConsumeTimeSpanAnswer,
    QuerySubscriptionAnswer, QueueTimeSpan, TopicConfig, TopicList, TopicOffset, TopicStatsTable,
};
use crate::protocol::requests::{
    GetBrokerConsumeStats, GetConsumeStats, GetTopicStatsInfo, QueryConsumeTimeSpan,
    QuerySubscriptionByConsumer, QueryTopicConsumeByWho, QueryTopicsByConsumer,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// 202: the offsets of every queue of a topic.
pub async fn topic_stats(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetTopicStatsInfo,
    (): (),
) -> Handled<GetTopicStatsInfo> {
    let owner = broker.clone();
    broker.look_up(move || topic_stats_now(&owner, header)).await?
}

/// May wait for the disk.
fn topic_stats_now(broker: &Broker, header: GetTopicStatsInfo) -> Handled<GetTopicStatsInfo> {
    let topic = header.topic.as_str();
    let config = broker.known_topic(topic)?;
    let mut body = TopicStatsTable {
        topic_put_tps: broker.stats.topic_put_tps(topic),
        ..TopicStatsTable::default()
    };
    for queue_id in 0..config.write_queue_nums.max(config.read_queue_nums) {
        let max_offset = broker.store.max_offset(topic, queue_id);
        let last_update_timestamp = if max_offset > 0 {
            broker.store.store_time(topic, queue_id, max_offset - 1)
        } else {
            0
        };
        let offsets = TopicOffset {
            last_update_timestamp,
            max_offset,
            min_offset: broker.store.min_offset(topic, queue_id),
        };
        body.offset_table.insert(broker.queue(topic, queue_id), offsets);
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// 208: where a group stands in the topics asked for, or in all it has offsets of.
pub async fn consume_stats(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetConsumeStats,
    (): (),
) -> Handled<GetConsumeStats> {
    let owner = broker.clone();
    broker.look_up(move || consume_stats_now(&owner, header)).await?
}

/// May wait for the disk.
fn consume_stats_now(broker: &Broker, header: GetConsumeStats) -> Handled<GetConsumeStats> {
    let group = header.consumer_group.as_str();
    let listed: BTreeSet<String> = header
        .topic_list
        .as_deref()
        .unwrap_or_default()
        .split(';')
        .filter(|topic| !topic.trim().is_empty())
        .map(str::to_owned)
        .collect();
    let topics = if listed.is_empty() {
        let mut topics = match header.topic.filter(|topic| !topic.trim().is_empty()) {
            Some(topic) => BTreeSet::from([topic]),
            None => broker.offsets.topics_of(group),
        };
        topics.retain(|topic| broker.still_subscribed(group, topic));
        topics
    } else {
        listed
    };
    let mut body = ConsumeStats::default();
    for topic in topics {
        let Some(config) = broker.topics.get(&topic) else {
            continue;
        };
        for queue_id in 0..config.read_queue_nums {
            let offsets = broker.places(group, &topic, queue_id);
            body.offset_table.insert(broker.queue(&topic, queue_id), offsets);
        }
        body.consume_tps += broker.stats.group_get_tps(group, &topic);
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// 317: the same for every group. Java leaves out the queues that are only read: those that a shrink drains.
pub async fn broker_consume_stats(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetBrokerConsumeStats,
    (): (),
) -> Handled<GetBrokerConsumeStats> {
    let owner = broker.clone();
    broker
        .look_up(move || broker_consume_stats_now(&owner, header))
        .await?
}

/// May wait for the disk.
fn broker_consume_stats_now(
    broker: &Broker,
    header: GetBrokerConsumeStats,
) -> Handled<GetBrokerConsumeStats> {
    let mut body = ConsumeStatsList {
        broker_addr: Some(broker.addr.clone()),
        ..ConsumeStatsList::default()
    };
    for group in broker.groups.names() {
        let mut stats = Vec::new();
        for topic in broker.offsets.topics_of(&group) {
            let Some(config) = broker.topics.get(&topic) else {
                continue;
            };
            if (header.is_order && !config.order) || !broker.still_subscribed(&group, &topic) {
                continue;
            }
            let mut one = ConsumeStats {
                consume_tps: broker.stats.group_get_tps(&group, &topic),
                ..ConsumeStats::default()
            };
            for queue_id in 0..config.write_queue_nums.max(config.read_queue_nums) {
                let offsets = broker.places(&group, &topic, queue_id);
                body.total_diff += offsets.lag();
                body.total_inflight_diff += offsets.in_flight();
                one.offset_table.insert(broker.queue(&topic, queue_id), offsets);
            }
            stats.push(one);
        }
        body.consume_stats_list.push(BTreeMap::from([(group, stats)]));
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// 303: how old the messages are that a group consumes.
pub async fn time_span(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QueryConsumeTimeSpan,
    (): (),
) -> Handled<QueryConsumeTimeSpan> {
    let owner = broker.clone();
    broker.look_up(move || time_span_now(&owner, header)).await?
}

/// May wait for the disk.
fn time_span_now(broker: &Broker, header: QueryConsumeTimeSpan) -> Handled<QueryConsumeTimeSpan> {
    let (topic, group) = (header.topic.as_str(), header.group.as_str());
    let config = broker.known_topic(topic)?;
    let mut body = QueryConsumeTimeSpanAnswer::default();
    for queue_id in 0..config.write_queue_nums {
        let min = broker.earliest_time(topic, queue_id);
        let max_offset = broker.store.max_offset(topic, queue_id);
        let max = broker.store.store_time(topic, queue_id, max_offset - 1);
        let consumed = broker.offsets.committed(group, topic, queue_id).unwrap_or(-1);
        let consume = if consumed > 0 {
            broker.store.store_time(topic, queue_id, consumed - 1)
        } else {
            min
        };
        // A group that never committed waits for the first message.
        let next = broker.store.store_time(topic, queue_id, consumed.max(0));
        let behind = consumed < max_offset && next > 0;
        body.consume_time_span_set.push(QueueTimeSpan {
            consume_time_stamp: consume,
            consume_time_stamp_str: Some(time_text(consume)),
            delay_time: if behind { now_ms() - next } else { 0 },
            max_time_stamp: max,
            max_time_stamp_str: Some(time_text(max)),
            message_queue: Some(broker.queue(topic, queue_id)),
            min_time_stamp: min,
            min_time_stamp_str: Some(time_text(min)),
        });
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// Java's `2026-11-29#17:33:48:318`, local time.
fn time_text(ms: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(ms) else {
        return ms.to_string();
    };
    let local = jiff::tz::TimeZone::system().to_datetime(time);
    format!(
        "{}:{:03}",
        local.strftime("%Y-%m-%d#%H:%M:%S"),
        local.millisecond()
    )
}

/// 300: groups that consume a topic.
pub async fn groups_of_topic(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QueryTopicConsumeByWho,
    (): (),
) -> Handled<QueryTopicConsumeByWho> {
    let mut group_list = broker.clients.groups_of(&header.topic);
    group_list.extend(broker.offsets.groups_of(&header.topic));
    Ok(Answer::ok((), Json::new(GroupList { group_list })))
}

/// 343: topics a group has offsets of.
pub async fn topics_of_group(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QueryTopicsByConsumer,
    (): (),
) -> Handled<QueryTopicsByConsumer> {
    let body = TopicList {
        broker_addr: Some(broker.addr.clone()),
        topic_list: broker.offsets.topics_of(&header.group),
    };
    Ok(Answer::ok((), Json::new(body)))
}

/// 345: a group's subscription of a topic.
pub async fn subscription(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QuerySubscriptionByConsumer,
    (): (),
) -> Handled<QuerySubscriptionByConsumer> {
    let topic = header.topic.as_deref().unwrap_or_default();
    let body = QuerySubscriptionAnswer {
        subscription_data: broker.clients.subscription(&header.group, topic),
        group: Some(header.group),
        topic: header.topic,
    };
    Ok(Answer::ok((), Json::new(body)))
}

impl Broker {
    fn known_topic(&self, topic: &str) -> Result<Arc<TopicConfig>, Refusal> {
        let missing = || Refusal::new(codes::TOPIC_NOT_EXIST, format!("topic[{topic}] not exist"));
        self.topics.get(topic).ok_or_else(missing)
    }

    /// False for a topic that an online group no longer subscribes.
    pub(super) fn still_subscribed(&self, group: &str, topic: &str) -> bool {
        self.clients.subscription_count(group) == 0 || self.clients.subscription(group, topic).is_some()
    }

    /// End of a queue, how far the group committed and pulled, and the time of the last message consumed. May wait
    /// for the disk.
    fn places(&self, group: &str, topic: &str, queue_id: i32) -> OffsetWrapper {
        let committed = self.offsets.committed(group, topic, queue_id).unwrap_or(0).max(0);
        let held = self.pop.in_flight(topic, group, queue_id);
        // What pop clients hold is not consumed. Java shows it as if it were.
        let (consumer_offset, popped) = match held {
            None => (committed, committed),
            Some(held) if held.in_order => (committed, committed.saturating_add(held.count)),
            Some(held) => (committed.saturating_sub(held.count).max(0), committed),
        };
        let last_timestamp = if consumer_offset > 0 {
            self.store.store_time(topic, queue_id, consumer_offset - 1).max(0)
        } else {
            0
        };
        let pulled = self.offsets.pull_offset(group, topic, queue_id);
        OffsetWrapper {
            broker_offset: self.store.max_offset(topic, queue_id),
            consumer_offset,
            last_timestamp,
            pull_offset: pulled.unwrap_or(0).max(consumer_offset).max(popped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_java_does() {
        let text = time_text(1_795_973_628_318);
        assert_eq!(text.len(), "2026-11-29#17:33:48:318".len());
        assert!(text.starts_with("2026-11-29#") || text.starts_with("2026-11-30#"));
        assert!(text.ends_with(":318"));
    }
}
