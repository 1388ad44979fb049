//! Index file: a hash table from `topic#key` to physical offsets, chained through its items. Big endian.
//!
//! ```text
//! 0                 8               16                 24               32           36           40
//! | begin timestamp | end timestamp | begin phy offset | end phy offset | used slots | item count |
//! 40                40 + 4·slots                                 40 + 4·slots + 20·items
//! | slot i32 ..     | item 0 (never used) | item 1 | ..          |
//!
//! item:  0      4                 12        16          20
//!        | hash | physical offset | seconds | previous  |
//! ```
//!
//! A slot holds the number of the newest item of its chain, 0 for none; `previous` leads to the next older one. The
//! count starts at 1, so a file holds one item fewer than its size says. Seconds count from the begin timestamp.

use super::{i32_at, i64_at};

const BEGIN_TIMESTAMP: usize = 0;
const END_TIMESTAMP: usize = BEGIN_TIMESTAMP + 8;
const BEGIN_OFFSET: usize = END_TIMESTAMP + 8;
const END_OFFSET: usize = BEGIN_OFFSET + 8;
const USED_SLOTS: usize = END_OFFSET + 8;
const COUNT: usize = USED_SLOTS + 4;
/// Bytes of the header.
pub const HEADER_LEN: usize = COUNT + 4;
/// Bytes of a slot.
pub const SLOT_LEN: usize = 4;

const HASH: usize = 0;
const OFFSET: usize = HASH + 4;
const SECONDS: usize = OFFSET + 8;
const PREVIOUS: usize = SECONDS + 4;
/// Bytes of an item.
pub const ITEM_LEN: usize = PREVIOUS + 4;

/// How many slots and items a file has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Slots of the hash table.
    pub slots: u32,
    /// Items, the unused first one included.
    pub items: u32,
}

impl Shape {
    /// Length of the file.
    pub fn file_len(&self) -> u64 {
        self.items_at() as u64 + u64::from(self.items) * ITEM_LEN as u64
    }

    /// Position of the items: behind the slots.
    pub fn items_at(&self) -> usize {
        HEADER_LEN + self.slots as usize * SLOT_LEN
    }

    /// Position of a slot.
    pub fn slot_at(&self, slot: u32) -> usize {
        HEADER_LEN + slot as usize * SLOT_LEN
    }

    /// Position of an item.
    pub fn item_at(&self, item: u32) -> usize {
        self.items_at() + item as usize * ITEM_LEN
    }

    /// The slot of a hash.
    pub fn slot_of(&self, hash: i32) -> u32 {
        hash.unsigned_abs() % self.slots.max(1)
    }
}

/// The header of an index file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Header {
    /// Store time of the first record, ms.
    pub begin_timestamp: i64,
    /// Store time of the last record, ms.
    pub end_timestamp: i64,
    /// Physical offset of the first record.
    pub begin_offset: i64,
    /// Physical offset of the last record.
    pub end_offset: i64,
    /// How many slots hold a chain.
    pub used_slots: i32,
    /// Number that the next item will get.
    pub count: i32,
}

impl Header {
    /// Reads the header; a count below 1 reads as 1, as in Java. `None` when there are too few bytes.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.get(..HEADER_LEN)?;
        Some(Self {
            begin_timestamp: i64_at(bytes, BEGIN_TIMESTAMP),
            end_timestamp: i64_at(bytes, END_TIMESTAMP),
            begin_offset: i64_at(bytes, BEGIN_OFFSET),
            end_offset: i64_at(bytes, END_OFFSET),
            used_slots: i32_at(bytes, USED_SLOTS),
            count: i32_at(bytes, COUNT).max(1),
        })
    }

    /// The bytes of the header.
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[BEGIN_TIMESTAMP..END_TIMESTAMP].copy_from_slice(&self.begin_timestamp.to_be_bytes());
        out[END_TIMESTAMP..BEGIN_OFFSET].copy_from_slice(&self.end_timestamp.to_be_bytes());
        out[BEGIN_OFFSET..END_OFFSET].copy_from_slice(&self.begin_offset.to_be_bytes());
        out[END_OFFSET..USED_SLOTS].copy_from_slice(&self.end_offset.to_be_bytes());
        out[USED_SLOTS..COUNT].copy_from_slice(&self.used_slots.to_be_bytes());
        out[COUNT..].copy_from_slice(&self.count.to_be_bytes());
        out
    }
}

/// One item of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Hash of `topic#key`.
    pub hash: i32,
    /// Physical offset of the record.
    pub offset: i64,
    /// Store time in whole seconds since the file's begin.
    pub seconds: i32,
    /// The next older item of the chain, 0 for none.
    pub previous: i32,
}

impl Item {
    /// Reads an item.
    pub fn parse(bytes: &[u8; ITEM_LEN]) -> Self {
        Self {
            hash: i32_at(bytes, HASH),
            offset: i64_at(bytes, OFFSET),
            seconds: i32_at(bytes, SECONDS),
            previous: i32_at(bytes, PREVIOUS),
        }
    }

    /// The bytes of the item.
    pub fn to_bytes(self) -> [u8; ITEM_LEN] {
        let mut out = [0; ITEM_LEN];
        out[HASH..OFFSET].copy_from_slice(&self.hash.to_be_bytes());
        out[OFFSET..SECONDS].copy_from_slice(&self.offset.to_be_bytes());
        out[SECONDS..PREVIOUS].copy_from_slice(&self.seconds.to_be_bytes());
        out[PREVIOUS..].copy_from_slice(&self.previous.to_be_bytes());
        out
    }

    /// Store time in ms, rounded down to a second of its file.
    pub fn timestamp(&self, header: &Header) -> i64 {
        header
            .begin_timestamp
            .saturating_add(i64::from(self.seconds) * 1000)
    }
}

/// An index file in place.
#[derive(Debug, Clone, Copy)]
pub struct IndexView<'a> {
    bytes: &'a [u8],
    shape: Shape,
    header: Header,
}

impl<'a> IndexView<'a> {
    /// Over the bytes of a file; `None` when it is shorter than its shape.
    pub fn new(bytes: &'a [u8], shape: Shape) -> Option<Self> {
        if (bytes.len() as u64) < shape.file_len() {
            return None;
        }
        Header::parse(bytes).map(|header| Self { bytes, shape, header })
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of the newest item in a slot's chain.
    pub fn slot(&self, slot: u32) -> i32 {
        i32_at(self.bytes, self.shape.slot_at(slot))
    }

    /// Item number `n`, of those that were given out (1 .. count).
    pub fn item(&self, n: i32) -> Option<Item> {
        match u32::try_from(n) {
            Ok(n @ 1..) if n < self.shape.items => {
                let at = self.shape.item_at(n);
                Some(Item {
                    hash: i32_at(self.bytes, at + HASH),
                    offset: i64_at(self.bytes, at + OFFSET),
                    seconds: i32_at(self.bytes, at + SECONDS),
                    previous: i32_at(self.bytes, at + PREVIOUS),
                })
            }
            _ => None,
        }
    }

    /// The chain of a hash, newest first, other hashes of the same slot included. Ends at a link that does not lead
    /// to an older item, so a damaged chain cannot hold a reader.
    pub fn chain(&self, hash: i32) -> impl Iterator<Item = (i32, Item)> + use<'a> {
        let view = *self;
        let mut next = view.slot(view.shape.slot_of(hash));
        if next >= view.header.count {
            next = 0;
        }
        std::iter::from_fn(move || {
            let (n, item) = (next, view.item(next)?);
            next = if item.previous < n { item.previous } else { 0 };
            Some((n, item))
        })
    }
}

/// Hash of a key: the absolute value of Java's hash of `topic#key`; that of the smallest number is 0.
pub fn key_hash(topic: &str, key: &str) -> i32 {
    topic
        .encode_utf16()
        .chain([u16::from(b'#')])
        .chain(key.encode_utf16())
        .fold(0i32, |h, c| h.wrapping_mul(31).wrapping_add(i32::from(c)))
        .checked_abs()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_default_file_has_javas_length() {
        let shape = Shape {
            slots: 5_000_000,
            items: 20_000_000,
        };
        assert_eq!(shape.file_len(), 420_000_040);
    }

    #[test]
    fn hashes_are_those_of_the_java_broker() {
        // From the expectations of the golden store.
        assert_eq!(key_hash("g_basic_a", "k0"), 374_331_600);
        assert_eq!(key_hash("g_basic_a", "shared0"), 1_995_135_072);
        // Its key whose hash is the smallest number.
        assert_eq!(key_hash("g_basic_b", "Vw7uuIAsszv"), 0);
    }

    #[test]
    fn the_header_of_a_java_file_reads_and_writes() {
        let bytes: [u8; HEADER_LEN] = [
            0, 0, 1, 0xa2, 0x28, 0x6b, 0xb5, 0xd7, 0, 0, 1, 0xa2, 0x28, 0x6b, 0xbf, 0x0f, //
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x99, 0x16, //
            0, 0, 0, 0xbf, 0, 0, 2, 0x58,
        ];
        let header = Header::parse(&bytes).unwrap();
        assert_eq!(
            header,
            Header {
                begin_timestamp: 1_795_974_477_271,
                end_timestamp: 1_795_974_479_631,
                begin_offset: 0,
                end_offset: 104_726,
                used_slots: 191,
                count: 600,
            }
        );
        assert_eq!(header.to_bytes(), bytes);
    }

    #[test]
    fn a_chain_that_leads_forward_or_to_itself_ends() {
        let shape = Shape { slots: 1, items: 5 };
        for (previous, expected) in [(1, 2), (2, 1), (3, 1), (-7, 1), (i32::MAX, 1)] {
            let mut file = vec![0; shape.file_len() as usize];
            let header = Header {
                count: 3,
                ..Header::default()
            };
            file[..HEADER_LEN].copy_from_slice(&header.to_bytes());
            file[shape.slot_at(0)..][..4].copy_from_slice(&2i32.to_be_bytes());
            let item = |previous| Item {
                hash: 7,
                offset: 1,
                seconds: 0,
                previous,
            };
            file[shape.item_at(1)..][..ITEM_LEN].copy_from_slice(&item(0).to_bytes());
            file[shape.item_at(2)..][..ITEM_LEN].copy_from_slice(&item(previous).to_bytes());
            let view = IndexView::new(&file, shape).unwrap();
            assert_eq!(view.chain(7).count(), expected, "previous {previous}");
        }
    }

    proptest! {
        #[test]
        fn random_files_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), hash: i32) {
            let shape = Shape { slots: 4, items: 6 };
            if let Some(view) = IndexView::new(&bytes, shape) {
                prop_assert!(view.chain(hash).count() < 6);
            }
        }

        #[test]
        fn an_item_comes_back(hash: i32, offset: i64, seconds: i32, previous: i32) {
            let shape = Shape { slots: 1, items: 2 };
            let item = Item { hash, offset, seconds, previous };
            let mut file = vec![0; shape.file_len() as usize];
            file[shape.item_at(1)..][..ITEM_LEN].copy_from_slice(&item.to_bytes());
            prop_assert_eq!(IndexView::new(&file, shape).unwrap().item(1), Some(item));
        }
    }
}
