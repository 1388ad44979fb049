//! Requests that read or edit the topic table: 17, 18, 215, 21, 351, 305.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Broker;
use super::attributes;
use crate::protocol::body::{CreateTopicList, TopicConfig, TopicConfigTable, TopicList};
use crate::protocol::model::DataVersion;
use crate::protocol::requests::{
    DeleteTopicInBroker, GetAllTopicConfig, GetSystemTopicListFromBroker, GetTopicConfig,
    UpdateAndCreateTopic, UpdateAndCreateTopicList,
};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// 17: makes or changes a topic. Answered when topics.json has it and the name servers know.
pub async fn update(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: UpdateAndCreateTopic,
    (): (),
) -> Handled<UpdateAndCreateTopic> {
    let attributes = attributes::parse(header.attributes.as_deref().unwrap_or_default())
        .map_err(|remark| Refusal::new(codes::SYSTEM_ERROR, remark))?;
    let wish = TopicConfig {
        attributes,
        order: header.order,
        perm: header.perm,
        read_queue_nums: header.read_queue_nums,
        topic_filter_type: header.topic_filter_type,
        topic_name: header.topic,
        topic_sys_flag: header.topic_sys_flag,
        write_queue_nums: header.write_queue_nums,
    };
    broker.update_topics(peer, vec![wish]).await?;
    Ok(Answer::ok((), ()))
}

/// 18: makes or changes several topics, all or none.
pub async fn update_list(
    broker: &Arc<Broker>,
    peer: &Peer,
    _: UpdateAndCreateTopicList,
    body: Json<CreateTopicList>,
) -> Handled<UpdateAndCreateTopicList> {
    broker.update_topics(peer, body.value.topic_config_list).await?;
    Ok(Answer::ok((), ()))
}

impl Broker {
    /// Deletes topics and all that hangs on them. Blocks on the disk.
    fn delete_topics(&self, topics: &[String]) -> Result<(), String> {
        let mut known = Vec::new();
        for topic in topics {
            if self.topics.remove(topic) {
                known.push(topic);
            }
            self.offsets.remove_topic(topic);
            self.stats.drop_topic(topic);
            self.pop.remove_topic(topic);
            if let Some(timer) = &self.timer {
                timer.metrics.remove(topic);
            }
        }
        // Both are tried, so that a table that cannot be written leaves as little behind as possible.
        let kept = (self.topics.save().and(self.offsets.save())).map_err(|e| e.to_string());
        for topic in known {
            self.store.delete_topic(topic).map_err(|e| e.to_string())?;
        }
        kept
    }

    async fn update_topics(self: &Arc<Self>, peer: &Peer, wishes: Vec<TopicConfig>) -> Result<(), Refusal> {
        tracing::debug!(peer = %peer.remote(), topics = wishes.len(), "topic update asked for");
        let changed = self.topics.update(wishes, &self.config())?;
        // Also when nothing changed now: what an equal request changed just before may not be kept yet.
        self.kept(|broker| broker.topics.save()).await?;
        if !changed.is_empty() {
            self.register_topics(changed).await;
        }
        Ok(())
    }
}

/// 215: deletes a topic with its queues and everybody's offsets; an absent one is deleted already.
pub async fn delete(
    broker: &Arc<Broker>,
    _: &Peer,
    header: DeleteTopicInBroker,
    (): (),
) -> Handled<DeleteTopicInBroker> {
    let topic = header.topic;
    let illegal = |remark: String| Refusal::new(codes::INVALID_PARAMETER, remark);
    if topic.trim().is_empty() {
        return Err(illegal("The specified topic is blank.".into()));
    }
    if broker.config().validate_system_topic_when_update_topic && broker.topics.is_system(&topic) {
        return Err(illegal(format!(
            "The topic[{topic}] is conflict with system topic."
        )));
    }
    // All of it happens in one task of its own: a client that hangs up leaves nothing half deleted.
    let owner = broker.clone();
    let deleted = tokio::task::spawn_blocking(move || {
        let mut all = owner.pop_retry_topics(&topic);
        all.insert(0, topic);
        owner.delete_topics(&all)
    });
    match deleted.await {
        Ok(Ok(())) => Ok(Answer::ok((), ())),
        Ok(Err(e)) => Err(Refusal::new(codes::SYSTEM_ERROR, e)),
        Err(e) => Err(Refusal::new(
            codes::SYSTEM_ERROR,
            format!("the deletion was aborted: {e}"),
        )),
    }
}

/// 21: the whole table.
pub async fn all(broker: &Arc<Broker>, _: &Peer, _: GetAllTopicConfig, (): ()) -> Handled<GetAllTopicConfig> {
    let body = TopicConfigTable {
        mapping_data_version: Some(DataVersion {
            timestamp: broker.boot_ms,
            ..DataVersion::default()
        }),
        topic_queue_mapping_detail_map: Some(BTreeMap::new()),
        topic_queue_mapping_info_map: Some(BTreeMap::new()),
        ..broker.topics.table()
    };
    Ok(Answer::ok((), Json::new(body)))
}

/// 351: one topic.
pub async fn get(broker: &Arc<Broker>, _: &Peer, header: GetTopicConfig, (): ()) -> Handled<GetTopicConfig> {
    let found = broker.topics.get(&header.topic).ok_or_else(|| {
        let remark = format!("No topic in this broker. topic: {}", header.topic);
        Refusal::new(codes::TOPIC_NOT_EXIST, remark)
    })?;
    Ok(Answer::ok((), Json::new(TopicConfig::clone(&found).into())))
}

/// 305: names of the broker's own topics.
pub async fn system_names(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetSystemTopicListFromBroker,
    (): (),
) -> Handled<GetSystemTopicListFromBroker> {
    let body = TopicList {
        topic_list: broker.topics.system_names(),
        ..TopicList::default()
    };
    Ok(Answer::ok((), Json::new(body)))
}
