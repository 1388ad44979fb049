//! Peeks (200052): messages are read as a pop would, and stay.

use std::sync::Arc;

use super::handle::Kind;
use crate::broker::Broker;
use crate::broker::groups::is_system_group;
use crate::protocol::requests::{PeekMessage, PopMessageReply};
use crate::protocol::{Records, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};
use crate::store::GetStatus;

/// Most messages of one peek; Java sets no limit.
const MOST: i32 = 32;

/// 200052
pub async fn peek(broker: &Arc<Broker>, peer: &Peer, header: PeekMessage, (): ()) -> Handled<PeekMessage> {
    match broker.peek(peer, &header) {
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

impl Broker {
    fn peek(&self, peer: &Peer, header: &PeekMessage) -> Result<Answer<PeekMessage>, Refusal> {
        let (topic, group) = (header.topic.as_str(), header.consumer_group.as_str());
        self.check_asker(peer, topic, group, header.queue_id)?;
        if !(1..=MOST).contains(&header.max_msg_nums) {
            let remark = format!("maxMsgNums={}: allowed is 1 to {MOST}", header.max_msg_nums);
            return Err(Refusal::new(codes::INVALID_PARAMETER, remark));
        }
        let most = header.max_msg_nums as usize;
        let dice = self.pop.dice();
        self.pop.turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let kind = self.retry_kinds().first().copied().unwrap_or(Kind::RetryV1);
        let retry = kind.topic(topic, group);
        // One peek in five looks at the retry topic first, as in Java.
        let order = if dice.is_multiple_of(5) {
            [retry.as_str(), topic]
        } else {
            [topic, retry.as_str()]
        };
        let (mut records, mut rest) = (Vec::new(), 0i64);
        for looked_at in order {
            let Some(config) = self.topics.get(looked_at) else {
                continue;
            };
            let queues = config.read_queue_nums;
            let one = (looked_at == topic && header.queue_id >= 0).then_some(header.queue_id);
            for n in 0..queues {
                let queue_id = (dice as i32).wrapping_add(n).rem_euclid(queues);
                if one.is_some_and(|one| one != queue_id) {
                    continue;
                }
                let mut offset = self.next_offset_of(looked_at, group, queue_id);
                let max = self.store.max_offset(looked_at, queue_id);
                rest = rest.saturating_add(max.saturating_sub(offset).max(0));
                let room = most - records.len().min(most);
                if room == 0 {
                    continue;
                }
                let get = |offset| {
                    self.store
                        .get(looked_at, queue_id, offset, room, usize::MAX, &|_| true)
                };
                let mut got = get(offset);
                if matches!(
                    got.status,
                    GetStatus::OffsetTooSmall | GetStatus::OffsetOverflowBadly
                ) {
                    offset = got.next_offset;
                    got = get(offset);
                }
                records.append(&mut got.records);
            }
        }
        let (code, remark) = if records.is_empty() {
            (codes::PULL_NOT_FOUND, GetStatus::NoMessageInQueue.name())
        } else {
            let bytes: usize = records.iter().map(bytes::Bytes::len).sum();
            let system = self.topics.is_system(topic) || is_system_group(group);
            self.stats
                .got(group, topic, system, records.len() as i64, bytes as i64);
            (codes::SUCCESS, GetStatus::Found.name())
        };
        Ok(Answer {
            code,
            remark: Some(remark.to_owned()),
            header: PopMessageReply {
                rest_num: rest,
                ..PopMessageReply::default()
            },
            body: Records(records),
        })
    }
}
