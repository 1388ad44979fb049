//! Unit of the consume queue's extension: what does not fit the 8 bytes of a tags code. Big endian.
//!
//! ```text
//! 0         2           10           18                20
//! | size i2 | tags code | store time | bitmap bytes i2 | bitmap .. |
//! ```
//!
//! A queue entry refers to a unit by an address in place of its tags code: the unit's offset less 2^63. A size of -1
//! ends a file.

use super::{i16_at, i64_at};
use crate::protocol::model::MAX_EXT_ADDRESS;

const SIZE: usize = 0;
const TAGS_CODE: usize = SIZE + 2;
const STORE_TIME: usize = TAGS_CODE + 8;
const BITMAP_LEN: usize = STORE_TIME + 8;
/// Bytes of a unit without a bitmap.
pub const MIN_LEN: usize = BITMAP_LEN + 2;

/// One unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Bytes of the unit.
    pub size: i16,
    /// Hash of the tag.
    pub tags_code: i64,
    /// Store time of the record, ms.
    pub store_time: i64,
    /// Bytes of the bitmap of consumers whose filter passes.
    pub bitmap_len: i16,
}

impl Unit {
    /// Reads the fixed part of a unit; `None` when there is none here.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..MIN_LEN)?;
        let unit = Self {
            size: i16_at(bytes, SIZE),
            tags_code: i64_at(bytes, TAGS_CODE),
            store_time: i64_at(bytes, STORE_TIME),
            bitmap_len: i16_at(bytes, BITMAP_LEN),
        };
        let adds_up = i32::from(unit.size) == MIN_LEN as i32 + i32::from(unit.bitmap_len);
        (unit.bitmap_len >= 0 && adds_up).then_some(unit)
    }
}

/// The offset of the unit that a tags code refers to; `None` for a hash.
pub fn address(tags_code: i64) -> Option<u64> {
    (tags_code <= MAX_EXT_ADDRESS).then(|| tags_code.wrapping_sub(i64::MIN).cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_no_addresses() {
        assert_eq!(address(i64::MIN), Some(0));
        assert_eq!(address(i64::MIN + 34), Some(34));
        for hash in [0, i64::from(i32::MIN), i64::from(i32::MAX), -1] {
            assert_eq!(address(hash), None);
        }
    }

    #[test]
    fn a_unit_that_does_not_add_up_is_none() {
        let mut bytes = [0; 34];
        bytes[1] = 34;
        bytes[9] = 7;
        bytes[19] = 14;
        assert_eq!(
            Unit::parse(&bytes).map(|u| (u.tags_code, u.bitmap_len)),
            Some((7, 14))
        );
        bytes[1] = 33;
        assert_eq!(Unit::parse(&bytes), None);
        assert_eq!(Unit::parse(&[0xFF; 20]), None);
        assert_eq!(Unit::parse(&[0; 20]), None);
    }
}
