//! State of the console. Its only transition is [`update`]. No I/O, no clock of its own.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{KeyEvent, MouseEvent};

use super::beside::Beside;
use super::deed::{Deed, DeedTold, Rehearsal};
use super::form::Form;
use super::input::Input;
use super::keys::{Command, Keys};
use super::model::{Model, Roster, Update};
pub use super::place::{Pane, Place, Screen};
use super::store;
use super::table::{Filter, Sort, Table};
pub use super::update::update;
use super::view::theme::{Colours, Palette};
use super::view::{layout, rows};
use super::want::{Found, Want, Wanted};
use super::work::Work;
use super::{dead, messages};
use crate::client::BrokerAt;
use crate::client::findings::Subject;
use crate::client::scale::kept::KeptWay;
use crate::client::snapshot::{BrokerId, Seen};

/// Selection, order and scroll of a pane.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PaneState {
    /// Identity of the selected row; `None` is the first one.
    pub selected: Option<String>,
    /// Where it was seen last: the neighbour takes over when it goes.
    pub index: usize,
    /// First row drawn.
    pub offset: usize,
    /// Columns scrolled to the left.
    pub column: usize,
    /// Order, when it is not the natural one.
    pub sort: Option<Sort>,
}

/// What lies over the screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Overlay {
    /// Help page, scrolled by so many lines.
    Help(usize),
    /// Filter being typed.
    Filter(Input),
    /// Palette: what was typed, which entry is selected.
    Palette(Input, usize),
    /// Sort columns of the focused pane; which one is selected.
    Sort(usize),
    /// Differences between two name servers, scrolled by so many lines.
    Diff(usize),
    /// What a command shows, scrolled by so many lines.
    Sheet(Vec<String>, usize),
    /// Fields of a change.
    Form(Form),
    /// A change, by its number.
    Work(u64),
    /// Something for the store screens being typed.
    Store(store::Prompt, Input),
    /// Forms in which the view can be written; which one is selected.
    Export(usize),
    /// A change is in flight: leave all the same?
    Leave,
}

/// A display that is held.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// Since when, epoch ms.
    pub at_ms: i64,
    /// What was known then.
    pub model: Box<Model>,
}

/// A theme of the operator's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTheme {
    /// Its name.
    pub name: String,
    /// Its colours, or the file and what is wrong with it.
    pub colours: Result<Colours, String>,
}

/// What never changes during a session, and the interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the context, shown in the badge.
    pub context: String,
    /// Colour of the badge, where the context has one.
    pub badge: Option<ratatui::style::Color>,
    /// Refresh interval.
    pub interval: Duration,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Colours are used.
    pub colour: bool,
    /// Neither the terminal nor the operator is against colours.
    pub may_colour: bool,
    /// Which ones.
    pub palette: Palette,
    /// The operator's own ones to choose from.
    pub themes: Vec<OwnTheme>,
    /// Contexts that can be gone to.
    pub contexts: Vec<String>,
    /// The servers on the screen run in this process and end with it.
    pub serving: bool,
    /// Only ASCII signs may be used.
    pub ascii: bool,
    /// Every key.
    pub keys: Keys,
    /// Time zone of the clock.
    pub zone: jiff::tz::TimeZone,
}

/// State of the console.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    /// Settings.
    pub settings: Settings,
    /// Now, epoch ms.
    pub now_ms: i64,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    /// What is known.
    pub model: Model,
    /// What is shown instead while the display is held.
    pub frozen: Option<Frozen>,
    /// Where we are.
    pub place: Place,
    /// What lies over it.
    pub overlay: Option<Overlay>,
    /// The focused pane has the whole screen.
    pub zoom: bool,
    /// All columns.
    pub wide: bool,
    /// A notice for the operator and when it came.
    pub notice: Option<(i64, String)>,
    /// Something to draw has changed.
    pub dirty: bool,
    /// The mouse is ours.
    pub mouse: bool,
    /// The store screens.
    pub store: store::State,
    pub(super) visited: Vec<Place>,
    pub(super) visited_at: usize,
    pub(super) panes: BTreeMap<Pane, PaneState>,
    pub(super) focus: BTreeMap<Screen, Pane>,
    pub(super) filters: BTreeMap<Screen, Filter>,
    /// Changes of this session, oldest first.
    pub works: Vec<Work>,
    /// Topics that are listed beside those of users.
    pub kinds: Kinds,
    /// The clients of the group are asked for their own numbers.
    pub clients: bool,
    /// A command on a group that waits for its configuration.
    pub(super) waiting: Option<(Command, String)>,
    /// The reset that is being thought of.
    pub reset: Option<Reset>,
    /// What the message screen remembers.
    pub messages: messages::State,
    /// What the dead-letter screen remembers.
    pub dead: dead::State,
    pub(super) marks: BTreeMap<Pane, BTreeSet<String>>,
    pub(super) beside: Option<Beside>,
    pub(super) tables: Tables,
    pub(super) next_work: u64,
    pub(super) wanted: Vec<Wanted>,
    pub(super) masters: Vec<BrokerAt>,
    pub(super) interest: Vec<String>,
    pub(super) versions: BTreeMap<BrokerId, i64>,
    pub(super) revived: BTreeMap<BrokerId, i64>,
}

/// What the rows of a pane were made of.
#[derive(Debug, PartialEq)]
struct TableKey {
    version: u64,
    store: u64,
    second: i64,
    size: (u16, u16),
    place: Place,
    about: Option<Subject>,
    filter: Option<String>,
    sort: Option<Sort>,
    marks: BTreeSet<String>,
    kinds: Kinds,
    wide: bool,
    reset: Option<Reset>,
    messages: messages::State,
    dead: dead::State,
    /// The row of another pane that this one tells about.
    chosen: Option<PaneState>,
    clients: bool,
    works: Vec<(u64, usize, Option<usize>)>,
}

/// Rows that were made already. They are no state: two consoles are equal whatever they have made.
#[derive(Debug, Default)]
pub(super) struct Tables(RefCell<BTreeMap<Pane, (TableKey, Arc<Table>)>>);

impl Clone for Tables {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Tables {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Which topics are listed beside those of users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kinds {
    /// `%RETRY%`.
    pub retry: bool,
    /// `%DLQ%`.
    pub dead: bool,
    /// Built in.
    pub system: bool,
}

/// A reset before it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// Group name.
    pub group: String,
    /// Topic name.
    pub topic: String,
    /// Where to, as `rmq group reset` takes it: `--to=-1h`, or a `--queue=broker-a/0=7` for each queue.
    pub goal: Vec<String>,
    /// The cluster, where there are several.
    pub cluster: Option<String>,
    /// Where it was asked for: `esc` leads back there.
    pub from: Option<Place>,
}

impl Reset {
    /// The command that shows where it leads.
    pub fn words(&self) -> Vec<String> {
        let words = ["group", "reset", &self.group, "-t", &self.topic];
        let goal = self.goal.iter().map(String::as_str);
        let cluster = self.cluster.iter().flat_map(|c| ["--cluster", c]);
        (words.into_iter().chain(goal).chain(cluster))
            .map(str::to_owned)
            .collect()
    }

    /// The command that does it.
    pub fn deed(&self) -> Deed {
        let mut words = self.words();
        words.push("--execute".into());
        Deed {
            words,
            about: Some(Subject::Group(self.group.clone())),
        }
    }
}

/// What may happen to the console.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// The mouse did something.
    Mouse(MouseEvent),
    /// A text was pasted.
    Paste(String),
    /// The terminal has another size.
    Resize(u16, u16),
    /// Polling tasks had news.
    Updates(Vec<Update>),
    /// A second has passed.
    Tick,
    /// The cursor has rested on its row.
    Rested,
    /// News of a change.
    Deed(u64, DeedTold),
    /// How something done beside the display ended.
    Notice(String),
}

/// What the console wants done.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Poll a broker, or no more.
    Roster(Roster),
    /// Ask every server now.
    Refresh,
    /// Rates of these topics are on the screen.
    Interest(Vec<String>),
    /// Versions of the topic tables as the name servers have them.
    Versions(BTreeMap<BrokerId, i64>),
    /// Brokers that registered after our last try, and when.
    Revived(BTreeMap<BrokerId, i64>),
    /// Ask these questions, with these masters.
    Wants(Vec<Wanted>, Vec<BrokerAt>),
    /// Find out what a change would do.
    Rehearse(u64, Deed),
    /// Carry a change out, as it was shown.
    CarryOut(u64, Deed, Box<Rehearsal>),
    /// Stop a change at its next safe place.
    Stop(u64),
    /// Write a text into a file of this name.
    Save(String, String),
    /// Poll at this interval.
    Interval(Duration),
    /// Put a text on the clipboard.
    Copy(String),
    /// Stop until the shell continues us.
    Suspend,
    /// Take the mouse, or give it back to the terminal.
    Mouse(bool),
    /// Go on elsewhere.
    Go(Left),
    /// Leave.
    Quit,
}

/// Why the console was left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Left {
    /// The operator is done.
    Done,
    /// To go on with this context.
    Context(String),
    /// To go on with one more address rule.
    Map(String),
}

/// Visited places that are remembered.
const VISITED: usize = 50;
/// Groups with a backlog that the overview asks for clients and the oldest message of.
const ASKED_ON_OVERVIEW: usize = 3;
/// Seconds between two looks at a group.
const GROUP_PAUSE: u64 = 3;
/// What lies beside a list is looked at half as often: the rows of the list are asked for as well.
const BESIDE: u64 = 2;
/// Changes that are remembered.
const WORKS: usize = 20;
/// Shortest and longest interval that may be set.
pub const INTERVALS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(3600));

impl App {
    /// The console before anything is known.
    pub fn new(settings: Settings, name_servers: Vec<String>, screen: Screen, now_ms: i64) -> Self {
        let place = Place::screen(screen);
        Self {
            settings,
            now_ms,
            size: (80, 24),
            model: Model::new(name_servers),
            frozen: None,
            visited: vec![place.clone()],
            visited_at: 0,
            place,
            overlay: None,
            zoom: false,
            wide: false,
            notice: None,
            dirty: true,
            mouse: false,
            store: store::State::default(),
            panes: BTreeMap::new(),
            focus: BTreeMap::new(),
            filters: BTreeMap::new(),
            works: Vec::new(),
            kinds: Kinds::default(),
            clients: false,
            waiting: None,
            reset: None,
            messages: messages::State::default(),
            dead: dead::State::default(),
            marks: BTreeMap::new(),
            beside: None,
            tables: Tables::default(),
            next_work: 1,
            wanted: Vec::new(),
            masters: Vec::new(),
            interest: Vec::new(),
            versions: BTreeMap::new(),
            revived: BTreeMap::new(),
        }
    }

    /// What is shown: the present, or the moment the display was held.
    pub fn shown(&self) -> &Model {
        self.frozen.as_ref().map_or(&self.model, |f| &f.model)
    }

    /// The time that what is shown belongs to, epoch ms.
    pub fn shown_ms(&self) -> i64 {
        self.frozen.as_ref().map_or(self.now_ms, |f| f.at_ms)
    }

    /// The pane that has the focus.
    pub fn focus(&self) -> Pane {
        let screen = self.place.screen;
        self.focus.get(&screen).copied().unwrap_or(screen.first_focus())
    }

    /// Selection, order and scroll of a pane.
    pub fn pane(&self, pane: Pane) -> PaneState {
        self.panes.get(&pane).cloned().unwrap_or_default()
    }

    /// Filter of the present screen.
    pub fn filter(&self) -> Option<&Filter> {
        self.filters.get(&self.place.screen)
    }

    /// Rows of a pane, filtered and sorted. Made once for each state: a list of ten thousand is drawn, measured and
    /// moved in many times before it changes.
    pub fn table(&self, pane: Pane) -> Arc<Table> {
        let key = self.table_key(pane);
        if let Some((known, table)) = self.tables.0.borrow().get(&pane)
            && *known == key
        {
            return Arc::clone(table);
        }
        let filter = self.filter().filter(|_| rows::filtered(self, pane));
        let sort = self.panes.get(&pane).and_then(|p| p.sort.as_ref());
        let mut table = rows::of(self, pane).arranged(filter, sort);
        if let Some(marks) = self.marked(pane) {
            table.marks.clone_from(marks);
        }
        let table = Arc::new(table);
        self.tables.0.borrow_mut().insert(pane, (key, Arc::clone(&table)));
        table
    }

    /// Everything that the rows of a pane depend on.
    fn table_key(&self, pane: Pane) -> TableKey {
        let chosen = match pane {
            Pane::Detail | Pane::Body | Pane::Way => Some(Pane::Messages),
            Pane::Letters => Some(Pane::DeadGroups),
            _ => None,
        };
        // The rows of a list do not depend on the cursor.
        let is_beside = !self.place.screen.panes().contains(&pane);
        TableKey {
            version: self.shown().version(),
            store: self.store.version(),
            second: self.shown_ms() / 1000,
            size: self.size,
            place: self.place.clone(),
            about: self.about().filter(|_| is_beside).cloned(),
            filter: self.filter().map(|f| f.text.clone()),
            sort: self.panes.get(&pane).and_then(|p| p.sort.clone()),
            marks: self.marks.get(&pane).cloned().unwrap_or_default(),
            kinds: self.kinds,
            wide: self.wide,
            reset: self.reset.clone(),
            messages: self.messages.clone(),
            dead: self.dead.clone(),
            chosen: chosen.and_then(|pane| self.panes.get(&pane).cloned()),
            clients: self.clients,
            works: (self.works.iter())
                .map(|w| (w.id, w.lines.len(), w.way.as_ref().map(|way| way.at)))
                .collect(),
        }
    }

    /// Position of the selected row.
    pub fn selected(&self, pane: Pane, table: &Table) -> Option<usize> {
        let last = table.rows.len().checked_sub(1)?;
        let Some(state) = self.panes.get(&pane) else {
            return Some(0);
        };
        // It is where it was, as long as nothing moved.
        let still = |id: &String| (table.rows.get(state.index)).is_some_and(|row| row.id == *id);
        let by_id = state.selected.as_ref().and_then(|id| {
            if still(id) {
                Some(state.index)
            } else {
                table.position(id)
            }
        });
        Some(by_id.unwrap_or_else(|| state.index.min(last)))
    }

    /// The broker that [`Screen::Broker`] shows.
    pub fn broker(&self) -> Option<&crate::client::snapshot::BrokerState> {
        let id = self.place.broker()?;
        self.shown().snapshot.brokers.iter().find(|b| b.broker == *id)
    }

    /// The broker selected in the list of brokers.
    pub fn selected_broker(&self) -> Option<&crate::client::snapshot::BrokerState> {
        let table = self.table(Pane::Brokers);
        let row = &table.rows[self.selected(Pane::Brokers, &table)?];
        let Some(Subject::Broker(id)) = &row.subject else {
            return None;
        };
        self.shown().snapshot.brokers.iter().find(|b| b.broker == *id)
    }

    /// A change by its number.
    pub fn work(&self, id: u64) -> Option<&Work> {
        self.works.iter().find(|w| w.id == id)
    }

    /// The newest change of something that is not over.
    pub fn work_on(&self, subject: &Subject) -> Option<&Work> {
        let of = |w: &&Work| w.deed.about.as_ref() == Some(subject);
        self.works.iter().rev().filter(of).find(|w| w.is_running())
    }

    /// The scaling of a topic that is kept: on its way, or interrupted. One of a topic of the same name in another cluster
    /// of these name servers is not this topic's.
    pub fn kept_way(&self, topic: &str) -> Option<&KeptWay> {
        let Some(Found::Ways(ways)) = self.found(&Want::Ways).get() else {
            return None;
        };
        let brokers = &self.shown().topic(topic)?.brokers;
        let is_here = |way: &KeptWay| brokers.iter().any(|on| on.broker.cluster == way.cluster);
        ways.iter().find(|way| way.topic == topic && is_here(way))
    }

    /// What the name servers route differently, as far as they were looked at.
    pub fn compared(&self) -> Option<&super::routes::Compared> {
        match self.found(&Want::Routes).fresh() {
            Some(Found::Routes(compared)) => Some(compared),
            _ => None,
        }
    }

    /// The command of a key here.
    pub(super) fn command(&self, key: KeyEvent) -> Option<Command> {
        let settings = &self.settings;
        settings.keys.command(key, self.place.screen, settings.read_only)
    }

    /// The key that stands for a command here, for a hint.
    pub fn key(&self, command: Command) -> String {
        self.settings.keys.hint(command, self.place.screen)
    }

    /// The keys that take the scaling of a topic back: from a list the topic is opened first.
    pub fn undo_keys(&self) -> String {
        let undo = self.settings.keys.hint(Command::Undo, Screen::Topic);
        match self.place.screen {
            Screen::Topics => format!("{} {undo}", self.key(Command::Open)),
            _ => undo,
        }
    }

    /// The key of a command on this screen, where it has one.
    pub fn hint(&self, command: Command) -> Option<String> {
        let mut here = self.settings.keys.on_screen(self.place.screen, false);
        let key = here.find(|line| line.command == command)?.first_key();
        (!key.is_empty()).then(|| key.to_owned())
    }

    /// Rows of a pane that are marked.
    pub fn marked(&self, pane: Pane) -> Option<&BTreeSet<String>> {
        self.marks.get(&pane).filter(|marks| !marks.is_empty())
    }

    /// The cluster that a topic or group is in, where the name servers have several: a command has to say which.
    pub fn cluster_of(&self, subject: &Subject) -> Option<String> {
        let snapshot = &self.model.snapshot;
        let all: BTreeSet<&str> = snapshot
            .brokers
            .iter()
            .map(|b| b.broker.cluster.as_str())
            .collect();
        if all.len() < 2 {
            return None;
        }
        let of: BTreeSet<&str> = match subject {
            Subject::Topic(name) => {
                let topic = snapshot.topics.iter().filter(|t| t.name == *name);
                let brokers = topic.flat_map(|t| &t.brokers);
                brokers.map(|on| on.broker.cluster.as_str()).collect()
            }
            Subject::Group(name) => {
                let group = snapshot.groups.iter().filter(|g| g.name == *name);
                let rows = group.flat_map(|g| g.lag.get().into_iter().flatten());
                let names: BTreeSet<&str> = rows.map(|row| row.broker.as_str()).collect();
                let brokers = snapshot.brokers.iter().map(|b| &b.broker);
                let of = brokers.filter(|id| names.contains(id.name.as_str()));
                of.map(|id| id.cluster.as_str()).collect()
            }
            _ => return None,
        };
        let mut of = of.into_iter();
        // In several clusters at once: the command asks which one.
        of.next().filter(|_| of.next().is_none()).map(str::to_owned)
    }

    /// Opens the dialog of a change.
    pub(super) fn begin(&mut self, mut deed: Deed, actions: &mut Vec<Action>) {
        if deed.may_name_cluster()
            && let Some(cluster) = deed.about.as_ref().and_then(|s| self.cluster_of(s))
        {
            deed.words.extend(["--cluster".to_owned(), cluster]);
        }
        let id = self.next_work;
        self.next_work += 1;
        // Changes that are over make room; those in flight stay.
        if self.works.len() >= WORKS
            && let Some(over) = self.works.iter().position(|w| !w.is_running())
        {
            self.works.remove(over);
        }
        self.works.push(Work::new(id, deed.clone(), self.now_ms));
        self.overlay = Some(Overlay::Work(id));
        actions.push(Action::Rehearse(id, deed));
    }

    /// What the screen wants to know beyond the standing poll.
    pub fn wants(&self) -> Vec<Wanted> {
        let every = |seconds| Some(self.settings.interval.max(Duration::from_secs(seconds)));
        let mut wanted = Vec::new();
        let mut want = |want, every| wanted.push(Wanted { want, every });
        if let Some(Overlay::Sheet(words, _)) = &self.overlay {
            want(Want::Sheet(words.clone()), None);
        }
        if let Some((_, name)) = &self.waiting
            && self.place.screen != Screen::Group
        {
            want(Want::Group(name.clone()), None);
        }
        let compares =
            self.place.screen == Screen::Heartbeats || matches!(self.overlay, Some(Overlay::Diff(_)));
        if compares && self.model.snapshot.name_servers.len() > 1 {
            want(Want::Routes, every(5));
        }
        match (self.place.screen, &self.place.about) {
            (Screen::Overview, _) => {
                // Whether anybody is there to bring it down, and how long its oldest message has been waiting.
                let names = self.visible(Pane::WorstLag).into_iter();
                for name in names.filter(|name| self.lags(name)).take(ASKED_ON_OVERVIEW) {
                    want(Want::GroupBrief(name), every(20));
                }
            }
            (Screen::Topics, _) => {
                if let Some(Subject::Topic(name)) = self.rested_on() {
                    want(Want::Topic(name.clone()), every(BESIDE * self.topic_pause(name)));
                }
                for name in self.visible(Pane::Topics) {
                    want(Want::TopicBrief(name), every(10));
                }
                want(Want::Ways, every(2));
            }
            (Screen::Groups, _) => {
                if let Some(Subject::Group(name)) = self.rested_on() {
                    want(Want::Group(name.clone()), every(BESIDE * GROUP_PAUSE));
                }
                for name in self.visible(Pane::Groups) {
                    want(Want::GroupBrief(name), every(10));
                }
            }
            (Screen::Topic, Some(Subject::Topic(name))) => {
                want(Want::Topic(name.clone()), every(self.topic_pause(name)));
                want(Want::Ways, every(2));
            }
            (Screen::Group, Some(Subject::Group(name))) => {
                want(Want::Group(name.clone()), every(GROUP_PAUSE));
                if self.clients {
                    want(Want::Clients(name.clone()), every(10));
                }
            }
            (Screen::Messages, _) => wanted.extend(messages::wants(self)),
            (Screen::Dead, _) => wanted.extend(dead::wants(self)),
            (Screen::Offsets, _) => {
                if let Some(reset) = &self.reset {
                    want(Want::Sheet(reset.words()), None);
                }
            }
            _ => {}
        }
        wanted.extend(store::wants(self).into_iter().map(|(question, every)| Wanted {
            want: Want::Store(question),
            every,
        }));
        wanted.extend(
            store::wire_wants(self)
                .into_iter()
                .map(|(question, every)| Wanted {
                    want: Want::Wire(question),
                    every,
                }),
        );
        wanted
    }

    /// Seconds between two looks at a topic: three calls and three a group on each broker, so the more groups, the slower.
    fn topic_pause(&self, name: &str) -> u64 {
        let groups = u64::try_from(self.model.groups_of(name)).unwrap_or(0);
        (3 + 3 * groups).div_ceil(10).max(2)
    }

    /// A group has something left.
    fn lags(&self, group: &str) -> bool {
        let series = self.model.group_series.get(group);
        series.is_some_and(|lag| lag.last() > Some(0.0))
    }

    /// Names of the rows of a pane that are on the screen.
    pub fn visible(&self, pane: Pane) -> Vec<String> {
        let page = layout::page(self, pane);
        let offset = self.panes.get(&pane).map_or(0, |p| p.offset);
        let table = self.table(pane);
        let rows = table.rows.iter().skip(offset).take(page);
        rows.map(|r| r.name.clone()).collect()
    }

    /// What was found of a question, and when.
    ///
    /// What was not known yet when the display was held is of the present: it was asked for since.
    pub fn found(&self, want: &Want) -> &Seen<Found> {
        let held = self.shown().found(want);
        if held.is_unasked() {
            self.model.found(want)
        } else {
            held
        }
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.notice = Some((self.now_ms, text.into()));
    }

    pub(super) fn visit(&mut self, place: Place) {
        if place == self.place {
            return;
        }
        self.visited.truncate(self.visited_at + 1);
        self.visited.push(place.clone());
        if self.visited.len() > VISITED {
            self.visited.remove(0);
        }
        self.visited_at = self.visited.len() - 1;
        self.arrive(place);
    }

    pub(super) fn arrive(&mut self, place: Place) {
        if place.about.is_some() && place.about != self.place.about {
            // Another subject's rows begin at their top.
            for pane in place.screen.panes() {
                self.panes.remove(pane);
                self.marks.remove(pane);
            }
            self.filters.remove(&place.screen);
        }
        self.place = place;
        self.zoom = false;
    }

    /// Keeps the selection on its row and the row in view.
    pub(super) fn follow(&mut self) {
        for &pane in self.place.screen.panes() {
            let table = self.table(pane);
            let index = self.selected(pane, &table);
            let page = layout::page(self, pane);
            let Some(state) = self.panes.get_mut(&pane) else {
                continue;
            };
            let Some(index) = index else {
                state.offset = 0;
                continue;
            };
            state.index = index;
            if state.selected.is_some() {
                state.selected = table.rows.get(index).map(|r| r.id.clone());
            }
            state.offset = layout::scroll(state.offset, index, page, table.rows.len());
        }
    }

    pub(super) fn select(&mut self, index: usize) {
        let pane = self.focus();
        let table = self.table(pane);
        let Some(last) = table.rows.len().checked_sub(1) else {
            return;
        };
        let index = index.min(last);
        let state = self.panes.entry(pane).or_default();
        state.index = index;
        // The first line of the log is "whatever comes first": a fresh log keeps its newest line selected.
        state.selected = (index > 0 || pane != Pane::Log).then(|| table.rows[index].id.clone());
    }

    pub(super) fn step(&mut self, down: bool, by: usize) {
        let pane = self.focus();
        let table = self.table(pane);
        let now = self.selected(pane, &table).unwrap_or(0);
        self.select(if down {
            now.saturating_add(by)
        } else {
            now.saturating_sub(by)
        });
    }

    pub(super) fn move_focus(&mut self, forward: bool) {
        let panes = self.place.screen.panes();
        let now = panes.iter().position(|p| *p == self.focus()).unwrap_or(0);
        let n = panes.len();
        let next = panes[if forward { now + 1 } else { now + n - 1 } % n];
        self.focus.insert(self.place.screen, next);
    }

    pub(super) fn sort_by(&mut self, column: String) {
        let pane = self.focus();
        let state = self.panes.entry(pane).or_default();
        let again = state.sort.as_ref().is_some_and(|s| s.column == column);
        let descending = again && !state.sort.as_ref().is_some_and(|s| s.descending);
        state.sort = Some(Sort { column, descending });
    }

    pub(super) fn sort_step(&mut self, right: bool) {
        let pane = self.focus();
        let columns = rows::of(self, pane).columns;
        if columns.is_empty() {
            return;
        }
        let state = self.panes.entry(pane).or_default();
        let now = state
            .sort
            .as_ref()
            .and_then(|s| columns.iter().position(|c| c.name == s.column));
        let n = columns.len();
        let next = match (now, right) {
            (None, _) => 0,
            (Some(i), true) => (i + 1) % n,
            (Some(i), false) => (i + n - 1) % n,
        };
        let descending = state.sort.as_ref().is_some_and(|s| s.descending);
        state.sort = Some(Sort {
            column: columns[next].name.clone(),
            descending,
        });
    }

    pub(super) fn open(&mut self) {
        let pane = self.focus();
        let table = self.table(pane);
        let subject = self
            .selected(pane, &table)
            .and_then(|index| table.rows[index].subject.clone());
        match subject {
            Some(Subject::Broker(id)) => {
                // A beat's story is told by the heartbeats; everything else by the broker's own page.
                if self.place.screen == Screen::Overview && pane == Pane::Beats {
                    self.visit(Place::screen(Screen::Heartbeats));
                    self.focus.insert(Screen::Heartbeats, Pane::Registrations);
                    self.point_at(Pane::Registrations, &Subject::Broker(id));
                } else {
                    self.point_at(Pane::Brokers, &Subject::Broker(id.clone()));
                    self.visit(Place::about(Screen::Broker, Subject::Broker(id)));
                }
            }
            Some(subject @ Subject::NameServer(_)) => {
                self.visit(Place::screen(Screen::Heartbeats));
                self.focus.insert(Screen::Heartbeats, Pane::NameServers);
                self.point_at(Pane::NameServers, &subject);
            }
            Some(Subject::Cluster) => self.visit(Place::screen(Screen::Heartbeats)),
            Some(subject @ Subject::Topic(_)) => {
                self.point_at(Pane::Topics, &subject);
                self.visit(Place::about(Screen::Topic, subject));
            }
            Some(subject @ Subject::Group(_)) => {
                self.point_at(Pane::Groups, &subject);
                self.visit(Place::about(Screen::Group, subject));
            }
            None => {}
        }
    }

    pub(super) fn point_at(&mut self, pane: Pane, subject: &Subject) {
        let table = rows::of(self, pane);
        if let Some(index) = table
            .rows
            .iter()
            .position(|r| r.subject.as_ref() == Some(subject))
        {
            let state = self.panes.entry(pane).or_default();
            state.index = index;
            state.selected = Some(table.rows[index].id.clone());
        }
    }

    pub(super) fn back(&mut self) {
        if self.zoom {
            self.zoom = false;
        } else if self.filters.remove(&self.place.screen).is_none()
            && self.marks.remove(&self.focus()).is_none_or(|m| m.is_empty())
        {
            let from = match self.place.screen {
                Screen::Offsets => self.reset.as_mut().and_then(|reset| reset.from.take()),
                _ => None,
            };
            self.visit(from.unwrap_or_else(|| Place::screen(self.place.screen.parent())));
        }
    }
}
