//! The state machine under random and under deliberate keys.

use std::time::Duration;

use proptest::prelude::*;
use rmq::client::findings::Subject;
use rmq::client::lag::GroupKind;
use rmq::tui::app::{self, Action, App, Event, Overlay, Pane, Screen};
use rmq::tui::keys;
use rmq::tui::model::{Told, Update};
use rmq::tui::want::{Found, GroupBrief, Want};

use super::fixture::{Look, NOW, Story, console, picture, press, text, type_text};

fn at(size: (u16, u16)) -> Look {
    Look::of(size)
}

/// Every pane's selection is a row that exists.
fn check(app: &App) {
    for &pane in app.place.screen.panes() {
        let table = app.table(pane);
        match app.selected(pane, &table) {
            Some(index) => assert!(index < table.rows.len(), "{pane:?}"),
            None => assert!(table.rows.is_empty(), "{pane:?}"),
        }
        for row in &table.rows {
            assert_eq!(row.cells.len(), table.columns.len(), "{pane:?}");
        }
    }
}

/// Names of keys to press: everything in the table and some letters that are typed.
fn any_key() -> impl Strategy<Value = String> {
    let names: Vec<String> = keys::TABLE
        .iter()
        .flat_map(|b| b.keys)
        .filter(|k| !matches!(**k, "q" | "ctrl-c"))
        .map(|k| (*k).to_owned())
        .chain(["a", "(", "!", "订", "backspace", "b"].map(str::to_owned))
        .collect();
    prop::sample::select(names)
}

#[derive(Debug, Clone)]
enum Step {
    Key(String),
    Resize(u16, u16),
    Tick(i64),
    Paste(String),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => any_key().prop_map(Step::Key),
        2 => (0..220u16, 0..70u16).prop_map(|(w, h)| Step::Resize(w, h)),
        2 => (0..20_000i64).prop_map(Step::Tick),
        1 => ".{0,20}".prop_map(Step::Paste),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_sequence_of_events_breaks_the_console(
        story in prop::sample::select(vec![Story::OneDead, Story::Names, Story::Unreachable]),
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let mut app = console(story, Screen::Overview, at((100, 30)));
        for step in steps {
            match step {
                Step::Key(key) => drop(press(&mut app, &key)),
                Step::Resize(w, h) => drop(app::update(&mut app, NOW, Event::Resize(w, h))),
                Step::Tick(ms) => {
                    let now = app.now_ms + ms;
                    app::update(&mut app, now, Event::Tick);
                }
                Step::Paste(text) => drop(app::update(&mut app, NOW, Event::Paste(text))),
            }
            check(&app);
            picture(&app);
        }
        // Escape is always the way home.
        for _ in 0..6 {
            press(&mut app, "esc");
        }
        prop_assert_eq!(app.place.screen, Screen::Overview);
        prop_assert_eq!(&app.overlay, &None);
    }
}

#[test]
fn a_finding_is_one_enter_away_from_its_screen() {
    let mut app = console(Story::OneDead, Screen::Overview, at((100, 30)));
    let table = app.table(Pane::Health);
    assert!(
        table.rows[0].name.contains("broker-c:0"),
        "{:?}",
        table.rows[0].name
    );
    press(&mut app, "enter");
    assert_eq!(app.place.screen, Screen::Broker);
    assert!(text(&picture(&app)).contains("no answer within 2.0s"));
    press(&mut app, "esc");
    assert_eq!(app.place.screen, Screen::Brokers);
    // The list shows the broker we came from.
    assert_eq!(app.selected_broker().unwrap().broker.name, "broker-c");
    press(&mut app, "[");
    assert_eq!(app.place.screen, Screen::Broker);
}

#[test]
fn the_rates_that_are_asked_for_are_those_of_the_rows_on_the_screen() {
    let mut app = console(Story::Healthy, Screen::Overview, at((100, 30)));
    super::fixture::flood(&mut app);
    let asked = |actions: Vec<Action>| {
        actions.into_iter().rev().find_map(|action| match action {
            Action::Interest(topics) => Some(topics),
            _ => None,
        })
    };
    let sorted = |mut names: Vec<String>| {
        names.sort();
        names
    };
    let first = asked(press(&mut app, "4"));
    assert_eq!(first, Some(sorted(app.visible(Pane::Topics))));
    // The end of the list, of which nothing is known yet.
    let last = asked(press(&mut app, "G"));
    assert_eq!(last, Some(sorted(app.visible(Pane::Topics))));
    assert_ne!(first, last);
    press(&mut app, "enter");
    let table = app.table(Pane::Topics);
    let name = &table.rows[table.rows.len() - 1].name;
    assert_eq!(app.place.topic(), Some(name.as_str()));
}

#[test]
fn the_selection_follows_its_row_when_the_order_changes() {
    let mut app = console(Story::OneDead, Screen::Brokers, at((100, 30)));
    press(&mut app, "j");
    press(&mut app, "j");
    let before = app.selected_broker().unwrap().broker.clone();
    assert_eq!(before.name, "broker-b");
    press(&mut app, "s");
    press(&mut app, "enter");
    press(&mut app, "o");
    assert_eq!(app.selected_broker().unwrap().broker, before);
    let table = app.table(Pane::Brokers);
    assert_eq!(table.rows[0].name, "broker-c");
}

#[test]
fn a_filter_works_while_it_is_typed_and_escape_clears_it() {
    let mut app = console(Story::OneDead, Screen::Brokers, at((100, 30)));
    press(&mut app, "/");
    type_text(&mut app, "name:broker-b");
    assert_eq!(app.table(Pane::Brokers).rows.len(), 1);
    press(&mut app, "enter");
    assert_eq!(app.overlay, None);
    assert!(text(&picture(&app)).contains("Brokers 1 of 4"));
    press(&mut app, "esc");
    assert_eq!(app.table(Pane::Brokers).rows.len(), 4);
    assert_eq!(app.place.screen, Screen::Brokers);
}

#[test]
fn letters_typed_into_an_input_are_no_commands() {
    let mut app = console(Story::Healthy, Screen::Overview, at((100, 30)));
    press(&mut app, "/");
    for key in ["q", "2", "p", "?"] {
        let done = press(&mut app, key);
        assert!(done.iter().all(|a| matches!(a, Action::Wants(..))), "{done:?}");
    }
    assert!(matches!(&app.overlay, Some(Overlay::Filter(input)) if input.text() == "q2p?"));
    assert_eq!(press(&mut app, "ctrl-c"), [Action::Quit]);
}

#[test]
fn the_palette_goes_to_brokers_and_sets_the_interval() {
    let mut app = console(Story::Healthy, Screen::Overview, at((100, 30)));
    press(&mut app, ":");
    type_text(&mut app, "broker-b");
    press(&mut app, "enter");
    assert_eq!(app.broker().unwrap().broker.name, "broker-b");
    press(&mut app, ":");
    type_text(&mut app, "set interval 7s");
    assert_eq!(
        press(&mut app, "enter"),
        [Action::Interval(Duration::from_secs(7))]
    );
    assert!(text(&picture(&app)).contains("↻7s"));
    press(&mut app, ":");
    type_text(&mut app, "set interval 0s");
    assert_eq!(press(&mut app, "enter"), []);
    press(&mut app, ":");
    type_text(&mut app, "quit");
    assert_eq!(press(&mut app, "enter"), [Action::Quit]);
}

#[test]
fn the_palette_has_every_action_of_the_screen_and_global_ones_whose_key_it_took() {
    let labels = |app: &App, typed: &str| -> Vec<String> {
        let entries = rmq::tui::palette::palette(app, typed).into_iter();
        entries.map(|e| e.label).collect()
    };
    let has = |app: &App, label: &str| labels(app, label).iter().any(|l| l.starts_with(label));
    let mut app = console(Story::Healthy, Screen::Topics, at((100, 30)));
    for label in [
        "perm: ",
        "queues: ",
        "send message: ",
        "delete: ",
        "mark all: ",
        "quit",
        "copy row",
    ] {
        assert!(has(&app, label), "{label}");
    }
    assert!(!has(&app, "wipe write: "));
    press(&mut app, ":");
    type_text(&mut app, "perm: ");
    press(&mut app, "enter");
    assert!(matches!(&app.overlay, Some(Overlay::Form(form)) if form.title.starts_with("Permission of")));
    press(&mut app, "esc");
    press(&mut app, "3");
    for label in ["wipe write: ", "edit config: ", "wide columns"] {
        assert!(has(&app, label), "{label}");
    }
    // Where o leads to the offsets, the order is turned round from here.
    press(&mut app, "5");
    assert!(has(&app, "sort reverse: "), "{:?}", labels(&app, "sort"));
    app.settings.read_only = true;
    for label in ["pause group: ", "delete: ", "skip backlog: "] {
        assert!(!has(&app, label), "{label}");
    }
}

#[test]
fn a_held_display_does_not_move_while_the_model_does() {
    let mut app = console(Story::Healthy, Screen::Heartbeats, at((100, 30)));
    press(&mut app, "p");
    let held = text(&picture(&app));
    assert!(held.contains("FROZEN 12:04:31"), "{held}");
    app.dirty = false;
    app::update(&mut app, NOW + 500, Event::Updates(Vec::new()));
    assert!(!app.dirty, "news must not draw a held display");
    for second in 1..=12 {
        app::update(&mut app, NOW + second * 1000, Event::Tick);
        assert!(!app.dirty, "a clock must not draw a held display");
    }
    assert_eq!(text(&picture(&app)), held);
    // What is asked for now is shown when it comes, and a notice goes when its time is over.
    press(&mut app, "5");
    press(&mut app, "enter");
    press(&mut app, "r");
    app.dirty = false;
    let want = app.wants()[0].want.clone();
    let update = Update {
        at_ms: app.now_ms + 1,
        retry_at_ms: None,
        told: Told::Found(want.clone(), Ok(super::fixture::found(&want, Story::Healthy))),
    };
    let now = app.now_ms + 1;
    app::update(&mut app, now, Event::Updates(vec![update]));
    assert!(std::mem::take(&mut app.dirty));
    app::update(&mut app, now + 6_000, Event::Tick);
    assert!(std::mem::take(&mut app.dirty), "the notice");
    app::update(&mut app, now + 7_000, Event::Tick);
    assert!(!app.dirty);
    press(&mut app, "p");
    assert_ne!(text(&picture(&app)), held);
}

#[test]
fn copying_gives_the_name_or_the_row() {
    let mut app = console(Story::Healthy, Screen::Brokers, at((100, 30)));
    assert_eq!(press(&mut app, "y"), [Action::Copy("broker-a".into())]);
    let actions = press(&mut app, "Y");
    let [Action::Copy(row)] = &actions[..] else {
        panic!("{actions:?}")
    };
    let row: serde_json::Value = serde_json::from_str(row).unwrap();
    assert_eq!(row["role"], "master");
}

#[test]
fn a_broker_that_left_can_still_be_looked_at_from_its_place() {
    let mut app = console(Story::OneDead, Screen::Broker, at((100, 30)));
    let gone = app.broker().unwrap().broker.clone();
    app.model.snapshot.brokers.retain(|b| b.broker != gone);
    assert!(text(&picture(&app)).contains("this broker is gone"));
    check(&app);
}

#[test]
fn leaving_asks_when_the_servers_would_end_with_it() {
    let leaves = |app: &mut App| press(app, "q").contains(&Action::Quit);
    let mut app = console(Story::Healthy, Screen::Overview, at((100, 30)));
    assert!(leaves(&mut app.clone()), "other people's servers stay");
    app.settings.serving = true;
    assert!(!leaves(&mut app));
    assert!(text(&picture(&app)).contains("they stop with it"));
    press(&mut app, "esc");
    assert_eq!(app.overlay, None);
    assert!(!leaves(&mut app) && leaves(&mut app), "a second time means it");
}

/// What the name servers and brokers tell in the standing poll says nothing about clients.
#[test]
fn the_overview_asks_who_is_there_to_bring_a_backlog_down() {
    let mut app = console(Story::Healthy, Screen::Overview, at((100, 30)));
    let offline = |app: &App| {
        let mut found = app.model.findings.iter();
        found.any(|f| f.rule == "offline-with-lag" && f.subject == Subject::Group("CID_pay".into()))
    };
    let asked = app.wants();
    let want = Want::GroupBrief("CID_pay".into());
    assert!(asked.iter().any(|w| w.want == want), "{asked:?}");
    assert!(!offline(&app));
    let mut tell = |clients, partial| {
        let brief = GroupBrief {
            kind: GroupKind::Offline,
            takes: "push",
            oldest: None,
            clients,
            versions: 1,
            inflight: 0,
            tps: 0.0,
            partial,
        };
        let update = Update {
            at_ms: app.now_ms + 1,
            retry_at_ms: None,
            told: Told::Found(want.clone(), Ok(Found::GroupBrief(brief))),
        };
        let now = app.now_ms + 1;
        app::update(&mut app, now, Event::Updates(vec![update]));
        offline(&app)
    };
    assert!(!tell(2, false));
    assert!(!tell(0, true), "a broker that did not answer may have some");
    assert!(tell(0, false));
    let later = app.now_ms + 120_000;
    app::update(&mut app, later, Event::Tick);
    app::update(&mut app, later, Event::Updates(Vec::new()));
    assert!(!offline(&app), "two minutes old is not now");
}

fn wants_topic(app: &App, name: &str) -> bool {
    app.wants().iter().any(|w| w.want == Want::Topic(name.into()))
}

fn topics_wanted(app: &App) -> usize {
    let is_topic = |w: &&rmq::tui::want::Wanted| matches!(w.want, Want::Topic(_));
    app.wants().iter().filter(is_topic).count()
}

#[test]
fn details_beside_a_list_are_asked_for_when_the_cursor_rests() {
    let mut app = console(Story::Healthy, Screen::Topics, at((200, 60)));
    super::fixture::flood(&mut app);
    let names: Vec<String> = app
        .table(Pane::Topics)
        .rows
        .iter()
        .map(|r| r.name.clone())
        .collect();
    assert!(wants_topic(&app, &names[0]), "the list opens with its details");
    assert_eq!(app.rests_at_ms(), None);
    // A held key: thirty rows a second through ten thousand.
    let mut shown = 0;
    for name in &names[1..=40] {
        let now = app.now_ms + 33;
        press(&mut app, "j");
        app::update(&mut app, now, Event::Rested);
        assert_eq!(app.topic(), Some(name.as_str()), "drawn at once");
        shown += topics_wanted(&app);
        // News may come in between, and the age of rows moves by the second; the cursor makes no rows anew.
        if app.now_ms / 1000 == (app.now_ms - 33) / 1000 {
            let same = app.table(Pane::Topics);
            press(&mut app, "k");
            press(&mut app, "j");
            assert!(std::sync::Arc::ptr_eq(&same, &app.table(Pane::Topics)));
        }
    }
    assert_eq!(shown, 0, "nothing is asked on the way");
    let rests = app.rests_at_ms().expect("it has just come to its row");
    app::update(&mut app, rests - 1, Event::Rested);
    assert_eq!(topics_wanted(&app), 0);
    let actions = app::update(&mut app, rests, Event::Rested);
    assert!(wants_topic(&app, &names[40]));
    assert_eq!(topics_wanted(&app), 1);
    assert!(
        actions.iter().any(|a| matches!(a, Action::Wants(..))),
        "{actions:?}"
    );
    assert_eq!(app.rests_at_ms(), None);
    // Where there is no room for it, it is not asked for either.
    press(&mut app, "z");
    assert_eq!((topics_wanted(&app), app.topic()), (0, None));
    press(&mut app, "z");
    assert!(wants_topic(&app, &names[40]));
    app::update(&mut app, rests, Event::Resize(159, 60));
    assert_eq!(topics_wanted(&app), 0);
}

#[test]
fn details_beside_a_list_know_no_filter_no_focus_and_no_clients() {
    let mut app = console(Story::Healthy, Screen::Groups, at((200, 60)));
    let shown = text(&picture(&app));
    assert!(
        shown.contains("orders/0") && shown.contains("lag over"),
        "{shown}"
    );
    press(&mut app, "/");
    type_text(&mut app, "CID_pay");
    press(&mut app, "enter");
    assert_eq!(app.table(Pane::Groups).rows.len(), 1);
    assert!(
        app.table(Pane::GroupQueues).rows.len() > 1,
        "the filter is the list's"
    );
    assert_eq!(app.group(), Some("CID_pay"));
    press(&mut app, "tab");
    assert_eq!(app.focus(), Pane::Groups);
    app.clients = true;
    let rests = app.now_ms + 1_000;
    app::update(&mut app, rests, Event::Rested);
    assert!(
        app.wants()
            .iter()
            .any(|w| w.want == Want::Group("CID_pay".into()))
    );
    assert!(!app.wants().iter().any(|w| matches!(w.want, Want::Clients(_))));
    // What a drill shows is the same, with what its own keys ask for.
    press(&mut app, "enter");
    assert_eq!(app.place.group(), Some("CID_pay"));
    assert!(app.wants().iter().any(|w| matches!(w.want, Want::Clients(_))));
}
