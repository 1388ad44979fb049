//! kill -9 in every phase of a pop: afterwards each message comes at least once, none early, none forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rmq::protocol::requests::{GetMaxOffset, PopMessageReply};

use super::pop::{Got, ack_of, change_of, filled, got, held, pop};
use super::support::*;
use super::timer;
use crate::support::ports::Block;
use crate::support::rmq::{Server, standalone};

const LIMIT: Duration = Duration::from_secs(40);

struct Crashing {
    dir: tempfile::TempDir,
    ports: Block,
    server: Option<Server>,
}

impl Crashing {
    fn new() -> Self {
        let mut this = Self {
            dir: tempfile::tempdir().unwrap(),
            ports: Block::take(),
            server: None,
        };
        this.start();
        this
    }

    fn start(&mut self) {
        // Small files, so that a start after a kill reads little.
        let settings = [
            "brokerName=broker-t",
            "flushConsumerOffsetInterval=200",
            "mappedFileSizeCommitLog=4194304",
            "mappedFileSizeConsumeQueue=4000",
            "maxHashSlotNum=500",
            "maxIndexNum=1000",
        ]
        .map(str::to_owned);
        let (namesrv, broker) = (self.ports.namesrv(), self.ports.broker());
        self.server = Some(standalone(self.dir.path(), namesrv, broker, &settings));
    }

    fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            server.process.kill();
        }
    }

    async fn client(&self) -> Client {
        Client::new(&format!("127.0.0.1:{}", self.ports.broker())).await
    }
}

/// Whatever comes until `done`, with when it came.
async fn collect(
    client: &Client,
    invisible_ms: i64,
    mut done: impl FnMut(&[(Got, i64)]) -> bool,
) -> Vec<(Got, i64)> {
    let begin = Instant::now();
    let mut all: Vec<(Got, i64)> = Vec::new();
    while !done(&all) {
        assert!(begin.elapsed() < LIMIT, "only {all:?}");
        let answer = client.ask(held(pop("t", -1, 32, invisible_ms), 500), ()).await;
        let now = now_ms();
        for one in got(&answer, "t") {
            client.ok(ack_of(&one, "t"), ()).await;
            all.push((one, now));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_broker_hands_out_nothing_early_and_forgets_nothing() {
    let mut server = Crashing::new();
    let client = server.client().await;
    filled(&client, "t", 8).await;
    let mut popped = Vec::new();
    for _ in 0..5 {
        let answer = client.ask(pop("t", 0, 1, 5000), ()).await;
        popped.push((
            got(&answer, "t").remove(0),
            answer.header::<PopMessageReply>().pop_time,
        ));
    }
    client.ok(ack_of(&popped[0].0, "t"), ()).await;
    let (changed, ()) = client.ok(change_of(&popped[1].0, "t", 9000), ()).await;
    let (hurried, ()) = client.ok(change_of(&popped[2].0, "t", 2500), ()).await;
    server.kill();
    server.start();
    let client = server.client().await;
    let all = collect(&client, 60_000, |all| {
        let bodies: BTreeSet<&str> = all.iter().map(|(one, _)| one.body.as_str()).collect();
        bodies.len() == 7
    })
    .await;
    for (one, at) in &all {
        let visible = match one.body.as_str() {
            "m0" => panic!("m0 came again though acknowledged"),
            "m1" => changed.pop_time + 9000,
            "m2" => hurried.pop_time + 2500,
            "m3" => popped[3].1 + 5000,
            "m4" => popped[4].1 + 5000,
            _ => 0,
        };
        assert!(*at >= visible, "{} came {} ms early", one.body, visible - at);
        let times = i32::from(visible > 0);
        assert_eq!(one.times, times, "{one:?}");
    }
    // What is acknowledged now is so after the next crash too, once it stands in the table how far the log of pops was
    // read; what is read again comes again.
    revived(&server, &client).await;
    server.kill();
    server.start();
    let client = server.client().await;
    let answer = client.ask(held(pop("t", -1, 32, 60_000), 3000), ()).await;
    assert_eq!(got(&answer, "t"), [], "acknowledged before the crash");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_killed_while_messages_come_back_forgets_none() {
    const COUNT: usize = 120;
    let mut server = Crashing::new();
    let client = server.client().await;
    filled(&client, "t", COUNT).await;
    let mut popped = 0;
    while popped < COUNT {
        popped += got(&client.ask(pop("t", 0, 3, 800), ()).await, "t").len();
    }
    // Killed several times, as soon as some have come back.
    for round in 1..=3 {
        let header = GetMaxOffset {
            topic: "%RETRY%cg_t".into(),
            queue_id: 0,
            ..GetMaxOffset::default()
        };
        let begin = Instant::now();
        while client_max(&server, &header).await < round * 10 {
            assert!(begin.elapsed() < LIMIT);
        }
        server.kill();
        server.start();
    }
    let client = server.client().await;
    let all = collect(&client, 60_000, |all| {
        let bodies: BTreeSet<&str> = all.iter().map(|(one, _)| one.body.as_str()).collect();
        bodies.len() == COUNT
    })
    .await;
    assert!(all.iter().all(|(one, _)| one.times == 1));
}

/// A start delivers what was overdue as it finds it: checkpoints come long before their acknowledgements, with
/// thousands of other messages between.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_stays_away_while_an_overdue_timer_catches_up() {
    const COUNT: usize = 24;
    let mut server = Crashing::new();
    let client = server.client().await;
    filled(&client, "t", COUNT + 1).await;
    client.create_topic("other", 1).await;
    let (mut handed, mut due) = (Vec::new(), 0);
    while handed.len() <= COUNT {
        let answer = client.ask(pop("t", 0, 1, 8000), ()).await;
        due = answer.header::<PopMessageReply>().pop_time + 8000;
        handed.extend(got(&answer, "t"));
    }
    for one in &handed[..COUNT] {
        client.ok(ack_of(one, "t"), ()).await;
    }
    // Behind the checkpoints, which come a second before their time, and before the acknowledgements.
    let at = (due - 500).to_string();
    let addr = format!("127.0.0.1:{}", server.ports.broker());
    let senders = (0..6).map(|_| {
        let (addr, at) = (addr.clone(), at.clone());
        tokio::spawn(async move {
            let client = Client::new(&addr).await;
            for _ in 0..400 {
                let header = timer::with("other", &[("TIMER_DELIVER_MS", &at)]);
                client.ok(header, timer::body("x")).await;
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    server.kill();
    while now_ms() < due + 2000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    server.start();
    let client = server.client().await;
    let back = collect(&client, 60_000, |all| !all.is_empty()).await;
    client.await_max("other", 0, 2400).await;
    let more = client.ask(held(pop("t", -1, 32, 60_000), 2500), ()).await;
    let names: Vec<String> = back.into_iter().map(|(one, _)| one.body).collect();
    assert_eq!(names, [handed[COUNT].body.clone()]);
    assert_eq!(got(&more, "t"), []);
}

/// Waits until the table of offsets on the disk says that all of the log of pops was read.
async fn revived(server: &Crashing, client: &Client) {
    let topic = "rmq_sys_REVIVE_LOG_DefaultCluster";
    let table = server.dir.path().join("store/config/consumerOffset.json");
    within(LIMIT, async || {
        // Java's form of JSON, with numbers for keys.
        let text = std::fs::read_to_string(&table).unwrap_or_default();
        let key = format!("\"{topic}@CID_RMQ_SYS_REVIVE_GROUP\"");
        let saved = text.split_once(&key).and_then(|(_, rest)| rest.split('}').next());
        let saved: BTreeMap<i32, i64> = saved
            .unwrap_or_default()
            .split(|c: char| !c.is_ascii_digit() && c != ':')
            .filter_map(|pair| {
                let (queue_id, offset) = pair.split_once(':')?;
                Some((queue_id.parse().ok()?, offset.parse().ok()?))
            })
            .collect();
        for queue_id in 0..8 {
            let header = GetMaxOffset {
                topic: topic.into(),
                queue_id,
                ..GetMaxOffset::default()
            };
            let max = client.ok(header, ()).await.0.offset;
            // As in Java it names the last record that is done with.
            if max > 0 && saved.get(&queue_id) != Some(&(max - 1)) {
                return false;
            }
        }
        true
    })
    .await;
}

async fn client_max(server: &Crashing, header: &GetMaxOffset) -> i64 {
    let client = server.client().await;
    let max = client.ok(header.clone(), ()).await.0.offset;
    client.disconnect();
    max
}
