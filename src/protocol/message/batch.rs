//! The body of a traditional batch: items one after the other, topic and queue in the request's header.
//!
//! ```text
//! 0       4         8       12     16          20          +bodyLen
//! | total | magic 0 | crc 0 | flag | bodyLen   | body      | propertiesLen i16 | properties |
//! ```

use bytes::Bytes;

use super::super::Error;
use super::MAX_PROPERTIES;

const FLAG: usize = 12;
const BODY_LEN: usize = FLAG + 4;
const BODY: usize = BODY_LEN + 4;
/// An item without body and properties.
const MIN_LEN: usize = BODY + 2;

/// One message of a batch body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchItem {
    /// User flag.
    pub flag: i32,
    /// Body, never compressed.
    pub body: Bytes,
    /// Properties in their text form.
    pub properties: String,
}

/// Reads all items; each must fill exactly the length it states, and there must be at least one.
pub fn parse_batch(body: &Bytes) -> Result<Vec<BatchItem>, Error> {
    let mut items = Vec::new();
    let mut at = 0;
    while at < body.len() {
        let total = length("batch item", word(body, at)?, body.len() - at)?;
        if total < MIN_LEN {
            return Err(Error::malformed("batch item", format!("{total} bytes at {at}")));
        }
        let item = body.slice(at..at + total);
        let body_len = length("batch item body", word(&item, BODY_LEN)?, total - MIN_LEN)?;
        let text = BODY + body_len + 2;
        let properties_len = i16::from_be_bytes([item[text - 2], item[text - 1]]);
        let properties_len = length("batch item properties", i32::from(properties_len), total - text)?;
        if text + properties_len != total {
            return Err(Error::malformed(
                "batch item",
                format!("{} bytes too long at {at}", total - text - properties_len),
            ));
        }
        let properties = std::str::from_utf8(&item[text..])
            .map_err(|e| Error::malformed("batch item properties", e.to_string()))?;
        items.push(BatchItem {
            flag: word(&item, FLAG)?,
            body: item.slice(BODY..BODY + body_len),
            properties: properties.to_owned(),
        });
        at += total;
    }
    if items.is_empty() {
        return Err(Error::malformed("batch", "no items"));
    }
    Ok(items)
}

/// Writes the body of a batch.
pub fn encode_batch(items: &[BatchItem]) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    for item in items {
        let total = MIN_LEN + item.body.len() + item.properties.len();
        let bad = |what, len: usize| Error::Length {
            what,
            len: len as i64,
            available: MAX_PROPERTIES,
        };
        let total = i32::try_from(total).map_err(|_| bad("batch item", total))?;
        let properties_len = i16::try_from(item.properties.len())
            .map_err(|_| bad("batch item properties", item.properties.len()))?;
        out.extend_from_slice(&total.to_be_bytes());
        out.extend_from_slice(&[0; 8]);
        out.extend_from_slice(&item.flag.to_be_bytes());
        out.extend_from_slice(&(item.body.len() as u32).to_be_bytes());
        out.extend_from_slice(&item.body);
        out.extend_from_slice(&properties_len.to_be_bytes());
        out.extend_from_slice(item.properties.as_bytes());
    }
    Ok(out.into())
}

fn word(bytes: &[u8], at: usize) -> Result<i32, Error> {
    match bytes.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        Some(word) => Ok(i32::from_be_bytes(*word)),
        None => Err(Error::Length {
            what: "batch item",
            len: 4,
            available: bytes.len().saturating_sub(at),
        }),
    }
}

fn length(what: &'static str, len: i32, available: usize) -> Result<usize, Error> {
    match usize::try_from(len) {
        Ok(len) if len <= available => Ok(len),
        _ => Err(Error::Length {
            what,
            len: i64::from(len),
            available,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_item_has_the_captured_shape() {
        // From a Java producer: body "batch0", 94 bytes of properties.
        let properties = format!("k\x01{}\x02", "v".repeat(91));
        let items = [BatchItem {
            flag: 0,
            body: "batch0".into(),
            properties,
        }];
        let bytes = encode_batch(&items).unwrap();
        let head = b"\0\0\0\x7A\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x06batch0\0\x5E";
        assert_eq!(&bytes[..head.len()], head);
        assert_eq!(parse_batch(&bytes).unwrap(), items);
    }

    #[test]
    fn an_item_that_does_not_fill_its_length_is_refused() {
        let items = vec![
            BatchItem {
                flag: 1,
                body: "ab".into(),
                properties: "k\x01v\x02".into(),
            };
            2
        ];
        let good = encode_batch(&items).unwrap();
        assert!(parse_batch(&Bytes::new()).is_err());
        for cut in 1..good.len() {
            let whole_items = cut == good.len() / 2;
            assert_eq!(
                parse_batch(&good.slice(..cut)).is_ok(),
                whole_items,
                "cut at {cut}"
            );
        }
        for (at, value) in [(3, 0xFFu8), (0, 0xFF), (16, 0x80), (19, 9), (23, 9), (22, 0x80)] {
            let mut bad = good.to_vec();
            bad[at] = value;
            assert!(parse_batch(&bad.into()).is_err(), "byte {at}");
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse_batch(&bytes.into());
        }
    }
}
