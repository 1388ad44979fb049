//! Committed positions of a group: read, planned, moved, read back.
//!
//! A move is one queue's new offset. Which request carries it depends on the broker and on who is online; see
//! [`Method`]. Nothing outside a queue's range is ever sent.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use super::admin::cluster::BrokerAt;
use super::admin::message::QueueAt;
use super::error::{Error, Server};
use super::lag::GroupKind;
use super::snapshot::GroupLag;
use super::{Client, Deadline};
use crate::protocol::body::{Connection, ConsumeType, MessageModel, SubscriptionData};
use crate::protocol::codes;
use crate::protocol::requests::{InvokeBrokerToResetOffset, QueryConsumerOffset, UpdateConsumerOffset};

/// Where a group stands in one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Group name.
    pub group: String,
    /// Topic name.
    pub topic: String,
    /// The queue's master.
    pub broker: BrokerAt,
    /// Queue number.
    pub queue: i32,
    /// First offset still there.
    pub min: i64,
    /// Exclusive end.
    pub max: i64,
    /// Next message the group reads; `None` when it never committed.
    pub current: Option<i64>,
}

impl Position {
    /// `broker-a/3`.
    pub fn place(&self) -> String {
        format!("{}/{}", self.broker.id.name, self.queue)
    }
}

/// Where a group shall go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Goal {
    /// The first message that is still there.
    Earliest,
    /// The end itself.
    Latest,
    /// The first message stored at or after a time, epoch ms.
    Time(i64),
    /// That offset in every queue.
    Offset(i64),
    /// That many messages forward, or back when negative; never past an end.
    Shift(i64),
    /// These offsets by broker name and queue, and nothing else.
    Exact(BTreeMap<(String, i32), i64>),
    /// Another goal in these queues, by broker name and number, and nothing else.
    Queues(BTreeSet<(String, i32)>, Box<Self>),
}

impl Goal {
    /// The time that request 222 takes for this goal (`-1` is the end); `None` for single offsets.
    fn timestamp(&self) -> Option<i64> {
        match self {
            Self::Earliest => Some(0),
            Self::Latest => Some(-1),
            Self::Time(ms) => Some(*ms),
            // Clients that are told a time go there in every queue.
            Self::Offset(_) | Self::Shift(_) | Self::Exact(_) | Self::Queues(..) => None,
        }
    }

    /// Queues that it names; none stands for all of a topic.
    fn queues(&self) -> Vec<&(String, i32)> {
        match self {
            Self::Exact(offsets) => offsets.keys().collect(),
            Self::Queues(queues, _) => queues.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The time that has to be looked up in a queue.
    fn time(&self) -> Option<i64> {
        match self {
            Self::Time(ms) => Some(*ms),
            Self::Queues(_, goal) => goal.time(),
            _ => None,
        }
    }
}

/// One queue's new offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Move {
    /// Where the group stands.
    pub at: Position,
    /// Where it goes.
    pub target: i64,
    /// Store time of the message it goes to, epoch ms; `None` at the end.
    pub target_ms: Option<i64>,
}

impl Move {
    /// How far it goes; negative is back.
    pub fn delta(&self) -> Option<i64> {
        self.at.current.map(|at| self.target.saturating_sub(at))
    }

    /// Messages consumed again: those between target and the present position that are there.
    pub fn replays(&self) -> i64 {
        let current = self.at.current.unwrap_or(self.target).min(self.at.max);
        current.saturating_sub(self.target).max(0)
    }

    /// Messages never consumed: those between the present position and the target that are there.
    pub fn skips(&self) -> i64 {
        let current = self.at.current.unwrap_or(self.target).max(self.at.min);
        self.target.saturating_sub(current).max(0)
    }

    /// Messages behind the target of a group that has no position in the queue. Where it would have begun, its clients
    /// decide, so that nobody knows what of these is replayed or skipped.
    pub fn unread_of_none(&self) -> Option<i64> {
        match self.at.current {
            Some(_) => None,
            None => Some(self.at.max.saturating_sub(self.target).max(0)),
        }
    }

    /// True when it changes nothing.
    pub fn is_still(&self) -> bool {
        self.at.current == Some(self.target)
    }
}

/// An offset outside of its queue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GoalError {
    /// Outside of the queue.
    #[error("offset {offset} is outside of {place}, which has {min} to {max}")]
    Range {
        /// `broker-a/3`.
        place: String,
        /// What was asked for.
        offset: i64,
        /// First offset there.
        min: i64,
        /// The end.
        max: i64,
    },
    /// A named queue that the topic does not have.
    #[error("there is no queue {0} in the topic")]
    NoQueue(String),
}

/// The offset of a goal in one queue, where no search by time is needed. `Ok(None)` leaves the queue alone.
fn fixed(goal: &Goal, at: &Position) -> Result<Option<i64>, GoalError> {
    let checked = |offset: i64| {
        if (at.min..=at.max).contains(&offset) {
            Ok(Some(offset))
        } else {
            Err(GoalError::Range {
                place: at.place(),
                offset,
                min: at.min,
                max: at.max,
            })
        }
    };
    match goal {
        Goal::Earliest => Ok(Some(at.min)),
        Goal::Latest | Goal::Time(_) => Ok(Some(at.max)),
        Goal::Offset(offset) => checked(*offset),
        Goal::Shift(by) => Ok(at
            .current
            .map(|current| current.saturating_add(*by).clamp(at.min, at.max))),
        Goal::Exact(offsets) => match offsets.get(&(at.broker.id.name.clone(), at.queue)) {
            Some(offset) => checked(*offset),
            None => Ok(None),
        },
        Goal::Queues(queues, goal) if queues.contains(&(at.broker.id.name.clone(), at.queue)) => {
            fixed(goal, at)
        }
        Goal::Queues(..) => Ok(None),
    }
}

/// The request that moves a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// 222 with queue and offset: the broker keeps the reset until the queue's next pull took it.
    Server,
    /// 15: a commit. Right for a group without clients; running clients may commit over it.
    Commit,
    /// 222 with a time: the broker tells the clients, which go there.
    Push {
        /// Time to go to, epoch ms; -1 for the end.
        timestamp: i64,
    },
}

impl Method {
    /// For listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server-side reset",
            Self::Commit => "commit",
            Self::Push { .. } => "push to clients",
        }
    }
}

/// Who consumes with a group, over all asked brokers.
#[derive(Debug, Clone, Default)]
pub struct Audience {
    /// Client connections, each client once.
    pub clients: BTreeMap<String, Connection>,
    /// Subscriptions as the last broker told them.
    pub subscriptions: BTreeMap<String, SubscriptionData>,
    /// Some broker says that it is a broadcasting group.
    pub broadcasting: bool,
    /// Some broker says that it pops.
    pub popping: bool,
}

impl Audience {
    /// Whether and how the group consumes.
    pub fn kind(&self) -> GroupKind {
        match (self.clients.is_empty(), self.broadcasting) {
            (true, _) => GroupKind::Offline,
            (_, true) => GroupKind::Broadcasting,
            _ => GroupKind::Clustering,
        }
    }
}

/// How a move on one broker is carried out; `None` when this broker cannot do it (pop clients need its help).
pub fn method(goal: &Goal, server_side: bool, audience: &Audience) -> Option<Method> {
    if server_side {
        return Some(Method::Server);
    }
    if audience.popping {
        return None;
    }
    if audience.clients.is_empty() {
        return Some(Method::Commit);
    }
    Some(
        goal.timestamp()
            .map_or(Method::Commit, |timestamp| Method::Push { timestamp }),
    )
}

impl Client {
    /// Positions of a group in every readable queue of a topic on `brokers`; brokers without the topic are left out. A static
    /// topic is an error.
    pub async fn positions(
        &self,
        brokers: &[BrokerAt],
        group: &str,
        topic: &str,
    ) -> Result<Vec<Position>, Error> {
        if let Some(route) = self.kept_route(topic).await?
            && self.is_static_now(topic, &route).await?
        {
            return Err(Error::Static(topic.to_owned()));
        }
        let ranges = self
            .each(brokers.to_vec(), |broker| async move {
                let (server, deadline) = (broker.server(), self.deadline());
                let Some((config, _)) = self.topic_config(&broker, topic, deadline).await? else {
                    return Ok(Vec::new());
                };
                let ranges = self
                    .queue_ranges(&server, topic, 0..config.read_queue_nums)
                    .await?;
                let found: Vec<Position> = ranges
                    .into_iter()
                    .map(|(queue, (min, max))| Position {
                        group: group.to_owned(),
                        topic: topic.to_owned(),
                        broker: broker.clone(),
                        queue,
                        min,
                        max,
                        current: None,
                    })
                    .collect();
                Ok::<_, Error>(found)
            })
            .await;
        let ranges: Vec<Vec<Position>> = ranges.into_iter().collect::<Result<_, Error>>()?;
        let mut positions = self
            .each(
                ranges.into_iter().flatten().collect(),
                |at: Position| async move {
                    // A limit of its own: there may be thousands of queues.
                    let (server, deadline) = (at.broker.server(), self.deadline());
                    let current = self.committed(&server, group, topic, at.queue, deadline).await?;
                    Ok::<_, Error>(Position { current, ..at })
                },
            )
            .await
            .into_iter()
            .collect::<Result<Vec<Position>, Error>>()?;
        positions.sort_by(|a, b| (&a.broker, a.queue).cmp(&(&b.broker, b.queue)));
        Ok(positions)
    }

    /// Rows for those queues of a topic with messages that an answer of [`Client::group_lag`] does not name. No row is no
    /// proof: a group that has no position may have everything to read.
    pub(crate) async fn untold_rows(
        &self,
        (name, broker): (&str, &Server),
        (group, topic): (&str, &str),
        told: &[GroupLag],
        ranges: &BTreeMap<i32, (i64, i64)>,
    ) -> Result<Vec<GroupLag>, Error> {
        let is_told = |queue: i32| told.iter().any(|row| row.topic == topic && row.queue == queue);
        let untold = ranges.iter().filter(|(queue, _)| !is_told(**queue));
        let rows = self
            .each(untold.collect(), |(queue, (min, max))| async move {
                let committed = if min < max {
                    self.committed(broker, group, topic, *queue, self.deadline())
                        .await?
                } else {
                    None
                };
                Ok::<_, Error>(GroupLag {
                    group: group.to_owned(),
                    topic: topic.to_owned(),
                    broker: name.to_owned(),
                    queue: *queue,
                    max: *max,
                    committed,
                    ..GroupLag::default()
                })
            })
            .await;
        rows.into_iter().collect()
    }

    /// First and end offset of some of a topic's queues on one broker. Brokers up to 5.2 tell those of written queues
    /// only (202 goes by the number of write queues there); the others are asked for one by one.
    pub(crate) async fn queue_ranges(
        &self,
        broker: &Server,
        topic: &str,
        queues: Range<i32>,
    ) -> Result<BTreeMap<i32, (i64, i64)>, Error> {
        let stats = self.topic_stats(broker, topic, self.deadline()).await?;
        let mut ranges: BTreeMap<i32, (i64, i64)> = stats
            .offset_table
            .into_iter()
            .filter(|(queue, _)| queues.contains(&queue.queue_id))
            .map(|(queue, at)| {
                let min = at.min_offset.max(0);
                (queue.queue_id, (min, at.max_offset.max(min)))
            })
            .collect();
        let untold = untold(&ranges, queues);
        let asked = self
            .each(untold, |queue| async move {
                let at = QueueAt {
                    broker: broker.clone(),
                    queue,
                };
                let min = self.min_offset(&at, topic, self.deadline()).await?.max(0);
                let max = self.max_offset(&at, topic, self.deadline()).await?;
                Ok::<_, Error>((queue, (min, max.max(min))))
            })
            .await;
        for one in asked {
            let (queue, range) = one?;
            ranges.insert(queue, range);
        }
        Ok(ranges)
    }

    /// Committed offset of a group in one queue; `None` when it never committed.
    pub async fn committed(
        &self,
        broker: &Server,
        group: &str,
        topic: &str,
        queue: i32,
        deadline: Deadline,
    ) -> Result<Option<i64>, Error> {
        let header = QueryConsumerOffset {
            consumer_group: group.to_owned(),
            topic: topic.to_owned(),
            queue_id: queue,
            set_zero_if_not_found: Some(false),
            bname: None,
        };
        match self.call(broker, &header, (), deadline).await {
            Ok((reply, ())) => Ok(Some(reply.offset)),
            Err(e) if e.remote_code() == Some(codes::QUERY_NOT_FOUND) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The moves that bring `positions` to a goal, queues that stay included, with the store times of the targets.
    pub async fn moves(&self, positions: &[Position], goal: &Goal) -> Result<Vec<Move>, MoveError> {
        for (broker, queue) in goal.queues() {
            let known = |at: &Position| at.broker.id.name == *broker && at.queue == *queue;
            if !positions.iter().any(known) {
                return Err(GoalError::NoQueue(format!("{broker}/{queue}")).into());
            }
        }
        let found = self
            .each(positions.to_vec(), |at| async move {
                let deadline = self.deadline();
                let Some(mut target) = fixed(goal, &at)? else {
                    return Ok(None);
                };
                let queue = QueueAt {
                    broker: at.broker.server(),
                    queue: at.queue,
                };
                if let Some(ms) = goal.time() {
                    let offset = self.offset_at(&queue, &at.topic, ms, deadline).await?;
                    target = offset.clamp(at.min, at.max);
                }
                let target_ms = if target < at.max {
                    // Only shown: a place that cannot be read is no reason not to go there.
                    self.first_stored(&queue.broker, &at.topic, at.queue, target, deadline)
                        .await
                        .unwrap_or(None)
                } else {
                    None
                };
                Ok::<_, MoveError>(Some(Move {
                    at,
                    target,
                    target_ms,
                }))
            })
            .await;
        let found: Vec<Option<Move>> = found.into_iter().collect::<Result<_, _>>()?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Who consumes with a group, asked at every broker: a client behind one broker is unknown to the others.
    pub async fn audience(&self, brokers: &[BrokerAt], group: &str) -> Result<Audience, Error> {
        let answers = self
            .each(brokers.to_vec(), |broker| async move {
                self.group_clients(&broker.server(), group, self.deadline()).await
            })
            .await;
        let mut audience = Audience::default();
        for answer in answers {
            let Some(connection) = answer? else { continue };
            audience.broadcasting |= connection.message_model == MessageModel::Broadcasting;
            audience.popping |= connection.consume_type == ConsumeType::Pop;
            audience.subscriptions.extend(connection.subscription_table);
            for client in connection.connection_set {
                audience.clients.entry(client.client_id.clone()).or_insert(client);
            }
        }
        Ok(audience)
    }

    /// True when a broker keeps resets until the next pull. One that does not say, does not.
    pub async fn resets_on_server(&self, broker: &Server) -> Result<bool, Error> {
        match self.broker_config(broker, self.deadline()).await {
            Ok(config) => Ok(config.get("useServerSideResetOffset").map(String::as_str) == Some("true")),
            Err(e) if e.remote_code().is_some() => Ok(false),
            Err(e) => Err(e),
        }
    }

    /// Carries out moves of one group and topic on one broker; one result a move. Where one request moves them all,
    /// its failure is that of each.
    pub async fn carry_out_moves(&self, moves: &[&Move], method: Method) -> Vec<Result<(), Arc<Error>>> {
        if let Method::Push { timestamp } = method {
            let Some(first) = moves.first() else {
                return Vec::new();
            };
            let header = InvokeBrokerToResetOffset {
                topic: first.at.topic.clone(),
                group: first.at.group.clone(),
                timestamp,
                is_force: true,
                ..InvokeBrokerToResetOffset::default()
            };
            let done = self
                .call(&first.at.broker.server(), &header, (), self.deadline())
                .await
                .map(drop)
                .map_err(Arc::new);
            return vec![done; moves.len()];
        }
        self.each(moves.to_vec(), |one| async move {
            let (at, server, deadline) = (&one.at, one.at.broker.server(), self.deadline());
            let done = if method == Method::Server {
                let header = InvokeBrokerToResetOffset {
                    topic: at.topic.clone(),
                    group: at.group.clone(),
                    queue_id: at.queue,
                    offset: Some(one.target),
                    is_force: true,
                    ..InvokeBrokerToResetOffset::default()
                };
                self.call(&server, &header, (), deadline).await.map(drop)
            } else {
                let header = UpdateConsumerOffset {
                    consumer_group: at.group.clone(),
                    topic: at.topic.clone(),
                    queue_id: Some(at.queue),
                    commit_offset: Some(one.target),
                    bname: None,
                };
                self.call(&server, &header, (), deadline).await.map(drop)
            };
            done.map_err(Arc::new)
        })
        .await
    }
}

/// Messages of a row's queue that the group has not read. Those that are deleted already are nobody's backlog.
pub(crate) fn unread(row: &GroupLag, ranges: &BTreeMap<i32, (i64, i64)>) -> i64 {
    let (min, _) = ranges.get(&row.queue).copied().unwrap_or((0, row.max));
    let read = row.committed.unwrap_or(0).max(min);
    row.max.saturating_sub(read).max(0)
}

/// Queues that an answer left out.
fn untold(told: &BTreeMap<i32, (i64, i64)>, queues: Range<i32>) -> Vec<i32> {
    queues.filter(|queue| !told.contains_key(queue)).collect()
}

/// Why no plan of moves came about.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// The goal does not fit a queue.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// A server did not answer as needed.
    #[error(transparent)]
    Call(#[from] Error),
}

/// What a committed offset says after a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// As wanted, or moved on from there.
    Good,
    /// The old position, or one that consuming from the target cannot reach.
    Other(i64),
}

/// Whether a read-back proves a move whose answer was lost: only what the group would not have come to by itself.
pub fn shows(one: &Move, seen: Option<i64>) -> bool {
    seen == Some(one.target) || went_back(one, seen)
}

/// True when a read-back lies between the target and the position before: the group went back there.
pub fn went_back(one: &Move, seen: Option<i64>) -> bool {
    seen.is_some_and(|at| at >= one.target && one.at.current.is_some_and(|before| at < before))
}

/// Judges a read-back. A group that consumes moves on from the target, and where the broker keeps the reset nothing
/// else can have happened. Elsewhere a group that was to go back and stands at its old position or behind it may
/// never have listened: that it did is only known when some look saw it in between (`back`). After a commit not even
/// that: the commit itself shows there, until a running client commits over it.
pub fn judge(one: &Move, method: Method, seen: Option<i64>, back: bool) -> Seen {
    let Some(at) = seen else { return Seen::Other(-1) };
    let backward = one.at.current.is_some_and(|before| before > one.target);
    if shows(one, seen) {
        return Seen::Good;
    }
    let proven = match method {
        Method::Server => true,
        Method::Push { .. } => !backward || back,
        Method::Commit => !backward,
    };
    if at > one.target && proven {
        Seen::Good
    } else {
        Seen::Other(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::snapshot::BrokerId;

    fn at(current: Option<i64>) -> Position {
        Position {
            group: "G".into(),
            topic: "T".into(),
            broker: BrokerAt {
                id: BrokerId {
                    cluster: "c".into(),
                    name: "b".into(),
                    id: 0,
                },
                addr: "127.0.0.1:1".into(),
            },
            queue: 3,
            min: 10,
            max: 100,
            current,
        }
    }

    fn to(current: Option<i64>, target: i64) -> Move {
        Move {
            at: at(current),
            target,
            target_ms: None,
        }
    }

    /// A group that consumes passes the target by itself.
    #[test]
    fn a_lost_move_is_shown_by_what_only_the_move_explains() {
        let back = to(Some(50), 20);
        assert!(shows(&back, Some(20)) && shows(&back, Some(35)));
        assert!(!shows(&back, Some(50)) && !shows(&back, Some(60)) && !shows(&back, None));
        let ahead = to(Some(50), 90);
        assert!(shows(&ahead, Some(90)));
        assert!(!shows(&ahead, Some(95)) && !shows(&ahead, Some(50)));
    }

    /// 5.1 answers 202 for queues 0 to 7 of a topic with 8 write and 16 read queues.
    #[test]
    fn queues_that_an_old_broker_leaves_out_are_known() {
        let told = (0..8).map(|queue| (queue, (0, 5))).collect();
        assert_eq!(untold(&told, 0..16), (8..16).collect::<Vec<_>>());
        assert!(untold(&told, 0..4).is_empty());
    }

    #[test]
    fn an_offset_outside_of_a_queue_is_refused_and_a_shift_stops_at_the_ends() {
        let place = at(Some(50));
        assert_eq!(fixed(&Goal::Offset(10), &place), Ok(Some(10)));
        assert_eq!(fixed(&Goal::Offset(100), &place), Ok(Some(100)));
        assert!(matches!(
            fixed(&Goal::Offset(0), &place),
            Err(GoalError::Range { min: 10, .. })
        ));
        assert!(fixed(&Goal::Offset(101), &place).is_err());
        assert_eq!(fixed(&Goal::Shift(-1000), &place), Ok(Some(10)));
        assert_eq!(fixed(&Goal::Shift(7), &place), Ok(Some(57)));
        assert_eq!(fixed(&Goal::Shift(7), &at(None)), Ok(None));
        // 0 is an offset like any other.
        let fresh = Position {
            min: 0,
            ..at(Some(5))
        };
        assert_eq!(fixed(&Goal::Offset(0), &fresh), Ok(Some(0)));
        let exact = Goal::Exact([(("b".to_owned(), 3), 20)].into());
        assert_eq!(fixed(&exact, &place), Ok(Some(20)));
        let other = Position {
            queue: 4,
            ..place.clone()
        };
        assert_eq!(fixed(&exact, &other), Ok(None));
        // Another queue is left alone, and its range does not matter.
        let one = Goal::Queues([("b".to_owned(), 3)].into(), Box::new(Goal::Offset(20)));
        assert_eq!(fixed(&one, &place), Ok(Some(20)));
        let short = Position { max: 15, ..other };
        assert_eq!(fixed(&one, &short), Ok(None));
    }

    #[test]
    fn what_is_replayed_and_skipped_are_messages_that_are_there() {
        assert_eq!((to(Some(50), 20).replays(), to(Some(50), 20).skips()), (30, 0));
        assert_eq!((to(Some(50), 90).replays(), to(Some(50), 90).skips()), (0, 40));
        // The group stood before the first message, or behind the end.
        assert_eq!(to(Some(2), 90).skips(), 80);
        assert_eq!(to(Some(150), 90).replays(), 10);
        assert_eq!((to(None, 90).replays(), to(None, 90).skips()), (0, 0));
        assert_eq!(to(None, 90).delta(), None);
    }

    #[test]
    fn the_method_follows_from_the_broker_and_the_clients() {
        let nobody = Audience::default();
        let mut online = Audience::default();
        online.clients.insert("c".into(), Connection::default());
        let pop = Audience {
            popping: true,
            ..online.clone()
        };
        assert_eq!(method(&Goal::Offset(1), true, &online), Some(Method::Server));
        assert_eq!(method(&Goal::Latest, true, &pop), Some(Method::Server));
        assert_eq!(method(&Goal::Latest, false, &nobody), Some(Method::Commit));
        assert_eq!(
            method(&Goal::Latest, false, &online),
            Some(Method::Push { timestamp: -1 })
        );
        assert_eq!(method(&Goal::Shift(-1), false, &online), Some(Method::Commit));
        // A push would move every queue of the topic.
        let one = Goal::Queues([("b".to_owned(), 3)].into(), Box::new(Goal::Time(5)));
        assert_eq!(method(&one, false, &online), Some(Method::Commit));
        assert_eq!(method(&one, true, &online), Some(Method::Server));
        assert_eq!(method(&Goal::Latest, false, &pop), None);
    }

    #[test]
    fn an_old_position_that_comes_back_is_seen() {
        let back = to(Some(50), 20);
        let push = Method::Push { timestamp: 0 };
        assert_eq!(judge(&back, Method::Commit, Some(20), false), Seen::Good);
        assert_eq!(judge(&back, Method::Commit, Some(50), true), Seen::Other(50));
        assert_eq!(judge(&back, Method::Commit, Some(33), false), Seen::Good);
        assert_eq!(judge(&back, push, Some(50), false), Seen::Other(50));
        // It consumes and went on from its old position: no reset happened.
        assert_eq!(judge(&back, push, Some(53), false), Seen::Other(53));
        assert_eq!(judge(&back, Method::Commit, Some(53), true), Seen::Other(53));
        // An earlier look saw it on its way.
        assert!(went_back(&back, Some(20)) && went_back(&back, Some(49)));
        assert!(!went_back(&back, Some(50)) && !went_back(&back, Some(19)));
        assert_eq!(judge(&back, push, Some(53), true), Seen::Good);
        // The broker keeps the reset: the group has consumed its way back.
        assert_eq!(judge(&back, Method::Server, Some(50), false), Seen::Good);
        // Caught up before, and still there: the client did not listen.
        let caught_up = to(Some(100), 20);
        assert_eq!(judge(&caught_up, push, Some(100), false), Seen::Other(100));
        let ahead = to(Some(20), 50);
        assert_eq!(judge(&ahead, Method::Server, Some(20), false), Seen::Other(20));
        assert_eq!(judge(&ahead, Method::Server, Some(51), false), Seen::Good);
        assert_eq!(judge(&ahead, push, Some(51), false), Seen::Good);
        assert_eq!(judge(&to(None, 20), Method::Commit, None, false), Seen::Other(-1));
    }
}
