//! A name server over real sockets.

use std::time::{Duration, Instant};

use bytes::Bytes;

use super::{NameServer, NamesrvConfig, ROUTES, StartError};
use crate::fields::Fields;
use crate::protocol::body::{RegisterBrokerBody, TopicConfig, TopicConfigTable, TopicRouteData};
use crate::protocol::frame::Frame;
use crate::protocol::model::{DataVersion, Perm, VERSION};
use crate::protocol::requests::*;
use crate::protocol::{Json, Request, Text, codes, json};
use crate::remoting::{CallError, NoService, Pool};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A server on a free port with its files in a directory of its own, and a client.
struct Fixture {
    dir: tempfile::TempDir,
    server: NameServer,
    pool: Pool<NoService>,
}

impl Fixture {
    async fn start(change: impl FnOnce(&mut NamesrvConfig)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut config = NamesrvConfig {
            listen_port: 0,
            bind_address: "127.0.0.1".into(),
            kv_config_path: dir.path().join("kv.json").display().to_string(),
            config_store_path: dir.path().join("namesrv.properties").display().to_string(),
            ..NamesrvConfig::default()
        };
        change(&mut config);
        let server = NameServer::start(config).await.unwrap();
        Self {
            dir,
            server,
            pool: client(),
        }
    }

    fn addr(&self) -> String {
        self.server.addr().to_string()
    }

    async fn call<R: Request>(
        &self,
        header: R,
        body: R::Body,
    ) -> Result<(R::Reply, R::ReplyBody), CallError> {
        self.pool.call(&self.addr(), &header, body, TIMEOUT).await
    }

    /// Code and remark of a refusal.
    async fn refusal<R: Request>(&self, header: R, body: R::Body) -> (i32, String) {
        match self.call(header, body).await {
            Err(CallError::Remote { code, remark, .. }) => (code, remark),
            Err(e) => panic!("{e}"),
            Ok(_) => panic!("not refused"),
        }
    }

    async fn route(&self, topic: &str) -> Option<TopicRouteData> {
        let header = GetRouteinfoByTopic {
            topic: topic.into(),
            ..GetRouteinfoByTopic::default()
        };
        match self.call(header, ()).await {
            Ok(((), body)) => Some(body.value),
            Err(CallError::Remote { code, remark, .. }) => {
                assert_eq!(code, codes::TOPIC_NOT_EXIST);
                assert!(remark.starts_with(&format!(
                    "No topic route info in name server for the topic: {topic}\nSee https://"
                )));
                None
            }
            Err(e) => panic!("{e}"),
        }
    }

    async fn until_no_route(&self, topic: &str) {
        let deadline = Instant::now() + TIMEOUT;
        while self.route(topic).await.is_some() {
            assert!(Instant::now() < deadline, "the route of {topic} stays");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn client() -> Pool<NoService> {
    Pool::new(std::sync::Arc::new(NoService), TIMEOUT)
}

fn body(topics: &[&str]) -> RegisterBrokerBody {
    let config = |name: &&str| {
        let config = TopicConfig {
            topic_name: (*name).into(),
            ..TopicConfig::default()
        };
        ((*name).to_owned(), config)
    };
    RegisterBrokerBody {
        topic_config_serialize_wrapper: TopicConfigTable {
            data_version: DataVersion {
                counter: 1,
                state_version: 0,
                timestamp: 7,
            },
            topic_config_table: topics.iter().map(config).collect(),
            ..TopicConfigTable::default()
        },
        ..RegisterBrokerBody::default()
    }
}

fn register() -> RegisterBroker {
    RegisterBroker {
        broker_name: "broker-a".into(),
        broker_addr: "127.0.0.1:10911".into(),
        cluster_name: "C".into(),
        ..RegisterBroker::default()
    }
}

fn json_body(topics: &[&str]) -> Bytes {
    Bytes::from(json::to_vec(&body(topics)))
}

#[tokio::test]
async fn a_broker_registers_is_routed_to_and_unregisters() {
    let f = Fixture::start(|_| {}).await;
    assert_eq!(f.route("t1").await, None);
    let bytes = json_body(&["t1", "t2"]);
    let header = RegisterBroker {
        body_crc32: (crc32fast::hash(&bytes) & 0x7FFF_FFFF) as i32,
        ..register()
    };
    let (reply, order) = f.call(header, bytes).await.unwrap();
    assert_eq!((reply, order), (RegisterBrokerReply::default(), None));
    let route = f.route("t1").await.unwrap();
    assert_eq!(route.broker_datas[0].master(), Some("127.0.0.1:10911"));
    assert_eq!(route.queue_datas[0].perm, Perm::READ_WRITE);
    let group = GetBrokerMemberGroup {
        cluster_name: "C".into(),
        broker_name: "broker-a".into(),
    };
    let ((), group) = f.call(group, ()).await.unwrap();
    assert_eq!(
        group.value.broker_member_group.unwrap().broker_addrs[&0],
        "127.0.0.1:10911"
    );
    let gone = UnregisterBroker {
        broker_name: "broker-a".into(),
        broker_addr: "127.0.0.1:10911".into(),
        cluster_name: "C".into(),
        broker_id: 0,
    };
    f.call(gone.clone(), ()).await.unwrap();
    assert_eq!(f.route("t1").await, None);
    f.call(gone, ()).await.unwrap();
    f.server.stop().await;
}

#[tokio::test]
async fn both_body_forms_are_read_and_checked() {
    let f = Fixture::start(|_| {}).await;
    let bytes = json_body(&["t1", "t2"]);
    let wrong = RegisterBroker {
        body_crc32: 1,
        ..register()
    };
    assert_eq!(f.refusal(wrong, bytes).await, (1, "crc32 not match".into()));
    assert_eq!(
        f.refusal(register(), json_body(&["t1"])).await,
        (1, "register broker failed".into())
    );
    let compressed = RegisterBroker {
        compressed: true,
        ..register()
    };
    let deflated = body(&["t1", "t2"]).encode_compressed(VERSION).unwrap();
    f.call(compressed.clone(), Bytes::from(deflated)).await.unwrap();
    assert_eq!(f.route("t2").await.unwrap().queue_datas[0].write_queue_nums, 16);
    // 33 MiB of blanks in some 100 KiB.
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..33 {
        std::io::Write::write_all(&mut bomb, &vec![b' '; 1024 * 1024]).unwrap();
    }
    let (code, remark) = f
        .refusal(compressed.clone(), Bytes::from(bomb.finish().unwrap()))
        .await;
    assert_eq!(code, 1);
    assert!(remark.contains("inflates to more than"), "{remark}");
    assert_eq!(f.refusal(compressed, Bytes::from_static(b"junk")).await.0, 1);
    assert_eq!(f.refusal(register(), Bytes::from_static(b"{\"")).await.0, 1);
    assert!(f.route("t1").await.is_some());
}

#[tokio::test]
async fn names_from_the_wire_are_checked() {
    let f = Fixture::start(|_| {}).await;
    for bad in ["../b", "a b", "a\nb", "", "..", &"x".repeat(300)] {
        let header = RegisterBroker {
            broker_name: bad.into(),
            ..register()
        };
        assert_eq!(
            f.refusal(header, json_body(&["t1", "t2"])).await.0,
            codes::INVALID_PARAMETER
        );
    }
    f.call(register(), json_body(&["t1", "t2", "a/b", "t\u{1b}[2J"]))
        .await
        .unwrap();
    let ((), list) = f.call(GetAllTopicListFromNameserver, ()).await.unwrap();
    assert_eq!(list.value.topic_list, ["t1".to_owned(), "t2".to_owned()].into());
}

#[tokio::test]
async fn a_route_is_strict_json_from_version_401_on_or_when_asked() {
    let f = Fixture::start(|_| {}).await;
    f.call(register(), json_body(&["t1", "t2"])).await.unwrap();
    let peer = f.pool.peer(&f.addr()).await.unwrap();
    for (version, flag, strict) in [
        (0, None, false),
        (400, None, false),
        (400, Some("false"), false),
        (400, Some("true"), true),
        (401, None, true),
        (VERSION, Some("false"), true),
    ] {
        let mut fields = Fields::new();
        fields.push("topic", "t1");
        if let Some(flag) = flag {
            fields.push("acceptStandardJsonOnly", flag);
        }
        let request = Frame {
            version,
            ..Frame::request(GetRouteinfoByTopic::CODE, fields)
        };
        let answer = peer.exchange(request, TIMEOUT).await.unwrap();
        let text = String::from_utf8(answer.body.to_vec()).unwrap();
        let key = if strict { "{\"0\":\"" } else { "{0:\"" };
        let expected = format!(
            "{{\"brokerDatas\":[{{\"brokerAddrs\":{key}127.0.0.1:10911\"}},\"brokerName\":\"broker-a\",\
             \"cluster\":\"C\",\"enableActingMaster\":false}}],\"filterServerTable\":{{}},\"queueDatas\":\
             [{{\"brokerName\":\"broker-a\",\"perm\":6,\"readQueueNums\":16,\"topicSysFlag\":0,\
             \"writeQueueNums\":16}}]}}"
        );
        assert_eq!(text, expected, "version {version}, flag {flag:?}");
    }
    // A zone makes the answer lenient again, and the cluster info is never strict.
    let zoned = [("topic", "t1"), ("__ZONE_MODE", "true"), ("__ZONE_NAME", "z")];
    let request = Frame::request(GetRouteinfoByTopic::CODE, zoned.into_iter().collect());
    let answer = peer.exchange(request, TIMEOUT).await.unwrap();
    assert_eq!(
        &answer.body[..],
        br#"{"brokerDatas":[],"filterServerTable":{},"queueDatas":[]}"#
    );
    let request = Frame::request(GetBrokerClusterInfo::CODE, Fields::new());
    let answer = peer.exchange(request, TIMEOUT).await.unwrap();
    let expected = "{\"brokerAddrTable\":{\"broker-a\":{\"brokerAddrs\":{0:\"127.0.0.1:10911\"},\"brokerName\":\
                    \"broker-a\",\"cluster\":\"C\",\"enableActingMaster\":false}},\"clusterAddrTable\":{\"C\":[\
                    \"broker-a\"]}}";
    assert_eq!(answer.body, expected.as_bytes());
}

#[tokio::test]
async fn the_live_table_is_added_when_asked_for() {
    let f = Fixture::start(|_| {}).await;
    f.call(register(), json_body(&["t1", "t2"])).await.unwrap();
    let ((), plain) = f.call(GetBrokerClusterInfo::default(), ()).await.unwrap();
    assert_eq!(plain.value.rmq_live_table, None);
    let asked = GetBrokerClusterInfo {
        rmq_live: Some("1".into()),
    };
    let ((), info) = f.call(asked, ()).await.unwrap();
    let live = &info.value.rmq_live_table.unwrap()["127.0.0.1:10911"];
    let age = info.value.rmq_now.unwrap() - live.last_update_timestamp;
    assert!((0..10_000).contains(&age), "{age}");
    assert_eq!(
        live.data_version,
        body(&[]).topic_config_serialize_wrapper.data_version
    );
}

#[tokio::test]
async fn a_broker_leaves_with_its_connection() {
    let f = Fixture::start(|_| {}).await;
    let broker = client();
    (broker
        .call(&f.addr(), &register(), json_body(&["t1", "t2"]), TIMEOUT)
        .await)
        .unwrap();
    assert!(f.route("t1").await.is_some());
    broker.close();
    f.until_no_route("t1").await;
    let ((), info) = f.call(GetBrokerClusterInfo::default(), ()).await.unwrap();
    assert!(info.value.broker_addr_table.is_empty());
}

#[tokio::test]
async fn a_silent_broker_is_dropped_and_its_connection_closed_while_heartbeats_keep_another() {
    let f = Fixture::start(|c| c.scan_not_active_broker_interval = 10).await;
    let silent = client();
    let header = RegisterBroker {
        heartbeat_timeout_millis: Some(100),
        ..register()
    };
    (silent
        .call(&f.addr(), &header, json_body(&["t1", "t2"]), TIMEOUT)
        .await)
        .unwrap();
    let beating = RegisterBroker {
        broker_name: "broker-b".into(),
        broker_addr: "127.0.0.1:20911".into(),
        heartbeat_timeout_millis: Some(1000),
        ..register()
    };
    f.call(beating, json_body(&["t1", "t2"])).await.unwrap();
    let peer = silent.peer(&f.addr()).await.unwrap();
    tokio::time::timeout(TIMEOUT, peer.closed()).await.unwrap();
    let route = f.route("t1").await.unwrap();
    assert_eq!(route.queue_datas.len(), 1);
    assert_eq!(route.queue_datas[0].broker_name, "broker-b");
    let beat = BrokerHeartbeat {
        broker_addr: "127.0.0.1:20911".into(),
        cluster_name: "C".into(),
        broker_name: "broker-b".into(),
        ..BrokerHeartbeat::default()
    };
    let until = Instant::now() + Duration::from_millis(1300);
    while Instant::now() < until {
        f.call(beat.clone(), ()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(f.route("t1").await.is_some());
    let unknown = BrokerHeartbeat {
        broker_addr: "x:1".into(),
        ..beat
    };
    f.call(unknown, ()).await.unwrap();
}

#[tokio::test]
async fn the_data_version_of_a_broker_is_compared() {
    let f = Fixture::start(|_| {}).await;
    f.call(register(), json_body(&["t1", "t2"])).await.unwrap();
    let query = |addr: &str| QueryDataVersion {
        broker_name: "broker-a".into(),
        broker_addr: addr.into(),
        cluster_name: "C".into(),
        broker_id: 0,
    };
    let known = body(&[]).topic_config_serialize_wrapper.data_version;
    let (reply, stored) = f
        .call(query("127.0.0.1:10911"), Some(Json::new(known)))
        .await
        .unwrap();
    assert_eq!((reply.changed, stored), (false, Some(Json::new(known))));
    let newer = known.next(9);
    let (reply, stored) = f
        .call(query("127.0.0.1:10911"), Some(Json::new(newer)))
        .await
        .unwrap();
    assert_eq!((reply.changed, stored), (true, Some(Json::new(known))));
    let (reply, stored) = f.call(query("unknown:1"), None).await.unwrap();
    assert_eq!((reply.changed, stored), (true, None));
}

#[tokio::test]
async fn values_are_kept_in_a_file_and_served_to_brokers_and_clients() {
    let f = Fixture::start(|c| c.order_message_enable = true).await;
    let put = |namespace: Option<&str>, key: Option<&str>| PutKvConfig {
        namespace: namespace.map(Into::into),
        key: key.map(Into::into),
        value: Some("broker-a:4".into()),
    };
    let get = |key: &str| GetKvConfig {
        namespace: Some("ORDER_TOPIC_CONFIG".into()),
        key: Some(key.into()),
    };
    let list = || GetKvlistByNamespace {
        namespace: Some("ORDER_TOPIC_CONFIG".into()),
    };
    let missing = (
        22,
        "No config item, Namespace: ORDER_TOPIC_CONFIG Key: t1".to_owned(),
    );
    assert_eq!(f.refusal(get("t1"), ()).await, missing);
    let missing = (22, "No config item, Namespace: ORDER_TOPIC_CONFIG".to_owned());
    assert_eq!(f.refusal(list(), ()).await, missing);
    let null = (1, "namespace or key is null".to_owned());
    assert_eq!(f.refusal(put(None, Some("k")), ()).await, null);
    f.call(put(Some("ORDER_TOPIC_CONFIG"), Some("t1")), ())
        .await
        .unwrap();
    let (value, ()) = f.call(get("t1"), ()).await.unwrap();
    assert_eq!(value.value.as_deref(), Some("broker-a:4"));
    let ((), table) = f.call(list(), ()).await.unwrap();
    assert_eq!(table.value.table["t1"], "broker-a:4");
    let (_, order) = f.call(register(), json_body(&["t1", "t2"])).await.unwrap();
    assert_eq!(order.unwrap().value.table["t1"], "broker-a:4");
    assert_eq!(
        f.route("t1").await.unwrap().order_topic_conf.as_deref(),
        Some("broker-a:4")
    );
    assert_eq!(f.route("t2").await.unwrap().order_topic_conf, None);

    let path = f.dir.path().join("kv.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text,
        r#"{"configTable":{"ORDER_TOPIC_CONFIG":{"t1":"broker-a:4"}}}"#
    );
    f.server.stop().await;
    let again = Fixture::start(|c| c.kv_config_path = path.display().to_string()).await;
    assert!(again.call(get("t1"), ()).await.is_ok());
    let delete = || DeleteKvConfig {
        namespace: Some("ORDER_TOPIC_CONFIG".into()),
        key: Some("t1".into()),
    };
    again.call(delete(), ()).await.unwrap();
    again.call(delete(), ()).await.unwrap();
    assert_eq!(again.refusal(get("t1"), ()).await.0, codes::QUERY_NOT_FOUND);

    let config = || NamesrvConfig {
        listen_port: 0,
        bind_address: "127.0.0.1".into(),
        kv_config_path: path.display().to_string(),
        ..NamesrvConfig::default()
    };
    let e = NameServer::start(config()).await.unwrap_err();
    assert!(matches!(e, StartError::KvInUse(_)), "{e}");
    assert!(e.to_string().contains("kvConfigPath"), "{e}");
    again.server.stop().await;
    std::fs::write(&path, "{ broken").unwrap();
    let e = NameServer::start(config()).await.unwrap_err();
    assert!(matches!(e, StartError::Kv { .. }), "{e}");
    assert!(e.to_string().contains("kv.json"), "{e}");
}

#[tokio::test]
async fn the_configuration_is_read_and_changed_as_properties_but_not_its_guarded_keys() {
    let f = Fixture::start(|_| {}).await;
    let (_, text) = f.call(GetNamesrvConfig, ()).await.unwrap();
    let keys: Vec<&str> = text
        .0
        .lines()
        .filter_map(|l| l.split_once('='))
        .map(|(k, _)| k)
        .collect();
    assert!(keys.is_sorted());
    assert!(text.0.contains("orderMessageEnable=false\n") && text.0.contains("configBlackList="));
    let update = |text: &str| f.call(UpdateNamesrvConfig, Text(text.into()));
    update("orderMessageEnable=true\nunknownKey=1\n").await.unwrap();
    let (_, text) = f.call(GetNamesrvConfig, ()).await.unwrap();
    assert!(text.0.contains("orderMessageEnable=true\n") && !text.0.contains("unknownKey"));
    let saved = std::fs::read_to_string(f.dir.path().join("namesrv.properties")).unwrap();
    assert!(saved.contains("orderMessageEnable=true\n"));
    for key in [
        "configBlackList",
        "configStorePath",
        "kvConfigPath",
        "rocketmqHome",
        "writeAllowList",
    ] {
        let text = Text(format!("enableTopicList=false\n{key}=/tmp/x\n"));
        let refusal = f.refusal(UpdateNamesrvConfig, text).await;
        assert_eq!(
            refusal,
            (16, "Can not update config in black list.".into()),
            "{key}"
        );
    }
    let text = Text("enableTopicList=false\nscanNotActiveBrokerInterval=soon\n".into());
    let (code, remark) = f.refusal(UpdateNamesrvConfig, text).await;
    assert_eq!(code, codes::INVALID_PARAMETER);
    assert!(remark.contains("scanNotActiveBrokerInterval=soon"), "{remark}");
    assert!(
        f.call(GetUnitTopicList, ()).await.is_ok(),
        "nothing of a refused change is applied"
    );
}

/// Java's name server always has a file; ours without one says what it cannot keep.
#[tokio::test]
async fn a_change_is_kept_beside_what_the_file_says_or_refused_where_it_would_be_lost() {
    let f = Fixture::start(|_| {}).await;
    let path = f.dir.path().join("namesrv.properties");
    std::fs::write(&path, "enableTopicList=false\nsomethingElse=1\n").unwrap();
    f.call(UpdateNamesrvConfig, Text("listenPort=9999\n".into()))
        .await
        .unwrap();
    let kept = std::fs::read_to_string(&path).unwrap();
    let mut lines: Vec<&str> = kept.lines().filter(|line| !line.starts_with('#')).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        ["enableTopicList=false", "listenPort=9999", "somethingElse=1"],
        "{kept}"
    );
    let f =
        Fixture::start(|c| c.on_command_line = vec!["listenPort".into(), "orderMessageEnable".into()]).await;
    let (code, remark) = f
        .refusal(UpdateNamesrvConfig, Text("listenPort=9999\n".into()))
        .await;
    assert_eq!(code, codes::INVALID_PARAMETER);
    assert!(remark.contains("command line"), "{remark}");
    for value in ["true", "false"] {
        let change = Text(format!("orderMessageEnable={value}\n"));
        f.call(UpdateNamesrvConfig, change).await.unwrap();
    }
    let f = Fixture::start(|c| c.config_store_path.clear()).await;
    let (code, remark) = f
        .refusal(UpdateNamesrvConfig, Text("listenPort=9999\n".into()))
        .await;
    assert_eq!(code, codes::INVALID_PARAMETER);
    assert!(remark.contains("configStorePath"), "{remark}");
    let (told, text) = f.call(GetNamesrvConfig, ()).await.unwrap();
    assert!(!text.0.contains("listenPort=9999"));
    assert!(told.rmq_read_at_start.unwrap().contains("listenPort"));
    assert!(told.rmq_limits.unwrap().contains("listenPort=0..65535"));
    f.call(UpdateNamesrvConfig, Text("orderMessageEnable=true\n".into()))
        .await
        .unwrap();
}

/// What a query shows of a key that is read at the start may not be in force yet.
#[tokio::test]
async fn a_value_that_waits_for_the_next_start_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("namesrv.conf");
    let f = Fixture::start(|c| c.config_store_path = path.display().to_string()).await;
    let waiting = async || f.call(GetNamesrvConfig, ()).await.unwrap().0.rmq_waiting.unwrap();
    let (_, text) = f.call(GetNamesrvConfig, ()).await.unwrap();
    let now = text
        .0
        .lines()
        .find(|line| line.starts_with("listenPort="))
        .unwrap();
    for (change, waits) in [
        ("orderMessageEnable=true", ""),
        ("listenPort=9999", "listenPort"),
        (now, ""),
    ] {
        f.call(UpdateNamesrvConfig, Text(format!("{change}\n")))
            .await
            .unwrap();
        assert_eq!(waiting().await, waits, "{change}");
    }
}

#[tokio::test]
async fn topic_lists_can_be_switched_off() {
    let f = Fixture::start(|c| {
        c.enable_topic_list = false;
        c.enable_all_topic_list = false;
    })
    .await;
    let disable = (1, "disable".to_owned());
    assert_eq!(f.refusal(GetAllTopicListFromNameserver, ()).await, disable);
    assert_eq!(f.refusal(GetTopicsByCluster::default(), ()).await, disable);
    assert_eq!(f.refusal(GetUnitTopicList, ()).await, disable);
    assert_eq!(f.refusal(GetHasUnitSubTopicList, ()).await, disable);
    assert_eq!(f.refusal(GetHasUnitSubUnunitTopicList, ()).await, disable);
    let ((), list) = f.call(GetSystemTopicListFromNs, ()).await.unwrap();
    assert!(list.value.topic_list.is_empty());
}

#[tokio::test]
async fn routes_wait_until_brokers_had_time_to_register() {
    let f = Fixture::start(|c| c.need_wait_for_service = true).await;
    let refusal = f.refusal(GetRouteinfoByTopic::default(), ()).await;
    assert_eq!(refusal, (1, "name server not ready".into()));
    f.call(UpdateNamesrvConfig, Text("waitSecondsForService=0".into()))
        .await
        .unwrap();
    assert_eq!(
        f.refusal(GetRouteinfoByTopic::default(), ()).await.0,
        codes::TOPIC_NOT_EXIST
    );
}

/// K11
#[tokio::test]
async fn writers_can_be_limited_to_an_allow_list() {
    let f = Fixture::start(|c| c.write_allow_list = "10.0.0.0/8".into()).await;
    let denied = |refusal: (i32, String)| assert_eq!(refusal.0, codes::NO_PERMISSION, "{}", refusal.1);
    denied(f.refusal(register(), json_body(&["t1", "t2"])).await);
    denied(
        f.refusal(UpdateNamesrvConfig, Text("enableTopicList=false".into()))
            .await,
    );
    let put = PutKvConfig {
        namespace: Some("n".into()),
        key: Some("k".into()),
        value: Some("v".into()),
    };
    denied(f.refusal(put, ()).await);
    denied(f.refusal(DeleteKvConfig::default(), ()).await);
    denied(f.refusal(WipeWritePermOfBroker::default(), ()).await);
    denied(f.refusal(AddWritePermOfBroker::default(), ()).await);
    denied(f.refusal(DeleteTopicInNamesrv::default(), ()).await);
    denied(f.refusal(UnregisterBroker::default(), ()).await);
    denied(f.refusal(BrokerHeartbeat::default(), ()).await);
    denied(f.refusal(RegisterTopicInNamesrv::default(), None).await);
    // A source announced by an untrusted proxy opens nothing.
    let mut stream = tokio::net::TcpStream::connect(f.server.addr()).await.unwrap();
    let request = Frame::request(DeleteKvConfig::CODE, Fields::new());
    let bytes = [
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
        &request.to_bytes(Default::default()).unwrap()[..],
    ]
    .concat();
    tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes)
        .await
        .unwrap();
    let mut input = bytes::BytesMut::new();
    let answer = loop {
        if let Some(answer) = Frame::cut(&mut input).unwrap() {
            break answer;
        }
        assert_ne!(
            tokio::io::AsyncReadExt::read_buf(&mut stream, &mut input)
                .await
                .unwrap(),
            0
        );
    };
    assert_eq!(answer.code, codes::NO_PERMISSION);
    // Reading stays open, and nothing has changed.
    let ((), info) = f.call(GetBrokerClusterInfo::default(), ()).await.unwrap();
    assert!(info.value.broker_addr_table.is_empty());
    assert!(f.call(GetUnitTopicList, ()).await.is_ok());
    assert!(!f.dir.path().join("kv.json").exists());
}

#[tokio::test]
async fn permissions_topics_and_single_topics_are_changed_by_operators() {
    let f = Fixture::start(|_| {}).await;
    f.call(register(), json_body(&["t1", "t2"])).await.unwrap();
    let broker_name = || "broker-a".to_owned();
    let wipe = WipeWritePermOfBroker {
        broker_name: broker_name(),
    };
    assert_eq!(f.call(wipe, ()).await.unwrap().0.wipe_topic_count, 2);
    assert_eq!(f.route("t1").await.unwrap().queue_datas[0].perm, Perm::READ);
    let add = AddWritePermOfBroker {
        broker_name: broker_name(),
    };
    assert_eq!(f.call(add, ()).await.unwrap().0.add_topic_count, 2);
    assert_eq!(f.route("t1").await.unwrap().queue_datas[0].perm, Perm::READ_WRITE);
    let route = f.route("t1").await.unwrap();
    let single = RegisterTopicInNamesrv {
        topic: "single".into(),
    };
    f.call(single.clone(), None).await.unwrap();
    assert_eq!(f.route("single").await, None);
    f.call(single, Some(Json::new(route.clone()))).await.unwrap();
    assert_eq!(f.route("single").await.unwrap().queue_datas, route.queue_datas);
    let delete = DeleteTopicInNamesrv {
        topic: "single".into(),
        cluster_name: None,
    };
    f.call(delete.clone(), ()).await.unwrap();
    f.call(delete, ()).await.unwrap();
    assert_eq!(f.route("single").await, None);
}

#[tokio::test]
async fn a_start_that_cannot_work_says_why() {
    let f = Fixture::start(|_| {}).await;
    let taken = NamesrvConfig {
        listen_port: f.server.addr().port(),
        bind_address: "127.0.0.1".into(),
        kv_config_path: f.dir.path().join("another.json").display().to_string(),
        ..NamesrvConfig::default()
    };
    let e = NameServer::start(taken.clone()).await.unwrap_err().to_string();
    assert!(e.contains(&f.addr()), "{e}");
    let named = NamesrvConfig {
        bind_address: "localhost".into(),
        ..taken.clone()
    };
    let e = NameServer::start(named).await.unwrap_err().to_string();
    assert!(e.starts_with("bindAddress=localhost: "), "{e}");
    let listed = NamesrvConfig {
        write_allow_list: "10.0.0.0/8, everyone".into(),
        ..taken
    };
    let e = NameServer::start(listed).await.unwrap_err().to_string();
    assert!(e.starts_with("writeAllowList=everyone: "), "{e}");
}

#[test]
fn the_table_of_requests() {
    let codes: Vec<i32> = ROUTES.iter().map(|route| route.code).collect();
    let expected = [
        100, 101, 102, 219, 103, 104, 322, 904, 217, 216, 205, 327, 105, 106, 901, 206, 224, 304, 311, 312,
        313, 318, 319,
    ];
    assert_eq!(codes, expected);
}
