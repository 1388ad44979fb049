//! What the keys of single screens begin: forms and command lines, composed from what is selected.

use super::app::{Action, App, Overlay, Reset};
use super::deed::Deed;
use super::export;
use super::form::{Field, Form};
use super::forms::{export_form, goal_form, new_topic, perm, queues, send};
use super::keys::Command;
use super::place::{Pane, Place, Screen};
use super::view::offsets;
use super::want::{Found, GroupDetail, Want};
use super::work::Stage;
use super::{dead, messages};
use crate::client::findings::Subject;

/// Runs a command that the screens have of their own.
pub(super) fn run(app: &mut App, command: Command, actions: &mut Vec<Action>) {
    match command {
        Command::RetryTopics => app.kinds.retry = !app.kinds.retry,
        Command::DeadTopics => app.kinds.dead = !app.kinds.dead,
        Command::SystemTopics => app.kinds.system = !app.kinds.system,
        Command::Clients => app.clients = !app.clients,
        Command::Doctor => app.overlay = Some(Overlay::Sheet(vec!["doctor".into()], 0)),
        Command::Works => match app
            .works
            .iter()
            .rev()
            .find(|w| w.is_running())
            .or(app.works.last())
        {
            Some(work) => app.overlay = Some(Overlay::Work(work.id)),
            None => app.say("nothing was changed from here"),
        },
        Command::Stacks => stacks(app),
        Command::CompareConfigs => compare(app),
        Command::Replication => of_broker(app, &["broker", "ha"]),
        Command::TopicsHere => of_broker(app, &["topic", "list", "--broker"]),
        Command::GroupsHere => of_broker(app, &["group", "list", "--broker"]),
        Command::Forbid => forbid(app),
        Command::Consume => consume(app),
        Command::Goal => goal(app),
        Command::ExportOffsets => export_offsets(app),
        Command::Reset => reset(app),
        Command::Apply => match &app.reset {
            Some(reset) => {
                let deed = reset.deed();
                app.begin(deed, actions);
            }
            None => app.say(format!(
                "choose a group and topic with {} first",
                app.key(Command::Open)
            )),
        },
        Command::Undo => undo(app, actions),
        Command::NewTopic => app.overlay = Some(Overlay::Form(new_topic())),
        Command::Queues | Command::Perm | Command::Send => match topic(app) {
            // A second plan would be refused: what was interrupted comes first.
            Some(name) if command == Command::Queues && is_abandoned(app, &name) => {
                let deed = Deed::new(["topic", "scale", name.as_str(), "--resume"]);
                app.begin(deed.about(Subject::Topic(name)), actions);
            }
            Some(name) => {
                let form = match command {
                    Command::Queues => queues(app, &name),
                    Command::Perm => perm(app, &name),
                    _ => send(&name),
                };
                app.overlay = Some(Overlay::Form(form));
            }
            None => app.say("no topic is selected"),
        },
        Command::Skip | Command::Pause => group_act(app, command, actions),
        Command::Edit => edit(app),
        Command::Delete => delete(app, actions),
        Command::WipeWrite | Command::RestoreWrite => write_permission(app, command, actions),
        other => {
            // The rest belongs to every screen.
            let _ = messages::run(app, other) || dead::run(app, other, actions);
        }
    }
}

/// The subject of the selected row of the focused pane.
fn selected(app: &App) -> Option<Subject> {
    let pane = app.focus();
    let table = app.table(pane);
    table.rows[app.selected(pane, &table)?].subject.clone()
}

/// The topic that a key is about: that of the screen, or the selected one.
fn topic(app: &App) -> Option<String> {
    if let Some(name) = app.place.topic() {
        return Some(name.to_owned());
    }
    match selected(app)? {
        Subject::Topic(name) => Some(name),
        _ => None,
    }
}

/// The group that a key is about.
fn group(app: &App) -> Option<String> {
    if let Some(name) = app.place.group() {
        return Some(name.to_owned());
    }
    match selected(app)? {
        Subject::Group(name) => Some(name),
        _ => None,
    }
}

/// True when a scaling of the topic was interrupted and can be gone on with.
fn is_abandoned(app: &App, topic: &str) -> bool {
    app.kept_way(topic)
        .is_some_and(|way| way.is_abandoned(app.now_ms))
        && app.work_on(&Subject::Topic(topic.to_owned())).is_none()
}

/// On the offsets screen: the selected group and topic are the ones to move.
pub(super) fn choose_reset(app: &mut App) {
    match offsets::selected(app).filter(|_| app.focus() == Pane::Positions) {
        Some((group, topic)) => app.overlay = Some(Overlay::Form(goal_form(app, &group, &topic))),
        None => goal(app),
    }
}

fn goal(app: &mut App) {
    let chosen = app.reset.as_ref().map(|r| (r.group.clone(), r.topic.clone()));
    let pair = chosen.or_else(|| offsets::selected(app));
    match pair {
        Some((group, topic)) => app.overlay = Some(Overlay::Form(goal_form(app, &group, &topic))),
        None => app.say("no group is selected"),
    }
}

/// From a topic or group to its offsets.
fn reset(app: &mut App) {
    let Some(subject) = selected(app).or_else(|| app.place.about.clone()) else {
        return app.say("no group is selected");
    };
    let pair = match (&subject, &app.place.about) {
        (Subject::Group(group), Some(Subject::Topic(topic))) => Some((group.clone(), topic.clone())),
        (Subject::Topic(topic), Some(Subject::Group(group))) => Some((group.clone(), topic.clone())),
        (Subject::Group(group), _) => offsets::first_topic(app, group).map(|t| (group.clone(), t)),
        _ => None,
    };
    match pair {
        Some((group, topic)) => {
            app.overlay = Some(Overlay::Form(goal_form(app, &group, &topic)));
        }
        None => app.say("select a group with a position first"),
    }
}

/// A filled-in form: a reset is previewed first, everything else is a change to be rehearsed. False when something is
/// missing in it.
pub(super) fn filled_in(app: &mut App, deed: Deed, actions: &mut Vec<Action>) -> bool {
    if messages::filled_in(app, &deed, actions) {
        return true;
    }
    let words: Vec<&str> = deed.words.iter().map(String::as_str).collect();
    if let ["offset", "export", ..] = words.as_slice() {
        app.overlay = Some(Overlay::Sheet(deed.words, 0));
        return true;
    }
    if let ["group", "reset", group, "-t", topic, goal @ ..] = words.as_slice() {
        if let Err(why) = one_goal(goal) {
            app.say(why);
            return false;
        }
        app.reset = Some(Reset {
            group: (*group).to_owned(),
            topic: (*topic).to_owned(),
            goal: goal.iter().map(|word| (*word).to_owned()).collect(),
            cluster: app.cluster_of(&Subject::Group((*group).to_owned())),
            from: (app.place.screen != Screen::Offsets).then(|| app.place.clone()),
        });
        app.visit(Place::screen(Screen::Offsets));
        app.focus.insert(Screen::Offsets, Pane::Preview);
        return true;
    }
    app.begin(deed, actions);
    true
}

/// A group goes one way: several options are only several queues.
fn one_goal(goal: &[&str]) -> Result<(), &'static str> {
    let mut options = goal.iter().map(|word| word.split('=').next());
    let Some(first) = options.next() else {
        return Err("say where to");
    };
    let alike = options.clone().all(|option| option == first);
    match (alike, options.count()) {
        (true, 0) => Ok(()),
        (true, _) if first == Some("--queue") => Ok(()),
        _ => Err("say it in one way: where to, how far, single queues, a file or a group"),
    }
}

/// The offsets of the selected group into a file.
fn export_offsets(app: &mut App) {
    let chosen = app.reset.as_ref().map(|r| (r.group.clone(), r.topic.clone()));
    let selected = offsets::selected(app).filter(|_| app.focus() == Pane::Positions);
    match selected.or(chosen).or_else(|| offsets::selected(app)) {
        Some((group, topic)) => {
            let stamp = super::view::stamp(app, app.now_ms);
            app.overlay = Some(Overlay::Form(export_form(&group, &topic, &stamp)));
        }
        None => app.say("no group is selected"),
    }
}

fn undo(app: &mut App, actions: &mut Vec<Action>) {
    let subject = match app.place.screen {
        Screen::Offsets => {
            let chosen = app.reset.as_ref().map(|r| r.group.clone());
            let group = chosen.or_else(|| offsets::selected(app).map(|(group, _)| group));
            group.map(Subject::Group)
        }
        _ => app.place.about.clone(),
    };
    // The newest that changed something, or may have; what was only looked at, or refused, has neither step nor undo.
    let offsets = app.place.screen == Screen::Offsets;
    let of = app.works.iter().rev().filter(|w| w.deed.about == subject);
    let of = of.filter(|w| !offsets || w.deed.moves_offsets());
    let last = of
        .filter_map(|w| match &w.stage {
            Stage::Done(report) if report.undo.is_some() || report.steps.iter().any(|s| s.good) => {
                Some((super::work::undo(report), report.undo.clone()))
            }
            _ => None,
        })
        .next();
    match (last, subject) {
        (Some((Some(deed), _)), Some(subject)) => app.begin(deed.about(subject), actions),
        (Some((None, Some(line))), _) => app.say(format!("several commands take it back: {line}")),
        (Some(_), _) => app.say("the last change here has no undo"),
        // Of an earlier session: the commands know their own files.
        (None, Some(Subject::Group(name))) if offsets => {
            let deed = Deed::new(["offset", "undo", name.as_str()]);
            app.begin(deed.about(Subject::Group(name)), actions);
        }
        (None, Some(Subject::Topic(name))) => {
            let deed = Deed::new(["topic", "scale", name.as_str(), "--undo"]);
            app.begin(deed.about(Subject::Topic(name)), actions);
        }
        (None, _) => app.say("nothing here was changed from this dashboard"),
    }
}

fn group_act(app: &mut App, command: Command, actions: &mut Vec<Action>) {
    let Some(name) = group(app) else {
        return app.say("no group is selected");
    };
    if command == Command::Skip {
        let topic = match (selected(app), app.place.screen) {
            (Some(Subject::Topic(topic)), Screen::Group) => Some(topic),
            _ => offsets::first_topic(app, &name),
        };
        let Some(topic) = topic else {
            return app.say("the group has no position to skip from");
        };
        let form = Form::new(
            format!("Skip the backlog of {name}"),
            ["group", "skip", name.as_str(), "--execute"],
        )
        .about(Subject::Group(name.clone()))
        .field(Field::new("topic", Some("-t"), "").preset(topic).required())
        .note("Its unread messages there are never consumed; the undo line brings them back.");
        app.overlay = Some(Overlay::Form(form));
        return;
    }
    pause(app, name, actions);
}

fn pause(app: &mut App, name: String, actions: &mut Vec<Action>) {
    let Some(detail) = known_group(app, &name) else {
        return wait_for(app, Command::Pause, name);
    };
    // Paused on one broker is paused: letting it go on makes all alike.
    let paused = detail.paused().next().is_some();
    let verb = if paused { "resume" } else { "pause" };
    let deed = Deed::new(["group", verb, name.as_str()]).about(Subject::Group(name));
    app.begin(deed, actions);
}

/// What is known of a group, with its configuration.
fn known_group<'a>(app: &'a App, name: &str) -> Option<&'a GroupDetail> {
    match app.model.found(&Want::Group(name.to_owned())).fresh() {
        // In a list it was asked for before: what stands there since is not fresh.
        Some(Found::Group(detail)) if app.place.screen == Screen::Group || app.waiting.is_some() => {
            Some(&**detail).filter(|d| !d.configs.is_empty())
        }
        _ => None,
    }
}

/// The configuration of a group is asked for; then the command goes on.
fn wait_for(app: &mut App, command: Command, name: String) {
    app.say(format!("asking for the configuration of {name}"));
    app.waiting = Some((command, name));
}

/// Goes on with the command that waited for a group's configuration, when the answer is there.
pub(super) fn go_on(app: &mut App, actions: &mut Vec<Action>) {
    let Some((command, name)) = app.waiting.clone() else {
        return;
    };
    let want = Want::Group(name.clone());
    let seen = app.model.found(&want);
    if seen.is_unasked() {
        return;
    }
    let failed = seen.error.clone();
    match known_group(app, &name) {
        Some(_) if command == Command::Edit => edit_group(app, name),
        Some(_) => pause(app, name, actions),
        None => {
            let why = failed.unwrap_or_else(|| "no broker has one".into());
            app.say(format!("the configuration of {name}: {why}"));
        }
    }
    app.waiting = None;
    app.dirty = true;
}

fn edit(app: &mut App) {
    match app.place.screen {
        Screen::Brokers | Screen::Broker => edit_broker(app),
        _ => match group(app) {
            Some(name) => edit_group(app, name),
            None => app.say("no group is selected"),
        },
    }
}

fn edit_broker(app: &mut App) {
    let broker = app.broker().or_else(|| app.selected_broker());
    let Some(id) = broker.map(|b| b.broker.clone()) else {
        return app.say("no broker is selected");
    };
    let form = Form::new(
        format!("Configuration of {id}"),
        ["broker", "set-config", &id.to_string()],
    )
    .about(Subject::Broker(id))
    .field(Field::new("key=value", None, "such as fileReservedTime=48").required())
    .note("Unknown keys and values of the wrong type are refused; what needs a restart is said.");
    app.overlay = Some(Overlay::Form(form));
}

fn edit_group(app: &mut App, name: String) {
    let Some(detail) = known_group(app, &name) else {
        return wait_for(app, Command::Edit, name);
    };
    let now = |field: &str| detail.field(field).unwrap_or_default().to_owned();
    let field = |label, flag, hint| Field::new(label, Some(flag), hint).now(now(label));
    let form = Form::new(format!("Configuration of {name}"), ["group", "update", &name])
        .field(field("consume-enable", "--consume-enable", "true or false"))
        .field(field("broadcast", "--broadcast", "true or false"))
        .field(field("orderly", "--orderly", "true or false"))
        .field(field("retry-queues", "--retry-queues", "on each broker"))
        .field(field("retry-max", "--retry-max", "then it is a dead letter"))
        .field(field("notify-change", "--notify-change", "true or false"))
        .note("Only what is changed here is written; the rest is read and kept.")
        .about(Subject::Group(name));
    app.overlay = Some(Overlay::Form(form));
}

fn delete(app: &mut App, actions: &mut Vec<Action>) {
    match selected(app) {
        Some(subject @ (Subject::Topic(_) | Subject::Group(_))) => {
            let (noun, name) = match &subject {
                Subject::Topic(name) => ("topic", name.clone()),
                Subject::Group(name) => ("group", name.clone()),
                _ => return,
            };
            app.begin(Deed::new([noun, "delete", &name]).about(subject), actions);
        }
        _ => app.say("nothing is selected"),
    }
}

fn write_permission(app: &mut App, command: Command, actions: &mut Vec<Action>) {
    let Some(Subject::Broker(id)) = selected(app) else {
        return app.say("no broker is selected");
    };
    let verb = if command == Command::WipeWrite {
        "wipe-write"
    } else {
        "restore-write"
    };
    let deed = Deed::new(["broker", verb, id.name.as_str()]).about(Subject::Broker(id));
    app.begin(deed, actions);
}

fn stacks(app: &mut App) {
    let Some(group) = app.place.group().map(str::to_owned) else {
        return;
    };
    let table = app.table(Pane::GroupClients);
    match app.selected(Pane::GroupClients, &table) {
        Some(at) => {
            let client = table.rows[at].name.clone();
            let words = ["consumer", "stack", &client, "-g", &group].map(str::to_owned);
            app.overlay = Some(Overlay::Sheet(words.into(), 0));
        }
        None => app.say("no client is online"),
    }
}

/// What a command says of the selected broker.
fn of_broker(app: &mut App, command: &[&str]) {
    let broker = app.broker().or_else(|| app.selected_broker());
    match broker.map(|b| b.broker.to_string()) {
        Some(id) => {
            let words = command.iter().copied().chain([id.as_str()]);
            app.overlay = Some(Overlay::Sheet(words.map(str::to_owned).collect(), 0));
        }
        None => app.say("no broker is selected"),
    }
}

/// The topic of the selected row on a group's screen, else the first that the group reads.
fn topic_of_group(app: &App, group: &str) -> String {
    match selected(app) {
        Some(Subject::Topic(topic)) => topic,
        _ => offsets::first_topic(app, group).unwrap_or_default(),
    }
}

fn forbid(app: &mut App) {
    let Some(group) = app.place.group().map(str::to_owned) else {
        return;
    };
    let topic = topic_of_group(app, &group);
    let form = Form::new(format!("Reading of {group}"), ["group"])
        .about(Subject::Group(group.clone()))
        .field(
            Field::new("do", None, "forbid or allow")
                .preset("forbid")
                .required(),
        )
        .field(Field::new("group", None, "").preset(group).required())
        .field(Field::new("topic", Some("--topic"), "").preset(topic).required())
        .note("Forbidden: its pulls of this topic are refused on every broker; messages stay and pile up.");
    app.overlay = Some(Overlay::Form(form));
}

fn consume(app: &mut App) {
    let Some(group) = app.place.group().map(str::to_owned) else {
        return;
    };
    let table = app.table(Pane::GroupClients);
    let client = app
        .selected(Pane::GroupClients, &table)
        .map(|at| table.rows[at].name.clone())
        .unwrap_or_default();
    let topic = topic_of_group(app, &group);
    let form = Form::new(
        format!("Have {group} consume a message"),
        ["message", "push", "--group", group.as_str()],
    )
    .about(Subject::Group(group.clone()))
    .field(Field::new("id", None, "offset id, or the unique key").required())
    .field(Field::new("topic", Some("--topic"), "").preset(topic))
    .field(Field::new("client", Some("--client"), "empty: the only one").preset(client))
    .note("The client's listener gets it at once, and what it returns is shown; no position moves.");
    app.overlay = Some(Overlay::Form(form));
}

fn compare(app: &mut App) {
    let table = app.table(Pane::Brokers);
    let marked: Vec<String> = match app.marked(Pane::Brokers) {
        Some(marks) => {
            let rows = table.rows.iter().filter(|r| marks.contains(&r.id));
            rows.filter_map(|r| match &r.subject {
                Some(Subject::Broker(id)) => Some(id.to_string()),
                _ => None,
            })
            .collect()
        }
        None => Vec::new(),
    };
    match marked.as_slice() {
        [a, b] => {
            let words = vec![
                "cluster".into(),
                "diff".into(),
                format!("broker:{a}"),
                format!("broker:{b}"),
            ];
            app.overlay = Some(Overlay::Sheet(words, 0));
        }
        _ => app.say(format!("mark two brokers with {} first", app.key(Command::Mark))),
    }
}

/// Writes the focused pane's rows to a file.
pub(super) fn export(app: &mut App, form: export::Form, actions: &mut Vec<Action>) {
    let pane = app.focus();
    let mut table = (*app.table(pane)).clone();
    if table.columns.is_empty() {
        return app.say("there are no rows to write here");
    }
    if let Some(marks) = app.marked(pane) {
        table.rows.retain(|row| marks.contains(&row.id));
    }
    if table.rows.is_empty() {
        return app.say("there are no rows to write here");
    }
    let stamp = super::view::stamp(app, app.now_ms);
    let name = format!("rmq-{}-{stamp}.{}", app.place.screen.name(), form.ending());
    // A whole message is more than its row.
    let whole = match (pane, form) {
        (Pane::Messages, export::Form::Jsonl) => messages::export(app),
        (Pane::Letters, export::Form::Jsonl) => dead::export(app),
        _ => None,
    };
    let text = whole.unwrap_or_else(|| export::text(&table, form));
    actions.push(Action::Save(name, text));
}
