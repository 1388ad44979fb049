//! Consume queue entry, 20 bytes, big endian. Entry n of a queue is at byte 20·n of its segments.
//!
//! ```text
//! 0                 8             12          20
//! | physical offset | record size | tags code |
//! ```
//!
//! The tags code is the sign-extended Java hash of the tag, 0 without one; in the delay topic it is the time of
//! delivery. An entry `0, 0x7FFFFFFF, 0` only takes up the place of one that never came.

use super::{i32_at, i64_at};

const OFFSET: usize = 0;
const SIZE: usize = OFFSET + 8;
const TAGS_CODE: usize = SIZE + 4;
/// Bytes of an entry.
pub const LEN: usize = TAGS_CODE + 8;

/// Where a record is, and what a filter needs to know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Physical offset of the record.
    pub offset: i64,
    /// Its size in bytes.
    pub size: i32,
    /// Hash of its tag.
    pub tags_code: i64,
}

impl Entry {
    /// Takes up the place of an entry that never came.
    pub const BLANK: Self = Self {
        offset: 0,
        size: i32::MAX,
        tags_code: 0,
    };

    /// Physical offset behind the record.
    pub fn end(&self) -> i64 {
        self.offset.saturating_add(i64::from(self.size))
    }

    /// Java's test for an entry that was written (`ConsumeQueue.recover`).
    pub fn is_written(&self) -> bool {
        self.offset >= 0 && self.size > 0
    }

    /// True for an entry that points to no record.
    pub fn is_blank(&self) -> bool {
        self.size == i32::MAX
    }

    /// The bytes of the entry.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[OFFSET..SIZE].copy_from_slice(&self.offset.to_be_bytes());
        out[SIZE..TAGS_CODE].copy_from_slice(&self.size.to_be_bytes());
        out[TAGS_CODE..].copy_from_slice(&self.tags_code.to_be_bytes());
        out
    }
}

/// An entry in place.
#[derive(Debug, Clone, Copy)]
pub struct EntryView<'a>(&'a [u8; LEN]);

impl<'a> EntryView<'a> {
    /// Over the bytes of one entry.
    pub const fn new(bytes: &'a [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// Physical offset of the record.
    pub fn offset(&self) -> i64 {
        i64_at(self.0, OFFSET)
    }

    /// Size of the record.
    pub fn size(&self) -> i32 {
        i32_at(self.0, SIZE)
    }

    /// Hash of its tag.
    pub fn tags_code(&self) -> i64 {
        i64_at(self.0, TAGS_CODE)
    }

    /// All three.
    pub fn to_entry(self) -> Entry {
        Entry {
            offset: self.offset(),
            size: self.size(),
            tags_code: self.tags_code(),
        }
    }
}

/// The entries of a run of bytes; a part of one at the end is left out.
pub fn entries(bytes: &[u8]) -> impl ExactSizeIterator<Item = EntryView<'_>> {
    let (whole, _) = bytes.as_chunks::<LEN>();
    whole.iter().map(EntryView)
}

/// The size of a queue segment for a configured one: rounded up to whole entries.
pub fn segment_size(configured: u64) -> u64 {
    configured.max(1).next_multiple_of(LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_of_a_java_broker_read_as_it_meant_them() {
        // The first two entries of queue 0 of topic g_basic_a in the golden store: records tagged TagA and Aa.
        let bytes: [u8; 2 * LEN] = [
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x49, 0, 0, 0, 0, 0, 0x27, 0xa8, 0x07, //
            0, 0, 0, 0, 0, 0, 5, 0x16, 0, 0, 1, 0x3b, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let found: Vec<_> = entries(&bytes).map(EntryView::to_entry).collect();
        assert_eq!(
            found,
            [
                Entry {
                    offset: 0,
                    size: 329,
                    tags_code: 2_598_919
                },
                Entry {
                    offset: 1302,
                    size: 315,
                    tags_code: 0
                },
            ]
        );
        assert_eq!(found[0].to_bytes(), bytes[..LEN]);
    }

    #[test]
    fn a_blank_counts_as_written() {
        assert!(Entry::BLANK.is_written() && Entry::BLANK.is_blank());
        assert_eq!(entries(&[0; LEN + 3]).len(), 1);
        assert!(!EntryView::new(&[0; LEN]).to_entry().is_written());
    }

    #[test]
    fn the_segment_size_is_rounded_up_to_whole_entries() {
        assert_eq!(segment_size(6_000_000), 6_000_000);
        assert_eq!(segment_size(4001), 4020);
        assert_eq!(segment_size(0), 20);
    }

    proptest! {
        #[test]
        fn an_entry_comes_back(offset: i64, size: i32, tags_code: i64) {
            let entry = Entry { offset, size, tags_code };
            prop_assert_eq!(EntryView::new(&entry.to_bytes()).to_entry(), entry);
        }
    }
}
