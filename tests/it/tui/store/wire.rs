//! The queue pane over the wire, beside the files of the very store that the broker has open.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use bytes::Bytes;
use rmq::client::produce::{Outgoing, Producer};
use rmq::client::{Client, Options};
use rmq::tui::app::{self, App, Event};
use rmq::tui::model::{Told, Update};
use rmq::tui::store::answer::{
    Answer, Compared, GroupPositions, QueueLine, QueuePage, RecordView, TopicQueues,
};
use rmq::tui::store::ask::{Asker, Inspector, wire};
use rmq::tui::store::question::{At, What};
use rmq::tui::store::wire::Question;
use rmq::tui::store::{State, entry_row, log_row};
use rmq::tui::want::{Found, Want};

use crate::cli::Cluster;
use crate::tui::fixture::{Look, NOW, picture, press, text, type_text};

/// Messages of the queue that is looked at: more than a page holds.
const MESSAGES: usize = 120;

fn client(cluster: &Cluster, read_only: bool) -> Arc<Client> {
    Arc::new(Client::new(Options {
        name_servers: vec![cluster.addr.to_string()],
        read_only,
        ..Options::default()
    }))
}

fn message(broker: &str, queue: i32, n: usize) -> Outgoing {
    Outgoing {
        topic: "T".into(),
        body: Bytes::from(format!("{{\"n\":{n},\"broker\":\"{broker}\"}}")),
        keys: vec![format!("K-{n}")],
        tag: (!n.is_multiple_of(3)).then(|| format!("Tag{}", n % 2)),
        properties: Vec::new(),
        delay_level: None,
        broker: Some(broker.into()),
        queue: Some(queue),
        create_topic: false,
    }
}

/// Two brokers with the same topic: queue 1 of the second has much, each first queue one message.
async fn cluster() -> Cluster {
    let cluster = Cluster::start(&["broker-a", "broker-b"]).await;
    let made = cluster.rmq().line("topic create T --queues 2 --yes").await;
    assert_eq!(made.code, 0, "{made:?}");
    let producer = Producer::new(client(&cluster, false), "P").expect("a name");
    for broker in ["broker-a", "broker-b"] {
        producer.send(&message(broker, 0, 1)).await.expect("it is stored");
    }
    for n in 0..MESSAGES {
        producer
            .send(&message("broker-b", 1, n))
            .await
            .expect("it is stored");
    }
    // What is stored is dispatched to the queue a moment later.
    let (client, begin) = (client(&cluster, true), Instant::now());
    while page(&client, At::Newest).await.offsets.1 < MESSAGES as i64 {
        assert!(begin.elapsed() < Duration::from_secs(20), "not dispatched");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    cluster
}

async fn asked(client: &Client, question: Question) -> Answer {
    match wire::answer(client, &question).await {
        Ok(answer) => answer,
        Err(why) => panic!("{question:?}: {why}"),
    }
}

async fn page(client: &Client, at: At) -> QueuePage {
    let question = Question::Queue {
        broker: "broker-b".into(),
        topic: "T".into(),
        queue: 1,
        at,
    };
    match asked(client, question).await {
        Answer::Queue(page) => page,
        other => panic!("{other:?}"),
    }
}

/// What the files of a broker say.
fn of_files(root: &Path, what: What) -> Answer {
    super::asking::ask(&Inspector::default(), root, what).expect("its files are there")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_tells_of_a_queue_what_its_files_do() {
    let cluster = cluster().await;
    let client = client(&cluster, true);
    let root = cluster.path("broker-b");
    let mut seen = BTreeSet::new();
    for at in [At::Oldest, At::Offset(40), At::Offset(80), At::Newest] {
        let here = page(&client, at).await;
        assert_eq!(here.offsets, (0, MESSAGES as i64));
        assert!(here.page.rows.len() <= 51, "a page is bounded");
        let what = What::Queue {
            topic: "T".into(),
            queue: 1,
            at,
        };
        let Answer::Queue(files) = of_files(&root, what) else {
            panic!()
        };
        assert_eq!(here.page.focus, files.page.focus, "{at:?}");
        for row in &here.page.rows {
            assert!(files.page.rows.contains(row), "{row:?}");
            assert_eq!(row.check, Compared::Good);
            seen.insert(row.offset);
        }
        // A record for every entry, and the same as the log has it.
        assert_eq!(here.records.len(), here.page.rows.len());
        let first = here.records.first().expect("a record");
        let at = At::Offset(first.at);
        let Answer::Log(log) = of_files(&root, What::Log { at, topic: None }) else {
            panic!()
        };
        assert!(log.rows.contains(first), "{first:?}");
    }
    assert_eq!(seen, (0..MESSAGES as i64).collect(), "every page together");
    let Answer::Queue(files) = of_files(
        &root,
        What::Queue {
            topic: "T".into(),
            queue: 1,
            at: At::Offset(60),
        },
    ) else {
        panic!()
    };
    let row = files
        .page
        .rows
        .iter()
        .find(|row| row.offset == 60)
        .expect("an entry");
    let at = u64::try_from(row.record.expect("it leads to a record").0).expect("an offset");
    let question = Question::Record {
        broker: "broker-b".into(),
        topic: "T".into(),
        at,
    };
    let Answer::Record(told) = asked(&client, question).await else {
        panic!()
    };
    let Answer::Record(read) = of_files(&root, What::Record(at)) else {
        panic!()
    };
    let parts = |view: &RecordView| {
        (
            view.at,
            view.kind,
            view.len,
            view.bytes.clone(),
            view.fields.clone(),
        )
    };
    assert_eq!(parts(&told), parts(&read));
    // By time as well: what was stored with or behind the 61st.
    let stored = row.stored_ms.expect("a time");
    let by_time = page(&client, At::Time(stored)).await;
    let Answer::Queue(of_time) = of_files(
        &root,
        What::Queue {
            topic: "T".into(),
            queue: 1,
            at: At::Time(stored),
        },
    ) else {
        panic!()
    };
    assert_eq!(by_time.page.focus, of_time.page.focus);
    // What is not there says so.
    for (topic, broker) in [("Nothing", "broker-b"), ("T", "broker-c")] {
        let question = Question::Record {
            broker: broker.into(),
            topic: topic.into(),
            at,
        };
        let why = wire::answer(&client, &question).await.expect_err("there is none");
        assert!(why.contains("not found"), "{why}");
    }
    let question = Question::Record {
        broker: "broker-b".into(),
        topic: "T".into(),
        at: 7_000_000,
    };
    assert!(wire::answer(&client, &question).await.is_err());
    cluster.stop().await;
}

/// A screen whose questions are answered at once, by brokers and files alike.
struct Live {
    app: App,
    client: Arc<Client>,
    inspector: Inspector,
    asked: BTreeSet<Want>,
}

impl Live {
    async fn press(&mut self, keys: &[&str]) {
        for key in keys {
            match key.strip_prefix("type ") {
                Some(text) => type_text(&mut self.app, text),
                None => drop(press(&mut self.app, key)),
            }
            self.settle().await;
        }
    }

    /// Answers until nothing new is asked; what was asked before and still is, is not asked again.
    async fn settle(&mut self) {
        for round in 0.. {
            assert!(round < 100, "it asks and asks: {:?}", self.asked);
            let wanted: BTreeSet<Want> = self.app.wants().into_iter().map(|wanted| wanted.want).collect();
            self.asked.retain(|want| wanted.contains(want));
            let new = wanted
                .into_iter()
                .find(|want| matches!(want, Want::Store(_) | Want::Wire(_)) && !self.asked.contains(want));
            let Some(want) = new else { return };
            self.asked.insert(want.clone());
            let answer = match &want {
                Want::Wire(question) => wire::answer(&self.client, question).await,
                Want::Store(question) => {
                    let stop = AtomicBool::new(false);
                    self.inspector
                        .answer(question, &mut Asker::new(&mut |_| {}, &stop))
                }
                other => panic!("{other:?}"),
            };
            let update = Update {
                at_ms: NOW,
                retry_at_ms: None,
                told: Told::Found(want, answer.map(|answer| Found::Store(Box::new(answer)))),
            };
            app::update(&mut self.app, NOW, Event::Updates(vec![update]));
        }
    }

    fn shown(&self) -> String {
        text(&picture(&self.app))
    }

    fn entry(&self) -> Option<i64> {
        entry_row(&self.app).map(|row| row.offset)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_screen_turns_to_the_broker_and_back() {
    let cluster = cluster().await;
    let mut live = Live {
        app: super::console::Console::new("basic", Look::of((120, 40))).app,
        client: client(&cluster, true),
        inspector: Inspector::default(),
        asked: BTreeSet::new(),
    };
    // The files are those of the first broker, and the network is there.
    live.app.store = State::new(Some(cluster.path("broker-a")), None);
    live.press(&["q", "/", "type T/0", "enter"]).await;
    assert!(live.shown().contains("source: files"), "{}", live.shown());
    live.press(&["R"]).await;
    let shown = live.shown();
    assert!(shown.contains("T / 0 on broker-a"), "{shown}");
    assert!(shown.contains("source: wire"), "{shown}");
    assert_eq!(live.app.store.entries.page.page.rows.len(), 1);
    // Queues of both brokers: the third line is queue 0 of the second.
    live.press(&["n", "n"]).await;
    assert_eq!(live.app.store.wire.as_deref(), Some("broker-b"));
    live.press(&["n"]).await;
    let shown = live.shown();
    assert!(shown.contains("T / 1 on broker-b   min 0  max 120"), "{shown}");
    assert_eq!(live.entry(), Some(119));
    // Up to the first entry, page by page.
    live.press(&["k"; 130]).await;
    assert_eq!(live.entry(), Some(0));
    live.press(&["g", "type 60", "enter"]).await;
    assert_eq!(live.entry(), Some(60));
    // To its record, with its bytes, and back to its entry.
    live.press(&["enter"]).await;
    let shown = live.shown();
    assert!(shown.contains("Records of T / 1 on broker-b"), "{shown}");
    assert!(
        shown.contains("source: wire") && shown.contains("MAGICCODE"),
        "{shown}"
    );
    let record = live.app.store.record.value.as_ref().expect("a record");
    assert_eq!(Some(record.at), log_row(&live.app).map(|row| row.at));
    assert!(record.body.contains("\"n\":60,"), "{}", record.body);
    live.press(&["enter"]).await;
    assert_eq!(live.entry(), Some(60));
    // What no request brings says so.
    for key in ["i", "K"] {
        live.press(&[key]).await;
        assert!(live.shown().contains("file-only"), "{key}");
    }
    live.press(&["q", "R"]).await;
    let shown = live.shown();
    assert!(shown.contains("source: files"), "{shown}");
    assert!(!shown.contains("broker-b"), "{shown}");
    cluster.stop().await;
}

#[test]
fn without_a_network_the_files_stay() {
    let mut console = super::console::Console::new("basic", Look::of((120, 40)));
    console.press(&["q", "R"]);
    let shown = text(&picture(&console.app));
    assert!(shown.contains("no broker can be asked"), "{shown}");
    assert!(!console.app.store.is_wire());
}

/// A queue of a broker that is asked, and what it answers of the topic.
fn told_of(app: &mut App, question: Question, answer: Result<Answer, String>) {
    let found = answer.map(|answer| Found::Store(Box::new(answer)));
    let update = Update {
        at_ms: NOW,
        retry_at_ms: None,
        told: Told::Found(Want::Wire(question), found),
    };
    app::update(app, NOW, Event::Updates(vec![update]));
}

fn line(broker: &str, queue: i32) -> QueueLine {
    QueueLine {
        broker: broker.into(),
        queue,
        min: 0,
        max: 9,
        files: 0,
        span: None,
    }
}

#[test]
fn a_broker_that_falls_silent_is_not_left_and_a_group_hides_no_queue() {
    let mut app = super::console::Console::new("basic", Look::of((120, 40))).app;
    app.store.wire = Some("broker-b".into());
    app.store.queue = Some(("T".into(), 1));
    app.place.screen = rmq::tui::app::Screen::StoreQueues;
    let (topic, broker) = ("T".to_owned(), "broker-b".to_owned());
    let ranges = || Question::Topic {
        topic: topic.clone(),
        broker: broker.clone(),
    };
    let positions = Question::Positions {
        topic: topic.clone(),
        broker: broker.clone(),
    };
    let wants = |app: &App| {
        app.wants()
            .iter()
            .any(|w| w.want == Want::Wire(positions.clone()))
    };
    let all = TopicQueues {
        queues: vec![line("broker-a", 0), line("broker-b", 1)],
        ..TopicQueues::default()
    };
    // Positions are asked for once the queues are there.
    assert!(!wants(&app));
    told_of(&mut app, ranges(), Ok(Answer::Topic(all.clone())));
    assert!(wants(&app));
    told_of(&mut app, positions.clone(), Err("denied: 300".into()));
    let shown = text(&picture(&app));
    assert!(
        shown.contains("broker-b/1") && shown.contains("✗ denied: 300"),
        "{shown}"
    );
    let some = GroupPositions {
        groups: [("G".to_owned(), [(1, 4)].into())].into(),
        more: 7,
        problem: Some("H: denied".into()),
    };
    told_of(&mut app, positions.clone(), Ok(Answer::Positions(some)));
    // The next poll of the queues does not take them away.
    told_of(&mut app, ranges(), Ok(Answer::Topic(all)));
    let shown = text(&picture(&app));
    assert!(shown.contains("7 more groups not asked"), "{shown}");
    assert!(shown.contains("✗ H: denied") && shown.contains("G "), "{shown}");
    // One poll fails: the screen stays with its broker, and says why its queues are missing.
    let one = TopicQueues {
        queues: vec![line("broker-a", 0)],
        problem: Some("broker-b: timeout".into()),
        ..TopicQueues::default()
    };
    told_of(&mut app, ranges(), Ok(Answer::Topic(one.clone())));
    assert_eq!(app.store.wire.as_deref(), Some("broker-b"));
    assert!(text(&picture(&app)).contains("broker-b: timeout"));
    // All answer, and the topic is not there: what there is is shown.
    let one = TopicQueues { problem: None, ..one };
    told_of(&mut app, ranges(), Ok(Answer::Topic(one)));
    assert_eq!(app.store.wire.as_deref(), Some("broker-a"));
    assert_eq!(app.store.queue, Some(("T".into(), 0)));
}
