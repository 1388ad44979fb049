//! The mapping of a static topic, and what must hold of it.
//!
//! A static topic has a number of logical queues that stays, whatever brokers serve them. Each logical queue has a list of
//! generations: a physical queue of some broker, and the logical offset at which that one begins. The last one leads: it is
//! written. Every broker keeps the lists of the queues that it leads or led, and brokers believe the higher epoch.

use std::collections::{BTreeMap, BTreeSet};

use crate::protocol::body::{LogicQueueMappingItem, TopicConfigAndQueueMapping, TopicQueueMappingDetail};

/// The scope of a topic that is static over everything.
pub const GLOBAL: &str = "__global__";
/// What the name of the broker begins with that stands for all brokers of a static topic.
pub const LOGICAL_PREFIX: &str = "__syslo__";

/// A topic by broker name.
pub type ByBroker = BTreeMap<String, TopicConfigAndQueueMapping>;
/// Generations of a logical queue, the leader last.
pub type Items = Vec<LogicQueueMappingItem>;

/// The broker name under which clients see the queues of a static topic.
pub fn logical_broker(scope: &str) -> String {
    let scope = if scope == GLOBAL { &scope[2..] } else { scope };
    format!("{LOGICAL_PREFIX}{scope}")
}

/// True when the logical offset at which a generation begins is known.
pub const fn is_decided(item: &LogicQueueMappingItem) -> bool {
    item.logic_offset >= 0
}

/// The logical offset of a physical one; what lies before the generation's start is its start.
pub fn to_logical(item: &LogicQueueMappingItem, physical: i64) -> i64 {
    let inside = physical.saturating_sub(item.start_offset).max(0);
    item.logic_offset.saturating_add(inside)
}

/// Where a new generation may begin: at least half a block behind `offset`, on a whole block. What reaches the old leader
/// after it was asked for its end still has room below.
pub const fn round_up(offset: i64, block: i64) -> i64 {
    let blocks = offset / block;
    let more = if offset % block < block / 2 { 1 } else { 2 };
    blocks.saturating_add(more).saturating_mul(block)
}

/// Why a mapping is not in order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// An ordinary topic, or one that is static on other brokers only.
    #[error("{0} has the topic without a mapping")]
    NoMapping(String),
    /// A broker has the mapping of another one.
    #[error("{broker} has the mapping of {said}")]
    Broker {
        /// Who was asked.
        broker: String,
        /// Whose mapping it is.
        said: String,
    },
    /// A mapping that the broker itself calls dirty.
    #[error("the mapping of {0} is dirty")]
    Dirty(String),
    /// A mapping of another topic.
    #[error("{broker} has the mapping of topic {said}")]
    Topic {
        /// The broker.
        broker: String,
        /// The other topic.
        said: String,
    },
    /// Two brokers differ.
    #[error("{what} differs: {one} and {other}, the latter on {broker}")]
    Differs {
        /// `epoch`, `scope`, `number of queues`.
        what: &'static str,
        /// One value.
        one: String,
        /// Another.
        other: String,
        /// Who has the latter.
        broker: String,
    },
    /// Something in a list of generations.
    #[error("queue {queue}: {what}")]
    Items {
        /// Logical queue.
        queue: i32,
        /// What is wrong.
        what: &'static str,
    },
    /// Two leaders.
    #[error("queue {queue} is led by {one} and by {other}")]
    Twice {
        /// Logical queue.
        queue: i32,
        /// One leader.
        one: String,
        /// Another.
        other: String,
    },
    /// A queue without a leader, or one too many.
    #[error("the topic has {total} queues, of which {led} are led by a broker")]
    Count {
        /// By the brokers.
        total: i32,
        /// Led queues.
        led: usize,
    },
    /// No leader.
    #[error("queue {0} has no leader")]
    Unled(i32),
    /// Two logical queues with one physical.
    #[error("queues {one} and {other} share {broker}/{physical}")]
    Shared {
        /// One.
        one: i32,
        /// The other.
        other: i32,
        /// Broker of the physical queue.
        broker: String,
        /// The physical queue.
        physical: i32,
    },
    /// Consumers would not read all.
    #[error("{0} reads fewer queues than it writes")]
    Unread(String),
    /// A generation on a broker or in a physical queue that is not there.
    #[error("queue {queue} is on {broker}/{physical}, which is not there")]
    Nowhere {
        /// Logical queue.
        queue: i32,
        /// Broker.
        broker: String,
        /// Physical queue.
        physical: i32,
    },
}

/// A mapping in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// Version.
    pub epoch: i64,
    /// Scope, as the brokers have it.
    pub scope: String,
    /// Generations by logical queue: 0, 1, 2 and so on without a hole.
    pub queues: BTreeMap<i32, Items>,
}

impl Mapping {
    /// The broker that leads each queue.
    pub fn leaders(&self) -> BTreeMap<i32, String> {
        self.queues
            .iter()
            .filter_map(|(queue, items)| Some((*queue, items.last()?.bname.clone())))
            .collect()
    }
}

/// A list of generations is in order: nothing negative, generations rise, and so do logical offsets, whose ranges do not
/// touch.
pub fn check_items(queue: i32, items: &[LogicQueueMappingItem]) -> Result<(), Broken> {
    let broken = |what| Err(Broken::Items { queue, what });
    let mut later: Option<&LogicQueueMappingItem> = None;
    for item in items.iter().rev() {
        if item.start_offset < 0 || item.r#gen < 0 || item.queue_id < 0 {
            return broken("a field is negative");
        }
        if item.end_offset != -1 && item.end_offset < item.start_offset {
            return broken("an end offset is below its start");
        }
        if let Some(later) = later {
            if !is_decided(item) {
                return broken("an older generation has no logical offset");
            }
            if item.r#gen >= later.r#gen {
                return broken("generations do not rise");
            }
            let end = to_logical(item, item.end_offset.max(item.start_offset));
            if is_decided(later) && end >= later.logic_offset {
                return broken("logical offsets do not rise");
            }
        }
        later = Some(item);
    }
    Ok(())
}

/// Epoch, number of queues and scope, the same on each broker; `None` for no brokers.
fn heading(topic: &str, brokers: &ByBroker) -> Result<Option<(i64, i32, String)>, Broken> {
    let mut found: Option<(i64, i32, String)> = None;
    for (broker, at) in brokers {
        let Some(detail) = &at.mapping_detail else {
            return Err(Broken::NoMapping(broker.clone()));
        };
        if detail.bname != *broker {
            return Err(Broken::Broker {
                broker: broker.clone(),
                said: detail.bname.clone(),
            });
        }
        if detail.dirty {
            return Err(Broken::Dirty(broker.clone()));
        }
        if let Some(said) = [&detail.topic, &at.config.topic_name]
            .into_iter()
            .find(|t| *t != topic)
        {
            return Err(Broken::Topic {
                broker: broker.clone(),
                said: said.clone(),
            });
        }
        let scope = scope_of(detail);
        let Some((epoch, total, first_scope)) = &found else {
            found = Some((detail.epoch, detail.total_queues, scope.to_owned()));
            continue;
        };
        let differs = |what, one: String, other: String| {
            Err(Broken::Differs {
                what,
                one,
                other,
                broker: broker.clone(),
            })
        };
        if first_scope != scope {
            return differs("scope", first_scope.clone(), scope.to_owned());
        }
        if *epoch != detail.epoch {
            return differs("epoch", epoch.to_string(), detail.epoch.to_string());
        }
        if *total != detail.total_queues {
            return differs(
                "number of queues",
                total.to_string(),
                detail.total_queues.to_string(),
            );
        }
    }
    Ok(found)
}

/// The scope of a broker's mapping.
pub fn scope_of(detail: &TopicQueueMappingDetail) -> &str {
    detail.scope.as_deref().unwrap_or(GLOBAL)
}

/// The mappings of some brokers.
pub fn details(brokers: &ByBroker) -> impl Iterator<Item = &TopicQueueMappingDetail> + Clone {
    brokers.values().filter_map(|at| at.mapping_detail.as_ref())
}

/// The leader's list of each queue as far as it can be told: where two brokers claim a queue, the higher epoch is believed.
/// What offsets are made of goes by this, since it must be told in the middle of a change, too.
pub fn believed<'a>(
    details: impl IntoIterator<Item = &'a TopicQueueMappingDetail>,
) -> BTreeMap<i32, &'a Items> {
    let mut by_epoch: Vec<&TopicQueueMappingDetail> = details.into_iter().collect();
    by_epoch.sort_by_key(|detail| std::cmp::Reverse(detail.epoch));
    let mut queues = BTreeMap::new();
    for detail in by_epoch {
        for (queue, items) in &detail.hosted_queues {
            if items.last().is_some_and(|leader| leader.bname == detail.bname) {
                queues.entry(*queue).or_insert(items);
            }
        }
    }
    queues
}

/// A mapping of which everything holds that brokers and clients go by; `None` for no brokers.
pub fn check(topic: &str, brokers: &ByBroker) -> Result<Option<Mapping>, Broken> {
    let Some((epoch, total, scope)) = heading(topic, brokers)? else {
        return Ok(None);
    };
    let mut queues: BTreeMap<i32, Items> = BTreeMap::new();
    for detail in details(brokers) {
        for (queue, items) in &detail.hosted_queues {
            check_items(*queue, items)?;
            let Some(leader) = items.last() else {
                return Err(Broken::Items {
                    queue: *queue,
                    what: "it has no generation",
                });
            };
            if leader.bname != detail.bname {
                continue;
            }
            if let Some(other) = queues.insert(*queue, items.clone()) {
                return Err(Broken::Twice {
                    queue: *queue,
                    one: other.last().map(|l| l.bname.clone()).unwrap_or_default(),
                    other: detail.bname.clone(),
                });
            }
        }
    }
    if usize::try_from(total) != Ok(queues.len()) {
        return Err(Broken::Count {
            total,
            led: queues.len(),
        });
    }
    if let Some(queue) = (0..total).find(|queue| !queues.contains_key(queue)) {
        return Err(Broken::Unled(queue));
    }
    check_shared(&queues)?;
    check_physical(brokers)?;
    Ok(Some(Mapping { epoch, scope, queues }))
}

/// No physical queue has two logical ones.
fn check_shared(queues: &BTreeMap<i32, Items>) -> Result<(), Broken> {
    let mut taken: BTreeMap<(&str, i32), i32> = BTreeMap::new();
    for (queue, items) in queues {
        for item in items {
            if let Some(one) = taken.insert((&item.bname, item.queue_id), *queue) {
                return Err(Broken::Shared {
                    one,
                    other: *queue,
                    broker: item.bname.clone(),
                    physical: item.queue_id,
                });
            }
        }
    }
    Ok(())
}

/// Every generation that any broker knows begins with its physical queue, which is there.
fn check_physical(brokers: &ByBroker) -> Result<(), Broken> {
    for (broker, at) in brokers {
        if at.config.read_queue_nums < at.config.write_queue_nums {
            return Err(Broken::Unread(broker.clone()));
        }
        let hosted = at.mapping_detail.iter().flat_map(|d| &d.hosted_queues);
        for (queue, item) in hosted.flat_map(|(queue, items)| items.iter().map(move |i| (*queue, i))) {
            if item.start_offset != 0 {
                return Err(Broken::Items {
                    queue,
                    what: "a generation does not begin with its physical queue",
                });
            }
            let there = brokers
                .get(&item.bname)
                .is_some_and(|at| item.queue_id < at.config.write_queue_nums);
            if !there {
                return Err(Broken::Nowhere {
                    queue,
                    broker: item.bname.clone(),
                    physical: item.queue_id,
                });
            }
        }
    }
    Ok(())
}

/// Brokers that lead a queue.
pub fn leading(brokers: &ByBroker) -> BTreeSet<String> {
    believed(details(brokers))
        .values()
        .filter_map(|items| Some(items.last()?.bname.clone()))
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::protocol::body::TopicConfig;

    /// A generation: number, broker, physical queue, logical offset.
    pub fn item(r#gen: i32, broker: &str, queue_id: i32, logic_offset: i64) -> LogicQueueMappingItem {
        LogicQueueMappingItem {
            r#gen,
            bname: broker.into(),
            queue_id,
            logic_offset,
            ..LogicQueueMappingItem::default()
        }
    }

    /// Topic `T` on a broker: its physical queues, epoch, all queues, lists.
    pub fn on(
        broker: &str,
        physical: i32,
        epoch: i64,
        total: i32,
        lists: &[(i32, Items)],
    ) -> (String, TopicConfigAndQueueMapping) {
        let at = TopicConfigAndQueueMapping {
            config: TopicConfig {
                topic_name: "T".into(),
                read_queue_nums: physical,
                write_queue_nums: physical,
                ..TopicConfig::default()
            },
            mapping_detail: Some(TopicQueueMappingDetail {
                bname: broker.into(),
                epoch,
                topic: "T".into(),
                total_queues: total,
                scope: Some(GLOBAL.into()),
                hosted_queues: lists.iter().cloned().collect(),
                ..TopicQueueMappingDetail::default()
            }),
        };
        (broker.to_owned(), at)
    }

    /// By Java's rule: in the first half of a block one block more, else two.
    #[test]
    fn a_new_generation_begins_on_a_block_with_room_below() {
        for (offset, begins) in [
            (0, 10_000),
            (1, 10_000),
            (4_999, 10_000),
            (5_000, 20_000),
            (9_999, 20_000),
            (10_000, 20_000),
            (15_000, 30_000),
        ] {
            assert_eq!(round_up(offset, 10_000), begins, "{offset}");
        }
    }

    #[test]
    fn clients_see_one_broker_for_all() {
        assert_eq!(logical_broker("__global__"), "__syslo__global__");
        assert_eq!(logical_broker("east"), "__syslo__east");
    }

    #[test]
    fn what_is_out_of_order_is_named() {
        let good = || {
            ByBroker::from([
                on(
                    "a",
                    2,
                    5,
                    2,
                    &[(0, vec![item(0, "a", 0, 0)]), (1, vec![item(0, "a", 1, 0)])],
                ),
                on("b", 0, 5, 2, &[]),
            ])
        };
        let found = check("T", &good()).unwrap().unwrap();
        assert_eq!((found.epoch, found.queues.len()), (5, 2));
        type Spoil = fn(&mut ByBroker);
        let cases: [(&str, Spoil); 9] = [
            ("without a mapping", |m| {
                m.get_mut("b").unwrap().mapping_detail = None;
            }),
            ("the mapping of c", |m| {
                m.get_mut("b").unwrap().mapping_detail.as_mut().unwrap().bname = "c".into();
            }),
            ("epoch differs", |m| {
                m.get_mut("b").unwrap().mapping_detail.as_mut().unwrap().epoch = 6;
            }),
            ("number of queues differs", |m| {
                m.get_mut("b")
                    .unwrap()
                    .mapping_detail
                    .as_mut()
                    .unwrap()
                    .total_queues = 3;
            }),
            ("is dirty", |m| {
                m.get_mut("a").unwrap().mapping_detail.as_mut().unwrap().dirty = true;
            }),
            ("2 queues, of which 1", |m| {
                let detail = m.get_mut("a").unwrap().mapping_detail.as_mut().unwrap();
                detail.hosted_queues.remove(&1);
            }),
            ("share a/0", |m| {
                let detail = m.get_mut("a").unwrap().mapping_detail.as_mut().unwrap();
                detail.hosted_queues.insert(1, vec![item(0, "a", 0, 0)]);
            }),
            ("a/2, which is not there", |m| {
                let detail = m.get_mut("a").unwrap().mapping_detail.as_mut().unwrap();
                detail.hosted_queues.insert(1, vec![item(0, "a", 2, 0)]);
            }),
            ("reads fewer", |m| {
                m.get_mut("a").unwrap().config.read_queue_nums = 1;
            }),
        ];
        for (what, spoil) in cases {
            let mut brokers = good();
            spoil(&mut brokers);
            let said = check("T", &brokers).unwrap_err().to_string();
            assert!(said.contains(what), "{said}");
        }
    }

    /// The rules of Java's `checkLogicQueueMappingItemOffset`.
    #[test]
    fn generations_rise_and_do_not_overlap() {
        let ended = |end: i64| LogicQueueMappingItem {
            end_offset: end,
            ..item(0, "a", 0, 0)
        };
        for good in [
            vec![],
            vec![item(0, "a", 0, 0)],
            vec![item(0, "a", 0, 0), item(1, "b", 0, -1)],
            vec![
                item(0, "a", 0, 0),
                item(1, "b", 0, 10_000),
                item(2, "a", 1, 20_000),
            ],
            vec![ended(9_999), item(1, "b", 0, 10_000)],
        ] {
            assert_eq!(check_items(0, &good), Ok(()), "{good:?}");
        }
        for bad in [
            vec![item(0, "a", -1, 0)],
            vec![item(0, "a", 0, -1), item(1, "b", 0, 10_000)],
            vec![item(1, "a", 0, 0), item(1, "b", 0, 10_000)],
            vec![item(0, "a", 0, 10_000), item(1, "b", 0, 10_000)],
            vec![ended(10_000), item(1, "b", 0, 10_000)],
        ] {
            assert!(check_items(0, &bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_higher_epoch_is_believed() {
        let brokers = ByBroker::from([
            on("a", 1, 5, 1, &[(0, vec![item(0, "a", 0, 0)])]),
            on(
                "b",
                1,
                9,
                1,
                &[(0, vec![item(0, "a", 0, 0), item(1, "b", 0, 10_000)])],
            ),
        ]);
        let queues = believed(details(&brokers));
        assert_eq!(queues[&0].last().unwrap().bname, "b");
        assert_eq!(leading(&brokers), ["b".to_owned()].into());
        assert!(check("T", &brokers).is_err());
    }
}
