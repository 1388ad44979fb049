//! One table of keys: command, default keys, screens. The key handling, the help page and the footer are all
//! read from it, so that a key which does nothing cannot be shown.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::Screen;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Command {
    /// Selection one row down.
    Down,
    /// Selection one row up.
    Up,
    /// Selection to the first row.
    First,
    /// Selection to the last row.
    Last,
    /// Half a page down.
    HalfPageDown,
    /// Half a page up.
    HalfPageUp,
    /// A page down.
    PageDown,
    /// A page up.
    PageUp,
    /// Columns to the left.
    Left,
    /// Columns to the right.
    Right,
    /// Go to a screen.
    Go(Screen),
    /// Next pane.
    NextPane,
    /// Previous pane.
    PreviousPane,
    /// Open what is selected.
    Open,
    /// One step back.
    Back,
    /// Edit the filter.
    Filter,
    /// Open the palette.
    Palette,
    /// Open the list of sort columns.
    SortMenu,
    /// Sort by the column to the left.
    SortLeft,
    /// Sort by the column to the right.
    SortRight,
    /// Turn the sort order round.
    SortReverse,
    /// Copy the selected name.
    CopyName,
    /// Copy the selected row as JSON.
    CopyRow,
    /// Hold the display.
    Freeze,
    /// Ask every server now.
    Refresh,
    /// One pane on the whole screen.
    Zoom,
    /// All columns, or the usual ones.
    Wide,
    /// Differences between two name servers.
    Diff,
    /// Previous place.
    Previous,
    /// Next place.
    Next,
    /// Help page.
    Help,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Leave.
    Quit,
}

/// Where an entry of the table is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// On every screen.
    Everywhere,
    /// On these only.
    On(&'static [Screen]),
}

impl Where {
    /// True when the entry is valid on `screen`.
    pub fn includes(self, screen: Screen) -> bool {
        match self {
            Self::Everywhere => true,
            Self::On(screens) => screens.contains(&screen),
        }
    }
}

/// One line of the table.
#[derive(Debug, Clone, Copy)]
pub struct Binding {
    /// What it does.
    pub command: Command,
    /// Its keys, in the notation of [`key_name`].
    pub keys: &'static [&'static str],
    /// Where it is valid.
    pub screens: Where,
    /// Text for the help page.
    pub help: &'static str,
    /// Short text for the footer; empty entries are on the help page only.
    pub footer: &'static str,
}

const fn all(
    command: Command,
    keys: &'static [&'static str],
    help: &'static str,
    footer: &'static str,
) -> Binding {
    Binding {
        command,
        keys,
        screens: Where::Everywhere,
        help,
        footer,
    }
}

const fn on(
    screens: &'static [Screen],
    command: Command,
    keys: &'static [&'static str],
    help: &'static str,
    footer: &'static str,
) -> Binding {
    Binding {
        command,
        keys,
        screens: Where::On(screens),
        help,
        footer,
    }
}

/// Screens with more than one pane to focus.
const PANES: &[Screen] = &[Screen::Overview, Screen::Heartbeats, Screen::Broker];

/// The table. Footers show entries in this order, as many as fit.
pub const TABLE: &[Binding] = &[
    on(
        &[Screen::Overview],
        Command::Open,
        &["enter"],
        "go to what the finding or row is about",
        "drill",
    ),
    on(
        &[Screen::Heartbeats, Screen::Brokers],
        Command::Open,
        &["enter"],
        "open the selected broker",
        "broker",
    ),
    on(
        &[Screen::Heartbeats],
        Command::Diff,
        &["d"],
        "differences between two name servers",
        "diff name servers",
    ),
    on(
        &[Screen::Brokers],
        Command::Wide,
        &["w"],
        "all columns, or the usual ones",
        "wide",
    ),
    all(Command::Go(Screen::Overview), &["1"], "screen 1, overview", ""),
    all(
        Command::Go(Screen::Heartbeats),
        &["2"],
        "screen 2, heartbeats",
        "",
    ),
    all(Command::Go(Screen::Brokers), &["3"], "screen 3, brokers", ""),
    on(PANES, Command::NextPane, &["tab"], "next pane", "pane"),
    all(
        Command::Filter,
        &["/"],
        "filter rows: regular expression, ! inverts, field:value",
        "filter",
    ),
    all(Command::SortMenu, &["s"], "choose the sort column", "sort"),
    all(
        Command::Palette,
        &[":"],
        "palette: screen, set interval, quit",
        "palette",
    ),
    all(
        Command::Freeze,
        &["p"],
        "hold the display; polling goes on",
        "pause",
    ),
    all(Command::Refresh, &["r"], "ask every server now", "refresh"),
    all(Command::Help, &["?"], "this page", "help"),
    all(Command::Quit, &["q", "ctrl-c"], "quit", "quit"),
    all(Command::Down, &["j", "down"], "next row", ""),
    all(Command::Up, &["k", "up"], "previous row", ""),
    all(Command::First, &["g", "home"], "first row", ""),
    all(Command::Last, &["G", "end"], "last row", ""),
    all(Command::HalfPageDown, &["ctrl-d"], "half a page down", ""),
    all(Command::HalfPageUp, &["ctrl-u"], "half a page up", ""),
    all(Command::PageDown, &["pgdn"], "a page down", ""),
    all(Command::PageUp, &["pgup"], "a page up", ""),
    all(Command::Left, &["h", "left"], "columns to the left", ""),
    all(Command::Right, &["l", "right"], "columns to the right", ""),
    on(PANES, Command::PreviousPane, &["shift-tab"], "previous pane", ""),
    all(
        Command::Back,
        &["esc"],
        "close, clear the filter, or one step back; never quits",
        "",
    ),
    all(
        Command::SortLeft,
        &["shift-left"],
        "sort by the column to the left",
        "",
    ),
    all(
        Command::SortRight,
        &["shift-right"],
        "sort by the column to the right",
        "",
    ),
    all(Command::SortReverse, &["o"], "turn the sort order round", ""),
    all(Command::CopyName, &["y"], "copy the selected name (OSC 52)", ""),
    all(
        Command::CopyRow,
        &["Y"],
        "copy the selected row as JSON (OSC 52)",
        "",
    ),
    all(Command::Zoom, &["z"], "focused pane on the whole screen", ""),
    all(Command::Previous, &["["], "previous place", ""),
    all(Command::Next, &["]"], "next place", ""),
    all(
        Command::Suspend,
        &["ctrl-z"],
        "back to the shell; fg continues",
        "",
    ),
];

/// The name of a key as the table writes it: `j`, `G`, `ctrl-d`, `shift-tab`, `pgdn`.
pub fn key_name(key: KeyEvent) -> String {
    let base = match key.code {
        KeyCode::Char(' ') => "space".to_owned(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::Enter => "enter".to_owned(),
        KeyCode::Esc => "esc".to_owned(),
        KeyCode::Tab => "tab".to_owned(),
        KeyCode::BackTab => return "shift-tab".to_owned(),
        KeyCode::Backspace => "backspace".to_owned(),
        KeyCode::Delete => "delete".to_owned(),
        KeyCode::Up => "up".to_owned(),
        KeyCode::Down => "down".to_owned(),
        KeyCode::Left => "left".to_owned(),
        KeyCode::Right => "right".to_owned(),
        KeyCode::Home => "home".to_owned(),
        KeyCode::End => "end".to_owned(),
        KeyCode::PageUp => "pgup".to_owned(),
        KeyCode::PageDown => "pgdn".to_owned(),
        KeyCode::F(n) => format!("f{n}"),
        _ => return String::new(),
    };
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return format!("ctrl-{}", base.to_lowercase());
    }
    if key.modifiers.contains(KeyModifiers::ALT) {
        return format!("alt-{base}");
    }
    // A shifted letter arrives as its capital; the modifier matters for the other keys only.
    if key.modifiers.contains(KeyModifiers::SHIFT) && !matches!(key.code, KeyCode::Char(_)) {
        return format!("shift-{base}");
    }
    base
}

/// The command of a key on a screen.
pub fn command(key: KeyEvent, screen: Screen) -> Option<Command> {
    let name = key_name(key);
    if name.is_empty() {
        return None;
    }
    TABLE
        .iter()
        .find(|b| b.screens.includes(screen) && b.keys.contains(&name.as_str()))
        .map(|b| b.command)
}

/// The entries valid on a screen, in table order.
pub fn on_screen(screen: Screen) -> impl Iterator<Item = &'static Binding> {
    TABLE.iter().filter(move |b| b.screens.includes(screen))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn no_screen_has_two_commands_on_one_key() {
        for screen in Screen::ALL {
            let mut seen = HashMap::new();
            for binding in on_screen(screen) {
                for key in binding.keys {
                    let before = seen.insert(*key, binding.command);
                    assert_eq!(before, None, "{key} on {screen:?}");
                }
            }
        }
    }

    #[test]
    fn every_key_of_the_table_can_be_typed() {
        let code = |name: &str| match name {
            "enter" => KeyCode::Enter,
            "esc" => KeyCode::Esc,
            "tab" => KeyCode::Tab,
            "up" => KeyCode::Up,
            "down" => KeyCode::Down,
            "left" => KeyCode::Left,
            "right" => KeyCode::Right,
            "home" => KeyCode::Home,
            "end" => KeyCode::End,
            "pgup" => KeyCode::PageUp,
            "pgdn" => KeyCode::PageDown,
            c if c.chars().count() == 1 => KeyCode::Char(c.chars().next().unwrap()),
            other => panic!("{other} is not a key"),
        };
        for binding in TABLE {
            for key in binding.keys {
                let event = if *key == "shift-tab" {
                    KeyEvent::new(KeyCode::BackTab, KeyModifiers::SHIFT)
                } else if let Some(c) = key.strip_prefix("ctrl-") {
                    KeyEvent::new(code(c), KeyModifiers::CONTROL)
                } else if let Some(c) = key.strip_prefix("shift-") {
                    KeyEvent::new(code(c), KeyModifiers::SHIFT)
                } else {
                    KeyEvent::new(code(key), KeyModifiers::NONE)
                };
                let screen = match binding.screens {
                    Where::Everywhere => Screen::Overview,
                    Where::On(screens) => screens[0],
                };
                assert_eq!(command(event, screen), Some(binding.command), "{key}");
            }
        }
    }
}
