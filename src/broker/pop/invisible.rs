//! Changes of the invisible time (200053): a checkpoint of its own for the one message, then the acknowledgement of
//! the old one. In that order: a crash in between lets the message come twice, not never.

use std::sync::Arc;

use super::checkpoint::{Ack, Checkpoint};
use super::handle::{Handle, ORDERLY};
use super::request::check_invisible;
use crate::broker::{Broker, now_ms, send};
use crate::protocol::codes;
use crate::protocol::requests::{ChangeMessageInvisibletime, ChangeMessageInvisibletimeReply};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// 200053
pub async fn change_invisible_time(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: ChangeMessageInvisibletime,
    (): (),
) -> Handled<ChangeMessageInvisibletime> {
    match change(broker, peer, &header).await {
        Ok(reply) => Ok(Answer::ok(reply, ())),
        // Clients read the numbers of any answer.
        Err(refusal) => Ok(Answer {
            code: refusal.code,
            remark: Some(refusal.remark),
            header: ChangeMessageInvisibletimeReply::default(),
            body: (),
        }),
    }
}

async fn change(
    broker: &Arc<Broker>,
    peer: &Peer,
    header: &ChangeMessageInvisibletime,
) -> Result<ChangeMessageInvisibletimeReply, Refusal> {
    let (topic, group, queue_id) = (
        header.topic.as_str(),
        header.consumer_group.as_str(),
        header.queue_id,
    );
    broker.check_ack(peer, topic, group, queue_id)?;
    let (min, max) = broker.range(topic, queue_id);
    if header.offset < min || header.offset >= max {
        let offset = header.offset;
        let remark = format!("offset is illegal, key:{topic}@{queue_id}, offset:{offset}, store:{min}~{max}");
        return Err(Refusal::new(codes::NO_MESSAGE, remark));
    }
    let handle = Handle::parse(&header.extra_info)?;
    check_invisible(header.invisible_time)?;
    if handle.revive_queue == ORDERLY {
        return Ok(broker.hide_in_order(header, &handle));
    }
    broker.check_revive(handle.revive_queue, handle.pop_time, handle.invisible_time)?;
    let now = now_ms();
    let mut ck = Checkpoint {
        broker_name: Some(handle.broker_name.clone()),
        group: group.to_owned(),
        diffs: vec![0],
        invisible_time: header.invisible_time,
        count: 1,
        pop_time: now,
        queue_id,
        start_offset: header.offset,
        topic: topic.to_owned(),
        ..Checkpoint::default()
    };
    ck.revive_time = ck.due_ms();
    broker
        .put_for_revive(&broker.checkpoint_message(&ck, handle.revive_queue, None))
        .map_err(|e| send::refusal(broker, e))?;
    broker.count_checkpoint(group, topic);
    let ack = Ack {
        offset: header.offset,
        offsets: None,
        broker_name: Some(handle.broker_name),
        group: group.to_owned(),
        pop_time: handle.pop_time,
        queue_id,
        start_offset: handle.start_offset,
        topic: topic.to_owned(),
    };
    let due = handle.pop_time.saturating_add(handle.invisible_time);
    let appended = broker
        .put_for_revive(&broker.ack_message(&ack, handle.revive_queue, due))
        .map_err(|e| send::refusal(broker, e))?;
    broker.count_acks(group, topic, 1);
    // The acknowledgement lies behind the checkpoint, so both hold when it does.
    broker.until_durable(&appended).await?;
    Ok(ChangeMessageInvisibletimeReply {
        invisible_time: header.invisible_time,
        pop_time: now,
        revive_qid: handle.revive_queue,
    })
}

impl Broker {
    fn hide_in_order(
        self: &Arc<Self>,
        header: &ChangeMessageInvisibletime,
        handle: &Handle,
    ) -> ChangeMessageInvisibletimeReply {
        let (topic, group, queue_id) = (
            header.topic.as_str(),
            header.consumer_group.as_str(),
            header.queue_id,
        );
        let queue = self.pop.queue(topic, group, queue_id);
        let mut held = queue.lock();
        let committed = self.offsets.committed(group, topic, queue_id).unwrap_or(-1);
        if header.offset < committed {
            // Done already.
            return ChangeMessageInvisibletimeReply::default();
        }
        let until = now_ms().saturating_add(header.invisible_time);
        if let Some(order) = held.as_mut()
            && order.hide(header.offset, handle.pop_time, until)
        {
            self.pop.orders_file.mark();
        }
        drop(held);
        // Those that wait must look again when to.
        self.pop.pops.wake_queue(topic, group, queue_id);
        self.pop.notifications.wake_queue(topic, group, queue_id);
        ChangeMessageInvisibletimeReply {
            invisible_time: until.saturating_sub(handle.pop_time),
            pop_time: handle.pop_time,
            revive_qid: handle.revive_queue,
        }
    }
}
