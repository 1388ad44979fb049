//! One message as one JSON object, for files: what `export` writes and `import` reads.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::Message;
use super::dlq::is_system_property;
use super::produce::Outgoing;
use super::time;
use crate::protocol::base64::STANDARD;

/// A message in a file. Keys and tag stand apart from the properties for a reader's sake; they are among them, too.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Topic it was read from.
    pub topic: String,
    /// Broker it was read from.
    pub broker: String,
    /// Queue number.
    pub queue: i32,
    /// Offset in the queue.
    pub offset: i64,
    /// Offset message id.
    pub offset_id: String,
    /// Key that its client made.
    pub unique_key: Option<String>,
    /// Keys.
    pub keys: Vec<String>,
    /// Tag.
    pub tag: Option<String>,
    /// Store time, RFC 3339.
    pub stored: Option<String>,
    /// Store time, epoch ms.
    pub stored_ms: i64,
    /// Client clock, epoch ms.
    pub born_ms: i64,
    /// Client address.
    pub born_host: String,
    /// How often it was given back.
    pub reconsume_times: i32,
    /// User flag.
    pub flag: i32,
    /// System flag.
    pub sys_flag: i32,
    /// All properties.
    pub properties: std::collections::BTreeMap<String, String>,
    /// The body; as text, or as the encoding says.
    pub body: String,
    /// `base64` when the body is no text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_encoding: Option<String>,
}

impl Record {
    /// A message as it is written.
    pub fn of(message: &Message) -> Self {
        let (body, body_encoding) = match std::str::from_utf8(&message.body) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => (STANDARD.encode(&message.body), Some("base64".to_owned())),
        };
        Self {
            topic: message.topic.clone(),
            broker: message.broker.clone(),
            queue: message.queue,
            offset: message.offset,
            offset_id: message.offset_id.clone(),
            unique_key: message.unique_key().map(str::to_owned),
            keys: message.keys(),
            tag: message.tag().map(str::to_owned),
            stored: time::rfc3339(message.stored_ms),
            stored_ms: message.stored_ms,
            born_ms: message.born_ms,
            born_host: message.born_host.clone(),
            reconsume_times: message.reconsume_times,
            flag: message.flag,
            sys_flag: message.sys_flag.0,
            properties: message.properties.iter().cloned().collect(),
            body,
            body_encoding,
        }
    }

    /// The message to send for it.
    pub fn outgoing(&self, topic: Option<&str>) -> Result<Outgoing, String> {
        let body = match self.body_encoding.as_deref() {
            None | Some("") => Bytes::from(self.body.clone()),
            Some("base64") => Bytes::from(
                STANDARD
                    .decode_canonical(&self.body)
                    .ok_or("the body is not Base64")?,
            ),
            Some(other) => return Err(format!("body_encoding \"{other}\" is not known; use base64")),
        };
        let topic = topic.unwrap_or(&self.topic);
        if topic.is_empty() {
            return Err("it names no topic".into());
        }
        let keys = if self.keys.is_empty() {
            let keys = self.properties.get("KEYS");
            keys.map(|k| k.split_whitespace().map(str::to_owned).collect())
                .unwrap_or_default()
        } else {
            self.keys.clone()
        };
        Ok(Outgoing {
            topic: topic.to_owned(),
            body,
            keys,
            tag: self.tag.clone().or_else(|| self.properties.get("TAGS").cloned()),
            properties: self
                .properties
                .iter()
                .filter(|(name, _)| !is_system_property(name))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
            ..Outgoing::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_becomes_a_message_without_the_former_life() {
        let record: Record = serde_json::from_str(
            r#"{"topic":"T","keys":["k"],"properties":{"seq":"1","UNIQ_KEY":"u","KEYS":"k","TAGS":"A"},
                "body":"/w==","body_encoding":"base64"}"#,
        )
        .unwrap();
        let out = record.outgoing(None).unwrap();
        assert_eq!(out.body.as_ref(), [0xFF]);
        assert_eq!((out.tag.as_deref(), out.properties.len()), (Some("A"), 1));
        assert_eq!(record.outgoing(Some("Other")).unwrap().topic, "Other");
        assert!(Record::default().outgoing(None).is_err());
    }
}
