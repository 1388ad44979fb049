//! What lies over a screen: help, palette, sort columns, differences of two name servers.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::Piece;
use super::theme::Role;
use super::{dialog, grid, rows};
use crate::tui::app::{App, Overlay};
use crate::tui::input::Input;
use crate::tui::keys::Command;
use crate::tui::palette;
use crate::tui::want::Want;

/// Draws the overlay, if there is one.
pub fn draw(app: &App, buffer: &mut Buffer) {
    match &app.overlay {
        None | Some(Overlay::Filter(_) | Overlay::Store(..)) => {}
        Some(Overlay::Form(form)) => dialog::form(app, form, buffer),
        Some(Overlay::Work(id)) => dialog::work(app, *id, buffer),
        Some(Overlay::Sheet(words, line)) => dialog::sheet(app, words, *line, buffer),
        Some(Overlay::Leave) => dialog::leave(app, buffer),
        Some(Overlay::Export(selected)) => {
            let lines = dialog::export_lines();
            list(
                app,
                buffer,
                "Write the rows of this pane as",
                None,
                &lines,
                *selected,
            );
        }
        Some(Overlay::Help(line)) => {
            let title = format!("Keys on {}", app.place.screen.name());
            scrolled(app, buffer, &title, help(app), *line);
        }
        Some(Overlay::Diff(line)) => {
            scrolled(app, buffer, "Name servers: where they differ", diff(app), *line)
        }
        Some(Overlay::Sort(selected)) => {
            let columns = rows::of(app, app.focus()).columns;
            let sort = app.pane(app.focus()).sort;
            let lines: Vec<Vec<Piece>> = columns
                .iter()
                .map(|c| {
                    let mark = match &sort {
                        Some(s) if s.column == c.name => {
                            if s.descending {
                                " ▼"
                            } else {
                                " ▲"
                            }
                        }
                        _ => "",
                    };
                    vec![(format!("{}{mark}", c.name), Role::Plain)]
                })
                .collect();
            list(
                app,
                buffer,
                "Sort by (enter; again reverses)",
                None,
                &lines,
                *selected,
            );
        }
        Some(Overlay::Palette(input, selected)) => {
            let lines: Vec<Vec<Piece>> = palette::palette(app, input.text())
                .into_iter()
                .map(|e| vec![(e.label, Role::Plain)])
                .collect();
            list(app, buffer, "Go to or do", Some(input), &lines, *selected);
        }
    }
}

/// The first line of the last page of a scrolled overlay.
pub fn last_line(app: &App, overlay: &Overlay) -> usize {
    let lines = match overlay {
        Overlay::Help(_) => help(app).len(),
        Overlay::Diff(_) => diff(app).len(),
        Overlay::Sheet(words, _) => dialog::sheet_lines(app, words).len(),
        _ => return usize::MAX,
    };
    lines.saturating_sub(usize::from(app.size.1).saturating_sub(4))
}

/// Every key that does something here, from the key table.
fn help(app: &App) -> Vec<Vec<Piece>> {
    let keys = &app.settings.keys;
    let mut lines: Vec<Vec<Piece>> = keys
        .on_screen(app.place.screen, app.settings.read_only)
        .map(|binding| {
            vec![
                (format!("{:<14}", binding.keys.join(" ")), Role::Label),
                (binding.help.to_owned(), Role::Plain),
            ]
        })
        .collect();
    let legend = [
        "",
        "Rates of brokers, and of topics with a group, are differences between two looks; others the brokers' own of a",
        "minute, asked every 10 s, and of a group, while those say nought, how far its positions moved.",
        "Backlogs are asked every 10 s; slope, trend and ETA are of the last 60 s. What moved by less than 1 % a minute,",
        "by fewer than 5 messages, or by no more than it swings, is flat.",
        "?  not asked yet or not knowable     ✗  asked, failed     –  does not apply",
        "≥  a part is missing from the sum    ~  inferred or getting old    =  exact",
    ];
    lines.extend(legend.map(|line| vec![(line.to_owned(), Role::Plain)]));
    lines
}

/// How much of the routes was compared: permissions and queue counts.
fn routes_seen(app: &App) -> String {
    match app.compared() {
        Some(compared) if compared.is_whole() => {
            format!(
                "= permissions and queue counts of all {} topics are compared",
                compared.of
            )
        }
        Some(compared) => format!(
            "? permissions and queue counts of {} of {} topics are compared so far",
            compared.topics, compared.of
        ),
        None => match &app.found(&Want::Routes).error {
            Some(why) => format!("✗ permissions and queue counts: {why}"),
            None => "? permissions and queue counts are being asked for".to_owned(),
        },
    }
}

fn diff(app: &App) -> Vec<Vec<Piece>> {
    let servers = &app.shown().snapshot.name_servers;
    let mut lines = Vec::new();
    for (i, a) in servers.iter().enumerate() {
        for (j, b) in servers.iter().enumerate().skip(i + 1) {
            lines.push(vec![(
                format!("ns{} {} and ns{} {}", i + 1, a.addr, j + 1, b.addr),
                Role::Label,
            )]);
            if !a.is_up() || !b.is_up() {
                lines.push(vec![("  ? not both answer".to_owned(), Role::Plain)]);
                continue;
            }
            let differ = rows::disagreements(app, (i, a), (j, b));
            if differ.is_empty() {
                lines.push(vec![(
                    "  ✓ list the same brokers and topics".to_owned(),
                    Role::Ok,
                )]);
            }
            lines.extend(
                differ
                    .into_iter()
                    .map(|(what, says)| vec![(format!("  {what}: {says}"), Role::Warn)]),
            );
            lines.push(vec![(format!("  {}", routes_seen(app)), Role::Plain)]);
        }
    }
    if servers.len() < 2 {
        lines.push(vec![("– there is one name server only".to_owned(), Role::Plain)]);
    }
    lines
}

/// A box in the middle, cleared.
pub(super) fn window(app: &App, buffer: &mut Buffer, title: &str, width: u16, height: u16) -> Rect {
    let all = buffer.area;
    let (width, height) = (width.min(all.width), height.min(all.height));
    let area = Rect::new(
        all.x + (all.width - width) / 2,
        all.y + (all.height - height) / 2,
        width,
        height,
    );
    for y in area.top()..area.bottom() {
        for x in area.left()..area.right() {
            buffer[(x, y)].reset();
        }
    }
    // A wide character that began left of the box must not reach into it.
    if area.x > 0 {
        for y in area.top()..area.bottom() {
            let cell = &mut buffer[(area.x - 1, y)];
            if super::text::width(cell.symbol()) > 1 {
                cell.set_symbol(" ");
            }
        }
    }
    let title = [(title.to_owned(), Role::Plain)];
    let inside = grid::frame(buffer, area, app.theme(), &title, true);
    Rect::new(
        inside.x + 1,
        inside.y,
        inside.width.saturating_sub(2),
        inside.height,
    )
}

pub(super) fn scrolled(app: &App, buffer: &mut Buffer, title: &str, lines: Vec<Vec<Piece>>, line: usize) {
    let height = u16::try_from(lines.len() + 2).unwrap_or(u16::MAX);
    let wide = |line: &Vec<Piece>| line.iter().map(|(t, _)| super::text::width(t)).sum::<usize>() + 4;
    let widest = u16::try_from(lines.iter().map(wide).max().unwrap_or(0)).unwrap_or(u16::MAX);
    let inside = window(
        app,
        buffer,
        title,
        84.max(widest.min(buffer.area.width.saturating_sub(4))),
        height.min(buffer.area.height.saturating_sub(2)),
    );
    let last = lines.len().saturating_sub(usize::from(inside.height));
    let from = line.min(last);
    for (line, y) in lines.iter().skip(from).zip(inside.top()..inside.bottom()) {
        grid::pieces(buffer, inside.x, y, inside.right(), app.theme(), line);
    }
    if from < last {
        let more = format!(" {} more, {} ", last - from, app.key(Command::Down));
        let x = inside
            .right()
            .saturating_sub(u16::try_from(more.len()).unwrap_or(0));
        grid::put(
            buffer,
            x,
            inside.bottom(),
            inside.right(),
            &more,
            app.theme().style(Role::Focus),
        );
    }
}

fn list(
    app: &App,
    buffer: &mut Buffer,
    title: &str,
    input: Option<&Input>,
    lines: &[Vec<Piece>],
    selected: usize,
) {
    let head = usize::from(input.is_some());
    let height = u16::try_from(lines.len() + head + 2).unwrap_or(u16::MAX);
    let height = height.min(buffer.area.height * 2 / 3).max(4);
    let inside = window(app, buffer, title, 50, height);
    let theme = app.theme();
    let mut y = inside.y;
    if let Some(input) = input {
        typed(app, buffer, Rect { height: 1, ..inside }, ":", input);
        y += 1;
    }
    let room = usize::from(inside.bottom().saturating_sub(y));
    let from = (selected + 1).saturating_sub(room);
    for ((index, line), y) in lines.iter().enumerate().skip(from).zip(y..inside.bottom()) {
        grid::pieces(buffer, inside.x, y, inside.right(), theme, line);
        if index == selected {
            buffer.set_style(
                Rect::new(inside.x, y, inside.width, 1),
                theme.style(Role::Selected),
            );
        }
    }
    if lines.is_empty() {
        grid::put(
            buffer,
            inside.x,
            y,
            inside.right(),
            "nothing is called that",
            theme.style(Role::Plain),
        );
    }
}

/// A line being typed, with its cursor.
pub fn typed(app: &App, buffer: &mut Buffer, area: Rect, sign: &str, input: &Input) -> u16 {
    let theme = app.theme();
    let (before, after) = input.parts();
    let plain = theme.style(Role::Plain);
    let mut x = grid::put(
        buffer,
        area.x,
        area.y,
        area.right(),
        sign,
        theme.style(Role::Label),
    );
    // The end of a long line matters while it is typed.
    let room = usize::from(area.right().saturating_sub(x)).saturating_sub(2);
    let mut shown = before;
    while super::text::width(shown) > room {
        let skip = shown.chars().next().map_or(0, char::len_utf8);
        shown = &shown[skip..];
    }
    x = grid::put(buffer, x, area.y, area.right(), shown, plain);
    x = grid::put(buffer, x, area.y, area.right(), "▏", theme.style(Role::Focus));
    grid::put(buffer, x, area.y, area.right(), after, plain)
}
