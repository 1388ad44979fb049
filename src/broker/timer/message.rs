//! What a waiting message says about its time, and what it becomes when that has come.

use super::super::put;
use super::super::waiting::real_place;
use crate::protocol::message::{MAX_PROPERTIES, MessageView, NewMessage};
use crate::protocol::properties::{self, names};

/// The coarsest precision there is, ms, and some time between the look at the clock and the append.
const COARSEST_MS: i64 = 70_000;

/// What the timer reads out of a waiting message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timed {
    /// Its slot, ms.
    pub out: i64,
    /// The time it asked for, never before that; in the step behind its slot if the precision is the same.
    pub exact: i64,
    /// Topic and queue it belongs to.
    pub topic: String,
    pub queue_id: i32,
    /// Under which a recall finds it.
    pub key: Option<String>,
    /// What it takes back, if it is a recall.
    pub recalls: Option<String>,
}

impl Timed {
    /// `None` for what is no waiting message.
    pub fn of(view: &MessageView<'_>, precision_ms: i64) -> Option<Self> {
        let text = view.properties();
        let number = |name| text.get(name).map(str::parse::<i64>);
        let out = number(names::TIMER_OUT_MS)?.ok()?;
        let end = out.checked_add(precision_ms)?;
        let (topic, queue_id) = real_place(&text)?;
        let stored = view.store_timestamp();
        // A message that went round was stored anew: its own time is not known any more.
        let fresh = text.get(names::TIMER_ROLL_TIMES).is_none();
        let since = |value: Result<i64, _>, unit: i64| {
            let delay = value.ok()?.checked_mul(unit)?;
            stored.checked_add(delay).filter(|_| fresh)
        };
        let asked = match (
            number(names::TIMER_DELAY_SEC),
            number(names::TIMER_DELAY_MS),
            number(names::TIMER_DELIVER_MS),
        ) {
            (Some(seconds), _, _) => since(seconds, 1000),
            (None, Some(millis), _) => since(millis, 1),
            (None, None, Some(at)) => at.ok(),
            (None, None, None) => None,
        };
        let unique = text.get(names::UNIQ_KEY);
        Some(Self {
            out,
            // The precision may have been coarser when the message came.
            exact: asked
                .filter(|at| *at > out && at.saturating_sub(out) <= COARSEST_MS)
                .unwrap_or(end),
            key: unique.map(|unique| recall_key(&topic, unique)),
            recalls: text.get(names::TIMER_DEL_UNIQKEY).map(str::to_owned),
            topic,
            queue_id,
        })
    }
}

/// How a recall names the message that it takes back (`TimerMessageStore.buildDeleteKey`).
pub fn recall_key(topic: &str, unique_key: &str) -> String {
    format!("{topic}+{unique_key}")
}

/// The message to deliver, or to put back into the wheel when it goes round once more.
pub fn due(view: &MessageView<'_>, timed: &Timed, enqueued_ms: i64, roll: bool, now: i64) -> NewMessage {
    let mut message = put::again(view);
    message.prepared_transaction_offset = 0;
    let text = &mut message.properties;
    if roll {
        let times = view
            .properties()
            .get(names::TIMER_ROLL_TIMES)
            .and_then(|times| times.parse::<i32>().ok())
            .unwrap_or(0);
        let times = times.saturating_add(1).to_string();
        properties::note(text, names::TIMER_ROLL_TIMES, &times, MAX_PROPERTIES);
    } else {
        message.topic.clone_from(&timed.topic);
        message.queue_id = timed.queue_id;
    }
    for (name, value) in [
        (names::TIMER_ENQUEUE_MS, enqueued_ms),
        (names::TIMER_DEQUEUE_MS, now),
    ] {
        properties::note(text, name, &value.to_string(), MAX_PROPERTIES);
    }
    message
}
