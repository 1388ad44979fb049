//! A producer: just enough for `rmq message send`, the demo and tests.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

use super::error::{Error, Server};
use super::{Client, Deadline};
use crate::protocol::body::{HeartbeatData, ProducerData, TopicRouteData};
use crate::protocol::message_id::UniqueKeys;
use crate::protocol::model::{SysFlag, TBW102, check_group, check_topic};
use crate::protocol::properties::{self, names};
use crate::protocol::requests::{HeartBeat, SendMessageReply, SendMessageV2, UnregisterClient};
use crate::protocol::{Json, codes};
use crate::remoting::CallError;

/// Queues asked for when the send creates its topic, as Java's clients ask.
const DEFAULT_QUEUES: i32 = 4;

/// Other brokers that are tried after a refusal, as Java's `retryTimesWhenSendFailed`.
const RETRIES: usize = 2;

/// Refusals after which Java's producer goes on with another broker (`DefaultMQProducer.retryResponseCodes`); not
/// SYSTEM_ERROR, which a DLedger leader answers also for a message that it has appended and that may stay.
const ELSEWHERE: &[i32] = &[
    codes::TOPIC_NOT_EXIST,
    codes::SERVICE_NOT_AVAILABLE,
    codes::SYSTEM_BUSY,
    codes::NO_PERMISSION,
    // NO_BUYER_ID and NOT_IN_CURRENT_UNIT, which no broker of ours answers.
    204,
    205,
];

/// True when the message is surely not stored, and another broker may take it.
fn is_for_another(e: &Error) -> bool {
    match e {
        Error::Call {
            source: CallError::Connect { .. },
            ..
        } => true,
        e => e.remote_code().is_some_and(|code| ELSEWHERE.contains(&code)),
    }
}

/// Properties that a message gets from its own fields.
const OWN: &[&str] = &[
    names::KEYS,
    names::TAGS,
    names::UNIQ_KEY,
    names::DELAY,
    names::WAIT,
];

/// A message to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outgoing {
    /// Topic name.
    pub topic: String,
    /// Body.
    pub body: Bytes,
    /// Keys to find it by.
    pub keys: Vec<String>,
    /// Tag.
    pub tag: Option<String>,
    /// Further properties.
    pub properties: Vec<(String, String)>,
    /// Delay level, from 1.
    pub delay_level: Option<i32>,
    /// Only to this broker.
    pub broker: Option<String>,
    /// Only to this queue.
    pub queue: Option<i32>,
    /// Let the broker create the topic when it does not exist.
    pub create_topic: bool,
}

/// How well a message was stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendStatus {
    /// As the broker's configuration asks.
    Ok,
    /// Stored; the flush did not finish in time.
    FlushDiskTimeout,
    /// Stored; no slave took it in time.
    FlushSlaveTimeout,
    /// Stored; there is no slave.
    SlaveNotAvailable,
}

impl SendStatus {
    /// Java's constant.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "SEND_OK",
            Self::FlushDiskTimeout => "FLUSH_DISK_TIMEOUT",
            Self::FlushSlaveTimeout => "FLUSH_SLAVE_TIMEOUT",
            Self::SlaveNotAvailable => "SLAVE_NOT_AVAILABLE",
        }
    }
}

/// Where a message went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// How well it was stored.
    pub status: SendStatus,
    /// Broker that has it.
    pub broker: Server,
    /// Queue it is in.
    pub queue: i32,
    /// Offset in that queue.
    pub offset: i64,
    /// Offset message id.
    pub offset_id: String,
    /// Unique key.
    pub unique_key: String,
}

/// Sends messages.
#[derive(Debug)]
pub struct Producer {
    client: Arc<Client>,
    group: String,
    client_id: String,
    unique_keys: UniqueKeys,
    /// Counts sends, to take the queues in turn.
    turn: AtomicUsize,
}

impl Producer {
    /// A producer of a group; nothing is sent yet.
    pub fn new(client: Arc<Client>, group: &str) -> Result<Self, Error> {
        check_group(group).map_err(|e| Error::Invalid {
            what: format!("group \"{group}\""),
            reason: e.to_string(),
        })?;
        let ip = local_ip(&client);
        let seed = RandomState::new().hash_one(group);
        Ok(Self {
            unique_keys: UniqueKeys::new(ip, std::process::id(), seed as i32),
            turn: AtomicUsize::new((seed >> 32) as usize),
            client_id: format!("{ip}@{}#{seed:x}", std::process::id()),
            group: group.to_owned(),
            client,
        })
    }

    /// Sends one message, to the queue next in turn unless one is named. Where neither broker nor queue is named a refusal
    /// that is the broker's own is answered by going on with another one; what may be stored is not sent again.
    pub async fn send(&self, message: &Outgoing) -> Result<Sent, Error> {
        self.send_as(message, &self.unique_key()).await
    }

    /// A unique key for a message that is sent with [`Producer::send_as`].
    pub fn unique_key(&self) -> String {
        self.unique_keys.next(now_ms(), 0)
    }

    /// Sends one message under a unique key that is known beforehand, so that it can be looked for when its answer is
    /// lost.
    pub async fn send_as(&self, message: &Outgoing, unique_key: &str) -> Result<Sent, Error> {
        let header = self.header(message, unique_key)?;
        let route = self.route(message).await?;
        let mut targets = writable(&route, message);
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let fixed = message.broker.is_some() || message.queue.is_some();
        let mut failed = None;
        for _ in 0..=RETRIES {
            let Some((broker, queue)) = targets.get(turn % targets.len().max(1)).cloned() else {
                break;
            };
            let header = SendMessageV2 {
                queue_id: queue,
                ..header.clone()
            };
            let sent = self
                .send_to(&broker, header, message.body.clone(), self.client.deadline())
                .await;
            match sent {
                Err(e) if !fixed && is_for_another(&e) => {
                    // The first refusal is the one to tell.
                    failed.get_or_insert(e);
                    targets.retain(|(other, _)| *other != broker);
                }
                sent => return sent,
            }
        }
        Err(failed.unwrap_or_else(|| no_target(&route, message)))
    }

    async fn send_to(
        &self,
        broker: &Server,
        header: SendMessageV2,
        body: Bytes,
        deadline: Deadline,
    ) -> Result<Sent, Error> {
        const NAME: &str = "SEND_MESSAGE_V2";
        let unique_key = properties::Properties::new(header.properties.as_bytes())
            .get(names::UNIQ_KEY)
            .unwrap_or_default()
            .to_owned();
        let answer = self.client.exchange(broker, &header, body, deadline).await?;
        let status = match answer.code {
            codes::SUCCESS => SendStatus::Ok,
            codes::FLUSH_DISK_TIMEOUT => SendStatus::FlushDiskTimeout,
            codes::FLUSH_SLAVE_TIMEOUT => SendStatus::FlushSlaveTimeout,
            codes::SLAVE_NOT_AVAILABLE => SendStatus::SlaveNotAvailable,
            _ => {
                return Err(Error::Call {
                    request: NAME,
                    server: broker.clone(),
                    source: super::call::remote(broker, answer),
                    changes: true,
                });
            }
        };
        let reply: SendMessageReply = answer.fields.to_value().map_err(|e| Error::Answer {
            request: NAME,
            server: broker.clone(),
            reason: e.to_string(),
            changes: true,
        })?;
        Ok(Sent {
            status,
            broker: broker.clone(),
            queue: reply.queue_id,
            offset: reply.queue_offset,
            offset_id: reply.msg_id,
            unique_key,
        })
    }

    /// The header of a message, its queue still open.
    fn header(&self, message: &Outgoing, unique_key: &str) -> Result<SendMessageV2, Error> {
        check_topic(&message.topic).map_err(|e| Error::Invalid {
            what: format!("topic \"{}\"", message.topic),
            reason: e.to_string(),
        })?;
        let now = now_ms();
        let mut text = String::new();
        let mut add = |name: &str, value: &str| -> Result<(), Error> {
            let bad = |c: char| c == properties::NAME_END || c == properties::VALUE_END;
            if name.is_empty() || name.contains(bad) || value.contains(bad) {
                return Err(Error::Invalid {
                    what: format!("property \"{}\"", name.escape_default()),
                    reason: "a name is not empty, and neither part contains the characters 1 and 2".into(),
                });
            }
            properties::append(&mut text, name, value);
            Ok(())
        };
        for (name, value) in &message.properties {
            if OWN.contains(&name.as_str()) {
                return Err(Error::Invalid {
                    what: format!("property {name}"),
                    reason: "the message's own fields set it".into(),
                });
            }
            add(name, value)?;
        }
        if !message.keys.is_empty() {
            add(names::KEYS, &message.keys.join(" "))?;
        }
        if let Some(tag) = &message.tag {
            add(names::TAGS, tag)?;
        }
        if let Some(level) = message.delay_level {
            add(names::DELAY, &level.to_string())?;
        }
        add(names::UNIQ_KEY, unique_key)?;
        add(names::WAIT, "true")?;
        Ok(SendMessageV2 {
            producer_group: self.group.clone(),
            topic: message.topic.clone(),
            default_topic: TBW102.to_owned(),
            default_topic_queue_nums: DEFAULT_QUEUES,
            sys_flag: SysFlag(0),
            born_timestamp: now,
            properties: text,
            ..SendMessageV2::default()
        })
    }

    async fn route(&self, message: &Outgoing) -> Result<Arc<TopicRouteData>, Error> {
        if let Some(route) = self.client.kept_route(&message.topic).await? {
            return Ok(route);
        }
        let template = if message.create_topic {
            let template = self.client.kept_route(TBW102).await?;
            template.map(|route| Arc::new(inherited(&route)))
        } else {
            None
        };
        template.ok_or_else(|| Error::NotFound {
            noun: "topic",
            name: message.topic.clone(),
            searched: String::new(),
            similar: Vec::new(),
        })
    }

    /// Tells the brokers of a topic that this producer is there.
    pub async fn heartbeat(&self, topic: &str) -> Result<(), Error> {
        let beat = HeartbeatData {
            client_id: self.client_id.clone(),
            producer_data_set: vec![ProducerData {
                group_name: self.group.clone(),
            }],
            ..HeartbeatData::default()
        };
        for broker in brokers(&self.client, topic).await? {
            self.client
                .call(
                    &broker,
                    &HeartBeat,
                    Json::new(beat.clone()),
                    self.client.deadline(),
                )
                .await?;
        }
        Ok(())
    }

    /// Tells the brokers of a topic that this producer leaves. Failures do not matter: they notice by themselves.
    pub async fn leave(&self, topic: &str) {
        let header = UnregisterClient {
            client_id: self.client_id.clone(),
            producer_group: Some(self.group.clone()),
            consumer_group: None,
            bname: None,
        };
        for broker in brokers(&self.client, topic).await.unwrap_or_default() {
            let _ = self
                .client
                .call(&broker, &header, (), self.client.deadline())
                .await;
        }
    }
}

/// The masters that have a topic.
pub(super) async fn brokers(client: &Client, topic: &str) -> Result<Vec<Server>, Error> {
    let route = client.kept_route(topic).await?;
    Ok(route
        .map(|route| super::admin::topic::masters(&route))
        .unwrap_or_default()
        .iter()
        .map(super::BrokerAt::server)
        .collect())
}

/// The route that a topic will have which a broker makes after a template: no more queues than the send asks for.
fn inherited(template: &TopicRouteData) -> TopicRouteData {
    let mut route = template.clone();
    for queues in &mut route.queue_datas {
        queues.write_queue_nums = queues.write_queue_nums.min(DEFAULT_QUEUES);
        queues.read_queue_nums = queues.read_queue_nums.min(DEFAULT_QUEUES);
    }
    route
}

/// Writable queues that fit the message, brokers in turn.
fn writable(route: &TopicRouteData, message: &Outgoing) -> Vec<(Server, i32)> {
    let masters = super::admin::topic::masters(route);
    let mut targets: Vec<(i32, Server)> = Vec::new();
    for queues in route.queue_datas.iter().filter(|q| q.perm.writable()) {
        if message
            .broker
            .as_ref()
            .is_some_and(|name| *name != queues.broker_name)
        {
            continue;
        }
        let Some(master) = masters.iter().find(|m| m.id.name == queues.broker_name) else {
            continue;
        };
        let count = queues.write_queue_nums.clamp(0, super::admin::topic::MAX_QUEUES);
        targets.extend(
            (0..count)
                .filter(|q| message.queue.is_none_or(|wanted| wanted == *q))
                .map(|q| (q, master.server())),
        );
    }
    // Queue number first, so that neighbours in turn are on different brokers.
    targets.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.name.cmp(&b.1.name)));
    targets
        .into_iter()
        .map(|(queue, broker)| (broker, queue))
        .collect()
}

fn no_target(route: &TopicRouteData, message: &Outgoing) -> Error {
    let have: Vec<String> = route
        .queue_datas
        .iter()
        .map(|q| {
            format!(
                "{} perm {} write queues {}",
                q.broker_name, q.perm, q.write_queue_nums
            )
        })
        .collect();
    Error::Invalid {
        what: format!("topic \"{}\"", message.topic),
        reason: format!(
            "no queue can be written as asked; the route has: {}",
            have.join(", ")
        ),
    }
}

/// The local address towards the first name server. Connecting a datagram socket sends nothing.
pub(super) fn local_ip(client: &Client) -> IpAddr {
    let towards = client
        .name_servers()
        .first()
        .map(String::as_str)
        .unwrap_or("127.0.0.1:9");
    UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))
        .and_then(|socket| {
            socket.connect(towards)?;
            socket.local_addr()
        })
        .map_or(Ipv4Addr::LOCALHOST.into(), |addr| addr.ip())
}

pub(super) fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::body::QueueData;

    #[test]
    fn a_topic_made_by_the_send_has_no_more_queues_than_the_send_asks_for() {
        let template = TopicRouteData {
            queue_datas: [8, 4, 2]
                .map(|queues| QueueData {
                    broker_name: "broker-a".into(),
                    read_queue_nums: queues,
                    write_queue_nums: queues,
                    ..QueueData::default()
                })
                .into(),
            ..TopicRouteData::default()
        };
        let route = inherited(&template);
        let counts: Vec<_> = (route.queue_datas.iter())
            .map(|q| (q.read_queue_nums, q.write_queue_nums))
            .collect();
        // Java's broker makes min(defaultTopicQueueNums, the template's write queues).
        assert_eq!(counts, [(4, 4), (4, 4), (2, 2)]);
    }
}
