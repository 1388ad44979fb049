//! A borrowed view of a stored record, fully checked when it is made.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::super::Error;
use super::super::message_id::offset_id;
use super::super::model::SysFlag;
use super::super::properties::{NAME_END, Properties, VALUE_END, names};
use super::{
    BODY_CRC, BORN_HOST, BORN_TIMESTAMP, FLAG, Fault, MAGIC, MAGIC_BLANK, MAGIC_V2, PHYSICAL_OFFSET, Peek,
    QUEUE_ID, QUEUE_OFFSET, SYS_FLAG, crc, decompress, peek, word,
};

/// A record in place. Its lengths were checked when it was made, so the getters cannot fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageView<'a> {
    bytes: &'a [u8],
    store_timestamp: usize,
    reconsume_times: usize,
    body: &'a [u8],
    topic: &'a str,
    properties: &'a [u8],
}

impl<'a> MessageView<'a> {
    /// Reads the record at the start of `bytes` and checks all its lengths, the topic, and the end of its
    /// properties; see [`Self::check_body`] for the checksum.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Fault> {
        let total = match peek(bytes)? {
            Peek::Message(total) => total,
            Peek::Blank => return Err(Fault::Magic(MAGIC_BLANK)),
        };
        let Some(bytes) = bytes.get(..total) else {
            return Err(Fault::Short {
                needed: total,
                available: bytes.len(),
            });
        };
        let mut rest = Rest { bytes, at: MAGIC };
        let magic = rest.u32()?;
        rest.at = SYS_FLAG;
        let sys_flag = SysFlag(rest.u32()? as i32);
        rest.at = BORN_HOST;
        rest.take(
            "born host",
            if sys_flag.has(SysFlag::BORN_HOST_V6) {
                20
            } else {
                8
            },
        )?;
        let store_timestamp = rest.at;
        rest.take("store time", 8)?;
        rest.take(
            "store host",
            if sys_flag.has(SysFlag::STORE_HOST_V6) {
                20
            } else {
                8
            },
        )?;
        let reconsume_times = rest.at;
        rest.take("offsets", 12)?;
        let body_len = rest.u32()? as i32;
        let body = rest.take_signed("body", i64::from(body_len))?;
        let topic_len = if magic == MAGIC_V2 {
            i64::from(rest.u16()? as i16)
        } else {
            i64::from(rest.u8()? as i8)
        };
        let topic = rest.take_signed("topic", topic_len)?;
        let properties_len = rest.u16()? as i16;
        let properties = rest.take_signed("properties", i64::from(properties_len))?;
        if rest.at != total {
            return Err(Fault::Total {
                total,
                parts: rest.at,
            });
        }
        // No broker ends a record with NUL: what does was cut short by a lost page.
        let topic = std::str::from_utf8(topic).map_err(|_| Fault::Text("topic"))?;
        if topic.is_empty() || topic.contains('\0') {
            return Err(Fault::Text("topic"));
        }
        if properties.last() == Some(&0) {
            return Err(Fault::Text("properties"));
        }
        Ok(Self {
            bytes,
            store_timestamp,
            reconsume_times,
            body,
            topic,
            properties,
        })
    }

    /// Reads the record and compares the checksum of its body.
    pub fn parse_checked(bytes: &'a [u8]) -> Result<Self, Fault> {
        let view = Self::parse(bytes)?;
        view.check_body()?;
        Ok(view)
    }

    /// Compares the checksum of the body; an empty body has none, as in Java.
    pub fn check_body(&self) -> Result<(), Fault> {
        let (stored, found) = (self.body_crc(), crc(self.body));
        if self.body.is_empty() || stored == found {
            Ok(())
        } else {
            Err(Fault::BodyCrc { stored, found })
        }
    }

    /// Compares the checksum of the whole record that a broker with `enabledAppendPropCRC` appends as its last
    /// property: `__CRC32#`, a separator, ten digits with the lowest first, a separator. `None` when there is none.
    pub fn check_whole(&self) -> Option<Result<(), Fault>> {
        const TAIL: usize = names::CRC32.len() + 12;
        let head = self.bytes.len().checked_sub(TAIL)?;
        let digits = self
            .properties
            .last_chunk::<TAIL>()?
            .strip_prefix(names::CRC32.as_bytes())?
            .strip_prefix(&[NAME_END as u8])?
            .strip_suffix(&[VALUE_END as u8])?;
        let mut stored = 0u64;
        for &digit in digits.iter().rev() {
            stored = stored * 10 + u64::from(digit.checked_sub(b'0').filter(|&d| d < 10)?);
        }
        let (stored, found) = (u32::try_from(stored).ok()?, crc(&self.bytes[..head]));
        Some(if stored == found {
            Ok(())
        } else {
            Err(Fault::WholeCrc { stored, found })
        })
    }

    fn u32_at(&self, at: usize) -> u32 {
        word(self.bytes, at).expect("parse() found the fixed part whole")
    }

    fn i64_at(&self, at: usize) -> i64 {
        (i64::from(self.u32_at(at)) << 32) | i64::from(self.u32_at(at + 4))
    }

    fn host_at(&self, at: usize, v6: bool) -> SocketAddr {
        let (ip, port) = if v6 {
            let octets = self.bytes[at..].first_chunk::<16>().copied().unwrap_or_default();
            (IpAddr::V6(Ipv6Addr::from(octets)), self.u32_at(at + 16))
        } else {
            (IpAddr::V4(Ipv4Addr::from(self.u32_at(at))), self.u32_at(at + 4))
        };
        SocketAddr::new(ip, port as u16)
    }

    /// The whole record.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Bytes of the whole record.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// Which layout it has: [`MAGIC_V1`] or [`MAGIC_V2`].
    pub fn magic(&self) -> u32 {
        self.u32_at(MAGIC)
    }

    /// Stored checksum of the body.
    pub fn body_crc(&self) -> u32 {
        self.u32_at(BODY_CRC)
    }

    /// Queue it is stored in.
    pub fn queue_id(&self) -> i32 {
        self.u32_at(QUEUE_ID) as i32
    }

    /// User flag.
    pub fn flag(&self) -> i32 {
        self.u32_at(FLAG) as i32
    }

    /// Offset in the queue.
    pub fn queue_offset(&self) -> i64 {
        self.i64_at(QUEUE_OFFSET)
    }

    /// Position in the log, as stored.
    pub fn physical_offset(&self) -> i64 {
        self.i64_at(PHYSICAL_OFFSET)
    }

    /// System flag.
    pub fn sys_flag(&self) -> SysFlag {
        SysFlag(self.u32_at(SYS_FLAG) as i32)
    }

    /// How many messages the record stands for: one, or those of an inner batch.
    pub fn messages(&self) -> u32 {
        if !self.sys_flag().has(SysFlag::INNER_BATCH) {
            return 1;
        }
        let count = self.properties().get(names::INNER_NUM);
        let count = count.and_then(|n| n.parse::<u32>().ok());
        count.filter(|n| *n > 0).unwrap_or(1)
    }

    /// Client clock, ms.
    pub fn born_timestamp(&self) -> i64 {
        self.i64_at(BORN_TIMESTAMP)
    }

    /// Client address.
    pub fn born_host(&self) -> SocketAddr {
        self.host_at(BORN_HOST, self.sys_flag().has(SysFlag::BORN_HOST_V6))
    }

    /// Broker clock inside the append lock, ms.
    pub fn store_timestamp(&self) -> i64 {
        self.i64_at(self.store_timestamp)
    }

    /// Broker address.
    pub fn store_host(&self) -> SocketAddr {
        self.host_at(
            self.store_timestamp + 8,
            self.sys_flag().has(SysFlag::STORE_HOST_V6),
        )
    }

    /// How often it was given back.
    pub fn reconsume_times(&self) -> i32 {
        self.u32_at(self.reconsume_times) as i32
    }

    /// Physical offset of the half message, or 0.
    pub fn prepared_transaction_offset(&self) -> i64 {
        self.i64_at(self.reconsume_times + 4)
    }

    /// Body as stored.
    pub fn body(&self) -> &'a [u8] {
        self.body
    }

    /// Body as the application sent it; an error when it does not decompress or passes `limit` bytes.
    pub fn decoded_body(&self, limit: usize) -> Result<Cow<'a, [u8]>, Error> {
        match self.sys_flag().compression() {
            None => Ok(Cow::Borrowed(self.body)),
            Some(kind) => decompress(kind, self.body, limit).map(Cow::Owned),
        }
    }

    /// Topic it is stored under.
    pub fn topic(&self) -> &'a str {
        self.topic
    }

    /// Properties.
    pub fn properties(&self) -> Properties<'a> {
        Properties::new(self.properties)
    }

    /// Its offset id.
    pub fn offset_id(&self) -> String {
        offset_id(&self.store_host(), self.physical_offset())
    }
}

/// The records of a pull, pop or query answer one after the other; ends after the first fault.
pub fn records(mut bytes: &[u8]) -> impl Iterator<Item = Result<MessageView<'_>, Fault>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let view = MessageView::parse(bytes);
        bytes = view.as_ref().map_or(&[], |view| &bytes[view.size()..]);
        Some(view)
    })
}

/// Reads parts one after the other.
struct Rest<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Rest<'a> {
    fn take(&mut self, field: &'static str, len: usize) -> Result<&'a [u8], Fault> {
        self.take_signed(field, len as i64)
    }

    fn take_signed(&mut self, field: &'static str, len: i64) -> Result<&'a [u8], Fault> {
        let bad = Fault::Length { field, value: len };
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        let part = end.and_then(|end| self.bytes.get(self.at..end)).ok_or(bad)?;
        self.at += part.len();
        Ok(part)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let part = self.take("fixed part", N)?;
        Ok(part.first_chunk().copied().unwrap_or([0; N]))
    }

    fn u8(&mut self) -> Result<u8, Fault> {
        self.array().map(u8::from_be_bytes)
    }

    fn u16(&mut self) -> Result<u16, Fault> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }
}
