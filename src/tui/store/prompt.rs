//! What an operator types on the store screens: offsets, times, topics, keys. Pure.

use crossterm::event::{KeyCode, KeyEvent};

use super::answer::line_id;
use super::question::At;
use super::view::day;
use super::{Lookup, Order, hear, index_file};
use crate::client::time::{When, Zone};
use crate::tui::app::{App, Overlay};
use crate::tui::input::Input;
use crate::tui::keys::Command;
use crate::tui::place::{Pane, Part, Screen};

/// What is being typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prompt {
    /// A physical offset, a queue offset or a slot, by screen.
    Goto,
    /// A time.
    Time,
    /// A topic, or a key on the index screen.
    Name,
}

impl Prompt {
    /// What stands before the text.
    pub const fn label(self, screen: Screen) -> &'static str {
        match (self, screen) {
            (Self::Goto, Screen::StoreQueues) => "queue offset: ",
            (Self::Goto, Screen::StoreIndex) => "slot: ",
            (Self::Goto, _) => "offset: ",
            (Self::Time, _) => "time (12:04:30, 2026-11-29 12:04, -1h): ",
            (Self::Name, Screen::StoreIndex) => "key (TOPIC#KEY, or KEY of any topic): ",
            (Self::Name, Screen::StoreQueues) => "topic, or TOPIC/QUEUE: ",
            (Self::Name, _) => "topic (empty for all): ",
        }
    }
}

/// Takes a key while something is typed.
pub fn key(app: &mut App, prompt: Prompt, mut input: Input, key: KeyEvent) {
    app.store.version += 1;
    match key.code {
        KeyCode::Esc => {}
        KeyCode::Enter => {
            let text = input.text().trim().to_owned();
            if let Err(why) = typed(app, prompt, &text) {
                app.say(why);
                app.overlay = Some(Overlay::Store(prompt, input));
            }
        }
        KeyCode::Tab if prompt == Prompt::Name && app.place.screen != Screen::StoreIndex => {
            if let Some(name) = matching(app, input.text().trim()).first() {
                input = Input::new(name.clone());
            }
            app.overlay = Some(Overlay::Store(prompt, input));
        }
        _ => {
            input.key(key);
            app.overlay = Some(Overlay::Store(prompt, input));
        }
    }
}

/// Topics that fit what was typed: the one of that name, then those that begin so, then those that have it inside.
pub fn matching(app: &App, text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let topics = app.store.topics.value.as_deref().unwrap_or_default();
    let mut found: Vec<&String> = topics
        .iter()
        .filter(|topic| topic.to_lowercase().contains(&lower))
        .collect();
    found.sort_by_key(|topic| (*topic != text, !topic.to_lowercase().starts_with(&lower)));
    found.into_iter().cloned().collect()
}

fn typed(app: &mut App, prompt: Prompt, text: &str) -> Result<(), String> {
    match (prompt, app.place.screen) {
        (Prompt::Goto, screen) => {
            let number = number(text).ok_or_else(|| format!("{text} is no number"))?;
            match screen {
                Screen::StoreQueues => app.store.entries.goal = Some(At::Offset(number)),
                Screen::StoreIndex => {
                    let slot = u32::try_from(number).map_err(|_| format!("there is no slot {text}"))?;
                    let file = index_file(app).map(|file| file.name.clone());
                    let file = file.ok_or("there is no index file")?;
                    look_up(app, Lookup::Slot { file, slot });
                }
                _ if app.store.is_wire() => {
                    if !app.store.log.page.rows.iter().any(|row| row.at == number) {
                        let queues = app.key(Command::Store(Order::Queues));
                        return Err(format!(
                            "{text} is no record of this page: {queues}, then {}",
                            app.key(Command::Store(Order::Goto))
                        ));
                    }
                    super::seek(app, number);
                }
                _ => app.store.log.goal = Some(At::Offset(number)),
            }
        }
        (Prompt::Time | Prompt::Name, Screen::Store) if app.store.is_wire() => {
            return Err(format!(
                "over the wire the records of one queue are shown: {} chooses",
                app.key(Command::Store(Order::Queues))
            ));
        }
        (Prompt::Time, screen) => {
            let at = At::Time(time(app, text)?);
            match screen {
                Screen::StoreQueues => app.store.entries.goal = Some(at),
                _ => app.store.log.goal = Some(at),
            }
        }
        (Prompt::Name, Screen::StoreIndex) => {
            if text.is_empty() {
                return Err("which key?".to_owned());
            }
            let (topic, key) = match text.split_once('#') {
                Some((topic, key)) => (Some(topic.to_owned()), key.to_owned()),
                None => match text.split_once(' ') {
                    Some((topic, key)) => (Some(topic.to_owned()), key.trim().to_owned()),
                    None => (None, text.to_owned()),
                },
            };
            look_up(app, Lookup::Key { topic, key });
        }
        (Prompt::Name, Screen::StoreQueues) => {
            let (topic, queue) = match text.rsplit_once(['/', '@']) {
                Some((topic, queue)) if queue.parse::<i32>().is_ok() => (topic, queue.parse().ok()),
                _ => (text, None),
            };
            let topic = one_topic(app, topic)?;
            show_queue(app, topic, queue.unwrap_or(0), At::Newest);
        }
        (Prompt::Name, _) => {
            let topic = if text.is_empty() {
                None
            } else {
                Some(one_topic(app, text)?)
            };
            if topic != app.store.topic {
                let here = super::log_row(app).map(|row| At::Offset(row.at));
                app.store.topic = topic;
                app.store.log.goal = Some(here.unwrap_or(At::Newest));
            }
        }
    }
    Ok(())
}

/// The topic that was meant: of that name, or the only one that fits.
fn one_topic(app: &App, text: &str) -> Result<String, String> {
    let found = matching(app, text);
    match found.as_slice() {
        [first, ..] if first == text => Ok(first.clone()),
        [one] => Ok(one.clone()),
        [] if app.store.topics.value.is_none() => Ok(text.to_owned()),
        [] => Err(format!("there is no topic {text}")),
        [first, second, ..] => Err(format!(
            "{text} fits {first}, {second} and more: tab takes the first"
        )),
    }
}

/// Shows what a lookup finds.
pub(super) fn look_up(app: &mut App, lookup: Lookup) {
    if app.store.lookup != lookup {
        app.store.key = super::Heard::default();
        app.store.chain = super::Heard::default();
        app.panes.remove(&Pane::Store(Part::Lookup));
        app.store.lookup = lookup;
    }
    app.focus.insert(Screen::StoreIndex, Pane::Store(Part::Lookup));
}

/// Shows a queue of the broker that is asked, or of the files.
pub(super) fn show_queue(app: &mut App, topic: String, queue: i32, at: At) {
    let broker = app.store.wire.clone().unwrap_or_default();
    show_queue_of(app, broker, topic, queue, at);
}

/// Shows a queue of a broker; of the files without a name.
pub(super) fn show_queue_of(app: &mut App, broker: String, topic: String, queue: i32, at: At) {
    let name = (topic, queue);
    let state = &mut app.store;
    let id = line_id(&broker, queue);
    let is_same_broker = state.wire.as_ref().is_none_or(|old| *old == broker);
    if let Some(old) = &mut state.wire {
        *old = broker;
    }
    if let Some(queues) = state.queues.value.as_mut().filter(|_| !is_same_broker) {
        // These are of the other broker.
        queues.positions = None;
        queues.read_queues = None;
    }
    if is_same_broker && state.queue.as_ref() == Some(&name) {
        state.entries.goal = Some(at);
        return;
    }
    if state.queue.as_ref().map(|(topic, _)| topic) != Some(&name.0) {
        state.queues = super::Heard::default();
    }
    state.queue = Some(name);
    if state.is_wire() {
        state.log = super::Listed::default();
        state.record = super::Heard::default();
    }
    state.entries.anew(at);
    app.panes.remove(&Pane::Store(Part::Entries));
    hear::select(app, Pane::Store(Part::QueueList), id);
}

/// A number with or without separators, decimal or `0x`.
pub fn number(text: &str) -> Option<u64> {
    let bare: String = text.chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
    match bare.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => bare.parse().ok(),
    }
}

/// A time in any form that the commands take, or a time of this day.
fn time(app: &App, text: &str) -> Result<i64, String> {
    let text = text.strip_prefix('@').unwrap_or(text);
    let is_clock = text.len() >= 5
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.'))
        && text.contains(':');
    let when: When = if is_clock {
        format!("{} {text}", day(app, app.now_ms)).parse()?
    } else {
        text.parse()?
    };
    match when.at_ms(app.now_ms, &Zone::of(app.settings.zone.clone()))? {
        Some(ms) => Ok(ms),
        None => Err(format!(
            "{text} is no time: {} and {} lead to the ends",
            app.key(Command::First),
            app.key(Command::Last)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_shown() {
        assert_eq!(number("31,356,766,688"), Some(31_356_766_688));
        assert_eq!(number("0x10"), Some(16));
        assert_eq!(number("1_000"), Some(1000));
        assert_eq!(number(""), None);
        assert_eq!(number("-1"), None);
        assert_eq!(number("99999999999999999999"), None);
    }
}
