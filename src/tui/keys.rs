//! One table of keys: command, default keys, screens. With the operator's own keys in it ([`Keys`]) it is what the key
//! handling, the help page, the footer and the hints are read from, so that a key which does nothing cannot be shown.

mod bound;
mod names;
mod notation;
mod table;

pub use bound::{Conflict, KeyError, Keys, Line};
pub use notation::{key_name, parse_key};
pub use table::TABLE;

use super::app::Screen;
use super::messages::search::Mode;
use super::store::Order;

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
    /// Mark the selected row, or take its mark away.
    Mark,
    /// Mark every row that passes the filter, or none.
    MarkAll,
    /// Write the view to a file.
    Export,
    /// The newest change again.
    Works,
    /// Retry topics in the list, or not.
    RetryTopics,
    /// Dead-letter topics in the list, or not.
    DeadTopics,
    /// System topics in the list, or not.
    SystemTopics,
    /// What each client of the group says about itself.
    Clients,
    /// Thread stacks of the selected client.
    Stacks,
    /// Configurations of the marked brokers beside each other.
    CompareConfigs,
    /// Run the checks of `rmq doctor`.
    Doctor,
    /// Where a reset would bring the group.
    Goal,
    /// Write a group's offsets to a file.
    ExportOffsets,
    /// A new topic.
    NewTopic,
    /// Other numbers of queues.
    Queues,
    /// Another permission.
    Perm,
    /// Send a message.
    Send,
    /// Delete what is selected.
    Delete,
    /// Move a group's offsets.
    Reset,
    /// Skip a group's backlog.
    Skip,
    /// Change the configuration of what is selected.
    Edit,
    /// Stop a group from consuming, or let it.
    Pause,
    /// Forbid a group one topic, or allow it again.
    Forbid,
    /// Give one message to a client of the group.
    Consume,
    /// Replication of a broker.
    Replication,
    /// Topics of a broker.
    TopicsHere,
    /// Groups of a broker.
    GroupsHere,
    /// Carry out the reset that is shown.
    Apply,
    /// Bring back what an interrupted scaling or the last change was before.
    Undo,
    /// Take a broker's write permission away at the name servers.
    WipeWrite,
    /// Give it back.
    RestoreWrite,
    /// The mouse here, or in the terminal.
    Mouse,
    /// Something on the store screens.
    Store(Order),
    /// Find messages in this way.
    MessagesBy(Mode),
    /// Messages of another topic.
    ChooseTopic,
    /// Look at more messages.
    Further,
    /// The next form of a body.
    BodyForm,
    /// A body in hexadecimal, or not.
    BodyHex,
    /// The bytes of the selected message in the store.
    MessageBytes,
    /// The way of the selected message.
    Trace,
    /// Another topic of trace records.
    TraceTopic,
    /// The messages of what is selected.
    Browse,
    /// Send the selected message again.
    PushMessage,
    /// Where dead letters are sent to.
    ResendTarget,
    /// Send dead letters again.
    Resend,
    /// Let dead letters be read.
    MakeReadable,
    /// Help page.
    Help,
    /// Stop the program until the shell continues it.
    Suspend,
    /// Leave.
    Quit,
}

impl Command {
    /// True for what leads to another view of a store: shown above the footer of its first screen.
    pub const fn is_view(self) -> bool {
        matches!(
            self,
            Self::Store(Order::Log | Order::Queues | Order::Index | Order::Checks | Order::Verify)
        )
    }

    /// True for what moves the selection or goes from place to place: a palette is of no use for it.
    pub const fn is_moving(self) -> bool {
        matches!(
            self,
            Self::Down
                | Self::Up
                | Self::First
                | Self::Last
                | Self::HalfPageDown
                | Self::HalfPageUp
                | Self::PageDown
                | Self::PageUp
                | Self::Left
                | Self::Right
                | Self::Go(_)
                | Self::NextPane
                | Self::PreviousPane
                | Self::Open
                | Self::Back
                | Self::Palette
        )
    }

    /// True for what orders rows.
    pub const fn is_sorting(self) -> bool {
        matches!(
            self,
            Self::SortMenu | Self::SortLeft | Self::SortRight | Self::SortReverse
        )
    }

    /// True for what begins a change: absent where nothing may be changed.
    pub const fn is_change(self) -> bool {
        matches!(
            self,
            Self::NewTopic
                | Self::Queues
                | Self::Perm
                | Self::Send
                | Self::Delete
                | Self::Reset
                | Self::Skip
                | Self::Edit
                | Self::Pause
                | Self::Forbid
                | Self::Consume
                | Self::Apply
                | Self::Undo
                | Self::WipeWrite
                | Self::RestoreWrite
                | Self::PushMessage
                | Self::Resend
                | Self::MakeReadable
                | Self::Works
        )
    }
}

/// Where an entry of the table is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Where {
    /// On every screen.
    Everywhere,
    /// On these only.
    On(&'static [Screen]),
    /// On every screen but these, which have another meaning for the key.
    Not(&'static [Screen]),
}

impl Where {
    /// True when the entry is valid on `screen`.
    pub fn includes(self, screen: Screen) -> bool {
        match self {
            Self::Everywhere => true,
            Self::On(screens) => screens.contains(&screen),
            Self::Not(screens) => !screens.contains(&screen),
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

/// What the palette offers by a name of its own beside screens.
pub fn palette(read_only: bool) -> impl Iterator<Item = (&'static str, Command)> {
    const NAMED: [(&str, Command); 12] = [
        ("pause", Command::Freeze),
        ("refresh", Command::Refresh),
        ("zoom", Command::Zoom),
        ("wide columns", Command::Wide),
        ("diff name servers", Command::Diff),
        ("doctor", Command::Doctor),
        ("export view", Command::Export),
        ("copy row", Command::CopyRow),
        ("new topic", Command::NewTopic),
        ("changes", Command::Works),
        ("help", Command::Help),
        ("quit", Command::Quit),
    ];
    NAMED
        .into_iter()
        .filter(move |(_, command)| !(read_only && command.is_change()))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    fn own(pairs: &[(&str, &[&str])]) -> BTreeMap<String, Vec<String>> {
        let words = |keys: &[&str]| keys.iter().map(|key| (*key).to_owned()).collect();
        let pairs = pairs
            .iter()
            .map(|(action, keys)| ((*action).to_owned(), words(keys)));
        pairs.collect()
    }

    #[test]
    fn no_screen_has_two_commands_on_one_key() {
        assert_eq!(Keys::default().conflicts(), []);
    }

    #[test]
    fn every_key_of_the_table_can_be_typed() {
        for binding in TABLE {
            for key in binding.keys {
                let event = parse_key(key).unwrap();
                assert_eq!(key_name(event), *key);
                let screen = match binding.screens {
                    Where::Everywhere => Screen::Overview,
                    Where::On(screens) => screens[0],
                    Where::Not(screens) => Screen::ALL
                        .into_iter()
                        .find(|s| !screens.contains(s))
                        .expect("some screen"),
                };
                let keys = Keys::default();
                assert_eq!(keys.command(event, screen, false), Some(binding.command), "{key}");
                let allowed = keys.command(event, screen, true);
                assert_eq!(allowed.is_some(), !binding.command.is_change(), "{key}");
            }
        }
    }

    #[test]
    fn commands_have_names_of_their_own() {
        let mut by_name = BTreeMap::new();
        for binding in TABLE {
            let name = binding.command.action();
            let before = *by_name.entry(name).or_insert(binding.command);
            assert_eq!(before, binding.command, "{name}");
            assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        }
    }

    #[test]
    fn every_action_takes_another_key() {
        let actions: BTreeSet<&str> = TABLE.iter().map(|b| b.command.action()).collect();
        for action in actions {
            let keys = Keys::with(&own(&[(action, &["f12", "f12"])])).unwrap();
            let lines = Screen::ALL.map(|screen| {
                let f12 = parse_key("f12").unwrap();
                keys.command(f12, screen, false).map(Command::action)
            });
            assert!(lines.iter().flatten().all(|name| *name == action));
            assert!(lines.iter().flatten().count() > 0, "{action}");
        }
    }

    #[test]
    fn own_keys_take_the_place_of_those_built_in() {
        let keys = Keys::with(&own(&[
            ("quit", &["Q"]),
            ("screen-topics", &["f4"]),
            ("delete", &[]),
            ("doctor", &["ctrl-o"]),
        ]))
        .unwrap();
        let on = |key: &str, screen| keys.command(parse_key(key).unwrap(), screen, false);
        assert_eq!(on("Q", Screen::Overview), Some(Command::Quit));
        assert_eq!(on("q", Screen::Overview), None);
        assert_eq!(on("q", Screen::Topics), Some(Command::Queues));
        assert_eq!(on("Q", Screen::Topics), Some(Command::Quit));
        assert_eq!(on("x", Screen::Topics), None);
        assert_eq!(on("ctrl-o", Screen::Group), Some(Command::Doctor));
        assert_eq!(keys.hint(Command::Quit, Screen::Overview), "Q");
        assert_eq!(keys.hint(Command::Delete, Screen::Topics), "(no key)");
        // The ways out and the numbers of the tabs stay.
        assert_eq!(on("ctrl-c", Screen::Overview), Some(Command::Quit));
        assert_eq!(on("4", Screen::Overview), Some(Command::Go(Screen::Topics)));
        assert_eq!(on("f4", Screen::Overview), Some(Command::Go(Screen::Topics)));
    }

    #[test]
    fn what_cannot_be_is_told_by_its_action() {
        for (action, keys, said) in [
            (
                "quti",
                &["Q"][..],
                "quti: there is no such action; did you mean quit?",
            ),
            (
                "quit",
                &["qq"][..],
                "quit: \"qq\" is not a key: a key is one character",
            ),
            ("help", &[][..], "help: needs a key"),
            // Valid where q is queues.
            (
                "quit",
                &["q"][..],
                "quit: the key q means queues on the topics screen already",
            ),
            // The other comes later in the table.
            (
                "perm",
                &["r"][..],
                "perm: the key r means refresh on the topics screen already",
            ),
            (
                "perm",
                &["4"][..],
                "perm: the key 4 means screen-topics on the topics screen already",
            ),
            (
                "perm",
                &["ctrl-c"][..],
                "perm: the key ctrl-c means quit on the topics screen already",
            ),
        ] {
            let error = Keys::with(&own(&[(action, keys)])).unwrap_err().to_string();
            assert!(error.starts_with(said), "{error}");
        }
        // Two that change places do not collide.
        Keys::with(&own(&[("zoom", &["r"]), ("refresh", &["z"])])).unwrap();
    }
}
