//! Giving messages back (36): a copy goes to the group's retry topic behind a delay that grows with every try, and
//! to its dead-letter topic after the last one.

use std::sync::Arc;
use std::time::SystemTime;

use super::put::{PutError, again};
use super::topics::{SCHEDULE_TOPIC, Topics};
use super::{Broker, FAQ};
use crate::protocol::body::{GroupRetryPolicy, TopicConfig};
use crate::protocol::codes;
use crate::protocol::message::{MessageView, NewMessage};
use crate::protocol::model::{DLQ_PREFIX, Perm, RETRY_PREFIX, UNIT_SUB};
use crate::protocol::properties::{self, names};
use crate::protocol::requests::ConsumerSendMsgBack;
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::Appended;

/// From this client version on (`V3_4_9`) a retry may carry its own maximum.
pub(super) const VERSION_OWN_MAXIMUM: i32 = 121;
/// Queues of a dead-letter topic.
const DLQ_QUEUES: i32 = 1;
/// Delay level of the first retry; each further one takes the next level.
const FIRST_LEVEL: i32 = 3;

/// How long a copy waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wait {
    /// By a delay level; 0 is not at all.
    Level(i32),
    /// By the timer, ms; the level is the next longer one, for when the timer refuses.
    Timer(i64, i32),
}

impl Wait {
    /// What a group's policy asks for. Java's broker keeps policies for its proxy and goes by levels alone.
    fn of(policy: &GroupRetryPolicy, times: i32, levels: &[i64], timer: bool) -> Self {
        let Some(delay) = policy.delay_ms(times) else {
            return Self::Level(FIRST_LEVEL.saturating_add(times.max(0)));
        };
        let longer = levels.iter().position(|level| *level >= delay);
        let level = longer.map_or(levels.len(), |at| at + 1) as i32;
        let exact = longer.is_some_and(|at| levels[at] == delay);
        if exact || delay <= 0 || !timer {
            Self::Level(level)
        } else {
            Self::Timer(delay, level)
        }
    }
}

/// 36: a consumer gives a message back.
pub async fn send_back(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: ConsumerSendMsgBack,
    (): (),
) -> Handled<ConsumerSendMsgBack> {
    broker.warm_record(header.offset).await?;
    if let Some(GivenBack { appended, unsaved }) = broker.take_back(peer, &header)? {
        // The consumer moves on now: from here on the copy is all there is.
        broker.until_durable(&appended).await?;
        if unsaved {
            broker.kept(|broker| broker.topics.save()).await?;
        }
    }
    Ok(Answer::ok((), ()))
}

/// What giving a message back left in the store.
struct GivenBack {
    appended: Appended,
    /// The copy's topic is not in the table on disk yet.
    unsaved: bool,
}

impl Broker {
    /// The checks in Java's order, then one append; `None` when the group wants no retries.
    fn take_back(
        self: &Arc<Self>,
        peer: &Peer,
        header: &ConsumerSendMsgBack,
    ) -> Result<Option<GivenBack>, Refusal> {
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
            return Ok(None);
        }
        let sys_flag = if header.unit_mode { UNIT_SUB } else { 0 };
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
        let (topic, wait) = if dead {
            (self.group_topic(DLQ_PREFIX, group, DLQ_QUEUES, 0), Wait::Level(0))
        } else if header.delay_level > 0 {
            (retry, Wait::Level(header.delay_level))
        } else {
            let levels = self.store.config().delay_levels();
            let (policy, times) = (&found.group_retry_policy, view.reconsume_times());
            let wait = Wait::of(policy, times, &levels, self.waiting_rules().timer);
            (retry, wait)
        };
        // The topic may have other numbers than the group by now; a queue that nobody reads is no place for a copy.
        let queues = topic.read_queue_nums.min(topic.write_queue_nums);
        let mut message = NewMessage {
            topic: topic.topic_name.clone(),
            queue_id: any_queue(queues),
            store_host: self.store_host,
            reconsume_times: view.reconsume_times().saturating_add(1),
            prepared_transaction_offset: 0,
            properties: given_back(&view, wait),
            ..again(&view)
        };
        let stored = match (self.put(&message), wait) {
            (Err(PutError::Wait(_)), Wait::Timer(_, level)) => {
                message.properties = given_back(&view, Wait::Level(level));
                self.put(&message)
            }
            (stored, _) => stored,
        };
        let appended = stored.map_err(|e| {
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
        if matches!(wait, Wait::Level(level) if level > 0) {
            // Neither this wait nor a dead letter is among the messages put today.
            self.stats
                .put_aside(SCHEDULE_TOPIC, appended.end - appended.offset);
        }
        if dead {
            self.stats.died(group, origin);
            tracing::info!(
                group,
                topic = origin,
                key = properties.get(names::UNIQ_KEY),
                times = message.reconsume_times,
                "message moved to the dead-letter topic"
            );
        }
        Ok(Some(GivenBack {
            appended,
            unsaved: self.topics.is_behind_with(&topic.topic_name),
        }))
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

/// Properties of the copy: where it came from, how long it waits, and nothing that would start another timer.
fn given_back(view: &MessageView<'_>, wait: Wait) -> String {
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
    match wait {
        Wait::Level(level) => properties::append(&mut text, names::DELAY, &level.to_string()),
        Wait::Timer(delay_ms, _) => {
            properties::remove(&mut text, names::TIMER_OUT_MS);
            properties::append(&mut text, names::TIMER_DELAY_MS, &delay_ms.to_string());
        }
    }
    text
}

/// One of so many queues. The low digits of the clock spread well enough.
pub(super) fn any_queue(queues: i32) -> i32 {
    let nanos = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| t.subsec_nanos());
    (nanos / 128 % queues.max(1).unsigned_abs()) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::{CustomizedRetryPolicy, ExponentialRetryPolicy, GroupRetryPolicyType};

    /// The delays of Java's ExponentialRetryPolicyTest and CustomizedRetryPolicyTest, and the levels they fall on.
    #[test]
    fn policies_of_groups_decide_the_delay() {
        let levels = [1000, 5000, 10_000, 30_000, 60_000];
        let plain = GroupRetryPolicy::default();
        assert_eq!(Wait::of(&plain, 0, &levels, true), Wait::Level(3));
        assert_eq!(Wait::of(&plain, 7, &levels, true), Wait::Level(10));
        assert_eq!(Wait::of(&plain, i32::MAX, &levels, true), Wait::Level(i32::MAX));
        let growing = |initial, max, multiplier| GroupRetryPolicy {
            kind: GroupRetryPolicyType::Exponential,
            exponential_retry_policy: Some(ExponentialRetryPolicy {
                initial,
                max,
                multiplier,
            }),
            ..GroupRetryPolicy::default()
        };
        let policy = growing(5000, 7_200_000, 2);
        assert_eq!(policy.delay_ms(0), Some(5000));
        assert_eq!(policy.delay_ms(1), Some(10_000));
        assert_eq!(policy.delay_ms(2), Some(20_000));
        assert_eq!(policy.delay_ms(100), Some(7_200_000));
        assert_eq!(Wait::of(&policy, -5, &levels, true), Wait::Level(2));
        assert_eq!(Wait::of(&policy, 2, &levels, true), Wait::Timer(20_000, 4));
        assert_eq!(
            Wait::of(&policy, 2, &levels, false),
            Wait::Level(4),
            "never earlier"
        );
        assert_eq!(Wait::of(&policy, 9, &levels, false), Wait::Level(5));
        let absurd = growing(i64::MAX, i64::MAX, i64::MAX);
        assert_eq!(absurd.delay_ms(32), Some(i64::MAX));
        assert_eq!(Wait::of(&growing(-1, 5, 2), 3, &levels, true), Wait::Level(1));
        let listed = |next: Vec<i64>| GroupRetryPolicy {
            customized_retry_policy: Some(CustomizedRetryPolicy { next }),
            ..GroupRetryPolicy::default()
        };
        let policy = listed(vec![1000, 5000, 10_000, 20_000]);
        assert_eq!(policy.delay_ms(0), Some(10_000), "Java skips the first two");
        assert_eq!(policy.delay_ms(-1), Some(10_000));
        assert_eq!(policy.delay_ms(1), Some(20_000));
        assert_eq!(policy.delay_ms(50), Some(20_000));
        assert_eq!(listed(vec![7]).delay_ms(0), Some(7));
        assert_eq!(Wait::of(&listed(vec![]), 0, &levels, true), Wait::Level(3));
        let missing = GroupRetryPolicy {
            kind: GroupRetryPolicyType::Exponential,
            ..GroupRetryPolicy::default()
        };
        assert_eq!(missing.delay_ms(0), None);
    }
}
