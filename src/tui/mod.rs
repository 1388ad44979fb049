//! The live operator console.
//!
//! ```text
//! poll   one task per server     -> Update ─┐
//! keys, resize, paste            -> Event ──┴─> app::update(&mut App, Event) -> Vec<Action>   pure
//! one redraw clock               -> view::draw(&App)                                          pure
//! ```
//!
//! The loop never awaits the network: whatever hangs, keys work and clocks move.

mod acts;
pub mod app;
pub mod ask;
pub mod bad_reply;
pub mod beside;
pub mod breaker;
pub mod clipboard;
pub mod dead;
pub mod deed;
pub mod events;
pub mod export;
pub mod flow;
pub mod form;
mod forms;
pub mod history;
pub mod input;
pub mod keys;
pub mod messages;
pub mod model;
mod mouse;
pub mod palette;
pub mod place;
pub mod poll;
pub mod record;
mod refusal;
pub mod retries;
pub mod routes;
pub mod standing;
pub mod store;
pub mod table;
mod terminal;
mod update;
pub mod view;
pub mod want;
pub mod work;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use crossterm::event::{Event as TerminalEvent, EventStream, KeyEventKind};
use futures_util::StreamExt as _;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::client::Client;
use crate::client::time::now_ms;
pub use app::Left;
use app::{Action, App, Event, Settings};
use ask::{Asker, Ground};
use bad_reply::BadReplies;
use clipboard::Way;
use deed::{DeedTold, Operator, Stop};
use model::Update;
use poll::Poller;
use record::Recorder;
use terminal::Screen;
use view::theme::Palette;

/// How the console starts.
#[derive(Clone)]
pub struct Options {
    /// Refresh interval.
    pub interval: Duration,
    /// Nothing may be changed.
    pub read_only: bool,
    /// No colours, whatever the terminal says.
    pub no_color: bool,
    /// Which colours.
    pub palette: Palette,
    /// The operator's own themes to choose from.
    pub themes: Vec<app::OwnTheme>,
    /// Only ASCII signs of our own.
    pub ascii: bool,
    /// Every key.
    pub keys: keys::Keys,
    /// Contexts that can be gone to.
    pub contexts: Vec<String>,
    /// Times in UTC instead of local time.
    pub utc: bool,
    /// The servers on the screen run in this process: leaving ends them.
    pub serving: bool,
    /// First screen.
    pub screen: app::Screen,
    /// Name shown in the badge; the first name server when empty.
    pub context: String,
    /// Colour of the badge.
    pub badge: Option<ratatui::style::Color>,
    /// A store to look into, and the directories of its commit log where that lies elsewhere.
    pub store: Option<(PathBuf, Option<String>)>,
    /// Nothing but the store is looked at.
    pub offline: bool,
    /// Who carries changes out; without one there are none.
    pub operator: Option<Arc<dyn Operator>>,
    /// The user's state directory, where `rmq dlq resend` remembers what it sent.
    pub state_dir: Option<PathBuf>,
    /// Keeps the replies that the client could not read.
    pub bad_replies: Option<Arc<BadReplies>>,
    /// Directory where the series are kept for the next session.
    pub record: Option<PathBuf>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("screen", &self.screen)
            .field("context", &self.context)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(2),
            read_only: false,
            no_color: false,
            palette: Palette::Default,
            themes: Vec::new(),
            keys: keys::Keys::default(),
            contexts: Vec::new(),
            ascii: false,
            utc: false,
            serving: false,
            screen: app::Screen::Overview,
            context: String::new(),
            badge: None,
            store: None,
            offline: false,
            operator: None,
            state_dir: None,
            bad_replies: None,
            record: None,
        }
    }
}

/// Shortest time between two frames that news alone cause.
const FRAME: Duration = Duration::from_millis(50);
/// Shortest time between two looks at the news: answers of one round come together, and are judged and drawn together.
const NEWS: Duration = Duration::from_millis(100);
/// Updates folded before the next look at the keys.
const BATCH: usize = 256;

/// Runs the console until the operator leaves or a signal ends it. The terminal is restored on every way out.
pub async fn run(client: Arc<Client>, options: Options) -> anyhow::Result<Left> {
    let context = if options.context.is_empty() {
        client.name_servers().first().cloned().unwrap_or_default()
    } else {
        options.context
    };
    let may_colour = !options.no_color && colour_wanted();
    let settings = Settings {
        context,
        badge: options.badge,
        interval: options.interval.clamp(app::INTERVALS.0, app::INTERVALS.1),
        read_only: options.read_only || options.operator.is_none(),
        colour: may_colour && options.palette != Palette::Mono,
        may_colour,
        palette: options.palette,
        themes: options.themes,
        contexts: options.contexts,
        serving: options.serving,
        ascii: options.ascii,
        keys: options.keys,
        zone: if options.utc {
            jiff::tz::TimeZone::UTC
        } else {
            jiff::tz::TimeZone::system()
        },
    };
    let interval = settings.interval;
    let mut app = App::new(settings, client.name_servers().to_vec(), options.screen, now_ms());
    if let Some((root, commit_log)) = options.store {
        app.store = store::State::new(Some(root), commit_log);
        app.store.offline = options.offline;
    }
    let mut screen = Screen::enter(options.state_dir.clone())
        .context("cannot take over the terminal; is standard output one?")?;
    let asked = draw(&mut screen, &mut app)?;
    let (poller, news) = Poller::start(Arc::clone(&client), interval);
    let state_dir = options.state_dir;
    let ground = Ground {
        zone: app.settings.zone.clone(),
        state_dir: state_dir.clone(),
    };
    if let Some(replies) = &options.bad_replies {
        replies.listen(poller.updates());
    }
    let asker = Asker::new(client, options.operator.clone(), poller.updates(), ground);
    let (told, mut deeds) = mpsc::channel(DEEDS);
    let (notice, notices) = mpsc::channel(NOTICES);
    let recorder = options.record.map(|dir| {
        let path = record::file_of(&dir, &app.settings.context);
        start_recording(path, poller.updates(), notice.clone())
    });
    let mut hands = Hands {
        poller,
        asker,
        operator: options.operator.filter(|_| !app.settings.read_only),
        told,
        notice,
        state_dir,
        errands: Vec::new(),
        stops: HashMap::new(),
    };
    for action in asked {
        hands.carry_out(action);
    }
    let outcome = events(
        &mut screen,
        &mut app,
        &mut hands,
        news,
        &mut deeds,
        notices,
        recorder,
    )
    .await;
    hands.finish().await;
    drop(hands);
    settle(&mut app, &mut deeds).await;
    if screen.has_panicked() {
        anyhow::bail!("a part of the program failed; its report is above");
    }
    drop(screen);
    outcome
}

/// `NO_COLOR` and dumb terminals are respected.
fn colour_wanted() -> bool {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
    set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb")
}

/// Draws when something changed, on what the terminal's size is now.
fn draw(screen: &mut Screen, app: &mut App) -> anyhow::Result<Vec<Action>> {
    let size = screen.size()?;
    let mut actions = Vec::new();
    if size != app.size {
        actions = app::update(app, now_ms(), Event::Resize(size.0, size.1));
    }
    if std::mem::take(&mut app.dirty) {
        screen
            .draw(|buffer| view::draw(app, buffer))
            .context("cannot draw")?;
    }
    Ok(actions)
}

async fn events(
    screen: &mut Screen,
    app: &mut App,
    hands: &mut Hands,
    mut news: mpsc::Receiver<Update>,
    deeds: &mut mpsc::Receiver<(u64, DeedTold)>,
    mut notices: mpsc::Receiver<String>,
    mut starting: Option<oneshot::Receiver<Recorder>>,
) -> anyhow::Result<Left> {
    let mut recorder: Option<Recorder> = None;
    let mut input = EventStream::new();
    let mut clock = tokio::time::interval(Duration::from_secs(1));
    clock.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut frames = tokio::time::interval(FRAME);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut next_news = tokio::time::Instant::now();
    let mut signals = Signals::new()?;
    let clipboard = clipboard::Terminal::here();
    loop {
        let mut at_once = false;
        let event = tokio::select! {
            biased;
            () = signals.next() => return Ok(Left::Done),
            event = input.next() => match event {
                Some(Ok(TerminalEvent::Key(key))) if key.kind != KeyEventKind::Release => {
                    at_once = true;
                    Some(Event::Key(key))
                }
                Some(Ok(TerminalEvent::Paste(text))) => {
                    at_once = true;
                    Some(Event::Paste(text))
                }
                Some(Ok(TerminalEvent::Mouse(mouse))) => Some(Event::Mouse(mouse)),
                Some(Ok(TerminalEvent::Resize(columns, rows))) => Some(Event::Resize(columns, rows)),
                Some(Ok(_)) => None,
                Some(Err(e)) => return Err(e).context("cannot read the terminal"),
                // The terminal is gone, and with it the operator.
                None => return Ok(Left::Done),
            },
            update = after(next_news, &mut news) => match update {
                Some(first) => {
                    let mut batch = vec![first];
                    while batch.len() < BATCH && let Ok(more) = news.try_recv() {
                        batch.push(more);
                    }
                    // What is left over is not kept waiting.
                    if batch.len() < BATCH {
                        next_news = tokio::time::Instant::now() + NEWS;
                    }
                    Some(Event::Updates(batch))
                }
                None => return Ok(Left::Done),
            },
            told = deeds.recv() => told.map(|(id, told)| Event::Deed(id, told)),
            notice = notices.recv() => notice.map(Event::Notice),
            _ = clock.tick() => {
                if let Some(Ok(started)) = starting.as_mut().map(oneshot::Receiver::try_recv) {
                    (recorder, starting) = (Some(started), None);
                }
                if let Some(recorder) = &mut recorder {
                    recorder.record(&app.model);
                }
                Some(Event::Tick)
            }
            () = until_ms(app.rests_at_ms()), if app.rests_at_ms().is_some() => Some(Event::Rested),
            _ = frames.tick(), if app.dirty => {
                at_once = true;
                None
            }
        };
        if screen.has_panicked() {
            return Ok(Left::Done);
        }
        if let Some(event) = event {
            for action in app::update(app, now_ms(), event) {
                match action {
                    Action::Quit => return Ok(Left::Done),
                    Action::Go(left) => return Ok(left),
                    Action::Mouse(ours) => screen.mouse(ours).context("cannot write to the terminal")?,
                    Action::Save(name, text) => {
                        let store = store::verified(app);
                        hands.errand(move || match save(&name, &text, store) {
                            Ok(path) => format!("wrote {path}"),
                            Err(e) => format!("cannot write {name}: {e}"),
                        });
                    }
                    Action::Copy(text) => {
                        let way = clipboard.way(text.len());
                        if !matches!(way, Way::File(_)) {
                            screen.copy(&text).context("cannot write to the terminal")?;
                        }
                        if let Way::File(why) | Way::Both(why) = way {
                            hands.copy_to_file(text, why);
                        }
                    }
                    Action::Suspend => {
                        screen.suspend().context("cannot take the terminal back")?;
                        if app.mouse {
                            screen.mouse(true).context("cannot write to the terminal")?;
                        }
                        app.dirty = true;
                    }
                    other => hands.carry_out(other),
                }
            }
        }
        if at_once {
            for action in draw(screen, app)? {
                hands.carry_out(action);
            }
        }
    }
}

/// The next piece of news, not before a time.
async fn after(at: tokio::time::Instant, news: &mut mpsc::Receiver<Update>) -> Option<Update> {
    tokio::time::sleep_until(at).await;
    news.recv().await
}

/// Waits for a time of the clock, epoch ms.
async fn until_ms(at_ms: Option<i64>) {
    let left = at_ms.unwrap_or(0).saturating_sub(now_ms());
    tokio::time::sleep(Duration::from_millis(u64::try_from(left).unwrap_or(0))).await;
}

/// Reads what earlier sessions recorded, tells it to the model, and begins to write.
fn start_recording(
    path: PathBuf,
    updates: mpsc::Sender<Update>,
    notice: mpsc::Sender<String>,
) -> oneshot::Receiver<Recorder> {
    let (ready, started) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let recorded = record::load(&path, now_ms()).unwrap_or_else(|e| {
            let _ = notice.try_send(format!("earlier history is not shown: {}: {e}", path.display()));
            record::Recorded::default()
        });
        let failed = notice.clone();
        let tell = move |text| {
            // Nobody listens any more when the console is left.
            let _ = notice.try_send(text);
        };
        match Recorder::start(path, &recorded, tell) {
            Ok(recorder) => drop(ready.send(recorder)),
            Err(e) => drop(failed.try_send(format!("nothing is recorded: {e}"))),
        }
        let _ = updates.blocking_send(Update {
            at_ms: now_ms(),
            retry_at_ms: None,
            told: model::Told::Recorded(Box::new(recorded)),
        });
    });
    started
}

/// Changes in flight are given a moment to write down where they stopped.
async fn settle(app: &mut App, deeds: &mut mpsc::Receiver<(u64, DeedTold)>) {
    let end = tokio::time::Instant::now() + LAST_WAIT;
    while app.works.iter().any(work::Work::is_running)
        && let Ok(Some((id, told))) = tokio::time::timeout_at(end, deeds.recv()).await
    {
        app::update(app, now_ms(), Event::Deed(id, told));
    }
}

/// How long changes in flight may take to stop when the console is left.
const LAST_WAIT: Duration = Duration::from_secs(3);

/// News of changes that wait for the display.
const DEEDS: usize = 256;
/// Notices of work beside the display that wait for it.
const NOTICES: usize = 16;

/// Everything that acts on the world beside the terminal.
struct Hands {
    poller: Poller,
    asker: Asker,
    operator: Option<Arc<dyn Operator>>,
    told: mpsc::Sender<(u64, DeedTold)>,
    notice: mpsc::Sender<String>,
    state_dir: Option<PathBuf>,
    errands: Vec<JoinHandle<()>>,
    stops: HashMap<u64, Stop>,
}

impl Drop for Hands {
    /// What still runs is asked to end at its next safe place.
    fn drop(&mut self) {
        for stop in self.stops.values() {
            stop.ask();
        }
    }
}

impl Hands {
    /// Does something with files beside the runtime, and has its outcome told in the status line.
    fn errand(&mut self, work: impl FnOnce() -> String + Send + 'static) {
        let notice = self.notice.clone();
        self.errands.retain(|errand| !errand.is_finished());
        self.errands.push(tokio::task::spawn_blocking(move || {
            // Nobody listens any more when the console is left.
            let _ = notice.try_send(work());
        }));
    }

    /// Gives what is being written a moment.
    async fn finish(&mut self) {
        let all = futures_util::future::join_all(self.errands.drain(..));
        let _ = tokio::time::timeout(LAST_WAIT, all).await;
    }

    /// Puts a copied text where it can be found when the terminal does not take it.
    fn copy_to_file(&mut self, text: String, why: &'static str) {
        let dir = self.state_dir.clone();
        self.errand(move || match dir {
            None => format!("not copied: {why}"),
            Some(dir) => match clipboard::write(&dir, &text) {
                Ok(path) => format!("copied to {}: {why}", path.display()),
                Err(e) => format!(
                    "not copied: {why}, and {}: {e}",
                    dir.join(clipboard::FILE).display()
                ),
            },
        });
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Roster(change) => self.poller.roster(change),
            Action::Refresh => {
                self.poller.refresh();
                self.asker.refresh();
            }
            Action::Interest(topics) => self.poller.set_interest(topics),
            Action::Versions(versions) => self.poller.set_versions(versions),
            Action::Revived(brokers) => self.poller.set_revived(brokers),
            Action::Interval(interval) => self.poller.set_interval(interval),
            Action::Wants(wanted, masters) => self.asker.set(wanted, &masters),
            Action::Rehearse(id, deed) => {
                if let Some(operator) = &self.operator {
                    operator.rehearse(id, &deed, self.told.clone());
                }
            }
            Action::CarryOut(id, deed, shown) => {
                if let Some(operator) = &self.operator {
                    let stop = operator.carry_out(id, &deed, *shown, self.told.clone());
                    self.stops.insert(id, stop);
                }
            }
            Action::Stop(id) => {
                if let Some(stop) = self.stops.get(&id) {
                    stop.ask();
                }
            }
            // The terminal's own are done by the loop.
            Action::Copy(_)
            | Action::Save(..)
            | Action::Suspend
            | Action::Mouse(_)
            | Action::Go(_)
            | Action::Quit => {}
        }
    }
}

/// Writes a new file in the working directory, unless that lies in a store; one that exists is left alone.
fn save(name: &str, text: &str, store: Option<PathBuf>) -> std::io::Result<String> {
    let dir = std::env::current_dir()?;
    if let Some(store) = store.and_then(|store| std::fs::canonicalize(store).ok())
        && std::fs::canonicalize(&dir)?.starts_with(store)
    {
        return Err(std::io::Error::other("the working directory lies in the store"));
    }
    let path = dir.join(name);
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&path)?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    Ok(path.display().to_string())
}

/// Signals that ask us to leave.
struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hang_up: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl Signals {
    #[cfg(unix)]
    fn new() -> anyhow::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    #[cfg(unix)]
    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }

    #[cfg(not(unix))]
    fn new() -> anyhow::Result<Self> {
        Ok(Self {})
    }

    #[cfg(not(unix))]
    async fn next(&mut self) {
        let _ = tokio::signal::ctrl_c().await;
    }
}
