//! Pops (200050): the checks in Java's order, then a try; one that finds nothing is held here until it is woken, a
//! blocked queue is free, its time is over, or the peer ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::handle::{Kind, ORDERLY};
use super::polls::PollKey;
use super::take::{Taken, Wanted};
use crate::broker::clients::Subscription;
use crate::broker::{Broker, FAQ, filter, now_ms};
use crate::protocol::body::{SubscriptionData, TopicConfig};
use crate::protocol::model::Perm;
use crate::protocol::requests::{PopMessage, PopMessageReply};
use crate::protocol::{Records, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// Longest time a request is held whatever the client asks.
const LONGEST_HOLD: i64 = 3_600_000;
/// Most messages of one pop.
const MOST: i32 = 32;
/// A pop whose time was over this long ago is not looked at, ms.
const TOO_LATE: i64 = 500;
/// A held request is answered this long before its time, ms.
const ANSWER_EARLY: i64 = 50;
/// Longest time a message may be hidden: what the timer takes, ms.
pub(super) const LONGEST_INVISIBLE: i64 = 3 * 24 * 3600 * 1000;
/// Longest name a queue directory can have.
const LONGEST_NAME: usize = 255;

/// 200050
pub async fn pop_message(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: PopMessage,
    (): (),
) -> Handled<PopMessage> {
    match pop(broker, peer, header).await {
        Ok(answer) => Ok(answer),
        // Clients read the numbers of any answer.
        Err(refusal) => Ok(Answer {
            code: refusal.code,
            remark: Some(refusal.remark),
            header: PopMessageReply::default(),
            body: Records::default(),
        }),
    }
}

async fn pop(broker: &Arc<Broker>, peer: &Peer, header: PopMessage) -> Result<Answer<PopMessage>, Refusal> {
    let mut header = header;
    if header.born_time <= 0 {
        header.born_time = now_ms();
    }
    header.queue_id = header.queue_id.max(-1);
    let mut wanted = broker.check_pop(peer, header)?;
    let key = PollKey {
        topic: wanted.header.topic.clone(),
        group: wanted.header.consumer_group.clone(),
        queue_id: wanted.header.queue_id,
    };
    let mut taken = broker.take(&wanted);
    let until = hold_until(wanted.header.born_time, wanted.header.poll_time);
    let mut code = codes::POLLING_TIMEOUT;
    if taken.is_nothing()
        && let Some(until) = until
    {
        if let Some(held) = broker.pop.pops.hold(broker, key.clone()) {
            // Whatever came between the first try and the place in the line is found by the next.
            loop {
                held.settle();
                taken = broker.take(&wanted);
                if !taken.is_nothing() || Instant::now() >= until {
                    break;
                }
                if taken.more {
                    tokio::task::yield_now().await;
                    continue;
                }
                let wake_at = earlier(until, taken.free_at);
                tokio::select! {
                    () = held.woken() => {}
                    () = tokio::time::sleep_until(wake_at.into()) => {}
                    () = peer.draining() => {
                        return Err(Refusal::new(codes::SERVICE_NOT_AVAILABLE, "the broker is stopping"));
                    }
                }
                // Topic, group or permissions may have changed meanwhile.
                wanted = broker.check_held_pop(peer, wanted)?;
            }
        } else {
            code = codes::POLLING_FULL;
        }
    }
    if taken.busy || taken.more {
        broker.pop.pops.wake(&key);
    }
    if let Some(refusal) = taken.refusal.take_if(|_| taken.records.is_empty()) {
        return Err(refusal);
    }
    if let Some(appended) = taken.appended {
        broker.until_durable(&appended).await?;
    }
    if !taken.records.is_empty() {
        code = codes::SUCCESS;
    } else {
        broker.stats.got_nothing();
    }
    Ok(answer(&wanted, taken, code))
}

impl Taken {
    /// True when there is nothing to answer with.
    fn is_nothing(&self) -> bool {
        self.records.is_empty() && self.refusal.is_none()
    }
}

fn answer(wanted: &Wanted, taken: Taken, code: i32) -> Answer<PopMessage> {
    let remark = if code == codes::SUCCESS {
        "FOUND"
    } else {
        "NO_MESSAGE_IN_QUEUE"
    };
    debug_assert!(!wanted.header.order || taken.revive_queue == ORDERLY);
    Answer {
        code,
        remark: Some(remark.to_owned()),
        header: PopMessageReply {
            invisible_time: wanted.header.invisible_time,
            msg_offset_info: Some(taken.infos.messages),
            order_count_info: wanted.header.order.then_some(taken.infos.counts),
            pop_time: taken.pop_time,
            rest_num: taken.rest,
            revive_qid: taken.revive_queue,
            start_offset_info: Some(taken.infos.start),
        },
        body: Records(taken.records),
    }
}

/// Until when a request may be held; `None` when it may not.
pub(super) fn hold_until(born_time: i64, poll_time: i64) -> Option<Instant> {
    if poll_time <= 0 {
        return None;
    }
    // The client's clock may be ahead of ours.
    let left = born_time
        .saturating_add(poll_time)
        .saturating_sub(ANSWER_EARLY)
        .saturating_sub(now_ms())
        .min(poll_time)
        .min(LONGEST_HOLD);
    let left = u64::try_from(left).ok().filter(|&left| left > 0)?;
    Some(Instant::now() + Duration::from_millis(left))
}

/// The earlier of a deadline and a time of the clock, ms.
pub(super) fn earlier(until: Instant, at_ms: Option<i64>) -> Instant {
    let Some(at_ms) = at_ms else {
        return until;
    };
    let left = u64::try_from(at_ms.saturating_sub(now_ms())).unwrap_or(0);
    // Not before the clock has passed it, or the try would come a moment too soon.
    until.min(Instant::now() + Duration::from_millis(left + 1))
}

impl Broker {
    /// The checks of a pop, in Java's order.
    fn check_pop(&self, peer: &Peer, header: PopMessage) -> Result<Wanted, Refusal> {
        let config = self.config();
        let own = config.broker_ip1.as_str();
        let refuse = |code, remark: String| Err(Refusal::new(code, remark));
        if now_ms()
            .saturating_sub(header.born_time)
            .saturating_sub(header.poll_time)
            > TOO_LATE
        {
            return refuse(
                codes::POLLING_TIMEOUT,
                format!("the broker[{own}] pop message is timeout too much"),
            );
        }
        if !Perm(config.broker_permission).readable() {
            return refuse(
                codes::NO_PERMISSION,
                format!("the broker[{own}] pop message is forbidden"),
            );
        }
        if header.max_msg_nums > MOST {
            return refuse(
                codes::INVALID_PARAMETER,
                format!("the broker[{own}] pop message's num is greater than 32"),
            );
        }
        let most = usize::try_from(header.max_msg_nums).unwrap_or(0);
        if most == 0 {
            let remark = format!("maxMsgNums={}: allowed is 1 to {MOST}", header.max_msg_nums);
            return refuse(codes::INVALID_PARAMETER, remark);
        }
        check_invisible(header.invisible_time)?;
        if self.timer.is_none() {
            return refuse(
                codes::SYSTEM_ERROR,
                format!("the broker[{own}] pop message is forbidden because timerWheelEnable is false"),
            );
        }
        self.check_reader(
            peer,
            &header.topic,
            &header.consumer_group,
            header.queue_id,
            "peeking",
        )?;
        let retry = Kind::RetryV1.topic(&header.topic, &header.consumer_group);
        if retry.len() > LONGEST_NAME {
            let remark = format!("topic and group are too long for the retry topic {retry}");
            return refuse(codes::INVALID_PARAMETER, remark);
        }
        let subscription = self.pop_subscription(peer, &header)?;
        Ok(Wanted {
            header,
            subscription,
            most,
        })
    }

    /// The checks again for a held pop: those whose outcome may have changed.
    fn check_held_pop(&self, peer: &Peer, wanted: Wanted) -> Result<Wanted, Refusal> {
        let header = &wanted.header;
        if !Perm(self.config().broker_permission).readable() {
            let remark = format!(
                "the broker[{}] pop message is forbidden",
                self.config().broker_ip1
            );
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        self.check_reader(
            peer,
            &header.topic,
            &header.consumer_group,
            header.queue_id,
            "peeking",
        )?;
        Ok(wanted)
    }

    /// Checks that a group may read a queue of a topic.
    pub(super) fn check_reader(
        &self,
        peer: &Peer,
        topic: &str,
        group: &str,
        queue_id: i32,
        doing: &str,
    ) -> Result<Arc<TopicConfig>, Refusal> {
        let Some(config) = self.topics.get(topic) else {
            let remark = format!("topic[{topic}] not exist, apply first please! {FAQ}");
            return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
        };
        if !config.perm.readable() {
            let remark = format!("the topic[{topic}] {doing} message is forbidden");
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        if queue_id >= config.read_queue_nums {
            let remark = bad_queue(queue_id, &config, peer);
            return Err(Refusal::new(codes::INVALID_PARAMETER, remark));
        }
        let Some(found) = self.groups.find(group, &self.config()) else {
            let remark = format!("subscription group [{group}] does not exist, {FAQ}");
            return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        if !found.consume_enable {
            let remark = format!("subscription group no permission, {group}");
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        Ok(config)
    }

    /// What a pop asks for; remembered for the group, with its retry topics.
    fn pop_subscription(&self, peer: &Peer, header: &PopMessage) -> Result<Arc<Subscription>, Refusal> {
        let text = header.exp.as_deref().unwrap_or_default();
        let kind = header.exp_type.as_deref().unwrap_or_default();
        let parsed = if text.is_empty() {
            filter::parse(&header.topic, SubscriptionData::ALL, "", now_ms())
        } else {
            filter::parse(&header.topic, text, kind, now_ms())
        };
        let failed = || {
            Refusal::new(
                codes::SUBSCRIPTION_PARSE_FAILED,
                "parse the consumer's subscription failed",
            )
        };
        let data = parsed.ok_or_else(failed)?;
        let (group, now) = (header.consumer_group.as_str(), Instant::now());
        let known = self.clients.pulled_before(group, &data);
        let subscription = known.unwrap_or_else(|| Arc::new(Subscription::new(data, peer.id())));
        if let Some(fault) = subscription.filter.fault() {
            return Err(Refusal::new(
                codes::SUBSCRIPTION_PARSE_FAILED,
                format!("parse the consumer's subscription failed: {fault}"),
            ));
        }
        self.clients.note_pulled(group, &subscription, now);
        for kind in self.retry_kinds() {
            let retry = kind.topic(&header.topic, group);
            if !self.clients.renew_pulled(group, &retry, now)
                && let Some(all) = filter::parse(&retry, SubscriptionData::ALL, "", now_ms())
            {
                let all = Arc::new(Subscription::new(all, peer.id()));
                self.clients.note_pulled(group, &all, now);
            }
        }
        Ok(subscription)
    }
}

/// Refuses an invisible time that is negative, or longer than the timer can keep.
pub(super) fn check_invisible(millis: i64) -> Result<(), Refusal> {
    if (0..=LONGEST_INVISIBLE).contains(&millis) {
        return Ok(());
    }
    let remark = format!("invisibleTime={millis}: allowed is 0 to {LONGEST_INVISIBLE} ms");
    Err(Refusal::new(codes::INVALID_PARAMETER, remark))
}

/// Java's text for a queue that the topic does not have.
pub(super) fn bad_queue(queue_id: i32, topic: &TopicConfig, peer: &Peer) -> String {
    format!(
        "queueId[{queue_id}] is illegal, topic:[{}] topicConfig.readQueueNums:[{}] consumer:[/{}]",
        topic.topic_name,
        topic.read_queue_nums,
        peer.remote()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hold_follows_the_clients_clock_within_bounds() {
        let left = |born: i64, poll: i64| {
            hold_until(born, poll).map(|until| until.saturating_duration_since(Instant::now()).as_millis())
        };
        let now = now_ms();
        assert_eq!(left(now, 0), None);
        assert_eq!(left(now - 5000, 5000), None, "over already");
        assert!(left(now, 5000).unwrap() <= 4950);
        assert!(
            left(now + 1_000_000, 5000).unwrap() <= 5000,
            "a clock ahead of ours"
        );
        assert!(left(i64::MAX, i64::MAX).unwrap() <= LONGEST_HOLD as u128);
    }

    #[test]
    fn invisible_times_have_limits() {
        assert!(check_invisible(0).is_ok() && check_invisible(LONGEST_INVISIBLE).is_ok());
        for bad in [-1, LONGEST_INVISIBLE + 1, i64::MAX, i64::MIN] {
            assert_eq!(check_invisible(bad).unwrap_err().code, codes::INVALID_PARAMETER);
        }
    }
}
