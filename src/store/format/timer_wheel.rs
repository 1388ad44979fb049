//! The timing wheel: one file of slots, 32 bytes each, big endian.
//!
//! ```text
//! 0                  8                16              24      28      32
//! | time / precision | first position | last position | count | magic |
//! ```
//!
//! The slot of a time is number `time / precision mod SLOTS`, whatever the precision. The positions are those of the
//! oldest and the newest unit of the slot in the timer log. Nobody clears a slot that was delivered: one whose first
//! field is not the time asked for is empty, and which ones are still to come only `lastReadTimeMs` of the
//! [checkpoint](super::timer_check) tells. The magic is always 0.

use super::{i32_at, i64_at};

const TIME: usize = 0;
const FIRST: usize = TIME + 8;
const LAST: usize = FIRST + 8;
const COUNT: usize = LAST + 8;
const MAGIC: usize = COUNT + 4;
/// Bytes of a slot.
pub const LEN: usize = MAGIC + 4;
/// Slots of a wheel: twice a week of seconds (`TimerMessageStore.TIMER_WHEEL_TTL_DAY`, `TimerWheel`).
pub const SLOTS: u64 = 2 * 7 * 86_400;
/// Bytes of the file; a file of another length is no wheel.
pub const FILE_LEN: u64 = SLOTS * LEN as u64;
/// The position that means "none".
pub const NO_POSITION: i64 = -1;

/// The messages of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The moment, in units of the precision since 1970.
    pub time: i64,
    /// Position of its oldest unit in the timer log, -1 for none.
    pub first: i64,
    /// Position of its newest unit, -1 for none.
    pub last: i64,
    /// Messages less deletions; not lowered by delivery.
    pub count: i32,
    /// Always 0.
    pub magic: i32,
}

impl Slot {
    /// What a moment has that nothing was put into.
    pub const EMPTY: Self = Self {
        time: -1,
        first: NO_POSITION,
        last: NO_POSITION,
        count: 0,
        magic: 0,
    };

    /// The moment in epoch ms.
    pub fn time_ms(&self, precision_ms: i64) -> i64 {
        self.time.saturating_mul(precision_ms)
    }

    /// The bytes of the slot.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[TIME..FIRST].copy_from_slice(&self.time.to_be_bytes());
        out[FIRST..LAST].copy_from_slice(&self.first.to_be_bytes());
        out[LAST..COUNT].copy_from_slice(&self.last.to_be_bytes());
        out[COUNT..MAGIC].copy_from_slice(&self.count.to_be_bytes());
        out[MAGIC..].copy_from_slice(&self.magic.to_be_bytes());
        out
    }
}

/// A slot in place.
#[derive(Debug, Clone, Copy)]
pub struct SlotView<'a>(&'a [u8; LEN]);

impl<'a> SlotView<'a> {
    /// Over the bytes of one slot.
    pub const fn new(bytes: &'a [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// The moment, in units of the precision since 1970.
    pub fn time(&self) -> i64 {
        i64_at(self.0, TIME)
    }

    /// Position of its oldest unit in the timer log.
    pub fn first(&self) -> i64 {
        i64_at(self.0, FIRST)
    }

    /// Position of its newest unit.
    pub fn last(&self) -> i64 {
        i64_at(self.0, LAST)
    }

    /// Messages less deletions.
    pub fn count(&self) -> i32 {
        i32_at(self.0, COUNT)
    }

    /// True for a slot that nothing was ever put into.
    pub fn is_unused(&self) -> bool {
        self.0.iter().all(|&b| b == 0)
    }

    /// All fields.
    pub fn to_slot(self) -> Slot {
        Slot {
            time: self.time(),
            first: self.first(),
            last: self.last(),
            count: self.count(),
            magic: i32_at(self.0, MAGIC),
        }
    }
}

/// The slots of a run of bytes; a part of one at the end is left out.
pub fn slots(bytes: &[u8]) -> impl ExactSizeIterator<Item = SlotView<'_>> {
    let (whole, _) = bytes.as_chunks::<LEN>();
    whole.iter().map(SlotView)
}

/// The number of a moment's slot (`TimerWheel.getSlotIndex`); a moment before 1970 has slot 0.
pub fn slot_of(time_ms: i64, precision_ms: i64) -> u64 {
    u64::try_from(time_ms / precision_ms.max(1)).map_or(0, |time| time % SLOTS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn slots_of_a_java_broker_read_as_it_meant_them() {
        // Slots 931863 and 932403 of the golden store "delay-tx": three timers, and three with one deletion.
        let bytes: [u8; 2 * LEN] = [
            0, 0, 0, 0, 0x6b, 0x0c, 0x74, 0x17, 0, 0, 0, 0, 0, 0, 0, 0, //
            0, 0, 0, 0, 0, 0, 0, 0x68, 0, 0, 0, 3, 0, 0, 0, 0, //
            0, 0, 0, 0, 0x6b, 0x0c, 0x76, 0x33, 0, 0, 0, 0, 0, 0, 5, 0x9c, //
            0, 0, 0, 0, 0, 0, 6, 0x38, 0, 0, 0, 2, 0, 0, 0, 0,
        ];
        let found: Vec<Slot> = slots(&bytes).map(SlotView::to_slot).collect();
        assert_eq!((found[0].first, found[0].last, found[0].count), (0, 104, 3));
        assert_eq!((found[1].first, found[1].last, found[1].count), (1436, 1592, 2));
        // The timers were sent for 1795978263780.
        assert_eq!(found[0].time_ms(1000), 1_795_978_263_000);
        assert_eq!(slot_of(1_795_978_263_780, 1000), 931_863);
        assert_eq!(slot_of(found[1].time_ms(1000), 1000), 932_403);
        assert_eq!(found[0].to_bytes(), bytes[..LEN]);
    }

    #[test]
    fn a_wheel_has_two_weeks_of_seconds() {
        assert_eq!((SLOTS, FILE_LEN), (1_209_600, 38_707_200));
        assert_eq!(slot_of(-5, 1000), 0);
        assert!(SlotView::new(&[0; LEN]).is_unused());
        assert!(!SlotView::new(&Slot::EMPTY.to_bytes()).is_unused());
    }

    proptest! {
        #[test]
        fn a_slot_comes_back(time: i64, first: i64, last: i64, count: i32, magic: i32) {
            let slot = Slot { time, first, last, count, magic };
            prop_assert_eq!(SlotView::new(&slot.to_bytes()).to_slot(), slot);
        }
    }
}
