//! Marks of ended half messages: op messages, one for many, written a moment after the ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::QUEUE;
use crate::broker::topics::TRANS_OP_HALF;
use crate::broker::{Broker, now_ms};
use crate::protocol::message::{MessageView, NewMessage};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{self, names};
use crate::store::Durability;

/// Tag of an op message that ends half messages; there is no other kind.
const REMOVE_TAG: &str = "d";

/// The half queue offsets that an op message names; what is no number is stepped over.
pub(super) fn read<'a>(op: &MessageView<'a>) -> impl Iterator<Item = i64> + use<'a> {
    let removes = op.properties().get(names::TAGS) == Some(REMOVE_TAG);
    let body = if removes { op.body() } else { &[] };
    body.split(|b| *b == b',').filter_map(|text| {
        let text = std::str::from_utf8(text).ok()?;
        text.trim().parse().ok().filter(|offset| *offset >= 0)
    })
}

impl Broker {
    /// Writes marks until the broker stops, a batch each `transactionOpBatchInterval` or `transactionOpMsgMaxSize`.
    /// Sleeps while there are none.
    pub(super) async fn write_marks(self: Arc<Self>) {
        loop {
            let (some, many) = self.marks_wait();
            if !some {
                let woken = self.transactions.marks.notified();
                if self.stopping.run_until_cancelled(woken).await.is_none() {
                    return;
                }
                continue;
            }
            if !many {
                let interval = Duration::from_millis(self.config().transaction_op_batch_interval);
                let enough = async {
                    while !self.marks_wait().1 {
                        self.transactions.marks.notified().await;
                    }
                };
                let pause = tokio::time::timeout(interval, enough);
                if self.stopping.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
            if !self.store_marks().await {
                let pause = tokio::time::sleep(Duration::from_secs(1));
                if self.stopping.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
        }
    }

    fn marks_wait(&self) -> (bool, bool) {
        let most = self.config().transaction_op_msg_max_size;
        self.transactions.halves().marks_wait(most)
    }

    /// Writes one batch of marks; false when that failed and it has to be tried again.
    async fn store_marks(&self) -> bool {
        let most = self.config().transaction_op_msg_max_size;
        let marks = self.transactions.halves().take_marks(most);
        if marks.is_empty() {
            return true;
        }
        let stored = match self.store.append(&self.op_message(&marks)) {
            Ok(appended) => match self.store.durable(&appended, true).await {
                Durability::Done => Ok(appended.queue_offset),
                other => Err(format!("{other:?}")),
            },
            Err(e) => Err(e.to_string()),
        };
        let mut halves = self.transactions.halves();
        match stored {
            Ok(at) => halves.marked(at, &marks),
            Err(error) => {
                tracing::error!(
                    error,
                    count = marks.len(),
                    "marks of ended transactions not stored"
                );
                halves.put_back_marks(marks);
                return false;
            }
        }
        self.save_progress(&mut halves);
        true
    }

    /// Writes all marks that wait, before the store closes. Does not wait for the flush, which the close does.
    pub(in crate::broker) fn store_last_marks(&self) {
        let most = self.config().transaction_op_msg_max_size;
        let mut halves = self.transactions.halves();
        loop {
            let marks = halves.take_marks(most);
            if marks.is_empty() {
                break;
            }
            match self.store.append(&self.op_message(&marks)) {
                Ok(appended) => halves.marked(appended.queue_offset, &marks),
                Err(e) => {
                    tracing::error!(error = %e, "marks of ended transactions not stored; they will be asked about");
                    break;
                }
            }
        }
        if *self.transactions.loaded.borrow() {
            self.save_progress(&mut halves);
        }
    }

    fn op_message(&self, marks: &[i64]) -> NewMessage {
        let mut text = String::new();
        properties::append(&mut text, names::WAIT, "true");
        properties::append(&mut text, names::TAGS, REMOVE_TAG);
        let body: String = marks.iter().map(|offset| format!("{offset},")).collect();
        NewMessage {
            topic: TRANS_OP_HALF.to_owned(),
            queue_id: QUEUE,
            flag: 0,
            sys_flag: SysFlag::default(),
            born_timestamp: now_ms(),
            born_host: self.store_host,
            store_host: self.store_host,
            reconsume_times: 0,
            prepared_transaction_offset: 0,
            body: Bytes::from(body),
            properties: text,
        }
    }
}
