//! Sends (10, 310, 320): the checks in Java's order, then one append. Nothing is awaited before the append, so
//! that messages of one connection are stored in the order they came.
//!
//! There is no queue of waiting sends, so Java's `[TIMEOUT_CLEAN_QUEUE]` (a send that waited longer than
//! `waitTimeMillsInSendQueue` for a thread) has no counterpart here. Flow control shows as `[PC_SYNCHRONIZED]`, when
//! an append has held the lock for too long; such a send was not stored.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::put;
use super::put::PutError;
use super::send_back::{VERSION_OWN_MAXIMUM, any_queue};
use super::stats::Named;
use super::topics::{SCHEDULE_TOPIC, TIMER_TOPIC, Topics, group_of_retry};
use super::transactions::half_of;
use super::waiting::NoWait;
use super::{Broker, FAQ, attributes, now_ms, recall};
use crate::protocol::body::TopicConfig;
use crate::protocol::message::{MAX_PROPERTIES, NewMessage, parse_batch};
use crate::protocol::message_id::offset_id;
use crate::protocol::model::{
    DLQ_PREFIX, Perm, SysFlag, TopicFilterType, UNIT, UNIT_SUB, check_group, check_topic,
};
use crate::protocol::properties::{self, Properties, names};
use crate::protocol::requests::{SendBatchMessage, SendMessage, SendMessageReply, SendMessageV2};
use crate::protocol::{Request, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::{AppendError, Appended, Durability};

/// 10
pub async fn send_message(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendMessage,
    body: Bytes,
) -> Handled<SendMessage> {
    let batch = header.batch;
    send(broker, peer, header, body, batch).await
}

/// 310
pub async fn send_message_v2(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendMessageV2,
    body: Bytes,
) -> Handled<SendMessageV2> {
    let batch = header.batch;
    send(broker, peer, header.into(), body, batch).await
}

/// 320
pub async fn send_batch(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendBatchMessage,
    body: Bytes,
) -> Handled<SendBatchMessage> {
    send(broker, peer, header.into(), body, true).await
}

async fn send<R: Request<Reply = SendMessageReply, ReplyBody = ()>>(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendMessage,
    body: Bytes,
    batch: bool,
) -> Handled<R> {
    let started = Instant::now();
    let stored = broker.store_sent(peer, header, body, batch);
    let Stored {
        appended,
        count,
        wait,
        topic,
        stored_in,
        unsaved,
        system,
        reply,
    } = stored.map_err(|refusal| broker.failed_send(refusal))?;
    let code = match broker.store.durable(&appended, wait).await {
        Durability::Done => codes::SUCCESS,
        Durability::FlushTimeout => codes::FLUSH_DISK_TIMEOUT,
        Durability::FlushFailed => return Err(broker.failed_send(put::flush_failed())),
    };
    // A message in a topic that a crash takes back is as good as lost.
    if unsaved {
        broker.kept(|broker| broker.topics.save()).await?;
    }
    let (bytes, took) = (appended.end - appended.offset, started.elapsed());
    let stats = &broker.stats;
    stats.put(&topic, system, count, bytes, took);
    let latency_key = format!("{}@{topic}", reply.queue_id);
    stats.count(Named::TopicPutLatency, &latency_key, took.as_millis() as i64);
    if topic == SCHEDULE_TOPIC {
        let key = format!("{topic}@{stored_in}");
        stats.count(Named::QueuePutNums, &key, count);
        stats.count(Named::QueuePutSize, &key, bytes);
    }
    Ok(Answer {
        code,
        remark: None,
        header: reply,
        body: (),
    })
}

/// What a send left in the store.
struct Stored {
    appended: Appended,
    count: i64,
    /// Whether the producer waits for the flush.
    wait: bool,
    /// The topic it is stored under.
    topic: String,
    /// And the queue, which is another one than the producer's where the message waits first.
    stored_in: i32,
    /// The table on the disk lacked the topic that was sent to.
    unsaved: bool,
    system: bool,
    reply: SendMessageReply,
}

/// What the broker looks for in the properties of a send.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    unique_key: Option<String>,
    wait: bool,
    bad_level: bool,
    delayed: bool,
    half: bool,
    producer_group: bool,
    bad_group: bool,
    pop_check: bool,
    /// Names light queues that the message is to be in as well.
    light: bool,
}

impl Asked {
    /// One walk over the text; the last value of a name wins.
    fn of(text: &str) -> Self {
        let mut asked = Self {
            wait: true,
            ..Self::default()
        };
        let mut unique_key = None;
        for (name, value) in Properties::from(text).iter() {
            match name {
                names::UNIQ_KEY => unique_key = Some(value),
                names::WAIT => asked.wait = value.eq_ignore_ascii_case("true"),
                names::DELAY => {
                    let level = value.parse::<i32>();
                    asked.bad_level = level.is_err();
                    asked.delayed = level.is_ok_and(|level| level > 0);
                }
                names::TRAN_MSG => asked.half = value.eq_ignore_ascii_case("true"),
                names::PGROUP => {
                    asked.producer_group = true;
                    asked.bad_group = check_group(value).is_err();
                }
                names::POP_CK => asked.pop_check = true,
                names::INNER_MULTI_DISPATCH => asked.light = true,
                _ => {}
            }
        }
        asked.unique_key = unique_key.map(str::to_owned);
        asked
    }
}

impl Broker {
    /// Counts a refused send. As in Java, its answer tells region and tracing like any other.
    pub(super) fn failed_send(&self, mut refusal: Refusal) -> Refusal {
        self.stats.put_failed(refusal.code == codes::SYSTEM_BUSY);
        let config = self.config();
        refusal.fields.push_str(names::MSG_REGION, &config.region_id);
        let trace_on = if config.trace_on { "true" } else { "false" };
        refusal.fields.push_str(names::TRACE_ON, trace_on);
        refusal
    }

    /// Checks a send and appends it.
    fn store_sent(
        self: &Arc<Self>,
        peer: &Peer,
        mut header: SendMessage,
        body: Bytes,
        batch: bool,
    ) -> Result<Stored, Refusal> {
        if body.is_empty() {
            return Err(illegal("the message body is empty"));
        }
        let mut topic = self.check_send(peer, &header)?;
        let queue_id = pick_queue(header.queue_id, &topic, peer)?;
        let dead = self.is_dead_letter(peer, &header)?;
        if batch && group_of_retry(&header.topic).is_some() {
            let remark = format!("batch request does not support retry group {}", header.topic);
            return Err(illegal(remark));
        }
        let mut text = std::mem::take(&mut header.properties);
        let asked = Asked::of(&text);
        if asked.pop_check {
            properties::remove(&mut text, names::POP_CK);
        }
        let mut stored_in = queue_id;
        let mut half = false;
        if let Some(group) = &dead {
            topic = self.group_topic(DLQ_PREFIX, group, 1, 0);
            stored_in = 0;
            properties::remove(&mut text, names::DELAY);
            // As Java's handleRetryAndDLQ leaves it.
            properties::append(&mut text, names::DELAY, "-1");
        } else {
            if asked.light && self.store.config().enable_multi_dispatch {
                return Err(illegal("this version does not put messages into light queues"));
            }
            if asked.bad_level {
                return Err(illegal("the delay level is not a number"));
            }
            half = self.is_half(&header, &asked, batch)?;
        }
        if half && !asked.producer_group {
            properties::append(&mut text, names::PGROUP, &header.producer_group);
        }
        let multi_tag = topic.topic_filter_type == TopicFilterType::MultiTag;
        let message = NewMessage {
            topic: topic.topic_name.clone(),
            queue_id: stored_in,
            flag: header.flag,
            sys_flag: SysFlag(
                header.sys_flag.0 & !(SysFlag::TRANSACTION_PREPARED | SysFlag::INNER_BATCH)
                    | if multi_tag { SysFlag::MULTI_TAGS } else { 0 },
            ),
            born_timestamp: header.born_timestamp,
            born_host: peer.remote(),
            store_host: self.store_host,
            reconsume_times: header.reconsume_times,
            prepared_transaction_offset: 0,
            body,
            properties: text,
        };
        let placed = if batch {
            self.append_batch(message, asked.unique_key)?
        } else {
            self.append_one(message, asked.unique_key, half)?
        };
        if let Some(group) = dead {
            self.stats.died(&group, &header.topic);
        }
        let config = self.config();
        Ok(Stored {
            appended: placed.appended,
            count: placed.count,
            wait: asked.wait,
            unsaved: self.topics.is_behind_with(&topic.topic_name),
            system: self.topics.is_system(&placed.topic),
            reply: SendMessageReply {
                msg_id: placed.msg_id,
                queue_id,
                queue_offset: placed.appended.queue_offset,
                transaction_id: placed.unique_key,
                recall_handle: placed.recall_handle,
                msg_region: Some(config.region_id.clone()),
                trace_on: Some(config.trace_on),
                ..SendMessageReply::default()
            },
            topic: placed.topic,
            stored_in: placed.queue_id,
        })
    }

    /// The checks up to the queue; finds or makes the topic.
    pub(super) fn check_send(
        self: &Arc<Self>,
        peer: &Peer,
        header: &SendMessage,
    ) -> Result<Arc<TopicConfig>, Refusal> {
        let config = self.config();
        if config.start_accept_send_request_time_stamp > 0
            && now_ms() < config.start_accept_send_request_time_stamp
        {
            let until = config.start_accept_send_request_time_stamp;
            let remark = format!("broker unable to service, until {until}");
            return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
        }
        let topic = header.topic.as_str();
        let may_write = Perm(config.broker_permission).writable();
        if !may_write && (config.rmq_check_write_perm || self.topics.is_order(topic)) {
            let remark = format!("the broker[{}] sending message is forbidden", config.broker_ip1);
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        check_topic(topic).map_err(|e| Refusal::new(codes::INVALID_PARAMETER, e.to_string()))?;
        if Topics::forbids_sends(topic) {
            let remark = format!("Sending message to topic[{topic}] is forbidden.");
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        let found = match self.topics.get(topic) {
            Some(found) => found,
            None => self.make_topic(peer, header)?,
        };
        if let Some((key, value)) = attributes::unsupported(&found.attributes) {
            let remark = format!("topic[{topic}] has {key}={value}, which this version does not support");
            return Err(illegal(remark));
        }
        if config.rmq_check_write_perm && !found.perm.writable() {
            let remark = format!("the topic[{topic}] sending message is forbidden");
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        Ok(found)
    }

    /// Makes the topic of a send by the template it names, or a group's retry topic.
    fn make_topic(self: &Arc<Self>, peer: &Peer, header: &SendMessage) -> Result<Arc<TopicConfig>, Refusal> {
        let topic = header.topic.as_str();
        let is_retry = group_of_retry(topic).is_some();
        let sys_flag = match (header.unit_mode, is_retry) {
            (false, _) => 0,
            (true, true) => UNIT_SUB,
            (true, false) => UNIT,
        };
        let config = self.config();
        let queues = header.default_topic_queue_nums;
        let made = self
            .topics
            .create_like(topic, &header.default_topic, queues, sys_flag, &config)
            .or_else(|| is_retry.then(|| self.topics.create_for_group(topic, 1, false, sys_flag)));
        let Some((made, new)) = made else {
            tracing::debug!(topic, producer = %peer.remote(), template = %header.default_topic,
                "send to a missing topic refused");
            let remark = format!("topic[{topic}] not exist, apply first please!{FAQ}");
            return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
        };
        if new {
            // The name servers are told beside the append, not before it.
            drop(self.register_topics(vec![made.clone()]));
        }
        Ok(made)
    }

    /// The group whose dead letter this send to a retry topic is, if it is one: retried too often, or of an ordered
    /// group, which gives a message back only after its last try.
    fn is_dead_letter(&self, peer: &Peer, header: &SendMessage) -> Result<Option<String>, Refusal> {
        let Some(group) = group_of_retry(&header.topic) else {
            return Ok(None);
        };
        let Some(found) = self.groups.find(group, &self.config()) else {
            let remark = format!("subscription group not exist, {group} {FAQ}");
            return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
        };
        let own = header
            .max_reconsume_times
            .filter(|_| peer.version() >= VERSION_OWN_MAXIMUM);
        let most = own.unwrap_or(found.retry_max_times);
        let dead = header.reconsume_times > most || self.locks.any_held(group, Instant::now());
        Ok(dead.then(|| group.to_owned()))
    }

    /// Whether a send is a half message. What would be stored and never delivered is refused.
    fn is_half(&self, header: &SendMessage, asked: &Asked, batch: bool) -> Result<bool, Refusal> {
        let transaction = header.sys_flag.transaction();
        if transaction == SysFlag::TRANSACTION_ROLLBACK {
            return Err(illegal(
                "the system flag has the bits of a transaction that cannot be",
            ));
        }
        if !asked.half {
            return if transaction == SysFlag::TRANSACTION_PREPARED {
                Err(illegal(
                    "the system flag says half message, the property TRAN_MSG does not",
                ))
            } else {
                Ok(false)
            };
        }
        if batch {
            return Err(illegal("a batch cannot be half of a transaction"));
        }
        if header.reconsume_times > 0 && asked.delayed {
            // A retry by a client below 4.6.1 still carries the mark of the transaction it was part of.
            return Ok(false);
        }
        let config = self.config();
        if config.reject_transaction_message {
            let remark = format!(
                "the broker[{}] sending transaction message is forbidden",
                config.broker_ip1
            );
            return Err(Refusal::new(codes::NO_PERMISSION, remark));
        }
        if !asked.producer_group {
            check_group(&header.producer_group).map_err(|e| illegal(e.to_string()))?;
        }
        if asked.bad_group {
            return Err(illegal("the property PGROUP is no name of a group"));
        }
        Ok(true)
    }

    fn append_one(
        &self,
        mut message: NewMessage,
        key: Option<String>,
        half: bool,
    ) -> Result<Placed, Refusal> {
        let key = key.unwrap_or_else(|| {
            let key = self.unique_keys.next(now_ms(), self.utc_offset_s);
            properties::append(&mut message.properties, names::UNIQ_KEY, &key);
            key
        });
        properties::append_all(&mut message.properties, &self.suffix.load());
        // A half message is put where it waits for its time when it is committed; a time that cannot be is refused now.
        let placed = self.place(&message).map_err(|e| refusal(self, e))?;
        let out_ms = Properties::from(placed.properties.as_str())
            .get(names::TIMER_OUT_MS)
            .and_then(|out| out.parse().ok())
            .filter(|_| !half && placed.topic == TIMER_TOPIC && group_of_retry(&message.topic).is_none());
        let recall_handle =
            out_ms.map(|out| recall::handle(&message.topic, &self.config().broker_name, out, &key));
        let (topic, queue_id, appended) = if half {
            drop(placed);
            let half = half_of(message, &key);
            let appended = self.put_half(&half).map_err(|e| refusal(self, e))?;
            (half.topic, half.queue_id, appended)
        } else {
            let appended = self.store.append(&placed).map_err(|e| refusal(self, e))?;
            let placed = placed.into_owned();
            (placed.topic, placed.queue_id, appended)
        };
        Ok(Placed {
            recall_handle,
            topic,
            queue_id,
            appended,
            count: 1,
            msg_id: offset_id(&self.store_host, appended.offset),
            unique_key: Some(key),
        })
    }

    /// Stores every item with its own properties, the batch's behind them: Java's consumers then see the batch's
    /// unique key on each.
    fn append_batch(&self, batch: NewMessage, key: Option<String>) -> Result<Placed, Refusal> {
        if batch.body.len() > self.store.config().max_message_size {
            return Err(refusal(self, AppendError::Illegal(String::new())));
        }
        let items = parse_batch(&batch.body)?;
        if items.is_empty() {
            return Err(illegal("the batch is empty"));
        }
        // A batch that asks for a delay waits item by item, as in Java.
        let batch = self.place(&batch).map_err(|e| refusal(self, e))?.into_owned();
        let mut shared = batch.properties.clone();
        properties::append_all(&mut shared, &self.suffix.load());
        let messages: Vec<NewMessage> = items
            .into_iter()
            .map(|item| {
                let mut text = item.properties;
                properties::append_all(&mut text, &shared);
                NewMessage {
                    topic: batch.topic.clone(),
                    flag: item.flag,
                    body: item.body,
                    properties: text,
                    ..batch
                }
            })
            .collect();
        let count = messages.len() as i64;
        let (appended, offsets) = self.store.append_batch(&messages).map_err(|e| refusal(self, e))?;
        let ids: Vec<String> = offsets
            .iter()
            .map(|&offset| offset_id(&self.store_host, offset))
            .collect();
        Ok(Placed {
            queue_id: batch.queue_id,
            topic: batch.topic,
            appended,
            count,
            msg_id: ids.join(","),
            unique_key: key,
            recall_handle: None,
        })
    }
}

/// A refused append as Java answers it.
pub(super) fn refusal(broker: &Broker, error: impl Into<PutError>) -> Refusal {
    let error = match error.into() {
        PutError::Append(error) => error,
        PutError::Wait(error) => return no_wait(broker, error),
    };
    match error {
        AppendError::Illegal(_) => illegal(format!(
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit \
             {}B, msg properties length limit {}KB.",
            broker.store.config().max_message_size,
            (MAX_PROPERTIES + 1) / 1024
        )),
        AppendError::NotWritable(reason) => Refusal::new(
            codes::SERVICE_NOT_AVAILABLE,
            format!("service not available now. {reason}"),
        ),
        AppendError::Busy => Refusal::new(
            codes::SYSTEM_BUSY,
            "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
        ),
        AppendError::CreateFailed(reason) => Refusal::new(
            codes::SYSTEM_ERROR,
            format!("create mapped file failed, server is busy or broken. {reason}"),
        ),
    }
}

/// A refused time as Java answers it.
fn no_wait(broker: &Broker, error: NoWait) -> Refusal {
    match error {
        NoWait::Illegal => illegal(format!(
            "timer message illegal, the delay time should not be bigger than the max delay {}ms; or if set del msg, \
             the delay time should be bigger than the current time",
            broker.max_delay_ms()
        )),
        NoWait::Off => Refusal::new(
            codes::SYSTEM_ERROR,
            "accurate timer message is not enabled, timerWheelEnable is false",
        ),
        NoWait::Congested => Refusal::new(codes::SYSTEM_ERROR, {
            let most = i64::from(broker.store.config().timer_congest_num_each_slot);
            format!(
                "timer message is under flow control, max num limit is {} or the current value is greater than \
                     {most} and less than {}, trigger random flow control",
                most * 2,
                most * 2
            )
        }),
    }
}

/// What was appended.
struct Placed {
    /// The topic it is stored under: that of what waits when it waits.
    topic: String,
    queue_id: i32,
    appended: Appended,
    /// Number of records.
    count: i64,
    msg_id: String,
    unique_key: Option<String>,
    /// With which a message that waits for its time is taken back.
    recall_handle: Option<String>,
}

fn illegal(remark: impl Into<String>) -> Refusal {
    Refusal::new(codes::MESSAGE_ILLEGAL, remark)
}

/// The queue asked for, or any writable one when none was. A queue between the write and the read count stays
/// open, since a topic is shrunk that way.
pub(super) fn pick_queue(wanted: i32, topic: &TopicConfig, peer: &Peer) -> Result<i32, Refusal> {
    if wanted < topic.write_queue_nums.max(topic.read_queue_nums) {
        if wanted >= 0 {
            return Ok(wanted);
        }
        if topic.write_queue_nums > 0 {
            return Ok(any_queue(topic.write_queue_nums));
        }
    }
    let remark = format!(
        "request queueId[{wanted}] is illegal, TopicConfig [topicName={}, readQueueNums={}, writeQueueNums={}, \
         perm={}, topicFilterType={}, topicSysFlag={}, order={}, attributes={:?}] Producer: {}",
        topic.topic_name,
        topic.read_queue_nums,
        topic.write_queue_nums,
        topic.perm,
        match topic.topic_filter_type {
            TopicFilterType::SingleTag => "SINGLE_TAG",
            TopicFilterType::MultiTag => "MULTI_TAG",
        },
        topic.topic_sys_flag,
        topic.order,
        topic.attributes,
        peer.remote(),
    );
    Err(Refusal::new(codes::INVALID_PARAMETER, remark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pairs: &[(&str, &str)]) -> String {
        let mut text = String::new();
        for (name, value) in pairs {
            properties::append(&mut text, name, value);
        }
        text
    }

    #[test]
    fn the_last_value_of_a_property_counts() {
        let asked = Asked::of(&text(&[("UNIQ_KEY", "A"), ("WAIT", "false"), ("UNIQ_KEY", "B")]));
        assert_eq!(asked.unique_key.as_deref(), Some("B"));
        assert!(!asked.wait);
        assert!(Asked::of("").wait, "absent means true");
    }

    #[test]
    fn what_waits_is_noticed() {
        assert!(!Asked::of(&text(&[("DELAY", "-3")])).bad_level);
        assert!(Asked::of(&text(&[("DELAY", "99999999999")])).bad_level);
        assert!(Asked::of(&text(&[("TRAN_MSG", "true")])).half);
        assert!(!Asked::of(&text(&[("TRAN_MSG", "false")])).half);
        assert!(Asked::of(&text(&[("POP_CK", "x")])).pop_check);
    }

    #[test]
    fn queues_between_write_and_read_count_stay_open() {
        let peer = Peer::detached("127.0.0.1:1".parse().unwrap());
        let topic = TopicConfig {
            topic_name: "t".into(),
            read_queue_nums: 4,
            write_queue_nums: 2,
            ..TopicConfig::default()
        };
        for queue in 0..4 {
            assert_eq!(pick_queue(queue, &topic, &peer), Ok(queue));
        }
        for _ in 0..50 {
            assert!((0..2).contains(&pick_queue(-1, &topic, &peer).unwrap()));
        }
        let refused = pick_queue(4, &topic, &peer).unwrap_err();
        assert_eq!(refused.code, codes::INVALID_PARAMETER);
        assert!(
            refused
                .remark
                .starts_with("request queueId[4] is illegal, TopicConfig [topicName=t,")
        );
        assert!(refused.remark.ends_with("Producer: 127.0.0.1:1"));
        let closed = TopicConfig {
            write_queue_nums: 0,
            ..topic
        };
        assert!(pick_queue(-1, &closed, &peer).is_err());
    }
}
