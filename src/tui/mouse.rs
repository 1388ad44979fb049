//! The mouse, while it is ours: the wheel moves, a click focuses and selects, a click on a tab goes there. Pure.

use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::app::{Action, App};
use super::keys::Command;
use super::place::{Pane, Screen};
use super::view::layout;

/// Rows that one notch of the wheel moves.
const NOTCH: usize = 3;

/// Takes what the mouse did. Over a dialog it does nothing: what is confirmed is typed.
pub(super) fn update(app: &mut App, mouse: MouseEvent, actions: &mut Vec<Action>) {
    if app.overlay.is_some() {
        return;
    }
    match mouse.kind {
        MouseEventKind::ScrollDown => app.step(true, NOTCH),
        MouseEventKind::ScrollUp => app.step(false, NOTCH),
        MouseEventKind::Down(MouseButton::Left) => click(app, mouse.column, mouse.row, actions),
        _ => {}
    }
}

fn click(app: &mut App, column: u16, row: u16, actions: &mut Vec<Action>) {
    let Some(areas) = layout::areas(app) else {
        return;
    };
    if row == areas.tabs.y {
        if let Some(screen) = tab_at(column, super::view::tab_gap(app.size.0)) {
            super::update::run(app, Command::Go(screen), actions);
        }
        return;
    }
    let at = Position::new(column, row);
    let Some(&(pane, area)) = areas.panes.iter().find(|(_, area)| area.contains(at)) else {
        return;
    };
    // Details beside a list have no cursor of their own.
    if !app.place.screen.panes().contains(&pane) {
        return;
    }
    app.focus.insert(app.place.screen, pane);
    // Below the frame and the heading.
    let page = area.height.saturating_sub(3);
    // Findings take several lines each, without a heading: only the focus goes there.
    let line = row
        .checked_sub(area.y + 2)
        .filter(|line| *line < page && pane != Pane::Health);
    if let Some(line) = line {
        let offset = app.pane(pane).offset;
        if offset + usize::from(line) < app.table(pane).rows.len() {
            app.select(offset + usize::from(line));
        }
    }
}

/// The screen whose tab stands at a column: each takes its text and a sign, and the gap twice.
fn tab_at(column: u16, gap: u16) -> Option<Screen> {
    let mut x = 1;
    for (screen, name) in Screen::tabs() {
        let width = u16::try_from(name.len()).ok()? + 1 + gap;
        if (x..x + width).contains(&column) {
            return Some(screen);
        }
        x += width + gap;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tabs_stand_where_they_are_drawn() {
        // " [1 Over]  2 Beats   3 Brokers ..."
        assert_eq!(tab_at(0, 1), None);
        assert_eq!(tab_at(1, 1), Some(Screen::Overview));
        assert_eq!(tab_at(8, 1), Some(Screen::Overview));
        assert_eq!(tab_at(11, 1), Some(Screen::Heartbeats));
        assert_eq!(tab_at(300, 1), None);
    }
}
