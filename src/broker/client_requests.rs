//! What clients say about themselves and ask about each other: heartbeat (34), farewell (35), filter check (46),
//! client ids (38), connections (203, 204, 328), queue locks (41, 42).

use std::sync::Arc;
use std::time::Instant;

use super::Broker;
use super::config::MAX_QUEUES;
use super::filter::Filter;
use super::pull::no_filter;
use super::stats::Named;
use crate::protocol::body::{
    CheckClientRequest, ConsumeType, ConsumerData, ConsumerList, HeartbeatData, LockBatchAnswer,
    LockBatchRequest,
};
use crate::protocol::model::{RETRY_PREFIX, UNIT_SUB, check_group};
use crate::protocol::requests::{
    CheckClientConfig, GetAllProducerInfo, GetConsumerConnectionList, GetConsumerListByGroup,
    GetProducerConnectionList, HeartBeat, HeartBeatReply, LockBatchMq, UnlockBatchMq, UnregisterClient,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// 34: a client tells its groups and subscriptions. A fingerprint other than 0 marks the second version, which
/// learns whether the broker's knowledge is still the client's.
pub async fn heartbeat(
    broker: &Arc<Broker>,
    peer: &Peer,
    _: HeartBeat,
    body: Json<HeartbeatData>,
) -> Handled<HeartBeat> {
    let HeartbeatData {
        client_id,
        consumer_data_set,
        heartbeat_fingerprint: fingerprint,
        producer_data_set,
        without_sub,
    } = body.value;
    let now = Instant::now();
    let mut changed = false;
    for consumer in consumer_data_set {
        let group = consumer.group_name.clone();
        let with_subscriptions = fingerprint == 0 || !without_sub;
        if !broker.heard_of(peer, &client_id, consumer, with_subscriptions, now) {
            continue;
        }
        changed |= broker.clients.fingerprint(&group, fingerprint);
    }
    for producer in producer_data_set {
        if check_group(&producer.group_name).is_ok() {
            broker
                .clients
                .producer(peer, &client_id, producer.group_name, now);
            let took = now.elapsed().as_millis() as i64;
            let cluster = &broker.config().broker_cluster_name;
            broker.stats.count(Named::ProducerRegisterTime, cluster, took);
        }
    }
    let reply = HeartBeatReply {
        is_support_heart_beat_v2: Some(true),
        is_sub_change: Some(fingerprint == 0 || changed),
    };
    Ok(Answer::ok(reply, ()))
}

impl Broker {
    /// Takes one consumer of a heartbeat; false when its group may not exist.
    fn heard_of(
        self: &Arc<Self>,
        peer: &Peer,
        client_id: &str,
        consumer: ConsumerData,
        with_subscriptions: bool,
        now: Instant,
    ) -> bool {
        let config = self.config();
        if config.reject_pull_consumer_enable && consumer.consume_type == ConsumeType::Actively {
            return false;
        }
        let group = consumer.group_name.clone();
        let Some(found) = self.groups.find(&group, &config) else {
            tracing::warn!(group, peer = %peer.remote(), "heartbeat of a group that may not be made");
            return false;
        };
        let ordered = consumer
            .subscription_data_set
            .iter()
            .any(|s| self.topics.is_order(&s.topic));
        let sys_flag = if consumer.unit_mode { UNIT_SUB } else { 0 };
        let retry = format!("{RETRY_PREFIX}{group}");
        let (topic, new) = self
            .topics
            .create_for_group(&retry, found.retry_queue_nums, ordered, sys_flag);
        if new {
            drop(self.register_topics(vec![topic]));
        }
        if with_subscriptions {
            self.filters
                .told(&group, &consumer.subscription_data_set, super::now_ms());
        }
        let changed = self
            .clients
            .consumer(peer, client_id, consumer, with_subscriptions, now);
        let took = now.elapsed().as_millis() as i64;
        let cluster = &config.broker_cluster_name;
        self.stats.count(Named::ConsumerRegisterTime, cluster, took);
        if let Some(peers) = changed {
            self.notify(vec![(group, peers)]);
        }
        true
    }
}

/// 35: a client leaves its groups.
pub async fn unregister(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: UnregisterClient,
    (): (),
) -> Handled<UnregisterClient> {
    if let Some(group) = header.producer_group {
        broker.clients.leave_producers(peer.id(), &group);
    }
    if let Some(group) = header.consumer_group
        && let Some(left) = broker.clients.leave(peer.id(), &group)
    {
        broker.notify(vec![(group, left)]);
    }
    Ok(Answer::ok((), ()))
}

/// 46: whether the broker can evaluate a filter.
pub async fn check_config(
    broker: &Arc<Broker>,
    _: &Peer,
    _: CheckClientConfig,
    body: Json<CheckClientRequest>,
) -> Handled<CheckClientConfig> {
    let subscription = body.value.subscription_data;
    if subscription.is_tag() {
        return Ok(Answer::ok((), ()));
    }
    if !broker.config().enable_property_filter {
        let remark = no_filter(&subscription.expression_type);
        return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
    }
    match Filter::of(&subscription).fault() {
        Some(fault) => Err(Refusal::new(codes::SUBSCRIPTION_PARSE_FAILED, fault)),
        None => Ok(Answer::ok((), ())),
    }
}

/// 38: ids of a group's clients.
pub async fn consumer_list(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetConsumerListByGroup,
    (): (),
) -> Handled<GetConsumerListByGroup> {
    let ids = broker.clients.client_ids(&header.consumer_group);
    if ids.is_empty() {
        let remark = format!("no consumer for this group, {}", header.consumer_group);
        return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
    }
    let body = ConsumerList {
        consumer_id_list: ids,
    };
    Ok(Answer::ok((), Json::new(body)))
}

/// 203
pub async fn consumer_connection(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetConsumerConnectionList,
    (): (),
) -> Handled<GetConsumerConnectionList> {
    let found = broker.clients.consumer_connection(&header.consumer_group);
    let body = found.ok_or_else(|| {
        let remark = format!("the consumer group[{}] not online", header.consumer_group);
        Refusal::new(codes::CONSUMER_NOT_ONLINE, remark)
    })?;
    Ok(Answer::ok((), Json::new(body)))
}

/// 204
pub async fn producer_connection(
    broker: &Arc<Broker>,
    _: &Peer,
    header: GetProducerConnectionList,
    (): (),
) -> Handled<GetProducerConnectionList> {
    let found = broker.clients.producer_connection(&header.producer_group);
    let body = found.ok_or_else(|| {
        let remark = format!("the producer group[{}] not exist", header.producer_group);
        Refusal::new(codes::SYSTEM_ERROR, remark)
    })?;
    Ok(Answer::ok((), Json::new(body)))
}

/// 328
pub async fn all_producers(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetAllProducerInfo,
    (): (),
) -> Handled<GetAllProducerInfo> {
    Ok(Answer::ok((), Json::new(broker.clients.producer_table())))
}

/// 41: locks queues for a client of an ordered group, or renews its locks.
pub async fn lock(
    broker: &Arc<Broker>,
    _: &Peer,
    _: LockBatchMq,
    body: Json<LockBatchRequest>,
) -> Handled<LockBatchMq> {
    let LockBatchRequest {
        client_id,
        consumer_group,
        mq_set,
        ..
    } = body.value;
    check_group(&consumer_group).map_err(|e| Refusal::new(codes::INVALID_PARAMETER, e.to_string()))?;
    // Locks are kept for a minute: only for queues that there are.
    let mut mq_set = mq_set;
    mq_set.retain(|queue| (0..MAX_QUEUES).contains(&queue.queue_id) && broker.topics.contains(&queue.topic));
    let lock_ok_mq_set = broker
        .locks
        .lock(&consumer_group, &client_id, mq_set, Instant::now());
    Ok(Answer::ok((), Json::new(LockBatchAnswer { lock_ok_mq_set })))
}

/// 42: releases a client's locks.
pub async fn unlock(
    broker: &Arc<Broker>,
    _: &Peer,
    _: UnlockBatchMq,
    body: Json<LockBatchRequest>,
) -> Handled<UnlockBatchMq> {
    let LockBatchRequest {
        client_id,
        consumer_group,
        mq_set,
        ..
    } = body.value;
    broker.locks.unlock(&consumer_group, &client_id, &mq_set);
    Ok(Answer::ok((), ()))
}
