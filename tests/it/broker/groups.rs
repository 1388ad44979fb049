//! Groups, offsets, clients, locks: §10.6, §9.5 to §9.7.

use std::collections::BTreeSet;
use std::time::Duration;

use rmq::broker::BrokerConfig;
use rmq::protocol::body::*;
use rmq::protocol::model::MessageQueue;
use rmq::protocol::requests::*;
use rmq::protocol::{Json, codes};

use super::support::*;

fn query(group: &str, topic: &str, zero: Option<bool>) -> QueryConsumerOffset {
    QueryConsumerOffset {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id: 0,
        set_zero_if_not_found: zero,
        bname: None,
    }
}

fn commit(
    group: &str,
    topic: &str,
    queue_id: Option<i32>,
    commit_offset: Option<i64>,
) -> UpdateConsumerOffset {
    UpdateConsumerOffset {
        consumer_group: group.into(),
        topic: topic.into(),
        queue_id,
        commit_offset,
        bname: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn offsets_are_queried_and_committed_as_in_java() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    assert_eq!(
        client.refused(query("g", "t", None), ()).await,
        (
            codes::QUERY_NOT_FOUND,
            "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first".into()
        ),
        "an empty queue is not young"
    );
    client.send("t", 0, "", "x").await;
    // At once, whether or not the message has reached its queue yet.
    assert_eq!(
        client.ok(query("g", "t", None), ()).await.0.offset,
        0,
        "a young queue starts at 0"
    );
    assert_eq!(
        client.refused(query("g", "t", Some(false)), ()).await.0,
        codes::QUERY_NOT_FOUND
    );

    for (header, code, remark) in [
        (commit("g", "t", Some(0), Some(1)), 26, "Group g not exist!"),
        (
            commit("TOOLS_CONSUMER", "no", Some(0), Some(1)),
            17,
            "Topic no not exist!",
        ),
        (
            commit("TOOLS_CONSUMER", "t", None, Some(1)),
            29,
            "QueueId is null, topic is t",
        ),
        (
            commit("TOOLS_CONSUMER", "t", Some(0), None),
            29,
            "Offset is null, topic is t",
        ),
    ] {
        assert_eq!(client.refused(header, ()).await, (code, remark.to_owned()));
    }
    assert_eq!(
        client.refused(query("g", "t", Some(false)), ()).await.0,
        22,
        "commits make no group"
    );
    client
        .ok(commit("TOOLS_CONSUMER", "t", Some(0), Some(5)), ())
        .await;
    client
        .ok(commit("TOOLS_CONSUMER", "t", Some(0), Some(3)), ())
        .await;
    assert_eq!(
        client.ok(query("TOOLS_CONSUMER", "t", None), ()).await.0.offset,
        3
    );
    let huge = commit("TOOLS_CONSUMER", "t", Some(i32::MAX), Some(0));
    assert_eq!(client.refused(huge, ()).await.0, INVALID);

    let dir = broker.stop().await;
    let broker = TestBroker::on(dir, loopback(), |_| {}).await;
    let client = broker.client().await;
    assert_eq!(
        client.ok(query("TOOLS_CONSUMER", "t", None), ()).await.0.offset,
        3,
        "after a restart"
    );
    let all = client.ok(GetAllConsumerOffset, ()).await.1.value;
    assert_eq!(all.offset_table["t@TOOLS_CONSUMER"][&0], 3);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_waits_for_the_next_pull() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    for i in 0..6 {
        client.send("t", 0, "", &i.to_string()).await;
    }
    client.await_max("t", 0, 6).await;
    client.heartbeat("c", "cg", "t", "*").await;
    client.ok(commit("cg", "t", Some(0), Some(6)), ()).await;
    let reset = |queue_id, offset| InvokeBrokerToResetOffset {
        topic: "t".into(),
        group: "cg".into(),
        queue_id,
        offset,
        ..InvokeBrokerToResetOffset::default()
    };
    assert_eq!(
        client.refused(reset(0, Some(99)), ()).await,
        (1, "Target offset 99 not in consume queue range [0-6]".into())
    );
    for (topic, group, code) in [("no", "cg", 17), ("t", "no", 26)] {
        let header = InvokeBrokerToResetOffset {
            topic: topic.into(),
            group: group.into(),
            ..reset(-1, None)
        };
        assert_eq!(client.refused(header, ()).await.0, code);
    }
    let table = client.ok(reset(0, Some(2)), ()).await.1.value.offset_table;
    assert_eq!(table.into_values().collect::<Vec<_>>(), [2]);
    let ignored = client.ask(commit("cg", "t", Some(0), Some(6)), ()).await;
    assert_eq!(
        (ignored.code, ignored.remark.as_str()),
        (0, "Offset has been previously reset")
    );
    assert_eq!(client.ok(query("cg", "t", None), ()).await.0.offset, 2);
    let answer = client.pull(pull("t", 0, 6, "*")).await;
    assert_eq!((answer.code, answer.remark.as_str()), (21, "OFFSET_RESET"));
    assert_eq!(answer.header::<PullMessageReply>().next_begin_offset, Some(2));
    assert_eq!(
        bodies(&client.pull(pull("t", 0, 2, "*")).await),
        ["2", "3", "4", "5"],
        "taken once"
    );
    client.ok(commit("cg", "t", Some(0), Some(6)), ()).await;
    assert_eq!(client.ok(query("cg", "t", None), ()).await.0.offset, 6);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_told_when_the_group_changes() {
    let broker = TestBroker::start().await;
    let (a, b) = (broker.client().await, broker.client().await);
    a.create_topic("t", 1).await;
    let list = |group: &str| GetConsumerListByGroup {
        consumer_group: group.into(),
        bname: None,
    };
    assert_eq!(
        a.refused(list("g"), ()).await,
        (1, "no consumer for this group, g".into())
    );
    a.heartbeat("client-a", "g", "t", "*").await;
    eventually(async || a.notified() == ["g"]).await;
    a.heartbeat("client-a", "g", "t", "*").await;
    b.heartbeat("client-b", "g", "t", "*").await;
    eventually(async || a.notified().len() == 2 && b.notified().len() == 1).await;
    let ids = a.ok(list("g"), ()).await.1.value.consumer_id_list;
    assert_eq!(
        BTreeSet::from_iter(ids),
        BTreeSet::from(["client-a".into(), "client-b".into()])
    );

    let connections = GetConsumerConnectionList {
        consumer_group: "g".into(),
    };
    let seen = a.ok(connections.clone(), ()).await.1.value;
    assert_eq!(seen.connection_set.len(), 2);
    assert_eq!(seen.consume_type, ConsumeType::Passively);
    assert_eq!(seen.subscription_table["t"].sub_string, "*");

    b.disconnect();
    eventually(async || a.notified().len() == 3).await;
    assert_eq!(a.ok(list("g"), ()).await.1.value.consumer_id_list, ["client-a"]);
    let leave = UnregisterClient {
        client_id: "client-a".into(),
        consumer_group: Some("g".into()),
        ..UnregisterClient::default()
    };
    a.ok(leave, ()).await;
    assert_eq!(
        a.refused(connections, ()).await,
        (
            codes::CONSUMER_NOT_ONLINE,
            "the consumer group[g] not online".into()
        )
    );
    assert_eq!(
        a.topic("%RETRY%g").await.read_queue_nums,
        1,
        "made by the heartbeat"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn broadcasting_groups_are_not_told() {
    let broker = TestBroker::start().await;
    let (a, b) = (broker.client().await, broker.client().await);
    for (client, id) in [(&a, "a"), (&b, "b")] {
        let mut data = beat(id, "g", "t", "*");
        data.consumer_data_set[0].message_model = MessageModel::Broadcasting;
        client.ok(HeartBeat, Json::new(data)).await;
    }
    // A second answer on the same connection proves that no push is on its way before it.
    a.heartbeat("a", "other", "t", "*").await;
    eventually(async || a.notified() == ["other"]).await;
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_second_heartbeat_version_tells_of_changes() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let send = async |fingerprint: i32, without_sub: bool| {
        let mut data = beat("c", "g", "t", "A");
        data.heartbeat_fingerprint = fingerprint;
        data.without_sub = without_sub;
        if without_sub {
            data.consumer_data_set[0].subscription_data_set.clear();
        }
        let reply = client.ok(HeartBeat, Json::new(data)).await.0;
        assert_eq!(reply.is_support_heart_beat_v2, Some(true));
        reply.is_sub_change.unwrap()
    };
    assert!(send(0, false).await, "always with the first version");
    assert!(!send(7, false).await);
    assert!(!send(7, true).await);
    assert!(send(8, true).await);
    let header = QuerySubscriptionByConsumer {
        group: "g".into(),
        topic: Some("t".into()),
    };
    let found = client.ok(header, ()).await.1.value.subscription_data.unwrap();
    assert_eq!(
        found.sub_string, "A",
        "kept through heartbeats without subscriptions"
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn silent_clients_are_dropped() {
    let config = BrokerConfig {
        channel_expired_timeout: 1000,
        ..loopback()
    };
    let broker = TestBroker::with(config, |_| {}).await;
    let (silent, other) = (broker.client().await, broker.client().await);
    silent.heartbeat("s", "g", "t", "*").await;
    tokio::time::timeout(Duration::from_secs(30), silent.peer.closed())
        .await
        .unwrap();
    let header = GetConsumerConnectionList {
        consumer_group: "g".into(),
    };
    assert_eq!(other.refused(header, ()).await.0, codes::CONSUMER_NOT_ONLINE);
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_are_listed() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    let data = HeartbeatData {
        client_id: "p@1".into(),
        producer_data_set: vec![ProducerData {
            group_name: "pg".into(),
        }],
        ..HeartbeatData::default()
    };
    client.ok(HeartBeat, Json::new(data)).await;
    let list = |group: &str| GetProducerConnectionList {
        producer_group: group.into(),
    };
    let seen = client.ok(list("pg"), ()).await.1.value.connection_set;
    assert_eq!(seen[0].client_id, "p@1");
    let all = client.ok(GetAllProducerInfo, ()).await.1.value;
    assert!(all.data["pg"][0].remote_ip.starts_with("/127.0.0.1:"));
    assert_eq!(
        client.refused(list("no"), ()).await,
        (1, "the producer group[no] not exist".into())
    );
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn queue_locks_belong_to_one_client() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 3).await;
    let queue = |queue_id| MessageQueue {
        broker_name: "broker-t".into(),
        queue_id,
        topic: "t".into(),
    };
    let request = |id: &str, queues: &[i32]| {
        Json::new(LockBatchRequest {
            client_id: id.into(),
            consumer_group: "g".into(),
            mq_set: queues.iter().map(|&q| queue(q)).collect(),
            only_this_broker: false,
        })
    };
    let locked = async |id: &str, queues: &[i32]| {
        let answer = client.ok(LockBatchMq, request(id, queues)).await.1.value;
        answer
            .lock_ok_mq_set
            .into_iter()
            .map(|q| q.queue_id)
            .collect::<Vec<_>>()
    };
    assert_eq!(locked("a", &[0, 1]).await, [0, 1]);
    assert_eq!(locked("b", &[0, 2]).await, [2]);
    client.ok(UnlockBatchMq, request("b", &[0])).await;
    assert!(locked("b", &[0]).await.is_empty(), "only the owner unlocks");
    client.ok(UnlockBatchMq, request("a", &[0])).await;
    assert_eq!(locked("b", &[0]).await, [0]);
    assert!(
        locked("b", &[-1, i32::MAX]).await.is_empty(),
        "no lock is kept for queues that cannot be"
    );
    client.ok(DeleteTopicInBroker { topic: "t".into() }, ()).await;
    assert!(locked("b", &[1]).await.is_empty(), "nor for a topic that is not");
    broker.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_live_and_die_by_request() {
    let broker = TestBroker::start().await;
    let client = broker.client().await;
    client.create_topic("t", 1).await;
    client.ok(UpdateAndCreateSubscriptiongroup, None).await;
    let group = SubscriptionGroupConfig {
        group_name: "g".into(),
        retry_max_times: 5,
        ..SubscriptionGroupConfig::default()
    };
    client
        .ok(UpdateAndCreateSubscriptiongroup, Some(Json::new(group.clone())))
        .await;
    let get = |group: &str| GetSubscriptiongroupConfig { group: group.into() };
    assert_eq!(client.ok(get("g"), ()).await.1.value, group);
    assert_eq!(client.ok(get("on-demand"), ()).await.1.value.retry_max_times, 16);
    let all = client.ok(GetAllSubscriptiongroupConfig, ()).await.1.value;
    assert!(all.subscription_group_table.contains_key("on-demand"));
    client.ok(commit("g", "t", Some(0), Some(1)), ()).await;
    let delete = DeleteSubscriptiongroup {
        group_name: "g".into(),
        clean_offset: true,
    };
    client.ok(delete.clone(), ()).await;
    client.ok(delete, ()).await;
    let stats = GetConsumeStats {
        consumer_group: "g".into(),
        ..GetConsumeStats::default()
    };
    assert!(client.ok(stats, ()).await.1.value.offset_table.is_empty());
    let check = |kind: &str| {
        Json::new(CheckClientRequest {
            subscription_data: SubscriptionData {
                expression_type: kind.into(),
                ..subscription("t", "*", 1)
            },
            ..CheckClientRequest::default()
        })
    };
    client.ok(CheckClientConfig, check("TAG")).await;
    assert_eq!(client.refused(CheckClientConfig, check("SQL92")).await.0, 1);
    broker.stop().await;
}
