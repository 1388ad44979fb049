//! Giving messages back (36): a copy goes to the group's retry topic behind a delay that grows with every try, and
//! to its dead-letter topic after the last one.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::put::again;
use super::topics::Topics;
use super::{Broker, FAQ};
use crate::protocol::body::TopicConfig;
use crate::protocol::codes;
use crate::protocol::message::{MessageView, NewMessage};
use crate::protocol::model::{DLQ_PREFIX, Perm, RETRY_PREFIX};
use crate::protocol::properties::{self, names};
use crate::protocol::requests::ConsumerSendMsgBack;
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// From this client version on (`V3_4_9`) a retry may carry its own maximum.
pub(super) const VERSION_OWN_MAXIMUM: i32 = 121;
/// Queues of a dead-letter topic.
const DLQ_QUEUES: i32 = 1;
/// Delay level of the first retry; each further one takes the next level.
const FIRST_LEVEL: i32 = 3;
/// System flag of a retry topic made by a consumer in unit mode.
const UNIT_SUBSCRIPTION: i32 = 2;

/// 36: a consumer gives a message back.
pub async fn send_back(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: ConsumerSendMsgBack,
    (): (),
) -> Handled<ConsumerSendMsgBack> {
    broker.take_back(peer, &header)?;
    Ok(Answer::ok((), ()))
}

impl Broker {
    /// The checks in Java's order, then one append.
    fn take_back(self: &Arc<Self>, peer: &Peer, header: &ConsumerSendMsgBack) -> Result<(), Refusal> {
        let config = self.config();
        let group = header.group.as_str();
        let Some(found) = self.groups.find(group, &config) else {
            let remark = format!("subscription group not exist, {group} {FAQ}");
            return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        if !Perm(config.broker_permission).writable() {
            let remark = format!("the broker[{}] sending message is forbidden", config.broker_ip1);
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        if found.retry_queue_nums <= 0 {
            // A group without retry queues wants no retries: the message is dropped, as in Java.
            return Ok(());
        }
        let sys_flag = if header.unit_mode { UNIT_SUBSCRIPTION } else { 0 };
        let retry = self.group_topic(RETRY_PREFIX, group, found.retry_queue_nums, sys_flag);
        if !retry.perm.writable() {
            let remark = format!("the topic[{}] sending message is forbidden", retry.topic_name);
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        let lost = || {
            let remark = format!("look message by offset failed, {}", header.offset);
            Refusal::new(codes::SYSTEM_ERROR, remark)
        };
        let record = self.store.record_at(header.offset).ok_or_else(lost)?;
        let view = MessageView::parse(&record).map_err(|_| lost())?;
        if Topics::is_internal(view.topic()) {
            // A half message or a delayed one must not come out this way.
            let remark = format!(
                "the message at offset {} belongs to the system topic[{}], it cannot be given back",
                header.offset,
                view.topic()
            );
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        let own = header
            .max_reconsume_times
            .filter(|_| peer.version() >= VERSION_OWN_MAXIMUM);
        let most = own.unwrap_or(found.retry_max_times);
        let dead = view.reconsume_times() >= most || header.delay_level < 0;
        let (topic, level) = if dead {
            (self.group_topic(DLQ_PREFIX, group, DLQ_QUEUES, 0), 0)
        } else {
            let level = match header.delay_level {
                0 => FIRST_LEVEL.saturating_add(view.reconsume_times().max(0)),
                asked => asked,
            };
            (retry, level)
        };
        let queues = if dead { DLQ_QUEUES } else { found.retry_queue_nums };
        let message = NewMessage {
            topic: topic.topic_name.clone(),
            queue_id: any_queue(queues),
            store_host: self.store_host,
            reconsume_times: view.reconsume_times().saturating_add(1),
            prepared_transaction_offset: 0,
            properties: given_back(&view, level),
            ..again(&view)
        };
        let appended = self.put(&message).map_err(|e| {
            tracing::warn!(group, error = %e, "a message that was given back was not stored");
            Refusal::new(codes::SYSTEM_ERROR, e.to_string())
        })?;
        let properties = view.properties();
        // Figures are kept by topic, and a producer may have put any text there.
        let origin = properties
            .get(names::RETRY_TOPIC)
            .filter(|topic| self.topics.contains(topic))
            .unwrap_or(view.topic());
        self.stats.sent_back(group, origin);
        if dead {
            let bytes = appended.end - appended.offset;
            self.stats.put(&topic.topic_name, false, 1, bytes, Duration::ZERO);
            self.stats.died(group, origin);
            tracing::info!(
                group,
                topic = origin,
                key = properties.get(names::UNIQ_KEY),
                times = message.reconsume_times,
                "message moved to the dead-letter topic"
            );
        }
        Ok(())
    }

    /// The group's retry or dead-letter topic, made if it is missing. A topic that is there stays as it is.
    pub(super) fn group_topic(
        self: &Arc<Self>,
        prefix: &str,
        group: &str,
        queues: i32,
        sys_flag: i32,
    ) -> Arc<TopicConfig> {
        let name = format!("{prefix}{group}");
        if let Some(found) = self.topics.get(&name) {
            return found;
        }
        let (made, new) = self.topics.create_for_group(&name, queues, false, sys_flag);
        if new {
            drop(self.register_topics(vec![made.clone()]));
        }
        made
    }
}

/// Properties of the copy: where it came from, the level of its delay, and nothing that would start a timer.
fn given_back(view: &MessageView<'_>, level: i32) -> String {
    let old = view.properties();
    let mut text = String::from_utf8_lossy(old.as_bytes()).into_owned();
    for name in [
        names::TIMER_DELAY_SEC,
        names::TIMER_DELAY_MS,
        names::TIMER_DELIVER_MS,
        names::WAIT,
        names::DELAY,
    ] {
        properties::remove(&mut text, name);
    }
    if old.get(names::RETRY_TOPIC).is_none() {
        properties::append(&mut text, names::RETRY_TOPIC, view.topic());
    }
    if old
        .get(names::ORIGIN_MESSAGE_ID)
        .is_none_or(|id| id.trim().is_empty())
    {
        properties::remove(&mut text, names::ORIGIN_MESSAGE_ID);
        properties::append(&mut text, names::ORIGIN_MESSAGE_ID, &view.offset_id());
    }
    properties::append(&mut text, names::WAIT, "false");
    properties::append(&mut text, names::DELAY, &level.to_string());
    text
}

/// One of so many queues. The low digits of the clock spread well enough.
pub(super) fn any_queue(queues: i32) -> i32 {
    let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.subsec_nanos());
    (nanos / 128 % queues.max(1).unsigned_abs()) as i32
}
