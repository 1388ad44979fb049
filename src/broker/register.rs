//! Registration at the name servers: the whole table at start and every period, changed topics at once, and the
//! farewell at stop. All name servers are told in parallel; one that hangs delays nobody else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::sync::Notify;

use super::Broker;
use crate::protocol::body::{KvTable, RegisterBrokerBody, TopicConfig, TopicConfigTable, TopicRouteData};
use crate::protocol::frame::MAX_FRAME;
use crate::protocol::model::{DataVersion, Perm};
use crate::protocol::requests::{GetRouteinfoByTopic, RegisterBroker, UnregisterBroker};
use crate::protocol::{Request, json};
use crate::remoting::CallError;
use crate::remoting::pool::{NoService, Pool};

/// How long a name server may take to answer a registration.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an admin's change waits for the name servers before it is answered.
const TOPIC_TIMEOUT: Duration = Duration::from_secs(3);
/// The second registration follows the first this soon, as in Java.
const FIRST_PERIOD: Duration = Duration::from_secs(10);
/// A body beyond this is split: well below the frame limit, which covers the header too.
const SPLIT_BYTES: usize = MAX_FRAME / 4;

/// Connections to the name servers and what they were told last.
#[derive(Debug)]
pub struct Registrar {
    pool: Pool<NoService>,
    wake: Notify,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Version of the table at the end of the last whole registration.
    told: Option<DataVersion>,
    /// Name servers whose last registration failed, so that a failure is logged once.
    failing: BTreeSet<String>,
    /// Name servers told last, to take leave of those that were dropped from the list.
    servers: Vec<String>,
}

impl Registrar {
    /// A registrar that has told nobody yet.
    pub fn new() -> Self {
        Self {
            pool: Pool::new(Arc::new(NoService), Duration::from_secs(3)),
            wake: Notify::new(),
            state: Mutex::default(),
        }
    }

    /// Asks for a whole registration now.
    pub fn wake(&self) {
        self.wake.notify_one();
    }

    /// Closes the connections.
    pub fn close(&self) {
        self.pool.close();
    }

    /// Calls a name server. One that does not answer in time loses its connection, as with Java: it may be gone
    /// without a word, and only a new dial resolves its host name again.
    async fn call<R: Request>(
        &self,
        server: &str,
        header: &R,
        body: R::Body,
        timeout: Duration,
    ) -> Result<(R::Reply, R::ReplyBody), CallError> {
        let until = Instant::now() + timeout;
        let Ok(dialled) = tokio::time::timeout(timeout, self.pool.peer(server)).await else {
            return Err(CallError::TimedOut {
                addr: server.to_owned(),
                after: timeout,
            });
        };
        let peer = dialled?;
        let left = until.saturating_duration_since(Instant::now());
        let answer = peer.call(header, body, left).await;
        if matches!(answer, Err(CallError::TimedOut { .. })) {
            peer.close();
        }
        answer
    }

    /// The route of a topic, from the first name server that knows it.
    async fn route(&self, servers: &[String], topic: &str) -> Option<TopicRouteData> {
        for server in servers {
            let header = GetRouteinfoByTopic {
                topic: topic.to_owned(),
                ..GetRouteinfoByTopic::default()
            };
            match self.call(server, &header, (), TOPIC_TIMEOUT).await {
                Ok(((), body)) => return Some(body.value),
                Err(e) => tracing::debug!(server, topic, error = %e, "no route from this name server"),
            }
        }
        None
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a result when it differs from the name server's last.
    fn note(&self, server: &str, result: &Result<Option<KvTable>, CallError>) {
        let mut state = self.state();
        match result {
            Ok(_) if state.failing.remove(server) => tracing::info!(server, "registered again"),
            Ok(_) => {}
            Err(e) => {
                if state.failing.insert(server.to_owned()) {
                    tracing::warn!(server, error = %e, "cannot register at the name server");
                }
            }
        }
    }
}

fn server_list(text: &str) -> Vec<String> {
    text.split([';', ','])
        .map(str::trim)
        .filter(|server| !server.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Splits a table into parts whose bodies fit a frame.
fn parts(topics: BTreeMap<String, TopicConfig>) -> Vec<BTreeMap<String, TopicConfig>> {
    let bytes: usize = topics.values().map(estimate).sum();
    let count = bytes / SPLIT_BYTES + 1;
    if count == 1 {
        return vec![topics];
    }
    let mut parts = vec![BTreeMap::new()];
    let mut filled = 0;
    for (name, topic) in topics {
        let size = estimate(&topic);
        if filled + size > SPLIT_BYTES && filled > 0 {
            parts.push(BTreeMap::new());
            filled = 0;
        }
        filled += size;
        if let Some(part) = parts.last_mut() {
            part.insert(name, topic);
        }
    }
    parts
}

/// Upper bound of a topic's share of the body: the fixed keys take about 150 bytes, the name stands twice.
fn estimate(topic: &TopicConfig) -> usize {
    let attributes: usize = topic
        .attributes
        .iter()
        .map(|(key, value)| key.len() + value.len() + 8)
        .sum();
    220 + 2 * topic.topic_name.len() + attributes
}

impl Broker {
    /// Registers the whole table, first at once, then every period and whenever something asks for it.
    pub(super) async fn keep_registered(self: Arc<Self>) {
        let mut first = true;
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                // What is to be told has changed: begin again, whoever hangs in the present round.
                () = self.registrar.wake.notified() => continue,
                () = self.register_all() => {}
            }
            let millis = self.config().register_name_server_period.clamp(10_000, 60_000);
            let period = if first {
                FIRST_PERIOD
            } else {
                Duration::from_millis(millis)
            };
            first = false;
            tokio::select! {
                () = self.stopping.cancelled() => return,
                () = tokio::time::sleep(period) => {}
                () = self.registrar.wake.notified() => {}
            }
        }
    }

    async fn register_all(&self) {
        let servers = server_list(&self.config().namesrv_addr);
        let dropped: Vec<String> = {
            let mut state = self.registrar.state();
            let old = std::mem::replace(&mut state.servers, servers.clone());
            old.into_iter().filter(|s| !servers.contains(s)).collect()
        };
        // A dropped server that hangs must not keep the others waiting.
        tokio::join!(
            self.take_leave(&dropped, TOPIC_TIMEOUT),
            self.register_table(&servers)
        );
    }

    async fn register_table(&self, servers: &[String]) {
        // The version is read before the table: a topic may be newer than its version, never older, or a change
        // could stay untold until the next one.
        let mut version = self.topics.version();
        let changed = self.registrar.state().told != Some(version);
        let mut ordered = KvTable::default();
        for (i, mut part) in parts(self.topics.map()).into_iter().enumerate() {
            // A name server takes changes only with a new version, so that each part of a split table needs its
            // own. Parts that change nothing repeat the old one.
            if i > 0 && changed {
                version = self.topics.touch();
                self.topics.refresh(&mut part);
            }
            for table in self.tell(servers, part, version).await.into_iter().flatten() {
                ordered.table.extend(table.table);
            }
        }
        self.registrar.state().told = Some(version);
        if self.topics.mark_ordered(ordered.table.keys()) {
            self.registrar.wake();
        }
    }

    /// Sends one part of the table to all name servers; returns the order tables they answered.
    async fn tell(
        &self,
        servers: &[String],
        mut topics: BTreeMap<String, TopicConfig>,
        version: DataVersion,
    ) -> Vec<Option<KvTable>> {
        let allowed = Perm(self.config().broker_permission);
        if allowed != Perm::READ_WRITE {
            for topic in topics.values_mut() {
                topic.perm = topic.perm.and(allowed);
            }
        }
        let body = RegisterBrokerBody {
            filter_server_list: Vec::new(),
            topic_config_serialize_wrapper: TopicConfigTable {
                data_version: version,
                mapping_data_version: Some(DataVersion {
                    timestamp: self.boot_ms,
                    ..DataVersion::default()
                }),
                topic_config_table: topics,
                topic_queue_mapping_detail_map: Some(BTreeMap::new()),
                topic_queue_mapping_info_map: Some(BTreeMap::new()),
            },
        };
        let body = bytes::Bytes::from(json::to_vec(&body));
        if body.len() > MAX_FRAME - 64 * 1024 {
            tracing::error!(bytes = body.len(), "a registration is too large to be sent");
            return Vec::new();
        }
        let header = self.register_header(&body);
        let calls = servers.iter().map(|server| {
            let (header, body) = (&header, body.clone());
            async move {
                let answer = self.registrar.call(server, header, body, CALL_TIMEOUT).await;
                let result = answer.map(|(_, table)| table.map(|json| json.value));
                self.registrar.note(server, &result);
                result.ok().flatten()
            }
        });
        join_all(calls).await
    }

    fn register_header(&self, body: &[u8]) -> RegisterBroker {
        let config = self.config();
        RegisterBroker {
            broker_name: config.broker_name.clone(),
            broker_addr: self.addr.clone(),
            cluster_name: config.broker_cluster_name.clone(),
            ha_server_addr: Some(format!("{}:{}", config.broker_ip2, self.listen.port() + 1)),
            broker_id: config.broker_id,
            heartbeat_timeout_millis: None,
            enable_acting_master: Some(false),
            compressed: false,
            body_crc32: (crc32fast::hash(body) & 0x7FFF_FFFF) as i32,
            zone_name: None,
        }
    }

    /// Tells the name servers of changed topics alone. The work goes on when the returned future is dropped; it
    /// resolves when all have answered, or after a few seconds.
    pub(super) fn register_topics(
        self: &Arc<Self>,
        topics: Vec<Arc<TopicConfig>>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let broker = self.clone();
        let told = self.tasks.spawn(async move {
            if topics.is_empty() || broker.stopping.is_cancelled() {
                return;
            }
            let servers = server_list(&broker.config().namesrv_addr);
            let changed = topics
                .iter()
                .map(|topic| (topic.topic_name.clone(), TopicConfig::clone(topic)))
                .collect();
            for mut part in parts(changed) {
                // A version of its own: a name server that saw the present one with another change would take
                // this for old news.
                let version = broker.topics.touch();
                broker.topics.refresh(&mut part);
                let telling = broker.tell(&servers, part, version);
                if broker.stopping.run_until_cancelled(telling).await.is_none() {
                    return;
                }
            }
        });
        async move {
            let _ = tokio::time::timeout(TOPIC_TIMEOUT, told).await;
        }
    }

    /// The route of a topic as the name servers know it.
    pub(super) async fn route_of(&self, topic: &str) -> Option<TopicRouteData> {
        let servers = server_list(&self.config().namesrv_addr);
        self.registrar.route(&servers, topic).await
    }

    /// Takes leave of every name server.
    pub(super) async fn unregister(&self, timeout: Duration) {
        let servers = server_list(&self.config().namesrv_addr);
        self.take_leave(&servers, timeout).await;
    }

    async fn take_leave(&self, servers: &[String], timeout: Duration) {
        let config = self.config.load_full();
        let header = UnregisterBroker {
            broker_name: config.broker_name.clone(),
            broker_addr: self.addr.clone(),
            cluster_name: config.broker_cluster_name.clone(),
            broker_id: config.broker_id,
        };
        let calls = servers.iter().map(|server| {
            let header = &header;
            async move {
                if let Err(e) = self.registrar.call(server, header, (), timeout).await {
                    tracing::info!(server, error = %e, "could not take leave of the name server");
                }
            }
        });
        join_all(calls).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_lists_are_split_and_trimmed() {
        assert_eq!(server_list(" a:1; b:2 ;;"), ["a:1", "b:2"]);
        assert!(server_list("").is_empty());
    }

    #[tokio::test]
    async fn a_name_server_that_hangs_loses_its_connection() {
        use tokio::io::AsyncReadExt;
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = silent.local_addr().unwrap().to_string();
        let registrar = Registrar::new();
        let header = UnregisterBroker {
            broker_name: "b".into(),
            broker_addr: "127.0.0.1:1".into(),
            cluster_name: "c".into(),
            broker_id: 0,
        };
        let call = registrar.call(&addr, &header, (), Duration::from_millis(50));
        let (answer, accepted) = tokio::join!(call, silent.accept());
        assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
        let mut stream = accepted.unwrap().0;
        let mut all = Vec::new();
        let closed = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut all));
        closed.await.expect("closed").unwrap();
        assert!(!all.is_empty(), "the request");
    }

    #[test]
    fn seventy_thousand_topics_go_in_parts_that_fit() {
        let topics: BTreeMap<String, TopicConfig> = (0..70_000)
            .map(|i| {
                let name = format!("{i:0>100}");
                let topic = TopicConfig {
                    topic_name: name.clone(),
                    ..TopicConfig::default()
                };
                (name, topic)
            })
            .collect();
        let parts = parts(topics.clone());
        assert!(parts.len() > 1);
        assert!(
            parts
                .iter()
                .all(|part| part.values().map(estimate).sum::<usize>() <= SPLIT_BYTES)
        );
        let joined: BTreeMap<String, TopicConfig> = parts.into_iter().flatten().collect();
        assert_eq!(joined.len(), topics.len());
        let one = TopicConfig {
            topic_name: "t".repeat(100),
            ..TopicConfig::default()
        };
        assert!(json::to_vec(&one).len() + 100 < estimate(&one));
    }
}
