//! What a value of `--filter` says in a column: every form that a table prints and that options take.

use super::Cell;
use crate::cli::time::{self, When, Zone};

/// What the values of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Bool,
    Ratio,
    Time,
    Number,
    /// A span, with the milliseconds of its unit as thousandths.
    Span(i64),
}

impl Kind {
    /// The accepted forms, for messages.
    pub(super) const fn forms(self) -> &'static str {
        match self {
            Self::Text => "a text",
            Self::Bool => "yes, no, true or false",
            Self::Ratio => "a percentage such as 40%, or a part of one such as 0.4",
            Self::Time => time::FORMS_OF_POINTS,
            Self::Number => "a number, in thousands 1k, 3.4M, 2G, 1T, or as a size 64KiB, 1MiB, 1GiB",
            Self::Span(_) => {
                "a duration such as 500ms, 30s, 2m 5s, 3d, or a number in the unit of the JSON field"
            }
        }
    }
}

/// What a cell is; one that says nothing is of no kind.
pub(super) fn kind(key: &str, cell: &Cell) -> Option<Kind> {
    let unit = [("_us", 1), ("_ms", 1_000), ("_s", 1_000_000)]
        .into_iter()
        .find(|(end, _)| key.ends_with(end) && !key.ends_with("_per_s"));
    Some(match cell {
        Cell::Unknown | Cell::Differs(_) => return None,
        Cell::Text(_) | Cell::List(_) | Cell::Pairs(_) => Kind::Text,
        Cell::Bool(_) => Kind::Bool,
        Cell::Ratio(_) => Kind::Ratio,
        Cell::Time(_) => Kind::Time,
        Cell::Span(_) => Kind::Span(1_000),
        Cell::Int(_) | Cell::Float(_) => unit.map_or(Kind::Number, |(_, micros)| Kind::Span(micros)),
    })
}

/// The number that stands for a cell.
pub(super) fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Bool(v) => Some(f64::from(u8::from(*v))),
        cell => cell.number(),
    }
}

/// The number that stands for `text` in a column of this kind; `None` where it is no such value.
pub(super) fn read(kind: Kind, text: &str, zone: &Zone) -> Option<f64> {
    let plain = text.parse::<f64>().ok().filter(|n| n.is_finite());
    match kind {
        Kind::Text => None,
        Kind::Bool => match text.to_ascii_lowercase().as_str() {
            "yes" | "true" => Some(1.0),
            "no" | "false" => Some(0.0),
            _ => None,
        },
        Kind::Ratio => match text.strip_suffix('%') {
            Some(percent) => percent.trim().parse::<f64>().ok().map(|n| n / 100.0),
            // 40 would be forty times the whole.
            None => plain.filter(|n| n.abs() <= 1.0),
        },
        Kind::Time => {
            let when: When = text.parse().ok()?;
            Some(when.at_ms(time::now_ms(), zone).ok()?? as f64)
        }
        Kind::Number => plain.or_else(|| scaled(text)),
        Kind::Span(micros) => plain.or_else(|| {
            let span = time::parse_duration(text).ok()?;
            Some(span.as_secs_f64() * 1e6 / micros as f64)
        }),
    }
}

/// `1.2k` as `--human` prints it, `64KiB` as sizes are given.
fn scaled(text: &str) -> Option<f64> {
    const UNITS: &[(&str, f64)] = &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("T", 1e12)];
    if let Ok(bytes) = crate::cli::size::parse(text)
        && text.ends_with('B')
    {
        return Some(bytes as f64);
    }
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    number.trim().parse::<f64>().ok().map(|n| n * factor)
}
