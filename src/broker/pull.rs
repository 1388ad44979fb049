//! Pulls (11, 361): the checks in Java's order, the commit that rides along, then the read. A pull that finds
//! nothing and may wait is held here, in plain sight, until its queue's bell, its deadline, or the peer's end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::aside::Read;
use super::clients::Subscription;
use super::cold_flow::Cold;
use super::groups::{TOOLS_GROUP, is_system_group};
use super::stats::Named;
use super::{Broker, FAQ, filter};
use crate::protocol::body::{ConsumeType, MessageModel, SubscriptionGroupConfig, TopicConfig};
use crate::protocol::model::{MASTER_ID, Perm};
use crate::protocol::requests::{LitePullMessage, PullMessage, PullMessageReply};
use crate::protocol::{Records, Request, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::{GetStatus, Got, LIGHT_QUEUE_PREFIX, MessageFilter};

/// Who forbids a pull, as the answer's `forbiddenType` tells.
mod forbidden {
    pub const BROKER: i32 = 1;
    pub const GROUP: i32 = 2;
    pub const TOPIC: i32 = 3;
    pub const BROADCASTING: i32 = 4;
    pub const SUBSCRIPTION: i32 = 5;
}

/// Longest time a pull is held whatever the client asks.
const LONGEST_HOLD: Duration = Duration::from_secs(3600);
/// Pause before a held pull looks for the successor of a deleted queue.
const GONE_PAUSE: Duration = Duration::from_millis(100);

/// 11
pub async fn pull_message(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: PullMessage,
    (): (),
) -> Handled<PullMessage> {
    pull(broker, peer, header).await
}

/// 361
pub async fn lite_pull_message(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: LitePullMessage,
    (): (),
) -> Handled<LitePullMessage> {
    if !broker.config().lite_pull_message_enable {
        let remark = format!(
            "the broker[{}] for lite pull consumer is forbidden",
            broker.config().broker_ip1
        );
        return No::forbid(forbidden::BROKER, remark).into();
    }
    pull(broker, peer, header.into()).await
}

/// A refusal that may say who forbids.
#[derive(Debug)]
struct No {
    refusal: Refusal,
    forbidden_type: Option<i32>,
}

impl No {
    fn forbid(kind: i32, remark: impl Into<String>) -> Self {
        Self {
            refusal: Refusal::new(codes::NO_PERMISSION, remark),
            forbidden_type: Some(kind),
        }
    }

    fn new(code: i32, remark: impl Into<String>) -> Self {
        Self {
            refusal: Refusal::new(code, remark),
            forbidden_type: None,
        }
    }
}

impl<R: Request<Reply = PullMessageReply, ReplyBody = Records>> From<No> for Handled<R> {
    fn from(no: No) -> Self {
        if no.forbidden_type.is_none() {
            return Err(no.refusal);
        }
        Ok(Answer {
            code: no.refusal.code,
            remark: Some(no.refusal.remark),
            header: PullMessageReply {
                forbidden_type: no.forbidden_type,
                ..PullMessageReply::default()
            },
            body: Records::default(),
        })
    }
}

/// What a subscription selects, for a read that may outlive the request.
struct Chosen(Arc<Subscription>);

impl MessageFilter for Chosen {
    fn passes_code(&self, code: i64) -> bool {
        self.0.filter.passes_code(code)
    }

    fn passes_record(&self, record: &[u8]) -> bool {
        self.0.filter.passes_record(record)
    }

    fn is_costly(&self) -> bool {
        self.0.filter.is_costly()
    }
}

/// What the checks found.
struct Allowed {
    group: Arc<SubscriptionGroupConfig>,
    topic: Arc<TopicConfig>,
    subscription: Arc<Subscription>,
}

async fn pull<R: Request<Reply = PullMessageReply, ReplyBody = Records>>(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: PullMessage,
) -> Handled<R> {
    let mut allowed = match broker.check_pull(peer, &header) {
        Ok(allowed) => allowed,
        Err(no) => return no.into(),
    };
    let (group, topic, queue_id) = (&header.consumer_group, &header.topic, header.queue_id);
    let commits = header.sys_flag & PullMessage::COMMIT_OFFSET != 0 && header.commit_offset >= 0;
    if commits && !broker.offsets.has_reset(group, topic, queue_id) {
        let step = broker.config().consumer_offset_update_version_step;
        broker
            .offsets
            .commit(group, topic, queue_id, header.commit_offset, step);
    }
    let until = broker.hold_deadline(&header);
    let mut bell = broker.store.bell(topic, queue_id);
    // Where to look: moves on while held, over messages that the filter drops.
    let mut offset = header.queue_offset;
    let (mut held, mut over) = (false, until.is_none());
    let mut most = usize::try_from(header.max_msg_nums).unwrap_or(0).max(1);
    // Waited already since its group reads too much cold data.
    let mut slowed = false;
    loop {
        if held {
            // Topic, group or permissions may have changed meanwhile.
            allowed = match broker.check_pull(peer, &header) {
                Ok(allowed) => allowed,
                Err(no) => return no.into(),
            };
        }
        if let Some(reset) = broker.offsets.take_reset(group, topic, queue_id) {
            return Ok(broker.answer_pull(&header, &allowed, Outcome::Reset(reset), Duration::ZERO));
        }
        match broker.cold_pull(peer, &header, offset)? {
            Cold::Wait(pause) if !slowed => {
                slowed = true;
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = peer.draining() => {
                        return Err(Refusal::new(codes::SERVICE_NOT_AVAILABLE, "the broker is stopping"));
                    }
                }
                most = 1;
                held = true;
                continue;
            }
            Cold::Wait(_) | Cold::Free => {}
        }
        bell.borrow_and_update();
        let started = Instant::now();
        let mut got = broker.read(&header, offset, most, &allowed.subscription).await?;
        let dropped = got.status == GetStatus::NoMatchedMessage;
        let nothing = code_of(got.status, header.queue_offset) == codes::PULL_NOT_FOUND;
        if over || !(nothing || (held && dropped)) {
            if nothing && offset != header.queue_offset {
                // Only messages that the filter drops came by: the client moves past them.
                got.status = GetStatus::NoMatchedMessage;
            }
            return Ok(broker.answer_pull(&header, &allowed, Outcome::Read(got), started.elapsed()));
        }
        held = true;
        if dropped {
            offset = got.next_offset;
            if offset < got.max_offset {
                tokio::task::yield_now().await;
                continue;
            }
        }
        let until = until.unwrap_or_else(Instant::now);
        tokio::select! {
            rung = bell.changed() => if rung.is_err() {
                // The queue was deleted. A topic of the name may come back, with another bell.
                tokio::time::sleep(GONE_PAUSE).await;
                bell = broker.store.bell(topic, queue_id);
            },
            () = tokio::time::sleep_until(until.into()) => {}
            () = peer.draining() => {
                return Err(Refusal::new(codes::SERVICE_NOT_AVAILABLE, "the broker is stopping"));
            }
        }
        over = Instant::now() >= until;
    }
}

enum Outcome {
    Read(Got),
    Reset(i64),
}

/// The response code of a read, as Java maps it.
fn code_of(status: GetStatus, asked: i64) -> i32 {
    match status {
        GetStatus::Found => codes::SUCCESS,
        GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving => codes::PULL_RETRY_IMMEDIATELY,
        GetStatus::NoMessageInQueue | GetStatus::NoMatchedLogicQueue if asked != 0 => {
            codes::PULL_OFFSET_MOVED
        }
        GetStatus::NoMessageInQueue
        | GetStatus::NoMatchedLogicQueue
        | GetStatus::OffsetFoundNull
        | GetStatus::OffsetOverflowOne => codes::PULL_NOT_FOUND,
        GetStatus::OffsetOverflowBadly | GetStatus::OffsetTooSmall => codes::PULL_OFFSET_MOVED,
    }
}

impl Broker {
    /// The checks of a pull, in Java's order.
    fn check_pull(&self, peer: &Peer, header: &PullMessage) -> Result<Allowed, No> {
        let config = self.config();
        let (group, topic) = (header.consumer_group.as_str(), header.topic.as_str());
        if !Perm(config.broker_permission).readable() {
            let remark = format!("the broker[{}] pulling message is forbidden", config.broker_ip1);
            return Err(No::forbid(forbidden::BROKER, remark));
        }
        let Some(group_config) = self.groups.find(group, &config) else {
            let remark = format!("subscription group [{group}] does not exist, {FAQ}");
            return Err(No::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        if !group_config.consume_enable {
            let remark = format!("subscription group no permission, {group}");
            return Err(No::forbid(forbidden::GROUP, remark));
        }
        let Some(topic_config) = self.topics.get(topic).or_else(|| self.light_topic(topic)) else {
            let remark = format!("topic[{topic}] not exist, apply first please! {FAQ}");
            return Err(No::new(codes::TOPIC_NOT_EXIST, remark));
        };
        if !topic_config.perm.readable() {
            let remark = format!("the topic[{topic}] pulling message is forbidden");
            return Err(No::forbid(forbidden::TOPIC, remark));
        }
        if !(0..topic_config.read_queue_nums).contains(&header.queue_id) {
            let remark = format!(
                "queueId[{}] is illegal, topic:[{topic}] topicConfig.readQueueNums:[{}] consumer:[/{}]",
                header.queue_id,
                topic_config.read_queue_nums,
                peer.remote()
            );
            return Err(No::new(codes::INVALID_PARAMETER, remark));
        }
        let view = self.clients.view(group, topic, peer.id());
        let subscription = if header.sys_flag & PullMessage::SUBSCRIPTION != 0 {
            let text = header.subscription.as_deref().unwrap_or_default();
            let kind = header.expression_type.as_deref().unwrap_or_default();
            let data = filter::parse(topic, text, kind, super::now_ms()).ok_or_else(|| {
                No::new(
                    codes::SUBSCRIPTION_PARSE_FAILED,
                    "parse the consumer's subscription failed",
                )
            })?;
            let known = self.clients.pulled_before(group, &data);
            let subscription = known.unwrap_or_else(|| Arc::new(Subscription::new(data, peer.id())));
            self.clients.note_pulled(group, &subscription, Instant::now());
            subscription
        } else {
            let Some(view) = &view else {
                let remark = format!("the consumer's group info not exist{FAQ}");
                return Err(No::new(codes::SUBSCRIPTION_NOT_EXIST, remark));
            };
            if view.message_model == MessageModel::Broadcasting && !group_config.consume_broadcast_enable {
                let remark = format!("the consumer group[{group}] can not consume by broadcast way");
                return Err(No::forbid(forbidden::BROADCASTING, remark));
            }
            if self.groups.forbids(group, topic) {
                let remark = format!("the consumer group[{group}] is forbidden for topic[{topic}]");
                return Err(No::forbid(forbidden::SUBSCRIPTION, remark));
            }
            let Some(subscription) = view.subscription.clone() else {
                let remark = format!("the consumer's subscription not exist{FAQ}");
                return Err(No::new(codes::SUBSCRIPTION_NOT_EXIST, remark));
            };
            if subscription.data.sub_version < header.sub_version {
                let remark = "the consumer's subscription not latest";
                return Err(No::new(codes::SUBSCRIPTION_NOT_LATEST, remark));
            }
            if let Some(fault) = subscription.filter.fault() {
                let remark = "The broker's consumer filter data is not exist!Your expression may be wrong!";
                return Err(No::new(codes::FILTER_DATA_NOT_EXIST, format!("{remark} {fault}")));
            }
            subscription
        };
        if !subscription.data.is_tag() && !config.enable_property_filter {
            return Err(No::new(
                codes::SYSTEM_ERROR,
                no_filter(&subscription.data.expression_type),
            ));
        }
        if let Some(fault) = subscription.filter.fault() {
            // Java takes a selector of a pull that it cannot read for one that every message satisfies.
            let remark = format!("parse the consumer's subscription failed: {fault}");
            return Err(No::new(codes::SUBSCRIPTION_PARSE_FAILED, remark));
        }
        if config.reject_pull_consumer_enable
            && view.is_none_or(|v| v.consume_type == ConsumeType::Actively && !v.is_member)
            && !is_system_group(group)
        {
            let remark = format!(
                "the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}"
            );
            return Err(No::new(codes::SUBSCRIPTION_NOT_EXIST, remark));
        }
        Ok(Allowed {
            group: group_config,
            topic: topic_config,
            subscription,
        })
    }

    /// The one queue of a light topic, which has no configuration (Java's `enableLmq`); only where the store has it.
    pub(super) fn light_topic(&self, topic: &str) -> Option<Arc<TopicConfig>> {
        let light = topic.starts_with(LIGHT_QUEUE_PREFIX)
            && self.store.config().enable_lmq
            && self.store.max_offset(topic, 0) > 0;
        light.then(|| {
            Arc::new(TopicConfig {
                topic_name: topic.to_owned(),
                read_queue_nums: 1,
                write_queue_nums: 1,
                perm: Perm::READ_WRITE,
                ..TopicConfig::default()
            })
        })
    }

    /// Until when a pull may be held; `None` when it may not.
    fn hold_deadline(&self, header: &PullMessage) -> Option<Instant> {
        if header.sys_flag & PullMessage::SUSPEND == 0 {
            return None;
        }
        let config = self.config();
        let millis = if config.long_polling_enable {
            u64::try_from(header.suspend_timeout_millis).unwrap_or(0)
        } else {
            config.short_polling_time_mills
        };
        Some(Instant::now() + Duration::from_millis(millis).min(LONGEST_HOLD))
    }

    /// Reads what passes the filter.
    async fn read(
        &self,
        header: &PullMessage,
        offset: i64,
        most: usize,
        subscription: &Arc<Subscription>,
    ) -> Result<Got, Refusal> {
        let started = Instant::now();
        let read = Read {
            topic: header.topic.clone(),
            queue_id: header.queue_id,
            offset,
            most,
            filter: Chosen(Arc::clone(subscription)),
        };
        let got = self.read_queue(read).await?;
        self.count_cold(&header.consumer_group, &got);
        self.stats.get_took(started.elapsed());
        Ok(got)
    }

    fn answer_pull<R: Request<Reply = PullMessageReply, ReplyBody = Records>>(
        &self,
        header: &PullMessage,
        allowed: &Allowed,
        outcome: Outcome,
        took: Duration,
    ) -> Answer<R> {
        let (group, topic, queue_id) = (&header.consumer_group, &header.topic, header.queue_id);
        let (code, remark, next, min, max, records) = match outcome {
            Outcome::Reset(offset) => {
                let min = self.store.min_offset(topic, queue_id);
                let max = self.store.max_offset(topic, queue_id);
                let remark = "OFFSET_RESET";
                (codes::PULL_OFFSET_MOVED, remark, offset, min, max, Vec::new())
            }
            Outcome::Read(got) => {
                let code = code_of(got.status, header.queue_offset);
                let remark = got.status.name();
                (
                    code,
                    remark,
                    got.next_offset,
                    got.min_offset,
                    got.max_offset,
                    got.records,
                )
            }
        };
        self.offsets.pulled(group, topic, queue_id, next);
        if code == codes::SUCCESS && group == TOOLS_GROUP {
            // Looking at messages is not consuming them: it moves no figure. Java counts it.
        } else if code == codes::SUCCESS {
            let key = format!("{queue_id}@{topic}@{group}");
            let millis = took.as_millis() as i64;
            self.stats.count(Named::GroupGetLatency, &key, millis);
            let bytes: usize = records.iter().map(bytes::Bytes::len).sum();
            let system = self.topics.is_system(topic) || is_system_group(group);
            self.stats
                .got(group, topic, system, records.len() as i64, bytes as i64);
        } else {
            self.stats.got_nothing();
            if code == codes::PULL_OFFSET_MOVED {
                tracing::info!(
                    group,
                    topic,
                    queue_id,
                    asked = header.queue_offset,
                    next,
                    why = remark,
                    "consumer offset corrected"
                );
            }
        }
        Answer {
            code,
            remark: Some(remark.to_owned()),
            header: PullMessageReply {
                suggest_which_broker_id: Some(MASTER_ID),
                next_begin_offset: Some(next),
                min_offset: Some(min),
                max_offset: Some(max),
                offset_delta: None,
                topic_sys_flag: Some(allowed.topic.topic_sys_flag),
                group_sys_flag: Some(allowed.group.group_sys_flag),
                forbidden_type: None,
            },
            body: Records(records),
        }
    }
}

/// Java's text for a filter that the broker does not evaluate.
pub(super) fn no_filter(kind: &str) -> String {
    format!("The broker does not support consumer to filter message by {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_the_table_of_java() {
        use GetStatus::*;
        for (status, asked, code) in [
            (Found, 5, 0),
            (NoMatchedMessage, 5, 20),
            (MessageWasRemoving, 5, 20),
            (NoMessageInQueue, 0, 19),
            (NoMessageInQueue, 5, 21),
            (NoMatchedLogicQueue, 0, 19),
            (NoMatchedLogicQueue, 5, 21),
            (OffsetFoundNull, 5, 19),
            (OffsetOverflowOne, 5, 19),
            (OffsetOverflowBadly, 5, 21),
            (OffsetTooSmall, -1, 21),
        ] {
            assert_eq!(code_of(status, asked), code, "{status:?} at {asked}");
        }
    }
}
