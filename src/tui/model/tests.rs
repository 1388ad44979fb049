use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::client::RuntimeInfo;
use crate::client::snapshot::{ClusterTable, Listed, LiveBroker, TopicOnBroker};
use crate::tui::want::TopicDetail;

const INTERVAL: Duration = Duration::from_secs(2);

fn id(name: &str) -> BrokerId {
    BrokerId {
        cluster: "c".into(),
        name: name.into(),
        id: 0,
    }
}

fn lists(names: &[&str], at_ms: i64) -> Update {
    let listed = names
        .iter()
        .map(|n| Listed {
            broker: id(n),
            addr: format!("{n}:10911"),
        })
        .collect();
    Update {
        at_ms,
        retry_at_ms: None,
        told: Told::NameServer(
            "ns1".into(),
            ServerTold::Cluster(Ok((ClusterTable { listed, live: None }, Duration::ZERO))),
        ),
    }
}

fn runtime(name: &str, answer: Answer<i64>, at_ms: i64) -> Update {
    let answer = answer.map(|put| {
        let entries = BTreeMap::from([
            ("msgPutTotalTodayNow".to_owned(), put.to_string()),
            ("msgGetTotalTodayNow".to_owned(), "0".to_owned()),
        ]);
        (Box::new(RuntimeInfo::parse(entries)), Duration::ZERO)
    });
    Update {
        at_ms,
        retry_at_ms: None,
        told: Told::Broker(id(name), BrokerTold::Runtime(answer)),
    }
}

fn model() -> Model {
    let mut m = Model::new(vec!["ns1".into()]);
    m.fold(lists(&["a", "b"], 1000));
    let roster = m.settle(1000, INTERVAL);
    assert_eq!(
        roster,
        [
            Roster::Poll(id("a"), "a:10911".into()),
            Roster::Poll(id("b"), "b:10911".into())
        ]
    );
    m
}

#[test]
fn a_missing_part_makes_a_sum_a_lower_bound() {
    let mut m = model();
    for (i, at) in [2000, 4000].into_iter().enumerate() {
        m.fold(runtime("a", Ok(100 * i as i64), at));
        m.fold(runtime("b", Ok(300 * i as i64), at));
    }
    m.settle(4000, INTERVAL);
    assert_eq!(
        m.put_total(),
        Total {
            value: Some(200.0),
            partial: false
        }
    );
    m.fold(runtime("b", Err("timed out".into()), 6000));
    m.settle(6000, INTERVAL);
    assert_eq!(
        m.put_total(),
        Total {
            value: Some(50.0),
            partial: true
        }
    );
    // The last answer stays, with its age.
    assert_eq!(m.snapshot.brokers[1].runtime.as_of_ms, 4000);
}

#[test]
fn rates_that_are_denied_topic_by_topic_are_told_once_a_broker() {
    let mut m = model();
    let id = m.snapshot.brokers[0].broker.clone();
    let told = |m: &Model| m.log.iter().filter(|line| line.text.contains(", rate")).count();
    let mut at = 2000;
    let mut rate = |m: &mut Model, topic: &str, denied: bool| {
        at += 1000;
        let answer = if denied { Err("denied: no".into()) } else { Ok(1.0) };
        m.fold(Update {
            at_ms: at,
            retry_at_ms: None,
            told: Told::Broker(id.clone(), BrokerTold::TopicRate(topic.into(), answer)),
        });
    };
    // Allowed and denied topics by turns.
    for round in 0..5 {
        for topic in ["a", "b", "c", "d"] {
            rate(&mut m, topic, topic != "b");
        }
        assert_eq!(told(&m), 1, "{round}");
    }
    assert!(
        m.log
            .iter()
            .any(|line| line.text.contains("rate of a: denied: no"))
    );
    // The one that was told is allowed, and denied again: that is news.
    rate(&mut m, "a", false);
    rate(&mut m, "a", true);
    assert_eq!(told(&m), 2);
}

#[test]
fn a_denial_and_a_bad_reply_are_told_once() {
    let mut m = model();
    let before = m.log.iter().count();
    let told = |m: &Model| {
        m.log
            .iter()
            .take(m.log.iter().count() - before)
            .map(|l| l.text.clone())
            .collect::<Vec<_>>()
    };
    for at in [2000, 4000, 6000] {
        m.fold(runtime("a", Err("denied: no permission".into()), at));
    }
    assert_eq!(
        told(&m),
        ["a:0, runtime: denied: no permission; asked again after a minute"]
    );
    // A call that fails in between allows nothing.
    m.fold(runtime("a", Err("timed out".into()), 6500));
    m.fold(runtime("a", Err("denied: no permission".into()), 7000));
    assert_eq!(told(&m).len(), 1);
    m.fold(runtime("a", Ok(1), 8000));
    m.fold(runtime("a", Err("denied: again".into()), 9000));
    assert_eq!(told(&m).len(), 2);
    let reply = BadReply {
        server: "a:0 10.0.0.1:10911".into(),
        request: "GET_BROKER_RUNTIME_INFO",
        why: "not JSON".into(),
        kept: Ok("/tmp/x.bin".into()),
    };
    m.fold(Update {
        at_ms: 9500,
        retry_at_ms: None,
        told: Told::BadReply(Box::new(reply)),
    });
    assert_eq!(
        told(&m)[0],
        "bad reply of a:0 10.0.0.1:10911 to GET_BROKER_RUNTIME_INFO: not JSON; its bytes are in /tmp/x.bin"
    );
}

#[test]
fn what_was_recorded_comes_before_what_is_seen() {
    let mut m = model();
    let mut recorded = Recorded::default();
    recorded.read(
        "{\"t\":500,\"in\":5.0,\"topics\":{\"T\":9.0,\"U\":1.0},\"put\":[[\"c\",\"a\",0,7.0]]}\n{\"t\":2500,\"in\":99.0}",
        0..=9000,
    );
    for (i, at) in [2000, 4000].into_iter().enumerate() {
        m.fold(runtime("a", Ok(100 * i as i64), at));
        m.fold(runtime("b", Ok(0), at));
        m.settle(at, INTERVAL);
    }
    let live: Vec<_> = m.put.points().collect();
    m.fold(Update {
        at_ms: 4100,
        retry_at_ms: None,
        told: Told::Recorded(Box::new(recorded)),
    });
    let points: Vec<_> = m.put.points().collect();
    assert_eq!(points[0], (500, 5.0));
    assert_eq!(points[points.len() - live.len()..], live);
    assert_eq!(m.broker_series[&id("a")].put.points().next(), Some((500, 7.0)));
    // A topic that is seen later begins with it.
    let topics = vec![(
        "T".to_owned(),
        TopicOnBroker {
            broker: id("a"),
            ..TopicOnBroker::default()
        },
    )];
    let told = |told| Update {
        at_ms: 5000,
        retry_at_ms: None,
        told: Told::Broker(id("a"), told),
    };
    m.fold(told(BrokerTold::Topics(Ok((topics, None)))));
    m.fold(told(BrokerTold::TopicRate("T".into(), Ok(3.0))));
    m.settle(5000, INTERVAL);
    assert_eq!(
        m.topic_series["T"].points().collect::<Vec<_>>(),
        [(500, 9.0), (5000, 3.0)]
    );
}

#[test]
fn only_what_was_told_is_a_point_of_a_topic() {
    let mut m = model();
    let told = |name: &str, told, at_ms| Update {
        at_ms,
        retry_at_ms: None,
        told: Told::Broker(id(name), told),
    };
    for broker in ["a", "b"] {
        let of = |topic: &str| {
            let on = TopicOnBroker {
                broker: id(broker),
                ..TopicOnBroker::default()
            };
            (topic.to_owned(), on)
        };
        let topics = vec![of("T"), of("U")];
        m.fold(told(broker, BrokerTold::Topics(Ok((topics, None))), 2000));
    }
    let rate = |m: &mut Model, broker: &str, topic: &str, rate: f64, at: i64| {
        m.fold(told(broker, BrokerTold::TopicRate(topic.into(), Ok(rate)), at));
        m.settle(at, INTERVAL);
    };
    let points = |m: &Model, topic: &str| -> Vec<(u64, f64)> {
        m.topic_series
            .get(topic)
            .into_iter()
            .flat_map(Series::points)
            .collect()
    };
    rate(&mut m, "a", "T", 3.0, 3000);
    assert_eq!(points(&m, "T"), [], "the other broker was not asked yet");
    rate(&mut m, "b", "T", 4.0, 4000);
    rate(&mut m, "a", "U", 0.0, 5000);
    rate(&mut m, "b", "U", 0.0, 6000);
    rate(&mut m, "a", "T", 5.0, 7000);
    assert_eq!(points(&m, "T"), [(4000, 7.0), (7000, 9.0)]);
    assert_eq!(points(&m, "U"), [(6000, 0.0)], "not asked since");
}

#[test]
fn rates_of_brokers_and_queues_cover_a_second() {
    let mut m = model();
    for (put, at) in [(0, 2000), (50, 2500), (50, 3000), (50, 3500)] {
        m.fold(runtime("a", Ok(put), at));
    }
    let points: Vec<_> = m.broker_series[&id("a")].put.points().collect();
    assert_eq!(points, [(3000, 50.0)]);
    let detail = |max, in_tps| {
        Box::new(TopicDetail {
            queues: vec![crate::tui::want::QueueEnds {
                broker: "a".into(),
                queue: 0,
                min: 0,
                max,
                last_ms: 0,
                in_tps,
            }],
            ..TopicDetail::default()
        })
    };
    let want = Want::Topic("T".into());
    let mut rate = |max, at_ms| {
        m.fold(Update {
            at_ms,
            retry_at_ms: None,
            told: Told::Found(want.clone(), Ok(Found::Topic(detail(max, None)))),
        });
        match m.found(&want).get() {
            Some(Found::Topic(detail)) => detail.queues[0].in_tps,
            _ => None,
        }
    };
    assert_eq!(rate(0, 1000), None);
    assert_eq!(rate(200, 3000), Some(100.0));
    // Asked again at once by an impatient operator.
    assert_eq!(rate(210, 3100), Some(100.0));
    assert_eq!(rate(210, 5100), Some(0.0));
    match m.found(&want).get() {
        Some(Found::Topic(detail)) => assert_eq!(detail.in_tps, 0.0),
        other => panic!("{other:?}"),
    }
}

/// The averages of a minute say nought, or nothing, for the first 20 s.
#[test]
fn what_flows_in_a_young_cluster_is_seen_after_two_looks() {
    let mut m = model();
    let topics = vec![(
        "T".to_owned(),
        TopicOnBroker {
            broker: id("a"),
            ..TopicOnBroker::default()
        },
    )];
    let told = |told, at_ms| Update {
        at_ms,
        retry_at_ms: None,
        told: Told::Broker(id("a"), told),
    };
    let lag = |max: i64, committed: i64| {
        let row = GroupLag {
            group: "G".into(),
            topic: "T".into(),
            broker: "a".into(),
            max,
            committed: Some(committed),
            ..GroupLag::default()
        };
        BrokerTold::Lag(Ok(vec![row]))
    };
    let handed = |total: i64| {
        let entries = BTreeMap::from([("msgGetTotalTodayNow".to_owned(), total.to_string())]);
        BrokerTold::Runtime(Ok((Box::new(RuntimeInfo::parse(entries)), Duration::ZERO)))
    };
    m.fold(told(BrokerTold::Topics(Ok((topics, None))), 2000));
    m.fold(told(BrokerTold::TopicRate("T".into(), Ok(0.0)), 2010));
    m.fold(told(handed(0), 2020));
    m.fold(told(lag(0, 0), 2030));
    m.settle(2100, INTERVAL);
    let rate = |m: &Model| m.topic("T").unwrap().brokers[0].in_tps.get().copied();
    assert_eq!((rate(&m), m.taken("G", 0.0, 2100)), (Some(0.0), 0.0));
    m.fold(told(handed(200), 4020));
    m.fold(told(lag(100, 80), 4030));
    // Told later, and still of before.
    m.fold(told(BrokerTold::TopicRate("T".into(), Ok(0.0)), 6010));
    m.settle(6100, INTERVAL);
    assert_eq!((rate(&m), m.taken("G", 0.0, 6100)), (Some(50.0), 40.0));
    assert_eq!(m.taken("G", 7.0, 6100), 7.0, "what the broker counted is right");
    assert_eq!(m.taken("G", 0.0, 60_000), 0.0, "a minute ago is not now");
}

#[test]
fn retries_dead_letters_and_half_messages_are_told_with_what_is_missing() {
    let mut m = model();
    let told = |name: &str, told, at_ms| Update {
        at_ms,
        retry_at_ms: None,
        told: Told::Broker(id(name), told),
    };
    let dead = |names: &[&str], broker: &str| {
        let on = |name: &&str| {
            let on = TopicOnBroker {
                broker: id(broker),
                ..TopicOnBroker::default()
            };
            ((*name).to_owned(), on)
        };
        BrokerTold::Topics(Ok((names.iter().map(on).collect(), None)))
    };
    let lag = |committed: i64, retried: i64| {
        let row = |topic: &str, committed: i64, max: i64| GroupLag {
            group: "CG".into(),
            topic: topic.into(),
            committed: Some(committed),
            max,
            ..GroupLag::default()
        };
        let rows = vec![row("T", committed, 9000), row("%RETRY%CG", 0, retried)];
        BrokerTold::Lag(Ok(rows))
    };
    assert_eq!(
        (m.retry_total().value, m.dead_total().value, m.half_total().value),
        (None, None, None)
    );
    for broker in ["a", "b"] {
        m.fold(runtime(broker, Ok(1), 2000));
        m.fold(told(broker, dead(&["%DLQ%CG"], broker), 2000));
    }
    m.fold(told("a", BrokerTold::Half(Ok(7)), 2000));
    m.fold(told("a", BrokerTold::Dead("%DLQ%CG".into(), Ok(40)), 2000));
    m.fold(told("b", BrokerTold::Dead("%DLQ%CG".into(), Ok(1)), 2000));
    m.fold(told("a", lag(0, 0), 2000));
    m.settle(2000, INTERVAL);
    assert_eq!(
        m.dead_total(),
        Total {
            value: Some(0.0),
            partial: false
        }
    );
    assert_eq!(
        m.half_total(),
        Total {
            value: Some(7.0),
            partial: true
        }
    );
    // Three more, and the first two of a group that had none.
    m.fold(told("a", dead(&["%DLQ%CG", "%DLQ%New"], "a"), 12_000));
    m.fold(told("a", BrokerTold::Dead("%DLQ%CG".into(), Ok(43)), 12_000));
    m.fold(told("a", BrokerTold::Dead("%DLQ%New".into(), Ok(2)), 12_001));
    m.fold(told("b", BrokerTold::Half(Ok(1)), 12_000));
    m.fold(told("a", lag(1000, 120), 12_000));
    m.settle(12_000, INTERVAL);
    assert_eq!(m.dead_total().value, Some(5.0));
    assert_eq!(
        m.half_total(),
        Total {
            value: Some(8.0),
            partial: false
        }
    );
    assert_eq!(
        m.retry_total(),
        Total {
            value: Some(12.0),
            partial: true
        }
    );
    // 12/s come back of 100/s: that is more than a tenth.
    let storm = m
        .findings
        .iter()
        .find(|f| f.rule == "retry-storm")
        .expect("a finding");
    assert_eq!(storm.text, "group CG retries 12/s of 100/s consumed");
    m.fold(told("a", lag(3000, 130), 22_000));
    m.settle(22_000, INTERVAL);
    assert!(m.findings.iter().all(|f| f.rule != "retry-storm"), "1/s of 200/s");
    // What a second broker ever had is no rate.
    let before = m.retry_total().value;
    m.fold(told("b", lag(1_000_000, 900_000), 23_000));
    m.settle(23_000, INTERVAL);
    assert_eq!((m.retry_total().value, before), (Some(1.0), Some(1.0)));
    // Dead letters that are not told any more may be more by now.
    assert!(!m.dead_total().partial);
    m.fold(told(
        "a",
        BrokerTold::Dead("%DLQ%CG".into(), Err("denied: no".into())),
        23_000,
    ));
    assert!(m.dead_total().partial);
}

#[test]
fn a_position_stands_by_the_looks_at_its_own_broker() {
    let mut m = model();
    let row = |broker: &str, committed: i64| GroupLag {
        group: "G".into(),
        topic: "T".into(),
        broker: broker.into(),
        committed: Some(committed),
        max: 9,
        ..GroupLag::default()
    };
    let mut look = |broker: &str, answer: Answer<Vec<GroupLag>>, at_ms: i64| {
        m.fold(Update {
            at_ms,
            retry_at_ms: None,
            told: Told::Broker(id(broker), BrokerTold::Lag(answer)),
        });
        m.settle(at_ms, INTERVAL);
        ["a", "b"].map(|broker| m.unmoved(&row(broker, 5)).map(|d| d.as_secs()))
    };
    assert_eq!(look("a", Ok(vec![row("a", 5)]), 2_000), [Some(0), None]);
    assert_eq!(look("b", Ok(vec![row("b", 5)]), 4_000), [Some(0), Some(0)]);
    assert_eq!(look("a", Ok(vec![row("a", 5)]), 12_000), [Some(10), Some(0)]);
    // No answer proves nothing, and takes nothing back.
    assert_eq!(look("a", Err("timed out".into()), 14_000), [Some(10), Some(0)]);
    assert_eq!(look("b", Ok(Vec::new()), 16_000), [Some(10), None]);
}

#[test]
fn nothing_known_is_not_zero() {
    let m = model();
    assert_eq!(m.put_total().value, None);
    assert_eq!(m.lag_total().value, None);
}

#[test]
fn a_broker_that_left_is_kept_for_a_while() {
    let mut m = model();
    m.fold(lists(&["a"], 2000));
    assert_eq!(m.settle(2000, INTERVAL), []);
    assert_eq!(m.snapshot.brokers.len(), 2);
    assert_eq!(m.settle(1000 + KEEP_GONE_MS, INTERVAL), [Roster::Drop(id("b"))]);
    m.fold(runtime("b", Ok(1), 2000 + KEEP_GONE_MS));
    m.settle(2000 + KEEP_GONE_MS, INTERVAL);
    assert_eq!(m.snapshot.brokers.len(), 1);
}

#[test]
fn a_registration_after_our_last_try_revives_a_broker() {
    let live = |age_ms, at_ms| {
        let mut update = lists(&["a", "b"], at_ms);
        if let Told::NameServer(_, ServerTold::Cluster(Ok((table, _)))) = &mut update.told {
            table.live = Some(vec![LiveBroker {
                cluster: "c".into(),
                addr: "a:10911".into(),
                age: Duration::from_millis(age_ms),
                limit: None,
                data_version: None,
            }]);
        }
        update
    };
    let mut m = model();
    m.fold(runtime("a", Err("timed out".into()), 20_000));
    m.fold(live(9_000, 20_500));
    m.settle(20_500, INTERVAL);
    assert!(m.revived().is_empty(), "it registered before");
    m.fold(live(500, 30_000));
    m.settle(30_000, INTERVAL);
    assert_eq!(m.revived().get(&id("a")), Some(&29_500));
    // The same registration, told again, is no news.
    m.fold(live(2_400, 32_000));
    m.settle(32_000, INTERVAL);
    assert_eq!(m.revived().get(&id("a")), Some(&29_500));
    m.fold(runtime("a", Ok(1), 33_000));
    m.settle(33_000, INTERVAL);
    assert!(m.revived().is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any order and any repetition of the same updates ends in the same state.
    #[test]
    fn order_and_repetition_do_not_matter(order in Just((0..12usize).chain(0..12).collect::<Vec<_>>()).prop_shuffle()) {
        let updates: Vec<Update> = (0..12)
            .map(|i: i64| {
                let at = 2000 + i * 10;
                match i % 4 {
                    0 => runtime("a", Ok(at), at),
                    1 => runtime("b", Err(format!("failed {at}").into()), at),
                    2 => runtime("b", Ok(at), at),
                    _ => lists(&["a", "b"], at),
                }
            })
            .collect();
        let mut straight = model();
        for u in &updates {
            straight.fold(u.clone());
        }
        straight.settle(10_000, INTERVAL);
        let mut mixed = model();
        for i in order {
            mixed.fold(updates[i].clone());
        }
        mixed.settle(10_000, INTERVAL);
        for (a, b) in straight.snapshot.brokers.iter().zip(&mixed.snapshot.brokers) {
            prop_assert_eq!(&a.runtime.error, &b.runtime.error);
            prop_assert_eq!(a.runtime.is_failed(), b.runtime.is_failed());
            if !a.runtime.is_failed() {
                prop_assert_eq!(&a.runtime, &b.runtime);
            }
            prop_assert_eq!(&a.addr, &b.addr);
        }
        prop_assert_eq!(&straight.snapshot.name_servers, &mixed.snapshot.name_servers);
    }
}
