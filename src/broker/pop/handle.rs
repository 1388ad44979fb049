//! The names and texts that tie a pop, its handles and its acknowledgements together: retry topics (Java's
//! `KeyBuilder`), receipt handles and the offset lists of an answer (`ExtraInfoUtil`).
//!
//! ```text
//! handle       start popTime invisible reviveQueue kind brokerName queue offset
//! start info   kind queue start;…         message info  kind queue offset,offset,…;…
//! order info   kind qo<queue>%<offset> count;… and kind queue count
//! ```

use std::fmt::Write as _;

use crate::protocol::codes;
use crate::protocol::model::RETRY_PREFIX;
use crate::remoting::Refusal;

/// Revive queue of an ordered pop: there is no checkpoint.
pub const ORDERLY: i32 = 999;

/// Which topic of a group a message was popped from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The topic itself.
    Normal,
    /// `%RETRY%group_topic`; every retry topic without a `+` counts as one.
    RetryV1,
    /// `%RETRY%group+topic`.
    RetryV2,
}

impl Kind {
    /// By the topic's name.
    pub fn of(topic: &str) -> Self {
        match topic.strip_prefix(RETRY_PREFIX) {
            None => Self::Normal,
            Some(rest) if rest.contains('+') => Self::RetryV2,
            Some(_) => Self::RetryV1,
        }
    }

    /// By its mark in a handle.
    pub fn from_mark(mark: &str) -> Option<Self> {
        match mark {
            "0" => Some(Self::Normal),
            "1" => Some(Self::RetryV1),
            "2" => Some(Self::RetryV2),
            _ => None,
        }
    }

    /// Its mark in a handle.
    pub const fn mark(self) -> char {
        match self {
            Self::Normal => '0',
            Self::RetryV1 => '1',
            Self::RetryV2 => '2',
        }
    }

    /// The topic that a group's messages of this kind are stored in.
    pub fn topic(self, topic: &str, group: &str) -> String {
        match self {
            Self::Normal => topic.to_owned(),
            Self::RetryV1 => format!("{RETRY_PREFIX}{group}_{topic}"),
            Self::RetryV2 => format!("{RETRY_PREFIX}{group}+{topic}"),
        }
    }
}

/// The topic behind a pop retry topic of the group; another topic is its own.
pub fn normal_topic<'a>(topic: &'a str, group: &str) -> &'a str {
    topic
        .strip_prefix(RETRY_PREFIX)
        .and_then(|rest| rest.strip_prefix(group))
        .and_then(|rest| rest.strip_prefix(['+', '_']))
        .unwrap_or(topic)
}

/// What a client gives back of its handle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// First offset of the checkpoint.
    pub start_offset: i64,
    /// When it was popped, ms.
    pub pop_time: i64,
    /// For how long, ms.
    pub invisible_time: i64,
    /// Where the checkpoint goes.
    pub revive_queue: i32,
    /// The broker's name.
    pub broker_name: String,
}

impl Handle {
    /// Reads a handle; parts behind the broker's name are not needed.
    pub fn parse(text: &str) -> Result<Self, Refusal> {
        let bad = || {
            let shown: String = text.chars().take(200).collect();
            Refusal::new(
                codes::INVALID_PARAMETER,
                format!("the handle {shown:?} cannot be read"),
            )
        };
        let mut parts = text.split(' ');
        let mut number = || parts.next()?.parse::<i64>().ok();
        let (Some(start_offset), Some(pop_time), Some(invisible_time), Some(revive_queue)) =
            (number(), number(), number(), number())
        else {
            return Err(bad());
        };
        let kind = parts.next().and_then(Kind::from_mark);
        let (Some(_), Some(broker_name), Ok(revive_queue)) =
            (kind, parts.next(), i32::try_from(revive_queue))
        else {
            return Err(bad());
        };
        if start_offset < 0 || pop_time < 0 || invisible_time < 0 || revive_queue < 0 {
            return Err(bad());
        }
        Ok(Self {
            start_offset,
            pop_time,
            invisible_time,
            revive_queue,
            broker_name: broker_name.to_owned(),
        })
    }

    /// The text of a handle for one message of a topic.
    pub fn text(&self, topic: &str, queue_id: i32, offset: i64) -> String {
        format!(
            "{} {} {} {} {} {} {queue_id} {offset}",
            self.start_offset,
            self.pop_time,
            self.invisible_time,
            self.revive_queue,
            Kind::of(topic).mark(),
            self.broker_name
        )
    }
}

/// The offset lists of an answer.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Infos {
    /// Starts of the checkpoints.
    pub start: String,
    /// Offsets of the messages.
    pub messages: String,
    /// How often they were handed out in order before.
    pub counts: String,
}

impl Infos {
    /// Adds what was popped from one queue.
    pub fn add(&mut self, topic: &str, queue_id: i32, start: i64, offsets: &[i64]) {
        let mark = Kind::of(topic).mark();
        let list = next(&mut self.start);
        // Writing to a text cannot fail.
        let _ = write!(list, "{mark} {queue_id} {start}");
        let list = next(&mut self.messages);
        let _ = write!(list, "{mark} {queue_id} ");
        for (n, offset) in offsets.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            let _ = write!(list, "{comma}{offset}");
        }
    }

    /// Adds how often a message was handed out before.
    pub fn add_count(&mut self, topic: &str, queue_id: i32, offset: i64, count: i32) {
        let mark = Kind::of(topic).mark();
        let _ = write!(next(&mut self.counts), "{mark} qo{queue_id}%{offset} {count}");
    }

    /// Adds the least count of a queue, which older clients look for.
    pub fn add_least_count(&mut self, topic: &str, queue_id: i32, count: i32) {
        let mark = Kind::of(topic).mark();
        let _ = write!(next(&mut self.counts), "{mark} {queue_id} {count}");
    }
}

fn next(list: &mut String) -> &mut String {
    if !list.is_empty() {
        list.push(';');
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_topics_have_two_names() {
        assert_eq!(Kind::RetryV1.topic("t", "g"), "%RETRY%g_t");
        assert_eq!(Kind::RetryV2.topic("t", "g"), "%RETRY%g+t");
        for kind in [Kind::Normal, Kind::RetryV1, Kind::RetryV2] {
            let topic = kind.topic("t_1", "g_2");
            assert_eq!(Kind::of(&topic), kind);
            assert_eq!(Kind::from_mark(&kind.mark().to_string()), Some(kind));
            assert_eq!(normal_topic(&topic, "g_2"), "t_1");
        }
        assert_eq!(normal_topic("%RETRY%g", "g"), "%RETRY%g");
        assert_eq!(normal_topic("%RETRY%h_t", "g"), "%RETRY%h_t");
    }

    #[test]
    fn handles_are_javas() {
        // protocol.md 9.14
        let text = "10 1795973716309 60000 2 0 broker-a 3 11";
        let handle = Handle::parse(text).unwrap();
        assert_eq!(handle.text("t", 3, 11), text);
        assert_eq!(
            (
                handle.start_offset,
                handle.revive_queue,
                handle.broker_name.as_str()
            ),
            (10, 2, "broker-a")
        );
        for bad in [
            "",
            "1",
            "1 2 3 4",
            "1 2 3 4 0",
            "1 2 3 4 7 b",
            "x 2 3 4 0 b",
            "1 2 3 99999999999 0 b",
            "-1 2 3 4 0 b 1 1",
            "1 2 -3 4 0 b 1 1",
        ] {
            assert_eq!(
                Handle::parse(bad).unwrap_err().code,
                codes::INVALID_PARAMETER,
                "{bad:?}"
            );
        }
    }

    #[test]
    fn lists_are_joined_as_clients_split_them() {
        let mut infos = Infos::default();
        infos.add("t", 3, 0, &[0, 1]);
        infos.add("%RETRY%g_t", 0, 7, &[9]);
        infos.add_count("t", 3, 1, 2);
        infos.add_least_count("t", 3, 0);
        assert_eq!(infos.start, "0 3 0;1 0 7");
        assert_eq!(infos.messages, "0 3 0,1;1 0 9");
        assert_eq!(infos.counts, "0 qo3%1 2;0 3 0");
    }
}
