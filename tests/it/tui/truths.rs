//! What cells and findings say is so: stories in which the obvious number is the wrong one.

use std::time::Duration;

use rmq::client::RuntimeInfo;
use rmq::client::findings::{Severity, Subject};
use rmq::client::lag::Waiting;
use rmq::client::snapshot::{BrokerId, GroupLag};
use rmq::client::stranded::Stranded;
use rmq::tui::app::{self, App, Event, Pane, Screen};
use rmq::tui::model::{BrokerTold, Told, Update};
use rmq::tui::want::{ClientDetail, ClientTold, Found, Want};

use super::fixture::{Look, NOW, Story, answer, console, picture, text};

const SIZE: (u16, u16) = (200, 60);

fn broker_a() -> BrokerId {
    BrokerId {
        cluster: "sh-prod".into(),
        name: "broker-a".into(),
        id: 0,
    }
}

/// News at a time.
fn tell(app: &mut App, at_ms: i64, told: Told) {
    let update = Update {
        at_ms,
        retry_at_ms: None,
        told,
    };
    app::update(app, at_ms, Event::Updates(vec![update]));
}

/// The cell of a row and column, as text.
fn cell(app: &App, pane: Pane, row: &str, column: &str) -> String {
    let table = app.table(pane);
    let at = table.columns.iter().position(|c| c.name == column).unwrap();
    let row = table.rows.iter().find(|r| r.name == row).unwrap();
    row.cells[at].plain().trim().to_owned()
}

/// Java's client tries to pull every 50 ms, whatever its listener does: only the position tells.
#[test]
fn a_client_whose_listener_hangs_is_stuck() {
    let mut app = console(Story::Healthy, Screen::Group, Look::of(SIZE));
    let client = "10.0.1.5@8812";
    let stands = |app: &mut App, at_ms: i64, committed: i64| {
        let row = GroupLag {
            group: "CID_pay".into(),
            topic: "orders".into(),
            broker: "broker-a".into(),
            queue: 0,
            max: 5_512_004 + at_ms - NOW,
            committed: Some(committed),
            ..GroupLag::default()
        };
        tell(
            app,
            at_ms,
            Told::Broker(broker_a(), BrokerTold::Lag(Ok(vec![row]))),
        );
        cell(app, Pane::GroupClients, client, "FLAG")
    };
    // As the group's detail has it.
    let committed = 5_470_884;
    assert_eq!(stands(&mut app, NOW + 10_000, committed), "! flow ctl");
    assert_eq!(stands(&mut app, NOW + 309_000, committed), "! flow ctl");
    assert_eq!(stands(&mut app, NOW + 310_000, committed), "✗ STUCK ! flow ctl");
    // Where the group is paused it need not get on; elsewhere it must.
    let mut at_ms = NOW + 310_000;
    let mut paused_on = |app: &mut App, broker: Option<&str>| {
        at_ms += 1;
        let want = Want::Group("CID_pay".into());
        let Some(Found::Group(mut detail)) = app.model.found(&want).get().cloned() else {
            panic!("the group is known");
        };
        let names = detail.configs.keys().cloned().chain(["broker-b".to_owned()]);
        let field = |name: String| {
            let value = broker != Some(name.as_str());
            (name, vec![("consume-enable".to_owned(), value.to_string())])
        };
        detail.configs = names.map(field).collect();
        tell(app, at_ms, Told::Found(want, Ok(Found::Group(detail))));
        cell(app, Pane::GroupClients, client, "FLAG")
    };
    assert_eq!(paused_on(&mut app, Some("broker-b")), "✗ STUCK ! flow ctl");
    assert_eq!(paused_on(&mut app, Some("broker-a")), "! flow ctl");
    assert_eq!(paused_on(&mut app, None), "✗ STUCK ! flow ctl");
    assert_eq!(
        stands(&mut app, NOW + 320_000, committed + 1),
        "! flow ctl",
        "it moves"
    );
    // As old as it was when the client answered, with the age of that answer: it is not the client that waits.
    assert_eq!(cell(&app, Pane::GroupClients, client, "PULL"), "0s 5m20s old");
}

/// Both numbers of a topic lowered by hand: no answer about the topic names the queues that are left.
#[test]
fn stranded_queues_are_a_finding_and_rows_with_the_remedy() {
    let mut app = console(Story::Healthy, Screen::Topic, Look::of(SIZE));
    let left = |queue: i32, unread: i64| Stranded {
        queue,
        min: 0,
        max: 40_000,
        unread: [("CID_bi".to_owned(), unread)].into(),
    };
    let queues = vec![left(16, 1_200), left(17, 4)];
    let told = BrokerTold::Stranded(Ok([("orders".to_owned(), queues)].into()));
    tell(&mut app, NOW + 1_000, Told::Broker(broker_a(), told));
    let found = app.model.findings.iter().find(|f| f.rule == "stranded").unwrap();
    assert_eq!((found.check, found.severity), ("TP1", Severity::Critical));
    assert_eq!(found.subject, Subject::Topic("orders".into()));
    let row = |column| cell(&app, Pane::TopicQueues, "broker-a/16", column);
    assert_eq!(
        [row("MAX"), row("WORST GROUP"), row("LAG")],
        ["40,000", "CID_bi", "1,200"]
    );
    assert!(row("BAR (lag)").ends_with("✗ stranded"), "{}", row("BAR (lag)"));
    let picture = text(&picture(&app));
    assert!(
        picture.contains("1.2k stranded in 16-17 of broker-a"),
        "{picture}"
    );
    assert!(
        picture.contains("rmq topic update orders --read-queues 18 --broker broker-a"),
        "{picture}"
    );
    // Nothing is left.
    let told = BrokerTold::Stranded(Ok([].into()));
    tell(&mut app, NOW + 2_000, Told::Broker(broker_a(), told));
    assert!(app.model.findings.iter().all(|f| f.rule != "stranded"));
}

/// What broker-a says at `at_ms`, with a clock that is off; it started at a whole second of its own.
fn runtime(at_ms: i64, off_ms: i64) -> Told {
    let started = NOW - 1_000_000;
    let uptime = (at_ms + off_ms - started) / 1_000;
    let entries = [
        ("bootTimestamp".to_owned(), started.to_string()),
        (
            "runtime".to_owned(),
            format!("[ 0 days, 0 hours, 0 minutes, {uptime} seconds ]"),
        ),
    ];
    let info = RuntimeInfo::between(entries.into(), (at_ms - 2, at_ms));
    let rtt = Duration::from_millis(2);
    Told::Broker(broker_a(), BrokerTold::Runtime(Ok((Box::new(info), rtt))))
}

#[test]
fn a_clock_that_is_off_is_told_and_does_not_make_messages_young() {
    let mut app = console(Story::Healthy, Screen::Group, Look::of(SIZE));
    // As broker-a tells it, its message was stored 12 min 40 s ago of our clock.
    assert_eq!(cell(&app, Pane::GroupQueues, "orders/0", "TIME LAG"), "12m40s");
    for (second, part) in [(1, 0), (3, 250), (5, 500), (7, 750)] {
        let at = NOW + second * 1_000 + part;
        tell(&mut app, at, runtime(at, 300_000));
    }
    // By its own clock, five minutes ahead, it has been waiting five minutes longer (and 7 s since).
    assert_eq!(cell(&app, Pane::GroupQueues, "orders/0", "TIME LAG"), "17m47s");
    let found = app
        .model
        .findings
        .iter()
        .find(|f| f.rule == "clock-skew")
        .unwrap();
    assert_eq!((found.check, found.severity), ("CL1", Severity::Critical));
    assert_eq!(
        found.text,
        "the clock of broker-a:0 is at least 5m ahead of this host's"
    );
    // A clock that is 12 ms ahead is no finding, and is known well after some looks.
    let mut app = console(Story::Healthy, Screen::Overview, Look::of(SIZE));
    tell(&mut app, NOW + 400, runtime(NOW + 400, 12));
    assert!(text(&picture(&app)).contains("clock skew ≤ 601 ms"));
    for part in [2_100, 3_989, 8_986] {
        tell(&mut app, NOW + part, runtime(NOW + part, 12));
    }
    assert!(
        text(&picture(&app)).contains("clock skew 13 ms"),
        "{}",
        text(&picture(&app))
    );
    assert!(app.model.findings.iter().all(|f| f.rule != "clock-skew"));
}

/// The last consumed message is hours old where messages are rare; the first unread one is not.
#[test]
fn the_oldest_message_of_a_group_is_the_first_unread_one() {
    let mut app = console(Story::Healthy, Screen::Overview, Look::of(SIZE));
    let row = |last_consumed_ms| GroupLag {
        group: "CID_rare".into(),
        topic: "orders".into(),
        broker: "broker-a".into(),
        queue: 3,
        max: 9_000_000,
        committed: Some(1),
        last_consumed_ms,
        ..GroupLag::default()
    };
    let lag = |app: &mut App, at_ms, row| {
        tell(
            app,
            at_ms,
            Told::Broker(broker_a(), BrokerTold::Lag(Ok(vec![row]))),
        );
        cell(app, Pane::WorstLag, "CID_rare", "OLDEST")
    };
    // Before it was asked: no longer than that.
    assert_eq!(lag(&mut app, NOW + 1_000, row(None)), "?");
    assert_eq!(lag(&mut app, NOW + 2_000, row(Some(NOW - 14_398_000))), "≤4h00m");
    let want = Want::GroupBrief("CID_rare".into());
    assert!(app.wants().iter().any(|w| w.want == want));
    answer(&mut app, Story::Healthy);
    let Some(Found::GroupBrief(mut brief)) = app.model.found(&want).get().cloned() else {
        panic!("no brief");
    };
    let mut waits = |stored_ms: i64, sure| {
        let broker = "broker-a".to_owned();
        brief.oldest = Some(Waiting {
            broker,
            stored_ms,
            sure,
        });
        let told = Told::Found(want.clone(), Ok(Found::GroupBrief(brief.clone())));
        let at = app.now_ms.max(NOW + 2_000) + 1_000;
        tell(&mut app, at, told);
        let age = (at - stored_ms) / 1_000;
        (age, cell(&app, Pane::WorstLag, "CID_rare", "OLDEST"))
    };
    assert_eq!(waits(NOW + 1_000, true), (2, "2s".to_owned()));
    assert_eq!(waits(NOW - 56_000, false), (60, "≥1m00s".to_owned()));
    assert_eq!(waits(NOW - 595_000, true), (600, "10m00s".to_owned()));
    assert_eq!(waits(NOW - 599_000, true), (605, "10m05s".to_owned()));
    let found = app.model.findings.iter();
    let mut found = found.filter(|f| f.rule == "lag-old" && f.subject == Subject::Group("CID_rare".into()));
    let found = found
        .next()
        .expect("a message that waits for more than ten minutes is a finding");
    assert_eq!((found.check, found.severity), ("GR5", Severity::Warning));
    assert!(
        found
            .text
            .ends_with("oldest message waits at least 10m (broker-a)"),
        "{}",
        found.text
    );
    // It has read on since.
    assert_eq!(
        lag(&mut app, NOW + 10_000, row(Some(NOW))),
        "≤10s",
        "what was waiting is consumed"
    );
}

#[test]
fn a_clean_overview_says_how_much_was_not_looked_for() {
    let mut app = console(Story::Empty, Screen::Overview, Look::of((100, 30)));
    app.model.findings.clear();
    let shown = text(&picture(&app));
    assert!(shown.contains("checks found nothing"), "{shown}");
    let resting = rmq::client::doctor::RESTING.len();
    assert!(
        shown.contains(&format!("{resting} checks not run: D runs them")),
        "{shown}"
    );
    super::fixture::press(&mut app, "D");
    assert!(
        matches!(&app.overlay, Some(app::Overlay::Sheet(words, _)) if words == &["doctor"]),
        "{:?}",
        app.overlay
    );
}

#[test]
fn clients_that_are_old_or_subscribe_otherwise_are_marked() {
    let mut app = console(Story::Healthy, Screen::Group, Look::of(SIZE));
    let want = Want::Group("CID_pay".into());
    let Some(Found::Group(mut detail)) = app.model.found(&want).get().cloned() else {
        panic!("no detail");
    };
    detail.clients[1].version_code = 455;
    let third = detail.clients[0].clone();
    detail.clients.push(third);
    detail.clients[2].id = "10.0.1.9@1".into();
    tell(&mut app, NOW + 1_000, Told::Found(want, Ok(Found::Group(detail))));
    let clients = ["10.0.1.5@8812", "10.0.1.7@9021", "10.0.1.9@1"];
    let flags = |app: &App| clients.map(|id| cell(app, Pane::GroupClients, id, "FLAG"));
    let subscribe = |app: &mut App, at_ms: i64, all: [&str; 3]| {
        let told = clients.iter().zip(all).map(|(id, subscription)| ClientDetail {
            id: (*id).into(),
            told: Ok(ClientTold {
                subscription: subscription.into(),
                queues: vec![("orders".into(), "broker-b".into(), 9)],
                ..ClientTold::default()
            }),
        });
        let want = Want::Clients("CID_pay".into());
        tell(app, at_ms, Told::Found(want, Ok(Found::Clients(told.collect()))));
    };
    subscribe(&mut app, NOW + 2_000, ["orders *"; 3]);
    // They told no rates: that is not a rate of 0.
    let rates = ["OK/s", "FAIL/s"].map(|column| cell(&app, Pane::GroupClients, clients[0], column));
    assert_eq!(rates, ["?", "?"]);
    assert_eq!(flags(&app), ["–", "! OLD VERSION", "–"]);
    subscribe(&mut app, NOW + 3_000, ["orders *", "orders *", "orders TagA"]);
    assert_eq!(flags(&app), ["–", "! OLD VERSION", "✗ SUB MISMATCH"]);
    // Nobody knows which is meant.
    subscribe(&mut app, NOW + 4_000, ["orders *", "orders TagB", "orders TagA"]);
    assert_eq!(
        flags(&app),
        ["✗ SUB MISMATCH", "✗ SUB MISMATCH ! OLD VERSION", "✗ SUB MISMATCH"]
    );
}
