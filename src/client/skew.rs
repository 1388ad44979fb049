//! Clocks of servers against ours.
//!
//! A broker tells when it started and for how many whole seconds it has been running: its clock reads between that sum
//! and a second more. Every look bounds the difference; several looks bound it better, since the seconds turn at
//! different times of ours.

/// How far a server's clock is from ours, ms: somewhere between the two, positive when it is ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew {
    /// Smallest difference that what it said allows.
    pub low: i64,
    /// Largest one.
    pub high: i64,
}

impl Skew {
    /// By what a broker said of its start and its time since then (`bootTimestamp`, `runtime`) between two times of our
    /// clock. `None` when it does not tell.
    pub fn told(boot_ms: Option<i64>, runtime: Option<&str>, (sent, received): (i64, i64)) -> Option<Self> {
        let least = boot_ms?.checked_add(uptime_ms(runtime?)?)?;
        let most = least.checked_add(999)?;
        Some(Self {
            low: least.checked_sub(received)?,
            high: most.checked_sub(sent)?,
        })
    }

    /// The smallest difference that explains what was said; 0 when none is needed.
    pub fn least(self) -> i64 {
        if self.low > 0 { self.low } else { self.high.min(0) }
    }

    /// What two looks allow. A clock that was set in between, or has drifted out, is as the newer look says.
    #[must_use]
    pub fn narrowed(self, newer: Self) -> Self {
        let (low, high) = (self.low.max(newer.low), self.high.min(newer.high));
        if low > high { newer } else { Self { low, high } }
    }

    /// The largest difference either way, ms.
    pub fn most(self) -> i64 {
        self.low.saturating_abs().max(self.high.saturating_abs())
    }
}

/// `[ 0 days, 0 hours, 3 minutes, 50 seconds ]`, ms.
fn uptime_ms(text: &str) -> Option<i64> {
    let mut total: i64 = 0;
    let mut words = text
        .trim_matches(['[', ']', ' '])
        .split([' ', ','])
        .filter(|w| !w.is_empty());
    let mut any = false;
    while let Some(number) = words.next() {
        let number: i64 = number.parse().ok()?;
        let seconds = match words.next()? {
            "days" | "day" => 86_400,
            "hours" | "hour" => 3_600,
            "minutes" | "minute" => 60,
            "seconds" | "second" => 1,
            _ => return None,
        };
        total = total.checked_add(number.checked_mul(seconds)?)?;
        any = true;
    }
    if any { total.checked_mul(1_000) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_uptime_is_read_as_java_writes_it() {
        let text = "[ 1 days, 2 hours, 3 minutes, 50 seconds ]";
        assert_eq!(uptime_ms(text), Some((86_400 + 7_200 + 180 + 50) * 1_000));
        for wrong in [
            "",
            "[ ]",
            "[ x days ]",
            "[ 1 weeks ]",
            "[ 9223372036854775807 days ]",
        ] {
            assert_eq!(uptime_ms(wrong), None, "{wrong}");
        }
    }

    /// Looks at a clock that is 12 ms ahead, each answered after 2 ms, at different parts of its second.
    #[test]
    fn looks_narrow_a_difference_to_what_it_is() {
        let boot = 1_000_000;
        let look = |sent: i64, ahead: i64| {
            let uptime = (sent + 1 + ahead - boot) / 1_000;
            let text = format!("[ 0 days, 0 hours, 0 minutes, {uptime} seconds ]");
            Skew::told(Some(boot), Some(&text), (sent, sent + 2)).unwrap()
        };
        let one = look(1_005_400, 12);
        assert_eq!((one.least(), one.high - one.low), (0, 1_001));
        let looks = [1_007_405, 1_009_985, 1_012_989, 1_015_990];
        let all = looks.map(|at| look(at, 12)).into_iter().fold(one, Skew::narrowed);
        assert!(
            all.low <= 12 && all.high >= 12 && all.high - all.low <= 8,
            "{all:?}"
        );
        assert!(all.least() > 0 && all.least() <= 12);
        // It was set back by a minute.
        let set = all.narrowed(look(1_100_000, -60_000));
        assert!((-60_000..=-59_000).contains(&set.least()), "{set:?}");
        assert!(set.most() >= 60_000);
        assert_eq!(Skew::told(Some(1), None, (0, 0)), None);
        assert_eq!(Skew::told(None, Some("[ 1 days ]"), (0, 0)), None);
    }
}
