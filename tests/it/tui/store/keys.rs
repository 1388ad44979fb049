//! With keys of one's own no screen names a key that it does not have.

use std::collections::{BTreeMap, BTreeSet};

use rmq::tui::app::{App, Screen};
use rmq::tui::keys::{Command, Keys, TABLE};
use rmq::tui::place::{Pane, Part};
use rmq::tui::store::Order;

use super::console::Console;
use crate::tui::fixture::{Look, Story, console, picture, press, text};

/// Every action on a letter that nothing else is written with.
fn others() -> (Keys, BTreeMap<&'static str, String>) {
    let names: BTreeSet<&'static str> = TABLE.iter().map(|line| line.command.action()).collect();
    // Latin letters with signs on them, each one cell wide.
    let letters = ('\u{100}'..'\u{250}').filter(|c| c.is_alphabetic());
    let own: BTreeMap<&'static str, String> = names
        .into_iter()
        .zip(letters.map(|letter| letter.to_string()))
        .collect();
    let listed = own
        .iter()
        .map(|(name, key)| ((*name).to_owned(), vec![key.clone()]));
    (Keys::with(&listed.collect()).expect("no two are alike"), own)
}

/// What a key is said to do.
const VERBS: [&str; 15] = [
    "takes", "chooses", "quick", "full", "filter", "shows", "show", "then", "goes", "checks", "makes",
    "begins", "stops", "reads", "or",
];

/// Lines that name a key of before, a letter (but for `a`, which is a word) or a named one: with a verb behind it, or in brackets, or
/// before a colon.
fn old_keys(shown: &str) -> Vec<String> {
    let old: BTreeSet<&str> = TABLE
        .iter()
        .flat_map(|line| line.keys.iter().copied())
        .filter(|key| key.len() == 1 && key.chars().all(|c| c.is_ascii_alphabetic()) && *key != "a")
        .chain(["enter", "space", "ctrl-a"])
        .collect();
    let names_one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.iter().enumerate().any(|(n, word)| {
            let bare = word.trim_matches(|c: char| "():;,.".contains(c));
            let next = words.get(n + 1).copied().unwrap_or_default();
            let is_set_off = *word == format!("({bare})") || word.ends_with(':');
            old.contains(bare) && (VERBS.contains(&next) || is_set_off)
        })
    };
    shown
        .lines()
        .filter(|line| names_one(line))
        .map(str::to_owned)
        .collect()
}

fn check(app: &App, what: &str) {
    let shown = text(&picture(app));
    let found = old_keys(&shown);
    assert!(found.is_empty(), "{what}: {found:#?}");
}

#[test]
fn no_screen_names_a_key_that_is_another_one_now() {
    // The words themselves are found, and others are not.
    for (line, wanted) in [
        ("none; n makes one", 1),
        ("as of 12:04 (r)", 1),
        ("wire; R: the files", 1),
        ("V or v", 1),
        ("a clean stop", 0),
        ("12 d ago", 0),
    ] {
        assert_eq!(old_keys(line).len(), wanted, "{line}");
    }
    let (keys, _) = others();
    let mut found = Vec::new();
    for story in [
        Story::Healthy,
        Story::OneDead,
        Story::Unreachable,
        Story::AllDied,
        Story::Empty,
    ] {
        for screen in Screen::ALL {
            let mut app = console(story, screen, Look::of((160, 50)));
            app.settings.keys = keys.clone();
            let lines = old_keys(&text(&picture(&app)));
            found.extend(
                lines
                    .into_iter()
                    .map(|line| format!("{story:?} {screen:?}: {line}")),
            );
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// A prompt stays open with what was refused in it.
fn close(console: &mut Console) {
    if console.app.overlay.is_some() {
        console.press(&["esc"]);
    }
}

#[test]
fn no_store_screen_names_a_key_that_is_another_one_now() {
    let (keys, own) = others();
    let key = |order: Order| own[Command::Store(order).action()].as_str();
    for offline in [true, false] {
        let mut console = Console::new("basic", Look::of((160, 50)));
        console.app.settings.keys = keys.clone();
        console.app.store.offline = offline;
        for order in [
            Order::Log,
            Order::Checks,
            Order::Report,
            Order::Verify,
            Order::Index,
            Order::Log,
            Order::Queues,
            Order::Verify,
            Order::Source,
            Order::Verify,
            Order::Checks,
            Order::Index,
            Order::Log,
            Order::Later,
            Order::Time,
        ] {
            console.press(&[key(order)]);
            check(&console.app, &format!("{order:?}"));
        }
        // What was typed cannot be.
        console.type_in("now");
        check(&console.app, "a time");
        close(&mut console);
        console.press(&[key(Order::Queues), key(Order::Time)]);
        console.type_in("earliest");
        check(&console.app, "no time");
        close(&mut console);
        console.press(&[key(Order::Index)]);
        console.app.store.lookup = rmq::tui::store::Lookup::Nothing;
        let lookup = Pane::Store(Part::Lookup);
        for _ in 0..8 {
            if console.app.focus() != lookup {
                press(&mut console.app, own[Command::NextPane.action()].as_str());
            }
        }
        press(&mut console.app, own[Command::Open.action()].as_str());
        let said = text(&picture(&console.app));
        assert!(
            said.contains(&format!("{} takes a key", key(Order::Name))),
            "{said}"
        );
        check(&console.app, "nothing looked up");
    }
}
