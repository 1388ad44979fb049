//! The index in pictures: how the slots fill, the chain of a key, how long chains are.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{digits, label, lines, plain, table};
use crate::inspect::{HeatCell, Survey};
use crate::tui::app::App;
use crate::tui::keys::Command;
use crate::tui::place::{Pane, Part};
use crate::tui::store::answer::{Chain, KeyFound, Surveyed};
use crate::tui::store::question::What;
use crate::tui::store::wants::{SMALL, to_read};
use crate::tui::store::{Lookup, Order, index_file, rows};
use crate::tui::view::bar::{self, Piece};
use crate::tui::view::theme::Role;
use crate::tui::view::{grid, layout, text};

/// Positions that the cursor of the heat map tells apart, so that it stays when the terminal is resized.
pub const FINE: usize = 1 << 20;
/// Columns of the slot numbers beside the heat map.
const MARGIN: u16 = 6;
/// Most columns of the heat map.
const MOST_COLUMNS: usize = 128;
/// Lines that are written above the chain in the lookup pane.
const HEAD: u16 = 3;

fn surveyed(app: &App) -> Option<&Surveyed> {
    app.store.surveys.get(&index_file(app)?.name)
}

fn survey(app: &App) -> Option<&Survey> {
    surveyed(app)?.survey.as_ref()
}

/// The chain in the lookup pane: of the slot, or of the key in the selected file.
pub fn chain(app: &App) -> Option<&Chain> {
    match &app.store.lookup {
        Lookup::Slot { .. } => app.store.chain.value.as_ref(),
        Lookup::Key { .. } => {
            let file = index_file(app)?;
            let chains = &app.store.key.value.as_ref()?.chains;
            chains.iter().find(|chain| chain.file == file.name)
        }
        Lookup::Nothing | Lookup::Hottest => None,
    }
}

fn shape_in(area: Rect) -> (usize, usize) {
    let columns = usize::from(area.width.saturating_sub(MARGIN + 2)).clamp(1, MOST_COLUMNS);
    (columns, usize::from(area.height.saturating_sub(2)).max(1))
}

/// Columns and rows of the heat map now.
pub fn heat_shape(app: &App) -> (usize, usize) {
    let areas = layout::areas(app);
    let found = areas
        .iter()
        .flat_map(|areas| &areas.panes)
        .find(|(pane, _)| *pane == Pane::Store(Part::Heat));
    found.map_or((1, 1), |(_, area)| {
        shape_in(Rect::new(
            0,
            0,
            area.width.saturating_sub(2),
            area.height.saturating_sub(2),
        ))
    })
}

/// How many cells the heat map has now: no more than slots, or parts of the survey.
pub fn heat_count(app: &App) -> usize {
    let (columns, rows) = heat_shape(app);
    counted(app, columns * rows)
}

fn counted(app: &App, cells: usize) -> usize {
    let Some(survey) = survey(app) else { return 1 };
    // A survey of so many slots tells apart no more parts than it has.
    let parts = usize::try_from(survey.slots)
        .unwrap_or(cells)
        .min(survey.cells.len());
    parts.clamp(1, cells.max(1))
}

/// The cell under the cursor, of so many.
pub fn heat_cell(app: &App, cells: usize) -> usize {
    (app.store.cell.min(FINE - 1) * cells / FINE).min(cells.saturating_sub(1))
}

/// The parts of the survey added up to so many cells; fewer when there are fewer slots.
pub fn heat_cells(app: &App, cells: usize) -> Vec<HeatCell> {
    let Some(survey) = survey(app) else {
        return Vec::new();
    };
    let mut out = vec![HeatCell::default(); cells];
    let parts = survey.cells.len().max(1);
    for (n, &part) in survey.cells.iter().enumerate() {
        if let Some(cell) = out.get_mut(n * cells / parts) {
            *cell = cell.and(part);
        }
    }
    out
}

/// The sign of a cell: how its mean chain compares with that of the whole file. A slot that is far longer than the
/// rest shows as full.
fn shade(cell: &HeatCell, mean: f64, hot: u32) -> (char, Role) {
    if cell.slots == 0 {
        return (' ', Role::Plain);
    }
    if cell.items == 0 {
        return ('·', Role::Plain);
    }
    if cell.longest >= hot {
        return ('█', Role::Crit);
    }
    #[allow(clippy::cast_precision_loss)]
    let load = cell.items as f64 / cell.slots as f64 / mean;
    match load {
        load if load < 0.9 => ('░', Role::Data),
        load if load < 1.1 => ('▒', Role::Data),
        load if load < 1.5 => ('▓', Role::Data),
        _ => ('█', Role::Warn),
    }
}

/// Items from which a chain stands out.
fn hot(survey: &Survey) -> u32 {
    let usual = u32::try_from(survey.length_of(990)).unwrap_or(u32::MAX);
    usual.saturating_mul(2).max(8)
}

#[allow(clippy::cast_precision_loss)]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

/// The titles.
pub fn title(app: &App, pane: Pane) -> Vec<Piece> {
    match pane {
        Pane::Store(Part::Heat) => {
            let slots = index_file(app).and_then(|file| file.slots.1).unwrap_or(0);
            let each = slots / heat_count(app) as u64;
            let each = if each > 1 && survey(app).is_some() {
                format!("  1 cell ≈ {} slots", digits(each))
            } else {
                String::new()
            };
            vec![plain(format!("slot heat map{each}"))]
        }
        Pane::Store(Part::Lookup) => vec![plain(match &app.store.lookup {
            Lookup::Nothing => "lookup".to_owned(),
            Lookup::Key { topic, key } => match topic {
                Some(topic) => format!("lookup  key {topic}#{key}"),
                None => format!("lookup  key {key} of any topic"),
            },
            Lookup::Slot { slot, .. } => format!("lookup  slot {}", digits(*slot)),
            Lookup::Hottest => "hottest slots".to_owned(),
        })],
        _ => vec![plain("chain length distribution")],
    }
}

/// A word about the file for the path line.
pub fn note(app: &App) -> Vec<Piece> {
    let Some(seen) = surveyed(app) else {
        return Vec::new();
    };
    let Some(survey) = &seen.survey else {
        return Vec::new();
    };
    if survey.broken > 0 {
        let live = if app.store.is_live() {
            ", a broker is writing"
        } else {
            ""
        };
        let first = survey
            .broken_links
            .first()
            .map_or_else(String::new, |&(item, found, expected)| {
                format!(
                    "; first: item {} leads to {}, not {}",
                    digits(item),
                    digits(found),
                    digits(expected)
                )
            });
        return vec![(
            format!("✗ {} broken links{first}{live} ", digits(survey.broken)),
            Role::Crit,
        )];
    }
    if survey.behind_count > 0 && app.store.is_live() {
        return vec![plain(format!(
            "{} slots are ahead of the header: a broker is writing ",
            digits(survey.behind_count)
        ))];
    }
    if survey.behind_count > 0 {
        return vec![(
            format!(
                "! {} slots lead behind the count of the header ",
                digits(survey.behind_count)
            ),
            Role::Warn,
        )];
    }
    if survey.disordered > 0 {
        return vec![(
            format!(
                "! {} items lead before the record of the item before ",
                digits(survey.disordered)
            ),
            Role::Warn,
        )];
    }
    match seen.hot.first() {
        Some(top) if top.of_hash > 1 && top.items >= hot(survey) => vec![plain(format!(
            "max {}: {} entries share key {} ",
            top.items,
            digits(top.of_hash),
            top.key.as_deref().unwrap_or("?")
        ))],
        _ => vec![("✓ all links lead where they must ".to_owned(), Role::Ok)],
    }
}

fn progress(app: &App) -> Vec<Vec<Piece>> {
    let Some(file) = index_file(app) else {
        return vec![vec![plain("no index file")]];
    };
    let runs = app
        .store
        .runs(|what| matches!(what, What::Survey { file: of, .. } if *of == file.name));
    if file.slots.1.is_none() {
        return vec![vec![(
            "! its length does not tell how many slots it has".to_owned(),
            Role::Warn,
        )]];
    }
    if file.items.0 <= 0 {
        return vec![vec![plain("no item yet")]];
    }
    match surveyed(app) {
        _ if !runs && to_read(file) > SMALL => vec![
            vec![plain(format!(
                "{} items, {} to read",
                digits(file.items.0),
                text::bytes(to_read(file))
            ))],
            vec![plain(format!(
                "{} counts its chains",
                app.key(Command::Store(Order::Verify))
            ))],
        ],
        Some(seen) => {
            let done = ratio(seen.done.0, seen.done.1);
            vec![
                vec![plain(format!("counting chains  {:.0}%", done * 100.0))],
                vec![(bar::gauge(done, 30), Role::Data)],
                vec![plain(format!("{} stops", app.key(Command::Store(Order::Stop))))],
            ]
        }
        None => vec![vec![plain("counting chains")]],
    }
}

/// Draws the heat map.
pub fn heat(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(survey) = survey(app) else {
        return lines(app, area, buffer, &progress(app));
    };
    let (columns, height) = shape_in(area);
    let count = counted(app, columns * height);
    let cells = heat_cells(app, count);
    let mean = ratio(survey.items, survey.slots);
    let hot = hot(survey);
    let cursor = heat_cell(app, count);
    let focused = app.focus() == Pane::Store(Part::Heat);
    let mut out: Vec<Vec<Piece>> = Vec::new();
    for (row, cells) in cells.chunks(columns).enumerate() {
        let first = survey.slots * (row * columns) as u64 / count as u64;
        let number = if row % 3 == 0 {
            text::count(ratio(first, 1))
        } else {
            String::new()
        };
        let mut line = vec![label(format!("{number:<width$}", width = usize::from(MARGIN)))];
        for (column, cell) in cells.iter().enumerate() {
            let (sign, role) = shade(cell, mean, hot);
            let role = if focused && row * columns + column == cursor {
                Role::Selected
            } else {
                role
            };
            match line.last_mut() {
                Some((text, same)) if *same == role && role != Role::Label => text.push(sign),
                _ => line.push((sign.to_string(), role)),
            }
        }
        out.push(line);
    }
    let top = survey.hottest.first().copied().unwrap_or_default();
    out.push(vec![
        label("chain "),
        plain(format!(
            "avg {:.1}  p99 {}  max {} (slot {})",
            ratio(survey.items, survey.used),
            survey.length_of(990),
            survey.longest(),
            digits(top.0)
        )),
    ]);
    let legend = match cells.get(cursor).filter(|_| focused) {
        Some(cell) => vec![
            label("cell "),
            plain(format!(
                "{} of {} slots used  {} items  longest {} (slot {})  {}",
                digits(cell.used),
                digits(cell.slots),
                digits(cell.items),
                cell.longest,
                digits(cell.longest_slot),
                app.key(Command::Open)
            )),
        ],
        None => vec![label("load "), plain("░ <0.9  ▒ mean  ▓ >1.1  █ >1.5 or hot")],
    };
    out.push(legend);
    lines(app, area, buffer, &out);
}

/// What stands above and below the chain of a lookup.
fn about(app: &App) -> (Vec<Vec<Piece>>, Vec<Piece>) {
    let state = &app.store;
    let chain = chain(app);
    match &state.lookup {
        Lookup::Nothing => (
            vec![
                vec![plain(format!(
                    "{} a key   {} a slot   {} the longest chains",
                    app.key(Command::Store(Order::Name)),
                    app.key(Command::Store(Order::Goto)),
                    app.key(Command::Store(Order::Hottest))
                ))],
                vec![plain(format!(
                    "{} on a record looks its key up",
                    app.key(Command::Store(Order::Index))
                ))],
            ],
            Vec::new(),
        ),
        Lookup::Hottest => {
            let text = if survey(app).is_none() {
                "the chains are not counted yet".to_owned()
            } else {
                format!("{} walks the chain of a slot", app.key(Command::Open))
            };
            (vec![vec![plain(text)]], Vec::new())
        }
        Lookup::Slot { file, slot } => match (chain, &state.chain.error) {
            (_, Some(why)) => (vec![vec![(format!("✗ {why}"), Role::Crit)]], Vec::new()),
            (None, None) => (
                vec![vec![plain(format!("walking slot {slot} of {file}"))]],
                Vec::new(),
            ),
            (Some(chain), None) => (vec![hashed(None, chain), links(chain)], ended(chain)),
        },
        Lookup::Key { .. } => match (&state.key.value, &state.key.error) {
            (_, Some(why)) => (vec![vec![(format!("✗ {why}"), Role::Crit)]], Vec::new()),
            (None, None) => (vec![vec![plain("looking")]], Vec::new()),
            (Some(found), None) => {
                let mut head = vec![vec![label("text  "), plain(found.text.clone())]];
                if let Some(chain) = chain {
                    head.push(hashed(found.hash, chain));
                    head.push(links(chain));
                    if chain.walk.broken.is_some() {
                        head.push(ended(chain));
                    }
                } else if index_file(app).is_some_and(|file| found.skipped.contains(&file.name)) {
                    head.push(vec![(
                        "! not walked: nothing tells how many slots it has".to_owned(),
                        Role::Warn,
                    )]);
                } else {
                    head.push(vec![plain("no chain of this file has the hash")]);
                }
                let (files, topics) = found.tried;
                let mut end = match chain {
                    Some(chain) => {
                        let (_, hits, others) = chain.walk.sums;
                        let in_slot = chain.walk.walked - chain.walk.sums.0;
                        vec![
                            label("result "),
                            plain(format!("{hits} match {others} other {in_slot} collision")),
                        ]
                    }
                    None => vec![label("result ")],
                };
                end.push(match (found.hits, left_out(found)) {
                    (0, None) => (
                        format!("  ✗ in none of {files} files, {topics} topics"),
                        Role::Warn,
                    ),
                    (0, Some(why)) => (
                        format!("  ? not found in what could be walked: {why}"),
                        Role::Crit,
                    ),
                    (hits, None) => (format!("  ✓ {hits} in all"), Role::Ok),
                    (hits, Some(why)) => (format!("  ! {hits} in what could be walked: {why}"), Role::Warn),
                });
                if !found.also.is_empty() {
                    end.push(plain(format!("  also {}", found.also.join(" "))));
                }
                (head, end)
            }
        },
    }
}

/// What a lookup could not walk.
fn left_out(found: &KeyFound) -> Option<String> {
    let part = |n: u64, what: &str| match n {
        0 => None,
        1 => Some(format!("1 {what}")),
        n => Some(format!("{} {what}s", digits(n))),
    };
    let parts: Vec<String> = [
        part(found.cut, "cut chain"),
        part(found.skipped.len() as u64, "unread file"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn hashed(hash: Option<i32>, chain: &Chain) -> Vec<Piece> {
    let hash = hash.map_or_else(String::new, |hash| format!("{} → ", digits(hash)));
    vec![
        label("hash  "),
        plain(format!(
            "{hash}slot {}  {} item{}",
            digits(chain.walk.slot),
            digits(chain.walk.walked),
            if chain.walk.walked == 1 { "" } else { "s" }
        )),
    ]
}

/// `#4,120,301 → #3,998,120 → #88,102`
fn links(chain: &Chain) -> Vec<Piece> {
    let numbers: Vec<String> = chain
        .walk
        .items
        .iter()
        .map(|item| format!("#{}", digits(item.number)))
        .collect();
    let text = if numbers.is_empty() {
        "the slot is empty".to_owned()
    } else {
        numbers.join(" → ")
    };
    vec![label("chain "), plain(text)]
}

fn ended(chain: &Chain) -> Vec<Piece> {
    match &chain.walk.broken {
        Some(why) => vec![(format!("✗ {why}"), Role::Crit)],
        None => vec![("✓ the chain is whole".to_owned(), Role::Ok)],
    }
}

/// Draws the chain of a key or slot, or the longest chains.
pub fn lookup(app: &App, area: Rect, buffer: &mut Buffer) {
    let (head, end) = about(app);
    lines(app, area, buffer, &head);
    let rows = rows::of(app, Pane::Store(Part::Lookup));
    let above = u16::try_from(head.len()).unwrap_or(HEAD).min(area.height);
    let below = u16::from(!end.is_empty() && area.height > above + 1);
    let middle = Rect {
        y: area.y + above,
        height: area.height - above - below,
        ..area
    };
    if !rows.rows.is_empty() {
        table(app, Pane::Store(Part::Lookup), middle, buffer, &rows);
    }
    if below > 0 {
        let y = area.bottom() - 1;
        grid::pieces(buffer, area.x + 1, y, area.right() - 1, app.theme(), &end);
    }
}

/// Draws how many chains have which length.
pub fn lengths(app: &App, area: Rect, buffer: &mut Buffer) {
    let Some(survey) = survey(app) else {
        return lines(app, area, buffer, &[vec![plain("not counted yet")]]);
    };
    let total: u64 = survey.lengths.iter().sum();
    let of = |n: usize| survey.lengths.get(n).copied().unwrap_or(0);
    let mut parts: Vec<(String, f64)> = (0..4)
        .map(|n| ((n + 1).to_string(), ratio(of(n), total)))
        .collect();
    let rest: u64 = survey.lengths.iter().skip(4).sum();
    parts.push(("5+".to_owned(), ratio(rest, total)));
    let room = usize::from(area.width.saturating_sub(2)).saturating_sub(parts.len() * 10);
    let mut line = Vec::new();
    for (name, share) in parts {
        line.push(label(format!("{name} ")));
        line.push((bar::gauge(share, room), Role::Data));
        let percent = match share * 100.0 {
            percent if percent > 0.0 && percent < 0.5 => "<1%".to_owned(),
            percent => format!("{percent:.0}%"),
        };
        line.push(plain(format!(" {percent}   ")));
    }
    lines(app, area, buffer, &[line]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(slots: u64, items: u64, longest: u32) -> HeatCell {
        HeatCell {
            slots,
            used: items.min(slots),
            items,
            longest,
            longest_slot: 0,
        }
    }

    #[test]
    fn shades_follow_the_load() {
        let sign = |cell: &HeatCell| shade(cell, 2.0, 40).0;
        assert_eq!(sign(&cell(0, 0, 0)), ' ');
        assert_eq!(sign(&cell(100, 0, 0)), '·');
        assert_eq!(sign(&cell(100, 100, 5)), '░');
        assert_eq!(sign(&cell(100, 200, 5)), '▒');
        assert_eq!(sign(&cell(100, 250, 5)), '▓');
        assert_eq!(sign(&cell(100, 400, 5)), '█');
        assert_eq!(shade(&cell(100, 150, 41), 2.0, 40), ('█', Role::Crit));
    }
}
