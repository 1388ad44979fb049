//! Drawing: a pure function of the [`App`]. Nothing here waits, asks or remembers.

pub mod ascii;
pub mod bar;
pub mod broker_detail;
pub mod brokers;
pub mod cell;
pub mod dialog;
pub mod grid;
pub mod group;
pub mod groups;
pub mod layout;
pub mod offsets;
pub mod overlay;
pub mod overview;
pub mod own_theme;
pub mod rows;
pub mod text;
pub mod theme;
pub mod topic;
pub mod topics;
mod way;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::app::{App, Overlay, Pane, PaneState, Screen};
use super::history::{Trend, trend};
use super::keys::Command;
use super::model::Total;
use super::store;
use super::want::{Found, Want};
use super::{dead, messages};
use crate::client::snapshot::Seen;
use bar::Piece;
use layout::Areas;
use theme::{Role, Theme};

impl App {
    /// The styles in use.
    pub fn theme(&self) -> Theme {
        Theme {
            colour: self.settings.colour,
            palette: self.settings.palette,
            context: self.settings.badge,
        }
    }
}

/// Draws everything.
pub fn draw(app: &App, buffer: &mut Buffer) {
    // The terminal may have changed after the last event: draw on what both agree on.
    match layout::areas(app) {
        Some(areas) if buffer.area.width >= app.size.0 && buffer.area.height >= app.size.1 => {
            screen(app, &areas, buffer);
        }
        _ => {
            let (width, height) = app.size;
            let (least_width, least_height) = layout::LEAST;
            let text = format!("terminal too small ({width}×{height}), need {least_width}×{least_height}");
            let style = app.theme().style(Role::Warn);
            grid::put(buffer, 0, 0, buffer.area.width, &text, style);
        }
    }
    app.theme().ground(buffer);
    if app.settings.ascii {
        ascii::degrade(buffer);
    }
}

fn screen(app: &App, areas: &Areas, buffer: &mut Buffer) {
    header(app, areas.header, buffer);
    tabs(app, areas.tabs, buffer);
    if let Some(area) = areas.banner {
        banner(app, area, buffer);
    }
    for &(pane, area) in &areas.panes {
        draw_pane(app, pane, area, buffer);
    }
    path(app, areas.path, buffer);
    footer(app, areas.footer, buffer);
    overlay::draw(app, buffer);
}

/// Milliseconds from `at_ms` to `now_ms`; a clock that went back is no age.
pub fn age_ms(now_ms: i64, at_ms: i64) -> u64 {
    u64::try_from(now_ms.saturating_sub(at_ms)).unwrap_or(0)
}

/// Milliseconds since a time that a broker told, by its own clock.
pub fn age_on(app: &App, broker: &str, at_ms: i64) -> u64 {
    age_ms(app.shown_ms().saturating_add(app.shown().ahead_ms(broker)), at_ms)
}

fn zoned(app: &App, at_ms: i64) -> Option<jiff::ZonedDateTime> {
    let time = jiff::Timestamp::from_millisecond(at_ms).ok()?;
    Some(time.to_zoned_datetime(app.settings.zone.clone()))
}

/// `12:04:31`
pub fn clock(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms).map_or_else(|| "?".to_owned(), |t| t.strftime("%H:%M:%S").to_string())
}

/// `12:04:30.112`; with the day in front when it was another one.
pub fn clock_ms(app: &App, at_ms: i64) -> String {
    let (Some(at), Some(now)) = (zoned(app, at_ms), zoned(app, app.shown_ms())) else {
        return "?".to_owned();
    };
    let form = if at.date() == now.date() {
        "%H:%M:%S%.3f"
    } else {
        "%m-%d %H:%M:%S%.3f"
    };
    at.strftime(form).to_string()
}

/// `20261101-080000`, for names of files.
pub fn stamp(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms).map_or_else(|| at_ms.to_string(), |t| t.strftime("%Y%m%d-%H%M%S").to_string())
}

/// `2026-11-01 08:00`
pub fn date(app: &App, at_ms: i64) -> String {
    zoned(app, at_ms).map_or_else(|| "?".to_owned(), |t| t.strftime("%Y-%m-%d %H:%M").to_string())
}

fn width(pieces: &[Piece]) -> usize {
    pieces.iter().map(|(t, _)| text::width(&text::clean(t))).sum()
}

/// Writes pieces that end at the right edge and returns where they begin.
fn at_right(buffer: &mut Buffer, area: Rect, theme: Theme, pieces: &[Piece]) -> u16 {
    let columns = u16::try_from(width(pieces)).unwrap_or(u16::MAX);
    let x = area.right().saturating_sub(columns).max(area.x);
    grid::pieces(buffer, x, area.y, area.right(), theme, pieces);
    x
}

/// Places of the totals in the first line.
const IN: usize = 3;
const OUT: usize = 4;

fn header(app: &App, area: Rect, buffer: &mut Buffer) {
    let model = app.shown();
    let theme = app.theme();
    let mode = if app.settings.read_only { "RO" } else { "RW" };
    let interval = app.settings.interval;
    let interval = if interval.subsec_millis() == 0 {
        format!("{}s", interval.as_secs())
    } else {
        format!("{}ms", interval.as_millis())
    };
    let mut right: Vec<Piece> = Vec::new();
    // The moment, and no age: nothing of a held display moves, so that it is not drawn again.
    let now = match &app.frozen {
        Some(frozen) => {
            right.push((format!(" FROZEN {} ", clock(app, frozen.at_ms)), Role::Badge));
            String::new()
        }
        None => format!("{} ", clock(app, app.now_ms)),
    };
    let flying = app.works.iter().filter(|w| w.is_running()).count();
    if flying > 0 {
        right.push((
            format!(" ~ {flying} running: {} ", app.key(Command::Works)),
            Role::Warn,
        ));
    }
    right.push((format!(" ↻{interval} {mode} {now}"), Role::Plain));
    let end = at_right(buffer, area, theme, &right);

    if app.store.offline {
        let dir = store::root(app).map_or_else(String::new, |(dir, _)| dir.display().to_string());
        let pieces = [
            (" rmq ".to_owned(), Role::Plain),
            (" store ".to_owned(), Role::Badge),
            (format!(" {dir}   no network"), Role::Plain),
        ];
        grid::pieces(buffer, area.x, area.y, end, theme, &pieces);
        return;
    }
    let servers = &model.snapshot.name_servers;
    let up = servers.iter().filter(|s| s.is_up()).count();
    let brokers = &model.snapshot.brokers;
    let answering = brokers.iter().filter(|b| b.is_alive()).count();
    let ratio = |word: &str, good: usize, all: usize, asked: bool| -> [Piece; 2] {
        let (text, role) = match (asked, good == all) {
            (false, _) => (format!("?/{all} "), Role::Plain),
            (true, true) => (format!("{good}/{all} "), Role::Plain),
            (true, false) => (format!("{good}/{all}! "), Role::Crit),
        };
        [(format!("{word} "), Role::Label), (text, role)]
    };
    let servers_asked = servers.iter().any(|s| !s.cluster.is_unasked());
    let brokers_asked = brokers.iter().any(|b| !b.runtime.is_unasked());
    let mut groups: Vec<Vec<Piece>> = vec![
        vec![
            (" rmq ".to_owned(), Role::Plain),
            (format!(" {} ", app.settings.context), Role::Context),
            (" ".to_owned(), Role::Plain),
        ],
        ratio("ns", up, servers.len(), servers_asked).into(),
    ];
    if brokers.is_empty() && up == 0 {
        // Nobody told of any broker: not even their number is known.
        groups.push(vec![
            ("brokers ".to_owned(), Role::Label),
            ("? ".to_owned(), Role::Plain),
        ]);
    } else {
        groups.push(
            ratio(
                "brokers",
                answering,
                brokers.len(),
                brokers_asked || brokers.is_empty(),
            )
            .into(),
        );
    }
    let total = |word: &str, total: Total, unit: &str| -> Vec<Piece> {
        vec![
            (format!("{word} "), Role::Label),
            (format!("{} ", overview::total(total, unit)), Role::Plain),
        ]
    };
    groups.push(total("in", model.put_total(), "/s"));
    groups.push(total("out", model.get_total(), "/s"));
    let mut lag = total("lag", model.lag_total(), "");
    let course = model.lag.course(super::model::SLOPE_WINDOW_MS);
    match course.map(|course| trend(model.lag.last().unwrap_or(0.0), course)) {
        Some(Trend::Rising) => lag.push(("▲ ".to_owned(), Role::Warn)),
        Some(Trend::Falling) => lag.push(("▼ ".to_owned(), Role::Ok)),
        Some(Trend::Flat) | None => {}
    }
    groups.push(lag);
    // Where not all fit, a backlog says more than what comes in, and that more than what goes out.
    for least in [OUT, IN, IN] {
        let all: usize = groups.iter().map(|group| width(group)).sum();
        if all > usize::from(end.saturating_sub(area.x)) {
            groups.remove(least);
        }
    }
    let mut x = area.x;
    for group in groups {
        let columns = u16::try_from(width(&group)).unwrap_or(u16::MAX);
        if x.saturating_add(columns) > end {
            break;
        }
        x = grid::pieces(buffer, x, area.y, end, theme, &group);
    }
}

fn tabs(app: &App, area: Rect, buffer: &mut Buffer) {
    let here = app.place.screen.tab();
    let mut x = area.x + 1;
    let gap = tab_gap(area.width);
    for (screen, name) in Screen::tabs() {
        let (name, role) = if screen == here {
            (format!("[{name}]"), Role::Focus)
        } else {
            (format!(" {name}{}", " ".repeat(usize::from(gap))), Role::Plain)
        };
        x = grid::put(buffer, x, area.y, area.right(), &name, app.theme().style(role));
        x += gap;
    }
}

/// Blank columns around a tab: none where all of them would not fit otherwise.
pub fn tab_gap(width: u16) -> u16 {
    let names = Screen::tabs().map(|(_, name)| name.len() + 3).sum::<usize>();
    u16::from(names < usize::from(width))
}

/// No name server answers: since when, why, and when the next try is.
fn banner(app: &App, area: Rect, buffer: &mut Buffer) {
    let model = app.shown();
    let now = app.shown_ms();
    let Some(since) = model.all_down_since_ms() else {
        return;
    };
    let next = model
        .snapshot
        .name_servers
        .iter()
        .filter_map(|s| model.retry_at_ms.get(&s.addr))
        .min();
    let next = next.map_or_else(String::new, |at| {
        format!(
            " · next try in {}s, {} tries now",
            (at.saturating_sub(now).max(0) + 999) / 1000,
            app.key(Command::Refresh)
        )
    });
    let age = text::age(age_ms(now, since));
    let line = if model.newest_ms().is_none() {
        format!(" ✗ no name server has answered in {age}{next}")
    } else {
        format!(" ✗ no name server since {} ({age}){next}", clock(app, since))
    };
    grid::put(
        buffer,
        area.x,
        area.y,
        area.right(),
        &line,
        app.theme().style(Role::Crit),
    );
}

fn draw_pane(app: &App, pane: Pane, area: Rect, buffer: &mut Buffer) {
    let focused = app.focus() == pane;
    let theme = app.theme();
    let title = title(app, pane);
    let inside = grid::frame(buffer, area, theme, &title, focused);
    if inside.width < 4 || inside.height == 0 {
        return;
    }
    match pane {
        Pane::Health => overview::health(app, inside, buffer, focused),
        Pane::Traffic => overview::traffic(app, inside, buffer),
        Pane::Runtime | Pane::Latency | Pane::Flows => broker_detail::draw(app, pane, inside, buffer),
        Pane::Scaling => topic::scaling(app, inside, buffer),
        Pane::GroupChart => group::chart(app, inside, buffer),
        Pane::Effect => offsets::effect(app, inside, buffer),
        Pane::Detail | Pane::Body => messages::view::lines(app, pane, inside, buffer, focused),
        Pane::Plan => dead::view::plan(app, inside, buffer),
        Pane::Beats
        | Pane::TopTopics
        | Pane::WorstLag
        | Pane::NameServers
        | Pane::Registrations
        | Pane::Log
        | Pane::Brokers
        | Pane::Replication
        | Pane::Config
        | Pane::Topics
        | Pane::TopicQueues
        | Pane::TopicGroups
        | Pane::Groups
        | Pane::GroupQueues
        | Pane::GroupClients
        | Pane::Messages
        | Pane::Way
        | Pane::DeadGroups
        | Pane::Letters
        | Pane::Positions
        | Pane::Preview
        | Pane::Store(_) => {
            if store::view::draw(app, pane, inside, buffer) {
                return;
            }
            let inside = match pane {
                Pane::Messages => messages::view::below_list(app, inside, buffer),
                _ => inside,
            };
            let table = app.table(pane);
            if table.rows.is_empty() {
                let line = empty(app, pane, table.unfiltered);
                let room = Rect::new(inside.x + 1, inside.y, inside.width - 2, 1);
                grid::pieces(
                    buffer,
                    room.x,
                    room.y,
                    room.right(),
                    theme,
                    &[(line, Role::Plain)],
                );
                return;
            }
            let selected = app.selected(pane, &table);
            let page = usize::from(inside.height.saturating_sub(1));
            // What lies beside a list has no cursor: another subject's rows begin at their top.
            let state = if app.place.screen.panes().contains(&pane) {
                app.pane(pane)
            } else {
                PaneState::default()
            };
            let offset = layout::scroll(state.offset, selected.unwrap_or(0), page, table.rows.len());
            let view = grid::View {
                offset,
                selected,
                column: state.column,
                focused,
            };
            grid::table(buffer, inside, theme, &table, view);
        }
    }
}

/// Why a table has no rows.
fn empty(app: &App, pane: Pane, unfiltered: usize) -> String {
    match pane {
        Pane::Messages if app.place.topic().is_some() => return messages::view::empty(app, unfiltered),
        Pane::Letters => return dead::view::letters_empty(app, unfiltered),
        _ => {}
    }
    if unfiltered > 0 {
        return format!("none of {unfiltered} rows passes the filter (esc clears it)");
    }
    let model = app.shown();
    let answered = model.newest_ms().is_some();
    match pane {
        Pane::Beats | Pane::Registrations | Pane::Brokers if !answered => {
            "? no name server has answered yet".to_owned()
        }
        Pane::Beats | Pane::Registrations | Pane::Brokers => "no broker is registered".to_owned(),
        Pane::TopTopics if model.snapshot.topics.is_empty() => {
            "? no broker has told its topics yet".to_owned()
        }
        Pane::TopTopics => "no topic of a user".to_owned(),
        Pane::WorstLag if model.lag_total().value.is_none() => {
            "? no broker has told its groups yet".to_owned()
        }
        Pane::WorstLag => "no group has a position".to_owned(),
        Pane::Log => "nothing happened yet".to_owned(),
        Pane::Replication => match broker_detail::subject(app) {
            Some(b) if !b.broker.is_master() => "– a slave has no slaves".to_owned(),
            Some(b) if b.ha.get().is_some() => "no slave is connected".to_owned(),
            Some(b) if b.ha.is_failed() => format!("✗ {}", b.ha.error.as_deref().unwrap_or("no answer")),
            _ => "? not asked yet".to_owned(),
        },
        Pane::Config => match app.broker() {
            Some(b) if b.config.is_failed() => {
                format!("✗ {}", b.config.error.as_deref().unwrap_or("no answer"))
            }
            _ => "? not asked yet".to_owned(),
        },
        Pane::Topics if model.snapshot.topics.is_empty() => "? no broker has told its topics yet".to_owned(),
        Pane::Topics => format!(
            "no topic of a user; {} makes one, {} {} {} show the others",
            app.key(Command::NewTopic),
            app.key(Command::RetryTopics),
            app.key(Command::DeadTopics),
            app.key(Command::SystemTopics)
        ),
        Pane::Groups | Pane::Positions if model.lag_total().value.is_none() => {
            "? no broker has told its groups yet".to_owned()
        }
        Pane::Groups | Pane::Positions => "no group has a position".to_owned(),
        Pane::Preview => offsets::preview_empty(app),
        Pane::Messages => messages::view::empty(app, unfiltered),
        Pane::Way => messages::view::way_empty(app),
        Pane::DeadGroups => dead::view::groups_empty(app),
        Pane::TopicQueues | Pane::TopicGroups => match app.topic() {
            Some(name) => unanswered(app.found(&Want::Topic(name.to_owned())), "no group uses it"),
            None => "no topic is selected".to_owned(),
        },
        Pane::GroupQueues | Pane::GroupClients => match app.group() {
            Some(name) => unanswered(app.found(&Want::Group(name.to_owned())), "none"),
            None => "no group is selected".to_owned(),
        },
        Pane::Store(_) => store::view::empty(app, pane),
        _ => "nothing".to_owned(),
    }
}

/// `41s old ✗`: an answer that could not be had again; without the sign one that was not asked anew. `None` while it is fresh.
pub fn stale(app: &App, seen: &Seen<Found>) -> Option<String> {
    seen.get()?;
    let age = age_ms(app.shown_ms(), seen.as_of_ms);
    match &seen.error {
        Some(_) => Some(format!("{} old ✗", text::age(age))),
        None if age >= cell::OLD_MS => Some(format!("{} old", text::age(age))),
        None => None,
    }
}

/// Why nothing is shown of what was asked.
fn unanswered(seen: &Seen<Found>, none: &str) -> String {
    match (&seen.error, seen.get()) {
        (Some(why), None) => format!("✗ {why}"),
        (_, None) => "? being asked".to_owned(),
        (_, Some(_)) => none.to_owned(),
    }
}

fn title(app: &App, pane: Pane) -> Vec<Piece> {
    let plain = |text: String| vec![(text, Role::Plain)];
    let counted = |name: &str| {
        let table = app.table(pane);
        let (shown, all) = (table.rows.len(), table.unfiltered);
        if shown == all {
            format!("{name} {all}")
        } else {
            format!("{name} {shown} of {all}")
        }
    };
    match pane {
        Pane::Health => overview::health_title(app),
        Pane::Traffic => plain(overview::traffic_title(app)),
        Pane::Beats => plain("Heartbeats: seconds since last registration  ┆ period  │ limit".to_owned()),
        Pane::TopTopics => plain("Top topics by in/s".to_owned()),
        Pane::WorstLag => plain("Worst lag".to_owned()),
        Pane::NameServers => plain("Name servers".to_owned()),
        Pane::Registrations => plain("Registrations  (= exact, ~ inferred, ? unknown)".to_owned()),
        Pane::Log => plain("Event log (this session)".to_owned()),
        Pane::Brokers => plain(counted("Brokers")),
        Pane::Runtime | Pane::Latency | Pane::Flows | Pane::Replication | Pane::Config => {
            plain(broker_detail::title(app, pane))
        }
        Pane::Topics => plain(topics::title(app)),
        Pane::TopicQueues => plain(topic::title(app)),
        Pane::Scaling => plain("Queue scaling".to_owned()),
        Pane::TopicGroups => plain(topic::groups_title(app)),
        Pane::Groups => plain(counted("Groups")),
        Pane::GroupQueues => plain(group::title(app)),
        Pane::GroupClients => plain(group::clients_title(app)),
        Pane::GroupChart => plain(group::chart_title(app)),
        Pane::Messages => messages::view::title(app),
        Pane::Detail => plain(messages::view::detail_title(app)),
        Pane::Body => plain(messages::rows::body_title(app)),
        Pane::Way => plain(messages::view::way_title(app)),
        Pane::DeadGroups => dead::view::groups_title(app),
        Pane::Letters => plain(dead::view::letters_title(app)),
        Pane::Plan => plain("Resend plan (nothing is sent before R)".to_owned()),
        Pane::Positions => plain(counted("Groups and topics")),
        Pane::Preview => plain(offsets::preview_title(app)),
        Pane::Effect => plain("Effect".to_owned()),
        Pane::Store(_) => store::view::title(app, pane),
    }
}

fn path(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme();
    if let Some(Overlay::Filter(input)) = &app.overlay {
        let line = Rect::new(area.x + 1, area.y, area.width.saturating_sub(1), 1);
        overlay::typed(app, buffer, line, "/", input);
        return;
    }
    if let Some(Overlay::Store(prompt, input)) = &app.overlay {
        let line = Rect::new(area.x + 1, area.y, area.width.saturating_sub(1), 1);
        overlay::typed(app, buffer, line, prompt.label(app.place.screen), input);
        return;
    }
    let mut left = vec![(format!(" {}", app.place.path()), Role::Focus)];
    let here = store::is_here(app).then(|| store::view::path(app));
    if let Some((more, _)) = here.as_ref().filter(|(more, _)| !more.is_empty()) {
        left.push((format!(" > {more}"), Role::Focus));
    }
    let pane = app.focus();
    if let Some(sort) = app.pane(pane).sort {
        let sign = if sort.descending { "▼" } else { "▲" };
        left.push((format!("   sort: {} {sign}", sort.column), Role::Plain));
    }
    if let Some(filter) = app.filter() {
        left.push((format!("   filter: {}", filter.text), Role::Warn));
    }
    if app.zoom {
        left.push(("   zoomed".to_owned(), Role::Plain));
    }
    let notice = (app.notice.as_ref()).map(|(_, notice)| vec![(format!(" {notice} "), Role::Warn)]);
    // A long notice, such as one with the name of a file, has the whole line.
    if let Some(notice) = &notice
        && width(notice) + width(&left) + 1 > usize::from(area.width)
    {
        grid::pieces(buffer, area.x, area.y, area.right(), theme, notice);
        return;
    }
    let after = grid::pieces(buffer, area.x, area.y, area.right(), theme, &left);
    let right = match notice {
        Some(notice) => notice,
        None => here.map_or_else(|| freshness(app), |(_, note)| note),
    };
    let room = Rect::new(after + 1, area.y, area.right().saturating_sub(after + 1), 1);
    at_right(buffer, room, theme, &right);
}

/// `updated 1s ago · broker-c:0 stale 41s ✗`
fn freshness(app: &App) -> Vec<Piece> {
    let model = app.shown();
    let now = app.shown_ms();
    let Some(newest) = model.newest_ms() else {
        return vec![("nothing heard yet ".to_owned(), Role::Plain)];
    };
    let mut line = vec![(
        format!("updated {} ago ", text::age(age_ms(now, newest))),
        Role::Plain,
    )];
    let mut stale = model.snapshot.brokers.iter().filter(|b| b.is_silent());
    if let Some(broker) = stale.next() {
        let more = match stale.count() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let age = broker.last_answer_ms.map_or_else(
            || "no answer".to_owned(),
            |at| format!("stale {}", text::age(age_ms(now, at))),
        );
        line.push((format!("· {} {age}{more} ✗ ", broker.broker), Role::Crit));
    }
    line
}

/// The keys that move the selection.
fn moves(app: &App) -> String {
    let (down, up) = (app.key(Command::Down), app.key(Command::Up));
    match (down.as_str(), up.as_str()) {
        // k finds by key there.
        ("j", "up") => "↑↓".to_owned(),
        _ => format!("{down}/{up}"),
    }
}

/// Which pane has the focus, from 1, of how many, when not all of them are on the terminal.
fn hidden_panes(app: &App) -> Option<(usize, usize)> {
    let all = app.place.screen.panes();
    let shown = layout::areas(app)?.panes.len();
    let at = all.iter().position(|pane| *pane == app.focus())?;
    (shown < all.len()).then_some((at + 1, all.len()))
}

/// Keys of the screen that fit, from the key table.
fn footer(app: &App, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme();
    if let Some(overlay) = &app.overlay {
        let text = match overlay {
            Overlay::Store(..) => " text input   enter go   tab completes a topic   esc cancel",
            Overlay::Filter(_) => " text input   enter keep   esc clear",
            Overlay::Palette(..) => " text input   ↑↓ choose   enter do   esc close",
            Overlay::Sort(_) => &format!(" {} choose   enter sort   esc close", moves(app)),
            Overlay::Export(_) => &format!(" {} choose   enter write   esc close", moves(app)),
            Overlay::Help(_) | Overlay::Diff(_) | Overlay::Sheet(..) => {
                &format!(" {} scroll   esc close", moves(app))
            }
            // A form of a search changes nothing.
            Overlay::Form(form) if messages::is_search(&form.base) => {
                " text input   tab next field   enter searches   esc cancel"
            }
            Overlay::Form(_) => {
                " text input   tab next field   enter go on: shows what would change   esc cancel"
            }
            Overlay::Leave => " q leave   esc stay",
            Overlay::Work(id) => match app.work(*id) {
                Some(work) => &dialog::work_footer(work, &app.settings.context),
                None => " esc close",
            },
        };
        grid::put(
            buffer,
            area.x,
            area.y,
            area.right(),
            text,
            theme.style(Role::Plain),
        );
        return;
    }
    // The screens have their numbers above; that a pane is there which has no room stands nowhere else.
    let hidden = hidden_panes(app);
    let second = match hidden {
        Some((at, all)) => (app.key(Command::NextPane), format!(" pane {at}/{all}")),
        None => ("1-9".to_owned(), " screen".to_owned()),
    };
    let mut groups: Vec<[Piece; 2]> = vec![
        [(moves(app), Role::Label), (" move".to_owned(), Role::Plain)],
        [(second.0, Role::Label), (second.1, Role::Plain)],
    ];
    groups.extend(
        (app.settings.keys)
            .on_screen(app.place.screen, app.settings.read_only)
            .filter(|b| !b.footer.is_empty())
            .filter(|b| hidden.is_none() || b.command != Command::NextPane)
            .filter(|b| app.place.screen != Screen::Store || !b.command.is_view())
            .map(|b| {
                [
                    (b.first_key().to_owned(), Role::Label),
                    (format!(" {}", b.footer), Role::Plain),
                ]
            }),
    );
    // Help and quit always stay: they are the way to all others.
    let tail: Vec<[Piece; 2]> = groups.split_off(groups.len() - 2);
    let tail_columns: usize = tail.iter().map(|g| width(g) + 2).sum();
    let mut x = area.x + 1;
    for group in groups.iter().chain(&tail) {
        let is_tail = tail.contains(group);
        let need = width(group) + if is_tail { 0 } else { 2 + tail_columns };
        if usize::from(x) + need > usize::from(area.right()) {
            continue;
        }
        x = grid::pieces(buffer, x, area.y, area.right(), theme, group);
        x += 2;
    }
}
