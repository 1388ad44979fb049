//! Headers against the tables of the protocol and against frames captured from a 5.3.3 cluster.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::fields::Fields;
use crate::protocol::model::{Perm, SysFlag};
use crate::protocol::{Request, json};

fn fields(header: &str) -> Fields {
    json::header(header.as_bytes()).unwrap().ext_fields
}

fn as_map(fields: &Fields) -> BTreeMap<&str, &str> {
    fields.iter().collect()
}

/// Reads the header of a captured frame and writes the same fields back.
fn captured<R: Request>(frame: &str) -> R {
    let header = json::header(frame.as_bytes()).unwrap();
    assert_eq!(header.code, R::CODE, "{}", R::NAME);
    same_fields::<R>(frame)
}

fn same_fields<T: Serialize + DeserializeOwned>(frame: &str) -> T {
    let read = fields(frame);
    let value: T = read.to_value().unwrap();
    let written = Fields::from_value(&value).unwrap();
    for (name, text) in as_map(&read) {
        assert_eq!(written.get(name), Some(text), "{name} of {frame}");
    }
    value
}

#[test]
fn captured_requests_are_read_and_written_back() {
    let send: SendMessageV2 = captured(
        r#"{"code":310,"extFields":{"a":"pg_proto","b":"proto_t1","c":"TBW102","d":"4","e":"0","f":"0","g":"1795973553406","h":"0","i":"color\u0001red\u0002KEYS\u0001k1 k2\u0002UNIQ_KEY\u0001FD0000\u0002WAIT\u0001true\u0002TAGS\u0001TagA\u0002","j":"0","k":"false","m":"false","n":"broker-p"},"flag":0,"language":"JAVA","opaque":4,"serializeTypeCurrentRPC":"JSON","version":479}"#,
    );
    assert_eq!(
        send.properties,
        "color\u{1}red\u{2}KEYS\u{1}k1 k2\u{2}UNIQ_KEY\u{1}FD0000\u{2}WAIT\u{1}true\u{2}TAGS\u{1}TagA\u{2}"
    );
    assert_eq!(
        (send.born_timestamp, send.default_topic_queue_nums),
        (1_795_973_553_406, 4)
    );

    let pull: PullMessage = captured(
        r#"{"code":11,"extFields":{"queueId":"3","maxMsgBytes":"262144","maxMsgNums":"32","sysFlag":"2","suspendTimeoutMillis":"15000","commitOffset":"-1","bname":"broker-p","topic":"proto_t1","queueOffset":"0","expressionType":"TAG","subVersion":"1795973557098","consumerGroup":"cg_proto"},"flag":0,"language":"JAVA","opaque":97}"#,
    );
    assert_eq!(
        (pull.sys_flag, pull.commit_offset, pull.max_msg_bytes),
        (PullMessage::SUSPEND, -1, Some(262_144))
    );
    assert_eq!(pull.subscription, None);

    let end: EndTransaction = captured(
        r#"{"code":37,"extFields":{"producerGroup":"pg_proto","bname":"broker-p","commitLogOffset":"2474","topic":"proto_t1","msgId":"FD0009","tranStateTableOffset":"0","commitOrRollback":"8","transactionId":"FD0009","fromTransactionCheck":"false"},"flag":2}"#,
    );
    assert_eq!((end.commit_or_rollback, end.commit_log_offset), (8, 2474));
    captured::<CheckTransactionState>(
        r#"{"code":39,"extFields":{"bname":"broker-p","commitLogOffset":"5557","topic":"RMQ_SYS_TRANS_HALF_TOPIC","msgId":"FD000B","tranStateTableOffset":"3","offsetMsgId":"7F000001000093B300000000000015B5","transactionId":"FD000B"},"flag":2}"#,
    );
    let back: ConsumerSendMsgBack = captured(
        r#"{"code":36,"extFields":{"maxReconsumeTimes":"16","offset":"579","bname":"broker-p","delayLevel":"0","originTopic":"proto_t1","originMsgId":"FD0001","unitMode":"false","group":"cg_proto"},"flag":0}"#,
    );
    assert_eq!((back.offset, back.max_reconsume_times), (579, Some(16)));
    let commit: UpdateConsumerOffset = captured(
        r#"{"code":15,"extFields":{"queueId":"3","bname":"broker-p","commitOffset":"1","topic":"proto_t1","consumerGroup":"cg_proto"},"flag":2}"#,
    );
    assert_eq!((commit.queue_id, commit.commit_offset), (Some(3), Some(1)));
    captured::<HeartBeat>(r#"{"code":34,"extFields":{}}"#);
    let register: RegisterBroker = captured(
        r#"{"code":103,"extFields":{"brokerId":"0","bodyCrc32":"1199487181","clusterName":"ProtoCluster","brokerAddr":"127.0.0.1:37811","enableActingMaster":"false","haServerAddr":"192.0.2.2:37812","compressed":"false","brokerName":"broker-p"},"flag":0}"#,
    );
    assert_eq!(
        (register.body_crc32, register.enable_acting_master),
        (1_199_487_181, Some(false))
    );
    let topic: UpdateAndCreateTopic = captured(
        r#"{"code":17,"extFields":{"topic":"t","defaultTopic":"TBW102","readQueueNums":"8","writeQueueNums":"8","perm":"6","topicFilterType":"SINGLE_TAG","topicSysFlag":"0","order":"false","attributes":"","force":"false"}}"#,
    );
    assert_eq!((topic.perm, topic.attributes.as_deref()), (Perm(6), Some("")));
    let reset: InvokeBrokerToResetOffset = captured(
        r#"{"code":222,"extFields":{"topic":"t","group":"g","queueId":"-1","offset":"-1","timestamp":"-1","isForce":"true"}}"#,
    );
    assert_eq!(
        (reset.queue_id, reset.offset, reset.is_force),
        (-1, Some(-1), true)
    );
}

#[test]
fn captured_answers_are_read_and_written_back() {
    let sent: SendMessageReply = same_fields(
        r#"{"code":0,"extFields":{"queueId":"0","transactionId":"FD0002","msgId":"7F000001000093B3000000000000416E","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"6"},"flag":1}"#,
    );
    assert_eq!((sent.queue_offset, sent.trace_on), (6, Some(true)));
    let pulled: PullMessageReply = same_fields(
        r#"{"code":19,"extFields":{"suggestWhichBrokerId":"0","groupSysFlag":"0","nextBeginOffset":"2","maxOffset":"2","minOffset":"0","topicSysFlag":"0"},"flag":1,"remark":"OFFSET_OVERFLOW_ONE"}"#,
    );
    assert_eq!((pulled.next_begin_offset, pulled.offset_delta), (Some(2), None));
    let beat: HeartBeatReply = same_fields(
        r#"{"code":0,"extFields":{"IS_SUPPORT_HEART_BEAT_V2":"true","IS_SUB_CHANGE":"true"},"flag":1}"#,
    );
    assert_eq!(
        (beat.is_sub_change, beat.is_support_heart_beat_v2),
        (Some(true), Some(true))
    );
    // An error answer may have no field at all.
    assert_eq!(
        fields("{\"code\":16,\"flag\":1}")
            .to_value::<PullMessageReply>()
            .unwrap(),
        PullMessageReply::default()
    );
    let written = Fields::from_value(&PullMessageReply::default()).unwrap();
    assert!(written.is_empty());
}

const SEND: [(&str, &str); 14] = [
    ("a", "pg"),
    ("b", "t"),
    ("c", "TBW102"),
    ("d", "4"),
    ("e", "1"),
    ("f", "0"),
    ("g", "5"),
    ("h", "0"),
    ("i", ""),
    ("j", "0"),
    ("k", "false"),
    ("m", "false"),
    ("l", "16"),
    ("n", "b"),
];
const NAMES: [&str; 14] = [
    "producerGroup",
    "topic",
    "defaultTopic",
    "defaultTopicQueueNums",
    "queueId",
    "sysFlag",
    "bornTimestamp",
    "flag",
    "properties",
    "reconsumeTimes",
    "unitMode",
    "batch",
    "maxReconsumeTimes",
    "bname",
];
/// What no handler can do without.
const REQUIRED: [&str; 5] = ["b", "e", "f", "g", "h"];

/// K07: each field left out, one at a time, under both sets of names.
#[test]
fn a_send_header_does_without_each_optional_field() {
    for (i, (letter, _)) in SEND.iter().enumerate() {
        let without = |names: &dyn Fn(usize) -> &'static str| -> Fields {
            (0..14)
                .filter(|j| *j != i)
                .map(|j| (names(j), SEND[j].1))
                .collect()
        };
        let v2 = without(&|j| SEND[j].0).to_value::<SendMessageV2>();
        let batch = without(&|j| SEND[j].0).to_value::<SendBatchMessage>();
        let v1 = without(&|j| NAMES[j]).to_value::<SendMessage>();
        if REQUIRED.contains(letter) {
            assert!(v2.unwrap_err().to_string().contains(&format!("`{letter}`")));
            assert!(v1.unwrap_err().to_string().contains(NAMES[i]));
            continue;
        }
        let v1 = v1.unwrap();
        assert_eq!(SendMessage::from(v2.unwrap()), v1, "{letter}");
        assert_eq!(SendMessage::from(batch.unwrap()), v1, "{letter}");
        match NAMES[i] {
            "defaultTopicQueueNums" => assert_eq!(v1.default_topic_queue_nums, 4),
            "defaultTopic" => assert_eq!(v1.default_topic, "TBW102"),
            "reconsumeTimes" => assert_eq!(v1.reconsume_times, 0),
            "unitMode" => assert!(!v1.unit_mode),
            "batch" => assert!(!v1.batch),
            "maxReconsumeTimes" => assert_eq!(v1.max_reconsume_times, None),
            "bname" => assert_eq!(v1.bname, None),
            _ => {}
        }
    }
}

/// Pitfall: full names under the code of the letters.
#[test]
fn full_names_are_no_letters() {
    let full: Fields = (0..14).map(|j| (NAMES[j], SEND[j].1)).collect();
    assert!(
        full.to_value::<SendMessageV2>()
            .unwrap_err()
            .to_string()
            .contains("`b`")
    );
}

#[test]
fn optional_fields_may_all_be_absent() {
    fn none<R: Request>() {
        Fields::new()
            .to_value::<R>()
            .unwrap_or_else(|e| panic!("{}: {e}", R::NAME));
    }
    // Requests of which Java tolerates an entirely empty header.
    none::<GetRouteinfoByTopic>();
    none::<GetBrokerClusterInfo>();
    none::<GetBrokerMemberGroup>();
    none::<GetTopicsByCluster>();
    none::<PutKvConfig>();
    none::<GetKvConfig>();
    none::<DeleteKvConfig>();
    none::<GetKvlistByNamespace>();
    none::<NotifyMinBrokerIdChange>();
    none::<DeleteTopicInBroker>();
    none::<GetBrokerConsumeStats>();
    none::<ResumeCheckHalfMessage>();
    none::<SetCommitlogReadMode>();
    none::<HeartBeat>();
    none::<UpdateAndCreateSubscriptiongroup>();
    let commit: UpdateConsumerOffset = [("consumerGroup", "g"), ("topic", "t")]
        .into_iter()
        .collect::<Fields>()
        .to_value()
        .unwrap();
    assert_eq!((commit.queue_id, commit.commit_offset), (None, None));
    let max: GetMaxOffset = [("topic", "t"), ("queueId", "0")]
        .into_iter()
        .collect::<Fields>()
        .to_value()
        .unwrap();
    assert!(max.committed);
    let reset: InvokeBrokerToResetOffset = [("topic", "t"), ("group", "g")]
        .into_iter()
        .collect::<Fields>()
        .to_value()
        .unwrap();
    assert_eq!(
        reset,
        InvokeBrokerToResetOffset {
            topic: "t".into(),
            group: "g".into(),
            ..InvokeBrokerToResetOffset::default()
        }
    );
}

#[test]
fn odd_values_are_read_as_java_reads_them() {
    let search = |boundary: &'static str| {
        let fields: Fields = [
            ("topic", "t"),
            ("queueId", "0"),
            ("timestamp", "5"),
            ("boundaryType", boundary),
        ]
        .into_iter()
        .collect();
        fields
            .to_value::<SearchOffsetByTimestamp>()
            .unwrap()
            .boundary_type
    };
    assert_eq!(search("upper"), Boundary::Upper);
    assert_eq!(search("LOWER"), Boundary::Lower);
    assert_eq!(search("?"), Boundary::Lower);
    let fields: Fields = [("isOrder", "yes"), ("zz", "1")].into_iter().collect();
    assert!(!fields.to_value::<GetBrokerConsumeStats>().unwrap().is_order);
    let fields: Fields = [("isOrder", "TRUE")].into_iter().collect();
    assert!(fields.to_value::<GetBrokerConsumeStats>().unwrap().is_order);
    let wrong: Fields = [
        ("topic", "t"),
        ("readQueueNums", "1"),
        ("writeQueueNums", "1"),
        ("perm", "6"),
        ("topicFilterType", "X"),
    ]
    .into_iter()
    .collect();
    assert!(
        wrong
            .to_value::<UpdateAndCreateTopic>()
            .unwrap_err()
            .to_string()
            .contains("topicFilterType")
    );
}

#[test]
fn no_two_requests_share_a_code() {
    let mut seen = BTreeMap::new();
    macro_rules! codes {
        ($($name:ident)*) => {
            $(assert_eq!(seen.insert($name::CODE, $name::NAME), None, "{}", $name::NAME);)*
        };
    }
    codes! {
        SendMessage SendMessageV2 SendBatchMessage SendReplyMessage SendReplyMessageV2 PushReplyMessageToClient
        ConsumerSendMsgBack RecallMessage PullMessage LitePullMessage QueryConsumerOffset UpdateConsumerOffset
        SearchOffsetByTimestamp GetMaxOffset GetMinOffset GetEarliestMsgStoretime GetAllConsumerOffset GetAllDelayOffset
        InvokeBrokerToResetOffset ResetConsumerClientOffset InvokeBrokerToGetConsumerStatus GetConsumerStatusFromClient
        QueryCorrectionOffset CloneGroupOffset HeartBeat UnregisterClient CheckClientConfig GetConsumerListByGroup
        NotifyConsumerIdsChanged LockBatchMq UnlockBatchMq GetConsumerConnectionList GetProducerConnectionList
        GetAllProducerInfo GetConsumerRunningInfo ConsumeMessageDirectly EndTransaction CheckTransactionState
        ResumeCheckHalfMessage QueryMessage ViewMessageById QueryConsumeQueue GetRouteinfoByTopic GetBrokerClusterInfo
        GetBrokerMemberGroup GetAllTopicListFromNameserver GetTopicsByCluster GetSystemTopicListFromNs GetUnitTopicList
        GetHasUnitSubTopicList GetHasUnitSubUnunitTopicList DeleteTopicInNamesrv WipeWritePermOfBroker
        AddWritePermOfBroker UpdateNamesrvConfig GetNamesrvConfig RegisterBroker UnregisterBroker QueryDataVersion
        BrokerHeartbeat NotifyMinBrokerIdChange RegisterTopicInNamesrv PutKvConfig GetKvConfig DeleteKvConfig
        GetKvlistByNamespace UpdateAndCreateTopic UpdateAndCreateTopicList UpdateAndCreateStaticTopic
        DeleteTopicInBroker GetAllTopicConfig GetTopicConfig GetTopicStatsInfo QueryTopicConsumeByWho
        GetSystemTopicListFromBroker UpdateAndCreateSubscriptiongroup UpdateAndCreateSubscriptiongroupList
        GetAllSubscriptiongroupConfig GetSubscriptiongroupConfig DeleteSubscriptiongroup UpdateAndGetGroupForbidden
        QueryTopicsByConsumer QuerySubscriptionByConsumer GetConsumeStats GetBrokerConsumeStats QueryConsumeTimeSpan
        ViewBrokerStatsData UpdateBrokerConfig GetBrokerConfig GetBrokerRuntimeInfo CleanExpiredConsumequeue
        CleanUnusedTopic DeleteExpiredCommitlog CheckRocksdbCqWriteProgress ExportRocksdbConfigToJson
        UpdateColdDataFlowCtrConfig RemoveColdDataFlowCtrConfig GetColdDataFlowCtrInfo SetCommitlogReadMode
        GetBrokerHaStatus GetBrokerLiteInfo GetParentTopicInfo GetLiteTopicInfo
    }
    // The struct's name is Java's constant in camel case.
    for (name, constant) in [
        (stringify!(GetRouteinfoByTopic), GetRouteinfoByTopic::NAME),
        (
            stringify!(UpdateAndCreateSubscriptiongroup),
            UpdateAndCreateSubscriptiongroup::NAME,
        ),
    ] {
        assert_eq!(name.to_ascii_uppercase(), constant.replace('_', ""));
    }
}

fn send_header() -> impl Strategy<Value = SendMessage> {
    (
        (
            any::<String>(),
            any::<String>(),
            any::<String>(),
            any::<i32>(),
            any::<i32>(),
            any::<i32>(),
            any::<i64>(),
        ),
        (
            any::<i32>(),
            any::<String>(),
            any::<i32>(),
            any::<bool>(),
            any::<bool>(),
            any::<Option<i32>>(),
            any::<Option<String>>(),
        ),
    )
        .prop_map(|(a, b)| SendMessage {
            producer_group: a.0,
            topic: a.1,
            default_topic: a.2,
            default_topic_queue_nums: a.3,
            queue_id: a.4,
            sys_flag: SysFlag(a.5),
            born_timestamp: a.6,
            flag: b.0,
            properties: b.1,
            reconsume_times: b.2,
            unit_mode: b.3,
            batch: b.4,
            max_reconsume_times: b.5,
            bname: b.6,
        })
}

proptest! {
    #[test]
    fn headers_survive_the_round_trip(header in send_header(), numbers in proptest::array::uniform8(any::<Option<i64>>())) {
        let v1: SendMessage = Fields::from_value(&header).unwrap().to_value().unwrap();
        prop_assert_eq!(&v1, &header);
        let v2 = SendMessageV2::from(header.clone());
        let fields = Fields::from_value(&v2).unwrap();
        prop_assert!(fields.iter().all(|(name, _)| name.len() == 1));
        let v2: SendMessageV2 = fields.to_value().unwrap();
        prop_assert_eq!(SendMessage::from(v2), header);
        let narrow = |n: Option<i64>| n.map(|n| n as i32);
        let reply = PullMessageReply {
            suggest_which_broker_id: numbers[0],
            next_begin_offset: numbers[1],
            min_offset: numbers[2],
            max_offset: numbers[3],
            offset_delta: numbers[4],
            topic_sys_flag: narrow(numbers[5]),
            group_sys_flag: narrow(numbers[6]),
            forbidden_type: narrow(numbers[7]),
        };
        let fields = Fields::from_value(&reply).unwrap();
        prop_assert_eq!(fields.len(), numbers.iter().flatten().count());
        prop_assert_eq!(fields.to_value::<PullMessageReply>().unwrap(), reply);
    }
}
