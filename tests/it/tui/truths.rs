//! What cells and findings say is so: stories in which the obvious number is the wrong one.

use rmq::client::findings::{Severity, Subject};
use rmq::client::snapshot::{BrokerId, GroupLag};
use rmq::client::stranded::Stranded;
use rmq::tui::app::{self, App, Event, Pane, Screen};
use rmq::tui::model::{BrokerTold, Told, Update};

use super::fixture::{Look, NOW, Story, console, picture, text};

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
    assert_eq!(
        stands(&mut app, NOW + 320_000, committed + 1),
        "! flow ctl",
        "it moves"
    );
    assert_eq!(cell(&app, Pane::GroupClients, client, "PULL"), "5m20s");
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
