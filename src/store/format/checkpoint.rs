//! Checkpoint: one page of which five longs are used, big endian.
//!
//! ```text
//! 0                        8                     16                   24                     32
//! | commit log flushed to  | queues flushed to   | index flushed to   | master flushed offset  | confirm offset |
//! ```
//!
//! The first three are store times in ms. Recovery begins where the first two have certainly been reached.

use super::i64_at;

/// Length of the file.
pub const LEN: usize = 4096;
/// Bytes in use.
pub const USED: usize = 40;

/// The values of the checkpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checkpoint {
    /// Store time of the newest record that is flushed.
    pub physic_msg_timestamp: i64,
    /// Store time of the newest record whose queue entry is flushed.
    pub logics_msg_timestamp: i64,
    /// Store time up to which full index files are flushed.
    pub index_msg_timestamp: i64,
    /// How far the master had flushed, on a slave.
    pub master_flushed_offset: i64,
    /// Start of the last record that the last recovery found.
    pub confirm_phy_offset: i64,
}

impl Checkpoint {
    /// Reads the file's first bytes; missing ones read as 0.
    pub fn parse(bytes: &[u8]) -> Self {
        Self {
            physic_msg_timestamp: i64_at(bytes, 0),
            logics_msg_timestamp: i64_at(bytes, 8),
            index_msg_timestamp: i64_at(bytes, 16),
            master_flushed_offset: i64_at(bytes, 24),
            confirm_phy_offset: i64_at(bytes, 32),
        }
    }

    /// The used bytes of the file.
    pub fn to_bytes(&self) -> [u8; USED] {
        let words = [
            self.physic_msg_timestamp,
            self.logics_msg_timestamp,
            self.index_msg_timestamp,
            self.master_flushed_offset,
            self.confirm_phy_offset,
        ];
        let mut out = [0; USED];
        for (slot, word) in out.chunks_exact_mut(8).zip(words) {
            slot.copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// Store time from which recovery must begin: 3 s before the older of log and queues.
    pub fn recover_from(&self) -> i64 {
        (self.physic_msg_timestamp.min(self.logics_msg_timestamp))
            .saturating_sub(3000)
            .max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checkpoint_of_a_java_broker_reads_and_writes() {
        // From the golden store "crashed".
        let bytes: [u8; USED] = [
            0, 0, 1, 0xa2, 0x28, 0x72, 0xf0, 0x67, 0, 0, 1, 0xa2, 0x28, 0x72, 0xf2, 0x3a, //
            0, 0, 1, 0xa2, 0x28, 0x72, 0xf1, 0xdb, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        ];
        let checkpoint = Checkpoint::parse(&bytes);
        assert_eq!(checkpoint.recover_from(), 1_795_974_948_015);
        assert_eq!(checkpoint.to_bytes(), bytes);
        assert_eq!(Checkpoint::parse(&[]).recover_from(), 0);
    }
}
