//! Questions for clients that go through the broker: a look into a consumer (307), direct consumption (309), the
//! offsets its clients hold (223), and the push of a reset to them (220).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Broker;
use super::clients::Reachable;
use crate::fields::Fields;
use crate::protocol::body::{
    ConsumerStatus, MessageQueueForC, ResetOffset, ResetOffsetForC, ResetOffsetPush,
};
use crate::protocol::frame::Frame;
use crate::protocol::message_id::parse_offset_id;
use crate::protocol::model::{Language, version_name};
use crate::protocol::requests::{
    ConsumeMessageDirectly, GetConsumerRunningInfo, GetConsumerStatusFromClient,
    InvokeBrokerToGetConsumerStatus, InvokeBrokerToResetOffset, ResetConsumerClientOffset,
};
use crate::protocol::{Json, Request, codes};
use crate::remoting::{Answer, CallError, Handled, Peer, Refusal};
use crate::request;

/// How long a client may take to answer an operator's question, as in Java.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The same for its offsets.
const OFFSETS_WITHIN: Duration = Duration::from_secs(5);
/// Clients before `V3_1_8_SNAPSHOT` know neither 307 nor 309.
const KNOWS_QUESTIONS: i32 = 62;
/// Clients before `V3_0_7_SNAPSHOT` know neither 220 nor 221.
const KNOWS_OFFSETS: i32 = 28;

/// 307 as the broker in between sees it: the client's answer goes back as it came.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PassRunningInfo(pub GetConsumerRunningInfo);
request!(PassRunningInfo = 307 "GET_CONSUMER_RUNNING_INFO" (()) -> (), Bytes);

/// 309 as the broker in between sees it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PassDirectConsumption(pub ConsumeMessageDirectly);
request!(PassDirectConsumption = 309 "CONSUME_MESSAGE_DIRECTLY" (()) -> (), Bytes);

/// 307: the inside of one consumer.
pub async fn running_info(
    broker: &Arc<Broker>,
    _: &Peer,
    header: PassRunningInfo,
    (): (),
) -> Handled<PassRunningInfo> {
    let (group, client) = (header.0.consumer_group.as_str(), header.0.client_id.as_str());
    broker.ask_client(group, client, &header, Bytes::new()).await
}

/// 309: one consumer gets one message now.
pub async fn consume_directly(
    broker: &Arc<Broker>,
    _: &Peer,
    mut header: PassDirectConsumption,
    (): (),
) -> Handled<PassDirectConsumption> {
    let asked = &mut header.0;
    let group = asked.consumer_group.clone();
    let client = asked.client_id.clone().unwrap_or_default();
    asked.broker_name = Some(broker.config().broker_name.clone());
    if let Some(topic) = asked.topic.as_deref().and_then(|topic| broker.topics.get(topic)) {
        asked.topic_sys_flag = Some(topic.topic_sys_flag);
    }
    if let Some(found) = broker.groups.find_existing(&group) {
        asked.group_sys_flag = Some(found.group_sys_flag);
    }
    let id = asked.msg_id.as_deref().unwrap_or_default();
    let (_, offset) = parse_offset_id(id).map_err(|e| {
        Refusal::new(
            codes::SYSTEM_ERROR,
            format!("msgId[{id}] is no offset message id: {e}"),
        )
    })?;
    broker.warm_record(offset).await?;
    let record = broker.store.record_at(offset).ok_or_else(|| {
        let remark = format!("can not find message by the offset, {offset}");
        Refusal::new(codes::SYSTEM_ERROR, remark)
    })?;
    broker.ask_client(&group, &client, &header, record).await
}

/// 223: where the clients of a group, or one of them, stand in a topic.
pub async fn consumer_status(
    broker: &Arc<Broker>,
    _: &Peer,
    header: InvokeBrokerToGetConsumerStatus,
    (): (),
) -> Handled<InvokeBrokerToGetConsumerStatus> {
    let members = broker.clients.reachable(&header.group);
    if members.is_empty() {
        let remark = format!("No Any Consumer online in the consumer group: [{}]", header.group);
        return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
    }
    too_old(&members, KNOWS_OFFSETS)?;
    let wanted = header
        .client_addr
        .clone()
        .filter(|client| !client.trim().is_empty());
    let question = GetConsumerStatusFromClient(InvokeBrokerToGetConsumerStatus {
        client_addr: None,
        ..header
    });
    let asked = members
        .iter()
        .filter(|member| wanted.as_ref().is_none_or(|client| *client == member.client_id))
        .map(async |member| (member, member.peer.call(&question, (), OFFSETS_WITHIN).await));
    let mut body = ConsumerStatus::default();
    for (member, answer) in futures_util::future::join_all(asked).await {
        match answer {
            Ok((_, status)) => {
                let offsets = status.value.message_queue_table;
                body.consumer_table.insert(member.client_id.clone(), offsets);
            }
            Err(e) => {
                tracing::warn!(client = %member.client_id, error = %e, "client did not tell its offsets")
            }
        }
    }
    Ok(Answer::ok((), Json::new(body)))
}

/// Fails when a client is older than what it would be asked.
fn too_old(members: &[Reachable], since: i32) -> Result<(), Refusal> {
    match members.iter().find(|member| member.version < since) {
        None => Ok(()),
        Some(member) => {
            let version = version_name(member.version);
            let remark = format!("the client does not support this feature. version={version}");
            Err(Refusal::new(codes::SYSTEM_ERROR, remark))
        }
    }
}

impl Broker {
    /// Passes a question on to one client of a group; its answer goes back whatever its code.
    async fn ask_client<R: Request<Reply = (), ReplyBody = Bytes>>(
        &self,
        group: &str,
        client: &str,
        header: &R,
        body: Bytes,
    ) -> Handled<R> {
        let members = self.clients.reachable(group);
        let Some(member) = members.into_iter().find(|member| member.client_id == client) else {
            let remark = format!("The Consumer <{group}> <{client}> not online");
            return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
        };
        if member.version < KNOWS_QUESTIONS {
            let version = version_name(member.version);
            let remark = format!(
                "The Consumer <{client}> Version <{version}> too low to finish, please upgrade it to V3_1_8_SNAPSHOT"
            );
            return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
        }
        let mut request = Frame::request(R::CODE, Fields::from_value(header)?);
        request.body = body;
        match member.peer.exchange(request, ANSWER_WITHIN).await {
            Ok(answer) => Ok(Answer {
                code: answer.code,
                remark: answer.remark,
                header: (),
                body: answer.body,
            }),
            Err(e @ CallError::TimedOut { .. }) => Err(Refusal::new(
                codes::CONSUME_MSG_TIMEOUT,
                format!("consumer <{group}> <{client}> Timeout: {e}"),
            )),
            Err(e) => Err(Refusal::new(
                codes::SYSTEM_ERROR,
                format!("invoke consumer <{group}> <{client}> Exception: {e}"),
            )),
        }
    }

    /// Java's way of a reset where the broker does not keep it (`useServerSideResetOffset=false`): online clients
    /// are pushed to their new places. `asker` decides the form of the push, as in Java.
    pub(super) fn reset_online(
        &self,
        asker: &Peer,
        header: InvokeBrokerToResetOffset,
    ) -> Handled<InvokeBrokerToResetOffset> {
        let (group, topic) = (header.group.as_str(), header.topic.as_str());
        let Some(config) = self.topics.get(topic) else {
            let remark =
                format!("[reset-offset] reset offset failed, no topic in this broker. topic={topic}");
            return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
        };
        let mut places = ResetOffset::default();
        for queue_id in 0..config.write_queue_nums {
            let Some(stands) = self.offsets.committed(group, topic, queue_id) else {
                let remark = format!("THe consumer group <{group}> not exist");
                return Err(Refusal::new(codes::SYSTEM_ERROR, remark));
            };
            let wanted = self.offset_at_time(topic, queue_id, header.timestamp);
            let goes = if header.is_force {
                wanted
            } else {
                wanted.min(stands)
            };
            places.offset_table.insert(self.queue(topic, queue_id), goes);
        }
        let members = self.clients.reachable(group);
        if members.is_empty() {
            let remark = format!(
                "Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {}",
                header.timestamp
            );
            return Err(Refusal::new(codes::CONSUMER_NOT_ONLINE, remark));
        }
        too_old(&members, KNOWS_OFFSETS)?;
        let push = if asker.language() == Language::Cpp {
            ResetOffsetPush::List(as_list(&places))
        } else {
            ResetOffsetPush::Table(places.clone())
        };
        let header = ResetConsumerClientOffset(header);
        for member in members {
            match member.peer.oneway(&header, push.clone()) {
                Ok(()) => tracing::info!(client = %member.client_id, "client pushed to reset offsets"),
                Err(e) => tracing::error!(client = %member.client_id, error = %e, "client not reset"),
            }
        }
        Ok(Answer::ok((), Json::new(places)))
    }
}

fn as_list(places: &ResetOffset) -> ResetOffsetForC {
    let entry = |(queue, &offset): (&crate::protocol::model::MessageQueue, &i64)| MessageQueueForC {
        broker_name: queue.broker_name.clone(),
        offset,
        queue_id: queue.queue_id,
        topic: queue.topic.clone(),
    };
    ResetOffsetForC {
        offset_table: places.offset_table.iter().map(entry).collect(),
    }
}
