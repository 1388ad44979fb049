//! Messages that ask for a delay: what they become before they are stored (Java's `HookUtils.handleScheduleMessage`).
//!
//! A message with a delay level goes to the queue of its level in [`SCHEDULE_TOPIC`], one with timer properties to
//! [`TIMER_TOPIC`]; both carry where they belong in `REAL_TOPIC` and `REAL_QID`. A level wins over a timer.

use std::borrow::Cow;

use super::topics::{SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF, TRANS_OP_HALF};
use crate::protocol::message::NewMessage;
use crate::protocol::model::SysFlag;
use crate::protocol::properties::{self, Properties, names};

/// The properties that ask for a time of delivery.
pub(super) const TIMER_NAMES: [&str; 3] = [
    names::TIMER_DELAY_SEC,
    names::TIMER_DELAY_MS,
    names::TIMER_DELIVER_MS,
];

/// What decides where a message waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// Delay levels that there are.
    pub levels: i32,
    /// Messages may ask for a time of their own.
    pub timer: bool,
    /// Grid of the timer, ms; above 0.
    pub precision_ms: i64,
    /// Farthest time that may be asked for, s.
    pub max_delay_s: i64,
}

/// Why a message that asks for a time is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoWait {
    /// The time does not read as one, or is too far ahead; or a recall of what is due already.
    #[error("the timer message is illegal")]
    Illegal,
    /// `timerWheelEnable` is false.
    #[error("timerWheelEnable is false")]
    Off,
    /// Too many messages wait for this time already.
    #[error("too many timer messages for this time")]
    Congested,
}

/// What a message asks for.
#[derive(Debug, Default)]
struct Asked<'a> {
    level: i32,
    timer: [Option<&'a str>; 3],
    placed: bool,
    recall: bool,
}

impl<'a> Asked<'a> {
    /// One walk over the text; the last value of a name wins. A level that is no number asks for nothing.
    fn of(text: &'a str) -> Self {
        let mut asked = Self::default();
        for (name, value) in Properties::from(text).iter() {
            match name {
                names::DELAY => asked.level = value.parse().unwrap_or(0),
                names::TIMER_OUT_MS => asked.placed = true,
                names::TIMER_DEL_UNIQKEY => asked.recall = true,
                _ => {
                    if let Some(n) = TIMER_NAMES.iter().position(|timer| *timer == name) {
                        asked.timer[n] = Some(value);
                    }
                }
            }
        }
        asked
    }

    /// The time asked for: seconds from now before milliseconds from now before a point in time.
    fn deliver_ms(&self, now: i64) -> Option<i64> {
        let [seconds, millis, at] = self.timer;
        let number = |text: &str| text.parse::<i64>().ok();
        match (seconds, millis, at) {
            (Some(seconds), _, _) => now.checked_add(number(seconds)?.checked_mul(1000)?),
            (None, Some(millis), _) => now.checked_add(number(millis)?),
            (None, None, at) => number(at?),
        }
    }
}

/// The message in the form in which it waits, or as it is when it asks for nothing. `congested` tells whether a slot
/// of the timer takes no more.
pub(super) fn place<'a>(
    message: &'a NewMessage,
    rules: Rules,
    now: i64,
    congested: impl FnOnce(i64) -> bool,
) -> Result<Cow<'a, NewMessage>, NoWait> {
    let transaction = message.sys_flag.transaction();
    let half = transaction == SysFlag::TRANSACTION_PREPARED || transaction == SysFlag::TRANSACTION_ROLLBACK;
    let own = [SCHEDULE_TOPIC, TIMER_TOPIC, TRANS_HALF, TRANS_OP_HALF];
    if half || own.contains(&message.topic.as_str()) {
        return Ok(Cow::Borrowed(message));
    }
    let asked = Asked::of(&message.properties);
    let levels = rules.levels.max(1);
    if asked.level > 0 {
        let level = asked.level.min(levels);
        let mut text = message.properties.clone();
        for name in TIMER_NAMES {
            properties::remove(&mut text, name);
        }
        if level != asked.level {
            properties::remove(&mut text, names::DELAY);
            properties::append(&mut text, names::DELAY, &level.to_string());
        }
        return Ok(Cow::Owned(moved(message, text, SCHEDULE_TOPIC, level - 1)));
    }
    if asked.placed || asked.timer.iter().all(Option::is_none) {
        return Ok(Cow::Borrowed(message));
    }
    if !rules.timer {
        return Err(NoWait::Off);
    }
    let deliver = asked.deliver_ms(now).ok_or(NoWait::Illegal)?;
    if deliver <= now {
        return if asked.recall {
            Err(NoWait::Illegal)
        } else {
            Ok(Cow::Borrowed(message))
        };
    }
    if deliver - now > rules.max_delay_s.saturating_mul(1000) {
        return Err(NoWait::Illegal);
    }
    let out = slot_of(deliver, rules.precision_ms);
    if congested(out) {
        return Err(NoWait::Congested);
    }
    let mut text = message.properties.clone();
    properties::remove(&mut text, names::TIMER_OUT_MS);
    properties::append(&mut text, names::TIMER_OUT_MS, &out.to_string());
    Ok(Cow::Owned(moved(message, text, TIMER_TOPIC, 0)))
}

/// The slot of a time: its deliveries lie within one step behind the slot's own time, the end of the step included.
/// So Java moves an exact multiple one step earlier.
pub(super) fn slot_of(deliver_ms: i64, precision_ms: i64) -> i64 {
    (deliver_ms - 1).div_euclid(precision_ms) * precision_ms
}

fn moved(message: &NewMessage, mut text: String, topic: &str, queue_id: i32) -> NewMessage {
    for (name, value) in [
        (names::REAL_TOPIC, message.topic.clone()),
        (names::REAL_QID, message.queue_id.to_string()),
    ] {
        properties::remove(&mut text, name);
        properties::append(&mut text, name, &value);
    }
    NewMessage {
        topic: topic.to_owned(),
        queue_id,
        properties: text,
        ..message.clone()
    }
}

/// Where a message that waited belongs, by its properties.
pub(super) fn real_place(text: &Properties<'_>) -> Option<(String, i32)> {
    let topic = text.get(names::REAL_TOPIC)?;
    let queue_id = text.get(names::REAL_QID)?.parse().ok()?;
    (queue_id >= 0).then(|| (topic.to_owned(), queue_id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const NOW: i64 = 1_795_974_508_174;
    const RULES: Rules = Rules {
        levels: 18,
        timer: true,
        precision_ms: 1000,
        max_delay_s: 259_200,
    };

    fn message(pairs: &[(&str, &str)]) -> NewMessage {
        let mut text = String::new();
        for (name, value) in pairs {
            properties::append(&mut text, name, value);
        }
        let host = "127.0.0.1:1".parse().unwrap();
        NewMessage {
            topic: "t".into(),
            queue_id: 3,
            flag: 7,
            sys_flag: SysFlag(0),
            born_timestamp: 1,
            born_host: host,
            store_host: host,
            reconsume_times: 2,
            prepared_transaction_offset: 0,
            body: Bytes::from_static(b"x"),
            properties: text,
        }
    }

    fn placed(pairs: &[(&str, &str)]) -> Result<NewMessage, NoWait> {
        place(&message(pairs), RULES, NOW, |_| false).map(Cow::into_owned)
    }

    fn out(pairs: &[(&str, &str)]) -> Option<i64> {
        let placed = placed(pairs).unwrap();
        let value = Properties::from(placed.properties.as_str())
            .get(names::TIMER_OUT_MS)?
            .to_owned();
        assert_eq!(
            (placed.topic.as_str(), placed.queue_id),
            ("rmq_sys_wheel_timer", 0)
        );
        Some(value.parse().unwrap())
    }

    #[test]
    fn a_level_moves_to_its_queue_and_an_absurd_one_to_the_last() {
        for (asked, stored, queue) in [("1", "1", 0), ("18", "18", 17), ("99", "18", 17)] {
            let placed =
                placed(&[("DELAY", asked), ("TIMER_DELAY_SEC", "9"), ("REAL_TOPIC", "old")]).unwrap();
            assert_eq!(
                (placed.topic.as_str(), placed.queue_id),
                ("SCHEDULE_TOPIC_XXXX", queue)
            );
            let map = Properties::from(placed.properties.as_str()).to_map();
            assert_eq!(map.get("DELAY"), Some(stored));
            assert_eq!(
                (map.get("REAL_TOPIC"), map.get("REAL_QID")),
                (Some("t"), Some("3"))
            );
            assert_eq!(map.get("TIMER_DELAY_SEC"), None, "a level wins");
            assert_eq!(map.len(), 3, "no name twice: {:?}", placed.properties);
        }
        for nothing in ["0", "-3", "abc", "99999999999999999999"] {
            assert_eq!(
                placed(&[("DELAY", nothing)]),
                Ok(message(&[("DELAY", nothing)])),
                "{nothing}"
            );
        }
    }

    #[test]
    fn a_time_is_rounded_down_and_an_exact_one_goes_a_step_earlier() {
        // Java: TIMER_OUT_MS is the time floored to the precision, an exact multiple less one step.
        assert_eq!(
            out(&[("TIMER_DELIVER_MS", "1795974510174")]),
            Some(1_795_974_510_000)
        );
        assert_eq!(
            out(&[("TIMER_DELIVER_MS", "1795974510000")]),
            Some(1_795_974_509_000)
        );
        assert_eq!(
            out(&[("TIMER_DELAY_MS", "2000"), ("TIMER_DELIVER_MS", "1")]),
            Some(1_795_974_510_000)
        );
        assert_eq!(
            out(&[("TIMER_DELAY_SEC", "3"), ("TIMER_DELAY_MS", "1")]),
            Some(1_795_974_511_000)
        );
        let past = message(&[("TIMER_DELIVER_MS", "1795974508174")]);
        assert_eq!(place(&past, RULES, NOW, |_| false).unwrap().into_owned(), past);
        assert_eq!(placed(&[("TIMER_DELAY_SEC", "-5")]).unwrap().topic, "t");
    }

    #[test]
    fn times_that_cannot_be_are_refused() {
        for bad in [
            ("TIMER_DELIVER_MS", "soon"),
            ("TIMER_DELAY_SEC", "9223372036854775807"),
            ("TIMER_DELAY_MS", "9223372036854775807"),
            ("TIMER_DELIVER_MS", "9223372036854775807"),
            ("TIMER_DELAY_SEC", "259201"),
            ("TIMER_DELAY_MS", "259200001"),
        ] {
            assert_eq!(placed(&[bad]), Err(NoWait::Illegal), "{bad:?}");
        }
        assert!(placed(&[("TIMER_DELAY_SEC", "259200")]).is_ok());
        let recall = [("TIMER_DELIVER_MS", "1"), ("TIMER_DEL_UNIQKEY", "t+A")];
        assert_eq!(placed(&recall), Err(NoWait::Illegal));
        let timed = message(&[("TIMER_DELAY_SEC", "1")]);
        let off = Rules {
            timer: false,
            ..RULES
        };
        assert_eq!(place(&timed, off, NOW, |_| false), Err(NoWait::Off));
        assert_eq!(place(&timed, RULES, NOW, |_| true), Err(NoWait::Congested));
    }

    #[test]
    fn what_has_waited_or_is_half_stays_where_it_is() {
        let delivered = message(&[("TIMER_DELAY_SEC", "9"), ("TIMER_OUT_MS", "1")]);
        assert_eq!(
            place(&delivered, RULES, NOW, |_| false).unwrap().into_owned(),
            delivered
        );
        for topic in [
            "RMQ_SYS_TRANS_HALF_TOPIC",
            "SCHEDULE_TOPIC_XXXX",
            "rmq_sys_wheel_timer",
        ] {
            let own = NewMessage {
                topic: topic.into(),
                ..message(&[("DELAY", "2")])
            };
            assert_eq!(place(&own, RULES, NOW, |_| false).unwrap().into_owned(), own);
        }
        for flag in [SysFlag::TRANSACTION_PREPARED, SysFlag::TRANSACTION_ROLLBACK] {
            let half = NewMessage {
                sys_flag: SysFlag(flag),
                ..message(&[("DELAY", "2")])
            };
            assert_eq!(place(&half, RULES, NOW, |_| false).unwrap().into_owned(), half);
        }
    }

    #[test]
    fn a_real_place_is_whole_or_none() {
        let text = |pairs: &[(&str, &str)]| message(pairs).properties;
        let good = text(&[("REAL_TOPIC", "a"), ("REAL_QID", "5")]);
        assert_eq!(
            real_place(&Properties::from(good.as_str())),
            Some(("a".into(), 5))
        );
        for bad in [
            text(&[("REAL_TOPIC", "a")]),
            text(&[("REAL_QID", "5")]),
            text(&[("REAL_TOPIC", "a"), ("REAL_QID", "-1")]),
            text(&[("REAL_TOPIC", "a"), ("REAL_QID", "x")]),
        ] {
            assert_eq!(real_place(&Properties::from(bad.as_str())), None, "{bad:?}");
        }
    }
}
