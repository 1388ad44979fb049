//! State of the console and its only transition: [`update`]. No I/O, no clock of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::input::Input;
use super::keys::{self, Command};
use super::model::{Model, Roster, Update};
use super::table::{Filter, Sort, Table};
use super::view::{layout, rows};
use crate::client::findings::Subject;
use crate::client::snapshot::BrokerId;

/// A screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Screen {
    /// Is anything wrong, and where.
    Overview,
    /// Who registered when with which name server.
    Heartbeats,
    /// All brokers.
    Brokers,
    /// One broker.
    Broker,
}

impl Screen {
    /// Every screen.
    pub const ALL: [Self; 4] = [Self::Overview, Self::Heartbeats, Self::Brokers, Self::Broker];

    /// The screen that a command-line name means.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "overview" | "over" | "1" => Some(Self::Overview),
            "heartbeats" | "beats" | "2" => Some(Self::Heartbeats),
            "brokers" | "broker" | "3" => Some(Self::Brokers),
            _ => None,
        }
    }

    /// Its name in a path.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overview => "overview",
            Self::Heartbeats => "heartbeats",
            Self::Brokers => "brokers",
            Self::Broker => "broker",
        }
    }

    /// Panes in the order of `tab`.
    pub const fn panes(self) -> &'static [Pane] {
        match self {
            Self::Overview => &[
                Pane::Health,
                Pane::Traffic,
                Pane::Beats,
                Pane::TopTopics,
                Pane::WorstLag,
            ],
            Self::Heartbeats => &[Pane::NameServers, Pane::Registrations, Pane::Log],
            Self::Brokers => &[Pane::Brokers],
            Self::Broker => &[
                Pane::Runtime,
                Pane::Latency,
                Pane::Flows,
                Pane::Replication,
                Pane::Config,
            ],
        }
    }

    /// The pane that has the focus at first.
    pub const fn first_focus(self) -> Pane {
        match self {
            Self::Overview => Pane::Health,
            Self::Heartbeats => Pane::Registrations,
            Self::Brokers => Pane::Brokers,
            Self::Broker => Pane::Runtime,
        }
    }
}

/// A part of a screen that can have the focus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Pane {
    Health,
    Traffic,
    Beats,
    TopTopics,
    WorstLag,
    NameServers,
    Registrations,
    Log,
    Brokers,
    Runtime,
    Latency,
    Flows,
    Replication,
    Config,
}

/// A screen and what it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Screen.
    pub screen: Screen,
    /// The broker of [`Screen::Broker`].
    pub broker: Option<BrokerId>,
}

impl Place {
    /// A screen about nothing in particular.
    pub const fn screen(screen: Screen) -> Self {
        Self { screen, broker: None }
    }
}

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
}

/// A display that is held.
#[derive(Debug, Clone, PartialEq)]
pub struct Frozen {
    /// Since when, epoch ms.
    pub at_ms: i64,
    /// What was known then.
    pub model: Box<Model>,
}

/// What never changes during a session, and the interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Name of the context, shown in the badge.
    pub context: String,
    /// Refresh interval.
    pub interval: Duration,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Colours may be used.
    pub colour: bool,
    /// Only ASCII signs may be used.
    pub ascii: bool,
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
    visited: Vec<Place>,
    visited_at: usize,
    panes: BTreeMap<Pane, PaneState>,
    focus: BTreeMap<Screen, Pane>,
    filters: BTreeMap<Screen, Filter>,
    interest: Vec<String>,
    versions: BTreeMap<BrokerId, i64>,
    revived: BTreeMap<BrokerId, i64>,
}

/// What may happen to the console.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key was pressed.
    Key(KeyEvent),
    /// A text was pasted.
    Paste(String),
    /// The terminal has another size.
    Resize(u16, u16),
    /// Polling tasks had news.
    Updates(Vec<Update>),
    /// A second has passed.
    Tick,
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
    /// Poll at this interval.
    Interval(Duration),
    /// Put a text on the clipboard.
    Copy(String),
    /// Stop until the shell continues us.
    Suspend,
    /// Leave.
    Quit,
}

/// Visited places that are remembered.
const VISITED: usize = 50;
/// Topics whose rates are asked for first.
const INTEREST: usize = 8;
/// How long a notice stays.
const NOTICE_MS: i64 = 5_000;
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
            panes: BTreeMap::new(),
            focus: BTreeMap::new(),
            filters: BTreeMap::new(),
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

    /// Rows of a pane, filtered and sorted.
    pub fn table(&self, pane: Pane) -> Table {
        let filter = self.filter().filter(|_| rows::filtered(pane));
        rows::of(self, pane).arranged(filter, self.panes.get(&pane).and_then(|p| p.sort.as_ref()))
    }

    /// Position of the selected row.
    pub fn selected(&self, pane: Pane, table: &Table) -> Option<usize> {
        let last = table.rows.len().checked_sub(1)?;
        let Some(state) = self.panes.get(&pane) else {
            return Some(0);
        };
        let by_id = state.selected.as_ref().and_then(|id| table.position(id));
        Some(by_id.unwrap_or_else(|| state.index.min(last)))
    }

    /// The broker that [`Screen::Broker`] shows.
    pub fn broker(&self) -> Option<&crate::client::snapshot::BrokerState> {
        let id = self.place.broker.as_ref()?;
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

    fn say(&mut self, text: impl Into<String>) {
        self.notice = Some((self.now_ms, text.into()));
    }

    fn visit(&mut self, place: Place) {
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

    fn arrive(&mut self, place: Place) {
        if place.broker != self.place.broker {
            // Another broker's configuration begins at its top.
            self.panes.remove(&Pane::Config);
        }
        self.place = place;
        self.zoom = false;
    }

    /// Keeps the selection on its row and the row in view.
    fn follow(&mut self) {
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

    fn select(&mut self, index: usize) {
        let pane = self.focus();
        let table = self.table(pane);
        let Some(last) = table.rows.len().checked_sub(1) else {
            return;
        };
        let index = index.min(last);
        let state = self.panes.entry(pane).or_default();
        state.index = index;
        // The first row is "whatever comes first", so that a fresh log keeps its newest line selected.
        state.selected = (index > 0).then(|| table.rows[index].id.clone());
    }

    fn step(&mut self, down: bool, by: usize) {
        let pane = self.focus();
        let table = self.table(pane);
        let now = self.selected(pane, &table).unwrap_or(0);
        self.select(if down {
            now.saturating_add(by)
        } else {
            now.saturating_sub(by)
        });
    }

    fn move_focus(&mut self, forward: bool) {
        let panes = self.place.screen.panes();
        let now = panes.iter().position(|p| *p == self.focus()).unwrap_or(0);
        let n = panes.len();
        let next = panes[if forward { now + 1 } else { now + n - 1 } % n];
        self.focus.insert(self.place.screen, next);
    }

    fn sort_by(&mut self, column: String) {
        let pane = self.focus();
        let state = self.panes.entry(pane).or_default();
        let again = state.sort.as_ref().is_some_and(|s| s.column == column);
        let descending = again && !state.sort.as_ref().is_some_and(|s| s.descending);
        state.sort = Some(Sort { column, descending });
    }

    fn sort_step(&mut self, right: bool) {
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

    fn open(&mut self) {
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
                    self.visit(Place {
                        screen: Screen::Broker,
                        broker: Some(id),
                    });
                }
            }
            Some(subject @ Subject::NameServer(_)) => {
                self.visit(Place::screen(Screen::Heartbeats));
                self.focus.insert(Screen::Heartbeats, Pane::NameServers);
                self.point_at(Pane::NameServers, &subject);
            }
            Some(Subject::Cluster) => self.visit(Place::screen(Screen::Heartbeats)),
            Some(subject @ Subject::Topic(_)) => self.show(Pane::TopTopics, &subject),
            Some(subject @ Subject::Group(_)) => self.show(Pane::WorstLag, &subject),
            None => {}
        }
    }

    /// Focuses a pane of the present screen and selects what a finding is about.
    fn show(&mut self, pane: Pane, subject: &Subject) {
        self.focus.insert(self.place.screen, pane);
        self.point_at(pane, subject);
    }

    fn point_at(&mut self, pane: Pane, subject: &Subject) {
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

    fn back(&mut self) {
        if self.zoom {
            self.zoom = false;
        } else if self.filters.remove(&self.place.screen).is_none() {
            match self.place.screen {
                Screen::Overview => {}
                Screen::Heartbeats | Screen::Brokers => self.visit(Place::screen(Screen::Overview)),
                Screen::Broker => self.visit(Place::screen(Screen::Brokers)),
            }
        }
    }
}

/// The only transition of the console.
pub fn update(app: &mut App, now_ms: i64, event: Event) -> Vec<Action> {
    app.now_ms = now_ms.max(app.now_ms);
    let mut actions = Vec::new();
    match event {
        Event::Key(key) => {
            key_pressed(app, key, &mut actions);
            app.dirty = true;
        }
        Event::Paste(text) => {
            paste(app, &text);
            app.dirty = true;
        }
        Event::Resize(columns, rows) => {
            app.size = (columns, rows);
            app.dirty = true;
        }
        Event::Updates(updates) => {
            for update in updates {
                app.model.fold(update);
            }
            settle(app, &mut actions);
            app.dirty |= app.frozen.is_none();
        }
        Event::Tick => {
            settle(app, &mut actions);
            app.dirty = true;
        }
    }
    if app
        .notice
        .as_ref()
        .is_some_and(|(at, _)| app.now_ms - at > NOTICE_MS)
    {
        app.notice = None;
    }
    app.follow();
    actions
}

fn settle(app: &mut App, actions: &mut Vec<Action>) {
    let roster = app.model.settle(app.now_ms, app.settings.interval);
    actions.extend(roster.into_iter().map(Action::Roster));
    let interest: Vec<String> = rows::top_topics(&app.model)
        .into_iter()
        .take(INTEREST)
        .map(|(topic, _)| topic.name.clone())
        .collect();
    if interest != app.interest {
        app.interest.clone_from(&interest);
        actions.push(Action::Interest(interest));
    }
    let versions = app.model.registered_versions();
    if versions != app.versions {
        app.versions.clone_from(&versions);
        actions.push(Action::Versions(versions));
    }
    if *app.model.revived() != app.revived {
        app.revived.clone_from(app.model.revived());
        actions.push(Action::Revived(app.revived.clone()));
    }
}

fn paste(app: &mut App, text: &str) {
    if let Some(Overlay::Filter(input) | Overlay::Palette(input, _)) = &mut app.overlay {
        input.insert(text);
    }
    if let Some(Overlay::Palette(_, selected)) = &mut app.overlay {
        *selected = 0;
    }
    live_filter(app);
}

/// The filter works while it is typed.
fn live_filter(app: &mut App) {
    if let Some(Overlay::Filter(input)) = &app.overlay {
        match Filter::parse(input.text()) {
            Some(filter) => app.filters.insert(app.place.screen, filter),
            None => app.filters.remove(&app.place.screen),
        };
    }
}

fn key_pressed(app: &mut App, key: KeyEvent, actions: &mut Vec<Action>) {
    // These two work everywhere, also while something is typed.
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        match key.code {
            KeyCode::Char('c') => return actions.push(Action::Quit),
            KeyCode::Char('z') => return actions.push(Action::Suspend),
            _ => {}
        }
    }
    match app.overlay.take() {
        None => {
            if let Some(command) = keys::command(key, app.place.screen) {
                run(app, command, actions);
            }
        }
        Some(overlay) => overlay_key(app, overlay, key, actions),
    }
}

fn overlay_key(app: &mut App, overlay: Overlay, key: KeyEvent, actions: &mut Vec<Action>) {
    let command = keys::command(key, app.place.screen);
    match overlay {
        Overlay::Help(line) => match scrolled(line, command) {
            Some(line) => app.overlay = Some(Overlay::Help(line)),
            None if command == Some(Command::Quit) => actions.push(Action::Quit),
            None => {}
        },
        Overlay::Diff(line) => match scrolled(line, command) {
            Some(line) => app.overlay = Some(Overlay::Diff(line)),
            None if command == Some(Command::Quit) => actions.push(Action::Quit),
            None => {}
        },
        Overlay::Sort(index) => {
            let columns = rows::of(app, app.focus()).columns;
            let last = columns.len().saturating_sub(1);
            match command {
                Some(Command::Down) => app.overlay = Some(Overlay::Sort((index + 1).min(last))),
                Some(Command::Up) => app.overlay = Some(Overlay::Sort(index.saturating_sub(1))),
                Some(Command::Back | Command::SortMenu) => {}
                Some(Command::Quit) => actions.push(Action::Quit),
                _ if key.code == KeyCode::Enter => {
                    if let Some(column) = columns.into_iter().nth(index) {
                        app.sort_by(column.name);
                    }
                }
                _ => app.overlay = Some(Overlay::Sort(index)),
            }
        }
        Overlay::Filter(mut input) => match key.code {
            KeyCode::Enter => {
                if app.filter().is_some_and(|f| f.literal) {
                    app.say("not a regular expression: searched for as it is");
                }
            }
            KeyCode::Esc => {
                app.filters.remove(&app.place.screen);
            }
            _ => {
                input.key(key);
                app.overlay = Some(Overlay::Filter(input));
                live_filter(app);
            }
        },
        Overlay::Palette(mut input, selected) => {
            let entries = palette(app, input.text());
            let last = entries.len().saturating_sub(1);
            match key.code {
                KeyCode::Esc => {}
                KeyCode::Enter => match entries.into_iter().nth(selected) {
                    Some(entry) => choose(app, entry.what, actions),
                    None => app.say(format!("nothing is called {}", input.text())),
                },
                KeyCode::Down => app.overlay = Some(Overlay::Palette(input, (selected + 1).min(last))),
                KeyCode::Up => app.overlay = Some(Overlay::Palette(input, selected.saturating_sub(1))),
                _ => {
                    input.key(key);
                    app.overlay = Some(Overlay::Palette(input, 0));
                }
            }
        }
    }
}

/// The new first line of a scrolled page; `None` closes it.
fn scrolled(line: usize, command: Option<Command>) -> Option<usize> {
    match command? {
        Command::Down => Some(line + 1),
        Command::Up => Some(line.saturating_sub(1)),
        Command::PageDown | Command::HalfPageDown => Some(line + 10),
        Command::PageUp | Command::HalfPageUp => Some(line.saturating_sub(10)),
        Command::First => Some(0),
        Command::Last => Some(usize::MAX / 2),
        _ => None,
    }
}

fn run(app: &mut App, command: Command, actions: &mut Vec<Action>) {
    let page = layout::page(app, app.focus()).max(1);
    match command {
        Command::Down => app.step(true, 1),
        Command::Up => app.step(false, 1),
        Command::First => app.select(0),
        Command::Last => app.select(usize::MAX),
        Command::HalfPageDown => app.step(true, page.div_ceil(2)),
        Command::HalfPageUp => app.step(false, page.div_ceil(2)),
        Command::PageDown => app.step(true, page),
        Command::PageUp => app.step(false, page),
        Command::Left => {
            let state = app.panes.entry(app.focus()).or_default();
            state.column = state.column.saturating_sub(1);
        }
        Command::Right => {
            let pane = app.focus();
            let last = rows::of(app, pane).columns.len().saturating_sub(2);
            let state = app.panes.entry(pane).or_default();
            state.column = (state.column + 1).min(last);
        }
        Command::Go(screen) => app.visit(Place::screen(screen)),
        Command::NextPane => app.move_focus(true),
        Command::PreviousPane => app.move_focus(false),
        Command::Open => app.open(),
        Command::Back => app.back(),
        Command::Filter => {
            let text = app.filter().map(|f| f.text.clone()).unwrap_or_default();
            app.overlay = Some(Overlay::Filter(Input::new(text)));
        }
        Command::Palette => app.overlay = Some(Overlay::Palette(Input::default(), 0)),
        Command::SortMenu => {
            let pane = app.focus();
            let columns = rows::of(app, pane).columns;
            if columns.is_empty() {
                app.say("nothing to sort here");
            } else {
                let sort = app.pane(pane).sort;
                let now = sort.and_then(|s| columns.iter().position(|c| c.name == s.column));
                app.overlay = Some(Overlay::Sort(now.unwrap_or(0)));
            }
        }
        Command::SortLeft => app.sort_step(false),
        Command::SortRight => app.sort_step(true),
        Command::SortReverse => {
            if let Some(sort) = app.panes.get_mut(&app.focus()).and_then(|p| p.sort.as_mut()) {
                sort.descending = !sort.descending;
            }
        }
        Command::CopyName | Command::CopyRow => copy(app, command == Command::CopyRow, actions),
        Command::Freeze => {
            app.frozen = match app.frozen.take() {
                Some(_) => None,
                None => Some(Frozen {
                    at_ms: app.now_ms,
                    model: Box::new(app.model.clone()),
                }),
            };
        }
        Command::Refresh => {
            app.say("asking every server now");
            actions.push(Action::Refresh);
        }
        Command::Zoom => app.zoom = !app.zoom,
        Command::Wide => app.wide = !app.wide,
        Command::Diff => app.overlay = Some(Overlay::Diff(0)),
        Command::Previous => {
            if let Some(at) = app.visited_at.checked_sub(1) {
                app.visited_at = at;
                app.arrive(app.visited[at].clone());
            }
        }
        Command::Next => {
            if let Some(place) = app.visited.get(app.visited_at + 1).cloned() {
                app.visited_at += 1;
                app.arrive(place);
            }
        }
        Command::Help => app.overlay = Some(Overlay::Help(0)),
        Command::Suspend => actions.push(Action::Suspend),
        Command::Quit => actions.push(Action::Quit),
    }
}

fn copy(app: &mut App, whole_row: bool, actions: &mut Vec<Action>) {
    let pane = app.focus();
    let table = app.table(pane);
    let Some(index) = app.selected(pane, &table) else {
        return app.say("nothing to copy here");
    };
    let row = &table.rows[index];
    let text = if whole_row {
        let cells = table.columns.iter().zip(&row.cells);
        let object: serde_json::Map<String, serde_json::Value> = cells
            .map(|(column, cell)| (column.name.to_lowercase(), cell.plain().into()))
            .collect();
        serde_json::Value::Object(object).to_string()
    } else {
        row.name.clone()
    };
    app.say(format!(
        "copied {}",
        if whole_row { "the row" } else { &row.name }
    ));
    actions.push(Action::Copy(text));
}

/// What a palette entry does.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// As if its key were pressed.
    Run(Command),
    /// Open a broker.
    Broker(BrokerId),
    /// Set the interval.
    Interval(Duration),
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
    let entry = |label: String, what| Entry { label, what };
    let mut entries: Vec<Entry> = [
        ("overview", Command::Go(Screen::Overview)),
        ("heartbeats", Command::Go(Screen::Heartbeats)),
        ("brokers", Command::Go(Screen::Brokers)),
        ("pause", Command::Freeze),
        ("refresh", Command::Refresh),
        ("zoom", Command::Zoom),
        ("wide columns", Command::Wide),
        ("diff name servers", Command::Diff),
        ("help", Command::Help),
        ("quit", Command::Quit),
    ]
    .map(|(label, command)| entry(label.to_owned(), Choice::Run(command)))
    .into();
    let seconds = [1, 2, 5, 10];
    entries.extend(seconds.map(|s| {
        entry(
            format!("set interval {s}s"),
            Choice::Interval(Duration::from_secs(s)),
        )
    }));
    let brokers = app.model.snapshot.brokers.iter();
    entries.extend(brokers.map(|b| entry(format!("broker {}", b.broker), Choice::Broker(b.broker.clone()))));
    entries.retain(|e| is_subsequence(&typed, &e.label.to_lowercase()));
    // Whole words before scattered letters; stable, so the order of the list holds otherwise.
    entries.sort_by_key(|e| !e.label.to_lowercase().contains(&typed));
    entries
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

fn choose(app: &mut App, choice: Choice, actions: &mut Vec<Action>) {
    match choice {
        Choice::Run(command) => run(app, command, actions),
        Choice::Broker(id) => app.visit(Place {
            screen: Screen::Broker,
            broker: Some(id),
        }),
        Choice::Interval(interval) => {
            app.settings.interval = interval;
            actions.push(Action::Interval(interval));
        }
    }
}
