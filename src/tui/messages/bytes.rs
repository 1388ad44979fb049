//! From a message to its bytes in the store: looks first whether the store that can be read has it. Pure.

use std::path::PathBuf;
use std::sync::Arc;

use super::selected;
use crate::client::Message;
use crate::client::snapshot::{BrokerId, BrokerState};
use crate::tui::app::App;
use crate::tui::place::Screen;
use crate::tui::store;
use crate::tui::store::answer::{Answer, Page};
use crate::tui::store::question::{At, Question, What};
use crate::tui::want::{Want, Wanted};

/// A message that is looked for in a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Sought {
    message: Arc<Message>,
    at: u64,
    /// Whose store it is; `None` for the one that was named.
    broker: Option<BrokerId>,
    root: PathBuf,
    commit_log: Option<String>,
}

impl Sought {
    fn question(&self) -> Question {
        Question {
            root: self.root.clone(),
            commit_log: self.commit_log.clone(),
            what: What::Log {
                at: At::Offset(self.at),
                topic: None,
            },
        }
    }
}

/// The master that a message was read from.
fn master<'a>(app: &'a App, message: &Message) -> Option<&'a BrokerState> {
    let brokers = &app.shown().snapshot.brokers;
    let masters = brokers.iter().filter(|b| b.broker.is_master());
    let mut here = masters.filter(|b| b.broker.name == message.broker || b.addr == message.broker);
    here.next()
}

/// Looks for the selected message in the store that was named, or in its broker's directory; says why neither is there.
pub(super) fn look(app: &mut App) {
    let Some(message) = selected(app) else {
        return app.say("no message is selected");
    };
    let Ok(at) = u64::try_from(message.physical_offset) else {
        return app.say("the broker did not say where in its commit log the message is");
    };
    let found = match &app.store.root {
        Some(root) => Ok((None, (root.clone(), app.store.commit_log.clone()))),
        None => match master(app, &message) {
            None => Err(format!(
                "{} is not known here: rmq tui --store DIR names a store",
                message.broker
            )),
            Some(broker) => match store::root_of(broker) {
                None => Err(format!("{} has not told where its store is", broker.broker)),
                Some(dirs) => Ok((Some(broker.broker.clone()), dirs)),
            },
        },
    };
    match found {
        Err(why) => app.say(why),
        Ok((broker, (root, commit_log))) => {
            app.say(format!("looking into {}", root.display()));
            app.messages.bytes = Some(Sought {
                message,
                at,
                broker,
                root,
                commit_log,
            });
        }
    }
}

/// The question for the bytes that are looked for.
pub(super) fn want(app: &App) -> Option<Wanted> {
    let sought = app.messages.bytes.as_ref()?;
    Some(Wanted {
        want: Want::Store(sought.question()),
        every: None,
    })
}

/// True when the record at that place is the message.
fn has(page: &Page<store::answer::LogRow>, sought: &Sought) -> bool {
    let message = &sought.message;
    page.rows.iter().any(|row| {
        row.at == sought.at
            && row.topic == message.topic
            && row.queue == Some((message.queue, message.offset))
            // Another cluster's store may have a record of the same place; not of the same moment.
            && row.stored_ms == Some(message.stored_ms)
    })
}

/// Takes the answer in: shows the bytes, or says why not.
pub fn hear(app: &mut App, question: &Question, answer: &Result<Answer, String>) {
    let Some(sought) = app.messages.bytes.take_if(|s| s.question() == *question) else {
        return;
    };
    if app.place.screen != Screen::Messages {
        return;
    }
    let root = sought.root.display();
    match answer {
        Ok(Answer::Log(page)) if has(page, &sought) => store::show_bytes(app, sought.broker, sought.at),
        Ok(_) => {
            let whose = sought.broker.map_or_else(
                || "another broker's store, or the record is gone".to_owned(),
                |broker| format!("not {broker}'s store, or the record is gone"),
            );
            app.say(format!("{root} does not have it: {whose}"));
        }
        Err(why) => {
            let copy = match sought.broker {
                Some(broker) => format!(" ({broker}'s: copy it here, then rmq tui --store DIR)"),
                None => String::new(),
            };
            app.say(format!("{why}{copy}"));
        }
    }
}
