//! Replies of the request-reply style (324, 325): pushed to the client that asked (326), and stored.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::send::{pick_queue, refusal};
use super::{Broker, now_ms};
use crate::protocol::body::TopicConfig;
use crate::protocol::message::NewMessage;
use crate::protocol::message_id::offset_id;
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{self, Properties, names};
use crate::protocol::requests::{
    PushReplyMessageToClient, SendMessage, SendMessageReply, SendReplyMessage, SendReplyMessageV2,
};
use crate::protocol::{Request, codes};
use crate::remoting::{Answer, Handled, Peer};

/// How long the client that asked may take to accept its reply.
const PUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// 324
pub async fn send_reply(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendReplyMessage,
    body: Bytes,
) -> Handled<SendReplyMessage> {
    reply(broker, peer, header.into(), body).await
}

/// 325
pub async fn send_reply_v2(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendReplyMessageV2,
    body: Bytes,
) -> Handled<SendReplyMessageV2> {
    reply(broker, peer, header.into(), body).await
}

/// Stores the reply before it is pushed: the replier may be gone when the push has been answered. What became of the
/// push is the answer; a reply that could only be stored is a failure.
async fn reply<R: Request<Reply = SendMessageReply, ReplyBody = ()>>(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: SendMessage,
    body: Bytes,
) -> Handled<R> {
    let topic = broker.check_send(peer, &header)?;
    let queue_id = pick_queue(header.queue_id, &topic, peer)?;
    let mut answer = SendMessageReply {
        msg_id: "0".into(),
        queue_id,
        ..SendMessageReply::default()
    };
    {
        let config = broker.config();
        answer.msg_region = Some(config.region_id.clone());
        answer.trace_on = Some(config.trace_on);
    }
    let stored = broker.config().store_reply_message_enable && !body.is_empty();
    if stored {
        broker.store_reply(peer, &header, &topic, body.clone(), &mut answer);
    }
    let (code, remark) = match broker.push_reply(peer, header, queue_id, body).await {
        Ok(()) => (codes::SUCCESS, None),
        Err(remark) => {
            tracing::warn!(replier = %peer.remote(), remark, "reply not pushed");
            (codes::SYSTEM_ERROR, Some(remark))
        }
    };
    Ok(Answer {
        code,
        remark,
        header: answer,
        body: (),
    })
}

impl Broker {
    /// Stores a reply. That this fails is no reason not to push it.
    fn store_reply(
        &self,
        peer: &Peer,
        header: &SendMessage,
        topic: &TopicConfig,
        body: Bytes,
        answer: &mut SendMessageReply,
    ) {
        let started = Instant::now();
        let mut text = header.properties.clone();
        properties::append_all(&mut text, &self.suffix.load());
        let message = NewMessage {
            topic: topic.topic_name.clone(),
            queue_id: answer.queue_id,
            flag: header.flag,
            // With any of these it would not come into its queue.
            sys_flag: SysFlag(header.sys_flag.0 & !(SysFlag::TRANSACTION_MASK | SysFlag::INNER_BATCH)),
            born_timestamp: header.born_timestamp,
            born_host: peer.remote(),
            store_host: self.store_host,
            reconsume_times: header.reconsume_times,
            prepared_transaction_offset: 0,
            body,
            properties: text,
        };
        match self.put(&message) {
            Ok(appended) => {
                answer.msg_id = offset_id(&self.store_host, appended.offset);
                answer.queue_offset = appended.queue_offset;
                let bytes = appended.end - appended.offset;
                let system = self.topics.is_system(&topic.topic_name);
                self.stats
                    .put(&topic.topic_name, system, 1, bytes, started.elapsed());
            }
            Err(e) => {
                let remark = refusal(self, e).remark;
                tracing::warn!(topic = topic.topic_name, remark, "reply not stored");
            }
        }
    }

    /// Pushes a reply to the client it names; an error says why that failed, in Java's words.
    async fn push_reply(
        &self,
        peer: &Peer,
        header: SendMessage,
        queue_id: i32,
        body: Bytes,
    ) -> Result<(), String> {
        let properties = Properties::from(header.properties.as_str());
        let Some(client) = properties.get(names::REPLY_TO_CLIENT).map(str::to_owned) else {
            return Err(format!(
                "reply message properties[{}] is null",
                names::REPLY_TO_CLIENT
            ));
        };
        let Some(asker) = self.clients.producer_of_client(&client) else {
            return Err(format!(
                "push reply message fail, channel of <{client}> not found."
            ));
        };
        let mut text = header.properties;
        properties::append_all(&mut text, &self.suffix.load());
        properties::remove(&mut text, names::PUSH_REPLY_TIME);
        properties::append(&mut text, names::PUSH_REPLY_TIME, &now_ms().to_string());
        let host = |addr: SocketAddr| format!("{}:{}", addr.ip(), addr.port());
        let push = PushReplyMessageToClient {
            producer_group: header.producer_group,
            topic: header.topic,
            default_topic: header.default_topic,
            default_topic_queue_nums: header.default_topic_queue_nums,
            queue_id,
            sys_flag: header.sys_flag,
            born_timestamp: header.born_timestamp,
            flag: header.flag,
            properties: text,
            reconsume_times: header.reconsume_times,
            unit_mode: header.unit_mode,
            born_host: host(peer.remote()),
            store_host: host(self.store_host),
            store_timestamp: now_ms(),
        };
        match asker.call(&push, body, PUSH_TIMEOUT).await {
            Ok(_) => Ok(()),
            Err(e) => {
                tracing::debug!(client, error = %e, "reply refused");
                Err(format!("push reply message to {client}fail."))
            }
        }
    }
}
