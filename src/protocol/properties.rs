//! Message properties: `name 0x01 value 0x02`, repeated.
//!
//! Java's rules: the last 0x02 may be missing, an entry without name or value is no entry, the last of a name wins.
//! The order means nothing; someone else's text is kept as it is, never written anew.

use std::fmt;

/// Stands between a name and its value.
pub const NAME_END: char = '\u{1}';
/// Stands behind a value.
pub const VALUE_END: char = '\u{2}';

/// Names with a meaning, by Java's constants (`MessageConst`).
#[allow(missing_docs)]
pub mod names {
    pub const KEYS: &str = "KEYS";
    pub const TAGS: &str = "TAGS";
    pub const UNIQ_KEY: &str = "UNIQ_KEY";
    pub const WAIT: &str = "WAIT";
    pub const DELAY: &str = "DELAY";
    pub const REAL_TOPIC: &str = "REAL_TOPIC";
    pub const REAL_QID: &str = "REAL_QID";
    pub const RETRY_TOPIC: &str = "RETRY_TOPIC";
    pub const ORIGIN_MESSAGE_ID: &str = "ORIGIN_MESSAGE_ID";
    pub const RECONSUME_TIME: &str = "RECONSUME_TIME";
    pub const MAX_RECONSUME_TIMES: &str = "MAX_RECONSUME_TIMES";
    pub const CONSUME_START_TIME: &str = "CONSUME_START_TIME";
    pub const MIN_OFFSET: &str = "MIN_OFFSET";
    pub const MAX_OFFSET: &str = "MAX_OFFSET";
    pub const TRAN_MSG: &str = "TRAN_MSG";
    pub const PGROUP: &str = "PGROUP";
    pub const TRANSACTION_ID: &str = "__transactionId__";
    pub const TRANSACTION_CHECK_TIMES: &str = "TRANSACTION_CHECK_TIMES";
    pub const TRAN_PREPARED_QUEUE_OFFSET: &str = "TRAN_PREPARED_QUEUE_OFFSET";
    pub const CHECK_IMMUNITY_TIME_IN_SECONDS: &str = "CHECK_IMMUNITY_TIME_IN_SECONDS";
    pub const MSG_REGION: &str = "MSG_REGION";
    pub const TRACE_ON: &str = "TRACE_ON";
    pub const CLUSTER: &str = "CLUSTER";
    pub const INSTANCE_ID: &str = "INSTANCE_ID";
    pub const CORRELATION_ID: &str = "CORRELATION_ID";
    pub const REPLY_TO_CLIENT: &str = "REPLY_TO_CLIENT";
    pub const TTL: &str = "TTL";
    pub const MSG_TYPE: &str = "MSG_TYPE";
    pub const PUSH_REPLY_TIME: &str = "PUSH_REPLY_TIME";
    pub const ARRIVE_TIME: &str = "ARRIVE_TIME";
    pub const POP_CK: &str = "POP_CK";
    pub const POP_CK_OFFSET: &str = "POP_CK_OFFSET";
    pub const FIRST_POP_TIME: &str = "1ST_POP_TIME";
    pub const SHARDING_KEY: &str = "__SHARDINGKEY";
    pub const INNER_NUM: &str = "INNER_NUM";
    pub const INNER_BASE: &str = "INNER_BASE";
    pub const INNER_MULTI_DISPATCH: &str = "INNER_MULTI_DISPATCH";
    pub const INNER_MULTI_QUEUE_OFFSET: &str = "INNER_MULTI_QUEUE_OFFSET";
    pub const TIMER_DELIVER_MS: &str = "TIMER_DELIVER_MS";
    pub const TIMER_DELAY_SEC: &str = "TIMER_DELAY_SEC";
    pub const TIMER_DELAY_MS: &str = "TIMER_DELAY_MS";
    pub const TIMER_OUT_MS: &str = "TIMER_OUT_MS";
    pub const TIMER_ENQUEUE_MS: &str = "TIMER_ENQUEUE_MS";
    pub const TIMER_DEQUEUE_MS: &str = "TIMER_DEQUEUE_MS";
    pub const TIMER_ROLL_TIMES: &str = "TIMER_ROLL_TIMES";
    pub const TIMER_DEL_UNIQKEY: &str = "TIMER_DEL_UNIQKEY";
    pub const DUP_INFO: &str = "DUP_INFO";
    pub const CRC32: &str = "__CRC32#";
    pub const BORN_HOST: &str = "__BORNHOST";
    pub const BORN_TIMESTAMP: &str = "BORN_TIMESTAMP";
    pub const DLQ_ORIGIN_TOPIC: &str = "DLQ_ORIGIN_TOPIC";
    pub const DLQ_ORIGIN_MESSAGE_ID: &str = "DLQ_ORIGIN_MESSAGE_ID";
}

/// Properties in their text form, read in place.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a>(&'a [u8]);

impl<'a> Properties<'a> {
    /// Over the stored bytes.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The stored bytes.
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Entries in stored order, repeated names included. An entry that is not UTF-8 is left out.
    pub fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter_bytes().filter_map(|(name, value)| {
            Some((std::str::from_utf8(name).ok()?, std::str::from_utf8(value).ok()?))
        })
    }

    /// Entries in stored order as bytes, for those who look for a few names among many.
    pub fn iter_bytes(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        self.0.split(|&b| b == VALUE_END as u8).filter_map(|entry| {
            let at = entry.iter().position(|&b| b == NAME_END as u8)?;
            let (name, value) = (&entry[..at], &entry[at + 1..]);
            (!name.is_empty() && !value.is_empty()).then_some((name, value))
        })
    }

    /// The value under `name`; the last one wins.
    pub fn get(&self, name: &str) -> Option<&'a str> {
        let mut found = None;
        for (n, value) in self.iter() {
            if n == name {
                found = Some(value);
            }
        }
        found
    }

    /// A copy that can be changed.
    pub fn to_map(&self) -> PropertyMap {
        let mut map = PropertyMap::default();
        for (name, value) in self.iter() {
            map.set(name, value);
        }
        map
    }
}

impl<'a> From<&'a str> for Properties<'a> {
    fn from(text: &'a str) -> Self {
        Self(text.as_bytes())
    }
}

impl fmt::Debug for Properties<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Properties with one value a name, in the order they were first set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PropertyMap(Vec<(String, String)>);

impl PropertyMap {
    /// The value under `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter().find(|(n, _)| *n == name).map(|(_, value)| value)
    }

    /// Sets or replaces a value; an empty one removes the name, since it would not survive the text form.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        let value = value.into();
        if value.is_empty() {
            self.remove(name);
        } else if let Some(entry) = self.0.iter_mut().find(|(n, _)| n == name) {
            entry.1 = value;
        } else {
            self.0.push((name.to_owned(), value));
        }
    }

    /// Removes a name and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    /// Entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(n, v)| (n.as_str(), v.as_str()))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True when there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The text form.
    pub fn to_text(&self) -> String {
        let mut text = String::with_capacity(self.0.iter().map(|(n, v)| n.len() + v.len() + 2).sum());
        for (name, value) in self.iter() {
            append(&mut text, name, value);
        }
        text
    }
}

/// Appends an entry to a text form, closing the one before if need be. An earlier entry of the name stays and is
/// shadowed.
pub fn append(text: &mut String, name: &str, value: &str) {
    text.reserve(name.len() + value.len() + 3);
    close(text);
    text.push_str(name);
    text.push(NAME_END);
    text.push_str(value);
    text.push(VALUE_END);
}

/// Replaces an entry if there is room for it within `most` bytes; else no entry of the name is left. For notes that a
/// message can do without: a broker's own must not make one too long to be stored.
pub fn note(text: &mut String, name: &str, value: &str, most: usize) {
    remove(text, name);
    if text.len() + name.len() + value.len() + 3 <= most {
        append(text, name, value);
    }
}

/// Appends all entries of another text form, as a batch's own properties are to each of its items.
pub fn append_all(text: &mut String, more: &str) {
    if !more.is_empty() {
        close(text);
        text.push_str(more);
    }
}

/// Removes every entry of a name; the others keep their bytes.
pub fn remove(text: &mut String, name: &str) {
    let is_it = |entry: &str| entry.split_once(NAME_END).is_some_and(|(n, _)| n == name);
    if text.split(VALUE_END).any(is_it) {
        *text = text
            .split_inclusive(VALUE_END)
            .filter(|entry| !is_it(entry))
            .collect();
    }
}

fn close(text: &mut String) {
    if !text.is_empty() && !text.ends_with(VALUE_END) {
        text.push(VALUE_END);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn entries_without_name_or_value_are_dropped_and_the_last_of_a_name_wins() {
        let p = Properties::from("a\x011\x02\x01x\x02b\x01\x02plain\x02a\x012\x02c\x01x\x01y");
        let entries: Vec<_> = p.iter().collect();
        assert_eq!(entries, [("a", "1"), ("a", "2"), ("c", "x\x01y")]);
        assert_eq!(
            (p.get("a"), p.get("b"), p.get("c")),
            (Some("2"), None, Some("x\x01y"))
        );
        assert_eq!(p.to_map().to_text(), "a\x012\x02c\x01x\x01y\x02");
    }

    #[test]
    fn an_entry_that_is_not_utf8_hides_no_other() {
        let p = Properties::new(b"a\x01\xFF\x02b\x012\x02");
        assert_eq!(p.iter().collect::<Vec<_>>(), [("b", "2")]);
    }

    #[test]
    fn appending_closes_the_entry_before() {
        let mut text = String::from("a\x011");
        append(&mut text, "b", "2");
        assert_eq!(text, "a\x011\x02b\x012\x02");
        append_all(&mut text, "WAIT\x01true");
        append_all(&mut text, "");
        assert_eq!(text, "a\x011\x02b\x012\x02WAIT\x01true");
        let mut empty = String::new();
        append_all(&mut empty, "k\x01v\x02");
        assert_eq!(empty, "k\x01v\x02");
    }

    #[test]
    fn removing_takes_every_entry_of_the_name() {
        let mut text = String::from("POP_CK\x01x\x02a\x011\x02POP_CK\x01y");
        remove(&mut text, "POP_CK");
        assert_eq!(text, "a\x011\x02");
        remove(&mut text, "nothing");
        assert_eq!(text, "a\x011\x02");
    }

    proptest! {
        #[test]
        fn a_map_survives_its_text(entries in proptest::collection::vec(("[a-z]{1,4}", "[^\u{1}\u{2}]{1,9}"), 0..12)) {
            let mut map = PropertyMap::default();
            for (name, value) in &entries {
                map.set(name, value.as_str());
            }
            let text = map.to_text();
            prop_assert_eq!(Properties::from(text.as_str()).to_map(), map);
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..99)) {
            let _ = Properties::new(&bytes).to_map();
        }
    }
}
