//! A stored message as an operator sees it.

use bytes::Bytes;

use super::error::Server;
use crate::protocol::message::{MessageView, records};
use crate::protocol::model::SysFlag;
use crate::protocol::properties::names;

/// Longest body after decompression.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// One stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Broker it was read from.
    pub broker: String,
    /// Topic it is stored under.
    pub topic: String,
    /// Queue number.
    pub queue: i32,
    /// Offset in the queue.
    pub offset: i64,
    /// Offset in the commit log.
    pub physical_offset: i64,
    /// Offset message id.
    pub offset_id: String,
    /// Store time, epoch ms.
    pub stored_ms: i64,
    /// Broker that stored it.
    pub store_host: String,
    /// Client clock, epoch ms.
    pub born_ms: i64,
    /// Client address as the broker saw it.
    pub born_host: String,
    /// How often it was given back.
    pub reconsume_times: i32,
    /// System flag.
    pub sys_flag: SysFlag,
    /// User flag.
    pub flag: i32,
    /// Size of the record, bytes.
    pub size: usize,
    /// Properties in their order.
    pub properties: Vec<(String, String)>,
    /// Bytes of the body as it is stored, compressed or not.
    pub stored_size: usize,
    /// The body fits the checksum that is stored with it.
    pub intact: bool,
    /// Body as the application sent it; as stored when it does not decompress.
    pub body: Bytes,
    /// Why the body did not decompress.
    pub body_error: Option<String>,
}

impl Message {
    /// Reads a record.
    pub fn from_view(view: &MessageView<'_>, broker: &Server) -> Self {
        let (body, body_error) = match view.decoded_body(BODY_LIMIT) {
            Ok(body) => (Bytes::copy_from_slice(&body), None),
            Err(e) => (Bytes::copy_from_slice(view.body()), Some(e.to_string())),
        };
        Self {
            broker: broker.name.clone().unwrap_or_else(|| broker.addr.clone()),
            topic: view.topic().to_owned(),
            queue: view.queue_id(),
            offset: view.queue_offset(),
            physical_offset: view.physical_offset(),
            offset_id: view.offset_id(),
            stored_ms: view.store_timestamp(),
            store_host: view.store_host().to_string(),
            born_ms: view.born_timestamp(),
            born_host: view.born_host().to_string(),
            reconsume_times: view.reconsume_times(),
            sys_flag: view.sys_flag(),
            flag: view.flag(),
            size: view.size(),
            properties: view
                .properties()
                .iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            stored_size: view.body().len(),
            intact: view.check_body().is_ok(),
            body,
            body_error,
        }
    }

    /// A message without anything, for tests to fill in.
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        Self {
            broker: "b".into(),
            topic: "T".into(),
            queue: 0,
            offset: 0,
            physical_offset: 0,
            offset_id: String::new(),
            stored_ms: 0,
            store_host: String::new(),
            born_ms: 0,
            born_host: String::new(),
            reconsume_times: 0,
            sys_flag: SysFlag(0),
            flag: 0,
            size: 0,
            properties: Vec::new(),
            stored_size: 0,
            intact: true,
            body: Bytes::new(),
            body_error: None,
        }
    }

    /// Reads the records of an answer. The second value says what stopped the reading, if anything did.
    pub fn read_all(bytes: &[u8], broker: &Server) -> (Vec<Self>, Option<String>) {
        let mut messages = Vec::new();
        for record in records(bytes) {
            match record {
                Ok(view) => messages.push(Self::from_view(&view, broker)),
                Err(fault) => return (messages, Some(fault.to_string())),
            }
        }
        (messages, None)
    }

    /// A property.
    pub fn property(&self, name: &str) -> Option<&str> {
        self.properties
            .iter()
            .find(|(k, _)| k == name)
            .map(|(_, v)| v.as_str())
    }

    /// The key that its client made for it.
    pub fn unique_key(&self) -> Option<&str> {
        self.property(names::UNIQ_KEY)
    }

    /// Its tag.
    pub fn tag(&self) -> Option<&str> {
        self.property(names::TAGS)
    }

    /// Its keys.
    pub fn keys(&self) -> Vec<String> {
        self.property(names::KEYS)
            .map(|keys| keys.split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default()
    }
}
