//! Offsets: a group's (14, 15, 43, 45, 308, 314), a queue's (29 to 32), and their reset (222).

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Broker;
use super::config::MAX_QUEUES;
use crate::protocol::body::{ConsumerOffsets, QueryCorrectionOffsetAnswer, ResetOffset};
use crate::protocol::model::{MessageQueue, check_group};
use crate::protocol::requests::{
    Boundary as WireBoundary, CloneGroupOffset, GetAllConsumerOffset, GetAllDelayOffset,
    GetEarliestMsgStoretime, GetMaxOffset, GetMinOffset, InvokeBrokerToResetOffset, OffsetReply,
    QueryConsumerOffset, QueryCorrectionOffset, SearchOffsetByTimestamp, TimestampReply,
    UpdateConsumerOffset,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::Boundary;

/// 14: where a group stands. A new group of a young, hot queue stands at 0, whatever its clients prefer.
pub async fn query(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QueryConsumerOffset,
    (): (),
) -> Handled<QueryConsumerOffset> {
    let (topic, queue_id) = (header.topic.as_str(), header.queue_id);
    if let Some(offset) = broker.offsets.committed(&header.consumer_group, topic, queue_id)
        && offset >= 0
    {
        return Ok(Answer::ok(OffsetReply { offset }, ()));
    }
    let unknown = |remark: &str| Err(Refusal::new(codes::QUERY_NOT_FOUND, remark));
    if header.set_zero_if_not_found == Some(false) {
        return unknown("Not found, do not set to zero, maybe this group boot first");
    }
    let young = broker.store.min_offset(topic, queue_id) <= 0;
    // The first message may be stored and not yet in its queue. A client told "unknown" now would go to the end and
    // miss it.
    let on_its_way =
        broker.store.max_offset(topic, queue_id) == 0 && broker.store.next_offset(topic, queue_id) > 0;
    let (store, of_topic) = (broker.store.clone(), topic.to_owned());
    let is_recent = move || store.in_memory(&of_topic, queue_id, 0);
    if young && (on_its_way || broker.look_up(is_recent).await?) {
        return Ok(Answer::ok(OffsetReply { offset: 0 }, ()));
    }
    unknown("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")
}

/// 15: a group commits. Unlike pulls, commits make no group.
pub async fn commit(
    broker: &Arc<Broker>,
    _: &Peer,
    header: UpdateConsumerOffset,
    (): (),
) -> Handled<UpdateConsumerOffset> {
    let (group, topic) = (header.consumer_group.as_str(), header.topic.as_str());
    if !broker.groups.contains(group) {
        let remark = format!("Group {group} not exist!");
        return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    if !broker.topics.contains(topic) && broker.light_topic(topic).is_none() {
        return Err(Refusal::new(
            codes::TOPIC_NOT_EXIST,
            format!("Topic {topic} not exist!"),
        ));
    }
    let illegal = |remark: String| Refusal::new(codes::INVALID_PARAMETER, remark);
    let queue_id = header
        .queue_id
        .ok_or_else(|| illegal(format!("QueueId is null, topic is {topic}")))?;
    let offset = header
        .commit_offset
        .ok_or_else(|| illegal(format!("Offset is null, topic is {topic}")))?;
    if !(0..MAX_QUEUES).contains(&queue_id) || offset < 0 {
        return Err(illegal(format!(
            "queueId[{queue_id}] or offset[{offset}] of topic {topic} is illegal"
        )));
    }
    if broker.offsets.has_reset(group, topic, queue_id) {
        return Ok(Answer {
            remark: Some("Offset has been previously reset".into()),
            ..Answer::ok((), ())
        });
    }
    let step = broker.config().consumer_offset_update_version_step;
    broker.offsets.commit(group, topic, queue_id, offset, step);
    Ok(Answer::ok((), ()))
}

/// 43: everybody's offsets.
pub async fn all(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetAllConsumerOffset,
    (): (),
) -> Handled<GetAllConsumerOffset> {
    let body: ConsumerOffsets = broker.offsets.table();
    Ok(Answer::ok((), Json::new(body)))
}

/// 29: the offset of a time.
pub async fn by_time(
    broker: &Arc<Broker>,
    _: &Peer,
    header: SearchOffsetByTimestamp,
    (): (),
) -> Handled<SearchOffsetByTimestamp> {
    let boundary = match header.boundary_type {
        WireBoundary::Lower => Boundary::Lower,
        WireBoundary::Upper => Boundary::Upper,
    };
    let store = broker.store.clone();
    // Halving the queue looks at records all over the log.
    let search = move || store.offset_by_time(&header.topic, header.queue_id, header.timestamp, boundary);
    let offset = broker.look_up(search).await?;
    Ok(Answer::ok(OffsetReply { offset }, ()))
}

/// 30: the offset behind the last message that consumers see, or with `committed=false` behind the last append.
pub async fn max(broker: &Arc<Broker>, _: &Peer, header: GetMaxOffset, (): ()) -> Handled<GetMaxOffset> {
    let offset = if header.committed {
        broker.store.max_offset(&header.topic, header.queue_id)
    } else {
        broker.store.next_offset(&header.topic, header.queue_id)
    };
    Ok(Answer::ok(OffsetReply { offset }, ()))
}

/// 31
pub async fn min(broker: &Arc<Broker>, _: &Peer, header: GetMinOffset, (): ()) -> Handled<GetMinOffset> {
    let offset = broker.store.min_offset(&header.topic, header.queue_id);
    Ok(Answer::ok(OffsetReply { offset }, ()))
}

/// 32: the store time of the first message, -1 when there is none.
pub async fn earliest_time(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetEarliestMsgStoretime,
    (): (),
) -> Handled<GetEarliestMsgStoretime> {
    let owner = broker.clone();
    let look = move || owner.earliest_time(&header.topic, header.queue_id);
    let timestamp = broker.look_up(look).await?;
    Ok(Answer::ok(TimestampReply { timestamp }, ()))
}

/// 222: moves a group to a time or an offset. The broker keeps the reset until the next pull of each queue took it.
pub async fn reset(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: InvokeBrokerToResetOffset,
    (): (),
) -> Handled<InvokeBrokerToResetOffset> {
    // Each queue is halved for the time.
    let owner = broker.clone();
    if !broker.config().use_server_side_reset_offset {
        let peer = peer.clone();
        return broker.look_up(move || owner.reset_online(&peer, header)).await?;
    }
    broker.look_up(move || reset_now(&owner, &header)).await?
}

fn reset_now(broker: &Broker, header: &InvokeBrokerToResetOffset) -> Handled<InvokeBrokerToResetOffset> {
    let (group, topic) = (header.group.as_str(), header.topic.as_str());
    let Some(config) = broker.topics.get(topic) else {
        return Err(Refusal::new(
            codes::TOPIC_NOT_EXIST,
            format!("Topic {topic} does not exist"),
        ));
    };
    if !broker.groups.contains(group) {
        let remark = format!("Group {group} does not exist");
        return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    let at_time = |queue_id: i32| broker.offset_at_time(topic, queue_id, header.timestamp);
    let mut places = Vec::new();
    if header.queue_id >= MAX_QUEUES {
        let remark = format!("queueId[{}] of topic {topic} is illegal", header.queue_id);
        return Err(Refusal::new(codes::INVALID_PARAMETER, remark));
    }
    if header.queue_id >= 0 {
        let offset = match header.offset.filter(|&offset| offset != -1) {
            Some(offset) => {
                let min = broker.store.min_offset(topic, header.queue_id);
                let max = broker.store.max_offset(topic, header.queue_id);
                if offset < min.max(0) || offset > max + 1 {
                    let remark = format!("Target offset {offset} not in consume queue range [{min}-{max}]");
                    return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
                }
                offset
            }
            None => at_time(header.queue_id),
        };
        places.push((header.queue_id, offset));
    } else {
        places.extend((0..config.read_queue_nums).map(|queue_id| (queue_id, at_time(queue_id))));
    }
    if places.is_empty() {
        return Err(Refusal::new(codes::SYSTEM_ERROR, "No queues to reset."));
    }
    let mut body = ResetOffset::default();
    for (queue_id, offset) in places {
        tracing::info!(group, topic, queue_id, offset, "offset reset by an admin");
        broker.offsets.reset(group, topic, queue_id, offset);
        broker.pop.reset(topic, group, queue_id);
        body.offset_table.insert(broker.queue(topic, queue_id), offset);
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// 45: how far the delivery of each delay level has come.
pub async fn delays(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetAllDelayOffset,
    (): (),
) -> Handled<GetAllDelayOffset> {
    Ok(Answer::ok((), Json::new(broker.delays.snapshot())))
}

/// 308: for each queue of a topic the least offset that any group has, but for the groups to leave out; the largest
/// number where the group to compare with is behind it. Java also forgets the offsets of the groups left out; here a
/// question changes nothing.
pub async fn correction(
    broker: &Arc<Broker>,
    _: &Peer,
    header: QueryCorrectionOffset,
    (): (),
) -> Handled<QueryCorrectionOffset> {
    let topic = header.topic.as_str();
    let left_out: Vec<&str> = header
        .filter_groups
        .as_deref()
        .unwrap_or_default()
        .split(',')
        .collect();
    let mut body = QueryCorrectionOffsetAnswer::default();
    let least = &mut body.correction_offsets;
    for group in broker.offsets.groups_of(topic) {
        if left_out.contains(&group.as_str()) {
            continue;
        }
        for (queue_id, offset) in broker.offsets.all_committed(&group, topic) {
            if offset >= broker.store.min_offset(topic, queue_id) {
                let so_far = least.entry(queue_id).or_insert(offset);
                *so_far = offset.min(*so_far);
            }
        }
    }
    for (queue_id, offset) in broker.offsets.all_committed(&header.compare_group, topic) {
        if let Some(least) = least.get_mut(&queue_id).filter(|least| **least > offset) {
            *least = i64::MAX;
        }
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// 314: a group gets the offsets of another, of one topic or of all.
pub async fn clone_group(
    broker: &Arc<Broker>,
    _: &Peer,
    header: CloneGroupOffset,
    (): (),
) -> Handled<CloneGroupOffset> {
    let (from, to) = (header.src_group.as_str(), header.dest_group.as_str());
    check_group(to).map_err(|e| Refusal::new(codes::INVALID_PARAMETER, e.to_string()))?;
    let topics = match header.topic.filter(|topic| !topic.trim().is_empty()) {
        Some(topic) => BTreeSet::from([topic]),
        None => broker.offsets.topics_of(from),
    };
    for topic in topics {
        let left = !header.offline && !broker.still_subscribed(from, &topic);
        if left || !broker.topics.contains(&topic) {
            tracing::warn!(
                from,
                to,
                topic,
                "offsets not cloned: no topic, or not subscribed any more"
            );
            continue;
        }
        broker.offsets.clone_group(from, to, &topic);
        tracing::info!(from, to, topic, "offsets cloned");
    }
    Ok(Answer::ok((), ()))
}

impl Broker {
    /// The first message of a queue at or behind a time, its end for a negative one. May wait for the disk.
    pub(super) fn offset_at_time(&self, topic: &str, queue_id: i32, time_ms: i64) -> i64 {
        if time_ms < 0 {
            return self.store.max_offset(topic, queue_id);
        }
        self.store
            .offset_by_time(topic, queue_id, time_ms, Boundary::Lower)
    }

    /// Store time of a queue's first message, -1 when there is none. May wait for the disk.
    pub(super) fn earliest_time(&self, topic: &str, queue_id: i32) -> i64 {
        let first = self.store.min_offset(topic, queue_id);
        self.store.store_time(topic, queue_id, first)
    }

    /// A queue of this broker by its full name.
    pub(super) fn queue(&self, topic: &str, queue_id: i32) -> MessageQueue {
        MessageQueue {
            broker_name: self.config().broker_name.clone(),
            queue_id,
            topic: topic.to_owned(),
        }
    }
}
