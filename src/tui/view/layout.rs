//! Where everything is on the terminal. Pure: the same for drawing and for paging.

use ratatui::layout::Rect;

use super::{overview, rows};
use crate::tui::app::{App, Pane, Screen};
use crate::tui::{dead, messages};

/// Smallest terminal that is drawn on.
pub const LEAST: (u16, u16) = (60, 16);
/// Columns from which lists have their details beside them and all columns are shown: three fifths for the list are as many
/// columns then as a narrow terminal has for it, and the rest holds queue, offsets, group and lag of a detail.
pub const WIDE: u16 = 160;
/// Columns and rows of the body from which more than the two most important panes fit.
const ROOMY: (u16, u16) = (96, 22);

/// Rows of the scaling pane, frame included.
const SCALING: u16 = 10;

/// Rows of the body from which charts have several lines.
const TALL: u16 = 44;

/// The parts of the terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Areas {
    /// Context, totals, clock.
    pub header: Rect,
    /// Screens.
    pub tabs: Rect,
    /// One line when no name server answers.
    pub banner: Option<Rect>,
    /// Panes in drawing order.
    pub panes: Vec<(Pane, Rect)>,
    /// Path, order, filter, age of the data.
    pub path: Rect,
    /// Keys.
    pub footer: Rect,
}

/// Divides the terminal; `None` when it is too small.
pub fn areas(app: &App) -> Option<Areas> {
    let (width, height) = app.size;
    if width < LEAST.0 || height < LEAST.1 {
        return None;
    }
    let line = |y| Rect::new(0, y, width, 1);
    let banner = app.shown().all_down_since_ms().map(|_| line(2));
    let top = 2 + u16::from(banner.is_some());
    let body = Rect::new(0, top, width, height - top - 2);
    let panes = if app.zoom {
        vec![(app.focus(), body)]
    } else {
        match app.place.screen {
            Screen::Overview => overview(app, body),
            Screen::Heartbeats => heartbeats(app, body),
            Screen::Brokers => brokers(app, body),
            Screen::Broker => broker(app, body),
            Screen::Topics => list_and_details(Pane::Topics, body, topic_beside),
            Screen::Topic => topic(app, body),
            Screen::Groups => list_and_details(Pane::Groups, body, group_beside),
            Screen::Group => group(app, body),
            Screen::Messages => messages::view::layout(app, body),
            Screen::Dead => dead::view::layout(app, body),
            Screen::Offsets => offsets(app, body),
            Screen::Store | Screen::StoreQueues | Screen::StoreIndex | Screen::StoreChecks => {
                crate::tui::store::view::areas(app, body)
            }
        }
    };
    Some(Areas {
        header: line(0),
        tabs: line(1),
        banner,
        panes,
        path: line(height - 2),
        footer: line(height - 1),
    })
}

/// Rows of a table that a pane shows; 0 when it is not on the screen.
pub fn page(app: &App, pane: Pane) -> usize {
    let areas = areas(app);
    let found = areas.iter().flat_map(|a| &a.panes).find(|(p, _)| *p == pane);
    let beside = match pane {
        // Panes of lines have no heading.
        Pane::Detail | Pane::Body => 2,
        Pane::Messages => 3 + messages::view::talk(app).len(),
        _ => 3,
    };
    found.map_or(0, |(_, r)| usize::from(r.height).saturating_sub(beside))
}

/// The offset nearest to `offset` at which the row at `index` is in view.
pub fn scroll(offset: usize, index: usize, page: usize, rows: usize) -> usize {
    let page = page.max(1);
    let last = rows.saturating_sub(page);
    let offset = offset.min(index).max((index + 1).saturating_sub(page));
    offset.min(last)
}

/// True when more than the two most important panes fit.
pub fn roomy(body: Rect) -> bool {
    body.width >= ROOMY.0 && body.height >= ROOMY.1
}

/// Splits off the upper `height` rows.
pub fn above(area: Rect, height: u16) -> (Rect, Rect) {
    let height = height.min(area.height);
    (
        Rect { height, ..area },
        Rect {
            y: area.y + height,
            height: area.height - height,
            ..area
        },
    )
}

/// Splits off the left `width` columns.
pub fn left(area: Rect, width: u16) -> (Rect, Rect) {
    let width = width.min(area.width);
    (
        Rect { width, ..area },
        Rect {
            x: area.x + width,
            width: area.width - width,
            ..area
        },
    )
}

fn rows_of(app: &App, pane: Pane) -> u16 {
    u16::try_from(rows::of(app, pane).rows.len()).unwrap_or(u16::MAX)
}

/// Lines that the findings need in a pane of this width, frame included.
fn health_height(app: &App, width: u16) -> u16 {
    let lines = overview::health_lines(app, usize::from(width.saturating_sub(4)));
    u16::try_from(lines.len().max(1))
        .unwrap_or(u16::MAX)
        .saturating_add(2)
}

fn overview(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if !roomy(body) {
        let (health, rest) = above(body, health_height(app, body.width).clamp(4, body.height / 2));
        let second = match app.focus() {
            Pane::Health => Pane::Beats,
            other => other,
        };
        return vec![(Pane::Health, health), (second, rest)];
    }
    // A tall terminal has room for charts of several lines.
    let least = if body.height >= TALL { 17 } else { 7 };
    let wanted = health_height(app, body.width / 2);
    let (first, rest) = above(body, wanted.clamp(least, (body.height / 3).max(least)));
    let (health, traffic) = left(first, body.width / 2);
    let beats_height = rows_of(app, Pane::Beats).saturating_add(3);
    let (beats, last) = above(rest, beats_height.clamp(5, rest.height.saturating_sub(7).max(5)));
    let (topics, lag) = left(last, body.width * 2 / 5);
    vec![
        (Pane::Health, health),
        (Pane::Traffic, traffic),
        (Pane::Beats, beats),
        (Pane::TopTopics, topics),
        (Pane::WorstLag, lag),
    ]
}

fn heartbeats(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    let servers = rows_of(app, Pane::NameServers).saturating_add(3);
    let (servers, rest) = above(body, servers.min((body.height / 3).max(4)));
    if !roomy(body) {
        let second = if app.focus() == Pane::Log {
            Pane::Log
        } else {
            Pane::Registrations
        };
        return vec![(Pane::NameServers, servers), (second, rest)];
    }
    let wanted = rows_of(app, Pane::Registrations).saturating_add(3);
    let (registrations, log) = above(rest, wanted.clamp(5, rest.height.saturating_sub(7).max(5)));
    vec![
        (Pane::NameServers, servers),
        (Pane::Registrations, registrations),
        (Pane::Log, log),
    ]
}

fn brokers(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if body.width >= WIDE {
        let (list, detail) = left(body, body.width * 3 / 5);
        let (runtime, rest) = above(detail, 14);
        let (latency, flows) = above(rest, 18);
        return vec![
            (Pane::Brokers, list),
            (Pane::Runtime, runtime),
            (Pane::Latency, latency),
            (Pane::Flows, flows),
        ];
    }
    // The list keeps a few rows; what the selected broker says comes below it.
    const DETAIL: u16 = 12;
    const FLOWS: u16 = 4;
    let list_height = rows_of(app, Pane::Brokers).saturating_add(3).clamp(6, 12);
    let left_over = body.height.saturating_sub(list_height);
    if left_over < DETAIL {
        return vec![(Pane::Brokers, body)];
    }
    let with_flows = roomy(body) && left_over >= DETAIL + FLOWS;
    let detail_height = if with_flows { DETAIL + FLOWS } else { DETAIL };
    let (list, detail) = above(body, body.height - detail_height);
    let (upper, flows) = above(detail, DETAIL);
    if !roomy(body) {
        return vec![(Pane::Brokers, list), (Pane::Runtime, upper)];
    }
    let (runtime, latency) = left(upper, body.width / 2);
    let mut panes = vec![
        (Pane::Brokers, list),
        (Pane::Runtime, runtime),
        (Pane::Latency, latency),
    ];
    if with_flows {
        panes.push((Pane::Flows, flows));
    }
    panes
}

fn broker(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if !roomy(body) {
        return vec![(app.focus(), body)];
    }
    let (upper, rest) = above(body, 12);
    let (runtime, latency) = left(upper, body.width / 2);
    let (flows, rest) = above(rest, 4);
    let (replication, config) = left(rest, body.width / 2);
    vec![
        (Pane::Runtime, runtime),
        (Pane::Latency, latency),
        (Pane::Flows, flows),
        (Pane::Replication, replication),
        (Pane::Config, config),
    ]
}

/// True when the list of this screen has its details beside it.
pub fn has_details(app: &App) -> bool {
    app.size.0 >= WIDE && !app.zoom
}

/// The list on the left; on a wide terminal, what a drill shows of the row under the cursor on the right.
fn list_and_details(list: Pane, body: Rect, details: fn(Rect) -> Vec<(Pane, Rect)>) -> Vec<(Pane, Rect)> {
    if body.width < WIDE {
        return vec![(list, body)];
    }
    let (left, right) = left(body, body.width * 3 / 5);
    std::iter::once((list, left)).chain(details(right)).collect()
}

/// The panes of a topic one above the other. Their heights do not depend on the topic: nothing jumps under a moving cursor.
fn topic_beside(area: Rect) -> Vec<(Pane, Rect)> {
    if area.height < ROOMY.1 {
        return vec![(Pane::TopicQueues, area)];
    }
    let (queues, rest) = above(area, (area.height - SCALING) * 3 / 5);
    let (scaling, groups) = above(rest, SCALING);
    vec![
        (Pane::TopicQueues, queues),
        (Pane::Scaling, scaling),
        (Pane::TopicGroups, groups),
    ]
}

/// The panes of a group one above the other.
fn group_beside(area: Rect) -> Vec<(Pane, Rect)> {
    if area.height < ROOMY.1 {
        return vec![(Pane::GroupQueues, area)];
    }
    group_panes(area, if area.height >= TALL { 12 } else { 6 })
}

fn topic(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if !roomy(body) {
        return vec![(app.focus(), body)];
    }
    let (queues, rest) = above(body, body.height - SCALING);
    let (scaling, groups) = left(rest, body.width * 3 / 5);
    vec![
        (Pane::TopicQueues, queues),
        (Pane::Scaling, scaling),
        (Pane::TopicGroups, groups),
    ]
}

fn group(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if !roomy(body) {
        return vec![(app.focus(), body)];
    }
    let clients = rows_of(app, Pane::GroupClients).saturating_add(3).clamp(4, 8);
    group_panes(body, clients)
}

/// Queues, clients in so many lines, and the chart.
fn group_panes(body: Rect, clients: u16) -> Vec<(Pane, Rect)> {
    let chart = if body.height >= TALL { 14 } else { 6 };
    let (queues, rest) = above(body, body.height - clients - chart);
    let (clients, chart) = above(rest, clients);
    vec![
        (Pane::GroupQueues, queues),
        (Pane::GroupClients, clients),
        (Pane::GroupChart, chart),
    ]
}

/// Rows of what a reset means: all of it, as long as the rows of its queues have some.
fn effect_rows(app: &App, area: Rect) -> u16 {
    let lines = super::offsets::effect_lines(app, usize::from(area.width.saturating_sub(4))).len();
    let most = area.height.saturating_sub(7).max(8);
    u16::try_from(lines + 2).unwrap_or(u16::MAX).clamp(8, most)
}

fn offsets(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    if !roomy(body) {
        // What a reset means is as important as its rows.
        let shown = match app.focus() {
            Pane::Positions => return vec![(Pane::Positions, body)],
            other => other,
        };
        if shown == Pane::Effect {
            return vec![(Pane::Effect, body)];
        }
        let effect = effect_rows(app, body);
        let (preview, effect) = above(body, body.height.saturating_sub(effect));
        return vec![(Pane::Preview, preview), (Pane::Effect, effect)];
    }
    let (positions, rest) = above(body, (body.height / 3).max(6));
    let effect = effect_rows(app, rest);
    let (preview, effect) = above(rest, rest.height.saturating_sub(effect));
    vec![
        (Pane::Positions, positions),
        (Pane::Preview, preview),
        (Pane::Effect, effect),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrolling_moves_no_more_than_needed() {
        assert_eq!(scroll(0, 4, 5, 20), 0);
        assert_eq!(scroll(0, 5, 5, 20), 1);
        assert_eq!(scroll(10, 3, 5, 20), 3);
        assert_eq!(scroll(10, 12, 5, 20), 10);
        assert_eq!(scroll(18, 19, 5, 20), 15);
        assert_eq!(scroll(7, 0, 0, 0), 0);
    }
}
