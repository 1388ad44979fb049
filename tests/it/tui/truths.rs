//! What cells and findings say is so: stories in which the obvious number is the wrong one.

use rmq::client::snapshot::{BrokerId, GroupLag};
use rmq::tui::app::{self, App, Event, Pane, Screen};
use rmq::tui::model::{BrokerTold, Told, Update};

use super::fixture::{Look, NOW, Story, console};

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
        tell(app, at_ms, Told::Broker(broker_a(), BrokerTold::Lag(Ok(vec![row]))));
        cell(app, Pane::GroupClients, client, "FLAG")
    };
    // As the group's detail has it.
    let committed = 5_470_884;
    assert_eq!(stands(&mut app, NOW + 10_000, committed), "! flow ctl");
    assert_eq!(stands(&mut app, NOW + 309_000, committed), "! flow ctl");
    assert_eq!(stands(&mut app, NOW + 310_000, committed), "✗ STUCK ! flow ctl");
    assert_eq!(stands(&mut app, NOW + 320_000, committed + 1), "! flow ctl", "it moves");
    assert_eq!(cell(&app, Pane::GroupClients, client, "PULL"), "5m20s");
}
