//! Whether the store takes writes, and the one real reason when it does not.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What can keep a store from being written to, gravest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Block {
    /// Closed or closing; for good.
    Closed,
    /// A flush failed, so nobody knows what is on the disk; for good.
    FlushFailed,
    /// Consume queue or index cannot be written; until they can.
    BuildFailed,
    /// The rest of the last segment has no space of its own; until it has.
    NoRoom,
    /// The disk is too full; until it is not.
    DiskFull,
}

const ALL: [Block; 5] = [
    Block::Closed,
    Block::FlushFailed,
    Block::BuildFailed,
    Block::NoRoom,
    Block::DiskFull,
];

/// Reasons against writing.
#[derive(Debug, Default)]
pub struct Health {
    bits: AtomicU32,
    texts: Mutex<[Option<String>; ALL.len()]>,
}

impl Health {
    /// Forbids writing; true when this reason is new.
    pub fn block(&self, block: Block, reason: String) -> bool {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts[block as usize] = Some(reason);
        self.bits.fetch_or(1 << block as u32, Ordering::Release) & (1 << block as u32) == 0
    }

    /// Takes a reason back; true when it was there.
    pub fn unblock(&self, block: Block) -> bool {
        let mut texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts[block as usize] = None;
        self.bits.fetch_and(!(1 << block as u32), Ordering::Release) & (1 << block as u32) != 0
    }

    /// True while this reason stands.
    pub fn has(&self, block: Block) -> bool {
        self.bits.load(Ordering::Acquire) & (1 << block as u32) != 0
    }

    /// The gravest reason against writing.
    pub fn reason(&self) -> Option<String> {
        if self.bits.load(Ordering::Acquire) == 0 {
            return None;
        }
        let texts = self.texts.lock().unwrap_or_else(PoisonError::into_inner);
        texts.iter().flatten().next().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gravest_reason_is_told_and_each_goes_by_itself() {
        let health = Health::default();
        assert_eq!(health.reason(), None);
        assert!(health.block(Block::DiskFull, "91 %".into()));
        assert!(!health.block(Block::DiskFull, "92 %".into()));
        assert!(health.block(Block::FlushFailed, "EIO".into()));
        assert_eq!(health.reason().as_deref(), Some("EIO"));
        assert!(health.unblock(Block::FlushFailed));
        assert_eq!(health.reason().as_deref(), Some("92 %"));
        assert!(health.unblock(Block::DiskFull) && !health.unblock(Block::DiskFull));
        assert_eq!(health.reason(), None);
    }
}
