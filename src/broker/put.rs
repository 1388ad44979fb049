//! Messages that the broker itself writes: deliveries of what waited, retries, half messages, markers. Client sends
//! end here too, so that one place decides where a message that has to wait goes first.

use std::borrow::Cow;

use bytes::Bytes;

use super::waiting::{self, NoWait, Rules};
use super::{Broker, now_ms, send};
use crate::protocol::codes;
use crate::protocol::message::{MessageView, NewMessage};
use crate::remoting::Refusal;
use crate::store::{AppendError, Appended, Durability};

/// Why a message was not stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum PutError {
    /// The store refused it.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// It asks for a time that it cannot have.
    #[error(transparent)]
    Wait(#[from] NoWait),
}

impl Broker {
    /// Appends a message, or what waits in its place when it asks for a delay. Does not wait until it holds; see
    /// [`Self::put_durably`].
    pub(super) fn put(&self, message: &NewMessage) -> Result<Appended, PutError> {
        Ok(self.store.append(self.place(message)?.as_ref())?)
    }

    /// The message as it is to be stored: as it is, or in the form in which it waits.
    pub(super) fn place<'a>(&self, message: &'a NewMessage) -> Result<Cow<'a, NewMessage>, NoWait> {
        let congested = |slot| {
            let most = self.store.config().timer_congest_num_each_slot;
            self.timer
                .as_ref()
                .is_some_and(|timer| timer.is_congested(slot, most))
        };
        waiting::place(message, self.waiting_rules(), now_ms(), congested)
    }

    /// Farthest delay that a message may ask for, ms.
    pub(super) fn max_delay_ms(&self) -> i64 {
        self.waiting_rules().max_delay_s.saturating_mul(1000)
    }

    pub(super) fn waiting_rules(&self) -> Rules {
        Rules {
            levels: self.delays.levels(),
            timer: self.timer.is_some(),
            precision_ms: self
                .timer
                .as_ref()
                .map_or(1000, super::timer::Timer::precision_ms),
            max_delay_s: self.store.config().timer_max_delay_sec,
        }
    }

    /// Appends a message and waits until it holds as the flush mode asks. An error means that it must be tried again.
    pub(super) async fn put_durably(&self, message: &NewMessage) -> Result<Appended, Refusal> {
        let appended = self.put(message).map_err(|e| send::refusal(self, e))?;
        match self.store.durable(&appended, true).await {
            Durability::Done => Ok(appended),
            Durability::FlushTimeout => Err(Refusal::new(
                codes::FLUSH_DISK_TIMEOUT,
                "the flush to disk did not finish in time",
            )),
            Durability::FlushFailed => Err(flush_failed()),
        }
    }

    /// Waits until what was appended holds. A flush that is only slow is as good, as in Java: the record is there.
    pub(super) async fn until_durable(&self, appended: &Appended) -> Result<(), Refusal> {
        match self.store.durable(appended, true).await {
            Durability::Done | Durability::FlushTimeout => Ok(()),
            Durability::FlushFailed => Err(flush_failed()),
        }
    }
}

/// The flush of what a request stored failed.
pub(super) fn flush_failed() -> Refusal {
    Refusal::new(
        codes::SERVICE_NOT_AVAILABLE,
        "the flush to disk failed; take the message for lost",
    )
}

/// A stored record as a message to store again: everything but its places is kept.
pub(super) fn again(record: &MessageView<'_>) -> NewMessage {
    NewMessage {
        topic: record.topic().to_owned(),
        queue_id: record.queue_id(),
        flag: record.flag(),
        sys_flag: record.sys_flag(),
        born_timestamp: record.born_timestamp(),
        born_host: record.born_host(),
        store_host: record.store_host(),
        reconsume_times: record.reconsume_times(),
        prepared_transaction_offset: record.prepared_transaction_offset(),
        body: Bytes::copy_from_slice(record.body()),
        properties: String::from_utf8_lossy(record.properties().as_bytes()).into_owned(),
    }
}
