//! The stored message record: what is appended, and a borrowed view of what was.
//!
//! Big endian. A host is 4 or 16 address bytes, by its bit in the system flag, and a port in four more.
//!
//! ```text
//!   0         4      8         12       16    20           28              36       40             48
//!   | total   | magic | bodyCrc | queueId | flag | queueOffset | physicalOffset | sysFlag | bornTimestamp | ..
//!   48        56 or 68        +8          +16 or 28      +4                +8
//!   | bornHost | storeTimestamp | storeHost | reconsumeTimes | preparedOffset | bodyLen i32, body |
//!   | topicLen i8 (version 1) or i16 (version 2), topic | propertiesLen i16, properties |
//! ```
//!
//! The checksum is the CRC-32 of the stored body with the sign bit cleared. A record never spans files: the rest of
//! a file is a filler, `i32 rest, i32` [`MAGIC_BLANK`]. Offset words are written by the store, inside its lock.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;

use super::Error;
use super::model::SysFlag;

mod batch;
mod compress;
mod entry;
mod view;

pub use batch::{BatchItem, encode_batch, parse_batch};
pub use compress::decompress;
pub use entry::{EntryClaim, difference};
pub use view::{MessageView, records};

/// Magic of a record with a one-byte topic length.
pub const MAGIC_V1: u32 = 0xDAA3_20A7;
/// Magic of a record with a two-byte topic length.
pub const MAGIC_V2: u32 = 0xDAA3_20AB;
/// Magic of the filler at the end of a file.
pub const MAGIC_BLANK: u32 = 0xCBD4_3194;
/// Bytes of a filler's head; a record must leave as many behind it in its file.
pub const BLANK_LEN: usize = 8;
/// Longest properties text, in bytes.
pub const MAX_PROPERTIES: usize = 32_767;
/// Longest topic of a version 1 record, in bytes.
pub const MAX_TOPIC_V1: usize = 127;

const MAGIC: usize = 4;
const BODY_CRC: usize = MAGIC + 4;
const QUEUE_ID: usize = BODY_CRC + 4;
const FLAG: usize = QUEUE_ID + 4;
const QUEUE_OFFSET: usize = FLAG + 4;
const PHYSICAL_OFFSET: usize = QUEUE_OFFSET + 8;
const SYS_FLAG: usize = PHYSICAL_OFFSET + 8;
const BORN_TIMESTAMP: usize = SYS_FLAG + 4;
const BORN_HOST: usize = BORN_TIMESTAMP + 8;
/// Everything but hosts, body, topic and properties, with a one-byte topic length.
const FIXED: usize = BORN_HOST + 8 + 4 + 8 + 4 + 1 + 2;
/// Shortest record: two version 4 hosts, nothing else.
pub const MIN_LEN: usize = FIXED + 16;

/// A message to be appended. The store adds queue offset, physical offset and store time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMessage {
    /// Topic it is stored under.
    pub topic: String,
    /// Queue it is stored in.
    pub queue_id: i32,
    /// User flag, opaque.
    pub flag: i32,
    /// System flag; the host bits are set by the encoder from the addresses.
    pub sys_flag: SysFlag,
    /// Client clock, ms.
    pub born_timestamp: i64,
    /// Client address as the broker saw it.
    pub born_host: SocketAddr,
    /// Broker address as clients reach it (brokerIP1 and listen port).
    pub store_host: SocketAddr,
    /// How often it was given back.
    pub reconsume_times: i32,
    /// Physical offset of the half message, or 0.
    pub prepared_transaction_offset: i64,
    /// Body as the client sent it.
    pub body: Bytes,
    /// Properties in their text form.
    pub properties: String,
}

/// What can be known of a record before it has a place: made outside the append lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Bytes of the whole record.
    pub len: usize,
    body_crc: u32,
    magic: u32,
}

/// What the store decides inside its lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Offset in the queue.
    pub queue_offset: i64,
    /// Position in the log.
    pub physical_offset: i64,
    /// Store time, ms.
    pub store_timestamp: i64,
}

impl NewMessage {
    /// Checks the lengths, and works out size and checksum.
    pub fn measure(&self) -> Result<Measured, Error> {
        let too_long = |what, len: usize, available| Error::Length {
            what,
            len: i64::try_from(len).unwrap_or(i64::MAX),
            available,
        };
        if self.topic.is_empty() || self.topic.len() > MAX_PROPERTIES {
            return Err(too_long("topic", self.topic.len(), MAX_PROPERTIES));
        }
        if self.properties.len() > MAX_PROPERTIES {
            return Err(too_long("properties", self.properties.len(), MAX_PROPERTIES));
        }
        // What no reader would take for a record must not be written: see MessageView::parse().
        if self.topic.contains('\0') || self.properties.ends_with('\0') {
            return Err(Error::malformed(
                "message",
                "NUL in its topic or at the end of its properties",
            ));
        }
        let long_topic = self.topic.len() > MAX_TOPIC_V1;
        let len = FIXED
            + usize::from(long_topic)
            + host_len(&self.born_host)
            + host_len(&self.store_host)
            + self.topic.len()
            + self.properties.len();
        match len.checked_add(self.body.len()) {
            Some(len) if i32::try_from(len).is_ok() => Ok(Measured {
                len,
                body_crc: crc(&self.body),
                magic: if long_topic { MAGIC_V2 } else { MAGIC_V1 },
            }),
            _ => Err(too_long("body", self.body.len(), i32::MAX as usize)),
        }
    }

    /// Writes the record.
    ///
    /// # Panics
    ///
    /// When `out` is not as long as `measured`, or `measured` is of another message.
    pub fn encode(&self, measured: &Measured, stamp: Stamp, out: &mut [u8]) {
        assert_eq!(out.len(), measured.len, "the slot has the measured length");
        let mut sys_flag = self.sys_flag.0 & !(SysFlag::BORN_HOST_V6 | SysFlag::STORE_HOST_V6);
        if self.born_host.is_ipv6() {
            sys_flag |= SysFlag::BORN_HOST_V6;
        }
        if self.store_host.is_ipv6() {
            sys_flag |= SysFlag::STORE_HOST_V6;
        }
        let mut out = Out(out);
        out.put(&(measured.len as u32).to_be_bytes());
        out.put(&measured.magic.to_be_bytes());
        out.put(&measured.body_crc.to_be_bytes());
        out.put(&self.queue_id.to_be_bytes());
        out.put(&self.flag.to_be_bytes());
        out.put(&stamp.queue_offset.to_be_bytes());
        out.put(&stamp.physical_offset.to_be_bytes());
        out.put(&sys_flag.to_be_bytes());
        out.put(&self.born_timestamp.to_be_bytes());
        out.host(&self.born_host);
        out.put(&stamp.store_timestamp.to_be_bytes());
        out.host(&self.store_host);
        out.put(&self.reconsume_times.to_be_bytes());
        out.put(&self.prepared_transaction_offset.to_be_bytes());
        out.put(&(self.body.len() as u32).to_be_bytes());
        out.put(&self.body);
        if measured.magic == MAGIC_V2 {
            out.put(&(self.topic.len() as u16).to_be_bytes());
        } else {
            out.put(&[self.topic.len() as u8]);
        }
        out.put(self.topic.as_bytes());
        out.put(&(self.properties.len() as u16).to_be_bytes());
        out.put(self.properties.as_bytes());
        assert!(out.0.is_empty(), "the measure belongs to this message");
    }

    /// The record in a buffer of its own.
    pub fn to_vec(&self, stamp: Stamp) -> Result<Vec<u8>, Error> {
        let measured = self.measure()?;
        let mut out = vec![0; measured.len];
        self.encode(&measured, stamp, &mut out);
        Ok(out)
    }
}

/// Writes the filler's head at the start of the `rest` bytes of a file; the others stay as they are.
///
/// # Panics
///
/// When fewer than [`BLANK_LEN`] bytes are left.
pub fn encode_blank(rest: &mut [u8]) {
    let len = (rest.len() as u32).to_be_bytes();
    rest[..4].copy_from_slice(&len);
    rest[4..BLANK_LEN].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
}

/// The checksum of a stored body.
pub fn crc(body: &[u8]) -> u32 {
    crc32fast::hash(body) & 0x7FFF_FFFF
}

fn host_len(host: &SocketAddr) -> usize {
    if host.is_ipv6() { 20 } else { 8 }
}

struct Out<'a>(&'a mut [u8]);

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) {
        let (head, rest) = std::mem::take(&mut self.0).split_at_mut(bytes.len());
        head.copy_from_slice(bytes);
        self.0 = rest;
    }

    fn host(&mut self, host: &SocketAddr) {
        match host.ip() {
            IpAddr::V4(ip) => self.put(&ip.octets()),
            IpAddr::V6(ip) => self.put(&ip.octets()),
        }
        self.put(&u32::from(host.port()).to_be_bytes());
    }
}

/// Why bytes are not a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Fewer bytes than the record says, or than any record has.
    #[error("{available} bytes left of {needed}")]
    Short {
        /// Bytes asked for.
        needed: usize,
        /// Bytes there.
        available: usize,
    },
    /// Neither a record nor a filler.
    #[error("bad magic {0:#010x}")]
    Magic(u32),
    /// A length word that cannot be.
    #[error("bad {field} length {value}")]
    Length {
        /// Whose length.
        field: &'static str,
        /// Its value.
        value: i64,
    },
    /// The parts do not add up to the whole.
    #[error("parts add up to {parts} bytes, the record says {total}")]
    Total {
        /// What the record says.
        total: usize,
        /// What the parts need.
        parts: usize,
    },
    /// The body is not the one that was stored.
    #[error("body checksum is {found:#010x}, the record says {stored:#010x}")]
    BodyCrc {
        /// What the record says.
        stored: u32,
        /// What the body has.
        found: u32,
    },
    /// The record is not the one that was stored, as its `__CRC32#` property tells.
    #[error("checksum of the record is {found:#010x}, its property __CRC32# says {stored:#010x}")]
    WholeCrc {
        /// What the property says.
        stored: u32,
        /// What the record has.
        found: u32,
    },
    /// A part that cannot have been written so.
    #[error("bad {0}")]
    Text(&'static str),
}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        Self::malformed("message record", fault.to_string())
    }
}

/// What begins at a position of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peek {
    /// A record of this many bytes.
    Message(usize),
    /// The filler; its own length word is not to be trusted.
    Blank,
}

/// Reads length and magic of what begins here. Needs the first [`BLANK_LEN`] bytes only.
pub fn peek(bytes: &[u8]) -> Result<Peek, Fault> {
    let (Some(len), Some(magic)) = (word(bytes, 0), word(bytes, MAGIC)) else {
        return Err(Fault::Short {
            needed: BLANK_LEN,
            available: bytes.len(),
        });
    };
    match magic {
        MAGIC_V1 | MAGIC_V2 => match usize::try_from(len as i32) {
            Ok(len) if len >= MIN_LEN => Ok(Peek::Message(len)),
            _ => Err(Fault::Length {
                field: "record",
                value: i64::from(len as i32),
            }),
        },
        MAGIC_BLANK => Ok(Peek::Blank),
        other => Err(Fault::Magic(other)),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*word))
}

#[cfg(test)]
mod tests;
