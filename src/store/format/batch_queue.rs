//! Entry of a batch consume queue, 46 bytes, big endian: one entry for a record that holds several messages.
//!
//! ```text
//! 0                 8             12          20           28            36           38                 42         46
//! | physical offset | record size | tags code | store time | base offset | batch size | compacted offset | reserved |
//! ```
//!
//! Message i of the record has queue offset base + i. The compacted offset is -1 where nothing was compacted.

use super::{i16_at, i32_at, i64_at};

const OFFSET: usize = 0;
const SIZE: usize = OFFSET + 8;
const TAGS_CODE: usize = SIZE + 4;
const STORE_TIME: usize = TAGS_CODE + 8;
const BASE_OFFSET: usize = STORE_TIME + 8;
const BATCH_SIZE: usize = BASE_OFFSET + 8;
const COMPACTED: usize = BATCH_SIZE + 2;
/// Bytes of an entry.
pub const LEN: usize = COMPACTED + 4 + 4;

/// Where a record of several messages is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Physical offset of the record.
    pub offset: i64,
    /// Its size in bytes.
    pub size: i32,
    /// Hash of its tag.
    pub tags_code: i64,
    /// Its store time, ms.
    pub store_time: i64,
    /// Queue offset of its first message.
    pub base_offset: i64,
    /// How many messages it holds.
    pub batch_size: i16,
    /// Offset after compaction, -1 for none.
    pub compacted_offset: i32,
}

impl Entry {
    /// Reads an entry.
    pub fn parse(bytes: &[u8; LEN]) -> Self {
        Self {
            offset: i64_at(bytes, OFFSET),
            size: i32_at(bytes, SIZE),
            tags_code: i64_at(bytes, TAGS_CODE),
            store_time: i64_at(bytes, STORE_TIME),
            base_offset: i64_at(bytes, BASE_OFFSET),
            batch_size: i16_at(bytes, BATCH_SIZE),
            compacted_offset: i32_at(bytes, COMPACTED),
        }
    }

    /// True for an entry that was written.
    pub fn is_written(&self) -> bool {
        self.offset >= 0 && self.size > 0 && self.base_offset >= 0 && self.batch_size > 0
    }

    /// Queue offset behind its last message.
    pub fn end_offset(&self) -> i64 {
        self.base_offset.saturating_add(i64::from(self.batch_size))
    }

    /// The bytes of the entry.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[OFFSET..SIZE].copy_from_slice(&self.offset.to_be_bytes());
        out[SIZE..TAGS_CODE].copy_from_slice(&self.size.to_be_bytes());
        out[TAGS_CODE..STORE_TIME].copy_from_slice(&self.tags_code.to_be_bytes());
        out[STORE_TIME..BASE_OFFSET].copy_from_slice(&self.store_time.to_be_bytes());
        out[BASE_OFFSET..BATCH_SIZE].copy_from_slice(&self.base_offset.to_be_bytes());
        out[BATCH_SIZE..COMPACTED].copy_from_slice(&self.batch_size.to_be_bytes());
        out[COMPACTED..COMPACTED + 4].copy_from_slice(&self.compacted_offset.to_be_bytes());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_unwritten_entry_is_known_as_such() {
        let blank = Entry::parse(&[0; LEN]);
        assert!(!blank.is_written());
        let written = Entry {
            size: 1,
            batch_size: 3,
            base_offset: 7,
            ..blank
        };
        assert!(written.is_written());
        assert_eq!(written.end_offset(), 10);
    }

    proptest! {
        #[test]
        fn an_entry_comes_back(offset: i64, size: i32, tags_code: i64, store_time: i64, base_offset: i64, batch_size: i16, compacted_offset: i32) {
            let entry = Entry { offset, size, tags_code, store_time, base_offset, batch_size, compacted_offset };
            prop_assert_eq!(Entry::parse(&entry.to_bytes()), entry);
        }
    }
}
