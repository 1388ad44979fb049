//! Which messages of a queue a reader wants.

/// A reader's choice, asked first by the queue entry, then by the record.
pub trait MessageFilter {
    /// False when no message of this tag code is wanted; its record is not read then.
    fn passes_code(&self, code: i64) -> bool;

    /// True when this record, whose code has passed, is wanted. It is a slice of the log; nothing is copied to ask.
    fn passes_record(&self, _record: &[u8]) -> bool {
        true
    }

    /// True when asking takes so long that it is not done on a thread that serves sockets.
    fn is_costly(&self) -> bool {
        false
    }
}

/// A choice by the tag code alone.
pub(super) struct ByCode<'a>(pub &'a dyn Fn(i64) -> bool);

impl MessageFilter for ByCode<'_> {
    fn passes_code(&self, code: i64) -> bool {
        (self.0)(code)
    }
}
