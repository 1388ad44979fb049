//! The table with the operator's own keys in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

use crossterm::event::KeyEvent;

use super::{Binding, Command, TABLE, Where, key_name, parse_key};
use crate::client::similar;
use crate::tui::place::Screen;

/// Keys that keep their meaning whatever the configuration says: the way back, the ways out, and the numbers that stand in
/// the tabs.
const FIXED: &[&str] = &[
    "esc", "ctrl-c", "ctrl-z", "1", "2", "3", "4", "5", "6", "7", "8", "9",
];

/// One line of the table as it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What it does.
    pub command: Command,
    /// Its keys, in the notation of [`key_name`]; never none.
    pub keys: Vec<Cow<'static, str>>,
    /// Where it is valid.
    pub screens: Where,
    /// Text for the help page.
    pub help: &'static str,
    /// Short text for the footer; empty entries are on the help page only.
    pub footer: &'static str,
}

impl Line {
    /// The key that stands for it where there is room for one.
    pub fn first_key(&self) -> &str {
        self.keys.first().map_or("", Cow::as_ref)
    }
}

/// What is wrong with the operator's own keys. Each names the action, as `[keys]` has it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// No action has this name.
    #[error("{action}: there is no such action{}", did_you_mean(near))]
    Unknown {
        /// As it was written.
        action: String,
        /// Actions with a name like it.
        near: Vec<String>,
    },
    /// A text that is no key.
    #[error("{action}: \"{key}\" is not a key: {why}")]
    NotAKey {
        /// The action.
        action: String,
        /// As it was written.
        key: String,
        /// What is wrong with it.
        why: String,
    },
    /// Two actions of one screen on one key.
    #[error("{action}: the key {key} means {other} on the {screen} screen already")]
    Taken {
        /// The action of the configuration.
        action: String,
        /// The key.
        key: String,
        /// The other action.
        other: &'static str,
        /// Where both are valid.
        screen: &'static str,
    },
    /// The help page would have no key.
    #[error("{action}: needs a key")]
    Needed {
        /// The action.
        action: String,
    },
}

fn did_you_mean(near: &[String]) -> String {
    if near.is_empty() {
        "; rmq-config(5) lists them".to_owned()
    } else {
        format!("; did you mean {}?", near.join(", "))
    }
}

/// Two lines of one screen on one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict<'a> {
    /// Where.
    pub screen: Screen,
    /// The key.
    pub key: &'a str,
    /// The line that is earlier in the table.
    pub first: Command,
    /// The later one.
    pub second: Command,
}

/// Every key of the dashboard. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys(Arc<[Line]>);

impl Default for Keys {
    /// The table as it is built in.
    fn default() -> Self {
        static STANDARD: OnceLock<Keys> = OnceLock::new();
        let standard = || Self::of(|binding| binding.keys.iter().map(|key| Cow::Borrowed(*key)).collect());
        STANDARD.get_or_init(standard).clone()
    }
}

impl Keys {
    fn of(keys: impl Fn(&Binding) -> Vec<Cow<'static, str>>) -> Self {
        let lines = TABLE.iter().map(|binding| Line {
            command: binding.command,
            keys: keys(binding),
            screens: binding.screens,
            help: binding.help,
            footer: binding.footer,
        });
        // What has no key is in the palette at most.
        Self(lines.filter(|line| !line.keys.is_empty()).collect())
    }

    /// The table with other keys for some actions, on every screen where these are valid. An action without a key is
    /// no key's any more.
    pub fn with(own: &BTreeMap<String, Vec<String>>) -> Result<Self, KeyError> {
        let mut changed: HashMap<&'static str, Vec<Cow<'static, str>>> = HashMap::new();
        for (action, names) in own {
            let known = || TABLE.iter().map(|b| b.command.action());
            let Some(action) = known().find(|known| *known == action.as_str()) else {
                return Err(KeyError::Unknown {
                    action: action.clone(),
                    near: similar(action, known()),
                });
            };
            let mut keys: Vec<Cow<'static, str>> = Vec::new();
            for name in names {
                let key = parse_key(name).map_err(|why| KeyError::NotAKey {
                    action: action.to_owned(),
                    key: name.clone(),
                    why,
                })?;
                let key = Cow::Owned(key_name(key));
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            if keys.is_empty() && action == Command::Help.action() {
                return Err(KeyError::Needed {
                    action: action.to_owned(),
                });
            }
            changed.insert(action, keys);
        }
        let keys = Self::of(|binding| {
            let standard = binding.keys.iter().map(|key| Cow::Borrowed(*key));
            let Some(own) = changed.get(binding.command.action()) else {
                return standard.collect();
            };
            let fixed = standard.filter(|key| FIXED.contains(&key.as_ref()) && !own.contains(key));
            own.iter().cloned().chain(fixed).collect()
        });
        let wrong = keys.conflicts().first().map(|conflict| {
            // The one of the configuration is told; a line that was there before is the other.
            let (mine, other) = if own.contains_key(conflict.second.action()) {
                (conflict.second, conflict.first)
            } else {
                (conflict.first, conflict.second)
            };
            KeyError::Taken {
                action: mine.action().to_owned(),
                key: conflict.key.to_owned(),
                other: other.action(),
                screen: conflict.screen.name(),
            }
        });
        wrong.map_or(Ok(keys), Err)
    }

    /// Where two lines of one screen have the same key.
    pub fn conflicts(&self) -> Vec<Conflict<'_>> {
        let mut found = Vec::new();
        for screen in Screen::ALL {
            let mut seen: HashMap<&str, Command> = HashMap::new();
            for line in self.on_screen(screen, false) {
                for key in &line.keys {
                    if let Some(first) = seen.insert(key, line.command) {
                        found.push(Conflict {
                            screen,
                            key,
                            first,
                            second: line.command,
                        });
                    }
                }
            }
        }
        found
    }

    /// The command of a key on a screen.
    pub fn command(&self, key: KeyEvent, screen: Screen, read_only: bool) -> Option<Command> {
        let name = key_name(key);
        if name.is_empty() {
            return None;
        }
        self.on_screen(screen, read_only)
            .find(|line| line.keys.iter().any(|key| *key == name))
            .map(|line| line.command)
    }

    /// The lines valid on a screen, in table order.
    pub fn on_screen(&self, screen: Screen, read_only: bool) -> impl Iterator<Item = &Line> {
        self.0
            .iter()
            .filter(move |line| line.screens.includes(screen) && !(read_only && line.command.is_change()))
    }

    /// The key that stands for a command on a screen, for a hint there.
    pub fn hint(&self, command: Command, screen: Screen) -> String {
        let here = self.on_screen(screen, false).find(|line| line.command == command);
        match here {
            Some(line) => line.first_key().to_owned(),
            None => "(no key)".to_owned(),
        }
    }
}
