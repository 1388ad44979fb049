//! Topics, statistics, queries, configuration: §10.7, §10.8.

use std::time::Duration;

use rmq::broker::{Broker, BrokerConfig, Error, Settings};
use rmq::config_file::ConfigFile;
use rmq::protocol::body::{CreateTopicList, TopicConfig};
use rmq::protocol::message::MessageView;
use rmq::protocol::model::Perm;
use rmq::protocol::requests::*;
use rmq::protocol::{Json, Text, codes};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_answered_with_success_is_in_the_tables_on_the_disk() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let on_disk = |table: &str, name: &str| {
        let text = std::fs::read_to_string(broker.dir.path().join("config").join(table)).unwrap_or_default();
        text.contains(&format!("\"{name}\""))
    };
    client.create_topic("made", 1).await;
    assert!(on_disk("topics.json", "made"));
    // A message in a topic that a crash takes back is as good as lost.
    client.send("by_send", 0, "", "x").await;
    assert!(on_disk("topics.json", "by_send"));
    client.ok(DeleteTopicInBroker { topic: "made".into() }, ()).await;
    assert!(!on_disk("topics.json", "made"));
    let group = rmq::protocol::body::SubscriptionGroupConfig {
        group_name: "g".into(),
        ..Default::default()
    };
    let update = UpdateAndCreateSubscriptiongroup;
    client.ok(update, Some(Json::new(group))).await;
    assert!(on_disk("subscriptionGroup.json", "g"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topics_live_and_die_by_request() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let wish = |topic: &str, attributes: &str| UpdateAndCreateTopic {
        topic: topic.into(),
        attributes: Some(attributes.into()),
        ..UpdateAndCreateTopic::default()
    };
    for (topic, attributes, code, remark) in [
        (
            "a b",
            "",
            INVALID,
            "The specified topic contains illegal characters",
        ),
        (
            "OFFSET_MOVED_EVENT",
            "",
            INVALID,
            "The topic[OFFSET_MOVED_EVENT] is conflict with system topic.",
        ),
        (
            "t",
            "+message.type=MIXED",
            INVALID,
            "MIXED message type is not supported.",
        ),
        ("t", "+zz=1", 1, "unsupported key: zz"),
    ] {
        let refused = client.refused(wish(topic, attributes), ()).await;
        assert_eq!(refused.0, code, "{topic} {attributes}");
        assert!(refused.1.starts_with(remark), "{}", refused.1);
    }
    client.ok(wish("t", "+message.type=FIFO"), ()).await;
    assert_eq!(client.topic("t").await.attributes["message.type"], "FIFO");
    let version = || async { client.ok(GetAllTopicConfig, ()).await.1.value.data_version };
    let before = version().await;
    client.ok(wish("t", ""), ()).await;
    assert_eq!(version().await, before, "nothing changed");
    let two = |names: &[&str]| {
        let topic = |name: &&str| TopicConfig {
            topic_name: (*name).into(),
            ..TopicConfig::default()
        };
        Json::new(CreateTopicList {
            topic_config_list: names.iter().map(topic).collect(),
        })
    };
    assert_eq!(
        client
            .refused(UpdateAndCreateTopicList, two(&["n1", "n/2"]))
            .await
            .0,
        INVALID
    );
    client.ok(UpdateAndCreateTopicList, two(&["n1", "n2"])).await;
    client.topic("n2").await;

    client.send("t", 0, "", "x").await;
    client.await_max("t", 0, 1).await;
    let delete = |topic: &str| DeleteTopicInBroker { topic: topic.into() };
    assert_eq!(
        client.refused(delete(" "), ()).await,
        (INVALID, "The specified topic is blank.".into())
    );
    assert_eq!(client.refused(delete("TBW102"), ()).await.0, INVALID);
    client.ok(delete("t"), ()).await;
    client.ok(delete("t"), ()).await;
    let get = GetTopicConfig {
        topic: "t".into(),
        lo: None,
    };
    assert_eq!(
        client.refused(get, ()).await,
        (codes::TOPIC_NOT_EXIST, "No topic in this broker. topic: t".into())
    );
    let max = GetMaxOffset {
        topic: "t".into(),
        ..GetMaxOffset::default()
    };
    assert_eq!(client.ok(max, ()).await.0.offset, 0);
    assert!(
        !broker.dir.path().join("consumequeue").join("t").exists(),
        "asking makes no queue"
    );
    client.create_topic("t", 1).await;
    assert_eq!(
        client.send("t", 0, "", "y").await.queue_offset,
        0,
        "a new life starts at 0"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_by_end_and_time() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for i in 0..4 {
        client.send("t", 0, "", &i.to_string()).await;
    }
    client.await_max("t", 0, 4).await;
    let by_time = |topic: &str, timestamp, boundary_type| SearchOffsetByTimestamp {
        topic: topic.into(),
        timestamp,
        boundary_type,
        ..SearchOffsetByTimestamp::default()
    };
    let far = 4_000_000_000_000;
    assert_eq!(client.ok(by_time("t", 1, Boundary::Lower), ()).await.0.offset, 0);
    assert!(client.ok(by_time("t", far, Boundary::Upper), ()).await.0.offset >= 3);
    let earliest = GetEarliestMsgStoretime {
        topic: "t".into(),
        ..GetEarliestMsgStoretime::default()
    };
    assert!(client.ok(earliest, ()).await.0.timestamp > 1_600_000_000_000);
    // A missing topic: 0, 0, 0, -1.
    let min = GetMinOffset {
        topic: "no".into(),
        ..GetMinOffset::default()
    };
    assert_eq!(
        client.ok(by_time("no", far, Boundary::Lower), ()).await.0.offset,
        0
    );
    assert_eq!(client.ok(min, ()).await.0.offset, 0);
    let earliest = GetEarliestMsgStoretime {
        topic: "no".into(),
        ..GetEarliestMsgStoretime::default()
    };
    assert_eq!(client.ok(earliest, ()).await.0.timestamp, -1);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_found_by_key_and_offset() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for i in 0..6 {
        let keys = if i % 2 == 0 { "even common" } else { "odd common" };
        let header = SendMessageV2 {
            properties: format!("KEYS\u{1}{keys}\u{2}UNIQ_KEY\u{1}U{i}\u{2}"),
            ..message("t", 0)
        };
        client.ok(header, bytes::Bytes::from(i.to_string())).await;
    }
    client.await_max("t", 0, 6).await;
    let by_key = |key: &str, max_num| QueryMessage {
        topic: "t".into(),
        key: key.into(),
        max_num,
        begin_timestamp: 0,
        end_timestamp: i64::MAX,
        ..QueryMessage::default()
    };
    eventually(async || bodies(&client.ask(by_key("common", 32), ()).await).len() == 6).await;
    assert_eq!(bodies(&client.ask(by_key("even", 32), ()).await).len(), 3);
    assert_eq!(bodies(&client.ask(by_key("common", 2), ()).await).len(), 2);
    let unique = QueryMessage {
        unique_key_query: Some(true),
        ..by_key("U3", 1)
    };
    assert_eq!(bodies(&client.ask(unique, ()).await), ["3"]);
    let nothing = client.ask(by_key("absent", 32), ()).await;
    assert_eq!(nothing.code, codes::QUERY_NOT_FOUND);
    assert!(nothing.fields.get("indexLastUpdatePhyoffset").is_some());
    for offset in [-1, 7, 1 << 40] {
        let header = ViewMessageById { topic: None, offset };
        assert_eq!(
            client.refused(header, ()).await,
            (1, format!("can not find message by the offset, {offset}"))
        );
    }
    let entries = |index, count| QueryConsumeQueue {
        topic: "t".into(),
        index,
        count,
        ..QueryConsumeQueue::default()
    };
    let body = client.ok(entries(1, 4), ()).await.1.value;
    assert_eq!(
        (body.min_queue_index, body.max_queue_index, body.queue_data.len()),
        (0, 6, 4)
    );
    let record = ViewMessageById {
        topic: None,
        offset: body.queue_data[0].physic_offset,
    };
    let record = client.ok(record, ()).await.1;
    assert_eq!(record.len(), body.queue_data[0].physic_size as usize);
    assert_eq!(MessageView::parse_checked(&record).unwrap().queue_offset(), 1);
    let beyond = client.ask(entries(6, 4), ()).await;
    assert_eq!(
        (beyond.code, beyond.remark.as_str()),
        (0, "Index 6 of 0@t is not exist!")
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_show_what_happened() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic_with("t", 3, 2, Perm::READ_WRITE).await;
    for _ in 0..7 {
        client.send("t", 1, "", "x").await;
    }
    client.await_max("t", 1, 7).await;
    client.pull(pull("t", 1, 0, "*")).await;
    let stats = GetTopicStatsInfo { topic: "t".into() };
    let table = client.ok(stats, ()).await.1.value.offset_table;
    assert_eq!(table.len(), 3, "queues to write or to read");
    let queue = table.iter().find(|(q, _)| q.queue_id == 1).unwrap().1;
    assert_eq!((queue.min_offset, queue.max_offset), (0, 7));
    assert!(queue.last_update_timestamp > 0);
    let missing = GetTopicStatsInfo { topic: "no".into() };
    assert_eq!(
        client.refused(missing, ()).await,
        (17, "topic[no] not exist".into())
    );

    let view = |name: &str, key: &str| ViewBrokerStatsData {
        stats_name: name.into(),
        stats_key: key.into(),
    };
    client.ok(view("TOPIC_PUT_NUMS", "t"), ()).await;
    client.ok(view("GROUP_GET_NUMS", "t@cg"), ()).await;
    assert_eq!(
        client.refused(view("TOPIC_PUT_NUMS", "no"), ()).await,
        (1, "The stats <TOPIC_PUT_NUMS> <no> not exist".into())
    );

    let info = client.ok(GetBrokerRuntimeInfo, ()).await.1.value.table;
    // protocol.md §8.16: a missing one breaks mqadmin.
    for key in [
        "bootTimestamp",
        "runtime",
        "brokerActive",
        "brokerVersion",
        "brokerVersionDesc",
        "msgPutTotalTodayNow",
        "msgPutTotalTodayMorning",
        "msgPutTotalYesterdayMorning",
        "msgGetTotalTodayNow",
        "msgGetTotalTodayMorning",
        "msgGetTotalYesterdayMorning",
        "putTps",
        "getFoundTps",
        "getMissTps",
        "getTransferredTps",
        "getTotalTps",
        "putMessageTimesTotal",
        "putMessageFailedTimes",
        "putMessageSizeTotal",
        "putMessageAverageSize",
        "putMessageEntireTimeMax",
        "getMessageEntireTimeMax",
        "putMessageDistributeTime",
        "putLatency99",
        "putLatency999",
        "dispatchMaxBuffer",
        "dispatchBehindBytes",
        "pageCacheLockTimeMills",
        "commitLogMinOffset",
        "commitLogMaxOffset",
        "commitLogDiskRatio",
        "consumeQueueDiskRatio",
        "commitLogDirCapacity",
        "earliestMessageTimeStamp",
        "remainTransientStoreBufferNumbs",
        "remainHowManyDataToFlush",
        "startAcceptSendRequestTimeStamp",
        "sendThreadPoolQueueSize",
        "sendThreadPoolQueueCapacity",
        "sendThreadPoolQueueHeadWaitTimeMills",
        "pullThreadPoolQueueSize",
        "pullThreadPoolQueueHeadWaitTimeMills",
        "queryThreadPoolQueueSize",
        "ackThreadPoolQueueSize",
        "litePullThreadPoolQueueSize",
        "EndTransactionQueueSize",
        "EndTransactionThreadPoolQueueCapacity",
        "timerReadBehind",
        "timerOffsetBehind",
        "timerCongestNum",
        "timerEnqueueTps",
        "timerDequeueTps",
    ] {
        assert!(info.contains_key(key), "{key}");
    }
    assert_eq!(info["putMessageTimesTotal"], "7");
    assert_eq!(info["msgPutTotalTodayNow"], "7");
    assert_eq!(info["msgGetTotalTodayNow"], "7");
    assert!(info.keys().any(|key| key.starts_with("commitLogDiskRatio_")));
    let ha = client.ok(GetBrokerHaStatus, ()).await.1.value;
    assert!(ha.master && ha.master_commit_log_max_offset > 0);
    let span = QueryConsumeTimeSpan {
        topic: "t".into(),
        group: "cg".into(),
    };
    let spans = client.ok(span, ()).await.1.value.consume_time_span_set;
    assert_eq!(spans.len(), 2, "queues to write");
    assert!(spans[1].min_time_stamp > 0 && spans[1].max_time_stamp >= spans[1].min_time_stamp);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_change_are_kept_and_guarded() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let update = |text: &str| Text(text.to_owned());
    for guarded in [
        "brokerConfigPath=/nowhere",
        "configBlackList=",
        "storePathRootDir=/tmp",
    ] {
        assert_eq!(
            client.refused(UpdateBrokerConfig, update(guarded)).await,
            (
                codes::NO_PERMISSION,
                "Can not update config in black list.".into()
            )
        );
    }
    for bad in [
        "brokerPermission=9",
        "longPollingEnable=maybe",
        "flushDiskType=LATER",
        // Two lines when it is written to a properties file.
        "zz\\nstorePathRootDir=/tmp/x",
    ] {
        let (code, remark) = client.refused(UpdateBrokerConfig, update(bad)).await;
        assert_eq!(code, codes::SYSTEM_ERROR);
        assert!(remark.contains(bad) && remark.contains("allowed is"), "{remark}");
    }
    let text =
        "maxTransferCountOnMessageInMemory=48\nrecallMessageEnable=true\nautoCreateTopicEnable=false\n";
    client.ok(UpdateBrokerConfig, update(text)).await;
    let shown =
        |text: String| ConfigFile::load(None, &text.lines().map(str::to_owned).collect::<Vec<_>>()).unwrap();
    let (header, Text(all)) = client.ok(GetBrokerConfig, ()).await;
    assert!(header.version.contains("\"counter\":1"), "{}", header.version);
    let mut sorted: Vec<&str> = all.lines().collect();
    sorted.sort_unstable();
    assert_eq!(sorted, all.lines().collect::<Vec<_>>());
    let entries = shown(all);
    for (key, value) in [
        ("maxTransferCountOnMessageInMemory", "48"),
        ("recallMessageEnable", "true"),
        ("autoCreateTopicEnable", "false"),
        ("brokerName", "broker-t"),
        ("brokerClusterName", "DefaultCluster"),
    ] {
        assert_eq!(entries.entries().get(key), Some(value), "{key}");
    }
    client.create_topic("t", 1).await;
    for _ in 0..60 {
        client.send("t", 0, "", "x").await;
    }
    client.await_max("t", 0, 60).await;
    let many = PullMessage {
        max_msg_nums: 60,
        ..pull("t", 0, 0, "*")
    };
    assert_eq!(bodies(&client.pull(many).await).len(), 48, "in force at once");
    assert_eq!(
        client.refused(message("u", 0), "x".into()).await.0,
        codes::TOPIC_NOT_EXIST
    );

    let dir = broker.stop().await;
    let broker = TestBroker::on(dir, loopback(), |_| {}).await;
    let client = broker.client().await;
    let entries = shown(client.ok(GetBrokerConfig, ()).await.1.0);
    assert_eq!(
        entries.entries().get("maxTransferCountOnMessageInMemory"),
        Some("48"),
        "after a restart"
    );
    assert_eq!(entries.entries().get("recallMessageEnable"), Some("true"));
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_file_is_written_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("broker.conf");
    std::fs::write(&path, "# mine\nregionId=north\nunknownKey=1\n").unwrap();
    let file = ConfigFile::load(Some(&path), &["traceOn=false".into()]).unwrap();
    let base = Settings {
        broker: loopback(),
        store: small_store(dir.path()),
        ..Settings::default()
    };
    let settings = base.over(&file).unwrap();
    assert_eq!(settings.unknown.keys().collect::<Vec<_>>(), ["unknownKey"]);
    let broker = Broker::start_with(settings).await.unwrap();
    let client = Client::new(&broker.addr().to_string()).await;
    client.create_topic("t", 1).await;
    let reply = client.send("t", 0, "", "x").await;
    assert_eq!(
        (reply.msg_region.as_deref(), reply.trace_on),
        (Some("north"), Some(false))
    );
    client.ok(UpdateBrokerConfig, Text("regionId=south".into())).await;
    assert_eq!(
        client.send("t", 0, "", "x").await.msg_region.as_deref(),
        Some("south")
    );
    broker.stop().await.unwrap();
    let written = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        written, "regionId=south\nunknownKey=1\n",
        "overrides are not written down"
    );
    assert!(path.with_extension("conf.bak").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_cannot_start_says_why() {
    let broker = TestBroker::start().await;
    let port = broker.broker.addr().port();
    for taken in [port, port + 2] {
        let dir = tempfile::tempdir().unwrap();
        let config = BrokerConfig {
            listen_port: taken,
            ..loopback()
        };
        let Err(e) = Broker::start(config, small_store(dir.path())).await else {
            panic!("two brokers on one port");
        };
        assert!(matches!(e, Error::Listen { .. }));
        assert!(
            e.to_string()
                .starts_with(&format!("cannot listen on 127.0.0.1:{port}")),
            "{e}"
        );
        assert!(
            !dir.path().join("commitlog").exists(),
            "noticed before the store was touched"
        );
    }
    let second = Broker::start(loopback(), small_store(broker.dir.path())).await;
    assert!(matches!(second, Err(Error::Store(_))), "the store is locked");
    let odd = BrokerConfig {
        broker_name: "a/b".into(),
        ..loopback()
    };
    let refused = Broker::start(odd, small_store(broker.dir.path()))
        .await
        .unwrap_err();
    assert!(refused.to_string().starts_with("brokerName=a/b: "), "{refused}");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_is_quick_and_tables_are_written() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    let start = std::time::Instant::now();
    broker.broker.stop().await.unwrap();
    broker.broker.stop().await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    for table in ["topics", "subscriptionGroup", "consumerOffset"] {
        assert!(
            broker
                .dir
                .path()
                .join("config")
                .join(format!("{table}.json"))
                .exists(),
            "{table}"
        );
    }
    let text = std::fs::read_to_string(broker.dir.path().join("config/topics.json")).unwrap();
    assert!(text.contains("\"topicConfigTable\":{"), "Java's pretty form");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_written_keeps_no_other_back() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.heartbeat("c", "g", "t", "*").await;
    let config = broker.dir.path().join("config");
    eventually(async || config.join("subscriptionGroup.json").exists()).await;
    // Nothing can be renamed over a directory that holds something.
    let topics = config.join("topics.json");
    std::fs::remove_file(&topics).unwrap();
    std::fs::create_dir_all(topics.join("in the way")).unwrap();
    let commit = UpdateConsumerOffset {
        consumer_group: "g".into(),
        topic: "t".into(),
        queue_id: Some(0),
        commit_offset: Some(7),
        ..UpdateConsumerOffset::default()
    };
    client.ok(commit, ()).await;
    assert!(broker.broker.stop().await.is_err());
    let offsets = std::fs::read_to_string(config.join("consumerOffset.json")).unwrap();
    assert!(offsets.contains("t@g"), "{offsets}");
}

/// 2001 to 2004, 908 and 1007 as Java 5.3.3 answers them (`AdminBrokerProcessor`).
#[tokio::test(flavor = "multi_thread")]
async fn cold_reads_have_thresholds_and_a_master_has_no_flush_offset() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client
        .ok(UpdateColdDataFlowCtrConfig, Text("CG_LAG=1000\nCG_B=5".into()))
        .await;
    let info = client.ok(GetColdDataFlowCtrInfo, ()).await.1.value;
    assert_eq!(
        (info.cg_cold_read_threshold, info.global_cold_read_threshold),
        (3_145_728, 104_857_600)
    );
    assert_eq!(info.config_table["CG_LAG"], 1000);
    assert!(info.runtime_table.is_empty() && info.global_acc == 0);
    let refused = client
        .refused(UpdateColdDataFlowCtrConfig, Text("CG_LAG=x".into()))
        .await;
    assert_eq!(refused.0, 1, "{refused:?}");
    client
        .ok(RemoveColdDataFlowCtrConfig, Text("CG_LAG".into()))
        .await;
    client
        .ok(RemoveColdDataFlowCtrConfig, Text("CG_LAG".into()))
        .await;
    let left = client.ok(GetColdDataFlowCtrInfo, ()).await.1.value.config_table;
    assert_eq!(left.into_keys().collect::<Vec<_>>(), ["CG_B"]);

    let mode = |mode: Option<&str>| SetCommitlogReadMode {
        read_ahead_mode: mode.map(str::to_owned),
    };
    for (bad, code, remark) in [
        (None, 1, "set commitlog readahead mode param error"),
        (Some("x"), 1, "set commitlog readahead mode failed"),
        (
            Some("5"),
            INVALID,
            "set commitlog readahead mode param value error",
        ),
    ] {
        assert_eq!(
            client.refused(mode(bad), ()).await,
            (code, remark.to_owned()),
            "{bad:?}"
        );
    }
    let setting = async || {
        let text = client.ok(GetBrokerConfig, ()).await.1.0;
        text.contains("dataReadAheadEnable=true")
    };
    assert!(setting().await);
    client.ok(mode(Some("1")), ()).await;
    assert!(!setting().await);
    client.ok(mode(Some("0")), ()).await;
    assert!(setting().await);

    let header = ResetMasterFlushOffset {
        master_flush_offset: Some(7),
    };
    client.ok(header, ()).await;
    assert_eq!(
        client.refused(GetBrokerEpochCache, ()).await,
        (1, "this request only for controllerMode ".into())
    );
    broker.stop().await;
}

/// With a hot part of 0 % everything but the newest byte is cold: the second pull of a push consumer is refused, a pull
/// consumer waits and gets one message.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_reads_too_much_cold_data_is_slowed_down() {
    let config = BrokerConfig {
        cg_cold_read_threshold: 1,
        ..loopback()
    };
    let broker = TestBroker::with(config, |store| {
        store.cold_data_flow_control_enable = true;
        store.access_message_in_memory_hot_ratio = 0;
    })
    .await;
    let client = broker.client().await;
    for n in 0..6 {
        client.send("t", 0, "", &format!("{n}")).await;
    }
    client.await_max("t", 0, 6).await;
    let pull = |offset: i64| PullMessage {
        consumer_group: "cg".into(),
        topic: "t".into(),
        queue_id: 0,
        queue_offset: offset,
        max_msg_nums: 3,
        sys_flag: PullMessage::SUBSCRIPTION,
        subscription: Some("*".into()),
        ..PullMessage::default()
    };
    let count = async |offset: i64| {
        let (_, body) = client.ok(pull(offset), ()).await;
        body.0
            .iter()
            .map(|chunk| rmq::protocol::message::records(chunk).count())
            .sum::<usize>()
    };
    assert_eq!(count(0).await, 3, "the first pull is free");
    let started = std::time::Instant::now();
    assert_eq!(
        count(3).await,
        1,
        "without a heartbeat as of a pull consumer: one message, after a wait"
    );
    assert!(started.elapsed() >= Duration::from_secs(3));
    // A push consumer is known by its heartbeat; it has a thread that tries again.
    client.heartbeat("pusher", "cg", "t", "*").await;
    let refused = client.refused(pull(3), ()).await;
    assert_eq!(
        refused,
        (
            2,
            "This consumer group is reading cold data. It has been flow control".into()
        )
    );
    let account = client.ok(GetColdDataFlowCtrInfo, ()).await.1.value.runtime_table;
    assert!(account["cg"].cold_acc > 0 || account["cg"].last_cold_read_time_mills > 0);
    broker.stop().await;
}
