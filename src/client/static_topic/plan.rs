//! What a change of a static topic makes of its mapping, before to after. Nothing here asks a server.
//!
//! ```text
//! present mappings -> resize | move_to -> Change -> complete -> (writes) -> decide -> (writes)
//! ```

use std::collections::{BTreeMap, BTreeSet};

use super::mapping::{
    Broken, ByBroker, GLOBAL, Items, Mapping, believed, check, details, is_decided, leading, round_up,
    to_logical,
};
use crate::client::admin::topic::MAX_QUEUES;
use crate::protocol::body::{
    LogicQueueMappingItem, TopicConfig, TopicConfigAndQueueMapping, TopicQueueMappingDetail,
    TopicRemappingDetail,
};

/// Logical offsets of a new generation begin on a multiple of this.
pub const BLOCK: i64 = 10_000;
/// A new mapping's epoch is at least so far behind the one before.
const EPOCH_STEP: i64 = 1_000;

/// What a change does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Adds queues.
    Resize,
    /// Gives queues other leaders.
    Remap,
}

impl Kind {
    /// The word in mqadmin's mapping files.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Resize => "CREATE_OR_UPDATE",
            Self::Remap => "REMAPPING",
        }
    }
}

/// Why a change is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// What is there is not in order.
    #[error("the mapping of the topic is not in order: {0}")]
    Broken(#[from] Broken),
    /// A change was left in the middle.
    #[error("queue {queue} was given to {leader} and has no logical offset there yet")]
    Undecided {
        /// Logical queue.
        queue: i32,
        /// Its new leader.
        leader: String,
    },
    /// Fewer queues than now.
    #[error("a static topic keeps its queues: it has {has}, and {wanted} are wanted")]
    Fewer {
        /// Queues now.
        has: usize,
        /// Queues wanted.
        wanted: i32,
    },
    /// No number of queues.
    #[error("{0} is not a number of queues; use 1 to {MAX_QUEUES}")]
    Range(i32),
    /// Nowhere to go.
    #[error("no broker is meant")]
    NoTarget,
    /// There is nothing to move.
    #[error("the topic is on no broker")]
    Absent,
    /// A broker has more physical queues than the protocol has numbers.
    #[error("{0} has no room for another queue")]
    Full(String),
    /// The end of a queue is not known.
    #[error("{broker} does not tell the end of its queue {physical}")]
    NoEnd {
        /// Old leader.
        broker: String,
        /// Its physical queue.
        physical: i32,
    },
    /// A mapping file for something else.
    #[error("the file is of {0}")]
    OtherFile(String),
    /// A broker would go on leading a queue: it keeps the lists that its part of the file lacks.
    #[error(
        "{broker} leads queue {queue}, keeps what it is not sent, and would go on leading it: its part of the file lacks it"
    )]
    Keeps {
        /// Who.
        broker: String,
        /// Logical queue.
        queue: i32,
    },
    /// A mapping file that is older than what is there.
    #[error("the file has epoch {file}, and {broker} has {has} already")]
    Old {
        /// Of the file.
        file: i64,
        /// Of the broker.
        has: i64,
        /// Who.
        broker: String,
    },
}

/// A change of a static topic as a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Topic name.
    pub topic: String,
    /// What it does.
    pub kind: Kind,
    /// Version of the new mapping.
    pub epoch: i64,
    /// The topic before.
    pub before: ByBroker,
    /// The topic afterwards. New generations have no logical offset until [`Change::decide`].
    pub after: ByBroker,
    /// Brokers that get queues of others.
    pub map_in: BTreeSet<String>,
    /// Brokers that give queues away.
    pub map_out: BTreeSet<String>,
}

/// A queue whose leader changes: queue, leader before (none for a new queue), leader afterwards.
pub type Moved<'a> = (i32, Option<&'a LogicQueueMappingItem>, &'a LogicQueueMappingItem);

impl Change {
    /// Queues whose leader changes.
    pub fn moved(&self) -> Vec<Moved<'_>> {
        let before = believed(details(&self.before));
        believed(details(&self.after))
            .into_iter()
            .filter_map(|(queue, items)| {
                let (is, was) = (items.last()?, before.get(&queue).and_then(|items| items.last()));
                let same = was.is_some_and(|was| {
                    (&was.bname, was.queue_id, was.r#gen) == (&is.bname, is.queue_id, is.r#gen)
                });
                (!same).then_some((queue, was, is))
            })
            .collect()
    }

    /// Lets brokers that have nothing of the topic know of it, so that each broker of a cluster says the same.
    pub fn complete(&mut self, brokers: impl IntoIterator<Item = String>) {
        let total = details(&self.after).next().map_or(0, |d| d.total_queues);
        let (topic, epoch) = (self.topic.clone(), self.epoch);
        for broker in brokers {
            self.after
                .entry(broker.clone())
                .or_insert_with(|| empty(&topic, &broker, total, epoch));
        }
    }

    /// Queues whose new leader has no logical offset yet, with the old leader: `None` in `physical` can never be.
    pub fn undecided(&self) -> Vec<(i32, LogicQueueMappingItem)> {
        believed(details(&self.after))
            .into_iter()
            .filter_map(|(queue, items)| {
                let [.., old, new] = items.as_slice() else {
                    return None;
                };
                // A generation that follows another one never begins at 0.
                (new.logic_offset <= 0).then(|| (queue, old.clone()))
            })
            .collect()
    }

    /// Gives each new generation its logical offset, a block behind the end of the one before. `end` tells the physical end
    /// of an old leader's queue, which is no longer written.
    pub fn decide(&mut self, end: impl Fn(&str, i32) -> Option<i64>) -> Result<(), Refused> {
        for (queue, old) in self.undecided() {
            let end = end(&old.bname, old.queue_id)
                .filter(|end| *end >= old.start_offset)
                .ok_or_else(|| Refused::NoEnd {
                    broker: old.bname.clone(),
                    physical: old.queue_id,
                })?;
            let begins = round_up(to_logical(&old, end), BLOCK);
            self.begin(queue, begins);
        }
        Ok(())
    }

    /// Takes logical offsets that were decided before from what the brokers have: an offset is decided once.
    pub fn adopt(&mut self, present: &ByBroker) {
        let undecided: Vec<i32> = self.undecided().into_iter().map(|(queue, _)| queue).collect();
        for queue in undecided {
            let leader = self.leader(queue).cloned();
            let known = details(present)
                .filter_map(|detail| detail.hosted_queues.get(&queue))
                .flatten()
                .find(|item| {
                    item.logic_offset > 0
                        && leader.as_ref().is_some_and(|leader| {
                            (&item.bname, item.queue_id, item.r#gen)
                                == (&leader.bname, leader.queue_id, leader.r#gen)
                        })
                })
                .map(|item| item.logic_offset);
            if let Some(begins) = known {
                self.begin(queue, begins);
            }
        }
    }

    fn leader(&self, queue: i32) -> Option<&LogicQueueMappingItem> {
        believed(details(&self.after))
            .get(&queue)
            .and_then(|items| items.last())
    }

    /// The leader of a queue begins at a logical offset, in every broker's copy of the list.
    fn begin(&mut self, queue: i32, begins: i64) {
        let Some(leader) = self.leader(queue).cloned() else {
            return;
        };
        for at in self.after.values_mut() {
            let items = at
                .mapping_detail
                .as_mut()
                .and_then(|detail| detail.hosted_queues.get_mut(&queue));
            if let Some(last) = items.and_then(|items| items.last_mut())
                && (&last.bname, last.queue_id, last.r#gen) == (&leader.bname, leader.queue_id, leader.r#gen)
            {
                last.logic_offset = begins;
            }
        }
    }

    /// The change as mqadmin's mapping files have it.
    pub fn to_file(&self) -> TopicRemappingDetail {
        TopicRemappingDetail {
            broker_config_map: self.after.clone(),
            broker_to_map_in: self.map_in.clone(),
            broker_to_map_out: self.map_out.clone(),
            epoch: self.epoch,
            topic: self.topic.clone(),
            r#type: self.kind.word().to_owned(),
        }
    }

    /// What was there before, as mqadmin's mapping files have it.
    pub fn file_before(&self) -> TopicRemappingDetail {
        let epoch = details(&self.before).map(|d| d.epoch).max().unwrap_or(self.epoch);
        TopicRemappingDetail {
            broker_config_map: self.before.clone(),
            epoch,
            topic: self.topic.clone(),
            r#type: Kind::Resize.word().to_owned(),
            ..TopicRemappingDetail::default()
        }
    }

    /// The change that a mapping file asks for. An older epoch than the brokers have is for `force` alone.
    pub fn of_file(
        topic: &str,
        kind: Kind,
        file: TopicRemappingDetail,
        present: &ByBroker,
        force: bool,
    ) -> Result<Self, Refused> {
        if !file.topic.is_empty() && file.topic != topic {
            return Err(Refused::OtherFile(format!("topic {}", file.topic)));
        }
        if kind == Kind::Remap && file.r#type != kind.word() {
            return Err(Refused::OtherFile(format!(
                "type {}, not {}",
                file.r#type,
                kind.word()
            )));
        }
        let Some(mapping) = check(topic, &file.broker_config_map)? else {
            return Err(Refused::OtherFile("no broker".into()));
        };
        if let Some(old) = details(present).find(|d| d.epoch > mapping.epoch)
            && !force
        {
            return Err(Refused::Old {
                file: mapping.epoch,
                has: old.epoch,
                broker: old.bname.clone(),
            });
        }
        let mut change = Self {
            topic: topic.to_owned(),
            kind,
            epoch: mapping.epoch,
            before: present.clone(),
            after: file.broker_config_map,
            map_in: file.broker_to_map_in,
            map_out: file.broker_to_map_out,
        };
        let known = |broker: &String| change.after.contains_key(broker);
        if let Some(broker) = change.map_in.union(&change.map_out).find(|b| !known(b)) {
            return Err(Refused::OtherFile(format!("{broker}, whose mapping it lacks")));
        }
        if kind == Kind::Remap {
            change.check_moves()?;
        }
        change.check_kept()?;
        change.adopt(present);
        if kind == Kind::Resize
            && let Some((queue, _)) = change.undecided().first()
        {
            return Err(undecided(*queue, change.leader(*queue)));
        }
        Ok(change)
    }

    /// The order of the writes goes by who gets queues and who gives them away: a file must say it of each queue that moves.
    fn check_moves(&self) -> Result<(), Refused> {
        for (queue, old) in self.undecided() {
            let new = self.leader(queue).map(|l| l.bname.as_str()).unwrap_or_default();
            if !self.map_in.contains(new) || !self.map_out.contains(&old.bname) {
                return Err(Refused::OtherFile(format!(
                    "a move of queue {queue} from {} to {new} that its brokerToMapOut and brokerToMapIn do not name",
                    old.bname
                )));
            }
        }
        Ok(())
    }

    /// A broker keeps lists that it was not sent (Java's `TopicQueueMappingManager`, forced or not): one that leads a queue
    /// must be told of it, or two lead.
    fn check_kept(&self) -> Result<(), Refused> {
        for detail in details(&self.before) {
            let sent = self
                .after
                .get(&detail.bname)
                .and_then(|at| at.mapping_detail.as_ref());
            let kept = detail.hosted_queues.iter().find(|(queue, items)| {
                items.last().is_some_and(|leader| leader.bname == detail.bname)
                    && !sent.is_some_and(|sent| sent.hosted_queues.contains_key(*queue))
            });
            if let Some((queue, _)) = kept {
                return Err(Refused::Keeps {
                    broker: detail.bname.clone(),
                    queue: *queue,
                });
            }
        }
        Ok(())
    }

    /// What Java's brokers make of the write besides the mapping: the permission is the one sent, they are not sent the order flag and attributes, and a broker
    /// that has nothing of the topic gets the rest as a new topic has it. One sentence each.
    pub fn lost(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for (broker, at) in &self.before {
            let Some(sent) = self.after.get(broker) else {
                continue;
            };
            if at.config.order {
                lost.push(format!(
                    "{broker}: the topic is ordered now, and a static topic's write takes that away"
                ));
            }
            // A file of some time ago has the permission of then.
            if at.config.perm != sent.config.perm {
                lost.push(format!(
                    "{broker}: perm {} becomes {}",
                    at.config.perm, sent.config.perm
                ));
            }
        }
        let shape = |at: &TopicConfigAndQueueMapping| {
            let attributes = at.config.attributes.iter().map(|(k, v)| format!(", {k}={v}"));
            format!("perm {}{}", at.config.perm, attributes.collect::<String>())
        };
        let there: BTreeSet<String> = self.before.values().map(shape).collect();
        for (broker, at) in self.after.iter().filter(|(b, _)| !self.before.contains_key(*b)) {
            let new = shape(&TopicConfigAndQueueMapping::from(TopicConfig {
                attributes: BTreeMap::new(),
                ..at.config.clone()
            }));
            if !there.is_empty() && !there.contains(&new) {
                let there: Vec<&str> = there.iter().map(String::as_str).collect();
                lost.push(format!(
                    "{broker} gets the topic with {new}; the others have {}",
                    there.join(" and ")
                ));
            }
        }
        lost
    }
}

fn undecided(queue: i32, leader: Option<&LogicQueueMappingItem>) -> Refused {
    Refused::Undecided {
        queue,
        leader: leader.map(|l| l.bname.clone()).unwrap_or_default(),
    }
}

/// A broker that knows of a topic and has nothing of it.
fn empty(topic: &str, broker: &str, total: i32, epoch: i64) -> TopicConfigAndQueueMapping {
    TopicConfigAndQueueMapping {
        config: TopicConfig {
            topic_name: topic.to_owned(),
            read_queue_nums: 0,
            write_queue_nums: 0,
            ..TopicConfig::default()
        },
        mapping_detail: Some(TopicQueueMappingDetail {
            bname: broker.to_owned(),
            epoch,
            scope: Some(GLOBAL.to_owned()),
            topic: topic.to_owned(),
            total_queues: total,
            ..TopicQueueMappingDetail::default()
        }),
    }
}

/// One more physical queue on a broker: its number.
fn another(at: &mut TopicConfigAndQueueMapping, broker: &str) -> Result<i32, Refused> {
    let number = at.config.write_queue_nums;
    let more = |n: i32| {
        n.checked_add(1)
            .filter(|n| *n > 0)
            .ok_or_else(|| Refused::Full(broker.to_owned()))
    };
    at.config.write_queue_nums = more(number)?;
    at.config.read_queue_nums = more(at.config.read_queue_nums)?;
    Ok(number)
}

/// A mapping in order, with every logical offset decided.
fn settled(topic: &str, present: &ByBroker) -> Result<Option<Mapping>, Refused> {
    let mapping = check(topic, present)?;
    let open = mapping.iter().flat_map(|m| &m.queues).find_map(|(queue, items)| {
        let leader = items.last()?;
        (!is_decided(leader)).then_some((*queue, leader))
    });
    match open {
        Some((queue, leader)) => Err(undecided(queue, Some(leader))),
        None => Ok(mapping),
    }
}

fn next_epoch(before: i64, now_ms: i64) -> i64 {
    before.saturating_add(EPOCH_STEP).max(now_ms)
}

/// Every broker says the same epoch and number of queues.
fn head(brokers: &mut ByBroker, epoch: i64, total: i32) {
    for at in brokers.values_mut() {
        if let Some(detail) = &mut at.mapping_detail {
            detail.epoch = epoch;
            detail.total_queues = total;
        }
    }
}

/// Creates a static topic of `total` queues, or gives it so many. New queues go where the fewest are, among `targets` and the
/// brokers that lead queues already.
pub fn resize(
    topic: &str,
    total: i32,
    targets: &BTreeSet<String>,
    present: &ByBroker,
    now_ms: i64,
) -> Result<Change, Refused> {
    if !(1..=MAX_QUEUES).contains(&total) {
        return Err(Refused::Range(total));
    }
    let mapping = settled(topic, present)?;
    let leaders = mapping.as_ref().map(Mapping::leaders).unwrap_or_default();
    let epoch = next_epoch(mapping.as_ref().map_or(now_ms, |m| m.epoch), now_ms);
    if usize::try_from(total).is_ok_and(|total| total < leaders.len()) {
        return Err(Refused::Fewer {
            has: leaders.len(),
            wanted: total,
        });
    }
    let mut load: BTreeMap<String, usize> = targets
        .iter()
        .cloned()
        .chain(leading(present))
        .map(|broker| (broker, 0))
        .collect();
    for leader in leaders.values() {
        *load.entry(leader.clone()).or_default() += 1;
    }
    let mut after = present.clone();
    for queue in (0..total).filter(|queue| !leaders.contains_key(queue)) {
        let Some((broker, led)) = load.iter_mut().min_by_key(|(_, led)| **led) else {
            return Err(Refused::NoTarget);
        };
        *led += 1;
        let at = after
            .entry(broker.clone())
            .or_insert_with(|| empty(topic, broker, total, epoch));
        let physical = another(at, broker)?;
        let items: Items = vec![LogicQueueMappingItem {
            bname: broker.clone(),
            queue_id: physical,
            ..LogicQueueMappingItem::default()
        }];
        if let Some(detail) = &mut at.mapping_detail {
            detail.hosted_queues.insert(queue, items);
        }
    }
    head(&mut after, epoch, total);
    check(topic, &after)?;
    Ok(Change {
        topic: topic.to_owned(),
        kind: Kind::Resize,
        epoch,
        before: present.clone(),
        after,
        map_in: BTreeSet::new(),
        map_out: BTreeSet::new(),
    })
}

/// Shares queues evenly among `targets`, moving as few as can be: no broker gets a queue and gives one away.
pub fn share(leaders: &BTreeMap<i32, String>, targets: &BTreeSet<String>) -> BTreeMap<i32, String> {
    if targets.is_empty() {
        return leaders.clone();
    }
    let led = |broker: &String| leaders.values().filter(|l| *l == broker).count();
    let mut by_load: Vec<(usize, &String)> = targets.iter().map(|broker| (led(broker), broker)).collect();
    // Those with most have the first right to one more than the rest.
    by_load.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let (each, more) = (leaders.len() / targets.len(), leaders.len() % targets.len());
    let mut free: BTreeMap<&String, usize> = by_load
        .iter()
        .enumerate()
        .map(|(at, (_, broker))| (*broker, each + usize::from(at < more)))
        .collect();
    let mut shared = BTreeMap::new();
    let mut homeless = Vec::new();
    for (queue, leader) in leaders {
        match free.get_mut(leader).filter(|left| **left > 0) {
            Some(left) => {
                *left -= 1;
                shared.insert(*queue, leader.clone());
            }
            None => homeless.push(*queue),
        }
    }
    let room = free
        .into_iter()
        .flat_map(|(broker, left)| std::iter::repeat_n(broker, left));
    shared.extend(homeless.into_iter().zip(room.cloned()));
    shared
}

/// Gives queues the leaders of `wanted`; queues that are not named, and those that are led there already, stay.
pub fn move_to(
    topic: &str,
    wanted: &BTreeMap<i32, String>,
    present: &ByBroker,
    now_ms: i64,
) -> Result<Change, Refused> {
    let Some(mapping) = settled(topic, present)? else {
        return Err(Refused::Absent);
    };
    let epoch = next_epoch(mapping.epoch, now_ms);
    let total = i32::try_from(mapping.queues.len()).map_err(|_| Refused::Range(i32::MAX))?;
    let mut change = Change {
        topic: topic.to_owned(),
        kind: Kind::Remap,
        epoch,
        before: present.clone(),
        after: present.clone(),
        map_in: BTreeSet::new(),
        map_out: BTreeSet::new(),
    };
    for (queue, items) in &mapping.queues {
        let (Some(to), Some(leader)) = (wanted.get(queue), items.last()) else {
            continue;
        };
        if leader.bname == *to {
            continue;
        }
        change.map_in.insert(to.clone());
        change.map_out.insert(leader.bname.clone());
        let at = change
            .after
            .entry(to.clone())
            .or_insert_with(|| empty(topic, to, total, epoch));
        let physical = another(at, to)?;
        let r#gen = leader
            .r#gen
            .checked_add(1)
            .ok_or_else(|| Refused::Full(to.clone()))?;
        let mut items = items.clone();
        items.push(LogicQueueMappingItem {
            r#gen,
            bname: to.clone(),
            queue_id: physical,
            logic_offset: -1,
            ..LogicQueueMappingItem::default()
        });
        for broker in [to, &leader.bname] {
            if let Some(detail) = change
                .after
                .get_mut(broker)
                .and_then(|at| at.mapping_detail.as_mut())
            {
                detail.hosted_queues.insert(*queue, items.clone());
            }
        }
    }
    head(&mut change.after, epoch, total);
    check(topic, &change.after)?;
    Ok(change)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn names(n: usize) -> BTreeSet<String> {
        ["a", "b", "c", "d"][..n]
            .iter()
            .map(|n| (*n).to_owned())
            .collect()
    }

    fn leaders(brokers: &ByBroker) -> BTreeMap<i32, String> {
        check("T", brokers).unwrap().unwrap().leaders()
    }

    fn load(brokers: &ByBroker) -> BTreeMap<String, usize> {
        let mut load = BTreeMap::new();
        for leader in leaders(brokers).into_values() {
            *load.entry(leader).or_default() += 1;
        }
        load
    }

    #[test]
    fn a_new_topic_is_spread_and_known_everywhere() {
        let mut change = resize("T", 5, &names(2), &ByBroker::new(), NOW).unwrap();
        change.complete(names(3));
        assert_eq!(change.epoch, NOW + 1_000);
        assert_eq!(load(&change.after), [("a".into(), 3), ("b".into(), 2)].into());
        let on = |broker: &str| {
            let at = &change.after[broker];
            let detail = at.mapping_detail.as_ref().unwrap();
            (
                at.config.read_queue_nums,
                at.config.write_queue_nums,
                detail.total_queues,
                detail.epoch,
            )
        };
        assert_eq!(on("a"), (3, 3, 5, NOW + 1_000));
        assert_eq!(on("b"), (2, 2, 5, NOW + 1_000));
        assert_eq!(on("c"), (0, 0, 5, NOW + 1_000));
        assert_eq!(change.moved().len(), 5);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let there = resize("T", 4, &names(2), &ByBroker::new(), NOW).unwrap().after;
        assert_eq!(
            resize("T", 3, &names(2), &there, NOW),
            Err(Refused::Fewer { has: 4, wanted: 3 })
        );
        assert_eq!(
            resize("T", 0, &names(2), &ByBroker::new(), NOW),
            Err(Refused::Range(0))
        );
        assert_eq!(
            resize("T", 4, &BTreeSet::new(), &ByBroker::new(), NOW),
            Err(Refused::NoTarget)
        );
        assert!(resize("T", 4, &names(2), &there, NOW).unwrap().moved().is_empty());
        assert_eq!(
            move_to("T", &BTreeMap::new(), &ByBroker::new(), NOW),
            Err(Refused::Absent)
        );
        let open = move_to("T", &[(0, "b".to_owned())].into(), &there, NOW).unwrap();
        let refused = move_to("T", &[(1, "a".to_owned())].into(), &open.after, NOW);
        assert!(
            matches!(refused, Err(Refused::Undecided { queue: 0, .. })),
            "{refused:?}"
        );
    }

    #[test]
    fn a_moved_queue_begins_behind_the_end_of_the_old_one() {
        let there = resize("T", 2, &names(2), &ByBroker::new(), NOW).unwrap().after;
        let mut change = move_to("T", &[(0, "b".to_owned())].into(), &there, NOW).unwrap();
        assert_eq!(change.map_in, ["b".to_owned()].into());
        assert_eq!(change.map_out, ["a".to_owned()].into());
        assert_eq!(change.undecided().len(), 1);
        let refused = change.clone().decide(|_, _| None);
        assert!(matches!(refused, Err(Refused::NoEnd { .. })));
        change
            .decide(|broker, queue| ((broker, queue) == ("a", 0)).then_some(6_000))
            .unwrap();
        for broker in ["a", "b"] {
            let detail = change.after[broker].mapping_detail.as_ref().unwrap();
            let items = &detail.hosted_queues[&0];
            let last = items.last().unwrap();
            assert_eq!(
                (
                    items.len(),
                    last.r#gen,
                    last.bname.as_str(),
                    last.queue_id,
                    last.logic_offset
                ),
                (2, 1, "b", 1, 20_000),
                "{broker}"
            );
        }
        assert_eq!(change.undecided(), []);
        // Decided once: what a broker has counts for a file that does not know it yet.
        let file = move_to("T", &[(0, "b".to_owned())].into(), &there, NOW)
            .unwrap()
            .to_file();
        let resumed = Change::of_file("T", Kind::Remap, file, &change.after, false).unwrap();
        assert_eq!(resumed.after, change.after);
    }

    #[test]
    fn a_file_is_for_its_topic_and_not_older_than_what_is_there() {
        let there = resize("T", 2, &names(2), &ByBroker::new(), NOW).unwrap();
        let file = there.to_file();
        let text = crate::protocol::json::to_vec_strict(&file);
        let read: TopicRemappingDetail = crate::protocol::json::from_slice(&text).unwrap();
        assert_eq!(read, file);
        let of = |topic, kind, present: &ByBroker, force| {
            Change::of_file(topic, kind, file.clone(), present, force)
        };
        assert!(of("T", Kind::Resize, &ByBroker::new(), false).is_ok());
        assert!(matches!(
            of("U", Kind::Resize, &ByBroker::new(), false),
            Err(Refused::OtherFile(_))
        ));
        assert!(matches!(
            of("T", Kind::Remap, &ByBroker::new(), false),
            Err(Refused::OtherFile(_))
        ));
        let newer = resize("T", 4, &names(2), &there.after, NOW + 5).unwrap().after;
        assert!(matches!(
            of("T", Kind::Resize, &newer, false),
            Err(Refused::Old { .. })
        ));
        // Their brokers would go on leading the queues that the file does not have.
        assert!(matches!(
            of("T", Kind::Resize, &newer, true),
            Err(Refused::Keeps { .. })
        ));
        let mut renumbered = there.after.clone();
        head(&mut renumbered, NOW + 5_000, 2);
        assert!(matches!(
            of("T", Kind::Resize, &renumbered, false),
            Err(Refused::Old { .. })
        ));
        assert!(of("T", Kind::Resize, &renumbered, true).is_ok());
    }

    #[test]
    fn a_file_must_fit_what_brokers_do_with_it() {
        let there = resize("T", 2, &names(2), &ByBroker::new(), NOW).unwrap().after;
        let moved = move_to("T", &[(0, "b".to_owned())].into(), &there, NOW).unwrap();
        let of = |change: &Change, kind, force| Change::of_file("T", kind, change.to_file(), &there, force);
        assert!(of(&moved, Kind::Remap, false).is_ok());
        // The order of the writes would be wrong: the new leader last, the old one not closed.
        for spoil in [
            |c: &mut Change| c.map_in.clear(),
            |c: &mut Change| c.map_out.clear(),
        ] {
            let mut file = moved.clone();
            spoil(&mut file);
            let refused = of(&file, Kind::Remap, false);
            assert!(matches!(refused, Err(Refused::OtherFile(_))), "{refused:?}");
        }
        // Broker a would go on leading queue 0.
        let mut other = resize("T", 2, &["b".to_owned()].into(), &ByBroker::new(), NOW + 5_000).unwrap();
        other.complete(names(2));
        for force in [false, true] {
            let keeps = Refused::Keeps {
                broker: "a".into(),
                queue: 0,
            };
            assert_eq!(of(&other, Kind::Resize, force), Err(keeps));
        }
    }

    #[test]
    fn what_a_write_takes_away_is_named() {
        let mut there = resize("T", 2, &names(2), &ByBroker::new(), NOW).unwrap().after;
        let lost = |there: &ByBroker| {
            let moved = move_to("T", &[(0, "c".to_owned())].into(), there, NOW).unwrap();
            moved.lost()
        };
        assert_eq!(lost(&there), Vec::<String>::new());
        for at in there.values_mut() {
            at.config.attributes.insert("message.type".into(), "FIFO".into());
        }
        there.get_mut("b").unwrap().config.order = true;
        let lost = lost(&there);
        assert_eq!(lost.len(), 2, "{lost:?}");
        assert!(lost[0].starts_with("b: the topic is ordered"), "{lost:?}");
        assert!(
            lost[1].starts_with("c gets the topic with perm RW-; ") && lost[1].contains("FIFO"),
            "{lost:?}"
        );
    }

    proptest! {
        /// Java's invariants through any history: one leader a queue, epochs rise, logical ranges do not touch and grow,
        /// physical queues are never shared, brokers either get queues or give them away, loads differ by one.
        #[test]
        fn invariants_hold_through_any_history(
            first in 1_i32..12,
            steps in proptest::collection::vec((0_usize..2, 1_usize..5, 0_i32..6, 0_i64..30_000), 1..8),
        ) {
            let mut at = resize("T", first, &names(2), &ByBroker::new(), NOW).unwrap().after;
            let mut physical: BTreeMap<(String, i32), i64> = BTreeMap::new();
            let mut epoch = NOW;
            for (what, brokers, more, sent) in steps {
                let targets = names(brokers);
                let before = leaders(&at);
                // Messages go to the leaders.
                for items in check("T", &at).unwrap().unwrap().queues.values() {
                    let leader = items.last().unwrap();
                    *physical.entry((leader.bname.clone(), leader.queue_id)).or_default() += sent;
                }
                let change = if what == 0 {
                    let total = i32::try_from(before.len()).unwrap() + more;
                    resize("T", total, &targets, &at, NOW).unwrap()
                } else {
                    let wanted = share(&before, &targets);
                    let mut change = move_to("T", &wanted, &at, NOW).unwrap();
                    prop_assert!(change.map_in.is_disjoint(&change.map_out));
                    change.decide(|broker, queue| {
                        Some(physical.get(&(broker.to_owned(), queue)).copied().unwrap_or(0))
                    }).unwrap();
                    prop_assert_eq!(&leaders(&change.after), &wanted);
                    let load = load(&change.after);
                    let most = load.values().max().copied().unwrap_or(0);
                    let least = targets.iter().map(|t| load.get(t).copied().unwrap_or(0)).min().unwrap();
                    prop_assert!(most - least <= 1, "{load:?}");
                    prop_assert!(load.keys().all(|broker| targets.contains(broker)));
                    change
                };
                let mut change = change;
                change.complete(names(4));
                prop_assert!(change.epoch > epoch);
                epoch = change.epoch;
                let mapping = check("T", &change.after).unwrap().unwrap();
                prop_assert_eq!(mapping.epoch, epoch);
                for (queue, items) in &mapping.queues {
                    // What was there stays, and each range ends where the next one has not begun.
                    for pair in items.windows(2) {
                        let end = physical.get(&(pair[0].bname.clone(), pair[0].queue_id)).copied().unwrap_or(0);
                        let end = to_logical(&pair[0], end);
                        prop_assert!(end < pair[1].logic_offset);
                        prop_assert!(pair[1].logic_offset - end >= BLOCK / 2);
                        prop_assert_eq!(pair[1].logic_offset % BLOCK, 0);
                    }
                    if let Some(old) = change.before.values().filter_map(|at| at.mapping_detail.as_ref())
                        .filter(|d| before.get(queue) == Some(&d.bname))
                        .find_map(|d| d.hosted_queues.get(queue))
                    {
                        prop_assert_eq!(&items[..old.len()], &old[..]);
                    }
                }
                at = change.after;
            }
        }

        /// The fewest moves: as many as brokers have too much.
        #[test]
        fn sharing_moves_as_little_as_can_be(
            led in proptest::collection::vec(0_usize..4, 1..20),
            targets in 1_usize..5,
        ) {
            let all = ["a", "b", "c", "d"];
            let before: BTreeMap<i32, String> = (0..).zip(led.iter().map(|l| all[*l].to_owned())).collect();
            let targets = names(targets);
            let after = share(&before, &targets);
            prop_assert_eq!(after.len(), before.len());
            let moves = before.iter().filter(|(queue, leader)| after[queue] != **leader).count();
            // Any even sharing gives at most `each + 1` to some and `each` to the rest.
            let (each, more) = (before.len() / targets.len(), before.len() % targets.len());
            let mut have: Vec<usize> = targets.iter()
                .map(|t| before.values().filter(|l| *l == t).count()).collect();
            have.sort_unstable_by(|a, b| b.cmp(a));
            let stay: usize = have.iter().enumerate()
                .map(|(at, n)| (*n).min(each + usize::from(at < more))).sum();
            prop_assert_eq!(moves, before.len() - stay);
        }
    }
}
