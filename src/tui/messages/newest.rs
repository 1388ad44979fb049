//! The newest messages of those that came, within the bounds of the console's memory.

use std::collections::VecDeque;
use std::sync::Arc;

use super::search::{BYTES, ROWS, Stop};
use crate::client::Message;

/// Messages in the order in which they came; the oldest go when there are too many.
#[derive(Debug)]
pub struct Newest {
    rows: VecDeque<Arc<Message>>,
    bytes: usize,
    most: (usize, usize),
    cut: Option<Stop>,
}

impl Default for Newest {
    fn default() -> Self {
        Self::within(ROWS, BYTES)
    }
}

impl Newest {
    /// With bounds of its own: messages, and bytes of records and bodies.
    pub fn within(rows: usize, bytes: usize) -> Self {
        Self {
            rows: VecDeque::new(),
            bytes: 0,
            most: (rows, bytes),
            cut: None,
        }
    }

    fn weight(message: &Message) -> usize {
        message.size.max(message.body.len())
    }

    /// Takes one, and lets the oldest go until the bounds hold.
    pub fn push(&mut self, message: Message) {
        self.bytes += Self::weight(&message);
        self.rows.push_back(Arc::new(message));
        let (rows, bytes) = self.most;
        loop {
            let cut = if self.rows.len() > rows {
                Stop::Rows(rows)
            } else if self.bytes > bytes {
                Stop::Bytes(bytes)
            } else {
                return;
            };
            let Some(oldest) = self.rows.pop_front() else {
                return;
            };
            self.bytes -= Self::weight(&oldest);
            self.cut = Some(cut);
        }
    }

    /// The bound that made older ones go, the last time; `None` while all are here.
    pub fn cut(&self) -> Option<Stop> {
        self.cut
    }

    /// How many are kept, and the bytes of their records and bodies.
    pub fn size(&self) -> (usize, usize) {
        (self.rows.len(), self.bytes)
    }

    /// Those that are kept, oldest first.
    pub fn rows(&self) -> impl Iterator<Item = &Arc<Message>> {
        self.rows.iter()
    }

    /// The same, for good.
    pub fn into_rows(self) -> Vec<Arc<Message>> {
        self.rows.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(offset: i64, size: usize) -> Message {
        Message {
            offset,
            size,
            ..Message::empty()
        }
    }

    fn offsets(newest: &Newest) -> Vec<i64> {
        newest.rows().map(|m| m.offset).collect()
    }

    #[test]
    fn the_oldest_go_and_the_bound_that_cut_is_told() {
        let mut newest = Newest::within(3, 100);
        for offset in 0..3 {
            newest.push(message(offset, 10));
        }
        assert_eq!((newest.cut(), newest.size()), (None, (3, 30)));
        newest.push(message(3, 10));
        assert_eq!(offsets(&newest), [1, 2, 3]);
        assert_eq!(newest.cut(), Some(Stop::Rows(3)));
        let mut newest = Newest::within(3, 100);
        for offset in 0..3 {
            newest.push(message(offset, 45));
        }
        assert_eq!(offsets(&newest), [1, 2]);
        assert_eq!(newest.cut(), Some(Stop::Bytes(100)));
        assert_eq!(newest.size(), (2, 90));
    }
}
