//! What the store screens ask, as plain data.

use std::path::PathBuf;

use crate::inspect::Depth;

/// A question about one store directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// The directory.
    pub root: PathBuf,
    /// Directories of a commit log that lies elsewhere, separated by commas.
    pub commit_log: Option<String>,
    /// What is asked.
    pub what: What,
}

/// Where a page lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// At the begin.
    Oldest,
    /// At the end.
    Newest,
    /// Around a physical offset, or a queue offset.
    Offset(u64),
    /// Around the first record stored at or behind this, epoch ms.
    Time(i64),
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum What {
    /// Who holds it, how much there is, where it ends.
    Glance,
    /// Records of the log around a place, of one topic or of all.
    Log {
        /// The place.
        at: At,
        /// The topic.
        topic: Option<String>,
    },
    /// The bytes at a physical offset and what they mean.
    Record(u64),
    /// The topics that have queues.
    Topics,
    /// The queues of a topic, and who has read how far.
    Topic(String),
    /// Entries of a queue around a place.
    Queue {
        /// The topic.
        topic: String,
        /// The number.
        queue: i32,
        /// The place.
        at: At,
    },
    /// Every entry of a queue compared with its record.
    CheckQueue {
        /// The topic.
        topic: String,
        /// The number.
        queue: i32,
        /// Told apart from earlier runs by this.
        run: u32,
    },
    /// The files of the index.
    Index,
    /// All chains of an index file.
    Survey {
        /// Name of the file.
        file: String,
        /// Told apart from earlier runs by this.
        run: u32,
    },
    /// The chain of one slot.
    Slot {
        /// Name of the file.
        file: String,
        /// The slot.
        slot: u32,
    },
    /// The chains of a key in all files.
    Key {
        /// The topic; without one all topics are tried.
        topic: Option<String>,
        /// The key.
        key: String,
    },
    /// Checkpoint, tables, and what the next start would do.
    Checks,
    /// Where a full comparison would go on that was stopped before.
    Kept {
        /// Told apart from earlier questions by this.
        run: u32,
    },
    /// A comparison of all parts with each other. A full one goes on where it was stopped, unless it is to begin anew.
    Verify {
        /// Every byte, not only headers and ends.
        full: bool,
        /// From the begin of the log, whatever was kept.
        anew: bool,
        /// Most megabytes read in a second.
        limit: Option<u64>,
        /// Told apart from earlier runs by this.
        run: u32,
    },
}

impl What {
    /// True for what a broker can answer as well as its files.
    pub const fn is_shared(&self) -> bool {
        matches!(
            self,
            Self::Log { .. } | Self::Record(_) | Self::Topics | Self::Topic(_) | Self::Queue { .. }
        )
    }

    /// True for a pass that tells how far it is and goes on while another screen is shown.
    pub const fn is_pass(&self) -> bool {
        matches!(
            self,
            Self::CheckQueue { .. } | Self::Survey { .. } | Self::Verify { .. }
        )
    }

    /// How deep a verification is.
    pub const fn depth(full: bool) -> Depth {
        if full { Depth::Full } else { Depth::Quick }
    }
}
