//! After a crash consumerOffset.json is some seconds old. The checkpoints stored since then tell how far groups had
//! popped; without them the messages would be handed out again before their time is over.

use std::collections::HashMap;
use std::fs;
use std::time::UNIX_EPOCH;

use super::checkpoint::{Found, NEXT_OFFSET};
use crate::broker::topics::TIMER_TOPIC;
use crate::broker::{Broker, now_ms};
use crate::protocol::message::MessageView;
use crate::protocol::properties::names;
use crate::store::{Boundary, GetStatus};

/// A file may have been written for so long after the offsets in it were taken, ms.
const MARGIN_MS: i64 = 1000;
/// How far back is looked when there is no file, ms.
const WITHOUT_FILE_MS: i64 = 3600 * 1000;
/// Records read at once.
const STEP: usize = 256;

/// A queue's newest pop: when it was and where the next begins.
type Newest = HashMap<(String, String, i32), (i64, i64)>;

impl Broker {
    /// Moves groups forward to where their stored checkpoints say. Called before requests are served. Blocks on the
    /// disk.
    pub(in crate::broker) fn recover_pop_offsets(&self) {
        let path = self.store.table_path("consumerOffset.json");
        let written = fs::metadata(path).and_then(|meta| meta.modified()).ok();
        let written_ms = written
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok())
            .and_then(|at| i64::try_from(at.as_millis()).ok());
        let since = written_ms.map_or(now_ms() - WITHOUT_FILE_MS, |at| at - MARGIN_MS);
        let mut newest = Newest::new();
        self.look_through(TIMER_TOPIC, 0, since, &mut newest);
        let revive = self.revive_topic();
        for queue_id in 0..self.revive_queues() {
            self.look_through(&revive, queue_id, since, &mut newest);
        }
        for ((topic, group, queue_id), (_, next)) in newest {
            let known = self.offsets.committed(&group, &topic, queue_id);
            if known.is_none_or(|known| known < next) && self.topics.contains(&topic) {
                tracing::info!(
                    group,
                    topic,
                    queue_id,
                    ?known,
                    next,
                    "pop offset restored from a checkpoint"
                );
                self.commit(&group, &topic, queue_id, next);
            }
        }
    }

    fn look_through(&self, topic: &str, queue_id: i32, since: i64, newest: &mut Newest) {
        let revive = self.revive_topic();
        let mut at = self.store.offset_by_time(topic, queue_id, since, Boundary::Lower);
        loop {
            let got = self.store.get(topic, queue_id, at, STEP, usize::MAX, &|_| true);
            for view in got
                .records
                .iter()
                .filter_map(|record| MessageView::parse(record).ok())
            {
                let real = view.properties().get(names::REAL_TOPIC);
                if topic == TIMER_TOPIC && real != Some(revive.as_str()) {
                    continue;
                }
                let next = view
                    .properties()
                    .get(NEXT_OFFSET)
                    .and_then(|n| n.parse::<i64>().ok());
                if let Some(next) = next
                    && let Found::Checkpoint(ck) = Found::of(&view)
                    && ck.pop_time >= since
                {
                    let place = newest.entry((ck.topic, ck.group, ck.queue_id)).or_default();
                    *place = (*place).max((ck.pop_time, next));
                }
            }
            let goes_on = matches!(
                got.status,
                GetStatus::Found | GetStatus::NoMatchedMessage | GetStatus::MessageWasRemoving
            );
            if !goes_on || got.next_offset <= at || got.next_offset >= got.max_offset {
                return;
            }
            at = got.next_offset;
        }
    }
}
