//! One connection, blocking, written from the protocol's description alone: nothing of the client or the codec under
//! test is in the audit's way.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

pub const FLUSH_DISK_TIMEOUT: i64 = 10;

/// A response.
pub struct Answer {
    pub code: i64,
    pub remark: String,
    pub fields: Value,
    pub body: Vec<u8>,
}

impl Answer {
    /// A number among the fields, which are texts.
    pub fn number(&self, name: &str) -> i64 {
        self.fields[name]
            .as_str()
            .and_then(|n| n.parse().ok())
            .unwrap_or(-1)
    }
}

/// A connection.
pub struct Wire {
    stream: TcpStream,
    opaque: i64,
}

/// Puts a frame together from its header's bytes and a body.
pub fn frame(header: &[u8], kind: u8, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + header.len() + body.len());
    out.extend(((4 + header.len() + body.len()) as u32).to_be_bytes());
    out.extend((header.len() as u32 | u32::from(kind) << 24).to_be_bytes());
    out.extend(header);
    out.extend(body);
    out
}

impl Wire {
    pub fn connect(address: &str, limit: Duration) -> io::Result<Self> {
        let address: SocketAddr = address.parse().map_err(io::Error::other)?;
        let stream = TcpStream::connect_timeout(&address, limit)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        Ok(Self { stream, opaque: 0 })
    }

    /// One request and its response.
    pub fn call(&mut self, code: i32, fields: &Value, body: &[u8]) -> io::Result<Answer> {
        self.opaque += 1;
        let header = json!({
            "code": code, "language": "JAVA", "version": 479, "opaque": self.opaque, "flag": 0,
            "extFields": fields, "serializeTypeCurrentRPC": "JSON",
        });
        self.stream
            .write_all(&frame(header.to_string().as_bytes(), 0, body))?;
        loop {
            let mut lengths = [0; 8];
            self.stream.read_exact(&mut lengths)?;
            let total = u32::from_be_bytes([lengths[0], lengths[1], lengths[2], lengths[3]]) as usize;
            let header = u32::from_be_bytes([0, lengths[5], lengths[6], lengths[7]]) as usize;
            if total > 64 << 20 || header + 4 > total {
                return Err(io::Error::other("no frame"));
            }
            let mut rest = vec![0; total - 4];
            self.stream.read_exact(&mut rest)?;
            let body = rest.split_off(header);
            let header: Value = serde_json::from_slice(&rest)?;
            if header["opaque"].as_i64() == Some(self.opaque) && header["flag"].as_i64().unwrap_or(0) & 1 == 1
            {
                return Ok(Answer {
                    code: header["code"].as_i64().unwrap_or(-1),
                    remark: header["remark"].as_str().unwrap_or_default().to_owned(),
                    fields: header["extFields"].clone(),
                    body,
                });
            }
        }
    }

    pub fn create_topic(&mut self, topic: &str, queues: i32) -> io::Result<Answer> {
        let queues = queues.to_string();
        let fields = json!({
            "topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues, "writeQueueNums": queues,
            "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
        });
        self.call(17, &fields, b"")
    }

    pub fn send(&mut self, topic: &str, queue: i32, key: &str, body: &[u8]) -> io::Result<Answer> {
        let fields = json!({
            "producerGroup": "PG_faults", "topic": topic, "defaultTopic": "TBW102",
            "defaultTopicQueueNums": "4", "queueId": queue.to_string(), "sysFlag": "0",
            "bornTimestamp": now_ms().to_string(), "flag": "0", "reconsumeTimes": "0", "unitMode": "false",
            "batch": "false",
            "properties": format!("KEYS\u{1}{key}\u{2}TAGS\u{1}T\u{2}"),
        });
        self.call(10, &fields, body)
    }

    /// First offset of a queue and the one behind its last.
    pub fn range(&mut self, topic: &str, queue: i32) -> io::Result<(i64, i64)> {
        let fields = json!({ "topic": topic, "queueId": queue.to_string() });
        Ok((
            self.call(31, &fields, b"")?.number("offset"),
            self.call(30, &fields, b"")?.number("offset"),
        ))
    }

    /// Up to 32 messages: their records as they are stored, and where to go on.
    pub fn pull(&mut self, topic: &str, queue: i32, offset: i64) -> io::Result<Answer> {
        let fields = json!({
            "consumerGroup": "CG_faults", "topic": topic, "queueId": queue.to_string(),
            "queueOffset": offset.to_string(), "maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0",
            "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0", "expressionType": "TAG",
        });
        self.call(11, &fields, b"")
    }

    /// Records that the index has under a key.
    pub fn by_key(&mut self, topic: &str, key: &str) -> io::Result<Answer> {
        let fields = json!({
            "topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0",
            "endTimestamp": i64::MAX.to_string(),
        });
        self.call(12, &fields, b"")
    }

    /// The broker's figures (28).
    pub fn figures(&mut self) -> io::Result<BTreeMap<String, String>> {
        let answer = self.call(28, &json!({}), b"")?;
        let body: Value = serde_json::from_slice(&answer.body)?;
        let table = body["table"].as_object().cloned().unwrap_or_default();
        Ok(table
            .into_iter()
            .map(|(key, value)| (key, value.as_str().unwrap_or_default().to_owned()))
            .collect())
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |t| t.as_millis() as u64)
}
