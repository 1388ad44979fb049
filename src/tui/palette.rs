//! The palette: everything that has a name, found by a few of its letters.

use std::time::Duration;

use super::app::{App, INTERVALS};
use super::keys::{self, Command, Where};
use super::place::{Place, Screen};
use super::store;
use super::view::theme::Palette;
use crate::client::AddressRule;
use crate::client::findings::Subject;

/// Entries offered at once.
const SHOWN: usize = 200;

/// What a palette entry does.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// As if its key were pressed.
    Run(Command),
    /// Go somewhere.
    Open(Place),
    /// Set the interval.
    Interval(Duration),
    /// Draw in these colours, or say why not.
    Theme(Result<Palette, String>),
    /// Go on with another context.
    Context(String),
    /// Dial TO for brokers registered as FROM.
    Map(String),
}

/// One line of the palette.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What it is called.
    pub label: String,
    /// What it does.
    pub what: Choice,
}

/// Palette entries that fit what was typed.
pub fn palette(app: &App, typed: &str) -> Vec<Entry> {
    let typed = typed.trim().to_lowercase();
    // A typed interval is that one or none, not the nearest of the list.
    if let Some(text) = typed
        .strip_prefix("set interval ")
        .filter(|t| !t.trim().is_empty())
    {
        return interval_entry(text.trim()).into_iter().collect();
    }
    if let Some(rule) = typed.strip_prefix("map ").map(str::trim) {
        return match rule.parse::<AddressRule>() {
            Ok(_) => vec![Entry {
                label: format!("map {rule}"),
                what: Choice::Map(rule.to_owned()),
            }],
            Err(_) => Vec::new(),
        };
    }
    let entry = |label: String, what| Entry { label, what };
    let mut entries: Vec<Entry> = Screen::tabs()
        .map(|(screen, _)| entry(screen.name().to_owned(), Choice::Run(Command::Go(screen))))
        .collect();
    entries.extend(
        keys::palette(app.settings.read_only)
            .map(|(label, command)| entry(label.to_owned(), Choice::Run(command))),
    );
    entries.extend(actions(app).map(|(label, command)| entry(label, Choice::Run(command))));
    let seconds = [1, 2, 5, 10];
    entries.extend(seconds.map(|s| {
        entry(
            format!("set interval {s}s"),
            Choice::Interval(Duration::from_secs(s)),
        )
    }));
    let theme = |name: &str, palette| entry(format!("theme {name}"), Choice::Theme(palette));
    entries.extend(Palette::ALL.map(|built_in| theme(built_in.name(), Ok(built_in))));
    let own = app.settings.themes.iter();
    entries.extend(own.map(|own| theme(&own.name, own.colours.clone().map(Palette::Own))));
    let contexts = app.settings.contexts.iter();
    entries.extend(contexts.map(|name| entry(format!("ctx {name}"), Choice::Context(name.clone()))));
    let snapshot = &app.model.snapshot;
    let open = |label: String, screen, subject| entry(label, Choice::Open(Place::about(screen, subject)));
    entries.extend((snapshot.brokers.iter()).map(|b| {
        open(
            format!("broker {}", b.broker),
            Screen::Broker,
            Subject::Broker(b.broker.clone()),
        )
    }));
    // Thousands of names are offered once some letters narrow them.
    if typed.len() >= 2 {
        entries.extend((snapshot.topics.iter()).map(|t| {
            open(
                format!("topic {}", t.name),
                Screen::Topic,
                Subject::Topic(t.name.clone()),
            )
        }));
        entries.extend((snapshot.groups.iter()).map(|g| {
            open(
                format!("group {}", g.name),
                Screen::Group,
                Subject::Group(g.name.clone()),
            )
        }));
    }
    entries.retain(|e| is_subsequence(&typed, &e.label.to_lowercase()));
    // Whole words before scattered letters; stable, so the order of the list holds otherwise.
    entries.sort_by_cached_key(|e| !e.label.to_lowercase().contains(&typed));
    entries.truncate(SHOWN);
    entries
}

/// Every action of the screen, and those of every screen whose key it has for something else; beside what has a name of
/// its own in the palette already, and what moves the selection.
fn actions(app: &App) -> impl Iterator<Item = (String, Command)> {
    let (screen, read_only) = (app.place.screen, app.settings.read_only);
    let mut told: Vec<Command> = keys::palette(read_only).map(|(_, command)| command).collect();
    let here = keys::TABLE.iter().filter(move |b| b.screens.includes(screen));
    let elsewhere = (keys::TABLE.iter())
        .filter(move |b| matches!(b.screens, Where::Not(_)) && !b.screens.includes(screen))
        // What is typed there goes somewhere, and rows of a store have one order.
        .filter(move |b| {
            let ordered = b.command.is_sorting() && store::SCREENS.contains(&screen);
            b.command != Command::Filter && !ordered
        });
    here.chain(elsewhere)
        .filter(move |b| !(read_only && b.command.is_change()))
        .filter(|b| !b.command.is_moving())
        .filter(move |b| {
            let new = !told.contains(&b.command);
            told.push(b.command);
            new
        })
        .map(|b| {
            (
                format!("{}: {}", b.command.action().replace('-', " "), b.help),
                b.command,
            )
        })
}

fn interval_entry(text: &str) -> Option<Entry> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let number: u64 = number.trim().parse().ok()?;
    let interval = match unit {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" => Duration::from_secs(number.checked_mul(60)?),
        _ => return None,
    };
    (INTERVALS.0..=INTERVALS.1).contains(&interval).then(|| Entry {
        label: format!("set interval {text}"),
        what: Choice::Interval(interval),
    })
}

fn is_subsequence(needle: &str, hay: &str) -> bool {
    let mut hay = hay.chars();
    needle.chars().all(|n| n == ' ' || hay.any(|h| h == n))
}
