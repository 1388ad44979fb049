//! Forms of the single screens: what each asks for, and the command that it fills in.

use super::app::{App, Screen};
use super::form::{Field, Form};
use super::keys::Command;
use super::view::topics;
use crate::client::findings::Subject;

/// `rmq topic create`
pub(super) fn new_topic() -> Form {
    Form::new("New topic", ["topic", "create"])
        .field(Field::new("name", None, "letters, digits, - _ %").required())
        .field(Field::new(
            "queues",
            Some("--queues"),
            "read and write queues on each broker; empty: 8",
        ))
        .field(Field::new(
            "read queues",
            Some("--read-queues"),
            "instead of queues, where the two differ",
        ))
        .field(Field::new(
            "write queues",
            Some("--write-queues"),
            "instead of queues, where the two differ",
        ))
        .field(Field::new("perm", Some("--perm"), "6 rw, 4 r, 2 w").preset("6"))
        .field(Field::new("type", Some("--type"), "normal, fifo, delay, transaction, mixed").preset("normal"))
        .field(Field::new("order", Some("--order"), "yes: keys keep their queue; no").yes_or_no())
        .field(Field::new("cluster", Some("--cluster"), "empty: the only one"))
        .field(
            Field::new(
                "brokers",
                Some("--broker"),
                "names with blanks between them; empty: all of the cluster",
            )
            .several(),
        )
        .note("A name that exists is refused: no topic is changed.")
}

/// `rmq topic scale`
pub(super) fn queues(app: &App, name: &str) -> Form {
    let now = topics::numbers(app, name);
    Form::new(format!("Queues of {name}"), ["topic", "scale", name])
        .about(Subject::Topic(name.to_owned()))
        .field(Field::new(
            "to",
            Some("--to"),
            "read and write queues on each broker",
        ))
        .field(Field::new(
            "read to",
            Some("--read-to"),
            "where it is not the number of to",
        ))
        .field(Field::new(
            "write to",
            Some("--write-to"),
            "where it is not the number of to",
        ))
        .field(
            Field::new(
                "brokers",
                Some("--broker"),
                "names with blanks between them; empty: all",
            )
            .several(),
        )
        .field(
            Field::new(
                "ignore groups",
                Some("--ignore-group"),
                "offline ones that are not waited for, blanks between them",
            )
            .several(),
        )
        .note(format!("now {now}"))
        .note("More: consumers get the new queues first, then producers.")
        .note("Fewer: producers leave first; the queues are drained, then they lose their readers.")
        .note(format!(
            "It goes on after this dialog is closed; after quitting, {} or --resume goes on or back.",
            app.key(Command::Undo)
        ))
}

/// `rmq topic update --perm`
pub(super) fn perm(app: &App, name: &str) -> Form {
    let now = topics::perms(app, name);
    Form::new(format!("Permission of {name}"), ["topic", "update", name])
        .about(Subject::Topic(name.to_owned()))
        .field(Field::new("perm", Some("--perm"), "6 rw, 4 r, 2 w, 0 none").required())
        .note(format!("now {now}"))
        .note("6 rw-  producers and consumers")
        .note("4 r--  producers get an error within 30 s; consumers go on: the drain step")
        .note("2 -w-  consumers stop; messages pile up")
        .note("0 ---  nobody")
}

/// `rmq message send`
pub(super) fn send(name: &str) -> Form {
    Form::new(format!("Send to {name}"), ["message", "send", "-t", name])
        .about(Subject::Topic(name.to_owned()))
        .field(
            Field::new("body", Some("--body"), "text")
                .required()
                .preset("hello"),
        )
        .field(Field::new("tag", Some("--tag"), ""))
        .field(Field::new("key", Some("--key"), ""))
        .field(Field::new(
            "delay",
            Some("--delay"),
            "level 1 to 18, or a duration such as 90s",
        ))
        .field(Field::new("property", Some("--prop"), "KEY=VALUE"))
}

/// `rmq group reset`: where a group may be sent to.
pub(super) fn goal_form(app: &App, group: &str, topic: &str) -> Form {
    let apply = app.settings.keys.hint(Command::Apply, Screen::Offsets);
    Form::new(format!("Move offsets of {group}"), ["group", "reset", group])
        .about(Subject::Group(group.to_owned()))
        .field(Field::new("topic", Some("-t"), "").preset(topic).required())
        .field(Field::new(
            "to",
            Some("--to"),
            "earliest, latest, -1h, 2026-11-29 10:00:00, or an offset",
        ))
        .field(Field::new(
            "shift",
            Some("--shift"),
            "so many messages: 100, or -100 for back",
        ))
        .field(
            Field::new(
                "queues",
                Some("--queue"),
                "only these: broker-a/3=1500, blanks between several",
            )
            .several(),
        )
        .field(Field::new(
            "like group",
            Some("--from-group"),
            "where that group is",
        ))
        .field(Field::new("file", Some("--from-file"), "of an export"))
        .note(format!(
            "One of them. Only a preview comes next; {apply} there does it."
        ))
}

/// `rmq offset export`
pub(super) fn export_form(group: &str, topic: &str, stamp: &str) -> Form {
    let name: String = group
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "-_.".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect();
    Form::new("Offsets into a file", ["offset", "export"])
        .about(Subject::Group(group.to_owned()))
        .field(Field::new("group", None, "").preset(group).required())
        .field(Field::new("topic", Some("-t"), "empty: every topic of the group").preset(topic))
        .field(
            Field::new("file", Some("--out"), "")
                .preset(format!("offsets-{name}-{stamp}.json"))
                .required(),
        )
        .note("Nothing is changed. rmq offset import brings a group back there; so does file in the form that moves.")
}
