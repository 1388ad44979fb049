//! Where a scaling is: the step, what it waits for and since when, what comes after it.

use super::bar::Piece;
use super::theme::Role;
use super::{age_ms, text};
use crate::client::scale::Progress;
use crate::client::scale::kept::KeptWay;
use crate::tui::app::App;
use crate::tui::keys::Command;

/// The lines of a way that is gone now, at most `room`: the step, then what it waits for, then the steps that are left.
pub fn lines(at: &Progress, now_ms: i64, columns: usize, room: usize) -> Vec<Vec<Piece>> {
    lines_of(at, "waits for ", now_ms, columns, room)
}

fn lines_of(at: &Progress, waits: &str, now_ms: i64, columns: usize, room: usize) -> Vec<Vec<Piece>> {
    if at.done {
        return vec![vec![(format!("all {} steps are done", at.of), Role::Ok)]];
    }
    let since = text::age(age_ms(now_ms, at.since_ms));
    let head = format!("{}, since {since}: {}", at.place(), at.step);
    let mut lines = wrapped("", &head, columns, Role::Focus);
    let waits: Vec<Vec<Piece>> = (at.waits.iter())
        .flat_map(|what| wrapped(waits, what, columns, Role::Warn))
        .collect();
    let met: Vec<Vec<Piece>> = (at.met.iter())
        .flat_map(|what| wrapped("✓ ", what, columns, Role::Ok))
        .collect();
    let left: Vec<Vec<Piece>> = (at.left.iter().enumerate())
        .flat_map(|(i, step)| wrapped(&format!("then {} ", at.at + 1 + i), step, columns, Role::Plain))
        .collect();
    let free = room.saturating_sub(lines.len());
    let (waits_room, left_room) = if waits.len() + left.len() <= free {
        (waits.len(), left.len())
    } else {
        // What comes after it has one line at least.
        let of_left = usize::from(!left.is_empty());
        let of_waits = waits.len().min(free.saturating_sub(of_left));
        (of_waits, free - of_waits)
    };
    let met_room = free.saturating_sub(waits_room + left_room);
    lines.extend(cut(waits, waits_room, "more to wait for", columns));
    lines.extend(met.into_iter().take(met_room));
    if left_room < left.len() && left_room <= 1 {
        let all = format!("then {} more: {}", at.left.len(), at.left.join("; "));
        let all = (text::fit(&all, columns).into_owned(), Role::Plain);
        lines.extend((left_room > 0).then(|| vec![all]));
    } else {
        lines.extend(cut(left, left_room, "more steps", columns));
    }
    lines.truncate(room);
    lines
}

/// The same of a way that is not this session's, or was interrupted: who goes it, and which keys go on or back.
pub fn of_kept(app: &App, kept: &KeptWay, columns: usize, room: usize) -> Vec<Vec<Piece>> {
    let now = app.shown_ms();
    let back = if kept.undoing { " on its way back" } else { "" };
    let sign = text::age(age_ms(now, kept.sign_ms()));
    let mut lines = Vec::new();
    let abandoned = kept.is_abandoned(now);
    if abandoned {
        let how = match &kept.stopped {
            Some(stopped) => {
                let since = text::age(age_ms(now, stopped.at_ms));
                format!("✗ interrupted{back} {since} ago")
            }
            None => format!("✗ nobody goes on{back}: no sign for {sign}"),
        };
        let mut line = vec![(how, Role::Crit)];
        if !app.settings.read_only {
            let keys = format!(
                ": {} goes on, {} goes back",
                app.key(Command::Queues),
                app.undo_keys()
            );
            line.push((keys, Role::Plain));
        }
        lines.push(line);
    } else {
        lines.push(vec![(
            format!("~ somebody scales it{back}, looked {sign} ago"),
            Role::Warn,
        )]);
    }
    let free = room.saturating_sub(lines.len());
    let waits = if abandoned { "waited for " } else { "waits for " };
    lines.extend(lines_of(&kept.progress, waits, now, columns, free));
    lines
}

/// A text in lines of one role; those after the first stand under the text and not under its sign.
fn wrapped(sign: &str, what: &str, columns: usize, role: Role) -> Vec<Vec<Piece>> {
    let indent = text::width(sign);
    let parts = text::wrap(what, columns.saturating_sub(indent).max(1)).into_iter();
    parts
        .enumerate()
        .map(|(i, part)| {
            let before = if i == 0 {
                sign.to_owned()
            } else {
                " ".repeat(indent)
            };
            vec![(before, Role::Label), (part.into_owned(), role)]
        })
        .collect()
}

/// The first `room` lines; the last of them says how many are not shown.
fn cut(mut lines: Vec<Vec<Piece>>, room: usize, what: &str, columns: usize) -> Vec<Vec<Piece>> {
    if lines.len() > room && room > 0 {
        let hidden = lines.len() - room + 1;
        lines.truncate(room - 1);
        let text = format!("… {hidden} lines: {what}");
        lines.push(vec![(text::fit(&text, columns).into_owned(), Role::Label)]);
    }
    lines.truncate(room);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress() -> Progress {
        Progress {
            at: 3,
            of: 5,
            done: false,
            step: "drain queues 8-15".into(),
            since_ms: 10_000,
            seen_ms: 80_000,
            waits: vec![
                "CID_pay (clustering) has 92354 unread and 12 in flight".into(),
                "the queues have stood still for 4 of 30s".into(),
            ],
            met: vec!["producers have had 60s to see the new number".into()],
            left: vec!["read 16 → 8 on broker-a".into(), "name servers show it".into()],
        }
    }

    fn texts(columns: usize, room: usize) -> Vec<String> {
        let lines = lines(&progress(), 90_000, columns, room);
        lines
            .into_iter()
            .map(|line| line.into_iter().map(|(text, _)| text).collect())
            .collect()
    }

    #[test]
    fn a_way_says_its_step_what_it_waits_for_since_when_and_what_is_left() {
        assert_eq!(
            texts(80, 10),
            [
                "step 3 of 5, since 1m20s: drain queues 8-15",
                "waits for CID_pay (clustering) has 92354 unread and 12 in flight",
                "waits for the queues have stood still for 4 of 30s",
                "✓ producers have had 60s to see the new number",
                "then 4 read 16 → 8 on broker-a",
                "then 5 name servers show it",
            ]
        );
    }

    #[test]
    fn a_small_room_keeps_the_step_the_first_wait_and_how_much_is_left() {
        assert_eq!(
            texts(80, 4),
            [
                "step 3 of 5, since 1m20s: drain queues 8-15",
                "waits for CID_pay (clustering) has 92354 unread and 12 in flight",
                "waits for the queues have stood still for 4 of 30s",
                "then 2 more: read 16 → 8 on broker-a; name servers show it",
            ]
        );
        for room in 0..8 {
            for columns in [24, 30, 56] {
                let texts = texts(columns, room);
                assert!(texts.len() <= room, "{room} {texts:?}");
                assert!(texts.iter().all(|t| text::width(t) <= columns), "{texts:?}");
            }
        }
    }
}
