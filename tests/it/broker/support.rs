//! A broker on free loopback ports with a small store, and a client that sees codes, remarks and pushes.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::broker::{Broker, BrokerConfig};
use rmq::fields::Fields;
use rmq::protocol::body::{ConsumerData, HeartbeatData, SubscriptionData, TopicConfig};
use rmq::protocol::frame::Frame;
use rmq::protocol::message::records;
use rmq::protocol::model::{Perm, SysFlag, java_hash};
use rmq::protocol::requests::*;
use rmq::protocol::{Body, Json, Request, codes};
use rmq::remoting::pool::Pool;
use rmq::remoting::{CallError, Peer, Reply, Service};
use rmq::store::StoreConfig;

pub const TIMEOUT: Duration = Duration::from_secs(10);

pub fn small_store(root: &Path) -> StoreConfig {
    StoreConfig {
        store_path_root_dir: root.to_owned(),
        mapped_file_size_commit_log: 16 * 1024 * 1024,
        mapped_file_size_consume_queue: 20 * 1000,
        max_hash_slot_num: 100,
        max_index_num: 1000,
        disk_max_used_space_ratio: 95,
        ..StoreConfig::default()
    }
}

pub fn loopback() -> BrokerConfig {
    BrokerConfig {
        broker_name: "broker-t".into(),
        broker_ip1: "127.0.0.1".into(),
        bind_address: "127.0.0.1".into(),
        listen_port: 0,
        ..BrokerConfig::default()
    }
}

/// A running broker that is stopped when the test says so, or dropped with it.
pub struct TestBroker {
    pub broker: Arc<Broker>,
    pub dir: Arc<tempfile::TempDir>,
}

impl TestBroker {
    pub async fn start() -> Self {
        Self::with(loopback(), |_| {}).await
    }

    pub async fn with(config: BrokerConfig, store: impl FnOnce(&mut StoreConfig)) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::on(dir, config, store).await
    }

    pub async fn on(
        dir: Arc<tempfile::TempDir>,
        config: BrokerConfig,
        change: impl FnOnce(&mut StoreConfig),
    ) -> Self {
        let mut store = small_store(dir.path());
        change(&mut store);
        let broker = Broker::start(config, store).await.unwrap();
        Self { broker, dir }
    }

    pub fn addr(&self) -> String {
        self.broker.addr().to_string()
    }

    pub async fn client(&self) -> Client {
        Client::new(&self.addr()).await
    }

    pub async fn stop(self) -> Arc<tempfile::TempDir> {
        self.broker.stop().await.unwrap();
        self.dir
    }
}

/// What the broker pushed to a client.
#[derive(Default)]
pub struct Pushes {
    notified: Mutex<Vec<String>>,
    checks: Mutex<Vec<(CheckTransactionState, Bytes)>>,
    replies: Mutex<Vec<(PushReplyMessageToClient, Bytes)>>,
    /// What pushed replies are answered.
    pub reply_code: std::sync::atomic::AtomicI32,
}

impl Service for Pushes {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        if request.code == CheckTransactionState::CODE {
            assert!(request.is_oneway());
            let check = (request.fields.to_value().unwrap(), request.body);
            self.checks.lock().unwrap().push(check);
            return Reply::default();
        }
        if request.code == PushReplyMessageToClient::CODE {
            let reply = (request.fields.to_value().unwrap(), request.body);
            self.replies.lock().unwrap().push(reply);
            return Reply {
                code: self.reply_code.load(std::sync::atomic::Ordering::Relaxed),
                ..Reply::default()
            };
        }
        assert_eq!(request.code, NotifyConsumerIdsChanged::CODE);
        assert!(request.is_oneway());
        let header: NotifyConsumerIdsChanged = request.fields.to_value().unwrap();
        self.notified.lock().unwrap().push(header.consumer_group);
        Reply::default()
    }
}

/// An answer, whatever its code.
#[derive(Debug)]
pub struct Answered {
    pub code: i32,
    pub remark: String,
    pub fields: Fields,
    pub body: Bytes,
}

impl Answered {
    pub fn header<T: serde::de::DeserializeOwned>(&self) -> T {
        self.fields.to_value().unwrap()
    }

    pub fn json<T: serde::de::DeserializeOwned + serde::Serialize + Send + 'static>(&self) -> T {
        Json::<T>::decode(self.body.clone()).unwrap().value
    }
}

pub struct Client {
    pub peer: Peer,
    pushes: Arc<Pushes>,
    pool: Pool<Pushes>,
}

impl Client {
    pub async fn new(addr: &str) -> Self {
        let pushes = Arc::new(Pushes::default());
        let pool = Pool::new(pushes.clone(), TIMEOUT);
        let peer = pool.peer(addr).await.unwrap();
        Self { peer, pushes, pool }
    }

    pub fn disconnect(&self) {
        self.pool.close();
    }

    pub async fn ask<R: Request>(&self, header: R, body: R::Body) -> Answered {
        let mut request = Frame::request(R::CODE, Fields::from_value(&header).unwrap());
        request.body = rmq::protocol::frame::join(body.encode());
        self.ask_frame(request).await
    }

    pub async fn ask_frame(&self, request: Frame) -> Answered {
        let answer = self
            .peer
            .exchange(request, Duration::from_secs(40))
            .await
            .unwrap();
        Answered {
            code: answer.code,
            remark: answer.remark.unwrap_or_default(),
            fields: answer.fields,
            body: answer.body,
        }
    }

    pub async fn ok<R: Request>(&self, header: R, body: R::Body) -> (R::Reply, R::ReplyBody) {
        self.peer.call(&header, body, TIMEOUT).await.unwrap()
    }

    /// Code and remark of a refusal.
    pub async fn refused<R: Request>(&self, header: R, body: R::Body) -> (i32, String) {
        match self.peer.call(&header, body, TIMEOUT).await {
            Err(CallError::Remote { code, remark, .. }) => (code, remark),
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("{} was not refused", R::NAME),
        }
    }

    pub async fn create_topic(&self, name: &str, queues: i32) {
        self.create_topic_with(name, queues, queues, Perm::READ_WRITE)
            .await;
    }

    pub async fn create_topic_with(&self, name: &str, read: i32, write: i32, perm: Perm) {
        let header = UpdateAndCreateTopic {
            topic: name.into(),
            read_queue_nums: read,
            write_queue_nums: write,
            perm,
            ..UpdateAndCreateTopic::default()
        };
        self.ok(header, ()).await;
    }

    pub async fn topic(&self, name: &str) -> TopicConfig {
        let header = GetTopicConfig {
            topic: name.into(),
            lo: None,
        };
        self.ok(header, ()).await.1.value.config
    }

    pub async fn send(&self, topic: &str, queue_id: i32, tag: &str, body: &str) -> SendMessageReply {
        let properties = if tag.is_empty() {
            String::new()
        } else {
            format!("TAGS\u{1}{tag}\u{2}")
        };
        let header = SendMessageV2 {
            properties,
            ..message(topic, queue_id)
        };
        self.ok(header, Bytes::copy_from_slice(body.as_bytes())).await.0
    }

    /// Waits until consumers can see so many messages of a queue.
    pub async fn await_max(&self, topic: &str, queue_id: i32, offset: i64) {
        eventually(async || self.max(topic, queue_id).await >= offset).await;
    }

    /// The offset behind the last message of a queue that consumers can see.
    pub async fn max(&self, topic: &str, queue_id: i32) -> i64 {
        let header = GetMaxOffset {
            topic: topic.into(),
            queue_id,
            ..GetMaxOffset::default()
        };
        self.ok(header, ()).await.0.offset
    }

    pub async fn heartbeat(&self, client_id: &str, group: &str, topic: &str, tags: &str) {
        self.ok(HeartBeat, Json::new(beat(client_id, group, topic, tags)))
            .await;
    }

    pub async fn pull(&self, header: PullMessage) -> Answered {
        self.ask(header, ()).await
    }

    /// Becomes a producer of a group.
    pub async fn produce(&self, client_id: &str, group: &str) {
        let beat = HeartbeatData {
            client_id: client_id.into(),
            producer_data_set: vec![rmq::protocol::body::ProducerData {
                group_name: group.into(),
            }],
            ..HeartbeatData::default()
        };
        self.ok(HeartBeat, Json::new(beat)).await;
    }

    /// Questions about transactions that came so far.
    pub fn checks(&self) -> Vec<(CheckTransactionState, Bytes)> {
        self.pushes.checks.lock().unwrap().clone()
    }

    /// Pushed replies that came so far.
    pub fn replies(&self) -> Vec<(PushReplyMessageToClient, Bytes)> {
        self.pushes.replies.lock().unwrap().clone()
    }

    pub fn pushes(&self) -> &Pushes {
        &self.pushes
    }

    pub fn notified(&self) -> Vec<String> {
        self.pushes.notified.lock().unwrap().clone()
    }
}

pub fn message(topic: &str, queue_id: i32) -> SendMessageV2 {
    SendMessageV2 {
        producer_group: "pg".into(),
        topic: topic.into(),
        default_topic: "TBW102".into(),
        default_topic_queue_nums: 4,
        queue_id,
        sys_flag: SysFlag::default(),
        born_timestamp: 1_795_973_553_406,
        ..SendMessageV2::default()
    }
}

pub fn subscription(topic: &str, tags: &str, version: i64) -> SubscriptionData {
    let mut data = SubscriptionData {
        topic: topic.into(),
        sub_string: tags.into(),
        sub_version: version,
        ..SubscriptionData::default()
    };
    for tag in tags.split("||").map(str::trim).filter(|t| *t != "*") {
        data.tags_set.insert(tag.into());
        data.code_set.insert(java_hash(tag));
    }
    data
}

pub fn beat(client_id: &str, group: &str, topic: &str, tags: &str) -> HeartbeatData {
    HeartbeatData {
        client_id: client_id.into(),
        consumer_data_set: vec![ConsumerData {
            group_name: group.into(),
            subscription_data_set: vec![subscription(topic, tags, 1)],
            ..ConsumerData::default()
        }],
        ..HeartbeatData::default()
    }
}

/// A pull that brings its subscription and does not wait.
pub fn pull(topic: &str, queue_id: i32, offset: i64, tags: &str) -> PullMessage {
    PullMessage {
        consumer_group: "cg".into(),
        topic: topic.into(),
        queue_id,
        queue_offset: offset,
        max_msg_nums: 32,
        sys_flag: PullMessage::SUBSCRIPTION,
        subscription: Some(tags.into()),
        ..PullMessage::default()
    }
}

/// Bodies of the records in an answer.
pub fn bodies(answer: &Answered) -> Vec<String> {
    records(&answer.body)
        .map(|record| String::from_utf8(record.unwrap().body().to_vec()).unwrap())
        .collect()
}

/// Epoch milliseconds.
pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_millis() as i64
}

/// Asks until it is so; fails after ten seconds.
pub async fn eventually(so: impl AsyncFnMut() -> bool) {
    within(TIMEOUT, so).await;
}

/// Asks until it is so; fails after `limit`.
pub async fn within(limit: Duration, mut so: impl AsyncFnMut() -> bool) {
    let end = Instant::now() + limit;
    while !so().await {
        assert!(Instant::now() < end, "did not become so");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub const INVALID: i32 = codes::INVALID_PARAMETER;
