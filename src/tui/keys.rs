//! One table of keys: command, default keys, screens. With the operator's own keys in it ([`Keys`]) it is what the key
//! handling, the help page, the footer and the hints are read from, so that a key which does nothing cannot be shown.

mod bound;
mod names;
mod notation;

pub use bound::{Conflict, KeyError, Keys, Line};
pub use notation::{key_name, parse_key};

use super::app::Screen;
use super::messages::search::Mode;
use super::store::{Order, SCREENS as STORE};

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

type Names = &'static [&'static str];
type Text = &'static str;
type Screens = &'static [Screen];

const fn bind(screens: Where, command: Command, keys: Names, help: Text, footer: Text) -> Binding {
    Binding {
        command,
        keys,
        screens,
        help,
        footer,
    }
}

const fn all(command: Command, keys: Names, help: Text, footer: Text) -> Binding {
    bind(Where::Everywhere, command, keys, help, footer)
}

const fn on(screens: Screens, command: Command, keys: Names, help: Text, footer: Text) -> Binding {
    bind(Where::On(screens), command, keys, help, footer)
}

const fn not(screens: Screens, command: Command, keys: Names, help: Text, footer: Text) -> Binding {
    bind(Where::Not(screens), command, keys, help, footer)
}

/// Screens with more than one pane to focus.
const PANES: &[Screen] = &[
    Screen::Overview,
    Screen::Heartbeats,
    Screen::Broker,
    Screen::Topic,
    Screen::Group,
    Screen::Messages,
    Screen::Dead,
    Screen::Offsets,
    Screen::Store,
    Screen::StoreQueues,
    Screen::StoreIndex,
    Screen::StoreChecks,
];
/// Screens where `q` means queues; ctrl-c leaves everywhere.
const QUEUES: &[Screen] = &[
    Screen::Topics,
    Screen::Topic,
    Screen::Store,
    Screen::StoreQueues,
    Screen::StoreIndex,
    Screen::StoreChecks,
];
/// Screens where `o` means offsets.
const OFFSETS: &[Screen] = &[Screen::Topic, Screen::Groups, Screen::Group];
/// Screens where `o` is not the order of the rows.
const OTHER_O: &[Screen] = &[Screen::Topic, Screen::Groups, Screen::Group, Screen::Messages];
/// Screens where a topic's messages are one key away.
const BROWSE: &[Screen] = &[Screen::Topics, Screen::Topic, Screen::Group];
const MESSAGES: &[Screen] = &[Screen::Messages];
const DEAD: &[Screen] = &[Screen::Dead];
const TOPICS: &[Screen] = &[Screen::Topics, Screen::Topic];
const GROUPS: &[Screen] = &[Screen::Groups, Screen::Group];
const BROKERS: &[Screen] = &[Screen::Brokers, Screen::Broker];

/// Screens where something is typed to go somewhere, instead of a filter.
const TYPES: &[Screen] = &[Screen::Store, Screen::StoreQueues, Screen::StoreIndex];
/// Screens where brackets turn to another file.
const TURNS: &[Screen] = &[Screen::Store, Screen::StoreIndex];

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
        &[Screen::Store],
        Command::Open,
        &["enter"],
        "go to the queue entry of the record",
        "queue entry",
    ),
    on(
        &[Screen::StoreQueues, Screen::StoreIndex],
        Command::Open,
        &["enter"],
        "go to the record; walk the chain of a slot",
        "record",
    ),
    on(
        &[Screen::StoreChecks],
        Command::Open,
        &["enter"],
        "go to what the finding is about",
        "record",
    ),
    on(
        STORE,
        Command::Store(Order::Log),
        &["c"],
        "commit log",
        "commitlog",
    ),
    on(
        STORE,
        Command::Store(Order::Queues),
        &["q"],
        "the queue of the record, or the queue shown last",
        "queues",
    ),
    on(
        STORE,
        Command::Store(Order::Index),
        &["i"],
        "the index, and what it has for the key of the record",
        "index",
    ),
    on(
        STORE,
        Command::Store(Order::Checks),
        &["K"],
        "checkpoint, verification, findings",
        "checkpoint",
    ),
    on(
        STORE,
        Command::Store(Order::Verify),
        &["v"],
        "verify quickly; check every entry of the queue; count the chains of the index file",
        "verify",
    ),
    on(
        STORE,
        Command::Store(Order::VerifyFull),
        &["V"],
        "verify everything, or go on where that was stopped; also while other screens are shown",
        "full",
    ),
    on(
        &[Screen::StoreChecks],
        Command::Store(Order::VerifyAnew),
        &["A"],
        "verify everything from the begin, whatever a stopped verification has kept",
        "",
    ),
    on(
        &[Screen::StoreChecks],
        Command::Store(Order::Stop),
        &["x"],
        "stop the verification; what was found stays, and a full one can go on",
        "stop",
    ),
    on(
        &[Screen::StoreChecks],
        Command::Store(Order::Severity),
        &["f"],
        "all findings, warnings and errors, errors only",
        "severity",
    ),
    on(
        &[Screen::StoreChecks],
        Command::Store(Order::Limit),
        &["b"],
        "how fast a verification may read",
        "limit",
    ),
    on(
        &[Screen::StoreChecks],
        Command::Store(Order::Report),
        &["e"],
        "write the report of the verification to a file",
        "report",
    ),
    on(
        &[Screen::Store, Screen::StoreQueues, Screen::StoreIndex],
        Command::Store(Order::Name),
        &["/"],
        "a topic; on the index a key",
        "topic/key",
    ),
    on(
        &[Screen::Store, Screen::StoreQueues, Screen::StoreIndex],
        Command::Store(Order::Goto),
        &["g"],
        "go to a physical offset, a queue offset, a slot",
        "goto",
    ),
    on(
        &[Screen::Store, Screen::StoreQueues],
        Command::Store(Order::Time),
        &["t"],
        "go to a store time",
        "time",
    ),
    on(
        &[Screen::Store],
        Command::Store(Order::Hex),
        &["x"],
        "the bytes, or the list again",
        "hex",
    ),
    on(
        &[Screen::Store],
        Command::Store(Order::Real),
        &["T"],
        "the queue that a delayed or half message is meant for",
        "real topic",
    ),
    on(
        &[Screen::Store, Screen::StoreIndex],
        Command::Store(Order::Later),
        &["]"],
        "next segment or file",
        "segment/file",
    ),
    on(
        &[Screen::Store, Screen::StoreIndex],
        Command::Store(Order::Earlier),
        &["["],
        "previous segment or file",
        "",
    ),
    on(
        &[Screen::StoreQueues],
        Command::Store(Order::NextQueue),
        &["n"],
        "next queue of the topic",
        "next queue",
    ),
    on(
        &[Screen::StoreQueues],
        Command::Store(Order::PreviousQueue),
        &["p"],
        "previous queue of the topic",
        "previous",
    ),
    on(
        &[Screen::Store, Screen::StoreQueues],
        Command::Store(Order::Source),
        &["R"],
        "the same over the wire (321, 33), or from the files again",
        "over the wire",
    ),
    on(
        &[Screen::StoreIndex],
        Command::Store(Order::Hottest),
        &["H"],
        "the longest chains, and the keys that cause them",
        "hottest",
    ),
    on(
        &[Screen::StoreQueues, Screen::StoreIndex],
        Command::Store(Order::Stop),
        &["x"],
        "stop what is being counted",
        "",
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
        &[Screen::Topics, Screen::Groups],
        Command::Open,
        &["enter"],
        "open what is selected",
        "detail",
    ),
    on(
        &[Screen::Topic],
        Command::Open,
        &["enter"],
        "open the selected group",
        "group",
    ),
    on(
        &[Screen::Offsets],
        Command::Open,
        &["enter"],
        "choose the group and topic to move; then say where to",
        "choose",
    ),
    on(
        &[Screen::Offsets],
        Command::Goal,
        &["t"],
        "say where to; the preview follows",
        "where to",
    ),
    on(
        &[Screen::Offsets],
        Command::Apply,
        &["ctrl-a"],
        "do what the preview shows",
        "apply",
    ),
    on(&[Screen::Topics], Command::NewTopic, &["n"], "a new topic", "new"),
    on(
        TOPICS,
        Command::Queues,
        &["q"],
        "change the number of queues",
        "queues",
    ),
    on(TOPICS, Command::Perm, &["P"], "change the permission", "perm"),
    on(TOPICS, Command::Send, &["S"], "send a message", "send"),
    on(
        OFFSETS,
        Command::Reset,
        &["o"],
        "move a group's offsets, with a preview",
        "offsets",
    ),
    on(
        GROUPS,
        Command::Skip,
        &["K"],
        "skip a group's backlog in a topic",
        "skip",
    ),
    on(
        GROUPS,
        Command::Edit,
        &["c"],
        "change the group's configuration",
        "config",
    ),
    on(
        GROUPS,
        Command::Pause,
        &["f"],
        "stop the group from consuming, or let it",
        "pause group",
    ),
    on(
        &[Screen::Group],
        Command::Forbid,
        &["F"],
        "forbid the group one topic, or allow it again",
        "forbid",
    ),
    on(
        &[Screen::Group],
        Command::Consume,
        &["d"],
        "have a client consume one message now",
        "consume",
    ),
    on(
        BROKERS,
        Command::Replication,
        &["H"],
        "replication of the broker",
        "HA",
    ),
    on(
        BROKERS,
        Command::TopicsHere,
        &["t"],
        "topics on the broker",
        "topics",
    ),
    on(
        BROKERS,
        Command::GroupsHere,
        &["ctrl-g"],
        "groups on the broker",
        "groups",
    ),
    on(
        &[Screen::Group],
        Command::Clients,
        &["i"],
        "ask each client for its own numbers",
        "clients",
    ),
    on(
        &[Screen::Group],
        Command::Stacks,
        &["T"],
        "thread stacks of the selected client",
        "stacks",
    ),
    on(
        &[Screen::Topics, Screen::Groups],
        Command::Delete,
        &["x"],
        "delete the selected one",
        "delete",
    ),
    on(
        &[Screen::Topics],
        Command::RetryTopics,
        &["R"],
        "retry topics in the list, or not",
        "",
    ),
    on(
        &[Screen::Topics],
        Command::DeadTopics,
        &["D"],
        "dead-letter topics in the list, or not",
        "",
    ),
    on(
        &[Screen::Topics],
        Command::SystemTopics,
        &["Y"],
        "system topics in the list, or not",
        "",
    ),
    on(
        &[Screen::Topic, Screen::Offsets],
        Command::Undo,
        &["u"],
        "take the last change here back",
        "undo",
    ),
    on(
        &[Screen::Offsets],
        Command::ExportOffsets,
        &["e"],
        "write the group's offsets to a file, for file in the form or rmq offset import",
        "export",
    ),
    on(BROWSE, Command::Browse, &["b"], "its messages", "browse"),
    on(
        MESSAGES,
        Command::Open,
        &["enter"],
        "choose the topic; ask for the way of the message; fold or unfold in its body",
        "open",
    ),
    on(
        MESSAGES,
        Command::Trace,
        &["T"],
        "the trace of the message, and which group has it",
        "trace",
    ),
    on(
        MESSAGES,
        Command::MessageBytes,
        &["B"],
        "its bytes in the store: of --store, or of its broker on this machine",
        "bytes",
    ),
    on(
        MESSAGES,
        Command::MessagesBy(Mode::Time),
        &["t"],
        "messages of a stretch of time",
        "time",
    ),
    on(
        MESSAGES,
        Command::MessagesBy(Mode::Key),
        &["k"],
        "messages with a key",
        "key",
    ),
    on(
        MESSAGES,
        Command::MessagesBy(Mode::Id),
        &["i"],
        "the message with an id",
        "id",
    ),
    on(
        MESSAGES,
        Command::MessagesBy(Mode::Offset),
        &["o"],
        "messages from an offset of a queue on",
        "offset",
    ),
    on(
        MESSAGES,
        Command::MessagesBy(Mode::Live),
        &["L"],
        "the newest messages, and new ones as they come",
        "live",
    ),
    on(
        MESSAGES,
        Command::BodyForm,
        &["b"],
        "the body as JSON, text, hexadecimal",
        "body",
    ),
    on(
        MESSAGES,
        Command::BodyHex,
        &["x"],
        "the body in hexadecimal, or not",
        "hex",
    ),
    on(
        MESSAGES,
        Command::PushMessage,
        &["R"],
        "send the message again, to one group or to all",
        "resend",
    ),
    on(
        MESSAGES,
        Command::Further,
        &["+"],
        "look at more messages; with a filter only those that pass are kept",
        "further",
    ),
    on(MESSAGES, Command::ChooseTopic, &["c"], "another topic", "topic"),
    on(
        MESSAGES,
        Command::TraceTopic,
        &["ctrl-t"],
        "another topic of trace records",
        "",
    ),
    on(
        DEAD,
        Command::Open,
        &["enter"],
        "from a group to its letters, from a letter to all of it",
        "open",
    ),
    on(
        DEAD,
        Command::Mark,
        &["space"],
        "mark the selected letter",
        "mark",
    ),
    on(
        DEAD,
        Command::Resend,
        &["R"],
        "send the letters of the plan again",
        "resend",
    ),
    on(
        DEAD,
        Command::ResendTarget,
        &["t"],
        "to the topic they came from, or to the group alone",
        "target",
    ),
    on(
        DEAD,
        Command::MakeReadable,
        &["P"],
        "let the dead letters be read: permission 6",
        "make readable",
    ),
    on(
        BROKERS,
        Command::Edit,
        &["E"],
        "change a configuration key",
        "edit config",
    ),
    on(
        &[Screen::Brokers],
        Command::CompareConfigs,
        &["c"],
        "compare the configurations of the two marked brokers",
        "compare",
    ),
    on(
        &[Screen::Heartbeats, Screen::Brokers],
        Command::WipeWrite,
        &["w"],
        "take the broker's write permission away at the name servers",
        "wipe write",
    ),
    on(
        &[Screen::Heartbeats, Screen::Brokers],
        Command::RestoreWrite,
        &["W"],
        "give the write permission back",
        "restore",
    ),
    not(
        &[Screen::Heartbeats, Screen::Brokers],
        Command::Wide,
        &["w"],
        "all columns, or the usual ones",
        "",
    ),
    all(Command::Go(Screen::Overview), &["1"], "screen 1, overview", ""),
    all(
        Command::Go(Screen::Heartbeats),
        &["2"],
        "screen 2, heartbeats",
        "",
    ),
    all(Command::Go(Screen::Brokers), &["3"], "screen 3, brokers", ""),
    all(Command::Go(Screen::Topics), &["4"], "screen 4, topics", ""),
    all(Command::Go(Screen::Groups), &["5"], "screen 5, groups", ""),
    all(Command::Go(Screen::Messages), &["6"], "screen 6, messages", ""),
    all(Command::Go(Screen::Dead), &["7"], "screen 7, dead letters", ""),
    all(Command::Go(Screen::Offsets), &["8"], "screen 8, offsets", ""),
    all(Command::Go(Screen::Store), &["9"], "screen 9, store", ""),
    on(PANES, Command::NextPane, &["tab"], "next pane", "pane"),
    not(
        TYPES,
        Command::Filter,
        &["/"],
        "filter rows: regular expression, ! inverts, field:value",
        "filter",
    ),
    not(STORE, Command::SortMenu, &["s"], "choose the sort column", "sort"),
    all(
        Command::Palette,
        &[":"],
        "palette: screens, names, set interval, quit",
        "palette",
    ),
    not(
        &[Screen::StoreQueues],
        Command::Freeze,
        &["p"],
        "hold the display; polling goes on",
        "pause",
    ),
    all(Command::Refresh, &["r"], "ask every server now", "refresh"),
    all(
        Command::Mouse,
        &["m"],
        "the mouse here: wheel, click; or in the terminal: select text",
        "",
    ),
    all(Command::Works, &["!"], "the newest change again", ""),
    // In the palette only, unless the configuration gives it a key.
    all(Command::Doctor, &[], "run the checks of rmq doctor", ""),
    all(Command::Down, &["j", "down"], "next row", ""),
    not(MESSAGES, Command::Up, &["k", "up"], "previous row", ""),
    on(MESSAGES, Command::Up, &["up"], "previous row", ""),
    not(TYPES, Command::First, &["g", "home"], "first row", ""),
    on(TYPES, Command::First, &["home"], "first row", ""),
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
    not(
        STORE,
        Command::SortLeft,
        &["shift-left"],
        "sort by the column to the left",
        "",
    ),
    not(
        STORE,
        Command::SortRight,
        &["shift-right"],
        "sort by the column to the right",
        "",
    ),
    not(
        OTHER_O,
        Command::SortReverse,
        &["o"],
        "turn the sort order round",
        "",
    ),
    not(DEAD, Command::Mark, &["space"], "mark the selected row", ""),
    all(Command::MarkAll, &["a"], "mark every row shown, or none", ""),
    all(
        Command::CopyName,
        &["y"],
        "copy the selected name, or the marked ones (OSC 52)",
        "",
    ),
    not(
        &[Screen::Topics],
        Command::CopyRow,
        &["Y"],
        "copy the selected row as JSON (OSC 52)",
        "",
    ),
    not(
        &[Screen::StoreChecks, Screen::Offsets],
        Command::Export,
        &["e"],
        "write the rows to a file: csv, jsonl, json, md",
        "export",
    ),
    all(Command::Zoom, &["z"], "focused pane on the whole screen", ""),
    not(TURNS, Command::Previous, &["["], "previous place", ""),
    not(TURNS, Command::Next, &["]"], "next place", ""),
    all(
        Command::Suspend,
        &["ctrl-z"],
        "back to the shell; fg continues",
        "",
    ),
    // Last, so that the footer ends with the way to all others and the way out.
    all(Command::Help, &["?"], "this page", "help"),
    not(QUEUES, Command::Quit, &["q", "ctrl-c"], "quit", "quit"),
    on(QUEUES, Command::Quit, &["ctrl-c"], "quit", "quit"),
];

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
