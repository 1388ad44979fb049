//! Drawing the dead-letter screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Target, rows};
use crate::client::snapshot::GroupLag;
use crate::client::words::counted;
use crate::protocol::model::RETRY_PREFIX;
use crate::tui::app::{App, Pane};
use crate::tui::keys::Command;
use crate::tui::view::bar::Piece;
use crate::tui::view::theme::Role;
use crate::tui::view::{grid, layout, text};

/// Rows of the plan, frame included.
const PLAN: u16 = 8;

/// Panes and where they are.
pub fn layout(app: &App, body: Rect) -> Vec<(Pane, Rect)> {
    let wanted = u16::try_from(app.table(Pane::DeadGroups).rows.len())
        .unwrap_or(u16::MAX)
        .saturating_add(3);
    let (groups, rest) = layout::above(body, wanted.clamp(5, (body.height / 3).max(5)));
    if !layout::roomy(body) {
        let second = match app.focus() {
            Pane::Plan => Pane::Plan,
            _ => Pane::Letters,
        };
        return vec![(Pane::DeadGroups, groups), (second, rest)];
    }
    let (letters, plan) = layout::above(rest, rest.height.saturating_sub(PLAN));
    vec![
        (Pane::DeadGroups, groups),
        (Pane::Letters, letters),
        (Pane::Plan, plan),
    ]
}

/// `Dead letters 6 groups   2 of 3 brokers answer: counts may be low`.
pub fn groups_title(app: &App) -> Vec<Piece> {
    let table = app.table(Pane::DeadGroups);
    let mut title = vec![(
        format!("Dead letters  {}", counted(table.rows.len(), "group")),
        Role::Plain,
    )];
    if let Ok(Some(groups)) = super::groups(app)
        && groups.asked() < groups.groups.len()
    {
        title.push((
            format!("  asked {} of {} …", groups.asked(), groups.groups.len()),
            Role::Plain,
        ));
    }
    let (up, all) = rows::masters(app);
    if up < all {
        title.push((
            format!("  {up} of {all} brokers answer: counts may be low ✗"),
            Role::Crit,
        ));
    }
    title
}

/// `CID_pay  2 marked of 41`.
pub fn letters_title(app: &App) -> String {
    let Some(group) = super::group(app) else {
        return "Letters".to_owned();
    };
    let Ok(Some(found)) = super::letters(app) else {
        return group;
    };
    let table = app.table(Pane::Letters);
    let marked = app.marked(Pane::Letters).map_or(0, |marks| marks.len());
    let mut title = format!("{group}  {marked} marked of {}", text::grouped(found.of));
    let shown = i64::try_from(found.rows.len()).unwrap_or(i64::MAX);
    if shown < found.of {
        title += &format!("  the newest {} are shown", text::grouped(shown));
    }
    if app.filter().is_some() && table.rows.len() < found.rows.len() {
        title += &format!("  filter {} of {}", table.rows.len(), found.rows.len());
    }
    if !found.failed.is_empty() {
        title += &format!("  ✗ {}", found.failed[0]);
    }
    title
}

/// Why there are no groups.
pub fn groups_empty(app: &App) -> String {
    match super::groups(app) {
        Err(why) => format!("✗ {why}"),
        Ok(None) => "? being asked".to_owned(),
        Ok(Some(_)) => "✓ no group has a dead-letter topic: no message has died".to_owned(),
    }
}

/// Why there are no letters.
pub fn letters_empty(app: &App, unfiltered: usize) -> String {
    match super::letters(app) {
        _ if super::group(app).is_none() => "no group is selected".to_owned(),
        Err(why) => format!("✗ {why}"),
        Ok(None) => "? being asked".to_owned(),
        Ok(Some(_)) if unfiltered > 0 => {
            format!("none of {unfiltered} letters passes the filter (esc clears it)")
        }
        Ok(Some(_)) => "no letter is left".to_owned(),
    }
}

/// What `R` would do.
pub fn plan(app: &App, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width.saturating_sub(2));
    let lines = plan_lines(app, columns);
    let theme = app.theme();
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        grid::pieces(buffer, area.x + 1, y, area.right() - 1, theme, line);
    }
}

fn plan_lines(app: &App, columns: usize) -> Vec<Vec<Piece>> {
    let label = |name: &str| (format!("{name:<10}"), Role::Label);
    let letters = super::chosen(app);
    let (Some(group), false) = (super::group(app), letters.is_empty()) else {
        return vec![vec![(
            format!(
                "select a letter, or mark some with {}; {} then sends them again",
                app.key(Command::Mark),
                app.key(Command::Resend)
            ),
            Role::Plain,
        )]];
    };
    let radio = |target: Target, text: &str| {
        let sign = if app.dead.target == target { "(•)" } else { "( )" };
        let role = if app.dead.target == target {
            Role::Focus
        } else {
            Role::Plain
        };
        (format!("{sign} {text}   "), role)
    };
    let mut lines = vec![vec![
        label("to"),
        radio(Target::Origin, "origin topic: all its groups"),
        radio(Target::Retry, "group's retry topic: only this group"),
        ("t changes".to_owned(), Role::Label),
    ]];
    let counts = rows::by_topic(letters.iter().map(AsRef::as_ref));
    let goals: Vec<String> = counts
        .iter()
        .map(|(topic, n)| match (app.dead.target, topic) {
            (Target::Retry, _) => format!("{RETRY_PREFIX}{group} {n}"),
            (Target::Origin, Some(topic)) => format!("{topic} {n}"),
            (Target::Origin, None) => format!("{n} do not say where they came from: not sent"),
        })
        .collect();
    let goals = match app.dead.target {
        Target::Retry => format!("{RETRY_PREFIX}{group} {}", letters.len()),
        Target::Origin => goals.join(", "),
    };
    let how = if app.marked(super::Pane::Letters).is_some() {
        "marked"
    } else {
        "selected"
    };
    lines.push(vec![
        label("letters"),
        (
            format!(
                "{} {how} → {goals}   new UNIQ_KEY: yes   KEYS and TAGS kept: yes",
                letters.len()
            ),
            Role::Plain,
        ),
    ]);
    lines.push(vec![
        label("warnings"),
        (warnings(app, &group, &counts), Role::Warn),
    ]);
    let mut result = vec![label("result")];
    match super::letters(app) {
        Ok(Some(found)) => match rows::results(found) {
            some if !some.is_empty() => result.extend(some),
            _ => result.push((
                "– none of these letters was sent again from here".to_owned(),
                Role::Plain,
            )),
        },
        _ => result.push(("–".to_owned(), Role::Plain)),
    }
    lines.push(result);
    if let Some(deed) = super::deed(app) {
        let line = deed.line();
        let mut parts = text::wrap(&line, columns.saturating_sub(10).max(10)).into_iter();
        if let Some(first) = parts.next() {
            lines.push(vec![label("command"), (first.into_owned(), Role::Plain)]);
        }
        lines.extend(parts.map(|part| vec![(format!("{:10}{part}", ""), Role::Plain)]));
    }
    lines
}

/// What else the copies would do.
fn warnings(app: &App, group: &str, counts: &std::collections::BTreeMap<Option<&str>, usize>) -> String {
    let model = app.shown();
    let mut said = Vec::new();
    let state = model.snapshot.groups.iter().find(|g| g.name == group);
    let lag: i64 = state
        .into_iter()
        .flat_map(|g| g.lag.get().into_iter().flatten())
        .filter_map(GroupLag::lag)
        .sum();
    if lag > 0 {
        said.push(format!(
            "{group} is {} behind: they queue behind that",
            text::count(lag as f64)
        ));
    }
    if app.dead.target == Target::Origin {
        for topic in counts.keys().flatten() {
            let others = model.groups_of(topic);
            if others > 1 {
                said.push(format!("{others} groups read {topic}: each gets the copies"));
            }
        }
    }
    if said.is_empty() {
        "none".to_owned()
    } else {
        said.join(" · ")
    }
}
