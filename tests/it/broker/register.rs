//! The broker and its name servers: registration at once, of changes, of new servers; farewell; order topics.

use std::collections::BTreeSet;

use rmq::broker::BrokerConfig;
use rmq::namesrv::{NameServer, NamesrvConfig};
use rmq::protocol::body::{CreateTopicList, TopicConfig};
use rmq::protocol::model::Perm;
use rmq::protocol::requests::*;
use rmq::protocol::{Json, Text};

use super::support::*;

struct Names {
    server: NameServer,
    client: Client,
    _dir: tempfile::TempDir,
}

impl Names {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let config = NamesrvConfig {
            listen_port: 0,
            bind_address: "127.0.0.1".into(),
            kv_config_path: dir.path().join("kv.json").to_string_lossy().into_owned(),
            config_store_path: dir
                .path()
                .join("namesrv.properties")
                .to_string_lossy()
                .into_owned(),
            ..NamesrvConfig::default()
        };
        let server = NameServer::start(config).await.unwrap();
        let client = Client::new(&server.addr().to_string()).await;
        Self {
            server,
            client,
            _dir: dir,
        }
    }

    fn addr(&self) -> String {
        self.server.addr().to_string()
    }

    async fn topics(&self) -> BTreeSet<String> {
        let list = self.client.ok(GetAllTopicListFromNameserver, ()).await.1;
        list.value.topic_list
    }

    async fn perm(&self, topic: &str) -> Option<Perm> {
        let header = GetRouteinfoByTopic {
            topic: topic.into(),
            ..GetRouteinfoByTopic::default()
        };
        let answer = self.client.ask(header, ()).await;
        let route: rmq::protocol::body::TopicRouteData = (answer.code == 0).then(|| answer.json())?;
        route.queue_datas.first().map(|queue| queue.perm)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_known_when_the_admin_is_answered() {
    let (one, two) = (Names::start().await, Names::start().await);
    let config = BrokerConfig {
        // One of three does not answer: nobody waits for it.
        namesrv_addr: format!("{};127.0.0.1:1;{}", one.addr(), two.addr()),
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    for names in [&one, &two] {
        eventually(async || names.topics().await.contains("TBW102")).await;
    }
    let client = broker.client().await;
    client.create_topic("t", 3).await;
    for names in [&one, &two] {
        assert_eq!(names.perm("t").await, Some(Perm::READ_WRITE));
    }
    client.send("auto", 0, "", "x").await;
    eventually(async || one.perm("auto").await.is_some()).await;

    client
        .ok(UpdateBrokerConfig, Text("brokerPermission=4".into()))
        .await;
    eventually(async || one.perm("t").await == Some(Perm::READ)).await;
    assert_eq!(
        client.topic("t").await.perm,
        Perm::READ_WRITE,
        "the topic itself stays as it is"
    );

    broker.stop().await;
    eventually(async || one.perm("t").await.is_none() && two.perm("t").await.is_none()).await;
    one.server.stop().await;
    two.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_name_servers_can_change_at_run_time() {
    let (old, new) = (Names::start().await, Names::start().await);
    let config = BrokerConfig {
        namesrv_addr: old.addr(),
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    eventually(async || old.perm("TBW102").await.is_some()).await;
    let client = broker.client().await;
    let update = Text(format!("namesrvAddr={}", new.addr()));
    client.ok(UpdateBrokerConfig, update).await;
    eventually(async || new.perm("TBW102").await.is_some()).await;
    eventually(async || old.perm("TBW102").await.is_none()).await;
    broker.stop().await;
    old.server.stop().await;
    new.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_name_server_that_hangs_keeps_no_other_waiting() {
    let hangs = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (old, new) = (Names::start().await, Names::start().await);
    let config = BrokerConfig {
        namesrv_addr: old.addr(),
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    eventually(async || old.perm("TBW102").await.is_some()).await;
    let client = broker.client().await;
    let client = &client;
    let list = async |text: String| {
        client
            .ok(UpdateBrokerConfig, Text(format!("namesrvAddr={text}")))
            .await
    };
    list(format!("{};{}", old.addr(), hangs.local_addr().unwrap())).await;
    hangs.accept().unwrap();
    let start = std::time::Instant::now();
    list(new.addr()).await;
    eventually(async || new.perm("TBW102").await.is_some()).await;
    assert!(
        start.elapsed() < std::time::Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    broker.stop().await;
    old.server.stop().await;
    new.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_one_of_many_changes_at_once_is_told() {
    let names = Names::start().await;
    let config = BrokerConfig {
        namesrv_addr: names.addr(),
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    eventually(async || names.perm("TBW102").await.is_some()).await;
    let client = broker.client().await;
    let topics: Vec<String> = (0..40).map(|i| format!("t{i}")).collect();
    futures_util::future::join_all(topics.iter().map(|t| client.create_topic(t, 1))).await;
    // The second change of a topic is taken by the name server only under a version it has not seen.
    let closing = topics
        .iter()
        .map(|t| client.create_topic_with(t, 1, 1, Perm::READ));
    futures_util::future::join_all(closing).await;
    for topic in &topics {
        assert_eq!(names.perm(topic).await, Some(Perm::READ), "{topic}");
    }
    broker.stop().await;
    names.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listed_topics_become_ordered() {
    let names = Names::start().await;
    let put = PutKvConfig {
        namespace: Some("ORDER_TOPIC_CONFIG".into()),
        key: Some("ordered".into()),
        value: Some("broker-t:2".into()),
    };
    names.client.ok(put, ()).await;
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("ordered", 2).await;
    client.create_topic("other", 2).await;
    let update = Text(format!("namesrvAddr={}", names.addr()));
    client.ok(UpdateBrokerConfig, update).await;
    eventually(async || client.topic("ordered").await.order).await;
    assert!(!client.topic("other").await.order);
    broker.stop().await;
    names.server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn more_topics_than_fit_a_frame_are_registered_in_parts() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    // Java's shape takes some 350 bytes for each: well beyond the size at which a registration is split.
    let many: Vec<TopicConfig> = (0..16_000)
        .map(|i| TopicConfig {
            topic_name: format!("t{i:0>99}"),
            ..TopicConfig::default()
        })
        .collect();
    let last = many[many.len() - 1].topic_name.clone();
    let list = CreateTopicList {
        topic_config_list: many,
    };
    client.ok(UpdateAndCreateTopicList, Json::new(list)).await;
    let names = Names::start().await;
    client
        .ok(UpdateBrokerConfig, Text(format!("namesrvAddr={}", names.addr())))
        .await;
    eventually(async || names.topics().await.len() > 16_000).await;
    assert_eq!(names.perm(&last).await, Some(Perm::READ_WRITE));
    broker.stop().await;
    names.server.stop().await;
}
