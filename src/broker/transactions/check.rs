//! Asking producers what became of their half messages (39), and giving up after the last check.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{Half, HalfRecord, next_record};
use crate::broker::put::again;
use crate::broker::topics::TRANS_CHECK_MAX;
use crate::broker::{Broker, now_ms};
use crate::protocol::message::{NewMessage, Stamp};
use crate::protocol::properties::names;
use crate::protocol::requests::CheckTransactionState;
use crate::remoting::Peer;
use crate::store::{AppendError, Appended};

/// Half messages that are looked at between two looks at the clock.
const AT_ONCE: usize = 64;
/// When to try again after every producer was too busy to be asked.
const BUSY_PAUSE: Duration = Duration::from_secs(1);

impl Broker {
    /// Looks at half messages when they are due, until the broker stops. Sleeps while none is.
    pub(super) async fn check_back(self: Arc<Self>) {
        loop {
            let due = self.transactions.halves().next_due();
            let woken = self.transactions.due.notified();
            let sleep = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due.into()).await,
                    None => std::future::pending().await,
                }
            };
            let wait = async {
                tokio::select! {
                    () = woken => {}
                    () = sleep => {}
                }
            };
            if self.stopping.run_until_cancelled(wait).await.is_none() {
                return;
            }
            let broker = self.clone();
            // Records of long ago may have to come from the disk.
            if let Err(e) = tokio::task::spawn_blocking(move || broker.check_due()).await {
                tracing::error!(error = %e, "a round of transaction checks was aborted");
            }
        }
    }

    fn check_due(&self) {
        while !self.stopping.is_cancelled() {
            let now = Instant::now();
            let again = now + self.config().transaction_check_interval();
            let due = self.transactions.halves().take_due(now, again, AT_ONCE);
            if due.is_empty() {
                break;
            }
            for (at, half) in due {
                self.check_one(at, &half);
            }
        }
        while !self.stopping.is_cancelled() {
            let straggler = self.transactions.halves().take_straggler();
            let Some((at, half)) = straggler else { break };
            if !self.move_up(at, &half) {
                break;
            }
        }
        let mut halves = self.transactions.halves();
        self.save_progress(&mut halves);
        let marks = halves.marks_wait(0).0;
        drop(halves);
        if marks {
            self.transactions.marks.notify_one();
        }
    }

    /// One half message that is due. Whatever goes wrong with it touches no other.
    fn check_one(&self, at: i64, half: &Half) {
        let age = u64::try_from(now_ms().saturating_sub(half.since_ms)).unwrap_or(0);
        let too_old = Duration::from_millis(age) >= self.oldest_half();
        let give_up = too_old || half.checks >= self.config().transaction_check_max;
        let producers = if give_up {
            Vec::new()
        } else {
            self.clients.producers(&half.group)
        };
        if !give_up && producers.is_empty() {
            // Nobody to ask: that is no check. It is looked at again after the interval.
            return;
        }
        let Some(bytes) = self.store.record_at(half.log_offset) else {
            if half.log_offset < self.store.figures().min_offset {
                tracing::warn!(offset = at, group = %half.group, "a half message is deleted with its log file");
                self.transactions.halves().end(half.first);
            } else {
                tracing::error!(
                    offset = at,
                    log_offset = half.log_offset,
                    "a half message cannot be read now"
                );
            }
            return;
        };
        let Some(record) = HalfRecord::parse(&bytes) else {
            tracing::warn!(
                offset = at,
                "a record of the half queue is no half message, ignored"
            );
            self.transactions.halves().end(half.first);
            return;
        };
        if give_up {
            self.give_up(&record, half);
        } else {
            self.ask(&record, half, &producers);
        }
    }

    /// Asks one of the producers, round about; counts only what was really sent.
    fn ask(&self, record: &HalfRecord<'_>, half: &Half, producers: &[Peer]) {
        let view = &record.view;
        let properties = view.properties();
        let key = properties.get(names::UNIQ_KEY).map(str::to_owned);
        let header = CheckTransactionState {
            topic: Some(view.topic().to_owned()),
            tran_state_table_offset: view.queue_offset(),
            commit_log_offset: view.physical_offset(),
            msg_id: key.clone(),
            transaction_id: key,
            offset_msg_id: Some(view.offset_id()),
            bname: Some(self.config().broker_name.clone()),
        };
        let real = NewMessage {
            topic: record.real_topic.to_owned(),
            queue_id: record.real_queue,
            ..again(view)
        };
        let stamp = Stamp {
            queue_offset: view.queue_offset(),
            physical_offset: view.physical_offset(),
            store_timestamp: view.store_timestamp(),
        };
        let body = match real.to_vec(stamp) {
            Ok(body) => Bytes::from(body),
            Err(e) => {
                tracing::warn!(error = %e, offset = view.queue_offset(), "a half message cannot be sent to its producer");
                return;
            }
        };
        let turn = self.transactions.turn.fetch_add(1, Relaxed);
        let asked = (0..producers.len())
            .map(|i| &producers[turn.wrapping_add(i) % producers.len()])
            .any(|peer| peer.oneway(&header, body.clone()).is_ok());
        if !asked {
            self.transactions
                .halves()
                .look_at(half.first, Instant::now() + BUSY_PAUSE);
            return;
        }
        tracing::info!(group = %half.group, topic = record.real_topic, key = header.msg_id, checks = half.checks + 1,
            "producer asked about its transaction");
        let checks = half.checks + 1;
        let next = next_record(view, Some(checks), Some(half.first));
        if let Err(e) = self.move_half(half.first, &next, checks) {
            tracing::error!(error = %e, "the check of a transaction is not counted");
        }
    }

    /// Stores a half message once more, as its newest record.
    pub(super) fn move_half(
        &self,
        first: i64,
        message: &NewMessage,
        checks: u32,
    ) -> Result<Appended, AppendError> {
        let mut halves = self.transactions.halves();
        let appended = self.store.append(message)?;
        halves.moved_to(first, appended.queue_offset, appended.offset, checks);
        Ok(appended)
    }

    /// Stores the oldest half message again behind the many that came after it, so that the next start need not
    /// read all of those; false when that is not possible now.
    fn move_up(&self, at: i64, half: &Half) -> bool {
        let Some(bytes) = self.store.record_at(half.log_offset) else {
            return false;
        };
        let Some(record) = HalfRecord::parse(&bytes) else {
            tracing::warn!(
                offset = at,
                "a record of the half queue is no half message, ignored"
            );
            self.transactions.halves().end(half.first);
            return true;
        };
        let next = next_record(&record.view, None, Some(half.first));
        match self.move_half(half.first, &next, half.checks) {
            Ok(_) => true,
            Err(e) => {
                tracing::error!(error = %e, "a half message was not moved up");
                false
            }
        }
    }

    /// Puts a half message that nobody answered for where an operator can find it.
    fn give_up(&self, record: &HalfRecord<'_>, half: &Half) {
        if !self.transactions.halves().claim(half.first, &half.group) {
            return;
        }
        let (topic, new) = self.topics.create_for_group(TRANS_CHECK_MAX, 1, false, 0);
        if new {
            self.registrar.wake();
        }
        let message = NewMessage {
            topic: topic.topic_name.clone(),
            queue_id: 0,
            ..again(&record.view)
        };
        let mut halves = self.transactions.halves();
        match self.store.append(&message) {
            Ok(_) => {
                halves.end(half.first);
                tracing::warn!(group = %half.group, topic = record.real_topic, checks = half.checks,
                    key = record.view.properties().get(names::UNIQ_KEY),
                    "no end of this transaction; its message is in {TRANS_CHECK_MAX}");
            }
            Err(e) => {
                halves.release(half.first);
                tracing::error!(error = %e, "a half message could not be given up, it will be tried again");
            }
        }
    }
}
