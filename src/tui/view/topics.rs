//! The list of topics.

use std::collections::{BTreeSet, HashMap};

use super::bar::{self, Base};
use super::theme::Role;
use super::{age_on, cell, text};
use crate::client::findings::{Finding, Subject};
use crate::client::snapshot::{TopicKind, TopicOnBroker, TopicState};
use crate::protocol::model::Perm;
use crate::tui::app::{App, Pane};
use crate::tui::history;
use crate::tui::keys::Command;
use crate::tui::model::Model;
use crate::tui::table::{Cell, Row, Table};
use crate::tui::want::{Found, Want};

/// Columns of the small series.
const SPARK: usize = 10;

/// True when topics of this kind are listed now.
fn is_listed(app: &App, kind: TopicKind) -> bool {
    match kind {
        TopicKind::User => true,
        TopicKind::Retry => app.kinds.retry,
        TopicKind::DeadLetter => app.kinds.dead,
        TopicKind::System => app.kinds.system,
    }
}

/// `Topics 19 of 212  (hidden: retry 41 dlq 6 system 13: keys R D Y)`.
pub fn title(app: &App) -> String {
    let table = app.table(Pane::Topics);
    let topics = &app.shown().snapshot.topics;
    let hidden: Vec<String> = [
        (TopicKind::Retry, "retry"),
        (TopicKind::DeadLetter, "dlq"),
        (TopicKind::System, "system"),
    ]
    .into_iter()
    .filter(|(kind, _)| !is_listed(app, *kind))
    .map(|(kind, word)| format!("{word} {}", topics.iter().filter(|t| t.kind == kind).count()))
    .collect();
    let hidden = if hidden.is_empty() {
        String::new()
    } else {
        format!("  (hidden: {}: keys R D Y)", hidden.join(" "))
    };
    format!("Topics {} of {}{hidden}", table.rows.len(), topics.len())
}

/// The rows.
pub fn table(app: &App) -> Table {
    let model = app.shown();
    let wide = app.wide || app.size.0 >= super::layout::WIDE;
    let mut table = Table::new([
        ("TOPIC", false, 0),
        ("TYPE", false, 4),
        ("W/R", true, 0),
        ("PERM", false, 0),
        ("BROKERS", true, 5),
        ("IN/s", true, 0),
        ("10 MIN", false, 6),
        ("MESSAGES", true, 3),
        ("LAST PUT", true, 2),
        ("GROUPS", true, 3),
        ("NOTE", false, 1),
        ("ATTRIBUTES", false, 7),
    ]);
    if !wide {
        table.columns.pop();
    }
    let notes = notes(model);
    // Before any broker told its groups, nobody said "none".
    let lag = model.lag_total();
    let bound = lag.value.map(|_| super::groups::bound(lag.partial));
    let mut listed: Vec<(&TopicState, f64)> = (model.snapshot.topics.iter())
        .filter(|t| is_listed(app, t.kind))
        .map(|t| (t, t.brokers.iter().filter_map(|on| on.in_tps.fresh()).sum()))
        .collect();
    listed.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.name.cmp(&b.0.name)));
    for (topic, _) in listed {
        let mut cells = vec![
            Cell::text(&topic.name),
            kind(topic),
            queues(topic),
            perm(topic),
            brokers(topic),
            rate(topic, app.shown_ms()),
            spark(model, &topic.name),
        ];
        cells.extend(brief(app, &topic.name));
        cells.push(match bound {
            Some(bound) => {
                let groups = model.groups_of(&topic.name);
                Cell::number(format!("{bound}{groups}"), groups as f64)
            }
            None => Cell::unknown(),
        });
        cells.push(note(app, topic, &notes));
        if wide {
            cells.push(Cell::text(attributes(topic)));
        }
        table.rows.push(Row {
            id: topic.name.clone(),
            name: topic.name.clone(),
            subject: Some(Subject::Topic(topic.name.clone())),
            cells,
        });
    }
    table
}

/// The first finding about each topic.
fn notes(model: &Model) -> HashMap<&str, &Finding> {
    let mut notes = HashMap::new();
    for finding in &model.findings {
        if let Subject::Topic(name) = &finding.subject {
            notes.entry(name.as_str()).or_insert(finding);
        }
    }
    notes
}

/// The values of one field on all brokers; a star when they differ.
fn common<T: PartialEq + Clone>(topic: &TopicState, of: impl Fn(&TopicOnBroker) -> T) -> Option<(T, bool)> {
    let first = of(topic.brokers.first()?);
    let same = topic.brokers.iter().all(|on| of(on) == first);
    Some((first, same))
}

/// N normal, F fifo, D delay, T transaction, M mixed, ? unset.
fn kind(topic: &TopicState) -> Cell {
    let of = |on: &TopicOnBroker| on.attributes.get("message.type").cloned();
    match common(topic, of) {
        Some((Some(kind), same)) => {
            let letter = kind.chars().next().unwrap_or('?');
            Cell::text(format!("{letter}{}", if same { "" } else { "*" }))
        }
        _ => Cell::text("?"),
    }
}

fn queues(topic: &TopicState) -> Cell {
    match common(topic, |on| (on.write_queues, on.read_queues)) {
        Some(((write, read), same)) => {
            let star = if same { "" } else { "*" };
            let role = if read < write { Role::Warn } else { Role::Plain };
            Cell::of(format!("{write}/{read}{star}"), role).by(f64::from(write))
        }
        None => Cell::unknown(),
    }
}

/// `rw-`, as the mock-ups write permissions.
pub fn perm_text(perm: Perm) -> String {
    let bit = |on, c| if on { c } else { '-' };
    format!(
        "{}{}{}",
        bit(perm.readable(), 'r'),
        bit(perm.writable(), 'w'),
        bit(perm.inherited(), 'i')
    )
}

fn perm(topic: &TopicState) -> Cell {
    match common(topic, |on| on.perm) {
        Some((perm, same)) => {
            let role = if perm.readable() && perm.writable() {
                Role::Plain
            } else {
                Role::Warn
            };
            Cell::of(
                format!("{}{}", perm_text(perm), if same { "" } else { "*" }),
                role,
            )
        }
        None => Cell::unknown(),
    }
}

fn brokers(topic: &TopicState) -> Cell {
    let names: BTreeSet<&str> = topic.brokers.iter().map(|on| on.broker.name.as_str()).collect();
    Cell::number(names.len().to_string(), names.len() as f64)
}

/// Messages a second; a lower bound when a broker's part is missing, with its age when it was not asked lately.
pub fn rate(topic: &TopicState, now_ms: i64) -> Cell {
    let told = || topic.brokers.iter().filter(|on| on.in_tps.fresh().is_some());
    let known = told().filter_map(|on| on.in_tps.fresh());
    match known.copied().reduce(|a, b| a + b) {
        Some(rate) => {
            let partial = topic.brokers.iter().any(|on| on.in_tps.fresh().is_none());
            let bound = if partial { "≥" } else { "" };
            let as_of_ms = told().map(|on| on.in_tps.as_of_ms).min().unwrap_or(now_ms);
            cell::aged(Cell::count(bound, rate), as_of_ms, now_ms)
        }
        None if topic.brokers.iter().all(|on| on.in_tps.is_unasked()) => Cell::unknown(),
        None => Cell::failed(),
    }
}

fn spark(model: &Model, name: &str) -> Cell {
    let series = model.topic_series.get(name);
    let spark = series.map_or_else(String::new, |s| {
        bar::sparkline(s.within(history::TEN_MINUTES_MS), SPARK, Base::Zero)
    });
    Cell::of(spark, Role::Data)
}

/// Messages and the age of the newest one: asked for while the row is on the screen.
fn brief(app: &App, name: &str) -> [Cell; 2] {
    let seen = app.found(&Want::TopicBrief(name.to_owned()));
    let now = app.shown_ms();
    let silent = app.shown().silent_masters().next().is_some();
    let of = |make: &dyn Fn(&crate::tui::want::TopicBrief) -> Cell| {
        cell::value(seen, now, |found| match found {
            Found::TopicBrief(brief) => Some(cell::aged(make(brief), seen.as_of_ms, now)),
            _ => None,
        })
    };
    [
        of(&|brief| {
            let bound = super::groups::bound(silent || brief.partial);
            Cell::count(bound, brief.messages as f64)
        }),
        of(&|brief| match brief.last_ms {
            0 if silent || brief.partial => Cell::unknown(),
            0 => Cell::none(),
            at => age(app, &brief.last_on, at),
        }),
    ]
}

/// How long ago a time of a broker was, in one or two units.
pub fn age(app: &App, broker: &str, at_ms: i64) -> Cell {
    let age = age_on(app, broker, at_ms);
    Cell::number(text::age(age), age as f64)
}

fn note(app: &App, topic: &TopicState, notes: &HashMap<&str, &Finding>) -> Cell {
    let model = app.shown();
    // Numbers on their way are no finding.
    if let Some(work) = app.work_on(&Subject::Topic(topic.name.clone())) {
        let verb = work.deed.words.get(1).map_or("changing", String::as_str);
        let at = work
            .way
            .as_ref()
            .map_or_else(String::new, |way| format!(" step {} of {}", way.at, way.of));
        return Cell::of(
            format!("~ {verb}{at}, {} shows it", app.key(Command::Works)),
            Role::Warn,
        );
    }
    if let Some(kept) = app.kept_way(&topic.name) {
        let place = kept.progress.place();
        return if kept.is_abandoned(app.shown_ms()) {
            Cell::of(format!("! scale stopped at {place}"), Role::Warn)
        } else {
            Cell::of(format!("~ scale {place}"), Role::Warn)
        };
    }
    if let Some(finding) = notes.get(topic.name.as_str()) {
        let (glyph, role) = super::rows::severity(finding.severity);
        return Cell::of(format!("{glyph} {}", finding.rule.replace('-', " ")), role);
    }
    if let Some((perm, true)) = common(topic, |on| on.perm) {
        match (perm.readable(), perm.writable()) {
            (true, false) => return Cell::of("read only", Role::Warn),
            (false, true) => return Cell::of("write only", Role::Warn),
            (false, false) => return Cell::of("! no access", Role::Warn),
            (true, true) => {}
        }
    }
    if let Some(((write, read), _)) = common(topic, |on| (on.write_queues, on.read_queues))
        && read > write
    {
        return Cell::text("read > write");
    }
    if topic.brokers.iter().any(|on| on.order) {
        return Cell::text("ordered");
    }
    let masters = model.snapshot.brokers.iter().filter(|b| b.broker.is_master());
    let absent: Vec<&str> = masters
        .filter(|b| model.topics_of(&b.broker).is_some_and(|t| t.get().is_some()))
        .filter(|b| topic.brokers.iter().all(|on| on.broker != b.broker))
        .map(|b| b.broker.name.as_str())
        .collect();
    match absent.as_slice() {
        [] => Cell::text(""),
        [one] => Cell::text(format!("not on {one}")),
        many => Cell::text(format!("not on {} brokers", many.len())),
    }
}

fn attributes(topic: &TopicState) -> String {
    let all: BTreeSet<String> = (topic.brokers.iter())
        .flat_map(|on| on.attributes.iter().map(|(k, v)| format!("{k}={v}")))
        .collect();
    all.into_iter().collect::<Vec<_>>().join(" ")
}

/// `8 write, 16 read on broker-a, broker-b`: the numbers of a topic in words.
pub fn numbers(app: &App, name: &str) -> String {
    by_value(app, name, |on| {
        format!("write {} read {}", on.write_queues, on.read_queues)
    })
}

/// `6 rw- on broker-a, broker-b`: the permissions of a topic in words.
pub fn perms(app: &App, name: &str) -> String {
    by_value(app, name, |on| format!("{} {}", on.perm.0, perm_text(on.perm)))
}

fn by_value(app: &App, name: &str, of: impl Fn(&TopicOnBroker) -> String) -> String {
    let Some(topic) = app.shown().topic(name) else {
        return "?".to_owned();
    };
    let mut parts: Vec<(String, Vec<&str>)> = Vec::new();
    for on in &topic.brokers {
        let value = of(on);
        match parts.iter_mut().find(|(v, _)| *v == value) {
            Some((_, names)) => names.push(&on.broker.name),
            None => parts.push((value, vec![&on.broker.name])),
        }
    }
    match parts.as_slice() {
        // The same everywhere: where need not be said.
        [(value, names)] if names.len() == topic.brokers.len() => value.clone(),
        parts => {
            let parts = parts.iter();
            let parts = parts.map(|(value, names)| format!("{value} on {}", names.join(", ")));
            parts.collect::<Vec<_>>().join("; ")
        }
    }
}
