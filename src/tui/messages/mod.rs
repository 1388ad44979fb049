//! Screen 6: messages of a topic, what is in one of them, and the way it went.
//!
//! Nothing here writes to a broker: searches read under the inspection group and commit nothing; sending a message
//! again is a command line that the frame rehearses and carries out.

pub mod ask;
pub mod body;
pub mod bytes;
mod json;
pub mod newest;
pub mod rows;
pub mod search;
pub mod view;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use super::app::{Action, App, Overlay};
use super::deed::Deed;
use super::form::{Field, Form};
use super::keys::Command;
use super::place::{Pane, Place, Screen};
use super::want::{Found, Want, Wanted};
use crate::client::Message;
use crate::client::findings::Subject;
use crate::client::record::Record;
use crate::client::time::Zone;
use crate::client::trace::{Standing, TRACE_TOPIC, Track};
use crate::client::way::Way;
use crate::protocol::model::DLQ_PREFIX;
use search::{Answer, BOUND, Listing, Mark, Mode, Question, Search};

/// How many times further a search goes when it is told to.
const FURTHER: u64 = 5;
/// Messages that a search looks at, at most.
const FURTHEST: u64 = 1_000_000;

/// What the screen remembers beside its selection.
#[derive(Debug, Clone, PartialEq)]
pub struct State {
    /// What is asked; `None` before a topic was chosen.
    pub search: Option<Search>,
    /// How bodies are shown.
    pub form: body::Form,
    /// Values of JSON bodies that are not folded as usual.
    pub turned: BTreeSet<String>,
    /// The message whose way is asked for.
    pub way: Option<Mark>,
    /// Topic of the trace records.
    pub trace_topic: String,
    /// The message whose bytes are looked for.
    pub bytes: Option<bytes::Sought>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            search: None,
            form: body::Form::default(),
            turned: BTreeSet::new(),
            way: None,
            trace_topic: TRACE_TOPIC.to_owned(),
            bytes: None,
        }
    }
}

/// What is asked on the screen as it is: of the topic that the screen is about, its newest messages at first.
pub fn search(app: &App) -> Option<Search> {
    let topic = app.place.topic()?;
    match &app.messages.search {
        Some(search) if search.topic == topic => Some(search.clone()),
        _ => Some(Search::live(topic)),
    }
}

/// Where the screen is entered: at the topic it was left with.
pub fn place(app: &App) -> Place {
    match &app.messages.search {
        Some(search) => Place::about(Screen::Messages, Subject::Topic(search.topic.clone())),
        None => Place::screen(Screen::Messages),
    }
}

/// A search that kept only what passed the filter is asked anew when the filter is cleared; who left the screen does not wait
/// for bytes any more.
pub(super) fn settle(app: &mut App) {
    if app.place.screen != Screen::Messages {
        app.messages.bytes = None;
    }
    let filter = app.filters.get(&Screen::Messages);
    if filter.is_none_or(|f| f.text.trim().is_empty())
        && let Some(search) = &mut app.messages.search
    {
        search.keep.clear();
    }
}

/// Asks the search of the screen once more; a tail goes on.
pub(super) fn again(app: &mut App) {
    if app.place.screen != Screen::Messages {
        return;
    }
    let has_failed = listing(app).is_err();
    if let Some(search) = search(app).filter(|s| s.mode != Mode::Live || has_failed) {
        let round = search.round + 1;
        app.messages.search = Some(Search { round, ..search });
    }
}

/// What the screen wants to know.
pub fn wants(app: &App) -> Vec<Wanted> {
    let Some(search) = search(app) else {
        return Vec::new();
    };
    let once = |question| Wanted {
        want: Want::Messages(question),
        every: None,
    };
    let mut wanted = vec![once(Question::Search(search))];
    wanted.extend(way_question(app).map(once));
    wanted.extend(bytes::want(app));
    wanted
}

/// The question for the way of the selected message, if it was asked for.
fn way_question(app: &App) -> Option<Question> {
    let mark = app.messages.way.as_ref()?;
    let is_selected = selected(app).is_some_and(|m| Mark(m) == *mark);
    is_selected.then(|| Question::Way(mark.clone(), app.messages.trace_topic.clone()))
}

/// What was found, or why nothing.
pub fn listing(app: &App) -> Result<Option<&Listing>, &str> {
    let Some(search) = search(app) else {
        return Ok(None);
    };
    let seen = app.found(&Want::Messages(Question::Search(search)));
    match (seen.get(), &seen.error) {
        (_, Some(why)) => Err(why),
        (Some(Found::Messages(Answer::Search(listing))), None) => Ok(Some(listing)),
        _ => Ok(None),
    }
}

/// The way of the selected message: `None` when nobody asked.
pub fn way(app: &App) -> Option<Result<Option<&Way>, &str>> {
    let seen = app.found(&Want::Messages(way_question(app)?));
    Some(match (seen.get(), &seen.error) {
        (_, Some(why)) => Err(why),
        (Some(Found::Messages(Answer::Way(way))), None) => Ok(Some(way)),
        _ => Ok(None),
    })
}

/// The selected message.
pub fn selected(app: &App) -> Option<Arc<Message>> {
    let table = app.table(Pane::Messages);
    let row = table.rows.get(app.selected(Pane::Messages, &table)?)?;
    let listing = listing(app).ok()??;
    listing.rows.iter().find(|m| Mark::is(&row.id, m)).cloned()
}

/// Runs a command of the screen. False when it is none.
pub(super) fn run(app: &mut App, command: Command) -> bool {
    match command {
        Command::MessagesBy(mode) => by(app, mode),
        Command::ChooseTopic => {
            app.messages.search = None;
            app.visit(Place::screen(Screen::Messages));
        }
        Command::Further => further(app),
        Command::BodyForm | Command::BodyHex => {
            if let Some(message) = selected(app) {
                let now = app.messages.form;
                app.messages.form = match command {
                    Command::BodyHex if now == body::Form::Hex => body::Form::Auto,
                    Command::BodyHex => body::Form::Hex,
                    _ => body::next(now, &message.body),
                };
                app.panes.remove(&Pane::Body);
            }
        }
        Command::MessageBytes => bytes::look(app),
        Command::Trace => trace(app),
        Command::TraceTopic => {
            let form = Form::new("Topic of the trace records", ["message", "trace"]).field(
                Field::new("trace topic", Some("--trace-topic"), "")
                    .preset(app.messages.trace_topic.clone())
                    .required(),
            );
            app.overlay = Some(Overlay::Form(form));
        }
        Command::PushMessage => match selected(app) {
            Some(message) => {
                let form = push_form(&message, &waiting_group(app));
                app.overlay = Some(Overlay::Form(form));
            }
            None => app.say("no message is selected"),
        },
        Command::Browse => browse(app),
        _ => return false,
    }
    true
}

/// `enter`: choose a topic, ask for the way of a message, fold or unfold a value.
pub(super) fn open(app: &mut App) {
    match app.focus() {
        _ if app.place.topic().is_none() => {
            let table = app.table(Pane::Messages);
            if let Some(at) = app.selected(Pane::Messages, &table) {
                let topic = table.rows[at].name.clone();
                // What narrowed the topics is no filter of messages.
                app.filters.remove(&Screen::Messages);
                enter(app, Search::live(&topic));
            }
        }
        Pane::Body => {
            let table = app.table(Pane::Body);
            let row = app.selected(Pane::Body, &table).map(|at| &table.rows[at]);
            match row.and_then(rows::fold).map(str::to_owned) {
                Some(path) => {
                    if !app.messages.turned.remove(&path) {
                        app.messages.turned.insert(path);
                    }
                }
                None => app.say("nothing to fold on this line"),
            }
        }
        _ => trace(app),
    }
}

/// Goes to the messages that a search brings.
fn enter(app: &mut App, search: Search) {
    let place = Place::about(Screen::Messages, Subject::Topic(search.topic.clone()));
    if app.place == place && app.messages.search.as_ref() != Some(&search) {
        // Another search's rows begin at their top.
        for pane in Screen::Messages.panes() {
            app.panes.remove(pane);
            app.marks.remove(pane);
        }
    }
    app.messages.search = Some(search);
    app.messages.way = None;
    app.messages.bytes = None;
    app.visit(place);
    app.focus.insert(Screen::Messages, Pane::Messages);
}

fn by(app: &mut App, mode: Mode) {
    let Some(topic) = app.place.topic().map(str::to_owned) else {
        return app.say("choose a topic first");
    };
    if mode == Mode::Live {
        let round = search(app).map_or(0, |s| s.round + 1);
        return enter(
            app,
            Search {
                round,
                ..Search::live(&topic)
            },
        );
    }
    let now = search(app);
    let value = |flag: &str, other: &str| {
        let kept = now.as_ref().and_then(|s| s.value(flag));
        kept.unwrap_or(other).to_owned()
    };
    let field =
        |label, flag, hint, preset: &str| Field::new(label, Some(flag), hint).preset(value(flag, preset));
    let times = "-15m, -2h, 2026-11-29 12:00, earliest";
    let form = match mode {
        Mode::Time => Form::new(
            format!("Messages of {topic} by time"),
            ["message", "list", "-t", &topic],
        )
        .field(field("from", "--from", times, "-15m").required())
        .field(field("until", "--until", "empty: now", ""))
        .field(field("tag", "--tag", "such as TagA || TagB; empty: all", "")),
        Mode::Key => Form::new(
            format!("Messages of {topic} by key"),
            ["message", "find", "-t", &topic],
        )
        .field(field("key", "--key", "as the producer gave it", "").required())
        .field(field("since", "--since", times, ""))
        .field(field("until", "--until", "empty: now", ""))
        .field(field("tag", "--tag", "empty: all", ""))
        .field(field("most", "--limit", "hits of each broker", "64")),
        Mode::Id => Form::new(
            format!("Message of {topic} by id"),
            ["message", "find", "-t", &topic],
        )
        .field(field("id", "--id", "a client's id, or an offset id", "").required())
        .note("Both readings of the id are tried, and what it says by itself is shown."),
        Mode::Offset | Mode::Live => {
            // The selected message's place rather than the one that was searched from.
            let (broker, queue, offset) = selected(app).map_or_else(
                || {
                    (
                        value("--broker", ""),
                        value("--queue", "0"),
                        value("--from-offset", ""),
                    )
                },
                |m| (m.broker.clone(), m.queue.to_string(), m.offset.to_string()),
            );
            let field = |label, flag, hint, preset: &str| Field::new(label, Some(flag), hint).preset(preset);
            Form::new(
                format!("Messages of {topic} from an offset on"),
                ["message", "list", "-t", &topic],
            )
            .field(field("broker", "--broker", "empty: the only one", &broker))
            .field(field("queue", "--queue", "", &queue).required())
            .field(field("offset", "--from-offset", "", &offset).required())
        }
    };
    app.overlay = Some(Overlay::Form(form));
}

/// A form of this screen that was filled in: a search, or a choice. False when it is none.
pub(super) fn filled_in(app: &mut App, deed: &Deed, actions: &mut Vec<Action>) -> bool {
    let words: Vec<&str> = deed.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["message", "trace", topic] => {
            if let Some(topic) = topic.strip_prefix("--trace-topic=") {
                app.messages.trace_topic = topic.to_owned();
                trace(app);
            }
        }
        ["message", "list" | "find", "-t", topic, options @ ..] => {
            let has = |flag: &str| options.iter().any(|o| o.starts_with(flag));
            let mode = if has("--from-offset=") {
                Mode::Offset
            } else if has("--from=") {
                Mode::Time
            } else if has("--id=") {
                Mode::Id
            } else {
                Mode::Key
            };
            let search = Search {
                mode,
                words: options.iter().map(|o| (*o).to_owned()).collect(),
                round: search(app).map_or(0, |s| s.round + 1),
                ..Search::live(topic)
            };
            match search.complaint(app.now_ms, &Zone::of(app.settings.zone.clone())) {
                Some(why) => app.say(why),
                None => enter(app, search),
            }
        }
        ["message", "push", id, "-t", topic, options @ ..] => {
            let deed = if options.contains(&"--group=*") {
                Deed {
                    words: ["message", "resend", id, "-t", topic].map(str::to_owned).into(),
                    about: deed.about.clone(),
                }
            } else {
                deed.clone()
            };
            app.begin(deed, actions);
        }
        _ => return false,
    }
    true
}

/// The group of the selected line of the way, else the first one that does not have the message yet.
fn waiting_group(app: &App) -> String {
    let Some(Ok(Some(way))) = way(app) else {
        return String::new();
    };
    let table = app.table(Pane::Way);
    let named = app
        .selected(Pane::Way, &table)
        .map(|at| table.rows[at].name.as_str());
    let tracked = |name: &&str| way.tracks.iter().any(|t| t.group == *name);
    if let Some(name) = named.filter(tracked).filter(|_| app.focus() == Pane::Way) {
        return name.to_owned();
    }
    waiting(&way.tracks).unwrap_or_default().to_owned()
}

/// The first group that is known not to have the message yet.
fn waiting(tracks: &[Track]) -> Option<&str> {
    let behind = |t: &&Track| matches!(t.standing, Standing::NotYet | Standing::Offline);
    tracks.iter().find(behind).map(|t| t.group.as_str())
}

/// Who a message of `topic` goes to again: the group that waits for it; a dead letter is its group's, which no trace tells.
fn taker<'a>(topic: &'a str, waiting: &'a str) -> &'a str {
    match topic.strip_prefix(DLQ_PREFIX) {
        Some(group) if waiting.is_empty() => group,
        _ => waiting,
    }
}

fn push_form(message: &Message, group: &str) -> Form {
    Form::new(
        format!(
            "Send {} again",
            message.unique_key().unwrap_or(&message.offset_id)
        ),
        ["message", "push", &message.offset_id, "-t", &message.topic],
    )
    .about(Subject::Topic(message.topic.clone()))
    .field(
        Field::new(
            "group",
            Some("--group"),
            "one of its clients consumes it now; * sends a copy to all groups",
        )
        .preset(taker(&message.topic, group))
        .required(),
    )
    .field(Field::new(
        "client",
        Some("--client"),
        "empty: the only one online",
    ))
}

fn trace(app: &mut App) {
    match selected(app) {
        Some(message) => {
            // A tail goes on; the message that is looked at stays the selected one.
            let pane = app.panes.entry(Pane::Messages).or_default();
            pane.selected = Some(Mark::id(&message));
            app.messages.way = Some(Mark(message));
        }
        None => app.say("no message is selected"),
    }
}

/// Looks at more messages; with a filter only those that pass it are kept.
fn further(app: &mut App) {
    let Some(now) = search(app).filter(|s| s.mode == Mode::Time) else {
        let key = app.key(Command::MessagesBy(search::Mode::Time));
        return app.say(format!("only a search by time goes further; {key} begins one"));
    };
    let keep = app.filter().map(|f| f.text.clone()).unwrap_or_default();
    if let Some(Err(why)) = search::Sieve::parse(&keep) {
        return app.say(why);
    }
    if now.bound >= FURTHEST {
        return app.say(format!(
            "{FURTHEST} messages are as far as a search goes; narrow its time"
        ));
    }
    let bound = now.bound.saturating_mul(FURTHER).clamp(BOUND, FURTHEST);
    app.messages.search = Some(Search { bound, keep, ..now });
}

/// From a topic, or a queue of a group, to the messages.
fn browse(app: &mut App) {
    let pane = app.focus();
    let table = app.table(pane);
    let row = app.selected(pane, &table).map(|at| &table.rows[at]);
    let search = match (app.place.screen, row) {
        (Screen::Topic, _) => app.place.topic().map(Search::live),
        (Screen::Group, Some(row)) => row.subject.as_ref().and_then(|subject| match subject {
            Subject::Topic(topic) => Some(at_commit(app, topic, &row.id)),
            _ => None,
        }),
        (_, Some(row)) => match &row.subject {
            Some(Subject::Topic(topic)) => Some(Search::live(topic)),
            _ => None,
        },
        _ => None,
    };
    match search {
        Some(search) => enter(app, search),
        None => app.say("no topic is selected"),
    }
}

/// The messages of a queue from a group's position on; the whole topic when the row has no position.
fn at_commit(app: &App, topic: &str, row: &str) -> Search {
    let group = app.place.group().unwrap_or_default();
    let detail = match app.found(&Want::Group(group.to_owned())).get() {
        Some(Found::Group(detail)) => detail,
        _ => return Search::live(topic),
    };
    let id = |q: &crate::client::snapshot::GroupLag| format!("{} {}/{}", q.broker, q.topic, q.queue);
    let queue = detail.queues.iter().find(|q| id(q) == row);
    match queue.and_then(|q| Some((q, q.committed?))) {
        Some((queue, committed)) => Search {
            mode: Mode::Offset,
            words: vec![
                format!("--broker={}", queue.broker),
                format!("--queue={}", queue.queue),
                format!("--from-offset={committed}"),
            ],
            ..Search::live(topic)
        },
        None => Search::live(topic),
    }
}

/// True for the first words of a form that only looks.
pub fn is_search(base: &[String]) -> bool {
    matches!(base, [noun, verb, ..] if noun == "message" && ["list", "find", "trace"].contains(&verb.as_str()))
}

/// Whole messages as JSON lines, as `rmq message import` reads them.
pub fn records<'a>(messages: impl Iterator<Item = &'a Arc<Message>>) -> String {
    let mut out = String::new();
    for message in messages {
        if let Ok(line) = serde_json::to_string(&Record::of(message)) {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{line}");
        }
    }
    out
}

/// Marked messages of the message screen, or all that are shown, as JSON lines.
pub fn export(app: &App) -> Option<String> {
    Some(written(app, Pane::Messages, &listing(app).ok()??.rows))
}

/// Those of the messages that are marked in a pane, or all that it shows, as JSON lines.
pub fn written(app: &App, pane: Pane, messages: &[Arc<Message>]) -> String {
    let table = app.table(pane);
    let marks = app.marked(pane);
    let rows = table
        .rows
        .iter()
        .filter(|row| marks.is_none_or(|marks| marks.contains(&row.id)));
    records(rows.filter_map(|row| messages.iter().find(|m| Mark::is(&row.id, m))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_goes_to_its_group_again() {
        assert_eq!(taker("%DLQ%CID_pay", ""), "CID_pay");
        assert_eq!(taker("%DLQ%CID_pay", "CID_bi"), "CID_bi");
        assert_eq!(taker("orders", ""), "");
    }

    #[test]
    fn a_group_that_filters_or_does_not_tell_is_not_waiting() {
        let track = |group: &str, standing| Track {
            group: group.to_owned(),
            standing,
            committed: None,
            clients: 0,
            expression: None,
            note: None,
        };
        let mut tracks = vec![
            track("a", Standing::Filtered),
            track("b", Standing::Unknown),
            track("c", Standing::Broadcast),
            track("d", Standing::Consumed),
        ];
        assert_eq!(waiting(&tracks), None);
        tracks.push(track("e", Standing::Offline));
        assert_eq!(waiting(&tracks), Some("e"));
        tracks.insert(1, track("f", Standing::NotYet));
        assert_eq!(waiting(&tracks), Some("f"));
    }
}
