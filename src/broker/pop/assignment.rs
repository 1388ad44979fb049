//! Who consumes which queues, decided by the broker (400), and how: by pull or by pop (401, 402,
//! config/messageRequestMode.json).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use dashmap::DashMap;

use crate::broker::Broker;
use crate::broker::tables::{self, TableFile};
use crate::protocol::body::{
    MessageModel, MessageQueueAssignment, MessageRequestMode, MessageRequestModes, QueryAssignmentAnswer,
    QueryAssignmentRequest, SetMessageRequestModeRequest, TopicRouteData,
};
use crate::protocol::model::{MessageQueue, RETRY_PREFIX};
use crate::protocol::requests::{GetAllMessageRequestMode, QueryAssignment, SetMessageRequestMode};
use crate::protocol::{Json, codes};
use crate::remoting::{Answer, Handled, Peer, Refusal};

/// A route is asked for again after this long.
const ROUTE_KEPT: Duration = Duration::from_secs(10);
/// Most routes kept.
const MOST_ROUTES: usize = 10_000;
/// Most queues of a route that are handed out.
const MOST_QUEUES: i32 = crate::broker::config::MAX_QUEUES;

/// How groups consume topics.
#[derive(Debug)]
pub struct Modes {
    /// Held for map operations alone.
    table: Mutex<MessageRequestModes>,
    file: TableFile,
}

impl Modes {
    /// Loads the table at `path`.
    pub fn load(path: PathBuf) -> Result<Self, tables::Error> {
        let file = TableFile::new(path);
        let table = file.load()?.unwrap_or_default();
        Ok(Self {
            table: Mutex::new(table),
            file,
        })
    }

    fn table(&self) -> std::sync::MutexGuard<'_, MessageRequestModes> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, topic: &str, group: &str) -> Option<SetMessageRequestModeRequest> {
        let table = self.table();
        table.message_request_mode_map.get(topic)?.get(group).cloned()
    }

    fn set(&self, mode: SetMessageRequestModeRequest) {
        self.table()
            .message_request_mode_map
            .entry(mode.topic.clone())
            .or_default()
            .insert(mode.consumer_group.clone(), mode);
        self.file.mark();
    }

    /// True when the file is behind.
    pub fn is_behind(&self) -> bool {
        self.file.is_marked()
    }

    /// Writes the file if it is behind. Blocks on the disk.
    pub fn save(&self) -> Result<(), tables::Error> {
        self.file.save_if_marked(|| self.table().clone())
    }
}

/// Queues of topics as the name servers told them.
#[derive(Debug, Default)]
pub struct Routes {
    known: DashMap<String, (Instant, Arc<BTreeSet<MessageQueue>>)>,
}

/// 400: the queues of one client. Without a list the client keeps what it has.
pub async fn query_assignment(
    broker: &Arc<Broker>,
    _: &Peer,
    _: QueryAssignment,
    body: Json<QueryAssignmentRequest>,
) -> Handled<QueryAssignment> {
    let request = body.value;
    let config = broker.config();
    let set = broker.pop.modes.get(&request.topic, &request.consumer_group);
    let (mode, share) = match set {
        Some(set) => (set.mode, set.pop_share_queue_num),
        None if request.topic.starts_with(RETRY_PREFIX) => (MessageRequestMode::Pull, 0),
        None => (
            MessageRequestMode::from_text(&config.default_message_request_mode).unwrap_or_default(),
            config.default_pop_share_queue_num,
        ),
    };
    drop(config);
    let queues = broker.assign(&request, mode, share).await;
    let assignment = |message_queue| MessageQueueAssignment { message_queue, mode };
    let body = QueryAssignmentAnswer {
        message_queue_assignments: queues.map(|queues| queues.into_iter().map(assignment).collect()),
    };
    Ok(Answer::ok((), Json::new(body)))
}

/// 401
pub async fn set_mode(
    broker: &Arc<Broker>,
    _: &Peer,
    _: SetMessageRequestMode,
    body: Json<SetMessageRequestModeRequest>,
) -> Handled<SetMessageRequestMode> {
    let wish = body.value;
    if wish.topic.starts_with(RETRY_PREFIX) {
        let remark = "retry topic is not allowed to set mode";
        return Err(Refusal::new(codes::NO_PERMISSION, remark));
    }
    if !broker.topics.contains(&wish.topic) {
        let remark = format!("topic[{}] not exist", wish.topic);
        return Err(Refusal::new(codes::TOPIC_NOT_EXIST, remark));
    }
    if broker
        .groups
        .find(&wish.consumer_group, &broker.config())
        .is_none()
    {
        let remark = "subscription group does not exist";
        return Err(Refusal::new(codes::SUBSCRIPTION_GROUP_NOT_EXIST, remark));
    }
    tracing::info!(topic = %wish.topic, group = %wish.consumer_group, mode = %wish.mode,
        share = wish.pop_share_queue_num, "request mode changed by an admin");
    broker.pop.modes.set(wish);
    let owner = broker.clone();
    let saved = tokio::task::spawn_blocking(move || owner.pop.modes.save()).await;
    match saved {
        Ok(Ok(())) => Ok(Answer::ok((), ())),
        Ok(Err(e)) => Err(Refusal::new(codes::SYSTEM_ERROR, e.to_string())),
        Err(e) => Err(Refusal::new(
            codes::SYSTEM_ERROR,
            format!("saving was aborted: {e}"),
        )),
    }
}

/// 402
pub async fn modes(
    broker: &Arc<Broker>,
    _: &Peer,
    _: GetAllMessageRequestMode,
    (): (),
) -> Handled<GetAllMessageRequestMode> {
    let table = broker.pop.modes.table().clone();
    Ok(Answer::ok((), Json::new(table)))
}

impl Broker {
    /// A client's queues; `None` when they cannot be told.
    async fn assign(
        self: &Arc<Self>,
        request: &QueryAssignmentRequest,
        mode: MessageRequestMode,
        share: i32,
    ) -> Option<BTreeSet<MessageQueue>> {
        let all = self.queues_of(&request.topic).await?;
        if request.message_model == MessageModel::Broadcasting || !self.config().server_load_balancer_enable {
            return Some(BTreeSet::clone(&all));
        }
        let mut clients = self.clients.client_ids(&request.consumer_group);
        if clients.is_empty() {
            tracing::debug!(group = %request.consumer_group, topic = %request.topic, "no clients to share among");
            return None;
        }
        clients.sort_unstable();
        clients.dedup();
        let queues: Vec<MessageQueue> = all.iter().cloned().collect();
        let strategy = Strategy::from_name(&request.strategy_name)?;
        let shared = match mode {
            MessageRequestMode::Pull => strategy.allocate(&request.client_id, &queues, &clients),
            MessageRequestMode::Pop => share_for_pop(strategy, &request.client_id, &queues, &clients, share),
        };
        Some(shared.into_iter().collect())
    }

    /// The readable queues of a topic on all brokers; `None` when there is no such topic.
    async fn queues_of(self: &Arc<Self>, topic: &str) -> Option<Arc<BTreeSet<MessageQueue>>> {
        let known = &self.pop.routes.known;
        if let Some(found) = known.get(topic)
            && found.0.elapsed() < ROUTE_KEPT
        {
            return Some(found.1.clone());
        }
        let queues = match self.route_of(topic).await {
            Some(route) => queues_in(topic, &route),
            None => self.own_queues(topic)?,
        };
        let queues = Arc::new(queues);
        if known.len() >= MOST_ROUTES {
            known.retain(|_, (at, _)| at.elapsed() < ROUTE_KEPT);
        }
        if known.len() < MOST_ROUTES {
            known.insert(topic.to_owned(), (Instant::now(), queues.clone()));
        }
        Some(queues)
    }

    /// What this broker has of a topic, where no name server knows it.
    fn own_queues(&self, topic: &str) -> Option<BTreeSet<MessageQueue>> {
        let config = self.topics.get(topic).filter(|topic| topic.perm.readable())?;
        let queues = 0..config.read_queue_nums;
        Some(queues.map(|queue_id| self.queue(topic, queue_id)).collect())
    }
}

fn queues_in(topic: &str, route: &TopicRouteData) -> BTreeSet<MessageQueue> {
    let readable = route.queue_datas.iter().filter(|data| data.perm.readable());
    readable
        .flat_map(|data| {
            (0..data.read_queue_nums.min(MOST_QUEUES)).map(|queue_id| MessageQueue {
                broker_name: data.broker_name.clone(),
                queue_id,
                topic: topic.to_owned(),
            })
        })
        .collect()
}

/// How queues are shared among clients, by Java's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strategy {
    Avg,
    AvgByCircle,
}

impl Strategy {
    fn from_name(name: &str) -> Option<Self> {
        match name {
            "AVG" => Some(Self::Avg),
            "AVG_BY_CIRCLE" => Some(Self::AvgByCircle),
            _ => None,
        }
    }

    fn allocate(self, client: &str, queues: &[MessageQueue], clients: &[String]) -> Vec<MessageQueue> {
        let Some(index) = clients.iter().position(|c| c == client) else {
            return Vec::new();
        };
        let n = clients.len();
        match self {
            Self::AvgByCircle => queues.iter().skip(index).step_by(n).cloned().collect(),
            Self::Avg => {
                // The first clients get the queues that are over.
                let (each, over) = (queues.len() / n, queues.len() % n);
                let from = index * each + index.min(over);
                let len = each + usize::from(index < over);
                queues[from..from + len].to_vec()
            }
        }
    }
}

/// Java's `allocate4Pop`: every queue for everybody, or a client's own and those of its next neighbours.
fn share_for_pop(
    strategy: Strategy,
    client: &str,
    queues: &[MessageQueue],
    clients: &[String],
    share: i32,
) -> Vec<MessageQueue> {
    let neighbours = usize::try_from(share).unwrap_or(0);
    if neighbours == 0 || neighbours + 1 >= clients.len() {
        return queues
            .iter()
            .map(|queue| MessageQueue {
                queue_id: -1,
                ..queue.clone()
            })
            .collect();
    }
    let Some(index) = clients.iter().position(|c| c == client) else {
        return Vec::new();
    };
    if clients.len() > queues.len() {
        return queues
            .get(index % queues.len().max(1))
            .cloned()
            .into_iter()
            .collect();
    }
    (0..=neighbours)
        .flat_map(|n| strategy.allocate(&clients[(index + n) % clients.len()], queues, clients))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(n: i32) -> Vec<MessageQueue> {
        let queue = |queue_id| MessageQueue {
            broker_name: "b".into(),
            queue_id,
            topic: "t".into(),
        };
        (0..n).map(queue).collect()
    }

    fn clients(n: usize) -> Vec<String> {
        (0..n).map(|i| format!("c{i}")).collect()
    }

    fn numbers(queues: &[MessageQueue]) -> Vec<i32> {
        queues.iter().map(|queue| queue.queue_id).collect()
    }

    #[test]
    fn strategies_share_as_java_does() {
        // AllocateMessageQueueAveragely: 8 queues among 3 clients are 3 + 3 + 2; more clients than queues leave some idle.
        let (eight, three) = (queues(8), clients(3));
        let avg = |client: &str| numbers(&Strategy::Avg.allocate(client, &eight, &three));
        assert_eq!(
            [avg("c0"), avg("c1"), avg("c2")],
            [vec![0, 1, 2], vec![3, 4, 5], vec![6, 7]]
        );
        let idle = Strategy::Avg.allocate("c2", &queues(2), &three);
        assert!(idle.is_empty());
        let circle = |client: &str| numbers(&Strategy::AvgByCircle.allocate(client, &eight, &three));
        assert_eq!([circle("c0"), circle("c2")], [vec![0, 3, 6], vec![2, 5]]);
        assert!(avg("stranger").is_empty());
        assert_eq!(Strategy::from_name("MACHINE_ROOM"), None);
    }

    #[test]
    fn pop_clients_share_all_or_with_neighbours() {
        let (four, three) = (queues(4), clients(3));
        let share = |n, clients: &[String]| {
            let mut of = numbers(&share_for_pop(Strategy::Avg, "c2", &four, clients, n));
            of.sort_unstable();
            of.dedup();
            of
        };
        assert_eq!(share(0, &three), [-1]);
        assert_eq!(share(-1, &three), [-1]);
        assert_eq!(share(2, &three), [-1], "2 >= 3 - 1");
        // c2 has queue 3, its neighbour c0 has 0 and 1.
        assert_eq!(share(1, &three), [0, 1, 3]);
        assert_eq!(share(1, &clients(9)), [2], "more clients than queues: one each");
    }
}
