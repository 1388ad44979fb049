//! How a value of a certain age is shown: itself, with `~` while doubtful, `✗` when it failed, `?` when unknown.

use crate::client::snapshot::{BrokerState, Seen};
use crate::tui::refusal::Kind;
use crate::tui::table::Cell;

use super::age_ms;
use super::theme::Role;

/// Age from which a value that could not be refreshed is doubtful.
const DOUBTFUL_MS: u64 = 10_000;
/// Age from which a value that is asked for only now and then says how old it is.
pub const OLD_MS: u64 = 30_000;
/// Age from which it is given up.
const FAILED_MS: u64 = 30_000;

/// How good a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grade {
    /// As new as it gets.
    Good,
    /// The last attempts failed; it is getting old.
    Doubtful,
    /// Asked without success for long, or without any.
    Failed,
    /// Not asked yet.
    Unknown,
}

/// Grades a value.
pub fn grade<T>(seen: &Seen<T>, now_ms: i64) -> Grade {
    match (&seen.value, &seen.error) {
        (None, None) => Grade::Unknown,
        (None, Some(_)) => Grade::Failed,
        (Some(_), None) => Grade::Good,
        (Some(_), Some(_)) => match age_ms(now_ms, seen.as_of_ms) {
            0..DOUBTFUL_MS => Grade::Good,
            DOUBTFUL_MS..FAILED_MS => Grade::Doubtful,
            _ => Grade::Failed,
        },
    }
}

/// The cell of a value: `make` says how it looks, `None` when the server did not tell this part.
pub fn value<T>(seen: &Seen<T>, now_ms: i64, make: impl FnOnce(&T) -> Option<Cell>) -> Cell {
    match grade(seen, now_ms) {
        Grade::Unknown => Cell::unknown(),
        Grade::Failed => failure(seen.error.as_deref()),
        Grade::Good => seen.get().and_then(make).unwrap_or_else(Cell::unknown),
        Grade::Doubtful => match seen.get().and_then(make) {
            Some(mut cell) => {
                cell.pieces.insert(0, ("~".to_owned(), Role::Warn));
                cell
            }
            None => Cell::unknown(),
        },
    }
}

/// A cell with the age of its value, where that is not of now: nobody takes it for the present.
pub fn aged(mut cell: Cell, as_of_ms: i64, now_ms: i64) -> Cell {
    let age = age_ms(now_ms, as_of_ms);
    if age >= OLD_MS {
        let age = super::text::age(age);
        cell.pieces.push((format!(" {age} old"), Role::Label));
    }
    cell
}

/// The cell of a value that is not asked for while its broker is silent: no better than the broker's runtime.
pub fn of_broker<T>(
    broker: &BrokerState,
    seen: &Seen<T>,
    now_ms: i64,
    make: impl FnOnce(&T) -> Option<Cell>,
) -> Cell {
    if broker.is_silent() && grade(&broker.runtime, now_ms) == Grade::Failed && !seen.is_unasked() {
        return Cell::failed();
    }
    value(seen, now_ms, make)
}

/// `denied`, `n/a` and what cannot be read are answers of a kind; everything else is `✗`.
pub(super) fn failure(why: Option<&str>) -> Cell {
    match why.map(Kind::of) {
        Some(Kind::Denied) => Cell::of("denied", Role::Warn),
        Some(Kind::NotSupported) => Cell::text("n/a"),
        Some(Kind::BadReply) => Cell::of("bad reply", Role::Crit),
        Some(Kind::Failure) | None => Cell::failed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ages_from_good_over_doubtful_to_failed() {
        let mut seen = Seen::answered(7, 1_000);
        let at = |seen: &Seen<i32>, now| value(seen, now, |n| Some(Cell::text(n.to_string()))).plain();
        assert_eq!(at(&seen, 100_000), "7");
        seen.error = Some("timed out".into());
        assert_eq!(at(&seen, 5_000), "7");
        assert_eq!(at(&seen, 12_000), "~7");
        assert_eq!(at(&seen, 60_000), "✗");
        assert_eq!(at(&Seen::unasked(), 0), "?");
        assert_eq!(at(&Seen::failed("denied: no permission"), 0), "denied");
        assert_eq!(at(&Seen::failed("n/a: not supported"), 0), "n/a");
        assert_eq!(at(&Seen::failed("bad reply: not JSON"), 0), "bad reply");
    }

    #[test]
    fn a_value_that_was_not_asked_anew_says_how_old_it_is() {
        let at = |now| aged(Cell::count("", 0.0), 1_000, now).plain();
        assert_eq!(at(11_000), "0");
        assert_eq!(at(42_000), "0 41s old");
    }
}
