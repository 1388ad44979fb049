//! Forms, changes and what a command shows, over the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::bar::Piece;
use super::overlay::{scrolled, typed, window};
use super::theme::Role;
use super::{grid, text, way};
use crate::tui::app::App;
use crate::tui::deed::{Level, Rehearsal, Report, StepLine};
use crate::tui::export::FORMS;
use crate::tui::form::Form;
use crate::tui::want::{Found, Want};
use crate::tui::work::{self, Stage, Work};

/// Columns of a dialog.
const WIDTH: u16 = 96;

fn plain(text: impl Into<String>) -> Vec<Piece> {
    vec![(text.into(), Role::Plain)]
}

/// The fields of a form.
pub fn form(app: &App, form: &Form, buffer: &mut Buffer) {
    let label_columns = form
        .fields
        .iter()
        .map(|f| text::width(f.label))
        .max()
        .unwrap_or(0);
    let columns = WIDTH.min(buffer.area.width.saturating_sub(4));
    let room = usize::from(columns.saturating_sub(4)).max(1);
    let command = match form.deed() {
        Ok(deed) => deed.line(),
        Err(_) => "…".to_owned(),
    };
    let rest: Vec<Vec<Piece>> = (form.notes.iter())
        .flat_map(|note| wrapped(note, room))
        .chain([Vec::new()])
        .chain(wrapped(&format!("command  {command}"), room))
        .chain(form.error.iter().flat_map(|why| {
            let parts: Vec<_> = text::wrap(why, room.saturating_sub(2)).into_iter().collect();
            let sign = |i| if i == 0 { "! " } else { "  " };
            let line = move |(i, part): (usize, std::borrow::Cow<'_, str>)| {
                vec![(format!("{}{part}", sign(i)), Role::Warn)]
            };
            parts.into_iter().enumerate().map(line)
        }))
        .collect();
    // One line stays for an error.
    let lines = form.fields.len() + rest.len() + usize::from(form.error.is_none());
    let inside = window(
        app,
        buffer,
        &form.title,
        columns,
        u16::try_from(lines + 2)
            .unwrap_or(u16::MAX)
            .min(buffer.area.height),
    );
    let theme = app.theme();
    let mut y = inside.y;
    for (i, field) in form.fields.iter().enumerate() {
        if y >= inside.bottom() {
            return;
        }
        let sign = format!(
            "{}{:<label_columns$}  ",
            if i == form.at { "▸ " } else { "  " },
            field.label
        );
        let half = Rect::new(inside.x, y, inside.width, 1);
        if i == form.at {
            let x = typed(app, buffer, half, &sign, &field.input);
            grid::put(
                buffer,
                x + 2,
                y,
                inside.right(),
                field.hint,
                theme.style(Role::Label),
            );
        } else {
            let x = grid::put(
                buffer,
                inside.x,
                y,
                inside.right(),
                &sign,
                theme.style(Role::Label),
            );
            let x = grid::put(
                buffer,
                x,
                y,
                inside.right(),
                field.input.text(),
                theme.style(Role::Plain),
            );
            if field.input.text().is_empty() {
                grid::put(buffer, x, y, inside.right(), field.hint, theme.style(Role::Label));
            }
        }
        y += 1;
    }
    for (line, y) in rest.into_iter().zip(y..inside.bottom()) {
        grid::pieces(buffer, inside.x, y, inside.right(), theme, &line);
    }
}

/// Where a change stands, in a few words.
pub fn stage(app: &App, work: &Work) -> Piece {
    match &work.stage {
        Stage::Rehearsing => ("… asking what it would do".to_owned(), Role::Plain),
        Stage::Nothing => ("✓ nothing to change: it is so already".to_owned(), Role::Ok),
        Stage::Impossible(_) => ("✗ cannot be done".to_owned(), Role::Crit),
        Stage::Planned(_) => ("= planned, nothing is changed yet".to_owned(), Role::Plain),
        Stage::Running(_) => {
            let age = text::age(super::age_ms(app.now_ms, work.at_ms));
            let stop = if work.stopping {
                ", stopping at the next safe place"
            } else {
                ""
            };
            (format!("~ running since {age}{stop}"), Role::Warn)
        }
        Stage::Done(report) => match &report.failure {
            None => ("✓ done".to_owned(), Role::Ok),
            Some(_) if report.steps.iter().any(|s| s.good) => ("✗ done in part".to_owned(), Role::Crit),
            Some(_) => ("✗ failed".to_owned(), Role::Crit),
        },
    }
}

/// Rows of a change's dialog that are not its text: frame, a blank line, what has to be typed or pressed.
const FOOT: u16 = 4;

/// A change: what it would do, what it takes, how it goes, how it ended.
pub fn work(app: &App, id: u64, buffer: &mut Buffer) {
    let Some(work) = app.work(id) else {
        return;
    };
    let (title, lines) = work_text(app, work);
    let height = u16::try_from(lines.len())
        .unwrap_or(u16::MAX)
        .saturating_add(FOOT);
    let inside = window(
        app,
        buffer,
        &title,
        WIDTH.min(buffer.area.width.saturating_sub(4)),
        height.min(buffer.area.height.saturating_sub(2)),
    );
    let theme = app.theme();
    let body = Rect {
        height: inside.height.saturating_sub(2),
        ..inside
    };
    let last = lines.len().saturating_sub(usize::from(body.height));
    let from = work.scroll.min(last);
    for (line, y) in lines.iter().skip(from).zip(body.top()..body.bottom()) {
        grid::pieces(buffer, body.x, y, body.right(), theme, line);
    }
    if from < last {
        let more = format!(" {} more lines ↓ ", last - from);
        let columns = u16::try_from(text::width(&more)).unwrap_or(0);
        let (x, y) = (
            body.right().saturating_sub(columns),
            body.bottom().saturating_sub(1),
        );
        grid::put(buffer, x, y, body.right(), &more, theme.style(Role::Focus));
    }
    let line = Rect::new(inside.x, body.bottom() + 1, inside.width, 1);
    confirmation(app, work, line, buffer);
}

/// The first line of the last page of a change's dialog.
pub fn work_last_line(app: &App, work: &Work) -> usize {
    let rows = app.size.1.saturating_sub(2 + FOOT);
    work_text(app, work).1.len().saturating_sub(usize::from(rows))
}

/// Title and lines of a change's dialog.
fn work_text(app: &App, work: &Work) -> (String, Vec<Vec<Piece>>) {
    let columns = usize::from(WIDTH.min(app.size.0.saturating_sub(4))).saturating_sub(4);
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    let title = match &work.stage {
        Stage::Planned(rehearsal) => {
            planned(work, rehearsal, &mut lines, columns);
            format!("{} {}", level_text(rehearsal.level), rehearsal.action)
        }
        Stage::Running(rehearsal) => {
            lines.push(vec![stage(app, work)]);
            let mut room = usize::from(app.size.1).saturating_sub(12);
            if let Some(at) = &work.way {
                let of_way = way::lines(at, app.now_ms, columns, room);
                room = room.saturating_sub(of_way.len() + 1);
                lines.extend(of_way);
                lines.push(Vec::new());
            }
            lines.extend(progress(work, columns, room));
            rehearsal.action.clone()
        }
        Stage::Done(report) => {
            lines.push(vec![stage(app, work)]);
            done(report, &mut lines, columns);
            if report.steps.is_empty() || report.failure.is_some() {
                lines.extend(progress(work, columns, 8));
            }
            "RESULT".to_owned()
        }
        Stage::Impossible(why) => {
            lines.push(vec![stage(app, work)]);
            lines.extend(why.lines().flat_map(|line| wrapped(line, columns)));
            "CHANGE".to_owned()
        }
        Stage::Rehearsing | Stage::Nothing => {
            lines.push(vec![stage(app, work)]);
            "CHANGE".to_owned()
        }
    };
    lines.push(Vec::new());
    lines.extend(wrapped(&format!("command  {}", work.deed.line()), columns));
    (title, lines)
}

const fn level_text(level: Level) -> &'static str {
    match level {
        Level::Apply => "Apply?",
        Level::Name => "Type the name to apply:",
        Level::NameAndContext => "Type name and context to apply:",
    }
}

/// What would change, and what else it means.
fn planned(work: &Work, rehearsal: &Rehearsal, lines: &mut Vec<Vec<Piece>>, columns: usize) {
    if !rehearsal.cluster.is_empty() {
        lines.push(plain(format!("in cluster {}", rehearsal.cluster)));
        lines.push(Vec::new());
    }
    if !rehearsal.steps.is_empty() {
        steps(&rehearsal.steps, lines, columns, false);
    }
    for line in &rehearsal.impact {
        for (i, part) in text::wrap(line, columns.saturating_sub(2))
            .into_iter()
            .enumerate()
        {
            let sign = if i == 0 { "! " } else { "  " };
            lines.push(vec![
                (sign.to_owned(), Role::Warn),
                (part.into_owned(), Role::Plain),
            ]);
        }
    }
    for line in rehearsal.lines.iter().filter(|l| !rehearsal.impact.contains(l)) {
        lines.extend(wrapped(line, columns));
    }
    lines.push(vec![(
        if work.deed.moves_offsets() {
            "where to is what you agree to: the numbers go on moving with the group until then"
        } else {
            "refused if any of these values changes before you apply it"
        }
        .to_owned(),
        Role::Label,
    )]);
}

/// Steps as a table: targets that change alike in one line.
fn steps(steps: &[StepLine], lines: &mut Vec<Vec<Piece>>, columns: usize, results: bool) {
    type Alike<'a> = ((&'a str, &'a str, &'a str, &'a str), Vec<&'a str>, bool);
    let mut alike: Vec<Alike<'_>> = Vec::new();
    for step in steps {
        let what = (
            step.field.as_str(),
            step.before.as_str(),
            step.after.as_str(),
            step.result.as_str(),
        );
        match alike.iter_mut().find(|(known, ..)| *known == what) {
            Some((_, targets, _)) => targets.push(&step.target),
            None => alike.push((what, vec![&step.target], step.good)),
        }
    }
    let width =
        |of: fn(&(&str, &str, &str, &str)) -> usize| alike.iter().map(|(w, ..)| of(w)).max().unwrap_or(0);
    let field = width(|w| text::width(w.0)).clamp(5, 44);
    let before = width(|w| text::width(w.1)).clamp(6, 24);
    let after = width(|w| text::width(w.2)).clamp(5, 24);
    lines.push(vec![(
        format!(
            "{:<field$}  {:<before$}   {:<after$}  WHERE",
            "FIELD", "BEFORE", "AFTER"
        ),
        Role::Label,
    )]);
    let is_long = |what: &(&str, &str, &str, &str)| {
        text::width(what.0) > field || text::width(what.1) > before || text::width(what.2) > after
    };
    let pad = |s: &str, n: usize| {
        let s = text::clean(s);
        let fit = text::fit(&s, n).into_owned();
        let blank = n.saturating_sub(text::width(&fit));
        format!("{fit}{}", " ".repeat(blank))
    };
    for (what, targets, good) in alike {
        let (name, old, new, result) = what;
        let places = targets.join(", ");
        if is_long(&what) {
            // What is agreed to is shown whole.
            for (label, value) in [
                ("", name),
                ("  before ", old),
                ("  after  ", new),
                ("  where  ", &places),
            ] {
                lines.extend(wrapped(&format!("{label}{}", text::clean(value)), columns));
            }
            if results || !good {
                let glyph = if good { "✓ " } else { "✗ " };
                lines.extend(wrapped(&format!("  {glyph}{result}"), columns));
            }
            continue;
        }
        let mut line = vec![
            (format!("{}  ", pad(name, field)), Role::Label),
            (format!("{} → ", pad(old, before)), Role::Plain),
            (
                format!("{}  ", pad(new, after)),
                if old == new { Role::Plain } else { Role::Focus },
            ),
        ];
        if results || !good {
            let glyph = if good { "✓ " } else { "✗ " };
            line.push((
                format!("{glyph}{result}  "),
                if good { Role::Ok } else { Role::Crit },
            ));
        }
        let used = line.iter().map(|(t, _)| text::width(t)).sum::<usize>();
        if used + text::width(&places) > columns && used > columns / 2 {
            lines.push(line);
            let indent = " ".repeat(field + 2);
            let parts = text::wrap(&places, columns.saturating_sub(indent.len())).into_iter();
            lines.extend(parts.map(|part| plain(format!("{indent}{part}"))));
        } else {
            line.push((places, Role::Plain));
            lines.push(line);
        }
    }
}

/// The newest lines of progress that `room` holds.
pub fn progress(work: &Work, columns: usize, room: usize) -> Vec<Vec<Piece>> {
    let wrapped: Vec<Vec<Piece>> = work
        .lines
        .iter()
        .flat_map(|line| wrapped(line, columns))
        .collect();
    let from = wrapped.len().saturating_sub(room);
    wrapped.into_iter().skip(from).collect()
}

/// A text in plain lines.
fn wrapped(line: &str, columns: usize) -> Vec<Vec<Piece>> {
    let lines = text::wrap(line, columns).into_iter();
    lines.map(|l| plain(l.into_owned())).collect()
}

fn done(report: &Report, lines: &mut Vec<Vec<Piece>>, columns: usize) {
    if !report.steps.is_empty() {
        steps(&report.steps, lines, columns, true);
    }
    if let Some(why) = &report.failure {
        for line in why.lines() {
            let parts = text::wrap(line, columns).into_iter();
            lines.extend(parts.map(|l| vec![(l.into_owned(), Role::Crit)]));
        }
    }
    if let Some(undo) = &report.undo {
        lines.extend(wrapped(&format!("undo     {undo}"), columns));
    }
}

/// The last line: what has to be typed or pressed.
fn confirmation(app: &App, work: &Work, area: Rect, buffer: &mut Buffer) {
    let theme = app.theme();
    let wanted = work.wanted_text(&app.settings.context);
    match (&work.stage, wanted) {
        (Stage::Planned(_), None) => {
            let button = |name: &str, focused: bool| {
                let role = if focused { Role::Selected } else { Role::Plain };
                let mark = if focused { "▸" } else { " " };
                (format!(" {mark}{name} "), role)
            };
            let pieces = [
                button("Cancel", !work.apply),
                ("  ".to_owned(), Role::Plain),
                button("Apply", work.apply),
                ("   tab chooses, enter does it".to_owned(), Role::Label),
            ];
            grid::pieces(buffer, area.x, area.y, area.right(), theme, &pieces);
        }
        (Stage::Planned(_), Some(wanted)) => {
            let sign = format!("Type {wanted} to go on: ");
            typed(app, buffer, area, &sign, &work.typed);
        }
        _ => {}
    }
}

/// What the footer says while a change is open.
pub fn work_footer(work: &Work, context: &str) -> String {
    match (&work.stage, work.wanted_text(context)) {
        (Stage::Planned(_), None) => {
            " tab choose   enter do it   y copy command   r ask again   esc cancel".into()
        }
        (Stage::Planned(_), Some(_)) => {
            " text input   enter apply   ctrl-y copy command   ↑↓ scroll   esc cancel".into()
        }
        (Stage::Running(_), _) => {
            " x stop at the next safe place   y copy command   esc close, it goes on".into()
        }
        (Stage::Done(report), _) => {
            let undo = if work::undo(report).is_some() {
                "   u undo"
            } else {
                ""
            };
            format!(" enter close{undo}   y copy command   ↑↓ scroll")
        }
        (Stage::Impossible(_) | Stage::Nothing, _) => {
            let edit = if work.form.is_some() {
                "   e edit the form"
            } else {
                ""
            };
            format!(" enter close{edit}   r ask again   y copy command")
        }
        (Stage::Rehearsing, _) => " esc cancel".into(),
    }
}

/// What a command shows: its lines, then its rows.
pub fn sheet(app: &App, words: &[String], line: usize, buffer: &mut Buffer) {
    let title = format!("rmq {}", words.join(" "));
    scrolled(app, buffer, &title, sheet_lines(app, words), line);
}

/// The lines of a sheet.
pub fn sheet_lines(app: &App, words: &[String]) -> Vec<Vec<Piece>> {
    let seen = app.found(&Want::Sheet(words.to_vec()));
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    // Without the frame, its blanks and the indent.
    let columns = usize::from(app.size.0).saturating_sub(12).max(20);
    match (&seen.error, seen.get()) {
        (Some(why), _) => lines.extend(why.lines().map(|l| vec![(format!("✗ {l}"), Role::Crit)])),
        (None, Some(Found::Sheet(sheet))) => {
            lines.extend(sheet.lines.iter().map(|l| plain(l.clone())));
            lines.extend(sheet.failed.iter().map(|l| vec![(format!("✗ {l}"), Role::Crit)]));
            let widths: Vec<usize> = (0..sheet.columns.len())
                .map(|i| {
                    let cells = sheet.rows.iter().map(|r| text::width(&r[i].text));
                    cells.chain([sheet.columns[i].len()]).max().unwrap_or(0).min(60)
                })
                .collect();
            let row = |cells: &mut dyn Iterator<Item = String>| {
                let mut line = String::new();
                for (cell, width) in cells.zip(&widths) {
                    line.push_str(&cell);
                    line.push_str(&" ".repeat((width + 2).saturating_sub(text::width(&cell)).max(2)));
                }
                line.trim_end().to_owned()
            };
            if !sheet.columns.is_empty() {
                let heads = row(&mut sheet.columns.iter().map(|c| c.to_uppercase()));
                lines.push(vec![(heads, Role::Label)]);
            }
            for cells in &sheet.rows {
                // What to do about a finding stands last: a row that is too long goes on below.
                let line = row(&mut cells.iter().map(|c| c.text.clone()));
                let mut indent = "";
                for part in text::wrap(&line, columns) {
                    lines.push(plain(format!("{indent}{part}")));
                    indent = "    ";
                }
            }
            if lines.is_empty() {
                lines.push(plain("nothing to show"));
            }
        }
        _ => lines.push(plain("… asking")),
    }
    lines
}

/// The forms in which a view can be written.
pub fn export_lines() -> Vec<Vec<Piece>> {
    FORMS.iter().map(|form| plain(form.ending())).collect()
}

/// Changes are in flight, or servers end with us: leave all the same?
pub fn leave(app: &App, buffer: &mut Buffer) {
    let mut lines: Vec<Vec<Piece>> = Vec::new();
    if app.settings.serving {
        lines.push(plain(
            "The name server and the broker run in this process; they stop with it.",
        ));
        lines.push(plain("What they stored stays."));
    }
    let flying: Vec<_> = app.works.iter().filter(|w| w.is_running()).collect();
    if !flying.is_empty() {
        lines.push(plain("These changes are in flight and stop where they are:"));
        for work in flying {
            lines.push(vec![
                ("  ".to_owned(), Role::Plain),
                (work.deed.line(), Role::Warn),
            ]);
        }
        lines.push(plain(
            "Scaling and resending keep their state: --resume goes on, --undo goes back.",
        ));
    }
    lines.push(Vec::new());
    lines.push(plain("q or enter leaves, esc stays."));
    scrolled(app, buffer, "Leave?", lines, 0);
}
