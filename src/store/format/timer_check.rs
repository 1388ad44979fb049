//! `config/timercheck`, the checkpoint of the timer: one page of which seven longs are used, big endian.
//!
//! ```text
//! 0                8                      16                    24                      32            40          48
//! | last read time | timer log flushed to | timer queue offset  | master's queue offset | state version | timestamp | counter |
//! ```
//!
//! Slots of the wheel from the last read time on are still to be delivered. The last three are the version of the
//! table, as slaves compare it.

use super::i64_at;

/// Length of the file.
pub const LEN: usize = 4096;
/// Bytes in use.
pub const USED: usize = 56;
/// Java's names of the fields, in order.
pub const NAMES: [&str; 7] = [
    "lastReadTimeMs",
    "lastTimerLogFlushPos",
    "lastTimerQueueOffset",
    "masterTimerQueueOffset",
    "stateVersion",
    "timestamp",
    "counter",
];

/// The values of the timer's checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TimerCheck {
    /// The moment up to which the wheel was read, epoch ms.
    pub last_read_time_ms: i64,
    /// Position up to which the timer log is flushed.
    pub last_timer_log_flush_pos: i64,
    /// Queue offset in `rmq_sys_wheel_timer` behind the last message that was put into the wheel.
    pub last_timer_queue_offset: i64,
    /// The same of the master, which bounds a slave's.
    pub master_timer_queue_offset: i64,
    /// Version: state machine version.
    pub state_version: i64,
    /// Version: when it changed, epoch ms.
    pub timestamp: i64,
    /// Version: how often it changed.
    pub counter: i64,
}

impl TimerCheck {
    /// Reads the file's first bytes; missing ones read as 0.
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            last_read_time_ms: i64_at(bytes, 0),
            last_timer_log_flush_pos: i64_at(bytes, 8),
            last_timer_queue_offset: i64_at(bytes, 16),
            master_timer_queue_offset: i64_at(bytes, 24),
            state_version: i64_at(bytes, 32),
            timestamp: i64_at(bytes, 40),
            counter: i64_at(bytes, 48),
        }
    }

    /// The values in the order of [`NAMES`].
    pub fn words(&self) -> [i64; 7] {
        [
            self.last_read_time_ms,
            self.last_timer_log_flush_pos,
            self.last_timer_queue_offset,
            self.master_timer_queue_offset,
            self.state_version,
            self.timestamp,
            self.counter,
        ]
    }

    /// The used bytes of the file.
    pub fn to_bytes(&self) -> [u8; USED] {
        let mut out = [0; USED];
        for (slot, word) in out.chunks_exact_mut(8).zip(self.words()) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timer_checkpoint_of_a_java_broker_reads_and_writes() {
        // From the golden store "delay-tx".
        let bytes: [u8; USED] = [
            0, 0, 1, 0xa2, 0x28, 0x6f, 0x27, 0x98, 0, 0, 0, 0, 0, 0, 7, 0x3c, //
            0, 0, 0, 0, 0, 0, 0, 0x23, 0, 0, 0, 0, 0, 0, 0, 0x23, //
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xa2, 0x28, 0x6f, 0x28, 0x34, //
            0, 0, 0, 0, 0, 0, 0, 0x13,
        ];
        let check = TimerCheck::parse(&bytes);
        assert_eq!(
            check.words(),
            [1_795_974_703_000, 1852, 35, 35, 0, 1_795_974_703_156, 19]
        );
        assert_eq!(check.to_bytes(), bytes);
        assert_eq!(TimerCheck::parse(&[]), TimerCheck::default());
    }
}
