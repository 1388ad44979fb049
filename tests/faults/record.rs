//! A stored record, read by its layout alone (magic DAA320A7).

/// What the audit looks at.
pub struct Record<'a> {
    pub queue: i32,
    pub queue_offset: i64,
    pub physical_offset: i64,
    pub body: &'a [u8],
    pub topic: &'a [u8],
    pub len: usize,
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn i64_at(bytes: &[u8], at: usize) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The record at the start of `bytes`; `None` when it is not whole.
pub fn parse(bytes: &[u8]) -> Option<Record<'_>> {
    let len = u32_at(bytes, 0)? as usize;
    let bytes = bytes.get(..len)?;
    if u32_at(bytes, 4)? != 0xDAA3_20A7 {
        return None;
    }
    let flags = u32_at(bytes, 36)?;
    let host = |bit: u32| if flags >> bit & 1 == 1 { 20 } else { 8 };
    let store_host = 48 + host(4) + 8;
    let mut at = store_host + host(5) + 4 + 8;
    let body_len = u32_at(bytes, at)? as usize;
    let body = bytes.get(at + 4..at + 4 + body_len)?;
    at += 4 + body_len;
    let topic_len = usize::from(*bytes.get(at)?);
    let topic = bytes.get(at + 1..at + 1 + topic_len)?;
    at += 1 + topic_len;
    let properties_len = usize::from(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
    (at + 2 + properties_len == len).then_some(Record {
        queue: u32_at(bytes, 12)? as i32,
        queue_offset: i64_at(bytes, 20)?,
        physical_offset: i64_at(bytes, 28)?,
        body,
        topic,
        len,
    })
}

/// The records of an answer, and whether something that is none follows them.
pub fn all(mut bytes: &[u8]) -> (Vec<Record<'_>>, bool) {
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let Some(record) = parse(bytes) else {
            return (out, true);
        };
        bytes = &bytes[record.len..];
        out.push(record);
    }
    (out, false)
}
