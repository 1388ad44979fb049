//! `rmq static-topic`, and what else meets such topics, on brokers that keep mappings by the rules of Java's
//! `TopicQueueMappingManager`: ours have none. What goes wrong in the middle can be made here.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use rmq::client::static_topic::mapping::ByBroker;
use rmq::client::static_topic::plan::resize;
use rmq::client::{Client, Options};
use rmq::fields::Fields;
use rmq::protocol::body::{
    ConsumerOffsets, GroupList, RegisterBrokerBody, SubscriptionGroupTable, TopicConfig,
    TopicConfigAndQueueMapping, TopicConfigTable, TopicOffset, TopicQueueMappingDetail,
    TopicQueueMappingInfo, TopicStatsTable,
};
use rmq::protocol::frame::Frame;
use rmq::protocol::model::{DataVersion, MessageQueue};
use rmq::protocol::{Body as _, Json, Request as _, codes, json, requests};
use rmq::remoting::{Listener, NoService, Peer, Pool, Refusal, Reply, Service};
use serde_json::Value;

use super::{Cluster, Ran, Rmq, items};

/// What a broker does wrong.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum Fault {
    #[default]
    None,
    /// Does not tell the ends of its queues.
    NoEnds,
    /// Tells them late.
    LateEnds(Duration),
    /// Takes no mapping.
    Refuses,
    /// Takes it, and never says so.
    SaysNothing,
    /// Neither takes it nor says so.
    LosesIt,
}

#[derive(Default)]
struct Kept {
    topics: BTreeMap<String, TopicConfigAndQueueMapping>,
    /// End by topic and physical queue.
    ends: BTreeMap<(String, i32), i64>,
    /// Committed offsets by `topic@group`.
    offsets: BTreeMap<String, BTreeMap<i32, i64>>,
    version: i64,
    fault: Fault,
}

/// A broker as Java's, as far as static topics go.
struct Javas {
    name: &'static str,
    cluster: &'static str,
    name_server: String,
    addr: OnceLock<String>,
    pool: Pool<NoService>,
    kept: Mutex<Kept>,
}

impl Javas {
    fn set(&self, fault: Fault) {
        self.kept.lock().unwrap().fault = fault;
    }

    fn ends(&self, topic: &str, ends: &[i64]) {
        let ends = (0..)
            .zip(ends)
            .map(|(queue, end)| ((topic.to_owned(), queue), *end));
        self.kept.lock().unwrap().ends.extend(ends);
    }

    fn change(&self, topic: &str, change: impl FnOnce(&mut TopicConfigAndQueueMapping)) {
        let mut kept = self.kept.lock().unwrap();
        change(kept.topics.entry(topic.to_owned()).or_default());
    }

    fn epoch(&self, topic: &str) -> i64 {
        let kept = self.kept.lock().unwrap();
        kept.topics[topic].mapping_detail.as_ref().unwrap().epoch
    }

    /// Registers every topic; Java's name servers never forget a mapping by that.
    async fn register(&self) {
        let table = {
            let mut kept = self.kept.lock().unwrap();
            kept.version += 1;
            let infos = kept.topics.iter().filter_map(|(name, at)| {
                let detail = at.mapping_detail.as_ref()?;
                let led = detail.hosted_queues.iter().filter_map(|(queue, items)| {
                    let leader = items.last().filter(|leader| leader.bname == self.name)?;
                    Some((*queue, leader.queue_id))
                });
                let info = TopicQueueMappingInfo {
                    bname: self.name.into(),
                    curr_id_map: led.collect(),
                    epoch: detail.epoch,
                    topic: name.clone(),
                    total_queues: detail.total_queues,
                    ..TopicQueueMappingInfo::default()
                };
                Some((name.clone(), info))
            });
            TopicConfigTable {
                data_version: DataVersion {
                    counter: kept.version,
                    ..DataVersion::default()
                },
                topic_config_table: (kept.topics.iter())
                    .map(|(name, at)| (name.clone(), at.config.clone()))
                    .collect(),
                topic_queue_mapping_info_map: Some(infos.collect()),
                ..TopicConfigTable::default()
            }
        };
        let header = requests::RegisterBroker {
            broker_name: self.name.into(),
            broker_addr: self.addr.get().unwrap().clone(),
            cluster_name: self.cluster.into(),
            ..requests::RegisterBroker::default()
        };
        let body = RegisterBrokerBody {
            topic_config_serialize_wrapper: table,
            ..RegisterBrokerBody::default()
        };
        let body = Bytes::from(json::to_vec(&body));
        self.pool
            .call(&self.name_server, &header, body, Duration::from_secs(10))
            .await
            .unwrap();
    }

    /// 513. The configuration is taken whatever becomes of the mapping, and without the order flag.
    fn take(
        &self,
        wanted: requests::UpdateAndCreateTopic,
        mut new: TopicQueueMappingDetail,
    ) -> Result<(), String> {
        let mut kept = self.kept.lock().unwrap();
        let at = kept.topics.entry(wanted.topic.clone()).or_default();
        at.config = TopicConfig {
            attributes: at.config.attributes.clone(),
            topic_name: wanted.topic,
            perm: wanted.perm,
            read_queue_nums: wanted.read_queue_nums,
            write_queue_nums: wanted.write_queue_nums,
            topic_filter_type: wanted.topic_filter_type,
            topic_sys_flag: wanted.topic_sys_flag,
            order: false,
        };
        let old = at.mapping_detail.take();
        at.mapping_detail.clone_from(&old);
        if let Some(old) = old {
            let same = new.epoch == old.epoch;
            if new.epoch < old.epoch && !wanted.force {
                return Err("Can't accept data with small epoch".into());
            }
            for (queue, items) in old.hosted_queues {
                match new.hosted_queues.get(&queue) {
                    None if same && !wanted.force => {
                        return Err("Cannot accept equal epoch with null data".into());
                    }
                    None => drop(new.hosted_queues.insert(queue, items)),
                    Some(now) if !wanted.force => {
                        for (old, new) in items.iter().zip(now) {
                            let fixed = old.logic_offset == -1 || old.logic_offset == new.logic_offset;
                            if (&old.bname, old.queue_id, old.r#gen) != (&new.bname, new.queue_id, new.r#gen)
                                || !fixed
                            {
                                return Err(format!("{old:?} became {new:?}"));
                            }
                        }
                        if same && items.len() != now.len() {
                            return Err("The new leader is different but epoch equal".into());
                        }
                    }
                    Some(_) => {}
                }
            }
        }
        at.mapping_detail = Some(new);
        Ok(())
    }

    async fn answer(&self, request: &Frame) -> Result<Vec<Bytes>, Refusal> {
        let absent = |topic: &str| Refusal::new(codes::TOPIC_NOT_EXIST, format!("no topic {topic}"));
        let fault = self.kept.lock().unwrap().fault;
        match request.code {
            requests::GetTopicConfig::CODE => {
                let header: requests::GetTopicConfig = request.fields.to_value().unwrap();
                let found = self.kept.lock().unwrap().topics.get(&header.topic).cloned();
                Ok(Json::new(found.ok_or_else(|| absent(&header.topic))?).encode())
            }
            requests::UpdateAndCreateStaticTopic::CODE => {
                if fault == Fault::Refuses {
                    return Err(Refusal::new(codes::SYSTEM_ERROR, "no"));
                }
                if fault == Fault::LosesIt {
                    std::future::pending::<()>().await;
                }
                let header = request.fields.to_value().unwrap();
                let detail = json::from_slice(&request.body).unwrap();
                self.take(header, detail)
                    .map_err(|why| Refusal::new(codes::SYSTEM_ERROR, why))?;
                self.register().await;
                if fault == Fault::SaysNothing {
                    std::future::pending::<()>().await;
                }
                Ok(Vec::new())
            }
            requests::GetTopicStatsInfo::CODE => {
                match fault {
                    Fault::NoEnds => return Err(Refusal::new(codes::SYSTEM_ERROR, "not now")),
                    Fault::LateEnds(late) => tokio::time::sleep(late).await,
                    _ => {}
                }
                let header: requests::GetTopicStatsInfo = request.fields.to_value().unwrap();
                let kept = self.kept.lock().unwrap();
                let at = kept.topics.get(&header.topic);
                let queues = at.ok_or_else(|| absent(&header.topic))?.config.write_queue_nums;
                let ranges = (0..queues).map(|queue_id| {
                    let end = kept.ends.get(&(header.topic.clone(), queue_id));
                    let queue = MessageQueue {
                        broker_name: self.name.into(),
                        queue_id,
                        topic: header.topic.clone(),
                    };
                    let range = TopicOffset {
                        max_offset: end.copied().unwrap_or(0),
                        ..TopicOffset::default()
                    };
                    (queue, range)
                });
                let stats = TopicStatsTable {
                    offset_table: ranges.collect(),
                    topic_put_tps: 1.5,
                };
                Ok(Json::new(stats).encode())
            }
            requests::DeleteTopicInBroker::CODE => {
                let header: requests::DeleteTopicInBroker = request.fields.to_value().unwrap();
                self.kept.lock().unwrap().topics.remove(&header.topic);
                self.register().await;
                Ok(Vec::new())
            }
            requests::QueryTopicConsumeByWho::CODE => Ok(Json::new(GroupList::default()).encode()),
            requests::GetAllTopicConfig::CODE => {
                let kept = self.kept.lock().unwrap();
                let topics = kept
                    .topics
                    .iter()
                    .map(|(name, at)| (name.clone(), at.config.clone()));
                let table = TopicConfigTable {
                    topic_config_table: topics.collect(),
                    ..TopicConfigTable::default()
                };
                Ok(Json::new(table).encode())
            }
            requests::GetAllSubscriptiongroupConfig::CODE => {
                Ok(Json::new(SubscriptionGroupTable::default()).encode())
            }
            requests::GetAllConsumerOffset::CODE => {
                let offsets = ConsumerOffsets {
                    offset_table: self.kept.lock().unwrap().offsets.clone(),
                    ..ConsumerOffsets::default()
                };
                Ok(Json::new(offsets).encode())
            }
            code => Err(Refusal::new(
                codes::REQUEST_CODE_NOT_SUPPORTED,
                format!("no {code}"),
            )),
        }
    }
}

impl Service for Javas {
    async fn handle(self: Arc<Self>, _: Peer, request: Frame) -> Reply {
        if request.code == requests::QueryConsumerOffset::CODE {
            let header: requests::QueryConsumerOffset = request.fields.to_value().unwrap();
            let kept = self.kept.lock().unwrap();
            let of_group = kept
                .offsets
                .get(&format!("{}@{}", header.topic, header.consumer_group));
            let Some(offset) = of_group.and_then(|queues| queues.get(&header.queue_id)) else {
                return Refusal::new(codes::QUERY_NOT_FOUND, "none").into();
            };
            let mut fields = Fields::new();
            fields.push("offset".to_owned(), offset.to_string());
            return Reply {
                fields,
                ..Reply::default()
            };
        }
        match self.answer(&request).await {
            Ok(body) => Reply {
                body,
                ..Reply::default()
            },
            Err(refusal) => refusal.into(),
        }
    }
}

/// A name server of ours with such brokers.
struct Bench {
    cluster: Cluster,
    rmq: Rmq,
    brokers: Vec<(Arc<Javas>, Listener)>,
}

impl Bench {
    async fn start(brokers: &[(&'static str, &'static str)]) -> Self {
        let cluster = Cluster::start(&[]).await;
        let free: SocketAddr = ([127, 0, 0, 1], 0).into();
        let mut started = Vec::new();
        for (cluster_name, name) in brokers {
            let broker = Arc::new(Javas {
                name,
                cluster: cluster_name,
                name_server: cluster.addr.to_string(),
                addr: OnceLock::new(),
                pool: Pool::new(Arc::new(NoService), Duration::from_secs(5)),
                kept: Mutex::default(),
            });
            let listener = Listener::start(free, broker.clone()).await.unwrap();
            broker.addr.set(listener.addr().to_string()).unwrap();
            broker.register().await;
            started.push((broker, listener));
        }
        let rmq = cluster.rmq();
        Self {
            cluster,
            rmq,
            brokers: started,
        }
    }

    /// Two brokers of one cluster with topic T of four queues: broker-a leads 0 and 2, broker-b 1 and 3.
    async fn with_topic() -> Self {
        let bench = Self::start(&[("C", "broker-a"), ("C", "broker-b")]).await;
        bench.ok("static-topic create T --queues 4").await;
        bench
    }

    fn broker(&self, at: usize) -> &Javas {
        &self.brokers[at].0
    }

    async fn change(&self, line: &str) -> Ran {
        self.rmq.line(&format!("{line} --yes")).await
    }

    async fn ok(&self, line: &str) -> Ran {
        let ran = self.change(line).await;
        assert_eq!(ran.code, 0, "{line}: {ran:?}");
        ran
    }

    /// Leader and logical offset of each queue.
    async fn leaders(&self, topic: &str) -> Vec<(String, i64)> {
        let ran = self.rmq.line(&format!("static-topic get {topic} -o json")).await;
        assert_eq!(ran.code, 0, "{ran:?}");
        let led = items(&ran).into_iter().map(|row| {
            let begins = row["logic_offset"].as_i64().unwrap_or(-1);
            (row["broker"].as_str().unwrap().to_owned(), begins)
        });
        led.collect()
    }

    /// The mapping files that were kept, by what follows their last dot, the oldest first.
    fn files(&self, suffix: &str) -> Vec<PathBuf> {
        let dir = std::fs::read_dir(self.rmq.state().join("static-topics")).unwrap();
        let paths: BTreeSet<PathBuf> = dir.map(|entry| entry.unwrap().path()).collect();
        paths
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == suffix))
            .collect()
    }

    async fn stop(self) {
        for (broker, listener) in self.brokers {
            listener.stop(Duration::ZERO).await;
            broker.pool.close();
        }
        self.cluster.stop().await;
    }
}

fn led(leaders: &[(&str, i64)]) -> Vec<(String, i64)> {
    leaders.iter().map(|(l, at)| ((*l).to_owned(), *at)).collect()
}

fn undo(ran: &Ran) -> &str {
    let mut lines = ran.stdout.lines();
    lines.find_map(|line| line.strip_prefix("undo: rmq ")).unwrap()
}

fn errors(ran: &Ran) -> String {
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    document["errors"].to_string()
}

/// What an old leader does not tell leaves queues without logical offsets: no further change then but the one that goes on,
/// which decides them, and has its way back to what was there before both.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_remap_goes_on_and_can_be_undone() {
    let bench = Bench::with_topic().await;
    let before = led(&[("broker-a", 0), ("broker-b", 0), ("broker-a", 0), ("broker-b", 0)]);
    assert_eq!(bench.leaders("T").await, before);
    bench.broker(0).ends("T", &[7, 5_200]);
    bench.broker(0).set(Fault::NoEnds);
    let ran = bench.change("static-topic remap T --broker broker-b").await;
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.stdout.contains("written in part"), "{ran:?}");
    let after = bench.files("after").pop().unwrap().display().to_string();
    let onward = format!("static-topic remap T --map-file {after}");
    assert!(ran.stderr.contains(&onward), "{ran:?}");
    bench.broker(0).set(Fault::None);
    let other = bench.change("static-topic remap T").await;
    assert_eq!(other.code, 9, "{other:?}");
    assert!(
        other.stderr.contains("has no logical offset there yet"),
        "{other:?}"
    );

    // By Java's rule, in blocks of 10000: 7 is in the first half of its block, 5200 in the second.
    let ran = bench.ok(&onward).await;
    let moved = led(&[
        ("broker-b", 10_000),
        ("broker-b", 0),
        ("broker-b", 20_000),
        ("broker-b", 0),
    ]);
    assert_eq!(bench.leaders("T").await, moved, "{ran:?}");
    let again = bench.ok(&onward).await;
    assert!(again.stderr.contains("nothing to change"), "{again:?}");

    bench.ok(undo(&ran)).await;
    let back: Vec<String> = bench.leaders("T").await.into_iter().map(|(l, _)| l).collect();
    assert_eq!(back, ["broker-a", "broker-b", "broker-a", "broker-b"]);

    // Where nobody kept what was there before the first part, the half of it is not taken for that.
    bench.broker(0).set(Fault::NoEnds);
    let half = bench.change("static-topic remap T --broker broker-b").await;
    assert_eq!(half.code, 7, "{half:?}");
    bench.broker(0).set(Fault::None);
    let onward = half.stderr.split("Try: rmq ").nth(1).unwrap().trim().to_owned();
    let mut words = onward.split(' ');
    let newest = words.find(|word| word.ends_with(".after")).unwrap().to_owned();
    std::fs::remove_file(newest.replace(".after", ".before")).unwrap();
    let ran = bench.ok(&onward).await;
    assert!(!ran.stdout.contains("undo:"), "{ran:?}");
    assert!(ran.stderr.contains("has no way back"), "{ran:?}");
    assert!(!std::path::Path::new(&newest.replace(".after", ".before")).exists());
    bench.stop().await;
}

/// `--deadline` ends no change whose first broker is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_does_not_leave_half_a_remap() {
    let bench = Bench::with_topic().await;
    bench.broker(0).set(Fault::LateEnds(Duration::from_secs(4)));
    let ran = bench
        .change("static-topic remap T --broker broker-b --timeout 30s --deadline 3s")
        .await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("--deadline has passed"), "{ran:?}");
    bench.broker(0).set(Fault::None);
    assert_eq!(bench.leaders("T").await[0], ("broker-b".into(), 10_000));
    bench.stop().await;
}

/// A write whose answer is lost may be done; one that is refused is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_is_no_failure_and_a_refusal_is() {
    let bench = Bench::start(&[("C", "broker-a"), ("C", "broker-b")]).await;
    bench.broker(0).set(Fault::LosesIt);
    let ran = bench
        .change("static-topic create L --queues 2 --timeout 2s")
        .await;
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.contains("whether it was done is not known"), "{ran:?}");
    // What broker-a has is asked.
    bench.broker(0).set(Fault::SaysNothing);
    let ran = bench
        .change("static-topic create L --queues 2 --timeout 2s -o json")
        .await;
    assert_eq!(ran.code, 7, "{ran:?}");
    let results: Vec<String> = items(&ran)
        .iter()
        .map(|row| row["result"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(results.iter().filter(|r| *r == "ok").count(), 2, "{results:?}");
    assert!(ran.stdout.contains("broker-b was not written"), "{ran:?}");
    let after = bench.files("after").pop().unwrap().display().to_string();
    let onward = format!("static-topic update L --map-file {after}");
    assert!(ran.stderr.contains(&onward), "{ran:?}");
    bench.broker(0).set(Fault::None);
    bench.ok(&onward).await;
    assert_eq!(bench.leaders("L").await, led(&[("broker-a", 0), ("broker-b", 0)]));

    bench.broker(0).set(Fault::Refuses);
    let ran = bench.change("static-topic create R --queues 2").await;
    assert_eq!(ran.code, 6, "{ran:?}");
    assert!(!ran.stderr.contains("--map-file"), "{ran:?}");
    bench.stop().await;
}

/// A broker keeps lists that a file lacks, forced or not: two would lead.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_file_is_not_forced_on_brokers_that_lead_more() {
    let bench = Bench::with_topic().await;
    let old = bench.files("after").pop().unwrap().display().to_string();
    bench.ok("static-topic update T --queues 6").await;
    let epoch = bench.broker(0).epoch("T");
    let line = format!("static-topic update T --map-file {old}");
    let ran = bench.change(&line).await;
    assert_eq!(ran.code, 9, "{ran:?}");
    assert!(!ran.stderr.contains("--force-replace"), "{ran:?}");
    let ran = bench.change(&format!("{line} --force-replace")).await;
    assert_eq!(ran.code, 9, "{ran:?}");
    assert!(ran.stderr.contains("would go on leading"), "{ran:?}");
    assert_eq!(bench.broker(0).epoch("T"), epoch);
    bench.stop().await;
}

/// Java's brokers drop the order flag with this write: it is said before, and read back.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_write_takes_away_is_told() {
    let bench = Bench::with_topic().await;
    bench.broker(0).change("T", |at| at.config.order = true);
    let ran = bench.change("static-topic update T --queues 6").await;
    assert_eq!(ran.code, 7, "{ran:?}");
    assert!(ran.stderr.contains("the topic is ordered now"), "{ran:?}");
    assert!(ran.stdout.contains("it has order false"), "{ran:?}");

    // Nobody tells the route: that proves nothing.
    let client = Client::new(Options {
        name_servers: vec!["127.0.0.1:1".into()],
        ..Options::default()
    });
    let brokers = ["broker-a".to_owned()].into();
    let change = resize("T", 1, &brokers, &ByBroker::new(), 0).unwrap();
    let why = client.static_route_differs(&change).await;
    assert_eq!(why.as_deref(), Some("no name server told its route"));
    bench.stop().await;
}

/// A route says static long after the topic is gone: what the brokers have counts.
#[tokio::test(flavor = "multi_thread")]
async fn an_ordinary_topic_with_the_name_of_a_static_one_is_ordinary() {
    let bench = Bench::with_topic().await;
    let file = bench.cluster.path("more.toml");
    std::fs::write(&file, "api = \"rmq/v1\"\n\n[topic.T]\nqueues = 9\n").unwrap();
    for line in [
        "topic update T --perm 6 --create".to_owned(),
        format!("apply -f {}", file.display()),
    ] {
        let ran = bench.change(&line).await;
        assert_eq!(ran.code, 9, "{ran:?}");
        assert!(ran.stderr.contains("is a static topic"), "{ran:?}");
    }
    for (broker, _) in &bench.brokers {
        broker.change("T", |at| at.mapping_detail = None);
        broker.register().await;
    }
    let rows = bench.rmq.rows(&["topic", "status", "T"]).await;
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[0]["broker"], "broker-a");
    let ran = bench.rmq.line("topic update T --queues 5 --dry-run").await;
    assert_eq!(ran.code, 0, "{ran:?}");

    // Deleted whole, it is forgotten here; a Java name server is warned of.
    let ran = bench.ok("topic delete T").await;
    assert!(
        ran.stderr.contains("a Java name server keeps the mapping"),
        "{ran:?}"
    );
    bench.broker(0).change("T", |at| {
        at.config.topic_name = "T".into();
    });
    bench.broker(0).register().await;
    let client = Client::new(Options {
        name_servers: vec![bench.cluster.addr.to_string()],
        ..Options::default()
    });
    let route = client.route("T").await.unwrap().unwrap();
    assert_eq!(route.topic_queue_mapping_by_broker, None);
    // No other broker has it: its route goes as well, which no registration takes away.
    let ran = bench.ok("topic delete T --broker broker-a").await;
    assert!(!ran.stdout.contains("still routed to by"), "{ran:?}");
    assert_eq!(bench.rmq.line("namesrv routes T").await.code, 4);
    bench.stop().await;
}

/// A part of a topic that is not told is an error and not nothing; other topics of a group are told all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_told_of_a_static_topic_is_said() {
    let mut bench = Bench::with_topic().await;
    bench.broker(0).ends("T", &[7]);
    let ran = bench.rmq.line("topic status T -o json").await;
    let document: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((ran.code, items(&ran).len()), (0, 4), "{ran:?}");
    assert_eq!(document["summary"]["put_tps"], 3.0);

    bench.broker(0).ends("U", &[9]);
    bench.broker(0).change("U", |at| {
        at.config = TopicConfig {
            topic_name: "U".into(),
            read_queue_nums: 1,
            write_queue_nums: 1,
            ..TopicConfig::default()
        };
    });
    for topic in ["T@G", "U@G"] {
        let mut kept = bench.broker(0).kept.lock().unwrap();
        kept.offsets.insert(topic.into(), [(0, 5)].into());
    }
    bench.broker(0).register().await;
    let ran = bench.rmq.line("offset get G -o json").await;
    let rows = items(&ran);
    assert_eq!((ran.code, rows.len()), (7, 1), "{ran:?}");
    assert_eq!(
        (&rows[0]["topic"], &rows[0]["committed"]),
        (&"U".into(), &5.into())
    );
    assert!(errors(&ran).contains("is static"), "{ran:?}");
    assert!(!ran.stderr.contains("nothing was changed"), "{ran:?}");

    let (dead, listener) = bench.brokers.pop().unwrap();
    listener.stop(Duration::ZERO).await;
    dead.pool.close();
    let end = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        let ran = bench.rmq.line("topic status T -o json").await;
        if ran.code == 7 && items(&ran).len() == 2 {
            assert!(errors(&ran).contains("who leads queue 3"), "{ran:?}");
            break;
        }
        assert!(std::time::Instant::now() < end, "{ran:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    bench.stop().await;
}

/// A topic of two clusters is deleted in both, and one of them shows its own physical queues.
#[tokio::test(flavor = "multi_thread")]
async fn a_topic_of_two_clusters_has_a_way_back_in_each() {
    let bench = Bench::start(&[("C", "broker-a"), ("D", "broker-d")]).await;
    let ran = bench.ok("static-topic create M --queues 2 --cluster C,D").await;
    let servers = format!("-n {}", bench.cluster.addr);
    let wanted = format!("topic delete M --cluster C {servers} && rmq topic delete M --cluster D {servers}");
    assert_eq!(undo(&ran), wanted, "{ran:?}");
    let brokers = async |line: &str| -> Vec<Value> {
        let ran = bench.rmq.line(&format!("{line} -o json")).await;
        items(&ran).into_iter().map(|row| row["broker"].clone()).collect()
    };
    assert_eq!(brokers("topic status M --cluster C").await, ["broker-a"]);
    assert_eq!(brokers("topic status M").await, ["__syslo__global__"; 2]);
    bench.stop().await;
}
