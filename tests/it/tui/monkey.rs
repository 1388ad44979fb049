//! A hundred thousand random keys, with rehearsals that come when they like: nothing is changed without its confirmation,
//! nothing at all in a read-only console, and escape leads home.

use rmq::tui::app::{self, Action, App, Event, Screen};
use rmq::tui::deed::{DeedTold, Level, Rehearsal, StepLine};
use rmq::tui::keys;

use super::fixture::{Look, Story, answer, console, picture, press};

const KEYS: usize = 100_000;

/// Small and repeatable (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

fn names() -> Vec<String> {
    let table = keys::TABLE.iter().flat_map(|b| b.keys);
    table
        .filter(|k| !matches!(**k, "q" | "ctrl-c" | "ctrl-z"))
        .map(|k| (*k).to_owned())
        .chain(
            [
                "o",
                "r",
                "d",
                "e",
                "s",
                "4",
                "x",
                "订",
                "backspace",
                "enter",
                "tab",
            ]
            .map(str::to_owned),
        )
        .collect()
}

fn rehearsal(level: Level) -> Box<Rehearsal> {
    Box::new(Rehearsal {
        action: "change".into(),
        object: "orders".into(),
        cluster: "sh-prod".into(),
        level,
        steps: vec![StepLine {
            target: "broker-a".into(),
            field: "perm".into(),
            before: "6".into(),
            after: "4".into(),
            result: "planned".into(),
            good: true,
        }],
        impact: Vec::new(),
        lines: Vec::new(),
    })
}

/// Presses random keys; returns what was carried out.
fn play(app: &mut App, dice: &mut Dice, keys: usize) -> usize {
    let names = names();
    let mut carried_out = 0;
    for i in 0..keys {
        let key = &names[dice.below(names.len())];
        let typed = app
            .works
            .last()
            .map(|w| w.typed.text().to_owned())
            .unwrap_or_default();
        for action in press(app, key) {
            match action {
                Action::Rehearse(id, _) | Action::CarryOut(id, ..) if app.settings.read_only => {
                    panic!("{id} in a read-only console")
                }
                Action::Rehearse(id, _) => {
                    let level = [Level::Apply, Level::Name, Level::NameAndContext][dice.below(3)];
                    let told = DeedTold::Planned(Ok(Some(rehearsal(level))));
                    let now = app.now_ms;
                    app::update(app, now, Event::Deed(id, told));
                }
                Action::CarryOut(id, _, shown) => {
                    carried_out += 1;
                    match shown.level {
                        Level::Apply => assert_eq!(key, "enter"),
                        Level::Name => assert_eq!(typed, "orders"),
                        Level::NameAndContext => {
                            assert_eq!(typed, format!("orders {}", app.settings.context))
                        }
                    }
                    let now = app.now_ms;
                    let done = DeedTold::Done(Box::default());
                    app::update(app, now, Event::Deed(id, done));
                }
                _ => {}
            }
        }
        if i % 500 == 0 {
            answer(app, Story::OneDead);
            picture(app);
        }
    }
    carried_out
}

#[test]
fn nothing_is_changed_without_its_confirmation() {
    let mut app = console(Story::OneDead, Screen::Overview, Look::of((100, 30)));
    let mut dice = Dice(7);
    play(&mut app, &mut dice, KEYS);
    for _ in 0..6 {
        press(&mut app, "esc");
    }
    assert_eq!((app.place.screen, &app.overlay), (Screen::Overview, &None));
}

#[test]
fn a_read_only_console_changes_nothing() {
    let mut app = console(Story::OneDead, Screen::Topics, Look::of((100, 30)));
    app.settings.read_only = true;
    assert_eq!(play(&mut app, &mut Dice(11), KEYS / 4), 0);
}
