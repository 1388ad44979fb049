//! What an ordered group holds of each queue (config/consumerOrderInfo.json, Java's `ConsumerOrderInfoManager`): a queue
//! gives nothing more until its last messages are acknowledged or visible again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::handle::Infos;

/// An entry that nobody used for so long is dropped, ms.
pub const KEEP_MS: i64 = 24 * 3600 * 1000;

/// The messages handed out last of one queue. Fields in the order of their names on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Order {
    /// The attempt they were handed to.
    #[serde(rename = "a", skip_serializing_if = "Option::is_none")]
    pub attempt: Option<String>,
    /// Bit of each acknowledged message.
    #[serde(rename = "cm")]
    pub done: i64,
    /// Invisible time, ms.
    #[serde(rename = "i", skip_serializing_if = "Option::is_none")]
    pub invisible_time: Option<i64>,
    /// When they were handed out, by the broker's clock, ms.
    #[serde(rename = "l")]
    pub handed_out: i64,
    /// The first offset, then the distance of each other one.
    #[serde(rename = "o")]
    pub offsets: Vec<i64>,
    /// How often each offset was handed out before.
    #[serde(rename = "oc", skip_serializing_if = "Option::is_none")]
    pub counts: Option<BTreeMap<i64, i32>>,
    /// When an offset is visible again, if that was changed, ms.
    #[serde(rename = "ot", skip_serializing_if = "Option::is_none")]
    pub visible: Option<BTreeMap<i64, i64>>,
    /// Pop time, ms.
    #[serde(rename = "popTime")]
    pub pop_time: i64,
}

/// The shape of the file: `topic@group` -> queue -> entry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderTable {
    /// The entries.
    pub table: BTreeMap<String, BTreeMap<i32, Order>>,
}

/// What an acknowledgement in order does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// The group goes on at this offset.
    Commit(i64),
    /// The message was not handed out.
    Illegal,
    /// It was handed out by another pop.
    Stale,
}

impl Order {
    /// What a pop handed out, after what the one before had.
    pub fn new(
        before: Option<&Self>,
        attempt: Option<&str>,
        pop_time: i64,
        invisible_time: i64,
        offsets: &[i64],
    ) -> Self {
        let first = offsets.first().copied().unwrap_or(0);
        let relative = offsets
            .iter()
            .enumerate()
            .map(|(n, &offset)| {
                if n == 0 {
                    first
                } else {
                    offset.saturating_sub(first)
                }
            })
            .collect();
        let counts = before.map(|before| {
            if before.attempt.is_some() && before.attempt.as_deref() == attempt {
                return before.counts.clone().unwrap_or_default();
            }
            let old = |offset: &i64| before.all().any(|o| o == *offset);
            let count = |offset: i64| {
                let known = before.counts.as_ref().and_then(|counts| counts.get(&offset));
                known.map_or(1, |n| n.saturating_add(1))
            };
            offsets
                .iter()
                .filter(|offset| old(offset))
                .map(|&offset| (offset, count(offset)))
                .collect()
        });
        Self {
            attempt: attempt.map(str::to_owned),
            done: 0,
            invisible_time: Some(invisible_time),
            handed_out: pop_time,
            offsets: relative,
            counts,
            visible: None,
            pop_time,
        }
    }

    /// The offset by its place.
    fn offset(&self, n: usize) -> i64 {
        let first = self.offsets.first().copied().unwrap_or(0);
        match self.offsets.get(n) {
            Some(&distance) if n > 0 => first.saturating_add(distance),
            _ => first,
        }
    }

    fn all(&self) -> impl Iterator<Item = i64> {
        (0..self.offsets.len()).map(|n| self.offset(n))
    }

    fn is_done(&self, n: usize) -> bool {
        n >= 64 || self.done & (1 << n) != 0
    }

    /// Until when a pop must wait, if it must: the last time that a message not done is hidden.
    pub fn blocked_until(&self, attempt: Option<&str>, now_ms: i64) -> Option<i64> {
        if self.attempt.is_some() && self.attempt.as_deref() == attempt {
            return None;
        }
        let hidden = self.pop_time.saturating_add(self.invisible_time.unwrap_or(0));
        (0..self.offsets.len())
            .filter(|&n| !self.is_done(n))
            .map(|n| {
                let changed = self.visible.as_ref().and_then(|times| times.get(&self.offset(n)));
                changed.copied().unwrap_or(hidden)
            })
            .filter(|&until| now_ms < until)
            .max()
    }

    /// How many messages are not done.
    pub fn in_flight(&self) -> i64 {
        (0..self.offsets.len()).filter(|&n| !self.is_done(n)).count() as i64
    }

    /// Writes how often the messages were handed out before.
    pub fn tell(&self, infos: &mut Infos, topic: &str, queue_id: i32) {
        let counts = self.counts.iter().flatten();
        let mut least = i32::MAX;
        for (&offset, &count) in counts {
            infos.add_count(topic, queue_id, offset, count);
            least = least.min(count);
        }
        // Only messages that came before are counted, so a shorter list means that one is new.
        if self.counts.as_ref().map_or(0, BTreeMap::len) != self.offsets.len() {
            least = 0;
        }
        infos.add_least_count(topic, queue_id, if least == i32::MAX { 0 } else { least });
    }

    /// Takes the acknowledgement of a message.
    pub fn acknowledge(&mut self, offset: i64, pop_time: i64) -> Next {
        if self.offsets.is_empty() {
            return Next::Illegal;
        }
        if pop_time != self.pop_time {
            return Next::Stale;
        }
        let Some(n) = self.all().position(|o| o == offset).filter(|&n| n < 64) else {
            return Next::Illegal;
        };
        self.done |= 1 << n;
        let next = (0..self.offsets.len()).find(|&n| !self.is_done(n));
        Next::Commit(match next {
            Some(n) => self.offset(n),
            None => self.offset(self.offsets.len() - 1).saturating_add(1),
        })
    }

    /// Hides a message until another time; false when it was handed out by another pop.
    pub fn hide(&mut self, offset: i64, pop_time: i64, until_ms: i64) -> bool {
        if pop_time != self.pop_time {
            return false;
        }
        self.visible.get_or_insert_default().insert(offset, until_ms);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::json;

    #[test]
    fn entries_counts_and_file_are_javas() {
        let told = |order: &Order| {
            let mut infos = Infos::default();
            order.tell(&mut infos, "t", 0);
            infos.counts
        };
        // The texts were written by Java's own class after the same calls.
        let first = Order::new(None, None, 100, 60_000, &[5, 6, 8]);
        assert_eq!(told(&first), "0 0 0");
        let mut order = Order::new(Some(&first), Some("att"), 200, 60_000, &[5, 6, 8, 9]);
        assert_eq!(told(&order), "0 qo0%5 1;0 qo0%6 1;0 qo0%8 1;0 0 0");
        assert_eq!(order.acknowledge(6, 200), Next::Commit(5));
        assert!(order.hide(8, 200, 7777));
        order.handed_out = 1_795_994_841_878;
        let table = OrderTable {
            table: [("t@g".to_owned(), BTreeMap::from([(0, order)]))].into(),
        };
        let text = r#"{"table":{"t@g":{0:{"a":"att","cm":2,"i":60000,"l":1795994841878,"o":[5,1,3,4],"oc":{5:1,6:1,8:1},"ot":{8:7777},"popTime":200}}}}"#;
        assert_eq!(String::from_utf8(json::to_vec(&table)).unwrap(), text);
        assert_eq!(json::from_slice::<OrderTable>(text.as_bytes()).unwrap(), table);
        let pretty = json::to_vec_pretty(&table);
        assert_eq!(json::from_slice::<OrderTable>(&pretty).unwrap(), table);
    }

    #[test]
    fn a_queue_waits_for_its_messages() {
        let mut order = Order::new(None, None, 100, 1000, &[5, 6, 8]);
        assert_eq!(order.blocked_until(None, 1099), Some(1100));
        assert_eq!(order.blocked_until(None, 1100), None);
        assert!(!order.hide(6, 99, 5000) && order.hide(6, 100, 5000));
        assert_eq!(order.blocked_until(None, 1100), Some(5000));
        assert_eq!(order.in_flight(), 3);
        assert_eq!(order.acknowledge(7, 100), Next::Illegal);
        assert_eq!(order.acknowledge(5, 99), Next::Stale);
        assert_eq!(order.acknowledge(6, 100), Next::Commit(5));
        assert_eq!(order.acknowledge(5, 100), Next::Commit(8));
        assert_eq!(order.acknowledge(8, 100), Next::Commit(9));
        assert_eq!(order.blocked_until(None, 0), None);
    }

    #[test]
    fn an_attempt_may_ask_again() {
        let order = Order::new(None, Some("x"), 100, 1000, &[5]);
        assert!(order.blocked_until(Some("x"), 200).is_none());
        assert!(order.blocked_until(Some("y"), 200).is_some());
        let again = Order::new(Some(&order), Some("x"), 200, 1000, &[5]);
        assert_eq!(
            again.counts,
            Some(BTreeMap::new()),
            "the same attempt does not count"
        );
        let other = Order::new(Some(&again), Some("y"), 300, 1000, &[5, 6]);
        assert_eq!(other.counts, Some(BTreeMap::from([(5, 1)])));
    }
}
