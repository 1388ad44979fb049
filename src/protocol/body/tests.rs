//! `tests/golden/bodies.tsv` was written by the classes of RocketMQ 5.3.3: name, tab, body.

use std::collections::BTreeMap;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::protocol::json;
use crate::protocol::model::{DataVersion, Language, MessageQueue, TopicFilterType};
use crate::protocol::{Body, Error};

const GOLDEN: &str = include_str!("../../../tests/golden/bodies.tsv");

fn golden(name: &str) -> &'static str {
    GOLDEN
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix('\t'))
        .unwrap_or_else(|| panic!("no golden body {name}"))
}

fn read<T: DeserializeOwned>(text: &str) -> T {
    json::from_slice(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

fn same<T: Serialize + DeserializeOwned>(text: &str) {
    let value: T = read(text);
    assert_eq!(String::from_utf8(json::to_vec(&value)).unwrap(), text);
    // What we write strictly, and what a peer with quoted keys sends, is the same value.
    let again: T = json::from_slice(&json::to_vec_strict(&value)).unwrap();
    assert_eq!(String::from_utf8(json::to_vec(&again)).unwrap(), text);
}

#[test]
fn every_golden_body_is_read_and_written_back_byte_for_byte() {
    let mut seen = 0;
    macro_rules! check {
        ($($name:literal => $ty:ty),* $(,)?) => { $(same::<$ty>(golden($name)); seen += 1;)* };
    }
    check! {
        "TopicRouteData" => TopicRouteData, "TopicRouteData2" => TopicRouteData, "ClusterInfo" => ClusterInfo,
        "TopicStatsTable" => TopicStatsTable, "ConsumeStats" => ConsumeStats, "ConsumeStatsList" => ConsumeStatsList,
        "HeartbeatData" => HeartbeatData, "SubscriptionGroupConfig" => SubscriptionGroupConfig,
        "SubscriptionGroupConfig2" => SubscriptionGroupConfig, "GroupRetryPolicy" => GroupRetryPolicy,
        "LockBatchRequest" => LockBatchRequest, "LockBatchAnswer" => LockBatchAnswer,
        "ResetOffset" => ResetOffset, "ResetOffsetForC" => ResetOffsetForC, "ConsumerStatus" => ConsumerStatus,
        "ConsumerConnection" => ConsumerConnection, "ProducerConnection" => ProducerConnection,
        "ProducerTableInfo" => ProducerTableInfo, "ConsumerRunningInfo" => ConsumerRunningInfo,
        "ConsumeMessageDirectlyResult" => ConsumeMessageDirectlyResult,
        "QueryConsumeTimeSpan" => QueryConsumeTimeSpanAnswer, "BrokerStatsData" => BrokerStatsData,
        "QueryConsumeQueue" => QueryConsumeQueueAnswer, "HaRuntimeInfo" => HaRuntimeInfo,
        "QueryCorrectionOffset" => QueryCorrectionOffsetAnswer, "GroupList" => GroupList, "TopicList" => TopicList,
        "KvTable" => KvTable, "ConsumerList" => ConsumerList, "QuerySubscription" => QuerySubscriptionAnswer,
        "BrokerMemberGroup" => BrokerMemberGroupAnswer, "CheckClientRequest" => CheckClientRequest,
        "TopicConfigTable" => TopicConfigTable, "RegisterBrokerBody" => RegisterBrokerBody,
    }
    // `strict`, `deflated` and `SubscriptionGroupTable` have tests of their own.
    assert_eq!(GOLDEN.lines().count(), seen + 3);
}

#[test]
fn bodies_captured_from_a_broker_are_written_back_byte_for_byte() {
    same::<TopicRouteData>(
        r#"{"brokerDatas":[{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a","cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}"#,
    );
    same::<ConsumerOffsets>(
        r#"{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":5},"groupTopicMap":{"g":["t"]},"offsetTable":{"t@g":{0:6,1:3}}}"#,
    );
    same::<DelayOffsets>(
        r#"{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":5},"offsetTable":{1:2,3:2}}"#,
    );
    same::<ColdDataFlowInfo>(
        r#"{"cgColdReadThreshold":3145728,"configTable":{},"globalAcc":0,"globalColdReadThreshold":104857600,"runtimeTable":{}}"#,
    );
    same::<ConsumeStats>(r#"{"consumeTps":0.0,"offsetTable":{}}"#);
    same::<SubscriptionGroupTable>(
        r#"{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":5},"forbiddenTable":{},"subscriptionGroupTable":{}}"#,
    );
    same::<CreateTopicList>(r#"{"topicConfigList":[]}"#);
    same::<SubscriptionGroupList>(r#"{"groupConfigList":[]}"#);
    same::<GroupForbidden>(r#"{"group":"g","readable":true,"topic":"t"}"#);
}

/// K02: both forms of integer and object keys.
#[test]
fn routes_are_written_in_either_form_and_read_in_both() {
    let route: TopicRouteData = read(golden("TopicRouteData"));
    assert_eq!(
        String::from_utf8(json::to_vec_strict(&route)).unwrap(),
        golden("strict")
    );
    assert_eq!(read::<TopicRouteData>(golden("strict")), route);
    // A standard JSON reader understands the strict form.
    let standard: serde_json::Value = serde_json::from_str(golden("strict")).unwrap();
    assert_eq!(standard["brokerDatas"][0]["brokerAddrs"]["1"], "127.0.0.1:10921");

    let quoted = golden("ConsumeStats").replace(
        r#"{"brokerName":"b","queueId":2,"topic":"t"}"#,
        r#""{\"brokerName\":\"b\",\"queueId\":2,\"topic\":\"t\"}""#,
    );
    assert_eq!(read::<ConsumeStats>(&quoted), read(golden("ConsumeStats")));
    let old = r#"{"queueDatas":[{"brokerName":"a","topicSynFlag":3}]}"#;
    assert_eq!(read::<TopicRouteData>(old).queue_datas[0].topic_sys_flag, 3);
}

/// K03: enums in any spelling, absent or unknown.
#[test]
fn heartbeat_enums_are_read_in_every_spelling() {
    let consumer = |body: &str| {
        read::<HeartbeatData>(&format!(
            r#"{{"clientID":"c","consumerDataSet":[{{"groupName":"g"{body}}}]}}"#
        ))
        .consumer_data_set
        .remove(0)
    };
    for (spelling, kind) in [
        ("\"CONSUME_PASSIVELY\"", ConsumeType::Passively),
        ("\"consume_passively\"", ConsumeType::Passively),
        ("1", ConsumeType::Passively),
        ("\"1\"", ConsumeType::Passively),
        ("\"CONSUME_ACTIVELY\"", ConsumeType::Actively),
        ("\"Consume_Actively\"", ConsumeType::Actively),
        ("0", ConsumeType::Actively),
        ("\"consume_pop\"", ConsumeType::Pop),
        ("2", ConsumeType::Pop),
        ("null", ConsumeType::Passively),
        ("\"CONSUME_SOMEHOW\"", ConsumeType::Passively),
        ("99", ConsumeType::Passively),
    ] {
        let data = consumer(&format!(",\"consumeType\":{spelling}"));
        assert_eq!(data.consume_type, kind, "{spelling}");
    }
    for (spelling, model) in [
        ("\"broadcasting\"", MessageModel::Broadcasting),
        ("0", MessageModel::Broadcasting),
        ("1", MessageModel::Clustering),
        ("\"?\"", MessageModel::Clustering),
    ] {
        let data = consumer(&format!(",\"MessageModel\":{spelling}"));
        assert_eq!(data.message_model, model, "{spelling}");
    }
    let absent = consumer("");
    assert_eq!(absent.consume_type, ConsumeType::Passively);
    assert_eq!(absent.message_model, MessageModel::Clustering);
    assert_eq!(absent.consume_from_where, ConsumeFromWhere::LastOffset);
    assert_eq!(
        consumer(",\"consumeFromWhere\":5").consume_from_where,
        ConsumeFromWhere::Timestamp
    );
}

/// K03: what cannot be ignored names its field.
#[test]
fn a_wrong_heartbeat_field_is_named() {
    let error = json::from_slice::<HeartbeatData>(
        br#"{"consumerDataSet":[{"subscriptionDataSet":[{"subVersion":"x"}]}]}"#,
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("consumerDataSet.subscriptionDataSet.subVersion: `x` is not a whole number"),
        "{error}"
    );
}

/// K07, for bodies: an empty object is every struct's default.
#[test]
fn absent_fields_have_javas_defaults() {
    let topic: TopicConfig = read("{}");
    assert_eq!(topic, TopicConfig::default());
    assert_eq!(
        (
            topic.read_queue_nums,
            topic.write_queue_nums,
            topic.perm.0,
            topic.order
        ),
        (16, 16, 6, false)
    );
    let odd: TopicConfig = read(r#"{"topicFilterType":"NEW_TAG","isOrder":true,"topicName":"t"}"#);
    assert_eq!(
        (odd.topic_filter_type, odd.order),
        (TopicFilterType::SingleTag, true)
    );

    let group: SubscriptionGroupConfig = read("{}");
    assert_eq!(group, SubscriptionGroupConfig::default());
    assert!(group.consume_enable && group.consume_broadcast_enable && group.consume_from_min_enable);
    assert_eq!(
        (
            group.retry_max_times,
            group.retry_queue_nums,
            group.consume_timeout_minute
        ),
        (16, 1, 15)
    );
    let retry: ExponentialRetryPolicy = read("{}");
    assert_eq!(
        (retry.initial, retry.max, retry.multiplier),
        (5_000, 7_200_000, 2)
    );

    let subscription: SubscriptionData = read("{\"topic\":\"t\",\"expressionType\":null}");
    assert_eq!(subscription.expression_type, SubscriptionData::TAG);
    assert!(subscription.is_tag());
    assert!(read::<HeartbeatData>("{\"isWithoutSub\":true}").without_sub);
    assert!(read::<HeartbeatData>("{\"withoutSub\":true}").without_sub);
    assert_eq!(
        read::<Connection>("{\"language\":\"COBOL\"}").language,
        Language::Other
    );
    assert_eq!(
        read::<TopicQueueMappingDetail>("{}"),
        TopicQueueMappingDetail::default()
    );
    assert_eq!(read::<LogicQueueMappingItem>("{}").end_offset, -1);
}

#[test]
fn the_liveness_table_is_absent_unless_filled() {
    let mut cluster = ClusterInfo::default();
    assert_eq!(
        json::to_vec(&cluster),
        br#"{"brokerAddrTable":{},"clusterAddrTable":{}}"#
    );
    cluster.rmq_now = Some(9);
    cluster.rmq_live_table = Some(BTreeMap::from([("a:1".to_owned(), LiveBroker::default())]));
    assert_eq!(
        String::from_utf8(json::to_vec(&cluster)).unwrap(),
        r#"{"brokerAddrTable":{},"clusterAddrTable":{},"rmqLiveTable":{"a:1":{"brokerId":0,"brokerName":"","clusterName":"","dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"heartbeatTimeoutMillis":0,"lastUpdateTimestamp":0}},"rmqNow":9}"#
    );
}

#[test]
fn lag_is_what_is_not_committed() {
    let stats: ConsumeStats = read(golden("ConsumeStats"));
    let queue = MessageQueue {
        broker_name: "b".into(),
        queue_id: 2,
        topic: "t".into(),
    };
    assert_eq!(
        (
            stats.offset_table[&queue].lag(),
            stats.offset_table[&queue].in_flight()
        ),
        (5, 2)
    );
}

#[test]
fn a_reset_push_is_read_in_both_shapes() {
    for name in ["ResetOffset", "ResetOffsetForC"] {
        let push = ResetOffsetPush::decode(golden(name).into()).unwrap();
        assert_eq!(matches!(push, ResetOffsetPush::List(_)), name.ends_with('C'));
        assert_eq!(crate::protocol::frame::join(push.encode()), golden(name));
    }
}

fn deflated() -> Vec<u8> {
    let hex = golden("deflated");
    (0..hex.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap())
        .collect()
}

/// What the deflated form keeps of the golden body.
fn registered() -> RegisterBrokerBody {
    let mut body: RegisterBrokerBody = read(golden("RegisterBrokerBody"));
    let table = &mut body.topic_config_serialize_wrapper;
    table.mapping_data_version = None;
    table.topic_queue_mapping_detail_map = None;
    body
}

#[test]
fn a_registration_is_read_in_all_three_forms() {
    const LIMIT: usize = 1 << 20;
    let body = registered();
    assert_eq!(
        RegisterBrokerBody::decode(&deflated(), true, 479, LIMIT).unwrap(),
        body
    );
    assert_eq!(
        RegisterBrokerBody::decode(golden("RegisterBrokerBody").as_bytes(), false, 479, LIMIT).unwrap(),
        read(golden("RegisterBrokerBody"))
    );
    // Before 5.0.0 the deflated form has no mappings, before 3.0.11 there is only the topic table.
    let mut old = body.clone();
    old.topic_config_serialize_wrapper.topic_queue_mapping_info_map = None;
    let bytes = body.encode_compressed(412).unwrap();
    assert_eq!(RegisterBrokerBody::decode(&bytes, true, 412, LIMIT).unwrap(), old);
    let table = json::to_vec(&old.topic_config_serialize_wrapper);
    let bare = RegisterBrokerBody::decode(&table, false, 36, LIMIT).unwrap();
    assert_eq!(
        bare.topic_config_serialize_wrapper,
        old.topic_config_serialize_wrapper
    );
    assert_eq!(
        RegisterBrokerBody::decode(b"", false, 479, LIMIT).unwrap(),
        RegisterBrokerBody::default()
    );

    let bytes = body.encode_compressed(479).unwrap();
    assert_eq!(
        RegisterBrokerBody::decode_compressed(&bytes, 479, LIMIT).unwrap(),
        body
    );
}

#[test]
fn a_deflated_registration_cannot_grow_beyond_its_limit() {
    use std::io::Write;
    let bytes = deflated();
    assert!(RegisterBrokerBody::decode_compressed(&bytes, 479, 200).is_err());
    // 8 MiB of zeros in some 8 KiB.
    let mut bomb = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    for _ in 0..8 {
        bomb.write_all(&zeros).unwrap();
    }
    let bomb = bomb.finish().unwrap();
    let error = RegisterBrokerBody::decode_compressed(&bomb, 479, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("more than 1048576 bytes"), "{error}");
}

#[test]
fn a_broken_deflated_registration_is_refused() {
    let bytes = deflated();
    for end in 0..bytes.len() {
        let cut = RegisterBrokerBody::decode_compressed(&bytes[..end], 479, 1 << 20);
        // The last bytes are zlib's checksum; everything before it must be whole.
        assert!(cut.is_err(), "cut at {end}");
    }
    let pieces = |pieces: &[&[u8]]| {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        for piece in pieces {
            std::io::Write::write_all(&mut out, piece).unwrap();
        }
        RegisterBrokerBody::decode_compressed(&out.finish().unwrap(), 479, 1 << 20)
    };
    let version: &[u8] = b"\0\0\0\x02{}";
    let length = |r: Result<_, Error>| matches!(r, Err(Error::Length { .. }));
    assert!(length(pieces(&[b"\xff\xff\xff\xff"])));
    assert!(length(pieces(&[b"\x7f\xff\xff\xff"])));
    assert!(length(pieces(&[version])));
    assert!(
        length(pieces(&[version, b"\x7f\xff\xff\xff"])),
        "a count beyond the bytes left"
    );
    assert!(length(pieces(&[version, b"\0\0\0\x01", b"\0\0\0\x09t 1 1 6"])));
    for topic in ["t", "t 1 1 6", "t x 1 6 SINGLE_TAG", "t 1 1 6 NO_TAG"] {
        let text = [&(topic.len() as u32).to_be_bytes(), topic.as_bytes()].concat();
        assert!(pieces(&[version, b"\0\0\0\x01", &text]).is_err(), "{topic}");
    }
    let topic = "t 1 2 6 MULTI_TAG";
    let text = [&(topic.len() as u32).to_be_bytes(), topic.as_bytes()].concat();
    let read = pieces(&[version, b"\0\0\0\x01", &text, b"\0\0\0\0", b"\0\0\0\0"]).unwrap();
    let config = &read.topic_config_serialize_wrapper.topic_config_table["t"];
    assert_eq!(config.topic_filter_type, TopicFilterType::MultiTag);
    assert_eq!((config.read_queue_nums, config.write_queue_nums), (1, 2));
    assert_eq!(
        read.topic_config_serialize_wrapper.data_version,
        DataVersion::default()
    );
}
