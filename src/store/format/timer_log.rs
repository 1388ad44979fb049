//! Unit of the timer log, 52 bytes, big endian: one for each message that waits for its time.
//!
//! ```text
//! 0      4                   12      16           24      28                36            40           44         52
//! | size | previous position | magic | write time | delay | physical offset | record size | topic hash | reserved |
//! ```
//!
//! The previous position is that of the unit put into the same slot of the [wheel](super::timer_wheel) before, -1 for
//! none; a chain of units runs from the newest to the oldest. The message is due at write time + delay. Its record
//! lies in the commit log, in topic `rmq_sys_wheel_timer`.
//!
//! Where a unit and a filler do not fit the rest of a segment, the rest begins with a filler:
//!
//! ```text
//! 0            4              12            16
//! | bytes left | 0            | magic BLANK |
//! ```

use super::{i32_at, i64_at};
use crate::protocol::message::MAGIC_BLANK;

const SIZE: usize = 0;
const PREVIOUS: usize = SIZE + 4;
const MAGIC: usize = PREVIOUS + 8;
const WRITE_TIME: usize = MAGIC + 4;
const DELAY: usize = WRITE_TIME + 8;
const OFFSET: usize = DELAY + 4;
const RECORD_SIZE: usize = OFFSET + 8;
const TOPIC_HASH: usize = RECORD_SIZE + 4;
const RESERVED: usize = TOPIC_HASH + 4;
/// Bytes of a unit.
pub const LEN: usize = RESERVED + 8;
/// Bytes of a filler (`TimerLog.MIN_BLANK_LEN`).
pub const BLANK_LEN: usize = MAGIC + 4;

/// Bit of every unit.
pub const DEFAULT: i32 = 1;
/// Bit of a unit whose message is put back into the wheel when it is due.
pub const ROLL: i32 = 1 << 1;
/// Bit of a unit that takes another message of its slot away.
pub const DELETE: i32 = 1 << 2;
/// Java's mask of the bits that a unit may have (`TimerMessageStore.isMagicOK`).
const MAGIC_BITS: i32 = 0xF;

/// One waiting message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    /// Position of the unit before it in the same slot, -1 for none.
    pub previous: i64,
    /// [`DEFAULT`], [`ROLL`], [`DELETE`].
    pub magic: i32,
    /// When it was put into the wheel, ms, rounded to the precision.
    pub write_time: i64,
    /// How long after that it is due, ms.
    pub delay_ms: i32,
    /// Physical offset of its record.
    pub offset: i64,
    /// Size of its record.
    pub record_size: i32,
    /// Java's hash of the topic that it is meant for.
    pub topic_hash: i32,
    /// Always 0.
    pub reserved: i64,
}

impl Unit {
    /// When it is due, epoch ms.
    pub fn due_ms(&self) -> i64 {
        self.write_time.saturating_add(i64::from(self.delay_ms))
    }

    /// True when it goes round the wheel once more.
    pub fn is_roll(&self) -> bool {
        self.magic & ROLL != 0
    }

    /// True when it takes another message away.
    pub fn is_delete(&self) -> bool {
        self.magic & DELETE != 0
    }

    /// The bytes of the unit.
    pub fn to_bytes(self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[SIZE..PREVIOUS].copy_from_slice(&(LEN as i32).to_be_bytes());
        out[PREVIOUS..MAGIC].copy_from_slice(&self.previous.to_be_bytes());
        out[MAGIC..WRITE_TIME].copy_from_slice(&self.magic.to_be_bytes());
        out[WRITE_TIME..DELAY].copy_from_slice(&self.write_time.to_be_bytes());
        out[DELAY..OFFSET].copy_from_slice(&self.delay_ms.to_be_bytes());
        out[OFFSET..RECORD_SIZE].copy_from_slice(&self.offset.to_be_bytes());
        out[RECORD_SIZE..TOPIC_HASH].copy_from_slice(&self.record_size.to_be_bytes());
        out[TOPIC_HASH..RESERVED].copy_from_slice(&self.topic_hash.to_be_bytes());
        out[RESERVED..].copy_from_slice(&self.reserved.to_be_bytes());
        out
    }
}

/// A unit in place.
#[derive(Debug, Clone, Copy)]
pub struct UnitView<'a>(&'a [u8; LEN]);

impl<'a> UnitView<'a> {
    /// Over the bytes of one unit.
    pub const fn new(bytes: &'a [u8; LEN]) -> Self {
        Self(bytes)
    }

    /// What its size field says; [`LEN`] in a good one.
    pub fn size(&self) -> i32 {
        i32_at(self.0, SIZE)
    }

    /// Position of the unit before it in the same slot.
    pub fn previous(&self) -> i64 {
        i64_at(self.0, PREVIOUS)
    }

    /// Its bits.
    pub fn magic(&self) -> i32 {
        i32_at(self.0, MAGIC)
    }

    /// When it was put into the wheel, ms.
    pub fn write_time(&self) -> i64 {
        i64_at(self.0, WRITE_TIME)
    }

    /// How long after that it is due, ms.
    pub fn delay_ms(&self) -> i32 {
        i32_at(self.0, DELAY)
    }

    /// Physical offset of its record.
    pub fn offset(&self) -> i64 {
        i64_at(self.0, OFFSET)
    }

    /// Size of its record.
    pub fn record_size(&self) -> i32 {
        i32_at(self.0, RECORD_SIZE)
    }

    /// Java's hash of the topic that it is meant for.
    pub fn topic_hash(&self) -> i32 {
        i32_at(self.0, TOPIC_HASH)
    }

    /// All fields.
    pub fn to_unit(self) -> Unit {
        Unit {
            previous: self.previous(),
            magic: self.magic(),
            write_time: self.write_time(),
            delay_ms: self.delay_ms(),
            offset: self.offset(),
            record_size: self.record_size(),
            topic_hash: self.topic_hash(),
            reserved: i64_at(self.0, RESERVED),
        }
    }
}

/// What lies at a position of the timer log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A unit.
    Unit(Unit),
    /// The filler: the next unit begins the next segment.
    Blank,
    /// Neither; the log ends here (`TimerMessageStore.recoverAndRevise`). The size and the magic that stand here.
    Other {
        /// The size field.
        size: i32,
        /// The magic field.
        magic: i32,
    },
}

/// Tells what the bytes at a position of the timer log are, up to the end of the segment.
pub fn read(bytes: &[u8]) -> Found {
    let (size, magic) = (i32_at(bytes, SIZE), i32_at(bytes, MAGIC));
    if bytes.len() >= BLANK_LEN && magic == MAGIC_BLANK.cast_signed() {
        return Found::Blank;
    }
    match bytes.first_chunk::<LEN>() {
        Some(unit) if size == LEN as i32 && magic & !MAGIC_BITS == 0 => {
            Found::Unit(UnitView::new(unit).to_unit())
        }
        _ => Found::Other { size, magic },
    }
}

/// True when a unit goes into the segment at a position in it: it leaves room for a filler.
pub fn fits(position: u64, segment_size: u64) -> bool {
    segment_size.saturating_sub(position) >= (LEN + BLANK_LEN) as u64
}

/// The filler for a segment of which `left` bytes are left.
pub fn blank(left: i32) -> [u8; BLANK_LEN] {
    let mut out = [0; BLANK_LEN];
    out[SIZE..PREVIOUS].copy_from_slice(&left.to_be_bytes());
    out[MAGIC..].copy_from_slice(&MAGIC_BLANK.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::model::java_hash;
    use proptest::prelude::*;

    /// The second unit of the golden store "delay-tx".
    const SECOND: [u8; LEN] = [
        0, 0, 0, 0x34, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0xa2, 0x28, 0x6e, 0x8f, 0x40, //
        0, 0x36, 0xea, 0x98, 0, 0, 0, 0, 0, 0, 0x0d, 0xbe, 0, 0, 1, 0x8e, 0xf0, 0x6e, 0xf3, 0xab, //
        0, 0, 0, 0, 0, 0, 0, 0,
    ];

    #[test]
    fn a_unit_of_a_java_broker_reads_as_it_meant_it() {
        let Found::Unit(unit) = read(&SECOND) else {
            panic!("it is one")
        };
        assert_eq!((unit.previous, unit.magic), (0, DEFAULT));
        assert_eq!((unit.offset, unit.record_size), (3518, 398));
        assert_eq!(unit.topic_hash, java_hash("g_delay"));
        // Sent for 1795978263780, with a precision of one second.
        assert_eq!(unit.due_ms(), 1_795_978_263_000);
        assert_eq!(unit.to_bytes(), SECOND);
        assert!(!unit.is_roll() && !unit.is_delete());
    }

    #[test]
    fn a_filler_and_the_end_are_told_apart() {
        // The last 32 bytes of the first segment of the same store.
        let mut rest = [0; 32];
        rest[..BLANK_LEN].copy_from_slice(&[0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0xcb, 0xd4, 0x31, 0x94]);
        assert_eq!(read(&rest), Found::Blank);
        assert_eq!(blank(32), rest[..BLANK_LEN]);
        assert_eq!(read(&[0; LEN]), Found::Other { size: 0, magic: 0 });
        assert!(matches!(
            read(&SECOND[..LEN - 1]),
            Found::Other { size: 52, magic: 1 }
        ));
        let mut bad = SECOND;
        bad[15] = 0x11;
        assert!(matches!(read(&bad), Found::Other { magic: 0x11, .. }));
    }

    #[test]
    fn a_segment_keeps_room_for_its_filler() {
        // Segments of 1072 bytes hold 20 units: the 21st would end at 1092.
        assert!(fits(19 * 52, 1072));
        assert!(!fits(20 * 52, 1072));
        assert!(fits(0, 68) && !fits(0, 67) && !fits(100, 68));
    }

    proptest! {
        #[test]
        fn a_unit_comes_back(previous: i64, magic in 0..16, write_time: i64, delay_ms: i32, offset: i64, record_size: i32, topic_hash: i32, reserved: i64) {
            let unit = Unit { previous, magic, write_time, delay_ms, offset, record_size, topic_hash, reserved };
            prop_assert_eq!(read(&unit.to_bytes()), Found::Unit(unit));
        }
    }
}
