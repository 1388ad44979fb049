//! A consumer: just enough for the demo and tests. One client owns all queues of its topic, reads them with long
//! polling and commits what was handled.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::admin::message::{PullStatus, QueueAt, queues};
use super::error::Error;
use super::produce::{brokers, local_ip, now_ms};
use super::{Client, Deadline, Message};
use crate::protocol::body::{
    ConsumeFromWhere, ConsumerData, ConsumerRunningInfo, HeartbeatData, ProcessQueueInfo, SubscriptionData,
};
use crate::protocol::frame::Frame;
use crate::protocol::model::{MessageQueue, check_group};
use crate::protocol::requests::{
    GetConsumerRunningInfo, HeartBeat, PullMessage, QueryConsumerOffset, UnregisterClient,
    UpdateConsumerOffset,
};
use crate::protocol::{Body as _, Json, Request as _, codes};
use crate::remoting::{Peer, Refusal, Reply, Service};

/// Pause between two heartbeats, and between two looks at the route.
const BEAT: Duration = Duration::from_secs(20);
/// How long a broker holds a pull.
const HOLD: Duration = Duration::from_secs(15);
/// What a held pull may take beyond [`HOLD`]: a Java broker looks at expired holds every 5 s.
const GRACE: Duration = Duration::from_secs(10);
/// Pause after a failed request.
const REST: Duration = Duration::from_secs(1);
/// Messages of one pull.
const BATCH: i32 = 32;

/// Handles one batch; the pace of the group is the pace of this function. Errors are the handler's own business.
pub type Handler = Arc<dyn Fn(Vec<Message>) -> futures_util::future::BoxFuture<'static, ()> + Send + Sync>;

/// The consumers of a client, for what a broker asks them over the client's connections.
#[derive(Debug, Default)]
pub(super) struct Asked(Mutex<HashMap<String, Arc<Held>>>);

/// What a consumer tells of itself.
#[derive(Debug)]
struct Held {
    group: String,
    subscription: SubscriptionData,
    started_ms: i64,
    queues: Mutex<BTreeMap<MessageQueue, ProcessQueueInfo>>,
}

impl Held {
    fn info(&self) -> ConsumerRunningInfo {
        let queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        ConsumerRunningInfo {
            mq_table: queues.clone(),
            properties: [
                ("PROP_CONSUME_TYPE".to_owned(), "CONSUME_PASSIVELY".to_owned()),
                (
                    "PROP_CONSUMER_START_TIMESTAMP".to_owned(),
                    self.started_ms.to_string(),
                ),
            ]
            .into(),
            subscription_set: vec![self.subscription.clone()],
            ..ConsumerRunningInfo::default()
        }
    }

    fn note(&self, at: &QueueAt, note: impl FnOnce(&mut ProcessQueueInfo)) {
        let queue = MessageQueue {
            broker_name: at.broker.name.clone().unwrap_or_default(),
            queue_id: at.queue,
            topic: self.subscription.topic.clone(),
        };
        let mut queues = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        note(queues.entry(queue).or_default());
    }
}

impl Asked {
    fn consumers(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Held>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Service for Asked {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        if request.code != GetConsumerRunningInfo::CODE {
            let code = request.code;
            let remark = format!("request type {code} not supported");
            return Refusal::new(codes::REQUEST_CODE_NOT_SUPPORTED, remark).into();
        }
        let of = |key: &str| request.fields.get(key).unwrap_or_default();
        let found = self.consumers().get(of("clientId")).cloned();
        match found.filter(|held| held.group == of("consumerGroup")) {
            Some(held) => Reply {
                body: Json::new(held.info()).encode(),
                ..Reply::default()
            },
            // `ClientRemotingProcessor.getConsumerRunningInfo`
            None => Refusal::new(
                codes::SYSTEM_ERROR,
                "The Consumer Group not exist in this consumer",
            )
            .into(),
        }
    }
}

/// Consumes one topic.
pub struct Consumer {
    client: Arc<Client>,
    group: String,
    topic: String,
    client_id: String,
    held: Arc<Held>,
}

impl Consumer {
    /// A consumer of a group and topic; nothing is sent yet.
    pub fn new(client: Arc<Client>, group: &str, topic: &str) -> Result<Self, Error> {
        check_group(group).map_err(|e| Error::Invalid {
            what: format!("group \"{group}\""),
            reason: e.to_string(),
        })?;
        let seed = RandomState::new().hash_one(group);
        let started_ms = now_ms();
        Ok(Self {
            client_id: format!("{}@{}#{seed:x}", local_ip(&client), std::process::id()),
            client,
            group: group.to_owned(),
            topic: topic.to_owned(),
            held: Arc::new(Held {
                group: group.to_owned(),
                subscription: SubscriptionData {
                    topic: topic.to_owned(),
                    sub_string: SubscriptionData::ALL.to_owned(),
                    sub_version: started_ms,
                    ..SubscriptionData::default()
                },
                started_ms,
                queues: Mutex::default(),
            }),
        })
    }

    /// Consumes until `stop`; then commits, leaves and returns. Servers that fail are tried again.
    pub async fn run(self, handler: Handler, stop: CancellationToken) {
        let this = Arc::new(self);
        let asked = Arc::clone(&this.client.asked);
        asked
            .consumers()
            .insert(this.client_id.clone(), Arc::clone(&this.held));
        let tasks = TaskTracker::new();
        let mut owned: Vec<QueueAt> = Vec::new();
        while !stop.is_cancelled() {
            let known = this.beat().await;
            for at in known.unwrap_or_default() {
                if !owned.contains(&at) {
                    owned.push(at.clone());
                    tasks.spawn(this.clone().read(at, handler.clone(), stop.clone()));
                }
            }
            // A topic that is not there yet is looked for more often.
            let pause = if owned.is_empty() { REST } else { BEAT };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = stop.cancelled() => {}
            }
        }
        tasks.close();
        tasks.wait().await;
        this.leave().await;
        asked.consumers().remove(&this.client_id);
    }

    /// Heartbeats to every broker of the topic; the queues there are.
    async fn beat(&self) -> Result<Vec<QueueAt>, Error> {
        let beat = HeartbeatData {
            client_id: self.client_id.clone(),
            consumer_data_set: vec![ConsumerData {
                group_name: self.group.clone(),
                consume_from_where: ConsumeFromWhere::FirstOffset,
                subscription_data_set: vec![self.held.subscription.clone()],
                ..ConsumerData::default()
            }],
            ..HeartbeatData::default()
        };
        for broker in brokers(&self.client, &self.topic).await? {
            self.client
                .call(
                    &broker,
                    &HeartBeat,
                    Json::new(beat.clone()),
                    self.client.deadline(),
                )
                .await?;
        }
        let route = self.client.kept_route(&self.topic).await?;
        Ok(route.map(|route| queues(&route)).unwrap_or_default())
    }

    /// Reads one queue until `stop`.
    async fn read(self: Arc<Self>, at: QueueAt, handler: Handler, stop: CancellationToken) {
        let mut position = None;
        self.held.note(&at, |_| {});
        while !stop.is_cancelled() {
            let step = tokio::select! {
                step = self.step(&at, position) => step,
                () = stop.cancelled() => return,
            };
            match step {
                Ok((next, messages)) => {
                    let count = messages.len();
                    self.held.note(&at, |queue| {
                        queue.last_pull_timestamp = now_ms();
                        queue.cached_msg_count = i32::try_from(count).unwrap_or(i32::MAX);
                        queue.cached_msg_min_offset = messages.first().map_or(0, |m| m.offset);
                        queue.cached_msg_max_offset = messages.last().map_or(0, |m| m.offset);
                    });
                    if count > 0 {
                        tokio::select! {
                            () = handler(messages) => {}
                            // An unfinished batch is not committed: the group gets it again.
                            () = stop.cancelled() => return,
                        }
                        if self.commit(&at, next).await.is_err() {
                            tokio::time::sleep(REST).await;
                        }
                        self.held.note(&at, |queue| {
                            queue.last_consume_timestamp = now_ms();
                            queue.cached_msg_count = 0;
                            queue.commit_offset = next;
                        });
                    }
                    position = Some(next);
                }
                Err(_) => {
                    tokio::select! {
                        () = tokio::time::sleep(REST) => {}
                        () = stop.cancelled() => return,
                    }
                }
            }
        }
    }

    /// One pull from `position`, or from the committed offset.
    async fn step(&self, at: &QueueAt, position: Option<i64>) -> Result<(i64, Vec<Message>), Error> {
        let offset = match position {
            Some(offset) => offset,
            None => self.committed(at).await?,
        };
        let header = PullMessage {
            consumer_group: self.group.clone(),
            topic: self.topic.clone(),
            queue_id: at.queue,
            queue_offset: offset,
            max_msg_nums: BATCH,
            sys_flag: PullMessage::SUSPEND,
            suspend_timeout_millis: HOLD.as_millis() as i64,
            sub_version: self.held.started_ms,
            ..PullMessage::default()
        };
        let pulled = self
            .client
            .pull_with(&at.broker, &header, Deadline::after(HOLD + GRACE))
            .await?;
        match pulled.status {
            PullStatus::Found | PullStatus::NoMatched | PullStatus::NoNew | PullStatus::OffsetMoved => {
                Ok((pulled.next, pulled.messages))
            }
        }
    }

    async fn committed(&self, at: &QueueAt) -> Result<i64, Error> {
        let header = QueryConsumerOffset {
            consumer_group: self.group.clone(),
            topic: self.topic.clone(),
            queue_id: at.queue,
            set_zero_if_not_found: None,
            bname: None,
        };
        match self
            .client
            .call(&at.broker, &header, (), self.client.deadline())
            .await
        {
            Ok((reply, ())) => Ok(reply.offset),
            Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(0),
            Err(e) => Err(e),
        }
    }

    async fn commit(&self, at: &QueueAt, offset: i64) -> Result<(), Error> {
        let header = UpdateConsumerOffset {
            consumer_group: self.group.clone(),
            topic: self.topic.clone(),
            queue_id: Some(at.queue),
            commit_offset: Some(offset),
            bname: None,
        };
        self.client
            .call(&at.broker, &header, (), self.client.deadline())
            .await
            .map(drop)
    }

    async fn leave(&self) {
        let header = UnregisterClient {
            client_id: self.client_id.clone(),
            producer_group: None,
            consumer_group: Some(self.group.clone()),
            bname: None,
        };
        for broker in brokers(&self.client, &self.topic).await.unwrap_or_default() {
            // The broker notices by itself when this does not arrive.
            let _ = self
                .client
                .call(&broker, &header, (), Deadline::after(REST))
                .await;
        }
    }
}
