//! A console on a store directory whose questions are answered at once, in turn.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rmq::tui::app::{self, Action, App, Event, Screen, Settings};
use rmq::tui::model::{Told, Update};
use rmq::tui::store::State;
use rmq::tui::store::ask::{Asker, Inspector};
use rmq::tui::want::{Found, Want};

use crate::inspect_cli::Golden;
use crate::tui::fixture::{Look, NOW, press};

/// A golden store and a console on it.
pub struct Console {
    pub golden: Golden,
    pub app: App,
    pub inspector: Inspector,
    asked: BTreeSet<Want>,
}

impl Console {
    pub fn new(name: &str, look: Look) -> Self {
        Self::on(Golden::without_wheel(name), look)
    }

    pub fn on(golden: Golden, look: Look) -> Self {
        let app = console(&golden.root, look);
        let mut console = Self {
            golden,
            app,
            inspector: Inspector::default(),
            asked: BTreeSet::new(),
        };
        console.answer();
        console
    }

    /// Answers what is asked until nothing new is; what was asked before and still is, is not asked again.
    pub fn answer(&mut self) {
        for round in 0.. {
            assert!(round < 100, "it asks and asks: {:?}", self.asked);
            let wanted: BTreeSet<Want> = self.app.wants().into_iter().map(|wanted| wanted.want).collect();
            self.asked.retain(|want| wanted.contains(want));
            let Some(want) = wanted.into_iter().find(|want| !self.asked.contains(want)) else {
                return;
            };
            self.asked.insert(want.clone());
            let Want::Store(question) = &want else { continue };
            let stop = AtomicBool::new(false);
            let answer = self
                .inspector
                .answer(question, &mut Asker::new(&mut |_| {}, &stop))
                .map(|answer| Found::Store(Box::new(answer)));
            let update = Update {
                at_ms: NOW,
                retry_at_ms: None,
                told: Told::Found(want, answer),
            };
            app::update(&mut self.app, NOW, Event::Updates(vec![update]));
        }
    }

    /// Presses keys, each answered before the next.
    pub fn press(&mut self, keys: &[&str]) -> Vec<Action> {
        let mut actions = Vec::new();
        for key in keys {
            let asked = press(&mut self.app, key);
            if asked.contains(&Action::Refresh) {
                self.asked.clear();
            }
            actions.extend(asked);
            self.answer();
        }
        actions
    }

    /// Types a text and enter.
    pub fn type_in(&mut self, text: &str) {
        crate::tui::fixture::type_text(&mut self.app, text);
        self.press(&["enter"]);
    }
}

fn console(root: &Path, look: Look) -> App {
    let settings = Settings {
        context: String::new(),
        badge: None,
        interval: Duration::from_secs(2),
        read_only: true,
        colour: look.colour,
        may_colour: true,
        palette: rmq::tui::view::theme::Palette::Default,
        themes: Vec::new(),
        contexts: Vec::new(),
        serving: false,
        ascii: look.ascii,
        keys: rmq::tui::keys::Keys::default(),
        zone: jiff::tz::TimeZone::UTC,
    };
    let mut app = App::new(settings, Vec::new(), Screen::Store, NOW);
    app.store = State::new(Some(root.to_owned()), None);
    app.store.offline = true;
    app::update(&mut app, NOW, Event::Resize(look.size.0, look.size.1));
    app
}
