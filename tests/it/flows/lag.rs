//! `rmq group lag`: columns, sums, forms.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rmq::protocol::frame::Frame;
use rmq::protocol::{Request as _, codes, requests};
use rmq::remoting::{Listener, NoService, Peer, Pool, Refusal, Reply, Service};

use super::{Reader, done, json, library, until};
use crate::cli::{Cluster, items};

/// Passes everything on to a broker but the question for a group's clients.
struct Discreet {
    broker: String,
    pool: Pool<NoService>,
}

impl Service for Discreet {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        if request.code == requests::GetConsumerConnectionList::CODE {
            return Refusal::new(codes::NO_PERMISSION, "that is told to nobody").into();
        }
        let limit = Duration::from_secs(5);
        let answer = self.pool.exchange(&self.broker, request, limit).await.unwrap();
        Reply {
            code: answer.code,
            remark: answer.remark,
            fields: answer.fields,
            body: vec![answer.body],
        }
    }
}

/// A broker that does not tell a group's clients is told, and the next one is asked.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_not_offline_for_a_broker_that_does_not_say() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 1 --yes").await;
    done(&rmq, "message send --topic T --body x --count 4").await;
    let reader = Reader::start(library(&cluster), "CG", "T");
    reader.has(4).await;
    until("it is online", Duration::from_secs(20), async || {
        items(&rmq.line("group clients CG --broker broker-b -o json").await).len() == 1
    })
    .await;
    let broker = cluster.brokers[0].addr().to_string();
    let free: SocketAddr = ([127, 0, 0, 1], 0).into();
    let discreet = Discreet {
        broker: broker.clone(),
        pool: Pool::new(Arc::new(NoService), Duration::from_secs(5)),
    };
    let listener = Listener::start(free, Arc::new(discreet)).await.unwrap();
    let map = format!("--broker-map {broker}={}", listener.addr());
    for line in ["group lag", "group lag CG --by group"] {
        let ran = rmq.line(&format!("{line} -o json {map}")).await;
        let rows = items(&ran);
        let ours = rows.iter().find(|row| row["group"] == "CG").unwrap();
        assert_eq!(ours["state"], "online", "{line}: {ran:?}");
        assert_eq!(ran.code, 7, "{line}: {ran:?}");
        assert!(ran.stdout.contains("that is told to nobody"), "{line}: {ran:?}");
    }
    reader.leave().await;
    listener.stop(Duration::ZERO).await;
    cluster.stop().await;
}

/// Positions beyond the end count as 0 with a mark and never lower a sum; a group without a retry topic is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_sum_is_never_lowered_by_a_position_beyond_the_end() {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 2 --yes").await;
    done(&rmq, "message send --topic T --body x --count 8").await;
    let client = library(&cluster);
    let reader = Reader::start(client, "CG", "T");
    reader.has(8).await;
    until("all is committed", Duration::from_secs(10), async || {
        rmq.rows(&["group", "lag", "CG", "--by", "group"]).await[0]["lag"] == 0
    })
    .await;
    // A client says which queues it reads only when it can be asked.
    let owned = rmq.rows(&["group", "lag", "CG", "--by", "client"]).await;
    assert_eq!(
        owned.iter().map(|r| r["queues"].as_i64().unwrap()).sum::<i64>(),
        4,
        "{owned:?}"
    );
    reader.leave().await;
    done(&rmq, "offset set CG broker-a/0=0 --topic T --yes").await;
    let ran = done(&rmq, "group lag CG -o json").await;
    let document = json(&ran);
    let first = document["items"][0].clone();
    assert_eq!(
        (&first["broker"], &first["queue"], &first["lag"]),
        (&"broker-a".into(), &0.into(), &first["max"])
    );
    assert_eq!(document["summary"]["total_lag"], first["max"]);
    assert!(document["summary"]["max_lag_time_ms"].is_i64(), "{document}");
    assert_eq!(document["summary"]["state"], "offline");

    let by_broker = rmq.rows(&["group", "lag", "CG", "--by", "broker"]).await;
    assert_eq!(by_broker.len(), 2, "{by_broker:?}");
    assert_eq!(by_broker[1]["lag"], 0);
    let all = rmq.rows(&["group", "lag"]).await;
    assert_eq!(all.iter().filter(|g| g["group"] == "CG").count(), 1, "{all:?}");

    let metrics = done(&rmq, "group lag CG --by queue -o prometheus").await;
    let line = format!(
        "rmq_group_lag{{group=\"CG\",topic=\"T\",broker=\"broker-a\",queue=\"0\",state=\"offline\"}} {}",
        first["max"]
    );
    assert!(
        metrics.stdout.lines().any(|l| l == line),
        "{line}\n{}",
        metrics.stdout
    );
    assert!(metrics.stdout.contains("# TYPE rmq_group_lag gauge\n"));

    let late = rmq.line("group lag CG --fail-over-time 1ms -o json").await;
    assert_eq!((late.code, items(&late).len()), (11, 4), "{late:?}");
    cluster.stop().await;
}

/// The brokers' list of all groups goes by written queues: those that are only read are counted all the same. What a
/// listing does not ask is said.
#[tokio::test(flavor = "multi_thread")]
async fn queues_that_are_read_and_not_written_count_in_every_listing() {
    let cluster = Cluster::start(&["broker-a"]).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 4 --yes").await;
    done(&rmq, "message send --topic T --body x --count 8").await;
    done(&rmq, "group create CG --yes").await;
    done(&rmq, "offset set CG broker-a/0=0 --topic T --yes").await;
    done(
        &rmq,
        "topic scale T --to 2 --phase write --yes --producer-wait 1s",
    )
    .await;
    let named = rmq.rows(&["group", "lag", "CG", "--by", "group"]).await;
    assert_eq!(
        (&named[0]["lag"], &named[0]["queues"]),
        (&8.into(), &4.into()),
        "{named:?}"
    );
    let all = rmq.rows(&["group", "lag"]).await;
    let ours = all.iter().find(|row| row["group"] == "CG").unwrap();
    assert_eq!((&ours["lag"], &ours["queues"]), (&8.into(), &4.into()), "{all:?}");
    let table = done(&rmq, "group lag").await;
    assert!(table.stderr.contains("lag times were not asked for"), "{table:?}");
    let table = done(&rmq, "group lag --by queue").await;
    assert!(!table.stderr.contains("lag times"), "{table:?}");
    cluster.stop().await;
}

/// 1000 groups on 4 brokers in one listing: prints how long it takes and how many requests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a measurement"]
async fn a_thousand_groups_on_four_brokers() {
    use rmq::protocol::Json;
    use rmq::protocol::requests::{UpdateAndCreateSubscriptiongroup, UpdateConsumerOffset};
    let names = ["broker-a", "broker-b", "broker-c", "broker-d"];
    let cluster = Cluster::start(&names).await;
    let rmq = cluster.rmq();
    done(&rmq, "topic create T --queues 4 --yes").await;
    done(&rmq, "message send --topic T --body x --count 160").await;
    let client = library(&cluster);
    let brokers = client
        .brokers(&rmq::client::Scope::default(), rmq::client::Which::Masters)
        .await
        .unwrap();
    let (client, brokers) = (&client, &brokers);
    client
        .each((0..1000).collect(), |group: i32| async move {
            let name = format!("CG_{group}");
            for broker in brokers {
                let server = broker.server();
                let config = rmq::protocol::body::SubscriptionGroupConfig {
                    group_name: name.clone(),
                    ..Default::default()
                };
                let header = UpdateAndCreateSubscriptiongroup;
                let body = Some(Json::new(config));
                client
                    .call(&server, &header, body, client.deadline())
                    .await
                    .unwrap();
                for queue in 0..4 {
                    let commit = UpdateConsumerOffset {
                        consumer_group: name.clone(),
                        topic: "T".into(),
                        queue_id: Some(queue),
                        commit_offset: Some(1),
                        bname: None,
                    };
                    client
                        .call(&server, &commit, (), client.deadline())
                        .await
                        .unwrap();
                }
            }
        })
        .await;
    for line in ["group lag --all -o json", "group lag --all -v -o name"] {
        let begin = std::time::Instant::now();
        let ran = done(&rmq, line).await;
        println!(
            "{line}: {:?}, {} requests told",
            begin.elapsed(),
            ran.stderr.lines().count()
        );
        if line.ends_with("json") {
            let rows = items(&ran);
            let ours: Vec<_> = rows
                .iter()
                .filter(|r| r["group"].as_str().unwrap().starts_with("CG_"))
                .collect();
            assert_eq!(ours.len(), 1000);
            assert!(ours.iter().all(|r| r["lag"] == 144), "{:?}", ours[0]);
        }
    }
    cluster.stop().await;
}
