//! Messages that the broker itself writes: deliveries of what waited, retries, half messages, markers. Client sends
//! end here too, so that one place decides where a message that has to wait goes first.

use bytes::Bytes;

use super::{Broker, send};
use crate::protocol::codes;
use crate::protocol::message::{MessageView, NewMessage};
use crate::remoting::Refusal;
use crate::store::{AppendError, Appended, Durability};

impl Broker {
    /// Appends a message. Does not wait until it holds; see [`Self::put_durably`].
    pub(super) fn put(&self, message: &NewMessage) -> Result<Appended, AppendError> {
        self.store.append(message)
    }

    /// Appends a message and waits until it holds as the flush mode asks. An error means that it must be tried again.
    #[allow(dead_code)]
    pub(super) async fn put_durably(&self, message: &NewMessage) -> Result<Appended, Refusal> {
        let appended = self.put(message).map_err(|e| send::refusal(self, e))?;
        match self.store.durable(&appended, true).await {
            Durability::Done => Ok(appended),
            Durability::FlushTimeout => Err(Refusal::new(
                codes::FLUSH_DISK_TIMEOUT,
                "the flush to disk did not finish in time",
            )),
            Durability::FlushFailed => Err(Refusal::new(
                codes::SERVICE_NOT_AVAILABLE,
                "the flush to disk failed; take the message for lost",
            )),
        }
    }
}

/// A stored record as a message to store again: everything but its places is kept.
#[allow(dead_code)]
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
